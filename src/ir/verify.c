/* The rules of a Prog. prog_infer says what one value is; prog_verify checks a whole program, one rule a slug. */
#include "ir.h"

#include <string.h>

/* ---- one value ---- */
/* The types of an operator's operands as text, for a message. */
static const char *types_text(Cx *cx, int arity, const Ty *t) {
    Buf b = buf_new(cx->a);
    for (int i = 0; i < arity; i++) buf_fmt(&b, "%s%s", i ? ", " : "", ty_text(t[i]));
    return b.s;
}

static Err infer_op(Cx *cx, const Prog *p, Val *v) {
    const OpInfo *o = op_info(v->op);
    Ty t[3] = {TY_NONE, TY_NONE, TY_NONE};
    for (int i = 0; i < o->arity; i++) t[i] = p->val[v->a[i]].ty;
    if (!op_type(v->op, t, &v->ty))
        return diag(cx, S_IR_TYPE, v->at, NULL, "%s does not take %s", o->text, types_text(cx, o->arity, t));
    Ty common = op_operand(v->op, t);
    for (int i = v->op == OP_WHERE ? 1 : 0; i < o->arity; i++)
        if (t[i] != common)
            return diag(cx, S_IR_TYPE, v->at, ty_text(common), "%s meets %s without a cast", o->text,
                        types_text(cx, o->arity, t));
    return OK;
}

static Err infer_cast(Cx *cx, const Prog *p, Val *v) {
    Ty t = p->val[v->a[0]].ty, to = v->to;
    if (to <= TY_NONE || to >= TY_COUNT) return diag(cx, S_IR_TYPE, v->at, NULL, "a cast to no type");
    v->ty = ty_compute(to);
    if (v->op == OP_CAST) return OK;
    if (v->ty != to || to == TY_BOOL || t == TY_BOOL || ty_bytes(to) != ty_bytes(t))
        return diag(cx, S_IR_TYPE, v->at, NULL, "the bits of %s are not those of %s", ty_text(t), ty_text(to));
    return OK;
}

static bool in_range(Ty ty, Num k) {
    switch (ty) {
    case TY_BOOL:
    case TY_F32:
    case TY_I32:
    case TY_U32: { /* a number of the type comes back from its storage with all 8 bytes */
        if (ty == TY_BOOL && k.u > 1) return false;
        unsigned char at[8];
        num_store(ty, at, k, ty);
        return num_load(ty, at).u == k.u;
    }
    case TY_I64:
    case TY_U64:
    case TY_F64: return true;
    default: return false;
    }
}

static Err infer_load(Cx *cx, const Prog *p, int n, Val *v) {
    if (v->param < 0 || v->param >= p->nparams ||
        (p->param[v->param].dir != DIR_IN && p->param[v->param].dir != DIR_INOUT))
        return diag(cx, S_IR_LOAD, v->at, NULL, "load from %s",
                    v->param < 0 || v->param >= p->nparams ? "no parameter" : p->param[v->param].name);
    const Param *q = &p->param[v->param];
    v->ty = ty_compute(q->ty);
    for (int d = 0; d < q->rank; d++) {
        int i = v->idx[d];
        if (i < 0 || i >= n)
            return diag(cx, S_IR_OPERAND, v->at, NULL, "index %d of %s is not a value before it", d, q->name);
        if (!ty_is_int(p->val[i].ty))
            return diag(cx, S_IR_INDEX, v->at, "an integer", "index %d of %s is %s", d, q->name, ty_text(p->val[i].ty));
        v->axes |= p->val[i].axes;
    }
    if (v->fill == -1) return OK;
    if (v->fill < 0 || v->fill >= n)
        return diag(cx, S_IR_OPERAND, v->at, NULL, "the fill of %s is not a value before it", q->name);
    if (p->val[v->fill].ty != v->ty)
        return diag(cx, S_IR_FILL, v->at, ty_text(v->ty), "the fill of %s is %s", q->name, ty_text(p->val[v->fill].ty));
    v->axes |= p->val[v->fill].axes;
    return OK;
}

