/* The host dialect for rows that lie side by side in memory, as the columns of a matrix do: with W=1 and P whole
 * registers, the elements of a register are P rows at the same place. No lanes of a row meet, and what all rows share
 * is a scalar.
 *
 * A value is ONE (the same in all rows), a RAMP (an address or a coordinate: it goes up by the same step from row to
 * row, v in the first and x in the second) or MANY (registers of a row each element). A block of rows never goes past
 * the end of the last row axis, so that ramps are ramps. */
#include "hostgen.h"

#include <inttypes.h>
#include <string.h>

enum { ONE, RAMP, MANY };
enum { MOST_STACK = 1 << 18 }; /* bytes that the row arrays of a block may take */

static const Ins *at(const Emit *e, int i) {
    return &e->k->ins[i];
}
static int kind(const Emit *e, int i) {
    return i < 0 ? ONE : e->vary[i];
}

/* ---- which value is what ---- */

static int last_row_axis(const Kern *k) {
    int last = -1;
    for (int x = 0; x < k->prog->naxes; x++)
        if (k->prog->row_axes >> x & 1) last = x;
    return last;
}

/* The row's number and the last row axis's extent: their quotient is the same in all rows of a block, the remainder a
 * ramp. */
static bool is_row_by_last(const Kern *k, const Ins *in) {
    const Ins *x = &k->ins[in->a[0]], *y = &k->ins[in->a[1]];
    return x->k == K_ROWIDX && y->k == K_SLOT && y->imm == k->abi.row[last_row_axis(k)];
}

static uint8_t kind_of(const Kern *k, const uint8_t *vary, const Ins *in) {
    uint8_t most = ONE, a[3] = {ONE, ONE, ONE};
    int place[3], n = ins_operands(in, place);
    for (int i = 0; i < n; i++)
        if (in->a[place[i]] >= 0) a[place[i]] = vary[in->a[place[i]]], most = a[place[i]] > most ? a[place[i]] : most;
    switch (in->k) {
    case K_ROWIDX: return RAMP;
    case K_CONST:
    case K_SLOT:
    case K_SERIAL:
    case K_ELEM:
    case K_ACTIVE: return ONE;
    case K_LOADP:
    case K_LOAD1: return most == ONE ? ONE : MANY;
    case K_OP: break;
    default: return MANY;
    }
    if (most != RAMP) return most;
    if ((in->op == OP_DIV || in->op == OP_MOD) && is_row_by_last(k, in)) return in->op == OP_DIV ? ONE : RAMP;
    bool linear = in->op == OP_ADD || in->op == OP_SUB || (in->op == OP_MUL && (a[0] == ONE || a[1] == ONE));
    return in->ty == TY_I64 && linear ? RAMP : MANY;
}

bool host_takes_rows(Emit *e) {
    const Kern *k = e->k;
    const Plan *p = &k->plan;
    int64_t stack = 0;
    if (shape_ranged(&k->shape) >= 0) return false; /* whose steps are cut at run time */
    if (p->W != 1 || p->V != 1 || p->P < k->subgroup || p->P % k->subgroup || !k->prog->row_axes) return false;
    for (int s = 0; s < k->nstripes; s++)
        if (k->stripe[s].home != HOLD_OUTPUT) return false;
    for (int i = 0; i < k->narrays; i++) stack += k->array[i].n * ty_bytes(k->array[i].ty) * p->P;
    if (stack > MOST_STACK) return false;
    e->vary = NEWN(e->cx->a, uint8_t, k->nins + 1);
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        e->vary[i] = kind_of(k, e->vary, in);
        bool load = in->k == K_LOADP || in->k == K_LOAD1, store = in->k == K_STOREP || in->k == K_STORE1;
        if (in->k == K_GET || in->k == K_PUT) return false;
        if ((in->k == K_LOADP || in->k == K_STOREP) && (kind(e, in->a[0]) == MANY || kind(e, in->a[1]) != ONE))
            return false;
        if (store && kind(e, in->a[0]) == ONE) return false;
        if ((in->k == K_ROWGET || in->k == K_ROWPUT) && kind(e, in->a[0]) != ONE) return false;
        if (load && in->k == K_LOAD1 && in->a[1] >= 0 && kind(e, in->a[1]) == RAMP) return false;
    }
    return true;
}

