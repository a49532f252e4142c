/* OpenCL devices: the loader is found at run time and looked into only when a device is asked for by name, since some
 * platforms take a tenth of a second to start. Memory has addresses of our own making, which launches turn into buffers
 * and offsets: OpenCL 1.2 has no pointers to device memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cldrv.h"

#include "../base/os.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16, PAGE = 4096 };
/* cl_device_info and its bits */
enum {
    DEVICE_TYPE = 0x1000,
    DEVICE_UNITS = 0x1002,
    DEVICE_MOST_GROUP = 0x1004,
    DEVICE_MOST_PARAMETERS = 0x1017,
    DEVICE_SINGLE_FP = 0x101B,
    DEVICE_CACHE_LINE = 0x101D,
    DEVICE_CACHE_BYTES = 0x101E,
    DEVICE_LOCAL_BYTES = 0x1023,
    DEVICE_NAME = 0x102B,
    DRIVER_VERSION = 0x102D,
    DEVICE_VERSION = 0x102F,
    DEVICE_EXTENSIONS = 0x1030,
    DEVICE_DOUBLE_FP = 0x1032,
    DEVICE_WARP_NV = 0x4003,
    DEVICE_SUBGROUP_SIZES_INTEL = 0x4108,
    PLATFORM_NAME = 0x0902
};
enum { TYPE_CPU = 2 };
static const ClBits type_all = 0xFFFFFFFF;
enum { FP_DENORM = 1, FP_INF_NAN = 2, FP_NEAREST = 4, FP_EXACT_DIVIDE = 128 };

/* ---- the loader ---- */

