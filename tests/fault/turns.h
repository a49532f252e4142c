/* Every call fails in its turn: whatever is used of a device, as one function of a test, is done again and again, and
 * the K-th call of a runtime (or the K-th allocation) fails, for K = 1, 2 ... until there are no more. Each time the
 * error has a slug that fits the call, the device does all of it right afterwards, and nothing is left behind. */
#ifndef ROWFOLD_TEST_TURNS_H
#define ROWFOLD_TEST_TURNS_H

#include "../../src/rt/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* a test program uses some of these */
#define SHARED static __attribute__((unused))

typedef struct Turn {
    long left, calls, live; /* the how many-th call from here fails, 0: none; calls so far; what is not given back */
    const char *failed;     /* that one's name */
} Turn;

/* Memory that fails in its turn. */
SHARED void *turn_get(void *user, size_t bytes) {
    Turn *t = user;
    __atomic_add_fetch(&t->calls, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_sub(&t->left, 1, __ATOMIC_RELAXED) == 1) return t->failed = "memory", NULL;
    void *p = malloc(bytes);
    __atomic_add_fetch(&t->live, p != NULL, __ATOMIC_RELAXED);
    return p;
}
SHARED void turn_put(void *user, void *p) {
    if (p) __atomic_sub_fetch(&((Turn *)user)->live, 1, __ATOMIC_RELAXED);
    free(p);
}

/* Everything that a device can be asked for, once. */
enum { TURN_ROWS = 5, TURN_BYTES = 8192 };
SHARED Err turn_use(Cx *cx, Device *d, const Unit *u, void *queue) {
    Module *m = NULL;
    Mem *x = NULL, *y = NULL;
    Slot s[64] = {{.i = 0}};
    const Slot *sets[] = {s, s};
    int64_t ns;
    double t;
    const char *how;
    char bytes[64] = {0};
    Err err = mod_build(cx, d, u, &m);
    if (!err) err = mem_new(cx, d, TURN_BYTES, &x);
    if (!err) err = mem_new(cx, d, TURN_BYTES, &y);
    if (!err) err = mem_write(cx, x, 3, bytes, sizeof bytes);
    if (!err) {
        s[u->abi.ptr[0]].p = mem_at(x), s[u->abi.ptr[1]].p = mem_at(y);
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 2; k++)
                if (u->abi.stride[i][k] >= 0) s[u->abi.stride[i][k]].i = k ? 1 : 256;
        s[u->abi.row0].i = TURN_ROWS;
        err = mod_launch(cx, m, s, TURN_ROWS, 0);
    }
    if (!err && queue) err = mod_launch_in(cx, m, queue, s, TURN_ROWS, 0);
    if (!err) { /* off its alignment: text of its own */
        s[u->abi.ptr[0]].p = (char *)mem_at(x) + 4;
        err = mod_launch(cx, m, s, TURN_ROWS, 0);
    }
    if (!err) err = dev_sync(cx, d);
    if (!err) err = mod_time(cx, m, sets, 2, TURN_ROWS, 0, 3, &ns);
    if (!err) err = mod_span(cx, m, s, TURN_ROWS, 0, &ns);
    for (int kind = 0; kind < CEILING_KINDS && !err; kind++) {
        const Ceiling c = {.kind = (CeilingKind)kind, .bytes = 4096, .sets = 2, .reps = 2};
        err = dev_ceiling(cx, d, &c, &t, &how);
        if (err == ERR_UNAVAILABLE && cx->last->slug == S_RT_NOT_OFFERED) err = OK;
    }
    if (!err) err = mem_read(cx, y, 3, bytes, sizeof bytes);
    mem_free(y);
    mem_free(x);
    mod_free(m);
    return err;
}

typedef struct Round {
    const char *device;
    const Unit *unit;
    RtOptions options;
    int times;                                   /* that it is done one after the other, 0: once */
    void *queue;                                 /* one of the caller's, or NULL */
    void (*opened)(Rt *);                        /* adds the device where it is not there by itself; or NULL */
    Turn *turn, *held;                           /* what fails; what is counted as left behind too, or NULL */
    bool (*fits)(const char *failed, Slug slug); /* is it the right one? */
} Round;

/* true: the K-th call came, and failed. */
SHARED bool turn_once(const Round *r, long k) {
    Cx cx = {.a = arena_new(NULL, NULL)};
    Rt *rt = NULL;
    Device *d = NULL;
    Turn *t = r->turn;
    *t = (Turn){.left = k};
    if (r->held) r->held->live = 0;
    Err err = rt_open(&cx, &r->options, &rt);
    if (!err && r->opened) r->opened(rt);
    if (!err) err = rt_find(&cx, rt, r->device, &d);
    for (int i = 0; i < (r->times ? r->times : 1) && !err; i++) err = turn_use(&cx, d, r->unit, r->queue);
    const char *failed = t->failed;
    t->left = 0;
    if (getenv("VERBOSE") && failed)
        printf("# %ld %s: %s\n", k, failed, err ? slug_text(cx.last->slug) : "did without");
    if (err && !failed) fail_msg("call %ld: %s: %s, and nothing failed", k, slug_text(cx.last->slug), cx.last->msg);
    if (err && !r->fits(failed, cx.last->slug))
        fail_msg("%s failed: %s: %s", failed, slug_text(cx.last->slug), cx.last->msg);
    if (!d || (err && cx.last->slug == S_RT_NO_NVRTC) ||
        strstr(dev_identity(d), "no compiler")) { /* it is found by whoever opens it again */
        rt_close(rt);
        if (t->live) fail_msg("%s failed: %ld left behind without a device", failed, t->live);
        cx.first = cx.last = NULL;
        assert_int_equal(rt_open(&cx, &r->options, &rt), OK);
        if (r->opened) r->opened(rt);
        assert_int_equal(rt_find(&cx, rt, r->device, &d), OK);
    }
    if (failed && turn_use(&cx, d, r->unit, r->queue)) fail_msg("after %s failed: %s", failed, cx.last->msg);
    rt_close(rt);
    if (t->live || (r->held && r->held->live))
        fail_msg("%s failed: %ld and %ld left behind", failed ? failed : "nothing", t->live,
                 r->held ? r->held->live : 0);
    arena_free(cx.a);
    return failed != NULL;
}

/* All of them; at least so many. */
SHARED void turn_all(const Round *r, long least) {
    long k = 1;
    while (turn_once(r, k)) k++;
    printf("# %s: each of %ld calls failed in its turn\n", r->device, k - 1);
    assert_true(k > least);
}
#endif
