/* Plans: text round trips, every refusal with its numbers, stripe budgets by both rules, spaces and the prior system's
 * search. */
#include "../../src/lang/lang.h"
#include "../../src/plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char programs[] =
    "kernel softmax for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
    "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n"
    "kernel rmsnorm for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n], eps: f32 = 1e-5) {\n"
    "    v = mean(x * x)\n    y = x / sqrt(v + eps) * w\n}\n"
    "kernel layernorm for rows (x: in T[rows, n], g: in T[n], b: in T[n], y: out T[rows, n], eps: f32 = 1e-5) {\n"
    "    mu = mean(x)\n    c = x - mu\n    v = mean(c * c)\n    y = c / sqrt(v + eps) * g + b\n}\n"
    "kernel squares for rows (x: in T[rows, n], s: out T[rows]) {\n    s = sum(x * x)\n}\n"
    "kernel moments for rows (x: in T[rows, n], m: out T[rows], v: out T[rows]) {\n    m = mean(x)\n    v = var(x)\n}\n"
    "kernel serial for rows (x: in T[rows, n], s: out T[rows]) {\n    s = sum(x) @ordered\n}\n"
    "kernel column for n (x: in T[rows, n], s: out T[n]) {\n    s = sum(x)\n}\n"
    "kernel pinned for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
    "    hold x: reload\n    hold e: register\n    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n"
    "kernel hopeless for rows (x: in T[rows, n], s: out T[rows]) {\n    hold x: register\n    s = sum(x * x)\n}\n"
    "kernel grouped for rows (x: in T[rows, g, k], y: out T[rows, g, k]) {\n"
    "    a = max(abs(x) over k)\n    y = x / a\n}\n"
    "kernel padded for rows (x: in T[rows, n], s: out T[rows]) {\n"
    "    axis p = 260\n    z = (x[rows, p] else 0) * 2\n    m = max(z)\n    s = sum(exp(z - m))\n}\n"
    "kernel inplace for rows (x: inout T[rows, n], s: out T[rows, n]) {\n"
    "    m = max(x)\n    e = exp(x - m)\n    x = e / m\n    s = e / sum(e)\n}\n"
    "kernel after for rows (x: in T[rows, n], r: in T[rows, n], g: in T[n], s: out T[rows, n], y: out T[rows, n]) {\n"
    "    s = x + r\n    c = s - mean(s)\n    y = c * rsqrt(mean(c * c) + 1e-5) * g\n}\n"
    "kernel two for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
    "    a = x * 2\n    e = exp(a - max(a))\n    y = e * (a + sum(e))\n}\n";

typedef struct Fix {
    Cx cx;
    Problem pb;
} Fix;

static void complain(Cx *cx) {
    Buf b = buf_new(cx->a);
    diag_print(cx, programs, &b);
    fail_msg("%s", b.s ? b.s : "no diagnostic");
}

/* rows -1: not known */
static void fix_at(Fix *f, const char *kernel, Ty t, const char *machine, int64_t rows, int64_t n) {
    f->cx = (Cx){.a = arena_new(&alloc_libc, NULL)};
    assert_non_null(f->cx.a);
    Ast *ast;
    Prog *p;
    TyBind bind = {"*", t};
    if (lang_parse(&f->cx, "test.row", programs, sizeof programs - 1, &ast) ||
        lang_kernel(&f->cx, ast, kernel, &bind, 1, NULL, 0, &p))
        complain(&f->cx);
    Shape s = {0};
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    for (int i = 0; i < p->naxes; i++) {
        const char *a = p->axis[i].name;
        if (str_eq(a, "rows")) s.n[i] = rows;
        if (str_eq(a, "n")) s.n[i] = n;
        if (str_eq(a, "g")) s.n[i] = 4;
        if (str_eq(a, "k")) s.n[i] = n;
    }
    Caps caps;
    assert_true(caps_preset(machine, &caps));
    if (problem_make(&f->cx, p, &s, &caps, 0, &f->pb)) complain(&f->cx);
}

static void fix(Fix *f, const char *kernel, const char *machine, int64_t n) {
    fix_at(f, kernel, TY_F32, machine, 1024, n);
}

static void done(Fix *f) {
    arena_free(f->cx.a);
}

static Plan read_plan(Fix *f, const char *text) {
    Plan p;
    if (plan_read(&f->cx, text, &p)) complain(&f->cx);
    return p;
}

static Stripes legal_plan(Fix *f, const char *text, Sched *sc) {
    Plan p = read_plan(f, text);
    Stripes st;
    if (plan_check(&f->cx, &f->pb, &p, sc, &st)) complain(&f->cx);
    return st;
}

/* Refused with that slug; its message or what it says would be accepted has `says`. */
static void refused_as(Cx *cx, Err e, const char *slug, const char *says) {
    assert_int_not_equal(e, OK);
    assert_non_null(cx->last);
    assert_string_equal(slug_text(cx->last->slug), slug);
    assert_int_equal(e, slug_err(cx->last->slug));
    Buf b = buf_new(cx->a);
    buf_fmt(&b, "%s | %s", cx->last->msg, cx->last->accept ? cx->last->accept : "");
    if (!strstr(b.s, says)) fail_msg("'%s' does not say '%s'", b.s, says);
}

static void refused(Fix *f, const char *text, const char *slug, const char *says) {
    Plan p = read_plan(f, text);
    refused_as(&f->cx, plan_check(&f->cx, &f->pb, &p, NULL, NULL), slug, says);
}

/* ---- text ---- */

