/* Numbers in storage against tables of representable values, and operators against the definition of IEEE. */
#include "../../src/ir/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- small floats: values by the formula of the format, rounding by search ---- */
typedef struct Table {
    Ty ty;
    int e, m, codes; /* codes: finite values that are not negative; code c has value v[c] */
    bool saturates;
    long double v[32768 + 1]; /* and one step beyond the largest: where overflow would round to */
} Table;

static long double code_value(int e, int m, int code) {
    int field = code >> m, bias = (1 << (e - 1)) - 1;
    long double man = (long double)(code & ((1 << m) - 1)) / (1 << m);
    return field ? ldexpl(1 + man, field - bias) : ldexpl(man, 1 - bias);
}

static const Table *table(Ty ty) {
    static Table t; /* of the test, one at a time */
    int e = ty == TY_F16 ? 5 : ty == TY_BF16 ? 8 : ty == TY_F8E4M3 ? 4 : 5;
    int m = ty == TY_F16 ? 10 : ty == TY_BF16 ? 7 : ty == TY_F8E4M3 ? 3 : 2;
    t.ty = ty;
    t.e = e;
    t.m = m;
    t.saturates = ty_bytes(ty) == 1;
    t.codes = ty == TY_F8E4M3 ? 0x7F : ((1 << e) - 1) << m; /* e4m3 gives up only its last code */
    for (int c = 0; c <= t.codes; c++) t.v[c] = code_value(e, m, c);
    return &t;
}

/* The code nearest x, ties to the even code; x not NaN. */
static unsigned nearest(const Table *t, long double x) {
    unsigned sign = signbit(x) ? 1u << (t->e + t->m) : 0;
    x = fabsl(x);
    if (x >= t->v[t->codes]) return sign | (unsigned)(t->saturates ? t->codes - 1 : t->codes);
    int lo = 0, hi = t->codes; /* v[lo] <= x < v[hi] */
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (t->v[mid] <= x)
            lo = mid;
        else
            hi = mid;
    }
    long double below = x - t->v[lo], above = t->v[hi] - x;
    int c = below < above || (below == above && lo % 2 == 0) ? lo : hi;
    if (c == t->codes && t->saturates) c--;
    return sign | (unsigned)c;
}

static unsigned stored(Ty ty, Num v, Ty vt) {
    unsigned char at[8] = {0};
    num_store(ty, at, v, vt);
    uint16_t h;
    memcpy(&h, at, 2);
    return h;
}
static Num of_f(float f) {
    Num v = {0};
    v.f = f;
    return v;
}
static Num of_d(double d) {
    return (Num){.d = d};
}
static Num of_i(int64_t i) {
    return (Num){.i = i};
}
static Num of_u(uint64_t u) {
    return (Num){.u = u};
}
static float f32_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static const Ty small[] = {TY_F16, TY_BF16, TY_F8E4M3, TY_F8E5M2};

static void every_code_round_trips(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(small); k++) {
        const Table *t = table(small[k]);
        int half = 1 << (t->e + t->m), nans = 0, infs = 0;
        for (int code = 0; code < 2 * half; code++) {
            uint16_t h = (uint16_t)code;
            Num v = num_load(t->ty, &h);
            int c = code & (half - 1);
            assert_int_equal(!!signbit(v.f), code >= half);
            unsigned back = stored(t->ty, v, TY_F32);
            if (isnan(v.f)) {
                nans++;
                assert_true(c >= t->codes);
                uint16_t b = (uint16_t)back;
                assert_true(isnan(num_load(t->ty, &b).f));
                continue;
            }
            if (isinf(v.f)) {
                infs++;
                assert_int_equal(c, t->codes);
            } else {
                assert_true((long double)fabsf(v.f) == t->v[c]);
            }
            assert_int_equal(back, t->saturates && isinf(v.f) ? code - 1 : code);
        }
        assert_int_equal(infs, t->ty == TY_F8E4M3 ? 0 : 2);
        assert_int_equal(nans, t->ty == TY_F8E4M3 ? 2 : 2 * ((1 << t->m) - 1));
    }
    assert_true(num_from_f8(TY_F8E4M3, 0x7E) == 448);
    assert_true(num_from_f8(TY_F8E5M2, 0x7B) == 57344);
    assert_true(num_from_f16(0x7BFF) == 65504);
    assert_int_equal(num_to_f8(TY_F8E4M3, NAN) & 0x7F, 0x7F);
    assert_int_equal(num_to_f8(TY_F8E4M3, INFINITY), 0x7E);
    assert_int_equal(num_to_f8(TY_F8E4M3, -INFINITY), 0xFE);
    assert_int_equal(num_to_f8(TY_F8E5M2, INFINITY), 0x7B);
    assert_int_equal(num_to_f16(1e9f), 0x7C00);
    assert_int_equal(num_to_bf16(-3.4e38f * 1.0001f), 0xFF80);
}

