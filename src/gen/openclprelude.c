/* The functions that OpenCL units call and that are not those of all GPUs: accesses are macros, since what they set
 * cannot be passed by reference; storage types go through integers, so that cl_khr_fp16 is not needed; what divides and
 * takes roots rounds correctly. The runtime says with -D how: ROWFOLD_LOOSE where memory is not aligned to packs,
 * ROWFOLD_DIV_F64 where only f64 divides correctly. */
#include "gpugen.h"

#include <stdio.h>
#include <string.h>

typedef struct Row {
    const char *name, *text;
} Row;

/* One function or macro each; what it calls comes with it. */
static const Row fixed[] = {
    /* NaN if either is, +0 above -0, without a branch */
    {"max_f32", "FN f32 max_f32(f32 x, f32 y) { return x == y ? F32_OF(U32_OF(x) & U32_OF(y)) : x > y ? x : x < y ? y "
                ": x + y; }\n"},
    {"min_f32", "FN f32 min_f32(f32 x, f32 y) { return x == y ? F32_OF(U32_OF(x) | U32_OF(y)) : x < y ? x : x > y ? y "
                ": x + y; }\n"},
    {"abs_f32", "FN f32 abs_f32(f32 x) { return fabs(x); }\n"},
    {"abs_f64", "FN f64 abs_f64(f64 x) { return fabs(x); }\n"},
    {"floor_f32", "FN f32 floor_f32(f32 x) { return floor(x); }\n"},
    {"floor_f64", "FN f64 floor_f64(f64 x) { return floor(x); }\n"},
    {"round_f32", "FN f32 round_f32(f32 x) { return rint(x); }\n"},
    {"round_f64", "FN f64 round_f64(f64 x) { return rint(x); }\n"},
    {"fma_f32", "FN f32 fma_f32(f32 x, f32 y, f32 z) { return fma(x, y, z); }\n"},
    {"fma_f64", "FN f64 fma_f64(f64 x, f64 y, f64 z) { return fma(x, y, z); }\n"},
    /* 53 bits are more than twice 24 and two: rounding twice is rounding once (Figueroa, 1995) */
    {"div_f32", "#ifdef ROWFOLD_DIV_F64\nFN f32 div_f32(f32 x, f32 y) { return (f32)((double)x / (double)y); }\n#else\n"
                "FN f32 div_f32(f32 x, f32 y) { return x / y; }\n#endif\n"},
    {"sqrt_f32", "#ifdef ROWFOLD_DIV_F64\nFN f32 sqrt_f32(f32 x) { return (f32)sqrt((double)x); }\n#else\n"
                 "FN f32 sqrt_f32(f32 x) { return sqrt(x); }\n#endif\n"},
    {"ldexp_f64", "FN f64 ldexp_f64(f64 x, f64 y) { return ldexp(x, (i32)y); }\n"},
    {"sigmoid_f64", "FN f64 sigmoid_f64(f64 x) { return 1 / (1 + exp(-x)); }\n"},
    {"pow_f64", "FN f64 pow_f64(f64 x, f64 y) { return pow(x, y); }\n"},
    /* x 2^y in three factors that f32 holds, the smallest exponent last: where the product becomes subnormal before the
     * last step, the result is zero. */
    {"ldexp_f32", "FN f32 ldexp_f32(f32 x, f32 y) {\n"
                  "#ifndef LANES_IN_TURN /* where a branch costs less than what it spares */\n"
                  "    if (fabs(y) <= 126.0f) return x * F32_OF((127 + (i32)y) << 23);\n#endif\n"
                  "    const i32 k = (i32)(y != y ? 0.0f : y > 378.0f ? 378.0f : y < -378.0f ? -378.0f : y);\n"
                  "    const i32 c = k > 126 ? 126 : k < -126 ? -126 : k, d = k - c;\n"
                  "    const i32 b = d > 126 ? 126 : d < -126 ? -126 : d, a = d - b;\n"
                  "    const f32 r = x * F32_OF((127 + a) << 23) * F32_OF((127 + b) << 23) * F32_OF((127 + c) << 23);\n"
                  "    return y != y ? y : r;\n}\n"},
    /* storage: from the bits of a type to its compute type and back, to nearest even */
    {"up_f16", "FN f32 up_f16(u32 x) {\n    const u32 m = x & 0x7fffu;\n"
               "    return F32_OF((x & 0x8000u) << 16 | (m < 0x7c00u ? U32_OF(F32_OF(m << 13) * 0x1p112f) : m << 13 | "
               "0x7f800000u));\n}\n"},
    {"dn_f16", "FN u32 dn_f16(f32 x) {\n    const u32 u = U32_OF(x), a = u & 0x7fffffffu;\n"
               "    const u32 r = a > 0x7f800000u ? 0x7e00u : a >= 0x477ff000u ? 0x7c00u : a >= 0x38800000u ? (a - "
               "0x37fff001u + (a >> 13 & 1)) >> 13 : U32_OF(F32_OF(a) + 0.5f) - 0x3f000000u;\n"
               "    return u >> 31 << 15 | r;\n}\n"},
    {"up_bf16", "FN f32 up_bf16(u32 x) { return F32_OF(x << 16); }\n"},
    {"dn_bf16", "FN u32 dn_bf16(f32 x) {\n    const u32 u = U32_OF(x);\n"
                "    return (u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (u + 0x7fffu + (u >> 16 & 1)) >> 16;\n}\n"},
    {"pk_f16", "FN u32 pk_f16(f32 x, f32 y) { return dn_f16(x) | dn_f16(y) << 16; }\n"},
    {"pk_bf16", "FN u32 pk_bf16(f32 x, f32 y) { return dn_bf16(x) | dn_bf16(y) << 16; }\n"},
    {"up_f8e4m3", "FN f32 up_f8e4m3(u32 x) { return wid_f8e4m3(x); }\n"},
    {"up_f8e5m2", "FN f32 up_f8e5m2(u32 x) { return wid_f8e5m2(x); }\n"},
    {"dn_f8e4m3", "FN u32 dn_f8e4m3(f32 x) { return nar_f8e4m3(x); }\n"},
    {"dn_f8e5m2", "FN u32 dn_f8e5m2(f32 x) { return nar_f8e5m2(x); }\n"},
    {"pk_f8e4m3", "FN u32 pk_f8e4m3(f32 x, f32 y) { return nar_f8e4m3(x) | nar_f8e4m3(y) << 8; }\n"},
    {"pk_f8e5m2", "FN u32 pk_f8e5m2(f32 x, f32 y) { return nar_f8e5m2(x) | nar_f8e5m2(y) << 8; }\n"},
    /* 32 bits of lane i ^ h */
    {"exchange",
     "#if defined(cl_khr_subgroup_shuffle)\n#define exchange(x, h, who) sub_group_shuffle_xor(x, (u32)(h))\n"
     "#elif defined(cl_intel_subgroups)\n#define exchange(x, h, who) intel_sub_group_shuffle_xor(x, "
     "(u32)(h))\n"
     "#else /* NVIDIA: inline PTX */\nFN u32 exchange(u32 x, i32 h, u32 who) {\n    u32 r;\n"
     "    __asm__ volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 0x1f, %3;\" : \"=r\"(r) : \"r\"(x), \"r\"(h), "
     "\"r\"(who));\n    return r;\n}\n#endif\n"},
    /* the bits of an element into a word that holds zeros there */
    {"put1", "#define put1(w, shift, x) w |= (u32)(x) << (shift)\n"},
    {"put2", "#define put2(w, shift, x) w |= (u32)(x) << (shift)\n"},
    {"put4", "#define put4(w, shift, x) w |= (u32)(x) << (shift)\n"},
    {"put8",
     "#define put8(lo, hi, shift, x) do { const u64 t_ = (x); lo = (u32)t_; hi = (u32)(t_ >> 32); } while (0)\n"},
};

