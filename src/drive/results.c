/* Measurements of a replay -> ratios of pairs, verdicts by the floor that the controls give, gain over all. The rules
 * are those of docs/records.md. */
#include "evidence.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

typedef struct Pairs { /* of one case and figure, or of all */
    int rounds;
    double *ratio; /* NaN: missing */
    bool control;
    double median, min, max, low, high;
} Pairs;

static bool complete(const Pairs *p) {
    for (int i = 0; i < p->rounds; i++)
        if (isnan(p->ratio[i])) return false;
    return p->rounds > 0;
}

static void summarise(Cx *cx, Pairs *p) {
    double *v = arena_dup(cx->a, p->ratio, sizeof *v * (size_t)p->rounds);
    p->median = f64_median(v, p->rounds);
    p->min = v[0], p->max = v[p->rounds - 1];
}

/* Percentile interval of the median of rounds drawn with replacement. */
static void bootstrap(Cx *cx, Pairs *p, const json_t *o) {
    const int n = (int)json_integer_value(json_object_get(o, "resamples"));
    Rng r = {(uint64_t)json_integer_value(json_object_get(o, "seed"))};
    double *medians = NEWN(cx->a, double, n), *draw = NEWN(cx->a, double, p->rounds);
    for (int b = 0; b < n; b++) {
        for (int i = 0; i < p->rounds; i++) draw[i] = p->ratio[rng_u64(&r) % (uint64_t)p->rounds];
        medians[b] = f64_median(draw, p->rounds);
    }
    f64_sort(medians, n);
    p->low = medians[(int)floor(0.025 * n)];
    p->high = medians[(int)ceil(0.975 * n) - 1];
}

static const char *verdict(const Pairs *p, double floor_) {
    if (p->min > 1 && log(p->median) > floor_) return "better";
    if (p->max < 1 && log(p->median) < -floor_) return "worse";
    return "not resolved";
}

static void put_pairs(json_t *o, const Pairs *p, bool whole) {
    json_t *ratios = record_member(o, "ratios", json_array());
    for (int i = 0; i < p->rounds; i++)
        json_array_append_new(ratios, isnan(p->ratio[i]) ? json_null() : json_real(p->ratio[i]));
    json_object_set_new(o, "median", whole ? json_real(p->median) : json_null());
    json_object_set_new(o, "min", whole ? json_real(p->min) : json_null());
    json_object_set_new(o, "max", whole ? json_real(p->max) : json_null());
}

/* ---- from the record ---- */

/* The median time of a figure in a measurement; NaN where there is none. */
static double time_of(const json_t *m, const char *figure) {
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(m, "figures"), i, f) {
        const char *name = json_string_value(json_object_get(f, "name"));
        if (name && str_eq(name, figure)) return json_number_value(json_object_get(f, "median_ns"));
    }
    return (double)NAN;
}

static Pairs pairs_of(Cx *cx, const json_t *root, const char *id, const char *figure, int rounds) {
    double *time[2];
    for (int s = 0; s < 2; s++) {
        time[s] = NEWN(cx->a, double, rounds);
        for (int r = 0; r < rounds; r++) time[s][r] = (double)NAN;
    }
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(root, "measurements"), i, m) {
        const json_int_t r = json_integer_value(json_object_get(m, "round"));
        const char *c = json_string_value(json_object_get(m, "case")),
                   *side = json_string_value(json_object_get(m, "side"));
        if (c && side && str_eq(c, id) && r >= 0 && r < rounds) time[str_eq(side, "candidate")][r] = time_of(m, figure);
    }
    Pairs p = {.rounds = rounds, .ratio = time[0]};
    for (int r = 0; r < rounds; r++) p.ratio[r] = time[0][r] / time[1][r];
    return p;
}

static const char *unit_of(const json_t *root, const char *side, size_t i) {
    const json_t *c = json_array_get(json_object_get(json_object_get(root, side), "cases"), i);
    return json_string_value(json_object_get(json_object_get(c, "unit"), "sha256"));
}

