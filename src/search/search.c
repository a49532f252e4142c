/* Space -> winner. All are judged and the legal ones ranked (judge.c), a strategy says who is tried (strategy.c); those
 * are emitted, compiled ahead in batches (ahead.c), checked and timed one at a time, the best of them once more in
 * turns (finals.c). A candidate that is refused, does not build or is wrong costs itself only. */
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_SAMPLES = 3 };
static const int64_t host_sample_ns = 4000000, device_sample_ns = 2000000;

static int by_time(const void *x, const void *y) {
    const Trial *const *a = x, *const *b = y;
    if ((*a)->times.median != (*b)->times.median) return (*a)->times.median < (*b)->times.median ? -1 : 1;
    return *a < *b ? -1 : *a > *b;
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
        o.fast_exp |= q.fast_exp;
        o.contract |= q.contract;
        o.native_math |= q.native_math;
    }
    return o;
}

/* ---- how far it is ---- */

typedef struct Watch {
    Search *s;
    Arena *a;
    const Picks *p;
    const Trial *best; /* so far; NULL: none */
    int64_t tried, t0;
    bool cut; /* a worker's answer was not waited for */
} Watch;

static bool tell(Watch *w, Arena *a) {
    Search *s = w->s;
    s->seconds = (double)(t_now_ns() - w->t0) / 1e9;
    if (!s->progress) return false;
    Buf b = buf_new(a);
    if (w->best) plan_print(&w->best->plan, &b);
    double left = w->tried ? s->seconds / (double)w->tried * (double)(w->p->n - w->tried) : -1;
    if (s->max_seconds > 0 && left > s->max_seconds - s->seconds) left = s->max_seconds - s->seconds;
    Progress r = {.tried = w->tried,
                  .total = w->p->n,
                  .refused = s->nrefused,
                  .failed = s->nfailed,
                  .best_ns = w->best ? w->best->times.median : 0,
                  .elapsed_s = s->seconds,
                  .left_s = w->tried && left < 0 ? 0 : left,
                  .best_plan = w->best ? b.s : "",
                  .reasons = search_reasons(&(Cx){.a = a}, s)};
    return s->progress(s->user, &r);
}

static bool out_of_time(const Search *s) {
    return s->max_seconds > 0 && s->seconds > s->max_seconds;
}

bool search_told(Search *s) {
    Watch *w = s->watch;
    if (!w) return false;
    Arena *a = arena_sub(w->a);
    s->stopped |= tell(w, a);
    arena_free(a);
    return s->stopped;
}

/* While a worker is waited for. */
static bool over(void *user, bool late) {
    Watch *w = user;
    return w->cut = search_told(w->s) || (late && out_of_time(w->s));
}

/* ---- where candidates are tried ---- */

Err search_here(Cx *cx, Search *s) {
    if (!s->bed->dev) {
        Cx keep = {.a = cx->a, .stop = cx->stop};
        Err err = bed_make(&keep, s->dev, s->pb, s->seed, s->bed);
        if (err) return diag(cx, keep.first->slug, NOWHERE, keep.first->accept, "%s", keep.first->msg);
    }
    if (!s->ahead) s->ahead = ahead_new(s->dev, s->builders);
    return OK;
}

/* In the worker where there is one. When it is lost for good, the search goes on in this process. */
static Err attempt(Cx *cx, Cx *own, Search *s, const Plan *plan, const Unit *u, const Ask *q, Attempt *a) {
    bool lost = false;
    if (s->worker) {
        Err err = worker_try(own, s->worker, plan, q, a, &lost);
        if (!lost || err == ERR_STOPPED) return err;
        s->note = arena_printf(cx->a, "candidates are tried in this process from here on: %s", own->first->msg);
        worker_free(s->worker);
        s->worker = NULL;
        *own = (Cx){.a = own->a, .stop = cx->stop};
        err = search_here(cx, s);
        if (err) return diag(own, cx->last->slug, NOWHERE, NULL, "%s", cx->last->msg);
    }
    return attempt_run(own, s->bed, s->ahead, u, q, &s->mod, a);
}

/* ERR_STOPPED, or OK: with a worker or without. */
static Err start_worker(Cx *cx, Search *s, Watch *w) {
    char path[4096];
    /* Threads that belong to the host program exist in this process only. */
    if (dev_options(s->dev)->parallel_for) return OK;
    if (s->worker_path && !*s->worker_path) return OK;
    if (!worker_find(s->worker_path, path, sizeof path)) {
        const char *env = getenv("ROWFOLD_WORKER");
        if (!env || *env || s->worker_path)
            s->note = "rowfold-worker was not found: a candidate that crashes will end this process";
        return OK;
    }
    Cx own = {.a = cx->a};
    WorkerOptions o = {.al = s->al,
                       .path = path,
                       .max_seconds = s->max_trial_seconds,
                       .pb = s->pb,
                       .dev = s->dev,
                       .seed = s->seed,
                       .cold = s->bed->cold,
                       .builders = s->builders,
                       .over = over,
                       .user = w};
    Err err = worker_new(&own, &o, &s->worker);
    if (err == ERR_STOPPED) return err;
    if (err) s->note = arena_printf(cx->a, "candidates are tried in this process: %s", own.first->msg);
    return OK;
}

