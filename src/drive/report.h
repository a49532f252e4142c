/* What the files of a report share: the page (HTML or markdown), its tables and plots, and what is read from records.
 * Everything that came from a record is text of a stranger: page_esc is the only way in. */
#ifndef ROWFOLD_REPORT_H
#define ROWFOLD_REPORT_H

#include "evidence.h"

#include <jansson.h>
#include <math.h>

/* ---- reportpage.c ---- */
enum { GRID_COLUMNS = 24 };
typedef struct Page {
    Cx *cx;
    bool md;         /* markdown: no plots, whose figures stand in tables */
    Buf b, contents; /* contents: a link to each part */
    size_t contents_at;
    int parts, tables, plots, columns;
    bool left[GRID_COLUMNS];
} Page;

void page_begin(Page *p, const char *title);
void page_end(Page *p);
void page_esc(Page *p, const char *s);                                 /* anything, as text */
void page_head(Page *p, int level, const char *fmt, ...) PRINTF(3, 4); /* 2, a part of the page; 3 */
void page_para(Page *p, const char *fmt, ...) PRINTF(2, 3);
void page_term(Page *p, const char *term, const char *meaning); /* between page_list and page_list_end */
void page_list(Page *p);
void page_list_end(Page *p);
void page_fold(Page *p, bool open, const char *fmt, ...) PRINTF(3, 4); /* what can be folded away, to page_unfold */
void page_unfold(Page *p);
/* A table: titles between '|', with '<' before those whose cells are texts; numbers stand to the right. */
void grid_begin(Page *p, const char *titles, const char *caption, ...) PRINTF(3, 4);
void grid_row(Page *p);
void grid_cell(Page *p, int column, const char *fmt, ...) PRINTF(3, 4); /* in order; the last one ends the row */
void grid_end(Page *p);
/* Numbers: four significant digits and no exponent; "-" where there is none. */
const char *num_text(Cx *cx, double x);
const char *count_text(Cx *cx, double x);                          /* whole numbers */
const char *us_text(Cx *cx, double ns);                            /* nanoseconds in microseconds */
const char *percent_text(Cx *cx, double x);                        /* 0.316 as "31.6" */
const char *range_text(Cx *cx, double lo, double hi, double unit); /* "[1.2, 3.4]", divided by the unit */

/* ---- reportplot.c: inline SVG ---- */
typedef struct Strip { /* marks beside a name on a line of their own, all lines with one scale */
    Page *p;
    double lo, hi;
    bool log;
} Strip;
void strip_begin(Strip *s, Page *p, double lo, double hi, bool log, const char *caption, ...) PRINTF(6, 7);
void strip_axis(Strip *s, const double *ticks, int n, const char *unit);
void strip_line(Strip *s, const char *name, const char *value); /* then its marks */
void strip_band(Strip *s, double from, double to);
void strip_bar(Strip *s, double to, bool soft);
void strip_mark(Strip *s, double at); /* a stroke over the line's height */
void strip_dot(Strip *s, double at, bool hollow, const char *title);
void strip_line_end(Strip *s);
void strip_end(Strip *s);

typedef struct Chart { /* points over two logarithmic axes */
    Page *p;
    double x0, x1, y0, y1;
} Chart;
void charts_begin(Page *p, const char *caption, ...) PRINTF(2, 3); /* charts side by side, under one caption */
void charts_end(Page *p);
void chart_begin(Chart *c, Page *p, double x0, double x1, double y0, double y1, const char *title, const char *x,
                 const char *y);
void chart_line(Chart *c, double xa, double ya, double xb, double yb, const char *class);
void chart_dot(Chart *c, double x, double y, const char *label, const char *title);
void chart_end(Chart *c);

typedef enum Heat { HEAT_NONE, HEAT_REFUSED, HEAT_FAILED, HEAT_RANKED, HEAT_TIMED } Heat;
typedef struct HeatCell {
    Heat what;
    double ratio;         /* of the time to the fastest */
    bool chosen, refused; /* refused: some of its plans were */
    const char *title;
} HeatCell;
/* cell[row * columns + column] */
void heat_draw(Page *p, const char *const *row, int rows, const char *const *column, int columns, const HeatCell *cell,
               const char *caption);

/* ---- reading records: absent members are "", NaN and NULL ---- */
const char *rec_str(const json_t *o, const char *key);
double rec_num(const json_t *o, const char *key);
const json_t *rec_figure(const json_t *measurement, const char *name);

/* ---- the parts ---- */
typedef struct Try {
    const char *plan, *slug;
    Heat fate;
    double score, ns; /* NaN: none */
    bool chosen;
} Try;
typedef struct Hunt { /* one search */
    const char *name, *policy;
    const json_t *problem; /* the case, by which plans can be scored anew; NULL */
    const char *caps;
    int n;
    Try *t;
} Hunt;
void report_bench(Page *p, const json_t *bench);                                         /* reportbench.c */
void report_replay(Page *p, const json_t *replay);                                       /* reportreplay.c */
void report_searches(Page *p, const Hunt *h, int n, const char *name, const char *what); /* reportsearch.c: all below */
Hunt *report_hunts(Cx *cx, const json_t *record, int *n); /* of cases, or of a list of trials */
const json_t *report_candidates(const json_t *o);    /* of what tune and plan print with --json; NULL: it is another */
void report_policies(Page *p, const Hunt *h, int n); /* reportpolicy.c */
void report_fates(Page *p, const Hunt *h, int n);

/* ---- report.c ---- */
typedef struct ReportRecord {
    const char *name, *text;
    size_t bytes;
} ReportRecord;
typedef struct Report { /* zero it first; report_free takes any stage */
    int n;
    json_t **root;
} Report;
Err report_make(Cx *cx, const ReportRecord *r, int n, bool markdown, const char *title, Report *own, const char **out);
void report_free(Report *own);
#endif
