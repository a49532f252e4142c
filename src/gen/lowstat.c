/* Pairs of reductions taken in one sweep: (max, sum of exp) online, rescaled once a step; (sum, squared deviations)
 * about a shift, or by merging each step's own mean and deviations (Chan, Golub, LeVeque 1983). */
#include "lower.h"

#include <math.h>

static int op2(Low *l, Op op, int x, int y) {
    return kb_op(&l->b, op, x, y, -1);
}

static int fconst(Low *l, int like, double x) {
    return kb_const_f(&l->b, l->k->ins[like].ty, x);
}

/* e^x of an x that is not above 0 */
static int exp_of(Low *l, int x) {
    static const Range below = {.lo = -INFINITY, .hi = 0, .most = INFINITY};
    return l->k->poly && l->k->ins[x].ty == TY_F32 ? math_expand(&l->b, OP_EXP, x, -1, &below)
                                                   : kb_op(&l->b, OP_EXP, x, -1, -1);
}

static int cell_get(Low *l, int cell, Rank rank) {
    return kb_ins(
        &l->b,
        (Ins){.k = K_CELL, .ty = l->k->cell[cell].ty, .rank = rank, .a = {-1, -1, -1}, .param = -1, .imm = cell});
}

static void cell_set(Low *l, int cell, int x) {
    kb_ins(
        &l->b,
        (Ins){
            .k = K_SETCELL, .ty = l->k->cell[cell].ty, .rank = RANK_PACK, .a = {x, -1, -1}, .param = -1, .imm = cell});
}

static void fold(Low *l, Ins f, int cell) {
    f.k = K_FOLD, f.ty = l->k->cell[cell].ty, f.rank = RANK_PACK, f.imm = cell;
    kb_ins(&l->b, f);
}

static int pack_fold(Low *l, Ins f, double identity) {
    f.k = K_PACKFOLD, f.ty = l->k->ins[f.a[0]].ty, f.rank = RANK_PACK, f.c = ty_num(f.ty, identity, 0);
    return kb_ins(&l->b, f);
}

/* What is folded: x by an operator, or the squares of d. */
static Ins each(Op op, int x) {
    return (Ins){.op = op, .a = {x, -1, -1}, .param = -1};
}
static Ins each_square(Low *l, int d) {
    if (!l->plan->contract) return each(OP_ADD, op2(l, OP_MUL, d, d));
    return (Ins){.op = OP_FMA, .a = {d, d, -1}, .param = -1};
}

/* m, or 0 where m is -inf: no element yet, or only -inf ones; exp(x - 0) is then 0 as it must be. */
static int finite_max(Low *l, int m) {
    int none = op2(l, OP_EQ, m, fconst(l, m, -INFINITY));
    return kb_op(&l->b, OP_WHERE, none, fconst(l, m, 0), m);
}

static Op online_max(const Low *l, const Pair *pr) {
    return low_passes(l, pr->first) ? OP_ATLEAST : OP_MAX;
}

static int active(Low *l, Ty ty) {
    int n = kb_ins(&l->b, (Ins){.k = K_ACTIVE, .ty = TY_F32, .rank = RANK_PACK, .a = {-1, -1, -1}, .param = -1});
    return kb_cast(&l->b, ty, n);
}

void pair_before(Low *l, const Pair *pr, PairCells *c) {
    Ty ty = l->p->val[pr->second].ty;
    static const char *const names[][4] = {
        [STAT_ONLINE] = {"m", "s"}, [STAT_SHIFTED] = {"d", "dd"}, [STAT_WELFORD] = {"sum", "count", "mean", "m2"}};
    int n = pr->stat == STAT_WELFORD ? 4 : 2, folds = pr->stat == STAT_SHIFTED ? l->plan->acc : 1;
    for (int i = 0; i < n; i++) {
        c->cell[i] = low_cell(l, ty, folds, names[pr->stat][i]);
        low_init(l, c->cell[i], ty, pr->stat == STAT_ONLINE && i == 0 ? -INFINITY : 0, 0);
    }
    if (pr->stat != STAT_SHIFTED) return;
    if (!pr->any) { /* no first element */
        c->shift = kb_const_f(&l->b, ty, 0);
        return;
    }
    l->at_first = true;
    l->tick++;
    int k = low_val(l, pr->x);
    l->at_first = false;
    l->tick++;
    int size = kb_op(&l->b, OP_ABS, k, -1, -1), finite = op2(l, OP_LT, size, fconst(l, k, INFINITY));
    c->shift = kb_op(&l->b, OP_WHERE, finite, k, fconst(l, k, 0)); /* a shift of inf or NaN would spoil finite sums */
}

