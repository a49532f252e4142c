/* rowfold replay: two catalogs compared, the record in a file. */
#include "cli.h"

#include <string.h>

static const char *ratio(Cli *c, const Json *r, const char *key) {
    const Json *v = json_get(r, key);
    return v && v->kind == JSON_NUMBER ? cli_text(c, "%.3f", v->v) : "-";
}

static void add_row(Cli *c, Table *t, const char *name, const Json *r) {
    const Json *b = json_get(r, "bootstrap");
    table_row(t);
    table_cell(t, 0, "%s", name);
    table_cell(t, 1, "%s", ratio(c, r, "median"));
    table_cell(t, 2, "%s", ratio(c, r, "min"));
    table_cell(t, 3, "%s", ratio(c, r, "max"));
    if (b && b->kind == JSON_OBJECT) table_cell(t, 4, "%s to %s", ratio(c, b, "low"), ratio(c, b, "high"));
    table_cell(t, 5, "%s", json_text(r, "verdict", ""));
}

static void print(Cli *c, const Json *record, const char *path) {
    const Json *options = json_get(record, "options"), *results = json_get(record, "results");
    const Json *floors = json_get(record, "floors"), *overall = json_get(record, "overall");
    const char *figure = json_text(options, "primary", "");
    printf("figure  %s: reference's time over the candidate's, %.0f round%s\n", figure,
           json_value(options, "rounds", 0), plural((long long)json_value(options, "rounds", 0)));
    printf("floor   %.3f in ln of the median: below it nothing is resolved\n\n", json_value(floors, figure, 0));
    Table t = {.c = c};
    table_column(&t, "case", true);
    table_column(&t, "median", false);
    table_column(&t, "min", false);
    table_column(&t, "max", false);
    table_column(&t, "bootstrap 95%", true);
    table_column(&t, "verdict", true);
    for (const Json *r = results ? results->child : NULL; r; r = r->next)
        if (strcmp(json_text(r, "figure", ""), figure) == 0) add_row(c, &t, json_text(r, "case", ""), r);
    const Json *all = overall ? json_get(overall, figure) : NULL;
    if (all) add_row(c, &t, "all that changed", all);
    table_print(&t, stdout);
    printf("\nThe bootstrap interval describes these rounds and enters no verdict.\nrecord  %s\nhash    %s\n", path,
           json_text(record, "hash", ""));
}

Rc command_replay(Cli *c) {
    rowfold_evidence_options o;
    char *text[2], *json = NULL;
    size_t n[2];
    if (c->o.words.n != 2) return fail(c, F_WORDS, "REFERENCE CANDIDATE", "replay takes two catalogs");
    if (!c->o.output) return fail(c, F_OPTION, "-o RECORD", "there is no place for the record");
    Rc rc = evidence_options(c, &o);
    for (int i = 0; i < 2 && !rc; i++) rc = file_read_record(c, c->o.words.item[i], &text[i], &n[i]);
    if (rc) return rc;
    progress_start(c);
    const rowfold_status s = rowfold_replay(c->ctx, text[0], n[0], text[1], n[1], c->o.output, &o, &json);
    progress_end();
    if (s) return fail_library(c, s);
    rc = record_write(c, c->o.output, json);
    if (!rc) rowfold_replay_done(c->o.output);
    if (!rc && c->o.json)
        rc = record_write(c, NULL, json);
    else if (!rc)
        print(c, json_read(c, json), c->o.output);
    rowfold_free(c->ctx, json);
    return rc;
}
