/* A program's values in one row: leaves, reads, maps and reductions over tiles with named axes. */
#include "evaluate.h"

#include <math.h>
#include <string.h>

#define INF ((double)INFINITY)
enum { WORK_MOST = 1 << 27 }; /* elements of all values of a row */

/* A walk over the points of a set of axes, row-major, with the place of each operand. */
enum { OPERANDS = DEPS };
typedef struct Walk {
    int rank, nops, axis[AXES];
    int64_t n[AXES], at[AXES], step[OPERANDS][AXES], off[OPERANDS], points;
} Walk;

static void walk_axes(Walk *w, const Program *p, uint32_t axes) {
    for (int i = 0; i < p->naxes; i++) {
        if (!(axes >> i & 1)) continue;
        w->axis[w->rank] = i;
        w->n[w->rank++] = p->n[i];
        w->points *= p->n[i];
    }
}

static void walk_operand(Walk *w, const Program *p, uint32_t axes) {
    int64_t stride[AXES] = {0}, s = 1;
    for (int i = p->naxes - 1; i >= 0; i--)
        if (axes >> i & 1) stride[i] = s, s *= p->n[i];
    for (int d = 0; d < w->rank; d++) w->step[w->nops][d] = stride[w->axis[d]];
    w->nops++;
}

static void walk_next(Walk *w) {
    for (int d = w->rank - 1; d >= 0; d--) {
        for (int k = 0; k < w->nops; k++) w->off[k] += w->step[k][d];
        if (++w->at[d] < w->n[d]) return;
        for (int k = 0; k < w->nops; k++) w->off[k] -= w->step[k][d] * w->n[d];
        w->at[d] = 0;
    }
}

/* ---- what is known of a value beforehand ---- */
static bool never_negative(const Program *p, const bool *known, const PVal *v) {
    const bool x = v->a[0] >= 0 && known[v->a[0]], y = v->a[1] >= 0 && known[v->a[1]];
    if (v->kind == V_CONST) return type_fact(v->ty)->kind == REAL && v->k.v >= 0;
    if (v->kind == V_CAST) return x && type_fact(p->val[v->a[0]].ty)->kind == REAL;
    if (v->kind == V_RED)
        return v->red == R_VAR || v->red == R_NORM2 || (x && v->red <= R_MIN) || (x && v->red == R_MEAN);
    if (v->kind != V_MAP) return false;
    switch (v->map) {
    case M_MUL: return (x && y) || v->a[0] == v->a[1];
    case M_ADD:
    case M_DIV:
    case M_MIN: return x && y;
    case M_MAX: return x || y;
    case M_WHERE: return y && known[v->a[2]];
    case M_ABS:
    case M_SQRT:
    case M_RSQRT:
    case M_EXP:
    case M_EXP2:
    case M_SIGMOID: return true;
    case M_POW:
    case M_FLOOR:
    case M_ROUND:
    case M_TANH:
    case M_ERF: return x;
    default: return false;
    }
}

static bool is_map(const Program *p, int v, MapOp m) {
    return v >= 0 && p->val[v].kind == V_MAP && p->val[v].map == m;
}
static bool is_red(const Program *p, int v, RedOp r) {
    return v >= 0 && p->val[v].kind == V_RED && p->val[v].red == r;
}

/* Is value m the mean of x over these axes: mean(x), or sum(x) / number? */
static bool is_mean(const Program *p, int m, int x, uint32_t over) {
    if (is_map(p, m, M_DIV)) {
        const PVal *n = &p->val[p->val[m].a[1]];
        if (n->kind != V_CONST || n->k.v != round_float(n->ty, program_points(p, over))) return false;
        m = p->val[m].a[0];
        return is_red(p, m, R_SUM) && p->val[m].a[0] == x && p->val[m].over == over;
    }
    return is_red(p, m, R_MEAN) && p->val[m].a[0] == x && p->val[m].over == over;
}

