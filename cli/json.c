/* JSON text -> a tree, for the library's reports that are printed as tables. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

typedef struct Reader {
    Cli *c;
    const char *p;
} Reader;

static void skip(Reader *r) {
    while (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r') r->p++;
}

static bool eat(Reader *r, char ch) {
    skip(r);
    if (*r->p != ch) return false;
    r->p++;
    return true;
}

static int hex4(const char *p) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        const char ch = p[i];
        const int d = ch >= '0' && ch <= '9'   ? ch - '0'
                      : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
                      : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                               : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* A quoted text; characters past U+007F that are written as escapes become '?', since rowfold writes them as they are.
 */
static const char *string(Reader *r) {
    if (!eat(r, '"')) return NULL;
    const char *end = r->p; /* no longer than it is written */
    while (*end && *end != '"') end += *end == '\\' && end[1] ? 2 : 1;
    char *s = cli_get(r->c, (size_t)(end - r->p) + 1), *q = s;
    for (; *r->p && *r->p != '"'; r->p++) {
        if (*r->p != '\\') {
            *q++ = *r->p;
            continue;
        }
        int u;
        switch (*++r->p) {
        case 'n': *q++ = '\n'; break;
        case 't': *q++ = '\t'; break;
        case 'r': *q++ = '\r'; break;
        case 'b': *q++ = '\b'; break;
        case 'f': *q++ = '\f'; break;
        case 'u':
            if ((u = hex4(r->p + 1)) < 0) return NULL;
            *q++ = u > 0 && u < 0x80 ? (char)u : '?';
            r->p += 4;
            break;
        case 0: return NULL;
        default: *q++ = *r->p;
        }
    }
    return eat(r, '"') ? s : NULL;
}

static bool word(Reader *r, const char *s) {
    const size_t n = strlen(s);
    if (strncmp(r->p, s, n) != 0) return false;
    r->p += n;
    return true;
}

static Json *value(Reader *r, int depth);

static bool members(Reader *r, Json *j, char close, int depth) {
    Json **last = &j->child;
    if (eat(r, close)) return true;
    do {
        const char *key = NULL;
        if (j->kind == JSON_OBJECT && (!(key = string(r)) || !eat(r, ':'))) return false;
        Json *m = value(r, depth + 1);
        if (!m) return false;
        m->key = key;
        *last = m;
        last = &m->next;
        j->n++;
    } while (eat(r, ','));
    return eat(r, close);
}

static Json *value(Reader *r, int depth) {
    if (depth > DEEPEST) return NULL;
    Json *j = cli_get(r->c, sizeof *j);
    skip(r);
    if (*r->p == '{' || *r->p == '[') {
        j->kind = *r->p == '{' ? JSON_OBJECT : JSON_ARRAY;
        r->p++;
        return members(r, j, j->kind == JSON_OBJECT ? '}' : ']', depth) ? j : NULL;
    }
    if (*r->p == '"') {
        j->kind = JSON_STRING;
        return (j->s = string(r)) != NULL ? j : NULL;
    }
    if (word(r, "null")) return j;
    if (word(r, "true") || word(r, "false")) {
        j->kind = JSON_BOOL;
        j->v = r->p[-2] == 'u';
        return j;
    }
    char *end;
    j->kind = JSON_NUMBER;
    j->v = strtod(r->p, &end);
    if (end == r->p) return NULL;
    j->s = cli_text(r->c, "%.*s", (int)(end - r->p), r->p);
    r->p = end;
    return j;
}

const Json *json_read(Cli *c, const char *text) {
    if (!text || !*text) return NULL;
    Reader r = {c, text};
    const Json *j = value(&r, 0);
    skip(&r);
    return *r.p ? NULL : j;
}

const Json *json_get(const Json *j, const char *key) {
    if (!j || j->kind != JSON_OBJECT) return NULL;
    for (const Json *m = j->child; m; m = m->next)
        if (strcmp(m->key, key) == 0) return m;
    return NULL;
}

const char *json_text(const Json *j, const char *key, const char *otherwise) {
    const Json *m = json_get(j, key);
    return m && (m->kind == JSON_STRING || m->kind == JSON_NUMBER) ? m->s : otherwise;
}

double json_value(const Json *j, const char *key, double otherwise) {
    const Json *m = json_get(j, key);
    return m && (m->kind == JSON_NUMBER || m->kind == JSON_BOOL) ? m->v : otherwise;
}
