/* Random programs for differential tests. A byte string drives every choice, so that any bytes give a program that
 * verifies, the same bytes give the same program, and a failing program shrinks as its bytes do: fewer bytes, fewer
 * operations; a zero byte, the plainest choice. */
#ifndef ROWFOLD_TEST_RANDPROG_H
#define ROWFOLD_TEST_RANDPROG_H

#include "../../src/oracle/oracle.h"

enum { RANDPROG_BYTES = 96 }; /* as many as make a program of the largest size now and then */

/* A verified program and a bound shape: 1 to 5 rows, up to 300 elements on the fast axis, up to about 1,500 elements a
 * row. */
Err randprog(Cx *cx, const uint8_t *bytes, size_t n, Prog **p, Shape *s);
/* Bytes of a seed, for randprog: a length of 0 to RANDPROG_BYTES. */
size_t randprog_bytes(uint64_t seed, uint8_t bytes[RANDPROG_BYTES]);

/* Memory for every parameter, in cx->a, row-major (padded: with strides that leave gaps). Inputs are filled, outputs
 * are poisoned with POISON. */
enum { POISON = 0xA5 };
void randargs(Cx *cx, const Prog *p, const Shape *s, Fill fill, uint64_t seed, bool padded, Args *a);

/* Shrinks bytes for which `fails` holds, in place, while it does; returns how many are left. At most `tries` calls. */
size_t randprog_shrink(uint8_t *bytes, size_t n, int tries, bool (*fails)(void *user, const uint8_t *bytes, size_t n),
                       void *user);
#endif
