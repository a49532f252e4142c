/* Shared by the files that make the default space and change it. */
#ifndef ROWFOLD_SPACE_H
#define ROWFOLD_SPACE_H

#include "plan.h"

void space_set(Cx *cx, Space *s, int dim, const int *values, int n); /* values are copied */
int space_least(const Space *s, int dim);
bool space_is_named(const char *text, int dim);

/* wayout.c; default_W: the fewest lanes before the text was read */
Err space_way_out(Cx *cx, const Problem *pb, const char *text, int default_W, Space *s);

/* hostspace.c; n: the widest mapped extent, or all elements of a row */
void hostspace_lanes(Cx *cx, const Problem *pb, int64_t n, Space *s);
void hostspace_columns(Cx *cx, const Problem *pb, Space *s);
void hostspace_threads(Cx *cx, const Problem *pb, int64_t n, Space *s);
bool hostspace_can_stagger(Cx *cx, const Problem *pb, const Space *s);
void hostspace_text(const Problem *pb, Space *s);
void hostspace_shift(Cx *cx, const Problem *pb, Space *s);
#endif
