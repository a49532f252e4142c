/* Kern -> Demand: what one launch asks of the machine, by walking the nodes with their multiplicities; nothing is
 * modelled.
 *
 * An element's instruction counts the busiest lane's slots for a lane and the elements for a row; a pack's the steps,
 * times the lanes for a row; a lane's once, and W times; a row's once for both. Global accesses have their storage
 * type's bytes, and both sides of a guarded load count.
 *
 * A load's first touch of memory is told by its address: the same expression over the same elements was here before.
 * Expressions that differ are taken for different places, but of an input that is only read in place no row touches
 * more than its own elements. */
#include "kern.h"

#include <math.h>
#include <string.h>

enum {
    PAIR_OPS = 8, /* of a fold of values with their indexes: instructions of GPUs, counted in compiled code */
    LOG_OPS = 6,  /* of a logarithm, as exponentials: by times measured on a GPU */
    EXACT = 2     /* times as long as the hardware's takes an exact exponential outside of sweeps: likewise */
};
static const double too_large = 9007199254740992.0; /* 2^53: above it sums are no longer exact */

typedef struct Times {
    double lane, row;
} Times;

typedef struct Where { /* of an instruction: what it is made of, and whether it varies over the enclosing loop */
    uint64_t hash;
    bool serial;
} Where;

typedef struct Tally {
    const Kern *k;
    Demand *d;
    int64_t n, slots, packs, steps; /* of the sweep; steps of all lanes */
    bool sweep;
    int domain;     /* of the sweep */
    Where *where;   /* by instruction */
    uint64_t *seen; /* addresses that loads and stores touched */
    int nseen;
    double *turn, *level;     /* by instruction: exchanges, and levels of trees, that it waits for */
    double first[MAX_PARAMS]; /* elements of a parameter first touched */
    bool guarded[MAX_PARAMS]; /* read at other places than its own */
    bool met;                 /* lanes have met before */
} Tally;

static Times times(const Tally *t, const Ins *in, double loop) {
    Rank r = in->rank;
    if (!ins_makes(in))
        r = in->k == K_INIT || in->k == K_SETCELL || in->k == K_SETPART ? (t->sweep ? RANK_PACK : RANK_LANE)
            : t->sweep                                                  ? RANK_ELEM
                                                                        : RANK_ROW;
    double W = plan_lanes(&t->k->plan);
    if (in->k == K_STORES)
        return (Times){loop * (double)t->steps, loop * (double)t->n / ((double)in->lanes * t->k->plan.V)};
    switch (r) {
    case RANK_ELEM: return (Times){loop * (double)t->slots, loop * (double)t->n};
    case RANK_PACK: return (Times){loop * (double)t->steps, loop * (double)t->steps * W};
    case RANK_LANE: return (Times){loop, loop * W};
    default: return (Times){loop, loop};
    }
}

static void add(double *lane, double *row, Times m, double each) {
    *lane += m.lane * each;
    *row += m.row * each;
}

static void add_op(Demand *d, OpCost cost, Times m) {
    add(&d->lane_ops[cost], &d->row_ops[cost], m, 1);
}

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static void place(Tally *t, int i, double loop) {
    const Ins *in = &t->k->ins[i];
    int at[3];
    Where w = {mix(mix(17, (uint64_t)in->k), (uint64_t)in->op), false};
    for (int n = ins_operands(in, at), j = 0; j < n; j++) {
        if (in->a[at[j]] < 0) continue;
        w.hash = mix(w.hash, t->where[in->a[at[j]]].hash + (uint64_t)j);
        w.serial |= t->where[in->a[at[j]]].serial;
    }
    switch (in->k) {
    case K_CONST: w.hash = mix(w.hash, in->c.u); break;
    case K_SLOT: w.hash = mix(w.hash, (uint64_t)in->imm); break;
    case K_ROWIDX: break;
    case K_SERIAL: w.hash = mix(w.hash, (uint64_t)loop), w.serial = true; break;
    case K_ELEM: w.hash = mix(w.hash, t->k->domain[t->domain].mapped); break;
    case K_OP: w.hash = mix(w.hash, (uint64_t)in->to); break;
    case K_LOADP:
    case K_LOAD1: w.hash = mix(w.hash, (uint64_t)in->param); break;
    default: w = (Where){mix(w.hash, (uint64_t)i), loop > 1}; /* nothing else is equal to it */
    }
    t->where[i] = w;
}

