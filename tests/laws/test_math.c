/* The expansions of the special functions against libm, over the whole range of f32, by num_op: what the kern
 * interpreter and, bit for bit, every backend computes. The bound is the ulp column of ops.def. exhaust_math does all
 * 2^32 inputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/math_ref.h"

enum { LOT = 1024 };

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* z[i] = the expansion at x[i], y[i], n <= LOT; instruction by instruction for the whole lot. */
static void eval(Expansion *e, const float *x, const float *y, float *z, int n) {
    static Num v[200][LOT];
    assert_true(e->k.nins <= 200);
    for (int i = 0; i < e->k.nins; i++) {
        const Ins *p = &e->k.ins[i];
        int arity = p->k == K_OP ? op_info(p->op)->arity : 0;
        const Num *a[3] = {v[i], v[i], v[i]}; /* an operand that is not there is not looked at */
        for (int j = 0; j < arity; j++) a[j] = v[p->a[j]];
        Ty t = arity ? e->k.ins[p->a[p->op == OP_WHERE]].ty : TY_NONE;
        for (int l = 0; l < n; l++)
            if (p->k == K_OP)
                v[i][l] = num_op(p->op, t, p->to, a[0][l], a[1][l], a[2][l]);
            else if (p->k == K_CONST)
                v[i][l] = p->c;
            else
                v[i][l] = (Num){0}, v[i][l].f = p->imm ? y[l] : x[l];
    }
    for (int l = 0; l < n; l++) z[l] = v[e->result][l].f;
}

static float eval1(Expansion *e, float x, float y) {
    float z;
    eval(e, &x, &y, &z, 1);
    return z;
}

typedef struct Worst {
    double ulp;
    float x, y, z;
    int64_t n;
} Worst;

static void judge(Expansion *e, const float *x, const float *y, int n, Worst *w) {
    static float z[LOT];
    eval(e, x, y, z, n);
    w->n += n;
    for (int l = 0; l < n; l++) {
        double off = ulp_off(z[l], math_ref(e->op, x[l], y[l]));
        if (off > w->ulp) w->ulp = off, w->x = x[l], w->y = y[l], w->z = z[l];
    }
}

static void report(const Expansion *e, const Worst *w) {
    const OpInfo *o = op_info(e->op);
    const double most = e->k.plan.exp == EXP_FAST ? 2 : o->ulp;
    char text[256];
    snprintf(text, sizeof text, "%s: %d instructions, %lld inputs, worst %.3f ulp of %.1f at %a, %a: %a", o->text,
             expansion_ops(e), (long long)w->n, w->ulp, most, (double)w->x, (double)w->y, (double)w->z);
    print_message("%s\n", text);
    if (!(w->ulp <= most)) fail_msg("%s", text);
}

static const float specials[] = {
    0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1.fffffcp-127f, -0x1.fffffcp-127f, 0x1p-126f, -0x1p-126f, 0.5f, -0.5f,
    0x1.fffffep-1f, -0x1.fffffep-1f, 1, -1, 0x1.000002p+0f, -0x1.000002p+0f, 1.5f, -1.5f, 2, -2, 2.5f, -2.5f, 3, -3,
    88.72283f, 88.72284f, -87.33655f, -103.97f, -103.98f, 127.99999f, 128, -149, -150, -150.1f, 0x1.fffffep+22f,
    -0x1.fffffep+22f, 0x1.fffffep+23f, -0x1.fffffep+23f, 0x1p24f, -0x1p24f, 0x1.fffffep+127f, -0x1.fffffep+127f,
    INFINITY, -INFINITY, NAN, -1e30f, -1000, 1e30f,
    /* the worst inputs that exhaust_math found, one a function */
    -0x1.765026p+2f, -0x1.f9fc6ap+6f, 0x1.90f2d8p+0f, 0x1.66a59ap+0f, 0x1.429024p-1f, 0x1.103812p+0f, -0x1.196d7p+0f,
    0x1.019566p-126f, 0x1.4fac5cp+2f, /* of exp=fast */
};

/* Every sign and exponent with 4,096 mantissas: both ends and seeded ones between. */
static void check_range_as(Op op, int exp) {
    Expansion e;
    expansion_make(&e, op, exp);
    Worst w = {.ulp = 0};
    Rng rng = {op};
    static float x[LOT], y[LOT];
    for (uint32_t head = 0; head < 512; head++)
        for (int lot = 0; lot < 4; lot++) {
            for (int l = 0; l < LOT; l++) {
                uint32_t low = lot == 0 && l < 2 ? (uint32_t)l * 0x7FFFFF : (uint32_t)rng_u64(&rng) & 0x7FFFFF;
                x[l] = math_f32(head << 23 | low);
            }
            judge(&e, x, y, LOT, &w);
        }
    judge(&e, specials, y, COUNT(specials), &w);
    report(&e, &w);
    expansion_free(&e);
}
static void check_range(Op op) {
    check_range_as(op, EXP_EXACT);
}
static void test_exp(void **s) {
    (void)s, check_range(OP_EXP);
}
static void test_fast_exp(void **s) {
    (void)s, check_range_as(OP_EXP, EXP_FAST);
}
static void test_exp2(void **s) {
    (void)s, check_range(OP_EXP2);
}
static void test_log(void **s) {
    (void)s, check_range(OP_LOG);
}
static void test_log2(void **s) {
    (void)s, check_range(OP_LOG2);
}
static void test_tanh(void **s) {
    (void)s, check_range(OP_TANH);
}
static void test_erf(void **s) {
    (void)s, check_range(OP_ERF);
}
static void test_sigmoid(void **s) {
    (void)s, check_range(OP_SIGMOID);
}
static void test_rsqrt(void **s) {
    (void)s, check_range(OP_RSQRT);
}

