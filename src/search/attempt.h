/* One plan tried: what is asked, what comes of it. */
#ifndef ROWFOLD_ATTEMPT_H
#define ROWFOLD_ATTEMPT_H

#include "../bench/bench.h"
#include "ahead.h"

typedef struct Ask { /* what is asked of a try besides the plan */
    OracleOptions bounds;
    int threads, samples;
    int64_t sample_ns;
    double give_up_ns;
    int64_t extent; /* of the ranged axis, for times alone; 0: the largest */
    int place;      /* of the tensors, for times alone: see bed_place */
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
/* The module out of `ahead`, where it is on its way, else built now. sha: of the unit's text; NULL: not by it. */
Err attempt_build(Cx *cx, Device *dev, Ahead *ahead, const Unit *u, const char *sha, Module **mod);
/* Its times alone, at q->extent; afterwards the bed is at the largest again. An extent out of the range is refused. */
Err attempt_time(Cx *cx, Bed *bed, Module *m, const Ask *q, Times *out);
/* *mod is NULL before; afterwards it is the caller's, as it is in between should memory run out. out->unit_sha is
 * given. */
Err attempt_run(Cx *cx, Bed *bed, Ahead *ahead, const Unit *u, const Ask *q, Module **mod, Attempt *out);
#endif