static void plans_print_and_read_back(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    static const char *const names[] = {"x", "e", "gamma_2"};
    Rng r = {7};
    for (int round = 0; round < 500; round++) {
        Plan p = plan_default(), q;
        for (int d = 0; d < DIM_COUNT; d++) *plan_dim(&p, d) = dim_info(d)->legal[rng_int(&r, dim_info(d)->nlegal)];
        p.nholds = rng_int(&r, 4);
        for (int i = 0; i < p.nholds; i++) {
            p.hold[i].name = names[i];
            p.hold[i].hold = (Hold)(HOLD_RELOAD + rng_int(&r, HOLD_COUNT - HOLD_RELOAD));
        }
        Buf a = buf_new(cx.a), b = buf_new(cx.a);
        plan_print(&p, &a);
        assert_int_equal(plan_read(&cx, a.s, &q), OK);
        plan_print(&q, &b);
        assert_string_equal(a.s, b.s);
        for (int d = 0; d < DIM_COUNT; d++) assert_int_equal(plan_dim_get(&p, d), plan_dim_get(&q, d));
        for (int i = 0; i < p.nholds; i++) assert_int_equal(plan_hold(&q, names[i]), p.hold[i].hold);
    }
    Plan d;
    assert_int_equal(plan_read(&cx, " ,\n", &d), OK);
    for (int i = 0; i < DIM_COUNT; i++) {
        assert_int_equal(plan_dim_get(&d, i), dim_info(i)->def);
        assert_true(dim_is_legal(i, dim_info(i)->def));
        assert_int_equal(dim_find(dim_info(i)->name, strlen(dim_info(i)->name)), i);
        for (int k = 1; k < dim_info(i)->nlegal; k++) assert_true(dim_info(i)->legal[k - 1] < dim_info(i)->legal[k]);
    }
    assert_int_equal(plan_read(&cx, "stat=welford,W=96 hold.x=register.f32", &d), OK);
    assert_true(d.stat == STAT_WELFORD && d.W == 96 && plan_hold(&d, "x") == HOLD_REGISTER32);
    arena_free(cx.a);
}

static void hostile_plan_texts(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(&alloc_libc, NULL), .max_diags = 1000000};
    static const struct {
        const char *text, *slug, *says;
    } bad[] = {
        {"W", "plan.text", "W has no value"},
        {"=", "plan.unknown_dimension", "W V U"},
        {"lanes=4", "plan.unknown_dimension", "hold.NAME"},
        {"w=4", "plan.unknown_dimension", "w"},
        {"W=", "plan.value_not_legal", "1 2 4 8 16 32"},
        {"W=33", "plan.value_not_legal", "W=33"},
        {"W=-32", "plan.value_not_legal", "W=-32"},
        {"W=4294967328", "plan.value_not_legal", "W=4294967328"},
        {"W=99999999999999999999999999", "plan.value_not_legal", "1024"},
        {"W=32x", "plan.value_not_legal", "W=32x"},
        {"W=32 W=32", "plan.named_twice", "W"},
        {"stat=fast", "plan.value_not_legal", "two-pass online shifted welford"},
        {"stat=1", "plan.value_not_legal", "stat=1"},
        {"hold=register", "plan.unknown_dimension", "hold"},
        {"hold.=register", "plan.unknown_dimension", "hold."},
        {"hold.x=auto", "plan.value_not_legal", "reload register register.f32 output shared recompute"},
        {"hold.x=", "plan.value_not_legal", "reload"},
        {"hold.x", "plan.text", "hold.x has no value"},
        {"hold.x=reload hold.x=register", "plan.named_twice", "hold.x"},
        {"hold.1x=reload", "plan.text", "hold.1x"},
        {"hold.a.b=reload", "plan.text", "hold.a.b"},
        {"\x01\x02\xff\xfe", "plan.text", "????"},
        {"W=\xff\xff", "plan.value_not_legal", "W=??"},
    };
    for (int i = 0; i < COUNT(bad); i++) {
        Plan p;
        refused_as(&cx, plan_read(&cx, bad[i].text, &p), bad[i].slug, bad[i].says);
    }
    Buf many = buf_new(cx.a);
    for (int i = 0; i <= MAX_CANDS; i++) buf_fmt(&many, "hold.x%d=register ", i);
    Plan p;
    refused_as(&cx, plan_read(&cx, many.s, &p), "plan.text", "more than 64 holds");
    char *longest = NEWN(cx.a, char, 100001);
    memset(longest, 'W', 100000);
    refused_as(&cx, plan_read(&cx, longest, &p), "plan.text", "...");
    assert_true(strlen(cx.last->msg) < 100);
    Rng r = {3};
    static const char letters[] = "WVUP=,. :/-hold.xregister0123456789\n\x80";
    for (int round = 0; round < 20000; round++) { /* any bytes: a plan that prints and reads back, or a diagnostic */
        char text[40];
        int n = rng_int(&r, 39), before = cx.ndiags;
        for (int i = 0; i < n; i++) text[i] = letters[rng_int(&r, (int)sizeof letters - 1)];
        text[n] = 0;
        if (plan_read(&cx, text, &p))
            assert_int_equal(cx.ndiags, before + 1);
        else
            for (int d = 0; d < DIM_COUNT; d++) assert_true(dim_is_legal(d, plan_dim_get(&p, d)));
    }
    arena_free(cx.a);
}

/* ---- refusals ---- */

