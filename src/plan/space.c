/* Problem -> Space -> every point with its fate. Texts pin and open dimensions; the default is a few hundred points
 * worth a try. */
#include "space.h"

#include <string.h>

/* ---- building ---- */

void space_set(Cx *cx, Space *s, int d, const int *v, int n) {
    s->value[d] = arena_dup(cx->a, v, sizeof(int) * (size_t)n);
    s->n[d] = n;
}

static int find_hold(const Space *s, const char *name) {
    for (int i = 0; i < s->nholds; i++)
        if (str_eq(s->hold_name[i], name)) return i;
    return -1;
}

static Err set_hold(Cx *cx, Space *s, const char *name, const Hold *h, int n) {
    int i = find_hold(s, name);
    if (i < 0) {
        if (s->nholds == MAX_CANDS) return diag(cx, S_PLAN_TEXT, NOWHERE, NULL, "more than %d holds", MAX_CANDS);
        i = s->nholds++;
        s->hold_name[i] = name;
    }
    s->hold[i] = arena_dup(cx->a, h, sizeof(Hold) * (size_t)n);
    s->nhold[i] = n;
    return OK;
}

Err space_of_plan(Cx *cx, const Plan *plan, Space *out) {
    *out = (Space){0};
    for (int d = 0; d < DIM_COUNT; d++) {
        int v = plan_dim_get(plan, d);
        space_set(cx, out, d, &v, 1);
    }
    for (int i = 0; i < plan->nholds; i++) {
        Err e = set_hold(cx, out, plan->hold[i].name, &plan->hold[i].hold, 1);
        if (e) return e;
    }
    return OK;
}

int64_t space_count(const Space *s) {
    int64_t n = 1;
    for (int d = 0; d < DIM_COUNT; d++)
        if (!mul_fits(n, s->n[d], &n)) return INT64_MAX;
    for (int i = 0; i < s->nholds; i++)
        if (!mul_fits(n, s->nhold[i], &n)) return INT64_MAX;
    return n;
}

/* Mixed radix, holds fastest: neighbours differ in what is kept, which is what a reader compares. */
void space_at(const Space *s, int64_t i, Plan *out) {
    *out = (Plan){.nholds = s->nholds};
    for (int k = s->nholds - 1; k >= 0; k--) {
        out->hold[k].name = s->hold_name[k];
        out->hold[k].hold = s->hold[k][i % s->nhold[k]];
        i /= s->nhold[k];
    }
    for (int d = DIM_COUNT - 1; d >= 0; d--) {
        *plan_dim(out, d) = s->value[d][i % s->n[d]];
        i /= s->n[d];
    }
}

Err space_list(Cx *cx, const Problem *pb, const Space *s, int64_t limit, Entry **out, int64_t *n, int64_t *nlegal) {
    *out = NULL;
    *nlegal = 0;
    *n = space_count(s);
    if (*n > limit)
        return diag(cx, S_PLAN_SPACE, NOWHERE, NULL, "points=%lld%s limit=%lld", (long long)*n,
                    *n == INT64_MAX ? " or more" : "", (long long)limit);
    Entry *all = NEWN(cx->a, Entry, *n);
    SchedMemo *memo = sched_memo(cx);
    for (int64_t i = 0; i < *n; i++) {
        Entry *e = &all[i];
        Cx own = {.a = cx->a}; /* a refusal is a fact about this point, not a fault of the call */
        const Sched *sc;
        space_at(s, i, &e->plan);
        e->legal = plan_judge(&own, pb, &e->plan, memo, &sc, &e->stripes) == OK;
        if (e->legal) {
            plan_complete(sc, &e->plan);
            ++*nlegal;
        } else if (own.first) {
            e->refused = own.first->slug;
            e->why = own.first->msg;
        }
    }
    *out = all;
    return OK;
}

/* ---- texts ---- */

/* Every value that some schedule needs in two sweeps, with what is true of it in the first one that does. */
typedef struct Holdable {
    int n;
    Cand cand[MAX_CANDS];
    bool stat[STAT_COUNT]; /* which statistics the program has, fused */
} Holdable;

static Err add_holdable(Cx *cx, const Problem *pb, bool many_rows, bool fuse, Stat stat, Holdable *out) {
    Sched sc;
    const Plan plan = {.stat = stat};
    Err e = sched_make(cx, pb->prog, &pb->shape, problem_spread(pb, &plan), many_rows, fuse, stat, 0, &sc);
    for (int i = 0; !e && i < sc.ncands; i++) {
        bool known = false;
        for (int k = 0; k < out->n; k++) known |= str_eq(out->cand[k].name, sc.cand[i].name);
        if (!known && out->n < MAX_CANDS) out->cand[out->n++] = sc.cand[i];
    }
    return e;
}

static Err find_holdable(Cx *cx, const Problem *pb, Holdable *out) {
    *out = (Holdable){0};
    Err e = add_holdable(cx, pb, false, true, STAT_TWO_PASS, out);
    if (e) return e;
    for (int st = STAT_TWO_PASS; st < STAT_COUNT; st++) {
        Cx own = {.a = cx->a}; /* a program without a pair for a statistic is no fault */
        out->stat[st] = add_holdable(&own, pb, false, true, (Stat)st, out) == OK;
    }
    return OK;
}

