/* One element of a reduction: value and bound (the rule is in evaluate.h).
 *
 * Plans that take the mean and the squared deviations in one sweep, or the maximum and the sum of exponentials, err
 * otherwise than two sweeps do; with S = sum (x - mean)^2, all to first order in u (T. F. Chan, G. H. Golub, R. J.
 * LeVeque, The American Statistician 37, 1983):
 *   shifted   by the first element K: 4 (gamma + 4 u) (S + n (mean - K)^2)
 *   welford   8 gamma' sqrt(S sum x^2) + 16 gamma'^2 sum x^2, gamma' with one addition more
 *   online    d (k_exp + 2 u) of the sum: each term is rescaled at most d times */
#include "evaluate.h"

#include <math.h>

#define INF ((double)INFINITY)

int64_t rules_depth(const Rules *r, bool ordered, int64_t n) {
    if (n < 2) return 0;
    if (ordered || r->order == 2) return n - 1;
    const int64_t chains = r->order == 1 ? 1024 : max_of(r->lanes, 1);
    int64_t joins = 0;
    while (joins < 40 && (int64_t)1 << joins < chains) joins++;
    const int64_t share = max_of(r->points, 1);
    const int64_t each = share * (up_div(up_div(n, share), chains) + (r->order == 1 ? 1 : r->more));
    return min_of(n - 1, each + joins);
}

typedef struct Fold {
    const Rules *r;
    const Limits *l;
    const Line *x;
    Type ty;
    long double gamma, depth;
} Fold;

static long double gamma_of(long double steps, const Limits *l) {
    const long double du = steps * l->u;
    return du < 0.5L ? du / (1 - du) : (long double)INFINITY;
}

/* A sum of terms that come one by one. */
typedef struct Sum {
    long double s, abs, neg, e;
    bool nan, plus, minus, open;
} Sum;

static void sum_put(Sum *t, long double x, long double e) {
    if (!(e < INF)) {
        t->open = true;
    } else if (isnan(x)) {
        t->nan = true;
    } else if (isinf(x)) {
        *(x > 0 ? &t->plus : &t->minus) = true;
    } else {
        t->s += x;
        t->abs += fabsl(x);
        t->neg += x < 0 ? -x : 0;
        t->e += e;
    }
}

static Cell sum_get(const Sum *t, const Fold *f, long double extra) {
    if (t->nan || (t->plus && t->minus)) return (Cell){(long double)NAN, 0, 0};
    const long double e = t->e * (1 + f->gamma) + f->gamma * t->abs + extra;
    Cell c = {t->plus ? (long double)INFINITY : t->minus ? -(long double)INFINITY : t->s, 0, 0};
    const bool fits = t->abs + e < f->l->over;
    if (t->open || !(e < INF))
        c.e = INF;
    else if (t->plus || t->minus)
        c.e = fits ? 0 : INF;
    else if (fits)
        c.e = (double)e;
    else if ((t->neg == 0 || t->neg == t->abs) && fabsl(t->s) - e >= f->l->over)
        c.v = copysignl((long double)INFINITY, t->s);
    else
        c.e = INF;
    return c;
}

static Cell over_count(const Fold *f, Cell c, int64_t n) { /* a division, or a multiplication by 1 / n */
    if (n < 2 || isnan(c.v) || isinf(c.v)) return c;
    const long double k = f->l->u * (2 * rules_ulp(f->r, M_DIV, f->ty) + (n > 1 << 24 ? 2 : 1));
    c.v /= n;
    long double e = c.e / (long double)n * (1 + k) + k * fabsl(c.v);
    if (fabsl(c.v) + e < f->l->small && (c.v != 0 || e > 0)) e += f->l->tiny;
    c.e = (double)e;
    return c;
}

static bool one_sweep(const Fold *f) {
    return f->r->stat == SHIFTED || f->r->stat == WELFORD;
}

/* What a plan in one sweep adds to the error of the sum of x. */
static long double shift_extra(const Fold *f, const Line *x) {
    if (!one_sweep(f) || x->n < 2) return 0;
    const long double K = isfinite(x->x[0]) ? x->x[0] : 0;
    long double dev = 0, abs = 0, top = 0;
    for (int64_t i = 0; i < x->n; i++) {
        if (!isfinite(x->x[i])) continue;
        dev += fabsl(x->x[i] - K);
        abs += fabsl(x->x[i]);
        top = fmaxl(top, fabsl(x->x[i]));
    }
    if (f->r->stat == WELFORD) return (f->depth + 8) * f->l->u * top * (long double)x->n;
    return (f->gamma + 4 * f->l->u) * dev + 4 * f->l->u * (abs + (long double)x->n * fabsl(K));
}

