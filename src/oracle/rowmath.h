/* Maps: operators on a row of elements, the value from the meaning column of ops.def in REAL, and a bound on the error
 * from those of the operands and the operator's ulp. Included once a REAL (double, long double), with NAME to tell the
 * functions apart; so it has no guard.
 *
 * The bounds are those of running error analysis: with operands x within ex, f(x) moves by at most max |f'| ex (where
 * that is not tight, the ends of the interval are evaluated), and rounding adds ulp units in the last place of the
 * result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "rowwork.h"

#define INF ((double)INFINITY)

static REAL NAME(real_max)(REAL x, REAL y) {
    if (isnan(x) || isnan(y)) return (REAL)NAN;
    return x > y || (x == y && !signbit(x)) ? x : y;
}
static REAL NAME(real_min)(REAL x, REAL y) {
    if (isnan(x) || isnan(y)) return (REAL)NAN;
    return x < y || (x == y && signbit(x)) ? x : y;
}
#define num_max NAME(real_max)
#define num_min NAME(real_min)

/* The meaning of one element. */
static REAL NAME(mean_of)(Op op, REAL x, REAL y, REAL z) {
    switch (op) {
#define OP(id, text, arity, form, typing, algebra, ulp, cost, meaning, host, cuda, cl, msl) \
    case id:                                                                                \
        return (REAL)(meaning);
#include "../ir/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return 0;
}

/* The meaning of n elements: one switch a row. */
static void NAME(map_values)(Op op, const Opd *a, REAL *v, int64_t n) {
    const REAL *X = a[0].v, *Y = a[1].v, *Z = a[2].v;
    const int64_t sx = a[0].step, sy = a[1].step, sz = a[2].step;
    switch (op) {
#define OP(id, text, arity, form, typing, algebra, ulp, cost, meaning, host, cuda, cl, msl) \
    case id:                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                   \
            const REAL x = X[i * sx], y = Y[i * sy], z = Z[i * sz];                         \
            (void)x, (void)y, (void)z;                                                      \
            v[i] = (REAL)(meaning);                                                         \
        }                                                                                   \
        break;
#include "../ir/ops.def"
#undef OP
    case OP_COUNT: break;
    }
}
#undef num_max
#undef num_min

/* ---- error of one element, before rounding ---- */
typedef struct NAME(Ends) {
    REAL x, lo, hi; /* the operand, and its interval */
    double e;
} NAME(Ends);

/* |f(x +- e) - v| for a growing or falling f, by its ends. */
static REAL NAME(by_ends)(Op op, NAME(Ends) a, REAL v) {
    return fmax(fabs(NAME(mean_of)(op, a.hi, 0, 0) - v), fabs(v - NAME(mean_of)(op, a.lo, 0, 0)));
}

static REAL NAME(err_root)(Op op, NAME(Ends) a, REAL v) { /* sqrt, rsqrt, log, log2 */
    if (a.e == 0) return 0;
    if (a.e < a.x / 4) { /* |f'| at x - e, the steepest point */
        const REAL r = a.e / a.x;
        switch (op) {
        case OP_SQRT: return v * r * (REAL)0.58;
        case OP_RSQRT: return v * r * (REAL)0.77;
        case OP_LOG: return r / (1 - r);
        default: return r / (1 - r) * (REAL)1.4427;
        }
    }
    if (a.lo < 0 || (a.lo == 0 && op != OP_SQRT)) return INF;
    return NAME(by_ends)(op, a, v);
}

static REAL NAME(err_exp)(Op op, NAME(Ends) a, REAL v, REAL scale) {
    const REAL t = a.e * scale; /* e^t - 1 <= t + t^2 up to t = 1.79 */
    return t < 1 ? v * (t + t * t) : NAME(mean_of)(op, a.hi, 0, 0) - v;
}

static REAL NAME(err_pow)(NAME(Ends) x, NAME(Ends) y, REAL v) {
    if (x.e == 0 && y.e == 0) return 0;
    if (x.x > 0 && x.e < x.x / 2) { /* x^y = e^(y log x) */
        const REAL l = log(x.x), r = x.e / x.x, t = (fabs(y.x) + y.e) * r / (1 - r) + fabs(l) * y.e;
        return t < 1 ? v * (t + t * t) : v * exp(t) - v;
    }
    if (y.e > 0 || y.x != floor(y.x) || y.x <= 0) return INF;
    REAL e = fmax(fabs(pow(x.lo, y.x) - v),
                  fabs(pow(x.hi, y.x) - v)); /* a power of whole order, monotonic on each side of 0 */
    return x.lo < 0 && x.hi > 0 ? fmax(e, fabs(v)) : e;
}

