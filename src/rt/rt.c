/* RtOptions -> opened runtimes with their devices, and the dispatch of every device call to its runtime's table. */
#include "local.h"

#include "../base/os.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 64 };

struct Rt {
    RtOptions o;
    Alloc al;
    char *cache_dir, *cc; /* own copies of what o points to */
    Cache *cache;
    int ndevices;
    Device *device[MAX_DEVICES];
    _Atomic unsigned note_claimed, note_ready; /* bit i: kind i */
    char note[NOTE_COUNT][400];
};

static const RtOps *const runtimes[] = {
#define RUNTIME(name) &name##_ops,
#include "runtimes.def"
#undef RUNTIME
};

const RtOptions *rt_options(const Rt *rt) {
    return &rt->o;
}
Cache *rt_cache(Rt *rt) {
    return rt->cache;
}

void *rt_get(const Rt *rt, size_t bytes) {
    void *p = rt->al.get(rt->al.user, bytes ? bytes : 1);
    if (p) memset(p, 0, bytes);
    return p;
}

void rt_put(const Rt *rt, void *p) {
    if (p) rt->al.put(rt->al.user, p);
}

Err(rt_oom)(Cx *cx, const char *what, size_t bytes) {
    return diag(cx, S_OOM, NOWHERE, NULL, "no memory for %s (%zu bytes)", what, bytes);
}

static char *copy_text(const Rt *rt, const char *s) {
    size_t n = strlen(s) + 1;
    char *q = rt_get(rt, n);
    if (q) memcpy(q, s, n);
    return q;
}

Err rt_open(Cx *cx, const RtOptions *o, Rt **out) {
    *out = NULL;
    const Alloc *al = o->al ? o->al : &alloc_libc;
    if (o->threads < 0 || o->threads > 4096)
        return diag(cx, S_ARG, NOWHERE, "0 (all cores) to 4096", "threads = %d", o->threads);
    if ((unsigned)o->isa > ISA_COUNT) return diag(cx, S_ARG, NOWHERE, NULL, "isa = %d is not one", (int)o->isa);
    if (o->cache_bytes < 0 || o->build_timeout_ms < 0)
        return diag(cx, S_ARG, NOWHERE, "0 (the default) or more", "cache_bytes or build_timeout_ms is negative");
    Rt *rt = al->get(al->user, sizeof *rt);
    if (!rt) return rt_oom(cx, "the runtimes", sizeof *rt);
    memset(rt, 0, sizeof *rt);
    rt->al = *al;
    rt->o = *o;
    rt->o.al = &rt->al;
    if (o->cc) rt->o.cc = rt->cc = copy_text(rt, o->cc);
    if (o->cache_dir) rt->o.cache_dir = rt->cache_dir = copy_text(rt, o->cache_dir);
    if (!rt->o.cache_bytes) rt->o.cache_bytes = (int64_t)512 << 20;
    if (!rt->o.build_timeout_ms) rt->o.build_timeout_ms = 60000;
    bool whole = (!o->cc || rt->cc) && (!o->cache_dir || rt->cache_dir);
    rt->cache = whole ? cache_new(rt) : NULL;
    if (!rt->cache) {
        rt_close(rt);
        return rt_oom(cx, "the runtimes", sizeof *rt);
    }
    *out = rt; /* the caller's from here on: a diagnostic may jump where memory is gone */
    for (int i = 0; i < COUNT(runtimes); i++) {
        Err err = runtimes[i]->open ? runtimes[i]->open(cx, rt) : OK;
        if (err) {
            *out = NULL;
            rt_close(rt);
            return err;
        }
    }
    return OK;
}

void rt_close(Rt *rt) {
    if (!rt) return;
    while (rt->ndevices) { /* the youngest first: it may stand on an older one */
        Device *d = rt->device[--rt->ndevices];
        d->ops->close(d);
    }
    cache_free(rt->cache);
    rt_put(rt, rt->cache_dir);
    rt_put(rt, rt->cc);
    Alloc al = rt->al;
    al.put(al.user, rt);
}

Err rt_add(Cx *cx, Rt *rt, Device *d) {
    if (rt->ndevices == MAX_DEVICES)
        return diag(cx, S_RT_NO_DEVICE, NOWHERE, NULL, "more than %d devices", MAX_DEVICES);
    d->rt = rt;
    rt->device[rt->ndevices++] = d;
    return OK;
}

bool rt_has(const Rt *rt, const RtOps *ops) {
    for (int i = 0; i < rt->ndevices; i++)
        if (rt->device[i]->ops == ops) return true;
    return false;
}

