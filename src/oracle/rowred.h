/* Reductions of a row: the value in REAL and a bound for any tree of the plan's depth. Part of rowmath.h's family.
 *
 * A sum of n terms by a tree of depth d errs by at most gamma * sum|x|, gamma = d u / (1 - d u) (Higham, Accuracy and
 * Stability, 4.2). mean, var, norm2 and logsumexp are bounded as their expansions into sums and maxima. */

#include "rowmath.h"

typedef struct NAME(Sum) { /* of finite terms; the others are counted */
    REAL s, c;             /* the sum, and what its roundings lost */
    REAL abs, neg, e;
    int64_t nans, pinfs, ninfs;
} NAME(Sum);

static inline void NAME(sum_add)(NAME(Sum) * t, REAL x, REAL e) {
    t->e += e;
    if (!(e < INF)) return; /* not even its infinity or NaN is certain */
    if (isfinite(x)) {
        const REAL s = t->s + x, z = s - t->s;
        t->c += (t->s - (s - z)) + (x - z);
        t->s = s;
        t->abs += fabs(x);
        t->neg += x < 0 ? -x : 0;
    } else if (isnan(x)) {
        t->nans++;
    } else if (x > 0) {
        t->pinfs++;
    } else {
        t->ninfs++;
    }
}

typedef struct NAME(Res) {
    REAL v, e;
} NAME(Res);

/* The sum with its bound when a tree of relative error gamma adds it up. extra: what else is known to go wrong. */
static NAME(Res) NAME(sum_end)(const NAME(Sum) * t, const Lim *l, REAL gamma, REAL extra) {
    if (t->nans || (t->pinfs && t->ninfs)) return (NAME(Res)){(REAL)NAN, 0};
    const REAL v = t->s + t->c, e = t->e * (1 + gamma) + gamma * t->abs + extra, most = t->abs + e;
    if (!(e < INF)) return (NAME(Res)){v, INF};
    if (t->pinfs || t->ninfs)
        return (NAME(Res)){t->pinfs ? (REAL)INF : -(REAL)INF, most < (REAL)l->over ? 0 : (REAL)INF};
    if (most < (REAL)l->over) return (NAME(Res)){v, e};
    const bool one_sign = t->neg == 0 || t->neg == t->abs; /* partial sums then overflow in every order or in none */
    if (one_sign && fabs(v) - e >= (REAL)l->over) return (NAME(Res)){copysign((REAL)INF, v), 0};
    return (NAME(Res)){v, INF};
}

/* r divided by n, of which n is a whole number that f32 may have to round; a multiplication by 1 / n is allowed for. */
static NAME(Res) NAME(divide)(const Work *w, const Lim *l, NAME(Res) r, int64_t n) {
    if (n == 1 || !isfinite(r.v)) return r;
    const REAL k = (REAL)(l->u * (2 * work_ulp(w, OP_DIV, l == &lim_f32 ? TY_F32 : TY_F64) + (n > 1 << 24 ? 2 : 1)));
    r.v /= (REAL)n;
    r.e = r.e / (REAL)n * (1 + k) + k * fabs(r.v);
    if (fabs(r.v) + r.e < (REAL)l->small && (r.v != 0 || r.e > 0)) r.e += (REAL)l->tiny;
    return r;
}

/* ---- what one row of n elements is reduced with ---- */
typedef struct NAME(Row) {
    const Work *w;
    const Lim *l;
    const REAL *x;
    const double *e;
    int64_t n;
    REAL depth, gamma;
} NAME(Row);

/* Plans that take the mean together with the variance add up x - K, K the first element, or merge means of parts. */
static REAL NAME(mean_extra)(const NAME(Row) * r) {
    const REAL u = (REAL)r->l->u, K = r->n && isfinite(r->x[0]) ? r->x[0] : 0;
    REAL dev = 0, top = 0, s = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (!isfinite(r->x[i])) continue;
        dev += fabs(r->x[i] - K);
        top = fmax(top, fabs(r->x[i]));
        s += fabs(r->x[i]);
    }
    if (r->w->o.stat == STAT_SHIFTED) return (r->gamma + 2 * u) * dev + 2 * u * (s + (REAL)r->n * fabs(K));
    if (r->w->o.stat == STAT_WELFORD) return (r->depth + 6) * u * top * (REAL)r->n;
    return 0;
}

