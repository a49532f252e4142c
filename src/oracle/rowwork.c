/* A program at a shape -> its values laid out for one row at a time, and the walk over rows and outputs. */
#include "rowwork.h"

#include "../base/os.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LONG_ROW = 1 << 16 }; /* is worth a question within it: has it to end, is there memory */

const Lim lim_f32 = {0x1p-24, 0x1p-149, 0x1p-125, 0x1p128L - 0x1p103L};
const Lim lim_f64 = {0x1p-53, 0x1p-1074, 0x1p-1021, 0x1p1023L * 2 - 0x1p970L};

int64_t axes_count(const Shape *s, uint32_t axes) {
    int64_t n = 1;
    for (int i = 0; i < MAX_AXES; i++)
        if (axes >> i & 1) n *= s->n[i];
    return n;
}

int64_t work_depth(const Work *w, Policy pol, int64_t n) {
    if (n < 2) return 0;
    if (pol == POLICY_ORDERED || !w->o.serial) return n - 1; /* no tree over n elements is deeper */
    return i64_min(n - 1, i64_min(n, w->o.serial) + w->o.joins);
}

double work_ulp(const Work *w, Op op, Ty t) {
    double ulp = op_info(op)->ulp;
    if (t != TY_F32)
        return op_info(op)->cost == COST_SPECIAL ? fmax(2, ulp) : ulp; /* the table is for f32; f64 is libm's */
    if (op == OP_DIV && w->o.reciprocal) return 2;
    if (!w->o.native_math) return op == OP_EXP && w->o.fast_exp ? 2 : ulp; /* the shorter polynomial */
    if (op == OP_DIV || op == OP_SQRT || op == OP_RSQRT) return 2;
    return op_info(op)->cost == COST_SPECIAL ? fmax(4, ulp) : ulp;
}

/* ---- what is known of a value beforehand ---- */
static bool never_negative(const Prog *p, const Node *node, const Val *v) {
    bool x = v->a[0] >= 0 && node[v->a[0]].positive, y = v->a[1] >= 0 && node[v->a[1]].positive;
    switch (v->op) {
    case OP_CONST: return ty_is_float(v->ty) && num_f64(v->k, v->ty) >= 0;
    case OP_MUL: return (x && y) || v->a[0] == v->a[1];
    case OP_ADD:
    case OP_DIV:
    case OP_MIN: return x && y;
    case OP_MAX: return x || y;
    case OP_WHERE: return y && node[v->a[2]].positive;
    case OP_POW: return x;
    case OP_FLOOR:
    case OP_ROUND:
    case OP_TANH:
    case OP_ERF:
    case OP_CAST: return x;
    case OP_ABS:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_EXP:
    case OP_EXP2:
    case OP_SIGMOID: return true;
    case OP_RED:
        if (v->red == RED_VAR || v->red == RED_NORM2) return true;
        return x && (v->red == RED_SUM || v->red == RED_PROD || v->red == RED_MAX || v->red == RED_MIN ||
                     v->red == RED_MEAN);
    default: return (void)p, false;
    }
}

static bool is_red(const Prog *p, int v, Red r) {
    return v >= 0 && p->val[v].op == OP_RED && p->val[v].red == r;
}

/* The reduction that value m is the mean by: mean(x) itself, or the sum of sum(x) / n; -1 for neither. */
static int mean_source(const Prog *p, const Shape *s, int m) {
    if (is_red(p, m, RED_MEAN)) return m;
    const Val *v = &p->val[m];
    if (v->op != OP_DIV || !is_red(p, v->a[0], RED_SUM) || p->val[v->a[1]].op != OP_CONST) return -1;
    double n = num_f64(p->val[v->a[1]].k, v->ty), count = (double)axes_count(s, p->val[v->a[0]].over);
    return n == count || (v->ty == TY_F32 && n == (double)(float)count) ? v->a[0] : -1;
}

