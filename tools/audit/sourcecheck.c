/* The kernel's text beside the program that a record says it is: the two trees are walked together. Conversions that
 * the language puts in by itself are passed over; where the program has a constant that was folded from more than
 * literals, the text is not followed. */
#include "checks.h"
#include "sourceread.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef enum Match { NO, OPEN, YES } Match;
enum { STEPS_MOST = 1 << 20, DEPTH_MOST = 4000 };
typedef struct Walk {
    const CaseInfo *c;
    const Program *p;
    const Kernel *k;
    int *known; /* by statement: the value that it was found to be, or -1 */
    int64_t steps;
    int depth;
    const char *types; /* "T=f32,..." as given */
} Walk;

static Match both(Match a, Match b) {
    return a < b ? a : b;
}

static const Param0 *param_named(const Kernel *k, const char *name) {
    for (int i = 0; i < k->nparams; i++)
        if (same_text(k->param[i].name, name)) return &k->param[i];
    return NULL;
}

/* Types by name; those that the caller binds, by a parameter of the program that has them. */
static bool type_of(const Walk *w, const char *name, Type *out) {
    if (type_named(name, out)) return true;
    for (int i = 0; i < w->k->nparams; i++)
        if (same_text(w->k->param[i].type, name)) return *out = w->p->param[i].ty, true;
    return false;
}

static double const_value(const Walk *w, const char *name) {
    const int q = program_param(w->p, name);
    const json_t *j = q < 0 ? NULL : json_array_get(at(w->c->j, "params"), (size_t)q);
    return at(j, "value")                         ? real_at(j, "value")
           : q >= 0 && w->p->param[q].has_default ? w->p->param[q].def
                                                  : (double)NAN;
}

/* A literal, or literals joined. whole: computed in integers. */
static bool literal(const Walk *w, const Node *n, long double *v, bool *whole) {
    long double x, y;
    bool xw, yw;
    const Param0 *q;
    switch (n->kind) {
    case N_NUMBER: *v = n->value, *whole = n->whole; return true;
    case N_NAME:
        if (n->def >= 0) return literal(w, w->k->statement[n->def].value, v, whole);
        q = param_named(w->k, n->text);
        if (!q || !same_text(q->way, "const")) return false;
        *v = (long double)const_value(w, n->text);
        *whole = false;
        return true;
    case N_MAP:
        if (same_text(n->text, "neg")) {
            if (!literal(w, n->arg[0], v, whole)) return false;
            *v = -*v;
            return true;
        }
        if (!strchr("+-*/", *n->text) || n->text[1] || !literal(w, n->arg[0], &x, &xw) ||
            !literal(w, n->arg[1], &y, &yw))
            return false;
        *whole = xw && yw;
        *v = *n->text == '+' ? x + y : *n->text == '-' ? x - y : *n->text == '*' ? x * y : x / y;
        if (*whole && *n->text == '/') *v = y != 0 ? truncl(x / y) : 0;
        if (!*whole) *v = round_float(F64, *v);
        return true;
    default: return false;
    }
}

static int strip(const Program *p, int v) {
    while (p->val[v].kind == V_CAST) v = p->val[v].a[0];
    return v;
}

static Match match(Walk *w, const Node *n, int val);

static Match match_read(Walk *w, const Node *n, int val) {
    const PVal *v = &w->p->val[val];
    const int q = program_param(w->p, n->text);
    if (v->kind != V_LOAD || v->param != q || n->n != w->p->param[q].rank) return NO;
    Match m = YES;
    for (int d = 0; d < n->n; d++) m = both(m, match(w, n->arg[d], v->idx[d]));
    if (n->fill && v->fill >= 0) return both(m, match(w, n->fill, v->fill));
    return !n->fill == (v->fill < 0) ? m : load_in_place(w->p, v) ? m : NO;
}

static Match match_name(Walk *w, const Node *n, int val) {
    const Program *p = w->p;
    const PVal *v = &p->val[val];
    if (n->def >= 0) {
        if (w->known[n->def] == val) return YES;
        const Match m = match(w, w->k->statement[n->def].value, val);
        if (m == YES) w->known[n->def] = val;
        return m;
    }
    const int axis = program_axis(p, n->text), q = program_param(p, n->text);
    if (axis >= 0) return v->kind == V_IDX && v->axis == axis ? YES : NO;
    if (q < 0) return NO;
    if (p->param[q].way == W_SCALAR) return v->kind == V_SCALAR && v->param == q ? YES : NO;
    return v->param == q && load_in_place(p, v) && v->fill < 0 ? YES : NO;
}

