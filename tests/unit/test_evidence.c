/* Benchmarks, catalogs and replays through the public header: options out of their range, a caller that stops, memory
 * that runs out at any point. What records hold is tested by tests/cli/test_evidence.sh. */
#include "apidesk.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char box[512];
static const char suite[] =
    "t.row softmax rows=3,n=40 f32 # a comment\n\nt.row total rows=2,n=7 f32 regimes=resident\n";

static int set_up(void **state) {
    (void)state;
    char path[600];
    snprintf(box, sizeof box, "%s/rowfold-evidence-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(box)) return 1;
    snprintf(path, sizeof path, "%s/t.row", box);
    FILE *f = fopen(path, "w");
    if (!f) return 1;
    fputs(programs, f);
    return fclose(f);
}

static int tear_down(void **state) {
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/t.row", box);
    return unlink(path) || rmdir(box);
}

static rowfold_evidence_options quick(rowfold_context *c) {
    rowfold_evidence_options o;
    rowfold_evidence_options_init(&o);
    assert_int_equal(rowfold_device_find(c, "host", &o.device), ROWFOLD_OK);
    o.effort = ROWFOLD_ESTIMATE;
    o.samples = 2, o.sample_s = 1e-4, o.warmup_s = 1e-4, o.rotate_bytes = 10000, o.threads = 1;
    o.worker = "";
    return o;
}

static void test_options(void **state) {
    (void)state;
    rowfold_context *c = context();
    rowfold_evidence_options o = quick(c), bad;
    char *json = NULL;
#define REFUSED(change, want)                                                            \
    do {                                                                                 \
        bad = o;                                                                         \
        change;                                                                          \
        assert_int_equal(rowfold_catalog_freeze(c, "t", suite, box, &bad, &json), want); \
        assert_null(json);                                                               \
    } while (0)
    REFUSED(bad.samples = 102, ROWFOLD_ARGUMENT);
    REFUSED(bad.sample_s = -1, ROWFOLD_ARGUMENT);
    REFUSED(bad.rounds = 3, ROWFOLD_ARGUMENT);
    REFUSED(bad.rounds = INT_MAX - 1, ROWFOLD_ARGUMENT);
    REFUSED(bad.figures = "device", ROWFOLD_ARGUMENT);
    REFUSED((bad.figures = "device.batch.cold", bad.primary = "device.single.cold"), ROWFOLD_ARGUMENT);
    REFUSED(bad.struct_size = 3, ROWFOLD_ARGUMENT);
    REFUSED(bad.effort = (rowfold_effort)9, ROWFOLD_ARGUMENT);
    REFUSED(bad.policy = "none", ROWFOLD_ARGUMENT);
    REFUSED(assert_int_equal(rowfold_device_find(c, "preset:h200", &bad.device), ROWFOLD_OK), ROWFOLD_UNAVAILABLE);
    rowfold_context *other = context();
    REFUSED(assert_int_equal(rowfold_device_find(other, "host", &bad.device), ROWFOLD_OK), ROWFOLD_ARGUMENT);
    assert_non_null(strstr(rowfold_last_error(c)->message, "another context"));
    assert_int_equal(rowfold_calibrate(c, bad.device, NULL, NULL, &json), ROWFOLD_ARGUMENT);
    rowfold_context_free(other);
#undef REFUSED
    assert_int_equal(rowfold_catalog_freeze(c, NULL, suite, box, &o, &json), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_catalog_freeze(c, "t", suite, box, &o, NULL), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_bench(c, "t", "# nothing\n", box, &o, &json), ROWFOLD_ARGUMENT);
    assert_string_equal(rowfold_last_error(c)->slug, "suite.line");
    assert_int_equal(rowfold_bench(NULL, "t", suite, box, &o, &json), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_record_check(c, "{}", 2, NULL), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_replay(c, "{}", 2, "{}", 2, "r.json", &o, &json), ROWFOLD_ARGUMENT);
    assert_null(json);
    rowfold_context_free(c);
}

static int stop_at(void *user, const rowfold_evidence_progress *p) {
    return p->done >= *(int *)user && p->done < p->total;
}

static void test_stopped(void **state) { /* a bench gives what it has, a catalog nothing */
    (void)state;
    rowfold_context *c = context();
    rowfold_evidence_options o = quick(c);
    char *json = NULL;
    int at = 1;
    o.progress = stop_at, o.progress_user = &at;
    assert_int_equal(rowfold_catalog_freeze(c, "t", suite, box, &o, &json), ROWFOLD_STOPPED);
    assert_string_equal(rowfold_last_error(c)->slug, "record.stopped");
    assert_null(json);
    assert_int_equal(rowfold_bench(c, "t", suite, box, &o, &json), ROWFOLD_OK);
    json_t *d = json_loads(json, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(d, "cases")), 1);
    assert_true(json_is_false(json_object_get(d, "complete")));
    json_decref(d);
    rowfold_free(c, json);
    rowfold_context_free(c);
}

typedef struct Purse { /* memory that is gone at the n-th asking */
    long left, out;
} Purse;
static void *take(void *user, size_t n) {
    Purse *p = user;
    if (p->left-- <= 0) return NULL;
    void *m = malloc(n);
    if (m) p->out++;
    return m;
}
static void give(void *user, void *m) {
    if (m) ((Purse *)user)->out--;
    free(m);
}

static void test_memory(void **state) {
    (void)state;
    static const char few[] = /* plans: every allocation is met hundreds of times */
        "t.row softmax rows=3,n=40 f32 pin=V=1,acc=1,flight=1,prefetch=0,stagger=off,threads=0,store=plain,div=exact\n"
        "t.row total rows=2,n=7 f32 regimes=resident\n";
    bool done = false;
    for (long n = 1; !done; n = n < 60 ? n + 1 : n + n / 3) {
        Purse p = {.left = n};
        rowfold_options o;
        rowfold_context *c = NULL;
        rowfold_options_init(&o);
        o.allocate = take, o.release = give, o.memory_user = &p, o.threads = 1;
        if (rowfold_context_new(&o, &c) == ROWFOLD_OK) {
            rowfold_evidence_options e;
            char *json = NULL;
            rowfold_evidence_options_init(&e);
            e.effort = ROWFOLD_ESTIMATE, e.threads = 1, e.worker = "", e.max_candidates = 0;
            rowfold_status s = rowfold_device_find(c, "host", &e.device);
            if (s == ROWFOLD_OK) s = rowfold_catalog_freeze(c, "t", few, box, &e, &json);
            done = s == ROWFOLD_OK;
            assert_true(done || s == ROWFOLD_MEMORY || s == ROWFOLD_IO);
            assert_true((json != NULL) == done);
            rowfold_free(c, json);
            rowfold_context_free(c);
        }
        assert_int_equal(p.out, 0);
        assert_true(n < 10000000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