static Err item_candidate(Cx *cx, const Holdable *all, const char *name, size_t n, const Cand **out) {
    Buf names = buf_new(cx->a);
    for (int i = 0; i < all->n; i++) {
        *out = &all->cand[i];
        if (strlen((*out)->name) == n && memcmp((*out)->name, name, n) == 0) return OK;
        buf_fmt(&names, "%s%s", i ? " " : "", (*out)->name);
    }
    return diag(cx, S_PLAN_HOLD_UNKNOWN, NOWHERE, all->n ? names.s : "nothing: no value is needed in two sweeps",
                "hold.%s", item_quote(cx, name, n));
}

/* Calls each alternative between slashes. */
typedef struct Part {
    const char *s;
    size_t n;
} Part;
static bool part_next(Part *rest, char sep, Part *out) {
    if (!rest->s) return false;
    const char *end = memchr(rest->s, sep, rest->n);
    *out = (Part){rest->s, end ? (size_t)(end - rest->s) : rest->n};
    *rest = end ? (Part){end + 1, rest->n - out->n - 1} : (Part){NULL, 0};
    return true;
}

static void add_once(int *v, int *n, int x) {
    for (int i = 0; i < *n; i++)
        if (v[i] == x) return;
    v[(*n)++] = x;
}

enum { MOST_VALUES = 64 }; /* more than any dimension has */

static Err open_dim(Cx *cx, int d, const Item *it, Space *s) {
    const DimInfo *info = dim_info(d);
    if (!it->value) return space_set(cx, s, d, info->legal, info->nlegal), OK;
    int v[MOST_VALUES], n = 0;
    Part rest = {it->value, it->nvalue}, alt, from;
    while (part_next(&rest, '/', &alt)) {
        int lo, hi;
        Part ends = alt;
        part_next(&ends, ':', &from);
        Err e = dim_read_value(cx, d, from.s, from.n, &lo);
        hi = lo;
        if (!e && ends.s) e = dim_read_value(cx, d, ends.s, ends.n, &hi);
        if (e) return e;
        if (lo > hi)
            return diag(cx, S_PLAN_TEXT, NOWHERE, "LOW:HIGH", "%s=%s is an empty range", info->name,
                        item_quote(cx, alt.s, alt.n));
        for (int i = 0; i < info->nlegal; i++)
            if (info->legal[i] >= lo && info->legal[i] <= hi) add_once(v, &n, info->legal[i]);
    }
    space_set(cx, s, d, v, n);
    return OK;
}

static Err open_hold(Cx *cx, const Cand *c, const Item *it, Space *s) {
    int v[HOLD_COUNT], n = 0;
    if (!it->value) {
        bool narrow = c->load && ty_is_float(c->storage) && ty_bytes(c->storage) < 4;
        add_once(v, &n, c->load ? HOLD_RELOAD : HOLD_RECOMPUTE);
        add_once(v, &n, HOLD_REGISTER);
        if (narrow) add_once(v, &n, HOLD_REGISTER32);
        add_once(v, &n, HOLD_OUTPUT);
        add_once(v, &n, HOLD_SHARED);
    }
    Part rest = {it->value, it->nvalue}, alt;
    while (part_next(&rest, '/', &alt)) {
        Hold h;
        Err e = hold_read(cx, alt.s, alt.n, &h);
        if (e) return e;
        add_once(v, &n, (int)h);
    }
    Hold h[HOLD_COUNT];
    for (int i = 0; i < n; i++) h[i] = (Hold)v[i];
    Err e = set_hold(cx, s, c->name, h, n);
    if (!e) s->asked[find_hold(s, c->name)] = true;
    return e;
}

/* hold.*=LIST: of every input that is read again and every named value that is needed again. What reload is for an
 * input, recompute is for a computed value. */
static Err open_all_holds(Cx *cx, const Problem *pb, const Holdable *all, const Item *it, Space *s) {
    Err e = OK;
    for (int i = 0; i < all->n && !e; i++) {
        const Cand *c = &all->cand[i];
        if (c->once || (!c->load && !pb->prog->val[c->val].name)) continue;
        e = open_hold(cx, c, it, s);
        const int at = e ? -1 : find_hold(s, c->name);
        for (int k = 0; at >= 0 && k < s->nhold[at]; k++)
            if (!c->load && s->hold[at][k] == HOLD_RELOAD) s->hold[at][k] = HOLD_RECOMPUTE;
    }
    return e;
}

bool space_is_named(const char *text, int d) {
    Item it;
    while (item_next(&text, &it))
        if (dim_find(it.name, it.nname) == d) return true;
    return false;
}

/* A fixed order leaves the other dimensions that shape a sum one value, but for those that the text names: what it asks
 * of them stands, and is refused where it does not go with the order. */
