/* Field cases about sizes, strides and alignment: FO-18 to FO-24, FO-40, FO-42, FO-48 to FO-50. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SOFTMAX "softmax.row:softmax"
#define LOG_SOFTMAX "softmax.row:log_softmax"
#define LAYERNORM "layernorm.row:layernorm"
#define RMSNORM "rmsnorm.row:rmsnorm"
#define RMS_PLAIN "rmsnorm.row:rmsnorm_plain"
static const char moments[] =
    "kernel moments for rows (x: in T[rows, n], s: out f32[rows], hi: out f32[rows]) { s = sum(x); hi = max(x) }";

/* Address space that costs memory only where it is written; NULL where the system gives none. */
static void *wide_memory(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* ---- FO-18 ---- */

static void widths(Ty ty, int n, const char *pin) {
    void *x = field_tensor_memory(ty, 2 * n), *y = field_tensor_memory(ty, 2 * n), *one = field_tensor_memory(ty, n);
    rowfold_kernel *k = (field_far() ? field_try : field_kernel)(SOFTMAX, ty_text(ty), field_text("n=%d", n), pin);
    if (!k) return; /* a GPU's registers do not hold every row */
    field_fill(ty, x, 2 * n, zero_at);
    RUN(k, TENSOR(x, 2, n), TENSOR(y, 2, n));
    double sum[2] = {0, 0};
    for (int i = 0; i < 2 * n; i++) {
        NEAR(ty, get(ty, y, i), 1.0 / n, "zeros, n %d", n);
        sum[i / n] += get(ty, y, i);
    }
    for (int r = 0; r < 2 && ty == TY_F64; r++) NEAR(ty, sum[r], 1, "sum of row %d, n %d", r, n);
    field_fill(ty, x, 2 * n, u_at);
    RUN(k, TENSOR(x, 2, n), TENSOR(y, 2, n));
    for (int r = 0; r < 2; r++) {
        const char *from = (const char *)x + (int64_t)r * n * ty_bytes(ty);
        LAUNCH(k, TENSOR(from, 1, n), TENSOR(one, 1, n));
        assert_true(field_same(ty, (const char *)y + (int64_t)r * n * ty_bytes(ty), one, n));
    }
}

static void FO_18(void **state) {
    (void)state;
    /* the widths reported, both sides of every power of two and of every register, then some of all */
    static const int special[] = {1, 2, 7, 16, 17, 31, 33, 65, 127, 513, 781, 1021, 1025, 4095, 4096};
    static const char *const pins[] = {"W=16", "W=32,V=2", "W=16,hold.x=register", "W=64,V=1,fuse=off"};
    const Ty wide = field_has(TY_F64) ? TY_F64 : TY_F32;
    for (int i = 0; i < COUNT(special); i++) widths(wide, special[i], pins[i % 4]);
    for (int n = 513; n < 1024; n += 102) widths(wide, n, pins[n / 2 % 4]);
    for (int i = 0; i < COUNT(special); i += 2)
        widths(i % 3 == 0 ? TY_F32 : i % 3 == 1 ? TY_F16 : TY_BF16, special[i], pins[i / 2 % 4]);
}

/* ---- FO-19, and FO-30's forward half ---- */

static void odd_rows(const char *text, Ty ty, int n, const char *pin, bool residual) {
    enum { M = 64 };
    int64_t each = ty_bytes(ty), row = n * each;
    char *x = field_memory(M * row), *r = field_memory(M * row), *w = field_memory(row), *s = field_memory(M * row),
         *q = field_memory(M * n), *one = field_memory(n), *so = field_memory(row);
    float *scale = field_memory(M * 4), *sc1 = field_memory(4);
    for (int64_t i = 0; i < (int64_t)M * n; i++) put(ty, x, i, u_at(i) - 0.5), put(ty, r, i, u_at(i + 77));
    for (int i = 0; i < n; i++) put(ty, w, i, 1 + u_at(i) / 8);
    rowfold_kernel *k = field_kernel(text, ty_text(ty), field_text("n=%d", n), pin);
    char *first = malloc((size_t)(M * n));
    for (int rep = 0; rep < 20; rep++) {
        memset(q, 0xA5, (size_t)(M * n));
        if (residual)
            LAUNCH(k, TENSOR(x, M, n), TENSOR(r, M, n), TENSOR(w, n), TENSOR(s, M, n), TENSOR(q, M, n),
                   TENSOR(scale, M));
        else
            LAUNCH(k, TENSOR(x, M, n), TENSOR(w, n), TENSOR(q, M, n), TENSOR(scale, M));
        if (rep == 0) memcpy(first, q, (size_t)(M * n));
        assert_memory_equal(first, q, (size_t)(M * n));
    }
    for (int i = 0; i < M; i++) {
        if (residual)
            LAUNCH(k, TENSOR(x + i * row, 1, n), TENSOR(r + i * row, 1, n), TENSOR(w, n), TENSOR(so, 1, n),
                   TENSOR(one, 1, n), TENSOR(sc1, 1));
        else
            LAUNCH(k, TENSOR(x + i * row, 1, n), TENSOR(w, n), TENSOR(one, 1, n), TENSOR(sc1, 1));
        assert_memory_equal(one, q + (int64_t)i * n, (size_t)n);
        assert_memory_equal(sc1, &scale[i], 4);
        if (residual) assert_memory_equal(so, s + i * row, (size_t)row);
    }
    if (residual)
        field_check(k, NULL,
                    (rowfold_arg[]){TENSOR(x, M, n), TENSOR(r, M, n), TENSOR(w, n), TENSOR(s, M, n), TENSOR(q, M, n),
                                    TENSOR(scale, M)},
                    6);
    else
        field_check(k, NULL, (rowfold_arg[]){TENSOR(x, M, n), TENSOR(w, n), TENSOR(q, M, n), TENSOR(scale, M)}, 4);
    free(first);
}

static void FO_19(void **state) {
    (void)state;
    static const char to_i8[] =
        "kernel q for rows (x: in T[rows, n], w: in T[n], q: out i8[rows, n], scale: out f32[rows]) {\n"
        "  z = x * rsqrt(mean(x * x) + 1e-6) * w\n  scale = maximum(max(abs(z)), 1e-10) / 127\n  q = round(z / "
        "scale)\n}";
    static const char res_f8[] = "kernel q for rows (x: in T[rows, n], r: in T[rows, n], w: in T[n], s: out T[rows, "
                                 "n], q: out f8e4m3[rows, n], scale: out f32[rows]) {\n"
                                 "  s = x + r\n  z = s * rsqrt(mean(s * s) + 1e-6) * w\n  scale = maximum(max(abs(z)), "
                                 "1e-10) / 448\n  q = z / scale\n}";
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 765, 766, 767, 768, 769, 770, 771, 772};
    static const char *const pins[] = {"W=16,V=2", "W=32", "W=16,V=8", "W=16,hold.x=register"};
    for (int i = 0; i < COUNT(sizes); i += 2)
        odd_rows(to_i8, i % 4 ? TY_BF16 : TY_F16, sizes[i], pins[i / 2 % 4], false);
    for (int i = 1; i < COUNT(sizes); i += 4)
        odd_rows(res_f8, i % 8 == 1 ? TY_F16 : TY_BF16, sizes[i], pins[i / 4 % 3], true);
    odd_rows(res_f8, TY_F16, 769, "W=96", true);
}

