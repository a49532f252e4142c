/* The order of combination is what the plan states: every accumulator starts at the identity, takes part in one fold,
 * is merged with its siblings pairwise and joined once over all lanes; row arrays and stripes that add up start alike.
 */
#include "walk.h"

#include <math.h>

/* ---- identities ---- */

static bool is_real(Ty ty, Num c, double x) { /* bit for bit: -0 is no start of a sum whose empty value is 0 */
    double v = num_f64(c, ty);
    return v == x && !signbit(v) == !signbit(x);
}

static bool is_identity(Op op, Ty ty, Num c) {
    bool real = ty_is_float(ty), wide = ty == TY_I64 || ty == TY_U64;
    switch (op) {
    case OP_FMA:
    case OP_ADD: return real ? is_real(ty, c, 0) : c.i == 0;
    case OP_MUL: return real ? is_real(ty, c, 1) : c.i == 1;
    case OP_AND: return c.b;
    case OP_OR: return !c.b;
    case OP_MAX:
    case OP_ATLEAST:
        if (real) return is_real(ty, c, -INFINITY);
        return ty_is_signed(ty) ? c.i == (wide ? INT64_MIN : INT32_MIN) : c.u == 0;
    case OP_MIN:
        if (real) return is_real(ty, c, INFINITY);
        return ty_is_signed(ty) ? c.i == (wide ? INT64_MAX : INT32_MAX) : c.u == (wide ? UINT64_MAX : UINT32_MAX);
    default: return false;
    }
}

/* ---- cells ---- */

typedef struct CellUse {
    int init, ninits, fold, nfolds, set, nsets, read, nreads, joins, parts; /* parts: that are set one by one */
    bool index; /* of a pair: the cell beside it has the value */
} CellUse;

static void count(int *at, int *n, int i) {
    if (!(*n)++) *at = i;
}

static CellUse *cell_uses(const Audit *u) {
    CellUse *c = NEWN(u->cx->a, CellUse, u->k->ncells + 1);
    for (int i = 0; i < u->k->nins; i++) {
        const Ins *in = &u->k->ins[i];
        switch (in->k) {
        case K_INIT: count(&c[in->imm].init, &c[in->imm].ninits, i); break;
        case K_FOLD: count(&c[in->imm].fold, &c[in->imm].nfolds, i); break;
        case K_FOLD2:
            count(&c[in->imm].fold, &c[in->imm].nfolds, i);
            count(&c[in->imm + 1].fold, &c[in->imm + 1].nfolds, i);
            c[in->imm + 1].index = true;
            break;
        case K_SETPART: c[in->imm].parts++; break;
        case K_SETCELL: count(&c[in->imm].set, &c[in->imm].nsets, i); break;
        case K_CELL:
            if (in->rank == RANK_LANE) count(&c[in->imm].read, &c[in->imm].nreads, i);
            break;
        default: break;
        }
    }
    return c;
}

/* Started once at the round of the loop in which it is read, before the sweep that folds into it; read after. */
static Err places_check(Audit *u, int c, const CellUse *q) {
    int work = q->nfolds ? q->fold : q->set;
    if (q->ninits != 1 || q->nfolds + q->nsets != 1 || !q->nreads)
        FIND(S_AUDIT_ACCUMULATOR, "cell %d: started %d times, folded into %d times, read %d times", c, q->ninits,
             q->nfolds + q->nsets, q->nreads);
    if (q->init > work || work > q->read || u->at[work].sweep < 0)
        FIND(S_AUDIT_ACCUMULATOR, "cell %d: %s, %s and %s do not come in this order", c, ins_text(u, q->init),
             ins_text(u, work), ins_text(u, q->read));
    if (u->at[q->init].loop != u->at[q->read].loop)
        FIND(S_AUDIT_ACCUMULATOR, "cell %d: is started and read in other rounds of loop %d", c,
             u->at[q->init].loop < 0 ? u->at[q->read].loop : u->at[q->init].loop);
    return OK;
}

static Err fold_check(Audit *u, int c, const CellUse *q) {
    const Ins *fold = &u->k->ins[q->fold], *init = &u->k->ins[q->init];
    bool pair = fold->k == K_FOLD2;
    int acc = u->k->cell[c].acc, want = pair ? 1 : u->k->plan.acc;
    if (q->parts) { /* one for each chunk */
        const Domain *d = &u->k->domain[u->k->node[u->at[q->fold].node].domain];
        want = (int)i64_min(ceil_div(d->n_mapped, (int64_t)plan_lanes(&u->k->plan) * u->k->plan.V), INT32_MAX);
        if (!want) want = 1;
    }
    bool start = q->index ? init->c.i == -1
                 : pair   ? is_identity(fold->op, init->ty, init->c) || !ty_is_float(init->ty)
                          : is_identity(fold->op, init->ty, init->c);
    if (acc != want) FIND(S_AUDIT_ACCUMULATOR, "%s: %d accumulators, the plan has %d", ins_text(u, q->fold), acc, want);
    if (!start)
        FIND(S_AUDIT_IDENTITY, "%s: cell %d of %s starts at %g", ins_text(u, q->init), c, op_name(fold->op),
             num_f64(init->c, init->ty));
    if (q->nreads != acc) FIND(S_AUDIT_MERGE, "cell %d: %d of %d accumulators are merged", c, q->nreads, acc);
    return OK;
}

