/* How lanes meet in units for GPUs: by shuffles within a subgroup, in one exchange over on-chip memory between
 * subgroups, in one over that of all groups within a cluster. What can meet together does. */
#include "gpugen.h"

#include <inttypes.h>
#include <string.h>

/* Memory of another group may be written once that group has started, which all said when they did. */
void gpu_cluster_ready(Emit *e) {
    if (!e->cluster_waits) return;
    line(e, "cluster_wait();");
    e->cluster_waits = false;
}

const char *gpu_join_name(Op op) {
    return op == OP_MIN ? "min" : "max";
}

/* Pairs of 32 bits each meet as one number of 64 that orders as the pairs do: the value's bits in order, NaN first,
 * then the lower index. */
static bool is_keyed(const Emit *e, const Ins *in) {
    return in->k == K_JOIN2 && gpu_place_type(e, in->ty) == TY_I32;
}

/* What lanes join for instruction i. */
static Ins joined(const Emit *e, int i) {
    const Ins *in = gpu_at(e, i);
    return is_keyed(e, in) ? (Ins){.k = K_JOIN, .op = OP_MAX, .ty = TY_U64} : *in;
}

/* x = op(x, lane i ^ h): every lane ends with the value that join_tree leaves in lane 0, for the operators commute.
 * again: the lanes of a subgroup have the same values over and over. */
void gpu_halve(Emit *e, int i, int lanes, bool again) {
    const Ins own = joined(e, i), *in = &own;
    /* the greatest and the least are the same by any tree; of 32 bits there is an instruction for all lanes at once */
    if (e->words->at_once && (in->op == OP_MAX || in->op == OP_MIN) && in->k != K_JOIN2 && in->ty != TY_F64 &&
        in->ty != TY_I64 && (in->ty != TY_U64 || is_keyed(e, gpu_at(e, i))) &&
        (lanes == e->k->subgroup || (again && lanes > 2))) {
        line(e, "x%d = all%s_%s(x%d%s);", i, gpu_join_name(in->op), ty_text(in->ty), i, e->words->who);
        return;
    }
    for (int h = lanes / 2; h >= 1; h /= 2) {
        if (in->k != K_JOIN2)
            line(e, "x%d = %s;", i,
                 gpu_apply(e, in->op, in->ty, emit_text(e, "x%d", i),
                           emit_text(e, "shx_%s(x%d, %d%s)", ty_text(in->ty), i, h, e->words->who), NULL));
        else
            line(e, "meet_%s_%s(x%d, x%d, %d%s);", gpu_join_name(in->op), ty_text(in->ty), i, i + 1, h, e->words->who);
    }
}

static void join_begin(Emit *e, int i) {
    const Ins *in = gpu_at(e, i);
    if (is_keyed(e, in)) {
        line(e, "u64 x%d = key_%s_%s(%s, (i32)%s);", i, gpu_join_name(in->op), ty_text(in->ty),
             gpu_val(e, in->a[0], 0, 0), gpu_val(e, in->a[1], 0, 0));
        if (!e->side_by_side) gpu_halve(e, i, e->k->plan.W < e->k->subgroup ? e->k->plan.W : e->k->subgroup, false);
        return;
    }
    line(e, "%s x%d = %s;", gpu_type(in->ty), i, gpu_val(e, in->a[0], 0, 0));
    if (in->k == K_JOIN2) line(e, "i64 x%d = %s;", i + 1, gpu_val(e, in->a[1], 0, 0));
    if (!e->side_by_side) gpu_halve(e, i, e->k->plan.W < e->k->subgroup ? e->k->plan.W : e->k->subgroup, false);
}