/* ---- families: name_type ---- */

/* A value of any type as 64 bits, and back. */
static void xput(Buf *b, const char *name, Ty ty) {
    buf_fmt(b, "FN u64 %s(%s x) { return %s; }\n", name, gpu_type(ty),
            ty == TY_F32   ? "U32_OF(x)"
            : ty == TY_F64 ? "as_ulong(x)"
                           : "(u64)x");
}

static void xget(Buf *b, const char *name, Ty ty) {
    buf_fmt(b, "FN %s %s(u64 x) { return ", gpu_type(ty), name);
    if (ty_is_float(ty))
        buf_str(b, ty == TY_F32 ? "F32_OF((u32)x); }\n" : "F64_OF(x); }\n");
    else
        buf_fmt(b, "(%s)x; }\n", gpu_type(ty));
}

static void shx(Buf *b, const char *name, Ty ty) {
    const char *t = ty_text(ty);
    buf_fmt(b, "FN %s %s(%s x, i32 h, u32 who) {\n    const u64 u = xput_%s(x);\n", gpu_type(ty), name, gpu_type(ty),
            t);
    if (ty_bytes(ty) == 8)
        buf_fmt(b,
                "    const u32 lo = exchange((u32)u, h, who), hi = exchange((u32)(u >> 32), h, who);\n    return "
                "xget_%s(lo | (u64)hi << 32);\n}\n",
                t);
    else
        buf_fmt(b, "    return xget_%s(exchange((u32)u, h, who));\n}\n", t);
}

