/* Plots of a report as inline SVG: strips (a line a case, of any width), charts (two logarithmic axes), heat maps. In
 * markdown nothing is drawn: the same numbers stand in tables. */
#include "report.h"

#include <string.h>

static void caption(Page *p, const char *s) {
    p->plots++;
    buf_fmt(&p->b, "<figure><figcaption><b>Plot %d.</b> ", p->plots);
    page_esc(p, s);
    buf_str(&p->b, "</figcaption>\n");
}

static void title(Page *p, const char *s) {
    if (!s || !*s) return;
    buf_str(&p->b, "<title>");
    page_esc(p, s);
    buf_str(&p->b, "</title>");
}

/* ---- strips: x in percent of the width, so that they fit any screen while text keeps its size ---- */
enum { LINE = 16, AXIS = 22 };

void strip_begin(Strip *s, Page *p, double lo, double hi, bool log, const char *fmt, ...) {
    *s = (Strip){p, lo, hi > lo ? hi : lo + 1, log};
    if (p->md) return;
    va_list ap;
    va_start(ap, fmt);
    caption(p, arena_vprintf(p->cx->a, fmt, ap));
    va_end(ap);
    buf_str(&p->b, "<div class=\"strips\">\n");
}

static double percent(const Strip *s, double x) {
    const double t = s->log ? log(x / s->lo) / log(s->hi / s->lo) : (x - s->lo) / (s->hi - s->lo);
    return !(t > 0) ? 0 : t > 1 ? 100 : 100 * t;
}

void strip_axis(Strip *s, const double *ticks, int n, const char *unit) {
    Page *p = s->p;
    if (p->md) return;
    buf_fmt(&p->b,
            "<svg width=\"100%%\" height=\"%d\" aria-hidden=\"true\"><line class=\"k\" x1=\"0\" x2=\"100%%\" "
            "y1=\"1\" y2=\"1\"/>",
            AXIS);
    for (int i = 0; i < n; i++) {
        const double x = percent(s, ticks[i]);
        buf_fmt(&p->b,
                "<line class=\"k\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"1\" y2=\"6\"/><text class=\"s\" x=\"%.2f%%\" "
                "y=\"18\" text-anchor=\"%s\">%g%s</text>",
                x, x, x,
                x < 4    ? "start"
                : x > 96 ? "end"
                         : "middle",
                ticks[i], unit);
    }
    buf_str(&p->b, "</svg>\n");
}

void strip_line(Strip *s, const char *name, const char *value) {
    Page *p = s->p;
    if (p->md) return;
    buf_str(&p->b, "<div class=\"row\"><div class=\"n\"><span>");
    page_esc(p, name);
    buf_str(&p->b, "</span><span>");
    page_esc(p, value);
    buf_fmt(&p->b, "</span></div><svg width=\"100%%\" height=\"%d\" role=\"img\" aria-label=\"", LINE);
    page_esc(p, name);
    buf_str(&p->b, ": ");
    page_esc(p, value);
    buf_fmt(&p->b, "\"><line class=\"g\" x1=\"0\" x2=\"100%%\" y1=\"%d.5\" y2=\"%d.5\"/>", LINE - 1, LINE - 1);
}

void strip_band(Strip *s, double from, double to) {
    const double a = percent(s, from), b = percent(s, to);
    if (!s->p->md)
        buf_fmt(&s->p->b, "<rect class=\"band\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"0\" height=\"%d\"/>", a, b - a, LINE);
}

void strip_bar(Strip *s, double to, bool soft) {
    if (!s->p->md && isfinite(to))
        buf_fmt(&s->p->b, "<rect class=\"%s\" x=\"0\" width=\"%.2f%%\" y=\"3\" height=\"%d\"/>", soft ? "bar2" : "bar",
                percent(s, to), LINE - 6);
}

void strip_mark(Strip *s, double at) {
    const double x = percent(s, at);
    if (!s->p->md && isfinite(at))
        buf_fmt(&s->p->b, "<line class=\"m\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%d\"/>", x, x, LINE);
}

void strip_dot(Strip *s, double at, bool hollow, const char *what) {
    if (s->p->md || !isfinite(at)) return;
    buf_fmt(&s->p->b, "<circle class=\"%s\" cx=\"%.2f%%\" cy=\"%d\" r=\"4\">", hollow ? "o" : "p", percent(s, at),
            LINE / 2);
    title(s->p, what);
    buf_str(&s->p->b, "</circle>");
}