static void fit_order(Cx *cx, const Problem *pb, Space *s, int order, const char *text) {
    static const int one_dims[] = {DIM_V, DIM_stat, DIM_div, DIM_exp, DIM_contract};
    const int subgroup = pb->caps.subgroup;
    /* where the lanes of a subgroup are the hardware's, they alone are joined from the outside in; lanes in turn are
     * better many than none */
    if (order == ORDER_FIXED && pb->caps.kind != KIND_HOST && !space_is_named(text, DIM_W))
        space_set(cx, s, DIM_W, (const int[]){subgroup > 16 ? subgroup : 64, 16}, 2);
    for (int i = 0; i < COUNT(one_dims) && order != ORDER_PLAN; i++)
        if (!space_is_named(text, one_dims[i])) space_set(cx, s, one_dims[i], (const int[]){i == 0}, 1);
    if (order == ORDER_FIXED) {
        int acc[8], n = 0;
        for (int i = 0; i < s->n[DIM_W] && n < COUNT(acc); i++) {
            int W = s->value[DIM_W][i];
            if (FIXED_PARTIALS % W == 0 && dim_is_legal(DIM_acc, FIXED_PARTIALS / W)) acc[n++] = FIXED_PARTIALS / W;
        }
        if (!n &&
            !space_is_named(text, DIM_W)) { /* narrow lanes, which long texts were left, have too few accumulators */
            space_set(cx, s, DIM_W, (const int[]){16}, 1);
            acc[n++] = FIXED_PARTIALS / 16;
        }
        if (n && !space_is_named(text, DIM_acc)) space_set(cx, s, DIM_acc, acc, n);
        if (!space_is_named(text, DIM_combine)) space_set(cx, s, DIM_combine, (const int[]){COMBINE_OUTER}, 1);
    } else if (order == ORDER_SERIAL) {
        static const int single[] = {DIM_W, DIM_acc, DIM_flight};
        for (int i = 0; i < COUNT(single); i++)
            if (!space_is_named(text, single[i])) space_set(cx, s, single[i], (const int[]){1}, 1);
    }
}

/* A product that the text wants kept is one that no addition takes in, unless the text says so. */
static void fit_taken(Cx *cx, const Problem *pb, const Holdable *all, const char *text, Space *s) {
    for (int i = 0; i < all->n && !space_is_named(text, DIM_contract); i++) {
        const int at = find_hold(s, all->cand[i].name);
        for (int k = 0; at >= 0 && s->asked[at] && k < s->nhold[at]; k++)
            if (hold_keeps(s->hold[at][k]) && problem_is_taken(pb, all->cand[i].val))
                space_set(cx, s, DIM_contract, (const int[]){0}, 1);
    }
}

/* Does an earlier item of the text pin the same name to something else? */
static bool pinned_before(const char *text, const Item *it) {
    Item old;
    while (item_next(&text, &old) && old.name < it->name)
        if (old.nname == it->nname && memcmp(old.name, it->name, it->nname) == 0 &&
            (old.nvalue != it->nvalue || memcmp(old.value, it->value, it->nvalue) != 0))
            return old.value && it->value;
    return false;
}

static Err space_text(Cx *cx, const Problem *pb, const char *text, bool pin, Space *s) {
    Holdable all;
    Err e = find_holdable(cx, pb, &all);
    if (!e) e = add_holdable(cx, pb, false, false, STAT_TWO_PASS, &all); /* unfused, more values are needed twice */
    if (!e && pb->caps.kind != KIND_HOST) /* a group that takes many rows may keep what they share */
        e = add_holdable(cx, pb, true, true, STAT_TWO_PASS, &all);
    Item it;
    const char *whole = text;
    while (!e && item_next(&text, &it)) {
        const char *name;
        size_t n;
        if (pin && pinned_before(whole, &it))
            return diag(cx, S_PLAN_TEXT, NOWHERE, "one value", "%s is pinned to two values",
                        item_quote(cx, it.name, it.nname));
        if (pin && (!it.value || memchr(it.value, '/', it.nvalue) || memchr(it.value, ':', it.nvalue)))
            return diag(cx, S_PLAN_TEXT, NOWHERE, "NAME=VALUE", "%s is pinned to one value",
                        item_quote(cx, it.name, it.nname));
        if (item_hold(&it, &name, &n) && n == 1 && *name == '*') {
            e = open_all_holds(cx, pb, &all, &it, s);
            continue;
        }
        if (item_hold(&it, &name, &n)) {
            const Cand *c = NULL;
            e = item_candidate(cx, &all, name, n, &c);
            if (!e) e = open_hold(cx, c, &it, s);
            continue;
        }
        int d = dim_find(it.name, it.nname);
        if (d < 0) return diag(cx, S_PLAN_DIMENSION, NOWHERE, dim_names(cx), "%s", item_quote(cx, it.name, it.nname));
        e = open_dim(cx, d, &it, s);
    }
    if (!e && space_is_named(whole, DIM_order) && s->n[DIM_order] == 1)
        fit_order(cx, pb, s, s->value[DIM_order][0], whole);
    if (!e) fit_taken(cx, pb, &all, whole, s);
    return e;
}

