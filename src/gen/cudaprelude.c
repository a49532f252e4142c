/* The functions that CUDA units call, made when a unit's text names them. A name is family_type, or for accesses
 * family, bytes, x, bytes of an element, _policy: max_f32, cast_f32_bf16, ldn16x2_keep. No headers: what the compiler
 * knows by itself and inline PTX (ISA 8.x, sm_80 and later). Loads and stores are volatile PTX, so that no compiler
 * merges two that the plan keeps apart. */
#include "emit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct Pre {
    Arena *a;
    Buf *out;
    const char **seen;
    int nseen, cap;
} Pre;

typedef struct Name {
    const char *all, *family, *to; /* to: second type of a cast */
    Ty ty;
} Name;

static const char *ct(Ty t) {
    return t == TY_BOOL ? "b1" : ty_text(t);
}

static bool is_f(Ty t) {
    return ty_is_float(t);
}

#define FN "static __device__ __forceinline__ "

static void unary(Buf *b, const Name *n, const char *expr) {
    buf_fmt(b, FN "%s %s(%s x) { return %s; }\n", ct(n->ty), n->all, ct(n->ty), expr);
}
static void binary(Buf *b, const Name *n, const char *expr) {
    const char *t = ct(n->ty);
    buf_fmt(b, FN "%s %s(%s x, %s y) { return %s; }\n", t, n->all, t, t, expr);
}

/* Signed integers wrap, which C++ leaves open: unsigned ones do it. */
static const char *wrapping(Pre *p, Ty t, const char *sign) {
    if (!ty_is_signed(t) || !ty_is_int(t)) return arena_printf(p->a, "x %s y", sign);
    const char *u = ty_bytes(t) == 8 ? "u64" : "u32";
    return arena_printf(p->a, "(%s)((%s)x %s (%s)y)", ty_text(t), u, sign, u);
}

/* ---- arithmetic ---- */

static void f_add(Pre *p, Buf *b, const Name *n) {
    binary(b, n, wrapping(p, n->ty, str_eq(n->family, "add") ? "+" : str_eq(n->family, "sub") ? "-" : "*"));
}

static void f_div(Pre *p, Buf *b, const Name *n) {
    bool mod = str_eq(n->family, "mod");
    (void)p;
    if (is_f(n->ty))
        binary(b, n, "x / y");
    else if (ty_is_signed(n->ty))
        binary(b, n,
               mod                    ? "y == 0 || y == -1 ? 0 : x % y"
               : ty_bytes(n->ty) == 8 ? "y == 0 ? 0 : y == -1 ? (i64)(0 - (u64)x) : x / y"
                                      : "y == 0 ? 0 : y == -1 ? (i32)(0 - (u32)x) : x / y");
    else
        binary(b, n, mod ? "y ? x % y : 0" : "y ? x / y : 0");
}

static void f_neg(Pre *p, Buf *b, const Name *n) {
    (void)p;
    unary(b, n, is_f(n->ty) ? "-x" : ty_bytes(n->ty) == 8 ? "(i64)(0 - (u64)x)" : "(i32)(0 - (u32)x)");
}

static void f_abs(Pre *p, Buf *b, const Name *n) {
    (void)p;
    unary(b, n,
          n->ty == TY_F32        ? "fabsf(x)"
          : n->ty == TY_F64      ? "fabs(x)"
          : !ty_is_signed(n->ty) ? "x"
          : ty_bytes(n->ty) == 8 ? "x < 0 ? (i64)(0 - (u64)x) : x"
                                 : "x < 0 ? (i32)(0 - (u32)x) : x");
}

/* NaN if either is, +0 above -0: of f32 one instruction (PTX ISA, max: "+0.0 > -0.0"; .NaN from sm_80 on) */
static void f_minmax(Pre *p, Buf *b, const Name *n) {
    bool max = str_eq(n->family, "max");
    if (n->ty == TY_F32)
        buf_fmt(b,
                FN "f32 %s(f32 x, f32 y) { f32 r; asm(\"%s.NaN.f32 %%0, %%1, %%2;\" : \"=f\"(r) : \"f\"(x), \"f\"(y)); "
                   "return r; }\n",
                n->all, n->family);
    else if (n->ty == TY_F64)
        buf_fmt(b,
                FN "f64 %s(f64 x, f64 y) { return x != x || y != y ? NAN_F64 : x == y ? (__double_as_longlong(%s) < 0 "
                   "? y : x) : x %c y ? x : y; }\n",
                n->all, max ? "x" : "y", max ? '>' : '<');
    else
        binary(b, n, arena_printf(p->a, "x %c y ? x : y", max ? '>' : '<'));
}