void strip_line_end(Strip *s) {
    if (!s->p->md) buf_str(&s->p->b, "</svg></div>\n");
}

void strip_end(Strip *s) {
    if (!s->p->md) buf_str(&s->p->b, "</div></figure>\n");
}

/* ---- charts: small enough for a phone, side by side where there is room ---- */
enum { WIDE = 342, HIGH = 270, LEFT = 62, RIGHT = 12, TOP = 24, BOTTOM = 44 };

void charts_begin(Page *p, const char *fmt, ...) {
    if (p->md) return;
    va_list ap;
    va_start(ap, fmt);
    caption(p, arena_vprintf(p->cx->a, fmt, ap));
    va_end(ap);
    buf_str(&p->b, "<div class=\"charts\">\n");
}

void charts_end(Page *p) {
    if (!p->md) buf_str(&p->b, "</div></figure>\n");
}

static double chart_x(const Chart *c, double x) {
    return LEFT + (WIDE - LEFT - RIGHT) * log(x / c->x0) / log(c->x1 / c->x0);
}
static double chart_y(const Chart *c, double y) {
    return HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * log(y / c->y0) / log(c->y1 / c->y0);
}

/* More of every decade the shorter the axis is. */
static int ticks(double lo, double hi, double *out, int most) {
    static const double steps[] = {1, 2, 5, 1.5, 3, 7, 1.2, 1.1, 1.3, 1.4};
    const double span = hi / lo;
    const int dense = span > 300 ? 1 : span > 8 ? 3 : span > 1.9 ? 6 : COUNT(steps);
    int n = 0;
    for (int e = (int)floor(log10(lo)); e <= (int)ceil(log10(hi)); e++)
        for (int i = 0; i < dense; i++) {
            const double t = steps[i] * pow(10, e);
            if (t >= lo * 0.999 && t <= hi * 1.001 && n < most) out[n++] = t;
        }
    return n;
}

