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

const char *gpu_literal(Emit *e, Ty ty, Num c) {
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
    if (in->k == K_CONST) return gpu_literal(e, in->ty, in->c);
    return in->rank == RANK_ELEM ? emit_text(e, "v%d_%d_%d", i, f, v) : emit_text(e, "v%d", i);
}

void gpu_declare(Emit *e, int i, int f, int v, const char *what) {
    const Ins *in = gpu_at(e, i);
    const char *note = in->note && f + v <= 0 ? emit_text(e, " /* %s */", in->note) : "";
    line(e, "const %s %s = %s;%s", gpu_type(in->ty), gpu_val(e, i, f, v), what, note);
}

/* Type of an index beside values of a type: what a key holds, where the dialect has keys. */
Ty gpu_place_type(const Emit *e, Ty ty) {
    return e->narrow && ty_bytes(ty) == 4 && ty != TY_BOOL ? TY_I32 : TY_I64;
}

/* ---- operators ---- */

const char *gpu_apply(Emit *e, Op op, Ty ty, const char *x, const char *y, const char *z) {
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
    return gpu_apply(e, in->op, named, x[0], x[1], x[2]);
}

/* The value that leaves the other operand as it is, bit for bit. */
const char *gpu_identity(Emit *e, Op op, Ty ty) {
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
    return gpu_literal(e, ty, n);
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
    gpu_cluster_ready(e);
    if (!indexes_by_point(e, n))
        line(e, "#pragma unroll 4"); /* loads of one round go before the stores of another */
    else
        line(e, n->count <= UNROLL_MOST ? "#pragma unroll" : "#pragma unroll 1"); /* to its largest count */
}

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
        const char *x = e->awaited[i] ? emit_text(e, "n%d", i) : gpu_load_one(e, in, gpu_val(e, in->a[0], 0, 0));
        if (in->a[1] >= 0) x = emit_text(e, "%s ? %s : %s", gpu_val(e, in->a[1], 0, 0), x, gpu_val(e, in->a[2], 0, 0));
        gpu_declare(e, i, 0, 0, x);
        return;
    }
    case K_STORE1:
        /* of splits that have met, the first lane of the row's last group */
        gpu_store_one(e, in,
                      gpu_both(e,
                               !e->split_met       ? "(lane == 0)"
                               : e->k->plan.P == 1 ? "(tid == 0)"
                                                   : NULL,
                               gpu_alive(e)),
                      gpu_val(e, in->a[0], 0, 0), gpu_val(e, in->a[2], 0, 0));
        return;
    case K_INIT:
        for (int q = 0; q < e->k->cell[in->imm].acc; q++)
            line(e, "%s = %s;", cell(e, in->imm, q), gpu_literal(e, in->ty, in->c));
        return;
    case K_CELL: gpu_declare(e, i, 0, 0, cell(e, in->imm, in->acc)); return;
    case K_SETCELL: line(e, "%s = %s;", cell(e, in->imm, 0), gpu_val(e, in->a[0], 0, 0)); return;
    case K_SETPART: line(e, "%s = %s;", cell(e, in->imm, in->acc), gpu_val(e, in->a[0], 0, 0)); return;
    case K_MEET:
        line(e, "%s x%d = %s;", gpu_type(in->ty), i, gpu_val(e, in->a[0], 0, 0));
        gpu_halve(e, i, in->lanes, gpu_at(e, in->a[0])->k == K_PASS);
        gpu_declare(e, i, 0, 0, emit_text(e, "x%d", i));
        return;
    case K_PASS: gpu_pass(e, i); return;
    case K_SAME: gpu_declare(e, i, 0, 0, gpu_val(e, in->a[0], 0, 0)); return;
    case K_JOIN:
    case K_JOIN2: gpu_join(e, i); return;
    case K_ROWGET: gpu_declare(e, i, 0, 0, emit_text(e, "a%d[%s]", in->imm, gpu_val(e, in->a[0], 0, 0))); return;
    case K_ROWPUT: line(e, "a%d[%s] = %s;", in->imm, gpu_val(e, in->a[0], 0, 0), gpu_val(e, in->a[1], 0, 0)); return;
    default: return;
    }
}

