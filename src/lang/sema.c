/* One kernel of an Ast, with its types and constants bound -> Prog: the declarations, the statements, and what must
 * hold at the end. */
#include "ast.h"

#include <math.h>
#include <string.h>

Place sema_at(const Sema *s, Ident name) {
    return (Place){s->file, name.line, name.col, s->k->id_len[name.id]};
}

void sema_fail(Sema *s, Err e) {
    if (s->err == OK) s->err = e;
}

bool sema_type(Sema *s, Ident type, Ty *out) {
    const Sym *y = &s->sym[type.id];
    if (y->kind == SYM_TYPE) return *out = y->ty, true;
    return ty_find(sema_text(s, type), (size_t)s->k->id_len[type.id], out);
}

void sema_unknown(Sema *s, Ident name, Slug slug, const char *what, unsigned kinds) {
    enum { NEAR = 1000 }; /* names looked at: a hint must not cost more than the check */
    Sym *y = &s->sym[name.id];
    if (y->kind == SYM_POISON) return;
    const char *among[NEAR];
    int n = 0, kept = s->cx->max_diags ? s->cx->max_diags : 50;
    for (int i = 0; i < s->k->nids && n < NEAR && s->cx->ndiags < kept; i++)
        if (kinds >> s->sym[i].kind & 1) among[n++] = s->k->id[i];
    Buf list = buf_new(s->cx->a);
    for (int i = 0; i < n && i < 12; i++) buf_fmt(&list, "%s%s", i ? ", " : "", among[i]);
    const char *text = sema_text(s, name);
    const char *near = near_text(s->cx->a, text, among, n);
    if (y->kind == SYM_NONE) {
        sema_fail(s, diag(s->cx, slug, sema_at(s, name), list.s, "no %s is called '%s'%s", what, text, near));
        y->kind = SYM_POISON;
    } else {
        sema_fail(s, diag(s->cx, slug, sema_at(s, name), list.s, "'%s' is not an %s%s", text, what, near));
    }
}

static void too_many(Sema *s, Ident at, const char *what, int n) {
    s->full = true;
    sema_fail(s, diag(s->cx, S_LANG_LIMIT, sema_at(s, at), arena_printf(s->cx->a, "up to %d %s", n, what),
                      "more than %d %s", n, what));
}

/* ---- declarations ---- */

/* Axes, parameters, type variables and values share one set of names. */
static bool declare(Sema *s, Ident name, SymKind kind, int index) {
    Sym *y = &s->sym[name.id];
    if (y->kind != SYM_NONE && y->kind != SYM_POISON) {
        static const char *const was[] = {"", "an axis", "a parameter", "a value", "a type variable", ""};
        sema_fail(s, diag(s->cx, S_LANG_NAME_TWICE, sema_at(s, name), "another name",
                          "'%s' is %s already, from line %d", sema_text(s, name), was[y->kind], y->at.line));
        return false;
    }
    *y = (Sym){.kind = kind, .index = index, .at = name};
    return true;
}

static int new_axis(Sema *s, Ident name, bool row) {
    if (s->p->naxes == MAX_AXES) return too_many(s, name, "axes", MAX_AXES), -1;
    if (!declare(s, name, SYM_AXIS, s->p->naxes)) return -1;
    if (row) s->p->row_axes |= 1u << s->p->naxes;
    s->p->axis[s->p->naxes] =
        (Axis){.name = arena_str(s->cx->a, sema_text(s, name), (size_t)s->k->id_len[name.id]), .row = row, .ext = -1};
    return s->p->naxes++;
}

static void bind_types(Sema *s, const TyBind *ty, int nty) {
    const Kernel *k = s->k;
    for (int i = 0; i < k->nparams; i++) {
        Ident type = k->param[i].type;
        Ty bound = TY_NONE, rest = TY_NONE;
        const char *text = sema_text(s, type);
        if (s->sym[type.id].kind != SYM_NONE || ty_find(text, strlen(text), &bound)) continue;
        for (int b = 0; b < nty; b++)
            if (str_eq(ty[b].name, "*"))
                rest = ty[b].ty;
            else if (str_eq(ty[b].name, text))
                bound = ty[b].ty;
        if (bound == TY_NONE) bound = rest;
        declare(s, type, SYM_TYPE, 0);
        s->sym[type.id].ty = bound;
        if (bound == TY_NONE)
            sema_fail(s, diag(s->cx, S_LANG_TYPE_UNBOUND, sema_at(s, type),
                              arena_printf(s->cx->a, "a type for it, such as %s=f32", text),
                              "type variable '%s' has no type", text));
    }
}

