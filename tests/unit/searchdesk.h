/* What the tests of searches share: a small softmax on the host, a space of three plans, a folder of their own. */
#ifndef ROWFOLD_TEST_SEARCHDESK_H
#define ROWFOLD_TEST_SEARCHDESK_H

#include "../../src/base/os.h"
#include "../../src/lang/lang.h"
#include "../../src/search/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* a test program uses some of these */
#define SHARED static __attribute__((unused))

static char box[512], file[600], pids[600];

static const char program[] = "kernel softmax for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
                              "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n";
typedef struct Desk {
    Cx cx;
    Rt *rt;
    Device *dev;
    Problem pb;
    Bed bed;
    Search s;
    Store *store;
    const CostPolicy *policy;
} Desk;

SHARED void problem(Desk *d, int64_t rows, int64_t n) {
    Ast *ast;
    Prog *p;
    Shape shape = {0};
    TyBind ty = {"*", TY_F32};
    assert_int_equal(lang_parse(&d->cx, "t", program, strlen(program), &ast), OK);
    assert_int_equal(lang_kernel(&d->cx, ast, "softmax", &ty, 1, NULL, 0, &p), OK);
    for (int i = 0; i < MAX_AXES; i++) shape.n[i] = -1;
    shape.n[prog_axis(p, "rows")] = rows;
    shape.n[prog_axis(p, "n")] = n;
    assert_int_equal(problem_make(&d->cx, p, &shape, dev_caps(d->dev), 0, &d->pb), OK);
}

/* isa: ISA_COUNT for this machine's, whose kernels take a tenth of the time of portable ones */
SHARED void open_desk_for(Desk *d, Isa isa) {
    *d = (Desk){.cx = {.a = arena_new(NULL, NULL)}};
    RtOptions o = {.threads = 1, .isa = isa};
    assert_int_equal(rt_open(&d->cx, &o, &d->rt), OK);
    assert_int_equal(rt_find(&d->cx, d->rt, "host", &d->dev), OK);
    assert_int_equal(cost_find(&d->cx, "roofline", &d->policy), OK);
    problem(d, 8, 256);
}

SHARED void open_desk(Desk *d) {
    open_desk_for(d, ISA_COUNT);
}

SHARED void close_desk(Desk *d) {
    search_free(&d->s);
    bed_free(&d->bed);
    store_close(d->store);
    rt_close(d->rt);
    arena_free(d->cx.a);
}

/* Everything but W as in the default plan: a space of three plans, W=16, 32 and 64. */
SHARED const char *pins(Desk *d) {
    Plan p = plan_default();
    Sched sc;
    Buf b = buf_new(d->cx.a);
    assert_int_equal(plan_check(&d->cx, &d->pb, &p, &sc, NULL), OK);
    plan_complete(&sc, &p);
    plan_print(&p, &b);
    assert_true(str_starts(b.s, "W="));
    return strchr(b.s, ' ');
}

/* A search that is ready to run; what it needs of the store is set where there is one. */
SHARED Search *prepare(Desk *d, Effort effort) {
    search_free(&d->s);
    bed_free(&d->bed);
    d->bed = (Bed){0};
    d->s = (Search){.pb = &d->pb,
                    .dev = d->dev,
                    .effort = effort,
                    .pin = pins(d),
                    .open = "W=16/32/64",
                    .policy = d->policy,
                    .threads = 1,
                    .seed = 1,
                    .worker_path = "",
                    .store = d->store,
                    .bed = &d->bed};
    if (d->store) d->s.key = store_key(&d->cx, &d->pb, dev_identity(d->dev), 1);
    if (effort_runs(effort)) assert_int_equal(bed_make(&d->cx, d->dev, &d->pb, d->s.seed, &d->bed), OK);
    return &d->s;
}

SHARED void search(Desk *d) {
    d->cx.first = d->cx.last = NULL;
    if (search_run(&d->cx, &d->s)) fail_msg("%s", d->cx.first->msg);
}

SHARED const Trial *trial_of(const Search *s, int W) {
    for (int64_t i = 0; i < s->ntrials; i++)
        if (s->trial[i].plan.W == W) return &s->trial[i];
    fail_msg("no plan with W=%d", W);
    return NULL;
}

SHARED int set_up(void **state) {
    (void)state;
    int err = os_dir_temp(box, sizeof box);
    snprintf(file, sizeof file, "%s/trials.db", box);
    snprintf(pids, sizeof pids, "%s/pids", box);
    return err;
}
SHARED int clean_up(void **state) {
    (void)state;
    return os_dir_remove(box);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, clean_up)
#endif
