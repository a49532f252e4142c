/* Kerns built by hand for the tests, and tensors to run them on. */
#ifndef ROWFOLD_KERN_HAND_H
#define ROWFOLD_KERN_HAND_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/gen/kern.h"

/* ---- a program and kerns over it ---- */

enum { A_ROWS, A_N, A_G };
enum { P_X, P_Y, P_S, P_I, P_Z, P_T, P_EPS };

typedef struct Fix {
    Arena *arena;
    Cx cx;
    Prog prog;
} Fix;

static inline Fix *fix_new(void) {
    Arena *a = arena_new(NULL, NULL);
    Fix *f = NEW(a, Fix);
    f->arena = a;
    f->cx.a = a;
    Prog *p = &f->prog;
    p->name = "hand";
    p->naxes = 3;
    p->axis[A_ROWS] = (Axis){"rows", true, -1};
    p->axis[A_N] = (Axis){"n", false, -1};
    p->axis[A_G] = (Axis){"g", false, -1};
    p->row_axes = 1;
    p->nparams = 7;
    p->param[P_X] = (Param){.name = "x", .dir = DIR_IN, .ty = TY_F32, .rank = 2, .axis = {A_ROWS, A_N}};
    p->param[P_Y] = (Param){.name = "y", .dir = DIR_OUT, .ty = TY_F32, .rank = 2, .axis = {A_ROWS, A_N}};
    p->param[P_S] = (Param){.name = "s", .dir = DIR_OUT, .ty = TY_F32, .rank = 1, .axis = {A_ROWS}};
    p->param[P_I] = (Param){.name = "i", .dir = DIR_OUT, .ty = TY_I64, .rank = 1, .axis = {A_ROWS}};
    p->param[P_Z] = (Param){.name = "z", .dir = DIR_INOUT, .ty = TY_BF16, .rank = 3, .axis = {A_ROWS, A_G, A_N}};
    p->param[P_T] = (Param){.name = "t", .dir = DIR_INOUT, .ty = TY_F32, .rank = 1, .axis = {A_ROWS}};
    p->param[P_EPS] = (Param){.name = "eps", .dir = DIR_SCALAR, .ty = TY_F32};
    return f;
}

static inline void fix_free(Fix *f) {
    arena_free(f->arena);
}

typedef struct Want { /* what a kern is built for */
    int W, V, acc, flight, L, combine;
    int64_t n, g;
} Want;

static inline Kern *kern_new(Fix *f, Want q) {
    Kern *k = NEW(f->arena, Kern);
    k->name = "hand";
    k->prog = &f->prog;
    for (int i = 0; i < MAX_AXES; i++) k->shape.n[i] = -1;
    k->shape.n[A_N] = q.n;
    k->shape.n[A_G] = q.g;
    k->plan = plan_default();
    k->plan.W = q.W, k->plan.V = q.V, k->plan.acc = q.acc, k->plan.flight = q.flight, k->plan.combine = q.combine;
    k->subgroup = q.L;
    k->root = -1;
    k->ndomains = 2;
    k->domain[0] = (Domain){1u << A_N, 0, 1u << A_N, 1, q.n};
    k->domain[1] = (Domain){1u << A_N | 1u << A_G, 1u << A_G, 1u << A_N, q.g, q.n};
    abi_of(&f->prog, &k->abi);
    return k;
}

static inline int add_cell(Fix *f, Kern *k, Ty ty, int acc, const char *name) {
    GROW(f->arena, k->cell, k->ncells, k->cell_cap);
    k->cell[k->ncells] = (Cell){ty, acc, name};
    return k->ncells++;
}

static inline int add_stripe(Fix *f, Kern *k, Stripe s) {
    GROW(f->arena, k->stripe, k->nstripes, k->stripe_cap);
    k->stripe[k->nstripes] = s;
    return k->nstripes++;
}

/* Nodes go to the end of the row's list, or of the loop's when one is open. */
static inline int node_end(Kern *k, int first) {
    while (first >= 0 && k->node[first].next >= 0) first = k->node[first].next;
    return first;
}

