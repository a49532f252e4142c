/* Kerns built by hand: their text, every rule of the verifier, what the interpreter computes and reports, and what is counted. */
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

static Fix *fix_new(void) {
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

static void fix_free(Fix *f) { arena_free(f->arena); }

typedef struct Want { /* what a kern is built for */
    int W, V, acc, flight, L, combine;
    int64_t n, g;
} Want;

static Kern *kern_new(Fix *f, Want q) {
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

static int add_cell(Fix *f, Kern *k, Ty ty, int acc, const char *name) {
    GROW(f->arena, k->cell, k->ncells, k->cell_cap);
    k->cell[k->ncells] = (Cell){ty, acc, name};
    return k->ncells++;
}

static int add_stripe(Fix *f, Kern *k, Stripe s) {
    GROW(f->arena, k->stripe, k->nstripes, k->stripe_cap);
    k->stripe[k->nstripes] = s;
    return k->nstripes++;
}

/* Nodes go to the end of the row's list, or of the loop's when one is open. */
static int node_end(Kern *k, int first) {
    while (first >= 0 && k->node[first].next >= 0) first = k->node[first].next;
    return first;
}

static int add_node(Fix *f, Kern *k, NodeKind kind, int domain, int64_t count, int loop) {
    GROW(f->arena, k->node, k->nnodes, k->node_cap);
    int n = k->nnodes++;
    k->node[n] = (Node){.kind = kind, .i0 = k->nins, .i1 = k->nins, .domain = domain, .count = count, .child = -1, .next = -1};
    int *head = loop >= 0 ? &k->node[loop].child : &k->root;
    if (*head < 0) *head = n;
    else k->node[node_end(k, *head)].next = n;
    k->nsweeps += kind == NODE_SWEEP;
    return n;
}

static int add_ins(Fix *f, Kern *k, Ins in) {
    GROW(f->arena, k->ins, k->nins, k->ins_cap);
    k->ins[k->nins] = in;
    k->node[k->nnodes - 1].i1 = k->nins + 1;
    return k->nins++;
}
#define INS(...) add_ins(f, k, (Ins){__VA_ARGS__})
#define BLOCK() add_node(f, k, NODE_BLOCK, 0, 0, loop)
#define SWEEP(d) add_node(f, k, NODE_SWEEP, d, 0, loop)

static int slot(Fix *f, Kern *k, int at, Ty ty) { return INS(.k = K_SLOT, .ty = ty, .imm = at); }

static int binary(Fix *f, Kern *k, Op op, Ty ty, int x, int y) {
    Rank r = k->ins[x].rank > k->ins[y].rank ? k->ins[x].rank : k->ins[y].rank;
    return INS(.k = K_OP, .op = op, .ty = ty, .rank = r, .a = {x, y, -1});
}

static int unary(Fix *f, Kern *k, Op op, int x) { return INS(.k = K_OP, .op = op, .ty = k->ins[x].ty, .rank = k->ins[x].rank, .a = {x, -1, -1}); }

static int row_base(Fix *f, Kern *k, int row, int param) { return binary(f, k, OP_MUL, TY_I64, row, slot(f, k, k->abi.stride[param][0], TY_I64)); }

static Num f32(float x) {
    Num n = {0};
    n.f = x;
    return n;
}

/* The accumulators of a cell, one after the other, then the lanes. */
static int joined(Fix *f, Kern *k, Op op, int cell) {
    int x = INS(.k = K_CELL, .ty = k->cell[cell].ty, .rank = RANK_LANE, .imm = cell);
    for (int a = 1; a < k->cell[cell].acc; a++) x = binary(f, k, op, k->cell[cell].ty, x, INS(.k = K_CELL, .ty = k->cell[cell].ty, .rank = RANK_LANE, .imm = cell, .acc = a));
    return INS(.k = K_JOIN, .op = op, .ty = k->cell[cell].ty, .rank = RANK_ROW, .a = {x, -1, -1});
}

/* s = sum(x) */
static Kern *kern_sum(Fix *f, Want q) {
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, q.acc, "sum");
    k->nreds = 1;
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64, .note = "row"), bx = row_base(f, k, row, P_X), bs = row_base(f, k, row, P_S);
    INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(0));
    SWEEP(0);
    int x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X, .note = "x");
    INS(.k = K_FOLD, .op = OP_ADD, .ty = TY_F32, .a = {x, -1, -1}, .imm = c);
    BLOCK();
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bs, -1, joined(f, k, OP_ADD, c)}, .param = P_S);
    return k;
}

/* s, i = max(x), argmax(x) */
static Kern *kern_argmax(Fix *f, Want q, Op op) {
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, 1, "best"), ci = add_cell(f, k, TY_I64, 1, "at");
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bx = row_base(f, k, row, P_X), bs = row_base(f, k, row, P_S), bi = row_base(f, k, row, P_I);
    INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(op == OP_MAX ? -INFINITY : INFINITY));
    INS(.k = K_INIT, .ty = TY_I64, .imm = ci, .c = {.i = -1});
    SWEEP(0);
    int x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X);
    int e = INS(.k = K_ELEM, .ty = TY_I64, .rank = RANK_ELEM);
    INS(.k = K_FOLD2, .op = op, .ty = TY_F32, .a = {x, e, -1}, .imm = c);
    BLOCK();
    int v = INS(.k = K_CELL, .ty = TY_F32, .rank = RANK_LANE, .imm = c), at = INS(.k = K_CELL, .ty = TY_I64, .rank = RANK_LANE, .imm = ci);
    int m = INS(.k = K_JOIN2, .op = op, .ty = TY_F32, .a = {v, at, -1}), i = INS(.k = K_JOIN2I, .ty = TY_I64);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bs, -1, m}, .param = P_S);
    INS(.k = K_STORE1, .ty = TY_I64, .a = {bi, -1, i}, .param = P_I);
    return k;
}