/* A load or store: elements that it is the first to touch. */
static void touch(Tally *t, int i, double loop, bool store) {
    const Ins *in = &t->k->ins[i];
    bool pack = in->k == K_LOADP || in->k == K_STOREP;
    uint64_t h = mix((uint64_t)in->param + 3, t->where[in->a[0]].hash);
    bool serial = t->where[in->a[0]].serial, elem = pack || t->k->ins[in->a[0]].rank == RANK_ELEM;
    if (pack) h = mix(h, t->k->domain[t->domain].mapped);
    if (pack && in->a[1] >= 0) h = mix(h, t->where[in->a[1]].hash);
    for (int s = 0; s < t->nseen; s++)
        if (t->seen[s] == h) return;
    t->seen[t->nseen++] = h;
    if (store) return;
    t->first[in->param] += (serial ? loop : 1) * (elem ? (double)t->n : 1);
    t->guarded[in->param] |= in->k == K_LOAD1 && in->a[1] >= 0;
}

static bool of_rows(const Prog *p, const Param *q) {
    for (int d = 0; d < q->rank; d++)
        if (p->row_axes >> q->axis[d] & 1) return true;
    return false;
}

/* And of those what all rows read alike, in *weights. */
static double first_read(const Tally *t, double *weights) {
    double bytes = 0;
    for (int p = 0; p < t->k->prog->nparams; p++) {
        const Param *q = &t->k->prog->param[p];
        double own = 1;
        for (int d = 0; d < q->rank; d++)
            if (!(t->k->prog->row_axes >> q->axis[d] & 1)) own *= (double)t->k->shape.n[q->axis[d]];
        double first = (t->guarded[p] || t->first[p] < own ? t->first[p] : own) * ty_bytes(q->ty);
        bytes += first;
        if (!of_rows(t->k->prog, q)) *weights += first;
    }
    return bytes;
}

/* Compilers multiply where the divisor is a power of two, whose reciprocal is exact. */
static OpCost cost_of(const Kern *k, const Ins *in) {
    int e;
    if (in->op == OP_DIV && ty_is_float(in->ty) && k->ins[in->a[1]].k == K_CONST &&
        fabs(frexp(num_f64(k->ins[in->a[1]].c, k->ins[in->a[1]].ty), &e)) == 0.5)
        return COST_ALU;
    return op_info(in->op)->cost;
}

/* As gpu_load_pack and gpu_store_pack spell it. */
static void count_access(const Tally *t, const Ins *in, Times m, bool store) {
    enum { WIDE = 16, SECTOR = 32 };
    const Kern *k = t->k;
    const Plan *plan = &k->plan;
    const int bytes = ty_bytes(k->prog->param[in->param].ty);
    const bool pack = in->k == K_LOADP || in->k == K_STOREP;
    const int each =
        pack && in->a[1] < 0 ? plan_piece(k->prog, &k->shape, plan->V, in->param, k->domain[t->domain].mapped) : 1;
    const double n = m.lane / each, apart = pack && in->a[1] < 0 ? (double)plan->V * bytes : bytes;
    t->d->gpu.accesses += n;
    t->d->gpu.lines += n * apart / WIDE;
    if (store && apart > each * bytes) t->d->gpu.torn += m.row * bytes * (fmin(SECTOR, apart) / (each * bytes) - 1);
}