void rt_find_added(Rt *rt, const char *name, Device **out) {
    for (int i = 0; i < rt->ndevices && !*out; i++) /* "cuda" is its first */
        if (str_eq(rt->device[i]->name, name) || str_eq(rt->device[i]->ops->name, name)) *out = rt->device[i];
}

int rt_devices(Rt *rt) {
    int n = 0;
    for (int i = 0; i < rt->ndevices; i++) n += !rt->device[i]->ops->hidden;
    return n;
}

Device *rt_device(Rt *rt, int i) {
    for (int k = 0; k < rt->ndevices; k++)
        if (!rt->device[k]->ops->hidden && i-- == 0) return rt->device[k];
    return NULL;
}

static Err no_device(Cx *cx, Rt *rt, const char *name) {
    Buf names = buf_new(cx->a);
    for (int i = 0; i < rt_devices(rt); i++) buf_fmt(&names, "%s, ", dev_name(rt_device(rt, i)));
    buf_str(&names, "best, and others that `rowfold devices` lists");
    return diag(cx, S_RT_NO_DEVICE, NOWHERE, names.s, "there is no device `%s` here", name);
}

Err rt_find(Cx *cx, Rt *rt, const char *name, Device **out) {
    *out = NULL;
    if (!name || str_eq(name, "best")) { /* the most bytes a second */
        for (int i = 0; i < rt_devices(rt); i++) {
            Device *d = rt_device(rt, i);
            if (!*out || d->caps.copy_bytes_per_s > (*out)->caps.copy_bytes_per_s) *out = d;
        }
        return *out ? OK : no_device(cx, rt, "best");
    }
    rt_find_added(rt, name, out);
    for (int i = 0; i < COUNT(runtimes) && !*out; i++) {
        if (!runtimes[i]->find) continue;
        Err err = runtimes[i]->find(cx, rt, name, out);
        if (err) return err;
    }
    return *out ? OK : no_device(cx, rt, name);
}

void rt_say(Rt *rt, enum Note kind, const char *fmt, ...) {
    unsigned bit = 1u << kind;
    if (atomic_fetch_or(&rt->note_claimed, bit) & bit) return; /* said already, or being said */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(rt->note[kind], sizeof rt->note[kind], fmt, ap);
    va_end(ap);
    atomic_fetch_or(&rt->note_ready, bit);
}

const char *rt_note(Rt *rt, int i) {
    unsigned ready = atomic_load(&rt->note_ready);
    for (int kind = 0; kind < NOTE_COUNT; kind++)
        if ((ready >> kind & 1) && i-- == 0) return rt->note[kind];
    return NULL;
}

const Caps *dev_caps(const Device *d) {
    return &d->caps;
}
const char *dev_name(const Device *d) {
    return d->name;
}
const char *dev_identity(const Device *d) {
    return d->identity;
}

const char *dev_compiler(const Device *d) {
    return d->compiler;
}

const RtOptions *dev_options(const Device *d) {
    return rt_options(d->rt);
}

static bool is_identifier(const char *s) {
    if (!s || !s[0] || (s[0] >= '0' && s[0] <= '9')) return false;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n < 200 && s[n] == 0;
}

Err mod_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    *out = NULL;
    if (!is_identifier(u->entry)) return diag(cx, S_ARG, NOWHERE, "a C identifier", "the unit's entry is off");
    Err err = d->ops->build(cx, d, u, out);
    if (!err) (*out)->dev = d, (*out)->pace_ns = 0;
    return err;
}

void mod_free(Module *m) {
    if (m) m->dev->ops->unload(m);
}

const Facts *mod_facts(const Module *m) {
    return &m->facts;
}

double *mod_pace(Module *m) {
    return &m->pace_ns;
}

Err mem_new(Cx *cx, Device *d, size_t bytes, Mem **out) {
    *out = NULL;
    Err err = d->ops->get(cx, d, bytes, out);
    if (!err) (*out)->dev = d, (*out)->bytes = bytes;
    return err;
}

void mem_free(Mem *m) {
    if (m) m->dev->ops->put(m);
}

void *mem_at(Mem *m) {
    return m->at;
}

static Err check_range(Cx *cx, const Mem *m, size_t at, size_t bytes) {
    if (at <= m->bytes && bytes <= m->bytes - at) return OK;
    return diag(cx, S_ARG, NOWHERE, NULL, "bytes %zu to %zu + %zu of device memory that has %zu", at, at, bytes,
                m->bytes);
}

