/* The definition: known values, special values, bounds that catch planted mistakes; and inputs. */
#include "../../src/oracle/oracle.h"
#include "../diff/naive.h"
#include "../diff/randprog.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const OracleOptions plain = {.serial = 0, .joins = 0, .stat = STAT_TWO_PASS};

/* ---- programs ---- */
typedef struct Bench {
    Cx cx;
    Prog *p;
    Shape s;
    Args a;
    int rows, n;
} Bench;

static Bench bench(int64_t rows, int64_t n) {
    Bench b = {.cx = {.a = arena_new(NULL, NULL)}};
    b.p = NEW(b.cx.a, Prog);
    b.p->name = "test";
    b.p->axis[b.rows = b.p->naxes++] = (Axis){"rows", true, -1};
    b.p->axis[b.n = b.p->naxes++] = (Axis){"n", false, -1};
    b.p->row_axes = 1;
    for (int i = 0; i < MAX_AXES; i++) b.s.n[i] = -1;
    b.s.n[0] = rows;
    b.s.n[1] = n;
    return b;
}

static int param(Bench *b, const char *name, Dir dir, Ty ty, const char *axes) { /* axes: r, n */
    Param q = {.name = name, .dir = dir, .ty = ty};
    for (; *axes; axes++) q.axis[q.rank++] = (uint8_t)(*axes == 'r' ? 0 : 1);
    b->p->param[b->p->nparams] = q;
    return b->p->nparams++;
}

static int in(Bench *b, const char *name, Ty ty, const char *axes) {
    return prog_load(&b->cx, b->p, param(b, name, DIR_IN, ty, axes));
}
static void out(Bench *b, const char *name, Ty ty, const char *axes, int val) {
    b->p->out[b->p->nouts++] = (Out){param(b, name, DIR_OUT, ty, axes), val};
}
static int op(Bench *b, Op o, int x, int y) {
    return prog_op(&b->cx, b->p, o, x, y, -1);
}
static int red(Bench *b, Red r, int x) {
    return prog_red(&b->cx, b->p, r, x, 1u << b->n, POLICY_TREE);
}
static int real_const(Bench *b, double x) {
    return prog_const_f(&b->cx, b->p, TY_F32, x);
}

static void ready(Bench *b, Fill f, uint64_t seed) {
    assert_int_equal(shape_bind(&b->cx, b->p, &b->s), OK);
    assert_int_equal(prog_verify(&b->cx, b->p), OK);
    randargs(&b->cx, b->p, &b->s, f, seed, false, &b->a);
}

static void put(Bench *b, int p, int64_t i, double x) {
    num_store(b->a.t[p].ty, (char *)b->a.t[p].data + i * ty_bytes(b->a.t[p].ty), (Num){.d = x}, TY_F64);
}
static double got(const Bench *b, int p, int64_t i) {
    return num_f64(num_load(b->a.t[p].ty, (char *)b->a.t[p].data + i * ty_bytes(b->a.t[p].ty)),
                   ty_compute(b->a.t[p].ty));
}

static void eval(Bench *b, Expect x[MAX_PARAMS]) {
    assert_int_equal(oracle_eval(&b->cx, b->p, &b->s, &b->a, &plain, x), OK);
}

static double value(const Expect *x, int64_t i) {
    return x->f ? x->f[i] : x->w ? (double)x->w[i] : (double)x->i[i];
}

static bool agrees(Bench *b) {
    Verdict v;
    const Err err = oracle_check(&b->cx, b->p, &b->s, &b->a, &b->a, &plain, &v);
    assert_true(err == OK || err == ERR_WRONG);
    assert_int_equal(err == OK, v.ok);
    return v.ok;
}

static int softmax(Bench *b, int x) {
    const int e = op(b, OP_EXP, op(b, OP_SUB, x, red(b, RED_MAX, x)), -1);
    return op(b, OP_DIV, e, red(b, RED_SUM, e));
}
static int log_softmax(Bench *b, int x) {
    const int d = op(b, OP_SUB, x, red(b, RED_MAX, x));
    return op(b, OP_SUB, d, op(b, OP_LOG, red(b, RED_SUM, op(b, OP_EXP, d, -1)), -1));
}
static int layernorm(Bench *b, int x, double eps) {
    const int c = op(b, OP_SUB, x, red(b, RED_MEAN, x)), var = red(b, RED_MEAN, op(b, OP_MUL, c, c));
    return op(b, OP_MUL, c, op(b, OP_RSQRT, op(b, OP_ADD, var, real_const(b, eps)), -1));
}

/* The value within its bound, and the bound no more than `most`. */
static void near(const Expect *x, int64_t i, double want, double most) {
    if (!(fabs(value(x, i) - want) <= most && x->e[i] <= most))
        fail_msg("element %lld: %.17g within %g, not %.17g within %g", (long long)i, value(x, i), x->e[i], want, most);
}
static void exactly(const Expect *x, int64_t i, double want) {
    const double v = value(x, i);
    if (!((v == want || (isnan(v) && isnan(want))) && x->e[i] == 0))
        fail_msg("element %lld: %.17g within %g, not exactly %.17g", (long long)i, v, x->e[i], want);
}

/* ---- known values ---- */
static void test_softmax(void **state) {
    (void)state;
    Bench b = bench(1, 3);
    out(&b, "y", TY_F32, "rn", softmax(&b, in(&b, "x", TY_F32, "rn")));
    ready(&b, FILL_UNIFORM, 1);
    for (int i = 0; i < 3; i++) put(&b, 0, i, i);
    Expect x[MAX_PARAMS];
    eval(&b, x);
    const double s = 1 + exp(1) + exp(2);
    for (int i = 0; i < 3; i++) near(&x[1], i, exp(i) / s, 2e-6);
    arena_free(b.cx.a);
}