static REAL NAME(err_pick)(Op op, NAME(Ends) x, NAME(Ends) y) { /* min, max */
    if (isnan(x.x) || isnan(y.x)) return 0;
    const bool x_wins = op == OP_MAX ? x.lo > y.hi : x.hi < y.lo, y_wins = op == OP_MAX ? y.lo > x.hi : y.hi < x.lo;
    return x_wins ? x.e : y_wins ? y.e : fmax(x.e, y.e);
}

/* What has no derivative worth a formula, or an exceptional value: where every combination of ends gives the same NaN
 * or infinity, that is certain, and elsewhere anything goes. */
static bool NAME(certain)(Op op, int arity, const NAME(Ends) * a, REAL v) {
    bool exact = true;
    for (int k = 0; k < arity; k++) {
        if (isnan(a[k].x) && a[k].e < INF && op != OP_POW) return true; /* a NaN operand always wins */
        exact &= a[k].e == 0;
    }
    if (exact) return true;
    if (op == OP_POW && a[0].lo < 0 && a[1].e > 0) return false; /* whole powers are hidden among the others */
    for (int c = 0; c < 1 << arity; c++) {
        REAL t[3] = {0, 0, 0};
        for (int k = 0; k < arity; k++) {
            if (a[k].e == INF) return false;
            t[k] = c >> k & 1 ? a[k].hi : a[k].lo;
        }
        const REAL r = NAME(mean_of)(op, t[0], t[1], t[2]);
        if (isnan(v) ? !isnan(r) : r != v) return false;
    }
    return true;
}

/* Rounds v, which is within g, as the type does. k: relative error of the operation. False where that needs a closer
 * look. */
static inline bool NAME(rounded)(const Lim *l, REAL v, REAL g, REAL k, REAL tiny, double *e) {
    const REAL a = fabs(v);
    g += k * (a + g);
    if (a + g < (REAL)l->small && (a > 0 || g > 0)) g += tiny;
    if (!(a + g < (REAL)l->over)) return false;
    *e = (double)g;
    return true;
}

/* The closer look: v or g is not finite, or the result may overflow. */
static void NAME(settle)(const Lim *l, Op op, int arity, const NAME(Ends) * a, REAL g, REAL k, bool unrounded, REAL *v,
                         double *e) {
    if (isnan(*v) || isinf(*v)) {
        *e = NAME(certain)(op, arity, a, *v) ? 0 : INF;
        return;
    }
    bool exact = true;
    for (int i = 0; i < arity; i++) exact &= a[i].e == 0;
    g = exact ? 0 : isnan(g) ? (REAL)INF : g;
    const REAL r = fabs(*v);
    g += k * (r + g);
    *e = r + g < (REAL)l->over ? (double)g : INF;
    if (*e == INF && r - g >= (REAL)l->over && !unrounded) {
        *v = copysign((REAL)INF, *v);
        *e = 0;
    }
}

static inline bool NAME(fits_f32)(const Lim *l, REAL v) {
    return l == &lim_f32 ? (REAL)(float)v == v : (REAL)(double)v == v;
}