static inline int add_node(Fix *f, Kern *k, NodeKind kind, int domain, int64_t count, int loop) {
    GROW(f->arena, k->node, k->nnodes, k->node_cap);
    int n = k->nnodes++;
    k->node[n] =
        (Node){.kind = kind, .i0 = k->nins, .i1 = k->nins, .domain = domain, .count = count, .child = -1, .next = -1};
    int *head = loop >= 0 ? &k->node[loop].child : &k->root;
    if (*head < 0)
        *head = n;
    else
        k->node[node_end(k, *head)].next = n;
    k->nsweeps += kind == NODE_SWEEP;
    return n;
}

static inline int add_ins(Fix *f, Kern *k, Ins in) {
    GROW(f->arena, k->ins, k->nins, k->ins_cap);
    k->ins[k->nins] = in;
    k->node[k->nnodes - 1].i1 = k->nins + 1;
    return k->nins++;
}
#define INS(...) add_ins(f, k, (Ins){__VA_ARGS__})
#define BLOCK() add_node(f, k, NODE_BLOCK, 0, 0, loop)
#define SWEEP(d) add_node(f, k, NODE_SWEEP, d, 0, loop)

static inline int slot(Fix *f, Kern *k, int at, Ty ty) {
    return INS(.k = K_SLOT, .ty = ty, .imm = at);
}

static inline int binary(Fix *f, Kern *k, Op op, Ty ty, int x, int y) {
    Rank r = k->ins[x].rank > k->ins[y].rank ? k->ins[x].rank : k->ins[y].rank;
    return INS(.k = K_OP, .op = op, .ty = ty, .rank = r, .a = {x, y, -1});
}

static inline int unary(Fix *f, Kern *k, Op op, int x) {
    return INS(.k = K_OP, .op = op, .ty = k->ins[x].ty, .rank = k->ins[x].rank, .a = {x, -1, -1});
}

static inline int row_base(Fix *f, Kern *k, int row, int param) {
    return binary(f, k, OP_MUL, TY_I64, row, slot(f, k, k->abi.stride[param][0], TY_I64));
}

static inline Num f32(float x) {
    Num n = {0};
    n.f = x;
    return n;
}

/* The accumulators of a cell, one after the other, then the lanes. */
static inline int joined(Fix *f, Kern *k, Op op, int cell) {
    int x = INS(.k = K_CELL, .ty = k->cell[cell].ty, .rank = RANK_LANE, .imm = cell);
    for (int a = 1; a < k->cell[cell].acc; a++)
        x = binary(f, k, op, k->cell[cell].ty, x,
                   INS(.k = K_CELL, .ty = k->cell[cell].ty, .rank = RANK_LANE, .imm = cell, .acc = a));
    return INS(.k = K_JOIN, .op = op, .ty = k->cell[cell].ty, .rank = RANK_ROW, .a = {x, -1, -1});
}

/* s = sum(x) */
static inline Kern *kern_sum(Fix *f, Want q) {
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, q.acc, "sum");
    k->nreds = 1;
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64, .note = "row"), bx = row_base(f, k, row, P_X),
        bs = row_base(f, k, row, P_S);
    INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(0));
    SWEEP(0);
    int x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X, .note = "x");
    INS(.k = K_FOLD, .op = OP_ADD, .ty = TY_F32, .a = {x, -1, -1}, .imm = c);
    BLOCK();
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bs, -1, joined(f, k, OP_ADD, c)}, .param = P_S);
    return k;
}

