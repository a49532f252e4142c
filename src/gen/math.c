/* Turns a special function of f32 into adds, multiplies, FMAs, selects and bit operations, so that every machine gives
 * the same bits.
 *
 * The methods are the classical ones: reduction of the argument after Cody and Waite (Software Manual for the
 * Elementary Functions, 1980), polynomials of least largest error, and products and sums carried in two floats after
 * Dekker (1971) where one is too few. Coefficients: scripts/minimax.py. Worst errors, over every f32:
 * results/math-ulp.txt; test_math holds them against ops.def.
 *
 * Comparisons with a constant and a select stand where OP_MIN and OP_MAX could: they let a NaN through in two
 * instructions. C leaves the order of a call's arguments open, and the order of instructions must not hang on the
 * compiler that built rowfold: no call here has two arguments that make instructions. */
#include <math.h>

#include "kern.h"

#define F(c) kb_const_f(b, TY_F32, (c))
#define ADD(x, y) kb_op(b, OP_ADD, (x), (y), -1)
#define SUB(x, y) kb_op(b, OP_SUB, (x), (y), -1)
#define MUL(x, y) kb_op(b, OP_MUL, (x), (y), -1)
#define DIV(x, y) kb_op(b, OP_DIV, (x), (y), -1)
#define FMA(x, y, z) kb_op(b, OP_FMA, (x), (y), (z))
#define NEG(x) kb_op(b, OP_NEG, (x), -1, -1)
#define ABS(x) kb_op(b, OP_ABS, (x), -1, -1)
#define FLOOR(x) kb_op(b, OP_FLOOR, (x), -1, -1)
#define LT(x, y) kb_op(b, OP_LT, (x), (y), -1)
#define EQ(x, y) kb_op(b, OP_EQ, (x), (y), -1)
#define AND(x, y) kb_op(b, OP_AND, (x), (y), -1)
#define OR(x, y) kb_op(b, OP_OR, (x), (y), -1)
#define NOT(x) kb_op(b, OP_NOT, (x), -1, -1)
#define WHERE(c, x, y) kb_op(b, OP_WHERE, (c), (x), (y))
#define INT(c) kb_const_i(b, TY_I32, (c))
#define BITS(x) kb_bits(b, TY_I32, (x))
#define FLOAT(i) kb_bits(b, TY_F32, (i))

static int at_most(Kb *b, int x, double most) {
    return kb_op(b, OP_ATMOST, x, F(most), -1);
}
static int at_least(Kb *b, int x, double least) {
    return kb_op(b, OP_ATLEAST, x, F(least), -1);
}

/* y where x > c; z where it is not or is a NaN. */
static int above(Kb *b, int x, double c, int y, int z) {
    int over = LT(F(c), x);
    return WHERE(over, y, z);
}

/* y, not negative, with the sign of x. */
static int with_sign(Kb *b, int y, int x) {
    int bits = BITS(x), sign = kb_op(b, OP_BITAND, bits, INT(INT32_MIN), -1);
    return FLOAT(kb_op(b, OP_BITOR, BITS(y), sign, -1));
}

