/* Measured launches -> coefficients of a policy. Each coefficient stays what it means (a rate, a time), so it is only
 * ever scaled: it cannot become negative, and one that is 0 stays out. The error is the mean over the samples of a
 * function of log(score / time) that grows linearly where it is large, so that a launch which the policy cannot explain
 * does not bend the others (Huber 1964). Of launches of one problem it counts how far each strays from their mean, for
 * a policy is to compare plans, and the more the faster they are, or are said to be; the mean itself counts less.
 * Beside that counts what choosing by the scores costs: the mean of log(time / best), weighted by how near each score
 * is to the least, a smooth form of regret. Coordinate descent, coarse steps first and all of them again; the same
 * samples give the same coefficients. */
#include "cost.h"

#include <math.h>
#include <string.h>

static const double linear_from = 0.25, near_from = 0.1; /* near: within a problem */
static const double of_mean = 0.1;                       /* weight of a problem's mean beside what strays from it */
static const double of_choice = 0.1, choosing = 0.05;    /* of a choice; log of a score that makes one 1/e as likely */
static const double pull = 1e-5; /* of a coefficient back to where it started, so that one which the samples say
                                    nothing about stays there */

static double huber(double r, double from) {
    r = fabs(r);
    return r < from ? r * r / 2 : from * (r - from / 2);
}

/* Samples [i, j) are of one problem: what a choice by their scores costs. */
static double choice(const FitSample *s, const double *r, int i, int j) {
    enum { MOST = 1 }; /* log of the worst that counts */
    double best = INFINITY, least = INFINITY, sum = 0, all = 0;
    for (int k = i; k < j; k++) best = fmin(best, s[k].ns), least = fmin(least, r[k] + log(s[k].ns));
    for (int k = i; k < j; k++) {
        const double w = exp((least - r[k] - log(s[k].ns)) / choosing);
        sum += w * fmin(MOST, log(s[k].ns / best)), all += w;
    }
    return sum / all;
}

/* And the mean of their errors. */
static double stray(const FitSample *s, const double *r, int i, int j) {
    double best = INFINITY, least = INFINITY, sum = 0, mean = 0, all = 0;
    for (int k = i; k < j; k++) best = fmin(best, s[k].ns), least = fmin(least, exp(r[k]) * s[k].ns);
    for (int pass = 0; pass < 2; pass++)
        for (int k = i; k < j; k++) {
            const double near = fmax(best / s[k].ns, least / (exp(r[k]) * s[k].ns)), w = near * near;
            if (pass)
                sum += w * huber(r[k] - mean / all, near_from);
            else
                mean += w * r[k], all += w;
        }
    return sum / all + of_mean * huber(mean / all, linear_from) + of_choice * choice(s, r, i, j);
}

static Err error_of(Cx *cx, const CostPolicy *p, const FitSample *s, int n, const double *start, const double *coef,
                    double *r, double *out) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        Score score;
        Err e = cost_score(cx, p, &s[i].demand, s[i].caps, &s[i].launch, coef, &score);
        if (e) return e;
        r[i] = log(fmax(score.total, 1e-12) / (s[i].ns * 1e-9));
    }
    for (int i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && s[i].problem && s[j].problem == s[i].problem;) j++;
        sum += j > i + 1 ? (j - i) * stray(s, r, i, j) : huber(r[i], linear_from);
    }
    for (int i = 0; i < p->ncoefs; i++) {
        const double way = coef[i] > 0 ? log(coef[i] / start[i]) : 0;
        sum += pull * n * way * way;
    }
    *out = sum / n;
    return OK;
}

Err cost_fit(Cx *cx, const CostPolicy *p, const FitSample *s, int n, const double *start, uint64_t held, Fit *out) {
    static const double steps[] = {4, 2, 1.4, 1.15, 1.05, 1.02};
    enum { MOST_ROUNDS = 40, PASSES = 4 }; /* rounds of one step width; passes over all of them */
    *out = (Fit){0};
    if (n < 1) return diag(cx, S_ARG, NOWHERE, "1 or more", "a fit of %d samples", n);
    for (int i = 0; i < n; i++)
        if (!(s[i].ns > 0) || !isfinite(s[i].ns))
            return diag(cx, S_ARG, NOWHERE, "above 0", "sample %d took %g ns", i, s[i].ns);
    double *r = NEWN(cx->a, double, n);
    memcpy(out->coef, start, sizeof *start * (size_t)p->ncoefs);
    Err e = error_of(cx, p, s, n, start, out->coef, r, &out->before);
    double best = out->before;
    for (int w = 0; w < PASSES * COUNT(steps) && !e; w++) {
        const double step = steps[w % COUNT(steps)];
        bool moved = true;
        for (int round = 0; moved && round < MOST_ROUNDS && !e; round++) {
            moved = false;
            for (int i = 0; i < 2 * p->ncoefs && !e; i++) {
                double now = out->coef[i / 2], err;
                if (!(now > 0) || held >> (i / 2) & 1) continue;
                out->coef[i / 2] = i % 2 ? now / step : now * step;
                e = error_of(cx, p, s, n, start, out->coef, r, &err);
                if (!e && err < best * (1 - 1e-6))
                    best = err, moved = true;
                else
                    out->coef[i / 2] = now;
            }
        }
    }
    out->after = best;
    return e;
}
