/* The GPU of an Apple machine as a device, through the Metal framework's public interface: units are compiled from
 * source by the system, tensors are buffers of shared storage, whose addresses are those of this process, and launches
 * are command buffers of one queue. In C over the Objective-C runtime, each message sent through a prototype of its
 * own, as arm64 demands. Built on Apple systems only; tests run it elsewhere over a runtime that is not one
 * (tests/fault/fake_metal.c). It has never run on the hardware: docs/metal.md. */
#include "local.h"

#include "../base/os.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct objc_object *Id;
typedef struct objc_selector *Sel;
extern Id objc_getClass(const char *name);
extern Sel sel_registerName(const char *name);
/* A function, with a prototype for each message; gcc calls none by a prototype that is not its own. */
extern const char objc_msgSend[];
extern void *objc_autoreleasePoolPush(void);
extern void objc_autoreleasePoolPop(void *pool);
extern Id MTLCreateSystemDefaultDevice(void);

typedef struct Size {
    unsigned long width, height, depth;
} Size;

extern const RtOps metal_ops; /* also where runtimes.def has no row of it */

enum { SIMD = 32, STATUS_ERROR = 5, MOST_SENT = 64, MOST_GROUPS = 0x7fffffff, MATH_SAFE = 0 };
enum { FAMILY_APPLE6 = 1006, FAMILY_MAC2 = 2002 }; /* from these on simdgroups shuffle */

#define SEND(result, params) ((result(*) params)(uintptr_t)objc_msgSend)
static Sel sel(const char *name) {
    return sel_registerName(name);
}
static Id send(Id to, const char *name) {
    return SEND(Id, (Id, Sel))(to, sel(name));
}
static Id send_id(Id to, const char *name, Id x) {
    return SEND(Id, (Id, Sel, Id))(to, sel(name), x);
}
static unsigned long send_number(Id to, const char *name) {
    return SEND(unsigned long, (Id, Sel))(to, sel(name));
}
static bool send_asks(Id to, const char *name, unsigned long x) {
    return SEND(signed char, (Id, Sel, unsigned long))(to, sel(name), x) != 0;
}
static Id string(const char *s) {
    return SEND(Id, (Id, Sel, const char *))(objc_getClass("NSString"), sel("stringWithUTF8String:"), s);
}
static const char *text(Id string) {
    return string ? SEND(const char *, (Id, Sel))(string, sel("UTF8String")) : "";
}
static void drop(Id x) {
    if (x) send(x, "release");
}

typedef struct MetalMem {
    Mem m;
    Id buffer;
    struct MetalMem *next;
} MetalMem;

typedef struct MetalDevice {
    Device d;
    Id device, queue;
    Id sent[MOST_SENT]; /* command buffers that nobody has waited for yet */
    int nsent;
    pthread_mutex_t lock; /* of memory and what was sent */
    MetalMem *mem;
} MetalDevice;

typedef struct MetalModule {
    Module m;
    Id fit, loose;        /* pipelines; loose takes memory that is not aligned to packs, built when first needed */
    pthread_mutex_t lock; /* for building it */
    PackCheck check;
    Unit unit; /* with text and entry of its own */
} MetalModule;

static Err failed(Cx *cx, const MetalDevice *c, const char *what, Id error) {
    const char *why = error ? text(send(error, "localizedDescription")) : "no reason given";
    return cx ? diag(cx, S_RT_METAL, NOWHERE, NULL, "%s: %s: %s", c->d.name, what, why) : slug_err(S_RT_METAL);
}

/* ---- the device ---- */

static void metal_close(Device *d) {
    MetalDevice *c = (MetalDevice *)d;
    for (int i = 0; i < c->nsent; i++) drop(c->sent[i]);
    drop(c->queue);
    drop(c->device);
    pthread_mutex_destroy(&c->lock);
    rt_put(d->rt, c);
}

static Err metal_open(Cx *cx, Rt *rt) {
    void *pool = objc_autoreleasePoolPush();
    Id device = MTLCreateSystemDefaultDevice();
    bool usable = device && (send_asks(device, "supportsFamily:", FAMILY_APPLE6) ||
                             send_asks(device, "supportsFamily:", FAMILY_MAC2));
    MetalDevice *c = usable ? rt_get(rt, sizeof *c) : NULL;
    Err err = OK;
    if (c) {
        c->device = device;
        c->queue = send(device, "newCommandQueue");
        c->d.ops = &metal_ops;
        c->d.rt = rt;
        pthread_mutex_init(&c->lock, NULL);
        caps_preset("m1max", &c->d.caps);
        c->d.caps.shared_bytes = (int64_t)send_number(device, "maxThreadgroupMemoryLength");
        snprintf(c->d.name, sizeof c->d.name, "metal:0");
        snprintf(c->d.caps.name, sizeof c->d.caps.name, "metal:0");
        Id process = send(objc_getClass("NSProcessInfo"), "processInfo");
        snprintf(c->d.identity, sizeof c->d.identity, "%s; Metal of macOS %s; safe mathematics, no contraction",
                 text(send(device, "name")), text(send(process, "operatingSystemVersionString")));
        err = c->queue ? rt_add(cx, rt, &c->d) : failed(cx, c, "no queue", NULL);
        if (err) metal_close(&c->d);
    } else {
        drop(device);
        if (usable) err = rt_oom(cx, "a Metal device", sizeof *c);
    }
    objc_autoreleasePoolPop(pool);
    return err;
}

