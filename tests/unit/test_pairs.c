/* combine=pair: the maximum and the sum of stat=online joined together. The interpreter against the definition, rows of
 * what is no number among them, the kern's text, the rules of plans, and what the verifier, the audit and the
 * interpreter say of kerns that are broken. */
#include "../diff/match.h"

#include "../../src/audit/audit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char programs[] =
    "kernel soft for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n    e = exp(x - max(x))\n    y = e / sum(e)\n}\n"
    "kernel lse for rows (x: in f32[rows, n], y: out f32[rows]) { y = logsumexp(x) }\n"
    "kernel ce for rows (x: in f32[rows, n], t: in i64[rows], y: out f32[rows]) {\n    m = max(x)\n"
    "    y = log(sum(exp(x - m))) + m - x[rows, t] else 0\n}\n"
    "kernel both for rows (x: in f32[rows, n], y: out f32[rows, n], s: out f32[rows]) {\n    e = exp(x - max(x))\n"
    "    s = sum(x)\n    y = e / sum(e)\n}\n"
    "kernel cols for n (x: in f32[rows, n], y: out f32[rows, n]) {\n    e = exp(x - max(x))\n    y = e / sum(e)\n}\n"
    "kernel norm for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n    c = x - mean(x)\n    y = c * rsqrt(mean(c * "
    "c) + 1)\n}\n";

static bool made(Match *m, const char *kernel, int64_t n, const char *machine, const char *plan, uint64_t seed) {
    Caps caps;
    assert_true(match_read(m, programs, kernel, NULL, 0));
    assert_true(caps_preset(machine, &caps));
    for (int i = 0; i < m->prog->naxes; i++) m->shape.n[i] = m->prog->axis[i].name[0] == 'r' ? 5 : n;
    return match_prog(m, seed, &caps, plan);
}

static const struct {
    const char *kernel;
    int64_t n;
    const char *machine, *plan;
} sound[] = {{"soft", 1000, "h200", "W=128 V=4 cluster=2 hold.x=register"},
             {"soft", 1000, "h200", "W=96 V=2 cluster=16 exchange=bytes"}, /* 3 subgroups, groups without elements */
             {"soft", 37, "h200", "W=32 V=1 P=3 flight=2"},
             {"soft", 37, "h200", "W=160 V=1 P=2"},
             {"soft", 5, "h200", "W=8 V=1 P=4"},
             {"soft", 5, "h200", "W=1 V=1"},
             {"soft", 4096, "h200", "W=1024 V=4 hold.x=shared div=reciprocal"},
             {"soft", 0, "h200", "W=64 V=1 cluster=4"},
             {"soft", 300, "m1max", "W=96 V=2"},
             {"lse", 1000, "h200", "W=64 V=4 cluster=8 flight=2"},
             {"lse", 0, "h200", "W=64 V=1"},
             {"ce", 1000, "h200", "W=256 V=2"},
             {"both", 700, "h200", "W=224 V=1 cluster=4"}};

static void values_are_the_definitions(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(sound); i++)
        for (uint64_t seed = 1; seed < 9; seed++) { /* of each fill twice */
            Match m;
            char plan[256];
            snprintf(plan, sizeof plan, "%s stat=online combine=pair", sound[i].plan);
            bool ok = made(&m, sound[i].kernel, sound[i].n, sound[i].machine, plan, seed) && match_interpret(&m) &&
                      match_sound(&m);
            if (!ok) fail_msg("%s, %s, seed %d: %s", sound[i].kernel, plan, (int)seed, m.why);
            Buf text = buf_new(m.cx.a);
            kern_print(m.kern, &text);
            assert_non_null(strstr(text.s, " = same f32 row "));
            assert_null(strstr(text.s, " = join.max"));
            match_free(&m);
        }
}

/* Rows of -inf, with NaN, with +inf, of one number: what two sweeps give, too. */
static void special_rows(void **state) {
    (void)state;
    static const char *const plans[] = {"W=96 V=1 cluster=2 stat=online combine=pair",
                                        "W=32 V=2 stat=online combine=pair", "W=64 V=1 stat=two-pass"};
    float got[COUNT(plans)][5][300];
    for (int i = 0; i < COUNT(plans); i++) {
        Match m;
        assert_true(made(&m, "soft", 300, "h200", plans[i], 1));
        Slot *slots = match_slots(&m, &m.interp, NULL);
        float *x = m.interp.t[0].data, *y = m.interp.t[1].data;
        const int64_t row = m.interp.t[0].stride[0], each = m.interp.t[0].stride[1];
        for (int r = 0; r < 5; r++)
            for (int64_t e = 0; e < 300; e++)
                x[r * row + e * each] = r == 0               ? -INFINITY
                                        : r == 1 && e == 299 ? NAN
                                        : r == 2 && e == 150 ? INFINITY
                                        : r == 3 && e != 77  ? -INFINITY
                                                             : (float)(e % 7);
        const void *lo[MAX_PARAMS] = {0}, *hi[MAX_PARAMS] = {0};
        for (int p = 0; p < 2; p++) lo[p] = m.interp.t[p].data, hi[p] = (char *)m.interp.t[p].data + m.bytes[p];
        KernRun run;
        assert_int_equal(kern_run(&m.cx, m.kern, slots, 5, lo, hi, &run), OK);
        for (int r = 0; r < 5; r++)
            for (int64_t e = 0; e < 300; e++)
                got[i][r][e] = y[r * m.interp.t[1].stride[0] + e * m.interp.t[1].stride[1]];
        match_free(&m);
    }
    for (int i = 0; i < COUNT(plans); i++)
        for (int e = 0; e < 300; e++) {
            assert_true(isnan(got[i][0][e]) && isnan(got[i][1][e]) && isnan(got[i][2][e]));
            assert_true(got[i][3][e] == (e == 77 ? 1.0f : 0.0f));
            assert_true(fabsf(got[i][4][e] - got[2][4][e]) <= 1e-6f * got[2][4][e]);
        }
}