static NAME(Res) NAME(fold_sum)(const NAME(Row) * r, REAL extra_rel, REAL extra) {
    NAME(Sum) t = {0};
    for (int64_t i = 0; i < r->n; i++) NAME(sum_add)(&t, r->x[i], r->e[i]);
    return NAME(sum_end)(&t, r->l, r->gamma, extra_rel * t.abs + extra);
}

/* sum of (x - mean)^2. The mean's own error moves it by its square only, since the deviations add up to 0. */
static NAME(Res) NAME(squares)(const NAME(Row) * r) {
    const REAL u = (REAL)r->l->u;
    const Stat stat = r->w->o.stat;
    const bool one_sweep = stat == STAT_SHIFTED || stat == STAT_WELFORD;
    const REAL more = one_sweep ? NAME(mean_extra)(r) : 0;
    const NAME(Res) mu = NAME(divide)(r->w, r->l, NAME(fold_sum)(r, 0, more), r->n);
    const REAL K = r->n && isfinite(r->x[0]) ? r->x[0] : 0;
    NAME(Sum) t = {0};
    REAL dev = 0, dev2 = 0, raw2 = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const REAL c = r->x[i] - mu.v, d = r->x[i] - K, q = c * c;
        const REAL ec = r->e[i] + u * (fabs(c) + mu.e + r->e[i]), m = mu.e + ec;
        REAL eq = 2 * fabs(c) * ec + m * m + u * (q + 2 * fabs(c) * m + m * m);
        if (q + eq < (REAL)r->l->small && (q > 0 || eq > 0)) eq += (REAL)r->l->tiny;
        NAME(sum_add)(&t, q, mu.e == INF || r->e[i] == INF ? (REAL)INF : isfinite(q) ? eq : 0);
        dev += fabs(d);
        dev2 += d * d;
        raw2 += r->x[i] * r->x[i];
    }
    REAL extra = 0;
    if (stat == STAT_SHIFTED)
        extra = (r->gamma + 3 * u) * dev2 + (2 * r->gamma + 4 * u) * fabs(mu.v - K) * dev +
                3 * u * (REAL)r->n * (mu.v - K) * (mu.v - K);
    if (stat == STAT_WELFORD) { /* condition of the variance (Chan, Golub, LeVeque 1983) */
        const REAL g = (r->depth + 1) * u;
        extra = 8 * g * sqrt(t.abs * raw2) + 16 * g * g * raw2 + 4 * g * t.abs;
    }
    if (r->n < 2) extra = 0;
    NAME(Res) s = NAME(sum_end)(&t, r->l, r->gamma, isnan(extra) ? 0 : extra);
    if (one_sweep && !isnan(s.v) && !(dev2 + extra < (REAL)r->l->over))
        s.e = INF; /* parts that cancel may be inf - inf */
    return s;
}

static NAME(Res) NAME(fold_norm2)(const NAME(Row) * r) {
    NAME(Sum) t = {0};
    for (int64_t i = 0; i < r->n; i++) {
        const REAL a = fabs(r->x[i]), e = r->e[i], q = a * a;
        REAL eq = 2 * a * e + e * e;
        eq += (REAL)r->l->u * (q + eq);
        if (q + eq < (REAL)r->l->small && (q > 0 || eq > 0)) eq += (REAL)r->l->tiny;
        NAME(sum_add)(&t, q, isfinite(q) ? eq : e);
    }
    const NAME(Res) s = NAME(sum_end)(&t, r->l, r->gamma, 0);
    NAME(Res) q = {sqrt(s.v), s.e};
    if (!isfinite(q.v) || s.e == INF) return q;
    const REAL lo = s.v - s.e > 0 ? s.v - s.e : 0; /* a sum of squares is never below 0 */
    q.e = s.e == 0 ? 0 : fmax(sqrt(s.v + s.e) - q.v, q.v - sqrt(lo));
    q.e += (REAL)(2 * r->l->u * work_ulp(r->w, OP_SQRT, r->l == &lim_f32 ? TY_F32 : TY_F64)) * (q.v + q.e);
    return q;
}

/* log(sum(exp(x - m))) + m: whatever m is, the result moves by no more than x does, so that only roundings add to it.
 */
