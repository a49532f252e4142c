/* The public header under a host program: its threads, its log, and its memory, which runs out at any point. */
#include "apidesk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- threads ---- */

static void *own_context(void *seed) {
    static const char *const types[] = {"f32", "f64"};
    static double x[2][ROWS * N], y[2][ROWS * N]; /* enough for either type */
    int me = *(int *)seed;
    rowfold_context *c = context();
    for (int i = 0; i < 3; i++) {
        rowfold_kernel *k = kernel(c, "softmax", types[me], NULL);
        rowfold_arg a[2] = {tensor(x[me], ROWS, N), tensor(y[me], ROWS, N)};
        assert_int_equal(rowfold_fill("normal", types[me], x[me], ROWS * N, (uint64_t)i, 0), ROWFOLD_OK);
        good(c, rowfold_launch(k, a, 2));
        good(c, rowfold_check(c, k, a, a, 2, NULL));
        rowfold_kernel_free(k);
    }
    rowfold_context_free(c);
    return NULL;
}

static void test_two_contexts(void **state) {
    (void)state;
    pthread_t t[2];
    int id[2] = {0, 1};
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, own_context, &id[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
}

typedef struct Shared {
    rowfold_kernel *k;
    const float *x, *want;
} Shared;

static void *launches(void *arg) {
    const Shared *s = arg;
    float y[ROWS * N], in[ROWS * N];
    memcpy(in, s->x, sizeof in);
    const char *text = rowfold_kernel_text(s->k, ROWFOLD_CANDIDATES); /* made by the first that asks */
    assert_true(text && *text == '[' && text == rowfold_kernel_text(s->k, ROWFOLD_CANDIDATES));
    for (int i = 0; i < 50; i++) {
        memset(y, 0, sizeof y);
        rowfold_arg a[2] = {tensor(in, ROWS, N), tensor(y, ROWS, N)};
        assert_int_equal(rowfold_launch(s->k, a, 2), ROWFOLD_OK);
        assert_memory_equal(y, s->want, sizeof y);
        a[1].data = in; /* failing in one thread does not disturb the others */
        assert_int_equal(rowfold_launch(s->k, a, 2), ROWFOLD_LAUNCH);
    }
    return NULL;
}

static void test_shared_kernel(void **state) {
    (void)state;
    static float x[ROWS * N], want[ROWS * N];
    rowfold_context *c = context();
    Shared s = {kernel(c, "softmax", "f32", NULL), x, want};
    pthread_t t[3];
    assert_int_equal(rowfold_fill("normal", "f32", x, ROWS * N, 9, 0), ROWFOLD_OK);
    rowfold_arg a[2] = {tensor(x, ROWS, N), tensor(want, ROWS, N)};
    good(c, rowfold_launch(s.k, a, 2));
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, launches, &s), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_string_equal(rowfold_last_error(c)->slug, "launch.overlap");
    rowfold_kernel_free(s.k);
    rowfold_context_free(c);
}

static void serial_for(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    ++*(int *)user;
    for (int i = n - 1; i >= 0; i--) task(arg, i);
}

static void test_parallel_for(void **state) {
    (void)state;
    enum { MANY = 4096 };
    rowfold_context *c;
    rowfold_options o;
    int calls = 0;
    rowfold_options_init(&o);
    o.threads = 4, o.parallel_for = serial_for, o.parallel_user = &calls;
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_OK);
    rowfold_kernel *k = kernel(c, "softmax", "f32", NULL);
    float *x = malloc(MANY * N * sizeof *x), *y = malloc(MANY * N * sizeof *y);
    assert_true(x && y);
    assert_int_equal(rowfold_fill("normal", "f32", x, (int64_t)MANY * N, 9, 0), ROWFOLD_OK);
    rowfold_arg a[2] = {tensor(x, MANY, N), tensor(y, MANY, N)};
    good(c, rowfold_launch(k, a, 2));
    good(c, rowfold_check(c, k, a, a, 2, NULL));
    assert_true(calls > 0);
    free(x), free(y);
    rowfold_kernel_free(k);
    rowfold_context_free(c);
}

/* ---- hooks ---- */

typedef struct Said {
    int lines, level;
    char last[200];
} Said;

static void hear(void *user, int level, const char *line) {
    Said *s = user;
    s->lines++, s->level = level;
    s->last[0] = 0;
    strncat(s->last, line, sizeof s->last - 1);
}

static void test_log(void **state) {
    (void)state;
    rowfold_context *c;
    rowfold_options o;
    rowfold_device *d;
    Said said = {0};
    char dir[] = "/dev/null/cache"; /* no folder, and never one */
    rowfold_options_init(&o);
    o.log = hear, o.log_user = &said, o.cache_dir = dir;
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_OK);
    memset(dir, '!', sizeof dir - 1); /* copied */
    rowfold_kernel_free(kernel(c, "total", "f32", NULL));
    assert_true(said.lines >= 1 && said.level == 2 && strstr(said.last, "cache"));
    int before = said.lines;
    expect(c, rowfold_device_find(c, "abacus", &d), ROWFOLD_UNAVAILABLE, "rt.no_device");
    assert_int_equal(said.lines, before + 1);
    assert_int_equal(said.level, 0);
    assert_string_equal(said.last, rowfold_last_error(c)->message);
    rowfold_context_free(c);
}