/* ---- names ---- */

static const char *one(Emit *e, int i, int f) {
    if (at(e, i)->k == K_CONST) return host_literal(e, at(e, i)->ty, at(e, i)->c);
    return at(e, i)->rank == RANK_ELEM ? emit_text(e, "v%d_%d", i, f) : emit_text(e, "v%d", i);
}
static const char *second(Emit *e, int i, int f) {
    if (kind(e, i) == ONE) return one(e, i, f);
    return at(e, i)->rank == RANK_ELEM ? emit_text(e, "x%d_%d", i, f) : emit_text(e, "x%d", i);
}
static const char *step_of(Emit *e, int i, int f) {
    return emit_text(e, "(%s - %s)", second(e, i, f), one(e, i, f));
}
/* What a loop over registers adds to the number of one. */
static const char *in_loop(const Emit *e) {
    return e->grouped ? " + g" : "";
}
/* The rows before register r of a loop over registers, or of all. */
static const char *rows_before(Emit *e, int r) {
    return e->grouped ? emit_text(e, "(g + %d) * %d", r, e->L) : emit_text(e, "%d", r * e->L);
}
static const char *many(Emit *e, int i, int f, int r) {
    return at(e, i)->rank == RANK_ELEM ? emit_text(e, "v%d_%d_%d", i, f, r) : emit_text(e, "v%d_%d", i, r);
}

static const char *reg(Emit *e, int i, int f, int r) {
    const Ins *in = at(e, i);
    if (kind(e, i) == ONE) return emit_text(e, "bc_v%s(%s)", ty_text(in->ty), one(e, i, f));
    if (kind(e, i) == RAMP)
        return emit_text(e, "elem_v%s(%s + %s * %s, %s)", ty_text(in->ty), one(e, i, f), rows_before(e, r),
                         step_of(e, i, f), step_of(e, i, f));
    if (in->k == K_CELL && e->short_cell[in->imm]) return emit_text(e, "cast_vi32_i64(%s)", many(e, i, f, r));
    return many(e, i, f, r);
}

static void declare(Emit *e, int i, int f, int r, const char *what) { /* what: NULL: it is assigned later */
    const Ins *in = at(e, i);
    const char *note = in->note ? emit_text(e, " /* %s */", in->note) : "";
    const char *is = what ? emit_text(e, " = %s", what) : "";
    if (r < 0)
        line(e, "%s %s%s;%s", host_scalar_type(in->ty), one(e, i, f), is, note);
    else
        line(e, "v%s %s%s;%s", ty_text(in->k == K_CELL ? host_cell_type(e, in->imm) : in->ty), many(e, i, f, r), is,
             note);
}

/* How many rows of register r there are. */
static const char *present(Emit *e, int r) {
    return e->R > HOST_LOOPED ? emit_text(e, "in[%d%s]", r, in_loop(e)) : emit_text(e, "in%d", r);
}

static const char *cell(Emit *e, int c, int acc, int r) {
    return cell_is_array(e, &e->k->cell[c]) ? emit_text(e, "c%d[%d%s]", c, acc * e->R + r, in_loop(e))
                                            : emit_text(e, "c%d_%d_%d", c, acc, r);
}

/* ---- operators and memory ---- */