int space_least(const Space *s, int d) {
    int v = s->value[d][0];
    for (int i = 1; i < s->n[d]; i++) v = s->value[d][i] < v ? s->value[d][i] : v;
    return v;
}

Err space_pin(Cx *cx, const Problem *pb, const char *text, Space *s) {
    const int default_W = space_least(s, DIM_W);
    Err e = space_text(cx, pb, text, true, s);
    if (!e && space_count(s) > 1) e = space_way_out(cx, pb, text, default_W, s);
    return e;
}

Err space_open(Cx *cx, const Problem *pb, const char *text, Space *s) {
    return space_text(cx, pb, text, false, s);
}

/* ---- the default ---- */

/* The longest mapped extent: how many lanes a row can keep busy. */
static int64_t widest(const Sched *sc) {
    int64_t n = 1;
    for (int i = 0; i < sc->ndomains; i++)
        if (sc->domain[i].mapped) n = i64_max(n, sc->domain[i].n_mapped);
    return n;
}

static bool is_ordered(const Prog *p) {
    for (int v = 0; v < p->nvals; v++)
        if (p->val[v].op == OP_RED && p->val[v].policy == POLICY_ORDERED) return true;
    return false;
}

/* Bytes of the widest element that goes by packs; those of a tensor whose last axis is of rows do not, nor those of one
 * without the last axis of all elements. */
static int widest_type(const Prog *p) {
    int b = 1, last = -1;
    for (int i = 0; i < p->naxes; i++)
        if (!(p->row_axes >> i & 1)) last = i;
    for (int q = 0; q < p->nparams; q++) {
        const Param *t = &p->param[q];
        bool whole = false;
        for (int d = 0; d < t->rank; d++) whole |= t->axis[d] == last;
        if (t->rank && whole && !(p->row_axes >> t->axis[t->rank - 1] & 1) && b < ty_bytes(t->ty)) b = ty_bytes(t->ty);
    }
    return b;
}

/* Elements of a pack that every dense layout allows: the widest access, halved until it divides the row. */
static int widest_pack(const Problem *pb, int64_t n) {
    int pack = 16, bytes = widest_type(pb->prog);
    while (pack > 1 && (n % pack || pack * bytes > (pb->caps.max_pack_bytes ? pb->caps.max_pack_bytes : 16))) pack /= 2;
    return pack;
}

/* Does an input have rows side by side in memory, as the columns of a matrix are? */
static bool rows_side_by_side(const Prog *p) {
    int last = -1;
    for (int i = 0; i < p->naxes; i++)
        if (p->row_axes >> i & 1) last = i;
    for (int q = 0; q < p->nparams; q++) {
        const Param *t = &p->param[q];
        if (t->dir == DIR_IN && t->rank > 1 && t->axis[t->rank - 1] == last) return true;
    }
    return false;
}

/* Are the rows of all tensors that have them side by side? */
static bool only_columns(const Prog *p) {
    int last = -1;
    for (int i = 0; i < p->naxes; i++)
        if (p->row_axes >> i & 1) last = i;
    for (int q = 0; q < p->nparams; q++) {
        const Param *t = &p->param[q];
        for (int d = 0; d + 1 < t->rank; d++)
            if (t->axis[d] == last) return false;
    }
    return rows_side_by_side(p);
}

/* Such rows are taken 32 at a time, so that an access of a group is a run of memory, with few lanes each. */
static void gpu_columns(Cx *cx, Space *s) {
    space_set(cx, s, DIM_W, (const int[]){32, 16, 8}, 3);
    space_set(cx, s, DIM_P, (const int[]){32, 16}, 2);
    space_set(cx, s, DIM_V, (const int[]){1}, 1);
    space_set(cx, s, DIM_cluster, (const int[]){1}, 1);
    space_set(cx, s, DIM_exchange, (const int[]){EXCHANGE_BARRIER}, 1);
}

/* On a GPU a lane is a thread, and best with 2 to 4 packs of its own (measured: 262144x128 to 16384x8192 of bf16);
 * where there are too few rows to fill the machine, one pack a lane is soonest done. Short rows share a group of some
 * 128 lanes. */
static void gpu_lanes(Cx *cx, const Problem *pb, int64_t n, Space *s) {
    static const int packs[] = {4, 2, 8, 1};
    int v[8], count = 0, pack = widest_pack(pb, n), L = pb->caps.subgroup;
    for (int i = 0; i < COUNT(packs); i++) {
        int64_t W = ceil_div(ceil_div(n, pack), packs[i]), round = 1;
        while (round < W && round < L) round *= 2;
        W = i64_min(ceil_div(W, round) * round, pb->caps.max_lanes);
        while (W > 1 && !dim_is_legal(DIM_W, (int)W)) W--;
        add_once(v, &count, (int)W);
    }
    space_set(cx, s, DIM_W, v, count);
    int P[3], nP = 0;
    add_once(P, &nP, v[0] < 128 ? 128 / v[0] < 32 ? 128 / v[0] : 32 : 1);
    add_once(P, &nP, v[0] < 64 ? 64 / v[0] < 32 ? 64 / v[0] : 32 : 1);
    add_once(P, &nP, 1);
    for (int i = 0; i < nP; i++)
        while (P[i] > 1 && !dim_is_legal(DIM_P, P[i])) P[i]--;
    space_set(cx, s, DIM_P, P, nP);
    space_set(cx, s, DIM_V, &pack, 1);
}

