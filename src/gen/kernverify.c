/* Kern -> is it well formed? One walk in order of execution; the first broken rule is reported. What holds afterwards
 * is what the interpreter, the counts and the dialects rely on without asking again. Bounds of memory are not decided
 * here. */
#include "kern.h"

#include <stdio.h>
#include <string.h>

typedef struct Walk {
    Cx *cx;
    const Kern *k;
    int *node_of, *loop_of;       /* where each instruction stands; -1: in no loop */
    bool *seen;                   /* nodes */
    bool *stripe_put, *array_put; /* some instruction before fills it */
    bool *cell_ready;             /* initialised on every way to here */
    bool *stripe_once;            /* filled before the first row */
    bool in_row;                  /* nodes from here on are done in every row */
    int nseen, next, sweeps;      /* nodes met, first instruction not met yet, sweeps met */
    int node, loop;               /* where we stand */
    bool *late;                   /* values made of what lanes have met about */
    int joins, passes;            /* at which splits of a row meet */
} Walk;

#define FAIL(slug, ...) return diag(w->cx, slug, NOWHERE, NULL, __VA_ARGS__)
#define FAIL_INS(slug, fmt, ...) FAIL(slug, "%%%d %s: " fmt, i, kop_info(w->k->ins[i].k)->text, __VA_ARGS__)

static bool is_compute(Ty t) {
    return t > TY_NONE && t < TY_COUNT && ty_compute(t) == t;
}

/* ---- tables ---- */

static bool product(const Shape *s, uint32_t set, int64_t *out) {
    *out = 1;
    for (int i = 0; i < MAX_AXES; i++)
        if ((set >> i & 1) && (s->n[i] < 0 || !mul_fits(*out, s->n[i], out))) return false;
    return *out <= INT64_MAX / 4;
}

static Err check_tables(Walk *w) {
    const Kern *k = w->k;
    const Plan *p = &k->plan;
    if (p->W < 1 || p->W > 1024 || p->V < 1 || p->V > 64 || p->P < 1 || p->cluster < 1 || p->cluster > 16 ||
        p->flight < 1 || p->flight > 64 || k->subgroup < 1)
        FAIL(S_KERN_PLAN, "W=%d V=%d P=%d flight=%d subgroup=%d cannot be run", p->W, p->V, p->P, p->flight,
             k->subgroup);
    if (plan_groups(p) > 1 && p->combine == COMBINE_OUTER)
        FAIL(S_KERN_PLAN, "%d groups with combine=outer", plan_groups(p));
    if (p->split < 1 || p->split > 64 || (p->split > 1 && p->cluster > 1))
        FAIL(S_KERN_PLAN, "split=%d with cluster=%d", p->split, p->cluster);
    if (p->exchange != EXCHANGE_BARRIER && (p->exchange != EXCHANGE_BYTES || p->cluster == 1))
        FAIL(S_KERN_PLAN, "exchange=%d with cluster=%d", p->exchange, p->cluster);
    if (k->ndomains < 0 || k->ndomains > MAX_DOMAINS) FAIL(S_KERN_DOMAIN, "%d domains", k->ndomains);
    for (int i = 0; i < k->ndomains; i++) {
        const Domain *d = &k->domain[i];
        int64_t serial, mapped;
        if (d->serial & d->mapped || (d->serial | d->mapped) & ~d->axes || d->axes >> k->prog->naxes)
            FAIL(S_KERN_DOMAIN, "domain %d: an axis is not one of serial and mapped, or is not the domain's", i);
        if (!product(&k->shape, d->serial, &serial) || !product(&k->shape, d->mapped, &mapped) ||
            serial != d->n_serial || mapped != d->n_mapped)
            FAIL(S_KERN_DOMAIN, "domain %d: %lld points of %lld elements are not what its axes have", i,
                 (long long)d->n_serial, (long long)d->n_mapped);
    }
    for (int i = 0; i < k->nstripes; i++) {
        const Stripe *s = &k->stripe[i];
        bool output = s->home == HOLD_OUTPUT;
        if (s->ty <= TY_NONE || s->ty >= TY_COUNT || s->domain < 0 || s->domain >= k->ndomains || s->first < 0 ||
            s->first > s->last || s->last >= k->nsweeps)
            FAIL(S_KERN_STRIPE, "stripe %d: type, domain or sweeps %d to %d do not exist", i, s->first, s->last);
        if (!output && s->home != HOLD_REGISTER && s->home != HOLD_SHARED)
            FAIL(S_KERN_STRIPE, "stripe %d: has no home", i);
        if (output && (s->param < 0 || s->param >= k->prog->nparams || k->prog->param[s->param].dir != DIR_OUT))
            FAIL(S_KERN_STRIPE, "stripe %d: lives in an output that does not exist", i);
    }
    for (int i = 0; i < k->ncells; i++)
        if (!is_compute(k->cell[i].ty) || k->cell[i].acc < 1 || k->cell[i].acc > 64)
            FAIL(S_KERN_CELL, "cell %d: no compute type, or %d accumulators", i, k->cell[i].acc);
    for (int i = 0; i < k->narrays; i++)
        if (!is_compute(k->array[i].ty) || k->array[i].n < 0)
            FAIL(S_KERN_ARRAY, "row array %d: no compute type, or %lld values", i, (long long)k->array[i].n);
    if (k->nreds < 0) FAIL(S_KERN_STRUCTURE, "%d reductions", k->nreds);
    int ranged = shape_ranged(&k->shape), extent = prog_extent(k->prog, &k->shape);
    for (int i = 0; i < MAX_AXES; i++)
        if (k->shape.least[i] &&
            (i != ranged || i >= k->prog->naxes || k->prog->row_axes >> i & 1 || k->shape.least[i] >= k->shape.n[i] ||
             extent < 0 || k->prog->param[extent].dir != DIR_SCALAR || k->prog->param[extent].ty != TY_I64))
            FAIL(S_KERN_DOMAIN, "axis %d has a range that is none, or that no argument gives the extent of", i);
    return OK;
}

