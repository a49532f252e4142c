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
    for (int i = e->k->node[kern_body(e->k)].next; i >= 0; i = e->k->node[i].next) {
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
    for (int n = e->k->node[kern_body(e->k)].next; n >= 0; n = e->k->node[n].next) {
        const Node *sweep = &e->k->node[n];
        for (int i = sweep->i0; i < sweep->i1 && sweep->kind == NODE_SWEEP; i++) {
            bool known = is_row_run(e, sweep, i) && (gpu_at(e, gpu_at(e, i)->a[0])->k == K_CONST ||
                                                     gpu_at(e, i)->a[0] < e->k->node[kern_body(e->k)].i1);
            if (!known || done >> gpu_at(e, i)->param & 1) continue;
            done |= 1u << gpu_at(e, i)->param;
            fetch(e, sweep, i);
        }
    }
}

/* Before each node: what goes ahead of it. The first, where a row's place in memory is worked out, touches none. */
void gpu_ahead(Emit *e, const Node *node) {
    bool first = node == &e->k->node[kern_body(e->k)], fetches = e->k->plan.overlap == OVERLAP_FETCH;
    if (node->once) return;
    if (fetches && !first && !e->waited) {
        all_fetched(e);
        line(e, "overlap_wait(), overlap_start();");
        e->waited = true;
        if (e->k->plan.early == EARLY_ON) all_early(e);
    }
    if (!fetches && first && e->k->plan.early == EARLY_ON) all_early(e);
}

/* ---- stages: stripes in on-chip memory that are filled by copies ---- */

/* The put that keeps what the sweep's load i reads, in on-chip memory; -1: none does. */
static int put_of(const Emit *e, const Node *sweep, int i) {
    for (int j = i + 1; j < sweep->i1; j++)
        if (gpu_at(e, j)->k == K_PUT && gpu_at(e, j)->a[1] == i && e->k->stripe[gpu_at(e, j)->imm].home == HOLD_SHARED)
            return j;
    return -1;
}

/* One value of a row, of an input and at a place that its number gives: its latency would be spent once more in each
 * row that is waited for, so it is loaded with the row's copies. */
static void find_awaited(Emit *e) {
    const Kern *k = e->k;
    const int body = kern_body(k), end = body < 0 ? 0 : k->node[body].i1;
    for (int n = body; n >= 0; n = k->node[n].next)
        for (int i = k->node[n].i0; i < k->node[n].i1 && k->node[n].kind == NODE_BLOCK; i++) {
            const Ins *in = gpu_at(e, i);
            e->awaited[i] = in->k == K_LOAD1 && in->rank == RANK_ROW && in->a[1] < 0 && in->a[0] < end &&
                            k->prog->param[in->param].dir == DIR_IN && e->pb->noalias;
        }
}

/* What was loaded with the copies of this row, and of those that come after it. */
void gpu_take_ahead(Emit *e) {
    for (int i = 0; i < e->k->nins; i++) {
        if (!e->awaited[i]) continue;
        Ty ty = gpu_tensor(e, gpu_at(e, i)->param);
        line(e, "const %s n%d = up_%s(n%d_0);", gpu_type(gpu_at(e, i)->ty), i, ty_text(ty), i);
        for (int a = 1; a < e->k->plan.ahead; a++) line(e, "n%d_%d = n%d_%d;", i, a - 1, i, a);
    }
}