/* Where a group is one thread's work, lanes that meet cost a round of that thread each: a row is best one lane's, with
 * as many accumulators as make vectors of neighbouring elements. What the program pins to registers may need more
 * lanes. */
static void single_lanes(Cx *cx, const Problem *pb, const Holdable *all, int64_t n, Space *s) {
    int W = 1;
    for (int i = 0; i < all->n; i++)
        while ((all->cand[i].pinned == HOLD_REGISTER || all->cand[i].pinned == HOLD_REGISTER32) &&
               2 * W <= pb->caps.max_lanes && ceil_div(n, W) > pb->caps.stripe_slots)
            W *= 2;
    space_set(cx, s, DIM_W, &W, 1);
    space_set(cx, s, DIM_V, (const int[]){1}, 1);
    space_set(cx, s, DIM_P, (const int[]){1, 4}, W == 1 ? 2 : 1);
}

static void default_holds(Cx *cx, const Problem *pb, const Holdable *all, Space *s) {
    for (int i = 0; i < all->n; i++) {
        const Cand *c = &all->cand[i];
        const Val *v = &pb->prog->val[c->val];
        bool pinned = c->pinned != HOLD_AUTO;
        if (!c->load && !v->name && !pinned) continue; /* keeping an unnamed step loses to keeping what it is made of */
        if (s->value[DIM_contract][0] && problem_is_taken(pb, c->val)) continue;
        bool weight = c->load && !(v->axes & pb->prog->row_axes); /* all rows read it: caches keep it */
        bool gpu = pb->caps.kind != KIND_HOST && !pb->caps.lanes_in_turn;
        /* a copy of what caches have, if there is nothing to convert and no stride to take twice */
        const int q = c->load ? prog_param(pb->prog, c->name) : -1;
        bool copy = pb->caps.kind == KIND_HOST && q >= 0 && ty_bytes(c->storage) >= 4 && !(pb->strided >> q & 1);
        Hold h[3] = {c->load ? HOLD_RELOAD : HOLD_RECOMPUTE, HOLD_REGISTER, gpu ? HOLD_SHARED : HOLD_OUTPUT};
        if (c->load && s->n[DIM_stages] > 1) h[0] = HOLD_SHARED, h[2] = HOLD_RELOAD;
        if (pinned) h[0] = c->pinned;
        set_hold(cx, s, c->name, h, pinned || weight || copy || !pb->noalias ? 1 : !gpu && c->output < 0 ? 2 : 3);
    }
}

/* Drops the last value of one list that is longer than `keep`, the first such in order; false: there is none. */
static bool shed_dim(Space *s, const int *order, int n, int keep) {
    for (int i = 0; i < n; i++)
        if (s->n[order[i]] > keep) return s->n[order[i]]--, true;
    return false;
}

static bool shed_hold(Space *s, int keep) {
    for (int i = s->nholds - 1; i >= 0; i--)
        if (s->nhold[i] > keep) return s->nhold[i]--, true;
    return false;
}

/* Gives up values, least promising first (they stand last in their lists), until the space is small enough. Where
 * groups share a row, second ways to do so, to store and to join are given up only after third homes of values. */
static void shed(Space *s) {
    enum { LATE = 6 }; /* from DIM_store on */
    static const int minor[] = {DIM_acc,    DIM_exp,      DIM_early,   DIM_div,      DIM_flight, DIM_overlap,
                                DIM_stages, DIM_prefetch, DIM_threads, DIM_load,     DIM_V,      DIM_store,
                                DIM_P,      DIM_combine,  DIM_split,   DIM_exchange, DIM_cluster};
    static const int lanes[] = {DIM_W}, stat[] = {DIM_stat};
    const int soon = COUNT(minor) - (s->n[DIM_exchange] > 1 ? LATE : 0);
    while (space_count(s) > SPACE_DEFAULT) {
        bool less = shed_dim(s, minor, 1, 1) || shed_dim(s, lanes, 1, 4) || shed_dim(s, minor, COUNT(minor), 2) ||
                    shed_dim(s, minor, soon, 1) || shed_hold(s, 2) || shed_dim(s, minor, COUNT(minor), 1) ||
                    shed_dim(s, lanes, 1, 2) || shed_hold(s, 1) || shed_dim(s, stat, 1, 1) || shed_dim(s, lanes, 1, 1);
        if (!less) return;
    }
}

/* Is an f32 tile of elements divided by a value of the row, or of some of its axes? */
static bool divides(const Prog *p) {
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        if (v->op != OP_DIV || v->ty != TY_F32 || p->val[v->a[1]].op == OP_CONST) continue;
        if (v->axes & ~p->row_axes & ~p->val[v->a[1]].axes) return true;
    }
    return false;
}

