/* One element of a map or a conversion: value and bound (the rule is in evaluate.h). */
#include "evaluate.h"

#include <math.h>

#define INF ((double)INFINITY)

static const Limits f32_limits = {0x1p-24L, 0x1p-149L, 0x1p-125L, 0x1p128L - 0x1p103L};
static const Limits f64_limits = {0x1p-53L, 0x1p-1074L, 0x1p-1021L, 0x1p1023L * 2 - 0x1p970L};

const Limits *limits_of(Type t) {
    return t == F64 ? &f64_limits : &f32_limits;
}

double rules_ulp(const Rules *r, MapOp m, Type t) {
    const MapFact *f = map_fact(m);
    if (t == F64) return f->special ? fmax(2, f->ulp) : f->ulp;
    if (m == M_DIV && r->reciprocal) return 2;
    if (!r->native) return m == M_EXP && r->fast_exp ? 2 : f->ulp; /* the shorter polynomial */
    if (m == M_DIV || m == M_SQRT || m == M_RSQRT) return 2;
    return f->special ? fmax(4, f->ulp) : f->ulp;
}

static long double largest(long double x, long double y) {
    if (isnan(x) || isnan(y)) return (long double)NAN;
    return x > y || (x == y && !signbit(x)) ? x : y;
}
static long double smallest(long double x, long double y) {
    return -largest(-x, -y);
}

/* The meaning of a map of floats, exact but for the 64 bits of this precision. */
static long double meaning(MapOp m, long double x, long double y) {
    switch (m) {
    case M_ADD: return x + y;
    case M_SUB: return x - y;
    case M_MUL: return x * y;
    case M_DIV: return x / y;
    case M_NEG: return -x;
    case M_ABS: return fabsl(x);
    case M_MIN: return smallest(x, y);
    case M_MAX: return largest(x, y);
    case M_FLOOR: return floorl(x);
    case M_ROUND: return rintl(x);
    case M_SQRT: return sqrtl(x);
    case M_RSQRT: return 1 / sqrtl(x);
    case M_EXP: return expl(x);
    case M_EXP2: return exp2l(x);
    case M_LOG: return logl(x);
    case M_LOG2: return log2l(x);
    case M_TANH: return tanhl(x);
    case M_ERF: return erfl(x);
    case M_SIGMOID: return x > 0 ? 1 / (1 + expl(-x)) : isinf(x) ? 0 : expl(x) / (1 + expl(x));
    case M_POW: return powl(x, y);
    case M_LT: return x < y;
    case M_LE: return x <= y;
    case M_GT: return x > y;
    case M_GE: return x >= y;
    case M_EQ: return x == y;
    case M_NE: return x != y;
    default: return (long double)NAN;
    }
}

typedef struct Span {
    long double lo, hi;
} Span;

/* How far the value moves when its operands do; INFINITY where nothing bounds it. */
static long double moved(MapOp m, const Cell *a, const Span *s, long double v) {
    const long double x = a[0].v, y = a[1].v;
    const double ex = a[0].e, ey = a[1].e;
    switch (m) {
    case M_ADD:
    case M_SUB: return (long double)ex + ey;
    case M_MUL: return fabsl(x) * ey + fabsl(y) * ex + (long double)ex * ey;
    case M_DIV: return fabsl(y) > ey ? (ex + fabsl(v) * ey) / (fabsl(y) - ey) : (long double)INFINITY;
    case M_MIN:
    case M_MAX: {
        const long double lo = meaning(m, s[0].lo, s[1].lo), hi = meaning(m, s[0].hi, s[1].hi);
        return fmaxl(hi - v, v - lo);
    }
    case M_ABS: return ex;
    case M_POW: {
        if (ex == 0 && ey == 0) return 0;
        if (s[0].lo <= 0 && !(ey == 0 && y > 0 && y == floorl(y))) return (long double)INFINITY;
        long double g = s[0].lo < 0 && s[0].hi > 0 ? fabsl(v) : 0; /* whole powers turn at 0 */
        for (int c = 0; c < 4; c++) g = fmaxl(g, fabsl(powl(c & 1 ? s[0].hi : s[0].lo, c & 2 ? s[1].hi : s[1].lo) - v));
        return g;
    }
    case M_SQRT:
    case M_RSQRT:
    case M_LOG:
    case M_LOG2:
        if (s[0].lo < 0 || (s[0].lo == 0 && ex > 0 && m != M_SQRT)) return (long double)INFINITY;
        break;
    default: break;
    }
    if (ex == 0) return 0;
    return fmaxl(fabsl(meaning(m, s[0].hi, 0) - v), fabsl(v - meaning(m, s[0].lo, 0))); /* all these rise or fall */
}

