/* A space in which a text pins something -> the same with what that needs beside it, where the values of the default
 * space were made for another. What the text names stays as it is. */
#include "space.h"

#include <string.h>

static void add_value(Cx *cx, Space *s, int d, int x) {
    int *value = NEWN(cx->a, int, s->n[d] + 1);
    for (int i = 0; i < s->n[d]; i++)
        if (s->value[d][i] == x) return;
    memcpy(value, s->value[d], (size_t)s->n[d] * sizeof *value);
    value[s->n[d]++] = x;
    s->value[d] = value;
}

static void add_hold(Cx *cx, Space *s, int i, Hold home, bool first) {
    Hold *h = NEWN(cx->a, Hold, s->nhold[i] + 1);
    int n = 0;
    if (first) h[n++] = home;
    for (int k = 0; k < s->nhold[i]; k++)
        if (s->hold[i][k] != home) h[n++] = s->hold[i][k];
    if (!first) h[n++] = home;
    s->hold[i] = h, s->nhold[i] = n;
}

static int most_of(const Space *s, int d) {
    int v = s->value[d][0];
    for (int i = 1; i < s->n[d]; i++) v = s->value[d][i] > v ? s->value[d][i] : v;
    return v;
}

/* ---- copies ahead of their use ---- */

/* Asynchronous copies bring inputs into on-chip memory: those of rows may be held there, if neither the text nor the
 * program says where they are; first, so that what is said of no plan is said of one that does. */
static void hold_inputs(Cx *cx, const Problem *pb, Space *s) {
    const Prog *p = pb->prog;
    for (int i = 0; i < s->nholds; i++) {
        const int q = prog_param(p, s->hold_name[i]);
        bool of_rows = false;
        for (int d = 0; q >= 0 && d < p->param[q].rank; d++) of_rows |= p->row_axes >> p->param[q].axis[d] & 1;
        if (of_rows && !s->asked[i] && p->param_hold[q] == HOLD_AUTO) add_hold(cx, s, i, HOLD_SHARED, true);
    }
}

/* Rows ahead are those of a group that takes many, whose copies are waited for. */
static void open_copies(Cx *cx, const Problem *pb, const char *text, Space *s) {
    const bool ahead = space_is_named(text, DIM_ahead) && space_least(s, DIM_ahead) > 0;
    const bool stages = space_is_named(text, DIM_stages) && space_least(s, DIM_stages) > 0;
    if (pb->caps.kind != KIND_CUDA || (!ahead && !stages)) return;
    if (ahead && !space_is_named(text, DIM_grid)) space_set(cx, s, DIM_grid, (const int[]){1, 2}, 2);
    if (ahead && !space_is_named(text, DIM_stages)) space_set(cx, s, DIM_stages, (const int[]){1, 2}, 2);
    if (space_least(s, DIM_stages) > 0) hold_inputs(cx, pb, s);
}

/* ---- rows without a partial chunk ---- */

