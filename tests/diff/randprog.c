/* Bytes -> Prog, Shape, Args. The head of the string decides shape, parameters and outputs; each operation after it
 * takes a few bytes. */
#include "randprog.h"

#include <string.h>

enum { MAX_POOL = 64, MAX_STEPS = 14 };

typedef struct Gen {
    Cx *cx;
    Prog *p;
    Shape *s;
    const uint8_t *bytes;
    size_t at, n;
    int pool[MAX_POOL], npool;
    int fast, slow, declared; /* element axes; -1 where there is none */
} Gen;

/* The next choice, 0 .. n-1; past the end always 0. */
static int pick(Gen *g, int n) {
    return g->at < g->n ? g->bytes[g->at++] % n : 0;
}
static bool once_in(Gen *g, int n) {
    return pick(g, n) == n - 1;
}

static const char *name_of(Gen *g, const char *head, int i) {
    return arena_printf(g->cx->a, "%s%d", head, i);
}

static int add_axis(Gen *g, const char *name, bool row, int64_t n) {
    const int i = g->p->naxes++;
    g->p->axis[i] = (Axis){.name = name, .row = row, .ext = -1};
    if (row) g->p->row_axes |= 1u << i;
    g->s->n[i] = n;
    return i;
}

static int add_param(Gen *g, const char *name, Dir dir, Ty ty, const int *axis, int rank) {
    Param *q = &g->p->param[g->p->nparams];
    *q = (Param){.name = name, .dir = dir, .ty = ty, .rank = rank};
    for (int d = 0; d < rank && d < MAX_RANK; d++) q->axis[d] = (uint8_t)axis[d];
    return g->p->nparams++;
}

static void keep(Gen *g, int val) {
    if (val >= 0 && g->npool < MAX_POOL) g->pool[g->npool++] = val;
}

/* A value made so far, late ones rather than early ones. */
static int any(Gen *g) {
    const int back = pick(g, 256);
    return g->pool[g->npool - 1 - (back & 1 ? back / 2 % g->npool : back / 2 % (g->npool < 4 ? g->npool : 4))];
}

static uint32_t elements(const Gen *g, int val) {
    return g->p->val[val].axes & ~g->p->row_axes;
}

static Ty ty_of(const Gen *g, int val) {
    return g->p->val[val].ty;
}

static int number(Gen *g, int val) {
    return ty_of(g, val) == TY_BOOL ? prog_cast(g->cx, g->p, TY_F32, val) : val;
}

static int truth(Gen *g, int val) {
    if (ty_of(g, val) == TY_BOOL) return val;
    const int zero = ty_is_float(ty_of(g, val)) ? prog_const_f(g->cx, g->p, ty_of(g, val), 0.25)
                                                : prog_const_i(g->cx, g->p, ty_of(g, val), 1);
    return prog_op(g->cx, g->p, OP_GT, val, zero, -1);
}

static int whole(Gen *g, int val) {
    return ty_is_int(ty_of(g, val)) ? val : prog_cast(g->cx, g->p, ty_of(g, val) == TY_BOOL ? TY_I32 : TY_I64, val);
}

/* ---- shape ---- */
static int64_t extent(Gen *g) {
    static const int edges[] = {1, 2, 31, 32, 33, 64, 65, 127, 128, 129, 257, 3};
    const int kind = pick(g, 4), k = pick(g, 256);
    return kind < 3 ? edges[k % COUNT(edges)] : 1 + (k * 300 / 256);
}

static void make_axes(Gen *g) {
    add_axis(g, "rows", true, 1 + pick(g, 5));
    if (once_in(g, 8)) add_axis(g, "heads", true, 1 + pick(g, 2));
    const int64_t n = extent(g);
    const int layout = pick(g, 6); /* 3, 4: a slow axis before the fast one; 5: after it */
    const int64_t k = 1 + pick(g, 5);
    g->slow = layout == 3 || layout == 4 ? add_axis(g, "k", false, k) : -1;
    g->fast = add_axis(g, "n", false, n);
    if (layout == 5) g->slow = add_axis(g, "k", false, k);
    g->declared = -1;
    if (once_in(g, 6)) { /* n plus a little: reads past the end */
        Ext *e = g->p->ext = NEWN(g->cx->a, Ext, 3);
        e[0] = (Ext){.op = 'a', .k = g->fast};
        e[1] = (Ext){.op = 'k', .k = 1 + pick(g, 3)};
        e[2] = (Ext){.op = '+', .l = 0, .r = 1};
        g->p->next = g->p->ext_cap = 3;
        g->declared = add_axis(g, "p", false, -1);
        g->p->axis[g->declared].ext = 2;
    }
}

