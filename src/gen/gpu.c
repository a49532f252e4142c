/* What the dialects of GPUs spell alike: a row's W lanes are threads, P rows a group. A value of rank ELEM is one
 * variable for each chunk in flight and pack element, any other rank one variable. Where they differ stands in
 * GpuWords, in the head of each dialect and in the functions of its prelude. */
#include "gpugen.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const Ins *gpu_at(const Emit *e, int i) {
    return &e->k->ins[i];
}

const char *gpu_type(Ty t) {
    return t == TY_BOOL ? "b1" : ty_text(t);
}

Ty gpu_tensor(const Emit *e, int param) {
    return e->k->prog->param[param].ty;
}

static const char *literal(Emit *e, Ty ty, Num c) {
    if (ty == TY_BOOL) return c.b ? "true" : "false";
    if (ty == TY_F32 && isnan(c.f)) return "NAN_F32";
    if (ty == TY_F32 && isinf(c.f)) return c.f < 0 ? "(-INF_F32)" : "INF_F32";
    if (ty == TY_F64 && isnan(c.d)) return "NAN_F64";
    if (ty == TY_F64 && isinf(c.d)) return c.d < 0 ? "(-INF_F64)" : "INF_F64";
    if (ty == TY_F32 && e->words->decimal) { /* nine digits are enough for each f32 to come back */
        const char *x = emit_text(e, "%.9g", (double)c.f);
        return emit_text(e, signbit(c.f) ? "(%s%sf)" : "%s%sf", x, strpbrk(x, ".e") ? "" : ".0");
    }
    return emit_number(e, ty, c);
}

/* A value, at chunk f and pack element v where it has one for each. */
const char *gpu_val(Emit *e, int i, int f, int v) {
    const Ins *in = gpu_at(e, i);
    if (in->k == K_CONST) return literal(e, in->ty, in->c);
    return in->rank == RANK_ELEM ? emit_text(e, "v%d_%d_%d", i, f, v) : emit_text(e, "v%d", i);
}

void gpu_declare(Emit *e, int i, int f, int v, const char *what) {
    const Ins *in = gpu_at(e, i);
    const char *note = in->note && f + v <= 0 ? emit_text(e, " /* %s */", in->note) : "";
    line(e, "const %s %s = %s;%s", gpu_type(in->ty), gpu_val(e, i, f, v), what, note);
}

/* Type of an index beside values of a type: what a key holds, where the dialect has keys. */
static Ty place_type(const Emit *e, Ty ty) {
    return e->narrow && ty_bytes(ty) == 4 && ty != TY_BOOL ? TY_I32 : TY_I64;
}

/* ---- operators ---- */

static const char *apply(Emit *e, Op op, Ty ty, const char *x, const char *y, const char *z) {
    Buf b = buf_new(e->cx->a);
    buf_str(&b, "(");
    for (const char *c = op_info(op)->spell[e->words->dialect]; *c; c++) {
        if (*c != '$') {
            buf_put(&b, c, 1);
            continue;
        }
        c++;
        buf_str(&b, *c == 't' ? ty_text(ty) : *c == '0' ? x : *c == '1' ? y : z);
    }
    buf_str(&b, ")");
    return b.s;
}

const char *gpu_cast(Emit *e, Ty from, Ty to, const char *x) {
    return emit_text(e, "cast_%s_%s(%s)", ty_text(from), ty_text(to), x);
}

static const char *value(Emit *e, const Ins *in, int f, int v) {
    const char *x[3] = {NULL, NULL, NULL};
    for (int i = 0; i < op_info(in->op)->arity; i++) x[i] = gpu_val(e, in->a[i], f, v);
    if (in->op == OP_CAST) return gpu_cast(e, gpu_at(e, in->a[0])->ty, in->to, x[0]);
    Ty named = op_info(in->op)->typing == TR_CMP ? gpu_at(e, in->a[0])->ty : in->ty;
    return apply(e, in->op, named, x[0], x[1], x[2]);
}

/* The value that leaves the other operand as it is, bit for bit. */
static const char *identity(Emit *e, Op op, Ty ty) {
    Num n = {0};
    bool f = ty_is_float(ty);
    switch (op) {
    case OP_ADD: return f ? (ty == TY_F32 ? "(-0.0f)" : "(-0.0)") : "0";
    case OP_MUL: return f ? (ty == TY_F32 ? "1.0f" : "1.0") : "1";
    case OP_AND: return "true";
    case OP_OR: return "false";
    default: break;
    }
    Red r = op == OP_MAX || op == OP_ATLEAST ? RED_MAX : RED_MIN;
    if (ty == TY_F32)
        n.f = (float)red_identity_f64(r, ty);
    else if (f)
        n.d = red_identity_f64(r, ty);
    else
        n.i = ty_end(ty, r == RED_MIN);
    return literal(e, ty, n);
}

/* ---- which elements are active ---- */

int64_t gpu_left(const Emit *e, const Step *s, int f) {
    int64_t chunk = (int64_t)plan_lanes(&e->k->plan) * e->k->plan.V, left = s->left - f * chunk;
    if (s->left == LEFT_SIZE)
        return s->number >= 0 && (s->number + f) * chunk >= e->k->domain[e->domain].n_mapped ? 0 : LEFT_SIZE;
    if (s->left < 0 || left >= chunk) return -1;
    return left > 0 ? left : 0;
}

/* "Element v of chunk f is active in this lane", as a condition; NULL: always. Packs that the end does not cut are
 * active as a whole. */
