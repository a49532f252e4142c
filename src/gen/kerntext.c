/* Kern -> text: the plan and the tables first, then the nodes with one instruction a line. What is not shown does not
 * matter. */
#include "kern.h"

#include <string.h>

static const KInfo infos[K_COUNT] = {
    [K_CONST] = {"const", "=trk"},
    [K_SLOT] = {"slot", "=trn"},
    [K_ROWIDX] = {"rowidx", "=tr"},
    [K_SERIAL] = {"serial", "=tr"},
    [K_ELEM] = {"elem", "=tr"},
    [K_ACTIVE] = {"active", "=tr"},
    [K_OP] = {"op", "=otrx012"},
    [K_LOADP] = {"loadp", "=trpl01"},
    [K_LOAD1] = {"load1", "=trpl012"},
    [K_STOREP] = {"storep", "tpw012"},
    [K_STORE1] = {"store1", "tpw02"},
    [K_GET] = {"get", "=trS0"},
    [K_PUT] = {"put", "tS01"},
    [K_INIT] = {"init", "tCk"},
    [K_FOLD] = {"fold", "otC01"},
    [K_FOLD2] = {"fold2", "otC01"},
    [K_CELL] = {"cell", "=trCa"},
    [K_SETCELL] = {"setcell", "tC0"},
    [K_PACKFOLD] = {"packfold", "=otrk01"},
    [K_JOIN] = {"join", "=otr0"},
    [K_JOIN2] = {"join2", "=otr01"},
    [K_JOIN2I] = {"join2i", "=tr"},
    [K_PASS] = {"pass", "=trvk0"},
    [K_SAME] = {"same", "=tr0"},
    [K_ROWGET] = {"rowget", "=trA0"},
    [K_ROWPUT] = {"rowput", "tA01"},
    [K_MEET] = {"meet", "=otrg0"},
    [K_PART] = {"part", "=trC"},
    [K_SETPART] = {"setpart", "tCa0"},
    [K_SEG] = {"seg", "=trg"},
    [K_STORES] = {"stores", "tpwg02"},
};

const KInfo *kop_info(KOp k) {
    return &infos[k];
}

bool ins_makes(const Ins *in) {
    return infos[in->k].fields[0] == '=';
}

/* A fold's operator has the accumulator besides. */
bool ins_has(const Ins *in, int operand) {
    const bool folds = in->k == K_FOLD || in->k == K_PACKFOLD;
    if (in->k != K_OP && !folds) return true;
    return (int)in->op >= 0 && in->op < OP_COUNT && operand < op_info(in->op)->arity - folds;
}

Op ins_joins(const Ins *in) {
    return in->op == OP_FMA ? OP_ADD : in->op;
}

int ins_operands(const Ins *in, int at[3]) {
    int n = 0;
    for (const char *f = infos[in->k].fields; *f; f++) {
        if (*f < '0' || *f > '2') continue;
        int i = *f - '0';
        if (!ins_has(in, i)) continue;
        at[n++] = i;
    }
    return n;
}

const char *pass_text(int level) {
    static const char *const names[] = {"subgroups", "groups", "splits"};
    return level >= 0 && level < PASS_LEVELS ? names[level] : "?";
}

int pass_count(const Kern *k, int level) {
    const Plan *p = &k->plan;
    return level == PASS_SUBGROUPS ? (int)ceil_div(p->W, k->subgroup) : level == PASS_GROUPS ? p->cluster : p->split;
}

const char *rank_text(Rank r) {
    static const char *const names[] = {"row", "lane", "pack", "elem"};
    return names[r];
}

int kern_body(const Kern *k) {
    int n = k->root;
    while (n >= 0 && k->node[n].once) n = k->node[n].next;
    return n;
}

int kern_buffers(const Kern *k, int stripe) {
    const int body = kern_body(k), from = body < 0 ? k->nins : k->node[body].i0;
    for (int i = from; i < k->nins && k->stripe[stripe].home == HOLD_SHARED; i++) {
        const Ins *in = &k->ins[i];
        if (in->k == K_PUT && in->imm == stripe && k->ins[in->a[1]].k == K_LOADP) return 1 + k->plan.ahead;
    }
    return 1;
}

