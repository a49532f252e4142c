/* Prog -> which additions take a product in (contract=on). It follows from the program alone, so that a row's bits do
 * not depend on which sweep computes a value, or on what is held. */
#include "pass.h"

static bool adds_up(const Val *v) {
    return v->op == OP_RED && v->red == RED_SUM && v->policy == POLICY_TREE;
}

/* A product that nothing else needs, of as many elements as what takes it: one that is the same for many of them is
 * better multiplied once. */
static bool is_taken(const Prog *p, const int *uses, const Val *by, int val) {
    const Val *v = &p->val[val];
    const uint32_t elements = v->axes & ~p->row_axes;
    const bool keeps = v->hold != HOLD_AUTO && v->hold != HOLD_RECOMPUTE;
    if (v->op != OP_MUL || v->ty != by->ty || !ty_is_float(v->ty) || uses[val] != 1 || keeps) return false;
    return adds_up(by) ? !(by->over & ~elements) : elements == (by->axes & ~p->row_axes);
}

const int *pass_contracts(Cx *cx, const Prog *p) {
    int *uses = NEWN(cx->a, int, p->nvals + 1), *takes = NEWN(cx->a, int, p->nvals + 1), dep[MAX_DEPS];
    for (int v = 0; v < p->nvals; v++)
        for (int n = val_deps(p, &p->val[v], dep), i = 0; i < n; i++) uses[dep[i]]++;
    for (int o = 0; o < p->nouts; o++) uses[p->out[o].val]++;
    for (int v = 0; v < p->nvals; v++) {
        const Val *x = &p->val[v];
        const int operands = adds_up(x) ? 1 : x->op == OP_ADD || x->op == OP_SUB ? 2 : 0;
        takes[v] = -1;
        for (int i = 0; i < operands && takes[v] < 0; i++)
            if (is_taken(p, uses, x, x->a[i])) takes[v] = i;
    }
    return takes;
}
