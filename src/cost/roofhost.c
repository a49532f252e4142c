/* Seconds of a launch on a host: rows one after the other, each a few registers wide.
 *   join(memory, cache, second, join(work, chain) + wait) + fence
 *   join(t...) = (sum t^overlap)^(1/overlap): 1 adds terms up, a large exponent takes the largest
 * memory: bytes that the last cache does not have; cache, second: what a core's own caches and its first one do not;
 * work: instructions, and what steps, sweeps and rows cost whatever is in them; chain: folds that wait for each other;
 * wait: what lies between a row's sweeps. */
#include "roof.h"

#include <math.h>

enum { LINE = 64 };
static const double kept_near = 0.3; /* of a core's own caches: as `kept` of the last one */

static double join(const double *t, int n, double overlap) {
    double most = 0, sum = 0;
    for (int i = 0; i < n; i++) most = fmax(most, t[i]);
    for (int i = 0; i < n && most > 0; i++) sum += pow(t[i] / most, overlap);
    return most > 0 ? most * pow(sum, 1 / overlap) : 0;
}

/* How much of `bytes`, which come again and again, a cache keeps. */
static double keeps(int64_t cache, double bytes) {
    return cache > 0 ? fmin(1, fmax(0, 1 + kept_near - bytes / (double)cache)) : 0;
}

/* The share of the rows that start where streaming stores may, by chance where rows do not end there. */
static double starts(const HostWork *h, const Launch *l) {
    int64_t x = STORED_AT_ONCE, y = l->rows > 1 && h->stream < 0x1p53 ? (int64_t)h->stream : 0;
    while (y) {
        const int64_t left = x % y;
        x = y, y = left;
    }
    return (double)x / STORED_AT_ONCE;
}

typedef struct Traffic { /* bytes of a launch */
    double past;         /* that streaming stores take past the caches */
    double memory;       /* of others, that the last cache does not have */
    double cache;        /* that a core's own caches do not */
    double second;       /* that its first cache does not */
    bool streams;
} Traffic;

static Traffic traffic(const Demand *d, const Caps *caps, const Launch *l, const double *k) {
    const HostWork *h = &d->host;
    const double rows = (double)l->rows, write = d->row.global_write - h->rewritten, first = roof_first(d);
    const double again = d->row.global_read - first + d->row.private_read + d->row.private_write + h->rewritten;
    /* what is at work at a time: a row, or with stagger one for each sweep */
    const double set = (first + write + d->stripe_slots * 4 * l->lanes) * (l->stagger ? fmin(h->sweeps, rows) : 1);
    const Once once = roof_once(d, l);
    /* a streaming store goes past the caches, which have room for other bytes; a plain one reads its line before */
    const double streamed = !l->stream || h->stream <= 0 ? 0
                            : l->shifted                 ? fmax(0, h->stream - LINE)
                                                         : h->stream * starts(h, l);
    const double past = rows * streamed, stored = rows * write - past, bytes = once.read + stored;
    const double copies = roof_at_least_1(l->copies);
    const int64_t l1 = caps->l1_bytes, l2 = i64_max(caps->l1_bytes, caps->l2_bytes);
    const double has1 = keeps(l1, bytes * copies), has2 = fmax(has1, keeps(l2, bytes * copies)),
                 has3 = fmax(has2, roof_has(caps, l, bytes, k[KEPT]));
    const double row1 = keeps(l1, set), row2 = fmax(row1, keeps(l2, set));
    return (Traffic){.past = past,
                     .memory = (once.read + stored * (1 + k[ALLOCATE])) * (1 - has3),
                     .cache = bytes * (1 - has2) + rows * again * (1 - row2),
                     .second = bytes * (1 - has1) + rows * again * (1 - row1),
                     .streams = past > 0};
}

/* What a row costs besides its instructions, in ns. */
static double beside(const Demand *d, const Launch *l, const double *k, bool together) {
    const HostWork *h = &d->host;
    double ns = k[ROW] + h->scalar / k[SCALAR] + h->sweeps * k[SWEEP] + h->turns * k[TURN] +
                h->depth * k[DEPTH] * (together ? k[STAGGERED] : 1);
    if (l->prefetch) ns += roof_first(d) / fmin(LINE, 4 * l->lanes) * k[AHEAD];
    if (!l->stream || h->stream <= 0) return ns;
    const double some = l->shifted ? 1 : starts(h, l);
    if (!l->shifted && fmod(h->stream, STORED_AT_ONCE) > 0) ns += some * k[PARTIAL];
    return ns + some * h->rewritten / LINE * k[FLUSH];
}

double roof_host(const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    const HostWork *h = &d->host;
    const Traffic t = traffic(d, caps, l, k);
    const double rate = caps->copy_bytes_per_s * k[COPY], overlap = roof_at_least_1(k[OVERLAP]);
    const double rows = ceil((double)ceil_div(l->rows, l->rows_per_group) / roof_units(caps)) * l->rows_per_group;
    /* rows side by side come a register at a time, take a sweep's steps together, and fill each other's waits */
    const double side = l->lanes == 1 && l->rows_per_group >= l->subgroup ? l->rows_per_group : 1;
    const double turns = rows / side, wide = ceil(side / l->subgroup);
    /* a row alone has no neighbour to fill its waits */
    const bool together = l->stagger && l->rows > 1;
    const double sweeps = roof_at_least_1(h->sweeps), sweep = (h->work + h->bits + h->access) / sweeps;
    const double ahead = l->prefetch ? fmax(0, (double)(l->rows - l->prefetch)) / (double)l->rows : 0;
    const double issue = h->work / k[ALU] + h->bits / k[CONVERT] + h->divide / k[DIV] + h->special / k[SPECIAL] +
                         h->access / k[ACCESS] + h->part * k[PART] + h->kept * k[STORED] + h->spilt * k[SPILL];
    /* a core looks some instructions ahead: what sweeps of short rows wait for is filled with the next row's */
    const double seen = side > l->subgroup ? 0 : together ? 1 / sweeps : sweep / (sweep + k[WINDOW]);
    const double apart = together ? k[APART] : 1;
    const double memory = (t.past + t.memory * (1 - ahead * (1 - k[PREFETCHED]))) / rate * apart;
    const double cache = t.cache / (rate * k[CACHED]) * apart;
    const double second = t.second / k[SECOND] * roof_ns;
    const double work = turns * (wide * issue + beside(d, l, k, together)) * roof_ns;
    const double chain = turns * h->chain * seen * k[CHAIN] * roof_ns;
    const double wait = turns * h->wait * seen * k[CHAIN] * roof_ns, fence = t.streams ? k[FENCE] * roof_ns : 0;
    score_add(out, "memory", "s", memory);
    score_add(out, "cache", "s", cache);
    score_add(out, "second", "s", second);
    score_add(out, "work", "s", work);
    score_add(out, "chain", "s", chain);
    score_add(out, "wait", "s", wait);
    score_add(out, "fence", "s", fence);
    const double core[] = {work, chain};
    const double all[] = {memory, cache, second, join(core, COUNT(core), overlap) + wait};
    return join(all, COUNT(all), overlap) + fence;
}