static void values_out_of_their_list(void **state) {
    (void)state;
    Fix f;
    fix(&f, "softmax", "m1max", 4096);
    for (int d = 0; d < DIM_COUNT; d++) {
        Plan p = plan_default();
        Cx own = {.a = f.cx.a};
        *plan_dim(&p, d) = 12345;
        refused_as(&own, plan_check(&own, &f.pb, &p, NULL, NULL), "plan.value_not_legal", "=12345");
        *plan_dim(&p, d) = -1;
        refused_as(&own, plan_check(&own, &f.pb, &p, NULL, NULL), "plan.value_not_legal", "=-1");
    }
    Plan p = plan_default();
    p.nholds = 1;
    p.hold[0].name = "x";
    p.hold[0].hold = HOLD_AUTO;
    refused_as(&f.cx, plan_check(&f.cx, &f.pb, &p, NULL, NULL), "plan.value_not_legal", "hold.x=0");
    p.hold[0].hold = (Hold)99;
    refused_as(&f.cx, plan_check(&f.cx, &f.pb, &p, NULL, NULL), "plan.value_not_legal", "hold.x=99");
    p.hold[0].hold = p.hold[1].hold = HOLD_RELOAD;
    p.hold[1].name = "x";
    p.nholds = 2;
    refused_as(&f.cx, plan_check(&f.cx, &f.pb, &p, NULL, NULL), "plan.named_twice", "hold.x");
    p.nholds = 65;
    refused_as(&f.cx, plan_check(&f.cx, &f.pb, &p, NULL, NULL), "plan.value_not_legal", "holds=65 most=64");
    done(&f);
}

static void the_machine_refuses(void **state) {
    (void)state;
    Fix f;
    fix(&f, "softmax", "m1max", 4096);
    refused(&f, "W=1024 P=2", "plan.group_too_large", "W=1024 P=2 need=2048 budget=1024");
    refused(&f, "V=8", "plan.pack_too_wide", "V=8 of x f32: need=32 budget=16");
    refused(&f, "W=64 combine=outer", "plan.combine_outer", "W=64 subgroup=32");
    refused(&f, "load=keep", "plan.no_load_policy", "load=keep");
    refused(&f, "store=stream", "plan.no_store_policy", "store=stream");
    refused(&f, "cluster=4,P=2,W=8", "plan.not_on_this_machine", "cluster=4 on a metal machine: most=1");
    refused(&f, "split=8", "plan.not_on_this_machine", "split=8");
    refused(&f, "exchange=bytes", "plan.not_on_this_machine", "exchange=bytes: not on metal");
    refused(&f, "stages=2", "plan.not_on_this_machine", "stages=2");
    refused(&f, "min-groups=2", "plan.not_on_this_machine", "min-groups=2");
    refused(&f, "early=free", "plan.not_on_this_machine", "early=free: not on metal");
    refused(&f, "ahead=1", "plan.not_on_this_machine", "ahead=1: not on metal");
    refused(&f, "tail=head-shift", "plan.not_on_this_machine", "head-shift");
    refused(&f, "prefetch=1", "plan.not_on_this_machine", "prefetch=1: not on metal");
    refused(&f, "stagger=on", "plan.not_on_this_machine", "stagger=on: not on metal");
    refused(&f, "W=512 V=4 P=2 hold.x=shared", "plan.shared_exceeded", "budget=32768");
    legal_plan(&f, "W=512 V=4 early=on hold.x=shared", NULL);
    legal_plan(&f, "W=32 combine=outer P=32", NULL);
    legal_plan(&f, "W=1024 V=4 P=1", NULL);
    f.pb.caps.max_lanes = 256;
    refused(&f, "W=512", "plan.too_many_lanes", "W=512 most=256");
    f.pb.strided = 3; /* strides given at run time: no packs, so no widest access */
    legal_plan(&f, "V=8", NULL);
    done(&f);
    fix(&f, "softmax", "h200", 4096);
    legal_plan(&f, "load=keep store=stream W=256 V=4 hold.x=register", NULL);
    f.pb.caps.subgroup = 64;
    refused(&f, "W=96", "plan.lanes_not_subgroups", "W=96 subgroup=64");
    legal_plan(&f, "W=16 V=4", NULL);
    done(&f);
    fix_at(&f, "softmax", TY_BF16, "h200", -1, 4096);
    legal_plan(&f, "V=8 W=256", NULL);
    refused(&f, "V=16 W=256", "plan.pack_too_wide", "bf16: need=32 budget=16");
    done(&f);
    fix(&f, "softmax", "avx2", 4096);
    refused(&f, "hold.x=shared", "plan.no_shared", "shared_bytes=0");
    refused(&f, "cluster=4", "plan.not_on_this_machine", "cluster=4 on a host machine: most=1");
    legal_plan(&f, "V=16 combine=outer prefetch=2 store=stream P=32", NULL);
    legal_plan(&f, "W=8 stagger=on P=4 hold.e=register", NULL);
    refused(&f, "W=8 stagger=on hold.x=register", "plan.stagger", "hold.x=register: kept over 3 sweeps, most=2");
    refused(&f, "W=8 stagger=on fuse=off", "plan.stagger", "fuse=off W=8 P=1");
    refused(&f, "W=1 stagger=on P=8", "plan.stagger", "fuse=on W=1 P=8");
    Caps off = f.pb.caps;
    off.subgroup = 0;
    Problem pb;
    refused_as(&f.cx, problem_make(&f.cx, f.pb.source, &f.pb.shape, &off, 0, &pb), "call.argument", "subgroup=0");
    caps_preset("m1max", &off);
    off.poly_math = false;
    refused_as(&f.cx, problem_make(&f.cx, f.pb.source, &f.pb.shape, &off, 0, &pb), "call.argument", "poly_math=1");
    done(&f);
    fix_at(&f, "softmax", TY_F64, "avx2", 4, 100);
    caps_preset("m1max", &off);
    refused_as(&f.cx, problem_make(&f.cx, f.pb.source, &f.pb.shape, &off, 0, &pb), "plan.no_f64", "x is f64");
    done(&f);
}

