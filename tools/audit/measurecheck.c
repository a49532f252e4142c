/* One measurement: what was built, checked and timed. */
#include "checks.h"

#include <math.h>
#include <string.h>

static const int64_t most_sets = 65536; /* small ones are not rotated over more */

typedef struct FigureName {
    bool device, batch, cold;
} FigureName;

static bool figure_name(const char *s, FigureName *f) {
    static const char *const spans[] = {"end_to_end.", "device."}, *const modes[] = {"single.", "batch."};
    int span = 0, mode = 0;
    while (span < 2 && strncmp(s, spans[span], strlen(spans[span])) != 0) span++;
    if (span == 2) return false;
    s += strlen(spans[span]);
    while (mode < 2 && strncmp(s, modes[mode], strlen(modes[mode])) != 0) mode++;
    if (mode == 2) return false;
    s += strlen(modes[mode]);
    *f = (FigureName){span == 1, mode == 1, same_text(s, "cold")};
    return f->cold || same_text(s, "resident");
}

bool figure_known(const char *name) {
    FigureName f;
    return name && figure_name(name, &f);
}

/* ns a call of each sample; the count. */
static size_t sample_times(Audit *a, const json_t *f, double **out) {
    const json_t *list = at(f, "samples_total_ns");
    const size_t n = json_array_size(list);
    const double calls = (double)int_at_key(f, "calls", 0);
    *out = mem_array(a->m, n + 1, sizeof **out);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(list, i);
        (*out)[i] = json_is_integer(s) && calls > 0 ? (double)json_integer_value(s) / calls : (double)NAN;
    }
    return n;
}

static const json_t *figure_find(const json_t *x, const char *name) {
    size_t i;
    json_t *f;
    json_array_foreach(at(x, "figures"), i, f) {
        if (same_text(text_at(f, "name"), name)) return f;
    }
    return NULL;
}

double figure_median(Audit *a, const json_t *x, const char *figure) {
    double *t;
    const json_t *f = figure_find(x, figure);
    const size_t n = f ? sample_times(a, f, &t) : 0;
    if (!n) return (double)NAN;
    for (size_t i = 0; i < n; i++)
        if (!(t[i] > 0)) return (double)NAN;
    return median_of(a->m, t, n);
}

static void figure_check(Audit *a, const json_t *f, const json_t *options, const json_t *rotation, const char *place) {
    const char *name = text_at(f, "name"), *here = mem_fmt(a->m, "%s %.60s", place, name);
    FigureName is = {false, false, false};
    double *t, lo = (double)INFINITY, hi = 0;
    const size_t n = sample_times(a, f, &t);
    bool positive = n > 0;
    if (!check(a, figure_name(name, &is), "regime", here, "no figure has this name")) return;
    for (size_t i = 0; i < n; i++) {
        positive &= t[i] > 0;
        lo = fmin(lo, t[i]);
        hi = fmax(hi, t[i]);
    }
    if (!check(a, positive, "samples", here, "a sample is missing or not above 0")) return;
    check(a, near(real_at(f, "median_ns"), median_of(a->m, t, n)), "samples", here,
          "median_ns is %.17g, that of the samples %.17g", real_at(f, "median_ns"), median_of(a->m, t, n));
    check(a, near(real_at(f, "min_ns"), lo) && near(real_at(f, "max_ns"), hi), "samples", here,
          "min_ns or max_ns are not those of the samples");
    const int64_t want = int_at_key(options, "samples", -1), calls = int_at_key(f, "calls", 0),
                  sets = int_at_key(f, "sets", 0);
    check(a, (int64_t)n == want, "coverage", here, "%zu samples of %lld", n, (long long)want);
    check(a, is.batch ? calls >= 1 : calls == 1, "regime", here, "%lld calls in a sample", (long long)calls);
    check(a, is.cold ? sets == int_at_key(rotation, "sets", sets) && sets >= 1 : sets == 1, "regime", here,
          "it rotates over %lld sets", (long long)sets);
    const json_t *first = at(f, "first_set");
    bool inside = !json_is_array(first) || json_array_size(first) == n;
    for (size_t i = 0; i < json_array_size(first); i++) {
        const json_t *s = json_array_get(first, i);
        inside &= json_is_integer(s) && json_integer_value(s) >= 0 && json_integer_value(s) < sets;
    }
    check(a, inside, "regime", here, "first_set names sets that are not there");
    check(a, *text_at(f, "clock"), "regime", here, "it does not say how it was taken");
}

