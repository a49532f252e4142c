/* Prog + Shape -> Sched: which axes are looped over and which are spread over lanes, which sweeps the reductions force,
 * what each does, and which values more than one sweep needs.
 *
 * A sink (a reduction, an output, a fill) can be done in the first sweep in which every reduction that it depends on is
 * finished. Sweeps are numbered by a pair: `outer` counts sweeps over the whole row, `inner` those within one serial
 * point. A reduction over exactly the mapped axes of its domain is finished within the serial point; any other only
 * when the whole loop has ended. */
#include "pass.h"

#include <string.h>

typedef struct Level {
    int outer, inner;
} Level;

typedef struct Make {
    Cx *cx;
    const Prog *p;
    const Shape *s;
    Sched *sc;
    Level *red_level; /* of a reduction's sweep, by value */
    int *red_domain;
    int *stamp, tick; /* visited marks of the walks */
} Make;

static int64_t extent_of(const Shape *s, uint32_t axes) {
    int64_t n = 1;
    for (int i = 0; i < MAX_AXES; i++)
        if (axes >> i & 1) n *= s->n[i];
    return n;
}

static uint32_t elem_axes(const Prog *p, const Val *v) {
    return v->axes & ~p->row_axes;
}

static uint32_t out_axes(const Prog *p, int out) { /* element axes of an output */
    const Param *o = &p->param[p->out[out].param];
    uint32_t axes = 0;
    for (int k = 0; k < o->rank; k++) axes |= 1u << o->axis[k];
    return axes & ~p->row_axes;
}

/* Element axes of a tensor that a row axis parts in memory from its last ones. Spread over lanes together with those,
 * each element would need its place worked out by division and be read alone. A run of this many elements keeps lanes
 * busy by itself. */
static uint32_t axes_apart(const Prog *p, const Shape *s) {
    uint32_t apart = 0, in_place = 0;
    for (int i = 0; i < p->nvals; i++)
        if (p->val[i].op == OP_LOAD && val_in_place(p, &p->val[i])) in_place |= 1u << p->val[i].param;
    for (int i = 0; i < p->nouts; i++) in_place |= 1u << p->out[i].param;
    for (int q = 0; q < p->nparams; q++) {
        const Param *t = &p->param[q];
        int64_t run = 1;
        bool any = false, parted = false;
        for (int d = t->rank - 1; d >= 0 && in_place >> q & 1; d--) {
            if (p->row_axes >> t->axis[d] & 1)
                parted = any;
            else if (parted && run >= LONG_RUN)
                apart |= 1u << t->axis[d];
            else if (!parted)
                run *= s->n[t->axis[d]], any = true; /* shape_bind checked that products fit */
        }
    }
    return apart;
}

/* A reduction needs its domain's mapped axes all reduced (lanes meet) or all kept (lanes never meet). Where neither
 * holds, the smaller cause moves to the serial loops: the kept axes if the fastest one is reduced, else the reduced
 * ones. */
/* Does the reduction take the last of its mapped axes and keep the first? Then its elements lie side by side. */
static bool takes_segments(const Prog *p, int v, uint32_t serial) {
    const Val *x = &p->val[v];
    if (x->op != OP_RED || red_info(x->red)->join == RED_PAIR) return false;
    uint32_t mapped = (elem_axes(p, &p->val[x->a[0]]) | x->over) & ~serial, over = mapped & x->over,
             kept = mapped & ~over;
    return over && kept && __builtin_ctz(over) > 31 - __builtin_clz(kept);
}

static bool split_reductions(const Prog *p, bool segments, uint32_t *serial) {
    bool more = false;
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        if (v->op != OP_RED) continue;
        uint32_t mapped = (elem_axes(p, &p->val[v->a[0]]) | v->over) & ~*serial, in = mapped & v->over;
        if (!in || in == mapped || (segments && takes_segments(p, i, *serial))) continue;
        int fast = 31 - __builtin_clz(mapped);
        *serial |= v->over >> fast & 1 ? mapped & ~v->over : in;
        more = true;
    }
    return more;
}

/* What each lane has added up for its own elements can be used only where lanes own the same elements: in a sweep over
 * further axes, those are looped over. */
