/* The audit: good kerns pass it, and every deliberate break of one is caught by a named detector: the verifier of
 * kerns, the audit, the interpreter, or the definition of the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../../src/audit/audit.h"
#include "../../src/bench/bench.h"
#include "../../src/lang/lang.h"
#include "../diff/library.h"
#include "../diff/randplan.h"
#include "../diff/randprog.h"
#include "breaks.h"

/* What kernels/ has no short example of. */
static const char more[] =
    "kernel shift for rows (x: in T[rows, n], y: out T[rows, n]) { y = x + (x[rows, n + 1] else 0) }\n"
    "kernel columns for rows (x: in T[rows, g, n], y: out f32[rows, n]) { y = sum(x over g) }\n"
    "kernel nest for rows (x: in T[rows, h, g, n], y: out f32[rows, h], z: out f32[rows, h, g]) {\n"
    "    z = sum(x over n)\n    y = sum(x over g, n)\n}\n"
    "kernel scales for rows (x: in T[rows, g, n], y: out T[rows, g, n], t: out f32[rows]) {\n"
    "    a = max(abs(x) over n)\n    t = sum(a)\n    y = x / a\n}\n"
    "kernel ordered for rows (x: in T[rows, n], s: out f32[rows]) { s = sum(x) @ordered }\n"
    "kernel two for rows (x: in T[rows, n], z: in T[rows, g], y: out T[rows, n], s: out T[rows, g]) {\n"
    "    y = x / sum(x)\n    s = z / sum(z)\n}\n"
    "kernel least for rows (x: in u32[rows, g, n], y: out u64[rows, n]) { y = min(u64(x) over g) }\n"
    "kernel spread for rows (x: in T[rows, g, n], y: out f32[rows]) {\n"
    "    c = sum(x over g)\n    d = c - mean(c)\n    y = mean(d * d)\n}\n"
    "kernel never for rows (x: in T[rows, n], z: in T[rows, n], y: out T[rows, n]) {\n"
    "    a = x[rows, n] else z\n    y = a / sum(a)\n}\n";

typedef struct Desk {
    Cx cx;
    Problem pb;
    Plan plan;
    Kern *k;
    Args args;
    int64_t rows;
} Desk;

static const Prog *program(Cx *cx, const char *name) {
    LibKernel *lib;
    Ast *ast;
    Prog *p;
    TyBind bind = {"*", TY_F32};
    for (int i = 0, n = library_read(cx, TY_F32, &lib); i < n; i++)
        if (str_eq(lib[i].name, name)) return lib[i].prog;
    assert_int_equal(lang_parse(cx, "more", more, sizeof more - 1, &ast), OK);
    assert_int_equal(lang_kernel(cx, ast, name, &bind, 1, NULL, 0, &p), OK);
    return p;
}

/* Four rows; n elements on the last axis of all, three on the others. ERR_REFUSED where the plan is not legal. */
static Err open_desk_at(Desk *d, const char *name, const char *plan, const char *preset, int64_t n) {
    *d = (Desk){.cx = {.a = arena_new(NULL, NULL)}, .rows = 1};
    const Prog *p = program(&d->cx, name);
    Shape s = {0};
    Caps caps;
    int last = 0;
    for (int i = 0; i < p->naxes; i++)
        if (!(p->row_axes >> i & 1)) last = i;
    if (prog_axis(p, "n") >= 0) last = prog_axis(p, "n");
    for (int i = 0; i < MAX_AXES; i++)
        s.n[i] = i >= p->naxes || p->axis[i].ext >= 0 ? -1 : i == last ? n : p->row_axes >> i & 1 ? 4 : 3;
    assert_true(caps_preset(preset, &caps));
    assert_int_equal(problem_make(&d->cx, p, &s, &caps, 0, &d->pb), OK);
    assert_int_equal(plan_read(&d->cx, plan, &d->plan), OK);
    for (int i = 0; i < p->naxes; i++)
        if (p->row_axes >> i & 1) d->rows *= 4;
    randargs(&d->cx, p, &d->pb.shape, FILL_NORMAL, 5, false, &d->args);
    return kern_lower(&d->cx, &d->pb, &d->plan, &d->k);
}

