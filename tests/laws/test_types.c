/* Every storage type in and out: kernels that store each as each, held bit for bit against the conversions of
 * src/ir/num.c, over all values of types of 8 and 16 bits and over those of the larger ones where a rule changes. */
#include "field.h"

#include <math.h>
#include <string.h>

enum { WIDE = 1 << 16 };

static double scaled(int i) { /* both signs, all exponents of f64 now and then, many near the ends of the small types */
    uint64_t h = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 29;
    double m = 1 + (double)(h >> 12 & 0xFFFFF) / 0x100000;
    int e = i % 4 == 0 ? (int)(h % 2098) - 1074 : i % 4 == 1 ? (int)(h % 320) - 160 : (int)(h % 70) - 35;
    return ldexp(h >> 63 ? -m : m, e);
}

/* Values of ty: all of them where there are at most 65,536. Returns how many. */
static int values(Ty ty, void *at) {
    int bytes = ty_bytes(ty);
    if (ty == TY_BOOL) return put(ty, at, 0, 0), put(ty, at, 1, 1), 2;
    if (bytes == 1) {
        for (int i = 0; i < 256; i++) ((unsigned char *)at)[i] = (unsigned char)i;
        return 256;
    }
    if (bytes == 2) {
        for (int i = 0; i < WIDE; i++) ((uint16_t *)at)[i] = (uint16_t)i;
        return WIDE;
    }
    static const double ends[] = {0,
                                  -0.0,
                                  0.5,
                                  1.5,
                                  2.5,
                                  -0.5,
                                  -1.5,
                                  126.5,
                                  127.5,
                                  128,
                                  128.5,
                                  -128.5,
                                  -129,
                                  255.5,
                                  256,
                                  447,
                                  448,
                                  464,
                                  465,
                                  479,
                                  480,
                                  57343,
                                  57344,
                                  61440,
                                  61441,
                                  65503,
                                  65504,
                                  65519,
                                  65520,
                                  65535,
                                  65535.5,
                                  65536,
                                  32767.5,
                                  32768,
                                  -32768.5,
                                  -32769,
                                  2147483520.,
                                  2147483647.,
                                  2147483648.,
                                  -2147483648.,
                                  -2147483904.,
                                  4294967295.,
                                  4294967296.,
                                  9223372036854774784.,
                                  9223372036854775807.,
                                  -9223372036854775808.,
                                  18446744073709549568.,
                                  18446744073709551616.,
                                  1e30,
                                  -1e30,
                                  3.4028234e38,
                                  3.4028235677973366e38,
                                  3.4028236e38,
                                  1e300,
                                  5.9604645e-8,
                                  2.9802322e-8,
                                  2.98e-8,
                                  1.4e-45,
                                  7.1e-46,
                                  7e-46,
                                  0.001953125,
                                  0.0009765625,
                                  0.00098,
                                  1.52587890625e-5,
                                  7.62939453125e-6,
                                  7.7e-6,
                                  9.1835e-41,
                                  4.59e-41,
                                  4.6e-41,
                                  5e-324};
    int n = 0;
    for (; n < COUNT(ends) * 2; n++) put(ty, at, n, n % 2 ? -ends[n / 2] : ends[n / 2]);
    static const double more[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3 && ty_is_float(ty); i++) put(ty, at, n++, more[i]);
    for (int i = 0; i < 6000; i++) /* numbers, halves between those of f16, bf16 and f8, and any bits at all */
        if (i % 3 == 0)
            put(ty, at, n++, scaled(i));
        else {
            uint64_t h = (uint64_t)(i + 7) * 0xD1342543DE82EF95ull;
            h ^= h >> 31;
            if (i % 3 == 1) h &= ty == TY_F32 ? 0xFFFFF000u : ty == TY_F64 ? ~0xFFFFFFFFFull : ~0ull; /* ties */
            memcpy((char *)at + (int64_t)n++ * bytes, &h, (size_t)bytes);
        }
    return n;
}

/* One way to convert: all types that take it are outputs of one kernel, or compilers would be started four hundred
 * times. */
typedef struct Way {
    const char *pin;
    bool cast;
    Ty to[TY_COUNT];
    int n;
} Way;