static void find_patterns(Eval *e) {
    const Program *p = e->p;
    for (int i = 0; i < p->nvals; i++) {
        const PVal *v = &p->val[i];
        e->centred[i] = -1;
        if (!is_red(p, i, R_SUM) && !is_red(p, i, R_MEAN)) continue;
        const int f = v->a[0];
        if (is_map(p, f, M_MUL) && p->val[f].a[0] == p->val[f].a[1] && is_map(p, p->val[f].a[0], M_SUB)) {
            const PVal *c = &p->val[p->val[f].a[0]];
            if (is_mean(p, c->a[1], c->a[0], v->over) && p->val[c->a[0]].axes == p->val[f].axes)
                e->centred[i] = c->a[0];
        }
        if (is_map(p, f, M_EXP) && is_map(p, p->val[f].a[0], M_SUB)) {
            const PVal *d = &p->val[p->val[f].a[0]];
            const int m = is_map(p, d->a[1], M_WHERE) ? p->val[d->a[1]].a[2] : d->a[1];
            e->online[i] = is_red(p, m, R_MAX) && p->val[m].a[0] == d->a[0] && p->val[m].over == v->over;
        }
    }
}

static int needs(const Eval *e, int i, int dep[DEPS + 1]) {
    int n = val_needs(e->p, &e->p->val[i], dep);
    if (e->centred[i] >= 0) dep[n++] = e->centred[i];
    return n;
}

int64_t eval_work(const Program *p) {
    int64_t all = 0;
    for (int i = 0; i < p->nvals; i++) all += program_points(p, p->val[i].axes & ~p->rows) + 1;
    return all;
}

Eval *eval_new(Mem *m, const Program *p, const Tensor *in, const Number *scalar, const Rules *rules, const char **why) {
    if (eval_work(p) > WORK_MOST) return *why = "a row of the program is too large to evaluate here", NULL;
    Eval *e = mem_get(m, sizeof *e);
    *e = (Eval){.m = m, .p = p, .in = in, .rules = *rules};
    memcpy(e->scalar, scalar, sizeof e->scalar);
    e->tile = mem_array(m, (size_t)p->nvals + 1, sizeof *e->tile);
    e->needed = mem_array(m, (size_t)p->nvals + 1, sizeof(bool));
    e->positive = mem_array(m, (size_t)p->nvals + 1, sizeof(bool));
    e->online = mem_array(m, (size_t)p->nvals + 1, sizeof(bool));
    e->centred = mem_array(m, (size_t)p->nvals + 1, sizeof(int));
    find_patterns(e);
    for (int i = 0; i < p->nvals; i++) e->positive[i] = never_negative(p, e->positive, &p->val[i]);
    for (int i = 0; i < p->nouts; i++) e->needed[p->out_val[i]] = true;
    for (int i = p->nvals - 1; i >= 0; i--) {
        int dep[DEPS + 1];
        for (int n = needs(e, i, dep); e->needed[i] && n-- > 0;) e->needed[dep[n]] = true;
    }
    return e;
}

/* ---- values ---- */
static Cell tile_cell(const Tile *t, int64_t i) {
    return (Cell){t->v ? t->v[i] : 0, t->i ? t->i[i] : 0, t->e[i]};
}
static void tile_put(Tile *t, int64_t i, Cell c) {
    if (t->v) t->v[i] = c.v;
    if (t->i) t->i[i] = c.i;
    t->e[i] = c.e;
}

