/* Seconds of a launch: the slowest of what overlaps, then what does not.
 *   total = max(memory, cache, near, arithmetic, special, waves * latency) + latency + launch
 * memory: bytes that only memory can deliver, at the machine's copy rate (or at the caches' when all rows fit in them);
 * cache: all global bytes at the caches' rate. On a host what a row has touched lies in its core's own caches as long
 * as it fits there: what is read again costs there what a kept copy does (near). The three that units do are counted
 * for the unit with most groups, so that a last, partial wave costs a whole one, and for the busiest lane, so that idle
 * lanes cost as well. latency: one group from start to end; a unit hides it behind the other groups it has room for.
 * The coefficients are nominal for current hosts and GPUs alike: rates are of subgroup instructions, where a core with
 * 16-lane vectors and a multiprocessor with 32-lane warps come out near each other. */
#include "cost.h"

#include <math.h>

enum { CACHED, ALU, DIV, SPECIAL, CONVERT, MEMORY, NEAR, SECOND, ROUND, STEP, BARRIER, CLUSTER, ROOM, COPY, LAUNCH };
static const Coef coefs[] = {
    [CACHED] = {"cached", "times the copy rate", 3},
    [ALU] = {"alu", "subgroup instructions/ns of a unit", 4},
    [DIV] = {"div", "subgroup instructions/ns of a unit", 0.3},
    [SPECIAL] = {"special", "subgroup instructions/ns of a unit", 0.8},
    [CONVERT] = {"convert", "subgroup instructions/ns of a unit", 2},
    [MEMORY] = {"access", "subgroup instructions/ns of a unit", 2},
    [NEAR] = {"near", "B/ns of a unit, from its first cache", 200},
    [SECOND] = {"second", "B/ns of a unit, from its second cache", 100},
    [ROUND] = {"round", "ns", 2},
    [STEP] = {"step", "ns a level of a joining tree", 5},
    [BARRIER] = {"barrier", "ns", 20},
    [CLUSTER] = {"cluster", "ns, a barrier over several groups", 400},
    [ROOM] = {"room", "lanes of a GPU's unit", 2048},
    [COPY] = {"copy", "times the machine's nominal copy rate", 1},
    [LAUNCH] = {"launch", "times the machine's nominal time of a launch", 1},
};

static Err score(Cx *cx, const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    bool host = caps->kind == KIND_HOST || caps->lanes_in_turn;
    if (!(caps->copy_bytes_per_s > 0))
        return diag(cx, S_ARG, NOWHERE, "above 0", "machine %s: copy_bytes_per_s=%g", caps->name,
                    caps->copy_bytes_per_s);
    for (int i = 0; i < COUNT(coefs); i++)
        if ((i <= SECOND || i == COPY) && !(k[i] > 0))
            return diag(cx, S_COST_COEFFICIENT, NOWHERE, "above 0", "policy roofline: %s=%g is a rate", coefs[i].name,
                        k[i]);
    const double ns = 1e-9;
    double units = caps->units > 1 ? caps->units : 1, rows = (double)l->rows, P = l->rows_per_group;
    double share = l->groups_per_row > 1 ? l->groups_per_row : 1;
    double groups = (double)ceil_div(l->rows, l->rows_per_group) * share, rows_of_unit = ceil(groups / units) * P;
    double subgroups = (double)ceil_div(l->lanes, l->subgroup);

    double once = (d->first_read > 0 ? d->first_read : d->row.global_read) + d->row.global_write;
    double all = d->row.global_read + d->row.global_write;
    double cache_bytes = (double)(caps->l3_bytes ? caps->l3_bytes : caps->l2_bytes);
    double rate = caps->copy_bytes_per_s * k[COPY],
           memory = rows * once / (rows * once <= cache_bytes ? rate * k[CACHED] : rate);
    /* a GPU's stripes are registers, which instructions read for free; a host's are memory like the rows themselves */
    double stripes = d->row.private_read + d->row.private_write, again = all - once, near = 0;
    double set = once + d->stripe_slots * 4 * l->lanes; /* what a row touches */
    if (host && set <= (double)i64_max(caps->l1_bytes, caps->l2_bytes)) {
        near = rows_of_unit * (stripes + again) / (set <= (double)caps->l1_bytes ? k[NEAR] : k[SECOND]) * ns;
        all = once;
    } else if (host) {
        all += stripes;
    }
    double cache = rows * all / (rate * k[CACHED]);

    const double *n = d->lane_ops;
    double kept = host ? (d->lane.private_read + d->lane.private_write) / 4 : 0, accesses = n[COST_MEMORY] + kept;
    double issue = n[COST_ALU] / k[ALU] + n[COST_DIV] / k[DIV] + n[COST_CONVERT] / k[CONVERT] + accesses / k[MEMORY];
    double arithmetic = rows_of_unit * subgroups * issue * ns;
    double special = rows_of_unit * subgroups * n[COST_SPECIAL] / k[SPECIAL] * ns;

    double levels = ceil(log2((double)l->lanes * share)), barrier = share > 1 ? k[CLUSTER] : k[BARRIER];
    double latency = (d->lane_rounds * k[ROUND] + d->collectives * levels * k[STEP] + d->barriers * barrier) * ns;
    double room = host ? 1 : fmax(1, floor(k[ROOM] / ((double)l->lanes * P)));
    double waves = ceil(groups / (units * room));
    if (host) latency *= P; /* rows of a task one after the other */

    double slowest = fmax(fmax(fmax(memory, cache), fmax(near, arithmetic)), fmax(special, waves * latency));
    double launch = fmax(1, d->launches) * caps->launch_s * k[LAUNCH];
    out->total = slowest + latency + launch;
    score_add(out, "memory", "s", memory);
    score_add(out, "cache", "s", cache);
    score_add(out, "near", "s", near);
    score_add(out, "arithmetic", "s", arithmetic);
    score_add(out, "special", "s", special);
    score_add(out, "latency", "s", latency);
    score_add(out, "waves", "", waves);
    score_add(out, "launch", "s", launch);
    return OK;
}

const CostPolicy roofline_policy = {
    "roofline",  "seconds: the slowest of memory, caches and arithmetic, plus what cannot overlap", true, score, coefs,
    COUNT(coefs)};
