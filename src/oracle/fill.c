/* Seeded inputs: each element from the seed and its row-major index alone. */
#include <math.h>
#include <string.h>

#include "oracle.h"

static const char *const fills[FILL_COUNT] = {"uniform", "normal", "wide", "cancel", "ties", "special"};

const char *fill_text(Fill f) {
    return fills[f];
}

bool fill_find(const char *s, Fill *out) {
    for (int i = 0; i < FILL_COUNT; i++)
        if (str_eq(fills[i], s)) return *out = (Fill)i, true;
    return false;
}

/* Exponents of two that "wide" spans, so that squares stay finite; the largest number and the smallest subnormal */
static void range_of(Ty t, int *span, double *max, double *least) {
    *span = t == TY_F16 ? 6 : t == TY_F8E4M3 || t == TY_F8E5M2 ? 4 : 20;
    switch (t) {
    case TY_F16: *max = 65504, *least = 0x1p-24; break;
    case TY_BF16: *max = 0x1.FEp127, *least = 0x1p-133; break;
    case TY_F8E4M3: *max = 448, *least = 0x1p-9; break;
    case TY_F8E5M2: *max = 57344, *least = 0x1p-16; break;
    case TY_F64: *max = 0x1.fffffffffffffp1023, *least = 0x1p-1074; break;
    default: *max = 0x1.fffffep127, *least = 0x1p-149;
    }
}

static double normal(Rng *r) { /* Irwin-Hall: the same on any machine, since it needs no libm */
    double s = -6;
    for (int i = 0; i < 12; i++) s += rng_unit(r);
    return s;
}

static double special(Rng *r, Ty t) {
    int span;
    double max, least;
    range_of(t, &span, &max, &least);
    switch (rng_int(r, 8)) {
    case 0: return (double)NAN;
    case 1: return (double)INFINITY;
    case 2: return -(double)INFINITY;
    case 3: return -0.0;
    case 4: return least;
    case 5: return -3 * least;
    case 6: return max;
    default: return -max;
    }
}

static double real_element(Rng *r, Fill f, Ty t, int64_t i, bool odd_row) {
    int span;
    double max, least;
    range_of(t, &span, &max, &least);
    switch (f) {
    case FILL_UNIFORM: return 2 * rng_unit(r) - 1;
    case FILL_WIDE: {
        double m = (1 + rng_unit(r)) * (rng_u64(r) & 1 ? 1 : -1);
        return ldexp(m, rng_int(r, 2 * span) - span);
    }
    case FILL_CANCEL: { /* large, of both signs in turn, so that sums are small beside their terms; or all near one
                           large number */
        double big = ldexp(1, span / 2), x = rng_unit(r);
        return odd_row ? big + x : (i & 1 ? -big : big) + x;
    }
    case FILL_TIES: {
        static const double few[] = {-1, 0, 0.5, 2, 2, 2};
        return few[rng_int(r, COUNT(few))];
    }
    case FILL_SPECIAL: {
        double x = normal(r);
        return odd_row && rng_int(r, 8) == 0 ? special(r, t) : x;
    }
    default: return normal(r);
    }
}

static int64_t int_element(Rng *r, Fill f, Ty t, int64_t bound) {
    const bool sign = ty_is_signed(t);
    if (bound > 0)
        return rng_int(r, 8) ? (int64_t)(rng_u64(r) % (uint64_t)bound)
                             : (int64_t)(rng_u64(r) % (uint64_t)(bound + 4)) - 2;
    switch (f) {
    case FILL_WIDE:
    case FILL_SPECIAL: { /* all of the range */ const int64_t x = (int64_t)rng_u64(r); return x >> rng_int(r, 64);
    }
    case FILL_TIES: return rng_int(r, 3);
    case FILL_CANCEL: return (rng_u64(r) & 1 && sign ? -1 : 1) * (int64_t)(100 + rng_int(r, 4));
    default: return rng_int(r, 17) - (sign ? 8 : 0);
    }
}

/* Elements from <= j < to of the row at p. */
static void fill_row(Tensor *t, char *p, int64_t from, int64_t to, int64_t step, Fill f, Rng row, int64_t first,
                     int64_t index_bound) {
    const uint64_t base = rng_u64(&row) + (uint64_t)first;
    const bool odd_row = rng_u64(&row) & 1 && (f != FILL_SPECIAL || t->rank > 1);
    p += from * step;
    for (int64_t j = from; j < to; j++, p += step) {
        Rng r = {base + (uint64_t)j};
        if (ty_is_float(t->ty))
            num_store(t->ty, p, (Num){.d = real_element(&r, f, t->ty, j, odd_row)}, TY_F64);
        else if (t->ty == TY_BOOL)
            num_store(TY_BOOL, p, (Num){.i = (int64_t)(rng_u64(&r) >> 63)}, TY_I64);
        else
            num_store(t->ty, p, (Num){.i = int_element(&r, f, t->ty, index_bound)}, TY_I64);
    }
}