static Match match_red(Walk *w, const Node *n, int val) {
    static const char *const reds[REDS] = {"sum",    "prod",   "max",  "min", "any",   "all",
                                           "argmax", "argmin", "mean", "var", "norm2", "logsumexp"};
    const PVal *v = &w->p->val[val];
    int red = 0;
    while (red < REDS && !same_text(n->text, reds[red])) red++;
    if (red == REDS || v->kind != V_RED || v->red != (RedOp)red || n->n != 1 || v->ordered != n->ordered) return NO;
    uint32_t over = 0;
    for (int i = 0; i < n->nover; i++) {
        const int a = program_axis(w->p, n->over[i]);
        if (a < 0) return NO;
        over |= 1u << a;
    }
    if (n->nover < 0) over = w->p->val[v->a[0]].axes & ~w->p->rows;
    return v->over == over ? match(w, n->arg[0], v->a[0]) : NO;
}

/* T(x): the conversion stands in the chain, or x has the type already. */
static Match match_cast(Walk *w, const Node *n, Type to, int val) {
    for (int v = val; w->p->val[v].kind == V_CAST; v = w->p->val[v].a[0])
        if (w->p->val[v].to == to) return match(w, n->arg[0], w->p->val[v].a[0]);
    const PVal *x = &w->p->val[strip(w->p, val)];
    if (x->kind == V_CONST) return OPEN;
    const bool has = x->ty == to || (x->kind == V_LOAD && w->p->param[x->param].ty == to);
    return has ? match(w, n->arg[0], val) : NO;
}

static Match match_map(Walk *w, const Node *n, int val) {
    const PVal *v = &w->p->val[val];
    if (v->kind != V_MAP || !same_text(map_fact(v->map)->text, n->text) || map_fact(v->map)->arity != n->n) return NO;
    Match m = YES;
    for (int i = 0; i < n->n && m; i++) m = both(m, match(w, n->arg[i], v->a[i]));
    return m;
}

static Match match(Walk *w, const Node *n, int val) {
    long double x;
    bool whole;
    Type to;
    Match m = NO;
    if (++w->steps > STEPS_MOST || w->depth > DEPTH_MOST) return OPEN;
    w->depth++;
    const int v = strip(w->p, val);
    const PVal *s = &w->p->val[v];
    if (literal(w, n, &x, &whole)) {
        const long double k = s->kind != V_CONST               ? (long double)NAN
                              : type_fact(s->ty)->kind == REAL ? s->k.v
                                                               : int_real(s->ty, s->k.i);
        const bool same = s->kind == V_CONST &&
                          ((isnan(x) && isnan(k)) || k == (type_fact(s->ty)->kind == REAL ? round_float(s->ty, x) : x));
        m = same ? YES : s->kind == V_CONST && v != val ? OPEN : NO;
    } else if (n->kind == N_CALL && n->n == 1 && type_of(w, n->text, &to)) {
        m = match_cast(w, n, to, val);
    } else if (n->kind == N_NAME && n->def >= 0) {
        m = match_name(w, n, val); /* what it stands for may be a conversion */
    } else if (s->kind == V_CONST) {
        m = OPEN; /* folded */
    } else if (n->kind == N_NAME) {
        m = match_name(w, n, v);
    } else if (n->kind == N_READ) {
        m = match_read(w, n, v);
    } else if (n->kind == N_CALL && same_text(n->text, "idx") && n->n == 1) {
        m = s->kind == V_IDX && s->axis == program_axis(w->p, n->arg[0]->text) ? YES : NO;
    } else if (n->kind == N_CALL) {
        m = match_map(w, n, v);
        if (!m) m = match_red(w, n, v);
    } else if (n->kind == N_MAP) {
        m = match_map(w, n, v);
    }
    w->depth--;
    return m;
}

