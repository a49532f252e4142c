/* One value of the program, for the current row: leaves, gathers, and the choice among the maps and reductions. Part of
 * rowmath.h's family. */

#include "rowred.h"

/* An element of memory as a column has it. */
static inline void NAME(put_num)(Ty ct, Num x, void *v, int64_t i) {
    if (ct == TY_F32)
        ((REAL *)v)[i] = (REAL)x.f;
    else if (ct == TY_F64)
        ((REAL *)v)[i] = (REAL)x.d;
    else
        ((int64_t *)v)[i] = NAME(int_of)(x, ct);
}

static void NAME(read_run)(const Tensor *t, int64_t off, int64_t step, void *v, int64_t at, int64_t n) {
    const Ty ct = ty_compute(t->ty);
    const char *p = t->data;
    if (t->ty == TY_F32) { /* by far the most frequent */
        for (int64_t j = 0; j < n; j++) {
            float f;
            memcpy(&f, p + (off + j * step) * 4, 4);
            ((REAL *)v)[at + j] = (REAL)f;
        }
        return;
    }
    const int bytes = ty_bytes(t->ty);
    for (int64_t j = 0; j < n; j++) NAME(put_num)(ct, num_load(t->ty, p + (off + j * step) * bytes), v, at + j);
}

/* A load whose indexes are coordinates that stay inside: strided runs. */
static bool NAME(load_plain)(Work *w, const Val *v, Node *x) {
    const Tensor *t = &w->in->t[v->param];
    int64_t stride[MAX_AXES] = {0}, off = 0, at[MAX_AXES] = {0};
    for (int d = 0; d < t->rank; d++) {
        const Val *i = &w->p->val[v->idx[d]];
        if (i->op != OP_IDX || w->s->n[i->axis] > t->n[d]) return false;
        if (w->p->axis[i->axis].row)
            off += w->at[i->axis] * t->stride[d];
        else
            stride[i->axis] += t->stride[d];
    }
    int axis[MAX_AXES], rank = 0;
    for (int i = 0; i < MAX_AXES; i++)
        if (x->el >> i & 1) axis[rank++] = i;
    const int64_t n = rank ? w->s->n[axis[rank - 1]] : 1, step = rank ? stride[axis[rank - 1]] : 0;
    for (int64_t done = 0; done < x->n; done += n) {
        NAME(read_run)(t, off, step, x->col.v, done, n);
        for (int d = rank - 2; d >= 0; d--) {
            const int i = axis[d];
            off += stride[i];
            if (++at[d] < w->s->n[i]) break;
            off -= stride[i] * w->s->n[i];
            at[d] = 0;
        }
    }
    memset(x->col.e, 0, sizeof(double) * (size_t)x->n);
    return true;
}

/* A gather: where an index is outside, memory is not touched and the fill is read. */
static void NAME(load_gather)(Work *w, const Val *v, Node *x) {
    const Tensor *t = &w->in->t[v->param];
    Opd idx[MAX_RANK], fill = {NULL, NULL, 0};
    for (int d = 0; d < t->rank; d++) idx[d] = work_operand(w, v->idx[d], x->el, 0, d);
    if (v->fill >= 0) fill = work_operand(w, v->fill, x->el, 0, MAX_RANK);
    const size_t each = ty_is_float(v->ty) ? sizeof(REAL) : sizeof(int64_t);
    for (int64_t i = 0; i < x->n; i++) {
        int64_t off = 0;
        bool inside = true;
        double unsure = 0;
        for (int d = 0; d < t->rank; d++) {
            const int64_t k = ((const int64_t *)idx[d].v)[i * idx[d].step];
            unsure += idx[d].e[i * idx[d].step];
            inside = inside && k >= 0 && k < t->n[d];
            if (inside) off += k * t->stride[d];
        }
        x->col.e[i] = unsure > 0 ? INF : 0; /* another element, which may be anything */
        if (inside) {
            NAME(read_run)(t, off, 0, x->col.v, i, 1);
        } else if (v->fill >= 0) {
            memcpy((char *)x->col.v + (size_t)i * each, (const char *)fill.v + (size_t)(i * fill.step) * each, each);
            x->col.e[i] += fill.e[i * fill.step];
        } else if (ty_is_float(v->ty)) {
            ((REAL *)x->col.v)[i] = (REAL)NAN;
        } else {
            ((int64_t *)x->col.v)[i] = 0;
        }
    }
}

static void NAME(leaf)(Work *w, const Val *v, Node *x) {
    const Param *q = v->op == OP_SCALAR ? &w->p->param[v->param] : NULL;
    x->col.e[0] = 0;
    if (v->op == OP_CONST) {
        NAME(put_num)(v->ty, v->k, x->col.v, 0);
    } else if (q) { /* rounded to its own type first */
        const Num k = w->in->scalar[v->param];
        NAME(put_num)
        (v->ty, num_cast(q->ty, k, ty_is_float(q->ty) ? TY_F64 : q->ty == TY_U64 ? TY_U64 : TY_I64), x->col.v, 0);
    } else if (w->p->axis[v->axis].row) {
        ((int64_t *)x->col.v)[0] = w->at[v->axis];
    } else {
        for (int64_t i = 0; i < x->n; i++) ((int64_t *)x->col.v)[i] = i, x->col.e[i] = 0;
    }
}

void NAME(row_eval)(Work *w, int val) {
    const Val *v = &w->p->val[val];
    Node *x = &w->node[val];
    switch (v->op) {
    case OP_CONST:
    case OP_SCALAR:
    case OP_IDX: NAME(leaf)(w, v, x); return;
    case OP_LOAD:
        if (!NAME(load_plain)(w, v, x)) NAME(load_gather)(w, v, x);
        return;
    case OP_RED: NAME(reduce)(w, v, x); return;
    default: break;
    }
    const int arity = op_info(v->op)->arity;
    Opd a[3] = {work_operand(w, v->a[0], x->el, 0, 0)};
    for (int k = 1; k < 3; k++) /* beyond the arity they are not read for their value */
        a[k] = k < arity ? work_operand(w, v->a[k], x->el, 0, k) : a[0];
    const Ty t = w->p->val[v->a[0]].ty;
    if (v->op == OP_WHERE)
        NAME(map_where)(ty_is_float(v->ty), a, x->col.v, x->col.e, x->n);
    else if (v->op == OP_CAST)
        NAME(map_cast)(t, v->to, a[0], x->col.v, x->col.e, x->n);
    else if (v->op == OP_BITS)
        NAME(map_bits)(t, v->to, a[0], x->col.v, x->col.e, x->n);
    else if (!ty_is_float(t))
        NAME(map_ints)(v->op, t, v->ty, a, x->col.v, x->col.e, x->n);
    else if (v->ty == TY_BOOL)
        NAME(map_compare)(v->op, a, x->col.v, x->col.e, x->n);
    else
        NAME(map_floats)(w, v, a, x->col.v, x->col.e, x->n);
}