/* ---- parameters ---- */
static int row_axes_of(const Gen *g, int axis[MAX_RANK]) {
    int n = 0;
    for (int i = 0; i < g->p->naxes; i++)
        if (g->p->axis[i].row) axis[n++] = i;
    return n;
}

static int main_axes(Gen *g, int axis[MAX_RANK]) {
    int n = row_axes_of(g, axis);
    if (g->slow >= 0) axis[n++] = g->slow;
    axis[n++] = g->fast;
    if (once_in(g, 6)) { /* another memory order: a row axis or the slow axis last */
        const int t = axis[0];
        memmove(axis, axis + 1, sizeof(int) * (size_t)(n - 1));
        axis[n - 1] = t;
    }
    return n;
}

static Ty input_type(Gen *g) {
    static const Ty types[] = {TY_F32, TY_F32, TY_F16,  TY_BF16, TY_F32, TY_F64, TY_F8E4M3, TY_I32,
                               TY_F32, TY_F32, TY_BF16, TY_F32,  TY_F16, TY_I8,  TY_F8E5M2, TY_BOOL,
                               TY_I64, TY_U8,  TY_I16,  TY_U16,  TY_U32, TY_U64, TY_F32,    TY_F32};
    return types[pick(g, COUNT(types))];
}

static void make_inputs(Gen *g) {
    int axis[MAX_RANK];
    int rank = main_axes(g, axis);
    add_param(g, "x", DIR_IN, input_type(g), axis, rank);
    const int more = pick(g, 4);
    for (int i = 0; i < more; i++) {
        const char *name = name_of(g, "in", i);
        const int kind = pick(g, 6);
        if (kind < 2) {
            rank = main_axes(g, axis);
            add_param(g, name, DIR_IN, input_type(g), axis, rank);
        } else if (kind == 2) { /* the same for all rows */
            axis[0] = g->slow >= 0 && once_in(g, 3) ? g->slow : g->fast;
            add_param(g, name, DIR_IN, input_type(g), axis, 1);
        } else if (kind == 3) { /* one a row */
            rank = row_axes_of(g, axis);
            add_param(g, name, DIR_IN, input_type(g), axis, rank);
        } else if (kind == 4) { /* an index a row, or one an element */
            rank = row_axes_of(g, axis);
            if (once_in(g, 2)) axis[rank++] = g->fast;
            add_param(g, name, DIR_IN, pick(g, 2) ? TY_I32 : TY_I64, axis, rank);
        } else {
            static const Ty types[] = {TY_F32, TY_F32, TY_F64, TY_I32, TY_BF16};
            Param *q = &g->p->param[add_param(g, name, DIR_SCALAR, types[pick(g, COUNT(types))], axis, 0)];
            q->has_default = true;
            q->def = ty_is_int(q->ty) ? 3 : 0.5;
        }
    }
    for (int i = 0; i < g->p->nparams; i++)
        keep(g, g->p->param[i].dir == DIR_IN ? prog_load(g->cx, g->p, i) : prog_scalar(g->cx, g->p, i));
}

/* ---- operations ---- */
static int map_step(Gen *g) {
    static const Op plain[] = {OP_ADD, OP_SUB, OP_MUL, OP_MAX, OP_DIV}; /* what programs are mostly made of */
    Op all[OP_COUNT];
    int nall = 0;
    for (int i = 0; i < OP_COUNT; i++)
        if (op_info((Op)i)->form != FORM_X) all[nall++] = (Op)i;
    const Op op = once_in(g, 3) ? plain[pick(g, COUNT(plain))] : all[pick(g, nall)];
    int a[3] = {-1, -1, -1};
    for (int k = 0; k < op_info(op)->arity; k++) {
        a[k] = any(g);
        const OpTyping t = op_info(op)->typing;
        if (t == TR_BOOL || (t == TR_SEL && k == 0))
            a[k] = truth(g, a[k]);
        else if (t == TR_ARITH || t == TR_FLOAT || t == TR_KEEP)
            a[k] = number(g, a[k]);
    }
    return prog_op(g->cx, g->p, op, a[0], a[1], a[2]);
}

