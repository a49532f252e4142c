/* Plan -> Kern: the sweeps of the schedule become nodes, their sinks instructions.
 *
 * Reductions come in four kinds, by what they keep of their domain's serial and mapped axes:
 *   lanes meet, nothing kept, or within one serial point    cells folded in the sweep, joined after it
 *   lanes meet, some serial axes kept, others reduced       joined at every serial point and added up in a row array
 *   no mapped axes                                          added up in a row array by every lane alike
 *   mapped axes kept                                        a stripe of accumulators: each lane adds up its own
 * elements */
#include "lower.h"

#include <math.h>
#include <string.h>

Num ty_num(Ty ty, double f, int64_t i) {
    Num n = {0};
    if (ty == TY_F32)
        n.f = (float)f;
    else if (ty == TY_F64)
        n.d = f;
    else if (ty == TY_BOOL)
        n.b = i != 0;
    else
        n.i = i;
    return n;
}

/* ---- nodes ---- */

int low_begin(Low *l, NodeKind kind, int domain, const char *note) {
    Kern *k = l->k;
    GROW(l->cx->a, k->node, k->nnodes, k->node_cap);
    int n = k->nnodes++;
    k->node[n] = (Node){.kind = kind,
                        .i0 = k->nins,
                        .i1 = k->nins,
                        .domain = domain,
                        .count = 1,
                        .child = -1,
                        .next = -1,
                        .note = note};
    l->b.memo0 = k->nins;
    l->domain = kind == NODE_SWEEP ? domain : -1;
    l->sweep_node += kind == NODE_SWEEP;
    l->tick++;
    return n;
}

void low_end(Low *l, int n) {
    Kern *k = l->k;
    k->node[n].i1 = k->nins;
    l->domain = -1;
    if (k->node[n].kind != NODE_LOOP && k->node[n].i0 == k->nins && n == k->nnodes - 1) {
        k->nnodes--; /* nothing in it */
        return;
    }
    if (l->tail >= 0)
        k->node[l->tail].next = n;
    else if (l->parent >= 0)
        k->node[l->parent].child = n;
    else
        k->root = n;
    l->tail = n;
}

int low_cell(Low *l, Ty ty, int acc, const char *name) {
    Kern *k = l->k;
    GROW(l->cx->a, k->cell, k->ncells, k->cell_cap);
    k->cell[k->ncells] = (Cell){ty, acc, name};
    return k->ncells++;
}

void low_init(Low *l, int cell, Ty ty, double f, int64_t i) {
    kb_ins(&l->b, (Ins){.k = K_INIT,
                        .ty = ty,
                        .rank = RANK_LANE,
                        .a = {-1, -1, -1},
                        .param = -1,
                        .imm = cell,
                        .c = ty_num(ty, f, i)});
}

int low_merge(Low *l, int cell, Op op) {
    int n = l->k->cell[cell].acc, part[64] = {0}; /* dims.def: at most 64 accumulators */
    for (int i = 0; i < n; i++)
        part[i] = kb_ins(&l->b, (Ins){.k = K_CELL,
                                      .ty = l->k->cell[cell].ty,
                                      .rank = RANK_LANE,
                                      .a = {-1, -1, -1},
                                      .param = -1,
                                      .imm = cell,
                                      .acc = i});
    for (int h = n / 2; h >= 1; h /= 2)
        for (int i = 0; i < h; i++) part[i] = kb_op(&l->b, op, part[i], part[i + h], -1);
    return part[0];
}

int low_join(Low *l, Op op, int x) {
    return kb_ins(&l->b,
                  (Ins){.k = K_JOIN, .op = op, .ty = l->k->ins[x].ty, .rank = RANK_ROW, .a = {x, -1, -1}, .param = -1});
}

static int new_stripe(Low *l, Ty ty, int domain, Hold home, const char *name) {
    Kern *k = l->k;
    GROW(l->cx->a, k->stripe, k->nstripes, k->stripe_cap);
    k->stripe[k->nstripes] =
        (Stripe){.ty = ty, .domain = domain, .home = home, .param = -1, .first = -1, .last = -1, .name = name};
    return k->nstripes++;
}

