/* Kern -> HostWork: what a row asks of a core, in the instructions that the host dialect spells. A sweep's last step
 * takes only the registers that have elements, as the text does, and the weights of operators are what their functions
 * in the host's prelude come to, about; what takes how long on which machine is no question here. */
#include "kern.h"

#include <math.h>

enum { AVX2 = 8, AVX512 = 16 }; /* lanes */

/* Instructions of an operator on a register, and cycles until its result is there. Of 16 lanes (AVX-512) there are
 * instructions for some that else are spelt. */
typedef struct Weight {
    double work, bits, wait;
} Weight;

static const Weight pair = {3, 8, 10}; /* of a fold of values with their indexes */

static Weight weight_of(const Kern *k, Op op, Ty ty) {
    const bool wide = k->subgroup >= AVX512, whole = !ty_is_float(ty);
    switch (op) {
    case OP_MIN:
    case OP_MAX: return whole ? (Weight){0, 3, 2} : wide ? (Weight){3, 2, 5} : (Weight){5, 5, 7};
    case OP_WHERE: return (Weight){0, 1, 1};
    case OP_LDEXP: return wide ? (Weight){3, 0, 8} : (Weight){28, 16, 16};
    case OP_BITAND:
    case OP_BITOR:
    case OP_BITXOR:
    case OP_AND:
    case OP_OR:
    case OP_NOT:
    case OP_NEG:
    case OP_ABS: return (Weight){0, 1, 1};
    case OP_ATMOST:
    case OP_ATLEAST: return (Weight){1, 0, 1};
    case OP_FMA: return (Weight){1, 0, 4};
    case OP_DIV:
    case OP_SQRT: return (Weight){0, 0, 12}; /* counted apart */
    case OP_RSQRT: return (Weight){0, 0, 25};
    case OP_CAST: return (Weight){6, 2, 12};
    case OP_BITS:
    case OP_CONST: return (Weight){0, 0, 0};
    case OP_SHL:
    case OP_SHR: return (Weight){0, 1, 1};
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_EQ:
    case OP_NE: return whole ? (Weight){0, 1, 1} : (Weight){1, 0, 1};
    default: return whole ? (Weight){0, 1, 1} : (Weight){1, 0, 3};
    }
}

/* Instructions by which a register of a storage type is widened, and narrowed again. */
typedef struct Convert {
    double up, down;
} Convert;

static Convert convert_of(const Kern *k, Ty ty) {
    const bool wide = k->subgroup >= AVX512;
    switch (ty) {
    case TY_BF16: return (Convert){3, 8};
    case TY_F16: return wide ? (Convert){1, 6} : (Convert){24, 26};
    case TY_F8E4M3:
    case TY_F8E5M2: return (Convert){20, 26};
    case TY_I8:
    case TY_U8: return wide ? (Convert){1, 3} : (Convert){2, 12};
    case TY_BOOL: return (Convert){2, 4};
    default: return (Convert){0, 0};
    }
}

typedef struct Count {
    const Kern *k;
    HostWork *w;
    double L, R;
    double *of; /* by instruction: what is asked at the time */
    int *last;
    double registers, steps, slots,
        parts; /* of the sweep: registers of elements, steps, slots of a lane, partial ones */
} Count;

static void operate(const Count *c, const Ins *in, double times, HostWork *w) {
    const Weight x = weight_of(c->k, in->op, in->ty);
    w->work += times * x.work, w->bits += times * x.bits;
    if (in->op == OP_DIV || in->op == OP_SQRT || in->op == OP_MOD) w->divide += times;
    if (in->op == OP_RSQRT) w->divide += 2 * times;
    if (op_info(in->op)->cost == COST_SPECIAL && in->op != OP_RSQRT) w->special += times;
}

static void access(const Count *c, Ty storage, bool store, double registers, double parts, HostWork *w) {
    const Convert x = convert_of(c->k, storage);
    w->bits += registers * (store ? x.down : x.up);
    w->access += registers;
    w->part += parts;
}

static double levels(double lanes) {
    return lanes > 1 ? ceil(log2(lanes)) : 0;
}

static void block(Count *c, const Node *nd, double loop) {
    enum { SHUFFLE = 3, BEST = 60 }; /* cycles: a step among a register's elements; the best of them by a loop */
    const Kern *k = c->k;
    HostWork *w = c->w;
    double wait = 0;
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        const double times = loop * (in->rank == RANK_ROW ? 1 : c->R);
        switch (in->k) {
        case K_OP:
            if (in->rank == RANK_ROW)
                w->scalar += loop;
            else
                operate(c, in, times, w);
            if (ty_is_float(in->ty)) wait += weight_of(k, in->op, in->ty).wait;
            break;
        case K_LOAD1:
        case K_STORE1: w->scalar += loop; break;
        case K_JOIN: {
            const Weight x = weight_of(k, in->op, in->ty);
            wait += levels(c->L) * (x.wait + SHUFFLE) + levels(c->R) * x.wait;
            w->work += loop * (c->R - 1 + levels(c->L)) * x.work + loop * levels(c->L);
            w->bits += loop * (c->R - 1 + levels(c->L)) * x.bits;
            break;
        }
        case K_JOIN2:
            wait += BEST + pair.wait * levels(c->R);
            w->work += loop * (BEST + pair.work * (c->R - 1)), w->bits += loop * pair.bits * (c->R - 1);
            break;
        default: break;
        }
    }
    w->wait += loop * wait;
}

