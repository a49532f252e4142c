/* What a replay concludes, computed again from the samples of its measurements. */
#include "checks.h"

#include <math.h>
#include <string.h>

typedef struct Ratios { /* of a case and a figure, by round */
    double *r;          /* NAN: missing */
    bool whole, control;
    double median, min, max;
} Ratios;

typedef struct Results {
    Audit *a;
    const json_t *doc;
    CaseInfo *const *c;
    size_t ncases, rounds;
    const json_t **side[2]; /* [side][round * ncases + case]: the measurement, or NULL */
} Results;

static void find_measurements(Results *s) {
    size_t i;
    json_t *m;
    for (int k = 0; k < 2; k++) s->side[k] = mem_array(s->a->m, s->rounds * s->ncases + 1, sizeof *s->side[k]);
    json_array_foreach(at(s->doc, "measurements"), i, m) {
        const int64_t r = int_at_key(m, "round", -1);
        const bool candidate = same_text(text_at(m, "side"), "candidate");
        for (size_t c = 0; c < s->ncases; c++) {
            if (r < 0 || r >= (int64_t)s->rounds || !same_text(s->c[c]->id, text_at(m, "case"))) continue;
            s->side[candidate][(size_t)r * s->ncases + c] = m;
        }
    }
}

static Ratios ratios_of(const Results *s, size_t c, const char *figure) {
    Ratios x = {.r = mem_array(s->a->m, s->rounds + 1, sizeof(double)),
                .whole = s->rounds > 0,
                .control = true,
                .min = (double)INFINITY};
    bool any = false;
    for (size_t r = 0; r < s->rounds; r++) {
        const json_t *ref = s->side[0][r * s->ncases + c], *cand = s->side[1][r * s->ncases + c];
        x.r[r] = figure_median(s->a, ref, figure) / figure_median(s->a, cand, figure);
        x.whole &= isfinite(x.r[r]) && x.r[r] > 0;
        x.min = fmin(x.min, x.r[r]);
        x.max = fmax(x.max, x.r[r]);
        if (!ref || !cand || at(ref, "failed") || at(cand, "failed")) continue;
        any = true;
        x.control &= same_text(text_at(ref, "unit_sha256"), text_at(cand, "unit_sha256"));
    }
    x.control &= any;
    x.median = x.whole ? median_of(s->a->m, x.r, s->rounds) : (double)NAN;
    return x;
}

static const char *verdict_of(const Ratios *x, double floor, size_t rounds) {
    bool above = true, below = true;
    if (!x->whole) return "incomplete";
    for (size_t r = 0; r < rounds; r++) {
        above &= x->r[r] > 1;
        below &= x->r[r] < 1;
    }
    const double l = log(x->median);
    return above && l > floor ? "better" : below && l < -floor ? "worse" : "not resolved";
}

static bool list_is(const json_t *j, const double *x, size_t n) {
    if (json_array_size(j) != n) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(j, i);
        if (isfinite(x[i]) ? !json_is_number(v) || !near(json_number_value(v), x[i]) : !json_is_null(v)) return false;
    }
    return true;
}

/* Median, smallest and largest: numbers, or null where a pair is missing. */
static bool middle_is(const json_t *j, const Ratios *x) {
    if (!x->whole) return is_null(j, "median") && is_null(j, "min") && is_null(j, "max");
    return near(real_at(j, "median"), x->median) && near(real_at(j, "min"), x->min) && near(real_at(j, "max"), x->max);
}

static void result_check(const Results *s, const json_t *j, const Ratios *x, double floor, const char *place) {
    Audit *a = s->a;
    const json_t *options = at(at(s->doc, "options"), "bootstrap"), *b = at(j, "bootstrap");
    check(a, list_is(at(j, "ratios"), x->r, s->rounds), "ratios", place, "ratios are not those of the measurements");
    check(a, middle_is(j, x), "ratios", place,
          "median, min or max are not those of the ratios: median %.17g, %.17g here", real_at(j, "median"), x->median);
    check(a, at(j, "control") && flag_at(j, "control") == x->control, "controls", place, "%s",
          x->control ? "both sides ran one source, and it is no control" : "a control whose sides ran two sources");
    const char *v = x->control && x->whole ? "control" : verdict_of(x, floor, s->rounds);
    check(a, same_text(text_at(j, "verdict"), v), "verdict", place, "it is `%.40s`, and `%s` by ratios and floor",
          text_at(j, "verdict"), v);
    if (!x->whole) {
        check(a, is_null(j, "bootstrap"), "interval", place, "an interval of a pair that is missing");
        return;
    }
    const int64_t resamples = int_at_key(options, "resamples", 0);
    double low, high;
    if (resamples < 1 || resamples > 1000000 || real_at(options, "percent") != 95) {
        unknown(a, "interval", place, "options.bootstrap is not one that this auditor computes");
        return;
    }
    bootstrap(a->m, x->r, s->rounds, (uint64_t)int_at_key(options, "seed", 0), resamples, 95, &low, &high);
    check(a, near(real_at(b, "low"), low) && near(real_at(b, "high"), high), "interval", place,
          "%.17g to %.17g, and %.17g to %.17g by its seed", real_at(b, "low"), real_at(b, "high"), low, high);
}

