/* rowfold bench: the cases of a suite, measured, as a table or as the record. */
#include "cli.h"

#include <string.h>

static const Json *figure(const Json *m, const char *name) {
    const Json *list = m ? json_get(m, "figures") : NULL;
    for (const Json *f = list ? list->child : NULL; f; f = f->next)
        if (strcmp(json_text(f, "name", ""), name) == 0) return f;
    return NULL;
}

static const char *time_of(Cli *c, const Json *m, const char *name) {
    const Json *f = figure(m, name);
    return f ? seconds_text(c, json_value(f, "median_ns", 0) / 1e9) : "-";
}

static const char *share_of(Cli *c, const Json *m, const char *regime) {
    const Json *f = figure(m, cli_text(c, "device.batch.%s", regime)),
               *light = m ? json_get(m, "speed_of_light_ns") : NULL;
    const double ns = light ? json_value(light, regime, 0) : 0, t = f ? json_value(f, "median_ns", 0) : 0;
    return ns > 0 && t > 0 ? cli_text(c, "%.1f%%", 100 * ns / t) : "-";
}

static void add_row(Cli *c, Table *t, const char *name, const Json *m) {
    static const char *const figures[] = {
        "device.batch.resident",     "device.batch.cold",     "device.single.resident",     "device.single.cold",
        "end_to_end.batch.resident", "end_to_end.batch.cold", "end_to_end.single.resident", "end_to_end.single.cold"};
    table_row(t);
    table_cell(t, 0, "%s", name);
    for (int i = 0; i < COUNT(figures); i++) table_cell(t, i + 1, "%s", time_of(c, m, figures[i]));
    table_cell(t, 9, "%s", share_of(c, m, "resident"));
    table_cell(t, 10, "%s", share_of(c, m, "cold"));
}

static void print_figures(Cli *c, const Json *cases) {
    Table t = {.c = c};
    static const char *const titles[] = {"batch", "cold",       "single", "cold",     "e2e batch",
                                         "cold",  "e2e single", "cold",   "of light", "cold"};
    table_column(&t, "case", true);
    for (int i = 0; i < COUNT(titles); i++) table_column(&t, titles[i], false);
    for (const Json *k = cases->child; k; k = k->next) {
        const Json *m = json_get(k, "measurement"), *peers = json_get(k, "peers");
        add_row(c, &t, json_text(k, "id", ""), m);
        for (const Json *p = peers ? peers->child : NULL; p; p = p->next)
            if (!json_get(p, "missing"))
                add_row(
                    c, &t,
                    cli_text(c, "  %s %s%s", json_text(p, "peer", ""), json_text(p, "mode", ""),
                             json_get(p, "check") && json_value(json_get(p, "check"), "ok", 0) > 0 ? "" : " (WRONG)"),
                    p);
    }
    table_print(&t, stdout);
}

static void print_setup(Cli *c, const Json *cases) {
    Table t = {.c = c};
    static const char *const parts[] = {"plan", "lower", "emit", "compile", "load", "first_call"};
    table_column(&t, "set-up", true);
    for (int i = 0; i < COUNT(parts); i++) table_column(&t, parts[i], false);
    for (const Json *k = cases->child; k; k = k->next) {
        const Json *m = json_get(k, "measurement"), *s = m ? json_get(m, "setup") : NULL;
        if (!s) continue;
        table_row(&t);
        table_cell(&t, 0, "%s", json_text(k, "id", ""));
        for (int i = 0; i < COUNT(parts); i++)
            table_cell(&t, i + 1, "%s", seconds_text(c, json_value(s, cli_text(c, "%s_ns", parts[i]), 0) / 1e9));
    }
    table_print(&t, stdout);
}

/* A peer that is missing is one line, however many cases it is missing for. */
static void print_missing(Cli *c, const Json *cases) {
    List said = {0};
    for (const Json *k = cases->child; k; k = k->next) {
        const Json *failed = json_get(k, "failed"), *peers = json_get(k, "peers");
        if (failed)
            printf("failed  %s: %s [%s]\n", json_text(k, "id", ""), json_text(failed, "why", ""),
                   json_text(failed, "slug", ""));
        for (const Json *p = peers ? peers->child : NULL; p; p = p->next) {
            if (!json_get(p, "missing")) continue;
            const char *line = cli_text(c, "peer %s: %s", json_text(p, "peer", ""), json_text(p, "missing", ""));
            bool again = false;
            for (int i = 0; i < said.n; i++) again |= strcmp(said.item[i], line) == 0;
            if (!again) puts(line);
            cli_list(c, &said, line);
        }
    }
}

static bool any_failed(const Json *cases) {
    for (const Json *k = cases ? cases->child : NULL; k; k = k->next)
        if (json_get(k, "failed")) return true;
    return false;
}

Rc command_bench(Cli *c) {
    Suite suite;
    rowfold_evidence_options o;
    char *json = NULL;
    if (c->o.words.n > 1) return fail(c, F_WORDS, "one suite", "\"%s\" is one word too many", c->o.words.item[1]);
    Rc rc = suite_find(c, c->o.words.n ? c->o.words.item[0] : NULL, &suite);
    if (!rc) rc = file_check(c, c->o.output);
    if (!rc) rc = evidence_options(c, &o);
    if (rc) return rc;
    progress_start(c);
    const rowfold_status s = rowfold_bench(c->ctx, suite.name, suite.text, suite.folder, &o, &json);
    progress_end();
    if (s) return fail_library(c, s);
    const Json *cases = json_get(json_read(c, json), "cases");
    if (c->o.output) rc = record_write(c, c->o.output, json);
    if (c->o.json && !rc) {
        rc = record_write(c, NULL, json);
    } else if (!c->o.json) { /* also where the record could not be written: it was measured */
        printf(
            "device  %s\nspan    of the kernel alone (batch, single) and of the caller (e2e); resident, then cold\n\n",
            rowfold_device_identity(c->device));
        print_figures(c, cases);
        putchar('\n');
        print_setup(c, cases);
        print_missing(c, cases);
        if (c->o.output && !rc) printf("record  %s\n", c->o.output);
    }
    rowfold_free(c->ctx, json);
    return rc ? rc : any_failed(cases) ? RC_WRONG : RC_OK;
}
