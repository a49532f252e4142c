/* Where units for GPUs touch memory: packs as accesses of up to 16 bytes, with the cache policy of the plan, and
 * stripes in registers or on-chip memory. Values pass through as 32-bit words, so that what is only kept is never
 * converted. */
#include "gpugen.h"

#include <inttypes.h>
#include <string.h>

/* ---- packs: V elements as 32-bit words ---- */

typedef struct Pack { /* how a lane's V elements of a type are accessed: pieces of `each` elements */
    Ty ty;
    int bytes, each, words; /* words: of one piece; those shorter than one take one */
} Pack;

static Pack pack_make(Ty ty, int each) {
    int bytes = ty_bytes(ty);
    return (Pack){ty, bytes, each, each * bytes < 4 ? 1 : each * bytes / 4};
}

static bool row_axis(const Emit *e, int axis) {
    return e->k->prog->row_axes >> axis & 1;
}

/* One piece of a pack, and what it asks of memory. */
static Pack pack_of(Emit *e, const Ins *in) {
    const Param *p = &e->k->prog->param[in->param];
    uint32_t mapped = e->k->domain[e->domain].mapped;
    int each = in->a[1] >= 0 ? 1 : plan_piece(e->k->prog, &e->k->shape, e->k->plan.V, in->param, mapped);
    if (each > 1) {
        int ranged = shape_ranged(&e->k->shape);
        for (int d = 0; d < p->rank; d++)
            if (p->axis[d] == ranged && each > e->align_extent) e->align_extent = each;
        if (each > e->align_each[in->param])
            e->align_each[in->param] = each, e->align[in->param] = each * ty_bytes(p->ty);
        for (int d = 0; d < p->rank; d++)
            if (!(mapped >> p->axis[d] & 1) && (row_axis(e, p->axis[d]) || e->k->shape.n[p->axis[d]] != 1))
                e->align_dims[in->param] |= (uint8_t)(1u << d);
    }
    return pack_make(p->ty, each);
}

static int word_at(const Pack *k, int v) {
    return v / k->each * k->words + v % k->each * k->bytes / 4;
}
static int shift_at(const Pack *k, int v) {
    return v % k->each * k->bytes % 4 * 8;
}

/* Element v out of words `w`_0, `w`_1 ... */
static const char *unpack(Emit *e, const Pack *k, const char *w, int v) {
    int i = word_at(k, v), s = shift_at(k, v);
    const char *t = ty_text(k->ty);
    if (k->bytes == 8) return emit_text(e, "up_%s(%s%d | (u64)%s%d << 32)", t, w, i, w, i + 1);
    if (k->bytes == 4 || (k->each == 1)) return emit_text(e, "up_%s(%s%d)", t, w, i);
    return emit_text(e, "up_%s(%s%d >> %d & 0x%xu)", t, w, i, s, k->bytes == 2 ? 0xffffu : 0xffu);
}

/* Word i of the elements x[]. */
static const char *pack_word(Emit *e, const Pack *k, const char *const *x, int i) {
    const char *t = ty_text(k->ty);
    bool pairs = ty_is_float(k->ty);
    if (k->bytes == 8) return emit_text(e, "(u32)(dn_%s(%s) >> %d)", t, x[i / 2], i % 2 * 32);
    int n = k->each * k->bytes < 4 ? k->each : 4 / k->bytes, v = i / k->words * k->each + i % k->words * (4 / k->bytes);
    if (n == 1) return emit_text(e, "dn_%s(%s)", t, x[v]);
    if (k->bytes == 2)
        return pairs ? emit_text(e, "pk_%s(%s, %s)", t, x[v], x[v + 1])
                     : emit_text(e, "dn_%s(%s) | dn_%s(%s) << 16", t, x[v], t, x[v + 1]);
    Buf b = buf_new(e->cx->a);
    for (int j = 0; j < n; j += pairs ? 2 : 1) {
        if (pairs)
            buf_fmt(&b, "%spk_%s(%s, %s) << %d", j ? " | " : "", t, x[v + j], x[v + j + 1], 8 * j);
        else
            buf_fmt(&b, "%sdn_%s(%s) << %d", j ? " | " : "", t, x[v + j], 8 * j);
    }
    return b.s;
}

/* ---- memory ---- */

