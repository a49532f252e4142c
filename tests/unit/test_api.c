/* The public header from outside: every refusal of a call with its slug, and what a launch must hold to. */
#include "apidesk.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---- tables ---- */

static void test_tables(void **state) {
    (void)state;
    assert_int_equal(rowfold_version(), ROWFOLD_VERSION);
    int v = ROWFOLD_VERSION_MAJOR * 10000 + ROWFOLD_VERSION_MINOR * 100 + ROWFOLD_VERSION_PATCH;
    assert_int_equal(v, ROWFOLD_VERSION);
    assert_string_equal(rowfold_version_string(), "0.1.0");
    assert_string_equal(rowfold_status_name(ROWFOLD_OK), "ok");
    assert_string_equal(rowfold_status_name(ROWFOLD_INTERNAL), "internal");
    assert_string_equal(rowfold_status_name((rowfold_status)12), "unknown");
    int n = 0;
    for (; rowfold_slug(n); n++) assert_non_null(rowfold_explain(rowfold_slug(n)));
    assert_true(n > 50);
    assert_null(rowfold_slug(-1));
    assert_null(rowfold_explain("no.such_slug"));
    assert_null(rowfold_explain(NULL));
    assert_non_null(rowfold_preset(0));
    assert_null(rowfold_preset(-1));
    for (n = 0; rowfold_preset(n);) n++;
    assert_null(rowfold_preset(n + 1));
    assert_string_equal(rowfold_last_error(NULL)->slug, "");
}

/* ---- contexts ---- */

static void test_context(void **state) {
    (void)state;
    rowfold_context *c = NULL;
    rowfold_options o;
    rowfold_options_init(&o);
    rowfold_options_init(NULL);
    assert_int_equal(rowfold_context_new(NULL, NULL), ROWFOLD_ARGUMENT);
    o.struct_size = sizeof o + 1; /* of a header newer than the library */
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_ARGUMENT);
    o.struct_size = 0;
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_ARGUMENT);
    rowfold_options_init(&o);
    o.isa = "mmx";
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_ARGUMENT);
    rowfold_options_init(&o);
    o.threads = -1;
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_ARGUMENT);
    assert_null(c);
    rowfold_options_init(&o);
    o.struct_size = offsetof(rowfold_options, cache_dir); /* of an older one: what it lacks has its default */
    o.cache_dir = "/nowhere", o.isa = "mmx";
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_OK);
    assert_string_equal(rowfold_last_error(c)->slug, "");
    rowfold_context_free(c);
    rowfold_context_free(NULL);
}

static void test_devices(void **state) {
    (void)state;
    rowfold_context *c = context();
    rowfold_device *d = NULL, *e = NULL;
    assert_true(rowfold_device_count(c) >= 1);
    assert_int_equal(rowfold_device_count(NULL), 0);
    assert_null(rowfold_device_at(c, -1));
    assert_null(rowfold_device_at(c, rowfold_device_count(c)));
    good(c, rowfold_device_find(c, "host", &d));
    assert_string_equal(rowfold_device_name(d), "host");
    assert_true(*rowfold_device_identity(d) && strstr(rowfold_device_caps(d), "kind=host"));
    good(c, rowfold_device_find(c, NULL, &e));
    assert_int_equal(rowfold_device_find(NULL, "host", &d), ROWFOLD_ARGUMENT);
    expect(c, rowfold_device_find(c, "abacus", &d), ROWFOLD_UNAVAILABLE, "rt.no_device");
    expect(c, rowfold_device_find(c, "preset:abacus", &d), ROWFOLD_UNAVAILABLE, "device.no_preset");
    for (int i = 0; rowfold_preset(i); i++) {
        char name[64] = "preset:";
        strncat(name, rowfold_preset(i), sizeof name - 8);
        good(c, rowfold_device_find(c, name, &d));
        good(c, rowfold_device_find(c, name, &e));
        assert_ptr_equal(d, e);
    }
    rowfold_status s = ROWFOLD_OK; /* a limit, and the context lives on */
    for (int i = 1; i < 64 && s == ROWFOLD_OK; i++) {
        char name[16] = "fault:";
        name[6] = (char)('0' + i / 10), name[7] = (char)('0' + i % 10), name[8] = 0;
        s = rowfold_device_find(c, name, &d);
    }
    expect(c, s, ROWFOLD_ARGUMENT, "call.argument");
    good(c, rowfold_device_find(c, "host", &d));
    assert_string_equal(rowfold_device_name(NULL), "");
    assert_string_equal(rowfold_device_identity(NULL), "");
    assert_string_equal(rowfold_device_caps(NULL), "");
    rowfold_context_free(c);
}

/* ---- programs ---- */

