/* rowfold report: records, receipts and trials as one page. */
#include "cli.h"

#include <string.h>

Rc command_report(Cli *c) {
    const List *w = &c->o.words;
    rowfold_report_options o;
    char *page = NULL;
    if (!w->n) return fail(c, F_WORDS, "RECORD...", "a record is missing");
    rowfold_record *r = cli_get(c, sizeof *r * (size_t)w->n);
    Rc rc = cli_open(c);
    for (int i = 0; i < w->n && !rc; i++) {
        char *text;
        const char *slash = strrchr(w->item[i], '/');
        rc = file_read_record(c, w->item[i], &text, &r[i].bytes);
        r[i].name = slash ? slash + 1 : w->item[i];
        r[i].text = text;
    }
    if (rc) return rc;
    rowfold_report_options_init(&o);
    o.markdown = c->o.markdown, o.title = c->o.title;
    const rowfold_status s = rowfold_report(c->ctx, r, w->n, &o, &page);
    if (s) return fail_library(c, s);
    if (c->o.output) rc = file_write(c, c->o.output, page, strlen(page), "", 0);
    if (!rc && c->o.json) {
        Text t = {0};
        json_open(&t, NULL, '{');
        json_str(&t, "format", c->o.markdown ? "markdown" : "html");
        json_int(&t, "records", w->n);
        json_int(&t, "bytes", (int64_t)strlen(page));
        json_str(&t, c->o.output ? "output" : "report", c->o.output ? c->o.output : page);
        json_close(&t, '}');
        rc = json_print(c, &t);
    } else if (!rc && !c->o.output) {
        fputs(page, stdout);
    }
    rowfold_free(c->ctx, page);
    return rc;
}
