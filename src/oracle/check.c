/* Outputs against the definition: all of it at once (oracle_eval, then oracle_compare), or a row at a time
 * (oracle_check). */
#include <math.h>
#include <string.h>

#include "rowwork.h"

/* ---- one element ---- */
typedef struct Want {
    Ty ty; /* compute type: v is the value of a float, i of the others */
    long double v;
    int64_t i;
    double e;
    const int64_t *set;
} Want;

static Num want_num(const Want *t, int side) { /* the value, or an end of what may be stored */
    Num x = {.i = 0};
    if (ty_is_float(t->ty)) {
        long double v = side == 0 || t->e == 0 ? t->v : t->v + side * (long double)t->e;
        if (t->ty == TY_F64)
            x.d = (double)v;
        else
            x.f = (float)v;
    } else if (t->ty == TY_BOOL) {
        x.b = side == 0 || t->e == 0 ? t->i != 0 : side > 0;
    } else if (side == 0 || t->e == 0) {
        x.i = t->i;
    } else {
        const bool sign = ty_is_signed(t->ty);
        const double end = (double)t->i + side * t->e;
        if (fabs(end) < 0x1p62 && t->e < 0x1p62)
            x.i = end < 0 && !sign ? 0 : t->i + side * (int64_t)ceil(t->e);
        else
            x.i = side > 0 ? (sign ? INT64_MAX : -1) : sign ? INT64_MIN : 0; /* -1: all bits of a u64 */
    }
    return x;
}

static long double real_of(Num x, Ty t) {
    switch (t) {
    case TY_F64: return (long double)x.d;
    case TY_F32: return (long double)x.f;
    case TY_BOOL: return x.b;
    case TY_U32:
    case TY_U64: return (long double)x.u;
    default: return (long double)x.i;
    }
}

/* Is `got`, read from storage type st, what may be stored there? share: its error as a share of the bound, which allows
 * for the storage too. */
static bool legal(const Want *t, Ty st, Num got, double *share, double *bound) {
    const Ty ct = ty_compute(st);
    *share = 0;
    *bound = t->e;
    if (t->e == (double)INFINITY) return true;
    const long double g = real_of(got, ct);
    if (t->set) {
        for (int64_t k = 1; k <= t->set[0]; k++)
            if (real_of(num_cast(st, (Num){.i = t->set[k]}, TY_I64), ct) == g) return true;
        return false;
    }
    if (st == t->ty && ty_is_float(st) && fabsl(g - t->v) <= t->e) { /* most are stored as they were computed */
        *share = g == t->v ? 0 : (double)(fabsl(g - t->v) / t->e);
        return true;
    }
    const long double v = real_of(num_cast(st, want_num(t, 0), t->ty), ct);
    if (isnan(v)) return isnan(g);
    const long double lo = real_of(num_cast(st, want_num(t, -1), t->ty), ct),
                      hi = real_of(num_cast(st, want_num(t, 1), t->ty), ct);
    const long double exact = ty_is_float(t->ty) && !isinf(t->v) ? t->v : v, err = fabsl(g - exact);
    const long double most = fmaxl(fmaxl(hi - exact, exact - lo), t->e);
    *bound = isnan(most) ? 0 : (double)most;
    *share = err > 0 && most > 0 && !isinf(err) ? (double)(err / most) : 0;
    return lo <= g && g <= hi;
}

/* legal, for what nearly all elements of a large output are: certainly within the bound. No arithmetic in long double,
 * and where a rounding in double could matter the answer is left to `legal`. Storage narrower than f32: both ends of
 * what may be stored round to the same number, which it is. */
static bool surely_legal(Ty st, const void *at, double v, double e, double *share) {
    const double inside = e * (1 - 0x1p-50);
    if (st == TY_F32) {
        float g;
        memcpy(&g, at, sizeof g);
        const double err = fabs((double)g - v);
        *share = err > 0 ? err / e : 0;
        return err <= inside;
    }
    if (st != TY_BF16 && st != TY_F16) return false;
    uint16_t got;
    memcpy(&got, at, sizeof got);
    const float lo = (float)(v - inside), hi = (float)(v + inside);
    if (!(hi - lo < 1)) return false; /* NaN and infinity among others */
    const uint16_t least = st == TY_F16 ? num_to_f16(lo) : num_to_bf16(lo),
                   most = st == TY_F16 ? num_to_f16(hi) : num_to_bf16(hi);
    if (least != got || most != got) return false;
    const double err = fabs((double)(st == TY_F16 ? num_from_f16(got) : num_from_bf16(got)) - v);
    *share = err > e ? 1 : err > 0 ? err / e : 0;
    return true;
}