static void NAME(map_floats)(Work *w, const Val *val, const Opd *a, REAL *v, double *e, int64_t n) {
    const Op op = val->op;
    const Ty ty = val->ty;
    const bool a0_positive = w->node[val->a[0]].positive, unrounded = w->node[val - w->p->val].unrounded;
    const OpInfo *o = op_info(op);
    const Lim *l = ty == TY_F64 ? &lim_f64 : &lim_f32;
    const double ulp = work_ulp(w, op, ty);
    const REAL k = (REAL)(2 * l->u * ulp);
    const bool can_underflow = ulp > 0 && op != OP_ADD && op != OP_SUB; /* sums of subnormals are exact */
    /* in f64 sigmoid is 1 / (1 + exp(-x)) as it is written, whose exp overflows where the result would be subnormal */
    const bool fast = op == OP_EXP && ty == TY_F32 && w->o.fast_exp && w->o.native_math;
    const double lost = ty == TY_F64 && op == OP_SIGMOID ? 0x1p-1022 : fast ? 0x1p-126 : l->tiny * fmax(1, ulp);
    const REAL tiny = can_underflow ? (REAL)lost : 0;
    const REAL *X = a[0].v, *Y = a[1].v, *Z = a[2].v;
    NAME(map_values)(op, a, v, n);
#define RULE(id, bound)                                                                                             \
    case id:                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                           \
            const REAL x = X[i * a[0].step], y = Y[i * a[1].step], z = Z[i * a[2].step];                            \
            const double ex = a[0].e[i * a[0].step], ey = a[1].e[i * a[1].step], ez = a[2].e[i * a[2].step];        \
            const NAME(Ends) ends[3] = {{x, a0_positive && x - ex < 0 ? 0 : x - ex, x + ex, ex},                    \
                                        {y, y - ey, y + ey, ey},                                                    \
                                        {z, z - ez, z + ez, ez}};                                                   \
            const REAL g = ex + ey + ez < INF ? (REAL)(bound) : (REAL)INF;                                          \
            (void)ends;                                                                                             \
            /* a correctly rounded operation on exact operands is exact where the result is a number of the type */ \
            if (ulp == 0.5 && g == 0 && NAME(fits_f32)(l, v[i]) && ex == 0)                                         \
                e[i] = 0;                                                                                           \
            else if (!NAME(rounded)(l, v[i], g, k, tiny, &e[i]))                                                    \
                NAME(settle)(l, op, o->arity, ends, g, k, unrounded, &v[i], &e[i]);                                 \
        }                                                                                                           \
        break;
    switch (op) {
        RULE(OP_ADD, ex + ey)
        RULE(OP_SUB, ex + ey)
        RULE(OP_MUL, fabs(x) * ey + fabs(y) * ex + (REAL)ex * ey)
        RULE(OP_DIV, fabs(y) > 2 * ey ? (ex + fabs(v[i]) * ey) / (fabs(y) - ey) : (REAL)INF)
        RULE(OP_NEG, ex)
        RULE(OP_ABS, ex)
        RULE(OP_MIN, NAME(err_pick)(op, ends[0], ends[1]))
        RULE(OP_MAX, NAME(err_pick)(op, ends[0], ends[1]))
        RULE(OP_FLOOR, NAME(by_ends)(op, ends[0], v[i]))
        RULE(OP_ROUND, NAME(by_ends)(op, ends[0], v[i]))
        RULE(OP_SQRT, NAME(err_root)(op, ends[0], v[i]))
        RULE(OP_RSQRT, NAME(err_root)(op, ends[0], v[i]))
        RULE(OP_LOG, NAME(err_root)(op, ends[0], v[i]))
        RULE(OP_LOG2, NAME(err_root)(op, ends[0], v[i]))
        RULE(OP_EXP, NAME(err_exp)(op, ends[0], v[i], 1) +
                         (fast && v[i] > 0 ? v[i] * (0x1p-22 + (fabs(x) + (REAL)ex) * 0x1p-23) : 0))
        RULE(OP_EXP2, NAME(err_exp)(op, ends[0], v[i], (REAL)0.693148))
        /* slopes: tanh' = 1 - tanh^2 and |tanh''| <= 0.77; erf' <= 1.1284; sigmoid' = s (1 - s), which grows by at most
         * e^t over t */
        RULE(OP_TANH, fmin(fmin(ex, (REAL)2), ex * (1 - v[i] * v[i]) + (REAL)0.4 * ex * ex))
        RULE(OP_ERF, fmin((REAL)1.1284 * ex, (REAL)2))
        RULE(OP_SIGMOID, ex < 1 ? v[i] * (1 - v[i]) * (ex + (REAL)ex * ex) : 1)
        RULE(OP_POW, NAME(err_pow)(ends[0], ends[1], v[i]))
        RULE(OP_FMA, fabs(x) * ey + fabs(y) * ex + (REAL)ex * ey + ez)
    default: break; /* the verifier lets no other operator give a float */
    }
#undef RULE
}