static void the_shape_refuses(void **state) {
    (void)state;
    Fix f;
    fix(&f, "softmax", "m1max", 4097);
    refused(&f, "tail=exact W=256 V=4", "plan.tail_not_exact", "N=4097 is not a multiple of W*V=1024");
    legal_plan(&f, "tail=exact W=1 V=1", NULL);
    done(&f);
    fix(&f, "softmax", "m1max", 4096);
    legal_plan(&f, "tail=exact W=256 V=4 index=32", NULL);
    done(&f);
    fix_at(&f, "squares", TY_F32, "avx512", 1, 1ll << 31);
    refused(&f, "index=32", "plan.index_too_narrow", "2147483648");
    legal_plan(&f, "index=64", NULL);
    done(&f);
    fix_at(&f, "softmax", TY_F32, "avx512", 1 << 20, 4096);
    refused(&f, "index=32", "plan.index_too_narrow", "x has 4294967296 elements");
    done(&f);
    fix_at(&f, "softmax", TY_F32, "avx512", -1, 4096);
    legal_plan(&f, "index=32", NULL);
    refused(&f, "acc=2 stat=online", "plan.acc_with_stat", "acc=2 with stat=online");
    refused(&f, "stat=welford", "plan.stat_unused", "softmax");
    refused(&f, "stat=online fuse=off", "plan.stat_needs_fuse", "fuse=off");
    legal_plan(&f, "acc=4 flight=8 U=4", NULL);
    done(&f);
    fix(&f, "layernorm", "avx512", 4096);
    refused(&f, "acc=2 stat=welford", "plan.acc_with_stat", "acc=2 with stat=welford");
    legal_plan(&f, "acc=2 stat=shifted", NULL);
    done(&f);
    fix(&f, "serial", "avx512", 4096);
    refused(&f, "W=2", "plan.order_needs_one_lane", "sum @ordered with W=2 acc=1 flight=1");
    refused(&f, "W=1 acc=2", "plan.order_needs_one_lane", "acc=2");
    refused(&f, "W=1 flight=2", "plan.order_needs_one_lane", "flight=2");
    legal_plan(&f, "W=1 V=8", NULL);
    done(&f);
}

static void holds_are_refused(void **state) {
    (void)state;
    Fix f;
    fix(&f, "softmax", "avx512", 4096);
    refused(&f, "hold.q=register", "plan.hold_unknown", "e");
    refused(&f, "hold.q=reload", "plan.hold_unknown", "softmax has no such value");
    refused(&f, "hold.m=register", "plan.hold_single_phase", "hold.m=register");
    refused(&f, "hold.y=register", "plan.hold_single_phase", "hold.y=register");
    refused(&f, "stat=online hold.e=register", "plan.hold_single_phase", "x");
    legal_plan(&f, "stat=online hold.e=recompute hold.x=register", NULL);
    refused(&f, "hold.e=reload", "plan.hold_not_input", "e is computed");
    refused(&f, "hold.x=recompute", "plan.hold_is_input", "x is an input");
    refused(&f, "hold.x=output", "plan.hold_no_home", "hold.x=output");
    refused(&f, "hold.x=register.f32", "plan.hold_not_narrow", "storage is f32");
    refused(&f, "hold.e=register.f32", "plan.hold_not_narrow", "e");
    legal_plan(&f, "hold.e=output hold.x=reload", NULL);
    f.pb.noalias = false;
    refused(&f, "hold.x=register", "plan.no_alias_promise", "hold.x=register");
    refused(&f, "hold.e=output", "plan.no_alias_promise", "hold.e=output");
    legal_plan(&f, "hold.x=reload hold.e=recompute", NULL);
    done(&f);
    fix(&f, "squares", "avx512", 4096); /* two uses in one sweep are one read */
    refused(&f, "hold.x=register", "plan.hold_single_phase", "nothing");
    legal_plan(&f, "hold.x=reload", NULL);
    done(&f);
    fix(&f, "pinned", "avx512", 4096);
    refused(&f, "hold.x=register", "plan.hold_pinned", "the program pins reload");
    refused(&f, "hold.e=recompute", "plan.hold_pinned", "register");
    refused(&f, "stat=online", "plan.hold_single_phase", "hold.e=register");
    Sched sc;
    Stripes st = legal_plan(&f, "W=64", &sc); /* what is pinned needs no naming */
    assert_int_equal(st.live, 64);
    Plan p = read_plan(&f, "W=64");
    plan_complete(&sc, &p);
    assert_int_equal(plan_hold(&p, "x"), HOLD_RELOAD);
    assert_int_equal(plan_hold(&p, "e"), HOLD_REGISTER);
    done(&f);
    fix(&f, "hopeless", "avx512", 4096);
    refused(&f, "W=64", "plan.hold_single_phase", "hold.x=register");
    done(&f);
    fix(&f, "inplace", "avx512", 4096); /* x is written one sweep before s needs e once more */
    refused(&f, "hold.x=reload", "plan.inout_overwritten", "x is written in sweep 1 and read in sweep 2");
    legal_plan(&f, "hold.x=register", NULL);
    legal_plan(&f, "hold.x=reload hold.e=register", NULL);
    done(&f);
    fix(&f, "two", "avx512", 4096);
    refused(&f, "hold.a=output hold.e=output", "plan.hold_home_taken", "a and e would both live in y");
    legal_plan(&f, "hold.a=output hold.e=register", NULL);
    done(&f);
}

/* ---- stripes ---- */

typedef struct Budget {
    const char *kernel;
    int64_t n;
    int W;
    const char *holds;
    int64_t sum;
} Budget;

