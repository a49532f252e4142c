/* The order of combination is the caller's choice: order=fixed gives the same bits for every plan, subgroup and hold;
 * order=serial is a left fold. With contract=on additions take products in, in every sweep alike. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/gen/kern.h"
#include "../../src/lang/lang.h"
#include "../../src/oracle/oracle.h"

static const char program[] =
    "kernel softmax for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
    "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n"
    "kernel layernorm for rows (x: in T[rows, n], g: in T[n], y: out T[rows, n]) {\n"
    "    mu = mean(x)\n    c = x - mu\n    y = c * rsqrt(mean(c * c) + 1e-5) * g\n}\n"
    "kernel total for rows (x: in T[rows, n], s: out f32[rows]) { s = sum(x) }\n"
    "kernel groups for rows (x: in T[rows, g, n], s: out f32[rows], t: out f32[rows, g]) {\n"
    "    s = sum(x)\n    t = sum(abs(x) over n)\n}\n"
    "kernel taken for rows (x: in T[rows, n], r: in T[rows, n], g: in T[n], y: out T[rows, n],\n"
    "                       z: out T[rows, n], w: out T[rows, n], s: out f32[rows]) {\n"
    "    y = x * g + r\n    z = r * g - x\n    w = g - x * x\n    s = sum(x * r)\n}\n"
    "kernel again for rows (x: in T[rows, n], g: in T[n], y: out T[rows, n]) {\n"
    "    p = x * g\n    a = p + x\n    y = a - max(a)\n}\n"
    "kernel kept for rows (x: in T[rows, n], g: in T[n], y: out T[rows, n]) {\n"
    "    hold p: register\n    p = x * g\n    a = p + x\n    y = a - max(a)\n}\n"
    "kernel shared for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
    "    q = x * x\n    y = (q - 1) / (q + 1)\n}\n"
    "kernel wide for rows (x: in T[rows, n], g: in T[n], r: in T[rows], y: out T[rows, n]) {\n"
    "    y = (x + g * g) - r * r\n}\n"
    "kernel long for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n]) {\n"
    "    s = sum(x * x)\n    y = (erf(x) + tanh(x) * log(abs(w) + 1) + pow(abs(x), w)\n"
    "         + sigmoid(x) + exp2(w)) * rsqrt(s)\n}\n"
    "kernel left for rows (x: in T[rows, n], s: out f32[rows]) { s = sum(x * x) @ordered }\n";

typedef struct Desk {
    Cx cx;
    Problem pb;
    Abi abi;
    Slot slot[64];
    void *mem[MAX_PARAMS];
    const void *lo[MAX_PARAMS], *hi[MAX_PARAMS];
    size_t bytes[MAX_PARAMS];
    int64_t rows;
} Desk;

static void open_desk(Desk *d, const char *kernel, const char *preset, int64_t n, Ty ty) {
    *d = (Desk){.cx = {.a = arena_new(NULL, NULL)}, .rows = 3};
    Ast *ast;
    Prog *p;
    Caps caps;
    TyBind bind = {"*", ty};
    assert_int_equal(lang_parse(&d->cx, "order", program, sizeof program - 1, &ast), OK);
    assert_int_equal(lang_kernel(&d->cx, ast, kernel, &bind, 1, NULL, 0, &p), OK);
    Shape s = {0};
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    for (int i = 0; i < p->naxes; i++)
        s.n[i] = str_eq(p->axis[i].name, "n") ? n : str_eq(p->axis[i].name, "g") ? 5 : d->rows;
    assert_int_equal(shape_bind(&d->cx, p, &s), OK);
    assert_true(caps_preset(preset, &caps));
    assert_int_equal(problem_make(&d->cx, p, &s, &caps, 0, &d->pb), OK);
    abi_of(p, &d->abi);
    d->slot[d->abi.row[prog_axis(p, "rows")]].i = d->rows;
    for (int i = 0; i < p->nparams; i++) {
        Tensor t = {.ty = p->param[i].ty, .rank = p->param[i].rank};
        int64_t count = 1;
        for (int k = t.rank - 1; k >= 0; k--) {
            t.n[k] = s.n[p->param[i].axis[k]], t.stride[k] = count;
            d->slot[d->abi.stride[i][k]].i = count;
            count *= t.n[k];
        }
        d->bytes[i] = (size_t)count * (size_t)ty_bytes(t.ty);
        t.data = d->mem[i] = arena_get(d->cx.a, d->bytes[i]);
        if (p->param[i].dir == DIR_IN) fill_tensor(&t, FILL_NORMAL, 7 + (uint64_t)i, 0);
        d->slot[d->abi.ptr[i]].p = d->mem[i];
        d->lo[i] = d->mem[i];
        d->hi[i] = (char *)d->mem[i] + d->bytes[i];
    }
}

static void close_desk(Desk *d) {
    arena_free(d->cx.a);
}

/* The hash of all outputs under a plan. */
static Hash run(Desk *d, const char *text) {
    Plan plan;
    Kern *k;
    KernRun ran;
    assert_int_equal(plan_read(&d->cx, text, &plan), OK);
    if (kern_lower(&d->cx, &d->pb, &plan, &k) != OK) fail_msg("%s: %s", text, d->cx.last ? d->cx.last->msg : "");
    Buf all = buf_new(d->cx.a);
    for (int i = 0; i < d->pb.prog->nparams; i++)
        if (d->pb.prog->param[i].dir == DIR_OUT) memset(d->mem[i], 0xA5, d->bytes[i]);
    assert_int_equal(kern_run(&d->cx, k, d->slot, d->rows, d->lo, d->hi, &ran), OK);
    for (int i = 0; i < d->pb.prog->nparams; i++)
        if (d->pb.prog->param[i].dir == DIR_OUT) buf_put(&all, d->mem[i], d->bytes[i]);
    return hash_bytes(all.s, all.n);
}