static int64_t common(int64_t a, int64_t b) { /* the greatest common divisor; of 0, which all divide, the other */
    while (b) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* The greatest that divides every extent which lanes share: 1 where one is given at launch, 0 without elements. */
static Err common_extent(Cx *cx, const Problem *pb, const Space *s, int64_t *n) {
    Sched *sc = NEW(cx->a, Sched);
    Plan plan = plan_default();
    plan.segments = space_least(s, DIM_segments);
    Err e = sched_make(cx, pb->prog, &pb->shape, problem_spread(pb, &plan), false, true, STAT_TWO_PASS, 0, sc);
    const int axis = shape_ranged(&pb->shape);
    *n = 0;
    for (int i = 0; i < sc->ndomains && !e; i++)
        if (sc->domain[i].mapped)
            *n = common(*n, axis >= 0 && sc->domain[i].mapped >> axis & 1 ? 1 : sc->domain[i].n_mapped);
    return e;
}

static bool any_divides(const Space *s, int64_t n) {
    for (int i = 0; i < s->n[DIM_W]; i++)
        for (int k = 0; k < s->n[DIM_V]; k++)
            for (int c = 0; c < s->n[DIM_cluster]; c++)
                for (int p = 0; p < s->n[DIM_split]; p++)
                    if (n % ((int64_t)s->value[DIM_W][i] * s->value[DIM_V][k] * s->value[DIM_cluster][c] *
                             s->value[DIM_split][p]) ==
                        0)
                        return true;
    return false;
}

/* The most lanes of those that there are here, up to `most`, which times `each` divide the extent. 0: none do. */
static int dividing_lanes(const Caps *caps, int64_t n, int64_t each, int most) {
    int W = 0;
    for (int i = 0; i < dim_info(DIM_W)->nlegal; i++) {
        const int x = dim_info(DIM_W)->legal[i];
        if (x <= most && (x % caps->subgroup == 0 || (x <= 16 && is_pow2(x))) && n % (x * each) == 0) W = x;
    }
    return W;
}

/* tail=exact: groups, packs and lanes that divide the row, be it one lane with single elements. */
static Err open_exact(Cx *cx, const Problem *pb, const char *text, Space *s) {
    static const int alone[] = {DIM_cluster, DIM_exchange,
                                DIM_split}; /* whose first value is that of one group a row */
    int64_t n = 0;
    if (!space_is_named(text, DIM_tail) || space_least(s, DIM_tail) != TAIL_EXACT) return OK;
    Err e = common_extent(cx, pb, s, &n);
    if (e || any_divides(s, n)) return e;
    for (int i = 0; i < COUNT(alone); i++)
        if (!space_is_named(text, alone[i])) add_value(cx, s, alone[i], dim_info(alone[i])->legal[0]);
    const int64_t groups = (int64_t)space_least(s, DIM_cluster) * space_least(s, DIM_split);
    const int64_t lanes = space_is_named(text, DIM_W) ? space_least(s, DIM_W) : 1, most = most_of(s, DIM_W);
    int V = most_of(s, DIM_V);
    while (V > 1 && n % (groups * lanes * V)) V /= 2;
    if (!space_is_named(text, DIM_V)) add_value(cx, s, DIM_V, V), add_value(cx, s, DIM_V, 1);
    for (int i = 0; i < s->n[DIM_V] && !space_is_named(text, DIM_W); i++) {
        const int W = dividing_lanes(&pb->caps, n, groups * s->value[DIM_V][i], (int)most);
        if (W) add_value(cx, s, DIM_W, W);
    }
    return OK;
}

/* ---- what else does not go with it ---- */

/* A value that another statistic needs in two sweeps, this one perhaps in one, where nothing can keep it. */
static void leave_holds(Cx *cx, Space *s) {
    for (int i = 0; i < s->nholds; i++) {
        bool kept = !s->asked[i];
        for (int k = 0; k < s->nhold[i]; k++) kept &= s->hold[i][k] != HOLD_RELOAD && s->hold[i][k] != HOLD_RECOMPUTE;
        if (kept) add_hold(cx, s, i, HOLD_RELOAD, false);
    }
}

static bool any_subgroups(const Space *s, int subgroup) {
    bool any = false;
    for (int i = 0; i < s->n[DIM_W]; i++) any |= s->value[DIM_W][i] % subgroup == 0;
    return any;
}

/* The most lanes of P rows that a group has room for. */
static int fitting_lanes(const Caps *caps, int P) {
    int W = caps->max_group > P ? caps->max_group / P : 1;
    while (W > 1 && !dim_is_legal(DIM_W, W)) W--;
    return W;
}

/* One row a group and one group a row go with every width of a row, whole subgroups with several groups a row, few
 * lanes with many rows a group, a barrier with one group a row, one accumulator and no copies ahead with every
 * statistic: what was pinned must not fail for want of them, where the values of the default space were made for
 * another. */
static void leave_way_out(Cx *cx, const Problem *pb, const char *text, int default_W, Space *s) {
    const int W = space_least(s, DIM_W), P = space_least(s, DIM_P), subgroup = pb->caps.subgroup;
    const bool full = W * P > pb->caps.max_group, shared = space_least(s, DIM_cluster) > 1;
    const bool loose = /* fewer lanes keep less */
        space_least(s, DIM_stat) != STAT_TWO_PASS || W < default_W || (full && !space_is_named(text, DIM_W));
    const bool bytes = space_is_named(text, DIM_exchange) && space_least(s, DIM_exchange) > EXCHANGE_BARRIER &&
                       pb->caps.max_cluster > 1;
    const bool splits = space_is_named(text, DIM_split) && space_least(s, DIM_split) > 1;  /* in one sweep: subgroups */
    const bool several = splits || bytes || (shared && space_is_named(text, DIM_cluster)); /* groups a row */
    const bool apart = shared && (W % subgroup || P > 1 || space_least(s, DIM_split) > 1);
    const bool meets_barrier = apart || (s->n[DIM_cluster] == 1 && !shared);
    const struct {
        int dim, value;
        bool stuck;
    } way[] = {{DIM_P, 1, full || (several && P > 1)},
               {DIM_W, fitting_lanes(&pb->caps, P), full},
               {DIM_W, subgroup, several && !any_subgroups(s, subgroup)},
               {DIM_cluster, 2, bytes && most_of(s, DIM_cluster) == 1},
               {DIM_cluster, 1, apart},
               {DIM_exchange, EXCHANGE_BARRIER, meets_barrier && space_least(s, DIM_exchange) > EXCHANGE_BARRIER},
               {DIM_acc, 1, space_least(s, DIM_stat) != STAT_TWO_PASS && space_least(s, DIM_acc) > 1},
               {DIM_stages, 0, loose && space_least(s, DIM_stages) > 0}};
    if (loose) leave_holds(cx, s);
    for (int k = 0; k < COUNT(way); k++)
        if (way[k].stuck && !space_is_named(text, way[k].dim)) add_value(cx, s, way[k].dim, way[k].value);
}

Err space_way_out(Cx *cx, const Problem *pb, const char *text, int default_W, Space *s) {
    open_copies(cx, pb, text, s);
    Err e = open_exact(cx, pb, text, s);
    if (!e) leave_way_out(cx, pb, text, default_W, s);
    return e;
}
