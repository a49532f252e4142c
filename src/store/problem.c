/* What a key says -> the problem that it names, planned for the machine that it says. And every trial with its key. */
#include "book.h"

#include <string.h>

static Err field(Cx *cx, const char *name, const char *accept) {
    return diag(cx, S_WISDOM_FIELD, NOWHERE, accept, "member %s is missing or off", name);
}

static Err read_shape(Cx *cx, const Prog *p, const char *text, Shape *s) {
    for (int i = 0; i < MAX_AXES; i++) s->n[i] = -1;
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, ","), eq = strcspn(at, "=");
        int axis = eq < n ? prog_axis(p, arena_str(cx->a, at, eq)) : -1;
        if (axis < 0 || p->axis[axis].ext >= 0 || s->n[axis] >= 0 ||
            !extent_read(arena_str(cx->a, at + eq + 1, n - eq - 1), s, axis) || s->n[axis] < 0)
            return field(cx, "shape", "axis=extent pairs of the program");
        at += n + (at[n] == ',');
    }
    return OK;
}

static Err read_strides(Cx *cx, const Prog *p, const char *text, uint32_t *out) {
    if (str_eq(text, "dense")) return OK;
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, ",");
        int i = prog_param(p, arena_str(cx->a, at, n));
        if (i < 0) return field(cx, "strides", "dense, or parameters of the program");
        *out |= 1u << i;
        at += n + (at[n] == ',');
    }
    return OK;
}

Err store_problem(Cx *cx, const StoreKey *k, Problem *out) {
    Prog *p;
    Caps caps;
    Shape shape = {0};
    uint32_t strided = 0;
    Err err = prog_read(cx, k->program, strlen(k->program), &p);
    if (!err) err = caps_read(cx, k->caps, &caps);
    if (!err) err = read_shape(cx, p, k->shape, &shape);
    if (!err) err = read_strides(cx, p, k->strides, &strided);
    if (!err) err = problem_make(cx, p, &shape, &caps, strided, out);
    if (!err) out->noalias = str_starts(k->promises, "noalias");
    return err;
}

bool store_key_is_cold(const StoreKey *k) {
    return strstr(k->promises, ",cold") != NULL;
}

static const char each_sql[] =
    "SELECT p.sha, p.program_sha, p.kernel, p.program, p.types, p.shape, p.strides, p.alignment, p.promises, p.device,"
    " p.caps, p.rowfold, p.threads, t.id, t.plan, t.stage, t.slug, t.facts, t.samples, t.calls, t.median_ns"
    " FROM trial t JOIN problem p ON p.id = t.problem WHERE " FILTER_SQL
    " AND (?8 IS NULL OR ?8 = 'trial') AND t.id > coalesce((SELECT max(upto) FROM forgotten f WHERE f.problem = p.id), "
    "0)"
    " ORDER BY p.id, t.id";

Err store_each(Cx *cx, Store *s, const Filter *f, StoreTake *take, void *user) {
    sqlite3_stmt *q = NULL;
    bool row = false;
    if (!s) return OK;
    Err err = store_prepare(cx, s, each_sql, &q);
    if (err) return err;
    filter_bind(s, q, f);
    bind_text(s, q, 8, f->origin);
    while (!(err = store_step(cx, s, q, &row)) && row) {
        const char *text[12];
        for (int i = 0; i < COUNT(text); i++) text[i] = column_str(cx, q, i);
        const StoreKey k = {.sha = text[0],
                            .program_sha = text[1],
                            .kernel = text[2],
                            .program = text[3],
                            .types = text[4],
                            .shape = text[5],
                            .strides = text[6],
                            .alignment = text[7],
                            .promises = text[8],
                            .device = text[9],
                            .caps = text[10],
                            .rowfold = text[11],
                            .threads = sqlite3_column_int(q, 12)};
        StoreTrial t = {.id = sqlite3_column_int64(q, 13),
                        .plan = column_str(cx, q, 14),
                        .slug = column_str(cx, q, 16),
                        .facts = column_str(cx, q, 17),
                        .calls = sqlite3_column_int(q, 19),
                        .median_ns = sqlite3_column_double(q, 20)};
        for (Stage g = STAGE_SHORT; g <= STAGE_CONFIRMED; g++)
            if (str_eq(column_str(cx, q, 15), stage_text(g))) t.stage = g;
        t.nsamples = samples_read(column_str(cx, q, 18), t.sample_ns, STORE_SAMPLES);
        err = take(user, &k, &t);
        if (err) {
            sqlite3_finalize(q);
            return err;
        }
    }
    return err;
}