static void test_parse(void **state) {
    (void)state;
    static const char bad[] = "kernel k for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n    y = x + zz\n}\n";
    rowfold_context *c = context();
    rowfold_source *s = NULL;
    rowfold_program *p = NULL;
    good(c, rowfold_source_parse(c, "bad.row", bad, sizeof bad - 1, &s));
    expect(c, rowfold_program_new(c, s, NULL, NULL, NULL, &p), ROWFOLD_LANGUAGE, "lang.name_unknown");
    rowfold_source_free(s);
    const rowfold_error *e = rowfold_last_error(c);
    assert_string_equal(e->file, "bad.row");
    assert_int_equal(e->line, 2);
    assert_int_equal(e->column, 13);
    assert_non_null(strstr(e->text, "    y = x + zz\n"));
    assert_non_null(strstr(e->text, "^~"));
    s = NULL;
    expect(c, rowfold_source_parse(c, "bad.row", bad, sizeof bad - 4, &s), ROWFOLD_LANGUAGE, "lang.syntax");
    assert_true(rowfold_last_error(c)->line == 2 && *rowfold_last_error(c)->accepted);
    assert_null(s);
    expect(c, rowfold_source_parse(c, NULL, "", 0, &s), ROWFOLD_LANGUAGE, "lang.empty");
    expect(c, rowfold_source_parse(c, NULL, NULL, 1, &s), ROWFOLD_ARGUMENT, "call.argument");
    expect(c, rowfold_source_parse(c, NULL, bad, 1, NULL), ROWFOLD_ARGUMENT, "call.argument");
    assert_int_equal(rowfold_source_parse(NULL, NULL, bad, 1, &s), ROWFOLD_ARGUMENT);
    good(c, rowfold_source_parse(c, NULL, programs, sizeof programs - 1, &s));
    assert_int_equal(rowfold_source_count(s), 6);
    assert_string_equal(rowfold_source_kernel(s, 1), "total");
    assert_null(rowfold_source_kernel(s, 6));
    assert_null(rowfold_source_kernel(NULL, 0));
    assert_int_equal(rowfold_source_count(NULL), 0);
    expect(c, rowfold_program_new(c, NULL, NULL, "f32", NULL, &p), ROWFOLD_ARGUMENT, "call.argument");
    expect(c, rowfold_program_new(c, s, "nothing", "f32", NULL, &p), ROWFOLD_ARGUMENT, "lang.kernel_unknown");
    expect(c, rowfold_program_new(c, s, NULL, NULL, NULL, &p), ROWFOLD_ARGUMENT, "lang.type_unbound");
    expect(c, rowfold_program_new(c, s, NULL, "T=f33", NULL, &p), ROWFOLD_ARGUMENT, "call.unknown_type");
    expect(c, rowfold_program_new(c, s, NULL, "U=f32", NULL, &p), ROWFOLD_ARGUMENT, "lang.bind_unknown");
    expect(c, rowfold_program_new(c, s, "shift", "f32", NULL, &p), ROWFOLD_ARGUMENT, "lang.const_unbound");
    expect(c, rowfold_program_new(c, s, "shift", "f32", "k", &p), ROWFOLD_ARGUMENT, "call.constant");
    expect(c, rowfold_program_new(c, s, "shift", "f32", "k=3x", &p), ROWFOLD_ARGUMENT, "call.constant");
    expect(c, rowfold_program_new(c, s, "shift", "f32", "k=", &p), ROWFOLD_ARGUMENT, "call.constant");
    expect(c, rowfold_program_new(c, s, "shift", "f32", "k=1.5", &p), ROWFOLD_LANGUAGE, "lang.const_value");
    char many[400] = "";
    for (int i = 0; i < 40; i++) snprintf(many + 6 * i, 7, "k%02d=3,", i);
    expect(c, rowfold_program_new(c, s, "shift", "f32", many, &p), ROWFOLD_ARGUMENT, "call.argument");
    for (int i = 0; i < 40; i++) snprintf(many + 8 * i, 9, "A%02d=f32,", i);
    expect(c, rowfold_program_new(c, s, "shift", "f32", "k=3,k=4", &p), ROWFOLD_ARGUMENT, "call.constant");
    expect(c, rowfold_program_new(c, s, "shift", "T=f32,T=f32", "k=3", &p), ROWFOLD_ARGUMENT, "call.unknown_type");
    expect(c, rowfold_program_new(c, s, "shift", "f32,bf16", "k=3", &p), ROWFOLD_ARGUMENT, "call.unknown_type");
    expect(c, rowfold_program_new(c, s, "shift", many, "k=3", &p), ROWFOLD_ARGUMENT, "call.argument");
    assert_null(p);
    rowfold_source_free(s);
    rowfold_source_free(NULL);
    assert_string_equal(rowfold_last_error(c)->slug, "call.argument"); /* texts do not lie in what was freed */
    rowfold_context_free(c);
}

