/* An evaluation of programs of its own, row by row, from docs/language.md: of each element the value in extended
 * precision (80 bits) and a first-order bound on how far a correct kernel may be from it.
 *
 * The bound. An operation whose operands are within ex, ey, ... of x, y, ... moves its value by at most g: the sum of
 * the partial derivatives times those errors for + - * /, the larger change at the ends of the operand's interval for
 * functions of one operand, that at the corners for pow. It then rounds, which adds k (|v| + g) with k = ulp * 2^-23 in
 * f32 (2^-52 in f64) and ulp the operator's worst error in units in the last place (half a unit: 2^-24), and the least
 * subnormal where the result may be one. A sum of n terms by chains and a tree of depth d adds d u / (1 - d u) sum|x|
 * with u = 2^-24 or 2^-53 (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 4.2) to the sum of its terms'
 * bounds. A maximum has the bound that its interval has. What is decided by a comparison closer than its operands'
 * bounds is open: both outcomes are legal. */
#ifndef AUDIT_EVALUATE_H
#define AUDIT_EVALUATE_H

#include "progread.h"

enum Fill { FILL_UNIFORM, FILL_NORMAL, FILL_WIDE, FILL_CANCEL, FILL_TIES, FILL_SPECIAL, FILLS };
bool fill_named(const char *s, int *out);
typedef struct Tensor { /* of the generator rowfold-fill-1: elements are made when they are asked for */
    Type ty;
    int rank, fill;
    int64_t count, row;  /* row: extent of the last dimension */
    uint64_t seed;       /* of the tensor */
    int64_t index_bound; /* above 0: integers are indexes */
} Tensor;
Number tensor_at(const Tensor *t, int64_t i);    /* i: row-major */
void number_bits(Type t, Number x, uint8_t *at); /* as stored: little-endian; x is a number of the type */
int64_t index_bound_of(const Program *p,
                       int param); /* extent of the axis that an integer input is an index along, or 0 */

enum Stat { TWO_PASS, ONLINE, SHIFTED, WELFORD, STATS };
typedef struct Rules { /* what the plan allows beside rounding; depth of its sums */
    int64_t lanes;     /* independent chains that a row's sum is parted into, W * acc */
    int64_t more;      /* additions of a chain beyond its share of the row: V * flight */
    int64_t points;    /* times that a chain goes over what it shares (serial axes); 1 where there are none */
    int order;         /* 0 the plan's, 1 fixed, 2 serial */
    int stat;
    bool reciprocal, native;
    bool fast_exp; /* exp of f32, with native_math by 2^(x log2 e): 2^-22 + |x| 2^-23 relative, and subnormals may be 0;
                      else within 2 ulp */
    bool contract; /* an addition may take a product in before it is rounded, or too large for its type */
} Rules;
int64_t rules_depth(const Rules *r, bool ordered, int64_t n); /* of a sum of n terms */

typedef struct Tile { /* a value in the current row, dense over its element axes */
    uint32_t axes;
    int64_t n;
    long double *v; /* floats */
    int64_t *i;     /* integers and bools */
    double *e;      /* INFINITY: anything is legal */
    int64_t **set;  /* of argmax and argmin: legal positions where there are several, set[k][0] of them */
} Tile;

typedef struct Eval {
    Mem *m;
    const Program *p;
    const Tensor *in; /* by parameter */
    Number scalar[PARAMS];
    Rules rules;
    int64_t row[AXES];       /* coordinates of the row axes */
    Tile *tile;              /* by value */
    bool *needed, *positive; /* positive: never below zero, however it is rounded */
    int *centred;            /* of a sum or mean of (x - mean(x))^2: x, else -1 */
    bool *online;            /* sum(exp(x - max(x))) */
} Eval;

/* NULL and *why where a row would take more memory than there is. in and rules are kept by the caller. */
Eval *eval_new(Mem *m, const Program *p, const Tensor *in, const Number *scalar, const Rules *rules, const char **why);
int64_t eval_work(const Program *p); /* elements that a row evaluates */
void eval_row(Eval *e, const int64_t row[AXES]);

typedef struct Want { /* one element of an output before it is stored */
    Type ty;
    Number x;
    double e;
    const int64_t *set;
} Want;
Want eval_want(const Eval *e, int out, const int64_t at[AXES]);
/* May `got`, read from storage type st, be what a correct kernel stored? */
bool want_allows(const Want *w, Type st, Number got);

/* ---- inside ---- */
typedef struct Limits { /* of f32 or f64: half a unit, least subnormal, where subnormals begin to matter, overflow */
    long double u, tiny, small, over;
} Limits;
const Limits *limits_of(Type t);
typedef struct Cell {
    long double v;
    int64_t i;
    double e;
} Cell;
double rules_ulp(const Rules *r, MapOp m, Type t);
Cell map_cell(const Rules *r, MapOp m, Type operand, Type ty, const Cell *a, const bool *positive);
Cell cast_cell(Type from, Type to, Cell a);
/* n elements of x (in x or xi by type) with bounds ex. */
typedef struct Line {
    Type ty;
    int64_t n;
    const long double *x;
    const int64_t *xi;
    const double *e;
} Line;
typedef struct Extra {  /* what is known of the operand */
    const Line *centre; /* it is (c - mean(c))^2 of this c; or NULL */
    bool online;
} Extra;
Cell red_cell(Mem *m, const Rules *r, const PVal *v, const Line *x, const Extra *extra, int64_t **set);
#endif