static void f_round(Pre *p, Buf *b, const Name *n) {
    bool down = str_eq(n->family, "floor");
    unary(b, n,
          !is_f(n->ty) ? "x" : arena_printf(p->a, "%s%s(x)", down ? "floor" : "rint", n->ty == TY_F32 ? "f" : ""));
}

static void f_fma(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *t = ct(n->ty);
    buf_fmt(b, FN "%s %s(%s x, %s y, %s z) { return fma%s(x, y, z); }\n", t, n->all, t, t, t,
            n->ty == TY_F32 ? "f" : "");
}

static void f_clamp(Pre *p, Buf *b, const Name *n) {
    (void)p;
    binary(b, n, str_eq(n->family, "atmost") ? "x > y ? y : x" : "x < y ? y : x");
}

/* x 2^y, rounded once. Every power from 2^-149 to 2^127 is an f32, and what is above is reached without rounding. */
static void f_ldexp(Pre *p, Buf *b, const Name *n) {
    (void)p;
    if (n->ty == TY_F64) {
        binary(b, n, "x * exp2(y)");
        return;
    }
    buf_fmt(b,
            FN "f32 %s(f32 x, f32 y) {\n    if (y != y) return y;\n    if (!(fabsf(y) <= 126)) return (f32)((f64)x * "
               "__longlong_as_double((i64)(1023 + "
               "(i32)(y > 400 ? 400 : y < -400 ? -400 : y)) << 52));\n    return x * __int_as_float((127 + (i32)y) << "
               "23);\n}\n",
            n->all);
}

/* The compiler's own, not the fast ones: within the 4 ulp that the oracle grants a device. */
static void f_libm(Pre *p, Buf *b, const Name *n) {
    const char *f = n->ty == TY_F32 ? "f" : "";
    if (str_eq(n->family, "pow"))
        binary(b, n, arena_printf(p->a, "pow%s(x, y)", f));
    else if (str_eq(n->family, "sigmoid"))
        unary(b, n, arena_printf(p->a, "1 / (1 + exp%s(-x))", f));
    else
        unary(b, n, arena_printf(p->a, "%s%s(x)", n->family, f));
}

/* ---- comparison, choice, bits ---- */

static void f_cmp(Pre *p, Buf *b, const Name *n) {
    (void)p;
    static const char *const op[][2] = {{"lt", "<"},  {"le", "<="}, {"gt", ">"},
                                        {"ge", ">="}, {"eq", "=="}, {"ne", "!="}};
    int k = 0;
    while (!str_eq(op[k][0], n->family)) k++;
    buf_fmt(b, FN "b1 %s(%s x, %s y) { return x %s y; }\n", n->all, ct(n->ty), ct(n->ty), op[k][1]);
}

static void f_not(Pre *p, Buf *b, const Name *n) {
    (void)p;
    unary(b, n, "!x");
}

static void f_sel(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b, FN "%s %s(b1 c, %s x, %s y) { return c ? x : y; }\n", ct(n->ty), n->all, ct(n->ty), ct(n->ty));
}

static void f_shift(Pre *p, Buf *b, const Name *n) {
    bool left = str_eq(n->family, "shl");
    int mask = ty_bytes(n->ty) * 8 - 1;
    binary(b, n,
           left ? arena_printf(p->a, "(%s)((%s)x << (y & %d))", ct(n->ty), ty_bytes(n->ty) == 8 ? "u64" : "u32", mask)
                : arena_printf(p->a, "x >> (y & %d)", mask));
}

static void f_bits(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *how = n->ty == TY_F32   ? "f32 %s(i32 x) { return __int_as_float(x); }\n"
                      : n->ty == TY_F64 ? "f64 %s(i64 x) { return __longlong_as_double(x); }\n"
                      : n->ty == TY_I64 ? "i64 %s(f64 x) { return __double_as_longlong(x); }\n"
                                        : "i32 %s(f32 x) { return __float_as_int(x); }\n";
    buf_str(b, FN);
    buf_fmt(b, how, n->all);
}

/* beats_op_T(x, i, y, j): does element i with value x win over j with y? NaN beats all, the lower index wins a tie,
 * j < 0 is none yet. */
static void f_beats(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *t = ct(n->ty);
    char c = str_eq(n->to, "max") ? '>' : '<';
    buf_fmt(b, FN "b1 %s(%s x, i64 i, %s y, i64 j) {\n    if (i < 0 || j < 0) return i >= 0;\n", n->all, t, t);
    if (is_f(n->ty)) buf_str(b, "    if (x != x || y != y) return x != x && (y == y || i < j);\n");
    buf_fmt(b, "    return x %c y || (x == y && i < j);\n}\n", c);
}