static void old_rule_figures(void **state) {
    (void)state;
    static const Budget all[] = {
        {"softmax", 8193, 256, "hold.x=register hold.e=register", 66},
        {"layernorm", 8193, 256, "hold.x=register hold.c=register", 66},
        {"rmsnorm", 8193, 256, "hold.x=register", 33},
        {"softmax", 8193, 512, "hold.x=register hold.e=register", 34},
        {"layernorm", 8193, 512, "hold.x=register hold.c=register", 34},
        {"rmsnorm", 4096, 512, "hold.x=register", 8},
        {"softmax", 4096, 512, "hold.x=register hold.e=register", 16},
        {"layernorm", 4096, 512, "hold.x=register hold.c=register", 16},
        {"softmax", 4096, 512, "hold.x=reload hold.e=register", 8},
        {"rmsnorm", 4096, 512, "hold.x=reload", 0},
    };
    for (int i = 0; i < COUNT(all); i++) {
        Fix f;
        fix(&f, all[i].kernel, "m1max", all[i].n);
        f.pb.summed_budget = true;
        const char *text = arena_printf(f.cx.a, "W=%d V=4 U=1 P=1 fuse=off %s", all[i].W, all[i].holds);
        if (all[i].sum > 64) {
            refused(&f, text, "plan.stripe_exceeded", "need=66 budget=64");
        } else {
            Stripes st = legal_plan(&f, text, NULL);
            assert_int_equal(st.sum, all[i].sum);
            assert_true(st.live <= st.sum);
        }
        done(&f);
    }
}

static void live_ranges_are_charged(void **state) {
    (void)state;
    Fix f;
    Sched sc;
    /* padded: 257 columns read as 260 are 9 slots of 32 lanes */
    fix(&f, "padded", "m1max", 257);
    Stripes st = legal_plan(&f, "W=32 hold.z=register", &sc);
    assert_int_equal(st.live, 9);
    done(&f);
    /* grouped: a serial point's slots for every point */
    fix(&f, "grouped", "m1max", 130);
    st = legal_plan(&f, "W=32 hold.x=register", &sc);
    assert_int_equal(st.live, 4 * map_slots(130, 32, 1));
    done(&f);
    /* storage type: half a slot an element, rounded up per value; widened: a whole one */
    fix_at(&f, "rmsnorm", TY_BF16, "m1max", 8, 33);
    st = legal_plan(&f, "W=1 hold.x=register", NULL);
    assert_int_equal(st.live, 17);
    st = legal_plan(&f, "W=1 hold.x=register.f32", NULL);
    assert_int_equal(st.live, 33);
    done(&f);
    fix_at(&f, "rmsnorm", TY_F64, "rtx4060", 8, 30);
    st = legal_plan(&f, "W=1 hold.x=register", NULL);
    assert_int_equal(st.live, 60);
    done(&f);
    /* softmax: x is dead once e is made, but while e is being made both are needed */
    fix(&f, "softmax", "m1max", 4096);
    st = legal_plan(&f, "W=512 V=4 hold.x=register hold.e=register", &sc);
    assert_true(st.live == 16 && st.sum == 16);
    int first, last;
    for (int i = 0; i < sc.ncands; i++) {
        Plan p = read_plan(&f, "hold.x=register hold.e=register");
        sched_live(&sc, f.pb.prog, plan_held(&p, &sc), i, &first, &last);
        if (str_eq(sc.cand[i].name, "x")) assert_true(first == 0 && last == 1);
        if (str_eq(sc.cand[i].name, "e")) assert_true(first == 1 && last == 2);
    }
    done(&f);
    /* hosts: bytes of a row's buffer */
    fix(&f, "softmax", "avx512", 1 << 19);
    refused(&f, "W=64 hold.x=register", "plan.stripe_exceeded", "need=2097152 budget=1048576 bytes a row");
    legal_plan(&f, "W=64 hold.e=output", NULL);
    done(&f);
    fix_at(&f, "squares", TY_F32, "m1max", 1, (1ll << 57) - 1); /* figures past any budget do not wrap */
    legal_plan(&f, "W=1", NULL);
    done(&f);
    fix_at(&f, "softmax", TY_F32, "m1max", 1, (1ll << 57) - 1);
    refused(&f, "W=1 hold.x=register hold.e=register", "plan.stripe_exceeded", "need=35184372088832 budget=64");
    done(&f);
}

/* ---- spaces ---- */

/* The prior system's 12 cases: what each plan's stripes and the budget make of it. */
static void prior_search(void **state) {
    (void)state;
    static const struct { int64_t rows, n; } at[] = {{23, 769}, {128, 2048}, {1024, 4096}, {128, 8193}};
    static const struct {
        const char *kernel, *tile;
    } of[] = {{"softmax", "hold.e=register"}, {"rmsnorm", ""}, {"layernorm", "hold.c=register"}};
    int64_t points = 0, good = 0;
    for (int i = 0; i < COUNT(at); i++)
        for (int k = 0; k < COUNT(of); k++) {
            Fix f;
            fix_at(&f, of[k].kernel, TY_F32, "m1max", at[i].rows, at[i].n);
            f.pb.summed_budget = true;
            Plan base = read_plan(&f, "V=4 fuse=off");
            Space s;
            assert_int_equal(space_of_plan(&f.cx, &base, &s), OK);
            assert_int_equal(space_pin(&f.cx, &f.pb, of[k].tile, &s), OK);
            assert_int_equal(space_open(&f.cx, &f.pb, "W=32/128/256/512/1024,hold.x=reload/register", &s), OK);
            Entry *e;
            int64_t n, legal;
            assert_int_equal(space_list(&f.cx, &f.pb, &s, 10, &e, &n, &legal), OK);
            assert_int_equal(n, 10);
            for (int64_t j = 0; j < n; j++) {
                int64_t each = map_slots(at[i].n, e[j].plan.W, 4);
                int64_t need = each * ((k != 1) + (plan_hold(&e[j].plan, "x") == HOLD_REGISTER));
                assert_int_equal(e[j].legal, need <= 64);
                if (e[j].legal)
                    assert_int_equal(e[j].stripes.sum, need);
                else
                    assert_true(e[j].refused == S_PLAN_STRIPE && strstr(e[j].why, "budget=64"));
            }
            points += n;
            good += legal;
            done(&f);
        }
    assert_int_equal(points, 120);
    assert_int_equal(good, 101);
}

