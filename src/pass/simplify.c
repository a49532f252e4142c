/* Prog -> Prog: mean, var, norm2 and logsumexp become sums and maxima; the largest coordinate, which is how a program
 * asks for an extent, becomes a number; values that no output needs are dropped. Where an axis has a range, its extent
 * is a scalar parameter more, behind those of the program, and such numbers are made of that. */
#include "pass.h"

#include <string.h>

typedef struct Simplify {
    Cx *cx;
    const Prog *from;
    const Shape *shape;
    Prog *to;
    int *map; /* value of `from` -> value of `to` */
} Simplify;

int val_deps(const Prog *p, const Val *v, int dep[MAX_DEPS]) {
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (v->a[i] >= 0) dep[n++] = v->a[i];
    if (v->op == OP_LOAD) {
        for (int i = 0; i < p->param[v->param].rank; i++) dep[n++] = v->idx[i];
        if (v->fill >= 0) dep[n++] = v->fill;
    }
    return n;
}

static void mark_needed(const Prog *p, bool *need) {
    for (int i = 0; i < p->nouts; i++) need[p->out[i].val] = true;
    for (int i = p->nvals - 1; i >= 0; i--) { /* operands come first, so one backward sweep is enough */
        if (!need[i]) continue;
        int dep[MAX_DEPS];
        for (int n = val_deps(p, &p->val[i], dep), k = 0; k < n; k++) need[dep[k]] = true;
    }
}

static int64_t points(const Shape *s, uint32_t axes) {
    int64_t n = 1;
    for (int i = 0; i < MAX_AXES; i++)
        if (axes >> i & 1) n *= s->n[i]; /* shape_bind checked that products fit */
    return n;
}

static int op2(Simplify *s, Op op, int x, int y);

static bool is_ranged(const Shape *s, uint32_t axes) {
    int axis = shape_ranged(s);
    return axis >= 0 && axes >> axis & 1;
}

/* How many points axes have, the ranged one among them: i64, made of its extent. */
static int count(Simplify *s, uint32_t axes) {
    int64_t others = points(s->shape, axes & ~(1u << shape_ranged(s->shape)));
    int n = prog_scalar(s->cx, s->to, prog_extent(s->to, s->shape));
    return others == 1 ? n : op2(s, OP_MUL, n, prog_const_i(s->cx, s->to, TY_I64, others));
}

bool pass_counts(const Prog *p, const Shape *s, int val, uint32_t axes) {
    const Val *v = &p->val[val];
    if (!is_ranged(s, axes)) return v->op == OP_CONST && num_f64(v->k, v->ty) == (double)points(s, axes);
    int64_t others = points(s, axes & ~(1u << shape_ranged(s)));
    if (v->op != OP_CAST || v->to != v->ty) return false;
    v = &p->val[v->a[0]];
    if (others != 1) {
        const Val *k = v->op == OP_MUL ? &p->val[v->a[1]] : NULL;
        if (!k || k->op != OP_CONST || k->k.i != others) return false;
        v = &p->val[v->a[0]];
    }
    return v->op == OP_SCALAR && v->param == prog_extent(p, s);
}

static int op2(Simplify *s, Op op, int x, int y) {
    return prog_op(s->cx, s->to, op, x, y, -1);
}
static int op1(Simplify *s, Op op, int x) {
    return prog_op(s->cx, s->to, op, x, -1, -1);
}
static int red(Simplify *s, Red r, int x, const Val *v) {
    return prog_red(s->cx, s->to, r, x, v->over, v->policy);
}

static int mean(Simplify *s, int x, const Val *v) {
    int n = is_ranged(s->shape, v->over) ? prog_cast(s->cx, s->to, v->ty, count(s, v->over))
                                         : prog_const_f(s->cx, s->to, v->ty, (double)points(s->shape, v->over));
    return op2(s, OP_DIV, red(s, RED_SUM, x, v), n);
}

