/* The policy `roofline`: its coefficients, and what its two forms, for hosts and for GPUs, share. docs/cost.md has the
 * formulas. */
#ifndef ROWFOLD_ROOF_H
#define ROWFOLD_ROOF_H

#include "cost.h"

enum {
    COPY,
    CACHED,
    ALU,
    DIV,
    SPECIAL,
    ACCESS,
    KEPT,
    STEP,
    ROW,
    LAUNCH,
    /* hosts */
    SECOND,
    CONVERT,
    SCALAR,
    TURN,
    SWEEP,
    CHAIN,
    DEPTH,
    WINDOW,
    SPILL,
    STORED,
    PART,
    AHEAD,
    PREFETCHED,
    ALLOCATE,
    PARTIAL,
    FLUSH,
    FENCE,
    STAGGERED,
    APART,
    OVERLAP,
    /* GPUs */
    WAIT,
    FETCH,
    FAR,
    QUOTIENT,
    BARRIER,
    MEET,
    CLUSTER,
    GATHER,
    BYTES,
    SPLIT,
    OVERLAPPED,
    LATE,
    BROUGHT,
    CROWDED,
    SOON,
    REFILL,
    BRING,
    DRIFT,
    DISPATCH,
    FUNCTION,
    OWN,
    HELD,
    CRAMPED,
    NARROW,
    TORN,
    ROOF_COEFS
};

static const double roof_ns = 1e-9;

/* Every byte that a launch needs, once: what all rows read alike is read once. */
typedef struct Once {
    double read, write;
} Once;
Once roof_once(const Demand *d, const Launch *l);
/* How much of `bytes`, that launches touch in turn on all copies, the last cache has when they come again. */
double roof_has(const Caps *caps, const Launch *l, double bytes, double kept);
double roof_units(const Caps *caps);
/* Bytes of a row that no load before has touched. */
static inline double roof_first(const Demand *d) {
    return d->first_read > 0 ? d->first_read : d->row.global_read;
}
static inline double roof_at_least_1(double x) {
    return x > 1 ? x : 1;
}

/* Seconds of a launch, but for what starting one costs; its terms are added to *out. */
double roof_host(const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out);
double roof_gpu(const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out);
#endif