/* ---- FO-20 ---- */

static void FO_20(void **state) {
    (void)state;
    static const double want[8] = {0.2814043, 0.7185957, 0.3201856, 0.6798144,
                                   0.7096432, 0.2903568, 0.6035301, 0.3964699};
    static const double ln[8] = {-1.2403801, 1.2178559,  0.7104060, -0.6878817,
                                 1.3394793,  -1.3586899, 0.4334023, -0.4141916};
    float *x = field_memory(64), *y = field_memory(32), *g = field_memory(16), *b = field_memory(16),
          *keep = field_memory(64);
    field_fill(TY_F32, x, 16, u_at), field_fill(TY_F32, g, 4, one_at), field_fill(TY_F32, b, 4, zero_at);
    for (int p = 0; p < field_nplans; p++) {
        rowfold_kernel *k = field_try(SOFTMAX, "f32", "n=2", field_plans[p]);
        if (k) {
            double total = 0;
            RUN(k, field_view(x, 4, 2, 4, 1), TENSOR(y, 4, 2));
            for (int i = 0; i < 8; i++) NEAR(TY_F32, y[i], want[i], "element %d", i), total += y[i];
            NEAR(TY_F32, total, 4, "total");
            memset(keep, 0xA5, 64); /* the output a slice of a wider buffer: what lies beside it stays */
            RUN(k, field_view(x, 4, 2, 4, 1), field_view(keep, 4, 2, 4, 1));
            for (int i = 0; i < 16; i++) {
                if (i % 4 < 2)
                    EXACT(keep[i], y[i / 4 * 2 + i % 4], "element %d", i);
                else
                    assert_memory_equal(&keep[i], "\xA5\xA5\xA5\xA5", 4);
            }
        }
        rowfold_kernel *l = field_try(LAYERNORM, "f32", "n=4", field_plans[p]);
        if (!l) continue;
        RUN(l, TENSOR(x + 4, 2, 4), TENSOR(g, 4), TENSOR(b, 4), TENSOR(y, 2, 4), SCALAR(1e-5));
        for (int i = 0; i < 8; i++) NEAR(TY_F32, y[i], ln[i], "element %d", i);
    }
}