static Err infer_red(Cx *cx, const Prog *p, Val *v) {
    if (v->red < 0 || v->red >= RED_COUNT || (v->policy != POLICY_TREE && v->policy != POLICY_ORDERED))
        return diag(cx, S_IR_OPERATOR, v->at, NULL, "reduction %d with policy %d", (int)v->red, (int)v->policy);
    uint32_t elements = ((1u << p->naxes) - 1) & ~p->row_axes;
    if (!v->over) return diag(cx, S_IR_REDUCE, v->at, NULL, "%s over no axis", red_info(v->red)->text);
    if (v->over & ~elements)
        return diag(cx, S_IR_REDUCE, v->at, NULL, "%s over an axis that is not an element axis",
                    red_info(v->red)->text);
    Ty t = p->val[v->a[0]].ty;
    if (red_operand(v->red, t) != t)
        return diag(cx, S_IR_TYPE, v->at, ty_text(red_operand(v->red, t)), "%s of %s without a cast",
                    red_info(v->red)->text, ty_text(t));
    v->ty = red_type(v->red, t);
    v->axes &= ~v->over;
    return OK;
}

Err prog_infer(Cx *cx, const Prog *p, int n, Val *v) {
    if (v->op < 0 || v->op >= OP_COUNT) return diag(cx, S_IR_OPERATOR, v->at, NULL, "operator %d", (int)v->op);
    if (v->hold < 0 || v->hold >= HOLD_COUNT) return diag(cx, S_IR_OPERATOR, v->at, NULL, "hold %d", (int)v->hold);
    v->axes = 0;
    for (int i = 0; i < op_info(v->op)->arity; i++) {
        if (v->a[i] < 0 || v->a[i] >= n)
            return diag(cx, S_IR_OPERAND, v->at, NULL, "operand %d of %s is not a value before it", i,
                        op_info(v->op)->text);
        v->axes |= p->val[v->a[i]].axes;
    }
    switch (v->op) {
    case OP_CONST:
        return in_range(v->ty, v->k) ? OK
                                     : diag(cx, S_IR_CONST, v->at, NULL, "a constant that is no number of its type");
    case OP_SCALAR:
        if (v->param < 0 || v->param >= p->nparams || p->param[v->param].dir < DIR_SCALAR)
            return diag(cx, S_IR_SCALAR, v->at, NULL, "parameter %d is not a scalar", v->param);
        v->ty = ty_compute(p->param[v->param].ty);
        return OK;
    case OP_IDX:
        if (v->axis < 0 || v->axis >= p->naxes) return diag(cx, S_IR_AXIS, v->at, NULL, "idx of no axis");
        v->ty = TY_I64;
        v->axes = 1u << v->axis;
        return OK;
    case OP_LOAD: return infer_load(cx, p, n, v);
    case OP_RED: return infer_red(cx, p, v);
    case OP_CAST:
    case OP_BITS: return infer_cast(cx, p, v);
    default: return infer_op(cx, p, v);
    }
}