bool gpu_is_weight(const Emit *e, int param) { /* all rows read it */
    const Param *p = &e->k->prog->param[param];
    for (int d = 0; d < p->rank; d++)
        if (row_axis(e, p->axis[d])) return false;
    return true;
}

/* How many sweeps load the parameter by packs; and where the last of them ends. */
static int sweeps_loading(const Emit *e, int param, int *end) {
    const Kern *k = e->k;
    int sweeps = 0;
    for (int n = 0; n < k->nnodes; n++) {
        bool loads = false;
        for (int j = k->node[n].i0; j < k->node[n].i1 && k->node[n].kind == NODE_SWEEP; j++)
            loads |= k->ins[j].k == K_LOADP && k->ins[j].param == param;
        if (loads && end) *end = k->node[n].i1;
        sweeps += loads;
    }
    return sweeps;
}

/* Is the sweep being emitted the last of several that load the parameter? */
static bool is_last_read(const Emit *e, int param) {
    int last = -1;
    return sweeps_loading(e, param, &last) > 1 && e->node_end == last;
}

static const char *plain_policy(Emit *e, int i) {
    const Ins *in = gpu_at(e, i);
    bool input = e->k->prog->param[in->param].dir == DIR_IN;
    if (in->policy == LOAD_KEEP) return gpu_is_weight(e, in->param) || !is_last_read(e, in->param) ? "keep" : "last";
    if (in->policy == LOAD_PLAIN || gpu_is_weight(e, in->param)) return "plain";
    return in->policy == LOAD_STREAM ? "stream" : input ? "once" : "noalloc";
}

/* In a loop over serial points loads of inputs, which nothing writes, may go before the stores of the round ahead. What
 * all rows share and one sweep loads is in no danger of being kept from an earlier one: early=free leaves it to the
 * compiler where such loads go, which brings those of many chunks before the first store. */
static const char *load_policy(Emit *e, int i) {
    const char *how = plain_policy(e, i);
    int param = gpu_at(e, i)->param;
    bool moves = e->words->dialect == DIALECT_CUDA && e->pb->noalias && e->k->prog->param[param].dir == DIR_IN;
    if (moves && e->k->plan.early == EARLY_FREE && gpu_is_weight(e, param) && sweeps_loading(e, param, NULL) == 1)
        return emit_text(e, "%sfree", how);
    return moves && e->serial && !str_eq(how, "once") ? emit_text(e, "%snc", how) : how;
}

/* Where pack element v of chunk f lies. */
static const char *spot(Emit *e, const Ins *in, const Step *s, int f, int v) {
    const Plan *p = &e->k->plan;
    int64_t chunk = (int64_t)plan_lanes(p) * p->V;
    const char *base = gpu_val(e, in->a[0], 0, 0), *first = emit_text(e, "p%d + %s", in->param, base);
    const char *elem = emit_text(e, "(%s * %" PRId64 " + %" PRId64 ")", s->chunk, chunk, f * chunk + v);
    if (in->a[1] < 0) return emit_text(e, "%s + lane * %d + %s", first, p->V, elem);
    return emit_text(e, "%s + (lane * %d + %s) * %s", first, p->V, elem, gpu_val(e, in->a[1], 0, 0));
}

static void count_loads(Emit *e, const Ins *in, int n) {
    e->loads += n;
    e->loads_here[in->param] += n;
}

/* Which lanes load: NULL: all. A row that is done once more must not read what the row itself is writing. */
static const char *loads_where(Emit *e, const Ins *in, const Step *s, int f, int v) {
    const char *active = gpu_active(e, s, f, v), *alive = gpu_alive(e);
    if (!alive || e->k->prog->param[in->param].dir == DIR_IN) return active;
    return active ? gpu_both(e, active, alive) : emit_text(e, "(%s)", alive);
}

