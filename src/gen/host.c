/* The host dialect: a row's W lanes are R registers of L elements. A value of rank ROW is a scalar, of LANE and PACK
 * one register each of R, of ELEM one for each chunk in flight, pack element and register. Which elements are active is
 * known in the text, so a partial register is a prefix; in the last steps of a domain whose size comes with the launch
 * it is how many. */
#include "hostgen.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const Ins *at(const Emit *e, int i) {
    return &e->k->ins[i];
}

const char *host_scalar_type(Ty t) {
    return t == TY_BOOL ? "b1" : ty_text(t);
}

static const char *storage_type(Ty t) {
    return t == TY_BOOL ? "bool8" : ty_text(t);
}

const char *host_literal(Emit *e, Ty ty, Num c) {
    if (ty == TY_BOOL) return c.b ? "1" : "0";
    if (ty == TY_F32 && isnan(c.f)) return "__builtin_nanf(\"\")";
    if (ty == TY_F32 && isinf(c.f)) return c.f < 0 ? "(-__builtin_inff())" : "__builtin_inff()";
    if (ty == TY_F64 && isnan(c.d)) return "__builtin_nan(\"\")";
    if (ty == TY_F64 && isinf(c.d)) return c.d < 0 ? "(-__builtin_inf())" : "__builtin_inf()";
    return emit_number(e, ty, c);
}

/* A value as a scalar (rank ROW) */
const char *host_scalar(Emit *e, int i) {
    return at(e, i)->k == K_CONST ? host_literal(e, at(e, i)->ty, at(e, i)->c)
                                  : emit_text(e, "v%d%s", i, host_ago(e, i));
}

static const char *reg_name(Emit *e, int i, int f, int v, int r) {
    return at(e, i)->rank == RANK_ELEM ? emit_text(e, "v%d_%d_%d_%d", i, f, v, r)
                                       : emit_text(e, "v%d_%d%s", i, r, host_ago(e, i));
}

/* A value as a register: copy f, v, r of it */
static const char *reg(Emit *e, int i, int f, int v, int r) {
    const Ins *in = at(e, i);
    if (in->rank == RANK_ROW) return emit_text(e, "bc_v%s(%s)", ty_text(in->ty), host_scalar(e, i));
    const char *name = reg_name(e, i, f, v, r);
    return e->is_short[i] ? emit_text(e, "cast_vi32_i64(%s)", name) : name;
}

/* An i64 value as a register of 32 bits: one that is spelt so, or one of the row's, cut off at the ends, which no short
 * value reaches. */
static const char *reg_short(Emit *e, int i, int f, int v, int r) {
    const Ins *in = at(e, i);
    if (in->rank != RANK_ROW) return reg_name(e, i, f, v, r);
    if (in->k == K_CONST) return emit_text(e, "bc_vi32(%s)", host_literal(e, TY_I32, num_cast(TY_I32, in->c, TY_I64)));
    if (e->cut[i]) return emit_text(e, "bc_vi32(i%d%s)", i, host_ago(e, i));
    return emit_text(e, "bc_vi32(cast_i64_i32(%s))", host_scalar(e, i));
}

/* The type that a register of the value is declared with. */
static Ty reg_type(const Emit *e, int i) {
    return e->is_short[i] ? TY_I32 : at(e, i)->ty;
}

/* Places of a shifted row from the register's first on that have elements if the row is shifted by so much, in a step
 * whose number is known. */
static int64_t places_left(const Emit *e, const Step *s, int f, int r, int shift) {
    return e->k->domain[e->domain].n_mapped + shift - (s->number + f) * e->k->plan.W - (int64_t)r * e->L;
}

/* Active elements of register r in chunk f of the step, pack element v: always a prefix. */
static int active(const Emit *e, const Step *s, int f, int v, int r) {
    const Plan *p = &e->k->plan;
    if (e->shifts && s->left == LEFT_SIZE && places_left(e, s, f, r, e->shifts - 1) <= 0) return 0;
    if (s->left < 0) return e->L; /* or as many as some_of says */
    int64_t left = s->left - (int64_t)f * p->W * p->V - v;
    if (left <= 0) return 0;
    int64_t n = ceil_div(left, p->V) - (int64_t)r * e->L;
    return (int)(n < 0 ? 0 : n > e->L ? e->L : n);
}

/* How many places an element is from where it comes. */
static const char *unshifted(Emit *e) {
    return e->shifts ? emit_text(e, " - %s", host_shift(e)) : "";
}

