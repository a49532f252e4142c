/* Seconds of a launch.
 *   host:  join(memory, cache, near + arithmetic + special + chain + path) + launch
 *   GPU:   crowd * join(memory, cache, arithmetic + special + waves * path + dispatch) + path + launch
 *   join(t...) = (sum t^overlap)^(1/overlap): 1 adds terms up, a large exponent takes the largest
 * memory: bytes that the last cache does not have; cache: all that passes it; near: on hosts, what a core's own caches
 * give; arithmetic, special: instructions of the busiest unit, idle lanes and a last, partial wave included; path: what
 * a row of a host, or a group of a GPU, waits for from start to end; waves: how often groups follow each other in one
 * place. Every coefficient is a rate or a time of the machine, or a share of one; docs/cost.md has the formulas. */
#include "cost.h"

#include <math.h>

enum {
    COPY,
    CACHED,
    NEAR,
    SECOND,
    ALU,
    DIV,
    SPECIAL,
    CONVERT,
    ACCESS,
    TURN,
    CHAIN,
    FETCH,
    FAR,
    WAIT,
    SHARED,
    DISPATCH,
    STEP,
    BARRIER,
    MEET,
    CLUSTER,
    ROW,
    LAUNCH,
    OVERLAPPED,
    CROWDED,
    PREFETCHED,
    ALLOCATE,
    PARTIAL,
    STAGGERED,
    APART,
    OVERLAP
};
static const Coef coefs[] = {
    [COPY] = {"copy", "times the machine's nominal copy rate", 0.36, 2.5},
    [CACHED] = {"cached", "times the copy rate", 6.2, 1.3},
    [NEAR] = {"near", "B/ns of a unit, from its first cache", 110, 0},
    [SECOND] = {"second", "B/ns of a unit, from its second cache", 90, 0},
    [ALU] = {"alu", "subgroup instructions/ns of a unit", 5.6, 8.6},
    [DIV] = {"div", "subgroup instructions/ns of a unit", 11, 0.53},
    [SPECIAL] = {"special", "subgroup instructions/ns of a unit", 0.8, 1},
    [CONVERT] = {"convert", "subgroup instructions/ns of a unit", 1.4, 15},
    [ACCESS] = {"access", "subgroup accesses/ns of a unit", 47, 0.84},
    [TURN] = {"turn", "ns a step of a sweep", 0.22, 0.51},
    [CHAIN] = {"chain", "ns an addition that waits for the one before", 0.2, 0.5},
    [FETCH] = {"fetch", "ns a pack that a lane waits for", 0, 20},
    [FAR] = {"far", "times a pack's wait, more, where the last cache does not have it", 0, 1.2},
    [WAIT] = {"wait", "ns a sweep that loads", 0, 47},
    [SHARED] = {"shared", "ns a pack to or from on-chip memory", 0, 1.6},
    [DISPATCH] = {"dispatch", "ns a subgroup of a unit", 0, 3.1},
    [STEP] = {"step", "ns a level of a joining tree", 0.31, 6.5},
    [BARRIER] = {"barrier", "ns", 0, 21},
    [MEET] = {"meet", "ns a barrier, for each subgroup that meets there", 0, 1.2},
    [CLUSTER] = {"cluster", "ns, a barrier over several groups", 0, 310},
    [ROW] = {"row", "ns a row of a host, a group of a GPU", 7.5, 140},
    [LAUNCH] = {"launch", "times the machine's nominal time of a launch", 0.099, 0.34},
    [OVERLAPPED] = {"overlapped", "times a launch, where the next starts before it ends", 0, 0.46},
    [CROWDED] = {"crowded", "launches that wait on units already, for a launch's time of work of this one", 0, 0.12},
    [PREFETCHED] = {"prefetched", "times the memory's time, where rows are prefetched", 1, 0},
    [ALLOCATE] = {"allocate", "times its bytes: reading a line that a plain store then overwrites", 0.35, 0},
    [PARTIAL] = {"partial", "ns a row that streams part of a line", 97, 0},
    [STAGGERED] = {"staggered", "times a core's work, where sweeps of neighbouring rows run together", 0.7, 0},
    [APART] = {"apart", "times the memory's time, where they do and reach several rows at a time", 1.15, 0},
    [OVERLAP] = {"overlap", "exponent, 1 or more: how far parts of the machine work at the same time", 2.5, 1},
};

