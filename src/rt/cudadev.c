/* NVIDIA GPUs as devices: libcuda is found at run time, units become cubins by NVRTC, launches go to the default stream
 * of the caller's current context, or of the device's primary one where there is none. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cudadrv.h"

#include "../base/os.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_DEVICE = 100, MOST_BLOCKS = 0x7fffffff };
/* CUdevice_attribute and CUfunction_attribute of the driver API */
enum {
    ATTR_BLOCK_X = 2,
    ATTR_WARP = 10,
    ATTR_UNITS = 16,
    ATTR_MEMORY_KHZ = 36,
    ATTR_BUS_BITS = 37,
    ATTR_L2 = 38,
    ATTR_MAJOR = 75,
    ATTR_MINOR = 76,
    ATTR_REGISTERS = 82,
    ATTR_SHARED = 97
};
enum { FN_SHARED = 1, FN_LOCAL = 3, FN_REGISTERS = 4, FN_MOST_SHARED = 8, FN_ANY_CLUSTER = 14 };
enum { LAUNCH_CLUSTER = 4, LAUNCH_OVERLAP = 6, PORTABLE_CLUSTER = 8 }; /* CUlaunchAttributeID */

typedef struct CudaModule {
    Module m;
    CuModule mod, loose_mod;
    CuFunction fn;
    CuFunction _Atomic loose;       /* takes memory that is not aligned to packs; built when first needed */
    pthread_mutex_t lock;           /* for building it */
    unsigned threads, shared_bytes; /* on-chip memory beyond what the code has by itself */
    int64_t rows_per_group;
    unsigned cluster, split;
    size_t work_bytes; /* of rows_per_group rows */
    CudaWorks work;
    int64_t resident;     /* groups that a launch has at most, which take all rows; 0: each takes its own */
    CuLaunchAttr overlap; /* id 0: launches wait for each other */
    CudaChain chain;      /* of the last timing */
    PackCheck check;
    Unit unit; /* with text and entry of its own */
} CudaModule;

/* ---- the driver ---- */

Err cuda_said(Cx *cx, const CudaDevice *c, int code, Slug slug, const char *what) {
    const char *name = NULL;
    if (!code) return OK;
    Err err = code == 2 ? ERR_MEMORY : slug_err(slug);
    if (!cx) return err;
    if (c->cu.error_name(code, &name) || !name) name = "an unknown error";
    return diag(cx, code == 2 ? S_OOM : slug, NOWHERE, NULL, "%s: %s: %s (%d)", c->d.name, what, name, code);
}

