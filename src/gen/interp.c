/* Kern -> what it does to memory, lane by lane, exactly as written: the meaning that every dialect is held against.
 *
 * Rows come one after the other; in a sweep so do the lanes, since they cannot meet there. Where the kern has no say,
 * this is the meaning: what is one a row is done once a row; what is one a lane or a pack is done by all lanes, for a
 * pack in every step of the sweep, with or without active elements; a domain without mapped axes is one element, lane
 * 0's. */
#include "kern.h"

#include <math.h>
#include <string.h>

/* Who touched an element of an output. Ids are row * W + lane + 1, so 0 is nobody. */
typedef struct Touch {
    int64_t writer, reader; /* reader -1: several */
    int64_t read_row, read_epoch;
} Touch;

enum { FOR_ALL_ROWS = -1 }; /* in place of row + 1: written before the first row */

typedef struct Run {
    Cx *cx;
    const Kern *k;
    const Slot *slots;
    const void *const *lo, *const *hi;
    KernRun *count;
    int W, V, flight;
    Num *val; /* values of instructions, from at[i]: one, one a lane, one, or one an active element of the step */
    size_t *at;
    /* written in this row where the stamp is row + 1 */
    Num **cell;
    int64_t **cell_row; /* [accumulator * W + lane] */
    unsigned char **stripe;
    int64_t **stripe_row; /* [(lane * points + serial point) * slots + slot] */
    Num **array;
    int64_t **array_row;
    Touch *touch[MAX_PARAMS]; /* of outputs */
    Num *meet_v, *meet_i;     /* a value and an index of each lane, in joins */
    const Ins *join;          /* the join being done */
    /* where we stand */
    int64_t row, serial, epoch; /* joins so far */
    bool once;                  /* before the first row */
    int lane;
    bool all_lanes; /* what is done now is done by every lane alike */
    int64_t domain_n, chunk0;
    int active;
    int64_t *elem; /* numbers of the active elements */
} Run;

static Err fault(Run *r, Slug slug, int i, const char *what, int64_t at) {
    const Ins *in = &r->k->ins[i];
    return diag(r->cx, slug, NOWHERE, NULL, "%%%d %s%s%s: %s %lld, in row %lld, lane %d", i, kop_info(in->k)->text,
                in->note ? " " : "", in->note ? in->note : "", what, (long long)at, (long long)r->row, r->lane);
}

/* ---- the joining tree ---- */

static int half_of(int n) { /* half of the power of two that n is padded to; 0 for 1 */
    int h = 1;
    while (h < n) h *= 2;
    return h / 2;
}

void join_tree(int W, int subgroup, int combine, int groups, void (*step)(void *user, int i, int j), void *user) {
    int G = W / groups, L = G < subgroup ? G : subgroup, S = (int)ceil_div(G, L);
    if (combine == COMBINE_OUTER)
        for (int h = half_of(S); h; h /= 2)
            for (int s = 0; s < h; s++)
                for (int l = 0; l < L && (s + h) * L + l < G; l++) step(user, s * L + l, (s + h) * L + l);
    for (int from = 0; from < W; from += G) {
        for (int s = 0; s < (combine == COMBINE_OUTER ? 1 : S); s++)
            for (int h = half_of(L); h; h /= 2)
                for (int l = 0; l < h && l + h < L && s * L + l + h < G; l++)
                    step(user, from + s * L + l, from + s * L + l + h);
        if (combine != COMBINE_OUTER)
            for (int h = half_of(S); h; h /= 2)
                for (int s = 0; s < h && s + h < S; s++) step(user, from + s * L, from + (s + h) * L);
    }
    for (int h = half_of(groups); h; h /= 2)
        for (int g = 0; g < h && g + h < groups; g++) step(user, g * G, (g + h) * G);
}

/* ---- numbers ---- */

static float special_f32(Op op, float x, float y) {
    switch (op) {
    case OP_RSQRT: return 1 / sqrtf(x);
    case OP_EXP: return expf(x);
    case OP_EXP2: return exp2f(x);
    case OP_LOG: return logf(x);
    case OP_LOG2: return log2f(x);
    case OP_TANH: return tanhf(x);
    case OP_ERF: return erff(x);
    case OP_SIGMOID: return 1 / (1 + expf(-x));
    case OP_POW: return powf(x, y);
    default: return NAN;
    }
}

