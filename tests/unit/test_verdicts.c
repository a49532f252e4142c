/* What a replay may say of its ratios, by hand-made ones: better, worse, not resolved, control; no number where a pair
 * is missing; the gain over all by its own rule; an interval that decides nothing. */
#include "../../src/drive/evidence.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 4, MOST = 4 };
static const char figure[] = "device.batch.resident";

/* A case by the ratios of its rounds, 0 where one side of the pair failed; a control has the same source twice. */
typedef struct Given {
    const char *id;
    bool control;
    double ratio[ROUNDS];
} Given;

static json_t *catalog(const Given *c, int n, const char *side) {
    json_t *cases = json_array();
    for (int i = 0; i < n; i++) {
        json_t *unit = json_pack("{s:s}", "sha256", c[i].control ? "same" : side);
        json_array_append_new(cases, json_pack("{s:s,s:[s],s:o}", "id", c[i].id, "regimes", "resident", "unit", unit));
    }
    return json_pack("{s:o}", "cases", cases);
}

/* A record as it stands before results are made of it: the reference takes 1000 ns, times the ratio. */
static json_t *judged(const Given *c, int n) {
    Cx cx = {.a = arena_new(NULL, NULL)};
    json_t *all = json_array();
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < n; i++)
            for (int s = 0; s < 2; s++) {
                json_t *m =
                    json_pack("{s:i,s:s,s:s}", "round", r, "case", c[i].id, "side", s ? "candidate" : "reference");
                if (c[i].ratio[r] > 0 || s == r % 2) { /* of a missing pair either side is there, in turn */
                    const double ns = s || c[i].ratio[r] <= 0 ? 1000 : 1000 * c[i].ratio[r];
                    json_object_set_new(m, "figures", json_pack("[{s:s,s:f}]", "name", figure, "median_ns", ns));
                }
                json_array_append_new(all, m);
            }
    json_t *options = json_pack("{s:[s],s:i,s:f,s:{s:i,s:i,s:i}}", "figures", figure, "rounds", ROUNDS, "least_floor",
                                0.01, "bootstrap", "resamples", 200, "seed", 1, "percent", 95);
    json_t *root = json_pack("{s:o,s:o,s:o,s:o}", "reference", catalog(c, n, "a"), "candidate", catalog(c, n, "b"),
                             "options", options, "measurements", all);
    assert_non_null(root);
    results_make(&cx, root);
    arena_free(cx.a);
    return root;
}

static const json_t *result(const json_t *root, int i) {
    return json_array_get(json_object_get(root, "results"), (size_t)i);
}

static const json_t *over_all(const json_t *root) {
    return json_object_get(json_object_get(root, "overall"), figure);
}

static void says(const json_t *r, const char *verdict, double median) {
    assert_string_equal(json_string_value(json_object_get(r, "verdict")), verdict);
    if (isnan(median))
        for (int i = 0; i < 3; i++)
            assert_true(json_is_null(json_object_get(r, ((const char *[]){"median", "min", "max"})[i])));
    else
        assert_true(fabs(json_number_value(json_object_get(r, "median")) - median) < 1e-12);
}

static void test_better_worse(void **state) {
    (void)state;
    const Given c[] = {{"gains", false, {1.02, 1.3, 1.2, 1.1}},    /* every pair above 1, the median beyond the floor */
                       {"loses", false, {0.98, 0.7, 0.8, 0.9}},    /* the same below */
                       {"one_against", false, {1.3, 1.3, 1.3, 1}}, /* a pair at 1 disagrees, whatever the median */
                       {"one_other", false, {0.7, 0.7, 0.7, 1.001}}};
    json_t *root = judged(c, COUNT(c));
    says(result(root, 0), "better", 1.15);
    says(result(root, 1), "worse", 0.85);
    says(result(root, 2), "not resolved", 1.3);
    says(result(root, 3), "not resolved", 0.7);
    assert_true(json_number_value(json_object_get(result(root, 0), "min")) == 1.02);
    assert_true(json_number_value(json_object_get(result(root, 0), "max")) == 1.3);
    json_decref(root);
}