/* The functions of a driver; NULL on success, else what is wrong with it. */
static const char *driver_open(Driver *cu) {
    const char *asked = getenv("ROWFOLD_LIBCUDA");
    *cu = (Driver){.lib = dlopen(asked && asked[0] ? asked : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!cu->lib) return "no libcuda.so.1: the NVIDIA driver is not installed";
    int (*find2)(const char *, void **, int, uint64_t, int *) = NULL;
    int (*find1)(const char *, void **, int, uint64_t) = NULL;
    void *at2 = dlsym(cu->lib, "cuGetProcAddress_v2"), *at1 = dlsym(cu->lib, "cuGetProcAddress");
    memcpy(&find2, &at2, sizeof at2);
    memcpy(&find1, &at1, sizeof at1);
    const char *missing = find1 || find2 ? NULL : "libcuda.so.1 is older than CUDA 11.3";
#define F(symbol, field, params, version)                                                         \
    if (!missing) {                                                                               \
        void *f = NULL;                                                                           \
        int said = find2 ? find2(#symbol, &f, version, 0, NULL) : find1(#symbol, &f, version, 0); \
        memcpy(&cu->field, &f, sizeof f);                                                         \
        if (said || !f) missing = "libcuda.so.1 lacks " #symbol;                                  \
    }
    CUDA_FUNCTIONS(F)
#undef F
    return missing;
}

static const char *driver_start(Driver *cu, int *devices) {
    const char *wrong = driver_open(cu);
    *devices = 0;
    if (wrong) return wrong;
    int err = cu->init(0);
    if (!err) err = cu->device_count(devices);
    return err == NO_DEVICE || (!err && !*devices) ? "the driver sees no device"
           : err                                   ? "the driver does not start"
                                                   : NULL;
}

/* The context of all our work with a device is settled by the first that needs one. */
static Err settle(Cx *cx, CudaDevice *c, CuContext current) {
    CuDevice of = -1;
    if (current && c->cu.ctx_device(&of) == 0 && of == c->ordinal) {
        c->ctx = current;
    } else {
        CuContext primary = NULL;
        int err = c->cu.primary_retain(&primary, c->ordinal);
        if (err) return cuda_said(cx, c, err, S_RT_CUDA, "no context");
        c->primary = true;
        c->ctx = primary;
    }
    return OK;
}

Err cuda_enter(Cx *cx, CudaDevice *c, bool *pushed) {
    CuContext current = NULL;
    c->cu.ctx_current(&current);
    *pushed = false;
    CuContext ours = c->ctx;
    if (ours && current == ours) return OK;
    if (!ours) {
        pthread_mutex_lock(&c->lock);
        Err err = c->ctx ? OK : settle(cx, c, current);
        ours = c->ctx;
        pthread_mutex_unlock(&c->lock);
        if (err) return err;
        if (current == ours) return OK;
    }
    int err = c->cu.ctx_push(ours);
    *pushed = !err;
    return cuda_said(cx, c, err, S_RT_CUDA, "cannot use the context");
}

void cuda_leave(CudaDevice *c, bool pushed) {
    CuContext unused;
    if (pushed) c->cu.ctx_pop(&unused);
}

/* ---- devices ---- */

static int attribute(CudaDevice *c, int which) {
    int x = 0;
    c->untold |= c->cu.device_attribute(&x, which, c->ordinal) != 0;
    return x;
}

static void describe(CudaDevice *c) {
    Caps *caps = &c->d.caps;
    char model[96] = "?";
    int major = attribute(c, ATTR_MAJOR), minor = attribute(c, ATTR_MINOR), driver = 0;
    double bits = attribute(c, ATTR_BUS_BITS), khz = attribute(c, ATTR_MEMORY_KHZ);
    c->untold |= c->cu.device_name(model, sizeof model, c->ordinal) || c->cu.driver_version(&driver);
    caps_preset("h200", caps);
    snprintf(c->d.name, sizeof c->d.name, "cuda:%d", c->ordinal);
    snprintf(caps->name, sizeof caps->name, "cuda:%d", c->ordinal);
    snprintf(c->arch, sizeof c->arch, "sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
    caps->subgroup = attribute(c, ATTR_WARP);
    caps->max_lanes = caps->max_group = attribute(c, ATTR_BLOCK_X);
    caps->shared_bytes = attribute(c, ATTR_SHARED);
    caps->registers = attribute(c, ATTR_REGISTERS);
    caps->units = attribute(c, ATTR_UNITS);
    caps->l2_bytes = attribute(c, ATTR_L2);
    caps->max_cluster = major >= 9 ? 16 : 1;
    caps->has_keep = major >= 8;
    if (bits > 0 && khz > 0)
        caps->copy_bytes_per_s =
            0.87 * 2 * khz * 1e3 * bits / 8; /* two transfers a clock, of which a copy gets this share */
    snprintf(c->d.identity, sizeof c->d.identity, "%s; %s; %d units; driver CUDA %d.%d; %s", model, c->arch,
             caps->units, driver / 1000, driver % 1000 / 10, c->rtc.lib ? "NVRTC " : c->rtc.why);
    size_t n = strlen(c->d.identity);
    char options[400];
    nvrtc_options(c->arch, false, options, sizeof options);
    if (c->rtc.lib)
        snprintf(c->d.identity + n, sizeof c->d.identity - n, "%d.%d; %s", c->rtc.major, c->rtc.minor, options);
    Dl_info at;
    if (c->rtc.lib && dladdr((void *)(uintptr_t)c->rtc.create, &at) && at.dli_fname)
        snprintf(c->d.compiler, sizeof c->d.compiler, "%s", at.dli_fname);
}

static void cuda_close(Device *d) {
    CudaDevice *c = (CudaDevice *)d;
    bool pushed;
    if (c->stream) {
        cuda_enter(NULL, c, &pushed); /* as in cuda_put */
        c->cu.stream_free(c->stream);
        cuda_leave(c, pushed);
    }
    if (c->primary) c->cu.primary_release(c->ordinal);
    nvrtc_close(&c->rtc);
    dlclose(c->cu.lib);
    pthread_mutex_destroy(&c->lock);
    rt_put(d->rt, c);
}

static Err cuda_open(Cx *cx, Rt *rt) {
    Driver cu;
    int devices;
    const char *wrong = driver_start(&cu, &devices);
    for (int i = 0; i < devices && !wrong; i++) {
        CudaDevice *c = rt_get(rt, sizeof *c);
        Err err = c ? OK : rt_oom(cx, "a CUDA device", sizeof *c);
        if (!err) {
            Driver own;
            wrong = driver_open(&own); /* a reference of its own, so that devices close alone */
            c->cu = own;
            c->d.ops = &cuda_ops;
            c->d.rt = rt;
            pthread_mutex_init(&c->lock, NULL);
            nvrtc_open(&c->rtc);
            c->untold = c->cu.device_get(&c->ordinal, i) != 0;
            describe(c);
            if (!c->untold) err = rt_add(cx, rt, &c->d);
            if (err || c->untold) cuda_close(&c->d); /* nothing is planned for who knows what */
        }
        if (err) {
            dlclose(cu.lib);
            return err;
        }
    }
    if (cu.lib) dlclose(cu.lib);
    return OK;
}

/* Asked for by name and not among the devices: why. */
static Err cuda_find(Cx *cx, Rt *rt, const char *name, Device **out) {
    Driver cu;
    int devices;
    (void)rt, (void)out;
    if (!str_eq(name, "cuda") && !str_starts(name, "cuda:")) return OK;
    const char *wrong = driver_start(&cu, &devices);
    if (cu.lib) dlclose(cu.lib);
    return wrong ? diag(cx, S_RT_NO_DRIVER, NOWHERE, "`rowfold devices` lists what is here", "no device `%s`: %s", name,
                        wrong)
                 : OK;
}

/* ---- building ---- */

/* The cubin out of the cache or the compiler. What spills is refused either way. */
static bool cubin_of(CudaDevice *c, const Unit *u, bool loose, bool cached, char **file, const char **cubin,
                     size_t *bytes, Facts *f, Fail *fail) {
    char options[400], version[32];
    const Alloc *al = rt_options(c->d.rt)->al;
    nvrtc_options(c->arch, loose, options, sizeof options);
    snprintf(version, sizeof version, "nvrtc %d.%d", c->rtc.major, c->rtc.minor);
    const void *parts[] = {u->text, u->entry, options, version};
    const size_t sizes[] = {u->bytes, strlen(u->entry), strlen(options), strlen(version)};
    Hash key = cache_key(parts, sizes, COUNT(parts));
    f->from_cache = cached && cache_find(rt_cache(c->d.rt), key, file, cubin, bytes);
    if (f->from_cache) return true;
    int64_t from = os_now_ns();
    if (!nvrtc_build(&c->rtc, al, u, c->arch, loose, file, bytes, fail)) return false;
    f->compile_ns = os_now_ns() - from;
    *cubin = *file;
    cache_store(rt_cache(c->d.rt), key, *cubin, *bytes);
    return true;
}

/* Groups may have more than 48 KiB of on-chip memory only where the function says so. */
static bool load(CudaDevice *c, const Unit *u, bool loose, CuModule *mod, CuFunction *fn, Facts *f, Fail *fail) {
    for (int cached = u->fresh ? 0 : 1; cached >= 0; cached--) {
        char *file = NULL;
        const char *cubin;
        size_t bytes;
        if (!cubin_of(c, u, loose, cached != 0, &file, &cubin, &bytes, f, fail)) return false;
        f->code_bytes = (int)bytes;
        int registers, local; /* the driver tells them of what it runs */
        if (!cubin_facts(cubin, bytes, &registers, &local, &f->global_loads)) f->global_loads = -1;
        int64_t from = os_now_ns();
        int err = c->cu.module_load(mod, cubin);
        if (!err) err = c->cu.module_function(fn, *mod, u->entry);
        if (!err && u->shared_bytes) err = c->cu.function_set(*fn, FN_MOST_SHARED, (int)u->shared_bytes);
        if (!err && u->cluster > PORTABLE_CLUSTER) err = c->cu.function_set(*fn, FN_ANY_CLUSTER, 1);
        f->load_ns = os_now_ns() - from;
        rt_put(c->d.rt, file);
        if (!err) return true;
        if (*mod) c->cu.module_unload(*mod);
        *mod = NULL;
        fail->slug = S_BUILD_LOAD;
        const char *name = NULL;
        c->cu.error_name(err, &name);
        snprintf(fail->text, sizeof fail->text, "%s cannot load `%s`: %s", c->d.name, u->entry,
                 name ? name : "unknown error");
        if (!f->from_cache) break; /* a stale entry is answered by a fresh build */
    }
    return false;
}

static void module_put(CudaDevice *c, CudaModule *m) {
    bool pushed;
    if (m->mod || m->loose_mod) {
        cuda_enter(NULL, c, &pushed); /* as in cuda_put */
        cuda_chain_free(c, &m->chain);
        cuda_work_free(c, &m->work);
        if (m->mod) c->cu.module_unload(m->mod);
        if (m->loose_mod) c->cu.module_unload(m->loose_mod);
        cuda_leave(c, pushed);
    }
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->work.lock);
    unit_drop(c->d.rt, &m->unit);
    rt_put(c->d.rt, m);
}

static int facts_read(const CudaDevice *c, const CudaModule *m, Facts *f) {
    int err = c->cu.function_attribute(&f->registers, FN_REGISTERS, m->fn);
    if (!err) err = c->cu.function_attribute(&f->local_bytes, FN_LOCAL, m->fn);
    if (!err) err = c->cu.function_attribute(&f->shared_bytes, FN_SHARED, m->fn);
    c->cu.occupancy(&f->groups_per_unit, m->fn, (int)m->threads, m->shared_bytes);
    f->shared_bytes += (int)m->shared_bytes;
    return err;
}

/* Clusters whose groups the device runs all at once. */
static int clusters_held(const CudaDevice *c, const CudaModule *m) {
    CuLaunchAttr shape = {.id = LAUNCH_CLUSTER, .value = {.dim = {m->cluster, 1, 1}}};
    CuLaunch how = {.grid = {m->cluster, 1, 1},
                    .block = {m->threads, 1, 1},
                    .shared_bytes = m->shared_bytes,
                    .attr = &shape,
                    .nattrs = 1};
    int n = 0;
    return c->cu.clusters(&n, m->fn, &how) ? 0 : n;
}

/* Of a launch whose groups take all rows, all are there at once: as many clusters as fit, which are fewer than the
 * units' groups make where those of a cluster must lie side by side. */
static int64_t groups_held(const CudaDevice *c, const CudaModule *m, int of_unit) {
    int64_t groups = (int64_t)of_unit * (c->d.caps.units > 0 ? c->d.caps.units : 1), C = m->cluster;
    return i64_max(1, C > 1 ? i64_min(groups / C, clusters_held(c, m)) : groups) * C;
}

static Err cuda_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    CudaDevice *c = (CudaDevice *)d;
    bool pushed;
    if (u->dialect != DIALECT_CUDA)
        return diag(cx, S_ARG, NOWHERE, "the CUDA dialect", "the unit is in a dialect for other devices");
    if (!c->rtc.lib) return diag(cx, S_RT_NO_NVRTC, NOWHERE, "libnvrtc.so.13 or .12", "%s: %s", d->name, c->rtc.why);
    Err err = cuda_enter(cx, c, &pushed);
    if (err) return err;
    CudaModule *m = rt_get(d->rt, sizeof *m);
    Fail fail = {.slug = S_OOM, .text = "no memory for a module"};
    bool ok = m && unit_keep(d->rt, u, &m->unit);
    if (m) pthread_mutex_init(&m->lock, NULL), pthread_mutex_init(&m->work.lock, NULL);
    if (ok) {
        m->threads = (unsigned)(u->lanes * u->rows_per_group);
        m->shared_bytes = (unsigned)u->shared_bytes;
        m->rows_per_group = u->rows_per_group;
        m->cluster = u->cluster > 1 ? (unsigned)u->cluster : 1;
        m->split = u->split > 1 ? (unsigned)u->split : 1;
        m->work_bytes = (size_t)u->work_bytes;
        if (u->overlap) m->overlap = (CuLaunchAttr){.id = LAUNCH_OVERLAP, .value = {.flag = 1}};
        m->m.facts = facts_unknown();
        packs_check(u, &m->check);
        ok = load(c, u, false, &m->mod, &m->fn, &m->m.facts, &fail);
    }
    if (ok && facts_read(c, m, &m->m.facts)) { /* whether it spills must be known */
        fail.slug = S_BUILD_LOAD;
        snprintf(fail.text, sizeof fail.text, "%s does not tell what `%s` takes", d->name, u->entry);
        ok = false;
    }
    if (ok && m->m.facts.local_bytes > u->private_bytes) { /* by the driver's count, which is the one that runs */
        fail.slug = S_BUILD_SPILLS;
        snprintf(fail.text, sizeof fail.text, "`%s` has %d byte%s of local memory, %lld of them meant; registers=%d",
                 u->entry, m->m.facts.local_bytes, plural(m->m.facts.local_bytes), (long long)u->private_bytes,
                 m->m.facts.registers);
        ok = false;
    }
    if (ok && m->m.facts.global_loads >= 0 && u->loads_again && u->loads - m->m.facts.global_loads >= u->loads_again) {
        fail.slug = S_BUILD_MERGED;
        snprintf(fail.text, sizeof fail.text,
                 "`%s` has %d loads from global memory, its text %d; a later sweep has %d of what was loaded before",
                 u->entry, m->m.facts.global_loads, u->loads, u->loads_again);
        ok = false;
    }
    if (ok && u->resident && u->resident > m->m.facts.groups_per_unit) {
        fail.slug = S_BUILD_GRID;
        snprintf(fail.text, sizeof fail.text,
                 "`%s`: grid=%d, and a unit holds %d group%s of %u thread%s, %d registers and %d "
                 "bytes",
                 u->entry, u->resident, m->m.facts.groups_per_unit, plural(m->m.facts.groups_per_unit), m->threads,
                 plural(m->threads), m->m.facts.registers, m->m.facts.shared_bytes);
        ok = false;
    }
    if (ok && m->cluster > 1 && clusters_held(c, m) < 1) {
        fail.slug = S_BUILD_CLUSTER;
        snprintf(fail.text, sizeof fail.text,
                 "`%s`: no %u groups of %u thread%s, %d registers and %d bytes each run together", u->entry, m->cluster,
                 m->threads, plural(m->threads), m->m.facts.registers, m->m.facts.shared_bytes);
        ok = false;
    }
    if (ok && u->resident) m->resident = groups_held(c, m, u->resident);
    cuda_leave(c, pushed);
    if (ok) {
        *out = &m->m;
        return OK;
    }
    if (m) module_put(c, m);
    return diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text);
}

