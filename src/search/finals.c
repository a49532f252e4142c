/* The fastest few and the incumbent once more, in turns, so that a slow moment of the machine meets all of them alike;
 * what was to be used without this search stays unless it is beaten by more than the turns themselves differ. */
#include "search.h"

#include <math.h>
#include <stdlib.h>

enum { FINALISTS = WORKER_SLOTS, LEAST_ROUNDS = 6, MOST_ROUNDS = 16 };
static const int64_t final_sample_ns = 10000000;
/* Gains below are not worth a change of the bits that order=plan gives. */
static const double least_gain = 0.01;
/* Standard errors of the mean that a difference must exceed: a chance of 1 % for each finalist to pass by luck. */
static const double errors = 3;

static int by_time(const void *x, const void *y) {
    const Trial *const *a = x, *const *b = y;
    if ((*a)->times.median != (*b)->times.median) return (*a)->times.median < (*b)->times.median ? -1 : 1;
    return *a < *b ? -1 : *a > *b;
}

void search_keep(Search *s, Trial *t) {
    int at = -1;
    const Trial *incumbent = s->final.incumbent >= 0 ? &s->trial[s->final.incumbent] : NULL;
    for (int i = 0; i < FINALISTS && (at < 0 || s->finalist[at]); i++) {
        const Trial *o = s->finalist_of[i];
        const bool slower = s->finalist[i] && o != incumbent && (t == incumbent || o->times.median > t->times.median);
        if (!s->finalist[i] || (slower && (at < 0 || o->times.median > s->finalist_of[at]->times.median))) at = i;
    }
    if (at >= 0) {
        if (s->finalist[at]) mod_free(s->finalist[at]);
        s->finalist[at] = s->mod, s->finalist_of[at] = t;
    } else {
        mod_free(s->mod);
    }
    s->mod = NULL;
}

int64_t finals_throttled(const Finals *f) {
    const bool known = f->finalists && f->before.throttles >= 0 && f->after.throttles >= f->before.throttles;
    return known ? f->after.throttles - f->before.throttles : -1;
}

typedef struct Contest {
    Search *s;
    int n, base;                            /* base: whose ratio to itself is one */
    Trial *who[FINALISTS], *was[FINALISTS]; /* in order of their times, and in that of the arrays below */
    int slot[FINALISTS];                    /* of the worker, or of s->finalist */
    double ns[FINALISTS][MOST_ROUNDS];
    int rounds, calls[FINALISTS];
    Attempt made[FINALISTS];
} Contest;

static Err build(Cx *cx, Contest *c, int i) {
    Search *s = c->s;
    Attempt *a = &c->made[i];
    Unit u;
    c->slot[i] = i;
    Err err = attempt_emit(cx, s->pb, &c->who[i]->plan, &u, a->unit_sha);
    if (err || s->worker) return err ? err : worker_load(cx, s->worker, i, &c->who[i]->plan, a);
    for (int k = 0; k < FINALISTS; k++)
        if (s->finalist[k] && s->finalist_of[k] == c->who[i]) return c->slot[i] = k, OK;
    for (int k = 0; k < FINALISTS; k++) { /* resumed: built anew, in the place of one that is none */
        bool used = false;
        for (int j = 0; j < c->n; j++) used |= s->finalist[k] && s->finalist_of[k] == c->who[j];
        if (used) continue;
        if (s->finalist[k]) mod_free(s->finalist[k]);
        s->finalist[k] = NULL;
        err = mod_build(cx, s->dev, &u, &s->finalist[k]);
        if (!err) s->finalist_of[k] = c->who[i], c->slot[i] = k;
        break;
    }
    return err;
}

static Err take_time(Cx *cx, Contest *c, int i, Times *t) {
    Search *s = c->s;
    Ask q = {.threads = s->threads, .samples = 1, .sample_ns = final_sample_ns};
    return s->worker ? worker_time(cx, s->worker, c->slot[i], &q, t)
                     : bed_time(cx, s->bed, s->finalist[c->slot[i]], s->threads, 1, final_sample_ns, 0, t);
}

/* Mean of a finalist's log ratios to the base, and how far single rounds stray from it. */
static double mean_ratio(const Contest *c, int i, double *squares) {
    double mean = 0;
    *squares = 0;
    for (int r = 0; r < c->rounds; r++) mean += log(c->ns[i][r] / c->ns[c->base][r]) / c->rounds;
    for (int r = 0; r < c->rounds; r++) {
        const double d = log(c->ns[i][r] / c->ns[c->base][r]) - mean;
        *squares += d * d;
    }
    return mean;
}