static void check_f32(const Table *t, float x) {
    if (isnan(x)) return;
    unsigned want = nearest(t, (long double)x), got = stored(t->ty, of_f(x), TY_F32);
    if (got != want) fail_msg("%s of %a: got %x want %x", ty_text(t->ty), (double)x, got, want);
    got = stored(t->ty, of_d((double)x), TY_F64);
    if (got != want) fail_msg("%s of f64 %a: got %x want %x", ty_text(t->ty), (double)x, got, want);
}

static void ties_go_to_even(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(small); k++) {
        const Table *t = table(small[k]);
        for (int c = 0; c < t->codes; c++) {
            long double mid = (t->v[c] + t->v[c + 1]) / 2;
            assert_true((long double)(float)mid == mid);
            for (int sign = -1; sign <= 1; sign += 2) {
                float x = (float)mid * (float)sign;
                check_f32(t, x);
                check_f32(t, nextafterf(x, 0));
                check_f32(t, nextafterf(x, INFINITY * (float)sign));
                /* as close to the tie as only a double can be */
                for (int side = 0; side < 2; side++) {
                    double d = nextafter((double)x, side ? 0 : INFINITY * (double)sign);
                    assert_int_equal(stored(t->ty, of_d(d), TY_F64), nearest(t, (long double)d));
                }
            }
        }
    }
}

static void random_values_round_to_nearest(void **state) {
    (void)state;
    Rng r = {7};
    for (int k = 0; k < COUNT(small); k++) {
        const Table *t = table(small[k]);
        for (int i = 0; i < 200000; i++) check_f32(t, f32_of((uint32_t)rng_u64(&r)));
        int range = t->e == 8 ? 140 : 1 << (t->e - 1);
        for (int i = 0; i < 100000; i++) {
            double d = ldexp(rng_unit(&r) * 2 - 1, rng_int(&r, 2 * range + 8) - range - 4);
            assert_int_equal(stored(t->ty, of_d(d), TY_F64), nearest(t, (long double)d));
        }
    }
}

/* Integers round once as well: 2^24 + 2^16 + 1 would round to even if it went through f32. */
static void integers_round_once(void **state) {
    (void)state;
    Rng r = {11};
    for (int k = 0; k < COUNT(small); k++) {
        const Table *t = table(small[k]);
        for (int i = 0; i < 100000; i++) {
            uint64_t u = rng_u64(&r) >> rng_int(&r, 64);
            int b = rng_int(&r, 62);
            if (i % 2)
                u = (1ull << (b + 1)) + (b >= t->m ? 1ull << (b - t->m) : 0) + (uint64_t)rng_int(&r, 3) -
                    1; /* by a tie */
            assert_int_equal(stored(t->ty, of_u(u), TY_U64), nearest(t, (long double)u));
            int64_t s = (int64_t)u;
            assert_int_equal(stored(t->ty, of_i(s), TY_I64), nearest(t, (long double)s));
            int32_t w = (int32_t)u;
            assert_int_equal(stored(t->ty, of_i(w), TY_I32), nearest(t, (long double)w));
        }
    }
    table(TY_BF16);
    assert_int_equal(stored(TY_BF16, of_i((1 << 24) + (1 << 16) + 1), TY_I32), num_to_bf16(16777216.0f + 131072.0f));
}

