/* Units of OpenCL C -> kernels of a device, by way of the cache, and their launches. */
#include "cldrv.h"

#include "../base/os.h"

#include <stdio.h>
#include <string.h>

enum { PROGRAM_BINARY_SIZES = 0x1165, PROGRAM_BINARIES = 0x1166, BUILD_LOG = 0x1183 };
enum { KERNEL_GROUP = 0x11B0, KERNEL_LOCAL = 0x11B2, KERNEL_PRIVATE = 0x11B4 };
enum { MAX_BINARY = 64 << 20, MAX_LOG = 1 << 20, MOST_GROUPS = 0x7fffffff };
enum { MOST_SLOTS = MAX_PARAMS * (MAX_RANK + 2) + MAX_AXES };
enum { ARG_SLOTS, ARG_FIRST, ARG_ROWS, ARG_MEMORY };

typedef struct Built {
    ClProgram program;
    ClKernel kernel;
} Built;

typedef struct ClModule {
    Module m;
    Built fit, loose;     /* loose takes memory that is not aligned to packs; built when first needed */
    pthread_mutex_t lock; /* a kernel's arguments are set and it is started by one thread at a time */
    PackCheck check;
    size_t threads;
    Unit unit; /* with text and entry of its own */
} ClModule;

/* ---- building ---- */

/* The first lines of the compiler's own words. */
static void excerpt(ClDevice *c, ClProgram p, char *out, size_t cap) {
    size_t n = 0;
    out[0] = 0;
    if (c->cl.build_info(p, c->id, BUILD_LOG, 0, NULL, &n) || n < 2 || n > MAX_LOG) return;
    char *log = rt_get(c->d.rt, n + 1);
    if (log && c->cl.build_info(p, c->id, BUILD_LOG, n, log, NULL) == 0) snprintf(out, cap, "%s", log);
    for (char *s = out; *s; s++)
        if ((unsigned char)*s < 0x20 && *s != '\n') *s = ' ';
    rt_put(c->d.rt, log);
}

static void keep(ClDevice *c, ClProgram p, Hash key, Facts *f) {
    size_t n = 0;
    if (c->cl.program_info(p, PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) || !n || n > MAX_BINARY) return;
    unsigned char *binary = rt_get(c->d.rt, n);
    if (binary && c->cl.program_info(p, PROGRAM_BINARIES, sizeof binary, &binary, NULL) == 0) {
        f->code_bytes = (int)n;
        cache_store(rt_cache(c->d.rt), key, binary, n);
    }
    rt_put(c->d.rt, binary);
}

/* From the cache; whatever goes wrong makes it a miss. */
static ClProgram cached_program(ClDevice *c, Hash key, const char *options, Facts *f) {
    char *file;
    const char *payload;
    size_t n;
    int err, status = 0;
    if (!cache_find(rt_cache(c->d.rt), key, &file, &payload, &n)) return NULL;
    int64_t from = os_now_ns();
    const unsigned char *binary = (const unsigned char *)payload;
    ClProgram p = c->cl.program_binary(c->ctx, 1, &c->id, &n, &binary, &status, &err);
    if (!err) err = status;
    if (!err) err = c->cl.program_build(p, 1, &c->id, options, NULL, NULL);
    rt_put(c->d.rt, file);
    f->load_ns = os_now_ns() - from;
    f->code_bytes = (int)n;
    f->from_cache = !err;
    if (!err) return p;
    if (p) c->cl.program_free(p);
    return NULL;
}

ClProgram cl_program(ClDevice *c, const char *text, size_t bytes, const char *extra, bool cached, Facts *f,
                     Fail *fail) {
    char options[200], said[1200];
    snprintf(options, sizeof options, "%s%s", c->options, extra);
    const void *parts[] = {text, options, c->d.identity};
    const size_t sizes[] = {bytes, strlen(options), strlen(c->d.identity)};
    Hash key = cache_key(parts, sizes, COUNT(parts));
    ClProgram p = cached ? cached_program(c, key, options, f) : NULL;
    if (p) return p;
    int err = 0;
    int64_t from = os_now_ns();
    p = c->cl.program_source(c->ctx, 1, &text, &bytes, &err);
    if (!err) err = c->cl.program_build(p, 1, &c->id, options, NULL, NULL);
    f->compile_ns = os_now_ns() - from;
    if (!err) {
        keep(c, p, key, f);
        return p;
    }
    said[0] = 0;
    if (p) excerpt(c, p, said, sizeof said);
    if (p) c->cl.program_free(p);
    fail->slug = err == CL_OUT_OF_HOST_MEMORY ? S_OOM : S_BUILD_FAILED;
    snprintf(fail->text, sizeof fail->text, "the compiler of %s (%d):\n%s", c->d.name, err, said);
    return NULL;
}