/* FO-01: rows of softmax with no answer are NaN in every place, their neighbours are not touched. */
static void test_special_rows(void **state) {
    (void)state;
    Bench b = bench(8, 64);
    out(&b, "y", TY_F32, "rn", softmax(&b, in(&b, "x", TY_F32, "rn")));
    ready(&b, FILL_UNIFORM, 1);
    const double inf = (double)INFINITY;
    for (int r = 0; r < 8; r++)
        for (int j = 0; j < 64; j++)
            put(&b, 0, r * 64 + j, r == 0 || r == 6 || (r == 7 && j % 2 == 0) ? -inf : r == 4 ? (double)NAN : j / 64.0);
    put(&b, 0, 64 + 3, inf);
    put(&b, 0, 128 + 3, inf);
    put(&b, 0, 128 + 40, inf);
    put(&b, 0, 192 + 5, (double)NAN);
    put(&b, 0, 6 * 64 + 7, 0);
    Expect x[MAX_PARAMS];
    eval(&b, x);
    for (int i = 0; i < 5 * 64; i++) exactly(&x[1], i, (double)NAN);
    near(&x[1], 5 * 64, 0.00916480, 1e-7);
    near(&x[1], 5 * 64 + 63, 0.0245263, 3e-7);
    near(&x[1], 6 * 64 + 7, 1, 1e-5);
    near(&x[1], 7 * 64 + 1, 0.0184739, 3e-7);
    near(&x[1], 7 * 64 + 63, 0.0486723, 1e-6);
    for (int j = 0; j < 64; j++) {
        if (j != 7) exactly(&x[1], 6 * 64 + j, 0);
        if (j % 2 == 0) exactly(&x[1], 7 * 64 + j, 0);
    }
    arena_free(b.cx.a);
}

/* FO-03: a large common offset. */
static void test_log_softmax_offset(void **state) {
    (void)state;
    Bench b = bench(2, 3);
    out(&b, "y", TY_F32, "rn", log_softmax(&b, in(&b, "x", TY_F32, "rn")));
    ready(&b, FILL_UNIFORM, 1);
    static const double x[] = {-1e7, -1e7, -1e7, -1e7, -9999999, -10000001},
                        y[] = {-1.0986123, -1.0986123, -1.0986123, -1.4076060, -0.4076060, -2.4076060};
    for (int i = 0; i < 6; i++) put(&b, 0, i, x[i]);
    Expect e[MAX_PARAMS];
    eval(&b, e);
    for (int i = 0; i < 6; i++) near(&e[1], i, y[i], 3e-6);
    for (int i = 0; i < 6; i++) put(&b, 1, i, floor(y[i])); /* what max + log(sum) in f32 gives */
    assert_false(agrees(&b));
    arena_free(b.cx.a);
}

/* FO-04: NaN at any position and in any number. */
static void test_nan_extremes(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8, 17, 31, 32, 33, 64, 65, 1024, 1025};
    for (int k = 0; k < COUNT(sizes); k++) {
        const int n = sizes[k];
        Bench b = bench(9, n);
        const int x = in(&b, "x", TY_F16, "rn");
        out(&b, "hi", TY_F32, "r", red(&b, RED_MAX, x));
        out(&b, "lo", TY_F16, "r", red(&b, RED_MIN, x));
        out(&b, "at", TY_I64, "r", red(&b, RED_ARGMAX, x));
        ready(&b, FILL_UNIFORM, 1);
        const int where[] = {0, n > 1, n / 2, n - 1};
        for (int r = 0; r < 9; r++)
            for (int j = 0; j < n; j++) put(&b, 0, r * n + j, (r < 4 ? j == where[r] : j < r - 3) ? (double)NAN : j);
        Expect e[MAX_PARAMS];
        eval(&b, e);
        for (int r = 0; r < 9; r++) {
            exactly(&e[1], r, (double)NAN);
            exactly(&e[2], r, (double)NAN);
            exactly(&e[3], r, r < 4 ? where[r] : 0);
        }
        arena_free(b.cx.a);
    }
}

/* FO-05: rows of length zero, and no rows. */
static void test_empty(void **state) {
    (void)state;
    Bench b = bench(10, 0);
    const int x = in(&b, "x", TY_F32, "rn"), k = in(&b, "k", TY_I32, "rn");
    static const double want[RED_COUNT] = {0,  1,  -(double)INFINITY, (double)INFINITY, 0, 1,
                                           -1, -1, (double)NAN,       (double)NAN,      0, -(double)INFINITY};
    for (int r = 0; r < RED_COUNT; r++)
        out(&b, red_info((Red)r)->text, ty_is_float(red_type((Red)r, TY_F32)) ? TY_F32 : TY_I64, "r",
            red(&b, (Red)r, r == RED_ANY || r == RED_ALL ? op(&b, OP_GT, x, x) : x));
    out(&b, "soft", TY_F32, "rn", softmax(&b, x));
    out(&b, "lowest", TY_I64, "r", red(&b, RED_MAX, k));
    ready(&b, FILL_UNIFORM, 1);
    Expect e[MAX_PARAMS];
    eval(&b, e);
    for (int r = 0; r < RED_COUNT; r++)
        for (int i = 0; i < 10; i++) exactly(&e[2 + r], i, want[r]);
    assert_int_equal(e[2 + RED_COUNT].count, 0);
    exactly(&e[3 + RED_COUNT], 0, (double)INT64_MIN);
    arena_free(b.cx.a);
    b = bench(0, 7168);
    out(&b, "y", TY_BF16, "rn", softmax(&b, in(&b, "x", TY_BF16, "rn")));
    ready(&b, FILL_UNIFORM, 1);
    assert_true(agrees(&b));
    arena_free(b.cx.a);
}

