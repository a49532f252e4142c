/* Presets, the text of Caps with hostile bytes, the layout of slots, and Demand as JSON. */
#include "../../src/target/target.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static Cx new_cx(void) {
    return (Cx){.a = arena_new(NULL, NULL)};
}

static const char *text_of(Cx *cx, const Caps *c) {
    Buf b = buf_new(cx->a);
    caps_print(c, &b);
    return b.s;
}

static void presets_are_whole(void **state) {
    (void)state;
    const char *const *names;
    int n = caps_presets(&names);
    assert_int_equal(n, 9);
    Cx cx = new_cx();
    for (int i = 0; i < n; i++) {
        Caps c, d;
        assert_true(caps_preset(names[i], &c));
        assert_string_equal(c.name, names[i]);
        assert_true(is_pow2(c.subgroup) && c.subgroup <= c.max_lanes && c.max_lanes <= c.max_group &&
                    c.stripe_slots > 0);
        assert_true(c.copy_bytes_per_s > 0 && c.launch_s > 0 && c.units > 0 && c.max_cluster > 0);
        assert_int_equal(c.poly_math, c.kind != KIND_CUDA);
        assert_int_equal(c.has_f64, c.kind != KIND_METAL && !str_eq(c.name, "opencl"));
        assert_int_equal(c.max_pack_bytes == 0, c.kind == KIND_HOST);
        assert_int_equal(c.row_buffer_bytes > 0, c.kind == KIND_HOST);
        assert_int_equal(caps_read(&cx, text_of(&cx, &c), &d), OK);
        assert_true(caps_equal(&c, &d));
        assert_string_equal(text_of(&cx, &c), text_of(&cx, &d));
        for (int j = 0; j < i; j++) {
            caps_preset(names[j], &d);
            assert_false(caps_equal(&c, &d));
        }
    }
    Caps c;
    assert_false(caps_preset("h100", &c));
    caps_preset("m1max", &c);
    assert_true(c.stripe_slots == 64 && c.max_lanes == 1024 && c.unordered_collect && c.shared_bytes == 32768);
    caps_preset("h200", &c);
    assert_true(c.units == 132 && c.max_cluster == 16 && c.has_keep && c.registers == 65536);
    arena_free(cx.a);
}

static void every_field_is_in_the_text(void **state) {
    (void)state;
    Cx cx = new_cx();
    Caps base, c, d;
    caps_preset("h200", &base);
#define DIFFERS(field, value)                                   \
    c = base;                                                   \
    c.field = value;                                            \
    assert_false(caps_equal(&c, &base));                        \
    assert_int_equal(caps_read(&cx, text_of(&cx, &c), &d), OK); \
    assert_true(caps_equal(&c, &d));
    DIFFERS(name[0], ' ')
    DIFFERS(name[1], '%')
    DIFFERS(name[2], '\n')
    DIFFERS(name[3], (char)0xE9)
    DIFFERS(kind, KIND_OPENCL)
    DIFFERS(isa, ISA_NEON)
    DIFFERS(subgroup, 7)
    DIFFERS(max_lanes, 7)
    DIFFERS(max_group, INT32_MAX)
    DIFFERS(max_pack_bytes, 0)
    DIFFERS(stripe_slots, 0)
    DIFFERS(row_buffer_bytes, INT64_MAX)
    DIFFERS(shared_bytes, 1)
    DIFFERS(registers, 1)
    DIFFERS(units, 1)
    DIFFERS(max_cluster, 1)
    DIFFERS(has_keep, false)
    DIFFERS(has_stream_store, false)
    DIFFERS(unordered_collect, true)
    DIFFERS(poly_math, true)
    DIFFERS(has_f64, false)
    DIFFERS(lanes_in_turn, true)
    DIFFERS(cache_line, 1)
    DIFFERS(l1_bytes, 1)
    DIFFERS(l2_bytes, 1)
    DIFFERS(l3_bytes, 1)
    DIFFERS(copy_bytes_per_s, 0.1)
    DIFFERS(launch_s, 5e-324)
#undef DIFFERS
    arena_free(cx.a);
}

static void bad_caps_are_refused(void **state) {
    (void)state;
    Cx cx = new_cx();
    Caps base, c;
    caps_preset("avx2", &base);
    const char *good = text_of(&cx, &base);
    static const struct {
        const char *from, *to;
    } edits[] = {{"kind=host", "kind=hosts"},
                 {"isa=avx2", "isa="},
                 {"units=1", "units=0"},
                 {"units=1", "units=1.5"},
                 {"units=1", ""},
                 {"units=1", "units=1 units=1"},
                 {"units=1", "unit=1"},
                 {"units=1", "units"},
                 {"poly_math=1", "poly_math=2"},
                 {"launch_s=1e-06", "launch_s=nan"},
                 {"launch_s=1e-06", "launch_s=-1"},
                 {"launch_s=1e-06", "launch_s=1e999"},
                 {"name=avx2", "name=a%0"},
                 {"name=avx2", "name=a%00"},
                 {"name=avx2", "name=a\"b"},
                 {"l1_bytes=32768", "l1_bytes=9223372036854775808"},
                 {"l1_bytes=32768", "l1_bytes=-1"},
                 {"name=avx2", "name=0123456789012345678901234567890123456789012345678901234567890123"}};
    for (int i = 0; i < COUNT(edits); i++) {
        const char *hit = strstr(good, edits[i].from);
        assert_non_null(hit);
        const char *bad =
            arena_printf(cx.a, "%.*s%s%s", (int)(hit - good), good, edits[i].to, hit + strlen(edits[i].from));
        Cx own = new_cx();
        c = base;
        assert_int_equal(caps_read(&own, bad, &c), ERR_ARGUMENT);
        assert_int_equal(own.first->slug, S_CAPS_TEXT);
        assert_true(caps_equal(&c, &base)); /* nothing half read */
        arena_free(own.a);
    }
    Rng r = {17};
    size_t n = strlen(good);
    int accepted = 0;
    for (int i = 0; i < 20000; i++) {
        Cx own = new_cx();
        char *t = arena_str(own.a, good, n);
        for (int k = rng_int(&r, 3); k >= 0; k--)
            t[rng_int(&r, (int)n)] = (char)(i % 2 ? rng_u64(&r) : (uint64_t)('0' + rng_int(&r, 10)));
        if (!caps_read(&own, t, &c)) {
            Caps d;
            accepted++;
            assert_int_equal(caps_read(&own, text_of(&own, &c), &d), OK);
            assert_true(caps_equal(&c, &d));
        } else {
            assert_int_equal(own.ndiags, 1);
        }
        arena_free(own.a);
    }
    assert_in_range(accepted, 100, 19000);
    arena_free(cx.a);
}

