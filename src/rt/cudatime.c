/* GPU time without hooks around single kernels: events around launches of a graph. And the device's speed of light: the
 * fastest of several copies, reads or writes, timed in the same way. */
#include "cudadrv.h"

#include <stdio.h>
#include <string.h>

enum { THREAD_LOCAL_CAPTURE = 1, CHAIN = 200, SHORT_CHAIN = 20, PROBES = 3 };
static const double long_launch_ms = 0.2;

typedef struct Clock {
    CudaDevice *c;
    CuStream s;
    CuEvent from, to;
    CudaChain *chain;
    CudaStart *start;
    void *user;
    int sets;
} Clock;

static int between(Clock *k, int n, bool graph, float *ms) {
    const Driver *cu = &k->c->cu;
    int err = cu->event_record(k->from, k->s);
    for (int i = 0; i < n && !err; i++)
        err = graph ? cu->graph_launch(k->chain->exec, k->s) : k->start(k->user, i, k->s);
    if (!err) err = cu->event_record(k->to, k->s);
    if (!err) err = cu->event_sync(k->to);
    if (!err) err = cu->event_ms(ms, k->from, k->to);
    return err;
}

void cuda_chain_free(const CudaDevice *c, CudaChain *k) {
    if (k->exec) c->cu.graph_exec_free(k->exec);
    if (k->graph) c->cu.graph_free(k->graph);
    *k = (CudaChain){0};
}

static int record(Clock *k, int n) {
    const Driver *cu = &k->c->cu;
    int err = cu->capture_begin(k->s, THREAD_LOCAL_CAPTURE), end;
    if (err) return err;
    for (int i = 0; i < n && !err; i++) err = k->start(k->user, i, k->s);
    end = cu->capture_end(k->s, &k->chain->graph);
    if (!err) err = end;
    if (!err) err = cu->graph_build(&k->chain->exec, k->chain->graph, 0);
    k->chain->n = n;
    return err;
}

/* The graph that is there already, or one of what is to be started now. */
static int chain(Clock *k, Hash of) {
    float ms = 0;
    if (k->chain->exec && memcmp(&k->chain->of, &of, sizeof of) == 0) return 0;
    cuda_chain_free(k->c, k->chain);
    int err = k->start(k->user, 0, k->s); /* loads the code */
    if (!err) err = between(k, PROBES, false, &ms);
    const int n = (double)ms / PROBES > long_launch_ms ? SHORT_CHAIN : CHAIN;
    /* whole turns: else a short one would find its memory in the cache */
    if (!err) err = record(k, (int)ceil_div(n, k->sets) * k->sets);
    if (!err) k->chain->of = of;
    return err;
}

static int run(Clock *k, int calls, Hash of, double *ns) {
    const Driver *cu = &k->c->cu;
    float ms = 0;
    int err = cu->event_new(&k->from, 0);
    if (!err) err = cu->event_new(&k->to, 0);
    if (!err) err = chain(k, of);
    if (!err) err = cu->graph_launch(k->chain->exec, k->s); /* fills the caches */
    const int n = k->chain->n, reps = calls < n || !n ? 1 : (int)ceil_div(calls, n);
    if (!err) err = between(k, reps, true, &ms);
    if (!err) *ns = (double)ms * 1e6 / ((double)n * reps) * calls;
    return err;
}

Err cuda_time(Cx *cx, CudaDevice *c, CudaStart *start, void *user, int sets, int calls, Hash of, CudaChain *kept,
              int64_t *ns) {
    const Driver *cu = &c->cu;
    double t = 0;
    int err = c->stream ? 0 : cu->stream_new(&c->stream, 1);
    Clock k = {.c = c, .s = c->stream, .chain = kept, .start = start, .user = user, .sets = sets};
    if (!err) err = cu->ctx_sync(); /* what came before in other streams */
    if (!err) err = run(&k, calls, of, &t);
    if (err) cuda_chain_free(c, kept);
    if (k.from) cu->event_free(k.from);
    if (k.to) cu->event_free(k.to);
    *ns = (int64_t)(t + 0.5);
    return cuda_said(cx, c, err, S_RT_CUDA, "timing");
}

Err cuda_span(Cx *cx, CudaDevice *c, CudaStart *start, void *user, int64_t *ns) {
    const Driver *cu = &c->cu;
    float ms = 0;
    int err = c->stream ? 0 : cu->stream_new(&c->stream, 1);
    Clock k = {.c = c, .s = c->stream, .start = start, .user = user, .sets = 1};
    if (!err) err = cu->ctx_sync();
    if (!err) err = cu->event_new(&k.from, 0);
    if (!err) err = cu->event_new(&k.to, 0);
    if (!err) err = between(&k, 1, false, &ms);
    if (k.from) cu->event_free(k.from);
    if (k.to) cu->event_free(k.to);
    *ns = (int64_t)((double)ms * 1e6 + 0.5);
    return cuda_said(cx, c, err, S_RT_CUDA, "timing");
}