/* FO-06: the centred value of a single element is exactly zero, whatever it is scaled by. */
static void test_layernorm_of_one(void **state) {
    (void)state;
    for (int k = 0; k <= 15; k++)
        for (int wide = 0; wide < 2; wide++) {
            const Ty t = wide ? TY_F64 : TY_F32;
            Bench b = bench(1, 1);
            const int x = in(&b, "x", t, "rn"), w = in(&b, "w", t, "n"), bias = in(&b, "bias", t, "n");
            out(&b, "y", t, "rn", op(&b, OP_ADD, op(&b, OP_MUL, layernorm(&b, x, 0.1), w), bias));
            ready(&b, FILL_UNIFORM, 1);
            put(&b, 0, 0, -3);
            put(&b, 1, 0, pow(10, k));
            put(&b, 2, 0, -1);
            Expect e[MAX_PARAMS];
            eval(&b, e);
            exactly(&e[3], 0, -1);
            arena_free(b.cx.a);
        }
}

/* FO-08: rows with a large mean. */
static void test_large_mean(void **state) {
    (void)state;
    for (int k = 1; k <= 2; k++) {
        Bench b = bench(1, 4);
        const int x = in(&b, "x", TY_F32, "rn");
        out(&b, "y", TY_F32, "rn", layernorm(&b, x, 1e-5));
        out(&b, "var", TY_F32, "r", red(&b, RED_VAR, x));
        ready(&b, FILL_UNIFORM, 1);
        for (int i = 0; i < 4; i++) put(&b, 0, i, 40000.0 * k + i);
        Expect e[MAX_PARAMS];
        eval(&b, e);
        static const double y[] = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
        for (int i = 0; i < 4; i++) near(&e[1], i, y[i], 0.08); /* mean in f32 may be off by several units of 80000 */
        near(&e[2], 0, 1.25, 0.05);
        naive(&b.cx, b.p, &b.s, &b.a, false, NO_MISTAKE);
        assert_true(agrees(&b));
        naive(&b.cx, b.p, &b.s, &b.a, false, RAW_MOMENTS);
        assert_false(agrees(&b)); /* mean of squares less square of mean */
        arena_free(b.cx.a);
    }
}

static void test_cross_entropy(void **state) {
    (void)state;
    Bench b = bench(3, 3);
    const int x = in(&b, "x", TY_F32, "rn"), t = in(&b, "t", TY_I64, "r");
    Val g = {.op = OP_LOAD, .param = 0, .fill = -1, .idx = {prog_idx(&b.cx, b.p, b.rows), t}};
    const int lse = red(&b, RED_LSE, x);
    out(&b, "loss", TY_F32, "r", op(&b, OP_SUB, lse, prog_add(&b.cx, b.p, g)));
    ready(&b, FILL_UNIFORM, 1);
    static const double logits[] = {1, 2, 3, -(double)INFINITY, 0, 0, 1, 1, 1};
    for (int i = 0; i < 9; i++) put(&b, 0, i, logits[i]);
    ((int64_t *)b.a.t[1].data)[0] = 2;
    ((int64_t *)b.a.t[1].data)[1] = 1;
    ((int64_t *)b.a.t[1].data)[2] = 3; /* outside: NaN, and memory is not touched */
    Expect e[MAX_PARAMS];
    eval(&b, e);
    near(&e[2], 0, log(1 + exp(-1) + exp(-2)), 2e-6);
    near(&e[2], 1, 0.6931472, 1e-6);
    exactly(&e[2], 2, (double)NAN);
    arena_free(b.cx.a);
}

/* ---- special values, operator by operator ---- */
typedef struct Special {
    Op op;
    double x, y, want;
} Special;
#define I ((double)INFINITY)
#define N ((double)NAN)
static const Special specials[] = {
    {OP_ADD, I, -I, N},      {OP_ADD, I, 1, I},         {OP_ADD, N, 1, N},    {OP_ADD, 3e38, 3e38, I},
    {OP_SUB, I, I, N},       {OP_SUB, -3e38, 3e38, -I}, {OP_MUL, 0, I, N},    {OP_MUL, -1, I, -I},
    {OP_MUL, 1e30, 1e30, I}, {OP_MUL, 1e-30, 1e-30, 0}, {OP_DIV, 1, 0, I},    {OP_DIV, -1, 0, -I},
    {OP_DIV, 0, 0, N},       {OP_DIV, I, I, N},         {OP_DIV, 1, I, 0},    {OP_NEG, N, 0, N},
    {OP_NEG, I, 0, -I},      {OP_ABS, -I, 0, I},        {OP_ABS, N, 0, N},    {OP_MIN, N, 1, N},
    {OP_MIN, 1, N, N},       {OP_MIN, -I, 1, -I},       {OP_MAX, N, 1, N},    {OP_MAX, 1, N, N},
    {OP_MAX, I, 1, I},       {OP_FLOOR, -1.5, 0, -2},   {OP_FLOOR, I, 0, I},  {OP_ROUND, 2.5, 0, 2},
    {OP_ROUND, -0.5, 0, 0},  {OP_SQRT, -1, 0, N},       {OP_SQRT, I, 0, I},   {OP_SQRT, 4, 0, 2},
    {OP_RSQRT, 0, 0, I},     {OP_RSQRT, -1, 0, N},      {OP_RSQRT, I, 0, 0},  {OP_EXP, -I, 0, 0},
    {OP_EXP, I, 0, I},       {OP_EXP, 89, 0, I},        {OP_EXP, N, 0, N},    {OP_EXP2, 129, 0, I},
    {OP_EXP2, -I, 0, 0},     {OP_LOG, 0, 0, -I},        {OP_LOG, -1, 0, N},   {OP_LOG, I, 0, I},
    {OP_LOG2, 0, 0, -I},     {OP_LOG2, -1, 0, N},       {OP_TANH, N, 0, N},   {OP_ERF, N, 0, N},
    {OP_SIGMOID, -I, 0, 0},  {OP_SIGMOID, N, 0, N},     {OP_POW, -1, 0.5, N}, {OP_POW, 0, -1, I},
    {OP_POW, 1e30, 2, I},    {OP_LT, N, 1, 0},          {OP_LE, N, N, 0},     {OP_GT, I, 1, 1},
    {OP_GE, 1, 1, 1},        {OP_EQ, N, N, 0},          {OP_EQ, 0, -0.0, 1},  {OP_NE, N, N, 1},
    {OP_NE, I, I, 0},
};

