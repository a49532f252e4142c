/* The Metal dialect: the head of a kernel in the Metal shading language (3.0 and later; see docs/metal.md) and the
 * words that differ from those of other GPUs. Tensors are buffers in the order of the parameters; the one behind them
 * has struct { i64 first, rows; slot s[]; } the first row of the launch, the end of its rows and the slots of the Abi.
 * Its pointers are not used, its f64 scalars are read as bits: there are no 64-bit floats. On-chip memory is one
 * argument, [[threadgroup(0)]], of shared_bytes: first the exchange between simdgroups, then the stripes that are held
 * there. */
#include "gpugen.h"

#include <inttypes.h>

enum { MOST_BUFFERS = 31 }; /* a kernel's argument table of buffers has so many places */

static void metal_shared(Emit *e, int i) {
    const char *after = gpu_exchange(e) ? emit_text(e, "%d * slots_exchanged + ", 16 * gpu_exchange(e)) : "";
    line(e, "threadgroup u8 *const sh%d = (threadgroup u8 *)shared + %s%" PRId64 "; /* %s */", i, after,
         e->shared_bytes, e->k->stripe[i].name ? e->k->stripe[i].name : "");
}

static const GpuWords words = {.dialect = DIALECT_METAL,
                               .thread = "(i32)thread_at",
                               .group = "(i64)group_at",
                               .groups = "(i64)groups_at",
                               .barrier = "threadgroup_barrier(mem_flags::mem_threadgroup)",
                               .who = "",
                               .wide = "l",
                               .decimal = true,
                               .shared = metal_shared};

static int buffers(const Kern *k) {
    int n = 0;
    for (int i = 0; i < k->prog->nparams; i++) n += k->abi.ptr[i] >= 0;
    return n;
}

static void metal_head(Emit *e) {
    const Kern *k = e->k;
    const Plan *p = &k->plan;
    bool shared = false;
    gpu_begin(e, &words);
    for (int i = 0; i < k->nstripes; i++) shared |= k->stripe[i].home == HOLD_SHARED;
    line(e, "struct slots { i64 first, rows; slot s[%d]; };", k->abi.nslots ? k->abi.nslots : 1);
    line(e, "[[kernel, max_total_threads_per_threadgroup(%d)]] void rowfold_kernel_%s(", p->W * p->P, k->name);
    for (int i = 0; i < k->prog->nparams; i++) {
        const Param *q = &k->prog->param[i];
        if (k->abi.ptr[i] >= 0)
            line(e, "    device %s%s *p%d [[buffer(%d)]], /* %s */", q->dir == DIR_IN ? "const " : "",
                 gpu_memory_type(q), i, k->abi.ptr[i], q->name);
    }
    line(e, "    constant slots &a [[buffer(%d)]],", buffers(k));
    if (gpu_exchange(e) || shared) line(e, "    threadgroup uint4 *shared [[threadgroup(0)]],");
    line(e,
         "    uint thread_at [[thread_position_in_threadgroup]], uint group_at [[threadgroup_position_in_grid]]%s) {",
         p->grid ? ", uint groups_at [[threadgroups_per_grid]]" : "");
    e->depth++;
    line(e, "const i64 first = a.first%s;", p->P > 1 || p->grid ? ", rows = a.rows" : "");
    gpu_place(e);
    if (gpu_exchange(e)) {
        line(e, "threadgroup u64 (*const xs)[slots_exchanged][%d] = (threadgroup u64 (*)[slots_exchanged][%d])shared;",
             gpu_exchange(e), gpu_exchange(e));
        line(e, "i32 xb = 0, xi = 0;");
    }
    gpu_locals(e);
}

static void metal_tail(Emit *e) {
    gpu_end(e);
    if (gpu_exchange(e)) e->shared_bytes += (int64_t)16 * gpu_exchange(e) * (e->slots ? e->slots : 1);
}

static Err metal_check(const Emit *e) {
    const Caps *c = &e->pb->caps;
    if (buffers(e->k) >= MOST_BUFFERS)
        return diag(e->cx, S_EMIT_BUFFERS, NOWHERE, "30 tensors", "`%s` has %d tensors", e->k->name, buffers(e->k));
    if (e->shared_bytes > c->shared_bytes)
        return diag(e->cx, S_PLAN_SHARED, NOWHERE, NULL, "need=%lld budget=%lld bytes a group, those of joins included",
                    (long long)e->shared_bytes, (long long)c->shared_bytes);
    return OK;
}

const Speak speak_metal = {.head = metal_head,
                           .rows = gpu_rows,
                           .tail = metal_tail,
                           .block = gpu_block,
                           .step = gpu_step,
                           .prelude = metal_prelude,
                           .unrolls = gpu_unrolls,
                           .loop = gpu_loop,
                           .ahead = gpu_ahead,
                           .check = metal_check};