/* ---- operands, places ---- */

/* Where an instruction may stand (b block, s sweep, a any) and operands that may be absent. */
static const struct {
    char place;
    bool optional[3];
} places[K_COUNT] = {
    [K_CONST] = {'a', {0}},        [K_SLOT] = {'a', {0}},        [K_ROWIDX] = {'a', {0}},
    [K_SERIAL] = {'a', {0}},       [K_ELEM] = {'s', {0}},        [K_ACTIVE] = {'s', {0}},
    [K_OP] = {'a', {0}},           [K_LOADP] = {'s', {0, 1, 0}}, [K_LOAD1] = {'a', {0, 1, 1}},
    [K_STOREP] = {'s', {0, 1, 0}}, [K_STORE1] = {'a', {0}},      [K_GET] = {'s', {1, 0, 0}},
    [K_PUT] = {'s', {1, 0, 0}},    [K_INIT] = {'b', {0}},        [K_FOLD] = {'s', {0}},
    [K_FOLD2] = {'s', {0}},        [K_CELL] = {'a', {0}},        [K_SETCELL] = {'a', {0}},
    [K_PACKFOLD] = {'s', {0}},     [K_JOIN] = {'b', {0}},        [K_JOIN2] = {'b', {0}},
    [K_JOIN2I] = {'b', {0}},       [K_ROWGET] = {'a', {0}},      [K_ROWPUT] = {'b', {0}},
    [K_MEET] = {'b', {0}},         [K_PART] = {'s', {0}},        [K_SETPART] = {'b', {0}},
    [K_SEG] = {'s', {0}},          [K_STORES] = {'s', {0}},      [K_PASS] = {'b', {0}},
    [K_SAME] = {'b', {0}},
};

/* A value is visible in its own node; what a block made also after it, to the end of the loop it stands in. */
static bool visible(const Walk *w, int x) {
    if (w->node_of[x] == w->node) return true;
    return w->k->node[w->node_of[x]].kind == NODE_BLOCK && (w->loop_of[x] < 0 || w->loop_of[x] == w->loop);
}

static Err check_operands(Walk *w, int i) {
    const Ins *in = &w->k->ins[i];
    int at[3], n = ins_operands(in, at);
    for (int j = 0; j < n; j++) {
        int x = in->a[at[j]];
        if (x == -1 && places[in->k].optional[at[j]]) continue;
        if (x < 0 || x >= w->k->nins) FAIL_INS(S_KERN_OPERAND, "operand %d does not exist", at[j]);
        if (x >= i) FAIL_INS(S_KERN_ORDER, "operand %%%d comes later", x);
        if (!ins_makes(&w->k->ins[x])) FAIL_INS(S_KERN_OPERAND, "operand %%%d makes no value", x);
        if (!visible(w, x)) FAIL_INS(S_KERN_SCOPE, "operand %%%d is gone outside the loop or sweep that made it", x);
    }
    return OK;
}

static bool is_tensor(const Param *p) {
    return p->dir == DIR_IN || p->dir == DIR_OUT || p->dir == DIR_INOUT;
}

