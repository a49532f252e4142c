/* Records -> one page for people: what was measured and on what, what the words mean, then results, each with its
 * range and its controls. Nothing is computed here that a record does not hold or determine. */
#include "report.h"

#include <string.h>
#include <time.h>

const char *rec_str(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

double rec_num(const json_t *o, const char *key) {
    const json_t *j = json_object_get(o, key);
    return json_is_number(j) ? json_number_value(j) : (double)NAN;
}

const json_t *rec_figure(const json_t *measurement, const char *name) {
    const json_t *list = json_object_get(measurement, "figures");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (str_eq(rec_str(json_array_get(list, i), "name"), name)) return json_array_get(list, i);
    return NULL;
}

/* ---- what was read ---- */
static bool is(const json_t *o, const char *format) {
    return str_eq(rec_str(o, "format"), format);
}

static const char *format_of(const json_t *o) {
    return *rec_str(o, "format") ? rec_str(o, "format") : report_candidates(o) ? "one search" : "trials of a store";
}

/* A list of trials, and a receipt of before, have no hash of their own; all else must have the one that it says. */
static Err read_one(Cx *cx, const ReportRecord *r, json_t **out) {
    Cx own = {.a = cx->a};
    json_t *j = json_loadb(r->text, r->bytes, JSON_REJECT_DUPLICATES, NULL);
    if ((is(j, "rowfold-receipt-1") && !json_object_get(j, "hash")) || json_is_array(json_object_get(j, "trials")) ||
        report_candidates(j)) {
        *out = j;
        return OK;
    }
    json_decref(j);
    Err err = record_read(&own, r->text, r->bytes, NULL, out);
    const bool known = is(*out, "rowfold-bench-1") || is(*out, "rowfold-catalog-1") || is(*out, "rowfold-replay-1") ||
                       is(*out, "rowfold-receipt-1");
    if (!err && known) return OK;
    const Slug slug = own.first ? own.first->slug : S_RECORD_FORMAT;
    return diag(cx, slug, NOWHERE,
                slug == S_RECORD_ALTERED
                    ? NULL
                    : "rowfold-bench-1, rowfold-catalog-1, rowfold-replay-1, rowfold-receipt-1, or what "
                      "tune, plan or trials prints with --json",
                "%s: %s", r->name,
                own.first ? own.first->msg : arena_printf(cx->a, "its format is '%.40s'", rec_str(*out, "format")));
}

static const char *day_text(Cx *cx, double unix_s) {
    struct tm t;
    const time_t s = isfinite(unix_s) && unix_s > 0 && unix_s < 253402300800.0 ? (time_t)unix_s : 0;
    if (!s || !gmtime_r(&s, &t)) return "-";
    return arena_printf(cx->a, "%04d-%02d-%02d %02d:%02d UTC", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                        t.tm_min);
}

static const char *flat(Cx *cx, const json_t *o) { /* an object as NAME=VALUE */
    Buf b = buf_new(cx->a);
    const char *key;
    json_t *v;
    buf_str(&b, "");
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        buf_fmt(&b, "%s%s=%s", b.n ? " " : "", key, json_is_string(v) ? json_string_value(v) : record_print(cx, v));
    }
    return b.s;
}