static void slots_lie_in_order(void **state) {
    (void)state;
    Prog p = {.name = "f", .naxes = 3, .nparams = 5, .row_axes = 5};
    p.axis[0] = (Axis){"batch", true, -1};
    p.axis[1] = (Axis){"n", false, -1};
    p.axis[2] = (Axis){"rows", true, -1};
    p.param[0] = (Param){.name = "x", .dir = DIR_IN, .ty = TY_F32, .rank = 3, .axis = {0, 2, 1}};
    p.param[1] = (Param){.name = "eps", .dir = DIR_SCALAR, .ty = TY_F32};
    p.param[2] = (Param){.name = "k", .dir = DIR_CONST, .ty = TY_F32, .has_default = true};
    p.param[3] = (Param){.name = "y", .dir = DIR_OUT, .ty = TY_F32, .rank = 2, .axis = {0, 2}};
    p.param[4] = (Param){.name = "i", .dir = DIR_SCALAR, .ty = TY_I64};
    Abi a;
    abi_of(&p, &a);
    assert_true(a.ptr0 == 0 && a.ptr[0] == 0 && a.ptr[3] == 1);
    assert_true(a.row0 == 2 && a.row[0] == 2 && a.row[2] == 3);
    assert_true(a.stride0 == 4 && a.stride[0][0] == 4 && a.stride[0][2] == 6 && a.stride[3][0] == 7 &&
                a.stride[3][1] == 8);
    assert_true(a.scalar0 == 9 && a.scalar[1] == 9 && a.scalar[4] == 10 && a.nslots == 11);
    assert_true(a.ptr[1] == -1 && a.ptr[2] == -1 && a.scalar[2] == -1 && a.scalar[0] == -1 && a.row[1] == -1 &&
                a.stride[3][2] == -1);
    assert_int_equal(sizeof(Slot), 8);
}

static void demand_is_exact_json(void **state) {
    (void)state;
    Cx cx = new_cx();
    Demand d = {
        .known = true, .lane = {.global_read = 0.1, .private_write = 0x1p60}, .lane_rounds = 8, .reductions = 2};
    d.row_ops[COST_SPECIAL] = 4096;
    Buf b = buf_new(cx.a);
    demand_json(&d, &b);
    assert_string_equal(
        b.s,
        "{\"known\":true,\"lane\":{\"global_read\":0.1,\"global_write\":0,\"private_read\":0,"
        "\"private_write\":1.152921504606847e+18},\"row\":{\"global_read\":0,\"global_write\":0,\"private_read\":0,"
        "\"private_write\":0},\"first_read\":0,\"weight_read\":0,\"pack_write\":0,"
        "\"store_bytes\":0,\"lane_rounds\":8,\"lane_packs\":0,\"lane_chain\":0,\"lane_waits\":0,"
        "\"lane_shared\":0,\"lane_alone\":0,\"lane_whole\":0,\"collectives\":0,\"join_levels\":0,\"barriers\":0,"
        "\"lane_ops\":{\"free\":0,\"alu\":0,\"div\":0,\"special\":0,\"convert\":0,\"memory\":0},"
        "\"row_ops\":{\"free\":0,\"alu\":0,\"div\":0,\"special\":4096,\"convert\":0,\"memory\":0},"
        "\"shared_bytes\":0,\"launches\":0,\"live_values\":0,\"stripe_slots\":0,\"stripe_slots_sum\":0,"
        "\"reductions\":2}");
    d.known = false; /* then all is zero, whatever it holds */
    Buf u = buf_new(cx.a), z = buf_new(cx.a);
    demand_json(&d, &u);
    demand_json(&(Demand){0}, &z);
    assert_string_equal(u.s, z.s);
    assert_null(strstr(u.s, "4096"));
    arena_free(cx.a);
}

static void words_are_distinct(void **state) {
    (void)state;
    for (int i = 0; i < ISA_COUNT; i++) {
        Isa isa;
        assert_true(isa_find(isa_text((Isa)i), &isa) && isa == (Isa)i);
    }
    Isa isa;
    assert_false(isa_find("sse", &isa));
    assert_string_equal(kind_text(KIND_HOST), "host");
    assert_string_equal(kind_text(KIND_METAL), "metal");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_are_whole),    cmocka_unit_test(every_field_is_in_the_text),
        cmocka_unit_test(bad_caps_are_refused), cmocka_unit_test(slots_lie_in_order),
        cmocka_unit_test(demand_is_exact_json), cmocka_unit_test(words_are_distinct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