/* part[0] (and place[0]) of part[0] to part[n - 1], a power of two of them. */
static void tree_in_lane(Emit *e, const Ins *in, int n) {
    for (int h = n / 2; h >= 1; h /= 2) {
        line(e, "    _Pragma(\"unroll\") for (i32 l = 0; l < %d; l++)", h);
        if (in->k == K_JOIN2)
            line(e,
                 "        if (beats_%s_%s(part[l + %d], place[l + %d], part[l], place[l])) part[l] = part[l + %d], "
                 "place[l] = place[l + %d];",
                 gpu_join_name(in->op), ty_text(in->ty), h, h, h, h);
        else
            line(e, "        part[l] = %s;",
                 gpu_apply(e, in->op, in->ty, "part[l]", emit_text(e, "part[l + %d]", h), NULL));
    }
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
        tree_in_lane(e, in, W);
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

/* The tree of S partials by each lane for itself: fewer steps that wait for each other than by shuffles. Words come two
 * at a time, for four that lie side by side take four registers that do, which makes some kernels need more of them. */
static const char *small_tree(Emit *e, const Ins *in, int i, int slot, int S, int pad) {
    const char *part[SMALL_TREE] = {""};
    const char *at = e->k->plan.P == 1 ? "" : emit_text(e, "tid / %d * %d + ", e->k->plan.W, S);
    for (int s = 0; s < S; s++) {
        const char *x = emit_text(e, "xs[xb][%d][%s%d]", slot, at, s);
        if (!e->wide_slots && S % 2 == 0) {
            if (s % 2 == 0) line(e, "u32 r%d_%d, r%d_%d;", i, s, i, s + 1);
            if (s % 2 == 0) line(e, "lds8(r%d_%d, r%d_%d, PLACE(%s));", i, s, i, s + 1, x);
            x = emit_text(e, "r%d_%d", i, s);
        }
        part[s] = emit_text(e, "xget_%s(%s)", ty_text(in->ty), x);
    }
    for (int h = pad / 2; h; h /= 2)
        for (int s = 0; s < h && s + h < S; s++) part[s] = gpu_apply(e, in->op, in->ty, part[s], part[s + h], NULL);
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
            line(e, "x%d = %s;", i, small_tree(e, in, i, slot++, S, pad));
            continue;
        }
        const char *x = emit_text(e, "xget_%s(xs[xb][%d]%s)", t, slot++, from);
        line(e, "x%d = %s;", i,
             pad == S ? x : emit_text(e, "xi < %d ? %s : %s", S, x, gpu_identity(e, in->op, in->ty)));
        if (in->k == K_JOIN2) {
            x = emit_text(e, "xget_i64(xs[xb][%d]%s)", slot++, from);
            line(e, "x%d = %s;", i + 1, pad == S ? x : emit_text(e, "xi < %d ? %s : -1", S, x));
        }
        gpu_halve(e, i, pad, true);
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
    gpu_declare(e, i, 0, 0, n & (n - 1) ? emit_text(e, "xi < %d ? %s : %s", n, x, gpu_literal(e, in->ty, in->c)) : x);
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

/* A record of the words of values, sent to each group of the cluster; then those of all are there: they met at a
 * barrier of the cluster, or this group waited for their bytes. */
static void record_send(Emit *e, const Ty *ty, const char *const *x, int n) {
    const bool bytes = e->k->plan.exchange == EXCHANGE_BYTES;
    int words = 0, all = 0, C = e->k->plan.cluster;
    const char *sent = "";
    for (int j = 0; j < n; j++) all += record_words(ty[j]);
    gpu_cluster_ready(e);
    if (bytes) line(e, "if (tid == 0) cluster_expect(&cm[cb], %d);", C * ((all + 3) / 4) * 16);
    line(e, "if (tid < %d) {", C);
    for (int j = 0; j < n; j++)
        for (int w = 0; w < record_words(ty[j]); w++) {
            sent = emit_text(e, "%s, (u32)(xput_%s(%s) >> %d)", sent, ty_text(ty[j]), x[j], 32 * w);
            if (++words % 4 && words < all) continue;
            line(e, "    cluster_send(&cs[cb][rank][%d], %stid%s);", (words - 1) / 4 * 4, bytes ? "&cm[cb], " : "",
                 sent);
            sent = "";
        }
    line(e, "}");
    line(e, "cluster_meet(%s);", bytes ? "&cm[cb], ct" : "");
    line(e, "xi = tid & %d;", C - 1);
    if (words > e->record) e->record = words;
}

/* The next record goes to the other turn's memory. */
static void record_turn(Emit *e) {
    line(e, e->k->plan.exchange == EXCHANGE_BYTES ? "cb ^= 1, ct ^= cb ^ 1;" : "cb ^= 1;");
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
    record_turn(e);
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
        gpu_halve(e, join[j], e->k->plan.cluster, true);
    }
    record_turn(e);
}

/* ---- splits of a row, which meet in device memory ---- */

/* `rec` is the row group's part of the workspace: a counter, then a record of each split, of as many values a row. */
static void split_begin(Emit *e, int values) {
    const Plan *p = &e->k->plan;
    const int64_t words = 2 + (int64_t)p->split * values * p->P;
    line(e, "u64 *const rec = work + %s / %d * %" PRId64 ";", e->words->group, p->split, words);
    e->work_bytes = words * 8;
    e->split_met = true;
}

/* Value `slot` of a split's record, of row `r` of the group. */
static const char *split_at(Emit *e, const char *split, int values, int slot, const char *r) {
    const int P = e->k->plan.P;
    const char *row = P == 1 ? "" : emit_text(e, " * %d + %s", P, r);
    return emit_text(e, "rec + 2 + (%s * %d + %d)%s", split, values, slot, row);
}

