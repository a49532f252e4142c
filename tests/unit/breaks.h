/* Deliberate breaks of good kerns: each function changes one thing, and says whether it found the thing to change. */
#ifndef ROWFOLD_TEST_BREAKS_H
#define ROWFOLD_TEST_BREAKS_H

#include "../../src/gen/kern.h"

#include <string.h>

/* ---- editing ---- */

/* Puts an instruction before `at`, which stands in the same node. */
static inline int insert(Cx *cx, Kern *k, int at, Ins in) {
    GROW(cx->a, k->ins, k->nins, k->ins_cap);
    memmove(&k->ins[at + 1], &k->ins[at], sizeof(Ins) * (size_t)(k->nins - at));
    k->nins++;
    k->ins[at] = in;
    for (int i = 0; i < k->nins; i++)
        for (int j = 0; j < 3; j++)
            if (i != at && k->ins[i].a[j] >= at) k->ins[i].a[j]++;
    for (int n = 0; n < k->nnodes; n++) {
        if (k->node[n].kind == NODE_LOOP) continue;
        if (k->node[n].i0 > at) k->node[n].i0++;
        if (k->node[n].i1 > at) k->node[n].i1++;
    }
    return at;
}

/* Takes instruction `at` away; what used its value uses `instead`, which comes before it. */
static inline void take_out(Kern *k, int at, int instead) {
    memmove(&k->ins[at], &k->ins[at + 1], sizeof(Ins) * (size_t)(k->nins - at - 1));
    k->nins--;
    for (int i = 0; i < k->nins; i++)
        for (int j = 0; j < 3; j++)
            k->ins[i].a[j] = k->ins[i].a[j] == at ? instead : k->ins[i].a[j] > at ? k->ins[i].a[j] - 1 : k->ins[i].a[j];
    for (int n = 0; n < k->nnodes; n++) {
        if (k->node[n].kind == NODE_LOOP) continue;
        if (k->node[n].i0 > at) k->node[n].i0--;
        if (k->node[n].i1 > at) k->node[n].i1--;
    }
}

static inline int find(const Kern *k, KOp op, int nth) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == op && nth-- == 0) return i;
    return -1;
}

static inline int find_op(const Kern *k, Op op, int nth) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_OP && k->ins[i].op == op && nth-- == 0) return i;
    return -1;
}

static inline int find_node(const Kern *k, NodeKind kind, int nth) {
    for (int n = 0; n < k->nnodes; n++)
        if (k->node[n].kind == kind && nth-- == 0) return n;
    return -1;
}

static inline int const_before(Cx *cx, Kern *k, int at, Ty ty, Num c) {
    return insert(cx, k, at, (Ins){.k = K_CONST, .ty = ty, .a = {-1, -1, -1}, .param = -1, .c = c});
}

static inline int op_before(Cx *cx, Kern *k, int at, Op op, int x, int y) {
    Rank r = k->ins[x].rank > k->ins[y].rank ? k->ins[x].rank : k->ins[y].rank;
    return insert(cx, k, at, (Ins){.k = K_OP, .op = op, .ty = TY_I64, .rank = r, .a = {x, y, -1}, .param = -1});
}

/* Operand j of instruction i becomes itself (op) c. */
static inline bool bend(Cx *cx, Kern *k, int i, int j, Op op, int64_t c) {
    if (i < 0 || k->ins[i].a[j] < 0) return false;
    int x = k->ins[i].a[j], n = const_before(cx, k, i, TY_I64, (Num){.i = c});
    int y = op_before(cx, k, n + 1, op, x, n);
    k->ins[y + 1].a[j] = y;
    return true;
}

/* Operand j of instruction i becomes the constant c. */
static inline bool fix(Cx *cx, Kern *k, int i, int j, Num c) {
    if (i < 0) return false;
    Ty ty = k->ins[i].a[j] >= 0 ? k->ins[k->ins[i].a[j]].ty : TY_I64;
    int n = const_before(cx, k, i, ty, c);
    k->ins[n + 1].a[j] = n;
    return true;
}

/* ---- addresses ---- */

