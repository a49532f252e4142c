/* Candidates that crash, hang, scribble or lie, in a worker: each costs exactly itself. */
#include "../unit/searchdesk.h"

#include <jansson.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *worker(void) {
    const char *path = getenv("ROWFOLD_FAULTY_WORKER");
    assert_non_null(path);
    return path;
}

static int started(void) { /* how many processes there were */
    FILE *f = fopen(pids, "r");
    int n = 0;
    for (int ch; f && (ch = fgetc(f)) != EOF;) n += ch == '\n';
    if (f) fclose(f);
    return n;
}

static Search *with_worker(Desk *d, const char *fault) {
    Search *s = prepare(d, EFFORT_EXHAUSTIVE);
    s->worker_path = worker();
    s->max_trial_seconds = 20;
    unlink(pids);
    setenv("ROWFOLD_FAULT_LOG", pids, 1);
    setenv("ROWFOLD_FAULT", fault, 1);
    setenv("ASAN_OPTIONS", "handle_segv=0:allocator_may_return_null=1:detect_leaks=0",
           1); /* the worker's: let it crash */
    return s;
}

static void started_once_and_reused(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    Search *s = with_worker(&d, "");
    search(&d);
    assert_int_equal(s->ntimed, 3);
    assert_int_equal(started(), 1);
    assert_null(s->note);
    for (int W = 16; W <= 64; W *= 2) {
        const Trial *t = trial_of(s, W);
        assert_int_equal(t->fate, FATE_TIMED);
        assert_true(t->times.n > 0 && t->times.min > 0 && t->worst >= 0 && t->worst <= 1);
    }
    close_desk(&d);
}

static const struct {
    const char *fault, *slug, *why;
    double seconds; /* of patience; 0: enough */
    int processes;
} faults[] = {
    {"crash", "worker.crashed", "signal 11", 0, 2}, {"scribble", "worker.crashed", "signal 11", 0, 2},
    {"killed", "worker.crashed", "signal 9", 0, 2}, {"hang", "worker.timed_out", "no answer within 3", 3, 2},
    {"half", "worker.crashed", "code 0", 0, 2},     {"wrong", "oracle.mismatch", "y[rows=0, n=0]", 0, 2},
    {"no-compile", "build.failed", "", 0, 1},       {"memory", "memory.exhausted", "", 0, 2},
    {"noise", "worker.protocol", "", 0, 2},         {"no-json", "worker.protocol", "", 0, 2},
    {"long", "worker.protocol", "", 0, 2},          {"nan", "worker.protocol", "", 0, 2},
};

static void each_costs_itself(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    int wrong = 0;
    for (int i = 0; i < COUNT(faults); i++) {
        Search *s = with_worker(&d, arena_printf(d.cx.a, "%s W=32 ", faults[i].fault));
        if (faults[i].seconds > 0) s->max_trial_seconds = faults[i].seconds;
        search(&d);
        const Trial *bad = trial_of(s, 32);
        const char *slug = bad->fate == FATE_FAILED ? slug_text(bad->slug) : "none";
        bool others = trial_of(s, 16)->fate == FATE_TIMED && trial_of(s, 64)->fate == FATE_TIMED;
        bool true_times = trial_of(s, 16)->times.min > 0 && trial_of(s, 64)->times.min > 0;
        if (!str_eq(slug, faults[i].slug) || !strstr(bad->why ? bad->why : "", faults[i].why) || !others ||
            !true_times || s->nfailed != 1 || s->ntimed != 2 || started() != faults[i].processes || s->note) {
            print_error("%s: %s, %s; others %d; %d processes; note %s\n", faults[i].fault, slug, bad->why, others,
                        started(), s->note ? s->note : "");
            wrong++;
        }
        assert_true(s->trial[s->best].plan.W != 32);
    }
    assert_int_equal(wrong, 0);
    close_desk(&d);
}

static bool kill_it(void *user, const Progress *p) { /* between two candidates: nobody's fault */
    long pid = 0;
    FILE *f = fopen(pids, "r");
    assert_non_null(f);
    (void)user;
    if (p->tried == 1 && fscanf(f, "%ld", &pid) == 1) {
        assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
        siginfo_t end; /* once all its threads are gone, which on a busy machine takes its time; left to the search */
        assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
    }
    fclose(f);
    return false;
}

static void killed_from_outside(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    Search *s = with_worker(&d, "");
    s->progress = kill_it;
    search(&d);
    assert_int_equal(s->ntimed, 3);
    assert_int_equal(started(), 2);
    close_desk(&d);
}

static void every_candidate_crashes(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    Search *s = with_worker(&d, "crash W=");
    d.cx.first = NULL;
    assert_int_equal(search_run(&d.cx, s), slug_err(S_SEARCH_FAILED));
    assert_int_equal(s->nfailed, 3);
    assert_non_null(strstr(d.cx.first->msg, "worker.crashed"));
    close_desk(&d);
}

