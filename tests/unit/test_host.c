/* The host dialect on programs that once went wrong in it or on the way to it, each on the CPU against the interpreter
 * and the definition, and what its stripes and arrays may take of a thread's stack. */
#include "../../src/lang/lang.h"
#include "../diff/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *what, *text, *machine, *plan;
} row[] = {
    {"more registers than 64 meet in a join", "kernel k for rows (x: in f32[rows, n], s: out f32[rows]) { s = sum(x) }",
     "portable", "W=512"},
    {"special functions of f64 are the library's, of constants too",
     "kernel k for rows (x: in f64[rows, n], y: out f64[rows, n], a: f64 = 0.1) {\n"
     "    y = exp(x) + log2(abs(x) + f64(2)) * rsqrt(f64(3)) + erf(x) + sigmoid(x) + tanh(x) + pow(exp(f64(0.1)), "
     "x)\n}",
     "avx2", "W=8"},
    {"bool in memory and in a stripe",
     "kernel k for rows (x: in bool[rows, n], s: out i64[rows], y: out bool[rows, n]) {\n"
     "    s = sum(x)\n    y = x and s > 3\n}",
     "avx512", "W=16 hold.x=register"},
    {"row values made within a sweep: extents of row axes guard a gather",
     "kernel k for rows (x: in f32[rows, n], y: out f32[rows, n]) { y = x[idx(rows) + 1, n] else 0 }", "avx512",
     "W=16"},
    {"prefetch of an input whose place is known in the first sweep only",
     "kernel k for rows (x: in f32[rows, g, n], y: out f32[rows, g, n]) {\n"
     "    y = x / (max(abs(x) over n) + 1)\n}",
     "avx2", "W=8 prefetch=1"},
    {"all of an axis that is looped over, added up into one value of the row",
     "kernel k for rows (x: in f32[rows, g, n], s: out f32[rows]) {\n"
     "    m = max(x over n)\n    s = var(m)\n}",
     "avx2", "W=8"},
    {"what lanes added up for their own elements, used over a further axis",
     "kernel k for rows (x: in f32[rows, g, n], w: in f32[h], y: out f32[rows, n, h]) {\n    y = sum(x over g) * w\n}",
     "avx2", "W=8"},
    {"sweeps of three rows at once: a value of the row that is used two sweeps later",
     "kernel k for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n"
     "    m = max(x)\n    c = x - m\n    y = c - log(sum(exp(c)))\n}",
     "avx512", "W=16 stagger=on prefetch=1"},
    {"sweeps of neighbouring rows at once, in place: a row buffer, several steps at a turn and accumulators",
     "kernel k for rows (x: inout f32[rows, n]) {\n    e = exp(x - max(x))\n    x = e / sum(e)\n}", "avx512",
     "W=16 acc=2 U=4 stagger=on store=stream hold.e=register"},
    {"sweeps of neighbouring rows at once: a statistic about the row's first element",
     "kernel k for rows (x: in bf16[rows, n], w: in f32[n], y: out bf16[rows, n], m: out f32[rows]) {\n"
     "    m = mean(x)\n    c = x - m\n    y = c * rsqrt(mean(c * c) + 1e-5) * w\n}",
     "avx2", "W=8 flight=2 stat=shifted stagger=on"},
    {"sweeps of neighbouring rows at once: many registers, an index that is found and read",
     "kernel k for rows (x: in f32[rows, n], y: out f32[rows, n], i: out i64[rows]) {\n"
     "    i = argmax(x)\n    y = x - x[rows, i]\n}",
     "portable", "W=96 stagger=on"},
    {"a pack longer than the row: a stripe has the slots that are used",
     "kernel k for rows (x: in f32[rows, g, n], s: out f32[rows, n]) { s = sum(x over g) }", "avx2", "W=64 V=16"},
};

static bool have(const char *machine) {
    Isa isa;
    return isa_find(machine, &isa) && cpu_has(isa);
}

static void read_prog(Match *m, const char *text, int64_t n) {
    Ast *ast;
    if (lang_parse(&m->cx, "host.row", text, strlen(text), &ast) ||
        lang_kernel(&m->cx, ast, NULL, NULL, 0, NULL, 0, &m->prog)) {
        Buf b = buf_new(m->cx.a);
        diag_print(&m->cx, text, &b);
        fail_msg("%s", b.s);
    }
    for (int i = 0; i < MAX_AXES; i++) m->shape.n[i] = -1;
    for (int i = 0; i < m->prog->naxes; i++)
        m->shape.n[i] = m->prog->axis[i].row ? 3 : strchr("gh", *m->prog->axis[i].name) ? 4 : n;
}

static void test_programs(void **state) {
    (void)state;
    Compiler cc;
    cc_probe(&alloc_libc, NULL, &cc);
    assert_int_not_equal(cc.family, CC_NONE);
    for (int i = 0; i < COUNT(row); i++) {
        Match m = {.cx = {.a = arena_new(NULL, NULL)}};
        Batch b;
        Caps caps;
        assert_true(caps_preset(row[i].machine, &caps));
        read_prog(&m, row[i].text, 37);
        if (!match_prog(&m, (uint64_t)i, &caps, row[i].plan) || !match_interpret(&m))
            fail_msg("%s: %s", row[i].what, m.why);
        if (have(row[i].machine)) {
            const Unit *u = &m.unit;
            if (!batch_build(&b, &cc, caps.isa, "-O1", &u, 1)) fail_msg("%s: %s", row[i].what, b.why);
            if (!match_compare(&m, batch_fn(&b, u))) fail_msg("%s: %s", row[i].what, m.why);
            batch_free(&b);
        }
        match_free(&m);
    }
}

/* Accumulators and row arrays lie on the stack as held values do: their budget is one. */
static void test_accumulators_are_charged(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t fits, over;
    } big[] = {
        {"kernel k for rows (x: in f32[rows, g, n], s: out f32[rows, n]) { s = sum(x over g) }", 200000, 300000},
        {"kernel k for rows (x: in f32[rows, n, g], s: out f32[rows, n]) { m = max(x over g)\n s = m / sum(m) }",
         200000, 300000},
    };
    for (int i = 0; i < COUNT(big); i++)
        for (int k = 0; k < 2; k++) {
            Match m = {.cx = {.a = arena_new(NULL, NULL)}};
            Caps caps;
            Problem pb;
            Plan plan = plan_default();
            assert_true(caps_preset("avx2", &caps)); /* 1 MiB a row */
            read_prog(&m, big[i].text, k ? big[i].over : big[i].fits);
            assert_int_equal(problem_make(&m.cx, m.prog, &m.shape, &caps, 0, &pb), OK);
            const Err e = plan_check(&m.cx, &pb, &plan, NULL, NULL);
            assert_int_equal(e, k ? ERR_REFUSED : OK);
            if (k) assert_string_equal(slug_text(m.cx.first->slug), "plan.stripe_exceeded");
            match_free(&m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs),
                                       cmocka_unit_test(test_accumulators_are_charged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
