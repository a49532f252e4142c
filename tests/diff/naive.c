/* Prog, Args -> outputs, by num_op alone. */
#include "naive.h"

#include <math.h>
#include <string.h>

typedef struct Table { /* row-major over the axes of the value, in the order of their numbers */
    Num *v;
    int64_t stride[MAX_AXES];
    int64_t n;
} Table;

typedef struct Naive {
    Cx *cx;
    const Prog *p;
    const Shape *s;
    const Args *a;
    bool pairwise;
    Mistake mistake;
    Table *t;
} Naive;

static int64_t count_of(const Shape *s, uint32_t axes) {
    int64_t n = 1;
    for (int i = 0; i < MAX_AXES; i++)
        if (axes >> i & 1) n *= s->n[i];
    return n;
}

/* of a program of so many axes */
static void coords(int naxes, const Shape *s, uint32_t axes, int64_t i, int64_t at[MAX_AXES]) {
    for (int k = naxes - 1; k >= 0; k--)
        if (axes >> k & 1) at[k] = i % s->n[k], i /= s->n[k];
}

static Num get(const Naive *z, int val, const int64_t at[MAX_AXES]) {
    int64_t off = 0;
    for (int k = 0; k < z->p->naxes; k++) off += z->t[val].stride[k] * at[k];
    return z->t[val].v[off];
}

static Num real(Ty t, double x) {
    return num_cast(t, (Num){.d = x}, TY_F64);
}

static Num apply(const Naive *z, Op op, Ty t, Ty to, Num x, Num y, Num w) {
    if (op == OP_EXP && z->mistake == EXP_OFF && t == TY_F32) return (Num){.f = expf(x.f) * 1.001f};
    if (t == TY_F32 && op_info(op)->cost == COST_SPECIAL)
        return (Num){.f = (float)op_f64(op, (double)x.f, (double)y.f, (double)w.f)};
    return num_op(op, t, to, x, y, w);
}

static Num fold(const Naive *z, Op op, Ty t, const Num *x, int64_t n, Num identity) {
    if (n == 0) return identity;
    if (!z->pairwise || n < 3) {
        Num s = x[0];
        for (int64_t i = 1; i < n; i++) s = apply(z, op, t, t, s, x[i], x[i]);
        return s;
    }
    return apply(z, op, t, t, fold(z, op, t, x, n / 2, identity), fold(z, op, t, x + n / 2, n - n / 2, identity),
                 identity);
}

static Num map1(const Naive *z, Op op, Ty t, Num x) {
    return apply(z, op, t, t, x, x, x);
}
static Num map2(const Naive *z, Op op, Ty t, Num x, Num y) {
    return apply(z, op, t, t, x, y, y);
}

static Num reduce(const Naive *z, const Val *v, Ty t, Num *x, int64_t n) {
    const Num zero = real(t, 0), count = real(t, (double)n);
    if (z->mistake == SKIP_LAST && n > 1) n--;
    switch (v->red) {
    case RED_ANY:
    case RED_ALL: {
        bool b = v->red == RED_ALL;
        for (int64_t i = 0; i < n; i++) b = v->red == RED_ALL ? b && x[i].b : b || x[i].b;
        Num r = {0};
        r.b = b;
        return r;
    }
    case RED_ARGMAX:
    case RED_ARGMIN: {
        int64_t best = n ? 0 : -1;
        for (int64_t i = 1; i < n; i++) {
            const double a = num_f64(x[i], t), b = num_f64(x[best], t);
            bool better = ty_is_float(t)
                              ? (v->red == RED_ARGMAX ? a > b : a < b)
                              : num_op(v->red == RED_ARGMAX ? OP_GT : OP_LT, t, TY_BOOL, x[i], x[best], zero).b;
            if (z->mistake == LAST_TIE) better |= a == b;
            if (!isnan(b) && (better || isnan(a))) best = i;
        }
        return (Num){.i = best};
    }
    case RED_MEAN: return map2(z, OP_DIV, t, fold(z, OP_ADD, t, x, n, zero), count);
    case RED_VAR: {
        const Num mu = map2(z, OP_DIV, t, fold(z, OP_ADD, t, x, n, zero), count);
        for (int64_t i = 0; i < n; i++) {
            const Num c = z->mistake == RAW_MOMENTS ? x[i] : map2(z, OP_SUB, t, x[i], mu);
            x[i] = map2(z, OP_MUL, t, c, c);
        }
        const Num var = map2(z, OP_DIV, t, fold(z, OP_ADD, t, x, n, zero), count);
        return z->mistake == RAW_MOMENTS ? map2(z, OP_SUB, t, var, map2(z, OP_MUL, t, mu, mu)) : var;
    }
    case RED_NORM2:
        for (int64_t i = 0; i < n; i++) x[i] = map2(z, OP_MUL, t, x[i], x[i]);
        return map1(z, OP_SQRT, t, fold(z, OP_ADD, t, x, n, zero));
    case RED_LSE: {
        const Num m = fold(z, OP_MAX, t, x, n, real(t, -(double)INFINITY));
        const Num g = isinf(num_f64(m, t)) ? zero : m;
        for (int64_t i = 0; i < n; i++) x[i] = map1(z, OP_EXP, t, map2(z, OP_SUB, t, x[i], g));
        return map2(z, OP_ADD, t, map1(z, OP_LOG, t, fold(z, OP_ADD, t, x, n, zero)), g);
    }
    default: {
        const Num id = ty_is_float(t) ? real(t, red_identity_f64(v->red, t)) : (Num){.i = red_identity_i64(v->red, t)};
        const Num r = fold(z, (Op)red_info(v->red)->join, t, x, n, id);
        return z->mistake == MAX_FROM_ZERO && v->red == RED_MAX ? map2(z, OP_MAX, t, r, zero) : r;
    }
    }
}

