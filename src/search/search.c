/* Space -> winner. Judge all, rank the legal ones by the cost policy, then (unless only an estimate is asked for)
 * build, check and time them, the best of them once more in turns. A candidate that is refused, does not build or is
 * wrong costs itself only. */
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { ESTIMATE_LIMIT = 100000, MEASURE_DEFAULT = 48, FINALISTS = WORKER_SLOTS, SHORT_SAMPLES = 3, FINAL_ROUNDS = 5 };
static const int64_t short_sample_ns = 4000000, final_sample_ns = 10000000;

Launch search_launch(const Problem *pb, const Plan *plan) {
    int64_t rows = 1;
    for (int i = 0; i < pb->prog->naxes; i++)
        if (pb->prog->row_axes >> i & 1) rows *= pb->shape.n[i] < 0 ? 1 : pb->shape.n[i];
    return (Launch){rows, plan->W, pb->caps.subgroup, plan->P};
}

/* A trial's own failure: its first diagnostic, copied to where the trials live. */
static void fail(Cx *cx, Trial *t, Fate fate, const Cx *own) {
    t->fate = fate;
    t->slug = own->first ? own->first->slug : S_INTERNAL;
    t->why = own->first ? arena_printf(cx->a, "%s", own->first->msg) : "";
}

static int by_score(const void *x, const void *y) {
    const Trial *const *a = x, *const *b = y;
    if ((*a)->score.total != (*b)->score.total) return (*a)->score.total < (*b)->score.total ? -1 : 1;
    return *a < *b ? -1 : *a > *b; /* ties keep the space's order, so that the same question has the same answer */
}

static int by_time(const void *x, const void *y) {
    const Trial *const *a = x, *const *b = y;
    if ((*a)->times.median != (*b)->times.median) return (*a)->times.median < (*b)->times.median ? -1 : 1;
    return *a < *b ? -1 : *a > *b;
}

static Err score_one(Cx *cx, Search *s, Trial *t, Cx *own) {
    Kern *k;
    Err err = kern_lower(own, s->pb, &t->plan, &k);
    if (!err) kern_count(own, k, &t->demand);
    Launch l = search_launch(s->pb, &t->plan);
    if (!err) err = cost_score(own, s->policy, &t->demand, &s->pb->caps, &l, NULL, &t->score);
    if (err)
        fail(cx, t, slug_err(own->first ? own->first->slug : S_INTERNAL) == ERR_REFUSED ? FATE_REFUSED : FATE_FAILED,
             own);
    else
        t->fate = FATE_RANKED;
    return err;
}

static Err judge_and_rank(Cx *cx, Search *s, Trial ***ranked, int64_t *nranked) {
    Space space;
    Entry *entry;
    int64_t n, nlegal, limit = s->effort == EFFORT_EXHAUSTIVE && s->max_candidates ? s->max_candidates : ESTIMATE_LIMIT;
    Err err = s->only ? space_of_plan(cx, s->only, &space) : space_default(cx, s->pb, &space);
    if (!err && s->open && !s->only) err = space_open(cx, s->pb, s->open, &space);
    if (!err && s->pin) err = space_pin(cx, s->pb, s->pin, &space);
    if (!err) err = space_list(cx, s->pb, &space, limit, &entry, &n, &nlegal);
    if (err) return err;
    s->trial = NEWN(cx->a, Trial, n + 1);
    s->ntrials = n;
    Trial **list = NEWN(cx->a, Trial *, n + 1);
    *nranked = 0;
    for (int64_t i = 0; i < n; i++) {
        Trial *t = &s->trial[i];
        t->plan = entry[i].plan;
        if (!entry[i].legal) {
            t->fate = FATE_REFUSED, t->slug = entry[i].refused, t->why = entry[i].why;
        } else {
            Arena *a = arena_sub(cx->a); /* a candidate's own, so that thousands do not add up */
            Cx own = {.a = a};
            if (!score_one(cx, s, t, &own)) list[(*nranked)++] = t;
            arena_free(a);
        }
        s->nrefused += t->fate == FATE_REFUSED;
        s->nfailed += t->fate == FATE_FAILED;
    }
    qsort(list, (size_t)*nranked, sizeof *list, by_score);
    *ranked = list;
    if (*nranked) return OK;
    const Trial *t = n ? &s->trial[0] : NULL;
    if (n == 1) return diag(cx, t->slug, NOWHERE, NULL, "%s", t->why); /* an exact request: its own reason */
    return diag(cx, S_SEARCH_NONE, NOWHERE, NULL, "none of %lld plans is legal; the first is refused with %s: %s",
                (long long)n, t ? slug_text(t->slug) : "", t ? t->why : "");
}

