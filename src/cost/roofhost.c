/* Seconds of a launch on a host: rows one after the other, each a few registers wide.
 *   join(memory, cache, near + arithmetic + special + chain + path)
 *   join(t...) = (sum t^overlap)^(1/overlap): 1 adds terms up, a large exponent takes the largest
 * memory: bytes that the last cache does not have; cache: all that passes it; near: what a core's own caches give;
 * path: what a row costs whatever is in it, its steps and its joins. */
#include "roof.h"

#include <math.h>

enum { REGISTERS = 32, REGISTERS_AVX2 = 16, LINE = 64 };

/* Accesses of a subgroup: of memory, of stripes, and of values that found no register. */
static double accesses(const Demand *d, const Caps *caps, double subgroups) {
    const double registers = caps->isa == ISA_AVX2 ? REGISTERS_AVX2 : REGISTERS;
    const double spilt = fmax(0, d->live_values - registers / subgroups);
    return d->lane_ops[COST_MEMORY] + (d->lane.private_read + d->lane.private_write) / 4 + 2 * spilt * d->lane_packs;
}

typedef struct Traffic { /* bytes of a launch */
    double all;          /* that pass the last cache */
    double miss;         /* that it does not have */
    double near;         /* of a row, from its core's own caches */
    double ahead;        /* of a row, prefetched */
    bool first;          /* near is the first of them */
    bool stays;          /* what is prefetched stays until it is used */
} Traffic;

/* Bytes of a row that go past the caches: whole lines of a shifted row; else the rows that start with a register of the
 * narrowest output, which is chance where rows do not end with one. */
static double streamed(const Demand *d, const Launch *l) {
    if (!l->stream || d->store_bytes <= 0) return 0;
    if (l->shifted) return fmax(0, d->pack_write - LINE);
    const int64_t part = (int64_t)(l->subgroup * d->store_bytes);
    int64_t x = part, y = l->rows > 1 && d->pack_write < 0x1p53 ? (int64_t)d->pack_write : 0;
    while (y) {
        const int64_t left = x % y;
        x = y, y = left;
    }
    return d->pack_write * (double)x / (double)part;
}

static Traffic traffic(const Demand *d, const Caps *caps, const Launch *l, const double *k) {
    const double rows = (double)l->rows, write = d->row.global_write;
    const double first = roof_first(d);
    const double stripes = d->row.private_read + d->row.private_write, again = d->row.global_read - first;
    const double set = first + write + d->stripe_slots * 4 * l->lanes; /* what a row touches */
    const Once once = roof_once(d, l);
    /* a streaming store goes past the caches, which have room for other bytes; a plain one reads its line before */
    const double past = rows * streamed(d, l), stored = rows * write - past;
    const double has = roof_has(caps, l, once.read + stored, k[KEPT]);
    Traffic t = {.miss = past + (once.read + stored * (1 + k[ALLOCATE])) * (1 - has), .ahead = l->prefetch ? first : 0};
    const double second = (double)i64_max(caps->l1_bytes, caps->l2_bytes);
    const bool fits = set <= second;
    t.first = set <= (double)caps->l1_bytes;
    t.near = fits ? stripes + again : 0;
    t.all = rows * (first + write + (fits ? 0 : stripes + again));
    t.stays = l->prefetch && set + first * l->prefetch <= second; /* else it comes twice */
    if (l->prefetch && !t.stays) t.all += rows * first, t.miss += rows * first * (1 - has);
    return t;
}

static double join(const double *t, int n, double overlap) {
    double most = 0, sum = 0;
    for (int i = 0; i < n; i++) most = fmax(most, t[i]);
    for (int i = 0; i < n && most > 0; i++) sum += pow(t[i] / most, overlap);
    return most > 0 ? most * pow(sum, 1 / overlap) : 0;
}

double roof_host(const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    const Traffic t = traffic(d, caps, l, k);
    const double *n = d->lane_ops;
    const double rate = caps->copy_bytes_per_s * k[COPY], subgroups = (double)ceil_div(l->lanes, l->subgroup);
    const double rows = ceil((double)ceil_div(l->rows, l->rows_per_group) / roof_units(caps)) * l->rows_per_group;
    const double flight = roof_at_least_1(l->flight), levels = ceil(log2(l->lanes));
    /* registers narrower than a line stream part of it, where rows do not end with a line */
    const bool parts = !l->shifted && l->stream && d->store_bytes > 0 && l->subgroup * d->store_bytes < LINE &&
                       fmod(d->pack_write, LINE) > 0;
    /* two steps more of each sweep, for any part of them */
    const double ends = l->shifted && d->lane_packs > 0 ? 1 + 2 * d->lane_waits / d->lane_packs : 1;
    const double issue = n[COST_ALU] / k[ALU] + n[COST_DIV] / k[DIV] + n[COST_CONVERT] / k[CONVERT] +
                         accesses(d, caps, subgroups) / k[ACCESS];
    const double each = k[ROW] + d->lane_packs / flight * k[TURN] + d->collectives * levels * k[STEP] +
                        t.ahead / LINE * k[AHEAD] + (parts ? k[PARTIAL] : 0);
    const double memory = t.miss / rate * (t.stays ? k[PREFETCHED] : 1), cache = t.all / (rate * k[CACHED]);
    const double near = rows * t.near / k[t.first ? NEAR : SECOND] * roof_ns;
    /* rows side by side come a register at a time, take a sweep's steps together, and fill each other's waits */
    const double side = l->lanes == 1 && l->rows_per_group >= l->subgroup ? l->rows_per_group : 1;
    const double turns = rows / side, registers = turns * ceil(side / l->subgroup) * subgroups;
    const double arithmetic = registers * ends * issue * roof_ns;
    const double special = registers * ends * n[COST_SPECIAL] / k[SPECIAL] * roof_ns;
    const double chain = side > l->subgroup ? 0 : turns * d->lane_chain * k[CHAIN] * roof_ns;
    const double path = turns * each * roof_ns;
    score_add(out, "memory", "s", memory);
    score_add(out, "cache", "s", cache);
    score_add(out, "near", "s", near);
    score_add(out, "arithmetic", "s", arithmetic);
    score_add(out, "special", "s", special);
    score_add(out, "chain", "s", chain);
    score_add(out, "path", "s", path);
    /* a row alone has no neighbour to fill its waits */
    const bool together = l->stagger && l->rows > 1;
    const double work = together ? k[STAGGERED] : 1, apart = together ? k[APART] : 1;
    const double all[] = {memory * apart, cache * apart, (near + arithmetic + special + chain + path) * work};
    return join(all, COUNT(all), roof_at_least_1(k[OVERLAP]));
}
