/* What test_math and exhaust_math share: the expansion of a function as a kern, its value from libm, and the distance
 * in ulp. */
#ifndef ROWFOLD_TEST_MATH_REF_H
#define ROWFOLD_TEST_MATH_REF_H

#include <math.h>
#include <string.h>

#include "../../src/gen/kern.h"

typedef struct Expansion { /* of op, on inputs x and y: slots 0 and 1 of k */
    Op op;
    Cx cx;
    Kern k;
    Kb b;
    int result;
} Expansion;

static inline void expansion_make(Expansion *e, Op op, int exp) { /* exp: of a plan */
    *e = (Expansion){.op = op, .cx = {.a = arena_new(&alloc_libc, NULL)}};
    e->b = (Kb){.cx = &e->cx, .k = &e->k};
    e->k.plan.exp = exp;
    int in[2];
    for (int i = 0; i < 2; i++)
        in[i] = kb_ins(&e->b, (Ins){.k = K_SLOT, .ty = TY_F32, .rank = RANK_ELEM, .a = {-1, -1, -1}, .imm = i});
    e->result = math_expand(&e->b, op, in[0], op_info(op)->arity == 2 ? in[1] : -1, NULL);
}
static inline int expansion_ops(const Expansion *e) { /* free ones (same bits, other type) not counted */
    int n = 0;
    for (int i = 0; i < e->k.nins; i++) n += e->k.ins[i].k == K_OP && op_info(e->k.ins[i].op)->cost != COST_FREE;
    return n;
}
static inline void expansion_free(Expansion *e) {
    arena_free(e->cx.a);
}

/* The meaning column in double, whose own error is far below an ulp of f32; pow in long double. */
static inline double math_ref(Op op, float x, float y) {
    if (op == OP_POW) return (double)powl((long double)x, (long double)y);
    return op_f64(op, (double)x, (double)y, 0);
}

static inline float math_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* A pair for pow: x of any exponent or, one in three, near 1, and y such that x^y spans [2^-152, 2^130]; one y in four
 * whole, with half of those x below zero, and one in 64 anything. */
static inline void math_pair(Rng *rng, float *x, float *y) {
    float near = (float)rng_unit(rng) - 0.5f, any = math_f32((uint32_t)rng_u64(rng));
    *x = rng_int(rng, 3) ? math_f32((uint32_t)rng_u64(rng) & 0x7FFFFFFF) : 1 + ldexpf(near, -rng_int(rng, 24));
    double lg = log2((double)*x), z = rng_unit(rng) * 282 - 152;
    *y = (float)(z / (lg == 0 ? 1 : lg));
    int form = rng_int(rng, 64);
    if (form < 16) *y = roundf(*y);
    if (form < 8) *x = -*x;
    if (form == 63) *y = any;
}

/* |got - want| in units in the last place of want, INFINITY where NaN, infinity or sign are wrong. Infinity counts as
 * 2^128. */
static inline double ulp_off(float got, double want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    if (!signbit(got) != !signbit(want)) return (double)INFINITY;
    double g = fmin(fabs((double)got), 0x1p128), w = fmin(fabs(want), 0x1p128);
    if (isinf(want) != 0 && isinf(got) == 0) return (double)INFINITY;
    int e = w > 0x1p-126 ? ilogb(w) : -126;
    return ldexp(fabs(g - w), 23 - (e > 127 ? 127 : e));
}
#endif
