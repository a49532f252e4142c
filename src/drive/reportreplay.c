/* A replay -> verdicts with their ranges and controls, every paired round as a mark, what differs between the sides. */
#include "report.h"

#include <string.h>

static const json_t *results_of(const json_t *o) {
    return json_object_get(o, "results");
}

static const json_t *result_at(const json_t *o, size_t i, const char *figure) {
    const json_t *r = json_array_get(results_of(o), i);
    return str_eq(rec_str(r, "figure"), figure) ? r : NULL;
}

static bool is_control(const json_t *r) {
    return json_is_true(json_object_get(r, "control"));
}

static const char *ratio_text(Cx *cx, const json_t *r, const char *key) {
    const double x = rec_num(r, key);
    return isfinite(x) ? arena_printf(cx->a, "%.3f", x) : "-";
}

/* Each round's ratio, "-" where the pair is missing. */
static const char *rounds_text(Cx *cx, const json_t *r) {
    const json_t *list = json_object_get(r, "ratios");
    Buf b = buf_new(cx->a);
    buf_str(&b, "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        buf_fmt(&b, i ? " " : "");
        if (json_is_number(x))
            buf_fmt(&b, "%.3f", json_number_value(x));
        else
            buf_str(&b, "-");
    }
    return b.s;
}

static void verdict_row(Page *p, const char *name, const json_t *r) {
    const json_t *b = json_object_get(r, "bootstrap");
    const bool interval = isfinite(rec_num(b, "low"));
    grid_row(p);
    grid_cell(p, 0, "%s", name);
    grid_cell(p, 1, "%s", *rec_str(r, "verdict") ? rec_str(r, "verdict") : "-");
    grid_cell(p, 2, "%s", ratio_text(p->cx, r, "median"));
    grid_cell(p, 3, "%s", ratio_text(p->cx, r, "min"));
    grid_cell(p, 4, "%s", ratio_text(p->cx, r, "max"));
    grid_cell(p, 5, interval ? "%s to %s" : "-", ratio_text(p->cx, b, "low"), ratio_text(p->cx, b, "high"));
    grid_cell(p, 6, "%s", rounds_text(p->cx, r));
}

static void put_verdicts(Page *p, const json_t *o, const char *figure) {
    const double floor_ = rec_num(json_object_get(o, "floors"), figure);
    grid_begin(
        p, "<case|<verdict|median|smallest|largest|<bootstrap 95 %|<ratio of each round",
        "%s: the reference's time over the candidate's, above 1 where the candidate is faster. Floor %s in the "
        "logarithm of the median. A dash is a pair that is missing: there is no number then. The bootstrap interval "
        "describes these rounds, on this machine, on this day, and enters no verdict.",
        figure, isfinite(floor_) ? arena_printf(p->cx->a, "%.4f", floor_) : "-");
    for (size_t i = 0; i < json_array_size(results_of(o)); i++) {
        const json_t *r = result_at(o, i, figure);
        if (r) verdict_row(p, rec_str(r, "case"), r);
    }
    const json_t *all = json_object_get(json_object_get(o, "overall"), figure);
    if (all) verdict_row(p, "all that are no controls (geometric means)", all);
    grid_end(p);
}

static void ratio_line(Strip *s, const char *name, const json_t *r, double floor_) {
    Cx *cx = s->p->cx;
    const json_t *list = json_object_get(r, "ratios");
    const char *median = isfinite(rec_num(r, "median")) ? ratio_text(cx, r, "median") : "no number";
    strip_line(s, name, arena_printf(cx->a, "%s  %s", median, rec_str(r, "verdict")));
    if (isfinite(floor_)) strip_band(s, exp(-floor_), exp(floor_));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        if (json_is_number(x))
            strip_dot(s, json_number_value(x), is_control(r),
                      arena_printf(cx->a, "round %d: %.4f", (int)i + 1, json_number_value(x)));
    }
    strip_mark(s, rec_num(r, "median"));
    strip_line_end(s);
}

/* Round numbers on both sides of parity, of the first set that reaches far enough. */
enum { TICKS = 7 };
static int ratio_ticks(double reach, double *out) {
    static const double sets[][TICKS] = {{0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03}, {0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15},
                                         {0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.4},      {0.4, 0.5, 0.67, 1, 1.5, 2, 2.5},
                                         {0.125, 0.25, 0.5, 1, 2, 4, 8},          {0.001, 0.01, 0.1, 1, 10, 100, 1000}};
    int set = 0, n = 0;
    while (set < COUNT(sets) - 1 && log(sets[set][TICKS - 1]) < 0.6 * reach) set++;
    for (int i = 0; i < TICKS; i++)
        if (fabs(log(sets[set][i])) < reach) out[n++] = sets[set][i];
    return n;
}

