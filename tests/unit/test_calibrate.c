/* The fit of a policy's coefficients finds those that made the times, leaves alone what the samples say nothing about,
 * and a calibration is read by the device, the version and the policy that it is of, or refused. */
#include "../../src/drive/drive.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 60 };

/* Launches that differ in what binds them: bytes, arithmetic, special functions, rounds. */
static void draw(FitSample *s, const Caps *caps) {
    uint64_t x = 7;
    for (int i = 0; i < SAMPLES; i++) {
        double u[4];
        for (int k = 0; k < 4; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            u[k] = pow(10, 4 * (double)(x >> 40) / (1 << 24));
        }
        s[i] = (FitSample){.launch = {.rows = 1000, .lanes = 64, .subgroup = 16, .rows_per_group = 1}, .caps = caps};
        Demand *d = &s[i].demand;
        *d = (Demand){.known = true, .launches = 1, .lane_rounds = 10, .collectives = 1, .barriers = 1};
        d->row.global_read = d->first_read = 64 * u[0], d->row.global_write = 64 * u[0];
        d->host.work = 4 * u[1], d->host.special = 4 * u[2], d->host.sweeps = 1;
    }
}

static void test_fit(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    const CostPolicy *p;
    FitSample s[SAMPLES];
    Caps caps;
    double truth[MAX_COEFS], start[MAX_COEFS];
    Score score;
    Fit fit;
    assert_int_equal(cost_find(&cx, "roofline", &p), OK);
    assert_true(caps_preset("avx512", &caps));
    draw(s, &caps);
    assert_int_equal(cost_coefs(&cx, p, &caps, "alu=1.5,special=0.2,copy=0.5,cached=2", truth), OK);
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(cost_score(&cx, p, &s[i].demand, &caps, &s[i].launch, truth, &score), OK);
        s[i].ns = score.total * 1e9;
    }
    cost_nominal(p, &caps, start);
    assert_int_equal(cost_fit(&cx, p, s, SAMPLES, start, 0, &fit), OK);
    assert_true(fit.after < fit.before / 10);
    for (int i = 0; i < p->ncoefs; i++) {
        const char *name = p->coef[i].name;
        const bool asked = str_eq(name, "alu") || str_eq(name, "special");
        if (asked) assert_true(fabs(log(fit.coef[i] / truth[i])) < 0.2);
        if (str_eq(name, "div") || str_eq(name, "convert"))
            assert_true(fit.coef[i] == start[i]);                 /* no sample has any of it */
        if (str_eq(name, "fetch")) assert_true(fit.coef[i] == 0); /* what is 0 stays out */
        assert_true(fit.coef[i] >= 0 && isfinite(fit.coef[i]));
    }
    /* of problems counts how their launches compare: times that are all off by a factor of the problem's own, and one
     * launch in each that nothing explains, tell the same */
    for (int i = 0; i < SAMPLES; i++) {
        s[i].problem = 1 + i / 10;
        s[i].ns *= i / 10 % 2 ? 1.5 : 0.7;
        if (i % 10 == 3) s[i].ns *= 5;
    }
    assert_int_equal(cost_fit(&cx, p, s, SAMPLES, start, 0, &fit), OK);
    for (int i = 0; i < p->ncoefs; i++)
        if (str_eq(p->coef[i].name, "special")) assert_true(fabs(log(fit.coef[i] / truth[i])) < 0.7);
    /* what is over a hundred times off is no rate of the machine and stays where it was; many such, and no rate is */
    uint64_t held = calibration_far(p, start, &fit);
    assert_true(held == 0);
    for (int i = 0; i < p->ncoefs; i++) /* dividers of 512 bits, on an Emerald Rapids that others worked on too */
        if (str_eq(p->coef[i].name, "div")) fit.coef[i] = 0.135;
    assert_true(calibration_far(p, start, &fit) == 0);
    fit.coef[1] = start[1] * 150;
    assert_true(calibration_far(p, start, &fit) == 2);
    for (int i = 0; i < SAMPLES; i++) s[i].problem = 0, s[i].ns *= 1e4;
    assert_int_equal(calibration_fit(&cx, p, s, SAMPLES, start, &fit, &held), OK);
    assert_true(held != 0 && calibration_far(p, start, &fit) == 0);
    for (int i = 0; i < p->ncoefs; i++) assert_true(!(held >> i & 1) || fit.coef[i] == start[i]);
    assert_int_equal(calibration_plausible(&cx, p, 2), OK);
    assert_int_equal(calibration_plausible(&cx, p, ~(uint64_t)0 >> (64 - p->ncoefs)), ERR_REFUSED);
    assert_string_equal(slug_text(cx.first->slug), "cost.calibration_implausible");
    assert_non_null(strstr(cx.first->msg, " copy "));
    s[3].ns = 0;
    assert_int_equal(cost_fit(&cx, p, s, SAMPLES, start, 0, &fit), ERR_ARGUMENT);
    assert_int_equal(cost_fit(&cx, p, s, 0, start, 0, &fit), ERR_ARGUMENT);
    arena_free(cx.a);
}

