/* Every access of global memory lies inside its tensor, and what is not guarded works on its own element. An address is
 * taken apart into one coordinate a dimension: a run-time stride carries that of its dimension, the dense strides of
 * the last dimensions share a sum. Each coordinate is the element's own, a constant, or what the guard bounds. */
#include "walk.h"

enum { MAX_FACTS = 16, NO_SLOT = -1 };

typedef struct Fact { /* lo <= x < hi, and x < slot */
    Form x;
    int64_t lo, hi;
    int slot;
} Fact;

typedef struct Reach { /* one access */
    Audit *u;
    int ins;
    const Param *p;
    Fact fact[MAX_FACTS];
    int nfacts;
    bool never;         /* the guard is false */
    bool guard, first;  /* some coordinate needs the guard, is 0 of an axis that is not swept here */
    const char *detail; /* of the coordinate that is not proved */
} Reach;

/* ---- what a guard says ---- */

static Fact *fact_of(Reach *r, const Form *x) {
    for (int i = 0; i < r->nfacts; i++)
        if (form_equal(&r->fact[i].x, x)) return &r->fact[i];
    if (r->nfacts == MAX_FACTS) return NULL;
    Fact *f = &r->fact[r->nfacts++];
    *f = (Fact){*x, INT64_MIN, INT64_MAX, NO_SLOT};
    int64_t lo, hi;
    if (form_range(r->u, x, &lo, &hi) && hi < INT64_MAX) f->lo = lo, f->hi = hi + 1;
    return f;
}

static void compare(Reach *r, Op op, const Form *x, const Form *y) {
    bool slot = y->n == 1 && y->c == 0 && y->t[0].atom < 0 && y->t[0].k == 1;
    Fact *f = slot || !y->n ? fact_of(r, x) : NULL;
    if (!f) return;
    if (slot && op == OP_LT) f->slot = y->t[0].slot;
    if (y->n) return;
    int64_t c = y->c;
    if (op == OP_GE || op == OP_EQ) f->lo = i64_max(f->lo, c);
    if (op == OP_GT && c < INT64_MAX) f->lo = i64_max(f->lo, c + 1);
    if (op == OP_LT) f->hi = i64_min(f->hi, c);
    if ((op == OP_LE || op == OP_EQ) && c < INT64_MAX) f->hi = i64_min(f->hi, c + 1);
    r->never |= f->lo >= f->hi;
}

static void facts_of(Reach *r, int guard) {
    const Ins *in = &r->u->k->ins[guard];
    if (in->k == K_CONST) r->never |= !in->c.b;
    if (in->k != K_OP) return;
    if (in->op == OP_AND) {
        facts_of(r, in->a[0]);
        facts_of(r, in->a[1]);
        return;
    }
    static const Op turned[OP_COUNT] = {
        [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_GT] = OP_LT, [OP_GE] = OP_LE, [OP_EQ] = OP_EQ};
    if (!turned[in->op]) return;
    const Form *x = r->u->form[in->a[0]], *y = r->u->form[in->a[1]];
    if (!x || !y) return;
    compare(r, in->op, x, y);
    compare(r, turned[in->op], y, x);
}

/* ---- coordinates ---- */

static bool in_scope(const Reach *r, int axis) {
    return r->u->at[r->ins].axes >> axis & 1;
}

/* Is coordinate x of dimension d within its extent? */
static bool coordinate(Reach *r, int d, const Form *x) {
    Audit *u = r->u;
    int axis = r->p->axis[d];
    int64_t n = u->s->n[axis], lo, hi;
    Form own = form_own(u, axis);
    bool row = axis_is_row(u, axis);
    if (form_equal(x, &own) && (row || n == 1 || in_scope(r, axis))) return true;
    for (int i = 0; i < r->nfacts; i++) {
        const Fact *f = &r->fact[i];
        bool below = (row && f->slot == u->k->abi.row[axis]) || (n >= 0 && f->hi <= n);
        if (form_equal(&f->x, x) && f->lo >= 0 && below) return r->guard = true;
    }
    if (n >= 0 && form_range(u, x, &lo, &hi) && lo >= 0 && hi < n) {
        bool zero = hi == 0 && !row && !in_scope(r, axis);
        *(zero ? &r->first : &r->guard) = true;
        return true;
    }
    if (form_range(u, x, &lo, &hi))
        r->detail = arena_printf(u->cx->a, "%s is in [%lld, %lld] of %lld", u->prog->axis[axis].name, (long long)lo,
                                 (long long)hi, (long long)n);
    else
        r->detail = arena_printf(u->cx->a, "%s is %s of %lld", u->prog->axis[axis].name, form_text(u, x), (long long)n);
    return false;
}

