/* What the interpreter computes, lane by lane, and reports; and what is counted. */
#include "kern_hand.h"

/* ---- the same arithmetic, written straight ---- */

typedef float (*Fold)(float, float);
static float plus(float x, float y) {
    return x + y;
}
static float larger(float x, float y) {
    return x > y ? x : y;
}

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
        float acc[4] = {0};
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
    {1, 1, 1, 1, 1, COMBINE_INNER, 1, 1},      {1, 4, 2, 2, 1, COMBINE_INNER, 37, 2},
    {2, 1, 1, 4, 8, COMBINE_OUTER, 37, 3},     {4, 2, 4, 1, 4, COMBINE_INNER, 8, 1},
    {8, 4, 4, 2, 4, COMBINE_OUTER, 129, 2},    {16, 1, 2, 8, 4, COMBINE_INNER, 513, 2},
    {96, 4, 1, 2, 32, COMBINE_INNER, 1027, 1}, {96, 2, 2, 1, 32, COMBINE_OUTER, 385, 1},
    {160, 1, 4, 4, 16, COMBINE_INNER, 700, 1}, {32, 16, 2, 2, 8, COMBINE_OUTER, 513, 1},
    {64, 4, 1, 1, 1, COMBINE_INNER, 300, 1},   {16, 2, 2, 2, 16, COMBINE_INNER, 3, 4},
    {8, 2, 2, 2, 8, COMBINE_INNER, 0, 2},
};