/* ---- comparisons of floats: certain where the intervals are apart ---- */
static void NAME(map_compare)(Op op, const Opd *a, int64_t *v, double *e, int64_t n) {
    const REAL *X = a[0].v, *Y = a[1].v;
    for (int64_t i = 0; i < n; i++) {
        const REAL x = X[i * a[0].step], y = Y[i * a[1].step];
        const double t = a[0].e[i * a[0].step] + a[1].e[i * a[1].step];
        v[i] = NAME(mean_of)(op, x, y, 0) != 0;
        e[i] = t == 0 || fabs(x - y) > t || (t < INF && (isnan(x) || isnan(y))) ? 0 : 1;
    }
}

/* ---- integers and bools: exact, but for what an uncertain float left in them ---- */
static int64_t NAME(int_of)(Num x, Ty t) {
    return t == TY_BOOL ? x.b : x.i;
}
static Num NAME(num_of)(int64_t i, Ty t) {
    Num x = {.i = 0};
    if (t == TY_BOOL)
        x.b = i != 0;
    else
        x.i = i;
    return x;
}

static double NAME(int_err)(Op op, Ty t, const int64_t *x, const double *ex, int64_t v) {
    if (op == OP_AND || op == OP_OR) { /* certain once one operand decides */
        const int64_t decides = op == OP_OR;
        return (ex[0] == 0 && x[0] == decides) || (ex[1] == 0 && x[1] == decides) ? 0 : 1;
    }
    if (op == OP_NOT) return 1;
    if (op >= OP_LT && op <= OP_NE) {
        const double gap = fabs((double)x[0] - (double)x[1]);
        return gap > ex[0] + ex[1] && t != TY_U64 ? 0 : 1;
    }
    double g = INF;
    if (op == OP_ADD || op == OP_SUB || op == OP_MIN || op == OP_MAX) g = ex[0] + ex[1];
    if (op == OP_NEG || op == OP_ABS || op == OP_FLOOR || op == OP_ROUND) g = ex[0];
    if (op == OP_MUL) g = fabs((double)x[0]) * ex[1] + fabs((double)x[1]) * ex[0] + ex[0] * ex[1];
    const double top = t == TY_I32   ? 0x1p31
                       : t == TY_U32 ? 0x1p32
                       : t == TY_U64 ? 0x1p62
                                     : 0x1p63; /* beyond it results wrap */
    double all = g;
    for (int k = 0; k < 2; k++) all += fabs((double)x[k]) + ex[k];
    if (t == TY_U32 || t == TY_U64) all = v < 0 || (double)v - g < 0 ? INF : all;
    return all < top ? g : INF;
}

static void NAME(map_ints)(Op op, Ty t, Ty to, const Opd *a, int64_t *v, double *e, int64_t n) {
    const int arity = op_info(op)->arity;
    for (int64_t i = 0; i < n; i++) {
        int64_t x[3] = {0, 0, 0};
        double ex[3] = {0, 0, 0}, sum = 0;
        for (int k = 0; k < arity; k++) {
            x[k] = ((const int64_t *)a[k].v)[i * a[k].step];
            ex[k] = a[k].e[i * a[k].step];
            sum += ex[k];
        }
        v[i] = NAME(int_of)(num_op(op, t, to, NAME(num_of)(x[0], t), NAME(num_of)(x[1], t), NAME(num_of)(x[2], t)), to);
        e[i] = sum == 0 ? 0 : NAME(int_err)(op, t, x, ex, v[i]);
    }
}

/* ---- where ---- */
static void NAME(map_where)(bool floats, const Opd *a, void *v, double *e, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const bool c = ((const int64_t *)a[0].v)[i * a[0].step] != 0;
        const Opd *t = c ? &a[1] : &a[2], *other = c ? &a[2] : &a[1];
        const double et = t->e[i * t->step], eo = other->e[i * other->step];
        const bool sure = a[0].e[i * a[0].step] == 0;
        REAL gap;
        if (floats) {
            const REAL x = ((const REAL *)t->v)[i * t->step], y = ((const REAL *)other->v)[i * other->step];
            ((REAL *)v)[i] = x;
            gap = x == y || (isnan(x) && isnan(y)) ? 0 : fabs(x - y);
        } else {
            const int64_t x = ((const int64_t *)t->v)[i * t->step], y = ((const int64_t *)other->v)[i * other->step];
            ((int64_t *)v)[i] = x;
            gap = fabs((REAL)x - (REAL)y);
        }
        e[i] = sure ? et : isnan(gap) ? INF : (double)gap + fmax(et, eo);
    }
}