/* s, i = max(x), argmax(x) */
static inline Kern *kern_argmax(Fix *f, Want q, Op op) {
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, 1, "best"), ci = add_cell(f, k, TY_I64, 1, "at");
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bx = row_base(f, k, row, P_X), bs = row_base(f, k, row, P_S),
        bi = row_base(f, k, row, P_I);
    INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(op == OP_MAX ? -INFINITY : INFINITY));
    INS(.k = K_INIT, .ty = TY_I64, .imm = ci, .c = {.i = -1});
    SWEEP(0);
    int x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X);
    int e = INS(.k = K_ELEM, .ty = TY_I64, .rank = RANK_ELEM);
    INS(.k = K_FOLD2, .op = op, .ty = TY_F32, .a = {x, e, -1}, .imm = c);
    BLOCK();
    int v = INS(.k = K_CELL, .ty = TY_F32, .rank = RANK_LANE, .imm = c),
        at = INS(.k = K_CELL, .ty = TY_I64, .rank = RANK_LANE, .imm = ci);
    int m = INS(.k = K_JOIN2, .op = op, .ty = TY_F32, .a = {v, at, -1}), i = INS(.k = K_JOIN2I, .ty = TY_I64);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bs, -1, m}, .param = P_S);
    INS(.k = K_STORE1, .ty = TY_I64, .a = {bi, -1, i}, .param = P_I);
    return k;
}

/* y = exp(x - max(x)) / sum(exp(x - max(x))), x kept in a stripe or loaded three times */
static inline Kern *kern_softmax(Fix *f, Want q, bool hold) {
    Kern *k = kern_new(f, q);
    int loop = -1, cm = add_cell(f, k, TY_F32, q.acc, "m"), cs = add_cell(f, k, TY_F32, q.acc, "sum");
    int st = hold ? add_stripe(f, k,
                               (Stripe){.ty = TY_F32,
                                        .domain = 0,
                                        .home = HOLD_REGISTER,
                                        .first = 0,
                                        .last = 2,
                                        .param = -1,
                                        .name = "x"})
                  : -1;
    k->nreds = 2;
    k->stripes.live = k->stripes.sum = hold ? map_slots(q.n, q.W, q.V) : 0;
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bx = row_base(f, k, row, P_X), by = row_base(f, k, row, P_Y), m = -1,
        s = -1;
    INS(.k = K_INIT, .ty = TY_F32, .imm = cm, .c = f32(-INFINITY));
    INS(.k = K_INIT, .ty = TY_F32, .imm = cs, .c = f32(0));
    for (int phase = 0; phase < 3; phase++) {
        SWEEP(0);
        int x;
        if (hold && phase)
            x = INS(.k = K_GET, .ty = TY_F32, .rank = RANK_ELEM, .a = {-1, -1, -1}, .imm = st);
        else
            x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X,
                    .policy = LOAD_KEEP);
        if (hold && !phase) INS(.k = K_PUT, .ty = TY_F32, .a = {-1, x, -1}, .imm = st);
        if (phase) x = unary(f, k, OP_EXP, binary(f, k, OP_SUB, TY_F32, x, m));
        if (phase == 2) {
            x = binary(f, k, OP_DIV, TY_F32, x, s);
            INS(.k = K_STOREP, .ty = TY_F32, .a = {by, -1, x}, .param = P_Y, .policy = STORE_STREAM);
            break;
        }
        INS(.k = K_FOLD, .op = phase ? OP_ADD : OP_MAX, .ty = TY_F32, .a = {x, -1, -1}, .imm = phase ? cs : cm);
        BLOCK();
        *(phase ? &s : &m) = joined(f, k, phase ? OP_ADD : OP_MAX, phase ? cs : cm);
    }
    return k;
}

