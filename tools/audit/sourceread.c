/* A recursive descent over docs/language.md's grammar. */
#include "sourceread.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 220, NODES_MOST = 1 << 17 };
typedef struct Text {
    Mem *m;
    const char *s; /* after the token at hand */
    char tok[132]; /* "" at the end; "\n" for an end of line that counts */
    char kind;     /* n name, 0 number, p punctuation, e end of line, . end of text */
    int inside, depth, nodes;
    bool after_infix;
    const char *why;
    Kernel *k;
} Text;

static void wrong(Text *t, const char *what) {
    if (!t->why) t->why = mem_fmt(t->m, "%s before `%.24s`", what, t->kind == 'e' ? "end of line" : t->tok);
    t->kind = '.'; /* nothing more is read */
    t->tok[0] = 0;
}

static void next(Text *t) {
    size_t n = 0;
    if (t->why) return;
    for (;;) {
        while (*t->s == ' ' || *t->s == '\t' || *t->s == '\r' || (*t->s == '\n' && (t->inside || t->after_infix)))
            t->s++;
        if (*t->s != '#') break;
        while (*t->s && *t->s != '\n') t->s++;
    }
    t->after_infix = false;
    const char *s = t->s;
    if (!*s) {
        t->kind = '.';
    } else if (*s == '\n') {
        t->kind = 'e';
        n = 1;
    } else if (isalpha((unsigned char)*s) || *s == '_') {
        t->kind = 'n';
        while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
    } else if (isdigit((unsigned char)*s) || (*s == '.' && isdigit((unsigned char)s[1]))) {
        t->kind = '0';
        const bool hex = *s == '0' && s[1] == 'x';
        while (isalnum((unsigned char)s[n]) || s[n] == '.' ||
               (!hex && n && (s[n - 1] == 'e' || s[n - 1] == 'E') && (s[n] == '+' || s[n] == '-')))
            n++;
    } else {
        t->kind = 'p';
        n = (strchr("<>=!", *s) && s[1] == '=') ? 2 : 1;
    }
    if (n >= sizeof t->tok) {
        t->tok[0] = 0;
        wrong(t, "a word that is too long");
        return;
    }
    if (n) memcpy(t->tok, s, n);
    t->tok[n] = 0;
    t->s = s + n;
}

static bool is(const Text *t, const char *s) {
    return t->kind != '0' && t->kind != '.' && same_text(t->tok, s);
}
static bool take(Text *t, const char *s) {
    if (!is(t, s)) return false;
    next(t);
    return true;
}
static void want(Text *t, const char *s) {
    if (!take(t, s)) wrong(t, mem_fmt(t->m, "`%s` is expected", s));
}
static const char *word(Text *t) {
    if (t->kind != 'n') {
        wrong(t, "a name is expected");
        return "";
    }
    const char *w = mem_text(t->m, t->tok, strlen(t->tok));
    next(t);
    return w;
}
static void open_bracket(Text *t) { /* ends of lines inside are passed over */
    t->inside++;
    next(t);
}
static void close_bracket(Text *t, const char *s) {
    t->inside--;
    want(t, s);
}

static Node *node(Text *t, NodeKind kind, const char *text) {
    Node *n = mem_get(t->m, sizeof *n);
    *n = (Node){.kind = kind, .text = text, .nover = -1, .def = -1};
    if (++t->nodes > NODES_MOST) wrong(t, "too many operators");
    return n;
}

static Node *expr(Text *t);

static Node *unary(Text *t);

static void arguments(Text *t, Node *n, const char *end) {
    while (!is(t, end) && !t->why) {
        if (n->n == 8) {
            wrong(t, "too many arguments");
            return;
        }
        n->arg[n->n++] = expr(t);
        if (take(t, "over")) {
            n->nover = 0;
            do {
                if (n->nover == 12) wrong(t, "too many axes");
                if (!t->why) n->over[n->nover++] = word(t);
            } while (take(t, ","));
            break;
        }
        if (!take(t, ",")) break;
    }
}

static Node *named(Text *t) {
    const char *w = word(t);
    if (same_text(w, "true") || same_text(w, "false") || same_text(w, "inf") || same_text(w, "nan")) {
        Node *n = node(t, N_NUMBER, w);
        n->value = *w == 't'   ? 1
                   : *w == 'f' ? 0
                   : *w == 'i' ? (long double)__builtin_inf()
                               : (long double)__builtin_nan("");
        return n;
    }
    if (is(t, "(")) {
        Node *n = node(t, N_CALL, w);
        open_bracket(t);
        arguments(t, n, ")");
        close_bracket(t, ")");
        if (take(t, "@")) n->ordered = same_text(word(t), "ordered");
        return n;
    }
    if (is(t, "[")) {
        Node *n = node(t, N_READ, w);
        open_bracket(t);
        arguments(t, n, "]");
        close_bracket(t, "]");
        if (take(t, "else")) n->fill = unary(t);
        return n;
    }
    Node *n = node(t, N_NAME, w);
    for (int i = t->k->nstatements - 1; i >= 0 && n->def < 0; i--)
        if (!t->k->statement[i].is_axis && same_text(t->k->statement[i].name, w)) n->def = i;
    return n;
}