static NAME(Res) NAME(fold_lse)(const NAME(Row) * r) {
    const REAL u = (REAL)r->l->u;
    const Ty ty = r->l == &lim_f32 ? TY_F32 : TY_F64;
    REAL m = -(REAL)INF, ex = 0, s = 0, g = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (isnan(r->x[i]) && r->e[i] < INF) return (NAME(Res)){(REAL)NAN, 0};
        m = fmax(m, r->x[i]);
        ex = fmax(ex, r->e[i]);
    }
    if (isinf(m) || !(ex < INF)) return (NAME(Res)){m, ex < INF ? 0 : (REAL)INF};
    const REAL k = (REAL)(2 * u * work_ulp(r->w, OP_EXP, ty));
    for (int64_t i = 0; i < r->n; i++) {
        const REAL d = r->x[i] - m, t = exp(d);
        s += t;
        if (t > 0) g += t * (u * -d + k) + (t < (REAL)r->l->small ? 2 * (REAL)r->l->tiny : 0);
    }
    REAL rel = g / s + r->gamma;
    if (r->w->o.stat == STAT_ONLINE) rel += r->depth * (k + 2 * u);
    if (rel > (REAL)0.25) return (NAME(Res)){m + log(s), INF};
    const REAL lg = log(s), v = lg + m;
    REAL e = ex + rel * (1 + rel);
    e += (REAL)(2 * u * work_ulp(r->w, OP_LOG, ty)) * (fabs(lg) + e);
    if (r->n > 1 || lg != 0) e += u * (fabs(v) + e);
    return fabs(v) + e < (REAL)r->l->over ? (NAME(Res)){v, e} : (NAME(Res)){v, INF};
}

static NAME(Res) NAME(fold_prod)(const NAME(Row) * r) {
    REAL v = 1, a = 1, top = 1, most = 1, least = 1;
    bool nan = false, inf = false, zero = false, maybe_zero = false, any = false;
    for (int64_t i = 0; i < r->n; i++) {
        const REAL x = r->x[i], m = fabs(x), h = m + r->e[i];
        if (isnan(x) && r->e[i] < INF) nan = true;
        if (r->e[i] == INF) any = true;
        v *= x;
        inf |= isinf(x) && r->e[i] < INF;
        zero |= x == 0 && r->e[i] == 0;
        maybe_zero |= m <= r->e[i];
        if (isinf(x)) continue;
        a *= m;
        top *= h;
        most *= fmax(h, 1);
        least *= x == 0 ? 1 : fmin(m, 1);
    }
    if (nan || (inf && zero)) return (NAME(Res)){(REAL)NAN, 0};
    if (any || most >= (REAL)r->l->over || !(most < INF)) return (NAME(Res)){v, INF};
    const bool sinks = least < (REAL)r->l->small; /* a partial product may become subnormal and lose what it had */
    if (inf) return (NAME(Res)){v, maybe_zero || sinks ? (REAL)INF : 0};
    if (zero) return (NAME(Res)){v, 0};
    /* each of n - 1 roundings is a factor of the result, whatever the tree's depth */
    const REAL k = (REAL)r->l->u * (REAL)r->n;
    REAL e = k < 1 ? top - a + k / (1 - k) * top : (REAL)INF;
    if (sinks && r->n > 1) e += (REAL)r->l->tiny * (REAL)r->n * most;
    return (NAME(Res)){v, e};
}

static NAME(Res) NAME(fold_extreme)(const NAME(Row) * r, Red red) {
    const bool up = red == RED_MAX;
    REAL v = up ? -(REAL)INF : (REAL)INF, lo = v, hi = v;
    bool any = false, nan = false;
    for (int64_t i = 0; i < r->n; i++) {
        const REAL x = r->x[i], e = r->e[i];
        nan |= isnan(x) && r->e[i] < INF;
        any |= r->e[i] == INF;
        v = up ? NAME(real_max)(v, x) : NAME(real_min)(v, x);
        lo = up ? fmax(lo, x - e) : fmin(lo, x - e);
        hi = up ? fmax(hi, x + e) : fmin(hi, x + e);
    }
    if (nan) return (NAME(Res)){(REAL)NAN, 0};
    return (NAME(Res)){v, any ? (REAL)INF : lo == v && hi == v ? 0 : fmax(hi - v, v - lo)};
}

