/* Groups that take many rows one after the other: what they hold for all of them, the copies of the rows ahead, the
 * rules of such plans, and what the verifier and the audit say of kerns that are broken. */
#include "../diff/match.h"

#include "../../src/audit/audit.h"
#include "fakecuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char programs[] =
    "kernel norm for rows (x: in T[rows, n], g: in T[n], b: in T[n], y: out T[rows, n], eps: f32 = 1e-5) {\n"
    "    c = x - mean(x)\n    y = c * rsqrt(mean(c * c) + eps) * g + b\n}\n"
    "kernel twice for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n]) {\n    z = x * w\n    y = z - max(z) * "
    "w\n}\n"
    "kernel parts for rows (x: in T[rows, c, n], w: in T[c, n], v: in T[c], y: out T[rows, c, n]) {\n"
    "    y = x * w / sum(x over n) + v\n}\n"
    "kernel soft for rows (x: in T[rows, n], y: out T[rows, n]) {\n    e = exp(x - max(x))\n    y = e / sum(e)\n}\n";

static bool made_at(Match *m, const char *kernel, Ty ty, int64_t least, int64_t n, const char *machine,
                    const char *plan, uint64_t seed) {
    Caps caps;
    const TyBind bind[] = {{"T", ty}};
    assert_true(match_read(m, programs, kernel, bind, 1));
    assert_true(caps_preset(machine, &caps));
    for (int i = 0; i < m->prog->naxes; i++) {
        const bool row = m->prog->row_axes >> i & 1, n_axis = m->prog->axis[i].name[0] == 'n';
        m->shape.n[i] = row ? 5 : n_axis ? n : 3;
        if (n_axis) m->shape.least[i] = least;
    }
    if (!strstr(plan, "stages")) return match_prog(m, seed, &caps, plan);
    for (;; seed += 10) { /* copies are of dense tensors: a seed that leaves strides alone */
        Rng r = {seed * 0x2545f4914f6cdd1dull + 7};
        if (rng_int(&r, 4) < 2) return match_prog(m, seed, &caps, plan);
    }
}

static bool made(Match *m, const char *kernel, int64_t n, const char *plan, uint64_t seed) {
    return made_at(m, kernel, TY_F32, 0, n, "h200", plan, seed);
}

static int once_nodes(const Kern *k) {
    int n = 0;
    for (int i = 0; i < k->nnodes; i++) n += k->node[i].once;
    return n;
}

/* The definition's values, an audit without findings, a text that comes back; and what the plan holds is held. */
static void values_are_the_definitions(void **state) {
    (void)state;
    static const struct {
        const char *kernel;
        int64_t n;
        const char *plan;
        int once; /* nodes */
    } rows[] = {
        {"norm", 1000, "W=64 V=4 grid=2", 0},
        {"norm", 1000, "W=64 V=4 grid=1 hold.g=register hold.b=shared stat=shifted", 2},
        {"norm", 1001, "W=32 V=1 P=4 grid=4 hold.g=shared hold.b=shared hold.x=register acc=2 flight=2", 2},
        {"norm", 700, "W=32 V=4 cluster=4 grid=1 hold.x=shared hold.g=shared hold.b=register stages=2 ahead=1", 2},
        {"norm", 700, "W=128 V=2 grid=8 hold.x=shared stages=4 ahead=3 index=32", 0},
        {"norm", 600, "W=64 V=4 grid=2 fuse=off hold.x=register hold.g=register hold.c=register", 2},
        {"twice", 300, "W=32 V=2 P=2 grid=2 hold.w=register hold.z=register", 2},
        {"twice", 300, "W=32 V=4 grid=2 hold.w=shared hold.x=shared stages=1 ahead=2", 2},
        {"parts", 100, "W=32 V=4 grid=2 hold.x=register", 0},
        {"soft", 1000, "W=64 V=4 grid=1 hold.x=shared stages=2 ahead=2 stat=online", 0},
    };
    for (int i = 0; i < COUNT(rows); i++)
        for (uint64_t seed = 1; seed < 5; seed++) {
            Match m;
            bool ok = made(&m, rows[i].kernel, rows[i].n, rows[i].plan, seed) && match_interpret(&m) && match_sound(&m);
            if (!ok) fail_msg("%s, %s, seed %d: %s", rows[i].kernel, rows[i].plan, (int)seed, m.why);
            if (once_nodes(m.kern) != rows[i].once) fail_msg("%s: %d nodes once", rows[i].plan, once_nodes(m.kern));
            match_free(&m);
        }
}