static void default_spaces(void **state) {
    (void)state;
    static const char *const kernels[] = {"softmax", "rmsnorm", "layernorm", "squares", "serial",
                                          "column",  "pinned",  "grouped",   "padded",  "two"};
    static const int64_t widths[] = {1, 3, 64, 4096, 131072};
    const char *const *machines;
    int nmachines = caps_presets(&machines);
    for (int m = 0; m < nmachines; m++)
        for (int k = 0; k < COUNT(kernels); k++)
            for (int w = 0; w < COUNT(widths); w++) {
                if ((m + k + w) % TEST_SHARE) continue;
                Fix f;
                bool unknown = w == 0 && !str_eq(kernels[k], "column"); /* there, rows are elements */
                fix_at(&f, kernels[k], TY_F32, machines[m], unknown ? -1 : 1024, widths[w]);
                Space s;
                Entry *e, *again;
                int64_t n, legal;
                if (space_default(&f.cx, &f.pb, &s)) complain(&f.cx);
                if (space_list(&f.cx, &f.pb, &s, SPACE_DEFAULT, &e, &n, &legal)) complain(&f.cx);
                bool too_long =
                    str_eq(kernels[k], "pinned") && widths[w] > 64 * 1024; /* e is pinned to 64 slots a lane */
                if (!legal && !too_long)
                    fail_msg("%s on %s at %d: nothing legal", kernels[k], machines[m], (int)widths[w]);
                assert_int_equal(f.cx.ndiags, 0); /* refusals are facts, not complaints */
                int64_t bad = 0;
                for (int64_t i = 0; i < n; i++) {
                    Plan p = e[i].plan;
                    Cx own = {.a = f.cx.a};
                    Stripes st;
                    Err err = plan_check(&own, &f.pb, &p, NULL, &st);
                    assert_int_equal(err == OK, e[i].legal);
                    if (err)
                        assert_true(own.first->slug == e[i].refused && str_eq(own.first->msg, e[i].why));
                    else
                        assert_true(st.live == e[i].stripes.live && st.sum == e[i].stripes.sum);
                    bad += err != OK;
                }
                assert_int_equal(n - bad, legal);
                assert_int_equal(space_list(&f.cx, &f.pb, &s, SPACE_DEFAULT, &again, &n, &legal), OK);
                for (int64_t i = 0; i < n; i++) {
                    Buf a = buf_new(f.cx.a), b = buf_new(f.cx.a);
                    plan_print(&e[i].plan, &a);
                    plan_print(&again[i].plan, &b);
                    assert_string_equal(a.s, b.s);
                }
                done(&f);
            }
    Fix f;
    fix(&f, "softmax", "avx512", 4096);
    Space s;
    assert_int_equal(space_default(&f.cx, &f.pb, &s), OK);
    assert_in_range(space_count(&s), 100, 400);
    assert_true(s.n[DIM_W] >= 3 && s.n[DIM_stat] == 2 && s.nholds == 2 && s.n[DIM_store] == 2);
    for (int half = 0; half < 2; half++) { /* GPUs begin with the widest pack */
        Fix g;
        fix_at(&g, "layernorm", half ? TY_BF16 : TY_F32, "h200", -1, 4096);
        Space wide;
        assert_int_equal(space_default(&g.cx, &g.pb, &wide), OK);
        assert_int_equal(wide.value[DIM_V][0], half ? 8 : 4);
        assert_true(wide.n[DIM_W] >= 4 && wide.n[DIM_stat] == 3);
        done(&g);
    }
    f.pb.noalias = false;
    assert_int_equal(space_default(&f.cx, &f.pb, &s), OK);
    assert_true(s.nhold[0] == 1 && s.nhold[1] == 1);
    done(&f);
}