static void count_ins(Tally *t, int i, double loop) {
    const Kern *k = t->k;
    const Ins *in = &k->ins[i];
    Demand *d = t->d;
    Times m = times(t, in, loop);
    place(t, i, loop);
    switch (in->k) {
    case K_OP: {
        const OpCost cost = cost_of(k, in);
        const bool log = in->op == OP_LOG || in->op == OP_LOG2;
        add(&d->lane_ops[cost], &d->row_ops[cost], m, log ? LOG_OPS : 1);
        if (in->op == OP_SIGMOID) add_op(d, COST_DIV, m);
        if (in->op == OP_CAST && !ty_is_float(in->ty) && ty_is_float(k->ins[in->a[0]].ty)) d->lane_whole += m.lane;
        if (!t->sweep && cost == COST_SPECIAL)
            d->lane_alone += in->op == OP_EXP && k->plan.exp != EXP_FAST ? EXACT * m.lane : m.lane;
        break;
    }
    case K_SEG:
    case K_ELEM: add_op(d, COST_ALU, m); break;
    case K_LOADP:
    case K_LOAD1: {
        Ty ty = k->prog->param[in->param].ty;
        add(&d->lane.global_read, &d->row.global_read, m, ty_bytes(ty));
        touch(t, i, loop, false);
        count_access(t, in, m, false);
        add_op(d, COST_MEMORY, m);
        if (ty != in->ty) add_op(d, COST_CONVERT, m);
        break;
    }
    case K_STOREP:
    case K_STORES:
    case K_STORE1: {
        Ty ty = k->prog->param[in->param].ty;
        add(&d->lane.global_write, &d->row.global_write, m, ty_bytes(ty));
        touch(t, i, loop, true);
        count_access(t, in, m, true);
        if (in->k == K_STOREP) {
            d->pack_write += m.row * ty_bytes(ty);
            d->store_bytes = d->store_bytes > 0 ? fmin(d->store_bytes, ty_bytes(ty)) : ty_bytes(ty);
        }
        add_op(d, COST_MEMORY, m);
        if (ty != in->ty) add_op(d, COST_CONVERT, m);
        if (ty_is_float(in->ty) && !ty_is_float(ty)) d->lane_whole += m.lane;
        break;
    }
    case K_GET:
        add(&d->lane.private_read, &d->row.private_read, m, ty_bytes(k->stripe[in->imm].ty));
        if (k->stripe[in->imm].ty != in->ty) add_op(d, COST_CONVERT, m);
        if (k->stripe[in->imm].home == HOLD_SHARED) d->lane_shared += m.lane;
        break;
    case K_PUT:
        add(&d->lane.private_write, &d->row.private_write, m, ty_bytes(k->stripe[in->imm].ty));
        if (k->stripe[in->imm].ty != in->ty) add_op(d, COST_CONVERT, m);
        if (k->stripe[in->imm].home == HOLD_SHARED) d->lane_shared += m.lane;
        break;
    case K_FOLD: add_op(d, op_info(in->op)->cost, m); break;
    case K_FOLD2: /* who wins: NaN, value, index; and both are chosen */
        add(&d->lane_ops[op_info(in->op)->cost], &d->row_ops[op_info(in->op)->cost], m, PAIR_OPS);
        break;
    case K_PACKFOLD: add_op(d, op_info(in->op)->cost, (Times){loop * (double)t->slots, loop * (double)t->n}); break;
    case K_SETPART: /* of what a segment's lanes joined */
    case K_SAME:
    case K_JOIN:
    case K_JOIN2: d->collectives += loop; break; /* value and index are joined together */
    default: break;
    }
}

/* Joins side by side share an exchange, with a barrier; each has partials of its own: one a subgroup, or where
 * subgroups are combined lane by lane one a lane. Within one subgroup there is no exchange. */
static void count_pass(const Kern *k, const Ins *in, bool first, double loop, Demand *d) {
    const int last = k->plan.split > 1 ? PASS_SPLITS : k->plan.cluster > 1 ? PASS_GROUPS : PASS_SUBGROUPS;
    if (in->imm != PASS_SPLITS) d->shared_bytes += (double)pass_count(k, in->imm) * ty_bytes(in->ty) * k->plan.P;
    if (first && in->imm == last) d->barriers += loop; /* those of lower levels are a part of it, as in joins */
}

/* Joins meet in one exchange where none of them waits for another and nothing but arithmetic is between (gpu_join). */
static void count_joins(Tally *t, const Node *nd, double loop) {
    const Kern *k = t->k;
    Demand *d = t->d;
    const int lanes = plan_lanes(&k->plan);
    const bool exchanged = lanes > k->subgroup;
    const double partials = (k->plan.combine == COMBINE_OUTER ? k->plan.W : (double)ceil_div(k->plan.W, k->subgroup)) +
                            (k->plan.cluster > 1 ? k->plan.cluster : 0);
    double turns = 0, levels = 0, turns_before = 0, levels_before = 0;
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        const bool join = in->k == K_JOIN || in->k == K_JOIN2;
        double turn = turns_before, level = levels_before;
        int at[3];
        for (int n = ins_operands(in, at), j = 0; j < n; j++) {
            const int a = in->a[at[j]];
            if (a >= nd->i0) turn = fmax(turn, t->turn[a]), level = fmax(level, t->level[a]);
        }
        if (in->k == K_JOIN2I) turn = t->turn[i - 1], level = t->level[i - 1];
        if (join) turn++, level += ceil(log2(lanes));
        if (in->k == K_MEET) level += ceil(log2(in->lanes));
        t->turn[i] = turn, t->level[i] = level;
        turns = fmax(turns, turn), levels = fmax(levels, level);
        const bool pure = join || in->k == K_JOIN2I || in->k == K_OP || in->k == K_CELL || in->k == K_CONST;
        if (!pure || (join && k->subgroup == 1)) turns_before = turns, levels_before = levels;
        if (!exchanged) continue;
        if (in->k == K_PASS) count_pass(k, in, i == nd->i0 || in[-1].k != K_PASS || in[-1].imm != in->imm, loop, d);
        if (join || in->k == K_JOIN2I) d->shared_bytes += partials * ty_bytes(in->ty) * k->plan.P;
    }
    d->join_levels += loop * levels;
    t->met |= turns > 0;
    if (exchanged) d->barriers += loop * turns;
}

