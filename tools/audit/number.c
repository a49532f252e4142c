/* Types as a table, and one rounding for all float types. */
#include "number.h"
#include "safe.h"

#include <math.h>
#include <string.h>

static const TypeFact facts[TYPES] = {
    [T_NONE] = {"", NONE, 0, 0, 0, 0, false},
    [T_BOOL] = {"bool", BOOL, 1, 0, 0, 0, false},
    [I8] = {"i8", SINT, 1, 0, 0, 0, false},
    [I16] = {"i16", SINT, 2, 0, 0, 0, false},
    [I32] = {"i32", SINT, 4, 0, 0, 0, false},
    [I64] = {"i64", SINT, 8, 0, 0, 0, false},
    [U8] = {"u8", UINT, 1, 0, 0, 0, false},
    [U16] = {"u16", UINT, 2, 0, 0, 0, false},
    [U32] = {"u32", UINT, 4, 0, 0, 0, false},
    [U64] = {"u64", UINT, 8, 0, 0, 0, false},
    [F8E4M3] = {"f8e4m3", REAL, 1, 4, -6, 448, true},
    [F8E5M2] = {"f8e5m2", REAL, 1, 3, -14, 57344, true},
    [F16] = {"f16", REAL, 2, 11, -14, 65504, false},
    [BF16] = {"bf16", REAL, 2, 8, -126, 0x1.FEp127L, false},
    [F32] = {"f32", REAL, 4, 24, -126, 0x1.FFFFFEp127L, false},
    [F64] = {"f64", REAL, 8, 53, -1022, 0x1.FFFFFFFFFFFFFp1023L, false},
};

const TypeFact *type_fact(Type t) {
    return &facts[t];
}

bool type_named(const char *s, Type *out) {
    for (int t = T_BOOL; t < TYPES; t++)
        if (same_text(s, facts[t].name)) return *out = (Type)t, true;
    return false;
}

Type type_compute(Type t) {
    const TypeFact *f = &facts[t];
    if (f->kind == REAL) return t == F64 ? F64 : F32;
    if (f->kind == SINT || f->kind == UINT) return f->bytes < 4 ? I32 : t;
    return t;
}

static long double float_of_bits(Type t, uint64_t bits) {
    const TypeFact *f = &facts[t];
    const int width = 8 * f->bytes, man_bits = f->digits - 1, exp_bits = width - 1 - man_bits;
    const uint64_t man = bits & ((1ull << man_bits) - 1), exp = bits >> man_bits & ((1ull << exp_bits) - 1);
    const bool top = exp == (1ull << exp_bits) - 1;
    long double x;
    if (t == F8E4M3 && top && man == 7) /* the one NaN of e4m3, which has no infinities */
        x = (long double)NAN;
    else if (t != F8E4M3 && top)
        x = man ? (long double)NAN : (long double)INFINITY;
    else if (exp == 0)
        x = ldexpl((long double)man, f->least_exp - man_bits);
    else
        x = ldexpl((long double)(man | 1ull << man_bits), f->least_exp - man_bits + (int)exp - 1);
    return bits >> (width - 1) & 1 ? -x : x;
}

Number number_of_bits(Type t, const uint8_t *at) {
    uint64_t bits = 0;
    const TypeFact *f = &facts[t];
    for (int i = 0; i < f->bytes; i++) bits |= (uint64_t)at[i] << 8 * i;
    Number x = {0, 0};
    if (f->kind == REAL) {
        x.v = float_of_bits(t, bits);
    } else if (f->kind == BOOL) {
        x.i = bits != 0;
    } else {
        const int up = 64 - 8 * f->bytes;
        x.i = f->kind == SINT ? (int64_t)(bits << up) >> up : (int64_t)bits;
    }
    return x;
}

long double round_float(Type t, long double x) {
    const TypeFact *f = &facts[t];
    if (isnan(x) || x == 0) return x;
    long double y = x;
    if (!isinf(x)) {
        int e = ilogbl(x);
        if (e < f->least_exp) e = f->least_exp;
        const int unit = e - f->digits + 1;
        y = ldexpl(rintl(ldexpl(x, -unit)), unit);
        if (y == 0) y = copysignl(0, x);
    }
    if (fabsl(y) > f->most) y = copysignl(f->clamps ? f->most : (long double)INFINITY, x);
    return y;
}

static long double int_top(Type t) { /* 2^bits above the largest, or above the largest positive one */
    return ldexpl(1, 8 * facts[t].bytes - (facts[t].kind == SINT));
}

int64_t round_int(Type t, long double x) {
    if (facts[t].kind == BOOL) return x != 0;
    if (isnan(x)) return 0;
    const long double r = isinf(x) ? x : rintl(x), top = int_top(t);
    if (facts[t].kind == SINT) return r >= top ? (int64_t)(uint64_t)(top - 1) : r < -top ? (int64_t)-top : (int64_t)r;
    return r >= top ? (int64_t)(uint64_t)(top - 1) : r <= 0 ? 0 : (int64_t)(uint64_t)r;
}

long double int_real(Type t, int64_t i) {
    return facts[t].kind == UINT ? (long double)(uint64_t)i : (long double)i;
}

Number convert(Type from, Type to, Number x) {
    const long double v = facts[from].kind == REAL ? x.v : int_real(from, x.i); /* 64 bits of significand hold it */
    if (facts[to].kind == REAL) return (Number){round_float(to, v), 0};
    return (Number){0, round_int(to, v)};
}
