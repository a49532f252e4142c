/* What units for GPUs start before its turn, so that its latency is spent beside other work: loads of what all rows
 * share (early=on), rows fetched into the L2 cache while the launch before this one ends (overlap=fetch), and copies of
 * a whole stripe into on-chip memory (stages). None of it changes a value. */
#include "gpugen.h"

#include <inttypes.h>

static bool has_join(const Emit *e, const Node *n) {
    for (int i = n->i0; i < n->i1 && n->kind == NODE_BLOCK; i++)
        if (ins_gathers(gpu_at(e, i))) return true;
    return false;
}

/* Loads of a sweep that is written out, of what all rows share: nothing keeps them from going first. */
static void load_early(Emit *e, const Node *n) {
    const Plan *p = &e->k->plan;
    const Domain *d = &e->k->domain[n->domain];
    int64_t chunk = (int64_t)plan_lanes(p) * p->V, size = d->n_mapped;
    bool ranged = domain_ranged(e->k, d);
    int end = e->node_end;
    e->domain = n->domain;
    e->node_end = n->i1;
    for (int i = n->i0; i < n->i1; i++) {
        const Ins *in = gpu_at(e, i);
        bool shared = in->k == K_LOADP && gpu_is_weight(e, in->param) && e->k->prog->param[in->param].dir == DIR_IN;
        if (!shared || gpu_at(e, in->a[0])->k != K_CONST || in->a[1] >= 0) continue;
        for (int64_t c = 0; c * chunk < size; c++) {
            int64_t left = size - c * chunk;
            Step s = {emit_text(e, "%" PRId64 "l", c), c, 0, ranged ? LEFT_SIZE : left < chunk ? left : -1};
            const char *words = emit_text(e, "q%d_%" PRId64 "_", i, c);
            gpu_load_words(e, i, &s, 0, words);
            if (e->words->dialect != DIALECT_CUDA) continue;
            line(e, "%s = %s%s0;", e->tied ? "tie" : "u32 tie", e->tied ? "tie | " : "", words);
            e->tied = true;
        }
        e->early[i] = true;
    }
    e->domain = -1;
    e->node_end = end;
}

/* early=on: what sweeps after the first meeting of lanes need of inputs that all rows share is loaded before anything
 * else, so that its latency is spent beside that of the row itself. */
static void all_early(Emit *e) {
    bool met = false;
    for (int i = e->k->node[e->k->root].next; i >= 0; i = e->k->node[i].next) {
        const Node *n = &e->k->node[i];
        met |= has_join(e, n);
        if (met && n->kind == NODE_SWEEP && gpu_unrolls(e, n)) load_early(e, n);
    }
}

/* ---- rows into the cache ---- */

/* Is in the sweep a load of a row's own elements, side by side, whose place is known before the sweep? */
static bool is_row_run(const Emit *e, const Node *sweep, int i) {
    const Ins *in = gpu_at(e, i);
    return in->k == K_LOADP && in->a[1] < 0 && in->a[0] < sweep->i0 && !gpu_is_weight(e, in->param);
}

/* A group's part of a chunk is one run in memory. One thread asks for a whole run: of a row, or of a chunk. */
static void fetch(Emit *e, const Node *sweep, int i) {
    const Plan *p = &e->k->plan;
    const Ins *in = gpu_at(e, i);
    const char *n = emit_size(e, sweep->domain);
    int64_t run = (int64_t)p->W * p->V, chunk = run * plan_groups(p);
    bool known = !domain_ranged(e->k, &e->k->domain[sweep->domain]);
    int each = ty_bytes(gpu_tensor(e, in->param));
    const char *row = emit_text(e, "p%d + %s", in->param, gpu_val(e, in->a[0], 0, 0));
    if (plan_groups(p) == 1)
        line(e, "if %s fetch_run(%s, %s);", gpu_both(e, "(lane == 0)", gpu_alive(e)), row,
             known ? emit_text(e, "%" PRId64, e->k->domain[sweep->domain].n_mapped * each)
                   : emit_text(e, "%s * %d", n, each));
    else
        line(e,
             "for (%s c = %s; c * %" PRId64 " + rank * %" PRId64 " < %s; c += %d) fetch_run(%s + c * %" PRId64
             " + rank * %" PRId64 ", left_of(%s - c * %" PRId64 " - rank * %" PRId64 ", %" PRId64 ") * %d);",
             e->narrow ? "i32" : "i64", p->P == 1 ? "tid" : emit_text(e, "lane - rank * %d", p->W), chunk, run, n, p->W,
             row, chunk, run, n, chunk, run, run, each);
}

