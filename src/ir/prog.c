/* Building a Prog: values are inferred, folded where constant, and made once. Binding its extents. */
#include "ir.h"

#include <math.h>
#include <string.h>

int prog_axis(const Prog *p, const char *name) {
    for (int i = 0; i < p->naxes; i++)
        if (str_eq(p->axis[i].name, name)) return i;
    return -1;
}

int prog_param(const Prog *p, const char *name) {
    for (int i = 0; i < p->nparams; i++)
        if (str_eq(p->param[i].name, name)) return i;
    return -1;
}

/* ---- extents ---- */
void extent_print(const Shape *s, int axis, Buf *out) {
    if (s->least[axis]) buf_fmt(out, "%lld..", (long long)s->least[axis]);
    buf_fmt(out, "%lld", (long long)s->n[axis]);
}

bool extent_read(const char *text, Shape *s, int axis) {
    char from[24];
    const char *dots = strstr(text, "..");
    const size_t n = dots ? (size_t)(dots - text) : 0;
    s->least[axis] = 0;
    if (!dots) return str_i64(text, &s->n[axis]);
    if (n >= sizeof from) return false;
    memcpy(from, text, n);
    from[n] = 0;
    if (!str_i64(from, &s->least[axis]) || !str_i64(dots + 2, &s->n[axis]) || s->least[axis] < 1) return false;
    if (s->least[axis] == s->n[axis]) s->least[axis] = 0;
    return true;
}

int shape_ranged(const Shape *s) {
    for (int i = 0; i < MAX_AXES; i++)
        if (s->least[i] > 0) return i;
    return -1;
}

Shape shape_at(const Shape *s, int64_t n) {
    Shape at = *s;
    int axis = shape_ranged(s);
    if (axis >= 0) at.n[axis] = n, at.least[axis] = 0;
    return at;
}

int64_t shape_half(const Shape *s) {
    int axis = shape_ranged(s);
    if (axis < 0) return 0;
    int64_t pack = 16;
    while (s->n[axis] % pack) pack /= 2;
    return i64_max(s->least[axis], s->n[axis] / 2 / pack * pack);
}

int prog_extent(const Prog *p, const Shape *s) {
    int axis = shape_ranged(s);
    return axis < 0 ? -1 : prog_param(p, p->axis[axis].name);
}

/* Is the extent of axis `of` in expression e? */
static bool made_of(const Prog *p, int e, int of) {
    const Ext *x = &p->ext[e];
    if (x->op == 'k') return false;
    return x->op == 'a' ? x->k == of : made_of(p, x->l, of) || made_of(p, x->r, of);
}

/* One axis at most has a range, and no other extent follows from it. */
static Err range_check(Cx *cx, const Prog *p, const Shape *s) {
    int axis = shape_ranged(s), params = p->nparams;
    if (axis < 0) return OK;
    const Axis *a = &p->axis[axis];
    if (axis >= p->naxes || a->row || a->ext >= 0)
        return diag(cx, S_SHAPE_RANGE, NOWHERE, "an element axis that tensors have", "axis %s has a range",
                    axis < p->naxes ? a->name : "?");
    if (s->least[axis] >= s->n[axis])
        return diag(cx, S_SHAPE_RANGE, NOWHERE, "FROM..TO with 1 <= FROM < TO", "axis %s ranges from %lld to %lld",
                    a->name, (long long)s->least[axis], (long long)s->n[axis]);
    for (int i = 0; i < MAX_AXES; i++) {
        if (i != axis && s->least[i])
            return diag(cx, S_SHAPE_RANGE, NOWHERE, "one", "axes %s and %s both have a range", a->name,
                        i < p->naxes ? p->axis[i].name : "?");
        if (i < p->naxes && p->axis[i].ext >= 0 && made_of(p, p->axis[i].ext, axis))
            return diag(cx, S_SHAPE_RANGE, NOWHERE, "one extent",
                        "axis %s has a range, and the extent of %s is made of it", a->name, p->axis[i].name);
    }
    return params < MAX_PARAMS ? OK
                               : diag(cx, S_SHAPE_RANGE, NOWHERE, "31", "%d parameters, and one more is needed for %s",
                                      params, a->name);
}
static Err eval_ext(Cx *cx, const Prog *p, const Shape *s, int axis, int e, int64_t *out) {
    const Ext *x = &p->ext[e];
    if (x->op == 'k') return *out = x->k, OK;
    if (x->op == 'a') return *out = s->n[x->k], OK;
    int64_t l = 0, r = 0;
    Err err = eval_ext(cx, p, s, axis, x->l, &l);
    if (!err) err = eval_ext(cx, p, s, axis, x->r, &r);
    if (err) return err;
    bool fits = true;
    switch (x->op) {
    case '+': fits = !__builtin_add_overflow(l, r, out); break;
    case '-': fits = !__builtin_sub_overflow(l, r, out); break;
    case '*': fits = mul_fits(l, r, out); break;
    default: /* floor division and the remainder that belongs to it */
        if (r == 0)
            return diag(cx, S_SHAPE_DIVIDE, NOWHERE, NULL, "axis %s: %lld divided by 0", p->axis[axis].name,
                        (long long)l);
        if (r == -1) {
            fits = l != INT64_MIN || x->op == '%';
            *out = x->op == '%' || !fits ? 0 : -l;
        } else {
            int64_t down = l % r != 0 && (l < 0) != (r < 0);
            *out = x->op == '/' ? l / r - down : l % r + (down ? r : 0);
        }
    }
    return fits ? OK
                : diag(cx, S_SHAPE_OVERFLOW, NOWHERE, NULL, "the extent of axis %s does not fit 63 bits",
                       p->axis[axis].name);
}

