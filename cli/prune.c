/* rowfold tune --audit-pruning: of some cases, what a staged search loses beside an exhaustive one. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { SUITE_WORDS = 16 };

typedef struct Case {
    const char *file, *kernel, *shape, *type, *pin, *search, *consts; /* NULL: as the options say */
} Case;
typedef struct Cases {
    Case *item;
    int n, cap;
} Cases;

static void add(Cli *c, Cases *all, Case one) {
    if (all->n == all->cap) {
        const int cap = all->cap ? 2 * all->cap : 16;
        Case *more = cli_get(c, sizeof *more * (size_t)cap);
        if (all->n) memcpy(more, all->item, sizeof *more * (size_t)all->n);
        all->item = more, all->cap = cap;
    }
    all->item[all->n++] = one;
}

/* FILE KERNEL SHAPE TYPES, then pin=, open= and const=; FILE as seen from the suite's folder. */
static Rc suite_line(Cli *c, Cases *all, const char *suite, int number, char *line) {
    const char *word[SUITE_WORDS];
    int n = 0;
    line[strcspn(line, "#")] = 0;
    for (char *at = strtok(line, " \t\r"); at && n < SUITE_WORDS; at = strtok(NULL, " \t\r")) word[n++] = at;
    if (!n) return RC_OK;
    if (n < 4) return fail(c, F_VALUE, "FILE KERNEL SHAPE TYPES", "%s, line %d, has %d of 4 words", suite, number, n);
    const char *slash = strrchr(suite, '/');
    const int folder = slash && word[0][0] != '/' ? (int)(slash - suite) + 1 : 0;
    Case one = {
        .file = cli_text(c, "%.*s%s", folder, suite, word[0]), .kernel = word[1], .shape = word[2], .type = word[3]};
    for (int i = 4; i < n; i++) {
        const char *eq = strchr(word[i], '=');
        if (strncmp(word[i], "pin=", 4) == 0) one.pin = eq + 1;
        if (strncmp(word[i], "open=", 5) == 0) one.search = eq + 1;
        if (strncmp(word[i], "const=", 6) == 0) one.consts = eq + 1;
    }
    add(c, all, one);
    return RC_OK;
}

static Rc suite_read(Cli *c, const char *suite, Cases *all) {
    char *text;
    size_t n;
    Rc rc = file_read_source(c, suite, &text, &n);
    int number = 0;
    for (char *at = text; !rc && *at;) {
        char *line = at, *end = strchr(at, '\n');
        at = end ? end + 1 : at + strlen(at);
        if (end) *end = 0;
        rc = suite_line(c, all, suite, ++number, line);
    }
    return rc;
}

static bool is_suite(const char *word) {
    const size_t n = strlen(word), tail = strlen(".suite");
    return n > tail && strcmp(word + n - tail, ".suite") == 0;
}

static Rc cases_read(Cli *c, Cases *all) {
    const List *w = &c->o.words;
    Rc rc = RC_OK;
    if (w->n && is_suite(w->item[0])) {
        for (int i = 0; i < w->n && !rc; i++) rc = suite_read(c, w->item[i], all);
        return rc;
    }
    if (w->n < 1 || w->n > 2 || (!c->o.cases.n && !c->o.shape))
        return fail(c, F_WORDS, "a .suite file, or FILE [KERNEL] with --case SHAPE", "no cases to audit");
    for (int i = 0; i < (c->o.cases.n ? c->o.cases.n : 1); i++)
        add(c, all,
            (Case){.file = w->item[0],
                   .kernel = w->n > 1 ? w->item[1] : NULL,
                   .shape = c->o.cases.n ? c->o.cases.item[i] : c->o.shape});
    return RC_OK;
}