static void open_desk(Desk *d, const char *name, const char *plan, const char *preset) {
    if (open_desk_at(d, name, plan, preset, 70)) fail_msg("%s %s: %s", name, plan, d->cx.first->msg);
}

static Err audit(Desk *d, AuditReport *r) {
    const Problem *pb = &d->pb;
    return audit_kern(&d->cx, pb->prog, &pb->shape, &pb->caps, pb->noalias, pb->summed_budget, pb->strided, d->k, r);
}

/* Runs the kern in the interpreter, and asks the definition about the outputs. */
static Err run(Desk *d) {
    const Prog *p = d->pb.source;
    Abi abi;
    abi_of(d->pb.prog, &abi);
    Slot *slot = NEWN(d->cx.a, Slot, abi.nslots + 1);
    const void *lo[MAX_PARAMS] = {0}, *hi[MAX_PARAMS] = {0};
    Args out = d->args;
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        size_t bytes = (size_t)ty_bytes(q->ty);
        if (q->dir == DIR_SCALAR) slot[abi.scalar[i]].i = d->args.scalar[i].i;
        if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) continue;
        for (int k = 0; k < q->rank; k++) {
            bytes *= (size_t)d->args.t[i].n[k];
            slot[abi.stride[i][k]].i = d->args.t[i].stride[k];
        }
        out.t[i].data = arena_dup(d->cx.a, d->args.t[i].data, bytes);
        slot[abi.ptr[i]].p = out.t[i].data;
        lo[i] = out.t[i].data, hi[i] = (char *)out.t[i].data + bytes;
    }
    for (int a = 0; a < p->naxes; a++)
        if (abi.row[a] >= 0) slot[abi.row[a]].i = d->pb.shape.n[a];
    KernRun ran;
    Err e = kern_run(&d->cx, d->k, slot, d->rows, lo, hi, &ran);
    OracleOptions o = bed_bounds(&d->pb, &d->plan);
    Verdict v;
    return e ? e : oracle_check(&d->cx, p, &d->pb.shape, &d->args, &out, &o, &v);
}

static bool met[SLUG_COUNT]; /* by some test */

/* The slug of the first of the four that objects; NULL when none does. */
static const char *caught(Desk *d, bool verify) {
    AuditReport r;
    Err e = verify ? kern_verify(&d->cx, d->k) : OK;
    if (!e) e = audit(d, &r);
    if (!e) e = run(d);
    if (e) met[d->cx.first->slug] = true;
    return e ? slug_text(d->cx.first->slug) : NULL;
}

/* ---- breaks ---- */