static int reduce_step(Gen *g) {
    const Red red = (Red)pick(g, RED_COUNT);
    int x = any(g);
    for (int tries = 0; tries < 3 && !elements(g, x); tries++) x = any(g);
    if (!elements(g, x)) x = g->pool[0];
    uint32_t over = elements(g, x);
    const int which = pick(g, 4); /* all, or all but the first or last */
    const uint32_t low = over & -over;
    if (which == 2 && over != low)
        over &= ~low;
    else if (which == 3 && over != low)
        over = low;
    const Policy pol = once_in(g, 8) ? POLICY_ORDERED : POLICY_TREE;
    if (red == RED_ANY || red == RED_ALL) x = truth(g, x);
    return prog_red(g->cx, g->p, red, x, over, pol);
}

static int cast_step(Gen *g) {
    static const Ty types[] = {TY_BF16, TY_F16,  TY_F32, TY_F8E4M3, TY_F8E5M2, TY_I32, TY_I8, TY_U8,
                               TY_I64,  TY_BOOL, TY_F64, TY_I16,    TY_U16,    TY_U32, TY_U64};
    const Ty to = types[pick(g, COUNT(types))];
    return prog_cast(g->cx, g->p, to, any(g));
}

/* An index for one dimension of an input: in place, beside it, along the declared axis, or a whole number made before.
 */
static int index_for(Gen *g, int axis) {
    Cx *cx = g->cx;
    Prog *p = g->p;
    const int here = prog_idx(cx, p, axis);
    switch (pick(g, 6)) {
    case 1: return prog_op(cx, p, OP_ADD, here, prog_const_i(cx, p, TY_I64, 1), -1);
    case 2: return prog_op(cx, p, OP_SUB, here, prog_const_i(cx, p, TY_I64, 2), -1);
    case 3: return g->declared >= 0 && axis == g->fast ? prog_idx(cx, p, g->declared) : here;
    case 4: return p->axis[axis].row ? here : whole(g, any(g));
    case 5:
        return p->axis[axis].row
                   ? here
                   : prog_op(cx, p, OP_SUB, prog_const_i(cx, p, TY_I64, g->s->n[axis] > 0 ? g->s->n[axis] - 1 : 0),
                             here, -1);
    default: return here;
    }
}

static int gather_step(Gen *g) {
    int in[MAX_PARAMS], n = 0;
    for (int i = 0; i < g->p->nparams; i++)
        if (g->p->param[i].dir == DIR_IN) in[n++] = i;
    Val v = {.op = OP_LOAD, .param = in[pick(g, n)], .fill = -1, .a = {-1, -1, -1}};
    const Param *q = &g->p->param[v.param];
    for (int d = 0; d < q->rank; d++) v.idx[d] = index_for(g, q->axis[d]);
    const Ty ty = ty_compute(q->ty);
    switch (pick(g, 4)) {
    case 1: v.fill = ty_is_float(ty) ? prog_const_f(g->cx, g->p, ty, -1.5) : prog_const_i(g->cx, g->p, ty, 1); break;
    case 2: v.fill = prog_cast(g->cx, g->p, ty, any(g)); break;
    case 3: v.fill = ty_is_float(ty) ? prog_const_f(g->cx, g->p, ty, 0) : prog_const_i(g->cx, g->p, ty, 0); break;
    default: break;
    }
    if (v.fill >= 0 && ty_of(g, v.fill) != ty) v.fill = -1; /* a cast to a storage type of the same name */
    return prog_add(g->cx, g->p, v);
}