enum {
    UNIT_LANES = 2048,
    UNIT_GROUPS = 32,
    LANE_REGISTERS = 22,
    HOST_REGISTERS = 32,
    HOST_REGISTERS_AVX2 = 16,
    LINE = 64,
    GPU_LINE = 128,
    STARTED = 3 /* packs that compilers start before the first is waited for */
};

static double at_least_1(double x) {
    return fmax(1, x);
}

/* Groups that a GPU's unit has room for: lanes, registers, on-chip memory. */
static double room(const Demand *d, const Caps *caps, const Launch *l) {
    const double lanes = (double)ceil_div((int64_t)l->lanes * l->rows_per_group, l->subgroup) * l->subgroup;
    /* registers are estimated from what lives at once until a compiler has said */
    const double each = l->registers ? l->registers : LANE_REGISTERS + 0.42 * d->live_values + 0.86 * d->stripe_slots;
    double n = fmin(UNIT_GROUPS, floor(UNIT_LANES / lanes));
    if (caps->registers > 0) n = fmin(n, floor((double)caps->registers / (lanes * fmin(each, 255))));
    if (caps->shared_bytes > 0 && d->shared_bytes > 0) n = fmin(n, floor((double)caps->shared_bytes / d->shared_bytes));
    return fmax(1, n);
}

/* Accesses of a subgroup: of memory, of stripes, and of values that found no register. */
static double accesses_of_host(const Demand *d, const Caps *caps, double subgroups) {
    const double registers = caps->isa == ISA_AVX2 ? HOST_REGISTERS_AVX2 : HOST_REGISTERS;
    const double spilt = fmax(0, d->live_values - registers / subgroups);
    return d->lane_ops[COST_MEMORY] + (d->lane.private_read + d->lane.private_write) / 4 + 2 * spilt * d->lane_packs;
}

typedef struct Traffic { /* bytes of a launch */
    double once;         /* each byte that is needed, once */
    double all;          /* that pass the last cache */
    double miss;         /* that it does not have */
    double near;         /* of a host's row, from its core's own caches */
    bool first;          /* those are in the first of them */
    bool ahead;          /* rows are prefetched, and stay until they are used */
} Traffic;

static Traffic traffic(const Demand *d, const Caps *caps, const Launch *l, const double *k, bool host) {
    const double rows = (double)l->rows, cache = (double)(caps->l3_bytes ? caps->l3_bytes : caps->l2_bytes);
    const double first = d->first_read > 0 ? d->first_read : d->row.global_read, write = d->row.global_write;
    const double stripes = d->row.private_read + d->row.private_write, again = d->row.global_read - first;
    const double set = first + write + d->stripe_slots * 4 * l->lanes; /* what a row touches */
    Traffic t = {.once = rows * (first - d->weight_read + write) + d->weight_read};
    /* until the same memory comes again */
    const double has = cache > 0 ? fmin(1, fmax(0, 2 - t.once * at_least_1(l->copies) / cache)) : 0;
    t.miss = t.once * (1 - has);
    t.all = rows * (first + write + again);
    if (!host) return t;
    /* a plain store reads its line before; a streaming one goes past caches that would have had it */
    t.miss += rows * (l->stream ? d->pack_write * has + (write - d->pack_write) * (1 - has) * k[ALLOCATE]
                                : write * (1 - has) * k[ALLOCATE]);
    const double second = (double)i64_max(caps->l1_bytes, caps->l2_bytes);
    const bool fits = set <= second;
    t.first = set <= (double)caps->l1_bytes;
    t.near = fits ? stripes + again : 0;
    t.all = rows * (first + write + (fits ? 0 : stripes + again));
    /* what is prefetched must stay until it is used, else it comes twice */
    t.ahead = l->prefetch && set + first * l->prefetch <= second;
    if (l->prefetch && !t.ahead) t.all += rows * first, t.miss += rows * first * (1 - has);
    return t;
}

