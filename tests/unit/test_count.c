/* What a lowered plan's counts say of the time that lanes wait: loads that came early, exponentials where lanes join.
 */
#include "../../src/bench/bench.h"
#include "../../src/lang/lang.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const char programs[] =
    "kernel softmax for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
    "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n"
    "kernel rmsnorm for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n], eps: f32 = 1e-5) {\n"
    "    v = mean(x * x)\n    y = x / sqrt(v + eps) * w\n}\n"
    "kernel argmax for rows (x: in T[rows, n], i: out i64[rows]) {\n    i = argmax(x)\n}\n"
    "kernel gated for rows (x: in T[rows, n], z: in T[rows, n], w: in T[n], y: out T[rows, n]) {\n"
    "    v = mean(x * x)\n    y = x / sqrt(v) * w * z\n}\n";

static Demand counted_at(const char *kernel, const char *text, int64_t n) {
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    assert_non_null(cx.a);
    Caps caps;
    Ast *ast;
    Prog *p;
    Problem pb;
    Plan plan;
    Kern *k;
    Demand d;
    TyBind bind = {"*", TY_F32};
    Shape s = {0};
    assert_true(caps_preset("h200", &caps));
    assert_int_equal(lang_parse(&cx, "count.row", programs, sizeof programs - 1, &ast), OK);
    assert_int_equal(lang_kernel(&cx, ast, kernel, &bind, 1, NULL, 0, &p), OK);
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    s.n[prog_axis(p, "rows")] = 8, s.n[prog_axis(p, "n")] = n;
    assert_int_equal(problem_make(&cx, p, &s, &caps, 0, &pb), OK);
    if (plan_read(&cx, text, &plan) || kern_lower(&cx, &pb, &plan, &k)) fail_msg("%s: %s", text, cx.first->msg);
    kern_count(&cx, k, &d);
    assert_true(d.known);
    arena_free(cx.a);
    return d;
}

/* On an H200, 8 rows of 1024. */
static Demand counted(const char *kernel, const char *text) {
    return counted_at(kernel, text, 1024);
}

/* Accesses of a lane as the text spells them, in those of 16 bytes; and what is written in pieces of a sector. */
static void test_accesses(void **state) {
    (void)state;
    GpuWork g = counted("softmax", "W=64 V=4 hold.x=register hold.e=register").gpu; /* 4 packs read, 4 written */
    assert_true(g.accesses == 8 && g.lines == 8 && g.torn == 0);
    g = counted_at("softmax", "W=64 V=4 hold.x=register hold.e=register", 1025).gpu; /* rows start anywhere */
    assert_true(g.accesses == 34 && g.lines == 34 && g.torn == 3 * 1025 * 4);
    g = counted_at("softmax", "W=64 V=1 hold.x=register hold.e=register", 1025).gpu;
    assert_true(g.accesses == 34 && g.lines == 34. / 4 && g.torn == 0);
    g = counted_at("softmax", "W=64 V=4 hold.x=register hold.e=register", 1026).gpu; /* halves of packs */
    assert_true(g.accesses == 18 && g.lines == 18 && g.torn == 1026 * 4.);
    assert_true(counted("argmax", "W=64 V=4").gpu.turns == 4);
    assert_true(counted("softmax", "W=64 V=4").gpu.turns == 0);
}

/* A sweep that needs no more than what was loaded before lanes met, and of a row what none before it loaded, waits for
 * nothing. */
static void test_early(void **state) {
    (void)state;
    assert_true(counted("rmsnorm", "W=64 V=4 hold.x=register").lane_waits == 2);
    assert_true(counted("rmsnorm", "W=64 V=4 hold.x=register early=on").lane_waits == 1);
    assert_true(counted("rmsnorm", "W=64 V=4 hold.x=register early=free").lane_waits == 2);
    assert_true(counted("rmsnorm", "W=64 V=4 hold.x=reload early=on").lane_waits == 2);
    assert_true(counted("gated", "W=64 V=4 hold.x=register").lane_waits == 2);
    assert_true(counted("gated", "W=64 V=4 hold.x=register early=on").lane_waits == 1);
    assert_true(counted("softmax", "W=64 V=4 hold.x=register").lane_waits == 1);
    assert_true(counted("softmax", "W=64 V=4").lane_waits == 3);
}

/* An exact exponential of each lane's maximum takes twice as long as the hardware's; in sweeps neither is alone. */
static void test_alone(void **state) {
    (void)state;
    const double exact = counted("softmax", "W=64 V=4 stat=online exp=exact").lane_alone;
    const double fast = counted("softmax", "W=64 V=4 stat=online exp=fast").lane_alone;
    assert_true(fast > 0 && exact == 2 * fast);
    assert_true(counted("softmax", "W=64 V=4 exp=exact").lane_alone == 0);
    assert_true(counted("softmax", "W=64 V=4 exp=fast").lane_alone == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_early), cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_accesses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
