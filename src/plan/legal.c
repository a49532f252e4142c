/* Problem + Plan -> legal, with its schedule and stripes, or the first rule it breaks, with its numbers. Nothing here
 * knows cost. */
#include "legal.h"

#include <string.h>

/* For machines that lack f64: no tensor has it, and nothing is computed in it. */
static Err check_no_f64(Cx *cx, const Prog *p, const Caps *caps) {
    for (int i = 0; i < p->nparams; i++)
        if (p->param[i].ty == TY_F64)
            return diag(cx, S_PLAN_NO_F64, NOWHERE, "f32", "%s is f64, which %s lacks", p->param[i].name, caps->name);
    for (int v = 0; v < p->nvals; v++)
        if (p->val[v].ty == TY_F64)
            return diag(cx, S_PLAN_NO_F64, p->val[v].at, "f32", "a value is f64, which %s lacks", caps->name);
    return OK;
}

Err problem_make(Cx *cx, const Prog *source, const Shape *s, const Caps *caps, uint32_t strided, Problem *out) {
    *out = (Problem){.source = source, .shape = *s, .caps = *caps, .noalias = true, .strided = strided};
    if (caps->subgroup < 1 || caps->max_lanes < 1 || caps->max_group < 1)
        return diag(cx, S_ARG, NOWHERE, "1 or more", "machine %s: subgroup=%d max_lanes=%d max_group=%d", caps->name,
                    caps->subgroup, caps->max_lanes, caps->max_group);
    if (caps->kind == KIND_METAL && !caps->poly_math) /* Metal has no erf, and a pow that is 16 ulp off */
        return diag(cx, S_ARG, NOWHERE, "poly_math=1", "machine %s: metal with special functions of its own",
                    caps->name);
    Err e = caps->has_f64 ? OK : check_no_f64(cx, source, caps);
    if (!e) e = shape_bind(cx, source, &out->shape);
    if (e) return e;
    out->prog = pass_simplify(cx, source, &out->shape);
    out->range = pass_ranges(cx, out->prog, &out->shape);
    out->takes = pass_contracts(cx, out->prog);
    return OK;
}

bool problem_is_taken(const Problem *pb, int val) {
    for (int v = 0; v < pb->prog->nvals; v++)
        if (pb->takes[v] >= 0 && pb->prog->val[v].a[pb->takes[v]] == val) return true;
    return false;
}

/* ---- holds ---- */

Hold plan_hold(const Plan *plan, const char *name) {
    for (int i = 0; i < plan->nholds; i++)
        if (str_eq(plan->hold[i].name, name)) return plan->hold[i].hold;
    return HOLD_AUTO;
}

Hold plan_hold_of(const Plan *plan, const Cand *c) {
    Hold h = plan_hold(plan, c->name);
    if (h == HOLD_AUTO) h = c->pinned;
    return h != HOLD_AUTO ? h : c->load ? HOLD_RELOAD : HOLD_RECOMPUTE;
}

bool hold_keeps(Hold h) {
    return h == HOLD_REGISTER || h == HOLD_REGISTER32 || h == HOLD_OUTPUT || h == HOLD_SHARED;
}

uint64_t plan_held(const Plan *plan, const Sched *sc) {
    uint64_t held = 0;
    for (int i = 0; i < sc->ncands; i++)
        if (hold_keeps(plan_hold_of(plan, &sc->cand[i]))) held |= 1ull << i;
    return held;
}

void plan_complete(const Sched *sc, Plan *plan) {
    for (int i = 0; i < sc->ncands && plan->nholds < MAX_CANDS; i++) {
        const Cand *c = &sc->cand[i];
        if (plan_hold(plan, c->name) != HOLD_AUTO) continue;
        Hold h = plan_hold_of(plan, c);
        plan->hold[plan->nholds].name = c->name;
        plan->hold[plan->nholds++].hold = h;
    }
}

static const Cand *cand_find(const Sched *sc, const char *name) {
    for (int i = 0; i < sc->ncands; i++)
        if (str_eq(sc->cand[i].name, name)) return &sc->cand[i];
    return NULL;
}

static const char *cand_names(Cx *cx, const Sched *sc) {
    Buf b = buf_new(cx->a);
    for (int i = 0; i < sc->ncands; i++) buf_fmt(&b, "%s%s", i ? " " : "", sc->cand[i].name);
    return sc->ncands ? b.s : "nothing: no value is needed in two sweeps";
}

/* What a name of the program is, where it is not a candidate. */
typedef enum Known { KNOWN_NOT, KNOWN_INPUT, KNOWN_VALUE } Known;
static Known name_known(const Prog *p, const char *name) {
    int q = prog_param(p, name);
    if (q >= 0 && (p->param[q].dir == DIR_IN || p->param[q].dir == DIR_INOUT)) return KNOWN_INPUT;
    for (int i = 0; i < p->nvals; i++)
        if (p->val[i].name && str_eq(p->val[i].name, name)) return KNOWN_VALUE;
    return q >= 0 && p->param[q].dir == DIR_OUT ? KNOWN_VALUE : KNOWN_NOT;
}

/* An input that is read, and never at the element's own place: no lane owns what it reads. */
static bool only_gathered(const Prog *p, const char *name) {
    bool read = false, in_place = false;
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        if (v->op != OP_LOAD || !str_eq(p->param[v->param].name, name)) continue;
        read = true;
        in_place |= val_in_place(p, v);
    }
    return read && !in_place;
}

/* A name without two sweeps that need it takes the hold that changes nothing, so that one space serves several
 * statistics. */