static void operate(Emit *e, int i, int f) {
    const Ins *in = at(e, i);
    const int n = op_info(in->op)->arity, copies = kind(e, i) == MANY ? e->copies : kind(e, i) == RAMP ? 2 : 1;
    for (int r = 0; r < copies; r++) {
        const char *x[3] = {NULL, NULL, NULL};
        const bool vector = kind(e, i) == MANY;
        for (int k = 0; k < n; k++)
            x[k] = vector ? reg(e, in->a[k], f, r) : r ? second(e, in->a[k], f) : one(e, in->a[k], f);
        const char *what = in->op == OP_CAST ? emit_text(e, "cast_%s%s_%s(%s)", vector ? "v" : "",
                                                         ty_text(at(e, in->a[0])->ty), ty_text(in->to), x[0])
                                             : host_apply(e, in->op, vector, host_name_type(e, in), x[0], x[1], x[2]);
        if (!vector && r)
            line(e, "%s %s = %s;", host_scalar_type(in->ty), second(e, i, f), what);
        else
            declare(e, i, f, vector ? r : -1, what);
    }
}

/* Where element f of the step lies in the first row, and the text of the step from row to row. */
static const char *place(Emit *e, const Ins *in, const Step *s, int f) {
    bool pack = in->k == K_LOADP || in->k == K_STOREP;
    const char *elem = pack ? emit_text(e, " + (%s + %d)%s%s", s->chunk, f, in->a[1] < 0 ? "" : " * ",
                                        in->a[1] < 0 ? "" : one(e, in->a[1], f))
                            : "";
    return emit_text(e, "p%d + %s%s", in->param, one(e, in->a[0], f), elem);
}

static const char *beyond(Emit *e, const Ins *in, int f, int r) {
    return r || e->grouped ? emit_text(e, " + %s * %s", rows_before(e, r), step_of(e, in->a[0], f)) : "";
}

bool host_masks_rows(const Emit *e) {
    return e->pb->caps.isa == ISA_AVX512 && e->L == 16;
}

/* Rows side by side are read and written under masks where the processor has them for all types: then one question is
 * left, and it is the same for all registers. Rows that lie apart are one call, for what is called spills. */
static bool masked(const Emit *e, int param) {
    return host_masks_rows(e) && ty_bytes(host_tensor_type(e, param)) <= 4;
}

/* Where the rows of all registers of a loop, or of all, begin, and how many there are from there on. */
static const char *whole(Emit *e, const Ins *in, const Step *s, int f) {
    return emit_text(e, "%s%s, %s, rows%s", place(e, in, s, f), beyond(e, in, f, 0), step_of(e, in->a[0], f),
                     e->grouped ? emit_text(e, " - %s", rows_before(e, 0)) : "");
}

/* What a store writes of register r: in the type of arithmetic of the tensor's. */
static const char *stored(Emit *e, const Ins *in, int f, int r) {
    const Ty to = host_tensor_type(e, in->param);
    const char *x = reg(e, in->a[2], f, r);
    return ty_compute(to) == in->ty ? x : emit_text(e, "cast_v%s_%s(%s)", ty_text(in->ty), ty_text(to), x);
}

static void load_masked(Emit *e, int i, const Step *s, int f) {
    const Ins *in = at(e, i);
    const char *t = ty_text(host_tensor_type(e, in->param)), *from = place(e, in, s, f),
               *step = step_of(e, in->a[0], f);
    for (int r = 0; r < e->copies; r++) declare(e, i, f, r, NULL);
    line(e, "if (%s == 1) {", step);
    for (int r = 0; r < e->copies; r++)
        line(e, "    %s = ldk_%s(%s + %s, %s);", many(e, i, f, r), t, from, rows_before(e, r), present(e, r));
    line(e, "} else {");
    line(e, "    v%s t[%d];", ty_text(in->ty), e->copies);
    line(e, "    lrg_%s(%s, t, %d);", t, whole(e, in, s, f), e->copies);
    for (int r = 0; r < e->copies; r++) line(e, "    %s = t[%d];", many(e, i, f, r), r);
    line(e, "}");
}

