/* The text of a plan -> numbers; what follows from them and the program. */
#include "planread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Dim {
    const char *name;
    const char *words; /* between spaces; NULL: a number from 0 to 1024 */
} Dim;
static const Dim dims[] = {
    {"W", NULL},
    {"V", NULL},
    {"U", NULL},
    {"P", NULL},
    {"acc", NULL},
    {"flight", NULL},
    {"fuse", "off on"},
    {"stat", "two-pass online shifted welford"},
    {"div", "exact reciprocal"},
    {"order", "plan fixed serial"},
    {"combine", "inner outer pair"},
    {"load", "plain keep no-allocate stream"},
    {"store", "plain stream"},
    {"tail", "exact guarded head-shift"},
    {"index", NULL},
    {"cluster", NULL},
    {"split", NULL},
    {"stages", NULL},
    {"min-groups", NULL},
    {"early", "off on free"},
    {"grid", NULL},
    {"prefetch", NULL},
    {"exp", "exact fast own"},
    {"overlap", "off on fetch late"},
    {"segments", "off on"},
    {"threads", NULL},
    {"stagger", "off on"},
    {"ahead", NULL},
    {"exchange", "barrier bytes"},
    {"contract", "off on"},
};
enum {
    DIMS = sizeof dims / sizeof *dims,
    TAIL = 13,
    CLUSTER = 15,
    SPLIT = 16,
    AHEAD = 27,
    EXP = 22,
    CONTRACT = 29,
    LATER = 22
}; /* from LATER on they may be missing */
static const char homes[] = "reload register register.f32 output shared recompute";

static int word_at(const char *words, const char *w) { /* -1: it is none of them */
    const size_t n = strlen(w);
    int i = 0;
    for (const char *s = words; *s; i++) {
        const size_t len = strcspn(s, " ");
        if (len == n && !memcmp(s, w, n)) return i;
        s += len;
        while (*s == ' ') s++;
    }
    return -1;
}

int plan_items(Mem *m, const char *text, PlanItem out[ITEMS]) {
    int n = 0;
    char *s = mem_text(m, text, strlen(text));
    while (*s) {
        if (n == ITEMS) return -1;
        char *end = s + strcspn(s, " \n"), *eq = memchr(s, '=', (size_t)(end - s));
        if (!eq || eq == s || eq + 1 == end) return -1;
        const bool last = !*end;
        *eq = *end = 0;
        out[n++] = (PlanItem){s, eq + 1};
        s = last ? end : end + 1;
    }
    return n;
}

bool plan_parse(Mem *m, const char *text, PlanText *out, const char **why) {
    PlanItem item[ITEMS];
    const int n = plan_items(m, text, item);
    int64_t value[DIMS] = {0};
    bool seen[DIMS] = {false};
    *out = (PlanText){0};
    if (n < 0) return *why = "a plan's text is NAME=VALUE between single spaces", false;
    for (int i = 0; i < n; i++) {
        if (!strncmp(item[i].name, "hold.", 5)) {
            if (word_at(homes, item[i].value) < 0) return *why = "an unknown home of a value", false;
            for (int k = 0; k < out->nholds; k++)
                if (same_text(out->hold[k], item[i].name + 5)) return *why = "a value held twice", false;
            if (out->nholds == HOLDS) return *why = "too many held values", false;
            out->hold[out->nholds] = item[i].name + 5;
            out->home[out->nholds++] = item[i].value;
            continue;
        }
        int d = 0;
        while (d < DIMS && !same_text(dims[d].name, item[i].name)) d++;
        if (d == DIMS) { /* of a later rowfold: what it does is not known */
            out->unknown = item[i].name;
            continue;
        }
        if (seen[d]) return *why = mem_fmt(m, "dimension %s twice", dims[d].name), false;
        seen[d] = true;
        char *end = NULL;
        errno = 0;
        value[d] = dims[d].words ? word_at(dims[d].words, item[i].value) : strtoll(item[i].value, &end, 10);
        if (value[d] < 0 || value[d] > 1024 || errno || (end && *end))
            return *why = mem_fmt(m, "dimension %s has no such value", dims[d].name), false;
    }
    for (int d = 0; d < DIMS; d++)
        if (!seen[d] && d < LATER) return *why = mem_fmt(m, "dimension %s is missing", dims[d].name), false;
    out->W = value[0], out->V = value[1], out->U = value[2], out->P = value[3], out->acc = value[4];
    out->flight = value[5];
    out->fuse = (int)value[6], out->stat = (int)value[7], out->div = (int)value[8], out->order = (int)value[9];
    out->combine = (int)value[10], out->cluster = value[CLUSTER], out->exp = (int)value[EXP];
    out->contract = (int)value[CONTRACT], out->tail = (int)value[TAIL];
    out->split = value[SPLIT];
    out->ahead = value[AHEAD] < 0 ? 0 : value[AHEAD];
    out->lanes = out->W * out->cluster * out->split;
    if (!out->lanes || !out->V || !out->U || !out->P || !out->acc || !out->flight)
        return *why = "W, V, U, P, acc, flight, cluster and split are at least 1", false;
    return true;
}