static Node *primary(Text *t) {
    if (++t->depth > DEEPEST) wrong(t, "operands are nested too deep");
    Node *n = NULL;
    if (t->kind == '0') {
        n = node(t, N_NUMBER, mem_text(t->m, t->tok, strlen(t->tok)));
        const bool hex = !strncmp(t->tok, "0x", 2);
        n->whole = hex || !strpbrk(t->tok, ".eE");
        n->value = n->whole ? (long double)strtoull(t->tok, NULL, hex ? 16 : 10) : (long double)strtod(t->tok, NULL);
        next(t);
    } else if (is(t, "(")) {
        open_bracket(t);
        n = expr(t);
        close_bracket(t, ")");
    } else if (t->kind == 'n') {
        n = named(t);
    } else {
        wrong(t, "an operand is expected");
        n = node(t, N_NUMBER, "");
    }
    t->depth--;
    return n;
}

static Node *unary(Text *t) {
    int minus = 0;
    while (is(t, "-") && !t->why) {
        t->after_infix = true;
        next(t);
        minus++;
        if (minus > DEEPEST) wrong(t, "operands are nested too deep");
    }
    Node *n = primary(t);
    for (; minus > 0; minus--) {
        Node *neg = node(t, N_MAP, "neg");
        neg->n = 1;
        neg->arg[0] = n;
        n = neg;
    }
    return n;
}

/* The levels of infix operators, loosest first. */
static const char *const levels[][7] = {{"or", NULL},     {"and", NULL},
                                        {NULL},           {"<", "<=", ">", ">=", "==", "!=", NULL},
                                        {"+", "-", NULL}, {"*", "/", "%", NULL}};
enum { NOT_LEVEL = 2, COMPARE_LEVEL = 3, LEVELS = 6 };

static Node *level(Text *t, int at) {
    if (at == LEVELS) return unary(t);
    if (at == NOT_LEVEL) {
        if (!is(t, "not")) return level(t, at + 1);
        if (++t->depth > DEEPEST) wrong(t, "operands are nested too deep");
        next(t);
        Node *n = node(t, N_MAP, "not");
        n->n = 1;
        n->arg[0] = level(t, NOT_LEVEL);
        t->depth--;
        return n;
    }
    Node *left = level(t, at + 1);
    for (bool more = true; more && !t->why;) {
        const char *op = NULL;
        for (int i = 0; levels[at][i] && !op; i++)
            if (is(t, levels[at][i])) op = levels[at][i];
        if (!op) break;
        t->after_infix = true;
        next(t);
        Node *n = node(t, N_MAP, op);
        n->n = 2;
        n->arg[0] = left;
        n->arg[1] = level(t, at + 1);
        left = n;
        more = at != COMPARE_LEVEL;
    }
    return left;
}

static Node *expr(Text *t) {
    if (++t->depth > DEEPEST) wrong(t, "operands are nested too deep");
    Node *n = level(t, 0);
    t->depth--;
    return n;
}

static void param(Text *t) {
    if (t->k->nparams == PARAMS0) {
        wrong(t, "too many parameters");
        return;
    }
    Param0 q = {.way = "scalar"};
    if (take(t, "const")) q.way = "const";
    q.name = word(t);
    want(t, ":");
    if (is(t, "in") || is(t, "out") || is(t, "inout")) {
        q.way = word(t);
        q.type = word(t);
        if (!is(t, "[")) wrong(t, "`[` is expected");
        open_bracket(t);
        while (t->kind == 'n' && q.naxes < 8) {
            q.axis[q.naxes++] = word(t);
            if (!take(t, ",")) break;
        }
        close_bracket(t, "]");
    } else {
        q.type = word(t);
        if (take(t, "=")) q.def = unary(t);
    }
    t->k->param[t->k->nparams++] = q;
}

static void statement(Text *t) {
    Kernel *k = t->k;
    Statement s = {0};
    if (take(t, "hold")) { /* where a value lives changes no result */
        word(t);
        want(t, ":");
        word(t);
        if (take(t, ".")) word(t);
        return;
    }
    s.is_axis = take(t, "axis");
    s.name = word(t);
    if (!is(t, "=")) wrong(t, "`=` is expected");
    t->after_infix = true;
    next(t);
    s.value = expr(t);
    if (k->nstatements == STATEMENTS)
        wrong(t, "too many statements");
    else
        k->statement[k->nstatements++] = s;
}

static void kernel(Text *t) {
    t->inside++;
    if (take(t, "for")) do
            if (t->k->nrows < ROWS0) t->k->row[t->k->nrows++] = word(t);
        while (take(t, ","));
    want(t, "(");
    while (!is(t, ")") && !t->why) {
        param(t);
        if (!take(t, ",")) break;
    }
    want(t, ")");
    if (!is(t, "{")) wrong(t, "`{` is expected");
    t->inside = 0;
    next(t);
    while (!is(t, "}") && !t->why) {
        if (t->kind == 'e' || is(t, ";")) {
            next(t);
            continue;
        }
        statement(t);
        if (t->kind != 'e' && !is(t, ";") && !is(t, "}")) wrong(t, "the end of the statement is expected");
    }
}

Kernel *kernel_read(Mem *m, const char *text, const char *name, const char **why) {
    Text *t = mem_get(m, sizeof *t);
    *t = (Text){.m = m, .s = text, .inside = 1, .k = mem_get(m, sizeof(Kernel))};
    if (!strncmp(text, "\xef\xbb\xbf", 3)) t->s += 3;
    t->k->statement = mem_array(m, STATEMENTS, sizeof *t->k->statement);
    next(t);
    while (t->kind != '.') { /* to the kernel's head; bodies of others hold no word `kernel` */
        const bool head = take(t, "kernel");
        if (!head) {
            next(t);
        } else if (same_text(t->tok, name)) {
            next(t);
            kernel(t);
            *why = t->why;
            return t->why ? NULL : t->k;
        }
    }
    *why = t->why ? t->why : mem_fmt(m, "the text has no kernel %.64s", name);
    return NULL;
}
