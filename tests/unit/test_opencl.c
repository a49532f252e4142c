/* The OpenCL dialect and runtime without a platform: what is emitted says what the plan says, the runtime over a loader
 * that is none (tests/fault/fake_opencl.c) starts and fails as it should. */
#include "../diff/library.h"

#include "../../src/base/os.h"
#include "../../src/drive/drive.h"
#include "../../src/rt/local.h"

#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *said(const Cx *cx) {
    return cx->last ? cx->last->msg : "no message";
}

/* A kernel of the library with rows and n elements, for a preset with what `caps` says; fails the test where a stage
 * does. */
static void emit(Cx *outer, const char *preset, int subgroup, const char *kernel, Ty ty, int64_t n, const char *text,
                 Problem *pb, Unit *u) {
    Cx own = {.a = outer->a}, *cx = &own; /* what went wrong before is not ours */
    LibKernel *k;
    Caps caps;
    Plan plan;
    Kern *kern;
    const int count = library_read(cx, ty, &k);
    int at = 0;
    while (at < count && !str_eq(k[at].name, kernel)) at++;
    assert_true(at < count && caps_preset(preset, &caps));
    caps.subgroup = subgroup;
    const Shape s = library_shape(k[at].prog, 64, n);
    if (problem_make(cx, k[at].prog, &s, &caps, 0, pb) || plan_read(cx, text, &plan) ||
        kern_lower(cx, pb, &plan, &kern) || kern_verify(cx, kern) || unit_emit(cx, pb, kern, u))
        fail_msg("%s %s: %s", kernel, text, said(cx));
}