static Err check_other_hold(Cx *cx, const Problem *pb, const Sched *sc, const char *name, Hold h) {
    Known k = name_known(pb->prog, name);
    if (k == KNOWN_NOT) k = name_known(pb->source, name);
    if (k == KNOWN_NOT)
        return diag(cx, S_PLAN_HOLD_UNKNOWN, NOWHERE, cand_names(cx, sc), "hold.%s: %s has no such value", name,
                    pb->prog->name);
    if (h == (k == KNOWN_INPUT ? HOLD_RELOAD : HOLD_RECOMPUTE)) return OK;
    if (k == KNOWN_INPUT && only_gathered(pb->prog, name))
        return diag(cx, S_PLAN_HOLD_GATHER, NOWHERE, cand_names(cx, sc),
                    "hold.%s=%s: %s is only read at an index, by a gather that may cross lanes", name, hold_text(h),
                    name);
    return diag(cx, S_PLAN_HOLD_SINGLE, NOWHERE, cand_names(cx, sc),
                "hold.%s=%s: fewer than two sweeps of its owners need it", name, hold_text(h));
}

static Err check_hold(Cx *cx, const Problem *pb, const Cand *c, Hold h) {
    if (c->pinned != HOLD_AUTO && h != c->pinned)
        return diag(cx, S_PLAN_HOLD_PINNED, NOWHERE, hold_text(c->pinned), "hold.%s=%s, the program pins %s", c->name,
                    hold_text(h), hold_text(c->pinned));
    if (h == HOLD_RELOAD && !c->load)
        return diag(cx, S_PLAN_HOLD_NOT_INPUT, NOWHERE, NULL, "hold.%s=reload: %s is computed", c->name, c->name);
    if (h == HOLD_RECOMPUTE && c->load)
        return diag(cx, S_PLAN_HOLD_IS_INPUT, NOWHERE, NULL, "hold.%s=recompute: %s is an input", c->name, c->name);
    if (!hold_keeps(h)) return OK;
    if (h == HOLD_REGISTER32 && !(c->load && ty_is_float(c->storage) && ty_bytes(c->storage) < 4))
        return diag(cx, S_PLAN_HOLD_NARROW, NOWHERE, NULL, "hold.%s=register.f32: storage is %s", c->name,
                    ty_text(c->storage));
    if (!pb->noalias)
        return diag(cx, S_PLAN_NO_ALIAS, NOWHERE, NULL, "hold.%s=%s without the promise that nothing overlaps", c->name,
                    hold_text(h));
    if (h == HOLD_OUTPUT && c->output < 0)
        return diag(cx, S_PLAN_NO_HOME, NOWHERE, NULL, "hold.%s=output: no output can keep a %s there", c->name,
                    ty_text(c->storage));
    if (h == HOLD_SHARED && pb->caps.shared_bytes <= 0)
        return diag(cx, S_PLAN_NO_SHARED, NOWHERE, NULL, "hold.%s=shared: %s has shared_bytes=0", c->name,
                    pb->caps.name);
    if (h == HOLD_SHARED && pb->caps.kind == KIND_HOST)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "hold.%s=shared: not on %s machines", c->name,
                    kind_text(pb->caps.kind));
    return OK;
}

/* The program's own pins on values that no plan could keep. */
static Err check_pins(Cx *cx, const Problem *pb, const Sched *sc) {
    const Prog *p = pb->prog;
    for (int v = 0; v < p->nvals; v++) {
        bool load = p->val[v].op == OP_LOAD && val_in_place(p, &p->val[v]);
        Hold pin = load ? p->param_hold[p->val[v].param] : p->val[v].hold;
        const char *name = load ? p->param[p->val[v].param].name : p->val[v].name;
        if (pin == HOLD_AUTO || !name || cand_find(sc, name)) continue;
        Err e = check_other_hold(cx, pb, sc, name, pin);
        if (e) return e;
    }
    return OK;
}

static Err check_holds(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    Err pinned = check_pins(cx, pb, sc);
    if (pinned) return pinned;
    for (int i = 0; i < plan->nholds; i++) {
        if (cand_find(sc, plan->hold[i].name)) continue;
        Err e = check_other_hold(cx, pb, sc, plan->hold[i].name, plan->hold[i].hold);
        if (e) return e;
    }
    const Cand *lives_in[MAX_PARAMS] = {0};
    for (int i = 0; i < sc->ncands; i++) {
        const Cand *c = &sc->cand[i];
        Hold h = plan_hold_of(plan, c);
        Err e = check_hold(cx, pb, c, h);
        if (!e && plan->contract && hold_keeps(h) && problem_is_taken(pb, c->val)) /* it is never there by itself */
            e = diag(cx, S_PLAN_CONTRACT, pb->prog->val[c->val].at, "recompute, or contract=off",
                     "contract=on with hold.%s=%s: an addition takes the product in", c->name, hold_text(h));
        if (e) return e;
        if (h != HOLD_OUTPUT) continue;
        if (lives_in[c->output])
            return diag(cx, S_PLAN_HOME_TAKEN, NOWHERE, NULL, "%s and %s would both live in %s",
                        lives_in[c->output]->name, c->name, pb->prog->param[c->output].name);
        lives_in[c->output] = c;
    }
    return OK;
}

/* ---- values and the machine ---- */

static Err check_values(Cx *cx, const Plan *plan) {
    for (int d = 0; d < DIM_COUNT; d++)
        if (!dim_is_legal(d, plan_dim_get(plan, d)))
            return diag(cx, S_PLAN_VALUE, NOWHERE, dim_values(cx, d), "%s=%d", dim_info(d)->name,
                        plan_dim_get(plan, d));
    if (plan->nholds < 0 || plan->nholds > MAX_CANDS)
        return diag(cx, S_PLAN_VALUE, NOWHERE, NULL, "holds=%d most=%d", plan->nholds, MAX_CANDS);
    for (int i = 0; i < plan->nholds; i++) {
        Hold h = plan->hold[i].hold;
        if ((int)h <= HOLD_AUTO || h >= HOLD_COUNT)
            return diag(cx, S_PLAN_VALUE, NOWHERE, NULL, "hold.%s=%d", plan->hold[i].name, (int)h);
        for (int k = 0; k < i; k++)
            if (str_eq(plan->hold[k].name, plan->hold[i].name))
                return diag(cx, S_PLAN_TWICE, NOWHERE, NULL, "hold.%s is named twice", plan->hold[i].name);
    }
    return OK;
}

