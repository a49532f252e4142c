/* What the tests of store/ share: a folder of their own, a problem, a store in that folder, and questions to its file
 * through a connection of their own. */
#ifndef ROWFOLD_TEST_STOREDESK_H
#define ROWFOLD_TEST_STOREDESK_H

#include "../../src/base/os.h"
#include "../../src/gen/emit.h"
#include "../../src/lang/lang.h"
#include "../../src/store/store.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* a test program uses some of these */
#define SHARED static __attribute__((unused))

static char box[512], file[600];

static const char program[] = "kernel softmax for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
                              "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n";
static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";

typedef struct Desk {
    Cx cx;
    Problem pb;
    Store *s;
} Desk;

SHARED void problem(Desk *d, int64_t rows, int64_t n) {
    Ast *ast;
    Prog *p;
    Caps caps;
    Shape shape = {0};
    TyBind ty = {"*", TY_F32};
    assert_int_equal(lang_parse(&d->cx, "t", program, strlen(program), &ast), OK);
    assert_int_equal(lang_kernel(&d->cx, ast, "softmax", &ty, 1, NULL, 0, &p), OK);
    assert_true(caps_preset("avx512", &caps));
    for (int i = 0; i < MAX_AXES; i++) shape.n[i] = -1;
    shape.n[prog_axis(p, "rows")] = rows;
    shape.n[prog_axis(p, "n")] = n;
    assert_int_equal(problem_make(&d->cx, p, &shape, &caps, 0, &d->pb), OK);
}

SHARED Desk desk(void) {
    Desk d = {.cx = {.a = arena_new(NULL, NULL)}};
    assert_non_null(d.cx.a);
    problem(&d, 64, 1000);
    return d;
}

SHARED void open_store(Desk *d) {
    StoreOptions o = {.where = file, .mode = STORE_WRITE, .busy_ms = 5000};
    Err err = store_open(&d->cx, &o, &d->s);
    if (err) fail_msg("%s", d->cx.first->msg);
}

SHARED void close_desk(Desk *d) {
    store_close(d->s);
    arena_free(d->cx.a);
}

SHARED const char *a_plan(Desk *d, int W) { /* legal for the problem, whatever W */
    Plan p = plan_default();
    Buf b = buf_new(d->cx.a);
    p.W = W;
    Sched sc;
    assert_int_equal(plan_check(&d->cx, &d->pb, &p, &sc, NULL), OK);
    plan_complete(&sc, &p);
    plan_print(&p, &b);
    return b.s;
}

SHARED StoreTrial a_trial(const char *plan, Stage stage, double ns) {
    return (StoreTrial){.seed = 1,
                        .plan = plan,
                        .effort = "measure",
                        .stage = stage,
                        .slug = "",
                        .why = "",
                        .unit_sha = zeros,
                        .facts = "{\"registers\":-1}",
                        .demand = "{}",
                        .nsamples = 3,
                        .calls = 10,
                        .sample_ns = {ns, ns * 2, ns / 2},
                        .median_ns = ns,
                        .checked = 64000,
                        .worst = 0.25};
}

/* Of the source that a plan gives. */
SHARED const char *unit_sha(Desk *d, const char *text) {
    Plan plan;
    Kern *k;
    Unit u;
    char *sha = arena_get(d->cx.a, 65);
    if (plan_read(&d->cx, text, &plan) || kern_lower(&d->cx, &d->pb, &plan, &k) || unit_emit(&d->cx, &d->pb, k, &u))
        fail_msg("%s", d->cx.first->msg);
    sha256_hex(u.text, strlen(u.text), sha);
    return sha;
}

SHARED void add(Desk *d, const StoreTrial *trial) {
    StoreKey k = store_key(&d->cx, &d->pb, "a machine", 0);
    StoreTrial t = *trial;
    t.unit_sha = unit_sha(d, t.plan);
    if (store_add(&d->cx, d->s, &k, &t)) fail_msg("%s", d->cx.first->msg);
}

SHARED int64_t ask(const char *sql) { /* through a connection of its own */
    sqlite3 *db;
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL); /* of this connection: tests need not wait */
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int rc = sqlite3_step(q);
    int64_t v = rc == SQLITE_ROW ? sqlite3_column_int64(q, 0) : -rc;
    if (rc == SQLITE_ROW && sqlite3_column_type(q, 0) == SQLITE_TEXT)
        v = strcmp((const char *)sqlite3_column_text(q, 0), "ok") == 0 ||
            strcmp((const char *)sqlite3_column_text(q, 0), "wal") == 0;
    sqlite3_finalize(q);
    sqlite3_close(db);
    return v;
}

SHARED void tell(const char *sql) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

SHARED int set_up(void **state) {
    (void)state;
    int err = os_dir_temp(box, sizeof box);
    snprintf(file, sizeof file, "%s/trials.db", box);
    return err;
}
SHARED int clean_up(void **state) {
    (void)state;
    return os_dir_remove(box);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, clean_up)
#endif
