/* Instructions -> forms: an integer as a constant plus coordinates times constants and strides. What is no such sum is
 * an atom of its own, of which the range is known. */
#include "walk.h"

Form form_const(int64_t c) {
    return (Form){.c = c};
}

static int64_t wrap_add(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x + (uint64_t)y);
}
static int64_t wrap_mul(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x * (uint64_t)y);
}

static bool term_add(Form *x, Term t) {
    int i = 0;
    while (i < x->n && (x->t[i].slot < t.slot || (x->t[i].slot == t.slot && x->t[i].atom < t.atom))) i++;
    if (i < x->n && x->t[i].slot == t.slot && x->t[i].atom == t.atom) {
        x->t[i].k = wrap_add(x->t[i].k, t.k);
        if (x->t[i].k) return true;
        for (x->n--; i < x->n; i++) x->t[i] = x->t[i + 1];
        return true;
    }
    if (!t.k) return true;
    if (x->n == MAX_TERMS) return false;
    for (int j = x->n++; j > i; j--) x->t[j] = x->t[j - 1];
    x->t[i] = t;
    return true;
}

bool form_add(Form *x, const Form *y, int64_t times) {
    x->c = wrap_add(x->c, wrap_mul(y->c, times));
    for (int i = 0; i < y->n; i++)
        if (!term_add(x, (Term){y->t[i].slot, y->t[i].atom, wrap_mul(y->t[i].k, times)})) return false;
    return true;
}

static bool is_const(const Form *x) {
    return x->n == 0;
}
static bool is_slot(const Form *x) {
    return x->n == 1 && x->c == 0 && x->t[0].atom < 0 && x->t[0].k == 1;
}

bool form_times(Form *x, const Form *y) {
    if (!is_const(y) && !is_slot(y)) {
        Form other = *y;
        if (!is_const(x) && !is_slot(x)) return false;
        if (!form_times(&other, x)) return false;
        *x = other;
        return true;
    }
    Form r = {0};
    if (is_const(y)) {
        if (!form_add(&r, x, y->c)) return false;
    } else {
        if (x->c && !term_add(&r, (Term){y->t[0].slot, -1, x->c})) return false;
        for (int i = 0; i < x->n; i++)
            if (x->t[i].slot >= 0 || !term_add(&r, (Term){y->t[0].slot, x->t[i].atom, x->t[i].k})) return false;
    }
    *x = r;
    return true;
}

bool form_equal(const Form *x, const Form *y) {
    if (x->c != y->c || x->n != y->n) return false;
    for (int i = 0; i < x->n; i++)
        if (x->t[i].slot != y->t[i].slot || x->t[i].atom != y->t[i].atom || x->t[i].k != y->t[i].k) return false;
    return true;
}

bool form_range(const Audit *u, const Form *x, int64_t *lo, int64_t *hi) {
    *lo = *hi = x->c;
    for (int i = 0; i < x->n; i++) {
        int64_t a, b;
        if (x->t[i].slot >= 0) return false;
        const Atom *t = &u->atom[x->t[i].atom];
        if (!mul_fits(t->lo, x->t[i].k, &a) || !mul_fits(t->hi, x->t[i].k, &b)) return false;
        if (__builtin_add_overflow(*lo, i64_min(a, b), lo) || __builtin_add_overflow(*hi, i64_max(a, b), hi))
            return false;
    }
    return true;
}

static const char *atom_text(const Audit *u, int a) {
    const Atom *t = &u->atom[a];
    switch (t->kind) {
    case ATOM_AXIS:
    case ATOM_ROW: return u->prog->axis[t->id].name;
    case ATOM_ROWNUM: return "row";
    case ATOM_ROUND: return "round";
    default: return arena_printf(u->cx->a, "%%%d", t->id);
    }
}

const char *form_text(const Audit *u, const Form *x) {
    Buf b = buf_new(u->cx->a);
    for (int i = 0; i < x->n; i++) {
        const Term *t = &x->t[i];
        buf_fmt(&b, "%s%s", b.n ? " + " : "", t->atom >= 0 ? atom_text(u, t->atom) : "1");
        if (t->k != 1) buf_fmt(&b, "*%lld", (long long)t->k);
        if (t->slot >= 0) buf_fmt(&b, "*a%d", t->slot);
    }
    if (x->c || !b.n) buf_fmt(&b, "%s%lld", b.n ? " + " : "", (long long)x->c);
    return b.s;
}