/* elements that are not short floats: integers saturate */
static void up(Buf *b, const char *name, Ty ty) {
    Ty to = ty_compute(ty);
    buf_fmt(b, "FN %s %s(%s x) { return ", gpu_type(to), name, ty_bytes(ty) == 8 ? "u64" : "u32");
    if (ty_is_float(ty) || ty == TY_BOOL)
        buf_str(b, ty == TY_F32 ? "F32_OF(x); }\n" : ty == TY_F64 ? "F64_OF(x); }\n" : "x != 0; }\n");
    else
        buf_fmt(b, "(%s)(%s)x; }\n", gpu_type(to), ty_text(ty));
}

static void dn(Buf *b, const char *name, Ty ty) {
    Ty from = ty_compute(ty);
    const char *to = ty_bytes(ty) == 8 ? "u64" : "u32";
    buf_fmt(b, "FN %s %s(%s x) { return ", to, name, gpu_type(from));
    if (ty_is_float(ty))
        buf_str(b, ty == TY_F32 ? "U32_OF(x); }\n" : "as_ulong(x); }\n");
    else if (from == ty)
        buf_fmt(b, "(%s)x; }\n", to);
    else
        buf_fmt(b, "(u32)cast_%s_%s(x) & %s; }\n", ty_text(from), ty_text(ty), ty_bytes(ty) == 1 ? "0xffu" : "0xffffu");
}

static void extreme(Buf *b, const char *name, Ty ty, bool max) {
    const char *t = gpu_type(ty);
    char c = max ? '>' : '<';
    if (ty == TY_F64)
        buf_fmt(b,
                "FN f64 %s(f64 x, f64 y) { return x == y ? F64_OF(as_ulong(x) %c as_ulong(y)) : x %c y ? x : y %c x ? "
                "y : x + y; }\n",
                name, max ? '&' : '|', c, c);
    else
        buf_fmt(b, "FN %s %s(%s x, %s y) { return x %c y ? x : y; }\n", t, name, t, t, c);
}
static void max_of(Buf *b, const char *name, Ty ty) {
    extreme(b, name, ty, true);
}
static void min_of(Buf *b, const char *name, Ty ty) {
    extreme(b, name, ty, false);
}

/* special functions of f64 are the device's own */
static void own_f64(Buf *b, const char *name, const char *family) {
    buf_fmt(b, "FN f64 %s(f64 x) { return %s(x); }\n", name, family);
}

/* ---- accesses ---- */

typedef struct Access {
    bool load, guarded, element, local;
    int bytes, each, words;
} Access;

static bool access_read(const char *word, Access *x) {
    int n = 0;
    *x = (Access){.bytes = 0};
    /* words are the emitter's own: their numbers have a digit or three. NOLINTBEGIN(cert-err34-c) */
    if (sscanf(word, "lde%d_plain%n", &x->each, &n) == 1 && n && !word[n])
        x->load = x->element = true, x->bytes = x->each;
    else if (sscanf(word, "lds%d%n", &x->bytes, &n) == 1 && !word[n])
        x->load = x->local = true, x->each = x->bytes;
    else if (sscanf(word, "sts%d%n", &x->bytes, &n) == 1 && !word[n])
        x->local = true, x->each = x->bytes;
    else if (n = 0, sscanf(word, "ld%dx%d_plain%n", &x->bytes, &x->each, &n) == 2 && n && !word[n])
        x->load = true;
    else if (n = 0, sscanf(word, "ldn%dx%d_plain%n", &x->bytes, &x->each, &n) == 2 && n && !word[n])
        x->load = x->guarded = true;
    else if (n = 0, sscanf(word, "stn%dx%d_plain%n", &x->bytes, &x->each, &n) == 2 && n && !word[n])
        x->guarded = true;
    else if (n = 0, sscanf(word, "st%dx%d_plain%n", &x->bytes, &x->each, &n) != 2 || !n || word[n])
        return false;
    /* NOLINTEND(cert-err34-c) */
    x->words = x->bytes < 4 ? 1 : x->bytes / 4;
    return true;
}