/* ---- FO-21 ---- */

static void shifted(const char *text, Ty ty, int n, const char *pin) {
    enum { M = 3 };
    int64_t each = ty_bytes(ty), row = n * each;
    char *want = field_memory(M * row), *x0 = field_front(M * row), *w0 = field_front(row);
    rowfold_kernel *k = field_kernel(text, ty_text(ty), field_text("n=%d", n), pin);
    for (int64_t i = 0; i < (int64_t)M * n; i++) put(ty, x0, i, u_at(i) - 0.5);
    for (int i = 0; i < n; i++) put(ty, w0, i, 1 + u_at(i));
    RUN(k, TENSOR(x0, M, n), TENSOR(w0, n), TENSOR(want, M, n), SCALAR(1e-6));
    for (int by = 1; by <= 2; by++)
        for (int which = 1; which < 8; which++) {
            char *x = (char *)field_front((M * row) + by * each) + (which & 1 ? by * each : 0);
            char *w = (char *)field_front(row + by * each) + (which & 2 ? by * each : 0);
            char *y = (char *)field_front((M * row) + by * each) + (which & 4 ? by * each : 0);
            memcpy(x, x0, (size_t)(M * row)), memcpy(w, w0, (size_t)row);
            LAUNCH(k, TENSOR(x, M, n), TENSOR(w, n), TENSOR(y, M, n), SCALAR(1e-6));
            assert_memory_equal(y, want, (size_t)(M * row));
        }
}

static void FO_21(void **state) {
    (void)state;
    static const Ty types[] = {TY_F16, TY_BF16, TY_F32};
    static const char *const pins[] = {"W=32,V=8", "W=16,store=stream", "W=16,V=4,store=stream"};
    for (int t = 0; t < 3; t++) {
        shifted(RMSNORM, types[t], 128, t == 2 ? "W=16,V=4" : pins[0]);
        shifted(RMSNORM, types[t], 1024, pins[t == 0 ? 1 : 2]);
    }
    shifted(RMSNORM, TY_BF16, (int)field_most(1 << 17, 1 << 13), "W=64,store=stream");
    /* off by less than an element is refused by name */
    float *x = field_memory(1024), *y = field_memory(1024);
    rowfold_kernel *k = field_kernel(SOFTMAX, "f32", "n=128", "W=16");
    REFUSED(k, "launch.unaligned", TENSOR((char *)x + 2, 1, 128), TENSOR(y, 1, 128));
    assert_non_null(strstr(rowfold_last_error(field_context())->message, "x "));
}