/* Which loads are such copies, and what they fill. */
void gpu_find_copies(Emit *e) {
    const Kern *k = e->k;
    for (int s = 0; s < k->nstripes; s++) e->buffers[s] = 1;
    for (int n = 0; n < k->nnodes && k->plan.stages && e->words->dialect == DIALECT_CUDA; n++) {
        const Node *sweep = &k->node[n];
        for (int i = sweep->i0; i < sweep->i1 && sweep->kind == NODE_SWEEP; i++) {
            int put = gpu_at(e, i)->k == K_LOADP && gpu_at(e, i)->a[0] < sweep->i0 ? put_of(e, sweep, i) : -1;
            e->domain = sweep->domain;
            if (put < 0 || gpu_at(e, put)->a[0] >= sweep->i0 || !gpu_copies_pack(e, i, put)) continue;
            e->copied[i] = put;
            if (!sweep->once) e->buffers[gpu_at(e, put)->imm] = 1 + k->plan.ahead;
        }
    }
    e->domain = -1;
    if (k->plan.ahead) find_awaited(e);
}

static int copies_of(const Emit *e, const Node *n) {
    int copies = 0;
    for (int i = n->i0; i < n->i1 && n->kind == NODE_SWEEP; i++) copies += e->copied[i] != 0;
    return copies;
}

static int loads_of(const Emit *e, const Node *n) {
    int loads = 0;
    for (int i = n->i0; i < n->i1; i++) loads += gpu_at(e, i)->k == K_LOADP;
    return loads;
}

/* Starts the copies of a sweep, in as many parts as the plan has stages. */
static void start_copies(Emit *e, const Node *n) {
    const Plan *p = &e->k->plan;
    int64_t chunk = (int64_t)plan_lanes(p) * p->V, size = e->k->domain[n->domain].n_mapped,
            steps = ceil_div(size, chunk * p->flight);
    int domain = e->domain;
    e->domain = n->domain;
    for (int part = 0; part < p->stages; part++) {
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
    e->domain = domain;
}

/* Those of a whole row that the group takes later, into the buffer that it will have then: the row's place is worked
 * out as its own block does. Past the last row there is nothing to copy, but the parts are counted all the same. */
void gpu_copies_ahead(Emit *e, const char *tile, const char *buffer, int place) {
    const Kern *k = e->k;
    int sweeps = 0;
    line(e, "if (%s < tiles) {", tile);
    e->depth++;
    gpu_row(e, emit_text(e, "(%s)", tile));
    for (int i = 0; i < k->nstripes; i++)
        if (e->buffers[i] > 1)
            line(e, "const u32 sh%d = base%d + %s * %" PRId64 ";", i, i, buffer, gpu_stripe_bytes(e, i));
    const Node *head = &k->node[kern_body(k)];
    for (int i = head->i0; i < head->i1; i++) gpu_block(e, i);
    for (int i = 0; i < k->nins; i++)
        if (e->awaited[i])
            line(e, "n%d_%d = %s;", i, place, gpu_load_bits(e, gpu_at(e, i), gpu_val(e, gpu_at(e, i)->a[0], 0, 0)));
    for (int n = kern_body(k); n >= 0; n = k->node[n].next) {
        if (!copies_of(e, &k->node[n])) continue;
        sweeps++;
        start_copies(e, &k->node[n]);
    }
    e->depth--;
    line(e, "} else {");
    for (int i = 0; i < sweeps * k->plan.stages; i++) line(e, "    copies_commit();");
    line(e, "}");
}

/* Of a sweep that comes: how many parts, 0: it has none. What is only kept, for all rows, is not waited for here. */
int gpu_copies(Emit *e, const Node *n) {
    const Plan *p = &e->k->plan;
    if (!copies_of(e, n)) return 0;
    if (!p->ahead || n->once) start_copies(e, n);
    e->once_flies |= n->once;
    if (n->once && copies_of(e, n) == loads_of(e, n)) return -1;
    int later = 0, all = 0; /* sweeps of the row whose copies were started after this one's, and all that have some */
    for (int i = kern_body(e->k); i >= 0; i = e->k->node[i].next) {
        if (!copies_of(e, &e->k->node[i])) continue;
        all++;
        later += e->k->node[i].i0 > n->i0;
    }
    if (p->ahead && !n->once) e->flying = p->stages * (later + p->ahead * all);
    return p->stages;
}
