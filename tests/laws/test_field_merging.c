/* Field cases about numbers where parts of a row meet: FO-41 and FO-44 to FO-46: masks that leave a lane nothing,
 * counts beyond the element type, online maxima and partial variances of which some are empty. */
#include "field.h"

#include <math.h>
#include <string.h>

#define LAYERNORM "layernorm.row:layernorm"
#define SOFTMAX "softmax.row:softmax"

/* ---- FO-41 ---- */

static void causal(int q, int n, bool bottom) {
    static const char corner[] =
        "kernel causal for i (x: in f32[i, n], y: out f32[i, n], down: i64 = 0) {\n"
        "  z = where(idx(n) <= idx(i) + down, x, -inf)\n  e = exp(z - max(z))\n  y = e / sum(e)\n}";
    float *x = field_memory((int64_t)q * n * 4), *y = field_memory((int64_t)q * n * 4);
    memset(x, 0, (size_t)(q * n) * 4);
    int down = bottom ? n - q : 0;
    EACH_PLAN(k, corner, NULL, field_text("n=%d", n)) {
        RUN(k, TENSOR(x, q, n), TENSOR(y, q, n), SCALAR(down));
        for (int i = 0; i < q; i++)
            for (int j = 0; j < n; j++) {
                int seen = i + down + 1 < n ? i + down + 1 : n;
                double want = seen <= 0 ? NAN : j < seen ? 1.0 / seen : 0;
                if (want == 0)
                    EXACT(y[i * n + j], 0, "masked");
                else
                    NEAR(TY_F32, y[i * n + j], want, "(%d, %d) row %d element %d", q, n, i, j);
            }
    }
}

static void FO_41(void **state) {
    (void)state;
    static const int shapes[4][2] = {{2, 5}, {5, 2}, {3, 128}, {5, 5}};
    for (int i = 0; i < 4; i++) causal(shapes[i][0], shapes[i][1], true), causal(shapes[i][0], shapes[i][1], false);
    float *x = field_memory(100), *y = field_memory(100); /* the library's own: top left, equal lengths */
    memset(x, 0, 100);
    RUN(field_kernel("softmax.row:causal_softmax", "f32", "n=5", NULL), TENSOR(x, 1, 5, 5), TENSOR(y, 1, 5, 5),
        SCALAR(1));
    for (int i = 0; i < 25; i++) NEAR(TY_F32, y[i], i % 5 <= i / 5 ? 1.0 / (i / 5 + 1) : 0, "element %d", i);
}

/* ---- FO-44 ---- */

