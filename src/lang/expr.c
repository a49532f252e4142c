/* Nodes of expressions -> values of a Prog, in one pass over the nodes: operands lie before their users. A node that is
 * at fault, or that uses one, has no value (RES_BAD), so that each fault is reported once. */
#include "ast.h"

#include <math.h>
#include <string.h>

static const Res bad = {.kind = RES_BAD};

static Place at_node(const Sema *s, const Node *n) {
    return (Place){s->file, n->at.line, n->at.col, n->len};
}

static Res value(int v) {
    return v < 0 ? bad : (Res){.kind = RES_VAL, .val = v};
}

static Ty type_of(const Sema *s, Res r) {
    return r.kind == RES_VAL ? s->p->val[r.val].ty : TY_NONE;
}

static const char *axis_list(const Sema *s, uint32_t axes) {
    Buf b = buf_new(s->cx->a);
    for (int i = 0; i < s->p->naxes; i++)
        if (axes >> i & 1) buf_fmt(&b, "%s%s", b.n ? ", " : "", s->p->axis[i].name);
    return b.n ? b.s : "no axis";
}

/* ---- literals ---- */

static bool literal_fits(Res r, Ty t) {
    switch (t) {
    case TY_I32: return !r.big && r.i >= INT32_MIN && r.i <= INT32_MAX;
    case TY_U32: return !r.big && r.i >= 0 && r.i <= UINT32_MAX;
    case TY_I64: return !r.big;
    case TY_U64: return r.big || r.i >= 0;
    default: return false;
    }
}

int sema_value(Sema *s, Res r, Ty want, Place at) {
    Ty ty = want;
    Num k = {.i = r.i};
    Ty from = r.big ? TY_U64 : TY_I64;
    if (r.kind == RES_BAD) return -1;
    if (r.kind == RES_VAL) return r.val;
    if (r.kind == RES_FLOAT) {
        from = TY_F64;
        k.d = isnan(r.d) ? (double)NAN : r.d;
        if (ty != TY_F64) ty = TY_F32;
    } else if (!ty_is_float(ty) && !literal_fits(r, ty)) {
        ty = literal_fits(r, TY_I32) ? TY_I32 : literal_fits(r, TY_I64) ? TY_I64 : TY_U64;
    }
    return prog_add(s->cx, s->p, (Val){.op = OP_CONST, .ty = ty, .k = num_cast(ty, k, from), .at = at});
}

static Res literal_too_large(Sema *s, const Node *n) {
    sema_fail(s, diag(s->cx, S_LANG_LITERAL, at_node(s, n), "a float literal, or values instead of literals",
                      "whole-number arithmetic that does not fit i64"));
    return bad;
}

static Res fold_ints(Sema *s, const Node *n, Res x, Res y) {
    Res r = {.kind = RES_INT};
    bool over = y.big;
    if (n->op == OP_NEG && x.big) { /* -9223372036854775808 is written with a literal that i64 lacks */
        if ((uint64_t)x.i != (uint64_t)1 << 63) return literal_too_large(s, n);
        r.i = INT64_MIN;
        return r;
    }
    over = over || x.big;
    switch (n->op) {
    case OP_NEG: over = over || __builtin_sub_overflow((int64_t)0, x.i, &r.i); break;
    case OP_ADD: over = over || __builtin_add_overflow(x.i, y.i, &r.i); break;
    case OP_SUB: over = over || __builtin_sub_overflow(x.i, y.i, &r.i); break;
    case OP_MUL: over = over || __builtin_mul_overflow(x.i, y.i, &r.i); break;
    default:
        over = over || (x.i == INT64_MIN && y.i == -1);
        if (!over) r.i = y.i ? x.i / y.i : 0;
    }
    return over ? literal_too_large(s, n) : r;
}

static double literal_f64(Res r) {
    return r.kind == RES_FLOAT ? r.d : r.big ? (double)(uint64_t)r.i : (double)r.i;
}

static Res fold_floats(const Node *n, Res x, Res y) {
    return (Res){.kind = RES_FLOAT, .d = op_f64(n->op, literal_f64(x), literal_f64(y), 0)};
}

/* ---- operators ---- */

/* Asked once the node's own faults are reported: it has those whatever its operands are. */
static bool any_bad(const Sema *s, const Node *n) {
    for (int i = 0; i < n->nargs; i++)
        if (s->res[s->k->list[n->args + i]].kind == RES_BAD) return true;
    return n->fill >= 0 && s->res[n->fill].kind == RES_BAD;
}

static Res arg(const Sema *s, const Node *n, int i) {
    return s->res[s->k->list[n->args + i]];
}