/* What docs/language.md gives: the number in S's compute type, converted once. NaN by any NaN. */
static void check(Ty from, const Way *w, const void *x, int n) {
    enum { N = 251 };
    static char xs[2 * WIDE * 8], ys[TY_COUNT][2 * WIDE * 8];
    const int rows = (n + N - 1) / N;
    const char *outs = "", *body = "";
    rowfold_arg args[1 + TY_COUNT];
    if (!w->n) return;
    for (int i = 0; i < rows * N; i++)
        memcpy(xs + (int64_t)i * ty_bytes(from), (const char *)x + (int64_t)(i % n) * ty_bytes(from),
               (size_t)ty_bytes(from));
    args[0] = TENSOR(xs, rows, N);
    memset(ys, 0xA5, sizeof ys);
    for (int k = 0; k < w->n; k++) {
        const char *kept = ty_text(w->cast ? ty_compute(w->to[k]) : w->to[k]), *to = ty_text(w->to[k]);
        outs = field_text("%s, y%d: out %s[rows, n]", outs, k, kept);
        body = w->cast ? field_text("%s  y%d = %s(x)\n", body, k, to) : field_text("%s  y%d = x\n", body, k);
        args[1 + k] = TENSOR(ys[k], rows, N);
    }
    const char *text = field_text("kernel copy for rows (x: in %s[rows, n]%s) {\n%s}", ty_text(from), outs, body);
    field_run(field_kernel(text, NULL, "n=251", w->pin), args, 1 + w->n);
    for (int k = 0; k < w->n; k++) {
        const Ty to = w->to[k], kept = w->cast ? ty_compute(to) : to;
        for (int i = 0; i < rows * N; i++) {
            uint64_t want = 0;
            Num v = num_load(from, xs + (int64_t)i * ty_bytes(from));
            if (w->cast)
                num_store(kept, &want, num_cast(to, v, ty_compute(from)), ty_compute(to));
            else
                num_store(to, &want, v, ty_compute(from));
            if (!field_same(kept, ys[k] + (int64_t)i * ty_bytes(kept), &want, 1))
                fail_msg("%s%s of %s %.17g is %.17g, want %.17g (%s)", w->cast ? "cast to " : "", ty_text(to),
                         ty_text(from), num_f64(v, ty_compute(from)), get(kept, ys[k], i), get(kept, &want, 0), w->pin);
        }
    }
}

static void add(Way *w, Ty to) {
    w->to[w->n++] = to;
}

static void pairs_of(Ty from) {
    static char x[WIDE * 8];
    if (!field_has(from)) field_skip(ty_text(from), "it has no such type");
    const int n = values(from, x);
    Way way[] = {{.pin = "W=16"},
                 {.pin = "W=32"},
                 {.pin = "W=16,U=2"},
                 {.pin = "W=16,V=2"}, /* by packs: the gathering loads and scattering stores */
                 {.pin = "W=1", .cast = true}};
    for (int to = TY_BOOL; to < TY_COUNT; to++) {
        if (!field_has((Ty)to)) continue;
        add(&way[(from + to) % 3], (Ty)to);
        if ((from + to) % 5 == 0) add(&way[3], (Ty)to);
        if ((from + to) % 4 == 0) add(&way[4], (Ty)to);
    }
    for (int i = 0; i < COUNT(way); i++) check(from, &way[i], x, n);
}

#define PAIRS(name, ty)              \
    static void name(void **state) { \
        (void)state;                 \
        pairs_of(ty);                \
    }
PAIRS(from_bool, TY_BOOL)
PAIRS(from_i8, TY_I8)
PAIRS(from_i16, TY_I16)
PAIRS(from_i32, TY_I32)
PAIRS(from_i64, TY_I64)
PAIRS(from_u8, TY_U8)
PAIRS(from_u16, TY_U16)
PAIRS(from_u32, TY_U32)
PAIRS(from_u64, TY_U64)
PAIRS(from_f8e4m3, TY_F8E4M3)
PAIRS(from_f8e5m2, TY_F8E5M2)
PAIRS(from_f16, TY_F16)
PAIRS(from_bf16, TY_BF16)
PAIRS(from_f32, TY_F32)
PAIRS(from_f64, TY_F64)

/* ---- integers are exact, types mix ---- */

