/* Wisdom <-> portable text: one canonical JSON object a line. What comes in is nobody's friend: it is read, recomputed
 * and planned anew before it is kept. */
#include "book.h"

#include "../gen/emit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_LINE = 1 << 20 };
static const char format_name[] = "rowfold-wisdom-1";

/* ---- out ---- */

static const char export_sql[] =
    "SELECT p.alignment, p.caps, p.device, p.kernel, p.program, p.program_sha, p.promises, p.rowfold, p.shape,"
    " p.strides, p.types, w.effort, w.host, w.plan, w.stage, w.unit_sha, p.threads, w.calls, w.seed, w.time,"
    " w.median_ns, w.worst, w.samples FROM wisdom w JOIN problem p ON p.id = w.problem WHERE " FILTER_SQL
    " AND (?8 IS NULL OR (?8 = 'import') = (w.import > 0))"
    " ORDER BY p.kernel, p.program_sha, p.device, p.rowfold, p.shape, p.sha";
/* The members of an entry, in the order of the query: texts, then integers, then the rest. */
static const char *const text_names[] = {"alignment", "caps",    "device", "kernel",     "program", "program_sha256",
                                         "promises",  "rowfold", "shape",  "strides",    "types",   "effort",
                                         "host",      "plan",    "stage",  "unit_sha256"};
enum {
    ALIGNMENT,
    CAPS,
    DEVICE,
    KERNEL,
    PROGRAM,
    PROGRAM_SHA,
    PROMISES,
    ROWFOLD,
    SHAPE,
    STRIDES,
    TYPES,
    EFFORT,
    HOST,
    PLAN,
    STAGE,
    UNIT_SHA,
    NTEXTS
};
static const char *const int_names[] = {"threads", "calls", "seed", "time"};
enum { THREADS, CALLS, SEED, TIME, NINTS };

static json_t *entry_json(sqlite3_stmt *q) {
    json_t *o = json_object();
    json_object_set_new(o, "format", json_string(format_name));
    for (int i = 0; i < NTEXTS; i++) {
        const char *s = (const char *)sqlite3_column_text(q, i);
        json_object_set_new(o, text_names[i], json_string(s ? s : ""));
    }
    for (int i = 0; i < NINTS; i++)
        json_object_set_new(o, int_names[i], json_integer(sqlite3_column_int64(q, NTEXTS + i)));
    json_object_set_new(o, "median_ns", json_real(sqlite3_column_double(q, NTEXTS + NINTS)));
    double worst = sqlite3_column_double(q, NTEXTS + NINTS + 1);
    bool known = sqlite3_column_type(q, NTEXTS + NINTS + 1) != SQLITE_NULL && isfinite(worst);
    json_object_set_new(o, "worst_error_share", known ? json_real(worst) : json_null());
    const char *samples = (const char *)sqlite3_column_text(q, NTEXTS + NINTS + 2);
    json_t *list = json_loads(samples ? samples : "[]", 0, NULL);
    json_object_set_new(o, "samples_ns", list ? list : json_array());
    return o;
}

Err wisdom_export(Cx *cx, Store *s, const Filter *f, const char **text) {
    Buf b = buf_new(cx->a);
    sqlite3_stmt *q = NULL;
    bool row = false, ok = true;
    *text = "";
    if (!s) return OK;
    Err err = store_prepare(cx, s, export_sql, &q);
    if (err) return err;
    filter_bind(s, q, f);
    bind_text(s, q, 8, f->origin);
    while (!(err = store_step(cx, s, q, &row)) && row) {
        const char *line = json_out(cx, s, entry_json(q), &ok);
        if (!ok) {
            sqlite3_finalize(q);
            return diag(cx, S_OOM, NOWHERE, NULL, "no memory for wisdom");
        }
        buf_str(&b, line);
        buf_str(&b, "\n");
    }
    *text = b.n ? b.s : "";
    return err;
}

/* ---- in ---- */

typedef struct Entry1 { /* one line */
    const char *text[NTEXTS];
    int64_t num[NINTS];
    double median_ns, worst, ns[STORE_SAMPLES];
    int nsamples;
} Entry1;

static Err field(Cx *cx, const char *name, const char *accept) {
    return diag(cx, S_WISDOM_FIELD, NOWHERE, accept, "member %s is missing or off", name);
}