#define SOFTMAX "softmax", "W=16 V=2 acc=2 hold.x=register"
#define GROUPS "rmsnorm_fp8_groups", "W=16 hold.x=register hold.z=register"
#define HOME "softmax", "W=16 hold.e=output"
typedef struct Break {
    const char *what, *kernel, *plan;
    bool (*change)(Cx *cx, Kern *k);
    const char *slug; /* of the detector that catches it first */
    bool unverified;  /* the verifier would catch it: what does the audit say on its own? */
} Break;
static const Break breaks[] = {
    {"a base that is one element late", SOFTMAX, base_off_by_one, "audit.out_of_bounds", false},
    {"a base that is one element early", SOFTMAX, base_before, "audit.out_of_bounds", false},
    {"a base that is doubled", SOFTMAX, base_doubled, "audit.out_of_bounds", false},
    {"a store to the first row", SOFTMAX, base_of_first_row, "audit.not_own_element", false},
    {"a stride of 2", SOFTMAX, stride_two, "audit.out_of_bounds", false},
    {"a stride of 0", SOFTMAX, stride_nought, "audit.not_own_element", false},
    {"an address term that comes twice", SOFTMAX, term_twice, "audit.out_of_bounds", false},
    {"the row stride of another tensor", SOFTMAX, stride_of_other, "audit.out_of_bounds", false},
    {"an extent for a stride", SOFTMAX, extent_for_stride, "audit.out_of_bounds", false},
    {"a load from another input", "residual_layernorm", "W=16", load_other_param, "audit.out_of_bounds", false},
    {"a store to another output", "layernorm_save", "W=16", store_other_param, "audit.output_unwritten", false},
    {"a store to an input", SOFTMAX, store_to_input, "kern.direction", false},
    {"the same, unverified", "l1_normalize", "W=16", store_to_input, "audit.out_of_bounds", true},
    {"a store that is missing", SOFTMAX, store_dropped, "audit.output_unwritten", false},
    {"a row number divided by a stride", "groupnorm", "W=16", row_divisor, "audit.out_of_bounds", false},
    {"a quotient for a remainder", "groupnorm", "W=16", row_remainder, "audit.out_of_bounds", false},
    {"a guard that is dropped", "cross_entropy", "W=16", guard_dropped, "audit.out_of_bounds", false},
    {"a guard that ends late", "cross_entropy", "W=16", guard_end, "audit.out_of_bounds", false},
    {"a guard that starts early", "cross_entropy", "W=16", guard_start, "audit.out_of_bounds", false},
    {"a guard of which one half is enough", "cross_entropy", "W=16", guard_either, "audit.out_of_bounds", false},
    {"a guard of another index", "shift", "W=16", guard_of_other, "audit.out_of_bounds", false},
    {"a guard of a shift that ends late", "shift", "W=16 V=4", guard_end, "audit.out_of_bounds", false},
    {"a serial stride that is one too long", GROUPS, serial_stride, "audit.out_of_bounds", false},
    {"a serial coordinate that is dropped", GROUPS, serial_dropped, "audit.not_own_element", false},
    {"a round too many", GROUPS, round_more, "kern.loop", false},
    {"a round too many, unverified", GROUPS, round_more, "audit.domain", true},
    {"an element too many", SOFTMAX, element_more, "kern.domain", false},
    {"an element too many, unverified", SOFTMAX, element_more, "audit.domain", true},
    {"a sweep over another index space", "two", "W=16", other_domain, "kern.layout", false},
    {"a sweep over another index space, unverified", "two", "W=16", other_domain, "audit.out_of_bounds", true},
    {"another value that is kept", SOFTMAX, put_other, "audit.hold_value", false},
    {"a stripe that is filled again", SOFTMAX, put_again, "audit.hold_value", false},
    {"a stripe of no value of the plan", SOFTMAX, stripe_missing, "audit.hold_value", false},
    {"a stripe that is read before it is filled", SOFTMAX, get_early, "kern.unfilled", false},
    {"a stripe that is read before it is filled, unverified", SOFTMAX, get_early, "audit.hold_unwritten", true},
    {"a stripe that is read at the first point always", GROUPS, get_at_first, "audit.hold_slot", false},
    {"a stripe that is filled at the next point", GROUPS, put_next, "audit.hold_slot", false},
    {"a stripe over another index space", "two", "W=16 hold.x=register hold.z=register", other_domain, "kern.layout",
     false},
    {"a stripe that lives too short", SOFTMAX, life_short, "kern.stripe", false},
    {"a stripe that lives too long", GROUPS, life_long, "audit.live_range", false},
    {"a stripe that is not charged", SOFTMAX, stripe_uncharged, "audit.budget", false},
    {"a stripe of an accumulator on its way", "softmax", "W=16 hold.e=register", stripe_of_state, "audit.hold_mutable",
     false},
    {"a stripe for one sweep", SOFTMAX, get_at_once, "audit.hold_one_phase", false},
    {"a home that is not filled", HOME, home_unfilled, "audit.hold_unwritten", false},
    {"a home that is overwritten before it is read", HOME, home_overwritten, "audit.hold_unwritten", false},
    {"an inout parameter that is written early", "softmax_inplace", "W=16", inout_early, "audit.inout_order", false},
    {"a sum that starts at 1", SOFTMAX, sum_from_one, "audit.identity", false},
    {"a maximum that starts at 0", SOFTMAX, max_from_zero, "audit.identity", false},
    {"a running maximum that starts at 0", "softmax", "W=16 stat=online", state_from_zero, "audit.identity", false},
    {"a pack's sum that starts at 1", "softmax", "W=16 stat=online", pack_from_one, "audit.identity", false},
    {"an index that starts at 0", "argmax", "W=16", index_from_zero, "audit.identity", false},
    {"an accumulator that is not started", SOFTMAX, init_missing, "kern.unset", false},
    {"an accumulator that is started once for all points", GROUPS, init_too_early, "audit.accumulator", false},
    {"an accumulator that is not merged", SOFTMAX, merge_skipped, "audit.merge", false},
    {"an accumulator that is merged twice", SOFTMAX, merge_twice, "audit.merge", false},
    {"accumulators merged in line", "sum", "W=16 acc=4", merge_in_line, "audit.merge", false},
    {"a join by another operator", SOFTMAX, join_other, "audit.join", false},
    {"a join that is dropped", SOFTMAX, join_dropped, "audit.join", false},
    {"fewer accumulators than the plan has", "sum", "W=16 acc=4", acc_fewer, "audit.accumulator", false},
    {"fewer accumulators than are read", "sum", "W=16 acc=4", cell_fewer, "kern.index", false},
    {"a fold by another operator", SOFTMAX, fold_other, "audit.identity", false},
    {"a product that is added unrounded", "layernorm", "W=16 contract=on", product_unrounded, "audit.order", false},
    {"a fold that comes twice", SOFTMAX, fold_twice, "audit.accumulator", false},
    {"a fold that is missing", SOFTMAX, fold_nothing, "audit.accumulator", false},
    {"a running state that forgets", "softmax", "W=16 stat=online", state_forgets, "audit.accumulator", false},
    {"an order that W and acc do not give", SOFTMAX, order_fixed, "audit.order", false},
    {"a left fold over many lanes", SOFTMAX, order_serial, "audit.order", false},
    {"a row value added to another point", "nest", "W=16", array_elsewhere, "audit.accumulator", false},
    {"a row array that is too short", "nest", "W=16", array_past_end, "audit.out_of_bounds", false},
    {"a lane's sums that start at 1", "columns", "W=16", stripe_from_one, "audit.identity", false},
    {"a join within a sweep", SOFTMAX, join_in_sweep, "kern.rank", false},
    {"a join within a sweep, unverified", SOFTMAX, join_in_sweep, "audit.barrier", true},
    {"a difference that is turned round", SOFTMAX, difference_turned, "oracle.mismatch", false},
    {"another value that is folded", SOFTMAX, fold_of_other, "oracle.mismatch", false},
    {"another value that is stored", SOFTMAX, store_of_other, "oracle.mismatch", false},
};