/* Numbers that name something: it exists, and may be used so. */
static Err check_refs(Walk *w, int i) {
    const Kern *k = w->k;
    const Ins *in = &k->ins[i];
    for (const char *f = kop_info(in->k)->fields; *f; f++) {
        int n = *f == 'S'   ? k->nstripes
                : *f == 'C' ? k->ncells
                : *f == 'A' ? k->narrays
                : *f == 'n' ? k->abi.nslots
                            : -1;
        if (n >= 0 && (in->imm < 0 || in->imm >= n)) FAIL_INS(S_KERN_INDEX, "number %d of %d", in->imm, n);
        if (*f == 'g' &&
            (in->lanes < 1 || in->lanes & (in->lanes - 1) || k->subgroup % in->lanes || k->plan.W % in->lanes))
            FAIL_INS(S_KERN_INDEX, "segments of %d lanes", in->lanes);
        if (*f == 'v') { /* what is passed on must come to every lane of a subgroup's width */
            int parts = in->imm >= 0 && in->imm < PASS_LEVELS ? pass_count(k, in->imm) : 0;
            if (parts < 2 || parts > k->subgroup || k->plan.W % k->subgroup)
                FAIL_INS(S_KERN_INDEX, "level %d of %d parts, W=%d", in->imm, parts, k->plan.W);
        }
        if (*f == 'p' && (in->param < 0 || in->param >= k->prog->nparams))
            FAIL_INS(S_KERN_INDEX, "parameter %d of %d", in->param, k->prog->nparams);
        if (*f == 'a' && (in->acc < 0 || in->acc >= k->cell[in->imm].acc))
            FAIL_INS(S_KERN_INDEX, "accumulator %d of %d", in->acc, k->cell[in->imm].acc);
        if ((*f == 'l' && (in->policy < LOAD_PLAIN || in->policy > LOAD_STREAM)) ||
            (*f == 'w' && (in->policy < STORE_PLAIN || in->policy > STORE_STREAM)))
            FAIL_INS(S_KERN_INDEX, "policy %d", in->policy);
    }
    if (in->k == K_LOADP || in->k == K_LOAD1) {
        const Param *p = &k->prog->param[in->param];
        bool home = false;
        for (int s = 0; s < k->nstripes; s++)
            home = home || (k->stripe[s].home == HOLD_OUTPUT && k->stripe[s].param == in->param);
        if (!is_tensor(p) || (p->dir == DIR_OUT && !home))
            FAIL_INS(S_KERN_DIRECTION, "loads from %s, which is no input", p->name);
    }
    if (in->k == K_STOREP || in->k == K_STORE1 || in->k == K_STORES) {
        const Param *p = &k->prog->param[in->param];
        if (p->dir != DIR_OUT && p->dir != DIR_INOUT)
            FAIL_INS(S_KERN_DIRECTION, "stores to %s, which is no output", p->name);
    }
    return OK;
}

/* ---- types ---- */

static Ty type_of(const Walk *w, int x) {
    return w->k->ins[x].ty;
}

/* The type an argument slot has: i64, or f64 for scalars of float types. TY_NONE for pointers. */
static Ty slot_type(const Kern *k, int slot) {
    for (int p = 0; p < k->prog->nparams; p++) {
        if (k->abi.ptr[p] == slot) return TY_NONE;
        if (k->abi.scalar[p] == slot && ty_is_float(k->prog->param[p].ty)) return TY_F64;
    }
    return TY_I64;
}

static bool folds(Op op) {
    return op == OP_ADD || op == OP_MUL || op == OP_MIN || op == OP_MAX || op == OP_AND || op == OP_OR ||
           op == OP_ATLEAST;
}

static Err check_op(Walk *w, int i) {
    const Ins *in = &w->k->ins[i];
    if (in->op == OP_CAST || in->op == OP_BITS) {
        Ty from = type_of(w, in->a[0]);
        if (in->to <= TY_NONE || in->to >= TY_COUNT || ty_compute(in->to) != in->ty)
            FAIL_INS(S_KERN_TYPE, "%s is not what the target type computes in", ty_text(in->ty));
        if (in->op == OP_BITS && (in->to != in->ty || ty_bytes(from) != ty_bytes(in->ty)))
            FAIL_INS(S_KERN_TYPE, "the bits of %s are not those of %s", ty_text(from), ty_text(in->ty));
        return OK;
    }
    int arity = op_info(in->op)->arity;
    Ty t[3] = {TY_NONE, TY_NONE, TY_NONE}, result;
    for (int j = 0; j < arity; j++) t[j] = type_of(w, in->a[j]);
    bool fine = op_type(in->op, t, &result) && result == in->ty;
    for (int j = in->op == OP_WHERE ? 1 : 0; fine && j < arity; j++) fine = t[j] == op_operand(in->op, t);
    if (!fine) FAIL_INS(S_KERN_TYPE, "%s does not follow from the operands, which must agree", ty_text(in->ty));
    if (w->k->poly && in->ty == TY_F32 && op_info(in->op)->cost == COST_SPECIAL)
        FAIL_INS(S_KERN_SPECIAL, "%s of f32 must be expanded on this machine", op_info(in->op)->text);
    return OK;
}