static void put_provenance(Page *p, const json_t *o) {
    Cx *cx = p->cx;
    const json_t *from = json_object_get(o, "provenance"), *device = json_object_get(from ? from : o, "device"),
                 *machine = json_object_get(from, "machine"), *list = json_object_get(from, "binaries");
    page_list(p);
    if (*rec_str(device, "caps")) page_term(p, "its capabilities", rec_str(device, "caps"));
    if (machine)
        page_term(p, "machine",
                  arena_printf(cx->a, "%s, %s processors", rec_str(machine, "system"),
                               count_text(cx, rec_num(machine, "cpus"))));
    const double threads = rec_num(from, "threads");
    if (isfinite(threads))
        page_term(p, "threads", threads > 0 ? count_text(cx, threads) : "as many as rowfold decides");
    const char *version = *rec_str(from, "rowfold") ? rec_str(from, "rowfold") : rec_str(o, "rowfold");
    if (*version) page_term(p, "rowfold", version);
    if (json_object_size(json_object_get(o, "options")))
        page_term(p, "options", flat(cx, json_object_get(o, "options")));
    if (json_object_size(json_object_get(from, "environment")))
        page_term(p, "environment", flat(cx, json_object_get(from, "environment")));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *b = json_array_get(list, i);
        page_term(p, rec_str(b, "role"),
                  arena_printf(cx->a, "%s, %s bytes, SHA-256 %s", rec_str(b, "path"),
                               count_text(cx, rec_num(b, "bytes")), rec_str(b, "sha256")));
    }
    page_list_end(p);
}

static const json_t *cases_of(const json_t *o) {
    return json_object_get(is(o, "rowfold-replay-1") ? json_object_get(o, "candidate") : o, "cases");
}

static void put_records(Page *p, const ReportRecord *r, json_t *const *root, int n) {
    Cx *cx = p->cx;
    page_head(p, 2, "What was measured, and on what");
    grid_begin(p, "<record|<format|<suite|cases|<time|<hash",
               "The records that this page is made of. A hash names the content: it was computed again from what was "
               "read, and is what the record says. Receipts and lists of trials have none.");
    for (int i = 0; i < n; i++) {
        const json_t *o = root[i], *from = json_object_get(o, "provenance"),
                     *c = is(o, "rowfold-replay-1") ? json_object_get(o, "candidate") : o;
        grid_row(p);
        grid_cell(p, 0, "%s", r[i].name);
        grid_cell(p, 1, "%s", format_of(o));
        grid_cell(p, 2, "%s", *rec_str(c, "suite") ? rec_str(c, "suite") : "-");
        grid_cell(p, 3, "%s", cases_of(o) ? count_text(cx, (double)json_array_size(cases_of(o))) : "-");
        grid_cell(p, 4, "%s", day_text(cx, rec_num(from, "time_unix_s")));
        grid_cell(p, 5, "%s", *rec_str(o, "hash") ? rec_str(o, "hash") : "-");
    }
    grid_end(p);
    page_list(p);
    for (int i = 0; i < n; i++) {
        const json_t *o = root[i], *from = json_object_get(o, "provenance");
        const char *identity = report_candidates(o) ? rec_str(o, "identity")
                                                    : rec_str(json_object_get(from ? from : o, "device"), "identity");
        page_term(p, r[i].name, *identity ? identity : "the devices of its trials");
    }
    page_list_end(p);
    for (int i = 0; i < n; i++) {
        page_fold(p, false, "%s: machine, options and binaries", r[i].name);
        put_provenance(p, root[i]);
        page_unfold(p);
    }
}