static bool split_users(const Prog *p, int root, uint32_t axes, uint32_t *serial) {
    bool needed[MAX_VALS] = {0}, more = false;
    needed[root] = true;
    for (int v = root; v >= 0; v--) {
        const Val *x = &p->val[v];
        if (!needed[v]) continue;
        if (x->op != OP_RED) {
            int dep[MAX_DEPS];
            for (int n = val_deps(p, x, dep), i = 0; i < n; i++) needed[dep[i]] = true;
            continue;
        }
        uint32_t kept = elem_axes(p, x) & ~*serial, extra = axes & ~*serial & ~kept;
        if (!kept || x->over & ~*serial || !extra) continue;
        *serial |= extra;
        more = true;
    }
    return more;
}

/* Where a sweep goes over more axes than a tensor of it has, each element's place in the tensor needs a division, and
 * neighbours are read one by one: unless the tensor's axes, or those that it lacks, are looped over. Done where the
 * others leave runs that are long enough. Reductions come before the values that are made of them. */
static void part_tensors(const Prog *p, const Shape *s, int root, uint32_t axes, uint32_t *serial) {
    bool needed[MAX_VALS] = {0};
    needed[root] = true;
    for (int v = root; v >= 0; v--) {
        const Val *x = &p->val[v];
        if (!needed[v] || x->op == OP_RED) continue;
        int dep[MAX_DEPS];
        for (int n = val_deps(p, x, dep), i = 0; i < n; i++) needed[dep[i]] = true;
        uint32_t mapped = axes & ~*serial, own = elem_axes(p, x) & mapped, rest = mapped & ~own;
        if (x->op != OP_LOAD || !val_in_place(p, x) || !own || !rest) continue;
        bool fast = own >> (31 - __builtin_clz(mapped)) & 1;
        if (extent_of(s, fast ? own : rest) >= LONG_RUN) *serial |= fast ? rest : own;
    }
}

uint32_t sched_serial(const Prog *p, const Shape *s, Spread spread) {
    bool in_runs = spread == SPREAD_RUNS, segments = spread == SPREAD_SEGMENTS;
    uint32_t serial = axes_apart(p, s);
    for (int i = 0; i < p->nvals && in_runs; i++)
        if (p->val[i].op == OP_RED)
            part_tensors(p, s, p->val[i].a[0], elem_axes(p, &p->val[p->val[i].a[0]]) | p->val[i].over, &serial);
    for (int i = 0; i < p->nouts && in_runs; i++) part_tensors(p, s, p->out[i].val, out_axes(p, i), &serial);
    for (bool again = true; again;) {
        again = split_reductions(p, segments, &serial);
        for (int i = 0; i < p->nvals; i++) {
            const Val *v = &p->val[i];
            if (v->op == OP_RED) again |= split_users(p, v->a[0], elem_axes(p, &p->val[v->a[0]]) | v->over, &serial);
        }
        for (int i = 0; i < p->nouts; i++) {
            again |= split_users(p, p->out[i].val, out_axes(p, i), &serial);
        }
    }
    return serial;
}

static int domain_find(Make *m, uint32_t axes) {
    Sched *sc = m->sc;
    for (int i = 0; i < sc->ndomains; i++)
        if (sc->domain[i].axes == axes) return i;
    if (sc->ndomains == MAX_DOMAINS) return -1;
    Domain *d = &sc->domain[sc->ndomains];
    *d = (Domain){axes, axes & sc->serial, axes & ~sc->serial, 0, 0};
    d->n_serial = extent_of(m->s, d->serial);
    d->n_mapped = extent_of(m->s, d->mapped);
    return sc->ndomains++;
}

static Level later(Level a, Level b) {
    return a.outer > b.outer || (a.outer == b.outer && a.inner > b.inner) ? a : b;
}

static const Pair *pair_of_second(const Sched *sc, int val) {
    for (int i = 0; i < sc->npairs; i++)
        if (sc->pair[i].second == val) return &sc->pair[i];
    return NULL;
}

/* When a finished reduction can be used by sinks whose serial axes are `serial`. */
static Level red_ready(const Make *m, int r, uint32_t serial) {
    const Domain *d = &m->sc->domain[m->red_domain[r]];
    Level l = m->red_level[r];
    if (d->serial && d->serial == serial && m->p->val[r].over == d->mapped) return (Level){l.outer, l.inner + 1};
    return (Level){l.outer + 1, 0};
}