static void test_floor(void **state) { /* what is within the noise of the controls is no gain, and no loss */
    (void)state;
    const Given alone[] = {{"a", false, {1.02, 1.02, 1.02, 1.02}}, {"b", false, {1.005, 1.005, 1.005, 1.005}}};
    json_t *root = judged(alone, 2);
    says(result(root, 0), "better", 1.02);
    says(result(root, 1), "not resolved", 1.005); /* the least floor, where there is no control */
    json_decref(root);
    const Given noisy[] = {{"a", false, {1.02, 1.02, 1.02, 1.02}},
                           {"b", false, {0.98, 0.98, 0.98, 0.98}},
                           {"c", false, {0.9, 0.9, 0.9, 0.9}},
                           {"same", true, {0.95, 0.95, 0.95, 0.95}}}; /* a floor of 0.0513, to both sides */
    root = judged(noisy, 4);
    says(result(root, 0), "not resolved", 1.02);
    says(result(root, 1), "not resolved", 0.98);
    says(result(root, 2), "worse", 0.9);
    says(result(root, 3), "control", 0.95); /* and no verdict of its own */
    assert_true(fabs(json_number_value(json_object_get(json_object_get(root, "floors"), figure)) + log(0.95)) < 1e-12);
    json_decref(root);
}

static void test_missing(void **state) { /* the pairs that are there make no number */
    (void)state;
    const Given c[] = {{"whole", false, {1.2, 1.2, 1.2, 1.2}},
                       {"first", false, {0, 1.2, 1.2, 1.2}},
                       {"last", false, {1.2, 1.2, 1.2, 0}}};
    json_t *root = judged(c, 3);
    says(result(root, 0), "better", 1.2);
    for (int i = 1; i < 3; i++) {
        says(result(root, i), "incomplete", NAN);
        assert_true(json_is_null(json_object_get(result(root, i), "bootstrap")));
        for (int r = 0; r < ROUNDS; r++)
            assert_true(json_is_null(json_array_get(json_object_get(result(root, i), "ratios"), (size_t)r)) ==
                        (c[i].ratio[r] <= 0));
    }
    says(over_all(root), "incomplete", NAN); /* nor is there a gain over the rest */
    json_decref(root);
    const Given control[] = {{"whole", false, {1.2, 1.2, 1.2, 1.2}}, {"same", true, {1, 1, 0, 1}}};
    root = judged(control, 2); /* controls are no part of it */
    says(result(root, 1), "incomplete", NAN);
    says(over_all(root), "better", 1.2);
    json_decref(root);
}

static void test_over_all(void **state) { /* round by round the geometric mean of what is no control */
    (void)state;
    const Given c[] = {{"a", false, {2, 2, 2, 8}}, {"b", false, {0.5, 0.5, 2, 0.5}}, {"same", true, {1.01, 1, 1, 1}}};
    json_t *root = judged(c, 3);
    const json_t *all = over_all(root), *ratios = json_object_get(all, "ratios");
    static const double want[ROUNDS] = {1, 1, 2, 2};
    for (int r = 0; r < ROUNDS; r++)
        assert_true(fabs(json_number_value(json_array_get(ratios, (size_t)r)) - want[r]) < 1e-12);
    assert_int_equal(json_integer_value(json_object_get(all, "cases")), 2);
    says(all, "not resolved", 1.5); /* not the mean of the cases' medians, which is 1; and two rounds disagree */
    json_decref(root);
    const Given mixed[] = {{"a", false, {1.5, 1.5, 1.5, 1.5}}, {"b", false, {0.9, 0.9, 0.9, 0.9}}};
    root = judged(mixed, 2);
    says(result(root, 1), "worse", 0.9);
    says(over_all(root), "better", sqrt(1.5 * 0.9)); /* beside what every case says */
    json_decref(root);
    const Given same[] = {{"same", true, {1.1, 1.1, 1.1, 1.1}}};
    root = judged(same, 1);
    says(over_all(root), "none", NAN);
    json_decref(root);
}

static void test_interval(void **state) { /* within the rounds, around their median, and no part of a verdict */
    (void)state;
    const Given c[] = {{"flat", false, {1.1, 1.1, 1.1, 1.1}},
                       {"wide", false, {1.02, 1.3, 1.2, 1.1}},
                       {"through", false, {0.999, 1.3, 1.3, 1.3}}};
    json_t *root = judged(c, 3);
    double low[3], high[3];
    for (int i = 0; i < 3; i++) {
        const json_t *b = json_object_get(result(root, i), "bootstrap");
        low[i] = json_number_value(json_object_get(b, "low")), high[i] = json_number_value(json_object_get(b, "high"));
    }
    assert_true(fabs(low[0] - 1.1) < 1e-12 && fabs(high[0] - 1.1) < 1e-12);
    assert_true(1.02 <= low[1] && low[1] < 1.15 && 1.15 < high[1] && high[1] <= 1.3);
    says(result(root, 2), "not resolved", 1.3);
    assert_true(high[2] > 1.01);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_better_worse), cmocka_unit_test(test_floor),    cmocka_unit_test(test_missing),
        cmocka_unit_test(test_over_all),     cmocka_unit_test(test_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
