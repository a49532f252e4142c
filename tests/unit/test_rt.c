/* rt: hand-written units built and launched on the host, memory and time; null, fault, and no memory. */
#include "rtdesk.h"

/* ---- the usual way ---- */

static void test_build_and_launch(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    assert_int_equal(dev_caps(k.d)->kind, KIND_HOST);
    assert_int_equal(dev_caps(k.d)->units, 2);
    assert_true(dev_caps(k.d)->cache_line >= 16);
    assert_string_equal(dev_name(k.d), "host");
    assert_non_null(strstr(dev_identity(k.d), "-ffp-contract=off"));
    assert_null(strstr(dev_identity(k.d), "fast-math"));
    assert_null(strchr(dev_identity(k.d), '\n'));
    Module *m = build_scale(&k);
    const Facts *f = mod_facts(m);
    assert_false(f->from_cache);
    assert_true(f->compile_ns > 0 && f->load_ns > 0);
    assert_in_range(f->code_bytes, 16, 100000);
    assert_int_equal(f->registers, -1);
    for (int threads = 0; threads <= 3; threads++)
        for (int64_t rows = 0; rows <= ROWS; rows += rows < 40 ? 1 : 29) check_scale(m, threads, rows);
    Module *again = build_scale(&k);
    assert_true(mod_facts(again)->from_cache);
    assert_int_equal(mod_facts(again)->compile_ns, 0);
    assert_int_equal(mod_facts(again)->code_bytes, f->code_bytes);
    mod_free(m); /* the second stands alone */
    check_scale(again, 2, ROWS);
    mod_free(again);
    mod_free(NULL);
    assert_int_equal(entries(NULL, 0), 1);
    assert_null(rt_note(k.rt, 0));
    Unit u = unit_of("scale", scale_text);
    u.fresh = true; /* compiled although it is there */
    assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
    assert_false(mod_facts(m)->from_cache);
    mod_free(m);
    u.fresh = false;
    /* another set of flags is another kernel */
    u.isa = dev_caps(k.d)->isa;
    if (u.isa != ISA_PORTABLE) {
        assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
        assert_false(mod_facts(m)->from_cache);
        check_scale(m, 2, ROWS);
        mod_free(m);
    }
    close_desk(&k);
    o.cache_dir = "";
    open_desk(&k, &o);
    m = build_scale(&k);
    assert_false(mod_facts(m)->from_cache);
    mod_free(m);
    close_desk(&k);
}

static void test_every_isa(void **state) {
    (void)state;
    Isa missing = ISA_COUNT; /* no CPU has them all */
    RtOptions o = options();
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Rt *rt;
        o.isa = (Isa)isa;
        Err err = rt_open(&cx, &o, &rt);
        if (err) {
            expect(&cx, err, S_RT_ISA);
            missing = (Isa)isa;
        } else {
            assert_int_equal(dev_caps(rt_device(rt, 0))->isa, isa);
            rt_close(rt);
        }
        arena_free(cx.a);
    }
    assert_int_not_equal(missing, ISA_COUNT);
    Desk k;
    o.isa = ISA_COUNT;
    open_desk(&k, &o);
    Unit u = unit_of("scale", scale_text);
    Module *m;
    u.isa = missing;
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_RT_ISA);
    close_desk(&k);
}

static void test_groups_stay_whole(void **state) {
    (void)state;
    static const char text[] = SLOT_TEXT "void groups(const Slot *s, long long begin, long long end) {\n"
                                         "    unsigned char *bad = s[0].p; unsigned char *count = s[1].p;\n"
                                         "    if (begin % s[2].i || (end % s[2].i && end != s[3].i)) *bad = 1;\n"
                                         "    for (; begin < end; begin++) count[begin]++;\n"
                                         "}\n";
    Desk k;
    RtOptions o = options();
    o.threads = 5;
    open_desk(&k, &o);
    for (int group = 1; group <= 12; group += 11) {
        Unit u = unit_of("groups", text);
        Module *m;
        u.rows_per_group = group;
        u.elements_per_row = 10000;
        assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
        for (int64_t rows = 1; rows < 9000; rows += 1 + rows / 3) {
            unsigned char bad = 0, *count = calloc((size_t)rows, 1);
            Slot slots[] = {{.p = &bad}, {.p = count}, {.i = group}, {.i = rows}};
            assert_int_equal(mod_launch(&k.cx, m, slots, rows, 0), OK);
            assert_int_equal(bad, 0);
            for (int64_t r = 0; r < rows; r++) assert_int_equal(count[r], 1);
            free(count);
        }
        mod_free(m);
    }
    close_desk(&k);
}

