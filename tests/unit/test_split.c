/* Rows split over groups that meet in device memory: the interpreter against the definition, the order of additions,
 * the kern's text, the rules of plans, and what the verifier says of kerns that are broken. */
#include "../diff/match.h"

#include "../../src/audit/audit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char programs[] =
    "kernel sums for rows (x: in f32[rows, n], s: out f32[rows], q: out f32[rows]) {\n    s = sum(x)\n"
    "    q = norm2(x) + max(x)\n}\n"
    "kernel places for rows (x: in f32[rows, n], i: out i64[rows], v: out f32[rows]) {\n    i = argmax(x)\n"
    "    v = x[rows, argmin(x)] else 0\n}\n"
    "kernel variance for rows (x: in f32[rows, n], v: out f32[rows]) { v = var(x) }\n"
    "kernel ce for rows (x: in f32[rows, n], t: in i64[rows], y: out f32[rows]) {\n    m = max(x)\n"
    "    y = log(sum(exp(x - m))) + m - x[rows, t] else 0\n}\n"
    "kernel cols for n (x: in f32[rows, n], s: out f32[n]) { s = sum(x) }\n"
    "kernel copies for rows (x: in f32[rows, n], y: out f32[rows, n], s: out f32[rows]) {\n    y = x + 1\n    s = "
    "sum(x)\n}\n"
    "kernel soft for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n    e = exp(x - max(x))\n    y = e / sum(e)\n}\n"
    "kernel parts for rows (x: in f32[rows, n], s: out f32[rows]) { s = sum(x) @ordered }\n"
    "kernel inner for rows (x: in f32[rows, g, n], s: out f32[rows, g]) { s = sum(x over n) }\n";

static bool made(Match *m, const char *kernel, int64_t n, const char *machine, const char *plan, uint64_t seed) {
    Caps caps;
    assert_true(match_read(m, programs, kernel, NULL, 0));
    assert_true(caps_preset(machine, &caps));
    for (int i = 0; i < m->prog->naxes; i++) {
        const bool row = m->prog->row_axes >> i & 1;
        m->shape.n[i] = row ? 5 : m->prog->axis[i].name[0] == 'g' ? 3 : n;
    }
    return match_prog(m, seed, &caps, plan);
}

static void values_are_the_definitions(void **state) {
    (void)state;
    static const struct {
        const char *kernel;
        int64_t n;
        const char *plan;
    } rows[] = {{"sums", 1000, "W=32 V=4 split=4"},
                {"sums", 1000, "W=96 V=1 P=2 split=2 acc=2 flight=2"},
                {"sums", 0, "W=64 V=1 split=64"},
                {"sums", 37, "W=1 V=1 split=64"}, /* splits without elements */
                {"sums", 37, "W=8 V=2 P=4 split=2"},
                {"places", 1000, "W=64 V=2 split=8"},
                {"places", 300, "W=8 V=1 P=16 split=16"},
                {"variance", 1000, "W=128 V=4 split=2 stat=shifted acc=2"},
                {"ce", 1000, "W=32 V=4 split=32 stat=online combine=pair"},
                {"ce", 1000, "W=224 V=1 split=2 stat=online combine=pair flight=4"},
                {"cols", 700, "W=32 V=1 P=4 split=4 flight=8"},
                {"cols", 700, "W=8 V=1 P=8 split=16"},
                {"copies", 700, "W=32 V=2 split=4"}};
    for (int i = 0; i < COUNT(rows); i++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            Match m;
            bool ok = made(&m, rows[i].kernel, rows[i].n, "h200", rows[i].plan, seed) && match_interpret(&m) &&
                      match_sound(&m);
            if (!ok) fail_msg("%s, %s, seed %d: %s", rows[i].kernel, rows[i].plan, (int)seed, m.why);
            match_free(&m);
        }
}

/* The tree over splits is that over the groups of a cluster: the same bits. */
static void as_a_cluster_adds(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        Match m[2];
        assert_true(made(&m[0], "sums", 1000, "h200", "W=64 V=2 split=4", seed) && match_interpret(&m[0]));
        assert_true(made(&m[1], "sums", 1000, "h200", "W=64 V=2 cluster=4", seed) && match_interpret(&m[1]));
        for (int p = 1; p < 3; p++)
            assert_int_equal(
                same_bits(TY_F32, m[0].interp.t[p].data, m[1].interp.t[p].data, (int64_t)m[0].bytes[p] / 4), -1);
        match_free(&m[0]);
        match_free(&m[1]);
    }
}