/* ---- lanes ---- */

static void f_meet(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *t = ct(n->ty), *s = ty_text(n->ty);
    buf_fmt(b,
            FN "void %s(%s &x, i64 &i, i32 h, u32 who) {\n    const %s y = shx_%s(x, h, who);\n    const i64 j = "
               "shx_i64(i, h, who);\n"
               "    if (beats_%s_%s(y, j, x, i)) x = y, i = j;\n}\n",
            n->all, t, t, s, n->to, s);
}

static void f_shx(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b, FN "%s %s(%s x, i32 h, u32 who) { return %s__shfl_xor_sync(who, %sx, h); }\n", ct(n->ty), n->all,
            ct(n->ty), n->ty == TY_BOOL ? "0 != " : "", n->ty == TY_BOOL ? "(i32)" : "");
}

static void f_xput(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b, FN "u64 %s(%s x) { return %s; }\n", n->all, ct(n->ty),
            n->ty == TY_F32   ? "__float_as_uint(x)"
            : n->ty == TY_F64 ? "(u64)__double_as_longlong(x)"
                              : "(u64)x");
}

static void f_xget(Pre *p, Buf *b, const Name *n) {
    buf_fmt(b, FN "%s %s(u64 x) { return %s; }\n", ct(n->ty), n->all,
            n->ty == TY_F32   ? "__uint_as_float((u32)x)"
            : n->ty == TY_F64 ? "__longlong_as_double((i64)x)"
                              : arena_printf(p->a, "(%s)x", ct(n->ty)));
}

/* ---- storage: up_T from the bits of T to its compute type, dn_T back, pk_T two at once ---- */

static void f_up(Pre *p, Buf *b, const Name *n) {
    const char *from = ty_bytes(n->ty) == 8 ? "u64" : "u32", *to = ct(ty_compute(n->ty));
    buf_fmt(b, FN "%s %s(%s x) { ", to, n->all, from);
    switch (n->ty) {
    case TY_BOOL: buf_str(b, "return x != 0; }\n"); return;
    case TY_F32: buf_str(b, "return __uint_as_float(x); }\n"); return;
    case TY_F64: buf_str(b, "return __longlong_as_double((i64)x); }\n"); return;
    case TY_BF16: buf_str(b, "return __uint_as_float(x << 16); }\n"); return;
    case TY_F16: buf_str(b, "f32 r; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"((u16)x)); return r; }\n"); return;
    case TY_F8E4M3:
    case TY_F8E5M2: /* by f16, which holds them all */
        buf_fmt(b,
                "\n#if __CUDA_ARCH__ >= 890\n    u32 h;\n    asm(\"cvt.rn.f16x2.%s %%0, %%1;\" : \"=r\"(h) : "
                "\"h\"((u16)x));\n    return up_f16(h & "
                "0xffffu);\n#else\n    return wid_%s(x);\n#endif\n}\n",
                n->ty == TY_F8E4M3 ? "e4m3x2" : "e5m2x2", ty_text(n->ty));
        return;
    default: buf_fmt(b, "return (%s)(%s)x; }\n", to, ty_text(n->ty)); (void)p;
    }
}

static void f_dn(Pre *p, Buf *b, const Name *n) {
    const char *to = ty_bytes(n->ty) == 8 ? "u64" : "u32", *from = ct(ty_compute(n->ty)), *t = ty_text(n->ty);
    (void)p;
    buf_fmt(b, FN "%s %s(%s x) { ", to, n->all, from);
    switch (n->ty) {
    case TY_BOOL: buf_str(b, "return x; }\n"); return;
    case TY_F32: buf_str(b, "return __float_as_uint(x); }\n"); return;
    case TY_F64: buf_str(b, "return (u64)__double_as_longlong(x); }\n"); return;
    case TY_BF16:
    case TY_F16: buf_fmt(b, "u16 r; asm(\"cvt.rn.%s.f32 %%0, %%1;\" : \"=h\"(r) : \"f\"(x)); return r; }\n", t); return;
    case TY_F8E4M3:
    case TY_F8E5M2: buf_fmt(b, "return pk_%s(x, 0.0f) & 0xffu; }\n", t); return;
    default:
        if (ty_compute(n->ty) == n->ty)
            buf_fmt(b, "return (%s)x; }\n", to);
        else /* integers saturate */
            buf_fmt(b, "return (u32)cast_%s_%s(x) & 0x%xu; }\n", ty_text(ty_compute(n->ty)), t,
                    ty_bytes(n->ty) == 1 ? 0xffu : 0xffffu);
    }
}