/* ---- building ---- */

/* A pipeline of the unit's text, retained; NULL with fail. */
static Id pipeline(const MetalDevice *c, const Unit *u, bool loose, Fail *fail) {
    static const char define[] = "#define ROWFOLD_LOOSE\n";
    char *all = rt_get(c->d.rt, u->bytes + sizeof define);
    if (!all) return NULL;
    Id error = NULL, options = send(send(objc_getClass("MTLCompileOptions"), "alloc"), "init");
    memcpy(all, define, sizeof define - 1);
    memcpy(all + sizeof define - 1, u->text, u->bytes);
    /* From macOS 15 on there is mathMode, before it fastMathEnabled: both forbid reassociation. */
    if (send_asks(options, "respondsToSelector:", (unsigned long)(uintptr_t)sel("setMathMode:")))
        SEND(void, (Id, Sel, long))(options, sel("setMathMode:"), MATH_SAFE);
    else
        SEND(void, (Id, Sel, signed char))(options, sel("setFastMathEnabled:"), 0);
    Id library = SEND(Id, (Id, Sel, Id, Id, Id *))(c->device, sel("newLibraryWithSource:options:error:"),
                                                   string(loose ? all : all + sizeof define - 1), options, &error);
    Id function = library ? send_id(library, "newFunctionWithName:", string(u->entry)) : NULL;
    Id made = function ? SEND(Id, (Id, Sel, Id, Id *))(c->device, sel("newComputePipelineStateWithFunction:error:"),
                                                       function, &error)
                       : NULL;
    fail->slug = library ? S_BUILD_LOAD : S_BUILD_FAILED;
    if (!made)
        snprintf(fail->text, sizeof fail->text, "%s: `%s`: %s", c->d.name, u->entry,
                 error ? text(send(error, "localizedDescription")) : "no such function in its library");
    drop(function);
    drop(library);
    drop(options);
    rt_put(c->d.rt, all);
    return made;
}

static void metal_unload(Module *mod) {
    MetalModule *m = (MetalModule *)mod;
    drop(m->fit);
    drop(m->loose);
    pthread_mutex_destroy(&m->lock);
    unit_drop(mod->dev->rt, &m->unit);
    rt_put(mod->dev->rt, m);
}

/* Lanes must be 32 to a simdgroup, and as many to a group as the plan has. */
static bool fits(const MetalModule *m, Fail *fail) {
    const unsigned long width = send_number(m->fit, "threadExecutionWidth"),
                        most = send_number(m->fit, "maxTotalThreadsPerThreadgroup"),
                        lanes = (unsigned long)(m->unit.lanes * m->unit.rows_per_group);
    fail->slug = S_BUILD_SPILLS;
    snprintf(fail->text, sizeof fail->text,
             "`%s` has groups of %lu lanes in simdgroups of %d; the device gives %lu and %lu", m->unit.entry, lanes,
             SIMD, most, width);
    return width == SIMD && lanes <= most;
}

static Err metal_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    MetalDevice *c = (MetalDevice *)d;
    if (u->dialect != DIALECT_METAL)
        return diag(cx, S_ARG, NOWHERE, "the Metal dialect", "the unit is in a dialect for other devices");
    MetalModule *m = rt_get(d->rt, sizeof *m);
    if (!m) return rt_oom(cx, "a module", sizeof *m);
    m->m.dev = d;
    m->m.facts = facts_unknown();
    pthread_mutex_init(&m->lock, NULL);
    Fail fail = {.slug = S_OOM, .text = "no memory for a unit's text"};
    void *pool = objc_autoreleasePoolPush();
    if (unit_keep(d->rt, u, &m->unit)) {
        packs_check(u, &m->check);
        const int64_t from = os_now_ns();
        m->fit = pipeline(c, &m->unit, false, &fail);
        m->m.facts.compile_ns = os_now_ns() - from;
        m->m.facts.shared_bytes = (int)u->shared_bytes;
    }
    bool ok = m->fit && fits(m, &fail);
    objc_autoreleasePoolPop(pool);
    if (ok) {
        *out = &m->m;
        return OK;
    }
    metal_unload(&m->m);
    return diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text);
}

