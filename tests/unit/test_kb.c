/* The builder of kerns: what is folded, what is reused and from where, types and ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "../../src/gen/kern.h"

typedef struct Bench { /* a kern under construction with two inputs of each rank */
    Cx cx;
    Kern k;
    Kb b;
    int row, elem, whole;
} Bench;

static int input(Kb *b, Ty ty, Rank rank, int slot) {
    return kb_ins(b, (Ins){.k = K_SLOT, .ty = ty, .rank = rank, .a = {-1, -1, -1}, .imm = slot});
}

/* A function, because making an instruction may move them all. */
static const Ins *at(const Bench *t, int i) {
    return &t->k.ins[i];
}

static int setup(void **state) {
    static Bench t;
    t = (Bench){.cx = {.a = arena_new(&alloc_libc, NULL)}, .k = {.root = -1}};
    t.b = (Kb){.cx = &t.cx, .k = &t.k};
    t.row = input(&t.b, TY_F32, RANK_ROW, 0);
    t.elem = input(&t.b, TY_F32, RANK_ELEM, 1);
    t.whole = input(&t.b, TY_I32, RANK_LANE, 2);
    *state = &t;
    return 0;
}
static int teardown(void **state) {
    arena_free(((Bench *)*state)->cx.a);
    return 0;
}

static void test_constants(void **state) {
    Bench *t = *state;
    int x = kb_const_f(&t->b, TY_F32, 0.1), n = t->k.nins;
    assert_int_equal(t->k.ins[x].rank, RANK_ROW);
    assert_true(t->k.ins[x].c.f == 0.1f);
    assert_int_equal(kb_const_f(&t->b, TY_F32, 0.1), x);
    assert_int_equal(t->k.nins, n);
    assert_int_not_equal(kb_const_f(&t->b, TY_F32, 0.0), kb_const_f(&t->b, TY_F32, -0.0));
    assert_int_equal(kb_const_f(&t->b, TY_F32, (double)NAN), kb_const_f(&t->b, TY_F32, (double)NAN));
    assert_int_not_equal(kb_const_f(&t->b, TY_F64, 1), kb_const_f(&t->b, TY_F32, 1));
    assert_true(at(t, kb_const_i(&t->b, TY_I32, -7))->c.i == -7);
    assert_true(at(t, kb_const_i(&t->b, TY_F32, 3))->c.f == 3.0f);
}

static void test_folding(void **state) {
    Bench *t = *state;
    int two = kb_const_f(&t->b, TY_F32, 2), three = kb_const_f(&t->b, TY_F32, 3);
    const Ins *p = at(t, kb_op(&t->b, OP_FMA, two, three, two));
    assert_int_equal(p->k, K_CONST);
    assert_true(p->c.f == 8.0f);
    p = at(t, kb_op(&t->b, OP_LT, two, three, -1));
    assert_int_equal(p->ty, TY_BOOL);
    assert_true(p->k == K_CONST && p->c.b);
    p = at(t, kb_bits(&t->b, TY_I32, two));
    assert_true(p->k == K_CONST && p->ty == TY_I32 && p->c.i == 0x40000000);
    p = at(t, kb_cast(&t->b, TY_BF16, kb_const_f(&t->b, TY_F32, 1.001)));
    assert_true(p->k == K_CONST && p->ty == TY_F32 && p->c.f == 1.0f);
    /* the value of a special function is the device's */
    assert_int_equal(at(t, kb_op(&t->b, OP_EXP, two, -1, -1))->k, K_OP);
}

static void test_reuse(void **state) {
    Bench *t = *state;
    int s = kb_op(&t->b, OP_ADD, t->row, t->elem, -1);
    assert_int_equal(kb_op(&t->b, OP_ADD, t->row, t->elem, -1), s);
    assert_int_not_equal(kb_op(&t->b, OP_SUB, t->row, t->elem, -1), s);
    int c = kb_cast(&t->b, TY_BF16, s);
    assert_int_equal(kb_cast(&t->b, TY_BF16, s), c);
    assert_int_not_equal(kb_cast(&t->b, TY_F16, s), c);
    assert_int_equal(kb_cast(&t->b, TY_F32, s), s);
    assert_int_equal(kb_bits(&t->b, TY_F32, s), s);
    /* what stands before memo0 is out of reach, and so is what was dropped */
    t->b.memo0 = t->k.nins;
    int again = kb_op(&t->b, OP_ADD, t->row, t->elem, -1);
    assert_true(again >= t->b.memo0);
    t->k.nins--;
    assert_int_equal(kb_op(&t->b, OP_MUL, t->row, t->elem, -1), again);
    assert_int_equal(kb_op(&t->b, OP_ADD, t->row, t->elem, -1), again + 1);
    /* other instructions are never reused */
    Ins get = {.k = K_GET, .ty = TY_F32, .rank = RANK_ELEM, .a = {-1, -1, -1}};
    assert_int_not_equal(kb_ins(&t->b, get), kb_ins(&t->b, get));
}

static void test_ranks(void **state) {
    Bench *t = *state;
    assert_int_equal(at(t, kb_op(&t->b, OP_ADD, t->row, t->elem, -1))->rank, RANK_ELEM);
    assert_int_equal(at(t, kb_op(&t->b, OP_MUL, t->row, kb_const_f(&t->b, TY_F32, 2), -1))->rank, RANK_ROW);
    int lane = kb_cast(&t->b, TY_F32, t->whole);
    assert_int_equal(t->k.ins[lane].rank, RANK_LANE);
    assert_int_equal(at(t, kb_op(&t->b, OP_WHERE, kb_op(&t->b, OP_LT, t->row, lane, -1), t->row, t->row))->rank,
                     RANK_LANE);
    /* operands that do not fit are left to the verifier */
    assert_int_equal(at(t, kb_op(&t->b, OP_BITAND, t->row, t->whole, -1))->ty, TY_NONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_constants, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folding, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reuse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