static void f_pk(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty);
    (void)p;
    if (ty_bytes(n->ty) == 2)
        buf_fmt(b,
                FN "u32 %s(f32 x, f32 y) { u32 r; asm(\"cvt.rn.%sx2.f32 %%0, %%1, %%2;\" : \"=r\"(r) : \"f\"(y), "
                   "\"f\"(x)); return r; }\n",
                n->all, t);
    else
        buf_fmt(b,
                FN "u32 %s(f32 x, f32 y) {\n#if __CUDA_ARCH__ >= 890\n    u16 r;\n    asm(\"cvt.rn.satfinite.%s.f32 "
                   "%%0, %%1, %%2;\" : \"=h\"(r) : "
                   "\"f\"(y), \"f\"(x));\n    return r;\n#else\n    return nar_%s(x) | nar_%s(y) << 8;\n#endif\n}\n",
                n->all, n->ty == TY_F8E4M3 ? "e4m3x2" : "e5m2x2", t, t);
}

/* f8 in integer arithmetic, for devices without the instructions. As num_to_f8 and num_from_f8. */
static void f_nar(Pre *p, Buf *b, const Name *n) {
    bool e4 = n->ty == TY_F8E4M3;
    int e = e4 ? 4 : 5, m = e4 ? 3 : 2, emin = 2 - (1 << (e - 1));
    unsigned max = e4 ? 0x7E : 0x7B, nan = e4 ? 0x7F : 0x7E;
    (void)p;
    buf_fmt(b, FN "u32 %s(f32 x) {\n    const u32 u = __float_as_uint(x), a = u & 0x7fffffffu, sign = u >> 31 << %d;\n",
            n->all, e + m);
    buf_fmt(b, "    const i32 ex = a >> 23 ? (i32)(a >> 23) - 127 : -126;\n    const u32 mant = (a & 0x7fffffu) | (a "
               ">> 23 ? 0x800000u : 0u);\n");
    buf_fmt(b, "    i32 shift = %d + (ex < %d ? %d - ex : 0);\n    shift = shift > 25 ? 25 : shift;\n", 23 - m, emin,
            emin);
    buf_str(b, "    u32 kept = mant >> shift;\n    const u32 rest = mant & ((1u << shift) - 1), half = 1u << (shift - "
               "1);\n    kept += rest > half || "
               "(rest == half && (kept & 1));\n");
    buf_fmt(b,
            "    u32 code = kept + (ex > %d ? (u32)(ex - %d) << %d : 0u);\n    code = code > %uu ? %uu : code;\n    "
            "return sign | (a > "
            "0x7f800000u ? %uu : code);\n}\n",
            emin, emin, m, max, max, nan);
}

static void f_wid(Pre *p, Buf *b, const Name *n) {
    bool e4 = n->ty == TY_F8E4M3;
    int e = e4 ? 4 : 5, m = e4 ? 3 : 2, bias = (1 << (e - 1)) - 1;
    (void)p;
    buf_fmt(b,
            FN
            "f32 %s(u32 h) {\n    const u32 s = h >> %d << 31, code = h & %du, field = code >> %d, man = code & %du;\n",
            n->all, e + m, (1 << (e + m)) - 1, m, (1 << m) - 1);
    buf_fmt(b, "    if (%s) return __uint_as_float(s | %s);\n", e4 ? "code == 127" : "field == 31",
            e4 ? "0x7fc00000u" : "(man ? 0x7fc00000u : 0x7f800000u)");
    buf_fmt(b, "    if (field) return __uint_as_float(s | (field + %d) << 23 | man << %d);\n", 127 - bias, 23 - m);
    buf_fmt(b, "    return __uint_as_float(s | __float_as_uint((f32)man * %af));\n}\n",
            __builtin_ldexp(1, 1 - bias - m));
}

/* odd_T: to f32, rounded to odd, so that a second rounding to a short format is the only one that counts */
static void f_odd(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b, FN "f32 %s(%s x) {\n", n->all, ct(n->ty));
    if (n->ty == TY_F32)
        buf_str(b, "    return x;\n}\n");
    else if (n->ty == TY_BOOL)
        buf_str(b, "    return x ? 1.0f : 0.0f;\n}\n");
    else if (n->ty == TY_F64)
        buf_str(b, "    const f32 f = (f32)x;\n    if ((f64)f == x || x != x) return f;\n    return "
                   "__uint_as_float((__float_as_uint(f) - "
                   "(fabs((f64)f) > fabs(x) ? 1u : 0u)) | 1u);\n}\n");
    else if (ty_bytes(n->ty) < 8)
        buf_str(b, "    return odd_f64((f64)x);\n}\n");
    else {
        bool s = ty_is_signed(n->ty);
        buf_fmt(b, "    u64 u = %s;\n    f64 d = (f64)u;\n", s ? "x < 0 ? 0 - (u64)x : (u64)x" : "x");
        buf_fmt(b,
                "    if (!(d < 0x1p64 && (u64)d == u)) {\n        const u64 above = d >= 0x1p64 || (u64)d > u;\n"
                "        d = __longlong_as_double((i64)(((u64)__double_as_longlong(d) - above) | 1));\n    }\n    "
                "return odd_f64(%s);\n}\n",
                s ? "x < 0 ? -d : d" : "d");
    }
}

