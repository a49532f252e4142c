/* Kern -> where each instruction stands: its node, loop and sweep, the coordinates it has, whether it ever runs. */
#include "walk.h"

bool axis_is_row(const Audit *u, int axis) {
    return u->prog->row_axes >> axis & 1;
}

int64_t axes_extent(const Audit *u, uint32_t axes) {
    int64_t n = 1;
    for (int i = 0; i < u->prog->naxes; i++)
        if (axes >> i & 1) n *= u->s->n[i];
    return n;
}

uint32_t axes_wide(const Audit *u, uint32_t axes) {
    for (int i = 0; i < u->prog->naxes; i++)
        if (u->s->n[i] == 1 && !axis_is_row(u, i)) axes &= ~(1u << i);
    return axes;
}

bool segments_of(const Audit *u, int sweep, int lanes, uint32_t *first) {
    int domain = u->k->node[sweep].domain;
    int64_t inner = 1, want = (int64_t)lanes * u->k->plan.V;
    *first = domain >= 0 ? u->k->domain[domain].mapped : 0;
    for (int a = u->prog->naxes - 1; a >= 0 && inner < want; a--) {
        if (!(*first >> a & 1)) continue;
        inner *= u->s->n[a];
        *first &= ~(1u << a);
    }
    return inner == want;
}

bool segment_axes(const Audit *u, int i, uint32_t *first) {
    return segments_of(u, u->at[i].node, u->k->ins[i].lanes, first);
}

const char *ins_text(const Audit *u, int i) {
    const Ins *in = &u->k->ins[i];
    return arena_printf(u->cx->a, "%%%d %s%s%s", i, kop_info(in->k)->text, in->param >= 0 ? " " : "",
                        in->param >= 0 ? u->prog->param[in->param].name : "");
}

void ins_sources(const Audit *u, int i, bool *marks) {
    marks[i] = true;
    for (int x = i; x >= 0; x--) { /* operands come first */
        if (!marks[x]) continue;
        int at[3];
        for (int n = ins_operands(&u->k->ins[x], at), j = 0; j < n; j++)
            if (u->k->ins[x].a[at[j]] >= 0) marks[u->k->ins[x].a[at[j]]] = true;
    }
}

/* Serial axes that a loop goes over: those of the index spaces in it; none where it only starts row values. */
static Err axes_of_loop(Audit *u, int loop) {
    const Kern *k = u->k;
    uint32_t axes = 0;
    for (int n = k->node[loop].child; n >= 0; n = k->node[n].next) {
        if (k->node[n].domain < 0) continue;
        uint32_t serial = k->domain[k->node[n].domain].serial;
        if (axes && serial != axes)
            FIND(S_AUDIT_DOMAIN, "node %d goes over other serial axes than its loop %d", n, loop);
        axes = serial;
    }
    if (axes && axes_extent(u, axes) != k->node[loop].count)
        FIND(S_AUDIT_DOMAIN, "loop %d goes round %lld times, its axes have %lld points", loop,
             (long long)k->node[loop].count, (long long)axes_extent(u, axes));
    u->loop_axes[loop] = axes;
    return OK;
}

static Err walk_nodes(Audit *u, int first, int loop, bool runs) {
    const Kern *k = u->k;
    for (int n = first; n >= 0; n = k->node[n].next) {
        const Node *nd = &k->node[n];
        if (nd->kind == NODE_LOOP) {
            Err e = axes_of_loop(u, n);
            if (!e) e = walk_nodes(u, nd->child, n, runs && nd->count > 0);
            if (e) return e;
            continue;
        }
        const Domain *d = nd->domain >= 0 ? &k->domain[nd->domain] : NULL;
        bool sweep = nd->kind == NODE_SWEEP;
        if (d && (axes_extent(u, d->serial) != d->n_serial || axes_extent(u, d->mapped) != d->n_mapped))
            FIND(S_AUDIT_DOMAIN, "node %d: %lld points of %lld elements are not what its axes have", n,
                 (long long)d->n_serial, (long long)d->n_mapped);
        if (d && axes_wide(u, d->serial) && loop < 0)
            FIND(S_AUDIT_DOMAIN, "node %d has serial axes and stands in no loop", n);
        if (sweep) u->sweep_node[u->nsweeps++] = n;
        for (int i = nd->i0; i < nd->i1; i++)
            u->at[i] = (Where){.node = n,
                               .loop = loop,
                               .sweep = sweep ? u->nsweeps - 1 : -1,
                               .axes = (loop >= 0 ? u->loop_axes[loop] : 0) | (sweep && d ? d->mapped : 0),
                               .runs = runs && (!sweep || !d || d->n_mapped > 0)};
    }
    return OK;
}

Err audit_walk(Audit *u) {
    const Kern *k = u->k;
    u->at = NEWN(u->cx->a, Where, k->nins);
    u->loop_axes = NEWN(u->cx->a, uint32_t, k->nnodes);
    u->sweep_node = NEWN(u->cx->a, int, k->nnodes);
    return walk_nodes(u, k->root, -1, true);
}

bool read_in_part(const Audit *u, int param) {
    const Prog *p = u->prog;
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        if (v->op != OP_LOAD || v->param != param || val_in_place(p, v)) continue;
        for (int d = 0; d < p->param[param].rank; d++)
            if (p->val[v->idx[d]].op == OP_CONST) return true;
    }
    return false;
}
