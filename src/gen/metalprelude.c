/* The functions that Metal units call and that are their own. There are no 64-bit floats: an f64 is a u64 with its
 * bits, and only scalar arguments are such. Shuffles move 32 bits. Conversions that Metal leaves to the device are
 * integer arithmetic. A name of an access is family, bytes, x, bytes of an element, _plain: ldn16x2_plain. */
#include "gpugen.h"

#include <stdio.h>
#include <string.h>

#define FN "FN "

/* ---- arithmetic ---- */

/* NaN if either is, +0 above -0 */
static void f_minmax(Pre *p, Buf *b, const Name *n) {
    bool max = str_eq(n->family, "max");
    if (n->ty == TY_F32)
        gpu_binary(p, b, n,
                   arena_printf(p->a, "x != x || y != y ? NAN_F32 : x == y ? (I32_OF(%s) < 0 ? y : x) : x %c y ? x : y",
                                max ? "x" : "y", max ? '>' : '<'));
    else
        gpu_binary(p, b, n, arena_printf(p->a, "x %c y ? x : y", max ? '>' : '<'));
}

static void f_sqrt(Pre *p, Buf *b, const Name *n) {
    (void)p;
    gpu_unary(p, b, n,
              "precise::sqrt(x)"); /* correctly rounded, as the table of errors in Apple's specification says */
}

/* x 2^y, rounded once: all factors but the last are exact, or what they round is far below the smallest result. */
static void f_ldexp(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b,
            FN "f32 %s(f32 x, f32 y) {\n"
               "    if (y != y) return y;\n"
               "    i32 k = y > 400.0f ? 400 : y < -400.0f ? -400 : (i32)y;\n"
               "    for (; k > 126; k -= 126) x *= F32_OF(0x7e800000u);\n"
               "    if (k >= -126) return x * F32_OF((127 + k) << 23);\n"
               "    for (k += 126; k < -126; k += 126) x *= F32_OF(0x00800000u);\n"
               "    return x * F32_OF((127 + k) << 23) * F32_OF(0x00800000u);\n}\n",
            n->all);
}

/* ---- lanes ---- */

static void f_shx(Pre *p, Buf *b, const Name *n) {
    const char *t = gpu_type(n->ty);
    const char *how = n->ty == TY_BOOL      ? "simd_shuffle_xor((u32)x, (u16)h) != 0u"
                      : ty_bytes(n->ty) < 8 ? "simd_shuffle_xor(x, (u16)h)"
                                            : NULL;
    if (!how)
        how = arena_printf(p->a,
                           "(%s)((u64)simd_shuffle_xor((u32)((u64)x >> 32), (u16)h) << 32 | "
                           "simd_shuffle_xor((u32)(u64)x, (u16)h))",
                           t);
    buf_fmt(b, FN "%s %s(%s x, i32 h) { return %s; }\n", t, n->all, t, how);
}

/* ---- storage: up_T from the bits of T to its compute type, dn_T back, pk_T two at once ---- */

static void f_up(Pre *p, Buf *b, const Name *n) {
    const char *from = ty_bytes(n->ty) == 8 ? "u64" : "u32", *to = gpu_type(ty_compute(n->ty)), *t = ty_text(n->ty);
    const char *how = n->ty == TY_BOOL     ? "x != 0"
                      : n->ty == TY_F32    ? "F32_OF(x)"
                      : n->ty == TY_BF16   ? "F32_OF(x << 16)"
                      : n->ty == TY_F16    ? "(f32)as_type<half>((u16)x)"
                      : ty_is_float(n->ty) ? arena_printf(p->a, "wid_%s(x)", t)
                                           : arena_printf(p->a, "(%s)(%s)x", to, t);
    buf_fmt(b, FN "%s %s(%s x) { return %s; }\n", to, n->all, from, how);
}

