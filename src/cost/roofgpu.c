/* Seconds of a launch on a GPU: groups side by side, as many as a unit has room for; the rest waits for their places.
 *   crowd * (memory + cache + arithmetic + special + waves * path + groups)
 * memory: bytes that the last cache does not have; cache: all that passes it; arithmetic, special: instructions of the
 * busiest unit, idle lanes and a last, partial wave included; path: what a group waits for from start to end; waves:
 * how often groups follow each other in one place; groups: what each group of a unit costs beyond its first; crowd:
 * groups of one launch on few units, because launches that wait have the places of others. Measured, terms add up
 * rather than hide each other: exponents between a sum and the largest were fitted and ended at the sum. */
#include "roof.h"

#include <math.h>

enum {
    UNIT_LANES = 2048,
    UNIT_GROUPS = 32,
    SCHEDULERS = 4, /* of a unit: fewer subgroups leave some idle */
    LANE_REGISTERS = 22,
    LINE = 128,
    STARTED = 2 /* packs that compilers start before the first is waited for */
};

/* Groups that a unit has room for: lanes, registers, on-chip memory. */
static double room(const Demand *d, const Caps *caps, const Launch *l) {
    const double lanes = (double)ceil_div((int64_t)l->lanes * l->rows_per_group, l->subgroup) * l->subgroup;
    /* registers are estimated from what lives at once until a compiler has said */
    const double each = l->registers ? l->registers : LANE_REGISTERS + 0.42 * d->live_values + 0.86 * d->stripe_slots;
    double n = fmin(UNIT_GROUPS, floor(UNIT_LANES / lanes));
    if (caps->registers > 0) n = fmin(n, floor((double)caps->registers / (lanes * fmin(each, 255))));
    if (caps->shared_bytes > 0 && d->shared_bytes > 0) n = fmin(n, floor((double)caps->shared_bytes / d->shared_bytes));
    return fmax(1, n);
}

/* Lines that an access of a subgroup touches, over those that it would touch if all its lanes were side by side. */
static double scatter(const Demand *d, const Launch *l) {
    const double elements = d->lane_ops[COST_MEMORY];
    if (!(elements > 0) || l->lanes >= l->subgroup) return 1;
    const double bytes = (d->lane.global_read + d->lane.global_write) / elements * roof_at_least_1(l->pack);
    const double rows = (double)l->subgroup / l->lanes, lines = rows * ceil(l->lanes * bytes / LINE);
    return roof_at_least_1(lines / roof_at_least_1(l->subgroup * bytes / LINE));
}

/* Bytes that the last cache does not have. What is streamed leaves it first, so that the inputs stay. */
static double missed(const Demand *d, const Caps *caps, const Launch *l, const double *k, double *share) {
    const Once once = roof_once(d, l);
    const double both = once.read + once.write, has = roof_has(caps, l, both, k[KEPT]);
    const double inputs = l->stream ? roof_has(caps, l, once.read, k[KEPT]) : has;
    const double miss = once.read * (1 - inputs) + once.write * (1 - has);
    *share = both > 0 ? miss / both : 0;
    return miss;
}

/* Launches that wait on units leave the groups of the next few places, which lie on the fewer units the more wait:
 * where there is room for four, and the work takes longer than the next launch to come. */
static double crowd(double places, double of_unit, double groups, const Caps *caps, const Launch *l, const double *k,
                    double work) {
    if (!l->queued || !(work > 0)) return 1;
    const double free = fmin(1, fmax(0, places / of_unit - 1) / 3), meet = fmin(1, groups / roof_units(caps));
    const double soon = pow(k[SOON] * roof_ns / work, 4);
    return 1 + k[l->groups_per_row > 1 ? CLUSTERED : CROWDED] * free * meet / (1 + soon);
}

double roof_gpu(const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    const double *n = d->lane_ops;
    const double rate = caps->copy_bytes_per_s * k[COPY], share = roof_at_least_1(l->groups_per_row);
    const double groups = (double)ceil_div(l->rows, l->rows_per_group) * share,
                 of_unit = ceil(groups / roof_units(caps));
    /* rows of a group lie in subgroups together */
    const double subgroups = (double)ceil_div((int64_t)l->lanes * l->rows_per_group, l->subgroup);
    const double issued = ceil(of_unit * subgroups / SCHEDULERS) * SCHEDULERS, pack = roof_at_least_1(l->pack);
    const double packs = n[COST_MEMORY] / pack,
                 places = l->resident ? fmin(l->resident, room(d, caps, l)) : room(d, caps, l);
    const double meeting = share > 1 ? k[l->split   ? SPLIT
                                         : l->bytes ? BYTES
                                                    : CLUSTER] +
                                           subgroups * k[GATHER]
                                     : k[BARRIER] + subgroups * k[MEET];
    double far;
    const double miss = missed(d, caps, l, k, &far);
    const double accesses = packs * scatter(d, l) + d->lane_shared / pack;
    const double waits = d->lane_waits * k[WAIT] + fmax(0, packs - STARTED * d->lane_waits) * k[FETCH];
    /* the longer a row keeps a lane, the further apart in memory groups read */
    const double drift = 1 + d->lane_packs * k[DRIFT], memory = miss / rate * drift;
    /* groups that take all rows read once what all rows share */
    const double own = fmin(groups, l->resident * roof_units(caps)) / share * d->group_read;
    const double cache =
        ((double)l->rows * (d->row.global_read + d->row.global_write) + own) / (rate * k[CACHED]) * drift;
    const double arithmetic = issued * (n[COST_ALU] / k[ALU] + n[COST_DIV] / k[DIV] + accesses / k[ACCESS]) * roof_ns;
    const double special = issued * n[COST_SPECIAL] / k[SPECIAL] * roof_ns;
    const double path = (k[ROW] + n[COST_DIV] * k[QUOTIENT] + d->lane_alone * k[ROOT] + d->lane_recur * k[RECUR] +
                         waits * (1 + k[FAR] * far) + d->join_levels * k[STEP] + d->barriers * meeting) *
                        roof_ns;
    const double lines = of_unit * l->rows_per_group * roof_first(d) / share / LINE;
    const double ahead = l->brought ? lines * k[BRING] * roof_ns : 0;
    const double waves = roof_at_least_1(ceil(of_unit / places)), more = fmax(0, of_unit - 1) * k[GROUP] * roof_ns;
    const double work = memory + cache + arithmetic + special + waves * path + more;
    const double crowds = crowd(places, of_unit, groups, caps, l, k, work);
    score_add(out, "memory", "s", memory);
    score_add(out, "cache", "s", cache);
    score_add(out, "arithmetic", "s", arithmetic);
    score_add(out, "special", "s", special);
    score_add(out, "path", "s", path);
    score_add(out, "waves", "", waves);
    score_add(out, "groups", "s", more);
    score_add(out, "crowd", "", crowds);
    score_add(out, "ahead", "s", ahead);
    return work * crowds + ahead;
}
