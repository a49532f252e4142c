/* Text: growing buffers, JSON strings, numbers that read back. */
#include "base.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Buf buf_new(Arena *a) {
    return (Buf){.a = a};
}

static void room(Buf *b, size_t more) {
    if (b->cap - b->n > more) return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->n <= more) cap *= 2;
    char *s = arena_get(b->a, cap);
    if (b->n) memcpy(s, b->s, b->n);
    b->s = s;
    b->cap = cap;
}

void buf_put(Buf *b, const char *s, size_t n) {
    room(b, n);
    if (n) memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = 0;
}

void buf_str(Buf *b, const char *s) {
    buf_put(b, s, strlen(s));
}

/* The host program may have set a locale with a decimal comma, for all of its threads. The calling thread alone leaves
 * it for the time of one conversion; the C libraries keep "C" at hand, so that this neither allocates nor fails. */
typedef struct Point {
    locale_t c, was;
} Point;

static Point point_begin(void) {
    Point p = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (p.c) p.was = uselocale(p.c);
    return p;
}

static void point_end(Point p) {
    if (!p.c) return;
    uselocale(p.was);
    freelocale(p.c);
}

double text_f64(const char *s, char **end) {
    Point p = point_begin();
    double x = strtod(s, end);
    point_end(p);
    return x;
}

int text_print(char *s, size_t cap, const char *fmt, va_list ap) {
    Point p = point_begin();
    int n = vsnprintf(s, cap, fmt, ap);
    point_end(p);
    return n < 0 ? 0 : n;
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
    char small[256]; /* fits most; a longer one is printed twice */
    va_list again;
    va_copy(again, ap);
    int n = text_print(small, sizeof small, fmt, ap);
    char *s = arena_get(a, (size_t)n + 1);
    if (n >= (int)sizeof small)
        text_print(s, (size_t)n + 1, fmt, again);
    else
        memcpy(s, small, (size_t)n);
    va_end(again);
    return s;
}

void buf_fmt(Buf *b, const char *fmt, ...) {
    char small[256];
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = text_print(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof small) {
        room(b, (size_t)n);
        text_print(b->s + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    } else {
        buf_put(b, small, (size_t)n);
    }
    va_end(again);
}

/* Length of the well-formed UTF-8 sequence at s, or 0 (RFC 3629: no overlong forms, no surrogates, up to U+10FFFF). */
static int utf8_len(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    int n = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F))) return 0;
    if (n == 4 && ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))) return 0;
    return n;
}

void buf_json(Buf *b, const char *s) {
    buf_str(b, "\"");
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        int n = utf8_len(p);
        if (n == 0) {
            buf_str(b, "\xEF\xBF\xBD");
            p++;
        } else if (n == 1 && (*p == '"' || *p == '\\')) {
            buf_fmt(b, "\\%c", *p++);
        } else if (n == 1 && *p < 0x20) {
            if (*p == '\n')
                buf_str(b, "\\n");
            else
                buf_fmt(b, "\\u%04x", *p);
            p++;
        } else {
            buf_put(b, (const char *)p, (size_t)n);
            p += n;
        }
    }
    buf_str(b, "\"");
}

void buf_f64(Buf *b, double x) {
    if (isnan(x)) {
        buf_str(b, "nan");
        return;
    }
    if (isinf(x)) {
        buf_str(b, x < 0 ? "-inf" : "inf");
        return;
    }
    char t[40];
    Point p = point_begin();
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(t, sizeof t, "%.*g", digits, x);
        if (strtod(t, NULL) == x) break;
    }
    point_end(p);
    buf_str(b, t);
}

bool str_eq(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

bool str_starts(const char *s, const char *head) {
    return strncmp(s, head, strlen(head)) == 0;
}

bool str_i64(const char *s, int64_t *out) {
    if (!*s || *s == ' ' || *s == '\t' || *s == '+') return false;
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || *end || end == s) return false;
    *out = v;
    return true;
}

static size_t part_of(const char *s, const char *sep) {
    const char *end = strstr(s, sep);
    return end ? (size_t)(end - s) : strlen(s);
}

const char *text_apart(Arena *a, const char *one, const char *other, const char *sep) {
    Buf b = buf_new(a);
    const size_t gap = strlen(sep);
    while (*one) {
        const size_t n = part_of(one, sep), m = part_of(other, sep);
        if (n != m || memcmp(one, other, n) != 0) {
            if (b.n) buf_str(&b, sep);
            const bool single = n > 3 && memcmp(one, "1 ", 2) == 0 && one[n - 1] == 's' && !memchr(one + 2, ' ', n - 2);
            buf_put(&b, one, single ? n - 1 : n);
        }
        one += one[n] ? n + gap : n, other += other[m] ? m + gap : m;
    }
    return b.n ? b.s : "";
}

static int by_value(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

void f64_sort(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
}

double f64_median(double *v, int n) {
    if (n < 1) return (double)NAN;
    f64_sort(v, n);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