/* ---- FO-22, FO-23 ---- */

static void FO_22(void **state) {
    (void)state;
    enum { N = 1000 };
    const int64_t stride = field_most(1ll << 30, 1 << 20) + 8;
    char *x = wide_memory((size_t)(2 * stride + N) * 2), *y = wide_memory((size_t)(2 * stride + N) * 2);
    if (!x || !y) field_skip("FO-22", "no 13 GB of address space");
    char *near = field_memory(3 * N * 2), *want = field_memory(3 * N * 2);
    static const char *const texts[] = {SOFTMAX, LOG_SOFTMAX};
    for (int64_t i = 0; i < 3 * N; i++) put(TY_F16, near, i, u_at(i)), put(TY_F16, x, i / N * stride + i % N, u_at(i));
    for (int t = 0; t < 2; t++)
        for (int p = 0; p < field_nplans; p += 2) {
            rowfold_kernel *k = field_try(texts[t], "f16", "n=1000", field_plans[p]);
            if (!k) continue;
            RUN(k, TENSOR(near, 3, N), TENSOR(want, 3, N));
            LAUNCH(k, field_view(x, 3, N, stride, 1), field_view(y, 3, N, stride, 1));
            for (int64_t r = 0; r < 3; r++) assert_memory_equal(y + r * stride * 2, want + r * N * 2, N * 2);
        }
    munmap(x, (size_t)(2 * stride + N) * 2), munmap(y, (size_t)(2 * stride + N) * 2);
    /* the count: a mean over 2^32 elements and more, of one element seen everywhere */
    float *one = field_memory(4), *m = field_memory(4);
    *one = 1;
    static const char mean[] = "kernel m for r (x: in f32[r, a, b], m: out f32[r]) { m = mean(mean(x over b)) }";
    rowfold_kernel *k = field_strided(mean, NULL, "a=1,b=64", "W=64", "x");
    LAUNCH(k, field_arg(one, 3, (int64_t[]){1, 1, 64}, (int64_t[]){1, 0, 0}), TENSOR(m, 1));
    EXACT(m[0], 1, "mean of 64");
    rowfold_kernel *big = NULL; /* planned only: the number by which the sum is divided */
    big = field_strided("reduce.row:mean", "T=f16,S=f32", "n=4194304000", "W=64", "x");
    assert_non_null(strstr(rowfold_kernel_text(big, ROWFOLD_KERN), "4194304000"));
}

static void FO_23(void **state) {
    char *quick = getenv("ROWFOLD_CC") ? strdup(getenv("ROWFOLD_CC")) : NULL;
    unsetenv("ROWFOLD_CC"); /* two thousand million elements deserve an optimizer */
    field_close(state), field_open(state);
    static const int64_t sizes[] = {2147483647, 2147483648, 2147483650};
    char *x = wide_memory((size_t)sizes[2] * 2); /* never written: one page of zeros, seen two million times */
    if (!x) field_skip("FO-23", "no 4 GB of address space");
    for (int i = 0; i < 3; i++) {
        float *s = field_memory(4), *hi = field_memory(4);
        double from = field_seconds();
        rowfold_kernel *k = field_kernel(moments, "f16", field_text("n=%lld", (long long)sizes[i]), "W=128");
        if (i == 1 || sizes[i] > field_most(INT64_MAX, 0)) continue; /* compiled; the two beside it run */
        LAUNCH(k, TENSOR(x, 1, sizes[i]), TENSOR(s, 1), TENSOR(hi, 1));
        EXACT(s[0], 0, "sum of %lld zeros", (long long)sizes[i]);
        EXACT(hi[0], 0, "max of %lld zeros", (long long)sizes[i]);
        if (field_seconds() - from > 6) break; /* a slow machine: one of them has to do */
    }
    munmap(x, (size_t)sizes[2] * 2);
    field_no_kernel(moments, "f16", "n=2147483648", "W=128,index=32", "search.no_legal_plan");
    assert_non_null(strstr(rowfold_last_error(field_context())->message, "plan.index_too_narrow"));
    if (quick) setenv("ROWFOLD_CC", quick, 1);
    free(quick);
    field_close(state), field_open(state);
}

