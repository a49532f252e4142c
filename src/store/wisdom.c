/* Wisdom: the best of what is remembered for a problem, or for its neighbours; and how to let go of it. */
#include "book.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The extent that a kernel is planned for: of "1..4096" the largest. */
static double planned(const char *extent, bool *ranged) {
    const char *dots = strstr(extent, ".."), *end = strchr(extent, ',');
    *ranged = dots && (!end || dots < end);
    return strtod(*ranged ? dots + 2 : extent, NULL);
}

/* Doublings from shape to shape, added over the axes; negative where they are not neighbours: a kernel for a range is
 * none of one for a single extent. An axis that one of them does not give (rows that are not known yet) does not count.
 */
static double apart(const char *a, const char *b) {
    double sum = 0;
    for (const char *at = a; *at; at += at[0] == ',') {
        size_t n = strcspn(at, ","), name = strcspn(at, "=");
        for (const char *bt = b; *bt; bt += bt[0] == ',') {
            size_t m = strcspn(bt, ",");
            if (strcspn(bt, "=") == name && strncmp(at, bt, name) == 0) {
                bool one, other;
                double x = planned(at + name + 1, &one), y = planned(bt + name + 1, &other);
                if (!(x > 0) != !(y > 0) || one != other) return -1;
                double d = x > 0 ? fabs(log2(x / y)) : 0;
                if (d > 1) return -1;
                sum += d;
            }
            bt += m;
        }
        at += n;
    }
    return sum;
}

static int by_distance(const void *x, const void *y) {
    const Wisdom *a = x, *b = y;
    if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
    return strcmp(a->problem, b->problem);
}

Err wisdom_near(Cx *cx, Store *s, const StoreKey *k, Wisdom **out, int *n) {
    int cap = 0;
    bool row = false;
    sqlite3_stmt *q = NULL;
    *n = 0;
    *out = NULL;
    if (!s) return OK;
    Err err = store_prepare(cx, s,
                            "SELECT w.plan, p.shape, p.sha, w.effort, w.stage, w.host, w.import > 0, w.median_ns,"
                            " w.time FROM wisdom w JOIN problem p ON p.id = w.problem WHERE p.program_sha = ?1 AND"
                            " p.strides = ?2 AND p.alignment = ?3 AND p.promises = ?4 AND p.device = ?5 AND p.caps = ?6"
                            " AND p.rowfold = ?7 AND p.threads = ?8",
                            &q);
    if (err) return err;
    const char *texts[] = {k->program_sha, k->strides, k->alignment, k->promises, k->device, k->caps, k->rowfold};
    for (int i = 0; i < COUNT(texts); i++) bind_text(s, q, i + 1, texts[i]);
    bind_i64(s, q, 8, k->threads);
    while (!(err = store_step(cx, s, q, &row)) && row) {
        const char *shape = column_str(cx, q, 1), *sha = column_str(cx, q, 2);
        double d = str_eq(sha, k->sha) ? 0 : apart(k->shape, shape);
        if (d < 0) continue;
        if (d == 0 && !str_eq(sha, k->sha))
            d = 1e-9; /* rows are not known: a neighbour, and the very problem is first */
        GROW(cx->a, *out, *n, cap);
        (*out)[(*n)++] = (Wisdom){.plan = column_str(cx, q, 0),
                                  .shape = shape,
                                  .problem = sha,
                                  .effort = column_str(cx, q, 3),
                                  .stage = column_str(cx, q, 4),
                                  .host = column_str(cx, q, 5),
                                  .imported = sqlite3_column_int(q, 6) != 0,
                                  .median_ns = sqlite3_column_double(q, 7),
                                  .time_s = sqlite3_column_int64(q, 8),
                                  .distance = d};
    }
    if (*n) qsort(*out, (size_t)*n, sizeof **out, by_distance);
    return err;
}

static Err forget_with(Cx *cx, Store *s, const Filter *f, const char *sql, bool timed, int64_t *changed) {
    sqlite3_stmt *q;
    bool row;
    Err err = store_prepare(cx, s, sql, &q);
    if (err) return err;
    filter_bind(s, q, f);
    if (timed) bind_i64(s, q, 8, (int64_t)time(NULL));
    err = store_step(cx, s, q, &row);
    *changed = err ? 0 : sqlite3_changes64(s->db);
    return err;
}

static Err count_wise(Cx *cx, Store *s, const Filter *f, int64_t *n) {
    sqlite3_stmt *q;
    bool row = false;
    Err err =
        store_prepare(cx, s, "SELECT count(*) FROM wisdom w JOIN problem p ON p.id = w.problem WHERE " FILTER_SQL, &q);
    if (err) return err;
    filter_bind(s, q, f);
    err = store_step(cx, s, q, &row);
    if (!row) return err;
    *n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return OK;
}

Err wisdom_forget(Cx *cx, Store *s, const Filter *f, int64_t *problems) {
    int64_t changed, before = 0, after = 0;
    Err err = store_begin(cx, s);
    if (err) return err;
    err = count_wise(cx, s, f, &before);
    if (!err && (!f->origin || str_eq(f->origin, "trial")))
        err = forget_with(cx, s, f,
                          "INSERT INTO forgotten (problem, upto, time) SELECT p.id, max(t.id), ?8 FROM trial t JOIN"
                          " problem p ON p.id = t.problem WHERE " FILTER_SQL " GROUP BY p.id",
                          true, &changed);
    if (!err && (!f->origin || str_eq(f->origin, "import")))
        err = forget_with(cx, s, f,
                          "DELETE FROM imported WHERE problem IN (SELECT p.id FROM problem p WHERE " FILTER_SQL ")",
                          false, &changed);
    if (!err) err = count_wise(cx, s, f, &after);
    *problems = before - after;
    return store_end(cx, s, err);
}
