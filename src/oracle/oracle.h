/* Floor 2: the definition of the language, executable. A program and its inputs become, for every output element, the
 * value that the text of docs/language.md gives it and a bound on how far a legal plan may be from it; outputs are
 * compared with both. Also inputs to do it on. */
#ifndef ROWFOLD_ORACLE_H
#define ROWFOLD_ORACLE_H

#include "../ir/ir.h"

/* A parameter's memory. Strides are in elements. */
typedef struct Tensor {
    Ty ty;
    int rank;
    void *data;
    int64_t n[MAX_RANK];
    int64_t stride[MAX_RANK];
} Tensor;

/* The arguments of a call, by parameter. A scalar is in .d when its parameter has a float type, in .i otherwise. */
typedef struct Args {
    Tensor t[MAX_PARAMS];
    Num scalar[MAX_PARAMS];
} Args;

/* What the bound must allow for, taken from the plan. */
typedef struct OracleOptions {
    int64_t serial;   /* longest chain of additions that one lane does; 0: unknown, so the whole row */
    int joins;        /* levels of the tree above the lanes */
    Stat stat;        /* how paired statistics are taken */
    bool reciprocal;  /* f32 divisions by a row's own value may multiply by its reciprocal: 2 ulp */
    bool fast_exp;    /* exp of f32, with native_math by the hardware's 2^(x log2 e): relative 2^-22 + |x| 2^-23,
                         subnormals    may be 0; without it within 2 ulp */
    bool contract;    /* additions may take products in before these are rounded, or too large for their type */
    bool native_math; /* the device's own functions: 4 ulp, and 2 for divisions and roots of f32 */
} OracleOptions;

/* The definition's values of one out parameter, row-major over its full shape: each is v (by its compute type in f, w
 * or i, the other two are NULL) and a legal result is within e of it before it is stored. e = INFINITY: anything is
 * legal. v = NaN with finite e: NaN. */
typedef struct Expect {
    int64_t count;
    Ty ty;
    double *f;      /* f32 */
    long double *w; /* f64 */
    int64_t *i;     /* integers and bool; u64 by its bits */
    double *e;
    const int64_t **set; /* of an argmax or argmin: NULL, or how many indexes are legal and then these, ascending */
} Expect;

typedef struct Verdict {
    bool ok;
    int64_t checked, bad;
    double worst; /* largest error as a share of its bound, of those that have one */
    /* The first bad element */
    int param;
    int64_t at[MAX_RANK];
    double got, want, bound;
} Verdict;

/* Who does it: NULL, or one thread, is the caller alone. Results do not depend on it. */
typedef struct Crew {
    const Alloc *al; /* of every thread's own scratch; several threads use it at once */
    int threads;     /* at most; short work takes fewer */
} Crew;
/* Into how many parts n things of so many elements in all are best cut; then all parts, each on from <= i < to. */
typedef Err CrewFn(Cx *cx, void *user, int part, int64_t from, int64_t to);
int crew_parts(const Crew *c, int64_t n, int64_t elements);
Err crew_run(Cx *cx, const Crew *c, int parts, int64_t n, CrewFn *fn, void *user);

/* All of these are pure: scratch and results live in cx->a, so give a check an arena of its own. Shapes must be bound
 * (shape_bind) and tensors have the parameters' extents; S_ORACLE_ARGS where they do not. Inputs that the outputs
 * overwrote (inout) must be kept by the caller. */

/* out[param] is filled for out and inout parameters. */
Err oracle_eval(Cx *cx, const Prog *p, const Shape *s, const Args *in, const OracleOptions *o, Expect out[MAX_PARAMS]);
Err oracle_eval_by(Cx *cx, const Crew *c, const Prog *p, const Shape *s, const Args *in, const OracleOptions *o,
                   Expect out[MAX_PARAMS]);
/* S_ORACLE_MISMATCH with place and numbers when an element is not legal; the verdict is filled either way. */
Err oracle_compare(Cx *cx, const Prog *p, const Shape *s, const Args *outputs, const Expect *want, Verdict *v);
Err oracle_compare_by(Cx *cx, const Crew *c, const Prog *p, const Shape *s, const Args *outputs, const Expect *want,
                      Verdict *v);
/* Both at once, a row at a time: memory for one row only. */
Err oracle_check(Cx *cx, const Prog *p, const Shape *s, const Args *in, const Args *outputs, const OracleOptions *o,
                 Verdict *v);
Err oracle_check_by(Cx *cx, const Crew *c, const Prog *p, const Shape *s, const Args *in, const Args *outputs,
                    const OracleOptions *o, Verdict *v);

/* ---- inputs ---- */
typedef enum Fill { FILL_UNIFORM, FILL_NORMAL, FILL_WIDE, FILL_CANCEL, FILL_TIES, FILL_SPECIAL, FILL_COUNT } Fill;
const char *fill_text(Fill f); /* uniform normal wide cancel ties special */
bool fill_find(const char *s, Fill *out);
/* Same numbers for the same seed, whatever the strides and the machine. Special values come in some rows only (those of
 * all dimensions but the last), and never where rank < 2. Integers with index_bound > 0 are gather indexes: within it,
 * and now and then up to 2 outside. */
void fill_tensor(Tensor *t, Fill f, uint64_t seed, int64_t index_bound);
Err fill_tensor_by(Cx *cx, const Crew *c, Tensor *t, Fill f, uint64_t seed, int64_t index_bound);
/* The extent of the axis that an integer parameter is an index along: one it reads at, or whose coordinate it is
 * compared with. 0 where it is none. */
int64_t fill_bound(const Prog *p, const Shape *s, int param);
#endif