/* Bounds as wide as any candidate of the same statistic needs: the definition is then evaluated once for each
 * statistic. */
static OracleOptions widest(const Search *s, Trial *const *list, int64_t n, int stat) {
    OracleOptions o = {.stat = (Stat)stat};
    for (int64_t i = 0; i < n; i++) {
        if (list[i]->plan.stat != stat) continue;
        OracleOptions q = bed_bounds(s->pb, &list[i]->plan);
        o.serial = i64_max(o.serial, q.serial);
        o.joins = o.joins > q.joins ? o.joins : q.joins;
        o.reciprocal |= q.reciprocal;
        o.native_math = q.native_math;
    }
    return o;
}

/* In the worker where there is one. When it is lost for good, the search goes on in this process. */
static Err attempt(Cx *cx, Cx *own, Search *s, const Plan *plan, const Unit *u, const Ask *q, Attempt *a) {
    bool lost = false;
    if (!s->worker) return attempt_run(own, s->bed, u, q, &s->mod, a);
    Err err = worker_try(own, s->worker, plan, q, a, &lost);
    if (!lost) return err;
    s->note = arena_printf(cx->a, "candidates are tried in this process from here on: %s", own->first->msg);
    worker_free(s->worker);
    s->worker = NULL;
    *own = (Cx){.a = own->a};
    return attempt_run(own, s->bed, u, q, &s->mod, a);
}

static void start_worker(Cx *cx, Search *s) {
    char path[4096];
    /* Devices for tests, and threads that belong to the host program, exist in this process only. */
    if (!str_eq(dev_name(s->dev), "host") || dev_options(s->dev)->parallel_for) return;
    if (s->worker_path && !*s->worker_path) return;
    if (!worker_find(s->worker_path, path, sizeof path)) {
        const char *env = getenv("ROWFOLD_WORKER");
        if (!env || *env || s->worker_path)
            s->note = "rowfold-worker was not found: a candidate that crashes will end this process";
        return;
    }
    Cx own = {.a = cx->a};
    WorkerOptions o = {.al = s->al,
                       .path = path,
                       .max_seconds = s->max_trial_seconds,
                       .elements = s->bed->elements,
                       .pb = s->pb,
                       .dev = s->dev,
                       .seed = s->seed};
    if (worker_new(&own, &o, &s->worker))
        s->note = arena_printf(cx->a, "candidates are tried in this process: %s", own.first->msg);
}

static Err try_one(Cx *cx, Cx *own, Search *s, Trial *t, const OracleOptions *o, double give_up) {
    Ask q = {.bounds = *o,
             .threads = s->threads,
             .samples = SHORT_SAMPLES,
             .sample_ns = short_sample_ns,
             .give_up_ns = give_up};
    Attempt a = {0};
    Unit u;
    Err err = attempt_emit(own, s->pb, &t->plan, &u, a.unit_sha);
    if (!err && search_resume(cx, s, t, a.unit_sha)) return t->fate == FATE_TIMED ? OK : slug_err(t->slug);
    if (!err) err = attempt(cx, own, s, &t->plan, &u, &q, &a);
    t->from_cache = a.facts.from_cache, t->compile_ns = a.facts.compile_ns;
    t->worst = a.verdict.worst, t->times = a.times;
    if (err)
        fail(cx, t, FATE_FAILED, own);
    else
        t->fate = FATE_TIMED;
    search_record(cx, s, t, STAGE_SHORT, &a);
    return err;
}

static bool tell(Search *s, int64_t tried, int64_t total, const Trial *best, int64_t t0, Cx *own) {
    s->seconds = (double)(t_now_ns() - t0) / 1e9;
    if (!s->progress) return false;
    Buf b = buf_new(own->a);
    if (best) plan_print(&best->plan, &b);
    Progress p = {tried, total, s->nrefused, s->nfailed, best ? best->times.median : 0, s->seconds, best ? b.s : ""};
    return s->progress(s->user, &p);
}

static Err final_build(Cx *cx, Search *s, int i, const Plan *plan, Attempt *a) {
    Unit u;
    Err err = attempt_emit(cx, s->pb, plan, &u, a->unit_sha);
    if (err || s->worker) return err ? err : worker_load(cx, s->worker, i, plan, a);
    err = mod_build(cx, s->dev, &u, &s->finalist[i]);
    if (!err) a->facts = *mod_facts(s->finalist[i]);
    return err;
}

