/* A bench -> its times beside peers and ceilings, shares of the speed of light, the roofline, set-up and checks. */
#include "report.h"

#include <string.h>

static const struct {
    const char *name, *title;
} figures[] = {{"device.batch.resident", "device batch"},    {"device.batch.cold", "device batch cold"},
               {"device.single.resident", "device single"},  {"device.single.cold", "device single cold"},
               {"end_to_end.batch.resident", "e2e batch"},   {"end_to_end.batch.cold", "e2e batch cold"},
               {"end_to_end.single.resident", "e2e single"}, {"end_to_end.single.cold", "e2e single cold"}};
static const char *const regimes[] = {"resident", "cold"};

static void times_row(Page *p, int number, const char *name, const json_t *m) {
    Cx *cx = p->cx;
    grid_row(p);
    grid_cell(p, 0, "%s", number ? count_text(cx, number) : "");
    grid_cell(p, 1, "%s", name);
    for (int i = 0; i < COUNT(figures); i++) {
        const json_t *f = rec_figure(m, figures[i].name);
        grid_cell(p, 2 + i, f ? "%s %s" : "-", us_text(cx, rec_num(f, "median_ns")),
                  range_text(cx, rec_num(f, "min_ns"), rec_num(f, "max_ns"), 1e3));
    }
}

static const char *peer_name(Cx *cx, const json_t *peer) {
    const json_t *check = json_object_get(peer, "check");
    return arena_printf(cx->a, "\xE2\x86\xB3 %s %s %s%s", rec_str(peer, "peer"), rec_str(peer, "version"),
                        rec_str(peer, "mode"),
                        !check                                       ? " (not checked)"
                        : json_is_true(json_object_get(check, "ok")) ? ""
                                                                     : " (WRONG)");
}

static void put_times(Page *p, const json_t *cases) {
    size_t i, k;
    const json_t *c, *peer;
    Buf titles = buf_new(p->cx->a);
    buf_str(&titles, "#|<case");
    for (int f = 0; f < COUNT(figures); f++) buf_fmt(&titles, "|%s, \xC2\xB5s", figures[f].title);
    grid_begin(
        p, titles.s,
        "Times of a call in microseconds: median [smallest, largest] of the samples. Each figure, then the same "
        "figure cold. Figures stand beside each other and are not to be subtracted. Peers stand below their case.");
    json_array_foreach(cases, i, c) {
        const json_t *peers = json_object_get(c, "peers");
        times_row(p, (int)i + 1, rec_str(c, "id"), json_object_get(c, "measurement"));
        json_array_foreach(peers, k, peer) {
            if (!json_object_get(peer, "missing")) times_row(p, 0, peer_name(p->cx, peer), peer);
        }
    }
    grid_end(p);
}

/* Whether a case before this one, or a peer before this one of the same case, was missed for the same reason. */
static bool missed_before(const json_t *cases, size_t case_, size_t peer) {
    const json_t *one = json_array_get(json_object_get(json_array_get(cases, case_), "peers"), peer);
    for (size_t i = 0; i <= case_; i++) {
        const json_t *peers = json_object_get(json_array_get(cases, i), "peers");
        for (size_t k = 0; k < (i == case_ ? peer : json_array_size(peers)); k++) {
            const json_t *other = json_array_get(peers, k);
            if (str_eq(rec_str(other, "peer"), rec_str(one, "peer")) &&
                str_eq(rec_str(other, "missing"), rec_str(one, "missing")))
                return true;
        }
    }
    return false;
}

/* What is not in the table, and why: a peer that is missing is one line, for however many cases. */
static void put_missing(Page *p, const json_t *cases) {
    size_t i, k;
    const json_t *c, *peer;
    json_array_foreach(cases, i, c) {
        const json_t *failed = json_object_get(c, "failed");
        if (failed)
            page_para(p, "Failed: %s, %s [%s]", rec_str(c, "id"), rec_str(failed, "why"), rec_str(failed, "slug"));
        json_array_foreach(json_object_get(c, "peers"), k, peer) {
            if (json_object_get(peer, "missing") && !missed_before(cases, i, k))
                page_para(p, "Peer %s is missing: %s", rec_str(peer, "peer"), rec_str(peer, "missing"));
        }
    }
}

static double share_of(const json_t *m, const char *regime) {
    char name[40];
    snprintf(name, sizeof name, "device.batch.%s", regime);
    return rec_num(json_object_get(m, "speed_of_light_ns"), regime) / rec_num(rec_figure(m, name), "median_ns");
}

