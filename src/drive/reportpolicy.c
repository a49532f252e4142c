/* Timed candidates -> how well each cost policy foresaw their times: predicted beside measured, rank correlation,
 * regret. A record holds the scores of the policy that ranked; those of the others are counted here from the record's
 * own program, shape, machine and plans, none of which needs the machine. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

enum { POLICIES = 8 };
typedef struct Foresight { /* of one policy in one search */
    int n;
    double *score, *ns;
    double regret, rank; /* NaN: too few candidates */
} Foresight;

/* Every policy's score of a plan; NaN where it has none. */
static void score_plan(Cx *cx, const Problem *pb, const char *text, const CostPolicy *const *policy, int n,
                       double *out) {
    Plan plan;
    Kern *k;
    Demand d;
    Score s;
    Cx own = {.a = cx->a};
    for (int i = 0; i < n; i++) out[i] = (double)NAN;
    if (plan_read(&own, text, &plan) || kern_lower(&own, pb, &plan, &k)) return;
    kern_count(&own, k, &d);
    const Launch l = search_launch(pb, &plan);
    for (int i = 0; i < n; i++)
        if (!cost_score(&own, policy[i], &d, &pb->caps, &l, NULL, &s)) out[i] = s.total;
}

static int by_pair(const void *x, const void *y) {
    const double *a = x, *b = y;
    return (a[0] > b[0]) - (a[0] < b[0]);
}

/* Ranks with ties shared, in the order of v. */
static double *ranks(Cx *cx, const double *v, int n) {
    double *pair = NEWN(cx->a, double, 2 * n), *out = NEWN(cx->a, double, n);
    for (int i = 0; i < n; i++) pair[2 * i] = v[i], pair[2 * i + 1] = i;
    qsort(pair, (size_t)n, 2 * sizeof *pair, by_pair);
    for (int i = 0, j; i < n; i = j) {
        for (j = i; j < n && pair[2 * (ptrdiff_t)j] <= pair[2 * (ptrdiff_t)i]; j++) {}
        for (int k = i; k < j; k++) out[(int)pair[2 * k + 1]] = (i + j - 1) / 2.0;
    }
    return out;
}

/* Spearman's: the correlation of ranks. NaN where either side is all alike. */
static double rank_correlation(Cx *cx, const double *a, const double *b, int n) {
    const double *x = ranks(cx, a, n), *y = ranks(cx, b, n), mean = (n - 1) / 2.0;
    double xy = 0, xx = 0, yy = 0;
    for (int i = 0; i < n; i++) {
        xy += (x[i] - mean) * (y[i] - mean);
        xx += (x[i] - mean) * (x[i] - mean);
        yy += (y[i] - mean) * (y[i] - mean);
    }
    return xy / sqrt(xx * yy);
}

/* A policy that cannot tell its first choices apart is charged what it would get of them in the mean. */
static double regret_of(const Foresight *f) {
    double best = INFINITY, least = INFINITY, sum = 0;
    int first = 0;
    for (int i = 0; i < f->n; i++) best = fmin(best, f->ns[i]), least = fmin(least, f->score[i]);
    for (int i = 0; i < f->n; i++)
        if (f->score[i] <= least) sum += f->ns[i], first++;
    return first ? sum / first / best - 1 : (double)NAN;
}

static void foresee(Cx *cx, const Hunt *h, const CostPolicy *const *policy, int n, Foresight *out) {
    Problem pb;
    Caps caps;
    uint64_t seed;
    Cx own = {.a = cx->a};
    for (int k = 0; k < n; k++)
        out[k] = (Foresight){.score = NEWN(cx->a, double, h->n), .ns = NEWN(cx->a, double, h->n)};
    const bool again =
        h->problem && !caps_read(&own, h->caps, &caps) && !case_problem(&own, h->problem, &caps, &pb, &seed);
    for (int i = 0; i < h->n; i++) {
        const Try *t = &h->t[i];
        double score[POLICIES];
        if (t->fate != HEAT_TIMED || !(t->ns > 0)) continue;
        for (int k = 0; k < n; k++) score[k] = (double)NAN;
        if (again) score_plan(cx, &pb, t->plan, policy, n, score);
        for (int k = 0; k < n; k++) {
            if (str_eq(policy[k]->name, h->policy) && isfinite(t->score))
                score[k] = t->score; /* what the record says */
            if (isfinite(score[k])) out[k].score[out[k].n] = score[k], out[k].ns[out[k].n++] = t->ns;
        }
    }
    for (int k = 0; k < n; k++) {
        out[k].regret = regret_of(&out[k]);
        out[k].rank = out[k].n > 2 ? rank_correlation(cx, out[k].score, out[k].ns, out[k].n) : (double)NAN;
    }
}