/* Do all corners of the operands' intervals give this NaN or infinity? */
static bool is_certain(MapOp m, int arity, const Cell *a, const Span *s, long double v) {
    bool exact = true;
    for (int k = 0; k < arity; k++) {
        if (isnan(a[k].v) && a[k].e < INF && m != M_POW) return true;
        exact &= a[k].e == 0;
    }
    if (exact) return true;
    for (int c = 0; c < 1 << arity; c++) {
        if (a[0].e == INF || (arity > 1 && a[1].e == INF)) return false;
        const long double w = meaning(m, c & 1 ? s[0].hi : s[0].lo, c & 2 ? s[1].hi : s[1].lo);
        if (isnan(v) ? !isnan(w) : w != v) return false;
    }
    return m != M_POW || (a[1].e == 0 && (s[0].lo > 0) == (s[0].hi > 0)); /* whole powers are hidden among the others */
}

static Cell float_map(const Rules *r, MapOp m, Type ty, const Cell *a, const bool *positive) {
    const Limits *l = limits_of(ty);
    const int arity = map_fact(m)->arity;
    const double ulp = rules_ulp(r, m, ty);
    Span s[2];
    bool exact = true, open = false;
    for (int k = 0; k < 2; k++) {
        s[k].lo = a[k].v - a[k].e;
        s[k].hi = a[k].v + a[k].e;
        if (positive[k] && s[k].lo < 0) s[k].lo = 0;
        if (k < arity) exact &= a[k].e == 0, open |= a[k].e == INF;
    }
    Cell c = {meaning(m, a[0].v, a[1].v), 0, 0};
    if (isnan(c.v) || isinf(c.v)) {
        c.e = is_certain(m, arity, a, s, c.v) ? 0 : INF;
        return c;
    }
    if (open) return c.e = INF, c;
    if (ulp <= 0.5 && exact && round_float(ty, c.v) == c.v) return c;
    long double g = exact ? 0 : moved(m, a, s, c.v);
    if (m == M_TANH || m == M_ERF) g = fminl(g, 2);
    if (m == M_SIGMOID) g = fminl(g, 1);
    if (isnan(g)) g = (long double)INFINITY;
    const bool fast = m == M_EXP && ty == F32 && r->fast_exp && r->native;
    if (fast && c.v > 0) g += c.v * (0x1p-22L + (fabsl(a[0].v) + a[0].e) * 0x1p-23L);
    g += 2 * l->u * ulp * (fabsl(c.v) + g);
    if (ulp > 0 && m != M_ADD && m != M_SUB && fabsl(c.v) + g < l->small && (c.v != 0 || g > 0))
        g += ty == F64 && m == M_SIGMOID ? 0x1p-1022L : fast ? 0x1p-126L : l->tiny * fmax(1, ulp);
    c.e = fabsl(c.v) + g < l->over ? (double)g : INF;
    if (c.e == INF && fabsl(c.v) - g >= l->over && !(m == M_MUL && r->contract))
        c = (Cell){copysignl((long double)INFINITY, c.v), 0, 0};
    return c;
}

static Cell compare(MapOp m, Type t, const Cell *a) {
    Cell c = {0, 0, 0};
    const bool floats = type_fact(t)->kind == REAL;
    const long double x = floats ? a[0].v : int_real(t, a[0].i), y = floats ? a[1].v : int_real(t, a[1].i);
    const double both = a[0].e + a[1].e;
    c.i = meaning(m, x, y) != 0;
    const bool sure = both == 0 || (both < INF && (isnan(x) || isnan(y) || fabsl(x - y) > both));
    c.e = sure ? 0 : 1;
    return c;
}

static int64_t wrap(Type t, uint64_t x) {
    return t == I32 ? (int64_t)(int32_t)(uint32_t)x : t == U32 ? (int64_t)(uint32_t)x : (int64_t)x;
}

static int64_t divide(Type t, int64_t x, int64_t y) {
    if (y == 0) return 0;
    if (type_fact(t)->kind == UINT) return (int64_t)((uint64_t)x / (uint64_t)y);
    return y == -1 ? wrap(t, 0 - (uint64_t)x) : x / y;
}