/* False where the plan's text would be too long for a host of narrow registers; any other refusal fails the test. */
static bool legal(Desk *d, const char *text) {
    Plan plan;
    Cx own = {.a = d->cx.a};
    assert_int_equal(plan_read(&own, text, &plan), OK);
    if (plan_check(&own, &d->pb, &plan, NULL, NULL) == OK) return true;
    assert_string_equal(slug_text(own.first->slug), "plan.text_exceeded");
    return false;
}

static const struct {
    const char *kernel, *holds[3];
} cases[] = {
    {"softmax", {"", " hold.e=register hold.x=register", " hold.e=output"}},
    {"layernorm", {"", " hold.c=register", " hold.x=register fuse=off"}},
    {"total", {"", NULL, NULL}},
    {"groups", {"", NULL, NULL}},
};

static void fixed_is_one_result(void **state) {
    (void)state;
    static const char *const presets[] = {"avx512", "avx2", "neon"};
    static const int widths[] = {16, 32, 64, 128, 256, 512, 1024};
    static const int64_t sizes[] = {1, 1023, 1025, 4099};
    int plans = 0, unlike = 0;
    for (int c = 0; c < COUNT(cases); c++)
        for (int n = 0; n < COUNT(sizes); n++) {
            Hash want = {0, 0};
            for (int m = 0; m < COUNT(presets); m++) {
                Desk d;
                open_desk(&d, cases[c].kernel, presets[m], sizes[n], n % 2 ? TY_BF16 : TY_F32);
                for (int w = 0; w < COUNT(widths); w++)
                    for (int h = 0; h < 3 && cases[c].holds[h]; h++) {
                        if (h == 2 && n % 2 && c == 0) continue; /* an output of bf16 cannot hold f32 values */
                        char text[160];
                        snprintf(text, sizeof text, "order=fixed combine=outer W=%d acc=%d flight=%d U=%d%s", widths[w],
                                 1024 / widths[w], 1 + w % 2, 1 + h, cases[c].holds[h]);
                        if (!legal(&d, text)) continue;
                        Hash got = run(&d, text);
                        if (!plans || (!want.lo && !want.hi)) want = got;
                        plans++;
                        assert_true(got.lo == want.lo && got.hi == want.hi);
                    }
                Hash free_order = run(&d, "W=16 flight=2");
                unlike += free_order.lo != want.lo;
                close_desk(&d);
            }
        }
    assert_true(plans > 400);
    assert_true(unlike > 0); /* otherwise the sums are too easy to tell orders apart */
}

static void serial_is_a_left_fold(void **state) {
    (void)state;
    Desk d;
    open_desk(&d, "total", "avx512", 1025, TY_F32);
    run(&d, "order=serial W=1");
    for (int64_t r = 0; r < d.rows; r++) {
        float sum = 0;
        for (int64_t i = 0; i < 1025; i++) sum += ((const float *)d.mem[0])[r * 1025 + i];
        assert_memory_equal(&((const float *)d.mem[1])[r], &sum, sizeof sum);
    }
    close_desk(&d);
}

static const char *refused(Desk *d, const char *text, const char *slug) {
    Plan plan;
    Cx own = {.a = d->cx.a};
    assert_int_equal(plan_read(&own, text, &plan), OK);
    assert_int_equal(plan_check(&own, &d->pb, &plan, NULL, NULL), ERR_REFUSED);
    assert_string_equal(slug_text(own.first->slug), slug);
    return own.first->msg;
}

