/* The rules about a group's on-chip memory: what it keeps there, what asynchronous copies bring there, and, in a group
 * that takes many rows, for which of them. */
#include "legal.h"

/* Bytes of the accesses by which asynchronous copies bring the candidate into on-chip memory; 0: they do not. */
static int copied_bytes(const Problem *pb, const Plan *plan, const Sched *sc, const Cand *c) {
    int q = c->load ? prog_param(pb->prog, c->name) : -1;
    if (!plan->stages || q < 0 || plan_hold_of(plan, c) != HOLD_SHARED || pb->strided >> q & 1) return 0;
    return plan_piece(pb->prog, &pb->shape, plan->V, q, sc->domain[c->domain].mapped) * ty_bytes(c->storage);
}

static bool is_copied(const Problem *pb, const Plan *plan, const Sched *sc, const Cand *c) { /* row by row */
    return !c->once && copied_bytes(pb, plan, sc, c) >= 4;
}

/* What lanes keep in on-chip memory: whole chunks, so that every lane's part has one size. Where lanes meet nowhere
 * else, a join needs two buffers of 16 bytes a lane there. */
Err plan_check_shared(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    enum { EXCHANGE = 4096 }; /* left to joins */
    bool here = pb->caps.kind == KIND_OPENCL && pb->caps.subgroup == 1 && plan->W > 1;
    int64_t need = 0, chunk = (int64_t)plan->W * plan->V, exchange = here ? 32ll * plan->W * plan->P : EXCHANGE;
    for (int i = 0; i < sc->ncands; i++) {
        const Cand *c = &sc->cand[i];
        const Domain *d = &sc->domain[c->domain];
        int64_t bytes;
        if (plan_hold_of(plan, c) != HOLD_SHARED) continue;
        if (!mul_fits(ceil_div(plan_reserved(pb, plan, d), chunk * plan_groups(plan)) * chunk, d->n_serial, &bytes) ||
            !mul_fits(bytes, ty_bytes(c->storage) * plan->P, &bytes))
            bytes = STRIPE_MOST;
        need += i64_min(bytes, STRIPE_MOST) * (is_copied(pb, plan, sc, c) ? plan->ahead + 1 : 1);
    }
    if ((!need && !here) || need + exchange <= pb->caps.shared_bytes) return OK;
    return diag(cx, S_PLAN_SHARED, NOWHERE, NULL,
                "hold=shared: need=%lld + %lld budget=%lld bytes a group: W=%d V=%d P=%d cluster=%d", (long long)need,
                (long long)exchange, (long long)pb->caps.shared_bytes, plan->W, plan->V, plan->P, plan->cluster);
}

/* Copies past the registers are for inputs that are held in on-chip memory, and of 4, 8 or 16 bytes. */
Err plan_check_stages(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    int most = 0, inputs = 0, shared = 0;
    const char *name = "NAME";
    for (int i = 0; i < sc->ncands && plan->stages; i++) {
        const Cand *c = &sc->cand[i];
        if (!c->load) continue;
        inputs++, name = c->name;
        shared += plan_hold_of(plan, c) == HOLD_SHARED;
        most = (int)i64_max(most, copied_bytes(pb, plan, sc, c));
    }
    if (plan->stages && shape_ranged(&pb->shape) >= 0)
        return diag(cx, S_PLAN_RANGED, NOWHERE, "0", "stages=%d: which copies there are depends on the extent of %s",
                    plan->stages, pb->prog->axis[shape_ranged(&pb->shape)].name);
    if (!plan->stages || most >= 4) return OK;
    if (!inputs)
        return diag(cx, S_PLAN_STAGES, NOWHERE, "0",
                    "stages=%d with stat=%s: no input is read in two sweeps, so none is held in on-chip memory",
                    plan->stages, stat_text(sc->stat));
    if (!shared)
        return diag(cx, S_PLAN_STAGES, NOWHERE, arena_printf(cx->a, "hold.%s=shared", name),
                    "stages=%d: no input is held in on-chip memory, where the copies would bring it", plan->stages);
    return diag(cx, S_PLAN_STAGES, NOWHERE, "hold=shared of a dense input, in accesses of 4 bytes or more",
                "stages=%d: the widest access of a dense input held in on-chip memory has %d byte%s", plan->stages,
                most, plural(most));
}

/* Groups that take many rows, and what they have under way for the next. The copies of a row are found by its number
 * alone, so none may be those of one of several serial points. */
Err plan_check_grid(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    bool copies = false, points = false;
    for (int i = 0; i < sc->ncands; i++) {
        if (!is_copied(pb, plan, sc, &sc->cand[i])) continue;
        copies = true;
        points |= sc->domain[sc->cand[i].domain].serial != 0;
    }
    if (plan->grid && (plan->overlap == OVERLAP_FETCH || plan->split > 1))
        return diag(cx, S_PLAN_GRID, NOWHERE, "overlap=late split=1",
                    "grid=%d with overlap=%s split=%d, which are for a group's one row", plan->grid,
                    dim_info(DIM_overlap)->word[plan->overlap], plan->split);
    if (plan->ahead && (!plan->grid || !copies || points))
        return diag(cx, S_PLAN_GRID, NOWHERE, "grid and stages above 0, and inputs of rows held in shared",
                    "ahead=%d with grid=%d stages=%d: %s", plan->ahead, plan->grid, plan->stages,
                    points        ? "copies of several serial points"
                    : !plan->grid ? "a group takes one row, and none follows"
                                  : "no row's inputs are copied");
    return OK;
}
