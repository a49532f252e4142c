/* A second opinion on programs: evaluated straight away, without an oracle, a plan or a kern. */
#ifndef ROWFOLD_TEST_NAIVE_H
#define ROWFOLD_TEST_NAIVE_H

#include "../../src/oracle/oracle.h"

/* What may be planted to see whether it is caught. */
typedef enum Mistake { NO_MISTAKE, SKIP_LAST, MAX_FROM_ZERO, LAST_TIE, EXP_OFF, RAW_MOMENTS, TRUNCATE } Mistake;

/* Evaluates the whole program into the outputs of `a`: each value over all its axes, in its own type, operation by
 * operation; special functions of f32 by rounding those of f64. Reductions are left folds, or pairwise trees. Memory
 * from cx->a. */
void naive(Cx *cx, const Prog *p, const Shape *s, const Args *a, bool pairwise, Mistake mistake);
#endif