static int new_array(Low *l, Ty ty, int64_t n) {
    Kern *k = l->k;
    GROW(l->cx->a, k->array, k->narrays, k->array_cap);
    k->array[k->narrays] = (RowArray){ty, n};
    return k->narrays++;
}

static void row_put(Low *l, int array, int at, int x) {
    kb_ins(
        &l->b,
        (Ins){
            .k = K_ROWPUT, .ty = l->k->array[array].ty, .rank = RANK_ROW, .a = {at, x, -1}, .param = -1, .imm = array});
}

/* ---- reductions ---- */

static const Domain *red_dom(const Low *l, const Sink *s) {
    return &l->sc->domain[s->domain];
}

static bool is_arg(const Val *v) {
    return red_info(v->red)->join == RED_PAIR;
}
static Op arg_op(const Val *v) {
    return v->red == RED_ARGMAX ? OP_MAX : OP_MIN;
}

/* NVIDIA GPUs have one instruction for a maximum with NaN, and two for one without. */
bool low_passes(const Low *l, int val) {
    return l->pb->range[val].passes_nan && l->pb->caps.kind != KIND_CUDA;
}

/* What joins two elements. */
static Op red_op(const Low *l, const Val *v) {
    return low_passes(l, (int)(v - l->p->val)) ? OP_ATLEAST : (Op)red_info(v->red)->join;
}

/* What a reduction adds up, in the type it adds up in. */
static int operand(Low *l, const Val *v) {
    int x = low_val(l, v->a[0]);
    if (is_arg(v)) return x;
    return kb_cast(&l->b, v->red == RED_ANY || v->red == RED_ALL ? TY_BOOL : v->ty, x);
}

static Ty acc_type(const Low *l, const Val *v) {
    return is_arg(v) ? l->p->val[v->a[0]].ty : v->ty;
}

static Num identity(const Low *l, const Val *v) {
    Red r = v->red == RED_ARGMAX ? RED_MAX : v->red == RED_ARGMIN ? RED_MIN : v->red;
    Ty ty = acc_type(l, v);
    if (ty_is_float(ty)) return ty_num(ty, red_identity_f64(r, ty), 0);
    return ty_num(ty, 0, is_arg(v) ? ty_end(ty, r == RED_MIN) : red_identity_i64(r, ty));
}

static int num_const(Low *l, Ty ty, Num n) {
    return ty_is_float(ty) ? kb_const_f(&l->b, ty, num_f64(n, ty)) : kb_const_i(&l->b, ty, ty == TY_BOOL ? n.b : n.i);
}

/* Position within the reduced axes, row-major: what argmax and argmin give. */
static int position(Low *l, uint32_t over) {
    int at = -1;
    for (int i = 0; i < MAX_AXES; i++) {
        if (!(over >> i & 1)) continue;
        int c = low_coord(l, i);
        at = at < 0 ? c : kb_op(&l->b, OP_ADD, kb_op(&l->b, OP_MUL, at, low_points(l, 1u << i, TY_I64), -1), c, -1);
    }
    return at;
}

/* Element (x, at) beats the best so far (best, index): the rule of K_FOLD2 in plain operators, for accumulators that
 * are not cells. */
static int beats(Low *l, Op op, int x, int at, int best, int index) {
    int more = kb_op(&l->b, op == OP_MAX ? OP_GT : OP_LT, x, best, -1), tie = kb_op(&l->b, OP_EQ, x, best, -1);
    if (ty_is_float(l->k->ins[x].ty)) {
        int xn = kb_op(&l->b, OP_NE, x, x, -1), bn = kb_op(&l->b, OP_NE, best, best, -1);
        tie = kb_op(&l->b, OP_OR, tie, kb_op(&l->b, OP_AND, xn, bn, -1), -1);
        more = kb_op(&l->b, OP_OR, more, kb_op(&l->b, OP_AND, xn, kb_op(&l->b, OP_NOT, bn, -1, -1), -1), -1);
    }
    more = kb_op(&l->b, OP_OR, more, kb_op(&l->b, OP_AND, tie, kb_op(&l->b, OP_LT, at, index, -1), -1), -1);
    return kb_op(&l->b, OP_OR, kb_op(&l->b, OP_LT, index, kb_const_i(&l->b, TY_I64, 0), -1), more, -1);
}