/* ---- casts: the ends of the interval rounded, so that a rounding that is certain is demanded exactly ---- */
static Num NAME(number)(Ty t, REAL v) {
    Num x = {.i = 0};
    if (t == TY_F64)
        x.d = (double)v;
    else
        x.f = (float)v;
    return x;
}
static REAL NAME(real)(Ty t, Num x) {
    return t == TY_F64 ? (REAL)x.d : (REAL)x.f;
}

static void NAME(map_cast)(Ty from, Ty to, Opd a, void *v, double *e, int64_t n) {
    const Ty ct = ty_compute(to);
    const bool ff = ty_is_float(from), tf = ty_is_float(to);
    for (int64_t i = 0; i < n; i++) {
        const double ex = a.e[i * a.step];
        Num c[3]; /* low end, value, high end */
        if (ff) {
            const REAL x = ((const REAL *)a.v)[i * a.step];
            if (ty_compute(to) == to && tf && (from == to || to == TY_F64)) { /* nothing is lost */
                ((REAL *)v)[i] = x;
                e[i] = ex;
                continue;
            }
            for (int k = 0; k < 3; k++)
                c[k] = num_cast(to, NAME(number)(from, k == 1 || ex == 0 ? x : k ? x + ex : x - ex), from);
        } else {
            const int64_t x = ((const int64_t *)a.v)[i * a.step];
            const double top = from == TY_I32 ? 0x1p31 : from == TY_U32 ? 0x1p32 : from == TY_BOOL ? 2 : 0x1p62;
            c[1] = c[0] = c[2] = num_cast(to, NAME(num_of)(x, from), from);
            if (ex > 0 && fabs((double)x) + ex < top) {
                const int64_t r = (int64_t)ceil(ex);
                c[0] = num_cast(to, NAME(num_of)(from == TY_BOOL ? 0 : x - r, from), from);
                c[2] = num_cast(to, NAME(num_of)(from == TY_BOOL ? 1 : x + r, from), from);
            } else if (ex > 0) {
                c[0] = num_cast(to, (Num){.d = -INF}, TY_F64);
                c[2] = num_cast(to, (Num){.d = INF}, TY_F64);
            }
        }
        double g;
        if (tf) {
            const REAL x = NAME(real)(ct, c[1]), lo = NAME(real)(ct, c[0]), hi = NAME(real)(ct, c[2]);
            ((REAL *)v)[i] = x;
            g = (lo == x && hi == x) || isnan(x) ? 0 : (double)fmax(hi - x, x - lo);
        } else {
            const int64_t x = NAME(int_of)(c[1], ct), lo = NAME(int_of)(c[0], ct), hi = NAME(int_of)(c[2], ct);
            ((int64_t *)v)[i] = x;
            g = to == TY_BOOL        ? (x == lo && x == hi ? 0 : 1)
                : lo == x && hi == x ? 0
                                     : fmax((double)hi - (double)x, (double)x - (double)lo);
            if (to == TY_BOOL && ex > 0 && ff && fabs(((const REAL *)a.v)[i * a.step]) <= ex)
                g = 1; /* zero is within */
            if (to == TY_BOOL && ex > 0 && !ff && fabs((double)((const int64_t *)a.v)[i * a.step]) <= ex) g = 1;
        }
        e[i] = ex == 0 ? 0 : isnan(g) || ex == INF ? INF : g;
    }
}

/* Other readings of the same bits: there is no error that one could propagate. */
static void NAME(map_bits)(Ty from, Ty to, Opd a, void *v, double *e, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const Num x = ty_is_float(from) ? NAME(number)(from, ((const REAL *)a.v)[i * a.step])
                                        : NAME(num_of)(((const int64_t *)a.v)[i * a.step], from);
        const Num r = num_op(OP_BITS, from, to, x, x, x);
        if (ty_is_float(to))
            ((REAL *)v)[i] = NAME(real)(to, r);
        else
            ((int64_t *)v)[i] = r.i;
        e[i] = a.e[i * a.step] == 0 ? 0 : INF;
    }
}
