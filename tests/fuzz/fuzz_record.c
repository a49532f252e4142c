/* Any bytes as a record, a catalog, a suite, a calibration: checked, verified against this machine, shown as a page, in
 * every case without a fault. A hash keeps what is altered away from all that comes after it, so that each input is
 * also tried with the hash that it ought to have. */
#include "../../include/rowfold.h"
#include "../../src/drive/drive.h"
#include "../../src/drive/evidence.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MUST(x)            \
    do {                   \
        if (!(x)) abort(); \
    } while (0)

static rowfold_context *ctx;

static void leave(void) {
    rowfold_context_free(ctx);
}

/* Everything that reads a record's text. sealed: its hash is right and its text canonical. */
static void read_record(const char *text, size_t n, bool sealed) {
    rowfold_evidence_options o;
    rowfold_evidence_options_init(&o);
    char *out = NULL;
    const rowfold_status s = rowfold_record_check(ctx, text, n, NULL);
    MUST(s == ROWFOLD_OK || *rowfold_last_error(ctx)->slug);
    if (sealed) MUST(s == ROWFOLD_OK || strcmp(rowfold_last_error(ctx)->slug, "record.altered") != 0);
    rowfold_catalog_verify(ctx, text, n, &o, &out);
    rowfold_free(ctx, out);
    const rowfold_record r = {"fuzz.json", text, n};
    for (int markdown = 0; markdown < 2; markdown++) {
        rowfold_report_options p;
        rowfold_report_options_init(&p);
        p.markdown = markdown;
        out = NULL;
        if (rowfold_report(ctx, &r, 1, &p, &out) == ROWFOLD_OK) MUST(out && *out);
        rowfold_free(ctx, out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!ctx) {
        rowfold_options o;
        rowfold_options_init(&o);
        o.cache_dir = "";
        MUST(rowfold_context_new(&o, &ctx) == ROWFOLD_OK);
        atexit(leave);
    }
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    MUST(cx.a);
    const char *text = arena_str(cx.a, (const char *)data, n);
    read_record(text, n, false);
    json_t *j = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(j)) {
        record_seal(&cx, j, "hash");
        const char *sealed = record_print(&cx, j);
        read_record(sealed, strlen(sealed), true);
    }
    json_decref(j);
    Case *c = NULL;
    int count = 0;
    const CostPolicy *policy;
    double coef[MAX_COEFS];
    char sha[65];
    const Err e = suite_read(&cx, &alloc_libc, "fuzz", text, "no-such-folder", &c, &count);
    MUST((e == OK) == (cx.ndiags == 0));
    calibration_read(&cx, text, n, "fuzz", &policy, coef, sha);
    arena_free(cx.a);
    return 0;
}