typedef struct Home { /* where a reduction adds up: cells, row arrays or stripes, by its kind; second ones for an index
                       */
    Kept kept;
    int a, b;
    PairCells pair;
} Home;

static const Pair *pair_with(const Low *l, int v, bool *second) {
    for (int i = 0; i < l->sc->npairs; i++) {
        *second = l->sc->pair[i].second == v;
        if (*second || l->sc->pair[i].first == v) return &l->sc->pair[i];
    }
    return NULL;
}

/* Before the loop over serial points: what adds up across them starts here. */
static void red_before_loop(Low *l, const Sink *s, Home *h) {
    const Val *v = &l->p->val[s->at];
    const Domain *d = red_dom(l, s);
    Ty ty = acc_type(l, v);
    Num id = identity(l, v);
    uint32_t kept = d->axes & ~v->over;
    h->kept = sched_kept(l->sc, l->p, s);
    h->b = -1;
    if (h->kept == LANES_MEET && d->serial) {
        int n = low_begin(l, NODE_BLOCK, -1, NULL);
        h->a = low_cell(l, ty, is_arg(v) ? 1 : l->plan->acc, v->name);
        if (is_arg(v)) h->b = low_cell(l, TY_I64, 1, NULL);
        low_init(l, h->a, ty, num_f64(id, ty), id.i);
        if (h->b >= 0) low_init(l, h->b, TY_I64, 0, -1);
        low_end(l, n);
    } else if (h->kept == ADD_UP_ROW || h->kept == MEET_AND_ADD_UP) {
        int64_t points = 1;
        for (int i = 0; i < MAX_AXES; i++)
            if (kept >> i & 1) points *= l->s->n[i];
        h->a = new_array(l, ty, points);
        if (is_arg(v)) h->b = new_array(l, TY_I64, points);
        int parent = l->parent, loop = low_begin(l, NODE_LOOP, -1, "start");
        l->k->node[loop].count = points, l->k->node[loop].ranged = low_ranged(l, kept);
        low_end(l, loop);
        l->parent = loop, l->tail = -1;
        int n = low_begin(l, NODE_BLOCK, -1, NULL);
        int at = kb_ins(&l->b, (Ins){.k = K_SERIAL, .ty = TY_I64, .rank = RANK_ROW, .a = {-1, -1, -1}, .param = -1});
        row_put(l, h->a, at, num_const(l, ty, id));
        if (h->b >= 0) row_put(l, h->b, at, kb_const_i(&l->b, TY_I64, -1));
        low_end(l, n);
        l->parent = parent, l->tail = loop;
        l->red_array[s->at] = h->b >= 0 ? h->b : h->a;
    } else if (h->kept == ADD_UP_LANE) {
        int dom = -1;
        for (int i = 0; i < l->k->ndomains; i++)
            if (l->k->domain[i].axes == kept) dom = i;
        if (dom < 0) { /* the kept axes are swept by nothing else: a domain of the kern only */
            dom = l->k->ndomains++;
            Domain *q = &l->k->domain[dom];
            *q = (Domain){kept, kept & d->serial, d->mapped, 1, d->n_mapped};
            for (int i = 0; i < MAX_AXES; i++)
                if (q->serial >> i & 1) q->n_serial *= l->s->n[i];
        }
        h->a = new_stripe(l, ty, dom, HOLD_REGISTER, v->name);
        if (is_arg(v)) h->b = new_stripe(l, TY_I64, dom, HOLD_REGISTER, NULL);
        const Domain *q = &l->k->domain[dom];
        int parent = l->parent, loop = -1, at = -1;
        if (q->serial) {
            loop = low_begin(l, NODE_LOOP, -1, "start");
            l->k->node[loop].count = q->n_serial, l->k->node[loop].ranged = low_ranged(l, q->serial);
            low_end(l, loop);
            l->parent = loop, l->tail = -1;
            int n = low_begin(l, NODE_BLOCK, -1, NULL);
            at = kb_ins(&l->b, (Ins){.k = K_SERIAL, .ty = TY_I64, .rank = RANK_ROW, .a = {-1, -1, -1}, .param = -1});
            low_end(l, n);
        }
        int n = low_begin(l, NODE_SWEEP, dom, "start");
        for (int i = 0; i < (h->b >= 0 ? 2 : 1); i++)
            l->k->stripe[i ? h->b : h->a].first = l->k->stripe[i ? h->b : h->a].last = l->sweep_node;
        int x = num_const(l, ty, id);
        kb_ins(&l->b, (Ins){.k = K_PUT, .ty = ty, .rank = RANK_ELEM, .a = {at, x, -1}, .param = -1, .imm = h->a});
        if (h->b >= 0)
            kb_ins(&l->b, (Ins){.k = K_PUT,
                                .ty = TY_I64,
                                .rank = RANK_ELEM,
                                .a = {at, kb_const_i(&l->b, TY_I64, -1), -1},
                                .param = -1,
                                .imm = h->b});
        low_end(l, n);
        if (loop >= 0) l->parent = parent, l->tail = loop;
        l->red_stripe[s->at] = h->b >= 0 ? h->b : h->a;
    } else if (d->serial && sched_needed_outside(l->cx, l->sc, l->p, s)) {
        l->red_array[s->at] = new_array(l, v->ty, d->n_serial);
    }
}

