/* The generator rowfold-fill-1 (docs/records.md): an element of a tensor from its seed and its place alone. */
#include "evaluate.h"

#include <math.h>
#include <string.h>

static const char *const fills[FILLS] = {"uniform", "normal", "wide", "cancel", "ties", "special"};

bool fill_named(const char *s, int *out) {
    for (int i = 0; i < FILLS; i++)
        if (same_text(s, fills[i])) return *out = i, true;
    return false;
}

static uint64_t next(uint64_t *s) { /* splitmix64 */
    uint64_t z = *s += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static double unit(uint64_t *s) {
    return ldexp((double)(next(s) >> 11), -53);
}
static int pick(uint64_t *s, int n) {
    return (int)(next(s) % (uint64_t)n);
}

static double special(uint64_t *r, Type t) {
    const TypeFact *f = type_fact(t);
    const double least = ldexp(1, f->least_exp - f->digits + 1), most = (double)f->most;
    const double list[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0, least, -3 * least, most, -most};
    return list[pick(r, 8)];
}

static double float_at(const Tensor *t, uint64_t *r, int64_t place, bool odd) {
    const int span = t->ty == F16 ? 6 : type_fact(t->ty)->bytes == 1 ? 4 : 20;
    switch (t->fill) {
    case FILL_UNIFORM: return 2 * unit(r) - 1;
    case FILL_WIDE: {
        const double m = 1 + unit(r);
        const double sign = next(r) & 1 ? 1 : -1;
        return ldexp(m * sign, pick(r, 2 * span) - span);
    }
    case FILL_CANCEL: {
        const double big = ldexp(1, span / 2), x = unit(r);
        return (odd || !(place & 1) ? big : -big) + x;
    }
    case FILL_TIES: {
        static const double few[] = {-1, 0, 0.5, 2, 2, 2};
        return few[pick(r, 6)];
    }
    default: {
        double x = -6;
        for (int i = 0; i < 12; i++) x += unit(r);
        return t->fill == FILL_SPECIAL && odd && pick(r, 8) == 0 ? special(r, t->ty) : x;
    }
    }
}

static int64_t int_at(const Tensor *t, uint64_t *r) {
    const bool sign = type_fact(t->ty)->kind == SINT;
    if (t->index_bound > 0) {
        const uint64_t b = (uint64_t)t->index_bound;
        return pick(r, 8) ? (int64_t)(next(r) % b) : (int64_t)(next(r) % (b + 4)) - 2;
    }
    switch (t->fill) {
    case FILL_WIDE:
    case FILL_SPECIAL: {
        const int64_t x = (int64_t)next(r);
        return x >> pick(r, 64);
    }
    case FILL_TIES: return pick(r, 3);
    case FILL_CANCEL: {
        const bool minus = next(r) & 1 && sign;
        const int64_t x = 100 + pick(r, 4);
        return minus ? -x : x;
    }
    default: return pick(r, 17) - (sign ? 8 : 0);
    }
}

Number tensor_at(const Tensor *t, int64_t i) {
    const int64_t row = t->row > 0 ? i / t->row : 0;
    uint64_t a = t->seed ^ (uint64_t)row * 0xd1342543de82ef95u, r = next(&a) + (uint64_t)i;
    const bool odd = next(&a) & 1 && (t->fill != FILL_SPECIAL || t->rank > 1);
    const Kind kind = type_fact(t->ty)->kind;
    if (kind == REAL) return (Number){round_float(t->ty, (long double)float_at(t, &r, i - row * t->row, odd)), 0};
    if (kind == BOOL) return (Number){0, (int64_t)(next(&r) >> 63)};
    return convert(I64, t->ty, (Number){0, int_at(t, &r)});
}

void number_bits(Type t, Number x, uint8_t *at) {
    const TypeFact *f = type_fact(t);
    uint64_t bits = (uint64_t)x.i;
    if (f->kind == REAL) {
        const int man_bits = f->digits - 1, width = 8 * f->bytes;
        const uint64_t sign = signbit(x.v) ? 1ull << (width - 1) : 0;
        const uint64_t top = (1ull << (width - 1 - man_bits)) - 1;
        if (isnan(x.v)) {
            bits = t == F8E4M3 ? 0x7f : top << man_bits | 1ull << (man_bits - 1);
        } else if (isinf(x.v)) {
            bits = sign | top << man_bits;
        } else if (x.v == 0) {
            bits = sign;
        } else {
            int e = ilogbl(x.v);
            const bool normal = e >= f->least_exp;
            if (!normal) e = f->least_exp;
            const uint64_t man = (uint64_t)ldexpl(fabsl(x.v), man_bits - e);
            bits =
                sign | (normal ? (uint64_t)(e - f->least_exp + 1) << man_bits : 0) | (man & ((1ull << man_bits) - 1));
        }
    }
    for (int i = 0; i < f->bytes; i++) at[i] = (uint8_t)(bits >> 8 * i);
}

static const PVal *bare(const Program *p, int v) {
    while (p->val[v].kind == V_CAST) v = p->val[v].a[0];
    return &p->val[v];
}

int64_t index_bound_of(const Program *p, int param) {
    const Kind kind = type_fact(p->param[param].ty)->kind;
    if (kind != SINT && kind != UINT) return 0;
    for (int i = 0; i < p->nvals; i++) {
        const PVal *v = &p->val[i];
        for (int d = 0; v->kind == V_LOAD && d < p->param[v->param].rank; d++) {
            const PVal *x = bare(p, v->idx[d]);
            if (x->kind == V_LOAD && x->param == param) return p->n[p->param[v->param].axis[d]];
        }
        for (int k = 0; v->kind == V_MAP && v->map == M_EQ && k < 2; k++) {
            const PVal *x = bare(p, v->a[k]), *y = bare(p, v->a[1 - k]);
            if (x->kind == V_LOAD && x->param == param && y->kind == V_IDX) return p->n[y->axis];
        }
    }
    return 0;
}