static void f_cast(Pre *p, Buf *b, const Name *n) {
    Ty to, from = n->ty;
    if (!ty_find(n->to, strlen(n->to), &to)) return;
    Ty r = ty_compute(to);
    const char *lo, *hi;
    (void)p;
    emit_int_range(to, &lo, &hi);
    buf_fmt(b, FN "%s %s(%s x) { ", ct(r), n->all, ct(from));
    if (to == TY_BOOL)
        buf_str(b, "return x != 0; }\n");
    else if (to == TY_F32 || to == TY_F64)
        buf_fmt(b, "return (%s)x; }\n", ct(to));
    else if (is_f(to))
        buf_fmt(b, "return up_%s(dn_%s(odd_%s(x))); }\n", n->to, n->to, ty_text(from));
    else if (is_f(from))
        buf_fmt(b, "x = rint%s(x); return x != x ? 0 : x <= (%s)%s ? %s : x >= (%s)%s ? %s : (%s)x; }\n",
                from == TY_F32 ? "f" : "", ct(from), lo, lo, ct(from), hi, hi, ct(r));
    else if (from == TY_BOOL)
        buf_str(b, "return x; }\n");
    else if (ty_is_signed(from) && !ty_is_signed(to))
        buf_fmt(b, "return x < 0 ? 0 : (u64)x > %s ? %s : (%s)x; }\n", hi, hi, ct(r));
    else if (ty_is_signed(from))
        buf_fmt(b, "return (i64)x < %s ? %s : (i64)x > %s ? %s : (%s)x; }\n", lo, lo, hi, hi, ct(r));
    else
        buf_fmt(b, "return (u64)x > (u64)%s ? %s : (%s)x; }\n", hi, hi, ct(r));
}

/* ---- accesses ---- */

typedef struct Access {
    bool load, guarded, element;
    int bytes, each, words;
    const char *policy, *hint; /* PTX qualifiers; ", %N" operand of a hinted access */
} Access;

static bool access_read(const char *word, Access *x) {
    static const struct {
        const char *name, *load;
        bool hinted;
    } loads[] = {{"plain", "", false},
                 {"keep", ".L1::evict_last.L2::cache_hint", true},
                 {"last", ".L1::evict_first.L2::cache_hint", true},
                 {"once", ".nc.L1::no_allocate", false},
                 {"noalloc", ".L1::no_allocate", false},
                 {"stream", ".cs", false}};
    char policy[16];
    int n = 0;
    *x = (Access){0};
    /* words are the emitter's own: their numbers have a digit or three. NOLINTBEGIN(cert-err34-c) */
    if (sscanf(word, "lde%d_%15[a-z]%n", &x->each, policy, &n) == 2 && !word[n])
        x->load = x->element = true, x->bytes = x->each;
    else if (sscanf(word, "ld%dx%d_%15[a-z]%n", &x->bytes, &x->each, policy, &n) == 3 && !word[n])
        x->load = true;
    else if (sscanf(word, "ldn%dx%d_%15[a-z]%n", &x->bytes, &x->each, policy, &n) == 3 && !word[n])
        x->load = x->guarded = true;
    else if (sscanf(word, "stn%dx%d_%15[a-z]%n", &x->bytes, &x->each, policy, &n) == 3 && !word[n])
        x->guarded = true;
    else if (sscanf(word, "st%dx%d_%15[a-z]%n", &x->bytes, &x->each, policy, &n) != 3 || word[n])
        return false;
    /* NOLINTEND(cert-err34-c) */
    x->words = x->bytes < 4 ? 1 : x->bytes / 4;
    for (int i = 0; i < COUNT(loads); i++)
        if (str_eq(loads[i].name, policy)) {
            x->policy = x->load ? loads[i].load : str_eq(policy, "stream") ? ".cs" : "";
            x->hint = x->load && loads[i].hinted ? "hint" : NULL;
            return true;
        }
    return false;
}

