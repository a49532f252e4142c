/* One kernel for a range of extents: every kernel of kernels/, lowered and compiled once for 1 to 1025 elements with a
 * plan of its own, is at each extent what its text says: the interpreter's results lie within the definition's bounds,
 * the compiled kernel has the interpreter's bits, and both are those of the kernel that is compiled for that extent
 * alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/audit/audit.h"
#include "../../src/lang/lang.h"
#include "../diff/library.h"
#include "../diff/match.h"
#include "field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 1, MOST = 1025, ROWS = 3, BATCH = 24 };
static const int64_t extents[] = {1, 2, 31, 32, 33, 500, 1024, 1025};

typedef struct Desk {
    Cx cx;
    LibKernel *kernel;
    int n;
    Compiler cc;
    Caps caps;
} Desk;

static int setup(void **state) {
    Desk *d = calloc(1, sizeof *d);
    d->cx.a = arena_new(NULL, NULL);
    d->n = library_read(&d->cx, TY_F32, &d->kernel);
    cc_probe(&alloc_libc, NULL, &d->cc);
    *state = d;
    return d->n ? 0 : 1;
}

static int teardown(void **state) {
    Desk *d = *state;
    arena_free(d->cx.a);
    free(d);
    return 0;
}

static void wrong(const Match *p, const char *name) {
    Buf b = buf_new(p->cx.a);
    plan_print(&p->plan, &b);
    fail_msg("%s at %lld elements, seed %llu, with %s: %s", name,
             (long long)p->shape.n[i64_max(0, shape_ranged(&p->pb.shape))], (unsigned long long)p->seed, b.s, p->why);
}

/* A kernel of the library, of whose shape the last element axis has a range, or the first. */
static void program(Desk *d, Match *p, int at, bool first) {
    const Prog *q = d->kernel[at].prog;
    Buf text = buf_new(d->cx.a);
    *p = (Match){.cx = {.a = arena_new(NULL, NULL)}};
    prog_print(q, &text);
    assert_int_equal(prog_read(&p->cx, text.s, text.n, &p->prog), OK);
    p->prog->name = arena_printf(p->cx.a, "k%d", at);
    p->shape = library_shape(q, ROWS, first ? 37 : MOST);
    int axis = -1;
    for (int i = 0; i < q->naxes; i++)
        if (!(q->row_axes >> i & 1) && (axis < 0 || !first)) axis = i;
    p->shape.n[axis] = MOST, p->shape.least[axis] = LEAST;
}

static void make(Desk *d, Match *p, int at, Isa isa) {
    program(d, p, at, false);
    caps_preset(isa_text(isa), &d->caps);
    if (!match_prog(p, (uint64_t)at + 1, &d->caps, NULL)) wrong(p, d->kernel[at].name);
    AuditReport report;
    if (audit_kern(&p->cx, p->pb.prog, &p->pb.shape, &p->pb.caps, true, false, p->pb.strided, p->kern, &report)) {
        p->why = p->cx.first->msg;
        wrong(p, d->kernel[at].name);
    }
    if (audit_unit(&p->cx, p->kern, &p->unit)) {
        p->why = p->cx.first->msg;
        wrong(p, d->kernel[at].name);
    }
}

static void test_library(void **state) {
    Desk *d = *state;
    static Match match[BATCH];
    const Unit *u[BATCH];
    Batch b;
    const Isa isa = cpu_best();
    for (int from = 0; from < d->n; from += BATCH) {
        const int n = d->n - from < BATCH ? d->n - from : BATCH;
        for (int i = 0; i < n; i++) {
            make(d, &match[i], from + i, isa);
            u[i] = &match[i].unit;
        }
        if (!batch_build(&b, &d->cc, isa, "-O0", u, n) && !batch_build(&b, &d->cc, isa, "-O1", u, n))
            fail_msg("does not compile: %s", b.why);
        for (int i = 0; i < n; i++) {
            Match *p = &match[i];
            for (int x = 0; x < COUNT(extents); x++)
                if (!match_at(p, extents[x]) || !match_compare(p, batch_fn(&b, u[i])))
                    wrong(p, d->kernel[from + i].name);
            match_free(p);
        }
        batch_free(&b);
    }
}

/* Which axes are looped over depends on how long runs are in memory; a kern for a range goes by the largest extent. */
static bool looped_alike(const Match *p, int64_t n) {
    const Shape at = shape_at(&p->pb.shape, n);
    const Spread spread = problem_spread(&p->pb, NULL);
    return sched_serial(p->pb.prog, &at, spread) == sched_serial(p->pb.prog, &p->pb.shape, spread);
}

/* At each extent the kern for the range has the bits of the kern that is lowered for that extent alone, where both loop
 * over the same axes; in an order that is fixed they always do, or there is no such kern. */