static void put_ratios(Page *p, const json_t *o, const char *figure) {
    const double floor_ = rec_num(json_object_get(o, "floors"), figure);
    const json_t *all = json_object_get(json_object_get(o, "overall"), figure);
    double reach = isfinite(floor_) && floor_ > 0.01 ? floor_ : 0.01, ticks[TICKS];
    for (size_t i = 0; i < json_array_size(results_of(o)); i++) {
        const json_t *r = result_at(o, i, figure), *list = json_object_get(r, "ratios");
        for (size_t k = 0; k < json_array_size(list); k++) {
            const double x = json_number_value(json_array_get(list, k));
            if (x > 0 && fabs(log(x)) > reach) reach = fabs(log(x));
        }
    }
    reach *= 1.1;
    const int n = ratio_ticks(reach, ticks);
    Strip s;
    strip_begin(
        &s, p, exp(-reach), exp(reach), true,
        "%s: a dot is the ratio of one paired round, the stroke their median; to the right of 1 the candidate is "
        "faster. Hollow dots are controls: both sides have the same source. Within the grey band, the floor that the "
        "controls give, nothing is claimed, nor where rounds lie on both sides of 1.",
        figure);
    for (size_t i = 0; i < json_array_size(results_of(o)); i++) {
        const json_t *r = result_at(o, i, figure);
        if (r) ratio_line(&s, rec_str(r, "case"), r, floor_);
    }
    if (json_array_size(json_object_get(all, "ratios"))) ratio_line(&s, "all that are no controls", all, floor_);
    strip_axis(&s, ticks, n, "");
    strip_end(&s);
}

/* ---- both sides in time ---- */
typedef struct Side {
    double *v;
    int n;
    double median;
} Side;

static Side side_of(Cx *cx, const json_t *o, const char *id, const char *side, const char *figure) {
    const json_t *list = json_object_get(o, "measurements");
    Side s = {.v = NEWN(cx->a, double, json_array_size(list) + 1)};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        if (!str_eq(rec_str(m, "case"), id) || !str_eq(rec_str(m, "side"), side)) continue;
        const double x = rec_num(rec_figure(m, figure), "median_ns");
        if (isfinite(x)) s.v[s.n++] = x;
    }
    s.median = f64_median(s.v, s.n); /* sorted: ends are the range */
    return s;
}

static void put_sides(Page *p, const json_t *o, const char *figure) {
    static const char *const names[] = {"reference", "candidate"};
    grid_begin(p, "<case|reference, \xC2\xB5s|range|rounds|candidate, \xC2\xB5s|range|rounds",
               "%s in microseconds: median over the rounds of each round's median, [smallest, largest]. Ratios are "
               "made by round, "
               "not from these.",
               figure);
    for (size_t i = 0; i < json_array_size(results_of(o)); i++) {
        const json_t *r = result_at(o, i, figure);
        if (!r) continue;
        grid_row(p);
        grid_cell(p, 0, "%s", rec_str(r, "case"));
        for (int k = 0; k < COUNT(names); k++) {
            const Side s = side_of(p->cx, o, rec_str(r, "case"), names[k], figure);
            grid_cell(p, 1 + 3 * k, "%s", us_text(p->cx, s.median));
            grid_cell(p, 2 + 3 * k, "%s", s.n ? range_text(p->cx, s.v[0], s.v[s.n - 1], 1e3) : "-");
            grid_cell(p, 3 + 3 * k, "%d", s.n);
        }
    }
    grid_end(p);
}

/* Dimensions in which two plans differ, "W 32 -> 64, V 1 -> 4". */
static const char *plans_differ(Cx *cx, const char *a, const char *b) {
    Buf out = buf_new(cx->a);
    buf_str(&out, "");
    while (*b) {
        const size_t n = strcspn(b, " "), name = strcspn(b, "=");
        const char *word = arena_str(cx->a, b, n);
        const char *at = name < n ? strstr(a, arena_str(cx->a, b, name + 1)) : NULL;
        while (at && at != a && at[-1] != ' ') at = strstr(at + 1, arena_str(cx->a, b, name + 1));
        const char *was = at ? arena_str(cx->a, at + name + 1, strcspn(at + name + 1, " ")) : "-";
        if (name < n && !str_eq(was, word + name + 1))
            buf_fmt(&out, "%s%.*s %s \xE2\x86\x92 %s", out.n ? ", " : "", (int)name, b, was, word + name + 1);
        b += n + (b[n] == ' ');
    }
    return out.n ? out.s : "nothing";
}