static void test_text(void **state) {
    (void)state;
    static const struct {
        int subgroup;
        Ty ty;
        const char *plan, *has, *lacks;
    } rows[] = {
        {1, TY_BF16, "W=1 acc=16", "(1)", "barrier("},
        {1, TY_BF16, "W=64 V=8", "barrier(CLK_LOCAL_MEM_FENCE)", "exchange("},
        {1, TY_BF16, "W=64 V=8", "*(__global uint4 *)(p)", "vload"},
        {1, TY_F16, "W=32", "up_f16", "cl_khr_fp16"},
        {1, TY_F32, "W=32 P=4", "live", "exchange("},
        {1, TY_F32, "W=32 P=4", "ROWFOLD_DIV_F64", "as_double"},
        {1, TY_F64, "W=32", "as_double", "0x1p1023f"},
        {1, TY_F32, "W=64 hold.x=shared", "volatile __local", "s0["},
        {1, TY_F32, "W=256 combine=outer order=fixed acc=4", "barrier(", "exchange("},
        {32, TY_F32, "W=32", "shfl.sync.bfly", "barrier("},
        {32, TY_F32, "W=128", "barrier(", "h /= 2"},
        {32, TY_F32, "W=32", "sub_group_shuffle_xor", "barrier("},
        {16, TY_F32, "W=64", "intel_reqd_sub_group_size(16)", "h /= 2"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Unit u;
        emit(&cx, rows[i].ty == TY_F64 ? "pocl" : "opencl", rows[i].subgroup, "rmsnorm", rows[i].ty, 4096, rows[i].plan,
             &pb, &u);
        assert_int_equal(u.dialect, DIALECT_OPENCL);
        if (!strstr(u.text, rows[i].has) || strstr(u.text, rows[i].lacks)) fail_msg("%s:\n%s", rows[i].plan, u.text);
        if (rows[i].ty != TY_F64 && strstr(u.text, "as_double")) fail_msg("f64 of its own accord:\n%s", u.text);
        arena_free(cx.a);
    }
}

static void test_legal(void **state) {
    (void)state;
    static const struct {
        const char *plan;
        Slug slug;
    } rows[] = {{"W=256 P=2", S_PLAN_GROUP},
                {"W=64 load=keep", S_PLAN_LOAD},
                {"W=64 store=stream", S_PLAN_STORE},
                {"W=64 early=on", S_PLAN_MACHINE},
                {"W=64 min-groups=2", S_PLAN_MACHINE},
                {"W=64 prefetch=1", S_PLAN_MACHINE},
                {"W=64 exp=fast", S_PLAN_MACHINE},
                {"W=256 V=4 hold.x=shared", S_PLAN_SHARED},
                {"W=256 V=4 hold.x=register", S_PLAN_STRIPE}};
    Cx cx = {.a = arena_new(NULL, NULL)};
    Problem pb;
    Unit u;
    Plan plan;
    emit(&cx, "opencl", 1, "softmax", TY_F32, 65536, "W=256 V=4", &pb, &u);
    for (int i = 0; i < COUNT(rows); i++) {
        Cx own = {.a = cx.a};
        assert_int_equal(plan_read(&own, rows[i].plan, &plan), OK);
        assert_int_equal(plan_check(&own, &pb, &plan, NULL, NULL), ERR_REFUSED);
        if (own.first->slug != rows[i].slug) fail_msg("%s: %s", rows[i].plan, slug_text(own.first->slug));
    }
    /* lanes that meet in local memory need some of it */
    pb.caps.shared_bytes = 4096;
    assert_int_equal(plan_read(&cx, "W=128", &plan), OK);
    assert_int_equal(plan_check(&cx, &pb, &plan, NULL, NULL), OK);
    assert_int_equal(plan_read(&cx, "W=256", &plan), OK);
    assert_int_equal(plan_check(&cx, &pb, &plan, NULL, NULL), ERR_REFUSED);
    assert_int_equal(cx.last->slug, S_PLAN_SHARED);
    /* f64 where there is none */
    LibKernel *k;
    Caps caps;
    library_read(&cx, TY_F64, &k);
    caps_preset("opencl", &caps);
    const Shape s = library_shape(k[0].prog, 4, 37);
    assert_int_equal(problem_make(&cx, k[0].prog, &s, &caps, 0, &pb), ERR_REFUSED);
    assert_int_equal(cx.last->slug, S_PLAN_NO_F64);
    arena_free(cx.a);
}

/* On a CPU a row is one lane's. */
static void test_space(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(NULL, NULL)};
    Problem pb;
    Unit u;
    Space s;
    emit(&cx, "pocl", 1, "softmax", TY_F32, 4096, "W=1 acc=16", &pb, &u);
    assert_int_equal(space_default(&cx, &pb, &s), OK);
    assert_true(s.n[DIM_W] == 1 && s.value[DIM_W][0] == 1 && s.value[DIM_acc][0] == 16);
    /* a statistic of one sweep is pinned: none goes with the sixteen accumulators above, but with one */
    Entry *entry;
    int64_t n, legal;
    assert_int_equal(space_pin(&cx, &pb, "stat=online", &s), OK);
    assert_int_equal(space_list(&cx, &pb, &s, 100000, &entry, &n, &legal), OK);
    assert_true(legal > 0);
    emit(&cx, "opencl", 1, "softmax", TY_F32, 4096, "W=64", &pb, &u);
    assert_int_equal(space_default(&cx, &pb, &s), OK);
    assert_true(s.n[DIM_W] > 1 && s.value[DIM_W][0] > 32);
    arena_free(cx.a);
}

/* ---- the runtime ---- */

typedef struct Last { /* as in fake_opencl.c */
    size_t global, local, launches, programs, binaries;
    int64_t first, rows, offset;
    char options[256];
} Last;

typedef struct Fake {
    Cx cx;
    Rt *rt;
    Device *d;
    void *lib;
    Last *last;
    Problem pb;
    Unit u;
} Fake;