/* y = exp(x - max(x)) / sum(exp(x - max(x))), x kept in a stripe or loaded three times */
static Kern *kern_softmax(Fix *f, Want q, bool hold) {
    Kern *k = kern_new(f, q);
    int loop = -1, cm = add_cell(f, k, TY_F32, q.acc, "m"), cs = add_cell(f, k, TY_F32, q.acc, "sum");
    int st = hold ? add_stripe(f, k, (Stripe){.ty = TY_F32, .domain = 0, .home = HOLD_REGISTER, .first = 0, .last = 2, .param = -1, .name = "x"}) : -1;
    k->nreds = 2;
    k->stripes = (Stripes){hold ? map_slots(q.n, q.W, q.V) : 0, hold ? map_slots(q.n, q.W, q.V) : 0};
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bx = row_base(f, k, row, P_X), by = row_base(f, k, row, P_Y), m = -1, s = -1;
    INS(.k = K_INIT, .ty = TY_F32, .imm = cm, .c = f32(-INFINITY));
    INS(.k = K_INIT, .ty = TY_F32, .imm = cs, .c = f32(0));
    for (int phase = 0; phase < 3; phase++) {
        SWEEP(0);
        int x;
        if (hold && phase) x = INS(.k = K_GET, .ty = TY_F32, .rank = RANK_ELEM, .a = {-1, -1, -1}, .imm = st);
        else x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X, .policy = LOAD_KEEP);
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
static Kern *kern_serial(Fix *f, Want q) {
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, q.acc, NULL);
    int st = add_stripe(f, k, (Stripe){.ty = TY_BF16, .domain = 1, .home = HOLD_SHARED, .first = 0, .last = 1, .param = -1, .name = "z"});
    k->array = NEWN(f->arena, RowArray, 1);
    k->array[0] = (RowArray){TY_F32, q.g};
    k->narrays = 1;
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bz = row_base(f, k, row, P_Z), sg = slot(f, k, k->abi.stride[P_Z][1], TY_I64), sn = slot(f, k, k->abi.stride[P_Z][2], TY_I64);
    for (int phase = 0; phase < 2; phase++) {
        loop = add_node(f, k, NODE_LOOP, 0, q.g, -1);
        BLOCK();
        int g = INS(.k = K_SERIAL, .ty = TY_I64, .note = "g"), at = binary(f, k, OP_ADD, TY_I64, bz, binary(f, k, OP_MUL, TY_I64, g, sg)), total = -1;
        if (phase) total = INS(.k = K_ROWGET, .ty = TY_F32, .a = {g, -1, -1}, .imm = 0);
        else INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(0));
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

/* Steps: s = sum of x summed step by step, i = n counted by steps, y = x two to the right or eps past the end, stored one by one. */
static Kern *kern_steps(Fix *f, Want q) {
    Kern *k = kern_new(f, q);
    int loop = -1, cs = add_cell(f, k, TY_F32, 1, "s"), cn = add_cell(f, k, TY_F32, 1, "count");
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bx = row_base(f, k, row, P_X), by = row_base(f, k, row, P_Y), bs = row_base(f, k, row, P_S), bi = row_base(f, k, row, P_I);
    int eps = INS(.k = K_OP, .op = OP_CAST, .ty = TY_F32, .to = TY_F32, .a = {slot(f, k, k->abi.scalar[P_EPS], TY_F64), -1, -1});
    int two = INS(.k = K_CONST, .ty = TY_I64, .c = {.i = 2}), n = INS(.k = K_CONST, .ty = TY_I64, .c = {.i = q.n});
    INS(.k = K_INIT, .ty = TY_F32, .imm = cs, .c = f32(0));
    INS(.k = K_INIT, .ty = TY_F32, .imm = cn, .c = f32(0));
    SWEEP(0);
    int x = INS(.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {bx, -1, -1}, .param = P_X);
    int p = INS(.k = K_PACKFOLD, .op = OP_ADD, .ty = TY_F32, .rank = RANK_PACK, .a = {x, -1, -1}, .c = f32(0));
    int old = INS(.k = K_CELL, .ty = TY_F32, .rank = RANK_PACK, .imm = cs), act = INS(.k = K_ACTIVE, .ty = TY_F32, .rank = RANK_PACK);
    INS(.k = K_SETCELL, .ty = TY_F32, .a = {binary(f, k, OP_ADD, TY_F32, old, p), -1, -1}, .imm = cs);
    old = INS(.k = K_CELL, .ty = TY_F32, .rank = RANK_PACK, .imm = cn);
    INS(.k = K_SETCELL, .ty = TY_F32, .a = {binary(f, k, OP_ADD, TY_F32, old, act), -1, -1}, .imm = cn);
    int e = INS(.k = K_ELEM, .ty = TY_I64, .rank = RANK_ELEM), to = binary(f, k, OP_ADD, TY_I64, e, two);
    int in = INS(.k = K_OP, .op = OP_LT, .ty = TY_BOOL, .rank = RANK_ELEM, .a = {to, n, -1});
    int gx = INS(.k = K_LOAD1, .ty = TY_F32, .rank = RANK_ELEM, .a = {binary(f, k, OP_ADD, TY_I64, bx, to), in, eps}, .param = P_X);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {binary(f, k, OP_ADD, TY_I64, by, e), -1, gx}, .param = P_Y);
    BLOCK();
    int sum = joined(f, k, OP_ADD, cs), count = joined(f, k, OP_ADD, cn);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bs, -1, sum}, .param = P_S);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bi, -1, count}, .param = P_I);
    return k;
}

/* t = t + 1, by lanes that may have met in between */
static Kern *kern_inout(Fix *f, Want q, bool meet, bool again) {
    Kern *k = kern_new(f, q);
    int loop = -1, c = add_cell(f, k, TY_F32, 1, NULL);
    BLOCK();
    int row = INS(.k = K_ROWIDX, .ty = TY_I64), bt = row_base(f, k, row, P_T), one = INS(.k = K_CONST, .ty = TY_F32, .c = f32(1));
    int t = INS(.k = K_LOAD1, .ty = TY_F32, .a = {bt, -1, -1}, .param = P_T);
    INS(.k = K_INIT, .ty = TY_F32, .imm = c, .c = f32(1));
    if (meet) joined(f, k, OP_MAX, c);
    INS(.k = K_STORE1, .ty = TY_F32, .a = {bt, -1, binary(f, k, OP_ADD, TY_F32, t, one)}, .param = P_T);
    if (again) INS(.k = K_LOAD1, .ty = TY_F32, .a = {bt, -1, -1}, .param = P_T);
    return k;
}

static const Want small = {.W = 4, .V = 2, .acc = 2, .flight = 2, .L = 4, .combine = COMBINE_INNER, .n = 37, .g = 3};

enum { ALL_KERNS = 8 };
static Kern *kern_number(Fix *f, int i, Want q) {
    switch (i) {
    case 0: return kern_sum(f, q);
    case 1: return kern_argmax(f, q, OP_MAX);
    case 2: return kern_argmax(f, q, OP_MIN);
    case 3: return kern_softmax(f, q, false);
    case 4: return kern_softmax(f, q, true);
    case 5: return kern_serial(f, q);
    case 6: return kern_steps(f, q);
    default: return kern_inout(f, q, true, false);
    }
}

static void assert_ok(Fix *f, Err e) {
    if (e == OK) return;
    Buf b = buf_new(f->arena);
    diag_print(&f->cx, NULL, &b);
    fail_msg("%s", b.s);
}