const char *gpu_active(Emit *e, const Step *s, int f, int v) {
    int64_t left = gpu_left(e, s, f), chunk = (int64_t)plan_lanes(&e->k->plan) * e->k->plan.V;
    int V = e->k->plan.V;
    if (left == LEFT_SIZE && s->number >= 0)
        return emit_text(e, "(lane * %d + %" PRId64 " + PART(%d) < %s)", V, (s->number + f) * chunk, v,
                         emit_size(e, e->domain));
    if (left == LEFT_SIZE)
        return emit_text(e, "(lane * %d + %" PRId64 " + PART(%d) < %s - %s * %" PRId64 ")", V, f * chunk, v,
                         emit_size(e, e->domain), s->chunk, chunk);
    if (left < 0) return NULL;
    return emit_text(e, "(lane * %d < %" PRId64 ")", V, left % V ? left - v : left);
}

const char *gpu_both(Emit *e, const char *x, const char *y) {
    return !x ? y : !y ? x : emit_text(e, "(%s & %s)", x, y);
}

/* Rows past the last are done as the last, without its stores. */
const char *gpu_alive(const Emit *e) {
    return e->k->plan.P > 1 ? "live" : NULL;
}

/* Does the cell have an accumulator for each chunk? */
static bool is_parts(const Emit *e, int cell) {
    for (int i = 0; i < e->k->nins; i++)
        if (gpu_at(e, i)->k == K_SETPART && gpu_at(e, i)->imm == cell) return true;
    return false;
}

bool gpu_unrolls(const Emit *e, const Node *n) {
    for (int i = n->i0; i < n->i1; i++)
        if (gpu_at(e, i)->k == K_PART || (gpu_at(e, i)->k == K_FOLD && is_parts(e, gpu_at(e, i)->imm))) return true;
    for (int i = n->i0; i < n->i1; i++)
        if ((gpu_at(e, i)->k == K_GET || gpu_at(e, i)->k == K_PUT) &&
            e->k->stripe[gpu_at(e, i)->imm].home == HOLD_REGISTER)
            return true;
    return false;
}

/* Memory of another group may be written once that group has started, which all said when they did. */
static void cluster_ready(Emit *e) {
    if (!e->cluster_waits) return;
    line(e, "cluster_wait();");
    e->cluster_waits = false;
}

/* Does the loop keep something of each serial point in registers? */
static bool indexes_by_point(const Emit *e, const Node *loop) {
    for (int n = loop->child; n >= 0; n = e->k->node[n].next)
        for (int i = e->k->node[n].i0; i < e->k->node[n].i1; i++) {
            const Ins *in = gpu_at(e, i);
            if (in->k == K_ROWGET || in->k == K_ROWPUT) return true;
            if ((in->k == K_GET || in->k == K_PUT) && e->k->stripe[in->imm].home == HOLD_REGISTER) return true;
        }
    return false;
}

/* A loop over serial points in which stripes or row arrays are indexed: unrolled, the indexes become constants. */
void gpu_loop(Emit *e, const Node *n) {
    cluster_ready(e);
    if (!indexes_by_point(e, n))
        line(e, "#pragma unroll 4"); /* loads of one round go before the stores of another */
    else
        line(e, n->count <= UNROLL_MOST ? "#pragma unroll" : "#pragma unroll 1"); /* to its largest count */
}

/* ---- joins ---- */

/* Rows that lie side by side in memory, as the columns of a matrix do: then threads next to each other are rows next to
 * each other, not lanes, so that a load of the group is one run. Lanes of a row are then P threads apart and meet in
 * on-chip memory. */
static bool rows_side_by_side(const Emit *e) {
    const Prog *p = e->k->prog;
    int last = -1;
    if (e->k->plan.P == 1 || (e->k->plan.W > e->k->subgroup && e->k->subgroup > 1)) return false;
    for (int i = 0; i < p->naxes; i++)
        if (p->row_axes >> i & 1) last = i;
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        if (q->dir == DIR_IN && q->rank > 1 && q->axis[q->rank - 1] == last) return true;
    }
    return false;
}

static const char *join_name(Op op) {
    return op == OP_MIN ? "min" : "max";
}

/* Pairs of 32 bits each meet as one number of 64 that orders as the pairs do: the value's bits in order, NaN first,
 * then the lower index. */
static bool is_keyed(const Emit *e, const Ins *in) {
    return in->k == K_JOIN2 && place_type(e, in->ty) == TY_I32;
}

/* What lanes join for instruction i. */
static Ins joined(const Emit *e, int i) {
    const Ins *in = gpu_at(e, i);
    return is_keyed(e, in) ? (Ins){.k = K_JOIN, .op = OP_MAX, .ty = TY_U64} : *in;
}

/* x = op(x, lane i ^ h): every lane ends with the value that join_tree leaves in lane 0, for the operators commute.
 * again: the lanes of a subgroup have the same values over and over. */
static void halve(Emit *e, int i, int lanes, bool again) {
    const Ins own = joined(e, i), *in = &own;
    /* the greatest and the least are the same by any tree; of 32 bits there is an instruction for all lanes at once */
    if (e->words->at_once && (in->op == OP_MAX || in->op == OP_MIN) && in->k != K_JOIN2 && in->ty != TY_F64 &&
        in->ty != TY_I64 && (in->ty != TY_U64 || is_keyed(e, gpu_at(e, i))) &&
        (lanes == e->k->subgroup || (again && lanes > 2))) {
        line(e, "x%d = all%s_%s(x%d%s);", i, join_name(in->op), ty_text(in->ty), i, e->words->who);
        return;
    }
    for (int h = lanes / 2; h >= 1; h /= 2) {
        if (in->k != K_JOIN2)
            line(e, "x%d = %s;", i,
                 apply(e, in->op, in->ty, emit_text(e, "x%d", i),
                       emit_text(e, "shx_%s(x%d, %d%s)", ty_text(in->ty), i, h, e->words->who), NULL));
        else
            line(e, "meet_%s_%s(x%d, x%d, %d%s);", join_name(in->op), ty_text(in->ty), i, i + 1, h, e->words->who);
    }
}

