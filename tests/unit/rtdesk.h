/* What the tests of rt/ share: folders of their own, an opened runtime, and a unit whose every launch can be checked.
 */
#ifndef ROWFOLD_TEST_RTDESK_H
#define ROWFOLD_TEST_RTDESK_H

#include "../../src/base/os.h"
#include "../../src/rt/rt.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* a test program uses some of these */
#define SHARED static __attribute__((unused))

static char box[512], cache[600]; /* private folders of the test */

#define SLOT_TEXT "typedef union { void *p; long long i; double d; } Slot;\n"
/* y = 2 x; count[row] says how often the row was done */
static const char scale_text[] =
    SLOT_TEXT "void scale(const Slot *s, long long begin, long long end) {\n"
              "    const float *x = s[0].p; float *y = s[1].p; unsigned char *count = s[2].p; long long n = s[3].i;\n"
              "    for (long long r = begin; r < end; r++) {\n"
              "        for (long long i = 0; i < n; i++) y[r * n + i] = x[r * n + i] * 2.0f;\n"
              "        count[r]++;\n"
              "    }\n"
              "}\n";

SHARED Unit unit_of(const char *entry, const char *text) {
    return (Unit){.dialect = DIALECT_HOST,
                  .isa = ISA_PORTABLE,
                  .entry = entry,
                  .text = text,
                  .bytes = strlen(text),
                  .lanes = 1,
                  .rows_per_group = 1,
                  .elements_per_row = 1000};
}

typedef struct Desk { /* what most tests need */
    Cx cx;
    Rt *rt;
    Device *d;
} Desk;

SHARED RtOptions options(void) {
    return (RtOptions){.cache_dir = cache, .threads = 2, .isa = ISA_COUNT};
}

SHARED void open_desk(Desk *k, const RtOptions *o) {
    *k = (Desk){.cx = {.a = arena_new(NULL, NULL)}};
    assert_non_null(k->cx.a);
    assert_int_equal(rt_open(&k->cx, o, &k->rt), OK);
    assert_int_equal(rt_find(&k->cx, k->rt, "host", &k->d), OK);
}

SHARED void close_desk(Desk *k) {
    rt_close(k->rt);
    arena_free(k->cx.a);
}

SHARED void expect(Cx *cx, Err got, Slug slug) {
    assert_int_equal(got, slug_err(slug));
    assert_non_null(cx->last);
    assert_string_equal(slug_text(cx->last->slug), slug_text(slug));
}

SHARED int entries(char *one, size_t cap) { /* of the cache; the path of some entry */
    int n = 0;
    DIR *d = opendir(cache);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            if (one) snprintf(one, cap, "%s/%.200s", cache, e->d_name);
            n++;
        }
    closedir(d);
    return n;
}

SHARED int set_up(void **state) {
    (void)state;
    snprintf(cache, sizeof cache, "%s/cache", box);
    return 0;
}

SHARED int clean_up(void **state) {
    (void)state;
    os_dir_remove(cache);
    return 0;
}

enum { ROWS = 301, N = 97 };
typedef struct Data {
    float x[ROWS * N], y[ROWS * N];
    unsigned char count[ROWS];
} Data;

/* Launches a built `scale` and checks every element and that each row was done once. */
SHARED void check_scale(Module *m, int threads, int64_t rows) {
    Data *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < ROWS * N; i++) t->x[i] = (float)i - 7.5f, t->y[i] = -1;
    Slot slots[] = {{.p = t->x}, {.p = t->y}, {.p = t->count}, {.i = N}};
    assert_int_equal(mod_launch(NULL, m, slots, rows, threads), OK);
    for (int64_t i = 0; i < ROWS * N; i++) assert_true(t->y[i] == (i < rows * N ? t->x[i] * 2 : -1));
    for (int64_t r = 0; r < ROWS; r++) assert_int_equal(t->count[r], r < rows);
    free(t);
}

SHARED Module *build_scale(Desk *k) {
    Unit u = unit_of("scale", scale_text);
    Module *m = NULL;
    assert_int_equal(mod_build(&k->cx, k->d, &u, &m), OK);
    return m;
}

SHARED char *saved(const char *name) {
    const char *v = getenv(name);
    return v ? strdup(v) : NULL;
}
SHARED void restore(const char *name, char *v) {
    if (v)
        setenv(name, v, 1), free(v);
    else
        unsetenv(name);
}

SHARED int group_set_up(void **state) {
    (void)state;
    return os_dir_temp(box, sizeof box);
}
SHARED int group_tear_down(void **state) {
    (void)state;
    return os_dir_remove(box);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, clean_up)
#define RUN(tests) cmocka_run_group_tests(tests, group_set_up, group_tear_down)
#endif
