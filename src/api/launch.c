/* Arguments -> slots: what must hold of memory before a kernel touches it; then the launch. */
#include "handle.h"

#include "../base/os.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Span { /* bytes a tensor may touch */
    uintptr_t lo, hi;
    int64_t outer; /* largest stride in bytes, of a dimension longer than one */
    int64_t inner; /* bytes that the other dimensions span */
} Span;

static bool dense_wanted(const rowfold_arg *a, int rank) {
    for (int d = 0; d < rank; d++)
        if (a->stride[d]) return false;
    return !a->strides_given;
}

/* The stride a dimension must have where it was fixed when compiling, or follows from the ranged extent; -1: any. (As
 * lowering decides it.) */
static int64_t fixed_stride(const rowfold_kernel *k, int param, int dim, const rowfold_arg *arg) {
    const Prog *p = k->prog;
    const Param *q = &p->param[param];
    if (p->row_axes >> q->axis[dim] & 1 || k->made.pb.strided >> param & 1) return -1;
    int64_t n = 1;
    for (int d = dim + 1; d < q->rank; d++) {
        if (p->row_axes >> q->axis[d] & 1) return -1;
        n *= k->made.pb.shape.least[q->axis[d]] ? arg->extent[d] : k->made.pb.shape.n[q->axis[d]];
    }
    return n;
}

/* Elements lie apart when, from the smallest stride up, each step is longer than all that the smaller ones span. The
 * first dimension of which that is not so, with that span; -1: none. */
static int meets_itself(const rowfold_arg *a, const int64_t *stride, int rank, int64_t *span) {
    bool done[MAX_RANK] = {0};
    *span = 1;
    for (int k = 0; k < rank; k++) {
        int next = -1;
        for (int d = 0; d < rank; d++)
            if (!done[d] && (next < 0 || stride[d] < stride[next])) next = d;
        if (next < 0) return -1; /* none is left */
        done[next] = true;
        if (a->extent[next] < 2) continue;
        if (stride[next] < *span) return next;
        *span += (a->extent[next] - 1) * stride[next];
    }
    return -1;
}

/* given: extents of row axes and of a ranged one, as the tensors before had them; -1: none yet */
static Err tensor(Cx *cx, const rowfold_kernel *k, int i, const rowfold_arg *arg, int64_t *given, Slot *slots,
                  Span *span) {
    const Prog *p = k->prog;
    const Param *q = &p->param[i];
    const Abi *abi = &k->made.unit.abi;
    int64_t stride[MAX_RANK], count = 1;
    bool dense = dense_wanted(arg, q->rank);
    for (int d = q->rank - 1; d >= 0; d--) {
        int axis = q->axis[d];
        const int64_t least = k->made.pb.shape.least[axis], most = k->made.pb.shape.n[axis];
        const bool open = p->row_axes >> axis & 1 || least;
        int64_t n = arg->extent[d], want = open ? given[axis] : most;
        if (n < 0)
            return diag(cx, S_LAUNCH_EXTENT, NOWHERE, "0 or more", "%s has extent %lld along %s", q->name, (long long)n,
                        p->axis[axis].name);
        if (want >= 0 && n != want)
            return diag(cx, S_LAUNCH_EXTENT, NOWHERE, NULL, "%s has extent %lld along %s where %lld is needed", q->name,
                        (long long)n, p->axis[axis].name, (long long)want);
        if (least && (n < least || n > most))
            return diag(cx, S_LAUNCH_EXTENT, NOWHERE,
                        arena_printf(cx->a, "%lld to %lld", (long long)least, (long long)most),
                        "%s has extent %lld along %s; the kernel was compiled for %lld to %lld", q->name, (long long)n,
                        p->axis[axis].name, (long long)least, (long long)most);
        if (open) given[axis] = n;
        stride[d] = dense ? count : arg->stride[d];
        if (stride[d] < 0)
            return diag(cx, S_LAUNCH_STRIDE, NOWHERE, "0 or more", "%s has stride %lld along %s", q->name,
                        (long long)stride[d], p->axis[axis].name);
        int64_t fixed = fixed_stride(k, i, d, arg);
        if (fixed >= 0 && n > 1 && stride[d] != fixed)
            return diag(cx, S_LAUNCH_STRIDE, NOWHERE, NULL,
                        "%s has stride %lld along %s; the kernel was compiled for %lld", q->name, (long long)stride[d],
                        p->axis[axis].name, (long long)fixed);
        if (!mul_fits(count, n, &count))
            return diag(cx, S_LAUNCH_EXTENT, NOWHERE, NULL, "%s has too many elements", q->name);
        slots[abi->stride[i][d]].i = stride[d];
    }
    *span = (Span){0};
    slots[abi->ptr[i]].p = arg->data;
    if (!count) return OK;
    if (!arg->data) return diag(cx, S_LAUNCH_NULL, NOWHERE, NULL, "%s is NULL", q->name);
    int64_t size = ty_bytes(q->ty), reach = 0;
    if ((uintptr_t)arg->data & (uintptr_t)(size - 1))
        return diag(cx, S_LAUNCH_ALIGN, NOWHERE, NULL, "%s at %p is not aligned to %lld bytes", q->name, arg->data,
                    (long long)size);
    int outer = -1;
    for (int d = 0; d < q->rank; d++) {
        int64_t more;
        if (!mul_fits(arg->extent[d] - 1, stride[d], &more) || __builtin_add_overflow(reach, more, &reach) ||
            reach > INT64_MAX / 16)
            return diag(cx, S_LAUNCH_STRIDE, NOWHERE, NULL, "%s reaches beyond any memory", q->name);
        if (arg->extent[d] > 1 && (outer < 0 || stride[d] > stride[outer])) outer = d;
    }
    int64_t within;
    int upon = q->dir == DIR_IN ? -1 : meets_itself(arg, stride, q->rank, &within);
    if (upon >= 0)
        return diag(cx, S_LAUNCH_STRIDE, NOWHERE, NULL,
                    "output %s lies upon itself: stride %lld along %s, where the axes within it span %lld", q->name,
                    (long long)stride[upon], p->axis[q->axis[upon]].name, (long long)within);
    span->lo = (uintptr_t)arg->data;
    span->hi = span->lo + (uintptr_t)((reach + 1) * size);
    span->outer = outer < 0 ? 0 : stride[outer] * size;
    span->inner = (int64_t)(span->hi - span->lo) - (outer < 0 ? 0 : (arg->extent[outer] - 1) * span->outer);
    return OK;
}

