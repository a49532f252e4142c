/* The functions that host units call, made when a unit's text names them: scalar ones that say what an operator means,
 * vector ones of L elements that do the same, spelt with the machine's own instructions where that matters and lane by
 * lane where it does not.
 *
 * A name is family_type: max_f32, max_vf32, ldn_bf16. The families are one table; what a text calls is found by reading
 * it. */
#include "hostpre.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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

/* A register of 16 elements of 8 bytes is two of the machine's, and gcc takes comparisons of such apart into scalars:
 * for it both halves are spelt (HALVES, WHOLE). */
static bool in_halves(const Pre *p, const Name *n) {
    return n->vector && p->wide && ty_bytes(n->ty) == 8;
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
    } else if (in_halves(p, n) && is_f(n->ty)) { /* of equal ones the sign: + for a maximum where either has it */
        buf_fmt(b,
                "static inline vf64 %s(vf64 x, vf64 y) {\n    vf64 same = (vf64)((vi64)x %c (vi64)y), r = "
                "sel_vf64(%s_vf64(x, y), x, y);\n    r = sel_vf64(eq_vf64(x, y), same, r);\n    return "
                "sel_vf64(ne_vf64(x, x) | ne_vf64(y, y), x + y, r);\n}\n",
                n->all, max ? '&' : '|', max ? "gt" : "lt");
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
    else {
        const bool halves = in_halves(p, n); /* of 16 lanes clang makes a loop */
        if (halves)
            buf_fmt(b,
                    "#ifdef __clang__\nstatic inline vf64 %s(vf64 x, vf64 y, vf64 z) {\n    HALVES(d8, x);\n    "
                    "HALVES(d8, y);\n    HALVES(d8, z);\n    for (int i = 0; i < 2; i++) x_[i] = "
                    "__builtin_ia32_vfmaddpd512_mask(x_[i], y_[i], z_[i], (unsigned char)-1, 4);\n    WHOLE(x);\n    "
                    "return x;\n}\n#else\n",
                    n->all);
        lanes(p, b, n, 3);
        if (halves) buf_str(b, "#endif\n");
    }
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
        /* a result that underflows takes Intel's cores 300 ns, as where a mask adds -inf; x, an exponential's
         * polynomial, lies between 1/2 and 2, so that from 2^-151 on it is 0 */
        buf_fmt(b,
                "static inline vf32 %s(vf32 x, vf32 y) {\n    unsigned short any = __builtin_ia32_cmpps512_mask(y, "
                "bc_vf32(-151), 6, (unsigned short)-1, 4);\n    return __builtin_ia32_scalefps512_mask(x, y, "
                "(vf32){0}, any, 4);\n}\n",
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
    else if (p->wide) {
        const char *half = n->ty == TY_F64 ? "d8" : "q8";
        buf_fmt(b,
                "static inline vbool %s(v%s x, v%s y) {\n#ifdef __clang__\n    return "
                "__builtin_ia32_cvtd2mask512(__builtin_convertvector((vi64)(x %s y), vi32));\n#else\n    HALVES(%s, "
                "x);\n    HALVES(%s, y);\n",
                n->all, t, t, row[k].op, half, half);
        for (int h = 0; h < 2; h++) { /* no loop: at -O1 it would keep the halves in memory */
            buf_fmt(b, "    unsigned m%d = ", h);
            if (n->ty == TY_F64)
                buf_fmt(b, "__builtin_ia32_cmppd512_mask(x_[%d], y_[%d], %d, (unsigned char)-1, 4);\n", h, h,
                        row[k].ps);
            else
                buf_fmt(b, "__builtin_ia32_%scmpq512_mask(x_[%d], y_[%d], %d, (unsigned char)-1);\n",
                        n->ty == TY_U64 ? "u" : "", h, h, row[k].d);
        }
        buf_str(b, "    return (vbool)(m0 | m1 << 8);\n#endif\n}\n");
    } else if (ty_bytes(n->ty) == 8)
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
    else if (in_halves(p, n))
        buf_fmt(
            b,
            "static inline v%s %s(vbool c, v%s x, v%s y) {\n#ifdef __clang__\n    vi64 m = "
            "__builtin_convertvector((vi32)__builtin_ia32_cvtmask2d512(c), vi64);\n    return (v%s)(((vi64)x & m) | "
            "((vi64)y & ~m));\n#else\n    HALVES(d8, x);\n    HALVES(d8, y);\n    x_[0] = "
            "__builtin_ia32_blendmpd_512_mask(y_[0], x_[0], (unsigned char)c);\n    x_[1] = "
            "__builtin_ia32_blendmpd_512_mask(y_[1], x_[1], (unsigned char)(c >> 8));\n    WHOLE(x);\n    return "
            "x;\n#endif\n}\n",
            t, n->all, t, t, t);
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
    buf_fmt(b, "static inline v%s %s(i64 e, i64 step) { return bc_v%s((%s)e) + bc_v%s((%s)step) * (v%s){", t, n->all, t,
            t, t, t, t);
    for (int i = 0; i < p->L; i++) buf_fmt(b, "%s%d", i ? ", " : "", i);
    buf_str(b, "}; }\n");
}

static void f_pre(Pre *p, Buf *b, const Name *n) {
    if (p->wide)
        buf_fmt(b, "static inline vbool %s(int n) { return (vbool)((1u << n) - 1); }\n", n->all);
    else
        buf_fmt(b, "static inline vbool %s(int n) { return (vbool)(elem_vi32(0, 1) < n); }\n", n->all);
}

/* all but the first n */
static void f_post(Pre *p, Buf *b, const Name *n) {
    if (p->wide)
        buf_fmt(b, "static inline vbool %s(int n) { return (vbool)~((1u << n) - 1); }\n", n->all);
    else
        buf_fmt(b, "static inline vbool %s(int n) { return (vbool)(elem_vi32(0, 1) >= n); }\n", n->all);
}

/* off_T(p, n): elements from the last place that is a multiple of n of them to p */
static void f_off(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b, "static inline i64 %s(const %s *p, i64 n) { return (i64)((u64)p / sizeof *p %% (u64)n); }\n", n->all,
            st(n->ty));
}

