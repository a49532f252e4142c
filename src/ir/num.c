/* Numbers in storage, and every operator on them bit for bit: IEEE operations rounded one at a time, integers that
 * wrap. Built with -ffp-contract=off (gcc knows no pragma for it), so that x * y + z is never fused. */
#include "ir.h"

#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

static uint32_t f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static float f32_from(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* A field narrower than the union is set in a zeroed one, so that equal numbers are equal in all 8 bytes. */
static Num of_f(float f) {
    Num v = {0};
    v.f = f;
    return v;
}
static Num of_b(bool b) {
    Num v = {0};
    v.b = b;
    return v;
}
static Num of_d(double d) {
    return (Num){.d = d};
}
static Num of_i(int64_t i) {
    return (Num){.i = i};
}
static Num of_u(uint64_t u) {
    return (Num){.u = u};
}

/* ---- small floats ---- */
typedef struct Format { /* sign, e bits of exponent, m of mantissa; codes without the sign */
    int e, m;
    uint32_t max;      /* largest finite value */
    uint32_t overflow; /* what a larger one becomes: inf, or max where the type saturates */
    uint32_t nan;
} Format;
static const Format fmt_f16 = {5, 10, 0x7BFF, 0x7C00, 0x7E00};
static const Format fmt_e4m3 = {4, 3, 0x7E, 0x7E, 0x7F}; /* the "fn" form of OCP: no inf, one NaN a sign */
static const Format fmt_e5m2 = {5, 2, 0x7B, 0x7B, 0x7E};

/* Nearest even in integer arithmetic. The code of a finite value grows with it, so a carry out of the mantissa is right
 * by itself. */
static uint32_t narrow(const Format *f, float x) {
    uint32_t a = f32_bits(x) & 0x7FFFFFFF, sign = f32_bits(x) >> 31 << (f->e + f->m);
    if (a > 0x7F800000) return sign | f->nan;
    int ex = a >> 23 ? (int)(a >> 23) - 127 : -126, emin = 2 - (1 << (f->e - 1));
    uint32_t mant = (a & 0x7FFFFF) | (a >> 23 ? 0x800000u : 0);
    int shift = 23 - f->m + (ex < emin ? emin - ex : 0);
    if (shift > 25) shift = 25; /* below half of the smallest value already */
    uint32_t kept = mant >> shift, rest = mant & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (kept & 1))) kept++;
    uint32_t code = kept + (ex > emin ? (uint32_t)(ex - emin) << f->m : 0);
    return sign | (code > f->max ? f->overflow : code);
}

static float widen(const Format *f, uint32_t h) {
    uint32_t sign = h >> (f->e + f->m) << 31, code = h & ((1u << (f->e + f->m)) - 1);
    uint32_t field = code >> f->m, man = code & ((1u << f->m) - 1);
    int bias = (1 << (f->e - 1)) - 1;
    if (code > f->max) { /* e4m3 has no code between its largest value and NaN */
        bool inf = code == f->max + 1 && code != f->nan;
        return f32_from(sign | (inf ? 0x7F800000u : 0x7FC00000u | man << (23 - f->m)));
    }
    if (field) return f32_from(sign | (field + 127 - (uint32_t)bias) << 23 | man << (23 - f->m));
    float least = f32_from((uint32_t)(1 - bias - f->m + 127) << 23);
    return f32_from(sign | f32_bits((float)man * least));
}

float num_from_f16(uint16_t h) {
    return widen(&fmt_f16, h);
}
uint16_t num_to_f16(float x) {
    return (uint16_t)narrow(&fmt_f16, x);
}
float num_from_bf16(uint16_t h) {
    return f32_from((uint32_t)h << 16);
}
uint16_t num_to_bf16(float x) { /* the upper half of an f32: a carry out of the mantissa is right by itself */
    const uint32_t u = f32_bits(x);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 31 << 15 | 0x7FC0);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}
float num_from_f8(Ty f8, uint8_t h) {
    return widen(f8 == TY_F8E4M3 ? &fmt_e4m3 : &fmt_e5m2, h);
}
uint8_t num_to_f8(Ty f8, float x) {
    return (uint8_t)narrow(f8 == TY_F8E4M3 ? &fmt_e4m3 : &fmt_e5m2, x);
}

