/* Options -> context -> program -> kernel, the way that all subcommands share. */
#include "cli.h"

#include <string.h>

static void log_line(void *user, int level, const char *line) {
    if (level > 0) note(user, "%s", line); /* errors are said by whoever meets them */
}

static bool starts(const char *s, const char *head) {
    return strncmp(s, head, strlen(head)) == 0;
}

/* Is there a preset of that name, so that kernels for its machine can be planned and emitted without it? */
static bool is_preset(Cli *c, const char *name) {
    rowfold_context *any = NULL;
    rowfold_device *d = NULL;
    const bool is = name && rowfold_context_new(NULL, &any) == ROWFOLD_OK &&
                    rowfold_device_find(any, cli_text(c, "preset:%s", name), &d) == ROWFOLD_OK;
    rowfold_context_free(any);
    return is;
}

Rc cli_open(Cli *c) {
    rowfold_options o;
    rowfold_options_init(&o);
    o.log = log_line;
    o.log_user = c;
    o.isa = c->o.isa;
    o.threads = c->o.threads > 4096 ? 4096 : (int)c->o.threads;
    const rowfold_status s = rowfold_context_new(&o, &c->ctx);
    if (s == ROWFOLD_OK) return RC_OK;
    /* There is no context to ask what went wrong, and of what is passed only the instructions can be off. */
    if (s == ROWFOLD_MEMORY) return fail(c, F_MEMORY, NULL, "there is no memory for a context");
    const char *isa = c->o.isa ? c->o.isa : "",
               *accepted = "portable, and what this processor has of avx512, avx2 and neon";
    if (!is_preset(c, isa)) return fail(c, F_VALUE, accepted, "there are no instructions \"%s\" for host kernels", isa);
    return fail(c, F_VALUE, accepted,
                "this processor cannot run host kernels for --isa \"%s\"; in its place, --device preset:%s plans and "
                "emits for a machine that can",
                isa, isa);
}

const char *cli_types(const Cli *c) {
    return c->o.type ? c->o.type : "f32";
}

static Rc read_source(Cli *c, const char *path) {
    char *text;
    size_t n;
    const Rc rc = file_read_source(c, path, &text, &n);
    if (rc) return rc;
    const rowfold_status s = rowfold_source_parse(c->ctx, path, text, n, &c->source);
    return s ? fail_library(c, s) : RC_OK;
}

Rc cli_program(Cli *c) {
    const List *w = &c->o.words;
    if (w->n < 1 || w->n > 2)
        return fail(c, F_WORDS, "FILE [KERNEL]",
                    w->n ? "\"%s\" is one word too many" : "a file of kernels is missing%s", w->n ? w->item[2] : "");
    Rc rc = c->ctx ? RC_OK : cli_open(c);
    if (!rc) rc = read_source(c, w->item[0]);
    if (rc) return rc;
    const char *kernel = w->n > 1 ? w->item[1] : NULL;
    const rowfold_status s = rowfold_program_new(c->ctx, c->source, kernel, cli_types(c), c->o.consts, &c->program);
    if (s == ROWFOLD_OK) {
        if (!kernel && rowfold_source_count(c->source) > 1)
            note(c, "%s has %d kernels; this is the first, %s", w->item[0], rowfold_source_count(c->source),
                 rowfold_program_name(c->program));
        return RC_OK;
    }
    return fail_library(c, s);
}

int pair_next(Cli *c, const char *text, size_t *at, const char **name, const char **value) {
    const char *p = text + *at;
    while (*p == ',' || *p == ' ') p++;
    if (!*p) return 0;
    const size_t n = strcspn(p, ",");
    char *s = cli_text(c, "%.*s", (int)n, p), *eq = strchr(s, '=');
    *at = (size_t)(p - text) + n;
    if (!eq || eq == s || !eq[1]) return *name = s, -1;
    *eq = 0;
    *name = s, *value = eq + 1;
    return 1;
}

/* A whole plan as it is printed has blanks between its dimensions, a pin has commas. */
static const char *pins(Cli *c) {
    if (!c->o.plan) return c->o.pin;
    char *p = cli_text(c, "%s%s%s", c->o.plan, c->o.pin ? "," : "", c->o.pin ? c->o.pin : "");
    for (char *q = p; *q; q++)
        if (*q == ' ') *q = ',';
    return p;
}

static Rc regime(Cli *c, rowfold_regime *out) {
    const char *r = c->o.regime;
    *out = r && strcmp(r, "cold") == 0 ? ROWFOLD_COLD : ROWFOLD_RESIDENT;
    if (!r || *out == ROWFOLD_COLD || strcmp(r, "resident") == 0) return RC_OK;
    return fail(c, F_VALUE, "resident, cold", "there is no regime \"%s\"", r);
}

Rc cli_compile(Cli *c, int effort, const char *shape, const char *strided) {
    /* run's arrays lie in ordinary memory: where nothing else is asked for they are not copied elsewhere */
    const char *name = c->o.device ? c->o.device : c->o.command == CMD_RUN ? "host" : "best";
    rowfold_status s = rowfold_device_find(c->ctx, name, &c->device);
    if (s) return fail_library(c, s);
    Rc rc;
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    o.device = c->device;
    o.shape = shape;
    o.effort = (rowfold_effort)effort;
    o.pin = pins(c);
    rc = regime(c, &o.regime);
    if (rc) return rc;
    o.search = c->o.search;
    o.strategy = c->o.strategy;
    o.audit_pruning = c->o.audit_pruning;
    o.joint = c->o.joint;
    o.max_compile_seconds = c->o.budget_compile_seconds;
    o.policy = c->o.policy;
    rc = calibration_file(c, &o.calibration);
    if (rc) return rc;
    o.max_candidates = c->o.budget_candidates;
    o.max_seconds = c->o.budget_seconds;
    o.assume_alias = c->o.alias;
    o.strided = strided;
    o.threads = starts(name, "preset:") ? 0 : c->o.threads > 4096 ? 4096 : (int)c->o.threads;
    o.seed = (uint64_t)c->o.seed;
    o.summed_budget = c->o.summed;
    if (c->o.no_store && (c->o.store || c->o.resume))
        return fail(c, F_OPTION, NULL, "--no-store goes with neither --store nor --resume");
    o.store = c->o.no_store ? NULL : c->o.store ? c->o.store : "default";
    o.resume = c->o.resume;
    const bool runs = effort == ROWFOLD_MEASURE || effort == ROWFOLD_EXHAUSTIVE;
    o.progress = progress_step;
    o.progress_user = c;
    progress_start(c);
    s = rowfold_compile(c->ctx, c->program, &o, &c->kernel);
    progress_end();
    if (s == ROWFOLD_STOPPED && progress_stopped())
        return runs ? fail(c, F_STOPPED, NULL, "stopped before any plan was found")
                    : fail(c, F_STOPPED_EARLY, NULL, "stopped before the kernel was compiled");
    return s ? fail_library(c, s) : RC_OK;
}

void json_head(Cli *c, Text *t, const char *shape) {
    json_open(t, NULL, '{');
    json_str(t, "kernel", rowfold_program_name(c->program));
    json_str(t, "types", cli_types(c));
    json_str(t, "shape", shape);
    if (c->device) {
        json_str(t, "device", rowfold_device_name(c->device));
        json_str(t, "identity", rowfold_device_identity(c->device));
    }
}