static void test_libm(void **state) {
    (void)state;
    static const char text[] = SLOT_TEXT "double exp(double); double log(double);\n"
                                         "void f(const Slot *s, long long b, long long e) {\n"
                                         "    double *y = s[0].p; for (; b < e; b++) y[b] = log(exp(y[b]));\n"
                                         "}\n";
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Unit u = unit_of("f", text);
    Module *m;
    assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
    double y = 1;
    Slot slots[] = {{.p = &y}};
    assert_int_equal(mod_launch(NULL, m, slots, 1, 0), OK);
    assert_true(y == 1);
    mod_free(m);
    close_desk(&k);
}

/* A host program that flushes subnormals changes no bit of a result, and keeps its setting. */
static void test_fp_environment(void **state) {
    (void)state;
#if defined(__x86_64__)
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Module *m = build_scale(&k);
    float x[4] = {1e-40f, -1e-44f, 1e-38f, 3}, y[4];
    uint32_t got[4], want[4] = {142724, 0x8000000E, 0x00D9C7DC, 0x40C00000};
    unsigned char count[1] = {0};
    Slot slots[] = {{.p = x}, {.p = y}, {.p = count}, {.i = 4}};
    unsigned usual = __builtin_ia32_stmxcsr(),
             flush = 0x1F80 | 0x8040 | 0x6000; /* flush, denormals are zero, toward zero */
    __builtin_ia32_ldmxcsr(flush);
    Err err = mod_launch(NULL, m, slots, 1, 0);
    unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(usual);
    assert_int_equal(err, OK);
    assert_int_equal(after, flush);
    memcpy(got, y, sizeof got);
    assert_memory_equal(got, want, sizeof got);
    mod_free(m);
    close_desk(&k);
#else
    skip();
#endif
}

static void test_arguments(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Unit u = unit_of("scale", scale_text);
    Module *m;
    u.entry = "not an identifier; }";
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_ARG);
    u = unit_of("scale", scale_text);
    u.dialect = DIALECT_CUDA;
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_ARG);
    m = build_scale(&k);
    Slot slots[4] = {0};
    const Slot *sets[1] = {slots};
    int64_t ns;
    expect(&k.cx, mod_launch(&k.cx, m, slots, -1, 0), S_ARG);
    assert_int_equal(mod_launch(NULL, m, slots, -1, 0), ERR_ARGUMENT);
    assert_int_equal(mod_launch(NULL, m, slots, 1, -1), ERR_ARGUMENT);
    assert_int_equal(mod_launch(NULL, m, slots, 0, 0), OK);
    expect(&k.cx, mod_time(&k.cx, m, sets, 0, 1, 1, 1, &ns), S_ARG);
    mod_free(m);
    Device *d;
    expect(&k.cx, rt_find(&k.cx, k.rt, "abacus:0", &d), S_RT_NO_DEVICE);
    assert_non_null(strstr(k.cx.last->accept, "host"));
    assert_int_equal(rt_find(&k.cx, k.rt, "best", &d), OK);
    assert_true(rt_devices(k.rt) >= 1);
    assert_ptr_equal(rt_device(k.rt, 0), k.d);
    assert_null(rt_device(k.rt, 1000));
    Rt *rt;
    o.threads = -1;
    expect(&k.cx, rt_open(&k.cx, &o, &rt), S_ARG);
    assert_null(rt);
    o = options();
    o.cache_bytes = -1;
    expect(&k.cx, rt_open(&k.cx, &o, &rt), S_ARG);
    o = options();
    o.isa = (Isa)99;
    expect(&k.cx, rt_open(&k.cx, &o, &rt), S_ARG);
    close_desk(&k);
}

/* ---- memory and time ---- */

