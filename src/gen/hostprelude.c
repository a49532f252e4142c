/* The functions that host units call, made when a unit's text names them: scalar ones that say what an operator means,
 * vector ones of L elements that do the same, spelt with the machine's own instructions where that matters and lane by
 * lane where it does not.
 *
 * A name is family_type: max_f32, max_vf32, ldn_bf16. The families are one table; what a text calls is found by reading
 * it. */
#include "emit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct Pre {
    Arena *a;
    Isa isa;
    int L;
    bool wide; /* AVX-512 with whole registers: masks are 16-bit numbers */
    bool ymm;  /* AVX2 with whole registers */
    Buf *out;
    const char **seen;
    int nseen, cap;
} Pre;

typedef struct Name { /* of a function: family, type, whether it is on vectors, and a second type (casts) or operator
                         (joins) */
    const char *all, *family, *to;
    Ty ty;
    bool vector;
} Name;

static bool is_f(Ty t) {
    return ty_is_float(t);
}
static const char *ct(Ty t) {
    return t == TY_BOOL ? "b1" : ty_text(t);
} /* compute type, scalar */
static const char *st(Ty t) {
    return t == TY_BOOL ? "bool8" : ty_text(t);
} /* storage type */
static const char *sfx(Ty t) {
    return t == TY_F32 ? "f" : "";
}

static void unary(Buf *b, const Name *n, const char *expr) {
    buf_fmt(b, "static inline %s %s(%s x) { return %s; }\n", ct(n->ty), n->all, ct(n->ty), expr);
}
static void binary(Buf *b, const Name *n, const char *expr) {
    buf_fmt(b, "static inline %s %s(%s x, %s y) { return %s; }\n", ct(n->ty), n->all, ct(n->ty), ct(n->ty), expr);
}
static void vunary(Buf *b, const Name *n, const char *expr) {
    buf_fmt(b, "static inline v%s %s(v%s x) { return %s; }\n", ty_text(n->ty), n->all, ty_text(n->ty), expr);
}
static void vbinary(Buf *b, const Name *n, const char *expr) {
    const char *t = ty_text(n->ty);
    buf_fmt(b, "static inline v%s %s(v%s x, v%s y) { return %s; }\n", t, n->all, t, t, expr);
}
/* Lane by lane with the scalar function. */
static void lanes(Pre *p, Buf *b, const Name *n, int arity) {
    const char *t = ty_text(n->ty);
    buf_fmt(b, "static inline v%s %s(v%s x%s%s%s%s) {\n    v%s r;\n", t, n->all, t, arity > 1 ? ", v" : "",
            arity > 1 ? t : "", arity > 1 ? " y" : "", arity > 2 ? arena_printf(p->a, ", v%s z", t) : "", t);
    buf_fmt(b, "    for (int i = 0; i < %d; i++) r[i] = %s_%s(x[i]%s%s);\n    return r;\n}\n", p->L, n->family, t,
            arity > 1 ? ", y[i]" : "", arity > 2 ? ", z[i]" : "");
}

/* ---- arithmetic ---- */

static void f_div(Pre *p, Buf *b, const Name *n) {
    if (n->vector)
        is_f(n->ty) ? vbinary(b, n, "x / y") : lanes(p, b, n, 2);
    else
        binary(b, n,
               is_f(n->ty)           ? "x / y"
               : ty_is_signed(n->ty) ? "y == 0 ? 0 : y == -1 ? 0 - x : x / y"
                                     : "y ? x / y : 0");
}

static void f_mod(Pre *p, Buf *b, const Name *n) {
    if (n->vector)
        lanes(p, b, n, 2);
    else
        binary(b, n, ty_is_signed(n->ty) ? "y == 0 || y == -1 ? 0 : x % y" : "y ? x % y : 0");
}

static void f_neg(Pre *p, Buf *b, const Name *n) {
    (void)p;
    n->vector ? vunary(b, n, "-x") : unary(b, n, "-x");
}

static void f_abs(Pre *p, Buf *b, const Name *n) {
    if (!n->vector)
        unary(b, n,
              is_f(n->ty)           ? arena_printf(p->a, "__builtin_fabs%s(x)", sfx(n->ty))
              : ty_is_signed(n->ty) ? "x < 0 ? 0 - x : x"
                                    : "x");
    else if (n->ty == TY_F32)
        vunary(b, n, "(vf32)((vi32)x & 0x7fffffff)");
    else if (n->ty == TY_F64)
        vunary(b, n, "(vf64)((vi64)x & 0x7fffffffffffffffll)");
    else
        lanes(p, b, n, 1);
}

/* NaN if either is, +0 above -0. VRANGEPS orders zeros and drops a NaN, so only NaN is put back (Intel SDM, VRANGEPS).
 */
static void f_minmax(Pre *p, Buf *b, const Name *n) {
    bool max = str_eq(n->family, "max");
    const char *t = ty_text(n->ty);
    if (!n->vector && is_f(n->ty)) {
        const char *s = sfx(n->ty);
        buf_fmt(b, "static inline %s %s(%s x, %s y) {\n    if (x != x || y != y) return __builtin_nan%s(\"\");\n", t,
                n->all, t, t, s);
        buf_fmt(b, "    if (x == y) return __builtin_signbit(%s) ? y : x;\n    return x %c y ? x : y;\n}\n",
                max ? "x" : "y", max ? '>' : '<');
    } else if (!n->vector) {
        binary(b, n, max ? "x > y ? x : y" : "x < y ? x : y");
    } else if (p->wide && n->ty == TY_F32) {
        buf_fmt(b,
                "static inline vf32 %s(vf32 x, vf32 y) {\n    vf32 r = __builtin_ia32_rangeps512_mask(x, y, %d, x, "
                "(unsigned short)-1, 4);\n"
                "    return sel_vf32(__builtin_ia32_cmpps512_mask(x, y, 3, (unsigned short)-1, 4), x + y, r);\n}\n",
                n->all, max ? 5 : 4);
    } else if (is_f(n->ty)) {
        const char *i = n->ty == TY_F32 ? "vi32" : "vi64";
        buf_fmt(b, "static inline v%s %s(v%s x, v%s y) {\n    v%s same = (v%s)((%s)x %c (%s)y), sum = x + y;\n", t,
                n->all, t, t, t, t, i, max ? '&' : '|', i);
        buf_fmt(b, "    %s m = x %c y, e = x == y, u = (x != x) | (y != y);\n", i, max ? '>' : '<');
        buf_fmt(b,
                "    %s r = ((%s)x & m) | ((%s)y & ~m);\n    r = ((%s)same & e) | (r & ~e);\n    return (v%s)(((%s)sum "
                "& u) | (r & ~u));\n}\n",
                i, i, i, i, t, i);
    } else {
        vbinary(b, n, arena_printf(p->a, "sel_v%s(%s_v%s(x, y), x, y)", t, max ? "gt" : "lt", t));
    }
}