/* Lanes of one subgroup take what each split has. */
static void pass_splits(Emit *e, int i, int n) {
    const Plan *p = &e->k->plan;
    if (p->W > e->k->subgroup) line(e, "if (tid >= %d) return;", e->k->subgroup);
    split_begin(e, n);
    line(e, "u32 last = 0;");
    line(e, "if (tid == 0) {");
    for (int j = 0; j < n; j++)
        line(e, "    split_put(%s, xput_%s(%s));", split_at(e, "rank", n, j, ""), ty_text(gpu_at(e, i + j)->ty),
             gpu_val(e, gpu_at(e, i + j)->a[0], 0, 0));
    line(e, "    last = split_last(rec, %d);", p->split);
    line(e, "}");
    line(e, "if (!shx_from(last, 0)) return;");
    line(e, "xi = tid & %d;", p->split - 1);
    for (int j = 0; j < n; j++)
        pass_declare(
            e, i + j,
            emit_text(e, "xget_%s(split_get(%s))", ty_text(gpu_at(e, i + j)->ty), split_at(e, "xi", n, j, "")));
}

/* Joins over splits, after those within each: the first lane of a row leaves what its group has, and in the group that
 * arrives last does the tree over all, and what comes after, alone. */
static void exchange_splits(Emit *e, const int *join, int n) {
    const Plan *p = &e->k->plan;
    int values = 0, slot = 0;
    for (int j = 0; j < n; j++) values += joined(e, join[j]).k == K_JOIN2 ? 2 : 1;
    const char *first = p->P == 1         ? "tid == 0"
                        : e->side_by_side ? emit_text(e, "tid < %d", p->P)
                                          : emit_text(e, "tid %% %d == 0", p->W);
    const char *r = e->side_by_side ? "tid" : emit_text(e, "tid / %d", p->W);
    if (p->P == 1 && p->W > 1) line(e, "if (tid) return;");
    split_begin(e, values);
    if (p->P > 1) line(e, "if (%s) {", first);
    for (int j = 0; j < n; j++) {
        const Ins own = joined(e, join[j]);
        line(e, "split_put(%s, xput_%s(x%d));", split_at(e, "rank", values, slot++, r), ty_text(own.ty), join[j]);
        if (own.k == K_JOIN2)
            line(e, "split_put(%s, xput_i64(x%d));", split_at(e, "rank", values, slot++, r), join[j] + 1);
    }
    if (p->P > 1) {
        line(e, "}");
        line(e, "__shared__ u32 last;");
        line(e, "%s;", e->words->barrier);
        line(e, "if (tid == 0) last = split_last(rec, %d);", p->split);
        line(e, "%s;", e->words->barrier);
        line(e, "if (!last || !(%s)) return;", first);
    } else {
        line(e, "if (!split_last(rec, %d)) return;", p->split);
    }
    slot = 0;
    for (int j = 0; j < n; j++) {
        const Ins own = joined(e, join[j]), *in = &own;
        const char *t = ty_text(in->ty);
        const bool pair = in->k == K_JOIN2;
        line(e, "{");
        line(e, "    %s part[%d];", gpu_type(in->ty), p->split);
        if (pair) line(e, "    i64 place[%d];", p->split);
        line(e, "    _Pragma(\"unroll\") for (i32 s = 0; s < %d; s++) part[s] = xget_%s(split_get(%s));", p->split, t,
             split_at(e, "s", values, slot++, r));
        if (pair)
            line(e, "    _Pragma(\"unroll\") for (i32 s = 0; s < %d; s++) place[s] = xget_i64(split_get(%s));",
                 p->split, split_at(e, "s", values, slot++, r));
        tree_in_lane(e, in, p->split);
        line(e, "    x%d = part[0];", join[j]);
        if (pair) line(e, "    x%d = place[0];", join[j] + 1);
        line(e, "}");
    }
}

void gpu_pass(Emit *e, int i) {
    static void (*const levels[])(Emit *, int, int) = {pass_subgroups, pass_groups, pass_splits};
    levels[gpu_at(e, i)->imm](e, i, passes(e, i));
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
        line(e, "        if (beats_%s_%s(y, yi, x%d, x%d)) x%d = y, x%d = yi;", gpu_join_name(in->op), t, i, i + 1, i,
             i + 1);
        line(e, "        xs[xb][1][tid] = xput_i64(x%d);", i + 1);
    } else {
        line(e, "        x%d = %s;", i, gpu_apply(e, in->op, in->ty, emit_text(e, "x%d", i), "y", NULL));
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
void gpu_join(Emit *e, int i) {
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
    if (k->plan.split > 1) exchange_splits(e, join, n);
    for (int j = 0; j < n; j++) {
        int q = join[j];
        const Ins *in = gpu_at(e, q);
        if (is_keyed(e, in)) {
            line(e, "const %s v%d = unkey_%s_%s(x%d);", gpu_type(in->ty), q, gpu_join_name(in->op), ty_text(in->ty), q);
            line(e, "const i64 v%d = (i32)~(u32)x%d;", q + 1, q);
            e->done[q] = true;
            continue;
        }
        line(e, "const %s v%d = x%d;", gpu_type(in->ty), q, q);
        if (gpu_at(e, q)->k == K_JOIN2) line(e, "const i64 v%d = x%d;", q + 1, q + 1);
        e->done[q] = true;
    }
}
