/* The fastest few and the incumbent once more, in turns (of a range at its largest extent and at half of it), so that a
 * slow moment of the machine meets all of them alike; what was to be used without this search stays unless it is beaten
 * by more than the turns themselves differ, and by more than nothing in turns that did not choose who is fastest, both
 * compiled anew. */
#include "search.h"

#include <math.h>
#include <string.h>

enum { FINALISTS = WORKER_SLOTS, HALF = FINALISTS / 2, DIFFERENT = 3, FIRST_ROUNDS = 2, LEAST_ROUNDS = 6 };
/* Hosts, which differ more from round to round, take more. */
enum { MOST_ROUNDS = COUNT(((Times *)0)->ns), DEVICE_ROUNDS = 32 };
/* So many rounds find the tensors in one place, the next in another: which plan is fastest where a cache happens to
 * hold them is no property of the plan. */
enum { PLACE_ROUNDS = 2 };
/* A sample is a thousand calls, but within these: of calls of a microsecond ten milliseconds would show no more; and a
 * device's own clock sees nothing of what else the machine does. */
static const int64_t least_sample_ns = 1000000, host_sample_ns = 10000000, device_sample_ns = 5000000;
/* Gains below are not worth a change of the bits that order=plan gives. */
static const double least_gain = 0.01;
/* Of a short time: times the shortest, of a finalist for its choices. */
static const double near = 1.25;
/* Of all rounds, but for the fewest. */
static const int64_t rounds_ns = 6000000000;
/* Of a round: times what an undisturbed one takes. */
static const double disturbed = 1.1;
/* Standard errors of the mean that a difference must exceed: a chance of 1 % for each finalist to pass by luck. */
static const double errors = 3;

/* In the order that finalists are chosen by. */
static bool slower(const Trial *a, const Trial *b) {
    return a->times.median > b->times.median || (a->times.median == b->times.median && a > b);
}