/* The state of a pair of statistics: starts at nothing seen, and each step makes the new one from the old one. */
static Err state_check(Audit *u, int c, const CellUse *q) {
    const Kern *k = u->k;
    const Ins *init = &k->ins[q->init];
    int stat = k->plan.stat;
    if ((stat != STAT_ONLINE && stat != STAT_WELFORD) || k->cell[c].acc != 1 || q->nreads != 1)
        FIND(S_AUDIT_ACCUMULATOR, "cell %d: %d accumulators that are set, with stat=%s", c, k->cell[c].acc,
             stat_text((Stat)stat));
    bool *marks = NEWN(u->cx->a, bool, k->nins), old = false, most = false;
    ins_sources(u, k->ins[q->set].a[0], marks);
    for (int i = 0; i < q->set; i++) {
        old |= marks[i] && k->ins[i].k == K_CELL && k->ins[i].imm == c && u->at[i].node == u->at[q->set].node;
        most |=
            i == k->ins[q->set].a[0] && k->ins[i].k == K_OP && (k->ins[i].op == OP_MAX || k->ins[i].op == OP_ATLEAST);
    }
    if (!old) FIND(S_AUDIT_ACCUMULATOR, "%s: does not depend on what the cell held", ins_text(u, q->set));
    if (!is_identity(most ? OP_MAX : OP_ADD, init->ty, init->c))
        FIND(S_AUDIT_IDENTITY, "%s: cell %d starts at %g", ins_text(u, q->init), c, num_f64(init->c, init->ty));
    return OK;
}

/* ---- segments ---- */

/* Each accumulator is joined over segments of as many lanes as hold the last axes of its sweep, and put back. */
static Err parts_check(Audit *u, int c, const CellUse *q) {
    const Kern *k = u->k;
    uint64_t seen = 0;
    for (int i = 0; i < k->nins; i++) {
        const Ins *set = &k->ins[i];
        if (set->k != K_SETPART || set->imm != c) continue;
        const Ins *meet = &k->ins[set->a[0]], *own = &k->ins[meet->k == K_MEET ? meet->a[0] : set->a[0]];
        uint32_t first;
        if (meet->k != K_MEET || own->k != K_CELL || own->imm != c || own->acc != set->acc ||
            meet->op != ins_joins(&k->ins[q->fold]) || u->at[i].node != u->at[set->a[0]].node ||
            u->at[i].node != u->at[meet->a[0]].node || i < q->fold)
            FIND(S_AUDIT_JOIN, "%s: is not what segments of lanes have of cell %d", ins_text(u, i), c);
        if (k->plan.flight != 1 || !segments_of(u, u->at[q->fold].node, meet->lanes, &first))
            FIND(S_AUDIT_JOIN, "%s: segments of %d lanes hold no run of the last axes", ins_text(u, i), meet->lanes);
        seen |= 1ull << set->acc;
    }
    bool all = q->parts == k->cell[c].acc;
    for (int a = 0; a < k->cell[c].acc; a++) all &= (seen >> a & 1) != 0; /* kern_verify: at most 64 */
    if (!all)
        FIND(S_AUDIT_JOIN, "cell %d: %d of %d accumulators are joined over segments", c, q->parts, k->cell[c].acc);
    return OK;
}

/* ---- merges and joins ---- */

/* Is x the pairwise merge of accumulators i, i+step, i+2*step ... of a cell? */
static bool merges(const Audit *u, int x, Op op, int cell, int i, int step) {
    const Ins *in = &u->k->ins[x];
    if (step >= u->k->cell[cell].acc)
        return in->k == K_CELL && in->imm == cell && in->acc == i && in->rank == RANK_LANE;
    return in->k == K_OP && in->op == op && merges(u, in->a[0], op, cell, i, step * 2) &&
           merges(u, in->a[1], op, cell, i + step, step * 2);
}