/* A stride that is known: dense, nothing but element axes after it, and not a run-time argument. */
static bool dense(const Audit *u, int param, int d, int64_t *stride) {
    const Param *p = &u->prog->param[param];
    *stride = 1;
    if (u->strided >> param & 1 || axis_is_row(u, p->axis[d])) return false;
    for (int k = d + 1; k < p->rank; k++) {
        if (axis_is_row(u, p->axis[k])) return false;
        *stride *= u->s->n[p->axis[k]];
    }
    return true;
}

static bool has_atom(const Form *x, const Form *of) {
    for (int i = 0; i < x->n; i++)
        if (of->n && x->t[i].atom == of->t[0].atom) return true;
    return false;
}

/* The constant that is left is made of digits, one for each dimension that has no coordinate yet. */
static bool digits(Reach *r, int param, uint32_t open, int64_t c) {
    for (int d = 0; d < r->p->rank; d++) {
        int64_t stride, n = r->u->s->n[r->p->axis[d]];
        if (!(open >> d & 1) || !dense(r->u, param, d, &stride)) continue;
        int64_t digit = c >= 0 && stride > 0 ? c / stride : -1;
        if (digit < 0 || digit >= n) return false;
        c -= digit * stride;
        if (n > 1) *(digit == 0 && !in_scope(r, r->p->axis[d]) ? &r->first : &r->guard) = true;
    }
    return c == 0;
}

/* Takes coordinates of the dense dimensions d, d+1 ... out of x until nothing is left: own ones, guarded ones, or
 * (open) none yet. Each dimension gives one. */
static bool take_dense(Reach *r, int param, int d, uint32_t open, const Form *x) {
    Audit *u = r->u;
    int64_t stride = 0;
    while (d < r->p->rank && !dense(u, param, d, &stride)) d++;
    if (d == r->p->rank) return x->n == 0 && digits(r, param, open, x->c);
    Form own = form_own(u, r->p->axis[d]), left = *x;
    if (own.n && has_atom(x, &own) && form_add(&left, &own, -stride) && take_dense(r, param, d + 1, open, &left))
        return true;
    for (int i = 0; i < r->nfacts; i++) {
        const Fact *f = &r->fact[i];
        left = *x;
        if (f->lo < 0 || f->hi > u->s->n[r->p->axis[d]] || !has_atom(x, &f->x) || !form_add(&left, &f->x, -stride))
            continue;
        if (take_dense(r, param, d + 1, open, &left)) return r->guard = true;
    }
    return take_dense(r, param, d + 1, open | 1u << d, x);
}

static bool inside(Reach *r, int param, const Form *x) {
    Audit *u = r->u;
    Form rest = form_const(x->c);
    int64_t stride, block = 1, lo, hi;
    bool taken[MAX_TERMS] = {0};
    for (int d = 0; d < r->p->rank; d++) {
        if (dense(u, param, d, &stride)) {
            block *= u->s->n[r->p->axis[d]];
            continue;
        }
        Form c = {0};
        for (int i = 0; i < x->n; i++) {
            if (x->t[i].slot != u->k->abi.stride[param][d]) continue;
            taken[i] = true;
            if (x->t[i].atom < 0)
                c.c = x->t[i].k;
            else
                c.t[c.n++] = (Term){-1, x->t[i].atom, x->t[i].k};
        }
        if (!coordinate(r, d, &c)) return false;
    }
    for (int i = 0; i < x->n; i++) {
        if (taken[i]) continue;
        rest.t[rest.n++] = x->t[i];
        if (x->t[i].slot < 0) continue;
        r->detail = arena_printf(u->cx->a, "%s is no stride of its", form_text(u, x));
        return false;
    }
    if (take_dense(r, param, 0, 0, &rest)) return true;
    if (form_range(u, &rest, &lo, &hi))
        r->detail = arena_printf(u->cx->a, "element %s is in [%lld, %lld] of %lld", form_text(u, &rest), (long long)lo,
                                 (long long)hi, (long long)block);
    else
        r->detail = arena_printf(u->cx->a, "element %s of %lld", form_text(u, &rest), (long long)block);
    return false;
}