static void f_round(Pre *p, Buf *b, const Name *n) {
    bool down = str_eq(n->family, "floor");
    if (!is_f(n->ty))
        n->vector ? vunary(b, n, "x") : unary(b, n, "x");
    else if (!n->vector)
        unary(b, n, arena_printf(p->a, "__builtin_%s%s(x)", down ? "floor" : "rint", sfx(n->ty)));
    else if (p->wide && n->ty == TY_F32)
        vunary(b, n,
               arena_printf(p->a, "__builtin_ia32_rndscaleps_mask(x, %d, x, (unsigned short)-1, 4)", down ? 9 : 8));
    else if (p->ymm && n->ty == TY_F32)
        vunary(b, n, arena_printf(p->a, "__builtin_ia32_roundps256(x, %d)", down ? 9 : 8));
    else
        lanes(p, b, n, 1);
}

static void f_sqrt(Pre *p, Buf *b, const Name *n) {
    if (!n->vector)
        unary(b, n, arena_printf(p->a, "__builtin_sqrt%s(x)", sfx(n->ty)));
    else if (p->wide && n->ty == TY_F32)
        buf_fmt(b,
                "#ifdef __clang__\nstatic inline vf32 %s(vf32 x) { return __builtin_ia32_sqrtps512(x, 4); }\n#else\n"
                "static inline vf32 %s(vf32 x) { return __builtin_ia32_sqrtps512_mask(x, x, (unsigned short)-1, 4); "
                "}\n#endif\n",
                n->all, n->all);
    else if (p->ymm && n->ty == TY_F32)
        buf_fmt(b,
                "#ifdef __clang__\nstatic inline vf32 %s(vf32 x) { vf32 r; for (int i = 0; i < 8; i++) r[i] = "
                "__builtin_sqrtf(x[i]); return r; }\n#else\nstatic inline vf32 %s(vf32 x) { return "
                "__builtin_ia32_sqrtps256(x); }\n#endif\n",
                n->all, n->all);
    else
        lanes(p, b, n, 1);
}

static void f_fma(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty);
    if (!n->vector)
        buf_fmt(b, "static inline %s %s(%s x, %s y, %s z) { return __builtin_fma%s(x, y, z); }\n", t, n->all, t, t, t,
                sfx(n->ty));
    else if (p->wide && n->ty == TY_F32)
        buf_fmt(b,
                "static inline vf32 %s(vf32 x, vf32 y, vf32 z) { return __builtin_ia32_vfmaddps512_mask(x, y, z, "
                "(unsigned short)-1, 4); }\n",
                n->all);
    else if (p->ymm && n->ty == TY_F32)
        buf_fmt(b, "static inline vf32 %s(vf32 x, vf32 y, vf32 z) { return __builtin_ia32_vfmaddps256(x, y, z); }\n",
                n->all);
    else
        lanes(p, b, n, 3);
}

/* c where x is past it, else x, a NaN too: what VMAXPS and VMINPS do with x as their second operand (Intel SDM) */
static void f_clamp(Pre *p, Buf *b, const Name *n) {
    bool most = str_eq(n->family, "atmost");
    if (!n->vector)
        binary(b, n, most ? "x > y ? y : x" : "x < y ? y : x");
    else if (p->wide && n->ty == TY_F32)
        buf_fmt(b,
                "#ifdef __clang__\nstatic inline vf32 %s(vf32 x, vf32 y) { return __builtin_ia32_%sps512(y, x, 4); "
                "}\n#else\n"
                "static inline vf32 %s(vf32 x, vf32 y) { return __builtin_ia32_%sps512_mask(y, x, y, (unsigned "
                "short)-1, 4); }\n#endif\n",
                n->all, most ? "min" : "max", n->all, most ? "min" : "max");
    else if (p->ymm && n->ty == TY_F32)
        buf_fmt(b, "static inline vf32 %s(vf32 x, vf32 y) { return __builtin_ia32_%sps256(y, x); }\n", n->all,
                most ? "min" : "max");
    else
        vbinary(b, n,
                arena_printf(p->a, "sel_v%s(%s_v%s(x, y), y, x)", ty_text(n->ty), most ? "gt" : "lt", ty_text(n->ty)));
}

/* x 2^y, rounded once: through f64, whose range holds the product, or by VSCALEFPS */
static void f_ldexp(Pre *p, Buf *b, const Name *n) {
    if (!n->vector && n->ty == TY_F32)
        buf_fmt(b,
                "static inline f32 %s(f32 x, f32 y) {\n    if (y != y) return y;\n    i64 u = 1023 + (i64)(y > 400 ? "
                "400 : y < -400 ? -400 : y);\n    f64 s;\n"
                "    u <<= 52;\n    __builtin_memcpy(&s, &u, 8);\n    return (f32)((f64)x * s);\n}\n",
                n->all);
    else if (!n->vector)
        binary(b, n, "x * __builtin_exp2(y)");
    else if (p->wide && n->ty == TY_F32)
        buf_fmt(b,
                "static inline vf32 %s(vf32 x, vf32 y) { return __builtin_ia32_scalefps512_mask(x, y, x, (unsigned "
                "short)-1, 4); }\n",
                n->all);
    else if (n->ty == TY_F32)
        buf_fmt(b,
                "static inline vf32 %s(vf32 x, vf32 y) {\n    vf32 z = atmost_vf32(atleast_vf32(y, bc_vf32(-400)), "
                "bc_vf32(400)), m = z + bc_vf32(0x1.8p23f);\n"
                "    vi64 u = __builtin_convertvector((vi32)m - 0x4b400000 + 1023, vi64) << 52;\n"
                "    return sel_vf32(ne_vf32(y, y), y, __builtin_convertvector(__builtin_convertvector(x, vf64) * "
                "(vf64)u, vf32));\n}\n",
                n->all);
    else
        lanes(p, b, n, 2);
}

