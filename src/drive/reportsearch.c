/* Searches -> maps of W by holds with refusals marked, and what each candidate's fate was. */
#include "report.h"

#include <string.h>

/* ---- what records hold of searches ---- */
static Heat fate_of(const char *s) {
    return str_eq(s, "timed")     ? HEAT_TIMED
           : str_eq(s, "failed")  ? HEAT_FAILED
           : str_eq(s, "refused") ? HEAT_REFUSED
                                  : HEAT_RANKED;
}

static Try *try_add(Cx *cx, Hunt *h, int *cap) {
    GROW(cx->a, h->t, h->n, *cap);
    return memset(&h->t[h->n++], 0, sizeof *h->t);
}

static void hunt_of_case(Cx *cx, const json_t *c, const char *caps, Hunt *h) {
    static const char *const lists[] = {"trials", "refusals"};
    int cap = 0;
    *h = (Hunt){.name = rec_str(c, "id"),
                .policy = rec_str(json_object_get(c, "request"), "policy"),
                .problem = c,
                .caps = caps};
    for (int k = 0; k < COUNT(lists); k++) {
        const json_t *list = json_object_get(c, lists[k]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *o = json_array_get(list, i);
            Try *t = try_add(cx, h, &cap);
            t->plan = rec_str(o, "plan"), t->slug = rec_str(o, "slug"), t->fate = fate_of(rec_str(o, "fate"));
            t->score = rec_num(o, "score"), t->ns = rec_num(o, "median_ns");
            t->chosen = str_eq(t->plan, rec_str(c, "plan"));
        }
    }
}

/* Trials of a store, youngest first: those of one problem are one search; of a plan tried twice the youngest counts. */
static void hunt_add_trial(Cx *cx, Hunt *h, int *cap, const json_t *o) {
    for (int i = 0; i < h->n; i++)
        if (str_eq(h->t[i].plan, rec_str(o, "plan"))) return;
    Try *t = try_add(cx, h, cap);
    const bool good = str_eq(rec_str(o, "status"), "accepted");
    Slug s;
    t->plan = rec_str(o, "plan"), t->slug = good ? "" : rec_str(o, "status");
    t->fate = good ? HEAT_TIMED : slug_find(t->slug, &s) && slug_err(s) == ERR_REFUSED ? HEAT_REFUSED : HEAT_FAILED;
    t->score = (double)NAN, t->ns = rec_num(o, "median_ns");
    if (good && !isfinite(t->ns)) t->fate = HEAT_RANKED;
}

static Hunt *hunts_of_trials(Cx *cx, const json_t *list, int *n) {
    const size_t most = json_array_size(list);
    Hunt *h = NEWN(cx->a, Hunt, most + 1);
    int *cap = NEWN(cx->a, int, most + 1);
    const char **problem = NEWN(cx->a, const char *, most + 1);
    for (size_t i = 0; i < most; i++) {
        const json_t *o = json_array_get(list, i);
        int at = 0;
        while (at < *n && !str_eq(problem[at], rec_str(o, "problem"))) at++;
        if (at == *n) {
            problem[(*n)++] = rec_str(o, "problem");
            h[at].name = arena_printf(cx->a, "%s %s %s on %s", rec_str(o, "kernel"), rec_str(o, "shape"),
                                      rec_str(o, "types"), rec_str(o, "device"));
            h[at].policy = "";
        }
        hunt_add_trial(cx, &h[at], &cap[at], o);
    }
    return h;
}

const json_t *report_candidates(const json_t *o) {
    const json_t *list = json_object_get(o, "trials");
    if (!json_is_array(list)) list = json_object_get(o, "candidates");
    return json_is_array(list) && (!json_array_size(list) || *rec_str(json_array_get(list, 0), "fate")) ? list : NULL;
}