/* Words `w`0, `w`1 ... of a pack, declared and loaded. */
void gpu_load_words(Emit *e, int i, const Step *s, int f, const char *w) {
    const Ins *in = gpu_at(e, i);
    Pack k = pack_of(e, in);
    int pieces = e->k->plan.V / k.each;
    const char *how = load_policy(e, i);
    const char *hint = str_starts(how, "keep") ? ", hot" : str_starts(how, "last") ? ", cold" : "";
    Buf names = buf_new(e->cx->a);
    for (int j = 0; j < pieces * k.words; j++) buf_fmt(&names, "%s%s%d = 0", j ? ", " : "", w, j);
    line(e, "u32 %s;", names.s);
    for (int j = 0; j < pieces; j++) {
        const char *if_active = loads_where(e, in, s, f, j * k.each);
        Buf b = buf_new(e->cx->a);
        for (int q = 0; q < k.words; q++) buf_fmt(&b, "%s%d, ", w, j * k.words + q);
        const char *rest = emit_text(e, "%s%s", spot(e, in, s, f, j * k.each), hint);
        /* a piece that the end cuts: its elements one by one; also where it may, for memory not aligned to pieces, the
         * extent among it */
        int64_t left = gpu_left(e, s, f);
        bool may = left == LEFT_SIZE && k.each > 1;
        if (may) line(e, "#ifdef ROWFOLD_LOOSE");
        if (may || (left >= 0 && left % k.each)) {
            for (int v = j * k.each; v < (j + 1) * k.each; v++) {
                const char *to = emit_text(e, "%s%d", w, word_at(&k, v));
                if (k.bytes == 8) to = emit_text(e, "%s, %s%d", to, w, word_at(&k, v) + 1);
                count_loads(e, in, v < left); /* else in no lane */
                line(e, "if %s put%d(%s, %d, lde%d_%s(%s%s));", loads_where(e, in, s, f, v), k.bytes, to,
                     shift_at(&k, v), k.bytes, how, spot(e, in, s, f, v), hint);
            }
            if (!may) continue;
            line(e, "#else");
        }
        count_loads(e, in, 1);
        if (if_active)
            line(e, "ldn%dx%d_%s(%s%s, %s);", k.each * k.bytes, k.bytes, how, b.s, if_active, rest);
        else
            line(e, "ld%dx%d_%s(%s%s);", k.each * k.bytes, k.bytes, how, b.s, rest);
        if (may) line(e, "#endif");
    }
}

static const char *words_of(Emit *e, int i, const Step *s, int f) {
    return e->early[i] ? emit_text(e, "q%d_%" PRId64 "_", i, s->number + f) : emit_text(e, "w%d_%d_", i, f);
}

/* ---- stripes: registers, so every index is a constant. Types shorter than a word share words. ---- */

bool gpu_shares_words(Ty t) {
    return ty_bytes(t) < 4 && t != TY_BOOL;
}

static Pack stripe_pack(const Emit *e, const Stripe *s) {
    int each = e->k->plan.V;
    while (each * ty_bytes(s->ty) > 16) each /= 2;
    return pack_make(s->ty, each);
}

int gpu_stripe_words(const Emit *e, const Stripe *s) { /* of one chunk */
    Pack k = stripe_pack(e, s);
    return gpu_shares_words(s->ty) ? e->k->plan.V / k.each * k.words : e->k->plan.V;
}

int64_t gpu_stripe_chunks(const Emit *e, const Stripe *s) {
    return ceil_div(emit_room(e, &e->k->domain[s->domain]), (int64_t)plan_lanes(&e->k->plan) * e->k->plan.V);
}

int64_t gpu_stripe_bytes(const Emit *e, int stripe) {
    const Kern *k = e->k;
    const Stripe *s = &k->stripe[stripe];
    const int64_t each = k->domain[s->domain].n_serial * gpu_stripe_chunks(e, s) * k->plan.V * ty_bytes(s->ty);
    return (each * k->plan.W * k->plan.P + 15) / 16 * 16;
}

static const char *stripe_at(Emit *e, const Ins *in, const Step *s, int f, int word) {
    const Stripe *st = &e->k->stripe[in->imm];
    int words = gpu_stripe_words(e, st);
    const char *point =
        in->a[0] < 0 ? ""
                     : emit_text(e, " + %s * %" PRId64, gpu_val(e, in->a[0], 0, 0), gpu_stripe_chunks(e, st) * words);
    return emit_text(e, "s%d[(%s + %d) * %d + %d%s]", in->imm, s->chunk, f, words, word, point);
}

