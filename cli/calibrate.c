/* rowfold calibrate: times a device's own speeds, and writes the coefficients of the cost policy that they give. */
#include "cli.h"

#include <string.h>

static int step(void *user, int done, int total, double seconds) {
    const rowfold_progress p = {.tried = done,
                                .total = total,
                                .elapsed_s = seconds,
                                .best_plan = "",
                                .reasons = "",
                                .left_s = done ? seconds / done * (total - done) : -1};
    return progress_step(user, &p);
}

static void show(Cli *c, const Json *j) {
    Table t = {.c = c};
    table_column(&t, "coefficient", true);
    table_column(&t, "fitted", false);
    table_column(&t, "nominal", false);
    table_column(&t, "unit", true);
    const Json *list = json_get(j, "coefficients");
    for (const Json *k = list ? list->child : NULL; k; k = k->next) {
        if (!(json_value(k, "nominal", 0) > 0)) continue; /* of another kind of machine */
        table_row(&t);
        table_cell(&t, 0, "%s", json_text(k, "name", ""));
        table_cell(&t, 1, "%.4g", json_value(k, "value", 0));
        table_cell(&t, 2, "%.4g", json_value(k, "nominal", 0));
        table_cell(&t, 3, "%s", json_text(k, "unit", ""));
    }
    table_print(&t, stdout);
    int timed = 0, refused = 0;
    list = json_get(j, "probes");
    for (const Json *k = list ? list->child : NULL; k; k = k->next) *(json_get(k, "refused") ? &refused : &timed) += 1;
    const Json *trials = json_get(j, "trials");
    if (trials)
        printf("%.0f trials of %.0f problems; ", json_value(trials, "count", 0), json_value(trials, "problems", 0));
    else
        printf("%d launch%s timed, %d not possible here; ", timed, timed == 1 ? "" : "es", refused);
    printf("error of the policy %.3f with nominal coefficients, %.3f with "
           "fitted ones\n",
           json_value(j, "error_nominal", 0), json_value(j, "error_fitted", 0));
    list = json_get(trials ? trials : j, "held");
    if (list && list->child) {
        printf("left where they were, since %s:",
               trials ? "the trials say too little of them (those of other kernels and shapes may say more)"
                      : "they would be a hundred times off (other work on the machine does that)");
        for (const Json *k = list->child; k; k = k->next) printf(" %s", k->s);
        printf("\n");
    }
    printf("hash %s\n", json_text(j, "hash", ""));
}

static Rc finish(Cli *c, char *json) {
    Rc rc = RC_OK;
    if (c->o.output) rc = file_write(c, c->o.output, json, strlen(json), "\n", 1);
    if (!rc && c->o.json) {
        Text t = {0};
        text_put(&t, json, strlen(json));
        rc = json_print(c, &t);
    } else if (!rc) {
        const Json *j = json_read(c, json);
        if (j) show(c, j);
        if (!c->o.output) note(c, "nothing was written: -o FILE keeps it, and --calibration FILE uses it");
    }
    rowfold_free(c->ctx, json);
    return rc;
}

Rc calibration_file(Cli *c, const char **text) {
    char *read = NULL;
    size_t n;
    const Rc rc = c->o.calibration ? file_read_source(c, c->o.calibration, &read, &n) : RC_OK;
    *text = read;
    if (read && (!n || memchr(read, 0, n)))
        return fail(c, F_VALUE, "a file that rowfold calibrate wrote", "--calibration %s is empty, or no text",
                    c->o.calibration);
    return rc;
}

static Rc from_trials(Cli *c) {
    const char *start;
    char *json = NULL;
    Rc rc = calibration_file(c, &start);
    if (rc) return rc;
    const rowfold_status s = rowfold_calibrate_trials(c->ctx, c->o.store, filter_words(c, 0), start, &json);
    return s ? fail_library(c, s) : finish(c, json);
}

Rc command_calibrate(Cli *c) {
    if (c->o.words.n && !c->o.from_trials)
        return fail(c, F_WORDS, "rowfold calibrate [OPTION...]", "calibrate takes no words without --trials");
    if (c->o.from_trials && c->o.device)
        return fail(c, F_WORDS, "rowfold calibrate --trials device=PART",
                    "calibrate --trials asks no device: the store's trials say of which they are");
    Rc rc = file_check(c, c->o.output);
    if (!rc) rc = cli_open(c);
    if (rc) return rc;
    if (c->o.from_trials) return from_trials(c);
    rowfold_status s = rowfold_device_find(c->ctx, c->o.device ? c->o.device : "best", &c->device);
    if (s) return fail_library(c, s);
    char *json = NULL;
    progress_start(c);
    s = rowfold_calibrate(c->ctx, c->device, step, c, &json);
    progress_end();
    if (s == ROWFOLD_STOPPED) return fail(c, F_STOPPED_EARLY, NULL, "stopped before the calibration was done");
    return s ? fail_library(c, s) : finish(c, json);
}
