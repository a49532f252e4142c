/* Diagnostics: a slug, a place, what was found, what would have been accepted. */
#include "base.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *text;
    Err err;
    const char *why, *hint;
} slugs[SLUG_COUNT] = {
#define SLUG(id, text, err, why, hint) {text, err, why, hint},
#include "slugs.def"
#undef SLUG
};

const char *slug_text(Slug s) {
    return slugs[s].text;
}
Err slug_err(Slug s) {
    return slugs[s].err;
}
const char *slug_why(Slug s) {
    return slugs[s].why;
}
const char *slug_hint(Slug s) {
    return slugs[s].hint;
}

bool slug_find(const char *text, Slug *out) {
    for (int i = 0; i < SLUG_COUNT; i++)
        if (str_eq(slugs[i].text, text)) return *out = (Slug)i, true;
    return false;
}

Err(diag)(Cx *cx, Slug slug, Place at, const char *accept, const char *fmt, ...) {
    int max = cx->max_diags ? cx->max_diags : 50;
    if (cx->ndiags++ >= max) return slugs[slug].err;
    va_list ap;
    va_start(ap, fmt);
    const char *msg = arena_vprintf(cx->a, fmt, ap);
    va_end(ap);
    Diag *d = NEW(cx->a, Diag);
    *d = (Diag){.slug = slug, .at = at, .msg = msg, .accept = accept};
    if (cx->last)
        cx->last->next = d;
    else
        cx->first = d;
    cx->last = d;
    return slugs[slug].err;
}

static void print_line(const char *src, Place at, Buf *out) {
    const char *p = src;
    for (int line = 1; line < at.line && *p; p++)
        if (*p == '\n') line++;
    size_t n = strcspn(p, "\n");
    if (n > 200) n = 200;
    buf_str(out, "    ");
    for (size_t i = 0; i < n; i++) { /* control bytes never reach a terminal */
        unsigned char c = (unsigned char)p[i];
        char shown = c < 0x20 || c == 0x7F ? ' ' : (char)c;
        buf_put(out, &shown, 1);
    }
    buf_fmt(out, "\n    %*s^", at.col > 1 ? (at.col > 201 ? 200 : at.col - 1) : 0, "");
    for (int i = 1; i < at.len && at.col + i <= (int)n; i++) buf_str(out, "~");
    buf_str(out, "\n");
}

void diag_print(const Cx *cx, const char *src, Buf *out) {
    for (const Diag *d = cx->first; d; d = d->next) {
        if (d->at.line) buf_fmt(out, "%s:%d:%d: ", d->at.file ? d->at.file : "program", d->at.line, d->at.col);
        buf_fmt(out, "%s [%s]\n", d->msg, slug_text(d->slug));
        if (d->at.line && src) print_line(src, d->at, out);
        if (d->accept) buf_fmt(out, "    accepted: %s\n", d->accept);
    }
    int max = cx->max_diags ? cx->max_diags : 50;
    if (cx->ndiags > max) buf_fmt(out, "and %d more\n", cx->ndiags - max);
}

void diag_json(const Cx *cx, Buf *out) {
    buf_str(out, "[");
    for (const Diag *d = cx->first; d; d = d->next) {
        buf_str(out, d == cx->first ? "{\"slug\":" : ",{\"slug\":");
        buf_json(out, slug_text(d->slug));
        if (d->at.line) {
            buf_str(out, ",\"file\":");
            buf_json(out, d->at.file ? d->at.file : "program");
            buf_fmt(out, ",\"line\":%d,\"column\":%d", d->at.line, d->at.col);
        }
        buf_str(out, ",\"message\":");
        buf_json(out, d->msg);
        if (d->accept) {
            buf_str(out, ",\"accepted\":");
            buf_json(out, d->accept);
        }
        buf_str(out, "}");
    }
    buf_str(out, "]");
}