static void cuda_unload(Module *mod) {
    module_put((CudaDevice *)mod->dev, (CudaModule *)mod);
}

/* ---- launching ---- */

static Err loose_build(Cx *cx, CudaDevice *c, CudaModule *m, CuFunction *out) {
    pthread_mutex_lock(&m->lock);
    *out = atomic_load(&m->loose);
    Fail fail = {.slug = S_INTERNAL};
    bool ok = *out != NULL;
    if (!ok) {
        Facts unused = {0};
        int relaxed = 2; /* a capture that goes on in this thread is not disturbed */
        c->cu.capture_mode(&relaxed);
        ok = load(c, &m->unit, true, &m->loose_mod, out, &unused, &fail);
        c->cu.capture_mode(&relaxed);
        if (ok) atomic_store(&m->loose, *out);
    }
    pthread_mutex_unlock(&m->lock);
    if (ok) return OK;
    return cx ? diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text) : slug_err(fail.slug);
}

static Err function_for(Cx *cx, CudaDevice *c, CudaModule *m, const Slot *slots, CuFunction *out) {
    *out = packs_fit(&m->check, slots) ? m->fn : atomic_load_explicit(&m->loose, memory_order_acquire);
    return *out ? OK : loose_build(cx, c, m, out);
}

static int start(const CudaDevice *c, CudaModule *m, CuFunction fn, const Slot *slots, int64_t rows, CuStream s) {
    const int64_t groups = (int64_t)m->cluster * m->split,
                  most = m->resident ? i64_max(rows, 1) : MOST_BLOCKS / groups * m->rows_per_group;
    CuPtr work = 0;
    int err = 0;
    if (m->work_bytes)
        err =
            cuda_work(c, &m->work, s, (size_t)ceil_div(i64_min(rows, most), m->rows_per_group) * m->work_bytes, &work);
    for (int64_t first = 0; first < rows && !err; first += most) {
        int64_t blocks = ceil_div(i64_min(rows - first, most), m->rows_per_group) * groups;
        if (m->resident) blocks = i64_min(blocks, m->resident);
        void *args[] = {(void *)(uintptr_t)slots, &first, &rows, &work}; /* the last of splits only */
        CuLaunch how = {.grid = {(unsigned)blocks, 1, 1},
                        .block = {m->threads, 1, 1},
                        .shared_bytes = m->shared_bytes,
                        .stream = s,
                        .attr = (CuLaunchAttr *)(uintptr_t)&m->overlap,
                        .nattrs = m->overlap.id != 0};
        err = m->overlap.id
                  ? c->cu.launch_with(&how, fn, args, NULL)
                  : c->cu.launch(fn, (unsigned)blocks, 1, 1, m->threads, 1, 1, m->shared_bytes, s, args, NULL);
    }
    return err;
}