static void eval_load(Eval *e, const PVal *v, Tile *t) {
    const Program *p = e->p;
    const PParam *q = &p->param[v->param];
    Walk w = {.points = 1};
    walk_axes(&w, p, t->axes);
    for (int d = 0; d < q->rank; d++) walk_operand(&w, p, e->tile[v->idx[d]].axes);
    if (v->fill >= 0) walk_operand(&w, p, e->tile[v->fill].axes);
    for (int64_t i = 0; i < t->n; i++, walk_next(&w)) {
        int64_t at = 0;
        bool inside = true;
        double open = 0;
        for (int d = 0; d < q->rank; d++) {
            const Tile *x = &e->tile[v->idx[d]];
            const int64_t k = convert(p->val[v->idx[d]].ty, I64, (Number){0, x->i[w.off[d]]}).i, n = p->n[q->axis[d]];
            open += x->e[w.off[d]];
            inside = inside && k >= 0 && k < n;
            if (inside) at = at * n + k;
        }
        Cell c = {(long double)NAN, 0, 0};
        if (inside) {
            const Number x = tensor_at(&e->in[v->param], at);
            c = (Cell){x.v, x.i, 0};
        } else if (v->fill >= 0) {
            c = tile_cell(&e->tile[v->fill], w.off[q->rank]);
        }
        if (open > 0) c.e = INF; /* another element, which may be anything */
        tile_put(t, i, c);
    }
}

