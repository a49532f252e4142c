/* The OpenCL C dialect: the head of a kernel and the words that differ from those of other GPUs. A kernel takes the
 * slots by value, with byte offsets in place of pointers, and the memory of each tensor as an argument behind them.
 * OpenCL C 1.2 without extensions is enough: lanes meet through the device's shuffles where a subgroup is more than one
 * lane, and in local memory where it is not. */
#include "gpugen.h"

#include <inttypes.h>

/* Scalars of float types lie in slots as f64, which not every device has. */
static const char *opencl_slot(Emit *e, const Ins *in) {
    if (in->ty == TY_F64 && e->pb->caps.has_f64) return emit_text(e, "F64_OF(a.s[%d])", in->imm);
    return emit_text(e, "(%s)a.s[%d]", gpu_type(in->ty), in->imm);
}

/* Local memory of a kernel is declared piece by piece, anywhere in its outermost block. */
static void opencl_shared(Emit *e, int i) {
    const Stripe *s = &e->k->stripe[i];
    const Plan *p = &e->k->plan;
    int64_t elements = e->k->domain[s->domain].n_serial * gpu_stripe_chunks(e, s) * p->V * p->W * p->P;
    line(e, "__local uint4 l%d[%" PRId64 "]; /* %s */", i, (elements * ty_bytes(s->ty) + 15) / 16,
         s->name ? s->name : "");
    line(e, "__local char *const sh%d = (__local char *)l%d;", i, i);
}

static const GpuWords words = {.dialect = DIALECT_OPENCL,
                               .thread = "(i32)get_local_id(0)",
                               .group = "(i64)get_group_id(0)",
                               .groups = "(i64)get_num_groups(0)",
                               .barrier = "barrier(CLK_LOCAL_MEM_FENCE)",
                               .who = ", everyone",
                               .wide = "l",
                               .slot = opencl_slot,
                               .shared = opencl_shared};

static void opencl_head(Emit *e) {
    const Kern *k = e->k;
    int threads = k->plan.W * k->plan.P, L = k->subgroup;
    gpu_begin(e, &words);
    e->in_turn = e->pb->caps.lanes_in_turn;
    line(e, "struct slots { i64 s[%d]; };", k->abi.nslots ? k->abi.nslots : 1);
    line(e, "__kernel GROUP(%d)", threads);
    Buf memory = buf_new(e->cx->a);
    for (int i = 0; i < k->prog->nparams; i++)
        if (k->abi.ptr[i] >= 0) buf_fmt(&memory, ", __global char *restrict m%d", i);
    line(e, "void rowfold_kernel_%s(const struct slots a, const i64 first, const i64 rows%s) {", k->name, memory.s);
    e->depth++;
    gpu_place(e);
    if (L > 1 && threads % L)
        line(e, "const u32 everyone = tid / %d == %d ? 0x%xu : ~0u;", L, threads / L, (1u << threads % L) - 1);
    else if (L > 1)
        line(e, "const u32 everyone = ~0u;");
    if (gpu_exchange(e)) line(e, "EXCHANGE(%d)", gpu_exchange(e));
    for (int i = 0; i < k->prog->nparams; i++) {
        const Param *q = &k->prog->param[i];
        const char *only = q->dir == DIR_IN ? "const " : "", *type = gpu_memory_type(q);
        if (k->abi.ptr[i] >= 0)
            line(e, "__global %s%s *const p%d = (__global %s%s *)(m%d + a.s[%d]); /* %s */", only, type, i, only, type,
                 i, k->abi.ptr[i], q->name);
    }
    gpu_locals(e);
}

const Speak speak_opencl = {.head = opencl_head,
                            .rows = gpu_rows,
                            .tail = gpu_end,
                            .block = gpu_block,
                            .step = gpu_step,
                            .prelude = opencl_prelude,
                            .unrolls = gpu_unrolls,
                            .loop = gpu_loop};
