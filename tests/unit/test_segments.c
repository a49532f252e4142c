/* Reductions over the last of several axes, joined over segments of lanes: the interpreter against the definition, the
 * kern's text, the rules of plans, and what the verifier and the audit say of kerns that are broken. */
#include "../diff/match.h"

#include "../../src/audit/audit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char programs[] =
    "kernel groups for rows (x: in f32[rows, g, k], q: out f32[rows, g, k], scale: out f32[rows, g]) {\n"
    "    z = x * rsqrt(mean(x * x) + 1e-6)\n    a = max(abs(z) over k)\n    scale = maximum(a, 1e-10) / 448\n"
    "    q = z / scale\n}\n"
    "kernel sums for rows (x: in f32[rows, g, k], w: in f32[g], y: out f32[rows, g]) { y = sum(x over k) * w }\n"
    "kernel places for rows (x: in f32[rows, g, k], y: out i64[rows, g]) { y = argmax(x over k) }\n"
    "kernel again for rows (x: in f32[rows, g, k], y: out f32[rows]) { y = sum(max(x over k)) }\n"
    "kernel deep for rows (x: in f32[rows, h, g, k], y: out f32[rows, h], z: out f32[rows, h, g, k]) {\n"
    "    y = sum(x over g, k)\n    z = x - y\n}\n";

static bool made(Match *m, const char *kernel, int64_t k, const char *machine, const char *plan, uint64_t seed) {
    Caps caps;
    assert_true(match_read(m, programs, kernel, NULL, 0));
    assert_true(caps_preset(machine, &caps));
    for (int i = 0; i < m->prog->naxes; i++) {
        char c = m->prog->axis[i].name[0];
        m->shape.n[i] = c == 'r' ? 3 : c == 'g' ? 4 : c == 'h' ? 5 : k;
    }
    return match_prog(m, seed, &caps, plan);
}

static void values_are_the_definitions(void **state) {
    (void)state;
    static const struct {
        const char *kernel;
        int64_t k;
        const char *plan;
    } rows[] = {{"groups", 128, "W=64 V=4 segments=on hold.x=register div=reciprocal"},
                {"groups", 64, "W=32 V=4 P=2 segments=on"},
                {"groups", 32, "W=128 V=4 segments=on hold.z=register acc=2"},
                {"groups", 16, "W=32 V=1 segments=on hold.x=shared"},
                {"groups", 4, "W=1 V=4 P=3 segments=on"},
                {"groups", 128, "W=64 V=4 cluster=2 segments=on hold.x=shared"},
                {"sums", 64, "W=64 V=2 segments=on"},
                {"sums", 8, "W=4 V=2 segments=on"},
                {"deep", 16, "W=96 V=4 segments=on hold.x=register"},
                {"deep", 8, "W=8 V=4 segments=on"}};
    for (int i = 0; i < COUNT(rows); i++)
        for (uint64_t seed = 1; seed < 4; seed++) {
            Match m;
            bool ok = made(&m, rows[i].kernel, rows[i].k, "h200", rows[i].plan, seed) && match_interpret(&m) &&
                      match_sound(&m);
            if (!ok) fail_msg("%s, %s: %s", rows[i].kernel, rows[i].plan, m.why);
            Buf text = buf_new(m.cx.a);
            kern_print(m.kern, &text);
            assert_non_null(strstr(text.s, "meet."));
            match_free(&m);
        }
}

static void plans_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *kernel;
        int64_t k;
        const char *machine, *plan;
        Slug slug;
    } rows[] = {{"groups", 96, "h200", "W=64 V=4 segments=on", S_PLAN_SEGMENTS_SHAPE},  /* 24 lanes */
                {"groups", 256, "h200", "W=64 V=4 segments=on", S_PLAN_SEGMENTS_SHAPE}, /* more than a subgroup */
                {"groups", 128, "h200", "W=16 V=4 segments=on", S_PLAN_SEGMENTS_SHAPE}, /* more than the row's lanes */
                {"groups", 128, "h200", "W=64 V=4 segments=on flight=2", S_PLAN_SEGMENTS_SHAPE},
                {"groups", 2048, "h200", "W=4 V=1 segments=on", S_PLAN_SEGMENTS_SHAPE},
                {"groups", 128, "avx512", "W=64 V=4 segments=on", S_PLAN_MACHINE},
                {"places", 128, "h200", "W=64 V=4 segments=on", S_PLAN_SEGMENTS_UNUSED},
                {"again", 128, "h200", "W=64 V=4 segments=on", S_PLAN_SEGMENTS_APART}};
    for (int i = 0; i < COUNT(rows); i++) {
        Match m;
        assert_false(made(&m, rows[i].kernel, rows[i].k, rows[i].machine, rows[i].plan, 1));
        if (m.cx.first->slug != rows[i].slug) fail_msg("%s: %s", rows[i].plan, m.cx.first->msg);
        match_free(&m);
    }
}

static Ins *nth(Kern *k, KOp op, int n) {
    for (int i = 0; i < k->nins; i++)
        if (k->ins[i].k == op && !n--) return &k->ins[i];
    fail_msg("no such instruction");
    return NULL;
}

static void breaks_are_found(void **state) {
    (void)state;
    for (int i = 0; i < 9; i++) {
        Match m;
        AuditReport report;
        assert_true(made(&m, "groups", 128, "h200", "W=64 V=4 segments=on hold.x=register", 1));
        Kern *k = m.kern;
        Cx cx = {.a = m.cx.a};
        Slug want = S_AUDIT_JOIN;
        switch (i) {
        case 0: nth(k, K_MEET, 0)->lanes = 24, want = S_KERN_INDEX; break;
        case 1: k->cell[nth(k, K_PART, 0)->imm].acc = 1, want = S_KERN_INDEX; break;
        case 2: nth(k, K_STORES, 0)->lanes = 64, want = S_KERN_INDEX; break;
        case 3: nth(k, K_MEET, 0)->rank = RANK_ROW, want = S_KERN_RANK; break;
        case 4: nth(k, K_MEET, 0)->lanes = 16; break;  /* half a segment */
        case 5: nth(k, K_MEET, 0)->op = OP_MIN; break; /* joined by another operator than folded */
        case 6: nth(k, K_SETPART, 1)->a[0] = nth(k, K_SETPART, 0)->a[0]; break; /* another chunk's */
        case 7: nth(k, K_SEG, 0)->lanes = 16, want = S_AUDIT_BOUNDS; break;
        default: nth(k, K_STORES, 0)->lanes = 8, want = S_AUDIT_OWN; break;
        }
        Err err = kern_verify(&cx, k);
        if (!err) err = audit_kern(&cx, m.pb.prog, &m.pb.shape, &m.pb.caps, true, false, m.pb.strided, k, &report);
        assert_int_not_equal(err, OK);
        if (cx.first->slug != want) fail_msg("break %d: %s: %s", i, slug_text(cx.first->slug), cx.first->msg);
        match_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_the_definitions),
                                       cmocka_unit_test(plans_are_refused), cmocka_unit_test(breaks_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