/* What is held for all rows is read once; neither that nor the grid changes a bit; a range of extents may be given. */
static void weights_are_read_once(void **state) {
    (void)state;
    static const char *const plans[] = {"W=64 V=4 hold.x=register", "W=64 V=4 grid=2 hold.x=register",
                                        "W=64 V=4 grid=1 hold.x=register hold.g=register hold.b=shared"};
    for (uint64_t seed = 1; seed < 4; seed++) {
        Match m[COUNT(plans)];
        int64_t loads[COUNT(plans)];
        for (int i = 0; i < COUNT(plans); i++) {
            if (!made(&m[i], "norm", 1000, plans[i], seed) || !match_interpret(&m[i])) fail_msg("%s", m[i].why);
            const void *lo[MAX_PARAMS] = {0}, *hi[MAX_PARAMS] = {0};
            Args a = m[i].interp;
            for (int p = 0; p < m[i].pb.prog->nparams; p++)
                if (m[i].bytes[p]) {
                    a.t[p].data = arena_dup(m[i].cx.a, a.t[p].data, m[i].bytes[p]);
                    lo[p] = a.t[p].data, hi[p] = (char *)a.t[p].data + m[i].bytes[p];
                }
            KernRun run;
            assert_int_equal(kern_run(&m[i].cx, m[i].kern, match_slots(&m[i], &a, NULL), m[i].rows, lo, hi, &run), OK);
            loads[i] = run.loads;
            Demand d;
            kern_count(&m[i].cx, m[i].kern, &d);
            assert_true(d.group_read == (i == 2 ? 2 * 4000 : 0) && d.weight_read == (i == 2 ? 0 : 2 * 4000));
            assert_int_equal(
                same_bits(TY_F32, m[0].interp.t[3].data, m[i].interp.t[3].data, (int64_t)m[i].bytes[3] / 4), -1);
        }
        assert_true(loads[0] == 5 * 3 * 1000 && loads[1] == loads[0] && loads[2] == 5 * 1000 + 2 * 1000);
        for (int i = 0; i < COUNT(plans); i++) match_free(&m[i]);
    }
    Match m;
    if (!made_at(&m, "norm", TY_BF16, 1, 900, "h200", "W=32 V=8 grid=2 hold.g=register hold.b=register.f32", 3))
        fail_msg("%s", m.why);
    for (int64_t n = 1; n < 900; n += 101)
        if (!match_at(&m, n)) fail_msg("extent %d: %s", (int)n, m.why);
    match_free(&m);
}