static bool is_nan(Ty t, Num v) {
    return t == TY_F32 ? v.f != v.f : t == TY_F64 && v.d != v.d;
}

/* Does (v, i) replace (w, j)? A NaN beats numbers, equal values keep the lower index, and index -1 is no element at
 * all. */
static bool beats(Op op, Ty t, Num v, int64_t i, Num w, int64_t j) {
    if (i < 0 || j < 0) return i >= 0;
    bool nv = is_nan(t, v), nw = is_nan(t, w);
    if (nv || nw) return nv && (!nw || i < j);
    if (num_op(op == OP_MAX ? OP_GT : OP_LT, t, TY_NONE, v, w, v).b) return true;
    return num_op(OP_EQ, t, TY_NONE, v, w, v).b && i < j;
}

/* ---- operands ---- */

typedef struct Src { /* values of an operand: the next element's is `step` further */
    const Num *p;
    int step;
} Src;

static Src source(const Run *r, int x) {
    static const Num none = {0};
    if (x < 0) return (Src){&none, 0};
    const Ins *in = &r->k->ins[x];
    return (Src){r->val + r->at[x] + (in->rank == RANK_LANE ? r->lane : 0), in->rank == RANK_ELEM};
}

/* ---- memory ---- */

/* Reads before a write are ordered by a join in between, which all lanes reach; nothing orders a write before a read.
 */
static Err touch(Run *r, int i, int64_t index, Touch *t, bool write) {
    int64_t me = r->row * r->W + r->lane + 1;
    bool others = r->all_lanes && r->W > 1; /* they do the same */
    if (t->writer && (t->writer != me || others)) return fault(r, S_KERN_RACE, i, "another lane writes element", index);
    if (t->read_row == r->row && t->read_epoch < r->epoch) t->reader = 0;
    if (write) {
        if (t->reader && t->reader != me) return fault(r, S_KERN_RACE, i, "another lane reads element", index);
        t->writer = me;
        return OK;
    }
    t->read_row = t->reader == 0 || t->read_row == r->row ? r->row : -1;
    t->reader = (t->reader == 0 || t->reader == me) && !others ? me : -1;
    t->read_epoch = r->epoch;
    return OK;
}

/* The element's address, when it lies in the parameter's memory. */
static Err reach(Run *r, int i, int64_t index, bool write, unsigned char **out) {
    const Ins *in = &r->k->ins[i];
    int bytes = ty_bytes(r->k->prog->param[in->param].ty);
    uintptr_t base = (uintptr_t)r->slots[r->k->abi.ptr[in->param]].p;
    uintptr_t lo = (uintptr_t)r->lo[in->param], hi = (uintptr_t)r->hi[in->param];
    int64_t off;
    if (!mul_fits(index, bytes, &off)) return fault(r, S_KERN_BOUNDS, i, "out of the tensor at element", index);
    /* lo <= base + off and base + off + bytes <= hi, without leaving the numbers */
    uintptr_t at = base + (uintptr_t)off;
    bool wrapped = off < 0 ? at > base : at < base;
    if (wrapped || at < lo || at > hi || hi - at < (uintptr_t)bytes)
        return fault(r, S_KERN_BOUNDS, i, "out of the tensor at element", index);
    *out = (unsigned char *)r->slots[r->k->abi.ptr[in->param]].p + off;
    *(write ? &r->count->stores : &r->count->loads) += 1;
    Touch *t = r->touch[in->param];
    return t ? touch(r, i, index, &t[(at - lo) / (uintptr_t)bytes], write) : OK;
}

static Err load(Run *r, int i, int64_t index, Num *out) {
    unsigned char *at = NULL;
    Err e = reach(r, i, index, false, &at);
    if (e == OK) *out = num_load(r->k->prog->param[r->k->ins[i].param].ty, at);
    return e;
}

static Err store(Run *r, int i, int64_t index, Num v) {
    unsigned char *at = NULL;
    Err e = reach(r, i, index, true, &at);
    if (e == OK) num_store(r->k->prog->param[r->k->ins[i].param].ty, at, v, r->k->ins[i].ty);
    return e;
}

