/* The public calls on what is remembered: nothing is touched unless asked, trials and wisdom come back as text, bad
 * arguments are errors, and so is little memory. */
#include "../../src/base/os.h"

#include <rowfold.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char box[512], file[600];
static const char text[] = "kernel total for rows (x: in f32[rows, n], y: out f32[rows]) {\n    y = sum(x)\n}\n";

typedef struct Desk {
    rowfold_context *ctx;
    rowfold_source *source;
    rowfold_program *program;
} Desk;

static int warnings;
static void listen(void *user, int level, const char *line) {
    (void)user;
    warnings += level == 1 && strstr(line, "store.") != NULL;
}

static Desk desk(void) {
    Desk d = {NULL, NULL, NULL};
    rowfold_options o;
    rowfold_options_init(&o);
    o.isa = "portable";
    o.threads = 1;
    o.log = listen;
    assert_int_equal(rowfold_context_new(&o, &d.ctx), ROWFOLD_OK);
    assert_int_equal(rowfold_source_parse(d.ctx, "t", text, strlen(text), &d.source), ROWFOLD_OK);
    assert_int_equal(rowfold_program_new(d.ctx, d.source, NULL, NULL, NULL, &d.program), ROWFOLD_OK);
    return d;
}

static void close_desk(Desk *d) {
    rowfold_program_free(d->program);
    rowfold_source_free(d->source);
    rowfold_context_free(d->ctx);
}

static rowfold_stats compile(Desk *d, const char *store, rowfold_effort effort, int resume, char receipt[4096]) {
    rowfold_compile_options o;
    rowfold_kernel *k;
    rowfold_device *dev;
    rowfold_stats s = {.struct_size = sizeof s};
    rowfold_compile_options_init(&o);
    assert_int_equal(rowfold_device_find(d->ctx, "host", &dev), ROWFOLD_OK);
    o.device = dev;
    o.shape = "rows=4,n=100";
    o.effort = effort;
    o.max_candidates = 2;
    o.store = store;
    o.resume = resume;
    if (rowfold_compile(d->ctx, d->program, &o, &k)) fail_msg("%s", rowfold_last_error(d->ctx)->message);
    assert_int_equal(rowfold_kernel_stats(k, &s), ROWFOLD_OK);
    const char *recall = strstr(rowfold_kernel_text(k, ROWFOLD_RECEIPT), "\"recall\":");
    snprintf(receipt, 4096, "%s", recall ? recall : "");
    rowfold_kernel_free(k);
    return s;
}

static void nothing_unless_asked(void **state) {
    (void)state;
    Desk d = desk();
    char receipt[4096], *was = strdup(getenv("HOME") ? getenv("HOME") : "/");
    setenv("HOME", box, 1), unsetenv("XDG_DATA_HOME"), setenv("ROWFOLD_STORE", file, 1);
    assert_int_equal(compile(&d, NULL, ROWFOLD_MEASURE, 0, receipt).recorded, 0);
    assert_int_equal(compile(&d, "", ROWFOLD_RECALL, 0, receipt).recorded, 0);
    assert_non_null(strstr(receipt, "\"how\":\"estimate\""));
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(rmdir(box), 0); /* it is empty */
    assert_int_equal(os_dir_private(box), 0);
    assert_true(compile(&d, "default", ROWFOLD_MEASURE, 0, receipt).recorded > 0);
    assert_int_equal(access(file, F_OK), 0);
    char *path = NULL;
    assert_int_equal(rowfold_store_path(d.ctx, NULL, &path), ROWFOLD_OK);
    assert_string_equal(path, file);
    rowfold_free(d.ctx, path);
    unsetenv("ROWFOLD_STORE"), setenv("HOME", was, 1);
    free(was);
    close_desk(&d);
}

static void text_and_back(void **state) {
    (void)state;
    Desk d = desk();
    char receipt[4096], other[700], *trials = NULL, *wisdom = NULL, *again = NULL, *report = NULL;
    int64_t gone = -1;
    rowfold_stats s = compile(&d, file, ROWFOLD_MEASURE, 0, receipt);
    assert_int_equal(s.recorded, 5); /* two tried, two finals, one confirmed */
    s = compile(&d, file, ROWFOLD_MEASURE, 1, receipt);
    assert_int_equal(s.resumed, 2);
    compile(&d, file, ROWFOLD_RECALL, 0, receipt);
    assert_non_null(strstr(receipt, "\"how\":\"exact\""));
    assert_int_equal(rowfold_trials(d.ctx, file, "total", 0, &trials), ROWFOLD_OK);
    assert_non_null(strstr(trials, "\"stage\":\"confirmed\""));
    assert_int_equal(rowfold_wisdom_export(d.ctx, file, NULL, &wisdom), ROWFOLD_OK);
    snprintf(other, sizeof other, "%s/other.db", box);
    assert_int_equal(rowfold_wisdom_import(d.ctx, other, wisdom, strlen(wisdom), &report), ROWFOLD_OK);
    assert_non_null(strstr(report, "\"taken\":1,"));
    assert_int_equal(rowfold_wisdom_import(d.ctx, other, wisdom, strlen(wisdom), NULL), ROWFOLD_OK);
    assert_int_equal(rowfold_wisdom_export(d.ctx, other, NULL, &again), ROWFOLD_OK);
    assert_string_equal(again, wisdom);
    compile(&d, other, ROWFOLD_RECALL, 0, receipt);
    assert_non_null(strstr(receipt, "\"imported\":true"));
    assert_int_equal(rowfold_wisdom_forget(d.ctx, other, NULL, &gone), ROWFOLD_OK);
    assert_int_equal(gone, 1);
    compile(&d, other, ROWFOLD_RECALL, 0, receipt);
    assert_non_null(strstr(receipt, "\"how\":\"estimate\""));
    rowfold_free(d.ctx, trials), rowfold_free(d.ctx, wisdom), rowfold_free(d.ctx, again), rowfold_free(d.ctx, report);
    close_desk(&d);
}