/* f64 special functions are the C library's; f32 ones were expanded in the kern. Under a name of their own, so that no
 * compiler works one out itself: gcc's value of exp(0.1) is correctly rounded, the library's need not be. */
static void f_libm(Pre *p, Buf *b, const Name *n) {
    bool pow = str_eq(n->family, "pow"), root = str_eq(n->family, "rsqrt"), sigmoid = str_eq(n->family, "sigmoid");
    if (n->vector) {
        lanes(p, b, n, pow ? 2 : 1);
        return;
    }
    const char *call = sigmoid ? "exp" : n->family;
    if (!root)
        buf_fmt(b, "extern f64 c_%s(f64%s) __asm__(SYMBOL(__USER_LABEL_PREFIX__) \"%s\");\n", n->all,
                pow ? ", f64" : "", call);
    if (pow)
        binary(b, n, arena_printf(p->a, "c_%s(x, y)", n->all));
    else if (root)
        unary(b, n, "1 / __builtin_sqrt(x)");
    else
        unary(b, n, arena_printf(p->a, sigmoid ? "1 / (1 + c_%s(-x))" : "c_%s(x)", n->all));
}

/* ---- comparison and choice ---- */

static void f_cmp(Pre *p, Buf *b, const Name *n) {
    static const struct {
        const char *name, *op;
        int ps, d; /* immediates of VCMPPS and VPCMPD */
    } row[] = {{"lt", "<", 1, 1},   {"le", "<=", 2, 2}, {"gt", ">", 14, 6},
               {"ge", ">=", 13, 5}, {"eq", "==", 0, 0}, {"ne", "!=", 4, 4}};
    int k = 0;
    while (!str_eq(row[k].name, n->family)) k++;
    const char *t = ty_text(n->ty);
    if (!n->vector)
        buf_fmt(b, "static inline b1 %s(%s x, %s y) { return x %s y; }\n", n->all, t, t, row[k].op);
    else if (p->wide && n->ty == TY_F32)
        buf_fmt(b,
                "static inline vbool %s(vf32 x, vf32 y) { return __builtin_ia32_cmpps512_mask(x, y, %d, (unsigned "
                "short)-1, 4); }\n",
                n->all, row[k].ps);
    else if (p->wide && (n->ty == TY_I32 || n->ty == TY_U32))
        buf_fmt(b,
                "static inline vbool %s(v%s x, v%s y) { return __builtin_ia32_%scmpd512_mask((vi32)x, (vi32)y, %d, "
                "(unsigned short)-1); }\n",
                n->all, t, t, n->ty == TY_U32 ? "u" : "", row[k].d);
    else if (p->wide)
        buf_fmt(b,
                "static inline vbool %s(v%s x, v%s y) { return "
                "__builtin_ia32_cvtd2mask512(__builtin_convertvector((vi64)(x %s y), vi32)); }\n",
                n->all, t, t, row[k].op);
    else if (ty_bytes(n->ty) == 8)
        buf_fmt(b, "static inline vbool %s(v%s x, v%s y) { return __builtin_convertvector((vi64)(x %s y), vi32); }\n",
                n->all, t, t, row[k].op);
    else
        buf_fmt(b, "static inline vbool %s(v%s x, v%s y) { return (vbool)(x %s y); }\n", n->all, t, t, row[k].op);
}

static void f_not(Pre *p, Buf *b, const Name *n) {
    (void)p;
    n->vector ? buf_fmt(b, "static inline vbool %s(vbool x) { return ~x; }\n", n->all)
              : buf_fmt(b, "static inline b1 %s(b1 x) { return !x; }\n", n->all);
}

static void f_sel(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty);
    if (!n->vector)
        buf_fmt(b, "static inline %s %s(b1 c, %s x, %s y) { return c ? x : y; }\n", ct(n->ty), n->all, ct(n->ty),
                ct(n->ty));
    else if (n->ty == TY_BOOL)
        buf_fmt(b, "static inline vbool %s(vbool c, vbool x, vbool y) { return (c & x) | (~c & y); }\n", n->all);
    else if (p->wide && ty_bytes(n->ty) == 4)
        buf_fmt(b,
                "#ifdef __clang__\nstatic inline v%s %s(vbool c, v%s x, v%s y) { return "
                "(v%s)__builtin_ia32_selectps_512(c, (vf32)x, (vf32)y); }\n#else\n"
                "static inline v%s %s(vbool c, v%s x, v%s y) { return (v%s)__builtin_ia32_blendmps_512_mask((vf32)y, "
                "(vf32)x, c); }\n#endif\n",
                t, n->all, t, t, t, t, n->all, t, t, t);
    else {
        const char *i = ty_bytes(n->ty) == 8 ? "vi64" : "vi32", *m = p->wide ? "__builtin_ia32_cvtmask2d512(c)" : "c";
        const char *wide = ty_bytes(n->ty) == 8 ? arena_printf(p->a, "__builtin_convertvector((vi32)%s, vi64)", m) : m;
        buf_fmt(b,
                "static inline v%s %s(vbool c, v%s x, v%s y) {\n    %s m = %s;\n    return (v%s)(((%s)x & m) | ((%s)y "
                "& ~m));\n}\n",
                t, n->all, t, t, i, wide, t, i, i);
    }
}

/* ---- bits ---- */

