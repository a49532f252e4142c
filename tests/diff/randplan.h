/* Random legal plans, of the whole space. */
#ifndef ROWFOLD_TEST_RANDPLAN_H
#define ROWFOLD_TEST_RANDPLAN_H

#include "../../src/plan/plan.h"

/* A legal plan for the problem, drawn from every dimension and hold; the same for the same numbers. `how` counts its
 * draws: refused ones are drawn again, and where luck runs out a narrow default is taken. */
Plan randplan(Cx *cx, const Problem *pb, Rng *r, int *draws);
#endif