static void judge(Verdict *d, const Want *t, Ty st, Num got, int param, const int64_t *at, int rank) {
    double share, bound;
    const bool ok = legal(t, st, got, &share, &bound);
    d->checked++;
    if (ok && share > d->worst) d->worst = share;
    if (ok) return;
    d->worst =
        fmax(d->worst,
             share > 1 ? share : (double)INFINITY); /* without a bound to compare with, any error is infinitely large */
    if (d->bad++ == 0) {
        d->ok = false;
        d->param = param;
        memcpy(d->at, at, sizeof(int64_t) * (size_t)rank);
        d->got = (double)real_of(got, ty_compute(st));
        d->want = ty_is_float(t->ty) ? (double)t->v : (double)real_of(want_num(t, 0), t->ty);
        d->bound = bound;
    }
}

static Err report(Cx *cx, const Prog *p, const Verdict *d) {
    if (d->ok) return OK;
    const Param *q = &p->param[d->param];
    Buf b = buf_new(cx->a);
    buf_str(&b, q->name);
    for (int k = 0; k < q->rank; k++)
        buf_fmt(&b, "%s%s=%lld", k ? ", " : "[", p->axis[q->axis[k]].name, (long long)d->at[k]);
    buf_str(&b, q->rank ? "] is " : " is ");
    buf_f64(&b, d->got);
    buf_str(&b, ", defined as ");
    buf_f64(&b, d->want);
    buf_str(&b, " within ");
    buf_f64(&b, d->bound);
    return diag(cx, S_ORACLE_MISMATCH, NOWHERE, NULL, "%s; %lld of %lld elements are wrong", b.s, (long long)d->bad,
                (long long)d->checked);
}

/* ---- places ---- */
static void row_major(const Prog *p, const Shape *s, int param, int64_t stride[MAX_RANK]) {
    int64_t n = 1;
    for (int d = p->param[param].rank - 1; d >= 0; d--) {
        stride[d] = n;
        n *= s->n[p->param[param].axis[d]];
    }
}

static Err check_outputs(Cx *cx, const Prog *p, const Shape *s, const Args *out) {
    for (int o = 0; o < p->nouts; o++) {
        const Param *q = &p->param[p->out[o].param];
        const Tensor *t = &out->t[p->out[o].param];
        bool fits = t->ty == q->ty && t->rank == q->rank;
        int64_t n = 1;
        for (int d = 0; fits && d < q->rank; d++) {
            fits = t->n[d] == s->n[q->axis[d]] && t->stride[d] >= 0;
            n *= t->n[d];
        }
        if (!fits || (n > 0 && !t->data))
            return diag(cx, S_ORACLE_ARGS, NOWHERE, NULL,
                        "output %s has another type or shape than its parameter, or no memory", q->name);
    }
    return OK;
}

/* The argmax whose index val is, perhaps rounded to another integer type; -1: none. */
static int index_source(const Prog *p, int val) {
    while (p->val[val].op == OP_CAST && ty_is_int(p->val[val].ty)) val = p->val[val].a[0];
    return p->val[val].op == OP_RED && red_info(p->val[val].red)->join == RED_PAIR ? val : -1;
}

static Want want_of(const Work *w, int val, int source, int64_t i) {
    const Node *x = &w->node[val];
    Want t = {.ty = w->p->val[val].ty, .e = x->col.e[i], .set = source >= 0 ? w->node[source].set[i] : NULL};
    if (!ty_is_float(t.ty))
        t.i = ((const int64_t *)x->col.v)[i];
    else
        t.v = w->wide ? ((const long double *)x->col.v)[i] : (long double)((const double *)x->col.v)[i];
    return t;
}

/* ---- the three calls ---- */
static void store_run(void *user, Work *w, const Run *r) {
    Expect *x = (Expect *)user + r->param;
    const Col *c = &w->node[r->val].col;
    if (x->f && !x->set && !w->wide) {
        for (int64_t j = 0; j < r->n; j++) {
            x->f[r->dst + j * r->dst_step] = ((const double *)c->v)[r->src + j * r->src_step];
            x->e[r->dst + j * r->dst_step] = c->e[r->src + j * r->src_step];
        }
        return;
    }
    const int source = index_source(w->p, r->val);
    for (int64_t j = 0; j < r->n; j++) {
        const Want t = want_of(w, r->val, source, r->src + j * r->src_step);
        const int64_t at = r->dst + j * r->dst_step;
        if (x->f) x->f[at] = (double)t.v;
        if (x->w) x->w[at] = t.v;
        if (x->i) x->i[at] = t.i;
        x->e[at] = t.e;
        if (x->set && t.set) x->set[at] = arena_dup(w->cx->a, t.set, sizeof(int64_t) * (size_t)(t.set[0] + 1));
    }
}

