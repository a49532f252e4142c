/* Space -> trials, each judged, and the legal ones ranked by the cost policy. */
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { ESTIMATE_LIMIT = 100000 };

Launch search_launch(const Problem *pb, const Plan *plan) {
    int64_t rows = 1;
    for (int i = 0; i < pb->prog->naxes; i++)
        if (pb->prog->row_axes >> i & 1) rows *= pb->shape.n[i] < 0 ? 1 : pb->shape.n[i];
    return (Launch){.rows = rows,
                    .lanes = plan->W,
                    .subgroup = pb->caps.subgroup,
                    .rows_per_group = plan->P,
                    .groups_per_row = plan_groups(plan),
                    .split = plan->split > 1,
                    .bytes = plan->cluster > 1 && plan->exchange == EXCHANGE_BYTES,
                    .resident = plan->grid,
                    .pack = plan->V,
                    .flight = plan->flight,
                    .prefetch = plan->prefetch,
                    .stagger = plan->stagger != 0,
                    .stream = plan->store == STORE_STREAM,
                    .shifted = plan->tail == TAIL_HEAD_SHIFT,
                    .overlap = plan->overlap != OVERLAP_OFF,
                    .queued = plan->overlap == OVERLAP_ON,
                    .brought = plan->overlap == OVERLAP_FETCH};
}

void search_failed(Cx *cx, Trial *t, Fate fate, const Cx *own) {
    t->fate = fate;
    t->slug = own->first ? own->first->slug : S_INTERNAL;
    t->why = own->first ? arena_printf(cx->a, "%s", own->first->msg) : "";
}

static int by_score(const void *x, const void *y) {
    const Trial *const *a = x, *const *b = y;
    if ((*a)->score.total != (*b)->score.total) return (*a)->score.total < (*b)->score.total ? -1 : 1;
    return *a < *b ? -1 : *a > *b; /* ties keep the space's order, so that the same question has the same answer */
}

/* What plans ask for that differ only in how they are spelt or launched: it is counted once. */
typedef struct Counted {
    Plan as;
    Demand all, half; /* half: of a range's half */
} Counted;
typedef struct Counts {
    Counted **made;
    int n, cap;
    int64_t extent; /* half of a range, or 0 */
} Counts;

static Plan counted_as(const Plan *plan) {
    static const int uncounted[] = {DIM_U,       DIM_load,     DIM_store,   DIM_min_groups,
                                    DIM_overlap, DIM_prefetch, DIM_stagger, DIM_threads};
    Plan as = *plan;
    for (int i = 0; i < COUNT(uncounted); i++) *plan_dim(&as, uncounted[i]) = dim_info(uncounted[i])->def;
    return as;
}

static Err count_one(Cx *cx, const Search *s, Counts *c, const Plan *plan, Cx *own, const Counted **out) {
    const Plan as = counted_as(plan);
    for (int i = c->n - 1; i >= 0; i--)
        if (plan_equal(&c->made[i]->as, &as)) return *out = c->made[i], OK;
    Kern *k;
    Err err = kern_lower(own, s->pb, plan, &k);
    if (err) return err;
    Counted *x = NEW(cx->a, Counted);
    x->as = as;
    kern_count(own, k, &x->all);
    if (c->extent) kern_count(own, kern_at(own, k, c->extent), &x->half);
    GROW(cx->a, c->made, c->n, c->cap);
    c->made[c->n++] = x;
    *out = x;
    return OK;
}

double search_over_range(const Shape *s, double whole, double half) {
    return 0.75 * whole + 0.25 * half * (double)s->n[shape_ranged(s)] / (double)shape_half(s);
}

/* The demand shown is that of the largest extent. */
static Err score_range(const Search *s, Trial *t, const Demand *half, int64_t extent, const Launch *l, Cx *own) {
    Score at;
    Err err = cost_score(own, s->policy, half, &s->pb->caps, l, s->coef, &at);
    if (err) return err;
    const double share = at.total * (double)s->pb->shape.n[shape_ranged(&s->pb->shape)] / (double)extent;
    score_add(&t->score, "half the extent, twice", t->score.nterms ? t->score.term[0].unit : "", share);
    t->score.total = search_over_range(&s->pb->shape, t->score.total, at.total);
    return OK;
}