/* x - max(x) with an infinite maximum taken as 0, so that a row of -inf gives log(0) = -inf and one with +inf gives
 * +inf, not NaN. */
static int logsumexp(Simplify *s, int x, const Val *v) {
    int m = red(s, RED_MAX, x, v);
    int inf = prog_const_f(s->cx, s->to, v->ty, __builtin_inf()), zero = prog_const_f(s->cx, s->to, v->ty, 0);
    int guard = prog_op(s->cx, s->to, OP_WHERE, op2(s, OP_EQ, op1(s, OP_ABS, m), inf), zero, m);
    int sum = red(s, RED_SUM, op1(s, OP_EXP, op2(s, OP_SUB, x, guard)), v);
    return op2(s, OP_ADD, op1(s, OP_LOG, sum), guard);
}

static int expand(Simplify *s, const Val *v, int x) {
    if (s->to->val[x].ty != v->ty) x = prog_cast(s->cx, s->to, v->ty, x); /* statistics of integers are taken in f32 */
    switch (v->red) {
    case RED_MEAN: return mean(s, x, v);
    case RED_VAR: {
        int c = op2(s, OP_SUB, x, mean(s, x, v));
        return mean(s, op2(s, OP_MUL, c, c), v);
    }
    case RED_NORM2: return op1(s, OP_SQRT, red(s, RED_SUM, op2(s, OP_MUL, x, x), v));
    default: return logsumexp(s, x, v);
    }
}

/* max(idx(n)): known, now that the extents are */
static bool is_last(const Simplify *s, const Val *v, int x) {
    const Val *c = &s->to->val[x];
    return v->red == RED_MAX && v->hold == HOLD_AUTO && c->op == OP_IDX && v->over == 1u << c->axis &&
           points(s->shape, v->over) > 0;
}

Prog *pass_simplify(Cx *cx, const Prog *p, const Shape *shape) {
    Prog *q = NEW(cx->a, Prog);
    *q = *p;
    q->nvals = 0;
    q->val_cap = p->nvals + 1; /* and more where a macro is written out */
    q->val = NEWN(cx->a, Val, q->val_cap);
    Simplify s = {cx, p, shape, q, NEWN(cx->a, int, p->nvals + 1)};
    int ranged = shape_ranged(shape);
    if (ranged >= 0) /* shape_bind saw to the room */
        q->param[q->nparams++] = (Param){.name = p->axis[ranged].name, .dir = DIR_SCALAR, .ty = TY_I64};
    bool *need = NEWN(cx->a, bool, p->nvals + 1);
    mark_needed(p, need);
    for (int i = 0; i < p->nvals; i++) {
        if (!need[i]) continue;
        Val v = p->val[i];
        for (int k = 0; k < 3; k++)
            if (v.a[k] >= 0) v.a[k] = s.map[v.a[k]];
        if (v.op == OP_LOAD) {
            for (int k = 0; k < p->param[v.param].rank; k++) v.idx[k] = s.map[v.idx[k]];
            if (v.fill >= 0) v.fill = s.map[v.fill];
        }
        if (v.op == OP_RED && is_last(&s, &v, v.a[0])) {
            s.map[i] = is_ranged(shape, v.over) ? op2(&s, OP_SUB, count(&s, v.over), prog_const_i(cx, q, TY_I64, 1))
                                                : prog_const_i(cx, q, v.ty, points(shape, v.over) - 1);
        } else if (v.op == OP_RED && red_info(v.red)->join == RED_MACRO) {
            s.map[i] = expand(&s, &v, v.a[0]);
            Val *made = &q->val[s.map[i]];
            if (!made->name) made->name = v.name;
            if (made->hold == HOLD_AUTO) made->hold = v.hold;
        } else {
            s.map[i] = prog_add(cx, q, v);
        }
    }
    for (int i = 0; i < p->nouts; i++) q->out[i].val = s.map[p->out[i].val];
    return q;
}