static void space_texts(void **state) {
    (void)state;
    Fix f;
    fix_at(&f, "softmax", TY_BF16, "h200", 1024, 4096);
    Plan base = plan_default();
    Space s;
    assert_int_equal(space_of_plan(&f.cx, &base, &s), OK);
    assert_int_equal(space_count(&s), 1);
    assert_int_equal(space_open(&f.cx, &f.pb, "W=32:128, V=1:4 hold.x hold.e=register/output load", &s), OK);
    assert_int_equal(s.n[DIM_W], 4);
    assert_int_equal(s.n[DIM_V], 3);
    assert_int_equal(s.n[DIM_load], 4);
    assert_int_equal(s.nhold[0], 5); /* x is narrow: reload register register.f32 output shared */
    assert_int_equal(s.nhold[1], 2);
    assert_int_equal(space_count(&s), 4 * 3 * 4 * 5 * 2);
    assert_int_equal(space_pin(&f.cx, &f.pb, "W=256,hold.x=register stat=online", &s), OK);
    assert_int_equal(space_count(&s), 3 * 4 * 2);
    bool seen[3 * 4 * 2] = {0};
    for (int64_t i = 0; i < space_count(&s); i++) {
        Plan p;
        space_at(&s, i, &p);
        assert_true(p.W == 256 && plan_hold(&p, "x") == HOLD_REGISTER && p.stat == STAT_ONLINE && p.fuse == FUSE_ON);
        int at = (p.V == 1 ? 0 : p.V == 2 ? 1 : 2) * 8 + p.load * 2 + (plan_hold(&p, "e") == HOLD_OUTPUT);
        assert_false(seen[at]);
        seen[at] = true;
    }
    assert_int_equal(space_open(&f.cx, &f.pb, "W=32/32/32:64 store=plain:stream", &s), OK);
    assert_true(s.n[DIM_W] == 2 && s.n[DIM_store] == 2);
    Cx *cx = &f.cx;
    refused_as(cx, space_pin(cx, &f.pb, "W", &s), "plan.text", "pinned to one value");
    refused_as(cx, space_pin(cx, &f.pb, "W=32/64", &s), "plan.text", "W is pinned");
    refused_as(cx, space_pin(cx, &f.pb, "hold.x=reload/register", &s), "plan.text", "hold.x is pinned");
    refused_as(cx, space_open(cx, &f.pb, "W=64:32", &s), "plan.text", "W=64:32 is an empty range");
    refused_as(cx, space_open(cx, &f.pb, "W=32:", &s), "plan.value_not_legal", "1 2 4");
    refused_as(cx, space_open(cx, &f.pb, "W=32:33", &s), "plan.value_not_legal", "W=33");
    refused_as(cx, space_open(cx, &f.pb, "W=/", &s), "plan.value_not_legal", "1 2 4");
    refused_as(cx, space_open(cx, &f.pb, "W=", &s), "plan.value_not_legal", "1 2 4");
    refused_as(cx, space_open(cx, &f.pb, "lanes", &s), "plan.unknown_dimension", "W V U");
    refused_as(cx, space_open(cx, &f.pb, "hold.q", &s), "plan.hold_unknown", "x");
    refused_as(cx, space_open(cx, &f.pb, "hold.x=cached", &s), "plan.value_not_legal", "reload register");
    refused_as(cx, space_open(cx, &f.pb, "load=plain:fast", &s), "plan.value_not_legal",
               "plain keep no-allocate stream");
    Entry *e;
    int64_t n, legal;
    assert_int_equal(space_open(cx, &f.pb, "W,V,U,P,acc,flight,hold.x", &s), OK);
    int64_t size = space_count(&s);
    refused_as(cx, space_list(cx, &f.pb, &s, 1000, &e, &n, &legal), "plan.space_too_large",
               arena_printf(cx->a, "points=%lld limit=1000", (long long)size));
    assert_null(e);
    done(&f);
    Space huge = {0};
    for (int d = 0; d < DIM_COUNT; d++) huge.n[d] = 1000;
    assert_true(space_count(&huge) == INT64_MAX);
}

/* The points of the default space where something is pinned. */
static Entry *pinned(Fix *f, const char *pin, int64_t *n, int64_t *legal) {
    Space s;
    Entry *entry;
    assert_int_equal(space_default(&f->cx, &f->pb, &s), OK);
    assert_int_equal(space_pin(&f->cx, &f->pb, pin, &s), OK);
    assert_int_equal(space_list(&f->cx, &f->pb, &s, 100000, &entry, n, legal), OK);
    return entry;
}

/* Rows that only on-chip memory can hold, in a statistic that needs them once: what is pinned leaves a plan. */
static void way_out(void **state) {
    (void)state;
    static const char *const pins[] = {"W=64,stat=shifted,acc=2", "stat=welford,V=2", "stat=shifted",
                                       "stat=welford,W=96"};
    for (int i = 0; i < COUNT(pins); i++) {
        Fix f;
        int64_t n, legal;
        fix_at(&f, "moments", TY_F16, "h200", -1, 65536);
        pinned(&f, pins[i], &n, &legal);
        if (!legal) fail_msg("%s: none of %lld plans is legal", pins[i], (long long)n);
        done(&f);
    }
}

/* Long rows of few lanes, groups that a row has to itself: what the default space keeps for others does not fit. */
static void other_groups(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *pin;
        int rows, n;
    } c[] = {{"softmax", "W=16", 1000, 262144},      {"after", "cluster=1", 64, 4096},
             {"after", "cluster=1,W=512", 8, 65536}, {"softmax", "exchange=bytes", 4096, 769},
             {"softmax", "exchange=bytes", 64, 1},   {"softmax", "cluster=8", 4096, 1},
             {"column", "cluster=8", 4096, 33},      {"column", "exchange=bytes", 4096, 33},
             {"softmax", "P=64", 4096, 4096},        {"softmax", "P=64", 1, 131072},
             {"softmax", "P=3", 7, 131072},          {"softmax", "ahead=1", 4096, 4096},
             {"softmax", "ahead=3", 8, 131072},      {"after", "ahead=2", 2048, 131072},
             {"softmax", "stages=2", 8, 131072},     {"after", "stages=4", 4096, 769},
             {"squares", "split=2", 8, 4096},        {"softmax", "tail=exact", 4096, 769},
             {"softmax", "tail=exact", 8, 131071},   {"after", "tail=exact", 64, 1000},
             {"softmax", "tail=exact,V=2", 64, 770}, {"squares", "tail=exact,W=8", 64, 1000},
             {"column", "tail=exact", 999, 33}};
    for (int i = 0; i < COUNT(c); i++) {
        Fix f;
        int64_t n, legal;
        fix_at(&f, c[i].kernel, TY_F32, "h200", c[i].rows, c[i].n);
        pinned(&f, c[i].pin, &n, &legal);
        if (!legal) fail_msg("%s at %s: none of %lld plans is legal", c[i].kernel, c[i].pin, (long long)n);
        done(&f);
    }
}