/* Operations of a lane in a sweep that wait for each other: one fold a slot, spread over the accumulators; where cells
 * are set, whatever is done once a step between reading and setting them. */
static double chain(const Tally *t, const Node *nd) {
    const Kern *k = t->k;
    double folds = 0, steps = 0;
    bool sets = false;
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        if (in->k == K_FOLD || in->k == K_FOLD2) folds = (double)t->slots / k->plan.acc;
        if (in->k == K_OP && in->rank == RANK_PACK) steps += (double)t->steps;
        sets |= in->k == K_SETCELL;
    }
    return sets ? fmax(folds, steps) : folds;
}

/* Does what follows wait for its loads? With early=on what all rows share came before lanes met, and a sweep of that
 * waits for nothing, by times measured on a GPU also where it loads of a row what none before it did. */
static bool waits(const Tally *t, const Node *nd, double loop) {
    const Kern *k = t->k;
    bool loads = false, early = false, again = false;
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        if (in->k != K_LOADP && in->k != K_LOAD1) continue;
        loads = true;
        if (of_rows(k->prog, &k->prog->param[in->param]))
            again |= t->first[in->param] > 0;
        else
            early |= in->k == K_LOADP && k->plan.early == EARLY_ON && t->met && loop == 1;
    }
    return loads && (again || !early);
}

/* Steps of a sweep that loads which are not under way together: compilers leave loops alone that fold values with their
 * places. */
static double turns(const Tally *t, const Node *nd) {
    bool loads = false, places = false;
    for (int i = nd->i0; i < nd->i1; i++) {
        const KOp k = t->k->ins[i].k;
        loads |= k == K_LOADP || k == K_LOAD1;
        places |= k == K_FOLD2;
    }
    return loads && places ? (double)t->steps : 0;
}

/* What a group does before its first row is no row's: only what it reads is counted. */
static void count_once(Tally *t, const Node *nd) {
    const Kern *k = t->k;
    t->domain = nd->domain;
    for (int i = nd->i0; i < nd->i1; i++) {
        place(t, i, 1);
        if (k->ins[i].k != K_LOADP) continue;
        t->d->group_read += (double)k->domain[nd->domain].n_mapped * ty_bytes(k->prog->param[k->ins[i].param].ty);
    }
}

static void count_nodes(Tally *t, int first, double loop) {
    const Kern *k = t->k;
    for (int n = first; n >= 0; n = k->node[n].next) {
        const Node *nd = &k->node[n];
        if (nd->kind == NODE_LOOP) {
            count_nodes(t, nd->child, loop * (double)nd->count);
            continue;
        }
        if (nd->once) {
            count_once(t, nd);
            continue;
        }
        t->sweep = nd->kind == NODE_SWEEP;
        if (t->sweep) {
            int64_t chunk = (int64_t)plan_lanes(&k->plan) * k->plan.V;
            t->domain = nd->domain;
            t->n = k->domain[nd->domain].n_mapped;
            t->slots = map_slots(t->n, plan_lanes(&k->plan), k->plan.V);
            t->packs = ceil_div(t->slots, k->plan.V);
            t->steps = ceil_div(ceil_div(t->n, chunk), k->plan.flight);
            t->d->lane_rounds += loop * (double)t->slots;
            t->d->lane_packs += loop * (double)t->packs;
            t->d->lane_chain += loop * chain(t, nd);
            if (waits(t, nd, loop)) t->d->lane_waits += loop;
            t->d->gpu.turns += loop * turns(t, nd);
            if (!t->n) continue;
        } else {
            count_joins(t, nd, loop);
        }
        for (int i = nd->i0; i < nd->i1; i++) count_ins(t, i, loop);
    }
}

/* ---- values live at once ---- */

typedef struct Lives {
    const Kern *k;
    int *end;             /* last instruction that needs value i; -1: none */
    int *c_first, *c_end; /* the same of cells */
} Lives;

static void until(int *end, int at) {
    if (at > *end) *end = at;
}