/* Finds what a plan may compute in one sweep instead of two. */
static void find_pairs(const Prog *p, const Shape *s, Node *node) {
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        node[i].centred = -1;
        if (v->op != OP_RED) continue;
        const Val *q = &p->val[v->a[0]];
        if (v->red == RED_VAR) /* its mean may be shared with a mean of the program */
            for (int k = 0; k < p->nvals; k++)
                if ((is_red(p, k, RED_MEAN) || is_red(p, k, RED_SUM)) && p->val[k].a[0] == v->a[0] &&
                    p->val[k].over == v->over)
                    node[k].shift_mean = true;
        if ((v->red == RED_SUM || v->red == RED_MEAN) && q->op == OP_MUL && q->a[0] == q->a[1] &&
            p->val[q->a[0]].op == OP_SUB) {
            const Val *c = &p->val[q->a[0]];
            int m = mean_source(p, s, c->a[1]);
            if (m < 0 || p->val[m].a[0] != c->a[0] || p->val[m].over != v->over) continue;
            node[i].centred = c->a[0];
            node[m].shift_mean = true;
        }
        if (v->red == RED_SUM && q->op == OP_EXP && p->val[q->a[0]].op == OP_SUB) {
            const Val *d = &p->val[q->a[0]];
            int m =
                p->val[d->a[1]].op == OP_WHERE ? p->val[d->a[1]].a[2] : d->a[1]; /* guarded against infinite maxima */
            node[i].online = is_red(p, m, RED_MAX) && p->val[m].a[0] == d->a[0] && p->val[m].over == v->over;
        }
    }
}

/* Squares that are only summed up are infinite together where one is. */
static void find_products(const Prog *p, Node *node) {
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        const bool adds = v->op == OP_ADD || v->op == OP_SUB;
        const bool sums = v->op == OP_RED && (v->red == RED_SUM || v->red == RED_MEAN);
        for (int k = 0; k < (adds ? 2 : sums); k++) {
            const Val *q = &p->val[v->a[k]];
            if (q->op == OP_MUL && (adds || q->a[0] != q->a[1])) node[v->a[k]].unrounded = true;
        }
    }
}

/* ---- memory: values whose last use is past give their columns to later ones of the same length ---- */
typedef struct Slot {
    Col col;
    int64_t n;
    int free_after;
} Slot;

static int deps(const Prog *p, const Node *node, int i, int dep[3 + MAX_RANK + 2]) {
    const Val *v = &p->val[i];
    int n = 0;
    for (int k = 0; k < 3; k++)
        if (v->a[k] >= 0) dep[n++] = v->a[k];
    if (v->op == OP_LOAD) {
        for (int k = 0; k < p->param[v->param].rank; k++) dep[n++] = v->idx[k];
        if (v->fill >= 0) dep[n++] = v->fill;
    }
    if (node[i].centred >= 0) dep[n++] = node[i].centred;
    return n;
}

static Col col_new(Work *w, int64_t n) {
    return (Col){arena_get(w->cx->a, (size_t)n * (w->each > 8 ? w->each : 8)), NEWN(w->cx->a, double, n)};
}

/* False: more than the machine has, which would not fail here but later, by a signal. */
static bool place_columns(Work *w) {
    const Prog *p = w->p;
    const double most = w->scratch_n > LONG_ROW ? os_memory() : (double)INFINITY;
    double bytes = 0;
    int *last = NEWN(w->cx->a, int, p->nvals), nslots = 0, dep[3 + MAX_RANK + 2];
    Slot *slot = NEWN(w->cx->a, Slot, p->nvals);
    for (int i = 0; i < p->nvals; i++) {
        last[i] = i;
        for (int n = deps(p, w->node, i, dep), k = 0; w->node[i].needed && k < n; k++) last[dep[k]] = i;
    }
    for (int i = 0; i < p->nvals; i++) {
        Node *x = &w->node[i];
        if (!x->needed) continue;
        int s = 0;
        while (s < nslots && (x->once || slot[s].n != x->n || slot[s].free_after >= i)) s++;
        if (s == nslots && x->n > LONG_ROW) bytes += (double)x->n * (double)(w->each + sizeof(double));
        if (bytes > most) return false;
        if (s == nslots) slot[nslots++] = (Slot){col_new(w, x->n), x->n, 0};
        slot[s].free_after = x->once ? p->nvals : last[i];
        x->col = slot[s].col;
        if (p->val[i].op == OP_RED && red_info(p->val[i].red)->join == RED_PAIR)
            x->set = NEWN(w->cx->a, const int64_t *, x->n);
    }
    return true;
}