static void f_dn(Pre *p, Buf *b, const Name *n) {
    Ty c = ty_compute(n->ty);
    const char *to = ty_bytes(n->ty) == 8 ? "u64" : "u32", *t = ty_text(n->ty);
    buf_fmt(b, FN "%s %s(%s x) { ", to, n->all, gpu_type(c));
    switch (n->ty) {
    case TY_BOOL: buf_str(b, "return x; }\n"); return;
    case TY_F32: buf_str(b, "return U32_OF(x); }\n"); return;
    case TY_F16: buf_str(b, "return as_type<u16>((half)x); }\n"); return;
    case TY_BF16:
        buf_str(b, "const u32 u = U32_OF(x); return x != x ? u >> 16 | 0x40u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16; "
                   "}\n");
        return;
    case TY_F8E4M3:
    case TY_F8E5M2: buf_fmt(b, "return nar_%s(x); }\n", t); return;
    default:
        if (c == n->ty)
            buf_fmt(b, "return (%s)x; }\n", to);
        else /* integers saturate */
            buf_fmt(b, "return (u32)cast_%s_%s(x) & %s; }\n", ty_text(c), t,
                    ty_bytes(n->ty) == 1 ? "0xffu" : "0xffffu");
    }
    (void)p;
}

static void f_pk(Pre *p, Buf *b, const Name *n) {
    const char *t = ty_text(n->ty);
    (void)p;
    buf_fmt(b, FN "u32 %s(f32 x, f32 y) { return dn_%s(x) | dn_%s(y) << %d; }\n", n->all, t, t, 8 * ty_bytes(n->ty));
}

/* ---- f64 as bits, and integers to short floats ---- */

/* odd_T: to f32, rounded to odd, so that a second rounding to a short format is the only one that counts */
void gpu_odd_of_bits(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b, FN "f32 %s(%s x) {\n", n->all, gpu_type(n->ty));
    if (n->ty == TY_F32)
        buf_str(b, "    return x;\n}\n");
    else if (n->ty == TY_BOOL)
        buf_str(b, "    return x ? 1.0f : 0.0f;\n}\n");
    else if (n->ty == TY_F64)
        buf_str(b, "    return cut_f64(x, true);\n}\n");
    else if (ty_is_signed(n->ty))
        buf_str(b, "    return x < 0 ? -odd_u64(0 - (u64)x) : odd_u64((u64)x);\n}\n");
    else if (n->ty == TY_U32)
        buf_str(b, "    return odd_u64((u64)x);\n}\n");
    else
        buf_str(b, "    i32 k = 0;\n    for (; x >> 24; k++) x = x >> 1 | (x & 1);\n"
                   "    return (f32)(u32)x * F32_OF((127 + k) << 23);\n}\n");
}

/* cut_f64: the bits of an f64 to f32, to odd or to nearest even */
void gpu_cut_bits(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b,
            FN "f32 %s(u64 x, b1 odd) {\n"
               "    const u32 sign = (u32)(x >> 32) & 0x80000000u;\n"
               "    const i32 field = (i32)(x >> 52 & 0x7ff), ex = field - 896;\n"
               "    const u64 man = x & 0xffffffffffffful;\n"
               "    if (field == 0x7ff) return F32_OF(sign | (man ? 0x7fc00000u : 0x7f800000u));\n"
               "    if (ex >= 255) return F32_OF(sign | (odd ? 0x7f7fffffu : 0x7f800000u));\n"
               "    const i32 shift = ex > 0 ? 29 : ex < -32 ? 63 : 30 - ex;\n"
               "    const u64 all = ex > 0 || !field ? man : man | 1ul << 52, rest = all & ((1ul << shift) - 1), mid = "
               "1ul << (shift - 1);\n"
               "    const u32 kept = (u32)(all >> shift) | (ex > 0 ? (u32)ex << 23 : 0u);\n"
               "    const b1 up = odd ? rest != 0 && !(kept & 1u) : rest > mid || (rest == mid && (kept & 1u));\n"
               "    return F32_OF(sign | (kept + (up ? 1u : 0u)));\n}\n",
            n->all);
}

/* Of f64 there is a cast only to floats, of scalar arguments; all others are the common ones. */
void gpu_cast_bits(Pre *p, Buf *b, const Name *n) {
    const char *to = ty_text(n->ty);
    const char *how = n->ty == TY_F32 ? "cut_f64(x, false)" : arena_printf(p->a, "up_%s(dn_%s(odd_f64(x)))", to, to);
    buf_fmt(b, FN "f32 %s(u64 x) { return %s; }\n", n->all, how);
}

/* ---- accesses ---- */

typedef struct Access {
    const char *space; /* device or threadgroup */
    bool load, guarded;
    int bytes, each;
} Access;