/* sum of (x - mean)^2, by the mean's own definition. */
static Cell squares(const Fold *f, const Line *x) {
    const long double u = f->l->u;
    Sum first = {0}, t = {0};
    for (int64_t i = 0; i < x->n; i++) sum_put(&first, x->x[i], x->e[i]);
    const Cell mean = over_count(f, sum_get(&first, f, shift_extra(f, x)), x->n);
    long double raw = 0, slope = 0;
    for (int64_t i = 0; i < x->n; i++) {
        const long double c = x->x[i] - mean.v, q = c * c, own = x->e[i] + u * (fabsl(c) + x->e[i]);
        /* the mean's error enters by its square: the deviations add up to 0 */
        const long double m = mean.e + own;
        long double e = 2 * fabsl(c) * own + m * m + u * (q + 2 * fabsl(c) * m + m * m);
        if (q + e < f->l->small && (q > 0 || e > 0)) e += f->l->tiny;
        sum_put(&t, q, mean.e == INF || x->e[i] == INF ? (long double)INFINITY : isfinite(q) ? e : 0);
        raw += x->x[i] * x->x[i];
        slope += c;
    }
    long double extra = fabsl(slope) * 2 * (isfinite(mean.v) ? mean.e : 0);
    const long double K = x->n && isfinite(x->x[0]) ? x->x[0] : 0, shift = mean.v - K;
    if (f->r->stat == SHIFTED && x->n > 1)
        extra += 4 * (f->gamma + 4 * u) * (t.abs + (long double)x->n * shift * shift);
    if (f->r->stat == WELFORD && x->n > 1) {
        const long double g = (f->depth + 1) * u;
        extra += 8 * g * sqrtl(t.abs * raw) + 16 * g * g * raw + 4 * g * t.abs;
    }
    Cell c = sum_get(&t, f, isnan(extra) ? 0 : extra);
    if (one_sweep(f) && !isnan(c.v) && !(raw * 4 + extra < f->l->over)) c.e = INF;
    return c;
}

static Cell root_of_squares(const Fold *f) {
    const Line *x = f->x;
    Sum t = {0};
    for (int64_t i = 0; i < x->n; i++) {
        const long double a = fabsl(x->x[i]), q = a * a, d = x->e[i];
        long double e = 2 * a * d + d * d;
        e += f->l->u * (q + e);
        if (q + e < f->l->small && (q > 0 || e > 0)) e += f->l->tiny;
        sum_put(&t, q, isfinite(q) ? e : d);
    }
    const Cell s = sum_get(&t, f, 0);
    Cell c = {sqrtl(s.v), 0, s.e};
    if (isnan(c.v) || isinf(c.v) || s.e == INF) return c;
    const long double lo = fmaxl(s.v - s.e, 0);
    long double e = s.e == 0 ? 0 : fmaxl(sqrtl(s.v + s.e) - c.v, c.v - sqrtl(lo));
    e += 2 * f->l->u * rules_ulp(f->r, M_SQRT, f->ty) * (c.v + e);
    c.e = (double)e;
    return c;
}

static Cell log_sum_exp(const Fold *f) {
    const Line *x = f->x;
    const long double u = f->l->u, k = 2 * u * rules_ulp(f->r, M_EXP, f->ty);
    long double m = -(long double)INFINITY, s = 0, g = 0;
    double ex = 0;
    for (int64_t i = 0; i < x->n; i++) {
        if (isnan(x->x[i]) && x->e[i] < INF) return (Cell){(long double)NAN, 0, 0};
        m = fmaxl(m, x->x[i]);
        ex = fmax(ex, x->e[i]);
    }
    if (isinf(m) || !(ex < INF)) return (Cell){m, 0, ex < INF ? 0 : INF};
    for (int64_t i = 0; i < x->n; i++) {
        const long double d = x->x[i] - m, t = expl(d);
        s += t;
        if (t > 0) g += t * (u * -d + k) + (t < f->l->small ? 2 * f->l->tiny : 0);
    }
    long double rel = g / s + f->gamma;
    if (f->r->stat == ONLINE) rel += f->depth * (k + 2 * u);
    Cell c = {logl(s) + m, 0, INF};
    if (rel > 0.25L) return c;
    long double e = ex + rel * (1 + rel);
    e += 2 * u * rules_ulp(f->r, M_LOG, f->ty) * (fabsl(logl(s)) + e);
    if (x->n > 1 || s != 1) e += u * (fabsl(c.v) + e);
    if (fabsl(c.v) + e < f->l->over) c.e = (double)e;
    return c;
}