/* What kernels are known by: the pairs of reductions that one sweep may do, and rows scaled by a statistic. */
static int phrase_step(Gen *g) {
    Cx *cx = g->cx;
    Prog *p = g->p;
    const int kind = pick(g, 4);
    int x = number(g, any(g));
    if (!elements(g, x)) x = number(g, g->pool[0]);
    const uint32_t over = elements(g, x);
    if (kind < 2) { /* softmax, or its logarithm */
        const int d = prog_op(cx, p, OP_SUB, x, prog_red(cx, p, RED_MAX, x, over, POLICY_TREE), -1);
        const int e = prog_op(cx, p, OP_EXP, d, -1, -1), s = prog_red(cx, p, RED_SUM, e, over, POLICY_TREE);
        return kind ? prog_op(cx, p, OP_SUB, d, prog_op(cx, p, OP_LOG, s, -1, -1), -1)
                    : prog_op(cx, p, OP_DIV, e, s, -1);
    }
    const int c = kind == 2 ? prog_op(cx, p, OP_SUB, x, prog_red(cx, p, RED_MEAN, x, over, POLICY_TREE), -1)
                            : prog_cast(cx, p, ty_of(g, x) == TY_F64 ? TY_F64 : TY_F32, x);
    const int var = prog_red(cx, p, RED_MEAN, prog_op(cx, p, OP_MUL, c, c, -1), over, POLICY_TREE);
    const int eps = prog_const_f(cx, p, TY_F32, 1e-5);
    return prog_op(cx, p, OP_MUL, c, prog_op(cx, p, OP_RSQRT, prog_op(cx, p, OP_ADD, var, eps, -1), -1, -1), -1);
}

static void step(Gen *g) {
    switch (pick(g, 10)) {
    case 0:
    case 1:
    case 2:
    case 3: keep(g, map_step(g)); break;
    case 4:
    case 5: keep(g, reduce_step(g)); break;
    case 6: keep(g, cast_step(g)); break;
    case 7: keep(g, gather_step(g)); break;
    case 8: keep(g, phrase_step(g)); break;
    default: {
        static const double some[] = {0.5, 2, -1, 1e-3, 100};
        const int kind = pick(g, 3);
        if (kind == 0)
            keep(g, prog_idx(g->cx, g->p, g->declared >= 0 && once_in(g, 2) ? g->declared : g->fast));
        else if (kind == 1)
            keep(g, prog_const_f(g->cx, g->p, once_in(g, 6) ? TY_F64 : TY_F32, some[pick(g, COUNT(some))]));
        else
            keep(g, prog_const_i(g->cx, g->p, TY_I32, pick(g, 7) - 2));
    }
    }
}

/* ---- outputs ---- */
static void make_output(Gen *g, int i, int val, int how) {
    static const Ty floats[] = {TY_F32, TY_F32, TY_F16, TY_BF16, TY_F64, TY_F8E4M3, TY_F8E5M2, TY_I32, TY_U8, TY_F32};
    static const Ty ints[] = {TY_I64, TY_I32, TY_F32, TY_U8, TY_I8, TY_U64, TY_F64, TY_U32, TY_I16, TY_U16};
    const Ty t = ty_of(g, val);
    int axis[MAX_RANK];
    int rank = row_axes_of(g, axis);
    for (int k = 0; k < g->p->naxes; k++)
        if (elements(g, val) >> k & 1) axis[rank++] = k;
    if (how / 10 % 8 == 7 && !(elements(g, val) >> g->fast & 1)) axis[rank++] = g->fast; /* broadcast */
    if (how / 80 == 2 && rank > 1) {                                                     /* another memory order */
        const int last = axis[rank - 1];
        memmove(axis + 1, axis, sizeof(int) * (size_t)(rank - 1));
        axis[0] = last;
    }
    const Ty ty = t == TY_BOOL && how % 10 < 6 ? TY_BOOL : ty_is_float(t) ? floats[how % 10] : ints[how % 10];
    g->p->out[g->p->nouts++] = (Out){add_param(g, name_of(g, "y", i), DIR_OUT, ty, axis, rank), val};
}