static Err join_check(Audit *u, int i, CellUse *cells) {
    const Kern *k = u->k;
    const Ins *in = &k->ins[i];
    u->out->joins++;
    if (k->node[u->at[i].node].kind != NODE_BLOCK)
        FIND(S_AUDIT_BARRIER, "%s: stands where not every lane comes by", ins_text(u, i));
    for (int j = 0; j < (in->k == K_JOIN2 ? 2 : 1); j++) {
        bool *marks = NEWN(u->cx->a, bool, k->nins), folds = false;
        int found = 0, cell = -1;
        ins_sources(u, in->a[j], marks);
        for (int x = 0; x < i; x++)
            if (marks[x] && k->ins[x].k == K_CELL && k->ins[x].rank == RANK_LANE) {
                if (cell != k->ins[x].imm) cells[k->ins[x].imm].joins++, found++;
                cell = k->ins[x].imm;
                folds |= cells[cell].nfolds > 0;
            }
        if (!found) FIND(S_AUDIT_JOIN, "%s: joins what no cell holds", ins_text(u, i));
        if (!folds) continue; /* a state: what is joined is worked out of several cells */
        const Ins *fold = &k->ins[cells[cell].fold];
        if (found != 1 || ins_joins(fold) != in->op || cells[cell].index != (j == 1) ||
            (fold->k == K_FOLD2) != (in->k == K_JOIN2))
            FIND(S_AUDIT_JOIN, "%s: cell %d is folded by %s", ins_text(u, i), cell, op_name(fold->op));
        if (!merges(u, in->a[j], in->op, cell, 0, 1))
            FIND(S_AUDIT_MERGE, "%s: %%%d is not the pairwise merge of cell %d", ins_text(u, i), in->a[j], cell);
    }
    return OK;
}

/* The value that a level's lanes meet with: what came to them, or that times what rescales it. */
static int met(const Audit *u, int x, int *scale) {
    const Ins *in = &u->k->ins[x];
    *scale = -1;
    if (in->k != K_OP || in->op != OP_MUL) return x;
    const KOp k = u->k->ins[in->a[0]].k;
    const bool left = k == K_CELL || k == K_PASS;
    *scale = in->a[left];
    return in->a[!left];
}

/* What all lanes are said to have alike is made level by level, each of which joins all of its parts by one operator:
 * lanes of a subgroup, subgroups, groups, splits. What rescales a sum at a level comes of that level's maximum. */
static Err same_check(Audit *u, int i, CellUse *cells) {
    const Kern *k = u->k;
    int x = k->ins[i].a[0];
    const Op op = k->ins[x].op;
    u->out->joins++;
    for (int level = PASS_SPLITS; level >= PASS_SUBGROUPS - 1; level--) {
        const int L = k->plan.W < k->subgroup ? k->plan.W : k->subgroup,
                  parts = level < PASS_SUBGROUPS ? L : pass_count(k, level);
        int lanes = 1, scale;
        if (parts == 1) continue;
        while (lanes < parts) lanes *= 2;
        const Ins *meet = &k->ins[x];
        if (meet->k != K_MEET || meet->lanes != lanes || meet->op != op)
            FIND(S_AUDIT_JOIN, "%s: %%%d does not join %d lanes by %s", ins_text(u, i), x, lanes, op_name(op));
        x = met(u, meet->a[0], &scale);
        bool *marks = NEWN(u->cx->a, bool, k->nins), rescaled = scale < 0;
        if (scale >= 0) ins_sources(u, scale, marks);
        for (int j = 0; j < i && !rescaled; j++)
            rescaled = marks[j] && k->ins[j].k == K_MEET && k->ins[j].lanes == lanes &&
                       (k->ins[j].op == OP_MAX || k->ins[j].op == OP_ATLEAST);
        if (!rescaled) FIND(S_AUDIT_JOIN, "%s: %%%d is rescaled by no maximum of its lanes", ins_text(u, i), x);
        if (level < PASS_SUBGROUPS) break;
        const Ins *pass = &k->ins[x];
        if (pass->k != K_PASS || pass->imm != level)
            FIND(S_AUDIT_JOIN, "%s: %%%d is not what %s passed on", ins_text(u, i), x, pass_text(level));
        if (!is_identity(op, pass->ty, pass->c))
            FIND(S_AUDIT_IDENTITY, "%s: is %g past the last", ins_text(u, x), num_f64(pass->c, pass->ty));
        x = pass->a[0];
    }
    const Ins *own = &k->ins[x];
    if (own->k != K_CELL || own->rank != RANK_LANE) FIND(S_AUDIT_JOIN, "%s: joins what no cell holds", ins_text(u, i));
    cells[own->imm].joins++;
    return OK;
}