static Cell product(const Fold *f) {
    const Line *x = f->x;
    long double v = 1, abs = 1, high = 1, most = 1, least = 1;
    bool nan = false, inf = false, zero = false, near_zero = false, open = false;
    for (int64_t i = 0; i < x->n; i++) {
        const long double a = fabsl(x->x[i]);
        nan |= isnan(x->x[i]) && x->e[i] < INF;
        inf |= isinf(x->x[i]) && x->e[i] < INF;
        open |= x->e[i] == INF;
        zero |= a == 0 && x->e[i] == 0;
        near_zero |= a <= x->e[i];
        v *= x->x[i];
        if (isinf(x->x[i])) continue;
        abs *= a;
        high *= a + x->e[i];
        most *= fmaxl(a + x->e[i], 1);
        least *= a == 0 ? 1 : fminl(a, 1);
    }
    if (nan || (inf && zero)) return (Cell){(long double)NAN, 0, 0};
    if (open || !(most < f->l->over)) return (Cell){v, 0, INF};
    const bool sinks = least < f->l->small;
    if (inf) return (Cell){v, 0, near_zero || sinks ? INF : 0};
    if (zero) return (Cell){v, 0, 0};
    /* each rounding is a factor of the result, whatever the tree's depth */
    long double e = high - abs + gamma_of((long double)x->n, f->l) * high;
    if (sinks && x->n > 1) e += f->l->tiny * (long double)x->n * most;
    return (Cell){v, 0, (double)e};
}

static Cell extreme(const Fold *f, bool up) {
    const Line *x = f->x;
    const long double sign = up ? 1 : -1, none = -(long double)INFINITY;
    long double v = none, lo = none, hi = none;
    bool open = false;
    for (int64_t i = 0; i < x->n; i++) {
        if (isnan(x->x[i]) && x->e[i] < INF) return (Cell){(long double)NAN, 0, 0};
        open |= x->e[i] == INF;
        const long double s = sign * x->x[i];
        if (s > v || (s == v && s == 0 && !signbit(s))) v = s;
        lo = fmaxl(lo, s - x->e[i]);
        hi = fmaxl(hi, s + x->e[i]);
    }
    return (Cell){sign * v, 0, open ? INF : lo == v && hi == v ? 0 : (double)fmaxl(hi - v, v - lo)};
}

/* ---- integers and bools ---- */
static Cell int_fold(RedOp red, const Line *x) {
    const bool is_unsigned = type_fact(x->ty)->kind == UINT;
    int64_t v = 0;
    double open = 0;
    bool decided = false;
    long double size = 0;
    switch (red) {
    case R_PROD:
    case R_ALL: v = 1; break;
    case R_MAX: v = is_unsigned ? 0 : INT64_MIN; break;
    case R_MIN: v = is_unsigned ? -1 : INT64_MAX; break; /* all bits of a u64 */
    default: break;
    }
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t k = x->xi[i];
        const bool less = is_unsigned ? (uint64_t)k < (uint64_t)v : k < v;
        open += x->e[i];
        size += fabsl(int_real(x->ty, k));
        switch (red) {
        case R_SUM: v = (int64_t)((uint64_t)v + (uint64_t)k); break;
        case R_PROD: v = (int64_t)((uint64_t)v * (uint64_t)k); break;
        case R_MAX: v = less ? v : k; break;
        case R_MIN: v = less ? k : v; break;
        default: decided |= x->e[i] == 0 && (k != 0) == (red == R_ANY); v = red == R_ANY ? v || k : v && k;
        }
    }
    Cell c = {0, v, 0};
    if (open == 0 || decided) return c;
    c.e = red == R_ANY || red == R_ALL ? 1 : red == R_PROD || is_unsigned || !(size + open < 0x1p50L) ? INF : open;
    return c;
}