static NAME(Res) NAME(fold_float)(const NAME(Row) * r, const Val *v, const Node *x, const NAME(Row) * source) {
    const REAL u = (REAL)r->l->u;
    const bool shifts = r->w->o.stat == STAT_SHIFTED || r->w->o.stat == STAT_WELFORD;
    NAME(Res) s;
    switch (v->red) {
    case RED_SUM:
    case RED_MEAN: {
        REAL rel = 0;
        if (x->online && r->w->o.stat == STAT_ONLINE)
            rel = r->depth * (REAL)(2 * u * work_ulp(r->w, OP_EXP, v->ty) + 2 * u);
        s = NAME(fold_sum)(r, rel, x->shift_mean && shifts ? NAME(mean_extra)(r) : 0);
        if (source) { /* squared deviations: the same sum by its own, tighter bound, which also knows one-sweep plans */
            const NAME(Res) q = NAME(squares)(source);
            if (shifts || (q.e < s.e && isfinite(s.v))) s.e = isnan(s.v) ? s.e : q.e;
        }
        return v->red == RED_SUM ? s : r->n ? NAME(divide)(r->w, r->l, s, r->n) : (NAME(Res)){(REAL)NAN, 0};
    }
    case RED_VAR: return r->n ? NAME(divide)(r->w, r->l, NAME(squares)(r), r->n) : (NAME(Res)){(REAL)NAN, 0};
    case RED_NORM2: return NAME(fold_norm2)(r);
    case RED_LSE: return NAME(fold_lse)(r);
    case RED_PROD: return NAME(fold_prod)(r);
    default: return NAME(fold_extreme)(r, v->red);
    }
}

/* ---- integers and bools ---- */
static int64_t NAME(fold_int)(Red red, Ty t, const int64_t *x, const double *e, int64_t n, double *err) {
    int64_t v = red == RED_ALL || red == RED_ANY ? red == RED_ALL : red_identity_i64(red, t);
    double unsure = 0;
    bool decided = false; /* by a certain element */
    uint64_t size = 0;
    for (int64_t i = 0; i < n; i++) {
        unsure += e[i];
        size |= (uint64_t)(x[i] < 0 ? -(x[i] + 1) : x[i]);
        switch (red) {
        case RED_SUM: v = (int64_t)((uint64_t)v + (uint64_t)x[i]); break;
        case RED_PROD: v = (int64_t)((uint64_t)v * (uint64_t)x[i]); break;
        case RED_MAX: v = num_op(OP_MAX, t, t, (Num){.i = v}, (Num){.i = x[i]}, (Num){.i = 0}).i; break;
        case RED_MIN: v = num_op(OP_MIN, t, t, (Num){.i = v}, (Num){.i = x[i]}, (Num){.i = 0}).i; break;
        default: decided |= e[i] == 0 && (x[i] != 0) == (red == RED_ANY); v = red == RED_ANY ? v || x[i] : v && x[i];
        }
    }
    const bool wraps = red == RED_PROD || t == TY_U64 || size >> 40 || n >> 22 || unsure > 0x1p40;
    *err = unsure == 0 || decided ? 0 : red == RED_ANY || red == RED_ALL ? 1 : wraps ? INF : unsure;
    return v;
}

/* ---- argmax and argmin ---- */
static void NAME(list_put)(Work *w, int64_t i) {
    if (w->list_n == w->list_cap) {
        const int64_t cap = w->list_cap ? w->list_cap * 2 : 64;
        int64_t *l = NEWN(w->cx->a, int64_t, cap);
        if (w->list_n) memcpy(l, w->list, (size_t)w->list_n * sizeof *l);
        w->list = l; /* lists made earlier stay where they are */
        w->list_cap = cap;
    }
    w->list[w->list_n++] = i;
}

/* x: keys whose maximum is sought (negated for argmin), e: their bounds. A NaN is above all, and of equal ones the
 * first wins: so i is legal when its high end is above every low end before it and not below any after it. */