/* The candidates of one search, as tune and plan print them. */
static Hunt *hunt_of_search(Cx *cx, const json_t *o, const json_t *list) {
    Hunt *h = NEW(cx->a, Hunt);
    int cap = 0;
    h->name = arena_printf(cx->a, "%s %s %s on %s", rec_str(o, "kernel"), rec_str(o, "shape"), rec_str(o, "types"),
                           rec_str(o, "device"));
    h->policy = rec_str(o, "policy");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        Try *t = try_add(cx, h, &cap);
        t->plan = rec_str(one, "plan"), t->slug = rec_str(one, "slug"), t->fate = fate_of(rec_str(one, "fate"));
        t->score = rec_num(json_object_get(one, "score"), "total");
        t->ns = rec_num(json_object_get(one, "times"), "median_ns");
        t->chosen = json_is_true(json_object_get(one, "chosen"));
    }
    return h;
}

Hunt *report_hunts(Cx *cx, const json_t *record, int *n) {
    const json_t *cases = json_object_get(record, "cases"), *trials = json_object_get(record, "trials");
    const char *caps = rec_str(json_object_get(json_object_get(record, "provenance"), "device"), "caps");
    const json_t *candidates = report_candidates(record);
    if (candidates) return *n = 1, hunt_of_search(cx, record, candidates);
    *n = 0;
    if (json_is_array(trials)) return hunts_of_trials(cx, trials, n);
    Hunt *h = NEWN(cx->a, Hunt, json_array_size(cases) + 1);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        hunt_of_case(cx, c, caps, &h[*n]);
        if (h[*n].n) (*n)++;
    }
    return h;
}

/* ---- maps ---- */
enum { MAP_ROWS = 40, MAP_COLUMNS = 40 };
typedef struct Map {
    const char *row[MAP_ROWS], *column[MAP_COLUMNS]; /* holds; W */
    int rows, columns, left_out;
    HeatCell cell[MAP_ROWS * MAP_COLUMNS];
} Map;

/* "W=64" ... -> "64". */
static const char *lanes_of(Cx *cx, const char *plan) {
    const char *at = str_starts(plan, "W=") ? plan : strstr(plan, " W=");
    if (!at) return "?";
    at = strchr(at, '=') + 1;
    return arena_str(cx->a, at, strspn(at, "0123456789"));
}

/* The holds that keep or read again; recomputing is what is left where none is named. */
static const char *holds_of(Cx *cx, const char *plan) {
    Buf b = buf_new(cx->a);
    for (const char *at = plan; (at = strstr(at, "hold.")) != NULL; at++) {
        const size_t n = strcspn(at, " ");
        const char *word = arena_str(cx->a, at + 5, n > 5 ? n - 5 : 0), *eq = strchr(word, '=');
        if (eq && !str_eq(eq + 1, "recompute")) buf_fmt(&b, "%s%s", b.n ? ", " : "", word);
    }
    return b.n ? b.s : "nothing held";
}

static int place(const char **list, int *n, int most, const char *s) {
    for (int i = 0; i < *n; i++)
        if (str_eq(list[i], s)) return i;
    if (*n == most) return -1;
    list[*n] = s;
    return (*n)++;
}

static int by_number(const char *a, const char *b) {
    int64_t x, y;
    return str_i64(a, &x) && str_i64(b, &y) ? (x > y) - (x < y) : strcmp(a, b);
}

static void put_sorted(const char **list, int n, bool numbers) {
    for (int i = 1; i < n; i++) {
        const char *s = list[i];
        int k = i;
        for (; k > 0 && (numbers ? by_number(list[k - 1], s) : strcmp(list[k - 1], s)) > 0; k--) list[k] = list[k - 1];
        list[k] = s;
    }
}

static double fastest(const Hunt *h) {
    double best = INFINITY;
    for (int i = 0; i < h->n; i++)
        if (h->t[i].fate == HEAT_TIMED && h->t[i].ns > 0) best = fmin(best, h->t[i].ns);
    return best;
}

