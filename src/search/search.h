/* Floor 6: the one loop: candidates of a space are judged, ranked, built, checked and timed; every one keeps its fate.
 */
#ifndef ROWFOLD_SEARCH_H
#define ROWFOLD_SEARCH_H

#include "../bench/bench.h"
#include "../cost/cost.h"
#include "../store/store.h"
#include "worker.h"

typedef enum Effort { EFFORT_ESTIMATE, EFFORT_MEASURE, EFFORT_EXHAUSTIVE, EFFORT_RECALL } Effort;
const char *effort_text(Effort e);
static inline bool effort_runs(Effort e) { /* are candidates run to choose? */
    return e == EFFORT_MEASURE || e == EFFORT_EXHAUSTIVE;
}
typedef enum Fate { FATE_REFUSED, FATE_RANKED, FATE_FAILED, FATE_TIMED } Fate; /* ranked: legal, but not tried */

typedef struct Trial {
    Plan plan;
    Fate fate;
    Slug slug; /* refused or failed */
    const char *why;
    Demand demand; /* of legal ones */
    Score score;
    Times times;              /* of timed ones */
    double worst;             /* largest error as a share of its bound */
    bool from_cache, resumed; /* resumed: not run now, but taken from the store */
    int64_t compile_ns;
} Trial;

typedef struct Recall {
    const char *how; /* NULL: not asked; exact, nearest or estimate */
    const char *why; /* of estimate */
    Wisdom from;     /* of the others */
} Recall;

typedef struct Progress {
    int64_t tried, total, refused, failed;
    double best_ns, elapsed_s;
    const char *best_plan;
} Progress;

typedef struct Search {
    /* asked */
    const Problem *pb;
    Device *dev; /* NULL: a preset, estimate only */
    Effort effort;
    const char *pin, *open;
    const CostPolicy *policy;
    int64_t max_candidates;
    double max_seconds;
    int threads;
    bool (*progress)(void *user, const Progress *p); /* true: stop with the best so far */
    void *user;
    Store *store; /* NULL: nothing is remembered */
    StoreKey key; /* when there is a store */
    uint64_t seed;
    bool resume;              /* trials that are in the store are not run again */
    const char *worker_path;  /* of the program that tries candidates; NULL: found; "": none, they are tried here */
    double max_trial_seconds; /* of one candidate; 0: two minutes */
    const Alloc *al;          /* of the worker's books; NULL: malloc and free */
    /* owned while it runs; search_free takes any stage */
    Bed *bed;
    Module *mod, *finalist[WORKER_SLOTS];
    Worker *worker; /* NULL: candidates are tried in this process */
    /* found */
    int64_t ntrials, nrefused, nfailed, ntimed;
    Trial *trial;
    int64_t best; /* index of the winner */
    int64_t nrecorded, nresumed;
    const char *note; /* what went less well than it might, or NULL */
    const Plan *only; /* the recalled plan: a space of one */
    Recall recall;
    bool stopped;
    double seconds;
} Search;
Err search_run(Cx *cx, Search *s);
void search_free(Search *s);
Launch search_launch(const Problem *pb, const Plan *plan); /* what a cost policy is told of a launch */

/* ---- record.c ---- */
void search_record(Cx *cx, Search *s, const Trial *t, Stage stage, const Attempt *a);
bool search_resume(Cx *cx, Search *s, Trial *t, const char *unit_sha); /* true: t is filled */
Err search_recall(Cx *cx, Search *s);
#endif