static float elem(const Desk *d, int param, int64_t i) {
    return ((const float *)d->mem[param])[i];
}

static void products_are_taken_in(void **state) {
    (void)state;
    enum { N = 77 };
    Desk d;
    open_desk(&d, "taken", "avx512", N, TY_F32);
    for (int on = 0; on < 2; on++) {
        run(&d, on ? "W=1 contract=on" : "W=1");
        for (int64_t r = 0; r < d.rows; r++) {
            float sum = 0;
            for (int64_t i = r * N; i < (r + 1) * N; i++) {
                const float x = elem(&d, 0, i), b = elem(&d, 1, i), g = elem(&d, 2, i % N), xg = x * g, bg = b * g;
                const float xx = x * x, xb = x * b;
                const float want[] = {on ? fmaf(x, g, b) : xg + b, on ? fmaf(b, g, -x) : bg - x,
                                      on ? fmaf(-x, x, g) : g - xx};
                sum = on ? fmaf(x, b, sum) : sum + xb;
                for (int q = 0; q < 3; q++) assert_memory_equal(&((float *)d.mem[3 + q])[i], &want[q], sizeof *want);
            }
            assert_memory_equal(&((float *)d.mem[6])[r], &sum, sizeof sum);
        }
    }
    close_desk(&d);
}

/* Fused multiplications and additions of elements and sums in a plan's kern. */
static int fused(Desk *d, const char *text) {
    Plan plan;
    Kern *k;
    int n = 0;
    assert_int_equal(plan_read(&d->cx, text, &plan), OK);
    assert_int_equal(kern_lower(&d->cx, &d->pb, &plan, &k), OK);
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        n += in->op == OP_FMA && (in->k == K_OP || in->k == K_FOLD || in->k == K_PACKFOLD);
    }
    return n;
}

static void which_products_is_the_programs_choice(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *plan;
        int fused;
    } rows[] = {
        {"taken", "W=16", 4},
        {"taken", "W=16 fuse=off", 4},
        {"layernorm", "W=16", 1}, /* whose sum is of squares; nothing is added to the product of elements */
        {"layernorm", "W=16 stat=shifted", 1},
        {"again", "W=16", 2}, /* in both sweeps */
        {"again", "W=16 hold.a=register", 1},
        {"kept", "W=16", 0},   /* the program wants the product itself */
        {"shared", "W=16", 0}, /* two additions need it */
        {"wide", "W=16", 1},   /* r * r is of fewer elements than what takes it */
        {"left", "W=1", 0},    /* a left fold is one of rounded elements */
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Desk d;
        open_desk(&d, rows[i].kernel, "avx512", 1000, TY_F32);
        const char *on = arena_printf(d.cx.a, "%s contract=on", rows[i].plan);
        const int had = fused(&d, rows[i].plan), has = fused(&d, on);
        if (has - had != rows[i].fused) fail_msg("%s %s: %d, and %d without", rows[i].kernel, on, has, had);
        close_desk(&d);
    }
}

/* What takes a product in does so in every sweep that computes it. */
static void holds_leave_contracted_bits(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *plans[4];
    } rows[] = {
        {"again", {"", "hold.a=register", "hold.a=output", "fuse=off hold.a=register"}},
        {"layernorm", {"", "hold.c=register", "hold.x=register fuse=off", "fuse=off"}},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Desk d;
        open_desk(&d, rows[i].kernel, "avx512", 4099, TY_F32);
        const Hash want = run(&d, "W=64 contract=on"), off = run(&d, "W=64");
        assert_true(want.lo != off.lo);
        for (int p = 0; p < COUNT(rows[i].plans); p++) {
            const Hash got = run(&d, arena_printf(d.cx.a, "W=64 contract=on %s", rows[i].plans[p]));
            assert_true(got.lo == want.lo && got.hi == want.hi);
        }
        close_desk(&d);
    }
}

static void a_fused_operation_is_one(void **state) {
    (void)state;
    double alu[2];
    Desk d;
    open_desk(&d, "taken", "h200", 1000, TY_F32);
    for (int on = 0; on < 2; on++) {
        Plan plan;
        Kern *k;
        Demand demand;
        assert_int_equal(plan_read(&d.cx, on ? "W=32 contract=on" : "W=32", &plan), OK);
        assert_int_equal(kern_lower(&d.cx, &d.pb, &plan, &k), OK);
        kern_count(&d.cx, k, &demand);
        alu[on] = demand.row_ops[COST_ALU];
    }
    assert_true(alu[0] - alu[1] == 3 * 1000); /* 4 for 8, and a negation, which few devices pay for */
    close_desk(&d);
}