static Err read_samples(Cx *cx, const json_t *list, Entry1 *e) {
    size_t count = json_array_size(list); /* 0 where it is no array */
    if (count < 1 || count > STORE_SAMPLES) return field(cx, "samples_ns", "1 to 96 numbers");
    e->nsamples = (int)count;
    double sorted[STORE_SAMPLES] = {0};
    for (int i = 0; i < e->nsamples; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        double x = json_number_value(v);
        if (!json_is_number(v) || !isfinite(x) || x <= 0) return field(cx, "samples_ns", "numbers above 0");
        e->ns[i] = x;
        int k = i;
        for (; k > 0 && sorted[k - 1] > x; k--) sorted[k] = sorted[k - 1];
        sorted[k] = x;
    }
    int n = e->nsamples;
    double median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    if (median != e->median_ns) return field(cx, "median_ns", "the median of samples_ns");
    return OK;
}

static Err read_members(Cx *cx, const json_t *o, Entry1 *e) {
    const char *format = json_string_value(json_object_get(o, "format"));
    if (!json_is_object(o) || !format) return diag(cx, S_WISDOM_SYNTAX, NOWHERE, "a JSON object", "no entry of wisdom");
    if (!str_eq(format, format_name))
        return diag(cx, S_WISDOM_SYNTAX, NOWHERE, format_name, "the format is '%.40s'", format);
    for (int i = 0; i < NTEXTS; i++) {
        const json_t *v = json_object_get(o, text_names[i]);
        if (!json_is_string(v)) return field(cx, text_names[i], "a string");
        e->text[i] = arena_str(cx->a, json_string_value(v), json_string_length(v));
    }
    for (int i = 0; i < NINTS; i++) {
        const json_t *v = json_object_get(o, int_names[i]);
        e->num[i] = json_integer_value(v);
        bool small = i == THREADS || i == CALLS;
        if (!json_is_integer(v) || (i != SEED && e->num[i] < 0) || (small && e->num[i] > 1 << 30))
            return field(cx, int_names[i], "a whole number");
    }
    const json_t *median = json_object_get(o, "median_ns"), *worst = json_object_get(o, "worst_error_share");
    e->median_ns = json_number_value(median);
    e->worst = json_is_null(worst) ? (double)NAN : json_number_value(worst);
    if (!json_is_number(median)) return field(cx, "median_ns", "a number");
    if ((!json_is_number(worst) && !json_is_null(worst)) || e->worst < 0)
        return field(cx, "worst_error_share", "a number or null");
    if (json_object_size(o) != 1 + NTEXTS + NINTS + 3)
        return diag(cx, S_WISDOM_FIELD, NOWHERE, NULL, "there are %zu members, %d are known", json_object_size(o),
                    1 + NTEXTS + NINTS + 3);
    return read_samples(cx, json_object_get(o, "samples_ns"), e);
}