/* Element e * stride + base; a product that does not fit is nowhere. */
static int64_t pack_index(int64_t base, int64_t e, int64_t stride) {
    int64_t x;
    if (!mul_fits(e, stride, &x) || __builtin_add_overflow(x, base, &x)) return INT64_MAX;
    return x;
}

/* The lane's slot of active element j. A lane has as many slots as the busiest one, for each serial point. */
static Err slot_of(Run *r, int i, int j, int64_t *out) {
    const Ins *in = &r->k->ins[i];
    const Domain *d = &r->k->domain[r->k->stripe[in->imm].domain];
    int64_t point = in->a[0] < 0 ? 0 : source(r, in->a[0]).p->i, slots = map_slots(d->n_mapped, r->W, r->V),
            slot = r->chunk0 * r->V + j;
    if (point < 0 || point >= d->n_serial)
        return fault(r, S_KERN_BOUNDS, i, "out of the stripe at serial point", point);
    if (slot >= slots) return fault(r, S_KERN_BOUNDS, i, "out of the stripe at slot", slot);
    *out = (r->lane * d->n_serial + point) * slots + slot;
    return OK;
}

static Err get(Run *r, int i, int j, Num *out) {
    const Ins *in = &r->k->ins[i];
    int64_t slot = 0;
    Err e = slot_of(r, i, j, &slot);
    if (e != OK) return e;
    if (r->stripe_row[in->imm][slot] != r->row + 1 && r->stripe_row[in->imm][slot] != FOR_ALL_ROWS)
        return fault(r, S_KERN_UNWRITTEN, i, "nothing is in the slot of element", r->elem[j]);
    Ty ty = r->k->stripe[in->imm].ty;
    *out = num_load(ty, r->stripe[in->imm] + slot * ty_bytes(ty));
    return OK;
}

static Err put(Run *r, int i, int j, Num v) {
    const Ins *in = &r->k->ins[i];
    int64_t slot = 0;
    Err e = slot_of(r, i, j, &slot);
    if (e != OK) return e;
    Ty ty = r->k->stripe[in->imm].ty;
    num_store(ty, r->stripe[in->imm] + slot * ty_bytes(ty), v, in->ty);
    r->stripe_row[in->imm][slot] = r->once ? FOR_ALL_ROWS : r->row + 1;
    return OK;
}

static Err cell_at(Run *r, int i, int cell, int acc, Num **out) {
    int64_t at = (int64_t)acc * r->W + r->lane;
    if (r->cell_row[cell][at] != r->row + 1) return fault(r, S_KERN_UNWRITTEN, i, "nothing is in accumulator", acc);
    *out = &r->cell[cell][at];
    return OK;
}

static void set_cell(Run *r, int cell, int acc, Num v) {
    int64_t at = (int64_t)acc * r->W + r->lane;
    r->cell[cell][at] = v;
    r->cell_row[cell][at] = r->row + 1;
}

static Err array_at(Run *r, int i, int64_t *out) {
    const Ins *in = &r->k->ins[i];
    *out = source(r, in->a[0]).p->i;
    if (*out < 0 || *out >= r->k->array[in->imm].n) return fault(r, S_KERN_BOUNDS, i, "out of the row array at", *out);
    return OK;
}

/* ---- instructions ---- */

static Num slot_value(Slot s, Ty ty) {
    return ty == TY_F64 ? ((Num){.d = s.d}) : ((Num){.i = s.i});
}

static void do_op(const Run *r, const Ins *in, Num *d, int n) {
    Src s[3] = {{0}, {0}, {0}};
    int arity = op_info(in->op)->arity;
    for (int j = 0; j < 3; j++) s[j] = source(r, j < arity ? in->a[j] : -1);
    Ty t = r->k->ins[in->a[in->op == OP_WHERE ? 1 : 0]].ty;
    if (in->ty == TY_F32 && op_info(in->op)->cost == COST_SPECIAL) {
        for (int j = 0; j < n; j++)
            d[j] = (Num){0}, d[j].f = special_f32(in->op, s[0].p[j * s[0].step].f, s[1].p[j * s[1].step].f);
        return;
    }
    for (int j = 0; j < n; j++)
        d[j] = num_op(in->op, t, in->to, s[0].p[j * s[0].step], s[1].p[j * s[1].step], s[2].p[j * s[2].step]);
}