/* What no backend of this kind realises: anything but the default is refused. */
static Err check_realised(Cx *cx, const Problem *pb, const Plan *plan) {
    Kind kind = pb->caps.kind;
    if (plan->early && kind != KIND_CUDA && (kind != KIND_METAL || plan->early == EARLY_FREE))
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "early=%s: not on %s machines",
                    dim_info(DIM_early)->word[plan->early], kind_text(kind));
    if (plan->min_groups && kind != KIND_CUDA)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "min-groups=%d: not on %s machines", plan->min_groups,
                    kind_text(kind));
    if (plan->overlap && kind != KIND_CUDA)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "overlap=%s: not on %s machines",
                    dim_info(DIM_overlap)->word[plan->overlap], kind_text(kind));
    if (plan->split > 1 && kind != KIND_CUDA)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "split=%d: not on %s machines", plan->split, kind_text(kind));
    if (plan->stages && kind != KIND_CUDA)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "stages=%d: not on %s machines", plan->stages, kind_text(kind));
    if (plan->exp == EXP_FAST && kind != KIND_HOST && (kind != KIND_CUDA || pb->caps.poly_math))
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "exp=fast: not on %s machines%s", kind_text(kind),
                    pb->caps.poly_math ? " with rowfold's own functions" : "");
    if (plan->contract && kind == KIND_HOST && pb->caps.isa == ISA_PORTABLE)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "contract=on: not on %s machines without an instruction for it",
                    kind_text(kind));
    if (plan->cluster > (pb->caps.max_cluster > 1 && kind == KIND_CUDA ? pb->caps.max_cluster : 1))
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "cluster=%d on a %s machine: most=%d", plan->cluster,
                    kind_text(kind), kind == KIND_CUDA ? pb->caps.max_cluster : 1);
    if (plan->exchange && kind != KIND_CUDA)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "exchange=%s: not on %s machines",
                    dim_info(DIM_exchange)->word[plan->exchange], kind_text(kind));
    if (plan->grid && kind == KIND_HOST)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "grid=%d: not on %s machines", plan->grid, kind_text(kind));
    if (plan->ahead && kind != KIND_CUDA)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "ahead=%d: not on %s machines", plan->ahead, kind_text(kind));
    if (plan->tail == TAIL_HEAD_SHIFT && kind != KIND_HOST)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, "guarded",
                    "tail=head-shift: not on %s machines, whose lanes access single elements of such rows",
                    kind_text(kind));
    if (plan->segments && kind == KIND_HOST)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "segments=on: not on %s machines", kind_text(kind));
    if (plan->threads && kind != KIND_HOST)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "threads=%d: not on %s machines", plan->threads,
                    kind_text(kind));
    if (plan->stagger && kind != KIND_HOST)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "stagger=on: not on %s machines", kind_text(kind));
    if (plan->prefetch && kind != KIND_HOST)
        return diag(cx, S_PLAN_MACHINE, NOWHERE, NULL, "prefetch=%d: not on %s machines", plan->prefetch,
                    kind_text(kind));
    return OK;
}

static Err check_machine(Cx *cx, const Problem *pb, const Plan *plan) {
    const Caps *c = &pb->caps;
    if (plan->W > c->max_lanes) return diag(cx, S_PLAN_LANES, NOWHERE, NULL, "W=%d most=%d", plan->W, c->max_lanes);
    if (plan->W % c->subgroup && !(plan->W <= 16 && is_pow2(plan->W)))
        return diag(cx, S_PLAN_WIDTH, NOWHERE, NULL, "W=%d subgroup=%d", plan->W, c->subgroup);
    if (plan->W * plan->P > c->max_group)
        return diag(cx, S_PLAN_GROUP, NOWHERE, NULL, "W=%d P=%d need=%d budget=%d", plan->W, plan->P, plan->W * plan->P,
                    c->max_group);
    if (plan->cluster > 1 && c->max_cluster > 1 && (plan->P > 1 || plan->W % c->subgroup))
        return diag(cx, S_PLAN_CLUSTER, NOWHERE, "P=1 and whole subgroups", "cluster=%d with P=%d W=%d subgroup=%d",
                    plan->cluster, plan->P, plan->W, c->subgroup);
    if (plan->exchange == EXCHANGE_BYTES && plan->cluster == 1 && c->kind == KIND_CUDA)
        return diag(cx, S_PLAN_CLUSTER, NOWHERE, "exchange=barrier", "exchange=bytes with cluster=1");
    if (plan->combine == COMBINE_OUTER && c->kind != KIND_HOST && plan_lanes(plan) > c->subgroup && c->subgroup > 1)
        return diag(cx, S_PLAN_COMBINE, NOWHERE, NULL, "combine=outer with W=%d subgroup=%d on a %s machine",
                    plan_lanes(plan), c->subgroup, kind_text(c->kind));
    const int subgroups = (int)ceil_div(plan->W, c->subgroup);
    if (plan->combine == COMBINE_PAIR && (c->kind == KIND_HOST || c->subgroup == 1 || subgroups > c->subgroup))
        return diag(cx, S_PLAN_COMBINE_PAIR, NOWHERE, NULL,
                    "combine=pair with W=%d on a %s machine: %d subgroup%s of %d", plan->W, kind_text(c->kind),
                    subgroups, plural(subgroups), c->subgroup);
    if (plan->load != LOAD_PLAIN && !c->has_keep)
        return diag(cx, S_PLAN_LOAD, NOWHERE, "plain", "load=%s on %s", dim_info(DIM_load)->word[plan->load], c->name);
    if (plan->store != STORE_PLAIN && !c->has_stream_store)
        return diag(cx, S_PLAN_STORE, NOWHERE, "plain", "store=%s on %s", dim_info(DIM_store)->word[plan->store],
                    c->name);
    return check_realised(cx, pb, plan);
}

/* ---- the program at this shape ---- */