static void f_shift(Pre *p, Buf *b, const Name *n) {
    (void)p;
    int mask = ty_bytes(n->ty) * 8 - 1;
    const char *t = n->vector ? arena_printf(p->a, "v%s", ty_text(n->ty)) : ct(n->ty);
    buf_fmt(b, "static inline %s %s(%s x, %s y) { return x %s (y & %d); }\n", t, n->all, t, t,
            str_eq(n->family, "shl") ? "<<" : ">>", mask);
}

static void f_bits(Pre *p, Buf *b, const Name *n) {
    (void)p;
    Ty from = n->ty == TY_F32 ? TY_I32 : n->ty == TY_F64 ? TY_I64 : ty_bytes(n->ty) == 8 ? TY_F64 : TY_F32;
    if (n->vector)
        buf_fmt(b, "#define %s(x) ((v%s)(x))\n", n->all, ty_text(n->ty));
    else
        buf_fmt(b, "static inline %s %s(%s x) { %s r; __builtin_memcpy(&r, &x, sizeof r); return r; }\n", ct(n->ty),
                n->all, ct(from), ct(n->ty));
}

/* ---- conversion: as num_cast and num_store, rounding once ---- */

static void f_nar(Pre *p, Buf *b, const Name *n) {
    (void)p;
    static const struct {
        Ty ty;
        int e, m;
        unsigned max, over, nan;
    } f[] = {{TY_F16, 5, 10, 0x7BFF, 0x7C00, 0x7E00},
             {TY_BF16, 8, 7, 0x7F7F, 0x7F80, 0x7FC0},
             {TY_F8E4M3, 4, 3, 0x7E, 0x7E, 0x7F},
             {TY_F8E5M2, 5, 2, 0x7B, 0x7B, 0x7E}};
    int k = 0;
    while (f[k].ty != n->ty) k++;
    int emin = 2 - (1 << (f[k].e - 1));
    buf_fmt(b,
            "static inline %s %s(f32 x) {\n    u32 u;\n    __builtin_memcpy(&u, &x, 4);\n    u32 a = u & 0x7fffffffu, "
            "sign = u >> 31 << %d;\n",
            st(n->ty), n->all, f[k].e + f[k].m);
    buf_fmt(b, "    int ex = a >> 23 ? (int)(a >> 23) - 127 : -126;\n    u32 mant = (a & 0x7fffffu) | (a >> 23 ? "
               "0x800000u : 0);\n");
    buf_fmt(b, "    int shift = %d + (ex < %d ? %d - ex : 0);\n    shift = shift > 25 ? 25 : shift;\n", 23 - f[k].m,
            emin, emin);
    buf_fmt(b, "    u32 kept = mant >> shift, rest = mant & ((1u << shift) - 1), half = 1u << (shift - 1);\n    kept "
               "+= rest > half || (rest == half && (kept & 1));\n");
    buf_fmt(b,
            "    u32 code = kept + (ex > %d ? (u32)(ex - %d) << %d : 0);\n    code = code > %uu ? %uu : code;\n    "
            "return (%s)(sign | (a > 0x7f800000u ? %uu : code));\n}\n",
            emin, emin, f[k].m, f[k].max, f[k].over, st(n->ty), f[k].nan);
}

static void f_wid(Pre *p, Buf *b, const Name *n) {
    (void)p;
    int e = n->ty == TY_F16 || n->ty == TY_F8E5M2 ? 5 : 4,
        m = n->ty == TY_F16      ? 10
            : n->ty == TY_F8E4M3 ? 3
                                 : 2,
        bias = (1 << (e - 1)) - 1;
    buf_fmt(b, "static inline f32 %s(%s h) {\n", n->all, st(n->ty));
    if (n->ty == TY_BF16) {
        buf_fmt(b, "    u32 u = (u32)h << 16;\n    f32 x;\n    __builtin_memcpy(&x, &u, 4);\n    return x;\n}\n");
        return;
    }
    buf_fmt(b, "    u32 s = (u32)h >> %d << 31, code = h & %du, field = code >> %d, man = code & %du, u;\n    f32 x;\n",
            e + m, (1 << (e + m)) - 1, m, (1 << m) - 1);
    if (n->ty == TY_F8E4M3)
        buf_fmt(b, "    if (code == 127) u = s | 0x7fc00000u | man << %d;\n", 23 - m);
    else
        buf_fmt(b, "    if (field == %d) u = s | (man ? 0x7fc00000u | man << %d : 0x7f800000u);\n", (1 << e) - 1,
                23 - m);
    buf_fmt(b,
            "    else if (field) u = s | (field + %d) << 23 | man << %d;\n    else {\n        x = (f32)man * %af;\n    "
            "    __builtin_memcpy(&u, &x, 4);\n        u |= s;\n    }\n",
            127 - bias, 23 - m, __builtin_ldexp(1, 1 - bias - m));
    buf_fmt(b, "    __builtin_memcpy(&x, &u, 4);\n    return x;\n}\n");
}

/* odd_T: to f32, rounded to odd, so that a second rounding to a short format is the only one that counts */
static void f_odd(Pre *p, Buf *b, const Name *n) {
    (void)p;
    if (n->ty == TY_F32)
        unary(b, n, "x");
    else if (n->ty == TY_F64)
        buf_fmt(b,
                "static inline f32 %s(f64 x) {\n    f32 f = (f32)x;\n    u32 u;\n    if ((f64)f == x || x != x) return "
                "f;\n    __builtin_memcpy(&u, &f, 4);\n"
                "    u = (u - (__builtin_fabs((f64)f) > __builtin_fabs(x))) | 1;\n    __builtin_memcpy(&f, &u, 4);\n   "
                " return f;\n}\n",
                n->all);
    else if (n->ty == TY_BOOL)
        buf_fmt(b, "static inline f32 %s(b1 x) { return (f32)(x != 0); }\n", n->all);
    else if (ty_bytes(n->ty) < 8)
        buf_fmt(b, "static inline f32 %s(%s x) { return odd_f64((f64)x); }\n", n->all, ct(n->ty));
    else {
        bool s = ty_is_signed(n->ty);
        buf_fmt(b, "static inline f32 %s(%s x) {\n    u64 u = %s;\n    f64 d = (f64)u;\n", n->all, ct(n->ty),
                s ? "x < 0 ? 0 - (u64)x : (u64)x" : "x");
        buf_fmt(b,
                "    if (!(d < 0x1p64 && (u64)d == u)) {\n        int above = d >= 0x1p64 || (u64)d > u;\n        "
                "__builtin_memcpy(&u, &d, 8);\n        u = (u - above) | 1;\n        "
                "__builtin_memcpy(&d, &u, 8);\n    }\n    return odd_f64(%s);\n}\n",
                s ? "x < 0 ? -d : d" : "d");
    }
}