/* ---- memory ---- */

static Err metal_get(Cx *cx, Device *d, size_t bytes, Mem **out) {
    MetalDevice *c = (MetalDevice *)d;
    const size_t whole = bytes ? (bytes + 15) / 16 * 16 : 16;
    MetalMem *m = rt_get(d->rt, sizeof *m);
    if (!m) return rt_oom(cx, "a buffer", sizeof *m);
    m->buffer =
        SEND(Id, (Id, Sel, unsigned long, unsigned long))(c->device, sel("newBufferWithLength:options:"), whole, 0);
    if (!m->buffer) {
        rt_put(d->rt, m);
        return rt_oom(cx, "a buffer", whole);
    }
    m->m.at = SEND(void *, (Id, Sel))(m->buffer, sel("contents"));
    m->m.bytes = whole;
    memset(m->m.at, 0, whole);
    pthread_mutex_lock(&c->lock);
    m->next = c->mem;
    c->mem = m;
    pthread_mutex_unlock(&c->lock);
    *out = &m->m;
    return OK;
}

static void metal_put(Mem *mem) {
    MetalDevice *c = (MetalDevice *)mem->dev;
    MetalMem *m = (MetalMem *)mem;
    pthread_mutex_lock(&c->lock);
    for (MetalMem **p = &c->mem; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    pthread_mutex_unlock(&c->lock);
    drop(m->buffer); /* command buffers keep what they use */
    rt_put(mem->dev->rt, m);
}

/* The buffer that an address lies in; NULL: none of ours. */
static Id find(MetalDevice *c, const void *at, unsigned long *offset) {
    Id found = NULL;
    pthread_mutex_lock(&c->lock);
    for (const MetalMem *m = c->mem; m && !found; m = m->next) {
        const uintptr_t lo = (uintptr_t)m->m.at, x = (uintptr_t)at;
        if (x >= lo && x - lo < m->m.bytes) found = m->buffer, *offset = x - lo;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

static Err wait_for(Cx *cx, const MetalDevice *c, Id commands) {
    send(commands, "waitUntilCompleted");
    if (send_number(commands, "status") != STATUS_ERROR) return OK;
    return failed(cx, c, "a kernel", send(commands, "error"));
}

/* Waits for all that was sent; the first error of any of it. With the lock. */
static Err wait_all(Cx *cx, MetalDevice *c) {
    Err err = OK;
    for (int i = 0; i < c->nsent; i++) {
        Err e = wait_for(err ? NULL : cx, c, c->sent[i]);
        if (!err) err = e;
        drop(c->sent[i]);
    }
    c->nsent = 0;
    return err;
}

static Err metal_sync(Cx *cx, Device *d) {
    MetalDevice *c = (MetalDevice *)d;
    void *pool = objc_autoreleasePoolPush();
    pthread_mutex_lock(&c->lock);
    Err err = wait_all(cx, c);
    pthread_mutex_unlock(&c->lock);
    objc_autoreleasePoolPop(pool);
    return err;
}

static Err metal_write(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes) {
    Err err = metal_sync(cx, m->dev); /* of what may still read it */
    if (!err) memcpy((char *)m->at + at, src, bytes);
    return err;
}

static Err metal_read(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes) {
    Err err = metal_sync(cx, m->dev);
    if (!err) memcpy(dst, (const char *)m->at + at, bytes);
    return err;
}

/* ---- launching ---- */

static Err pipeline_for(Cx *cx, MetalDevice *c, MetalModule *m, const Slot *slots, Id *out) {
    *out = m->fit;
    if (packs_fit(&m->check, slots)) return OK;
    Fail fail = {.slug = S_OOM, .text = "no memory for a unit's text"};
    pthread_mutex_lock(&m->lock);
    if (!m->loose) m->loose = pipeline(c, &m->unit, true, &fail);
    *out = m->loose;
    pthread_mutex_unlock(&m->lock);
    if (*out) return OK;
    return cx ? diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text) : slug_err(fail.slug);
}

/* One launch into an encoder, in parts where there are more groups than one can have. */
static Err encode(Cx *cx, MetalDevice *c, MetalModule *m, Id encoder, const Slot *slots, int64_t rows) {
    const Abi *abi = &m->unit.abi;
    const int64_t P = m->unit.rows_per_group;
    const int64_t held = (int64_t)m->unit.resident * i64_max(c->d.caps.units, 1); /* groups that take all rows */
    const int64_t most = held ? i64_max(rows, 1) : (int64_t)MOST_GROUPS * P;
    const Size lanes = {(unsigned long)m->unit.lanes * (unsigned long)P, 1, 1};
    int64_t args[2 + MAX_PARAMS * (MAX_RANK + 2) + MAX_AXES];
    Id state;
    Err err = pipeline_for(cx, c, m, slots, &state);
    if (err) return err;
    send_id(encoder, "setComputePipelineState:", state);
    for (int i = abi->ptr0; i < abi->row0; i++) {
        unsigned long offset = 0;
        Id buffer = slots[i].p ? find(c, slots[i].p, &offset) : NULL; /* NULL: of a tensor without elements */
        if (slots[i].p && !buffer)
            return cx ? diag(cx, S_RT_NOT_MEMORY, NOWHERE, NULL, "%s: tensor %d lies elsewhere", c->d.name, i + 1)
                      : slug_err(S_RT_NOT_MEMORY);
        SEND(void, (Id, Sel, Id, unsigned long, unsigned long))
        (encoder, sel("setBuffer:offset:atIndex:"), buffer, offset, (unsigned long)(i - abi->ptr0));
    }
    if (m->unit.shared_bytes) SEND(void, (Id, Sel, unsigned long, unsigned long))
    (encoder, sel("setThreadgroupMemoryLength:atIndex:"), (unsigned long)m->unit.shared_bytes, 0);
    args[1] = rows;
    for (int i = 0; i < abi->nslots; i++) args[2 + i] = slots[i].i;
    for (args[0] = 0; args[0] < rows; args[0] += most) {
        const int64_t tiles = ceil_div(i64_min(rows - args[0], most), P);
        const Size groups = {(unsigned long)(held ? i64_min(tiles, held) : tiles), 1, 1};
        SEND(void, (Id, Sel, const void *, unsigned long, unsigned long))
        (encoder, sel("setBytes:length:atIndex:"), args, (unsigned long)(2 + (abi->nslots ? abi->nslots : 1)) * 8,
         (unsigned long)(abi->row0 - abi->ptr0));
        SEND(void, (Id, Sel, Size, Size))
        (encoder, sel("dispatchThreadgroups:threadsPerThreadgroup:"), groups, lanes);
    }
    return OK;
}

/* `calls` launches as one command buffer, committed; it belongs to the pool around this. */
static Err commit(Cx *cx, MetalModule *m, const Slot *const *sets, int nsets, int64_t rows, int calls, Id *out) {
    MetalDevice *c = (MetalDevice *)m->m.dev;
    *out = send(c->queue, "commandBuffer");
    Id encoder = *out ? send(*out, "computeCommandEncoder") : NULL;
    if (!encoder) return failed(cx, c, "no command buffer", NULL);
    Err err = OK;
    for (int i = 0; i < calls && !err; i++) err = encode(cx, c, m, encoder, sets[i % nsets], rows);
    send(encoder, "endEncoding");
    if (!err) send(*out, "commit");
    return err;
}

static Err metal_launch(Cx *cx, Module *mod, const Slot *slots, int64_t rows, int threads) {
    MetalDevice *c = (MetalDevice *)mod->dev;
    void *pool = objc_autoreleasePoolPush();
    Id commands;
    (void)threads;
    Err err = commit(cx, (MetalModule *)mod, &slots, 1, rows, 1, &commands);
    if (!err) {
        pthread_mutex_lock(&c->lock);
        if (c->nsent == MOST_SENT) err = wait_all(cx, c);
        c->sent[c->nsent++] = send(commands, "retain");
        pthread_mutex_unlock(&c->lock);
    }
    objc_autoreleasePoolPop(pool);
    return err;
}

/* By the GPU's own clock, from the begin of the first launch to the end of the last. */
static Err metal_time(Cx *cx, Module *mod, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                      int64_t *ns) {
    const MetalDevice *c = (MetalDevice *)mod->dev;
    void *pool = objc_autoreleasePoolPush();
    Id commands;
    (void)threads;
    Err err = commit(cx, (MetalModule *)mod, sets, nsets, rows, calls, &commands);
    if (!err) err = wait_for(cx, c, commands);
    if (!err) {
        const double from = SEND(double, (Id, Sel))(commands, sel("GPUStartTime")),
                     to = SEND(double, (Id, Sel))(commands, sel("GPUEndTime"));
        *ns = (int64_t)((to - from) * 1e9);
    }
    objc_autoreleasePoolPop(pool);
    return err;
}

static Err metal_span(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads, int64_t *ns) {
    return metal_time(cx, m, &slots, 1, rows, threads, 1, ns);
}

const RtOps metal_ops = {
    .name = "metal",
    .open = metal_open,
    .close = metal_close,
    .build = metal_build,
    .unload = metal_unload,
    .get = metal_get,
    .put = metal_put,
    .write = metal_write,
    .read = metal_read,
    .launch = metal_launch,
    .sync = metal_sync,
    .time = metal_time,
    .span = metal_span,
    .clock = {"from the begin of the first launch to the end of the last, by the device's clock",
              "of one launch, by the device's clock"},
};