static Err score_one(Cx *cx, Search *s, Counts *c, Trial *t, Cx *own) {
    const Counted *counted;
    Err err = count_one(cx, s, c, &t->plan, own, &counted);
    Launch l = search_launch(s->pb, &t->plan);
    if (s->bed && s->bed->cold) l.copies = bed_copies(s->pb);
    if (!err) t->demand = counted->all;
    if (!err) err = cost_score(own, s->policy, &t->demand, &s->pb->caps, &l, s->coef, &t->score);
    if (!err && c->extent) err = score_range(s, t, &counted->half, c->extent, &l, own);
    if (err)
        search_failed(cx, t,
                      slug_err(own->first ? own->first->slug : S_INTERNAL) == ERR_REFUSED ? FATE_REFUSED : FATE_FAILED,
                      own);
    else
        t->fate = FATE_RANKED;
    return err;
}

static Err make_space(Cx *cx, Search *s) {
    Err err = s->only ? space_of_plan(cx, s->only, &s->space) : space_default(cx, s->pb, &s->space);
    if (!err && s->open && !s->only) err = space_open(cx, s->pb, s->open, &s->space);
    if (!err && s->joint && !s->only) err = space_open(cx, s->pb, s->joint, &s->space);
    if (!err && s->pin) err = space_pin(cx, s->pb, s->pin, &s->space);
    return err;
}

Err search_judge(Cx *cx, Search *s, Trial ***ranked, int64_t *nranked) {
    Entry *entry;
    int64_t n, nlegal, limit = s->effort == EFFORT_EXHAUSTIVE && s->max_candidates ? s->max_candidates : ESTIMATE_LIMIT;
    Err err = make_space(cx, s);
    if (!err) err = space_list(cx, s->pb, &s->space, s->joint ? ESTIMATE_LIMIT : limit, &entry, &n, &nlegal);
    if (err) return err;
    s->trial = NEWN(cx->a, Trial, n + 1);
    s->ntrials = n;
    Trial **list = NEWN(cx->a, Trial *, n + 1);
    Counts counts = {.extent = shape_half(&s->pb->shape)};
    *nranked = 0;
    for (int64_t i = 0; i < n; i++) {
        Trial *t = &s->trial[i];
        t->plan = entry[i].plan;
        if (!entry[i].legal) {
            t->fate = FATE_REFUSED, t->slug = entry[i].refused, t->why = entry[i].why;
        } else {
            Arena *a = arena_sub(cx->a); /* a candidate's own, so that thousands do not add up */
            Cx own = {.a = a};
            if (!score_one(cx, s, &counts, t, &own)) list[(*nranked)++] = t;
            arena_free(a);
        }
        s->nrefused += t->fate == FATE_REFUSED;
        s->nfailed += t->fate == FATE_FAILED;
    }
    qsort(list, (size_t)*nranked, sizeof *list, by_score);
    for (int64_t i = 0; i < *nranked; i++) list[i]->place = i + 1;
    *ranked = list;
    if (*nranked) return OK;
    const Trial *t = n ? &s->trial[0] : NULL;
    if (n == 1) return diag(cx, t->slug, NOWHERE, NULL, "%s", t->why); /* an exact request: its own reason */
    return diag(cx, S_SEARCH_NONE, NOWHERE, t ? slug_hint(t->slug) : NULL,
                "none of %lld plans is legal (%s); the first is refused with %s: %s", (long long)n,
                search_reasons(cx, s), t ? slug_text(t->slug) : "", t ? t->why : "");
}

const char *search_reasons(Cx *cx, const Search *s) {
    int64_t count[SLUG_COUNT] = {0};
    Buf b = buf_new(cx->a);
    for (int64_t i = 0; i < s->ntrials; i++)
        if (s->trial[i].fate == FATE_REFUSED || s->trial[i].fate == FATE_FAILED) count[s->trial[i].slug]++;
    for (;;) {
        int most = 0;
        for (int i = 1; i < SLUG_COUNT; i++)
            if (count[i] > count[most]) most = i;
        if (!count[most]) return b.n ? b.s : "";
        buf_fmt(&b, "%s%s=%lld", b.n ? "," : "", slug_text((Slug)most), (long long)count[most]);
        count[most] = 0;
    }
}