/* ---- FO-24 ---- */

static void FO_24(void **state) {
    (void)state;
    static const int sizes[] = {32768, 65536, 65537, 131072, 262144};
    float *x = field_memory(4 * 262144 * 4), *y = field_memory(4 * 262144 * 4), *g = field_memory(262144 * 4),
          *b = field_memory(262144 * 4);
    field_fill(TY_F32, x, 4 * 262144, u_at), field_fill(TY_F32, g, 262144, one_at),
        field_fill(TY_F32, b, 262144, zero_at);
    char *h = field_memory(131072 * 2), *hy = field_memory(131072 * 2);
    field_fill(TY_BF16, h, 131072, u_at);
    for (int t = 0; t < 2; t++) {
        rowfold_kernel *k = field_kernel(SOFTMAX, t ? "bf16" : "f32", "n=131072", NULL);
        double sum = 0;
        if (t)
            RUN(k, TENSOR(h, 1, 131072), TENSOR(hy, 1, 131072));
        else
            RUN(k, TENSOR(x, 1, 131072), TENSOR(y, 1, 131072));
        for (int i = 0; i < 131072; i++) sum += t ? get(TY_BF16, hy, i) : y[i];
        if (!t) NEAR(TY_F32, sum, 1, "sum");
    }
    for (int i = 0; i < COUNT(sizes); i++) {
        int n = sizes[i];
        LAUNCH(field_kernel(LAYERNORM, "f32", field_text("n=%d", n), NULL), TENSOR(x, 4, n), TENSOR(g, n), TENSOR(b, n),
               TENSOR(y, 4, n), SCALAR(1e-5));
        double sum = 0, var = 0;
        for (int j = 0; j < n; j++) sum += x[j];
        for (int j = 0; j < n; j++) var += (x[j] - sum / n) * (x[j] - sum / n);
        for (int j = 0; j < n; j += 251)
            NEAR(TY_F32, y[j], (x[j] - sum / n) / sqrt(var / n + 1e-5), "layernorm n %d", n);
        LAUNCH(field_kernel(RMSNORM, "f32", field_text("n=%d", n), NULL), TENSOR(x, 4, n), TENSOR(g, n),
               TENSOR(y, 4, n), SCALAR(1e-6));
        double sq = 0;
        for (int j = 0; j < n; j++) sq += (double)x[j] * x[j];
        for (int j = 0; j < n; j += 251) NEAR(TY_F32, y[j], x[j] / sqrt(sq / n + 1e-6), "rmsnorm n %d", n);
    }
}

/* ---- FO-40 ---- */

static void FO_40(void **state) {
    (void)state;
    enum { M = 99, N = 16384 };
    char *x = field_memory(M * N * 2), *r = field_memory(M * N * 2), *w = field_memory(N * 2),
         *s = field_memory(M * N * 2), *y = field_memory(M * N * 2);
    field_fill(TY_F16, x, M * N, one_at), field_fill(TY_F16, r, M * N, one_at), field_fill(TY_F16, w, N, one_at);
    LAUNCH(field_kernel("rmsnorm.row:residual_rmsnorm", "f16", "n=16384", NULL), TENSOR(x, M, N), TENSOR(r, M, N),
           TENSOR(w, N), TENSOR(s, M, N), TENSOR(y, M, N), SCALAR(1e-6));
    for (int i = 0; i < M * N; i++)
        if (get(TY_F16, y, i) != 1 || get(TY_F16, s, i) != 2) fail_msg("element %d", i);
    /* where a request does not fit, the numbers are in the message */
    rowfold_kernel *k = field_try(SOFTMAX, "f32", "n=100000000", "W=16,V=1,U=1,P=1,cluster=1,hold.x=register");
    assert_null(k);
    const rowfold_error *e = rowfold_last_error(field_context());
    assert_true(strstr(e->message, "need=") && strstr(e->message, "budget=") && strstr(e->message, "W=16"));
}