/* Every trial again, of another seed: first as long as roofline's score `?1` foresees, then 10^9 times as long. */
#define AGAIN(from, ns)                                                                                            \
    "INSERT INTO trial SELECT NULL, problem, seed + 1, trial.plan, 'confirmed', effort, slug, why, unit_sha,"      \
    " facts, demand, '[' || " ns " || ']', calls, " ns ", checked, bad, worst, compile_ns, from_cache, time, host" \
    " FROM trial" from
#define FORESEEN                                                                                                      \
    AGAIN(" JOIN (SELECT json_extract(value, '$.plan') AS plan, 1e9 * json_extract(value, '$.scores.roofline') AS ns" \
          " FROM json_each(?1, '$.trials')) AS foreseen ON foreseen.plan = trial.plan",                               \
          "ns")
#define SLOWER AGAIN(" WHERE median_ns > 0", "median_ns * 1e9")

static void add_trials(const char *sql, const char *foreseen) {
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    if (foreseen) assert_int_equal(sqlite3_bind_text(st, 1, foreseen, -1, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_DONE);
    assert_true(sqlite3_changes(db) > 0);
    sqlite3_finalize(st), sqlite3_close(db);
}

/* Trials by the policies' eyes, and a calibration that is fitted to them and then used. */
static void policies_judged(void **state) {
    (void)state;
    Desk d = desk();
    char receipt[4096], *out = NULL, *fit = NULL, *again = NULL;
    compile(&d, file, ROWFOLD_MEASURE, 0, receipt);
    assert_int_equal(rowfold_foresee(d.ctx, file, "total", NULL, &out), ROWFOLD_OK);
    assert_non_null(strstr(out, "\"plan\":\"W="));
    assert_non_null(strstr(out, "\"scores\":{\"prior\":"));
    assert_non_null(strstr(out, "{\"name\":\"wait\",\"unit\":\"s\","));
    add_trials(FORESEEN, out);
    assert_int_equal(rowfold_calibrate_trials(d.ctx, file, NULL, NULL, &fit), ROWFOLD_OK);
    assert_non_null(strstr(fit, "\"trials\":{\"count\":2,")); /* of each plan its best evidence */
    assert_non_null(strstr(fit, "\"held\":[]"));
    assert_int_equal(rowfold_calibrate_trials(d.ctx, file, NULL, fit, &again), ROWFOLD_OK);
    assert_non_null(strstr(again, "\"on_top_of\":\""));
    /* times that no plausible coefficient explains: what they pull away stays, and the rest is used */
    char *held = NULL;
    add_trials(SLOWER, NULL);
    assert_int_equal(rowfold_calibrate_trials(d.ctx, file, NULL, NULL, &held), ROWFOLD_OK);
    assert_non_null(strstr(held, "\"held\":[\""));
    rowfold_free(d.ctx, held);
    rowfold_compile_options o;
    rowfold_kernel *k = NULL;
    rowfold_compile_options_init(&o);
    o.shape = "rows=4,n=100", o.calibration = again;
    assert_int_equal(rowfold_device_find(d.ctx, "host", &o.device), ROWFOLD_OK);
    assert_int_equal(rowfold_compile(d.ctx, d.program, &o, &k), ROWFOLD_OK);
    rowfold_kernel_free(k);
    rowfold_free(d.ctx, out), rowfold_free(d.ctx, fit), rowfold_free(d.ctx, again);
    out = NULL;
    assert_int_equal(rowfold_foresee(d.ctx, file, NULL, "no calibration", &out), ROWFOLD_ARGUMENT);
    assert_string_equal(rowfold_last_error(d.ctx)->slug, "cost.calibration_unreadable");
    assert_int_equal(rowfold_foresee(d.ctx, file, "nobody", NULL, &out), ROWFOLD_ARGUMENT);
    assert_string_equal(rowfold_last_error(d.ctx)->slug, "cost.trials");
    assert_int_equal(rowfold_calibrate_trials(d.ctx, file, "nobody", NULL, &out), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_calibrate_trials(d.ctx, file, NULL, NULL, NULL), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_foresee(NULL, file, NULL, NULL, &out), ROWFOLD_ARGUMENT);
    assert_null(out);
    close_desk(&d);
}

static void trouble(void **state) {
    (void)state;
    Desk d = desk();
    char receipt[4096], *out = NULL, bad[700];
    snprintf(bad, sizeof bad, "%s/no/such/folder", box);
    warnings = 0;
    assert_true(compile(&d, bad, ROWFOLD_MEASURE, 0, receipt).timed ==
                2); /* a result all the same, and a word in the log */
    assert_int_equal(warnings, 1);
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    rowfold_kernel *k = NULL;
    o.shape = "rows=4,n=100", o.effort = ROWFOLD_MEASURE, o.resume = 1;
    assert_int_equal(rowfold_compile(d.ctx, d.program, &o, &k), ROWFOLD_ARGUMENT); /* from what? */
    o.store = bad;
    assert_int_equal(rowfold_compile(d.ctx, d.program, &o, &k), ROWFOLD_IO);
    assert_string_equal(rowfold_last_error(d.ctx)->slug, "store.failed");
    o.effort = (rowfold_effort)4;
    assert_int_equal(rowfold_compile(d.ctx, d.program, &o, &k), ROWFOLD_ARGUMENT);
    assert_null(k);
    assert_int_equal(rowfold_trials(d.ctx, file, "colour=red", 0, &out), ROWFOLD_ARGUMENT);
    assert_string_equal(rowfold_last_error(d.ctx)->slug, "store.filter");
    assert_int_equal(rowfold_trials(d.ctx, file, NULL, -1, &out), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_trials(d.ctx, file, NULL, 0, NULL), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_trials(NULL, file, NULL, 0, &out), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_wisdom_export(d.ctx, file, NULL, NULL), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_wisdom_import(d.ctx, file, NULL, 5, &out), ROWFOLD_ARGUMENT);
    assert_int_equal(rowfold_store_path(d.ctx, file, NULL), ROWFOLD_ARGUMENT);
    assert_null(out);
    assert_int_equal(rowfold_wisdom_forget(d.ctx, file, NULL, NULL), ROWFOLD_OK); /* of nothing */
    assert_int_equal(rowfold_trials(d.ctx, file, NULL, 0, &out), ROWFOLD_OK);
    assert_string_equal(out, "[\n]");
    rowfold_free(d.ctx, out);
    close_desk(&d);
}

/* ---- little memory: every allocation of a call fails once ---- */
static int left = -1, held;
static void *scarce(void *user, size_t n) {
    (void)user;
    if (left == 0) return NULL;
    if (left > 0) left--;
    void *p = malloc(n);
    held += p != NULL;
    return p;
}
static void give(void *user, void *p) {
    (void)user;
    held -= p != NULL;
    free(p);
}

static void little_memory(void **state) {
    (void)state;
    Desk d = desk();
    char receipt[4096], *wisdom = NULL;
    compile(&d, file, ROWFOLD_MEASURE, 0, receipt);
    assert_int_equal(rowfold_wisdom_export(d.ctx, file, NULL, &wisdom), ROWFOLD_OK);
    rowfold_options o;
    rowfold_options_init(&o);
    o.isa = "portable", o.allocate = scarce, o.release = give;
    rowfold_context *ctx;
    assert_int_equal(rowfold_context_new(&o, &ctx), ROWFOLD_OK);
    const int before = held;
    for (int call = 0; call < 3; call++) {
        rowfold_status s = ROWFOLD_MEMORY;
        int k = 0;
        for (; s == ROWFOLD_MEMORY && k < 500; k++) {
            char *out = NULL;
            left = k;
            if (call == 0) s = rowfold_trials(ctx, file, NULL, 0, &out);
            if (call == 1) s = rowfold_wisdom_export(ctx, file, NULL, &out);
            if (call == 2) s = rowfold_wisdom_import(ctx, file, wisdom, strlen(wisdom), &out);
            left = -1;
            assert_int_equal(out != NULL, s == ROWFOLD_OK);
            rowfold_free(ctx, out);
        }
        assert_int_equal(s, ROWFOLD_OK);
        assert_true(k > 1);
        assert_int_equal(held, before);
    }
    rowfold_context_free(ctx);
    assert_int_equal(held, 0);
    rowfold_free(d.ctx, wisdom);
    close_desk(&d);
}

static int set_up(void **state) {
    (void)state;
    int err = os_dir_temp(box, sizeof box);
    snprintf(file, sizeof file, "%s/trials.db", box);
    return err;
}
static int clean_up(void **state) {
    (void)state;
    return os_dir_remove(box);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, clean_up)
int main(void) {
    const struct CMUnitTest tests[] = {T(nothing_unless_asked), T(text_and_back), T(policies_judged), T(trouble),
                                       T(little_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