/* z = z / sum(z over n) for each g: sums kept in a row array, z (bf16) in a stripe with serial points */
static inline Kern *kern_serial(Fix *f, Want q) {
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, q.acc, NULL);
    int st = add_stripe(
        f, k,
        (Stripe){.ty = TY_BF16, .domain = 1, .home = HOLD_SHARED, .first = 0, .last = 1, .param = -1, .name = "z"});
    k->array = NEWN(f->arena, RowArray, 1);
    k->array[0] = (RowArray){TY_F32, q.g};
    k->narrays = 1;
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bz = row_base(f, k, row, P_Z),
        sg = slot(f, k, k->abi.stride[P_Z][1], TY_I64), sn = slot(f, k, k->abi.stride[P_Z][2], TY_I64);
    for (int phase = 0; phase < 2; phase++) {
        loop = add_node(f, k, NODE_LOOP, 0, q.g, -1);
        BLOCK();
        int g = INS(.k = K_SERIAL, .ty = TY_I64, .note = "g"),
            at = binary(f, k, OP_ADD, TY_I64, bz, binary(f, k, OP_MUL, TY_I64, g, sg)), total = -1;
        if (phase)
            total = INS(.k = K_ROWGET, .ty = TY_F32, .a = {g, -1, -1}, .imm = 0);
        else
            INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(0));
        SWEEP(1);
        if (!phase) {
            int z = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {at, sn, -1}, .param = P_Z);
            INS(.k = K_PUT, .ty = TY_F32, .a = {g, z, -1}, .imm = st);
            INS(.k = K_FOLD, .op = OP_ADD, .ty = TY_F32, .a = {z, -1, -1}, .imm = c);
            BLOCK();
            INS(.k = K_ROWPUT, .ty = TY_F32, .a = {g, joined(f, k, OP_ADD, c), -1}, .imm = 0);
        } else {
            int z = INS(.k = K_GET, .ty = TY_F32, .rank = RANK_ELEM, .a = {g, -1, -1}, .imm = st);
            INS(.k = K_STOREP, .ty = TY_F32, .a = {at, sn, binary(f, k, OP_DIV, TY_F32, z, total)}, .param = P_Z);
        }
    }
    return k;
}

/* Steps: s = sum of x summed step by step, i = n counted by steps, y = x two to the right or eps past the end, stored
 * one by one. */
static inline Kern *kern_steps(Fix *f, Want q) {
    Kern *k = kern_new(f, q);
    int loop = -1, cs = add_cell(f, k, TY_F32, 1, "s"), cn = add_cell(f, k, TY_F32, 1, "count");
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bx = row_base(f, k, row, P_X), by = row_base(f, k, row, P_Y),
        bs = row_base(f, k, row, P_S), bi = row_base(f, k, row, P_I);
    int eps = INS(.k = K_OP, .op = OP_CAST, .ty = TY_F32, .to = TY_F32,
                  .a = {slot(f, k, k->abi.scalar[P_EPS], TY_F64), -1, -1});
    int two = INS(.k = K_CONST, .ty = TY_I64, .c = {.i = 2}), n = INS(.k = K_CONST, .ty = TY_I64, .c = {.i = q.n});
    INS(.k = K_INIT, .ty = TY_F32, .imm = cs, .c = f32(0));
    INS(.k = K_INIT, .ty = TY_F32, .imm = cn, .c = f32(0));
    SWEEP(0);
    int x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X);
    int p = INS(.k = K_PACKFOLD, .op = OP_ADD, .ty = TY_F32, .rank = RANK_PACK, .a = {x, -1, -1}, .c = f32(0));
    int old = INS(.k = K_CELL, .ty = TY_F32, .rank = RANK_PACK, .imm = cs),
        act = INS(.k = K_ACTIVE, .ty = TY_F32, .rank = RANK_PACK);
    INS(.k = K_SETCELL, .ty = TY_F32, .a = {binary(f, k, OP_ADD, TY_F32, old, p), -1, -1}, .imm = cs);
    old = INS(.k = K_CELL, .ty = TY_F32, .rank = RANK_PACK, .imm = cn);
    INS(.k = K_SETCELL, .ty = TY_F32, .a = {binary(f, k, OP_ADD, TY_F32, old, act), -1, -1}, .imm = cn);
    int e = INS(.k = K_ELEM, .ty = TY_I64, .rank = RANK_ELEM), to = binary(f, k, OP_ADD, TY_I64, e, two);
    int in = INS(.k = K_OP, .op = OP_LT, .ty = TY_BOOL, .rank = RANK_ELEM, .a = {to, n, -1});
    int gx = INS(.k = K_LOAD1, .ty = TY_F32, .rank = RANK_ELEM, .a = {binary(f, k, OP_ADD, TY_I64, bx, to), in, eps},
                 .param = P_X);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {binary(f, k, OP_ADD, TY_I64, by, e), -1, gx}, .param = P_Y);
    BLOCK();
    int sum = joined(f, k, OP_ADD, cs), count = joined(f, k, OP_ADD, cn);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bs, -1, sum}, .param = P_S);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bi, -1, count}, .param = P_I);
    return k;
}