static int64_t NAME(fold_index)(Work *w, const REAL *x, const double *e, int64_t n, bool keep, double *err,
                                const int64_t **set) {
    int64_t best = -1, nan_at = n;
    for (int64_t i = 0; i < n && nan_at == n; i++) {
        if (isnan(x[i])) {
            if (best < 0 || !isnan(x[best])) best = i;
            if (e[i] < INF) nan_at = i;
        } else if (best < 0 || x[i] > x[best]) {
            best = i;
        }
    }
    *err = 0;
    *set = NULL;
    bool exact = true;
    for (int64_t i = 0; i < n; i++) exact &= e[i] == 0;
    if (exact || n < 2) return best;
    REAL *after = work_temp(w, 2); /* the highest low end behind each; of what may be NaN nothing is known */
    REAL top = -(REAL)INF;
    for (int64_t i = n - 1; i >= 0; i--) {
        after[i] = top;
        if (e[i] < INF) top = fmax(top, x[i] - e[i]);
    }
    const int64_t head = w->list_n;
    NAME(list_put)(w, 0);
    top = -(REAL)INF;
    bool first = true;
    for (int64_t i = 0; i < n && i <= nan_at; i++) {
        const bool in = nan_at < n ? i == nan_at || e[i] == INF
                                   : e[i] == INF || (first && x[i] == -(REAL)INF && after[i] == -(REAL)INF) ||
                                         (x[i] + e[i] > top && x[i] + e[i] >= after[i]);
        if (in) {
            NAME(list_put)(w, i);
            *err = fmax(*err, fabs((double)(i - best)));
        }
        if (e[i] < INF) {
            first = false;
            top = fmax(top, x[i] - e[i]);
        }
    }
    const int64_t count = w->list_n - head - 1;
    w->list[head] = count;
    if (count < 2)
        w->list_n = head;
    else
        *set = keep ? arena_dup(w->cx->a, w->list + head, (size_t)(count + 1) * sizeof(int64_t)) : w->list + head;
    return best;
}

static int64_t NAME(int_index)(Red red, Ty t, const int64_t *x, const double *e, int64_t n, double *err) {
    int64_t best = n ? 0 : -1;
    *err = 0;
    for (int64_t i = 0; i < n; i++) {
        if (e[i] != 0) *err = INF;
        if (num_op(red == RED_ARGMAX ? OP_GT : OP_LT, t, TY_BOOL, (Num){.i = x[i]}, (Num){.i = x[best]}, (Num){.i = 0})
                .b)
            best = i;
    }
    return best;
}

static int64_t NAME(float_index)(Work *w, const Val *v, const REAL *x, const double *e, int64_t n, double *err,
                                 const int64_t **set) {
    const bool keep = !(v->axes & w->p->row_axes);
    if (v->red == RED_ARGMAX) return NAME(fold_index)(w, x, e, n, keep, err, set);
    REAL *key = work_temp(w, 3);
    for (int64_t i = 0; i < n; i++) key[i] = -x[i];
    return NAME(fold_index)(w, key, e, n, keep, err, set);
}

static void NAME(reduce)(Work *w, const Val *v, Node *x) {
    const Val *operand = &w->p->val[v->a[0]];
    const int64_t n = axes_count(w->s, v->over);
    const uint32_t el = w->node[v->a[0]].el | v->over;
    const Opd a = work_operand(w, v->a[0], el, v->over, 0);
    const int64_t depth = work_depth(w, v->policy, n);
    NAME(Row) r = {w, operand->ty == TY_F64 || v->ty == TY_F64 ? &lim_f64 : &lim_f32, NULL, NULL, n, (REAL)depth, 0};
    const REAL du = r.depth * (REAL)r.l->u;
    r.gamma = du < (REAL)0.5 ? du / (1 - du) : (REAL)INF;
    NAME(Row) source = r;
    Opd c = {NULL, NULL, 0};
    if (x->centred >= 0) c = work_operand(w, x->centred, el, v->over, 1);
    for (int64_t i = 0; i < x->n; i++) {
        double *err = &x->col.e[i];
        r.e = a.e + i * n;
        if (red_info(v->red)->join == RED_PAIR && ty_is_float(operand->ty)) {
            ((int64_t *)x->col.v)[i] = NAME(float_index)(w, v, (const REAL *)a.v + i * n, r.e, n, err, &x->set[i]);
        } else if (red_info(v->red)->join == RED_PAIR) {
            ((int64_t *)x->col.v)[i] = NAME(int_index)(v->red, operand->ty, (const int64_t *)a.v + i * n, r.e, n, err);
        } else if (ty_is_float(v->ty)) {
            r.x = (const REAL *)a.v + i * n;
            if (c.v) source.x = (const REAL *)c.v + i * n, source.e = c.e + i * n;
            const NAME(Res) s = NAME(fold_float)(&r, v, x, c.v ? &source : NULL);
            ((REAL *)x->col.v)[i] = s.v;
            *err = isnan(s.e) ? INF : (double)s.e;
        } else {
            ((int64_t *)x->col.v)[i] = NAME(fold_int)(v->red, v->ty, (const int64_t *)a.v + i * n, r.e, n, err);
        }
    }
}