static void walk_level(Make *m, int v, uint32_t serial, Level *at) {
    if (m->stamp[v] == m->tick) return;
    m->stamp[v] = m->tick;
    if (m->p->val[v].op == OP_RED) {
        *at = later(*at, red_ready(m, v, serial));
        return;
    }
    int dep[MAX_DEPS];
    for (int n = val_deps(m->p, &m->p->val[v], dep), i = 0; i < n; i++) walk_level(m, dep[i], serial, at);
}

static Level level_of(Make *m, int v, uint32_t serial) {
    Level at = {0, 0};
    m->tick++;
    walk_level(m, v, serial, &at);
    return at;
}

/* ---- pairs of reductions that one sweep can do ---- */

static bool is_op(const Prog *p, int v, Op op) {
    return v >= 0 && p->val[v].op == op;
}

static bool is_const(const Prog *p, int v, double x) {
    return is_op(p, v, OP_CONST) && num_f64(p->val[v].k, p->val[v].ty) == x;
}

/* r, or where(abs(r) == inf, 0, r) as logsumexp has it */
static bool is_guarded(const Prog *p, int v, int r) {
    if (v == r) return true;
    if (!is_op(p, v, OP_WHERE)) return false;
    const Val *w = &p->val[v];
    const Val *c = &p->val[w->a[0]];
    return w->a[2] == r && is_const(p, w->a[1], 0) && c->op == OP_EQ && is_op(p, c->a[0], OP_ABS) &&
           p->val[c->a[0]].a[0] == r && is_const(p, c->a[1], __builtin_inf());
}

static int find_pair(Make *m, Stat stat, int second, int *x, int *count) {
    const Prog *p = m->p;
    const Val *r2 = &p->val[second];
    if (r2->op != OP_RED || r2->red != RED_SUM || !ty_is_float(r2->ty) || r2->policy != POLICY_TREE) return -1;
    const Val *f = &p->val[r2->a[0]];
    if (stat == STAT_ONLINE && f->op == OP_EXP && is_op(p, f->a[0], OP_SUB)) {
        const Val *d = &p->val[f->a[0]];
        for (int r = 0; r < second; r++) {
            const Val *v = &p->val[r];
            if (v->op == OP_RED && v->red == RED_MAX && v->over == r2->over && v->a[0] == d->a[0] &&
                is_guarded(p, d->a[1], r))
                return *x = d->a[0], r;
        }
    }
    if ((stat == STAT_SHIFTED || stat == STAT_WELFORD) && f->op == OP_MUL && f->a[0] == f->a[1] &&
        is_op(p, f->a[0], OP_SUB)) {
        const Val *c = &p->val[f->a[0]];
        if (!is_op(p, c->a[1], OP_DIV)) return -1;
        const Val *mu = &p->val[c->a[1]];
        const Val *s = &p->val[mu->a[0]];
        if (s->op == OP_RED && s->red == RED_SUM && s->over == r2->over && s->a[0] == c->a[0] &&
            s->policy == POLICY_TREE && pass_counts(p, m->s, mu->a[1], r2->over))
            return *x = c->a[0], *count = mu->a[1], mu->a[0];
    }
    return -1;
}

/* Is it made of what each lane has added up for its own elements? The first element of that, which a shift would be, is
 * one lane's alone. */
static bool is_of_lanes(const Make *m, int root) {
    bool needed[MAX_VALS] = {0};
    needed[root] = true;
    for (int v = root; v >= 0; v--) {
        const Val *x = &m->p->val[v];
        int dep[MAX_DEPS];
        if (needed[v] && x->op == OP_RED && elem_axes(m->p, x) & ~m->sc->serial) return true;
        if (!needed[v] || x->op == OP_RED) continue;
        for (int n = val_deps(m->p, x, dep), i = 0; i < n; i++) needed[dep[i]] = true;
    }
    return false;
}