static void test_params(void **state) {
    (void)state;
    rowfold_context *c = context();
    rowfold_program *p = program(c, "shift", "T=bf16", "k=3, c=0.5");
    rowfold_param q;
    assert_int_equal(rowfold_param_count(p), 4);
    assert_string_equal(rowfold_program_name(p), "shift");
    assert_non_null(strstr(rowfold_program_text(p), "bf16"));
    assert_int_equal(rowfold_param_get(p, 0, &q), ROWFOLD_OK);
    assert_string_equal(q.name, "x");
    assert_string_equal(q.type, "bf16");
    assert_int_equal(q.direction, ROWFOLD_IN);
    assert_int_equal(q.rank, 2);
    assert_string_equal(q.axis[0], "rows");
    assert_true(q.is_row[0] && !q.is_row[1]);
    assert_int_equal(rowfold_param_get(p, 2, &q), ROWFOLD_OK);
    assert_int_equal(q.direction, ROWFOLD_CONST);
    assert_true(q.value == 3);
    assert_int_equal(rowfold_param_get(p, 3, &q), ROWFOLD_OK);
    assert_true(q.value == 0.5);
    assert_int_equal(rowfold_param_get(p, 4, &q), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_param_get(p, -1, &q), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_param_count(NULL), 0);
    assert_string_equal(rowfold_program_name(NULL), "");
    assert_string_equal(rowfold_program_text(NULL), "");
    rowfold_program_free(p);
    rowfold_program_free(NULL);
    rowfold_context_free(c);
}

/* ---- compiling ---- */

static rowfold_status compile_with(rowfold_context *c, const rowfold_program *p, rowfold_compile_options o) {
    rowfold_kernel *k = NULL;
    rowfold_status s = rowfold_compile(c, p, &o, &k);
    assert_true((k != NULL) == (s == ROWFOLD_OK));
    rowfold_kernel_free(k);
    return s;
}