void search_keep(Search *s, Trial *t) {
    int at = -1;
    const Trial *incumbent = s->final.incumbent >= 0 ? &s->trial[s->final.incumbent] : NULL;
    for (int i = 0; i < FINALISTS && (at < 0 || s->finalist[at]); i++) {
        const Trial *o = s->finalist_of[i];
        const bool yields = s->finalist[i] && o != incumbent && (t == incumbent || slower(o, t));
        if (!s->finalist[i] || (yields && (at < 0 || slower(o, s->finalist_of[at])))) at = i;
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

typedef struct Entrant {
    Trial *t;
    int slot; /* of the worker, or of s->finalist */
    double ns[MOST_ROUNDS];
    double half_ns[MOST_ROUNDS]; /* of a range at half its extent */
    int calls;
    Attempt made;
} Entrant;

typedef struct Contest {
    Search *s;
    int n, base; /* base: whose ratio to itself is one */
    int rounds;
    bool fresh; /* compiled anew, whatever a cache has */
    Entrant in[FINALISTS];
} Contest;

/* The place of a finalist among those of this process: its own, else one that no other finalist has. */
static int place_of(const Contest *c, const Trial *t) {
    const Search *s = c->s;
    int other = -1; /* there are as many places as finalists */
    for (int k = 0; k < FINALISTS; k++) {
        if (s->finalist[k] && s->finalist_of[k] == t) return k;
        bool used = false;
        for (int j = 0; j < c->n; j++) used |= s->finalist[k] && s->finalist_of[k] == c->in[j].t;
        if (!used && other < 0) other = k;
    }
    return other;
}

static Err build(Cx *cx, Contest *c, int i) {
    Search *s = c->s;
    Entrant *e = &c->in[i];
    Unit u;
    e->slot = i;
    Err err = attempt_emit(cx, s->pb, &e->t->plan, &u, e->made.unit_sha);
    if (err || s->worker) return err ? err : worker_load(cx, s->worker, i, &e->t->plan, c->fresh, &e->made);
    const int k = e->slot = place_of(c, e->t);
    if (s->finalist[k] && s->finalist_of[k] == e->t && !c->fresh) return OK; /* else resumed, or asked for anew */
    if (s->finalist[k]) mod_free(s->finalist[k]);
    s->finalist[k] = NULL;
    u.fresh = c->fresh;
    err = mod_build(cx, s->dev, &u, &s->finalist[k]);
    if (!err) s->finalist_of[k] = e->t;
    return err;
}

static Err take_time(Cx *cx, Contest *c, int i, int64_t extent, Times *t) {
    Search *s = c->s;
    const int64_t most = dev_caps(s->dev)->kind == KIND_HOST ? host_sample_ns : device_sample_ns;
    const double calls_ns = 1000 * c->in[i].t->times.median;
    const int64_t ns = (int64_t)fmin(fmax(calls_ns, (double)least_sample_ns), (double)most);
    Ask q = {.threads = s->threads, .samples = 1, .sample_ns = ns, .extent = extent, .place = c->rounds / PLACE_ROUNDS};
    return s->worker ? worker_time(cx, s->worker, c->in[i].slot, &q, t)
                     : attempt_time(cx, s->bed, s->finalist[c->in[i].slot], &q, t);
}

typedef struct Ratio {  /* of a finalist to the base, logarithm */
    double mean, error; /* standard error of the mean */
} Ratio;

/* What a round compares a finalist by. */
static double compared(const Contest *c, const Entrant *e, int round) {
    const Shape *shape = &c->s->pb->shape;
    return shape_half(shape) ? search_over_range(shape, e->ns[round], e->half_ns[round]) : e->ns[round];
}

/* Which rounds count: something else that is busy for a while makes all of a round slower, and each plan by another
 * factor. So those count in which all together took no more than a tenth above the lower quartile, and half of them at
 * least, whoever was slow in the others. *n: how many. */
static void quiet_rounds(const Contest *c, bool *counts, int *n) {
    double all[MOST_ROUNDS], sorted[MOST_ROUNDS];
    for (int r = 0; r < c->rounds; r++) {
        all[r] = 0;
        for (int i = 0; i < c->n; i++) all[r] += log(compared(c, &c->in[i], r)) / c->n;
        sorted[r] = all[r];
    }
    f64_sort(sorted, c->rounds);
    const double most = c->rounds < LEAST_ROUNDS /* too few to say which is quiet */
                            ? INFINITY
                            : fmax(sorted[c->rounds / 4] + log(disturbed), sorted[(c->rounds - 1) / 2]);
    *n = 0;
    for (int r = 0; r < c->rounds; r++) counts[r] = all[r] <= most, *n += counts[r];
}

/* The mean of the middle half of a finalist's log ratios of quiet rounds; its error is that of a trimmed mean (Tukey
 * and McLaughlin 1963): from the deviations of all of them, where those left out stand at the edge of those that count.
 */
static Ratio ratio_of(const Contest *c, int i) {
    double x[MOST_ROUNDS], squares = 0, all = 0, middle = 0;
    bool counts[MOST_ROUNDS];
    int n, k = 0;
    quiet_rounds(c, counts, &n);
    const int cut = n / 4, kept = n - 2 * cut;
    for (int r = 0; r < c->rounds; r++)
        if (counts[r]) x[k++] = log(compared(c, &c->in[i], r) / compared(c, &c->in[c->base], r));
    f64_sort(x, n);
    for (int r = cut; r < n - cut; r++) middle += x[r] / kept;
    for (int r = 0; r < cut; r++) x[r] = x[cut], x[n - 1 - r] = x[n - 1 - cut];
    for (int r = 0; r < n; r++) all += x[r] / n;
    for (int r = 0; r < n; r++) squares += (x[r] - all) * (x[r] - all);
    return (Ratio){middle, n > 1 ? sqrt(squares / (n - 1) * n) / kept : INFINITY};
}

static double detectable(const Contest *c) {
    double all = 0;
    for (int i = 0; i < c->n; i++) all += pow(ratio_of(c, i).error, 2);
    return fmax(least_gain, 1 - exp(-errors * sqrt(all / (c->n - 1))));
}

/* The better half goes on, and the base whatever its times. */
static void halve(Contest *c) {
    for (int i = 0; i < HALF; i++) {
        int best = i;
        for (int k = i + 1; k < c->n; k++) {
            const bool last = i == HALF - 1 && c->base >= i;
            if (last ? k == c->base : ratio_of(c, k).mean < ratio_of(c, best).mean) best = k;
        }
        const Entrant e = c->in[i];
        c->in[i] = c->in[best], c->in[best] = e;
        c->base = c->base == i ? best : c->base == best ? i : c->base;
    }
    c->n = HALF;
}

/* All of them once, every second time backwards. */
static Err take_turns(Cx *cx, Contest *c, int64_t extent, bool *stop) {
    Err err = OK;
    for (int i = 0; i < c->n && !err && !*stop; i++) {
        Entrant *e = &c->in[c->rounds % 2 ? c->n - 1 - i : i];
        Times t;
        err = take_time(cx, c, (int)(e - c->in), extent, &t);
        if (!err && extent) e->half_ns[c->rounds] = t.ns[0];
        if (!err && !extent) e->ns[c->rounds] = t.ns[0], e->calls = t.calls;
        *stop = search_told(c->s);
    }
    return err;
}

/* A round goes through all, of a range once more at half its extent, after one that does not count. */
static Err rounds(Cx *cx, Contest *c) {
    Err err = OK;
    const int64_t from = t_now_ns();
    for (int i = 0; i < c->n && !err; i++) {
        Times t;
        err = take_time(cx, c, i, 0, &t);
    }
    const int most = dev_caps(c->s->dev)->kind == KIND_HOST ? MOST_ROUNDS : DEVICE_ROUNDS;
    while (!err && c->rounds < most) {
        const int64_t took = t_now_ns() - from;
        const bool late =
            took > rounds_ns || (c->s->max_seconds > 0 && c->s->seconds + (double)took / 1e9 > c->s->max_seconds);
        if (c->rounds >= LEAST_ROUNDS && c->rounds % 2 == 0 && (late || detectable(c) <= least_gain)) break;
        if (c->rounds == FIRST_ROUNDS && c->n > HALF) halve(c);
        const int64_t half = shape_half(&c->s->pb->shape);
        bool stop = false;
        err = take_turns(cx, c, 0, &stop);
        if (!err && !stop && half) err = take_turns(cx, c, half, &stop);
        if (stop) break; /* whole rounds count */
        if (!err) c->rounds++;
    }
    if (!err && c->rounds < FIRST_ROUNDS)
        err = diag(cx, S_SEARCH_STOPPED, NOWHERE, NULL, "stopped after %d round%s", c->rounds, plural(c->rounds));
    return err;
}

/* Those that came through get the times of their rounds. */
static Trial *settle(Contest *c, bool incumbent) {
    Finals *f = &c->s->final;
    double best = 0;
    f->rounds = c->rounds;
    f->detectable = detectable(c);
    int winner = c->base;
    for (int i = 0; i < c->n; i++) {
        const Entrant *e = &c->in[i];
        const double x = ratio_of(c, i).mean;
        if (x < best) best = x, winner = i;
        e->t->times = (Times){.n = c->rounds, .calls = e->calls};
        memcpy(e->t->times.ns, e->ns, sizeof(double) * (size_t)c->rounds);
        times_sort(&e->t->times);
    }
    f->gain = 1 - exp(best);
    f->tie = f->gain < f->detectable;
    return c->in[f->tie && incumbent ? c->base : winner].t;
}

/* What a search found replaces the incumbent only if it is faster in fresh turns too: who is first of many owes some of
 * that to the rounds that chose it. */
static bool holds(Cx *cx, Search *s, Trial *winner, Trial *incumbent) {
    Finals *f = &s->final;
    Contest *c = NEW(cx->a, Contest);
    *c = (Contest){.s = s, .n = 2, .base = 1, .fresh = true, .in = {{.t = winner}, {.t = incumbent}}};
    Cx own = {.a = cx->a, .stop = cx->stop};
    Err err = OK;
    for (int i = 0; i < c->n && !err; i++) err = build(&own, c, i);
    if (!err) err = rounds(&own, c);
    if (err) {
        s->note =
            arena_printf(cx->a, "the fastest could not be replayed: %s", own.first ? own.first->msg : "no message");
        return false;
    }
    const Ratio x = ratio_of(c, 0);
    f->replays = c->rounds;
    f->replayed_gain = 1 - exp(x.mean);
    f->replayed_least = 1 - exp(x.mean + errors * x.error);
    return f->replayed_least > 0;
}

/* The fastest, and in the last places of a host's the fastest of those with a choice that none before made, where they
 * are near: short times of a few moments may have met all plans of one kind at a bad one. */
static int finalists(const Search *s, Trial **timed, int64_t n, Trial **list) {
    const int first = dev_caps(s->dev)->kind == KIND_HOST ? FINALISTS - DIFFERENT : FINALISTS;
    int m = 0;
    for (int pass = 0; pass < 3; pass++) /* the fastest, those that differ, and again the fastest */
        for (int64_t i = 0; i < n && m < (pass ? FINALISTS : first); i++) {
            bool in = false;
            for (int k = 0; k < m; k++) in |= list[k] == timed[i];
            const bool is_near = timed[i]->times.median <= timed[0]->times.median * near;
            if (!in && (pass != 1 || (is_near && search_differs(&s->space, list, m, timed[i])))) list[m++] = timed[i];
        }
    return m;
}

static Trial *finals(Cx *cx, Search *s, Trial **timed, int64_t n, Trial *incumbent) {
    Contest *c = NEW(cx->a, Contest);
    Trial *list[FINALISTS];
    c->s = s;
    c->n = s->final.finalists = finalists(s, timed, n, list);
    const bool has = incumbent && incumbent->fate == FATE_TIMED;
    for (int i = 0; i < c->n; i++) {
        c->in[i].t = list[i];
        if (has && list[i] == incumbent) c->base = i;
    }
    if (has && c->in[c->base].t != incumbent) c->base = c->n - 1, c->in[c->base].t = incumbent; /* the last place */
    Cx own = {.a = cx->a, .stop = cx->stop};
    Err err = OK;
    for (int i = 0; i < c->n; i++) c->in[i].t->finalist = true;
    for (int i = 0; i < c->n && !err; i++) err = build(&own, c, i);
    s->final.before = dev_state(s->dev);
    if (!err) err = rounds(&own, c);
    s->final.after = dev_state(s->dev);
    if (err) { /* their first times stand */
        s->note = arena_printf(cx->a, "the finalists could not be compared: %s", own.first ? own.first->msg : "");
        s->final.finalists = 0;
        return timed[0];
    }
    Trial *winner = settle(c, has);
    if (has && winner != incumbent && !holds(cx, s, winner, incumbent)) s->final.vetoed = true, winner = incumbent;
    for (int i = 0; i < c->n; i++) {
        Entrant *e = &c->in[i];
        e->made.times = e->t->times;
        e->made.verdict.worst = e->t->worst;
        search_record(cx, s, e->t, STAGE_FINAL, &e->made);
    }
    return winner;
}

Trial *search_finals(Cx *cx, Search *s, Trial **timed, int64_t n, Trial *incumbent) {
    Trial *winner = finals(cx, s, timed, n, incumbent);
    bed_one_place(s->bed);
    return winner;
}

Err search_pair(Cx *cx, Search *s, Trial *a, Trial *b, double *ratio, double *least) {
    Contest *c = NEW(cx->a, Contest);
    *c = (Contest){.s = s, .n = 2, .base = 1, .in = {{.t = a}, {.t = b}}};
    Err err = search_here(cx, s);
    for (int i = 0; i < c->n && !err; i++) err = build(cx, c, i);
    if (!err) err = rounds(cx, c);
    bed_one_place(s->bed);
    if (err) return err;
    *ratio = exp(ratio_of(c, 0).mean);
    *least = detectable(c);
    return OK;
}