static uint32_t axes_of(const Param *p) {
    uint32_t axes = 0;
    for (int d = 0; d < p->rank; d++) axes |= 1u << p->axis[d];
    return axes;
}

/* A tensor goes by packs where its last dimension, contiguous by default, is spread over lanes. */
static Err check_packs(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    uint32_t mapped = 0;
    for (int i = 0; i < sc->ndomains; i++) mapped |= sc->domain[i].mapped;
    for (int q = 0; q < pb->prog->nparams && pb->caps.max_pack_bytes; q++) {
        const Param *p = &pb->prog->param[q];
        bool side_by_side = false, more = true; /* dimensions of extent 1 are none in memory */
        for (int d = p->rank - 1; d >= 0 && more; d--) {
            side_by_side |= mapped >> p->axis[d] & 1;
            more = !(pb->prog->row_axes >> p->axis[d] & 1) && pb->shape.n[p->axis[d]] == 1;
        }
        bool whole = false; /* a tensor of some of a sweep's axes is read element by element */
        for (int i = 0; i < sc->ndomains; i++) whole |= sc->domain[i].mapped && !(sc->domain[i].mapped & ~axes_of(p));
        if (!side_by_side || !whole || pb->strided >> q & 1) continue;
        bool used = p->dir != DIR_IN;
        for (int v = 0; v < pb->prog->nvals && !used; v++)
            used = pb->prog->val[v].op == OP_LOAD && pb->prog->val[v].param == q &&
                   val_in_place(pb->prog, &pb->prog->val[v]);
        int bytes = plan->V * ty_bytes(p->ty);
        if (used && bytes > pb->caps.max_pack_bytes)
            return diag(cx, S_PLAN_PACK, NOWHERE, NULL, "V=%d of %s %s: need=%d budget=%d bytes", plan->V, p->name,
                        ty_text(p->ty), bytes, pb->caps.max_pack_bytes);
    }
    return OK;
}

static Err check_index(Cx *cx, const Problem *pb, const Sched *sc) {
    const int64_t most = INT32_MAX;
    for (int i = 0; i < sc->ndomains; i++) {
        const Domain *d = &sc->domain[i];
        int64_t n;
        if (!mul_fits(d->n_serial, d->n_mapped, &n) || n > most)
            return diag(cx, S_PLAN_INDEX, NOWHERE, "64", "index=32: a row has %lld x %lld elements, most=%lld",
                        (long long)d->n_serial, (long long)d->n_mapped, (long long)most);
    }
    for (int q = 0; q < pb->prog->nparams; q++) {
        const Param *p = &pb->prog->param[q];
        int64_t n = 1;
        for (int k = 0; k < p->rank; k++) {
            int64_t e = pb->shape.n[p->axis[k]];
            if (e >= 0 && !mul_fits(n, e, &n)) n = INT64_MAX;
        }
        if (n > most)
            return diag(cx, S_PLAN_INDEX, NOWHERE, "64", "index=32: %s has %lld elements, most=%lld", p->name,
                        (long long)n, (long long)most);
    }
    return OK;
}

/* A compiler's time grows with the text: at 128 registers a step of softmax takes gcc some seconds already. */
enum { MAX_TEXT_REGISTERS = 128 };

/* order=fixed: W lanes of acc accumulators are the 1,024 partials, and joining accumulators first, then lanes from the
 * outside in, halves them pairwise from 512 down, whatever W is. Everything else that can change a bit of a sum is
 * pinned. */
static Err check_fixed(Cx *cx, const Problem *pb, const Plan *plan) {
    const int axis = shape_ranged(&pb->shape);
    const uint32_t loops = sched_serial(pb->prog, &pb->shape, problem_spread(pb, plan));
    for (int64_t n = axis < 0 ? LONG_RUN : pb->shape.least[axis]; n < LONG_RUN && n < pb->shape.n[axis]; n++) {
        const Shape at = shape_at(&pb->shape, n);
        if (sched_serial(pb->prog, &at, problem_spread(pb, plan)) != loops)
            return diag(cx, S_PLAN_FIXED, NOWHERE, "a narrower range",
                        "order=fixed: at %s=%lld other axes are looped over, and joined in another order, than at %lld",
                        pb->prog->axis[axis].name, (long long)n, (long long)pb->shape.n[axis]);
    }
    if (plan_lanes(plan) * plan->acc != FIXED_PARTIALS)
        return diag(cx, S_PLAN_FIXED, NOWHERE, "W*acc=1024",
                    "order=fixed with W=%d acc=%d cluster=%d split=%d: %d partial%s, need=%d", plan->W, plan->acc,
                    plan->cluster, plan->split, plan_lanes(plan) * plan->acc, plural(plan_lanes(plan) * plan->acc),
                    FIXED_PARTIALS);
    if (plan->V != 1)
        return diag(cx, S_PLAN_FIXED, NOWHERE, "V=1",
                    "order=fixed with V=%d: neighbouring elements belong to different partials", plan->V);
    if (plan->combine != COMBINE_OUTER || plan->stat != STAT_TWO_PASS || plan->div != DIV_EXACT ||
        plan->exp == EXP_FAST || plan->contract)
        return diag(cx, S_PLAN_FIXED, NOWHERE, "combine=outer stat=two-pass div=exact exp=exact or own contract=off",
                    "order=fixed with combine=%s stat=%s div=%s exp=%s contract=%s",
                    dim_info(DIM_combine)->word[plan->combine], stat_text((Stat)plan->stat),
                    dim_info(DIM_div)->word[plan->div], dim_info(DIM_exp)->word[plan->exp],
                    dim_info(DIM_contract)->word[plan->contract]);
    return OK;
}

/* Do the domain's elements go with an extent that is given at launch? */
static bool is_ranged(const Problem *pb, const Domain *d) {
    int axis = shape_ranged(&pb->shape);
    return axis >= 0 && d->mapped >> axis & 1;
}

