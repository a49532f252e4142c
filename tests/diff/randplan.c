/* Problem, numbers -> a legal Plan: all dimensions drawn alike, then judged as any plan is. */
#include "randplan.h"

enum { TRIES = 60, MOST_LANES = 1024 };

static int draw(const Caps *c, Rng *r, int d) {
    const DimInfo *info = dim_info(d);
    const int v = info->legal[rng_int(r, info->nlegal)];
    switch (d) { /* what the machine lacks is not worth a draw */
    case DIM_load: return c->has_keep ? v : LOAD_PLAIN;
    case DIM_store: return c->has_stream_store ? v : STORE_PLAIN;
    case DIM_prefetch:
    case DIM_threads: return c->kind == KIND_HOST ? v : 0;
    case DIM_stagger: return c->kind == KIND_HOST && !rng_int(r, 3) ? v : 0;
    case DIM_early: return c->kind == KIND_CUDA ? v : c->kind == KIND_METAL ? v == EARLY_ON : 0;
    case DIM_overlap: return c->kind == KIND_CUDA ? v : 0;
    case DIM_exp:
        return v != EXP_FAST || c->kind == KIND_HOST || (c->kind == KIND_CUDA && !c->poly_math) ? v : EXP_EXACT;
    case DIM_contract: return c->kind == KIND_HOST && c->isa == ISA_PORTABLE ? 0 : v;
    case DIM_cluster: return c->kind == KIND_CUDA && c->max_cluster > 1 && !rng_int(r, 6) ? v : 1;
    case DIM_segments: return c->kind != KIND_HOST && !rng_int(r, 4) ? v : 0;
    case DIM_stages: return c->kind == KIND_CUDA && !rng_int(r, 4) ? v : 0;
    case DIM_split:
    case DIM_min_groups: return info->def;
    case DIM_grid: return c->kind != KIND_HOST && !rng_int(r, 4) ? info->legal[rng_int(r, 3)] : 0;
    case DIM_ahead: return c->kind == KIND_CUDA && !rng_int(r, 3) ? v : 0;
    case DIM_W: return rng_int(r, 2) ? 1 << rng_int(r, 8) : v; /* most rows are short: wide plans are mostly tail */
    case DIM_stat: return rng_int(r, 2) ? v : STAT_TWO_PASS;
    case DIM_tail: return rng_int(r, c->kind == KIND_HOST ? 6 : 8) ? TAIL_GUARDED : v;
    case DIM_acc:
    case DIM_flight:
    case DIM_V: return rng_int(r, 2) ? v : info->legal[0];
    default: return v;
    }
}

static void draw_holds(Cx *cx, const Problem *pb, Rng *r, Plan *plan) {
    Sched *sc = NEW(cx->a, Sched);
    Cx own = {.a = cx->a};
    if (sched_make(&own, pb->prog, &pb->shape, problem_spread(pb, plan), plan->grid != 0, plan->fuse, (Stat)plan->stat,
                   0, sc) != OK)
        return;
    const int bias = rng_int(r, 3); /* few, some or many kept */
    for (int i = 0; i < sc->ncands; i++) {
        const Cand *c = &sc->cand[i];
        const bool narrow = c->load && ty_is_float(c->storage) && ty_bytes(c->storage) < 4;
        Hold h = c->load ? HOLD_RELOAD : HOLD_RECOMPUTE;
        if (rng_int(r, 3) < bias + (bias == 0 && !rng_int(r, 3))) h = HOLD_REGISTER;
        if (h == HOLD_REGISTER && narrow && rng_int(r, 2)) h = HOLD_REGISTER32;
        if (c->output >= 0 && rng_int(r, 3) == 0) h = HOLD_OUTPUT;
        if (pb->caps.shared_bytes && rng_int(r, 4) == 0) h = HOLD_SHARED;
        if (c->pinned != HOLD_AUTO) h = c->pinned;
        plan->hold[plan->nholds].name = c->name;
        plan->hold[plan->nholds++].hold = h;
    }
}

Plan randplan(Cx *cx, const Problem *pb, Rng *r, int *draws) {
    for (int t = 0; t < TRIES; t++) {
        Plan p = plan_default();
        for (int d = 0; d < DIM_COUNT; d++) *plan_dim(&p, d) = draw(&pb->caps, r, d);
        if (p.cluster > 1) p.P = 1, p.W = (p.W + pb->caps.subgroup - 1) / pb->caps.subgroup * pb->caps.subgroup;
        if (p.cluster == 1) p.exchange = EXCHANGE_BARRIER;
        if (p.grid && p.ahead && !p.stages) p.stages = 1 + rng_int(r, 4);
        if (!p.grid || !p.stages) p.ahead = 0;
        if (p.grid && p.overlap == OVERLAP_FETCH) p.overlap = OVERLAP_ON;
        if (p.tail == TAIL_HEAD_SHIFT && pb->caps.kind == KIND_HOST &&
            rng_int(r, 8)) { /* else it is hardly ever legal */
            p.V = 1, p.flight = 1 + rng_int(r, 2), p.stat = rng_int(r, 2) ? STAT_SHIFTED : STAT_TWO_PASS;
            p.W = 2 << rng_int(r, 6);
        }
        draw_holds(cx, pb, r, &p);
        for (int i = 0; i < p.nholds && p.ahead; i++)
            if (p.hold[i].hold == HOLD_RELOAD) p.hold[i].hold = HOLD_SHARED;
        ++*draws;
        Cx own = {.a = cx->a};
        if (plan_check(&own, pb, &p, NULL, NULL) == OK) return p;
    }
    Plan p = plan_default(); /* a plain one, of as few lanes as hold the row */
    p.V = 1;
    for (p.W = 1; p.W < MOST_LANES; p.W *= 2) {
        Cx own = {.a = cx->a};
        if (plan_check(&own, pb, &p, NULL, NULL) == OK) break;
    }
    return p;
}