static void plans_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *machine, *plan;
        Slug slug;
    } rows[] = {{"soft", "h200", "W=64 V=1 combine=pair", S_PLAN_COMBINE_PAIR}, /* two sweeps have no pair */
                {"norm", "h200", "W=64 V=1 combine=pair stat=shifted", S_PLAN_COMBINE_PAIR},
                {"soft", "avx512", "W=64 V=1 combine=pair stat=online", S_PLAN_COMBINE_PAIR},
                {"soft", "pocl", "W=64 V=1 combine=pair stat=online", S_PLAN_COMBINE_PAIR},
                {"cols", "h200", "W=16 V=1 P=16 combine=pair stat=online", S_PLAN_COMBINE_PAIR},
                {"soft", "h200", "W=32 V=1 acc=32 order=fixed combine=pair stat=online", S_PLAN_ACC},
                {"soft", "h200", "W=1024 V=1 order=fixed combine=pair stat=online", S_PLAN_FIXED}};
    for (int i = 0; i < COUNT(rows); i++) {
        Match m;
        assert_false(made(&m, rows[i].kernel, 100, rows[i].machine, rows[i].plan, 1));
        if (m.cx.first->slug != rows[i].slug) fail_msg("%s: %s", rows[i].plan, m.cx.first->msg);
        match_free(&m);
    }
}

static Ins *nth(Kern *k, KOp op, int n) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == op && !n--) return &k->ins[i];
    fail_msg("no such instruction");
    return NULL;
}

static int number(Kern *k, KOp op, int n) {
    return (int)(nth(k, op, n) - k->ins);
}

/* Meets are of the maximum and the sum in turn: within subgroups, over them, over groups. */
static void breaks_are_found(void **state) {
    (void)state;
    for (int i = 0; i < 13; i++) {
        Match m;
        AuditReport report;
        assert_true(made(&m, "soft", 700, "h200", "W=128 V=2 cluster=2 stat=online combine=pair", 1));
        Kern *k = m.kern;
        Cx cx = {.a = m.cx.a};
        Slug want = S_AUDIT_JOIN;
        switch (i) {
        case 0: nth(k, K_PASS, 0)->imm = PASS_SPLITS, want = S_KERN_INDEX; break; /* there is but one */
        case 1: k->plan.W = 48, want = S_KERN_INDEX; break;
        case 2: nth(k, K_PASS, 0)->rank = RANK_ROW, want = S_KERN_RANK; break;
        case 3: nth(k, K_SAME, 0)->rank = RANK_LANE, want = S_KERN_RANK; break;
        case 4: nth(k, K_SAME, 1)->a[0] = number(k, K_SAME, 0), want = S_KERN_RANK; break;
        case 5: nth(k, K_PASS, 0)->ty = TY_F64, want = S_KERN_TYPE; break;
        case 6: nth(k, K_MEET, 0)->lanes = 16; break;  /* half a subgroup */
        case 7: nth(k, K_MEET, 2)->op = OP_MIN; break; /* by another operator at the next level */
        case 8: nth(k, K_PASS, 0)->imm = PASS_GROUPS; break;
        case 9: nth(k, K_PASS, 1)->c.f = 1, want = S_AUDIT_IDENTITY; break;
        case 10: nth(k, K_SAME, 1)->a[0] = number(k, K_MEET, 3); break;    /* groups are left out */
        case 11: nth(k, K_PASS, 2)->a[0] = number(k, K_PASS, 0); break;    /* subgroups are not joined */
        default: nth(k, K_PASS, 3)->a[0] = nth(k, K_MEET, 3)->a[0]; break; /* nor here */
        }
        Err err = kern_verify(&cx, k);
        if (!err) err = audit_kern(&cx, m.pb.prog, &m.pb.shape, &m.pb.caps, true, false, m.pb.strided, k, &report);
        if (!err) fail_msg("break %d is not found", i);
        if (cx.first->slug != want) fail_msg("break %d: %s: %s", i, slug_text(cx.first->slug), cx.first->msg);
        match_free(&m);
    }
}

/* What is said to be alike is compared. */
static void unlike_values(void **state) {
    (void)state;
    Match m;
    assert_true(made(&m, "soft", 700, "h200", "W=128 V=2 cluster=2 stat=online combine=pair", 2));
    nth(m.kern, K_SAME, 1)->a[0] = number(m.kern, K_MEET, 1);
    assert_int_equal(kern_verify(&m.cx, m.kern), OK);
    assert_false(match_interpret(&m));
    assert_int_equal(m.cx.first->slug, S_KERN_UNLIKE);
    match_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_the_definitions), cmocka_unit_test(special_rows),
                                       cmocka_unit_test(plans_are_refused), cmocka_unit_test(breaks_are_found),
                                       cmocka_unit_test(unlike_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