/* Is there an input that all rows read? */
static bool has_weight(const Prog *p) {
    for (int q = 0; q < p->nparams; q++) {
        uint32_t axes = 0;
        for (int d = 0; d < p->param[q].rank; d++) axes |= 1u << p->param[q].axis[d];
        if (p->param[q].dir == DIR_IN && axes && !(axes & p->row_axes)) return true;
    }
    return false;
}

/* Does it take exponentials of f32? */
static bool has_exp(const Prog *p) {
    for (int i = 0; i < p->nvals; i++)
        if (p->val[i].op == OP_EXP && p->val[i].ty == TY_F32) return true;
    return false;
}

/* Is the value, other than through a reduction, made of an exponential of f32? Values are made of those before them. */
static bool made_of_exp(const Prog *p, int val) {
    bool of[MAX_VALS] = {0};
    for (int i = 0; i <= val; i++) {
        const Val *v = &p->val[i];
        int dep[MAX_DEPS];
        of[i] = v->op == OP_EXP && v->ty == TY_F32;
        for (int n = v->op == OP_RED ? 0 : val_deps(p, v, dep), d = 0; d < n; d++) of[i] |= of[dep[d]];
    }
    return of[val];
}

/* The fast exp loses bits of what is far below the greatest, which sums do not notice, nor outputs of 16 bits. */
static bool shows_exp(const Prog *p) {
    for (int i = 0; i < p->nouts; i++)
        if (p->param[p->out[i].param].ty == TY_F32 && made_of_exp(p, p->out[i].val)) return true;
    return false;
}

/* Does an addition take a product in, and has the machine an instruction for both? */
static bool contracts(const Problem *pb) {
    bool any = false;
    for (int v = 0; v < pb->prog->nvals; v++) any |= pb->takes[v] >= 0;
    return any && !(pb->caps.kind == KIND_HOST && pb->caps.isa == ISA_PORTABLE);
}

static bool only_rows(const Prog *p, int param) { /* one element a row */
    for (int d = 0; d < p->param[param].rank; d++)
        if (!(p->row_axes >> p->param[param].axis[d] & 1)) return false;
    return true;
}

/* Where all rows run at once, a row is soonest done by packs even if they do not divide it, one a lane or fewer: groups
 * that fill a unit also keep the next launch's from crowding onto it (measured at 23x769 and 128x2048 of f32). */
static void few_rows(Cx *cx, const Problem *pb, int64_t n, Space *s) {
    int pack = 16 / widest_type(pb->prog), V[2], nV = 0, W[4], nW = 0;
    if (pb->caps.max_pack_bytes) pack = pb->caps.max_pack_bytes / widest_type(pb->prog);
    while (pack > 1 && !dim_is_legal(DIM_V, pack)) pack--;
    add_once(V, &nV, pack);
    add_once(V, &nV, widest_pack(pb, n));
    static const int quarters[] = {4, 8, 2, 1}; /* of as many lanes as there are packs */
    for (int i = 0; i < COUNT(quarters); i++) {
        const int64_t w = ceil_div(ceil_div(n, pack) * quarters[i], 4), L = pb->caps.subgroup;
        int64_t fit = i64_min(ceil_div(w, L) * L, pb->caps.max_lanes);
        while (fit > 1 && !dim_is_legal(DIM_W, (int)fit)) fit--;
        add_once(W, &nW, (int)fit);
    }
    space_set(cx, s, DIM_V, V, nV);
    space_set(cx, s, DIM_W, W, nW);
    space_set(cx, s, DIM_P, (const int[]){1}, 1);
}

/* Can splits of a row meet once, at its end? */
static bool can_split(Cx *cx, const Problem *pb, int W, int P) {
    for (int online = 0; online < 2; online++) {
        Plan p = plan_default();
        Cx own = {.a = cx->a}; /* where they cannot is no fault */
        p.W = W, p.P = P, p.split = 2;
        if (online) p.stat = STAT_ONLINE, p.combine = COMBINE_PAIR;
        if (plan_check(&own, pb, &p, NULL, NULL) == OK) return true;
    }
    return false;
}

/* Groups that fill the machine, most promising first, where so many do now. */
static void split_rows(Cx *cx, const Problem *pb, int64_t groups, Space *s) {
    int most = 64;
    while (most > 1 && groups * most > pb->caps.units) most /= 2;
    if (most > 1) space_set(cx, s, DIM_split, (const int[]){1, most, most / 4}, most / 4 > 1 ? 3 : 2);
}

/* What NVIDIA GPUs have beyond others. Rows that are long, or so few that they do not fill the machine, are shared by
 * the groups of a cluster, which were measured to do best with 256 or 512 lanes each; launches that are short are
 * started while the one before ends, and may fetch their rows meanwhile. (Measured on an H200 at 144 pairs of plans:
 * on the better by up to 0.25 us where a launch takes one, late by up to 2.4 times where groups crowd.) */