/* Views of one buffer whose rows lie side by side within the same stride (a packed q, k, v) interleave without meeting.
 */
static bool overlap(const Span *a, const Span *b) {
    if (a->lo >= b->hi || b->lo >= a->hi) return false;
    if (a->outer <= 0 || a->outer != b->outer || a->inner > a->outer || b->inner > b->outer) return true;
    int64_t apart = ((int64_t)(b->lo - a->lo) % a->outer + a->outer) % a->outer;
    return apart < a->inner || apart + b->inner > a->outer;
}

/* An integer scalar comes as a double: it is whole, its type holds it, and a double holds it exactly. */
static Err integer_scalar(Cx *cx, const Param *q, double v, int64_t *out) {
    Num n = num_cast(q->ty, (Num){.d = v}, TY_F64);
    if (!(fabs(v) < 0x1p53) || num_f64(n, ty_compute(q->ty)) != v)
        return diag(cx, S_LAUNCH_SCALAR, NOWHERE,
                    arena_printf(cx->a, "a whole number that %s holds, below 2^53", ty_text(q->ty)),
                    "%s is given %.17g", q->name, v);
    *out = q->ty == TY_BOOL ? n.b : n.i;
    return OK;
}

Err tensors_check(Cx *cx, const rowfold_kernel *k, const rowfold_arg *args, int count, Slot *slots, int64_t *rows) {
    const Prog *p = k->prog;
    const Abi *abi = &k->made.unit.abi;
    Span span[MAX_PARAMS];
    int64_t given[MAX_AXES];
    if (!k->made.mod)
        return diag(cx, S_LAUNCH_PRESET, NOWHERE, NULL, "%s was planned for %s", p->name, k->device->name);
    if (!args && p->nparams)
        return diag(cx, S_LAUNCH_COUNT, NOWHERE, NULL, "%s has %d parameter%s, and the arguments are NULL", p->name,
                    p->nparams, plural(p->nparams));
    if (count != p->nparams)
        return diag(cx, S_LAUNCH_COUNT, NOWHERE, NULL, "%s has %d parameter%s, %d argument%s given", p->name,
                    p->nparams, plural(p->nparams), count, count == 1 ? " was" : "s were");
    for (int i = 0; i < MAX_AXES; i++) given[i] = -1;
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        if (q->dir == DIR_CONST) continue;
        if (q->dir == DIR_SCALAR) {
            if (ty_is_float(q->ty))
                slots[abi->scalar[i]].d = args[i].value;
            else {
                Err err = integer_scalar(cx, q, args[i].value, &slots[abi->scalar[i]].i);
                if (err) return err;
            }
            continue;
        }
        Err err = tensor(cx, k, i, &args[i], given, slots, &span[i]);
        if (err) return err;
    }
    for (int i = 0; i < p->nparams; i++) {
        if (p->param[i].dir != DIR_OUT && p->param[i].dir != DIR_INOUT) continue;
        for (int j = 0; j < p->nparams; j++) {
            if (j == i || p->param[j].dir == DIR_SCALAR || p->param[j].dir == DIR_CONST ||
                (j < i && p->param[j].dir != DIR_IN))
                continue;
            if (overlap(&span[i], &span[j]))
                return diag(cx, S_LAUNCH_OVERLAP, NOWHERE, NULL, "%s and %s share memory", p->param[i].name,
                            p->param[j].name);
        }
    }
    bool writes = false;
    for (int i = 0; i < p->nparams; i++)
        writes |= (p->param[i].dir == DIR_OUT || p->param[i].dir == DIR_INOUT) && span[i].hi > span[i].lo;
    *rows = 1;
    for (int i = 0; i < p->naxes; i++) {
        if (!(p->row_axes >> i & 1)) continue;
        slots[abi->row[i]].i = given[i];
        if (!mul_fits(*rows, i64_max(given[i], 0), rows))
            return diag(cx, S_LAUNCH_EXTENT, NOWHERE, NULL, "too many rows");
    }
    const int ranged = shape_ranged(&k->made.pb.shape);
    if (ranged >= 0) slots[k->made.unit.extent].i = given[ranged];
    if (!writes) *rows = 0; /* every output is empty */
    return OK;
}

