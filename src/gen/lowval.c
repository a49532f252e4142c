/* Values and addresses: a tile of Prog becomes instructions at the place where lowering stands (a sweep over a domain,
 * or a block). */
#include "lower.h"

#include <math.h>

static int ins(Low *l, Ins i) {
    return kb_ins(&l->b, i);
}

static Rank rank_of(const Low *l, int x) {
    return x < 0 ? RANK_ROW : l->k->ins[x].rank;
}

static int c64(Low *l, int64_t x) {
    return kb_const_i(&l->b, TY_I64, x);
}

static int add64(Low *l, int x, int y) {
    return x < 0 ? y : y < 0 ? x : kb_op(&l->b, OP_ADD, x, y, -1);
}

static int mul64(Low *l, int x, int y) {
    return kb_op(&l->b, OP_MUL, x, y, -1);
}

static bool is_row(const Low *l, int axis) {
    return l->p->row_axes >> axis & 1;
}

/* ---- extents and strides ---- */

bool low_ranged(const Low *l, uint32_t axes) {
    return l->ranged >= 0 && axes >> l->ranged & 1;
}

static int64_t fixed_points(const Low *l, uint32_t axes) { /* the ranged axis apart */
    int64_t n = 1;
    for (int i = 0; i < MAX_AXES; i++)
        if (axes >> i & 1 && i != l->ranged) n *= l->s->n[i];
    return n;
}

int low_points(Low *l, uint32_t axes, Ty ty) {
    const int64_t n = fixed_points(l, axes);
    if (!low_ranged(l, axes)) return kb_const_i(&l->b, ty, n);
    int extent = l->extent[ty == TY_I32];
    return n == 1 ? extent : kb_op(&l->b, OP_MUL, extent, kb_const_i(&l->b, ty, n), -1);
}

/* Is a dimension's stride the product of the extents after it? Then those axes; no run-time argument has it. */
static bool dense_stride(const Low *l, int param, int dim, uint32_t *after) {
    const Param *p = &l->p->param[param];
    if (is_row(l, p->axis[dim]) || l->pb->strided >> param & 1) return false;
    *after = 0;
    for (int d = dim + 1; d < p->rank; d++) {
        if (is_row(l, p->axis[d])) return false;
        *after |= 1u << p->axis[d];
    }
    return true;
}

static int stride_of(Low *l, int param, int dim) {
    uint32_t after;
    return dense_stride(l, param, dim, &after) ? low_points(l, after, TY_I64) : l->stride[param][dim];
}

/* A scalar's value, or a tensor's strides that come with the launch and the row's place in it. */
static void place_param(Low *l, int q) {
    const Prog *p = l->p;
    const Param *a = &p->param[q];
    if (a->dir == DIR_SCALAR) {
        Ty slot = ty_is_float(a->ty) ? TY_F64 : TY_I64;
        int x = ins(l, (Ins){.k = K_SLOT,
                             .ty = slot,
                             .rank = RANK_ROW,
                             .a = {-1, -1, -1},
                             .param = -1,
                             .imm = l->k->abi.scalar[q],
                             .note = a->name});
        l->scalar[q] = kb_cast(&l->b, a->ty, x);
        if (q != prog_extent(p, l->s)) return;
        l->extent[0] = x;
        if (l->plan->index == 32) l->extent[1] = kb_cast(&l->b, TY_I32, x);
    }
    if (a->dir == DIR_SCALAR || a->dir == DIR_CONST) return;
    int base = -1;
    for (int d = 0; d < a->rank; d++) {
        uint32_t after;
        l->stride[q][d] = -1;
        if (dense_stride(l, q, d, &after)) continue;
        l->stride[q][d] = ins(l, (Ins){.k = K_SLOT,
                                       .ty = TY_I64,
                                       .rank = RANK_ROW,
                                       .a = {-1, -1, -1},
                                       .param = -1,
                                       .imm = l->k->abi.stride[q][d]});
        if (is_row(l, a->axis[d])) base = add64(l, base, mul64(l, l->row_coord[a->axis[d]], l->stride[q][d]));
    }
    l->row_base[q] = base < 0 ? c64(l, 0) : base;
}