/* Tests give what they expect to be refused a fresh list of diagnostics. */
static void assert_slug(Fix *f, Err e, Slug want) {
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
typedef struct Mem_ {
    float *x, *y, *s, *t;
    int64_t *i;
    uint16_t *z;
    Slot *slots;
    const void *lo[MAX_PARAMS], *hi[MAX_PARAMS];
} Tensors;

static Tensors tensors(Fix *f, const Kern *k, uint64_t seed) {
    int64_t n = k->shape.n[A_N], g = k->shape.n[A_G];
    Tensors t = {.x = NEWN(f->arena, float, ROWS *n), .y = NEWN(f->arena, float, ROWS *n), .s = NEWN(f->arena, float, ROWS), .t = NEWN(f->arena, float, ROWS),
                 .i = NEWN(f->arena, int64_t, ROWS), .z = NEWN(f->arena, uint16_t, ROWS *g *n), .slots = NEWN(f->arena, Slot, k->abi.nslots)};
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

static Err run(Fix *f, const Kern *k, Tensors *t, KernRun *kr) { return kern_run(&f->cx, k, t->slots, ROWS, t->lo, t->hi, kr); }

/* ---- the same arithmetic, written straight ---- */

typedef float (*Fold)(float, float);
static float plus(float x, float y) { return x + y; }
static float larger(float x, float y) { return x > y ? x : y; }

/* A list padded to a power of two with absent ones, folded in half until one is left. */
static float halve(const float *v, int n, int stride, Fold op) {
    float w[1024];
    int size = 1;
    while (size < n) size *= 2;
    for (int i = 0; i < n; i++) w[i] = v[i * stride];
    for (int h = size / 2; h >= 1; h /= 2)
        for (int i = 0; i < h; i++)
            if (i + h < n && i + h < 2 * h) w[i] = op(w[i], w[i + h]);
    return w[0];
}

static float join(const float *lane, Want q, Fold op) {
    float part[1024];
    int L = q.W < q.L ? q.W : q.L, S = q.W / L;
    if (q.combine == COMBINE_INNER) {
        for (int s = 0; s < S; s++) part[s] = halve(lane + s * L, L, 1, op);
        return halve(part, S, 1, op);
    }
    for (int l = 0; l < L; l++) part[l] = halve(lane + l, S, L, op);
    return halve(part, L, 1, op);
}

/* Element e by the ownership map; per lane and accumulator in rising order. */
static float reduce(const float *x, Want q, float identity, Fold op) {
    float lane[1024];
    for (int w = 0; w < q.W; w++) {
        float acc[4];
        for (int a = 0; a < q.acc; a++) acc[a] = identity;
        for (int64_t e = 0; e < q.n; e++) {
            int64_t chunk;
            int owner, v;
            map_owner(e, q.W, q.V, &chunk, &owner, &v);
            if (owner == w) acc[chunk % q.acc] = op(acc[chunk % q.acc], x[e]);
        }
        lane[w] = acc[0];
        for (int a = 1; a < q.acc; a++) lane[w] = op(lane[w], acc[a]);
    }
    return join(lane, q, op);
}

static const Want wants[] = {
    {1, 1, 1, 1, 1, COMBINE_INNER, 1, 1},    {1, 4, 2, 2, 1, COMBINE_INNER, 37, 2},   {2, 1, 1, 4, 8, COMBINE_OUTER, 37, 3},
    {4, 2, 4, 1, 4, COMBINE_INNER, 8, 1},    {8, 4, 4, 2, 4, COMBINE_OUTER, 129, 2},  {16, 1, 2, 8, 4, COMBINE_INNER, 513, 2},
    {96, 4, 1, 2, 32, COMBINE_INNER, 1027, 1}, {96, 2, 2, 1, 32, COMBINE_OUTER, 385, 1}, {160, 1, 4, 4, 16, COMBINE_INNER, 700, 1},
    {32, 16, 2, 2, 8, COMBINE_OUTER, 513, 1}, {64, 4, 1, 1, 1, COMBINE_INNER, 300, 1}, {16, 2, 2, 2, 16, COMBINE_INNER, 3, 4},
    {8, 2, 2, 2, 8, COMBINE_INNER, 0, 2},
};

static void bits_equal(float got, float want) { assert_memory_equal(&got, &want, sizeof got); }

static void test_run_sum_and_softmax(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(wants); i++) {
        Fix *f = fix_new();
        Want q = wants[i];
        Kern *k = kern_sum(f, q);
        Tensors t = tensors(f, k, 7);
        KernRun kr;
        assert_ok(f, kern_verify(&f->cx, k));
        assert_ok(f, run(f, k, &t, &kr));
        assert_int_equal(kr.loads, ROWS * q.n);
        assert_int_equal(kr.stores, ROWS);
        for (int r = 0; r < ROWS; r++) bits_equal(t.s[r], reduce(t.x + r * q.n, q, 0, plus));
        for (int hold = 0; hold < 2; hold++) {
            k = kern_softmax(f, q, hold);
            assert_ok(f, kern_verify(&f->cx, k));
            memset(t.y, 0xFF, (size_t)(ROWS * q.n) * sizeof *t.y);
            assert_ok(f, run(f, k, &t, &kr));
            assert_int_equal(kr.loads, ROWS * q.n * (hold ? 1 : 3));
            assert_int_equal(kr.stores, ROWS * q.n);
            for (int r = 0; r < ROWS && q.n; r++) {
                float e[2048], m = reduce(t.x + r * q.n, q, -INFINITY, larger);
                for (int64_t j = 0; j < q.n; j++) e[j] = expf(t.x[r * q.n + j] - m);
                float s = reduce(e, q, 0, plus);
                for (int64_t j = 0; j < q.n; j++) bits_equal(t.y[r * q.n + j], e[j] / s);
            }
        }
        fix_free(f);
    }
}

static void test_run_serial(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(wants); i++) {
        Fix *f = fix_new();
        Want q = wants[i];
        Kern *k = kern_serial(f, q);
        Tensors t = tensors(f, k, 9);
        KernRun kr;
        int64_t all = ROWS * q.g * q.n;
        uint16_t *want = arena_dup(f->arena, t.z, (size_t)all * sizeof *want);
        assert_ok(f, kern_verify(&f->cx, k));
        assert_ok(f, run(f, k, &t, &kr));
        for (int64_t r = 0; r < ROWS * q.g; r++) {
            float z[2048];
            for (int64_t j = 0; j < q.n; j++) z[j] = num_from_bf16(want[r * q.n + j]);
            float s = reduce(z, q, 0, plus);
            for (int64_t j = 0; j < q.n; j++) want[r * q.n + j] = num_to_bf16(z[j] / s);
        }
        assert_memory_equal(t.z, want, (size_t)all * sizeof *want);
        fix_free(f);
    }
}

static void test_run_steps(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(wants); i++) {
        Fix *f = fix_new();
        Want q = wants[i];
        Kern *k = kern_steps(f, q);
        Tensors t = tensors(f, k, 11);
        KernRun kr;
        assert_ok(f, kern_verify(&f->cx, k));
        assert_ok(f, run(f, k, &t, &kr));
        for (int r = 0; r < ROWS; r++) {
            const float *x = t.x + r * q.n;
            float lane[1024];
            int64_t step = (int64_t)q.W * q.V * q.flight;
            for (int w = 0; w < q.W; w++) {
                lane[w] = 0;
                for (int64_t s = 0; s * step < q.n; s++) {
                    float p = 0;
                    for (int64_t e = s * step; e < q.n && e < (s + 1) * step; e++)
                        if (e / q.V % q.W == w) p += x[e];
                    lane[w] += p;
                }
            }
            bits_equal(t.s[r], join(lane, q, plus));
            assert_int_equal(t.i[r], q.n);
            for (int64_t j = 0; j < q.n; j++) bits_equal(t.y[r * q.n + j], j + 2 < q.n ? x[j + 2] : 0.1f);
        }
        fix_free(f);
    }
}

static void test_run_argmax(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(wants); i++)
        for (int nasty = 0; nasty < 4; nasty++) { /* 1: ties, 2: NaNs, 3: nothing but infinities */
            for (int min = 0; min < 2; min++) {
                Fix *f = fix_new();
                Want q = wants[i];
                Kern *k = kern_argmax(f, q, min ? OP_MIN : OP_MAX);
                Tensors t = tensors(f, k, 13);
                for (int64_t j = 0; j < ROWS * q.n; j++) {
                    if (nasty == 1) t.x[j] = (float)(j * 7 % 5) * (j % 2 ? 1 : -1);
                    if (nasty == 2 && j % 11 == 8) t.x[j] = NAN;
                    if (nasty == 3) t.x[j] = min ? INFINITY : -INFINITY;
                }
                KernRun kr;
                assert_ok(f, kern_verify(&f->cx, k));
                assert_ok(f, run(f, k, &t, &kr));
                for (int r = 0; r < ROWS; r++) {
                    const float *x = t.x + r * q.n;
                    int64_t best = -1;
                    for (int64_t j = 0; j < q.n; j++)
                        if (best < 0 || (isnan(x[j]) && !isnan(x[best])) || (min ? x[j] < x[best] : x[j] > x[best])) best = j;
                    assert_int_equal(t.i[r], best);
                    if (best >= 0) bits_equal(t.s[r], x[best]);
                }
                fix_free(f);
            }
        }
}

/* Pairs in a tree where a NaN, a tie and the absent index meet in every order. */
static void test_run_argmax_order(void **state) {
    (void)state;
    const float vals[] = {NAN, 2, 2, -INFINITY, 1};
    for (int code = 0; code < 625; code++) {
        Fix *f = fix_new();
        Kern *k = kern_argmax(f, (Want){4, 1, 1, 1, 2, code % 2 ? COMBINE_OUTER : COMBINE_INNER, 4, 1}, OP_MAX);
        Tensors t = tensors(f, k, 1);
        for (int j = 0, c = code; j < 4; j++, c /= 5) t.x[j] = vals[c % 5];
        KernRun kr;
        assert_ok(f, run(f, k, &t, &kr));
        int best = 0;
        for (int j = 1; j < 4; j++)
            if ((isnan(t.x[j]) && !isnan(t.x[best])) || t.x[j] > t.x[best]) best = j;
        assert_int_equal(t.i[0], best);
        fix_free(f);
    }
}