/* What the loop over groups of registers adds to a place, `each` for a register. */
static const char *beyond(Emit *e, int each) {
    return e->grouped ? emit_text(e, " + g * %d", each) : "";
}

/* The same as text; NULL: all of the register. Of the first step of a shifted row: how many are not. */
static const char *some_of(Emit *e, const Step *s, int f, int v, int r) {
    const Plan *p = &e->k->plan;
    int n = active(e, s, f, v, r);
    int64_t off = ((int64_t)f * p->W + (int64_t)r * e->L) * p->V + v;
    if (s->left == LEFT_HEAD) {
        if (f || (off >= e->shifts && !e->grouped)) return NULL;
        return emit_text(e, "from(%s - (%" PRId64 "%s))", host_shift(e), off, beyond(e, e->L));
    }
    if (e->shifts && !e->grouped && s->left == LEFT_SIZE && places_left(e, s, f, r, 0) >= e->L) return NULL;
    if (s->left != LEFT_SIZE) return n == e->L ? NULL : emit_text(e, "%d", n);
    const char *left =
        emit_text(e, "%s%s%s - (%s * %" PRId64 " + %" PRId64 "%s)", emit_size(e, e->domain), e->shifts ? " + " : "",
                  e->shifts ? host_shift(e) : "", s->chunk, (int64_t)p->W * p->V, off, beyond(e, e->L * p->V));
    return p->V == 1 ? emit_text(e, "some(%s)", left) : emit_text(e, "some((%s + %d) / %d)", left, p->V - 1, p->V);
}

/* ---- operators ---- */

static const char *fill_in(Emit *e, const char *spell, const char *type, const char *x, const char *y, const char *z) {
    Buf b = buf_new(e->cx->a);
    for (const char *c = spell; *c; c++) {
        if (*c != '$') {
            buf_put(&b, c, 1);
            continue;
        }
        c++;
        buf_str(&b, *c == 't' ? type : *c == '0' ? x : *c == '1' ? y : z);
    }
    return b.s;
}

const char *host_apply(Emit *e, Op op, bool vector, Ty ty, const char *x, const char *y, const char *z) {
    const char *type = emit_text(e, "%s%s", vector ? "v" : "", ty_text(ty));
    const char *t = fill_in(e, op_info(op)->spell[DIALECT_HOST], type, x, y, z);
    return strchr(t, ' ') && t[strlen(t) - 1] != ')'    ? emit_text(e, "(%s)", t)
           : op_info(op)->spell[DIALECT_HOST][0] == '$' ? emit_text(e, "(%s)", t)
                                                        : t;
}

/* The type a function's name carries: the operands' for comparisons, the result's for the others. */
Ty host_name_type(const Emit *e, const Ins *in) {
    OpTyping t = op_info(in->op)->typing;
    return t == TR_CMP ? at(e, in->a[0])->ty : in->ty;
}

/* Does a comparison of i64 have a short value on one side, and on the other one too or one of the row's? */
static bool compares_short(const Emit *e, const Ins *in) {
    if (op_info(in->op)->typing != TR_CMP || at(e, in->a[0])->ty != TY_I64) return false;
    bool x = e->is_short[in->a[0]], y = e->is_short[in->a[1]];
    return (x && y) || (x && at(e, in->a[1])->rank == RANK_ROW) || (y && at(e, in->a[0])->rank == RANK_ROW);
}

/* Is an operation on elements done on 32 bits? */
static bool is_done_short(const Emit *e, int i) {
    return e->is_short[i] || compares_short(e, at(e, i));
}

static const char *value(Emit *e, int at_ins, bool vector, int f, int v, int r) {
    const Ins *in = at(e, at_ins);
    const char *x[3] = {NULL, NULL, NULL};
    bool whole = vector && is_done_short(e, at_ins);
    for (int i = 0; i < op_info(in->op)->arity; i++) {
        bool is_i64 = at(e, in->a[i])->ty == TY_I64;
        x[i] = !vector           ? host_scalar(e, in->a[i])
               : whole && is_i64 ? reg_short(e, in->a[i], f, v, r)
                                 : reg(e, in->a[i], f, v, r);
    }
    if (in->op == OP_CAST) {
        if (vector && e->is_short[at_ins]) return x[0];
        if (vector && e->is_short[in->a[0]])
            return emit_text(e, "cast_vi32_%s(%s)", ty_text(in->to), reg_name(e, in->a[0], f, v, r));
        return emit_text(e, "cast_%s%s_%s(%s)", vector ? "v" : "", ty_text(at(e, in->a[0])->ty), ty_text(in->to), x[0]);
    }
    return host_apply(e, in->op, vector, whole ? TY_I32 : host_name_type(e, in), x[0], x[1], x[2]);
}

