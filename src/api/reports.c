/* Records -> a report, as a public call. */
#include "handle.h"

#include "../drive/report.h"

#include <string.h>

void rowfold_report_options_init(rowfold_report_options *o) {
    if (o) *o = (rowfold_report_options){.struct_size = sizeof *o};
}

typedef struct Job { /* one call */
    Call call;
    Report own;
    ReportRecord *record;
} Job;

static Err make(Job *j, const rowfold_record *r, int n, const rowfold_report_options *o, const char **out) {
    Cx *cx = &j->call.cx;
    j->record = NEWN(cx->a, ReportRecord, n);
    for (int i = 0; i < n; i++) j->record[i] = (ReportRecord){r[i].name ? r[i].name : "", r[i].text, r[i].bytes};
    return report_make(cx, j->record, n, o->markdown != 0, o->title, &j->own, out);
}

rowfold_status rowfold_report(rowfold_context *ctx, const rowfold_record *records, int count,
                              const rowfold_report_options *given, char **text) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    rowfold_report_options o;
    rowfold_report_options_init(&o);
    if (!text || !records || count < 1 ||
        (given && (given->struct_size < sizeof(size_t) || given->struct_size > sizeof *given)))
        return call_wrong(ctx, S_ARG,
                          "records, options from rowfold_report_options_init and a place for the result are needed");
    for (int i = 0; i < count; i++)
        if (!records[i].text) return call_wrong(ctx, S_ARG, "record %d has no text", i);
    if (given) memcpy(&o, given, given->struct_size);
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Job j = {0};
    call_begin(&j.call, ctx, a);
    if (setjmp(j.call.trap.at)) {
        report_free(&j.own);
        arena_free(a);
        return call_memory(ctx);
    }
    const char *out = NULL;
    const rowfold_status s = call_end(&j.call, make(&j, records, count, &o, &out));
    report_free(&j.own);
    const size_t n = s == ROWFOLD_OK ? strlen(out) + 1 : 0;
    char *copy = n ? ctx->al.get(ctx->al.user, n) : NULL;
    if (copy) memcpy(copy, out, n);
    arena_free(a);
    if (s != ROWFOLD_OK) return s;
    return copy ? (*text = copy, ROWFOLD_OK) : call_memory(ctx);
}