void low_prologue(Low *l) {
    const Prog *p = l->p;
    int row =
        ins(l, (Ins){.k = K_ROWIDX, .ty = TY_I64, .rank = RANK_ROW, .a = {-1, -1, -1}, .param = -1, .note = "row"});
    int left = row, axes[MAX_AXES], n = 0;
    for (int i = 0; i < p->naxes; i++)
        if (is_row(l, i)) axes[n++] = i;
    for (int k = n - 1; k >= 0; k--) { /* the last row axis is the fastest of the row's number */
        int ext = ins(l, (Ins){.k = K_SLOT,
                               .ty = TY_I64,
                               .rank = RANK_ROW,
                               .a = {-1, -1, -1},
                               .param = -1,
                               .imm = l->k->abi.row[axes[k]]});
        l->row_coord[axes[k]] = k ? kb_op(&l->b, OP_MOD, left, ext, -1) : left;
        if (k) left = kb_op(&l->b, OP_DIV, left, ext, -1);
    }
    for (int q = 0; q < p->nparams; q++)
        if (!l->placed[q]) place_param(l, q);
}

bool low_is_once(const Low *l, int cand) {
    return l->sc->cand[cand].once && hold_keeps(l->hold[cand]);
}

void low_prologue_once(Low *l) {
    for (int q = 0; q < l->p->nparams; q++) {
        bool once = q == prog_extent(l->p, l->s);
        for (int i = 0; i < l->sc->ncands; i++) once |= low_is_once(l, i) && l->p->val[l->sc->cand[i].val].param == q;
        if (once) place_param(l, q);
        l->placed[q] = once;
    }
}

/* ---- coordinates ---- */

/* Coordinate of one axis within a number that counts the points of `axes`, last axis fastest. */
static int decode(Low *l, int number, uint32_t axes, int axis, Ty ty) {
    const uint32_t below = axes & ((1u << axis) - 1), above = axes & ~below & ~(1u << axis);
    int x = number;
    if (low_ranged(l, above) || fixed_points(l, above) > 1)
        x = kb_op(&l->b, OP_DIV, number, low_points(l, above, ty), -1);
    return below ? kb_op(&l->b, OP_MOD, x, low_points(l, 1u << axis, ty), -1) : x;
}

static int elem_index(Low *l) {
    Ty ty = l->plan->index == 32 ? TY_I32 : TY_I64;
    return ins(l, (Ins){.k = K_ELEM, .ty = ty, .rank = RANK_ELEM, .a = {-1, -1, -1}, .param = -1});
}

int low_coord(Low *l, int axis) {
    if (is_row(l, axis)) return l->row_coord[axis];
    if (l->serial >> axis & 1) return decode(l, l->serial_index, l->serial, axis, TY_I64);
    if (l->at_first || l->domain < 0) return c64(l, 0);
    if (l->seg_lanes) {
        Ins seg = {.k = K_SEG, .ty = TY_I64, .rank = RANK_PACK, .a = {-1, -1, -1}, .param = -1, .lanes = l->seg_lanes};
        return decode(l, ins(l, seg), l->seg_axes, axis, TY_I64);
    }
    Ty ty = l->plan->index == 32 ? TY_I32 : TY_I64;
    int x = decode(l, elem_index(l), l->k->domain[l->domain].mapped, axis, ty);
    return kb_cast(&l->b, TY_I64, x);
}

int low_serial_index(Low *l, uint32_t axes) {
    if (axes && axes == l->serial) return l->serial_index;
    int at = -1;
    for (int i = 0; i < MAX_AXES; i++) {
        if (!(axes >> i & 1)) continue;
        int c = low_coord(l, i);
        at = at < 0 ? c : add64(l, mul64(l, at, low_points(l, 1u << i, TY_I64)), c);
    }
    return at < 0 ? c64(l, 0) : at;
}

/* ---- tensors ---- */

/* Address of the in-place element: rows and serial coordinates in `base`; the mapped part as e*stride where it can be
 * (pack), else in an index of its own. Of a gather that reads a part, NULL if there is none, constants stand in the
 * place of some coordinates. */
typedef struct Addr {
    int base; /* ROW, i64 */
    bool pack;
    int stride; /* of a pack: -1 is 1 */
    int index;  /* ELEM, i64: the whole address, where !pack and some axis is mapped; else -1 */
} Addr;