static const char *pointer_type(Emit *e, int param) {
    const Param *p = &e->k->prog->param[param];
    return emit_text(e, "%s%s *", p->dir == DIR_IN ? "const " : "", storage_type(p->ty));
}

/* Which values of a row sweeps take in another form than they are made in. */
static void find_forms(Emit *e) {
    const Kern *k = e->k;
    e->based = NEWN(e->cx->a, uint32_t, k->nins + 1);
    e->cut = NEWN(e->cx->a, bool, k->nins + 1);
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        if ((in->k == K_LOADP || in->k == K_STOREP) && k->ins[in->a[0]].k == K_OP)
            e->based[in->a[0]] |= 1u << in->param;
        for (int o = 0; in->k == K_OP && in->rank == RANK_ELEM && o < op_info(in->op)->arity; o++) {
            const Ins *x = &k->ins[in->a[o]];
            if (x->ty == TY_I64 && x->rank == RANK_ROW && (x->k == K_OP || x->k == K_LOAD1) && is_done_short(e, i))
                e->cut[in->a[o]] = true;
        }
    }
}

static const char *pointer(Emit *e, int param, int base) {
    return emit_text(e, "p%d_%d%s", param, base, host_ago(e, base));
}

/* Where a row lies in a tensor is declared as a pointer: what an access adds to one that has other uses stays a part of
 * the access, while the sum of all is taken apart anew for every constant in it, and each part is a register's. And a
 * value of 64 bits that elements of 32 meet is cut off once. */
void host_forms(Emit *e, int i, uint32_t params, bool cut) {
    for (int q = 0; q < e->k->prog->nparams; q++)
        if (params >> q & 1)
            line(e, "%sconst %s = p%d + %s;", pointer_type(e, q), pointer(e, q, i), q, host_scalar(e, i));
    if (cut) line(e, "const i32 i%d%s = cast_i64_i32(%s);", i, host_ago(e, i), host_scalar(e, i));
}

static void declare(Emit *e, int i, const char *name, bool vector, const char *what) {
    const Ins *in = at(e, i);
    const char *note = in->note ? emit_text(e, " /* %s */", in->note) : "";
    if (e->outside && e->outside[i]) {
        line(e, "%s = %s;%s", name, what, note);
        return;
    }
    if (vector)
        line(e, "v%s %s = %s;%s", ty_text(reg_type(e, i)), name, what, note);
    else
        line(e, "%s %s = %s;%s", host_scalar_type(in->ty), name, what, note);
    host_forms(e, i, e->based[i], e->cut[i]);
}

/* A value of the row that is assigned later. */
static void announce(Emit *e, int i, Ty ty) {
    if (!e->outside || !e->outside[i]) line(e, "%s v%d;", host_scalar_type(ty), i);
}

/* ---- memory ---- */

Ty host_tensor_type(const Emit *e, int param) {
    return e->k->prog->param[param].ty;
}

/* x as the tensor's own compute type, for a store */
static const char *stored(Emit *e, const Ins *in, const char *x, bool vector) {
    Ty to = host_tensor_type(e, in->param);
    return ty_compute(to) == in->ty
               ? x
               : emit_text(e, "cast_%s%s_%s(%s)", vector ? "v" : "", ty_text(in->ty), ty_text(to), x);
}

typedef struct Spot { /* where a register of a pack access lies */
    const char *at;   /* pointer */
    const char *step; /* elements from one lane to the next; NULL: 1 */
} Spot;

static Spot spot(Emit *e, const Ins *in, const Step *s, int f, int v, int r) {
    const Plan *p = &e->k->plan;
    int64_t off = ((int64_t)f * p->W + (int64_t)r * e->L) * p->V + v, chunk = (int64_t)p->W * p->V;
    const char *elem = emit_text(e, "(%s * %" PRId64 " + %" PRId64 "%s%s)", s->chunk, chunk, off,
                                 beyond(e, e->L * p->V), unshifted(e));
    const char *base = e->based[in->a[0]] ? pointer(e, in->param, in->a[0])
                                          : emit_text(e, "p%d + %s", in->param, host_scalar(e, in->a[0]));
    if (in->a[1] < 0 && p->V == 1) return (Spot){emit_text(e, "%s + %s", base, elem), NULL};
    const char *stride = in->a[1] < 0 ? "1" : host_scalar(e, in->a[1]);
    return (Spot){emit_text(e, "%s + %s * %s", base, elem, stride), emit_text(e, "%d * %s", p->V, stride)};
}

