/* Time by an OpenCL device's own clock, from the begin of a batch's first launch to the end of its last; and its speed
 * of light: the fastest of several copies, reads or writes, timed in the same way. */
#include "cldrv.h"

#include <stdio.h>
#include <string.h>

enum { COMMAND_START = 0x1282, COMMAND_END = 0x1283, CHAIN = 20 };

static int batch(const ClDevice *c, ClStart *start, void *user, int calls, uint64_t *ns) {
    ClEvent first = NULL, last = NULL;
    uint64_t from = 0, to = 0;
    int err = 0;
    for (int i = 0; i < calls && !err; i++) err = start(user, i, i == 0 ? &first : i == calls - 1 ? &last : NULL);
    ClEvent end = last ? last : first;
    int waited = c->cl.finish(c->timed);
    if (!err) err = waited;
    if (!err) err = c->cl.event_time(first, COMMAND_START, sizeof from, &from, NULL);
    if (!err) err = c->cl.event_time(end, COMMAND_END, sizeof to, &to, NULL);
    if (first) c->cl.event_free(first);
    if (last) c->cl.event_free(last);
    *ns = to > from ? to - from : 0;
    return err;
}

Err cl_time(Cx *cx, ClDevice *c, ClStart *start, void *user, int calls, bool warm_up, int64_t *ns) {
    uint64_t t = 0;
    int err = c->cl.finish(c->queue); /* what came before */
    if (!err && warm_up) err = batch(c, start, user, 1, &t);
    if (!err) err = batch(c, start, user, calls, &t);
    *ns = (int64_t)t;
    return cl_said(cx, c, err, S_RT_OPENCL, "timing");
}

/* ---- copies, reads, writes ---- */

/* A work-item moves 16 bytes on a GPU; on a CPU, where it is a turn of a loop, a run of them. What was read must be
 * needed. */
static const char copy_text[] =
    "#define EACH(name, step, args, body) \\\n"
    "__kernel void name args { \\\n"
    "    const ulong group = get_local_size(0), i = get_group_id(0) * group * step + get_local_id(0); \\\n"
    "    uint4 all = 0; \\\n"
    "    for (uint k = 0; k < step; k++) { const ulong at = i + k * group; if (at < n) body; } \\\n"
    "    if (all.x == 0xdeadbeefu) to[0] = all; \\\n"
    "}\n"
    "#define ARGS (__global const uint4 *restrict from, __global uint4 *restrict to, ulong n)\n"
    "EACH(copy_1, 1, ARGS, to[at] = from[at])\nEACH(copy_4, 4, ARGS, to[at] = from[at])\n"
    "EACH(copy_run, 2048, ARGS, to[at] = from[at])\n"
    "EACH(read_4, 4, ARGS, all ^= from[at])\nEACH(read_run, 2048, ARGS, all ^= from[at])\n"
    "EACH(write_1, 1, ARGS, to[at] = (uint4)((uint)n, 1, 2, 3))\n"
    "EACH(write_run, 2048, ARGS, to[at] = (uint4)((uint)n, 1, 2, 3))\n";

static const struct {
    CeilingKind kind;
    const char *entry; /* NULL: the platform's own */
    const char *how;
    size_t local, each; /* work-items of a group, pieces of 16 bytes of an item */
} ways[] = {{CEILING_COPY, NULL, "clEnqueueCopyBuffer", 0, 0},
            {CEILING_COPY, "copy_1", "16 bytes a work-item, groups of 256", 256, 1},
            {CEILING_COPY, "copy_4", "4 x 16 bytes a work-item, groups of 256", 256, 4},
            {CEILING_COPY, "copy_run", "32 KiB a work-item", 1, 2048},
            {CEILING_READ, "read_4", "4 x 16 bytes a work-item, groups of 256", 256, 4},
            {CEILING_READ, "read_run", "32 KiB a work-item", 1, 2048},
            {CEILING_WRITE, "write_1", "16 bytes a work-item, groups of 256", 256, 1},
            {CEILING_WRITE, "write_run", "32 KiB a work-item", 1, 2048}};

typedef struct Job {
    ClDevice *c;
    ClKernel k;
    ClMem *from, *to; /* of each set; both are there for reads and writes too */
    int sets;
    size_t bytes, local, global;
} Job;