static void store_masked(Emit *e, int i, const Step *s, int f) {
    const Ins *in = at(e, i);
    const Ty to = host_tensor_type(e, in->param);
    const char *t = ty_text(to), *v = ty_text(ty_compute(to)), *into = place(e, in, s, f),
               *step = step_of(e, in->a[0], f), *all = "";
    line(e, "{");
    for (int r = 0; r < e->copies; r++) {
        line(e, "    const v%s t%d = %s;", v, r, stored(e, in, f, r));
        all = emit_text(e, "%s%st%d", all, r ? ", " : "", r);
    }
    line(e, "    if (%s == 1) {", step);
    for (int r = 0; r < e->copies; r++)
        line(e, "        stk_%s(%s + %s, t%d, %s);", t, into, rows_before(e, r), r, present(e, r));
    line(e, "    } else {");
    line(e, "        v%s t[] = {%s};", v, all);
    line(e, "        srg_%s(%s, t, %d);", t, whole(e, in, s, f), e->copies);
    line(e, "    }");
    line(e, "}");
}

static void load(Emit *e, int i, const Step *s, int f) {
    const Ins *in = at(e, i);
    const char *t = ty_text(host_tensor_type(e, in->param));
    const int guard = in->k == K_LOAD1 ? in->a[1] : -1, fill = in->k == K_LOAD1 ? in->a[2] : -1;
    if (kind(e, i) == ONE) {
        const char *x = emit_text(e, "lds_%s(%s)", t, place(e, in, s, f));
        declare(e, i, f, -1, guard < 0 ? x : emit_text(e, "%s ? %s : %s", one(e, guard, f), x, one(e, fill, f)));
        return;
    }
    if (kind(e, in->a[0]) == RAMP && guard < 0 && masked(e, in->param)) {
        load_masked(e, i, s, f);
        return;
    }
    for (int r = 0; r < e->copies; r++) {
        const char *x, *other = fill >= 0 ? reg(e, fill, f, r) : emit_text(e, "bc_v%s(0)", ty_text(in->ty));
        if (kind(e, in->a[0]) == RAMP && kind(e, guard) == ONE) {
            x = emit_text(e, "lr_%s(%s%s, %s, %s)", t, place(e, in, s, f), beyond(e, in, f, r), step_of(e, in->a[0], f),
                          present(e, r));
            if (guard >= 0) x = emit_text(e, "%s ? %s : %s", one(e, guard, f), x, other);
        } else {
            const char *rows = emit_text(e, "pre_vbool(%s)", present(e, r));
            x = emit_text(e, "gat_%s(p%d, %s, %s, %s)", t, in->param, reg(e, in->a[0], f, r),
                          guard >= 0 ? emit_text(e, "%s & %s", rows, reg(e, guard, f, r)) : rows, other);
        }
        declare(e, i, f, r, x);
    }
}

static void store(Emit *e, int i, const Step *s, int f) {
    const Ins *in = at(e, i);
    const Ty to = host_tensor_type(e, in->param);
    const char *t = ty_text(to);
    if (kind(e, in->a[0]) == RAMP && masked(e, in->param)) {
        store_masked(e, i, s, f);
        return;
    }
    for (int r = 0; r < e->copies; r++) {
        const char *x = reg(e, in->a[2], f, r);
        if (ty_compute(to) != in->ty) x = emit_text(e, "cast_v%s_%s(%s)", ty_text(in->ty), t, x);
        if (kind(e, in->a[0]) == RAMP)
            line(e, "sr_%s(%s%s, %s, %s, %s);", t, place(e, in, s, f), beyond(e, in, f, r), step_of(e, in->a[0], f), x,
                 present(e, r));
        else
            line(e, "sct_%s(p%d, %s, %s, %s);", t, in->param, reg(e, in->a[0], f, r), x, present(e, r));
    }
}

/* ---- folds ---- */