static void test_shapes(void **state) {
    (void)state;
    static const struct {
        const char *shape, *slug;
    } bad[] = {{"z=3", "call.shape"},     {"n=", "call.shape"},
               {"n", "call.shape"},       {"n=3.5", "call.shape"},
               {"n=-1", "call.shape"},    {"n=3,n=4", "call.shape"},
               {"n=3,p=5", "call.shape"}, {"n=99999999999999999999", "call.shape"},
               {NULL, "shape.unknown"},   {"rows=5", "shape.unknown"},
               {",,", "shape.unknown"},   {"n=9223372036854775807", "shape.overflow"}};
    rowfold_context *c = context();
    rowfold_program *p = program(c, "pad", "f32", NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(c, compile_with(c, p, options(bad[i].shape)), ROWFOLD_ARGUMENT, bad[i].slug);
    rowfold_program_free(p);
    rowfold_context_free(c);
}

static void test_compile_options(void **state) {
    (void)state;
    rowfold_context *c = context();
    rowfold_program *p = program(c, "softmax", "f32", NULL);
    rowfold_compile_options o = options("n=20");
    rowfold_kernel *k = NULL;
    assert_int_equal(rowfold_compile(NULL, p, &o, &k), ROWFOLD_ARGUMENT);
    expect(c, rowfold_compile(c, NULL, &o, &k), ROWFOLD_ARGUMENT, "call.argument");
    o.struct_size = 1;
    expect(c, rowfold_compile(c, p, &o, &k), ROWFOLD_ARGUMENT, "call.argument");
    o = options("n=20"), o.effort = (rowfold_effort)7;
    expect(c, compile_with(c, p, o), ROWFOLD_ARGUMENT, "call.argument");
    o = options("n=20"), o.threads = -1;
    expect(c, compile_with(c, p, o), ROWFOLD_ARGUMENT, "call.argument");
    o = options("n=20"), o.strided = "x,z";
    expect(c, compile_with(c, p, o), ROWFOLD_ARGUMENT, "call.argument");
    o = options("n=20"), o.policy = "astrology";
    expect(c, compile_with(c, p, o), ROWFOLD_ARGUMENT, "cost.unknown_policy");
    o = options("n=20"), o.pin = "W=7";
    expect(c, compile_with(c, p, o), ROWFOLD_REFUSED, "plan.value_not_legal");
    o = options("n=20"), o.pin = "hold.y=register"; /* several plans, none legal: y is needed once */
    expect(c, compile_with(c, p, o), ROWFOLD_REFUSED, "plan.hold_unknown");
    o = options("n=20"), o.pin = "tail=exact,V=8,W=16";
    expect(c, compile_with(c, p, o), ROWFOLD_REFUSED, "search.no_legal_plan");
    o = options("n=20"), o.effort = ROWFOLD_EXHAUSTIVE, o.max_candidates = 2;
    expect(c, compile_with(c, p, o), ROWFOLD_ARGUMENT, "bench.rows_unknown");
    o.shape = "rows=4,n=20";
    expect(c, compile_with(c, p, o), ROWFOLD_REFUSED, "plan.space_too_large");
    o = options("n=20"), o.effort = ROWFOLD_MEASURE;
    expect(c, compile_with(c, p, o), ROWFOLD_ARGUMENT, "bench.rows_unknown");
    o.shape = "rows=0,n=20";
    expect(c, compile_with(c, p, o), ROWFOLD_ARGUMENT, "bench.nothing");
    o.shape = "rows=2199023255552,n=20";
    expect(c, compile_with(c, p, o), ROWFOLD_ARGUMENT, "bench.too_large");
    o = options("rows=4,n=20"), o.effort = ROWFOLD_MEASURE;
    good(c, rowfold_device_find(c, "preset:h200", &o.device));
    expect(c, compile_with(c, p, o), ROWFOLD_UNAVAILABLE, "device.not_here");
    assert_null(k);
    rowfold_program_free(p);
    rowfold_context_free(c);
}

static int stop_at_once(void *user, const rowfold_progress *p) {
    ++*(int *)user;
    assert_true(p->tried >= 0 && p->tried <= p->total); /* 0 where the machine takes its time to prepare */
    return 1;
}

/* A device that takes every kernel and computes nothing: every candidate is found out, however the search ends. */
static void test_search_fails(void **state) {
    (void)state;
    rowfold_context *c = context();
    rowfold_program *p = program(c, "softmax", "f32", NULL);
    rowfold_compile_options o = options("rows=4,n=20");
    good(c, rowfold_device_find(c, "null", &o.device));
    o.effort = ROWFOLD_MEASURE, o.max_candidates = 3;
    expect(c, compile_with(c, p, o), ROWFOLD_BUILD, "search.no_working_plan");
    assert_non_null(strstr(rowfold_last_error(c)->message, "oracle.mismatch"));
    int calls = 0;
    o.progress = stop_at_once, o.progress_user = &calls;
    expect(c, compile_with(c, p, o), ROWFOLD_STOPPED, "search.stopped");
    assert_int_equal(calls, 1);
    rowfold_program_free(p);
    rowfold_context_free(c);
}

static json_t *json_of(const rowfold_kernel *k, rowfold_query q) {
    json_error_t e;
    json_t *j = json_loads(rowfold_kernel_text(k, q), 0, &e);
    if (!j) fail_msg("query %d is no JSON: %s", (int)q, e.text);
    return j;
}

/* A call a candidate, and more of the same count while finalists take turns. */
static int count_tried(void *user, const rowfold_progress *p) {
    assert_true(p->tried == *(int *)user || p->tried == *(int *)user + 1);
    *(int *)user = (int)p->tried;
    assert_true(p->best_plan != NULL && p->elapsed_s >= 0);
    return 0;
}

static void test_measure(void **state) {
    (void)state;
    rowfold_context *c = context();
    rowfold_program *p = program(c, "softmax", "f32", NULL);
    rowfold_compile_options o = options("rows=64,n=20");
    rowfold_kernel *k;
    int tried = 0;
    o.effort = ROWFOLD_MEASURE, o.max_candidates = 2, o.progress = count_tried, o.progress_user = &tried;
    good(c, rowfold_compile(c, p, &o, &k));
    assert_int_equal(tried, 2);
    rowfold_stats s = {.struct_size = sizeof s};
    assert_int_equal(rowfold_kernel_stats(k, &s), ROWFOLD_OK);
    assert_true(s.candidates > 2 && s.timed == 2 && s.failed == 0);
    assert_true(s.time_min_s > 0 && s.time_min_s <= s.time_s && s.time_s <= s.time_max_s);
    assert_true(s.bytes == 64 * 20 * 4 * 2 && s.copy_s > 0 && s.worst_error <= 1 && s.compile_s > 0);
    s.struct_size = 0;
    assert_int_equal(rowfold_kernel_stats(k, &s), ROWFOLD_ARGUMENT);
    static const rowfold_query json[] = {ROWFOLD_DEMAND, ROWFOLD_RECEIPT, ROWFOLD_CANDIDATES, ROWFOLD_VERDICT};
    for (size_t i = 0; i < sizeof json / sizeof *json; i++) json_decref(json_of(k, json[i]));
    json_t *r = json_of(k, ROWFOLD_RECEIPT), *list = json_of(k, ROWFOLD_CANDIDATES);
    assert_int_equal(json_array_size(list), s.candidates);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(r, "search"), "timed")), 2);
    json_decref(r), json_decref(list);
    assert_non_null(strstr(rowfold_kernel_text(k, ROWFOLD_PLAN), "W="));
    assert_non_null(strstr(rowfold_kernel_text(k, ROWFOLD_SOURCE), "rowfold_kernel_softmax"));
    assert_non_null(strstr(rowfold_kernel_text(k, ROWFOLD_HEADER), "rowfold_kernel_softmax("));
    assert_null(rowfold_kernel_text(k, (rowfold_query)99));
    assert_null(rowfold_kernel_text(NULL, ROWFOLD_PLAN));
    rowfold_kernel_free(k);
    rowfold_kernel_free(NULL);
    rowfold_program_free(p);
    rowfold_context_free(c);
}

/* ---- launching ---- */