static Err cuda_launch_in(Cx *cx, Module *mod, void *queue, const Slot *slots, int64_t rows) {
    CudaDevice *c = (CudaDevice *)mod->dev;
    CudaModule *m = (CudaModule *)mod;
    CuFunction fn;
    bool pushed;
    Err err = cuda_enter(cx, c, &pushed);
    if (err) return err;
    err = function_for(cx, c, m, slots, &fn);
    if (!err) err = cuda_said(cx, c, start(c, m, fn, slots, rows, queue), S_RT_CUDA, "launch");
    cuda_leave(c, pushed);
    return err;
}

static Err cuda_launch(Cx *cx, Module *mod, const Slot *slots, int64_t rows, int threads) {
    (void)threads;
    return cuda_launch_in(cx, mod, NULL, slots, rows);
}

static Err cuda_sync(Cx *cx, Device *d) {
    CudaDevice *c = (CudaDevice *)d;
    bool pushed;
    Err err = cuda_enter(cx, c, &pushed);
    if (err) return err;
    err = cuda_said(cx, c, c->cu.ctx_sync(), S_RT_CUDA, "a kernel failed");
    cuda_leave(c, pushed);
    return err;
}

typedef struct Timed {
    const CudaDevice *c;
    CudaModule *m;
    const Slot *const *sets;
    const CuFunction *fn; /* of each set */
    int nsets;
    int64_t rows;
} Timed;

