/* Beds and searches below the public header: devices whose clock stands still, programs that break an invariant, kerns
 * that no dialect and no lowering takes. */
#include "../../src/api/handle.h"
#include "../../src/rt/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char text[] = "kernel softmax for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n"
                           "    e = exp(x - max(x))\n    y = e / sum(e)\n}\n"
                           "kernel inplace for rows (x: inout f32[rows, n], s: out f32[rows, n]) {\n"
                           "    m = max(x)\n    e = exp(x - m)\n    x = e / m\n    s = e / sum(e)\n}\n";

typedef struct Desk {
    Cx cx;
    Rt *rt;
    Device *null;
    Problem pb;
    Prog *prog;
} Desk;

static void open_desk(Desk *k, const char *kernel, const char *preset) {
    static const RtOptions o = {.cache_dir = "", .threads = 1, .isa = ISA_COUNT};
    Ast *ast;
    Caps caps;
    Shape s = {0};
    *k = (Desk){.cx = {.a = arena_new(NULL, NULL)}};
    assert_int_equal(rt_open(&k->cx, &o, &k->rt), OK);
    assert_int_equal(rt_find(&k->cx, k->rt, "null", &k->null), OK);
    assert_int_equal(lang_parse(&k->cx, "t.row", text, sizeof text - 1, &ast), OK);
    assert_int_equal(lang_kernel(&k->cx, ast, kernel, NULL, 0, NULL, 0, &k->prog), OK);
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = i < k->prog->naxes ? 32 : -1;
    assert_true(caps_preset(preset, &caps));
    assert_int_equal(problem_make(&k->cx, k->prog, &s, &caps, 0, &k->pb), OK);
}

static void close_desk(Desk *k) {
    rt_close(k->rt);
    arena_free(k->cx.a);
}

static void refused(const Desk *k, Err err, Slug slug) {
    assert_non_null(k->cx.last);
    assert_string_equal(slug_text(k->cx.last->slug), slug_text(slug));
    assert_int_equal(err, slug_err(slug));
}

static Err no_time(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                   int64_t *ns) {
    (void)cx, (void)m, (void)sets, (void)nsets, (void)rows, (void)threads, (void)calls;
    *ns = 0;
    return OK;
}

/* A bed of the null device, but for ops, and a module to time there. */
static void open_bed(Desk *k, const char *kernel, const RtOps *ops, Bed *b, Module **m) {
    Unit u = {.dialect = DIALECT_HOST, .isa = ISA_PORTABLE, .entry = "f", .text = "", .lanes = 1, .rows_per_group = 1};
    open_desk(k, kernel, "portable");
    k->null->ops = ops;
    *b = (Bed){0};
    assert_int_equal(bed_make(&k->cx, k->null, &k->pb, 1, b), OK);
    assert_int_equal(mod_build(&k->cx, k->null, &u, m), OK);
}

static void close_bed(Desk *k, Bed *b, Module *m) {
    mod_free(m);
    bed_free(b);
    k->null->ops = &null_ops;
    close_desk(k);
}

static void test_clock(void **state) {
    (void)state;
    Desk k;
    Bed b;
    Times t;
    Module *m;
    RtOps stuck = null_ops;
    stuck.time = no_time;
    open_bed(&k, "softmax", &stuck, &b, &m);
    refused(&k, bed_time(&k.cx, &b, m, 1, 3, 1000, 0, &t), S_BENCH_CLOCK);
    assert_int_equal(t.n, 0);
    close_bed(&k, &b, m);
}

static const void *timed_in[16];
static int ntimed;
static Err note_place(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                      int64_t *ns) {
    (void)cx, (void)m, (void)rows, (void)threads, (void)calls;
    assert_int_equal(nsets, 1);
    if (ntimed < COUNT(timed_in)) timed_in[ntimed++] = sets[0][0].p;
    *ns = 1000000;
    return OK;
}

static int gets_left;
static Err no_memory(Cx *cx, Device *d, size_t bytes, Mem **out) {
    return gets_left-- > 0 ? plain_get(cx, d, bytes, out) : diag(cx, S_OOM, NOWHERE, NULL, "%zu bytes", bytes);
}

/* Each place is memory of its own with the same inputs, and the same one when it comes again; a check is in the first.
 */
static void test_places(void **state) {
    (void)state;
    Desk k;
    Bed b;
    Times t;
    Module *m;
    RtOps noting = null_ops;
    noting.time = note_place;
    open_bed(&k, "inplace", &noting, &b, &m);
    assert_int_equal(b.made, 1);
    for (int place = 0; place < 2 * BED_PLACES; place++) {
        bed_place(&k.cx, &b, place);
        ntimed = 0;
        assert_int_equal(bed_time(&k.cx, &b, m, 1, 1, 1000, 0, &t), OK);
        for (int i = 1; i < ntimed; i++) assert_ptr_equal(timed_in[0], timed_in[i]);
        assert_ptr_equal(timed_in[0], b.set[place % BED_PLACES][0].p);
        assert_memory_equal(timed_in[0], b.host.t[0].data, b.size[0]);
        for (int other = 0; other < b.made; other++)
            assert_true(other == place % BED_PLACES || b.set[other][0].p != timed_in[0]);
        assert_int_equal(b.made, place < BED_PLACES ? place + 1 : BED_PLACES);
    }
    assert_ptr_equal(b.set[0][0].p, mem_at(b.mem[0]));
    bed_one_place(&b);
    assert_true(b.made == 1 && b.ncopies == 0 && b.next == 0);
    noting.get = no_memory, gets_left = 3; /* a set and a half: all of it is given back */
    bed_place(&k.cx, &b, 5);
    assert_true(b.made == 1 && b.ncopies == 0 && b.next == 0 && b.places == 1);
    ntimed = 0;
    assert_int_equal(bed_time(&k.cx, &b, m, 1, 1, 1000, 0, &t), OK);
    assert_ptr_equal(timed_in[0], mem_at(b.mem[0]));
    close_bed(&k, &b, m);
}

static void test_times(void **state) {
    (void)state;
    Times t = {.n = 4, .ns = {4, 1, 3, 2}};
    times_sort(&t);
    assert_true(t.min == 1 && t.max == 4 && t.median == 2.5);
    t = (Times){.n = 3, .ns = {9, 1, 5}};
    times_sort(&t);
    assert_true(t.min == 1 && t.max == 9 && t.median == 5);
    t = (Times){0};
    times_sort(&t);
    assert_true(t.median == 0);
}

/* Whoever writes a Prog by hand and gets it wrong is told so, before anything is built on it. */
static void test_broken_program(void **state) {
    (void)state;
    Desk k;
    rowfold_context *c;
    rowfold_kernel *out = NULL;
    open_desk(&k, "softmax", "portable");
    assert_int_equal(rowfold_context_new(NULL, &c), ROWFOLD_OK);
    Prog broken = *k.prog;
    broken.nouts = 0;
    rowfold_program p = {.ctx = c, .prog = &broken};
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    o.shape = "n=32";
    assert_int_equal(rowfold_compile(c, &p, &o, &out), ROWFOLD_INTERNAL);
    assert_string_equal(rowfold_last_error(c)->slug, slug_text(S_INTERNAL));
    assert_null(out);
    rowfold_context_free(c);
    close_desk(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_broken_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
