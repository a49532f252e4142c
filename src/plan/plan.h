/* Floor 3: a plan is one choice of ownership, residency, statistic and policies together; which are legal, and why the
 * others are not. */
#ifndef ROWFOLD_PLAN_H
#define ROWFOLD_PLAN_H

#include "../pass/pass.h"
#include "../target/target.h"

typedef struct Plan {
#define DIM(field, name, def, kind, legal, unit, doc) int field;
#include "dims.def"
#undef DIM
    int nholds;
    struct {
        const char *name; /* of a candidate (Cand.name) */
        Hold hold;        /* never HOLD_AUTO in a finished plan */
    } hold[MAX_CANDS];
} Plan;
enum { FUSE_OFF, FUSE_ON };
enum { DIV_EXACT, DIV_RECIPROCAL };
enum { EXP_EXACT, EXP_FAST, EXP_OWN };
enum { ORDER_PLAN, ORDER_FIXED, ORDER_SERIAL };
enum { FIXED_PARTIALS = 1024 }; /* of order=fixed: element e of a row is added to partial e mod 1,024 */
enum { COMBINE_INNER, COMBINE_OUTER, COMBINE_PAIR };
enum { LOAD_PLAIN, LOAD_KEEP, LOAD_NO_ALLOCATE, LOAD_STREAM };
enum { STORE_PLAIN, STORE_STREAM };
enum { EARLY_OFF, EARLY_ON, EARLY_FREE };
enum { EXCHANGE_BARRIER, EXCHANGE_BYTES };
enum { OVERLAP_OFF, OVERLAP_ON, OVERLAP_FETCH, OVERLAP_LATE };
enum { TAIL_EXACT, TAIL_GUARDED, TAIL_HEAD_SHIFT };

/* Groups that share a row, and its lanes over all of them: lane = group * W + thread. */
static inline int plan_groups(const Plan *p) {
    return p->cluster * p->split;
}
int plan_lanes(const Plan *p);

typedef struct DimInfo {
    const char *name;
    int def, nlegal;
    const int *legal;
    const char *const *word; /* NAME dims: the words, else NULL */
    const char *unit, *doc;
} DimInfo;
enum {
#define DIM(field, name, def, kind, legal, unit, doc) DIM_##field,
#include "dims.def"
#undef DIM
    DIM_COUNT
};
const DimInfo *dim_info(int d);
int *plan_dim(Plan *p, int d);
int plan_dim_get(const Plan *p, int d);
int dim_find(const char *s, size_t n); /* by name; -1: none */
bool dim_is_legal(int d, int value);
/* A host's step of more registers than HOST_LOOPED is a loop over HOST_GROUP of them. */
enum { HOST_LOOPED = 8, HOST_GROUP = 4 };
void dim_print_value(int d, int value, Buf *out); /* "256", "two-pass" */
const char *dim_values(Cx *cx, int d);            /* "1 2 4 8 16": what a diagnostic says would be accepted */
const char *dim_names(Cx *cx);                    /* of all dimensions */
Err dim_read_value(Cx *cx, int d, const char *s, size_t n, int *out);

/* Texts of plans and spaces are items NAME or NAME=VALUE, between spaces or commas. */
typedef struct Item {
    const char *name, *value; /* value NULL: no '=' */
    size_t nname, nvalue;
} Item;
bool item_next(const char **at, Item *out);
bool item_hold(const Item *i, const char **name, size_t *n); /* is it hold.NAME? */
const char *item_quote(Cx *cx, const char *s, size_t n);     /* for diagnostics: short, printable */
Err hold_read(Cx *cx, const char *s, size_t n, Hold *out);

/* A program, simplified, at a shape, for a machine: everything a plan is judged against. */
typedef struct Problem {
    const Prog *prog;   /* simplified */
    const Prog *source; /* as written */
    const Range *range; /* of each value of prog */
    const int *takes;   /* of each value of prog: pass_contracts */
    Shape shape;        /* rows may be -1: not known */
    Caps caps;
    bool noalias;       /* inputs and outputs do not overlap (checked at every launch); without it nothing is held */
    bool summed_budget; /* the prior system's rule: stripes of all values added, not those that live at once */
    uint32_t strided;   /* bit p: parameter p's element strides are run-time arguments */
} Problem;
/* Is the value of prog a product that some addition takes in with contract=on? */
bool problem_is_taken(const Problem *pb, int val);
static inline bool problem_in_runs(const Problem *pb) { /* of sched_make */
    return pb->caps.kind == KIND_HOST;
}
/* How lanes share the axes, of sched_make; plan NULL: the default. A paired statistic is merged once, where all that it
 * goes over is spread over the lanes; loops over a part of that would leave it no pair. */
static inline Spread problem_spread(const Problem *pb, const Plan *plan) {
    if (plan && plan->segments) return SPREAD_SEGMENTS;
    return problem_in_runs(pb) && !(plan && plan->stat != STAT_TWO_PASS) ? SPREAD_RUNS : SPREAD_LANES;
}
/* noalias is set, summed_budget is not: change them in *out. */
Err problem_make(Cx *cx, const Prog *source, const Shape *s, const Caps *caps, uint32_t strided, Problem *out);

/* slots(N) = floor(N/(W*V))*V + min(N mod (W*V), V): the longest stripe of a lane. And the ownership map with its
 * inverse: element e belongs to chunk, lane, v with e = (chunk*W + lane)*V + v, at slot chunk*V + v. */