static void join_begin(Emit *e, int i) {
    const Ins *in = gpu_at(e, i);
    if (is_keyed(e, in)) {
        line(e, "u64 x%d = key_%s_%s(%s, (i32)%s);", i, join_name(in->op), ty_text(in->ty), gpu_val(e, in->a[0], 0, 0),
             gpu_val(e, in->a[1], 0, 0));
        if (!e->side_by_side) halve(e, i, e->k->plan.W < e->k->subgroup ? e->k->plan.W : e->k->subgroup, false);
        return;
    }
    line(e, "%s x%d = %s;", gpu_type(in->ty), i, gpu_val(e, in->a[0], 0, 0));
    if (in->k == K_JOIN2) line(e, "i64 x%d = %s;", i + 1, gpu_val(e, in->a[1], 0, 0));
    if (!e->side_by_side) halve(e, i, e->k->plan.W < e->k->subgroup ? e->k->plan.W : e->k->subgroup, false);
}

/* The same halving, of values that lanes leave in on-chip memory; every lane does all of it. */
static void exchange_all(Emit *e, const int *join, int n) {
    int W = e->k->plan.W, P = e->k->plan.P, slot = 0;
    for (int j = 0; j < n; j++) {
        const Ins own = joined(e, join[j]), *in = &own;
        line(e, "xs[xb][%d][tid] = xput_%s(x%d);", slot++, ty_text(in->ty), join[j]);
        if (in->k == K_JOIN2) line(e, "xs[xb][%d][tid] = xput_i64(x%d);", slot++, join[j] + 1);
    }
    line(e, "%s;", e->words->barrier);
    slot = 0;
    for (int j = 0; j < n; j++) {
        int i = join[j];
        const Ins own = joined(e, i), *in = &own;
        const char *t = ty_text(in->ty);
        bool pair = in->k == K_JOIN2;
        line(e, "{");
        line(e, "    %s part[%d];", gpu_type(in->ty), W);
        if (pair) line(e, "    i64 place[%d];", W);
        line(e,
             "    _Pragma(\"unroll\") for (i32 l = 0; l < %d; l++) part[l] = xget_%s(xs[xb][%d][l * %d + tid %% %d]);",
             W, t, slot, P, P);
        if (pair)
            line(e,
                 "    _Pragma(\"unroll\") for (i32 l = 0; l < %d; l++) place[l] = xget_i64(xs[xb][%d][l * %d + tid %% "
                 "%d]);",
                 W, slot + 1, P, P);
        for (int h = W / 2; h >= 1; h /= 2) {
            line(e, "    _Pragma(\"unroll\") for (i32 l = 0; l < %d; l++)", h);
            if (pair)
                line(e,
                     "        if (beats_%s_%s(part[l + %d], place[l + %d], part[l], place[l])) part[l] = part[l + %d], "
                     "place[l] = place[l + %d];",
                     join_name(in->op), t, h, h, h, h);
            else
                line(e, "        part[l] = %s;",
                     apply(e, in->op, in->ty, "part[l]", emit_text(e, "part[l + %d]", h), NULL));
        }
        line(e, "    x%d = part[0];", i);
        if (pair) line(e, "    x%d = place[0];", i + 1);
        line(e, "}");
        slot += pair ? 2 : 1;
    }
    line(e, "xb ^= 1;");
    if (slot > e->slots) e->slots = slot;
}

enum { SMALL_TREE = 8 };

/* The place of partial xi of the row's S subgroups. */
static const char *part_of(Emit *e, int S) {
    return e->k->plan.P == 1 ? "[xi]" : emit_text(e, "[tid / %d * %d + xi]", e->k->plan.W, S);
}

/* The tree of S partials by each lane for itself: fewer steps that wait for each other than by shuffles. */
static const char *small_tree(Emit *e, const Ins *in, int slot, int S, int pad) {
    const char *part[SMALL_TREE];
    const char *at = e->k->plan.P == 1 ? "" : emit_text(e, "tid / %d * %d + ", e->k->plan.W, S);
    for (int s = 0; s < S; s++) part[s] = emit_text(e, "xget_%s(xs[xb][%d][%s%d])", ty_text(in->ty), slot, at, s);
    for (int h = pad / 2; h; h /= 2)
        for (int s = 0; s < h && s + h < S; s++) part[s] = apply(e, in->op, in->ty, part[s], part[s + h], NULL);
    return part[0];
}

/* Joins of several values in one exchange over shared memory. Two buffers take turns: who writes one knows by the
 * barrier between that all have read it. */
