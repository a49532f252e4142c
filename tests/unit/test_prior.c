/* What the system that came before asserted of its input reuse, on programs of ours: stripes, counted accesses, results
 * of 22 configurations on the interpreter and on the CPU, the price of holding, and each of its rejections by slug. Its
 * structure is fuse=off: every materialised tile, reduction and output a sweep of its own, budgets by the sum of all
 * stripes. */
#include "../../src/bench/bench.h"
#include "../../src/cost/cost.h"
#include "../../src/lang/lang.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char programs[] =
    "kernel softmax for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
    "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n"
    "kernel rmsnorm for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n], eps: f32 = 1e-5) {\n"
    "    v = mean(x * x)\n    y = x / sqrt(v + eps) * w\n}\n"
    "kernel layernorm for rows (x: in T[rows, n], g: in T[n], b: in T[n], y: out T[rows, n], eps: f32 = 1e-5) {\n"
    "    c = x - mean(x)\n    v = mean(c * c)\n    y = c / sqrt(v + eps) * g + b\n}\n"
    "kernel padded for rows (x: in T[rows, n], s: out T[rows]) {\n"
    "    axis p = 260\n    xp = x[rows, p] else 0\n    m = max(xp)\n    s = sum(exp(xp - m))\n}\n"
    "kernel squares for rows (x: in T[rows, n], s: out T[rows]) {\n    s = sum(x * x)\n}\n"
    "kernel picked for rows (x: in T[rows, n], t: in i64[rows, n], y: out T[rows, n]) {\n"
    "    m = max(x[rows, t])\n    y = exp(x[rows, t] - m)\n}\n";

enum { ROWS = 5 };

typedef struct Fix {
    Cx cx;
    Problem pb;
} Fix;

static void complain(Cx *cx) {
    Buf b = buf_new(cx->a);
    diag_print(cx, programs, &b);
    fail_msg("%s", b.s ? b.s : "no diagnostic");
}

static void ok(Fix *f, Err e) {
    if (e) complain(&f->cx);
}

static void fix(Fix *f, const char *kernel, const Caps *caps, int64_t n) {
    *f = (Fix){.cx = {.a = arena_new(&alloc_libc, NULL)}};
    assert_non_null(f->cx.a);
    Ast *ast;
    Prog *p;
    TyBind bind = {"*", TY_F32};
    ok(f, lang_parse(&f->cx, "prior.row", programs, sizeof programs - 1, &ast));
    ok(f, lang_kernel(&f->cx, ast, kernel, &bind, 1, NULL, 0, &p));
    Shape s = {0};
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    s.n[prog_axis(p, "rows")] = ROWS;
    s.n[prog_axis(p, "n")] = n;
    ok(f, problem_make(&f->cx, p, &s, caps, 0, &f->pb));
    f->pb.summed_budget = true;
}

static void done(Fix *f) {
    arena_free(f->cx.a);
}

static Caps simd_machine(int budget) { /* the prior system's: subgroups of 32, so many slots a lane */
    Caps c;
    assert_true(caps_preset("m1max", &c));
    c.stripe_slots = budget;
    return c;
}

static Kern *lowered(Fix *f, const char *text, Plan *plan) {
    Kern *k;
    ok(f, plan_read(&f->cx, text, plan));
    ok(f, kern_lower(&f->cx, &f->pb, plan, &k));
    return k;
}

static Demand counted(Fix *f, const Kern *k) {
    Demand d;
    kern_count(&f->cx, k, &d);
    assert_true(d.known);
    return d;
}

static void refused(Fix *f, const char *text, const char *slug, const char *says) {
    Plan p;
    ok(f, plan_read(&f->cx, text, &p));
    assert_int_equal(plan_check(&f->cx, &f->pb, &p, NULL, NULL), ERR_REFUSED);
    assert_string_equal(slug_text(f->cx.first->slug), slug);
    if (!strstr(f->cx.first->msg, says)) fail_msg("'%s' does not say '%s'", f->cx.first->msg, says);
}

/* ---- results ---- */

/* ((i * seed + 17) mod 127 - 63) / 64, as the prior system's inputs */
static void fill(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 5 + 17) % 127 - 63) / 64;
}