static void FO_44(void **state) {
    (void)state;
    enum { MOST = 70000 };
    static const int sizes[] = {65504, 65520, 65536, MOST};
    static const char moments[] =
        "kernel m for rows (x: in T[rows, n], m: out T[rows], v: out T[rows], d: out T[rows], w: out f32[rows]) {\n"
        "  m = mean(x)\n  v = var(x)\n  d = sqrt(var(x))\n  w = mean(x)\n}";
    for (int t = 0; t < 2; t++) {
        Ty ty = t ? TY_BF16 : TY_F16;
        void *x = field_memory(2 * 2 * MOST), *m = field_memory(4), *v = field_memory(4), *d = field_memory(4),
             *y = field_memory(4 * MOST), *g = field_memory(2 * MOST), *b = field_memory(2 * MOST);
        float *w = field_memory(8);
        for (int i = 0; i < COUNT(sizes); i++) {
            int n = sizes[i];
            static const char *const pins[] = {"W=64", "W=32,V=2,stat=welford", "W=64,stat=shifted,acc=2", "W=96,V=2"};
            rowfold_kernel *k = field_kernel(moments, ty_text(ty), field_text("n=%d", n), pins[i]);
            for (int j = 0; j < 2 * n; j++) put(ty, x, j, j < n ? 1 : u_at(j - n));
            double mean = 0, var = 0;
            for (int j = 0; j < n; j++) mean += get(ty, x, n + j);
            mean /= n;
            for (int j = 0; j < n; j++) var += (get(ty, x, n + j) - mean) * (get(ty, x, n + j) - mean);
            var /= n;
            if (t == 0 && n == 65536)
                NEAR(TY_F32, mean, 0.50151027, "the case's own mean"), NEAR(TY_F32, var, 0.083189362, "its variance");
            if (t == 0 && n == 70000)
                NEAR(TY_F32, mean, 0.50187443, "the case's own mean"), NEAR(TY_F32, var, 0.083079616, "its variance");
            RUN(k, TENSOR(x, 2, n), TENSOR(m, 2), TENSOR(v, 2), TENSOR(d, 2), TENSOR(w, 2));
            EXACT(get(ty, m, 0), 1, "mean of ones");
            EXACT(get(ty, v, 0), 0, "variance of ones");
            EXACT(get(ty, d, 0), 0, "deviation of ones");
            NEAR(ty, get(ty, m, 1), mean, "mean, %d of %s", n, ty_text(ty));
            NEAR(ty, get(ty, v, 1), var, "variance, %d of %s", n, ty_text(ty));
            NEAR(ty, get(ty, d, 1), sqrt(var), "deviation, %d of %s", n, ty_text(ty));
            NEAR(TY_F32, w[1], mean, "mean in f32");
            if (i % 3 && t == 0) continue;
            field_fill(ty, g, n, one_at), field_fill(ty, b, n, zero_at);
            rowfold_kernel *l = field_kernel(LAYERNORM, ty_text(ty), field_text("n=%d", n), pins[i]);
            RUN(l, TENSOR(x, 2, n), TENSOR(g, n), TENSOR(b, n), TENSOR(y, 2, n), SCALAR(1e-5));
            for (int j = 0; j < n; j += 997) {
                EXACT(get(ty, y, j), 0, "layernorm of ones");
                NEAR(ty, get(ty, y, n + j), (get(ty, x, n + j) - mean) / sqrt(var + 1e-5), "layernorm element %d", j);
            }
        }
    }
}

/* ---- FO-45 ---- */

static const char family[] =
    "kernel family for rows (x: in T[rows, n], y: out T[rows, n], z: out T[rows, n], l: out f32[rows]) {\n"
    "  m = max(x)\n  e = exp(x - m)\n  y = e / sum(e)\n  c = x - m\n  z = c - log(sum(exp(c)))\n  l = logsumexp(x)\n}";

static void online(Ty ty, int n, const char *pin, int kind) {
    void *x = field_tensor_memory(ty, n), *y = field_tensor_memory(ty, n), *z = field_tensor_memory(ty, n);
    float *l = field_memory(4);
    rowfold_kernel *k = field_kernel(family, ty_text(ty), field_text("n=%d", n), pin);
    int at[3] = {0, n / 2, n - 1};
    for (int p = 0; p < (kind == 'b' ? 3 : 1); p++) {
        for (int j = 0; j < n; j++)
            put(ty, x, j, kind == 'a' ? 0 : kind == 'b' ? (j == at[p] ? 0 : -INFINITY) : j < n / 2 ? -INFINITY : 0);
        if (kind == 'd') put(ty, x, n / 2 + n / 4, NAN);
        int some = kind == 'a' ? n : kind == 'b' ? 1 : n - n / 2;
        LAUNCH(k, TENSOR(x, 1, n), TENSOR(y, 1, n), TENSOR(z, 1, n), TENSOR(l, 1));
        NEAR(TY_F32, l[0], kind == 'd' ? NAN : log(some), "logsumexp %c n %d %s", kind, n, pin);
        for (int j = 0; j < n; j++) {
            bool in = isfinite(get(ty, x, j));
            double want = kind == 'd' ? NAN
                          : in        ? field_rounded(ty, 1.0 / some)
                                      : 0,
                   wantl = kind == 'd' ? NAN
                           : in        ? -log(some)
                                       : -INFINITY;
            if (kind == 'b' || !in)
                EXACT(get(ty, y, j), want, "softmax %c n %d element %d %s", kind, n, j, pin);
            else
                NEAR(ty, get(ty, y, j), want, "softmax %c n %d element %d %s", kind, n, j, pin);
            NEAR(ty, get(ty, z, j), wantl, "log_softmax %c n %d element %d %s", kind, n, j, pin);
        }
    }
}

