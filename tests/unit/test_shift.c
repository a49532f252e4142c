/* tail=head-shift: places of elements by enumeration; who may not have it; and its units on the CPU, for rows that
 * start anywhere in a line, between pages that cannot be touched, against the interpreter, which knows no shifts. */
#include "../../src/audit/audit.h"
#include "../diff/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- places ---- */

/* Every place of a step has the elements of one lane, one after the other, and of every ring of W * acc places each has
 * those of one lane's accumulator. */
static bool enumerate(int64_t n, int W, int acc, int shift) {
    int64_t last = -1;
    bool fine = true;
    for (int64_t e = 0; e < n; e++) {
        int64_t chunk;
        int lane, v;
        map_owner(e, W, 1, &chunk, &lane, &v);
        const int64_t step = (e + shift) / W, place = (e + shift) % W; /* as plan_shifts has it */
        fine &= step * W + place == e + shift && step * W + place > last;
        last = step * W + place;
        fine &= place == (lane + shift) % W;
        fine &= step == chunk || (step == chunk + 1 && place < shift);
        fine &= step % acc * W + place == (chunk % acc * W + lane + shift) % (W * acc);
    }
    return fine;
}

static void each_place_has_one_lanes_elements(void **state) {
    (void)state;
    static const int64_t some[] = {1, 15, 16, 17, 63, 64, 65, 127, 128, 769, 1025};
    for (int i = 0; i < COUNT(some); i++)
        for (int W = 2; W <= 256; W += W < 16 ? W : 16)
            for (int acc = 1; acc <= 8; acc *= 2)
                for (int shift = 0; shift < 64 && shift < W; shift++)
                    if (!enumerate(some[i], W, acc, shift))
                        fail_msg("n=%d W=%d acc=%d shift=%d", (int)some[i], W, acc, shift);
}

/* ---- refusals ---- */

#define SOFTMAX \
    "kernel k for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n  e = exp(x - max(x))\n  y = e / sum(e)\n}"
#define NORM                                                                                                       \
    "kernel k for rows (x: in bf16[rows, n], w: in f32[n], y: out bf16[rows, n]) {\n  c = x - mean(x)\n  y = c * " \
    "rsqrt(mean(c * c) + 1e-5) * w\n}"

static void refused(const char *text, const char *machine, int64_t n, bool ranged, uint32_t strided, const char *plan,
                    const char *slug, const char *part) {
    Match m;
    Caps caps;
    Plan p;
    assert_true(match_read(&m, text, "k", NULL, 0) && caps_preset(machine, &caps));
    for (int i = 0; i < m.prog->naxes; i++) m.shape.n[i] = m.prog->axis[i].row ? 5 : n;
    if (ranged) m.shape.least[m.prog->naxes - 1] = 1;
    assert_int_equal(problem_make(&m.cx, m.prog, &m.shape, &caps, strided, &m.pb), OK);
    assert_int_equal(plan_read(&m.cx, arena_printf(m.cx.a, "tail=head-shift %s", plan), &p), OK);
    const Err e = plan_check(&m.cx, &m.pb, &p, NULL, NULL);
    if (e != ERR_REFUSED || !str_eq(slug_text(m.cx.first->slug), slug) || !strstr(m.cx.first->msg, part))
        fail_msg("%s: %s [%s]", plan, e ? m.cx.first->msg : "legal", e ? slug_text(m.cx.first->slug) : "");
    match_free(&m);
}