/* Special functions of f32 that are not expanded are libm's; this checks that each is taken as itself. */
static void test_run_special(void **state) {
    (void)state;
    Fix *f = fix_new();
    static const Op ops[] = {OP_RSQRT, OP_EXP, OP_EXP2, OP_LOG, OP_LOG2, OP_TANH, OP_ERF, OP_SIGMOID, OP_POW};
    for (int i = 0; i < COUNT(ops); i++) {
        Kern *k = kern_new(f, small);
        int loop = -1, arity = op_info(ops[i])->arity;
        BLOCK();
        int x = INS(.k = K_CONST, .ty = TY_F32, .c = f32(0.75f)), z = INS(.k = K_CONST, .ty = TY_I64);
        int v = INS(.k = K_OP, .op = ops[i], .ty = TY_F32, .a = {x, arity > 1 ? x : -1, -1});
        INS(.k = K_STORE1, .ty = TY_F32, .a = {z, -1, v}, .param = P_S);
        Tensors t = tensors(f, k, 1);
        KernRun kr;
        assert_ok(f, kern_verify(&f->cx, k));
        assert_ok(f, kern_run(&f->cx, k, t.slots, 1, t.lo, t.hi, &kr));
        double want = op_f64(ops[i], 0.75, 0.75, 0), ulp = ldexp(1, ilogb(want) - 23);
        assert_true(fabs((double)t.s[0] - want) <= op_info(ops[i])->ulp * ulp);
        k->poly = true;
        assert_slug(f, kern_verify(&f->cx, k), S_KERN_SPECIAL);
    }
    fix_free(f);
}

/* ---- the tree ---- */

typedef struct Met {
    int W;
    bool gone[1024];
    int steps;
} Met;

static void meet(void *user, int i, int j) {
    Met *m = user;
    assert_in_range(i, 0, m->W - 1);
    assert_in_range(j, 1, m->W - 1);
    assert_true(i < j && !m->gone[i] && !m->gone[j]);
    m->gone[j] = true;
    m->steps++;
}

static void test_join_tree(void **state) {
    (void)state;
    static const int subgroups[] = {1, 4, 8, 16, 32};
    const DimInfo *d = dim_info(DIM_W);
    for (int i = 0; i < d->nlegal; i++)
        for (int s = 0; s < COUNT(subgroups); s++)
            for (int c = COMBINE_INNER; c <= COMBINE_OUTER; c++) {
                Met m = {.W = d->legal[i]};
                join_tree(m.W, subgroups[s], c, meet, &m);
                assert_int_equal(m.steps, m.W - 1);
                assert_false(m.gone[0]);
            }
}

/* ---- text ---- */

static const char *print(Fix *f, const Kern *k) {
    Buf b = buf_new(f->arena);
    kern_print(k, &b);
    return b.s;
}

static void test_text(void **state) {
    (void)state;
    bool seen[K_COUNT] = {false};
    Fix *f = fix_new();
    for (int i = 0; i < ALL_KERNS; i++) {
        Kern *k = kern_number(f, i, small), *again = NULL;
        k->node[0].note = "a note, with # and words";
        const char *text = print(f, k);
        assert_ok(f, kern_read(&f->cx, &f->prog, text, strlen(text), &again));
        assert_string_equal(text, print(f, again));
        assert_string_equal(k->node[0].note, again->node[0].note);
        assert_int_equal(k->nins, again->nins);
        for (int j = 0; j < k->nins; j++) {
            seen[k->ins[j].k] = true;
            assert_int_equal(k->ins[j].k, again->ins[j].k);
        }
        Tensors t = tensors(f, k, 3), u = tensors(f, k, 3); /* and does the same */
        KernRun kr;
        assert_ok(f, run(f, k, &t, &kr));
        assert_ok(f, run(f, again, &u, &kr));
        assert_memory_equal(t.y, u.y, (size_t)(ROWS * small.n) * 4);
        assert_memory_equal(t.z, u.z, (size_t)(ROWS * small.n * small.g) * 2);
        assert_memory_equal(t.s, u.s, ROWS * 4);
    }
    for (int j = 0; j < K_COUNT; j++) assert_true(seen[j]); /* no instruction that these tests do not know */
    fix_free(f);
}

/* Constants keep their bits. */
static void test_text_numbers(void **state) {
    (void)state;
    static const struct {
        Ty ty;
        uint64_t bits;
    } nums[] = {{TY_F32, 0x7FC00000}, {TY_F32, 0xFFC12345}, {TY_F32, 0x7F800000}, {TY_F32, 0x80000000}, {TY_F32, 1}, {TY_F32, 0x3DCCCCCD},
                {TY_F64, 0x7FF8000000000000}, {TY_F64, 0xFFF8000000000001}, {TY_F64, 0x8000000000000000}, {TY_F64, 0x3FB999999999999A},
                {TY_I64, (uint64_t)INT64_MIN}, {TY_U64, UINT64_MAX}, {TY_I32, (uint64_t)(int64_t)-5}, {TY_U32, UINT32_MAX}, {TY_BOOL, 1}, {TY_BOOL, 0}};
    Fix *f = fix_new();
    Kern *k = kern_new(f, small), *again;
    int loop = -1;
    BLOCK();
    for (int i = 0; i < COUNT(nums); i++) {
        Num c = {0};
        uint32_t low = (uint32_t)nums[i].bits;
        if (nums[i].ty == TY_F32) memcpy(&c.f, &low, 4);
        else if (nums[i].ty == TY_BOOL) c.b = nums[i].bits;
        else c.u = nums[i].bits;
        INS(.k = K_CONST, .ty = nums[i].ty, .c = c);
    }
    const char *text = print(f, k);
    assert_ok(f, kern_read(&f->cx, &f->prog, text, strlen(text), &again));
    for (int i = 0; i < k->nins; i++) assert_memory_equal(&k->ins[i].c, &again->ins[i].c, sizeof(Num));
    fix_free(f);
}

static void test_text_refused(void **state) {
    (void)state;
    static const char *const from_to[][2] = {
        {"kern", "kernel"},          {"machine", "host"},        {"poly 0", "poly 2"},       {"domain d0", "domain d7"}, {"mapped n", "mapped q"},
        {"cell c0 f32", "cell c0 e32"}, {"block {", "block"},    {"sweep d0", "sweep 0"},    {"loadp", "loadq"},         {"elem x plain", "elem w plain"},
        {"plain", "never"},          {"fold.add", "fold.sum"},   {"fold.add", "fold"},       {"%0 = rowidx", "rowidx"},  {"%0 = rowidx", "%1 = rowidx"},
        {"init f32 c0 0", "init f32 c0 zero"}, {"init", "%3 = init"}, {"slot i64 row", "slot i64 rod"}, {"}\n", "}}\n"}, {"rowidx i64 row", "rowidx i64 row 5"},
        {"shape rows -1", "shape rows x"}, {"counts", "count"}, {"}\n", "\n"},
    };
    Fix *f = fix_new();
    const char *text = print(f, kern_sum(f, small));
    for (int i = 0; i < COUNT(from_to); i++) {
        const char *at = strstr(text, from_to[i][0]);
        if (!at) fail_msg("no \"%s\" in\n%s", from_to[i][0], text);
        char *bad = arena_printf(f->arena, "%.*s%s%s", (int)(at - text), text, from_to[i][1], at + strlen(from_to[i][0]));
        Kern *k;
        assert_slug(f, kern_read(&f->cx, &f->prog, bad, strlen(bad), &k), S_KERN_SYNTAX);
    }
    fix_free(f);
}