/* A piece of a stripe in on-chip memory: those of all threads of the group lie side by side. */
static const char *shared_at(Emit *e, const Ins *in, const Step *s, int f, int piece) {
    const Stripe *st = &e->k->stripe[in->imm];
    Pack k = stripe_pack(e, st);
    int pieces = e->k->plan.V / k.each, bytes = k.each * k.bytes, threads = e->k->plan.W * e->k->plan.P;
    const char *point = in->a[0] < 0 ? ""
                                     : emit_text(e, " + (i32)%s * %" PRId64, gpu_val(e, in->a[0], 0, 0),
                                                 gpu_stripe_chunks(e, st) * pieces);
    return emit_text(e, "sh%d + ((((i32)%s + %d) * %d + %d%s) * %d + tid) * %d", in->imm, s->chunk, f, pieces, piece,
                     point, threads, bytes);
}

static void get_shared_words(Emit *e, const Ins *in, const Step *s, int f, const char *w) {
    Pack k = stripe_pack(e, &e->k->stripe[in->imm]);
    for (int j = 0; j < e->k->plan.V / k.each; j++) {
        Buf names = buf_new(e->cx->a);
        for (int q = 0; q < k.words; q++) buf_fmt(&names, "%s%s%d", q ? ", " : "", w, j * k.words + q);
        line(e, "u32 %s;", names.s);
        line(e, "lds%d(%s, %s);", k.each * k.bytes, names.s, shared_at(e, in, s, f, j));
    }
}

static void get_shared(Emit *e, int i, const Step *s, int f) {
    const Ins *in = gpu_at(e, i);
    Pack k = stripe_pack(e, &e->k->stripe[in->imm]);
    const char *w = emit_text(e, "w%d_%d_", i, f);
    get_shared_words(e, in, s, f, w);
    for (int v = 0; v < e->k->plan.V; v++) gpu_declare(e, i, f, v, unpack(e, &k, w, v));
}

static void put_words(Emit *e, const Ins *in, const Step *s, int f, const char *w) {
    Pack k = stripe_pack(e, &e->k->stripe[in->imm]);
    for (int j = 0; j < e->k->plan.V / k.each; j++) {
        Buf b = buf_new(e->cx->a);
        for (int q = 0; q < k.words; q++) buf_fmt(&b, ", %s%d", w, j * k.words + q);
        line(e, "sts%d(%s%s);", k.each * k.bytes, shared_at(e, in, s, f, j), b.s);
    }
}

/* Copies take 4, 8 or 16 bytes. */
bool gpu_copies_pack(Emit *e, int load, int put) {
    const Ins *in = gpu_at(e, load);
    Pack k = pack_of(e, in), held = stripe_pack(e, &e->k->stripe[gpu_at(e, put)->imm]);
    return in->a[1] < 0 && k.ty == held.ty && k.each <= held.each && k.each * k.bytes >= 4;
}

/* A chunk on its way into the stripe, one copy a piece; a chunk with a piece that the end cuts goes through registers.
 */
void gpu_copy_pack(Emit *e, int load, int put, const Step *s) {
    const Ins *in = gpu_at(e, load), *to = gpu_at(e, put);
    Pack k = pack_of(e, in), held = stripe_pack(e, &e->k->stripe[to->imm]);
    const int64_t left = gpu_left(e, s, 0);
    if (left >= 0 && left % k.each) {
        const char *w = emit_text(e, "w%d_c_", load);
        line(e, "{");
        e->depth++;
        gpu_load_words(e, load, s, 0, w);
        put_words(e, to, s, 0, w); /* pieces are whole words, so words lie alike in both */
        e->depth--;
        line(e, "}");
        return;
    }
    const char *how = in->policy == LOAD_KEEP ? "keep" : "plain", *hint = in->policy == LOAD_KEEP ? ", hot" : "";
    for (int v = 0; v < e->k->plan.V; v += k.each) {
        const char *if_active = gpu_active(e, s, 0, v);
        const char *at = emit_text(e, "%s + %d", shared_at(e, to, s, 0, v / held.each), v % held.each * k.bytes);
        if (in->policy == LOAD_KEEP) at = emit_text(e, "(%s) ^ nil", at);
        count_loads(e, in, 1);
        line(e, "%scpa%dx%d_%s(%s, %s%s);", if_active ? emit_text(e, "if %s ", if_active) : "", k.each * k.bytes,
             k.bytes, how, at, spot(e, in, s, 0, v), hint);
    }
}