/* ---- sweeps ---- */

static void fold(Emit *e, const Ins *in, const char *into, int f, int v, const char *if_active) {
    const char *x = gpu_val(e, in->a[0], f, v);
    const char *sum = ins_has(in, 1) ? gpu_apply(e, in->op, in->ty, x, gpu_val(e, in->a[1], f, v), into)
                                     : gpu_apply(e, in->op, in->ty, into, x, NULL);
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
    const char *best[16] = {NULL}, *at = emit_text(e, "at%d_%d", i, f), *ix = ty_text(gpu_place_type(e, in->ty));
    bool first_wins = ascends(e, in->a[1]);
    for (int v = 0; v < V; v++) {
        const char *ok = gpu_active(e, s, f, v);
        best[v] = gpu_val(e, in->a[0], f, v);
        if (ok) best[v] = emit_text(e, "(%s ? %s : %s)", ok, best[v], gpu_identity(e, in->op, in->ty));
    }
    for (int h = V / 2; h >= 1; h /= 2)
        for (int v = 0; v < h; v++) best[v] = gpu_apply(e, in->op, in->ty, best[v], best[v + h], NULL);
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
    line(e, "    if (beats_%s_%s(%s, %s, %s, %s)) %s = %s, %s = %s;", gpu_join_name(in->op), t, b, at, c, ci, c, b, ci,
         at);
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
        fold(e, in, into, f, v, if_active);
        return;
    }
    case K_PACKFOLD: fold(e, in, emit_text(e, "v%d", i), f, v, if_active); return;
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
    if (pack) line(e, "%s v%d = %s;", gpu_type(in->ty), i, in->k == K_ACTIVE ? "0.0f" : gpu_literal(e, in->ty, in->c));
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

/* Number of the group in the launch; of its cluster or of all its splits, where groups share a row. */
static const char *tile_of(Emit *e, const char *group) {
    const int groups = plan_groups(&e->k->plan);
    return groups > 1 ? emit_text(e, "%s / %d", group, groups) : group;
}

void gpu_row(Emit *e, const char *tile) {
    const Plan *p = &e->k->plan;
    line(e, "%si64 row = first + %s%s;", p->P == 1 ? "const " : "", tile,
         p->P == 1
             ? ""
             : emit_text(e, " * %d + tid %s %d", p->P, e->side_by_side ? "%" : "/", e->side_by_side ? p->P : p->W));
    if (p->P > 1) {
        line(e, "const b1 live = row < rows; /* rows past the last do its work once more, for the barriers' sake */");
        line(e, "if (!live) row = rows - 1;");
    }
}

/* tid, lane and row of a thread. `first` and `rows` are names of the dialect's head. */
void gpu_place(Emit *e) {
    const Plan *p = &e->k->plan;
    const GpuWords *w = e->words;
    const int groups = plan_groups(p);
    const char *own =
        p->P == 1 ? "tid" : emit_text(e, e->side_by_side ? "tid / %d" : "tid %% %d", e->side_by_side ? p->P : p->W);
    if (groups > 1)
        line(e, "const i32 rank = (i32)(%s %% %d); /* in the %s */", w->group, groups,
             p->split > 1 ? "row" : "cluster");
    line(e, "const i32 tid = %s, lane = %s;", w->thread, groups > 1 ? emit_text(e, "rank * %d + %s", p->W, own) : own);
    if (!p->grid) gpu_row(e, tile_of(e, w->group));
}

/* A group that takes many tiles of rows: as many apart as there are groups, so that all groups together go through
 * memory from its start to its end. */