/* Opened with the words as the loader's troubles, and a unit of softmax for its device. */
static void fake_open(Fake *f, const char *words, const char *cache) {
    const char *build = getenv("ROWFOLD_BUILD");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/tests/libfake_opencl.so", build ? build : ".");
    *f = (Fake){.cx = {.a = arena_new(NULL, NULL)}, .lib = dlopen(path, RTLD_NOW)};
    if (!f->lib) fail_msg("%s", dlerror());
    f->last = dlsym(f->lib, "fake_last");
    assert_non_null(f->last);
    memset(f->last, 0, sizeof *f->last);
    setenv("ROWFOLD_LIBOPENCL", path, 1);
    setenv("FAKE_OPENCL", words, 1);
    RtOptions o = {.cache_dir = cache, .isa = ISA_COUNT};
    assert_int_equal(rt_open(&f->cx, &o, &f->rt), OK);
    assert_int_equal(f->last->launches, 0);
    rt_find(&f->cx, f->rt, "opencl:0", &f->d);
    emit(&f->cx, "opencl", 1, "softmax", TY_F32, 256, "W=32 V=4 P=4", &f->pb, &f->u);
}

static void fake_close(Fake *f) {
    rt_close(f->rt);
    arena_free(f->cx.a);
    dlclose(f->lib);
    unsetenv("ROWFOLD_LIBOPENCL");
    unsetenv("FAKE_OPENCL");
}

static void expect(Fake *f, Err got, Slug slug) {
    if (got != slug_err(slug) || !f->cx.last || f->cx.last->slug != slug)
        fail_msg("%s: %s", slug_text(slug), said(&f->cx));
}

static void test_no_loader(void **state) {
    (void)state;
    static const struct {
        const char *lib, *words, *says;
    } rows[] = {{"/no/such/loader", "", "no libOpenCL.so.1"},
                {"libm.so.6", "", "lacks cl"},
                {NULL, "noplatform", "no platform"},
                {NULL, "start", "does not start"},
                {NULL, "nodevice", "no OpenCL platform has a device"}};
    for (int i = 0; i < COUNT(rows); i++) {
        Fake f;
        Device *d;
        fake_open(&f, rows[i].words, "");
        if (rows[i].lib) {
            rt_close(f.rt);
            setenv("ROWFOLD_LIBOPENCL", rows[i].lib, 1);
            assert_int_equal(rt_open(&f.cx, &(RtOptions){.cache_dir = "", .isa = ISA_COUNT}, &f.rt), OK);
        }
        expect(&f, rt_find(&f.cx, f.rt, "opencl:0", &d), S_RT_NO_OPENCL);
        if (!strstr(said(&f.cx), rows[i].says)) fail_msg("%s: %s", rows[i].says, said(&f.cx));
        fake_close(&f);
    }
}

static void test_device(void **state) {
    (void)state;
    Fake f;
    Device *d;
    fake_open(&f, "", "");
    assert_non_null(f.d);
    assert_string_equal(dev_name(f.d), "opencl:0");
    assert_non_null(
        strstr(dev_identity(f.d), "Fake device; Fake platform; OpenCL 1.2 fake; driver OpenCL 1.2 fake; 12 u"));
    const Caps *c = dev_caps(f.d);
    assert_true(c->kind == KIND_OPENCL && c->subgroup == 1 && c->units == 12 && c->shared_bytes == 48 << 10);
    assert_true(c->max_lanes == 256 && c->has_f64 && !c->lanes_in_turn && c->poly_math && c->l2_bytes == 1 << 20);
    assert_int_equal(rt_find(&f.cx, f.rt, "opencl", &d), OK);
    assert_ptr_equal(d, f.d);
    expect(&f, rt_find(&f.cx, f.rt, "opencl:1", &d), S_RT_NO_DEVICE);
    assert_int_equal(rt_find(&f.cx, f.rt, "best", &d), OK); /* by name alone */
    assert_ptr_not_equal(d, f.d);
    fake_close(&f);
    static const struct {
        const char *words;
        int subgroup;
        bool f64, turns;
    } rows[] = {{"cpu nvidia", 1, true, true}, {"nvidia nof64", 32, false, false}, {"intel", 16, true, false}};
    for (int i = 0; i < COUNT(rows); i++) {
        fake_open(&f, rows[i].words, "");
        c = dev_caps(f.d);
        assert_int_equal(c->max_group, 256); /* also NVIDIA's, which says 1,024 */
        assert_true(c->subgroup == rows[i].subgroup && c->has_f64 == rows[i].f64 && c->lanes_in_turn == rows[i].turns);
        fake_close(&f);
    }
}