static void test_launch_refused(void **state) {
    (void)state;
    static float x[ROWS * N], y[ROWS * N];
    rowfold_context *c = context();
    rowfold_kernel *k = kernel(c, "softmax", "f32", NULL);
    rowfold_arg ok[2] = {tensor(x, ROWS, N), tensor(y, ROWS, N)}, a[2];
    good(c, rowfold_launch(k, ok, 2));
    assert_int_equal(rowfold_launch(NULL, ok, 2), ROWFOLD_ARGUMENT);
    expect(c, rowfold_launch(k, ok, 1), ROWFOLD_LAUNCH, "launch.argument_count");
    expect(c, rowfold_launch(k, ok, 3), ROWFOLD_LAUNCH, "launch.argument_count");
    expect(c, rowfold_launch(k, NULL, 2), ROWFOLD_LAUNCH, "launch.argument_count");
    assert_non_null(strstr(rowfold_last_error(c)->message, "NULL"));
#define REFUSED(slug, ...)                                        \
    do {                                                          \
        memcpy(a, ok, sizeof a);                                  \
        __VA_ARGS__;                                              \
        expect(c, rowfold_launch(k, a, 2), ROWFOLD_LAUNCH, slug); \
    } while (0)
    REFUSED("launch.extent", a[0].extent[1] = N - 1);
    REFUSED("launch.extent", a[1].extent[0] = ROWS - 1);
    REFUSED("launch.extent", a[0].extent[0] = -1);
    assert_non_null(strstr(rowfold_last_error(c)->message, "extent -1 along rows"));
    assert_string_equal(rowfold_last_error(c)->accepted, "0 or more");
    REFUSED("launch.extent", a[0].extent[0] = a[1].extent[0] = INT64_MAX);
    REFUSED("launch.stride", a[0].stride[0] = -N, a[0].stride[1] = 1);
    REFUSED("launch.stride", a[0].stride[0] = 1, a[0].stride[1] = ROWS);
    REFUSED("launch.stride", a[0].stride[0] = INT64_MAX, a[0].stride[1] = 1);
    REFUSED("launch.stride", a[1].stride[0] = 0, a[1].stride[1] = 1);
    REFUSED("launch.no_memory", a[0].data = NULL);
    REFUSED("launch.no_memory", a[1].data = NULL);
    REFUSED("launch.unaligned", a[0].data = (char *)x + 1);
    REFUSED("launch.overlap", a[1].data = x);
    REFUSED("launch.overlap", a[0] = tensor(y + 2 * N, 2, N), a[1] = tensor(y, 3, N),
            a[0].extent[0] = a[1].extent[0] = 3);
    assert_non_null(strstr(rowfold_last_error(c)->message, "x")); /* names both */
    assert_non_null(strstr(rowfold_last_error(c)->message, "y"));
    a[0] = tensor(x, ROWS, N), a[0].stride[1] = 1; /* one row read by all is an input like any other */
    a[1] = ok[1];
    good(c, rowfold_launch(k, a, 2));
    assert_memory_equal(y, y + N, N * sizeof *y);
    a[0] = tensor(NULL, 0, N), a[1] = tensor(NULL, 0, N); /* no rows, no memory */
    good(c, rowfold_launch(k, a, 2));
    rowfold_bound *b = NULL;
    good(c, rowfold_bind(k, a, 2, &b));
    assert_int_equal(rowfold_run(b), ROWFOLD_OK);
    rowfold_bound_free(b);
    rowfold_kernel_free(k);
    rowfold_context_free(c);
}

/* Rows of q, k and v side by side in one buffer. */
static void test_interleaved(void **state) {
    (void)state;
    static float buffer[ROWS * 3 * N];
    rowfold_context *c = context();
    rowfold_kernel *k = kernel(c, "pack", "f32", NULL);
    rowfold_arg a[3];
    for (int i = 0; i < ROWS * 3 * N; i++) buffer[i] = (float)i;
    for (int i = 0; i < 3; i++) {
        a[i] = tensor(buffer + (ptrdiff_t)i * N, ROWS, N);
        a[i].stride[0] = 3 * (int64_t)N, a[i].stride[1] = 1;
    }
    good(c, rowfold_launch(k, a, 3));
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < N; i++) {
            const float *row = buffer + (ptrdiff_t)r * 3 * N;
            assert_true(row[2 * N + i] == row[i] + row[N + i]);
        }
    a[2].data = buffer + 2 * N - 1; /* one element into k */
    expect(c, rowfold_launch(k, a, 3), ROWFOLD_LAUNCH, "launch.overlap");
    a[2].data = buffer + 2 * N;
    a[2].stride[0] = 3 * N + 1; /* out of step: meets q somewhere */
    a[2].extent[0] = a[1].extent[0] = a[0].extent[0] = ROWS - 1;
    expect(c, rowfold_launch(k, a, 3), ROWFOLD_LAUNCH, "launch.overlap");
    rowfold_kernel_free(k);
    rowfold_context_free(c);
}