static void test_special_values(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(specials); k++)
        for (int wide = 0; wide < 2; wide++) {
            const Special *t = &specials[k];
            if (wide && (fabs(t->x) > 80 || fabs(t->x) < 1e-20) && isfinite(t->x) && t->x != 0)
                continue; /* f32's own limits */
            Bench b = bench(1, 1);
            const Ty ty = wide ? TY_F64 : TY_F32;
            const int x = in(&b, "x", ty, "rn"), y = in(&b, "w", ty, "rn"),
                      z = op(&b, t->op, x, op_info(t->op)->arity > 1 ? y : -1);
            out(&b, "y", b.p->val[z].ty, "rn", z);
            ready(&b, FILL_UNIFORM, 1);
            put(&b, 0, 0, t->x);
            put(&b, 1, 0, t->y);
            Expect e[MAX_PARAMS];
            eval(&b, e);
            if (!(value(&e[2], 0) == t->want || (isnan(value(&e[2], 0)) && isnan(t->want)) ||
                  (t->want == 0 && fabs(value(&e[2], 0)) <= 1e-45)) ||
                !(e[2].e[0] <= 0x1p-149))
                fail_msg("%s(%g, %g) in %s is %g within %g, not %g", op_info(t->op)->text, t->x, t->y, ty_text(ty),
                         value(&e[2], 0), e[2].e[0], t->want);
            arena_free(b.cx.a);
        }
}

static void test_integers(void **state) {
    (void)state;
    Bench b = bench(1, 2);
    const int x = in(&b, "x", TY_I32, "rn"), y = in(&b, "w", TY_I32, "rn");
    out(&b, "sum", TY_I32, "rn", op(&b, OP_ADD, x, y));
    out(&b, "quot", TY_I32, "rn", op(&b, OP_DIV, x, y));
    out(&b, "small", TY_I8, "rn", x);
    out(&b, "total", TY_I64, "r", red(&b, RED_SUM, x));
    out(&b, "big", TY_U8, "rn", prog_cast(&b.cx, b.p, TY_F32, x));
    ready(&b, FILL_UNIFORM, 1);
    static const int32_t xs[] = {INT32_MAX, INT32_MAX}, ys[] = {1, 0};
    memcpy(b.a.t[0].data, xs, sizeof xs);
    memcpy(b.a.t[1].data, ys, sizeof ys);
    Expect e[MAX_PARAMS];
    eval(&b, e);
    exactly(&e[2], 0, INT32_MIN); /* wraps */
    exactly(&e[3], 1, 0);         /* by zero */
    exactly(&e[5], 0, 2.0 * INT32_MAX);
    naive(&b.cx, b.p, &b.s, &b.a, false, NO_MISTAKE);
    assert_true(agrees(&b));
    assert_int_equal(((int8_t *)b.a.t[4].data)[0], 127); /* saturates */
    ((int8_t *)b.a.t[4].data)[0] = -1;
    assert_false(agrees(&b));
    arena_free(b.cx.a);
}

/* Where errors of operands leave two outcomes open, both are legal and a third is not. */
static void test_both_outcomes(void **state) {
    (void)state;
    Bench b = bench(1, 2);
    const int x = in(&b, "x", TY_F32, "rn"),
              a = op(&b, OP_ADD, op(&b, OP_SUB, x, real_const(&b, 0.1)), real_const(&b, 0.1)), c = op(&b, OP_LT, a, x);
    out(&b, "c", TY_BOOL, "rn", c);
    out(&b, "w", TY_F32, "rn", prog_op(&b.cx, b.p, OP_WHERE, c, real_const(&b, 1), real_const(&b, 5)));
    out(&b, "f", TY_F32, "rn", op(&b, OP_FLOOR, op(&b, OP_ADD, a, real_const(&b, 0.75)), -1));
    out(&b, "at", TY_I32, "r", red(&b, RED_ARGMAX, op(&b, OP_MUL, a, a)));
    ready(&b, FILL_UNIFORM, 1);
    put(&b, 0, 0, 0.25);
    put(&b, 0, 1, 0.25);
    Expect e[MAX_PARAMS];
    eval(&b, e);
    assert_true(e[1].e[0] == 1);
    assert_true(e[2].e[0] >= 4 && e[2].e[0] < 4.01);
    assert_true(e[3].e[0] == 1);
    assert_non_null(e[4].set[0]);
    assert_int_equal(e[4].set[0][0], 2);
    for (int k = 0; k < 3; k++) { /* index 0, 1, and 2, which is none */
        naive(&b.cx, b.p, &b.s, &b.a, false, NO_MISTAKE);
        ((int32_t *)b.a.t[4].data)[0] = k;
        assert_int_equal(agrees(&b), k < 2);
        Verdict v;
        Cx cx = {.a = b.cx.a};
        const Err err = oracle_compare(&cx, b.p, &b.s, &b.a, e, &v);
        assert_int_equal(err, k < 2 ? OK : ERR_WRONG);
        if (k == 2) {
            assert_int_equal(cx.first->slug, S_ORACLE_MISMATCH);
            assert_int_equal(v.param, 4);
            assert_int_equal(v.bad, 1);
            assert_true(v.got == 2);
        }
    }
    arena_free(b.cx.a);
}