static Err check_args(Work *w) {
    for (int i = 0; i < w->p->nparams; i++) {
        const Param *q = &w->p->param[i];
        const Tensor *t = &w->in->t[i];
        if (q->dir != DIR_IN && q->dir != DIR_INOUT) continue;
        bool fits = t->ty == q->ty && t->rank == q->rank;
        int64_t n = 1;
        for (int d = 0; fits && d < q->rank; d++) {
            fits = t->n[d] == w->s->n[q->axis[d]] && t->stride[d] >= 0;
            n *= t->n[d];
        }
        if (!fits || (n > 0 && !t->data))
            return diag(w->cx, S_ORACLE_ARGS, NOWHERE, NULL,
                        "%s has another type or shape than its parameter, or no memory", q->name);
    }
    return OK;
}

Err work_new(Cx *cx, const Prog *p, const Shape *s, const Args *in, const OracleOptions *o, Work **out) {
    Work *w = NEW(cx->a, Work);
    *w = (Work){.cx = cx, .p = p, .s = s, .in = in, .o = *o, .each = sizeof(double)};
    for (int i = 0; i < p->naxes; i++)
        if (s->n[i] < 0)
            return diag(cx, S_ORACLE_ARGS, NOWHERE, NULL, "the extent of axis %s is not known", p->axis[i].name);
    Err err = check_args(w);
    if (err) return err;
    w->node = NEWN(cx->a, Node, p->nvals);
    find_pairs(p, s, w->node);
    if (o->contract) find_products(p, w->node);
    for (int i = 0; i < p->nouts; i++) w->node[p->out[i].val].needed = true;
    for (int i = p->nvals - 1; i >= 0; i--) {
        int dep[3 + MAX_RANK + 2];
        for (int n = deps(p, w->node, i, dep), k = 0; w->node[i].needed && k < n; k++) w->node[dep[k]].needed = true;
    }
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        Node *x = &w->node[i];
        x->el = v->axes & ~p->row_axes;
        x->n = axes_count(s, x->el);
        x->once = !(v->axes & p->row_axes);
        x->positive = never_negative(p, w->node, v);
        if (v->ty == TY_F64) w->wide = true;
        w->scratch_n = i64_max(w->scratch_n, axes_count(s, x->el | (v->op == OP_RED ? v->over : 0)));
    }
    if (w->wide) w->each = sizeof(long double);
    if (!place_columns(w))
        return diag(cx, S_OOM, NOWHERE, NULL, "the definition's values of one row take more memory than there is");
    *out = w;
    return OK;
}

/* ---- operands ---- */
/* Copies n blocks of `dims` nested loops; sources are dense over their own axes. */
static void spread(const Work *w, Col from, uint32_t from_el, size_t each, const int *axis, int rank, Col to) {
    int64_t stride[MAX_AXES] = {0}, n[MAX_AXES], at[MAX_AXES] = {0}, s = 1, off = 0, done = 0, total = 1;
    for (int i = MAX_AXES - 1; i >= 0; i--)
        if (from_el >> i & 1) stride[i] = s, s *= w->s->n[i];
    int64_t step[MAX_AXES];
    for (int d = 0; d < rank; d++) n[d] = w->s->n[axis[d]], step[d] = stride[axis[d]], total *= n[d];
    while (done < total) {
        int64_t inner = rank ? n[rank - 1] : 1, by = rank ? step[rank - 1] : 0;
        for (int64_t j = 0; j < inner; j++) {
            memcpy((char *)to.v + (size_t)(done + j) * each, (const char *)from.v + (size_t)(off + j * by) * each,
                   each);
            to.e[done + j] = from.e[off + j * by];
        }
        done += inner;
        for (int d = rank - 2; d >= 0; d--) {
            off += step[d];
            if (++at[d] < n[d]) break;
            off -= step[d] * n[d];
            at[d] = 0;
        }
    }
}

