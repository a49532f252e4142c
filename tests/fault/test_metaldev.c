/* The runtime for Metal over a framework that is not one: what it encodes, what it says when something fails, and that
 * every object it takes it gives back. */
#include "../unit/rtdesk.h"
#include "turns.h"

#include "../../src/gen/kern.h"
#include "../../src/rt/local.h"
#include "../diff/library.h"
#include "fake_metal.h"

extern const RtOps metal_ops;

static void open_metal(Desk *k, const char *refuse) {
    RtOptions o = options();
    fake_metal = (FakeMetal){.width = 32, .most_lanes = 1024, .family = 1006, .status = 4, .refuse = refuse};
    *k = (Desk){.cx = {.a = arena_new(NULL, NULL)}};
    assert_int_equal(rt_open(&k->cx, &o, &k->rt), OK);
    assert_int_equal(metal_ops.open(&k->cx, k->rt), OK);
    if (!refuse) assert_int_equal(rt_find(&k->cx, k->rt, "metal:0", &k->d), OK);
}

static void close_metal(Desk *k) {
    close_desk(k);
    assert_int_equal(fake_metal.turn.live, 0);
}

static Unit softmax_of(Desk *k, Ty ty, int64_t rows, int64_t elements, const char *plan_text) {
    LibKernel *lib;
    Problem pb;
    Plan plan;
    Kern *kern;
    Unit u;
    int n = library_read(&k->cx, ty, &lib), at = 0;
    while (at < n && !str_eq(lib[at].name, "softmax")) at++;
    assert_true(at < n);
    Shape s = library_shape(lib[at].prog, rows, elements);
    assert_int_equal(problem_make(&k->cx, lib[at].prog, &s, dev_caps(k->d), 0, &pb), OK);
    assert_int_equal(plan_read(&k->cx, plan_text, &plan), OK);
    assert_int_equal(kern_lower(&k->cx, &pb, &plan, &kern), OK);
    assert_int_equal(unit_emit(&k->cx, &pb, kern, &u), OK);
    return u;
}

static Unit softmax(Desk *k, const char *plan_text) {
    return softmax_of(k, TY_BF16, 7, 1024, plan_text);
}

static void test_device(void **state) {
    (void)state;
    Desk k;
    open_metal(&k, NULL);
    const Caps *c = dev_caps(k.d);
    assert_true(c->kind == KIND_METAL && c->poly_math && !c->has_f64 && c->shared_bytes == 32768);
    assert_non_null(strstr(dev_identity(k.d), "Fake GPU; Metal of macOS 15.0"));
    close_metal(&k);
    static const char *const without[] = {"MTLCreateSystemDefaultDevice", "no shuffles"};
    for (int i = 0; i < COUNT(without); i++) { /* then there is none, which is no error */
        RtOptions o = options();
        fake_metal = (FakeMetal){.refuse = without[i]};
        k = (Desk){.cx = {.a = arena_new(NULL, NULL)}};
        assert_int_equal(rt_open(&k.cx, &o, &k.rt), OK);
        assert_int_equal(metal_ops.open(&k.cx, k.rt), OK);
        assert_int_not_equal(rt_find(&k.cx, k.rt, "metal:0", &k.d), OK);
        close_metal(&k);
    }
}

static void test_launch(void **state) {
    (void)state;
    Desk k;
    Module *m;
    Mem *x, *y;
    open_metal(&k, NULL);
    Unit u = softmax(&k, "W=256 V=8 P=2");
    assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
    assert_true(fake_metal.safe_math && fake_metal.pipelines == 1);
    assert_int_equal(strncmp(fake_metal.text, u.text, 40), 0);
    assert_int_equal(mem_new(&k.cx, k.d, 8 * 2048 + 100, &x), OK);
    assert_int_equal(mem_new(&k.cx, k.d, 8 * 2048, &y), OK);
    Slot s[8] = {
        {.p = (char *)mem_at(x) + 32}, {.p = mem_at(y)}, {.i = 7}, {.i = 1024}, {.i = 1}, {.i = 1024}, {.i = 1}};
    assert_int_equal(u.abi.nslots, 7);
    assert_int_equal(mod_launch(&k.cx, m, s, 7, 0), OK);
    FakeMetal *f = &fake_metal;
    assert_true(f->buffer[0] == mem_at(x) && f->offset[0] == 32 && f->buffer[1] == mem_at(y) && f->offset[1] == 0);
    assert_true(f->args_at == 2 && f->args_bytes == 9 * 8 && f->args[0] == 0 && f->args[1] == 7 && f->args[4] == 7);
    assert_true(f->groups == 4 && f->lanes == 512 && f->dispatches == 1 && f->commits == 1 && f->pipelines == 1);
    assert_int_equal(f->threadgroup_bytes, u.shared_bytes);
    s[0].p = (char *)mem_at(x) + 2; /* off the packs: text of its own, once */
    for (int i = 0; i < 100; i++) assert_int_equal(mod_launch(&k.cx, m, s, 7, 0), OK);
    assert_true(f->pipelines == 2 && str_starts(f->text, "#define ROWFOLD_LOOSE\n"));
    assert_int_equal(dev_sync(&k.cx, k.d), OK);
    assert_int_equal(f->waits, 101);
    const Slot *sets[] = {s};
    int64_t ns = 0;
    assert_int_equal(mod_time(&k.cx, m, sets, 1, 7, 0, 10, &ns), OK);
    assert_true(ns > 499000 && ns < 501000 && f->dispatches == 111);
    s[1].p = s; /* not the device's */
    expect(&k.cx, mod_launch(&k.cx, m, s, 7, 0), S_RT_NOT_MEMORY);
    char bytes[16];
    assert_int_equal(mem_write(&k.cx, x, 3, "metal", 6), OK);
    assert_int_equal(mem_read(&k.cx, x, 3, bytes, 6), OK);
    assert_string_equal(bytes, "metal");
    mem_free(x);
    mem_free(y);
    mod_free(m);
    close_metal(&k);
}

