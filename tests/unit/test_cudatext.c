/* The CUDA dialect without a GPU: what it emits is compiled by NVRTC where that is installed, and what does not spill
 * is held against what was promised. */
#include "../diff/match.h"
#include "../diff/randplan.h"

#include "fakecuda.h"

static const char arch[] = "sm_90a";

/* registers: that a lane may have for the groups a unit should hold */
static const struct {
    const char *file, *kernel, *shape, *plan;
    Ty ty;
    int registers;
} cases[] = {
    {"softmax", "softmax", "rows=32768,n=4096", "W=128 V=8 load=keep store=stream div=reciprocal hold.x=register",
     TY_BF16, 64},
    {"reduce", "column_sum", "rows=1000,n=70", "W=16 V=1 P=32 acc=2 flight=4", TY_F32, 64},
    {"reduce", "argmax", "rows=8,n=1000", "W=8 V=4 P=16", TY_F32, 64},
    {"softmax", "softmax", "rows=4096,n=32768", "W=512 V=8 load=keep stat=online flight=2", TY_BF16, 128},
    {"softmax", "log_softmax", "rows=100,n=769", "W=96 V=1 load=no-allocate hold.x=register", TY_F32, 64},
    {"rmsnorm", "rmsnorm", "rows=32768,n=4096", "W=256 V=8 load=keep hold.x=register", TY_BF16, 48},
    {"rmsnorm", "rmsnorm", "rows=32768,n=8192", "W=64 V=8 hold.x=register flight=4", TY_BF16, 168},
    {"layernorm", "layernorm", "rows=65536,n=1024", "W=32 V=8 P=8 load=keep stat=shifted hold.x=register min-groups=4",
     TY_BF16, 64},
    {"layernorm", "layernorm", "rows=128,n=8193", "W=1024 V=4 stat=welford acc=1", TY_F32, 64},
    {"layernorm", "residual_layernorm", "rows=128,n=2056", "W=16 V=8 P=3 load=stream index=32", TY_F16, 168},
    {"quantize", "rmsnorm_fp8_groups", "rows=64,g=8,k=128", "W=32 V=4 P=2", TY_BF16, 128},
    {"quantize", "quantize_i8", "rows=64,n=4096", "W=128 V=16 load=plain hold.x=register", TY_F8E4M3, 128},
    {"reduce", "argmax", "rows=8,n=151936", "W=1024 V=8 flight=2", TY_BF16, 64},
    {"reduce", "sum", "rows=16,n=40", "W=4 V=2 P=8 acc=4", TY_F64, 64},
    {"softmax", "softmax", "rows=4096,n=32768", "W=512 V=8 load=keep div=reciprocal hold.x=shared", TY_BF16, 64},
    {"layernorm", "layernorm", "rows=64,n=4098", "W=256 V=8 early=on hold.x=register", TY_BF16, 168},
    {"cross_entropy", "cross_entropy", "rows=32,n=1000", "W=64 V=4 acc=2 U=2", TY_F32, 64},
    {"reduce", "argmax", "rows=8,n=151936", "W=256 V=8 cluster=16 exchange=bytes flight=4 overlap=on", TY_BF16, 64},
    {"reduce", "argmax", "rows=8,n=151936", "W=256 V=8 cluster=16 flight=4 overlap=on", TY_BF16, 64},
    {"softmax", "softmax", "rows=2048,n=131072", "W=256 V=8 cluster=8 load=keep exp=fast hold.x=shared", TY_BF16, 40},
    /* its copies were instructions that are none, which are not counted, while their place was a uniform register */
    {"softmax", "softmax", "rows=2048,n=131072",
     "W=256 V=8 cluster=8 exchange=bytes hold.x=shared load=keep store=stream overlap=on stages=2 flight=2 stat=online "
     "exp=fast div=reciprocal",
     TY_BF16, 40},
    {"softmax", "softmax", "rows=2048,n=131072",
     "W=256 V=8 cluster=8 hold.x=shared load=keep store=stream overlap=on stages=2 flight=2 stat=online exp=fast "
     "div=reciprocal",
     TY_BF16, 40},
    {"softmax", "softmax", "rows=1,n=50256",
     "W=128 V=4 cluster=16 exchange=bytes stat=online combine=pair hold.x=register exp=fast", TY_F32, 64},
    {"softmax", "softmax", "rows=1,n=50256", "W=128 V=4 cluster=16 stat=online combine=pair hold.x=register exp=fast",
     TY_F32, 64},
    {"reduce", "sum", "rows=1,n=1000003", "W=512 V=4 split=64 flight=4 overlap=on", TY_F32, 64},
    {"reduce", "column_sum", "rows=10000,n=70", "W=32 V=1 P=32 split=8 flight=8", TY_F32, 64},
    {"cross_entropy", "cross_entropy", "rows=8,n=128256", "W=512 V=8 split=16 flight=2 stat=online combine=pair",
     TY_BF16, 64},
    {"layernorm", "layernorm", "rows=128,n=8193",
     "W=512 V=1 cluster=2 stat=shifted hold.x=register early=on overlap=on", TY_F32, 64},
    /* as many registers as eight groups of 256 lanes may have, or not many more; these needed 40, 37, 47 and, without
     * any to spare, 127 and 128 while compilers widened once what they hold */
    {"layernorm", "layernorm", "rows=32768,n=4096",
     "W=256 V=8 stat=shifted load=keep hold.x=register overlap=fetch contract=on", TY_BF16, 32},
    {"rmsnorm", "rmsnorm", "rows=32768,n=4096", "W=256 V=8 load=keep hold.x=register overlap=on", TY_BF16, 32},
    {"softmax", "softmax", "rows=32768,n=4096",
     "W=128 V=8 div=reciprocal load=keep hold.x=register exp=fast overlap=on contract=on", TY_BF16, 40},
    /* all that min-groups leaves: widened once for many rows (measured: 262 and 268 us for 277 and 333) */
    {"rmsnorm", "rmsnorm", "rows=2048,n=131072",
     "W=256 V=8 cluster=8 hold.x=shared hold.w=register load=keep stages=1 grid=2 ahead=2 min-groups=2 contract=on",
     TY_BF16, 128},
    {"layernorm", "layernorm", "rows=2048,n=131072",
     "W=256 V=8 cluster=8 stat=shifted hold.x=shared hold.g=shared hold.b=register load=keep stages=2 grid=2 ahead=1 "
     "min-groups=2 flight=2 contract=on",
     TY_BF16, 128},
    /* and this 34 while the parts of subgroups came four at a time */
    {"softmax", "softmax", "rows=1024,n=4096", "W=256 V=4 hold.x=register exp=fast div=reciprocal overlap=on", TY_F32,
     32},
    /* one kernel for every extent of a range */
    {"softmax", "softmax", "rows=1024,n=1..4096", "W=256 V=4 load=keep hold.x=register", TY_F32, 64},
    {"rmsnorm", "rmsnorm", "rows=1024,n=1..4096", "W=128 V=8 hold.x=register", TY_BF16, 96},
    {"layernorm", "layernorm", "rows=1024,n=1..4096", "W=256 V=4 stat=shifted hold.x=reload", TY_F32, 64},
    {"cross_entropy", "cross_entropy", "rows=1024,n=1..4096", "W=128 V=4", TY_BF16, 64},
};

