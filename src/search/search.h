/* Floor 6: the one loop: candidates of a space are judged, ranked, built, checked and timed; every one keeps its fate.
 */
#ifndef ROWFOLD_SEARCH_H
#define ROWFOLD_SEARCH_H

#include "../bench/bench.h"
#include "../cost/cost.h"

typedef enum Effort { EFFORT_ESTIMATE, EFFORT_MEASURE, EFFORT_EXHAUSTIVE } Effort;
typedef enum Fate { FATE_REFUSED, FATE_RANKED, FATE_FAILED, FATE_TIMED } Fate; /* ranked: legal, but not tried */

typedef struct Trial {
    Plan plan;
    Fate fate;
    Slug slug; /* refused or failed */
    const char *why;
    Demand demand; /* of legal ones */
    Score score;
    Times times;  /* of timed ones */
    double worst; /* largest error as a share of its bound */
    bool from_cache;
    int64_t compile_ns;
} Trial;

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
    /* owned while it runs; search_free takes any stage */
    Bed *bed;
    Module *mod, *finalist[4];
    /* found */
    int64_t ntrials, nrefused, nfailed, ntimed;
    Trial *trial;
    int64_t best; /* index of the winner */
    bool stopped;
    double seconds;
} Search;
Err search_run(Cx *cx, Search *s);
void search_free(Search *s);
Launch search_launch(const Problem *pb, const Plan *plan); /* what a cost policy is told of a launch */
#endif