/* The PTX of one access of 1, 2, 4, 8 or 16 bytes, from or to C variables var0, var1 ... (text of a 16-bit one: h). */
static void ptx(Buf *b, const Access *x, int bytes, const char *guard, const char *const *var, const char *at) {
    static const char *const form[] = {[1] = ".u8", [2] = ".u16", [4] = ".u32", [8] = ".v2.u32", [16] = ".v4.u32"};
    int words = bytes < 4 ? 1 : bytes / 4, op = 0;
    const char *c = bytes == 2 ? "h" : "r";
    buf_fmt(b, "    asm volatile(\"%s%s%s.global%s%s ", guard ? "{ .reg .pred p; setp.ne.s32 p, " : "",
            guard ? arena_printf(b->a, "%%%d, 0; @p ", words + 1) : "", x->load ? "ld" : "st", x->policy, form[bytes]);
    Buf regs = buf_new(b->a);
    for (int i = 0; i < words; i++) buf_fmt(&regs, "%s%%%d", i ? ", " : "", op++);
    const char *list = words > 1 ? arena_printf(b->a, "{%s}", regs.s) : regs.s;
    const char *place = arena_printf(b->a, "[%%%d]", op++);
    if (x->load)
        buf_fmt(b, "%s, %s", list, place);
    else
        buf_fmt(b, "%s, %s", place, list);
    if (guard) op++;
    if (x->hint) buf_fmt(b, ", %%%d", op++);
    buf_fmt(b, ";%s\" : ", guard ? " }" : "");
    for (int i = 0; i < words && x->load; i++)
        buf_fmt(b, "%s\"%s%s\"(%s)", i ? ", " : "", guard ? "+" : "=", c, var[i]);
    buf_str(b, x->load ? " : " : ": ");
    for (int i = 0; i < words && !x->load; i++) buf_fmt(b, "\"%s\"(%s), ", c, var[i]);
    buf_fmt(b, "\"l\"(%s)", at);
    if (guard) buf_fmt(b, ", \"r\"(%s)", guard);
    if (x->hint) buf_str(b, ", \"l\"(hint)");
    buf_str(b, ");\n");
}

/* Piece by piece, for memory that is not aligned to the whole access. */
static void by_elements(Buf *b, const Access *x) {
    int n = x->bytes / x->each;
    buf_fmt(b, "    const char *q = (const char *)p;\n%s", x->guarded ? "    if (ok) {\n" : "    {\n");
    for (int i = 0; i < n; i++) {
        int w = i * x->each / 4, s = i * x->each % 4 * 8;
        const char *at = arena_printf(b->a, "q + %d", i * x->each);
        if (x->each == 8 && x->load)
            buf_fmt(b, "        { const u64 t = lde8_plain(%s); w%d = (u32)t, w%d = (u32)(t >> 32); }\n", at, w, w + 1);
        else if (x->each == 8)
            buf_fmt(b, "        st8x8_plain((void *)(%s), w%d, w%d);\n", at, w, w + 1);
        else if (x->load)
            buf_fmt(b, "        w%d %s lde%d_plain(%s) << %d;\n", w, s ? "|=" : "=", x->each, at, s);
        else
            buf_fmt(b, "        st%dx%d_plain((void *)(%s), w%d >> %d);\n", x->each, x->each, at, w, s);
    }
    buf_str(b, "    }\n");
}

static void access_make(Buf *b, const char *name, const Access *x) {
    static const char *const words[] = {"w0", "w1", "w2", "w3"}, *const halves[] = {"h"}, *const pair[] = {"a", "b"},
                             *const one[] = {"r"};
    if (x->element) { /* the bits of one element */
        const char *ty = x->bytes == 8 ? "u64" : "u32";
        buf_fmt(b, FN "%s %s(const void *p%s) {\n", ty, name, x->hint ? ", u64 hint" : "");
        buf_str(b, x->bytes == 8 ? "    u32 a, b;\n" : x->bytes == 2 ? "    u16 h;\n" : "    u32 r;\n");
        ptx(b, x, x->bytes, NULL, x->bytes == 8 ? pair : x->bytes == 2 ? halves : one, "p");
        buf_str(b, x->bytes == 8   ? "    return a | (u64)b << 32;\n}\n"
                   : x->bytes == 2 ? "    return h;\n}\n"
                                   : "    return r;\n}\n");
        return;
    }
    buf_fmt(b, FN "void %s(", name);
    for (int i = 0; i < x->words && x->load; i++) buf_fmt(b, "u32 &w%d, ", i);
    if (x->guarded) buf_str(b, "b1 ok, ");
    buf_str(b, x->load ? "const void *p" : "void *p");
    for (int i = 0; i < x->words && !x->load; i++) buf_fmt(b, ", u32 w%d", i);
    buf_fmt(b, "%s) {\n", x->hint ? ", u64 hint" : "");
    bool pieces = x->bytes > x->each;
    if (pieces) {
        buf_str(b, "#ifdef ROWFOLD_LOOSE\n");
        by_elements(b, x);
        buf_str(b, "#else\n");
    }
    if (x->bytes == 2) buf_fmt(b, "    u16 h = (u16)w0;\n");
    ptx(b, x, x->bytes, x->guarded ? "(i32)ok" : NULL, x->bytes == 2 ? halves : words, "p");
    if (x->bytes == 2 && x->load) buf_str(b, "    w0 = h;\n");
    if (pieces) buf_str(b, "#endif\n");
    buf_str(b, "}\n");
}