typedef struct Eval {
    const Prog *p;
    const Shape *s;
    const Args *in;
    const OracleOptions *o;
    Expect *out;
    int64_t strides[MAX_PARAMS][MAX_RANK];
} Eval;

static Err eval_rows(Cx *cx, void *user, int part, int64_t from, int64_t to) {
    Eval *v = user;
    Work *w;
    (void)part;
    Err err = work_new(cx, v->p, v->s, v->in, v->o, &w);
    if (!err) work_rows(w, from, to, (const int64_t(*)[MAX_RANK])v->strides, store_run, v->out);
    return !err && cx_over(cx) ? cx_stopped(cx) : err;
}

Err oracle_eval_by(Cx *cx, const Crew *c, const Prog *p, const Shape *s, const Args *in, const OracleOptions *o,
                   Expect out[MAX_PARAMS]) {
    Eval v = {.p = p, .s = s, .in = in, .o = o, .out = out};
    Work *w;
    int64_t elements = 0;
    bool sets = false; /* their lists live in the arena of who makes them */
    Err err = work_new(cx, p, s, in, o, &w);
    if (err) return err;
    for (int k = 0; k < p->nouts; k++) {
        const int q = p->out[k].param, val = p->out[k].val;
        const Ty ty = p->val[val].ty;
        uint32_t axes = 0;
        for (int d = 0; d < p->param[q].rank; d++) axes |= 1u << p->param[q].axis[d];
        row_major(p, s, q, v.strides[q]);
        Expect *x = &out[q];
        *x = (Expect){.count = axes_count(s, axes), .ty = ty};
        x->e = NEWN(cx->a, double, x->count);
        if (ty == TY_F64)
            x->w = NEWN(cx->a, long double, x->count);
        else if (ty == TY_F32)
            x->f = NEWN(cx->a, double, x->count);
        else
            x->i = NEWN(cx->a, int64_t, x->count);
        if (index_source(p, val) >= 0) x->set = NEWN(cx->a, const int64_t *, x->count), sets = true;
    }
    const int64_t rows = work_count(p, s);
    for (int i = 0; i < p->nvals; i++)
        if (w->node[i].needed && !w->node[i].once) elements = i64_max(elements, w->node[i].n);
    if (!mul_fits(elements, rows, &elements)) elements = INT64_MAX;
    const int parts = sets ? 1 : crew_parts(c, rows, elements);
    if (parts > 1) return crew_run(cx, c, parts, rows, eval_rows, &v);
    work_rows(w, 0, rows, (const int64_t(*)[MAX_RANK])v.strides, store_run, out);
    return cx_over(cx) ? cx_stopped(cx) : OK;
}

Err oracle_eval(Cx *cx, const Prog *p, const Shape *s, const Args *in, const OracleOptions *o, Expect out[MAX_PARAMS]) {
    return oracle_eval_by(cx, NULL, p, s, in, o, out);
}

static Num load_at(const Tensor *t, int64_t off) {
    return num_load(t->ty, (const char *)t->data + off * ty_bytes(t->ty));
}

typedef struct Compare { /* one output */
    const Prog *p;
    const Tensor *t;
    const Expect *x;
    int param;
    Verdict *v; /* of each part */
} Compare;

enum { AT_ONCE = 1 << 16 };

static Err compare_elements(Cx *cx, void *user, int part, int64_t from, int64_t to) {
    const Compare *c = user;
    const Tensor *t = c->t;
    const Expect *x = c->x;
    Verdict v = {.ok = true};
    const int rank = c->p->param[c->param].rank, bytes = ty_bytes(t->ty);
    const bool quick = x->f && !x->set;
    int64_t at[MAX_RANK] = {0}, off = 0, left = from;
    for (int d = rank - 1; d >= 0 && from < to; d--)
        at[d] = left % t->n[d], left /= t->n[d], off += at[d] * t->stride[d];
    for (int64_t i = from; i < to; i++) {
        double share;
        if (i % AT_ONCE == 0 && cx_over(cx)) return cx_stopped(cx);
        if (quick && surely_legal(t->ty, (const char *)t->data + off * bytes, x->f[i], x->e[i], &share)) {
            v.checked++;
            if (share > v.worst) v.worst = share;
        } else {
            const Want e = {x->ty,
                            x->w   ? x->w[i]
                            : x->f ? (long double)x->f[i]
                                   : 0,
                            x->i ? x->i[i] : 0, x->e[i], x->set ? x->set[i] : NULL};
            judge(&v, &e, t->ty, load_at(t, off), c->param, at, rank);
        }
        for (int d = rank - 1; d >= 0; d--) {
            off += t->stride[d];
            if (++at[d] < t->n[d]) break;
            off -= t->stride[d] * t->n[d];
            at[d] = 0;
        }
    }
    c->v[part] = v;
    return OK;
}