static void test_argmax_sets(void **state) {
    (void)state;
    Bench b = bench(1, 5);
    const int x = in(&b, "x", TY_F32, "rn");
    out(&b, "at", TY_I64, "r", red(&b, RED_ARGMAX, x));
    out(&b, "about", TY_I64, "r", red(&b, RED_ARGMAX, op(&b, OP_EXP, x, -1)));
    out(&b, "low", TY_I64, "r", red(&b, RED_ARGMIN, op(&b, OP_EXP, x, -1)));
    ready(&b, FILL_UNIFORM, 1);
    static const double xs[] = {1, 2, 0, 2, 2};
    for (int i = 0; i < 5; i++) put(&b, 0, i, xs[i]);
    Expect e[MAX_PARAMS];
    eval(&b, e);
    exactly(&e[1], 0, 1); /* exact inputs: the first of the equal ones and nothing else */
    assert_null(e[1].set[0]);
    assert_int_equal(e[2].set[0][0], 3);
    assert_int_equal(e[2].set[0][1], 1);
    assert_int_equal(e[2].set[0][2], 3);
    assert_int_equal(e[2].set[0][3], 4);
    exactly(&e[3], 0, 2);
    arena_free(b.cx.a);
}

/* ---- mistakes ---- */
typedef int Build(Bench *b, int x);
static int build_layernorm(Bench *b, int x) {
    return layernorm(b, x, 1e-5);
}
static int build_max(Bench *b, int x) {
    return red(b, RED_MAX, x);
}
static int build_sum(Bench *b, int x) {
    return red(b, RED_SUM, x);
}
static int build_argmax(Bench *b, int x) {
    return red(b, RED_ARGMAX, x);
}
static int build_var(Bench *b, int x) {
    return red(b, RED_VAR, x);
}
static int build_copy(Bench *b, int x) {
    return op(b, OP_MUL, x, real_const(b, 1.1));
}
static int build_lse(Bench *b, int x) {
    return red(b, RED_LSE, x);
}

static void test_planted_mistakes(void **state) {
    (void)state;
    static const struct {
        Build *build;
        const char *axes;
        Ty to;
        Fill fill;
        double offset;
        Mistake mistake;
    } cases[] = {
        {build_sum, "r", TY_F32, FILL_NORMAL, 0, SKIP_LAST},
        {softmax, "rn", TY_F32, FILL_NORMAL, 0, SKIP_LAST},
        {build_layernorm, "rn", TY_F32, FILL_UNIFORM, 0, SKIP_LAST},
        {build_max, "r", TY_F32, FILL_NORMAL, -50, MAX_FROM_ZERO},
        {build_argmax, "r", TY_I64, FILL_TIES, 0, LAST_TIE},
        {build_var, "r", TY_F32, FILL_NORMAL, 3000, RAW_MOMENTS},
        {build_copy, "rn", TY_BF16, FILL_NORMAL, 0, TRUNCATE},
        {build_lse, "r", TY_F32, FILL_NORMAL, 0, EXP_OFF},
    };
    for (int k = 0; k < COUNT(cases); k++) {
        Bench b = bench(3, 100);
        out(&b, "y", cases[k].to, cases[k].axes, cases[k].build(&b, in(&b, "x", TY_F32, "rn")));
        ready(&b, cases[k].fill, 7);
        for (int i = 0; i < 300; i++) put(&b, 0, i, got(&b, 0, i) + cases[k].offset);
        naive(&b.cx, b.p, &b.s, &b.a, false, NO_MISTAKE);
        if (!agrees(&b)) fail_msg("case %d refused without a mistake", k);
        naive(&b.cx, b.p, &b.s, &b.a, false, cases[k].mistake);
        if (agrees(&b)) fail_msg("case %d: mistake %d was not caught", k, (int)cases[k].mistake);
        arena_free(b.cx.a);
    }
}

/* One element of a long softmax off by a thousandth is caught; poison left in place is, too. */
static void test_small_mistake(void **state) {
    (void)state;
    Bench b = bench(2, 4096);
    out(&b, "y", TY_F32, "rn", softmax(&b, in(&b, "x", TY_F32, "rn")));
    ready(&b, FILL_NORMAL, 3);
    naive(&b.cx, b.p, &b.s, &b.a, true, NO_MISTAKE);
    const OracleOptions tree = {.serial = 16, .joins = 8};
    Verdict v;
    assert_int_equal(oracle_check(&b.cx, b.p, &b.s, &b.a, &b.a, &tree, &v), OK);
    assert_int_equal(v.checked, 2 * 4096);
    assert_true(v.worst > 0 && v.worst <= 1);
    const double y = got(&b, 1, 5000);
    put(&b, 1, 5000, y * 1.001);
    assert_int_equal(oracle_check(&b.cx, b.p, &b.s, &b.a, &b.a, &tree, &v), ERR_WRONG);
    assert_int_equal(v.bad, 1);
    assert_int_equal(v.at[0], 1);
    assert_int_equal(v.at[1], 904);
    assert_true(v.worst > 10 && v.bound < v.want * 1e-4);
    assert_non_null(strstr(b.cx.first->msg, "y[rows=1, n=904]"));
    put(&b, 1, 5000, y);
    memset((char *)b.a.t[1].data + 4, POISON, 4);
    assert_int_equal(oracle_check(&b.cx, b.p, &b.s, &b.a, &b.a, &tree, &v), ERR_WRONG);
    arena_free(b.cx.a);
}