/* ---- FO-42 ---- */

static void FO_42(void **state) {
    (void)state;
    static const char group[] = "kernel groupnorm for b, g (x: in f32[b, g, c, p], w: in f32[g, c], bias: in f32[g, "
                                "c], y: out f32[b, g, c, p], m: out f32[b, g], v: out f32[b, g], eps: f32 = 1e-5) {\n"
                                "  m = mean(x)\n  d = x - m\n  v = mean(d * d)\n  y = d * rsqrt(v + eps) * w + bias\n}";
    enum { ALL = 48 * 1024 };
    float *x = field_memory(ALL * 4), *y = field_memory(ALL * 4), *w = field_memory(144 * 4),
          *b = field_memory(144 * 4), *m = field_memory(64), *v = field_memory(64);
    field_fill(TY_F32, x, ALL, u_at), field_fill(TY_F32, w, 144, one_at), field_fill(TY_F32, b, 144, zero_at);
    static const char *const pins[] = {"W=16", "W=32,stat=welford", "W=96,V=2", "W=1"};
    for (int p = 0; p < 4; p++) {
        rowfold_kernel *k = field_kernel(group, NULL, "c=3,p=1024", pins[p]);
        RUN(k, TENSOR(x, 1, 16, 3, 1024), TENSOR(w, 16, 3), TENSOR(b, 16, 3), TENSOR(y, 1, 16, 3, 1024),
            TENSOR(m, 1, 16), TENSOR(v, 1, 16), SCALAR(1e-5));
        NEAR(TY_F32, m[0], 0.50674098, "mean of group 0");
        NEAR(TY_F32, v[0], 0.083665940, "variance of group 0");
        NEAR(TY_F32, y[0], -1.6510334, "element 0");
        NEAR(TY_F32, y[1], 1.5899283, "element 1");
        NEAR(TY_F32, y[3071], -1.3383859, "element 3071");
        NEAR(TY_F32, m[5], 0.51052692, "mean of group 5");
        NEAR(TY_F32, y[5 * 3072], 0.6135781, "first of group 5");
    }
    for (int c = 1; c <= 9; c++)
        for (int one = 0; one < 2; one += c == 1 ? 1 : 2) {
            int p = one ? 1 : 16 + c;
            for (int i = 0; i < 2 * c; i++) b[i] = (float)i / 4;
            RUN(field_kernel(group, NULL, field_text("c=%d,p=%d", c, p), pins[c % 3]), TENSOR(x, 3, 2, c, p),
                TENSOR(w, 2, c), TENSOR(b, 2, c), TENSOR(y, 3, 2, c, p), TENSOR(m, 3, 2), TENSOR(v, 3, 2),
                SCALAR(1e-5));
            for (int i = 0; i < 6 && one; i++) EXACT(y[i], b[i % 2], "a group of one element is its bias");
        }
}

/* ---- FO-48 ---- */