/* What a repeated stretch [i0, i1) takes from outside lives to its end, since the next round takes it again. */
static void lives_in(const Lives *l, int i0, int i1, bool again) {
    for (int i = i0; i < i1; i++) {
        const Ins *in = &l->k->ins[i];
        int at[3], n = ins_operands(in, at);
        for (int j = 0; j < n; j++)
            if (in->a[at[j]] >= 0) until(&l->end[in->a[at[j]]], again && in->a[at[j]] < i0 ? i1 - 1 : i);
        if (!strchr(kop_info(in->k)->fields, 'C')) continue;
        for (int c = in->imm; c <= in->imm + (in->k == K_FOLD2); c++) {
            if (l->c_first[c] < 0) l->c_first[c] = i;
            until(&l->c_end[c], again && l->c_first[c] < i0 ? i1 - 1 : i);
        }
    }
}

static void lives_of(const Lives *l, int first, int *i0, int *i1) { /* and the instructions they span */
    *i0 = *i1 = -1;
    for (int n = first; n >= 0; n = l->k->node[n].next) {
        const Node *nd = &l->k->node[n];
        int x = nd->i0, y = nd->i1;
        if (nd->kind == NODE_LOOP) {
            lives_of(l, nd->child, &x, &y);
            if (x >= 0) lives_in(l, x, y, true);
        } else {
            lives_in(l, x, y, nd->kind == NODE_SWEEP);
        }
        if (*i0 < 0) *i0 = x;
        if (y >= 0) *i1 = y;
    }
}

static double weight(const Kern *k, const Ins *in) {
    if (!ins_makes(in) || in->k == K_CONST) return 0;
    return in->rank == RANK_ELEM ? (double)k->plan.V * k->plan.flight : 1;
}

static double live_values(Cx *cx, const Kern *k) {
    Lives l = {.k = k,
               .end = NEWN(cx->a, int, k->nins),
               .c_first = NEWN(cx->a, int, k->ncells),
               .c_end = NEWN(cx->a, int, k->ncells)};
    double *change = NEWN(cx->a, double, k->nins + 1); /* from before to after an instruction */
    for (int i = 0; i < k->nins; i++) l.end[i] = -1;
    for (int c = 0; c < k->ncells; c++) l.c_first[c] = l.c_end[c] = -1;
    int i0, i1;
    lives_of(&l, k->root, &i0, &i1);
    for (int i = 0; i < k->nins; i++) {
        if (l.end[i] < 0) continue;
        change[i] += weight(k, &k->ins[i]);
        change[l.end[i]] -= weight(k, &k->ins[i]);
    }
    for (int c = 0; c < k->ncells; c++) {
        if (l.c_first[c] < 0) continue;
        change[l.c_first[c]] += k->cell[c].acc;
        change[l.c_end[c]] -= k->cell[c].acc;
    }
    double now = 0, most = 0;
    for (int i = 0; i < k->nins; i++) {
        now += change[i];
        if (now > most) most = now;
    }
    return most;
}

static bool too_much(const Demand *d) { /* or no number */
    const double *bytes[] = {&d->lane.global_read, &d->lane.global_write, &d->lane.private_read, &d->lane.private_write,
                             &d->row.global_read,  &d->row.global_write,  &d->row.private_read,  &d->row.private_write};
    double most = d->lane_rounds + d->lane_packs + d->collectives + d->barriers + d->shared_bytes;
    for (int i = 0; i < COUNT(bytes); i++) most += *bytes[i];
    for (int c = 0; c < COST_CLASSES; c++) most += d->lane_ops[c] + d->row_ops[c];
    return !(most <= too_large);
}

void kern_count(Cx *cx, const Kern *k, Demand *out) {
    Demand d = {.known = true,
                .launches = 1,
                .reductions = k->nreds,
                .stripe_slots = (double)k->stripes.live,
                .stripe_slots_sum = (double)k->stripes.sum};
    Tally t = {.k = k,
               .d = &d,
               .where = NEWN(cx->a, Where, k->nins),
               .seen = NEWN(cx->a, uint64_t, k->nins),
               .turn = NEWN(cx->a, double, k->nins),
               .level = NEWN(cx->a, double, k->nins)};
    count_nodes(&t, k->root, 1);
    d.first_read = first_read(&t, &d.weight_read);
    d.live_values = live_values(cx, k);
    host_count(cx, k, &d.host);
    for (int i = 0; i < k->nstripes; i++) {
        const Domain *dom = &k->domain[k->stripe[i].domain];
        if (k->stripe[i].home == HOLD_SHARED)
            d.shared_bytes += (double)dom->n_serial * (double)ceil_div(dom->n_mapped, plan_groups(&k->plan)) *
                              ty_bytes(k->stripe[i].ty) * k->plan.P * kern_buffers(k, i);
    }
    *out = too_much(&d) ? ((Demand){0}) : d;
}
