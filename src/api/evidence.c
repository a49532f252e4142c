/* Suites, catalogs and replays as public calls: options in, a record's text out. */
#include "handle.h"

#include "../drive/evidence.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 9, ROUNDS = 4, MAX_ROUNDS = 10000, ARCHIVE_SAMPLES = 16 };

void rowfold_evidence_options_init(rowfold_evidence_options *o) {
    if (o) *o = (rowfold_evidence_options){.struct_size = sizeof *o, .effort = ROWFOLD_MEASURE, .seed = 1};
}

typedef struct Job { /* one call */
    Call call;
    rowfold_evidence_options o;
    EvidenceAsk ask;
    Evidence evidence;
    const char *name, *suite, *folder;
    const char *text[2];
    size_t bytes[2];
    const char *out;
} Job;
typedef Err Work(Job *j);

static bool tell(void *user, const EvidenceProgress *p) {
    const rowfold_evidence_options *o = &((Job *)user)->o;
    const rowfold_evidence_progress r = {p->done, p->total, p->what, p->elapsed_s};
    return o->progress(o->progress_user, &r) != 0;
}

static Err read_figures(Cx *cx, const char *text, uint32_t *out) {
    Buf names = buf_new(cx->a);
    for (int i = 0; i < FIGURES; i++) buf_fmt(&names, "%s%s", i ? " " : "", figure_name(i));
    if (!text || !*text) return *out = FIGURES_ALL, OK;
    for (*out = 0; *text;) {
        const size_t n = strcspn(text, ",");
        const char *name = arena_str(cx->a, text, n);
        int f;
        text += n + (text[n] == ',');
        if (!figure_find(name, &f)) return diag(cx, S_ARG, NOWHERE, names.s, "there is no figure '%.60s'", name);
        *out |= 1u << f;
    }
    return OK;
}

static const char *kept(Cx *cx, const char *s) {
    return s && *s ? arena_printf(cx->a, "%s", s) : NULL;
}

/* A suite is called after its file. */
static const char *suite_name(Cx *cx, const char *file) {
    const size_t n = strlen(file), tail = strlen(".suite");
    return n > tail && str_eq(file + n - tail, ".suite") ? arena_str(cx->a, file, n - tail) : file;
}

static Err read_options(Job *j) {
    Cx *cx = &j->call.cx;
    const rowfold_evidence_options *o = &j->o;
    rowfold_context *ctx = j->call.ctx;
    rowfold_device *d = o->device;
    if ((unsigned)o->effort > ROWFOLD_RECALL || o->samples < 0 || o->samples > FIGURE_SAMPLES || !(o->sample_s >= 0) ||
        !(o->warmup_s >= 0) || o->sample_s > 60 || o->warmup_s > 600 || o->rotate_bytes < 0 || o->threads < 0 ||
        o->max_candidates < 0 || !(o->max_seconds >= 0) || o->archive_bytes < 0)
        return diag(cx, S_ARG, NOWHERE, "0 or more; up to 101 samples of up to 60 s",
                    "an option of a measurement is out of its range");
    if (o->rounds < 0 || o->rounds % 2 || o->rounds > MAX_ROUNDS)
        return diag(cx, S_ARG, NOWHERE, "an even number up to 10000",
                    "rounds is %d: each order of a pair comes equally often", o->rounds);
    if (!d->dev)
        return diag(cx, S_DRIVE_PRESET, NOWHERE, "a device of `rowfold devices`",
                    "%s is not here, so nothing can be measured on it", d->name);
    j->ask =
        (EvidenceAsk){.dev = d->dev,
                      .caps = &d->caps,
                      .identity = d->identity,
                      .al = &ctx->al,
                      .suite = suite_name(&j->call.cx, j->name),
                      .worker = o->worker ? arena_printf(cx->a, "%s", o->worker) : NULL,
                      .effort = (Effort)o->effort,
                      .policy = kept(cx, o->policy),
                      .open = kept(cx, o->search),
                      .pin = kept(cx, o->pin),
                      .store = kept(cx, o->store),
                      .max_candidates = o->max_candidates,
                      .max_seconds = o->max_seconds,
                      .summed_budget = o->summed_budget != 0,
                      .peers = kept(cx, o->peers),
                      .rounds = o->rounds ? o->rounds : ROUNDS,
                      .measure = {.figures = {.threads = o->threads,
                                              .samples = o->samples ? o->samples : SAMPLES,
                                              .sample_ns = o->sample_s > 0 ? (int64_t)(o->sample_s * 1e9) : 20000000,
                                              .warmup_ns = o->warmup_s > 0 ? (int64_t)(o->warmup_s * 1e9) : 150000000,
                                              .rotate_bytes = o->rotate_bytes ? o->rotate_bytes : 200000000},
                                  .seed = o->seed,
                                  .whole_bytes = o->archive_bytes ? o->archive_bytes : 1 << 18,
                                  .archive_samples = ARCHIVE_SAMPLES}};
    if (o->progress) j->ask.progress = tell, j->ask.user = j;
    Err err = read_figures(cx, o->figures, &j->ask.measure.figures.figures);
    int first = figure_at(SPAN_DEVICE, MODE_BATCH, REGIME_COLD);
    const uint32_t taken = j->ask.measure.figures.figures;
    if (!err && o->primary && (!figure_find(o->primary, &first) || !(taken >> first & 1)))
        return diag(cx, S_ARG, NOWHERE, "a figure that is taken", "primary is '%.60s'", o->primary);
    while (!err && !(taken >> first & 1)) first = (first + 1) % FIGURES;
    j->ask.primary = figure_name(first);
    return err;
}