static void bits_equal(float got, float want) {
    assert_memory_equal(&got, &want, sizeof got);
}

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
                        if (best < 0 || (isnan(x[j]) && !isnan(x[best])) || (min ? x[j] < x[best] : x[j] > x[best]))
                            best = j;
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
                join_tree(m.W, subgroups[s], c, 1, meet, &m);
                assert_int_equal(m.steps, m.W - 1);
                assert_false(m.gone[0]);
            }
    for (int cluster = 1; cluster <= 16; cluster *= 2) { /* groups of 64 lanes */
        Met m = {.W = 64 * cluster};
        join_tree(m.W, 32, COMBINE_INNER, cluster, meet, &m);
        assert_int_equal(m.steps, m.W - 1);
        for (int g = 0; g < cluster; g++) assert_true(m.gone[64 * g] == (g > 0));
    }
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
        if (i < 2)
            t.hi[P_X] = (const char *)t.hi[P_X] - 1;
        else if (i < 4)
            t.lo[P_Y] = (const char *)t.lo[P_Y] + 1;
        else if (i == 4)
            t.slots[k->abi.stride[P_Z][0]].i = -1;
        else
            t.slots[k->abi.stride[P_Z][2]].i = INT64_MAX / 2; /* e * stride does not fit */
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
    static const Slug want[] = {S_KERN_BOUNDS,    S_KERN_BOUNDS,    S_KERN_UNWRITTEN, S_KERN_UNWRITTEN,
                                S_KERN_UNWRITTEN, S_KERN_UNWRITTEN, S_KERN_BOUNDS};
    for (int i = 0; i < COUNT(want); i++) {
        Fix *f = fix_new();
        Kern *k = i == 5 || i == 6 ? kern_softmax(f, small, true) : i == 4 ? kern_sum(f, small) : kern_serial(f, small);
        Tensors t = tensors(f, k, 5);
        KernRun kr;
        assert_ok(f, run(f, k, &t, &kr));
        switch (i) {
        case 0: nth(k, K_GET, 0)->a[0] = number(k, K_SLOT, 0); break; /* the row's stride as a serial point */
        case 1: nth(k, K_ROWGET, 0)->a[0] = number(k, K_SLOT, 0); break;
        case 2: k->node[1].count = 2; break;           /* the last serial point stays unwritten */
        case 3: nth(k, K_ROWPUT, 0)->a[0] = 0; break;  /* always written at the row's number */
        case 4: nth(k, K_INIT, 0)->k = K_COUNT; break; /* nothing: the accumulators hold nothing */
        case 5: nth(k, K_PUT, 0)->k = K_COUNT; break;
        default: /* a stripe for fewer elements than the sweep has */
            k->domain[1] = (Domain){1u << A_N, 0, 1u << A_N, 1, 8};
            k->stripe[0].domain = 1;
        }
        if (i == 4 || i == 5) k->ins[number(k, K_COUNT, 0)] = (Ins){.k = K_CONST, .ty = TY_F32};
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
            if (meets || W == 1)
                assert_ok(f, e);
            else
                assert_slug(f, e, S_KERN_RACE);
            if (meets || W == 1) bits_equal(t.t[ROWS - 1], 1);
            k = kern_inout(f, q, true, true); /* and nothing orders a write before a read */
            e = run(f, k, &t, &kr);
            if (W == 1)
                assert_ok(f, e);
            else
                assert_slug(f, e, S_KERN_RACE);
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
        SAME(d.join_levels, 2 * 9); /* the sum waits for the maximum: two trees of 512 lanes */
        SAME(d.barriers, 2);
        SAME(d.shared_bytes, 2 * 16 * 4); /* two joins, partials of 16 subgroups */
        SAME(d.launches, 1);
        SAME(d.reductions, 2);
        SAME(d.stripe_slots, hold ? 8 : 0);
        SAME(d.lane_ops[COST_SPECIAL], 16);
        SAME(d.row_ops[COST_SPECIAL], 8192);
        SAME(d.lane_ops[COST_DIV], 8);
        SAME(d.lane_alone, 0);                      /* exp is in sweeps */
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
    SAME(d.lane_ops[COST_CONVERT], 4 * 18);   /* bf16 in and out, to the stripe and back */
    SAME(d.lane_shared, 2 * 18);
    SAME(d.lane_waits, 3); /* one of the two sweeps loads, at each of three points */
    SAME(d.lane_chain, 3 * 6 / 2.0);
    SAME(d.weight_read, 0);
    kern_count(&f->cx, kern_argmax(f, q, OP_MAX), &d);
    SAME(d.collectives, 1);
    SAME(d.barriers, 1);
    SAME(d.shared_bytes, 2 * (4 + 8));
    SAME(d.lane.global_write, 12);
    SAME(d.row.global_write, 12);
    SAME(d.lane_ops[COST_ALU], 3 + 6 + 6 * 8); /* addresses; element numbers; who wins, value and index */
    kern_count(&f->cx, kern_steps(f, q), &d);
    SAME(d.lane.global_read, 48); /* both sides of the guard */
    SAME(d.lane_ops[COST_ALU],
         4 + 6 + 2 * 2 + 6 * 5); /* addresses; pack sum; two adds a step; element: number, +2, <, two addresses */
    SAME(d.row_ops[COST_ALU], 4 + 37 + 2 * 2 * 8 + 37 * 5);
    SAME(d.barriers, 1); /* neither join waits for the other: they share an exchange, and a tree of 8 lanes */
    SAME(d.join_levels, 3);
    SAME(d.lane_chain, 4);                    /* the two adds of each step wait for those of the step before */
    Kern *k = kern_inout(f, q, false, false); /* a division by a power of two is a multiplication */
    Ins *one = NULL;
    for (int i = 0; i < k->nins; i++) {
        if (k->ins[i].k == K_CONST && k->ins[i].ty == TY_F32) one = &k->ins[i];
        if (k->ins[i].k == K_OP && k->ins[i].op == OP_ADD && k->ins[i].ty == TY_F32) k->ins[i].op = OP_DIV;
    }
    for (int by = 3; by < 5; by++) {
        one->c.f = (float)by;
        kern_count(&f->cx, k, &d);
        SAME(d.lane_ops[COST_DIV], by == 3);
    }
    static const struct {
        Op op;
        double special, div;
    } functions[] = {{OP_EXP, 1, 0}, {OP_LOG, 6, 0}, {OP_SIGMOID, 1, 1}}; /* a sigmoid divides */
    for (int o = 0; o < COUNT(functions); o++) {
        for (int i = 0; i < k->nins; i++)
            if (k->ins[i].k == K_OP && k->ins[i].a[1] == (int)(one - k->ins)) k->ins[i].op = functions[o].op;
        kern_count(&f->cx, k, &d);
        SAME(d.lane_ops[COST_SPECIAL], functions[o].special);
        SAME(d.lane_ops[COST_DIV], functions[o].div);
    }
    fix_free(f);
}

/* sum at W = V = 1: the row's number and two bases before; the sweep needs the base of x, the other base, the cell and
 * the element. */
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
        cmocka_unit_test(test_run_sum_and_softmax), cmocka_unit_test(test_run_serial),
        cmocka_unit_test(test_run_steps),           cmocka_unit_test(test_run_argmax),
        cmocka_unit_test(test_run_argmax_order),    cmocka_unit_test(test_run_special),
        cmocka_unit_test(test_join_tree),           cmocka_unit_test(test_fault_bounds),
        cmocka_unit_test(test_fault_inside),        cmocka_unit_test(test_fault_race),
        cmocka_unit_test(test_count_softmax),       cmocka_unit_test(test_count_others),
        cmocka_unit_test(test_count_live),
    };
    return cmocka_run_group_tests_name("kern", tests, NULL, NULL);
}