static Addr address(Low *l, int param, const Val *part) {
    const Param *p = &l->p->param[param];
    uint32_t mapped = l->domain >= 0 && !l->at_first ? l->k->domain[l->domain].mapped : 0;
    Addr a = {l->row_base[param], false, -1, -1};
    int first = -1, nmapped = 0;
    bool in_order = true;
    for (int d = 0; d < p->rank; d++) {
        int x = p->axis[d];
        if (is_row(l, x)) continue;
        const Val *at = part && l->p->val[part->idx[d]].op == OP_CONST ? &l->p->val[part->idx[d]] : NULL;
        if (at) {
            if (at->k.i) a.base = add64(l, a.base, mul64(l, c64(l, at->k.i), stride_of(l, param, d)));
        } else if (mapped >> x & 1) {
            if (first < 0)
                first = d;
            else
                in_order = in_order && d == first + nmapped && p->axis[d - 1] < x;
            nmapped++;
        } else {
            int c = low_coord(l, x);
            if (l->k->ins[c].k != K_CONST || l->k->ins[c].c.i != 0)
                a.base = add64(l, a.base, mul64(l, c, stride_of(l, param, d)));
        }
    }
    if (!nmapped) return a;
    uint32_t after = 0;
    int last = first + nmapped - 1;
    bool whole = nmapped == __builtin_popcount(mapped), known = dense_stride(l, param, last, &after);
    if (in_order && whole && (known || nmapped == 1)) {
        bool one = known && !low_ranged(l, after) && fixed_points(l, after) == 1;
        a.pack = true;
        a.stride = one ? -1 : stride_of(l, param, last);
        return a;
    }
    a.index = a.base;
    for (int d = 0; d < p->rank; d++)
        if (!is_row(l, p->axis[d]) && mapped >> p->axis[d] & 1 && !(part && l->p->val[part->idx[d]].op == OP_CONST)) {
            int c = low_coord(l, p->axis[d]);
            a.index = add64(l, a.index, mul64(l, c, stride_of(l, param, d)));
        }
    return a;
}

static int load_at(Low *l, int param, Addr a, int policy) {
    const Param *p = &l->p->param[param];
    Ins i = {.ty = ty_compute(p->ty), .param = param, .policy = policy, .note = p->name};
    if (a.pack) {
        i.k = K_LOADP, i.rank = RANK_ELEM;
        i.a[0] = a.base, i.a[1] = a.stride, i.a[2] = -1;
    } else {
        i.k = K_LOAD1, i.a[0] = a.index >= 0 ? a.index : a.base, i.a[1] = i.a[2] = -1;
        i.rank = rank_of(l, i.a[0]);
    }
    return ins(l, i);
}

int low_load_home(Low *l, int param) {
    return load_at(l, param, address(l, param, NULL), LOAD_PLAIN);
}

/* An output of one value a segment. */
static void store_segment(Low *l, int param, uint32_t over, int x) {
    const Param *p = &l->p->param[param];
    l->seg_axes = l->k->domain[l->domain].mapped & ~over;
    l->seg_lanes = low_segment(l, over);
    int at = l->row_base[param];
    for (int d = 0; d < p->rank; d++) {
        if (is_row(l, p->axis[d])) continue;
        int c = low_coord(l, p->axis[d]);
        at = add64(l, at, mul64(l, c, stride_of(l, param, d)));
    }
    Ins i = {.k = K_STORES,
             .ty = l->k->ins[x].ty,
             .rank = RANK_ELEM,
             .param = param,
             .policy = l->plan->store,
             .note = p->name};
    i.lanes = l->seg_lanes;
    i.a[0] = at, i.a[1] = -1, i.a[2] = x;
    ins(l, i);
    l->seg_lanes = 0;
}

void low_store(Low *l, int param, int x) {
    const Param *p = &l->p->param[param];
    uint32_t over = l->sc->segments && l->domain >= 0 ? l->k->domain[l->domain].mapped : 0;
    for (int d = 0; d < p->rank; d++) over &= ~(1u << p->axis[d]);
    if (over) {
        store_segment(l, param, over, x);
        return;
    }
    Addr a = address(l, param, NULL);
    Ins i = {.ty = l->k->ins[x].ty, .param = param, .policy = l->plan->store, .note = p->name};
    i.k = a.pack ? K_STOREP : K_STORE1;
    i.a[0] = a.pack ? a.base : a.index >= 0 ? a.index : a.base;
    i.a[1] = a.pack ? a.stride : -1;
    i.a[2] = x;
    i.rank = a.pack || a.index >= 0 ? RANK_ELEM : RANK_ROW;
    ins(l, i);
}