static void fold(Emit *e, int i, const Step *s, int f) {
    const Ins *in = at(e, i);
    const Cell *q = &e->k->cell[in->imm];
    for (int r = 0; r < e->copies; r++) {
        const char *c = in->k == K_PACKFOLD ? many(e, i, 0, r) : cell(e, in->imm, (int)((s->mod + f) % q->acc), r);
        if (in->k == K_FOLD && cell_is_array(e, q))
            c = emit_text(e, "c%d[(%s + %d) %% %d * %d + %d%s]", in->imm, s->chunk, f, q->acc, e->R, r, in_loop(e));
        const char *y = ins_has(in, 1) ? reg(e, in->a[1], f, r) : NULL;
        line(e, "%s = %s;", c, host_folded(e, in, c, reg(e, in->a[0], f, r), y));
    }
}

static void fold_pair(Emit *e, int i, int f) {
    const Ins *in = at(e, i);
    const bool is_short = e->short_cell[in->imm + 1];
    const char *t = ty_text(in->ty), *w = is_short ? "i32" : "i64", *rule = host_index_rises(e, i) ? "later" : "better";
    for (int r = 0; r < e->copies; r++) {
        const char *x = reg(e, in->a[0], f, r), *best = cell(e, in->imm, 0, r), *where = cell(e, in->imm + 1, 0, r);
        const char *index = is_short ? emit_text(e, "bc_vi32((i32)%s)", one(e, in->a[1], f)) : reg(e, in->a[1], f, r);
        line(e, "{");
        line(e, "    vbool m = %s_%s_v%s_%s(%s, %s, %s, %s);", rule, host_join_name(in->op), t, w, x, index, best,
             where);
        line(e, "    %s = sel_v%s(m, %s, %s);", best, t, x, best);
        line(e, "    %s = sel_v%s(m, %s, %s);", where, w, index, where);
        line(e, "}");
    }
}

/* ---- the parts ---- */

/* An instruction that is done once, in a block or for a whole step. */
static void rows_block(Emit *e, int i) {
    const Ins *in = at(e, i);
    static const Step none = {"0", 0, 0, -1};
    switch (in->k) {
    case K_CONST: return;
    case K_SLOT: declare(e, i, 0, -1, emit_text(e, "a[%d].%s", in->imm, in->ty == TY_F64 ? "d" : "i")); return;
    case K_ROWIDX:
        declare(e, i, 0, -1, "row");
        line(e, "i64 %s = row + 1;", second(e, i, 0));
        return;
    case K_SERIAL: declare(e, i, 0, -1, e->serial); return;
    case K_OP: operate(e, i, 0); return;
    case K_LOAD1: load(e, i, &none, 0); return;
    case K_STORE1: store(e, i, &none, 0); return;
    default: break;
    }
    for (int r = 0; r < e->copies; r++) switch (in->k) {
        case K_INIT:
            for (int q = 0; q < e->k->cell[in->imm].acc; q++)
                line(e, "%s = bc_v%s(%s);", cell(e, in->imm, q, r), ty_text(host_cell_type(e, in->imm)),
                     host_literal(e, in->ty, in->c));
            break;
        case K_CELL: declare(e, i, 0, r, cell(e, in->imm, in->acc, r)); break;
        case K_SETCELL: line(e, "%s = %s;", cell(e, in->imm, 0, r), reg(e, in->a[0], 0, r)); break;
        case K_JOIN: /* of one lane */
        case K_JOIN2: declare(e, i, 0, r, reg(e, in->a[0], 0, r)); break;
        case K_JOIN2I: declare(e, i, 0, r, reg(e, at(e, i - 1)->a[1], 0, r)); break;
        case K_ROWGET:
            declare(e, i, 0, r, emit_text(e, "a%d[%s * %d + %d%s]", in->imm, one(e, in->a[0], 0), e->R, r, in_loop(e)));
            break;
        case K_ROWPUT:
            line(e, "a%d[%s * %d + %d%s] = %s;", in->imm, one(e, in->a[0], 0), e->R, r, in_loop(e),
                 reg(e, in->a[1], 0, r));
            break;
        default: break;
        }
}