/* Just before the sweep, within the serial point: cells that are joined after it. */
static void red_before_sweep(Low *l, const Sink *s, Home *h) {
    const Val *v = &l->p->val[s->at];
    bool second;
    const Pair *pr = pair_with(l, s->at, &second);
    if (pr) {
        if (second) pair_before(l, pr, &h->pair);
        return;
    }
    bool cells = h->kept == MEET_PER_POINT || h->kept == MEET_AND_ADD_UP || h->kept == SEGMENTS_MEET ||
                 (h->kept == LANES_MEET && !red_dom(l, s)->serial);
    if (!cells) return;
    Ty ty = acc_type(l, v);
    Num id = identity(l, v);
    int64_t chunks = ceil_div(red_dom(l, s)->n_mapped, (int64_t)plan_lanes(l->plan) * l->plan->V);
    int acc = h->kept == SEGMENTS_MEET ? (int)i64_max(chunks, 1) : l->plan->acc;
    int a = low_cell(l, ty, is_arg(v) ? 1 : acc, v->name), b = is_arg(v) ? low_cell(l, TY_I64, 1, NULL) : -1;
    low_init(l, a, ty, num_f64(id, ty), id.i);
    if (b >= 0) low_init(l, b, TY_I64, 0, -1);
    h->pair.cell[0] = a; /* MEET_AND_ADD_UP keeps its row arrays in a and b */
    h->pair.cell[1] = b;
    if (h->kept != MEET_AND_ADD_UP) h->a = a, h->b = b;
}

/* other: the index of an argmax, or the other factor of a product; -1: none */
static void add_up(Low *l, const Val *v, int x, int other, Home *h, int at, bool stripe) {
    Ty ty = acc_type(l, v);
    Ins get = {.k = stripe ? K_GET : K_ROWGET,
               .ty = ty,
               .rank = stripe ? RANK_ELEM : RANK_ROW,
               .a = {at, -1, -1},
               .param = -1,
               .imm = h->a};
    Ins put = {.k = stripe ? K_PUT : K_ROWPUT, .ty = ty, .rank = get.rank, .a = {at, -1, -1}, .param = -1, .imm = h->a};
    if (stripe) l->k->stripe[h->a].last = l->sweep_node;
    if (stripe && h->b >= 0) l->k->stripe[h->b].last = l->sweep_node;
    int old = kb_ins(&l->b, get);
    if (!is_arg(v)) {
        put.a[1] = other >= 0 ? kb_op(&l->b, OP_FMA, x, other, old) : kb_op(&l->b, red_op(l, v), old, x, -1);
        kb_ins(&l->b, put);
        return;
    }
    get.ty = TY_I64, get.imm = h->b;
    int where = kb_ins(&l->b, get), better = beats(l, arg_op(v), x, other, old, where);
    put.a[1] = kb_op(&l->b, OP_WHERE, better, x, old);
    kb_ins(&l->b, put);
    put.ty = TY_I64, put.imm = h->b;
    put.a[1] = kb_op(&l->b, OP_WHERE, better, other, where);
    kb_ins(&l->b, put);
}

