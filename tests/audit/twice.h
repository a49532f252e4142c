/* What two programs that share no code have to say to each other: rowfold's own evaluation and counts (test_twice.c)
 * beside the auditor's (twice_own.c). Plain C types, since each side has names of its own for everything else. */
#ifndef TEST_TWICE_H
#define TEST_TWICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Own Own;
/* NULL and *why where the auditor takes the texts for none. ext: by axis of the program, -1 for declared ones. */
Own *own_new(const char *prog, const int64_t *ext, const char *fill, const uint64_t *seeds, const double *scalars,
             const char *plan, bool native, const char **why);
/* Element of the o-th output at the coordinates `at` (by axis), from the definition: value, bound, and whether `bits`
 * of the output's type would be legal there. Rows are cheapest in order. */
typedef struct OwnValue {
    long double v;
    int64_t i;
    double e;
    bool allows;
} OwnValue;
OwnValue own_value(Own *w, int o, const int64_t *at, const uint8_t *bits);
void own_input(Own *w, int param, int64_t i, uint8_t *bits); /* one element of an input as stored */
/* The kern's text counted: 4 lane and 4 row bytes, rounds, packs, collectives, barriers, 6 lane and 6 row operations,
 * shared bytes, live and summed slots (of lanes; -1 where they are not told), reductions of the program; rounds of the
 * program alone or -1. */
enum { OWN_COUNTS = 30 };
bool own_count(Own *w, const char *kern, double out[OWN_COUNTS], const char **why);
/* A kernel's text and the program that it is said to be: 1 followed, 0 not to its end, -1 and *why they differ. */
int own_source(const char *text, const char *kernel, const char *prog, const char **why);
void own_free(Own *w);
#endif