/* The place of a slot: lanes side by side, slot by slot, serial point by serial point. */
static const char *slot(Emit *e, const Ins *in, const Step *s, int f, int v, int r) {
    const Plan *p = &e->k->plan;
    const Domain *d = &e->k->domain[e->k->stripe[in->imm].domain];
    int64_t chunk = (int64_t)p->W * p->V, point = map_slots(emit_room(e, d), p->W, p->V) * p->W;
    const char *serial = in->a[0] < 0 ? "" : emit_text(e, " + %s * %" PRId64, host_scalar(e, in->a[0]), point);
    return emit_text(e, "s%d + (%s * %" PRId64 " + %d%s)%s", in->imm, s->chunk, chunk,
                     ((f * p->V + v) * e->R + r) * e->L, beyond(e, e->L), serial);
}

const char *host_cell(Emit *e, int c, int acc, int r) {
    return cell_is_array(e, &e->k->cell[c]) ? emit_text(e, "c%d[%d%s]", c, acc * e->R + r, beyond(e, 1))
                                            : emit_text(e, "c%d_%d_%d", c, acc, r);
}

Ty host_cell_type(const Emit *e, int c) {
    return e->short_cell[c] ? TY_I32 : e->k->cell[c].ty;
}

static const char *only(Emit *e, const Step *s, const char *some) {
    if (!some) return emit_text(e, "pre_vbool(%d)", e->L);
    return emit_text(e, "%s_vbool(%s)", s->left == LEFT_HEAD ? "post" : "pre", some);
}

const char *host_join_name(Op op) {
    switch (op) {
    case OP_ADD: return "add";
    case OP_MUL: return "mul";
    case OP_MAX: return "max";
    case OP_MIN: return "min";
    case OP_ATLEAST: return "atleast";
    case OP_AND: return "and";
    default: return "or";
    }
}

/* ---- blocks ---- */

static void join(Emit *e, int i) {
    const Ins *in = at(e, i);
    int R = e->R, pad = 1;
    const char **x = NEWN(e->cx->a, const char *, R);
    while (pad < R) pad *= 2;
    announce(e, i, in->ty);
    line(e, "{");
    e->depth++;
    bool inner = e->k->plan.combine == COMBINE_INNER;
    for (int r = 0; r < R; r++) {
        x[r] = emit_text(e, "t%d", r);
        const char *from = reg(e, in->a[0], 0, 0, r);
        if (inner)
            line(e, "%s t%d = hj_%s_v%s(%s);", host_scalar_type(in->ty), r, host_join_name(in->op), ty_text(in->ty),
                 from);
        else
            line(e, "v%s t%d = %s;", ty_text(in->ty), r, from);
    }
    for (int h = pad / 2; h >= 1; h /= 2)
        for (int r = 0; r < h && r + h < R; r++)
            line(e, "t%d = %s;", r, host_apply(e, in->op, !inner, in->ty, x[r], x[r + h], NULL));
    if (inner)
        line(e, "v%d = t0;", i);
    else
        line(e, "v%d = hj_%s_v%s(t0);", i, host_join_name(in->op), ty_text(in->ty));
    e->depth--;
    line(e, "}");
}

/* Which lane's pair wins does not depend on the order they are asked in: registers first, then the lanes of one. */
static void join_arg(Emit *e, int i) {
    const Ins *in = at(e, i);
    const char *t = ty_text(in->ty), *op = host_join_name(in->op);
    const bool is_short = e->is_short[in->a[1]] || at(e, in->a[1])->rank == RANK_ROW;
    const char *index = is_short ? "i32" : "i64";
    announce(e, i, in->ty);
    announce(e, i + 1, TY_I64);
    line(e, "{");
    e->depth++;
    for (int r = 0; r < e->R; r++) {
        const char *x = reg(e, in->a[0], 0, 0, r);
        const char *at = is_short ? reg_short(e, in->a[1], 0, 0, r) : reg(e, in->a[1], 0, 0, r);
        if (r == 0) {
            line(e, "v%s t = %s;", t, x);
            line(e, "v%s j = %s;", index, at);
            continue;
        }
        line(e, "{");
        line(e, "    vbool m = better_%s_v%s_%s(%s, %s, t, j);", op, t, index, x, at);
        line(e, "    t = sel_v%s(m, %s, t);", t, x);
        line(e, "    j = sel_v%s(m, %s, j);", index, at);
        line(e, "}");
    }
    line(e, "i32 lane = best_%s_v%s_%s(t, j);", op, t, index);
    line(e, "v%d = t[lane];", i);
    line(e, "v%d = j[lane];", i + 1);
    e->depth--;
    line(e, "}");
}