static inline bool base_off_by_one(Cx *cx, Kern *k) {
    return bend(cx, k, find(k, K_LOADP, 0), 0, OP_ADD, 1);
}
static inline bool base_before(Cx *cx, Kern *k) {
    return bend(cx, k, find(k, K_STOREP, 0), 0, OP_SUB, 1);
}
static inline bool base_doubled(Cx *cx, Kern *k) {
    return bend(cx, k, find(k, K_LOADP, 0), 0, OP_MUL, 2);
}
static inline bool base_of_first_row(Cx *cx, Kern *k) {
    return fix(cx, k, find(k, K_STOREP, 0), 0, (Num){.i = 0});
}
static inline bool stride_two(Cx *cx, Kern *k) {
    return fix(cx, k, find(k, K_LOADP, 0), 1, (Num){.i = 2});
}
static inline bool stride_nought(Cx *cx, Kern *k) {
    return fix(cx, k, find(k, K_STOREP, 0), 1, (Num){.i = 0});
}
static inline bool term_twice(Cx *cx, Kern *k) {
    int i = find(k, K_LOADP, 0);
    int y = op_before(cx, k, i, OP_ADD, k->ins[i].a[0], k->ins[i].a[0]);
    k->ins[y + 1].a[0] = y;
    return i >= 0;
}
static inline int stride_slot(const Kern *k, int param, int dim) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_SLOT && k->ins[i].imm == k->abi.stride[param][dim]) return i;
    return -1;
}
static inline bool stride_of_other(Cx *cx, Kern *k) {
    (void)cx;
    int i = stride_slot(k, k->ins[find(k, K_LOADP, 0)].param, 0);
    if (i < 0) return false;
    k->ins[i].imm = k->abi.stride[k->ins[find(k, K_STOREP, 0)].param][0];
    return true;
}
static inline bool extent_for_stride(Cx *cx, Kern *k) {
    (void)cx;
    int i = stride_slot(k, k->ins[find(k, K_LOADP, 0)].param, 0);
    for (int a = 0; a < MAX_AXES && i >= 0; a++)
        if (k->prog->row_axes >> a & 1) return k->ins[i].imm = k->abi.row[a], true;
    return false;
}
static inline bool load_other_param(Cx *cx, Kern *k) {
    (void)cx;
    int i = find(k, K_LOADP, 0), j = find(k, K_LOADP, 1);
    if (i < 0 || j < 0 || k->ins[i].param == k->ins[j].param) return false;
    return k->ins[i].param = k->ins[j].param, true;
}
static inline bool store_other_param(Cx *cx, Kern *k) {
    (void)cx;
    int i = find(k, K_STORE1, 0), j = find(k, K_STORE1, 1);
    if (i < 0 || j < 0) return false;
    return k->ins[i].param = k->ins[j].param, k->ins[i].a[0] = k->ins[j].a[0] < i ? k->ins[j].a[0] : k->ins[i].a[0],
           true;
}
static inline bool store_to_input(Cx *cx, Kern *k) {
    (void)cx;
    return k->ins[find(k, K_STOREP, 0)].param = k->ins[find(k, K_LOADP, 0)].param, true;
}
static inline bool store_dropped(Cx *cx, Kern *k) {
    return (void)cx, take_out(k, find(k, K_STOREP, 0), -1), true;
}
static inline bool row_divisor(Cx *cx, Kern *k) {
    (void)cx;
    int i = find_op(k, OP_DIV, 0);
    return i >= 0 && k->ins[k->ins[i].a[1]].k == K_SLOT && (k->ins[k->ins[i].a[1]].imm = k->abi.stride0, true);
}
static inline bool row_remainder(Cx *cx, Kern *k) {
    (void)cx;
    int i = find_op(k, OP_MOD, 0);
    return i >= 0 && (k->ins[i].op = OP_DIV, true);
}

/* ---- guards ---- */