/* A number for a scalar or const of type ty; a whole one where the type has only those. */
static bool number_fits(Ty ty, double v) {
    return ty_is_float(ty) || num_f64(num_cast(ty, (Num){.d = v}, TY_F64), ty_compute(ty)) == v;
}

static void check_number(Sema *s, Ident name, Ty ty, double v) {
    Buf b = buf_new(s->cx->a);
    buf_f64(&b, v);
    sema_fail(s, diag(s->cx, S_LANG_CONST_VALUE, sema_at(s, name),
                      arena_printf(s->cx->a, "a number of type %s", ty_text(ty)), "'%s' cannot be %s",
                      sema_text(s, name), b.s));
}

static void declare_const(Sema *s, Param *q, Ident name, const ConstBind *k, int nk) {
    for (int b = 0; b < nk; b++)
        if (str_eq(k[b].name, q->name)) q->has_default = true, q->def = k[b].v;
    Sym *y = &s->sym[name.id];
    y->value = (Res){.kind = RES_BAD};
    if (!q->has_default) {
        sema_fail(s, diag(s->cx, S_LANG_CONST_UNBOUND, sema_at(s, name),
                          arena_printf(s->cx->a, "a default in the text, or %s=... from the caller", q->name),
                          "const '%s' has no value", q->name));
        return;
    }
    if (q->ty == TY_NONE || !number_fits(q->ty, q->def)) return; /* reported by the caller */
    double d = isnan(q->def) ? (double)NAN : q->def;
    y->value.val = prog_add(s->cx, s->p,
                            (Val){.op = OP_CONST,
                                  .ty = ty_compute(q->ty),
                                  .k = num_cast(q->ty, (Num){.d = d}, TY_F64),
                                  .at = sema_at(s, name)});
    if (y->value.val >= 0) y->value.kind = RES_VAL;
}

static void declare_param(Sema *s, const ParamDecl *d, const ConstBind *k, int nk) {
    Prog *p = s->p;
    Param q = {.dir = d->dir, .rank = d->rank, .has_default = d->has_default, .def = d->def};
    q.name = arena_str(s->cx->a, sema_text(s, d->name), (size_t)s->k->id_len[d->name.id]);
    sema_type(s, d->type, &q.ty);
    uint32_t axes = 0;
    for (int i = 0; i < d->rank; i++) {
        const Sym *y = &s->sym[d->axis[i].id];
        int a = y->kind == SYM_AXIS ? y->index : new_axis(s, d->axis[i], false);
        if (a < 0) {
            s->full = true; /* without its axes nothing can be said about the parameter */
            return;
        }
        if (axes >> a & 1)
            sema_fail(s, diag(s->cx, S_LANG_AXIS_TWICE, sema_at(s, d->axis[i]),
                              "another axis; x[rows, i, j] reads a square at any index",
                              "axis '%s' stands twice in '%s'", p->axis[a].name, q.name));
        axes |= 1u << a;
        q.axis[i] = (uint8_t)a;
    }
    if (!declare(s, d->name, SYM_PARAM, p->nparams)) return;
    if (d->dir == DIR_CONST) declare_const(s, &q, d->name, k, nk);
    if (q.has_default && q.ty != TY_NONE && !number_fits(q.ty, q.def)) check_number(s, d->name, q.ty, q.def);
    if ((d->dir == DIR_OUT || d->dir == DIR_INOUT) && p->row_axes & ~axes) {
        int r = 0;
        while (!((p->row_axes & ~axes) >> r & 1)) r++;
        sema_fail(s, diag(s->cx, S_LANG_OUTPUT_ROW, sema_at(s, d->name),
                          arena_printf(s->cx->a, "'%s' among the axes of '%s'", p->axis[r].name, q.name),
                          "output '%s' lacks row axis '%s': rows would overwrite each other", q.name, p->axis[r].name));
    }
    p->param[p->nparams++] = q;
}

/* An output has every row axis, so that no row axis is left without an extent. */
static void check_has_output(Sema *s) {
    for (int i = 0; i < s->k->nparams; i++)
        if (s->k->param[i].dir == DIR_OUT || s->k->param[i].dir == DIR_INOUT) return;
    sema_fail(s, diag(s->cx, S_LANG_OUTPUT_NONE, sema_at(s, s->k->name), "a parameter that is out or inout",
                      "kernel '%s' has no output", sema_text(s, s->k->name)));
}

