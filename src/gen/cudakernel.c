/* The CUDA dialect: the head of a kernel and the words that differ from those of other GPUs. Nothing depends on the
 * device but the compiler's target. */
#include "gpugen.h"

#include <inttypes.h>

enum { WARP = 32 };

static void cuda_shared(Emit *e, int i) {
    const Stripe *s = &e->k->stripe[i];
    if (!e->shared_bytes) line(e, "extern __shared__ v4 dynamic[];");
    line(e, "const u32 %s%d = (u32)__cvta_generic_to_shared(dynamic) + %" PRId64 "; /* %s */",
         e->buffers[i] > 1 ? "base" : "sh", i, e->shared_bytes, s->name ? s->name : "");
}

static const GpuWords words = {.dialect = DIALECT_CUDA,
                               .thread = "(i32)threadIdx.x",
                               .group = "(i64)blockIdx.x",
                               .groups = "(i64)gridDim.x",
                               .barrier = "__syncthreads()",
                               .who = ", everyone",
                               .keys = true,
                               .at_once = true,
                               .hides = true,
                               .wide = "ll",
                               .shared = cuda_shared};

static void cuda_head(Emit *e) {
    const Kern *k = e->k;
    const Plan *p = &k->plan;
    int threads = p->W * p->P;
    gpu_begin(e, &words);
    line(e, "struct slots { slot s[%d]; };", k->abi.nslots ? k->abi.nslots : 1);
    line(e, "extern \"C\" __global__ void %s__launch_bounds__(%d%s)",
         p->cluster > 1 ? emit_text(e, "__cluster_dims__(%d, 1, 1) ", p->cluster) : "", threads,
         p->min_groups ? emit_text(e, ", %d", p->min_groups) : "");
    line(e, "rowfold_kernel_%s(const __grid_constant__ slots a, const i64 first, const i64 rows%s) {", k->name,
         p->split > 1 ? ", u64 *const work" : "");
    e->depth++;
    gpu_place(e);
    if (threads % WARP)
        line(e, "const u32 everyone = tid / 32 == %d ? 0x%xu : ~0u;", threads / WARP, (1u << threads % WARP) - 1);
    else
        line(e, "const u32 everyone = ~0u;");
    if (p->load == LOAD_KEEP) line(e, "const u64 hot = policy_hot(), cold = policy_cold();");
    /* Copies whose place in on-chip memory is a uniform register and more, and which have a cache policy, come out of
     * NVRTC 13.0 as instructions that are none (illegal instruction, 715). rows is not below 0, so that this is 0, but
     * what it is added to by an exclusive or is no sum of which a part could be uniform. */
    if (p->stages && p->load == LOAD_KEEP) line(e, "const u32 nil = (u32)(rows >> 63);");
    if (gpu_exchange(e)) line(e, "EXCHANGE(%d)", gpu_exchange(e));
    for (int i = 0; i < k->nins && p->cluster > 1; i++) e->cluster_waits |= ins_gathers(&k->ins[i]);
    if (e->cluster_waits) line(e, p->exchange == EXCHANGE_BYTES ? "cluster_start(cm, tid);" : "cluster_arrive();");
    if (p->overlap == OVERLAP_ON) line(e, "overlap_start(), overlap_wait();");
    if (p->overlap == OVERLAP_LATE) line(e, "overlap_wait(), overlap_start();");
    for (int i = 0; i < k->prog->nparams; i++) {
        const Param *q = &k->prog->param[i];
        const char *only = q->dir == DIR_IN ? "const " : "", *type = gpu_memory_type(q);
        if (k->abi.ptr[i] >= 0)
            line(e, "%s%s *const p%d = (%s%s *)a.s[%d].p; /* %s */", only, type, i, only, type, k->abi.ptr[i], q->name);
    }
    gpu_locals(e);
}

const Speak speak_cuda = {.head = cuda_head,
                          .rows = gpu_rows,
                          .tail = gpu_end,
                          .block = gpu_block,
                          .step = gpu_step,
                          .prelude = cuda_prelude,
                          .unrolls = gpu_unrolls,
                          .loop = gpu_loop,
                          .ahead = gpu_ahead,
                          .copies = gpu_copies};
