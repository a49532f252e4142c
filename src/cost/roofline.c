/* Seconds of a launch, from counted work and rates of the machine. Hosts and GPUs have forms of their own
 * (roofhost.c, roofgpu.c); here are the coefficients of both, what the last cache has, and the launch itself. Every
 * coefficient is a rate or a time of the machine, or a share of one; docs/cost.md has the formulas. */
#include "roof.h"

#include <math.h>

static const Coef coefs[] = {
    [COPY] = {"copy", "times the machine's nominal copy rate", 0.421, 2.55, 0.367},
    [CACHED] = {"cached", "times the copy rate", 4.14, 2.09, 1.3},
    [ALU] = {"alu", "subgroup instructions/ns of a unit", 23.3, 7.39, 6.75},
    [DIV] = {"div", "subgroup instructions/ns of a unit", 2.99, 1.49, 0.641},
    [SPECIAL] = {"special", "subgroup instructions/ns of a unit", 0.8, 2.59, 0.8},
    [ACCESS] = {"access", "subgroup accesses/ns of a unit", 10.7, 1.18, 41.7},
    [KEPT] = {"kept", "times the last cache: up to so many bytes it keeps all, of one time more none", 0.164, 0.119,
              0.0109},
    [STEP] = {"step", "ns a level of a joining tree", 0, 10.2, 0},
    [ROW] = {"row", "ns a row of a host, a group of a GPU", 0.307, 21.1, 0.381},
    [LAUNCH] = {"launch", "times the machine's nominal time of a launch", 0.0114, 0.418, 0.00559},
    [SECOND] = {"second", "B/ns of a core, from its second cache", 160, 0, 137},
    [CONVERT] = {"convert", "instructions/ns on whole numbers and bits, and of conversions", 6.18, 0, 6.77},
    [SCALAR] = {"scalar", "instructions/ns that are no register's", 26.3, 0, 41.7},
    [TURN] = {"turn", "ns a turn of a loop", 0.0128, 0, 0.117},
    [SWEEP] = {"sweep", "ns a sweep", 0.92, 0, 1.14},
    [CHAIN] = {"chain", "ns a cycle of what waits for each other", 0.181, 0, 0.217},
    [DEPTH] = {"depth", "ns a cycle of the longest way through a step", 0.0562, 0, 0.0252},
    [WINDOW] = {"window", "instructions that a core looks ahead", 54, 0, 70.7},
    [SPILL] = {"spill", "ns a register that is made and finds no room", 0.107, 0, 0.103},
    [STORED] = {"stored", "ns a register folded into memory", 0.228, 0, 0.294},
    [PART] = {"part", "ns an access of a part of a register", 9, 0, 9.18},
    [AHEAD] = {"ahead", "ns a line that is prefetched", 0.0546, 0, 0.0763},
    [PREFETCHED] = {"prefetched", "times the time of reads from memory, where rows are prefetched", 0.838, 0, 0.369},
    [ALLOCATE] = {"allocate", "times its bytes: reading a line that a plain store then overwrites", 0.572, 0, 1.33},
    [PARTIAL] = {"partial", "ns a row that streams part of a line", 233, 0, 255},
    [FLUSH] = {"flush", "ns a line that is streamed and in a core's cache", 12.1, 0, 7.91},
    [FENCE] = {"fence", "ns a call that streams", 125, 0, 48.7},
    [STAGGERED] = {"staggered", "times the ways through steps, where sweeps of neighbouring rows run together", 1.21, 0,
                   0.424},
    [APART] = {"apart", "times the memory's time, where they do and reach several rows at a time", 0.82, 0, 0.82},
    [OVERLAP] = {"overlap", "exponent, 1 or more: how far parts of the machine work at the same time", 1.73, 0, 1.63},
    [WAIT] = {"wait", "ns a sweep that loads, or packs on their way at once", 0, 94.1, 0},
    [FETCH] = {"fetch", "ns an access of a lane, of 16 bytes", 0, 12.4, 0},
    [FAR] = {"far", "times a pack's wait, more, where the last cache does not have it", 0, 0.751, 0},
    [QUOTIENT] = {"quotient", "ns a division of a lane, or a special function outside of sweeps", 0, 60.9, 0},
    [BARRIER] = {"barrier", "ns", 0, 36.6, 0},
    [MEET] = {"meet", "ns a barrier, for each subgroup that meets there", 0, 10.2, 0},
    [CLUSTER] = {"cluster", "ns, a barrier over several groups", 0, 412, 0},
    [GATHER] = {"gather", "ns a barrier over several groups, for each subgroup of one", 0, 20.1, 0},
    [BYTES] = {"bytes", "ns, a cluster whose groups wait for the bytes that they are sent", 0, 83.9, 0},
    [SPLIT] = {"split", "ns, groups that meet in device memory", 0, 611, 0},
    [OVERLAPPED] = {"overlapped", "times a launch, where the next starts before it ends", 0, 0.431, 0},
    [LATE] = {"late", "ns, where it starts only when this one's turn has come", 0, 169, 0},
    [BROUGHT] = {"brought", "times `late`, where its rows are brought into the cache meanwhile", 0, 0.347, 0},
    [CROWDED] = {"crowded", "times the work, more, where waiting launches have all places", 0, 0.807, 0},
    [SOON] = {"soon", "ns of work in which the next launch has come", 0, 101, 0},
    [REFILL] = {"refill", "times the dispatcher's time, more, where a launch that waits fills all groups of all units",
                0, 0.372, 0},
    [DRIFT] = {"drift", "times the time of bytes, more, for each pack of a lane", 0, 0.0124, 0},
    [DISPATCH] = {"dispatch", "ns a group, of all units", 0, 1.01, 0},
    [FUNCTION] = {"function", "ns a special function of a lane", 0, 4.34, 0},
    [OWN] = {"own", "registers of a lane that hold no pack on its way", 0, 3.31, 0},
    [HELD] = {"held", "registers a pack of 16 bytes on its way", 0, 5.82, 0},
    [CRAMPED] = {"cramped", "ns, where the next launch finds places for some of its groups, but not for all", 0, 434,
                 0},
    [NARROW] = {"narrow", "times an access of 16 bytes a lane, one of next to nothing", 0, 0.0466, 0},
    [TORN] = {"torn", "times the time of bytes, more, for those written in pieces of a sector", 0, 4.32, 0},
    [BRING] = {"bring", "ns a line of a unit that is brought into the cache ahead", 0, 0.444, 0},
};
_Static_assert(COUNT(coefs) == ROOF_COEFS && (int)ROOF_COEFS <= (int)MAX_COEFS, "a row for each coefficient");