static void plans_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *machine, *plan;
        Slug slug;
    } rows[] = {{"soft", "h200", "W=32 V=1 split=4", S_PLAN_SPLIT}, /* elements wait for the sum */
                {"soft", "h200", "W=32 V=1 split=4 stat=online combine=pair", S_PLAN_SPLIT},
                {"ce", "h200", "W=32 V=1 split=4", S_PLAN_SPLIT},                           /* lanes meet twice */
                {"ce", "h200", "W=32 V=1 split=4 stat=online", S_PLAN_SPLIT},               /* still */
                {"ce", "h200", "W=32 V=1 split=64 stat=online combine=pair", S_PLAN_SPLIT}, /* more than a subgroup */
                {"ce", "h200", "W=32 V=1 P=2 split=4 stat=online combine=pair", S_PLAN_SPLIT},
                {"variance", "h200", "W=32 V=1 split=4 stat=welford", S_PLAN_SPLIT},
                {"variance", "h200", "W=32 V=1 split=4", S_PLAN_SPLIT},
                {"sums", "h200", "W=32 V=1 split=4 cluster=2", S_PLAN_SPLIT},
                {"sums", "h200", "W=32 V=1 split=4 fuse=off", S_PLAN_SPLIT},
                {"sums", "h200", "W=16 V=1 split=2 combine=outer", S_PLAN_SPLIT},
                {"inner", "h200", "W=32 V=1 split=4", S_PLAN_SPLIT},
                {"sums", "h200", "W=1 V=1 split=2 order=serial", S_PLAN_ORDER},
                {"parts", "h200", "W=1 V=1 split=2", S_PLAN_ORDER},
                {"sums", "h200", "W=32 V=1 acc=16 split=2 order=fixed", S_PLAN_FIXED},
                {"sums", "avx512", "W=16 V=1 split=2", S_PLAN_MACHINE},
                {"sums", "m1max", "W=32 V=1 split=2", S_PLAN_MACHINE},
                {"sums", "opencl", "W=32 V=1 split=2", S_PLAN_MACHINE}};
    for (int i = 0; i < COUNT(rows); i++) {
        Match m;
        if (made(&m, rows[i].kernel, 100, rows[i].machine, rows[i].plan, 1)) fail_msg("%s: legal", rows[i].plan);
        if (m.cx.first->slug != rows[i].slug) fail_msg("%s %s: %s", rows[i].kernel, rows[i].plan, m.cx.first->msg);
        match_free(&m);
    }
}

/* Kerns that a cluster can run, and splits cannot. */
static void breaks_are_found(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *plan;
        int cluster; /* that the kern's plan is given with split */
        Slug slug;
    } rows[] = {{"soft", "W=32 V=1 cluster=2", 1, S_KERN_SPLIT},
                {"soft", "W=32 V=1 cluster=2 stat=online", 1, S_KERN_SPLIT}, /* the sum's meeting after the maximum's */
                {"inner", "W=32 V=1 cluster=2", 1, S_KERN_SPLIT},            /* in a loop */
                {"sums", "W=32 V=1 cluster=2", 2, S_KERN_PLAN}};
    for (int i = 0; i < COUNT(rows); i++) {
        Match m;
        assert_true(made(&m, rows[i].kernel, 100, "h200", rows[i].plan, 1));
        Cx cx = {.a = m.cx.a};
        m.kern->plan.cluster = rows[i].cluster, m.kern->plan.split = 2;
        assert_int_not_equal(kern_verify(&cx, m.kern), OK);
        if (cx.first->slug != rows[i].slug) fail_msg("%s: %s", rows[i].kernel, cx.first->msg);
        match_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_the_definitions),
                                       cmocka_unit_test(as_a_cluster_adds), cmocka_unit_test(plans_are_refused),
                                       cmocka_unit_test(breaks_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