/* The accumulator c with one more element, or product. */
static Num folded(const Ins *in, Num c, Num x, Num y) {
    return in->op == OP_FMA ? num_op(OP_FMA, in->ty, TY_NONE, x, y, c) : num_op(in->op, in->ty, TY_NONE, c, x, x);
}

static Err fold(Run *r, int i) {
    const Ins *in = &r->k->ins[i];
    Src x = source(r, in->a[0]), y = source(r, in->k == K_FOLD2 || ins_has(in, 1) ? in->a[1] : -1);
    int nacc = r->k->cell[in->imm].acc;
    for (int j = 0; j < r->active; j++) {
        int acc = (int)((r->chunk0 + j / r->V) % nacc);
        Num *c = NULL, *ci = NULL, v = x.p[j * x.step], vi = y.p[j * y.step];
        Err e = cell_at(r, i, in->imm, acc, &c);
        if (e == OK && in->k == K_FOLD2) e = cell_at(r, i, in->imm + 1, acc, &ci);
        if (e != OK) return e;
        if (!ci)
            *c = folded(in, *c, v, vi);
        else if (beats(in->op, in->ty, v, vi.i, *c, ci->i))
            *c = v, *ci = vi;
    }
    return OK;
}

/* One instruction, for the row, a lane, a lane's step or its n active elements. */
static Err do_ins(Run *r, int i, int n) {
    const Ins *in = &r->k->ins[i];
    Num *d = r->val + r->at[i] + (in->rank == RANK_LANE ? r->lane : 0);
    Src a = source(r, in->a[0]), b = source(r, in->a[1]), c = source(r, in->a[2]);
    Err e = OK;
    switch (in->k) {
    case K_CONST: *d = in->c; break;
    case K_SLOT: *d = slot_value(r->slots[in->imm], in->ty); break;
    case K_ROWIDX: d->i = r->row; break;
    case K_SERIAL: d->i = r->serial; break;
    case K_ELEM:
        for (int j = 0; j < n; j++) d[j].i = r->elem[j];
        break;
    case K_ACTIVE: d->f = (float)r->active; break;
    case K_OP: do_op(r, in, d, n); break;
    case K_LOADP:
        for (int j = 0; j < n && e == OK; j++)
            e = load(r, i, pack_index(a.p->i, r->elem[j], in->a[1] < 0 ? 1 : b.p->i), &d[j]);
        break;
    case K_LOAD1:
        for (int j = 0; j < n && e == OK; j++) {
            if (in->a[1] >= 0 && !b.p[j * b.step].b)
                d[j] = c.p[j * c.step];
            else
                e = load(r, i, a.p[j * a.step].i, &d[j]);
        }
        break;
    case K_STOREP:
        for (int j = 0; j < n && e == OK; j++)
            e = store(r, i, pack_index(a.p->i, r->elem[j], in->a[1] < 0 ? 1 : b.p->i), c.p[j * c.step]);
        break;
    case K_STORE1:
        for (int j = 0; j < n && e == OK; j++) e = store(r, i, a.p[j * a.step].i, c.p[j * c.step]);
        break;
    case K_GET:
        for (int j = 0; j < n && e == OK; j++) e = get(r, i, j, &d[j]);
        break;
    case K_PUT:
        for (int j = 0; j < n && e == OK; j++) e = put(r, i, j, b.p[j * b.step]);
        break;
    case K_INIT:
        for (int acc = 0; acc < r->k->cell[in->imm].acc; acc++) set_cell(r, in->imm, acc, in->c);
        break;
    case K_FOLD:
    case K_FOLD2: e = fold(r, i); break;
    case K_CELL: {
        Num *v = NULL;
        e = cell_at(r, i, in->imm, in->acc, &v);
        if (e == OK) *d = *v;
        break;
    }
    case K_SETCELL: set_cell(r, in->imm, 0, *a.p); break;
    case K_SETPART: set_cell(r, in->imm, in->acc, *a.p); break;
    case K_PART: {
        Num *v = NULL;
        e = cell_at(r, i, in->imm, (int)r->chunk0, &v);
        if (e == OK) *d = *v;
        break;
    }
    case K_SEG: d->i = map_elem(r->chunk0, r->lane, 0, r->W, r->V) / ((int64_t)in->lanes * r->V); break;
    case K_STORES:
        if (n && r->lane % in->lanes == 0) e = store(r, i, a.p->i, *c.p);
        break;
    case K_PACKFOLD:
        *d = in->c;
        if (!ins_has(in, 1)) b = a;
        for (int j = 0; j < r->active; j++) *d = folded(in, *d, a.p[j * a.step], b.p[j * b.step]);
        break;
    case K_ROWGET:
    case K_ROWPUT: {
        int64_t at;
        e = array_at(r, i, &at);
        if (e != OK) break;
        if (in->k == K_ROWPUT) {
            r->array[in->imm][at] = *b.p;
            r->array_row[in->imm][at] = r->row + 1;
        } else if (r->array_row[in->imm][at] != r->row + 1) {
            e = fault(r, S_KERN_UNWRITTEN, i, "nothing is in the row array at", at);
        } else {
            *d = r->array[in->imm][at];
        }
        break;
    }
    case K_MEET:
    case K_PASS:
    case K_SAME:
    case K_JOIN:
    case K_JOIN2:
    case K_JOIN2I:
    case K_COUNT: break; /* joins: do_join */
    }
    return e;
}

