/* The host as a device, the cache of built kernels and the store: each call of the operating system and of SQLite, and
 * each allocation of SQLite, fails in its turn. The compiler is a script that hands out what was compiled once. */
#include "system_calls.h"

#include "../../src/base/os.h"
#include "../../src/gen/kern.h"
#include "../../src/lang/lang.h"
#include "../../src/store/store.h"
#include "../diff/library.h"

#include <limits.h>

static char box[500], cache[600], work[600], cc[600],
    shm[64] = "/dev/shm/rowfold-XXXXXX"; /* shm: where nothing waits for a disk */

static void put_file(const char *path, const char *text, unsigned mode) {
    assert_int_equal(os_write_atomic(path, text, strlen(text), mode, false), 0);
}

/* A compiler that takes its time once: its first result is every later one's. */
static int set_up(void **state) {
    (void)state;
    char text[4000];
    if (os_dir_temp(box, sizeof box)) return -1;
    snprintf(cache, sizeof cache, "%s/cache", box);
    snprintf(work, sizeof work, "%s/work", box);
    snprintf(cc, sizeof cc, "%s/cc", box);
    mkdir(work, 0700);
    if (access("/dev/shm", W_OK) == 0) mkdtemp(shm);
    setenv("TMPDIR", work, 1);
    snprintf(text, sizeof text,
             "#!/bin/sh\nif [ \"$1\" = --version ]; then cat %s/version; exit; fi\nout=\n"
             "for a; do [ \"$before\" = -o ] && out=$a; before=$a; done\n"
             "if [ -f %s/kept ]; then cp %s/kept \"$out\"; else gcc \"$@\" && cp \"$out\" %s/kept; fi\n",
             box, box, box, box);
    put_file(cc, text, 0700);
    snprintf(text, sizeof text, "%s/version", box);
    put_file(text, "cc 12.2.0\nThis is free software; see the source for copying conditions.\n", 0600);
    return 0;
}

static void clear(const char *dir, bool folders) {
    DIR *d = opendir(dir);
    char path[PATH_MAX];
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%.2000s/%.200s", dir, e->d_name);
            if (folders) os_dir_remove(path);
            unlink(path);
        }
    if (d) closedir(d);
}

static int clean_up(void **state) {
    (void)state;
    clear(work, true), os_dir_remove(work), os_dir_remove(cache), os_dir_remove(shm);
    unsetenv("TMPDIR");
    return os_dir_remove(box);
}

/* ---- the host ---- */

static void softmax(Cx *cx, Unit *u) {
    LibKernel *k;
    Caps caps;
    Plan plan;
    Kern *kern;
    Problem *pb = NEW(cx->a, Problem);
    const int count = library_read(cx, TY_F32, &k);
    int at = 0;
    while (at < count && !str_eq(k[at].name, "softmax")) at++;
    assert_true(at < count && caps_preset("portable", &caps));
    const Shape s = library_shape(k[at].prog, TURN_ROWS, 256);
    if (problem_make(cx, k[at].prog, &s, &caps, 0, pb) || plan_read(cx, "W=16 V=2", &plan) ||
        kern_lower(cx, pb, &plan, &kern) || unit_emit(cx, pb, kern, u))
        fail_msg("%s", cx->last->msg);
}

static bool host_fits(const char *failed, Slug slug) {
    (void)failed;
    return slug_err(slug) == ERR_BUILD || slug == S_BUILD_IO || slug == S_BUILD_START || slug == S_RT_NO_COMPILER ||
           slug == S_OOM;
}

static bool leaves(const char *failed) { /* where what failed is the tidying up itself */
    static const char *const of[] = {"opendir", "readdir64", "unlink"};
    for (int i = 0; i < COUNT(of); i++)
        if (str_eq(of[i], failed)) return true;
    return false;
}

static void host_calls(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(NULL, NULL)};
    Unit u;
    softmax(&cx, &u);
    Round r = {.device = "host",
               .unit = &u,
               .options = {.cache_dir = cache, .cc = cc, .isa = ISA_PORTABLE, .threads = 2},
               .times = 2, /* built and kept; found again */
               .turn = &of_system,
               .fits = host_fits};
    u.elements_per_row = 1 << 20; /* so that a second thread is started */
    turn_once(&r, 0);
    long k = 1;
    for (bool more = true; more; k++) {
        clear(cache, false);
        const int files = entries("/proc/self/fd");
        more = turn_once(&r, k);
        if (entries("/proc/self/fd") != files) fail_msg("%s failed: a file stays open", of_system.failed);
        if (more && !leaves(of_system.failed) && entries(work)) fail_msg("%s failed: a file stays", of_system.failed);
        clear(work, true);
    }
    printf("# host: each of %ld calls failed in its turn\n", k - 2);
    assert_true(k > 80);
    arena_free(cx.a);
}