/* Any bytes: an error, or a kern whose text reads back. */
static void test_text_hostile(void **state) {
    (void)state;
    static const char *const words[] = {"%0", "%9", "-1", "99999999999", "elem", "row", "c1", "s0", "d1", "}", "loop 3 {\n", "i64", "bool", "_", " ", "\n", "#", "nan", "to bf16", "2147483647"};
    Rng r = {20};
    int kept = 0;
    for (int round = 0; round < 4000; round++) {
        Fix *f = fix_new();
        const char *text = print(f, kern_number(f, rng_int(&r, ALL_KERNS), small));
        int n = (int)strlen(text), cap = n + 4096;
        char *s = arena_get(f->arena, (size_t)cap);
        memcpy(s, text, (size_t)n);
        for (int edits = 1 + rng_int(&r, 4); edits > 0; edits--) {
            int at = rng_int(&r, n), len = rng_int(&r, 3) ? rng_int(&r, 4) : rng_int(&r, 60);
            if (at + len > n) len = n - at;
            const char *w = words[rng_int(&r, COUNT(words))];
            char byte[2] = {(char)rng_int(&r, 256), 0};
            int kind = rng_int(&r, 4);
            if (kind == 1) w = byte;
            if (kind == 2) len = 0;
            int more = kind == 3 ? 0 : kind == 1 ? 1 : (int)strlen(w);
            memmove(s + at + more, s + at + len, (size_t)(n - at - len));
            memcpy(s + at, w, (size_t)more);
            n += more - len;
        }
        Kern *k, *again;
        if (kern_read(&f->cx, &f->prog, s, (size_t)n, &k) == OK) {
            const char *one = print(f, k);
            assert_ok(f, kern_verify(&f->cx, k));
            assert_ok(f, kern_read(&f->cx, &f->prog, one, strlen(one), &again));
            assert_string_equal(one, print(f, again));
            Demand d;
            kern_count(&f->cx, k, &d);
            kept++;
        } else {
            assert_non_null(f->cx.first);
        }
        fix_free(f);
    }
    assert_true(kept > 100); /* else the mutations say nothing about good kerns */
}

/* ---- the verifier ---- */

static Ins *nth(Kern *k, KOp op, int n) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == op && n-- == 0) return &k->ins[i];
    fail_msg("no such instruction");
    return NULL;
}
static int number(Kern *k, KOp op, int n) { return (int)(nth(k, op, n) - k->ins); }