static void test_break(void **state) {
    const Break *b = *state;
    Desk d;
    open_desk(&d, b->kernel, b->plan, "avx512");
    const char *slug = caught(&d, true);
    if (slug) fail_msg("unbroken: %s: %s", slug, d.cx.first->msg);
    if (!b->change(&d.cx, d.k)) fail_msg("%s: nothing to break", b->what);
    slug = caught(&d, !b->unverified);
    if (!slug || !str_eq(slug, b->slug))
        fail_msg("%s: caught by %s: %s", b->what, slug ? slug : "nobody", d.cx.first ? d.cx.first->msg : "");
    arena_free(d.cx.a);
}

static void expect_audit(Desk *d, const char *slug) {
    AuditReport r;
    assert_true(audit(d, &r) == ERR_INTERNAL);
    met[d->cx.first->slug] = true;
    assert_string_equal(slug_text(d->cx.first->slug), slug);
    arena_free(d->cx.a);
}

/* The same kern, judged for another machine or without a promise. */
static void test_judged_by(void **state) {
    (void)state;
    Desk d;
    open_desk(&d, SOFTMAX, "avx512");
    d.pb.noalias = false;
    expect_audit(&d, "audit.hold_aliased");
    open_desk(&d, HOME, "avx512");
    d.pb.noalias = false;
    expect_audit(&d, "audit.hold_aliased");
    open_desk(&d, SOFTMAX, "avx512");
    d.pb.caps.row_buffer_bytes = 64;
    expect_audit(&d, "audit.budget");
    open_desk(&d, SOFTMAX, "avx512");
    d.pb.caps.max_lanes = 8;
    expect_audit(&d, "audit.group");
    open_desk(&d, "softmax", "W=64 V=4", "h200");
    d.pb.caps.max_pack_bytes = 8;
    expect_audit(&d, "audit.group");
    open_desk(&d, "softmax", "W=64", "h200");
    d.pb.caps.shared_bytes = 4;
    expect_audit(&d, "audit.shared_bytes");
    open_desk(&d, "ordered", "W=1", "avx512");
    d.k->plan.W = 16;
    expect_audit(&d, "audit.order");
    open_desk(&d, "two", "W=16 hold.x=register hold.z=register", "avx512");
    d.k->stripe[0].domain = d.k->stripe[1].domain;
    expect_audit(&d, "audit.hold_other_lane");
    open_desk(&d, SOFTMAX, "avx512");
    d.pb.strided = ~0u; /* the kern was made for dense elements */
    expect_audit(&d, "audit.out_of_bounds");
}