/* ---- the head ---- */
static bool heads_match(const Walk *w) {
    const Program *p = w->p;
    const Kernel *k = w->k;
    static const char *const ways[] = {"in", "out", "inout", "scalar", "const"};
    if (k->nparams != p->nparams) return false;
    int rows = 0;
    for (int i = 0; i < p->naxes; i++) rows += p->axis[i].row;
    if (rows != k->nrows) return false;
    for (int i = 0; i < k->nrows; i++) {
        const int a = program_axis(p, k->row[i]);
        if (a < 0 || !p->axis[a].row) return false;
    }
    for (int i = 0; i < k->nparams; i++) {
        const Param0 *q = &k->param[i];
        const PParam *r = &p->param[i];
        Type t;
        if (!same_text(q->name, r->name) || !same_text(q->way, ways[r->way]) || q->naxes != r->rank ||
            !type_of(w, q->type, &t) || t != r->ty)
            return false;
        for (int d = 0; d < q->naxes; d++)
            if (!same_text(q->axis[d], p->axis[r->axis[d]].name)) return false;
        long double v;
        bool whole;
        if (q->def && r->way == W_SCALAR && literal(w, q->def, &v, &whole)) {
            const bool rounds = type_fact(r->ty)->kind == REAL;
            const long double x = rounds ? round_float(r->ty, v) : v,
                              y = rounds ? round_float(r->ty, (long double)r->def) : (long double)r->def;
            if (!r->has_default || !((isnan(x) && isnan(y)) || x == y)) return false;
        }
        const size_t n = strlen(q->type); /* the binding as it was given */
        for (const char *s = w->types; isupper((unsigned char)*q->type) && (s = strstr(s, q->type)); s += n) {
            const bool starts = s == w->types || s[-1] == ',' || s[-1] == ' ';
            if (!starts || s[n] != '=') continue;
            const size_t len = strcspn(s + n + 1, ", ");
            if (len != strlen(type_fact(t)->name) || strncmp(s + n + 1, type_fact(t)->name, len) != 0) return false;
        }
    }
    return true;
}

static bool extent(const Walk *w, const Node *n, int depth, int64_t *out) {
    int64_t x = 0, y = 0;
    long double v;
    bool whole;
    if (depth > 200) return false;
    const int axis = n->kind == N_NAME ? program_axis(w->p, n->text) : -1;
    if (axis >= 0) return *out = w->p->n[axis], true;
    if (literal(w, n, &v, &whole) && fabsl(v) < 0x1p60L && v == rintl(v) && n->kind != N_MAP)
        return *out = (int64_t)v, true;
    if (n->kind != N_MAP || n->n != 2 || !extent(w, n->arg[0], depth + 1, &x) || !extent(w, n->arg[1], depth + 1, &y))
        return false;
    const int64_t q = y > 0 && x >= 0 ? x / y : 0;
    switch (*n->text) {
    case '+': return !__builtin_add_overflow(x, y, out);
    case '-': return !__builtin_sub_overflow(x, y, out);
    case '*': return !__builtin_mul_overflow(x, y, out);
    case '/': return *out = q, y > 0 && x >= 0;
    case '%': return *out = x - q * y, y > 0 && x >= 0;
    default: return false;
    }
}

void source_check(Audit *a, const CaseInfo *c) {
    const char *why = "";
    Walk w = {.c = c, .p = c->p, .types = text_at(c->j, "types")};
    w.k = kernel_read(a->m, text_at(at(c->j, "source"), "text"), text_at(c->j, "kernel"), &why);
    check(a, w.k != NULL, "source", c->place, "%s", why);
    if (!w.k) return;
    if (!check(a, heads_match(&w), "source", c->place, "the kernel's head is not the program's")) return;
    w.known = mem_array(a->m, (size_t)w.k->nstatements + 1, sizeof *w.known);
    for (int i = 0; i < w.k->nstatements; i++) w.known[i] = -1;
    for (int i = 0; i < w.k->nstatements; i++) {
        const Statement *s = &w.k->statement[i];
        int64_t n;
        if (!s->is_axis) continue;
        const int axis = program_axis(c->p, s->name);
        if (axis >= 0 && extent(&w, s->value, 0, &n))
            check(a, n == c->p->n[axis], "source", c->place, "axis %.60s is %lld by the text", s->name, (long long)n);
        else
            unknown(a, "source", c->place, "the extent of axis %.60s is not followed", s->name);
    }
    for (int o = 0; o < c->p->nouts; o++) {
        const char *name = c->p->param[c->p->out_param[o]].name;
        int def = -1;
        for (int i = 0; i < w.k->nstatements; i++)
            if (!w.k->statement[i].is_axis && same_text(w.k->statement[i].name, name)) def = i;
        const Match m = def < 0 ? NO : match(&w, w.k->statement[def].value, c->p->out_val[o]);
        if (m == OPEN)
            unknown(a, "source", c->place, "output %.60s: a constant was folded, or the text is too long to follow",
                    name);
        else
            check(a, m == YES, "source", c->place, "output %.60s is computed otherwise by the text than by the program",
                  name);
    }
}
