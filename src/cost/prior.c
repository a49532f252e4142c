/* The prior system's analytic score: what a plan is compared with in every report. Dimensionless.
 *   program = round*rounds + collective*R*S + setup/P + global-byte*(lane's global bytes) + private-byte*(lane's
 * private bytes) total   = program * max(1, ceil(rows / concurrent)) */
#include "cost.h"

#include <math.h>

enum { ROUND, COLLECTIVE, SETUP, GLOBAL_BYTE, PRIVATE_BYTE, CONCURRENT };
static const Coef coefs[] = {
    [ROUND] = {"round", "", 1, 0, 0},
    [COLLECTIVE] = {"collective", "", 2, 0, 0},
    [SETUP] = {"setup", "", 16, 0, 0},
    [GLOBAL_BYTE] = {"global-byte", "1/B", 0, 0, 0},
    [PRIVATE_BYTE] = {"private-byte", "1/B", 0, 0, 0},
    [CONCURRENT] = {"concurrent", "rows", 64, 0, 0},
};

static Err score(Cx *cx, const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    (void)caps;
    if (!d->known && (k[GLOBAL_BYTE] > 0 || k[PRIVATE_BYTE] > 0))
        return diag(cx, S_COST_UNKNOWN, NOWHERE, "global-byte=0,private-byte=0",
                    "policy prior with byte coefficients needs the demand");
    double S = (double)ceil_div(l->lanes, l->subgroup);
    double rounds = k[ROUND] * d->lane_rounds;
    double collectives = k[COLLECTIVE] * d->reductions * S;
    double setup = k[SETUP] / l->rows_per_group;
    double global = k[GLOBAL_BYTE] * (d->lane.global_read + d->lane.global_write);
    double private = k[PRIVATE_BYTE] * (d->lane.private_read + d->lane.private_write);
    double program = rounds + collectives + setup + global + private;
    double waves = k[CONCURRENT] > 0 ? fmax(1, ceil((double)l->rows / k[CONCURRENT])) : 1;
    out->total = program * waves;
    score_add(out, "rounds", "", rounds);
    score_add(out, "collectives", "", collectives);
    score_add(out, "setup", "", setup);
    score_add(out, "global bytes", "", global);
    score_add(out, "private bytes", "", private);
    score_add(out, "program score", "", program);
    score_add(out, "waves", "", waves);
    return OK;
}

const CostPolicy prior_policy = {
    "prior", "the prior system's analytic score: rounds, collectives, a setup shared by the rows of a group",
    false,   score,
    coefs,   COUNT(coefs)};
