/* Measured launches -> coefficients of a policy. Each coefficient stays what it means (a rate, a time), so it is only
 * ever scaled: it cannot become negative, and one that is 0 stays out. The error is the mean over the samples of a
 * function of log(score / time) that grows linearly where it is large, so that a launch which the policy cannot explain
 * does not bend the others (Huber 1964). Coordinate descent, coarse steps first; the same samples give the same
 * coefficients. */
#include "cost.h"

#include <math.h>
#include <string.h>

static const double linear_from = 0.25, pull = 0.001; /* pull: of a coefficient back to where it started, so that one
                                                         which the samples say nothing about stays there */

static Err error_of(Cx *cx, const CostPolicy *p, const Caps *caps, const FitSample *s, int n, const double *start,
                    const double *coef, double *out) {
    double sum = 0;
    for (int i = 0; i < p->ncoefs; i++) {
        double way = coef[i] > 0 ? log(coef[i] / start[i]) : 0;
        sum += pull * n * way * way;
    }
    for (int i = 0; i < n; i++) {
        Score score;
        Err e = cost_score(cx, p, &s[i].demand, caps, &s[i].launch, coef, &score);
        if (e) return e;
        double r = fabs(log(fmax(score.total, 1e-12) / (s[i].ns * 1e-9)));
        sum += r < linear_from ? r * r / 2 : linear_from * (r - linear_from / 2);
    }
    *out = sum / n;
    return OK;
}

Err cost_fit(Cx *cx, const CostPolicy *p, const Caps *caps, const FitSample *s, int n, const double *start, Fit *out) {
    static const double steps[] = {4, 2, 1.4, 1.15, 1.05, 1.02};
    enum { MOST_ROUNDS = 40 }; /* of one step width */
    *out = (Fit){0};
    if (n < 1) return diag(cx, S_ARG, NOWHERE, "1 or more", "a fit of %d samples", n);
    for (int i = 0; i < n; i++)
        if (!(s[i].ns > 0) || !isfinite(s[i].ns))
            return diag(cx, S_ARG, NOWHERE, "above 0", "sample %d took %g ns", i, s[i].ns);
    double from[MAX_COEFS] = {0};
    for (int i = 0; i < p->ncoefs; i++) out->coef[i] = from[i] = start ? start[i] : p->coef[i].def;
    Err e = error_of(cx, p, caps, s, n, from, out->coef, &out->before);
    double best = out->before;
    for (int w = 0; w < COUNT(steps) && !e; w++) {
        bool moved = true;
        for (int round = 0; moved && round < MOST_ROUNDS && !e; round++) {
            moved = false;
            for (int i = 0; i < 2 * p->ncoefs && !e; i++) {
                double now = out->coef[i / 2], err;
                out->coef[i / 2] = i % 2 ? now / steps[w] : now * steps[w];
                e = error_of(cx, p, caps, s, n, from, out->coef, &err);
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
