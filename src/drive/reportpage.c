/* The page of a report: its head and style, text, tables; the same calls give HTML or markdown. */
#include "report.h"

#include <string.h>

/* Colours tell apart for people who see red and green alike (blue and vermilion, Okabe and Ito), and nothing is told by
 * colour alone. The policy lets nothing be fetched and nothing be run. */
static const char style[] =
    ":root{color-scheme:light dark;--page:#fff;--panel:#f6f7f8;--ink:#1d2329;--soft:#59636e;--line:#d5dae0;"
    "--a:#0072b2;--b:#d55e00;--band:#e8ebef;"
    "--h0:#084c7c;--h1:#2a74ab;--h2:#5f9fcb;--h3:#96c2df;--h4:#c5ddee;--h5:#e6f0f7;--t0:#fff;--t1:#fff;--t2:#10202c}"
    "@media(prefers-color-scheme:dark){:root{--page:#14181c;--panel:#1c2227;--ink:#e4e8ec;--soft:#9aa5b0;--line:#"
    "38414a;"
    "--a:#56b4e9;--b:#e69f00;--band:#262e35;"
    "--h0:#8fd0f7;--h1:#5ba9d8;--h2:#3a82b0;--h3:#2b6187;--h4:#234860;--h5:#1e3544;--t0:#0b1a24;--t1:#0b1a24;--t2:#"
    "e4e8ec}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,"
    "'DejaVu Sans',sans-serif;overflow-wrap:break-word}"
    "main{max-width:68rem;margin:0 auto;padding:2rem 1.25rem 4rem}"
    "h1{font-size:1.75rem;line-height:1.2;margin:0 0 .25rem}"
    "h2{font-size:1.35rem;line-height:1.25;margin:3rem 0 .75rem;padding-top:1rem;border-top:1px solid var(--line)}"
    "h3{font-size:1.05rem;margin:2rem 0 .5rem}"
    "p{margin:.5rem 0 .75rem;max-width:46rem}"
    "nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:1rem 0 0;padding:0;list-style:none;font-size:.9rem}"
    "a{color:var(--a)}"
    "dl{display:grid;grid-template-columns:minmax(8rem,12rem) minmax(0,1fr);gap:.3rem 1.25rem;margin:.75rem 0;"
    "max-width:60rem}"
    "dt{font-weight:600}dd{margin:0}"
    "@media(max-width:640px){main{padding:1.25rem 1rem 3rem}dl{display:block}dd{margin:0 0 .6rem}"
    "h1{font-size:1.45rem}h2{font-size:1.2rem}}"
    "figure{margin:1.25rem 0}"
    "figcaption{font-size:.875rem;line-height:1.45;color:var(--soft);margin:0 0 .5rem;max-width:46rem}"
    "figcaption b{color:var(--ink);font-weight:600}"
    ".box{overflow-x:auto;max-width:100%}"
    "table{border-collapse:collapse;font-size:.8125rem;line-height:1.4;font-variant-numeric:tabular-nums}"
    "th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line);"
    "vertical-align:top}"
    "th{font-weight:600;color:var(--soft);border-bottom-color:var(--soft);vertical-align:bottom;white-space:normal}"
    ".l{text-align:left}td.w{white-space:normal;min-width:30rem;overflow-wrap:anywhere}"
    "tr>:first-child{padding-left:0}"
    /* names stay in sight while numbers scroll */
    "tr>.l:first-child,tr>:first-child:not(.l)+.l{position:sticky;left:0;background:var(--page)}"
    "@media(max-width:640px){tr>.l:first-child,tr>:first-child:not(.l)+.l{white-space:normal;min-width:8rem;"
    "overflow-wrap:anywhere}}"
    "@media(min-width:641px){wbr{display:none}}"
    "details{margin:.5rem 0;border-bottom:1px solid var(--line)}"
    "summary{cursor:pointer;font-size:.9rem;padding:.35rem 0}"
    "svg{display:block;overflow:visible;font-family:inherit}"
    "svg text{fill:var(--ink);font-size:12px}svg .s{fill:var(--soft);font-size:11px}svg .x{font-size:9px}"
    ".strips{padding:0 .5rem;max-width:46rem}"
    ".row{margin:.35rem 0 .6rem}.row .n{display:flex;justify-content:space-between;gap:1rem;font-size:.8125rem;"
    "font-variant-numeric:tabular-nums}.row .n span:first-child{min-width:0}.row .n span+span{white-space:nowrap}"
    ".charts{display:flex;flex-wrap:wrap;gap:1rem 1.5rem}"
    ".g{stroke:var(--line);fill:none}.k{stroke:var(--soft);fill:none}.d{stroke:var(--soft);stroke-dasharray:4 3;"
    "fill:none}.r{stroke:var(--b);stroke-width:1.5;fill:none}"
    ".p{fill:var(--a);fill-opacity:.75}.o{fill:var(--page);stroke:var(--a);stroke-width:1.5}"
    ".m{stroke:var(--b);stroke-width:2.5}.bar{fill:var(--a)}.bar2{fill:var(--h3)}.band{fill:var(--band)}"
    ".h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}.h5{fill:var(--h5)}"
    ".hx{fill:var(--panel)}svg .c0{fill:var(--t0)}svg .c1{fill:var(--t1)}svg .c2{fill:var(--t2)}"
    ".pick{fill:none;stroke:var(--b);stroke-width:2.5}"
    "@media print{details{display:block}h2{break-after:avoid}figure{break-inside:avoid}}";

