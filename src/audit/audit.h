/* Floor 5: a second opinion on a lowered kern, before anything is built from it. Nothing here asks the planner or
 * lowering: what they decided is worked out again from the program, the shape and the instructions alone. A finding is
 * a defect of rowfold, an error with the slug of the rule that does not hold. */
#ifndef ROWFOLD_AUDIT_H
#define ROWFOLD_AUDIT_H

#include "../gen/kern.h"

/* Why an access of global memory is inside its tensor. */
typedef enum Proof {
    PROOF_OWN,   /* every coordinate is that of the element being worked on */
    PROOF_FIRST, /* of a block: the first element along axes that are swept later */
    PROOF_GUARD, /* the guard bounds the coordinates that are not the element's own */
    PROOF_NEVER, /* it stands where nothing is swept, or behind a guard that never holds */
    PROOF_COUNT
} Proof;
const char *proof_text(Proof p); /* own first guard never */

typedef struct AuditAccess {
    int ins, param;
    bool store;
    Proof proof;
} AuditAccess;

typedef struct AuditReport {
    int naccesses;
    AuditAccess *access;           /* every global access, in order of the text */
    int stripes;                   /* values that lanes keep */
    int idle_stripes;              /* filled, but read in no sweep after that */
    int64_t live_slots, all_slots; /* of a lane, in f32 slots: most at once by live range, and all of them */
    int64_t shared_bytes;          /* of a group */
    int joins;                     /* instructions at which lanes meet */
} AuditReport;

/* Audits a kern that has passed kern_verify. prog: the simplified program; s: its extents (rows may be -1); noalias,
 * summed_budget and strided as in Problem. OK, or the first finding. A kern of a ranged shape is audited at its largest
 * extent and at others that stand for the range (kern_extents); the report is of the largest. */
Err audit_kern(Cx *cx, const Prog *prog, const Shape *s, const Caps *caps, bool noalias, bool summed_budget,
               uint32_t strided, const Kern *k, AuditReport *out);
/* Does the source text do what the kern says? For host units every access of a tensor is found in the text and counted;
 * units of other dialects are asked for their entry only. */
Err audit_unit(Cx *cx, const Kern *k, const Unit *u);
#endif
