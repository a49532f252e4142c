/* Floor 2: what is true of a program at a shape, before any plan: rewriting into plain reductions, domains, phases,
 * what may be held. */
#ifndef ROWFOLD_PASS_H
#define ROWFOLD_PASS_H

#include "../ir/ir.h"

/* Rewrites mean, var, norm2 and logsumexp into sums and maxima, drops values nobody needs. Same outputs, same
 * parameters. */
Prog *pass_simplify(Cx *cx, const Prog *p, const Shape *s);

/* Is the value of a simplified program how many points `axes` have, as what a mean divides by? A constant, or the
 * extent of a ranged axis times the others', as a float. */
bool pass_counts(const Prog *p, const Shape *s, int val, uint32_t axes);

/* What is true of an f32 value wherever the program runs, in every plan. */
typedef struct Range {
    double lo, hi;   /* every value that is not NaN lies within, infinities too */
    double most;     /* no finite one is larger, its sign apart */
    bool passes_nan; /* a maximum: NaN elements may be passed over, and the sign of a zero be either */
} Range;
const Range *pass_ranges(Cx *cx, const Prog *p, const Shape *s); /* one a value of a simplified program */

/* With contract=on additions, subtractions and sums of floats take in a product that nothing else needs, and round
 * once: by value of a simplified program, the operand (0, 1) whose product it takes; -1: none. */
const int *pass_contracts(Cx *cx, const Prog *p);

enum { MAX_DOMAINS = 16, MAX_SINKS = 96, MAX_CANDS = 64, MAX_PAIRS = 16 };

/* An index space swept together. The serial axes are looped over by every lane; the mapped ones, flattened in axis
 * order, are spread over the lanes by the ownership map. No mapped axes: every lane does the same (a value per serial
 * point, or one per row). */
typedef struct Domain {
    uint32_t axes, serial, mapped;
    int64_t n_serial, n_mapped; /* products of extents; 1 for none */
} Domain;

/* Two reductions that one sweep can do together. */
typedef struct Pair {
    Stat stat; /* STAT_ONLINE: first = max(x), second = sum(exp(x - first)). STAT_SHIFTED (and WELFORD): first = sum(x),
                  second = sum((x - first/n)^2) */
    int x, first, second;
    int count; /* how many elements are reduced over, as a value (STAT_SHIFTED and WELFORD) */
    bool any;  /* there are some */
} Pair;

typedef enum SinkKind { SINK_RED, SINK_OUT, SINK_FILL } SinkKind;
/* What makes a sweep necessary: a reduction, an output's store, or (fuse off) the filling of a held value. */
typedef struct Sink {
    SinkKind kind;
    int at; /* SINK_RED, SINK_FILL: the value; SINK_OUT: index into prog.out */
    int domain;
    int outer, inner; /* phase: a sweep of the row, and within one serial point of it */
    int sweep;        /* number of the sweep that does it, in order of execution */
} Sink;

typedef struct Sweep {
    int domain, outer, inner;
} Sweep;

/* A value that is needed in at least two phases: worth a hold. So is, in a group that takes many rows one after the
 * other, an input that all rows share: once for all of them. */
typedef struct Cand {
    int val;
    const char *name; /* parameter's name for an input read in place, else the assigned name */
    bool load;        /* an input read in place */
    Ty storage;       /* type it has in memory (loads) or its compute type */
    int domain;
    int sweeps; /* how many sweeps need it when nothing is held */
    bool once;  /* held for all rows of a group */
    int output; /* the out parameter that could serve as its home (same axes, type = compute type), or -1 */
    Hold pinned;
} Cand;

typedef struct Sched {
    bool fuse, segments, many_rows;
    Stat stat;
    uint32_t serial; /* program-wide */
    int ndomains, nsinks, nsweeps, ncands, npairs, nreds;
    Domain domain[MAX_DOMAINS];
    Sink sink[MAX_SINKS];
    Sweep sweep[MAX_SINKS];
    Cand cand[MAX_CANDS];
    Pair pair[MAX_PAIRS]; /* those used with this stat */
} Sched;
/* The element axes that every lane loops over; the others are spread over the lanes. Extents of element axes must be
 * known. */
enum { LONG_RUN = 64 };
typedef enum Spread {
    SPREAD_LANES,
    SPREAD_RUNS, /* elements side by side are one access and a division for each is dear: axes are looped over for that,
                    where the runs are long: of LONG_RUN elements or more */
    SPREAD_SEGMENTS, /* reductions over the last mapped axes only leave the others mapped */
} Spread;
uint32_t sched_serial(const Prog *p, const Shape *s, Spread spread);
/* Phases of a simplified program. `many_rows`: a group takes rows one after the other. `held`: with fuse off, bit i
 * says candidate i is held and so has a sweep of its own (candidates are numbered alike for every held set). Fails with
 * plan.* slugs where the program does not fit the limits or the statistic has no pair (plan.stat_unused), or where
 * nothing or too much is made of segments (plan.segments_unused, plan.segments_apart). */
Err sched_make(Cx *cx, const Prog *p, const Shape *s, Spread spread, bool many_rows, bool fuse, Stat stat,
               uint64_t held, Sched *out);
/* First and last sweep in which candidate `cand` is needed when exactly `held` (bit i: candidate i) are held; -1 where
 * it is not needed. */
void sched_live(const Sched *sc, const Prog *p, uint64_t held, int cand, int *first, int *last);
/* What a reduction keeps of its domain, and so where it adds up. */
typedef enum Kept {
    LANES_MEET,      /* nothing: cells, joined after the sweep or after the loop over serial points */
    MEET_PER_POINT,  /* the serial axes: cells, joined at every serial point */
    MEET_AND_ADD_UP, /* some serial axes: joined at every serial point and added up in a row array */
    ADD_UP_ROW,      /* nothing is mapped: a row array */
    ADD_UP_LANE,     /* the mapped axes: a stripe of accumulators */
    SEGMENTS_MEET,   /* the first mapped axes: cells of a chunk each, joined over segments of lanes after the sweep */
} Kept;
Kept sched_kept(const Sched *sc, const Prog *p, const Sink *red);
/* Is the result needed outside the loop that makes it? */
bool sched_needed_outside(Cx *cx, const Sched *sc, const Prog *p, const Sink *red);
/* The operands of a value, gathers' indexes and fill among them; returns how many. */
enum { MAX_DEPS = 3 + MAX_RANK + 1 };
int val_deps(const Prog *p, const Val *v, int dep[MAX_DEPS]);
/* Is the value computable in the mapped domain as one value an element (as opposed to one a row or serial point)? */
bool sched_is_elem(const Sched *sc, const Prog *p, int val);
#endif