typedef struct Built {
    int registers, local, loads;
} Built;

/* What the compiler made of the text. */
static Built build(Nvrtc *rtc, const Unit *u, bool loose, const char *what) {
    Built b;
    char *cubin;
    size_t bytes;
    Fail fail;
    if (!nvrtc_build(rtc, &alloc_libc, u, arch, loose, &cubin, &bytes, &fail)) fail_msg("%s: %s", what, fail.text);
    assert_true(cubin_facts(cubin, bytes, &b.registers, &b.local, &b.loads));
    alloc_libc.put(alloc_libc.user, cubin);
    return b;
}

static void test_kernels_compile(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    for (int i = 0; i < COUNT(cases); i += TEST_SHARE) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        emit(&cx, "h200", cases[i].file, cases[i].kernel, cases[i].ty, cases[i].shape, cases[i].plan, &pb, &k, &u);
        assert_int_equal(shape_ranged(&k->shape) >= 0, strstr(cases[i].shape, "..") != NULL);
        for (int loose = 0; loose < 2; loose++) {
            if (loose && i % 4) continue;
            const Built b = build(&rtc, &u, loose, cases[i].plan);
            if (!u.loads || b.loads < u.loads)
                fail_msg("%s %s: %d loads, %d in its text", cases[i].kernel, cases[i].plan, b.loads, u.loads);
            if (b.local || b.registers > cases[i].registers)
                fail_msg("%s %s: %d registers, %d local bytes", cases[i].kernel, cases[i].plan, b.registers, b.local);
        }
        arena_free(cx.a);
    }
    nvrtc_close(&rtc);
}