/* The operator is one that this instruction can have. */
static Err check_operator(Walk *w, int i) {
    const Ins *in = &w->k->ins[i];
    if (!strchr(kop_info(in->k)->fields, 'o')) return OK;
    bool pair = in->k == K_FOLD2 || in->k == K_JOIN2, fine = (int)in->op >= 0 && in->op < OP_COUNT;
    if (fine && in->k == K_OP)
        fine = op_info(in->op)->typing != TR_NONE;
    else if (fine)
        fine = pair ? in->op == OP_MIN || in->op == OP_MAX
                    : folds(in->op) || (in->op == OP_FMA && (in->k == K_FOLD || in->k == K_PACKFOLD));
    if (!fine) FAIL_INS(S_KERN_OPERATOR, "operator number %d does not do that", (int)in->op);
    return OK;
}

static Err need(Walk *w, int i, const char *what, Ty has, Ty want) {
    if (has != want)
        FAIL_INS(S_KERN_TYPE, "%s is %s, not %s", what, has < TY_COUNT ? ty_text(has) : "nothing", ty_text(want));
    return OK;
}
#define NEED(what, has, want)                    \
    do {                                         \
        Err need_ = need(w, i, what, has, want); \
        if (need_ != OK) return need_;           \
    } while (0)

static Err check_types(Walk *w, int i) {
    const Kern *k = w->k;
    const Ins *in = &k->ins[i];
    if (!is_compute(in->ty)) FAIL_INS(S_KERN_TYPE, "type number %d is none that is computed in", (int)in->ty);
    switch (in->k) {
    case K_SLOT: NEED("the slot", slot_type(k, in->imm), in->ty); break;
    case K_ROWIDX:
    case K_SERIAL:
    case K_SEG:
    case K_JOIN2I: NEED("the result", in->ty, TY_I64); break;
    case K_ELEM:
        if (in->ty != TY_I32)
            NEED("the result", in->ty, TY_I64);
        else if (k->domain[k->node[w->node].domain].n_mapped > INT32_MAX)
            FAIL_INS(S_KERN_TYPE, "%s cannot number the elements", ty_text(in->ty));
        break;
    case K_ACTIVE: NEED("the result", in->ty, TY_F32); break;
    case K_OP: return check_op(w, i);
    case K_LOADP:
    case K_LOAD1:
        NEED("the result", in->ty, ty_compute(k->prog->param[in->param].ty));
        NEED("the address", type_of(w, in->a[0]), TY_I64);
        if (in->k == K_LOADP && in->a[1] >= 0) NEED("the stride", type_of(w, in->a[1]), TY_I64);
        if (in->k == K_LOAD1 && (in->a[1] < 0) != (in->a[2] < 0))
            FAIL_INS(S_KERN_OPERAND, "%s without the other", in->a[1] < 0 ? "a fill" : "a guard");
        if (in->k == K_LOAD1 && in->a[1] >= 0) {
            NEED("the guard", type_of(w, in->a[1]), TY_BOOL);
            NEED("the fill", type_of(w, in->a[2]), in->ty);
        }
        break;
    case K_STOREP:
    case K_STORE1:
    case K_STORES:
        NEED("the value", type_of(w, in->a[2]), in->ty);
        NEED("the address", type_of(w, in->a[0]), TY_I64);
        if (in->k == K_STOREP && in->a[1] >= 0) NEED("the stride", type_of(w, in->a[1]), TY_I64);
        break;
    case K_GET:
    case K_PUT:
        NEED("the stripe's value", in->ty, ty_compute(k->stripe[in->imm].ty));
        if (in->k == K_PUT) NEED("the value", type_of(w, in->a[1]), in->ty);
        if (in->a[0] >= 0) NEED("the serial point", type_of(w, in->a[0]), TY_I64);
        break;
    case K_FOLD2:
        if (in->imm + 1 >= k->ncells || k->cell[in->imm + 1].acc != k->cell[in->imm].acc)
            FAIL_INS(S_KERN_INDEX, "no cell %d for the index beside it", in->imm + 1);
        NEED("the index", type_of(w, in->a[1]), TY_I64);
        NEED("the cell of the index", k->cell[in->imm + 1].ty, TY_I64);
        /* fall through */
    case K_FOLD:
    case K_SETCELL:
    case K_SETPART:
        NEED("the value", type_of(w, in->a[0]), in->ty);
        if (in->k == K_FOLD && ins_has(in, 1)) NEED("the factor", type_of(w, in->a[1]), in->ty);
        /* fall through */
    case K_INIT:
    case K_PART:
    case K_CELL: NEED("the cell", k->cell[in->imm].ty, in->ty); break;
    case K_JOIN2:
        NEED("the index", type_of(w, in->a[1]), TY_I64);
        /* fall through */
    case K_JOIN:
    case K_MEET:
    case K_PASS:
    case K_SAME:
    case K_PACKFOLD:
        NEED("the value", type_of(w, in->a[0]), in->ty);
        if (in->k == K_PACKFOLD && ins_has(in, 1)) NEED("the factor", type_of(w, in->a[1]), in->ty);
        break;
    case K_ROWGET:
    case K_ROWPUT:
        NEED("the index", type_of(w, in->a[0]), TY_I64);
        NEED("the row array", k->array[in->imm].ty, in->ty);
        if (in->k == K_ROWPUT) NEED("the value", type_of(w, in->a[1]), in->ty);
        break;
    case K_CONST:
    case K_COUNT: break;
    }
    if (in->k == K_FOLD || in->k == K_FOLD2 || in->k == K_JOIN || in->k == K_JOIN2 || in->k == K_PACKFOLD ||
        in->k == K_MEET) {
        Ty t[3] = {in->ty, in->ty, in->ty}, result;
        if (!op_type(in->op, t, &result) || result != in->ty)
            FAIL_INS(S_KERN_TYPE, "%s of %s", op_info(in->op)->text, ty_text(in->ty));
    }
    return OK;
}