/* overlap=fetch: rows that the first sweeps read come into the L2 cache, where the launch before this one would change
 * them too, before it has ended. */
static void all_fetched(Emit *e) {
    uint32_t done = 0;
    for (int n = e->k->node[e->k->root].next; n >= 0; n = e->k->node[n].next) {
        const Node *sweep = &e->k->node[n];
        for (int i = sweep->i0; i < sweep->i1 && sweep->kind == NODE_SWEEP; i++) {
            bool known = is_row_run(e, sweep, i) && (gpu_at(e, gpu_at(e, i)->a[0])->k == K_CONST ||
                                                     gpu_at(e, i)->a[0] < e->k->node[e->k->root].i1);
            if (!known || done >> gpu_at(e, i)->param & 1) continue;
            done |= 1u << gpu_at(e, i)->param;
            fetch(e, sweep, i);
        }
    }
}

/* Before each node: what goes ahead of it. The first, where a row's place in memory is worked out, touches none. */
void gpu_ahead(Emit *e, const Node *node) {
    bool first = node == &e->k->node[e->k->root], fetches = e->k->plan.overlap == OVERLAP_FETCH;
    if (fetches && !first && !e->waited) {
        all_fetched(e);
        line(e, "overlap_wait(), overlap_start();");
        e->waited = true;
        if (e->k->plan.early) all_early(e);
    }
    if (!fetches && first && e->k->plan.early) all_early(e);
}

/* ---- stages: stripes in on-chip memory that are filled by copies ---- */

/* The put that keeps what the sweep's load i reads, in on-chip memory; -1: none does. */
static int put_of(const Emit *e, const Node *sweep, int i) {
    for (int j = i + 1; j < sweep->i1; j++)
        if (gpu_at(e, j)->k == K_PUT && gpu_at(e, j)->a[1] == i && e->k->stripe[gpu_at(e, j)->imm].home == HOLD_SHARED)
            return j;
    return -1;
}

/* Starts the copies of a sweep, in as many parts as the plan has stages; how many, 0: the sweep has none. */
int gpu_copies(Emit *e, const Node *n) {
    const Plan *p = &e->k->plan;
    int64_t chunk = (int64_t)plan_lanes(p) * p->V, size = e->k->domain[n->domain].n_mapped,
            steps = ceil_div(size, chunk * p->flight);
    bool any = false;
    for (int i = n->i0; i < n->i1 && p->stages; i++) {
        const Ins *in = gpu_at(e, i);
        int put = in->k == K_LOADP && in->a[0] < n->i0 ? put_of(e, n, i) : -1;
        if (put < 0 || gpu_at(e, put)->a[0] >= n->i0 || !gpu_copies_pack(e, i, put)) continue;
        e->copied[i] = put;
        any = true;
    }
    for (int part = 0; part < p->stages && any; part++) {
        int64_t from = emit_part(steps, p->stages, part) * p->flight,
                to = emit_part(steps, p->stages, part + 1) * p->flight, full = i64_min(to, size / chunk);
        if (full > from) {
            Step s = {"c", -1, 0, -1};
            line(e, "for (i64 c = %" PRId64 "; c < %" PRId64 "; c++) {", from, full);
            e->depth++;
            for (int i = n->i0; i < n->i1; i++)
                if (e->copied[i]) gpu_copy_pack(e, i, e->copied[i], &s);
            e->depth--;
            line(e, "}");
        }
        if (to * chunk > size && from * chunk < size && size % chunk) {
            Step s = {emit_text(e, "%" PRId64 "l", size / chunk), size / chunk, 0, size % chunk};
            for (int i = n->i0; i < n->i1; i++)
                if (e->copied[i]) gpu_copy_pack(e, i, e->copied[i], &s);
        }
        line(e, "copies_commit();");
    }
    return any ? p->stages : 0;
}
