/* Metal text -> functions of this process: compiled unchanged as C++ over the shim metal_stdlib, for lanes.h to run. */
#ifndef ROWFOLD_TEST_MSL_H
#define ROWFOLD_TEST_MSL_H

#include "lanes.h"

#include <limits.h>

typedef struct MslUnit {
    const char *text, *entry; /* text NULL: none */
    bool loose;               /* for memory that is not aligned to packs */
    LaneFn *fn;               /* found */
} MslUnit;
typedef struct Msl {
    char cxx[PATH_MAX], include[PATH_MAX], why[4000];
} Msl;
bool msl_open(Msl *m, const char *env, const char *fallback); /* a compiler of C++; false: there is none */
/* All units in one call of the compiler; the handle is to be closed with dlclose. NULL with why. */
void *msl_build(Msl *m, MslUnit *u, int n);
bool msl_parse(Msl *m, MslUnit *u, int n); /* is it text that the compiler takes? */
#endif