/* Elements over a set of axes, empty ones counted as 1: strides of an empty tensor must be sound as well. */
static bool count_fits(const Shape *s, uint32_t axes, int64_t n) {
    for (int i = 0; i < MAX_AXES; i++)
        if (axes >> i & 1 && s->n[i] > 0 && !mul_fits(n, s->n[i], &n)) return false;
    return true;
}

Err shape_bind(Cx *cx, const Prog *p, Shape *s) {
    Err err = OK;
    for (int i = 0; i < p->naxes; i++) {
        const Axis *a = &p->axis[i];
        if (a->ext >= 0) {
            Err bad = eval_ext(cx, p, s, i, a->ext, &s->n[i]);
            if (bad) return bad; /* later axes may be made of this one */
        } else if (s->n[i] == -1) {
            if (a->row) continue;
            return diag(cx, S_SHAPE_UNKNOWN, NOWHERE, NULL, "the extent of axis %s is not given", a->name);
        }
        if (s->n[i] < 0)
            return diag(cx, S_SHAPE_NEGATIVE, NOWHERE, NULL, "axis %s has extent %lld", a->name, (long long)s->n[i]);
    }
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        uint32_t axes = 0;
        for (int d = 0; d < q->rank; d++) axes |= 1u << q->axis[d];
        if (!count_fits(s, axes, ty_bytes(q->ty)))
            err = diag(cx, S_SHAPE_OVERFLOW, NOWHERE, NULL, "the bytes of %s do not fit 63 bits", q->name);
    }
    if (!err) err = range_check(cx, p, s);
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        if (count_fits(s, v->axes | (v->op == OP_RED ? v->over : 0), 8)) continue;
        return diag(cx, S_SHAPE_OVERFLOW, v->at, NULL, "the elements of value %%%d%s%s do not fit 60 bits", i,
                    v->name ? " " : "", v->name ? v->name : "");
    }
    return err;
}

/* ---- building ---- */
/* What an operator does not use is set to one canonical value, so that equality is equality of all fields. */
static Val canonical(const Prog *p, const Val *v) {
    Val c = {.op = v->op, .ty = v->ty, .axes = v->axes, .a = {-1, -1, -1}, .param = -1, .fill = -1, .axis = -1};
    for (int i = 0; i < op_info(v->op)->arity; i++) c.a[i] = v->a[i];
    for (int d = 0; d < MAX_RANK; d++) c.idx[d] = -1;
    switch (v->op) {
    case OP_CONST: c.k = v->k; break;
    case OP_SCALAR: c.param = v->param; break;
    case OP_LOAD:
        c.param = v->param;
        for (int d = 0; d < p->param[v->param].rank; d++) c.idx[d] = v->idx[d];
        c.fill = v->fill;
        break;
    case OP_IDX: c.axis = v->axis; break;
    case OP_CAST:
    case OP_BITS: c.to = v->to; break;
    case OP_RED:
        c.red = v->red;
        c.over = v->over;
        c.policy = v->policy;
        break;
    default: break;
    }
    c.name = v->name;
    c.hold = v->hold;
    c.at = v->at;
    return c;
}

static bool same(const Val *x, const Val *y) {
    return x->op == y->op && x->ty == y->ty && x->axes == y->axes && !memcmp(x->a, y->a, sizeof x->a) &&
           x->k.u == y->k.u && x->param == y->param && !memcmp(x->idx, y->idx, sizeof x->idx) && x->fill == y->fill &&
           x->axis == y->axis && x->to == y->to && x->red == y->red && x->over == y->over && x->policy == y->policy;
}

/* Lets `old` stand for `v` too, taking over its name and hold; false where that would drop a hold that was pinned. */
static bool merge(Val *old, const Val *v) {
    if (v->hold != HOLD_AUTO && v->hold != old->hold) {
        bool other_name = old->name && !(v->name && str_eq(old->name, v->name));
        if (old->hold != HOLD_AUTO || other_name) return false;
        old->hold = v->hold;
    }
    if (!old->name) old->name = v->name;
    return true;
}

int prog_add(Cx *cx, Prog *p, Val v) {
    if (prog_infer(cx, p, p->nvals, &v)) return -1;
    v = canonical(p, &v);
    for (int i = p->nvals - 1; i >= 0; i--)
        if (same(&p->val[i], &v) && merge(&p->val[i], &v)) return i;
    if (p->nvals >= MAX_VALS) {
        diag(cx, S_IR_LIMIT, v.at, NULL, "more than %d values", MAX_VALS);
        return -1;
    }
    GROW(cx->a, p->val, p->nvals, p->val_cap);
    p->val[p->nvals] = v;
    return p->nvals++;
}

