/* Bytes -> tokens, one at a time and without memory. Columns count bytes from 1. */
#include "ast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *s;
    int sym;
} words[] = {{"kernel", KW_KERNEL}, {"for", KW_FOR},     {"in", KW_IN},     {"out", KW_OUT},   {"inout", KW_INOUT},
             {"const", KW_CONST},   {"axis", KW_AXIS},   {"over", KW_OVER}, {"else", KW_ELSE}, {"hold", KW_HOLD},
             {"true", KW_TRUE},     {"false", KW_FALSE}, {"inf", KW_INF},   {"nan", KW_NAN},   {"and", KW_AND},
             {"or", KW_OR},         {"not", KW_NOT},     {"idx", KW_IDX}};

/* <ctype.h> asks the locale; source text must not. */
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_head(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_word(char c) {
    return is_head(c) || is_digit(c);
}
static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int keyword(const char *s, int len) {
    for (int i = 0; i < COUNT(words); i++)
        if (strlen(words[i].s) == (size_t)len && memcmp(words[i].s, s, (size_t)len) == 0) return words[i].sym;
    return 0;
}

bool lex_reserved(const char *s, int len) {
    char text[LANG_NAME + 1];
    Ty ty;
    Op op;
    Red red;
    if (len > LANG_NAME) return false;
    memcpy(text, s, (size_t)len);
    text[len] = 0;
    return keyword(s, len) || ty_find(s, (size_t)len, &ty) || red_find(s, (size_t)len, &red) ||
           op_find(text, FORM_F, &op);
}

void lex_open(Lex *lx, Cx *cx, const char *file, const char *text, size_t n) {
    *lx = (Lex){.cx = cx, .file = file, .at = text, .end = text + n, .line_start = text, .line = 1};
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) lx->at = lx->line_start = text + 3; /* byte order mark */
}

static Place place(const Lex *lx, const Tok *t) {
    return (Place){lx->file, t->line, t->col, t->len};
}

/* strtod reads a '.' only where the host's locale says so, so the point is turned into the exponent: 1.25e3 -> 125e1.
 */
static double read_float(const char *s, int len) {
    char digits[160];
    int n = 0, scale = 0, exponent = 0;
    bool point = false, negative = false;
    for (; len && *s != 'e' && *s != 'E'; s++, len--) {
        if (*s == '.') {
            point = true;
            continue;
        }
        digits[n++] = *s;
        scale -= point;
    }
    if (len) s++, len--;
    if (len && (*s == '-' || *s == '+')) negative = *s == '-', s++, len--;
    for (; len; s++, len--)
        if (exponent < 100000) exponent = exponent * 10 + (*s - '0');
    exponent = scale + (negative ? -exponent : exponent);
    digits[n++] = 'e';
    if (exponent < 0) digits[n++] = '-', exponent = -exponent;
    char rev[12];
    int r = 0;
    do rev[r++] = (char)('0' + exponent % 10);
    while ((exponent /= 10) != 0);
    while (r) digits[n++] = rev[--r];
    digits[n] = 0;
    return strtod(digits, NULL);
}

