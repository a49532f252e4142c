/* Conversions between types and what moves registers to and from memory, in the host dialect's prelude. Every type has
 * its raw vectors w<type>; up_ goes to the compute type and dn_ back. */
#include "hostpre.h"

#include <string.h>

/* ---- conversion: as num_cast and num_store, rounding once ---- */

/* Short floats: bits of exponent and mantissa; the largest finite code, what larger values become, the code of NaN */
typedef struct Small {
    int e, m;
    unsigned max, over, nan;
} Small;
static Small small_of(Ty t) {
    return t == TY_F16      ? (Small){5, 10, 0x7BFF, 0x7C00, 0x7E00}
           : t == TY_BF16   ? (Small){8, 7, 0x7F7F, 0x7F80, 0x7FC0}
           : t == TY_F8E4M3 ? (Small){4, 3, 0x7E, 0x7E, 0x7F}
                            : (Small){5, 2, 0x7B, 0x7B, 0x7E};
}

void host_nar(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const Small f = small_of(n->ty);
    int emin = 2 - (1 << (f.e - 1));
    if (n->ty == TY_BF16) { /* the upper half of f32, so that a carry is right as it is */
        buf_fmt(
            b,
            "static inline bf16 %s(f32 x) {\n    u32 u;\n    __builtin_memcpy(&u, &x, 4);\n    return (bf16)(x != x "
            "? (u >> 16 & 0x8000u) | %uu : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);\n}\n",
            n->all, f.nan);
        return;
    }
    buf_fmt(b,
            "static inline %s %s(f32 x) {\n    u32 u;\n    __builtin_memcpy(&u, &x, 4);\n    u32 a = u & 0x7fffffffu, "
            "sign = u >> 31 << %d;\n",
            st(n->ty), n->all, f.e + f.m);
    buf_fmt(b, "    int ex = a >> 23 ? (int)(a >> 23) - 127 : -126;\n    u32 mant = (a & 0x7fffffu) | (a >> 23 ? "
               "0x800000u : 0);\n");
    buf_fmt(b, "    int shift = %d + (ex < %d ? %d - ex : 0);\n    shift = shift > 25 ? 25 : shift;\n", 23 - f.m, emin,
            emin);
    buf_fmt(b, "    u32 kept = mant >> shift, rest = mant & ((1u << shift) - 1), half = 1u << (shift - 1);\n    kept "
               "+= rest > half || (rest == half && (kept & 1));\n");
    buf_fmt(b,
            "    u32 code = kept + (ex > %d ? (u32)(ex - %d) << %d : 0);\n    code = code > %uu ? %uu : code;\n    "
            "return (%s)(sign | (a > 0x7f800000u ? %uu : code));\n}\n",
            emin, emin, f.m, f.max, f.over, st(n->ty), f.nan);
}