Err mem_write(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes) {
    Err err = check_range(cx, m, at, bytes);
    return err || !bytes ? err : m->dev->ops->write(cx, m, at, src, bytes);
}

Err mem_read(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes) {
    Err err = check_range(cx, m, at, bytes);
    return err || !bytes ? err : m->dev->ops->read(cx, m, at, dst, bytes);
}

Err mod_launch(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads) {
    if (rows <= 0 || threads < 0) {
        if (rows == 0 && threads >= 0) return OK;
        return cx ? diag(cx, S_ARG, NOWHERE, "0 or more", "rows = %lld, threads = %d", (long long)rows, threads)
                  : ERR_ARGUMENT;
    }
    return m->dev->ops->launch(cx, m, slots, rows, threads);
}

Err mod_launch_in(Cx *cx, Module *m, void *queue, const Slot *slots, int64_t rows, int threads) {
    if (!queue || rows <= 0 || threads < 0) return mod_launch(cx, m, slots, rows, threads);
    if (m->dev->ops->launch_in) return m->dev->ops->launch_in(cx, m, queue, slots, rows);
    return cx ? diag(cx, S_RT_NOT_OFFERED, NOWHERE, NULL, "device %s has no queues of the caller's", m->dev->name)
              : slug_err(S_RT_NOT_OFFERED);
}

Err dev_sync(Cx *cx, Device *d) {
    return d->ops->sync(cx, d);
}

int64_t t_now_ns(void) {
    return os_now_ns();
}

DevState dev_state(Device *d) {
    return d->ops->state ? d->ops->state(d) : (DevState){0, -1};
}

Err mod_time(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls, int64_t *ns) {
    *ns = 0;
    if (nsets < 1 || rows < 1 || threads < 0 || calls < 1)
        return diag(cx, S_ARG, NOWHERE, "at least one of each", "sets = %d, rows = %lld, threads = %d, calls = %d",
                    nsets, (long long)rows, threads, calls);
    const RtOps *ops = m->dev->ops;
    if (ops->time) return ops->time(cx, m, sets, nsets, rows, threads, calls, ns);
    Err err = dev_sync(cx, m->dev);
    int64_t from = os_now_ns();
    for (int i = 0, set = 0; i < calls && !err; i++) {
        err = ops->launch(cx, m, sets[set], rows, threads);
        if (++set == nsets) set = 0;
    }
    if (!err) err = dev_sync(cx, m->dev);
    *ns = os_now_ns() - from;
    return err;
}

Err mod_span(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads, int64_t *ns) {
    *ns = 0;
    if (rows < 1 || threads < 0)
        return diag(cx, S_ARG, NOWHERE, "at least one row", "rows = %lld, threads = %d", (long long)rows, threads);
    const RtOps *ops = m->dev->ops;
    if (ops->span) return ops->span(cx, m, slots, rows, threads, ns);
    Err err = dev_sync(cx, m->dev);
    int64_t from = os_now_ns();
    if (!err) err = ops->launch(cx, m, slots, rows, threads);
    if (!err) err = dev_sync(cx, m->dev);
    *ns = os_now_ns() - from;
    return err;
}

const char *dev_clock(const Device *d, bool single) {
    const char *how = d->ops->clock[single];
    return how ? how : "the monotonic clock around launches and a synchronise";
}

const char *ceiling_text(CeilingKind k) {
    static const char *const kinds[CEILING_KINDS] = {"copy", "read", "write"};
    return kinds[k];
}

Err dev_ceiling(Cx *cx, Device *d, const Ceiling *c, double *ns, const char **how) {
    *ns = 0;
    *how = NULL;
    if (c->bytes == 0 || c->threads < 0 || c->sets < 1 || c->reps < 1 || c->reps > 100000)
        return diag(cx, S_ARG, NOWHERE, "bytes, sets and reps of at least 1",
                    "bytes = %zu, sets = %d, threads = %d, reps = %d", c->bytes, c->sets, c->threads, c->reps);
    if (!d->ops->ceiling)
        return diag(cx, S_RT_NOT_OFFERED, NOWHERE, NULL, "device %s cannot time a %s", d->name, ceiling_text(c->kind));
    return d->ops->ceiling(cx, d, c, ns, how);
}

Err dev_copy_ns(Cx *cx, Device *d, size_t bytes, int threads, int reps, double *ns, const char **how) {
    Ceiling c = {.kind = CEILING_COPY, .bytes = 2 * bytes, .sets = 1, .threads = threads, .reps = reps};
    return dev_ceiling(cx, d, &c, ns, how);
}