typedef struct Filling {
    Tensor *t;
    Fill f;
    uint64_t seed;
    int64_t index_bound;
} Filling;

/* Rows are those of the last dimension; i-th of them from <= i < to. */
static Err fill_rows(Cx *cx, void *user, int part, int64_t from, int64_t to) {
    const Filling *q = user;
    Tensor *t = q->t;
    const int last = t->rank - 1, bytes = ty_bytes(t->ty);
    const int64_t row_len = t->rank ? t->n[last] : 1, step = t->rank ? t->stride[last] * bytes : 0;
    int64_t at[MAX_RANK] = {0}, off = 0, left = from;
    (void)part;
    for (int d = last - 1; d >= 0 && from < to; d--)
        at[d] = left % t->n[d], left /= t->n[d], off += at[d] * t->stride[d];
    for (int64_t i = from; i < to && row_len > 0; i++) { /* of nothing there may be no memory */
        const Rng row = {q->seed ^ (uint64_t)i * 0xd1342543de82ef95ull};
        if (cx && cx_over(cx)) return cx_stopped(cx);
        fill_row(t, (char *)t->data + off * bytes, 0, row_len, step, q->f, row, i * row_len, q->index_bound);
        for (int d = last - 1; d >= 0; d--) {
            off += t->stride[d];
            if (++at[d] < t->n[d]) break;
            off -= t->stride[d] * t->n[d];
            at[d] = 0;
        }
    }
    return OK;
}

/* The only row, from <= j < to of its elements. */
static Err fill_elements(Cx *cx, void *user, int part, int64_t from, int64_t to) {
    enum { AT_ONCE = 1 << 20 };
    const Filling *q = user;
    const int64_t step = q->t->stride[q->t->rank - 1] * ty_bytes(q->t->ty);
    (void)part;
    for (int64_t j = from; j < to; j += AT_ONCE) {
        if (cx_over(cx)) return cx_stopped(cx);
        fill_row(q->t, q->t->data, j, i64_min(to, j + AT_ONCE), step, q->f, (Rng){q->seed}, 0, q->index_bound);
    }
    return OK;
}

static int64_t fill_count(const Tensor *t) {
    int64_t rows = 1;
    for (int d = 0; d < t->rank - 1; d++) rows *= t->n[d];
    return rows;
}

void fill_tensor(Tensor *t, Fill f, uint64_t seed, int64_t index_bound) {
    fill_rows(NULL, &(Filling){t, f, seed, index_bound}, 0, 0, fill_count(t));
}

Err fill_tensor_by(Cx *cx, const Crew *c, Tensor *t, Fill f, uint64_t seed, int64_t index_bound) {
    Filling q = {t, f, seed, index_bound};
    const int64_t rows = fill_count(t), row_len = t->rank ? t->n[t->rank - 1] : 1;
    if (rows == 1 && t->rank) return crew_run(cx, c, crew_parts(c, row_len, row_len), row_len, fill_elements, &q);
    return crew_run(cx, c, crew_parts(c, rows, rows * row_len), rows, fill_rows, &q);
}

/* ---- which integers are indexes ---- */

static const Val *bare(const Prog *p, int v) {
    while (p->val[v].op == OP_CAST) v = p->val[v].a[0];
    return &p->val[v];
}

int64_t fill_bound(const Prog *p, const Shape *s, int param) {
    if (!ty_is_int(p->param[param].ty)) return 0;
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        for (int d = 0; v->op == OP_LOAD && d < p->param[v->param].rank; d++) {
            const Val *x = bare(p, v->idx[d]);
            if (x->op == OP_LOAD && x->param == param) return s->n[p->param[v->param].axis[d]];
        }
        for (int k = 0; v->op == OP_EQ && k < 2; k++) {
            const Val *x = bare(p, v->a[k]), *y = bare(p, v->a[1 - k]);
            if (x->op == OP_LOAD && x->param == param && y->op == OP_IDX) return s->n[y->axis];
        }
    }
    return 0;
}
