/* Device memory behind a handle. */
#include "handle.h"

struct rowfold_memory {
    rowfold_context *ctx;
    Mem *mem;
    size_t bytes;
};

/* Runs `what` with diagnostics of its own; the copies make nothing that outlives them. */
typedef Err (*MemWork)(Cx *cx, void *arg);
static rowfold_status with_call(rowfold_context *ctx, MemWork what, void *arg) {
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(ctx);
    }
    rowfold_status s = call_end(&c, what(&c.cx, arg));
    arena_free(a);
    return s;
}

typedef struct Make {
    Device *dev;
    rowfold_memory *m;
} Make;
static Err make(Cx *cx, void *arg) {
    Make *k = arg;
    if (!k->dev) return diag(cx, S_DRIVE_PRESET, NOWHERE, "a device of `rowfold devices`", "a preset has no memory");
    return mem_new(cx, k->dev, k->m->bytes ? k->m->bytes : 1, &k->m->mem);
}

rowfold_status rowfold_memory_new(rowfold_context *ctx, rowfold_device *d, size_t bytes, rowfold_memory **out) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!d || !out) return call_wrong(ctx, S_ARG, "rowfold_memory_new needs a device and a place for its result");
    rowfold_memory *m = ctx->al.get(ctx->al.user, sizeof *m);
    if (!m) return call_memory(ctx);
    *m = (rowfold_memory){.ctx = ctx, .bytes = bytes};
    rowfold_status s = with_call(ctx, make, &(Make){d->dev, m});
    if (s == ROWFOLD_OK)
        *out = m;
    else
        ctx->al.put(ctx->al.user, m);
    return s;
}

void rowfold_memory_free(rowfold_memory *m) {
    if (!m) return;
    mem_free(m->mem);
    m->ctx->al.put(m->ctx->al.user, m);
}

void *rowfold_memory_data(const rowfold_memory *m) {
    return m ? mem_at(m->mem) : NULL;
}

typedef struct Copy {
    const rowfold_memory *m;
    size_t at, n;
    const void *from;
    void *to;
} Copy;
static Err copy(Cx *cx, void *arg) {
    Copy *c = arg;
    if (c->at > c->m->bytes || c->n > c->m->bytes - c->at || (c->n && !c->from && !c->to))
        return diag(cx, S_ARG, NOWHERE, NULL, "bytes %zu to %zu of a memory of %zu byte%s", c->at, c->at + c->n,
                    c->m->bytes, plural((int64_t)c->m->bytes));
    if (!c->n) return OK;
    return c->from ? mem_write(cx, c->m->mem, c->at, c->from, c->n) : mem_read(cx, c->m->mem, c->at, c->to, c->n);
}

rowfold_status rowfold_memory_write(rowfold_memory *m, size_t at, const void *from, size_t n) {
    return m ? with_call(m->ctx, copy, &(Copy){m, at, n, from, NULL}) : ROWFOLD_ARGUMENT;
}

rowfold_status rowfold_memory_read(const rowfold_memory *m, size_t at, void *to, size_t n) {
    return m ? with_call(m->ctx, copy, &(Copy){m, at, n, NULL, to}) : ROWFOLD_ARGUMENT;
}
