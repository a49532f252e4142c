/* Ranked trials -> who is tried, and in which order. Every strategy is deterministic: the same space, seed and
 * measurements give the same choice. */
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURE_DEFAULT = 32, JOINT_DEFAULT = 256, BEAM = 4 };

static void choose(Picks *p, Trial *t) {
    bool *chosen = &p->chosen[t - p->s->trial];
    if (*chosen || p->n == p->most) return;
    *chosen = true;
    p->queue[p->n++] = t;
}

/* ---- exhaustive: as ranked ---- */

static Err choose_ranked(Cx *cx, Picks *p) {
    (void)cx;
    for (int64_t i = 0; i < p->nranked; i++) choose(p, p->ranked[i]);
    return OK;
}

/* ---- staged: the best by each choice of the space first; then the ranking as their times correct it ---- */

enum { FIRST = 4, A_ROUND = 4, LAST = 4, SWEEPS = 12 };
/* Of an effect, in trials that would say that there is none; of one that a choice has with some number of lanes. */
static const double shrink = 0.3, cross_shrink = 0.5;

/* What a plan chose for one dimension or hold that the space leaves open. */
static int choice(const Space *s, int c, const Plan *plan) {
    return c < DIM_COUNT ? plan_dim_get(plan, c) : (int)plan_hold(plan, s->hold_name[c - DIM_COUNT]);
}

static int choices(const Space *s) {
    return DIM_COUNT + s->nholds;
}

static bool alike(const Space *s, int c, const Trial *a, const Trial *b) {
    return choice(s, c, &a->plan) == choice(s, c, &b->plan);
}

bool search_differs(const Space *s, Trial *const *list, int64_t n, const Trial *t) {
    for (int c = 0; c < choices(s); c++) {
        bool seen = false;
        for (int64_t i = 0; i < n && !seen; i++) seen = alike(s, c, list[i], t);
        if (!seen) return true;
    }
    return false;
}

/* Two dimensions that depend on each other. */
typedef struct Couple {
    int a, b;
} Couple;
/* Lanes with the width of an access and with packs in flight (on an H200, 10 % were lost at 23x769 where no such pair
 * was tried, and 6 % by rmsnorm at 1024x4096, soonest by 512 lanes with both of their packs in flight); rows that are
 * swept together with prefetching, which pays where they are not (12 % of a layernorm at 1024x4096 on one core). */
static const Couple couples[] = {{DIM_stagger, DIM_prefetch}, {DIM_W, DIM_V}, {DIM_W, DIM_flight}};

/* Of the two dimensions; without: of all homes, of which one value's pays only with another's (on an H200 softmax
 * 128x8193 is soonest, by 5 %, where it both reads and computes again, for then its registers leave room for the next
 * launch), by one statistic, for another has other sweeps, and values that this one has not. */
static bool same_kind(const Space *s, const Couple *of, const Trial *a, const Trial *b) {
    if (of) return alike(s, of->a, a, b) && alike(s, of->b, a, b);
    bool same = alike(s, DIM_stat, a, b);
    for (int c = DIM_COUNT; c < choices(s) && same; c++) same = alike(s, c, a, b);
    return same;
}

/* The best of each that is not the same as any before, while less than so many eighths of the budget are chosen. */
static void choose_each(Picks *p, int eighths, const Couple *of) {
    const Space *s = &p->s->space;
    for (int64_t i = 0; i < p->nranked && 8 * p->n < eighths * p->most; i++) {
        bool seen = false;
        for (int64_t k = 0; k < i && !seen; k++) seen = same_kind(s, of, p->ranked[k], p->ranked[i]);
        if (!seen) choose(p, p->ranked[i]);
    }
}

/* The best few, and the best with each value of each dimension: so that every choice is seen at work once. */
static void choose_spread(Picks *p) {
    const Space *s = &p->s->space;
    for (int64_t i = 0; i < p->nranked && i < FIRST; i++) choose(p, p->ranked[i]);
    for (int64_t i = 0; i < p->nranked; i++)
        if (search_differs(s, p->ranked, i, p->ranked[i])) choose(p, p->ranked[i]);
    for (int i = 0; i < COUNT(couples); i++) choose_each(p, 4, &couples[i]);
    if (s->nholds > 1) choose_each(p, 5, NULL);
}