static void put_shared(Emit *e, int i, const Step *s, int f) {
    const Ins *in = gpu_at(e, i), *from = gpu_at(e, in->a[1]);
    const Stripe *st = &e->k->stripe[in->imm];
    Pack k = stripe_pack(e, st);
    const char *x[16] = {NULL};
    bool same = from->k == K_LOADP && gpu_tensor(e, from->param) == st->ty && pack_of(e, from).each == k.each;
    for (int v = 0; v < e->k->plan.V; v++) x[v] = gpu_val(e, in->a[1], f, v);
    for (int j = 0; j < e->k->plan.V / k.each; j++) {
        Buf b = buf_new(e->cx->a);
        for (int q = 0; q < k.words; q++)
            buf_fmt(&b, ", %s",
                    same ? emit_text(e, "%s%d", words_of(e, in->a[1], s, f), j * k.words + q)
                         : pack_word(e, &k, x, j * k.words + q));
        line(e, "sts%d(%s%s);", k.each * k.bytes, shared_at(e, in, s, f, j), b.s);
    }
}

/* ---- whole packs ---- */

void gpu_load_pack(Emit *e, int i, const Step *s, int f) {
    Pack k = pack_of(e, gpu_at(e, i));
    const char *w = words_of(e, i, s, f);
    if (e->copied[i]) {
        Pack held = stripe_pack(e, &e->k->stripe[gpu_at(e, e->copied[i])->imm]);
        get_shared_words(e, gpu_at(e, e->copied[i]), s, f, w);
        for (int v = 0; v < e->k->plan.V; v++) gpu_declare(e, i, f, v, unpack(e, &held, w, v));
        return;
    }
    if (!e->early[i]) gpu_load_words(e, i, s, f, w);
    /* an assembler would move loads down to their use, past the joins; so the row's first use waits for them too */
    if (!e->early[i] && e->tied) {
        line(e, "%s0 |= tie & (u32)(rows >> 63); /* nothing */", w);
        e->tied = false;
    }
    for (int v = 0; v < e->k->plan.V; v++) gpu_declare(e, i, f, v, unpack(e, &k, w, v));
}

static const char *stored(Emit *e, const Ins *in, const char *x) {
    Ty to = gpu_tensor(e, in->param);
    return ty_compute(to) == in->ty ? x : gpu_cast(e, in->ty, to, x);
}

static const char *store_policy(const Ins *in) {
    return in->policy == STORE_STREAM ? "stream" : "plain";
}

/* The pack as pieces that may be smaller than its own. */
static void store_pieces(Emit *e, int i, const Step *s, int f, Pack q, const char *const *x) {
    const Ins *in = gpu_at(e, i);
    const char *how = store_policy(in);
    for (int j = 0; j < e->k->plan.V / q.each; j++) {
        const char *ok = gpu_both(e, gpu_active(e, s, f, j * q.each), gpu_alive(e));
        Buf b = buf_new(e->cx->a);
        for (int w = 0; w < q.words; w++) buf_fmt(&b, ", %s", pack_word(e, &q, x, j * q.words + w));
        const char *to = spot(e, in, s, f, j * q.each);
        if (ok)
            line(e, "stn%dx%d_%s(%s, %s%s);", q.each * q.bytes, q.bytes, how, ok, to, b.s);
        else
            line(e, "st%dx%d_%s(%s%s);", q.each * q.bytes, q.bytes, how, to, b.s);
    }
}

void gpu_store_pack(Emit *e, int i, const Step *s, int f) {
    const Ins *in = gpu_at(e, i);
    Pack k = pack_of(e, in);
    int V = e->k->plan.V;
    const char *x[16] = {NULL};
    for (int v = 0; v < V; v++) x[v] = stored(e, in, gpu_val(e, in->a[2], f, v));
    int64_t left = gpu_left(e, s, f);
    bool cut = left >= 0 && left % k.each, may = left == LEFT_SIZE && k.each > 1; /* as gpu_load_words */
    if (may) line(e, "#ifdef ROWFOLD_LOOSE");
    if (may) store_pieces(e, i, s, f, pack_make(k.ty, 1), x);
    if (may) line(e, "#else");
    store_pieces(e, i, s, f, cut ? pack_make(k.ty, 1) : k, x);
    if (may) line(e, "#endif");
}