static void test_failures(void **state) {
    (void)state;
    static const struct {
        const char *refuse;
        Slug slug;
        const char *says;
    } rows[] = {{"newLibraryWithSource:options:error:", S_BUILD_FAILED, "the fake refuses"},
                {"newFunctionWithName:", S_BUILD_LOAD, "no such function"},
                {"newComputePipelineStateWithFunction:error:", S_BUILD_LOAD, "the fake refuses"}};
    Desk k;
    Module *m;
    Mem *x;
    open_metal(&k, NULL);
    Unit u = softmax(&k, "W=256 V=8");
    fake_metal.old_system = true;
    for (int i = 0; i < COUNT(rows); i++) {
        fake_metal.refuse = rows[i].refuse;
        expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), rows[i].slug);
        assert_non_null(strstr(k.cx.last->msg, rows[i].says));
    }
    assert_true(fake_metal.safe_math);
    fake_metal.refuse = NULL;
    fake_metal.width = 16;
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_SPILLS);
    fake_metal.width = 32, fake_metal.most_lanes = 128;
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_SPILLS);
    fake_metal.most_lanes = 1024;
    u.dialect = DIALECT_CUDA;
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_ARG);
    u.dialect = DIALECT_METAL;
    fake_metal.refuse = "newBufferWithLength:options:";
    expect(&k.cx, mem_new(&k.cx, k.d, 100, &x), S_OOM);
    fake_metal.refuse = NULL;
    assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
    Slot s[8] = {{.p = NULL}, {.p = NULL}, {.i = 1}};
    assert_int_equal(mod_launch(&k.cx, m, s, 1, 0), OK);
    fake_metal.status = 5;
    expect(&k.cx, dev_sync(&k.cx, k.d), S_RT_METAL);
    assert_non_null(strstr(k.cx.last->msg, "the fake refuses"));
    assert_int_equal(dev_sync(&k.cx, k.d), OK); /* told once */
    fake_metal.refuse = "commandBuffer";
    expect(&k.cx, mod_launch(&k.cx, m, s, 1, 0), S_RT_METAL);
    mod_free(m);
    close_metal(&k);
}

/* ---- each message and each allocation in its turn (turns.h) ---- */

static void add_metal(Rt *rt) {
    Cx cx = {.a = arena_new(NULL, NULL)};
    if (metal_ops.open(&cx, rt) && cx.last->slug != S_OOM && cx.last->slug != S_RT_METAL) fail_msg("%s", cx.last->msg);
    arena_free(cx.a);
}

static bool message_fits(const char *failed, Slug slug) {
    static const struct {
        const char *op;
        Slug slug;
    } of[] = {{"MTLCreateSystemDefaultDevice", S_RT_NO_DEVICE},
              {"newCommandQueue", S_RT_NO_DEVICE},
              {"newLibraryWithSource:options:error:", S_BUILD_FAILED},
              {"newFunctionWithName:", S_BUILD_LOAD},
              {"newComputePipelineStateWithFunction:error:", S_BUILD_LOAD},
              {"newBufferWithLength:options:", S_OOM}};
    for (int i = 0; i < COUNT(of); i++)
        if (str_eq(of[i].op, failed)) return slug == of[i].slug;
    return slug == S_RT_METAL;
}

static bool memory_fits(const char *failed, Slug slug) {
    (void)failed;
    return slug == S_OOM || slug == S_RT_NO_DEVICE; /* none where there was no memory for it */
}

static void test_turns(void **state) {
    (void)state;
    Desk k;
    Turn t;
    open_metal(&k, NULL);
    const Unit u = softmax_of(&k, TY_F32, TURN_ROWS, 256, "W=64 V=4");
    fake_metal = (FakeMetal){.width = 32, .most_lanes = 1024, .family = 1006, .status = 4};
    Turn *messages = (Turn *)(void *)&fake_metal.turn;
    Round r = {.device = "metal:0",
               .unit = &u,
               .options = options(),
               .opened = add_metal,
               .turn = messages,
               .fits = message_fits};
    turn_all(&r, 15);
    const Alloc al = {turn_get, turn_put, &t};
    r.options.al = &al, r.turn = &t, r.held = messages, r.fits = memory_fits;
    turn_all(&r, 10);
    rt_close(k.rt);
    arena_free(k.cx.a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