/* ---- good kerns ---- */

typedef struct Sums {
    int kerns, units, accesses, guarded, joins, stripes;
    double seconds;
} Sums;

static void judge(Cx *cx, const Problem *pb, const Plan *plan, const char *name, Sums *sum) {
    Kern *k;
    AuditReport r;
    Unit u;
    if (kern_lower(cx, pb, plan, &k)) fail_msg("%s: %s", name, cx->first->msg);
    clock_t t = clock();
    Err e = audit_kern(cx, pb->prog, &pb->shape, &pb->caps, pb->noalias, pb->summed_budget, pb->strided, k, &r);
    sum->seconds += (double)(clock() - t) / CLOCKS_PER_SEC;
    if (!e && sum->kerns % 4 == 0) {
        e = unit_emit(cx, pb, k, &u);
        if (!e) e = audit_unit(cx, k, &u);
        sum->units++;
    }
    if (e) {
        Buf b = buf_new(cx->a);
        plan_print(plan, &b);
        fail_msg("%s on %s: %s: %s\n%s", name, pb->caps.name, slug_text(cx->first->slug), cx->first->msg, b.s);
    }
    sum->kerns++, sum->accesses += r.naccesses, sum->joins += r.joins, sum->stripes += r.stripes;
    for (int i = 0; i < r.naccesses; i++) sum->guarded += r.access[i].proof == PROOF_GUARD;
}