/* Accumulators that are memory. */
static bool array_cell(const Count *c, int cell) {
    return c->k->cell[cell].acc > 4 || c->R > HOST_LOOPED;
}

/* Does a value of a sweep follow from how many elements are active alone, which the text knows? */
static bool is_fixed(const Kern *k, const Node *nd, int i) {
    const Ins *in = &k->ins[i];
    int at[3];
    if (in->k == K_CONST) return true;
    if (i < nd->i0) return false;
    if (in->k == K_ACTIVE) return true;
    bool fixed = in->k == K_OP;
    for (int n = ins_operands(in, at), j = 0; j < n && fixed; j++)
        fixed = in->a[at[j]] >= 0 && is_fixed(k, nd, in->a[at[j]]);
    return fixed;
}

/* Cycles from what a step finds in a cell until it has set it anew, as instruction `set` does. */
static double around(const Count *c, const Node *nd, int set) {
    const Kern *k = c->k;
    double *since = c->of; /* below 0: does not follow from the cell */
    for (int i = nd->i0; i < set; i++) {
        const Ins *in = &k->ins[i];
        int at[3];
        double most = in->k == K_CELL && in->imm == k->ins[set].imm ? 0 : -1;
        for (int n = in->k == K_OP || in->k == K_PACKFOLD ? ins_operands(in, at) : 0, j = 0; j < n; j++)
            if (in->a[at[j]] >= nd->i0) most = fmax(most, since[in->a[at[j]]]);
        since[i] = most < 0 || in->k == K_CELL ? most : most + weight_of(k, in->op, in->ty).wait;
    }
    return k->ins[set].a[0] >= nd->i0 ? fmax(0, since[k->ins[set].a[0]]) : 0;
}

/* Registers that a sweep makes and that find no room beside what else is live: values of elements and steps, and
 * accumulators. Each instruction is done for all registers of a step before the next one is. */
static double spilt(const Count *c, const Node *nd) {
    const Kern *k = c->k;
    const double rooms = k->subgroup == AVX2 ? 14 : 30; /* and two for what all share */
    const double R = c->R > HOST_LOOPED ? HOST_GROUP : c->R, F = k->plan.flight * k->plan.V;
    double cells = 0, sum = 0;
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        if ((in->k == K_FOLD || in->k == K_SETCELL) && !array_cell(c, in->imm)) cells += R * k->cell[in->imm].acc;
        if (in->k == K_FOLD2 && c->R <= HOST_LOOPED) cells += 2 * R;
    }
    double *gone = c->of; /* registers that nothing needs behind an instruction */
    for (int i = nd->i0; i < nd->i1; i++) gone[i] = 0;
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        if (ins_makes(in)) c->last[i] = i;
        int at[3];
        for (int n = ins_operands(in, at), j = 0; j < n; j++)
            if (in->a[at[j]] >= nd->i0) c->last[in->a[at[j]]] = i;
    }
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        if (ins_makes(in) && in->rank >= RANK_PACK) gone[c->last[i]] += in->rank == RANK_ELEM ? R * F : R;
    }
    if (cells > rooms - 2) c->w->kept += c->registers * (1 - (rooms - 2) / cells); /* accumulators as well */
    double live = fmin(cells, rooms - 2);
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        if (ins_makes(in) && in->rank >= RANK_PACK) live += in->rank == RANK_ELEM ? R * F : R;
        if (ins_makes(in) && in->rank >= RANK_PACK && live > rooms)
            sum += (in->rank == RANK_ELEM ? c->registers : c->steps * c->R) * (1 - rooms / live);
        live -= gone[i];
    }
    return sum;
}

/* Cycles of the longest way through a step: of what waits for each other there. */
static double depth(const Count *c, const Node *nd) {
    const Kern *k = c->k;
    double most = 0;
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        double from = 0;
        int at[3];
        for (int n = ins_operands(in, at), j = 0; j < n; j++)
            if (in->a[at[j]] >= nd->i0) from = fmax(from, c->of[in->a[at[j]]]);
        if (in->k == K_OP || in->k == K_PACKFOLD) from += weight_of(k, in->op, in->ty).wait;
        if (in->k == K_LOADP) from += convert_of(k, k->prog->param[in->param].ty).up;
        if (in->k == K_STOREP) from += convert_of(k, k->prog->param[in->param].ty).down;
        if (in->k == K_FOLD2) from += pair.wait;
        c->of[i] = from;
        most = fmax(most, from);
    }
    return most;
}

