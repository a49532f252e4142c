/* What a kern takes of its machine, counted again: the slots of a lane by asking every element for its owner, the life
 * of a stripe from the instructions that touch it, memory of a group, widths of accesses and of groups. */
#include "walk.h"

enum { ENUMERATE = 4096 };

/* Elements of the busiest lane out of n: element e belongs to lane e / V mod W. */
static int64_t slots_of(const Audit *u, int64_t n) {
    int W = plan_lanes(&u->k->plan), V = u->k->plan.V;
    int64_t chunk = (int64_t)W * V, whole = n / chunk, part = n % chunk, most = 0;
    if (n > ENUMERATE || W > 16 * 1024) return whole * V + (part < V ? part : V);
    int own[16 * 1024] = {0}; /* kern_verify: W is at most 1,024, a cluster 16 */
    for (int64_t e = 0; e < n; e++) {
        int lane = (int)(e / V % W);
        most = i64_max(most, ++own[lane]);
    }
    return most;
}

typedef struct Life {
    int first, last; /* sweeps */
    int64_t slots;   /* f32 slots of a lane */
    bool hold, once; /* once: filled for all rows of a group, so that it never ends */
} Life;

/* A stripe whose life leaves a loop lives through all rounds of it. */
static void whole_loops(const Audit *u, Life *l) {
    for (int w = 0; w < u->nsweeps; w++) {
        int loop = u->at[u->k->node[u->sweep_node[w]].i0].loop;
        bool in = w >= l->first && w <= l->last;
        if (loop < 0 || !in || u->k->node[u->sweep_node[w]].i0 == u->k->node[u->sweep_node[w]].i1) continue;
        int from = w, to = w;
        while (from > 0 && u->at[u->k->node[u->sweep_node[from - 1]].i0].loop == loop) from--;
        while (to + 1 < u->nsweeps && u->at[u->k->node[u->sweep_node[to + 1]].i0].loop == loop) to++;
        if (l->first < from) l->last = to > l->last ? to : l->last;
        if (l->last > to) l->first = from < l->first ? from : l->first;
    }
}

/* Does each row put into the stripe what it has just loaded? Then rows that come later may have a part of their own. */
static bool comes_from_memory(const Audit *u, int stripe) {
    bool loads = false;
    for (int i = 0; i < u->k->nins; i++) {
        const Ins *in = &u->k->ins[i];
        if (in->k == K_PUT && in->imm == stripe)
            loads |= u->k->ins[in->a[1]].k == K_LOADP && !u->k->node[u->at[i].node].once;
    }
    return loads;
}

static Err life_of(Audit *u, int stripe, Life *l) {
    const Kern *k = u->k;
    const Stripe *s = &k->stripe[stripe];
    *l = (Life){-1, -1, 0, true, false};
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        bool mine = s->home == HOLD_OUTPUT
                        ? (in->k == K_STOREP || in->k == K_STORE1 || in->k == K_LOADP || in->k == K_LOAD1) &&
                              in->param == s->param
                        : (in->k == K_PUT || in->k == K_GET) && in->imm == stripe;
        if (!mine) continue;
        if (l->first < 0) l->first = u->at[i].sweep;
        l->last = u->at[i].sweep;
        l->once |= u->k->node[u->at[i].node].once;
    }
    bool same = l->first == s->first && (s->home == HOLD_OUTPUT ? l->last >= s->last : l->last == s->last);
    if (!same)
        FIND(S_AUDIT_LIFE, "stripe %d lives from sweep %d to %d, the kern says %d to %d", stripe, l->first, l->last,
             s->first, s->last);
    if (s->home == HOLD_OUTPUT) return OK;
    const Domain *d = &k->domain[s->domain];
    int64_t bytes;
    if (!mul_fits(slots_of(u, d->n_mapped), d->n_serial, &bytes) || !mul_fits(bytes, ty_bytes(s->ty), &bytes))
        FIND(S_AUDIT_BUDGET, "stripe %d: its slots cannot be counted", stripe);
    if (s->home == HOLD_SHARED)
        u->out->shared_bytes += d->n_serial * ceil_div(d->n_mapped, plan_groups(&k->plan)) * ty_bytes(s->ty) *
                                k->plan.P * (comes_from_memory(u, stripe) ? 1 + k->plan.ahead : 1);
    else
        l->slots = (bytes + 3) / 4;
    return OK;
}