int prog_idx(Cx *cx, Prog *p, int axis) {
    return prog_add(cx, p, (Val){.op = OP_IDX, .axis = axis});
}
int prog_scalar(Cx *cx, Prog *p, int param) {
    return prog_add(cx, p, (Val){.op = OP_SCALAR, .param = param});
}

int prog_load(Cx *cx, Prog *p, int param) {
    Val v = {.op = OP_LOAD, .param = param, .fill = -1};
    for (int d = 0; param >= 0 && param < p->nparams && d < p->param[param].rank; d++)
        if ((v.idx[d] = prog_idx(cx, p, p->param[param].axis[d])) < 0) return -1;
    return prog_add(cx, p, v);
}

int prog_const_f(Cx *cx, Prog *p, Ty ty, double x) {
    return prog_add(cx, p, (Val){.op = OP_CONST, .ty = ty_compute(ty), .k = num_cast(ty, (Num){.d = x}, TY_F64)});
}

int prog_const_i(Cx *cx, Prog *p, Ty ty, int64_t x) {
    return prog_add(cx, p, (Val){.op = OP_CONST, .ty = ty_compute(ty), .k = num_cast(ty, (Num){.i = x}, TY_I64)});
}

bool val_in_place(const Prog *p, const Val *v) {
    if (v->op != OP_LOAD) return false;
    for (int d = 0; d < p->param[v->param].rank; d++) {
        const Val *i = &p->val[v->idx[d]];
        if (i->op != OP_IDX || i->axis != p->param[v->param].axis[d]) return false;
    }
    return true;
}

/* Machines differ in the payload of a NaN that an operation makes; a program is the same everywhere. */
static Num plain_nan(Op op, Ty ty, Num k) {
    if (op == OP_BITS || op == OP_WHERE || !ty_is_float(ty) || !isnan(num_f64(k, ty))) return k;
    return num_cast(ty, (Num){.d = (double)NAN}, TY_F64);
}

/* Adds v, or the constant that it is. t: the common type of its operands. */
static int fold(Cx *cx, Prog *p, Val v, Ty t) {
    const OpInfo *o = op_info(v.op);
    bool known = o->arity > 0 && v.op != OP_RED && !(o->cost == COST_SPECIAL && t == TY_F32);
    Num k[3] = {{0}, {0}, {0}};
    for (int i = 0; known && i < o->arity; i++) {
        known = p->val[v.a[i]].op == OP_CONST;
        k[i] = p->val[v.a[i]].k;
    }
    if (!known || prog_infer(cx, p, p->nvals, &v)) return prog_add(cx, p, v);
    Num r = plain_nan(v.op, v.ty, num_op(v.op, t, v.to, k[0], k[1], k[2]));
    return prog_add(cx, p, (Val){.op = OP_CONST, .ty = v.ty, .k = r, .at = v.at});
}

static bool is_value(const Prog *p, int x) {
    return x >= 0 && x < p->nvals;
}

/* Rounding to `to` changes nothing when the value was rounded to it last. */
static bool rounded_to(const Prog *p, const Val *v, Ty to) {
    if (v->ty == to) return true;
    if (v->op == OP_CAST) return v->to == to;
    return v->op == OP_LOAD && p->param[v->param].ty == to && (v->fill < 0 || val_in_place(p, v));
}

int prog_cast(Cx *cx, Prog *p, Ty to, int x) {
    Val v = {.op = OP_CAST, .a = {x, -1, -1}, .to = to};
    if (!is_value(p, x)) return prog_add(cx, p, v);
    if (rounded_to(p, &p->val[x], to)) return x;
    v.at = p->val[x].at;
    return fold(cx, p, v, p->val[x].ty);
}

int prog_op(Cx *cx, Prog *p, Op op, int x, int y, int z) {
    Val v = {.op = op, .a = {x, y, z}};
    int arity = op_info(op)->arity;
    Ty t[3] = {TY_NONE, TY_NONE, TY_NONE};
    for (int i = 0; i < arity && i < COUNT(t); i++) {
        if (!is_value(p, v.a[i])) return -1; /* its own diagnostic is there already */
        t[i] = p->val[v.a[i]].ty;
        if (!v.at.line) v.at = p->val[v.a[i]].at;
    }
    Ty common = op_operand(op, t);
    for (int i = op == OP_WHERE ? 1 : 0; common != TY_NONE && i < arity && i < COUNT(t); i++)
        v.a[i] = prog_cast(cx, p, common, v.a[i]);
    return fold(cx, p, v, common);
}

int prog_red(Cx *cx, Prog *p, Red red, int x, uint32_t over, Policy pol) {
    if (!is_value(p, x)) return -1;
    Place at = p->val[x].at;
    Ty t = red_operand(red, p->val[x].ty);
    Val v = {.op = OP_RED, .a = {prog_cast(cx, p, t, x), -1, -1}, .red = red, .over = over, .policy = pol, .at = at};
    return prog_add(cx, p, v);
}