static const char *wanted(Op op, const Ty *t) {
    switch (op_info(op)->typing) {
    case TR_BOOL: return "bool operands: compare first, as in x != 0";
    case TR_SEL:
        return t[0] != TY_BOOL ? "a bool first, as in where(x != 0, a, b)" : "two values that have a common type";
    default: return "numbers; a bool becomes one by a cast, as in f32(b)";
    }
}

static Res apply(Sema *s, const Node *n, Op op) {
    const OpInfo *o = op_info(op);
    int first = o->typing == TR_SEL ? 1 : 0, v[3] = {-1, -1, -1};
    Ty want = TY_NONE, t[3] = {TY_NONE, TY_NONE, TY_NONE};
    bool literals = true, floats = o->typing == TR_FLOAT;
    Place at = at_node(s, n);
    if (any_bad(s, n)) return bad;
    for (int i = 0; i < o->arity; i++) {
        Res r = arg(s, n, i);
        literals = literals && r.kind != RES_VAL;
        if (i < first) continue;
        floats = floats || r.kind == RES_FLOAT;
        if (r.kind == RES_VAL) want = want == TY_NONE ? type_of(s, r) : ty_join(want, type_of(s, r));
    }
    if (literals && n->kind == ND_OP && (op == OP_NEG || (op >= OP_ADD && op <= OP_DIV)))
        return floats ? fold_floats(n, arg(s, n, 0), arg(s, n, o->arity - 1))
                      : fold_ints(s, n, arg(s, n, 0), o->arity > 1 ? arg(s, n, 1) : bad);
    if (floats && !ty_is_float(want)) want = TY_F32;
    for (int i = 0; i < o->arity; i++) {
        if ((v[i] = sema_value(s, arg(s, n, i), i < first ? TY_NONE : want, at)) < 0) return bad;
        t[i] = s->p->val[v[i]].ty;
    }
    Ty out;
    if (!op_type(op, t, &out)) {
        Buf given = buf_new(s->cx->a);
        for (int i = 0; i < o->arity; i++)
            buf_fmt(&given, "%s%s", i ? (i + 1 == o->arity ? " and " : ", ") : "", ty_text(t[i]));
        const char *text = op == OP_NEG ? "-" : o->text;
        sema_fail(s, diag(s->cx, S_LANG_TYPE, at, wanted(op, t), "'%s' does not take %s", text, given.s));
        return bad;
    }
    return value(prog_op(s->cx, s->p, op, v[0], v[1], v[2]));
}

static Res operation(Sema *s, const Node *n) {
    if (n->op != OP_MOD) return apply(s, n, n->op);
    sema_fail(s, diag(s->cx, S_LANG_REMAINDER, at_node(s, n), "a - a / b * b on integers",
                      "'%%' is for the extents of declared axes alone"));
    return bad;
}

/* ---- names and reads ---- */

static Res name(Sema *s, const Node *n) {
    Sym *y = &s->sym[n->at.id];
    const char *text = sema_text(s, n->at);
    switch (y->kind) {
    case SYM_POISON: return bad;
    case SYM_LOCAL: return y->value;
    case SYM_AXIS:
        if (n->in_index) return value(prog_idx(s->cx, s->p, y->index));
        sema_fail(s, diag(s->cx, S_LANG_NOT_VALUE, at_node(s, n),
                          arena_printf(s->cx->a, "idx(%s) for its coordinate", text), "'%s' is an axis, not a value",
                          text));
        return bad;
    case SYM_TYPE:
        sema_fail(s, diag(s->cx, S_LANG_NOT_VALUE, at_node(s, n),
                          arena_printf(s->cx->a, "%s(...) to round a value to it", text), "'%s' is a type, not a value",
                          text));
        return bad;
    case SYM_PARAM: break;
    case SYM_NONE: sema_unknown(s, n->at, S_LANG_NAME_UNKNOWN, "value", 1u << SYM_LOCAL | 1u << SYM_PARAM); return bad;
    }
    const Param *q = &s->p->param[y->index];
    if (y->assigned) return y->value;
    switch (q->dir) {
    case DIR_IN:
    case DIR_INOUT: return value(prog_load(s->cx, s->p, y->index));
    case DIR_SCALAR: return value(prog_scalar(s->cx, s->p, y->index));
    case DIR_CONST: return y->value;
    case DIR_OUT: break;
    }
    sema_fail(s, diag(s->cx, S_LANG_READ_BEFORE, at_node(s, n), "an input, or a read after the assignment",
                      "output '%s' is read before it is assigned", text));
    return bad;
}