typedef enum Base { SUM, ARGMAX, SOFTMAX = 4, SERIAL, STEPS } Base;
#define RULE(name, base, slug, edit)                                     \
    static void name(Kern *k) { edit; }                                  \
    enum { name##_base = base, name##_slug = slug };
/* One edit of a good kern for each rule and way to break it. */
RULE(r_next, SUM, S_KERN_STRUCTURE, k->node[2].next = 0)
RULE(r_node, SUM, S_KERN_STRUCTURE, k->node[0].next = 17)
RULE(r_lost, SUM, S_KERN_STRUCTURE, k->node[1].next = -1)
RULE(r_gap, SUM, S_KERN_STRUCTURE, k->node[1].i0++)
RULE(r_past, SUM, S_KERN_STRUCTURE, k->node[2].i1++)
RULE(r_kind, SUM, S_KERN_STRUCTURE, k->node[1].kind = (NodeKind)9)
RULE(r_sweeps, SUM, S_KERN_STRUCTURE, k->nsweeps = 2)
RULE(r_reds, SUM, S_KERN_STRUCTURE, k->nreds = -1)
RULE(r_w, SUM, S_KERN_PLAN, k->plan.W = 0)
RULE(r_flight, SUM, S_KERN_PLAN, k->plan.flight = 0)
RULE(r_subgroup, SUM, S_KERN_PLAN, k->subgroup = 0)
RULE(r_elements, SUM, S_KERN_DOMAIN, k->domain[0].n_mapped++)
RULE(r_points, SERIAL, S_KERN_DOMAIN, k->domain[1].n_serial++)
RULE(r_both, SERIAL, S_KERN_DOMAIN, k->domain[1].serial |= k->domain[1].mapped)
RULE(r_axis, SUM, S_KERN_DOMAIN, k->domain[0].axes |= 1u << 11)
RULE(r_huge, SUM, S_KERN_DOMAIN, k->shape.n[A_N] = k->domain[0].n_mapped = k->domain[1].n_mapped = INT64_MAX)
RULE(r_domains, SUM, S_KERN_DOMAIN, k->ndomains = MAX_DOMAINS + 1)
RULE(r_home, SOFTMAX, S_KERN_STRIPE, k->stripe[0].home = HOLD_REGISTER32)
RULE(r_stripe_ty, SOFTMAX, S_KERN_STRIPE, k->stripe[0].ty = TY_NONE)
RULE(r_life, SOFTMAX, S_KERN_STRIPE, k->stripe[0].last = 3)
RULE(r_short, SOFTMAX, S_KERN_STRIPE, k->stripe[0].last = 1)
RULE(r_late, SOFTMAX, S_KERN_STRIPE, k->stripe[0].first = 1)
RULE(r_output, SOFTMAX, S_KERN_STRIPE, k->stripe[0].home = HOLD_OUTPUT; k->stripe[0].param = P_Y)
RULE(r_no_output, SOFTMAX, S_KERN_STRIPE, k->stripe[0].home = HOLD_OUTPUT; k->stripe[0].param = P_X)
RULE(r_other_map, SOFTMAX, S_KERN_STRIPE_DOMAIN, k->domain[1] = (Domain){1u << A_G, 0, 1u << A_G, 1, 3}; k->stripe[0].domain = 1)
RULE(r_no_point, SERIAL, S_KERN_STRIPE_DOMAIN, nth(k, K_GET, 0)->a[0] = -1)
RULE(r_point, SOFTMAX, S_KERN_STRIPE_DOMAIN, nth(k, K_GET, 0)->a[0] = 0)
RULE(r_cell_ty, SUM, S_KERN_CELL, k->cell[0].ty = TY_BF16)
RULE(r_cell_acc, SUM, S_KERN_CELL, k->cell[0].acc = 0)
RULE(r_array, SERIAL, S_KERN_ARRAY, k->array[0].n = -1)
RULE(r_loops, SERIAL, S_KERN_LOOP, k->node[k->node[1].child].kind = NODE_LOOP; k->node[k->node[1].child].child = -1)
RULE(r_rounds, SERIAL, S_KERN_LOOP, k->node[1].count = 2)
RULE(r_backwards, SERIAL, S_KERN_LOOP, k->node[1].count = -1)
RULE(r_unlooped, SUM, S_KERN_LOOP, k->node[1].domain = 1)
RULE(r_serial, SUM, S_KERN_LOOP, k->ins[0].k = K_SERIAL)
RULE(r_missing, SUM, S_KERN_OPERAND, nth(k, K_FOLD, 0)->a[0] = -1)
RULE(r_beyond, SUM, S_KERN_OPERAND, nth(k, K_FOLD, 0)->a[0] = 1000)
RULE(r_effect, SUM, S_KERN_OPERAND, nth(k, K_FOLD, 0)->a[0] = number(k, K_INIT, 0))
RULE(r_guard, STEPS, S_KERN_OPERAND, nth(k, K_LOAD1, 0)->a[2] = -1)
RULE(r_fill, STEPS, S_KERN_OPERAND, nth(k, K_LOAD1, 0)->a[1] = -1)
RULE(r_later, SUM, S_KERN_ORDER, nth(k, K_LOADP, 0)->a[0] = number(k, K_JOIN, 0))
RULE(r_sweep_scope, SOFTMAX, S_KERN_SCOPE, nth(k, K_JOIN, 0)->a[0] = number(k, K_LOADP, 0))
RULE(r_sweep_to_sweep, SOFTMAX, S_KERN_SCOPE, nth(k, K_OP, 4)->a[0] = number(k, K_LOADP, 0))
RULE(r_loop_scope, SERIAL, S_KERN_SCOPE, nth(k, K_GET, 0)->a[0] = number(k, K_SERIAL, 0))
RULE(r_fold_place, SUM, S_KERN_PLACE, nth(k, K_INIT, 0)->k = K_FOLD)
RULE(r_init_place, SUM, S_KERN_PLACE, nth(k, K_FOLD, 0)->k = K_INIT)
RULE(r_ins, SUM, S_KERN_OPERATOR, k->ins[2].k = K_COUNT)
RULE(r_fold_op, SUM, S_KERN_OPERATOR, nth(k, K_FOLD, 0)->op = OP_SUB)
RULE(r_pair_op, ARGMAX, S_KERN_OPERATOR, nth(k, K_FOLD2, 0)->op = OP_ADD)
RULE(r_join_op, SUM, S_KERN_OPERATOR, nth(k, K_JOIN, 0)->op = OP_FMA)
RULE(r_leaf_op, SUM, S_KERN_OPERATOR, nth(k, K_OP, 0)->op = OP_IDX)
RULE(r_no_op, SUM, S_KERN_OPERATOR, nth(k, K_OP, 0)->op = OP_COUNT)
RULE(r_cell, SUM, S_KERN_INDEX, nth(k, K_FOLD, 0)->imm = 1)
RULE(r_stripe, SOFTMAX, S_KERN_INDEX, nth(k, K_GET, 0)->imm = 1)
RULE(r_row_array, SERIAL, S_KERN_INDEX, nth(k, K_ROWGET, 0)->imm = -1)
RULE(r_slot, SUM, S_KERN_INDEX, nth(k, K_SLOT, 0)->imm = 1000)
RULE(r_param, SUM, S_KERN_INDEX, nth(k, K_LOADP, 0)->param = 7)
RULE(r_acc, SUM, S_KERN_INDEX, nth(k, K_CELL, 0)->acc = 2)
RULE(r_load_policy, SUM, S_KERN_INDEX, nth(k, K_LOADP, 0)->policy = 4)
RULE(r_store_policy, SUM, S_KERN_INDEX, nth(k, K_STORE1, 0)->policy = 2)
RULE(r_domain, SUM, S_KERN_INDEX, k->node[1].domain = 2)
RULE(r_no_index_cell, ARGMAX, S_KERN_INDEX, nth(k, K_FOLD2, 0)->imm = 1)
RULE(r_sweep_acc, STEPS, S_KERN_INDEX, k->cell[0].acc = 2; nth(k, K_CELL, 0)->acc = 1)
RULE(r_load_out, SUM, S_KERN_DIRECTION, nth(k, K_LOADP, 0)->param = P_Y)
RULE(r_load_scalar, SUM, S_KERN_DIRECTION, nth(k, K_LOADP, 0)->param = P_EPS)
RULE(r_store_in, SOFTMAX, S_KERN_DIRECTION, nth(k, K_STOREP, 0)->param = P_X)
RULE(r_pointer, SUM, S_KERN_TYPE, nth(k, K_SLOT, 0)->imm = 0)
RULE(r_row_ty, SUM, S_KERN_TYPE, k->ins[0].ty = TY_I32)
RULE(r_storage_ty, SUM, S_KERN_TYPE, nth(k, K_LOADP, 0)->ty = TY_BF16)
RULE(r_mixed, SUM, S_KERN_TYPE, nth(k, K_SLOT, 0)->ty = TY_F64)
RULE(r_load_ty, SUM, S_KERN_TYPE, nth(k, K_LOADP, 0)->ty = TY_I32)
RULE(r_address, STEPS, S_KERN_TYPE, nth(k, K_LOADP, 0)->a[0] = number(k, K_OP, 4))
RULE(r_op_ty, SUM, S_KERN_TYPE, nth(k, K_OP, 0)->ty = TY_F32)
RULE(r_cast, STEPS, S_KERN_TYPE, nth(k, K_OP, 4)->to = TY_F64)
RULE(r_bits, STEPS, S_KERN_TYPE, nth(k, K_OP, 4)->op = OP_BITS)
RULE(r_fold_ty, SUM, S_KERN_TYPE, k->cell[0].ty = TY_F64)
RULE(r_logic, SUM, S_KERN_TYPE, nth(k, K_FOLD, 0)->op = OP_AND)
RULE(r_pair_ty, ARGMAX, S_KERN_TYPE, nth(k, K_ELEM, 0)->ty = TY_I32)
RULE(r_index_cell, ARGMAX, S_KERN_TYPE, k->cell[1].ty = TY_F32; *nth(k, K_INIT, 1) = *nth(k, K_INIT, 0); nth(k, K_INIT, 1)->imm = 1)
RULE(r_guard_ty, STEPS, S_KERN_TYPE, nth(k, K_LOAD1, 0)->a[1] = number(k, K_ELEM, 0))
RULE(r_fill_ty, STEPS, S_KERN_TYPE, nth(k, K_LOAD1, 0)->a[2] = 0)
RULE(r_active_ty, STEPS, S_KERN_TYPE, nth(k, K_ACTIVE, 0)->ty = TY_I64)
RULE(r_stripe_value, SOFTMAX, S_KERN_TYPE, k->stripe[0].ty = TY_I32)
RULE(r_array_value, SERIAL, S_KERN_TYPE, k->array[0].ty = TY_F64)
RULE(r_rank, SUM, S_KERN_RANK, nth(k, K_LOADP, 0)->rank = RANK_ROW)
RULE(r_op_rank, SOFTMAX, S_KERN_RANK, nth(k, K_OP, 3)->rank = RANK_LANE)
RULE(r_cell_rank, SUM, S_KERN_RANK, nth(k, K_CELL, 0)->rank = RANK_ROW)
RULE(r_join_rank, SUM, S_KERN_RANK, nth(k, K_JOIN, 0)->rank = RANK_LANE)
RULE(r_join_row, STEPS, S_KERN_RANK, nth(k, K_JOIN, 1)->a[0] = number(k, K_JOIN, 0))
RULE(r_base, STEPS, S_KERN_RANK, *nth(k, K_PACKFOLD, 0) = (Ins){.k = K_ELEM, .ty = TY_I64, .rank = RANK_ELEM}; *nth(k, K_CELL, 0) = (Ins){.k = K_LOADP, .ty = TY_F32, .rank = RANK_ELEM, .a = {number(k, K_ELEM, 0), -1, -1}, .param = P_X})
RULE(r_store_lane, SUM, S_KERN_RANK, nth(k, K_STORE1, 0)->a[2] = number(k, K_CELL, 0))
RULE(r_one_address, STEPS, S_KERN_RANK, nth(k, K_STORE1, 0)->a[0] = 0)
RULE(r_set_elem, STEPS, S_KERN_RANK, nth(k, K_SETCELL, 0)->a[0] = number(k, K_LOADP, 0))
RULE(r_layout_param, SUM, S_KERN_LAYOUT, nth(k, K_LOADP, 0)->param = P_T)
RULE(r_layout_order, SERIAL, S_KERN_LAYOUT, k->node[node_end(k, k->node[1].child) - 1].domain = 0; k->domain[0] = (Domain){6, 0, 6, 1, 111})
RULE(r_layout_last, SERIAL, S_KERN_LAYOUT, ((Prog *)k->prog)->param[P_Z].axis[1] = A_N; ((Prog *)k->prog)->param[P_Z].axis[2] = A_G; nth(k, K_LOADP, 0)->a[1] = -1)
RULE(r_get_first, SOFTMAX, S_KERN_UNFILLED, *nth(k, K_PUT, 0) = (Ins){.k = K_GET, .ty = TY_F32, .rank = RANK_ELEM, .a = {-1, -1, -1}})
RULE(r_array_first, SERIAL, S_KERN_UNFILLED, nth(k, K_ROWPUT, 0)->k = K_ROWGET)
RULE(r_unset, SUM, S_KERN_UNSET, *nth(k, K_INIT, 0) = (Ins){.k = K_CONST, .ty = TY_F32})
RULE(r_unset_index, ARGMAX, S_KERN_UNSET, nth(k, K_INIT, 1)->ty = TY_F32; nth(k, K_INIT, 1)->imm = 0)
RULE(r_unset_after, SERIAL, S_KERN_UNSET, *nth(k, K_ROWGET, 0) = (Ins){.k = K_CELL, .ty = TY_F32, .rank = RANK_LANE})
RULE(r_pair, ARGMAX, S_KERN_PAIR, *nth(k, K_JOIN2I, 0) = (Ins){.k = K_ROWIDX, .ty = TY_I64})
RULE(r_pair_first, ARGMAX, S_KERN_PAIR, *nth(k, K_JOIN2, 0) = (Ins){.k = K_CONST, .ty = TY_F32})

#define ROW(name) {#name, name, name##_base, name##_slug}
static const struct {
    const char *name;
    void (*edit)(Kern *);
    int base, slug;
} rules[] = {
    ROW(r_next), ROW(r_node), ROW(r_lost), ROW(r_gap), ROW(r_past), ROW(r_kind), ROW(r_sweeps), ROW(r_reds), ROW(r_w), ROW(r_flight),
    ROW(r_subgroup), ROW(r_elements), ROW(r_points), ROW(r_both), ROW(r_axis), ROW(r_huge), ROW(r_domains), ROW(r_home), ROW(r_stripe_ty),
    ROW(r_life), ROW(r_short), ROW(r_late), ROW(r_output), ROW(r_no_output), ROW(r_other_map), ROW(r_no_point), ROW(r_point), ROW(r_cell_ty),
    ROW(r_cell_acc), ROW(r_array), ROW(r_loops), ROW(r_rounds), ROW(r_backwards), ROW(r_unlooped), ROW(r_serial), ROW(r_missing), ROW(r_beyond),
    ROW(r_effect), ROW(r_guard), ROW(r_fill), ROW(r_later), ROW(r_sweep_scope), ROW(r_sweep_to_sweep), ROW(r_loop_scope), ROW(r_fold_place),
    ROW(r_init_place), ROW(r_ins), ROW(r_fold_op), ROW(r_pair_op), ROW(r_join_op), ROW(r_leaf_op), ROW(r_no_op), ROW(r_cell), ROW(r_stripe),
    ROW(r_row_array), ROW(r_slot), ROW(r_param), ROW(r_acc), ROW(r_load_policy), ROW(r_store_policy), ROW(r_domain), ROW(r_no_index_cell),
    ROW(r_sweep_acc), ROW(r_load_out), ROW(r_load_scalar), ROW(r_store_in), ROW(r_pointer), ROW(r_row_ty), ROW(r_storage_ty), ROW(r_mixed),
    ROW(r_load_ty), ROW(r_address), ROW(r_op_ty), ROW(r_cast), ROW(r_bits), ROW(r_fold_ty), ROW(r_logic), ROW(r_pair_ty), ROW(r_index_cell),
    ROW(r_guard_ty), ROW(r_fill_ty), ROW(r_active_ty), ROW(r_stripe_value), ROW(r_array_value), ROW(r_rank), ROW(r_op_rank), ROW(r_cell_rank),
    ROW(r_join_rank), ROW(r_join_row), ROW(r_base), ROW(r_store_lane), ROW(r_one_address), ROW(r_set_elem), ROW(r_layout_param),
    ROW(r_layout_order), ROW(r_layout_last), ROW(r_get_first), ROW(r_array_first), ROW(r_unset), ROW(r_unset_index), ROW(r_unset_after),
    ROW(r_pair), ROW(r_pair_first),
};

static void test_verify(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(rules); i++) {
        Fix *f = fix_new();
        Kern *k = kern_number(f, rules[i].base, small);
        assert_ok(f, kern_verify(&f->cx, k));
        rules[i].edit(k);
        print(f, k); /* whatever is wrong, it can be shown */
        Err e = kern_verify(&f->cx, k);
        if (e == OK || f->cx.first->slug != (Slug)rules[i].slug)
            fail_msg("%s: got %s (%s)\n%s", rules[i].name, e ? slug_text(f->cx.first->slug) : "no error", e ? f->cx.first->msg : "", print(f, k));
        fix_free(f);
    }
}

