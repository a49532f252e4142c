/* CUDA's runtime without a GPU: without a driver, which it says, and over one that is none; what the search has for
 * NVIDIA GPUs, and how lanes meet there. What kernels are made of is test_cudatext.c's. */
#include "fakecuda.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_no_compiler(void **state) {
    (void)state;
    Nvrtc rtc;
    setenv("ROWFOLD_NVRTC", "/no/such/library", 1);
    assert_false(nvrtc_open(&rtc));
    assert_non_null(strstr(rtc.why, "/no/such/library"));
    unsetenv("ROWFOLD_NVRTC");
}

static void test_no_driver(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(NULL, NULL)};
    Rt *rt;
    Device *d;
    RtOptions o = {.cache_dir = "", .isa = ISA_COUNT};
    setenv("ROWFOLD_LIBCUDA", "/no/such/driver", 1);
    assert_int_equal(rt_open(&cx, &o, &rt), OK);
    assert_int_equal(rt_find(&cx, rt, "cuda:0", &d), ERR_UNAVAILABLE);
    assert_int_equal(cx.first->slug, S_RT_NO_DRIVER);
    int64_t from = t_now_ns();
    for (int i = 0; i < 10; i++) rt_find(&cx, rt, "cuda", &d);
    assert_true(t_now_ns() - from < 10 * 1000000); /* what is absent costs less than a millisecond */
    rt_close(rt);
    setenv("ROWFOLD_LIBCUDA", "libm.so.6", 1); /* a library, but no driver */
    assert_int_equal(rt_open(&cx, &o, &rt), OK);
    assert_int_equal(rt_find(&cx, rt, "cuda:0", &d), ERR_UNAVAILABLE);
    assert_non_null(strstr(cx.last->msg, "older than"));
    rt_close(rt);
    unsetenv("ROWFOLD_LIBCUDA");
    arena_free(cx.a);
}

/* ---- the runtime, over a driver that is not one (tests/fault/fake_cuda.c) ---- */

static void test_device(void **state) {
    (void)state;
    Fake f;
    fake_open(&f, "", "W=32 V=4 P=4");
    assert_non_null(f.d);
    assert_int_equal(rt_devices(f.rt), 2);
    assert_string_equal(dev_name(f.d), "cuda:0");
    assert_non_null(strstr(dev_identity(f.d), "Fake GPU; sm_90a; 4 units"));
    const Caps *c = dev_caps(f.d);
    assert_true(c->kind == KIND_CUDA && c->subgroup == 32 && c->units == 4 && c->shared_bytes == 232448 && c->has_keep);
    Mem *m;
    char in[] = "abc", out[4];
    assert_int_equal(mem_new(&f.cx, f.d, 100, &m), OK);
    assert_int_equal(mem_write(&f.cx, m, 5, in, 4), OK);
    assert_int_equal(mem_read(&f.cx, m, 5, out, 4), OK);
    assert_string_equal(out, in);
    mem_free(m);
    fake_close(&f);
}