/* ---- integers in storage ---- */
static void integers_saturate(void **state) {
    (void)state;
    static const struct {
        Ty ty;
        int bits;
        bool is_signed;
    } ints[] = {{TY_I8, 8, true},  {TY_I16, 16, true},  {TY_I32, 32, true},  {TY_I64, 64, true},
                {TY_U8, 8, false}, {TY_U16, 16, false}, {TY_U32, 32, false}, {TY_U64, 64, false}};
    Rng r = {3};
    for (int k = 0; k < COUNT(ints); k++) {
        int n = ints[k].bits;
        long double lo = ints[k].is_signed ? -ldexpl(1, n - 1) : 0, hi = ldexpl(1, ints[k].is_signed ? n - 1 : n) - 1;
        Ty c = ty_compute(ints[k].ty);
        for (int i = 0; i < 100000; i++) {
            double d = ldexp(rng_unit(&r) * 2 - 1, rng_int(&r, 72));
            if (i % 4 == 0) d = floor(d) + 0.5;
            if (i == 1) d = INFINITY;
            if (i == 2) d = -INFINITY;
            long double want = nearbyintl((long double)d);
            want = want < lo ? lo : want > hi ? hi : want;
            Num got = num_cast(ints[k].ty, of_d(d), TY_F64);
            assert_true((c == TY_U32 || c == TY_U64 ? (long double)got.u : (long double)got.i) == want);
            float f = (float)d;
            want = nearbyintl((long double)f);
            want = want < lo ? lo : want > hi ? hi : want;
            got = num_cast(ints[k].ty, of_f(f), TY_F32);
            assert_true((c == TY_U32 || c == TY_U64 ? (long double)got.u : (long double)got.i) == want);
            int64_t s = (int64_t)(rng_u64(&r) >> rng_int(&r, 64));
            want = (long double)s < lo ? lo : (long double)s > hi ? hi : (long double)s;
            got = num_cast(ints[k].ty, of_i(s), TY_I64);
            assert_true((c == TY_U32 || c == TY_U64 ? (long double)got.u : (long double)got.i) == want);
            uint64_t u = rng_u64(&r) >> rng_int(&r, 64);
            want = (long double)u > hi ? hi : (long double)u;
            got = num_cast(ints[k].ty, of_u(u), TY_U64);
            assert_true((c == TY_U32 || c == TY_U64 ? (long double)got.u : (long double)got.i) == want);
        }
        assert_true(num_cast(ints[k].ty, of_d(NAN), TY_F64).u == 0);
        assert_true(num_cast(ints[k].ty, of_f(NAN), TY_F32).u == 0);
        Num yes = {0};
        yes.b = true;
        assert_true(num_cast(ints[k].ty, yes, TY_BOOL).u == 1);
    }
    assert_true(num_cast(TY_I8, of_f(2.5f), TY_F32).i == 2);
    assert_true(num_cast(TY_I8, of_f(3.5f), TY_F32).i == 4);
    assert_true(num_cast(TY_U8, of_f(-0.5f), TY_F32).i == 0);
    assert_true(num_cast(TY_U32, of_i(-1), TY_I32).u == 0);
    assert_true(num_cast(TY_BOOL, of_f(NAN), TY_F32).u == 1);
    assert_true(num_cast(TY_BOOL, of_f(-0.0f), TY_F32).u == 0);
    assert_true(num_cast(TY_BOOL, of_i(1ll << 40), TY_I64).u == 1);
    assert_true(num_cast(TY_F32, of_i(16777217), TY_I64).f == 16777216.0f);
    assert_true(num_cast(TY_F32, of_u(UINT64_MAX), TY_U64).f == 0x1p64f);
    assert_true(num_cast(TY_F64, of_i(INT64_MIN), TY_I64).d == -0x1p63);
    for (int i = -128; i < 128; i++) { /* loads sign-extend into all 8 bytes */
        int8_t h = (int8_t)i;
        uint8_t u = (uint8_t)i;
        assert_true(num_load(TY_I8, &h).i == i);
        assert_true(num_load(TY_U8, &u).i == (i & 255));
        assert_true(num_load(TY_BOOL, &u).u == (i != 0));
    }
}

/* ---- operators ---- */
static float op32(Op op, float x, float y) {
    return num_op(op, TY_F32, TY_NONE, of_f(x), of_f(y), of_f(0)).f;
}

/* A double holds the exact sum, difference or product closely enough that rounding it once more is rounding once (53 >=
 * 2 * 24 + 2). */