static void integer_sums(void **state) {
    (void)state;
    static const Ty types[] = {TY_BOOL, TY_I8, TY_U8, TY_I16, TY_U16, TY_I32, TY_U32, TY_I64, TY_U64};
    enum { N = 1025 };
    for (int t = 0; t < COUNT(types); t++) {
        Ty ty = types[t], kept = ty == TY_U32 || ty == TY_U64 ? TY_U64 : TY_I64;
        char *x = field_memory(2 * N * ty_bytes(ty));
        uint64_t *s = field_memory(16), want[2] = {0, 0};
        for (int i = 0; i < 2 * N; i++) { /* the largest of the type in row 0: sums leave it; any bits in row 1 */
            uint64_t h = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15ull, top = ty == TY_I64 ? INT64_MAX : ~0ull;
            if (ty == TY_BOOL) h = h >> 63, top = 1;
            if (ty == TY_I8 || ty == TY_I16 || ty == TY_I32) top = (1ull << (8 * ty_bytes(ty) - 1)) - 1;
            memcpy(x + (int64_t)i * ty_bytes(ty), i < N ? &top : &h, (size_t)ty_bytes(ty));
            Num v = num_load(ty, x + (int64_t)i * ty_bytes(ty));
            want[i / N] += ty == TY_BOOL ? v.b : v.u;
        }
        const char *text = field_text("kernel s for rows (x: in %s[rows, n], s: out %s[rows]) { s = sum(x) }",
                                      ty_text(ty), ty_text(kept));
        static const char *const pins[] = {"W=16,acc=4", "W=1", "W=96,V=2"};
        for (int p = 0; p < 3; p += t % 2 + 1) {
            RUN(field_kernel(text, NULL, "n=1025", pins[p]), TENSOR(x, 2, N), TENSOR(s, 2));
            assert_true(s[0] == want[0] && s[1] == want[1]);
        }
    }
}

static void mixed(void **state) {
    (void)state;
    const Ty wide = field_has(TY_F64) ? TY_F64 : TY_F32;
    const char *text = field_text(
        "kernel mix for rows (x: in bf16[rows, n], w: in f32[n], t: in i64[rows, n], keep: in bool[rows, n], d: in "
        "%s[n], y: out f16[rows, n], z: out %s[rows, n], s: out i32[rows]) {\n"
        "  g = where(keep, x[rows, t], 0)\n  y = g * w + x\n  z = g * d\n  s = sum(keep)\n}",
        ty_text(wide), ty_text(wide));
    enum { ROWS = 4, N = 67, ALL = ROWS * N };
    char *x = field_memory(ALL * 2), *y = field_memory(ALL * 2);
    float *w = field_memory(N * 4);
    void *d = field_tensor_memory(wide, N), *z = field_tensor_memory(wide, ALL);
    int64_t *t = field_memory(ALL * 8);
    unsigned char *keep = field_memory(ALL);
    int32_t *s = field_memory(ROWS * 4);
    field_fill(TY_BF16, x, ALL, u_at), field_fill(TY_F32, w, N, u_at), field_fill(wide, d, N, u_at);
    for (int i = 0; i < ALL; i++) t[i] = i * 31 % (N + 4) - 2, keep[i] = i % 3 != 0;
    for (int p = 0; p < field_nplans; p++) {
        rowfold_kernel *k = field_try(text, NULL, "n=67", field_plans[p]);
        if (!k) continue;
        RUN(k, TENSOR(x, ROWS, N), TENSOR(w, N), TENSOR(t, ROWS, N), TENSOR(keep, ROWS, N), TENSOR(d, N),
            TENSOR(y, ROWS, N), TENSOR(z, ROWS, N), TENSOR(s, ROWS));
        for (int i = 0; i < ALL; i++) {
            double g = !keep[i] ? 0 : t[i] >= 0 && t[i] < N ? get(TY_BF16, x, i / N * N + t[i]) : NAN;
            EXACT(get(wide, z, i), field_rounded(wide, g * get(wide, d, i % N)), "element %d", i);
            NEAR(TY_F16, get(TY_F16, y, i), g * (double)w[i % N] + get(TY_BF16, x, i), "element %d", i);
        }
    }
    /* bytes of a bool other than 0 and 1 are true */
    for (int i = 0; i < ALL; i++) keep[i] = (unsigned char)i;
    static const char count[] =
        "kernel c for rows (b: in bool[rows, n], c: out i64[rows], q: out bool[rows, n]) {\n  c = sum(b)\n  q = b\n}";
    int64_t *c = field_memory(8 * 1);
    unsigned char *q = field_memory(256);
    RUN(field_kernel(count, NULL, "n=256", "W=16"), TENSOR(keep, 1, 256), TENSOR(c, 1), TENSOR(q, 1, 256));
    assert_int_equal(c[0], 255);
    for (int i = 0; i < 256; i++) assert_int_equal(q[i], i != 0);
}

#define CASE(f) cmocka_unit_test_teardown(f, field_clean)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(from_bool), CASE(from_i8),  CASE(from_i16), CASE(from_i32),     CASE(from_i64),    CASE(from_u8),
        CASE(from_u16),  CASE(from_u32), CASE(from_u64), CASE(from_f8e4m3),  CASE(from_f8e5m2), CASE(from_f16),
        CASE(from_bf16), CASE(from_f32), CASE(from_f64), CASE(integer_sums), CASE(mixed)};
    return cmocka_run_group_tests(tests, field_open, field_close);
}
