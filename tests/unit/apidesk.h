/* What the tests of the public header share: small programs, a context, and an error that is looked at from all sides.
 */
#ifndef ROWFOLD_TEST_APIDESK_H
#define ROWFOLD_TEST_APIDESK_H

#include "../../include/rowfold.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* a test program uses some of these */
#define SHARED static __attribute__((unused))

SHARED const char programs[] =
    "kernel softmax for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
    "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n"
    "kernel total for rows (x: in T[rows, n], s: out T[rows]) {\n    s = sum(x)\n}\n"
    "kernel pack for rows (q: in T[rows, n], k: in T[rows, n], v: out T[rows, n]) {\n    v = q + k\n}\n"
    "kernel grow for rows (x: inout T[rows, n], by: i32 = 2, f: f32 = 0.5) {\n    x = x * by + f\n}\n"
    "kernel shift for rows (x: in T[rows, n], y: out T[rows, n], const k: i32, const c: f32 = 0.25) {\n    y = x * k + "
    "c\n}\n"
    "kernel pad for rows (x: in T[rows, n], s: out T[rows]) {\n    axis p = n + 2\n    s = sum(x[rows, p] else 1)\n}\n";

enum { ROWS = 6, N = 20 };

SHARED rowfold_context *context(void) {
    rowfold_context *c = NULL;
    rowfold_options o;
    rowfold_options_init(&o);
    o.threads = 2;
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_OK);
    assert_non_null(c);
    return c;
}

/* The call failed as it should: status, slug and every text of the error. */
SHARED void expect(rowfold_context *c, rowfold_status got, rowfold_status want, const char *slug) {
    const rowfold_error *e = rowfold_last_error(c);
    if (got != want || strcmp(e->slug, slug) != 0)
        fail_msg("%s %s: %s; expected %s %s", rowfold_status_name(got), e->slug, e->message, rowfold_status_name(want),
                 slug);
    assert_int_equal(e->status, want);
    assert_true(*e->message && strstr(e->text, e->message));
    assert_non_null(rowfold_explain(e->slug));
    json_t *j = json_loads(e->json, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(json_array_get(j, 0), "slug")), slug);
    json_decref(j);
}

SHARED void good(rowfold_context *c, rowfold_status s) {
    if (s != ROWFOLD_OK) fail_msg("%s: %s", rowfold_status_name(s), rowfold_last_error(c)->text);
}

SHARED rowfold_program *program(rowfold_context *c, const char *kernel, const char *types, const char *constants) {
    rowfold_source *s;
    rowfold_program *p;
    good(c, rowfold_source_parse(c, "api.row", programs, sizeof programs - 1, &s));
    good(c, rowfold_program_new(c, s, kernel, types, constants, &p));
    rowfold_source_free(s); /* programs outlive their source */
    return p;
}

SHARED rowfold_compile_options options(const char *shape) {
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    o.shape = shape;
    return o;
}

SHARED rowfold_kernel *kernel(rowfold_context *c, const char *name, const char *types, const char *strided) {
    rowfold_program *p = program(c, name, types, strcmp(name, "shift") == 0 ? "k=3" : NULL);
    rowfold_compile_options o = options("n=20");
    rowfold_kernel *k;
    o.strided = strided;
    good(c, rowfold_compile(c, p, &o, &k));
    rowfold_program_free(p); /* and kernels their program */
    return k;
}

SHARED rowfold_arg tensor(void *data, int64_t rows, int64_t n) {
    return (rowfold_arg){.data = data, .extent = {rows, n}};
}

#endif