static void join_step(void *user, int x, int y) {
    Run *r = user;
    const Ins *in = r->join;
    Num *v = r->meet_v, *vi = r->meet_i;
    if (in->k == K_JOIN)
        v[x] = num_op(in->op, in->ty, TY_NONE, v[x], v[y], v[x]);
    else if (beats(in->op, in->ty, v[y], vi[y].i, v[x], vi[x].i))
        v[x] = v[y], vi[x] = vi[y];
}

/* Within a segment as within a subgroup; every lane has the result. Nothing else is ordered by it. */
static void do_meet(Run *r, int i) {
    const Ins *in = &r->k->ins[i];
    Num *to = r->val + r->at[i];
    memcpy(to, r->val + r->at[in->a[0]], sizeof(Num) * (size_t)r->W);
    for (int from = 0; from < r->W; from += in->lanes) {
        for (int h = in->lanes / 2; h; h /= 2)
            for (int l = from; l < from + h; l++) to[l] = num_op(in->op, in->ty, TY_NONE, to[l], to[l + h], to[l]);
        for (int l = from + 1; l < from + in->lanes; l++) to[l] = to[from];
    }
}

static void do_pass(Run *r, int i) {
    const Ins *in = &r->k->ins[i];
    const Num *from = r->val + r->at[in->a[0]];
    const Plan *p = &r->k->plan;
    /* lanes of one that is passed on, and of all that it is passed on to */
    const int each[] = {r->k->subgroup, p->W, p->W * p->cluster}, all[] = {p->W, p->W * p->cluster, r->W};
    int n = pass_count(r->k, in->imm), pad = 1;
    while (pad < n) pad *= 2;
    for (int l = 0; l < r->W; l++) {
        int at = l % pad;
        r->val[r->at[i] + (size_t)l] = at < n ? from[l / all[in->imm] * all[in->imm] + at * each[in->imm]] : in->c;
    }
}

/* Are they the same bits? NaNs are all one. */
static Err do_same(Run *r, int i) {
    const Ins *in = &r->k->ins[i];
    const Num *v = r->val + r->at[in->a[0]];
    unsigned char first[8] = {0}, other[8] = {0};
    num_store(in->ty, first, v[0], in->ty);
    for (r->lane = 1; r->lane < r->W; r->lane++) {
        num_store(in->ty, other, v[r->lane], in->ty);
        if (memcmp(first, other, sizeof first) != 0 && !(is_nan(in->ty, *v) && is_nan(in->ty, v[r->lane])))
            return fault(r, S_KERN_UNLIKE, i, "lane 0 has another value than lane", r->lane);
    }
    r->val[r->at[i]] = v[0];
    r->epoch++;
    return OK;
}