const char *gpu_load_bits(Emit *e, const Ins *in, const char *index) {
    return emit_text(e, "lde%d_plain(p%d + %s)", ty_bytes(gpu_tensor(e, in->param)), in->param, index);
}

const char *gpu_load_one(Emit *e, const Ins *in, const char *index) {
    return emit_text(e, "up_%s(%s)", ty_text(gpu_tensor(e, in->param)), gpu_load_bits(e, in, index));
}

void gpu_store_one(Emit *e, const Ins *in, const char *ok, const char *index, const char *x) {
    Pack k = pack_make(gpu_tensor(e, in->param), 1);
    const char *one[4] = {stored(e, in, x)}; /* room for the most elements of a word */
    Buf b = buf_new(e->cx->a);
    for (int w = 0; w < k.words; w++) buf_fmt(&b, ", %s", pack_word(e, &k, one, w));
    line(e, "stn%dx%d_%s(%s, p%d + %s%s);", k.bytes, k.bytes, store_policy(in), ok ? ok : "true", in->param, index,
         b.s);
}

/* Words that several elements share are widened in each sweep: by means of a number that is 0, for all that a compiler
 * knows another one in each sweep and for each row, or it would widen them once and keep that, in up to twice as many
 * registers. Plans with early=on have registers to spare, and less to do is sooner there; with grid, what is held for
 * many rows is widened once for as much of it as there are registers. */
void gpu_get(Emit *e, int i, const Step *s, int f) {
    const Ins *in = gpu_at(e, i);
    const Plan *p = &e->k->plan;
    const Stripe *st = &e->k->stripe[in->imm];
    Pack k = stripe_pack(e, st);
    int V = e->k->plan.V;
    if (st->home == HOLD_SHARED) {
        get_shared(e, i, s, f);
        return;
    }
    if (!gpu_shares_words(st->ty)) {
        for (int v = 0; v < V; v++) gpu_declare(e, i, f, v, stripe_at(e, in, s, f, v));
        return;
    }
    const char *w = emit_text(e, "w%d_%d_", i, f), *z = emit_text(e, "z%d_%d", i, f);
    const bool hidden = e->words->hides && k.each > 1 && p->early != EARLY_ON && !p->grid,
               halves = hidden && st->ty == TY_BF16;
    if (hidden) line(e, "const u32 %s = (u32)(rows >> %d); /* nothing */", z, 63 - e->sweep % 8);
    for (int j = 0; j < gpu_stripe_words(e, st); j++)
        line(e, "const u32 %s%d = %s%s;", w, j, stripe_at(e, in, s, f, j),
             hidden && !halves ? emit_text(e, " ^ %s", z) : "");
    for (int v = 0; v < V; v++)
        gpu_declare(e, i, f, v,
                    halves ? emit_text(e, "%s_bf16(%s%d, %s)", shift_at(&k, v) ? "hi" : "lo", w, word_at(&k, v), z)
                           : unpack(e, &k, w, v));
}

void gpu_put(Emit *e, int i, const Step *s, int f) {
    const Ins *in = gpu_at(e, i), *from = gpu_at(e, in->a[1]);
    const Stripe *st = &e->k->stripe[in->imm];
    Pack k = stripe_pack(e, st);
    int V = e->k->plan.V;
    const char *x[16] = {NULL};
    if (st->home == HOLD_SHARED && e->copied[in->a[1]]) return; /* it is there */
    if (st->home == HOLD_SHARED) {
        put_shared(e, i, s, f);
        return;
    }
    for (int v = 0; v < V; v++) x[v] = gpu_val(e, in->a[1], f, v);
    if (!gpu_shares_words(st->ty)) {
        for (int v = 0; v < V; v++) line(e, "%s = %s;", stripe_at(e, in, s, f, v), x[v]);
        return;
    }
    bool same = from->k == K_LOADP && gpu_tensor(e, from->param) == st->ty && pack_of(e, from).each == k.each;
    for (int j = 0; j < gpu_stripe_words(e, st); j++)
        line(e, "%s = %s;", stripe_at(e, in, s, f, j),
             same ? emit_text(e, "%s%d", words_of(e, in->a[1], s, f), j) : pack_word(e, &k, x, j));
}