static bool has_regime(const json_t *cse, const char *figure) {
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(cse, "regimes"), i, r) {
        const char *s = json_string_value(r), *end = strrchr(figure, '.');
        if (s && end && str_eq(s, end + 1)) return true;
    }
    return false;
}

/* The gain over all: round by round the geometric mean of what changed. */
static void overall(Cx *cx, const Pairs *p, int n, int rounds, double floor_, json_t *o) {
    Pairs all = {.rounds = rounds, .ratio = NEWN(cx->a, double, rounds)};
    int changed = 0;
    for (int c = 0; c < n; c++) {
        if (p[c].control || !p[c].rounds) continue;
        changed++;
        for (int r = 0; r < rounds; r++) all.ratio[r] += log(p[c].ratio[r]);
    }
    for (int r = 0; r < rounds; r++) all.ratio[r] = changed ? exp(all.ratio[r] / changed) : (double)NAN;
    const bool whole = changed && complete(&all);
    if (whole) summarise(cx, &all);
    put_pairs(o, &all, whole);
    json_object_set_new(o, "cases", json_integer(changed));
    json_object_set_new(o, "verdict", json_string(whole ? verdict(&all, floor_) : changed ? "incomplete" : "none"));
}

static void figure_results(Cx *cx, json_t *root, const char *figure, json_t *results) {
    const json_t *options = json_object_get(root, "options"),
                 *cases = json_object_get(json_object_get(root, "reference"), "cases");
    const int n = (int)json_array_size(cases), rounds = (int)json_integer_value(json_object_get(options, "rounds"));
    Pairs *p = NEWN(cx->a, Pairs, n);
    double floor_ = json_number_value(json_object_get(options, "least_floor"));
    for (int c = 0; c < n; c++) {
        const json_t *cse = json_array_get(cases, (size_t)c);
        if (!has_regime(cse, figure)) continue; /* rounds stay 0 */
        const char *a = unit_of(root, "reference", (size_t)c), *b = unit_of(root, "candidate", (size_t)c);
        p[c] = pairs_of(cx, root, json_string_value(json_object_get(cse, "id")), figure, rounds);
        p[c].control = a && b && str_eq(a, b);
        if (!complete(&p[c])) continue;
        summarise(cx, &p[c]);
        bootstrap(cx, &p[c], json_object_get(options, "bootstrap"));
        if (p[c].control) floor_ = fmax(floor_, fabs(log(p[c].median)));
    }
    json_object_set_new(json_object_get(root, "floors"), figure, json_real(floor_));
    for (int c = 0; c < n; c++) {
        if (!p[c].rounds) continue;
        const bool whole = complete(&p[c]);
        json_t *o = record_element(results, json_pack("{s:O,s:s,s:b,s:s}", "case",
                                                      json_object_get(json_array_get(cases, (size_t)c), "id"), "figure",
                                                      figure, "control", p[c].control, "verdict",
                                                      !whole         ? "incomplete"
                                                      : p[c].control ? "control"
                                                                     : verdict(&p[c], floor_)));
        put_pairs(o, &p[c], whole);
        json_object_set_new(o, "bootstrap",
                            whole ? json_pack("{s:f,s:f}", "low", p[c].low, "high", p[c].high) : json_null());
    }
    overall(cx, p, n, rounds, floor_, record_member(json_object_get(root, "overall"), figure, json_object()));
}

void results_make(Cx *cx, json_t *root) {
    json_t *results = record_member(root, "results", json_array());
    const json_t *figures = json_object_get(json_object_get(root, "options"), "figures");
    json_object_set_new(root, "floors", json_object());
    json_object_set_new(root, "overall", json_object());
    for (size_t i = 0; i < json_array_size(figures); i++)
        figure_results(cx, root, json_string_value(json_array_get(figures, i)), results);
}