static void test_memory(void **state) {
    (void)state;
    Fake f;
    Mem *m, *more[100];
    char in[] = "abc", out[4];
    fake_open(&f, "", "");
    assert_int_equal(mem_new(&f.cx, f.d, 100, &m), OK);
    assert_int_equal((uintptr_t)mem_at(m) % 256, 0);
    assert_int_equal(mem_write(&f.cx, m, 5, in, 4), OK);
    for (int i = 0; i < COUNT(more); i++) { /* no two share an address */
        assert_int_equal(mem_new(&f.cx, f.d, (size_t)i * 100, &more[i]), OK);
        assert_true((char *)mem_at(more[i]) >= (char *)mem_at(i ? more[i - 1] : m) + (i ? 100 * (i - 1) : 100));
    }
    for (int i = 0; i < COUNT(more); i += 2) mem_free(more[i]);
    assert_int_equal(mem_read(&f.cx, m, 5, out, 4), OK);
    assert_string_equal(out, in);
    for (int i = 1; i < COUNT(more); i += 2) mem_free(more[i]);
    mem_free(m);
    fake_close(&f);
}

static void test_launch(void **state) {
    (void)state;
    Fake f;
    Module *m;
    Mem *x, *y;
    fake_open(&f, "private=0", "");
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    assert_non_null(strstr(f.last->options, "-cl-fp32-correctly-rounded-divide-sqrt"));
    assert_true(mod_facts(m)->registers == -1 && mod_facts(m)->local_bytes == 0 && mod_facts(m)->code_bytes == 4);
    assert_int_equal(mem_new(&f.cx, f.d, 70000, &x), OK);
    assert_int_equal(mem_new(&f.cx, f.d, 70000, &y), OK);
    Slot s[16] = {{.p = (char *)mem_at(x) + 32}, {.p = mem_at(y)}};
    s[f.u.abi.stride[0][0]].i = s[f.u.abi.stride[1][0]].i = 256;
    assert_int_equal(mod_launch(&f.cx, m, s, 65, 0), OK); /* the last group is not full */
    assert_true(f.last->global == 17 * 128 && f.last->local == 128 && f.last->rows == 65 && f.last->offset == 32);
    assert_int_equal(f.last->programs, 1);
    for (int i = 0; i < 2; i++) { /* memory or rows that packs do not fit: a form of its own, built once */
        s[0].p = (char *)mem_at(x) + 4 * (1 - i);
        s[f.u.abi.stride[1][0]].i = 256 + i;
        assert_int_equal(mod_launch(&f.cx, m, s, 64, 0), OK);
        assert_int_equal(f.last->programs, 2);
        assert_non_null(strstr(f.last->options, "-DROWFOLD_LOOSE"));
    }
    int64_t many = (int64_t)INT_MAX / 128 * 4 + 9, ns; /* more work-items than a launch may have */
    size_t before = f.last->launches;
    assert_int_equal(mod_launch(&f.cx, m, s, many, 0), OK);
    assert_true(f.last->launches == before + 2 && f.last->first == INT_MAX / 128 * 4 && f.last->global == 3 * 128);
    const Slot *sets[] = {s, s};
    assert_int_equal(mod_time(&f.cx, m, sets, 2, 64, 0, 100, &ns), OK);
    assert_int_equal(ns, 2000);
    double copy;
    const char *how;
    assert_int_equal(dev_copy_ns(&f.cx, f.d, 1000, 0, 3, &copy, &how), OK);
    assert_true(copy == 100 && how);
    s[0].p = s; /* the host's memory */
    expect(&f, mod_launch(&f.cx, m, s, 64, 0), S_RT_NOT_MEMORY);
    assert_int_equal(mod_launch(NULL, m, s, 64, 0), ERR_LAUNCH);
    s[0].p = NULL; /* of a tensor without elements */
    assert_int_equal(mod_launch(&f.cx, m, s, 64, 0), OK);
    mem_free(x);
    mem_free(y);
    mod_free(m);
    fake_close(&f);
}