static void eval_map(Eval *e, const PVal *v, Tile *t) {
    const int arity = v->kind == V_CAST ? 1 : map_fact(v->map)->arity;
    const Type operand = e->p->val[v->a[0]].ty;
    bool positive[3] = {false, false, false};
    Walk w = {.points = 1};
    walk_axes(&w, e->p, t->axes);
    for (int k = 0; k < arity; k++) {
        walk_operand(&w, e->p, e->tile[v->a[k]].axes);
        positive[k] = e->positive[v->a[k]];
    }
    for (int64_t i = 0; i < t->n; i++, walk_next(&w)) {
        Cell a[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
        for (int k = 0; k < arity; k++) a[k] = tile_cell(&e->tile[v->a[k]], w.off[k]);
        tile_put(t, i,
                 v->kind == V_CAST ? cast_cell(operand, v->to, a[0])
                                   : map_cell(&e->rules, v->map, operand, v->ty, a, positive));
    }
}

static void eval_red(Eval *e, int val, Tile *t) {
    const Program *p = e->p;
    const PVal *v = &p->val[val];
    const Tile *x = &e->tile[v->a[0]], *c = e->centred[val] >= 0 ? &e->tile[e->centred[val]] : NULL;
    Walk outer = {.points = 1};
    walk_axes(&outer, p, t->axes);
    walk_operand(&outer, p, x->axes);
    const int64_t n = program_points(p, v->over);
    const size_t count = (size_t)n + 1;
    long double *xv = mem_array(e->m, count, sizeof *xv), *cv = mem_array(e->m, c ? count : 1, sizeof *cv);
    int64_t *xi = mem_array(e->m, count, sizeof *xi);
    double *xe = mem_array(e->m, count, sizeof *xe), *ce = mem_array(e->m, c ? count : 1, sizeof *ce);
    const Line line = {p->val[v->a[0]].ty, n, xv, xi, xe}, centre = {line.ty, n, cv, NULL, ce};
    const Extra extra = {c ? &centre : NULL, e->online[val]};
    t->set = mem_array(e->m, (size_t)t->n + 1, sizeof *t->set);
    for (int64_t i = 0; i < t->n; i++, walk_next(&outer)) {
        Walk w = {.points = 1};
        walk_axes(&w, p, v->over);
        walk_operand(&w, p, x->axes);
        for (int64_t k = 0; k < n; k++, walk_next(&w)) {
            const int64_t at = outer.off[0] + w.off[0];
            if (x->v) xv[k] = x->v[at];
            if (x->i) xi[k] = x->i[at];
            xe[k] = x->e[at];
            if (c) cv[k] = c->v[at], ce[k] = c->e[at];
        }
        tile_put(t, i, red_cell(e->m, &e->rules, v, &line, &extra, &t->set[i]));
    }
}

static void eval_leaf(Eval *e, const PVal *v, Tile *t) {
    if (v->kind == V_CONST) {
        tile_put(t, 0, (Cell){v->k.v, v->k.i, 0});
    } else if (v->kind == V_SCALAR) {
        tile_put(t, 0, (Cell){e->scalar[v->param].v, e->scalar[v->param].i, 0});
    } else if (e->p->rows >> v->axis & 1) {
        tile_put(t, 0, (Cell){0, e->row[v->axis], 0});
    } else {
        for (int64_t i = 0; i < t->n; i++) tile_put(t, i, (Cell){0, i, 0});
    }
}

/* The caller takes back the memory of a row (mem_mark, mem_back). */
void eval_row(Eval *e, const int64_t row[AXES]) {
    memcpy(e->row, row, sizeof e->row);
    for (int i = 0; i < e->p->nvals; i++) {
        const PVal *v = &e->p->val[i];
        Tile *t = &e->tile[i];
        if (!e->needed[i]) continue;
        *t = (Tile){.axes = v->axes & ~e->p->rows};
        t->n = program_points(e->p, t->axes);
        if (type_fact(v->ty)->kind == REAL)
            t->v = mem_array(e->m, (size_t)t->n + 1, sizeof *t->v);
        else
            t->i = mem_array(e->m, (size_t)t->n + 1, sizeof *t->i);
        t->e = mem_array(e->m, (size_t)t->n + 1, sizeof *t->e);
        switch (v->kind) {
        case V_LOAD: eval_load(e, v, t); break;
        case V_RED: eval_red(e, i, t); break;
        case V_MAP:
        case V_CAST: eval_map(e, v, t); break;
        default: eval_leaf(e, v, t);
        }
    }
}

/* ---- outputs ---- */
static int index_source(const Program *p, int v) { /* the argmax that v is, perhaps as another integer type */
    while (p->val[v].kind == V_CAST && type_fact(p->val[v].ty)->kind != REAL) v = p->val[v].a[0];
    return is_red(p, v, R_ARGMAX) || is_red(p, v, R_ARGMIN) ? v : -1;
}

Want eval_want(const Eval *e, int out, const int64_t at[AXES]) {
    const Program *p = e->p;
    const int val = p->out_val[out], source = index_source(p, val);
    const Tile *t = &e->tile[val];
    int64_t i = 0;
    for (int a = 0; a < p->naxes; a++)
        if (t->axes >> a & 1) i = i * p->n[a] + at[a];
    const Cell c = tile_cell(t, i);
    return (Want){p->val[val].ty, {c.v, c.i}, c.e, source >= 0 && e->tile[source].set ? e->tile[source].set[i] : NULL};
}

static long double real_of(Type storage, Number x) {
    const Type t = type_compute(storage);
    return type_fact(t)->kind == REAL ? x.v : int_real(t, x.i);
}

bool want_allows(const Want *w, Type st, Number got) {
    const bool floats = type_fact(w->ty)->kind == REAL;
    const long double g = real_of(st, got);
    if (w->e == INF) return true;
    if (w->set) {
        for (int64_t k = 1; k <= w->set[0]; k++)
            if (real_of(st, convert(I64, st, (Number){0, w->set[k]})) == g) return true;
        return false;
    }
    const long double v = floats ? w->x.v : int_real(w->ty, w->x.i);
    if (isnan(v)) return type_fact(st)->kind == REAL ? isnan(g) : g == real_of(st, convert(w->ty, st, w->x));
    long double end[2];
    for (int k = 0; k < 2; k++) {
        const long double x = w->e == 0 ? v : k ? v + w->e : v - w->e;
        Number n = {floats ? round_float(w->ty, x) : 0, w->x.i};
        if (!floats && w->e > 0) n.i = type_fact(w->ty)->kind == BOOL ? k : round_int(w->ty, k ? ceill(x) : floorl(x));
        end[k] = real_of(st, convert(w->ty, st, n));
    }
    return (end[0] <= g && g <= end[1]) || (floats && st == w->ty && fabsl(g - v) <= w->e);
}