/* ---- statements ---- */

static int new_ext(Sema *s, Ident at, Ext e) {
    Prog *p = s->p;
    if (p->next == MAX_EXTS) return too_many(s, at, "parts of the extents of declared axes", MAX_EXTS), -1;
    GROW(s->cx->a, p->ext, p->next, p->ext_cap);
    p->ext[p->next] = e;
    return p->next++;
}

static int const_ext(Sema *s, Ident at, const Sym *y) {
    if (y->kind != SYM_PARAM || s->p->param[y->index].dir != DIR_CONST || y->value.kind != RES_VAL) return -1;
    const Val *v = &s->p->val[y->value.val];
    bool whole = ty_is_int(v->ty) && !(v->ty == TY_U64 && v->k.u > INT64_MAX);
    return whole ? new_ext(s, at, (Ext){.op = 'k', .k = v->k.i}) : -1;
}

/* The extent of one node, -1 after a report. Operands are in ext[], by node. */
static int extent(Sema *s, const Stmt *st, const Node *n, const int *ext) {
    Ident at = {st->name.id, n->at.line, n->at.col};
    Place place = {s->file, n->at.line, n->at.col, n->len};
    int l = n->nargs > 0 ? ext[s->k->list[n->args]] : -1, r = n->nargs > 1 ? ext[s->k->list[n->args + 1]] : -1;
    if (n->kind == ND_INT && n->u <= INT64_MAX) return new_ext(s, at, (Ext){.op = 'k', .k = (int64_t)n->u});
    if (n->kind == ND_NAME) {
        const Sym *y = &s->sym[n->at.id];
        if (y->kind == SYM_AXIS && !s->p->axis[y->index].row) return new_ext(s, at, (Ext){.op = 'a', .k = y->index});
        if (y->kind == SYM_NONE) return sema_unknown(s, n->at, S_LANG_AXIS_UNKNOWN, "axis", 1u << SYM_AXIS), -1;
        if (y->kind == SYM_POISON) return -1;
        int e = const_ext(s, at, y);
        if (e >= 0 || s->full) return e;
        if (y->kind == SYM_PARAM && s->p->param[y->index].dir == DIR_CONST && y->value.kind == RES_BAD) return -1;
    }
    if (n->kind == ND_OP && n->op == OP_NEG) {
        int zero = l < 0 ? -1 : new_ext(s, at, (Ext){.op = 'k'});
        return zero < 0 ? -1 : new_ext(s, at, (Ext){.op = '-', .l = zero, .r = l});
    }
    if (n->kind == ND_OP && ((n->op >= OP_ADD && n->op <= OP_DIV) || n->op == OP_MOD)) {
        char op = n->op == OP_ADD ? '+' : n->op == OP_SUB ? '-' : n->op == OP_MUL ? '*' : n->op == OP_DIV ? '/' : '%';
        return l < 0 || r < 0 ? -1 : new_ext(s, at, (Ext){.op = op, .l = l, .r = r});
    }
    sema_fail(s, diag(s->cx, S_LANG_AXIS_EXPR, place, "whole numbers, + - * / %, element axes and integer consts",
                      "this cannot be part of the extent of an axis"));
    return -1;
}

static void declare_axis(Sema *s, const Stmt *st) {
    int *ext = NEWN(s->cx->a, int, st->root - st->first + 1);
    for (int i = st->first; i <= st->root && !s->full; i++)
        ext[i - st->first] = extent(s, st, &s->k->node[i], ext - st->first);
    if (s->full) return;
    int a = new_axis(s, st->name, false);
    if (a >= 0) s->p->axis[a].ext = ext[st->root - st->first];
}

static void assign_output(Sema *s, const Stmt *st, Sym *y) {
    Prog *p = s->p;
    const Param *q = &p->param[y->index];
    uint32_t axes = 0;
    for (int d = 0; d < q->rank; d++) axes |= 1u << q->axis[d];
    int v = sema_value(s, s->res[st->root], ty_compute(q->ty), sema_at(s, st->name));
    y->assigned = true;
    y->value = (Res){.kind = v < 0 ? RES_BAD : RES_VAL, .val = v};
    if (v < 0) return;
    uint32_t more = p->val[v].axes & ~axes;
    for (int i = 0; more && i < p->naxes; i++) {
        if (!(more >> i & 1)) continue;
        sema_fail(s, diag(s->cx, S_LANG_OUTPUT_AXES, sema_at(s, st->name),
                          arena_printf(s->cx->a, "a reduction over %s, or '%s' among the axes of '%s'", p->axis[i].name,
                                       p->axis[i].name, q->name),
                          "the value varies over '%s', which output '%s' does not have", p->axis[i].name, q->name));
        return;
    }
    p->out[p->nouts++] = (Out){.param = y->index, .val = v};
}

