/* Shared by the files that lower: what stands where while a kern is being made. */
#ifndef ROWFOLD_LOWER_H
#define ROWFOLD_LOWER_H

#include "kern.h"

typedef struct Low {
    Cx *cx;
    const Problem *pb;
    const Prog *p;
    const Shape *s;
    const Plan *plan;
    const Sched *sc;
    Kern *k;
    Kb b;
    /* prologue */
    int row_coord[MAX_AXES];          /* of row axes */
    int row_base[MAX_PARAMS];         /* offset of the row in a tensor, elements */
    int stride[MAX_PARAMS][MAX_RANK]; /* of dimensions whose stride is a run-time argument, else -1 */
    int scalar[MAX_PARAMS];
    bool placed[MAX_PARAMS]; /* strides and base, or value, are there since before the first row */
    int ranged;              /* axis; -1: none */
    int extent[2];           /* its extent, i64 and (index=32) i32 */
    /* where we stand */
    int domain;       /* of the sweep being lowered, -1 in a block */
    int sweep;        /* number of the sweep being lowered, in the schedule */
    int sweep_node;   /* number of the last sweep node made: what live ranges of stripes count */
    bool at_first;    /* mapped coordinates are 0 (the shift of a statistic) */
    uint32_t serial;  /* serial axes of the enclosing loop */
    int serial_index; /* K_SERIAL of it, -1 */
    int outer;        /* phase */
    int *hoisted;
    int *memo, *stamp, tick; /* values already made in this node */
    /* results of reductions, by value */
    int *red_now;    /* instruction where it is in scope, -1 */
    int *red_array;  /* row array that keeps it for other loops, -1 */
    int *red_stripe; /* stripe of a reduction that lanes keep, -1 */
    int *red_part;   /* cell with what segments of lanes joined, chunk by chunk, -1 */
    uint32_t seg_axes;
    int seg_lanes;  /* of the segment whose coordinates are asked for; 0: an element's */
    int *red_outer; /* phase of its loop */
    /* holds, by candidate */
    Hold hold[MAX_CANDS];
    int stripe[MAX_CANDS]; /* of a register hold */
    int filled[MAX_CANDS]; /* the sweep that filled it, -1: not yet */
    int *cand_of;          /* value -> candidate, -1 */
    int parent, tail;      /* the loop being filled (-1: the row itself) and the last node in it (-1: none yet) */
} Low;

/* No call makes more than one of its operands: C leaves the order of arguments open, and the kern must not depend on
 * the compiler. */
/* lowval.c: values and addresses where we stand */
/* In the block before a sweep over `domain`: makes what `val` needs there that is the same for all elements, once
 * instead of at every step. */
void low_hoist(Low *l, int val, int domain);
int low_val(Low *l, int val);                 /* the instruction that has it */
const Val *low_taken(const Low *l, int val);  /* the product that it takes in; NULL: none */
void low_store(Low *l, int param, int x);     /* stores x to the in-place elements of an output */
int low_coord(Low *l, int axis);              /* i64 coordinate */
int low_points(Low *l, uint32_t axes, Ty ty); /* product of their extents; i32 where index=32 */
bool low_ranged(const Low *l, uint32_t axes); /* does it go with the ranged axis's extent? */
int low_serial_index(Low *l, uint32_t axes);  /* linear number of the current serial point within `axes` */
int low_load_home(Low *l, int param);         /* reads back what a hold=output value stored */
void low_prologue(Low *l);
void low_prologue_once(Low *l);           /* of it what fills stripes before the first row */
bool low_is_once(const Low *l, int cand); /* does the plan keep the candidate for all rows of a group? */
/* lower.c: nodes */
int low_begin(Low *l, NodeKind kind, int domain, const char *note); /* opens a block or sweep */
void low_end(Low *l, int node);                                     /* closes it; an empty block goes */
int low_cell(Low *l, Ty ty, int acc, const char *name);
void low_init(Low *l, int cell, Ty ty, double f, int64_t i);
int low_merge(Low *l, int cell, Op op); /* accumulators of a cell, pairwise  LANE */
int low_join(Low *l, Op op, int x);
bool low_passes(const Low *l, int val);       /* may a maximum pass over NaNs, where that is less work? */
int low_segment(const Low *l, uint32_t over); /* lanes of a segment that reduces over these axes */
/* lowstat.c: pairs of reductions done in one sweep */
typedef struct PairCells {
    int cell[4];
    int shift;
} PairCells;
void pair_before(Low *l, const Pair *pr, PairCells *c); /* in a block before the sweep */
void pair_sweep(Low *l, const Pair *pr, PairCells *c);  /* in the sweep */
void pair_after(Low *l, const Pair *pr, PairCells *c);  /* in the block after it: sets red_now of both */
Num ty_num(Ty ty, double f, int64_t i);
#endif