void pair_sweep(Low *l, const Pair *pr, PairCells *c) {
    int x = low_val(l, pr->x);
    if (pr->stat == STAT_ONLINE) {
        Op max = online_max(l, pr);
        int m0 = cell_get(l, c->cell[0], RANK_PACK), m1 = op2(l, max, m0, pack_fold(l, each(max, x), -INFINITY));
        int m = finite_max(l, m1);
        int e = exp_of(l, op2(l, OP_SUB, x, m));
        int scale = exp_of(l, op2(l, OP_SUB, m0, m));
        int s0 = cell_get(l, c->cell[1], RANK_PACK),
            s = kb_op(&l->b, OP_FMA, s0, scale, pack_fold(l, each(OP_ADD, e), 0));
        cell_set(l, c->cell[0], m1);
        cell_set(l, c->cell[1], s);
    } else if (pr->stat == STAT_SHIFTED) {
        int d = op2(l, OP_SUB, x, c->shift);
        fold(l, each(OP_ADD, d), c->cell[0]);
        fold(l, each_square(l, d), c->cell[1]);
    } else {
        Ty ty = l->p->val[pr->second].ty;
        int n = active(l, ty), one = fconst(l, n, 1), sum = pack_fold(l, each(OP_ADD, x), 0);
        int mean = op2(l, OP_DIV, sum, op2(l, OP_MAX, n, one)), d = op2(l, OP_SUB, x, mean);
        int m2 = pack_fold(l, each_square(l, d), 0);
        int sum0 = cell_get(l, c->cell[0], RANK_PACK), n0 = cell_get(l, c->cell[1], RANK_PACK);
        int mean0 = cell_get(l, c->cell[2], RANK_PACK), m20 = cell_get(l, c->cell[3], RANK_PACK);
        int n1 = op2(l, OP_ADD, n0, n), share = op2(l, OP_DIV, n, op2(l, OP_MAX, n1, one));
        int delta = op2(l, OP_SUB, mean, mean0);
        /* not delta * delta first: before the first element mean0 is 0, and an infinite square times no elements is NaN
         */
        int cross = op2(l, OP_MUL, delta, op2(l, OP_MUL, delta, op2(l, OP_MUL, n0, share)));
        cell_set(l, c->cell[0], op2(l, OP_ADD, sum0, sum));
        cell_set(l, c->cell[1], n1);
        cell_set(l, c->cell[2], kb_op(&l->b, OP_FMA, delta, share, mean0));
        cell_set(l, c->cell[3], op2(l, OP_ADD, op2(l, OP_ADD, m20, m2), cross));
    }
}

static int meet(Low *l, Op op, int x, int lanes) {
    if (lanes == 1) return x;
    return kb_ins(&l->b, (Ins){.k = K_MEET,
                               .op = op,
                               .ty = l->k->ins[x].ty,
                               .rank = RANK_LANE,
                               .a = {x, -1, -1},
                               .param = -1,
                               .lanes = lanes});
}

static int pass(Low *l, int level, int x, double past) {
    Ty ty = l->k->ins[x].ty;
    return kb_ins(&l->b, (Ins){.k = K_PASS,
                               .ty = ty,
                               .rank = RANK_LANE,
                               .a = {x, -1, -1},
                               .param = -1,
                               .imm = level,
                               .c = ty_num(ty, past, 0)});
}

static int alike(Low *l, int x) {
    return kb_ins(&l->b, (Ins){.k = K_SAME, .ty = l->k->ins[x].ty, .rank = RANK_ROW, .a = {x, -1, -1}, .param = -1});
}