static void plans_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *machine, *plan;
        Slug slug;
    } rows[] = {{"norm", "h200", "W=32 V=1 hold.g=register", S_PLAN_HOLD_SINGLE}, /* of one row */
                {"norm", "h200", "W=32 V=1 grid=2 overlap=fetch", S_PLAN_GRID},
                {"soft", "h200", "W=32 V=1 ahead=1", S_PLAN_GRID},
                {"soft", "h200", "W=32 V=4 grid=1 ahead=1 hold.x=shared", S_PLAN_GRID}, /* no copies */
                {"soft", "h200", "W=32 V=4 ahead=1 hold.x=shared stages=1", S_PLAN_GRID},
                {"norm", "h200", "W=32 V=4 grid=1 ahead=1 hold.g=shared stages=1", S_PLAN_GRID}, /* of no row */
                {"norm", "h200", "W=32 V=1 grid=2 hold.g=output", S_PLAN_NO_HOME},
                {"norm", "h200", "W=1 V=1 grid=1 hold.g=register", S_PLAN_STRIPE},
                {"norm", "avx512", "W=16 V=1 grid=1", S_PLAN_MACHINE},
                {"norm", "m1max", "W=32 V=1 ahead=1 grid=1", S_PLAN_MACHINE}};
    for (int i = 0; i < COUNT(rows); i++) {
        Match m;
        if (made_at(&m, rows[i].kernel, TY_F32, 0, 1000, rows[i].machine, rows[i].plan, 1))
            fail_msg("%s: legal", rows[i].plan);
        if (m.cx.first->slug != rows[i].slug) fail_msg("%s %s: %s", rows[i].kernel, rows[i].plan, m.cx.first->msg);
        match_free(&m);
    }
    Match m; /* a row needs 24,000 bytes on chip, and so does each ahead */
    assert_true(made_at(&m, "soft", TY_F32, 0, 24000, "h200", "W=1024 V=4 grid=1 stages=1 hold.x=shared ahead=1", 1));
    match_free(&m);
    assert_false(made_at(&m, "soft", TY_F32, 0, 24000, "h200", "W=1024 V=4 grid=1 stages=1 hold.x=shared ahead=2", 1));
    assert_int_equal(m.cx.first->slug, S_PLAN_SHARED);
    match_free(&m);
}

static int find(const Kern *k, KOp op) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == op) return i;
    return -1;
}

static void once_in_the_row(Kern *k) { /* a node of the row that says so */
    k->node[k->node[kern_body(k)].next].once = true;
}
static void one_tile(Kern *k) {
    k->plan.grid = 0;
}
static void loads_a_row(Kern *k) { /* what is loaded before there is a row */
    k->ins[find(k, K_LOADP)].param = 0;
}
static void fills_again(Kern *k) { /* a row fills what all rows have */
    for (int i = k->nins - 1; i >= 0; i--)
        if (k->ins[i].k == K_PUT) {
            k->ins[i].imm = k->ins[find(k, K_PUT)].imm;
            return;
        }
}

static void breaks_are_found(void **state) {
    (void)state;
    static void (*const breaks[])(Kern *) = {once_in_the_row, one_tile, loads_a_row, fills_again};
    for (int i = 0; i < COUNT(breaks); i++) {
        Match m;
        assert_true(made(&m, "norm", 100, "W=32 V=1 grid=2 hold.x=register hold.g=register", 1));
        Cx cx = {.a = m.cx.a};
        breaks[i](m.kern);
        assert_int_not_equal(kern_verify(&cx, m.kern), OK);
        if (cx.first->slug != S_KERN_ONCE) fail_msg("%d: %s", i, cx.first->msg);
        match_free(&m);
    }
    Match m; /* past the verifier, the audit finds a row's own among what all rows share */
    assert_true(made(&m, "norm", 100, "W=32 V=1 grid=2 hold.g=register", 1));
    Cx cx = {.a = m.cx.a};
    AuditReport report = {0};
    m.kern->node[m.kern->node[m.kern->root].next].once = false;
    int load = find(m.kern, K_LOADP);
    m.kern->node[m.kern->node[m.kern->root].next].once = true;
    m.kern->ins[load].param = 0, m.kern->stripe[0].name = "x";
    assert_int_not_equal(
        audit_kern(&cx, m.pb.prog, &m.pb.shape, &m.pb.caps, true, false, m.pb.strided, m.kern, &report), OK);
    match_free(&m);
}

