/* "fault:K": the host, but its K-th call (build, memory, write, read, launch, sync, time, span or ceiling) fails; every
 * other one is passed on. */
#include "local.h"

#include <stdatomic.h>
#include <stdio.h>

typedef struct FaultDevice {
    Device d;
    Device *inner;
    _Atomic int64_t left;
} FaultDevice;
typedef struct FaultModule {
    Module m;
    Module *inner;
} FaultModule;
typedef struct FaultMem {
    Mem m;
    Mem *inner;
} FaultMem;

static Module *inner_module(Module *m) {
    return ((FaultModule *)m)->inner;
}
static Mem *inner_mem(Mem *m) {
    return ((FaultMem *)m)->inner;
}
static Device *inner_device(Device *d) {
    return ((FaultDevice *)d)->inner;
}

static Err strike(Cx *cx, Device *d, const char *what) {
    if (atomic_fetch_sub(&((FaultDevice *)d)->left, 1) != 1) return OK;
    return cx ? diag(cx, S_RT_FAULT, NOWHERE, NULL, "device %s fails this call: %s", d->name, what)
              : slug_err(S_RT_FAULT);
}

static Err fault_find(Cx *cx, Rt *rt, const char *name, Device **out) {
    int64_t k = 0;
    if (!str_starts(name, "fault:") || !str_i64(name + 6, &k) || k < 1 || k > 1000000000) return OK;
    FaultDevice *f = rt_get(rt, sizeof *f);
    if (!f) return rt_oom(cx, "device fault", sizeof *f);
    f->inner = rt_device(rt, 0);
    atomic_init(&f->left, k);
    f->d.ops = &fault_ops;
    f->d.caps = f->inner->caps;
    snprintf(f->d.name, sizeof f->d.name, "fault:%lld", (long long)k);
    snprintf(f->d.identity, sizeof f->d.identity, "fault: call %lld fails, else the host", (long long)k);
    Err err = rt_add(cx, rt, &f->d);
    if (err)
        rt_put(rt, f);
    else
        *out = &f->d;
    return err;
}

static void fault_close(Device *d) {
    rt_put(d->rt, d);
}

static Err fault_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    Err err = strike(cx, d, "build");
    if (err) return err;
    FaultModule *fm = rt_get(d->rt, sizeof *fm);
    if (!fm) return rt_oom(cx, "a module", sizeof *fm);
    err = mod_build(cx, inner_device(d), u, &fm->inner);
    if (err) {
        rt_put(d->rt, fm);
        return err;
    }
    fm->m.facts = *mod_facts(fm->inner);
    *out = &fm->m;
    return OK;
}

static void fault_unload(Module *m) {
    mod_free(inner_module(m));
    rt_put(m->dev->rt, m);
}

static Err fault_get(Cx *cx, Device *d, size_t bytes, Mem **out) {
    Err err = strike(cx, d, "memory");
    if (err) return err;
    FaultMem *fm = rt_get(d->rt, sizeof *fm);
    if (!fm) return rt_oom(cx, "a buffer", sizeof *fm);
    err = mem_new(cx, inner_device(d), bytes, &fm->inner);
    if (err) {
        rt_put(d->rt, fm);
        return err;
    }
    fm->m.at = mem_at(fm->inner);
    *out = &fm->m;
    return OK;
}

static void fault_put(Mem *m) {
    mem_free(inner_mem(m));
    rt_put(m->dev->rt, m);
}

static Err fault_write(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes) {
    Err err = strike(cx, m->dev, "write");
    return err ? err : mem_write(cx, inner_mem(m), at, src, bytes);
}

static Err fault_read(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes) {
    Err err = strike(cx, m->dev, "read");
    return err ? err : mem_read(cx, inner_mem(m), at, dst, bytes);
}

static Err fault_launch(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads) {
    Err err = strike(cx, m->dev, "launch");
    return err ? err : mod_launch(cx, inner_module(m), slots, rows, threads);
}

static Err fault_sync(Cx *cx, Device *d) {
    Err err = strike(cx, d, "sync");
    return err ? err : dev_sync(cx, inner_device(d));
}

static Err fault_time(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                      int64_t *ns) {
    Err err = strike(cx, m->dev, "time");
    return err ? err : mod_time(cx, inner_module(m), sets, nsets, rows, threads, calls, ns);
}

static Err fault_span(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads, int64_t *ns) {
    Err err = strike(cx, m->dev, "span");
    return err ? err : mod_span(cx, inner_module(m), slots, rows, threads, ns);
}

static Err fault_ceiling(Cx *cx, Device *d, const Ceiling *c, double *ns, const char **how) {
    Err err = strike(cx, d, "ceiling");
    return err ? err : dev_ceiling(cx, inner_device(d), c, ns, how);
}

const RtOps fault_ops = {
    .name = "fault",
    .hidden = true,
    .find = fault_find,
    .close = fault_close,
    .build = fault_build,
    .unload = fault_unload,
    .get = fault_get,
    .put = fault_put,
    .write = fault_write,
    .read = fault_read,
    .launch = fault_launch,
    .sync = fault_sync,
    .time = fault_time,
    .span = fault_span,
    .ceiling = fault_ceiling,
};
