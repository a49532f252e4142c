/* Trials: what was tried, on what, and what came of it. A row is written once, when the trial is over, in a transaction
 * of its own, and never again. */
#include "book.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *stage_text(Stage s) {
    static const char *const names[] = {"short", "final", "confirmed"};
    return names[s];
}

/* ---- keys ---- */

static const char *types_text(Cx *cx, const Prog *p) {
    Buf b = buf_new(cx->a);
    for (int i = 0; i < p->nparams; i++)
        buf_fmt(&b, "%s%s=%s", i ? "," : "", p->param[i].name, ty_text(p->param[i].ty));
    return b.n ? b.s : "";
}

static const char *shape_text(Cx *cx, const Prog *p, const Shape *s) {
    Buf b = buf_new(cx->a);
    for (int i = 0; i < p->naxes; i++)
        if (p->axis[i].ext < 0 && s->n[i] >= 0) {
            buf_fmt(&b, "%s%s=", b.n ? "," : "", p->axis[i].name);
            extent_print(s, i, &b);
        }
    return b.n ? b.s : "";
}

static const char *strides_text(Cx *cx, const Prog *p, uint32_t strided) {
    Buf b = buf_new(cx->a);
    for (int i = 0; i < p->nparams; i++)
        if ((strided >> i & 1) && p->param[i].dir != DIR_SCALAR && p->param[i].dir != DIR_CONST)
            buf_fmt(&b, "%s%s", b.n ? "," : "", p->param[i].name);
    return b.n ? b.s : "dense";
}

void store_key_name(Cx *cx, StoreKey *k) {
    Buf all = buf_new(cx->a);
    char *sha = arena_get(cx->a, 65);
    buf_fmt(&all, "rowfold-problem-1\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%d\n", k->program_sha, k->shape, k->strides,
            k->alignment, k->promises, k->device, k->caps, k->rowfold, k->threads);
    sha256_hex(all.s, all.n, sha);
    k->sha = sha;
}

StoreKey store_key(Cx *cx, const Problem *pb, const char *identity, int threads) {
    const Prog *p = pb->source;
    Buf prog = buf_new(cx->a), caps = buf_new(cx->a);
    char *program_sha = arena_get(cx->a, 65);
    prog_print(p, &prog);
    caps_print(&pb->caps, &caps);
    sha256_hex(prog.s, prog.n, program_sha);
    StoreKey k = {.program_sha = program_sha,
                  .kernel = p->name,
                  .program = prog.s,
                  .types = types_text(cx, p),
                  .shape = shape_text(cx, p, &pb->shape),
                  .strides = strides_text(cx, p, pb->strided),
                  .alignment = "element",
                  .promises = pb->noalias ? "noalias" : "alias",
                  .device = arena_printf(cx->a, "%s", identity),
                  .caps = caps.s,
                  .rowfold = ROWFOLD_VERSION_TEXT,
                  .threads = threads};
    store_key_name(cx, &k);
    return k;
}

void store_key_cold(Cx *cx, StoreKey *k) {
    k->promises = arena_printf(cx->a, "%s,cold", k->promises);
    store_key_name(cx, k);
}

Err problem_id(Cx *cx, Store *s, const StoreKey *k, int64_t *id) {
    sqlite3_stmt *q;
    bool row;
    Err err = store_prepare(cx, s,
                            "INSERT INTO problem (sha, program_sha, kernel, program, types, shape, strides, alignment,"
                            " promises, device, caps, rowfold, threads) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
                            " ?10, ?11, ?12, ?13) ON CONFLICT (sha) DO NOTHING",
                            &q);
    if (err) return err;
    const char *texts[] = {k->sha,     k->program_sha, k->kernel,   k->program, k->types, k->shape,
                           k->strides, k->alignment,   k->promises, k->device,  k->caps,  k->rowfold};
    for (int i = 0; i < COUNT(texts); i++) bind_text(s, q, i + 1, texts[i]);
    bind_i64(s, q, COUNT(texts) + 1, k->threads);
    err = store_step(cx, s, q, &row);
    if (!err) err = store_prepare(cx, s, "SELECT id FROM problem WHERE sha = ?1", &q);
    if (err) return err;
    bind_text(s, q, 1, k->sha);
    err = store_step(cx, s, q, &row);
    if (!row) return err;
    *id = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return OK;
}

