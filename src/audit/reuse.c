/* What lanes keep is what memory would give them: filled before it is read, by the same lane, for the same element,
 * from what nothing changes in between. The same for outputs that serve as a home, and for inout parameters. */
#include "walk.h"

static bool is_load(const Ins *in) {
    return in->k == K_LOADP || in->k == K_LOAD1;
}
static bool is_store(const Ins *in) {
    return in->k == K_STOREP || in->k == K_STORE1 || in->k == K_STORES;
}

static const Domain *domain_at(const Audit *u, int i) {
    return u->at[i].sweep < 0 ? NULL : &u->k->domain[u->k->node[u->at[i].node].domain];
}

/* Does a lane own the same elements at both places? */
static bool same_lane(const Audit *u, int i, int j) {
    const Domain *x = domain_at(u, i), *y = domain_at(u, j);
    return x && y && x->mapped == y->mapped;
}

static bool join_between(const Audit *u, int i, int j) {
    for (int x = i + 1; x < j; x++)
        if (ins_gathers(&u->k->ins[x])) return true;
    return false;
}

/* ---- parameters that are written ---- */

static Err inout_check(Audit *u, int load, int store) {
    if (load > store) FIND(S_AUDIT_REWRITTEN, "%s reads what %s has written", ins_text(u, load), ins_text(u, store));
    if (plan_lanes(&u->k->plan) > 1 && !same_lane(u, load, store) && !join_between(u, load, store))
        FIND(S_AUDIT_REWRITTEN, "%s: another lane may have done %s by then", ins_text(u, load), ins_text(u, store));
    return OK;
}

static Err home_check(Audit *u, int load) {
    const Kern *k = u->k;
    int param = k->ins[load].param, store = -1, stores = 0;
    bool home = false;
    for (int i = 0; i < load; i++)
        if (is_store(&k->ins[i]) && k->ins[i].param == param) store = i, stores++;
    for (int s = 0; s < k->nstripes; s++) home |= k->stripe[s].home == HOLD_OUTPUT && k->stripe[s].param == param;
    if (!home || stores != 1)
        FIND(S_AUDIT_UNWRITTEN, "%s: %d stores before it, a value that lives there has 1", ins_text(u, load), stores);
    if (!same_lane(u, load, store))
        FIND(S_AUDIT_LANE, "%s: another lane did %s", ins_text(u, load), ins_text(u, store));
    if (!u->noalias) FIND(S_AUDIT_ALIAS, "%s: a value is kept although memory may overlap", ins_text(u, load));
    return OK;
}

static Err params_check(Audit *u) {
    const Kern *k = u->k;
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        if (is_store(in) && u->prog->param[in->param].dir == DIR_IN)
            FIND(S_AUDIT_MUTABLE, "%s: an input", ins_text(u, i));
        if (!is_load(in) || u->prog->param[in->param].dir == DIR_IN) continue;
        bool inout = u->prog->param[in->param].dir == DIR_INOUT;
        if (in->k == K_LOAD1 && in->a[1] >= 0) FIND(S_AUDIT_MUTABLE, "%s: a gather of what is written", ins_text(u, i));
        Err e = inout ? OK : home_check(u, i);
        for (int j = 0; inout && !e && j < k->nins; j++)
            if (is_store(&k->ins[j]) && k->ins[j].param == in->param) e = inout_check(u, i, j);
        if (e) return e;
    }
    return OK;
}

/* ---- stripes ---- */

typedef struct Uses { /* of one stripe */
    int put, nputs, get, last_get, ngets;
    bool adds_up; /* what is put is made of what was got: a lane's accumulator */
} Uses;

static Uses uses_of(const Audit *u, int stripe) {
    const Kern *k = u->k;
    Uses x = {-1, 0, -1, -1, 0, false};
    bool *marks = NEWN(u->cx->a, bool, k->nins);
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        if ((in->k != K_PUT && in->k != K_GET) || in->imm != stripe) continue;
        if (in->k == K_PUT) {
            if (!x.nputs++) x.put = i;
            if (x.ngets) ins_sources(u, in->a[1], marks);
        } else {
            if (!x.ngets++) x.get = i;
            x.last_get = i;
        }
    }
    for (int i = 0; i < k->nins; i++) x.adds_up |= marks[i] && k->ins[i].k == K_GET && k->ins[i].imm == stripe;
    return x;
}

/* The slot is that of the element's own serial point, in a sweep that spreads the stripe's axes. */
static Err place_check(Audit *u, int i) {
    const Ins *in = &u->k->ins[i];
    const Domain *d = &u->k->domain[u->k->stripe[in->imm].domain], *here = domain_at(u, i);
    if (!here || here->mapped != d->mapped)
        FIND(S_AUDIT_LANE, "%s: the sweep spreads other axes than stripe %d", ins_text(u, i), in->imm);
    if (axes_wide(u, d->serial) & ~u->at[i].axes)
        FIND(S_AUDIT_SLOT, "%s: stripe %d has serial axes that are not looped over", ins_text(u, i), in->imm);
    Form want = form_index(u, d->serial), zero = form_const(0);
    const Form *at = in->a[0] >= 0 ? u->form[in->a[0]] : &zero;
    if (u->at[i].runs && !form_equal(at, &want))
        FIND(S_AUDIT_SLOT, "%s: serial point %s, it is at %s", ins_text(u, i), form_text(u, at), form_text(u, &want));
    return OK;
}