/* ---- storage ---- */
/* Rounding to odd keeps what a later rounding to a much shorter format needs: the two together round once, to nearest
 * even. */
static float odd_f32(double d) {
    float f = (float)d;
    if ((double)f == d || isnan(d)) return f;
    uint32_t u = f32_bits(f);
    if (fabs((double)f) > fabs(d)) u--;
    return f32_from(u | 1);
}
static double odd_f64(uint64_t u) {
    double d = (double)u;
    if (d < 0x1p64 && (uint64_t)d == u) return d;
    bool above = d >= 0x1p64 || (uint64_t)d > u;
    memcpy(&u, &d, sizeof u);
    u = (u - above) | 1;
    memcpy(&d, &u, sizeof d);
    return d;
}

static float odd_of(Num v, Ty vt) {
    switch (vt) {
    case TY_F32: return v.f;
    case TY_F64: return odd_f32(v.d);
    case TY_U32:
    case TY_U64: return odd_f32(odd_f64(v.u));
    case TY_BOOL: return v.b;
    default: return odd_f32(v.i < 0 ? -odd_f64(0 - (uint64_t)v.i) : odd_f64((uint64_t)v.i));
    }
}

double num_f64(Num v, Ty vt) {
    switch (vt) {
    case TY_BOOL: return v.b;
    case TY_F32: return (double)v.f;
    case TY_F64: return v.d;
    case TY_U32:
    case TY_U64: return (double)v.u;
    default: return (double)v.i;
    }
}

static float to_f32(Num v, Ty vt) { /* each in one rounding */
    switch (vt) {
    case TY_BOOL: return v.b;
    case TY_F32: return v.f;
    case TY_F64: return (float)v.d;
    case TY_U32:
    case TY_U64: return (float)v.u;
    default: return (float)v.i;
    }
}

static bool to_bool(Num v, Ty vt) { /* NaN is not zero */
    switch (vt) {
    case TY_BOOL: return v.b;
    case TY_F32: return v.f != 0;
    case TY_F64: return v.d != 0;
    default: return v.u != 0;
    }
}

static bool is_unsigned(Ty t) {
    return ty_is_int(t) && !ty_is_signed(t);
}

/* The integer nearest v in [lo, hi]; NaN is 0. lo and hi are exact as doubles or one below a power of two. */
static int64_t to_signed(Num v, Ty vt, int64_t lo, int64_t hi) {
    if (vt == TY_BOOL) return v.b;
    if (is_unsigned(vt)) return v.u > (uint64_t)hi ? hi : (int64_t)v.u;
    if (!ty_is_float(vt)) return v.i < lo ? lo : v.i > hi ? hi : v.i;
    double d = num_f64(v, vt);
    if (isnan(d)) return 0;
    d = nearbyint(d);
    return d <= (double)lo ? lo : d >= (double)hi ? hi : (int64_t)d;
}
static uint64_t to_unsigned(Num v, Ty vt, uint64_t hi) {
    if (vt == TY_BOOL) return v.b;
    if (is_unsigned(vt)) return v.u > hi ? hi : v.u;
    if (!ty_is_float(vt)) return v.i < 0 ? 0 : (uint64_t)v.i > hi ? hi : (uint64_t)v.i;
    double d = nearbyint(num_f64(v, vt));
    return !(d > 0) ? 0 : d >= (double)hi ? hi : (uint64_t)d;
}

#define LOAD(T, make)             \
    {                             \
        T h;                      \
        memcpy(&h, at, sizeof h); \
        return make;              \
    }
Num num_load(Ty storage, const void *at) {
    switch (storage) {
    case TY_BOOL: LOAD(uint8_t, of_b(h != 0))
    case TY_I8: LOAD(int8_t, of_i(h))
    case TY_I16: LOAD(int16_t, of_i(h))
    case TY_I32: LOAD(int32_t, of_i(h))
    case TY_I64: LOAD(int64_t, of_i(h))
    case TY_U8: LOAD(uint8_t, of_i(h))
    case TY_U16: LOAD(uint16_t, of_i(h))
    case TY_U32: LOAD(uint32_t, of_u(h))
    case TY_U64: LOAD(uint64_t, of_u(h))
    case TY_F8E4M3:
    case TY_F8E5M2: LOAD(uint8_t, of_f(num_from_f8(storage, h)))
    case TY_F16: LOAD(uint16_t, of_f(num_from_f16(h)))
    case TY_BF16: LOAD(uint16_t, of_f(num_from_bf16(h)))
    case TY_F32: LOAD(float, of_f(h))
    case TY_F64: LOAD(double, of_d(h))
    case TY_NONE:
    case TY_COUNT: break;
    }
    return of_i(0);
}