/* A transposed input, where the program was compiled for any strides of it. */
static void test_strided(void **state) {
    (void)state;
    static float x[N * ROWS], y[ROWS * N], d[ROWS * N], want[ROWS * N];
    rowfold_context *c = context();
    rowfold_kernel *k = kernel(c, "softmax", "f32", "x"), *dense = kernel(c, "softmax", "f32", NULL);
    assert_int_equal(rowfold_fill("normal", "f32", d, ROWS * N, 7, 0), ROWFOLD_OK);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < N; i++) x[i * ROWS + r] = d[r * N + i];
    rowfold_arg a[2] = {tensor(x, ROWS, N), tensor(y, ROWS, N)}, b[2] = {tensor(d, ROWS, N), tensor(want, ROWS, N)};
    a[0].stride[0] = 1, a[0].stride[1] = ROWS;
    good(c, rowfold_launch(k, a, 2));
    good(c, rowfold_check(c, k, a, a, 2, NULL));
    good(c, rowfold_launch(dense, b, 2));
    good(c, rowfold_check(c, dense, b, b, 2, NULL));
    a[1].stride[0] = 1, a[1].stride[1] = ROWS; /* y is not */
    expect(c, rowfold_launch(k, a, 2), ROWFOLD_LAUNCH, "launch.stride");
    rowfold_kernel_free(k);
    rowfold_kernel_free(dense);
    rowfold_context_free(c);
}

static void test_empty_rows(void **state) {
    (void)state;
    float s[3] = {7, 7, 7};
    rowfold_context *c = context();
    rowfold_program *p = program(c, "total", "f32", NULL);
    rowfold_compile_options o = options("n=0");
    rowfold_kernel *k;
    good(c, rowfold_compile(c, p, &o, &k));
    rowfold_arg a[2] = {tensor(NULL, 3, 0), {.data = s, .extent = {3}}};
    good(c, rowfold_launch(k, a, 2));
    for (int i = 0; i < 3; i++) assert_true(s[i] == 0 && !signbit(s[i]));
    rowfold_kernel_free(k);
    rowfold_program_free(p);
    rowfold_context_free(c);
}

static void test_preset(void **state) {
    (void)state;
    float x[N], y[N];
    rowfold_context *c = context();
    rowfold_program *p = program(c, "softmax", "f32", NULL);
    rowfold_compile_options o = options("n=20");
    rowfold_kernel *k;
    rowfold_bound *b = NULL;
    good(c, rowfold_device_find(c, "preset:avx2", &o.device));
    good(c, rowfold_compile(c, p, &o, &k));
    assert_non_null(strstr(rowfold_kernel_text(k, ROWFOLD_SOURCE), "rowfold_kernel_softmax"));
    assert_string_equal(rowfold_kernel_text(k, ROWFOLD_VERDICT), "");
    rowfold_arg a[2] = {tensor(x, 1, N), tensor(y, 1, N)};
    expect(c, rowfold_launch(k, a, 2), ROWFOLD_UNAVAILABLE, "launch.not_built");
    expect(c, rowfold_bind(k, a, 2, &b), ROWFOLD_UNAVAILABLE, "launch.not_built");
    assert_null(b);
    rowfold_kernel_free(k);
    rowfold_program_free(p);
    rowfold_context_free(c);
}

static void test_bound(void **state) {
    (void)state;
    static float x[ROWS * N], y[ROWS * N], want[ROWS * N];
    rowfold_context *c = context();
    rowfold_kernel *k = kernel(c, "softmax", "f32", NULL);
    rowfold_arg a[2] = {tensor(x, ROWS, N), tensor(y, ROWS, N)};
    rowfold_bound *b = NULL;
    assert_int_equal(rowfold_fill("normal", "f32", x, ROWS * N, 1, 0), ROWFOLD_OK);
    good(c, rowfold_launch(k, a, 2));
    memcpy(want, y, sizeof y);
    memset(y, 0, sizeof y);
    good(c, rowfold_bind(k, a, 2, &b));
    expect(c, rowfold_launch_in(k, &b, a, 2), ROWFOLD_UNAVAILABLE, "rt.not_offered");
    memset(a, 0, sizeof a); /* copied */
    assert_int_equal(rowfold_run(b), ROWFOLD_OK);
    assert_int_equal(rowfold_run_in(b, NULL), ROWFOLD_OK);
    assert_int_equal(rowfold_run_in(b, &b), ROWFOLD_UNAVAILABLE); /* hosts have no queues */
    assert_memory_equal(y, want, sizeof y);
    assert_int_equal(rowfold_bind(NULL, a, 2, &b), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_run(NULL), ROWFOLD_ARGUMENT);
    expect(c, rowfold_bind(k, a, 2, NULL), ROWFOLD_ARGUMENT, "call.argument");
    rowfold_bound_free(b);
    rowfold_bound_free(NULL);
    rowfold_kernel_free(k);
    rowfold_context_free(c);
}