static void host_block(Emit *e, int i) {
    const Ins *in = at(e, i);
    const char *name = emit_text(e, "v%d", i);
    switch (in->k) {
    case K_CONST: return;
    case K_SLOT: declare(e, i, name, false, emit_text(e, "a[%d].%s", in->imm, in->ty == TY_F64 ? "d" : "i")); return;
    case K_ROWIDX: declare(e, i, name, false, e->stage ? emit_text(e, "row - %d", e->stage) : "row"); return;
    case K_SERIAL: declare(e, i, name, false, e->serial); return;
    case K_OP:
        if (in->rank == RANK_ROW)
            declare(e, i, name, false, value(e, i, false, 0, 0, 0));
        else
            for (int r = 0; r < e->copies; r++)
                declare(e, i, emit_text(e, "v%d_%d", i, r), true, value(e, i, true, 0, 0, r));
        return;
    case K_LOAD1: {
        const char *x = emit_text(e, "lds_%s(p%d + %s)", ty_text(host_tensor_type(e, in->param)), in->param,
                                  host_scalar(e, in->a[0]));
        if (in->a[1] >= 0) x = emit_text(e, "%s ? %s : %s", host_scalar(e, in->a[1]), x, host_scalar(e, in->a[2]));
        declare(e, i, name, false, x);
        return;
    }
    case K_STORE1:
        line(e, "sts_%s(p%d + %s, %s);", ty_text(host_tensor_type(e, in->param)), in->param, host_scalar(e, in->a[0]),
             stored(e, in, host_scalar(e, in->a[2]), false));
        return;
    case K_INIT:
        for (int q = 0; q < e->k->cell[in->imm].acc; q++)
            for (int r = 0; r < e->copies; r++)
                line(e, "%s = bc_v%s(%s);", host_cell(e, in->imm, q, r), ty_text(host_cell_type(e, in->imm)),
                     host_literal(e, in->ty, in->c));
        return;
    case K_CELL:
        host_shift_ring(e, i);
        for (int r = 0; r < e->copies; r++) declare(e, i, emit_text(e, "v%d_%d", i, r), true, host_lane_cell(e, i, r));
        return;
    case K_SETCELL:
        for (int r = 0; r < e->copies; r++) line(e, "%s = %s;", host_cell(e, in->imm, 0, r), reg(e, in->a[0], 0, 0, r));
        return;
    case K_JOIN: join(e, i); return;
    case K_JOIN2: join_arg(e, i); return;
    case K_JOIN2I: return; /* made with the value */
    case K_ROWGET: declare(e, i, name, false, emit_text(e, "a%d[%s]", in->imm, host_scalar(e, in->a[0]))); return;
    case K_ROWPUT: line(e, "a%d[%s] = %s;", in->imm, host_scalar(e, in->a[0]), host_scalar(e, in->a[1])); return;
    default: return;
    }
}

static void row_block(Emit *e, int i) {
    if (!e->same[i]) host_block(e, i);
}

/* ---- sweeps ---- */

/* The accumulator that chunk f of the step is added to. */
static const char *folded(Emit *e, int c, const Step *s, int f, int r) {
    const Cell *q = &e->k->cell[c];
    if (cell_is_array(e, q))
        return emit_text(e, "c%d[(%s + %d) %% %d * %d + %d%s]", c, s->chunk, f, q->acc, e->R, r, beyond(e, 1));
    return host_cell(e, c, (int)((s->mod + f) % q->acc), r);
}

const char *host_folded(Emit *e, const Ins *in, const char *cell, const char *x, const char *y) {
    return ins_has(in, 1) ? host_apply(e, in->op, true, in->ty, x, y, cell)
                          : host_apply(e, in->op, true, in->ty, cell, x, NULL);
}