static void f_cast(Pre *p, Buf *b, const Name *n) {
    Ty to;
    if (!ty_find(n->to, strlen(n->to), &to)) return;
    Ty r = ty_compute(to);
    if (n->vector) {
        const char *f = ty_text(n->ty);
        bool plain = (to == TY_F32 || to == TY_F64) && n->ty != TY_BOOL;
        bool widen = (to == TY_I64 && n->ty == TY_I32) || (to == TY_U64 && n->ty == TY_U32);
        if (plain || widen)
            buf_fmt(b, "static inline v%s %s(v%s x) { return __builtin_convertvector(x, v%s); }\n", ty_text(r), n->all,
                    f, ty_text(r));
        else if (n->ty == TY_BOOL && to != TY_BOOL)
            buf_fmt(b, "static inline v%s %s(vbool x) { return sel_v%s(x, bc_v%s(1), bc_v%s(0)); }\n", ty_text(r),
                    n->all, ty_text(r), ty_text(r), ty_text(r));
        else if (to == TY_BOOL)
            buf_fmt(b, "static inline vbool %s(v%s x) { return ne_v%s(x, bc_v%s(0)); }\n", n->all, f, f, f);
        else if (n->ty == TY_F32 && is_f(to))
            buf_fmt(b, "static inline vf32 %s(vf32 x) { return up_%s(dn_%s(x)); }\n", n->all, n->to, n->to);
        else
            buf_fmt(b,
                    "static OUT v%s %s(v%s x) {\n    v%s r;\n    for (int i = 0; i < %d; i++) r[i] = "
                    "cast_%s_%s(x[i]);\n    return r;\n}\n",
                    ty_text(r), n->all, f, ty_text(r), p->L, f, n->to);
        return;
    }
    buf_fmt(b, "static inline %s %s(%s x) { ", ct(r), n->all, ct(n->ty));
    const char *lo, *hi;
    emit_int_range(to, &lo, &hi);
    if (to == TY_BOOL)
        buf_fmt(b, "return x != 0; }\n");
    else if (to == TY_F32 || to == TY_F64)
        buf_fmt(b, "return (%s)x; }\n", ct(to));
    else if (is_f(to))
        buf_fmt(b, "return wid_%s(nar_%s(odd_%s(x))); }\n", n->to, n->to, ty_text(n->ty));
    else if (is_f(n->ty)) {
        const char *s = sfx(n->ty);
        buf_fmt(b, "x = __builtin_rint%s(x); return x != x ? 0 : x <= (%s)%s ? %s : x >= (%s)%s ? %s : (%s)x; }\n", s,
                ct(n->ty), lo, lo, ct(n->ty), hi, hi, ct(r));
    } else if (n->ty == TY_BOOL)
        buf_fmt(b, "return x != 0; }\n");
    else if (ty_is_signed(n->ty) && !ty_is_signed(to))
        buf_fmt(b, "return x < 0 ? 0 : (u64)x > %s ? %s : (%s)x; }\n", hi, hi, ct(r));
    else if (ty_is_signed(n->ty))
        buf_fmt(b, "return (i64)x < %s ? %s : (i64)x > %s ? %s : (%s)x; }\n", lo, lo, hi, hi, ct(r));
    else
        buf_fmt(b, "return (u64)x > (u64)%s ? %s : (%s)x; }\n", hi, hi, ct(r));
}

/* ---- memory: raw vectors w<storage>, up_ to the compute type and dn_ back ---- */

/* Conversions that go lane by lane are called, not inlined: their text would cost the compiler more than the call costs
 * the kernel. */
static bool by_lanes(const Pre *p, Ty t) {
    return is_f(t) && ty_bytes(t) < 4 && t != TY_BF16 && !(t == TY_F16 && p->wide);
}

static void f_up(Pre *p, Buf *b, const Name *n) {
    const char *s = ty_text(n->ty), *c = ty_text(ty_compute(n->ty));
    buf_fmt(b, "static %s v%s %s(w%s x) { ", by_lanes(p, n->ty) ? "OUT" : "inline", c, n->all, s);
    if (n->ty == ty_compute(n->ty) && n->ty != TY_BOOL)
        buf_fmt(b, "return x; }\n");
    else if (n->ty == TY_BOOL)
        buf_fmt(b, "return ne_vi32(__builtin_convertvector(x, vi32), bc_vi32(0)); }\n");
    else if (n->ty == TY_BF16)
        buf_fmt(b, "return (vf32)(__builtin_convertvector(x, vu32) << 16); }\n");
    else if (n->ty == TY_F16 && p->wide)
        buf_fmt(b, "return __builtin_ia32_vcvtph2ps512_mask((whalf)x, (vf32){0}, (unsigned short)-1, 4); }\n");
    else if (is_f(n->ty))
        buf_fmt(b, "vf32 r; for (int i = 0; i < %d; i++) r[i] = wid_%s(x[i]); return r; }\n", p->L, s);
    else
        buf_fmt(b, "return __builtin_convertvector(x, v%s); }\n", c);
}

/* f32 to bf16 in integer arithmetic: adding half of the dropped part, less one where the kept part is even, rounds to
 * nearest even */