/* An output that is a stripe's home may be loaded. */
static void test_verify_home(void **state) {
    (void)state;
    Fix *f = fix_new();
    Kern *k = kern_sum(f, small);
    nth(k, K_LOADP, 0)->param = P_Y;
    add_stripe(f, k, (Stripe){.ty = TY_F32, .home = HOLD_OUTPUT, .param = P_Y});
    assert_ok(f, kern_verify(&f->cx, k));
    fix_free(f);
}

/* ---- faults ---- */

static void test_fault_bounds(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        Fix *f = fix_new();
        Kern *k = i < 4 ? kern_softmax(f, small, i % 2) : kern_serial(f, small);
        Tensors t = tensors(f, k, 5);
        KernRun kr;
        assert_ok(f, run(f, k, &t, &kr));
        if (i < 2) t.hi[P_X] = (const char *)t.hi[P_X] - 1;
        else if (i < 4) t.lo[P_Y] = (const char *)t.lo[P_Y] + 1;
        else if (i == 4) t.slots[k->abi.stride[P_Z][0]].i = -1;
        else t.slots[k->abi.stride[P_Z][2]].i = INT64_MAX / 2; /* e * stride does not fit */
        assert_slug(f, run(f, k, &t, &kr), S_KERN_BOUNDS);
        fix_free(f);
    }
    /* a guard that is false keeps memory from being touched; one that is always true does not */
    Fix *f = fix_new();
    Kern *k = kern_steps(f, small);
    Tensors t = tensors(f, k, 5);
    KernRun kr;
    assert_ok(f, run(f, k, &t, &kr));
    nth(k, K_CONST, 1)->c.i = INT64_MAX;
    assert_slug(f, run(f, k, &t, &kr), S_KERN_BOUNDS);
    fix_free(f);
}

static void test_fault_inside(void **state) { /* slots and values of the kern's own memory */
    (void)state;
    static const Slug want[] = {S_KERN_BOUNDS, S_KERN_BOUNDS, S_KERN_UNWRITTEN, S_KERN_UNWRITTEN, S_KERN_UNWRITTEN, S_KERN_UNWRITTEN, S_KERN_BOUNDS};
    for (int i = 0; i < COUNT(want); i++) {
        Fix *f = fix_new();
        Kern *k = i == 5 || i == 6 ? kern_softmax(f, small, true) : i == 4 ? kern_sum(f, small) : kern_serial(f, small);
        Tensors t = tensors(f, k, 5);
        KernRun kr;
        assert_ok(f, run(f, k, &t, &kr));
        switch (i) {
        case 0: nth(k, K_GET, 0)->a[0] = number(k, K_SLOT, 0); break;   /* the row's stride as a serial point */
        case 1: nth(k, K_ROWGET, 0)->a[0] = number(k, K_SLOT, 0); break;
        case 2: k->node[1].count = 2; break;                            /* the last serial point stays unwritten */
        case 3: nth(k, K_ROWPUT, 0)->a[0] = 0; break;                   /* always written at the row's number */
        case 4: nth(k, K_INIT, 0)->k = K_COUNT; break;                  /* nothing: the accumulators hold nothing */
        case 5: nth(k, K_PUT, 0)->k = K_COUNT; break;
        default: /* a stripe for fewer elements than the sweep has */
            k->domain[1] = (Domain){1u << A_N, 0, 1u << A_N, 1, 8};
            k->stripe[0].domain = 1;
        }
        if (i == 4 || i == 5) k->ins[number(k, K_COUNT, 0)] = (Ins){.k = K_CONST, .ty = TY_F32};
        if (i == 2 || i == 3) { /* such kerns pass the verifier: only running them shows it */
            if (i == 2) k->node[1].count = 3, k->node[1].count--;
        }
        assert_slug(f, run(f, k, &t, &kr), want[i]);
        fix_free(f);
    }
}