/* The fold into a cell, which is kept where not active. */
static void fold_into(Emit *e, const Ins *in, const char *cell, const Step *s, int f, int v, int r, const char *some) {
    const char *y = ins_has(in, 1) ? reg(e, in->a[1], f, v, r) : NULL;
    const char *sum = host_folded(e, in, cell, reg(e, in->a[0], f, v, r), y);
    if (some) sum = emit_text(e, "sel_v%s(%s, %s, %s)", ty_text(in->ty), only(e, s, some), sum, cell);
    line(e, "%s = %s;", cell, sum);
}

static void fold_arg(Emit *e, int i, const Step *s, int f, int v, int r, const char *some) {
    const Ins *in = at(e, i);
    const bool is_short = e->short_cell[in->imm + 1];
    const char *x = reg(e, in->a[0], f, v, r);
    const char *index = is_short ? reg_short(e, in->a[1], f, v, r) : reg(e, in->a[1], f, v, r);
    const char *best = host_cell(e, in->imm, 0, r), *where = host_cell(e, in->imm + 1, 0, r), *t = ty_text(in->ty);
    const char *rule = host_index_rises(e, i) ? "later" : "better", *w = is_short ? "i32" : "i64";
    const char *m =
        emit_text(e, "%s_%s_v%s_%s(%s, %s, %s, %s)", rule, host_join_name(in->op), t, w, x, index, best, where);
    if (some) m = emit_text(e, "%s & %s", m, only(e, s, some));
    line(e, "{");
    line(e, "    vbool m = %s;", m);
    line(e, "    %s = sel_v%s(m, %s, %s);", best, t, x, best);
    line(e, "    %s = sel_v%s(m, %s, %s);", where, w, index, where);
    line(e, "}");
}

static void prefetch(Emit *e, const Step *s);

/* some: how many elements are active, NULL: all */
static void elem(Emit *e, int i, const Step *s, int f, int v, int r, const char *some) {
    const Ins *in = at(e, i);
    const Plan *p = &e->k->plan;
    const char *name = emit_text(e, "v%d_%d_%d_%d", i, f, v, r), *x;
    const char *t = in->param >= 0 ? ty_text(host_tensor_type(e, in->param)) : "";
    const bool head = s->left == LEFT_HEAD && some;
    const char *n = some ? some : emit_text(e, "%d", e->L), *part = head ? "h" : s->left == LEFT_SIZE ? "k" : "n";
    switch (in->k) {
    case K_OP: declare(e, i, name, true, value(e, i, true, f, v, r)); return;
    case K_ELEM:
        declare(e, i, name, true,
                emit_text(e, "elem_v%s(%s * %" PRId64 " + %" PRId64 "%s%s, %d)", ty_text(reg_type(e, i)), s->chunk,
                          (int64_t)p->W * p->V, ((int64_t)f * p->W + (int64_t)r * e->L) * p->V + v,
                          beyond(e, e->L * p->V), unshifted(e), p->V));
        return;
    case K_LOADP: {
        Spot q = spot(e, in, s, f, v, r);
        if (q.step)
            x = emit_text(e, "%s_%s(%s, %s, %s)", head ? "lgh" : "ldg", t, q.at, q.step, n);
        else
            x = some ? emit_text(e, "ld%s_%s(%s, %s)", part, t, q.at, n) : emit_text(e, "ld_%s(%s)", t, q.at);
        declare(e, i, name, true, x);
        return;
    }
    case K_STOREP: {
        Spot q = spot(e, in, s, f, v, r);
        x = stored(e, in, reg(e, in->a[2], f, v, r), true);
        if (q.step)
            line(e, "%s_%s(%s, %s, %s, %s);", head ? "sgh" : "stg", t, q.at, q.step, x, n);
        else if (!some)
            line(e, "%s_%s(%s, %s);", in->policy == STORE_STREAM ? "stx" : "st", t, q.at, x);
        else
            line(e, "st%s_%s(%s, %s, %s);", part, t, q.at, x, n);
        return;
    }
    case K_LOAD1: {
        const char *mask = in->a[1] >= 0 ? reg(e, in->a[1], f, v, r) : only(e, s, some);
        if (in->a[1] >= 0 && some) mask = emit_text(e, "%s & %s", mask, only(e, s, some));
        const char *fill = in->a[2] >= 0 ? reg(e, in->a[2], f, v, r) : emit_text(e, "bc_v%s(0)", ty_text(in->ty));
        declare(e, i, name, true,
                emit_text(e, "gat_%s(p%d, %s, %s, %s)", t, in->param, reg(e, in->a[0], f, v, r), mask, fill));
        return;
    }
    case K_STORE1:
        line(e, "%s_%s(p%d, %s, %s, %s);", head ? "sch" : "sct", t, in->param, reg(e, in->a[0], f, v, r),
             stored(e, in, reg(e, in->a[2], f, v, r), true), n);
        return;
    case K_GET:
        declare(e, i, name, true,
                emit_text(e, "ld_%s(%s)", ty_text(e->k->stripe[in->imm].ty), slot(e, in, s, f, v, r)));
        return;
    case K_PUT:
        line(e, "st_%s(%s, %s);", ty_text(e->k->stripe[in->imm].ty), slot(e, in, s, f, v, r),
             reg(e, in->a[1], f, v, r));
        return;
    case K_FOLD: fold_into(e, in, folded(e, in->imm, s, f, r), s, f, v, r, some); return;
    case K_FOLD2: fold_arg(e, i, s, f, v, r, some); return;
    case K_PACKFOLD: fold_into(e, in, emit_text(e, "v%d_%d", i, r), s, f, v, r, some); return;
    case K_ACTIVE:
        line(e, "v%d_%d = v%d_%d + %s;", i, r, i, r,
             some ? emit_text(e, "sel_vf32(%s, bc_vf32(1), bc_vf32(0))", only(e, s, some)) : "bc_vf32(1)");
        return;
    default: return;
    }
}