/* Elements that stripes have room for: where the text does not know which step is the last, it touches the slots of
 * whole steps. */
int64_t plan_reserved(const Problem *pb, const Plan *plan, const Domain *d) {
    int64_t step = (int64_t)plan_lanes(plan) * plan->V * plan->flight;
    return is_ranged(pb, d) && d->n_mapped < INT64_MAX / 4 ? ceil_div(d->n_mapped, step) * step : d->n_mapped;
}

/* Are neighbouring rows neighbours in memory, so that lanes of a row may not be neighbours? */
static bool rows_adjacent(const Prog *p) {
    int last = -1;
    for (int i = 0; i < p->naxes; i++)
        if (p->row_axes >> i & 1) last = i;
    for (int q = 0; q < p->nparams; q++)
        if (p->param[q].dir == DIR_IN && p->param[q].rank > 1 && p->param[q].axis[p->param[q].rank - 1] == last)
            return true;
    return false;
}

static Err check_shape(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    const int64_t chunk = (int64_t)plan_lanes(plan) * plan->V;
    for (int i = 0; i < sc->nsweeps && plan->tail == TAIL_EXACT; i++) {
        const Domain *d = &sc->domain[sc->sweep[i].domain];
        const bool ranged = is_ranged(pb, d) && chunk > 1;
        if (!ranged && (!d->mapped || d->n_mapped % chunk == 0)) continue;
        const char *width = plan_groups(plan) > 1 ? "W*V*groups of a row" : "W*V";
        if (ranged)
            return diag(cx, S_PLAN_TAIL, NOWHERE, "guarded", "tail=exact: N is given at launch, and %s=%lld", width,
                        (long long)chunk);
        return diag(cx, S_PLAN_TAIL, NOWHERE, "guarded", "tail=exact: N=%lld is not a multiple of %s=%lld",
                    (long long)d->n_mapped, width, (long long)chunk);
    }
    if (plan->index == 32) {
        Err e = check_index(cx, pb, sc);
        if (e) return e;
    }
    if (plan->acc > 1 && (sc->stat == STAT_ONLINE || sc->stat == STAT_WELFORD))
        return diag(cx, S_PLAN_ACC, NOWHERE, "1", "acc=%d with stat=%s", plan->acc, stat_text(sc->stat));
    if (plan->combine == COMBINE_PAIR &&
        (sc->stat != STAT_ONLINE || !sc->npairs || (plan->P > 1 && rows_adjacent(pb->prog))))
        return diag(cx, S_PLAN_COMBINE_PAIR, NOWHERE, "stat=online, P=1 where rows are neighbours in memory",
                    "combine=pair with stat=%s P=%d", stat_text(sc->stat), plan->P);
    if (pb->caps.kind == KIND_HOST) {
        int R = plan->W > pb->caps.subgroup ? plan->W / pb->caps.subgroup : 1,
            again = R > 8 ? 4 : R; /* as the dialect loops over them */
        int64_t need = (int64_t)(again * plan->U > R ? again * plan->U : R) * plan->V * plan->flight;
        if (need > MAX_TEXT_REGISTERS)
            return diag(cx, S_PLAN_TEXT_REGISTERS, NOWHERE, "a smaller W, V, U or flight",
                        "W=%d V=%d U=%d flight=%d: need=%lld registers in one step's text, budget=%d", plan->W, plan->V,
                        plan->U, plan->flight, (long long)need, MAX_TEXT_REGISTERS);
    }
    if (plan->contract && plan->order == ORDER_SERIAL)
        return diag(cx, S_PLAN_CONTRACT, NOWHERE, "contract=off", "contract=on with order=serial");
    if (plan->order == ORDER_FIXED) {
        Err e = check_fixed(cx, pb, plan);
        if (e) return e;
    }
    if (plan->order == ORDER_SERIAL &&
        (plan_lanes(plan) > 1 || plan->acc > 1 || plan->flight > 1 || plan->stat != STAT_TWO_PASS))
        return diag(cx, S_PLAN_ORDER, NOWHERE, "W=1 acc=1 flight=1 stat=two-pass",
                    "order=serial with W=%d acc=%d flight=%d stat=%s split=%d", plan->W, plan->acc, plan->flight,
                    stat_text((Stat)plan->stat), plan->split);
    for (int v = 0; v < pb->prog->nvals; v++) {
        const Val *x = &pb->prog->val[v];
        if (x->op == OP_RED && x->policy == POLICY_ORDERED &&
            (plan_lanes(plan) > 1 || plan->acc > 1 || plan->flight > 1))
            return diag(cx, S_PLAN_ORDER, x->at, "W=1 acc=1 flight=1",
                        "%s @ordered with W=%d acc=%d flight=%d split=%d", red_info(x->red)->text, plan->W, plan->acc,
                        plan->flight, plan->split);
    }
    return check_packs(cx, pb, plan, sc);
}

/* ---- inout ---- */

static int sink_root(const Prog *p, const Sched *sc, const Sink *s) {
    if (s->kind == SINK_OUT) return p->out[s->at].val;
    if (s->kind == SINK_FILL) return s->at;
    for (int i = 0; i < sc->npairs; i++)
        if (sc->pair[i].second == s->at) return sc->pair[i].x;
    return p->val[s->at].a[0];
}

/* Does the sink read parameter q from memory? What is kept since an earlier sweep is not read. */
static bool sink_reads(const Problem *pb, const Sched *sc, uint64_t held, const Sink *s, int q) {
    const Prog *p = pb->prog;
    bool seen[MAX_VALS] = {0};
    int stack[MAX_VALS], n = 0;
    for (int i = 0; i < sc->ncands; i++) {
        int first, last;
        if (!(held >> i & 1)) continue;
        sched_live(sc, p, held, i, &first, &last);
        seen[sc->cand[i].val] = first < s->sweep;
    }
    int root = sink_root(p, sc, s);
    if (!seen[root]) stack[n++] = root;
    seen[root] = true;
    while (n) {
        const Val *v = &p->val[stack[--n]];
        if (v->op == OP_LOAD && v->param == q) return true;
        int dep[MAX_DEPS];
        for (int k = v->op == OP_RED ? 0 : val_deps(p, v, dep), i = 0; i < k; i++) {
            if (!seen[dep[i]]) stack[n++] = dep[i];
            seen[dep[i]] = true;
        }
    }
    return false;
}