static void exchange(Emit *e, const int *join, int n) {
    int L = e->k->subgroup, S = e->k->plan.W / L, pad = 1, slot = 0;
    while (pad < S) pad *= 2;
    line(e, "if (tid %% %d == 0) {", L);
    for (int j = 0; j < n; j++) {
        const Ins own = joined(e, join[j]), *in = &own;
        line(e, "    xs[xb][%d][tid / %d] = xput_%s(x%d);", slot++, L, ty_text(in->ty), join[j]);
        if (in->k == K_JOIN2) line(e, "    xs[xb][%d][tid / %d] = xput_i64(x%d);", slot++, L, join[j] + 1);
    }
    line(e, "}");
    line(e, "%s;", e->words->barrier);
    const char *from = part_of(e, S);
    bool places = S > SMALL_TREE;
    for (int j = 0; j < n; j++) places |= joined(e, join[j]).k == K_JOIN2;
    if (places) line(e, "xi = tid & %d;", pad - 1);
    slot = 0;
    for (int j = 0; j < n; j++) {
        int i = join[j];
        const Ins own = joined(e, i), *in = &own;
        const char *t = ty_text(in->ty);
        if (S <= SMALL_TREE && in->k != K_JOIN2) {
            line(e, "x%d = %s;", i, small_tree(e, in, slot++, S, pad));
            continue;
        }
        const char *x = emit_text(e, "xget_%s(xs[xb][%d]%s)", t, slot++, from);
        line(e, "x%d = %s;", i, pad == S ? x : emit_text(e, "xi < %d ? %s : %s", S, x, identity(e, in->op, in->ty)));
        if (in->k == K_JOIN2) {
            x = emit_text(e, "xget_i64(xs[xb][%d]%s)", slot++, from);
            line(e, "x%d = %s;", i + 1, pad == S ? x : emit_text(e, "xi < %d ? %s : -1", S, x));
        }
        halve(e, i, pad, true);
    }
    line(e, "xb ^= 1;");
    if (slot > e->slots) e->slots = slot;
}

/* Words of 32 bits that a value takes in a record. */
static int record_words(Ty ty) {
    return ty_bytes(ty) == 8 ? 2 : 1;
}

/* Passes that stand together, up to behind the last of them, in one exchange: the first lane of each part writes, and
 * all read one of them each. */
static int passes(const Emit *e, int i) {
    int n = 1;
    while (n < 8 && i + n < e->node_end && gpu_at(e, i + n)->k == K_PASS && gpu_at(e, i + n)->imm == gpu_at(e, i)->imm)
        n++;
    return n;
}

static void pass_declare(Emit *e, int i, const char *x) {
    const Ins *in = gpu_at(e, i);
    const int n = pass_count(e->k, in->imm);
    gpu_declare(e, i, 0, 0, n & (n - 1) ? emit_text(e, "xi < %d ? %s : %s", n, x, literal(e, in->ty, in->c)) : x);
    e->done[i] = true;
}

static void pass_subgroups(Emit *e, int i, int n) {
    const int L = e->k->subgroup, S = e->k->plan.W / L;
    int pad = 1, slot = 0;
    while (pad < S) pad *= 2;
    const char *from = part_of(e, S);
    line(e, "if (tid %% %d == 0) {", L);
    for (int j = i; j < i + n; j++) { /* two of 32 bits share a place */
        const bool low =
            j + 1 < i + n && record_words(gpu_at(e, j)->ty) == 1 && record_words(gpu_at(e, j + 1)->ty) == 1;
        const char *x = emit_text(e, "xput_%s(%s)", ty_text(gpu_at(e, j)->ty), gpu_val(e, gpu_at(e, j)->a[0], 0, 0));
        if (low)
            x = emit_text(e, "%s | xput_%s(%s) << 32", x, ty_text(gpu_at(e, j + 1)->ty),
                          gpu_val(e, gpu_at(e, j + 1)->a[0], 0, 0));
        line(e, "    xs[xb][%d][tid / %d] = %s;", slot++, L, x);
        j += low;
    }
    line(e, "}");
    line(e, "%s;", e->words->barrier);
    line(e, "xi = tid & %d;", pad - 1);
    slot = 0;
    for (int j = i; j < i + n; j++) {
        const bool low =
            j + 1 < i + n && record_words(gpu_at(e, j)->ty) == 1 && record_words(gpu_at(e, j + 1)->ty) == 1;
        const char *x = emit_text(e, "xs[xb][%d]%s", slot++, from);
        if (low) {
            line(e, "const u64 q%d = %s;", j, pad == S ? x : emit_text(e, "xi < %d ? %s : 0", S, x));
            x = emit_text(e, "q%d", j);
            pass_declare(e, j + 1, emit_text(e, "xget_%s(%s >> 32)", ty_text(gpu_at(e, j + 1)->ty), x));
        }
        pass_declare(e, j, emit_text(e, "xget_%s(%s)", ty_text(gpu_at(e, j)->ty), x));
        j += low;
    }
    line(e, "xb ^= 1;");
    if (slot > e->slots) e->slots = slot;
}

/* A record of the words of values, sent to each group of the cluster. */
static void record_send(Emit *e, const Ty *ty, const char *const *x, int n) {
    int words = 0, all = 0, C = e->k->plan.cluster;
    const char *sent = "";
    for (int j = 0; j < n; j++) all += record_words(ty[j]);
    cluster_ready(e);
    line(e, "if (tid == 0) cluster_expect(&cm[cb], %d);", C * ((all + 3) / 4) * 16);
    line(e, "if (tid < %d) {", C);
    for (int j = 0; j < n; j++)
        for (int w = 0; w < record_words(ty[j]); w++) {
            sent = emit_text(e, "%s, (u32)(xput_%s(%s) >> %d)", sent, ty_text(ty[j]), x[j], 32 * w);
            if (++words % 4 && words < all) continue;
            line(e, "    cluster_send(&cs[cb][rank][%d], &cm[cb], tid%s);", (words - 1) / 4 * 4, sent);
            sent = "";
        }
    line(e, "}");
    line(e, "cluster_meet(&cm[cb], ct);");
    line(e, "xi = tid & %d;", C - 1);
    if (words > e->record) e->record = words;
}

/* The value at words `at` of the record of group xi. */
static const char *record_get(Emit *e, Ty ty, int at) {
    const char *lo = emit_text(e, "cs[cb][xi][%d]", at),
               *hi = record_words(ty) == 2 ? emit_text(e, " | (u64)cs[cb][xi][%d] << 32", at + 1) : "";
    return emit_text(e, "xget_%s(%s%s)", ty_text(ty), lo, hi);
}