static void f_dn(Pre *p, Buf *b, const Name *n) {
    const char *s = ty_text(n->ty), *c = ty_text(ty_compute(n->ty));
    buf_fmt(b, "static %s w%s %s(v%s x) { ", by_lanes(p, n->ty) ? "OUT" : "inline", s, n->all, c);
    if (n->ty == ty_compute(n->ty) && n->ty != TY_BOOL)
        buf_fmt(b, "return x; }\n");
    else if (n->ty == TY_BOOL)
        buf_fmt(b, "return __builtin_convertvector(sel_vi32(x, bc_vi32(1), bc_vi32(0)), w%s); }\n", s);
    else if (n->ty == TY_BF16)
        buf_fmt(b,
                "vu32 u = (vu32)x, r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = ((u >> 16) & 0x8000u) | 0x7fc0u; "
                "return __builtin_convertvector((vu32)sel_vf32(ne_vf32(x, x), (vf32)nan, (vf32)r), wbf16); }\n");
    else if (n->ty == TY_F16 && p->wide) /* VCVTPS2PH keeps a NaN's payload; num_store makes every NaN the same */
        buf_fmt(b, "vf32 nan = (vf32)(((vu32)x & 0x80000000u) | 0x7fc00000u); "
                   "return (wf16)__builtin_ia32_vcvtps2ph512_mask(sel_vf32(ne_vf32(x, x), nan, x), 8, (whalf){0}, "
                   "(unsigned short)-1); }\n");
    else if (is_f(n->ty))
        buf_fmt(b, "w%s r; for (int i = 0; i < %d; i++) r[i] = nar_%s(x[i]); return r; }\n", s, p->L, s);
    else { /* integers saturate */
        const char *lo, *hi;
        emit_int_range(n->ty, &lo, &hi);
        buf_fmt(b, "return __builtin_convertvector(min_vi32(max_vi32(x, bc_vi32(%s)), bc_vi32(%s)), w%s); }\n", lo, hi,
                s);
    }
}

static void f_load(Pre *p, Buf *b, const Name *n) {
    const char *s = ty_text(n->ty), *q = st(n->ty), *c = ty_text(ty_compute(n->ty));
    if (str_eq(n->family, "lds")) {
        bool small = is_f(n->ty) && ty_bytes(n->ty) < 4;
        buf_fmt(b, "static inline %s %s(const %s *p) { return %s(*p)%s; }\n", ct(ty_compute(n->ty)), n->all, q,
                small ? arena_printf(p->a, "wid_%s", s) : "", n->ty == TY_BOOL ? " != 0" : "");
    } else if (str_eq(n->family, "ld"))
        buf_fmt(b, "static inline v%s %s(const %s *p) { w%s t; __builtin_memcpy(&t, p, sizeof t); return up_%s(t); }\n",
                c, n->all, q, s, s);
    else if (str_eq(n->family, "ldn"))
        buf_fmt(b,
                "static inline __attribute__((always_inline)) v%s %s(const %s *p, int n) { w%s t = {0}; "
                "__builtin_memcpy(&t, p, n * sizeof *p); return up_%s(t); }\n",
                c, n->all, q, s, s);
    else if (str_eq(n->family, "ldg"))
        buf_fmt(b,
                "static OUT v%s %s(const %s *p, i64 step, int n) { w%s t = {0}; for (int i = 0; i < n; i++) t[i] = "
                "p[i * step]; return up_%s(t); }\n",
                c, n->all, q, s, s);
    else
        buf_fmt(b,
                "static OUT v%s %s(const %s *p, vi64 at, vbool m, v%s fill) {\n    w%s t = {0};\n    for (int i = "
                "0; i < %d; i++)\n        if (%s) t[i] = p[at[i]];\n    return sel_v%s(m, up_%s(t), fill);\n}\n",
                c, n->all, q, c, s, p->L, p->wide ? "m >> i & 1" : "m[i]", c, s);
}

static void f_store(Pre *p, Buf *b, const Name *n) {
    const char *s = ty_text(n->ty), *q = st(n->ty), *c = ty_text(ty_compute(n->ty));
    int bytes = ty_bytes(n->ty) * p->L;
    if (str_eq(n->family, "sts")) {
        bool small = is_f(n->ty) && ty_bytes(n->ty) < 4, narrow = ty_is_int(n->ty) && ty_compute(n->ty) != n->ty;
        const char *x = small    ? arena_printf(p->a, "nar_%s(x)", s)
                        : narrow ? arena_printf(p->a, "cast_%s_%s(x)", c, s)
                                 : "x";
        buf_fmt(b, "static inline void %s(%s *p, %s x) { *p = (%s)%s; }\n", n->all, q, ct(ty_compute(n->ty)), q, x);
    } else if (str_eq(n->family, "st"))
        buf_fmt(b, "static inline void %s(%s *p, v%s x) { w%s t = dn_%s(x); __builtin_memcpy(p, &t, sizeof t); }\n",
                n->all, q, c, s, s);
    else if (str_eq(n->family, "stx")) {
        const char *how = p->wide && bytes == 64   ? "__builtin_ia32_movntps512((float *)p, (vf32)t)"
                          : p->ymm && bytes == 32  ? "__builtin_ia32_movntps256((float *)p, (vf32)t)"
                          : p->wide && bytes == 32 ? "__builtin_ia32_movntdq256((y4 *)p, (y4)t)"
                                                   : NULL;
        buf_fmt(b, "static inline void %s(%s *p, v%s x) {\n    w%s t = dn_%s(x);\n", n->all, q, c, s, s);
        if (how) buf_fmt(b, "    if (((u64)p & %d) == 0) %s;\n    else ", bytes - 1, how);
        buf_fmt(b, "__builtin_memcpy(p, &t, sizeof t);\n}\n");
    } else if (str_eq(n->family, "stn"))
        buf_fmt(b,
                "static inline __attribute__((always_inline)) void %s(%s *p, v%s x, int n) { w%s t = dn_%s(x); "
                "__builtin_memcpy(p, &t, n * sizeof *p); }\n",
                n->all, q, c, s, s);
    else if (str_eq(n->family, "stg"))
        buf_fmt(b,
                "static OUT void %s(%s *p, i64 step, v%s x, int n) { w%s t = dn_%s(x); for (int i = 0; i < n; i++) "
                "p[i * step] = t[i]; }\n",
                n->all, q, c, s, s);
    else
        buf_fmt(b,
                "static OUT void %s(%s *p, vi64 at, v%s x, int n) { w%s t = dn_%s(x); for (int i = 0; i < n; i++) "
                "p[at[i]] = t[i]; }\n",
                n->all, q, c, s, s);
}