static void test_same_bits(void **state) {
    static const char *const plans[] = {"W=1 V=4 acc=2", "W=32 V=2 acc=2 flight=2",
                                        "W=16 acc=64 combine=outer order=fixed", "W=1 order=serial", "W=8 fuse=off"};
    Desk *d = *state;
    int refused = 0, compared = 0;
    for (int i = 0; i < d->n; i++)
        for (int x = 0; x < COUNT(extents); x += 1 + i % 2) {
            const char *plan = plans[(i + x) % COUNT(plans)];
            Match p, q = {.cx = {.a = arena_new(NULL, NULL)}};
            program(d, &p, i, i % 2);
            caps_preset("avx512", &d->caps);
            const bool made = match_prog(&p, 4, &d->caps, plan), fixed = strstr(plan, "order=fixed");
            if (!made && fixed && !looped_alike(&p, LEAST) && p.cx.last->slug == S_PLAN_FIXED) refused++;
            if (!made && !refused) wrong(&p, d->kernel[i].name);
            if (!made || !looped_alike(&p, extents[x])) {
                arena_free(q.cx.a);
                match_free(&p);
                continue;
            }
            compared++;
            if (!match_at(&p, extents[x])) wrong(&p, d->kernel[i].name);
            q.prog = p.prog, q.shape = p.shape;
            if (!match_prog(&q, 4, &d->caps, plan) || !match_interpret(&q)) wrong(&q, d->kernel[i].name);
            for (int a = 0; a < p.prog->nparams; a++) p.cpu.t[a].data = q.interp.t[a].data;
            if (!match_same(&p)) wrong(&p, d->kernel[i].name);
            match_free(&q);
            match_free(&p);
        }
    assert_true(refused > 0 && compared > 4 * d->n);
}

/* What is written of a kern reads back, and what it says of its range is held against the rest of it. */
static void test_text(void **state) {
    Desk *d = *state;
    int loops = 0;
    for (int i = 0; i < d->n; i++) {
        Match p;
        Kern *back;
        program(d, &p, i, i % 2);
        p.shape.least[shape_ranged(&p.shape)] = 3;
        caps_preset("h200", &d->caps);
        if (!match_prog(&p, (uint64_t)i, &d->caps, NULL)) wrong(&p, d->kernel[i].name);
        Buf text = buf_new(p.cx.a), again = buf_new(p.cx.a);
        kern_print(p.kern, &text);
        assert_non_null(strstr(text.s, " 3..1025"));
        assert_int_equal(kern_read(&p.cx, p.pb.prog, text.s, text.n, &back), OK);
        kern_print(back, &again);
        assert_string_equal(text.s, again.s);
        for (int n = 0; n < back->nnodes; n++) {
            if (!back->node[n].ranged) continue;
            back->node[n].count++;
            assert_int_equal(kern_verify(&p.cx, back), ERR_INTERNAL);
            assert_int_equal(p.cx.last->slug, S_KERN_LOOP);
            back->node[n].count--;
            loops++;
        }
        back->shape.least[shape_ranged(&back->shape)] = MOST;
        assert_int_equal(kern_verify(&p.cx, back), ERR_INTERNAL);
        assert_int_equal(p.cx.last->slug, S_KERN_DOMAIN);
        match_free(&p);
    }
    assert_true(loops > 0);
}

