/* The host as a device: units of C text become functions over a range of rows, run by the calling thread, a pool, or
 * the host program. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local.h"
#include "pool.h"

#include "../base/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Below this many elements a call is over (a few microseconds) before a second thread could help. */
enum { SERIAL_ELEMENTS = 16000, TASK_ELEMENTS = 32768, MAX_KERNEL = 64 << 20 };

typedef struct HostDevice {
    Device d;
    int threads;
    Pool *pool;
    Compiler cc;
    void *libm;
    atomic_bool swept; /* what killed processes left behind is removed before the first compilation */
} HostDevice;

typedef struct HostModule {
    Module m;
    HostFn *fn;
    void *handle;
    int64_t row_elements, group; /* work of a row; rows that belong together */
    int threads;                 /* of launches that do not say; 0: the device's */
} HostModule;

static const char *preset_of(Isa isa) {
    return isa == ISA_AVX512 ? "avx512" : isa == ISA_AVX2 ? "avx2" : isa == ISA_NEON ? "neon" : "portable";
}

static void host_close(Device *d) {
    HostDevice *h = (HostDevice *)d;
    pool_free(h->pool);
    so_unload(h->libm);
    rt_put(d->rt, h);
}

static void identify(HostDevice *h) {
    char model[128], flags[512];
    cpu_model(model, sizeof model);
    cc_flags(&h->cc, h->d.caps.isa, false, flags, sizeof flags);
    snprintf(h->d.identity, sizeof h->d.identity, "%s; %s; %d threads; %s%s%s; %s", model, isa_text(h->d.caps.isa),
             h->threads, h->cc.family ? h->cc.path : "no compiler", h->cc.family ? ": " : "", h->cc.version, flags);
}

static Err host_open(Cx *cx, Rt *rt) {
    const RtOptions *o = rt_options(rt);
    Isa isa = o->isa == ISA_COUNT ? cpu_best() : o->isa;
    if (!cpu_has(isa))
        return diag(cx, S_RT_ISA, NOWHERE, isa_text(cpu_best()), "this CPU cannot run instruction set %s",
                    isa_text(isa));
    HostDevice *h = rt_get(rt, sizeof *h);
    if (!h) return rt_oom(cx, "device host", sizeof *h);
    h->d.rt = rt;
    h->d.ops = &host_ops;
    h->threads = o->threads ? o->threads : os_cpus();
    h->pool = pool_new(o->al, h->threads);
    cc_probe(o->al, o->cc, &h->cc);
    if (!h->pool || h->cc.err == ENOMEM) {
        host_close(&h->d);
        return rt_oom(cx, "device host", sizeof *h);
    }
    caps_preset(preset_of(isa), &h->d.caps);
    snprintf(h->d.name, sizeof h->d.name, "host");
    snprintf(h->d.caps.name, sizeof h->d.caps.name, "host");
    h->d.caps.units = h->threads;
    snprintf(h->d.compiler, sizeof h->d.compiler, "%s", h->cc.family ? h->cc.path : "");
    cpu_caches(&h->d.caps);
    identify(h);
#ifdef __GLIBC__
    /* kernels may call exp and log; a library that was loaded for its owner alone leaves libm out of the global scope
     */
    h->libm = dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
#endif
    Err err = rt_add(cx, rt, &h->d);
    if (err) host_close(&h->d);
    return err;
}

/* ---- building ---- */

static Hash unit_key(const HostDevice *h, const Unit *u) {
    char flags[512], compiler[1400];
    cc_flags(&h->cc, u->isa, u->plain, flags, sizeof flags);
    snprintf(compiler, sizeof compiler, "%s\n%s\n%lld\n%lld", h->cc.path, h->cc.version, (long long)h->cc.bytes,
             (long long)h->cc.mtime_ns);
    const void *parts[] = {u->text, u->entry, isa_text(u->isa), compiler, flags};
    const size_t bytes[] = {u->bytes, strlen(u->entry), strlen(isa_text(u->isa)), strlen(compiler), strlen(flags)};
    return cache_key(parts, bytes, COUNT(parts));
}

static bool io_failed(Fail *fail, const char *what, const char *path, int err) {
    char why[128];
    fail->slug = err == ENOMEM ? S_OOM : S_BUILD_IO;
    snprintf(fail->text, sizeof fail->text, "cannot %s %s: %s", what, path, os_error(err, why, sizeof why));
    return false;
}