static void test_pow(void **s) {
    (void)s;
    Expansion e;
    expansion_make(&e, OP_POW, EXP_EXACT);
    Worst w = {.ulp = 0};
    Rng rng = {11};
    static float x[LOT], y[LOT];
    for (int lot = 0; lot < 2000; lot++) {
        for (int l = 0; l < LOT; l++) math_pair(&rng, &x[l], &y[l]);
        judge(&e, x, y, LOT, &w);
    }
    for (int i = 0; i < COUNT(specials); i++) {
        for (int l = 0; l < COUNT(specials); l++) x[l] = specials[i];
        judge(&e, x, specials, COUNT(specials), &w);
    }
    report(&e, &w);
    expansion_free(&e);
}

/* Values that are exact, or that C's Annex F names. */
static void test_exact(void **s) {
    (void)s;
    static const float inf = INFINITY;
    static const struct {
        Op op;
        float x, y, want;
    } t[] = {
        {OP_EXP, -inf, 0, 0.0f},
        {OP_EXP, inf, 0, INFINITY},
        {OP_EXP, 0, 0, 1},
        {OP_EXP, -0.0f, 0, 1},
        {OP_EXP, -90, 0, 8.19401e-40f},
        {OP_EXP, -103, 0, 1.4e-45f},
        {OP_EXP, -104, 0, 0},
        {OP_EXP, -1e30f, 0, 0},
        {OP_EXP, 89, 0, INFINITY},
        {OP_EXP2, -149, 0, 0x1p-149f},
        {OP_EXP2, 127, 0, 0x1p127f},
        {OP_EXP2, -inf, 0, 0},
        {OP_EXP2, 128, 0, INFINITY},
        {OP_LOG, 0, 0, -INFINITY},
        {OP_LOG, -0.0f, 0, -INFINITY},
        {OP_LOG, 1, 0, 0},
        {OP_LOG, -1, 0, NAN},
        {OP_LOG, inf, 0, INFINITY},
        {OP_LOG, -inf, 0, NAN},
        {OP_LOG, -0x1p-149f, 0, NAN},
        {OP_LOG, 0x1p-149f, 0, -0x1.9d1dap+6f},
        {OP_LOG2, 0x1p-149f, 0, -149},
        {OP_LOG2, 0x1p127f, 0, 127},
        {OP_LOG2, 1, 0, 0},
        {OP_LOG2, 0, 0, -INFINITY},
        {OP_TANH, inf, 0, 1},
        {OP_TANH, -inf, 0, -1},
        {OP_TANH, -0.0f, 0, -0.0f},
        {OP_TANH, 0x1p-149f, 0, 0x1p-149f},
        {OP_TANH, -0x1p-30f, 0, -0x1p-30f},
        {OP_ERF, inf, 0, 1},
        {OP_ERF, -inf, 0, -1},
        {OP_ERF, -0.0f, 0, -0.0f},
        {OP_SIGMOID, -inf, 0, 0},
        {OP_SIGMOID, inf, 0, 1},
        {OP_SIGMOID, 0, 0, 0.5f},
        {OP_SIGMOID, -90, 0, 8.19401e-40f},
        {OP_RSQRT, 0, 0, INFINITY},
        {OP_RSQRT, -0.0f, 0, -INFINITY},
        {OP_RSQRT, inf, 0, 0},
        {OP_RSQRT, -1, 0, NAN},
        {OP_RSQRT, 4, 0, 0.5f},
        {OP_POW, NAN, 0, 1},
        {OP_POW, 1, NAN, 1},
        {OP_POW, -1, inf, 1},
        {OP_POW, -1, -inf, 1},
        {OP_POW, -8, 3, -512},
        {OP_POW, -8, 0.5f, NAN},
        {OP_POW, -0.0f, 3, -0.0f},
        {OP_POW, -0.0f, -3, -INFINITY},
        {OP_POW, -0.0f, 2.5f, 0},
        {OP_POW, -inf, -3, -0.0f},
        {OP_POW, -inf, 2, INFINITY},
        {OP_POW, -inf, 2.5f, INFINITY},
        {OP_POW, 0.5f, inf, 0},
        {OP_POW, 0.5f, -inf, INFINITY},
        {OP_POW, 2, -149, 0x1p-149f},
        {OP_POW, 3, 13, 1594323},
        {OP_POW, NAN, 1, NAN},
        {OP_POW, 2, NAN, NAN},
        {OP_POW, -2, 0x1p24f, INFINITY},
        {OP_POW, inf, 0, 1},
        {OP_POW, 0, 0, 1},
    };
    for (int i = 0; i < COUNT(t); i++) {
        Expansion e;
        expansion_make(&e, t[i].op, EXP_EXACT);
        float z = eval1(&e, t[i].x, t[i].y);
        bool right = isnan(t[i].want) ? isnan(z) : bits_of(z) == bits_of(t[i].want);
        if (!right)
            fail_msg("%s(%a, %a) is %a, not %a", op_info(t[i].op)->text, (double)t[i].x, (double)t[i].y, (double)z,
                     (double)t[i].want);
        if (!isnan(eval1(&e, NAN, 2))) fail_msg("%s hides a NaN", op_info(t[i].op)->text);
        expansion_free(&e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact), cmocka_unit_test(test_exp), cmocka_unit_test(test_fast_exp),
        cmocka_unit_test(test_exp2),  cmocka_unit_test(test_log), cmocka_unit_test(test_log2),
        cmocka_unit_test(test_tanh),  cmocka_unit_test(test_erf), cmocka_unit_test(test_sigmoid),
        cmocka_unit_test(test_rsqrt), cmocka_unit_test(test_pow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
