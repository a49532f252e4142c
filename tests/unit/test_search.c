/* Searches and what they remember: trials as they happen, resuming, recalling, and a store that fails on the way. */
#include "searchdesk.h"

#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

static void open_store(Desk *d) {
    StoreOptions o = {.where = file, .mode = STORE_WRITE, .busy_ms = 50};
    if (store_open(&d->cx, &o, &d->store)) fail_msg("%s", d->cx.first->msg);
}

static int64_t ask(const char *sql) {
    sqlite3 *db;
    sqlite3_stmt *q;
    int64_t v = -1;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        v = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return v;
}

static void trials_are_kept(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    open_store(&d);
    Search *s = prepare(&d, EFFORT_MEASURE);
    search(&d);
    assert_int_equal(s->ntimed, 3);
    assert_int_equal(ask("SELECT count(*) FROM trial WHERE stage = 'short'"), 3);
    assert_int_equal(ask("SELECT count(*) FROM trial WHERE stage = 'final'"), 3);
    assert_int_equal(s->nrecorded, 6);
    assert_int_equal(
        ask("SELECT count(*) FROM trial WHERE length(unit_sha) <> 64 OR json_valid(facts) = 0 OR"
            " json_valid(demand) = 0 OR json_array_length(samples) < 1 OR checked <> 2048 OR median_ns <= 0"
            " OR worst < 0") -
            ask("SELECT count(*) FROM trial WHERE stage = 'final'"), /* those were checked before */
        0);
    close_desk(&d);
}

static bool stop_after_two(void *user, const Progress *p) {
    (void)user;
    return p->tried == 2;
}

/* What it may take was over before anyone was tried, as where a worker is long in coming: that is what it says. */
static void nobody_was_tried(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    Search *s = prepare(&d, EFFORT_MEASURE);
    s->seconds = 1, s->max_seconds = 0.5;
    assert_true(search_run(&d.cx, s) == slug_err(S_SEARCH_STOPPED) && d.cx.last->slug == S_SEARCH_STOPPED);
    assert_non_null(strstr(d.cx.last->msg, "before the first candidate had a time"));
    close_desk(&d);
}

static void a_search_goes_on_where_it_was(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    open_store(&d);
    Search *s = prepare(&d, EFFORT_MEASURE);
    s->progress = stop_after_two;
    search(&d);
    assert_true(s->stopped);
    assert_int_equal(s->ntimed, 2);
    double was[65] = {0};
    for (int W = 16; W <= 64; W *= 2) was[W] = trial_of(s, W)->fate == FATE_TIMED ? trial_of(s, W)->times.ns[0] : 0;
    s = prepare(&d, EFFORT_MEASURE);
    s->resume = true;
    s->progress = stop_after_two; /* so that no finals come and change the times */
    search(&d);
    assert_int_equal(s->nresumed, 2);
    assert_int_equal(s->nrecorded, 0);
    for (int W = 16; W <= 64; W *= 2)
        if (was[W] > 0) {
            assert_true(trial_of(s, W)->resumed);
            assert_true(trial_of(s, W)->times.ns[0] == was[W]); /* to the bit: it was not run */
        }
    s = prepare(&d, EFFORT_MEASURE);
    s->resume = true;
    search(&d);
    assert_int_equal(s->nresumed, 2);
    assert_int_equal(s->ntimed, 3);
    assert_int_equal(ask("SELECT count(*) FROM trial WHERE stage = 'short'"), 3); /* nothing twice */
    s = prepare(&d, EFFORT_MEASURE);
    s->resume = true, s->seed = 2; /* other inputs: another search */
    search(&d);
    assert_int_equal(s->nresumed, 0);
    s = prepare(&d, EFFORT_MEASURE); /* not asked to */
    search(&d);
    assert_int_equal(s->nresumed, 0);
    close_desk(&d);
}