static void find_pairs(Make *m, Stat stat) {
    Sched *sc = m->sc;
    for (int v = 0; v < m->p->nvals && sc->npairs < MAX_PAIRS; v++) {
        int x, count = -1, first = find_pair(m, stat, v, &x, &count);
        if (first < 0 || (stat == STAT_SHIFTED && is_of_lanes(m, x))) continue;
        const Val *r = &m->p->val[v];
        /* only where lanes meet: the merge of partial statistics is a join */
        uint32_t mapped = (elem_axes(m->p, &m->p->val[x]) | r->over) & ~sc->serial;
        bool taken = false;
        for (int i = 0; i < sc->npairs; i++) taken |= sc->pair[i].first == first;
        if (mapped && r->over == mapped && !taken)
            sc->pair[sc->npairs++] = (Pair){stat, x, first, v, count, extent_of(m->s, r->over) > 0};
    }
}

/* ---- sinks and sweeps ---- */

static bool add_sink(Make *m, SinkKind kind, int at, int domain, Level l) {
    Sched *sc = m->sc;
    if (sc->nsinks == MAX_SINKS || domain < 0) return false;
    sc->sink[sc->nsinks++] = (Sink){kind, at, domain, l.outer, l.inner, 0};
    return true;
}

static int sink_before(const Sched *sc, const Sink *a, const Sink *b) {
    uint32_t sa = sc->domain[a->domain].serial, sb = sc->domain[b->domain].serial;
    if (a->outer != b->outer) return a->outer - b->outer;
    if (sa != sb) return sa < sb ? -1 : 1;
    if (a->inner != b->inner) return a->inner - b->inner;
    if (sc->fuse && a->domain != b->domain) return a->domain - b->domain;
    static const int order[] = {[SINK_FILL] = 0, [SINK_RED] = 1, [SINK_OUT] = 2};
    if (a->kind != b->kind) return order[a->kind] - order[b->kind];
    return a->at - b->at;
}

static void order_sinks(Sched *sc) {
    for (int i = 1; i < sc->nsinks; i++) { /* few sinks; insertion keeps equal ones in order */
        Sink s = sc->sink[i];
        int k = i;
        for (; k > 0 && sink_before(sc, &s, &sc->sink[k - 1]) < 0; k--) sc->sink[k] = sc->sink[k - 1];
        sc->sink[k] = s;
    }
    sc->nsweeps = 0;
    for (int i = 0; i < sc->nsinks; i++) {
        Sink *s = &sc->sink[i];
        const Sink *before = i ? &sc->sink[i - 1] : NULL;
        bool joins =
            before && sc->fuse && before->outer == s->outer && before->inner == s->inner && before->domain == s->domain;
        if (!joins) sc->sweep[sc->nsweeps++] = (Sweep){s->domain, s->outer, s->inner};
        s->sweep = sc->nsweeps - 1;
    }
}

static int sink_root(const Prog *p, const Sink *s) {
    return s->kind == SINK_OUT ? p->out[s->at].val : s->kind == SINK_RED ? p->val[s->at].a[0] : s->at;
}

/* ---- what a sweep needs ---- */

bool sched_is_elem(const Sched *sc, const Prog *p, int val) {
    return (elem_axes(p, &p->val[val]) & ~sc->serial) != 0;
}

typedef struct Need {
    const Sched *sc;
    const Prog *p;
    const int *cand_of; /* value -> candidate or -1; NULL before candidates are known */
    uint64_t held;
    int *first, *last, *count; /* by value */
    const int
        *dom; /* by value: the domain it could be kept in, -1: none; with own: sweeps over it that need the value */
    int *own;
    int *filled; /* with cand_of: by value, the first sweep over its own domain that needs it, -1: none yet */
    int sweep;
    int *stamp, tick;
} Need;

static void walk_need(Need *n, int v) {
    if (n->stamp[v] == n->tick) return;
    n->stamp[v] = n->tick;
    const Val *x = &n->p->val[v];
    if (x->op == OP_RED) return;
    if (n->count[v]++ == 0) n->first[v] = n->sweep;
    n->last[v] = n->sweep;
    if (n->dom && n->dom[v] == n->sc->sweep[n->sweep].domain) n->own[v]++;
    int c = n->cand_of ? n->cand_of[v] : -1;
    if (c >= 0 && n->held >> c & 1 && n->sc->cand[c].domain == n->sc->sweep[n->sweep].domain) {
        if (n->filled[v] >= 0 && n->filled[v] < n->sweep) return; /* in its stripe already */
        n->filled[v] = n->sweep;
    }
    int dep[MAX_DEPS];
    for (int k = val_deps(n->p, x, dep), i = 0; i < k; i++) walk_need(n, dep[i]);
}