/* Of the plans in a cell the fastest counts; where none was timed, one that could have been; then failed, refused. */
static void map_add(Cx *cx, Map *m, const Try *t, double best) {
    const int r = place(m->row, &m->rows, MAP_ROWS, holds_of(cx, t->plan)),
              c = place(m->column, &m->columns, MAP_COLUMNS, lanes_of(cx, t->plan));
    if (r < 0 || c < 0) {
        m->left_out++;
        return;
    }
    HeatCell *cell = &m->cell[r * m->columns + c];
    const double ratio = t->fate == HEAT_TIMED ? t->ns / best : 0;
    cell->chosen |= t->chosen, cell->refused |= t->fate == HEAT_REFUSED;
    if (t->fate < cell->what ||
        (t->fate == cell->what && !(t->fate == HEAT_TIMED && ratio < cell->ratio) && cell->title))
        return;
    cell->what = t->fate, cell->ratio = ratio;
    cell->title = t->fate == HEAT_TIMED
                      ? arena_printf(cx->a, "%s \xC2\xB5s: %s", us_text(cx, t->ns), t->plan)
                      : arena_printf(cx->a, "%s: %s", *t->slug ? t->slug : "legal, not tried", t->plan);
}

static Map *map_make(Cx *cx, const Hunt *h) {
    Map *m = NEW(cx->a, Map);
    const double best = fastest(h);
    for (int i = 0; i < h->n; i++) { /* names first, so that cells have places */
        place(m->row, &m->rows, MAP_ROWS, holds_of(cx, h->t[i].plan));
        place(m->column, &m->columns, MAP_COLUMNS, lanes_of(cx, h->t[i].plan));
    }
    put_sorted(m->row, m->rows, false);
    put_sorted(m->column, m->columns, true);
    for (int i = 0; i < h->n; i++) map_add(cx, m, &h->t[i], best);
    return m;
}

static const char *cell_text(Cx *cx, const HeatCell *c) {
    static const char *const words[] = {"", "refused", "failed", "not tried", ""};
    return c->what == HEAT_TIMED ? arena_printf(cx->a, "%.2f%s", c->ratio, c->chosen ? " (chosen)" : "")
                                 : words[c->what];
}

static void map_table(Page *p, const Map *m, const char *name) { /* what markdown has in place of the plot */
    Buf titles = buf_new(p->cx->a);
    const int columns = m->columns < GRID_COLUMNS - 1 ? m->columns : GRID_COLUMNS - 1;
    buf_str(&titles, "<holds");
    for (int i = 0; i < columns; i++) buf_fmt(&titles, "|W=%s", m->column[i]);
    grid_begin(p, titles.s, "%s: time of the fastest plan with this W and these holds, over the fastest of all.", name);
    for (int r = 0; r < m->rows; r++) {
        grid_row(p);
        grid_cell(p, 0, "%s", m->row[r]);
        for (int i = 0; i < columns; i++) grid_cell(p, i + 1, "%s", cell_text(p->cx, &m->cell[r * m->columns + i]));
    }
    grid_end(p);
}

static int count(const Hunt *h, Heat fate) {
    int n = 0;
    for (int i = 0; i < h->n; i++) n += h->t[i].fate == fate;
    return n;
}

static void put_map(Page *p, const Hunt *h, bool open) {
    Cx *cx = p->cx;
    if (!count(h, HEAT_TIMED)) return;
    const Map *m = map_make(cx, h);
    page_fold(p, open, "%s: %d timed, %d legal and not tried, %d refused, %d failed; the fastest %s \xC2\xB5s", h->name,
              count(h, HEAT_TIMED), count(h, HEAT_RANKED), count(h, HEAT_REFUSED), count(h, HEAT_FAILED),
              us_text(cx, fastest(h)));
    if (p->md)
        map_table(p, m, h->name);
    else
        heat_draw(
            p, m->row, m->rows, m->column, m->columns, m->cell,
            arena_printf(
                cx->a,
                "%s: a line for each set of holds, a column for each W. Number: the fastest time in the cell over the "
                "fastest of all; the stronger the colour the faster; frame: the plan chosen. \xC3\x97 all refused, "
                "small \xC3\x97 some "
                "refused, "
                "! failed, \xC2\xB7 legal and not tried, blank: not in the space.%s",
                h->name,
                m->left_out
                    ? arena_printf(cx->a, " %d candidate%s had no place in the map.", m->left_out, plural(m->left_out))
                    : ""));
    page_unfold(p);
}