static void red_sweep(Low *l, const Sink *s, Home *h) {
    const Val *v = &l->p->val[s->at];
    bool second;
    const Pair *pr = pair_with(l, s->at, &second);
    if (pr) {
        if (second) pair_sweep(l, pr, &h->pair);
        return;
    }
    const Val *product = low_taken(l, s->at);
    int x = product ? low_val(l, product->a[0]) : operand(l, v);
    int other = product ? low_val(l, product->a[1]) : is_arg(v) ? position(l, v->over) : -1;
    uint32_t kept = red_dom(l, s)->axes & ~v->over;
    if (h->kept == ADD_UP_ROW) {
        add_up(l, v, x, other, h, low_serial_index(l, kept), false);
    } else if (h->kept == ADD_UP_LANE) {
        uint32_t serial = l->k->domain[l->k->stripe[h->a].domain].serial;
        add_up(l, v, x, other, h, serial ? low_serial_index(l, serial) : -1, true);
    } else {
        int cell = h->kept == MEET_AND_ADD_UP ? h->pair.cell[0] : h->a;
        Ins f = {.k = is_arg(v) ? K_FOLD2 : K_FOLD,
                 .op = product     ? OP_FMA
                       : is_arg(v) ? arg_op(v)
                                   : red_op(l, v),
                 .ty = acc_type(l, v),
                 .rank = RANK_PACK,
                 .a = {x, other, -1},
                 .param = -1,
                 .imm = cell};
        kb_ins(&l->b, f);
    }
}

int low_segment(const Low *l, uint32_t over) {
    int64_t inner = 1;
    for (int i = 0; i < MAX_AXES; i++)
        if (over >> i & 1) inner *= l->s->n[i];
    return plan_segment(inner, l->plan->V, l->pb->caps.subgroup);
}

/* Each chunk's accumulator becomes what its segment's lanes have together. */
static void segments_meet(Low *l, const Val *v, int cell) {
    Ty ty = l->k->cell[cell].ty;
    for (int c = 0; c < l->k->cell[cell].acc; c++) {
        Ins own = {.k = K_CELL, .ty = ty, .rank = RANK_LANE, .a = {-1, -1, -1}, .param = -1, .imm = cell, .acc = c};
        int x = kb_ins(&l->b, own);
        Ins meet = {.k = K_MEET,
                    .op = red_op(l, v),
                    .ty = ty,
                    .rank = RANK_LANE,
                    .a = {x, -1, -1},
                    .param = -1,
                    .lanes = low_segment(l, v->over)};
        int m = kb_ins(&l->b, meet);
        Ins set = {.k = K_SETPART, .ty = ty, .rank = RANK_LANE, .a = {m, -1, -1}, .param = -1, .imm = cell, .acc = c};
        kb_ins(&l->b, set);
    }
}

/* After the sweep (or after the loop, for what adds up across serial points): lanes meet. */
static void red_join(Low *l, const Sink *s, Home *h) {
    const Val *v = &l->p->val[s->at];
    bool second;
    const Pair *pr = pair_with(l, s->at, &second);
    if (pr) {
        if (second) pair_after(l, pr, &h->pair);
        return;
    }
    if (h->kept == ADD_UP_ROW || h->kept == ADD_UP_LANE) return;
    if (h->kept == SEGMENTS_MEET) {
        segments_meet(l, v, h->a);
        l->red_part[s->at] = h->a;
        return;
    }
    bool sum = h->kept == MEET_AND_ADD_UP;
    int a = sum ? h->pair.cell[0] : h->a, value, index = -1;
    if (is_arg(v)) {
        int x = low_merge(l, a, arg_op(v)), i = low_merge(l, a + 1, arg_op(v));
        value = kb_ins(
            &l->b,
            (Ins){.k = K_JOIN2, .op = arg_op(v), .ty = acc_type(l, v), .rank = RANK_ROW, .a = {x, i, -1}, .param = -1});
        index = kb_ins(&l->b, (Ins){.k = K_JOIN2I, .ty = TY_I64, .rank = RANK_ROW, .a = {value, -1, -1}, .param = -1});
    } else {
        Op op = red_op(l, v);
        value = low_join(l, op, low_merge(l, a, op));
    }
    if (sum)
        add_up(l, v, value, is_arg(v) ? index : -1, h, low_serial_index(l, red_dom(l, s)->axes & ~v->over), false);
    else
        l->red_now[s->at] = is_arg(v) ? index : value;
}