Err randprog(Cx *cx, const uint8_t *bytes, size_t n, Prog **out, Shape *s) {
    Prog *p = *out = NEW(cx->a, Prog);
    p->name = "random";
    *s = (Shape){0};
    for (int i = 0; i < MAX_AXES; i++) s->n[i] = -1;
    Gen g = {.cx = cx, .p = p, .s = s, .bytes = bytes, .n = n};
    int how[3];
    const int nouts = 1 + pick(&g, 8) / 4 + pick(&g, 8) / 7;
    for (int i = 0; i < 3; i++) how[i] = pick(&g, 256);
    make_axes(&g);
    make_inputs(&g);
    if (cx->ndiags) return slug_err(cx->first->slug);
    const int inputs = g.npool;
    for (int k = 0; g.at < g.n && k < MAX_STEPS; k++) {
        step(&g);
        if (cx->ndiags) return slug_err(cx->first->slug);
    }
    for (int i = 0; i < nouts; i++) { /* the last value, and earlier ones that are not inputs */
        const int back = i ? how[i] % (g.npool - inputs + 1) : 0;
        make_output(&g, i, g.pool[g.npool - 1 - (back < g.npool ? back : 0)], how[i]);
    }
    Err err = shape_bind(cx, p, s);
    return err ? err : prog_verify(cx, p);
}

size_t randprog_bytes(uint64_t seed, uint8_t bytes[RANDPROG_BYTES]) {
    Rng r = {seed * 0x9e3779b97f4a7c15ull + 1};
    const size_t n = (size_t)rng_int(&r, RANDPROG_BYTES + 1);
    for (size_t i = 0; i < RANDPROG_BYTES; i++) bytes[i] = (uint8_t)(rng_u64(&r) >> 40);
    return n;
}

/* ---- arguments ---- */
void randargs(Cx *cx, const Prog *p, const Shape *s, Fill fill, uint64_t seed, bool padded, Args *a) {
    *a = (Args){0};
    Rng r = {seed};
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        const uint64_t own = rng_u64(&r);
        if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) {
            if (ty_is_float(q->ty))
                a->scalar[i].d = q->has_default && own & 1 ? q->def : 0.25 + (double)(own >> 40) * 0x1p-24;
            else
                a->scalar[i].i = q->has_default && own & 1 ? (int64_t)q->def : (int64_t)(own >> 60);
            continue;
        }
        Tensor *t = &a->t[i];
        *t = (Tensor){.ty = q->ty, .rank = q->rank};
        int64_t n = 1;
        for (int d = q->rank - 1; d >= 0; d--) {
            t->n[d] = s->n[q->axis[d]];
            t->stride[d] = n;
            n *= t->n[d];
            if (padded) n += d == q->rank - 1 ? 3 : 1;
        }
        const size_t bytes = (size_t)(n ? n : 1) * (size_t)ty_bytes(q->ty);
        t->data = arena_get(cx->a, bytes);
        memset(t->data, POISON, bytes);
        if (q->dir != DIR_OUT) fill_tensor(t, fill, own, fill_bound(p, s, i));
    }
}

/* ---- shrinking ---- */
typedef struct Shrink {
    bool (*fails)(void *user, const uint8_t *bytes, size_t n);
    void *user;
    int tries;
} Shrink;

static bool still(Shrink *k, uint8_t *bytes, size_t *n, const uint8_t *next, size_t next_n) {
    if (k->tries <= 0) return false;
    k->tries--;
    if (!k->fails(k->user, next, next_n)) return false;
    memcpy(bytes, next, next_n);
    *n = next_n;
    return true;
}

size_t randprog_shrink(uint8_t *bytes, size_t n, int tries, bool (*fails)(void *user, const uint8_t *bytes, size_t n),
                       void *user) {
    Shrink k = {fails, user, tries};
    uint8_t next[4096];
    if (n > sizeof next) return n;
    for (bool better = true; better && k.tries > 0;) {
        better = false;
        for (size_t cut = n; cut >= 1; cut /= 2) /* drop a run, longest first */
            for (size_t from = 0; from + cut <= n;) {
                memcpy(next, bytes, from);
                memcpy(next + from, bytes + from + cut, n - from - cut);
                if (still(&k, bytes, &n, next, n - cut))
                    better = true;
                else
                    from += cut;
            }
        for (size_t i = 0; i < n; i++) /* then smaller bytes */
            for (int b = 0; b < 3 && bytes[i]; b++) {
                const uint8_t less = b == 0 ? 0 : b == 1 ? bytes[i] / 2 : (uint8_t)(bytes[i] - 1);
                memcpy(next, bytes, n);
                next[i] = less;
                if (still(&k, bytes, &n, next, n)) better = true;
            }
    }
    return n;
}
