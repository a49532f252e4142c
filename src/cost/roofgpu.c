/* Seconds of a launch on a GPU: groups side by side, as many as a unit has room for; the rest waits for their places.
 *   join(crowd * (memory + cache + arithmetic + special + waves * path) + cramped + refill + ahead, dispatch)
 * memory: bytes that the last cache does not have; cache: all that passes it; arithmetic, special: instructions of the
 * busiest unit, idle lanes and a last, partial wave included; path: what a group waits for from start to end; waves:
 * how often groups follow each other in one place; crowd: groups of one launch on few units, because launches that
 * wait have the places of others; cramped: the next launch finds places for some of its groups; dispatch: one
 * dispatcher starts the groups of all units one by one, meanwhile. Measured, terms add up rather than hide each other:
 * exponents between a sum and the largest were fitted and ended at the sum, but for the dispatcher's. */
#include "roof.h"

#include <math.h>

enum {
    UNIT_LANES = 2048,
    UNIT_GROUPS = 32,
    SCHEDULERS = 4, /* of a unit: fewer subgroups leave some idle */
    LANE_REGISTERS = 22,
    REGISTERS_STEP = 8,    /* of a lane: they come so many at a time */
    GROUP_RESERVED = 1024, /* bytes of on-chip memory that each group has beside its own */
    REGISTER_BYTES = 4,
    PACK_BYTES = 16, /* of the widest access */
    LINE = 128,
    UNROLLED = 4, /* steps of a long sweep that a compiler writes out together */
    WHOLE_OPS = 4 /* a conversion to a whole number, as special functions */
};

/* Registers of a lane, estimated from what lives at once until a compiler has said. */
static double registers_of(const Demand *d, const Launch *l) {
    const double estimate = LANE_REGISTERS + 0.42 * d->live_values + 0.86 * d->stripe_slots;
    return fmin(l->registers ? l->registers : estimate, 255);
}

/* Groups that a unit has room for: lanes, registers of each scheduler, on-chip memory. */
static double room(const Demand *d, const Caps *caps, const Launch *l, double subgroups) {
    const double each = ceil(registers_of(d, l) / REGISTERS_STEP) * REGISTERS_STEP;
    double n = fmin(UNIT_GROUPS, floor(UNIT_LANES / (subgroups * l->subgroup)));
    if (caps->registers > 0) {
        const double of_scheduler = floor((double)caps->registers / SCHEDULERS / (each * l->subgroup));
        n = fmin(n, floor(SCHEDULERS * of_scheduler / subgroups));
    }
    if (caps->shared_bytes > 0)
        n = fmin(n, floor((double)(caps->shared_bytes + GROUP_RESERVED) / (d->shared_bytes + GROUP_RESERVED)));
    return fmax(1, n);
}

/* Bytes of a lane's access, in the mean. */
static double pack_bytes(const Demand *d, const Launch *l) {
    const double elements = d->lane_ops[COST_MEMORY];
    return elements > 0 ? (d->lane.global_read + d->lane.global_write) / elements * roof_at_least_1(l->pack) : 0;
}