/* (m, s) of each of so many lanes side by side become those of all: the sum is rescaled to the largest maximum. */
static void meet_online(Low *l, int lanes, int *m, int *s) {
    if (lanes == 1) return;
    const int top = meet(l, OP_MAX, *m, lanes), scale = exp_of(l, op2(l, OP_SUB, *m, finite_max(l, top)));
    *s = meet(l, OP_ADD, op2(l, OP_MUL, *s, scale), lanes);
    *m = top;
}

/* combine=pair: both go through each level together, in one exchange. */
static void join_online(Low *l, int *m, int *s) {
    const int W = l->plan->W, L = l->k->subgroup;
    meet_online(l, W < L ? W : L, m, s);
    for (int level = PASS_SUBGROUPS; level < PASS_LEVELS; level++) {
        int n = pass_count(l->k, level), pad = 1;
        if (n == 1) continue;
        while (pad < n) pad *= 2;
        const int pm = pass(l, level, *m, -INFINITY), ps = pass(l, level, *s, 0);
        *m = pm, *s = ps;
        meet_online(l, pad, m, s);
    }
    *m = alike(l, *m);
    *s = alike(l, *s);
}

void pair_after(Low *l, const Pair *pr, PairCells *c) {
    int *first = &l->red_now[pr->first], *second = &l->red_now[pr->second];
    if (pr->stat == STAT_ONLINE) {
        int ml = cell_get(l, c->cell[0], RANK_LANE), m = ml, s;
        if (l->plan->combine == COMBINE_PAIR) {
            s = cell_get(l, c->cell[1], RANK_LANE);
            join_online(l, &m, &s);
        } else {
            m = low_join(l, online_max(l, pr), ml);
            const int sl = cell_get(l, c->cell[1], RANK_LANE);
            s = op2(l, OP_MUL, sl, exp_of(l, op2(l, OP_SUB, ml, finite_max(l, m))));
            s = low_join(l, OP_ADD, s);
        }
        const int inf = fconst(l, m, INFINITY);
        /* where two sweeps would have met inf - inf: NaN, unless the program guards it as logsumexp does */
        const Val *f = &l->p->val[l->p->val[pr->second].a[0]];
        bool guarded = l->p->val[f->a[0]].a[1] != pr->first;
        if (guarded)
            s = kb_op(&l->b, OP_WHERE, op2(l, OP_EQ, m, inf), inf, s);
        else {
            int none = op2(l, OP_EQ, m, fconst(l, m, -INFINITY));
            s = kb_op(&l->b, OP_WHERE, none, fconst(l, m, NAN), s);
        }
        *first = m;
        *second = s;
        return;
    }
    int n = low_val(l, pr->count);
    if (pr->stat == STAT_SHIFTED) {
        int d = low_join(l, OP_ADD, low_merge(l, c->cell[0], OP_ADD)),
            dd = low_join(l, OP_ADD, low_merge(l, c->cell[1], OP_ADD));
        /* d * d would leave the range long before d * d / n, which is at most dd, does */
        int lost = op2(l, OP_MUL, d, op2(l, OP_DIV, d, n)), inf = fconst(l, d, INFINITY);
        *first = kb_op(&l->b, OP_FMA, n, c->shift, d);
        int left = op2(l, OP_MAX, op2(l, OP_SUB, dd, lost), fconst(l, d, 0));
        int over = op2(l, OP_AND, op2(l, OP_EQ, dd, inf), op2(l, OP_LT, kb_op(&l->b, OP_ABS, d, -1, -1), inf));
        *second = kb_op(&l->b, OP_WHERE, over, inf, left); /* squares of numbers that overflow: not inf - inf */
        return;
    }
    int sum = low_join(l, OP_ADD, cell_get(l, c->cell[0], RANK_LANE)), mean = op2(l, OP_DIV, sum, n);
    int d = op2(l, OP_SUB, cell_get(l, c->cell[2], RANK_LANE), mean);
    int count = cell_get(l, c->cell[1], RANK_LANE), cross = op2(l, OP_MUL, d, count); /* 0 of a lane without elements */
    int m2 = kb_op(&l->b, OP_FMA, cross, d, cell_get(l, c->cell[3], RANK_LANE));
    *first = sum;
    *second = low_join(l, OP_ADD, m2);
}
