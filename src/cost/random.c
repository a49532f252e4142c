/* A number in [0, 1) from the demand and the launch, the same on any machine: for tests of what a policy must not
 * change. */
#include "cost.h"

#include <string.h>

static const Coef coefs[] = {{"seed", "", 0, 0, 0}};

static Err score(Cx *cx, const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    (void)cx, (void)caps;
    /* the part of Demand that is all doubles, then the rest field by field: padding has no say */
    size_t from = offsetof(Demand, lane), bytes = offsetof(Demand, reductions) - from;
    uint64_t rest[] = {d->known,           (uint64_t)d->reductions, (uint64_t)l->rows,
                       (uint64_t)l->lanes, (uint64_t)l->subgroup,   (uint64_t)l->rows_per_group};
    Hash a = hash_bytes((const char *)d + from, bytes), b = hash_bytes(rest, sizeof rest);
    Rng r = {a.lo ^ b.hi ^ hash_bytes(k, sizeof *k).lo};
    out->total = rng_unit(&r);
    return OK;
}

const CostPolicy random_policy = {
    "random", "drawn from the demand: for tests of what a policy must not change", false, score, coefs, COUNT(coefs)};