static bool changes_later(const Audit *u, int x, KOp put, int from) {
    for (int i = from; i < u->k->nins; i++)
        if (u->k->ins[i].k == put && u->k->ins[i].imm == u->k->ins[x].imm) return true;
    return false;
}

static bool of_rows(const Audit *u, int param) {
    const Param *p = &u->prog->param[param];
    bool rows = p->dir != DIR_IN;
    for (int d = 0; d < p->rank; d++) rows |= axis_is_row(u, p->axis[d]);
    return rows;
}

/* What a held value is made of, addresses, guards and fills among it, stays as it is: making it again later would give
 * the same. Loads of parameters that are written are judged by params_check. */
static Err sources_check(Audit *u, int put) {
    const Kern *k = u->k;
    bool *marks = NEWN(u->cx->a, bool, k->nins);
    ins_sources(u, k->ins[put].a[1], marks);
    for (int i = put; i >= 0; i--) {
        const Ins *in = &k->ins[i];
        if (!marks[i]) continue;
        const bool once = k->node[u->at[put].node].once, load = in->k == K_LOADP || in->k == K_LOAD1;
        if (once && (in->k == K_ROWIDX || (load && of_rows(u, in->param))))
            FIND(S_AUDIT_MUTABLE, "%s: is kept for all rows, and %s is a row's own", ins_text(u, put), ins_text(u, i));
        bool moves = (in->k == K_CELL && in->rank == RANK_PACK) || in->k == K_PACKFOLD || in->k == K_ACTIVE ||
                     (in->k == K_ROWGET && changes_later(u, i, K_ROWPUT, put)) ||
                     (in->k == K_GET && changes_later(u, i, K_PUT, put + 1));
        if (moves) FIND(S_AUDIT_MUTABLE, "%s: is made of %s, which changes", ins_text(u, put), ins_text(u, i));
    }
    return OK;
}

static Err hold_check(Audit *u, int stripe, const Uses *x) {
    const Kern *k = u->k;
    const Stripe *s = &k->stripe[stripe];
    if (!u->noalias) FIND(S_AUDIT_ALIAS, "stripe %d keeps %s although memory may overlap", stripe, s->name);
    if (x->nputs != 1)
        FIND(S_AUDIT_HELD, "stripe %d of %s is filled %d time%s", stripe, s->name, x->nputs, plural(x->nputs));
    uint32_t here = axes_wide(u, u->at[x->put].axes);
    if (here != axes_wide(u, k->domain[s->domain].axes))
        FIND(S_AUDIT_SLOT, "%s: stripe %d is filled where axes %x are worked on", ins_text(u, x->put), stripe, here);
    const Ins *value = &k->ins[k->ins[x->put].a[1]];
    int input = s->name ? prog_param(u->prog, s->name) : -1;
    bool named = input >= 0 && (u->prog->param[input].dir == DIR_IN || u->prog->param[input].dir == DIR_INOUT);
    bool load = is_load(value) && !(value->k == K_LOAD1 && value->a[1] >= 0) &&
                (named || !read_in_part(u, value->param)); /* which is a value of the program, with a name of its own */
    if ((load || named) && (!load || value->param != input))
        FIND(S_AUDIT_HELD, "%s: stripe %d keeps %s, not %s", ins_text(u, x->put), stripe, s->name,
             ins_text(u, k->ins[x->put].a[1]));
    if (x->ngets && u->at[x->last_get].node == u->at[x->put].node)
        FIND(S_AUDIT_PHASE, "stripe %d of %s is read in no other sweep than the one that fills it", stripe, s->name);
    u->out->idle_stripes += !x->ngets;
    return sources_check(u, x->put);
}

/* A stripe keeps a value in the home that the plan names for it. */
static Err plan_check_hold(Audit *u, int stripe) {
    const Plan *p = &u->k->plan;
    const Stripe *s = &u->k->stripe[stripe];
    for (int h = 0; h < p->nholds; h++) {
        if (!s->name || !str_eq(p->hold[h].name, s->name)) continue;
        Hold want = p->hold[h].hold == HOLD_REGISTER32 ? HOLD_REGISTER : p->hold[h].hold;
        bool wide = p->hold[h].hold == HOLD_REGISTER32 ? ty_bytes(s->ty) >= 4 : true;
        if (want == s->home && wide) return OK;
    }
    FIND(S_AUDIT_HELD, "stripe %d keeps %s as %s, which the plan does not say", stripe, s->name ? s->name : "",
         hold_text(s->home));
}

Err audit_reuse(Audit *u) {
    const Kern *k = u->k;
    Err e = params_check(u);
    for (int i = 0; i < k->nins && !e; i++)
        if (k->ins[i].k == K_PUT || k->ins[i].k == K_GET) e = place_check(u, i);
    for (int s = 0; s < k->nstripes && !e; s++) {
        if (k->stripe[s].home == HOLD_OUTPUT) {
            e = plan_check_hold(u, s);
            continue;
        }
        Uses x = uses_of(u, s);
        u->out->stripes++;
        if (!x.nputs || (x.ngets && x.get < x.put))
            FIND(S_AUDIT_UNWRITTEN, "stripe %d of %s is read before it is filled", s, k->stripe[s].name);
        if (!x.adds_up) e = hold_check(u, s, &x);
        if (!x.adds_up && !e) e = plan_check_hold(u, s);
    }
    return e;
}