static void pass_groups(Emit *e, int i, int n) {
    Ty ty[8] = {TY_NONE};
    const char *x[8] = {NULL};
    for (int j = 0; j < n; j++) ty[j] = gpu_at(e, i + j)->ty, x[j] = gpu_val(e, gpu_at(e, i + j)->a[0], 0, 0);
    record_send(e, ty, x, n);
    for (int j = 0, at = 0; j < n; at += record_words(ty[j++])) pass_declare(e, i + j, record_get(e, ty[j], at));
    line(e, "cb ^= 1, ct ^= cb ^ 1;");
}

/* Joins over a cluster, after those within its groups: each group sends a record of its partials to every group, whose
 * lanes then halve them as lanes of a subgroup do. */
static void exchange_cluster(Emit *e, const int *join, int n) {
    Ty ty[32] = {TY_NONE};
    const char *x[32] = {NULL};
    int all = 0, at = 0;
    for (int j = 0; j < n; j++) {
        const Ins own = joined(e, join[j]);
        for (int place = 0; place < (own.k == K_JOIN2 ? 2 : 1); place++)
            ty[all] = place ? TY_I64 : own.ty, x[all++] = emit_text(e, "x%d", join[j] + place);
    }
    record_send(e, ty, x, all);
    for (int j = 0, q = 0; j < n; j++) {
        for (int place = 0; place < (joined(e, join[j]).k == K_JOIN2 ? 2 : 1); place++, q++) {
            line(e, "%s = %s;", x[q], record_get(e, ty[q], at));
            at += record_words(ty[q]);
        }
        halve(e, join[j], e->k->plan.cluster, true);
    }
    line(e, "cb ^= 1, ct ^= cb ^ 1;");
}

/* One value where lanes meet nowhere but in on-chip memory: halved there, a barrier a step. */
static void exchange_by_halves(Emit *e, int i) {
    const Ins *in = gpu_at(e, i);
    const char *t = ty_text(in->ty);
    int W = e->k->plan.W, apart = e->side_by_side ? e->k->plan.P : 1, pad = 1;
    bool pair = in->k == K_JOIN2;
    while (pad < W) pad *= 2;
    line(e, "xs[xb][0][tid] = xput_%s(x%d);", t, i);
    if (pair) line(e, "xs[xb][1][tid] = xput_i64(x%d);", i + 1);
    line(e, "%s;", e->words->barrier);
    line(e, "for (i32 h = %d; h; h /= 2) {", pad / 2);
    line(e, "    if (lane < h && lane + h < %d) {", W);
    line(e, "        const %s y = xget_%s(xs[xb][0][tid + h * %d]);", gpu_type(in->ty), t, apart);
    if (pair) {
        line(e, "        const i64 yi = xget_i64(xs[xb][1][tid + h * %d]);", apart);
        line(e, "        if (beats_%s_%s(y, yi, x%d, x%d)) x%d = y, x%d = yi;", join_name(in->op), t, i, i + 1, i,
             i + 1);
        line(e, "        xs[xb][1][tid] = xput_i64(x%d);", i + 1);
    } else {
        line(e, "        x%d = %s;", i, apply(e, in->op, in->ty, emit_text(e, "x%d", i), "y", NULL));
    }
    line(e, "        xs[xb][0][tid] = xput_%s(x%d);", t, i);
    line(e, "    }");
    line(e, "    %s;", e->words->barrier);
    line(e, "}");
    line(e, "x%d = xget_%s(xs[xb][0][tid - lane * %d]);", i, t, apart);
    if (pair) line(e, "x%d = xget_i64(xs[xb][1][tid - lane * %d]);", i + 1, apart);
    line(e, "xb ^= 1;");
    if (e->slots < 1 + pair) e->slots = 1 + pair;
}

/* Later joins of the block whose operands do not depend on this one come along: what makes these is done first. */
static void join_all(Emit *e, int i) {
    const Kern *k = e->k;
    int join[16], n = 1;
    /* side by side, every lane has a place in both buffers, of 48 KiB at most */
    int most = e->side_by_side ? 1024 / (k->plan.W * k->plan.P) : COUNT(join);
    most = k->subgroup == 1 ? 1 : most < COUNT(join) ? most : COUNT(join);
    bool *late = NEWN(e->cx->a, bool, k->nins);
    join[0] = i;
    late[i] = true;
    if (gpu_at(e, i)->k == K_JOIN2) late[i + 1] = true;
    for (int j = i + 1; j < e->node_end; j++) {
        const Ins *in = gpu_at(e, j);
        bool pure = in->k == K_OP || in->k == K_CELL || in->k == K_CONST, joins = in->k == K_JOIN || in->k == K_JOIN2;
        if (in->k == K_JOIN2I || e->done[j]) continue;
        if (!pure && !joins) break;
        for (int a = 0; a < 3; a++)
            if (in->a[a] >= 0 && in->a[a] < k->nins && (in->k != K_OP || a < op_info(in->op)->arity))
                late[j] |= late[in->a[a]];
        if (late[j]) continue;
        if (pure) {
            gpu_block(e, j);
            e->done[j] = true;
        } else { /* in this exchange or in a later one */
            if (n < most) join[n++] = j;
            late[j] = true;
            if (in->k == K_JOIN2) late[j + 1] = true;
        }
    }
    for (int j = 0; j < n; j++) join_begin(e, join[j]);
    if (k->subgroup == 1 && k->plan.W > 1)
        exchange_by_halves(e, i);
    else if (e->side_by_side && k->plan.W > 1)
        exchange_all(e, join, n);
    else if (k->plan.W > k->subgroup)
        exchange(e, join, n);
    if (k->plan.cluster > 1) exchange_cluster(e, join, n);
    for (int j = 0; j < n; j++) {
        int q = join[j];
        const Ins *in = gpu_at(e, q);
        if (is_keyed(e, in)) {
            line(e, "const %s v%d = unkey_%s_%s(x%d);", gpu_type(in->ty), q, join_name(in->op), ty_text(in->ty), q);
            line(e, "const i64 v%d = (i32)~(u32)x%d;", q + 1, q);
            e->done[q] = true;
            continue;
        }
        line(e, "const %s v%d = x%d;", gpu_type(in->ty), q, q);
        if (gpu_at(e, q)->k == K_JOIN2) line(e, "const i64 v%d = x%d;", q + 1, q + 1);
        e->done[q] = true;
    }
}

