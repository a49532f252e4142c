/* rt/pool: every task once, from any thread, over forks, and quiet when idle; the hook that replaces it. */
#include "rtdesk.h"

#include "../../src/rt/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- threads ---- */

static void backwards(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    *(int *)user += n;
    while (n--) task(arg, n);
}

static void test_parallel_for_hook(void **state) {
    (void)state;
    Desk k;
    int tasks = 0;
    RtOptions o = options();
    o.parallel_for = backwards;
    o.parallel_user = &tasks;
    open_desk(&k, &o);
    Module *m = build_scale(&k);
    check_scale(m, 0, ROWS);
    assert_true(tasks >= 2);
    tasks = 0;
    check_scale(m, 1, ROWS);
    check_scale(m, 2, 15); /* 15,000 elements: not worth it */
    assert_int_equal(tasks, 0);
    mod_free(m);
    close_desk(&k);
}

typedef struct Tally {
    Pool *pool;
    _Atomic int done[1000];
} Tally;

static void tally(void *arg, int i) {
    atomic_fetch_add(&((Tally *)arg)->done[i], 1);
}
static void nested(void *arg, int i) {
    Tally *t = arg;
    pool_run(t->pool, 4, 10, tally, t); /* the pool is taken: done at once by this thread */
    (void)i;
}

static void test_pool(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        Tally t = {.pool = pool_new(&alloc_libc, threads)};
        assert_non_null(t.pool);
        int rounds = 3000;
        for (int r = 0; r < rounds; r++) {
            pool_run(t.pool, 1 + r % 5, r % 7, tally, &t);
            if (r % 500 == 0) usleep(300); /* asleep by now */
        }
        int per[7] = {0};
        for (int r = 0; r < rounds; r++)
            for (int i = 0; i < r % 7; i++) per[i]++;
        for (int i = 0; i < 7; i++) assert_int_equal(t.done[i], per[i]);
        for (int i = 0; i < 7; i++) t.done[i] = 0;
        pool_run(t.pool, threads, 1000, tally, &t);
        for (int i = 0; i < 1000; i++) assert_int_equal(t.done[i], 1);
        pool_run(t.pool, threads, 5, nested, &t);
        for (int i = 0; i < 10; i++) assert_int_equal(t.done[i], 6);
        pool_free(t.pool);
    }
    pool_free(NULL);
}

static void *hammer(void *arg) {
    for (int r = 0; r < 500; r++) pool_run(((Tally *)arg)->pool, 2, 8, tally, arg);
    return NULL;
}

static void test_pool_from_many_threads(void **state) {
    (void)state;
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    Tally t = {.pool = pool_new(&alloc_libc, 2)};
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, hammer, &t), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 8; i++) assert_int_equal(t.done[i], THREADS * 500);
    pool_free(t.pool);
}

static void *build_many(void *arg) {
    Device *d = arg;
    Cx cx = {.a = arena_new(NULL, NULL)};
    for (int i = 0; i < 4; i++) {
        char text[2000];
        snprintf(text, sizeof text, "%s/* %d */\n", scale_text, i / 2);
        Unit u = unit_of("scale", text);
        Module *m = NULL;
        if (mod_build(&cx, d, &u, &m)) return "failed";
        check_scale(m, 2, ROWS);
        mod_free(m);
    }
    arena_free(cx.a);
    return NULL;
}

static void test_concurrent_builds(void **state) {
    (void)state;
    pthread_t other;
    void *said = NULL;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    assert_int_equal(pthread_create(&other, NULL, build_many, k.d), 0);
    assert_null(build_many(k.d));
    pthread_join(other, &said);
    assert_null(said);
    assert_int_equal(entries(NULL, 0), 2);
    assert_null(rt_note(k.rt, 0));
    close_desk(&k);
}

static int64_t cpu_ns(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return ((int64_t)r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000;
}

static void test_idle_is_quiet(void **state) {
    (void)state;
    Tally t = {.pool = pool_new(&alloc_libc, 2)};
    pool_run(t.pool, 2, 8, tally, &t);
    usleep(20000);
    int64_t before = cpu_ns();
    usleep(200000);
    int64_t used = cpu_ns() - before;
    assert_true(used < 200000000 / 50); /* two per cent of one core, this thread's own waking included */
    pool_free(t.pool);
}

static int fork_and_check(Desk *k, Module *m, bool build) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(30); /* a dead lock ends here */
        for (int i = 0; i < 3; i++) check_scale(m, 2, ROWS);
        if (build) {
            Module *mine = build_scale(k);
            check_scale(mine, 2, ROWS);
            mod_free(mine);
        }
        mod_free(m);
        close_desk(k);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void test_fork(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* that tool cannot follow threads started after a fork */
#endif
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Module *m = build_scale(&k);
    assert_int_equal(fork_and_check(&k, m, true), 0); /* before there are threads */
    check_scale(m, 2, ROWS);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fork_and_check(&k, m, i == 0), 0);
        check_scale(m, 2, ROWS); /* the parent's are untouched */
    }
    pid_t pid = fork();
    if (pid == 0) { /* never uses it */
        alarm(30);
        mod_free(m);
        close_desk(&k);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    mod_free(m);
    close_desk(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_parallel_for_hook), T(test_pool),          T(test_pool_from_many_threads),
        T(test_concurrent_builds), T(test_idle_is_quiet), T(test_fork),
    };
    return RUN(tests);
}