/* Times against scores, as effects of choices: log(time / score) of a plan is taken for a sum over what it chose, and
 * over what it chose together with its number of lanes. What few trials say of a choice is shrunk towards nothing.
 * Solved by going round the choices. */
enum { MOST_EFFECTS = 2 * (DIM_COUNT + MAX_CANDS) };
typedef struct Effects {
    double mean;
    int n, *value[MOST_EFFECTS]; /* the values seen of each choice, and what each adds; then those with lanes */
    double *adds[MOST_EFFECTS];
    int nvalues[MOST_EFFECTS];
} Effects;

/* A choice, or what stands for one and the number of lanes together. */
static int seen_value(const Space *s, int c, const Plan *plan) {
    const int n = choices(s);
    return c < n ? choice(s, c, plan) : choice(s, DIM_W, plan) << 16 | choice(s, c - n, plan);
}

/* Does it say anything? With lanes only what both vary in. */
static bool speaks(const Effects *e, const Space *s, int c) {
    const int n = choices(s);
    if (c < n) return e->nvalues[c] > 1;
    return c - n != DIM_W && e->nvalues[DIM_W] > 1 && e->nvalues[c - n] > 1;
}

static double *effect(Effects *e, int c, int value) {
    for (int i = 0; i < e->nvalues[c]; i++)
        if (e->value[c][i] == value) return &e->adds[c][i];
    return NULL;
}

static double foretold(Effects *e, const Space *s, const Trial *t) {
    double x = e->mean;
    for (int c = 0; c < e->n; c++) {
        const double *add = effect(e, c, seen_value(s, c, &t->plan));
        if (add) x += *add;
    }
    return x;
}

static Effects learn(Cx *cx, const Picks *p) {
    const Space *s = &p->s->space;
    Effects e = {.n = 2 * choices(s)};
    double *y = NEWN(cx->a, double, p->at + 1);
    int64_t n = 0;
    Trial **t = NEWN(cx->a, Trial *, p->at + 1);
    for (int64_t i = 0; i < p->at; i++) {
        Trial *q = p->queue[i];
        if (q->fate != FATE_TIMED || !(q->score.total > 0)) continue;
        y[n] = log(q->times.median / q->score.total), t[n++] = q;
    }
    for (int c = 0; c < e.n; c++) {
        e.value[c] = NEWN(cx->a, int, n + 1), e.adds[c] = NEWN(cx->a, double, n + 1);
        for (int64_t i = 0; i < n; i++)
            if (!effect(&e, c, seen_value(s, c, &t[i]->plan)))
                e.value[c][e.nvalues[c]++] = seen_value(s, c, &t[i]->plan);
    }
    for (int sweep = 0; sweep < SWEEPS && n; sweep++) {
        double rest = 0;
        for (int64_t i = 0; i < n; i++) rest += y[i] - foretold(&e, s, t[i]);
        e.mean += rest / (double)n;
        for (int c = 0; c < e.n; c++) {
            if (!speaks(&e, s, c)) continue;
            for (int v = 0; v < e.nvalues[c]; v++) {
                double sum = 0, count = 0;
                for (int64_t i = 0; i < n; i++)
                    if (seen_value(s, c, &t[i]->plan) == e.value[c][v]) sum += y[i] - foretold(&e, s, t[i]), count++;
                const double towards = c < choices(s) ? shrink : cross_shrink;
                e.adds[c][v] = (sum + count * e.adds[c][v]) / (count + towards);
            }
        }
    }
    return e;
}

/* Neighbours in a dimension of numbers are those with no other value of the space between them; words and homes have no
 * order, so that each is a neighbour of each. */
static bool one_step(const Space *s, int d, int a, int b) {
    if (dim_info(d)->word) return true;
    for (int i = 0; i < s->n[d]; i++)
        if (s->value[d][i] > (a < b ? a : b) && s->value[d][i] < (a < b ? b : a)) return false;
    return true;
}

static bool neighbours(const Space *s, const Plan *a, const Plan *b) {
    int differ = 0;
    for (int d = 0; d < DIM_COUNT && differ < 2; d++) {
        const int x = plan_dim_get(a, d), y = plan_dim_get(b, d);
        if (x == y) continue;
        if (!one_step(s, d, x, y)) return false;
        differ++;
    }
    for (int i = 0; i < a->nholds && differ < 2; i++) differ += plan_hold(b, a->hold[i].name) != a->hold[i].hold;
    return differ == 1;
}