static const struct {
    int code;
    const char *name;
} code_names[] = {{-1, "CL_DEVICE_NOT_FOUND"},         {-2, "CL_DEVICE_NOT_AVAILABLE"},
                  {-3, "CL_COMPILER_NOT_AVAILABLE"},   {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
                  {-5, "CL_OUT_OF_RESOURCES"},         {-6, "CL_OUT_OF_HOST_MEMORY"},
                  {-11, "CL_BUILD_PROGRAM_FAILURE"},   {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
                  {-36, "CL_INVALID_COMMAND_QUEUE"},   {-42, "CL_INVALID_BINARY"},
                  {-46, "CL_INVALID_KERNEL_NAME"},     {-52, "CL_INVALID_KERNEL_ARGS"},
                  {-54, "CL_INVALID_WORK_GROUP_SIZE"}, {-61, "CL_INVALID_BUFFER_SIZE"},
                  {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};

static const char *code_name(int code) {
    for (int i = 0; i < COUNT(code_names); i++)
        if (code_names[i].code == code) return code_names[i].name;
    return "an OpenCL error";
}

Err cl_said(Cx *cx, const ClDevice *c, int code, Slug slug, const char *what) {
    if (!code) return OK;
    bool memory = code == CL_MEM_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
    if (!cx) return memory ? ERR_MEMORY : slug_err(slug);
    return diag(cx, memory ? S_OOM : slug, NOWHERE, NULL, "%s: %s: %s (%d)", c->d.name, what, code_name(code), code);
}

/* The functions of a loader; NULL on success, else what is wrong with it. It stays loaded: platforms leave threads. */
static const char *loader_open(Loader *cl) {
    const char *asked = getenv("ROWFOLD_LIBOPENCL");
    *cl = (Loader){.lib = dlopen(asked && asked[0] ? asked : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (!cl->lib) return "no libOpenCL.so.1: an OpenCL loader (package ocl-icd-libopencl1) is not installed";
    const char *missing = NULL;
#define F(symbol, field, result, params)                   \
    {                                                      \
        void *f = dlsym(cl->lib, #symbol);                 \
        memcpy(&cl->field, &f, sizeof f);                  \
        if (!f) missing = "libOpenCL.so.1 lacks " #symbol; \
    }
    OPENCL_FUNCTIONS(F)
#undef F
    return missing;
}

/* ---- devices ---- */

static bool ask(const ClDevice *c, unsigned which, int64_t *out) {
    union {
        uint32_t word;
        uint64_t wide;
    } x = {.wide = 0};
    size_t n = 0;
    *out = 0;
    if (c->cl.device_info(c->id, which, sizeof x, &x, &n)) return false;
    *out = n == 4 ? (int64_t)x.word : (int64_t)x.wide;
    return true;
}

static int64_t fact(ClDevice *c, unsigned which) { /* every device must tell it */
    int64_t x;
    c->untold |= !ask(c, which, &x);
    return x;
}

static int64_t fact_if(const ClDevice *c, unsigned which) { /* 0 where the device does not tell */
    int64_t x;
    ask(c, which, &x);
    return x;
}

static void text_fact(ClDevice *c, unsigned which, char *out, size_t cap) {
    size_t n = 0;
    out[0] = 0;
    if (c->cl.device_info(c->id, which, 0, NULL, &n) || !n || n > cap || c->cl.device_info(c->id, which, n, out, NULL))
        out[0] = 0, c->untold = true;
    out[cap - 1] = 0;
}

static bool has_word(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *s = words; (s = strstr(s, word)); s += n)
        if ((s == words || s[-1] == ' ') && (!s[n] || s[n] == ' ')) return true;
    return false;
}

/* Lanes that exchange values without local memory. The size must be known when a kernel is planned: NVIDIA's is one,
 * and Intel's can be asked for. */
static int subgroup_of(const ClDevice *c, const char *extensions) {
    if (c->is_cpu) return 1;
    if (has_word(extensions, "cl_nv_device_attribute_query")) return fact_if(c, DEVICE_WARP_NV) == 32 ? 32 : 1;
    if (has_word(extensions, "cl_intel_required_subgroup_size") &&
        (has_word(extensions, "cl_khr_subgroup_shuffle") || has_word(extensions, "cl_intel_subgroups"))) {
        size_t size[16] = {0}, n = 0;
        if (c->cl.device_info(c->id, DEVICE_SUBGROUP_SIZES_INTEL, sizeof size, size, &n)) return 1;
        for (size_t i = 0; i < n / sizeof *size; i++)
            if (size[i] == 16 || size[i] == 32) return (int)size[i];
    }
    return 1;
}

/* Bits equal those of other devices only where arithmetic is IEEE's; divisions may go through f64. */
static void judge(ClDevice *c, bool has_f64) {
    int64_t fp = fact(c, DEVICE_SINGLE_FP), need = FP_DENORM | FP_INF_NAN | FP_NEAREST;
    bool exact = (fp & FP_EXACT_DIVIDE) != 0;
    const char *more = getenv("ROWFOLD_OPENCL_OPTIONS"); /* such as -cl-opt-disable */
    snprintf(c->options, sizeof c->options, "-cl-std=CL1.2 -w %s%s%s",
             exact ? "-cl-fp32-correctly-rounded-divide-sqrt" : "-DROWFOLD_DIV_F64", more && *more ? " " : "",
             more ? more : "");
    if ((fp & need) != need)
        snprintf(c->lacks, sizeof c->lacks, "it has no %s in f32",
                 !(fp & FP_DENORM)    ? "subnormal numbers"
                 : !(fp & FP_INF_NAN) ? "infinities and NaN"
                                      : "rounding to nearest");
    else if (!exact && !has_f64)
        snprintf(c->lacks, sizeof c->lacks, "neither does it divide correctly in f32 nor has it f64");
}

static void describe(ClDevice *c, int ordinal, char *extensions, size_t cap) {
    Caps *caps = &c->d.caps;
    char model[128], driver[64], version[128], platform[96] = "?";
    text_fact(c, DEVICE_NAME, model, sizeof model);
    text_fact(c, DRIVER_VERSION, driver, sizeof driver);
    text_fact(c, DEVICE_VERSION, version, sizeof version);
    text_fact(c, DEVICE_EXTENSIONS, extensions, cap);
    c->untold |= c->cl.platform_info(c->platform, PLATFORM_NAME, sizeof platform, platform, NULL) != 0;
    platform[sizeof platform - 1] = 0;
    c->is_cpu = (fact(c, DEVICE_TYPE) & TYPE_CPU) != 0;
    caps_preset(c->is_cpu ? "pocl" : "opencl", caps);
    snprintf(c->d.name, sizeof c->d.name, "opencl:%d", ordinal);
    snprintf(caps->name, sizeof caps->name, "opencl:%d", ordinal);
    int64_t group = fact(c, DEVICE_MOST_GROUP);
    /* NVIDIA's compiler (driver 580) makes kernels for 256 lanes whatever they require: CL_KERNEL_WORK_GROUP_SIZE */
    const int most = has_word(extensions, "cl_nv_device_attribute_query") ? 256 : 1024;
    caps->max_lanes = caps->max_group = group < 1 ? 1 : group < most ? (int)group : most;
    caps->subgroup = subgroup_of(c, extensions);
    caps->units = (int)i64_max(1, fact(c, DEVICE_UNITS));
    caps->shared_bytes = fact(c, DEVICE_LOCAL_BYTES);
    caps->has_f64 = fact_if(c, DEVICE_DOUBLE_FP) != 0 || has_word(extensions, "cl_khr_fp64");
    caps->cache_line = fact_if(c, DEVICE_CACHE_LINE);
    *(c->is_cpu ? &caps->l3_bytes : &caps->l2_bytes) = fact_if(c, DEVICE_CACHE_BYTES);
    c->argument_bytes = fact(c, DEVICE_MOST_PARAMETERS);
    judge(c, caps->has_f64);
    snprintf(c->d.identity, sizeof c->d.identity, "%s; %s; %s; driver %s; %d units; %s%s%s", model, platform, version,
             driver, caps->units, c->options, c->lacks[0] ? "; not usable: " : "", c->lacks);
}

static void opencl_close(Device *d) {
    ClDevice *c = (ClDevice *)d;
    if (c->timed) c->cl.queue_free(c->timed);
    if (c->queue) c->cl.queue_free(c->queue);
    if (c->ctx) c->cl.context_free(c->ctx);
    pthread_mutex_destroy(&c->lock);
    rt_put(d->rt, c->span);
    rt_put(d->rt, c);
}

typedef struct Present {
    ClPlatform platform[MOST_DEVICES];
    ClDeviceId id[MOST_DEVICES];
    int n;
} Present;

/* Devices of all platforms, in the loader's order; NULL, or why there is none. */
static const char *look(const Loader *cl, Present *out) {
    ClPlatform platform[MOST_DEVICES];
    unsigned n = 0;
    *out = (Present){.n = 0};
    int err = cl->platforms(MOST_DEVICES, platform, &n);
    if (err && err != CL_PLATFORM_NOT_FOUND) return "the OpenCL loader does not start";
    if (err || !n) return "the OpenCL loader finds no platform (its list is the files of /etc/OpenCL/vendors)";
    for (unsigned i = 0; i < n && i < MOST_DEVICES; i++) {
        ClDeviceId id[MOST_DEVICES];
        unsigned count = 0;
        if (cl->devices(platform[i], type_all, MOST_DEVICES, id, &count)) continue;
        for (unsigned k = 0; k < count && k < MOST_DEVICES && out->n < MOST_DEVICES; k++)
            out->platform[out->n] = platform[i], out->id[out->n++] = id[k];
    }
    return out->n ? NULL : "no OpenCL platform has a device";
}

/* One that does not say what it is is left out: nothing is planned for who knows what. */
static Err add(Cx *cx, Rt *rt, const Loader *cl, const Present *here, int i, bool *untold) {
    enum { EXTENSIONS = 32768 };
    ClDevice *c = rt_get(rt, sizeof *c);
    char *extensions = rt_get(rt, EXTENSIONS);
    Err err = c && extensions ? OK : rt_oom(cx, "an OpenCL device", sizeof *c + EXTENSIONS);
    if (!err) {
        c->cl = *cl;
        c->d.ops = &opencl_ops;
        c->d.rt = rt;
        c->platform = here->platform[i];
        c->id = here->id[i];
        c->next = (uintptr_t)1 << 44; /* far from what pointers of this process are by default */
        pthread_mutex_init(&c->lock, NULL);
        describe(c, i, extensions, EXTENSIONS);
        if (!c->untold) err = rt_add(cx, rt, &c->d);
        if (err || c->untold) pthread_mutex_destroy(&c->lock);
    }
    const bool left_out = !err && c->untold;
    *untold |= left_out;
    rt_put(rt, extensions);
    if (err || left_out) rt_put(rt, c);
    return err;
}

/* All devices are added when the first is asked for. */
static Err opencl_find(Cx *cx, Rt *rt, const char *name, Device **out) {
    Loader cl;
    Present here = {.n = 0};
    if ((!str_eq(name, "opencl") && !str_starts(name, "opencl:")) || rt_has(rt, &opencl_ops)) return OK;
    const char *wrong = loader_open(&cl);
    if (!wrong) wrong = look(&cl, &here);
    if (wrong)
        return diag(cx, S_RT_NO_OPENCL, NOWHERE, "`rowfold devices` lists what is here", "no device `%s`: %s", name,
                    wrong);
    Err err = OK;
    bool untold = false;
    for (int i = 0; i < here.n && !err; i++) err = add(cx, rt, &cl, &here, i, &untold);
    if (!err) rt_find_added(rt, name, out);
    if (!err && !*out && untold)
        return diag(cx, S_RT_OPENCL, NOWHERE, NULL, "%s: its driver does not tell what it is", name);
    return err;
}

static Err settle(Cx *cx, ClDevice *c) {
    enum { CONTEXT_PLATFORM = 0x1084, PROFILING = 2 };
    const intptr_t properties[] = {CONTEXT_PLATFORM, (intptr_t)c->platform, 0};
    int err = 0;
    ClContext ctx = c->cl.context_new(properties, 1, &c->id, NULL, NULL, &err);
    if (!err) c->queue = c->cl.queue_new(ctx, c->id, 0, &err);
    if (!err) c->timed = c->cl.queue_new(ctx, c->id, PROFILING, &err);
    if (!err) return c->ctx = ctx, OK;
    if (c->queue) c->cl.queue_free(c->queue);
    if (ctx) c->cl.context_free(ctx);
    c->queue = NULL;
    return cl_said(cx, c, err, S_RT_OPENCL, "no context");
}

Err cl_enter(Cx *cx, ClDevice *c) {
    pthread_mutex_lock(&c->lock);
    Err err = c->ctx ? OK : settle(cx, c);
    pthread_mutex_unlock(&c->lock);
    return err;
}

/* ---- memory ---- */

ClMem cl_find(ClDevice *c, const void *at, size_t *offset) {
    uintptr_t x = (uintptr_t)at;
    ClMem found = NULL;
    pthread_mutex_lock(&c->lock);
    int lo = 0, hi = c->nspans; /* the last span that begins at or before it */
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (c->span[mid].from <= x)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo && x < c->span[lo - 1].to) {
        found = c->span[lo - 1].mem;
        *offset = x - c->span[lo - 1].from;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

static bool span_add(ClDevice *c, ClMem mem, size_t bytes, uintptr_t *at) {
    pthread_mutex_lock(&c->lock);
    bool ok = c->nspans < c->cap;
    if (!ok) {
        int cap = c->cap ? 2 * c->cap : 64;
        Span *more = rt_get(c->d.rt, (size_t)cap * sizeof *more);
        if (more) {
            if (c->nspans) memcpy(more, c->span, (size_t)c->nspans * sizeof *more);
            rt_put(c->d.rt, c->span);
            c->span = more, c->cap = cap, ok = true;
        }
    }
    if (ok) {
        *at = c->next;
        c->span[c->nspans++] = (Span){c->next, c->next + bytes, mem};
        c->next += (bytes + 2 * PAGE - 1) / PAGE * PAGE; /* never the same address again, and a gap between any two */
    }
    pthread_mutex_unlock(&c->lock);
    return ok;
}

static Err opencl_get(Cx *cx, Device *d, size_t bytes, Mem **out) {
    enum { READ_WRITE = 1 };
    ClDevice *c = (ClDevice *)d;
    static const uint64_t zeros[2] = {0, 0};
    size_t whole = bytes ? (bytes + 15) / 16 * 16 : 16;
    int err = 0;
    uintptr_t at = 0;
    Err e = cl_enter(cx, c);
    if (e) return e;
    Mem *m = rt_get(d->rt, sizeof *m);
    if (!m) return rt_oom(cx, "a buffer", sizeof *m);
    ClMem mem = c->cl.buffer_new(c->ctx, READ_WRITE, whole, NULL, &err);
    if (!err) err = c->cl.buffer_fill(c->queue, mem, zeros, sizeof zeros, 0, whole, 0, NULL, NULL);
    if (!err) err = c->cl.finish(c->queue);
    if (!err && !span_add(c, mem, whole, &at)) err = CL_OUT_OF_HOST_MEMORY;
    if (err) {
        if (mem) c->cl.buffer_free(mem);
        rt_put(d->rt, m);
        return cl_said(cx, c, err, S_RT_OPENCL, "memory");
    }
    m->at = (void *)at;
    *out = m;
    return OK;
}

static void opencl_put(Mem *m) {
    ClDevice *c = (ClDevice *)m->dev;
    ClMem mem = NULL;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->nspans && !mem; i++) {
        if (c->span[i].from != (uintptr_t)m->at) continue;
        mem = c->span[i].mem;
        memmove(&c->span[i], &c->span[i + 1], (size_t)(--c->nspans - i) * sizeof *c->span);
    }
    pthread_mutex_unlock(&c->lock);
    if (mem) c->cl.buffer_free(mem);
    rt_put(m->dev->rt, m);
}

static Err opencl_write(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes) {
    ClDevice *c = (ClDevice *)m->dev;
    size_t unused;
    int err = c->cl.buffer_write(c->queue, cl_find(c, m->at, &unused), 1, at, bytes, src, 0, NULL, NULL);
    return cl_said(cx, c, err, S_RT_OPENCL, "copy to the device");
}

static Err opencl_read(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes) {
    ClDevice *c = (ClDevice *)m->dev;
    size_t unused;
    int err = c->cl.buffer_read(c->queue, cl_find(c, m->at, &unused), 1, at, bytes, dst, 0, NULL, NULL);
    return cl_said(cx, c, err, S_RT_OPENCL, "copy from the device");
}

static Err opencl_sync(Cx *cx, Device *d) {
    ClDevice *c = (ClDevice *)d;
    return c->ctx ? cl_said(cx, c, c->cl.finish(c->queue), S_RT_OPENCL, "a kernel failed") : OK;
}

const RtOps opencl_ops = {
    .name = "opencl",
    .hidden = true,
    .find = opencl_find,
    .close = opencl_close,
    .build = cl_build,
    .unload = cl_unload,
    .get = opencl_get,
    .put = opencl_put,
    .write = opencl_write,
    .read = opencl_read,
    .launch = cl_launch,
    .sync = opencl_sync,
    .time = cl_time_module,
    .span = cl_span_module,
    .clock = {"from the begin of the first launch to the end of the last, by the device's clock",
              "of one launch, by the device's clock"},
    .ceiling = cl_ceiling,
};