static bool load(ClDevice *c, const Unit *u, bool loose, Built *b, Facts *f, Fail *fail) {
    for (int cached = u->fresh ? 0 : 1; cached >= 0; cached--) {
        b->program = cl_program(c, u->text, u->bytes, loose ? " -DROWFOLD_LOOSE" : "", cached != 0, f, fail);
        if (!b->program) return false;
        int err = 0;
        b->kernel = c->cl.kernel_new(b->program, u->entry, &err);
        if (!err) return true;
        c->cl.program_free(b->program);
        *b = (Built){NULL, NULL};
        fail->slug = S_BUILD_LOAD;
        snprintf(fail->text, sizeof fail->text, "%s has no kernel `%s` after building it (%d)", c->d.name, u->entry,
                 err);
        if (!f->from_cache) break; /* a stale entry is answered by a fresh build */
    }
    return false;
}

static int64_t kernel_fact(ClDevice *c, ClKernel k, unsigned which) { /* -1 where the device does not tell */
    uint64_t x = 0;                                                   /* size_t or cl_ulong */
    return c->cl.kernel_info(k, c->id, which, sizeof x, &x, NULL) ? -1 : (int64_t)x;
}

/* What the compiler made: too large for its group, or with values in memory that the plan keeps in registers. A CPU's
 * private memory is its stack, whatever the compiler keeps there. */
static bool fits(ClDevice *c, const ClModule *m, Fail *fail) {
    const Facts *f = &m->m.facts;
    int64_t most = kernel_fact(c, m->fit.kernel, KERNEL_GROUP);
    if (most > 0 && (size_t)most < m->threads) {
        fail->slug = S_BUILD_SPILLS;
        snprintf(fail->text, sizeof fail->text, "`%s` has groups of %zu lane%s, and its registers allow %lld",
                 m->unit.entry, m->threads, plural((int64_t)m->threads), (long long)most);
        return false;
    }
    if (c->is_cpu || f->local_bytes <= m->unit.private_bytes) return true;
    fail->slug = S_BUILD_SPILLS;
    snprintf(fail->text, sizeof fail->text, "`%s` has %d byte%s of private memory, %lld of them meant", m->unit.entry,
             f->local_bytes, plural(f->local_bytes), (long long)m->unit.private_bytes);
    return false;
}

static void built_free(ClDevice *c, const Built *b) {
    if (b->kernel) c->cl.kernel_free(b->kernel);
    if (b->program) c->cl.program_free(b->program);
}

static void module_put(ClDevice *c, ClModule *m) {
    built_free(c, &m->fit);
    built_free(c, &m->loose);
    pthread_mutex_destroy(&m->lock);
    unit_drop(c->d.rt, &m->unit);
    rt_put(c->d.rt, m);
}

Err cl_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    ClDevice *c = (ClDevice *)d;
    if (u->dialect != DIALECT_OPENCL)
        return diag(cx, S_ARG, NOWHERE, "the OpenCL dialect", "the unit is in a dialect for other devices");
    if (c->lacks[0]) return diag(cx, S_RT_INEXACT, NOWHERE, NULL, "%s: %s", d->name, c->lacks);
    int64_t bytes = 8ll * (u->abi.nslots + 2 + u->abi.row0 - u->abi.ptr0); /* slots, rows, memory */
    if (c->argument_bytes && bytes > c->argument_bytes)
        return diag(cx, S_EMIT_BUFFERS, NOWHERE, NULL, "`%s` has %lld bytes of arguments, %s takes %lld", u->entry,
                    (long long)bytes, d->name, (long long)c->argument_bytes);
    Err err = cl_enter(cx, c);
    if (err) return err;
    ClModule *m = rt_get(d->rt, sizeof *m);
    if (!m) return rt_oom(cx, "a module", sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    m->threads = (size_t)(u->lanes * u->rows_per_group);
    m->m.facts = facts_unknown();
    Fail fail = {.slug = S_OOM, .text = "no memory for a unit's text"};
    bool ok = unit_keep(d->rt, u, &m->unit);
    if (ok) {
        packs_check(u, &m->check);
        ok = load(c, u, false, &m->fit, &m->m.facts, &fail);
    }
    if (ok) {
        m->m.facts.local_bytes = (int)kernel_fact(c, m->fit.kernel, KERNEL_PRIVATE);
        m->m.facts.shared_bytes = (int)kernel_fact(c, m->fit.kernel, KERNEL_LOCAL);
        ok = fits(c, m, &fail);
    }
    if (ok) {
        *out = &m->m;
        return OK;
    }
    module_put(c, m);
    return diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text);
}

void cl_unload(Module *m) {
    module_put((ClDevice *)m->dev, (ClModule *)m);
}

/* ---- launching ---- */

/* Slots as the kernel takes them: pointers become byte offsets, with the buffers beside them. */
typedef struct Args {
    int64_t slot[MOST_SLOTS];
    ClMem mem[MAX_PARAMS];
} Args;

static Err args_make(Cx *cx, ClDevice *c, const ClModule *m, const Slot *slots, Args *out) {
    const Abi *abi = &m->unit.abi;
    for (int i = 0; i < abi->nslots; i++) out->slot[i] = slots[i].i;
    for (int i = abi->ptr0; i < abi->row0; i++) {
        size_t offset = 0;
        out->mem[i] = slots[i].p ? cl_find(c, slots[i].p, &offset) : NULL; /* NULL: of a tensor without elements */
        out->slot[i] = (int64_t)offset;
        if (slots[i].p && !out->mem[i])
            return cx ? diag(cx, S_RT_NOT_MEMORY, NOWHERE, NULL, "%s: tensor %d lies elsewhere", c->d.name, i + 1)
                      : slug_err(S_RT_NOT_MEMORY);
    }
    return OK;
}