/* Gives memory until its turn has come, then none once; counts what is out. */
typedef struct Meter {
    atomic_long left, out, gets;
} Meter;

static void *meter_get(void *user, size_t bytes) {
    Meter *m = user;
    atomic_fetch_add(&m->gets, 1);
    if (atomic_fetch_sub(&m->left, 1) == 1) return NULL;
    atomic_fetch_add(&m->out, 1);
    return malloc(bytes);
}

static void meter_put(void *user, void *p) {
    if (!p) return;
    atomic_fetch_sub(&((Meter *)user)->out, 1);
    free(p);
}

static rowfold_status all_of_it(rowfold_context *c) {
    static float x[ROWS * N], y[ROWS * N];
    rowfold_source *s = NULL;
    rowfold_program *p = NULL;
    rowfold_kernel *k = NULL;
    rowfold_bound *b = NULL;
    char *json = NULL;
    rowfold_arg a[2] = {tensor(x, ROWS, N), tensor(y, ROWS, N)};
    rowfold_compile_options o = options("n=20");
    o.pin = "W=16,V=1"; /* a small space, since this is done hundreds of times */
    memset(y, 0, sizeof y);
    rowfold_status st = rowfold_source_parse(c, "m.row", programs, sizeof programs - 1, &s);
    if (!st) st = rowfold_program_new(c, s, "softmax", "f32", NULL, &p);
    if (!st) st = rowfold_compile(c, p, &o, &k);
    if (!st) st = rowfold_launch(k, a, 2);
    if (!st) st = rowfold_bind(k, a, 2, &b);
    if (!st) st = rowfold_run(b);
    if (!st) st = rowfold_check(c, k, a, a, 2, &json);
    assert_true((json != NULL) == (st == ROWFOLD_OK));
    rowfold_free(c, json);
    rowfold_bound_free(b);
    rowfold_kernel_free(k);
    rowfold_program_free(p);
    rowfold_source_free(s);
    return st;
}

static void test_memory(void **state) {
    (void)state;
    Meter m = {0};
    rowfold_context *c = NULL;
    rowfold_options o;
    rowfold_options_init(&o);
    o.allocate = meter_get, o.memory_user = &m;
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_ARGUMENT); /* no release */
    o.release = meter_put, o.threads = 1;
    long k = 1;
    for (;; k++) { /* a context is made whole or not at all */
        atomic_store(&m.left, k);
        rowfold_status s = rowfold_context_new(&o, &c);
        if (s == ROWFOLD_OK && atomic_load(&m.left) > 0) break;
        if (s == ROWFOLD_OK)
            rowfold_context_free(c); /* did without */
        else
            assert_int_equal(s, ROWFOLD_MEMORY);
        assert_int_equal(atomic_load(&m.out), 0);
    }
    assert_true(k > 3);
    atomic_store(&m.left, 0); /* below 1: always gives */
    good(c, all_of_it(c));    /* and the kernel is in the cache */
    /* An error before, so that the memory of error texts is the same each time. */
    rowfold_device *d;
    expect(c, rowfold_device_find(c, "abacus", &d), ROWFOLD_UNAVAILABLE, "rt.no_device");
    long base = atomic_load(&m.out), failed = 0;
    for (k = 1;; k++) {
        atomic_store(&m.left, k);
        rowfold_status s = all_of_it(c);
        long left = atomic_load(&m.left);
        atomic_store(&m.left, 0);
        if (s == ROWFOLD_OK && left > 0) break;
        if (s != ROWFOLD_OK) {
            assert_int_equal(s, ROWFOLD_MEMORY);
            assert_string_equal(rowfold_last_error(c)->slug, "memory.exhausted");
            failed++;
        }
        expect(c, rowfold_device_find(c, "abacus", &d), ROWFOLD_UNAVAILABLE, "rt.no_device");
        if (atomic_load(&m.out) != base)
            fail_msg("%ld more blocks after allocation %ld failed", atomic_load(&m.out) - base, k);
    }
    assert_true(failed > k / 2);
    good(c, all_of_it(c));
    /* texts that are made late: whole or not at all, and again when there is memory */
    rowfold_kernel *late = kernel(c, "softmax", "f32", NULL);
    static const struct {
        rowfold_query query;
        char first;
    } texts[] = {{ROWFOLD_CANDIDATES, '['}, {ROWFOLD_RECEIPT, '{'}};
    for (int i = 0; i < 2; i++) {
        const char *text = NULL;
        base = atomic_load(&m.out);
        for (k = 1; !text; k++) {
            atomic_store(&m.left, k);
            text = rowfold_kernel_text(late, texts[i].query);
            atomic_store(&m.left, 0);
            if (text) break;
            assert_string_equal(rowfold_last_error(c)->slug, "memory.exhausted");
            assert_int_equal(atomic_load(&m.out), base);
        }
        assert_true(k > 3 && *text == texts[i].first);
    }
    rowfold_kernel_free(late);
    rowfold_context_free(c);
    assert_int_equal(atomic_load(&m.out), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_contexts), cmocka_unit_test(test_shared_kernel), cmocka_unit_test(test_parallel_for),
        cmocka_unit_test(test_log),          cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