/* ---- what the words mean ---- */
static const struct {
    const char *term, *meaning;
} definitions[] = {
    {"time of a call",
     "A sample's time over the calls in it. A figure is the median of its samples, with the smallest "
     "and the largest in brackets. Every figure has samples of its own; none is computed from another."},
    {"device, end to end",
     "device: the kernel alone, by the device's clock; on a CPU the span of the kernel's function "
     "on its threads. end to end: the caller's clock around the launches and one synchronisation."},
    {"batch, single", "batch: calls one after another, as many as fill a sample. single: one call a sample."},
    {"resident, cold",
     "resident: the same buffers in every call, which caches may keep. cold: buffers that rotate over "
     "more memory than the caches hold, inputs and outputs both."},
    {"ceiling", "The fastest of several tuned copies (as many bytes read as written), reads or writes, measured in the "
                "same run on the same memory."},
    {"speed of light", "The time that the ceilings allow for the least traffic of a call: each input read once, each "
                       "output written once. A share is that time over the time measured; 100 % is the ceiling."},
    {"demand", "What one launch asks of the machine, counted from the plan applied. Nothing in it is measured."},
    {"round, pair, ratio",
     "In each round a case is measured on both sides, each in a process and with a build of its "
     "own. A ratio is the reference's time over the candidate's: above 1 the candidate is faster."},
    {"control", "A case whose two sides have the same source. What its ratios show is the noise of the comparison."},
    {"floor", "The larger of 1 % and the largest deviation of a control's median, as a natural logarithm."},
    {"verdict", "better: every round above 1 and the median beyond the floor; worse: the reverse; else not resolved. "
                "Where a pair is missing there is no number, and the verdict is incomplete."},
    {"refused, failed", "refused: no legal plan, for the reason that the slug names. failed: legal, but did not build, "
                        "or gave wrong results; it was never timed."},
    {"regret", "The time of the plan that a policy puts first among those timed, over the fastest of them, less 1."},
};

static void put_definitions(Page *p) {
    page_head(p, 2, "Definitions");
    page_list(p);
    for (int i = 0; i < COUNT(definitions); i++) page_term(p, definitions[i].term, definitions[i].meaning);
    page_list_end(p);
}

/* ---- receipts ---- */
static void report_receipt(Page *p, const json_t *o) {
    Cx *cx = p->cx;
    const json_t *times = json_object_get(o, "times"), *search = json_object_get(o, "search"),
                 *verdict = json_object_get(o, "verdict"), *finals = json_object_get(o, "finals"),
                 *fates = json_object_get(search, "fates_by_slug");
    page_list(p);
    page_term(p, "shape", flat(cx, json_object_get(o, "shape")));
    page_term(p, "plan", rec_str(o, "plan"));
    page_term(p, "search",
              arena_printf(cx->a, "effort %s: %s candidates, %s timed, %s refused, %s failed",
                           rec_str(search, "effort"), count_text(cx, rec_num(search, "candidates")),
                           count_text(cx, rec_num(search, "timed")), count_text(cx, rec_num(search, "refused")),
                           count_text(cx, rec_num(search, "failed"))));
    if (times)
        page_term(p, "time of a call, \xC2\xB5s",
                  arena_printf(cx->a, "%s %s, %s", us_text(cx, rec_num(times, "median_ns")),
                               range_text(cx, rec_num(times, "min_ns"), rec_num(times, "max_ns"), 1e3),
                               rec_str(json_object_get(o, "regime"), "name")));
    if (json_object_get(o, "copy"))
        page_term(p, "copy of the same bytes, \xC2\xB5s", us_text(cx, rec_num(json_object_get(o, "copy"), "ns")));
    if (verdict)
        page_term(p, "check",
                  arena_printf(cx->a, "%s of %s elements outside of their bounds",
                               count_text(cx, rec_num(verdict, "bad")), count_text(cx, rec_num(verdict, "checked"))));
    if (finals)
        page_term(p, "finals",
                  arena_printf(cx->a, "gain over the incumbent %s %%, least that shows %s %%%s",
                               percent_text(cx, rec_num(finals, "gain")),
                               percent_text(cx, rec_num(finals, "detectable")),
                               json_is_true(json_object_get(finals, "tie")) ? ": a tie, it stays" : ""));
    const json_t *replay = json_object_get(finals, "replay");
    if (replay)
        page_term(p, "fresh replays",
                  arena_printf(cx->a, "%s rounds: gain %s %%, at least %s %%%s",
                               count_text(cx, rec_num(replay, "rounds")), percent_text(cx, rec_num(replay, "gain")),
                               percent_text(cx, rec_num(replay, "least_gain")),
                               json_is_true(json_object_get(replay, "vetoed")) ? ": vetoed, the incumbent stays" : ""));
    page_list_end(p);
    if (!json_object_size(fates)) return;
    grid_begin(p, "<slug|candidates|<what it means",
               "Candidates of this search that were refused or failed, by reason.");
    const char *slug;
    json_t *count;
    json_object_foreach((json_t *)(uintptr_t)fates, slug, count) {
        Slug s;
        grid_row(p);
        grid_cell(p, 0, "%s", slug);
        grid_cell(p, 1, "%s", count_text(cx, json_number_value(count)));
        grid_cell(p, 2, "%s", slug_find(slug, &s) ? slug_why(s) : "-");
    }
    grid_end(p);
}