static int timed_start(void *user, int i, CuStream s) {
    const Timed *t = user;
    return start(t->c, t->m, t->fn[i % t->nsets], t->sets[i % t->nsets], t->rows, s);
}

/* All that the launches over these sets are told. */
static Hash told(const CudaModule *m, const Slot *const *sets, const CuFunction *fn, int nsets, int64_t rows,
                 char *buffer) {
    const size_t slots = (size_t)m->unit.abi.nslots * sizeof(Slot);
    char *at = buffer;
    memcpy(at, &rows, sizeof rows), at += sizeof rows;
    for (int i = 0; i < nsets; i++) {
        memcpy(at, sets[i], slots), at += slots;
        memcpy(at, &fn[i], sizeof *fn), at += sizeof *fn;
    }
    return hash_bytes(buffer, (size_t)(at - buffer));
}

static Err cuda_time_module(Cx *cx, Module *mod, const Slot *const *sets, int nsets, int64_t rows, int threads,
                            int calls, int64_t *ns) {
    (void)threads;
    CudaDevice *c = (CudaDevice *)mod->dev;
    CudaModule *m = (CudaModule *)mod;
    const size_t n = (size_t)nsets, each = (size_t)m->unit.abi.nslots * sizeof(Slot) + sizeof(CuFunction);
    CuFunction *fn = rt_get(mod->dev->rt, n * sizeof *fn + sizeof rows + n * each); /* and what they are told */
    bool pushed;
    if (!fn) return rt_oom(cx, "the sets of a timing", n * each);
    Err err = cuda_enter(cx, c, &pushed);
    for (int i = 0; i < nsets && !err; i++) err = function_for(cx, c, m, sets[i], &fn[i]);
    Timed t = {c, m, sets, fn, nsets, rows};
    if (!err) {
        const Hash of = told(m, sets, fn, nsets, rows, (char *)(fn + n));
        err = cuda_time(cx, c, timed_start, &t, nsets, calls, of, &m->chain, ns);
    }
    cuda_leave(c, pushed);
    rt_put(mod->dev->rt, fn);
    return err;
}