static void test_arguments(void **state) {
    (void)state;
    Bench b = bench(2, 4);
    out(&b, "y", TY_F32, "rn", softmax(&b, in(&b, "x", TY_F32, "rn")));
    ready(&b, FILL_NORMAL, 3);
    Verdict v;
    b.a.t[1].ty = TY_F16;
    assert_int_equal(oracle_check(&b.cx, b.p, &b.s, &b.a, &b.a, &plain, &v), ERR_ARGUMENT);
    b.a.t[1].ty = TY_F32;
    b.a.t[0].n[1] = 5;
    assert_int_equal(oracle_check(&b.cx, b.p, &b.s, &b.a, &b.a, &plain, &v), ERR_ARGUMENT);
    assert_int_equal(b.cx.last->slug, S_ORACLE_ARGS);
    b.s.n[0] = -1;
    Expect e[MAX_PARAMS];
    assert_int_equal(oracle_eval(&b.cx, b.p, &b.s, &b.a, &plain, e), ERR_ARGUMENT);
    arena_free(b.cx.a);
}

/* ---- one-sweep statistics ---- */
static float one_sweep(Stat stat, const float *x, int n) { /* n times the variance, serially */
    float s = 0, ss = 0, mean = 0, m2 = 0;
    for (int i = 0; i < n; i++) {
        const float d = x[i] - x[0], delta = x[i] - mean;
        s += d;
        ss += d * d;
        mean += delta / (float)(i + 1);
        m2 += delta * (x[i] - mean);
    }
    return stat == STAT_WELFORD ? m2 : fmaxf(ss - s * s / (float)n, 0);
}

static float online_sum(const float *x, int n) { /* of exp(x - max), rescaled at every step */
    float m = x[0], s = 1;
    for (int i = 1; i < n; i++) {
        const float next = fmaxf(m, x[i]);
        s = s * expf(m - next) + expf(x[i] - next);
        m = next;
    }
    return s;
}

static void test_one_sweep(void **state) {
    (void)state;
    for (int stat = STAT_ONLINE; stat <= STAT_WELFORD; stat++)
        for (int f = 0; f < FILL_SPECIAL; f++)
            for (uint64_t seed = 0; seed < 20; seed++) {
                Bench b = bench(4, 200);
                const int x = in(&b, "x", TY_F32, "rn"), c = op(&b, OP_SUB, x, red(&b, RED_MEAN, x)),
                          d = op(&b, OP_SUB, x, red(&b, RED_MAX, x));
                out(&b, "var", TY_F32, "r", red(&b, RED_VAR, x));
                out(&b, "mean_cc", TY_F32, "r", red(&b, RED_MEAN, op(&b, OP_MUL, c, c)));
                out(&b, "sum_exp", TY_F32, "r", red(&b, RED_SUM, op(&b, OP_EXP, d, -1)));
                ready(&b, (Fill)f, seed);
                for (int r = 0; r < 4; r++) {
                    const float *row = (const float *)b.a.t[0].data + 200 * r;
                    const float m2 = one_sweep(stat == STAT_ONLINE ? STAT_WELFORD : (Stat)stat, row, 200);
                    put(&b, 1, r, (double)(m2 / 200));
                    put(&b, 2, r, (double)(m2 / 200));
                    put(&b, 3, r, (double)online_sum(row, 200));
                }
                if (stat == STAT_ONLINE) { /* which says nothing of variances */
                    const Args kept = b.a;
                    naive(&b.cx, b.p, &b.s, &b.a, false, NO_MISTAKE);
                    for (int r = 0; r < 4; r++)
                        put(&b, 3, r, (double)online_sum((const float *)kept.t[0].data + 200 * r, 200));
                }
                const OracleOptions o = {.stat = (Stat)stat};
                Verdict v;
                if (oracle_check(&b.cx, b.p, &b.s, &b.a, &b.a, &o, &v))
                    fail_msg("%s on %s, seed %d: %s", stat_text((Stat)stat), fill_text((Fill)f), (int)seed,
                             b.cx.first->msg);
                arena_free(b.cx.a);
            }
}

/* A plan that shifts is allowed the rounding of the shift, and no more. */
static void test_shifted_mistake(void **state) {
    (void)state;
    Bench b = bench(3, 100);
    out(&b, "y", TY_F32, "r", red(&b, RED_VAR, in(&b, "x", TY_F32, "rn")));
    ready(&b, FILL_NORMAL, 7);
    for (int i = 0; i < 300; i++) put(&b, 0, i, got(&b, 0, i) + 3000);
    naive(&b.cx, b.p, &b.s, &b.a, false, RAW_MOMENTS);
    const OracleOptions o = {.stat = STAT_SHIFTED};
    Verdict v;
    assert_int_equal(oracle_check(&b.cx, b.p, &b.s, &b.a, &b.a, &o, &v), ERR_WRONG);
    arena_free(b.cx.a);
}

