/* The kernel library for tests: every kernel of kernels/, at one odd shape. */
#ifndef ROWFOLD_TEST_LIBRARY_H
#define ROWFOLD_TEST_LIBRARY_H

#include "../../src/ir/ir.h"

typedef struct LibKernel {
    const char *file, *name;
    Prog *prog;
} LibKernel;
/* All kernels of kernels, in order of their names, with type variables bound to ty; read below the folder
 * $ROWFOLD_ROOT. Returns how many; 0 and a diagnostic where one cannot be read. */
int library_read(Cx *cx, Ty ty, LibKernel **out);
/* `rows` for the first row axis, 2 for others; n for the last other axis, 3 for those before it. */
Shape library_shape(const Prog *p, int64_t rows, int64_t n);
#endif