static void sweep(Count *c, const Node *nd, double loop) {
    const Kern *k = c->k;
    const Plan *p = &k->plan;
    HostWork *w = c->w;
    const int64_t n = k->domain[nd->domain].n_mapped, step = (int64_t)plan_lanes(p) * p->V * p->flight;
    if (!n) return;
    const bool shifted = p->tail == TAIL_HEAD_SHIFT;
    c->registers = loop * p->V * ceil((double)n / (p->V * c->L)) + (shifted ? loop : 0);
    c->parts = loop * (shifted ? 4 : /* at both ends */
                           n % (int64_t)(p->V * c->L) ? 1
                                                      : 0);
    c->steps = loop * (double)ceil_div(n, step);
    c->slots = loop * (double)map_slots(n, plan_lanes(p), p->V);
    w->spilt += spilt(c, nd);
    double folds = 0, serial = 0;
    bool sets = false;
    int acc = 1;
    for (int i = nd->i0; i < nd->i1; i++) {
        const Ins *in = &k->ins[i];
        const double times = !ins_makes(in) || in->rank == RANK_ELEM ? c->registers
                             : in->rank == RANK_PACK                 ? c->steps * c->R
                                                                     : 0;
        switch (in->k) {
        case K_OP:
            if (in->rank == RANK_PACK && is_fixed(k, nd, i)) break;
            if (in->op == OP_DIV && in->rank == RANK_PACK && is_fixed(k, nd, in->a[1]))
                w->work += times;
            else
                operate(c, in, times, w);
            break;
        case K_ELEM: w->bits += times; break;
        case K_LOADP: access(c, k->prog->param[in->param].ty, false, times, c->parts, w); break;
        case K_STOREP: {
            const Ty ty = k->prog->param[in->param].ty;
            access(c, ty, true, times, c->parts, w);
            if (c->L * ty_bytes(ty) >= STORED_AT_ONCE) w->stream += loop * (double)n * ty_bytes(ty);
            break;
        }
        case K_LOAD1:
        case K_STORE1:
        case K_STORES: w->work += times * 3 * c->L, w->access += times * c->L; break;
        case K_GET:
        case K_PUT: {
            const Ty ty = k->stripe[in->imm].ty;
            access(c, ty, in->k == K_PUT, times, 0, w);
            break;
        }
        case K_FOLD:
        case K_FOLD2: {
            const Weight x = in->k == K_FOLD2 ? pair : weight_of(k, in->op, in->ty);
            w->work += times * x.work, w->bits += times * x.bits;
            folds = fmax(folds, x.wait * c->slots / k->cell[in->imm].acc);
            if (array_cell(c, in->imm))
                w->kept += in->k == K_FOLD2 ? 2 * times : times;
            else if (k->cell[in->imm].acc > acc)
                acc = k->cell[in->imm].acc;
            break;
        }
        case K_PACKFOLD: {
            const Weight x = weight_of(k, in->op, in->ty);
            w->work += c->registers * x.work, w->bits += c->registers * x.bits;
            break;
        }
        case K_SETCELL: sets = true, serial = fmax(serial, c->steps * around(c, nd, i)); break;
        default: break;
        }
    }
    const double groups = c->R > HOST_LOOPED ? c->R / HOST_GROUP : 1;
    w->depth += c->steps * groups * depth(c, nd);
    w->chain += sets ? fmax(folds, serial) : folds;
    const int64_t round = acc > p->flight ? acc / p->flight : 1;
    const int64_t whole = n / step / round;
    w->turns += loop * (double)whole * groups;
    w->sweeps += loop;
}

static void nodes(Count *c, int first, double loop) {
    for (int n = first; n >= 0; n = c->k->node[n].next) {
        const Node *nd = &c->k->node[n];
        if (nd->kind == NODE_LOOP)
            nodes(c, nd->child, loop * (double)nd->count);
        else if (!nd->once && nd->kind == NODE_SWEEP)
            sweep(c, nd, loop);
        else if (!nd->once)
            block(c, nd, loop);
    }
}

void host_count(Cx *cx, const Kern *k, HostWork *out) {
    *out = (HostWork){0};
    const double W = plan_lanes(&k->plan);
    Count c = {.k = k,
               .w = out,
               .of = NEWN(cx->a, double, k->nins + 1),
               .last = NEWN(cx->a, int, k->nins + 1),
               .L = W < k->subgroup ? W : k->subgroup};
    c.R = ceil(W / c.L);
    nodes(&c, k->root, 1);
    for (int i = 0; i < k->nstripes; i++) {
        const Stripe *s = &k->stripe[i];
        if (s->home == HOLD_OUTPUT)
            out->rewritten += (double)k->domain[s->domain].n_mapped * ty_bytes(k->prog->param[s->param].ty);
    }
}