/* The text: a loop over tiles, weights and the first rows before it, copies of the next within it. */
static void text_says_so(void **state) {
    (void)state;
    static const struct {
        const char *machine, *plan, *has[4];
    } rows[] = {
        {"h200", "W=64 V=4 grid=2", {"apart = (i64)gridDim.x;", "for (i64 tile = (i64)blockIdx.x; tile < tiles;"}},
        {"h200", "W=64 V=4 cluster=2 grid=2", {"apart = (i64)gridDim.x / 2;", "cluster_wait();\n    const i64 tiles"}},
        {"h200",
         "W=64 V=4 cluster=2 exchange=bytes grid=2",
         {"cluster_start(cm, tid);", "cluster_wait();\n    const i64 tiles"}},
        {"h200",
         "W=64 V=4 grid=1 hold.x=shared hold.g=shared stages=2 ahead=2 load=keep",
         {"copies_wait(5);", "turn = turn == 2 ? 0 : turn + 1", "const u32 sh0 = base0 + turn * 4096;"}},
        {"h200", "W=64 V=4 grid=1 hold.x=register hold.g=shared stages=2", {"copies_wait(0);\n    for (i64 tile"}},
        {"h200",
         "W=64 V=4 grid=1 hold.x=shared stages=1 ahead=1 stat=shifted",
         {"u32 n", "_0 = 0;", "copies_wait(1);", "const f32 n"}},
        {"h200", "W=64 V=4 early=free load=keep", {"_keepfree(", "asm(\"{ .reg .pred p; setp.ne.s32 p, "}},
        {"opencl", "W=64 V=4 grid=2 hold.g=shared", {"apart = (i64)get_num_groups(0);"}},
        {"m1max", "W=64 V=4 grid=2 hold.g=register", {"uint groups_at [[threadgroups_per_grid]]", "(i64)groups_at;"}},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Match m;
        Unit u;
        if (!made_at(&m, "norm", TY_F32, 0, 1000, rows[i].machine, rows[i].plan, 1)) fail_msg("%s", m.why);
        assert_int_equal(unit_emit(&m.cx, &m.pb, m.kern, &u), OK);
        assert_int_equal(u.resident, m.plan.grid);
        for (int h = 0; h < 4 && rows[i].has[h]; h++)
            if (!strstr(u.text, rows[i].has[h])) fail_msg("%s lacks %s:\n%s", rows[i].plan, rows[i].has[h], u.text);
        match_free(&m);
    }
}

/* As many groups as units and plan say, and fit, and no more than there are rows. */
static void launches_are_of_what_fits(void **state) {
    (void)state;
    static const struct {
        const char *plan;
        unsigned most;
    } rows[] = {{"W=64 V=4 grid=2", 0}, {"W=32 V=4 cluster=4 grid=16", 3 * 4}}; /* three clusters fit */
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    nvrtc_close(&rtc);
    _Alignas(16) static char memory[64];
    const Slot s[16] = {{.p = memory}, {.p = memory}};
    Fake f;
    Module *m;
    for (int i = 0; i < COUNT(rows); i++) {
        fake_open(&f, "", rows[i].plan);
        const unsigned most = rows[i].most ? rows[i].most : 2 * (unsigned)dev_caps(f.d)->units;
        assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
        assert_int_equal(mod_launch(&f.cx, m, s, 100000, 0), OK);
        assert_int_equal(f.last->blocks, most);
        assert_int_equal(mod_launch(&f.cx, m, s, 1, 0), OK);
        assert_int_equal(f.last->blocks, f.u.cluster);
        mod_free(m);
        fake_close(&f);
    }
    fake_open(&f, "", "W=1024 V=4 grid=4"); /* the fake unit has room for 2,048 threads */
    expect(&f, mod_build(&f.cx, f.d, &f.u, &m), S_BUILD_GRID);
    fake_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_the_definitions),
                                       cmocka_unit_test(weights_are_read_once),
                                       cmocka_unit_test(plans_are_refused),
                                       cmocka_unit_test(breaks_are_found),
                                       cmocka_unit_test(text_says_so),
                                       cmocka_unit_test(launches_are_of_what_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