#define STORE(T, from)            \
    {                             \
        T h = (T)(from);          \
        memcpy(at, &h, sizeof h); \
        return;                   \
    }
void num_store(Ty storage, void *at, Num v, Ty vt) {
    switch (storage) {
    case TY_BOOL: STORE(uint8_t, to_bool(v, vt))
    case TY_I8: STORE(int8_t, to_signed(v, vt, INT8_MIN, INT8_MAX))
    case TY_I16: STORE(int16_t, to_signed(v, vt, INT16_MIN, INT16_MAX))
    case TY_I32: STORE(int32_t, to_signed(v, vt, INT32_MIN, INT32_MAX))
    case TY_I64: STORE(int64_t, to_signed(v, vt, INT64_MIN, INT64_MAX))
    case TY_U8: STORE(uint8_t, to_unsigned(v, vt, UINT8_MAX))
    case TY_U16: STORE(uint16_t, to_unsigned(v, vt, UINT16_MAX))
    case TY_U32: STORE(uint32_t, to_unsigned(v, vt, UINT32_MAX))
    case TY_U64: STORE(uint64_t, to_unsigned(v, vt, UINT64_MAX))
    case TY_F8E4M3:
    case TY_F8E5M2: STORE(uint8_t, num_to_f8(storage, odd_of(v, vt)))
    case TY_F16: STORE(uint16_t, num_to_f16(odd_of(v, vt)))
    case TY_BF16: STORE(uint16_t, num_to_bf16(odd_of(v, vt)))
    case TY_F32: STORE(float, to_f32(v, vt))
    case TY_F64: STORE(double, num_f64(v, vt))
    case TY_NONE:
    case TY_COUNT: break;
    }
}

Num num_cast(Ty to, Num v, Ty vt) {
    if (to == vt) return v;
    unsigned char at[8];
    num_store(to, at, v, vt);
    return num_load(to, at);
}

/* ---- operators ---- */
double num_max(double x, double y) {
    if (isnan(x) || isnan(y)) return NAN;
    return x > y || (x == y && !signbit(x)) ? x : y;
}
double num_min(double x, double y) {
    if (isnan(x) || isnan(y)) return NAN;
    return x < y || (x == y && signbit(x)) ? x : y;
}

static Num op_f32(Op op, float x, float y, float z) {
    switch (op) {
    case OP_ADD: return of_f(x + y);
    case OP_SUB: return of_f(x - y);
    case OP_MUL: return of_f(x * y);
    case OP_DIV: return of_f(x / y);
    case OP_NEG: return of_f(-x);
    case OP_ABS: return of_f(fabsf(x));
    case OP_MIN: return of_f((float)num_min((double)x, (double)y));
    case OP_MAX: return of_f((float)num_max((double)x, (double)y));
    case OP_FLOOR: return of_f(floorf(x));
    case OP_ROUND: return of_f(nearbyintf(x));
    case OP_SQRT: return of_f(sqrtf(x));
    case OP_FMA: return of_f(fmaf(x, y, z));
    case OP_ATMOST: return of_f(x > y ? y : x);
    case OP_ATLEAST: return of_f(x < y ? y : x);
    case OP_LDEXP:
        return of_f(
            (float)((double)x * ldexp(1, isnan(y) ? 0 : (int)fmaxf(fminf(y, 400), -400)) + (isnan(y) ? (double)y : 0)));
    default: return of_f(NAN);
    }
}