/* turn_vT(t, n): the register n elements on from the first of t */
static void f_turn(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *t = ty_text(n->ty);
    buf_fmt(b,
            "static inline v%s %s(const v%s *t, i64 n) { v%s r; __builtin_memcpy(&r, (const %s *)t + n, sizeof r); "
            "return r; }\n",
            t, n->all, t, t, t);
}

/* hj_op_vT: halving within a register, lane i taking lane i + h (see join_tree) */
static void f_hj(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty), *op = n->op;
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

/* better_op_vT_I(x, i, y, j): do elements i with values x win over j with y? NaN beats all, the lower index wins a tie,
 * j < 0 is none yet: as an unsigned number the highest. later_op_vT_I: the same of an i that is above j. */
static void f_better(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty), *op = str_eq(n->op, "max") ? "gt" : "lt";
    bool later = str_eq(n->family, "later"), is_short = str_eq(n->to, "i32");
    buf_fmt(b, "static inline vbool %s(v%s x, v%s i, v%s y, v%s j) {\n", n->all, t, n->to, t, n->to);
    if (p->wide && is_f(n->ty) && ty_bytes(n->ty) == 4) { /* not (x <= y): above it or unordered */
        buf_fmt(b,
                "    vbool number = eq_v%s(y, y), more = number & __builtin_ia32_cmpps512_mask(%s, 6, (unsigned "
                "short)-1, 4);\n",
                t, str_eq(op, "gt") ? "x, y" : "y, x");
        if (!later) buf_fmt(b, "    vbool tie = eq_v%s(x, y) | (~number & ne_v%s(x, x));\n", t, t);
    } else {
        buf_fmt(b, "    vbool more = %s_v%s(x, y);\n", op, t);
        if (!later) buf_fmt(b, "    vbool tie = eq_v%s(x, y);\n", t);
        if (is_f(n->ty)) {
            buf_fmt(b, "    vbool xn = ne_v%s(x, x), yn = ne_v%s(y, y);\n    more = more | (xn & ~yn);\n", t, t);
            if (!later) buf_str(b, "    tie = tie | (xn & yn);\n");
        }
    }
    if (later)
        buf_fmt(b, "    return more | lt_v%s(j, bc_v%s(0));\n}\n", n->to, n->to);
    else
        buf_fmt(b, "    return more | (tie & lt_vu%s((vu%s)i, (vu%s)j));\n}\n", is_short ? "32" : "64",
                is_short ? "32" : "64", is_short ? "32" : "64");
}

/* best_op_vT_I(x, i): the lane whose pair wins; those without an element have an index below 0 */
static void f_best(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty);
    char c = str_eq(n->op, "max") ? '>' : '<';
    buf_fmt(b, "static OUT i32 %s(v%s x, v%s i) {\n    i32 best = 0;\n    for (i32 k = 1; k < %d; k++) {\n", n->all, t,
            n->to, p->L);
    buf_fmt(
        b,
        "        %s u = x[k], v = x[best];\n        b1 un = u != u, vn = v != v, first = (u64)i[k] < (u64)i[best];\n",
        ct(n->ty));
    buf_fmt(b,
            "        if (i[k] >= 0 && (i[best] < 0 || (un | vn ? un && (!vn || first) : u %c v || (u == v && first)))) "
            "best = k;\n    }\n    return best;\n}\n",
            c);
}