static Err cuda_span_module(Cx *cx, Module *mod, const Slot *slots, int64_t rows, int threads, int64_t *ns) {
    (void)threads;
    CudaDevice *c = (CudaDevice *)mod->dev;
    CuFunction fn;
    bool pushed;
    Err err = cuda_enter(cx, c, &pushed);
    if (err) return err;
    err = function_for(cx, c, (CudaModule *)mod, slots, &fn);
    Timed t = {c, (CudaModule *)mod, &slots, &fn, 1, rows};
    if (!err) err = cuda_span(cx, c, timed_start, &t, ns);
    cuda_leave(c, pushed);
    return err;
}

/* ---- memory ---- */

static Err cuda_get(Cx *cx, Device *d, size_t bytes, Mem **out) {
    CudaDevice *c = (CudaDevice *)d;
    bool pushed;
    CuPtr at = 0;
    Mem *m = rt_get(d->rt, sizeof *m);
    if (!m) return rt_oom(cx, "a buffer", sizeof *m);
    Err err = cuda_enter(cx, c, &pushed);
    if (!err) {
        err = cuda_said(cx, c, c->cu.mem_alloc(&at, bytes ? bytes : 1), S_RT_CUDA, "memory");
        if (!err) err = cuda_said(cx, c, c->cu.set_bytes(at, 0, bytes ? bytes : 1), S_RT_CUDA, "memory");
        if (err && at) c->cu.mem_free(at);
        cuda_leave(c, pushed);
    }
    if (err) {
        rt_put(d->rt, m);
        return err;
    }
    m->at = (void *)(uintptr_t)at;
    *out = m;
    return OK;
}