/* ---- blocks ---- */

static const char *cell(Emit *e, int c, int acc) {
    return emit_text(e, e->in_turn && e->k->cell[c].acc > 1 ? "c%d[%d]" : "c%d_%d", c, acc);
}

void gpu_block(Emit *e, int i) {
    const Ins *in = gpu_at(e, i);
    if (e->done[i]) return;
    switch (in->k) {
    case K_CONST: return;
    case K_SLOT:
        gpu_declare(e, i, 0, 0,
                    e->words->slot ? e->words->slot(e, in)
                                   : emit_text(e, "a.s[%d].%s", in->imm, in->ty == TY_F64 ? "d" : "i"));
        return;
    case K_ROWIDX: gpu_declare(e, i, 0, 0, "row"); return;
    case K_SERIAL: gpu_declare(e, i, 0, 0, e->serial); return;
    case K_OP: gpu_declare(e, i, 0, 0, value(e, in, 0, 0)); return;
    case K_LOAD1: {
        const char *x = gpu_load_one(e, in, gpu_val(e, in->a[0], 0, 0));
        if (in->a[1] >= 0) x = emit_text(e, "%s ? %s : %s", gpu_val(e, in->a[1], 0, 0), x, gpu_val(e, in->a[2], 0, 0));
        gpu_declare(e, i, 0, 0, x);
        return;
    }
    case K_STORE1:
        gpu_store_one(e, in, gpu_both(e, "(lane == 0)", gpu_alive(e)), gpu_val(e, in->a[0], 0, 0),
                      gpu_val(e, in->a[2], 0, 0));
        return;
    case K_INIT:
        for (int q = 0; q < e->k->cell[in->imm].acc; q++)
            line(e, "%s = %s;", cell(e, in->imm, q), literal(e, in->ty, in->c));
        return;
    case K_CELL: gpu_declare(e, i, 0, 0, cell(e, in->imm, in->acc)); return;
    case K_SETCELL: line(e, "%s = %s;", cell(e, in->imm, 0), gpu_val(e, in->a[0], 0, 0)); return;
    case K_SETPART: line(e, "%s = %s;", cell(e, in->imm, in->acc), gpu_val(e, in->a[0], 0, 0)); return;
    case K_MEET:
        line(e, "%s x%d = %s;", gpu_type(in->ty), i, gpu_val(e, in->a[0], 0, 0));
        halve(e, i, in->lanes, gpu_at(e, in->a[0])->k == K_PASS);
        gpu_declare(e, i, 0, 0, emit_text(e, "x%d", i));
        return;
    case K_PASS: (gpu_at(e, i)->imm == PASS_GROUPS ? pass_groups : pass_subgroups)(e, i, passes(e, i)); return;
    case K_SAME: gpu_declare(e, i, 0, 0, gpu_val(e, in->a[0], 0, 0)); return;
    case K_JOIN:
    case K_JOIN2: join_all(e, i); return;
    case K_ROWGET: gpu_declare(e, i, 0, 0, emit_text(e, "a%d[%s]", in->imm, gpu_val(e, in->a[0], 0, 0))); return;
    case K_ROWPUT: line(e, "a%d[%s] = %s;", in->imm, gpu_val(e, in->a[0], 0, 0), gpu_val(e, in->a[1], 0, 0)); return;
    default: return;
    }
}

/* ---- sweeps ---- */

static void fold(Emit *e, const char *into, Op op, Ty ty, const char *x, const char *if_active) {
    const char *sum = apply(e, op, ty, into, x, NULL);
    line(e, "%s = %s;", into, if_active ? emit_text(e, "%s ? %s : %s", if_active, sum, into) : sum);
}

/* Does the integer grow from each element of a pack to the next? */
static bool ascends(const Emit *e, int i) {
    const Ins *in = gpu_at(e, i);
    if (in->k == K_ELEM) return true;
    if (in->k != K_OP) return false;
    const Ins *y = in->op == OP_MUL || in->op == OP_ADD ? gpu_at(e, in->a[1]) : NULL;
    return (in->op == OP_CAST && ascends(e, in->a[0])) ||
           (in->op == OP_MUL && y->k == K_CONST && y->c.i > 0 && ascends(e, in->a[0])) ||
           (in->op == OP_ADD && y->rank < RANK_ELEM && ascends(e, in->a[0]));
}

/* A pack's best is found first, by the operator itself, then where it stands; most packs lose to what is there already.
 * The order in which elements meet is of no consequence to the rule of K_FOLD2. */