/* All of kernels/, at 30 plans each, on several machines, at several lengths; strides now and then are arguments. */
static void test_library(void **state) {
    (void)state;
    static const char *const presets[] = {"avx512", "h200", "avx2", "portable", "m1max"};
    static const int64_t lengths[] = {0, 1, 7, 64, 257, 1000, 4099};
    static const Ty types[] = {TY_F32, TY_BF16, TY_F64};
    enum { PLANS = 30 / TEST_SHARE };
    Rng r = {2024};
    Sums sum = {0};
    int kernels = 0;
    for (int t = 0; t < COUNT(types); t++) {
        Cx lib_cx = {.a = arena_new(NULL, NULL)};
        LibKernel *lib;
        kernels = library_read(&lib_cx, types[t], &lib);
        assert_true(kernels >= 60);
        for (int i = 0; i < kernels; i++)
            for (int q = t; q < PLANS; q += COUNT(types)) {
                Cx cx = {.a = arena_new(NULL, NULL)};
                Problem pb;
                Caps caps;
                Shape s = {0};
                int draws = 0, last = 0;
                const Prog *p = lib[i].prog;
                for (int a = 0; a < p->naxes; a++)
                    if (!(p->row_axes >> a & 1)) last = a;
                for (int a = 0; a < MAX_AXES; a++)
                    s.n[a] = a >= p->naxes || p->axis[a].ext >= 0 ? -1
                             : a == last                          ? lengths[rng_int(&r, COUNT(lengths))]
                             : rng_int(&r, 2)                     ? 5
                             : p->row_axes >> a & 1               ? -1
                                                                  : 1 + rng_int(&r, 3);
                assert_true(caps_preset(presets[rng_int(&r, COUNT(presets))], &caps));
                if (types[t] == TY_F64 && !caps.has_f64) caps_preset("h200", &caps);
                uint32_t strided = rng_int(&r, 3) ? 0 : (uint32_t)rng_u64(&r);
                assert_int_equal(problem_make(&cx, p, &s, &caps, strided, &pb), OK);
                Plan plan = randplan(&cx, &pb, &r, &draws);
                Cx own = {.a = cx.a};
                if (plan_check(&own, &pb, &plan, NULL, NULL) == OK) judge(&cx, &pb, &plan, lib[i].name, &sum);
                arena_free(cx.a);
            }
        arena_free(lib_cx.a);
    }
    print_message("%d kerns, %d units, %d accesses, %d by their guards, %d joins, %d stripes; %.1f us a kern\n",
                  sum.kerns, sum.units, sum.accesses, sum.guarded, sum.joins, sum.stripes,
                  1e6 * sum.seconds / sum.kerns);
    assert_true(sum.kerns > kernels * (PLANS - 4));
    assert_true(sum.guarded > 50 / TEST_SHARE && sum.joins > sum.kerns / 2 && sum.stripes > sum.kerns / 4);
    assert_true(sum.seconds / sum.kerns < 1e-3);
}

/* What the audit once found in lowering: a first element of an empty row, u64 minima that started at 0, a value read
 * from its home after the home's own value had come, a stripe for a fill that is never read. */
static void test_found(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *plan;
        int64_t n;
    } row[] = {
        {"layernorm", "W=16 stat=shifted", 0},
        {"layernorm", "W=16 stat=welford", 0},
        {"least", "W=16", 70},
        {"qk_norm", "W=16 hold.b=output", 70},
        {"qk_norm", "W=16 hold.a=register hold.b=output", 70},
        {"never", "W=16 hold.z=register", 70},
    };
    for (int i = 0; i < COUNT(row); i++) {
        Desk d;
        if (open_desk_at(&d, row[i].kernel, row[i].plan, "avx512", row[i].n))
            fail_msg("%s %s: %s", row[i].kernel, row[i].plan, d.cx.first->msg);
        const char *slug = caught(&d, true);
        if (slug) fail_msg("%s %s: %s: %s", row[i].kernel, row[i].plan, slug, d.cx.first->msg);
        arena_free(d.cx.a);
    }
    Desk d; /* a shift is the first element, which of a lane's own sums no other lane has */
    assert_true(open_desk_at(&d, "spread", "W=16 stat=shifted", "avx512", 70) == ERR_REFUSED);
    assert_int_equal(d.cx.first->slug, S_PLAN_STAT_UNUSED);
    arena_free(d.cx.a);
}

/* ---- units ---- */