static bool is_own(const Low *l, const Val *v, int dim) { /* is the index of a gather the axis's own coordinate? */
    const Val *iv = &l->p->val[v->idx[dim]];
    return iv->op == OP_IDX && iv->axis == l->p->param[v->param].axis[dim];
}

/* A read like x[rows, 2, n]: constants within the extents beside own coordinates. It is as regular as a read in place,
 * from a part of the tensor. */
static bool gathers_part(const Low *l, const Val *v) {
    const Param *p = &l->p->param[v->param];
    for (int d = 0; d < p->rank; d++) {
        const Val *iv = &l->p->val[v->idx[d]];
        if (is_own(l, v, d)) continue;
        const int64_t n = p->axis[d] == l->ranged ? l->s->least[l->ranged] : l->s->n[p->axis[d]];
        if (iv->op != OP_CONST || is_row(l, p->axis[d]) || iv->k.i < 0 || iv->k.i >= n) return false;
    }
    return problem_in_runs(l->pb) && l->domain >= 0;
}

/* A read at another index: the address from all dimensions, a guard for each index that is not the axis's own
 * coordinate. */
static int gather(Low *l, const Val *v) {
    const Param *p = &l->p->param[v->param];
    int at = -1, guard = -1;
    if (gathers_part(l, v)) return load_at(l, v->param, address(l, v->param, v), LOAD_PLAIN);
    for (int d = 0; d < p->rank; d++) {
        int axis = p->axis[d];
        int x = kb_cast(&l->b, TY_I64, low_val(l, v->idx[d]));
        at = add64(l, at, mul64(l, x, stride_of(l, v->param, d)));
        if (is_own(l, v, d)) continue;
        int ext = is_row(l, axis) ? ins(l, (Ins){.k = K_SLOT,
                                                 .ty = TY_I64,
                                                 .rank = RANK_ROW,
                                                 .a = {-1, -1, -1},
                                                 .param = -1,
                                                 .imm = l->k->abi.row[axis]})
                                  : low_points(l, 1u << axis, TY_I64);
        int from = kb_op(&l->b, OP_GE, x, c64(l, 0), -1), to = kb_op(&l->b, OP_LT, x, ext, -1);
        int in = kb_op(&l->b, OP_AND, from, to, -1);
        guard = guard < 0 ? in : kb_op(&l->b, OP_AND, guard, in, -1);
    }
    Ty ty = ty_compute(p->ty);
    int fill = -1;
    if (guard >= 0)
        fill = v->fill >= 0      ? low_val(l, v->fill)
               : ty_is_float(ty) ? kb_const_f(&l->b, ty, NAN)
                                 : kb_const_i(&l->b, ty, 0);
    if (at < 0) at = c64(l, 0); /* a tensor without dimensions */
    Rank r = rank_of(l, at);
    if (rank_of(l, guard) > r) r = rank_of(l, guard);
    if (rank_of(l, fill) > r) r = rank_of(l, fill);
    return ins(l, (Ins){.k = K_LOAD1,
                        .ty = ty,
                        .rank = r,
                        .a = {at, guard, fill},
                        .param = v->param,
                        .policy = LOAD_PLAIN,
                        .note = p->name});
}

/* ---- values ---- */

static int reduction(Low *l, int v) {
    if (l->red_part[v] >= 0)
        return ins(l, (Ins){.k = K_PART,
                            .ty = l->p->val[v].ty,
                            .rank = RANK_PACK,
                            .a = {-1, -1, -1},
                            .param = -1,
                            .imm = l->red_part[v]});
    if (l->red_stripe[v] >= 0) {
        Stripe *s = &l->k->stripe[l->red_stripe[v]];
        s->last = l->sweep_node;
        uint32_t serial = l->k->domain[s->domain].serial;
        int at = serial ? low_serial_index(l, serial) : -1;
        return ins(l, (Ins){.k = K_GET,
                            .ty = l->p->val[v].ty,
                            .rank = RANK_ELEM,
                            .a = {at, -1, -1},
                            .param = -1,
                            .imm = l->red_stripe[v]});
    }
    if (l->red_now[v] >= 0) return l->red_now[v];
    uint32_t axes = l->p->val[v].axes & ~l->p->row_axes;
    return ins(l, (Ins){.k = K_ROWGET,
                        .ty = l->p->val[v].ty,
                        .rank = RANK_ROW,
                        .a = {low_serial_index(l, axes), -1, -1},
                        .param = -1,
                        .imm = l->red_array[v]});
}