static const char *unsigned_of(int bytes) {
    return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : bytes == 8 ? "uint2" : "uint4";
}

/* Statements that access memory as a whole. */
static void whole(Buf *b, const Access *x) {
    static const char part[] = "xyzw";
    const char *t = unsigned_of(x->bytes);
    /* volatile, so that what is held in local memory is not held in registers as well */
    const char *at = arena_printf(b->a, "*(%s%s *)(p)", x->local ? "volatile __local " : "__global ", t);
    if (x->words == 1) {
        if (x->load)
            buf_fmt(b, "w0 = %s;", at);
        else
            buf_fmt(b, "%s = (%s)(w0);", at, t);
        return;
    }
    if (x->load) buf_fmt(b, "const %s t_ = %s;", t, at);
    for (int i = 0; i < x->words; i++)
        x->load ? buf_fmt(b, " w%d = t_.%c;", i, part[i])
                : buf_fmt(b, "%sw%d", i ? ", " : arena_printf(b->a, "%s = (%s)(", at, t), i);
    if (!x->load) buf_str(b, ");");
}

/* Element by element, for memory that is not aligned to the whole. */
static void by_elements(Buf *b, const Access *x) {
    for (int i = 0; i < x->bytes / x->each; i++) {
        int w = i * x->each / 4, s = i * x->each % 4 * 8;
        const char *t = x->each == 8 ? "u64" : unsigned_of(x->each);
        const char *at = arena_printf(b->a, "((__global %s *)(p))[%d]", t, i);
        if (x->each == 8 && x->load)
            buf_fmt(b, " { const u64 t_ = %s; w%d = (u32)t_; w%d = (u32)(t_ >> 32); }", at, w, w + 1);
        else if (x->each == 8)
            buf_fmt(b, " %s = (u32)(w%d) | (u64)(w%d) << 32;", at, w, w + 1);
        else if (x->load)
            buf_fmt(b, " w%d %s (u32)%s << %d;", w, s ? "|=" : "=", at, s);
        else
            buf_fmt(b, " %s = (%s)((w%d) >> %d);", at, t, w, s);
    }
}

static void access_make(Buf *b, const char *name, const Access *x) {
    Buf words = buf_new(b->a);
    if (x->element) { /* the bits of one element */
        buf_fmt(b, "#define %s(p) (*(const __global %s *)(p))\n", name, x->each == 8 ? "u64" : unsigned_of(x->each));
        return;
    }
    for (int i = 0; i < x->words; i++) buf_fmt(&words, "%sw%d", i ? ", " : "", i);
    const char *head = x->load ? arena_printf(b->a, "#define %s(%s%s, p) do {%s ", name, words.s,
                                              x->guarded ? ", ok" : "", x->guarded ? " if (ok) {" : "")
                               : arena_printf(b->a, "#define %s(%sp, %s) do {%s ", name, x->guarded ? "ok, " : "",
                                              words.s, x->guarded ? " if (ok) {" : "");
    const char *end = x->guarded ? " } } while (0)\n" : " } while (0)\n";
    bool pieces = x->bytes > x->each || (x->bytes == 8 && !x->local); /* f64 is one access of two words */
    if (pieces) {
        buf_fmt(b, "#ifdef ROWFOLD_LOOSE\n%s", head);
        by_elements(b, x);
        buf_fmt(b, "%s#else\n", end);
    }
    buf_str(b, head);
    whole(b, x);
    buf_fmt(b, "%s%s", end, pieces ? "#endif\n" : "");
}

/* ---- the prelude ---- */

