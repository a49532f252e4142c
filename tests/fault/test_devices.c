/* CUDA and OpenCL over libraries that are none: each call of the driver, of the compiler, of the loader, and each
 * allocation, fails in its turn (turns.h). */
#include "turns.h"

#include "../../include/rowfold.h"
#include "../../src/gen/kern.h"
#include "../diff/library.h"

#include <dlfcn.h>
#include <limits.h>

typedef struct Fake {
    void *lib[2];
    Turn *turn[2]; /* of the driver or loader, of the compiler */
    Cx cx;
    Unit unit;
} Fake;

static const char *library(Fake *f, int i, const char *name, const char *env) {
    const char *build = getenv("ROWFOLD_BUILD"), *path;
    path = arena_printf(f->cx.a, "%s/tests/lib%s.so", build ? build : ".", name);
    f->lib[i] = dlopen(path, RTLD_NOW);
    if (!f->lib[i]) fail_msg("%s", dlerror());
    f->turn[i] = dlsym(f->lib[i], "fake_turn");
    assert_non_null(f->turn[i]);
    setenv(env, path, 1);
    return path;
}

/* A kernel of the library for f32, 256 elements, for a preset. */
static void emit(Fake *f, const char *preset, const char *kernel, const char *plan_text) {
    LibKernel *k;
    Caps caps;
    Plan plan;
    Kern *kern;
    Problem *pb = NEW(f->cx.a, Problem);
    const int count = library_read(&f->cx, TY_F32, &k);
    int at = 0;
    while (at < count && !str_eq(k[at].name, kernel)) at++;
    assert_true(at < count && caps_preset(preset, &caps));
    const Shape s = library_shape(k[at].prog, TURN_ROWS, 256);
    if (problem_make(&f->cx, k[at].prog, &s, &caps, 0, pb) || plan_read(&f->cx, plan_text, &plan) ||
        kern_lower(&f->cx, pb, &plan, &kern) || unit_emit(&f->cx, pb, kern, &f->unit))
        fail_msg("%s: %s", plan_text, f->cx.last->msg);
}

static void fake_close(Fake *f) {
    static const char *const names[] = {"ROWFOLD_LIBCUDA", "ROWFOLD_NVRTC", "ROWFOLD_LIBOPENCL", "FAKE_CUDA",
                                        "FAKE_OPENCL"};
    for (int i = 0; i < 2; i++)
        if (f->lib[i]) dlclose(f->lib[i]);
    for (int i = 0; i < COUNT(names); i++) unsetenv(names[i]);
    arena_free(f->cx.a);
}

static const struct {
    const char *kernel, *plan;
} cuda_units[] = {{"softmax", "W=64 V=4 cluster=2 hold.x=shared overlap=on"}, {"sum", "W=32 V=4 split=2"}};

static void open_cuda(Fake *f, int i) {
    *f = (Fake){.cx = {.a = arena_new(NULL, NULL)}};
    library(f, 0, "fake_cuda", "ROWFOLD_LIBCUDA");
    library(f, 1, "fake_nvrtc", "ROWFOLD_NVRTC");
    setenv("FAKE_CUDA", "", 1);
    emit(f, "h200", cuda_units[i].kernel, cuda_units[i].plan);
}

static void open_opencl(Fake *f, const char *words) {
    *f = (Fake){.cx = {.a = arena_new(NULL, NULL)}};
    library(f, 0, "fake_opencl", "ROWFOLD_LIBOPENCL");
    setenv("FAKE_OPENCL", words, 1);
    emit(f, "opencl", "softmax", "W=32 V=4 P=4");
}

/* No compiler for the host, which would be asked for its version each time that the runtime is opened. */
static const RtOptions plain = {.cc = "none", .cache_dir = "", .isa = ISA_COUNT, .threads = 1};

/* ---- what fits ---- */

static bool named(const char *name, const char *const *of) {
    while (*of && !str_eq(*of, name)) of++;
    return *of != NULL;
}