static Trial *fastest(const Picks *p) {
    Trial *best = NULL;
    for (int64_t i = 0; i < p->at; i++) {
        Trial *t = p->queue[i];
        if (t->fate == FATE_TIMED && (!best || t->times.median < best->times.median)) best = t;
    }
    return best;
}

/* What the corrected ranking has next; at last only of the neighbours of the fastest, of which a sum of effects may
 * say too little, where it has any that were not tried. */
static Err choose_staged(Cx *cx, Picks *p) {
    const Space *s = &p->s->space;
    if (!p->at) return choose_spread(p), OK;
    Effects e = learn(cx, p);
    const Trial *of = p->most - p->n <= LAST ? fastest(p) : NULL;
    for (int k = 0; k < A_ROUND; k++) {
        Trial *best = NULL;
        double least = INFINITY;
        bool near = false;
        for (int64_t i = 0; i < p->nranked; i++) {
            Trial *t = p->ranked[i];
            if (p->chosen[t - p->s->trial]) continue;
            const bool is_near = of && neighbours(s, &of->plan, &t->plan);
            const double x = log(fmax(t->score.total, 1e-300)) + foretold(&e, s, t);
            if (is_near >= near && (!best || is_near > near || x < least)) best = t, least = x, near = is_near;
        }
        if (best) choose(p, best);
    }
    return OK;
}

/* ---- random: any of the legal ones, by the seed ---- */

static Err choose_random(Cx *cx, Picks *p) {
    Rng r = {p->s->seed};
    Trial **list = arena_dup(cx->a, p->ranked, sizeof *list * (size_t)p->nranked);
    for (int64_t left = p->nranked; left > 0; left--) {
        const int64_t i = (int64_t)(rng_u64(&r) % (uint64_t)left);
        choose(p, list[i]);
        list[i] = list[left - 1];
    }
    return OK;
}

/* ---- beam: from the best known to its neighbours ---- */

static int by_time(const void *x, const void *y) {
    const Trial *const *a = x, *const *b = y;
    if ((*a)->times.median != (*b)->times.median) return (*a)->times.median < (*b)->times.median ? -1 : 1;
    return *a < *b ? -1 : *a > *b;
}

/* The best of the ranking first; then, round after round, the neighbours of the fastest few, in the ranking's order. */
static Err choose_beam(Cx *cx, Picks *p) {
    if (!p->at) {
        for (int64_t i = 0; i < p->nranked && i < BEAM; i++) choose(p, p->ranked[i]);
        return OK;
    }
    Trial **timed = NEWN(cx->a, Trial *, p->at + 1);
    int64_t n = 0;
    for (int64_t i = 0; i < p->at; i++)
        if (p->queue[i]->fate == FATE_TIMED) timed[n++] = p->queue[i];
    qsort(timed, (size_t)n, sizeof(Trial *), by_time);
    for (int64_t i = 0; i < p->nranked; i++)
        for (int64_t k = 0; k < n && k < BEAM; k++)
            if (neighbours(&p->s->space, &timed[k]->plan, &p->ranked[i]->plan)) choose(p, p->ranked[i]);
    return OK;
}

/* ---- joint: the best plan of every combination of the dimensions that were named ---- */

/* Of values without a choice in the space nothing is asked. */
static bool has_choice(const Space *s, const char *hold) {
    for (int i = 0; i < s->nholds; i++)
        if (str_eq(s->hold_name[i], hold)) return s->nhold[i] > 1;
    return false;
}

static bool joint_names(const char *joint, const char *name, size_t n, bool hold) {
    Item it;
    while (item_next(&joint, &it)) {
        const char *h;
        size_t m;
        const bool is = item_hold(&it, &h, &m);
        if (is != hold) continue;
        if (!is) h = it.name, m = it.nname;
        if ((m == n && memcmp(h, name, n) == 0) || (is && m == 1 && *h == '*')) return true;
    }
    return false;
}

static bool same_cell(const Search *s, const Plan *a, const Plan *b) {
    const char *joint = s->joint;
    for (int d = 0; d < DIM_COUNT; d++) {
        const char *name = dim_info(d)->name;
        if (plan_dim_get(a, d) != plan_dim_get(b, d) && joint_names(joint, name, strlen(name), false)) return false;
    }
    for (int i = 0; i < a->nholds; i++) {
        const char *name = a->hold[i].name;
        if (plan_hold(b, name) != a->hold[i].hold && has_choice(&s->space, name) &&
            joint_names(joint, name, strlen(name), true))
            return false;
    }
    return true;
}