int64_t slots_of(int64_t n, int64_t W, int64_t V) {
    const int64_t chunk = W * V;
    return n / chunk * V + min_of(n % chunk, V);
}

Rules plan_rules(const Program *p, const PlanText *plan, bool native) {
    Rules r = {plan->lanes * plan->acc, plan->V * plan->flight, 1, plan->order, plan->stat, plan->div == 1, native,
               plan->exp == 1,          plan->contract == 1};
    /* A reduction over some of its operand's axes may be looped over by every lane: chains are then as long as the row.
     */
    for (int i = 0; i < p->nvals; i++) {
        const PVal *v = &p->val[i];
        if (v->kind != V_RED) continue;
        const uint32_t el = p->val[v->a[0]].axes & ~p->rows;
        if (el != v->over) r.points = max_of(r.points, program_points(p, v->over));
    }
    return r;
}

/* ---- reductions and sweeps from the program alone ---- */
typedef struct Plain { /* one reduction after the macros are written out */
    char kind; /* s sum, q of squares, d of squared deviations, e and g of exponentials, M maximum, others by RedOp */
    int x;
    uint32_t over;
    int level; /* of the sweep that does it */
} Plain;
typedef struct Sweeps {
    const Program *p;
    const PlanText *plan; /* NULL: all statistics in two sweeps */
    bool *needed;
    int *level; /* by value: the first sweep in which it can be computed */
    Plain list[VALS];
    int n;
    uint32_t sinks[2 * VALS]; /* axes that each sweep that must be goes over */
    int at[2 * VALS], nsinks;
} Sweeps;

static bool is_map(const Program *p, int v, MapOp m) {
    return p->val[v].kind == V_MAP && p->val[v].map == m;
}

static int put(Sweeps *s, char kind, int x, uint32_t over,
               int level) { /* its level; one that is there is not done again */
    for (int i = 0; i < s->n; i++)
        if (s->list[i].kind == kind && s->list[i].x == x && s->list[i].over == over) return s->list[i].level;
    if (s->n < VALS) s->list[s->n++] = (Plain){kind, x, over, level};
    s->at[s->nsinks] = level;
    if (s->nsinks < 2 * VALS - 1) s->sinks[s->nsinks++] = s->p->val[x].axes & ~s->p->rows;
    return level;
}

static int mean_of(const Program *p, int m, uint32_t over) { /* x, where m is its mean; else -1 */
    const PVal *v = &p->val[m];
    if (v->kind == V_RED && v->red == R_MEAN && v->over == over) return v->a[0];
    if (!is_map(p, m, M_DIV)) return -1;
    const PVal *s = &p->val[v->a[0]], *n = &p->val[v->a[1]];
    return s->kind == V_RED && s->red == R_SUM && s->over == over && n->kind == V_CONST &&
                   n->k.v == round_float(n->ty, (long double)program_points(p, over))
               ? s->a[0]
               : -1;
}

/* A reduction, as plain ones; the level at which its result is there. */
static int reduce(Sweeps *s, const PVal *v) {
    const Program *p = s->p;
    const int x = v->a[0], at = s->level[x];
    const int stat = s->plan ? s->plan->stat : TWO_PASS;
    const bool joint = (stat == SHIFTED || stat == WELFORD) && !v->ordered;
    switch (v->red) {
    case R_VAR: {
        const int first = put(s, 's', x, v->over, at);
        return put(s, 'd', x, v->over, joint ? first : first + 1) + 1;
    }
    case R_NORM2: return put(s, 'q', x, v->over, at) + 1;
    case R_LSE: {
        const int first = put(s, 'M', x, v->over, at);
        return put(s, 'g', x, v->over, stat == ONLINE && !v->ordered ? first : first + 1) +
               1; /* its maximum is guarded */
    }
    case R_SUM:
    case R_MEAN: {
        if (is_map(p, x, M_MUL) && p->val[x].a[0] == p->val[x].a[1]) {
            const int f = p->val[x].a[0];
            const int c = is_map(p, f, M_SUB) ? mean_of(p, p->val[f].a[1], v->over) : -1;
            if (c >= 0 && c == p->val[f].a[0])
                return put(s, 'd', c, v->over, joint ? put(s, 's', c, v->over, s->level[c]) : at) + 1;
            return put(s, 'q', f, v->over, at) + 1;
        }
        if (is_map(p, x, M_EXP) && is_map(p, p->val[x].a[0], M_SUB)) {
            const PVal *d = &p->val[p->val[x].a[0]], *m = &p->val[d->a[1]];
            if (m->kind == V_RED && m->red == R_MAX && m->a[0] == d->a[0] && m->over == v->over)
                return put(s, 'e', d->a[0], v->over,
                           stat == ONLINE && !v->ordered ? put(s, 'M', d->a[0], v->over, s->level[d->a[0]]) : at) +
                       1;
        }
        return put(s, 's', x, v->over, at) + 1;
    }
    case R_MAX: return put(s, 'M', x, v->over, at) + 1;
    default: return put(s, (char)('0' + v->red), x, v->over, at) + 1;
    }
}