/* What a plan says of itself sets the bound: the device's own functions, and the depth of its tree. */
static void test_options(void **state) {
    (void)state;
    Bench b = bench(1, 1000);
    const int x = in(&b, "x", TY_F32, "rn");
    out(&b, "e", TY_F32, "rn", op(&b, OP_EXP, x, -1));
    out(&b, "q", TY_F32, "rn", op(&b, OP_DIV, real_const(&b, 1), x));
    out(&b, "s", TY_F32, "r", red(&b, RED_SUM, x));
    ready(&b, FILL_UNIFORM, 1);
    Expect e[MAX_PARAMS], n[MAX_PARAMS], t[MAX_PARAMS];
    const OracleOptions native = {.native_math = true}, tree = {.serial = 10, .joins = 5};
    eval(&b, e);
    assert_int_equal(oracle_eval(&b.cx, b.p, &b.s, &b.a, &native, n), OK);
    assert_int_equal(oracle_eval(&b.cx, b.p, &b.s, &b.a, &tree, t), OK);
    double sum = 0;
    for (int i = 0; i < 1000; i++) {
        assert_true(fabs(n[1].e[i] / e[1].e[i] - 4 / op_info(OP_EXP)->ulp) < 1e-6);
        assert_true(fabs(n[2].e[i] / e[2].e[i] - 4) < 1e-6);
        sum += fabs(got(&b, 0, i));
    }
    assert_true(fabs(e[3].e[0] / (999 * 0x1p-24 * sum) - 1) < 1e-3);
    assert_true(fabs(t[3].e[0] / (15 * 0x1p-24 * sum) - 1) < 1e-3);
    arena_free(b.cx.a);
}

/* A product that is too large for its type is infinite, unless an addition may take it in first. */
static void test_contracted_overflow(void **state) {
    (void)state;
    Bench b = bench(1, 3);
    const int x = in(&b, "x", TY_F32, "rn"), z = in(&b, "z", TY_F32, "rn"), xz = op(&b, OP_MUL, x, z);
    out(&b, "d", TY_F32, "rn", op(&b, OP_SUB, xz, x));
    out(&b, "s", TY_F32, "r", red(&b, RED_SUM, op(&b, OP_MUL, x, x)));
    out(&b, "p", TY_F32, "rn", op(&b, OP_NEG, op(&b, OP_MUL, z, x), -1));
    ready(&b, FILL_UNIFORM, 1);
    put(&b, 0, 0, 0x1.8p127), put(&b, 1, 0, 1.5);
    for (int on = 0; on < 2; on++) {
        const OracleOptions o = {.contract = on};
        Expect e[MAX_PARAMS];
        assert_int_equal(oracle_eval(&b.cx, b.p, &b.s, &b.a, &o, e), OK);
        assert_true(on ? isinf(e[2].e[0]) : e[2].e[0] == 0 && isinf(e[2].f[0])); /* 1.5 x - x is a number */
        assert_true(e[3].e[0] == 0 && isinf(e[3].f[0]));                         /* squares do not come back */
        assert_true(e[4].e[0] == 0 && isinf(e[4].f[0]));
        for (int i = 1; i < 3; i++) assert_true(e[2].e[i] < 1e-6);
    }
    arena_free(b.cx.a);
}

/* ---- inputs ---- */
static void test_fills(void **state) {
    (void)state;
    for (int f = 0; f < FILL_COUNT; f++) {
        Fill back;
        assert_true(fill_find(fill_text((Fill)f), &back) && (int)back == f);
        float x[64 * 40], y[64 * 50];
        Tensor dense = {TY_F32, 2, x, {64, 40}, {40, 1}}, loose = {TY_F32, 2, y, {64, 40}, {50, 1}};
        fill_tensor(&dense, (Fill)f, 5, 0);
        fill_tensor(&loose, (Fill)f, 5, 0);
        int odd_rows = 0;
        bool nan = false, inf = false;
        for (int r = 0; r < 64; r++) {
            bool odd = false;
            assert_memory_equal(x + 40 * r, y + 50 * r, 40 * sizeof(float)); /* strides change nothing */
            for (int j = 0; j < 40; j++) {
                odd |= !isfinite(x[40 * r + j]);
                nan |= isnan(x[40 * r + j]);
                inf |= isinf(x[40 * r + j]) != 0;
            }
            odd_rows += odd;
        }
        assert_int_equal(f == FILL_SPECIAL, nan && inf);
        if (f == FILL_SPECIAL) assert_in_range(odd_rows, 10, 54);
    }
    Fill none;
    assert_false(fill_find("gaussian", &none));
    int64_t k[1000], outside = 0;
    Tensor t = {TY_I64, 1, k, {1000}, {1}};
    fill_tensor(&t, FILL_UNIFORM, 9, 7);
    for (int i = 0; i < 1000; i++) {
        assert_true(k[i] >= -2 && k[i] < 9);
        outside += k[i] < 0 || k[i] >= 7;
    }
    assert_in_range(outside, 10, 200);
}