int64_t map_slots(int64_t n, int W, int V);
static inline int64_t map_elem(int64_t chunk, int lane, int v, int W, int V) {
    return (chunk * W + lane) * V + v;
}
static inline void map_owner(int64_t e, int W, int V, int64_t *chunk, int *lane, int *v) {
    *v = (int)(e % V);
    *lane = (int)(e / V % W);
    *chunk = e / ((int64_t)W * V);
}

/* tail=head-shift: a row that starts `shift` elements behind a line of memory is swept from that line on. Element e
 * comes in step (e + shift) / W, at place (e + shift) mod W; its lane is e mod W as ever, so that every place has the
 * elements of one lane, in their order, and lanes are turned back to where they belong before they meet.
 * What shifts are below: elements of a line of the first output of the mapped axes' elements side by side, where there
 * is none of the first such input, but at most W: a power of two. Its parameter in *param. 0: there is no such tensor.
 */
int plan_shifts(const Problem *pb, const Plan *plan, uint32_t mapped, int *param);

/* Elements of a parameter that a lane's pack of V takes in one access of up to 16 bytes, such that no dense layout
 * breaks it: strides of the dimensions that are not spread over lanes (`mapped`) must be whole pieces, which for known
 * extents is asked here and for run-time strides, and a ranged extent, at the launch. Steps along an extent of 1 are
 * never taken. */
int plan_piece(const Prog *p, const Shape *s, int V, int param, uint32_t mapped);

/* Lanes whose packs of V hold `inner` elements side by side, where they are a power of two of a subgroup's; else 0. */
int plan_segment(int64_t inner, int V, int subgroup);

/* Stripes a plan needs in its busiest lane, in f32 slots (a bf16 register hold takes half a slot, rounded up per
 * value). */
typedef struct Stripes {
    int64_t live;         /* most at once, by live range over sweeps */
    int64_t sum;          /* all of them: the prior system's figure */
    int64_t need, budget; /* what the device's rule compares: slots of a lane, or on hosts bytes of a row's buffer */
} Stripes;
/* Is the plan legal for the problem? Else ERR_REFUSED with slug and numbers. On OK fills sc (the schedule it implies)
 * and st; either may be NULL. */
Err plan_check(Cx *cx, const Problem *pb, const Plan *plan, Sched *sc, Stripes *st);
/* The same for many plans of one problem: schedules already made are kept in `memo`. *sc points into the memo. */
typedef struct SchedMemo SchedMemo;
SchedMemo *sched_memo(Cx *cx);
Err plan_judge(Cx *cx, const Problem *pb, const Plan *plan, SchedMemo *memo, const Sched **sc, Stripes *st);
Hold plan_hold(const Plan *plan, const char *name); /* HOLD_AUTO when the plan does not name it */
Hold plan_hold_of(const Plan *plan,
                  const Cand *c); /* what it names, else what the program pins, else reload or recompute */
bool hold_keeps(Hold h);          /* register, register.f32, output, shared: computed or loaded once */
uint64_t plan_held(const Plan *plan, const Sched *sc); /* bit i: candidate i is kept */
void plan_complete(const Sched *sc, Plan *plan);       /* names every candidate's hold that is still open */

void plan_print(const Plan *p, Buf *out); /* "W=256 V=4 ... hold.x=register": every dimension, exact */
/* Dimensions that are not named keep their default; unknown words are errors with the legal list. Hold names are
 * copied. */
Err plan_read(Cx *cx, const char *text, Plan *out);
Plan plan_default(void);
bool plan_equal(const Plan *x, const Plan *y); /* every dimension and every hold */

/* A finite space: values for each dimension and for each candidate's hold. */
typedef struct Space {
    int n[DIM_COUNT];
    int *value[DIM_COUNT];
    int nholds;
    const char *hold_name[MAX_CANDS];
    int nhold[MAX_CANDS];
    Hold *hold[MAX_CANDS];
    bool asked[MAX_CANDS]; /* a text names it: those homes and no others */
} Space;
/* What is worth trying for this problem on this machine when nothing is pinned: at most SPACE_DEFAULT points, the least
 * promising values left out. */
enum { SPACE_DEFAULT = 400 };
Err space_default(Cx *cx, const Problem *pb, Space *out);
Err space_of_plan(Cx *cx, const Plan *plan, Space *out); /* the one point */
/* "W=256,hold.x=register" pins; "W=32:1024,hold.x,V=1/4" opens (values and ranges of legal values between slashes, a
 * bare name all of them; hold.* is every value's). */
Err space_pin(Cx *cx, const Problem *pb, const char *text, Space *s);
Err space_open(Cx *cx, const Problem *pb, const char *text, Space *s);
int64_t space_count(const Space *s); /* of the Cartesian product; INT64_MAX when it does not fit */
void space_at(const Space *s, int64_t i, Plan *out);

typedef struct Entry { /* one point of a space with its fate */
    Plan plan;
    Slug refused;    /* valid when !legal */
    const char *why; /* the refusal's message with its numbers */
    bool legal;
    Stripes stripes;
} Entry;
/* Every point judged, in order; an error (plan.space_too_large with its size) above `limit`, never a truncation. Points
 * that differ only in a dimension without effect on this problem are still points. */
Err space_list(Cx *cx, const Problem *pb, const Space *s, int64_t limit, Entry **out, int64_t *n, int64_t *nlegal);
#endif