static void failures_are_not_repeated_either(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    open_store(&d);
    Search *s = prepare(&d, EFFORT_MEASURE);
    search(&d);
    Buf plan = buf_new(d.cx.a);
    plan_print(&trial_of(s, 32)->plan, &plan);
    const char *slugs[] = {"oracle.mismatch", "rt.no_compiler"}; /* of the plan, and of the moment */
    for (int i = 0; i < COUNT(slugs); i++) {
        Unit u;
        char sha[65];
        assert_int_equal(attempt_emit(&d.cx, &d.pb, &trial_of(s, 32)->plan, &u, sha), OK);
        StoreTrial t = {
            .seed = 1, .plan = plan.s, .effort = "measure", .slug = slugs[i], .why = "because", .unit_sha = sha};
        assert_int_equal(store_add(&d.cx, d.store, &s->key, &t), OK);
        s = prepare(&d, EFFORT_MEASURE);
        s->resume = true;
        search(&d);
        const Trial *r = trial_of(s, 32);
        if (i == 0) {
            assert_int_equal(r->fate, FATE_FAILED);
            assert_string_equal(slug_text(r->slug), "oracle.mismatch");
            assert_string_equal(r->why, "because");
            assert_int_equal(s->nresumed, 3);
        } else {
            assert_int_equal(r->fate, FATE_TIMED);
            assert_int_equal(s->nresumed, 2);
        }
    }
    close_desk(&d);
}

/* Killed in the middle of a search: what was finished is there, and the next search goes on. */
static bool die_after_two(void *user, const Progress *p) {
    (void)user;
    if (p->tried == 2) kill(getpid(), SIGKILL);
    return false;
}

static void killed_in_the_middle(void **state) {
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        Desk d;
        open_desk(&d);
        open_store(&d);
        prepare(&d, EFFORT_MEASURE)->progress = die_after_two;
        search(&d);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(ask("SELECT count(*) FROM trial"), 2);
    Desk d;
    open_desk(&d);
    open_store(&d);
    Search *s = prepare(&d, EFFORT_MEASURE);
    s->resume = true;
    search(&d);
    assert_int_equal(s->nresumed, 2);
    assert_int_equal(s->ntimed, 3);
    close_desk(&d);
}