static void fold_pair(Emit *e, int i, const Step *s, int f) {
    const Ins *in = gpu_at(e, i);
    int V = e->k->plan.V;
    const char *c = emit_text(e, "c%d_0", in->imm), *ci = emit_text(e, "c%d_0", in->imm + 1), *t = ty_text(in->ty);
    const char *best[16] = {NULL}, *at = emit_text(e, "at%d_%d", i, f), *ix = ty_text(place_type(e, in->ty));
    bool first_wins = ascends(e, in->a[1]);
    for (int v = 0; v < V; v++) {
        const char *ok = gpu_active(e, s, f, v);
        best[v] = gpu_val(e, in->a[0], f, v);
        if (ok) best[v] = emit_text(e, "(%s ? %s : %s)", ok, best[v], identity(e, in->op, in->ty));
    }
    for (int h = V / 2; h >= 1; h /= 2)
        for (int v = 0; v < h; v++) best[v] = apply(e, in->op, in->ty, best[v], best[v + h], NULL);
    line(e, "const %s b%d_%d = %s;", gpu_type(in->ty), i, f, best[0]);
    const char *b = emit_text(e, "b%d_%d", i, f);
    line(e, "if (!(%s %c %s) || %s < 0) {", b, in->op == OP_MAX ? '<' : '>', c, ci);
    line(e, "    %s %s = -1;", ix, at);
    for (int v = V - 1; v >= 0; v--) { /* downwards, so that the first is written last */
        const char *x = gpu_val(e, in->a[0], f, v), *xi = gpu_val(e, in->a[1], f, v);
        const char *hit =
            ty_is_float(in->ty) ? emit_text(e, "(%s == %s | %s != %s)", x, b, x, x) : emit_text(e, "(%s == %s)", x, b);
        hit = gpu_both(e, gpu_active(e, s, f, v), hit);
        if (!first_wins) hit = emit_text(e, "%s & (%s < 0 | %s < %s)", hit, at, xi, at);
        line(e, "    %s = %s ? (%s)%s : %s;", at, hit, ix, xi, at);
    }
    line(e, "    if (beats_%s_%s(%s, %s, %s, %s)) %s = %s, %s = %s;", join_name(in->op), t, b, at, c, ci, c, b, ci, at);
    line(e, "}");
}

static void elem(Emit *e, int i, const Step *s, int f, int v) {
    const Ins *in = gpu_at(e, i);
    const Plan *p = &e->k->plan;
    const char *if_active = gpu_active(e, s, f, v);
    switch (in->k) {
    case K_OP: gpu_declare(e, i, f, v, value(e, in, f, v)); return;
    case K_ELEM:
        gpu_declare(e, i, f, v,
                    emit_text(e, "(%s)(%s * %" PRId64 " + (%d * %" PRId64 " + lane) * %d + %d)", ty_text(in->ty),
                              s->chunk, (int64_t)plan_lanes(p) * p->V, f, (int64_t)plan_lanes(p), p->V, v));
        return;
    case K_LOAD1: {
        const char *ok = gpu_both(e, in->a[1] >= 0 ? gpu_val(e, in->a[1], f, v) : NULL, if_active);
        const char *x = gpu_load_one(e, in, gpu_val(e, in->a[0], f, v));
        const char *fill = in->a[2] >= 0 ? gpu_val(e, in->a[2], f, v) : emit_text(e, "(%s)0", gpu_type(in->ty));
        gpu_declare(e, i, f, v, ok ? emit_text(e, "%s ? %s : %s", ok, x, fill) : x);
        return;
    }
    case K_STORE1:
        gpu_store_one(e, in, gpu_both(e, if_active, gpu_alive(e)), gpu_val(e, in->a[0], f, v),
                      gpu_val(e, in->a[2], f, v));
        return;
    case K_FOLD: {
        const int acc = e->k->cell[in->imm].acc;
        const char *into = s->mod < 0 && acc > 1
                               ? emit_text(e, "c%d[k]", in->imm)
                               : cell(e, in->imm, (int)(((s->number < 0 ? s->mod : s->number) + f) % acc));
        fold(e, into, in->op, in->ty, gpu_val(e, in->a[0], f, v), if_active);
        return;
    }
    case K_PACKFOLD: fold(e, emit_text(e, "v%d", i), in->op, in->ty, gpu_val(e, in->a[0], f, v), if_active); return;
    case K_ACTIVE:
        line(e, "v%d = v%d + %s;", i, i, if_active ? emit_text(e, "(%s ? 1.0f : 0.0f)", if_active) : "1.0f");
        return;
    default: return;
    }
}

void gpu_step(Emit *e, int i, const Step *s) {
    const Ins *in = gpu_at(e, i);
    const Plan *p = &e->k->plan;
    if (in->k == K_CONST || e->done[i]) return;
    bool pack = in->k == K_PACKFOLD || in->k == K_ACTIVE;
    bool by_element = in->rank == RANK_ELEM || pack || in->k == K_FOLD || in->k == K_FOLD2 || in->k == K_STOREP ||
                      in->k == K_STORE1 || in->k == K_PUT;
    if (in->k == K_PART || in->k == K_SEG) {
        gpu_declare(e, i, 0, 0,
                    in->k == K_PART
                        ? cell(e, in->imm, (int)s->number)
                        : emit_text(e, "(%s * %d + lane / %d)", s->chunk, plan_lanes(p) / in->lanes, in->lanes));
        return;
    }
    if (in->k == K_STORES) {
        const char *ok = gpu_both(e, gpu_active(e, s, 0, 0), gpu_alive(e));
        gpu_store_one(e, in, gpu_both(e, emit_text(e, "(lane %% %d == 0)", in->lanes), ok), gpu_val(e, in->a[0], 0, 0),
                      gpu_val(e, in->a[2], 0, 0));
        return;
    }
    if (!by_element) {
        gpu_block(e, i);
        return;
    }
    if (pack) line(e, "%s v%d = %s;", gpu_type(in->ty), i, in->k == K_ACTIVE ? "0.0f" : literal(e, in->ty, in->c));
    for (int f = 0; f < p->flight; f++) {
        if (gpu_left(e, s, f) == 0) continue;
        switch (in->k) {
        case K_LOADP: gpu_load_pack(e, i, s, f); break;
        case K_STOREP: gpu_store_pack(e, i, s, f); break;
        case K_GET: gpu_get(e, i, s, f); break;
        case K_PUT: gpu_put(e, i, s, f); break;
        case K_FOLD2: fold_pair(e, i, s, f); break;
        default:
            for (int v = 0; v < p->V; v++) elem(e, i, s, f, v);
        }
    }
}