static const char *replace(Cx *cx, const char *text, const char *what, const char *with) {
    const char *body = strstr(text, "void rowfold_kernel"), *at = strstr(body, what);
    if (!at) fail_msg("no %s in the text", what);
    return arena_printf(cx->a, "%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
}

static void test_units(void **state) {
    (void)state;
    static const struct {
        const char *plan, *what, *with, *slug;
    } row[] = {
        {"W=16", "rowfold_kernel_softmax", "rowfold_kernel_other", "audit.unit_entry"},
        {"W=16", "*)a[0].p;", "*)a[1].p;", "audit.unit_pointer"},
        {"W=16", "ld_f32(p0_3 +", "*(p0_3 +", "audit.unit_pointer"},
        {"W=16", "ld_f32(p0_3 +", "ld_f32(1 + p0_3 +", "audit.unit_pointer"},
        {"W=16", "ld_f32(p0_3 +", "ld_f32(p7_3 +", "audit.unit_pointer"},
        {"W=16", "ld_f32(p0_3 +", "ld_f32(p1_5 +", "audit.unit_moved"},
        {"W=16", "p0_3 = p0 +", "p0_3 = p1 +", "audit.unit_pointer"},
        {"W=16", "p0_3 = p0 +", "p0_3 = 1 + p0 +", "audit.unit_pointer"},
        {"W=16", "const p0_3 =", "const p0_3 = 0, *q = p0 + 1, *const p0_4 =", "audit.unit_pointer"},
        {"W=16", "st_f32(p1_5 +", "st_f32(s1 +", "audit.unit_moved"},
        {"W=16", "c < 4;", "c < 3;", "audit.unit_moved"},
        {"W=16", "c < 4;", "c < 5;", "audit.unit_moved"},
        {"W=16", ", 6);", ", 5);", "audit.unit_moved"},
        {"W=16", ", 6);", ", 17);", "audit.unit_text"},
        {"W=16", "st_f32(p1_5 +", "stx_f32(p1_5 +", "audit.unit_policy"},
        {"W=16 store=stream", "stx_f32(p1_5 +", "st_f32(p1_5 +", "audit.unit_policy"},
        {"W=16 store=stream", "fence();", "", "audit.unit_policy"},
        {"W=16", "st_f32(p1_5 +", "__builtin_prefetch(p0_3 + 1); st_f32(p1_5 +", "audit.unit_policy"},
        {"W=16", "}\n", "}}\n", "audit.unit_text"},
        {"W=1 V=1 P=32", "rows, t, 2)", "rows, t, 1)", "audit.unit_moved"},
        {"W=1 V=1 P=32", "rows, t, 2)", "rows, t, 3)", "audit.unit_text"},
        {"W=1 V=1 P=32", " = ldk_f32(p0", " = lds_f32(p0", "audit.unit_moved"},
        {"W=1 V=1 P=32", "stk_f32(p1", "st_f32(p1", "audit.unit_moved"},
        {"W=1 V=1 P=32", "srg_f32(p1", "sr_f32(p1", "audit.unit_moved"},
    };
    for (int i = 0; i < COUNT(row); i++) {
        Desk d;
        Unit u;
        open_desk(&d, "softmax", row[i].plan, "avx512");
        assert_int_equal(unit_emit(&d.cx, &d.pb, d.k, &u), OK);
        assert_int_equal(audit_unit(&d.cx, d.k, &u), OK);
        u.text = replace(&d.cx, u.text, row[i].what, row[i].with);
        Err e = audit_unit(&d.cx, d.k, &u);
        if (e) met[d.cx.first->slug] = true;
        if (e != ERR_INTERNAL || !str_eq(slug_text(d.cx.first->slug), row[i].slug))
            fail_msg("%s -> %s: %s", row[i].what, row[i].with, e ? d.cx.first->msg : "not found");
        arena_free(d.cx.a);
    }
}

static void test_slugs(void **state) {
    (void)state;
    for (int s = 0; s < SLUG_COUNT; s++)
        if (str_starts(slug_text((Slug)s), "audit.") && slug_err((Slug)s) == ERR_INTERNAL && !met[s])
            fail_msg("nothing provoked %s", slug_text((Slug)s));
}

int main(void) {
    static struct CMUnitTest tests[COUNT(breaks) + 5];
    int n = 0;
    for (int i = 0; i < COUNT(breaks); i++)
        tests[n++] = (struct CMUnitTest){breaks[i].what, test_break, NULL, NULL, (void *)(uintptr_t)&breaks[i]};
    tests[n++] = (struct CMUnitTest){"judged by other machines and promises", test_judged_by, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"all kernels pass", test_library, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"what was found once", test_found, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"units", test_units, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"every finding was met", test_slugs, NULL, NULL, NULL};
    return _cmocka_run_group_tests("audit", tests, (size_t)n, NULL, NULL);
}