static void refusals_say_why(void **state) {
    (void)state;
    static const char grouped[] = "kernel k for rows (x: in f32[rows, g, n], y: out f32[rows, g, n]) {\n"
                                  "    y = x / max(abs(x) over n)\n}",
                      two[] = "kernel k for rows (x: in f32[rows, n], w: in f32[rows, h], y: out f32[rows, n], z: out "
                              "f32[rows, h]) {\n    y = x * 2\n    z = w * 3\n}",
                      turned[] = "kernel k for rows (x: in f32[n, rows], y: out f32[n, rows]) { y = x * 2 }",
                      slug[] = "plan.head_shift";
    static const char *const gpus[] = {"h200", "m1max", "opencl"};
    for (int i = 0; i < COUNT(gpus); i++)
        refused(SOFTMAX, gpus[i], 769, false, 0, "", "plan.not_on_this_machine", "tail=head-shift: not on");
    refused(SOFTMAX, "avx512", 769, true, 0, "", "plan.ranged", "head-shift");
    refused(SOFTMAX, "avx512", 769, false, 0, "V=2", slug, "V=2 W=64 stat=two-pass");
    refused(SOFTMAX, "avx512", 769, false, 0, "W=1", slug, "V=1 W=1 stat=two-pass");
    refused(SOFTMAX, "avx512", 769, false, 0, "stat=online", slug, "stat=online");
    refused(NORM, "avx512", 769, false, 0, "stat=welford", slug, "stat=welford");
    refused(SOFTMAX, "avx512", 127, false, 0, "W=32 flight=4", slug, "N=127 least=128, W=32 flight=4");
    refused(SOFTMAX, "avx512", 769, false, ~0u, "", slug, "no tensor with rows");
    refused(turned, "avx512", 769, false, 0, "", slug, "no tensor with rows");
    refused(grouped, "avx2", 769, false, 0, "", slug, "sweep 0 is looped over axes");
    refused(two, "avx2", 769, false, 0, "", slug, "sweep 1 goes over other elements");
}

/* Kerns, made as they are without shifts, whose plan then says that rows are shifted. */
static void kerns_that_are_not_shifted(void **state) {
    (void)state;
    static const struct {
        const char *text, *plan;
        int64_t n;
        Slug slug;
    } kern[] = {{SOFTMAX, "W=32", 769, SLUG_COUNT},
                {SOFTMAX, "W=32 V=2", 769, S_KERN_SHIFT},
                {SOFTMAX, "W=1", 769, S_KERN_SHIFT},
                {SOFTMAX, "W=32 flight=2", 63, S_KERN_SHIFT},
                {SOFTMAX, "W=32 stat=online", 769, S_KERN_SHIFT},
                {NORM, "W=32 stat=welford", 769, S_KERN_SHIFT},
                {"kernel k for rows (x: in f32[rows, g, n], y: out f32[rows, g, n]) { y = x / max(x over n) }", "W=32",
                 99, S_KERN_SHIFT},
                {"kernel k for rows (x: in f32[rows, n], w: in f32[rows, h], y: out f32[rows, n], z: out f32[rows, h]) "
                 "{\n    y = x * 2\n    z = w * 3\n}",
                 "W=32", 99, S_KERN_SHIFT}};
    for (int i = 0; i < COUNT(kern); i++) {
        Match m;
        Caps caps;
        Plan plan;
        Kern *k;
        assert_true(match_read(&m, kern[i].text, "k", NULL, 0) && caps_preset("avx512", &caps));
        for (int a = 0; a < m.prog->naxes; a++) m.shape.n[a] = m.prog->axis[a].row ? 5 : kern[i].n;
        assert_int_equal(problem_make(&m.cx, m.prog, &m.shape, &caps, 0, &m.pb), OK);
        assert_int_equal(plan_read(&m.cx, kern[i].plan, &plan), OK);
        assert_int_equal(kern_lower(&m.cx, &m.pb, &plan, &k), OK);
        k->plan.tail = TAIL_HEAD_SHIFT;
        const Err e = kern_verify(&m.cx, k);
        if (kern[i].slug == SLUG_COUNT ? e : !e || m.cx.first->slug != kern[i].slug) fail_msg("%s", kern[i].plan);
        match_free(&m);
    }
}