/* Marks, sweep by sweep, what is needed. A pair's second reduction needs only x. */
static void needs(Need *n) {
    for (int w = 0; w < n->sc->nsweeps; w++) {
        n->sweep = w;
        n->tick++;
        for (int i = 0; i < n->sc->nsinks; i++) {
            const Sink *s = &n->sc->sink[i];
            if (s->sweep != w) continue;
            const Pair *pr = s->kind == SINK_RED ? pair_of_second(n->sc, s->at) : NULL;
            walk_need(n, pr ? pr->x : sink_root(n->p, s));
        }
    }
}

void sched_live(const Sched *sc, const Prog *p, uint64_t held, int cand, int *first, int *last) {
    enum { N = MAX_VALS };
    int cand_of[N], f[N], l[N], count[N], stamp[N], filled[N];
    memset(count, 0, sizeof(int) * (size_t)p->nvals);
    memset(stamp, 0, sizeof(int) * (size_t)p->nvals);
    for (int i = 0; i < p->nvals; i++) cand_of[i] = f[i] = l[i] = filled[i] = -1;
    for (int i = 0; i < sc->ncands; i++) cand_of[sc->cand[i].val] = i;
    Need n = {.sc = sc,
              .p = p,
              .cand_of = cand_of,
              .held = held,
              .first = f,
              .last = l,
              .count = count,
              .filled = filled,
              .stamp = stamp};
    needs(&n);
    *first = f[sc->cand[cand].val];
    *last = l[sc->cand[cand].val];
    if (*first >= 0 && sc->cand[cand].once) *first = 0, *last = sc->nsweeps - 1;
}

/* ---- reductions ---- */

Kept sched_kept(const Sched *sc, const Prog *p, const Sink *red) {
    const Domain *d = &sc->domain[red->domain];
    uint32_t over = p->val[red->at].over;
    if (!d->mapped) return ADD_UP_ROW;
    if (sc->segments && takes_segments(p, red->at, sc->serial)) return SEGMENTS_MEET;
    if (!(d->mapped & over)) return ADD_UP_LANE;
    if ((d->serial & ~over) == 0) return LANES_MEET;
    return over == d->mapped ? MEET_PER_POINT : MEET_AND_ADD_UP;
}

bool sched_needed_outside(Cx *cx, const Sched *sc, const Prog *p, const Sink *red) {
    bool *uses = NEWN(cx->a, bool, p->nvals);
    uses[red->at] = true;
    for (int v = red->at + 1; v < p->nvals; v++) {
        if (p->val[v].op == OP_RED) continue;
        int dep[MAX_DEPS];
        for (int n = val_deps(p, &p->val[v], dep), i = 0; i < n; i++) uses[v] |= uses[dep[i]];
    }
    for (int i = 0; i < sc->nsinks; i++) {
        const Sink *s = &sc->sink[i];
        if (uses[sink_root(p, s)] &&
            (s->outer != red->outer || sc->domain[s->domain].serial != sc->domain[red->domain].serial))
            return true;
    }
    return false;
}

/* ---- holds ---- */

/* The out parameter that can hold a value between sweeps: same axes, a type that keeps every bit, written last in or
 * after the last sweep that needs the value (its own output at once). */
static int output_home(const Make *m, int v, int last) {
    const Prog *p = m->p;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->nouts; i++) {
            const Param *o = &p->param[p->out[i].param];
            uint32_t axes = 0;
            for (int k = 0; k < o->rank; k++) axes |= 1u << o->axis[k];
            if (o->dir != DIR_OUT || o->ty != p->val[v].ty || (axes & ~p->row_axes) != elem_axes(p, &p->val[v]))
                continue;
            if ((axes & p->row_axes) != p->row_axes) continue; /* rows would share it */
            if (pass == 0 && p->out[i].val == v) return p->out[i].param;
            for (int s = 0; pass == 1 && s < m->sc->nsinks; s++)
                if (m->sc->sink[s].kind == SINK_OUT && m->sc->sink[s].at == i && m->sc->sink[s].sweep >= last)
                    return p->out[i].param;
        }
    return -1;
}