/* What an inout parameter held before may not be read once a sweep has written it. */
static Err check_inout(Cx *cx, const Problem *pb, const Sched *sc, uint64_t held) {
    for (int i = 0; i < sc->nsinks; i++) {
        const Sink *w = &sc->sink[i];
        if (w->kind != SINK_OUT || pb->prog->param[pb->prog->out[w->at].param].dir != DIR_INOUT) continue;
        int q = pb->prog->out[w->at].param;
        for (int k = 0; k < sc->nsinks; k++)
            if (sc->sink[k].sweep > w->sweep && sink_reads(pb, sc, held, &sc->sink[k], q))
                return diag(cx, S_PLAN_INOUT, NOWHERE, NULL, "%s is written in sweep %d and read in sweep %d",
                            pb->prog->param[q].name, w->sweep, sc->sink[k].sweep);
    }
    return OK;
}

/* ---- stripes ---- */

static int64_t stripe_slots(const Problem *pb, const Plan *plan, const Sched *sc, const Cand *c, Hold h) {
    if (h != HOLD_REGISTER && h != HOLD_REGISTER32) return 0;
    const Domain *d = &sc->domain[c->domain];
    int64_t slots, bytes;
    int each = h == HOLD_REGISTER32 ? 4 : ty_bytes(c->storage);
    if (!mul_fits(d->n_serial, map_slots(plan_reserved(pb, plan, d), plan_lanes(plan), plan->V), &slots) ||
        !mul_fits(slots, each, &bytes))
        return STRIPE_MOST;
    return i64_min(ceil_div(i64_min(bytes, INT64_MAX - 4), 4), STRIPE_MOST);
}

/* Where reductions add up that no single join ends: stripes of accumulators (slots a lane), and row arrays (elements of
 * a row). From the sweep that fills them on, they are charged to the row's end. */
static void red_slots(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc, const Sink *s, int64_t *slots,
                      int64_t *points) {
    const Prog *p = pb->prog;
    const Val *v = &p->val[s->at];
    const Domain *d = &sc->domain[s->domain];
    const Kept kept = sched_kept(sc, p, s);
    bool pair = red_info(v->red)->join == RED_PAIR, joined = kept == LANES_MEET || kept == MEET_PER_POINT;
    *slots = *points = 0;
    if (kept == SEGMENTS_MEET) { /* a cell for each chunk */
        *slots = i64_min(ceil_div(d->n_mapped, (int64_t)plan_lanes(plan) * plan->V), STRIPE_MOST / 2) *
                 ceil_div(ty_bytes(v->ty), 4);
        return;
    }
    if (joined && !(d->serial & ~v->over)) return;
    if (joined && !sched_needed_outside(cx, sc, p, s)) return;
    int64_t n = 1,
            words = pair && !joined ? 2 + ceil_div(ty_bytes(p->val[v->a[0]].ty), 4) : ceil_div(ty_bytes(v->ty), 4);
    uint32_t axes = d->axes & ~v->over & ~(kept == ADD_UP_LANE ? d->mapped : 0u);
    for (int i = 0; i < p->naxes; i++)
        if (axes >> i & 1 && !mul_fits(n, pb->shape.n[i], &n)) n = STRIPE_MOST;
    int64_t each = kept == ADD_UP_LANE ? map_slots(plan_reserved(pb, plan, d), plan_lanes(plan), plan->V) : 1;
    if (!mul_fits(n, each, &n) || !mul_fits(n, words, &n)) n = STRIPE_MOST;
    *(kept == ADD_UP_LANE ? slots : points) = i64_min(n, STRIPE_MOST);
}

/* Sweeps of one phase with the same serial axes are one loop. What lives on after it, or from before it, lives in all
 * its rounds. */
static void live_in_loops(const Sched *sc, int *first, int *last) {
    for (int from = 0, to; from < sc->nsweeps; from = to) {
        uint32_t serial = sc->domain[sc->sweep[from].domain].serial;
        to = from + 1;
        while (to < sc->nsweeps && sc->sweep[to].outer == sc->sweep[from].outer &&
               sc->domain[sc->sweep[to].domain].serial == serial)
            to++;
        if (!serial || *last < from || *first >= to) continue;
        if (*first < from && *last < to) *last = to - 1;
        if (*last >= to && *first > from) *first = from;
    }
}