/* ---- copies, reads, writes ---- */

/* One access of 16 bytes a thread, in the order in which the chip hands out blocks, is best where memory is the limit;
 * several in flight where few threads there are. */
static const char copy_text[] =
    "typedef unsigned long long u64; typedef unsigned int u32;\n"
    "struct v4 { u32 x, y, z, w; };\n"
    "#define LOAD(v, p, how) asm volatile(\"ld.global\" how \".v4.u32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(v.x), "
    "\"=r\"(v.y), \"=r\"(v.z), \"=r\"(v.w) : \"l\"(p))\n"
    "#define STORE(p, v, how) asm volatile(\"st.global\" how \".v4.u32 [%0], {%1, %2, %3, %4};\" : : \"l\"(p), "
    "\"r\"(v.x), \"r\"(v.y), \"r\"(v.z), \"r\"(v.w))\n"
    "#define COPY(name, each, load, store) \\\n"
    "extern \"C\" __global__ void __launch_bounds__(512) name(const char *from, char *to, u64 n) { \\\n"
    "    const u64 i = ((u64)blockIdx.x * each * 512 + threadIdx.x) * 16, step = 512 * 16; \\\n"
    "    v4 v[each]; \\\n"
    "    _Pragma(\"unroll\") for (int k = 0; k < each; k++) if (i + k * step < n) LOAD(v[k], from + i + k * step, "
    "load); \\\n"
    "    _Pragma(\"unroll\") for (int k = 0; k < each; k++) if (i + k * step < n) STORE(to + i + k * step, v[k], "
    "store); \\\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(512) read_4(const char *from, char *to, u64 n) { \n"
    "    const u64 i = ((u64)blockIdx.x * 4 * 512 + threadIdx.x) * 16, step = 512 * 16; \n"
    "    v4 v[4]; u32 all = 0; \n"
    "    _Pragma(\"unroll\") for (int k = 0; k < 4; k++) if (i + k * step < n) { LOAD(v[k], from + i + k * step, "
    "\".nc.L1::no_allocate\"); all |= v[k].x & v[k].y & v[k].z & v[k].w; } \n"
    "    if (all == 0xdeadbeefu) *(u32 *)to = all; \n" /* what was read must be needed */
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(512) write_1(const char *from, char *to, u64 n) { \n"
    "    const u64 i = ((u64)blockIdx.x * 512 + threadIdx.x) * 16; \n"
    "    const v4 v = {(u32)n, 1, 2, 3}; \n"
    "    if (i < n) STORE(to + i, v, \"\"); \n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(512) write_4(const char *from, char *to, u64 n) { \n"
    "    const u64 i = ((u64)blockIdx.x * 4 * 512 + threadIdx.x) * 16, step = 512 * 16; \n"
    "    const v4 v = {(u32)n, 1, 2, 3}; \n"
    "    _Pragma(\"unroll\") for (int k = 0; k < 4; k++) if (i + k * step < n) STORE(to + i + k * step, v, \".cs\"); \n"
    "}\n"
    "COPY(copy_1, 1, \"\", \"\")\nCOPY(copy_1_stream, 1, \".nc.L1::no_allocate\", \".cs\")\nCOPY(copy_2, 2, \"\", "
    "\"\")\n"
    "COPY(copy_4, 4, \".nc.L1::no_allocate\", \".cs\")\n";

static const struct {
    CeilingKind kind;
    const char *entry; /* NULL: the driver's own */
    const char *how;
    unsigned each;
} ways[] = {{CEILING_COPY, NULL, "cuMemcpyDtoDAsync", 0},
            {CEILING_COPY, "copy_1", "16 bytes a thread", 1},
            {CEILING_COPY, "copy_1_stream", "16 bytes a thread, not kept in L1, streaming stores", 1},
            {CEILING_COPY, "copy_2", "2 x 16 bytes a thread", 2},
            {CEILING_COPY, "copy_4", "4 x 16 bytes a thread, not kept in L1, streaming stores", 4},
            {CEILING_READ, "read_4", "4 x 16 bytes a thread, not kept in L1", 4},
            {CEILING_WRITE, "write_1", "16 bytes a thread", 1},
            {CEILING_WRITE, "write_4", "4 x 16 bytes a thread, streaming stores", 4}};

typedef struct Job {
    CudaDevice *c;
    CuFunction fn;
    CuPtr from, to;
    uint64_t bytes, from_step, to_step; /* steps: from set to set; 0 where there is only one */
    unsigned each;
    int sets;
} Job;

static int move_start(void *user, int i, CuStream s) {
    Job *j = user;
    CuPtr from = j->from + (uint64_t)(i % j->sets) * j->from_step, to = j->to + (uint64_t)(i % j->sets) * j->to_step;
    if (!j->fn) return j->c->cu.copy_device(to, from, j->bytes, s);
    uint64_t block = 512ull * 16 * j->each;
    void *args[] = {&from, &to, &j->bytes};
    return j->c->cu.launch(j->fn, (unsigned)((j->bytes + block - 1) / block), 1, 1, 512, 1, 1, 0, s, args, NULL);
}

static Err median_ns(Cx *cx, Job *j, int reps, double *t, double *median) {
    Err err = OK;
    CudaChain chain = {0}; /* of one way */
    for (int r = 0; r < reps && !err; r++) {
        int64_t ns = 0;
        err = cuda_time(cx, j->c, move_start, j, j->sets, CHAIN, chain.of, &chain, &ns);
        t[r] = (double)ns / CHAIN;
    }
    cuda_chain_free(j->c, &chain);
    *median = f64_median(t, reps);
    return err;
}

static Err fastest(Cx *cx, Job *job, CeilingKind kind, CuModule mod, int reps, double *t, double *ns,
                   const char **how) {
    Err err = OK;
    for (int i = 0; i < COUNT(ways) && !err; i++) {
        double x = 0;
        job->fn = NULL, job->each = ways[i].each;
        if (ways[i].kind != kind) continue;
        if (ways[i].entry)
            err = cuda_said(cx, job->c, job->c->cu.module_function(&job->fn, mod, ways[i].entry), S_BUILD_LOAD,
                            ways[i].entry);
        if (!err) err = median_ns(cx, job, reps, t, &x);
        if (!err && (!*how || x < *ns)) *ns = x, *how = ways[i].how;
    }
    return err;
}

Err cuda_ceiling(Cx *cx, Device *d, const Ceiling *asked, double *ns, const char **how) {
    CudaDevice *c = (CudaDevice *)d;
    bool pushed = false;
    char *cubin = NULL;
    size_t size = 0;
    CuModule mod = NULL;
    Mem *from = NULL, *to = NULL;
    const CeilingKind kind = asked->kind;
    const size_t bytes = ((kind == CEILING_COPY ? (asked->bytes + 1) / 2 : asked->bytes) + 15) & ~(size_t)15,
                 all = bytes * (size_t)asked->sets;
    const int reps = asked->reps > 5 ? 5 : asked->reps; /* a sample is a graph of 200 */
    if (!c->rtc.lib) return diag(cx, S_RT_NO_NVRTC, NOWHERE, "libnvrtc.so.13 or .12", "%s: %s", d->name, c->rtc.why);
    Unit u = {.dialect = DIALECT_CUDA, .entry = "copy_1", .text = copy_text, .bytes = sizeof copy_text - 1};
    Fail fail = {.slug = S_INTERNAL};
    double *t = rt_get(d->rt, (size_t)reps * sizeof *t);
    Err err = t ? cuda_enter(cx, c, &pushed) : rt_oom(cx, "the times of copies", (size_t)reps * sizeof *t);
    if (err) {
        rt_put(d->rt, t);
        return err;
    }
    if (!nvrtc_build(&c->rtc, rt_options(d->rt)->al, &u, c->arch, false, &cubin, &size, &fail))
        err = diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text);
    if (!err) err = cuda_said(cx, c, c->cu.module_load(&mod, cubin), S_BUILD_LOAD, "the copy kernels");
    if (!err) err = mem_new(cx, d, kind == CEILING_WRITE ? 16 : all, &from);
    if (!err) err = mem_new(cx, d, kind == CEILING_READ ? 16 : all, &to);
    if (!err) {
        Job job = {.c = c,
                   .from = (CuPtr)(uintptr_t)mem_at(from),
                   .to = (CuPtr)(uintptr_t)mem_at(to),
                   .bytes = bytes,
                   .from_step = kind == CEILING_WRITE ? 0 : bytes,
                   .to_step = kind == CEILING_READ ? 0 : bytes,
                   .sets = asked->sets};
        err = fastest(cx, &job, kind, mod, reps, t, ns, how);
    }
    mem_free(from);
    mem_free(to);
    if (mod) c->cu.module_unload(mod);
    rt_put(d->rt, cubin);
    cuda_leave(c, pushed);
    rt_put(d->rt, t);
    return err;
}