/* ---- atoms ---- */

static Form atom(Audit *u, AtomKind kind, int id, int64_t lo, int64_t hi) {
    Form f = {0};
    int a = kind == ATOM_INS ? u->natoms : 0; /* each instruction asks once */
    while (a < u->natoms && (u->atom[a].kind != kind || u->atom[a].id != id)) a++;
    if (a == u->natoms) {
        GROW(u->cx->a, u->atom, u->natoms, u->atom_cap);
        u->atom[u->natoms++] = (Atom){kind, id, lo, hi};
    }
    term_add(&f, (Term){-1, a, 1});
    return f;
}

Form form_own(Audit *u, int axis) {
    if (axis_is_row(u, axis)) return atom(u, ATOM_ROW, axis, 0, INT64_MAX);
    return u->s->n[axis] == 1 ? form_const(0) : atom(u, ATOM_AXIS, axis, 0, u->s->n[axis] - 1);
}

Form form_index(Audit *u, uint32_t axes) {
    Form f = {0};
    int64_t after = 1;
    for (int i = u->prog->naxes - 1; i >= 0; i--) {
        if (!(axes >> i & 1)) continue;
        Form own = form_own(u, i);
        form_add(&f, &own, after); /* at most MAX_AXES terms */
        after *= u->s->n[i];
    }
    return f;
}

/* The number of a row within the first m row axes. */
static Form row_number(Audit *u, int m) {
    int first = 0;
    while (m > 0 && !axis_is_row(u, first)) first++;
    if (m <= 0) return form_const(0);
    return m == 1 ? form_own(u, first) : atom(u, ATOM_ROWNUM, m, 0, INT64_MAX);
}

/* Quotient or remainder of a row number by the extent of its last axis. */
static bool row_decode(Audit *u, Op op, const Form *x, const Form *y, Form *out) {
    if (x->n != 1 || x->c || x->t[0].slot >= 0 || x->t[0].k != 1 || !is_slot(y)) return false;
    Atom t = u->atom[x->t[0].atom];
    if (t.kind != ATOM_ROWNUM) return false;
    int axis = -1;
    for (int i = 0, n = 0; i < u->prog->naxes; i++)
        if (axis_is_row(u, i) && ++n == t.id) axis = i;
    if (axis < 0 || y->t[0].slot != u->k->abi.row[axis]) return false;
    *out = op == OP_MOD ? form_own(u, axis) : row_number(u, t.id - 1);
    return true;
}

/* x = y * c + rest with 0 <= rest < c and x >= 0: then x / c is y, and x mod c is rest. */
static bool split(const Audit *u, const Form *x, int64_t c, Form *whole, Form *rest) {
    int64_t lo, hi;
    if (c < 1 || !form_range(u, x, &lo, &hi) || lo < 0) return false;
    *whole = form_const(x->c / c);
    *rest = form_const(x->c % c);
    if (x->c < 0) return false;
    for (int i = 0; i < x->n; i++) {
        Term t = x->t[i];
        bool divides = t.k % c == 0;
        if (divides) t.k /= c;
        term_add(divides ? whole : rest, t);
    }
    return form_range(u, rest, &lo, &hi) && lo >= 0 && hi < c;
}

/* ---- ranges of types ---- */

static void type_range(Ty t, int64_t *lo, int64_t *hi) {
    *lo = INT64_MIN, *hi = INT64_MAX;
    switch (t) {
    case TY_BOOL: *lo = 0, *hi = 1; break;
    case TY_I8: *lo = INT8_MIN, *hi = INT8_MAX; break;
    case TY_I16: *lo = INT16_MIN, *hi = INT16_MAX; break;
    case TY_I32: *lo = INT32_MIN, *hi = INT32_MAX; break;
    case TY_U8: *lo = 0, *hi = UINT8_MAX; break;
    case TY_U16: *lo = 0, *hi = UINT16_MAX; break;
    case TY_U32: *lo = 0, *hi = UINT32_MAX; break;
    case TY_U64: *lo = 0; break;
    default: break;
    }
}

static bool fits(const Audit *u, const Form *x, Ty t) {
    int64_t lo, hi, least, most;
    type_range(t, &least, &most);
    return form_range(u, x, &lo, &hi) && lo >= least && hi <= most;
}