/* ---- samples and JSON ---- */

json_t *samples_json(const double *ns, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_real(ns[i]));
    return a;
}

int samples_read(const char *text, double *ns, int cap) {
    json_t *a = json_loads(text, 0, NULL);
    int n = json_is_array(a) && json_array_size(a) <= (size_t)cap ? (int)json_array_size(a) : -1;
    for (int i = 0; i < n; i++) {
        const json_t *v = json_array_get(a, (size_t)i);
        ns[i] = json_number_value(v);
        if (!json_is_number(v) || !isfinite(ns[i]) || ns[i] <= 0) n = -1;
    }
    json_decref(a);
    return n;
}

const char *json_out(Cx *cx, Store *s, json_t *j, bool *ok) {
    s->text = j ? json_dumps(j, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY) : NULL;
    json_decref(j);
    *ok = s->text != NULL;
    const char *out = s->text ? arena_str(cx->a, s->text, strlen(s->text)) : "";
    free(s->text);
    s->text = NULL;
    return out;
}

/* ---- writing and finding ---- */

Err store_add(Cx *cx, Store *s, const StoreKey *k, const StoreTrial *t) {
    char host[256] = "";
    bool ok, row;
    int64_t problem = 0;
    sqlite3_stmt *q;
    gethostname(host, sizeof host - 1);
    const char *samples = json_out(cx, s, samples_json(t->sample_ns, t->nsamples), &ok);
    if (!ok) return diag(cx, S_OOM, NOWHERE, NULL, "no memory for a trial");
    Err err = store_begin(cx, s);
    if (err) return err;
    err = problem_id(cx, s, k, &problem);
    if (!err)
        err = store_prepare(cx, s,
                            "INSERT INTO trial (problem, seed, plan, stage, effort, slug, why, unit_sha, facts, demand,"
                            " samples, calls, median_ns, checked, bad, worst, compile_ns, from_cache, time, host)"
                            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
                            " ?19, ?20)",
                            &q);
    if (err) return store_end(cx, s, err);
    const char *texts[] = {t->plan, stage_text(t->stage), t->effort, t->slug, t->why, t->unit_sha, t->facts, t->demand,
                           samples};
    bind_i64(s, q, 1, problem);
    bind_i64(s, q, 2, (int64_t)t->seed);
    for (int i = 0; i < COUNT(texts); i++) bind_text(s, q, 3 + i, texts[i] ? texts[i] : "");
    bind_i64(s, q, 12, t->calls);
    bind_f64(s, q, 13, t->median_ns);
    bind_i64(s, q, 14, t->checked);
    bind_i64(s, q, 15, t->bad);
    bind_f64(s, q, 16, t->worst); /* NaN becomes NULL */
    bind_i64(s, q, 17, t->compile_ns);
    bind_i64(s, q, 18, t->from_cache);
    bind_i64(s, q, 19, (int64_t)time(NULL));
    bind_text(s, q, 20, host);
    err = store_step(cx, s, q, &row);
    return store_end(cx, s, err);
}