void figures_check(Audit *a, const json_t *x, const json_t *options, const char *place) {
    const json_t *names = at(options, "figures"), *list = at(x, "figures");
    size_t i, k;
    json_t *f;
    json_array_foreach((json_t *)list, i, f) {
        figure_check(a, f, options, at(x, "rotation"), place);
        bool asked = !names, twice = false;
        for (k = 0; k < json_array_size(names); k++) {
            const char *s = json_string_value(json_array_get(names, k));
            asked |= s && same_text(s, text_at(f, "name"));
        }
        for (k = 0; k < i; k++) {
            const json_t *g = json_array_get(list, k);
            twice |= same_json(at(f, "samples_total_ns"), at(g, "samples_total_ns")) &&
                     json_array_size(at(f, "samples_total_ns")) > 2;
        }
        check(a, asked, "coverage", place, "figure %.60s was not asked for", text_at(f, "name"));
        check(a, !twice, "fresh", place, "figure %.60s has the samples of another", text_at(f, "name"));
    }
}

/* Figures that are asked for, in the regimes of the case. */
static void coverage(Audit *a, const json_t *x, const CaseInfo *c, const json_t *options, const char *place) {
    size_t i, k;
    json_t *name, *regime;
    json_array_foreach(at(options, "figures"), i, name) {
        const char *s = json_string_value(name);
        FigureName is;
        if (!s || !figure_name(s, &is)) continue;
        bool wanted = !c || !json_is_array(at(c->j, "regimes"));
        if (c) {
            json_array_foreach(at(c->j, "regimes"), k, regime) {
                const char *r = json_string_value(regime);
                wanted |= r && same_text(r, is.cold ? "cold" : "resident");
            }
        }
        if (wanted) check(a, figure_find(x, s) != NULL, "coverage", place, "figure %.60s is missing", s);
    }
}

static void verdict_check(Audit *a, const json_t *v, const CaseInfo *c, const char *what, const char *place) {
    int64_t elements = 0;
    for (int o = 0; c && c->p && o < c->p->nouts; o++) {
        const PParam *q = &c->p->param[c->p->out_param[o]];
        int64_t n = 1;
        for (int d = 0; d < q->rank; d++) n *= c->p->n[q->axis[d]];
        elements += n;
    }
    const double share = real_at(v, "worst_error_share");
    check(a, flag_at(v, "ok") && int_at_key(v, "bad", -1) == 0 && share >= 0 && share <= 1, "checks", place,
          "%s: not ok, or an error beyond its bound", what);
    if (c && c->p)
        check(a, int_at_key(v, "checked", -1) == elements, "checks", place, "%s: %lld elements of %lld", what,
              (long long)int_at_key(v, "checked", -1), (long long)elements);
}

static double ceiling_ns(const json_t *x, const char *kind, const char *regime, double *bytes) { /* NAN: not there */
    size_t i;
    json_t *c;
    json_array_foreach(at(x, "ceilings"), i, c) {
        if (!same_text(text_at(c, "kind"), kind) || !same_text(text_at(c, "regime"), regime)) continue;
        *bytes = real_at(c, "bytes");
        return real_at(c, "median_ns");
    }
    return (double)NAN;
}

/* docs/records.md: what a copy of the bytes that are both read and written takes, and the rest at the rate of reads or
 * writes. The bytes are the least: each tensor once, an inout one twice. */