static void cuda_put(Mem *m) {
    CudaDevice *c = (CudaDevice *)m->dev;
    bool pushed;
    cuda_enter(NULL, c, &pushed); /* where it fails, the driver may still know whose this is */
    c->cu.mem_free((CuPtr)(uintptr_t)m->at);
    cuda_leave(c, pushed);
    rt_put(m->dev->rt, m);
}

static Err cuda_write(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes) {
    CudaDevice *c = (CudaDevice *)m->dev;
    bool pushed;
    Err err = cuda_enter(cx, c, &pushed);
    if (err) return err;
    err = cuda_said(cx, c, c->cu.copy_in((CuPtr)(uintptr_t)m->at + at, src, bytes), S_RT_CUDA, "copy to the device");
    cuda_leave(c, pushed);
    return err;
}

static Err cuda_read(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes) {
    CudaDevice *c = (CudaDevice *)m->dev;
    bool pushed;
    Err err = cuda_enter(cx, c, &pushed);
    if (err) return err;
    err = cuda_said(cx, c, c->cu.copy_out(dst, (CuPtr)(uintptr_t)m->at + at, bytes), S_RT_CUDA, "copy from the device");
    cuda_leave(c, pushed);
    return err;
}

const RtOps cuda_ops = {
    .name = "cuda",
    .open = cuda_open,
    .find = cuda_find,
    .close = cuda_close,
    .build = cuda_build,
    .unload = cuda_unload,
    .get = cuda_get,
    .put = cuda_put,
    .write = cuda_write,
    .read = cuda_read,
    .launch = cuda_launch,
    .launch_in = cuda_launch_in,
    .sync = cuda_sync,
    .time = cuda_time_module,
    .span = cuda_span_module,
    .clock = {"events around a graph of at least 200 launches (20 where one takes over 0.2 ms)",
              "events around one launch"},
    .ceiling = cuda_ceiling,
};