/* A device that fails a call says so in the launch's own words. */
static void test_device_fails(void **state) {
    (void)state;
    float x[N] = {0}, y[N];
    rowfold_context *c = context();
    rowfold_program *p = program(c, "softmax", "f32", NULL);
    rowfold_compile_options o = options("n=20");
    rowfold_kernel *k;
    rowfold_arg a[2] = {tensor(x, 1, N), tensor(y, 1, N)};
    good(c, rowfold_device_find(c, "fault:1", &o.device));
    expect(c, compile_with(c, p, o), ROWFOLD_LAUNCH, "rt.fault_injected");
    good(c, rowfold_device_find(c, "fault:2", &o.device));
    good(c, rowfold_compile(c, p, &o, &k));
    expect(c, rowfold_launch(k, a, 2), ROWFOLD_LAUNCH, "rt.fault_injected");
    good(c, rowfold_launch(k, a, 2));
    rowfold_kernel_free(k);
    rowfold_program_free(p);
    rowfold_context_free(c);
}

/* ---- checking ---- */

static void test_check(void **state) {
    (void)state;
    static float x[ROWS * N], y[ROWS * N];
    rowfold_context *c = context();
    rowfold_kernel *k = kernel(c, "softmax", "f32", NULL);
    rowfold_arg a[2] = {tensor(x, ROWS, N), tensor(y, ROWS, N)};
    char *json = NULL;
    assert_int_equal(rowfold_fill("wide", "f32", x, ROWS * N, 3, 0), ROWFOLD_OK);
    good(c, rowfold_launch(k, a, 2));
    good(c, rowfold_check(c, k, NULL, a, 2, &json));
    json_t *j = json_loads(json, 0, NULL);
    assert_true(json_is_true(json_object_get(j, "ok")));
    assert_null(json_object_get(j, "first_bad"));
    json_decref(j);
    rowfold_free(c, json);
    y[3 * N + 5] += 0.001F;
    expect(c, rowfold_check(c, k, a, a, 2, &json), ROWFOLD_WRONG, "oracle.mismatch");
    j = json_loads(json, 0, NULL);
    assert_true(json_is_false(json_object_get(j, "ok")));
    json_t *first = json_object_get(j, "first_bad"), *at = json_object_get(first, "at");
    assert_string_equal(json_string_value(json_object_get(first, "output")), "y");
    assert_int_equal(json_array_size(at), 2);
    assert_int_equal(json_integer_value(json_array_get(at, 0)), 3);
    assert_int_equal(json_integer_value(json_array_get(at, 1)), 5);
    json_decref(j);
    rowfold_free(c, json);
    rowfold_free(c, NULL);
    expect(c, rowfold_check(c, k, a, NULL, 2, &json), ROWFOLD_ARGUMENT, "call.argument");
    json = NULL;
    expect(c, rowfold_check(c, k, a, a, 1, &json), ROWFOLD_LAUNCH, "launch.argument_count");
    assert_null(json);
    assert_int_equal(rowfold_check(NULL, k, a, a, 2, NULL), ROWFOLD_ARGUMENT);
    rowfold_kernel_free(k);
    rowfold_context_free(c);
}

static void test_inout(void **state) {
    (void)state;
    static float x[ROWS * N], was[ROWS * N];
    rowfold_context *c = context();
    rowfold_kernel *k = kernel(c, "grow", "f32", NULL);
    assert_int_equal(rowfold_fill("uniform", "f32", x, ROWS * N, 3, 0), ROWFOLD_OK);
    memcpy(was, x, sizeof x);
    rowfold_arg a[3] = {tensor(x, ROWS, N), {.value = 4}, {.value = -0.5}}, in[3];
    memcpy(in, a, sizeof a);
    in[0].data = was;
    good(c, rowfold_launch(k, a, 3));
    for (int i = 0; i < ROWS * N; i++) assert_true(x[i] == was[i] * 4.0F - 0.5F);
    good(c, rowfold_check(c, k, in, a, 3, NULL));
    in[1].value = 5; /* the definition reads the scalars of the inputs */
    expect(c, rowfold_check(c, k, in, a, 3, NULL), ROWFOLD_WRONG, "oracle.mismatch");
    rowfold_kernel_free(k);
    rowfold_context_free(c);
}

static void test_fill(void **state) {
    (void)state;
    static const char *const kinds[] = {"uniform", "normal", "wide", "cancel", "ties", "special"};
    float a[200], b[200];
    int64_t t[500];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_int_equal(rowfold_fill(kinds[i], "f32", a, 200, 5, 0), ROWFOLD_OK);
        assert_int_equal(rowfold_fill(kinds[i], "f32", b, 200, 5, 0), ROWFOLD_OK);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(rowfold_fill(kinds[i], "f32", b, 200, 6, 0), ROWFOLD_OK);
        assert_memory_not_equal(a, b, sizeof a);
    }
    assert_int_equal(rowfold_fill("uniform", "i64", t, 500, 5, 50), ROWFOLD_OK);
    int outside = 0; /* indexes, some of which miss */
    for (int i = 0; i < 500; i++) {
        assert_true(t[i] >= -2 && t[i] <= 51);
        outside += t[i] < 0 || t[i] > 49;
    }
    assert_true(outside > 0 && outside < 250);
    assert_int_equal(rowfold_fill("none", "f32", a, 200, 5, 0), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_fill(NULL, "f32", a, 200, 5, 0), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_fill("normal", "f33", a, 200, 5, 0), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_fill("normal", "f32", a, -1, 5, 0), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_fill("normal", "f32", NULL, 1, 5, 0), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_fill("normal", "f32", NULL, 0, 5, 0), ROWFOLD_OK);
}

