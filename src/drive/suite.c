/* Text of a suite -> cases: programs at shapes, in the order of its lines. */
#include "evidence.h"

#include "../base/os.h"

#include <string.h>

enum { SUITE_CASES = 1000, SOURCE_MAX = 1 << 20 };

typedef struct Line {
    Cx *cx;
    const Alloc *al;
    const char *suite, *folder, *at;
    int number;
} Line;

static Place place(const Line *l) {
    return (Place){.file = l->suite, .line = l->number, .col = 1};
}

static const char *word(Line *l) { /* the next one, or NULL */
    while (*l->at == ' ' || *l->at == '\t') l->at++;
    size_t n = strcspn(l->at, " \t\r\n#");
    if (!n) return NULL;
    const char *s = arena_str(l->cx->a, l->at, n);
    l->at += n;
    return s;
}

static Err read_option(Line *l, const char *w, Case *c) {
    static const char *const accept = "pin=DIMS search=DIMS const=NAMES regimes=resident,cold alias";
    const struct {
        const char *name;
        const char **to;
    } fields[] = {{"pin=", &c->pin}, {"search=", &c->open}, {"const=", &c->constants}, {"regimes=", &c->regimes}};
    if (str_eq(w, "alias")) return c->alias = true, OK;
    for (int i = 0; i < COUNT(fields); i++) {
        if (!str_starts(w, fields[i].name)) continue;
        *fields[i].to = w + strlen(fields[i].name);
        return OK;
    }
    return diag(l->cx, S_SUITE_LINE, place(l), accept, "'%.60s' says nothing about a case", w);
}

static Err read_source(Line *l, Case *c) {
    const char *path = *c->file == '/' || !*l->folder ? c->file : arena_printf(l->cx->a, "%s/%s", l->folder, c->file);
    char *text, why[128];
    size_t n;
    int bad = os_read_file(l->al, path, OS_ANY, SOURCE_MAX, &text, &n);
    if (bad)
        return diag(l->cx, S_SUITE_SOURCE, place(l), NULL, "%s cannot be read: %s", path,
                    os_error(bad, why, sizeof why));
    c->source = arena_str(l->cx->a, text, n);
    l->al->put(l->al->user, text);
    return OK;
}

/* KERNEL/1024x4096/f32, and behind it the pins where another case of the suite is called so: two suites that differ in
 * their pins can then be compared. */
static const char *name_case(Cx *cx, const Case *c, const Case *before, int nbefore) {
    Buf b = buf_new(cx->a);
    buf_fmt(&b, "%s/", c->kernel);
    for (int i = 0, n = 0; i < c->prog->naxes; i++)
        if (c->prog->axis[i].ext < 0) buf_fmt(&b, "%s%lld", n++ ? "x" : "", (long long)c->shape.n[i]);
    buf_fmt(&b, "/%s", c->types);
    for (int i = 0; i < nbefore; i++)
        if (*c->pin && str_eq(before[i].id, b.s)) return arena_printf(cx->a, "%s/%s", b.s, c->pin);
    return b.s;
}

static Err read_case(Line *l, const char *file, Case *c) {
    Ast *ast;
    Prog *p;
    *c = (Case){.file = file, .pin = "", .open = "", .constants = "", .regimes = "resident,cold"};
    c->kernel = word(l), c->shape_text = word(l), c->types = word(l);
    if (!c->types)
        return diag(l->cx, S_SUITE_LINE, place(l), "FILE KERNEL SHAPE TYPES [NAME=VALUE...]", "the line is too short");
    Err err = OK;
    for (const char *w = word(l); w && !err; w = word(l)) err = read_option(l, w, c);
    if (!err && !*c->regimes)
        err = diag(l->cx, S_SUITE_LINE, place(l), "resident cold", "no regime stands behind regimes=");
    for (const char *at = c->regimes; *at && !err; at += strcspn(at, ","), at += *at == ',') {
        const size_t n = strcspn(at, ",");
        if ((n != 8 || strncmp(at, "resident", n) != 0) && (n != 4 || strncmp(at, "cold", n) != 0))
            err = diag(l->cx, S_SUITE_LINE, place(l), "resident cold", "there is no regime '%.*s'", (int)n, at);
    }
    if (!err) err = read_source(l, c);
    const char *slash = strrchr(file, '/');
    if (!err) err = lang_parse(l->cx, slash ? slash + 1 : file, c->source, strlen(c->source), &ast);
    if (!err) err = bind_program(l->cx, ast, c->kernel, c->types, *c->constants ? c->constants : NULL, &p);
    if (!err) err = bind_shape(l->cx, p, c->shape_text, &c->shape);
    if (err) return err;
    c->prog = p;
    if (shape_ranged(&c->shape) >= 0)
        return diag(l->cx, S_SUITE_LINE, place(l), "one extent", "%s has a range, and a case is measured at one extent",
                    p->axis[shape_ranged(&c->shape)].name);
    for (int i = 0; i < p->naxes; i++)
        if (c->shape.n[i] < 1)
            return diag(l->cx, S_SUITE_LINE, place(l), "an extent of at least 1 for every axis", "%s has none",
                        p->axis[i].name);
    return OK;
}

Err suite_read(Cx *cx, const Alloc *al, const char *name, const char *text, const char *folder, Case **out, int *n) {
    Line l = {.cx = cx, .al = al, .suite = name, .folder = folder ? folder : "", .at = text};
    *out = NEWN(cx->a, Case, SUITE_CASES);
    for (*n = 0; *l.at; l.at += strcspn(l.at, "\n"), l.at += *l.at == '\n') {
        l.number++;
        const char *file = word(&l);
        if (!file) continue;
        if (*n == SUITE_CASES) return diag(cx, S_SUITE_LINE, place(&l), NULL, "more than %d cases", SUITE_CASES);
        Case *c = &(*out)[*n];
        Err err = read_case(&l, file, c);
        if (err) return err;
        c->id = name_case(cx, c, *out, *n);
        for (int i = 0; i < *n; i++)
            if (str_eq((*out)[i].id, c->id)) return diag(cx, S_SUITE_LINE, place(&l), NULL, "%s is there twice", c->id);
        ++*n;
    }
    return *n ? OK : diag(cx, S_SUITE_LINE, NOWHERE, "at least one case", "%s has no case", name);
}