static Err final_time(Cx *cx, Search *s, int i, Times *t) {
    Ask q = {.threads = s->threads, .samples = 1, .sample_ns = final_sample_ns};
    return s->worker ? worker_time(cx, s->worker, i, &q, t)
                     : bed_time(cx, s->bed, s->finalist[i], s->threads, 1, final_sample_ns, 0, t);
}

/* The fastest few once more, in turns, so that a slow moment of the machine meets all of them alike. Where that cannot
 * be done, their first times stand. */
static void finals(Cx *cx, Search *s, Trial **timed, int64_t n) {
    int m = (int)i64_min(n, FINALISTS);
    Attempt again[FINALISTS] = {{.facts = {0}}};
    Cx own = {.a = cx->a};
    Err err = OK;
    for (int i = 0; i < m && !err; i++) err = final_build(&own, s, i, &timed[i]->plan, &again[i]);
    for (int round = 0; round < FINAL_ROUNDS && !err; round++)
        for (int i = 0; i < m && !err; i++) {
            int k = round % 2 ? m - 1 - i : i;
            Times t, *sum = &again[k].times;
            err = final_time(&own, s, k, &t);
            if (!err) sum->ns[sum->n++] = t.ns[0], sum->calls = t.calls;
        }
    for (int i = 0; i < m; i++) {
        if (s->finalist[i]) mod_free(s->finalist[i]);
        s->finalist[i] = NULL;
        times_sort(&again[i].times);
        if (err) continue;
        timed[i]->times = again[i].times;
        again[i].verdict.worst = timed[i]->worst;
        search_record(cx, s, timed[i], STAGE_FINAL, &again[i]);
    }
    if (!err)
        qsort(timed, (size_t)m, sizeof *timed, by_time);
    else
        s->note = arena_printf(cx->a, "the finalists could not be compared: %s", own.first ? own.first->msg : "");
}

Err search_run(Cx *cx, Search *s) {
    Trial **list;
    int64_t n, t0 = t_now_ns();
    Err err = s->effort == EFFORT_RECALL ? search_recall(cx, s) : OK;
    if (!err) err = judge_and_rank(cx, s, &list, &n);
    if (err) return err;
    s->best = list[0] - s->trial;
    if (!effort_runs(s->effort)) return OK;
    if (s->effort == EFFORT_MEASURE) n = i64_min(n, s->max_candidates ? s->max_candidates : MEASURE_DEFAULT);
    start_worker(cx, s);
    OracleOptions bounds[STAT_COUNT];
    for (int i = 0; i < STAT_COUNT; i++) bounds[i] = widest(s, list, n, i);
    Trial **timed = NEWN(cx->a, Trial *, n + 1), *best = NULL;
    int64_t ntimed = 0;
    for (int64_t i = 0; i < n; i++) {
        Arena *a = arena_sub(cx->a);
        Cx own = {.a = a};
        Trial *t = list[i];
        bool bad = try_one(cx, &own, s, t, &bounds[t->plan.stat], best ? best->times.median * 3 : 0) != OK;
        if (bad) {
            s->nfailed++;
        } else {
            timed[ntimed++] = t;
            if (!best || t->times.median < best->times.median) best = t;
        }
        s->stopped = tell(s, i + 1, n, best, t0, &own);
        arena_free(a);
        if (s->stopped || (s->max_seconds > 0 && s->seconds > s->max_seconds)) break;
    }
    s->ntimed = ntimed;
    if (!ntimed && s->stopped) return diag(cx, S_SEARCH_STOPPED, NOWHERE, NULL, "stopped after %.1f s", s->seconds);
    if (!ntimed)
        return diag(cx, S_SEARCH_FAILED, NOWHERE, NULL, "all %lld candidates failed; the first with %s: %s",
                    (long long)n, slug_text(list[0]->slug), list[0]->why);
    qsort(timed, (size_t)ntimed, sizeof *timed, by_time);
    if (!s->stopped && ntimed > 1) finals(cx, s, timed, ntimed);
    s->best = timed[0] - s->trial;
    s->seconds = (double)(t_now_ns() - t0) / 1e9;
    worker_free(s->worker); /* what follows is timed without anyone beside it */
    s->worker = NULL;
    return OK;
}

void search_free(Search *s) {
    if (s->mod) mod_free(s->mod);
    for (int i = 0; i < COUNT(s->finalist); i++)
        if (s->finalist[i]) mod_free(s->finalist[i]);
    worker_free(s->worker);
    s->worker = NULL;
    s->mod = NULL;
    memset(s->finalist, 0, sizeof s->finalist);
}