/* ---- batches ---- */

typedef struct Next { /* a candidate whose source is made */
    Trial *t;
    Arena *a;
    Cx own;
    Unit u;
    Attempt made;
    Err err;
    bool done; /* resumed, or it could not be emitted: nothing is to be run */
} Next;

typedef struct Batch {
    Next next[AHEAD_MOST];
    int n, at, size; /* next[at .. n) are to be tried; size: most together */
    int64_t guessed; /* behind how many that were chosen it was guessed who is next */
} Batch;

static void emit(Cx *cx, Search *s, Next *x) {
    x->a = arena_sub(cx->a);
    x->own = (Cx){.a = x->a, .stop = cx->stop};
    x->err = attempt_emit(&x->own, s->pb, &x->t->plan, &x->u, x->made.unit_sha);
    x->done = x->err || search_resume(cx, s, x->t, x->made.unit_sha);
}

/* Hands units to those who build them while others are measured, or, on a host, before. */
static void build_ahead(Cx *cx, Search *s, const Batch *b, int from) {
    if (b->size == 1) return;
    if (s->worker) {
        const Plan *plan[AHEAD_MOST];
        int n = 0;
        for (int i = from; i < b->n; i++)
            if (!b->next[i].done) plan[n++] = &b->next[i].t->plan;
        if (n) worker_ahead(cx, s->worker, plan, n, false);
        return;
    }
    for (int i = from; i < b->n; i++)
        if (!b->next[i].done) ahead_add(s->ahead, &b->next[i].u, b->next[i].made.unit_sha, false);
    ahead_wait(cx, s->ahead);
}

/* A strategy that learns chooses when all are tried that it chose before, and a device would then wait for a compiler.
 * So whom it would choose now is built while they are tried; most are chosen. */
static void guess_ahead(Cx *cx, Search *s, const Picks *p, Batch *b) {
    enum { GUESSES = 4 };
    Trial *t[GUESSES];
    const Plan *plan[GUESSES];
    if (b->size == 1 || b->n > GUESSES || b->guessed == p->n || dev_caps(s->dev)->kind == KIND_HOST) return;
    const int n = picks_guess(cx, p, t, GUESSES);
    b->guessed = p->n;
    for (int i = 0; i < n; i++) {
        plan[i] = &t[i]->plan;
        if (s->worker) continue;
        Cx own = {.a = arena_sub(cx->a)};
        Unit u;
        char sha[65];
        if (attempt_emit(&own, s->pb, plan[i], &u, sha) == OK) ahead_add(s->ahead, &u, sha, true);
        arena_free(own.a);
    }
    if (s->worker && n) worker_ahead(cx, s->worker, plan, n, true);
}

/* Fills the batch up where that is due; false: there is nobody left to try. */
static bool refill(Cx *cx, Search *s, Picks *p, Batch *b) {
    const bool spent = s->max_compile_seconds > 0 && (double)s->compile_ns / 1e9 >= s->max_compile_seconds;
    if (dev_caps(s->dev)->kind == KIND_HOST && b->at < b->n) return true;
    memmove(b->next, b->next + b->at, sizeof *b->next * (size_t)(b->n - b->at));
    b->n -= b->at, b->at = 0;
    const int from = b->n;
    while (b->n < b->size && !spent) {
        Trial *t = picks_next(cx, p, b->n == 0);
        if (!t) break;
        b->next[b->n] = (Next){.t = t};
        emit(cx, s, &b->next[b->n++]);
    }
    build_ahead(cx, s, b, from);
    if (b->n && !spent) guess_ahead(cx, s, p, b);
    return b->n > 0;
}

/* OK: it has a time. ERR_STOPPED: nobody knows what would have become of it. */
static Err try_one(Cx *cx, Search *s, Next *x, const OracleOptions *o, double give_up) {
    Trial *t = x->t;
    Attempt *a = &x->made;
    if (t->resumed) return t->fate == FATE_TIMED ? OK : slug_err(t->slug);
    Ask q = {.bounds = *o,
             .threads = s->threads,
             .samples = SHORT_SAMPLES,
             .sample_ns = dev_caps(s->dev)->kind == KIND_HOST ? host_sample_ns : device_sample_ns,
             .give_up_ns = give_up};
    Err err = x->err;
    if (!err) err = attempt(cx, &x->own, s, &t->plan, &x->u, &q, a);
    if (err == ERR_STOPPED) return err;
    t->from_cache = a->facts.from_cache, t->compile_ns = a->facts.compile_ns;
    t->worst = a->verdict.worst, t->times = a->times;
    if (!t->from_cache) s->compile_ns += t->compile_ns;
    if (err)
        search_failed(cx, t, FATE_FAILED, &x->own);
    else
        t->fate = FATE_TIMED;
    if (s->mod && !err) search_keep(s, t);
    if (s->mod) mod_free(s->mod);
    s->mod = NULL;
    search_record(cx, s, t, STAGE_SHORT, a);
    return err;
}