static bool md_special(char c) {
    return c && strchr("\\`*_[]<>|&~$#", c) != NULL;
}

static void esc(Buf *b, const char *s, bool md) {
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == 0x7F || (c < 0x20 && c != '\n' && c != '\t'))
            buf_str(b, "\xEF\xBF\xBD");
        else if (c < 0x20)
            buf_str(b, " ");
        else if (md)
            buf_fmt(b, md_special(*s) ? "\\%c" : "%c", *s);
        else if (c == '&')
            buf_str(b, "&amp;");
        else if (c == '<')
            buf_str(b, "&lt;");
        else if (c == '>')
            buf_str(b, "&gt;");
        else if (c == '"')
            buf_str(b, "&quot;");
        else if (c == '\'')
            buf_str(b, "&#39;");
        else
            buf_put(b, s, 1);
    }
}

void page_esc(Page *p, const char *s) {
    esc(&p->b, s, p->md);
}

void page_begin(Page *p, const char *title) {
    if (p->md) {
        buf_str(&p->b, "# ");
        page_esc(p, title);
        buf_str(&p->b, "\n");
        return;
    }
    buf_str(&p->b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                   "'unsafe-inline'\"><meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    page_esc(p, title);
    buf_str(&p->b, "</title>\n<style>");
    buf_str(&p->b, style);
    buf_str(&p->b, "</style></head>\n<body><main>\n<h1>");
    page_esc(p, title);
    buf_str(&p->b, "</h1>\n");
    p->contents = buf_new(p->cx->a);
    p->contents_at = p->b.n;
}

void page_end(Page *p) {
    if (p->md) return;
    Buf whole = buf_new(p->cx->a);
    buf_str(&p->b, "</main></body></html>\n");
    buf_put(&whole, p->b.s, p->contents_at);
    buf_fmt(&whole, "<nav aria-label=\"contents\"><ul>%s</ul></nav>\n", p->parts ? p->contents.s : "");
    buf_put(&whole, p->b.s + p->contents_at, p->b.n - p->contents_at);
    p->b = whole;
}

void page_head(Page *p, int level, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(p->cx->a, fmt, ap);
    va_end(ap);
    if (p->md) {
        buf_fmt(&p->b, "\n%.*s ", level, "######");
    } else if (level == 2) {
        p->parts++;
        buf_fmt(&p->contents, "<li><a href=\"#part%d\">", p->parts);
        esc(&p->contents, s, false);
        buf_str(&p->contents, "</a></li>");
        buf_fmt(&p->b, "<h2 id=\"part%d\">", p->parts);
    } else {
        buf_fmt(&p->b, "<h%d>", level);
    }
    page_esc(p, s);
    if (p->md)
        buf_str(&p->b, "\n");
    else
        buf_fmt(&p->b, "</h%d>\n", level);
}

void page_para(Page *p, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(p->cx->a, fmt, ap);
    va_end(ap);
    buf_str(&p->b, p->md ? "\n" : "<p>");
    page_esc(p, s);
    buf_str(&p->b, p->md ? "\n" : "</p>\n");
}

void page_list(Page *p) {
    buf_str(&p->b, p->md ? "\n" : "<dl>\n");
}

void page_term(Page *p, const char *term, const char *meaning) {
    buf_str(&p->b, p->md ? "- **" : "<dt>");
    page_esc(p, term);
    buf_str(&p->b, p->md ? "** " : "</dt><dd>");
    page_esc(p, meaning);
    buf_str(&p->b, p->md ? "\n" : "</dd>\n");
}

void page_list_end(Page *p) {
    if (!p->md) buf_str(&p->b, "</dl>\n");
}

void page_fold(Page *p, bool open, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(p->cx->a, fmt, ap);
    va_end(ap);
    buf_str(&p->b, p->md ? "\n**" : open ? "<details open><summary>" : "<details><summary>");
    page_esc(p, s);
    buf_str(&p->b, p->md ? "**\n" : "</summary>\n");
}

void page_unfold(Page *p) {
    if (!p->md) buf_str(&p->b, "</details>\n");
}

/* ---- tables ---- */
void grid_begin(Page *p, const char *titles, const char *caption, ...) {
    va_list ap;
    va_start(ap, caption);
    const char *s = arena_vprintf(p->cx->a, caption, ap);
    va_end(ap);
    p->tables++;
    buf_fmt(&p->b, p->md ? "\n**Table %d.** " : "<figure><figcaption><b>Table %d.</b> ", p->tables);
    page_esc(p, s);
    if (p->md)
        buf_str(&p->b, "\n\n|");
    else
        buf_fmt(&p->b,
                "</figcaption>\n<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"Table %d\">"
                "<table><thead><tr>",
                p->tables);
    for (p->columns = 0; *titles && p->columns < GRID_COLUMNS; p->columns++) {
        const bool left = *titles == '<';
        titles += left;
        const size_t n = strcspn(titles, "|");
        p->left[p->columns] = left;
        if (!p->md) buf_str(&p->b, left ? "<th class=\"l\" scope=\"col\">" : "<th scope=\"col\">");
        page_esc(p, arena_str(p->cx->a, titles, n));
        buf_str(&p->b, p->md ? "|" : "</th>");
        titles += n + (titles[n] == '|');
    }
    if (p->md) {
        buf_str(&p->b, "\n|");
        for (int i = 0; i < p->columns; i++) buf_str(&p->b, p->left[i] ? ":--|" : "--:|");
        buf_str(&p->b, "\n");
    } else {
        buf_str(&p->b, "</tr></thead><tbody>\n");
    }
}

void grid_row(Page *p) {
    buf_str(&p->b, p->md ? "|" : "<tr>");
}

void grid_cell(Page *p, int column, const char *fmt, ...) {
    enum { LONG = 60 }; /* texts that may break into lines */
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(p->cx->a, fmt, ap);
    va_end(ap);
    const bool left = p->left[column], last = column == p->columns - 1;
    if (!p->md) buf_str(&p->b, !left ? "<td>" : strlen(s) > LONG ? "<td class=\"l w\">" : "<td class=\"l\">");
    for (const char *end = left && !p->md ? strchr(s, '/') : NULL; end; end = strchr(s, '/')) {
        page_esc(p, arena_str(p->cx->a, s, (size_t)(end + 1 - s)));
        buf_str(&p->b, "<wbr>"); /* names of cases break after a slash, before they do within a word */
        s = end + 1;
    }
    page_esc(p, s);
    buf_str(&p->b, p->md ? "|" : "</td>");
    if (last) buf_str(&p->b, p->md ? "\n" : "</tr>\n");
}

void grid_end(Page *p) {
    if (!p->md) buf_str(&p->b, "</tbody></table></div></figure>\n");
}

/* ---- numbers ---- */
const char *num_text(Cx *cx, double x) {
    if (!isfinite(x)) return "-";
    const double a = fabs(x);
    const int digits = a >= 1000 || a == 0 ? 0
                       : a >= 100          ? 1
                       : a >= 10           ? 2
                       : a >= 1            ? 3
                       : a >= .1           ? 4
                       : a >= .01          ? 5
                                           : 6;
    return arena_printf(cx->a, "%.*f", digits, x);
}

const char *count_text(Cx *cx, double x) {
    return isfinite(x) && x == floor(x) && fabs(x) < 1e15 ? arena_printf(cx->a, "%.0f", x) : num_text(cx, x);
}

const char *us_text(Cx *cx, double ns) {
    return num_text(cx, ns / 1e3);
}

const char *percent_text(Cx *cx, double x) {
    return isfinite(x) ? arena_printf(cx->a, "%.1f", 100 * x) : "-";
}

const char *range_text(Cx *cx, double lo, double hi, double unit) {
    if (!isfinite(lo) || !isfinite(hi)) return "-";
    return arena_printf(cx->a, "[%s, %s]", num_text(cx, lo / unit), num_text(cx, hi / unit));
}