/* A kern that takes the largest extent for the one of the launch, and a unit that does: neither passes. */
static void test_audit(void **state) {
    Desk *d = *state;
    AuditReport report;
    int at = 0;
    while (!str_eq(d->kernel[at].name, "softmax")) at++;
    Match p;
    program(d, &p, at, false);
    caps_preset("portable", &d->caps);
    if (!match_prog(&p, 4, &d->caps, "W=16 V=1")) wrong(&p, "softmax");
    assert_int_equal(audit_unit(&p.cx, p.kern, &p.unit), OK);
    for (int i = 0; i < 2; i++) { /* a loop that goes on too long, and a register that is taken for whole */
        static const char *const from[] = {"c < size0 / 16 * 1;", "some(size0 - "}, *const to[] = {"c < 1025 / 16 * 1;",
                                                                                                   "some(1025  - "};
        char *text = arena_str(p.cx.a, p.unit.text, p.unit.bytes), *found = strstr(text, from[i]);
        assert_non_null(found);
        memcpy(found, to[i], strlen(to[i]));
        Unit u = p.unit;
        u.text = text;
        assert_int_equal(audit_unit(&p.cx, p.kern, &u), ERR_INTERNAL);
        assert_int_equal(p.cx.last->slug, S_AUDIT_MOVED);
    }
    match_free(&p);
    /* the largest n reads beyond it where another is smaller */
    const char *text =
        "kernel k for rows (x: in f32[rows, n], y: out f32[rows, n]) { y = x[rows, max(idx(n)) - n] else 0 }";
    p = (Match){.cx = {.a = arena_new(NULL, NULL)}};
    Ast *ast;
    assert_int_equal(lang_parse(&p.cx, "k", text, strlen(text), &ast), OK);
    assert_int_equal(lang_kernel(&p.cx, ast, "k", NULL, 0, NULL, 0, &p.prog), OK);
    p.shape = library_shape(p.prog, 2, 40);
    p.shape.least[1] = 7;
    if (!match_prog(&p, 4, &d->caps, "W=16 V=1") || !match_at(&p, 9)) wrong(&p, "k");
    assert_int_equal(audit_kern(&p.cx, p.pb.prog, &p.pb.shape, &p.caps, true, false, 0, p.kern, &report), OK);
    assert_int_equal(report.naccesses, 2);
    for (int i = 0; i < p.kern->nins; i++)
        if (p.kern->ins[i].k == K_SLOT && p.kern->ins[i].imm == kern_extent(p.kern))
            p.kern->ins[i].k = K_CONST, p.kern->ins[i].c.i = 40;
    assert_int_equal(audit_kern(&p.cx, p.pb.prog, &p.pb.shape, &p.caps, true, false, 0, p.kern, &report), ERR_INTERNAL);
    assert_int_equal(p.cx.last->slug, S_AUDIT_BOUNDS);
    Slot *slots = match_slots(&p, &p.interp, NULL);
    slots[kern_extent(p.kern)].i = 41;
    KernRun run;
    const void *none[MAX_PARAMS] = {0};
    assert_int_equal(kern_run(&p.cx, p.kern, slots, 2, none, none, &run), ERR_ARGUMENT);
    assert_int_equal(p.cx.last->slug, S_SHAPE_RANGE);
    match_free(&p);
}

/* Plans that a range has no room for. */
static void test_plans(void **state) {
    static const struct {
        const char *kernel, *plan;
        Slug slug;
    } no[] = {{"softmax", "W=256 V=4 hold.x=shared stages=2", S_PLAN_RANGED},
              {"rmsnorm_fp8_groups", "W=32 V=4 segments=on", S_PLAN_RANGED},
              {"softmax", "W=256 V=4 tail=exact", S_PLAN_TAIL},
              {"softmax", "W=32 V=16", S_PLAN_PACK},
              {"softmax", "W=32 V=1 hold.x=register", S_PLAN_STRIPE}};
    Desk *d = *state;
    caps_preset("h200", &d->caps);
    for (int i = 0; i < COUNT(no); i++) {
        Match p;
        int at = 0;
        while (!str_eq(d->kernel[at].name, no[i].kernel)) at++;
        program(d, &p, at, false);
        p.shape.n[shape_ranged(&p.shape)] = 1 << 14;
        assert_false(match_prog(&p, 4, &d->caps, no[i].plan));
        assert_int_equal(p.cx.last->slug, no[i].slug);
        match_free(&p);
    }
    /* and the default space asks for none of them, however long its rows */
    for (int64_t rows = 64; rows <= 4096; rows *= 8) {
        Match p;
        Problem pb;
        Space s;
        int at = 0;
        while (!str_eq(d->kernel[at].name, "softmax")) at++;
        program(d, &p, at, false);
        p.shape.n[shape_ranged(&p.shape)] = 1 << 15;
        for (int i = 0; i < p.prog->naxes; i++)
            if (p.prog->row_axes >> i & 1) p.shape.n[i] = rows;
        assert_int_equal(problem_make(&p.cx, p.prog, &p.shape, &d->caps, 0, &pb), OK);
        assert_int_equal(space_default(&p.cx, &pb, &s), OK);
        assert_true(s.n[DIM_stages] == 1 && s.value[DIM_stages][0] == 0);
        match_free(&p);
    }
}

/* On GPUs packs are one access only where the extent of the launch is whole packs too. */
static void test_packs(void **state) {
    Desk *d = *state;
    Match p;
    Unit u;
    PackCheck c;
    int at = 0;
    while (!str_eq(d->kernel[at].name, "softmax")) at++;
    program(d, &p, at, false);
    caps_preset("h200", &d->caps);
    if (!match_prog(&p, 4, &d->caps, "W=64 V=4 flight=2")) wrong(&p, "softmax");
    assert_int_equal(unit_emit(&p.cx, &p.pb, p.kern, &u), OK);
    assert_int_equal(u.align_extent, 4);
    assert_int_equal(u.extent, kern_extent(p.kern));
    Slot *slots = NEWN(p.cx.a, Slot, u.abi.nslots); /* aligned pointers, rows that lie 1024 apart */
    for (int i = 0; i < u.abi.nslots; i++) slots[i].i = 1024;
    packs_check(&u, &c);
    assert_true(packs_fit(&c, slots));
    slots[u.extent].i = 1022;
    assert_false(packs_fit(&c, slots));
    match_free(&p);
}