static Form opaque(Audit *u, int i, Ty range) {
    int64_t lo, hi;
    type_range(range, &lo, &hi);
    return atom(u, ATOM_INS, i, lo, hi);
}

/* ---- instructions ---- */

static Form cast(Audit *u, int i) {
    const Ins *in = &u->k->ins[i];
    const Form *x = u->form[in->a[0]];
    if (x && (fits(u, x, in->to) || (in->to == TY_I64 && u->k->ins[in->a[0]].ty == TY_I64))) return *x;
    Ty from = u->k->ins[in->a[0]].ty;
    bool narrow = in->to == TY_I64 && (from == TY_U32 || from == TY_U64 || from == TY_BOOL || from == TY_I32);
    return opaque(u, i, narrow ? from : in->to);
}

static Form choice(Audit *u, int i, const Form *x, const Form *y) {
    int64_t lo, hi, l, h;
    if (!x || !y || !form_range(u, x, &lo, &hi) || !form_range(u, y, &l, &h)) return opaque(u, i, u->k->ins[i].ty);
    return atom(u, ATOM_INS, i, i64_min(lo, l), i64_max(hi, h));
}

static Form op_form(Audit *u, int i) {
    const Ins *in = &u->k->ins[i];
    if (in->op == OP_CAST) return cast(u, i);
    int arity = op_info(in->op)->arity;
    const Form *x = arity > 0 ? u->form[in->a[0]] : NULL, *y = arity > 1 ? u->form[in->a[1]] : NULL;
    Form r = {0}, rest;
    bool known = false;
    switch (in->op) {
    case OP_ADD:
    case OP_SUB:
        if (!x || !y) break;
        r = *x;
        known = form_add(&r, y, in->op == OP_ADD ? 1 : -1);
        break;
    case OP_NEG: known = x && form_add(&r, x, -1); break;
    case OP_MUL:
        if (!x || !y) break;
        r = *x;
        known = form_times(&r, y);
        break;
    case OP_DIV:
    case OP_MOD:
        if (!x || !y) break;
        known = row_decode(u, in->op, x, y, &r) ||
                (is_const(y) && (in->op == OP_DIV ? split(u, x, y->c, &r, &rest) : split(u, x, y->c, &rest, &r)));
        break;
    case OP_MIN:
    case OP_MAX: return choice(u, i, x, y);
    case OP_WHERE: return choice(u, i, y, u->form[in->a[2]]);
    default: break;
    }
    if (!known || (in->ty == TY_I32 && !fits(u, &r, TY_I32))) return opaque(u, i, in->ty);
    return r;
}

static Form ins_form(Audit *u, int i) {
    const Ins *in = &u->k->ins[i];
    Form f = {0};
    switch (in->k) {
    case K_CONST: return form_const(in->c.i);
    case K_SLOT: term_add(&f, (Term){in->imm, -1, 1}); return f;
    case K_ROWIDX: return row_number(u, __builtin_popcount(u->prog->row_axes));
    case K_SERIAL: {
        int loop = u->at[i].loop;
        return u->loop_axes[loop] ? form_index(u, u->loop_axes[loop])
                                  : atom(u, ATOM_ROUND, loop, 0, u->k->node[loop].count - 1);
    }
    case K_SEG: {
        uint32_t first;
        return segment_axes(u, i, &first) ? form_index(u, first) : opaque(u, i, in->ty);
    }
    case K_ELEM: return form_index(u, u->k->domain[u->k->node[u->at[i].node].domain].mapped);
    case K_OP: return op_form(u, i);
    case K_LOADP:
    case K_LOAD1: return opaque(u, i, in->k == K_LOADP || in->a[2] < 0 ? u->prog->param[in->param].ty : in->ty);
    default: return opaque(u, i, in->ty);
    }
}

void audit_forms(Audit *u) {
    u->form = NEWN(u->cx->a, const Form *, u->k->nins);
    for (int i = 0; i < u->k->nins; i++) {
        const Ins *in = &u->k->ins[i];
        if (!ins_makes(in) || (in->ty != TY_I64 && in->ty != TY_I32)) continue;
        Form *f = NEW(u->cx->a, Form);
        *f = ins_form(u, i);
        u->form[i] = f;
    }
}