/* The first bad element of the whole is that of the first part that has one. */
static void join(Verdict *v, const Verdict *part) {
    const int64_t checked = v->checked + part->checked, bad = v->bad + part->bad;
    const double worst = fmax(v->worst, part->worst);
    if (v->ok && !part->ok) *v = *part;
    v->checked = checked, v->bad = bad, v->worst = worst;
}

Err oracle_compare_by(Cx *cx, const Crew *crew, const Prog *p, const Shape *s, const Args *outputs, const Expect *want,
                      Verdict *v) {
    *v = (Verdict){.ok = true};
    Err err = check_outputs(cx, p, s, outputs);
    for (int o = 0; o < p->nouts && !err; o++) {
        const int q = p->out[o].param, parts = crew_parts(crew, want[q].count, want[q].count);
        Compare c = {p, &outputs->t[q], &want[q], q, NEWN(cx->a, Verdict, parts)};
        err = crew_run(cx, crew, parts, want[q].count, compare_elements, &c);
        for (int i = 0; i < parts && !err; i++) join(v, &c.v[i]);
    }
    return err ? err : report(cx, p, v);
}

Err oracle_compare(Cx *cx, const Prog *p, const Shape *s, const Args *outputs, const Expect *want, Verdict *v) {
    return oracle_compare_by(cx, NULL, p, s, outputs, want, v);
}

typedef struct Check {
    const Prog *p;
    const Shape *s;
    const Args *in, *outputs;
    const OracleOptions *o;
    Verdict *of; /* of each part */
    Verdict *v;  /* of the part at hand */
} Check;

static void check_run(void *user, Work *w, const Run *r) {
    const Check *c = user;
    const Tensor *t = &c->outputs->t[r->param];
    const int source = index_source(w->p, r->val), rank = w->p->param[r->param].rank;
    int64_t at[MAX_RANK];
    memcpy(at, r->at, sizeof at);
    for (int64_t j = 0; j < r->n; j++) {
        const Want e = want_of(w, r->val, source, r->src + j * r->src_step);
        if (r->last >= 0) at[r->last] = j;
        judge(c->v, &e, t->ty, load_at(t, r->dst + j * r->dst_step), r->param, at, rank);
    }
}

static Err check_rows(Cx *cx, void *user, int part, int64_t from, int64_t to) {
    Check c = *(const Check *)user;
    Work *w;
    int64_t strides[MAX_PARAMS][MAX_RANK] = {{0}};
    Err err = work_new(cx, c.p, c.s, c.in, c.o, &w);
    if (err) return err;
    for (int k = 0; k < c.p->nouts; k++)
        memcpy(strides[c.p->out[k].param], c.outputs->t[c.p->out[k].param].stride, sizeof strides[0]);
    c.v = &c.of[part];
    *c.v = (Verdict){.ok = true};
    work_rows(w, from, to, (const int64_t(*)[MAX_RANK])strides, check_run, &c);
    return cx_over(cx) ? cx_stopped(cx) : OK;
}

Err oracle_check_by(Cx *cx, const Crew *crew, const Prog *p, const Shape *s, const Args *in, const Args *outputs,
                    const OracleOptions *o, Verdict *v) {
    *v = (Verdict){.ok = true};
    Err err = check_outputs(cx, p, s, outputs);
    if (err) return err;
    const int64_t rows = work_count(p, s);
    int64_t elements = 1;
    for (int k = 0; k < p->nouts; k++)
        for (int i = 0; i < p->nparams; i++) {
            int64_t n = 1;
            for (int d = 0; d < in->t[i].rank; d++) n = mul_fits(n, in->t[i].n[d], &n) ? n : INT64_MAX;
            elements = i64_max(elements, n);
        }
    const int parts = crew_parts(crew, rows, elements);
    Check c = {.p = p, .s = s, .in = in, .outputs = outputs, .o = o, .of = NEWN(cx->a, Verdict, parts)};
    err = crew_run(cx, crew, parts, rows, check_rows, &c);
    for (int i = 0; i < parts && !err; i++) join(v, &c.of[i]);
    return err ? err : report(cx, p, v);
}

Err oracle_check(Cx *cx, const Prog *p, const Shape *s, const Args *in, const Args *outputs, const OracleOptions *o,
                 Verdict *v) {
    return oracle_check_by(cx, NULL, p, s, in, outputs, o, v);
}