static bool one_of(const char *s, const char *words) { /* between blanks */
    size_t n = strlen(s);
    for (const char *at = words; n && (at = strstr(at, s)); at++)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static bool hex64(const char *s) {
    return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

/* The times are of the source that the plan gives, or they are of another plan. */
static Err check_unit(Cx *cx, const Problem *pb, const Plan *plan, const char *said) {
    Kern *k;
    Unit u;
    char sha[65];
    Err err = kern_lower(cx, pb, plan, &k);
    if (!err) err = unit_emit(cx, pb, k, &u);
    if (err) return err;
    sha256_hex(u.text, strlen(u.text), sha);
    if (str_eq(sha, said)) return OK;
    return diag(cx, S_WISDOM_UNIT, NOWHERE, NULL, "the plan gives source %.12s here, and what was timed is %.12s", sha,
                said);
}

/* Everything an entry says of its problem is computed again from program, shape and machine, and must come out the
 * same; its plan must be legal there. */
static Err judge(Cx *cx, const Entry1 *e, StoreKey *k) {
    const char *const *t = e->text;
    Problem pb;
    Plan plan;
    if (strlen(t[DEVICE]) > 1024 || strlen(t[HOST]) > 256) return field(cx, "device or host", "a short text");
    if (!one_of(t[STAGE], "short final confirmed")) return field(cx, "stage", "short, final, confirmed");
    if (!one_of(t[EFFORT], "measure exhaustive")) return field(cx, "effort", "measure, exhaustive");
    if (!one_of(t[PROMISES], "noalias alias noalias,cold alias,cold"))
        return field(cx, "promises", "noalias or alias, with ,cold or without");
    if (!hex64(t[UNIT_SHA])) return field(cx, "unit_sha256", "64 hexadecimal digits");
    const StoreKey said = {
        .program = t[PROGRAM], .caps = t[CAPS], .shape = t[SHAPE], .strides = t[STRIDES], .promises = t[PROMISES]};
    Err err = store_problem(cx, &said, &pb);
    if (err) return err;
    *k = store_key(cx, &pb, t[DEVICE], (int)e->num[THREADS]);
    if (strchr(t[PROMISES], ',')) store_key_cold(cx, k);
    const struct {
        int at;
        const char *now;
    } same[] = {{ALIGNMENT, k->alignment},     {CAPS, k->caps},   {KERNEL, k->kernel},   {PROGRAM, k->program},
                {PROGRAM_SHA, k->program_sha}, {SHAPE, k->shape}, {STRIDES, k->strides}, {TYPES, k->types}};
    for (int i = 0; i < COUNT(same); i++)
        if (!str_eq(t[same[i].at], same[i].now))
            return diag(cx, S_WISDOM_FIELD, NOWHERE, NULL, "member %s does not follow from program, shape and machine",
                        text_names[same[i].at]);
    if (!str_eq(t[ROWFOLD], ROWFOLD_VERSION_TEXT)) { /* another rowfold's plans cannot be judged by this one */
        if (!*t[ROWFOLD] || strlen(t[ROWFOLD]) > 40) return field(cx, "rowfold", "a version");
        k->rowfold = t[ROWFOLD];
        store_key_name(cx, k);
        return OK;
    }
    err = plan_read(cx, t[PLAN], &plan);
    if (err) return err;
    Buf b = buf_new(cx->a);
    plan_print(&plan, &b);
    if (!str_eq(b.s, t[PLAN])) return field(cx, "plan", "the exact text of a plan");
    err = plan_check(cx, &pb, &plan, NULL, NULL);
    return err ? err : check_unit(cx, &pb, &plan, t[UNIT_SHA]);
}

static Err keep(Cx *cx, Store *s, const StoreKey *k, const Entry1 *e, bool *known) {
    sqlite3_stmt *q;
    bool row, ok;
    int64_t problem = 0;
    const char *samples = json_out(cx, s, samples_json(e->ns, e->nsamples), &ok);
    if (!ok) return diag(cx, S_OOM, NOWHERE, NULL, "no memory for wisdom");
    Err err = problem_id(cx, s, k, &problem);
    if (!err)
        err = store_prepare(cx, s,
                            "INSERT INTO imported (problem, seed, plan, stage, effort, unit_sha, samples, calls,"
                            " median_ns, worst, time, host, taken) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
                            " ?12, ?13 WHERE NOT EXISTS (SELECT 1 FROM evidence WHERE problem = ?1 AND plan = ?3 AND"
                            " samples = ?7 AND time = ?11)",
                            &q);
    if (err) return err;
    bind_i64(s, q, 1, problem);
    bind_i64(s, q, 2, e->num[SEED]);
    bind_text(s, q, 3, e->text[PLAN]);
    bind_text(s, q, 4, e->text[STAGE]);
    bind_text(s, q, 5, e->text[EFFORT]);
    bind_text(s, q, 6, e->text[UNIT_SHA]);
    bind_text(s, q, 7, samples);
    bind_i64(s, q, 8, e->num[CALLS]);
    bind_f64(s, q, 9, e->median_ns);
    bind_f64(s, q, 10, e->worst);
    bind_i64(s, q, 11, e->num[TIME]);
    bind_text(s, q, 12, e->text[HOST]);
    bind_i64(s, q, 13, (int64_t)time(NULL));
    err = store_step(cx, s, q, &row);
    *known = !err && sqlite3_changes(s->db) == 0;
    return err;
}

/* How the device of an entry differs from the one here that is most like it. */
static void foreign(Cx *cx, const char *device, const char *const *here, int nhere) {
    const char *there = device, *mine = "no device";
    for (int i = 0; i < nhere; i++) {
        const char *apart = text_apart(cx->a, device, here[i], "; ");
        if (strlen(apart) >= strlen(there)) continue;
        there = apart, mine = text_apart(cx->a, here[i], device, "; ");
    }
    diag(cx, S_WISDOM_FOREIGN, NOWHERE, NULL, "for device %.400s; here is %.400s", there, mine);
}

typedef enum Fate1 { TAKEN, KNOWN, FOREIGN, REFUSED } Fate1;

/* A line to its fate. An error is trouble with the store, not with the line. */
static Err take(Cx *cx, Cx *own, Store *s, const char *line, size_t n, const char *const *here, int nhere, Entry1 *e,
                Fate1 *fate) {
    json_error_t je;
    *fate = REFUSED;
    json_t *o = s->json = n <= MAX_LINE ? json_loadb(line, n, JSON_REJECT_DUPLICATES, &je) : NULL;
    Err err;
    if (n > MAX_LINE)
        err = diag(own, S_WISDOM_SYNTAX, NOWHERE, "at most 1 MiB", "a line of %zu bytes", n);
    else if (!o)
        err = diag(own, S_WISDOM_SYNTAX, NOWHERE, "a JSON object a line", "no JSON: %.100s", je.text);
    else
        err = read_members(own, o, e);
    json_decref(o);
    s->json = NULL;
    StoreKey k;
    if (!err) err = judge(own, e, &k);
    if (err) return OK;
    bool known = false, mine = str_eq(k.rowfold, ROWFOLD_VERSION_TEXT), there = false;
    for (int i = 0; i < nhere; i++) there |= str_eq(here[i], k.device);
    err = keep(cx, s, &k, e, &known);
    *fate = known ? KNOWN : mine && there ? TAKEN : FOREIGN;
    if (*fate == FOREIGN && !err && !mine) diag(own, S_WISDOM_FOREIGN, NOWHERE, NULL, "from rowfold %.200s", k.rowfold);
    if (*fate == FOREIGN && !err && mine) foreign(own, k.device, here, nhere);
    return err;
}

static json_t *fate_json(int64_t line, Fate1 fate, const Entry1 *e, const Cx *own) {
    static const char *const names[] = {"taken", "known", "foreign", "refused"};
    json_t *o = json_pack("{s:I,s:s}", "line", (json_int_t)line, "fate", names[fate]);
    if (e->text[KERNEL]) json_object_set_new(o, "kernel", json_string(e->text[KERNEL]));
    if (e->text[SHAPE]) json_object_set_new(o, "shape", json_string(e->text[SHAPE]));
    if (own->first) {
        json_t *why = json_string(own->first->msg); /* NULL where it quotes bytes that are no UTF-8 */
        json_object_set_new(o, "slug", json_string(slug_text(own->first->slug)));
        json_object_set_new(o, "why", why ? why : json_string(slug_why(own->first->slug)));
    }
    return o;
}

Err wisdom_import(Cx *cx, Store *s, const char *text, size_t n, const char *const *here, int nhere,
                  const char **report) {
    int64_t count[4] = {0}, line = 0;
    Buf entries = buf_new(cx->a);
    bool ok = true;
    Err err = store_begin(cx, s); /* all of it or nothing: a full disk leaves no half */
    if (err) return err;
    for (size_t at = 0; !err && ok && at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - (text + at)) : n - at;
        line++;
        size_t blank = 0;
        while (blank < len && strchr(" \t\r", text[at + blank]) && text[at + blank]) blank++;
        if (blank < len) {
            Arena *a = arena_sub(cx->a);
            Cx own = {.a = a};
            Entry1 *e = NEW(a, Entry1);
            Fate1 fate;
            err = take(cx, &own, s, text + at, len, here, nhere, e, &fate);
            count[fate]++;
            const char *told = json_out(&own, s, fate_json(line, fate, e, &own), &ok);
            buf_fmt(&entries, "%s\n", entries.n ? "," : "");
            buf_str(&entries, told);
            arena_free(a);
        }
        at += len + 1;
    }
    if (!err && !ok) err = diag(cx, S_OOM, NOWHERE, NULL, "no memory for the report of an import");
    err = store_end(cx, s, err);
    if (err) return err;
    Buf b = buf_new(cx->a);
    buf_fmt(&b, "{\"taken\":%lld,\"known\":%lld,\"foreign\":%lld,\"refused\":%lld,\"entries\":[",
            (long long)count[TAKEN], (long long)count[KNOWN], (long long)count[FOREIGN], (long long)count[REFUSED]);
    if (entries.n) buf_put(&b, entries.s, entries.n);
    buf_str(&b, "]}");
    *report = b.s;
    return OK;
}
