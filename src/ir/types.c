/* Types, operators and reductions: the tables of ops.def and reds.def as functions. */
#include "ir.h"

#include <math.h>
#include <string.h>

/* ---- types ---- */
static const struct {
    const char *text;
    int bytes;
    Ty compute;
} types[TY_COUNT] = {
    [TY_NONE] = {"none", 0, TY_NONE}, [TY_BOOL] = {"bool", 1, TY_BOOL},    [TY_I8] = {"i8", 1, TY_I32},
    [TY_I16] = {"i16", 2, TY_I32},    [TY_I32] = {"i32", 4, TY_I32},       [TY_I64] = {"i64", 8, TY_I64},
    [TY_U8] = {"u8", 1, TY_I32},      [TY_U16] = {"u16", 2, TY_I32},       [TY_U32] = {"u32", 4, TY_U32},
    [TY_U64] = {"u64", 8, TY_U64},    [TY_F8E4M3] = {"f8e4m3", 1, TY_F32}, [TY_F8E5M2] = {"f8e5m2", 1, TY_F32},
    [TY_F16] = {"f16", 2, TY_F32},    [TY_BF16] = {"bf16", 2, TY_F32},     [TY_F32] = {"f32", 4, TY_F32},
    [TY_F64] = {"f64", 8, TY_F64},
};

const char *ty_text(Ty t) {
    return types[t].text;
}
int ty_bytes(Ty t) {
    return types[t].bytes;
}
Ty ty_compute(Ty t) {
    return types[t].compute;
}
bool ty_is_float(Ty t) {
    return t >= TY_F8E4M3 && t <= TY_F64;
}
bool ty_is_int(Ty t) {
    return t >= TY_I8 && t <= TY_U64;
}
bool ty_is_signed(Ty t) {
    return ty_is_float(t) || (t >= TY_I8 && t <= TY_I64);
}

static bool text_is(const char *text, const char *s, size_t n) {
    return strlen(text) == n && !memcmp(text, s, n);
}

bool ty_find(const char *s, size_t n, Ty *out) {
    for (int t = TY_BOOL; t < TY_COUNT; t++)
        if (text_is(types[t].text, s, n)) return *out = (Ty)t, true;
    return false;
}

Ty ty_join(Ty a, Ty b) {
    if (a == b) return a;
    if (a == TY_NONE || b == TY_NONE) return TY_NONE;
    if (a == TY_F64 || b == TY_F64) return TY_F64;
    if (a == TY_F32 || b == TY_F32) return TY_F32;
    if (a == TY_BOOL) a = TY_I32;
    if (b == TY_BOOL) b = TY_I32;
    if (a == b) return a;
    if (ty_is_signed(a) || ty_is_signed(b)) return TY_I64; /* two widths of signed, or mixed signs */
    return TY_U64;
}

/* ---- operators ---- */
#define A ALG_A
#define C ALG_C
#define D ALG_D
#define SPELL(host, other) \
    (sizeof(other) == sizeof("=") ? (host) : (other)) /* "=" is the only spelling one byte long */
