/* Floor 7: the main path from a program to a kernel that runs, and the receipt of how it was chosen. */
#ifndef ROWFOLD_DRIVE_H
#define ROWFOLD_DRIVE_H

#include "../lang/lang.h"
#include "../search/search.h"

typedef struct Request {
    const Prog *prog;
    Shape shape; /* rows may be -1 for an estimate */
    Device *dev; /* NULL: plan and emit for `caps` only */
    const Caps *caps;
    const char *identity; /* of the device or preset */
    Effort effort;
    const char *calibration;                            /* text of one; NULL: nominal coefficients */
    const char *pin, *open, *policy, *strategy, *joint; /* NULL where not given */
    int64_t max_candidates;
    double max_seconds, max_compile_seconds;
    int threads, builders;
    bool audit; /* of the staging: effort exhaustive, and a staged search beside it */
    bool cold;  /* time candidates on memory that no cache has */
    uint64_t seed;
    uint32_t strided;
    bool alias, summed_budget;
    const char *store; /* NULL or "": none; "default" or a path */
    bool resume;
    const char *worker; /* NULL: found; "": none; or its path */
    double max_trial_seconds;
    const Alloc *al; /* of store and worker; NULL: malloc and free */
    bool whole;      /* a search that is stopped gives nothing */
    bool (*progress)(void *user, const Progress *p);
    void *user;
} Request;

/* Everything made on the way. Zero it first; made_free takes any stage, also after running out of memory. */
typedef struct Made {
    Problem pb;
    Search search;
    Search staged;       /* with Request.audit */
    const char *pruning; /* JSON: what that found; NULL */
    Store *store;        /* while it is made */
    Bed bed;
    Kern *kern;
    Demand demand;
    Score score;
    Unit unit;
    Module *mod; /* NULL for presets */
    bool measured;
    Verdict verdict;
    Times times;
    double copy_ns;
    const char *copy_how;
    double rotated;       /* bytes that timed calls took in turn; 0: the same memory each time */
    double bytes;         /* least traffic of one call; 0 while rows are not known */
    char calibration[65]; /* its hash; "": none */
} Made;
Err drive_compile(Cx *cx, const Request *q, Made *m);
void made_free(Made *m);
Err realize(Cx *cx, const Request *q, Made *m); /* the choice, and the kernel of it */
Err prune_audit(Cx *cx, Made *m);               /* both searches are done: m->pruning */

/* ---- bind.c ---- */
/* "T=bf16,S=f32" or "bf16"; "k=3,scale=0.5"; either may be NULL. kernel NULL: the first. */
Err bind_program(Cx *cx, const Ast *ast, const char *kernel, const char *types, const char *constants, Prog **out);
Err bind_shape(Cx *cx, const Prog *p, const char *text, Shape *out); /* "rows=1024,n=4096" */

/* ---- calibrate.c ---- */
typedef struct CalibrateRequest {
    Device *dev;
    const Caps *caps;
    const char *identity;
    bool (*progress)(void *user, int done, int total, double seconds); /* true: stop */
    void *user;
} CalibrateRequest;
/* Canonical JSON, in cx->a. Some seconds; the device should have nothing else to do. */
Err drive_calibrate(Cx *cx, const CalibrateRequest *q, const char **out);
/* Any bytes: the coefficients of a policy for the device of that identity, or why not. */
Err calibration_read(Cx *cx, const char *text, size_t n, const char *identity, const CostPolicy **policy,
                     double coef[MAX_COEFS], char hash[65]);

/* The parts of such a file that do not tell of probes; and its text, under its hash. Takes o. */
struct json_t;
/* Coefficients, as bits, that are over a hundred times from where they started. */
uint64_t calibration_far(const CostPolicy *p, const double *start, const Fit *fit);
/* A fit in which those stay where they were, and which they are. */
Err calibration_fit(Cx *cx, const CostPolicy *p, const FitSample *s, int n, const double *start, Fit *fit,
                    uint64_t *held);
/* cost.calibration_implausible where they are over a quarter of all, so that something else was measured. */
Err calibration_plausible(Cx *cx, const CostPolicy *p, uint64_t held);
struct json_t *calibration_names(const CostPolicy *p, uint64_t bits);
struct json_t *calibration_json(const CostPolicy *p, const Caps *caps, const char *identity, const Fit *fit);
Err calibration_text(Cx *cx, struct json_t *o, const char **out);

/* ---- foresee.c ---- */
typedef struct ForeseeRequest {
    Store *store;
    Filter filter;           /* which trials; all must be of one device */
    const char *calibration; /* text: where to start from, what to score with; NULL: nominal coefficients */
} ForeseeRequest;
/* JSON: every trial with the score of each policy, and the terms of the calibrated one. */
Err foresee_scores(Cx *cx, const ForeseeRequest *q, const char **out);
/* A calibration, fitted to the trials. */
Err foresee_fit(Cx *cx, const ForeseeRequest *q, const char **out);

const char *receipt_make(Cx *cx, const Request *q, const Made *m); /* canonical JSON: sorted keys, compact, 17 digits */
const char *trials_json(Cx *cx, const Made *m);                    /* every candidate and its fate */
const char *verdict_json(Cx *cx, const Prog *p, const Verdict *v);
#endif