static void test_random_compile(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    Caps caps;
    caps_preset("h200", &caps);
    const char *many = getenv("ROWFOLD_CUDA_PAIRS");
    for (int seed = 1; seed <= (many ? strtol(many, NULL, 10) : 9 / TEST_SHARE); seed++) {
        uint8_t bytes[RANDPROG_BYTES];
        size_t n = randprog_bytes((uint64_t)seed, bytes), size;
        Match p;
        Unit u;
        char *cubin;
        Fail fail;
        caps.poly_math = seed % 2 != 0;
        assert_true(match_make(&p, "k", bytes, n, (uint64_t)seed, &caps, NULL));
        assert_int_equal(unit_emit(&p.cx, &p.pb, p.kern, &u), OK);
        if (!nvrtc_build(&rtc, &alloc_libc, &u, arch, seed % 3 == 0, &cubin, &size, &fail))
            fail_msg("seed %d: %s", seed, fail.text);
        alloc_libc.put(alloc_libc.user, cubin);
        match_free(&p);
    }
    nvrtc_close(&rtc);
}

/* The text says what the plan says: policies of loads and stores, lanes, groups. */
static void test_text(void **state) {
    (void)state;
    static const struct {
        const char *plan, *has, *lacks;
    } rows[] = {
        {"W=256 V=8 load=keep", "ld16x2_last", "ld16x2_plain"},
        {"W=256 V=8 load=keep hold.x=register", "ld16x2_keep", "ld16x2_last"},
        {"W=256 V=8 load=no-allocate", "ld.global.nc.L1::no_allocate.v4", "evict_last"},
        {"W=256 V=8 load=stream", "ld.global.cs.v4", "evict"},
        {"W=256 V=8 store=stream", "st.global.cs.v4", "evict"},
        {"W=64 V=4 min-groups=3", "__launch_bounds__(64, 3)", "live"},
        {"W=32 V=8 P=4", "live", "__syncthreads"},
        {"W=64 V=8", "__syncthreads", "live"},
        {"W=256 V=8 early=on hold.x=register", "u32 q", "live"},
        {"W=256 V=8 hold.x=shared", "sts16", "s0["},
        {"W=256 V=8 hold.x=shared stages=2", "copies_wait(1);", "    sts16(sh"},
        {"W=256 V=8 hold.x=shared stages=1 load=keep", "cpa16x2_keep((sh0", "copies_wait(1)"},
        {"W=256 V=8 overlap=on", "overlap_start(), overlap_wait();", "fetch_run"},
        {"W=256 V=8 overlap=late", "overlap_wait(), overlap_start();", "fetch_run"},
        {"W=256 V=8 overlap=fetch", "if (lane == 0) fetch_run(p0 + v", "overlap_start(), overlap_wait();"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        emit(&cx, "rtx4060", "rmsnorm", "rmsnorm", TY_BF16, "rows=4096,n=4096", rows[i].plan, &pb, &k, &u);
        assert_int_equal(u.dialect, DIALECT_CUDA);
        if (!strstr(u.text, rows[i].has) || strstr(u.text, rows[i].lacks)) fail_msg("%s:\n%s", rows[i].plan, u.text);
        arena_free(cx.a);
    }
}

/* What short elements share words for is widened in each sweep, and what lanes leave for each other is as wide
 * as it is. */
static void test_words(void **state) {
    (void)state;
    static const struct {
        const char *file, *kernel, *plan, *has, *lacks;
        Ty ty;
    } rows[] = {
        {"rmsnorm", "rmsnorm", "W=256 V=8 hold.x=register", "= hi_bf16(w", " ^ z", TY_BF16},
        {"rmsnorm", "rmsnorm", "W=256 V=8 hold.x=register", "(u32)(rows >> 62)", "(u32)(row >>", TY_BF16},
        {"rmsnorm", "rmsnorm", "W=256 V=8 hold.x=register grid=2", "u32 s0[8]", "nothing", TY_BF16},
        {"softmax", "softmax", "W=128 V=8 hold.x=register", "(u32)(rows >> 61)", "(u32)(rows >> 63)", TY_BF16},
        {"rmsnorm", "rmsnorm", "W=256 V=8 hold.x=register", "] ^ z", "lo_", TY_F16},
        {"rmsnorm", "rmsnorm", "W=256 V=8 hold.x=register", "] ^ z", "lo_", TY_F8E4M3},
        {"rmsnorm", "rmsnorm", "W=256 V=1 hold.x=register", "s0[", "nothing", TY_BF16}, /* a word an element */
        {"rmsnorm", "rmsnorm", "W=256 V=8 hold.x=register.f32", "f32 s0[16]", "nothing", TY_BF16},
        {"rmsnorm", "rmsnorm", "W=256 V=8 hold.x=register early=on", "u32 s0[8]", "(u32)(rows >> 62)", TY_BF16},
        {"rmsnorm", "rmsnorm", "W=256 V=4", "u32 xs[2][1][warps]", "xs[xb][0][1])", TY_F32},
        {"rmsnorm", "rmsnorm", "W=256 V=8", "_2, r", "xget_f32(xs[", TY_BF16},
        {"rmsnorm", "rmsnorm", "W=96 V=4", "xget_f32(xs[xb][0][2])", "lds8", TY_F32}, /* an odd number of subgroups */
        {"reduce", "sum", "W=256 V=2", "u64 xs[2][1][warps]", "lds8", TY_F64},
        {"reduce", "argmax", "W=256 V=4", "u64 xs[2][1][warps]", "lds8", TY_F32},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        emit(&cx, "h200", rows[i].file, rows[i].kernel, rows[i].ty, "rows=4096,n=4096", rows[i].plan, &pb, &k, &u);
        const char *body = strstr(u.text, "rowfold_kernel_");
        if (!strstr(u.text, rows[i].has) || strstr(body, rows[i].lacks))
            fail_msg("%s of %s:\n%s", rows[i].plan, ty_text(rows[i].ty), u.text);
        arena_free(cx.a);
    }
}

/* Steps behind the end of a row of a range are passed over by all lanes, but not where loads should be under way side
 * by side, nor where registers are set. */
static void test_ranged_steps(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *plan;
        int times; /* steps that may be passed over */
    } rows[] = {
        {"rmsnorm", "W=256 V=4 hold.x=register", 3},
        {"rmsnorm", "W=256 V=4 hold.x=shared", 3},
        {"rmsnorm", "W=128 V=4 hold.x=shared", 2}, /* eight steps: both sweeps loop, and end with a part of one */
        {"rmsnorm", "W=256 V=4 hold.x=register flight=2", 1},
        {"softmax", "W=256 V=4 hold.x=register hold.e=shared", 6},
        {"softmax", "W=256 V=4 hold.x=register hold.e=register", 3},
        {"softmax", "W=256 V=4 hold.x=register hold.e=recompute", 6},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        int times = 0;
        emit(&cx, "h200", rows[i].kernel, rows[i].kernel, TY_F32, "rows=64,n=1..4096", rows[i].plan, &pb, &k, &u);
        for (const char *at = u.text; (at = strstr(at, " < size0) {\n")); at++) times++;
        if (times != rows[i].times) fail_msg("%s: %d steps for %d:\n%s", rows[i].plan, times, rows[i].times, u.text);
        arena_free(cx.a);
    }
}