static void host_step(Emit *e, int i, const Step *s) {
    const Ins *in = at(e, i);
    if (in->rank == RANK_ROW && ins_makes(in)) { /* the same for all elements: as in a block */
        host_block(e, i);
        return;
    }
    bool pack = in->k == K_PACKFOLD || in->k == K_ACTIVE;
    if (in->rank == RANK_PACK && !pack && in->k != K_FOLD && in->k != K_FOLD2) {
        host_block(e, i);
        return;
    }
    for (int r = 0; pack && r < e->copies; r++)
        declare(e, i, emit_text(e, "v%d_%d", i, r), true,
                emit_text(e, "bc_v%s(%s)", ty_text(in->ty), in->k == K_ACTIVE ? "0" : host_literal(e, in->ty, in->c)));
    for (int f = 0; f < e->k->plan.flight; f++)
        for (int v = 0; v < e->k->plan.V; v++)
            for (int r = 0; r < e->copies; r++) {
                if (active(e, s, f, v, r)) elem(e, i, s, f, v, r, some_of(e, s, f, v, r));
            }
    if (e->k->plan.prefetch && i == e->node_end - 1) prefetch(e, s);
}

/* At the end of a step of the sweep that has most to compute, where the memory has least to do (softmax 1024x4096: 1.2
 * times as fast as in the sweep that stores): the lines of the rows ahead that their first sweep will read, long ones
 * into the second cache (softmax 8192x4096 takes 0.87 of the time that way). Only inputs whose rows lie one stride
 * apart. */
enum { LONG_ROW = 8192 }; /* bytes: two such rows and what is written leave a first cache no room */
static void prefetch(Emit *e, const Step *s) {
    const Kern *k = e->k;
    const Node *first = NULL, *head = &k->node[k->root];
    int most = -1, busiest = -1, sweep = 0;
    for (int n = 0; n < k->nnodes; n++) {
        const Node *q = &k->node[n];
        if (q->kind != NODE_SWEEP) continue;
        if (!first) first = q;
        int ops = 0;
        for (int i = q->i0; i < q->i1; i++) ops += at(e, i)->k == K_OP && at(e, i)->rank == RANK_ELEM;
        if (q->domain == first->domain && ops >= most) most = ops, busiest = sweep;
        sweep++;
    }
    if (!first || e->sweep != (e->nstages ? 0 : busiest) || k->plan.V != 1 || (s->left == LEFT_SIZE && !e->shifts))
        return;
    for (int i = first->i0; i < first->i1; i++) {
        const Ins *in = at(e, i);
        if (in->k != K_LOADP || in->a[1] >= 0) continue;
        if (at(e, in->a[0])->k != K_CONST && in->a[0] >= head->i1) continue; /* made in the first sweep's own scope */
        const Param *p = &k->prog->param[in->param];
        int row = -1, nrow = 0;
        for (int d = 0; d < p->rank; d++)
            if (k->prog->row_axes >> p->axis[d] & 1) row = d, nrow++;
        if (nrow != 1) continue;
        int bytes = ty_bytes(p->ty), slot = k->abi.stride[in->param][row];
        const char *stride = emit_text(e, "a[%d].i", slot); /* by the name that the row's address has it under */
        for (int q = head->i0; q < head->i1; q++)
            if (at(e, q)->k == K_SLOT && at(e, q)->imm == slot) stride = host_scalar(e, q);
        bool far = k->domain[first->domain].n_mapped * bytes >= LONG_ROW;
        for (int f = 0; f < k->plan.flight; f++)
            for (int r = 0; r < e->copies; r++)
                if (active(e, s, f, 0, r) && (r * e->L * bytes) % 64 == 0)
                    line(e, "__builtin_prefetch(%s + %d * %s%s);", spot(e, in, s, f, 0, r).at, k->plan.prefetch, stride,
                         far ? ", 0, 2" : "");
    }
}