static inline int gather(const Kern *k) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_LOAD1 && k->ins[i].a[1] >= 0) return i;
    return -1;
}
/* The comparison of the guard with this operator. */
static inline int guard_part(const Kern *k, int i, Op op) {
    const Ins *in = &k->ins[i];
    if (in->k != K_OP) return -1;
    if (in->op == op) return i;
    if (in->op != OP_AND) return -1;
    int x = guard_part(k, in->a[1], op);
    return x >= 0 ? x : guard_part(k, in->a[0], op);
}
static inline bool guard_dropped(Cx *cx, Kern *k) {
    (void)cx;
    int i = gather(k);
    return i >= 0 && (k->ins[i].a[1] = k->ins[i].a[2] = -1, true);
}
static inline bool guard_end(Cx *cx, Kern *k) {
    int i = guard_part(k, k->ins[gather(k)].a[1], OP_LT);
    return i >= 0 && bend(cx, k, i, 1, OP_ADD, 1);
}
static inline bool guard_start(Cx *cx, Kern *k) {
    int i = guard_part(k, k->ins[gather(k)].a[1], OP_GE);
    return i >= 0 && fix(cx, k, i, 1, (Num){.i = -1});
}
static inline bool guard_either(Cx *cx, Kern *k) {
    (void)cx;
    int i = k->ins[gather(k)].a[1];
    return k->ins[i].op == OP_AND && (k->ins[i].op = OP_OR, true);
}
static inline bool guard_of_other(Cx *cx, Kern *k) { /* of the index before 1 was added to it */
    (void)cx;
    int g = k->ins[gather(k)].a[1], lt = guard_part(k, g, OP_LT), x = lt < 0 ? -1 : k->ins[lt].a[0];
    return x >= 0 && k->ins[x].k == K_OP && k->ins[x].op == OP_ADD && (k->ins[lt].a[0] = k->ins[x].a[0], true);
}

/* ---- loops, index spaces ---- */

static inline bool serial_stride(Cx *cx, Kern *k) {
    int i = find(k, K_LOADP, 0), s = find(k, K_SERIAL, 0);
    if (s < 0) return false;
    int y = op_before(cx, k, i, OP_ADD, k->ins[i].a[0], s);
    return k->ins[y + 1].a[0] = y, true;
}
static inline bool serial_dropped(Cx *cx, Kern *k) {
    int s = find(k, K_SERIAL, 0);
    for (int i = s + 1; i < k->nins && s >= 0; i++)
        if (k->ins[i].k == K_OP && k->ins[i].a[0] == s) return fix(cx, k, i, 0, (Num){.i = 0});
    return false;
}
static inline bool round_more(Cx *cx, Kern *k) {
    return (void)cx, k->node[find_node(k, NODE_LOOP, 0)].count++, true;
}
static inline bool element_more(Cx *cx, Kern *k) {
    return (void)cx, k->domain[0].n_mapped++, true;
}
static inline bool other_domain(Cx *cx, Kern *k) {
    (void)cx;
    Node *n = &k->node[find_node(k, NODE_SWEEP, 0)];
    for (int d = 0; d < k->ndomains; d++)
        if (d != n->domain && k->domain[d].mapped && k->domain[d].mapped != k->domain[n->domain].mapped)
            return n->domain = d, true;
    return false;
}

/* ---- what is kept ---- */