/* ---- the table ---- */

typedef struct Family {
    const char *name;
    MakeFn *make;
    bool pair; /* name_op_type (joins), and for pairs name_op_type_type */
} Family;
static const Family families[] = {
    {"div", f_div, 0},       {"mod", f_mod, 0},      {"neg", f_neg, 0},      {"abs", f_abs, 0},
    {"min", f_minmax, 0},    {"max", f_minmax, 0},   {"floor", f_round, 0},  {"round", f_round, 0},
    {"sqrt", f_sqrt, 0},     {"fma", f_fma, 0},      {"rsqrt", f_libm, 0},   {"exp", f_libm, 0},
    {"exp2", f_libm, 0},     {"log", f_libm, 0},     {"log2", f_libm, 0},    {"tanh", f_libm, 0},
    {"erf", f_libm, 0},      {"sigmoid", f_libm, 0}, {"pow", f_libm, 0},     {"lt", f_cmp, 0},
    {"le", f_cmp, 0},        {"gt", f_cmp, 0},       {"ge", f_cmp, 0},       {"eq", f_cmp, 0},
    {"ne", f_cmp, 0},        {"not", f_not, 0},      {"sel", f_sel, 0},      {"shl", f_shift, 0},
    {"shr", f_shift, 0},     {"bits", f_bits, 0},    {"nar", host_nar, 0},   {"wid", host_wid, 0},
    {"odd", host_odd, 0},    {"cast", host_cast, 0}, {"up", host_up, 0},     {"dn", host_dn, 0},
    {"wide", host_wide, 0},  {"lr", host_load, 0},   {"sr", host_store, 0},  {"lds", host_load, 0},
    {"ld", host_load, 0},    {"ldn", host_load, 0},  {"ldk", host_load, 0},  {"ldg", host_load, 0},
    {"gat", host_load, 0},   {"sts", host_store, 0}, {"st", host_store, 0},  {"stx", host_store, 0},
    {"stn", host_store, 0},  {"stk", host_store, 0}, {"stg", host_store, 0}, {"sct", host_store, 0},
    {"bc", f_bc, 0},         {"elem", f_elem, 0},    {"pre", f_pre, 0},      {"post", f_post, 0},
    {"off", f_off, 0},       {"turn", f_turn, 0},    {"ldh", host_load, 0},  {"lgh", host_load, 0},
    {"sth", host_store, 0},  {"sgh", host_store, 0}, {"sch", host_store, 0}, {"atmost", f_clamp, 0},
    {"atleast", f_clamp, 0}, {"ldexp", f_ldexp, 0},  {"hj", f_hj, 1},        {"better", f_better, 1},
    {"later", f_better, 1},  {"best", f_best, 1},    {"lrg", host_load, 0},  {"srg", host_store, 0},
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
        char *rest = arena_printf(p->a, "%s", cut + 1), *second = strchr(rest, '_'), *third = NULL;
        Name n = {.all = word, .family = f->name};
        if (second) *second++ = 0;
        if (f->pair && second) third = strchr(second, '_');
        if (third) *third++ = 0;
        if (f->pair ? !second || !type_of(second, &n) : !type_of(rest, &n)) continue;
        n.op = f->pair ? rest : NULL;
        n.to = f->pair ? third : second;
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
        if (*end == '(') need(p, arena_str(p->a, c, (size_t)(end - c)));
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
        buf_str(out,
                "typedef unsigned short vbool; typedef short whalf __attribute__((vector_size(32))); typedef long "
                "long y4 __attribute__((vector_size(32)));\n"
                "typedef i64 q8 __attribute__((vector_size(64))); typedef f64 d8 __attribute__((vector_size(64))); "
                "typedef char wchar __attribute__((vector_size(16)));\n"
                "#define HALVES(t, x) t x##_[2]; __builtin_memcpy(x##_, &x, 128)\n"
                "#define WHOLE(x) __builtin_memcpy(&x, x##_, 128)\n");
    else
        buf_fmt(out, "typedef int vbool __attribute__((vector_size(%d)));\n", 4 * L);
    if (isa == ISA_AVX2 || isa == ISA_AVX512)
        buf_str(out, "static inline void fence(void) { __builtin_ia32_sfence(); }\n");
    else
        buf_str(out, "static inline void fence(void) {}\n");
    static const char *const limits[] = {"some", "from",
                                         "few"}; /* elements of a register, those before a row, rows of one */
    for (int i = 0; i < COUNT(limits); i++)
        if (strstr(body, arena_printf(p.a, "%s(", limits[i])))
            buf_fmt(out, "static inline int %s(i64 n) { return n < 0 ? 0 : n > %d ? %d : (int)n; }\n", limits[i], L, L);
    need_all(&p, body);
}
