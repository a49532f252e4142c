/* Kern -> which of its i64 values a host unit may spell with 32 bits. Element numbers and what is made of them are i64
 * in the language; a register of 16 of those is two, and compilers take it apart into scalars. Where the extents say
 * that a value fits, 32 bits have the same value, and every use of it the same meaning. */
#include "emit.h"

typedef struct Span { /* of an integer; lo > hi: not known */
    int64_t lo, hi;
} Span;

static const Span unknown = {1, 0};

/* Bounds stay far from where their own arithmetic would leave 64 bits. */
static Span span_of(int64_t lo, int64_t hi) {
    const int64_t most = INT64_C(1) << 40;
    return lo >= -most && hi <= most ? (Span){lo, hi} : unknown;
}

static bool fits(Span s) { /* both ends are left free: what is compared with may be cut off to them */
    return s.lo <= s.hi && s.lo > INT32_MIN && s.hi < INT32_MAX;
}

static Span product(Span x, Span y) {
    int64_t p[4] = {0}, lo = INT64_MAX, hi = INT64_MIN;
    for (int i = 0; i < 4; i++) {
        if (!mul_fits(i & 1 ? x.hi : x.lo, i & 2 ? y.hi : y.lo, &p[i])) return unknown;
        lo = i64_min(lo, p[i]), hi = i64_max(hi, p[i]);
    }
    return span_of(lo, hi);
}

static Span span_op(const Ins *in, Span x, Span y, Span z) {
    bool two = x.lo <= x.hi && y.lo <= y.hi;
    switch (in->op) {
    case OP_ADD: return two ? span_of(x.lo + y.lo, x.hi + y.hi) : unknown;
    case OP_SUB: return two ? span_of(x.lo - y.hi, x.hi - y.lo) : unknown;
    case OP_MUL: return two ? product(x, y) : unknown;
    case OP_MIN: return two ? span_of(i64_min(x.lo, y.lo), i64_min(x.hi, y.hi)) : unknown;
    case OP_MAX: return two ? span_of(i64_max(x.lo, y.lo), i64_max(x.hi, y.hi)) : unknown;
    case OP_DIV: return two && x.lo >= 0 && y.lo > 0 ? span_of(x.lo / y.hi, x.hi / y.lo) : unknown;
    case OP_MOD: return two && x.lo >= 0 && y.lo > 0 ? span_of(0, i64_min(x.hi, y.hi - 1)) : unknown;
    case OP_WHERE: return y.lo <= y.hi && z.lo <= z.hi ? span_of(i64_min(y.lo, z.lo), i64_max(y.hi, z.hi)) : unknown;
    case OP_CAST: return in->to == TY_I64 || (in->to == TY_I32 && fits(x)) ? x : unknown;
    default: return unknown;
    }
}

static Span span_ins(const Kern *k, const Span *of, int i, int64_t elements, int64_t points) {
    const Ins *in = &k->ins[i];
    if (in->ty != TY_I64 && in->ty != TY_I32) return unknown;
    switch (in->k) {
    case K_CONST: return span_of(in->c.i, in->c.i);
    case K_SLOT: {
        int axis = shape_ranged(&k->shape);
        return axis >= 0 && in->imm == kern_extent(k) ? span_of(k->shape.least[axis], k->shape.n[axis]) : unknown;
    }
    case K_ELEM: return span_of(0, elements - 1);
    case K_SERIAL: return span_of(0, points - 1);
    case K_OP: {
        Span a[3] = {unknown, unknown, unknown};
        for (int n = 0; n < op_info(in->op)->arity && n < 3; n++) a[n] = of[in->a[n]];
        return span_op(in, a[0], a[1], a[2]);
    }
    default: return unknown;
    }
}

/* Can the operation be done on 32 bits? Its operands are elements that are spelt so, or the row's own and fit. */
static bool op_is_short(const Kern *k, const bool *is_short, const Span *of, const Ins *in) {
    int first = in->op == OP_WHERE;
    if (in->op == OP_CAST) return k->ins[in->a[0]].ty == TY_I32 || is_short[in->a[0]];
    for (int n = first; n < op_info(in->op)->arity; n++)
        if (!is_short[in->a[n]] && (k->ins[in->a[n]].rank != RANK_ROW || !fits(of[in->a[n]]))) return false;
    return true;
}

/* A pair's index cell is short where every index that it meets is. */
static void short_cells(const Kern *k, const bool *is_short, bool *cell) {
    for (int c = 0; c < k->ncells; c++) cell[c] = false;
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_FOLD2) cell[k->ins[i].imm + 1] = k->cell[k->ins[i].imm + 1].ty == TY_I64;
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        if (in->k == K_FOLD2 && !is_short[in->a[1]]) cell[in->imm + 1] = false;
        if (in->k == K_FOLD || in->k == K_SETCELL) cell[in->imm] = false;
        if (in->k == K_INIT && in->ty == TY_I64 && in->c.i != -1) cell[in->imm] = false;
    }
}

void host_find_short(Emit *e) {
    const Kern *k = e->k;
    Span *of = NEWN(e->cx->a, Span, k->nins + 1);
    e->is_short = NEWN(e->cx->a, bool, k->nins + 1);
    e->short_cell = NEWN(e->cx->a, bool, k->ncells + 1);
    int64_t points = 1;
    for (int i = 0; i < k->nins; i++) of[i] = unknown;
    for (int n = 0; n < k->nnodes; n++)
        if (k->node[n].kind == NODE_LOOP) points = i64_max(points, k->node[n].count);
    for (int n = 0; n < k->nnodes; n++) {
        const Node *q = &k->node[n];
        if (q->kind == NODE_LOOP) continue;
        int64_t elements = q->kind == NODE_SWEEP ? i64_max(1, k->domain[q->domain].n_mapped) : 1;
        for (int i = q->i0; i < q->i1; i++) {
            const Ins *in = &k->ins[i];
            of[i] = span_ins(k, of, i, elements, points);
            e->is_short[i] = in->ty == TY_I64 && in->rank == RANK_ELEM && fits(of[i]) &&
                             (in->k == K_ELEM || (in->k == K_OP && op_is_short(k, e->is_short, of, in)));
        }
    }
    short_cells(k, e->is_short, e->short_cell);
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == K_CELL) e->is_short[i] = e->short_cell[k->ins[i].imm];
}

/* Within a sweep element numbers come in order, so that of equal ones the first is there already: where the index is
 * that number, and the pair's cells are started anew just before the sweep. */
bool host_index_rises(const Emit *e, int fold) {
    const Kern *k = e->k;
    const Ins *in = &k->ins[fold], *at = &k->ins[in->a[1]];
    while (at->k == K_OP && at->op == OP_CAST) at = &k->ins[at->a[0]];
    if (at->k != K_ELEM) return false;
    for (int n = 0; n < k->nnodes; n++) {
        const Node *block = &k->node[n], *sweep = block->next >= 0 ? &k->node[block->next] : NULL;
        if (!sweep || block->kind != NODE_BLOCK || fold < sweep->i0 || fold >= sweep->i1) continue;
        int starts = 0, folds = 0;
        for (int i = block->i0; i < block->i1; i++) starts += k->ins[i].k == K_INIT && k->ins[i].imm == in->imm + 1;
        for (int i = sweep->i0; i < sweep->i1; i++) folds += k->ins[i].k == K_FOLD2 && k->ins[i].imm == in->imm;
        return starts == 1 && folds == 1;
    }
    return false;
}