static Res coordinate(Sema *s, const Node *n) {
    const Sym *y = &s->sym[n->at.id];
    if (y->kind == SYM_AXIS) return value(prog_idx(s->cx, s->p, y->index));
    sema_unknown(s, n->at, S_LANG_AXIS_UNKNOWN, "axis", 1u << SYM_AXIS);
    return bad;
}

static Res read_at(Sema *s, const Node *n) {
    const Sym *y = &s->sym[n->at.id];
    const char *text = sema_text(s, n->at);
    Cx *cx = s->cx;
    if (y->kind == SYM_POISON) return bad;
    if (y->kind == SYM_NONE) {
        sema_unknown(s, n->at, S_LANG_NAME_UNKNOWN, "parameter", 1u << SYM_PARAM);
        return bad;
    }
    if (y->kind != SYM_PARAM || s->p->param[y->index].dir != DIR_IN) {
        bool inout = y->kind == SYM_PARAM && s->p->param[y->index].dir == DIR_INOUT;
        sema_fail(s, diag(cx, S_LANG_GATHER, at_node(s, n), "an 'in' parameter before '['",
                          inout ? "'%s' is inout: it can only be read in place, without an index"
                                : "'%s' is not an 'in' parameter and cannot be read at an index",
                          text));
        return bad;
    }
    const Param *q = &s->p->param[y->index];
    Val v = {.op = OP_LOAD, .param = y->index, .fill = -1, .at = at_node(s, n)};
    if (n->nargs != q->rank) {
        uint32_t axes = 0;
        for (int d = 0; d < q->rank; d++) axes |= 1u << q->axis[d];
        sema_fail(s, diag(cx, S_LANG_INDEX_COUNT, at_node(s, n),
                          arena_printf(cx->a, "one index each for %s", axis_list(s, axes)),
                          "'%s' has %d ax%s, but %d index%s given", text, q->rank, q->rank == 1 ? "is" : "es", n->nargs,
                          n->nargs == 1 ? " is" : "es are"));
        return bad;
    }
    if (any_bad(s, n)) return bad;
    for (int d = 0; d < n->nargs; d++) {
        const Node *in = &s->k->node[s->k->list[n->args + d]];
        int i = sema_value(s, arg(s, n, d), TY_I64, at_node(s, in));
        if (i < 0) return bad;
        if (!ty_is_int(s->p->val[i].ty)) {
            sema_fail(s, diag(cx, S_LANG_INDEX_TYPE, at_node(s, in), "an integer, such as i64(floor(a))",
                              "index %d of '%s' is %s", d + 1, text, ty_text(s->p->val[i].ty)));
            return bad;
        }
        if ((v.idx[d] = prog_cast(cx, s->p, TY_I64, i)) < 0) return bad;
    }
    if (n->fill >= 0) {
        Ty ty = ty_compute(q->ty);
        v.fill = prog_cast(cx, s->p, ty, sema_value(s, s->res[n->fill], ty, at_node(s, &s->k->node[n->fill])));
        if (v.fill < 0) return bad;
    }
    return value(prog_add(cx, s->p, v));
}

/* ---- calls ---- */

static bool args_fit(Sema *s, const Node *n, int want, bool reduces) {
    const char *text = sema_text(s, n->at);
    if (n->nargs != want) {
        const char *accept = arena_printf(s->cx->a, "%d argument%s", want, want == 1 ? "" : "s");
        sema_fail(
            s, diag(s->cx, S_LANG_ARGUMENTS, at_node(s, n), accept, "'%s' takes %d, found %d", text, want, n->nargs));
        return false;
    }
    if (reduces || (n->nover < 0 && !n->policed)) return true;
    sema_fail(s, diag(s->cx, S_LANG_NOT_REDUCTION, at_node(s, n),
                      "a reduction: sum mean prod max min any all argmax argmin logsumexp var norm2",
                      "'%s' is not a reduction and takes no %s", text, n->nover >= 0 ? "'over'" : "policy"));
    return false;
}

static bool over_set(Sema *s, const Node *n, uint32_t axes, uint32_t *out) {
    bool ok = true;
    for (int i = 0; i < n->nover; i++) {
        Ident a = s->k->idents[n->over + i];
        const Sym *y = &s->sym[a.id];
        const char *text = sema_text(s, a);
        Err e = OK;
        if (y->kind != SYM_AXIS) {
            sema_unknown(s, a, S_LANG_AXIS_UNKNOWN, "axis", 1u << SYM_AXIS);
            ok = false;
        } else if (s->p->axis[y->index].row) {
            e = diag(s->cx, S_LANG_REDUCE_ROW, sema_at(s, a), "an element axis",
                     "'%s' is a row axis: rows are independent of each other", text);
        } else if (*out >> y->index & 1) {
            e = diag(s->cx, S_LANG_AXIS_TWICE, sema_at(s, a), NULL, "axis '%s' is listed twice", text);
        } else if (!(axes >> y->index & 1)) {
            e = diag(s->cx, S_LANG_REDUCE_AXIS, sema_at(s, a), axis_list(s, axes & ~s->p->row_axes),
                     "the operand does not vary over '%s'", text);
        } else {
            *out |= 1u << y->index;
        }
        if (e) sema_fail(s, e), ok = false;
    }
    return ok;
}

