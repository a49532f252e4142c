/* Trials to the store as they happen, and back when a search is resumed. Trouble with the store ends the remembering,
 * never the search. */
#include "search.h"

#include <string.h>

static const char *const efforts[] = {"estimate", "measure", "exhaustive", "recall"};

const char *effort_text(Effort e) {
    return efforts[e];
}

static void give_up(Cx *cx, Search *s, const Cx *own) {
    s->store = NULL;
    s->note = arena_printf(cx->a, "what is found from here on is not remembered: %s [%s]",
                           own->first ? own->first->msg : "", own->first ? slug_text(own->first->slug) : "");
}

void search_record(Cx *cx, Search *s, const Trial *t, Stage stage, const Attempt *a) {
    if (!s->store) return;
    Arena *tmp = arena_sub(cx->a);
    Cx own = {.a = tmp};
    Buf plan = buf_new(tmp), facts = buf_new(tmp), demand = buf_new(tmp);
    plan_print(&t->plan, &plan);
    demand_json(&t->demand, &demand);
    const Facts *f = &a->facts;
    buf_fmt(&facts,
            "{\"registers\":%d,\"local_bytes\":%d,\"shared_bytes\":%d,\"groups_per_unit\":%d,\"code_bytes\":%d,"
            "\"global_loads\":%d,\"load_ns\":%lld}",
            f->registers, f->local_bytes, f->shared_bytes, f->groups_per_unit, f->code_bytes, f->global_loads,
            (long long)f->load_ns);
    bool ok = t->fate == FATE_TIMED;
    StoreTrial row = {.seed = s->seed,
                      .plan = plan.s,
                      .effort = efforts[s->effort],
                      .stage = stage,
                      .slug = ok ? "" : slug_text(t->slug),
                      .why = ok ? "" : t->why,
                      .unit_sha = a->unit_sha,
                      .facts = facts.s,
                      .demand = demand.s,
                      .nsamples = a->times.n,
                      .calls = a->times.calls,
                      .median_ns = ok ? a->times.median : 0,
                      .checked = a->verdict.checked,
                      .bad = a->verdict.bad,
                      .worst = a->verdict.worst,
                      .compile_ns = f->compile_ns,
                      .from_cache = f->from_cache};
    _Static_assert(sizeof row.sample_ns == sizeof a->times.ns, "a store keeps all samples");
    memcpy(row.sample_ns, a->times.ns, sizeof a->times.ns);
    if (store_add(&own, s->store, &s->key, &row))
        give_up(cx, s, &own);
    else
        s->nrecorded++;
    arena_free(tmp);
}

/* Failures of the plan itself stay failures; those of the moment (no memory, no compiler, a full disk) are tried anew.
 */
static bool lasting(const char *slug, Slug *out) {
    Err e = slug_find(slug, out) ? slug_err(*out) : ERR_IO;
    return e == ERR_REFUSED || e == ERR_BUILD || e == ERR_LAUNCH || e == ERR_WRONG || e == ERR_INTERNAL;
}

bool search_resume(Cx *cx, Search *s, Trial *t, const char *unit_sha) {
    if (!s->store || !s->resume) return false;
    Arena *tmp = arena_sub(cx->a);
    Cx own = {.a = tmp};
    Buf plan = buf_new(tmp);
    StoreTrial row;
    bool found = false;
    plan_print(&t->plan, &plan);
    if (store_find(&own, s->store, &s->key, s->seed, plan.s, unit_sha, &found, &row)) give_up(cx, s, &own);
    if (found && *row.slug) {
        found = lasting(row.slug, &t->slug);
        if (found) t->fate = FATE_FAILED, t->why = arena_printf(cx->a, "%s", row.why);
    } else if (found) {
        t->fate = FATE_TIMED;
        t->times =
            (Times){.n = row.nsamples < COUNT(t->times.ns) ? row.nsamples : COUNT(t->times.ns), .calls = row.calls};
        memcpy(t->times.ns, row.sample_ns, sizeof(double) * (size_t)t->times.n);
        times_sort(&t->times);
    }
    if (found) {
        t->resumed = true;
        t->worst = row.worst, t->compile_ns = row.compile_ns, t->from_cache = row.from_cache;
        s->nresumed++;
    }
    arena_free(tmp);
    return found;
}

/* ---- recall ---- */

/* A remembered plan serves only where every pin is as it was asked. */
static bool pinned(Cx *cx, const Search *s, const Plan *plan) {
    Space space;
    Plan same;
    Buf a = buf_new(cx->a), b = buf_new(cx->a);
    if (!s->pin) return true;
    if (space_of_plan(cx, plan, &space) || space_pin(cx, s->pb, s->pin, &space) || space_count(&space) != 1)
        return false;
    space_at(&space, 0, &same);
    plan_print(plan, &a);
    plan_print(&same, &b);
    return str_eq(a.s, b.s);
}

Trial *search_remembered(Cx *cx, Search *s) {
    Wisdom *w = NULL;
    int n = 0;
    Cx own = {.a = cx->a};
    if (!s->store) return NULL;
    if (wisdom_near(&own, s->store, &s->key, &w, &n)) give_up(cx, s, &own);
    if (!n || w[0].distance != 0) return NULL;
    for (int64_t i = 0; i < s->ntrials; i++) {
        Buf b = buf_new(cx->a);
        plan_print(&s->trial[i].plan, &b);
        if (s->trial[i].fate == FATE_RANKED && str_eq(b.s, w[0].plan)) return &s->trial[i];
    }
    return NULL;
}

Err search_recall(Cx *cx, Search *s) {
    Wisdom *w = NULL;
    int n = 0;
    s->recall.how = "estimate";
    s->recall.why = "nothing is remembered of this problem or one near it";
    Cx own = {.a = cx->a};
    if (s->store && wisdom_near(&own, s->store, &s->key, &w, &n)) give_up(cx, s, &own);
    for (int i = 0; i < n; i++) {
        Cx judge = {.a = cx->a};
        Plan *plan = NEW(cx->a, Plan);
        Err err = plan_read(&judge, w[i].plan, plan);
        if (!err) err = plan_check(&judge, s->pb, plan, NULL, NULL);
        if (err) {
            s->recall.why = arena_printf(cx->a, "the plan remembered for %s is not legal here: %s", w[i].shape,
                                         judge.first ? judge.first->msg : "");
        } else if (!pinned(&judge, s, plan)) {
            s->recall.why = "what is remembered does not meet the pins";
        } else {
            s->only = plan;
            s->recall = (Recall){.how = w[i].distance == 0 ? "exact" : "nearest", .from = w[i], .why = ""};
            return OK;
        }
    }
    return OK;
}