/* ---- the program ---- */
static bool is_name(const char *s) {
    if (!s || !(*s == '_' || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z'))) return false;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return !s[n] && n <= MAX_NAME;
}

static Err check_name(Cx *cx, const char *what, const char *s) {
    return is_name(s) ? OK : diag(cx, S_IR_NAME, NOWHERE, NULL, "the name of %s is not an identifier", what);
}

static Err check_names(Cx *cx, const Prog *p) {
    Err e = check_name(cx, "the kernel", p->name);
    for (int i = 0; !e && i < p->naxes; i++) e = check_name(cx, "an axis", p->axis[i].name);
    for (int i = 0; !e && i < p->nparams; i++) e = check_name(cx, "a parameter", p->param[i].name);
    for (int i = 0; !e && i < p->nvals; i++)
        if (p->val[i].name) e = check_name(cx, "a value", p->val[i].name);
    for (int i = 0; !e && i < p->naxes; i++)
        if (prog_axis(p, p->axis[i].name) != i || prog_param(p, p->axis[i].name) >= 0)
            e = diag(cx, S_IR_DUPLICATE, NOWHERE, NULL, "the name of axis %s is used twice", p->axis[i].name);
    for (int i = 0; !e && i < p->nparams; i++)
        if (prog_param(p, p->param[i].name) != i)
            e = diag(cx, S_IR_DUPLICATE, NOWHERE, NULL, "the name of parameter %s is used twice", p->param[i].name);
    for (int i = 0; !e && i < p->nvals; i++)
        for (int j = 0; !e && p->val[i].name && j < i; j++)
            if (p->val[j].name && str_eq(p->val[i].name, p->val[j].name))
                e = diag(cx, S_IR_DUPLICATE, p->val[i].at, NULL, "the name of value %s is used twice", p->val[i].name);
    return e;
}

static Err check_limits(Cx *cx, const Prog *p) {
    const struct {
        const char *what;
        int n, max;
    } limits[] = {{"axes", p->naxes, MAX_AXES},
                  {"parameters", p->nparams, MAX_PARAMS},
                  {"values", p->nvals, MAX_VALS},
                  {"extents", p->next, MAX_EXTS},
                  {"outputs", p->nouts, MAX_PARAMS}};
    for (int i = 0; i < COUNT(limits); i++)
        if (limits[i].n < 0 || limits[i].n > limits[i].max)
            return diag(cx, S_IR_LIMIT, NOWHERE, NULL, "%d %s, at most %d", limits[i].n, limits[i].what, limits[i].max);
    return OK;
}

/* Highest axis number in an extent; operands come before their operator, so a tree over checked nodes ends. */
static int ext_top(const Prog *p, int e) {
    const Ext *x = &p->ext[e];
    if (x->op == 'k') return -1;
    if (x->op == 'a') return (int)x->k;
    int l = ext_top(p, x->l), r = ext_top(p, x->r);
    return l > r ? l : r;
}

static Err check_exts(Cx *cx, const Prog *p) {
    int size[MAX_EXTS];
    for (int i = 0; i < p->next; i++) {
        const Ext *x = &p->ext[i];
        bool binary = x->op && strchr("+-*/%", x->op);
        bool ok = binary ? x->l >= 0 && x->l < i && x->r >= 0 && x->r < i
                         : x->op == 'k' || (x->op == 'a' && x->k >= 0 && x->k < p->naxes && !p->axis[x->k].row);
        if (!ok) return diag(cx, S_IR_EXTENT, NOWHERE, NULL, "extent %d is not well formed", i);
        size[i] = binary ? size[x->l] + size[x->r] + 1 : 1; /* shared operands could make a small text a huge tree */
        if (size[i] > MAX_EXTS)
            return diag(cx, S_IR_LIMIT, NOWHERE, NULL, "extent %d has more than %d parts", i, MAX_EXTS);
    }
    for (int i = 0; i < p->naxes; i++) {
        int e = p->axis[i].ext;
        if (e < -1 || e >= p->next || (e >= 0 && ext_top(p, e) >= i))
            return diag(cx, S_IR_EXTENT, NOWHERE, "axes that come before it", "the extent of axis %s", p->axis[i].name);
    }
    return OK;
}

static Err check_axes(Cx *cx, const Prog *p) {
    uint32_t rows = 0, in_params = 0;
    for (int i = 0; i < p->nparams; i++)
        for (int d = 0; d < p->param[i].rank; d++) in_params |= 1u << p->param[i].axis[d];
    for (int i = 0; i < p->naxes; i++) {
        const Axis *a = &p->axis[i];
        if (a->row) rows |= 1u << i;
        if (a->row && a->ext >= 0)
            return diag(cx, S_IR_AXIS, NOWHERE, NULL, "row axis %s is declared with an extent", a->name);
        if (a->ext < 0 && !(in_params >> i & 1))
            return diag(cx, S_IR_AXIS, NOWHERE, NULL, "no tensor has axis %s", a->name);
    }
    return rows == p->row_axes ? OK : diag(cx, S_IR_AXIS, NOWHERE, NULL, "row_axes is not the set of row axes");
}

static Err check_param(Cx *cx, const Prog *p, int i) {
    const Param *q = &p->param[i];
    const char *bad = NULL;
    bool scalar = q->dir == DIR_SCALAR || q->dir == DIR_CONST;
    if (q->dir < DIR_IN || q->dir > DIR_CONST)
        bad = "has no direction";
    else if (q->ty <= TY_NONE || q->ty >= TY_COUNT)
        bad = "has no type";
    else if (q->rank < 0 || q->rank > MAX_RANK)
        bad = "has too many dimensions";
    else if (scalar && q->rank)
        bad = "is a scalar with dimensions";
    else if (q->dir == DIR_CONST && !q->has_default)
        bad = "is a const without a value";
    else if (!scalar && q->has_default)
        bad = "is a tensor with a value";
    else if (p->param_hold[i] < 0 || p->param_hold[i] >= HOLD_COUNT)
        bad = "has no such hold";
    else if (p->param_hold[i] != HOLD_AUTO && q->dir != DIR_IN && q->dir != DIR_INOUT)
        bad = "has a hold and is no input";
    uint32_t seen = 0;
    for (int d = 0; !bad && d < q->rank; d++) {
        if (q->axis[d] >= p->naxes)
            bad = "has an axis that does not exist";
        else if (seen >> q->axis[d] & 1)
            bad = "has an axis twice";
        else
            seen |= 1u << q->axis[d];
    }
    return bad ? diag(cx, S_IR_PARAM, NOWHERE, NULL, "parameter %s %s", q->name, bad) : OK;
}

static Err check_vals(Cx *cx, const Prog *p) {
    for (int i = 0; i < p->nvals; i++) {
        Val v = p->val[i];
        Err e = prog_infer(cx, p, i, &v);
        if (e) return e;
        if (v.ty != p->val[i].ty || v.axes != p->val[i].axes)
            return diag(cx, S_IR_AXES, v.at, NULL,
                        "value %%%d is recorded with a type or axes that its operands do not give", i);
    }
    return OK;
}

static Err check_outs(Cx *cx, const Prog *p) {
    uint32_t assigned = 0;
    for (int i = 0; i < p->nouts; i++) {
        const Out *o = &p->out[i];
        if (o->param < 0 || o->param >= p->nparams ||
            (p->param[o->param].dir != DIR_OUT && p->param[o->param].dir != DIR_INOUT))
            return diag(cx, S_IR_OUT, NOWHERE, NULL, "output %d is not to an out or inout parameter", i);
        const Param *q = &p->param[o->param];
        if (o->val < 0 || o->val >= p->nvals)
            return diag(cx, S_IR_OUT, NOWHERE, NULL, "output %s has no value", q->name);
        if (assigned >> o->param & 1) return diag(cx, S_IR_OUT, NOWHERE, NULL, "output %s is assigned twice", q->name);
        assigned |= 1u << o->param;
        uint32_t axes = 0;
        for (int d = 0; d < q->rank; d++) axes |= 1u << q->axis[d];
        if (p->val[o->val].axes & ~axes)
            return diag(cx, S_IR_OUT, NOWHERE, NULL, "output %s lacks an axis of its value", q->name);
        if (p->row_axes & ~axes)
            return diag(cx, S_IR_OUT, NOWHERE, NULL, "output %s lacks a row axis: rows would overwrite each other",
                        q->name);
    }
    for (int i = 0; i < p->nparams; i++)
        if ((p->param[i].dir == DIR_OUT || p->param[i].dir == DIR_INOUT) && !(assigned >> i & 1))
            return diag(cx, S_IR_OUT, NOWHERE, NULL, "output %s is not assigned", p->param[i].name);
    return OK;
}

/* In this order: each step may rely on what those before it have checked. */
Err prog_verify(Cx *cx, const Prog *p) {
    Err e = check_limits(cx, p);
    if (!e) e = check_names(cx, p);
    if (!e) e = check_exts(cx, p);
    for (int i = 0; !e && i < p->nparams; i++) e = check_param(cx, p, i);
    if (!e) e = check_axes(cx, p);
    if (!e) e = check_vals(cx, p);
    if (!e) e = check_outs(cx, p);
    return e;
}