static char lower_case(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The names of the table's rows without OP_, as they are written in C; case does not tell two of them apart. */
static const char *const op_names[OP_COUNT] = {
#define OP(id, text, arity, form, typing, algebra, ulp, cost, meaning, host, cuda, cl, msl) &#id[3],
#include "../ir/ops.def"
#undef OP
};

const char *op_name(Op op) {
    return op_names[op];
}

bool op_named(const char *s, Op *out) {
    for (int i = 0; i < OP_COUNT; i++) {
        int n = 0;
        while (s[n] && s[n] == lower_case(op_names[i][n])) n++;
        if (!s[n] && !op_names[i][n]) return *out = (Op)i, true;
    }
    return false;
}

/* Names end their line, so any printable text will do; other bytes become spaces. */
static void put_note(Buf *out, const char *note) {
    if (note && *note) {
        buf_str(out, "  # ");
        for (const char *s = note; *s; s++) buf_put(out, (unsigned char)*s < 0x20 || *s == 0x7F ? " " : s, 1);
    }
    buf_str(out, "\n");
}

static void put_ty(Buf *out, int ty) {
    buf_fmt(out, " %s", ty > TY_NONE && ty < TY_COUNT ? ty_text((Ty)ty) : "?");
}

static void put_word(Buf *out, int dim, int at) {
    const DimInfo *d = dim_info(dim);
    buf_fmt(out, " %s", at >= 0 && at < d->nlegal ? d->word[at] : "?");
}

/* A number that reads back to the same bits: a NaN other than the usual one shows its bits. */
static void put_num(Buf *out, Ty ty, Num v) {
    uint32_t f;
    memcpy(&f, &v.f, sizeof f);
    buf_str(out, " ");
    switch (ty) {
    case TY_BOOL: buf_str(out, v.b ? "true" : "false"); return;
    case TY_U32:
    case TY_U64: buf_fmt(out, "%llu", (unsigned long long)v.u); return;
    case TY_F32:
        if (v.f != v.f && f != 0x7FC00000U)
            buf_fmt(out, "nan:%08x", f);
        else
            buf_f64(out, (double)v.f);
        return;
    case TY_F64:
        if (v.d != v.d && v.u != 0x7FF8000000000000U)
            buf_fmt(out, "nan:%016llx", (unsigned long long)v.u);
        else
            buf_f64(out, v.d);
        return;
    default: buf_fmt(out, "%lld", (long long)v.i); return;
    }
}

static void put_axes(Buf *out, const Prog *p, uint32_t set) {
    const char *sep = " ";
    for (int i = 0; i < p->naxes; i++) {
        if (!(set >> i & 1)) continue;
        buf_fmt(out, "%s%s", sep, p->axis[i].name);
        sep = ",";
    }
    if (*sep == ' ') buf_str(out, " -");
}

static void put_ins(const Kern *k, int i, Buf *out) {
    const Ins *in = &k->ins[i];
    if (in->k >= K_COUNT) {
        buf_str(out, "?\n");
        return;
    }
    const KInfo *info = kop_info(in->k);
    if (ins_makes(in)) buf_fmt(out, "%%%d = ", i);
    buf_str(out, info->text);
    for (const char *f = info->fields; *f; f++) {
        switch (*f) {
        case 'o': {
            buf_str(out, ".");
            for (const char *s = in->op < OP_COUNT ? op_name(in->op) : "?"; *s; s++)
                buf_put(out, &(char){lower_case(*s)}, 1);
            break;
        }
        case 't': put_ty(out, (int)in->ty); break;
        case 'r': buf_fmt(out, " %s", in->rank <= RANK_ELEM ? rank_text(in->rank) : "?"); break;
        case 'x':
            if (in->op != OP_CAST && in->op != OP_BITS) break;
            buf_str(out, " to");
            put_ty(out, (int)in->to);
            break;
        case 'k': put_num(out, in->ty, in->c); break;
        case 'n': buf_fmt(out, " %d", in->imm); break;
        case 'v': buf_fmt(out, " %s", pass_text(in->imm)); break;
        case 'p':
            buf_fmt(out, " %s", in->param >= 0 && in->param < k->prog->nparams ? k->prog->param[in->param].name : "?");
            break;
        case 'l': put_word(out, DIM_load, in->policy); break;
        case 'w': put_word(out, DIM_store, in->policy); break;
        case 'S': buf_fmt(out, " s%d", in->imm); break;
        case 'C': buf_fmt(out, " c%d", in->imm); break;
        case 'A': buf_fmt(out, " r%d", in->imm); break;
        case 'a': buf_fmt(out, " %d", in->acc); break;
        case 'g': buf_fmt(out, " %d", in->lanes); break;
        case '0':
        case '1':
        case '2': {
            int o = *f - '0';
            if (!ins_has(in, o)) break;
            if (in->a[o] < 0)
                buf_str(out, " _");
            else
                buf_fmt(out, " %%%d", in->a[o]);
            break;
        }
        default: break;
        }
    }
    put_note(out, in->note);
}

/* Each node once: a broken kern, whose links may go in circles, can be shown too. */
static void put_nodes(const Kern *k, int first, int depth, int *left, Buf *out) {
    for (int n = first; n >= 0 && n < k->nnodes && (*left)-- > 0; n = k->node[n].next) {
        const Node *nd = &k->node[n];
        buf_fmt(out, "%*s%s", 2 * depth, "", nd->once ? "once " : "");
        if (nd->kind == NODE_LOOP)
            buf_fmt(out, "loop %lld%s {", (long long)nd->count, nd->ranged ? " ranged" : "");
        else if (nd->kind == NODE_SWEEP)
            buf_fmt(out, "sweep d%d {", nd->domain);
        else
            buf_str(out, "block {");
        put_note(out, nd->note);
        if (nd->kind == NODE_LOOP) {
            put_nodes(k, nd->child, depth + 1, left, out);
        } else {
            for (int i = nd->i0; i >= 0 && i < nd->i1 && i < k->nins; i++) {
                buf_fmt(out, "%*s", 2 * depth + 2, "");
                put_ins(k, i, out);
            }
        }
        buf_fmt(out, "%*s}\n", 2 * depth, "");
    }
}

void kern_print(const Kern *k, Buf *out) {
    buf_str(out, "kern");
    put_note(out, k->name);
    buf_str(out, "plan ");
    plan_print(&k->plan, out);
    if (out->n && out->s[out->n - 1] != '\n') buf_str(out, "\n");
    buf_fmt(out, "machine subgroup %d poly %d\n", k->subgroup, k->poly);
    buf_fmt(out, "counts sweeps %d reductions %d slots %lld all %lld\n", k->nsweeps, k->nreds,
            (long long)k->stripes.live, (long long)k->stripes.sum);
    buf_str(out, "shape");
    for (int i = 0; i < k->prog->naxes; i++) {
        buf_fmt(out, " %s ", k->prog->axis[i].name);
        extent_print(&k->shape, i, out);
    }
    buf_str(out, "\n");
    for (int i = 0; i < k->ndomains; i++) {
        const Domain *d = &k->domain[i];
        buf_fmt(out, "domain d%d axes", i);
        put_axes(out, k->prog, d->axes);
        buf_str(out, " serial");
        put_axes(out, k->prog, d->serial);
        buf_str(out, " mapped");
        put_axes(out, k->prog, d->mapped);
        buf_fmt(out, " points %lld elements %lld\n", (long long)d->n_serial, (long long)d->n_mapped);
    }
    for (int i = 0; i < k->nstripes; i++) {
        const Stripe *s = &k->stripe[i];
        buf_fmt(out, "stripe s%d", i);
        put_ty(out, (int)s->ty);
        buf_fmt(out, " d%d sweeps %d %d %s", s->domain, s->first, s->last, hold_text(s->home));
        if (s->home == HOLD_OUTPUT)
            buf_fmt(out, " %s", s->param >= 0 && s->param < k->prog->nparams ? k->prog->param[s->param].name : "?");
        put_note(out, s->name);
    }
    for (int i = 0; i < k->ncells; i++) {
        buf_fmt(out, "cell c%d", i);
        put_ty(out, (int)k->cell[i].ty);
        buf_fmt(out, " %d", k->cell[i].acc);
        put_note(out, k->cell[i].name);
    }
    for (int i = 0; i < k->narrays; i++) {
        buf_fmt(out, "array r%d", i);
        put_ty(out, (int)k->array[i].ty);
        buf_fmt(out, " %lld\n", (long long)k->array[i].n);
    }
    int left = k->nnodes;
    put_nodes(k, k->root, 0, &left, out);
}