void gpu_rows(Emit *e) {
    const Plan *p = &e->k->plan;
    const char *turn = "";
    if (!p->grid) return;
    gpu_cluster_ready(e);
    line(e, "const i64 tiles = (rows - first + %d) / %d, apart = %s;", p->P - 1, p->P, tile_of(e, e->words->groups));
    if (p->ahead) {
        for (int i = 0; i < e->k->nins; i++)
            for (int t = 0; t < p->ahead && e->awaited[i]; t++)
                line(e, "%s n%d_%d = 0;", ty_bytes(gpu_tensor(e, gpu_at(e, i)->param)) == 8 ? "u64" : "u32", i, t);
        for (int t = 0; t < p->ahead; t++)
            gpu_copies_ahead(e, emit_text(e, "%s + %d * apart", tile_of(e, e->words->group), t), emit_text(e, "%d", t),
                             t);
        line(e, "i32 turn = 0;");
        turn = emit_text(e, ", turn = turn == %d ? 0 : turn + 1", p->ahead);
    } else if (e->once_flies) {
        line(e, "copies_wait(0);");
    }
    line(e, "for (i64 tile = %s; tile < tiles; tile += apart%s) {", tile_of(e, e->words->group), turn);
    e->depth++;
    gpu_row(e, "tile");
    if (!p->ahead) return;
    gpu_take_ahead(e);
    gpu_copies_ahead(e, emit_text(e, "tile + %d * apart", p->ahead),
                     emit_text(e, "(turn == 0 ? %d : turn - 1)", p->ahead), p->ahead - 1);
    for (int i = 0; i < e->k->nstripes; i++)
        if (e->buffers[i] > 1) line(e, "const u32 sh%d = base%d + turn * %" PRId64 ";", i, i, gpu_stripe_bytes(e, i));
}

void gpu_end(Emit *e) {
    for (int open = e->k->plan.grid ? 2 : 1; open; open--) {
        e->depth--;
        line(e, "}");
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

/* Do values of 64 bits meet in on-chip memory, or two of 32 as one? */
static bool meets_wide(const Emit *e) {
    for (int i = 0; i < e->k->nins; i++) {
        const Ins *in = gpu_at(e, i);
        if ((in->k == K_JOIN && ty_bytes(in->ty) == 8) || in->k == K_JOIN2) return true;
        if (in->k == K_PASS && in->imm == PASS_SUBGROUPS) return true;
    }
    return false;
}

/* Cells of places are as narrow as their positions. */
static Ty cell_type(const Emit *e, int cell) {
    for (int i = 0; i < e->k->nins; i++)
        if (gpu_at(e, i)->k == K_FOLD2 && gpu_at(e, i)->imm + 1 == cell) return gpu_place_type(e, gpu_at(e, i)->ty);
    return e->k->cell[cell].ty;
}

/* Sizes, stripes, row arrays and cells of a thread. */
void gpu_locals(Emit *e) {
    const Kern *k = e->k;
    const Ins slot = {.k = K_SLOT, .ty = TY_I64, .imm = kern_extent(k)};
    bool narrow = true;
    for (int i = 0; i < k->ndomains; i++) narrow &= k->domain[i].n_mapped <= INT32_MAX / 2;
    emit_sizes(e, e->words->slot ? e->words->slot(e, &slot) : emit_text(e, "a.s[%d].i", slot.imm), narrow);
    for (int i = 0; i < k->nstripes; i++) {
        const Stripe *s = &k->stripe[i];
        if (s->home == HOLD_SHARED) {
            e->words->shared(e, i);
            e->shared_bytes += gpu_stripe_bytes(e, i) * e->buffers[i];
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
    e->buffers = NEWN(e->cx->a, int, e->k->nstripes);
    e->awaited = NEWN(e->cx->a, bool, e->k->nins);
    e->side_by_side = rows_side_by_side(e);
    e->wide_slots = words->dialect != DIALECT_CUDA || meets_wide(e);
    e->narrow = words->keys;
    for (int i = 0; i < e->k->ndomains; i++) {
        int64_t n;
        e->narrow &= mul_fits(e->k->domain[i].n_serial, e->k->domain[i].n_mapped, &n) && n <= INT32_MAX;
    }
    gpu_find_copies(e);
}