/* Every output is within the definition's bound of an FP64 softmax that knows no maximum. */
static void check_softmax(Fix *f, const Plan *plan, const float *x, const float *y, int64_t n) {
    const OracleOptions o = bed_bounds(&f->pb, plan);
    Args in = {0};
    in.t[0] = (Tensor){.ty = TY_F32,
                       .rank = 2,
                       .data = arena_dup(f->cx.a, x, sizeof *x * (size_t)(ROWS * n)),
                       .n = {ROWS, n},
                       .stride = {n, 1}};
    in.t[1] = in.t[0];
    in.t[1].data = arena_dup(f->cx.a, y, sizeof *y * (size_t)(ROWS * n));
    Expect e[MAX_PARAMS];
    ok(f, oracle_eval(&f->cx, f->pb.source, &f->pb.shape, &in, &o, e));
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += exp((double)x[r * n + i]);
        for (int64_t i = 0; i < n; i++) {
            const double want = exp((double)x[r * n + i]) / sum, bound = e[1].e[r * n + i];
            if (!(fabs((double)y[r * n + i] - want) <= bound)) /* also a NaN */
                fail_msg("N=%lld row %d: %.9g, not %.9g within %.3g", (long long)n, r, (double)y[r * n + i], want,
                         bound);
        }
    }
}

static void run_softmax(Fix *f, const Kern *k, float *x, float *y, int64_t n) {
    Slot s[16] = {{0}};
    s[k->abi.ptr[0]].p = x, s[k->abi.ptr[1]].p = y;
    s[k->abi.row[0]].i = ROWS;
    for (int q = 0; q < 2; q++) s[k->abi.stride[q][0]].i = n, s[k->abi.stride[q][1]].i = 1;
    const void *lo[] = {x, y}, *hi[] = {x + ROWS * n, y + ROWS * n};
    KernRun run;
    ok(f, kern_run(&f->cx, k, s, ROWS, lo, hi, &run));
}

/* Rows packed three to a group (the last group has two), or one wide row to a group. */
static const char *plan_text(Fix *f, int64_t n, int V, bool hold, bool fuse) {
    return arena_printf(f->cx.a, "W=%d P=%d V=%d U=3 fuse=%s hold.x=%s hold.e=register", n > 257 ? 96 : 32,
                        n > 257 ? 1 : 3, V, fuse ? "on" : "off", hold ? "register" : "reload");
}

static const int64_t lengths[] = {1, 31, 33, 257, 4103};

static void test_softmax_interpreted(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(lengths); i++)
        for (int c = 0; c < 4; c++) {
            const int64_t n = lengths[i];
            const int V = c & 1 ? 4 : 1, hold = c >> 1;
            const Caps caps = simd_machine(n > 257 ? 128 : 64);
            Fix f;
            Plan plan;
            fix(&f, "softmax", &caps, n);
            const Kern *k = lowered(&f, plan_text(&f, n, V, hold, false), &plan);
            const Demand d = counted(&f, k);
            const double slots = (double)map_slots(n, plan.W, V);
            assert_true(d.stripe_slots_sum == slots * (hold ? 2 : 1));
            assert_true(d.row.global_read == (double)n * 4 * (hold ? 1 : 2));
            assert_true(d.lane.global_read == slots * 4 * (hold ? 1 : 2));
            assert_true(d.row.global_write == (double)n * 4 && d.lane.global_write == slots * 4);
            assert_true(d.first_read == (double)n * 4);
            float *x = NEWN(f.cx.a, float, ROWS *n), *y = NEWN(f.cx.a, float, ROWS *n);
            fill(x, ROWS * n);
            run_softmax(&f, k, x, y, n);
            check_softmax(&f, &plan, x, y, n);
            done(&f);
        }
}

static void test_softmax_on_cpu(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(lengths); i++)
        for (int c = 0; c < 4; c++) {
            const int64_t n = lengths[i];
            const int V = c & 1 ? 4 : 1, hold = c >> 1;
            Cx cx = {.a = arena_new(&alloc_libc, NULL)};
            Rt *rt;
            Module *m;
            Unit u;
            Fix f;
            Plan plan;
            if (rt_open(&cx, &(RtOptions){.al = &alloc_libc, .threads = 2}, &rt)) complain(&cx);
            Caps caps = *dev_caps(rt_device(rt, 0));
            caps.row_buffer_bytes = 0, caps.stripe_slots = n > 257 ? 128 : 64; /* the prior rule here too */
            fix(&f, "softmax", &caps, n);
            const Kern *k = lowered(&f, plan_text(&f, n, V, hold, false), &plan);
            ok(&f, unit_emit(&f.cx, &f.pb, k, &u));
            ok(&f, mod_build(&f.cx, rt_device(rt, 0), &u, &m));
            float *x = NEWN(f.cx.a, float, ROWS *n), *y = NEWN(f.cx.a, float, ROWS *n),
                  *z = NEWN(f.cx.a, float, ROWS *n);
            fill(x, ROWS * n);
            run_softmax(&f, k, x, y, n);
            Slot s[16] = {{0}};
            s[u.abi.ptr[0]].p = x, s[u.abi.ptr[1]].p = z;
            s[u.abi.row[0]].i = ROWS;
            for (int q = 0; q < 2; q++) s[u.abi.stride[q][0]].i = n, s[u.abi.stride[q][1]].i = 1;
            ok(&f, mod_launch(&f.cx, m, s, ROWS, 2));
            check_softmax(&f, &plan, x, z, n);
            assert_memory_equal(y, z, sizeof *y * (size_t)(ROWS * n));
            mod_free(m);
            rt_close(rt);
            done(&f);
            arena_free(cx.a);
        }
}

