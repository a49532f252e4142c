/* The chosen plan -> kern, demand, source text, module. Whether registers spill is known only when a plan is built:
 * where nothing was run to choose it, the next of the ranking takes its place then, as in a search. An exact request
 * has no next, and keeps its own error. */
#include "drive.h"

enum { MOST_BUILT = 16 };
static const int64_t long_enough_ns = 60000000000;

static Err realize_best(Cx *cx, const Request *q, Made *m) {
    const Trial *best = &m->search.trial[m->search.best];
    Err err = attempt_lower(cx, &m->pb, &best->plan, &m->kern);
    if (err) return err;
    kern_count(cx, m->kern, &m->demand);
    m->score = best->score;
    err = attempt_spell(cx, &m->pb, m->kern, &m->unit);
    if (err || !q->dev) return err;
    m->unit.fresh = effort_runs(q->effort);
    return mod_build(cx, q->dev, &m->unit, &m->mod);
}

static Trial *after(Search *s, const Trial *t) { /* in the ranking */
    for (int64_t i = 0; i < s->ntrials; i++)
        if (s->trial[i].place == t->place + 1) return &s->trial[i];
    return NULL;
}

/* What is remembered of a neighbour need not be built here. */
static Err estimate_instead(Cx *cx, Search *s, const char *why) {
    const char *shape = s->recall.from.shape;
    s->only = NULL;
    s->effort = EFFORT_ESTIMATE;
    Err err = search_run(cx, s);
    s->effort = EFFORT_RECALL;
    s->recall = (Recall){.how = "estimate",
                         .why = arena_printf(cx->a, "the plan remembered for %s is not built here: %s", shape, why)};
    return err;
}

Err realize(Cx *cx, const Request *q, Made *m) {
    Search *s = &m->search;
    const int64_t until = t_now_ns() + long_enough_ns;
    const Diag *first = NULL;
    if (effort_runs(q->effort)) return realize_best(cx, q, m);
    for (int built = 1;; built++) {
        Cx own = {.a = cx->a, .stop = cx->stop};
        Err err = realize_best(&own, q, m);
        if (!err) return OK;
        if (!first) first = own.first;
        const bool plans = err == ERR_BUILD || err == ERR_REFUSED; /* is it this plan's fault? */
        const Diag *d = plans ? first : own.first;
        Trial *t = &s->trial[s->best], *next = after(s, t);
        if (plans && s->only) {
            err = estimate_instead(cx, s, first->msg);
            if (err) return err;
        } else if (plans && next && built < MOST_BUILT && t_now_ns() < until) {
            search_failed(cx, t, FATE_FAILED, &own);
            s->nfailed++;
            s->best = next - s->trial;
            s->note = arena_printf(cx->a, "the plan is number %lld of the ranking: the first is not built, %s [%s]",
                                   (long long)next->place, first->msg, slug_text(first->slug));
        } else {
            const char *more = "";
            if (built > 1 && plans)
                more = arena_printf(cx->a, "; and so on for the next %d plan%s", built - 1, plural(built - 1));
            return diag(cx, d->slug, d->at, d->accept, "%s%s", d->msg, more);
        }
    }
}