/* ---- ranks ---- */

static Rank rank_of(const Walk *w, int x) {
    return x < 0 ? RANK_ROW : w->k->ins[x].rank;
}

static Rank highest(const Walk *w, const Ins *in) {
    int at[3], n = ins_operands(in, at);
    Rank r = RANK_ROW;
    for (int j = 0; j < n; j++)
        if (rank_of(w, in->a[at[j]]) > r) r = rank_of(w, in->a[at[j]]);
    return r;
}

static Err check_ranks(Walk *w, int i) {
    const Ins *in = &w->k->ins[i];
    bool sweep = w->k->node[w->node].kind == NODE_SWEEP;
    Rank top = highest(w, in), result = RANK_ROW;
    Rank most[3] = {RANK_ELEM, RANK_ELEM, RANK_ELEM}; /* of the operands */
    switch (in->k) {
    case K_ELEM: result = RANK_ELEM; break;
    case K_ACTIVE: result = RANK_PACK; break;
    case K_OP:
    case K_LOAD1: result = top; break;
    case K_LOADP: result = RANK_ELEM, most[0] = most[1] = RANK_ROW; break;
    case K_STOREP: most[0] = most[1] = RANK_ROW; break;
    case K_STORE1:
        if (!sweep)
            most[0] = most[2] = RANK_ROW;
        else if (rank_of(w, in->a[0]) != RANK_ELEM)
            FAIL_INS(S_KERN_RANK, "%s for all elements", "one address");
        break;
    case K_GET: result = RANK_ELEM, most[0] = RANK_ROW; break;
    case K_PUT: most[0] = RANK_ROW; break;
    case K_CELL: result = sweep ? RANK_PACK : RANK_LANE; break;
    case K_SETCELL: most[0] = sweep ? RANK_PACK : RANK_LANE; break;
    case K_PART:
    case K_SEG:
    case K_PACKFOLD: result = RANK_PACK; break;
    case K_SETPART: most[0] = RANK_LANE; break;
    case K_STORES: most[0] = RANK_PACK; break;
    case K_MEET:
    case K_PASS:
    case K_SAME:
        result = in->k == K_SAME ? RANK_ROW : RANK_LANE;
        if (rank_of(w, in->a[0]) != RANK_LANE) FAIL_INS(S_KERN_RANK, "%%%d is not a value of each lane", in->a[0]);
        break;
    case K_JOIN:
    case K_JOIN2:
        for (int j = 0; j < (in->k == K_JOIN ? 1 : 2); j++)
            if (rank_of(w, in->a[j]) != RANK_LANE) FAIL_INS(S_KERN_RANK, "%%%d is not a value of each lane", in->a[j]);
        break;
    case K_ROWGET: most[0] = RANK_ROW; break;
    case K_ROWPUT: most[0] = most[1] = RANK_ROW; break;
    default: break;
    }
    int at[3], n = ins_operands(in, at);
    for (int j = 0; j < n; j++)
        if (rank_of(w, in->a[at[j]]) > most[at[j]])
            FAIL_INS(S_KERN_RANK, "operand %%%d is a value of each %s", in->a[at[j]],
                     rank_text(rank_of(w, in->a[at[j]])));
    if (ins_makes(in) && in->rank != result)
        FAIL_INS(S_KERN_RANK, "the result has rank number %d, not %d", (int)in->rank, (int)result);
    return OK;
}