static double detectable(const Contest *c) {
    double all = 0, one;
    for (int i = 0; i < c->n; i++) {
        mean_ratio(c, i, &one);
        all += one;
    }
    const double spread = sqrt(all / ((c->n - 1) * (c->rounds - 1)));
    return fmax(least_gain, 1 - exp(-errors * spread / sqrt(c->rounds)));
}

/* A round goes through all, every second one backwards, after one that does not count. */
static Err rounds(Cx *cx, Contest *c) {
    Err err = OK;
    const int64_t from = t_now_ns();
    for (int i = 0; i < c->n && !err; i++) {
        Times t;
        err = take_time(cx, c, i, &t);
    }
    while (!err && c->rounds < MOST_ROUNDS) {
        const bool late =
            c->s->max_seconds > 0 && c->s->seconds + (double)(t_now_ns() - from) / 1e9 > c->s->max_seconds;
        if (c->rounds >= LEAST_ROUNDS && c->rounds % 2 == 0 && (late || detectable(c) <= least_gain)) break;
        for (int i = 0; i < c->n && !err; i++) {
            const int k = c->rounds % 2 ? c->n - 1 - i : i;
            Times t;
            err = take_time(cx, c, k, &t);
            if (!err) c->ns[k][c->rounds] = t.ns[0], c->calls[k] = t.calls;
        }
        if (!err) c->rounds++;
    }
    return err;
}

static void settle(Contest *c, bool incumbent) {
    Finals *f = &c->s->final;
    double unused, best = 0;
    f->finalists = c->n, f->rounds = c->rounds;
    f->detectable = detectable(c);
    int winner = c->base;
    for (int i = 0; i < c->n; i++) {
        const double x = mean_ratio(c, i, &unused);
        if (x < best) best = x, winner = i;
    }
    f->gain = 1 - exp(best);
    f->tie = f->gain < f->detectable;
    if (f->tie && incumbent) winner = c->base;
    for (int i = 0; i < c->n; i++) {
        Times *t = &c->who[i]->times;
        *t = (Times){.n = c->rounds, .calls = c->calls[i]};
        for (int r = 0; r < c->rounds; r++) t->ns[r] = c->ns[i][r];
        times_sort(t);
    }
    Trial *w = c->who[winner];
    qsort(c->who, (size_t)c->n, sizeof(Trial *), by_time);
    for (int i = 0; i < c->n; i++) /* the winner in front, whatever the medians say */
        if (c->who[i] == w)
            for (; i > 0; i--) c->who[i] = c->who[i - 1];
    c->who[0] = w;
}

void search_finals(Cx *cx, Search *s, Trial **timed, int64_t n, Trial *incumbent) {
    Contest *c = NEW(cx->a, Contest);
    c->s = s;
    c->n = (int)i64_min(n, FINALISTS);
    const bool has = incumbent && incumbent->fate == FATE_TIMED;
    bool in = false;
    for (int i = 0; i < c->n; i++) in |= timed[i] == incumbent;
    if (has && !in) { /* it takes the last place */
        for (int64_t i = c->n - 1; i < n; i++)
            if (timed[i] == incumbent) timed[i] = timed[c->n - 1], timed[c->n - 1] = incumbent;
    }
    for (int i = 0; i < c->n; i++) {
        c->who[i] = c->was[i] = timed[i];
        if (has && timed[i] == incumbent) c->base = i;
    }
    Cx own = {.a = cx->a};
    Err err = OK;
    for (int i = 0; i < c->n && !err; i++) err = build(&own, c, i);
    s->final.before = dev_state(s->dev);
    if (!err) err = rounds(&own, c);
    s->final.after = dev_state(s->dev);
    if (err) { /* their first times stand */
        s->note = arena_printf(cx->a, "the finalists could not be compared: %s", own.first ? own.first->msg : "");
        return;
    }
    settle(c, has);
    for (int i = 0; i < c->n; i++) {
        timed[i] = c->who[i];
        timed[i]->finalist = true;
        c->made[i].times = c->was[i]->times;
        c->made[i].verdict.worst = c->was[i]->worst;
        search_record(cx, s, c->was[i], STAGE_FINAL, &c->made[i]);
    }
}

Err search_pair(Cx *cx, Search *s, Trial *a, Trial *b, double *ratio, double *least) {
    Contest *c = NEW(cx->a, Contest);
    *c = (Contest){.s = s, .n = 2, .base = 1, .who = {a, b}};
    Err err = search_here(cx, s);
    for (int i = 0; i < c->n && !err; i++) err = build(cx, c, i);
    if (!err) err = rounds(cx, c);
    if (err) return err;
    double unused;
    *ratio = exp(mean_ratio(c, 0, &unused));
    *least = detectable(c);
    return OK;
}