/* What a case does not say stays as the options have it. */
static Rc audit(Cli *c, const Case *one, const char **json) {
    const Options was = c->o;
    c->o.words = (List){0};
    cli_list(c, &c->o.words, one->file);
    if (one->kernel) cli_list(c, &c->o.words, one->kernel);
    if (one->type) c->o.type = one->type;
    if (one->pin) c->o.pin = one->pin;
    if (one->search) c->o.search = one->search;
    if (one->consts) c->o.consts = one->consts;
    c->o.shape = one->shape, c->o.audit_pruning = true;
    Rc rc = cli_program(c);
    if (!rc) rc = cli_compile(c, ROWFOLD_EXHAUSTIVE, one->shape, c->o.strided);
    if (!rc) *json = cli_text(c, "%s", rowfold_kernel_text(c->kernel, ROWFOLD_PRUNING));
    rowfold_kernel_free(c->kernel);
    rowfold_program_free(c->program);
    rowfold_source_free(c->source);
    c->kernel = NULL, c->program = NULL, c->source = NULL;
    c->o = was;
    return rc;
}

static void row(Cli *c, Table *t, const Case *one, const char *json) {
    const Json *j = json_read(c, json), *all = json_get(j, "exhaustive"), *staged = json_get(j, "staged");
    const double regret = json_value(j, "regret", 0);
    int k = 0;
    table_row(t);
    table_cell(t, k++, "%s", one->kernel ? one->kernel : one->file);
    table_cell(t, k++, "%s", one->shape);
    table_cell(t, k++, "%.0f", json_value(j, "legal", 0));
    table_cell(t, k++, "%.0f", json_value(staged, "timed", 0));
    table_cell(t, k++, "%s", seconds_text(c, json_value(staged, "seconds", 0)));
    table_cell(t, k++, "%s", seconds_text(c, json_value(all, "seconds", 0)));
    table_cell(t, k++, "%.0f", json_value(j, "place", 0));
    table_cell(t, k++, "%s", json_text(j, "pruned_by", ""));
    table_cell(t, k++, "%.1f%%", 100 * regret);
    table_cell(t, k++, "%s", regret == 0 ? "same plan" : json_value(j, "tie", 0) != 0 ? "tie" : "resolved");
}

Rc command_audit(Cli *c) {
    Cases all = {0};
    Text doc = {0};
    Table t = {.c = c};
    static const char *const titles[] = {"kernel",          "shape", "legal",     "timed",  "staged took",
                                         "exhaustive took", "place", "pruned by", "regret", ""};
    for (int i = 0; i < COUNT(titles); i++) table_column(&t, titles[i], i < 2 || i == 7 || i == 9);
    Rc rc = cases_read(c, &all);
    json_open(&doc, NULL, '{');
    json_open(&doc, "cases", '[');
    double worst = 0;
    int audited = 0, by_ranking = 0; /* the model passed the winner over */
    for (int i = 0; i < all.n && !rc && !progress_stopped(); i++) {
        const char *json;
        rc = audit(c, &all.item[i], &json);
        if (rc) break;
        const Json *found = json_read(c, json);
        const double regret = json_value(found, "regret", 0);
        audited++;
        by_ranking += strcmp(json_text(found, "pruned_by", ""), "ranking") == 0;
        if (regret > worst) worst = regret;
        json_open(&doc, NULL, '{');
        json_str(&doc, "kernel", all.item[i].kernel ? all.item[i].kernel : all.item[i].file);
        json_str(&doc, "shape", all.item[i].shape);
        json_raw(&doc, "audit", json);
        json_close(&doc, '}');
        row(c, &t, &all.item[i], json);
    }
    json_close(&doc, ']');
    json_num(&doc, "worst_regret", worst);
    json_int(&doc, "pruned_by_ranking", by_ranking);
    json_bool(&doc, "interrupted", progress_stopped());
    json_close(&doc, '}');
    if (c->o.json && !rc) return json_print(c, &doc);
    text_free(&doc);
    if (t.rows) table_print(&t, stdout);
    if (t.rows && progress_stopped()) printf("interrupted: the searches of the last case are not whole\n");
    if (t.rows)
        printf("worst regret %.1f%%; the ranking passed over %d of %d winners\n", 100 * worst, by_ranking, audited);
    return rc;
}
