/* Kern texts and sources of a few kernels for hosts and OpenCL, each at one small plan, are as a person last read them:
 * a change to lowering or to the dialect shows here as a difference to review. They are the same from any compiler of
 * this library. ACCEPT=1 writes what is new. */
#include "../../src/base/os.h"
#include "../../src/gen/kern.h"
#include "../diff/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *kernel, *machine, *plan;
} row[] = {
    {"softmax", "avx512", "W=32 U=2 acc=2 hold.x=register hold.e=output"},
    {"rmsnorm", "avx2", "W=8 V=2 flight=2 hold.x=register contract=on"},
    {"layernorm", "portable", "W=4 stat=welford index=32"},
    {"rmsnorm_fp8_groups", "avx512", "W=16 fuse=off combine=outer hold.x=register"},
    {"rmsnorm_plain", "avx512", "W=16 acc=2 tail=head-shift store=stream hold.x=register contract=on"},
    {"log_softmax", "opencl", "W=16 V=2 P=2 hold.x=register"},
    {"residual_layernorm", "m1max", "W=64 V=2 P=2 hold.s=shared contract=on"},
};

static const char *const ending[KIND_COUNT] = {
    [KIND_HOST] = "c", [KIND_CUDA] = "cu", [KIND_OPENCL] = "cl", [KIND_METAL] = "metal"};

static void compare(Cx *cx, const char *name, const char *text, size_t n) {
    const char *root = getenv("ROWFOLD_ROOT"), *accept = getenv("ACCEPT");
    const char *path = arena_printf(cx->a, "%s/tests/golden/text/%s", root ? root : ".", name);
    char *old = NULL;
    size_t m = 0, at = 0, line = 1;
    if (accept && str_eq(accept, "1")) assert_int_equal(os_write_atomic(path, text, n, 0644, false), 0);
    if (os_read_file(&alloc_libc, path, OS_ANY, 1 << 20, &old, &m)) fail_msg("no %s; ACCEPT=1 writes it", path);
    while (at < n && at < m && old[at] == text[at]) line += text[at++] == '\n';
    if (at < n || at < m) {
        while (at && text[at - 1] != '\n') at--;
        fail_msg("%s:%zu is not\n%.200s\nACCEPT=1 takes what is new", path, line, text + at);
    }
    free(old);
}

static void test_emitted(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(row); i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        LibKernel *k;
        Caps caps;
        Problem pb;
        Plan plan;
        Kern *kern;
        Unit u;
        const int n = library_read(&cx, TY_F32, &k);
        int at = 0;
        while (at < n && !str_eq(k[at].name, row[i].kernel)) at++;
        assert_true(at < n && caps_preset(row[i].machine, &caps));
        const Shape s = library_shape(k[at].prog, 4, 37);
        if (problem_make(&cx, k[at].prog, &s, &caps, 0, &pb) || plan_read(&cx, row[i].plan, &plan) ||
            kern_lower(&cx, &pb, &plan, &kern) || unit_emit(&cx, &pb, kern, &u))
            fail_msg("%s: %s", row[i].kernel, cx.first->msg);
        Buf b = buf_new(cx.a);
        kern_print(kern, &b);
        compare(&cx, arena_printf(cx.a, "%s.kern", row[i].kernel), b.s, b.n);
        compare(&cx, arena_printf(cx.a, "%s.%s.txt", row[i].kernel, ending[caps.kind]), u.text, u.bytes);
        arena_free(cx.a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_emitted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
