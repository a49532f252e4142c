/* Units -> modules, in threads. What is handed over is copied to memory of its own, since neither side outlives the
 * other for sure. */
#include "ahead.h"

#include "../base/os.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 8 };
typedef enum State { EMPTY, WAITS, BUILDS, READY } State;

typedef struct Job {
    State state;
    int64_t turn; /* first come, first built */
    bool guess;
    char sha[65];
    Unit unit;
    char *text; /* the unit's, and its entry */
    Err err;
    Slug slug;
    char why[2000];
    Module *mod;
} Job;

struct Ahead {
    Device *dev;
    const Alloc *al;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool over;
    Stop stop; /* of compilers that are at it */
    int64_t turn;
    int nthreads;
    pthread_t thread[MOST_THREADS];
    Job job[AHEAD_MOST];
};

static bool building(const Ahead *a) {
    for (int i = 0; i < AHEAD_MOST; i++)
        if (a->job[i].state == WAITS || a->job[i].state == BUILDS) return true;
    return false;
}

static Job *oldest(Ahead *a) {
    Job *q = NULL;
    for (int i = 0; i < AHEAD_MOST; i++)
        if (a->job[i].state == WAITS &&
            (!q || a->job[i].guess < q->guess || (a->job[i].guess == q->guess && a->job[i].turn < q->turn)))
            q = &a->job[i];
    return q;
}

static void build(Ahead *a, Job *q) {
    Trap trap;
    Arena *tmp = arena_new(a->al, &trap);
    q->slug = S_OOM, q->err = ERR_MEMORY;
    snprintf(q->why, sizeof q->why, "no memory to build %.100s", q->unit.entry);
    if (!tmp) return;
    if (!setjmp(trap.at)) {
        Cx cx = {.a = tmp, .stop = &a->stop};
        q->err = mod_build(&cx, a->dev, &q->unit, &q->mod);
        if (q->err) {
            q->slug = cx.first ? cx.first->slug : S_INTERNAL;
            snprintf(q->why, sizeof q->why, "%s", cx.first ? cx.first->msg : "");
        }
    }
    arena_free(tmp);
}

static void *work(void *arg) {
    Ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->over) {
        Job *q = oldest(a);
        if (!q) {
            pthread_cond_wait(&a->change, &a->lock);
            continue;
        }
        q->state = BUILDS;
        pthread_mutex_unlock(&a->lock);
        build(a, q);
        pthread_mutex_lock(&a->lock);
        q->state = READY;
        pthread_cond_broadcast(&a->change);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static bool is_host(Device *dev) {
    return dev_caps(dev)->kind == KIND_HOST;
}

static int threads_for(Device *dev, int asked) {
    const int cores = os_cpus();
    if (dev_options(dev)->al->get != alloc_libc.get) return 0;
    if (!asked) asked = is_host(dev) || cores < 2 ? cores : cores - 1; /* elsewhere one drives the device */
    return asked > MOST_THREADS ? MOST_THREADS : asked;
}

int ahead_batch(Device *dev, int threads) {
    const int n = threads_for(dev, threads);
    return n < (is_host(dev) ? 2 : 1) ? 1 : 2 * n;
}

Ahead *ahead_new(Device *dev, int threads) {
    const Alloc *al = dev_options(dev)->al;
    if (ahead_batch(dev, threads) == 1) return NULL;
    Ahead *a = al->get(al->user, sizeof *a);
    if (!a) return NULL;
    memset(a, 0, sizeof *a);
    a->dev = dev, a->al = al;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->change, NULL);
    for (int n = threads_for(dev, threads); a->nthreads < n; a->nthreads++)
        if (pthread_create(&a->thread[a->nthreads], NULL, work, a)) break;
    if (a->nthreads) return a;
    ahead_free(a);
    return NULL;
}

static void clear(Ahead *a, Job *q) {
    if (q->mod) mod_free(q->mod);
    if (q->text) a->al->put(a->al->user, q->text);
    memset(q, 0, sizeof *q);
}

void ahead_free(Ahead *a) {
    if (!a) return;
    stop_now(&a->stop);
    pthread_mutex_lock(&a->lock);
    a->over = true;
    pthread_cond_broadcast(&a->change);
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->nthreads; i++) pthread_join(a->thread[i], NULL);
    for (int i = 0; i < AHEAD_MOST; i++) clear(a, &a->job[i]);
    pthread_cond_destroy(&a->change);
    pthread_mutex_destroy(&a->lock);
    a->al->put(a->al->user, a);
}

static Job *find(Ahead *a, const char *sha) {
    for (int i = 0; i < AHEAD_MOST; i++)
        if (a->job[i].state != EMPTY && str_eq(a->job[i].sha, sha)) return &a->job[i];
    return NULL;
}

/* A place that is empty, or the oldest guess's that is not being built. */
static Job *place(Ahead *a) {
    Job *q = NULL;
    for (int i = 0; i < AHEAD_MOST; i++) {
        Job *j = &a->job[i];
        if (j->state == EMPTY) return j;
        if (j->guess && j->state != BUILDS && (!q || j->turn < q->turn)) q = j;
    }
    if (q) clear(a, q);
    return q;
}

void ahead_add(Ahead *a, const Unit *u, const char *sha, bool guess) {
    const size_t entry = strlen(u->entry) + 1;
    pthread_mutex_lock(&a->lock);
    Job *known = find(a, sha), *q = known ? NULL : place(a);
    if (known) known->guess &= guess;
    if (q) q->text = a->al->get(a->al->user, u->bytes + 1 + entry);
    if (q && q->text) {
        q->unit = *u;
        q->unit.text = memcpy(q->text, u->text, u->bytes);
        q->text[u->bytes] = 0;
        q->unit.entry = memcpy(q->text + u->bytes + 1, u->entry, entry);
        snprintf(q->sha, sizeof q->sha, "%s", sha);
        q->turn = a->turn++, q->guess = guess;
        q->state = WAITS;
        pthread_cond_broadcast(&a->change);
    }
    pthread_mutex_unlock(&a->lock);
}

void ahead_wait(Cx *cx, Ahead *a) {
    enum { EVERY_NS = 50000000, SECOND_NS = 1000000000 };
    if (!a || !is_host(a->dev)) return;
    pthread_mutex_lock(&a->lock);
    while (building(a)) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += EVERY_NS;
        if (t.tv_nsec >= SECOND_NS) t.tv_sec++, t.tv_nsec -= SECOND_NS;
        pthread_cond_timedwait(&a->change, &a->lock, &t);
        if (cx_over(cx)) stop_now(&a->stop);
    }
    pthread_mutex_unlock(&a->lock);
}

bool ahead_take(Cx *cx, Ahead *a, const Unit *u, const char *sha, Err *err, Module **mod) {
    if (!a) return false;
    pthread_mutex_lock(&a->lock);
    Job *q = find(a, sha);
    const bool same = q && q->unit.bytes == u->bytes && memcmp(q->unit.text, u->text, u->bytes) == 0;
    while (q && q->state != READY) pthread_cond_wait(&a->change, &a->lock);
    Job taken = {.state = EMPTY};
    if (same) taken = *q, q->mod = NULL;
    if (q) clear(a, q);
    pthread_mutex_unlock(&a->lock);
    *mod = taken.mod;
    *err = taken.err;
    /* last: a diagnostic may jump */
    if (same && taken.err) *err = diag(cx, taken.slug, NOWHERE, NULL, "%s", taken.why);
    return same;
}