/* ---- through the public header ---- */

static const char rows_text[] =
    "kernel norm for rows (x: in f32[rows, g, n], w: in f32[g, n], y: out f32[rows, g, n], m: out i64[rows]) {\n"
    "    y = x * rsqrt(mean(x * x) + 1e-6) * w\n    m = argmax(x)\n}\n";

/* Tensors between pages that cannot be touched, at the extent of the launch. */
static void test_guarded(void **state) {
    (void)state;
    enum { R = 3, G = 2 };
    rowfold_kernel *k = field_kernel(rows_text, NULL, "g=2,n=1..100", "W=32,V=1");
    for (int64_t n = 1; n <= 100; n += n % 7 ? 1 : 5) {
        float *x = field_memory(R * G * n * 4), *w = field_memory(G * n * 4), *y = field_memory(R * G * n * 4);
        int64_t *m = field_memory(R * 8);
        field_fill(TY_F32, x, R * G * n, u_at);
        field_fill(TY_F32, w, G * n, one_at);
        RUN(k, TENSOR(x, R, G, n), TENSOR(w, G, n), TENSOR(y, R, G, n), TENSOR(m, R));
    }
    float *x = field_memory(R * G * 101 * 4), *w = field_memory(G * 101 * 4), *y = field_memory(R * G * 101 * 4);
    int64_t *m = field_memory(R * 8);
    REFUSED(k, "launch.extent", TENSOR(x, R, G, 101), TENSOR(w, G, 101), TENSOR(y, R, G, 101), TENSOR(m, R));
    REFUSED(k, "launch.extent", TENSOR(x, R, G, 0), TENSOR(w, G, 0), TENSOR(y, R, G, 0), TENSOR(m, R));
    REFUSED(k, "launch.extent", TENSOR(x, R, G, 50), TENSOR(w, G, 51), TENSOR(y, R, G, 50), TENSOR(m, R));
    const int64_t wide[] = {R, G, 50}, apart[] = {200, 100, 1}; /* rows may lie apart, what is swept together may not */
    REFUSED(k, "launch.stride", field_arg(x, 3, wide, apart), TENSOR(w, G, 50), TENSOR(y, R, G, 50), TENSOR(m, R));
    assert_non_null(strstr(rowfold_kernel_text(k, ROWFOLD_HEADER), "extent of axis n, 1 to 100"));
    assert_non_null(strstr(rowfold_kernel_text(k, ROWFOLD_RECEIPT), "\"n\":{\"from\":1,\"to\":100}"));
    assert_non_null(strstr(rowfold_kernel_text(k, ROWFOLD_SOURCE), "n=1..100"));
}

static void test_refused(void **state) {
    (void)state;
    static const char two[] = "kernel k for rows (x: in f32[rows, a, b], y: out f32[rows]) { y = sum(x) }";
    static const char made[] =
        "kernel k for rows (x: in f32[rows, n], y: out f32[rows]) { axis p = n + 1\n y = sum(x[rows, p] else 0) }";
    field_no_kernel(two, NULL, "a=1..4,b=1..4", NULL, "shape.range");
    field_no_kernel(two, NULL, "a=1..4,b=4,rows=1..8", NULL, "shape.range");
    field_no_kernel(two, NULL, "a=4..1,b=4", NULL, "shape.range");
    field_no_kernel(two, NULL, "a=0..4,b=4", NULL, "call.shape");
    field_no_kernel(two, NULL, "a=1..,b=4", NULL, "call.shape");
    field_no_kernel(made, NULL, "n=1..8", NULL, "shape.range");
    field_no_kernel(two, NULL, "a=4,b=1..64", "tail=exact,W=16", "search.no_legal_plan");
    assert_non_null(field_kernel(two, NULL, "a=4,b=8..8", NULL)); /* one extent: no range */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library), cmocka_unit_test(test_same_bits), cmocka_unit_test(test_text),
        cmocka_unit_test(test_audit),   cmocka_unit_test(test_plans),     cmocka_unit_test(test_packs),
    };
    const struct CMUnitTest field[] = {
        cmocka_unit_test_teardown(test_guarded, field_clean),
        cmocka_unit_test_teardown(test_refused, field_clean),
    };
    int failed = cmocka_run_group_tests_name("ranges", tests, setup, teardown);
    return failed + cmocka_run_group_tests_name("launches of ranges", field, field_open, field_close);
}