static void rows_step(Emit *e, int i, const Step *s) {
    const Ins *in = at(e, i);
    const int F = e->k->plan.flight, n = s->left < 0 || s->left > F ? F : (int)s->left;
    const bool store_one = in->k == K_STORE1 || in->k == K_STOREP, folds = in->k == K_FOLD || in->k == K_FOLD2;
    if (in->k == K_ACTIVE) {
        declare(e, i, 0, -1, emit_text(e, "%d", n));
        return;
    }
    if (in->rank != RANK_ELEM && in->k != K_PACKFOLD && !folds && !store_one) {
        rows_block(e, i);
        return;
    }
    for (int r = 0; in->k == K_PACKFOLD && r < e->copies; r++)
        declare(e, i, 0, r, emit_text(e, "bc_v%s(%s)", ty_text(in->ty), host_literal(e, in->ty, in->c)));
    for (int f = 0; f < n; f++) switch (in->k) {
        case K_ELEM: declare(e, i, f, -1, emit_text(e, "(%s)(%s + %d)", host_scalar_type(in->ty), s->chunk, f)); break;
        case K_OP: operate(e, i, f); break;
        case K_LOADP:
        case K_LOAD1: load(e, i, s, f); break;
        case K_STOREP:
        case K_STORE1: store(e, i, s, f); break;
        case K_FOLD:
        case K_PACKFOLD: fold(e, i, s, f); break;
        case K_FOLD2: fold_pair(e, i, f); break;
        default: break;
        }
}

/* As many registers as are named at a time: where all that a sweep takes from outside is in arrays or the same in all
 * rows, the others are a loop, and the text stays short. */
static int rows_group(const Emit *e, const Node *n, const Step *s) {
    (void)s;
    if (e->R <= 8 || e->R % 4) return 0;
    for (int i = n->i0; i < n->i1; i++) {
        int place[3], operands = ins_operands(at(e, i), place);
        for (int k = 0; k < operands; k++) {
            const int x = at(e, i)->a[place[k]];
            if (x >= 0 && (x < n->i0 || x >= n->i1) && kind(e, x) == MANY) return 0;
        }
    }
    return 4;
}

static bool rows_once(const Emit *e, int i) {
    return kind(e, i) != MANY;
}

static void rows_head(Emit *e) {
    const Kern *k = e->k;
    e->L = k->subgroup;
    e->R = e->copies = k->plan.P / e->L;
    host_find_short(e);
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = at(e, i);
        if (in->k == K_FOLD2 && kind(e, in->a[1]) != ONE) e->short_cell[in->imm + 1] = false;
    }
    host_open(e);
    for (int i = 0; i < k->narrays; i++)
        line(e, "v%s a%d[%" PRId64 "];", ty_text(k->array[i].ty), i, (k->array[i].n ? k->array[i].n : 1) * e->R);
    line(e, "const i64 last = a[%d].i;", k->abi.row[last_row_axis(k)]);
    line(e, "for (i64 row = row0, rows; row < row1; row += rows) {");
    e->depth++;
    line(e, "rows = last - row %% last;");
    line(e, "rows = rows > row1 - row ? row1 - row : rows;");
    line(e, "rows = rows > %d ? %d : rows;", k->plan.P, k->plan.P);
    if (e->R > HOST_LOOPED) {
        line(e, "i32 in[%d];", e->R);
        line(e, "for (i32 r = 0; r < %d; r++) in[r] = few(rows - r * %d);", e->R, e->L);
    }
    for (int r = 0; r < e->R && e->R <= 8; r++) line(e, "const i32 in%d = few(rows - %d);", r, r * e->L);
    host_cells(e);
}

static void rows_tail(Emit *e) {
    e->depth--;
    line(e, "}");
    e->depth--;
    line(e, "}");
}

const Speak speak_rows = {.head = rows_head,
                          .tail = rows_tail,
                          .block = rows_block,
                          .step = rows_step,
                          .group = rows_group,
                          .once = rows_once,
                          .prelude = host_prelude};