static void do_join(Run *r, int i) {
    const Ins *in = &r->k->ins[i];
    if (in->k == K_JOIN2I) { /* the pair before it left the index */
        r->val[r->at[i]] = r->meet_i[0];
        return;
    }
    r->join = in;
    memcpy(r->meet_v, r->val + r->at[in->a[0]], sizeof(Num) * (size_t)r->W);
    if (in->k == K_JOIN2) memcpy(r->meet_i, r->val + r->at[in->a[1]], sizeof(Num) * (size_t)r->W);
    join_tree(r->W, r->k->subgroup, r->k->plan.combine, plan_groups(&r->k->plan), join_step, r);
    r->val[r->at[i]] = r->meet_v[0];
    r->epoch++;
}

/* ---- nodes ---- */

static Rank level(const Ins *in, bool sweep) { /* how often an instruction is done */
    if (ins_makes(in)) return in->rank;
    if (in->k == K_INIT || in->k == K_SETCELL || in->k == K_SETPART) return sweep ? RANK_PACK : RANK_LANE;
    return sweep ? RANK_ELEM : RANK_ROW;
}

static Err do_block(Run *r, const Node *nd) {
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &r->k->ins[i];
        Err e = OK;
        if (in->k == K_JOIN || in->k == K_JOIN2 || in->k == K_JOIN2I) {
            do_join(r, i);
        } else if (in->k == K_MEET) {
            do_meet(r, i);
        } else if (in->k == K_PASS) {
            do_pass(r, i);
        } else if (in->k == K_SAME) {
            e = do_same(r, i);
        } else if (level(in, false) == RANK_LANE) {
            for (r->lane = 0; r->lane < r->W && e == OK; r->lane++) e = do_ins(r, i, 1);
        } else {
            r->lane = 0;
            r->all_lanes = in->k != K_STORE1;
            e = do_ins(r, i, 1);
            r->all_lanes = false;
        }
        if (e != OK) return e;
    }
    return OK;
}

/* The active elements of a lane's step are full packs, then at most one that is not: they lie side by side in the
 * lane's slots. */
static void set_active(Run *r) {
    r->active = 0;
    for (int c = 0; c < r->flight; c++) {
        int64_t e = map_elem(r->chunk0 + c, r->lane, 0, r->W, r->V);
        for (int v = 0; v < r->V && e + v < r->domain_n; v++) r->elem[r->active++] = e + v;
    }
}

static Err do_sweep(Run *r, const Node *nd) {
    const Ins *ins = r->k->ins;
    r->domain_n = r->k->domain[nd->domain].n_mapped;
    int64_t chunks = ceil_div(r->domain_n, (int64_t)r->W * r->V), steps = ceil_div(chunks, r->flight);
    if (!steps) return OK;
    bool lanes = false, packs = false;
    r->lane = 0;
    r->all_lanes = true;
    for (int i = nd->i0; i < nd->i1; i++) {
        Rank at = level(&ins[i], true);
        lanes = lanes || at == RANK_LANE;
        packs = packs || at == RANK_PACK;
        Err e = at == RANK_ROW ? do_ins(r, i, 1) : OK;
        if (e != OK) return e;
    }
    r->all_lanes = false;
    for (r->lane = 0; r->lane < r->W; r->lane++) {
        for (int i = nd->i0; i < nd->i1 && lanes; i++) {
            Err e = level(&ins[i], true) == RANK_LANE ? do_ins(r, i, 1) : OK;
            if (e != OK) return e;
        }
        for (int64_t s = 0; s < steps; s++) {
            r->chunk0 = s * r->flight;
            set_active(r);
            if (!r->active && !packs) break;
            for (int i = nd->i0; i < nd->i1; i++) {
                Rank at = level(&ins[i], true);
                Err e = at == RANK_ELEM ? do_ins(r, i, r->active) : at == RANK_PACK ? do_ins(r, i, 1) : OK;
                if (e != OK) return e;
            }
        }
    }
    return OK;
}

static Err do_nodes(Run *r, int first, int end) {
    for (int n = first; n != end; n = r->k->node[n].next) {
        const Node *nd = &r->k->node[n];
        Err e = OK;
        if (nd->kind == NODE_LOOP)
            for (int64_t s = 0; s < nd->count && e == OK; s++) {
                r->serial = s;
                e = do_nodes(r, nd->child, -1);
            }
        else
            e = nd->kind == NODE_SWEEP ? do_sweep(r, nd) : do_block(r, nd);
        if (e != OK) return e;
    }
    return OK;
}