/* ---- reading ---- */

static char *text_of(json_t *o) {
    char hex[65];
    json_object_del(o, "hash");
    char *bare = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17));
    sha256_hex(bare, strlen(bare), hex);
    free(bare);
    json_object_set_new(o, "hash", json_string(hex));
    return json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17));
}

static json_t *genuine(const CostPolicy *p) {
    json_t *list = json_array();
    for (int i = 0; i < p->ncoefs; i++)
        json_array_append_new(list, json_pack("{s:s,s:f}", "name", p->coef[i].name, "value", 2.0 + i));
    return json_pack("{s:s,s:s,s:s,s:s,s:o}", "format", "rowfold-calibration-1", "rowfold", ROWFOLD_VERSION_TEXT,
                     "device", "a machine", "policy", "roofline", "coefficients", list);
}

static Err read(Cx *cx, const char *text, size_t n, double *coef) {
    const CostPolicy *p;
    char hash[65];
    *cx = (Cx){.a = cx->a};
    return calibration_read(cx, text, n, "a machine", &p, coef, hash);
}

static void refused(Cx *cx, json_t *o, const char *slug) { /* takes o */
    double coef[MAX_COEFS];
    char *text = text_of(o);
    assert_int_not_equal(read(cx, text, strlen(text), coef), OK);
    assert_string_equal(slug_text(cx->first->slug), slug);
    free(text);
    json_decref(o);
}

static void test_read(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    const CostPolicy *p;
    double coef[MAX_COEFS];
    assert_int_equal(cost_find(&cx, "roofline", &p), OK);
    json_t *o = genuine(p);
    char *text = text_of(o);
    json_decref(o);
    assert_int_equal(read(&cx, text, strlen(text), coef), OK);
    for (int i = 0; i < p->ncoefs; i++) assert_true(coef[i] == 2.0 + i);
    for (size_t n = 0; n < strlen(text); n += 7) assert_int_not_equal(read(&cx, text, n, coef), OK); /* cut */
    strstr(text, "a machine")[0] = 'b';
    assert_int_not_equal(read(&cx, text, strlen(text), coef), OK);
    free(text);
    o = genuine(p), json_object_set_new(o, "device", json_string("another machine"));
    refused(&cx, o, "cost.calibration_foreign");
    o = genuine(p), json_object_set_new(o, "rowfold", json_string("0.0.0"));
    refused(&cx, o, "cost.calibration_stale");
    o = genuine(p), json_array_remove(json_object_get(o, "coefficients"), 0);
    refused(&cx, o, "cost.calibration_unreadable");
    o = genuine(p),
    json_object_set_new(json_array_get(json_object_get(o, "coefficients"), 1), "name", json_string("x"));
    refused(&cx, o, "cost.calibration_unreadable");
    o = genuine(p), json_object_set_new(o, "policy", json_string("none"));
    refused(&cx, o, "cost.unknown_policy");
    o = genuine(p), text = text_of(o); /* altered, the hash left as it was */
    strstr(text, "\"value\":2")[8] = '9';
    assert_int_not_equal(read(&cx, text, strlen(text), coef), OK);
    assert_string_equal(slug_text(cx.first->slug), "cost.calibration_unreadable");
    free(text);
    json_decref(o);
    arena_free(cx.a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
