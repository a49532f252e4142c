/* rowfold catalog: freeze the plans of a suite, show and verify what was frozen. */
#include "cli.h"

#include <string.h>

static void print(Cli *c, const Json *catalog) {
    const Json *from = json_get(catalog, "provenance"), *device = from ? json_get(from, "device") : NULL;
    printf("suite   %s\nhash    %s\ndevice  %s\nrowfold %s\n\n", json_text(catalog, "suite", ""),
           json_text(catalog, "hash", ""), device ? json_text(device, "identity", "") : "",
           from ? json_text(from, "rowfold", "") : "");
    Table t = {.c = c};
    static const char *const titles[] = {"candidates", "refused", "timed", "unit"};
    table_column(&t, "case", true);
    for (int i = 0; i < COUNT(titles); i++) table_column(&t, titles[i], i == 3);
    table_column(&t, "plan", true);
    const Json *cases = json_get(catalog, "cases");
    for (const Json *k = cases ? cases->child : NULL; k; k = k->next) {
        const Json *n = json_get(k, "counts"), *unit = json_get(k, "unit");
        table_row(&t);
        table_cell(&t, 0, "%s", json_text(k, "id", ""));
        for (int i = 0; i < 3; i++) table_cell(&t, i + 1, "%.0f", n ? json_value(n, titles[i], 0) : 0);
        table_cell(&t, 4, "%.12s", unit ? json_text(unit, "sha256", "") : "");
        table_cell(&t, 5, "%s", json_text(k, "plan", ""));
    }
    table_print(&t, stdout);
}

static Rc freeze(Cli *c, const char *word) {
    Suite suite;
    rowfold_evidence_options o;
    char *json = NULL;
    Rc rc = suite_find(c, word, &suite);
    if (!rc && !c->o.output && !c->o.json)
        rc = fail(c, F_OPTION, "-o FILE, or --json", "there is no place for the catalog");
    if (!rc) rc = file_check(c, c->o.output);
    if (!rc) rc = evidence_options(c, &o);
    if (rc) return rc;
    o.keep = c->o.output;
    progress_start(c);
    const rowfold_status s = rowfold_catalog_freeze(c->ctx, suite.name, suite.text, suite.folder, &o, &json);
    progress_end();
    if (s) return fail_library(c, s);
    if (c->o.output) rc = record_write(c, c->o.output, json);
    if (!rc) rowfold_replay_done(c->o.output);
    if (!rc && c->o.json)
        rc = record_write(c, NULL, json);
    else if (!rc)
        print(c, json_read(c, json));
    rowfold_free(c->ctx, json);
    return rc;
}

static Rc show(Cli *c, const char *path) {
    char *text;
    size_t n;
    Rc rc = cli_open(c);
    if (!rc) rc = file_read_record(c, path, &text, &n);
    if (rc) return rc;
    const rowfold_status s = rowfold_record_check(c->ctx, text, n, "rowfold-catalog-1");
    if (s) return fail_library(c, s);
    if (c->o.json)
        fputs(text, stdout);
    else
        print(c, json_read(c, text));
    return RC_OK;
}

static Rc verify(Cli *c, const char *path) {
    rowfold_evidence_options o;
    char *text, *json = NULL;
    size_t n;
    Rc rc = evidence_options(c, &o);
    if (!rc) rc = file_read_record(c, path, &text, &n);
    if (rc) return rc;
    progress_start(c);
    const rowfold_status s = rowfold_catalog_verify(c->ctx, text, n, &o, &json);
    progress_end();
    if (s && !json) return fail_library(c, s);
    const Json *list = json_read(c, json);
    for (const Json *k = list ? list->child : NULL; k && !c->o.json; k = k->next)
        printf("%-40s %s\n", json_text(k, "id", ""),
               json_value(k, "ok", 0) > 0 ? "as frozen" : json_text(k, "why", ""));
    if (s)
        rc = fail_library(c, s);
    else if (c->o.json)
        puts(json);
    rowfold_free(c->ctx, json);
    return rc;
}

Rc command_catalog(Cli *c) {
    const List *w = &c->o.words;
    const char *what = w->n ? w->item[0] : "", *word = w->n > 1 ? w->item[1] : NULL;
    if (w->n > 2)
        return fail(c, F_WORDS, "freeze SUITE, show FILE, verify FILE", "\"%s\" is one word too many", w->item[2]);
    if (strcmp(what, "freeze") == 0) return freeze(c, word);
    if (word && strcmp(what, "show") == 0) return show(c, word);
    if (word && strcmp(what, "verify") == 0) return verify(c, word);
    return fail(c, F_WORDS, "freeze SUITE, show FILE, verify FILE", "catalog does not know what to do");
}