static bool own(Buf *b, const char *word) {
    static const struct {
        const char *family;
        void (*make)(Buf *b, const char *name, Ty ty);
    } families[] = {{"xput", xput}, {"xget", xget},  {"shx", shx},   {"up", up},
                    {"dn", dn},     {"max", max_of}, {"min", min_of}};
    static const char *const special[] = {"sqrt", "rsqrt", "exp", "exp2", "log", "log2", "tanh", "erf"};
    for (int i = 0; i < COUNT(fixed); i++)
        if (str_eq(fixed[i].name, word)) return buf_str(b, fixed[i].text), true;
    Access x;
    if (access_read(word, &x)) return access_make(b, word, &x), true;
    const char *cut = strchr(word, '_');
    if (!cut) return false;
    size_t n = (size_t)(cut - word);
    const char *family = arena_str(b->a, word, n), *type = cut + 1;
    Ty ty;
    if (str_eq(family, "meet")) { /* meet_op_T(x, i, h, who): x, i of the lane or of lane ^ h, whichever wins */
        const char *t = strchr(type, '_') + 1;
        if (!ty_find(t, strlen(t), &ty)) return false;
        buf_fmt(b,
                "#define %s(x, i, h, who) do { const %s y_ = shx_%s(x, h, who); const i64 j_ = shx_i64(i, h, who); if "
                "(beats_%s(y_, j_, x, i)) { x = y_; i = j_; } } while (0)\n",
                word, gpu_type(ty), t, type);
        return true;
    }
    if (!ty_find(type, strlen(type), &ty)) return false;
    for (int i = 0; i < COUNT(families); i++)
        if (str_eq(families[i].family, family)) return families[i].make(b, word, ty), true;
    for (int i = 0; i < COUNT(special) && ty == TY_F64; i++)
        if (str_eq(special[i], family)) return own_f64(b, word, family), true;
    return false;
}

void opencl_prelude(Emit *e, const char *body, Buf *out) {
    buf_str(out, "#pragma OPENCL FP_CONTRACT OFF\n");
    buf_str(out, "#if defined(cl_khr_fp64) && __OPENCL_C_VERSION__ < 120\n#pragma OPENCL EXTENSION cl_khr_fp64 : "
                 "enable\n#endif\n");
    if (e->k->subgroup > 1)
        buf_fmt(out,
                "#if defined(cl_khr_subgroup_shuffle)\n#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable\n"
                "#elif defined(cl_intel_subgroups)\n#pragma OPENCL EXTENSION cl_intel_subgroups : enable\n#endif\n"
                "#if defined(cl_intel_required_subgroup_size)\n#define GROUP(n) __attribute__((reqd_work_group_size(n, "
                "1, 1), intel_reqd_sub_group_size(%d)))\n#else\n#define GROUP(n) "
                "__attribute__((reqd_work_group_size(n, 1, 1)))\n#endif\n",
                e->k->subgroup);
    else
        buf_str(out, "#define GROUP(n) __attribute__((reqd_work_group_size(n, 1, 1)))\n");
    buf_str(out, "typedef char i8; typedef short i16; typedef int i32; typedef long i64; typedef float f32; typedef "
                 "bool b1;\ntypedef uchar u8, f8e4m3, f8e5m2; typedef ushort u16, f16, bf16; typedef uint u32; "
                 "typedef ulong u64;\n");
    if (e->pb->caps.lanes_in_turn) buf_str(out, "#define LANES_IN_TURN\n");
    if (e->pb->caps.has_f64)
        buf_str(out, "typedef double f64;\n#define F64_OF(x) as_double(x)\n#define I64_OF(x) as_long(x)\n"
                     "#define NAN_F64 F64_OF(0x7ff8000000000000l)\n#define INF_F64 F64_OF(0x7ff0000000000000l)\n");
    else
        buf_str(out, "typedef ulong f64; /* its bits */\n");
    buf_str(out, "#define bool8 uchar /* a word that OpenCL C reserves */\n#define FN static inline\n#define F32_OF(x) "
                 "as_float(x)\n#define U32_OF(x) as_uint(x)\n#define "
                 "I32_OF(x) as_int(x)\n"
                 "#define rintf rint\n#define NAN_F32 F32_OF(0x7fc00000)\n#define INF_F32 F32_OF(0x7f800000)\n"
                 "#define PRAGMA(x) _Pragma(#x)\n#define UNROLL(n) PRAGMA(unroll n)\n");
    if (e->slots) /* known only when all joins are emitted */
        buf_fmt(out, "#define EXCHANGE(lanes) __local u64 xs[2][%d][lanes]; i32 xb = 0, xi = 0;\n", e->slots);
    else
        buf_str(out, "#define EXCHANGE(lanes)\n");
    static const Family bits[] = {
        {"odd", gpu_odd_of_bits, 0}, {"cut", gpu_cut_bits, 0}, {"cast_f64", gpu_cast_bits, 0}};
    Pre p = {.a = e->cx->a, .out = out, .who = e->words->who, .access = own};
    if (!e->pb->caps.has_f64) p.own = bits, p.nown = COUNT(bits);
    gpu_prelude(&p, body);
}