static void f32_rounds_once(void **state) {
    (void)state;
    Rng r = {5};
    for (int i = 0; i < 300000; i++) {
        float x = f32_of((uint32_t)rng_u64(&r)), y = f32_of((uint32_t)rng_u64(&r));
        if (i % 2) y = ldexpf(x, rng_int(&r, 9) - 4) * (1 + (float)rng_unit(&r)); /* near enough to meet */
        double a = (double)x, b = (double)y;
        const struct {
            Op op;
            double want;
        } t[] = {{OP_ADD, a + b}, {OP_SUB, a - b}, {OP_MUL, a * b}, {OP_DIV, a / b}, {OP_SQRT, sqrt(a)}};
        for (int k = 0; k < COUNT(t); k++) {
            float got = op32(t[k].op, x, y), want = (float)t[k].want;
            if (isnan(want))
                assert_true(isnan(got));
            else
                assert_int_equal(bits_of(got), bits_of(want));
        }
    }
    /* x * x - 1 is 2^-22 + 2^-46; rounding the product loses the second term, fma does not */
    float x = 1 + 0x1p-23f;
    assert_true(op32(OP_SUB, op32(OP_MUL, x, x), 1) == 0x1p-22f);
    assert_true(num_op(OP_FMA, TY_F32, TY_NONE, of_f(x), of_f(x), of_f(-1)).f == 0x1p-22f + 0x1p-46f);
    assert_true(isnan(op32(OP_EXP, 1, 0)));
    assert_true(num_op(OP_EXP, TY_F64, TY_NONE, of_d(1), of_d(0), of_d(0)).d == exp(1));
    assert_true(num_op(OP_SIGMOID, TY_F64, TY_NONE, of_d(0), of_d(0), of_d(0)).d == 0.5);
    assert_true(op32(OP_ROUND, 2.5f, 0) == 2);
    assert_true(op32(OP_FLOOR, -0.5f, 0) == -1);
}

static void min_max_follow_the_language(void **state) {
    (void)state;
    static const Op both[] = {OP_MIN, OP_MAX};
    for (int k = 0; k < 2; k++) {
        assert_true(isnan(op32(both[k], NAN, 1)) && isnan(op32(both[k], 1, NAN)));
        assert_int_equal(signbit(op32(both[k], 0.0f, -0.0f)) != 0, both[k] == OP_MIN);
        assert_int_equal(signbit(op32(both[k], -0.0f, 0.0f)) != 0, both[k] == OP_MIN);
        assert_int_equal(signbit(num_op(both[k], TY_F64, TY_NONE, of_d(-0.0), of_d(0), of_d(0)).d) != 0,
                         both[k] == OP_MIN);
        assert_true(op32(both[k], -3, 7) == (both[k] == OP_MIN ? -3 : 7));
        assert_true(op32(both[k], INFINITY, 7) == (both[k] == OP_MIN ? 7 : INFINITY));
    }
    assert_true(num_op(OP_MAX, TY_U64, TY_NONE, of_u(UINT64_MAX), of_u(1), of_u(0)).u == UINT64_MAX);
    assert_true(num_op(OP_MAX, TY_I64, TY_NONE, of_i(-1), of_i(1), of_i(0)).i == 1);
}

static int64_t op_i(Op op, Ty t, int64_t x, int64_t y) {
    return num_op(op, t, TY_NONE, of_i(x), of_i(y), of_i(0)).i;
}