static void test_memory(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    for (size_t bytes = 0; bytes < 9 << 20; bytes = bytes * 5 + 1) {
        Mem *m;
        char in[4] = "abc", out[4] = "";
        assert_int_equal(mem_new(&k.cx, k.d, bytes, &m), OK);
        assert_int_equal((uintptr_t)mem_at(m) % 256, 0);
        for (size_t i = 0; i < bytes; i += 1024) assert_int_equal(((char *)mem_at(m))[i], 0);
        if (bytes >= 4) {
            assert_int_equal(mem_write(&k.cx, m, bytes - 4, in, 4), OK);
            assert_int_equal(mem_read(&k.cx, m, bytes - 4, out, 4), OK);
            assert_string_equal(out, "abc");
        }
        assert_int_equal(mem_write(&k.cx, m, bytes, in, 0), OK);
        expect(&k.cx, mem_write(&k.cx, m, bytes, in, 1), S_ARG);
        expect(&k.cx, mem_read(&k.cx, m, SIZE_MAX, out, 4), S_ARG);
        expect(&k.cx, mem_read(&k.cx, m, 1, out, SIZE_MAX), S_ARG);
        mem_free(m);
    }
    Mem *m;
    expect(&k.cx, mem_new(&k.cx, k.d, SIZE_MAX - 5, &m), S_OOM);
    assert_null(m);
    mem_free(NULL);
    close_desk(&k);
}

static void test_time(void **state) {
    (void)state;
    static const char text[] =
        SLOT_TEXT "void tick(const Slot *s, long long b, long long e) { ++*(long long *)s[0].p; (void)b; (void)e; }\n";
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Unit u = unit_of("tick", text);
    Module *m;
    assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
    int64_t n[3] = {0}, ns = 0;
    Slot a = {.p = &n[0]}, b = {.p = &n[1]}, c = {.p = &n[2]};
    const Slot *sets[] = {&a, &b, &c};
    assert_int_equal(mod_time(&k.cx, m, sets, 3, 1, 1, 100, &ns), OK);
    assert_true(ns > 0);
    assert_int_equal(n[0], 34);
    assert_int_equal(n[1], 33);
    assert_int_equal(n[2], 33);
    mod_free(m);
    double copy = 0;
    const char *how = NULL;
    for (int threads = 0; threads <= 2; threads++)
        for (size_t bytes = 1; bytes < 5000000; bytes = bytes * 50 + 13) {
            assert_int_equal(dev_copy_ns(&k.cx, k.d, bytes, threads, 3, &copy, &how), OK);
            assert_true(copy > 0);
            assert_non_null(how);
        }
    for (int kind = 0; kind < CEILING_KINDS; kind++)
        for (int turns = 1; turns <= 3; turns++) {
            Ceiling ask = {.kind = (CeilingKind)kind, .bytes = 100003, .sets = turns, .threads = 2, .reps = 3};
            assert_int_equal(dev_ceiling(&k.cx, k.d, &ask, &copy, &how), OK);
            assert_true(copy > 0 && how);
        }
    int64_t span = 0;
    Data *t = calloc(1, sizeof *t);
    assert_non_null(t);
    Slot slots[] = {{.p = t->x}, {.p = t->y}, {.p = t->count}, {.i = N}};
    m = build_scale(&k);
    assert_int_equal(mod_span(&k.cx, m, slots, ROWS, 1, &span), OK);
    assert_true(span > 0 && t->count[ROWS - 1] == 1);
    expect(&k.cx, mod_span(&k.cx, m, slots, 0, 1, &span), S_ARG);
    assert_non_null(strstr(dev_clock(k.d, true), "one call"));
    mod_free(m);
    free(t);
    assert_int_equal(dev_sync(&k.cx, k.d), OK);
    expect(&k.cx, dev_copy_ns(&k.cx, k.d, 0, 1, 3, &copy, &how), S_ARG);
    close_desk(&k);
}

/* ---- null, fault, and no memory ---- */

static void test_null(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    int listed = rt_devices(k.rt);
    Device *d;
    Module *m;
    Mem *mem;
    assert_int_equal(rt_find(&k.cx, k.rt, "null", &d), OK);
    assert_int_equal(rt_devices(k.rt), listed);
    for (int i = 0; i < listed; i++) assert_ptr_not_equal(rt_device(k.rt, i), d);
    Unit u = unit_of("anything", "this is no C");
    assert_int_equal(mod_build(&k.cx, d, &u, &m), OK);
    Slot slot = {0};
    const Slot *sets[] = {&slot};
    int64_t ns;
    double copy;
    const char *how;
    assert_int_equal(mod_launch(NULL, m, &slot, 5, 0), OK);
    assert_int_equal(mod_time(&k.cx, m, sets, 1, 5, 0, 1000, &ns), OK);
    assert_true(ns > 0);
    assert_int_equal(mod_span(&k.cx, m, &slot, 5, 0, &ns), OK);
    assert_true(ns > 0 && strstr(dev_clock(d, true), "monotonic"));
    assert_int_equal(dev_sync(&k.cx, d), OK);
    assert_int_equal(mem_new(&k.cx, d, 100, &mem), OK);
    mem_free(mem);
    expect(&k.cx, dev_copy_ns(&k.cx, d, 100, 1, 1, &copy, &how), S_RT_NOT_OFFERED);
    assert_int_equal(mod_facts(m)->code_bytes, -1);
    mod_free(m);
    close_desk(&k);
}