static Sweeps *sweeps_of(const Program *p, const PlanText *plan, Mem *m) {
    Sweeps *s = mem_get(m, sizeof *s);
    s->p = p;
    s->plan = plan;
    s->needed = mem_array(m, (size_t)p->nvals + 1, sizeof(bool));
    s->level = mem_array(m, (size_t)p->nvals + 1, sizeof(int));
    for (int i = 0; i < p->nouts; i++) s->needed[p->out_val[i]] = true;
    int dep[DEPS];
    for (int i = p->nvals - 1; i >= 0; i--)
        for (int n = val_needs(p, &p->val[i], dep); s->needed[i] && n-- > 0;) s->needed[dep[n]] = true;
    for (int i = 0; i < p->nvals; i++) {
        const PVal *v = &p->val[i];
        if (!s->needed[i]) continue;
        for (int n = val_needs(p, v, dep); n-- > 0;)
            if (s->level[dep[n]] > s->level[i]) s->level[i] = s->level[dep[n]];
        const PVal *x = v->kind == V_RED ? &p->val[v->a[0]] : NULL;
        if (x && v->red == R_MAX && x->kind == V_IDX) continue; /* a number: the extent */
        if (x) s->level[i] = reduce(s, v);
    }
    return s;
}

int plan_reductions(Mem *m, const Program *p) {
    return sweeps_of(p, NULL, m)->n;
}

/* Has it an element axis that a row axis parts in memory from its last ones? Then lanes may loop over it. */
static bool is_parted(const Program *p, const PParam *q) {
    bool element = false;
    for (int d = 0; d < q->rank; d++) {
        if (element && p->rows >> q->axis[d] & 1) return true;
        element |= !(p->rows >> q->axis[d] & 1);
    }
    return false;
}

bool plan_rounds(Mem *m, const Program *p, const PlanText *plan, int64_t *rounds, int *sweeps) {
    for (int q = 0; q < p->nparams; q++)
        if (is_parted(p, &p->param[q])) return false;
    for (int i = 0; i < p->nvals; i++) {
        const PVal *v = &p->val[i];
        if (v->kind == V_RED && (p->val[v->a[0]].axes & ~p->rows) != v->over) return false;
    }
    Sweeps *s = sweeps_of(p, plan, m);
    uint32_t all = 0;
    for (int i = 0; i < p->nvals; i++) all |= s->needed[i] ? p->val[i].axes & ~p->rows : 0;
    for (int o = 0; o < p->nouts; o++) {
        const PParam *q = &p->param[p->out_param[o]];
        uint32_t axes = 0;
        for (int d = 0; d < q->rank; d++) axes |= 1u << q->axis[d];
        s->at[s->nsinks] = s->level[p->out_val[o]];
        if (s->nsinks < 2 * VALS - 1) s->sinks[s->nsinks++] = axes & ~p->rows;
    }
    *rounds = 0;
    *sweeps = 0;
    for (int i = 0; i < s->nsinks; i++) {
        bool joined = false;
        for (int k = 0; plan->fuse && k < i; k++) joined |= s->at[k] == s->at[i] && s->sinks[k] == s->sinks[i];
        if (joined || !s->sinks[i]) continue; /* a number a row needs no sweep */
        if (s->sinks[i] != all) return false;
        ++*sweeps;
        *rounds += slots_of(program_points(p, s->sinks[i]), plan->lanes, plan->V);
    }
    for (int h = 0; h < plan->nholds && !plan->fuse; h++)
        if (!same_text(plan->home[h], "reload") && !same_text(plan->home[h], "recompute"))
            return false; /* sweeps that fill them */
    return true;
}