/* Type of one access. Several elements are moved as a vector, which like char may be any other type's memory. */
static const char *access_type(int bytes, int each) {
    static const char *const one[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "uint2", [16] = "uint4"},
                             *const several[] = {[2] = "uchar2", [4] = "uchar4", [8] = "uint2", [16] = "uint4"};
    return bytes > each ? several[bytes] : one[bytes];
}

/* Piece by piece, for memory that is not aligned to the whole access. */
static void by_elements(Buf *b, const Access *x) {
    for (int i = 0; i < x->bytes / x->each; i++) {
        int w = i * x->each / 4, s = i * x->each % 4 * 8;
        const char *q = arena_printf(b->a, "(device %su%d *)p + %d", x->load ? "const " : "", 8 * x->each, i);
        if (x->each == 8 && x->load)
            buf_fmt(b, "    w%d = ((device const u32 *)p)[%d], w%d = ((device const u32 *)p)[%d];\n", w, w, w + 1,
                    w + 1);
        else if (x->each == 8)
            buf_fmt(b, "    ((device u32 *)p)[%d] = w%d, ((device u32 *)p)[%d] = w%d;\n", w, w, w + 1, w + 1);
        else if (x->load)
            buf_fmt(b, "    w%d %s (u32)*(%s) << %d;\n", w, s ? "|=" : "=", q, s);
        else
            buf_fmt(b, "    *(%s) = (u%d)(w%d >> %d);\n", q, 8 * x->each, w, s);
    }
}

static void access_make(Buf *b, const char *name, const Access *x) {
    static const char *const part[] = {"x", "y", "z", "w"};
    int words = x->bytes < 4 ? 1 : x->bytes / 4;
    const char *type = access_type(x->bytes, x->each);
    buf_fmt(b, FN "void %s(", name);
    for (int i = 0; i < words && x->load; i++) buf_fmt(b, "REF(u32) w%d, ", i);
    buf_fmt(b, "%s%s %svoid *p", x->guarded ? "b1 ok, " : "", x->space, x->load ? "const " : "");
    for (int i = 0; i < words && !x->load; i++) buf_fmt(b, ", u32 w%d", i);
    buf_str(b, ") {\n");
    if (x->guarded) buf_str(b, "    if (!ok) return;\n");
    bool pieces = x->bytes > x->each;
    if (pieces) {
        buf_str(b, "#ifdef ROWFOLD_LOOSE\n");
        by_elements(b, x);
        buf_str(b, "#else\n");
    }
    const char *word = x->bytes == 2 ? "u16" : "u32";
    if (words == 1 && pieces && x->load)
        buf_fmt(b, "    w0 = as_type<%s>(*(%s const %s *)p);\n", word, x->space, type);
    else if (words == 1 && pieces)
        buf_fmt(b, "    *(%s %s *)p = as_type<%s>((%s)w0);\n", x->space, type, type, word);
    else if (words == 1 && x->load)
        buf_fmt(b, "    w0 = *(%s const %s *)p;\n", x->space, type);
    else if (words == 1)
        buf_fmt(b, "    *(%s %s *)p = (%s)w0;\n", x->space, type, type);
    else if (x->load) {
        buf_fmt(b, "    const %s t = *(%s const %s *)p;\n   ", type, x->space, type);
        for (int i = 0; i < words; i++) buf_fmt(b, " w%d = t.%s;", i, part[i]);
        buf_str(b, "\n");
    } else {
        buf_fmt(b, "    *(%s %s *)p = %s(", x->space, type, type);
        for (int i = 0; i < words; i++) buf_fmt(b, "%sw%d", i ? ", " : "", i);
        buf_str(b, ");\n");
    }
    if (pieces) buf_str(b, "#endif\n");
    buf_str(b, "}\n");
}

/* the bits of one element */
static void element_make(Buf *b, const char *name, int bytes) {
    if (bytes == 8)
        buf_fmt(b, FN "u64 %s(device const void *p) { return *(device const u64 *)p; }\n", name);
    else
        buf_fmt(b, FN "u32 %s(device const void *p) { return *(device const %s *)p; }\n", name,
                access_type(bytes, bytes));
}

