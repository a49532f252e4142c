/* Appends instructions to a kern under construction: constants are folded, an instruction that is already there is used
 * again. */
#include <string.h>

#include "kern.h"

/* Bits of a constant, so that 0 and -0 differ and NaN equals itself. */
static uint64_t num_bits(Ty ty, Num c) {
    uint32_t f;
    switch (ty) {
    case TY_F32: memcpy(&f, &c.f, sizeof f); return f;
    case TY_BOOL: return c.b;
    default: return c.u;
    }
}

int kb_ins(Kb *b, Ins ins) {
    Kern *k = b->k;
    GROW(b->cx->a, k->ins, k->nins, k->ins_cap);
    k->ins[k->nins] = ins;
    return k->nins++;
}

static bool same(const Ins *p, const Ins *q) {
    return p->k == q->k && p->op == q->op && p->ty == q->ty && p->to == q->to && p->a[0] == q->a[0] &&
           p->a[1] == q->a[1] && p->a[2] == q->a[2] &&
           (p->k != K_CONST || num_bits(p->ty, p->c) == num_bits(q->ty, q->c));
}

/* Is the instruction one of the node at hand, or of a block of the row that is done? */
static bool in_reach(const Kb *b, int at) {
    const Kern *k = b->k;
    if (at >= b->memo0) return at < k->nins;
    for (int n = at < 0 ? -1 : k->root; n >= 0; n = k->node[n].next)
        if (k->node[n].kind == NODE_BLOCK && at >= k->node[n].i0 && at < k->node[n].i1) return true;
    return false;
}

/* A pure instruction: one with nearly the same hash is used again when it is the same and in reach. The memo is only a
 * hint, so instructions that the owner of the kern drops or rewrites need no upkeep here. */
static int pure(Kb *b, Ins ins) {
    enum { NEAR = 8 };
    uint64_t h = (uint64_t)ins.k + 31 * (uint64_t)ins.op + 1009 * (uint64_t)ins.ty + 9176 * (uint64_t)ins.to;
    for (int i = 0; i < 3; i++) h = (h ^ (uint64_t)(uint32_t)ins.a[i]) * 0x9E3779B97F4A7C15u;
    h = (h ^ (ins.k == K_CONST ? num_bits(ins.ty, ins.c) : 0)) * 0x9E3779B97F4A7C15u;
    int *memo = &b->memo[(h >> 32) % (uint64_t)(COUNT(b->memo) - NEAR)], put = 0;
    for (int i = NEAR - 1; i >= 0; i--) {
        const int at = memo[i] - 1;
        if (!in_reach(b, at))
            put = i;
        else if (same(&b->k->ins[at], &ins))
            return at;
    }
    memo[put] = kb_ins(b, ins) + 1;
    return memo[put] - 1;
}

static int constant(Kb *b, Ty ty, Num c) {
    return pure(b, (Ins){.k = K_CONST, .ty = ty, .rank = RANK_ROW, .a = {-1, -1, -1}, .param = -1, .c = c});
}

int kb_const_f(Kb *b, Ty ty, double x) {
    return constant(b, ty, num_cast(ty, (Num){.d = x}, TY_F64));
}

int kb_const_i(Kb *b, Ty ty, int64_t x) {
    if (ty == TY_U64) return constant(b, ty, (Num){.i = x}); /* its bits: the upper half has no i64 */
    return constant(b, ty, num_cast(ty, (Num){.i = x}, TY_I64));
}

/* `of` is the common type of the operands. Special functions stay as they are: their value is the device's. */
static int make(Kb *b, Op op, Ty of, Ty ty, Ty to, const int a[3]) {
    Rank rank = RANK_ROW;
    bool fold = op_info(op)->cost != COST_SPECIAL;
    Num v[3] = {{0}, {0}, {0}};
    for (int i = 0; i < op_info(op)->arity && i < COUNT(v); i++) {
        const Ins *p = &b->k->ins[a[i]];
        if (p->rank > rank) rank = p->rank;
        fold = fold && p->k == K_CONST;
        v[i] = p->c;
    }
    if (fold) return constant(b, ty, num_op(op, of, to, v[0], v[1], v[2]));
    return pure(b, (Ins){.k = K_OP, .op = op, .ty = ty, .to = to, .rank = rank, .a = {a[0], a[1], a[2]}, .param = -1});
}

int kb_op(Kb *b, Op op, int x, int y, int z) {
    const int a[3] = {x, y, z};
    Ty t[3] = {TY_NONE, TY_NONE, TY_NONE},
       ty = TY_NONE; /* TY_NONE for operands that do not fit: kern_verify names the place */
    for (int i = 0; i < op_info(op)->arity && i < COUNT(t); i++) t[i] = b->k->ins[a[i]].ty;
    if (!op_type(op, t, &ty)) return kb_ins(b, (Ins){.k = K_OP, .op = op, .ty = TY_NONE, .a = {x, y, z}, .param = -1});
    return make(b, op, op == OP_WHERE ? t[1] : t[0], ty, TY_NONE, a);
}

int kb_cast(Kb *b, Ty to, int x) {
    Ty of = b->k->ins[x].ty;
    return of == to ? x : make(b, OP_CAST, of, ty_compute(to), to, (const int[3]){x, -1, -1});
}

int kb_bits(Kb *b, Ty to, int x) {
    Ty of = b->k->ins[x].ty;
    return of == to ? x : make(b, OP_BITS, of, to, to, (const int[3]){x, -1, -1});
}