static void test_fault_race(void **state) {
    (void)state;
    KernRun kr;
    for (int meets = 0; meets < 2; meets++)
        for (int W = 1; W <= 4; W += 3) { /* all lanes read t, lane 0 writes it: they must have met */
            Fix *f = fix_new();
            Want q = small;
            q.W = W;
            Kern *k = kern_inout(f, q, meets, false);
            Tensors t = tensors(f, k, 5);
            assert_ok(f, kern_verify(&f->cx, k));
            Err e = run(f, k, &t, &kr);
            if (meets || W == 1) assert_ok(f, e);
            else assert_slug(f, e, S_KERN_RACE);
            if (meets || W == 1) bits_equal(t.t[ROWS - 1], 1);
            k = kern_inout(f, q, true, true); /* and nothing orders a write before a read */
            e = run(f, k, &t, &kr);
            if (W == 1) assert_ok(f, e);
            else assert_slug(f, e, S_KERN_RACE);
            fix_free(f);
        }
    Fix *f = fix_new(); /* rows that share an output */
    Kern *k = kern_sum(f, small);
    Tensors t = tensors(f, k, 5);
    t.slots[k->abi.stride[P_S][0]].i = 0;
    assert_slug(f, run(f, k, &t, &kr), S_KERN_RACE);
    /* rows of an inout that overlap: one reads what another writes */
    k = kern_serial(f, small);
    t = tensors(f, k, 5);
    t.slots[k->abi.stride[P_Z][0]].i = small.n;
    assert_slug(f, run(f, k, &t, &kr), S_KERN_RACE);
    /* lanes of a row that store to one place */
    k = kern_steps(f, small);
    t = tensors(f, k, 5);
    k->ins[nth(k, K_STORE1, 0)->a[0]].op = OP_MIN;
    assert_slug(f, run(f, k, &t, &kr), S_KERN_RACE);
    fix_free(f);
}

/* ---- counts ---- */

#define SAME(x, y) assert_true((x) == (y))

static void test_count_softmax(void **state) {
    (void)state;
    Fix *f = fix_new();
    Want q = {.W = 512, .V = 4, .acc = 1, .flight = 1, .L = 32, .combine = COMBINE_INNER, .n = 4096, .g = 1};
    Demand d;
    for (int hold = 0; hold < 2; hold++) {
        kern_count(&f->cx, kern_softmax(f, q, hold), &d);
        assert_true(d.known);
        SAME(d.lane.global_read, hold ? 32 : 96); /* 8 slots of 4 bytes, once or three times */
        SAME(d.row.global_read, hold ? 16384 : 49152);
        SAME(d.lane.global_write, 32);
        SAME(d.row.global_write, 16384);
        SAME(d.lane.private_write, hold ? 32 : 0);
        SAME(d.lane.private_read, hold ? 64 : 0);
        SAME(d.row.private_read, hold ? 32768 : 0);
        SAME(d.lane_rounds, 24);
        SAME(d.lane_packs, 6);
        SAME(d.collectives, 2);
        SAME(d.barriers, 2);
        SAME(d.shared_bytes, 2 * 16 * 4); /* two joins, partials of 16 subgroups */
        SAME(d.launches, 1);
        SAME(d.reductions, 2);
        SAME(d.stripe_slots, hold ? 8 : 0);
        SAME(d.lane_ops[COST_SPECIAL], 16);
        SAME(d.row_ops[COST_SPECIAL], 8192);
        SAME(d.lane_ops[COST_DIV], 8);
        SAME(d.lane_ops[COST_ALU], 2 + 8 + 16 + 8); /* addresses; max; sub and add; sub */
        SAME(d.lane_ops[COST_MEMORY], hold ? 16 : 32);
    }
    q.n = 4099; /* a tail: lane 0 gets three more of each domain */
    kern_count(&f->cx, kern_softmax(f, q, true), &d);
    SAME(d.lane.global_read, 44);
    SAME(d.row.global_read, 4099 * 4);
    SAME(d.lane_rounds, 33);
    SAME(d.lane_packs, 9);
    q.L = 512; /* one subgroup meets without an exchange */
    kern_count(&f->cx, kern_softmax(f, q, true), &d);
    SAME(d.collectives, 2);
    SAME(d.barriers, 0);
    SAME(d.shared_bytes, 0);
    q.L = 32, q.combine = COMBINE_OUTER; /* every lane's value is exchanged */
    kern_count(&f->cx, kern_softmax(f, q, true), &d);
    SAME(d.shared_bytes, 2 * 512 * 4);
    fix_free(f);
}

static void test_count_others(void **state) {
    (void)state;
    Fix *f = fix_new();
    Want q = {.W = 8, .V = 2, .acc = 2, .flight = 2, .L = 4, .combine = COMBINE_INNER, .n = 37, .g = 3};
    Demand d;
    /* 37 = 2 chunks of 16 and 5: slots 2*2 + 2, packs 3, steps 2 */
    kern_count(&f->cx, kern_serial(f, q), &d);
    SAME(d.lane.global_read, 3 * 6 * 2);
    SAME(d.row.global_read, 3 * 37 * 2);
    SAME(d.lane.private_write, 3 * 6 * 2); /* in bf16 */
    SAME(d.lane.private_read, 3 * 6 * 2);
    SAME(d.lane.global_write, 3 * 6 * 2);
    SAME(d.lane_rounds, 2 * 3 * 6);
    SAME(d.lane_packs, 2 * 3 * 3);
    SAME(d.collectives, 3);
    SAME(d.barriers, 3);
    SAME(d.shared_bytes, 2 * 4 + 3 * 37 * 2); /* partials of 2 subgroups, and the stripe of a row */
    SAME(d.lane_ops[COST_CONVERT], 36);       /* bf16 in and out */
    kern_count(&f->cx, kern_argmax(f, q, OP_MAX), &d);
    SAME(d.collectives, 1);
    SAME(d.barriers, 1);
    SAME(d.shared_bytes, 2 * (4 + 8));
    SAME(d.lane.global_write, 12);
    SAME(d.row.global_write, 12);
    SAME(d.lane_ops[COST_ALU], 3 + 6 + 6); /* addresses; element numbers; comparisons */
    kern_count(&f->cx, kern_steps(f, q), &d);
    SAME(d.lane.global_read, 48);              /* both sides of the guard */
    SAME(d.lane_ops[COST_ALU], 4 + 6 + 2 * 2 + 6 * 5); /* addresses; pack sum; two adds a step; element: number, +2, <, two addresses */
    SAME(d.row_ops[COST_ALU], 4 + 37 + 2 * 2 * 8 + 37 * 5);
    SAME(d.barriers, 2); /* the joins are not side by side */
    fix_free(f);
}

/* sum at W = V = 1: the row's number and two bases before; the sweep needs the base of x, the other base, the cell and the element. */
static void test_count_live(void **state) {
    (void)state;
    Fix *f = fix_new();
    Demand d;
    Want q = {.W = 1, .V = 1, .acc = 1, .flight = 1, .L = 1, .combine = COMBINE_INNER, .n = 5, .g = 1};
    kern_count(&f->cx, kern_sum(f, q), &d);
    SAME(d.live_values, 4);
    q.acc = 4, q.V = 4, q.flight = 2; /* four accumulators, eight elements in a step */
    kern_count(&f->cx, kern_sum(f, q), &d);
    SAME(d.live_values, 2 + 4 + 8);
    q.n = (int64_t)1 << 53; /* more bytes than doubles count one by one */
    kern_count(&f->cx, kern_sum(f, q), &d);
    assert_false(d.known);
    SAME(d.lane_rounds, 0);
    SAME(d.launches, 0);
    fix_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_sum_and_softmax), cmocka_unit_test(test_run_serial),       cmocka_unit_test(test_run_steps),
        cmocka_unit_test(test_run_argmax),          cmocka_unit_test(test_run_argmax_order), cmocka_unit_test(test_run_special),
        cmocka_unit_test(test_join_tree),           cmocka_unit_test(test_text),             cmocka_unit_test(test_text_numbers),
        cmocka_unit_test(test_text_refused),        cmocka_unit_test(test_text_hostile),     cmocka_unit_test(test_verify),
        cmocka_unit_test(test_verify_home),         cmocka_unit_test(test_fault_bounds),     cmocka_unit_test(test_fault_inside),
        cmocka_unit_test(test_fault_race),          cmocka_unit_test(test_count_softmax),    cmocka_unit_test(test_count_others),
        cmocka_unit_test(test_count_live),
    };
    return cmocka_run_group_tests_name("kern", tests, NULL, NULL);
}
