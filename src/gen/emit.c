/* Kern -> Unit: walks rows, loops and sweeps; the dialect spells the instructions. A sweep is a loop over full steps,
 * unrolled, then the steps that are left written out with what is known about them: extents are constants, so a tail
 * costs no test. Where the extent comes with the launch, each of them is written out once, for any part of it. */
#include "emit.h"

#include <inttypes.h>
#include <math.h>

#include <string.h>

void line(Emit *e, const char *fmt, ...) {
    char small[512];
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = text_print(small, sizeof small, fmt, ap);
    va_end(ap);
    char *text = small;
    if (n >= (int)sizeof small) {
        text = arena_get(e->cx->a, (size_t)n + 1);
        text_print(text, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    for (int i = 0; i < e->depth; i++) buf_put(&e->out, "    ", 4);
    buf_str(&e->out, text);
    buf_put(&e->out, "\n", 1);
}

const char *emit_text(Emit *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(e->cx->a, fmt, ap);
    va_end(ap);
    return s;
}

const char *emit_number(Emit *e, Ty ty, Num c) {
    switch (ty) {
    case TY_F32: return emit_text(e, signbit(c.f) ? "(%af)" : "%af", (double)c.f);
    case TY_F64: return emit_text(e, signbit(c.d) ? "(%a)" : "%a", c.d);
    case TY_I32: { /* that a pair which has no element yet starts from may be any number */
        const int64_t x = (int32_t)c.i;
        return x == INT32_MIN ? "(-2147483647 - 1)" : emit_text(e, x < 0 ? "(%" PRId64 ")" : "%" PRId64, x);
    }
    case TY_I64:
        return c.i == INT64_MIN ? emit_text(e, "(-9223372036854775807%s - 1)", e->wide)
                                : emit_text(e, c.i < 0 ? "(%" PRId64 "%s)" : "%" PRId64 "%s", c.i, e->wide);
    case TY_U32: return emit_text(e, "%" PRIu32 "u", (uint32_t)c.u);
    default: return emit_text(e, "%" PRIu64 "u%s", c.u, e->wide);
    }
}

void emit_int_range(Ty t, const char **lo, const char **hi) {
    static const char *const r[TY_COUNT][2] = {[TY_I8] = {"-128", "127"},
                                               [TY_I16] = {"-32768", "32767"},
                                               [TY_I32] = {"(-2147483647 - 1)", "2147483647"},
                                               [TY_I64] = {"(-9223372036854775807 - 1)", "9223372036854775807"},
                                               [TY_U8] = {"0", "255"},
                                               [TY_U16] = {"0", "65535"},
                                               [TY_U32] = {"0u", "4294967295u"},
                                               [TY_U64] = {"0u", "18446744073709551615u"}};
    *lo = r[t][0], *hi = r[t][1];
}

static void sweep_step(Emit *e, const Node *n, const Step *s) {
    int G = e->speak->group ? e->speak->group(e, n, s) : 0;
    bool (*once)(const Emit *, int) = G ? e->speak->once : NULL;
    line(e, "{");
    e->depth++;
    for (int i = n->i0; once && i < n->i1; i++)
        if (once(e, i)) e->speak->step(e, i, s);
    if (G) line(e, "for (i64 g = 0; g < %d; g += %d) {", e->R, G);
    e->grouped = G > 0;
    e->copies = G ? G : e->R;
    e->depth += G > 0;
    for (int i = n->i0; i < n->i1; i++)
        if (!once || !once(e, i)) e->speak->step(e, i, s);
    e->depth -= G > 0;
    if (G) line(e, "}");
    e->depth--;
    e->grouped = false;
    e->copies = e->R;
    line(e, "}");
}

/* A few steps one after the other. Of sweeps that run together the last comes first: it reads what the one before it
 * wrote in the same place for the row before. */
static void some_steps(Emit *e, const Node *n, const Step *s, int64_t steps) {
    for (int g = e->nstages - 1; g >= 0; g--) {
        const Node *q = e->sweep_of[g];
        e->stage = e->sweep = g;
        e->node_end = q->i1;
        line(e, "if (in%d) {", g);
        e->depth++;
        for (int64_t u = 0; u < steps; u++) sweep_step(e, q, &s[u]);
        e->depth--;
        line(e, "}");
    }
    for (int64_t u = 0; u < steps && !e->nstages; u++) sweep_step(e, n, &s[u]);
}

static void one_step(Emit *e, const Node *n, const Step *s) {
    some_steps(e, n, s, 1);
}

/* NULL: always. */
static void one_step_if(Emit *e, const Node *n, const Step *s, const char *condition) {
    if (condition) line(e, "if (%s) {", condition);
    e->depth += condition != NULL;
    one_step(e, n, s);
    e->depth -= condition != NULL;
    if (condition) line(e, "}");
}

bool cell_is_array(const Emit *e, const Cell *c) {
    return e->R && (c->acc > 4 || e->R > 8); /* of hosts */
}

/* Accumulators whose number must be known in the text of a sweep, or of those that run together. */
static int named_accumulators(const Emit *e, const Node *n) {
    const Kern *k = e->k;
    int acc = 1;
    for (int g = 0; g < (e->nstages ? e->nstages : 1); g++) {
        const Node *q = e->nstages ? e->sweep_of[g] : n;
        for (int i = q->i0; i < q->i1; i++) {
            if (k->ins[i].k != K_FOLD) continue;
            const Cell *c = &k->cell[k->ins[i].imm];
            if (!cell_is_array(e, c) && c->acc > acc) acc = c->acc;
        }
    }
    return acc;
}

int64_t emit_part(int64_t steps, int parts, int i) {
    return i < parts ? steps * i / parts : steps;
}

/* The chunks from step `from` up to chunk `end` as a loop of whole rounds, `rounds` of them at a time. */
static void loop_steps(Emit *e, const Node *n, int64_t from, const char *end, int64_t round, int64_t rounds) {
    const Plan *p = &e->k->plan;
    int64_t F = p->flight, acc = round * F, each = round * rounds;
    if (e->in_turn && F == 1 && round > 1) { /* a loop that compilers for CPUs turn into vectors */
        Step s = {"(c + k)", -1, -1, -1};
        line(e, "for (i64 c = %lld; c < %s; c += %lld) for (i32 k = 0; k < %lld; k++) {", (long long)from, end,
             (long long)round, (long long)round);
        e->depth++;
        one_step(e, n, &s);
        e->depth--;
        line(e, "}");
        return;
    }
    if (p->U > each) line(e, "UNROLL(%lld)", (long long)(p->U / each));
    line(e, "for (i64 c = %lld; c < %s; c += %lld) {", (long long)(from * F), end, (long long)(each * F));
    e->depth++;
    Step *s = NEWN(e->cx->a, Step, each);
    for (int64_t u = 0; u < each; u++)
        s[u] = (Step){u ? arena_printf(e->cx->a, "(c + %lld)", (long long)(u * F)) : "c", -1, (from + u) * F % acc, -1};
    some_steps(e, n, s, each);
    e->depth--;
    line(e, "}");
}

/* Rounds that sweeps which run together take at a turn: what is unrolled, and some registers in any case, for which a
 * core has enough in flight to fill one sweep's waits with the next one's work; of three sweeps or more two rounds are
 * enough, and text enough for a compiler. */
static int64_t turn(const Emit *e, int64_t round) {
    enum { REGISTERS = 4 };
    const Plan *p = &e->k->plan;
    const int64_t some = REGISTERS / i64_max(1, round * p->flight * p->V * e->R);
    return e->nstages ? i64_max(p->U / round, e->nstages > 2 ? i64_min(some, 2) : some) : 1;
}

/* The same up to step `to`, as far as whole rounds go; the first step after it. */
static int64_t looped_steps(Emit *e, const Node *n, int64_t from, int64_t to, int64_t round) {
    const int64_t rounds[] = {i64_max(1, turn(e, round)), 1};
    for (int i = 0; i < COUNT(rounds); i++) {
        const int64_t each = round * rounds[i], end = from + (to > from ? to - from : 0) / each * each;
        if (end > from) loop_steps(e, n, from, emit_text(e, "%" PRId64, end * e->k->plan.flight), round, rounds[i]);
        from = end;
    }
    return from;
}

/* ---- sizes that are known at run time only ---- */

void emit_sizes(Emit *e, const char *slot, bool narrow) {
    const Kern *k = e->k;
    int axis = shape_ranged(&k->shape);
    if (axis < 0) return;
    line(e, "const i64 extent = %s; /* %s, %lld to %lld */", slot, k->prog->axis[axis].name,
         (long long)k->shape.least[axis], (long long)k->shape.n[axis]);
    for (int i = 0; i < k->ndomains; i++)
        if (domain_ranged(k, &k->domain[i])) {
            const int64_t others = domain_others(k, &k->domain[i]);
            line(e, "const %s size%d = %s;", narrow ? "i32" : "i64", i,
                 narrow ? emit_text(e, "(i32)(extent * %" PRId64 ")", others)
                        : emit_text(e, "extent * %" PRId64, others));
        }
}

const char *emit_size(Emit *e, int domain) {
    const Domain *d = &e->k->domain[domain];
    return domain_ranged(e->k, d) ? emit_text(e, "size%d", domain) : emit_text(e, "%" PRId64, d->n_mapped);
}

int64_t emit_room(const Emit *e, const Domain *d) {
    const Plan *p = &e->k->plan;
    int64_t step = (int64_t)plan_lanes(p) * p->V * p->flight;
    const bool whole = domain_ranged(e->k, d) || e->shifts;
    const int64_t n = d->n_mapped + (e->shifts ? e->shifts - 1 : 0);
    return whole ? ceil_div(n, step) * step : n;
}

/* May all lanes pass over the steps behind a row's end together? Not those that leave something in registers, which
 * would not be set. Those that only load are under way side by side while nothing lies between them, so that short rows
 * have a text of their own. */
typedef enum Behind { BEHIND_DONE, BEHIND_PASSED, BEHIND_APART } Behind;
static Behind behind(const Emit *e, const Node *n) {
    bool loads = false, stores = false;
    for (int i = n->i0; i < n->i1; i++) {
        const Ins *in = &e->k->ins[i];
        if (in->k == K_PUT && e->k->stripe[in->imm].home == HOLD_REGISTER) return BEHIND_DONE;
        loads |= in->k == K_LOADP || in->k == K_LOAD1;
        stores |= in->k == K_STOREP || in->k == K_STORE1;
    }
    return !e->words ? BEHIND_DONE : stores || !loads ? BEHIND_PASSED : BEHIND_APART;
}

/* The first `steps` of a range, written out. */
static void written_steps(Emit *e, const Node *n, int64_t steps, int64_t acc, int64_t least, bool passes) {
    const int64_t F = e->k->plan.flight, step = (int64_t)plan_lanes(&e->k->plan) * e->k->plan.V * F;
    for (int64_t i = 0; i < steps; i++) {
        Step s = {emit_text(e, "%" PRId64 "l", i * F), i * F, i * F % acc, (i + 1) * step <= least ? -1 : LEFT_SIZE};
        const bool may = passes && i * step >= i64_max(least, 1);
        one_step_if(e, n, &s, may ? emit_text(e, "%" PRId64 " < %s", i * step, emit_size(e, n->domain)) : NULL);
    }
}

/* All steps of a range, written out. */
static void unrolled_steps(Emit *e, const Node *n, int64_t steps, int64_t acc, int64_t least) {
    const int64_t step = (int64_t)plan_lanes(&e->k->plan) * e->k->plan.V * e->k->plan.flight, half = steps / 2;
    const Behind how = behind(e, n);
    const bool apart = how == BEHIND_APART && half * step >= i64_max(least, 1);
    if (apart) {
        const bool tied = e->tied; /* each of both texts ties what was loaded early to its row */
        line(e, "if (%s <= %" PRId64 ") {", emit_size(e, n->domain), half * step);
        e->depth++;
        written_steps(e, n, half, acc, least, false);
        e->depth--;
        e->tied = tied;
        line(e, "} else {");
    }
    e->depth += apart;
    written_steps(e, n, steps, acc, least, how == BEHIND_PASSED);
    e->depth -= apart;
    if (apart) line(e, "}");
}

/* A sweep whose size is known at run time: a loop over whole rounds and the steps behind it, or all of them where they
 * are written out. */
static void ranged_steps(Emit *e, const Node *n, bool unrolled, int64_t round, int64_t acc) {
    const Domain *d = &e->k->domain[n->domain];
    int64_t F = e->k->plan.flight, chunk = (int64_t)plan_lanes(&e->k->plan) * e->k->plan.V, step = chunk * F;
    int64_t least = domain_others(e->k, d) * e->k->shape.least[shape_ranged(&e->k->shape)];
    const char *size = emit_size(e, n->domain),
               *looped = emit_text(e, "%s / %" PRId64 " * %" PRId64, size, step * round, round * F);
    if (!unrolled && d->n_mapped >= step * round) loop_steps(e, n, 0, looped, round, 1);
    if (unrolled) unrolled_steps(e, n, ceil_div(d->n_mapped, step), acc, least);
    for (int64_t i = 0; !unrolled && i < round; i++) {
        Step s = {i ? emit_text(e, "(%s + %" PRId64 ")", looped, i * F) : emit_text(e, "(%s)", looped), -1, i * F % acc,
                  LEFT_SIZE};
        one_step_if(e, n, &s, emit_text(e, "%s * %" PRId64 " < %s", s.chunk, chunk, size));
    }
}

/* Those of a shifted row: the first, whose first places have no element; the whole ones, as many as there are of any
 * shift; and up to two for any part of a step. */
static void shifted_steps(Emit *e, const Node *n, int64_t round, int64_t acc) {
    const Plan *p = &e->k->plan;
    const int64_t F = p->flight, step = (int64_t)plan_lanes(p) * F, size = e->k->domain[n->domain].n_mapped;
    const int64_t full = size / step;
    const Step head = {"0l", 0, 0, LEFT_HEAD};
    one_step(e, n, &head);
    for (int64_t at = looped_steps(e, n, 1, full, round); at * step < size + e->shifts - 1; at++) {
        const bool whole = at < full, may = !whole && !e->nstages && at * step >= size;
        Step s = {emit_text(e, "%" PRId64 "l", at * F), at * F, at * F % acc, whole ? -1 : LEFT_SIZE};
        one_step_if(e, n, &s, may ? emit_text(e, "%" PRId64 " < %" PRId64 " + shift", at * step, size) : NULL);
    }
}

/* Behind a sweep: what it loaded of a tensor that one before it has loaded. */
static void count_again(Emit *e) {
    for (int i = 0; i < COUNT(e->loads_here); i++) {
        const int n = e->loads_here[i];
        if (n && e->loaded[i] && (!e->loads_again || n < e->loads_again)) e->loads_again = n;
        e->loaded[i] |= n > 0;
        e->loads_here[i] = 0;
    }
}

void emit_sweep(Emit *e, const Node *n) {
    enum { WRITTEN_OUT = 4 }; /* steps of a range */
    const Plan *p = &e->k->plan;
    const Domain *d = &e->k->domain[n->domain];
    int64_t chunk = (int64_t)plan_lanes(p) * p->V, F = p->flight, step = chunk * F, full = d->n_mapped / step;
    /* a loop body holds a whole round of the accumulators, so that which one a chunk meets is known in the text;
     * further unrolling is asked of the compiler, which changes no order and keeps the text short */
    int64_t acc = named_accumulators(e, n), round = acc > F ? acc / F : 1, looped = full - full % round;
    const bool ranged = domain_ranged(e->k, d);
    /* compilers for GPUs unroll short loops of known length: loads are then under way side by side */
    const bool brief = ranged && e->words && d->n_mapped <= WRITTEN_OUT * step;
    bool unrolled = brief || (e->speak->unrolls && e->speak->unrolls(e, n));
    if (unrolled) looped = 0;
    e->domain = n->domain;
    e->node_end = n->i1;
    if (n->note) line(e, "/* %s */", n->note);
    e->flying = 0;
    int parts = e->speak->copies && !ranged ? e->speak->copies(e, n) : 0;
    if (parts < 0) {
        e->domain = -1;
        e->sweep++;
        return;
    }
    int64_t steps = ranged || e->shifts ? 0 : ceil_div(d->n_mapped, step), at = 0;
    if (ranged) ranged_steps(e, n, unrolled, round, acc);
    if (e->shifts) shifted_steps(e, n, round, acc);
    for (int part = 0; part < (parts ? parts : 1); part++) {
        int64_t end = parts ? emit_part(steps, parts, part + 1) : steps;
        if (parts) line(e, "copies_wait(%d);", parts - 1 - part + e->flying);
        at = looped_steps(e, n, at, i64_min(end, looped), round);
        for (; at < end; at++) {
            int64_t left = d->n_mapped - at * step;
            Step s = {arena_printf(e->cx->a, "%lldl", (long long)(at * F)), at * F, at * F % acc,
                      left < step ? left : -1};
            one_step(e, n, &s);
        }
    }
    e->domain = -1;
    e->sweep++;
    count_again(e);
}

/* A short loop of a GPU is one of known length that may end before, so that what it indexes stays in registers. */
static void emit_loop(Emit *e, const Node *n) {
    const char *count = emit_text(e, "%" PRId64, n->count), *end = NULL;
    if (n->ranged) end = emit_text(e, "extent * %" PRId64, n->count / e->k->shape.n[shape_ranged(&e->k->shape)]);
    bool ends_before = end && e->words && n->count <= UNROLL_MOST;
    line(e, "for (i64 %s = 0; %s < %s; %s++) {", e->serial, e->serial, end && !ends_before ? end : count, e->serial);
    if (ends_before) line(e, "    if (%s >= %s) break;", e->serial, end);
}

static void emit_nodes(Emit *e, int at, int end) {
    for (; at != end; at = e->k->node[at].next) {
        const Node *n = &e->k->node[at];
        if (e->speak->ahead && !e->serial) e->speak->ahead(e, n);
        if (n->kind == NODE_SWEEP) {
            emit_sweep(e, n);
        } else if (n->kind == NODE_BLOCK) {
            e->node_end = n->i1;
            for (int i = n->i0; i < n->i1; i++) e->speak->block(e, i);
        } else {
            const char *outer = e->serial;
            e->serial = arena_printf(e->cx->a, "g%d", at);
            if (e->speak->loop) e->speak->loop(e, n);
            emit_loop(e, n);
            e->depth++;
            emit_nodes(e, n->child, -1);
            e->depth--;
            line(e, "}");
            e->serial = outer;
        }
    }
}

/* Are there loops over sweeps behind which alone lanes meet? Then each of their steps computes its own. */
static bool loops_sweep(const Kern *k) {
    bool any = false;
    for (int n = 0; n < k->nnodes; n++) {
        if (k->node[n].kind != NODE_LOOP) continue;
        any = true;
        for (int c = k->node[n].child; c >= 0; c = k->node[c].next)
            for (int i = k->node[c].i0; k->node[c].kind != NODE_LOOP && i < k->node[c].i1; i++)
                if (k->ins[i].k == K_JOIN || k->ins[i].k == K_JOIN2) return false;
    }
    return any;
}

Err unit_emit(Cx *cx, const Problem *pb, const Kern *k, Unit *out) {
    static const struct {
        const Speak *speak;
        Dialect dialect;
    } spoken[KIND_COUNT] = {[KIND_HOST] = {&speak_host, DIALECT_HOST},
                            [KIND_CUDA] = {&speak_cuda, DIALECT_CUDA},
                            [KIND_OPENCL] = {&speak_opencl, DIALECT_OPENCL},
                            [KIND_METAL] = {&speak_metal, DIALECT_METAL}};
    const Speak *speak = spoken[pb->caps.kind].speak;
    Emit e = {.cx = cx, .pb = pb, .k = k, .speak = speak, .out = buf_new(cx->a), .domain = -1, .wide = "ll"};
    if (speak == &speak_host && host_takes_rows(&e)) e.speak = &speak_rows;
    e.speak->head(&e);
    const int body = kern_body(k);
    emit_nodes(&e, k->root, body);
    if (e.speak->rows) e.speak->rows(&e);
    if (!e.speak->nodes || !e.speak->nodes(&e)) emit_nodes(&e, body, -1);
    e.speak->tail(&e);
    Err err = e.speak->check ? e.speak->check(&e) : OK;
    if (err) return err;
    Buf all = buf_new(cx->a), plan = buf_new(cx->a);
    plan_print(&k->plan, &plan);
    buf_fmt(&all, "/* rowfold: %s\n * %s\n", k->name, plan.s);
    int axis = shape_ranged(&k->shape);
    if (axis >= 0)
        buf_fmt(&all, " * %s=%lld..%lld\n", k->prog->axis[axis].name, (long long)k->shape.least[axis],
                (long long)k->shape.n[axis]);
    buf_str(&all, " */\n");
    if (axis >= 0 &&
        e.words) /* where packs are one access the extent is a multiple of them, and so is what is active */
        buf_fmt(&all, "#ifdef ROWFOLD_LOOSE\n#define PART(v) (v)\n#else\n#define PART(v) ((v) / %d * %d)\n#endif\n",
                e.align_extent ? e.align_extent : 1, e.align_extent ? e.align_extent : 1);
    e.speak->prelude(&e, e.out.s, &all);
    buf_put(&all, e.out.s, e.out.n);
    int64_t elements = 0;
    for (int i = 0; i < k->ndomains; i++) elements = i64_max(elements, k->domain[i].n_serial * k->domain[i].n_mapped);
    *out = (Unit){.dialect = spoken[pb->caps.kind].dialect,
                  .isa = pb->caps.isa,
                  .entry = arena_printf(cx->a, "rowfold_kernel_%s", k->name),
                  .text = all.s,
                  .bytes = all.n,
                  .abi = k->abi,
                  .plain = e.nstages || (e.speak == &speak_rows && host_masks_rows(&e)) || loops_sweep(k),
                  .threads = k->plan.threads,
                  .lanes = k->plan.W,
                  .rows_per_group = k->plan.P,
                  .cluster = k->plan.cluster,
                  .split = k->plan.split,
                  .work_bytes = e.work_bytes,
                  .resident = k->plan.grid,
                  .overlap = k->plan.overlap != 0,
                  .shared_bytes = e.shared_bytes,
                  .private_bytes = e.private_bytes,
                  .loads = e.loads,
                  .loads_again = e.loads_again,
                  .elements_per_row = elements};
    memcpy(out->align, e.align, sizeof out->align);
    memcpy(out->align_each, e.align_each, sizeof out->align_each);
    memcpy(out->align_dims, e.align_dims, sizeof out->align_dims);
    out->extent = kern_extent(k), out->align_extent = e.align_extent;
    return OK;
}
