/* Floor 2: the cost policies. A policy turns what a kernel asks of a machine into one number, smaller is better. It
 * ranks plans that are already legal and may change nothing else. */
#ifndef ROWFOLD_COST_H
#define ROWFOLD_COST_H

#include "../target/target.h"

/* What is known of a launch besides its Demand: extents, and those choices of the plan that move no work. */
typedef struct Launch {
    int64_t rows;
    int lanes, subgroup, rows_per_group;
    int groups_per_row; /* each of `lanes`; 0 is 1 */
    bool split;         /* they meet in device memory */
    bool bytes;         /* or they wait for the bytes that they are sent */
    int resident;       /* groups of a unit that take all rows; 0: each takes its own */
    int pack, flight;   /* elements of an access of a GPU's lane, packs in flight; 0 is 1 */
    int prefetch;       /* rows ahead, on hosts */
    bool stagger;       /* sweeps of neighbouring rows run together, on hosts */
    int copies;         /* of all tensors, that launches take in turn; 0 is 1 */
    bool stream;        /* stores past the caches */
    bool shifted;       /* rows start with a line of memory, on hosts */
    bool overlap;       /* the next launch starts before this one ends */
    bool queued;        /* and so do those after it, as many as units have room for */
    bool brought;       /* and its rows come into the last cache meanwhile */
    int registers;      /* of a lane, as a compiler said; 0: not built yet */
} Launch;

enum { MAX_TERMS = 16, MAX_COEFS = 56 };
typedef struct Score {
    double total;
    int nterms;
    struct {
        const char *name, *unit;
        double value;
    } term[MAX_TERMS]; /* what the total is made of, for people */
} Score;

typedef struct Coef {
    const char *name, *unit;
    double def, gpu, wide; /* nominal; on GPUs, and on hosts whose registers have 64 bytes; 0: the same */
} Coef;

typedef struct CostPolicy {
    const char *name, *doc;
    bool needs_demand; /* refuses a demand that could not be counted, whatever the coefficients */
    Err (*score)(Cx *cx, const Demand *d, const Caps *caps, const Launch *l, const double *coef, Score *out);
    const Coef *coef;
    int ncoefs;
} CostPolicy;

int cost_policies(const CostPolicy *const **list);
Err cost_find(Cx *cx, const char *name, const CostPolicy **out);
/* Nominal coefficients for that machine. coef has room for MAX_COEFS. */
void cost_nominal(const CostPolicy *p, const Caps *caps, double *coef);
/* "global-byte=1,setup=8": nominal ones, then these. */
Err cost_coefs(Cx *cx, const CostPolicy *p, const Caps *caps, const char *text, double *coef);
/* The one way to call a policy. coef NULL: its defaults. A score that is not finite or is negative is
 * cost.score_invalid. The policy works on copies, so that nothing but *out can come of it; *out is zero unless OK. */
Err cost_score(Cx *cx, const CostPolicy *p, const Demand *d, const Caps *caps, const Launch *l, const double *coef,
               Score *out);
void score_add(Score *s, const char *name, const char *unit,
               double value); /* a term; one too many makes the score invalid */
void score_print(const Score *s, Buf *out);
void score_json(const Score *s, Buf *out);

/* ---- fit.c ---- */
typedef struct FitSample { /* one launch and its time */
    Demand demand;
    Launch launch;
    const Caps *caps;
    double ns;
    int problem; /* launches of one problem stand side by side; 0: of none */
} FitSample;
typedef struct Fit {
    double coef[MAX_COEFS];
    double before, after; /* the mean error at the start and at the end: about half the square of log(score / time) */
} Fit;
/* The coefficients, from `start` on, at which the policy's scores, in seconds, come nearest to the times of n samples;
 * those whose bit is in `held` stay there. Of launches of one problem counts how they compare with each other, the
 * faster ones more. Pure. */
Err cost_fit(Cx *cx, const CostPolicy *p, const FitSample *s, int n, const double *start, uint64_t held, Fit *out);

/* The rows of policies.def. */
#define POLICY(id) extern const CostPolicy id##_policy;
#include "policies.def"
#undef POLICY
#endif