static void put_light(Page *p, const json_t *cases) {
    size_t i;
    const json_t *c;
    static const double ticks[] = {0, 25, 50, 75, 100};
    Strip s;
    double most = 100;
    json_array_foreach(cases, i, c) {
        for (int r = 0; r < COUNT(regimes); r++) {
            const double share = 100 * share_of(json_object_get(c, "measurement"), regimes[r]);
            if (share > most) most = share;
        }
    }
    page_head(p, 3, "Share of the speed of light");
    strip_begin(
        &s, p, 0, most, false,
        "Time that the measured ceilings allow over the time of device batch, in percent, a bar for each regime; the "
        "stroke is 100 %%. A longer bar is closer to the ceiling. Small shapes live in caches, at whose speed the "
        "copy of the same size ran too; no claim is made about sizes that were not measured.");
    json_array_foreach(cases, i, c) {
        const json_t *m = json_object_get(c, "measurement");
        for (int r = 0; r < COUNT(regimes); r++) {
            const double share = share_of(m, regimes[r]);
            if (!isfinite(share)) continue;
            strip_line(&s, arena_printf(p->cx->a, "%d  %s, %s", (int)i + 1, rec_str(c, "id"), regimes[r]),
                       arena_printf(p->cx->a, "%s %%", percent_text(p->cx, share)));
            strip_bar(&s, 100 * share, r);
            strip_mark(&s, 100);
            strip_line_end(&s);
        }
    }
    strip_axis(&s, ticks, COUNT(ticks), " %");
    strip_end(&s);
    grid_begin(p,
               "#|<case|<regime|read, bytes|written, bytes|speed of light, \xC2\xB5s|device batch, \xC2\xB5s|share, %",
               "The shares in numbers. Bytes are the least traffic of a call.");
    json_array_foreach(cases, i, c) {
        const json_t *m = json_object_get(c, "measurement"), *bytes = json_object_get(c, "bytes");
        for (int r = 0; r < COUNT(regimes) && m; r++) {
            const double light = rec_num(json_object_get(m, "speed_of_light_ns"), regimes[r]);
            grid_row(p);
            grid_cell(p, 0, "%d", (int)i + 1);
            grid_cell(p, 1, "%s", rec_str(c, "id"));
            grid_cell(p, 2, "%s", regimes[r]);
            grid_cell(p, 3, "%s", count_text(p->cx, rec_num(bytes, "read")));
            grid_cell(p, 4, "%s", count_text(p->cx, rec_num(bytes, "write")));
            grid_cell(p, 5, "%s", us_text(p->cx, light));
            grid_cell(p, 6, "%s", us_text(p->cx, light / share_of(m, regimes[r])));
            grid_cell(p, 7, "%s", percent_text(p->cx, share_of(m, regimes[r])));
        }
    }
    grid_end(p);
}

/* Bytes a nanosecond. */
static double ceiling_of(const json_t *m, const char *kind, const char *regime) {
    const json_t *list = json_object_get(m, "ceilings");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        if (str_eq(rec_str(o, "kind"), kind) && str_eq(rec_str(o, "regime"), regime))
            return rec_num(o, "bytes") / rec_num(o, "median_ns");
    }
    return (double)NAN;
}

static void put_each_ceiling(Page *p, int number, const json_t *c) {
    size_t i;
    const json_t *o;
    json_array_foreach(json_object_get(json_object_get(c, "measurement"), "ceilings"), i, o) {
        grid_row(p);
        grid_cell(p, 0, "%d", number);
        grid_cell(p, 1, "%s", rec_str(c, "id"));
        grid_cell(p, 2, "%s", rec_str(o, "kind"));
        grid_cell(p, 3, "%s", rec_str(o, "regime"));
        grid_cell(p, 4, "%s", count_text(p->cx, rec_num(o, "bytes")));
        grid_cell(p, 5, "%s", us_text(p->cx, rec_num(o, "median_ns")));
        grid_cell(p, 6, "%s", num_text(p->cx, rec_num(o, "bytes") / rec_num(o, "median_ns")));
        grid_cell(p, 7, "%s", rec_str(o, "how"));
    }
}

