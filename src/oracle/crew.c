/* Work that falls into parts which have nothing to do with each other -> threads of this process, each with an arena of
 * its own. */
#include "oracle.h"

#include <pthread.h>
#include <stdio.h>

enum { MOST_PARTS = 16, LEAST_ELEMENTS = 1 << 15 }; /* fewer elements take less time than a thread */

typedef struct Part {
    pthread_t thread;
    const Crew *crew;
    CrewFn *fn;
    void *user;
    int64_t from, to;
    int number;
    Err err;
    Slug slug;
    char why[400];
} Part;

static void *run(void *arg) {
    Part *p = arg;
    Trap trap;
    Arena *a = arena_new(p->crew->al, &trap);
    p->err = ERR_MEMORY, p->slug = S_OOM;
    if (!a) return NULL;
    if (!setjmp(trap.at)) {
        Cx cx = {.a = a};
        p->err = p->fn(&cx, p->user, p->number, p->from, p->to);
        if (p->err) {
            p->slug = cx.first ? cx.first->slug : S_INTERNAL;
            snprintf(p->why, sizeof p->why, "%s", cx.first ? cx.first->msg : "");
        }
    }
    arena_free(a);
    return NULL;
}

int crew_parts(const Crew *c, int64_t n, int64_t elements) {
    int64_t most = c && c->threads > 1 ? i64_min(c->threads, MOST_PARTS) : 1;
    most = i64_min(most, i64_min(n, elements / LEAST_ELEMENTS));
    return most < 1 ? 1 : (int)most;
}

Err crew_run(Cx *cx, const Crew *c, int parts, int64_t n, CrewFn *fn, void *user) {
    if (parts == 1) return fn(cx, user, 0, 0, n);
    Part *p = NEWN(cx->a, Part, parts);
    int started = 0;
    Err err = OK;
    for (int i = 0; i < parts; i++)
        p[i] = (Part){.crew = c, .fn = fn, .user = user, .number = i, .from = n * i / parts, .to = n * (i + 1) / parts};
    while (started < parts && pthread_create(&p[started].thread, NULL, run, &p[started]) == 0) started++;
    for (int i = 0; i < started; i++) pthread_join(p[i].thread, NULL);
    for (int i = started; i < parts; i++) run(&p[i]); /* as many threads as there may be */
    for (int i = 0; i < parts && !err; i++)
        if (p[i].err) err = diag(cx, p[i].slug, NOWHERE, NULL, "%s", p[i].why);
    return err;
}