static void test_cache(void **state) {
    (void)state;
    const char *build = getenv("ROWFOLD_BUILD");
    char dir[PATH_MAX];
    Fake f;
    Module *m;
    snprintf(dir, sizeof dir, "%s/test-cache-opencl", build ? build : ".");
    for (int i = 0; i < 3; i++) { /* built, found, found and damaged */
        fake_open(&f, i == 2 ? "binary" : "", dir);
        f.u.fresh = i == 0;
        assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
        assert_true(f.last->programs == (i != 1) && f.last->binaries == (i != 0));
        assert_int_equal(mod_facts(m)->from_cache, i == 1);
        mod_free(m);
        fake_close(&f);
    }
}

static void test_troubles(void **state) {
    (void)state;
    static const struct {
        const char *words;
        Slug slug;
        const char *says;
    } builds[] = {{"build", S_BUILD_FAILED, "words of a compiler"},
                  {"kernel", S_BUILD_LOAD, "no kernel"},
                  {"context", S_RT_OPENCL, "CL_DEVICE_NOT_AVAILABLE"},
                  {"private=16", S_BUILD_SPILLS, "16 bytes of private memory"},
                  {"group=64", S_BUILD_SPILLS, "groups of 128 lanes"},
                  {"few", S_EMIT_BUFFERS, "opencl:0 takes 64"},
                  {"flush", S_RT_INEXACT, "subnormal"},
                  {"inexact nof64", S_RT_INEXACT, "divide"}};
    Fake f;
    Module *m;
    Mem *mem;
    for (int i = 0; i < COUNT(builds); i++) {
        fake_open(&f, builds[i].words, "");
        expect(&f, mod_build(&f.cx, f.d, &f.u, &m), builds[i].slug);
        if (!strstr(said(&f.cx), builds[i].says)) fail_msg("%s: %s", builds[i].says, said(&f.cx));
        assert_null(m);
        fake_close(&f);
    }
    fake_open(&f, "inexact", ""); /* divides in f64 */
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    assert_non_null(strstr(f.last->options, "-DROWFOLD_DIV_F64"));
    mod_free(m);
    Unit host = f.u;
    host.dialect = DIALECT_HOST;
    expect(&f, mod_build(&f.cx, f.d, &host, &m), S_ARG);
    fake_close(&f);
    fake_open(&f, "cpu private=400", ""); /* a CPU's is its stack */
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    mod_free(m);
    fake_close(&f);
    fake_open(&f, "memory", "");
    expect(&f, mem_new(&f.cx, f.d, 100, &mem), S_OOM);
    fake_close(&f);
    fake_open(&f, "launch sync", "");
    assert_int_equal(dev_sync(&f.cx, f.d), OK); /* nothing was started */
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    Slot s[16] = {{.i = 0}};
    expect(&f, mod_launch(&f.cx, m, s, 64, 0), S_RT_OPENCL);
    assert_int_equal(mod_launch(NULL, m, s, 64, 0), ERR_LAUNCH); /* the hot path has nowhere to say why */
    expect(&f, dev_sync(&f.cx, f.d), S_RT_OPENCL);
    mod_free(m);
    fake_close(&f);
}

/* ---- what spills is known only when it is built ---- */

static Request request(const Fake *f, Effort effort, const char *pin) {
    return (Request){.prog = f->pb.source,
                     .shape = f->pb.shape,
                     .dev = f->d,
                     .caps = dev_caps(f->d),
                     .identity = dev_identity(f->d),
                     .effort = effort,
                     .pin = pin};
}