static Err check_stripes(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc, uint64_t held, Stripes *st) {
    int64_t at[MAX_SINKS] = {0};
    int64_t more = 0; /* room for another step, with which shifted rows may end */
    Buf parts = buf_new(cx->a);
    *st = (Stripes){0};
    for (int i = 0; i < sc->ncands; i++) {
        int64_t slots = stripe_slots(pb, plan, sc, &sc->cand[i], plan_hold_of(plan, &sc->cand[i]));
        if (!slots) continue;
        int first, last;
        sched_live(sc, pb->prog, held, i, &first, &last);
        if (first < 0) continue; /* what needed it is kept */
        live_in_loops(sc, &first, &last);
        const int each = plan_hold_of(plan, &sc->cand[i]) == HOLD_REGISTER32 ? 4 : ty_bytes(sc->cand[i].storage);
        if (plan->tail == TAIL_HEAD_SHIFT) more += plan->flight * ceil_div(each, 4);
        buf_fmt(&parts, " %s=%lld", sc->cand[i].name, (long long)slots);
        st->sum += slots;
        for (int w = first; w <= last; w++) at[w] += slots;
    }
    int64_t arrays = 0; /* a machine whose row is one thread has them once, others in every lane */
    for (int i = 0; i < sc->nsinks; i++) {
        int64_t slots, points;
        const Sink *s = &sc->sink[i];
        if (s->kind != SINK_RED) continue;
        red_slots(cx, pb, plan, sc, s, &slots, &points);
        if (pb->caps.row_buffer_bytes)
            arrays += points;
        else
            slots += points;
        if (slots + points)
            buf_fmt(&parts, " %s=%lld", red_info(pb->prog->val[s->at].red)->text, (long long)(slots + points));
        st->sum += slots;
        int first = s->sweep, after = sc->nsweeps; /* started before its loop */
        live_in_loops(sc, &first, &after);
        for (int w = first; w < sc->nsweeps; w++) at[w] += slots;
    }
    for (int w = 0; w < sc->nsweeps; w++) st->live = i64_max(st->live, at[w]);
    int64_t need = pb->summed_budget ? st->sum : st->live, budget = pb->caps.stripe_slots;
    const char *how = pb->summed_budget ? "slots a lane, all values added" : "slots a lane", *unit = how;
    if (pb->caps.row_buffer_bytes) {
        need = (need + more) * 4 * plan->W + 4 * arrays;
        budget = pb->caps.row_buffer_bytes;
        unit = pb->summed_budget ? "bytes a row, all values added" : "bytes a row";
    }
    st->need = need, st->budget = budget;
    if (need <= budget) return OK;
    return diag(cx, S_PLAN_STRIPE, NOWHERE, NULL, "need=%lld budget=%lld %s: W=%d V=%d, slots%s", (long long)need,
                (long long)budget, unit, plan->W, plan->V, parts.s);
}

static Err check_segments(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    enum { MOST_CHUNKS = 64 }; /* cells are as many */
    const Prog *p = pb->prog;
    if (!plan->segments) return OK;
    if (shape_ranged(&pb->shape) >= 0)
        return diag(cx, S_PLAN_RANGED, NOWHERE, "off", "segments=on: which lanes meet depends on the extent of %s",
                    pb->prog->axis[shape_ranged(&pb->shape)].name);
    if (plan->flight > 1 || plan->order != ORDER_PLAN || (plan->P > 1 && rows_adjacent(p)))
        return diag(cx, S_PLAN_SEGMENTS_SHAPE, NOWHERE, "flight=1 order=plan, P=1 where rows are neighbours in memory",
                    "segments=on with flight=%d order=%s P=%d", plan->flight, dim_info(DIM_order)->word[plan->order],
                    plan->P);
    for (int i = 0; i < sc->nsinks; i++) {
        const Sink *s = &sc->sink[i];
        if (s->kind != SINK_RED || sched_kept(sc, p, s) != SEGMENTS_MEET) continue;
        int64_t inner = 1, chunks = ceil_div(sc->domain[s->domain].n_mapped, (int64_t)plan_lanes(plan) * plan->V);
        for (int a = 0; a < p->naxes; a++)
            if (p->val[s->at].over >> a & 1) inner *= pb->shape.n[a];
        int lanes = plan_segment(inner, plan->V, pb->caps.subgroup);
        if (lanes && plan->W % lanes == 0 && chunks <= MOST_CHUNKS) continue;
        return diag(
            cx, S_PLAN_SEGMENTS_SHAPE, p->val[s->at].at, NULL,
            "segments=on: %lld element%s in packs of V=%d are %lld lane%s of W=%d subgroup=%d, chunks=%lld most=%d",
            (long long)inner, plural(inner), plan->V, (long long)(inner / plan->V), plural(inner / plan->V), plan->W,
            pb->caps.subgroup, (long long)chunks, MOST_CHUNKS);
    }
    return OK;
}

/* Groups that share a row through device memory run when they run, so none waits for another: each leaves what its
 * lanes have together, and the last to arrive joins that of all and does what is left, which can be no sweep. */
static Err check_split(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc) {
    const Prog *p = pb->prog;
    const bool columns = plan->P > 1 && rows_adjacent(p);
    int joins = 0,
        most = columns ? (int)i64_max(1024 / (plan->W * plan->P), 1) : 16; /* as many as one exchange takes */
    if (plan->split == 1) return OK;
    for (int i = 0; i < sc->nsinks && plan->fuse == FUSE_ON && !plan->segments; i++) { /* what no other plan mends */
        const Sink *s = &sc->sink[i];
        const bool red = s->kind == SINK_RED, late = s->outer > 0 && (red || sc->domain[s->domain].mapped);
        joins += red;
        if (sc->serial || late || (red && sched_kept(sc, p, s) != LANES_MEET))
            return diag(cx, S_PLAN_SPLIT, red ? p->val[s->at].at : NOWHERE, NULL, "split=%d with stat=%s: %s",
                        plan->split, stat_text(sc->stat),
                        late         ? "elements wait for what lanes have together"
                        : sc->serial ? "some axes are looped over"
                                     : "what lanes have together is not one number a row");
    }
    if (plan->cluster > 1 || plan->fuse == FUSE_OFF || plan->segments || plan->grid || plan->combine == COMBINE_OUTER)
        return diag(cx, S_PLAN_SPLIT, NOWHERE, "cluster=1 fuse=on segments=off grid=0 combine=inner or pair",
                    "split=%d with cluster=%d fuse=%s segments=%s grid=%d combine=%s", plan->split, plan->cluster,
                    dim_info(DIM_fuse)->word[plan->fuse], dim_info(DIM_segments)->word[plan->segments], plan->grid,
                    dim_info(DIM_combine)->word[plan->combine]);
    const bool online = sc->npairs && sc->stat == STAT_ONLINE;
    const bool meets = online ? joins == 2 && plan->combine == COMBINE_PAIR && plan->P == 1 &&
                                    plan->W % pb->caps.subgroup == 0 && plan->split <= pb->caps.subgroup
                              : !sc->npairs || sc->stat == STAT_SHIFTED;
    if (!meets || joins > most)
        return diag(cx, S_PLAN_SPLIT, NOWHERE,
                    online
                        ? "combine=pair P=1, W of whole subgroups, split up to as many groups as a subgroup has lanes"
                        : NULL,
                    "split=%d with stat=%s combine=%s W=%d P=%d subgroup=%d: %d reductions, most=%d, do not meet at "
                    "once",
                    plan->split, stat_text(sc->stat), dim_info(DIM_combine)->word[plan->combine], plan->W, plan->P,
                    pb->caps.subgroup, joins, most);
    return OK;
}