/* ---- what the heads of kernels have in common ---- */

/* tid, lane and row of a thread. `first` and `rows` are names of the dialect's head. */
void gpu_place(Emit *e) {
    const Plan *p = &e->k->plan;
    const GpuWords *w = e->words;
    if (p->cluster > 1) line(e, "const i32 rank = (i32)(%s %% %d); /* in the cluster */", w->group, p->cluster);
    line(e, "const i32 tid = %s, lane = %s;", w->thread,
         p->cluster > 1 ? emit_text(e, "rank * %d + tid", p->W)
         : p->P == 1    ? "tid"
                        : emit_text(e, "tid %s %d", e->side_by_side ? "/" : "%", e->side_by_side ? p->P : p->W));
    line(e, "%si64 row = first + %s%s;", p->P == 1 ? "const " : "", w->group,
         p->cluster > 1 ? emit_text(e, " / %d", p->cluster)
         : p->P == 1
             ? ""
             : emit_text(e, " * %d + tid %s %d", p->P, e->side_by_side ? "%" : "/", e->side_by_side ? p->P : p->W));
    if (p->P > 1) {
        line(e, "const b1 live = row < rows; /* rows past the last do its work once more, for the barriers' sake */");
        line(e, "if (!live) row = rows - 1;");
    }
}

/* Type that a pointer to the parameter's elements has. */
const char *gpu_memory_type(const Param *q) {
    return q->ty == TY_BOOL ? "bool8" : ty_text(q->ty);
}

/* Places in the exchange between subgroups; 0: there is none. */
int gpu_exchange(const Emit *e) {
    const Plan *p = &e->k->plan;
    int L = e->k->subgroup;
    return e->side_by_side ? p->W * p->P : p->W > L || p->cluster > 1 ? p->W * p->P / L : 0;
}

/* Cells of places are as narrow as their positions. */
static Ty cell_type(const Emit *e, int cell) {
    for (int i = 0; i < e->k->nins; i++)
        if (gpu_at(e, i)->k == K_FOLD2 && gpu_at(e, i)->imm + 1 == cell) return place_type(e, gpu_at(e, i)->ty);
    return e->k->cell[cell].ty;
}

/* Sizes, stripes, row arrays and cells of a thread. */
void gpu_locals(Emit *e) {
    const Kern *k = e->k;
    const Plan *p = &k->plan;
    const Ins slot = {.k = K_SLOT, .ty = TY_I64, .imm = kern_extent(k)};
    bool narrow = true;
    for (int i = 0; i < k->ndomains; i++) narrow &= k->domain[i].n_mapped <= INT32_MAX / 2;
    emit_sizes(e, e->words->slot ? e->words->slot(e, &slot) : emit_text(e, "a.s[%d].i", slot.imm), narrow);
    for (int i = 0; i < k->nstripes; i++) {
        const Stripe *s = &k->stripe[i];
        if (s->home == HOLD_SHARED) {
            e->words->shared(e, i);
            e->shared_bytes +=
                (k->domain[s->domain].n_serial * gpu_stripe_chunks(e, s) * p->V * p->W * p->P * ty_bytes(s->ty) + 15) /
                16 * 16;
            continue;
        }
        if (s->home != HOLD_REGISTER) continue;
        int64_t n = k->domain[s->domain].n_serial * gpu_stripe_chunks(e, s) * gpu_stripe_words(e, s);
        line(e, "%s s%d[%" PRId64 "]; /* %s */", gpu_shares_words(s->ty) ? "u32" : gpu_type(s->ty), i, n ? n : 1,
             s->name ? s->name : "");
    }
    for (int i = 0; i < k->narrays; i++) {
        line(e, "%s a%d[%" PRId64 "];", gpu_type(k->array[i].ty), i, k->array[i].n ? k->array[i].n : 1);
        if (k->array[i].n > UNROLL_MOST) e->private_bytes += k->array[i].n * ty_bytes(k->array[i].ty) + 16;
    }
    for (int i = 0; i < k->ncells; i++)
        if (e->in_turn && k->cell[i].acc > 1)
            line(e, "%s c%d[%d];", gpu_type(k->cell[i].ty), i, k->cell[i].acc);
        else
            for (int q = 0; q < k->cell[i].acc; q++) line(e, "%s c%d_%d;", gpu_type(cell_type(e, i)), i, q);
}

/* Before anything else of a unit. */
void gpu_begin(Emit *e, const GpuWords *words) {
    e->words = words;
    e->wide = words->wide;
    e->done = NEWN(e->cx->a, bool, e->k->nins);
    e->early = NEWN(e->cx->a, bool, e->k->nins);
    e->copied = NEWN(e->cx->a, int, e->k->nins);
    e->side_by_side = rows_side_by_side(e);
    e->narrow = words->keys;
    for (int i = 0; i < e->k->ndomains; i++) {
        int64_t n;
        e->narrow &= mul_fits(e->k->domain[i].n_serial, e->k->domain[i].n_mapped, &n) && n <= INT32_MAX;
    }
}