/* Tries whom the strategy picks, within the budgets. timed[0 .. result) have a time. */
static int64_t try_all(Cx *cx, Search *s, Picks *p, Watch *w, Trial **timed) {
    OracleOptions bounds[STAT_COUNT];
    /* a beam may come to any of the ranked */
    for (int i = 0; i < STAT_COUNT; i++) bounds[i] = widest(s, p->ranked, p->nranked, i);
    Batch *b = NEW(cx->a, Batch);
    int64_t ntimed = 0;
    b->size = ahead_batch(s->dev, s->builders);
    while (!s->stopped && !w->cut && !out_of_time(s) && refill(cx, s, p, b)) {
        if (w->cut) break; /* while they were compiled */
        Next *x = &b->next[b->at++];
        const Err err = try_one(cx, s, x, &bounds[x->t->plan.stat], w->best ? w->best->times.median * 3 : 0);
        if (!err) {
            timed[ntimed++] = x->t;
            if (!w->best || x->t->times.median < w->best->times.median) w->best = x->t;
        }
        if (err != ERR_STOPPED) {
            s->nfailed += err != OK;
            w->tried++;
            s->stopped |= tell(w, x->a);
        }
        arena_free(x->a);
    }
    for (; b->at < b->n; b->at++) arena_free(b->next[b->at].a);
    ahead_free(s->ahead); /* what follows is timed without anyone beside it */
    s->ahead = NULL;
    return ntimed;
}

static Err nothing_timed(Cx *cx, const Search *s) {
    if (s->stopped) return diag(cx, S_SEARCH_STOPPED, NOWHERE, NULL, "stopped after %.1f s", s->seconds);
    return diag(cx, S_SEARCH_STOPPED, NOWHERE, NULL,
                "the %g s that it may take were over, after %.1f s, before the first candidate had a time",
                s->max_seconds, s->seconds);
}

Err search_run(Cx *cx, Search *s) {
    Trial **list;
    Picks picks;
    int64_t n, t0 = t_now_ns();
    Err err = effort_runs(s->effort) ? strategy_check(cx, s) : OK;
    if (!err && s->effort == EFFORT_RECALL) err = search_recall(cx, s);
    if (!err) err = search_judge(cx, s, &list, &n);
    if (err) return err;
    s->best = list[0] - s->trial;
    if (!effort_runs(s->effort)) return OK;
    Trial *known = search_remembered(cx, s), *incumbent = known ? known : list[0];
    s->final = (Finals){.incumbent = incumbent - s->trial, .remembered = known != NULL};
    err = picks_new(cx, s, list, n, incumbent, &picks);
    if (err) return err;
    Watch *w = NEW(cx->a, Watch);
    *w = (Watch){.s = s, .a = cx->a, .p = &picks, .t0 = t0};
    s->watch = w;
    if (start_worker(cx, s, w)) return nothing_timed(cx, s);
    if (!s->worker) err = search_here(cx, s);
    if (err) return err;
    Trial **timed = NEWN(cx->a, Trial *, n + 1);
    const int64_t ntimed = s->ntimed = try_all(cx, s, &picks, w, timed);
    if (!ntimed && (s->stopped || w->cut || !picks.at)) return nothing_timed(cx, s);
    const Trial *first = picks.queue[0];
    const Err machine = ntimed ? OK : slug_err(first->slug); /* whose fault it is, where it is no plan's */
    if (machine == ERR_UNAVAILABLE || machine == ERR_IO) return diag(cx, first->slug, NOWHERE, NULL, "%s", first->why);
    if (!ntimed)
        return diag(cx, S_SEARCH_FAILED, NOWHERE, NULL, "%s failed%s with %s: %s",
                    picks.at == 1 ? "the only candidate"
                                  : arena_printf(cx->a, "all %lld candidates", (long long)picks.at),
                    picks.at == 1 ? "" : "; the first", slug_text(first->slug), first->why);
    qsort(timed, (size_t)ntimed, sizeof *timed, by_time);
    Trial *winner = !s->stopped && ntimed > 1 ? search_finals(cx, s, timed, ntimed, incumbent) : timed[0];
    s->best = winner - s->trial;
    s->seconds = (double)(t_now_ns() - t0) / 1e9;
    s->watch = NULL;
    worker_free(s->worker); /* what follows is timed without anyone beside it */
    s->worker = NULL;
    return OK;
}

void search_free(Search *s) {
    ahead_free(s->ahead);
    s->ahead = NULL;
    if (s->mod) mod_free(s->mod);
    for (int i = 0; i < COUNT(s->finalist); i++)
        if (s->finalist[i]) mod_free(s->finalist[i]);
    worker_free(s->worker);
    s->worker = NULL;
    s->mod = NULL;
    memset(s->finalist, 0, sizeof s->finalist);
}