/* ---- memory of the kern itself ---- */

/* Are the mapped elements of this domain a run of the parameter with one stride? Those of its dimensions that the
 * domain maps stand in the order of the axes, next to each other, and last where no stride is given. Extents of 1 do
 * not count. */
static bool layout_fits(const Kern *k, const Param *p, uint32_t mapped, bool strided) {
    int order[MAX_AXES], n = 0, met = 0, since = 0;
    for (int a = 0; a < MAX_AXES; a++)
        if ((mapped >> a & 1) && k->shape.n[a] != 1) order[n++] = a;
    for (int d = 0; d < p->rank; d++) {
        int a = p->axis[d];
        if (k->shape.n[a] == 1) continue;
        if (met < n && a == order[met]) {
            if (met && since) return false;
            met++, since = 0;
        } else {
            if (mapped >> a & 1) return false;
            since++;
        }
    }
    return met == n && (n == 0 || strided || since == 0);
}

static Err check_stripe(Walk *w, int i) {
    const Kern *k = w->k;
    const Ins *in = &k->ins[i];
    const Stripe *s = &k->stripe[in->imm];
    const Domain *d = &k->domain[s->domain];
    if (s->home == HOLD_OUTPUT)
        FAIL_INS(S_KERN_STRIPE, "stripe %d lives in an output, which is loaded and stored", in->imm);
    if (d->mapped != k->domain[k->node[w->node].domain].mapped)
        FAIL_INS(S_KERN_STRIPE_DOMAIN, "stripe %d maps other axes than the sweep", in->imm);
    if ((in->a[0] < 0) != (d->serial == 0))
        FAIL_INS(S_KERN_STRIPE_DOMAIN, "stripe %d has %lld serial points", in->imm, (long long)d->n_serial);
    if (w->sweeps < s->first || w->sweeps > s->last)
        FAIL_INS(S_KERN_STRIPE, "stripe %d lives from sweep %d to %d, this is %d", in->imm, s->first, s->last,
                 w->sweeps);
    if (in->k == K_PUT && w->in_row && w->stripe_once[in->imm])
        FAIL_INS(S_KERN_ONCE, "stripe %d is filled before the first row", in->imm);
    w->stripe_once[in->imm] |= !w->in_row;
    if (in->k == K_PUT)
        w->stripe_put[in->imm] = true;
    else if (!w->stripe_put[in->imm])
        FAIL_INS(S_KERN_UNFILLED, "stripe %d is not filled before", in->imm);
    return OK;
}

static Err check_state(Walk *w, int i) {
    const Kern *k = w->k;
    const Ins *in = &k->ins[i];
    const Node *nd = &k->node[w->node];
    bool sweep = nd->kind == NODE_SWEEP;
    switch (in->k) {
    case K_SERIAL:
        if (w->loop < 0) FAIL_INS(S_KERN_LOOP, "%s", "stands in no loop");
        break;
    case K_LOADP:
    case K_STOREP: {
        const Param *p = &k->prog->param[in->param];
        if (!layout_fits(k, p, k->domain[nd->domain].mapped, in->a[1] >= 0))
            FAIL_INS(S_KERN_LAYOUT, "the sweep's elements are no run of %s", p->name);
        break;
    }
    case K_GET:
    case K_PUT: return check_stripe(w, i);
    case K_INIT: w->cell_ready[in->imm] = true; break;
    case K_FOLD2:
        if (!w->cell_ready[in->imm + 1]) FAIL_INS(S_KERN_UNSET, "cell %d is not initialised", in->imm + 1);
        /* fall through */
    case K_FOLD:
    case K_PART:
    case K_SETPART:
    case K_CELL:
        if (!w->cell_ready[in->imm]) FAIL_INS(S_KERN_UNSET, "cell %d is not initialised", in->imm);
        if (in->k == K_PART &&
            (k->plan.flight != 1 ||
             k->domain[nd->domain].n_mapped > (int64_t)k->cell[in->imm].acc * plan_lanes(&k->plan) * k->plan.V))
            FAIL_INS(S_KERN_INDEX, "cell %d has %d accumulators, fewer than chunks in flight or of the sweep", in->imm,
                     k->cell[in->imm].acc);
        if (in->k == K_CELL && sweep && in->acc != 0) FAIL_INS(S_KERN_INDEX, "accumulator %d in a sweep", in->acc);
        break;
    case K_SETCELL: /* a sweep may have no steps, so what is set there is not set for sure */
        if (!sweep && k->cell[in->imm].acc == 1) w->cell_ready[in->imm] = true;
        break;
    case K_SEG:
    case K_STORES:
        if (k->plan.flight != 1 || k->domain[nd->domain].n_mapped % ((int64_t)in->lanes * k->plan.V))
            FAIL_INS(S_KERN_INDEX, "segments of %d lanes do not make up %lld elements", in->lanes,
                     (long long)k->domain[nd->domain].n_mapped);
        break;
    case K_JOIN2:
        if (i + 1 >= nd->i1 || k->ins[i + 1].k != K_JOIN2I) FAIL_INS(S_KERN_PAIR, "%s", "its index does not follow");
        break;
    case K_JOIN2I:
        if (i == nd->i0 || k->ins[i - 1].k != K_JOIN2)
            FAIL_INS(S_KERN_PAIR, "%s", "its value does not stand before it");
        break;
    case K_ROWPUT: w->array_put[in->imm] = true; break;
    case K_ROWGET:
        if (!w->array_put[in->imm]) FAIL_INS(S_KERN_UNFILLED, "row array %d is not filled before", in->imm);
        break;
    default: break;
    }
    return OK;
}

