/* Growing text, JSON written member by member, tables with aligned columns, numbers with units. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void text_room(Text *t, size_t n) {
    if (t->n + n + 1 <= t->cap) return;
    size_t cap = t->cap ? t->cap : 256;
    while (cap < t->n + n + 1) cap *= 2;
    char *s = realloc(t->s, cap);
    if (!s) {
        fputs("rowfold: out of memory [memory.exhausted]\n", stderr);
        exit(RC_WRONG);
    }
    t->s = s, t->cap = cap;
}

void text_put(Text *t, const char *s, size_t n) {
    text_room(t, n);
    memcpy(t->s + t->n, s, n);
    t->s[t->n += n] = 0;
}

void text_fmt(Text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    text_room(t, (size_t)n);
    va_start(ap, fmt);
    vsnprintf(t->s + t->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->n += (size_t)n;
}

void text_free(Text *t) {
    free(t->s);
    *t = (Text){0};
}

/* ---- JSON ---- */
/* Length of the UTF-8 character at s, 0 where there is none: over-long forms, surrogates and what is past U+10FFFF are
 * none. */
static int utf8_len(const unsigned char *s) {
    const int n = s[0] < 0x80                   ? 1
                  : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                  : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                  : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                                : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

static void json_quote(Text *t, const char *s) {
    text_put(t, "\"", 1);
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        const int n = utf8_len(p);
        if (*p == '"' || *p == '\\')
            text_fmt(t, "\\%c", *p);
        else if (*p == '\n')
            text_put(t, "\\n", 2);
        else if (*p == '\t')
            text_put(t, "\\t", 2);
        else if (*p < 0x20 || *p == 0x7F)
            text_fmt(t, "\\u%04x", *p);
        else if (n)
            text_put(t, (const char *)p, (size_t)n);
        else
            text_put(t, "\xEF\xBF\xBD", 3); /* no UTF-8: U+FFFD */
        p += n ? n : 1;
    }
    text_put(t, "\"", 1);
}

static void json_key(Text *t, const char *key) {
    if (t->comma) text_put(t, ",", 1);
    t->comma = true;
    if (!key) return;
    json_quote(t, key);
    text_put(t, ":", 1);
}

void json_open(Text *t, const char *key, char open) {
    json_key(t, key);
    text_put(t, &open, 1);
    t->comma = false;
}

void json_close(Text *t, char close) {
    text_put(t, &close, 1);
    t->comma = true;
}

void json_str(Text *t, const char *key, const char *s) {
    json_key(t, key);
    json_quote(t, s ? s : "");
}

void json_int(Text *t, const char *key, int64_t v) {
    json_key(t, key);
    text_fmt(t, "%lld", (long long)v);
}

void json_num(Text *t, const char *key, double v) {
    json_key(t, key);
    if (isfinite(v))
        text_fmt(t, "%.17g", v);
    else
        text_put(t, "null", 4);
}

void json_bool(Text *t, const char *key, bool v) {
    json_key(t, key);
    text_fmt(t, "%s", v ? "true" : "false");
}

void json_raw(Text *t, const char *key, const char *json) {
    json_key(t, key);
    if (!json || !*json) json = "null";
    text_put(t, json, strlen(json));
}

Rc json_print(Cli *c, Text *t) {
    const bool ok = fwrite(t->s, 1, t->n, stdout) == t->n && putchar('\n') != EOF;
    text_free(t);
    c->said_error = true; /* one document: an error after it goes to stderr alone */
    return ok ? RC_OK : fail(c, F_STDOUT, NULL, "standard output could not be written");
}

/* ---- tables ---- */
void table_column(Table *t, const char *title, bool left) {
    if (t->columns == TABLE_COLUMNS) return;
    t->title[t->columns] = title;
    t->left[t->columns++] = left;
}

void table_row(Table *t) {
    if (t->rows == t->cap) {
        const int cap = t->cap ? 2 * t->cap : 16;
        const char **cell = cli_get(t->c, sizeof *cell * TABLE_COLUMNS * (size_t)cap);
        if (t->rows) memcpy(cell, t->cell, sizeof *cell * TABLE_COLUMNS * (size_t)t->rows);
        t->cell = cell, t->cap = cap;
    }
    t->rows++;
}

void table_cell(Table *t, int column, const char *fmt, ...) {
    char s[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    if (column < t->columns) t->cell[(t->rows - 1) * TABLE_COLUMNS + column] = cli_text(t->c, "%s", s);
}

static void table_line(const Table *t, FILE *f, const int *width, const char *const *cell) {
    Text line = {0};
    text_put(&line, "", 0);
    for (int i = 0; i < t->columns; i++)
        text_fmt(&line, "  %*s", t->left[i] ? -width[i] : width[i], cell[i] ? cell[i] : "");
    while (line.n && line.s[line.n - 1] == ' ') line.n--;
    fprintf(f, "%.*s\n", (int)line.n, line.s);
    text_free(&line);
}

void table_print(const Table *t, FILE *f) {
    int width[TABLE_COLUMNS];
    for (int i = 0; i < t->columns; i++) {
        width[i] = (int)strlen(t->title[i]);
        for (int r = 0; r < t->rows; r++) {
            const char *s = t->cell[r * TABLE_COLUMNS + i];
            const int n = s ? (int)strlen(s) : 0;
            if (n > width[i]) width[i] = n;
        }
    }
    table_line(t, f, width, t->title);
    for (int r = 0; r < t->rows; r++) table_line(t, f, width, t->cell + r * TABLE_COLUMNS);
}

const char *seconds_text(Cli *c, double s) {
    if (!(s >= 0)) return "-";
    if (s < 1e-6) return cli_text(c, "%.3g ns", s * 1e9);
    if (s < 1e-3) return cli_text(c, "%.4g us", s * 1e6);
    return s < 1 ? cli_text(c, "%.4g ms", s * 1e3) : cli_text(c, "%.4g s", s);
}

const char *amount_text(Cli *c, double v, const char *unit) {
    static const char *const heads[] = {"", "k", "M", "G", "T", "P"};
    int i = 0;
    for (; v >= 1000 && i < COUNT(heads) - 1; i++) v /= 1000;
    return cli_text(c, "%.4g %s%s", v, heads[i], unit);
}