static void integers_wrap(void **state) {
    (void)state;
    Rng r = {9};
    for (int i = 0; i < 100000; i++) {
        int32_t x = (int32_t)rng_u64(&r), y = (int32_t)(rng_u64(&r) >> rng_int(&r, 64));
        int64_t wide = (int64_t)x * y; /* exact */
        assert_true(op_i(OP_MUL, TY_I32, x, y) == (int32_t)(uint32_t)(uint64_t)wide);
        assert_true(op_i(OP_ADD, TY_I32, x, y) == (int32_t)(uint32_t)((int64_t)x + y));
        assert_true(op_i(OP_SUB, TY_I32, x, y) == (int32_t)(uint32_t)((int64_t)x - y));
        assert_true((uint64_t)op_i(OP_ADD, TY_U32, (uint32_t)x, (uint32_t)y) == (uint32_t)((uint32_t)x + (uint32_t)y));
        if (y) {
            assert_true(op_i(OP_DIV, TY_I32, x, y) == (int32_t)(uint32_t)((int64_t)x / y));
            assert_true(op_i(OP_MOD, TY_I32, x, y) == (int64_t)x % y);
        }
        assert_true(op_i(OP_SHL, TY_I32, x, y) == (int32_t)((uint32_t)x << (y & 31)));
        assert_true(op_i(OP_SHR, TY_I32, x, y) == (int64_t)floor(ldexp(x, -(y & 31))));
    }
    static const Ty ints[] = {TY_I32, TY_I64, TY_U32, TY_U64};
    for (int k = 0; k < 4; k++) {
        assert_true(op_i(OP_DIV, ints[k], 5, 0) == 0);
        assert_true(op_i(OP_MOD, ints[k], 5, 0) == 0);
    }
    assert_true(op_i(OP_DIV, TY_I32, INT32_MIN, -1) == INT32_MIN);
    assert_true(op_i(OP_DIV, TY_I64, INT64_MIN, -1) == INT64_MIN);
    assert_true(op_i(OP_MOD, TY_I64, INT64_MIN, -1) == 0);
    assert_true(op_i(OP_ABS, TY_I32, INT32_MIN, 0) == INT32_MIN);
    assert_true(op_i(OP_NEG, TY_I64, INT64_MIN, 0) == INT64_MIN);
    assert_true(op_i(OP_NEG, TY_U32, 1, 0) == UINT32_MAX);
    assert_true(op_i(OP_DIV, TY_I64, -7, 2) == -3);
    assert_true(op_i(OP_MOD, TY_I64, -7, 2) == -1);
    assert_true(op_i(OP_SHR, TY_I64, -8, 65) == -4);
    assert_true(op_i(OP_BITXOR, TY_I32, -1, 1) == -2);
    assert_true(op_i(OP_BITAND, TY_I64, 12, 10) == 8);
    assert_true(op_i(OP_BITOR, TY_I64, 12, 10) == 14);
    assert_true(num_op(OP_DIV, TY_U64, TY_NONE, of_u(UINT64_MAX), of_u(2), of_u(0)).u == INT64_MAX);
}

static void comparisons_and_bools(void **state) {
    (void)state;
    static const Op cmp[] = {OP_LT, OP_LE, OP_GT, OP_GE, OP_EQ, OP_NE};
    static const double xs[] = {-INFINITY, -1, -0.0, 0, 1, INFINITY, NAN};
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < 7; i++)
            for (int j = 0; j < 7; j++) {
                double want = op_f64(cmp[k], xs[i], xs[j], 0);
                Num f = num_op(cmp[k], TY_F32, TY_NONE, of_f((float)xs[i]), of_f((float)xs[j]), of_f(0));
                Num d = num_op(cmp[k], TY_F64, TY_NONE, of_d(xs[i]), of_d(xs[j]), of_d(0));
                assert_true(f.u == (uint64_t)want && d.u == (uint64_t)want);
                if (isfinite(xs[i]) && isfinite(xs[j])) {
                    Num n = num_op(cmp[k], TY_I64, TY_NONE, of_i((int64_t)xs[i]), of_i((int64_t)xs[j]), of_i(0));
                    assert_true(n.u == (uint64_t)want);
                }
            }
    assert_true(num_op(OP_LT, TY_U64, TY_NONE, of_u(1), of_u(UINT64_MAX), of_u(0)).b);
    Num t = {0}, f = {0};
    t.b = true;
    assert_true(num_op(OP_AND, TY_BOOL, TY_NONE, t, f, f).u == 0);
    assert_true(num_op(OP_OR, TY_BOOL, TY_NONE, t, f, f).u == 1);
    assert_true(num_op(OP_NOT, TY_BOOL, TY_NONE, t, f, f).u == 0);
    assert_true(num_op(OP_WHERE, TY_F32, TY_NONE, f, of_f(1), of_f(2)).f == 2);
}

static void bits_are_reinterpreted(void **state) {
    (void)state;
    Rng r = {13};
    for (int i = 0; i < 100000; i++) {
        uint32_t u = (uint32_t)rng_u64(&r);
        Num f = {0}, n = num_op(OP_BITS, TY_I32, TY_F32, of_i((int32_t)u), of_i(0), of_i(0));
        memcpy(&f, &u, 4);
        assert_true(n.u == f.u);
        assert_true(num_op(OP_BITS, TY_F32, TY_I32, f, f, f).i == (int32_t)u);
        assert_true(num_op(OP_BITS, TY_F32, TY_U32, f, f, f).u == u);
        assert_true(num_op(OP_BITS, TY_U32, TY_I32, of_u(u), f, f).i == (int32_t)u);
        assert_true(num_op(OP_BITS, TY_I32, TY_U32, of_i((int32_t)u), f, f).u == u);
        uint64_t w = rng_u64(&r);
        assert_true(num_op(OP_BITS, TY_I64, TY_F64, of_u(w), f, f).u == w);
    }
    assert_true(num_op(OP_CAST, TY_F32, TY_F8E4M3, of_f(500), of_f(0), of_f(0)).f == 448);
    assert_true(num_op(OP_CAST, TY_F32, TY_I8, of_f(500), of_f(0), of_f(0)).i == 127);
}

