/* One plan tried: what is asked, what comes of it. */
#ifndef ROWFOLD_ATTEMPT_H
#define ROWFOLD_ATTEMPT_H

#include "../bench/bench.h"

typedef struct Ask { /* what is asked of a try besides the plan */
    OracleOptions bounds;
    int threads, samples;
    int64_t sample_ns;
    double give_up_ns;
} Ask;
typedef struct Attempt { /* what came of it, as far as it went */
    char unit_sha[65];
    Facts facts;
    Verdict verdict;
    Times times;
} Attempt;
/* As kern_lower and unit_emit, and audited: a finding is the error. */
Err attempt_lower(Cx *cx, const Problem *pb, const Plan *plan, Kern **out);
Err attempt_spell(Cx *cx, const Problem *pb, const Kern *k, Unit *u);
Err attempt_emit(Cx *cx, const Problem *pb, const Plan *plan, Unit *u, char sha[65]);
/* *mod is NULL before and after; in between it is the caller's, should memory run out. */
Err attempt_run(Cx *cx, Bed *bed, const Unit *u, const Ask *q, Module **mod, Attempt *out);
#endif
