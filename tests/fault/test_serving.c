/* A search and its worker: each call of the operating system on either side fails in its turn. The search has its
 * result all the same, no candidate is blamed for what the machine did on the searching side, and no process, file or
 * folder is left behind. */
#include "system_calls.h"

#include "../unit/searchdesk.h"

static char tmp[600]; /* where folders for compilers come and go */
static Arena *scratch;

static bool tidies(const char *failed) { /* what failed is the tidying up itself */
    static const char *const of[] = {"opendir", "readdir64", "unlink"};
    for (int i = 0; i < COUNT(of); i++)
        if (str_eq(of[i], failed)) return true;
    return false;
}

static void empty_tmp(void) {
    DIR *d = opendir(tmp);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') os_dir_remove(arena_printf(scratch, "%s/%s", tmp, e->d_name));
    if (d) closedir(d);
}

static void nothing_left(const char *failed, int files) {
    if (failed && !tidies(failed) && entries(tmp)) fail_msg("%s failed: a folder is left", failed);
    empty_tmp();
    if (entries("/proc/self/fd") != files) fail_msg("%s failed: a file stays open", failed);
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) fail_msg("%s failed: a process is left", failed);
}

static Err use_search(Desk *d) {
    Search *s = prepare(d, EFFORT_MEASURE);
    s->open = "W=16";
    s->builders = 1;
    s->worker_path = getenv("ROWFOLD_FAILING_WORKER");
    s->max_trial_seconds = 20;
    return search_run(&d->cx, s);
}

/* What fails here costs nobody anything: the worker is asked again, or the search goes on without one. */
static void calls_of_the_search(void **state) {
    (void)state;
    long k = 1;
    for (bool more = true; more; k++) {
        Desk d;
        open_desk(&d);
        const int files = entries("/proc/self/fd");
        of_system = (Turn){.left = k};
        Err err = use_search(&d);
        more = of_system.failed != NULL;
        of_system.left = 0;
        const Trial *t = d.s.ntrials ? &d.s.trial[0] : NULL;
        const char *note = d.s.note ? d.s.note : "";
        if (getenv("VERBOSE")) printf("# %ld %s: %s\n", k, of_system.failed, *note ? note : "did without");
        if (err) fail_msg("%ld %s failed: %s (%s)", k, of_system.failed, d.cx.first->msg, t && t->why ? t->why : "");
        if (!more && *note) fail_msg("nothing failed: %s", note);
        if (strstr(note, "ended with")) fail_msg("%ld %s failed, and is told as: %s", k, of_system.failed, note);
        search_free(&d.s);
        nothing_left(of_system.failed, files);
        close_desk(&d);
    }
    printf("# a search with a worker: each of %ld calls failed in its turn\n", k - 2);
    assert_true(k > 30);
}

/* What keeps a worker from hearing or answering ends it. */
static bool fits(const char *failed, Slug slug) {
    static const char *const of_talk[] = {"poll", "recv", "send"};
    for (int i = 0; i < COUNT(of_talk); i++)
        if (str_eq(of_talk[i], failed)) return slug == S_WORKER_CRASHED;
    return slug == S_BUILD_IO || slug == S_BUILD_LOAD || slug == S_OOM;
}

/* What fails there costs no more than the candidate at hand. */
static void calls_of_the_worker(void **state) {
    (void)state;
    long k = 1;
    unsetenv("ROWFOLD_FAIL_CALL");
    for (bool more = true; more; k++) {
        Desk d;
        char number[24], failed[100] = "";
        open_desk(&d);
        snprintf(number, sizeof number, "%ld", k);
        setenv("ROWFOLD_FAIL_CALL", number, 1);
        setenv("ROWFOLD_FAULT_LOG", pids, 1);
        unlink(pids);
        const int files = entries("/proc/self/fd");
        Err err = use_search(&d);
        FILE *f = fopen(pids, "r");
        more = f && fgets(failed, sizeof failed, f);
        if (f) fclose(f);
        const Slug slug = err ? d.s.trial[0].slug : S_INTERNAL;
        const char *note = d.s.note ? d.s.note : "";
        if (getenv("VERBOSE")) printf("# %ld %s: %s %s\n", k, failed, err ? slug_text(slug) : "did without", note);
        if (err && (!more || !fits(failed, slug)))
            fail_msg("%ld %s failed: %s: %s", k, failed, slug_text(slug), d.cx.first->msg);
        if (!more && *note) fail_msg("nothing failed: %s", note);
        search_free(&d.s);
        nothing_left(failed, files);
        close_desk(&d);
    }
    unsetenv("ROWFOLD_FAIL_CALL");
    printf("# a worker: each of %ld calls failed in its turn\n", k - 2);
    assert_true(k > 30);
}

static int make_tmp(void **state) {
    (void)state;
    if (set_up(state)) return -1;
    scratch = arena_new(NULL, NULL);
    snprintf(tmp, sizeof tmp, "%s/tmp", box);
    setenv("TMPDIR", tmp, 1);
    return mkdir(tmp, 0700);
}
static int remove_tmp(void **state) {
    unsetenv("TMPDIR");
    arena_free(scratch);
    return os_dir_remove(tmp) ? -1 : clean_up(state);
}
#define IN_TMP(f) cmocka_unit_test_setup_teardown(f, make_tmp, remove_tmp)

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {IN_TMP(calls_of_the_search), IN_TMP(calls_of_the_worker)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