static rowfold_status run(rowfold_context *ctx, const rowfold_evidence_options *given, Job *j, Work *work, char **out) {
    rowfold_evidence_options_init(&j->o);
    if (!out || (given && (given->struct_size < sizeof(size_t) || given->struct_size > sizeof *given)))
        return call_wrong(ctx, S_ARG,
                          "options from rowfold_evidence_options_init and a place for the result are needed");
    if (given) memcpy(&j->o, given, given->struct_size);
    if (!j->o.device) {
        rowfold_status s = rowfold_device_find(ctx, "best", &j->o.device);
        if (s != ROWFOLD_OK) return s;
    }
    if (j->o.device->ctx != ctx) return call_wrong(ctx, S_ARG, "the device is of another context");
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    call_begin(&j->call, ctx, a);
    if (setjmp(j->call.trap.at)) {
        evidence_free(&j->evidence);
        arena_free(a);
        return call_memory(ctx);
    }
    Err err = read_options(j);
    if (!err) err = work(j);
    const rowfold_status s = call_end(&j->call, err);
    char *copy = NULL;
    if (j->out) {
        const size_t n = strlen(j->out) + 1;
        copy = ctx->al.get(ctx->al.user, n);
        if (copy) memcpy(copy, j->out, n);
    }
    const bool lost = j->out && !copy;
    evidence_free(&j->evidence);
    arena_free(a);
    if (lost) return call_memory(ctx);
    if (copy) *out = copy;
    return s;
}

static Err suite(Job *j, Case **c, int *n) {
    return suite_read(&j->call.cx, &j->call.ctx->al, j->name, j->suite, j->folder, c, n);
}

static Err bench(Job *j) {
    Case *c;
    int n;
    Err err = suite(j, &c, &n);
    return err ? err : evidence_bench(&j->call.cx, &j->ask, c, n, &j->evidence, &j->out);
}

static Err freeze(Job *j) {
    Case *c;
    int n;
    Err err = suite(j, &c, &n);
    j->ask.record = j->o.keep;
    return err ? err : evidence_freeze(&j->call.cx, &j->ask, c, n, &j->evidence, &j->out);
}

static Err verify(Job *j) {
    return evidence_verify(&j->call.cx, &j->ask, j->text[0], j->bytes[0], &j->evidence, &j->out);
}

static Err replay(Job *j) {
    j->ask.record = j->folder;
    return evidence_replay(&j->call.cx, &j->ask, j->text, j->bytes, &j->evidence, &j->out);
}

rowfold_status rowfold_bench(rowfold_context *ctx, const char *name, const char *text, const char *folder,
                             const rowfold_evidence_options *o, char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!name || !text) return call_wrong(ctx, S_ARG, "rowfold_bench needs a suite with a name");
    return run(ctx, o, &(Job){.name = name, .suite = text, .folder = folder}, bench, json);
}

rowfold_status rowfold_catalog_freeze(rowfold_context *ctx, const char *name, const char *text, const char *folder,
                                      const rowfold_evidence_options *o, char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!name || !text) return call_wrong(ctx, S_ARG, "rowfold_catalog_freeze needs a suite with a name");
    return run(ctx, o, &(Job){.name = name, .suite = text, .folder = folder}, freeze, json);
}

rowfold_status rowfold_catalog_verify(rowfold_context *ctx, const char *text, size_t bytes,
                                      const rowfold_evidence_options *o, char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!text) return call_wrong(ctx, S_ARG, "rowfold_catalog_verify needs the text of a catalog");
    return run(ctx, o, &(Job){.name = "", .text = {text}, .bytes = {bytes}}, verify, json);
}

rowfold_status rowfold_record_check(rowfold_context *ctx, const char *text, size_t bytes, const char *format) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!text) return call_wrong(ctx, S_ARG, "rowfold_record_check needs the text of a record");
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Evidence e = {0};
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        evidence_free(&e);
        arena_free(a);
        return call_memory(ctx);
    }
    const rowfold_status s = call_end(&c, record_read(&c.cx, text, bytes, format, &e.root));
    evidence_free(&e);
    arena_free(a);
    return s;
}

rowfold_status rowfold_replay(rowfold_context *ctx, const char *reference, size_t reference_bytes,
                              const char *candidate, size_t candidate_bytes, const char *record,
                              const rowfold_evidence_options *o, char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!reference || !candidate || !record)
        return call_wrong(ctx, S_ARG, "rowfold_replay needs two catalogs and the path of the record");
    Job j = {.name = "", .text = {reference, candidate}, .bytes = {reference_bytes, candidate_bytes}, .folder = record};
    return run(ctx, o, &j, replay, json);
}

void rowfold_replay_done(const char *record) {
    char path[4096];
    if (record && snprintf(path, sizeof path, "%s.part", record) < (int)sizeof path) unlink(path);
}