/* ---- making and joining registers ---- */

static void f_bc(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty);
    if (n->ty == TY_BOOL) {
        buf_fmt(b, "static inline vbool %s(b1 x) { return %s; }\n", n->all,
                p->wide ? "x ? (vbool)-1 : 0" : "(vbool){0} - (x != 0)");
        return;
    }
    buf_fmt(b, "static inline v%s %s(%s x) { return (v%s){", t, n->all, t, t);
    for (int i = 0; i < p->L; i++) buf_str(b, i ? ", x" : "x");
    buf_str(b, "}; }\n");
}

static void f_elem(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty);
    buf_fmt(b, "static inline v%s %s(i64 e, i64 step) { return (v%s){", t, n->all, t);
    for (int i = 0; i < p->L; i++) buf_fmt(b, "%s(%s)(e + %d * step)", i ? ", " : "", t, i);
    buf_str(b, "}; }\n");
}

static void f_pre(Pre *p, Buf *b, const Name *n) {
    if (p->wide)
        buf_fmt(b, "static inline vbool %s(int n) { return (vbool)((1u << n) - 1); }\n", n->all);
    else
        buf_fmt(b, "static inline vbool %s(int n) { return (vbool)(elem_vi32(0, 1) < n); }\n", n->all);
}

/* hj_op_vT: halving within a register, lane i taking lane i + h (see join_tree) */
static void f_hj(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty), *op = n->to;
    bool infix = str_eq(op, "add") || str_eq(op, "mul") || str_eq(op, "and") || str_eq(op, "or");
    char sign = str_eq(op, "add") ? '+' : str_eq(op, "mul") ? '*' : str_eq(op, "and") ? '&' : '|';
    if (n->ty == TY_BOOL) {
        const char *all = sign == '|' ? "0" : "1";
        if (p->wide)
            buf_fmt(b, "static inline b1 %s(vbool x) { return %s; }\n", n->all,
                    sign == '|' ? "x != 0" : "x == (vbool)-1");
        else
            buf_fmt(b,
                    "static inline b1 %s(vbool x) { b1 r = %s; for (int i = 0; i < %d; i++) r = r %c (x[i] != 0); "
                    "return r; }\n",
                    n->all, all, p->L, sign);
        return;
    }
    const char *lane = ty_bytes(n->ty) == 8 ? "vi64" : "vi32";
    bool best = p->wide && n->ty == TY_F32 &&
                (str_eq(op, "max") || str_eq(op, "min")); /* VRANGEPS drops a NaN: asked for once, at the end */
    buf_fmt(b, "static inline %s %s(v%s x) {\n", t, n->all, t);
    if (best) buf_str(b, "    vbool nan = __builtin_ia32_cmpps512_mask(x, x, 3, (unsigned short)-1, 4);\n");
    for (int h = p->L / 2; h >= 1; h /= 2) {
        Buf m = buf_new(p->a);
        for (int i = 0; i < p->L; i++) buf_fmt(&m, "%s%d", i ? ", " : "", i < h ? i + h : i);
        buf_fmt(b,
                "#ifdef __clang__\n    v%s y%d = __builtin_shufflevector(x, x, %s);\n#else\n    v%s y%d = "
                "__builtin_shuffle(x, (%s){%s});\n#endif\n",
                t, h, m.s, t, h, lane, m.s);
        if (best)
            buf_fmt(b, "    x = __builtin_ia32_rangeps512_mask(x, y%d, %d, x, (unsigned short)-1, 4);\n", h,
                    str_eq(op, "max") ? 5 : 4);
        else if (infix)
            buf_fmt(b, "    x = x %c y%d;\n", sign, h);
        else
            buf_fmt(b, "    x = %s_v%s(x, y%d);\n", op, t, h);
    }
    buf_fmt(b, "    return %sx[0];\n}\n", best ? "nan ? __builtin_nanf(\"\") : " : "");
}

/* beats_op_T(x, i, y, j): does element i with value x win over j with y? NaN beats all, lower index wins a tie, j < 0
 * is none yet. */
static void f_beats(Pre *p, Buf *b, const Name *n) {
    (void)p;
    char c = str_eq(n->to, "max") ? '>' : '<';
    const char *t = ct(n->ty);
    buf_fmt(b, "static inline b1 %s(%s x, i64 i, %s y, i64 j) {\n    if (i < 0 || j < 0) return i >= 0;\n", n->all, t,
            t);
    if (is_f(n->ty)) buf_str(b, "    if (x != x || y != y) return x != x && (y == y || i < j);\n");
    buf_fmt(b, "    return x %c y || (x == y && i < j);\n}\n", c);
}

static void f_better(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *t = ty_text(n->ty), *op = str_eq(n->to, "max") ? "gt" : "lt";
    buf_fmt(b,
            "static inline vbool %s(v%s x, vi64 i, v%s y, vi64 j) {\n    vbool tie = eq_v%s(x, y), more = %s_v%s(x, y) "
            "| lt_vi64(j, bc_vi64(0));\n",
            n->all, t, t, t, op, t);
    if (is_f(n->ty))
        buf_fmt(b,
                "    vbool xn = ne_v%s(x, x), yn = ne_v%s(y, y);\n    tie = tie | (xn & yn);\n    more = more | (xn & "
                "~yn);\n",
                t, t);
    buf_str(b, "    return more | (tie & lt_vi64(i, j));\n}\n");
}

/* ---- the table ---- */

