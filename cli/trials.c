/* rowfold trials: what the store remembers of candidates that were tried. */
#include "cli.h"

#include <string.h>

const char *filter_words(Cli *c, int from) {
    const char *s = "";
    for (int i = from; i < c->o.words.n; i++) s = cli_text(c, "%s%s%s", s, *s ? " " : "", c->o.words.item[i]);
    return s;
}

void trials_print(Cli *c, const Json *trials, FILE *f) {
    Table t = {.c = c};
    static const char *const titles[] = {"trial", "kernel", "shape", "stage", "median", "status", "plan"};
    for (int i = 0; i < COUNT(titles); i++) table_column(&t, titles[i], i != 0 && i != 4);
    for (const Json *j = trials ? trials->child : NULL; j; j = j->next) {
        const double ns = json_value(j, "median_ns", 0);
        const Json *forgotten = json_get(j, "forgotten");
        table_row(&t);
        table_cell(&t, 0, "%.0f", json_value(j, "id", 0));
        table_cell(&t, 1, "%s", json_text(j, "kernel", ""));
        table_cell(&t, 2, "%s", json_text(j, "shape", ""));
        table_cell(&t, 3, "%s", json_text(j, "stage", ""));
        table_cell(&t, 4, "%s", ns > 0 ? seconds_text(c, ns / 1e9) : "-");
        table_cell(&t, 5, "%s%s", json_text(j, "status", ""), forgotten && forgotten->v != 0 ? ", forgotten" : "");
        table_cell(&t, 6, "%s", json_text(j, "plan", ""));
    }
    table_print(&t, f);
}

/* As one document: scores are for programs that judge policies. */
static Rc print_scores(Cli *c) {
    const char *calibration;
    char *json = NULL;
    Rc rc = calibration_file(c, &calibration);
    if (rc) return rc;
    const rowfold_status s = rowfold_foresee(c->ctx, c->o.store, filter_words(c, 0), calibration, &json);
    if (s) return fail_library(c, s);
    Text t = {0};
    text_put(&t, json, strlen(json));
    rc = json_print(c, &t);
    rowfold_free(c->ctx, json);
    return rc;
}

Rc command_trials(Cli *c) {
    Rc rc = cli_open(c);
    char *json = NULL;
    if (rc) return rc;
    if (c->o.scores) return print_scores(c);
    const rowfold_status s = rowfold_trials(c->ctx, c->o.store, filter_words(c, 0), c->o.limit, &json);
    if (s) return fail_library(c, s);
    const Json *trials = json_read(c, json);
    if (c->o.json) {
        Text t = {0};
        json_open(&t, NULL, '{');
        json_raw(&t, "trials", json);
        json_close(&t, '}');
        rc = json_print(c, &t);
    } else if (trials && trials->child) {
        trials_print(c, trials, stdout);
    } else {
        note(c, "nothing is remembered%s", c->o.words.n ? " that the filter lets through" : "");
    }
    rowfold_free(c->ctx, json);
    return rc;
}