/* On hosts columns lie in as many registers as there are. */
static void columns_by_registers(void **state) {
    (void)state;
    static const struct {
        const char *caps;
        Ty ty;
        int P[2];
    } c[] = {{"avx512", TY_F32, {64, 128}}, {"avx2", TY_F32, {32, 64}}, {"avx2", TY_BF16, {64, 32}}};
    for (int i = 0; i < COUNT(c); i++) {
        Fix f;
        Space s;
        fix_at(&f, "column", c[i].ty, c[i].caps, 1000, 4096);
        assert_int_equal(space_default(&f.cx, &f.pb, &s), OK);
        assert_true(s.n[DIM_P] == 2 && memcmp(s.value[DIM_P], c[i].P, sizeof c[i].P) == 0);
        done(&f);
    }
}

/* Where no plan can have what is pinned, the first point's refusal says why, whatever else it lacks. */
static void reasons(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *pin;
        int rows, n;
        const char *slug, *says;
    } c[] = {{"softmax", "split=2", 8, 131072, "plan.split", "elements wait for what lanes have together"},
             {"serial", "split=2", 8, 4096, "plan.order_needs_one_lane", "split=2"},
             {"squares", "ahead=1,grid=0", 64, 4096, "plan.stages_unused", "no input is read in two sweeps"},
             {"squares", "stages=2", 64, 4096, "plan.stages_unused", "no input is read in two sweeps"},
             {"softmax", "stages=2,hold.x=register", 64, 4096, "plan.stages_unused", "no input is held in on-chip"},
             {"softmax", "ahead=1,grid=0", 64, 4096, "plan.grid", "a group takes one row"},
             {"softmax", "ahead=1,stages=0", 64, 4096, "plan.grid", "no row's inputs are copied"},
             {"softmax", "ahead=3", 2048, 131072, "plan.shared_exceeded", "need=262144"},
             {"softmax", "tail=exact,W=32", 64, 1000, "plan.tail_not_exact", "N=1000 is not a multiple of W*V=128"},
             {"softmax", "tail=exact,cluster=2", 64, 769, "plan.tail_not_exact", "a multiple of W*V*groups"}};
    for (int i = 0; i < COUNT(c); i++) {
        Fix f;
        int64_t n, legal;
        fix_at(&f, c[i].kernel, TY_F32, "h200", c[i].rows, c[i].n);
        const Entry *entry = pinned(&f, c[i].pin, &n, &legal);
        if (legal) fail_msg("%s at %s: %lld plans are legal", c[i].kernel, c[i].pin, (long long)legal);
        if (!str_eq(slug_text(entry[0].refused), c[i].slug) || !strstr(entry[0].why, c[i].says))
            fail_msg("%s at %s: %s: %s", c[i].kernel, c[i].pin, slug_text(entry[0].refused), entry[0].why);
        done(&f);
    }
}

/* A call of two microseconds takes one thread; one of milliseconds all that there are; in between it is searched. */
static void threads_by_size(void **state) {
    (void)state;
    static const struct {
        int64_t rows, n;
        int units, first, count;
    } row[] = {
        {17, 257, 8, 1, 1}, {8192, 4096, 8, 0, 1}, {64, 1000, 8, 0, 2}, {64, 1000, 1, 1, 1}, {-1, 4096, 8, 0, 1}};
    for (int i = 0; i < COUNT(row); i++) {
        Fix f;
        Space s;
        fix_at(&f, "softmax", TY_F32, "avx512", row[i].rows, row[i].n);
        f.pb.caps.units = row[i].units;
        assert_int_equal(space_default(&f.cx, &f.pb, &s), OK);
        assert_int_equal(s.n[DIM_threads], row[i].count);
        assert_int_equal(s.value[DIM_threads][0], row[i].first);
        done(&f);
    }
}

/* Rows are shifted where they start within lines, and more is stored than a core's cache has room for. */
static void shifts_by_size(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *machine;
        int64_t rows, n;
        bool shifts;
    } row[] = {{"softmax", "avx512", 65536, 769, true},    {"softmax", "avx2", 65536, 769, true},
               {"softmax", "avx512", 65536, 768, false},   {"softmax", "avx512", 64, 769, false},
               {"softmax", "avx512", -1, 769, false},      {"softmax", "avx512", 1, 1 << 24 | 1, false},
               {"softmax", "portable", 65536, 769, false}, {"softmax", "h200", 65536, 769, false},
               {"squares", "avx512", 65536, 769, false},   {"column", "avx512", 769, 65536, false}};
    for (int i = 0; i < COUNT(row); i++) {
        Fix f;
        Space s;
        fix_at(&f, row[i].kernel, TY_F32, row[i].machine, row[i].rows, row[i].n);
        assert_int_equal(space_default(&f.cx, &f.pb, &s), OK);
        if ((s.n[DIM_tail] == 2 && s.value[DIM_tail][0] == TAIL_HEAD_SHIFT) != row[i].shifts)
            fail_msg("%s %dx%d on %s", row[i].kernel, (int)row[i].rows, (int)row[i].n, row[i].machine);
        if (row[i].shifts) assert_true(s.n[DIM_store] == 1 && s.value[DIM_store][0] == STORE_STREAM);
        done(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_print_and_read_back),
        cmocka_unit_test(hostile_plan_texts),
        cmocka_unit_test(values_out_of_their_list),
        cmocka_unit_test(the_machine_refuses),
        cmocka_unit_test(the_shape_refuses),
        cmocka_unit_test(holds_are_refused),
        cmocka_unit_test(old_rule_figures),
        cmocka_unit_test(live_ranges_are_charged),
        cmocka_unit_test(prior_search),
        cmocka_unit_test(default_spaces),
        cmocka_unit_test(threads_by_size),
        cmocka_unit_test(shifts_by_size),
        cmocka_unit_test(space_texts),
        cmocka_unit_test(way_out),
        cmocka_unit_test(other_groups),
        cmocka_unit_test(columns_by_registers),
        cmocka_unit_test(reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
