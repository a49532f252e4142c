/* For tests of CUDA without a GPU: kernels of the library emitted, and the runtime over a driver that is not one
 * (tests/fault/fake_cuda.c). */
#ifndef ROWFOLD_TEST_FAKECUDA_H
#define ROWFOLD_TEST_FAKECUDA_H

#include "../../src/gen/kern.h"
#include "../../src/lang/lang.h"
#include "../../src/rt/cudadrv.h"

#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline bool compiler(Nvrtc *n) {
    if (nvrtc_open(n)) return true;
    printf("# skipped: %s\n", n->why);
    return false;
}

static inline const char *said(const Cx *cx) {
    return cx->first ? cx->first->msg : "";
}

/* A kernel of the library at a shape, for a preset; fails the test where a stage does. */
static inline void emit(Cx *cx, const char *preset, const char *file, const char *kernel, Ty ty, const char *shape,
                        const char *text, Problem *pb, Kern **k, Unit *u) {
    static char source[1 << 16];
    const char *root = getenv("ROWFOLD_ROOT");
    FILE *f = fopen(arena_printf(cx->a, "%s/kernels/%s.row", root ? root : ".", file), "rb");
    assert_non_null(f);
    size_t n = fread(source, 1, sizeof source, f);
    fclose(f);
    Ast *ast;
    Prog *p;
    TyBind bind[] = {{"*", ty}};
    assert_int_equal(lang_parse(cx, file, source, n, &ast), OK);
    assert_int_equal(lang_kernel(cx, ast, kernel, bind, 1, NULL, 0, &p), OK);
    Shape s = {0};
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    char *copy = arena_printf(cx->a, "%s", shape);
    for (char *q = strtok(copy, ","); q; q = strtok(NULL, ",")) {
        char *eq = strchr(q, '=');
        *eq = 0;
        const int axis = prog_axis(p, q);
        const char *most = strstr(eq + 1, "..");
        s.n[axis] = strtoll(most ? most + 2 : eq + 1, NULL, 10);
        if (most) s.least[axis] = strtoll(eq + 1, NULL, 10);
    }
    Caps caps;
    Plan plan;
    assert_true(caps_preset(preset, &caps));
    assert_int_equal(problem_make(cx, p, &s, &caps, 0, pb), OK);
    assert_int_equal(plan_read(cx, text, &plan), OK);
    if (kern_lower(cx, pb, &plan, k) != OK || kern_verify(cx, *k) != OK || unit_emit(cx, pb, *k, u) != OK)
        fail_msg("%s %s: %s", kernel, text, said(cx));
}

typedef struct Last { /* as there */
    unsigned blocks, threads, shared, launches, modules;
    int64_t first, rows;
    unsigned overlap;
    void *stream, *context;
    unsigned retained;
    uint64_t work;
} Last;

typedef struct Fake {
    Cx cx;
    Rt *rt;
    Device *d;
    void *lib;
    Last *last;
    Problem pb;
    Kern *k;
    Unit u;
} Fake;

/* Opened with the words as the driver's troubles, and a unit of softmax for it. */
static inline void fake_open(Fake *f, const char *words, const char *plan) {
    const char *build = getenv("ROWFOLD_BUILD");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/tests/libfake_cuda.so", build ? build : ".");
    *f = (Fake){.cx = {.a = arena_new(NULL, NULL)}, .lib = dlopen(path, RTLD_NOW)};
    if (!f->lib) fail_msg("%s", dlerror());
    f->last = dlsym(f->lib, "fake_last");
    assert_non_null(f->last);
    *f->last = (Last){0};
    setenv("ROWFOLD_LIBCUDA", path, 1);
    setenv("FAKE_CUDA", words, 1);
    RtOptions o = {.cache_dir = "", .isa = ISA_COUNT};
    assert_int_equal(rt_open(&f->cx, &o, &f->rt), OK);
    rt_find(&f->cx, f->rt, "cuda:0", &f->d);
    emit(&f->cx, "h200", "softmax", "softmax", TY_F32, "rows=64,n=256", plan, &f->pb, &f->k, &f->u);
}

static inline void fake_close(Fake *f) {
    rt_close(f->rt);
    arena_free(f->cx.a);
    dlclose(f->lib);
    unsetenv("ROWFOLD_LIBCUDA");
    unsetenv("FAKE_CUDA");
}

static inline void expect(Fake *f, Err got, Slug slug) {
    if (got != slug_err(slug) || !f->cx.last || f->cx.last->slug != slug)
        fail_msg("%s: %s", slug_text(slug), f->cx.last ? f->cx.last->msg : "no error");
}
#endif