static Res reduction(Sema *s, const Node *n, Red red) {
    if (!args_fit(s, n, 1, true) || any_bad(s, n)) return bad;
    Res r = arg(s, n, 0);
    uint32_t axes = r.kind == RES_VAL ? s->p->val[r.val].axes : 0, over = 0;
    if (n->nover >= 0 && axes & ~s->p->row_axes) {
        if (!over_set(s, n, axes, &over)) return bad;
    } else {
        over = axes & ~s->p->row_axes;
    }
    if (!over) {
        sema_fail(s, diag(s->cx, S_LANG_REDUCE_NOTHING, at_node(s, n),
                          "a value that varies over an element axis; it may need no reduction",
                          "the operand of '%s' is the same for all elements of a row", red_info(red)->text));
        return bad;
    }
    return value(prog_red(s->cx, s->p, red, r.val, over, n->policy));
}

static Res call(Sema *s, const Node *n) {
    const char *text = sema_text(s, n->at);
    Ty ty;
    Op op;
    Red red;
    if (sema_type(s, n->at, &ty)) {
        if (!args_fit(s, n, 1, false) || any_bad(s, n)) return bad;
        int v = sema_value(s, arg(s, n, 0), ty_compute(ty), at_node(s, n));
        return v < 0 ? bad : value(prog_cast(s->cx, s->p, ty, v));
    }
    if (red_find(text, strlen(text), &red)) return reduction(s, n, red);
    if (op_find(text, FORM_F, &op)) return args_fit(s, n, op_info(op)->arity, false) ? apply(s, n, op) : bad;
    if (s->sym[n->at.id].kind == SYM_POISON) return bad;
    if (s->sym[n->at.id].kind != SYM_NONE) {
        sema_fail(s, diag(s->cx, S_LANG_FUNCTION_UNKNOWN, at_node(s, n), "'[' to read at an index, '*' to multiply",
                          "'%s' is not a function", text));
        return bad;
    }
    const char *known[OP_COUNT + (int)RED_COUNT + (int)TY_COUNT];
    int count = 0;
    for (int i = 0; i < OP_COUNT; i++)
        if (op_info((Op)i)->form == FORM_F) known[count++] = op_info((Op)i)->text;
    for (int i = 0; i < RED_COUNT; i++) known[count++] = red_info((Red)i)->text;
    for (int i = TY_BOOL; i < TY_COUNT; i++) known[count++] = ty_text((Ty)i);
    sema_fail(s, diag(s->cx, S_LANG_FUNCTION_UNKNOWN, at_node(s, n), "a map, a reduction or a type",
                      "no function is called '%s'%s", text, near_text(s->cx->a, text, known, count)));
    return bad;
}

static Res evaluate(Sema *s, const Node *n) {
    switch (n->kind) {
    case ND_INT: return (Res){.kind = RES_INT, .i = (int64_t)n->u, .big = n->u > INT64_MAX};
    case ND_FLOAT: return (Res){.kind = RES_FLOAT, .d = n->d};
    case ND_BOOL: return value(prog_const_i(s->cx, s->p, TY_BOOL, (int64_t)n->u));
    case ND_NAME: return name(s, n);
    case ND_IDX: return coordinate(s, n);
    case ND_OP: return operation(s, n);
    case ND_CALL: return call(s, n);
    case ND_READ: return read_at(s, n);
    }
    return bad;
}

void sema_expr(Sema *s, int first, int root) {
    for (int i = first; i <= root; i++) {
        const Node *n = &s->k->node[i];
        int before = s->p->nvals;
        if (!s->full && before > LANG_VALUES) {
            s->full = true;
            sema_fail(s,
                      diag(s->cx, S_LANG_LIMIT, at_node(s, n), arena_printf(s->cx->a, "up to %d values", LANG_VALUES),
                           "the kernel needs more than %d values", LANG_VALUES));
        }
        s->res[i] = s->full ? bad : evaluate(s, n);
        for (int v = before; v < s->p->nvals; v++) s->p->val[v].at = at_node(s, n);
    }
}