/* t = t + 1, by lanes that may have met in between */
static inline Kern *kern_inout(Fix *f, Want q, bool meet, bool again) {
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, 1, NULL);
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bt = row_base(f, k, row, P_T),
        one = INS(.k = K_CONST, .ty = TY_F32, .c = f32(1));
    int t = INS(.k = K_LOAD1, .ty = TY_F32, .a = {bt, -1, -1}, .param = P_T);
    INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(1));
    if (meet) joined(f, k, OP_MAX, c);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bt, -1, binary(f, k, OP_ADD, TY_F32, t, one)}, .param = P_T);
    if (again) INS(.k = K_LOAD1, .ty = TY_F32, .a = {bt, -1, -1}, .param = P_T);
    return k;
}

/* Segments of one element: y = max(x), chunk by chunk and lane by lane. */
static inline Kern *kern_segments(Fix *f, Want q) {
    q.V = q.flight = 1;
    Kern *k = kern_new(f, q);
    int loop = -1, lanes = q.W, chunks = (int)((q.n + lanes - 1) / lanes), c = add_cell(f, k, TY_F32, chunks, "most");
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bx = row_base(f, k, row, P_X), by = row_base(f, k, row, P_Y);
    INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(-INFINITY));
    SWEEP(0);
    int x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X);
    INS(.k = K_FOLD, .op = OP_MAX, .ty = TY_F32, .a = {x, -1, -1}, .imm = c);
    BLOCK();
    for (int i = 0; i < chunks; i++) {
        int own = INS(.k = K_CELL, .ty = TY_F32, .rank = RANK_LANE, .imm = c, .acc = i);
        int met = INS(.k = K_MEET, .op = OP_MAX, .ty = TY_F32, .rank = RANK_LANE, .a = {own, -1, -1}, .lanes = 1);
        INS(.k = K_SETPART, .ty = TY_F32, .a = {met, -1, -1}, .imm = c, .acc = i);
    }
    SWEEP(0);
    int part = INS(.k = K_PART, .ty = TY_F32, .rank = RANK_PACK, .imm = c);
    int seg = INS(.k = K_SEG, .ty = TY_I64, .rank = RANK_PACK, .lanes = 1);
    INS(.k = K_STORES, .ty = TY_F32, .a = {binary(f, k, OP_ADD, TY_I64, by, seg), -1, part}, .param = P_Y, .lanes = 1);
    return k;
}

/* s = max(x) over lanes of subgroups, then over those, of which each lane is passed one. */
static inline Kern *kern_passes(Fix *f, Want q) {
    q.L = 2, q.combine = COMBINE_INNER;
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, 1, "most");
    k->plan.acc = 1;
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bx = row_base(f, k, row, P_X), bs = row_base(f, k, row, P_S);
    INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(-INFINITY));
    SWEEP(0);
    int x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X);
    INS(.k = K_FOLD, .op = OP_MAX, .ty = TY_F32, .a = {x, -1, -1}, .imm = c);
    BLOCK();
    int own = INS(.k = K_CELL, .ty = TY_F32, .rank = RANK_LANE, .imm = c);
    int two = INS(.k = K_MEET, .op = OP_MAX, .ty = TY_F32, .rank = RANK_LANE, .a = {own, -1, -1}, .lanes = 2);
    int pass = INS(.k = K_PASS, .ty = TY_F32, .rank = RANK_LANE, .a = {two, -1, -1}, .imm = PASS_SUBGROUPS,
                   .c = f32(-INFINITY));
    int all = INS(.k = K_MEET, .op = OP_MAX, .ty = TY_F32, .rank = RANK_LANE, .a = {pass, -1, -1}, .lanes = 2);
    int m = INS(.k = K_SAME, .ty = TY_F32, .a = {all, -1, -1});
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bs, -1, m}, .param = P_S);
    return k;
}

static const Want small = {.W = 4, .V = 2, .acc = 2, .flight = 2, .L = 4, .combine = COMBINE_INNER, .n = 37, .g = 3};