/* A step without a name of its own is called by its number, and by one that the program does not use. */
static const char *step_name(const Make *m, int v) {
    const char *name = arena_printf(m->cx->a, "t%d", v);
    for (int i = 0; i < m->p->nvals; i++)
        if ((m->p->val[i].name && str_eq(m->p->val[i].name, name)) || prog_param(m->p, name) >= 0)
            name = arena_printf(m->cx->a, "%s_", name), i = -1;
    return name;
}

/* An input read in place that no row axis spans. */
static bool all_rows_share(const Prog *p, const Val *v) {
    if (v->op != OP_LOAD || !val_in_place(p, v) || p->param[v->param].dir != DIR_IN) return false;
    for (int d = 0; d < p->param[v->param].rank; d++)
        if (p->row_axes >> p->param[v->param].axis[d] & 1) return false;
    return true;
}

static void find_cands(Make *m) {
    Sched *sc = m->sc;
    const Prog *p = m->p;
    int n = p->nvals;
    int *count = NEWN(m->cx->a, int, n), *first = NEWN(m->cx->a, int, n), *last = NEWN(m->cx->a, int, n);
    int *dom = NEWN(m->cx->a, int, n), *own = NEWN(m->cx->a, int, n);
    for (int v = 0; v < n; v++) {
        dom[v] = -1;
        for (int d = 0; d < sc->ndomains; d++)
            if (sc->domain[d].axes == elem_axes(p, &p->val[v]) && sc->domain[d].mapped) dom[v] = d;
    }
    Need need = {.sc = sc,
                 .p = p,
                 .first = first,
                 .last = last,
                 .count = count,
                 .dom = dom,
                 .own = own,
                 .stamp = NEWN(m->cx->a, int, n)};
    needs(&need);
    for (int v = 0; v < n && sc->ncands < MAX_CANDS; v++) {
        const Val *x = &p->val[v];
        bool once = sc->many_rows && dom[v] >= 0 && !sc->domain[dom[v]].serial && all_rows_share(p, x);
        if (own[v] < (once ? 1 : 2) || x->op == OP_CONST || x->op == OP_SCALAR || x->op == OP_IDX || x->op == OP_RED)
            continue;
        bool load = val_in_place(p, x);
        Cand *c = &sc->cand[sc->ncands++];
        *c = (Cand){.val = v, .load = load, .domain = dom[v], .sweeps = own[v], .once = once};
        c->storage = load ? p->param[x->param].ty : x->ty;
        c->name = load ? p->param[x->param].name : x->name ? x->name : step_name(m, v);
        c->pinned = load ? p->param_hold[x->param] : x->hold;
        c->output = load ? -1 : output_home(m, v, last[v]);
    }
}

/* ---- segments ---- */

/* Marks what the value is made of, reductions included but not what they reduce. */
static void made_of(const Prog *p, int root, bool *marks) {
    marks[root] = true;
    for (int v = root; v >= 0; v--) {
        int dep[MAX_DEPS];
        if (!marks[v] || p->val[v].op == OP_RED) continue;
        for (int n = val_deps(p, &p->val[v], dep), i = 0; i < n; i++) marks[dep[i]] = true;
    }
}

/* An output of one value a segment is stored where the segment's elements are swept; -1: it is none. */
static int domain_of_segments(const Make *m, int val, uint32_t axes) {
    bool marks[MAX_VALS] = {0};
    made_of(m->p, val, marks);
    for (int v = 0; v < m->p->nvals; v++)
        if (marks[v] && m->sc->segments && takes_segments(m->p, v, m->sc->serial) &&
            elem_axes(m->p, &m->p->val[v]) == axes)
            return m->red_domain[v];
    return -1;
}

