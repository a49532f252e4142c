/* The Metal dialect as text: what it says of each plan, and what it refuses. tests/metal runs what it emits. */
#include "../diff/library.h"
#include "../diff/match.h"

#include "../../src/lang/lang.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A kernel of the library with 4096 rows of 4096 for an M1 Max. */
static Err emit(Cx *cx, const char *kernel, const char *text, Unit *u) {
    LibKernel *lib;
    Caps caps;
    Problem pb;
    Plan plan;
    Kern *k;
    int n = library_read(cx, TY_BF16, &lib), at = 0;
    while (at < n && !str_eq(lib[at].name, kernel)) at++;
    assert_true(at < n && caps_preset("m1max", &caps));
    Shape s = library_shape(lib[at].prog, 4096, 4096);
    assert_int_equal(problem_make(cx, lib[at].prog, &s, &caps, 0, &pb), OK);
    assert_int_equal(plan_read(cx, text, &plan), OK);
    if (kern_lower(cx, &pb, &plan, &k)) fail_msg("%s: %s", text, cx->first->msg);
    return unit_emit(cx, &pb, k, u);
}

static void test_text(void **state) {
    (void)state;
    static const struct {
        const char *plan, *has, *lacks;
    } rows[] = {
        {"W=256 V=8", "device const uint4 *)p", "live"},
        {"W=256 V=8", "threadgroup_barrier(mem_flags::mem_threadgroup)", "__sync"},
        {"W=32 V=8 P=4", "const b1 live", "threadgroup_barrier"},
        {"W=64 V=4", "[[kernel, max_total_threads_per_threadgroup(64)]]", "double"},
        {"W=64 V=4", "#pragma METAL fp math_mode(safe)", "0ll"},
        {"W=64 V=4", "#pragma METAL fp contract(off)", "everyone"},
        {"W=64 V=4", "constant slots &a [[buffer(3)]]", "buffer(4)"},
        {"W=32 V=4", "p0 [[buffer(0)]]", "[[threadgroup(0)]]"},
        {"W=256 V=8 hold.x=shared", "sts16(sh0 + ", "s0["},
        {"W=256 V=8 early=on hold.x=register", "u32 q", "live"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Unit u;
        assert_int_equal(emit(&cx, "rmsnorm", rows[i].plan, &u), OK);
        assert_int_equal(u.dialect, DIALECT_METAL);
        if (!strstr(u.text, rows[i].has) || strstr(u.text, rows[i].lacks)) fail_msg("%s:\n%s", rows[i].plan, u.text);
        arena_free(cx.a);
    }
}

/* On-chip memory is the exchange of joins and what is held there. */
static void test_shared_bytes(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(NULL, NULL)};
    Unit u;
    assert_int_equal(emit(&cx, "softmax", "W=32 V=8", &u), OK);
    assert_int_equal(u.shared_bytes, 0);
    assert_int_equal(emit(&cx, "softmax", "W=256 V=8", &u), OK);
    assert_int_equal(u.shared_bytes, 2 * 8 * 8);
    assert_int_equal(emit(&cx, "softmax", "W=256 V=8 hold.x=shared", &u), OK);
    assert_int_equal(u.shared_bytes, 2 * 8 * 8 + 4096 * 2);
    arena_free(cx.a);
}

/* A launch binds 31 buffers, one of which has the arguments that are no tensors. */
static void test_buffers(void **state) {
    (void)state;
    for (int n = 30; n <= 31; n++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Buf b = buf_new(cx.a);
        Ast *ast;
        Prog *p;
        Problem pb;
        Caps caps;
        Kern *k;
        Unit u;
        Plan plan = plan_default();
        buf_str(&b, "kernel k for rows (y: out f32[rows, n]");
        for (int i = 1; i < n; i++) buf_fmt(&b, ", x%d: in f32[rows, n]", i);
        buf_str(&b, ") {\n    y = x1");
        for (int i = 2; i < n; i++) buf_fmt(&b, " + x%d", i);
        buf_str(&b, "\n}\n");
        assert_int_equal(lang_parse(&cx, "k", b.s, b.n, &ast), OK);
        assert_int_equal(lang_kernel(&cx, ast, "k", NULL, 0, NULL, 0, &p), OK);
        Shape s = library_shape(p, 4, 64);
        caps_preset("m1max", &caps);
        plan.W = 32, plan.V = 1;
        assert_int_equal(problem_make(&cx, p, &s, &caps, 0, &pb), OK);
        assert_int_equal(kern_lower(&cx, &pb, &plan, &k), OK);
        Err err = unit_emit(&cx, &pb, k, &u);
        assert_int_equal(err, n == 30 ? OK : ERR_REFUSED);
        if (err) assert_int_equal(cx.first->slug, S_EMIT_BUFFERS);
        arena_free(cx.a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_shared_bytes),
        cmocka_unit_test(test_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
