/* Prog at a shape -> ranges: within which bounds each f32 value lies, and which maxima may pass a NaN over. What they
 * save is work whose result is known before: a clamp that never binds, a scaling that is always 1, a test for NaN whose
 * answer another reduction gives. They follow from the program and its extents alone, so every plan has the same ones.
 *
 * Bounds are those of real arithmetic, widened by more than rounding and the special functions' errors can add up to.
 */
#include "pass.h"

#include <float.h>
#include <math.h>

static const double widening = 0x1p-18; /* a value is the result of one operation, or of a sum that is bounded apart */

typedef struct Make {
    const Prog *p;
    const Shape *s;
    Range *f;
} Make;

static Range anything(void) {
    return (Range){.lo = -INFINITY, .hi = INFINITY, .most = FLT_MAX};
}

static Range between(double lo, double hi) {
    Range f = {.lo = lo - fabs(lo) * widening, .hi = hi + fabs(hi) * widening};
    if (!(f.lo >= -FLT_MAX)) f.lo = -INFINITY; /* NaN: nothing is known */
    if (!(f.hi <= FLT_MAX)) f.hi = INFINITY;
    f.most = fmin(FLT_MAX, fmax(fabs(f.lo), fabs(f.hi)));
    return f;
}

/* Finite values are no larger than `most`, infinities apart. */
static Range most(Range f, double most_finite) {
    f.most = fmin(f.most, most_finite * (1 + widening));
    return f;
}

static const Val *val(const Make *m, int v) {
    return &m->p->val[v];
}
static bool is_op(const Make *m, int v, Op op) {
    return v >= 0 && val(m, v)->op == op;
}
static bool is_red(const Make *m, int v, Red red) {
    return is_op(m, v, OP_RED) && val(m, v)->red == red;
}

static double elements(const Make *m, uint32_t axes) { /* HUGE_VAL where it is not known */
    double n = 1;
    for (int i = 0; i < MAX_AXES; i++)
        if (axes >> i & 1) n *= m->s->n[i] < 0 ? (double)INFINITY : (double)m->s->n[i];
    return n;
}

/* x - max(x) and x - min(x), over whatever axes: the same sign for every element that is not NaN. */
static bool is_below(const Make *m, const Val *v, Red red) {
    return v->op == OP_SUB && is_red(m, v->a[1], red) && val(m, v->a[1])->a[0] == v->a[0];
}

/* sum(exp(x - max(x))) has a term exp(0), where the maximum is; sum(exp((x - max(x)) * t / u)) too, or it is a NaN. */
static bool has_one(const Make *m, const Val *v) {
    if (!is_op(m, v->a[0], OP_EXP) && !is_op(m, v->a[0], OP_EXP2)) return false;
    const Val *d = val(m, val(m, v->a[0])->a[0]);
    while (d->op == OP_MUL || d->op == OP_DIV) { /* ends: operands come before what uses them */
        const Val *x = val(m, d->a[0]);
        bool other = d->op == OP_MUL && x->op != OP_SUB && x->op != OP_MUL && x->op != OP_DIV;
        d = other ? val(m, d->a[1]) : x;
    }
    if (!is_below(m, d, RED_MAX)) return false;
    uint32_t over = val(m, d->a[1])->over;
    return !(over & ~v->over) && elements(m, over) >= 1;
}

static Range of_sum(const Make *m, const Val *v, Range x) {
    double n = elements(m, v->over), slack = 1 + n * 0x1p-23; /* every addition rounds once */
    if (n == 0) return between(0, 0);
    double lo = x.lo >= 0 ? (has_one(m, v) ? 1 : 0) : x.lo * n * slack, hi = x.hi <= 0 ? 0 : x.hi * n * slack;
    return between(lo, hi);
}

static Range of_product(Range x, Range y) {
    double c[4] = {x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi}, lo = c[0], hi = c[0];
    for (int i = 0; i < 4; i++) {
        if (isnan(c[i])) c[i] = 0; /* 0 times infinity: NaN itself; of the others the product is 0 */
        lo = i ? fmin(lo, c[i]) : c[i], hi = i ? fmax(hi, c[i]) : c[i];
    }
    return most(between(lo, hi), x.most * y.most);
}