static Tok number(Lex *lx, Tok t) {
    enum { MAX_DIGITS = 128 };
    const char *p = t.s, *end = lx->end;
    const char *fault = NULL;
    t.kind = TOK_INT;
    if (p + 1 < end && *p == '0' && (p[1] == 'x' || p[1] == 'X')) {
        p += 2;
        if (p == end || hex_digit(*p) < 0) fault = "a hexadecimal number without digits";
        for (; p < end && hex_digit(*p) >= 0; p++) {
            if (t.u >> 60) fault = "a whole number above 18446744073709551615";
            t.u = t.u << 4 | (uint64_t)hex_digit(*p);
        }
    } else {
        for (; p < end && is_digit(*p); p++)
            if (__builtin_mul_overflow(t.u, (uint64_t)10, &t.u) ||
                __builtin_add_overflow(t.u, (uint64_t)(*p - '0'), &t.u))
                fault = "a whole number above 18446744073709551615";
        if (p < end && *p == '.') {
            t.kind = TOK_FLOAT;
            for (p++; p < end && is_digit(*p);) p++;
        }
        if (p < end && (*p == 'e' || *p == 'E')) {
            const char *q = p + 1;
            if (q < end && (*q == '+' || *q == '-')) q++;
            if (q < end && is_digit(*q)) {
                t.kind = TOK_FLOAT;
                while (q < end && is_digit(*q)) q++;
                p = q;
            }
        }
        if (t.kind == TOK_FLOAT) fault = NULL;
    }
    const char *tail = p;
    while (p < end && is_word(*p)) p++;
    if (p > tail) fault = "a number that runs into letters";
    t.len = (int)(p - t.s);
    lx->at = p;
    if (!fault && t.len > MAX_DIGITS) fault = "a number of more than 128 characters";
    if (!fault && t.kind == TOK_FLOAT) {
        t.d = read_float(t.s, t.len);
        if (isinf(t.d)) fault = "a number above the largest f64";
    }
    if (!fault) return t;
    t.kind = TOK_BAD;
    if (lx->cx) diag(lx->cx, S_LANG_NUMBER, place(lx, &t), "a number such as 12, 0x1F, 1.5, 1e-6, inf", "%s", fault);
    return t;
}

static void skip_space(Lex *lx, bool *nl) {
    for (; lx->at < lx->end; lx->at++) {
        char c = *lx->at;
        if (c == '\n') {
            *nl = true;
            lx->line++;
            lx->line_start = lx->at + 1;
        } else if (c == '#') {
            const char *eol = memchr(lx->at, '\n', (size_t)(lx->end - lx->at));
            lx->at = (eol ? eol : lx->end) - 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            break;
        }
    }
}

Tok lex_next(Lex *lx) {
    Tok t = {.kind = TOK_END};
    skip_space(lx, &t.nl);
    t.s = lx->at;
    t.line = lx->line;
    t.col = (int)(lx->at - lx->line_start) + 1;
    if (lx->at == lx->end) return t;
    char c = *lx->at;
    if (is_digit(c) || (c == '.' && lx->at + 1 < lx->end && is_digit(lx->at[1]))) return number(lx, t);
    if (is_head(c)) {
        while (lx->at < lx->end && is_word(*lx->at)) lx->at++;
        t.kind = TOK_NAME;
        t.len = (int)(lx->at - t.s);
        t.sym = keyword(t.s, t.len);
        if (t.len <= LANG_NAME) return t;
        t.kind = TOK_BAD;
        if (lx->cx) diag(lx->cx, S_LANG_LIMIT, place(lx, &t), "names of up to 64 bytes", "a name of %d bytes", t.len);
        return t;
    }
    if (memchr("(){}[],:;=+-*/%<>@.!", c, 20)) {
        t.kind = TOK_PUNCT;
        t.sym = (unsigned char)c;
        t.len = 1;
        if (lx->at + 1 < lx->end && lx->at[1] == '=') {
            int two = c == '<' ? SYM_LE : c == '>' ? SYM_GE : c == '=' ? SYM_EQ : c == '!' ? SYM_NE : 0;
            if (two) t.sym = two, t.len = 2;
        }
        lx->at += t.len;
        if (t.sym != '!') return t;
    } else { /* a run of strange bytes is one fault */
        while (lx->at < lx->end && ((unsigned char)*lx->at >= 0x80 || *lx->at == c)) lx->at++;
        if (lx->at == t.s) lx->at++;
        t.len = (int)(lx->at - t.s);
    }
    t.kind = TOK_BAD;
    if (!lx->cx) return t;
    if (c > ' ' && c < 0x7F)
        diag(lx->cx, S_LANG_CHARACTER, place(lx, &t),
             c == '!' || c == '~' ? "not, !="
             : c == '&'           ? "and"
             : c == '|'           ? "or"
                                  : NULL,
             "'%c' begins nothing in the language", c);
    else
        diag(lx->cx, S_LANG_CHARACTER, place(lx, &t), "ASCII text; comments may hold any bytes",
             "byte 0x%02X outside a comment", (unsigned char)c);
    return t;
}