Once roof_once(const Demand *d, const Launch *l) {
    return (Once){.read = (double)l->rows * (roof_first(d) - d->weight_read) + d->weight_read + d->group_read,
                  .write = (double)l->rows * d->row.global_write};
}

double roof_has(const Caps *caps, const Launch *l, double bytes, double kept) {
    const double cache = (double)(caps->l3_bytes ? caps->l3_bytes : caps->l2_bytes);
    return cache > 0 ? fmin(1, fmax(0, 1 + kept - bytes * roof_at_least_1(l->copies) / cache)) : 0;
}

double roof_units(const Caps *caps) {
    return caps->units > 1 ? caps->units : 1;
}

/* What starting it costs, beside other launches in turn. */
static double launch_of(const Demand *d, const Caps *caps, const Launch *l, const double *k) {
    const double each = caps->launch_s * k[LAUNCH], calls = roof_at_least_1(d->launches);
    if (!l->overlap) return calls * each;
    return calls * (each * k[OVERLAPPED] + (l->queued ? 0 : k[LATE] * (l->brought ? k[BROUGHT] : 1) * roof_ns));
}

static Err score(Cx *cx, const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    if (!(caps->copy_bytes_per_s > 0))
        return diag(cx, S_ARG, NOWHERE, "above 0", "machine %s: copy_bytes_per_s=%g", caps->name,
                    caps->copy_bytes_per_s);
    const bool host = caps->kind == KIND_HOST || caps->lanes_in_turn;
    static const int rates[] = {COPY, CACHED, ALU, DIV, SPECIAL, ACCESS, SECOND, CONVERT, SCALAR};
    for (int i = 0; i < (host ? COUNT(rates) : 6); i++)
        if (!(k[rates[i]] > 0))
            return diag(cx, S_COST_COEFFICIENT, NOWHERE, "above 0", "policy roofline: %s=%g is a rate",
                        coefs[rates[i]].name, k[rates[i]]);
    const double work = (host ? roof_host : roof_gpu)(d, caps, l, k, out), launch = launch_of(d, caps, l, k);
    out->total = work + launch;
    score_add(out, "launch", "s", launch);
    return OK;
}

const CostPolicy roofline_policy = {"roofline",  "seconds: memory, caches, arithmetic and latency", true, score, coefs,
                                    COUNT(coefs)};