enum { ALL_KERNS = 10 };
static inline Kern *kern_number(Fix *f, int i, Want q) {
    switch (i) {
    case 0: return kern_sum(f, q);
    case 1: return kern_argmax(f, q, OP_MAX);
    case 2: return kern_argmax(f, q, OP_MIN);
    case 3: return kern_softmax(f, q, false);
    case 4: return kern_softmax(f, q, true);
    case 5: return kern_serial(f, q);
    case 6: return kern_steps(f, q);
    case 7: return kern_segments(f, q);
    case 9: return kern_passes(f, q);
    default: return kern_inout(f, q, true, false);
    }
}

static inline void assert_ok(Fix *f, Err e) {
    if (e == OK) return;
    Buf b = buf_new(f->arena);
    diag_print(&f->cx, NULL, &b);
    fail_msg("%s", b.s);
}

/* Tests give what they expect to be refused a fresh list of diagnostics. */
static inline void assert_slug(Fix *f, Err e, Slug want) {
    if (e == OK) fail_msg("nothing refused, expected %s", slug_text(want));
    assert_non_null(f->cx.first);
    assert_string_equal(slug_text(f->cx.first->slug), slug_text(want));
    assert_int_equal(e, slug_err(want));
    assert_true(f->cx.first->msg[0] != 0);
    f->cx.first = f->cx.last = NULL;
    f->cx.ndiags = 0;
}

/* ---- running ---- */

enum { ROWS = 3 };
typedef struct Tensors {
    float *x, *y, *s, *t;
    int64_t *i;
    uint16_t *z;
    Slot *slots;
    const void *lo[MAX_PARAMS], *hi[MAX_PARAMS];
} Tensors;

static inline Tensors tensors(Fix *f, const Kern *k, uint64_t seed) {
    int64_t n = k->shape.n[A_N], g = k->shape.n[A_G];
    Tensors t = {.x = NEWN(f->arena, float, ROWS *n),
                 .y = NEWN(f->arena, float, ROWS *n),
                 .s = NEWN(f->arena, float, ROWS),
                 .t = NEWN(f->arena, float, ROWS),
                 .i = NEWN(f->arena, int64_t, ROWS),
                 .z = NEWN(f->arena, uint16_t, ROWS * g * n),
                 .slots = NEWN(f->arena, Slot, k->abi.nslots)};
    Rng r = {seed};
    for (int64_t i = 0; i < ROWS * n; i++) t.x[i] = (float)(rng_unit(&r) * 8 - 4);
    for (int64_t i = 0; i < ROWS * g * n; i++) t.z[i] = num_to_bf16((float)(rng_unit(&r) + 0.5));
    void *at[] = {t.x, t.y, t.s, t.i, t.z, t.t};
    int64_t bytes[] = {ROWS * n * 4, ROWS * n * 4, ROWS * 4, ROWS * 8, ROWS * g * n * 2, ROWS * 4};
    for (int p = 0; p < 6; p++) {
        t.slots[k->abi.ptr[p]].p = at[p];
        t.lo[p] = at[p];
        t.hi[p] = (char *)at[p] + bytes[p];
    }
    t.slots[k->abi.row[A_ROWS]].i = ROWS;
    int64_t strides[6][3] = {{n, 1, 0}, {n, 1, 0}, {1, 0, 0}, {1, 0, 0}, {g * n, n, 1}, {1, 0, 0}};
    for (int p = 0; p < 6; p++)
        for (int d = 0; d < k->prog->param[p].rank; d++) t.slots[k->abi.stride[p][d]].i = strides[p][d];
    t.slots[k->abi.scalar[P_EPS]].d = 0.1;
    return t;
}

static inline Err run(Fix *f, const Kern *k, Tensors *t, KernRun *kr) {
    return kern_run(&f->cx, k, t->slots, ROWS, t->lo, t->hi, kr);
}

/* The n-th instruction of a kind, and its number. */
static inline Ins *nth(Kern *k, KOp op, int n) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == op && n-- == 0) return &k->ins[i];
    fail_msg("no such instruction");
    return NULL;
}
static inline int number(Kern *k, KOp op, int n) {
    return (int)(nth(k, op, n) - k->ins);
}
#endif