static double join(const double *t, int n, double overlap) {
    double most = 0, sum = 0;
    for (int i = 0; i < n; i++) most = fmax(most, t[i]);
    for (int i = 0; i < n && most > 0; i++) sum += pow(t[i] / most, overlap);
    return most > 0 ? most * pow(sum, 1 / overlap) : 0;
}

/* What host and GPU have in common. */
typedef struct Parts {
    double memory, cache, near, arithmetic, special, chain, path, waves, dispatch, launch; /* s, but for waves */
    double total;
} Parts;

static const double ns = 1e-9;

static double units_of(const Caps *caps) {
    return caps->units > 1 ? caps->units : 1;
}

/* ns of a subgroup for one row's work of a lane, but for special functions. */
static double issue(const Demand *d, const double *k, double accesses) {
    const double *n = d->lane_ops;
    return n[COST_ALU] / k[ALU] + n[COST_DIV] / k[DIV] + n[COST_CONVERT] / k[CONVERT] + accesses / k[ACCESS];
}

/* Rows of a task one after the other, each a few registers wide. */
static Parts host_parts(const Demand *d, const Caps *caps, const Launch *l, const double *k) {
    const Traffic t = traffic(d, caps, l, k, true);
    const double rate = caps->copy_bytes_per_s * k[COPY], subgroups = (double)ceil_div(l->lanes, l->subgroup);
    const double rows = ceil((double)ceil_div(l->rows, l->rows_per_group) / units_of(caps)) * l->rows_per_group;
    const double flight = at_least_1(l->flight), levels = ceil(log2(l->lanes));
    /* registers narrower than a line stream part of it, where rows do not end with a line */
    const bool parts =
        l->stream && d->store_bytes > 0 && l->subgroup * d->store_bytes < LINE && fmod(d->pack_write, LINE) > 0;
    Parts p = {.memory = t.miss / rate * (t.ahead ? k[PREFETCHED] : 1),
               .cache = t.all / (rate * k[CACHED]),
               .near = rows * t.near / k[t.first ? NEAR : SECOND] * ns,
               .arithmetic = rows * subgroups * issue(d, k, accesses_of_host(d, caps, subgroups)) * ns,
               .special = rows * subgroups * d->lane_ops[COST_SPECIAL] / k[SPECIAL] * ns,
               .chain = rows * d->lane_chain * k[CHAIN] * ns,
               .waves = rows};
    p.path =
        rows *
        (k[ROW] + d->lane_packs / flight * k[TURN] + d->collectives * levels * k[STEP] + (parts ? k[PARTIAL] : 0)) * ns;
    /* a row alone has no neighbour to fill its waits */
    const bool together = l->stagger && l->rows > 1;
    const double work = together ? k[STAGGERED] : 1, apart = together ? k[APART] : 1;
    const double all[] = {p.memory * apart, p.cache * apart,
                          (p.near + p.arithmetic + p.special + p.chain + p.path) * work};
    p.total = join(all, COUNT(all), at_least_1(k[OVERLAP]));
    return p;
}

/* Lines that an access of a subgroup touches, over those that it would touch if all its lanes were side by side. */
static double scatter(const Demand *d, const Launch *l) {
    const double elements = d->lane_ops[COST_MEMORY];
    if (!(elements > 0) || l->lanes >= l->subgroup) return 1;
    const double bytes = (d->lane.global_read + d->lane.global_write) / elements * at_least_1(l->pack);
    const double rows = (double)l->subgroup / l->lanes, lines = rows * ceil(l->lanes * bytes / GPU_LINE);
    return at_least_1(lines / at_least_1(l->subgroup * bytes / GPU_LINE));
}