static void test_launch(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    nvrtc_close(&rtc);
    Fake f;
    Module *m;
    fake_open(&f, "", "W=32 V=4 P=4 hold.x=shared");
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    assert_true(mod_facts(m)->registers == 32 && mod_facts(m)->local_bytes == 0);
    _Alignas(16) static char memory[64];
    Slot s[16] = {{.p = memory}, {.p = memory}};
    s[f.u.abi.stride[0][0]].i = s[f.u.abi.stride[1][0]].i = 256;
    s[f.u.abi.row0].i = 64;
    assert_int_equal(mod_launch(&f.cx, m, s, 64, 0), OK);
    assert_true(f.last->blocks == 16 && f.last->threads == 128 && f.last->shared == 32 * 4 * 4 * 2 * 4);
    assert_int_equal(mod_launch(&f.cx, m, s, 65, 0), OK); /* the last group is not full */
    assert_true(f.last->blocks == 17 && f.last->rows == 65 && f.last->first == 0);
    s[f.u.abi.row0].i = 1; /* a single row has no stride */
    s[f.u.abi.stride[0][0]].i = 257;
    assert_int_equal(mod_launch(&f.cx, m, s, 1, 0), OK);
    s[f.u.abi.row0].i = 64;
    s[f.u.abi.stride[0][0]].i = 256;
    assert_int_equal(f.last->modules, 1);
    for (int i = 0; i < 2; i++) { /* memory or rows that packs do not fit: a form of its own, built once */
        s[0].p = memory + 4 * (1 - i);
        s[f.u.abi.stride[1][0]].i = 256 + i;
        assert_int_equal(mod_launch(&f.cx, m, s, 64, 0), OK);
        assert_int_equal(f.last->modules, 2);
    }
    int64_t rows = 4ll * INT_MAX + 9; /* more groups than a launch may have */
    unsigned before = f.last->launches;
    assert_int_equal(mod_launch(&f.cx, m, s, rows, 0), OK);
    assert_true(f.last->launches == before + 2 && f.last->first == 4ll * INT_MAX && f.last->blocks == 3 &&
                f.last->rows == rows);
    int64_t ns;
    const Slot *sets[] = {s, s};
    assert_int_equal(mod_time(&f.cx, m, sets, 2, 64, 0, 400, &ns), OK);
    assert_int_equal(
        ns, 1000000); /* the fake clock says 1 ms for anything: for three probes, then for twenty graphs of 20 */
    double copy;
    const char *how;
    assert_int_equal(dev_copy_ns(&f.cx, f.d, 1000, 0, 3, &copy, &how), OK);
    assert_true(copy > 0 && how);
    for (int kind = 0; kind < CEILING_KINDS; kind++) {
        Ceiling c = {.kind = (CeilingKind)kind, .bytes = 1000, .sets = 300, .reps = 2};
        assert_int_equal(dev_ceiling(&f.cx, f.d, &c, &copy, &how), OK);
        assert_true(copy > 0 && how);
    }
    assert_int_equal(mod_span(&f.cx, m, s, 64, 0, &ns), OK);
    assert_int_equal(ns, 1000000);
    const Slot *many[300];
    for (int i = 0; i < 300; i++) many[i] = s;
    before = f.last->launches;
    assert_int_equal(mod_time(&f.cx, m, many, 300, 64, 0, 1, &ns), OK);
    assert_true(f.last->launches - before >= 300); /* a graph of a whole turn, however few calls are asked for */
    mod_free(m);
    f.u.loads +=
        1000; /* more than the code can have: loads that are gone, and as nothing is read again, nobody's hold */
    assert_int_equal(f.u.loads_again, 0);
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    mod_free(m);
    f.u.loads_again = 900; /* as many as a later sweep would have: the compiler is not believed */
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), ERR_REFUSED);
    assert_int_equal(f.cx.last->slug, S_BUILD_MERGED);
    fake_close(&f);
}

static void *fake_fn(const Fake *f, const char *name) {
    void *at = dlsym(f->lib, name);
    assert_non_null(at);
    return at;
}

/* The context that the caller has current is the one that is used; where there is none, the device's primary one, which
 * the thread does not keep. */
static void test_contexts(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    nvrtc_close(&rtc);
    _Alignas(16) static char memory[64], mine;
    for (int own = 0; own < 2; own++) {
        Fake f;
        Module *m;
        fake_open(&f, "", "W=32 V=4 P=4");
        void (*make_current)(void *);
        int (*depth)(void);
        void *at = fake_fn(&f, "fake_context"), *count = fake_fn(&f, "fake_depth");
        memcpy(&make_current, &at, sizeof at);
        memcpy(&depth, &count, sizeof count);
        make_current(own ? &mine : NULL);
        Slot s[16] = {{.p = memory}, {.p = memory}};
        assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
        assert_int_equal(mod_launch(&f.cx, m, s, 64, 0), OK);
        assert_true(own ? f.last->context == &mine : f.last->context && f.last->context != &mine);
        assert_int_equal(f.last->retained, own ? 0 : 1);
        assert_int_equal(depth(), 0);
        void *primary = f.last->context;
        make_current(&memory); /* of another library, later: what was built lives in the first */
        assert_int_equal(mod_launch(&f.cx, m, s, 64, 0), OK);
        assert_ptr_equal(f.last->context, primary);
        assert_int_equal(depth(), 0);
        make_current(NULL);
        mod_free(m);
        fake_close(&f);
    }
}