Err store_find(Cx *cx, Store *s, const StoreKey *k, uint64_t seed, const char *plan, const char *unit_sha, bool *found,
               StoreTrial *t) {
    sqlite3_stmt *q;
    *found = false;
    Err err = store_prepare(cx, s,
                            "SELECT t.id, t.effort, t.slug, t.why, t.samples, t.calls, t.median_ns, t.checked, t.bad,"
                            " t.worst, t.compile_ns, t.from_cache FROM trial t JOIN problem p ON p.id = t.problem"
                            " WHERE p.sha = ?1 AND t.plan = ?2 AND t.seed = ?3 AND t.unit_sha = ?4"
                            " AND t.stage = 'short' AND t.id > coalesce((SELECT max(upto) FROM forgotten f WHERE"
                            " f.problem = t.problem), 0) ORDER BY t.id DESC LIMIT 1",
                            &q);
    if (err) return err;
    bind_text(s, q, 1, k->sha);
    bind_text(s, q, 2, plan);
    bind_i64(s, q, 3, (int64_t)seed);
    bind_text(s, q, 4, unit_sha);
    err = store_step(cx, s, q, found);
    if (!*found) return err;
    *t = (StoreTrial){.id = sqlite3_column_int64(q, 0),
                      .seed = seed,
                      .plan = plan,
                      .unit_sha = unit_sha,
                      .effort = column_str(cx, q, 1),
                      .slug = column_str(cx, q, 2),
                      .why = column_str(cx, q, 3),
                      .calls = sqlite3_column_int(q, 5),
                      .median_ns = sqlite3_column_double(q, 6),
                      .checked = sqlite3_column_int64(q, 7),
                      .bad = sqlite3_column_int64(q, 8),
                      .worst = sqlite3_column_type(q, 9) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(q, 9),
                      .compile_ns = sqlite3_column_int64(q, 10),
                      .from_cache = sqlite3_column_int(q, 11) != 0};
    t->nsamples = samples_read(column_str(cx, q, 4), t->sample_ns, STORE_SAMPLES);
    sqlite3_finalize(q);
    /* A row that was tampered with is as good as none. */
    if (t->nsamples < 0 || (!*t->slug && (!t->nsamples || !(t->median_ns > 0)))) *found = false;
    return OK;
}

/* ---- filters ---- */

Err filter_read(Cx *cx, const char *text, Filter *out) {
    *out = (Filter){0};
    const char *const names[] = {"kernel", "problem", "program", "shape", "device", "rowfold", "origin"};
    const char **const fields[] = {&out->kernel, &out->problem, &out->program, &out->shape,
                                   &out->device, &out->rowfold, &out->origin};
    static const char accepted[] = "kernel=NAME problem=SHA program=SHA shape=AXES device=PART rowfold=VERSION "
                                   "origin=trial|import, or a kernel's name or the beginning of a problem's SHA";
    for (const char *at = text ? text : ""; *(at += strspn(at, " \t\n")); at += strcspn(at, " \t\n")) {
        size_t n = strcspn(at, " \t\n"), eq = strcspn(at, "= \t\n");
        const char **field = eq < n ? NULL : &out->word;
        for (int i = 0; i < COUNT(names); i++)
            if (eq < n && strlen(names[i]) == eq && memcmp(names[i], at, eq) == 0) field = fields[i];
        if (!field || *field)
            return diag(cx, S_STORE_FILTER, NOWHERE, accepted, "%s '%.*s'", field ? "given twice:" : "unknown item",
                        (int)i64_min((int64_t)n, 60), at);
        *field = field == &out->word ? arena_str(cx->a, at, n) : arena_str(cx->a, at + eq + 1, n - eq - 1);
    }
    if (out->origin && !str_eq(out->origin, "trial") && !str_eq(out->origin, "import"))
        return diag(cx, S_STORE_FILTER, NOWHERE, "trial, import", "origin is '%.60s'", out->origin);
    const char *shas[] = {out->problem, out->program, out->word}; /* they go into a pattern */
    for (int i = 0; i < COUNT(shas); i++)
        if (shas[i] && strpbrk(shas[i], "*?[]"))
            return diag(cx, S_STORE_FILTER, NOWHERE, accepted, "'%.60s' is a pattern", shas[i]);
    return OK;
}

void filter_bind(Store *s, sqlite3_stmt *q, const Filter *f) {
    const char *values[] = {f->kernel, f->problem, f->program, f->shape, f->device, f->rowfold, f->word};
    for (int i = 0; i < COUNT(values); i++) bind_text(s, q, i + 1, values[i]);
}

/* ---- listing ---- */

static json_t *text_json(sqlite3_stmt *q, int i) {
    const char *s = (const char *)sqlite3_column_text(q, i);
    json_t *j = json_string(s ? s : "");
    return j ? j : json_string("");
}