/* Lines that an access of a subgroup touches, over those that it would touch if all its lanes were side by side. */
static double scatter(const Demand *d, const Launch *l) {
    const double bytes = pack_bytes(d, l);
    if (!(bytes > 0) || l->lanes >= l->subgroup) return 1;
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

/* Where units have room for several launches, many wait, and leave a launch the places of few units: most where there
 * is room for four, and the work takes longer than the next launch to come. Groups that leave schedulers idle share a
 * unit well, and groups of a cluster are spread over units. */
static double crowd(double rooms, double groups, double subgroups, const Caps *caps, const Launch *l, const double *k,
                    double work) {
    if (!l->queued || rooms < 2 || !(work > 0)) return 1;
    const double full = fmin(1, rooms / 4), meet = fmin(1, groups / roof_units(caps));
    const double busy = fmin(1, subgroups / SCHEDULERS);
    const double spread = fmin(1, 2 / sqrt(roof_at_least_1(l->groups_per_row)));
    const double soon = pow(k[SOON] * roof_ns / work, 4);
    return 1 + k[CROWDED] * full * meet * busy * spread / (1 + soon);
}

/* How often groups follow each other in one place: a second time for all where it is so for some, since they start and
 * end together; later groups start when places are free, and those of many waves in the mean. */
static double waves_of(double groups, double places, const Caps *caps) {
    const double fills = groups / roof_units(caps) / places;
    return fills > 1 && fills < 2 ? 2 : roof_at_least_1(fills);
}

/* How much of the next launch's coming early is lost where there are places for one launch and a part of the next: all
 * from a quarter on. */
static double part(double places, double groups, const Caps *caps) {
    const double launches = places * roof_units(caps) / fmax(groups, 1);
    return launches > 1 && launches < 2 ? fmin(1, 4 * (launches - 1)) : 0;
}

/* Groups of a launch that waits in all places of all units start, and so end, at once: only then does the dispatcher
 * start those of the next. */
static double refill(double places, double groups, const Caps *caps, const Launch *l) {
    const double all = places * roof_units(caps);
    return l->queued && places >= UNIT_GROUPS && groups <= all && 2 * groups > all ? 1 : 0;
}

/* Accesses of a lane, in those of 16 bytes: a narrow one takes less time by the lines that a subgroup touches, but is
 * an instruction too. */
static double accesses_of(const Demand *d, const double *k) {
    const double narrow = fmin(1, k[NARROW]);
    return narrow * d->gpu.accesses + (1 - narrow) * d->gpu.lines;
}

/* What the sweeps of a lane wait for: as many packs are on their way as there are registers for. */
static double waits(const Demand *d, const Launch *l, const double *k, double packs) {
    const double held = k[HELD] * fmax(REGISTER_BYTES, pack_bytes(d, l)) / PACK_BYTES;
    const double room = (registers_of(d, l) - k[OWN]) / held, most = UNROLLED * roof_at_least_1(l->flight);
    const double flight = roof_at_least_1(fmin(room, most));
    return fmax(fmax(d->lane_waits, d->gpu.turns), packs / flight) * k[WAIT] + accesses_of(d, k) * k[FETCH];
}

double roof_gpu(const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    const double *n = d->lane_ops;
    const double rate = caps->copy_bytes_per_s * k[COPY], share = roof_at_least_1(l->groups_per_row);
    const double groups = (double)ceil_div(l->rows, l->rows_per_group) * share,
                 of_unit = ceil(groups / roof_units(caps));
    /* rows of a group lie in subgroups together */
    const double subgroups = (double)ceil_div((int64_t)l->lanes * l->rows_per_group, l->subgroup);
    const double issued = ceil(of_unit * subgroups / SCHEDULERS) * SCHEDULERS, pack = roof_at_least_1(l->pack);
    const double packs = n[COST_MEMORY] / pack, fits = room(d, caps, l, subgroups),
                 places = l->resident ? fmin(l->resident, fits) : fits;
    const double rooms = places / of_unit; /* for launches */
    const double meeting = share > 1 ? k[l->split   ? SPLIT
                                         : l->bytes ? BYTES
                                                    : CLUSTER] +
                                           subgroups * k[GATHER]
                                     : k[BARRIER] + subgroups * k[MEET];
    double far;
    const double miss = missed(d, caps, l, k, &far);
    const double accesses = accesses_of(d, k) * scatter(d, l) + d->lane_shared / pack;
    /* the longer a row keeps a lane, the further apart in memory groups read */
    const double drift = 1 + d->lane_packs * k[DRIFT], memory = miss / rate * drift;
    /* groups that take all rows read once what all rows share */
    const double own = fmin(groups, l->resident * roof_units(caps)) / share * d->group_read;
    const double cache = ((double)l->rows * (d->row.global_read + d->row.global_write + k[TORN] * d->gpu.torn) + own) /
                         (rate * k[CACHED]) * drift;
    const double arithmetic = issued * (n[COST_ALU] / k[ALU] + n[COST_DIV] / k[DIV] + accesses / k[ACCESS]) * roof_ns;
    const double functions = n[COST_SPECIAL] + WHOLE_OPS * d->lane_whole;
    const double special = issued * functions / k[SPECIAL] * roof_ns;
    const double path = (k[ROW] + (n[COST_DIV] + d->lane_alone) * k[QUOTIENT] + functions * k[FUNCTION] +
                         waits(d, l, k, packs) * (1 + k[FAR] * (l->brought ? 0 : far)) + d->join_levels * k[STEP] +
                         d->barriers * meeting) *
                        roof_ns;
    const double lines = of_unit * l->rows_per_group * roof_first(d) / share / LINE;
    const double ahead = l->brought ? lines * k[BRING] * roof_ns : 0;
    const double waves = waves_of(groups, places, caps);
    const double work = memory + cache + arithmetic + special + waves * path;
    const double crowds = crowd(rooms, groups, subgroups, caps, l, k, work);
    const double cramped = l->overlap ? part(places, groups, caps) * k[CRAMPED] * roof_ns : 0;
    const double started = l->resident ? fmin(groups, l->resident * roof_units(caps)) : groups;
    const double dispatch = started * k[DISPATCH] * roof_ns;
    const double refilled = refill(places, groups, caps, l) * dispatch * k[REFILL];
    score_add(out, "memory", "s", memory);
    score_add(out, "cache", "s", cache);
    score_add(out, "arithmetic", "s", arithmetic);
    score_add(out, "special", "s", special);
    score_add(out, "path", "s", path);
    score_add(out, "waves", "", waves);
    score_add(out, "crowd", "", crowds);
    score_add(out, "cramped", "s", cramped);
    score_add(out, "dispatch", "s", dispatch);
    score_add(out, "refill", "s", refilled);
    score_add(out, "ahead", "s", ahead);
    return cbrt(pow(work * crowds + cramped + refilled + ahead, 3) + pow(dispatch, 3));
}