static const json_t *result_find(const Results *s, const char *id, const char *figure, size_t *times) {
    const json_t *found = NULL;
    size_t i;
    json_t *j;
    *times = 0;
    json_array_foreach(at(s->doc, "results"), i, j) {
        if (!same_text(text_at(j, "case"), id) || !same_text(text_at(j, "figure"), figure)) continue;
        ++*times;
        found = j;
    }
    return found;
}

static void overall_check(const Results *s, const char *figure, const Ratios *x, double floor) {
    Audit *a = s->a;
    const json_t *j = at(at(s->doc, "overall"), figure);
    const char *place = mem_fmt(a->m, "overall %.60s", figure);
    Ratios all = {.r = mem_array(a->m, s->rounds + 1, sizeof(double)), .whole = true, .min = (double)INFINITY};
    int64_t cases = 0;
    for (size_t c = 0; c < s->ncases; c++) {
        if (!x[c].r || x[c].control) continue; /* without this figure's regime, or a control */
        cases++;
        all.whole &= x[c].whole;
        for (size_t r = 0; r < s->rounds; r++) all.r[r] += log(x[c].r[r]);
    }
    for (size_t r = 0; r < s->rounds; r++) {
        all.r[r] = cases ? exp(all.r[r] / (double)cases) : (double)NAN;
        all.min = fmin(all.min, all.r[r]);
        all.max = fmax(all.max, all.r[r]);
    }
    all.median = median_of(a->m, all.r, s->rounds);
    check(a, int_at_key(j, "cases", -1) == cases, "overall", place, "it is over %lld cases, and %lld are no controls",
          (long long)int_at_key(j, "cases", -1), (long long)cases);
    if (!cases) {
        check(a, same_text(text_at(j, "verdict"), "none") && is_null(j, "median"), "overall", place,
              "a gain over no case");
        return;
    }
    check(a, middle_is(j, &all), "overall", place, "median %.17g, and %.17g by the cases", real_at(j, "median"),
          all.median);
    if (all.whole)
        check(a, list_is(at(j, "ratios"), all.r, s->rounds), "overall", place,
              "ratios are not the geometric means of the cases'");
    check(a, same_text(text_at(j, "verdict"), verdict_of(&all, floor, s->rounds)), "overall", place,
          "its verdict is `%.40s`, and `%s` by ratios and floor", text_at(j, "verdict"),
          verdict_of(&all, floor, s->rounds));
}

static void figure_results(const Results *s, const char *figure) {
    Audit *a = s->a;
    Ratios *x = mem_array(a->m, s->ncases + 1, sizeof *x);
    double floor = real_at(at(s->doc, "options"), "least_floor");
    size_t controls = 0;
    check(a, floor == 0.01, "floor", figure, "least_floor is %.17g", floor);
    for (size_t c = 0; c < s->ncases; c++) {
        size_t times;
        if (!result_find(s, s->c[c]->id, figure, &times)) continue;
        x[c] = ratios_of(s, c, figure);
        controls += x[c].control;
        if (x[c].control && x[c].whole) floor = fmax(floor, fabs(log(x[c].median)));
    }
    if (!controls) unknown(a, "controls", figure, "no pair of one source: the floor rests on least_floor alone");
    check(a, near(real_at(at(s->doc, "floors"), figure), floor), "floor", figure,
          "%.17g in the record, and %.17g by its controls", real_at(at(s->doc, "floors"), figure), floor);
    for (size_t c = 0; c < s->ncases; c++) {
        size_t times;
        const char *place = mem_fmt(a->m, "%.80s %.60s", s->c[c]->id, figure);
        const json_t *j = result_find(s, s->c[c]->id, figure, &times);
        if (j || times) check(a, times == 1, "coverage", place, "%zu results", times);
        if (j) result_check(s, j, &x[c], floor, place);
    }
    overall_check(s, figure, x, floor);
}

void results_check(Audit *a, const json_t *doc, CaseInfo *const *ref, size_t ncases) {
    const json_t *options = at(doc, "options"), *figures = at(options, "figures");
    Results s = {.a = a, .doc = doc, .c = ref, .ncases = ncases};
    const int64_t rounds = int_at_key(options, "rounds", 0);
    if (rounds < 1 || rounds > 10000 || !ncases) return;
    s.rounds = (size_t)rounds;
    find_measurements(&s);
    size_t i, expected = 0;
    json_t *name;
    json_array_foreach((json_t *)figures, i, name) {
        const char *figure = json_string_value(name);
        if (!figure) continue;
        figure_results(&s, figure);
        for (size_t c = 0; c < ncases; c++) {
            const json_t *m = NULL;
            for (size_t r = 0; r < s.rounds && !m; r++) m = s.side[0][r * ncases + c];
            bool is_measured = false;
            size_t k;
            json_t *f;
            json_array_foreach(at(m, "figures"), k, f) {
                is_measured |= same_text(text_at(f, "name"), figure);
            }
            size_t times;
            result_find(&s, ref[c]->id, figure, &times);
            if (is_measured)
                check(a, times == 1, "coverage", mem_fmt(a->m, "%.80s %.60s", ref[c]->id, figure),
                      "it was measured and has %zu results", times);
            expected += times;
        }
    }
    check(a, expected == count_at(doc, "results"), "coverage", "results",
          "%zu of %zu are of the record's cases and figures", expected, count_at(doc, "results"));
    check(a,
          json_object_size(at(doc, "overall")) == json_array_size(figures) &&
              json_object_size(at(doc, "floors")) == json_array_size(figures),
          "coverage", "overall", "not one for each figure");
}