static void put_plans(Page *p, const json_t *o) {
    const json_t *a = json_object_get(json_object_get(o, "reference"), "cases"),
                 *b = json_object_get(json_object_get(o, "candidate"), "cases");
    grid_begin(p, "<case|<source|<reference \xE2\x86\x92 candidate",
               "What the two sides are: dimensions of the plan that differ. The same source makes a case a control.");
    for (size_t i = 0; i < json_array_size(b); i++) {
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        const bool same =
            str_eq(rec_str(json_object_get(x, "unit"), "sha256"), rec_str(json_object_get(y, "unit"), "sha256"));
        grid_row(p);
        grid_cell(p, 0, "%s", rec_str(y, "id"));
        grid_cell(p, 1, "%s", same ? "the same" : "differs");
        grid_cell(p, 2, "%s", plans_differ(p->cx, rec_str(x, "plan"), rec_str(y, "plan")));
    }
    grid_end(p);
}

/* Peers were measured in every round, before or after the pair. */
static void put_peers(Page *p, const json_t *o, const char *figure) {
    const json_t *list = json_object_get(o, "peers");
    const size_t n = json_array_size(list);
    bool *done = NEWN(p->cx->a, bool, n + 1);
    double *v = NEWN(p->cx->a, double, n + 1);
    if (!n) return;
    grid_begin(p, "<case|<peer|<version|<mode|rounds|median, \xC2\xB5s|range",
               "Peers, %s in microseconds: median over the rounds, [smallest, largest].", figure);
    for (size_t i = 0; i < n; i++) {
        static const char *const same[] = {"case", "peer", "version", "mode"};
        const json_t *one = json_array_get(list, i);
        int m = 0;
        if (done[i]) continue;
        for (size_t k = i; k < n; k++) {
            const json_t *other = json_array_get(list, k);
            bool alike = true;
            for (int f = 0; f < COUNT(same); f++) alike &= str_eq(rec_str(one, same[f]), rec_str(other, same[f]));
            const double x = rec_num(rec_figure(other, figure), "median_ns");
            if (alike) done[k] = true;
            if (alike && isfinite(x)) v[m++] = x;
        }
        const double median = f64_median(v, m);
        grid_row(p);
        for (int f = 0; f < COUNT(same); f++) grid_cell(p, f, "%s", rec_str(one, same[f]));
        grid_cell(p, 4, "%d", m);
        grid_cell(p, 5, "%s", us_text(p->cx, median));
        grid_cell(p, 6, "%s",
                  m                          ? range_text(p->cx, v[0], v[m - 1], 1e3)
                  : *rec_str(one, "missing") ? rec_str(one, "missing")
                                             : "-");
    }
    grid_end(p);
}

static void put_failures(Page *p, const json_t *o) {
    const json_t *list = json_object_get(o, "measurements");
    int failed = 0, bad = 0, changed = 0;
    double checked = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i), *why = json_object_get(m, "failed");
        const json_t *first = json_object_get(m, "first_check"), *last = json_object_get(m, "last_check");
        if (why) {
            failed++;
            page_para(p, "Failed: %s, %s, round %s: %s [%s]", rec_str(m, "case"), rec_str(m, "side"),
                      count_text(p->cx, rec_num(m, "round") + 1), rec_str(why, "why"), rec_str(why, "slug"));
            continue;
        }
        if (isfinite(rec_num(first, "checked"))) checked += rec_num(first, "checked");
        bad += !json_is_true(json_object_get(first, "ok")) || !json_is_true(json_object_get(last, "ok"));
        changed += !json_is_true(json_object_get(m, "inputs_unchanged"));
    }
    page_para(p,
              "%d measurements in %d sitting%s, %d failed. %s output elements were compared with the FP64 definition "
              "after the "
              "first call; %d measurements had elements outside of their bounds, %d had inputs changed.",
              (int)json_array_size(list), (int)json_array_size(json_object_get(o, "sittings")),
              json_array_size(json_object_get(o, "sittings")) == 1 ? "" : "s", failed, count_text(p->cx, checked), bad,
              changed);
}

void report_replay(Page *p, const json_t *o) {
    const json_t *options = json_object_get(o, "options"), *floors = json_object_get(o, "floors");
    const char *primary = rec_str(options, "primary"), *figure;
    json_t *floor_;
    page_para(p, "%s rounds. Catalogs, frozen before the first round: reference %s, candidate %s.",
              count_text(p->cx, rec_num(options, "rounds")), rec_str(json_object_get(o, "reference"), "hash"),
              rec_str(json_object_get(o, "candidate"), "hash"));
    put_failures(p, o);
    put_plans(p, o);
    for (int pass = 0; pass < 2; pass++) /* the primary figure first */
        json_object_foreach((json_t *)(uintptr_t)floors, figure, floor_) {
            if (str_eq(figure, primary) == (pass == 1)) continue;
            page_head(p, 3, "%s%s", figure, pass ? "" : ", the primary figure");
            put_verdicts(p, o, figure);
            put_ratios(p, o, figure);
            put_sides(p, o, figure);
            put_peers(p, o, figure);
        }
}