static inline bool put_other(Cx *cx, Kern *k) {
    int p = find(k, K_PUT, 0), y = insert(cx, k, p,
                                          (Ins){.k = K_OP,
                                                .op = OP_ADD,
                                                .ty = k->ins[p].ty,
                                                .rank = RANK_ELEM,
                                                .a = {k->ins[p].a[1], k->ins[p].a[1], -1},
                                                .param = -1});
    return k->ins[y + 1].a[1] = y, true;
}
static inline bool put_again(Cx *cx, Kern *k) {
    int g = find(k, K_GET, 0);
    Ins put = k->ins[find(k, K_PUT, 0)];
    put.a[1] = const_before(cx, k, g, TY_F32, (Num){.f = 1});
    put.a[0] = k->ins[g + 1].a[0];
    return insert(cx, k, g + 1, put), true;
}
static inline bool get_early(Cx *cx, Kern *k) { /* the stripe is read in the sweep before the one that fills it */
    Ins put = k->ins[find(k, K_PUT, 0)];
    int g = find(k, K_GET, 0);
    put.a[1] = g;
    insert(cx, k, g + 1, put);
    take_out(k, find(k, K_PUT, 0), -1);
    return true;
}
static inline bool get_at_first(Cx *cx, Kern *k) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_GET && k->ins[i].a[0] >= 0) return fix(cx, k, i, 0, (Num){.i = 0});
    return false;
}
static inline bool put_next(Cx *cx, Kern *k) {
    int p = find(k, K_PUT, 0);
    return k->ins[p].a[0] >= 0 && bend(cx, k, p, 0, OP_ADD, 1);
}
static inline bool life_short(Cx *cx, Kern *k) {
    return (void)cx, k->stripe[0].last--, true;
}
static inline bool life_long(Cx *cx, Kern *k) {
    return (void)cx, k->stripe[0].first == 0 && (k->stripe[0].last = k->nsweeps - 1, true);
}
static inline bool stripe_uncharged(Cx *cx, Kern *k) {
    return (void)cx, k->stripes.live--, true;
}
static inline bool stripe_missing(Cx *cx, Kern *k) {
    return (void)cx, k->stripe[0].name = "other", true;
}
static inline bool stripe_of_state(Cx *cx, Kern *k) { /* what is kept is made of an accumulator on its way */
    int p = find(k, K_PUT, 0), cell = k->ins[find(k, K_FOLD, 0)].imm;
    int c = insert(cx, k, p,
                   (Ins){.k = K_CELL, .ty = TY_F32, .rank = RANK_PACK, .a = {-1, -1, -1}, .param = -1, .imm = cell});
    int y = insert(
        cx, k, c + 1,
        (Ins){.k = K_OP, .op = OP_ADD, .ty = TY_F32, .rank = RANK_ELEM, .a = {k->ins[c + 1].a[1], c, -1}, .param = -1});
    return k->ins[y + 1].a[1] = y, true;
}
static inline bool get_at_once(Cx *cx, Kern *k) { /* the only use of the stripe is in the sweep that fills it */
    int p = find(k, K_PUT, 0), load = k->ins[p].a[1];
    for (int g; (g = find(k, K_GET, 0)) >= 0;) { /* later sweeps load it again */
        Ins again = k->ins[load];
        k->ins[g] = again;
    }
    insert(cx, k, p + 1,
           (Ins){.k = K_GET,
                 .ty = k->ins[load].ty,
                 .rank = RANK_ELEM,
                 .a = {k->ins[p].a[0], -1, -1},
                 .param = -1,
                 .imm = k->ins[p].imm});
    k->stripe[k->ins[p].imm].last = k->stripe[k->ins[p].imm].first;
    return true;
}
static inline bool home_unfilled(Cx *cx, Kern *k) {
    return (void)cx, take_out(k, find(k, K_STOREP, 0), -1), true;
}
static inline bool
home_overwritten(Cx *cx, Kern *k) { /* the output's own value comes before the last look at what lives there */
    int last = -1;
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_LOADP && k->prog->param[k->ins[i].param].dir == DIR_OUT) last = i;
    if (last < 0) return false;
    Ins put = k->ins[find(k, K_STOREP, 0)];
    put.a[0] = k->ins[last].a[0];
    int c = const_before(cx, k, last, TY_F32, (Num){.f = 1});
    put.a[2] = c;
    return insert(cx, k, c + 1, put), true;
}
static inline bool inout_early(Cx *cx, Kern *k) { /* the parameter is written while later sweeps still read it */
    int l = find(k, K_LOADP, 0);
    Ins put = k->ins[find(k, K_STOREP, 0)];
    put.a[0] = k->ins[l].a[0], put.a[1] = k->ins[l].a[1], put.a[2] = l;
    return insert(cx, k, l + 1, put), true;
}

/* ---- the order of combination ---- */

