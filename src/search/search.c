/* Space -> winner. Judge all, rank the legal ones by the cost policy, then (unless only an estimate is asked for)
 * build, check and time them, the best of them once more in turns. A candidate that is refused, does not build or is
 * wrong costs itself only. */
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { ESTIMATE_LIMIT = 100000, MEASURE_DEFAULT = 48, FINALISTS = 4, SHORT_SAMPLES = 3, FINAL_ROUNDS = 5 };
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
    Err err = space_default(cx, s->pb, &space);
    if (!err && s->open) err = space_open(cx, s->pb, s->open, &space);
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

static Err build(Cx *cx, Search *s, const Plan *plan, Module **out) {
    Kern *k;
    Unit u;
    Err err = kern_lower(cx, s->pb, plan, &k);
    if (!err) err = unit_emit(cx, s->pb, k, &u);
    if (!err) err = mod_build(cx, s->dev, &u, out);
    return err;
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

static Err try_one(Cx *cx, Cx *own, Search *s, Trial *t, const OracleOptions *o, double give_up) {
    Verdict v = {0};
    Err err = build(own, s, &t->plan, &s->mod);
    if (!err) {
        const Facts *f = mod_facts(s->mod);
        t->from_cache = f->from_cache, t->compile_ns = f->compile_ns;
        err = bed_check(own, s->bed, s->mod, o, s->threads, &v);
        t->worst = v.worst;
    }
    if (!err) err = bed_time(own, s->bed, s->mod, s->threads, SHORT_SAMPLES, short_sample_ns, give_up, &t->times);
    if (s->mod) mod_free(s->mod);
    s->mod = NULL;
    if (err)
        fail(cx, t, FATE_FAILED, own);
    else
        t->fate = FATE_TIMED;
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

/* The fastest few once more, in turns, so that a slow moment of the machine meets all of them alike. */
static Err finals(Cx *cx, Search *s, Trial **timed, int64_t n) {
    int m = (int)i64_min(n, FINALISTS);
    Err err = OK;
    for (int i = 0; i < m && !err; i++) err = build(cx, s, &timed[i]->plan, &s->finalist[i]);
    Times again[FINALISTS] = {{0}};
    for (int round = 0; round < FINAL_ROUNDS && !err; round++)
        for (int i = 0; i < m && !err; i++) {
            int k = round % 2 ? m - 1 - i : i;
            Times t;
            err = bed_time(cx, s->bed, s->finalist[k], s->threads, 1, final_sample_ns, 0, &t);
            if (!err) again[k].ns[again[k].n++] = t.ns[0], again[k].calls = t.calls;
        }
    for (int i = 0; i < m; i++) {
        if (s->finalist[i]) mod_free(s->finalist[i]);
        s->finalist[i] = NULL;
        times_sort(&again[i]);
        if (!err) timed[i]->times = again[i];
    }
    if (!err) qsort(timed, (size_t)m, sizeof *timed, by_time);
    return err;
}

Err search_run(Cx *cx, Search *s) {
    Trial **list;
    int64_t n, t0 = t_now_ns();
    Err err = judge_and_rank(cx, s, &list, &n);
    if (err) return err;
    s->best = list[0] - s->trial;
    if (s->effort == EFFORT_ESTIMATE) return OK;
    if (s->effort == EFFORT_MEASURE) n = i64_min(n, s->max_candidates ? s->max_candidates : MEASURE_DEFAULT);
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
    if (!s->stopped && ntimed > 1) err = finals(cx, s, timed, ntimed);
    s->best = timed[0] - s->trial;
    s->seconds = (double)(t_now_ns() - t0) / 1e9;
    return err;
}

void search_free(Search *s) {
    if (s->mod) mod_free(s->mod);
    for (int i = 0; i < COUNT(s->finalist); i++)
        if (s->finalist[i]) mod_free(s->finalist[i]);
    s->mod = NULL;
    memset(s->finalist, 0, sizeof s->finalist);
}
