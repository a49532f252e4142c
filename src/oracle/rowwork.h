/* One row of a program at work: where each value's elements lie, how they are laid out, and what is known of the value
 * beforehand. */
#ifndef ROWFOLD_ROWWORK_H
#define ROWFOLD_ROWWORK_H

#include "oracle.h"

/* The elements of one value in the current row, dense and row-major over its element axes in the order of their
 * numbers. Floats are double, or long double in a program with f64; integers and bools are int64_t by their bits. e
 * bounds |computed - v|. */
typedef struct Col {
    void *v;
    double *e;
} Col;

typedef struct Node {
    uint32_t el; /* element axes */
    int64_t n;   /* elements */
    Col col;
    bool needed;     /* by an output */
    bool once;       /* the same in every row */
    bool positive;   /* never below zero (NaN apart), however it is rounded */
    bool shift_mean; /* the mean, or its sum, that a variance is taken about: shifted and Welford plans compute it with
                        the variance */
    bool online;     /* sum(exp(x - max(x))) */
    bool unrounded;  /* a product that an addition may take in: too large for its type, it need not be infinite */
    int centred;     /* of sum or mean of (x - mean(x))^2: x; else -1 */
    const int64_t **set; /* of an argmax: as in Expect; lists live until the next row */
} Node;

/* Rounding of a float type: half a unit in the last place relative, the smallest subnormal, where subnormals begin to
 * matter, and the magnitude from which a result rounds to infinity. */
typedef struct Lim {
    double u, tiny, small;
    long double over;
} Lim;
extern const Lim lim_f32, lim_f64;

typedef struct Work {
    Cx *cx;
    const Prog *p;
    const Shape *s;
    const Args *in;
    OracleOptions o;
    bool wide;
    size_t each; /* bytes of a float */
    Node *node;
    int64_t at[MAX_AXES];      /* coordinates of the row */
    Col scratch[MAX_RANK + 1]; /* operands spread over more axes */
    int64_t scratch_n;
    int64_t *list; /* candidates of this row's argmaxes */
    int64_t list_n, list_cap;
} Work;

/* An operand: element i of the result meets element i * step of it. */
typedef struct Opd {
    const void *v;
    const double *e;
    int64_t step;
} Opd;

Err work_new(Cx *cx, const Prog *p, const Shape *s, const Args *in, const OracleOptions *o, Work **out);
int64_t axes_count(const Shape *s, uint32_t axes);
/* The elements of value a spread over the axes `el` (a superset), or those of `el` without `last` first and `last`
 * after them. */
Opd work_operand(Work *w, int a, uint32_t el, uint32_t last, int scratch);
void *
work_temp(Work *w,
          int scratch); /* as many numbers as the longest operand has; what work_operand does not use at the moment */
/* Depth of a tree over n elements */
int64_t work_depth(const Work *w, Policy pol, int64_t n);
double work_ulp(const Work *w, Op op, Ty t);

/* Fills the node of value `val` for the current row: once in double, once in long double. */
void row_eval_f64(Work *w, int val);
void row_eval_f80(Work *w, int val);

/* A run of output elements: index `dst + j * dst_step` of the parameter's memory is element `src + j * src_step` of the
 * value's node. */
typedef struct Run {
    int param, val;
    int64_t at[MAX_RANK]; /* coordinates of its first element */
    int last;             /* the dimension it runs along, or -1 */
    int64_t n, src, src_step, dst, dst_step;
} Run;
typedef void (*RunFn)(void *user, Work *w, const Run *r);
int64_t work_count(const Prog *p, const Shape *s); /* rows */
/* Evaluates row after row, from <= row < to, and hands out the outputs. strides[param]: of the memory that dst counts
 * in. */
void work_rows(Work *w, int64_t from, int64_t to, const int64_t (*strides)[MAX_RANK], RunFn fn, void *user);
#endif