/* Sweeps run together where one loop over elements can do them all, and what a sweep keeps is used up by the next: the
 * row after it overwrites it there. */
static Err check_stagger(Cx *cx, const Problem *pb, const Plan *plan, const Sched *sc, uint64_t held) {
    if (!plan->stagger) return OK;
    if (plan->fuse == FUSE_OFF || (plan->W == 1 && plan->P > 1)) /* sums wait for other sweeps; rows lie side by side */
        return diag(cx, S_PLAN_STAGGER, NOWHERE, "fuse=on, and P=1 where W is 1", "stagger=on with fuse=%s W=%d P=%d",
                    dim_info(DIM_fuse)->word[plan->fuse], plan->W, plan->P);
    int sweeps = 0, domain = -1, number[MAX_SINKS];
    for (int i = 0; i < sc->nsweeps; i++) {
        const Domain *d = &sc->domain[sc->sweep[i].domain];
        number[i] = sweeps;
        if (d->serial || (d->mapped && domain >= 0 && domain != sc->sweep[i].domain))
            return diag(cx, S_PLAN_STAGGER, NOWHERE, NULL, "stagger=on: sweep %d %s", i,
                        d->serial ? "is looped over axes" : "goes over other elements than the one before it");
        if (d->mapped) domain = sc->sweep[i].domain, sweeps++;
    }
    if (sweeps < 2) return diag(cx, S_PLAN_STAGGER, NOWHERE, NULL, "stagger=on: sweeps=%d need=2", sweeps);
    for (int i = 0; i < sc->ncands; i++) {
        const Hold h = plan_hold_of(plan, &sc->cand[i]);
        int first, last;
        if (h != HOLD_REGISTER && h != HOLD_REGISTER32) continue;
        sched_live(sc, pb->prog, held, i, &first, &last);
        if (first >= 0 && number[last] - number[first] > 1)
            return diag(cx, S_PLAN_STAGGER, NOWHERE, "reload, recompute or output",
                        "stagger=on with hold.%s=%s: kept over %d sweeps, most=2", sc->cand[i].name, hold_text(h),
                        number[last] - number[first] + 1);
    }
    return OK;
}

/* ---- all rules, in order ---- */

typedef struct Made {
    bool fuse, segments, many_rows;
    Stat stat;
    uint64_t held;
    Err err;
    const Diag *why;
    Sched sc;
} Made;
struct SchedMemo {
    Arena *a;
    Made **made;
    int n, cap;
};

SchedMemo *sched_memo(Cx *cx) {
    SchedMemo *m = NEW(cx->a, SchedMemo);
    m->a = cx->a;
    return m;
}

static Err sched_get(Cx *cx, SchedMemo *m, const Problem *pb, const Plan *plan, uint64_t held, const Sched **out) {
    bool fuse = plan->fuse == FUSE_ON, segments = plan->segments != 0, many_rows = plan->grid != 0;
    Made *x = NULL;
    for (int i = 0; i < m->n && !x; i++)
        if (m->made[i]->fuse == fuse && m->made[i]->segments == segments && m->made[i]->many_rows == many_rows &&
            (int)m->made[i]->stat == plan->stat && m->made[i]->held == held)
            x = m->made[i];
    if (!x) {
        Cx own = {.a = m->a};
        x = NEW(m->a, Made);
        *x = (Made){.fuse = fuse, .segments = segments, .many_rows = many_rows, .stat = (Stat)plan->stat, .held = held};
        x->err =
            sched_make(&own, pb->prog, &pb->shape, problem_spread(pb, plan), many_rows, fuse, x->stat, held, &x->sc);
        x->why = own.first;
        GROW(m->a, m->made, m->n, m->cap);
        m->made[m->n++] = x;
    }
    *out = &x->sc;
    return x->err && x->why ? diag(cx, x->why->slug, x->why->at, x->why->accept, "%s", x->why->msg) : x->err;
}

Err plan_judge(Cx *cx, const Problem *pb, const Plan *plan, SchedMemo *memo, const Sched **sc, Stripes *st) {
    Err e = check_values(cx, plan);
    if (!e) e = check_machine(cx, pb, plan);
    if (!e) e = sched_get(cx, memo, pb, plan, 0, sc);
    if (!e) e = check_holds(cx, pb, plan, *sc);
    if (e) return e;
    uint64_t held = plan_held(plan, *sc);
    if (plan->fuse == FUSE_OFF && held) e = sched_get(cx, memo, pb, plan, held, sc);
    if (!e) e = check_shape(cx, pb, plan, *sc);
    if (!e) e = check_segments(cx, pb, plan, *sc);
    if (!e) e = plan_check_shift(cx, pb, plan, *sc);
    if (!e) e = check_split(cx, pb, plan, *sc);
    if (!e) e = check_inout(cx, pb, *sc, held);
    if (!e) e = check_stagger(cx, pb, plan, *sc, held);
    if (!e) e = check_stripes(cx, pb, plan, *sc, held, st);
    if (!e) e = plan_check_shared(cx, pb, plan, *sc);
    if (!e) e = plan_check_stages(cx, pb, plan, *sc);
    if (!e) e = plan_check_grid(cx, pb, plan, *sc);
    return e;
}

Err plan_check(Cx *cx, const Problem *pb, const Plan *plan, Sched *sc, Stripes *st) {
    const Sched *made;
    Stripes own;
    Err e = plan_judge(cx, pb, plan, sched_memo(cx), &made, st ? st : &own);
    if (!e && sc) *sc = *made;
    return e;
}