static inline bool sum_from_one(Cx *cx, Kern *k) {
    (void)cx;
    int f = 0;
    while (k->ins[f].k != K_FOLD || k->ins[f].op != OP_ADD) f++;
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_INIT && k->ins[i].imm == k->ins[f].imm) return k->ins[i].c = (Num){.f = 1}, true;
    return false;
}
static inline bool max_from_zero(Cx *cx, Kern *k) {
    (void)cx;
    int i = find(k, K_INIT, 0);
    return k->ins[find(k, K_FOLD, 0)].op == OP_ATLEAST && (k->ins[i].c = (Num){.f = 0}, true);
}
static inline bool state_from_zero(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_INIT, 0)].c = (Num){.f = 0}, true;
}
static inline bool index_from_zero(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_INIT, 1)].c = (Num){.i = 0}, true;
}
static inline bool pack_from_one(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_PACKFOLD, 1)].c = (Num){.f = 1}, true;
}
static inline bool init_missing(Cx *cx, Kern *k) {
    return (void)cx, take_out(k, find(k, K_INIT, 0), -1), true;
}
static inline bool init_too_early(Cx *cx, Kern *k) { /* before the loop in which it is read */
    int i = find(k, K_INIT, 1);
    Ins in = k->ins[i];
    take_out(k, i, -1);
    return insert(cx, k, find(k, K_INIT, 0), in), true;
}
static inline bool merge_skipped(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_JOIN, 0)].a[0] = find(k, K_CELL, 0), true;
}
static inline bool merge_twice(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_CELL, 1)].acc = 0, true;
}
static inline bool merge_in_line(Cx *cx, Kern *k) { /* ((0 + 1) + 2) + 3 */
    (void)cx;
    int j = find(k, K_JOIN, 0), top = k->ins[j].a[0], c = find(k, K_CELL, 0);
    if (k->ins[c + 3].k != K_CELL) return false;
    k->ins[top - 2].a[0] = c, k->ins[top - 2].a[1] = c + 1;
    k->ins[top - 1].a[0] = top - 2, k->ins[top - 1].a[1] = c + 2;
    k->ins[top].a[0] = top - 1, k->ins[top].a[1] = c + 3;
    return true;
}
static inline bool join_other(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_JOIN, 1)].op = OP_MAX, true;
}
static inline bool join_dropped(Cx *cx, Kern *k) {
    return (void)cx, take_out(k, find(k, K_JOIN, 1), find(k, K_JOIN, 0)), true;
}
static inline bool acc_fewer(Cx *cx, Kern *k) {
    return (void)cx, k->plan.acc /= 2, true;
}
static inline bool cell_fewer(Cx *cx, Kern *k) {
    return (void)cx, k->cell[0].acc /= 2, true;
}
static inline bool fold_other(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_FOLD, 1)].op = OP_MUL, true;
}
static inline bool product_unrounded(Cx *cx, Kern *k) {
    return (void)cx, k->plan.contract = 0, true;
}
static inline bool fold_twice(Cx *cx, Kern *k) {
    int f = find(k, K_FOLD, 0);
    Ins in = k->ins[f];
    return insert(cx, k, f, in), true;
}
static inline bool fold_nothing(Cx *cx, Kern *k) {
    return (void)cx, take_out(k, find(k, K_FOLD, 0), -1), true;
}
static inline bool state_forgets(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_SETCELL, 0)].a[0] = find(k, K_PACKFOLD, 0), true;
}
static inline bool order_fixed(Cx *cx, Kern *k) {
    return (void)cx, k->plan.order = ORDER_FIXED, true;
}
static inline bool order_serial(Cx *cx, Kern *k) {
    return (void)cx, k->plan.order = ORDER_SERIAL, true;
}
static inline bool array_elsewhere(Cx *cx, Kern *k) { /* added to the place of another point */
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_ROWGET) return fix(cx, k, i, 0, (Num){.i = 0});
    return false;
}
static inline bool array_past_end(Cx *cx, Kern *k) {
    return (void)cx, k->array[0].n--, k->narrays > 0;
}
static inline bool stripe_from_one(Cx *cx, Kern *k) {
    return fix(cx, k, find(k, K_PUT, 0), 1, (Num){.f = 1});
}
static inline bool join_in_sweep(Cx *cx, Kern *k) {
    (void)cx;
    int n = 0, j = find(k, K_JOIN, 0);
    while (k->node[n].kind == NODE_LOOP || k->node[n].i0 > j || k->node[n].i1 <= j) n++;
    return k->node[n].kind = NODE_SWEEP, k->node[n].domain = 0, true;
}

/* ---- values: nothing is misplaced, and what comes out is wrong ---- */

static inline bool difference_turned(Cx *cx, Kern *k) {
    (void)cx;
    for (int i = 0; i < k->nins; i++) {
        Ins *in = &k->ins[i];
        if (in->k != K_OP || in->op != OP_SUB || in->ty != TY_F32 || in->rank != RANK_ELEM) continue;
        int x = in->a[0];
        return in->a[0] = in->a[1], in->a[1] = x, true;
    }
    return false;
}
static inline bool fold_of_other(Cx *cx, Kern *k) {
    return (void)cx, k->ins[find(k, K_FOLD, 1)].a[0] = k->ins[find(k, K_FOLD, 1)].a[0] - 1, true;
}
static inline bool store_of_other(Cx *cx, Kern *k) {
    (void)cx;
    int s = find(k, K_STOREP, 0), g = -1;
    for (int i = 0; i < s; i++)
        if (k->ins[i].k == K_GET) g = i;
    return g >= 0 && (k->ins[s].a[2] = g, true);
}
#endif