/* Workers that are none, or of another rowfold: the search goes on in this process and says so. */
static void no_worker(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    static const char *const paths[] = {"/bin/true", "/bin/echo", "/no/such/worker"};
    for (int i = 0; i < COUNT(paths); i++) {
        Search *s = with_worker(&d, "");
        s->worker_path = paths[i];
        search(&d);
        assert_int_equal(s->ntimed, 3);
        assert_non_null(s->note);
    }
    Worker *none;
    const WorkerOptions o = {.path = paths[2], .pb = &d.pb, .dev = d.dev};
    d.cx.first = d.cx.last = NULL;
    assert_int_equal(worker_new(&d.cx, &o, &none), slug_err(S_WORKER_UNREACHABLE));
    assert_int_equal(d.cx.first->slug, S_WORKER_UNREACHABLE);
    assert_non_null(strstr(d.cx.first->msg, "No such file"));
    assert_null(none);
    Search *s = with_worker(&d, "other W=");
    search(&d);
    assert_int_equal(s->ntimed, 3);
    assert_non_null(strstr(s->note, "another rowfold"));
    char path[600];
    assert_false(worker_find("", path, sizeof path));
    assert_true(worker_find("/bin/cat", path, sizeof path));
    char *was = strdup(getenv("ROWFOLD_WORKER") ? getenv("ROWFOLD_WORKER") : "");
    setenv("ROWFOLD_WORKER", "/bin/true", 1);
    assert_true(worker_find(NULL, path, sizeof path));
    assert_string_equal(path, "/bin/true");
    setenv("ROWFOLD_WORKER", was, 1);
    free(was);
    close_desk(&d);
}

/* A problem that is never made ready: the budget or the caller ends the search, and the worker with it. */
static bool says_stop(void *user, const Progress *p) {
    assert_int_equal(p->tried, 0);
    ++*(int *)user;
    return true;
}

static void never_ready(void **state) {
    (void)state;
    Desk d;
    int asked = 0;
    open_desk(&d);
    char *path = arena_printf(d.cx.a, "%s/endless", box);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\necho $$ >%s\nexec sleep 60\n", pids);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    for (int i = 0; i < 2; i++) {
        Search *s = with_worker(&d, "");
        s->worker_path = path;
        if (i == 0)
            s->max_seconds = 0.5;
        else
            s->progress = says_stop, s->user = &asked;
        d.cx.first = d.cx.last = NULL;
        const int64_t from = os_now_ns();
        assert_int_equal(search_run(&d.cx, s), ERR_STOPPED);
        assert_true(os_now_ns() - from < 30000000000);
        assert_int_equal(d.cx.first->slug, S_SEARCH_STOPPED);
        assert_non_null(strstr(d.cx.first->msg, i == 0 ? "the 0.5 s that it may take" : "stopped after"));
        assert_int_equal(s->stopped, i);
        assert_int_equal(s->ntimed + s->nfailed, 0);
        assert_null(s->worker);
        int pid = 0;
        f = fopen(pids, "r");
        assert_true(f && fscanf(f, "%d", &pid) == 1 && pid > 0);
        fclose(f);
        assert_int_equal(kill(pid, 0), -1); /* it is gone, and waited for */
    }
    assert_int_equal(asked, 1);
    close_desk(&d);
}

/* Messages of any bytes end in an answer or an end, never in a crash of either side. */
static void noise_on_the_wire(void **state) {
    (void)state;
    static const char *const messages[] = {"",
                                           "{",
                                           "[]",
                                           "{\"op\":\"try\"}",
                                           "{\"op\":\"open\"}",
                                           "{\"op\":5}",
                                           "{\"op\":\"time\",\"slot\":0}",
                                           "{\"op\":\"load\",\"slot\":9}",
                                           "{\"op\":\"open\",\"device\":\"host\",\"problem\":{\"program\":\"x\"}}"};
    Rng rng = {3};
    for (int i = 0; i < 60; i++) {
        char text[200], *out;
        size_t n;
        Attempt t;
        Ask q;
        int len = rng_int(&rng, (int)sizeof text);
        for (int k = 0; k < len; k++) text[k] = (char)rng_u64(&rng);
        const char *m = i < COUNT(messages) ? messages[i] : text;
        n = i < COUNT(messages) ? strlen(m) : (size_t)len;
        Arena *a = arena_new(NULL, NULL);
        assert_false(attempt_read(NULL, &t));
        assert_false(ask_read(NULL, &q));
        json_t *asked =
            ask_json(&(Ask){.threads = 2, .samples = 3, .sample_ns = 4, .give_up_ns = 5, .extent = 6, .place = 7});
        assert_true(ask_read(asked, &q) && q.threads == 2 && q.samples == 3 && q.sample_ns == 4 && q.extent == 6 &&
                    q.place == 7);
        json_decref(asked);
        int fd[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        assert_int_equal(wire_send(fd[0], m, n), WIRE_OK);
        shutdown(fd[0], SHUT_WR);
        assert_int_equal(worker_serve(fd[1], NULL), 0);
        close(fd[1]);
        assert_int_equal(wire_receive(a, fd[0], os_now_ns() + 1000000000, &out, &n), WIRE_OK);
        assert_non_null(strstr(out, "worker.protocol"));
        close(fd[0]);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {T(started_once_and_reused),
                                       T(each_costs_itself),
                                       T(killed_from_outside),
                                       T(every_candidate_crashes),
                                       T(no_worker),
                                       T(noise_on_the_wire),
                                       T(never_ready)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