/* put1 put2 put4 put8: the bits of an element into a word that holds zeros there */
static void put_make(Buf *b, int bytes) {
    if (bytes == 8)
        buf_str(b, FN "void put8(REF(u32) lo, REF(u32) hi, i32, u64 x) { lo = (u32)x, hi = (u32)(x >> 32); }\n");
    else
        buf_fmt(b, FN "void put%d(REF(u32) w, i32 shift, u32 x) { w |= x << shift; }\n", bytes);
}

static bool access_named(Buf *b, const char *word) {
    static const struct {
        const char *form;
        bool load, guarded;
    } packs[] = {{"ld%dx%d_plain%n", true, false},
                 {"ldn%dx%d_plain%n", true, true},
                 {"st%dx%d_plain%n", false, false},
                 {"stn%dx%d_plain%n", false, true}};
    int bytes = 0, each = 0, n = 0;
    /* words are the emitter's own: their numbers have a digit or two. NOLINTBEGIN(cert-err34-c) */
    if (sscanf(word, "lde%d_plain%n", &bytes, &n) == 1 && n && !word[n]) return element_make(b, word, bytes), true;
    if (sscanf(word, "put%d%n", &bytes, &n) == 1 && !word[n]) return put_make(b, bytes), true;
    if ((sscanf(word, "lds%d%n", &bytes, &n) == 1 || sscanf(word, "sts%d%n", &bytes, &n) == 1) && !word[n]) {
        access_make(b, word, &(Access){"threadgroup", word[0] == 'l', false, bytes, bytes});
        return true;
    }
    for (int i = 0; i < COUNT(packs); i++) {
        n = 0;
        if (sscanf(word, packs[i].form, &bytes, &each, &n) != 2 || !n || word[n]) continue;
        access_make(b, word, &(Access){"device", packs[i].load, packs[i].guarded, bytes, each});
        return true;
    }
    /* NOLINTEND(cert-err34-c) */
    return false;
}

/* ---- the table ---- */

static const Family own[] = {{"min", f_minmax, 0},
                             {"max", f_minmax, 0},
                             {"sqrt", f_sqrt, 0},
                             {"ldexp", f_ldexp, 0},
                             {"shx", f_shx, 0},
                             {"up", f_up, 0},
                             {"dn", f_dn, 0},
                             {"pk", f_pk, 0},
                             {"odd", gpu_odd_of_bits, 0},
                             {"cut", gpu_cut_bits, 0},
                             {"cast_f64", gpu_cast_bits, 0}};

void metal_prelude(Emit *e, const char *body, Buf *out) {
    buf_str(out, "#include <metal_stdlib>\n"
                 "#if __METAL_VERSION__ >= 320\n"
                 "#pragma METAL fp math_mode(safe)\n"
                 "#pragma METAL fp contract(off)\n"
                 "#endif\n"
                 "using namespace metal;\n"
                 "typedef char i8; typedef short i16; typedef int i32; typedef long i64; typedef float f32; typedef "
                 "bool b1;\n"
                 "typedef uchar u8, bool8, f8e4m3, f8e5m2; typedef ushort u16, f16, bf16; typedef uint u32; typedef "
                 "ulong u64;\n"
                 "typedef u64 f64; /* its bits */\n"
                 "union slot { i64 i; f64 d; };\n"
                 "#define FN static inline\n"
                 "#define REF(t) thread t &\n"
                 "#define F32_OF(x) as_type<f32>(x)\n"
                 "#define I32_OF(x) as_type<i32>(x)\n"
                 "#define U32_OF(x) as_type<u32>(x)\n"
                 "#define NAN_F32 F32_OF(0x7fc00000u)\n"
                 "#define INF_F32 F32_OF(0x7f800000u)\n"
                 "#define fabsf fabs\n"
                 "#define rintf rint\n"
                 "#define floorf floor\n"
                 "#define fmaf fma\n"
                 "#define PRAGMA(x) _Pragma(#x)\n"
                 "#define UNROLL(n) PRAGMA(unroll n)\n");
    /* known only when all joins are emitted */
    if (gpu_exchange(e)) buf_fmt(out, "enum { slots_exchanged = %d };\n", e->slots ? e->slots : 1);
    Pre p = {.a = e->cx->a, .out = out, .who = "", .own = own, .nown = COUNT(own), .access = access_named};
    gpu_prelude(&p, body);
}