static int move_start(void *user, int i, ClEvent *event) {
    const Job *j = user;
    const Loader *cl = &j->c->cl;
    ClMem from = j->from[i % j->sets], to = j->to[i % j->sets];
    if (!j->k) return cl->buffer_copy(j->c->timed, from, to, 0, 0, j->bytes, 0, NULL, event);
    int err = cl->kernel_arg(j->k, 0, sizeof from, &from);
    if (!err) err = cl->kernel_arg(j->k, 1, sizeof to, &to);
    if (!err) err = cl->launch(j->c->timed, j->k, 1, NULL, &j->global, &j->local, 0, NULL, event);
    return err;
}

static Err median_ns(Cx *cx, Job *j, int reps, double *t, double *median) {
    const int calls =
        (int)ceil_div(CHAIN, j->sets) * j->sets; /* else a short turn would find its memory in the cache */
    Err err = OK;
    for (int r = 0; r < reps && !err; r++) {
        int64_t ns = 0;
        err = cl_time(cx, j->c, move_start, j, calls, true, &ns);
        t[r] = (double)ns / calls;
    }
    *median = f64_median(t, reps);
    return err;
}

static Err fastest(Cx *cx, Job *job, CeilingKind kind, ClProgram program, int reps, double *t, double *ns,
                   const char **how) {
    Err err = OK;
    const uint64_t n = job->bytes / 16;
    const size_t most = (size_t)job->c->d.caps.max_group;
    for (int i = 0; i < COUNT(ways) && !err; i++) {
        double x = 0;
        int code = 0;
        if (ways[i].kind != kind || ways[i].local > most) continue;
        job->k = NULL;
        if (ways[i].entry) {
            const size_t step = ways[i].local * ways[i].each;
            job->local = ways[i].local;
            job->global = (size_t)((n + step - 1) / step) * ways[i].local;
            job->k = job->c->cl.kernel_new(program, ways[i].entry, &code);
            if (!code) code = job->c->cl.kernel_arg(job->k, 2, sizeof n, &n);
            err = cl_said(cx, job->c, code, S_BUILD_LOAD, ways[i].entry);
        }
        if (!err) err = median_ns(cx, job, reps, t, &x);
        if (!err && x > 0 && (!*how || x < *ns)) *ns = x, *how = ways[i].how;
        if (job->k) job->c->cl.kernel_free(job->k);
    }
    return err;
}

Err cl_ceiling(Cx *cx, Device *d, const Ceiling *asked, double *ns, const char **how) {
    ClDevice *c = (ClDevice *)d;
    const size_t sets = (size_t)asked->sets,
                 bytes = ((asked->kind == CEILING_COPY ? (asked->bytes + 1) / 2 : asked->bytes) + 15) & ~(size_t)15;
    const int reps = asked->reps > 5 ? 5 : asked->reps; /* a sample is a batch already */
    Facts unused;
    Fail fail;
    size_t at;
    Err err = cl_enter(cx, c);
    if (err) return err;
    double *t = rt_get(d->rt, (size_t)reps * sizeof *t);
    Mem **mem = rt_get(d->rt, 2 * sets * sizeof *mem);
    ClMem *buffer = rt_get(d->rt, 2 * sets * sizeof *buffer);
    ClProgram program = NULL;
    if (!t || !mem || !buffer) err = rt_oom(cx, "the sets of a ceiling", 2 * sets * sizeof *mem);
    if (!err) {
        program = cl_program(c, copy_text, sizeof copy_text - 1, "", true, &unused, &fail);
        if (!program) err = diag(cx, fail.slug, NOWHERE, NULL, "%s", fail.text);
    }
    for (size_t i = 0; i < 2 * sets && !err; i++) {
        err = mem_new(cx, d, bytes, &mem[i]);
        if (!err) buffer[i] = cl_find(c, mem_at(mem[i]), &at);
    }
    if (!err) {
        Job job = {.c = c, .from = buffer, .to = buffer + sets, .sets = asked->sets, .bytes = bytes};
        err = fastest(cx, &job, asked->kind, program, reps, t, ns, how);
    }
    for (size_t i = 0; mem && i < 2 * sets; i++) mem_free(mem[i]);
    if (program) c->cl.program_free(program);
    rt_put(d->rt, buffer);
    rt_put(d->rt, mem);
    rt_put(d->rt, t);
    return err;
}