static Num one(const Naive *z, const Val *v, int64_t at[MAX_AXES], Num *row) {
    const Prog *p = z->p;
    const Ty t = v->a[0] >= 0 ? p->val[v->a[0]].ty : TY_NONE;
    switch (v->op) {
    case OP_CONST: return v->k;
    case OP_SCALAR:
        return num_cast(p->param[v->param].ty, z->a->scalar[v->param],
                        ty_is_float(p->param[v->param].ty) ? TY_F64 : TY_I64);
    case OP_IDX: return (Num){.i = at[v->axis]};
    case OP_LOAD: {
        const Tensor *m = &z->a->t[v->param];
        int64_t off = 0;
        for (int d = 0; d < m->rank; d++) {
            const Num i = get(z, v->idx[d], at);
            if (i.i < 0 || i.i >= m->n[d]) { /* u64 above the range of i64 is negative here, and so outside as well */
                if (v->fill >= 0) return get(z, v->fill, at);
                return ty_is_float(v->ty) ? real(v->ty, (double)NAN) : (Num){.i = 0};
            }
            off += i.i * m->stride[d];
        }
        return num_load(m->ty, (const char *)m->data + off * ty_bytes(m->ty));
    }
    case OP_RED: {
        const int64_t n = count_of(z->s, v->over);
        for (int64_t i = 0; i < n; i++) {
            coords(z->p->naxes, z->s, v->over, i, at);
            row[i] = get(z, v->a[0], at);
        }
        return reduce(z, v, t, row, n);
    }
    default: {
        Num x[3] = {{0}, {0}, {0}};
        for (int k = 0; k < op_info(v->op)->arity; k++) x[k] = get(z, v->a[k], at);
        return apply(z, v->op, v->op == OP_WHERE ? v->ty : t, v->op == OP_CAST ? v->to : v->ty, x[0], x[1], x[2]);
    }
    }
}

void naive(Cx *cx, const Prog *p, const Shape *s, const Args *a, bool pairwise, Mistake mistake) {
    Naive z = {cx, p, s, a, pairwise, mistake, NEWN(cx->a, Table, p->nvals)};
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        Table *t = &z.t[i];
        t->n = count_of(s, v->axes);
        t->v = NEWN(cx->a, Num, t->n);
        Num *row = v->op == OP_RED ? NEWN(cx->a, Num, count_of(s, v->over)) : NULL;
        int64_t n = 1;
        for (int k = p->naxes - 1; k >= 0; k--)
            if (v->axes >> k & 1) t->stride[k] = n, n *= s->n[k];
        for (int64_t j = 0; j < t->n; j++) {
            int64_t at[MAX_AXES] = {0};
            coords(p->naxes, s, v->axes, j, at);
            t->v[j] = one(&z, v, at, row);
        }
    }
    for (int o = 0; o < p->nouts; o++) {
        const Tensor *t = &a->t[p->out[o].param];
        const Param *q = &p->param[p->out[o].param];
        const Val *v = &p->val[p->out[o].val];
        uint32_t axes = 0;
        for (int d = 0; d < q->rank; d++) axes |= 1u << q->axis[d];
        for (int64_t j = 0, n = count_of(s, axes); j < n; j++) {
            int64_t at[MAX_AXES] = {0}, off = 0;
            coords(p->naxes, s, axes, j, at);
            for (int d = 0; d < q->rank; d++) off += at[q->axis[d]] * t->stride[d];
            Num r = get(&z, p->out[o].val, at);
            if (mistake == TRUNCATE && v->ty == TY_F32 && q->ty == TY_BF16) { /* toward zero, instead of nearest */
                uint32_t u;
                memcpy(&u, &r.f, sizeof u);
                u &= 0xFFFF0000u;
                memcpy(&r.f, &u, sizeof u);
            }
            num_store(t->ty, (char *)t->data + off * ty_bytes(t->ty), r, v->ty);
        }
    }
}