void chart_begin(Chart *c, Page *p, double x0, double x1, double y0, double y1, const char *name, const char *x,
                 const char *y) {
    enum { MOST = 16 };
    double t[MOST];
    *c = (Chart){p, x0, x1, y0, y1};
    if (p->md) return;
    buf_fmt(&p->b, "<svg width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"", WIDE, HIGH);
    page_esc(p, name);
    buf_fmt(&p->b, "\"><text x=\"%d\" y=\"14\" font-weight=\"600\">", LEFT);
    page_esc(p, name);
    buf_str(&p->b, "</text>");
    for (int i = 0, n = ticks(x0, x1, t, MOST); i < n; i++)
        buf_fmt(&p->b,
                "<line class=\"g\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text class=\"s\" x=\"%.1f\" "
                "y=\"%d\" text-anchor=\"middle\">%g</text>",
                chart_x(c, t[i]), chart_x(c, t[i]), TOP, HIGH - BOTTOM, chart_x(c, t[i]), HIGH - BOTTOM + 15, t[i]);
    for (int i = 0, n = ticks(y0, y1, t, MOST); i < n; i++)
        buf_fmt(&p->b,
                "<line class=\"g\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"s\" x=\"%d\" "
                "y=\"%.1f\" text-anchor=\"end\">%g</text>",
                LEFT, WIDE - RIGHT, chart_y(c, t[i]), chart_y(c, t[i]), LEFT - 5, chart_y(c, t[i]) + 4, t[i]);
    buf_fmt(&p->b, "<text class=\"s\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDE - RIGHT) / 2, HIGH - 10);
    page_esc(p, x);
    buf_fmt(&p->b, "</text><text class=\"s\" transform=\"translate(11 %d) rotate(-90)\" text-anchor=\"middle\">",
            (TOP + HIGH - BOTTOM) / 2);
    page_esc(p, y);
    buf_str(&p->b, "</text>\n");
}

/* The part of a line that lies in the chart. */
void chart_line(Chart *c, double xa, double ya, double xb, double yb, const char *class) {
    if (c->p->md) return;
    const double slope = log(yb / ya) / log(xb / xa);
    if (ya < c->y0) xa *= exp(log(c->y0 / ya) / slope), ya = c->y0;
    if (yb > c->y1) xb /= exp(log(yb / c->y1) / slope), yb = c->y1;
    if (!(xa < xb)) return;
    buf_fmt(&c->p->b, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", class, chart_x(c, xa),
            chart_y(c, ya), chart_x(c, xb), chart_y(c, yb));
}

void chart_dot(Chart *c, double x, double y, const char *label, const char *what) {
    if (c->p->md || !(x > 0) || !(y > 0) || !isfinite(x) || !isfinite(y)) return;
    buf_fmt(&c->p->b, "<circle class=\"p\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\">", chart_x(c, x), chart_y(c, y),
            label ? "4" : "2.5");
    title(c->p, what);
    buf_str(&c->p->b, "</circle>");
    if (label) {
        buf_fmt(&c->p->b, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">", chart_x(c, x) + 6, chart_y(c, y) - 4);
        page_esc(c->p, label);
        buf_str(&c->p->b, "</text>");
    }
}

void chart_end(Chart *c) {
    if (!c->p->md) buf_str(&c->p->b, "</svg>\n");
}

/* ---- heat maps ---- */
static int step_of(double ratio) {
    static const double bounds[] = {1.02, 1.1, 1.25, 1.6, 2.5};
    int i = 0;
    while (i < COUNT(bounds) && ratio > bounds[i]) i++;
    return i;
}

static void heat_cell(Page *p, const HeatCell *c, int x, int y, int w, int h) {
    static const char *const signs[] = {"", "\xC3\x97", "!", "\xC2\xB7", ""};
    if (c->what == HEAT_NONE) return;
    const int step = step_of(c->ratio);
    buf_str(&p->b, "<g>");
    title(p, c->title);
    if (c->what == HEAT_TIMED)
        buf_fmt(&p->b,
                "<rect class=\"h%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/><text class=\"c%d\" x=\"%d\" "
                "y=\"%d\" text-anchor=\"middle\">%s</text>",
                step, x, y, w - 2, h - 2,
                step == 0   ? 0
                : step == 1 ? 1
                            : 2,
                x + w / 2 - 1, y + h / 2 + 3, arena_printf(p->cx->a, c->ratio < 9.995 ? "%.2f" : "%.0f", c->ratio));
    else
        buf_fmt(&p->b,
                "<rect class=\"hx\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/><text class=\"s\" x=\"%d\" "
                "y=\"%d\" text-anchor=\"middle\">%s</text>",
                x, y, w - 2, h - 2, x + w / 2 - 1, y + h / 2 + 3, signs[c->what]);
    if (c->refused && c->what != HEAT_REFUSED)
        buf_fmt(&p->b, "<text class=\"x %s\" x=\"%d\" y=\"%d\" text-anchor=\"end\">\xC3\x97</text>",
                c->what != HEAT_TIMED ? "s"
                : step < 2            ? "c1"
                                      : "c2",
                x + w - 4, y + 9);
    if (c->chosen)
        buf_fmt(&p->b, "<rect class=\"pick\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", x, y, w - 2, h - 2);
    buf_str(&p->b, "</g>");
}

void heat_draw(Page *p, const char *const *row, int rows, const char *const *column, int columns, const HeatCell *cell,
               const char *say) {
    enum { CELL_W = 50, CELL_H = 24, HEAD = 46 };
    if (p->md) return;
    size_t longest = 8;
    for (int i = 0; i < rows; i++)
        if (strlen(row[i]) > longest) longest = strlen(row[i]);
    const int left = 14 + 7 * (int)(longest > 60 ? 60 : longest);
    caption(p, say);
    buf_fmt(&p->b,
            "<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"Plot %d\"><svg width=\"%d\" "
            "height=\"%d\" role=\"img\" aria-label=\"search map\">",
            p->plots, left + columns * CELL_W + 4, HEAD + rows * CELL_H + 4);
    buf_fmt(&p->b, "<text class=\"s\" x=\"%d\" y=\"14\">W, lanes that share a row</text>", left);
    for (int i = 0; i < columns; i++) {
        buf_fmt(&p->b, "<text class=\"s\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", left + i * CELL_W + CELL_W / 2,
                HEAD - 8);
        page_esc(p, column[i]);
        buf_str(&p->b, "</text>");
    }
    for (int r = 0; r < rows; r++) {
        buf_fmt(&p->b, "<text class=\"s\" x=\"%d\" y=\"%d\" text-anchor=\"end\">", left - 8,
                HEAD + r * CELL_H + CELL_H / 2 + 3);
        page_esc(p, row[r]);
        buf_str(&p->b, "</text>");
        for (int i = 0; i < columns; i++)
            heat_cell(p, &cell[r * columns + i], left + i * CELL_W, HEAD + r * CELL_H, CELL_W, CELL_H);
    }
    buf_str(&p->b, "</svg></div></figure>\n");
}