/* ---- argmax and argmin ---- */
static Cell int_index(const Line *x, bool up) {
    const bool is_unsigned = type_fact(x->ty)->kind == UINT;
    Cell c = {0, x->n ? 0 : -1, 0};
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t a = x->xi[i], b = x->xi[c.i];
        const bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b, same = a == b;
        if (!same && less != up) c.i = i;
        if (x->e[i] > 0) c.e = INF;
    }
    return c;
}

/* Position i is legal when it can beat all before it and be beaten by none after it. */
static Cell float_index(Mem *m, const Line *x, bool up, int64_t **set) {
    const long double sign = up ? 1 : -1;
    Cell c = {0, -1, 0};
    bool exact = true;
    int64_t nan_at = x->n;
    for (int64_t i = 0; i < x->n; i++) {
        exact &= x->e[i] == 0;
        if (isnan(x->x[i]) && x->e[i] < INF && nan_at == x->n) nan_at = i;
        if (!isnan(x->x[i]) && (c.i < 0 || isnan(x->x[c.i]) || sign * x->x[i] > sign * x->x[c.i])) c.i = i;
    }
    if (c.i < 0 && x->n) c.i = 0;
    if (nan_at < x->n) c.i = nan_at;
    if (exact || x->n < 2) return c;
    long double floor_high = -(long double)INFINITY; /* what the winner is at least */
    for (int64_t i = 0; i < x->n; i++)
        if (x->e[i] < INF && !isnan(x->x[i])) floor_high = fmaxl(floor_high, sign * x->x[i] - x->e[i]);
    int64_t *list = mem_array(m, (size_t)x->n + 1, sizeof *list), count = 0;
    long double before = -(long double)INFINITY;
    for (int64_t i = 0; i < x->n && i <= nan_at; i++) {
        const bool open = x->e[i] == INF;
        const long double hi = sign * x->x[i] + x->e[i];
        bool can = open || (nan_at < x->n ? i == nan_at
                                          : hi >= floor_high && (hi > before || before == -(long double)INFINITY));
        if (can) list[++count] = i;
        if (can && i != c.i) c.e = fmax(c.e, fabs((double)(i - c.i)));
        if (!open && !isnan(x->x[i])) before = fmaxl(before, sign * x->x[i] - x->e[i]);
    }
    list[0] = count;
    if (count > 1) *set = list;
    return c;
}

Cell red_cell(Mem *m, const Rules *r, const PVal *v, const Line *x, const Extra *extra, int64_t **set) {
    Fold f = {r, limits_of(v->ty), x, v->ty, 0, 0};
    *set = NULL;
    if (v->red == R_ARGMAX || v->red == R_ARGMIN)
        return type_fact(x->ty)->kind == REAL ? float_index(m, x, v->red == R_ARGMAX, set)
                                              : int_index(x, v->red == R_ARGMAX);
    if (type_fact(x->ty)->kind != REAL) return int_fold(v->red, x);
    f.depth = (long double)rules_depth(r, v->ordered, x->n);
    f.gamma = gamma_of(f.depth, f.l);
    switch (v->red) {
    case R_SUM:
    case R_MEAN: {
        if (v->red == R_MEAN && !x->n) return (Cell){(long double)NAN, 0, 0};
        Sum t = {0};
        for (int64_t i = 0; i < x->n; i++) sum_put(&t, x->x[i], x->e[i]);
        long double more = shift_extra(&f, x);
        if (extra->online && r->stat == ONLINE)
            more += f.depth * (2 * f.l->u * rules_ulp(r, M_EXP, v->ty) + 2 * f.l->u) * t.abs;
        Cell c = sum_get(&t, &f, more);
        if (extra->centre) {
            const Cell q = squares(&f, extra->centre);
            if (!isnan(c.v) && (one_sweep(&f) || q.e < c.e)) c.e = q.e;
        }
        return v->red == R_SUM ? c : over_count(&f, c, x->n);
    }
    case R_VAR: return x->n ? over_count(&f, squares(&f, x), x->n) : (Cell){(long double)NAN, 0, 0};
    case R_NORM2: return root_of_squares(&f);
    case R_LSE: return log_sum_exp(&f);
    case R_PROD: return product(&f);
    default: return extreme(&f, v->red == R_MAX);
    }
}