/* A launch that needs the slower form builds it in the midst of a capture, and leaves the capture's mode as it was. */
static void test_capture(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    nvrtc_close(&rtc);
    _Alignas(16) static char memory[64];
    Fake f;
    Module *m, *other;
    fake_open(&f, "capture", "W=32 V=4 P=4");
    int (*mode)(void);
    void *at = fake_fn(&f, "fake_capture_mode");
    memcpy(&mode, &at, sizeof at);
    Slot s[16] = {{.p = memory}, {.p = memory}};
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    assert_int_equal(mod_launch_in(&f.cx, m, memory, s, 64, 0), OK);
    assert_ptr_equal(f.last->stream, memory);
    s[0].p = memory + 4;
    assert_int_equal(mod_launch_in(&f.cx, m, memory, s, 64, 0), OK);
    assert_int_equal(f.last->modules, 2);
    assert_int_equal(mode(), 0);
    expect(&f, mod_build(&f.cx, f.d, &f.u, &other), S_BUILD_LOAD); /* what the caller asks for is not hidden from it */
    mod_free(m);
    fake_close(&f);
}

typedef struct Own {
    Fake *f;
    Module *m;
    Slot *slots;
    uint64_t work;
} Own;

static void *launch_in_own(void *user) {
    Own *o = user;
    Cx cx = {.a = arena_new(NULL, NULL)};
    if (mod_launch_in(&cx, o->m, (void *)2, o->slots, 8, 0) == OK) o->work = o->f->last->work;
    arena_free(cx.a);
    return NULL;
}

/* Launches that may run at once have workspaces of their own: of each stream, of each capture, of each thread's default
 * stream; they are zero, and serve more rows by growing. */
static void test_split(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    nvrtc_close(&rtc);
    static char memory[64], streams[2];
    Fake f;
    Module *m;
    fake_open(&f, "split", "W=32 V=4");
    emit(&f.cx, "h200", "reduce", "sum", TY_F32, "rows=8,n=256", "W=32 V=1 split=8", &f.pb, &f.k, &f.u);
    assert_true(f.u.split == 8 && f.u.work_bytes == 16 + 8 * 8);
    Slot s[16] = {{.p = memory}, {.p = memory}};
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    assert_int_equal(mod_launch_in(&f.cx, m, &streams[0], s, 8, 0), OK);
    assert_true(f.last->blocks == 64 && f.last->threads == 32);
    const uint64_t first = f.last->work;
    for (int i = 0; i < 8 * 80; i++) assert_int_equal(((char *)(uintptr_t)first)[i], 0);
    assert_true(mod_launch_in(&f.cx, m, &streams[0], s, 7, 0) == OK && f.last->work == first);
    assert_int_equal(mod_launch_in(&f.cx, m, &streams[1], s, 8, 0), OK);
    const uint64_t second = f.last->work;
    assert_int_not_equal(second, first);
    assert_int_equal(mod_launch_in(&f.cx, m, &streams[0], s, 1000, 0), OK); /* 80,000 bytes */
    const uint64_t large = f.last->work;
    assert_true(large != first && large != second);
    assert_int_equal(((char *)(uintptr_t)large)[80 * 1000 - 1], 0);
    setenv("FAKE_CUDA", "split capture=5", 1); /* memory may be taken only by a thread that says so */
    assert_int_equal(mod_launch_in(&f.cx, m, &streams[1], s, 8, 0), OK);
    const uint64_t captured = f.last->work;
    assert_true(captured != first && captured != second && captured != large);
    assert_int_equal(mod_launch_in(&f.cx, m, &streams[1], s, 8, 0), OK);
    assert_int_equal(f.last->work, captured);
    setenv("FAKE_CUDA", "split capture=6", 1);
    assert_int_equal(mod_launch_in(&f.cx, m, &streams[1], s, 8, 0), OK);
    assert_int_not_equal(f.last->work, captured);
    int (*mode)(void);
    void *at = fake_fn(&f, "fake_capture_mode");
    memcpy(&mode, &at, sizeof at);
    assert_int_equal(mode(), 0);
    setenv("FAKE_CUDA", "split", 1);
    Own own[2] = {{&f, m, s, 0}, {&f, m, s, 0}};
    assert_int_equal(mod_launch_in(&f.cx, m, (void *)2, s, 8, 0), OK);
    const uint64_t mine = f.last->work;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, launch_in_own, &own[i]), 0);
        pthread_join(thread, NULL);
        assert_true(own[i].work != 0 && own[i].work != mine);
    }
    setenv("FAKE_CUDA", "split memory", 1);
    expect(&f, mod_launch_in(&f.cx, m, memory, s, 8, 0), S_OOM);
    mod_free(m);
    fake_close(&f);
}

typedef struct Side {
    Module *m;
    Slot *slots;
    int failed;
} Side;

