/* The functions that units for GPUs call and that all their dialects spell alike, made when a unit's text names them. A
 * name is family_type: max_f32, cast_f32_bf16. What a dialect has of its own is looked for first. The text is in the
 * words of C and these, which a dialect defines: FN before a function, REF(t) a reference to a variable of a thread,
 * F32_OF I32_OF U32_OF F64_OF I64_OF the same bits in another type. */
#include "gpugen.h"

#include <ctype.h>
#include <string.h>

#define FN "FN "

static bool is_f(Ty t) {
    return ty_is_float(t);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The expression with each parameter, "f32 x, i32 y", as an argument of its type; NULL where one stands twice. */
static const char *as_macro(Pre *p, const char *params, const char *expr) {
    Buf b = buf_new(p->a);
    uint32_t seen = 0;
    for (const char *c = expr; *c;) {
        size_t n = 0;
        while (is_word(c[n])) n++;
        const char *type = params;
        int i = 0;
        for (; n && *type; i++) {
            const size_t t = strcspn(type, " "), m = strcspn(type + t + 1, ",");
            if (m == n && memcmp(type + t + 1, c, n) == 0) {
                if (seen >> i & 1) return NULL;
                seen |= 1u << i;
                buf_fmt(&b, "((%.*s)(%.*s))", (int)t, type, (int)n, c);
                break;
            }
            type += t + 1 + m;
            type += strspn(type, ", ");
        }
        if (!n || !*type) buf_put(&b, c, n ? n : 1);
        c += n ? n : 1;
    }
    return b.s;
}

/* "f32 x, i32 y" -> "x, y" */
static const char *names_of(Pre *p, const char *params) {
    Buf b = buf_new(p->a);
    while (*params) {
        params += strcspn(params, " ") + 1;
        const size_t m = strcspn(params, " ");
        buf_put(&b, params, m);
        params += m;
        if (*params) buf_put(&b, params++, 1);
    }
    return b.s;
}

void gpu_expr(Pre *p, Buf *b, const char *ret, const char *name, const char *params, const char *expr) {
    const char *macro = p->macros ? as_macro(p, params, expr) : NULL;
    if (macro)
        buf_fmt(b, "#define %s(%s) ((%s)(%s))\n", name, names_of(p, params), ret, macro);
    else
        buf_fmt(b, FN "%s %s(%s) { return %s; }\n", ret, name, params, expr);
}

void gpu_unary(Pre *p, Buf *b, const Name *n, const char *expr) {
    const char *t = gpu_type(n->ty);
    gpu_expr(p, b, t, n->all, arena_printf(p->a, "%s x", t), expr);
}
void gpu_binary(Pre *p, Buf *b, const Name *n, const char *expr) {
    const char *t = gpu_type(n->ty);
    gpu_expr(p, b, t, n->all, arena_printf(p->a, "%s x, %s y", t, t), expr);
}

/* ---- arithmetic ---- */

/* Signed integers wrap, which C++ leaves open: unsigned ones do it. */
static const char *wrapping(Pre *p, Ty t, const char *sign) {
    if (!ty_is_signed(t) || !ty_is_int(t)) return arena_printf(p->a, "x %s y", sign);
    const char *u = ty_bytes(t) == 8 ? "u64" : "u32";
    return arena_printf(p->a, "(%s)((%s)x %s (%s)y)", ty_text(t), u, sign, u);
}

/* ---- arithmetic ---- */

static void f_add(Pre *p, Buf *b, const Name *n) {
    gpu_binary(p, b, n, wrapping(p, n->ty, str_eq(n->family, "add") ? "+" : str_eq(n->family, "sub") ? "-" : "*"));
}

static void f_div(Pre *p, Buf *b, const Name *n) {
    bool mod = str_eq(n->family, "mod");
    (void)p;
    if (is_f(n->ty))
        gpu_binary(p, b, n, "x / y");
    else if (ty_is_signed(n->ty))
        gpu_binary(p, b, n,
                   mod                    ? "y == 0 || y == -1 ? 0 : x % y"
                   : ty_bytes(n->ty) == 8 ? "y == 0 ? 0 : y == -1 ? (i64)(0 - (u64)x) : x / y"
                                          : "y == 0 ? 0 : y == -1 ? (i32)(0 - (u32)x) : x / y");
    else
        gpu_binary(p, b, n, mod ? "y ? x % y : 0" : "y ? x / y : 0");
}

static void f_neg(Pre *p, Buf *b, const Name *n) {
    (void)p;
    gpu_unary(p, b, n, is_f(n->ty) ? "-x" : ty_bytes(n->ty) == 8 ? "(i64)(0 - (u64)x)" : "(i32)(0 - (u32)x)");
}

static void f_abs(Pre *p, Buf *b, const Name *n) {
    (void)p;
    gpu_unary(p, b, n,
              n->ty == TY_F32        ? "fabsf(x)"
              : n->ty == TY_F64      ? "fabs(x)"
              : !ty_is_signed(n->ty) ? "x"
              : ty_bytes(n->ty) == 8 ? "x < 0 ? (i64)(0 - (u64)x) : x"
                                     : "x < 0 ? (i32)(0 - (u32)x) : x");
}

static void f_round(Pre *p, Buf *b, const Name *n) {
    bool down = str_eq(n->family, "floor");
    gpu_unary(p, b, n,
              !is_f(n->ty) ? "x" : arena_printf(p->a, "%s%s(x)", down ? "floor" : "rint", n->ty == TY_F32 ? "f" : ""));
}

static void f_fma(Pre *p, Buf *b, const Name *n) {
    const char *t = gpu_type(n->ty);
    gpu_expr(p, b, t, n->all, arena_printf(p->a, "%s x, %s y, %s z", t, t, t),
             n->ty == TY_F32 ? "fmaf(x, y, z)" : "fma(x, y, z)");
}

static void f_clamp(Pre *p, Buf *b, const Name *n) {
    (void)p;
    gpu_binary(p, b, n, str_eq(n->family, "atmost") ? "x > y ? y : x" : "x < y ? y : x");
}

/* ---- comparison, choice, bits ---- */

static void f_cmp(Pre *p, Buf *b, const Name *n) {
    static const char *const op[][2] = {{"lt", "<"},  {"le", "<="}, {"gt", ">"},
                                        {"ge", ">="}, {"eq", "=="}, {"ne", "!="}};
    int k = 0;
    while (!str_eq(op[k][0], n->family)) k++;
    gpu_expr(p, b, "b1", n->all, arena_printf(p->a, "%s x, %s y", gpu_type(n->ty), gpu_type(n->ty)),
             arena_printf(p->a, "x %s y", op[k][1]));
}

static void f_not(Pre *p, Buf *b, const Name *n) {
    (void)p;
    gpu_unary(p, b, n, "!x");
}

static void f_sel(Pre *p, Buf *b, const Name *n) {
    const char *t = gpu_type(n->ty);
    gpu_expr(p, b, t, n->all, arena_printf(p->a, "b1 c, %s x, %s y", t, t), "c ? x : y");
}

static void f_shift(Pre *p, Buf *b, const Name *n) {
    bool left = str_eq(n->family, "shl");
    int mask = ty_bytes(n->ty) * 8 - 1;
    gpu_binary(p, b, n,
               left ? arena_printf(p->a, "(%s)((%s)x << (y & %d))", gpu_type(n->ty),
                                   ty_bytes(n->ty) == 8 ? "u64" : "u32", mask)
                    : arena_printf(p->a, "x >> (y & %d)", mask));
}

static void f_bits(Pre *p, Buf *b, const Name *n) {
    gpu_expr(p, b, gpu_type(n->ty), n->all,
             n->ty == TY_F32   ? "i32 x"
             : n->ty == TY_F64 ? "i64 x"
             : n->ty == TY_I64 ? "f64 x"
                               : "f32 x",
             n->ty == TY_F32   ? "F32_OF(x)"
             : n->ty == TY_F64 ? "F64_OF(x)"
             : n->ty == TY_I64 ? "I64_OF(x)"
                               : "I32_OF(x)");
}

/* beats_op_T(x, i, y, j): does element i with value x win over j with y? NaN beats all, the lower index wins a tie,
 * j < 0 is none yet. */
static void f_beats(Pre *p, Buf *b, const Name *n) {
    (void)p;
    const char *t = gpu_type(n->ty);
    char c = str_eq(n->to, "max") ? '>' : '<';
    buf_fmt(b, FN "b1 %s(%s x, i64 i, %s y, i64 j) {\n    if (i < 0 || j < 0) return i >= 0;\n", n->all, t, t);
    if (is_f(n->ty)) buf_str(b, "    if (x != x || y != y) return x != x && (y == y || i < j);\n");
    buf_fmt(b, "    return x %c y || (x == y && i < j);\n}\n", c);
}

/* ---- lanes ---- */

static void f_meet(Pre *p, Buf *b, const Name *n) {
    const char *who = p->who[0] ? ", who" : "", *t = gpu_type(n->ty), *s = ty_text(n->ty);
    buf_fmt(b,
            FN "void %s(REF(%s) x, REF(i64) i, i32 h%s) {\n    const %s y = shx_%s(x, h%s);\n    const i64 j = "
               "shx_i64(i, h%s);\n"
               "    if (beats_%s_%s(y, j, x, i)) x = y, i = j;\n}\n",
            n->all, t, p->who[0] ? ", u32 who" : "", t, s, who, who, n->to, s);
}

static void f_xput(Pre *p, Buf *b, const Name *n) {
    gpu_expr(p, b, "u64", n->all, arena_printf(p->a, "%s x", gpu_type(n->ty)),
             n->ty == TY_F32   ? "U32_OF(x)"
             : n->ty == TY_F64 ? "(u64)I64_OF(x)"
                               : "(u64)x");
}

static void f_xget(Pre *p, Buf *b, const Name *n) {
    gpu_expr(p, b, gpu_type(n->ty), n->all, "u64 x",
             n->ty == TY_F32   ? "F32_OF((u32)x)"
             : n->ty == TY_F64 ? "F64_OF((i64)x)"
                               : arena_printf(p->a, "(%s)x", gpu_type(n->ty)));
}

/* f8 in integer arithmetic, for devices without the instructions. As num_to_f8 and num_from_f8. */
static void f_nar(Pre *p, Buf *b, const Name *n) {
    bool e4 = n->ty == TY_F8E4M3;
    int e = e4 ? 4 : 5, m = e4 ? 3 : 2, emin = 2 - (1 << (e - 1));
    unsigned max = e4 ? 0x7E : 0x7B, nan = e4 ? 0x7F : 0x7E;
    (void)p;
    buf_fmt(b, FN "u32 %s(f32 x) {\n    const u32 u = U32_OF(x), a = u & 0x7fffffffu, sign = u >> 31 << %d;\n", n->all,
            e + m);
    buf_fmt(b, "    const i32 ex = a >> 23 ? (i32)(a >> 23) - 127 : -126;\n    const u32 mant = (a & 0x7fffffu) | (a "
               ">> 23 ? 0x800000u : 0u);\n");
    buf_fmt(b, "    i32 shift = %d + (ex < %d ? %d - ex : 0);\n    shift = shift > 25 ? 25 : shift;\n", 23 - m, emin,
            emin);
    buf_str(b, "    u32 kept = mant >> shift;\n    const u32 rest = mant & ((1u << shift) - 1), mid = 1u << (shift - "
               "1);\n    kept += rest > mid || "
               "(rest == mid && (kept & 1));\n");
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
    buf_fmt(b, "    if (%s) return F32_OF(s | %s);\n", e4 ? "code == 127" : "field == 31",
            e4 ? "0x7fc00000u" : "(man ? 0x7fc00000u : 0x7f800000u)");
    buf_fmt(b, "    if (field) return F32_OF(s | (field + %d) << 23 | man << %d);\n", 127 - bias, 23 - m);
    buf_fmt(b, "    return F32_OF(s | U32_OF((f32)man * F32_OF(0x%xu)));\n}\n", (unsigned)(127 + 1 - bias - m) << 23);
}

/* odd_T: to f32, rounded to odd, so that a second rounding to a short format is the only one that counts */
static void f_odd(Pre *p, Buf *b, const Name *n) {
    (void)p;
    buf_fmt(b, FN "f32 %s(%s x) {\n", n->all, gpu_type(n->ty));
    if (n->ty == TY_F32)
        buf_str(b, "    return x;\n}\n");
    else if (n->ty == TY_BOOL)
        buf_str(b, "    return x ? 1.0f : 0.0f;\n}\n");
    else if (n->ty == TY_F64)
        buf_str(b, "    const f32 f = (f32)x;\n    if ((f64)f == x || x != x) return f;\n    return "
                   "F32_OF((U32_OF(f) - "
                   "(fabs((f64)f) > fabs(x) ? 1u : 0u)) | 1u);\n}\n");
    else if (ty_bytes(n->ty) < 8)
        buf_str(b, "    return odd_f64((f64)x);\n}\n");
    else {
        bool s = ty_is_signed(n->ty);
        buf_fmt(b, "    u64 u = %s;\n    f64 d = (f64)u;\n", s ? "x < 0 ? 0 - (u64)x : (u64)x" : "x");
        buf_fmt(b,
                "    if (!(d < 0x1p64 && (u64)d == u)) {\n        const u64 above = d >= 0x1p64 || (u64)d > u;\n"
                "        d = F64_OF((i64)(((u64)I64_OF(d) - above) | 1));\n    }\n    "
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
    buf_fmt(b, FN "%s %s(%s x) { ", gpu_type(r), n->all, gpu_type(from));
    if (to == TY_BOOL)
        buf_str(b, "return x != 0; }\n");
    else if (to == TY_F32 || to == TY_F64)
        buf_fmt(b, "return (%s)x; }\n", gpu_type(to));
    else if (is_f(to))
        buf_fmt(b, "return up_%s(dn_%s(odd_%s(x))); }\n", n->to, n->to, ty_text(from));
    else if (is_f(from))
        buf_fmt(b, "x = rint%s(x); return x != x ? 0 : x <= (%s)%s ? %s : x >= (%s)%s ? %s : (%s)x; }\n",
                from == TY_F32 ? "f" : "", gpu_type(from), lo, lo, gpu_type(from), hi, hi, gpu_type(r));
    else if (from == TY_BOOL)
        buf_str(b, "return x; }\n");
    else if (ty_is_signed(from) && !ty_is_signed(to))
        buf_fmt(b, "return x < 0 ? 0 : (u64)x > %s ? %s : (%s)x; }\n", hi, hi, gpu_type(r));
    else if (ty_is_signed(from))
        buf_fmt(b, "return (i64)x < %s ? %s : (i64)x > %s ? %s : (%s)x; }\n", lo, lo, hi, hi, gpu_type(r));
    else
        buf_fmt(b, "return (u64)x > (u64)%s ? %s : (%s)x; }\n", hi, hi, gpu_type(r));
}

/* ---- the table ---- */

static const Family common[] = {
    {"add", f_add, 0},       {"sub", f_add, 0},   {"mul", f_add, 0},     {"div", f_div, 0},     {"mod", f_div, 0},
    {"neg", f_neg, 0},       {"abs", f_abs, 0},   {"floor", f_round, 0}, {"round", f_round, 0}, {"fma", f_fma, 0},
    {"lt", f_cmp, 0},        {"le", f_cmp, 0},    {"gt", f_cmp, 0},      {"ge", f_cmp, 0},      {"eq", f_cmp, 0},
    {"ne", f_cmp, 0},        {"not", f_not, 0},   {"sel", f_sel, 0},     {"shl", f_shift, 0},   {"shr", f_shift, 0},
    {"bits", f_bits, 0},     {"cast", f_cast, 0}, {"odd", f_odd, 0},     {"nar", f_nar, 0},     {"wid", f_wid, 0},
    {"xput", f_xput, 0},     {"xget", f_xget, 0}, {"beats", f_beats, 1}, {"meet", f_meet, 1},   {"atmost", f_clamp, 0},
    {"atleast", f_clamp, 0},
};

/* Is the word family_type, or family_op_type, of the family? */
static bool name_read(Pre *p, const Family *f, const char *word, Name *out) {
    size_t n = strlen(f->name);
    if (strncmp(f->name, word, n) != 0 || word[n] != '_') return false;
    char *rest = arena_printf(p->a, "%s", word + n + 1), *second = strchr(rest, '_');
    *out = (Name){.all = word, .family = f->name};
    if (second) *second++ = 0;
    const char *type = f->pair ? second : rest;
    out->to = f->pair ? rest : second;
    return type && ty_find(type, strlen(type), &out->ty);
}

static void make(Pre *p, const char *word, Buf *b) {
    Name name;
    if (p->access(b, word)) return;
    for (int i = 0; i < p->nown + COUNT(common); i++) {
        const Family *f = i < p->nown ? &p->own[i] : &common[i - p->nown];
        if (!name_read(p, f, word, &name)) continue;
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

void gpu_prelude(Pre *p, const char *body) {
    need_all(p, body);
}