static bool cuda_fits(const char *failed, Slug slug) {
    static const char *const starts[] = {"init", "count", NULL},
                             *const loads[] = {"load", "function", "fn_set", "fn_attribute", NULL},
                             *const tells[] = {"get", "name", "attribute", "version", NULL};
    if (str_eq(failed, "clusters")) return slug == S_BUILD_CLUSTER;
    if (slug == S_RT_NO_DEVICE) return named(failed, starts) || named(failed, tells);
    return slug == (named(failed, starts) ? S_RT_NO_DRIVER : named(failed, loads) ? S_BUILD_LOAD : S_RT_CUDA);
}

static bool nvrtc_fits(const char *failed, Slug slug) {
    return slug == (str_eq(failed, "nvrtcVersion") ? S_RT_NO_NVRTC : S_BUILD_FAILED);
}

static bool memory_fits(const char *failed, Slug slug) {
    (void)failed;
    return slug == S_OOM;
}

static bool opencl_fits(const char *failed, Slug slug) {
    static const char *const looks[] = {"clGetPlatformIDs", "clGetDeviceIDs", NULL}, *const builds[] = {
                                                                                         "clCreateProgramWithSource",
                                                                                         "clBuildProgram", NULL};
    if (named(failed, looks)) return slug == S_RT_NO_OPENCL;
    if (named(failed, builds)) return slug == S_BUILD_FAILED;
    if (str_eq(failed, "clSetKernelArg") && slug == S_BUILD_LOAD) return true; /* of the copies */
    return slug == (str_eq(failed, "clCreateKernel") ? S_BUILD_LOAD : S_RT_OPENCL);
}

/* ---- the turns ---- */

static void cuda_calls(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(cuda_units); i++) {
        Fake f;
        char queue;
        open_cuda(&f, i);
        Round r = {.device = "cuda:0",
                   .unit = &f.unit,
                   .options = plain,
                   .queue = &queue,
                   .turn = f.turn[0],
                   .held = f.turn[1],
                   .fits = cuda_fits};
        turn_all(&r, 60);
        r.turn = f.turn[1], r.held = f.turn[0], r.fits = nvrtc_fits;
        turn_all(&r, 10);
        fake_close(&f);
    }
}

static void cuda_memory(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(cuda_units); i++) {
        Fake f;
        Turn t;
        open_cuda(&f, i);
        const Alloc al = {turn_get, turn_put, &t};
        Round r = {
            .device = "cuda:0", .unit = &f.unit, .options = plain, .turn = &t, .held = f.turn[0], .fits = memory_fits};
        r.options.al = &al;
        turn_all(&r, 10);
        fake_close(&f);
    }
}

static void opencl_calls(void **state) {
    (void)state;
    static const char *const kinds[] = {"nvidia", "cpu"};
    for (int i = 0; i < COUNT(kinds); i++) {
        Fake f;
        open_opencl(&f, kinds[i]);
        Round r = {.device = "opencl:0", .unit = &f.unit, .options = plain, .turn = f.turn[0], .fits = opencl_fits};
        turn_all(&r, 40);
        fake_close(&f);
    }
}

static void opencl_memory(void **state) {
    (void)state;
    Fake f;
    Turn t;
    open_opencl(&f, "");
    const Alloc al = {turn_get, turn_put, &t};
    Round r = {
        .device = "opencl:0", .unit = &f.unit, .options = plain, .turn = &t, .held = f.turn[0], .fits = memory_fits};
    r.options.al = &al;
    turn_all(&r, 10);
    fake_close(&f);
}

/* What the compiler makes of a probe may be refused, as here that of each, for spills: it is passed over. */
static void cuda_probes(void **state) {
    (void)state;
    Fake f;
    rowfold_context *c;
    rowfold_device *d;
    char *json = NULL;
    open_cuda(&f, 0);
    setenv("FAKE_CUDA", "local=64", 1);
    assert_int_equal(rowfold_context_new(NULL, &c), ROWFOLD_OK);
    assert_int_equal(rowfold_device_find(c, "cuda:0", &d), ROWFOLD_OK);
    assert_int_equal(rowfold_calibrate(c, d, NULL, NULL, &json), ROWFOLD_UNAVAILABLE);
    assert_non_null(strstr(rowfold_last_error(c)->message, " probes was built; the first: build.spills"));
    rowfold_context_free(c);
    fake_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuda_calls), cmocka_unit_test(cuda_memory),
                                       cmocka_unit_test(cuda_probes), cmocka_unit_test(opencl_calls),
                                       cmocka_unit_test(opencl_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