static const OpInfo ops[OP_COUNT] = {
#define OP(id, text, arity, form, typing, algebra, ulp, cost, meaning, host, cuda, cl, msl) \
    {text,    arity, FORM_##form, TR_##typing,                                              \
     algebra, ulp,   COST_##cost, {host, SPELL(host, cuda), SPELL(host, cl), SPELL(host, msl)}},
#include "ops.def"
#undef OP
};
#undef A
#undef C
#undef D
#undef SPELL

const OpInfo *op_info(Op op) {
    return &ops[op];
}

bool op_find(const char *text, OpForm form, Op *out) {
    for (int i = 0; i < OP_COUNT; i++)
        if (ops[i].form == form && str_eq(ops[i].text, text)) return *out = (Op)i, true;
    return false;
}

double op_f64(Op op, double x, double y, double z) {
    switch (op) {
#define OP(id, text, arity, form, typing, algebra, ulp, cost, meaning, host, cuda, cl, msl) \
    case id:                                                                                \
        return meaning;
#include "ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return 0;
}

Ty op_operand(Op op, const Ty *t) {
    const OpInfo *o = &ops[op];
    Ty join = TY_NONE;
    for (int i = o->typing == TR_SEL ? 1 : 0; i < o->arity; i++) {
        if (t[i] == TY_NONE) return TY_NONE;
        join = join == TY_NONE ? t[i] : ty_join(join, t[i]);
    }
    switch (o->typing) {
    case TR_ARITH:
        for (int i = 0; i < o->arity; i++)
            if (t[i] == TY_BOOL) return TY_NONE;
        return op == OP_MOD && ty_is_float(join) ? TY_NONE : join;
    case TR_FLOAT:
        for (int i = 0; i < o->arity; i++)
            if (t[i] == TY_BOOL) return TY_NONE;
        return join == TY_F64 ? TY_F64 : join == TY_NONE ? TY_NONE : TY_F32;
    case TR_KEEP: return join == TY_BOOL ? TY_NONE : join;
    case TR_CMP: return join == TY_BOOL ? TY_I32 : join; /* so that no dialect needs comparisons of bools */
    case TR_BOOL: return join == TY_BOOL ? TY_BOOL : TY_NONE;
    case TR_SEL: return t[0] == TY_BOOL ? join : TY_NONE;
    case TR_BITS:
        for (int i = 1; i < o->arity; i++)
            if (t[i] != t[0]) return TY_NONE;
        return join == TY_I32 || join == TY_I64 ? join : TY_NONE;
    case TR_NONE:
    case TR_CAST: break;
    }
    return TY_NONE;
}

bool op_type(Op op, const Ty *t, Ty *out) {
    Ty in = op_operand(op, t);
    *out = in != TY_NONE && ops[op].typing == TR_CMP ? TY_BOOL : in;
    return in != TY_NONE;
}

/* ---- reductions ---- */
static const RedInfo reds[RED_COUNT] = {
#define RED(id, text, join, result, empty) {text, join, RR_##result, empty},
#include "reds.def"
#undef RED
};

const RedInfo *red_info(Red r) {
    return &reds[r];
}

bool red_find(const char *text, size_t n, Red *out) {
    for (int i = 0; i < RED_COUNT; i++)
        if (text_is(reds[i].text, text, n)) return *out = (Red)i, true;
    return false;
}

/* Integers of a fold widen, so that a sum of i32 does not wrap where an i64 would not. */
static Ty widen_int(Ty t) {
    if (ty_is_float(t)) return t;
    return ty_is_int(t) && !ty_is_signed(t) ? TY_U64 : TY_I64;
}

Ty red_operand(Red r, Ty t) {
    if (t == TY_NONE) return TY_NONE;
    switch (reds[r].result) {
    case RR_SAME: return widen_int(t);
    case RR_FLOAT: return t == TY_F64 ? TY_F64 : TY_F32;
    case RR_BOOL: return TY_BOOL;
    case RR_INDEX: return t == TY_BOOL ? TY_I32 : t;
    }
    return TY_NONE;
}

Ty red_type(Red r, Ty operand) {
    return reds[r].result == RR_INDEX ? TY_I64 : red_operand(r, operand);
}

int64_t ty_end(Ty ty, bool highest) {
    switch (ty) {
    case TY_I32: return highest ? INT32_MAX : INT32_MIN;
    case TY_U32: return highest ? UINT32_MAX : 0;
    case TY_U64: return highest ? -1 : 0; /* -1: all bits */
    default: return highest ? INT64_MAX : INT64_MIN;
    }
}

double red_identity_f64(Red r, Ty operand) {
    if (!ty_is_float(red_type(r, operand))) return (double)red_identity_i64(r, operand);
    switch (reds[r].join) {
    case OP_ADD: return 0;
    case OP_MUL: return 1;
    case OP_MAX: return -INFINITY;
    case OP_MIN: return INFINITY;
    }
    return NAN; /* macros are not folds: they have no identity */
}

int64_t red_identity_i64(Red r, Ty operand) {
    switch (reds[r].join) {
    case OP_ADD:
    case OP_OR: return 0;
    case OP_MUL:
    case OP_AND: return 1;
    case OP_MAX: return ty_end(red_type(r, operand), false);
    case OP_MIN: return ty_end(red_type(r, operand), true);
    }
    return -1; /* the index of an empty argmax */
}

/* ---- holds ---- */
static const char *const holds[HOLD_COUNT] = {"auto",   "reload", "register", "register.f32",
                                              "output", "shared", "recompute"};

const char *hold_text(Hold h) {
    return holds[h];
}

bool hold_find(const char *s, Hold *out) {
    for (int i = 0; i < HOLD_COUNT; i++)
        if (str_eq(holds[i], s)) return *out = (Hold)i, true;
    return false;
}

/* ---- statistics ---- */
static const char *const stats[STAT_COUNT] = {"two-pass", "online", "shifted", "welford"};

const char *stat_text(Stat s) {
    return stats[s];
}

bool stat_find(const char *s, Stat *out) {
    for (int i = 0; i < STAT_COUNT; i++)
        if (str_eq(stats[i], s)) return *out = (Stat)i, true;
    return false;
}