void *work_temp(Work *w, int scratch) {
    if (!w->scratch[scratch].v) w->scratch[scratch] = col_new(w, w->scratch_n);
    return w->scratch[scratch].v;
}

Opd work_operand(Work *w, int a, uint32_t el, uint32_t last, int scratch) {
    const Node *x = &w->node[a];
    int axis[MAX_AXES], rank = 0;
    bool moved = false; /* is an axis of `last` before one that is not? */
    for (int i = 0; i < MAX_AXES; i++)
        if ((el & ~last) >> i & 1) axis[rank++] = i, moved |= (el & last & ((1u << i) - 1)) != 0;
    for (int i = 0; i < MAX_AXES; i++)
        if ((el & last) >> i & 1) axis[rank++] = i;
    if (x->el == el && !moved) return (Opd){x->col.v, x->col.e, 1};
    if (x->n == 1 && !last) return (Opd){x->col.v, x->col.e, 0};
    work_temp(w, scratch);
    Col to = w->scratch[scratch];
    spread(w, x->col, x->el, ty_is_float(w->p->val[a].ty) ? w->each : 8, axis, rank, to);
    return (Opd){to.v, to.e, 1};
}

/* ---- the walk ---- */
static void hand_out(Work *w, int o, const int64_t *stride, RunFn fn, void *user) {
    const Param *q = &w->p->param[w->p->out[o].param];
    Run r = {.param = w->p->out[o].param, .val = w->p->out[o].val, .last = -1, .n = 1};
    int64_t own[MAX_AXES] = {0}, s = 1, total = 1;
    int dim[MAX_RANK], rank = 0;
    for (int i = MAX_AXES - 1; i >= 0; i--)
        if (w->node[r.val].el >> i & 1) own[i] = s, s *= w->s->n[i];
    for (int d = 0; d < q->rank; d++) {
        int a = q->axis[d];
        if (w->p->axis[a].row)
            r.at[d] = w->at[a], r.dst += w->at[a] * stride[d];
        else
            dim[rank++] = d, total *= w->s->n[a];
    }
    if (rank) {
        r.last = dim[rank - 1];
        r.n = w->s->n[q->axis[r.last]];
        r.src_step = own[q->axis[r.last]];
        r.dst_step = stride[r.last];
    }
    for (int64_t done = 0; done < total; done += r.n) {
        fn(user, w, &r);
        for (int k = rank - 2; k >= 0; k--) {
            int d = dim[k], a = q->axis[d];
            r.src += own[a];
            r.dst += stride[d];
            if (++r.at[d] < w->s->n[a]) break;
            r.src -= own[a] * w->s->n[a];
            r.dst -= stride[d] * w->s->n[a];
            r.at[d] = 0;
        }
    }
}

int64_t work_count(const Prog *p, const Shape *s) {
    return axes_count(s, p->row_axes);
}

void work_rows(Work *w, int64_t from, int64_t to, const int64_t (*strides)[MAX_RANK], RunFn fn, void *user) {
    const Prog *p = w->p;
    int64_t left = from;
    for (int i = MAX_AXES - 1; i >= 0 && from < to; i--)
        if (p->row_axes >> i & 1) w->at[i] = left % w->s->n[i], left /= w->s->n[i];
    for (int64_t row = from; row < to && !cx_over(w->cx); row++) {
        w->list_n = 0;
        for (int i = 0; i < p->nvals; i++) {
            if (w->node[i].n > LONG_ROW && cx_over(w->cx)) return;
            if (w->node[i].needed && !(w->node[i].once && row > from)) {
                if (w->wide)
                    row_eval_f80(w, i);
                else
                    row_eval_f64(w, i);
            }
            for (int o = 0; o < p->nouts; o++)
                if (p->out[o].val == i) hand_out(w, o, strides[p->out[o].param], fn, user);
        }
        for (int i = MAX_AXES - 1; i >= 0; i--) {
            if (!(p->row_axes >> i & 1)) continue;
            if (++w->at[i] < w->s->n[i]) break;
            w->at[i] = 0;
        }
    }
}