static void cuda_dims(Cx *cx, const Problem *pb, int64_t n, bool ordered, Space *s) {
    enum { LONG_ROW = 128 << 10, SHARED_ROW = 16 << 10, SHORT_LAUNCH = 64 << 20 }; /* bytes */
    int64_t rows = 1, bytes, all, each = 1; /* bytes of a row, of all rows, of an element */
    for (int q = 0; q < pb->prog->nparams; q++)
        if (pb->prog->param[q].rank && !only_rows(pb->prog, q)) each = i64_max(each, ty_bytes(pb->prog->param[q].ty));
    for (int i = 0; i < pb->prog->naxes; i++)
        if (pb->prog->row_axes >> i & 1 && (pb->shape.n[i] < 0 || !mul_fits(rows, pb->shape.n[i], &rows))) rows = -1;
    if (!mul_fits(n, each, &bytes)) bytes = INT64_MAX;
    if (has_exp(pb->prog) && !pb->caps.poly_math) {
        if (shows_exp(pb->prog))
            space_set(cx, s, DIM_exp, (const int[]){EXP_EXACT}, 1);
        else
            space_set(cx, s, DIM_exp, (const int[]){EXP_FAST, EXP_EXACT}, 2);
    }
    bool half = rows >= 0 && rows * 2 < pb->caps.units; /* of the machine at most, a group a row */
    const bool is_short = rows >= 0 && mul_fits(rows, bytes, &all) && all <= SHORT_LAUNCH;
    if (has_weight(pb->prog)) /* (measured: free is worth 2 % at 65536x769, on at 1024x4096 in the cache) */
        space_set(cx, s, DIM_early, (const int[]){EARLY_OFF, is_short || rows < 0 ? EARLY_ON : EARLY_FREE}, 2);
    if (is_short)
        space_set(cx, s, DIM_overlap,
                  half ? (const int[]){OVERLAP_ON, OVERLAP_LATE, OVERLAP_FETCH, OVERLAP_OFF}
                       : (const int[]){OVERLAP_LATE, OVERLAP_ON, OVERLAP_FETCH, OVERLAP_OFF},
                  4);
    if (rows > 0 && rows <= pb->caps.units && !ordered) few_rows(cx, pb, n, s);
    bool few = half && bytes >= SHARED_ROW;
    if (ordered || pb->caps.max_cluster < 16 || (!few && bytes < LONG_ROW)) return;
    int fill = 16; /* groups a row that fill the machine */
    while (fill > 1 && rows * fill > pb->caps.units) fill /= 2;
    if (few && bytes < LONG_ROW)
        space_set(cx, s, DIM_cluster, (const int[]){fill, 1, fill / 2}, fill > 2 ? 3 : 2);
    else if (few)
        space_set(cx, s, DIM_cluster, (const int[]){16, 1, 8}, 3); /* 1: for splits, too */
    else { /* whose parts come into on-chip memory by copies of their own (measured: 3 to 7 % at 2048x131072) */
        space_set(cx, s, DIM_cluster, (const int[]){8, 4, 1}, 3);
        if (shape_ranged(&pb->shape) < 0) space_set(cx, s, DIM_stages, (const int[]){2, 0}, 2);
    }
    /* measured: bytes 1.86 us for 2.63 at 1x50257, barrier 280 for 303 at 2048x131072, with other changes between;
     * where rows stream, lanes that ask for bytes may take the turns of others */
    space_set(cx, s, DIM_exchange,
              (const int[]){few ? EXCHANGE_BYTES : EXCHANGE_BARRIER, few ? EXCHANGE_BARRIER : EXCHANGE_BYTES}, 2);
    space_set(cx, s, DIM_W, (const int[]){256, 512, 1024}, 3);
    space_set(cx, s, DIM_P, (const int[]){1}, 1);
    if (few && bytes >= LONG_ROW && can_split(cx, pb, 256, 1)) split_rows(cx, pb, rows, s);
}

/* Long columns, so few that the groups which take 32 of them each do not fill the machine. */
static void split_columns(Cx *cx, const Problem *pb, int64_t n, Space *s) {
    enum { LONG_COLUMN = 4096, EACH = 32 };
    int64_t rows = 1;
    for (int i = 0; i < pb->prog->naxes; i++)
        if (pb->prog->row_axes >> i & 1 && (pb->shape.n[i] < 0 || !mul_fits(rows, pb->shape.n[i], &rows))) return;
    if (n >= LONG_COLUMN && can_split(cx, pb, EACH, EACH)) split_rows(cx, pb, ceil_div(rows, EACH), s);
}

/* Can reductions over the last of several axes be joined over segments of lanes, and how many elements share lanes
 * then? 0: they cannot. */
static int64_t segmented(Cx *cx, const Problem *pb) {
    Sched *sc = NEW(cx->a, Sched);
    Cx own = {.a = cx->a}; /* a program without such reductions is no fault */
    if (pb->caps.kind == KIND_HOST ||
        sched_make(&own, pb->prog, &pb->shape, SPREAD_SEGMENTS, false, true, STAT_TWO_PASS, 0, sc) != OK)
        return 0;
    bool any = true;
    for (int i = 0; i < sc->nsinks; i++) {
        if (sc->sink[i].kind != SINK_RED || sched_kept(sc, pb->prog, &sc->sink[i]) != SEGMENTS_MEET) continue;
        int64_t inner = 1;
        bool fits = false;
        for (int a = 0; a < pb->prog->naxes; a++)
            if (pb->prog->val[sc->sink[i].at].over >> a & 1) inner *= pb->shape.n[a];
        for (int V = 1; V <= 8; V *= 2) fits |= plan_segment(inner, V, pb->caps.subgroup) > 0;
        any &= fits;
    }
    return any ? widest(sc) : 0;
}