/* Several threads give what one gives: inputs, values, bounds, and the first of several wrong elements. */
static void test_crew(void **state) {
    (void)state;
    const Crew crew = {&alloc_libc, 5};
    Bench b = bench(37, 8191);
    const int x = in(&b, "x", TY_F32, "rn"), g = in(&b, "g", TY_F32, "n");
    const int centred = op(&b, OP_SUB, op(&b, OP_MUL, x, g), red(&b, RED_MAX, x));
    out(&b, "y", TY_F32, "rn", centred), out(&b, "m", TY_F32, "r", red(&b, RED_SUM, x));
    ready(&b, FILL_NORMAL, 3);
    Expect alone[MAX_PARAMS], many[MAX_PARAMS];
    assert_true(crew_parts(&crew, 37, 37 * 8191) == 5 && crew_parts(&crew, 37, 999) == 1);
    assert_true(crew_parts(&crew, 3, 37 * 8191) == 3 && crew_parts(NULL, 37, 37 * 8191) == 1);
    eval(&b, alone);
    assert_int_equal(oracle_eval_by(&b.cx, &crew, b.p, &b.s, &b.a, &plain, many), OK);
    for (int i = 2; i < 4; i++) {
        assert_int_equal(alone[i].count, many[i].count);
        assert_memory_equal(alone[i].f, many[i].f, sizeof(double) * (size_t)alone[i].count);
        assert_memory_equal(alone[i].e, many[i].e, sizeof(double) * (size_t)alone[i].count);
    }
    Tensor *y = &b.a.t[2], again = b.a.t[0];
    for (int64_t i = 0; i < alone[2].count; i++) put(&b, 2, i, alone[2].f[i]);
    for (int64_t i = 0; i < alone[3].count; i++) put(&b, 3, i, alone[3].f[i]);
    Verdict one, five;
    assert_int_equal(oracle_compare_by(&b.cx, &crew, b.p, &b.s, &b.a, many, &five), OK);
    assert_int_equal(five.checked, 37 * 8192);
    put(&b, 2, 20 * 8191 + 5, 1e6), put(&b, 2, 36 * 8191, 1e6), put(&b, 2, 30 * 8191, (double)NAN);
    Cx cx = {.a = b.cx.a}, other = {.a = b.cx.a};
    assert_int_equal(oracle_compare(&cx, b.p, &b.s, &b.a, many, &one), ERR_WRONG);
    assert_int_equal(oracle_compare_by(&other, &crew, b.p, &b.s, &b.a, many, &five), ERR_WRONG);
    assert_string_equal(cx.first->msg, other.first->msg);
    assert_true(five.bad == 3 && five.at[0] == 20 && five.at[1] == 5 && one.worst == five.worst &&
                one.checked == five.checked);
    cx = (Cx){.a = b.cx.a};
    assert_int_equal(oracle_check_by(&cx, &crew, b.p, &b.s, &b.a, &b.a, &plain, &five), ERR_WRONG);
    assert_string_equal(cx.first->msg, other.first->msg);
    assert_true(five.bad == 3 && five.checked == one.checked);
    again.data = arena_get(b.cx.a, 37 * 8191 * sizeof(float));
    fill_tensor(y, FILL_NORMAL, 9, 0);
    assert_int_equal(fill_tensor_by(&b.cx, &crew, &again, FILL_NORMAL, 9, 0), OK);
    assert_memory_equal(y->data, again.data, 37 * 8191 * sizeof(float));
    Tensor row = {TY_F32, 1, y->data, {37 * 8191}, {1}}; /* one row in parts, too */
    fill_tensor(&row, FILL_CANCEL, 9, 0);
    row.data = again.data;
    assert_int_equal(fill_tensor_by(&b.cx, &crew, &row, FILL_CANCEL, 9, 0), OK);
    assert_memory_equal(y->data, again.data, 37 * 8191 * sizeof(float));
    arena_free(b.cx.a);
}

static bool at_once(void *user) {
    return ++*(int *)user > 0;
}

/* Whoever is asked to end does; several threads may be done before anyone asks. */
static void test_stopped(void **state) {
    (void)state;
    Bench b = bench(4000, 100);
    out(&b, "m", TY_F32, "r", red(&b, RED_SUM, in(&b, "x", TY_F32, "rn")));
    ready(&b, FILL_NORMAL, 3);
    for (int i = 0; i < 6; i++) {
        const Crew crew = {&alloc_libc, i < 3 ? 1 : 5};
        int asked = 0;
        Cx cx = {.a = b.cx.a, .stop = &(Stop){.asked = at_once, .user = &asked}};
        Expect e[MAX_PARAMS];
        Verdict v;
        Err err = i % 3 == 0   ? oracle_eval_by(&cx, &crew, b.p, &b.s, &b.a, &plain, e)
                  : i % 3 == 1 ? oracle_check_by(&cx, &crew, b.p, &b.s, &b.a, &b.a, &plain, &v)
                               : fill_tensor_by(&cx, &crew, &b.a.t[0], FILL_NORMAL, 9, 0);
        assert_true(asked == 1 && (i >= 3 || err == ERR_STOPPED));
    }
    arena_free(b.cx.a);
}

/* A row whose values the machine has no memory for is refused before they are made. */
static void test_row_too_long(void **state) {
    (void)state;
    Bench b = bench(1, 100);
    out(&b, "m", TY_F32, "rn", op(&b, OP_ABS, in(&b, "x", TY_F32, "rn"), -1));
    ready(&b, FILL_NORMAL, 3);
    for (int i = 0; i < MAX_AXES; i++)
        if (b.s.n[i] == 100) b.s.n[i] = (int64_t)1 << 42;
    b.a.t[0].n[1] = b.a.t[1].n[1] = (int64_t)1 << 42;
    assert_int_equal(oracle_check(&b.cx, b.p, &b.s, &b.a, &b.a, &plain, &(Verdict){0}), ERR_MEMORY);
    assert_non_null(strstr(b.cx.first->msg, "more memory than there is"));
    arena_free(b.cx.a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_special_rows),
        cmocka_unit_test(test_log_softmax_offset),
        cmocka_unit_test(test_nan_extremes),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_layernorm_of_one),
        cmocka_unit_test(test_large_mean),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_both_outcomes),
        cmocka_unit_test(test_argmax_sets),
        cmocka_unit_test(test_planted_mistakes),
        cmocka_unit_test(test_small_mistake),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_one_sweep),
        cmocka_unit_test(test_shifted_mistake),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_contracted_overflow),
        cmocka_unit_test(test_crew),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_row_too_long),
        cmocka_unit_test(test_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