static json_t *part_json(sqlite3_stmt *q, int i) { /* a part that is JSON itself */
    const char *s = (const char *)sqlite3_column_text(q, i);
    json_t *j = s && *s ? json_loads(s, JSON_DECODE_ANY, NULL) : NULL;
    return j ? j : json_null();
}

static json_t *real_json(sqlite3_stmt *q, int i) {
    double x = sqlite3_column_double(q, i);
    return sqlite3_column_type(q, i) == SQLITE_NULL || !isfinite(x) ? json_null() : json_real(x);
}

/* One query, one table of what stands in its columns. */
static const char list_sql[] =
    "SELECT t.id, p.sha, p.program_sha, p.kernel, p.types, p.shape, p.strides, p.alignment, p.promises, p.device,"
    " p.rowfold, p.threads, t.seed, t.plan, t.stage, t.effort, CASE t.slug WHEN '' THEN 'accepted' ELSE t.slug END,"
    " t.why, t.unit_sha, t.facts, t.demand, t.samples, t.calls, t.median_ns, t.checked, t.bad, t.worst, t.compile_ns,"
    " t.from_cache, t.time, t.host, t.id <= coalesce((SELECT max(upto) FROM forgotten f WHERE f.problem = p.id), 0)"
    " FROM trial t JOIN problem p ON p.id = t.problem WHERE " FILTER_SQL " AND (?8 IS NULL OR ?8 = 'trial')"
    " ORDER BY t.id DESC LIMIT ?9";
static const struct {
    const char *name;
    char kind; /* t text, i integer, r real, j JSON, b bool */
} columns[] = {{"id", 'i'},          {"problem", 't'},    {"program_sha256", 't'},
               {"kernel", 't'},      {"types", 't'},      {"shape", 't'},
               {"strides", 't'},     {"alignment", 't'},  {"promises", 't'},
               {"device", 't'},      {"rowfold", 't'},    {"threads", 'i'},
               {"seed", 'i'},        {"plan", 't'},       {"stage", 't'},
               {"effort", 't'},      {"status", 't'},     {"why", 't'},
               {"unit_sha256", 't'}, {"facts", 'j'},      {"demand", 'j'},
               {"samples_ns", 'j'},  {"calls", 'i'},      {"median_ns", 'r'},
               {"checked", 'i'},     {"bad", 'i'},        {"worst_error_share", 'r'},
               {"compile_ns", 'i'},  {"from_cache", 'b'}, {"time", 'i'},
               {"host", 't'},        {"forgotten", 'b'}};

static json_t *row_json(sqlite3_stmt *q) {
    json_t *o = json_object();
    for (int i = 0; o && i < COUNT(columns); i++)
        json_object_set_new(o, columns[i].name,
                            columns[i].kind == 't'   ? text_json(q, i)
                            : columns[i].kind == 'j' ? part_json(q, i)
                            : columns[i].kind == 'r' ? real_json(q, i)
                            : columns[i].kind == 'b' ? json_boolean(sqlite3_column_int(q, i))
                                                     : json_integer(sqlite3_column_int64(q, i)));
    return o;
}

Err store_trials(Cx *cx, Store *s, const Filter *f, int64_t limit, const char **json) {
    Buf b = buf_new(cx->a);
    buf_str(&b, "[");
    sqlite3_stmt *q = NULL;
    Err err = s ? store_prepare(cx, s, list_sql, &q) : OK;
    if (err) return err;
    if (q) {
        filter_bind(s, q, f);
        bind_text(s, q, 8, f->origin);
        bind_i64(s, q, 9, limit > 0 ? limit : -1);
    }
    bool row = false, ok = true;
    for (int64_t n = 0; q && !(err = store_step(cx, s, q, &row)) && row; n++) {
        Arena *a = arena_sub(cx->a);
        Cx own = {.a = a};
        buf_str(&b, n ? ",\n" : "\n");
        buf_str(&b, json_out(&own, s, row_json(q), &ok));
        arena_free(a);
        if (!ok) {
            sqlite3_finalize(q);
            return diag(cx, S_OOM, NOWHERE, NULL, "no memory for the list of trials");
        }
    }
    buf_str(&b, "\n]");
    *json = b.s;
    return err;
}