/* Groups side by side, as many as a unit has room for; the rest waits for their places. */
static Parts gpu_parts(const Demand *d, const Caps *caps, const Launch *l, const double *k) {
    const Traffic t = traffic(d, caps, l, k, false);
    const double rate = caps->copy_bytes_per_s * k[COPY], share = at_least_1(l->groups_per_row);
    const double groups = (double)ceil_div(l->rows, l->rows_per_group) * share, of_unit = ceil(groups / units_of(caps));
    /* rows of a group lie in subgroups together */
    const double subgroups = (double)ceil_div((int64_t)l->lanes * l->rows_per_group, l->subgroup);
    const double issued = of_unit * subgroups, pack = at_least_1(l->pack), flight = at_least_1(l->flight);
    const double packs = d->lane_ops[COST_MEMORY] / pack, shared = d->lane_shared / pack;
    const double levels = ceil(log2((double)l->lanes * share)), places = room(d, caps, l);
    const double meeting = share > 1 ? k[CLUSTER] : k[BARRIER] + subgroups * k[MEET];
    Parts p = {.memory = t.miss / rate,
               .cache = t.all / (rate * k[CACHED]),
               .arithmetic = issued * issue(d, k, packs * scatter(d, l) + shared) * ns,
               .special = issued * d->lane_ops[COST_SPECIAL] / k[SPECIAL] * ns,
               .chain = d->lane_chain * k[CHAIN] * ns,
               .waves = at_least_1(ceil(groups / (units_of(caps) * places))),
               .dispatch = issued * k[DISPATCH] * ns};
    p.path = (k[ROW] + d->lane_packs / flight * k[TURN] +
              (fmax(0, packs - STARTED * d->lane_waits) * k[FETCH] + d->lane_waits * k[WAIT]) *
                  (1 + k[FAR] * t.miss / fmax(t.once, 1)) +
              shared * k[SHARED] + d->collectives * levels * k[STEP] + d->barriers * meeting) *
                 ns +
             p.chain;
    const double all[] = {p.memory, p.cache, p.arithmetic + p.special + p.waves * p.path + p.dispatch};
    const double work = join(all, COUNT(all), at_least_1(k[OVERLAP]));
    /* launches that wait on units leave the groups of the next few places, which lie on the fewer units the more wait
     */
    const double crowd = l->queued ? fmin(places / of_unit, 1 + k[CROWDED] * work / caps->launch_s) : 1;
    p.total = work * at_least_1(crowd) + p.path;
    return p;
}

static Err score(Cx *cx, const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    if (!(caps->copy_bytes_per_s > 0))
        return diag(cx, S_ARG, NOWHERE, "above 0", "machine %s: copy_bytes_per_s=%g", caps->name,
                    caps->copy_bytes_per_s);
    for (int i = COPY; i <= ACCESS; i++)
        if (!(k[i] > 0))
            return diag(cx, S_COST_COEFFICIENT, NOWHERE, "above 0", "policy roofline: %s=%g is a rate", coefs[i].name,
                        k[i]);
    const bool host = caps->kind == KIND_HOST || caps->lanes_in_turn;
    const Parts p = (host ? host_parts : gpu_parts)(d, caps, l, k);
    const double launch = at_least_1(d->launches) * caps->launch_s * k[LAUNCH] * (l->overlap ? k[OVERLAPPED] : 1);
    out->total = p.total + launch;
    const struct {
        const char *name, *unit;
        double value;
    } term[] = {{"memory", "s", p.memory},     {"cache", "s", p.cache},
                {"near", "s", p.near},         {"arithmetic", "s", p.arithmetic},
                {"special", "s", p.special},   {"chain", "s", p.chain},
                {"path", "s", p.path},         {"waves", "", p.waves},
                {"dispatch", "s", p.dispatch}, {"launch", "s", launch}};
    for (int i = 0; i < COUNT(term); i++) score_add(out, term[i].name, term[i].unit, term[i].value);
    return OK;
}

const CostPolicy roofline_policy = {
    "roofline",  "seconds: memory, caches, arithmetic and latency, joined by how well they overlap", true, score, coefs,
    COUNT(coefs)};