static void what_cannot_keep_the_order_is_refused(void **state) {
    (void)state;
    Desk d;
    open_desk(&d, "softmax", "avx512", 1000, TY_F32);
    refused(&d, "order=fixed combine=outer W=64", "plan.order_fixed");
    refused(&d, "order=fixed combine=outer W=96 acc=8", "plan.order_fixed");
    refused(&d, "order=fixed W=64 acc=16", "plan.order_fixed");
    const char *why = refused(&d, "order=fixed combine=outer W=64 acc=16 V=2", "plan.order_fixed");
    assert_non_null(strstr(why, "with V=2")); /* and of nothing that is as it has to be */
    assert_null(strstr(why, "acc"));
    refused(&d, "order=fixed combine=outer W=64 acc=16 stat=online", "plan.acc_with_stat");
    refused(&d, "order=fixed combine=outer W=64 acc=16 div=reciprocal", "plan.order_fixed");
    refused(&d, "order=serial W=16", "plan.order_needs_one_lane");
    refused(&d, "W=1024 V=4", "plan.text_exceeded");
    refused(&d, "order=fixed combine=outer W=64 acc=16 contract=on", "plan.order_fixed");
    refused(&d, "order=serial W=1 contract=on", "plan.contract");
    close_desk(&d);
    open_desk(&d, "again", "avx512", 1000, TY_F32);
    refused(&d, "W=16 contract=on hold.p=register", "plan.contract");
    assert_true(legal(&d, "W=16 contract=off hold.p=register") && legal(&d, "W=16 contract=on hold.p=recompute"));
    close_desk(&d);
    open_desk(&d, "again", "portable", 1000, TY_F32);
    refused(&d, "W=4 contract=on", "plan.not_on_this_machine");
    close_desk(&d);
}

/* The default space contracts where there is something to; a text may ask for what does not go with that. */
static void a_space_contracts(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *machine, *pin;
        int contract;
    } rows[] = {
        {"again", "avx512", "W=16", 1},
        {"again", "h200", "W=32", 1},
        {"again", "m1max", "W=32", 1},
        {"total", "avx512", "W=16", 0},
        {"again", "portable", "W=4", 0},
        {"again", "avx512", "contract=off", 0},
        {"again", "avx512", "order=fixed", 0},
        {"again", "avx512", "order=serial", 0},
        {"again", "avx512", "hold.p=register", 0},
        {"again", "avx512", "hold.p=recompute", 1},
        {"again", "avx512", "hold.a=register", 1},
        {"kept", "avx512", "W=16", 0},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        Desk d;
        Space s;
        Entry *entry;
        int64_t n, legal;
        open_desk(&d, rows[i].kernel, rows[i].machine, 4096, TY_F32);
        assert_int_equal(space_default(&d.cx, &d.pb, &s), OK);
        assert_int_equal(space_pin(&d.cx, &d.pb, rows[i].pin, &s), OK);
        assert_int_equal(s.n[DIM_contract], 1);
        if (s.value[DIM_contract][0] != rows[i].contract)
            fail_msg("%s on %s with %s", rows[i].kernel, rows[i].machine, rows[i].pin);
        assert_int_equal(space_list(&d.cx, &d.pb, &s, 100000, &entry, &n, &legal), OK);
        assert_true(legal > 0);
        close_desk(&d);
    }
}

static void a_pinned_order_leaves_a_space(void **state) {
    (void)state;
    Desk d;
    static const struct {
        const char *kernel, *machine, *pin;
    } rows[] = {{"softmax", "avx512", "order=fixed"},
                {"softmax", "avx512", "order=serial"},
                {"long", "avx2", "order=fixed"},
                {"long", "neon", "order=fixed"}};
    for (int i = 0; i < COUNT(rows); i++) {
        Space s;
        Entry *entry;
        int64_t n, legal;
        open_desk(&d, rows[i].kernel, rows[i].machine, 4096, TY_F32);
        assert_int_equal(space_default(&d.cx, &d.pb, &s), OK);
        assert_int_equal(space_pin(&d.cx, &d.pb, rows[i].pin, &s), OK);
        assert_int_equal(space_list(&d.cx, &d.pb, &s, 100000, &entry, &n, &legal), OK);
        assert_true(legal >= 4);
        close_desk(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_is_one_result),
        cmocka_unit_test(serial_is_a_left_fold),
        cmocka_unit_test(products_are_taken_in),
        cmocka_unit_test(which_products_is_the_programs_choice),
        cmocka_unit_test(holds_leave_contracted_bits),
        cmocka_unit_test(a_fused_operation_is_one),
        cmocka_unit_test(a_space_contracts),
        cmocka_unit_test(what_cannot_keep_the_order_is_refused),
        cmocka_unit_test(a_pinned_order_leaves_a_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