enum { MAX_SLOTS = MAX_PARAMS * (MAX_RANK + 2) + MAX_AXES };

rowfold_status rowfold_launch(rowfold_kernel *k, const rowfold_arg *args, int count) {
    return rowfold_launch_in(k, NULL, args, count);
}

rowfold_status rowfold_launch_in(rowfold_kernel *k, void *queue, const rowfold_arg *args, int count) {
    if (!k) return ROWFOLD_ARGUMENT;
    Arena *a = arena_new(&k->ctx->al, NULL);
    if (!a) return call_memory(k->ctx);
    Call c;
    call_begin(&c, k->ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(k->ctx);
    }
    Slot slots[MAX_SLOTS];
    int64_t rows = 0;
    Err err = tensors_check(&c.cx, k, args, count, slots, &rows);
    if (!err && rows > 0) err = mod_launch_in(&c.cx, k->made.mod, queue, slots, rows, k->threads);
    rowfold_status s = call_end(&c, err);
    arena_free(a);
    return s;
}

rowfold_status rowfold_bind(rowfold_kernel *k, const rowfold_arg *args, int count, rowfold_bound **out) {
    if (!k) return ROWFOLD_ARGUMENT;
    if (!out) return call_wrong(k->ctx, S_ARG, "rowfold_bind needs a place for its result");
    Arena *a = arena_new(&k->ctx->al, NULL);
    if (!a) return call_memory(k->ctx);
    Call c;
    call_begin(&c, k->ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(k->ctx);
    }
    Slot slots[MAX_SLOTS];
    int64_t rows = 0;
    rowfold_status s = call_end(&c, tensors_check(&c.cx, k, args, count, slots, &rows));
    arena_free(a);
    if (s != ROWFOLD_OK) return s;
    size_t n = sizeof(Slot) * (size_t)k->made.unit.abi.nslots;
    rowfold_bound *b = k->ctx->al.get(k->ctx->al.user, sizeof *b + n);
    if (!b) return call_memory(k->ctx);
    b->k = k;
    b->rows = rows;
    memcpy(b->slot, slots, n);
    *out = b;
    return ROWFOLD_OK;
}

rowfold_status rowfold_run(const rowfold_bound *b) {
    return rowfold_run_in(b, NULL);
}