/* Which tensor's lines: the first output that has the elements side by side, else such an input; never a weight. */
static void lines_are_the_first_outputs(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t strided;
        int W, param, shifts;
    } row[] = {{SOFTMAX, 0, 64, 1, 16},
               {SOFTMAX, 0, 8, 1, 8},
               {SOFTMAX, 2, 64, 0, 16},
               {NORM, 0, 64, 2, 32},
               {NORM, 4, 96, 0, 32},
               {NORM, 5, 64, -1, 0},
               {"kernel k for rows (x: in f64[rows, n], s: out f32[rows], q: out i8[rows, n]) {\n    s = f32(sum(x))\n"
                "    q = i8(x)\n}",
                0, 96, 2, 64}};
    for (int i = 0; i < COUNT(row); i++) {
        Match m;
        Caps caps;
        Plan plan = plan_default();
        int param;
        assert_true(match_read(&m, row[i].text, "k", NULL, 0) && caps_preset("avx512", &caps));
        for (int k = 0; k < m.prog->naxes; k++) m.shape.n[k] = 769;
        assert_int_equal(problem_make(&m.cx, m.prog, &m.shape, &caps, row[i].strided, &m.pb), OK);
        plan.W = row[i].W;
        assert_int_equal(plan_shifts(&m.pb, &plan, 2, &param), row[i].shifts); /* axis 1 is n */
        assert_int_equal(param, row[i].param);
        match_free(&m);
    }
}

/* ---- bits ---- */

static const struct {
    const char *text, *plan;
    int64_t n;
} row[] = {
    {SOFTMAX, "W=64 store=stream hold.e=register", 1027},
    {SOFTMAX, "W=256 flight=2 acc=2 hold.e=output", 1027},
    {SOFTMAX, "W=16 acc=8 U=2 store=stream stagger=on", 769},
    {SOFTMAX, "W=4 flight=4 fuse=off combine=inner", 70},
    {SOFTMAX, "W=64 acc=16 order=fixed combine=outer", 1024},
    {NORM, "W=64 store=stream prefetch=1", 769},
    {NORM, "W=96 acc=2 stat=shifted store=stream stagger=on prefetch=1", 1153},
    {NORM, "W=32 flight=2 hold.x=register", 191},
    {NORM, "W=16 acc=4 hold.x=register.f32", 512},
    {"kernel k for rows (x: in f32[rows, n], i: out i64[rows], y: out f32[rows, n]) {\n"
     "    i = argmax(x)\n    y = x[rows, n + 1] else x[rows, i] + sum(x)\n}",
     "W=64 store=stream", 833},
    {"kernel k for rows (x: in f32[rows, n], b: out bool[rows, n], a: out bool[rows], y: out i32[rows, n]) {\n"
     "    a = any(x > 2)\n    b = x > 0 and not all(x > 1)\n    y = i32(idx(n)) * (i32(b) + 1)\n}",
     "W=64 acc=2", 200},
    {"kernel k for rows (x: in f64[rows, n], q: out i8[rows, n], s: out f64[rows]) {\n"
     "    s = sum(x * x)\n    q = i8(x / sqrt(s) * 127)\n}",
     "W=96 acc=2", 401},
    {"kernel k for rows (x: inout f16[rows, c, n], s: out f32[rows]) {\n    s = sum(x)\n    x = x / (1 + abs(s))\n}",
     "W=32 store=stream", 51},
    {"kernel k for rows (x: in f32[n, rows], y: out f32[rows, n], z: out f32[n, rows], t: out i64[rows]) {\n"
     "    t = argmin(x)\n    y = x - sum(x)\n    z = x + y\n}",
     "W=16 flight=2", 133},
    {"kernel k for rows (x: in f32[rows, c, n], y: out f32[rows, n, c], z: out f32[rows, c, n]) {\n"
     "    z = x * 2\n    y = z + sum(x)\n}",
     "W=32 stagger=on", 43},
};

/* A pair with the plan, dense. */
static void make(Match *m, int i, const Caps *caps) {
    for (uint64_t seed = (uint64_t)i;; seed += 1000) {
        assert_true(match_read(m, row[i].text, "k", NULL, 0));
        m->prog->name = arena_printf(m->cx.a, "k%d", i);
        for (int a = 0; a < m->prog->naxes; a++)
            m->shape.n[a] = m->prog->axis[a].row ? 5 : str_eq(m->prog->axis[a].name, "c") ? 3 : row[i].n;
        if (match_prog(m, seed, caps, arena_printf(m->cx.a, "tail=head-shift %s", row[i].plan))) break;
        if (!m->pb.strided) fail_msg("%s: %s: %s", row[i].plan, m->why, m->cx.first ? m->cx.first->msg : "");
        match_free(m);
    }
    if (!match_interpret(m) || !match_sound(m)) fail_msg("%s: %s", row[i].plan, m->why);
    if (audit_unit(&m->cx, m->kern, &m->unit) != OK) fail_msg("%s: %s", row[i].plan, m->cx.first->msg);
}