static Num op_i64(Op op, int64_t x, int64_t y) { /* also i32, whose result is then wrapped to 32 bits */
    uint64_t ux = (uint64_t)x, uy = (uint64_t)y;
    switch (op) {
    case OP_ADD: return of_u(ux + uy);
    case OP_SUB: return of_u(ux - uy);
    case OP_MUL: return of_u(ux * uy);
    case OP_DIV: return y == 0 ? of_i(0) : y == -1 ? of_u(0 - ux) : of_i(x / y);
    case OP_MOD: return y == 0 || y == -1 ? of_i(0) : of_i(x % y);
    case OP_NEG: return of_u(0 - ux);
    case OP_ABS: return of_u(x < 0 ? 0 - ux : ux);
    case OP_MIN: return of_i(x < y ? x : y);
    case OP_MAX: return of_i(x > y ? x : y);
    case OP_FLOOR:
    case OP_ROUND: return of_i(x);
    case OP_BITAND: return of_u(ux & uy);
    case OP_BITOR: return of_u(ux | uy);
    case OP_BITXOR: return of_u(ux ^ uy);
    default: return of_i(0);
    }
}

static Num op_u64(Op op, uint64_t x, uint64_t y) {
    switch (op) {
    case OP_DIV: return of_u(y ? x / y : 0);
    case OP_MOD: return of_u(y ? x % y : 0);
    case OP_MIN: return of_u(x < y ? x : y);
    case OP_MAX: return of_u(x > y ? x : y);
    case OP_ABS: return of_u(x);
    default: return op_i64(op, (int64_t)x, (int64_t)y); /* the same bits whatever the sign */
    }
}

static Num op_shift(Op op, Ty t, Num x, Num y) { /* counts are taken modulo the width; a right shift copies the sign */
    unsigned n = (unsigned)(y.u & (t == TY_I32 ? 31 : 63));
    if (op == OP_SHL) return of_u(x.u << n);
    return of_u(x.i < 0 ? ~(~x.u >> n) : x.u >> n);
}

static Num op_compare(Op op, Ty t, Num x, Num y) {
    bool less, equal;
    if (t == TY_F32)
        less = x.f < y.f, equal = x.f == y.f;
    else if (t == TY_F64)
        less = x.d < y.d, equal = x.d == y.d;
    else if (t == TY_U32 || t == TY_U64)
        less = x.u < y.u, equal = x.u == y.u;
    else if (t == TY_BOOL)
        less = x.b < y.b, equal = x.b == y.b;
    else
        less = x.i < y.i, equal = x.i == y.i;
    bool ordered = t == TY_F32 ? !isnan(x.f) && !isnan(y.f) : t != TY_F64 || (!isnan(x.d) && !isnan(y.d));
    switch (op) {
    case OP_LT: return of_b(less);
    case OP_LE: return of_b(less || equal);
    case OP_GT: return of_b(ordered && !less && !equal);
    case OP_GE: return of_b(ordered && !less);
    case OP_EQ: return of_b(equal);
    default: return of_b(!equal);
    }
}

static Num op_bits(Ty t, Ty to, Num x) {
    if (t == to || ty_bytes(t) != ty_bytes(to)) return x;
    if (t == TY_F32) return to == TY_I32 ? of_i((int32_t)f32_bits(x.f)) : of_u(f32_bits(x.f));
    if (to == TY_F32) return of_f(f32_from((uint32_t)x.u));
    if (to == TY_I32) return of_i((int32_t)(uint32_t)x.u);
    if (to == TY_U32) return of_u((uint32_t)x.u);
    return x; /* 64 bits: the union itself */
}

/* Integers of 32 bits live in 64: what an operation carried beyond them is cut off. */
static Num wrap(Ty t, Num v) {
    return t == TY_I32 ? of_i((int32_t)(uint32_t)v.u) : t == TY_U32 ? of_u((uint32_t)v.u) : v;
}

Num num_op(Op op, Ty t, Ty to, Num x, Num y, Num z) {
    switch (op) {
    case OP_CAST: return num_cast(to, x, t);
    case OP_BITS: return op_bits(t, to, x);
    case OP_WHERE: return x.b ? y : z;
    case OP_AND: return of_b(x.b && y.b);
    case OP_OR: return of_b(x.b || y.b);
    case OP_NOT: return of_b(!x.b);
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_EQ:
    case OP_NE: return op_compare(op, t, x, y);
    case OP_SHL:
    case OP_SHR: return wrap(t, op_shift(op, t, x, y));
    default: break;
    }
    if (t == TY_F32) return op_f32(op, x.f, y.f, z.f);
    if (t == TY_F64) return of_d(op_f64(op, x.d, y.d, z.d)); /* the meaning is the operation, or libm's */
    return wrap(t, is_unsigned(t) ? op_u64(op, x.u, y.u) : op_i64(op, x.i, y.i));
}