rowfold_status rowfold_run_in(const rowfold_bound *b, void *queue) {
    if (!b) return ROWFOLD_ARGUMENT;
    if (!b->rows) return ROWFOLD_OK;
    return (rowfold_status)mod_launch_in(NULL, b->k->made.mod, queue, b->slot, b->rows, b->k->threads);
}

void rowfold_bound_free(rowfold_bound *b) {
    if (b) b->k->ctx->al.put(b->k->ctx->al.user, b);
}

/* ---- checking ---- */

rowfold_status rowfold_fill(const char *kind, const char *type, void *data, int64_t count, uint64_t seed,
                            int64_t bound) {
    Fill f;
    Ty ty;
    if (!kind || !type || !fill_find(kind, &f) || !ty_find(type, strlen(type), &ty) || count < 0 || (count && !data))
        return ROWFOLD_ARGUMENT;
    Tensor t = {.ty = ty, .rank = 1, .data = data, .n = {count}, .stride = {1}};
    const Crew crew = {&alloc_libc, os_cpus()};
    Trap trap;
    Arena *a = arena_new(&alloc_libc, &trap);
    if (!a || setjmp(trap.at) || fill_tensor_by(&(Cx){.a = a}, &crew, &t, f, seed, bound)) /* no memory for threads */
        fill_tensor(&t, f, seed, bound);
    arena_free(a);
    return ROWFOLD_OK;
}

static void as_args(const rowfold_kernel *k, const rowfold_arg *args, const Slot *slots, Args *out) {
    const Prog *p = k->prog;
    const Abi *abi = &k->made.unit.abi;
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        if (q->dir == DIR_SCALAR) {
            if (ty_is_float(q->ty))
                out->scalar[i].d = slots[abi->scalar[i]].d;
            else
                out->scalar[i].i = slots[abi->scalar[i]].i;
        }
        if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) continue;
        Tensor *t = &out->t[i];
        *t = (Tensor){.ty = q->ty, .rank = q->rank, .data = args[i].data};
        for (int d = 0; d < q->rank; d++) t->n[d] = args[i].extent[d], t->stride[d] = slots[abi->stride[i][d]].i;
    }
}

static Err check(Cx *cx, const rowfold_kernel *k, const rowfold_arg *in, const rowfold_arg *outputs, int count,
                 const char **json) {
    Slot slots[MAX_SLOTS];
    int64_t rows;
    Args *a = NEW(cx->a, Args), *b = NEW(cx->a, Args);
    Err err = tensors_check(cx, k, outputs, count, slots, &rows);
    if (err) return err;
    as_args(k, outputs, slots, b);
    err = in == outputs ? OK : tensors_check(cx, k, in, count, slots, &rows);
    if (err) return err;
    as_args(k, in, slots, a);
    Shape s = shape_at(&k->made.pb.shape, k->made.unit.extent >= 0 ? slots[k->made.unit.extent].i : 0);
    for (int i = 0; i < k->prog->naxes; i++)
        if (k->prog->row_axes >> i & 1) s.n[i] = slots[k->made.unit.abi.row[i]].i;
    OracleOptions o = bed_bounds(&k->made.pb, &k->made.kern->plan);
    Verdict v = {0};
    const Crew crew = {&k->ctx->al, k->ctx->al.get == alloc_libc.get ? os_cpus() : 1};
    err = oracle_check_by(cx, &crew, k->prog, &s, a, b, &o, &v);
    *json = verdict_json(cx, k->prog, &v);
    return err;
}

rowfold_status rowfold_check(rowfold_context *ctx, const rowfold_kernel *k, const rowfold_arg *inputs,
                             const rowfold_arg *outputs, int count, char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!k || !outputs) return call_wrong(ctx, S_ARG, "rowfold_check needs a kernel and its arguments");
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(ctx);
    }
    const char *text = "";
    rowfold_status s = call_end(&c, check(&c.cx, k, inputs ? inputs : outputs, outputs, count, &text));
    if (json && (s == ROWFOLD_OK || s == ROWFOLD_WRONG)) {
        size_t n = strlen(text) + 1;
        char *copy = ctx->al.get(ctx->al.user, n);
        if (copy)
            *json = memcpy(copy, text, n);
        else
            s = call_memory(ctx);
    }
    arena_free(a);
    return s;
}

void rowfold_free(rowfold_context *ctx, void *p) {
    if (ctx && p) ctx->al.put(ctx->al.user, p);
}