static Err stripes_check(Audit *u) {
    const Kern *k = u->k;
    Life *life = NEWN(u->cx->a, Life, k->nstripes + 1);
    for (int s = 0; s < k->nstripes; s++) {
        Err e = life_of(u, s, &life[s]);
        if (e) return e;
        u->out->all_slots += life[s].slots;
        whole_loops(u, &life[s]);
    }
    for (int w = 0; w < u->nsweeps; w++) {
        int64_t now = 0;
        for (int s = 0; s < k->nstripes; s++)
            if (life[s].first <= w && (w <= life[s].last || life[s].once)) now += life[s].slots;
        u->out->live_slots = i64_max(u->out->live_slots, now);
    }
    int64_t need = u->summed_budget ? u->out->all_slots : u->out->live_slots, budget = u->caps->stripe_slots;
    if (u->caps->row_buffer_bytes) need *= 4ll * k->plan.W, budget = u->caps->row_buffer_bytes;
    if (need > budget)
        FIND(S_AUDIT_BUDGET, "stripes need %lld of %lld %s: %lld slots a lane", (long long)need, (long long)budget,
             u->caps->row_buffer_bytes ? "bytes a row" : "slots a lane", (long long)u->out->live_slots);
    if (k->stripes.live < u->out->live_slots || k->stripes.sum < u->out->all_slots)
        FIND(S_AUDIT_BUDGET, "%lld slots live and %lld in all, the plan was charged %lld and %lld",
             (long long)u->out->live_slots, (long long)u->out->all_slots, (long long)k->stripes.live,
             (long long)k->stripes.sum);
    return OK;
}

/* Joins between subgroups exchange one partial a subgroup; those of a group of rows stand side by side. */
static Err shared_check(Audit *u) {
    const Kern *k = u->k;
    int64_t subgroups = ceil_div(k->plan.W, k->subgroup) + (k->plan.cluster > 1 ? k->plan.cluster : 0), most = 0,
            now = 0;
    for (int i = 0; i < k->nins; i++) {
        KOp op = k->ins[i].k;
        bool join = op == K_JOIN || op == K_JOIN2 || op == K_JOIN2I;
        now = join ? now + subgroups * ty_bytes(k->ins[i].ty) * k->plan.P : 0;
        if (op == K_PASS && k->ins[i].imm != PASS_SPLITS)
            now = pass_count(k, k->ins[i].imm) * ty_bytes(k->ins[i].ty) * k->plan.P *
                  (i && k->ins[i - 1].k == K_PASS ? 2 : 1);
        most = i64_max(most, now);
    }
    if (subgroups > 1 && u->caps->kind != KIND_HOST) u->out->shared_bytes += most;
    if (u->caps->kind != KIND_HOST && u->out->shared_bytes > u->caps->shared_bytes)
        FIND(S_AUDIT_SHARED, "%lld bytes of a group, of %lld", (long long)u->out->shared_bytes,
             (long long)u->caps->shared_bytes);
    return OK;
}

static Err widths_check(Audit *u) {
    const Kern *k = u->k;
    const Caps *c = u->caps;
    if (k->plan.W > c->max_lanes || (int64_t)k->plan.W * k->plan.P > c->max_group ||
        (k->plan.cluster > 1 && (k->plan.cluster > c->max_cluster || k->plan.P > 1)) || k->subgroup != c->subgroup)
        FIND(S_AUDIT_GROUP, "W=%d P=%d cluster=%d subgroup=%d on a machine of %d lanes, groups of %d, subgroups of %d",
             k->plan.W, k->plan.P, k->plan.cluster, k->subgroup, c->max_lanes, c->max_group, c->subgroup);
    for (int i = 0; i < k->nins && c->max_pack_bytes; i++) {
        const Ins *in = &k->ins[i];
        if ((in->k != K_LOADP && in->k != K_STOREP) || in->a[1] >= 0) continue;
        int bytes = k->plan.V * ty_bytes(u->prog->param[in->param].ty);
        if (bytes > c->max_pack_bytes)
            FIND(S_AUDIT_GROUP, "%s: %d bytes at once of %d", ins_text(u, i), bytes, c->max_pack_bytes);
    }
    return OK;
}

Err audit_resources(Audit *u) {
    Err e = stripes_check(u);
    if (!e) e = shared_check(u);
    if (!e) e = widths_check(u);
    return e;
}