/* All services of a device once; the number of the first that failed, 0 for none. */
static int all_calls(Desk *k, Device *d) {
    Unit u = unit_of("scale", scale_text);
    Module *m = NULL;
    Mem *mem = NULL;
    float x = 3, y = 0;
    unsigned char count = 0;
    Slot slots[] = {{.p = &x}, {.p = &y}, {.p = &count}, {.i = 1}};
    const Slot *sets[] = {slots};
    int64_t ns;
    double copy;
    const char *how;
    int at = 1;
    Err err = mod_build(&k->cx, d, &u, &m);
    if (!err) at++, err = mem_new(&k->cx, d, 64, &mem);
    if (!err) at++, err = mem_write(&k->cx, mem, 0, &x, 4);
    if (!err) at++, err = mem_read(&k->cx, mem, 0, &x, 4);
    if (!err) at++, err = mod_launch(&k->cx, m, slots, 1, 0);
    if (!err) at++, err = dev_sync(&k->cx, d);
    if (!err) at++, err = mod_time(&k->cx, m, sets, 1, 1, 1, 1, &ns);
    if (!err) at++, err = dev_copy_ns(&k->cx, d, 4096, 1, 1, &copy, &how);
    if (err)
        expect(&k->cx, err, S_RT_FAULT);
    else
        assert_true(y == 6);
    mod_free(m);
    mem_free(mem);
    return err ? at : 0;
}

static void test_fault(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    for (int i = 1; i <= 9; i++) {
        char name[32];
        Device *d;
        snprintf(name, sizeof name, "fault:%d", i);
        assert_int_equal(rt_find(&k.cx, k.rt, name, &d), OK);
        assert_int_equal(all_calls(&k, d), i <= 8 ? i : 0);
        if (i <= 8) assert_int_equal(all_calls(&k, d), 0); /* that one call and no other */
    }
    Device *d;
    expect(&k.cx, rt_find(&k.cx, k.rt, "fault:0", &d), S_RT_NO_DEVICE);
    expect(&k.cx, rt_find(&k.cx, k.rt, "fault:x", &d), S_RT_NO_DEVICE);
    assert_int_equal(mod_launch(NULL, NULL, NULL, 0, 0), OK);
    close_desk(&k);
}

typedef struct Scarce {
    int left, live; /* calls until one fails; blocks not given back */
} Scarce;
static void *scarce_get(void *user, size_t n) {
    Scarce *s = user;
    if (s->left-- == 0) return NULL;
    s->live++;
    return malloc(n);
}
static void scarce_put(void *user, void *p) {
    ((Scarce *)user)->live--;
    free(p);
}

static void test_out_of_memory(void **state) {
    (void)state;
    bool whole = false;
    int failures = 0;
    for (int k = 0; !whole; k++) {
        assert_true(k < 100);
        os_dir_remove(cache);
        Scarce s = {.left = k};
        const Alloc al = {scarce_get, scarce_put, &s};
        RtOptions o = options();
        o.al = &al;
        Cx cx = {.a = arena_new(NULL, NULL)};
        Rt *rt;
        Module *m = NULL;
        Mem *mem = NULL;
        Unit u = unit_of("scale", scale_text);
        Err err = rt_open(&cx, &o, &rt);
        for (int i = 0; i < 2 && !err; i++) { /* compiled, then from the cache */
            err = mod_build(&cx, rt_device(rt, 0), &u, &m);
            if (!err) check_scale(m, 2, ROWS);
            mod_free(m);
            m = NULL;
        }
        if (!err) err = mem_new(&cx, rt_device(rt, 0), 100, &mem);
        mem_free(mem);
        whole = s.left > 0 && !err;
        if (err) expect(&cx, err, S_OOM), failures++;
        rt_close(rt);
        assert_int_equal(s.live, 0);
        arena_free(cx.a);
    }
    assert_true(failures > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_build_and_launch),
        T(test_every_isa),
        T(test_groups_stay_whole),
        T(test_libm),
        T(test_fp_environment),
        T(test_arguments),
        T(test_memory),
        T(test_time),
        T(test_null),
        T(test_fault),
        T(test_out_of_memory),
    };
    return RUN(tests);
}