static void FO_48(void **state) {
    (void)state;
    static const double want[16] = {0.0424191, 1.4066822, 0.8589293, 1.1321121, 0.2103411, 1.4870848,
                                    1.2235286, 0.4972944, 1.5587398, 0.1256680, 1.0774975, 0.6273170,
                                    1.0222314, 0.3285579, 0.5918191, 1.5801367};
    float *x = field_memory(64), *y = field_memory(64), *w = field_memory(16);
    field_fill(TY_F32, x, 16, u_at), field_fill(TY_F32, w, 4, one_at);
    rowfold_kernel *k = field_kernel(RMSNORM, "f32", "n=4", NULL);
    for (int rep = 0; rep < 100; rep++) {
        memset(y, 0xFF, 64);
        LAUNCH(k, TENSOR(x, 4, 4), TENSOR(w, 4), TENSOR(y, 4, 4), SCALAR(1e-6));
        for (int i = 0; i < 16; i++) NEAR(TY_F32, y[i], want[i], "element %d", i);
    }
    /* a kernel planned for another machine is not run on this one, and the message names it */
    rowfold_source *src;
    rowfold_program *prog;
    rowfold_device *dev;
    rowfold_context *cx = field_context();
    assert_int_equal(rowfold_source_parse(cx, "x", moments, sizeof moments - 1, &src), 0);
    assert_int_equal(rowfold_program_new(cx, src, NULL, "f32", NULL, &prog), 0);
    assert_int_equal(rowfold_device_find(cx, "preset:h200", &dev), 0);
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    o.device = dev, o.shape = "n=4";
    rowfold_kernel *q;
    assert_int_equal(rowfold_compile(cx, prog, &o, &q), 0);
    const rowfold_arg args[] = {TENSOR(x, 4, 4), TENSOR(w, 4), TENSOR(y, 4)};
    assert_int_equal(rowfold_launch(q, args, 3), ROWFOLD_UNAVAILABLE);
    assert_string_equal(rowfold_last_error(cx)->slug, "launch.not_built");
    assert_non_null(strstr(rowfold_last_error(cx)->message, "h200"));
    rowfold_kernel_free(q), rowfold_program_free(prog), rowfold_source_free(src);
}

/* ---- FO-49 ---- */

static void FO_49(void **state) {
    (void)state;
    static const int sizes[] = {3, 5, 7};
    static const char all[] = "kernel a for rows (x: in T[rows, n], y: out T[rows, n], s: out f32[rows], hi: out "
                              "f32[rows]) {\n  hi = max(x)\n  e = exp(x - hi)\n  y = e / sum(e)\n  s = sum(x)\n}";
    static const char *const pins[] = {"W=16",
                                       "W=16,V=4,P=4",
                                       "W=1",
                                       "W=4,V=4",
                                       "W=32,P=3",
                                       "W=16,hold.x=register,P=8",
                                       "W=16,prefetch=4",
                                       "W=16,stat=online"};
    for (int i = 0; i < 3; i++)
        for (int p = 0; p < COUNT(pins); p++)
            for (int front = 0; front < 2; front++) {
                Ty ty = p % 3 == 2 ? TY_F16 : TY_F32;
                int n = sizes[i], rows = (int)field_most(front ? 4093 : 4096, front ? 509 : 512);
                void *(*get_memory)(int64_t) = front ? field_front : field_memory;
                void *x = get_memory((int64_t)rows * n * ty_bytes(ty)),
                     *y = get_memory((int64_t)rows * n * ty_bytes(ty));
                float *s = get_memory(rows * 4), *hi = get_memory(rows * 4);
                memset(x, 0, (size_t)(rows * n * ty_bytes(ty)));
                LAUNCH(field_kernel(all, ty_text(ty), field_text("n=%d", n), pins[p]), TENSOR(x, rows, n),
                       TENSOR(y, rows, n), TENSOR(s, rows), TENSOR(hi, rows));
                for (int j = 0; j < rows * n; j++)
                    if (!field_close_to(ty, get(ty, y, j), 1.0 / n)) fail_msg("n %d element %d", n, j);
                for (int j = 0; j < rows; j++) assert_true(s[j] == 0 && hi[j] == 0);
            }
}

/* ---- FO-50 ---- */