typedef struct Family {
    const char *name;
    void (*make)(Pre *, Buf *, const Name *);
    bool pair; /* name_to_type (joins) */
} Family;
static const Family families[] = {
    {"div", f_div, 0},     {"mod", f_mod, 0},      {"neg", f_neg, 0},      {"abs", f_abs, 0},
    {"min", f_minmax, 0},  {"max", f_minmax, 0},   {"floor", f_round, 0},  {"round", f_round, 0},
    {"sqrt", f_sqrt, 0},   {"fma", f_fma, 0},      {"rsqrt", f_libm, 0},   {"exp", f_libm, 0},
    {"exp2", f_libm, 0},   {"log", f_libm, 0},     {"log2", f_libm, 0},    {"tanh", f_libm, 0},
    {"erf", f_libm, 0},    {"sigmoid", f_libm, 0}, {"pow", f_libm, 0},     {"lt", f_cmp, 0},
    {"le", f_cmp, 0},      {"gt", f_cmp, 0},       {"ge", f_cmp, 0},       {"eq", f_cmp, 0},
    {"ne", f_cmp, 0},      {"not", f_not, 0},      {"sel", f_sel, 0},      {"shl", f_shift, 0},
    {"shr", f_shift, 0},   {"bits", f_bits, 0},    {"nar", f_nar, 0},      {"wid", f_wid, 0},
    {"odd", f_odd, 0},     {"cast", f_cast, 0},    {"up", f_up, 0},        {"dn", f_dn, 0},
    {"lds", f_load, 0},    {"ld", f_load, 0},      {"ldn", f_load, 0},     {"ldg", f_load, 0},
    {"gat", f_load, 0},    {"sts", f_store, 0},    {"st", f_store, 0},     {"stx", f_store, 0},
    {"stn", f_store, 0},   {"stg", f_store, 0},    {"sct", f_store, 0},    {"bc", f_bc, 0},
    {"elem", f_elem, 0},   {"pre", f_pre, 0},      {"atmost", f_clamp, 0}, {"atleast", f_clamp, 0},
    {"ldexp", f_ldexp, 0}, {"hj", f_hj, 1},        {"beats", f_beats, 1},  {"better", f_better, 1},
};

static bool type_of(const char *s, Name *n) {
    n->vector = *s == 'v';
    s += n->vector;
    return ty_find(s, strlen(s), &n->ty);
}

static void need_all(Pre *p, const char *text);

static void need(Pre *p, const char *word) {
    for (int i = 0; i < p->nseen; i++)
        if (str_eq(p->seen[i], word)) return;
    const char *cut = strchr(word, '_');
    for (int i = 0; cut && i < COUNT(families); i++) {
        const Family *f = &families[i];
        if (strlen(f->name) != (size_t)(cut - word) || strncmp(f->name, word, strlen(f->name)) != 0) continue;
        char *rest = arena_printf(p->a, "%s", cut + 1), *second = strchr(rest, '_');
        Name n = {.all = word, .family = f->name};
        if (second) *second++ = 0;
        if (f->pair ? !second || !type_of(second, &n) : !type_of(rest, &n)) continue;
        n.to = f->pair ? rest : second;
        GROW(p->a, p->seen, p->nseen, p->cap);
        p->seen[p->nseen++] = word;
        Buf b = buf_new(p->a);
        f->make(p, &b, &n);
        if (!b.n) return;
        need_all(p, b.s);
        buf_put(p->out, b.s, b.n);
        return;
    }
}

static void need_all(Pre *p, const char *text) {
    for (const char *c = text; *c;) {
        if (!isalpha((unsigned char)*c) && *c != '_') {
            c++;
            continue;
        }
        const char *end = c;
        while (isalnum((unsigned char)*end) || *end == '_') end++;
        need(p, arena_str(p->a, c, (size_t)(end - c)));
        c = end;
    }
}

void host_prelude(Emit *e, const char *body, Buf *out) {
    int L = e->L;
    Isa isa = e->pb->caps.isa;
    Pre p = {.a = e->cx->a,
             .isa = isa,
             .L = L,
             .wide = isa == ISA_AVX512 && L == 16,
             .ymm = isa == ISA_AVX2 && L == 8,
             .out = out};
    buf_str(out, "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64; typedef float "
                 "f32; typedef double f64; typedef int b1;\n"
                 "typedef unsigned char u8, bool8, f8e4m3, f8e5m2; typedef unsigned short u16, f16, bf16; typedef "
                 "unsigned int u32; typedef unsigned long long u64;\n"
                 "typedef union { void *p; i64 i; f64 d; } slot;\n"
                 "#define OUT __attribute__((noinline))\n#define PRAGMA(x) _Pragma(#x)\n#ifdef __clang__\n#define "
                 "UNROLL(n) PRAGMA(unroll n)\n#else\n#define "
                 "UNROLL(n) PRAGMA(GCC unroll n)\n#endif\n"
                 "#define SYMBOL_(x) #x\n#define SYMBOL(x) SYMBOL_(x)\n");
    static const Ty compute[] = {TY_F32, TY_F64, TY_I32, TY_I64, TY_U32, TY_U64};
    for (int i = 0; i < COUNT(compute); i++)
        buf_fmt(out, "typedef %s v%s __attribute__((vector_size(%d)));\n", ty_text(compute[i]), ty_text(compute[i]),
                ty_bytes(compute[i]) * L);
    for (int t = TY_BOOL; t < TY_COUNT; t++)
        buf_fmt(out, "typedef %s w%s __attribute__((vector_size(%d)));\n", st((Ty)t), ty_text((Ty)t),
                ty_bytes((Ty)t) * L);
    if (p.wide)
        buf_str(out, "typedef unsigned short vbool; typedef short whalf __attribute__((vector_size(32))); typedef long "
                     "long y4 __attribute__((vector_size(32)));\n");
    else
        buf_fmt(out, "typedef int vbool __attribute__((vector_size(%d)));\n", 4 * L);
    if (isa == ISA_AVX2 || isa == ISA_AVX512)
        buf_str(out, "static inline void fence(void) { __builtin_ia32_sfence(); }\n");
    else
        buf_str(out, "static inline void fence(void) {}\n");
    need_all(&p, body);
}