/* put1 put2 put4 put8: the bits of an element into a word that holds zeros there */
static void f_put(Buf *b, int bytes) {
    if (bytes == 8)
        buf_str(b, FN "void put8(u32 &lo, u32 &hi, i32, u64 x) { lo = (u32)x, hi = (u32)(x >> 32); }\n");
    else
        buf_fmt(b, FN "void put%d(u32 &w, i32 shift, u32 x) { w |= x << shift; }\n", bytes);
}

/* lds16 sts16 ...: as many bytes at a place in on-chip memory, as words; volatile, so that what is held there is not
 * held in registers as well */
static void f_shared(Buf *b, bool load, int bytes) {
    static const char *const form[] = {[1] = ".u8", [2] = ".u16", [4] = ".u32", [8] = ".v2.u32", [16] = ".v4.u32"};
    int words = bytes < 4 ? 1 : bytes / 4, at = load ? words : 0;
    buf_fmt(b, FN "void %s%d(", load ? "lds" : "sts", bytes);
    for (int i = 0; i < words && load; i++) buf_fmt(b, "u32 &w%d, ", i);
    buf_str(b, "u32 p");
    for (int i = 0; i < words && !load; i++) buf_fmt(b, ", u32 w%d", i);
    buf_str(b, ") {\n");
    if (bytes == 2) buf_fmt(b, "    u16 h%s;\n", load ? "" : " = (u16)w0");
    Buf list = buf_new(b->a), regs = buf_new(b->a);
    for (int i = 0; i < words; i++) {
        buf_fmt(&list, "%s%%%d", i ? ", " : "", load ? i : i + 1);
        const char *var = bytes == 2 ? "h" : arena_printf(b->a, "w%d", i);
        buf_fmt(&regs, "%s\"%s%s\"(%s)", i ? ", " : "", load ? "=" : "", bytes == 2 ? "h" : "r", var);
    }
    const char *all = words > 1 ? arena_printf(b->a, "{%s}", list.s) : list.s,
               *place = arena_printf(b->a, "[%%%d]", at);
    buf_fmt(b, "    asm volatile(\"%s.shared%s %s, %s;\" : ", load ? "ld" : "st", form[bytes], load ? all : place,
            load ? place : all);
    if (load)
        buf_fmt(b, "%s : \"r\"(p));\n", regs.s);
    else
        buf_fmt(b, ": \"r\"(p), %s);\n", regs.s);
    buf_str(b, bytes == 2 && load ? "    w0 = h;\n}\n" : "}\n");
}

/* ---- the table ---- */

typedef struct Family {
    const char *name;
    void (*make)(Pre *, Buf *, const Name *);
    bool pair; /* name_op_type */
} Family;
static const Family families[] = {
    {"add", f_add, 0},      {"sub", f_add, 0},      {"mul", f_add, 0},       {"div", f_div, 0},
    {"mod", f_div, 0},      {"neg", f_neg, 0},      {"abs", f_abs, 0},       {"min", f_minmax, 0},
    {"max", f_minmax, 0},   {"floor", f_round, 0},  {"round", f_round, 0},   {"sqrt", f_libm, 0},
    {"fma", f_fma, 0},      {"rsqrt", f_libm, 0},   {"exp", f_libm, 0},      {"exp2", f_libm, 0},
    {"log", f_libm, 0},     {"log2", f_libm, 0},    {"tanh", f_libm, 0},     {"erf", f_libm, 0},
    {"sigmoid", f_libm, 0}, {"pow", f_libm, 0},     {"lt", f_cmp, 0},        {"le", f_cmp, 0},
    {"gt", f_cmp, 0},       {"ge", f_cmp, 0},       {"eq", f_cmp, 0},        {"ne", f_cmp, 0},
    {"not", f_not, 0},      {"sel", f_sel, 0},      {"shl", f_shift, 0},     {"shr", f_shift, 0},
    {"bits", f_bits, 0},    {"cast", f_cast, 0},    {"odd", f_odd, 0},       {"up", f_up, 0},
    {"dn", f_dn, 0},        {"pk", f_pk, 0},        {"nar", f_nar, 0},       {"wid", f_wid, 0},
    {"shx", f_shx, 0},      {"xput", f_xput, 0},    {"xget", f_xget, 0},     {"beats", f_beats, 1},
    {"meet", f_meet, 1},    {"atmost", f_clamp, 0}, {"atleast", f_clamp, 0}, {"ldexp", f_ldexp, 0},
};