void host_wid(Pre *p, Buf *b, const Name *n) {
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
void host_odd(Pre *p, Buf *b, const Name *n) {
    (void)p;
    if (n->ty == TY_F32)
        buf_fmt(b, "static inline f32 %s(f32 x) { return x; }\n", n->all);
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

/* f32 to an integer of at most 4 bytes: nearest even, NaN 0, cut off at the ends before it is converted; the upper ends
 * of i32 and u32 lie between two f32. */
static void cast_to_int(Buf *b, const Name *n, Ty to) {
    const char *lo, *hi, *r = ty_text(ty_compute(to)), *below = to == TY_I32 ? "0x1.fffffep30f" : "0x1.fffffep31f";
    bool whole = ty_bytes(to) == 4;
    emit_int_range(to, &lo, &hi);
    buf_fmt(b,
            "static inline v%s %s(vf32 x) {\n    vf32 r = round_vf32(x), c = atmost_vf32(atleast_vf32(r, "
            "bc_vf32((f32)%s)), bc_vf32(%s));\n",
            r, n->all, lo, whole ? below : hi);
    buf_fmt(b, "    v%s i = __builtin_convertvector(sel_vf32(ne_vf32(x, x), bc_vf32(0), c), v%s);\n", r, r);
    if (whole)
        buf_fmt(b, "    return sel_v%s(gt_vf32(r, bc_vf32(%s)), bc_v%s(%s), i);\n}\n", r, below, r, hi);
    else
        buf_str(b, "    return i;\n}\n");
}

/* An integer of 4 bytes to one of at most 4: cut off at the ends. */
static void cast_of_int(Buf *b, const Name *n, Ty to) {
    const char *lo, *hi, *f = ty_text(n->ty), *r = ty_text(ty_compute(to));
    bool from_signed = ty_is_signed(n->ty), to_signed = ty_is_signed(to);
    emit_int_range(to, &lo, &hi);
    buf_fmt(b, "static inline v%s %s(v%s x) {\n", r, n->all, f);
    if (from_signed && !(to == TY_I32)) buf_fmt(b, "    x = max_v%s(x, bc_v%s(%s));\n", f, f, lo);
    if (ty_bytes(to) < 4 || (!from_signed && to_signed)) buf_fmt(b, "    x = min_v%s(x, bc_v%s(%s));\n", f, f, hi);
    buf_fmt(b, "    return (v%s)x;\n}\n", r);
}

/* Ones and zeros of 8 bytes, by halves as they are made: gcc takes twice as long for a choice among whole ones. */
static void cast_halves(Buf *b, const Name *n, Ty to) {
    const char *t = ty_text(to);
    buf_fmt(b,
            "static inline v%s %s(vbool x) {\n#ifdef __clang__\n    return sel_v%s(x, bc_v%s(1), bc_v%s(0));\n#else\n"
            "    v%s r;\n    q8 one = {1, 1, 1, 1, 1, 1, 1, 1}, r_[2];\n",
            t, n->all, t, t, t, t);
    for (int h = 0; h < 2; h++)
        buf_fmt(b, "    r_[%d] = __builtin_ia32_blendmq_512_mask((q8){0}, one, (unsigned char)(x >> %d));\n", h, 8 * h);
    buf_str(b, "    WHOLE(r);\n    return r;\n#endif\n}\n");
}

void host_cast(Pre *p, Buf *b, const Name *n) {
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
        else if (n->ty == TY_BOOL && ty_is_int(to) && ty_bytes(to) == 8 && p->wide)
            cast_halves(b, n, to);
        else if (n->ty == TY_BOOL && to != TY_BOOL)
            buf_fmt(b, "static inline v%s %s(vbool x) { return sel_v%s(x, bc_v%s(1), bc_v%s(0)); }\n", ty_text(r),
                    n->all, ty_text(r), ty_text(r), ty_text(r));
        else if (to == TY_BOOL)
            buf_fmt(b, "static inline vbool %s(v%s x) { return ne_v%s(x, bc_v%s(0)); }\n", n->all, f, f, f);
        else if (n->ty == TY_F32 && is_f(to))
            buf_fmt(b, "static inline vf32 %s(vf32 x) { return up_%s(dn_%s(x)); }\n", n->all, n->to, n->to);
        else if (n->ty == TY_F32 && ty_bytes(to) <= 4)
            cast_to_int(b, n, to);
        else if ((n->ty == TY_I32 || n->ty == TY_U32) && ty_is_int(to) && ty_bytes(to) <= 4)
            cast_of_int(b, n, to);
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

/* Integers of 1 and 2 bytes: gcc converts in single steps of twice the width, or lane by lane; AVX-512 does it in one.
 */
static void wider(const Pre *p, Buf *b, Ty from, const char *to) {
    bool byte = ty_bytes(from) == 1;
    if (p->wide)
        buf_fmt(b,
                "#ifdef __clang__\n    return __builtin_convertvector(x, %s);\n#else\n    return "
                "(%s)__builtin_ia32_pmov%cx%cd512_mask((%s)x, (vi32){0}, (unsigned short)-1);\n#endif\n",
                to, to, ty_is_signed(from) ? 's' : 'z', byte ? 'b' : 'w', byte ? "wchar" : "whalf");
    else if (byte)
        buf_fmt(b, "    return __builtin_convertvector(__builtin_convertvector(x, w%s), %s);\n",
                ty_is_signed(from) ? "i16" : "u16", to);
    else
        buf_fmt(b, "    return __builtin_convertvector(x, %s);\n", to);
}
static void narrower(const Pre *p, Buf *b, Ty to, const char *x) {
    const char *s = ty_text(to);
    bool byte = ty_bytes(to) == 1;
    if (p->wide)
        buf_fmt(b,
                "#ifdef __clang__\n    return __builtin_convertvector(%s, w%s);\n#else\n    return "
                "(w%s)__builtin_ia32_pmovd%c512_mask((vi32)(%s), (%s){0}, (unsigned short)-1);\n#endif\n",
                x, s, s, byte ? 'b' : 'w', x, byte ? "wchar" : "whalf");
    else if (byte)
        buf_fmt(b, "    return __builtin_convertvector(__builtin_convertvector(%s, w%s), w%s);\n", x,
                ty_is_signed(to) ? "i16" : "u16", s);
    else
        buf_fmt(b, "    return __builtin_convertvector(%s, w%s);\n", x, s);
}

/* The code's bits at their place in an f32 with the exponent moved; subnormals by a product; then what is no number. */
static void up_small(Buf *b, const Name *n) {
    Small f = small_of(n->ty);
    int bias = (1 << (f.e - 1)) - 1, special = ((1 << f.e) - 1) << f.m;
    buf_fmt(b, "    vu32 h = wide_%s(x), c = h & %uu, sign = (h ^ c) << %d;\n", ty_text(n->ty), (1u << (f.e + f.m)) - 1,
            31 - f.e - f.m);
    buf_fmt(b,
            "    vf32 low = __builtin_convertvector((vi32)c, vf32) * %af;\n    vu32 u = sel_vu32(lt_vu32(c, "
            "bc_vu32(%uu)), (vu32)low, (c << %d) + %uu);\n",
            __builtin_ldexp(1, 1 - bias - f.m), 1u << f.m, 23 - f.m, (unsigned)(127 - bias) << 23);
    if (n->ty == TY_F8E4M3)
        buf_fmt(b, "    u = sel_vu32(eq_vu32(c, bc_vu32(127)), bc_vu32(%uu), u);\n", 0x7fc00000u | 7u << 20);
    else
        buf_fmt(b,
                "    vu32 no = sel_vu32(eq_vu32(c, bc_vu32(%uu)), bc_vu32(0x7f800000u), ((c & %uu) << %d) | "
                "0x7fc00000u);\n    u = sel_vu32(lt_vu32(c, bc_vu32(%uu)), u, no);\n",
                (unsigned)special, (1u << f.m) - 1, 23 - f.m, (unsigned)special);
    buf_str(b, "    return (vf32)(u | sign);\n");
}

/* Half of the dropped part is added, less one where the kept part is even; below the least normal number a float whose
 * last bit is worth the least subnormal does the rounding. */
static void dn_small(Pre *p, Buf *b, const Name *n) {
    Small f = small_of(n->ty);
    int bias = (1 << (f.e - 1)) - 1, drop = 23 - f.m;
    double magic = __builtin_ldexp(1, 23 + 1 - bias - f.m);
    buf_fmt(b,
            "    vu32 u = (vu32)x, a = u & 0x7fffffffu, sign = (u ^ a) >> %d;\n    vu32 big = ((a + %uu + ((a >> %d) & "
            "1u)) >> %d) - %uu;\n",
            31 - f.e - f.m, (1u << (drop - 1)) - 1, drop, drop, (unsigned)(127 - bias) << f.m);
    buf_fmt(b,
            "    vf32 low = (vf32)a + bc_vf32(%af);\n    vu32 code = sel_vu32(lt_vu32(a, bc_vu32(%uu)), (vu32)low - "
            "(vu32)bc_vf32(%af), big);\n",
            magic, (unsigned)(128 - bias) << 23, magic);
    buf_fmt(b,
            "    code = sel_vu32(gt_vu32(code, bc_vu32(%uu)), bc_vu32(%uu), code);\n    code = sel_vu32(gt_vu32(a, "
            "bc_vu32(0x7f800000u)), bc_vu32(%uu), code);\n",
            f.max, f.over, f.nan);
    narrower(p, b, n->ty, "code | sign");
}

/* wide_T: the code of a short float as an integer */
void host_wide(Pre *p, Buf *b, const Name *n) {
    buf_fmt(b, "static inline vu32 %s(w%s x) {\n", n->all, ty_text(n->ty));
    wider(p, b, n->ty, "vu32");
    buf_str(b, "}\n");
}

void host_up(Pre *p, Buf *b, const Name *n) {
    const char *s = ty_text(n->ty), *c = ty_text(ty_compute(n->ty));
    buf_fmt(b, "static inline v%s %s(w%s x) {\n", c, n->all, s);
    if (n->ty == ty_compute(n->ty) && n->ty != TY_BOOL)
        buf_str(b, "    return x;\n");
    else if (n->ty == TY_BOOL)
        buf_str(b, "    return ne_vu32(wide_bool(x), bc_vu32(0));\n");
    else if (n->ty == TY_BF16)
        buf_str(b, "    return (vf32)(wide_bf16(x) << 16);\n");
    else if (n->ty == TY_F16 && p->wide)
        buf_str(b, "    return __builtin_ia32_vcvtph2ps512_mask((whalf)x, (vf32){0}, (unsigned short)-1, 4);\n");
    else if (is_f(n->ty))
        up_small(b, n);
    else if (ty_bytes(n->ty) < 4)
        wider(p, b, n->ty, arena_printf(p->a, "v%s", c));
    else
        buf_fmt(b, "    return __builtin_convertvector(x, v%s);\n", c);
    buf_str(b, "}\n");
}

/* f32 to bf16 in integer arithmetic: adding half of the dropped part, less one where the kept part is even, rounds to
 * nearest even */
void host_dn(Pre *p, Buf *b, const Name *n) {
    const char *s = ty_text(n->ty), *c = ty_text(ty_compute(n->ty));
    buf_fmt(b, "static inline w%s %s(v%s x) {\n", s, n->all, c);
    if (n->ty == ty_compute(n->ty) && n->ty != TY_BOOL)
        buf_str(b, "    return x;\n");
    else if (n->ty == TY_BOOL)
        narrower(p, b, n->ty, "sel_vi32(x, bc_vi32(1), bc_vi32(0))");
    else if (n->ty == TY_BF16) {
        buf_str(b, "    vu32 u = (vu32)x, r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = ((u >> 16) & 0x8000u) | "
                   "0x7fc0u;\n    r = (vu32)sel_vf32(ne_vf32(x, x), (vf32)nan, (vf32)r);\n");
        narrower(p, b, n->ty, "r");
    } else if (n->ty == TY_F16 && p->wide) /* VCVTPS2PH keeps a NaN's payload; num_store makes every NaN the same */
        buf_str(b, "    vf32 nan = (vf32)(((vu32)x & 0x80000000u) | 0x7fc00000u);\n    "
                   "return (wf16)__builtin_ia32_vcvtps2ph512_mask(sel_vf32(ne_vf32(x, x), nan, x), 8, (whalf){0}, "
                   "(unsigned short)-1);\n");
    else if (is_f(n->ty))
        dn_small(p, b, n);
    else { /* integers saturate */
        const char *lo, *hi;
        emit_int_range(n->ty, &lo, &hi);
        narrower(p, b, n->ty, arena_printf(p->a, "min_v%s(max_v%s(x, bc_v%s(%s)), bc_v%s(%s))", c, c, c, lo, c, hi));
    }
    buf_str(b, "}\n");
}

/* A loop over the first n elements, or over all but those. */
static const char *range_of(Pre *p, bool rest) {
    return rest ? arena_printf(p->a, "n; i < %d; i++", p->L) : "0; i < n; i++";
}

/* The first n elements of register t, or all but those, from or to memory at p, where n is known at run time only: by a
 * mask where the machine has them for such registers, else whole or element by element. */
static void part_of(Pre *p, Buf *b, Ty ty, bool load, bool rest) {
    static const struct {
        const char *load, *store, *type, *pointer;
    } masked[] = {{"loaddquqi128", "storedquqi128", "wchar", "char"},
                  {"loaddquhi256", "storedquhi256", "whalf", "short"},
                  {"loadups512", "storeups512", "vf32", "float"}};
    const int bytes = ty_bytes(ty);
    const char *w = arena_printf(p->a, "w%s", ty_text(ty)), *vbool = rest ? "post_vbool(n)" : "pre_vbool(n)";
    if (p->wide && bytes <= 4) {
        const int i = bytes == 4 ? 2 : bytes - 1;
        const char *unit = bytes == 4 ? masked[i].pointer : "unit";
        if (bytes < 4) /* compilers differ in what these take, and C++ converts no pointer by itself */
            buf_fmt(b, "#ifdef __clang__\n    typedef %s unit;\n#else\n    typedef %s unit;\n#endif\n", masked[i].type,
                    masked[i].pointer);
        if (load)
            buf_fmt(b, "    t = (%s)__builtin_ia32_%s_mask((const %s *)p, (%s)t, %s);\n", w, masked[i].load, unit,
                    masked[i].type, vbool);
        else
            buf_fmt(b, "    __builtin_ia32_%s_mask((%s *)p, (%s)t, %s);\n", masked[i].store, unit, masked[i].type,
                    vbool);
        return;
    }
    if (p->ymm && bytes == 4) {
        if (load)
            buf_fmt(b, "    t = (%s)__builtin_ia32_maskloadps256((const vf32 *)p, %s);\n", w, vbool);
        else
            buf_fmt(b, "    __builtin_ia32_maskstoreps256((vf32 *)p, %s, (vf32)t);\n", vbool);
        return;
    }
    const char *to = load ? "&t, p" : "p, &t", *each = load ? "t[i] = p[i]" : "p[i] = t[i]";
    buf_fmt(b, "    if (n == %d) __builtin_memcpy(%s, sizeof t);\n    else for (int i = %s) %s;\n", rest ? 0 : p->L, to,
            range_of(p, rest), each);
}

void host_load(Pre *p, Buf *b, const Name *n) {
    const char *s = ty_text(n->ty), *q = st(n->ty), *c = ty_text(ty_compute(n->ty));
    if (str_eq(n->family, "lds")) {
        bool small = is_f(n->ty) && ty_bytes(n->ty) < 4;
        buf_fmt(b, "static inline %s %s(const %s *p) { return %s(*p)%s; }\n", ct(ty_compute(n->ty)), n->all, q,
                small ? arena_printf(p->a, "wid_%s", s) : "", n->ty == TY_BOOL ? " != 0" : "");
    } else if (str_eq(n->family, "ld"))
        buf_fmt(b, "static inline v%s %s(const %s *p) { w%s t; __builtin_memcpy(&t, p, sizeof t); return up_%s(t); }\n",
                c, n->all, q, s, s);
    else if (str_eq(n->family, "ldk") || str_eq(n->family, "ldh")) {
        buf_fmt(b, "static inline v%s %s(const %s *p, int n) {\n    w%s t = {0};\n", c, n->all, q, s);
        part_of(p, b, n->ty, true, str_eq(n->family, "ldh"));
        buf_fmt(b, "    return up_%s(t);\n}\n", s);
    } else if (str_eq(n->family, "ldn"))
        buf_fmt(b,
                "static inline __attribute__((always_inline)) v%s %s(const %s *p, int n) { w%s t = {0}; "
                "__builtin_memcpy(&t, p, n * sizeof *p); return up_%s(t); }\n",
                c, n->all, q, s, s);
    else if (str_eq(n->family, "lr")) /* n rows side by side */
        buf_fmt(b,
                "static inline v%s %s(const %s *p, i64 step, i32 n) { return step == 1 && n == %d ? ld_%s(p) : "
                "ldg_%s(p, step, n); }\n",
                c, n->all, q, p->L, s, s);
    else if (str_eq(n->family, "lrg")) /* n rows apart, of several registers */
        buf_fmt(
            b,
            "static OUT void %s(const %s *p, i64 step, i64 n, v%s *x, int regs) {\n    for (int r = 0; r < regs; r++) "
            "{\n        w%s t = {0};\n        for (int i = 0; i < few(n - r * %d); i++) t[i] = p[(r * %d + i) * "
            "step];\n        x[r] = up_%s(t);\n    }\n}\n",
            n->all, q, c, s, p->L, p->L, s);
    else if (str_eq(n->family, "ldg") || str_eq(n->family, "lgh"))
        buf_fmt(b,
                "static OUT v%s %s(const %s *p, i64 step, int n) { w%s t = {0}; for (int i = %s) t[i] = "
                "p[i * step]; return up_%s(t); }\n",
                c, n->all, q, s, range_of(p, str_eq(n->family, "lgh")), s);
    else
        buf_fmt(b,
                "static OUT v%s %s(const %s *p, vi64 at, vbool m, v%s fill) {\n    w%s t = {0};\n    for (int i = "
                "0; i < %d; i++)\n        if (%s) t[i] = p[at[i]];\n    return sel_v%s(m, up_%s(t), fill);\n}\n",
                c, n->all, q, c, s, p->L, p->wide ? "m >> i & 1" : "m[i]", c, s);
}

void host_store(Pre *p, Buf *b, const Name *n) {
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
        if (how) /* clang has no name for these instructions, but a builtin of its own */
            buf_fmt(b,
                    "    if (((u64)p & %d) == 0)\n#ifdef __clang__\n        __builtin_nontemporal_store(t, (w%s *)p);\n"
                    "#else\n        %s;\n#endif\n    else ",
                    bytes - 1, s, how);
        buf_fmt(b, "__builtin_memcpy(p, &t, sizeof t);\n}\n");
    } else if (str_eq(n->family, "stk") || str_eq(n->family, "sth")) {
        buf_fmt(b, "static inline void %s(%s *p, v%s x, int n) {\n    w%s t = dn_%s(x);\n", n->all, q, c, s, s);
        part_of(p, b, n->ty, false, str_eq(n->family, "sth"));
        buf_str(b, "}\n");
    } else if (str_eq(n->family, "stn"))
        buf_fmt(b,
                "static inline __attribute__((always_inline)) void %s(%s *p, v%s x, int n) { w%s t = dn_%s(x); "
                "__builtin_memcpy(p, &t, n * sizeof *p); }\n",
                n->all, q, c, s, s);
    else if (str_eq(n->family, "sr"))
        buf_fmt(b,
                "static inline void %s(%s *p, i64 step, v%s x, i32 n) { if (step == 1 && n == %d) st_%s(p, x); else "
                "stg_%s(p, step, x, n); }\n",
                n->all, q, c, p->L, s, s);
    else if (str_eq(n->family, "srg"))
        buf_fmt(
            b,
            "static OUT void %s(%s *p, i64 step, i64 n, const v%s *x, int regs) {\n    for (int r = 0; r < regs; "
            "r++) {\n        w%s t = dn_%s(x[r]);\n        for (int i = 0; i < few(n - r * %d); i++) p[(r * %d + i) "
            "* step] = t[i];\n    }\n}\n",
            n->all, q, c, s, s, p->L, p->L);
    else if (str_eq(n->family, "stg") || str_eq(n->family, "sgh"))
        buf_fmt(b,
                "static OUT void %s(%s *p, i64 step, v%s x, int n) { w%s t = dn_%s(x); for (int i = %s) "
                "p[i * step] = t[i]; }\n",
                n->all, q, c, s, s, range_of(p, str_eq(n->family, "sgh")));
    else
        buf_fmt(b,
                "static OUT void %s(%s *p, vi64 at, v%s x, int n) { w%s t = dn_%s(x); for (int i = %s) "
                "p[at[i]] = t[i]; }\n",
                n->all, q, c, s, s, range_of(p, str_eq(n->family, "sch")));
}