/* ---- accesses ---- */

static uint32_t axes_of(const Param *p) {
    uint32_t axes = 0;
    for (int d = 0; d < p->rank; d++) axes |= 1u << p->axis[d];
    return axes;
}

static Err access_check(Audit *u, int i, AuditAccess *out) {
    const Ins *in = &u->k->ins[i];
    Reach r = {.u = u, .ins = i, .p = &u->prog->param[in->param]};
    *out = (AuditAccess){i, in->param, in->k == K_STOREP || in->k == K_STORE1 || in->k == K_STORES, PROOF_NEVER};
    bool guarded = in->k == K_LOAD1 && in->a[1] >= 0, pack = in->k == K_LOADP || in->k == K_STOREP;
    if (!u->at[i].runs) return OK;
    if (guarded) facts_of(&r, in->a[1]);
    if (r.never) return OK;
    Form x = *u->form[in->a[0]];
    if (pack) {
        Form e = form_index(u, u->k->domain[u->k->node[u->at[i].node].domain].mapped);
        bool fits = in->a[1] < 0 || form_times(&e, u->form[in->a[1]]);
        if (!fits || !form_add(&x, &e, 1))
            FIND(S_AUDIT_BOUNDS, "%s: %s goes on by what is no stride", ins_text(u, i), form_text(u, &x));
    }
    if (!inside(&r, in->param, &x)) FIND(S_AUDIT_BOUNDS, "%s: %s", ins_text(u, i), r.detail);
    bool sweep = u->at[i].sweep >= 0;
    if ((out->store || !(guarded || read_in_part(u, in->param))) && (r.guard || (r.first && (sweep || out->store))))
        FIND(S_AUDIT_OWN, "%s: %s is not the element worked on", ins_text(u, i), form_text(u, &x));
    uint32_t here = axes_wide(u, u->at[i].axes | u->prog->row_axes), mine = axes_wide(u, axes_of(r.p));
    uint32_t first;
    if (in->k == K_STORES && segment_axes(u, i, &first))
        here = axes_wide(u, (here & ~u->k->domain[u->k->node[u->at[i].node].domain].mapped) | first);
    if (out->store && here != mine)
        FIND(S_AUDIT_OWN, "%s: axes %x are worked on, the output has %x", ins_text(u, i), here, mine);
    out->proof = r.guard ? PROOF_GUARD : r.first ? PROOF_FIRST : PROOF_OWN;
    return OK;
}

static Err array_check(Audit *u, int i) {
    const Ins *in = &u->k->ins[i];
    int64_t lo, hi, n = u->k->array[in->imm].n;
    const Form *x = u->form[in->a[0]];
    if (!u->at[i].runs) return OK;
    if (!form_range(u, x, &lo, &hi))
        FIND(S_AUDIT_BOUNDS, "%s: %s of %lld", ins_text(u, i), form_text(u, x), (long long)n);
    if (lo < 0 || hi >= n)
        FIND(S_AUDIT_BOUNDS, "%s: %s is in [%lld, %lld] of %lld", ins_text(u, i), form_text(u, x), (long long)lo,
             (long long)hi, (long long)n);
    return OK;
}

Err audit_bounds(Audit *u) {
    const Kern *k = u->k;
    bool stored[MAX_PARAMS] = {0};
    u->out->access = NEWN(u->cx->a, AuditAccess, k->nins);
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = &k->ins[i];
        Err e = OK;
        switch (in->k) {
        case K_STOREP:
        case K_STORES:
        case K_STORE1: stored[in->param] = true; /* fall through */
        case K_LOADP:
        case K_LOAD1: e = access_check(u, i, &u->out->access[u->out->naccesses++]); break;
        case K_ROWGET:
        case K_ROWPUT: e = array_check(u, i); break;
        default: break;
        }
        if (e) return e;
    }
    for (int o = 0; o < u->prog->nouts; o++)
        if (!stored[u->prog->out[o].param])
            FIND(S_AUDIT_OUTPUT, "%s is stored nowhere", u->prog->param[u->prog->out[o].param].name);
    return OK;
}