/* Both relative to the least of the search, so that policies of any unit stand beside each other. */
static void put_chart(Page *p, const char *name, const Foresight *f, int n, int step) {
    double x1 = 1.2, y1 = 1.2;
    for (int pass = 0; pass < 2; pass++) {
        Chart ch;
        if (pass) {
            chart_begin(&ch, p, 1 / 1.05, x1 * 1.05, 1 / 1.05, y1 * 1.05, name, "predicted, over the least",
                        "measured, over the fastest");
            const double end = fmin(x1, y1);
            chart_line(&ch, 1, 1, end, end, "d");
        }
        for (int i = 0; i < n; i++) {
            const Foresight *one = &f[i * step];
            double least = INFINITY, best = INFINITY;
            for (int k = 0; k < one->n; k++) least = fmin(least, one->score[k]), best = fmin(best, one->ns[k]);
            for (int k = 0; k < one->n && least > 0; k++) {
                const double x = one->score[k] / least, y = one->ns[k] / best;
                if (pass)
                    chart_dot(&ch, x, y, NULL, NULL);
                else
                    x1 = fmax(x1, x), y1 = fmax(y1, y);
            }
        }
        if (pass) chart_end(&ch);
    }
}

static void put_summary(Page *p, const Foresight *f, int n, const CostPolicy *const *policy, int npolicies) {
    Cx *cx = p->cx;
    double *v = NEWN(cx->a, double, n + 1);
    grid_begin(p, "<policy|searches|candidates|median regret, %|largest regret, %|median rank correlation",
               "Policies over all searches. Regret is counted among the candidates that were timed; a policy with "
               "equal scores for "
               "several first choices is charged their mean. Rank correlation is Spearman's: 1 where the order of the "
               "scores is that "
               "of the times.");
    for (int k = 0; k < npolicies; k++) {
        int searches = 0, all = 0, m = 0;
        double worst = -INFINITY;
        for (int i = 0; i < n; i++) {
            const Foresight *one = &f[i * npolicies + k];
            if (!one->n) continue;
            v[searches++] = one->regret, all += one->n;
            worst = fmax(worst, one->regret);
        }
        if (!searches) continue;
        grid_row(p);
        grid_cell(p, 0, "%s", policy[k]->name);
        grid_cell(p, 1, "%d", searches);
        grid_cell(p, 2, "%d", all);
        grid_cell(p, 3, "%s", percent_text(cx, f64_median(v, searches)));
        grid_cell(p, 4, "%s", percent_text(cx, worst));
        for (int i = 0; i < n; i++)
            if (isfinite(f[i * npolicies + k].rank)) v[m++] = f[i * npolicies + k].rank;
        grid_cell(p, 5, "%s", m ? arena_printf(cx->a, "%.2f", f64_median(v, m)) : "-");
    }
    grid_end(p);
}

static void put_regrets(Page *p, const Hunt *h, const Foresight *f, int n, const CostPolicy *const *policy,
                        int npolicies) {
    Buf titles = buf_new(p->cx->a);
    buf_str(&titles, "<search|timed");
    for (int k = 0; k < npolicies; k++) buf_fmt(&titles, "|%s, %%", policy[k]->name);
    grid_begin(p, titles.s, "Regret of each policy in each search.");
    for (int i = 0; i < n; i++) {
        int timed = 0;
        for (int k = 0; k < npolicies; k++) timed = f[i * npolicies + k].n > timed ? f[i * npolicies + k].n : timed;
        if (!timed) continue;
        grid_row(p);
        grid_cell(p, 0, "%s", h[i].name);
        grid_cell(p, 1, "%d", timed);
        for (int k = 0; k < npolicies; k++) grid_cell(p, 2 + k, "%s", percent_text(p->cx, f[i * npolicies + k].regret));
    }
    grid_end(p);
}

void report_policies(Page *p, const Hunt *h, int n) {
    Cx *cx = p->cx;
    const CostPolicy *const *policy;
    const int all = cost_policies(&policy), npolicies = all < POLICIES ? all : POLICIES;
    Foresight *f = NEWN(cx->a, Foresight, (size_t)n * (size_t)npolicies);
    int scored = 0;
    for (int i = 0; i < n; i++) {
        foresee(cx, &h[i], policy, npolicies, &f[i * npolicies]);
        for (int k = 0; k < npolicies; k++) scored += f[i * npolicies + k].n;
    }
    if (!scored) return;
    page_head(p, 3, "Predicted and measured");
    charts_begin(
        p,
        "A dot is a timed candidate: its score over the least score of its search, and its time over the fastest. A "
        "policy "
        "that foresaw times would have its dots on the dashed line; one that ranks well has them rise to the right. "
        "The "
        "candidates are those that the ranking policy let through, so a policy is not seen where it was never asked.");
    for (int k = 0; k < npolicies; k++) put_chart(p, policy[k]->name, &f[k], n, npolicies);
    charts_end(p);
    put_summary(p, f, n, policy, npolicies);
    put_regrets(p, h, f, n, policy, npolicies);
}
