/* A plan's text, the ownership map's formulas, and what follows from both: slots, rounds, budgets, the demand of a kern
 * counted from its text, the `prior` score (docs/plan.md, docs/records.md). */
#ifndef AUDIT_PLANREAD_H
#define AUDIT_PLANREAD_H

#include "evaluate.h"

enum { HOLDS = 64, HEAD_SHIFT = 2 };
typedef struct PlanText {
    int64_t W, V, U, P, acc, flight, cluster, split;
    int64_t ahead;       /* rows whose copies are under way */
    int64_t lanes;       /* that share a row: W of each group of the cluster, of each split */
    const char *unknown; /* a dimension that this reader does not know, or NULL */
    int fuse, stat, div, order, combine, exp, contract,
        tail; /* tail HEAD_SHIFT; exp 1 fast; fuse 0 off 1 on; stat as enum Stat; div 1 reciprocal; combine 1 outer */
    int nholds;
    const char *hold[HOLDS], *home[HOLDS];
} PlanText;
/* Every dimension once, with a value that it has; NULL-safe; false and *why otherwise. */
bool plan_parse(Mem *m, const char *text, PlanText *out, const char **why);
/* The items of a plan's text, for comparing spaces: name and value, in order; the count, or -1. */
typedef struct PlanItem {
    const char *name, *value;
} PlanItem;
enum { ITEMS = 96 };
int plan_items(Mem *m, const char *text, PlanItem out[ITEMS]);

int64_t slots_of(int64_t n, int64_t W, int64_t V); /* of the busiest lane */
/* How deep a plan's sums are, and what else its bound must allow for. */
Rules plan_rules(const Program *p, const PlanText *plan, bool native);
/* Reductions after mean, var, norm2 and logsumexp are written as sums and maxima. */
int plan_reductions(Mem *m, const Program *p);
/* Slots of every sweep added up, and the sweeps, from the program alone; false where the elements are not all shared
 * out alike (some axes are looped over), so that this page's formula does not say. */
bool plan_rounds(Mem *m, const Program *p, const PlanText *plan, int64_t *rounds, int *sweeps);

enum { CLASSES = 6 }; /* free alu div special convert memory */
typedef struct Traffic {
    double read, write, private_read, private_write; /* bytes */
} Traffic;
typedef struct Counted {
    const char *plan;                                      /* its line of the kern's text */
    int64_t subgroup, poly, sweeps, reductions, live, sum; /* as the text says */
    Traffic lane, row;
    double rounds, packs, collectives, barriers, lane_ops[CLASSES], row_ops[CLASSES], shared_bytes;
    int64_t own_sweeps, own_live, own_sum, array_words; /* counted; array_words: f32 slots of row arrays */
    int64_t own_more;                                   /* slots of the step more with which shifted rows may end */
    int64_t least_sweep;                                /* elements of the sweep that has fewest */
    bool serial; /* a domain is looped over: then live ranges are not those of single sweeps */
} Counted;
bool kern_counted(Mem *m, const Program *p, const char *text, size_t n, Counted *out, const char **why);
#endif