/* x: ROWS rows of 257 -> s: a number each. The interpreter's are within the definition's bound, and the CPU's (where
 * the kernel is for one) the same bits. Returns how many loads a run of all rows made. */
static int64_t run_to_scalars(Fix *f, const Kern *k, const Plan *plan, Rt *rt) {
    enum { N = 257 };
    float x[ROWS * N], s[ROWS], z[ROWS];
    fill(x, ROWS * N);
    Slot a[16] = {{0}};
    a[k->abi.ptr[0]].p = x, a[k->abi.ptr[1]].p = s;
    a[k->abi.row[0]].i = ROWS;
    a[k->abi.stride[0][0]].i = N, a[k->abi.stride[0][1]].i = 1, a[k->abi.stride[1][0]].i = 1;
    const void *lo[] = {x, s}, *hi[] = {x + COUNT(x), s + COUNT(s)};
    KernRun run;
    ok(f, kern_run(&f->cx, k, a, ROWS, lo, hi, &run));
    const OracleOptions o = bed_bounds(&f->pb, plan);
    Args in = {0};
    in.t[0] = (Tensor){.ty = TY_F32, .rank = 2, .data = x, .n = {ROWS, N}, .stride = {N, 1}};
    in.t[1] = (Tensor){.ty = TY_F32, .rank = 1, .data = s, .n = {ROWS}, .stride = {1}};
    Verdict v;
    ok(f, oracle_check(&f->cx, f->pb.source, &f->pb.shape, &in, &in, &o, &v));
    if (!rt) return run.loads;
    Unit u;
    Module *m;
    ok(f, unit_emit(&f->cx, &f->pb, k, &u));
    ok(f, mod_build(&f->cx, rt_device(rt, 0), &u, &m));
    a[k->abi.ptr[1]].p = z;
    ok(f, mod_launch(&f->cx, m, a, ROWS, 2));
    mod_free(m);
    assert_memory_equal(s, z, sizeof s);
    return run.loads;
}

/* On the machine of the prior system by the interpreter, then on this CPU, by its rules too. */
static void on_both(void (*each)(const Caps *caps, Rt *rt)) {
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    Rt *rt;
    Caps caps = simd_machine(64);
    each(&caps, NULL);
    if (rt_open(&cx, &(RtOptions){.al = &alloc_libc, .threads = 2}, &rt)) complain(&cx);
    caps = *dev_caps(rt_device(rt, 0));
    caps.row_buffer_bytes = 0, caps.stripe_slots = 64;
    each(&caps, rt);
    rt_close(rt);
    arena_free(cx.a);
}

/* 257 columns read as 260, zeros past the end: both sides of the guard count, and the stripe is that of 260. */
static void padded(const Caps *caps, Rt *rt) {
    Fix f;
    Plan plan;
    fix(&f, "padded", caps, 257);
    const Kern *k = lowered(&f, "W=32 P=3 U=3 fuse=off hold.xp=register", &plan);
    const Demand d = counted(&f, k);
    assert_true(d.stripe_slots_sum == 9 && d.row.global_read == 260 * 4 && d.lane.global_read == 9 * 4);
    assert_int_equal(run_to_scalars(&f, k, &plan, rt), ROWS * 257); /* the guard keeps memory untouched */
    done(&f);
}

static void test_padded(void **state) {
    (void)state;
    on_both(padded);
}