static Err choose_joint(Cx *cx, Picks *p) {
    int64_t cells = 0;
    const int64_t limit = p->s->max_candidates ? p->s->max_candidates : JOINT_DEFAULT;
    for (int64_t i = 0; i < p->nranked; i++) {
        bool known = false;
        for (int64_t k = 0; k < p->n && !known; k++) known = same_cell(p->s, &p->queue[k]->plan, &p->ranked[i]->plan);
        if (known) continue;
        cells++;
        choose(p, p->ranked[i]);
    }
    if (cells > limit)
        return diag(cx, S_PLAN_SPACE, NOWHERE, NULL, "combinations=%lld limit=%lld", (long long)cells,
                    (long long)limit);
    return OK;
}

/* ---- the table ---- */

static const struct Strategy {
    const char *name;
    Err (*choose)(Cx *cx, Picks *p); /* adds to the queue; nothing added: it is at its end */
    bool learns;                     /* from what was tried: called again and again */
} strategies[] = {{"staged", choose_staged, true},
                  {"exhaustive", choose_ranked, false},
                  {"random", choose_random, false},
                  {"beam", choose_beam, true}};
static const struct Strategy joint = {"joint", choose_joint, false};

static const struct Strategy *by_name(const char *name) {
    for (int i = 0; i < COUNT(strategies); i++)
        if (str_eq(strategies[i].name, name)) return &strategies[i];
    return NULL;
}

Err strategy_check(Cx *cx, Search *s) {
    const bool all = s->effort == EFFORT_EXHAUSTIVE;
    if (s->joint && s->strategy)
        return diag(cx, S_SEARCH_STRATEGY, NOWHERE, "one of both",
                    "strategy %.40s, where every combination is asked for", s->strategy);
    if (s->joint) return s->strategy = joint.name, OK;
    if (!s->strategy) return s->strategy = all ? "exhaustive" : "staged", OK;
    if (!by_name(s->strategy))
        return diag(cx, S_SEARCH_STRATEGY, NOWHERE, "staged exhaustive random beam", "there is no strategy %.40s",
                    s->strategy);
    if (all && !str_eq(s->strategy, "exhaustive"))
        return diag(cx, S_SEARCH_STRATEGY, NOWHERE, "effort measure", "strategy %.40s with effort exhaustive",
                    s->strategy);
    if (str_eq(s->strategy, "exhaustive")) s->effort = EFFORT_EXHAUSTIVE;
    return OK;
}

Err picks_new(Cx *cx, Search *s, Trial **ranked, int64_t nranked, Trial *first, Picks *out) {
    int64_t most = s->max_candidates ? s->max_candidates : MEASURE_DEFAULT;
    if (s->effort == EFFORT_EXHAUSTIVE || s->joint || most > nranked) most = nranked;
    *out = (Picks){.s = s,
                   .ranked = ranked,
                   .nranked = nranked,
                   .most = most,
                   .queue = NEWN(cx->a, Trial *, most + 1),
                   .chosen = NEWN(cx->a, bool, s->ntrials + 1)};
    if (first && !s->joint) choose(out, first);
    return (s->joint ? &joint : by_name(s->strategy))->choose(cx, out);
}

Trial *picks_next(Cx *cx, Picks *p, bool settled) {
    const struct Strategy *g = p->s->joint ? &joint : by_name(p->s->strategy);
    if (p->at == p->n && g->learns && settled) (void)g->choose(cx, p);
    return p->at < p->n ? p->queue[p->at++] : NULL;
}

int picks_guess(Cx *cx, const Picks *p, Trial **out, int most) {
    const struct Strategy *g = p->s->joint ? &joint : by_name(p->s->strategy);
    int n = 0;
    if (!g->learns || p->at < p->n) return 0;
    Picks own = *p;
    own.queue = arena_dup(cx->a, p->queue, sizeof *own.queue * (size_t)(p->most + 1));
    own.chosen = arena_dup(cx->a, p->chosen, sizeof *own.chosen * (size_t)(p->s->ntrials + 1));
    (void)g->choose(cx, &own);
    for (int64_t i = p->n; i < own.n && n < most; i++) out[n++] = own.queue[i];
    return n;
}