/* x / u as (x p) (1 / m), p a power of two and m = u p: m lies in [0.5, 4), or is a subnormal u times 2^126, so neither
 * factor leaves the range before the quotient does. 0, inf and NaN keep p = 1, and 1 / m gives what x / u would. */
typedef struct Recip {
    int p, r; /* p -1: it is 1 for every u that this value can take */
} Recip;

static Recip reciprocal(Low *l, int u, const Range *of_u) {
    Kb *b = &l->b;
    if (of_u->lo >= 0x1p-120 && of_u->most <= 0x1p120) /* 1 / u is 0, NaN or an ordinary number: never a subnormal */
        return (Recip){-1, kb_op(b, OP_DIV, kb_const_f(b, TY_F32, 1), u, -1)};
    int zero = kb_const_f(b, TY_F32, 0), one = kb_const_f(b, TY_F32, 1), inf = kb_const_f(b, TY_F32, INFINITY);
    int size = kb_op(b, OP_ABS, u, -1, -1), some = kb_op(b, OP_GT, size, zero, -1),
        finite = kb_op(b, OP_LT, size, inf, -1);
    int number = kb_op(b, OP_AND, some, finite, -1), places = kb_const_i(b, TY_I32, 23);
    int field = kb_op(b, OP_SHR, kb_bits(b, TY_I32, size), places, -1),
        most = kb_op(b, OP_MIN, field, kb_const_i(b, TY_I32, 252), -1);
    int biased = kb_op(b, OP_SUB, kb_const_i(b, TY_I32, 253), most, -1);
    int power = kb_bits(b, TY_F32, kb_op(b, OP_SHL, biased, places, -1)), p = kb_op(b, OP_WHERE, number, power, one);
    return (Recip){p, kb_op(b, OP_DIV, one, kb_op(b, OP_MUL, u, p, -1), -1)};
}

static bool by_reciprocal(const Low *l, const Val *v) {
    return v->op == OP_DIV && v->ty == TY_F32 && l->plan->div == DIV_RECIPROCAL && l->p->val[v->a[1]].op != OP_CONST;
}

const Val *low_taken(const Low *l, int val) {
    const int i = l->plan->contract ? l->pb->takes[val] : -1;
    return i < 0 ? NULL : &l->p->val[l->p->val[val].a[i]];
}

/* x y + z, x y - z or z - x y, rounded once; of two factors the one is negated that is the same for more elements. */
static int contracted(Low *l, const Val *v, const Val *product) {
    const bool second = product == &l->p->val[v->a[1]];
    int x = low_val(l, product->a[0]), y = low_val(l, product->a[1]), z = low_val(l, v->a[!second]);
    int *negated = !second ? &z : rank_of(l, y) < rank_of(l, x) ? &y : &x;
    if (v->op == OP_SUB) *negated = kb_op(&l->b, OP_NEG, *negated, -1, -1);
    return kb_op(&l->b, OP_FMA, x, y, z);
}