/* x * x in one phase is one read, and nothing worth a stripe. */
static void squares(const Caps *caps, Rt *rt) {
    for (int fuse = 0; fuse < 2; fuse++) {
        Fix f;
        Plan plan;
        fix(&f, "squares", caps, 257);
        const Kern *k = lowered(&f, fuse ? "W=32 fuse=on" : "W=32 fuse=off", &plan);
        const Demand d = counted(&f, k);
        assert_true(d.stripe_slots_sum == 0 && d.row.global_read == 257 * 4 && d.first_read == 257 * 4);
        assert_int_equal(run_to_scalars(&f, k, &plan, rt), ROWS * 257);
        refused(&f, "W=32 hold.x=register", "plan.hold_single_phase", "hold.x=register");
        done(&f);
    }
}

static void test_squares(void **state) {
    (void)state;
    on_both(squares);
}

/* ---- the price of holding ---- */

static double price(Fix *f, const Demand *d, const Plan *plan, double g, double p) {
    const CostPolicy *policy;
    double coef[MAX_COEFS];
    Score s;
    const Launch l = {.rows = 64, .lanes = plan->W, .subgroup = 32, .rows_per_group = plan->P};
    ok(f, cost_find(&f->cx, "prior", &policy));
    ok(f, cost_coefs(&f->cx, policy, &f->pb.caps, arena_printf(f->cx.a, "global-byte=%g,private-byte=%g", g, p), coef));
    ok(f, cost_score(&f->cx, policy, d, &f->pb.caps, &l, coef, &s));
    return s.total;
}

static void test_price_of_holding(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *keep;
        double slots, reload, held;
    } row[] = {{"rmsnorm", "", 8, 64, 72},
               {"softmax", "hold.e=register", 16, 112, 120},
               {"layernorm", "hold.c=register", 16, 112, 120}};
    const Caps caps = simd_machine(64);
    for (int i = 0; i < COUNT(row); i++) {
        Fix f;
        Plan plan;
        fix(&f, row[i].kernel, &caps, 4096);
        Demand d[2];
        for (int hold = 0; hold < 2; hold++)
            d[hold] = counted(&f, lowered(&f,
                                          arena_printf(f.cx.a, "W=512 V=4 fuse=off %s hold.x=%s", row[i].keep,
                                                       hold ? "register" : "reload"),
                                          &plan));
        assert_true(d[1].lane.global_read - d[0].lane.global_read == -32);
        assert_true(d[1].lane.private_read - d[0].lane.private_read == 64);
        assert_true(d[1].lane.private_write - d[0].lane.private_write == 32);
        assert_true(d[1].lane.global_write == d[0].lane.global_write);
        assert_true(d[1].lane_rounds - d[0].lane_rounds == 8);
        assert_true(d[1].stripe_slots_sum == row[i].slots);
        assert_true(d[1].first_read == d[0].first_read);
        assert_true(price(&f, &d[0], &plan, 0, 0) == row[i].reload && price(&f, &d[1], &plan, 0, 0) == row[i].held);
        for (int g = 0; g < 3; g++)
            for (int p = 0; p < 3; p++)
                assert_true(price(&f, &d[1], &plan, g, p) - price(&f, &d[0], &plan, g, p) == 8 - 32 * g + 96 * p);
        done(&f);
    }
}

/* ---- rejections ---- */

static void test_rejections(void **state) {
    (void)state;
    Caps caps = simd_machine(9);
    Fix f;
    fix(&f, "softmax", &caps, 257);
    refused(&f, "W=32 P=3 fuse=off hold.x=register hold.e=register", "plan.stripe_exceeded", "need=18 budget=9");
    done(&f);
    caps = simd_machine(64);
    fix(&f, "softmax", &caps, 257);
    f.pb.noalias = false;
    refused(&f, "W=32 fuse=off hold.x=register", "plan.no_alias_promise", "hold.x=register");
    done(&f);
    /* x is only read at an index that lanes share: no lane owns what it would keep */
    fix(&f, "picked", &caps, 257);
    refused(&f, "W=32 fuse=off hold.x=register", "plan.hold_gather", "hold.x=register");
    done(&f);
    fix(&f, "softmax", &caps, 257);
    refused(&f, "W=32 cluster=2", "plan.not_on_this_machine", "cluster=2");
    done(&f);
    caps.shared_bytes = 0;
    fix(&f, "softmax", &caps, 257);
    refused(&f, "W=32 hold.x=shared", "plan.no_shared", "shared_bytes=0");
    done(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_interpreted),
        cmocka_unit_test(test_softmax_on_cpu),
        cmocka_unit_test(test_padded),
        cmocka_unit_test(test_squares),
        cmocka_unit_test(test_price_of_holding),
        cmocka_unit_test(test_rejections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