static bool load(HostModule *m, const char *so, const char *entry, Fail *fail) {
    int64_t from = os_now_ns();
    bool ok = so_load(so, entry, &m->handle, &m->fn, fail);
    m->m.facts.load_ns = os_now_ns() - from;
    return ok;
}

/* From the cache; false: not there, or there and not loadable here, which a fresh build answers better than an error.
 */
static bool build_cached(HostDevice *h, const Unit *u, Hash key, const char *so, HostModule *m) {
    char *file;
    const char *payload;
    size_t n;
    Fail unused;
    if (!cache_find(rt_cache(h->d.rt), key, &file, &payload, &n)) return false;
    m->m.facts.code_bytes = so_code_bytes(payload, n);
    bool ok = os_write_atomic(so, payload, n, 0700, false) == 0 && load(m, so, u->entry, &unused);
    rt_put(h->d.rt, file);
    m->m.facts.from_cache = ok;
    return ok;
}

static bool build_fresh(Cx *cx, HostDevice *h, const Unit *u, Hash key, const char *dir, const char *so, HostModule *m,
                        Fail *fail) {
    int64_t from = os_now_ns();
    if (!cc_compile(cx, h->d.rt, &h->cc, u, dir, so, fail)) return false;
    m->m.facts.compile_ns = os_now_ns() - from;
    char *file;
    size_t n;
    int err = os_read_file(rt_options(h->d.rt)->al, so, OS_OURS, MAX_KERNEL, &file, &n);
    if (err) return io_failed(fail, "read", so, err);
    m->m.facts.code_bytes = so_code_bytes(file, n);
    bool ok = load(m, so, u->entry, fail);
    if (ok) cache_store(rt_cache(h->d.rt), key, file, n); /* only what was seen to load */
    rt_put(h->d.rt, file);
    return ok;
}

static bool build_into(Cx *cx, HostDevice *h, const Unit *u, HostModule *m, Fail *fail) {
    /* A new folder for every build: safe with other threads and after a fork, nothing left but by a kill (and then
     * until the next process compiles), and never a path that dlopen has seen. A second one after a cached kernel that
     * would not load, for the same reason. */
    char dir[1024], so[1100];
    int hold;
    Hash key = unit_key(h, u);
    for (int fresh = u->fresh;; fresh++) {
        if (fresh && !atomic_exchange(&h->swept, true)) os_dir_sweep();
        int err = os_dir_work(dir, sizeof dir, &hold);
        if (err) return io_failed(fail, "make a folder in", "TMPDIR (or /tmp)", err);
        snprintf(so, sizeof so, "%s/kernel.so", dir);
        bool ok = fresh ? build_fresh(cx, h, u, key, dir, so, m, fail) : build_cached(h, u, key, so, m);
        os_dir_remove(dir);
        close(hold);
        if (ok || fresh) return ok;
    }
}

static Err host_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    HostDevice *h = (HostDevice *)d;
    if (u->dialect != DIALECT_HOST)
        return diag(cx, S_ARG, NOWHERE, "the host dialect", "the unit is in a dialect for other devices");
    if ((unsigned)u->isa >= ISA_COUNT || !cpu_has(u->isa))
        return diag(cx, S_RT_ISA, NOWHERE, isa_text(cpu_best()), "this CPU cannot run a unit for %s",
                    (unsigned)u->isa < ISA_COUNT ? isa_text(u->isa) : "an unknown instruction set");
    if (!h->cc.family && h->cc.err) return diag(cx, S_BUILD_START, NOWHERE, NULL, "%s", h->cc.why);
    if (!h->cc.family)
        return diag(cx, S_RT_NO_COMPILER, NOWHERE, "gcc or clang in PATH, or named by ROWFOLD_CC", "no C compiler: %s",
                    h->cc.why);
    HostModule *m = rt_get(d->rt, sizeof *m);
    if (!m) return rt_oom(cx, "a module", sizeof *m);
    m->row_elements = i64_max(1, u->elements_per_row);
    m->group = i64_max(1, u->rows_per_group);
    m->threads = u->threads;
    m->m.facts = facts_unknown();
    Fail fail = {.slug = S_INTERNAL};
    if (!build_into(cx, h, u, m, &fail)) {
        rt_put(d->rt, m);
        return diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text);
    }
    *out = &m->m;
    return OK;
}

static void host_unload(Module *mod) {
    HostModule *m = (HostModule *)mod;
    so_unload(m->handle);
    rt_put(mod->dev->rt, m);
}