/* What the caller does next with SSE instructions is slow on some processors while the upper halves of registers are in
 * use: a kernel gives them back. */
static void upper_halves_are_given_back(void **state) {
    (void)state;
#if defined(__x86_64__)
    enum { UPPER = 1 << 2 | 1 << 6 }; /* of XINUSE: registers' bits 128 to 255, 256 to 511 */
    unsigned a, b, cc, in_use, high;
    float x[ROWS][N] = {{0}}, y[ROWS][N];
    if (!__builtin_cpu_supports("avx2") || !__get_cpuid_count(13, 1, &a, &b, &cc, &high) || !(a & 4)) {
        print_message("# skipped: no AVX2 here, or no xgetbv that tells what is in use\n");
        skip();
    }
#define XINUSE() __asm__ volatile("xgetbv" : "=a"(in_use), "=d"(high) : "c"(1))
    __asm__ volatile("vzeroupper" ::: "memory");
    XINUSE();
    if (in_use & UPPER) {
        print_message("# skipped: this processor does not keep track of upper halves\n");
        skip();
    }
    rowfold_context *c = context();
    rowfold_program *p = program(c, "softmax", "f32", NULL);
    rowfold_compile_options o = options("n=20");
    rowfold_kernel *k;
    rowfold_bound *bound;
    const rowfold_arg args[] = {tensor(x, ROWS, N), tensor(y, ROWS, N)};
    good(c, rowfold_device_find(c, "host", &o.device));
    good(c, rowfold_compile(c, p, &o, &k));
    good(c, rowfold_bind(k, args, 2, &bound));
    const rowfold_status s = rowfold_run(bound);
    XINUSE();
    assert_int_equal(s, ROWFOLD_OK);
    assert_int_equal(in_use & UPPER, 0);
    rowfold_bound_free(bound);
    rowfold_kernel_free(k);
    rowfold_program_free(p);
    rowfold_context_free(c);
#else
    print_message("# skipped: for x86-64\n");
    skip();
#endif
}

/* Least time of a call, ns: what disturbs one makes it longer. */
static int64_t least_ns(const rowfold_bound *b) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < 200; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        assert_int_equal(rowfold_run(b), ROWFOLD_OK);
        clock_gettime(CLOCK_MONOTONIC, &to);
        const int64_t ns = (int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
        if (ns < least) least = ns;
    }
    return least;
}

/* Exponentials that underflow took a hundred times as long where a processor has help from microcode for them. */
static void what_a_mask_hides_is_no_dearer(void **state) {
    (void)state;
    enum { LONG = 2000 };
    static float x[ROWS][LONG], y[ROWS][LONG];
    rowfold_context *c = context();
    rowfold_program *p = program(c, "softmax", "f32", NULL);
    rowfold_compile_options o = options("n=2000");
    rowfold_kernel *k;
    rowfold_bound *bound;
    const rowfold_arg args[] = {tensor(x, ROWS, LONG), tensor(y, ROWS, LONG)};
    o.threads = 1;
    good(c, rowfold_device_find(c, "host", &o.device));
    good(c, rowfold_compile(c, p, &o, &k));
    good(c, rowfold_bind(k, args, 2, &bound));
    const int64_t open = least_ns(bound);
    for (int r = 0; r < ROWS; r++)
        for (int i = 1; i < LONG; i += 2) x[r][i] = -INFINITY;
    const int64_t masked = least_ns(bound);
    assert_true(y[0][0] == 1.0f / (LONG / 2) && y[0][1] == 0);
    if (masked > 5 * open)
        fail_msg("%lld ns where half is masked, %lld where none is", (long long)masked, (long long)open);
    rowfold_bound_free(bound);
    rowfold_kernel_free(k);
    rowfold_program_free(p);
    rowfold_context_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_compile_options),
        cmocka_unit_test(test_search_fails),
        cmocka_unit_test(test_measure),
        cmocka_unit_test(test_launch_refused),
        cmocka_unit_test(test_interleaved),
        cmocka_unit_test(test_strided),
        cmocka_unit_test(test_empty_rows),
        cmocka_unit_test(test_preset),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_device_fails),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_inout),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(upper_halves_are_given_back),
        cmocka_unit_test(what_a_mask_hides_is_no_dearer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