/* All memory of a run, before its first row. */
static void prepare(Run *r) {
    const Kern *k = r->k;
    Arena *a = r->cx->a;
    size_t n = 0, step = (size_t)(r->flight * r->V);
    r->at = NEWN(a, size_t, k->nins);
    for (int i = 0; i < k->nins; i++) {
        r->at[i] = n;
        if (ins_makes(&k->ins[i]))
            n += k->ins[i].rank == RANK_LANE ? (size_t)r->W : k->ins[i].rank == RANK_ELEM ? step : 1;
    }
    r->val = NEWN(a, Num, n + (size_t)r->W);
    r->elem = NEWN(a, int64_t, step);
    r->meet_v = NEWN(a, Num, r->W);
    r->meet_i = NEWN(a, Num, r->W);
    r->cell = NEWN(a, Num *, k->ncells);
    r->cell_row = NEWN(a, int64_t *, k->ncells);
    for (int i = 0; i < k->ncells; i++) {
        r->cell[i] = NEWN(a, Num, k->cell[i].acc * r->W);
        r->cell_row[i] = NEWN(a, int64_t, k->cell[i].acc * r->W);
    }
    r->stripe = NEWN(a, unsigned char *, k->nstripes);
    r->stripe_row = NEWN(a, int64_t *, k->nstripes);
    for (int i = 0; i < k->nstripes; i++) {
        const Stripe *s = &k->stripe[i];
        if (s->home == HOLD_OUTPUT) continue;
        int64_t slots = r->W * k->domain[s->domain].n_serial * map_slots(k->domain[s->domain].n_mapped, r->W, r->V);
        r->stripe[i] = NEWN(a, unsigned char, slots *ty_bytes(s->ty));
        r->stripe_row[i] = NEWN(a, int64_t, slots);
    }
    r->array = NEWN(a, Num *, k->narrays);
    r->array_row = NEWN(a, int64_t *, k->narrays);
    for (int i = 0; i < k->narrays; i++) {
        r->array[i] = arena_get(a, k->array[i].n < INT64_MAX / 16 ? (size_t)k->array[i].n * sizeof(Num) : SIZE_MAX);
        r->array_row[i] = NEWN(a, int64_t, k->array[i].n);
    }
    for (int p = 0; p < k->prog->nparams; p++) {
        const Param *q = &k->prog->param[p];
        if (q->dir != DIR_OUT && q->dir != DIR_INOUT) continue;
        size_t bytes = (size_t)((uintptr_t)r->hi[p] - (uintptr_t)r->lo[p]);
        r->touch[p] = NEWN(a, Touch, bytes / (size_t)ty_bytes(q->ty) + 1);
    }
}

Err kern_run(Cx *cx, const Kern *k, const Slot *slots, int64_t rows, const void *const *lo, const void *const *hi,
             KernRun *run) {
    int axis = shape_ranged(&k->shape);
    if (axis >= 0) {
        int64_t n = slots[kern_extent(k)].i;
        if (n < k->shape.least[axis] || n > k->shape.n[axis])
            return diag(cx, S_SHAPE_RANGE, NOWHERE, NULL, "%s is %lld, the kern is for %lld to %lld",
                        k->prog->axis[axis].name, (long long)n, (long long)k->shape.least[axis],
                        (long long)k->shape.n[axis]);
        k = kern_at(cx, k, n);
    }
    Run r = {.cx = cx,
             .k = k,
             .slots = slots,
             .lo = lo,
             .hi = hi,
             .count = run,
             .W = plan_lanes(&k->plan),
             .V = k->plan.V,
             .flight = k->plan.flight};
    *run = (KernRun){0};
    prepare(&r);
    const int body = kern_body(k);
    r.once = true;
    Err e = rows > 0 ? do_nodes(&r, k->root, body) : OK;
    r.once = false;
    for (; r.row < rows && e == OK; r.row++) {
        r.epoch++;
        e = do_nodes(&r, body, -1);
    }
    return e;
}