static int compute(Low *l, int val) {
    const Val *v = &l->p->val[val];
    int x[3] = {-1, -1, -1};
    switch (v->op) {
    case OP_CONST:
        return ty_is_float(v->ty) ? kb_const_f(&l->b, v->ty, num_f64(v->k, v->ty))
                                  : kb_const_i(&l->b, v->ty, v->ty == TY_BOOL ? v->k.b : v->k.i);
    case OP_SCALAR: return l->scalar[v->param];
    case OP_IDX: return low_coord(l, v->axis);
    case OP_RED: return reduction(l, val);
    case OP_LOAD:
        if (!val_in_place(l->p, v)) return gather(l, v);
        return load_at(l, v->param, address(l, v->param, NULL), l->plan->load);
    default: break;
    }
    if (low_taken(l, val)) return contracted(l, v, low_taken(l, val));
    for (int i = 0; i < op_info(v->op)->arity; i++) x[i] = low_val(l, v->a[i]);
    /* of the row, or of a segment: one value for all elements of a pack at least */
    if (by_reciprocal(l, v) && rank_of(l, x[0]) == RANK_ELEM &&
        (rank_of(l, x[1]) == RANK_ROW || rank_of(l, x[1]) == RANK_PACK)) {
        Recip q = reciprocal(l, x[1], &l->pb->range[v->a[1]]);
        int scaled = q.p < 0 ? x[0] : kb_op(&l->b, OP_MUL, x[0], q.p, -1);
        return kb_op(&l->b, OP_MUL, scaled, q.r, -1);
    }
    if (v->op == OP_CAST) return kb_cast(&l->b, v->to, x[0]);
    if (v->op == OP_BITS) return kb_bits(&l->b, v->to, x[0]);
    if (l->k->poly && v->ty == TY_F32 && op_info(v->op)->cost == COST_SPECIAL)
        return math_expand(&l->b, v->op, x[0], x[1], &l->pb->range[v->a[0]]);
    return kb_op(&l->b, v->op, x[0], x[1], x[2]);
}

/* The value out of its home, or made and put there by the first sweep of its domain that needs it. */
static int held(Low *l, int val, int c) {
    const Cand *cand = &l->sc->cand[c];
    Domain *d = &l->k->domain[cand->domain];
    int at = d->serial ? low_serial_index(l, d->serial) : -1;
    Stripe *s = &l->k->stripe[l->stripe[c]];
    if (l->hold[c] == HOLD_OUTPUT) {
        if (l->filled[c] >= 0) {
            s->last = l->sweep_node;
            return low_load_home(l, cand->output);
        }
        int x = compute(l, val);
        low_store(l, cand->output, x);
        l->k->ins[l->k->nins - 1].policy =
            STORE_PLAIN; /* it is read back: streaming over lines just written costs twice */
        s->first = s->last = l->sweep_node;
        l->filled[c] = l->sweep;
        return x;
    }
    if (l->filled[c] >= 0) {
        s->last = l->sweep_node;
        return ins(l, (Ins){.k = K_GET,
                            .ty = ty_compute(s->ty),
                            .rank = RANK_ELEM,
                            .a = {at, -1, -1},
                            .param = -1,
                            .imm = l->stripe[c],
                            .note = cand->name});
    }
    int x = compute(l, val);
    ins(l, (Ins){.k = K_PUT,
                 .ty = l->k->ins[x].ty,
                 .rank = RANK_ELEM,
                 .a = {at, x, -1},
                 .param = -1,
                 .imm = l->stripe[c],
                 .note = cand->name});
    s->first = s->last = l->sweep_node;
    l->filled[c] = l->sweep;
    return x;
}

static bool keeps(const Low *l, int c, int domain) {
    return c >= 0 && l->sc->cand[c].domain == domain && hold_keeps(l->hold[c]);
}

void low_hoist(Low *l, int val, int domain) {
    const Val *v = &l->p->val[val];
    int c = l->cand_of[val], dep[MAX_DEPS];
    if (l->stamp[val] == l->tick || l->hoisted[val] == l->tick || v->op == OP_CONST || v->op == OP_SCALAR) return;
    l->hoisted[val] = l->tick;
    if (keeps(l, c, domain) && l->filled[c] >= 0) return; /* comes from its home */
    if (!(v->axes & l->k->domain[domain].mapped)) {
        low_val(l, val);
        return;
    }
    if (v->op == OP_RED) return;
    for (int n = val_deps(l->p, v, dep), i = 0; i < n; i++) low_hoist(l, dep[i], domain);
    if (by_reciprocal(l, v) && !(l->p->val[v->a[1]].axes & l->k->domain[domain].mapped))
        reciprocal(l, low_val(l, v->a[1]), &l->pb->range[v->a[1]]);
}

int low_val(Low *l, int val) {
    if (l->stamp[val] == l->tick) return l->memo[val];
    int c = l->cand_of[val];
    int x = l->domain >= 0 && !l->at_first && keeps(l, c, l->domain) ? held(l, val, c) : compute(l, val);
    const Val *v = &l->p->val[val];
    if (v->name && !l->k->ins[x].note) l->k->ins[x].note = v->name;
    l->stamp[val] = l->tick;
    l->memo[val] = x;
    return x;
}