/* ---- launching ---- */

/* A host program may have set its thread to flush subnormals or to round otherwise (a library built with fast-math does
 * so on loading); a row's bits must not depend on that. Reading costs about a nanosecond, writing happens only where it
 * differs. */
static inline void call(HostFn *fn, const Slot *slots, int64_t begin, int64_t end) {
#if defined(__x86_64__)
    enum { CONTROL = 0xFFC0, USUAL = 0x1F80 };
    unsigned was = __builtin_ia32_stmxcsr();
    if ((was & CONTROL) == USUAL) {
        fn(slots, begin, end);
    } else {
        __builtin_ia32_ldmxcsr(USUAL);
        fn(slots, begin, end);
        __builtin_ia32_ldmxcsr(was);
    }
#elif defined(__aarch64__)
    uint64_t was;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    if (was) __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    fn(slots, begin, end);
    if (was) __asm__ volatile("msr fpcr, %0" : : "r"(was));
#else
    fn(slots, begin, end);
#endif
}

typedef struct Launch {
    HostFn *fn;
    const Slot *slots;
    int64_t rows, each;
} Launch;

static void launch_task(void *arg, int i) {
    const Launch *l = arg;
    int64_t begin = i * l->each;
    call(l->fn, l->slots, begin, i64_min(begin + l->each, l->rows));
}

/* Contiguous ranges, whole groups of rows, and where there are many rows whole sixteens: two threads should seldom
 * write one line. */
static int64_t rows_each(const HostModule *m, int64_t rows, int64_t elements, int threads) {
    int64_t tasks = elements / (4 * (int64_t)threads) >= TASK_ELEMENTS ? 4 * (int64_t)threads : threads;
    int64_t step = m->group * (rows / tasks >= 64 * m->group ? 16 : 1);
    return ceil_div(ceil_div(rows, tasks), step) * step;
}

static Err host_launch(Cx *cx, Module *mod, const Slot *slots, int64_t rows, int threads) {
    (void)cx;
    const HostModule *m = (const HostModule *)mod;
    HostDevice *h = (HostDevice *)mod->dev;
    if (threads == 0) threads = m->threads;
    if (threads == 0 || threads > h->threads) threads = h->threads;
    int64_t elements = 0;
    if (threads > 1 && !mul_fits(rows, m->row_elements, &elements)) elements = INT64_MAX;
    if (threads == 1 || rows == 1 || elements < SERIAL_ELEMENTS) {
        call(m->fn, slots, 0, rows);
        return OK;
    }
    Launch l = {m->fn, slots, rows, rows_each(m, rows, elements, threads)};
    int n = (int)ceil_div(rows, l.each);
    const RtOptions *o = rt_options(mod->dev->rt);
    if (o->parallel_for)
        o->parallel_for(o->parallel_user, n, launch_task, &l);
    else
        pool_run(h->pool, threads, n, launch_task, &l);
    return OK;
}

static Err host_sync(Cx *cx, Device *d) {
    (void)cx, (void)d;
    return OK; /* a launch returns when it is done */
}

static Err host_span(Cx *cx, Module *mod, const Slot *slots, int64_t rows, int threads, int64_t *ns) {
    int64_t from = os_now_ns();
    Err err = host_launch(cx, mod, slots, rows, threads);
    *ns = os_now_ns() - from;
    return err;
}

static Err host_time_ceiling(Cx *cx, Device *d, const Ceiling *asked, double *ns, const char **how) {
    HostDevice *h = (HostDevice *)d;
    Ceiling c = *asked;
    if (c.threads == 0 || c.threads > h->threads) c.threads = h->threads;
    if (c.bytes / 8 < SERIAL_ELEMENTS) c.threads = 1;
    return host_ceiling(cx, d, h->pool, &c, ns, how);
}

static DevState host_state(Device *d) {
    (void)d;
    return cpu_state();
}

const RtOps host_ops = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .build = host_build,
    .unload = host_unload,
    .get = plain_get,
    .put = plain_put,
    .write = plain_write,
    .read = plain_read,
    .launch = host_launch,
    .sync = host_sync,
    .span = host_span,
    .clock = {"the monotonic clock around calls of the kernel's function on its threads",
              "the monotonic clock around one call of the kernel's function on its threads"},
    .ceiling = host_time_ceiling,
    .state = host_state,
};