/* c[0] + c[1] x + ... by Horner's rule, the highest power first. */
static int poly(Kb *b, int x, const float *c, int n) {
    int y = F((double)c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = FMA(y, x, F((double)c[i]));
    return y;
}
#define POLY(x, c) poly(b, (x), (c), COUNT(c))

/* ---- exponentials: e^x = 2^n e^r and 2^x = 2^n 2^r, r within ln 2 / 2 or 1/2 of zero ----
 * Adding `magic` to a small x rounds it to an integer n; the product is rounded once, in LDEXP, so overflow and gradual
 * underflow come by themselves. The least n, -254, gives 0 whatever p is. */
static const double magic = 0x1.8p23, least_n = -254, ln2 = 0x1.62e42fefa39efp-1;

/* Where p 2^n is an ordinary number, n is added to its exponent. Bits of the bias from 512 on are shifted out. A NaN
 * may come out as a number. */
static int scaled_near(Kb *b, int p, int t) {
    int from = BITS(t), by = kb_op(b, OP_SHL, from, INT(23), -1), i = BITS(p);
    return FLOAT(ADD(i, by));
}

/* e^x for x in [-176, 89]; near: in [-87, 88]; fast: one operation fewer, within 2 ulp instead of 1. */
static int exp_within(Kb *b, int x, bool near, bool fast) {
    static const float c[] = {1, 1, 0x1.fffffcp-2, 0x1.555494p-3, 0x1.5558bep-5, 0x1.123856p-7, 0x1.6a3d02p-10};
    static const float d[] = {1, 0x1.ffffeep-1, 0x1.fffdc2p-2, 0x1.555d44p-3, 0x1.573b7ep-5, 0x1.0ebb1cp-7};
    static const double hi = 0x1.62e4p-1, lo = 0x1.7f7d1cp-20; /* ln 2 = hi + lo; hi has 16 bits, so n hi is exact */
    int shift = F(magic), t = FMA(x, F(1 / ln2), shift), n = SUB(t, shift);
    int r = FMA(n, F(-hi), x);
    r = FMA(n, F(-lo), r);
    int p = fast ? POLY(r, d) : POLY(r, c);
    return near ? scaled_near(b, p, t) : kb_op(b, OP_LDEXP, p, n, -1);
}

/* 2^(x + lo) for x in [-254, 129]; lo small beside it, or -1 */
static int exp2_within(Kb *b, int x, int lo) {
    static const float c[] = {
        1, 0x1.62e43p-1, 0x1.ebfbdcp-3, 0x1.c6af7cp-5, 0x1.3b2dep-7, 0x1.5f083p-10, 0x1.416b58p-13};
    int shift = F(magic), t = ADD(x, shift), n = SUB(t, shift), r = SUB(x, n);
    if (lo >= 0) r = ADD(r, lo);
    int p = POLY(r, c);
    return kb_op(b, OP_LDEXP, p, n, -1);
}

/* x within [least, most], where it may lie outside */
static int clamped(Kb *b, int x, const Range *of_x, double least, double most) {
    if (!of_x || of_x->hi > most) x = at_most(b, x, most);
    return !of_x || of_x->lo < least ? at_least(b, x, least) : x;
}

static int expand_exp(Kb *b, int x, const Range *of_x) {
    return exp_within(b, clamped(b, x, of_x, -176, 89), false, b->k->plan.exp == EXP_FAST);
}
static int expand_exp2(Kb *b, int x, const Range *of_x) {
    return exp2_within(b, clamped(b, x, of_x, least_n, 129), -1);
}

/* From z = e^-|x|, which cannot overflow: k - k z / (1 + z), k = z below zero and else 1. The error of the division
 * counts little here: for small z, by z. */
static int expand_sigmoid(Kb *b, int x) {
    int z = exp_within(b, at_least(b, NEG(ABS(x)), -176), false, false);
    int below = LT(x, F(0)), k = WHERE(below, z, F(1));
    int d = SUB(F(-1), z), q = DIV(z, d);
    return FMA(q, k, k);
}

/* x + x^3 Q(x^2), and above 0.625 1 - 2 / (e^2x + 1), which is 1 in f32 from 9.02 on. */
static int expand_tanh(Kb *b, int x) {
    static const float c[] = {-0x1.555532p-2, 0x1.1106f6p-3, -0x1.b835a4p-5, 0x1.51f8cep-6, -0x1.750ce2p-8};
    int a = ABS(x), s = MUL(a, a), q = POLY(s, c);
    int small = FMA(MUL(q, s), a, a);
    int m = at_most(b, a, 10), e = exp_within(b, ADD(m, m), true, false), one = F(1), d = ADD(e, one);
    int large = SUB(one, DIV(F(2), d));
    return with_sign(b, above(b, a, 0.625, large, small), x);
}

/* x + x Q(x^2), and above 0.925 1 - e^Q(x) (the form is Norbert Juffa's), which is 1 in f32 from 3.92 on. */
static int expand_erf(Kb *b, int x) {
    static const float c[] = {0x1.06eba8p-3, -0x1.81274p-2,   0x1.ce2d64p-4, -0x1.b8011ap-6,
                              0x1.544a1ap-8, -0x1.a60a2ep-11, 0x1.4f676p-14};
    static const float d[] = {-0x1.9a5c34p-13, -0x1.20af5ap+0, -0x1.463cbep-1, -0x1.a9b44p-4,
                              0x1.6c2a9p-6,    -0x1.8ee172p-9, 0x1.9ae886p-13};
    int a = ABS(x), small = FMA(POLY(MUL(a, a), c), a, a);
    int m = at_most(b, a, 3.9375), e = exp_within(b, POLY(m, d), true, false), one = F(1);
    return with_sign(b, above(b, a, 0.925, SUB(one, e), small), x);
}

/* ---- logarithms ---- */
/* x = 2^k (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), for x above zero and finite; k as a float. Subnormals are scaled up
 * first. */
static void split(Kb *b, int x, int *k, int *f) {
    int tiny = LT(x, F(0x1p-126)), big = MUL(x, F(0x1p23)), i = BITS(WHERE(tiny, big, x));
    int from = SUB(i, INT(0x3F3504F3)), whole = kb_op(b, OP_BITAND, from, INT(-(1 << 23)), -1); /* k times 2^23 */
    int down = F(-23), zero = F(0), k0 = WHERE(tiny, down, zero), scale = F(0x1p-23);
    *k = FMA(kb_cast(b, TY_F32, whole), scale, k0);
    int m = FLOAT(SUB(i, whole));
    *f = SUB(m, F(1));
}

/* y = log x where it is an ordinary number; -inf at zeros, NaN below them, inf and NaN as they are. */
static int log_edges(Kb *b, int x, int y) {
    int zero = F(0), least = F(-(double)INFINITY), nan = F((double)NAN), is_zero = EQ(x, zero);
    int edge = WHERE(is_zero, least, nan), finite = LT(x, F((double)INFINITY));
    y = WHERE(finite, y, x);
    return WHERE(LT(zero, x), y, edge);
}

static int expand_log(Kb *b, int x) {
    static const float c[] = {-0.5f,         0x1.555554p-2,  -0x1.000226p-2, 0x1.99a01cp-3, -0x1.54728ap-3,
                              0x1.22d92ep-3, -0x1.0d8242p-3, 0x1.055ec4p-3,  -0x1.38c9d4p-4};
    int k, f;
    split(b, x, &k, &f);
    int s = MUL(f, f), y = FMA(s, POLY(f, c), f);
    return log_edges(b, x, FMA(k, F(ln2), y));
}

static int expand_log2(Kb *b, int x) {
    static const float c[] = {-0x1.71547p-1, 0x1.ec7094p-2,  -0x1.715afep-2, 0x1.277f44p-2, -0x1.eaa24ap-3,
                              0x1.a2c9dcp-3, -0x1.87f7eap-3, 0x1.7f2818p-3,  -0x1.c39baep-4};
    static const double hi = 0x1.715476p+0, lo = 0x1.71547652b82fep+0 - 0x1.715476p+0; /* 1 / ln 2 in two floats */
    int k, f;
    split(b, x, &k, &f);
    int s = MUL(f, f), y = MUL(f, F(lo));
    y = FMA(s, POLY(f, c), y);
    y = FMA(f, F(hi), y);
    return log_edges(b, x, ADD(k, y));
}

/* ---- power: 2^(y log2 |x|), the logarithm and the product in two floats; then C's special cases (F.10.4.4) ---- */
typedef struct Two { /* hi + lo */
    int hi, lo;
} Two;

static Two two_sum(Kb *b, int x, int y) { /* |x| >= |y|, or x 0 */
    int s = ADD(x, y), rest = SUB(x, s);
    return (Two){s, ADD(rest, y)};
}
static Two two_mul(Kb *b, Two x, Two y) {
    int p = MUL(x.hi, y.hi), e = FMA(x.hi, y.hi, NEG(p));
    e = FMA(x.lo, y.hi, e);
    return (Two){p, FMA(x.hi, y.lo, e)};
}

/* log2 a for a above zero and finite. With q = f / (2 + f), log2(1 + f) = 2 / ln 2 (q + q^3 (1/3 + q^2 Q(q^2))). The
 * relative error is about 2^-35; pow multiplies it by the exponent of its result, at most 150. */
static Two log2_two(Kb *b, int a) {
    static const float c[] = {0x1.999ap-3, 0x1.24527ap-3, 0x1.dfa302p-4};
    int k, f;
    split(b, a, &k, &f);
    Two d = two_sum(b, F(2), f), q;
    q.hi = DIV(f, d.hi);
    int minus = NEG(q.hi), rest = FMA(minus, d.hi, f);
    rest = FMA(minus, d.lo, rest);
    q.lo = DIV(rest, d.hi);
    Two s = two_mul(b, q, q);
    int high = MUL(POLY(s.hi, c), s.hi), third = F(0x1.555556p-2);
    Two t = two_sum(b, third, high);
    t.lo = ADD(t.lo, F(0x1.5555555555555p-2 - 0x1.555556p-2));
    Two cube = two_mul(b, q, s), tail = two_mul(b, cube, t), sum = two_sum(b, q.hi, tail.hi);
    int low = ADD(tail.lo, q.lo);
    sum.lo = ADD(sum.lo, low);
    Two scale = {F(0x1.715476p+1), -1};
    scale.lo = F(0x1.71547652b82fep+1 - 0x1.715476p+1);
    Two part = two_mul(b, sum, scale), all = two_sum(b, k, part.hi);
    return two_sum(b, all.hi, ADD(all.lo, part.lo));
}

static int expand_pow(Kb *b, int x, int y) {
    int zero = F(0), one = F(1), inf = F((double)INFINITY), least = F(-(double)INFINITY), nan = F((double)NAN),
        a = ABS(x);
    Two l = log2_two(b, a);
    int finite = LT(a, inf), none = EQ(a, zero);
    l.hi = WHERE(finite, l.hi, a); /* inf, NaN */
    l.hi = WHERE(none, least, l.hi);
    int hi = MUL(l.hi, y), lo = FMA(l.hi, y, NEG(hi));
    lo = FMA(l.lo, y, lo);
    /* beyond 2^+-260 the low part says nothing, and may be inf - inf */
    int size = ABS(hi), counts = LT(size, F(260));
    lo = WHERE(counts, lo, zero);
    /* |x| = 1 and y = 0 give 1 even where the product is 0 inf or a NaN */
    int x_one = EQ(a, one), y_zero = EQ(y, zero), unit = OR(x_one, y_zero);
    hi = WHERE(unit, zero, hi);
    lo = WHERE(unit, zero, lo);
    int r = exp2_within(b, at_least(b, at_most(b, hi, 129), least_n), lo);
    /* an odd y keeps the sign of x; one that is not whole gives a NaN for x below zero, but not for -inf */
    int whole = EQ(FLOOR(y), y), half = MUL(y, F(0.5)), uneven = NOT(EQ(FLOOR(half), half)), odd = AND(whole, uneven);
    r = WHERE(odd, with_sign(b, r, x), r);
    int below = LT(x, zero), over = LT(least, x), inside = AND(below, over), undefined = AND(inside, NOT(whole));
    return WHERE(undefined, nan, r);
}

/* Two operations, each rounded once. */
static int expand_rsqrt(Kb *b, int x) {
    int root = kb_op(b, OP_SQRT, x, -1, -1);
    return DIV(F(1), root);
}

int math_expand(Kb *b, Op op, int x, int y, const Range *of_x) {
    switch (op) {
    case OP_EXP: return expand_exp(b, x, of_x);
    case OP_EXP2: return expand_exp2(b, x, of_x);
    case OP_LOG: return expand_log(b, x);
    case OP_LOG2: return expand_log2(b, x);
    case OP_TANH: return expand_tanh(b, x);
    case OP_ERF: return expand_erf(b, x);
    case OP_SIGMOID: return expand_sigmoid(b, x);
    case OP_RSQRT: return expand_rsqrt(b, x);
    case OP_POW: return expand_pow(b, x, y);
    default: return kb_op(b, op, x, y, -1);
    }
}
