/* A kern of a ranged shape -> its kern at one extent: sizes are worked out again, and the slot of the extent becomes a
 * constant. */
#include "kern.h"

int kern_extent(const Kern *k) {
    int param = prog_extent(k->prog, &k->shape);
    return param < 0 ? -1 : k->abi.scalar[param];
}

bool domain_ranged(const Kern *k, const Domain *d) {
    int axis = shape_ranged(&k->shape);
    return axis >= 0 && d->mapped >> axis & 1;
}

int64_t domain_others(const Kern *k, const Domain *d) {
    return d->n_mapped / k->shape.n[shape_ranged(&k->shape)];
}

const Kern *kern_at(Cx *cx, const Kern *k, int64_t n) {
    int axis = shape_ranged(&k->shape), slot = kern_extent(k);
    if (axis < 0) return k;
    const int64_t most = k->shape.n[axis];
    Kern *at = arena_dup(cx->a, k, sizeof *k);
    at->shape = shape_at(&k->shape, n);
    at->ins = arena_dup(cx->a, k->ins, sizeof *k->ins * (size_t)k->nins);
    at->node = arena_dup(cx->a, k->node, sizeof *k->node * (size_t)k->nnodes);
    for (int i = 0; i < k->ndomains; i++) {
        Domain *d = &at->domain[i];
        if (d->serial >> axis & 1) d->n_serial = d->n_serial / most * n;
        if (d->mapped >> axis & 1) d->n_mapped = d->n_mapped / most * n;
    }
    for (int i = 0; i < k->nnodes; i++) {
        Node *nd = &at->node[i];
        if (nd->ranged) nd->count = nd->count / most * n, nd->ranged = false;
    }
    for (int i = 0; i < k->nins; i++) {
        Ins *in = &at->ins[i];
        if (in->k != K_SLOT || in->imm != slot) continue;
        in->k = K_CONST, in->imm = 0;
        in->c = (Num){.i = n};
    }
    return at;
}

int kern_extents(const Kern *k, int64_t n[MAX_EXTENTS]) {
    int axis = shape_ranged(&k->shape), found = 0;
    if (axis < 0) return n[0] = -1, 1;
    const int64_t least = k->shape.least[axis], most = k->shape.n[axis];
    const int64_t step = (int64_t)plan_lanes(&k->plan) * k->plan.V * k->plan.flight;
    const int64_t want[MAX_EXTENTS] = {least, step - 1, step, step + 1, most - 1, most};
    for (int i = 0; i < MAX_EXTENTS; i++) {
        bool seen = want[i] < least || want[i] > most;
        for (int j = 0; j < found; j++) seen |= n[j] == want[i];
        if (!seen) n[found++] = want[i];
    }
    return found;
}