/* What a segment's lanes have joined is theirs: only a sweep over the same elements can use it. */
static Err check_segments(Cx *cx, const Make *m) {
    const Sched *sc = m->sc;
    bool any = false;
    for (int i = 0; i < sc->nsinks; i++) {
        const Sink *s = &sc->sink[i];
        bool marks[MAX_VALS] = {0};
        any |= s->kind == SINK_RED && takes_segments(m->p, s->at, sc->serial);
        made_of(m->p, sink_root(m->p, s), marks);
        for (int v = 0; v < m->p->nvals; v++) {
            if (!marks[v] || !takes_segments(m->p, v, sc->serial)) continue;
            const Domain *from = &sc->domain[m->red_domain[v]], *to = &sc->domain[s->domain];
            if (from->mapped == to->mapped && !to->serial && !from->serial) continue;
            return diag(cx, S_PLAN_SEGMENTS_APART, m->p->val[v].at, "segments=off",
                        "segments=on: %s of %s is used where other elements are worked on",
                        red_info(m->p->val[v].red)->text, m->p->name);
        }
    }
    if (any) return OK;
    return diag(cx, S_PLAN_SEGMENTS_UNUSED, NOWHERE, "segments=off",
                "segments=on: no reduction of %s takes the last of several axes", m->p->name);
}

Err sched_make(Cx *cx, const Prog *p, const Shape *s, Spread spread, bool many_rows, bool fuse, Stat stat,
               uint64_t held, Sched *out) {
    bool segments = spread == SPREAD_SEGMENTS;
    *out = (Sched){
        .fuse = fuse, .segments = segments, .many_rows = many_rows, .stat = stat, .serial = sched_serial(p, s, spread)};
    if (!fuse && stat != STAT_TWO_PASS)
        return diag(cx, S_PLAN_STAT_NEEDS_FUSE, NOWHERE, "fuse=on, or stat=two-pass",
                    "stat=%s joins two sweeps, fuse=off keeps them apart", stat_text(stat));
    Make m = {
        cx, p, s, out, NEWN(cx->a, Level, p->nvals + 1), NEWN(cx->a, int, p->nvals + 1), NEWN(cx->a, int, p->nvals + 1),
        0};
    bool fits = true;
    if (stat != STAT_TWO_PASS) find_pairs(&m, stat);
    if (stat != STAT_TWO_PASS && !out->npairs)
        return diag(cx, S_PLAN_STAT_UNUSED, NOWHERE, "two-pass", "stat=%s has no pair of reductions to join in %s",
                    stat_text(stat), p->name);
    for (int v = 0; v < p->nvals && fits; v++) {
        const Val *x = &p->val[v];
        if (x->op != OP_RED) continue;
        out->nreds++;
        int d = m.red_domain[v] = domain_find(&m, elem_axes(p, &p->val[x->a[0]]) | x->over);
        if (d < 0)
            return diag(cx, S_PLAN_LIMIT, NOWHERE, NULL, "%s needs more than %d index spaces", p->name, MAX_DOMAINS);
        const Pair *pr = pair_of_second(out, v);
        m.red_level[v] = level_of(&m, pr ? pr->x : x->a[0], out->domain[d].serial);
        fits = add_sink(&m, SINK_RED, v, d, m.red_level[v]);
    }
    for (int i = 0; i < p->nouts && fits; i++) {
        int d = domain_of_segments(&m, p->out[i].val, out_axes(p, i));
        if (d < 0) d = domain_find(&m, out_axes(p, i));
        fits = d >= 0 && add_sink(&m, SINK_OUT, i, d, level_of(&m, p->out[i].val, out->domain[d].serial));
    }
    if (!fits)
        return diag(cx, S_PLAN_LIMIT, NOWHERE, NULL, "%s needs more than %d sweeps or %d index spaces", p->name,
                    MAX_SINKS, MAX_DOMAINS);
    Err err = segments ? check_segments(cx, &m) : OK;
    if (err) return err;
    order_sinks(out);
    find_cands(&m);
    if (fuse || !held) return OK;
    for (int i = 0; i < out->ncands; i++) {
        const Cand *c = &out->cand[i];
        if (!(held >> i & 1) || c->once) continue; /* filled before the rows */
        if (!add_sink(&m, SINK_FILL, c->val, c->domain, level_of(&m, c->val, out->domain[c->domain].serial)))
            return diag(cx, S_PLAN_LIMIT, NOWHERE, NULL, "%s needs more than %d sweeps", p->name, MAX_SINKS);
    }
    order_sinks(out);
    return OK;
}