static void FO_45(void **state) {
    (void)state;
    static const int small[] = {1, 2, 3, 15, 16, 17, 65, 511, 1025, 2100};
    static const char *const pins[] = {"W=512,stat=online", "W=16,stat=online,V=4", "W=64,stat=online",
                                       "W=1,stat=online,V=2"};
    for (int i = 0; i < COUNT(small); i++) online(i % 3 ? TY_F32 : TY_BF16, small[i], pins[i % 2 ? 0 : i / 2 % 4], 'a');
    static const int large[] = {1000, 4096, 131072};
    for (int i = 0; i < COUNT(large); i++)
        for (const char *kind = "bcd"; *kind; kind++) {
            if (field_slow() && large[i] > 10000) continue;
            online(TY_F32, large[i], pins[i], *kind);
            online(TY_BF16, large[i], pins[(i + 1) % 3], *kind);
        }
    for (const char *kind = "abcd"; *kind; kind++)
        online(TY_F32, 1000, pins[3], *kind), online(TY_F32, 1000, "W=64,fuse=off", *kind);
}

/* ---- FO-46 ---- */

static void FO_46(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 31, 33, 1000};
    static const double first[] = {0, -0.9999800, -1.2247357, -1.6770509, -1.6803360, -1.7303196};
    static const char *const pins[] = {
        "W=2,stat=welford",    "W=32,stat=welford,V=2", "W=256,stat=welford",  "W=64,stat=welford,V=4",
        "W=1024,stat=welford", "W=256,stat=shifted",    "W=1024,stat=shifted", "W=256"};
    static const char both[] =
        "kernel both for rows (x: in T[rows, n], y: out T[rows, n], v: out T[rows], eps: f32 = 1e-5) {\n"
        "  c = x - mean(x)\n  y = c * rsqrt(mean(c * c) + eps)\n  v = var(x)\n}";
    for (int i = 0; i < COUNT(sizes); i++)
        for (int p = i % 2; p < COUNT(pins); p += i < 4 ? 2 : 1) {
            Ty ty = p % 2 ? TY_F64 : TY_F32;
            int n = sizes[i];
            if (!field_has(ty)) continue;
            if (strstr(pins[p], "1024") && n != 33) continue; /* text in proportion to the lanes: long to compile */
            void *x = field_tensor_memory(ty, n), *y = field_tensor_memory(ty, n), *v = field_tensor_memory(ty, 1);
            for (int j = 0; j < n; j++) put(ty, x, j, j);
            /* a GPU has no packs of four f64 */
            rowfold_kernel *k =
                (field_far() ? field_try : field_kernel)(both, ty_text(ty), field_text("n=%d", n), pins[p]);
            if (!k) continue;
            RUN(k, TENSOR(x, 1, n), TENSOR(y, 1, n), TENSOR(v, 1), SCALAR(1e-5));
            NEAR(TY_F32, get(ty, v, 0), ((double)n * n - 1) / 12, "variance of %d, %s", n, pins[p]);
            NEAR(TY_F32, get(ty, y, 0), first[i], "first of %d, %s", n, pins[p]);
            NEAR(TY_F32, get(ty, y, n - 1), -first[i], "last of %d, %s", n, pins[p]);
        }
}

#define CASE(f) cmocka_unit_test_teardown(f, field_clean)
int main(void) {
    const struct CMUnitTest tests[] = {CASE(FO_41), CASE(FO_44), CASE(FO_45), CASE(FO_46)};
    return cmocka_run_group_tests(tests, field_open, field_close);
}