/* ---- the whole ---- */
static void put_searches(Page *p, const char *name, const json_t *record, const char *what) {
    int n;
    const Hunt *h = report_hunts(p->cx, record, &n);
    report_searches(p, h, n, name, what);
}

/* What searches changed of what would be used without them, and how often fresh replays forbade it. */
static void put_changes(Page *p, json_t *const *root, int n) {
    int searches = 0, ties = 0, vetoed = 0;
    for (int i = 0; i < n; i++) {
        const json_t *finals = json_object_get(root[i], "finals");
        if (!is(root[i], "rowfold-receipt-1") || !finals) continue;
        searches++;
        ties += json_is_true(json_object_get(finals, "tie"));
        vetoed += json_is_true(json_object_get(json_object_get(finals, "replay"), "vetoed"));
    }
    if (searches)
        page_para(p,
                  "Of %d search%s with finals %d kept the incumbent by a tie, %d by a veto of fresh replays, and %d "
                  "changed it.",
                  searches, searches == 1 ? "" : "es", ties, vetoed, searches - ties - vetoed);
}

static const char *what_is(const json_t *o) {
    return is(o, "rowfold-bench-1")     ? "benchmark"
           : is(o, "rowfold-replay-1")  ? "replay of two catalogs"
           : is(o, "rowfold-catalog-1") ? "catalog"
           : is(o, "rowfold-receipt-1") ? "receipt of a search"
           : report_candidates(o)       ? "one search"
                                        : "trials of a store";
}

static void put_one(Page *p, const char *name, const json_t *o) {
    const bool replay = is(o, "rowfold-replay-1");
    page_head(p, 2, "%s: %s", name, what_is(o));
    if (is(o, "rowfold-bench-1")) report_bench(p, o);
    if (replay) report_replay(p, o);
    if (is(o, "rowfold-receipt-1")) {
        report_receipt(p, o);
    } else if (replay) {
        put_searches(p, name, json_object_get(o, "reference"), "search of the reference");
        put_searches(p, name, json_object_get(o, "candidate"), "search of the candidate");
    } else {
        put_searches(p, name, o, "search");
    }
}

void report_free(Report *own) {
    for (int i = 0; i < own->n; i++) json_decref(own->root[i]);
    own->n = 0;
}

Err report_make(Cx *cx, const ReportRecord *r, int n, bool markdown, const char *title, Report *own, const char **out) {
    Err err = OK;
    own->root = NEWN(cx->a, json_t *, n);
    for (int i = 0; i < n && !err; i++) {
        own->n = i + 1;
        err = read_one(cx, &r[i], &own->root[i]);
    }
    if (err) return err;
    Page p = {.cx = cx, .md = markdown, .b = buf_new(cx->a)};
    page_begin(&p, title ? title : "rowfold report");
    page_para(
        &p,
        "Made by rowfold %s from %d record%s. rowfold-audit checks a record without rowfold; docs/records.md says what "
        "one holds.",
        ROWFOLD_VERSION_TEXT, n, n == 1 ? "" : "s");
    put_records(&p, r, own->root, n);
    put_definitions(&p);
    put_changes(&p, own->root, n);
    for (int i = 0; i < n; i++) put_one(&p, r[i].name, own->root[i]);
    page_end(&p);
    *out = p.b.s;
    return OK;
}