/* ---- the row ---- */

static void lower_sink(Low *l, const Sink *s, Home *h) {
    if (s->kind == SINK_RED) {
        red_sweep(l, s, h);
    } else if (s->kind == SINK_FILL) {
        low_val(l, s->at);
    } else {
        const Out *o = &l->p->out[s->at];
        int c = l->cand_of[o->val];
        int x = low_val(l, o->val);
        bool there = c >= 0 && l->hold[c] == HOLD_OUTPUT &&
                     l->sc->cand[c].output == o->param; /* its home is this output: stored when made */
        if (!there) low_store(l, o->param, x);
    }
}

/* The value that a sink's sweep computes. */
static int sink_needs(const Low *l, const Sink *s) {
    bool second;
    const Pair *pr = s->kind == SINK_RED ? pair_with(l, s->at, &second) : NULL;
    return pr                    ? pr->x
           : s->kind == SINK_OUT ? l->p->out[s->at].val
           : s->kind == SINK_RED ? l->p->val[s->at].a[0]
                                 : s->at;
}

/* Does a sink of [w, end) read the value of candidate c out of its home? */
static bool reads_home(Low *l, int w, int end, int c) {
    const Prog *p = l->p;
    bool *uses = NEWN(l->cx->a, bool, p->nvals), any = false;
    uses[l->sc->cand[c].val] = true;
    for (int v = l->sc->cand[c].val + 1; v < p->nvals; v++) {
        int dep[MAX_DEPS], own = l->cand_of[v];
        if (p->val[v].op == OP_RED || (own >= 0 && hold_keeps(l->hold[own]) && l->filled[own] >= 0)) continue;
        for (int n = val_deps(p, &p->val[v], dep), i = 0; i < n; i++) uses[v] |= uses[dep[i]];
    }
    for (int q = w; q < end; q++) any |= uses[sink_needs(l, &l->sc->sink[q])];
    return any;
}

/* A sweep that stores an output in which another value lived until now reads that value first. */
static void read_homes(Low *l, int w, int end, int domain) {
    for (int q = w; q < end; q++) {
        const Sink *s = &l->sc->sink[q];
        for (int c = 0; s->kind == SINK_OUT && c < l->sc->ncands; c++) {
            const Cand *d = &l->sc->cand[c];
            const Out *o = &l->p->out[s->at];
            if (l->hold[c] != HOLD_OUTPUT || d->output != o->param || d->val == o->val || d->domain != domain) continue;
            if (l->filled[c] >= 0 && reads_home(l, w, end, c)) low_val(l, d->val);
        }
    }
}