/* Splits of a row meet once, in one exchange, outside of loops; what comes after that is done for the row alone. */
static Err check_split(Walk *w, int i) {
    const Ins *in = &w->k->ins[i];
    int at[3], n = ins_operands(in, at);
    for (int j = 0; j < n; j++) w->late[i] |= in->a[at[j]] >= 0 && w->late[in->a[at[j]]];
    const bool join = in->k == K_JOIN || in->k == K_JOIN2, pass = in->k == K_PASS && in->imm == PASS_SPLITS;
    if (!join && !pass) return OK;
    const bool apart = pass && w->passes && w->k->ins[i - 1].k != K_PASS;
    if (w->loop >= 0 || w->late[i] || apart || (join ? w->passes : w->joins))
        FAIL_INS(S_KERN_SPLIT, "splits of a row meet here again, or in loop %d", w->loop);
    w->joins += join, w->passes += pass;
    w->late[i] |= join;
    return OK;
}

/* Before a group's first row there is no row, and nothing that is its own. */
static Err check_once(Walk *w, int i) {
    const Ins *in = &w->k->ins[i];
    bool fine = in->k == K_CONST || in->k == K_SLOT || in->k == K_OP || in->k == K_LOADP || in->k == K_PUT;
    if (w->in_row) return OK;
    if (in->k == K_LOADP) {
        const Param *p = &w->k->prog->param[in->param];
        for (int d = 0; d < p->rank; d++) fine = fine && !(w->k->prog->row_axes >> p->axis[d] & 1);
        fine = fine && p->dir == DIR_IN;
    }
    if (!fine) FAIL_INS(S_KERN_ONCE, "stands in a node that is done once: node %d", w->node);
    return OK;
}

/* Shifted rows: every place of a step has one lane's elements, and a step more or less is no other operation. */
static Err check_shift(Walk *w) {
    const Kern *k = w->k;
    int domain = -1;
    if (k->plan.tail != TAIL_HEAD_SHIFT) return OK;
    bool fine = k->plan.V == 1 && k->plan.W > 1 && plan_groups(&k->plan) == 1 && shape_ranged(&k->shape) < 0;
    for (int n = 0; n < k->nnodes; n++) {
        const Node *nd = &k->node[n];
        if (nd->kind != NODE_SWEEP) continue;
        fine = fine && (domain < 0 || nd->domain == domain) && k->domain[nd->domain].serial == 0 &&
               k->domain[nd->domain].n_mapped >= (int64_t)k->plan.W * k->plan.flight;
        domain = nd->domain;
        for (int i = nd->i0; i < nd->i1; i++) {
            const KOp op = k->ins[i].k;
            fine = fine && op != K_ACTIVE && op != K_PACKFOLD && op != K_CELL && op != K_SETCELL;
        }
    }
    if (!fine || domain < 0) FAIL(S_KERN_SHIFT, "rows of such a kern are not shifted: W=%d V=%d", k->plan.W, k->plan.V);
    return OK;
}

/* ---- the walk ---- */

static Err check_ins(Walk *w, int i) {
    const Ins *in = &w->k->ins[i];
    if ((int)in->k < 0 || in->k >= K_COUNT)
        FAIL(S_KERN_OPERATOR, "%%%d: instruction number %d does not exist", i, (int)in->k);
    char place = w->k->node[w->node].kind == NODE_SWEEP ? 's' : 'b';
    if (places[in->k].place != 'a' && places[in->k].place != place)
        FAIL_INS(S_KERN_PLACE, "cannot stand in a %s", place == 's' ? "sweep" : "block");
    static Err (*const checks[])(Walk *, int) = {check_operator, check_operands, check_refs, check_types,
                                                 check_ranks,    check_state,    check_once};
    for (int c = 0; c < COUNT(checks); c++) {
        Err e = checks[c](w, i);
        if (e != OK) return e;
    }
    return w->k->plan.split > 1 ? check_split(w, i) : OK;
}