/* A sweep of a range that only loads has a text for short rows and one for long ones, and each ties what was loaded
 * before to its row; what it keeps in registers has one. */
static void test_ranged_texts(void **state) {
    (void)state;
    static const struct {
        const char *file, *kernel, *plan;
        bool two, tied;
    } rows[] = {{"rmsnorm", "rmsnorm", "W=256 V=4 hold.x=shared", true, false},
                {"quantize", "rmsnorm_fp8", "W=256 V=4 early=on hold.x=reload hold.z=register", true, true},
                {"rmsnorm", "rmsnorm", "W=256 V=4 hold.x=register", false, false},
                {"rmsnorm", "rmsnorm", "W=1024 V=4 hold.x=shared", false, false}}; /* one step */
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        emit(&cx, "h200", rows[i].file, rows[i].kernel, TY_F32, "rows=64,n=1..4096", rows[i].plan, &pb, &k, &u);
        const char *shorter = strstr(u.text, "if (size0 <= 2048) {\n"),
                   *longer = shorter ? strstr(shorter, "} else {\n") : NULL;
        if (rows[i].two != (longer != NULL)) fail_msg("%s:\n%s", rows[i].plan, u.text);
        const char *tie = shorter ? strstr(shorter, "|= tie") : NULL;
        const bool both = tie && tie < longer && strstr(longer, "|= tie");
        if (rows[i].two && rows[i].tied != both) fail_msg("%s:\n%s", rows[i].plan, u.text);
        arena_free(cx.a);
    }
}