/* ---- tables ---- */
static void tables_are_sound(void **state) {
    (void)state;
    for (int i = 0; i < OP_COUNT; i++) {
        const OpInfo *o = op_info((Op)i);
        Op found;
        assert_true(op_find(o->text, o->form, &found) && found == (Op)i);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(o->text, op_info((Op)j)->text); /* so that texts alone name them */
        for (int d = 0; d < DIALECT_COUNT; d++) assert_int_not_equal(strlen(o->spell[d]), 1);
        for (int k = 0; k < o->arity; k++) { /* each operand is spelt, or the operator is expanded */
            char operand[3] = {'$', (char)('0' + k), 0};
            for (int d = 0; d < DIALECT_COUNT; d++) assert_true(!*o->spell[d] || strstr(o->spell[d], operand));
        }
        assert_true(o->ulp >= 0 && o->arity >= 0 && o->arity <= 3);
    }
    assert_string_equal(op_info(OP_DIV)->spell[DIALECT_METAL], "div_$t($0, $1)");
    assert_string_equal(op_info(OP_ADD)->spell[DIALECT_CUDA], "add_$t($0, $1)");
    assert_string_equal(op_info(OP_ADD)->spell[DIALECT_OPENCL], "add_$t($0, $1)");
    assert_int_equal(op_info(OP_ADD)->algebra, ALG_A | ALG_C);
    assert_int_equal(op_info(OP_MAX)->algebra, ALG_A | ALG_C | ALG_D);
    assert_true(op_f64(OP_WHERE, 0, 1, 2) == 2 && op_f64(OP_MAX, -0.0, 0, 0) == 0 && op_f64(OP_SUB, 5, 3, 0) == 2);
    for (int t = TY_BOOL; t < TY_COUNT; t++) {
        Ty f;
        const char *s = ty_text((Ty)t);
        assert_true(ty_find(s, strlen(s), &f) && f == (Ty)t);
        assert_int_equal(ty_compute(ty_compute((Ty)t)), ty_compute((Ty)t));
        for (int u = TY_BOOL; u < TY_COUNT; u++) {
            Ty a = ty_compute((Ty)t), b = ty_compute((Ty)u);
            assert_int_equal(ty_join(a, b), ty_join(b, a));
            assert_int_equal(ty_join(a, ty_join(a, b)), ty_join(a, b));
        }
    }
    Ty none;
    assert_false(ty_find("f3", 2, &none) || ty_find("none", 4, &none) || ty_find("", 0, &none));
    assert_int_equal(ty_join(TY_I32, TY_U32), TY_I64);
    assert_int_equal(ty_join(TY_I64, TY_F32), TY_F32);
    assert_int_equal(ty_join(TY_BOOL, TY_U32), TY_I64);
    assert_int_equal(ty_join(TY_U32, TY_U64), TY_U64);
    assert_false(ty_is_int(TY_BOOL) || ty_is_signed(TY_U8) || ty_is_float(TY_U64));
    assert_true(ty_is_signed(TY_F8E4M3) && ty_is_signed(TY_I64));
}