static Err cells_check(Audit *u) {
    const Kern *k = u->k;
    CellUse *cells = cell_uses(u);
    for (int c = 0; c < k->ncells; c++) {
        Err e = places_check(u, c, &cells[c]);
        if (!e) e = cells[c].nfolds ? fold_check(u, c, &cells[c]) : state_check(u, c, &cells[c]);
        if (!e && cells[c].parts) e = parts_check(u, c, &cells[c]);
        if (e) return e;
    }
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        if (in->k == K_PACKFOLD && !is_identity(in->op, in->ty, in->c))
            FIND(S_AUDIT_IDENTITY, "%s: starts at %g", ins_text(u, i), num_f64(in->c, in->ty));
        Err e = in->k == K_SAME ? same_check(u, i, cells) : ins_gathers(in) ? join_check(u, i, cells) : OK;
        if (e) return e;
    }
    for (int c = 0; c < k->ncells; c++)
        if (cells[c].parts ? cells[c].joins != 0 : cells[c].nfolds ? cells[c].joins != 1 : cells[c].joins < 1)
            FIND(S_AUDIT_JOIN, "cell %d is joined over the lanes %d time%s", c, cells[c].joins, plural(cells[c].joins));
    return OK;
}

/* ---- what adds up in a row array or in a lane's stripe ---- */

/* The value that is put, op(old, x): old was got from the same place, which started at the identity. */
static Err adds_up_check(Audit *u, int put, KOp get) {
    const Kern *k = u->k;
    const Ins *in = &k->ins[put], *v = &k->ins[in->a[1]];
    bool *marks = NEWN(u->cx->a, bool, k->nins);
    int old = -1, start = -1;
    ins_sources(u, in->a[1], marks);
    for (int i = 0; i < put; i++) {
        if (marks[i] && k->ins[i].k == get && k->ins[i].imm == in->imm) old = i;
        if (start < 0 && k->ins[i].k == in->k && k->ins[i].imm == in->imm) start = i;
    }
    if (old < 0) return OK; /* it does not add up */
    static const Form none = {0};
    const Form *x = in->a[0] >= 0 ? u->form[in->a[0]] : &none,
               *y = k->ins[old].a[0] >= 0 ? u->form[k->ins[old].a[0]] : &none;
    if (u->at[put].node != u->at[old].node || !form_equal(x, y))
        FIND(S_AUDIT_ACCUMULATOR, "%s: adds to %s what %s was got from", ins_text(u, put), form_text(u, x),
             form_text(u, y));
    if (start < 0) FIND(S_AUDIT_ACCUMULATOR, "%s: nothing is there to add to", ins_text(u, put));
    const Ins *first = &k->ins[k->ins[start].a[1]];
    if (first->k != K_CONST) FIND(S_AUDIT_IDENTITY, "%s: starts at what is no constant", ins_text(u, start));
    const bool added = v->op == OP_FMA ? v->a[2] == old : v->a[0] == old || v->a[1] == old;
    if (v->k == K_OP && v->op != OP_WHERE && added && !is_identity(v->op, first->ty, first->c))
        FIND(S_AUDIT_IDENTITY, "%s: starts at %g, and is added to by %s", ins_text(u, start),
             num_f64(first->c, first->ty), op_name(v->op));
    return OK;
}

/* ---- orders that the program or the caller asks for ---- */

static Err plan_order_check(Audit *u) {
    const Plan *p = &u->k->plan;
    bool ordered = p->order == ORDER_SERIAL;
    for (int v = 0; v < u->prog->nvals; v++)
        ordered |= u->prog->val[v].op == OP_RED && u->prog->val[v].policy == POLICY_ORDERED;
    if (ordered && (plan_lanes(p) != 1 || p->acc != 1 || p->flight != 1))
        FIND(S_AUDIT_ORDER, "a left fold with W=%d acc=%d flight=%d", p->W, p->acc, p->flight);
    if (p->order == ORDER_FIXED &&
        (plan_lanes(p) * p->acc != FIXED_PARTIALS || p->V != 1 || p->combine != COMBINE_OUTER))
        FIND(S_AUDIT_ORDER, "order=fixed with W=%d acc=%d V=%d combine=%s", p->W, p->acc, p->V,
             p->combine == COMBINE_OUTER ? "outer" : "inner");
    for (int i = 0; i < u->k->nins; i++) {
        const Ins *in = &u->k->ins[i];
        if ((in->k == K_FOLD || in->k == K_PACKFOLD) && in->op == OP_FMA && (!p->contract || p->order != ORDER_PLAN))
            FIND(S_AUDIT_ORDER, "%s: adds a product before it is rounded, with contract=%s", ins_text(u, i),
                 p->contract ? "on in an order that is not the plan's" : "off");
    }
    return OK;
}

Err audit_order(Audit *u) {
    Err e = plan_order_check(u);
    if (!e) e = cells_check(u);
    for (int i = 0; i < u->k->nins && !e; i++) {
        if (u->k->ins[i].k == K_PUT) e = adds_up_check(u, i, K_GET);
        if (u->k->ins[i].k == K_ROWPUT) e = adds_up_check(u, i, K_ROWGET);
    }
    return e;
}
