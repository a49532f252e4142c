/* The functions that CUDA units call and that are its own: what the compiler knows by itself and inline PTX (ISA 8.x,
 * sm_80 and later), no headers. A name of an access is family, bytes, x, bytes of an element, _policy: ldn16x2_keep.
 * Loads and stores are volatile PTX, so that no compiler merges two that the plan keeps apart; but for those whose
 * policy says free, which it may move. */
#include "gpugen.h"

#include <stdio.h>
#include <string.h>

#define FN "FN "

/* ---- arithmetic ---- */

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
        gpu_binary(p, b, n, arena_printf(p->a, "x %c y ? x : y", max ? '>' : '<'));
}

/* x 2^y, rounded once. Every power from 2^-149 to 2^127 is an f32, and what is above is reached without rounding. */
static void f_ldexp(Pre *p, Buf *b, const Name *n) {
    (void)p;
    if (n->ty == TY_F64) {
        gpu_binary(p, b, n, "x * exp2(y)");
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
    if (n->ty == TY_F32 && str_eq(n->family, "exp") && p->plan->exp == EXP_FAST)
        buf_fmt(b,
                FN "f32 %s(f32 x) { f32 r; asm(\"ex2.approx.ftz.f32 %%0, %%1;\" : \"=f\"(r) : \"f\"(x * "
                   "0x1.715476p+0f)); return r; }\n",
                n->all);
    else if (str_eq(n->family, "pow"))
        gpu_binary(p, b, n, arena_printf(p->a, "pow%s(x, y)", f));
    else if (str_eq(n->family, "sigmoid"))
        gpu_unary(p, b, n, arena_printf(p->a, "1 / (1 + exp%s(-x))", f));
    else
        gpu_unary(p, b, n, arena_printf(p->a, "%s%s(x)", n->family, f));
}

/* key_op_T(x, i): greater for the pair that wins, 0 for none; unkey_op_T: its value. Zeros are one, so are NaNs. */
static void f_key(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *turn = str_eq(n->to, "min") ? "~" : "";
    buf_fmt(b, FN "u64 %s(%s x, i32 i) {\n", n->all, gpu_type(n->ty));
    if (ty_is_float(n->ty))
        buf_fmt(b, "    u32 u = U32_OF(x + 0.0f);\n    u = x != x ? ~0u : %s(u >> 31 ? ~u : u | 0x80000000u);\n", turn);
    else
        buf_fmt(b, "    const u32 u = %s((u32)x%s);\n", turn, ty_is_signed(n->ty) ? " ^ 0x80000000u" : "");
    buf_str(b, "    return i < 0 ? 0 : (u64)u << 32 | (u32)~i;\n}\n");
}

static void f_unkey(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *turn = str_eq(n->to, "min") ? "~" : "";
    buf_fmt(b, FN "%s %s(u64 k) {\n    const u32 u = %s(u32)(k >> 32);\n", gpu_type(n->ty), n->all, turn);
    if (ty_is_float(n->ty))
        buf_fmt(b, "    return %su == ~0u ? NAN_F32 : F32_OF(u >> 31 ? u & 0x7fffffffu : ~u);\n}\n", turn);
    else
        buf_fmt(b, "    return (%s)(u%s);\n}\n", gpu_type(n->ty), ty_is_signed(n->ty) ? " ^ 0x80000000u" : "");
}

/* ---- lanes ---- */

static void f_shx(Pre *p, Buf *b, const Name *n) {
    const bool is_bool = n->ty == TY_BOOL;
    gpu_expr(p, b, gpu_type(n->ty), n->all, arena_printf(p->a, "%s x, i32 h, u32 who", gpu_type(n->ty)),
             is_bool ? "0 != __shfl_xor_sync(who, (i32)x, h)" : "__shfl_xor_sync(who, x, h)");
}

/* Of f32 by the integers that order as they do, a NaN beyond all; of keys the upper halves first. */
static void f_all(Pre *p, Buf *b, const Name *n) {
    const bool max = str_eq(n->family, "allmax");
    const char *how = max ? "max" : "min", *one = ty_is_signed(n->ty) || ty_is_float(n->ty) ? "s32" : "u32";
    (void)p;
    buf_fmt(b, FN "%s %s(%s x, u32 who) {\n", gpu_type(n->ty), n->all, gpu_type(n->ty));
    if (ty_is_float(n->ty))
        buf_fmt(b,
                "    i32 u = __float_as_int(x);\n    u = x != x ? %s : u ^ (u >> 31 & 0x7fffffff);\n    "
                "asm volatile(\"redux.sync.%s.s32 %%0, %%0, %%1;\" : \"+r\"(u) : \"r\"(who));\n    return "
                "__int_as_float(u ^ (u >> 31 & 0x7fffffff));\n}\n",
                max ? "0x7fffffff" : "(-2147483647 - 1)", how);
    else if (ty_bytes(n->ty) == 8)
        buf_fmt(
            b,
            "    u32 hi = (u32)(x >> 32), lo = (u32)x, top;\n    asm volatile(\"redux.sync.%s.u32 %%0, %%1, %%2;\" : "
            "\"=r\"(top) : \"r\"(hi), \"r\"(who));\n    lo = hi == top ? lo : %s;\n    "
            "asm volatile(\"redux.sync.%s.u32 %%0, %%0, %%1;\" : \"+r\"(lo) : \"r\"(who));\n    return (u64)top << 32 "
            "| "
            "lo;\n}\n",
            how, max ? "0u" : "~0u", how);
    else
        buf_fmt(b,
                "    asm volatile(\"redux.sync.%s.%s %%0, %%0, %%1;\" : \"+r\"(x) : \"r\"(who));\n    return x;\n}\n",
                how, one);
}

/* ---- storage: up_T from the bits of T to its compute type, dn_T back, pk_T two at once ---- */

static void f_up(Pre *p, Buf *b, const Name *n) {
    const char *from = ty_bytes(n->ty) == 8 ? "u64 x" : "u32 x", *to = gpu_type(ty_compute(n->ty));
    switch (n->ty) {
    case TY_BOOL: gpu_expr(p, b, to, n->all, from, "x != 0"); return;
    case TY_F32: gpu_expr(p, b, to, n->all, from, "__uint_as_float(x)"); return;
    case TY_F64: gpu_expr(p, b, to, n->all, from, "__longlong_as_double((i64)x)"); return;
    case TY_BF16: gpu_expr(p, b, to, n->all, from, "__uint_as_float(x << 16)"); return;
    case TY_F16:
        buf_fmt(b,
                FN "f32 %s(u32 x) { f32 r; asm(\"cvt.f32.f16 %%0, %%1;\" : \"=f\"(r) : \"h\"((u16)x)); return r; }\n",
                n->all);
        return;
    case TY_F8E4M3:
    case TY_F8E5M2: /* by f16, which holds them all */
        buf_fmt(b,
                FN "f32 %s(u32 x) {\n#if __CUDA_ARCH__ >= 890\n    u32 h;\n    asm(\"cvt.rn.f16x2.%s %%0, %%1;\" : "
                   "\"=r\"(h) : "
                   "\"h\"((u16)x));\n    return up_f16(h & "
                   "0xffffu);\n#else\n    return wid_%s(x);\n#endif\n}\n",
                n->all, n->ty == TY_F8E4M3 ? "e4m3x2" : "e5m2x2", ty_text(n->ty));
        return;
    default: gpu_expr(p, b, to, n->all, from, arena_printf(p->a, "(%s)x", ty_text(n->ty)));
    }
}

/* lo_bf16(w, z), hi_bf16(w, z): the half of a word, where z is 0 */
static void f_half(Pre *p, Buf *b, const Name *n) {
    gpu_expr(p, b, "f32", n->all, "u32 w, u32 z",
             arena_printf(p->a, "__uint_as_float(__byte_perm(w, z, 0x%s44))", str_eq(n->family, "lo") ? "10" : "32"));
}

static void f_dn(Pre *p, Buf *b, const Name *n) {
    const char *to = ty_bytes(n->ty) == 8 ? "u64" : "u32", *t = ty_text(n->ty);
    const char *from = arena_printf(p->a, "%s x", gpu_type(ty_compute(n->ty)));
    switch (n->ty) {
    case TY_BOOL: gpu_expr(p, b, to, n->all, from, "x"); return;
    case TY_F32: gpu_expr(p, b, to, n->all, from, "__float_as_uint(x)"); return;
    case TY_F64: gpu_expr(p, b, to, n->all, from, "__double_as_longlong(x)"); return;
    case TY_BF16:
    case TY_F16:
        buf_fmt(b, FN "u32 %s(f32 x) { u16 r; asm(\"cvt.rn.%s.f32 %%0, %%1;\" : \"=h\"(r) : \"f\"(x)); return r; }\n",
                n->all, t);
        return;
    case TY_F8E4M3:
    case TY_F8E5M2: gpu_expr(p, b, to, n->all, from, arena_printf(p->a, "pk_%s(x, 0.0f) & 0xffu", t)); return;
    default: /* short integers saturate */
        gpu_expr(p, b, to, n->all, from,
                 ty_compute(n->ty) == n->ty
                     ? "x"
                     : arena_printf(p->a, "(u32)cast_%s_%s(x) & 0x%xu", ty_text(ty_compute(n->ty)), t,
                                    ty_bytes(n->ty) == 1 ? 0xffu : 0xffffu));
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

/* ---- accesses ---- */

typedef struct Access {
    bool load, guarded, element, free;
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
                 {"plainnc", ".nc", false},
                 {"keepnc", ".nc.L1::evict_last.L2::cache_hint", true},
                 {"lastnc", ".nc.L1::evict_first.L2::cache_hint", true},
                 {"streamnc", ".cs.nc", false},
                 {"plainfree", ".nc", false},
                 {"keepfree", ".nc.L1::evict_last.L2::cache_hint", true},
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
            x->free = strstr(policy, "free") != NULL;
            return true;
        }
    return false;
}

/* The PTX of one access of 1, 2, 4, 8 or 16 bytes, from or to C variables var0, var1 ... (text of a 16-bit one: h). */
static void ptx(Buf *b, const Access *x, int bytes, const char *guard, const char *const *var, const char *at) {
    static const char *const form[] = {[1] = ".u8", [2] = ".u16", [4] = ".u32", [8] = ".v2.u32", [16] = ".v4.u32"};
    int words = bytes < 4 ? 1 : bytes / 4, op = 0;
    const char *c = bytes == 2 && !x->element ? "h" : "r"; /* an element's register takes more bits than it has */
    buf_fmt(b, "    asm%s(\"%s%s%s.global%s%s ", x->free ? "" : " volatile",
            guard ? "{ .reg .pred p; setp.ne.s32 p, " : "", guard ? arena_printf(b->a, "%%%d, 0; @p ", words + 1) : "",
            x->load ? "ld" : "st", x->policy, form[bytes]);
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
    static const char *const words[4] = {"w0", "w1", "w2", "w3"}, *const halves[4] = {"h"}, *const pair[4] = {"a", "b"},
                             *const one[4] = {"r"};
    if (x->element) { /* the bits of one element */
        const char *ty = x->bytes == 8 ? "u64" : "u32";
        buf_fmt(b, FN "%s %s(const void *p%s) {\n", ty, name, x->hint ? ", u64 hint" : "");
        buf_str(b, x->bytes == 8 ? "    u32 a, b;\n" : "    u32 r;\n");
        ptx(b, x, x->bytes, NULL, x->bytes == 8 ? pair : one, "p");
        buf_str(b, x->bytes == 8 ? "    return a | (u64)b << 32;\n}\n" : "    return r;\n}\n");
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

/* cpa16x2_keep ...: a copy from global into on-chip memory that copies_wait waits for. L1 keeps no copy of 16 bytes. */
static bool copy_make(Buf *b, const char *name) {
    int bytes, each, n = 0;
    char policy[8];
    /* NOLINTNEXTLINE(cert-err34-c): as above */
    if (sscanf(name, "cpa%dx%d_%7[a-z]%n", &bytes, &each, policy, &n) != 3 || name[n]) return false;
    bool keep = str_eq(policy, "keep");
    buf_fmt(b, FN "void %s(u32 s, const void *p%s) {\n#ifdef ROWFOLD_LOOSE\n    const char *q = (const char *)p;\n",
            name, keep ? ", u64 hint" : "");
    for (int i = 0; i < bytes; i += each)
        if (each == 8)
            buf_fmt(b, "    { const u64 t = lde8_plain(q + %d); sts8(s + %d, (u32)t, (u32)(t >> 32)); }\n", i, i);
        else
            buf_fmt(b, "    sts%d(s + %d, lde%d_plain(q + %d));\n", each, i, each, i);
    buf_fmt(b,
            "#else\n    asm volatile(\"cp.async.%s.shared.global%s [%%0], [%%1], %d%s;\" : : \"r\"(s), \"l\"(p)%s);\n"
            "#endif\n}\n",
            bytes == 16 ? "cg" : "ca", keep ? ".L2::cache_hint" : "", bytes, keep ? ", %2" : "",
            keep ? ", \"l\"(hint)" : "");
    return true;
}

/* ---- the table ---- */

static const Family own[] = {
    {"min", f_minmax, 0},   {"max", f_minmax, 0}, {"sqrt", f_libm, 0},   {"rsqrt", f_libm, 0}, {"exp", f_libm, 0},
    {"exp2", f_libm, 0},    {"log", f_libm, 0},   {"log2", f_libm, 0},   {"tanh", f_libm, 0},  {"erf", f_libm, 0},
    {"sigmoid", f_libm, 0}, {"pow", f_libm, 0},   {"ldexp", f_ldexp, 0}, {"shx", f_shx, 0},    {"key", f_key, 1},
    {"allmax", f_all, 0},   {"allmin", f_all, 0}, {"unkey", f_unkey, 1}, {"up", f_up, 0},      {"dn", f_dn, 0},
    {"pk", f_pk, 0},        {"lo", f_half, 0},    {"hi", f_half, 0},
};

static bool access_named(Buf *b, const char *word) {
    Access x = {0};
    int put = 0, n = 0;
    /* NOLINTBEGIN(cert-err34-c): as above */
    if (sscanf(word, "put%d%n", &put, &n) == 1 && !word[n]) {
        f_put(b, put);
        return true;
    }
    if ((sscanf(word, "lds%d%n", &put, &n) == 1 || sscanf(word, "sts%d%n", &put, &n) == 1) && !word[n]) {
        f_shared(b, word[0] == 'l', put);
        return true;
    }
    /* NOLINTEND(cert-err34-c) */
    if (copy_make(b, word)) return true;
    if (!access_read(word, &x)) return false;
    access_make(b, word, &x);
    return true;
}

/* Groups of a cluster: they say that they have started, wait for all to have, write into each other's memory and meet
 * (exchange=barrier). */
static const char barrier_text[] = FN
    "void cluster_arrive() { asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\"); }\n" FN
    "void cluster_wait() { asm volatile(\"barrier.cluster.wait.aligned;\" : : : \"memory\"); }\n" FN
    "void cluster_meet() { asm volatile(\"barrier.cluster.arrive.release.aligned;\\n\\tbarrier.cluster.wait.acquire."
    "aligned;\" : : : \"memory\"); }\n" FN
    "void cluster_send(u32 *at, i32 peer, u32 a, u32 b = 0, u32 c = 0, u32 d = 0) {\n    asm volatile(\"{ .reg .b32 r; "
    "mapa.shared::cluster.u32 r, %0, %1; st.shared::cluster.v4.u32 [r], {%2, %3, %4, %5}; }\" : : "
    "\"r\"((u32)__cvta_generic_to_shared(at)), \"r\"(peer), \"r\"(a), \"r\"(b), \"r\"(c), \"r\"(d) : \"memory\");\n}\n";
/* With exchange=bytes each write tells a barrier in that memory of its bytes; a group waits there until those of all
 * have come, without the fence and the way back of a barrier over the cluster. Two turns of memory and barrier are
 * enough: who sends the third has the second of all, which they sent after the first had come. */
static const char bytes_text[] =
    FN "void cluster_start(u64 *bar, i32 tid) {\n    if (tid == 0) {\n        const u32 at = "
       "(u32)__cvta_generic_to_shared(bar);\n        asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\\n\\t"
       "mbarrier.init.shared::cta.b64 [%0 + 8], 1;\\n\\tfence.mbarrier_init.release.cluster;\" : : \"r\"(at) : "
       "\"memory\");\n    }\n    asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" : : : \"memory\");\n}\n" FN
       "void cluster_wait() { asm volatile(\"barrier.cluster.wait.aligned;\" : : : \"memory\"); }\n" FN
       "void cluster_expect(u64 *bar, i32 bytes) { asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], "
       "%1;\" : "
       ": \"r\"((u32)__cvta_generic_to_shared(bar)), \"r\"(bytes) : \"memory\"); }\n" FN
       "void cluster_send(u32 *at, u64 *bar, i32 peer, u32 a, u32 b = 0, u32 c = 0, u32 d = 0) {\n    asm volatile(\"{ "
       ".reg "
       ".b32 r, m; mapa.shared::cluster.u32 r, %0, %2; mapa.shared::cluster.u32 m, %1, %2; "
       "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [r], {%3, %4, %5, %6}, [m]; }\" : : "
       "\"r\"((u32)__cvta_generic_to_shared(at)), \"r\"((u32)__cvta_generic_to_shared(bar)), \"r\"(peer), \"r\"(a), "
       "\"r\"(b), \"r\"(c), \"r\"(d) : \"memory\");\n}\n" FN
       "void cluster_meet(u64 *bar, i32 turn) {\n    u32 all;\n    do asm volatile(\"{ .reg .pred p; "
       "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }\" : \"=r\"(all) : "
       "\"r\"((u32)__cvta_generic_to_shared(bar)), \"r\"(turn) : \"memory\");\n    while (!all);\n}\n";
/* What a split leaves in device memory, and which of so many splits is the last to have done so: it sees what all have
 * left. The counter is then 0 again. */
static const char split_text[] = FN
    "void split_put(u64 *at, u64 x) { asm volatile(\"st.relaxed.gpu.global.u64 [%0], %1;\" : : \"l\"(at), \"l\"(x) : "
    "\"memory\"); }\n" FN
    "u64 split_get(const u64 *at) { u64 x; asm volatile(\"ld.relaxed.gpu.global.u64 %0, [%1];\" : "
    "\"=l\"(x) : \"l\"(at) : \"memory\"); return x; }\n" FN
    "u32 split_last(u64 *count, u32 splits) { u32 old; asm volatile(\"atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;\" "
    ": "
    "\"=r\"(old) : \"l\"(count), \"r\"(splits - 1) : \"memory\"); return old == splits - 1; }\n" FN
    "u32 shx_from(u32 x, i32 lane) { return __shfl_sync(~0u, x, lane); }\n";
/* The next launch may start as soon as all groups of this one have; what the one before left is there after the wait.
 */
static const char overlap_text[] =
    FN "void overlap_start() { asm volatile(\"griddepcontrol.launch_dependents;\"); }\n" FN
       "void overlap_wait() { asm volatile(\"griddepcontrol.wait;\" : : : \"memory\"); }\n";
/* A run of memory into the L2 cache, but for what is not whole pieces of 16 bytes at its ends. */
static const char fetch_text[] =
    "#define left_of(x, most) ((x) < (most) ? (x) : (most))\n" FN
    "void fetch_run(const void *p, i64 bytes) {\n    const u64 from = ((u64)p + 15) & ~15ull, to = ((u64)p + bytes) & "
    "~15ull;\n    if (from < to) asm volatile(\"cp.async.bulk.prefetch.L2.global [%0], %1;\" : : \"l\"(from), "
    "\"r\"((u32)(to - from)));\n}\n";
static const char copies_text[] =
    "#define copies_commit() asm volatile(\"cp.async.commit_group;\" : : : \"memory\")\n#define copies_wait(n) asm "
    "volatile(\"cp.async.wait_group %0;\" : : \"n\"(n) : \"memory\")\n";

void cuda_prelude(Emit *e, const char *body, Buf *out) {
    const bool bytes = e->k->plan.exchange == EXCHANGE_BYTES;
    buf_str(out, "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64; typedef float "
                 "f32; typedef double f64; typedef bool b1;\n"
                 "typedef unsigned char u8, bool8, f8e4m3, f8e5m2; typedef unsigned short u16, f16, bf16; typedef "
                 "unsigned int u32; typedef unsigned long long u64;\n"
                 "union slot { void *p; i64 i; f64 d; }; struct __align__(16) v4 { u32 x, y, z, w; };\n"
                 "#define FN static __device__ __forceinline__\n#define REF(t) t &\n"
                 "#define PLACE(x) (u32)__cvta_generic_to_shared(&(x))\n"
                 "#define F32_OF(x) __uint_as_float(x)\n#define U32_OF(x) __float_as_uint(x)\n"
                 "#define I32_OF(x) __float_as_int(x)\n#define F64_OF(x) __longlong_as_double(x)\n"
                 "#define I64_OF(x) __double_as_longlong(x)\n"
                 "#define NAN_F32 __int_as_float(0x7fc00000)\n#define INF_F32 __int_as_float(0x7f800000)\n"
                 "#define NAN_F64 __longlong_as_double(0x7ff8000000000000ll)\n#define INF_F64 "
                 "__longlong_as_double(0x7ff0000000000000ll)\n");
    buf_str(out, "#define PRAGMA(x) _Pragma(#x)\n#define UNROLL(n) PRAGMA(unroll n)\n");
    buf_str(out, "#define EXCHANGE(warps) i32 xi;"); /* what it holds is known only when all joins are emitted */
    if (e->slots)
        buf_fmt(out, " __shared__ __align__(16) %s xs[2][%d][warps]; i32 xb = 0;", e->wide_slots ? "u64" : "u32",
                e->slots);
    if (e->record)
        buf_fmt(out, " __shared__ __align__(16) u32 cs[2][%d][%d];%s", e->k->plan.cluster, (e->record + 3) / 4 * 4,
                bytes ? " __shared__ u64 cm[2]; i32 cb = 0, ct = 0;" : " i32 cb = 0;");
    buf_str(out, "\n");
    if (e->k->plan.load == LOAD_KEEP)
        buf_str(out, FN "u64 policy_hot() { u64 p; asm(\"createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\" : "
                        "\"=l\"(p)); return p; }\n" FN
                        "u64 policy_cold() { u64 p; asm(\"createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\" : "
                        "\"=l\"(p)); return p; }\n");
    if (e->k->plan.cluster > 1) buf_str(out, bytes ? bytes_text : barrier_text);
    if (e->k->plan.split > 1) buf_str(out, split_text);
    if (e->k->plan.overlap) buf_str(out, overlap_text);
    if (e->k->plan.overlap == OVERLAP_FETCH) buf_str(out, fetch_text);
    if (e->k->plan.stages) buf_str(out, copies_text);
    Pre p = {.a = e->cx->a,
             .out = out,
             .plan = &e->k->plan,
             .macros = true,
             .who = e->words->who,
             .own = own,
             .nown = COUNT(own),
             .access = access_named};
    gpu_prelude(&p, body);
}