/* Memory of all tensors with the first element `off` elements behind the first page, or the last just before its end;
 * what is before, behind and between is not written. */
static void between_pages(Match *m, HostFn *fn, int off, bool at_end, const char *plan) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map[MAX_PARAMS] = {0}, *at[MAX_PARAMS];
    size_t room[MAX_PARAMS];
    Args own = m->cpu;
    for (int q = 0; q < m->prog->nparams; q++) {
        const size_t skip = (size_t)off * (size_t)ty_bytes(m->prog->param[q].ty), bytes = m->bytes[q];
        if (!bytes) continue;
        room[q] = (bytes + skip + page - 1) / page * page;
        map[q] = mmap(NULL, room[q] + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(map[q] != MAP_FAILED);
        assert_int_equal(mprotect(map[q] + page, room[q], PROT_READ | PROT_WRITE), 0);
        memset(map[q] + page, POISON, room[q]);
        at[q] = map[q] + page + (at_end ? room[q] - bytes : skip);
        memcpy(at[q], own.t[q].data, bytes);
        m->cpu.t[q].data = at[q];
    }
    if (!match_compare(m, fn)) fail_msg("%s, off=%d at_end=%d: %s", plan, off, at_end, m->why);
    for (int q = 0; q < m->prog->nparams; q++) {
        if (!map[q]) continue;
        for (char *c = map[q] + page; c < map[q] + page + room[q]; c++)
            if ((c < at[q] || c >= at[q] + m->bytes[q]) && (unsigned char)*c != POISON)
                fail_msg("%s: %s is written outside", plan, m->prog->param[q].name);
        munmap(map[q], room[q] + 2 * page);
    }
    m->cpu = own;
}

static void rows_anywhere(const char *machine, const char *level) {
    Compiler cc;
    Caps caps;
    Batch b;
    Match m[COUNT(row)];
    const Unit *unit[COUNT(row)];
    int nunits = 0;
    assert_true(caps_preset(machine, &caps));
    if (!cpu_has(caps.isa)) {
        print_message("# skipped: no %s here\n", machine);
        skip();
    }
    caps.has_stream_store = true; /* portable units store plainly where they are told to stream */
    cc_probe(&alloc_libc, NULL, &cc);
    for (int i = 0; i < COUNT(row); i++) {
        make(&m[i], i, &caps);
        if (i % TEST_SHARE == 0) unit[nunits++] = &m[i].unit;
    }
    if (!batch_build(&b, &cc, caps.isa, level, unit, nunits)) fail_msg("%s", b.why);
    for (int i = 0; i < COUNT(row); i += TEST_SHARE) {
        HostFn *fn = batch_fn(&b, &m[i].unit);
        for (int off = 0; off < 64; off += off < 17 ? 1 : 5) between_pages(&m[i], fn, off, false, row[i].plan);
        between_pages(&m[i], fn, 0, true, row[i].plan);
    }
    batch_free(&b);
    for (int i = 0; i < COUNT(row); i++) match_free(&m[i]);
}

static void rows_anywhere_avx512(void **state) {
    (void)state;
    rows_anywhere("avx512", "-O1");
}
static void rows_anywhere_avx2(void **state) {
    (void)state;
    rows_anywhere("avx2", "-O0");
}
static void rows_anywhere_portable(void **state) {
    (void)state;
    rows_anywhere("portable", "-O0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_place_has_one_lanes_elements),
                                       cmocka_unit_test(refusals_say_why),
                                       cmocka_unit_test(kerns_that_are_not_shifted),
                                       cmocka_unit_test(lines_are_the_first_outputs),
                                       cmocka_unit_test(rows_anywhere_avx512),
                                       cmocka_unit_test(rows_anywhere_avx2),
                                       cmocka_unit_test(rows_anywhere_portable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