static void operators_take_what_they_should(void **state) {
    (void)state;
    const struct {
        Op op;
        Ty t[3], want; /* TY_NONE: refused */
    } cases[] = {
        {OP_ADD, {TY_F32, TY_I64}, TY_F32},
        {OP_ADD, {TY_BOOL, TY_F32}, TY_NONE},
        {OP_MOD, {TY_F32, TY_F32}, TY_NONE},
        {OP_MOD, {TY_I32, TY_I64}, TY_I64},
        {OP_EXP, {TY_I32}, TY_F32},
        {OP_EXP, {TY_F64}, TY_F64},
        {OP_EXP, {TY_BOOL}, TY_NONE},
        {OP_LT, {TY_F64, TY_I32}, TY_BOOL},
        {OP_EQ, {TY_BOOL, TY_BOOL}, TY_BOOL},
        {OP_AND, {TY_BOOL, TY_BOOL}, TY_BOOL},
        {OP_AND, {TY_BOOL, TY_I32}, TY_NONE},
        {OP_NOT, {TY_F32}, TY_NONE},
        {OP_WHERE, {TY_BOOL, TY_I32, TY_F32}, TY_F32},
        {OP_WHERE, {TY_I32, TY_F32, TY_F32}, TY_NONE},
        {OP_WHERE, {TY_BOOL, TY_BOOL, TY_BOOL}, TY_BOOL},
        {OP_FLOOR, {TY_I64}, TY_I64},
        {OP_FLOOR, {TY_BOOL}, TY_NONE},
        {OP_BITAND, {TY_F32, TY_F32}, TY_NONE},
        {OP_SHL, {TY_I64, TY_I64}, TY_I64},
        {OP_SHL, {TY_I64, TY_I32}, TY_NONE},
        {OP_CAST, {TY_F32}, TY_NONE},
        {OP_CONST, {TY_NONE}, TY_NONE},
        {OP_ADD, {TY_F32, TY_NONE}, TY_NONE},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        Ty got;
        bool ok = op_type(cases[i].op, cases[i].t, &got);
        assert_int_equal(ok, cases[i].want != TY_NONE);
        assert_int_equal(got, cases[i].want);
    }
    assert_int_equal(op_operand(OP_EQ, (const Ty[]){TY_BOOL, TY_BOOL, TY_NONE}), TY_I32);
}

static void reductions_have_identities(void **state) {
    (void)state;
    for (int i = 0; i < RED_COUNT; i++) {
        Red r;
        const char *s = red_info((Red)i)->text;
        assert_true(red_find(s, strlen(s), &r) && r == (Red)i);
        int join = red_info(r)->join;
        if (join >= RED_PAIR) continue;
        static const Ty ts[] = {TY_F32, TY_F64, TY_I32, TY_U32, TY_BOOL};
        for (int k = 0; k < COUNT(ts); k++) { /* joining with the identity changes nothing */
            Ty t = red_type(r, ts[k]);
            Num id = {0}, x = {0};
            if (ty_is_float(t))
                id = num_cast(t, of_d(red_identity_f64(r, ts[k])), TY_F64), x = num_cast(t, of_d(-2.5), TY_F64);
            else
                id = of_i(red_identity_i64(r, ts[k])), x = of_i(t == TY_BOOL ? 1 : t == TY_U64 ? 9 : -9);
            assert_true(num_op((Op)join, t, TY_NONE, id, x, x).u == x.u);
            if (t == TY_BOOL) assert_true(num_op((Op)join, t, TY_NONE, id, of_i(0), x).u == 0);
        }
    }
    assert_int_equal(red_type(RED_SUM, TY_I32), TY_I64);
    assert_int_equal(red_type(RED_MAX, TY_U32), TY_U64);
    assert_int_equal(red_type(RED_MEAN, TY_I64), TY_F32);
    assert_int_equal(red_type(RED_ARGMAX, TY_F64), TY_I64);
    assert_int_equal(red_type(RED_ANY, TY_BOOL), TY_BOOL);
    assert_int_equal(red_operand(RED_ARGMAX, TY_F64), TY_F64);
    assert_true(isnan(red_identity_f64(RED_MEAN, TY_F32)));
    for (int h = 0; h < HOLD_COUNT; h++) {
        Hold found;
        assert_true(hold_find(hold_text((Hold)h), &found) && found == (Hold)h);
    }
    for (int k = 0; k < STAT_COUNT; k++) {
        Stat found;
        assert_true(stat_find(stat_text((Stat)k), &found) && found == (Stat)k);
    }
    Hold no_hold;
    Stat no_stat;
    assert_false(hold_find("registers", &no_hold) || stat_find("", &no_stat));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_round_trips),
        cmocka_unit_test(ties_go_to_even),
        cmocka_unit_test(random_values_round_to_nearest),
        cmocka_unit_test(integers_round_once),
        cmocka_unit_test(integers_saturate),
        cmocka_unit_test(f32_rounds_once),
        cmocka_unit_test(min_max_follow_the_language),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(comparisons_and_bools),
        cmocka_unit_test(bits_are_reinterpreted),
        cmocka_unit_test(tables_are_sound),
        cmocka_unit_test(operators_take_what_they_should),
        cmocka_unit_test(reductions_have_identities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