/* With the module locked. `event`, where asked for, is that of the last part. */
static int start(ClDevice *c, const ClModule *m, ClKernel k, ClQueue q, const Args *a, int64_t rows, ClEvent *event) {
    const Abi *abi = &m->unit.abi;
    int64_t P = m->unit.rows_per_group, most = MOST_GROUPS / (int64_t)m->threads * P;
    const int64_t held = (int64_t)m->unit.resident * i64_max(c->d.caps.units, 1); /* groups that take all rows */
    if (held) most = i64_max(rows, 1);
    size_t slots = (size_t)(abi->nslots ? abi->nslots : 1) * sizeof *a->slot;
    int err = c->cl.kernel_arg(k, ARG_SLOTS, slots, a->slot);
    if (!err) err = c->cl.kernel_arg(k, ARG_ROWS, sizeof rows, &rows);
    for (int i = abi->ptr0; i < abi->row0 && !err; i++)
        err = c->cl.kernel_arg(k, (unsigned)(ARG_MEMORY + i - abi->ptr0), sizeof a->mem[i], &a->mem[i]);
    for (int64_t first = 0; first < rows && !err; first += most) {
        int64_t groups = ceil_div(i64_min(rows - first, most), P);
        size_t all = (size_t)(held ? i64_min(groups, held) : groups) * m->threads;
        bool last = first + most >= rows;
        err = c->cl.kernel_arg(k, ARG_FIRST, sizeof first, &first);
        if (!err) err = c->cl.launch(q, k, 1, NULL, &all, &m->threads, 0, NULL, last ? event : NULL);
    }
    return err;
}

/* The kernel for the memory that these slots name; with the module locked. */
static Err kernel_for(Cx *cx, ClDevice *c, ClModule *m, const Slot *slots, ClKernel *out) {
    *out = m->fit.kernel;
    if (packs_fit(&m->check, slots)) return OK;
    Fail fail = {.slug = S_INTERNAL};
    Facts unused = {0};
    bool ok = m->loose.kernel || load(c, &m->unit, true, &m->loose, &unused, &fail);
    *out = m->loose.kernel;
    if (ok) return OK;
    return cx ? diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text) : slug_err(fail.slug);
}

Err cl_launch(Cx *cx, Module *mod, const Slot *slots, int64_t rows, int threads) {
    (void)threads;
    ClDevice *c = (ClDevice *)mod->dev;
    ClModule *m = (ClModule *)mod;
    ClKernel k;
    Args a;
    Err err = args_make(cx, c, m, slots, &a);
    if (err) return err;
    pthread_mutex_lock(&m->lock);
    err = kernel_for(cx, c, m, slots, &k);
    if (!err) err = cl_said(cx, c, start(c, m, k, c->queue, &a, rows, NULL), S_RT_OPENCL, "launch");
    pthread_mutex_unlock(&m->lock);
    if (!err) err = cl_said(cx, c, c->cl.flush(c->queue), S_RT_OPENCL, "launch");
    return err;
}

typedef struct Timed {
    ClDevice *c;
    ClModule *m;
    const ClKernel *kernel; /* of each set, as args */
    const Args *args;
    int nsets;
    int64_t rows;
} Timed;

static int timed_start(void *user, int i, ClEvent *event) {
    const Timed *t = user;
    return start(t->c, t->m, t->kernel[i % t->nsets], t->c->timed, &t->args[i % t->nsets], t->rows, event);
}

static Err time_sets(Cx *cx, Module *mod, const Slot *const *sets, int nsets, int64_t rows, int calls, bool warm_up,
                     int64_t *ns) {
    ClDevice *c = (ClDevice *)mod->dev;
    ClModule *m = (ClModule *)mod;
    size_t n = (size_t)nsets;
    ClKernel *kernel = rt_get(c->d.rt, n * sizeof *kernel);
    Args *args = rt_get(c->d.rt, n * sizeof *args);
    Err err = kernel && args ? OK : rt_oom(cx, "the sets of a timing", n * (sizeof *kernel + sizeof *args));
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < n && !err; i++) {
        err = args_make(cx, c, m, sets[i], &args[i]);
        if (!err) err = kernel_for(cx, c, m, sets[i], &kernel[i]);
    }
    Timed t = {c, m, kernel, args, nsets, rows};
    if (!err) err = cl_time(cx, c, timed_start, &t, calls, warm_up, ns);
    pthread_mutex_unlock(&m->lock);
    rt_put(c->d.rt, kernel);
    rt_put(c->d.rt, args);
    return err;
}

Err cl_time_module(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                   int64_t *ns) {
    (void)threads;
    return time_sets(cx, m, sets, nsets, rows, calls, true, ns);
}

Err cl_span_module(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads, int64_t *ns) {
    (void)threads;
    return time_sets(cx, m, &slots, 1, rows, 1, false, ns);
}