static void put_ceilings(Page *p, const json_t *cases) {
    static const char *const kinds[] = {"copy", "read", "write"};
    size_t i;
    const json_t *c;
    grid_begin(p, "#|<case|copy, GB/s|read, GB/s|write, GB/s|copy cold, GB/s|read cold, GB/s|write cold, GB/s",
               "Ceilings, measured in the process that measured the case, at the bytes that its calls move.");
    json_array_foreach(cases, i, c) {
        const json_t *m = json_object_get(c, "measurement");
        if (!m) continue;
        grid_row(p);
        grid_cell(p, 0, "%d", (int)i + 1);
        grid_cell(p, 1, "%s", rec_str(c, "id"));
        for (int k = 0; k < 2 * COUNT(kinds); k++)
            grid_cell(p, 2 + k, "%s",
                      num_text(p->cx, ceiling_of(m, kinds[k % COUNT(kinds)], regimes[k / COUNT(kinds)])));
    }
    grid_end(p);
    page_fold(p, false, "Each ceiling, and how it was reached");
    grid_begin(p, "#|<case|<kind|<regime|moved, bytes|median, \xC2\xB5s|GB/s|<the fastest",
               "The fastest of several ways to move as many bytes.");
    json_array_foreach(cases, i, c) {
        put_each_ceiling(p, (int)i + 1, c);
    }
    grid_end(p);
    page_unfold(p);
}

/* ---- roofline ---- */
typedef struct Point {            /* of a case in a regime; NaN: none */
    double intensity, gops, roof; /* operations a byte, 1e9 operations a second, bytes a nanosecond */
} Point;

static Point point_of(const json_t *c, const char *regime) {
    const json_t *demand = json_object_get(c, "demand"), *ops = json_object_get(demand, "row_ops"),
                 *row = json_object_get(demand, "row"), *m = json_object_get(c, "measurement"),
                 *scores = json_object_get(c, "scores");
    const double rows = rec_num(json_object_get(json_array_get(scores, 0), "launch"), "rows");
    const double each = rec_num(ops, "alu") + rec_num(ops, "div") + rec_num(ops, "special") + rec_num(ops, "convert");
    const double bytes = rec_num(row, "global_read") + rec_num(row, "global_write");
    char name[40];
    snprintf(name, sizeof name, "device.batch.%s", regime);
    Point at = {each / bytes, each * rows / rec_num(rec_figure(m, name), "median_ns"), (double)NAN};
    at.roof = ceiling_of(m, "copy", regime);
    if (!(at.intensity > 0) || !(at.gops > 0) || !isfinite(at.intensity) || !isfinite(at.gops)) at.gops = (double)NAN;
    return at;
}

static void put_roofline(Page *p, const json_t *cases) {
    size_t i;
    const json_t *c;
    page_head(p, 3, "Roofline");
    charts_begin(
        p, "Demand against time: operations that a row's plan asks for a byte that it asks of memory, and operations "
           "done in a second of device batch; a point a case, by its number in the tables. The lines are memory at the "
           "speed of the fastest and of the slowest copy of these cases. A point below its line is slower than memory "
           "of that speed allows. No roof of arithmetic is drawn, since none was measured; bytes are demanded bytes, "
           "which caches may serve.");
    for (int r = 0; r < COUNT(regimes); r++) {
        double x0 = INFINITY, x1 = 0, y0 = INFINITY, y1 = 0, fast = 0, slow = INFINITY;
        json_array_foreach(cases, i, c) {
            const Point at = point_of(c, regimes[r]);
            if (!isfinite(at.gops)) continue;
            x0 = fmin(x0, at.intensity), x1 = fmax(x1, at.intensity), y0 = fmin(y0, at.gops), y1 = fmax(y1, at.gops);
            if (at.roof > 0 && isfinite(at.roof)) fast = fmax(fast, at.roof), slow = fmin(slow, at.roof);
        }
        if (!(x1 > 0)) continue;
        Chart ch;
        x0 /= 2, x1 *= 2, y0 = fmin(y0, slow * x0 * 2) / 2, y1 = fmax(y1, fast * x1 / 2) * 2;
        chart_begin(&ch, p, x0, x1, y0, y1, regimes[r], "operations a byte demanded",
                    "10\xE2\x81\xB9 operations a second");
        if (fast > 0) chart_line(&ch, x0, fast * x0, x1, fast * x1, "r");
        if (slow < fast) chart_line(&ch, x0, slow * x0, x1, slow * x1, "d");
        json_array_foreach(cases, i, c) {
            const Point at = point_of(c, regimes[r]);
            chart_dot(&ch, at.intensity, at.gops, arena_printf(p->cx->a, "%d", (int)i + 1), rec_str(c, "id"));
        }
        chart_end(&ch);
    }
    charts_end(p);
    grid_begin(p,
               "#|<case|read a row, bytes|written a row, bytes|private a row, bytes|rounds of a lane|operations a "
               "byte|resident, 10^9 op/s|cold, 10^9 op/s",
               "Demand of the plan that was measured, counted from the plan applied, and the points of the roofline.");
    json_array_foreach(cases, i, c) {
        const json_t *demand = json_object_get(c, "demand"), *row = json_object_get(demand, "row");
        if (!demand) continue;
        const Point at[] = {point_of(c, regimes[0]), point_of(c, regimes[1])};
        grid_row(p);
        grid_cell(p, 0, "%d", (int)i + 1);
        grid_cell(p, 1, "%s", rec_str(c, "id"));
        grid_cell(p, 2, "%s", count_text(p->cx, rec_num(row, "global_read")));
        grid_cell(p, 3, "%s", count_text(p->cx, rec_num(row, "global_write")));
        grid_cell(p, 4, "%s", count_text(p->cx, rec_num(row, "private_read") + rec_num(row, "private_write")));
        grid_cell(p, 5, "%s", count_text(p->cx, rec_num(demand, "lane_rounds")));
        grid_cell(p, 6, "%s", num_text(p->cx, at[0].intensity));
        grid_cell(p, 7, "%s", num_text(p->cx, at[0].gops));
        grid_cell(p, 8, "%s", num_text(p->cx, at[1].gops));
    }
    grid_end(p);
}

