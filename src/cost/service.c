/* The prior system's second score: the busiest lane's work times waves, plus bytes moved.
 *   waves = max(1, groups*S*P / capacity)                        groups = ceil(rows / P); inactive rows of a last group
 * count local = rounds*round + R*S*collective + (lane's private bytes)*private-byte total = dispatch + local*waves +
 * (rows read*read bytes + rows*written bytes)*memory-byte + (lane's global bytes)*global-byte Rows are read again by a
 * last group's inactive rows where a barrier keeps them running (S > 1 and P > 1). The coefficients were fitted by the
 * prior system on one machine and never published but for two: capacity 512 and private-byte 0. The others default to
 * nominal figures in nanoseconds of a GPU of that class (2 us a dispatch, 400 GB/s, a few ns a step), to be replaced by
 * a fit. */
#include "cost.h"

#include <math.h>

enum { DISPATCH, ROUND, COLLECTIVE, PRIVATE_BYTE, MEMORY_BYTE, GLOBAL_BYTE, CAPACITY };
static const Coef coefs[] = {
    [DISPATCH] = {"dispatch", "ns", 2000, 0, 0},           [ROUND] = {"round", "ns", 5, 0, 0},
    [COLLECTIVE] = {"collective", "ns", 10, 0, 0},         [PRIVATE_BYTE] = {"private-byte", "ns/B", 0, 0, 0},
    [MEMORY_BYTE] = {"memory-byte", "ns/B", 0.0025, 0, 0}, [GLOBAL_BYTE] = {"global-byte", "ns/B", 1, 0, 0},
    [CAPACITY] = {"capacity", "subgroups", 512, 0, 0},
};

static Err score(Cx *cx, const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    (void)cx, (void)caps;
    double S = (double)ceil_div(l->lanes, l->subgroup), P = l->rows_per_group;
    double groups = (double)ceil_div(l->rows, l->rows_per_group);
    double waves = k[CAPACITY] > 0 ? fmax(1, groups * S * P / k[CAPACITY]) : 1;
    double local = d->lane_rounds * k[ROUND] + d->reductions * S * k[COLLECTIVE] +
                   (d->lane.private_read + d->lane.private_write) * k[PRIVATE_BYTE];
    double rows_read = S > 1 && P > 1 ? groups * P : (double)l->rows;
    double memory = (rows_read * d->row.global_read + (double)l->rows * d->row.global_write) * k[MEMORY_BYTE];
    double access = (d->lane.global_read + d->lane.global_write) * k[GLOBAL_BYTE];
    out->total = k[DISPATCH] + local * waves + memory + access;
    score_add(out, "dispatch", "ns", k[DISPATCH]);
    score_add(out, "lane's work", "ns", local);
    score_add(out, "waves", "", waves);
    score_add(out, "memory", "ns", memory);
    score_add(out, "lane's access", "ns", access);
    return OK;
}

const CostPolicy service_policy = {
    "service", "the prior system's second score: the busiest lane's work times waves, plus bytes moved",
    true,      score,
    coefs,     COUNT(coefs)};