/* What names its arguments once is a macro, and nothing else is. */
static void test_macros(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *has, *lacks;
        Ty ty;
    } rows[] = {
        {"sum", "#define add_f32(x, y) ((f32)(((f32)(x)) + ((f32)(y))))", "FN f32 add_f32", TY_BF16},
        {"sum", "#define add_i64(x, y) ((i64)((i64)((u64)((i64)(x)) + (u64)((i64)(y)))))", "FN i64 add_i64", TY_I32},
        {"max", "FN i64 max_i64(i64 x, i64 y) { return x > y ? x : y; }", "#define max_i64", TY_I32},
        {"max", "FN f32 max_f32(f32 x, f32 y) { f32 r; asm(", "#define max_f32", TY_F32},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        emit(&cx, "h200", "reduce", rows[i].kernel, rows[i].ty, "rows=64,n=4096", "W=16 V=4", &pb, &k, &u);
        if (!strstr(u.text, rows[i].has) || strstr(u.text, rows[i].lacks)) fail_msg("%s:\n%s", rows[i].has, u.text);
        arena_free(cx.a);
    }
}

/* Packs are one access where every dense layout allows it, and the launch is told what to ask of memory. */
static void test_alignment(void **state) {
    (void)state;
    static const struct {
        const char *shape, *plan;
        Ty ty;
        int align, each;
    } rows[] = {{"rows=10,n=4096", "W=64 V=8", TY_BF16, 16, 8},
                {"rows=10,n=4098", "W=64 V=8", TY_BF16, 4, 2},
                {"rows=10,n=769", "W=64 V=4", TY_F32, 0, 0},
                {"rows=10,n=64", "W=16 V=1", TY_F32, 0, 0},
                {"rows=10,n=772", "W=64 V=4", TY_F32, 16, 4},
                {"rows=1,n=769", "W=64 V=4", TY_F32, 16, 4}}; /* one row: its stride is never taken */
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        emit(&cx, "h200", "rmsnorm", "rmsnorm", rows[i].ty, rows[i].shape, rows[i].plan, &pb, &k, &u);
        assert_int_equal(u.align[0], rows[i].align);
        assert_int_equal(u.align_each[0], rows[i].each);
        assert_int_equal(u.align_dims[0], rows[i].each ? 1 : 0); /* the rows' stride, not the elements' */
        arena_free(cx.a);
    }
}

static void test_spills(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    Cx cx = {.a = arena_new(NULL, NULL)};
    Problem pb;
    Kern *k;
    Unit u;
    char *cubin;
    size_t bytes;
    Fail fail;
    int registers, local, loads;
    /* 64 slots of stripe a lane, and eight groups of 256 lanes a unit: 32 registers each */
    emit(&cx, "h200", "softmax", "softmax", TY_F32, "rows=64,n=16384", "W=256 V=4 hold.x=register min-groups=8", &pb,
         &k, &u);
    assert_true(nvrtc_build(&rtc, &alloc_libc, &u, arch, false, &cubin, &bytes, &fail));
    assert_true(cubin_facts(cubin, bytes, &registers, &local, &loads));
    assert_true(local > 0 && registers <= 32);
    cubin[0] = 'x';
    assert_false(cubin_facts(cubin, bytes, &registers, &local, &loads));
    alloc_libc.put(alloc_libc.user, cubin);
    u.text = "this is no C";
    u.bytes = strlen(u.text);
    assert_false(nvrtc_build(&rtc, &alloc_libc, &u, arch, false, &cubin, &bytes, &fail));
    assert_int_equal(fail.slug, S_BUILD_FAILED);
    assert_non_null(strstr(fail.text, "error"));
    arena_free(cx.a);
    nvrtc_close(&rtc);
}

/* A row that is read again is loaded again, whatever the compiler thinks of it. */
static void test_holds_stay_apart(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    static const char *const plans[] = {"W=256 V=8 load=keep hold.x=reload", "W=256 V=8 load=plain hold.x=reload",
                                        "W=256 V=8 load=plain hold.x=register", "W=256 V=8 hold.x=shared stages=1"};
    static const int want[] = {6, 6, 4, 4},
                     again[] = {1, 1, 0, 0}; /* two packs of a row and two of the weights, and the row's again */
    for (int i = 0; i < COUNT(plans); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        emit(&cx, "h200", "rmsnorm", "rmsnorm", TY_BF16, "rows=4096,n=4096", plans[i], &pb, &k, &u);
        const int loads = build(&rtc, &u, false, plans[i]).loads;
        assert_int_equal(loads, want[i]);
        assert_in_range(u.loads, 1, loads);
        assert_int_equal(u.loads_again, again[i]);
        arena_free(cx.a);
    }
    nvrtc_close(&rtc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_compile),
        cmocka_unit_test(test_random_compile),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_ranged_steps),
        cmocka_unit_test(test_ranged_texts),
        cmocka_unit_test(test_macros),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_spills),
        cmocka_unit_test(test_holds_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