static Cell int_map(MapOp m, Type t, const Cell *a) {
    const int64_t x = a[0].i, y = a[1].i;
    const bool less = type_fact(t)->kind == UINT ? (uint64_t)x < (uint64_t)y : x < y;
    const double both = a[0].e + a[1].e;
    Cell c = {0, 0, 0};
    switch (m) {
    case M_ADD: c.i = wrap(t, (uint64_t)x + (uint64_t)y), c.e = both; break;
    case M_SUB: c.i = wrap(t, (uint64_t)x - (uint64_t)y), c.e = both; break;
    case M_MUL: c.i = wrap(t, (uint64_t)x * (uint64_t)y), c.e = both > 0 ? INF : 0; break;
    case M_DIV: c.i = divide(t, x, y), c.e = both > 0 ? INF : 0; break;
    case M_NEG: c.i = wrap(t, 0 - (uint64_t)x), c.e = a[0].e; break;
    case M_ABS:
        c.i = type_fact(t)->kind == UINT || x >= 0 ? x : wrap(t, 0 - (uint64_t)x);
        c.e = a[0].e;
        break;
    case M_MIN: c.i = less ? x : y, c.e = both; break;
    case M_MAX: c.i = less ? y : x, c.e = both; break;
    default: c.i = x, c.e = a[0].e;
    }
    if (c.e > 0 && !(fabsl(int_real(t, x)) + fabsl(int_real(t, y)) + c.e < 0x1p30L)) c.e = INF; /* it may wrap */
    return c;
}

static Cell bool_map(MapOp m, const Cell *a) {
    const bool x = a[0].i != 0, y = a[1].i != 0;
    if (m == M_NOT) return (Cell){0, !x, a[0].e > 0};
    const bool decides = m == M_OR;
    const bool sure = (a[0].e == 0 && x == decides) || (a[1].e == 0 && y == decides) || a[0].e + a[1].e == 0;
    return (Cell){0, m == M_OR ? x || y : x && y, !sure};
}

static Cell where(Type ty, const Cell *a) {
    const Cell t = a[0].i ? a[1] : a[2], other = a[0].i ? a[2] : a[1];
    if (a[0].e == 0) return t;
    Cell c = t;
    if (type_fact(ty)->kind == REAL) {
        const long double gap = t.v == other.v || (isnan(t.v) && isnan(other.v)) ? 0 : fabsl(t.v - other.v);
        c.e = isnan(gap) ? INF : (double)gap + fmax(t.e, other.e);
    } else {
        c.e = (double)fabsl(int_real(ty, t.i) - int_real(ty, other.i)) + fmax(t.e, other.e);
    }
    return c;
}

Cell map_cell(const Rules *r, MapOp m, Type operand, Type ty, const Cell *a, const bool *positive) {
    const char typing = map_fact(m)->typing;
    if (m == M_WHERE) return where(ty, a);
    if (typing == 'c') return compare(m, operand, a);
    if (typing == 'b') return bool_map(m, a);
    return type_fact(ty)->kind == REAL ? float_map(r, m, ty, a, positive) : int_map(m, ty, a);
}

/* A conversion of both ends of the interval: where they meet, the result is demanded exactly. */
Cell cast_cell(Type from, Type to, Cell a) {
    const bool ff = type_fact(from)->kind == REAL, tf = type_fact(to)->kind == REAL;
    if (ff && tf && type_compute(to) == to && (to == from || to == F64)) return a;
    const Number mid = convert(from, to, (Number){ff ? round_float(from, a.v) : 0, a.i});
    Cell c = {mid.v, mid.i, 0};
    if (a.e == 0) return c;
    if (a.e == INF) return c.e = INF, c;
    const long double x = ff ? a.v : int_real(from, a.i);
    const long double lo = x - a.e, hi = x + a.e;
    if (tf) {
        const long double l = round_float(to, ff ? round_float(from, lo) : lo),
                          h = round_float(to, ff ? round_float(from, hi) : hi);
        const long double g = fmaxl(h - c.v, c.v - l);
        c.e = isnan(c.v) || (l == c.v && h == c.v) ? 0 : isnan(g) ? INF : (double)g;
    } else if (type_fact(to)->kind == BOOL) {
        c.e = lo <= 0 && hi >= 0;
    } else {
        const int64_t l = round_int(to, lo), h = round_int(to, hi);
        c.e = (double)fmaxl(int_real(to, h) - int_real(to, c.i), int_real(to, c.i) - int_real(to, l));
    }
    return c;
}