/* All sinks of one phase and one set of serial axes: [i, j) of the schedule. */
static void lower_group(Low *l, int i, int j, Home *home) {
    const Sched *sc = l->sc;
    uint32_t serial = sc->domain[sc->sink[i].domain].serial;
    l->outer = sc->sink[i].outer;
    for (int s = i; s < j; s++)
        if (sc->sink[s].kind == SINK_RED) red_before_loop(l, &sc->sink[s], &home[s]);
    int loop = -1;
    if (serial) {
        loop = low_begin(l, NODE_LOOP, -1, NULL);
        l->k->node[loop].count = sc->domain[sc->sink[i].domain].n_serial;
        l->k->node[loop].ranged = low_ranged(l, serial);
        low_end(l, loop);
        l->parent = loop, l->tail = -1;
        int n = low_begin(l, NODE_BLOCK, -1, NULL);
        l->serial_index =
            kb_ins(&l->b, (Ins){.k = K_SERIAL, .ty = TY_I64, .rank = RANK_ROW, .a = {-1, -1, -1}, .param = -1});
        l->serial = serial;
        low_end(l, n);
    }
    for (int s = i; s < j;) {
        int inner = sc->sink[s].inner, level_end = s;
        while (level_end < j && sc->sink[level_end].inner == inner) level_end++;
        for (int w = s; w < level_end;) { /* one sweep */
            int end = w, domain = sc->sink[w].domain;
            while (end < level_end && sc->sink[end].sweep == sc->sink[w].sweep) end++;
            l->sweep = sc->sink[w].sweep;
            int n = low_begin(l, NODE_BLOCK, -1, NULL);
            for (int q = w; q < end; q++)
                if (sc->sink[q].kind == SINK_RED) red_before_sweep(l, &sc->sink[q], &home[q]);
            int before = l->k->node[n].i0, tick = l->tick;
            for (int q = w; q < end && sc->domain[domain].mapped; q++)
                low_hoist(l, sink_needs(l, &sc->sink[q]), domain);
            low_end(l, n);
            n = low_begin(l, sc->domain[domain].mapped ? NODE_SWEEP : NODE_BLOCK, domain, NULL);
            l->b.memo0 = before, l->tick = tick; /* what the block made is in scope */
            if (sc->domain[domain].mapped) read_homes(l, w, end, domain);
            for (int q = w; q < end; q++) lower_sink(l, &sc->sink[q], &home[q]);
            low_end(l, n);
            w = end;
        }
        int n = low_begin(l, NODE_BLOCK, -1, NULL); /* joins of one level stand together: they can share an exchange */
        for (int q = s; q < level_end; q++) {
            const Sink *r = &sc->sink[q];
            if (r->kind != SINK_RED || (serial && home[q].kept == LANES_MEET)) continue;
            red_join(l, r, &home[q]);
            bool second;
            const Pair *pr = pair_with(l, r->at, &second);
            if (pr && !second) continue;
            for (int v = 0; v < (pr ? 2 : 1); v++) {
                int at = pr && v == 0 ? pr->first : r->at;
                if (serial && l->red_now[at] >= 0 && l->red_array[at] >= 0)
                    row_put(l, l->red_array[at], l->serial_index, l->red_now[at]);
            }
        }
        low_end(l, n);
        s = level_end;
    }
    if (serial) {
        l->parent = -1, l->tail = loop;
        l->serial = 0, l->serial_index = -1;
        for (int q = i; q < j; q++) /* what was in scope within the loop only */
            if (sc->sink[q].kind == SINK_RED) l->red_now[sc->sink[q].at] = -1;
        int n = low_begin(l, NODE_BLOCK, -1, NULL);
        for (int q = i; q < j; q++)
            if (sc->sink[q].kind == SINK_RED && home[q].kept == LANES_MEET) red_join(l, &sc->sink[q], &home[q]);
        low_end(l, n);
    }
}

static void make_holds(Low *l) {
    for (int i = 0; i < l->p->nvals; i++) l->cand_of[i] = -1;
    for (int i = 0; i < l->sc->ncands; i++) {
        const Cand *c = &l->sc->cand[i];
        l->cand_of[c->val] = i;
        l->hold[i] = plan_hold(l->plan, c->name);
        l->filled[i] = l->stripe[i] = -1;
        if (l->hold[i] == HOLD_REGISTER || l->hold[i] == HOLD_SHARED)
            l->stripe[i] = new_stripe(l, c->storage, c->domain, l->hold[i], c->name);
        if (l->hold[i] == HOLD_OUTPUT) {
            l->stripe[i] = new_stripe(l, c->storage, c->domain, HOLD_OUTPUT, c->name);
            l->k->stripe[l->stripe[i]].param = c->output;
        }
        if (l->hold[i] == HOLD_REGISTER32)
            l->stripe[i] = new_stripe(l, ty_compute(c->storage), c->domain, HOLD_REGISTER, c->name);
    }
}

