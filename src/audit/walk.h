/* Shared by the audit's files: where each instruction stands, and its value as a sum of coordinates where it has one.
 */
#ifndef ROWFOLD_WALK_H
#define ROWFOLD_WALK_H

#include "audit.h"

/* Something whose value is not known, only its range. */
typedef enum AtomKind {
    ATOM_AXIS,   /* coordinate of element axis `id`, where it is looped over or swept */
    ATOM_ROW,    /* coordinate of row axis `id`: less than its extent, a run-time argument */
    ATOM_ROWNUM, /* number of the row within the first `id` row axes */
    ATOM_ROUND,  /* round of loop `id`, which goes over no index space */
    ATOM_INS     /* result of instruction `id` */
} AtomKind;
typedef struct Atom {
    AtomKind kind;
    int id;
    int64_t lo, hi;
} Atom;

/* c + sum of k * atom * slot, modulo 2^64: what i64 arithmetic computes, whether or not a part of it wraps. atom -1 and
 * slot -1 stand for 1. Terms are in order of (slot, atom), none has k = 0. */
enum { MAX_TERMS = 16 };
typedef struct Term {
    int slot, atom;
    int64_t k;
} Term;
typedef struct Form {
    int64_t c;
    int n;
    Term t[MAX_TERMS];
} Form;

typedef struct Where {     /* of an instruction */
    int node, loop, sweep; /* loop -1: in none; sweep: its number among all, -1: in a block */
    uint32_t axes;         /* element axes with a coordinate here */
    bool runs;             /* at least once, as far as extents say */
} Where;

typedef struct Audit {
    Cx *cx;
    const Prog *prog;
    const Shape *s;
    const Caps *caps;
    const Kern *k;
    bool noalias, summed_budget;
    uint32_t strided;
    AuditReport *out;
    Where *at;           /* by instruction */
    uint32_t *loop_axes; /* by node */
    const Form **form;   /* by instruction: of i32 and i64 values, else NULL */
    int natoms, atom_cap;
    Atom *atom;
    int nsweeps;
    int *sweep_node; /* by sweep */
} Audit;

#define FIND(slug, ...) return diag(u->cx, slug, NOWHERE, NULL, __VA_ARGS__)

/* walk.c */
Err audit_walk(Audit *u);
bool axis_is_row(const Audit *u, int axis);
int64_t axes_extent(const Audit *u, uint32_t axes);
uint32_t axes_wide(const Audit *u, uint32_t axes); /* without those of extent 1 */
/* Of an instruction with segments in a sweep: the axes that number them; false: segments are no run of the last axes.
 */
bool segments_of(const Audit *u, int sweep, int lanes, uint32_t *first);
bool segment_axes(const Audit *u, int i, uint32_t *first);
const char *ins_text(const Audit *u, int i); /* "%12 loadp x" */
/* Marks all that instruction i is made of, itself among them. */
void ins_sources(const Audit *u, int i, bool *marks);

/* form.c */
void audit_forms(Audit *u);
Form form_const(int64_t c);
Form form_own(Audit *u, int axis);                    /* the axis's coordinate */
Form form_index(Audit *u, uint32_t axes);             /* number of the point within these axes, the last the fastest */
bool form_add(Form *x, const Form *y, int64_t times); /* x += y * times; false when there are too many terms */
bool form_times(Form *x, const Form *y);              /* x *= y, one of which is a constant or a slot alone */
bool form_equal(const Form *x, const Form *y);
bool form_range(const Audit *u, const Form *x, int64_t *lo, int64_t *hi); /* false: not known */
const char *form_text(const Audit *u, const Form *x);

/* The rules, a file each. */
Err audit_bounds(Audit *u);
Err audit_reuse(Audit *u);
Err audit_order(Audit *u);
Err audit_resources(Audit *u);
/* Does the program read a part of the tensor, as x[rows, 2, n] does? Then not every load is of the own element. */
bool read_in_part(const Audit *u, int param);
#endif