static void FO_50(void **state) {
    (void)state;
    static const char all[] =
        "kernel a for rows (x: in f32[rows, n], y: out f32[rows, n], s: out f32[rows], r: out f32[rows, n]) {\n"
        "  e = exp(x - max(x))\n  y = e / sum(e)\n  s = sum(x)\n  r = x * rsqrt(mean(x * x) + 1e-6)\n}";
    float *u = field_memory(32), *y = field_memory(64 * 32), *s = field_memory(256), *r = field_memory(64 * 32),
          *one = field_memory(32), *os = field_memory(4), *orr = field_memory(32);
    field_fill(TY_F32, u, 8, u_at);
    for (int p = 0; p < field_nplans; p++) {
        rowfold_kernel *k = field_try(all, NULL, "n=8", field_plans[p]);
        if (!k) continue;
        RUN(k, TENSOR(u, 1, 8), TENSOR(one, 1, 8), TENSOR(os, 1), TENSOR(orr, 1, 8));
        RUN(k, field_view(u, 64, 8, 0, 1), TENSOR(y, 64, 8), TENSOR(s, 64), TENSOR(r, 64, 8));
        for (int i = 0; i < 64; i++) {
            assert_memory_equal(y + 8 * i, one, 32);
            assert_memory_equal(r + 8 * i, orr, 32);
            assert_memory_equal(s + i, os, 4);
        }
        REFUSED(k, "launch.stride", field_view(u, 64, 8, 0, 1), field_view(y, 64, 8, 0, 1), TENSOR(s, 64),
                TENSOR(r, 64, 8));
        assert_non_null(strstr(rowfold_last_error(field_context())->message, "y"));
    }
    /* one element seen everywhere, nothing but NaN and guard around it */
    float *box = field_memory(12), *three = &box[2];
    box[0] = box[1] = NAN, *three = 3;
    static const char *const pins[] = {"W=16", "W=1,V=2", "W=16,V=4"};
    for (int p = 0; p < 3; p++) {
        rowfold_kernel *k = field_strided(all, NULL, "n=2", pins[p], "x");
        rowfold_arg x = field_view(three, 64, 2, 0, 0);
        x.strides_given = 1;
        RUN(k, x, TENSOR(y, 64, 2), TENSOR(s, 64), TENSOR(r, 64, 2));
        for (int i = 0; i < 128; i++) {
            EXACT(y[i], 0.5, "softmax");
            EXACT(s[i / 2], 6, "sum");
            NEAR(TY_F32, r[i], 1, "rmsnorm");
        }
        /* (c) a gradient that is 1 everywhere */
        rowfold_kernel *b = field_strided("rmsnorm.row:rmsnorm_backward", "f32", "n=8", pins[p], "dy");
        float *w = field_memory(32), *full = field_memory(64 * 32), *dx = field_memory(64 * 32),
              *dy = field_memory(64 * 32), grad = 1;
        field_fill(TY_F32, full, 512, u_at), field_fill(TY_F32, w, 8, one_at), field_fill(TY_F32, dy, 512, one_at);
        rowfold_arg g = field_view(&grad, 64, 8, 0, 0);
        g.strides_given = 1;
        LAUNCH(b, TENSOR(full, 64, 8), TENSOR(w, 8), g, TENSOR(dx, 64, 8), SCALAR(1e-6));
        LAUNCH(b, TENSOR(full, 64, 8), TENSOR(w, 8), TENSOR(dy, 64, 8), TENSOR(r, 64, 8), SCALAR(1e-6));
        assert_memory_equal(dx, r, 64 * 32);
    }
}

#define CASE(f) cmocka_unit_test_teardown(f, field_clean)
int main(void) {
    const struct CMUnitTest tests[] = {CASE(FO_18), CASE(FO_19), CASE(FO_20), CASE(FO_21), CASE(FO_22), CASE(FO_23),
                                       CASE(FO_24), CASE(FO_40), CASE(FO_42), CASE(FO_48), CASE(FO_49), CASE(FO_50)};
    return cmocka_run_group_tests(tests, field_open, field_close);
}
