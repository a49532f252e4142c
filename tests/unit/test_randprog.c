/* The generator of random programs, and the definition on them: bounds hold for plain evaluations. */
#include "../../src/oracle/oracle.h"
#include "../diff/match.h"
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

/* ---- random programs ---- */
static void test_generator(void **state) {
    (void)state;
    bool ops[OP_COUNT] = {false}, reds[RED_COUNT] = {false};
    bool in[TY_COUNT] = {false}, out[TY_COUNT] = {false}, cast[TY_COUNT] = {false}, policy[2] = {false, false};
    int partial = 0, gathers = 0, filled = 0, declared = 0, scalars = 0, many = 0;
    int masks = 0, columns = 0, middles = 0, broadcasts = 0, row_indexes = 0, two_rows = 0;
    for (uint64_t seed = 0; seed < 5000; seed++) {
        uint8_t bytes[RANDPROG_BYTES];
        const size_t n = randprog_bytes(seed, bytes);
        Cx cx = {.a = arena_new(NULL, NULL)};
        Prog *p, *q;
        Shape s, t;
        if (randprog(&cx, bytes, n, &p, &s)) fail_msg("seed %d: %s", (int)seed, cx.first->msg);
        assert_int_equal(randprog(&cx, bytes, n, &q, &t), OK);
        assert_memory_equal(&s, &t, sizeof s);
        assert_int_equal(p->nvals, q->nvals);
        for (int i = 0; i < p->nvals; i++) {
            const Val *v = &p->val[i];
            assert_memory_equal(v->a, q->val[i].a, sizeof v->a);
            assert_int_equal(v->op, q->val[i].op);
            ops[v->op] = true;
            if (v->op == OP_RED) reds[v->red] = true;
            if (v->op == OP_RED && v->axes & ~p->row_axes) partial++;
            if (v->op == OP_LOAD && !val_in_place(p, v)) gathers++, filled += v->fill >= 0;
            if (v->op == OP_IDX && p->axis[v->axis].ext >= 0) declared++;
            if (v->op == OP_SCALAR) scalars++;
            if (v->op == OP_CAST) cast[v->to] = true;
            if (v->op == OP_RED) policy[v->policy == POLICY_ORDERED] = true;
            masks += v->op == OP_WHERE && v->axes & ~p->row_axes && p->val[v->a[0]].axes & ~p->row_axes;
            row_indexes += v->op == OP_IDX && p->axis[v->axis].row;
        }
        for (int i = 0; i < p->nparams; i++) { /* types, and where the axes lie in memory */
            const Param *x = &p->param[i];
            if (x->dir == DIR_IN) in[x->ty] = true;
            if (x->dir == DIR_OUT) out[x->ty] = true;
            if (x->rank < 2) continue;
            columns += p->axis[x->axis[x->rank - 1]].row;
            middles += x->rank > 2 && !p->axis[x->axis[1]].row;
            broadcasts += x->dir == DIR_IN && !p->axis[x->axis[0]].row;
        }
        two_rows += (p->row_axes & (p->row_axes - 1)) != 0;
        many += p->nouts > 1;
        arena_free(cx.a);
    }
    for (int i = 0; i < OP_COUNT; i++)
        if (op_info((Op)i)->form != FORM_X && !ops[i]) fail_msg("no program has %s", op_info((Op)i)->text);
    for (int i = 0; i < RED_COUNT; i++) assert_true(reds[i]);
    for (int t = TY_BOOL; t < TY_COUNT; t++)
        if (!in[t] || !out[t] || !cast[t])
            fail_msg("no program has %s as an input, an output and a cast", ty_text((Ty)t));
    assert_true(policy[0] && policy[1] && masks > 50 && columns > 50 && middles > 50 && broadcasts > 50);
    assert_true(row_indexes > 50 && two_rows > 50);
    assert_true(ops[OP_CAST] && partial > 50 && gathers > 50 && filled > 50 && declared > 50 && scalars > 50 &&
                many > 50);
}

