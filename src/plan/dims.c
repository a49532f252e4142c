/* dims.def -> what is said about each dimension, and Plan <-> text. */
#include "plan.h"

#include <string.h>

#define VALUES(...) \
    { __VA_ARGS__ }
#define LIST_TABLE(field, legal)                     \
    static const int legal_##field[] = VALUES legal; \
    enum { N_##field = COUNT(legal_##field) };
#define NAME_TABLE(field, legal)                            \
    static const char *const word_##field[] = VALUES legal; \
    enum { N_##field = COUNT(word_##field) };
#define DIM(field, name, def, kind, legal, unit, doc) kind##_TABLE(field, legal)
#include "dims.def"
#undef DIM

static const int word_index[] = {0, 1, 2, 3, 4, 5, 6, 7};

#define LIST_INFO(field) legal_##field, NULL
#define NAME_INFO(field) word_index, word_##field
#define DIM(field, name, def, kind, legal, unit, doc) {name, def, N_##field, kind##_INFO(field), unit, doc},
static const DimInfo dims[DIM_COUNT] = {
#include "dims.def"
};
#undef DIM

static const size_t dim_at[DIM_COUNT] = {
#define DIM(field, name, def, kind, legal, unit, doc) offsetof(Plan, field),
#include "dims.def"
#undef DIM
};

const DimInfo *dim_info(int d) {
    return &dims[d];
}

int *plan_dim(Plan *p, int d) {
    return (int *)(void *)((char *)p + dim_at[d]);
}

int plan_dim_get(const Plan *p, int d) {
    int v;
    memcpy(&v, (const char *)p + dim_at[d], sizeof v);
    return v;
}

static bool same(const char *name, const char *s, size_t n) {
    return strlen(name) == n && memcmp(name, s, n) == 0;
}

int dim_find(const char *s, size_t n) {
    for (int d = 0; d < DIM_COUNT; d++)
        if (same(dims[d].name, s, n)) return d;
    return -1;
}

bool dim_is_legal(int d, int value) {
    const int at = value - dims[d].legal[0]; /* of lists of all values from the first on */
    if (at >= 0 && at < dims[d].nlegal && dims[d].legal[at] == value) return true;
    for (int i = 0; i < dims[d].nlegal; i++)
        if (dims[d].legal[i] == value) return true;
    return false;
}

void dim_print_value(int d, int value, Buf *out) {
    if (dims[d].word && dim_is_legal(d, value))
        buf_str(out, dims[d].word[value]);
    else
        buf_fmt(out, "%d", value);
}

const char *dim_values(Cx *cx, int d) {
    Buf b = buf_new(cx->a);
    for (int i = 0; i < dims[d].nlegal; i++) {
        buf_str(&b, i ? " " : "");
        dim_print_value(d, dims[d].legal[i], &b);
    }
    return b.s;
}

const char *dim_names(Cx *cx) {
    Buf b = buf_new(cx->a);
    for (int d = 0; d < DIM_COUNT; d++) buf_fmt(&b, "%s ", dims[d].name);
    buf_str(&b, "hold.NAME");
    return b.s;
}

static const char *hold_names(Cx *cx) {
    Buf b = buf_new(cx->a);
    for (int h = HOLD_RELOAD; h < HOLD_COUNT; h++) buf_fmt(&b, "%s%s", h > HOLD_RELOAD ? " " : "", hold_text((Hold)h));
    return b.s;
}

Plan plan_default(void) {
    Plan p = {0};
    for (int d = 0; d < DIM_COUNT; d++) *plan_dim(&p, d) = dims[d].def;
    return p;
}

bool plan_equal(const Plan *x, const Plan *y) {
    bool same = x->nholds == y->nholds;
    for (int d = 0; same && d < DIM_COUNT; d++) same = plan_dim_get(x, d) == plan_dim_get(y, d);
    for (int i = 0; same && i < x->nholds; i++)
        same = x->hold[i].hold == y->hold[i].hold && str_eq(x->hold[i].name, y->hold[i].name);
    return same;
}

/* ---- text ---- */

static bool is_gap(char c) {
    return c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '\r';
}

bool item_next(const char **at, Item *out) {
    const char *s = *at;
    while (is_gap(*s)) s++;
    if (!*s) return false;
    *out = (Item){.name = s};
    while (*s && *s != '=' && !is_gap(*s)) s++;
    out->nname = (size_t)(s - out->name);
    if (*s == '=') {
        out->value = ++s;
        while (*s && !is_gap(*s)) s++;
        out->nvalue = (size_t)(s - out->value);
    }
    *at = s;
    return true;
}

bool item_hold(const Item *i, const char **name, size_t *n) {
    const char *head = "hold.";
    size_t len = strlen(head);
    if (i->nname <= len || memcmp(i->name, head, len) != 0) return false;
    *name = i->name + len;
    *n = i->nname - len;
    return true;
}

const char *item_quote(Cx *cx, const char *s, size_t n) {
    enum { SHOWN = 40 };
    char *t = arena_str(cx->a, s, n < SHOWN ? n : SHOWN);
    for (char *c = t; *c; c++) /* control bytes and halves of characters never reach a terminal */
        if (*c < 0x20 || *c > 0x7E) *c = '?';
    return n <= SHOWN ? t : arena_printf(cx->a, "%s...", t);
}

Err dim_read_value(Cx *cx, int d, const char *s, size_t n, int *out) {
    if (dims[d].word) {
        for (int i = 0; i < dims[d].nlegal; i++)
            if (same(dims[d].word[i], s, n)) return *out = i, OK;
    } else {
        int64_t v;
        if (str_i64(arena_str(cx->a, s, n), &v) && v >= 0 && v <= INT32_MAX && dim_is_legal(d, (int)v))
            return *out = (int)v, OK;
    }
    return diag(cx, S_PLAN_VALUE, NOWHERE, dim_values(cx, d), "%s=%s", dims[d].name, item_quote(cx, s, n));
}

Err hold_read(Cx *cx, const char *s, size_t n, Hold *out) {
    if (hold_find(arena_str(cx->a, s, n), out) && *out != HOLD_AUTO) return OK;
    return diag(cx, S_PLAN_VALUE, NOWHERE, hold_names(cx), "hold %s", item_quote(cx, s, n));
}

static bool is_identifier(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool digit = s[i] >= '0' && s[i] <= '9';
        bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
        if (!letter && !(digit && i)) return false;
    }
    return n > 0 && n <= MAX_NAME;
}

void plan_print(const Plan *p, Buf *out) {
    for (int d = 0; d < DIM_COUNT; d++) {
        buf_fmt(out, "%s%s=", d ? " " : "", dims[d].name);
        dim_print_value(d, plan_dim_get(p, d), out);
    }
    for (int i = 0; i < p->nholds; i++) buf_fmt(out, " hold.%s=%s", p->hold[i].name, hold_text(p->hold[i].hold));
}

static Err read_hold(Cx *cx, const Item *it, const char *name, size_t n, Plan *p) {
    if (!is_identifier(name, n))
        return diag(cx, S_PLAN_TEXT, NOWHERE, "a name of the program", "hold.%s", item_quote(cx, name, n));
    char *copy = arena_str(cx->a, name, n);
    if (plan_hold(p, copy) != HOLD_AUTO) return diag(cx, S_PLAN_TWICE, NOWHERE, NULL, "hold.%s is named twice", copy);
    if (p->nholds == MAX_CANDS) return diag(cx, S_PLAN_TEXT, NOWHERE, NULL, "more than %d holds", MAX_CANDS);
    Hold h;
    Err e = hold_read(cx, it->value, it->nvalue, &h);
    if (e) return e;
    p->hold[p->nholds].name = copy;
    p->hold[p->nholds++].hold = h;
    return OK;
}

Err plan_read(Cx *cx, const char *text, Plan *out) {
    *out = plan_default();
    bool named[DIM_COUNT] = {0};
    Item it;
    while (item_next(&text, &it)) {
        const char *name;
        size_t n;
        if (!it.value)
            return diag(cx, S_PLAN_TEXT, NOWHERE, "NAME=VALUE", "%s has no value", item_quote(cx, it.name, it.nname));
        if (item_hold(&it, &name, &n)) {
            Err e = read_hold(cx, &it, name, n, out);
            if (e) return e;
            continue;
        }
        int d = dim_find(it.name, it.nname);
        if (d < 0) return diag(cx, S_PLAN_DIMENSION, NOWHERE, dim_names(cx), "%s", item_quote(cx, it.name, it.nname));
        if (named[d]) return diag(cx, S_PLAN_TWICE, NOWHERE, NULL, "%s is named twice", dims[d].name);
        named[d] = true;
        Err e = dim_read_value(cx, d, it.value, it.nvalue, plan_dim(out, d));
        if (e) return e;
    }
    return OK;
}