static void *launches(void *user) {
    Side *side = user;
    for (int i = 0; i < 2000; i++) side->failed += mod_launch(NULL, side->m, side->slots, 64, 0) != OK;
    return NULL;
}

/* Two threads launch one kernel at once, both on memory that its packs do not fit: the slower form is built once. */
static void test_threads(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    nvrtc_close(&rtc);
    _Alignas(16) static char memory[64];
    Fake f;
    Module *m;
    fake_open(&f, "", "W=32 V=4 P=4");
    Slot s[16] = {{.p = memory + 4}, {.p = memory}};
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    Side side[2] = {{m, s, 0}, {m, s, 0}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, launches, &side[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert_int_equal(side[0].failed + side[1].failed, 0);
    assert_int_equal(f.last->launches, 4000);
    assert_int_equal(f.last->modules, 2);
    mod_free(m);
    fake_close(&f);
}

/* Groups of a cluster exchange the same records, and wait for them as the plan says. */
static void test_exchange(void **state) {
    (void)state;
    static const struct {
        const char *file, *kernel, *plan;
    } rows[] = {{"reduce", "argmax", "W=256 V=4 cluster=16 exchange=%s"},
                {"softmax", "softmax", "W=128 V=4 cluster=8 exchange=%s hold.x=register"},
                {"softmax", "softmax", "W=128 V=4 cluster=8 exchange=%s stat=online combine=pair"}};
    static const char *const barrier[] = {
        "cluster_arrive();",    "[0], tid, (u32)", "cluster_meet();", "cb ^= 1;", "barrier.cluster.arrive.release",
        "st.shared::cluster.v4"};
    static const char *const bytes[] = {"cluster_start(cm, tid);",    "[0], &cm[cb], tid, (u32)",
                                        "cluster_meet(&cm[cb], ct);", "cb ^= 1, ct ^= cb ^ 1;",
                                        "mbarrier.try_wait.parity",   "st.async.shared::cluster"};
    for (int i = 0; i < COUNT(rows); i++)
        for (int x = EXCHANGE_BARRIER; x <= EXCHANGE_BYTES; x++) {
            Cx cx = {.a = arena_new(NULL, NULL)};
            Problem pb;
            Kern *k;
            Unit u;
            const char *plan = arena_printf(cx.a, rows[i].plan, dim_info(DIM_exchange)->word[x]);
            emit(&cx, "h200", rows[i].file, rows[i].kernel, TY_F32, "rows=8,n=65536", plan, &pb, &k, &u);
            for (int t = 0; t < COUNT(barrier); t++) {
                const char *has = x == EXCHANGE_BYTES ? bytes[t] : barrier[t],
                           *lacks = x == EXCHANGE_BYTES ? barrier[t] : bytes[t];
                if (!strstr(u.text, has) || strstr(u.text, lacks))
                    fail_msg("%s: %s, not %s:\n%s", plan, has, lacks, u.text);
            }
            arena_free(cx.a);
        }
}

static void test_clusters(void **state) {
    (void)state;
    Nvrtc rtc;
    if (!compiler(&rtc)) skip();
    nvrtc_close(&rtc);
    Fake f;
    Module *m;
    static const char *const plans[] = {"W=32 V=4 cluster=2 overlap=on hold.x=shared",
                                        "W=32 V=4 cluster=2 exchange=bytes overlap=on hold.x=shared"};
    for (int i = 0; i < COUNT(plans); i++) {
        fake_open(&f, "", plans[i]);
        assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
        _Alignas(16) static char memory[64];
        Slot s[16] = {{.p = memory}, {.p = memory}};
        s[f.u.abi.stride[0][0]].i = s[f.u.abi.stride[1][0]].i = 256;
        assert_int_equal(mod_launch(&f.cx, m, s, 64, 0), OK);
        assert_true(f.last->blocks == 128 && f.last->threads == 32 && f.last->overlap == 1 && !f.last->stream);
        assert_int_equal(mod_launch_in(&f.cx, m, memory, s, 64, 0), OK); /* a stream of the caller's */
        assert_ptr_equal(f.last->stream, memory);
        assert_int_equal(f.last->shared, 32 * 4 * 4); /* of a row's 256 elements a group keeps half */
        mod_free(m);
        fake_close(&f);
    }
    fake_open(&f, "nocluster", "W=32 V=4 cluster=2");
    expect(&f, mod_build(&f.cx, f.d, &f.u, &m), S_BUILD_CLUSTER);
    fake_close(&f);
}

static void test_troubles(void **state) {
    (void)state;
    Nvrtc rtc;
    Fake f;
    Module *m;
    Mem *mem;
    fake_open(&f, "nodevice", "W=32");
    assert_null(f.d);
    expect(&f, ERR_UNAVAILABLE, S_RT_NO_DRIVER);
    assert_non_null(strstr(f.cx.last->msg, "sees no device"));
    fake_close(&f);
    fake_open(&f, "init", "W=32");
    assert_non_null(strstr(f.cx.last->msg, "does not start"));
    fake_close(&f);
    fake_open(&f, "memory sync", "W=32");
    expect(&f, mem_new(&f.cx, f.d, 100, &mem), S_OOM);
    expect(&f, dev_sync(&f.cx, f.d), S_RT_CUDA);
    assert_non_null(strstr(f.cx.last->msg, "CUDA_ERROR_LAUNCH_FAILED"));
    Unit host = f.u;
    host.dialect = DIALECT_HOST;
    expect(&f, mod_build(&f.cx, f.d, &host, &m), S_ARG);
    fake_close(&f);
    setenv("ROWFOLD_NVRTC", "/no/such/library", 1);
    fake_open(&f, "", "W=32");
    expect(&f, mod_build(&f.cx, f.d, &f.u, &m), S_RT_NO_NVRTC);
    double ns;
    const char *how;
    expect(&f, dev_copy_ns(&f.cx, f.d, 1000, 0, 1, &ns, &how), S_RT_NO_NVRTC);
    fake_close(&f);
    unsetenv("ROWFOLD_NVRTC");
    if (!compiler(&rtc)) skip();
    nvrtc_close(&rtc);
    fake_open(&f, "local=16", "W=32");
    expect(&f, mod_build(&f.cx, f.d, &f.u, &m), S_BUILD_SPILLS);
    assert_null(m);
    f.u.private_bytes = 16; /* meant to be there */
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    mod_free(m);
    fake_close(&f);
    fake_open(&f, "module", "W=32");
    expect(&f, mod_build(&f.cx, f.d, &f.u, &m), S_BUILD_LOAD);
    fake_close(&f);
    fake_open(&f, "launch", "W=32");
    assert_int_equal(mod_build(&f.cx, f.d, &f.u, &m), OK);
    Slot s[16] = {{.i = 0}};
    expect(&f, mod_launch(&f.cx, m, s, 64, 0), S_RT_CUDA);
    assert_int_equal(mod_launch(NULL, m, s, 64, 0), ERR_LAUNCH); /* the hot path has nowhere to say why */
    mod_free(m);
    fake_close(&f);
}

/* ---- legality ---- */

static void test_legal(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(NULL, NULL)};
    Problem pb;
    Kern *k;
    Unit u;
    Plan plan;
    emit(&cx, "h200", "softmax", "softmax", TY_F32, "rows=64,n=65536", "W=1024 V=4", &pb, &k, &u);
    static const struct {
        const char *plan;
        Slug slug;
    } rows[] = {{"W=1024 V=4 hold.x=shared", S_PLAN_SHARED}, /* 256 KiB */
                {"W=64 V=4 P=2 cluster=2", S_PLAN_CLUSTER},    {"W=16 V=4 cluster=2", S_PLAN_CLUSTER},
                {"W=1024 V=4 exchange=bytes", S_PLAN_CLUSTER}, {"W=1024 V=4 split=2", S_PLAN_SPLIT},
                {"W=1024 V=4 stages=1", S_PLAN_STAGES},        {"W=1024 V=4 ahead=1", S_PLAN_GRID},
                {"W=1024 V=4 prefetch=1", S_PLAN_MACHINE},     {"W=64 V=4 combine=outer", S_PLAN_COMBINE}};
    for (int i = 0; i < COUNT(rows); i++) {
        Cx own = {.a = cx.a};
        assert_int_equal(plan_read(&own, rows[i].plan, &plan), OK);
        assert_int_equal(plan_check(&own, &pb, &plan, NULL, NULL), ERR_REFUSED);
        if (own.first->slug != rows[i].slug) fail_msg("%s: %s", rows[i].plan, slug_text(own.first->slug));
    }
    assert_int_equal(plan_read(&cx, "W=1024 V=4 early=on min-groups=2", &plan), OK);
    assert_int_equal(plan_check(&cx, &pb, &plan, NULL, NULL), OK);
    caps_preset("avx2", &pb.caps);
    static const char *const gpu[] = {"W=8 early=on", "W=8 overlap=on", "W=8 cluster=2", "W=8 exchange=bytes"};
    for (int i = 0; i < COUNT(gpu); i++) {
        assert_int_equal(plan_read(&cx, gpu[i], &plan), OK);
        assert_int_equal(plan_check(&cx, &pb, &plan, NULL, NULL), ERR_REFUSED);
        assert_int_equal(cx.last->slug, S_PLAN_MACHINE);
    }
    arena_free(cx.a);
}

static bool offers(const Space *s, int dim, int value) {
    bool found = false;
    for (int i = 0; i < s->n[dim]; i++) found |= s->value[dim][i] == value;
    return found;
}

/* What the search tries by itself: clusters for rows that are long or few, overlap for launches that are short, and
 * for columns. */
static void test_space(void **state) {
    (void)state;
    static const struct {
        const char *file, *kernel, *shape;
        bool cluster, sixteen, overlap, exp, stages, segments;
    } rows[] = {{"reduce", "argmax", "rows=8,n=151936", true, true, true, false, false, false},
                {"softmax", "softmax", "rows=2048,n=131072", true, false, false, true, true, false},
                {"softmax", "softmax", "rows=32768,n=4096", false, false, false, true, false, false},
                {"rmsnorm", "rmsnorm", "rows=96,n=4096", false, false, true, false, false, false},
                {"quantize", "rmsnorm_fp8_groups", "rows=4096,g=56,k=128", false, false, false, false, false, true},
                {"quantize", "rmsnorm_fp8_groups", "rows=4096,g=56,k=96", false, false, true, false, false, false},
                {"reduce", "column_sum", "rows=16384,n=4096", false, false, true, false, false, false}};
    for (int i = 0; i < COUNT(rows); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Problem pb;
        Kern *k;
        Unit u;
        Space s;
        emit(&cx, "h200", rows[i].file, rows[i].kernel, TY_BF16, rows[i].shape, "W=32", &pb, &k, &u);
        assert_int_equal(space_default(&cx, &pb, &s), OK);
        assert_in_range(space_count(&s), 1, SPACE_DEFAULT);
        assert_int_equal(offers(&s, DIM_cluster, 8) || offers(&s, DIM_cluster, 16), rows[i].cluster);
        assert_int_equal(offers(&s, DIM_cluster, 16), rows[i].sixteen);
        assert_int_equal(offers(&s, DIM_exchange, EXCHANGE_BYTES), rows[i].cluster);
        assert_true(offers(&s, DIM_exchange, EXCHANGE_BARRIER)); /* long streams do better with it */
        assert_int_equal(s.value[DIM_exchange][0], rows[i].sixteen ? EXCHANGE_BYTES : EXCHANGE_BARRIER);
        assert_int_equal(offers(&s, DIM_overlap, OVERLAP_ON) || offers(&s, DIM_overlap, OVERLAP_LATE), rows[i].overlap);
        /* where a launch fills the machine, those that wait must not crowd it */
        if (rows[i].overlap)
            assert_int_equal(s.value[DIM_overlap][0], strstr(rows[i].shape, "rows=8,") ? OVERLAP_ON : OVERLAP_LATE);
        assert_int_equal(offers(&s, DIM_exp, EXP_FAST), rows[i].exp);
        assert_int_equal(offers(&s, DIM_stages, 2), rows[i].stages);
        assert_int_equal(offers(&s, DIM_segments, 1), rows[i].segments);
        arena_free(cx.a);
    }
    Cx cx = {.a = arena_new(NULL, NULL)};
    Problem pb;
    Kern *k;
    Unit u;
    Space s;
    emit(&cx, "h200", "softmax", "softmax", TY_F32, "rows=64,n=256", "W=32", &pb, &k, &u);
    assert_int_equal(space_default(&cx, &pb, &s), OK);
    assert_false(offers(&s, DIM_exp, EXP_FAST)); /* its small values would show the loss */
    arena_free(cx.a);
}

int main(void) {
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(test_space),    cmocka_unit_test(test_no_compiler), cmocka_unit_test(test_no_driver),
        cmocka_unit_test(test_device),   cmocka_unit_test(test_launch),      cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_exchange), cmocka_unit_test(test_troubles),    cmocka_unit_test(test_legal),
        cmocka_unit_test(test_contexts), cmocka_unit_test(test_capture),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