/* The bounds hold for a left fold and for a pairwise tree, of any program on any inputs; and enough of them say
 * something. */
static void test_bounds_hold(void **state) {
    (void)state;
    int64_t bounded = 0, all = 0;
    for (uint64_t seed = 0; seed < 3000 / TEST_SHARE; seed++) {
        uint8_t bytes[RANDPROG_BYTES];
        const size_t n = randprog_bytes(seed, bytes);
        Cx cx = {.a = arena_new(NULL, NULL)};
        Prog *p;
        Shape s = {0};
        Args a;
        Expect e[MAX_PARAMS];
        assert_int_equal(randprog(&cx, bytes, n, &p, &s), OK);
        const Fill fill = (Fill)(seed % FILL_COUNT);
        randargs(&cx, p, &s, fill, seed, seed % 3 == 0, &a);
        assert_int_equal(oracle_eval(&cx, p, &s, &a, &plain, e), OK);
        for (int o = 0; o < p->nouts; o++)
            for (int64_t i = 0; i < e[p->out[o].param].count; i++) {
                const Expect *x = &e[p->out[o].param];
                if (!(x->e[i] >= 0)) fail_msg("seed %d: a bound of %g", (int)seed, x->e[i]);
                bounded += x->e[i] < (double)INFINITY;
                all++;
            }
        for (int pairwise = 0; pairwise < 2; pairwise++) {
            naive(&cx, p, &s, &a, pairwise, NO_MISTAKE);
            Verdict v, w;
            const Err err = oracle_check(&cx, p, &s, &a, &a, &plain, &v);
            if (err) {
                Buf b = buf_new(cx.a);
                prog_print(p, &b);
                fputs(b.s, stderr);
                fail_msg("seed %d on %s, %s: %s", (int)seed, fill_text(fill), pairwise ? "pairwise" : "left fold",
                         cx.first->msg);
            }
            assert_int_equal(oracle_compare(&cx, p, &s, &a, e, &w), OK);
            assert_int_equal(v.checked, w.checked);
        }
        arena_free(cx.a);
    }
    if (bounded * 10 < all * 8) fail_msg("only %lld of %lld elements have a bound", (long long)bounded, (long long)all);
}

static bool has_erf(void *user, const uint8_t *bytes, size_t n) {
    (void)user;
    Cx cx = {.a = arena_new(NULL, NULL)};
    Prog *p;
    Shape s = {0};
    bool found = false;
    if (randprog(&cx, bytes, n, &p, &s) == OK)
        for (int i = 0; i < p->nvals; i++) found |= p->val[i].op == OP_ERF;
    arena_free(cx.a);
    return found;
}

static void test_shrink(void **state) {
    (void)state;
    uint8_t bytes[RANDPROG_BYTES];
    uint64_t seed = 0;
    size_t n = 0;
    do n = randprog_bytes(seed++, bytes);
    while (!(n > 60 && has_erf(NULL, bytes, n)));
    n = randprog_shrink(bytes, n, 2000, has_erf, NULL);
    assert_true(has_erf(NULL, bytes, n));
    Cx cx = {.a = arena_new(NULL, NULL)};
    Prog *p;
    Shape s = {0};
    assert_int_equal(randprog(&cx, bytes, n, &p, &s), OK);
    int ops = 0;
    for (int i = 0; i < p->nvals; i++) ops += op_info(p->val[i].op)->form != FORM_X;
    assert_true(ops <= 2);
    assert_int_equal(s.n[0], 1);
    arena_free(cx.a);
}

/* A program whose every legal plan has a long text is drawn so many times and no more. */
static void test_no_short_text(void **state) {
    (void)state;
    uint8_t bytes[RANDPROG_BYTES];
    const uint64_t seed = 500025002;
    Caps caps;
    assert_true(caps_preset("avx2", &caps));
    Match p;
    assert_true(match_make(&p, "k", bytes, randprog_bytes(seed, bytes), seed, &caps, NULL));
    assert_true(p.unit.bytes > 40000);
    match_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generator),
        cmocka_unit_test(test_bounds_hold),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_no_short_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
