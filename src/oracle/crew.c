/* Work that falls into parts which have nothing to do with each other -> threads of this process, each with an arena of
 * its own. */
#include "oracle.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { MOST_PARTS = 16, LEAST_ELEMENTS = 1 << 15 }; /* fewer elements take less time than a thread */

typedef struct Watch { /* over the parts, by the thread whose call it is */
    Stop stop;
    pthread_mutex_t lock;
    pthread_cond_t change;
    int running;
} Watch;

typedef struct Part {
    pthread_t thread;
    Watch *watch;
    const Crew *crew;
    CrewFn *fn;
    void *user;
    int64_t from, to;
    int number;
    Err err;
    Slug slug;
    char why[400];
} Part;

static void do_part(Part *p) {
    Trap trap;
    Arena *a = arena_new(p->crew->al, &trap);
    p->err = ERR_MEMORY, p->slug = S_OOM;
    if (!a) return;
    if (!setjmp(trap.at)) {
        Cx cx = {.a = a, .stop = &p->watch->stop};
        p->err = p->fn(&cx, p->user, p->number, p->from, p->to);
        if (p->err) {
            p->slug = cx.first ? cx.first->slug : S_INTERNAL;
            snprintf(p->why, sizeof p->why, "%s", cx.first ? cx.first->msg : "");
        }
    }
    arena_free(a);
}

static void *run(void *arg) {
    Part *p = arg;
    Watch *w = p->watch;
    do_part(p);
    pthread_mutex_lock(&w->lock);
    w->running--;
    pthread_cond_signal(&w->change);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void wait_for(Cx *cx, Watch *w) {
    enum { EVERY_NS = 50000000, SECOND_NS = 1000000000 };
    pthread_mutex_lock(&w->lock);
    while (w->running && cx->stop) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += EVERY_NS;
        if (t.tv_nsec >= SECOND_NS) t.tv_sec++, t.tv_nsec -= SECOND_NS;
        pthread_cond_timedwait(&w->change, &w->lock, &t);
        if (cx_over(cx)) stop_now(&w->stop);
    }
    pthread_mutex_unlock(&w->lock);
}

int crew_parts(const Crew *c, int64_t n, int64_t elements) {
    int64_t most = c && c->threads > 1 ? i64_min(c->threads, MOST_PARTS) : 1;
    most = i64_min(most, i64_min(n, elements / LEAST_ELEMENTS));
    return most < 1 ? 1 : (int)most;
}

Err crew_run(Cx *cx, const Crew *c, int parts, int64_t n, CrewFn *fn, void *user) {
    if (parts == 1) return fn(cx, user, 0, 0, n);
    Part *p = NEWN(cx->a, Part, parts);
    Watch w = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER, .running = parts};
    int started = 0;
    Err err = OK;
    for (int i = 0; i < parts; i++)
        p[i] = (Part){.watch = &w,
                      .crew = c,
                      .fn = fn,
                      .user = user,
                      .number = i,
                      .from = n * i / parts,
                      .to = n * (i + 1) / parts};
    while (started < parts && pthread_create(&p[started].thread, NULL, run, &p[started]) == 0) started++;
    for (int i = started; i < parts; i++) run(&p[i]); /* as many threads as there may be */
    wait_for(cx, &w);
    for (int i = 0; i < started; i++) pthread_join(p[i].thread, NULL);
    for (int i = 0; i < parts && !err; i++)
        if (p[i].err) err = diag(cx, p[i].slug, NOWHERE, NULL, "%s", p[i].why);
    return err;
}