static Err check_nodes(Walk *w, int first, int loop) {
    const Kern *k = w->k;
    for (int n = first; n != -1; n = k->node[n].next) {
        if (n < 0 || n >= k->nnodes || w->seen[n]) FAIL(S_KERN_STRUCTURE, "node %d does not exist or comes twice", n);
        const Node *nd = &k->node[n];
        w->seen[n] = true;
        w->nseen++;
        if (nd->once && (w->in_row || nd->kind == NODE_LOOP || !k->plan.grid))
            FAIL(S_KERN_ONCE, "node %d is done once, and stands in a row or a loop, or a group has one tile", n);
        w->in_row |= !nd->once;
        if (nd->kind == NODE_LOOP) {
            if (loop >= 0) FAIL(S_KERN_LOOP, "node %d is a loop in a loop", n);
            int axis = shape_ranged(&k->shape);
            if (nd->count < 0 || nd->count > INT64_MAX / 4 ||
                (nd->ranged && (axis < 0 || nd->count % k->shape.n[axis] != 0)))
                FAIL(S_KERN_LOOP, "node %d goes round %lld times%s", n, (long long)nd->count,
                     nd->ranged ? ", which is no multiple of an extent with a range" : "");
            bool *before =
                arena_dup(w->cx->a, w->cell_ready, (size_t)k->ncells); /* the loop may go round no time at all */
            Err e = check_nodes(w, nd->child, n);
            if (e != OK) return e;
            if (k->ncells) memcpy(w->cell_ready, before, (size_t)k->ncells);
            continue;
        }
        if (nd->kind != NODE_BLOCK && nd->kind != NODE_SWEEP)
            FAIL(S_KERN_STRUCTURE, "node %d has kind %d", n, (int)nd->kind);
        if (nd->i0 != w->next || nd->i1 < nd->i0 || nd->i1 > k->nins)
            FAIL(S_KERN_STRUCTURE, "node %d has instructions %d to %d; %d is next of %d", n, nd->i0, nd->i1, w->next,
                 k->nins);
        if (nd->kind == NODE_SWEEP) {
            if (w->joins + w->passes && k->plan.split > 1)
                FAIL(S_KERN_SPLIT, "node %d is a sweep after splits of a row have met", n);
            if (nd->domain < 0 || nd->domain >= k->ndomains)
                FAIL(S_KERN_INDEX, "node %d sweeps domain %d of %d", n, nd->domain, k->ndomains);
            int64_t points = k->domain[nd->domain].n_serial;
            int axis = shape_ranged(&k->shape);
            bool ranged = axis >= 0 && k->domain[nd->domain].serial >> axis & 1;
            if (points != 1 && (loop < 0 || k->node[loop].count != points || k->node[loop].ranged != ranged))
                FAIL(S_KERN_LOOP, "node %d sweeps a domain of %lld serial points outside such a loop", n,
                     (long long)points);
        }
        w->node = n;
        w->loop = loop;
        for (int i = nd->i0; i < nd->i1; i++) {
            w->node_of[i] = n;
            w->loop_of[i] = loop;
            Err e = check_ins(w, i);
            if (e != OK) return e;
        }
        w->next = nd->i1;
        w->sweeps += nd->kind == NODE_SWEEP;
    }
    return OK;
}

Err kern_verify(Cx *cx, const Kern *k) {
    Arena *a = cx->a;
    Walk walk = {.cx = cx, .k = k}, *w = &walk;
    w->node_of = NEWN(a, int, k->nins);
    w->loop_of = NEWN(a, int, k->nins);
    w->seen = NEWN(a, bool, k->nnodes);
    w->late = NEWN(a, bool, k->nins);
    w->stripe_put = NEWN(a, bool, k->nstripes);
    w->stripe_once = NEWN(a, bool, k->nstripes);
    w->array_put = NEWN(a, bool, k->narrays);
    w->cell_ready = NEWN(a, bool, k->ncells);
    Err e = check_tables(w);
    if (e == OK) e = check_nodes(w, k->root, -1);
    if (e == OK) e = check_shift(w);
    if (e != OK) return e;
    if (w->nseen != k->nnodes || w->next != k->nins || w->sweeps != k->nsweeps)
        FAIL(S_KERN_STRUCTURE, "%d of %d nodes, %d of %d instructions and %d of %d sweeps are reached", w->nseen,
             k->nnodes, w->next, k->nins, w->sweeps, k->nsweeps);
    return OK;
}