/* Before the first row: what all rows share and the plan keeps for them comes into its stripes, a sweep for each index
 * space. */
static void lower_once(Low *l) {
    bool any = false;
    for (int i = 0; i < l->sc->ncands; i++) any |= low_is_once(l, i);
    if (!any) return;
    int n = low_begin(l, NODE_BLOCK, -1, "group");
    l->k->node[n].once = true;
    low_prologue_once(l);
    low_end(l, n);
    for (int d = 0; d < l->sc->ndomains; d++) {
        any = false;
        for (int i = 0; i < l->sc->ncands; i++) any |= low_is_once(l, i) && l->sc->cand[i].domain == d;
        if (!any) continue;
        n = low_begin(l, NODE_SWEEP, d, NULL);
        l->k->node[n].once = true;
        for (int i = 0; i < l->sc->ncands; i++)
            if (low_is_once(l, i) && l->sc->cand[i].domain == d) low_val(l, l->sc->cand[i].val);
        low_end(l, n);
    }
}

/* Stripes that nothing fills go: what needed the value is kept itself, or it is the fill of a read that is never
 * outside. */
static void drop_idle(Low *l) {
    Kern *k = l->k;
    int *now = NEWN(l->cx->a, int, k->nstripes + 1), n = 0;
    for (int s = 0; s < k->nstripes; s++) {
        now[s] = n;
        if (k->stripe[s].first >= 0) k->stripe[n++] = k->stripe[s];
    }
    k->nstripes = n;
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_GET || k->ins[i].k == K_PUT) k->ins[i].imm = now[k->ins[i].imm];
}

Err kern_lower(Cx *cx, const Problem *pb, const Plan *plan, Kern **out) {
    Sched *sc = NEW(cx->a, Sched);
    Kern *k = NEW(cx->a, Kern);
    Err err = plan_check(cx, pb, plan, sc, &k->stripes);
    if (err) return err;
    const Prog *p = pb->prog;
    k->name = p->name, k->prog = p, k->shape = pb->shape, k->plan = *plan;
    k->subgroup = pb->caps.subgroup, k->poly = pb->caps.poly_math || plan->exp == EXP_OWN;
    k->root = -1, k->nreds = sc->nreds, k->ndomains = sc->ndomains;
    memcpy(k->domain, sc->domain, sizeof k->domain);
    abi_of(p, &k->abi);
    Low *l = NEW(cx->a, Low);
    *l = (Low){.cx = cx, .pb = pb, .p = p, .s = &pb->shape, .plan = plan, .sc = sc, .k = k, .b = {.cx = cx, .k = k}};
    l->ranged = shape_ranged(&pb->shape);
    l->domain = l->serial_index = l->parent = l->tail = l->sweep_node = -1;
    int n = p->nvals + 1;
    l->memo = NEWN(cx->a, int, n), l->stamp = NEWN(cx->a, int, n), l->hoisted = NEWN(cx->a, int, n),
    l->cand_of = NEWN(cx->a, int, n);
    l->red_now = NEWN(cx->a, int, n), l->red_array = NEWN(cx->a, int, n), l->red_stripe = NEWN(cx->a, int, n);
    l->red_part = NEWN(cx->a, int, n);
    for (int i = 0; i < n; i++) l->red_now[i] = l->red_array[i] = l->red_stripe[i] = l->red_part[i] = -1;
    make_holds(l);
    lower_once(l);
    int head = low_begin(l, NODE_BLOCK, -1, "row");
    low_prologue(l);
    low_end(l, head);
    Home *home = NEWN(cx->a, Home, MAX_SINKS);
    for (int i = 0; i < sc->nsinks;) {
        int j = i;
        while (j < sc->nsinks && sc->sink[j].outer == sc->sink[i].outer &&
               sc->domain[sc->sink[j].domain].serial == sc->domain[sc->sink[i].domain].serial)
            j++;
        lower_group(l, i, j, home);
        i = j;
    }
    k->nsweeps = l->sweep_node + 1;
    drop_idle(l);
    err = kern_verify(cx, k);
    if (err) return err;
    *out = k;
    return OK;
}