static void assign(Sema *s, const Stmt *st) {
    sema_expr(s, st->first, st->root);
    Sym *y = &s->sym[st->name.id];
    const char *text = sema_text(s, st->name);
    bool param = y->kind == SYM_PARAM;
    bool output = param && (s->p->param[y->index].dir == DIR_OUT || s->p->param[y->index].dir == DIR_INOUT);
    if ((param && y->assigned) || y->kind == SYM_LOCAL) {
        sema_fail(s, diag(s->cx, S_LANG_ASSIGNED_TWICE, sema_at(s, st->name), "a new name",
                          "'%s' has its value already, from line %d", text, y->at.line));
        return;
    }
    if (param && !output) {
        sema_fail(s, diag(s->cx, S_LANG_ASSIGN_INPUT, sema_at(s, st->name), "an out or inout parameter, or a new name",
                          "'%s' is an input and cannot be assigned", text));
        return;
    }
    if (output) {
        assign_output(s, st, y);
        y->at = st->name;
    } else {
        if (!declare(s, st->name, SYM_LOCAL, 0)) return;
        y->value = s->res[st->root];
    }
    if (y->value.kind == RES_VAL && !s->p->val[y->value.val].name)
        s->p->val[y->value.val].name = arena_str(s->cx->a, text, strlen(text));
}

/* Where the hold of a value is kept; NULL where it has no home: constants, scalars and coordinates are had for nothing.
 */
static Hold *home_of(Prog *p, int val) {
    Val *v = &p->val[val];
    if (v->op == OP_CONST || v->op == OP_SCALAR || v->op == OP_IDX) return NULL;
    return val_in_place(p, v) ? &p->param_hold[v->param] : &v->hold; /* another name of an input is that input */
}

/* Holds are pinned when all is assigned, so that a program may say them anywhere. */
static void pin(Sema *s, const Stmt *st) {
    const Sym *y = &s->sym[st->name.id];
    const char *text = sema_text(s, st->name);
    Hold *home = NULL;
    if (y->kind == SYM_NONE) {
        sema_unknown(s, st->name, S_LANG_NAME_UNKNOWN, "value or input", 1u << SYM_LOCAL | 1u << SYM_PARAM);
        return;
    }
    bool param = y->kind == SYM_PARAM;
    Dir dir = param ? s->p->param[y->index].dir : DIR_OUT;
    if (param && (dir == DIR_IN || dir == DIR_INOUT)) {
        home = &s->p->param_hold[y->index];
    } else if ((param && dir == DIR_OUT) || y->kind == SYM_LOCAL) {
        if (y->value.kind == RES_BAD) return; /* reported where it should have been assigned */
        if (y->value.kind == RES_VAL) home = home_of(s->p, y->value.val);
    }
    if (y->kind == SYM_POISON) return;
    if (!home)
        sema_fail(s, diag(s->cx, S_LANG_HOLD_TARGET, sema_at(s, st->name),
                          "the name of a computed value, an input or an output", "'%s' has no home to pin", text));
    else if (*home != HOLD_AUTO)
        sema_fail(s, diag(s->cx, S_LANG_HOLD_TWICE, sema_at(s, st->name), "one hold for each value",
                          "'%s' is held already, as %s", text, hold_text(*home)));
    else
        *home = st->hold;
}

static void check_outputs(Sema *s) {
    for (int i = 0; i < s->k->nparams; i++) {
        const ParamDecl *d = &s->k->param[i];
        const Sym *y = &s->sym[d->name.id];
        if ((d->dir == DIR_OUT || d->dir == DIR_INOUT) && y->kind == SYM_PARAM && !y->assigned)
            sema_fail(s, diag(s->cx, S_LANG_OUTPUT_UNASSIGNED, sema_at(s, d->name),
                              arena_printf(s->cx->a, "%s = ...", sema_text(s, d->name)),
                              "output '%s' is never assigned", sema_text(s, d->name)));
    }
}

/* ---- the kernel ---- */