/* `rising` at both ends */
static Range through(double (*rising)(double), Range x) {
    return between(rising(x.lo), rising(x.hi));
}
static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static Range fact_of(const Make *m, const Val *v) {
    Range x = v->a[0] >= 0 ? m->f[v->a[0]] : anything(), y = v->a[1] >= 0 ? m->f[v->a[1]] : anything();
    const int ranged = shape_ranged(m->s);
    switch (v->op) {
    case OP_CAST: { /* of the extent, alone or times that of others, which is what counts are made of */
        const Val *n = val(m, v->a[0]), *k = n->op == OP_MUL ? val(m, n->a[1]) : NULL;
        if (k) n = val(m, n->a[0]);
        if (ranged < 0 || n->op != OP_SCALAR || n->param != prog_extent(m->p, m->s)) return anything();
        if (k && (k->op != OP_CONST || k->k.i < 0)) return anything();
        double times = k ? num_f64(k->k, k->ty) : 1;
        return between((double)m->s->least[ranged] * times, (double)m->s->n[ranged] * times);
    }
    case OP_CONST: return between(num_f64(v->k, v->ty), num_f64(v->k, v->ty));
    case OP_RED:
        if (v->red == RED_SUM) return of_sum(m, v, x);
        return v->red == RED_MAX && elements(m, v->over) >= 1 ? most(between(x.lo, x.hi), x.most) : anything();
    case OP_ABS: return most(between(x.lo > 0 ? x.lo : x.hi < 0 ? -x.hi : 0, fmax(-x.lo, x.hi)), x.most);
    case OP_NEG: return most(between(-x.hi, -x.lo), x.most);
    case OP_ADD: return between(x.lo + y.lo, x.hi + y.hi);
    case OP_SUB:
        if (is_below(m, v, RED_MAX)) return between(-INFINITY, 0);
        if (is_below(m, v, RED_MIN)) return between(0, INFINITY);
        return between(x.lo - y.hi, x.hi - y.lo);
    case OP_MUL: {
        Range q = of_product(x, y);
        return v->a[0] == v->a[1] && q.lo < 0 ? most(between(0, q.hi), q.most) : q;
    }
    case OP_DIV: /* only by what keeps away from zero */
        if (y.lo <= 0) return anything();
        return most(of_product(x, between(1 / y.hi, 1 / y.lo)), x.most / y.lo);
    case OP_MAX: return most(between(fmax(x.lo, y.lo), fmax(x.hi, y.hi)), fmax(x.most, y.most));
    case OP_MIN: return most(between(fmin(x.lo, y.lo), fmin(x.hi, y.hi)), fmax(x.most, y.most));
    case OP_WHERE: {
        Range z = m->f[v->a[2]];
        return most(between(fmin(y.lo, z.lo), fmax(y.hi, z.hi)), fmax(y.most, z.most));
    }
    case OP_SQRT: return between(sqrt(fmax(x.lo, 0)), sqrt(fmax(x.hi, 0)));
    case OP_EXP: return through(exp, x);
    case OP_EXP2: return through(exp2, x);
    case OP_TANH: return through(tanh, x);
    case OP_SIGMOID: return through(sigmoid, x);
    default: return anything();
    }
}

/* ---- maxima that may pass a NaN over ---- */

static bool keeps_nan(Op op) { /* a NaN operand gives a NaN */
    return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV || op == OP_NEG || op == OP_ABS ||
           op == OP_EXP || op == OP_EXP2 || op == OP_LOG || op == OP_LOG2;
}

/* May v be +0 for -0 and the other way round, with no output changed? Where it goes through products into exp(0) = 1.
 */
static bool *signless_zeros(Cx *cx, const Prog *p) {
    bool *ok = NEWN(cx->a, bool, p->nvals);
    for (int v = 0; v < p->nvals; v++) ok[v] = true;
    for (int i = 0; i < p->nouts; i++) ok[p->out[i].val] = false;
    for (int u = p->nvals - 1; u >= 0; u--) { /* users come after what they use */
        const Val *q = &p->val[u];
        int dep[MAX_DEPS];
        bool ends = q->op == OP_EXP || q->op == OP_EXP2, scales = q->op == OP_MUL || q->op == OP_DIV;
        for (int n = val_deps(p, q, dep), i = 0; i < n; i++)
            if (!ends && !(scales && ok[u] && dep[i] == q->a[0] && dep[i] != q->a[1])) ok[dep[i]] = false;
    }
    return ok;
}

/* Every use of maximum v is x - v, and every output that depends on v is a NaN wherever an element of x is, whatever v:
 * a sum over the same elements sees to it. */
static bool passes_nan(Cx *cx, const Make *m, int v, const bool *signless) {
    const Prog *p = m->p;
    const Val *max = val(m, v);
    if (!is_red(m, v, RED_MAX) || max->ty != TY_F32) return false;
    enum { DEPENDS = 1, FOLLOWS = 2, SPOILT = 4 }; /* on v; a NaN where x is; a NaN where any x of the row is */
    uint8_t *is = NEWN(cx->a, uint8_t, p->nvals);
    is[max->a[0]] = FOLLOWS;
    is[v] |= DEPENDS;
    for (int u = max->a[0] + 1; u < p->nvals; u++) {
        const Val *q = val(m, u);
        int dep[MAX_DEPS];
        for (int n = val_deps(p, q, dep), i = 0; i < n; i++) {
            is[u] |= is[dep[i]] & (keeps_nan(q->op) ? DEPENDS | FOLLOWS | SPOILT : DEPENDS);
            if (dep[i] == v && !(is_below(m, q, RED_MAX) && q->a[1] == v && signless[u])) return false;
        }
        if (is_red(m, u, RED_SUM) && is[q->a[0]] & FOLLOWS && !(max->over & ~q->over)) is[u] |= SPOILT;
    }
    for (int i = 0; i < p->nouts; i++)
        if ((is[p->out[i].val] & (DEPENDS | SPOILT)) == DEPENDS) return false;
    return true;
}

const Range *pass_ranges(Cx *cx, const Prog *p, const Shape *s) {
    Make m = {p, s, NEWN(cx->a, Range, p->nvals)};
    const bool *signless = signless_zeros(cx, p);
    for (int v = 0; v < p->nvals; v++) m.f[v] = p->val[v].ty == TY_F32 ? fact_of(&m, &p->val[v]) : anything();
    for (int v = 0; v < p->nvals; v++) m.f[v].passes_nan = passes_nan(cx, &m, v, signless);
    return m.f;
}