void host_open(Emit *e) {
    const Kern *k = e->k;
    line(e, "void rowfold_kernel_%s(const slot *restrict a, i64 row0, i64 row1) {", k->name);
    e->depth++;
    for (int i = 0; i < k->prog->nparams; i++) {
        const char *type = pointer_type(e, i);
        if (k->abi.ptr[i] >= 0) /* the cast is for those who compile the text as C++ */
            line(e, "%srestrict p%d = (%s)a[%d].p; /* %s */", type, i, type, k->abi.ptr[i], k->prog->param[i].name);
    }
}

void host_cells(Emit *e) {
    const Kern *k = e->k;
    const char *none =
        e->nstages ? " = {0}" : ""; /* set where a row is there: compilers do not see that one always is */
    for (int i = 0; i < k->ncells; i++) {
        const Cell *c = &k->cell[i];
        const char *t = ty_text(host_cell_type(e, i));
        if (cell_is_array(e, c)) line(e, "v%s c%d[%d];", t, i, c->acc * e->R);
        for (int q = 0; q < c->acc && !cell_is_array(e, c); q++)
            for (int r = 0; r < e->R; r++) line(e, "v%s c%d_%d_%d%s;", t, i, q, r, none);
    }
}

static void host_head(Emit *e) {
    const Kern *k = e->k;
    e->L = k->plan.W < k->subgroup ? k->plan.W : k->subgroup;
    e->R = e->copies = k->plan.W / e->L;
    host_find_short(e);
    host_find_shifts(e);
    find_forms(e);
    host_open(e);
    emit_sizes(e, emit_text(e, "a[%d].i", kern_extent(k)), false);
    for (int i = 0; i < k->nstripes; i++) {
        const Stripe *s = &k->stripe[i];
        const Domain *d = &k->domain[s->domain];
        int64_t n = d->n_serial * map_slots(emit_room(e, d), k->plan.W, k->plan.V) * k->plan.W;
        if (s->home == HOLD_REGISTER)
            line(e, "%s s%d[%" PRId64 "] __attribute__((aligned(64)));", storage_type(s->ty), i, n ? n : 1);
    }
    for (int i = 0; i < k->narrays; i++)
        line(e, "%s a%d[%" PRId64 "];", host_scalar_type(k->array[i].ty), i, k->array[i].n ? k->array[i].n : 1);
    host_find_same(e);
    for (int i = 0; i < k->nins; i++)
        if (e->same[i]) host_block(e, i);
    if (k->plan.stagger) {
        host_stagger_head(e);
        return;
    }
    line(e, "for (i64 row = row0; row < row1; row++) {");
    e->depth++;
    host_cells(e);
}

/* Many registers are looped over, a few at a time: lanes do not meet within a step, and the text stays short. */
static int host_group(const Emit *e, const Node *n, const Step *s) {
    (void)n;
    return s->left < 0 && e->R > HOST_LOOPED && e->R % HOST_GROUP == 0 ? HOST_GROUP : 0;
}

static void host_tail(Emit *e) {
    e->depth--;
    line(e, "}");
    if (e->k->plan.store == STORE_STREAM) line(e, "fence();");
    const Isa isa = e->pb->caps.isa;
    /* gcc does this itself at -O2 only, and the caller's SSE code is slow without: it keeps the upper halves */
    if (isa == ISA_AVX2 || isa == ISA_AVX512) line(e, "__builtin_ia32_vzeroupper();");
    e->depth--;
    line(e, "}");
}

const Speak speak_host = {.head = host_head,
                          .tail = host_tail,
                          .block = row_block,
                          .step = host_step,
                          .group = host_group,
                          .ahead = host_shift_ahead,
                          .nodes = host_stagger_nodes,
                          .prelude = host_prelude};