static void light_check(Audit *a, const json_t *x, const CaseInfo *c, const char *place) {
    static const char *const regimes[] = {"resident", "cold"};
    double r = 0, w = 0;
    for (int i = 0; c && c->p && i < c->p->nparams; i++) {
        const PParam *q = &c->p->param[i];
        double bytes = type_fact(q->ty)->bytes;
        for (int d = 0; d < q->rank; d++) bytes *= (double)c->p->n[q->axis[d]];
        if (q->way == W_IN || q->way == W_INOUT) r += bytes;
        if (q->way == W_OUT || q->way == W_INOUT) w += bytes;
    }
    for (int k = 0; k < 2; k++) {
        const json_t *light = at(at(x, "speed_of_light_ns"), regimes[k]);
        double bytes = r + w;
        const double copy = ceiling_ns(x, "copy", regimes[k], &bytes);
        const double rest = ceiling_ns(x, r > w ? "read" : "write", regimes[k], &bytes);
        if (!light) continue;
        check(a, bytes == r + w || !c || !c->p, "ceilings", place, "%s ceilings move %.17g bytes, the case %.17g",
              regimes[k], bytes, r + w);
        const double own = (copy * 2 * fmin(r, w) + (r == w ? 0 : rest * fabs(r - w))) / (r + w);
        if (r + w > 0)
            check(a, near(real_of_json(light), own), "ceilings", place,
                  "speed_of_light_ns.%s is %.17g, and %.17g by the ceilings", regimes[k], real_of_json(light), own);
    }
}

static void ceilings_check(Audit *a, const json_t *x, const CaseInfo *c, const char *place) {
    size_t i;
    json_t *k;
    json_array_foreach(at(x, "ceilings"), i, k) {
        const char *kind = text_at(k, "kind"), *regime = text_at(k, "regime");
        const bool known = (same_text(kind, "copy") || same_text(kind, "read") || same_text(kind, "write")) &&
                           (same_text(regime, "cold") || same_text(regime, "resident"));
        check(a,
              known && real_at(k, "bytes") > 0 && real_at(k, "median_ns") > 0 && int_at_key(k, "samples", 0) >= 1 &&
                  *text_at(k, "how"),
              "ceilings", place, "ceiling %zu has no kind, regime, bytes, time, samples or way", i);
    }
    light_check(a, x, c, place);
}

void measurement_check(Audit *a, const json_t *x, const CaseInfo *c, const json_t *options, Outputs *seen,
                       const char *place) {
    const json_t *build = at(x, "build"), *rotation = at(x, "rotation"), *setup = at(x, "setup");
    if (c && c->plan_text)
        check(a, same_text(text_at(x, "plan"), c->plan_text), "frozen", place,
              "the plan that ran is not the frozen one");
    if (c) {
        check(a, same_text(text_at(x, "kern_sha256"), c->kern_sha), "frozen", place,
              "the kern that ran is not the frozen one");
        check(a, same_text(text_at(x, "unit_sha256"), c->unit_sha), "frozen", place,
              "the source that ran is not the frozen one");
    }
    check(a, json_is_false(at(build, "from_cache")), "fresh", place, "it was not compiled anew");
    check(a, flag_at(at(x, "process"), "worker"), "fresh", place, "it was no process of its own");
    check(a, real_at(setup, "compile_ns") > 0 && real_at(setup, "first_call_ns") > 0, "fresh", place,
          "set-up has no compile or first call");
    if (int_at_key(build, "local_bytes", -1) > 0)
        unknown(a, "checks", place, "%lld bytes of local memory: kept on purpose or spilt, the record does not say",
                (long long)int_at_key(build, "local_bytes", -1));
    check(a, int_at_key(x, "poison", -1) == 165, "checks", place, "outputs were not poisoned with 165");
    verdict_check(a, at(x, "first_check"), c, "first_check", place);
    verdict_check(a, at(x, "last_check"), c, "last_check", place);
    check(a, flag_at(x, "inputs_unchanged"), "checks", place, "inputs were not kept");
    const int64_t sets = int_at_key(rotation, "sets", -1), each = int_at_key(rotation, "bytes_of_set", -1),
                  all = int_at_key(rotation, "bytes", -1);
    int64_t product;
    check(a,
          sets >= 0 && each >= 0 && mul_ok(sets, each, INT64_MAX, &product) && product == all &&
              (!sets || sets == most_sets || all >= int_at_key(options, "rotate_bytes", 0)),
          "regime", place, "%lld sets of %lld bytes are not %lld, or too few", (long long)sets, (long long)each,
          (long long)all);
    figures_check(a, x, options, place);
    coverage(a, x, c, options, place);
    ceilings_check(a, x, c, place);
    if (c && c->p) outputs_check(a, x, c, options, seen, place);
}