static void test_estimate_takes_the_next(void **state) {
    (void)state;
    Fake f;
    Made m = {.bytes = 0};
    fake_open(&f, "spills=2", "");
    Request q = request(&f, EFFORT_ESTIMATE, NULL);
    assert_int_equal(drive_compile(&f.cx, &q, &m), OK);
    int failed = 0;
    for (int64_t i = 0; i < m.search.ntrials; i++) {
        const Trial *t = &m.search.trial[i];
        if (t->fate != FATE_FAILED) continue;
        assert_true(t->place >= 1 && t->place <= 2 && t->slug == S_BUILD_SPILLS && i != m.search.best);
        failed++;
    }
    assert_int_equal(failed, 2);
    assert_int_equal(m.search.trial[m.search.best].place, 3);
    assert_int_equal(m.search.nfailed, 2);
    assert_non_null(strstr(m.search.note, "number 3 of the ranking"));
    assert_non_null(strstr(receipt_make(&f.cx, &q, &m), "\"build.spills\":2"));
    assert_non_null(m.mod);
    made_free(&m);
    fake_close(&f);
    /* an exact request has no next; and not all of a space is built to find that none can be */
    static const struct {
        const char *pin;
        size_t built;
        const char *says;
    } rows[] = {{"W=32,V=4,P=4,U=1,acc=1,flight=1,hold.x=reload,hold.e=recompute,stat=two-pass,div=exact", 1, NULL},
                {NULL, 16, "; and so on for the next 15 plans"}};
    for (int i = 0; i < COUNT(rows); i++) {
        fake_open(&f, "spills=1000", "");
        q = request(&f, EFFORT_ESTIMATE, rows[i].pin);
        m = (Made){.bytes = 0};
        expect(&f, drive_compile(&f.cx, &q, &m), S_BUILD_SPILLS);
        assert_int_equal(f.last->programs, rows[i].built);
        if (!strstr(said(&f.cx), rows[i].says ? rows[i].says : "16 bytes of private memory"))
            fail_msg("%s", said(&f.cx));
        assert_true(rows[i].says || !strstr(said(&f.cx), "and so on"));
        made_free(&m);
        fake_close(&f);
    }
}

static void test_recall_estimates(void **state) {
    (void)state;
    Fake f;
    Made m = {.bytes = 0};
    Store *store;
    Problem near;
    char dir[PATH_MAX], file[PATH_MAX + 16];
    assert_int_equal(os_dir_temp(dir, sizeof dir), 0);
    snprintf(file, sizeof file, "%s/trials.db", dir);
    fake_open(&f, "spills=1", "");
    Shape longer = f.pb.shape;
    longer.n[1] = 512;
    assert_int_equal(problem_make(&f.cx, f.pb.source, &longer, dev_caps(f.d), 0, &near), OK);
    StoreKey key = store_key(&f.cx, &near, dev_identity(f.d), 0);
    StoreTrial t = {.plan = "W=64 V=4", .effort = "measure", .slug = "", .why = "", .unit_sha = "", .median_ns = 1};
    t.stage = STAGE_CONFIRMED, t.nsamples = 1, t.sample_ns[0] = 1, t.facts = t.demand = "{}";
    assert_int_equal(store_open(&f.cx, &(StoreOptions){.where = file, .mode = STORE_WRITE}, &store), OK);
    assert_int_equal(store_add(&f.cx, store, &key, &t), OK);
    store_close(store);
    Request q = request(&f, EFFORT_RECALL, NULL);
    q.store = file;
    assert_int_equal(drive_compile(&f.cx, &q, &m), OK);
    assert_string_equal(m.search.recall.how, "estimate");
    assert_non_null(strstr(m.search.recall.why, "is not built here: `"));
    assert_true(m.search.ntrials > 1 && m.search.trial[m.search.best].place == 1);
    made_free(&m);
    m = (Made){.bytes = 0};
    assert_int_equal(drive_compile(&f.cx, &q, &m),
                     OK); /* the first program alone spilt: now it is what was remembered */
    assert_string_equal(m.search.recall.how, "nearest");
    made_free(&m);
    fake_close(&f);
    assert_int_equal(os_dir_remove(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_legal),
        cmocka_unit_test(test_space),
        cmocka_unit_test(test_no_loader),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_troubles),
        cmocka_unit_test(test_estimate_takes_the_next),
        cmocka_unit_test(test_recall_estimates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
