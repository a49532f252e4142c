/* The rules of tail=head-shift, and by how much rows are shifted. */
#include "legal.h"

/* Do the elements of the mapped axes lie side by side in the parameter, whatever strides its rows have? */
static bool side_by_side(const Problem *pb, int q, uint32_t mapped) {
    const Param *p = &pb->prog->param[q];
    int before = -1, found = 0;
    bool rows = false;
    if (pb->strided >> q & 1) return false;
    for (int d = 0; d < p->rank; d++) {
        const int axis = p->axis[d];
        const bool row = pb->prog->row_axes >> axis & 1;
        rows |= row;
        if (mapped >> axis & 1) {
            if (before > axis || (found && !(mapped >> p->axis[d - 1] & 1))) return false;
            before = axis;
            found++;
        } else if (found && (row || pb->shape.n[axis] != 1)) {
            return false;
        }
    }
    return rows && found == __builtin_popcount(mapped);
}

static bool is_read(const Prog *p, int q) {
    for (int v = 0; v < p->nvals; v++)
        if (p->val[v].op == OP_LOAD && p->val[v].param == q && val_in_place(p, &p->val[v])) return true;
    return false;
}

int plan_shifts(const Problem *pb, const Plan *plan, uint32_t mapped, int *param) {
    const Prog *p = pb->prog;
    *param = -1;
    if (!mapped) return 0;
    for (int o = 0; o < p->nouts && *param < 0; o++)
        if (side_by_side(pb, p->out[o].param, mapped)) *param = p->out[o].param;
    for (int q = 0; q < p->nparams && *param < 0; q++)
        if (p->param[q].dir == DIR_IN && is_read(p, q) && side_by_side(pb, q, mapped)) *param = q;
    if (*param < 0) return 0;
    const int64_t line = pb->caps.cache_line / ty_bytes(p->param[*param].ty);
    int most = 1;
    while (most * 2 <= line && most * 2 <= plan->W) most *= 2;
    return most;
}

Err plan_check_shift(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    int domain = -1, param;
    if (plan->tail != TAIL_HEAD_SHIFT) return OK;
    if (shape_ranged(&pb->shape) >= 0)
        return diag(cx, S_PLAN_RANGED, NOWHERE, "guarded", "tail=head-shift: N is given at launch");
    if (plan->V > 1 || plan->W == 1 || sc->stat == STAT_ONLINE || sc->stat == STAT_WELFORD)
        return diag(cx, S_PLAN_HEAD_SHIFT, NOWHERE, "V=1, W above 1, stat=two-pass or shifted",
                    "tail=head-shift with V=%d W=%d stat=%s", plan->V, plan->W, stat_text(sc->stat));
    for (int i = 0; i < sc->nsweeps; i++) {
        const Domain *d = &sc->domain[sc->sweep[i].domain];
        if (d->serial || (d->mapped && domain >= 0 && domain != sc->sweep[i].domain))
            return diag(cx, S_PLAN_HEAD_SHIFT, NOWHERE, NULL, "tail=head-shift: sweep %d %s", i,
                        d->serial ? "is looped over axes" : "goes over other elements than the one before it");
        if (d->mapped) domain = sc->sweep[i].domain;
    }
    const int64_t n = domain < 0 ? 0 : sc->domain[domain].n_mapped, step = (int64_t)plan->W * plan->flight;
    if (n < step)
        return diag(cx, S_PLAN_HEAD_SHIFT, NOWHERE, NULL, "tail=head-shift: N=%lld least=%lld, W=%d flight=%d",
                    (long long)n, (long long)step, plan->W, plan->flight);
    if (!plan_shifts(pb, plan, sc->domain[domain].mapped, &param))
        return diag(cx, S_PLAN_HEAD_SHIFT, NOWHERE, NULL,
                    "tail=head-shift: no tensor with rows has the elements side by side");
    return OK;
}