/* ---- the store ---- */

typedef struct Book {
    Cx cx;
    Problem pb;
    StoreTrial trial;
    char file[700];
    const Alloc *al;
} Book;

static void book_open(Book *k) {
    static const char text[] = "kernel softmax for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n"
                               "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n";
    Ast *ast;
    Prog *p;
    Caps caps;
    *k = (Book){.cx = {.a = arena_new(NULL, NULL)}};
    assert_int_equal(lang_parse(&k->cx, "t", text, strlen(text), &ast), OK);
    assert_int_equal(lang_kernel(&k->cx, ast, "softmax", NULL, 0, NULL, 0, &p), OK);
    assert_true(caps_preset("avx512", &caps));
    Shape s = {0};
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    s.n[prog_axis(p, "rows")] = 8, s.n[prog_axis(p, "n")] = 256;
    assert_int_equal(problem_make(&k->cx, p, &s, &caps, 0, &k->pb), OK);
    snprintf(k->file, sizeof k->file, "%s/trials.db", access("/dev/shm", W_OK) == 0 ? shm : work);
    k->trial = (StoreTrial){.seed = 1,
                            .plan = "W=16 V=2",
                            .effort = "measure",
                            .stage = STAGE_CONFIRMED,
                            .slug = "",
                            .why = "",
                            .unit_sha = "",
                            .facts = "{}",
                            .demand = "{}",
                            .nsamples = 1,
                            .calls = 1,
                            .sample_ns = {5},
                            .median_ns = 5};
}

/* Everything that a store can be asked for, once. */
static Err use_store(Book *k, Cx *cx) {
    Store *s = NULL;
    StoreTrial back;
    Wisdom *w;
    const char *json, *text, *report;
    int n;
    int64_t gone;
    bool found;
    Filter all = {.kernel = NULL};
    const StoreKey key = store_key(cx, &k->pb, "a machine", 0);
    const StoreOptions o = {.al = k->al, .where = k->file, .mode = STORE_WRITE, .busy_ms = 50};
    Err err = store_open(cx, &o, &s);
    if (!err) err = store_add(cx, s, &key, &k->trial);
    if (!err) err = store_find(cx, s, &key, 1, k->trial.plan, "", &found, &back);
    if (!err) err = store_trials(cx, s, &all, 0, &json);
    if (!err) err = wisdom_near(cx, s, &key, &w, &n);
    if (!err) err = wisdom_export(cx, s, &all, &text);
    if (!err) err = wisdom_import(cx, s, text, strlen(text), NULL, 0, &report);
    if (!err) err = wisdom_forget(cx, s, &all, &gone);
    store_close(s);
    return err;
}

static void store_turns(Book *k, Turn *t, long least) {
    long i = 1;
    for (;; i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        clear(work, false), clear(shm, false);
        t->failed = NULL, t->left = i;
        Err err = use_store(k, &cx);
        if (!err) err = use_store(k, &cx); /* of a file that is there */
        const char *failed = t->failed;
        t->left = 0;
        const Slug slug = err ? cx.last->slug : S_INTERNAL;
        if (getenv("VERBOSE") && failed) printf("# %ld %s: %s\n", i, failed, err ? slug_text(slug) : "did without");
        if (err && (!failed || (slug != S_OOM && !str_starts(slug_text(slug), "store."))))
            fail_msg("%s failed: %s: %s", failed ? failed : "nothing", slug_text(slug), cx.last->msg);
        cx.first = cx.last = NULL;
        if (failed && use_store(k, &cx))
            fail_msg("after %s failed: %s: %s", failed, slug_text(cx.last->slug), cx.last->msg);
        if (t == &of_sqlite && !err && failed && str_starts(failed, "bind_"))
            fail_msg("%s failed, and nobody cared", failed);
        if (sqlite3_memory_used() || t->live) fail_msg("%s failed: memory is left behind", failed);
        arena_free(cx.a);
        if (!failed) break;
    }
    printf("# the store: each of %ld calls failed in its turn\n", i - 1);
    assert_true(i > least);
}

static void store_calls(void **state) {
    (void)state;
    Book k;
    book_open(&k);
    store_turns(&k, &of_sqlite, 150);
    store_turns(&k, &of_system, 5);
    Turn t = {0};
    const Alloc al = {turn_get, turn_put, &t};
    k.al = &al;
    store_turns(&k, &t, 1);
    arena_free(k.cx.a);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(host_calls), cmocka_unit_test(store_calls)};
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