/* ---- refusals ---- */
typedef struct Reason {
    const char *slug;
    Heat fate;
    int n;
} Reason;

static int by_count(const void *x, const void *y) {
    const Reason *a = x, *b = y;
    return a->n != b->n ? b->n - a->n : strcmp(a->slug, b->slug);
}

void report_fates(Page *p, const Hunt *h, int n) {
    enum { MOST = 128 };
    Cx *cx = p->cx;
    Reason *why = NEWN(cx->a, Reason, MOST);
    int reasons = 0, all = 0, lost = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < h[i].n; k++) {
            const Try *t = &h[i].t[k];
            int at = 0;
            all++;
            if (t->fate != HEAT_REFUSED && t->fate != HEAT_FAILED) continue;
            lost++;
            while (at < reasons && !str_eq(why[at].slug, t->slug)) at++;
            if (at == MOST) continue;
            if (at == reasons) why[reasons++] = (Reason){t->slug, t->fate, 0};
            why[at].n++;
        }
    if (!lost) return;
    qsort(why, (size_t)reasons, sizeof *why, by_count);
    page_head(p, 3, "Refusals and failures");
    Strip s;
    strip_begin(&s, p, 0, why[0].n, false,
                "%d of %d candidates of %d searches were refused or failed; the bars are how many for each reason. A "
                "candidate has "
                "one reason, the first that was found; refusals tell of the space that was searched, not of speed.",
                lost, all, n);
    for (int i = 0; i < reasons; i++) {
        strip_line(&s, arena_printf(cx->a, "%s%s", why[i].slug, why[i].fate == HEAT_FAILED ? " (failed)" : ""),
                   arena_printf(cx->a, "%d", why[i].n));
        strip_bar(&s, why[i].n, why[i].fate == HEAT_FAILED);
        strip_line_end(&s);
    }
    strip_end(&s);
    grid_begin(p, "<slug|<fate|candidates|of all, %|<what it means", "Why candidates were not timed.");
    for (int i = 0; i < reasons; i++) {
        Slug slug;
        grid_row(p);
        grid_cell(p, 0, "%s", why[i].slug);
        grid_cell(p, 1, "%s", why[i].fate == HEAT_FAILED ? "failed" : "refused");
        grid_cell(p, 2, "%d", why[i].n);
        grid_cell(p, 3, "%s", percent_text(cx, (double)why[i].n / all));
        grid_cell(p, 4, "%s", slug_find(why[i].slug, &slug) ? slug_why(slug) : "-");
    }
    grid_end(p);
}

void report_searches(Page *p, const Hunt *h, int n, const char *name, const char *what) {
    enum { OPEN = 4 };
    int timed = 0;
    if (!n) return;
    for (int i = 0; i < n; i++) timed += count(&h[i], HEAT_TIMED) > 0;
    page_head(p, 2, "%s: %s", name, what);
    if (timed) {
        page_head(p, 3, "Maps");
        page_para(p, "Other dimensions than W and the holds vary within a cell, whose fastest plan counts. Times are "
                     "single trials "
                     "of a search, taken one after another: nothing is claimed of small differences.");
    }
    for (int i = 0, shown = 0; i < n; i++)
        if (count(&h[i], HEAT_TIMED)) put_map(p, &h[i], shown++ < OPEN);
    if (!timed) page_para(p, "No candidate was timed: the cost policy chose.");
    if (timed) report_policies(p, h, n);
    report_fates(p, h, n);
}