static sqlite3 *blocker;
static bool block_store(void *user, const Progress *p) {
    (void)user;
    if (p->tried == 1) {
        assert_int_equal(sqlite3_open(file, &blocker), SQLITE_OK);
        assert_int_equal(sqlite3_exec(blocker, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    }
    return false;
}

static void trouble_with_the_store_costs_no_result(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    open_store(&d);
    Search *s = prepare(&d, EFFORT_MEASURE);
    s->progress = block_store;
    search(&d);
    assert_int_equal(s->ntimed, 3);
    assert_int_equal(s->nrecorded, 1);
    assert_non_null(strstr(s->note, "store.busy"));
    sqlite3_close(blocker);
    close_desk(&d);
}

static void recall(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    Search *s = prepare(&d, EFFORT_RECALL);
    s->pin = s->open = NULL;
    search(&d); /* no store at all */
    assert_string_equal(s->recall.how, "estimate");
    open_store(&d);
    s = prepare(&d, EFFORT_MEASURE);
    search(&d);
    Buf best = buf_new(d.cx.a), got = buf_new(d.cx.a), estimate = buf_new(d.cx.a);
    plan_print(&s->trial[s->best].plan, &best);
    const Attempt confirmed = {.times = s->trial[s->best].times};
    search_record(&d.cx, s, &s->trial[s->best], STAGE_CONFIRMED, &confirmed);
    s = prepare(&d, EFFORT_RECALL);
    s->pin = s->open = NULL;
    search(&d);
    assert_string_equal(s->recall.how, "exact");
    assert_int_equal(s->ntrials, 1);
    plan_print(&s->trial[s->best].plan, &got);
    assert_string_equal(got.s, best.s);
    s = prepare(&d, EFFORT_RECALL); /* a pin that it meets, and one that it does not */
    s->pin = "V=1", s->open = NULL;
    search(&d);
    assert_string_equal(s->recall.how, "exact");
    s = prepare(&d, EFFORT_RECALL);
    s->pin = "V=2", s->open = NULL;
    search(&d);
    assert_string_equal(s->recall.how, "estimate");
    assert_int_equal(s->trial[s->best].plan.V, 2);
    problem(&d, 8, 300); /* near */
    s = prepare(&d, EFFORT_RECALL);
    s->pin = s->open = NULL;
    search(&d);
    assert_string_equal(s->recall.how, "nearest");
    assert_string_equal(s->recall.from.shape, "rows=8,n=256");
    assert_true(fabs(s->recall.from.distance - log2(300.0 / 256)) < 1e-12);
    problem(&d, 8, 5000); /* far */
    s = prepare(&d, EFFORT_RECALL);
    s->pin = s->open = NULL;
    search(&d);
    assert_string_equal(s->recall.how, "estimate");
    plan_print(&s->trial[s->best].plan, &got);
    s = prepare(&d, EFFORT_ESTIMATE);
    s->pin = s->open = NULL;
    search(&d);
    plan_print(&s->trial[s->best].plan, &estimate);
    assert_string_equal(got.s + strlen(best.s), estimate.s);
    close_desk(&d);
}

static void judged(Cx *cx, const Problem *pb, const Plan *only, Search *s) {
    Trial **ranked;
    int64_t n;
    *s = (Search){.pb = pb, .effort = EFFORT_ESTIMATE, .only = only};
    s->open = "W=32,V=1/2,acc=1,flight=1/2,U=1/4,load=plain/keep,store,min-groups=0/2,early=off/on,overlap=off/late,"
              "prefetch=0/1,stagger,threads=0/1,combine=outer,cluster=1,split=1,grid=0,stages=0,stat=two-pass,index=64,"
              "div=exact,exp=exact,contract=off,hold.x=reload/register";
    if (cost_find(cx, "roofline", &s->policy) || search_judge(cx, s, &ranked, &n)) fail_msg("%s", cx->first->msg);
}

/* Plans that are counted once are judged as each of them alone: the same demand, the same score. */
static void what_is_counted_once(void **state) {
    (void)state;
    static const char *const machine[] = {"avx512", "avx512", "h200"};
    for (int i = 0; i < COUNT(machine); i++) {
        Desk d;
        Caps caps;
        Search all, one;
        open_desk(&d);
        assert_true(caps_preset(machine[i], &caps));
        Shape shape = d.pb.shape;
        if (i == 1) shape.least[prog_axis(d.pb.prog, "n")] = 16;
        assert_int_equal(problem_make(&d.cx, d.pb.source, &shape, &caps, 0, &d.pb), OK);
        judged(&d.cx, &d.pb, NULL, &all);
        int64_t ranked = 0;
        for (int64_t k = 0; k < all.ntrials; k++) {
            const Trial *t = &all.trial[k];
            if (t->fate != FATE_RANKED || ranked++ % 5) continue; /* each value of all that is open comes often */
            Cx own = {.a = arena_sub(d.cx.a)};
            Buf shared = buf_new(own.a), alone = buf_new(own.a);
            judged(&own, &d.pb, &t->plan, &one);
            demand_json(&t->demand, &shared);
            demand_json(&one.trial[0].demand, &alone);
            assert_string_equal(shared.s, alone.s);
            assert_true(t->score.total == one.trial[0].score.total);
            arena_free(own.a);
        }
        assert_true(ranked >= 64);
        close_desk(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {T(trials_are_kept),
                                       T(a_search_goes_on_where_it_was),
                                       T(failures_are_not_repeated_either),
                                       T(killed_in_the_middle),
                                       T(trouble_with_the_store_costs_no_result),
                                       T(recall),
                                       T(what_is_counted_once),
                                       T(nobody_was_tried)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