static void put_setup(Page *p, const json_t *cases) {
    size_t i;
    const json_t *c;
    static const char *const parts[] = {"plan_ns", "lower_ns", "emit_ns", "compile_ns", "load_ns", "first_call_ns"};
    page_head(p, 3, "Set-up and checks");
    grid_begin(p,
               "#|<case|choose, s|plan, \xC2\xB5s|lower, \xC2\xB5s|emit, \xC2\xB5s|compile, \xC2\xB5s|load, "
               "\xC2\xB5s|first call, \xC2\xB5s",
               "What comes before the first timed call, once. choose: the search for the plan.");
    json_array_foreach(cases, i, c) {
        const json_t *s = json_object_get(json_object_get(c, "measurement"), "setup");
        if (!s) continue;
        grid_row(p);
        grid_cell(p, 0, "%d", (int)i + 1);
        grid_cell(p, 1, "%s", rec_str(c, "id"));
        grid_cell(p, 2, "%s", num_text(p->cx, rec_num(c, "choose_s")));
        for (int k = 0; k < COUNT(parts); k++) grid_cell(p, 3 + k, "%s", us_text(p->cx, rec_num(s, parts[k])));
    }
    grid_end(p);
    grid_begin(
        p,
        "#|<case|elements|outside first|outside last|largest error, % of its bound|<inputs unchanged|<warm-up "
        "settled",
        "Every output element compared with the FP64 definition, after the first call on poisoned memory and after the "
        "timed calls.");
    json_array_foreach(cases, i, c) {
        const json_t *m = json_object_get(c, "measurement"), *first = json_object_get(m, "first_check"),
                     *last = json_object_get(m, "last_check");
        if (!m) continue;
        grid_row(p);
        grid_cell(p, 0, "%d", (int)i + 1);
        grid_cell(p, 1, "%s", rec_str(c, "id"));
        grid_cell(p, 2, "%s", count_text(p->cx, rec_num(first, "checked")));
        grid_cell(p, 3, "%s", count_text(p->cx, rec_num(first, "bad")));
        grid_cell(p, 4, "%s", count_text(p->cx, rec_num(last, "bad")));
        grid_cell(p, 5, "%s", percent_text(p->cx, rec_num(first, "worst_error_share")));
        grid_cell(p, 6, "%s", json_is_true(json_object_get(m, "inputs_unchanged")) ? "yes" : "NO");
        grid_cell(p, 7, "%s", json_is_true(json_object_get(json_object_get(m, "warmup"), "settled")) ? "yes" : "no");
    }
    grid_end(p);
}

static void put_plans(Page *p, const json_t *cases) {
    size_t i;
    const json_t *c;
    page_fold(p, false, "The plan of each case");
    grid_begin(p, "#|<case|<plan", "The plans that were chosen and measured; docs/plan.md explains the dimensions.");
    json_array_foreach(cases, i, c) {
        if (!json_object_get(c, "measurement")) continue;
        grid_row(p);
        grid_cell(p, 0, "%d", (int)i + 1);
        grid_cell(p, 1, "%s", rec_str(c, "id"));
        grid_cell(p, 2, "%s", rec_str(c, "plan"));
    }
    grid_end(p);
    page_unfold(p);
}

void report_bench(Page *p, const json_t *bench) {
    const json_t *cases = json_object_get(bench, "cases");
    if (!json_is_true(json_object_get(bench, "complete"))) page_para(p, "This bench was stopped before its last case.");
    page_head(p, 3, "Times");
    put_times(p, cases);
    put_missing(p, cases);
    put_light(p, cases);
    put_ceilings(p, cases);
    put_roofline(p, cases);
    put_setup(p, cases);
    put_plans(p, cases);
}