static const Kernel *find_kernel(Cx *cx, const Ast *a, const char *name, Err *err) {
    Buf list = buf_new(cx->a);
    for (int i = 0; i < a->nkernels; i++) {
        const char *text = ast_kernel_name(a, i);
        if (name ? str_eq(text, name) : a->nkernels == 1) return a->kernel[i];
        if (i < 40) buf_fmt(&list, "%s%s", i ? ", " : "", text);
    }
    Place at = {a->file, 1, 1, 1};
    const char **names = NEWN(cx->a, const char *, a->nkernels + 1);
    for (int i = 0; i < a->nkernels; i++) names[i] = ast_kernel_name(a, i);
    if (name)
        *err = diag(cx, S_LANG_KERNEL_UNKNOWN, at, list.s, "no kernel is called '%.64s'%s", name,
                    near_text(cx->a, name, names, a->nkernels));
    else
        *err = diag(cx, S_LANG_KERNEL_UNKNOWN, at, list.s, "the file has %d kernels; name one", a->nkernels);
    return NULL;
}

/* What a caller binds must exist: a misspelt name is not passed over in silence. */
static void check_binds(Sema *s, const TyBind *ty, int nty, const ConstBind *k, int nk) {
    const char *consts[MAX_PARAMS];
    int nconsts = 0;
    for (int i = 0; i < s->k->nparams; i++)
        if (s->k->param[i].dir == DIR_CONST) consts[nconsts++] = sema_text(s, s->k->param[i].name);
    for (int b = 0; b < nty + nk; b++) {
        const char *name = b < nty ? ty[b].name : k[b - nty].name;
        const char *const *among = b < nty ? s->k->type : consts;
        int i = 0, n = b < nty ? s->k->ntypes : nconsts;
        while (i < n && !str_eq(among[i], name)) i++;
        if (b < nty && (ty[b].ty <= TY_NONE || ty[b].ty >= TY_COUNT))
            sema_fail(
                s, diag(s->cx, S_ARG, sema_at(s, s->k->name), "a storage type", "'%.64s' is bound to no type", name));
        if (i < n || (b < nty && str_eq(name, "*"))) continue;
        sema_fail(s, diag(s->cx, S_LANG_BIND_UNKNOWN, sema_at(s, s->k->name), NULL, "kernel '%s' has no %s '%.64s'%s",
                          sema_text(s, s->k->name), b < nty ? "type variable" : "const", name,
                          near_text(s->cx->a, name, among, n)));
    }
}

Err lang_kernel(Cx *cx, const Ast *a, const char *kernel, const TyBind *ty, int nty, const ConstBind *k, int nk,
                Prog **out) {
    Err err = OK;
    *out = NULL;
    Sema s = {.cx = cx, .k = find_kernel(cx, a, kernel, &err)};
    if (!s.k) return err;
    s.file = arena_str(cx->a, a->file, strlen(a->file));
    s.p = NEW(cx->a, Prog);
    s.sym = NEWN(cx->a, Sym, s.k->nids);
    s.res = NEWN(cx->a, Res, s.k->nnodes + 1);
    s.p->name = arena_str(cx->a, sema_text(&s, s.k->name), (size_t)s.k->id_len[s.k->name.id]);
    check_binds(&s, ty, nty, k, nk);
    if (s.err) return s.err;
    bind_types(&s, ty, nty);
    for (int i = 0; i < s.k->nrows; i++) new_axis(&s, s.k->row[i], true);
    for (int i = 0; i < s.k->nparams && !s.full; i++) declare_param(&s, &s.k->param[i], k, nk);
    /* A parameter without a type would make every use of it a fault of its own. */
    for (int i = 0; i < s.p->nparams; i++) s.full = s.full || s.p->param[i].ty == TY_NONE;
    if (s.full) return s.err;
    check_has_output(&s);
    for (int i = 0; i < s.k->nstmts && !s.full; i++) {
        const Stmt *st = &s.k->stmt[i];
        if (st->kind == ST_ASSIGN)
            assign(&s, st);
        else if (st->kind == ST_AXIS)
            declare_axis(&s, st);
    }
    for (int i = 0; i < s.k->nstmts && !s.full; i++)
        if (s.k->stmt[i].kind == ST_HOLD) pin(&s, &s.k->stmt[i]);
    if (!s.full) check_outputs(&s);
    if (s.err == OK) s.err = prog_verify(cx, s.p);
    if (s.err == OK) *out = s.p;
    return s.err;
}
