/* What the two ways of spelling host units share: lanes that are elements of a row (host.c), and elements that are rows
 * (hostrows.c). */
#ifndef ROWFOLD_HOSTGEN_H
#define ROWFOLD_HOSTGEN_H

#include "emit.h"

const char *host_scalar_type(Ty t);
const char *host_literal(Emit *e, Ty ty, Num c);
const char *host_apply(Emit *e, Op op, bool vector, Ty ty, const char *x, const char *y, const char *z);
const char *host_folded(Emit *e, const Ins *in, const char *cell, const char *x, const char *y); /* y: of a product */
Ty host_name_type(const Emit *e, const Ins *in); /* that a function's name carries */
Ty host_tensor_type(const Emit *e, int param);
Ty host_cell_type(const Emit *e, int cell);
const char *host_join_name(Op op);
const char *host_scalar(Emit *e, int i);                  /* a value of the row */
const char *host_cell(Emit *e, int cell, int acc, int r); /* one of its registers, by place */
void host_find_shifts(Emit *e);                           /* hostshift.c: what shifts are below, of which tensor */
const char *host_shift(Emit *e);                          /* the shift of the row at hand */
void host_shift_here(Emit *e);                            /* made of the row's own values */
void host_shift_ahead(Emit *e, const Node *node);         /* the same before the node behind them */
void host_shift_ring(Emit *e, int i);                     /* what a K_CELL of a shifted row is read from */
const char *host_lane_cell(Emit *e, int i, int r);        /* its register r, by lane */
/* declares what sweeps take of a value: where packs of these parameters lie from it on, and what 32 bits have of it */
void host_forms(Emit *e, int i, uint32_t params, bool cut);
void host_find_same(Emit *e);         /* hoststagger.c: the values that stand before the loop over rows */
const char *host_ago(Emit *e, int i); /* what a value's name says of the row that it is of */
void host_stagger_head(Emit *e);      /* what stands before the loop over rows, and its head */
bool host_stagger_nodes(Emit *e);     /* all that is done in one round of it; false: the plan staggers nothing */
void host_open(Emit *e);              /* the entry's head and its pointers */
void host_cells(Emit *e);             /* declares the cells of a row, or of a block of rows */
#endif