static void make(Pre *p, const char *word, Buf *b) {
    Access x;
    int put = 0, n = 0;
    /* NOLINTBEGIN(cert-err34-c): as above */
    if (sscanf(word, "put%d%n", &put, &n) == 1 && !word[n]) {
        f_put(b, put);
        return;
    }
    if ((sscanf(word, "lds%d%n", &put, &n) == 1 || sscanf(word, "sts%d%n", &put, &n) == 1) && !word[n]) {
        f_shared(b, word[0] == 'l', put);
        return;
    }
    /* NOLINTEND(cert-err34-c) */
    if (access_read(word, &x)) {
        access_make(b, word, &x);
        return;
    }
    const char *cut = strchr(word, '_');
    for (int i = 0; cut && i < COUNT(families); i++) {
        const Family *f = &families[i];
        if (strlen(f->name) != (size_t)(cut - word) || strncmp(f->name, word, strlen(f->name)) != 0) continue;
        char *rest = arena_printf(p->a, "%s", cut + 1), *second = strchr(rest, '_');
        Name name = {.all = word, .family = f->name};
        if (second) *second++ = 0;
        const char *type = f->pair ? second : rest;
        if (!type || !ty_find(type, strlen(type), &name.ty)) continue;
        name.to = f->pair ? rest : second;
        f->make(p, b, &name);
        return;
    }
}

static void need_all(Pre *p, const char *text);

static void need(Pre *p, const char *word) {
    for (int i = 0; i < p->nseen; i++)
        if (str_eq(p->seen[i], word)) return;
    Buf b = buf_new(p->a);
    make(p, word, &b);
    GROW(p->a, p->seen, p->nseen, p->cap);
    p->seen[p->nseen++] = word;
    if (!b.n) return;
    need_all(p, b.s);
    buf_put(p->out, b.s, b.n);
}

static void need_all(Pre *p, const char *text) {
    for (const char *c = text; *c;) {
        if (!isalpha((unsigned char)*c) && *c != '_') {
            c++;
            continue;
        }
        const char *end = c;
        while (isalnum((unsigned char)*end) || *end == '_') end++;
        size_t n = (size_t)(end - c);
        if (*end == '(' && n < 40) need(p, arena_str(p->a, c, n));
        c = end;
    }
}

void cuda_prelude(Emit *e, const char *body, Buf *out) {
    buf_str(out, "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64; typedef float "
                 "f32; typedef double f64; typedef bool b1;\n"
                 "typedef unsigned char u8, bool8, f8e4m3, f8e5m2; typedef unsigned short u16, f16, bf16; typedef "
                 "unsigned int u32; typedef unsigned long long u64;\n"
                 "union slot { void *p; i64 i; f64 d; }; struct __align__(16) v4 { u32 x, y, z, w; };\n"
                 "#define NAN_F32 __int_as_float(0x7fc00000)\n#define INF_F32 __int_as_float(0x7f800000)\n"
                 "#define NAN_F64 __longlong_as_double(0x7ff8000000000000ll)\n#define INF_F64 "
                 "__longlong_as_double(0x7ff0000000000000ll)\n");
    buf_str(out, "#define PRAGMA(x) _Pragma(#x)\n#define UNROLL(n) PRAGMA(unroll n)\n");
    if (e->slots) /* known only when all joins are emitted */
        buf_fmt(out, "#define EXCHANGE(warps) __shared__ u64 xs[2][%d][warps]; i32 xb = 0, xi;\n", e->slots);
    else
        buf_str(out, "#define EXCHANGE(warps)\n");
    if (e->k->plan.load == LOAD_KEEP)
        buf_str(out, FN "u64 policy_hot() { u64 p; asm(\"createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\" : "
                        "\"=l\"(p)); return p; }\n" FN
                        "u64 policy_cold() { u64 p; asm(\"createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\" : "
                        "\"=l\"(p)); return p; }\n");
    Pre p = {.a = e->cx->a, .out = out};
    need_all(&p, body);
}