Err space_default(Cx *cx, const Problem *pb, Space *out) {
    Plan base = plan_default();
    Holdable all;
    Sched sc;
    Err e = find_holdable(cx, pb, &all);
    if (!e) e = sched_make(cx, pb->prog, &pb->shape, problem_spread(pb, NULL), false, true, STAT_TWO_PASS, 0, &sc);
    if (!e) e = space_of_plan(cx, &base, out);
    if (e) return e;
    bool host = pb->caps.kind == KIND_HOST, ordered = is_ordered(pb->prog);
    int64_t joined = segmented(cx, pb), n = joined ? joined : widest(&sc);
    if (joined) space_set(cx, out, DIM_segments, (const int[]){1, 0}, 2);
    int64_t elements = 1;
    for (int i = 0; i < sc.ndomains; i++) elements = i64_max(elements, sc.domain[i].n_serial * sc.domain[i].n_mapped);
    int stat[STAT_COUNT], nstat = 0;
    /* a paired statistic spreads axes over the lanes of a host that two sweeps loop over: divisions for each element */
    const bool pairs =
        !host || sched_serial(pb->prog, &pb->shape, SPREAD_RUNS) == sched_serial(pb->prog, &pb->shape, SPREAD_LANES);
    for (int st = STAT_TWO_PASS; st < STAT_COUNT; st++)
        if (all.stat[st] && (pairs || st == STAT_TWO_PASS)) stat[nstat++] = st;
    space_set(cx, out, DIM_stat, stat, nstat);
    if (ordered)
        space_set(cx, out, DIM_W, (const int[]){1}, 1);
    else
        (host ? hostspace_lanes : gpu_lanes)(cx, pb, n, out);
    if (pb->caps.lanes_in_turn) single_lanes(cx, pb, &all, n, out);
    bool turns = pb->caps.lanes_in_turn, columns = !host && !turns && !ordered && rows_side_by_side(pb->prog);
    if (pb->caps.kind == KIND_CUDA) cuda_dims(cx, pb, n, ordered, out);
    if (columns) gpu_columns(cx, out);
    if (columns && pb->caps.kind == KIND_CUDA) {
        split_columns(cx, pb, n, out);
        if (out->n[DIM_overlap] == 1) /* measured: a sum of 16384 rows takes 61.5 us for 62.7, and 80 by overlap=on */
            space_set(cx, out, DIM_overlap, (const int[]){OVERLAP_LATE, OVERLAP_OFF}, 2);
    }
    if (contracts(pb)) space_set(cx, out, DIM_contract, (const int[]){1}, 1);
    default_holds(cx, pb, &all, out);
    if (turns && !ordered) {
        space_set(cx, out, DIM_acc, (const int[]){16, 32}, 2);
    } else if (!ordered) {
        space_set(cx, out, DIM_acc, (const int[]){1, 2}, 2);
        space_set(cx, out, DIM_flight,
                  host      ? (const int[]){1, 2, 4}
                  : columns ? (const int[]){8, 4}
                            : (const int[]){1, 2},
                  host ? 3 : 2);
    }
    if (divides(pb->prog)) space_set(cx, out, DIM_div, (const int[]){DIV_RECIPROCAL, DIV_EXACT}, 2);
    if (pb->caps.has_stream_store) space_set(cx, out, DIM_store, (const int[]){STORE_PLAIN, STORE_STREAM}, 2);
    if (host) {
        space_set(cx, out, DIM_prefetch, (const int[]){0, 1}, 2);
        if (has_exp(pb->prog) && pb->caps.poly_math) space_set(cx, out, DIM_exp, (const int[]){EXP_FAST}, 1);
        if (hostspace_can_stagger(cx, pb, out)) space_set(cx, out, DIM_stagger, (const int[]){0, 1}, 2);
        hostspace_threads(cx, pb, elements, out);
        space_set(cx, out, DIM_combine, (const int[]){COMBINE_OUTER},
                  1); /* whole registers first: one joined in itself */
    } else {
        if (pb->caps.has_keep) space_set(cx, out, DIM_load, (const int[]){LOAD_KEEP, LOAD_PLAIN, LOAD_NO_ALLOCATE}, 3);
        if (pb->caps.kind == KIND_CUDA && all.stat[STAT_ONLINE] && !columns)
            space_set(cx, out, DIM_combine, (const int[]){COMBINE_INNER, COMBINE_PAIR}, 2);
    }
    if (host && !ordered && only_columns(pb->prog)) hostspace_columns(cx, pb, out);
    if (host && !ordered) hostspace_text(pb, out);
    if (host && !ordered) hostspace_shift(cx, pb, out);
    shed(out);
    return OK;
}
