/* Field cases about numbers: FO-01 to FO-17. Each is the defect's whole kind: every way in which
 * a plan may cut the row, and every type that the case names. */
#include "field.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOFTMAX "softmax.row:softmax"
#define LOG_SOFTMAX "softmax.row:log_softmax"
#define LAYERNORM "layernorm.row:layernorm"
#define RMSNORM "rmsnorm.row:rmsnorm"
static const char rms_plain[] = "rmsnorm.row:rmsnorm_plain";
static const Ty floats[] = {TY_F32, TY_BF16, TY_F16, TY_F64};

/* ---- FO-01 ---- */

static double special_row(int r, int j) {
    double b = j / 64.0;
    switch (r) {
    case 0: return -INFINITY;
    case 1: return j == 3 ? INFINITY : b;
    case 2: return j == 3 || j == 40 ? INFINITY : b;
    case 3: return j == 5 ? NAN : b;
    case 4: return NAN;
    case 5: return b;
    case 6: return j == 7 ? 0 : -INFINITY;
    default: return j % 2 ? b : -INFINITY;
    }
}

static void special_rows(const char *text, Ty ty, bool zeros) {
    void *x = field_tensor_memory(ty, 512), *y = field_tensor_memory(ty, 512);
    for (int i = 0; i < 512; i++) put(ty, x, i, special_row(i / 64, i % 64));
    double sum5 = 0, sum7 = 0;
    for (int j = 0; j < 64; j++) sum5 += exp(j / 64.0), sum7 += j % 2 ? exp(j / 64.0) : 0;
    SOME_PLANS(k, text, ty_text(ty), "n=64", ty == TY_F32 || ty == TY_BF16 ? 1 : 3) {
        RUN(k, TENSOR(x, 8, 64), TENSOR(y, 8, 64));
        for (int i = 0; i < 512; i++) {
            int r = i / 64, j = i % 64;
            double got = get(ty, y, i), b = exp(j / 64.0);
            if (r < 5)
                EXACT(got, r == 0 && zeros ? 0 : NAN, "row %d element %d %s", r, j, ty_text(ty));
            else if (r == 5)
                NEAR(ty, got, b / sum5, "row 5 element %d", j);
            else if (r == 6)
                EXACT(got, j == 7, "row 6 element %d", j);
            else if (j % 2)
                NEAR(ty, got, b / sum7, "row 7 element %d", j);
            else
                EXACT(got, 0, "row 7 element %d", j);
        }
        if (ty == TY_F64) continue; /* the case's own figures have six digits */
        NEAR(ty, get(ty, y, 320), 0.00916480, "r5 first");
        NEAR(ty, get(ty, y, 383), 0.0245263, "r5 last");
        NEAR(ty, get(ty, y, 449), 0.0184739, "r7 first");
        NEAR(ty, get(ty, y, 511), 0.0486723, "r7 last");
    }
}

static void FO_01(void **state) {
    (void)state;
    static const char masked[] = "kernel masked for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
                                 "  m = max(x)\n  e = exp(x - m)\n  y = where(m == -inf, 0, e / sum(e))\n}";
    for (int t = 0; t < COUNT(floats) && field_has(floats[t]); t++) special_rows(SOFTMAX, floats[t], false);
    special_rows(masked, TY_F32, true);
    special_rows(masked, TY_BF16, true);
}

/* ---- FO-02 ---- */

static void FO_02(void **state) {
    (void)state;
    static const char *const forms[] = {
        "softmax.row:scaled_softmax",
        "kernel right for rows (x: in T[rows, n], y: out T[rows, n], scale: f32 = 1) {\n"
        "  e = exp(scale * x - max(scale * x))\n  y = e / sum(e)\n}",
        "kernel sub for rows (x: in T[rows, n], y: out T[rows, n], scale: f32 = 1) {\n"
        "  z = x / (1 / scale)\n  e = exp(z - max(z))\n  y = e / sum(e)\n}"};
    static const char *const more[] = {"W=16,div=reciprocal", "W=64,hold.z=register", "W=64,stat=online,div=reciprocal",
                                       "W=16,hold.e=register"};
    float *x = field_memory(3 * 8 * 4), *y = field_memory(3 * 8 * 4);
    for (int j = 0; j < 8; j++) x[j] = 7e11f, x[8 + j] = -7e11f, x[16 + j] = (float)(7e11 - 1e11 * j);
    for (int f = 0; f < COUNT(forms); f++)
        for (int p = 0; p < field_nplans + COUNT(more); p++) {
            rowfold_kernel *k =
                field_try(forms[f], "f32", "n=8", p < field_nplans ? field_plans[p] : more[p - field_nplans]);
            if (!k) continue;
            RUN(k, TENSOR(x, 3, 8), TENSOR(y, 3, 8), SCALAR(0.1));
            for (int j = 0; j < 8; j++) {
                EXACT(y[j], 0.125, "form %d plan %d", f, p);
                EXACT(y[8 + j], 0.125, "form %d plan %d", f, p);
                EXACT(y[16 + j], j == 0, "form %d plan %d element %d", f, p, j);
            }
        }
    /* and nothing of its kind in the text: a product that meets an addition stays rounded */
    rowfold_kernel *k = field_kernel(forms[0], "f32", "n=8", NULL);
    assert_null(strstr(rowfold_kernel_text(k, ROWFOLD_SOURCE), "-ffast-math"));
    static const char contract[] = "kernel c for rows (x: in f32[rows, n], y: out f32[rows, n]) { y = x * x - x * x }";
    float *z = field_memory(1000 * 4), *d = field_memory(1000 * 4);
    field_fill(TY_F32, z, 1000, u_at);
    EACH_PLAN(q, contract, NULL, "n=1000") {
        RUN(q, TENSOR(z, 1, 1000), TENSOR(d, 1, 1000));
        for (int j = 0; j < 1000; j++) EXACT(d[j], 0, "x*x - x*x at %d", j);
    }
}

/* ---- FO-03 ---- */

static void FO_03(void **state) {
    (void)state;
    static const float in[6] = {-1e7f, -1e7f, -1e7f, -1e7f, -9999999.f, -10000001.f};
    static const double want[6] = {-1.0986123, -1.0986123, -1.0986123, -1.4076060, -0.4076060, -2.4076060};
    float *x = field_memory(24), *y = field_memory(24);
    memcpy(x, in, sizeof in);
    EACH_PLAN(k, LOG_SOFTMAX, "f32", "n=3") {
        RUN(k, TENSOR(x, 2, 3), TENSOR(y, 2, 3));
        for (int i = 0; i < 6; i++) NEAR(TY_F32, y[i], want[i], "element %d", i);
    }
}

/* ---- FO-04 ---- */

static const char extremes[] =
    "kernel extremes for rows (x: in T[rows, n], hi: out T[rows], lo: out T[rows], at: out "
    "i64[rows], low: out i64[rows]) {\n  hi = max(x); lo = min(x); at = argmax(x); low = argmin(x)\n}";
/* Both policies in one kernel: NaN wins, NaN is passed over. */
static const char policies[] = "kernel policies for rows (x: in T[rows, n], hi: out T[rows], lo: out T[rows], at: out "
                               "i64[rows], high: out T[rows], "
                               "least: out T[rows]) {\n  hi = max(x); lo = min(x); at = argmax(x)\n"
                               "  none = all(x != x)\n  high = where(none, nan, max(where(x != x, -inf, x)))\n"
                               "  least = where(none, nan, min(where(x != x, inf, x)))\n}";

/* Rows: NaN at one place, then in the first k places. Returns how many rows. */
static int nan_rows(Ty ty, void *x, int n, int *first) {
    int at[4] = {0, 1, n / 2, n - 1}, rows = 0;
    for (int i = 0; i < 4; i++) {
        if (at[i] >= n) continue;
        for (int j = 0; j < n; j++) put(ty, x, (int64_t)rows * n + j, j == at[i] ? NAN : (double)j);
        first[rows++] = at[i];
    }
    for (int k = 1; k <= (n < 5 ? n : 5); k++) {
        for (int j = 0; j < n; j++) put(ty, x, (int64_t)rows * n + j, j < k ? NAN : (double)j);
        first[rows++] = 0;
    }
    return rows;
}

static void nan_case(Ty ty, int n, const char *pin) {
    int first[9];
    void *x = field_tensor_memory(ty, 9 * n), *hi = field_tensor_memory(ty, 9), *lo = field_tensor_memory(ty, 9),
         *high = field_tensor_memory(ty, 9), *least = field_tensor_memory(ty, 9);
    int64_t *at = field_memory(72);
    int rows = nan_rows(ty, x, n, first);
    rowfold_kernel *k = field_try(policies, ty_text(ty), field_text("n=%d", n), pin);
    if (!k) return;
    RUN(k, TENSOR(x, rows, n), TENSOR(hi, rows), TENSOR(lo, rows), TENSOR(at, rows), TENSOR(high, rows),
        TENSOR(least, rows));
    for (int r = 0; r < rows; r++) {
        double most = NAN, small = NAN;
        for (int j = 0; j < n; j++) {
            double v = get(ty, x, (int64_t)r * n + j);
            most = fmax(most, v), small = fmin(small, v);
        }
        EXACT(get(ty, hi, r), NAN, "max of row %d, n %d", r, n);
        EXACT(get(ty, lo, r), NAN, "min of row %d, n %d", r, n);
        assert_int_equal(at[r], first[r]);
        EXACT(get(ty, high, r), most, "max without NaN of row %d, n %d", r, n);
        EXACT(get(ty, least, r), small, "min without NaN of row %d, n %d", r, n);
    }
}

static void FO_04(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025};
    for (int i = 0; i < COUNT(sizes); i++) nan_case(TY_F32, sizes[i], i % 2 ? "W=64" : "W=16,V=4");
    for (int i = 0; i < field_nplans; i++) nan_case(TY_F32, 65, field_plans[i]);
    nan_case(TY_F16, 33, "W=16,V=2"), nan_case(TY_BF16, 1025, "W=64,V=8");
    if (field_has(TY_F64)) nan_case(TY_F64, 17, "W=1");
    nan_case(TY_F16, 1, "W=16"), nan_case(TY_BF16, 64, "W=96");
    float *x = field_memory(16), *hi = field_memory(4), *lo = field_memory(4);
    int64_t *at = field_memory(8), *low = field_memory(8);
    static const float literal[3][4] = {{NAN, NAN, NAN, 42}, {NAN, 1}, {2, NAN}};
    for (int i = 0; i < 3; i++) {
        int n = i ? 2 : 4;
        memcpy(x, literal[i], (size_t)n * 4);
        rowfold_kernel *k = field_kernel(extremes, "f32", field_text("n=%d", n), "W=16");
        RUN(k, TENSOR(x, 1, n), TENSOR(hi, 1), TENSOR(lo, 1), TENSOR(at, 1), TENSOR(low, 1));
        EXACT(hi[0], NAN, "literal %d", i);
        EXACT(lo[0], NAN, "literal %d", i);
        assert_int_equal(at[0], i == 2);
    }
}

/* ---- FO-05 ---- */

static void FO_05(void **state) {
    (void)state;
    float *g = field_memory(0), *v = field_memory(40), *big = field_memory(4096), *out = field_memory(4096);
    int64_t *at = field_memory(80);
    void *none = field_memory(0);
    /* (a) nothing to write, nothing is */
    LAUNCH(field_kernel(SOFTMAX, "f32", "n=0", NULL), TENSOR(none, 10, 0), TENSOR(none, 10, 0));
    LAUNCH(field_kernel(LOG_SOFTMAX, "f32", "n=0", "W=64"), TENSOR(NULL, 10, 0), TENSOR(NULL, 10, 0));
    LAUNCH(field_kernel(LAYERNORM, "f32", "n=0", NULL), TENSOR(none, 10, 0), TENSOR(g, 0), TENSOR(g, 0),
           TENSOR(none, 10, 0), SCALAR(1e-5));
    LAUNCH(field_kernel(RMSNORM, "f32", "n=0", "W=1"), TENSOR(none, 10, 0), TENSOR(g, 0), TENSOR(none, 10, 0),
           SCALAR(1e-6));
    /* (b) what docs/language.md gives an empty row */
    static const struct {
        const char *text;
        double want;
    } empty[] = {{"reduce.row:sum", 0},
                 {"reduce.row:mean", NAN},
                 {"reduce.row:variance", NAN},
                 {"reduce.row:norm2", 0},
                 {"reduce.row:logsumexp", -INFINITY},
                 {"kernel p for rows (x: in T[rows, n], m: out T[rows]) { m = prod(x) }", 1},
                 {"kernel p for rows (x: in T[rows, n], m: out T[rows]) { m = max(x) }", -INFINITY},
                 {"kernel p for rows (x: in T[rows, n], m: out T[rows]) { m = min(x) }", INFINITY}};
    for (int i = 0; i < COUNT(empty); i++)
        for (int w = 0; w < 3; w++) {
            for (int r = 0; r < 10; r++) v[r] = 7;
            rowfold_kernel *k = field_kernel(empty[i].text, "f32", "n=0",
                                             w == 0   ? "W=1"
                                             : w == 1 ? "W=64"
                                                      : "W=64,fuse=off");
            RUN(k, TENSOR(none, 10, 0), TENSOR(v, 10));
            for (int r = 0; r < 10; r++) EXACT(v[r], empty[i].want, "%s of nothing", empty[i].text);
        }
    static const char *const args[] = {"reduce.row:argmax", "reduce.row:argmin"};
    for (int i = 0; i < COUNT(args); i++) {
        memset(at, 7, 80);
        RUN(field_kernel(args[i], "f32", "n=0", NULL), TENSOR(none, 10, 0), TENSOR(at, 10));
        for (int r = 0; r < 10; r++) assert_int_equal(at[r], -1);
    }
    /* (c) no rows, and the next call is not disturbed */
    static const char *const types[] = {"bf16", "f32"};
    field_fill(TY_F32, big, 1024, u_at);
    for (int t = 0; t < 2; t++) {
        rowfold_kernel *k = field_kernel(SOFTMAX, types[t], "n=7168", NULL);
        LAUNCH(k, TENSOR(NULL, 0, 7168), TENSOR(NULL, 0, 7168));
        LAUNCH(field_kernel("reduce.row:max", types[t], "n=7168", NULL), TENSOR(NULL, 0, 7168), TENSOR(NULL, 0));
        rowfold_kernel *e = field_kernel(
            "kernel twice for rows (x: in f32[rows, n], y: out f32[rows, n]) { y = x + x }", NULL, "n=1024", NULL);
        RUN(e, TENSOR(big, 1, 1024), TENSOR(out, 1, 1024));
        for (int i = 0; i < 1024; i++) EXACT(out[i], 2 * big[i], "the call after");
    }
}

/* ---- FO-06 ---- */

static void FO_06(void **state) {
    (void)state;
    static const char wide[] =
        "kernel ln for rows (x: in f64[rows, n], g: in f64[n], b: in f64[n], y: out f64[rows, n], eps: f64 = 0.1) {\n"
        "  c = x - mean(x)\n  y = c * rsqrt(mean(c * c) + eps) * g + b\n}";
    for (int t = 0; t < 1 + field_has(TY_F64); t++) {
        Ty ty = t ? TY_F64 : TY_F32;
        void *x = field_tensor_memory(ty, 1), *g = field_tensor_memory(ty, 1), *b = field_tensor_memory(ty, 1),
             *y = field_tensor_memory(ty, 1);
        put(ty, x, 0, -3), put(ty, b, 0, -1);
        EACH_PLAN(k, t ? wide : LAYERNORM, t ? NULL : "f32", "n=1") {
            for (int e = 0; e <= 15; e++) {
                put(ty, g, 0, pow(10, e));
                RUN(k, TENSOR(x, 1, 1), TENSOR(g, 1), TENSOR(b, 1), TENSOR(y, 1, 1), SCALAR(0.1));
                EXACT(get(ty, y, 0), -1, "weight 1e%d %s", e, ty_text(ty));
            }
        }
    }
}

/* ---- FO-07 ---- */

static void FO_07(void **state) {
    (void)state;
    enum { N = 2048 };
    static const double m[8] = {256, 300, 1000, 7600, 8000, 16000, 40000, 60000};
    void *x = field_memory(8 * N * 2), *r = field_memory(8 * N * 2), *w = field_memory(N * 2),
         *s = field_memory(8 * N * 2), *y = field_memory(8 * N * 2);
    for (int i = 0; i < 8 * N; i++) put(TY_F16, x, i, m[i / N] * (i % 2 ? -1 : 1)), put(TY_F16, r, i, 0);
    field_fill(TY_F16, w, N, one_at);
    EACH_PLAN(k, RMSNORM, "f16", "n=2048") {
        RUN(k, TENSOR(x, 8, N), TENSOR(w, N), TENSOR(y, 8, N), SCALAR(1e-6));
        for (int i = 0; i < 8 * N; i++) EXACT(get(TY_F16, y, i), i % 2 ? -1 : 1, "row %d", i / N);
    }
    for (int p = 0; p < field_nplans; p++) {
        rowfold_kernel *k = field_try("rmsnorm.row:residual_rmsnorm", "f16", "n=2048", field_plans[p]);
        if (!k) continue;
        RUN(k, TENSOR(x, 8, N), TENSOR(r, 8, N), TENSOR(w, N), TENSOR(s, 8, N), TENSOR(y, 8, N), SCALAR(1e-6));
        assert_memory_equal(s, x, 8 * N * 2);
        for (int i = 0; i < 8 * N; i++) EXACT(get(TY_F16, y, i), i % 2 ? -1 : 1, "row %d", i / N);
    }
}

/* ---- FO-08 ---- */

static int number_in(const char *plan, const char *name) {
    return (int)strtol(strstr(plan, name) + strlen(name), NULL, 10);
}

/* Elements of a row of 16 that a lane of the plan adds up by itself. */
static int own_elements(const char *plan) {
    const int W = number_in(plan, "W="), V = number_in(plan, " V="), rest = 16 % (W * V);
    return 16 / (W * V) * V + (rest < V ? rest : V);
}

static int levels_above(int own) { /* of the tree that joins them */
    int levels = 0;
    while (own << levels < 16) levels++;
    return levels;
}

/* How far a mean that is the sum of 16 in f32 may lie from the true one, in its own units: each addition rounds by half
 * a unit of what it gives, those of all lanes together, then one at each level of the tree. */
static double sum_units(double mean, int own) {
    double units = 0.5 * levels_above(own);
    for (int k = 2; k <= own; k++) units += 0.5 * ldexp(1, ilogb(k * mean) - ilogb(mean)) / own;
    return units;
}

/* c = x - mean(x) with the mean in f32, as the text says: whichever of the means that its sums can have a plan has, all
 * 16 outputs are exactly about it. */
static bool is_normal_about_f32_mean(const float *x, const float *y, int own) {
    double mean = 0;
    for (int i = 0; i < 16; i++) mean += (double)x[i] / 16;
    const double unit = ldexp(1, ilogb(mean) - 23), most = sum_units(mean, own) * unit;
    for (double m = ceil((mean - most) / unit) * unit; m <= mean + most; m += unit) {
        const double at = mean < 1 ? mean : m; /* its units are far below what the outputs show */
        double var = 0, worst = 0;
        for (int i = 0; i < 16; i++) var += (x[i] - at) * (x[i] - at) / 16;
        for (int i = 0; i < 16; i++) worst = fmax(worst, fabs(y[i] - (x[i] - at) / sqrt(var + 1e-5)));
        if (worst <= 1e-5 * 1.34) return true;
    }
    return false;
}

static void FO_08(void **state) {
    (void)state;
    float *x = field_memory(64 * 4), *y = field_memory(64 * 4), *g = field_memory(64), *b = field_memory(64);
    field_fill(TY_F32, g, 16, one_at), field_fill(TY_F32, b, 16, zero_at);
    static const double four[4] = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
    for (int j = 0; j < 4; j++) x[j] = 40000.f + (float)j, x[4 + j] = 80000.f + (float)j;
    {
        EACH_PLAN(k, LAYERNORM, "f32", "n=4") {
            RUN(k, TENSOR(x, 2, 4), TENSOR(g, 4), TENSOR(b, 4), TENSOR(y, 2, 4), SCALAR(1e-5));
            for (int i = 0; i < 8; i++) NEAR(TY_F32, y[i], four[i % 4], "element %d", i);
        }
    }
    static const double mean[4] = {0, 100, 1000, 10000}, first[4] = {-1.3416408, -1.3415277, -1.3415078, -1.3313334},
                        last[4] = {1.3416407, 1.3413571, 1.3442372, 1.3313334};
    for (int i = 0; i < 64; i++) x[i] = (float)(mean[i / 16] + 0.001 * (i % 16));
    {EACH_PLAN(k, LAYERNORM, "f32",
               "n=16"){RUN(k, TENSOR(x, 4, 16), TENSOR(g, 16), TENSOR(b, 16), TENSOR(y, 4, 16), SCALAR(1e-5));
    for (int r = 0; r < 4; r++) {
        const char *plan = rowfold_kernel_text(k, ROWFOLD_PLAN);
        const int own = own_elements(plan);
        if (strstr(plan, "stat=two-pass")) {
            if (!is_normal_about_f32_mean(x + 16 * r, y + 16 * r, own))
                fail_msg("mean %g: %.9g %.9g with %s", mean[r], (double)y[16 * r], (double)y[16 * r + 15], plan);
            continue;
        }
        /* One sweep has no mean when it adds up squares: what its mean is off, in deviations, moves every
         * output. A shift is added to the mean of what is left once; Welford's mean is rounded with each of a
         * lane's elements and each join. */
        const int roundings = strstr(plan, "stat=welford") ? own + levels_above(own) : 1;
        double unit = mean[r] > 0 ? ldexp(roundings, ilogb(mean[r]) - 24) : 0,
               slack = 1e-5 * fabs(first[r]) + unit / sqrt(2.125e-5);
        if (fabs(y[16 * r] - first[r]) > slack || fabs(y[16 * r + 15] - last[r]) > slack)
            fail_msg("mean %g: %.9g %.9g with %s", mean[r], (double)y[16 * r], (double)y[16 * r + 15], plan);
    }
}
}
{
    EACH_PLAN(k, "layernorm.row:layernorm_any_scale", "f32", "n=16") { /* centred twice: the case's figures */
        RUN(k, TENSOR(x, 4, 16), TENSOR(g, 16), TENSOR(b, 16), TENSOR(y, 4, 16), SCALAR(1e-5));
        for (int r = 0; r < 4; r++) {
            NEAR(TY_F32, y[16 * r], first[r], "mean %g", mean[r]);
            NEAR(TY_F32, y[16 * r + 15], last[r], "mean %g", mean[r]);
        }
    }
}
if (!field_has(TY_F64)) return;
static const char wide[] = "kernel ln for rows (x: in f32[rows, n], y: out f32[rows, n], eps: f32 = 1e-5) {\n"
                           "  c = f32(x - mean(f64(x)))\n  y = c * rsqrt(mean(c * c) + eps)\n}";
EACH_PLAN(q, wide, NULL, "n=16") { /* one that says f64 has them too */
    RUN(q, TENSOR(x, 4, 16), TENSOR(y, 4, 16), SCALAR(1e-5));
    for (int r = 0; r < 4; r++) {
        NEAR(TY_F32, y[16 * r], first[r], "mean %g in f64", mean[r]);
        NEAR(TY_F32, y[16 * r + 15], last[r], "mean %g in f64", mean[r]);
    }
}
}

/* ---- FO-09 ---- */

/* x * x in f32 ends at 1.8e19, which docs/language.md says: where rows may be larger, a program divides by their scale
 * first, as the library's do, or says f64. */
static void FO_09(void **state) {
    (void)state;
    enum { N = 512 };
    static const char wide_rms[] = "kernel rms for rows (x: in f32[rows, n], y: out f32[rows, n], eps: f32 = 1e-6) {\n"
                                   "  z = f64(x)\n  y = z * rsqrt(mean(z * z) + eps)\n}";
    static const char wide_ln[] =
        "kernel ln for rows (x: in f32[rows, n], y: out f32[rows, n], v: out f32[rows], eps: f32 = 1e-5) {\n"
        "  z = f64(x)\n  c = z - mean(z)\n  y = c * rsqrt(mean(c * c) + eps)\n  v = var(z)\n}";
    static const double m[5] = {1e15, 1e18, 1e19, 1e25, 1e35};
    float *x = field_memory(5 * N * 4), *z = field_memory(5 * N * 4), *y = field_memory(5 * N * 4),
          *v = field_memory(20), *g = field_memory(N * 4), *b = field_memory(N * 4);
    for (int i = 0; i < 5 * N; i++) x[i] = (float)m[i / N], z[i] = (float)(m[i / N] * (i % 2 ? 2 : 1));
    field_fill(TY_F32, g, N, one_at), field_fill(TY_F32, b, N, zero_at);
    {EACH_PLAN(k, "rmsnorm.row:rmsnorm_any_scale", "f32",
               "n=512"){RUN(k, TENSOR(x, 5, N), TENSOR(g, N), TENSOR(y, 5, N), SCALAR(1e-6));
    for (int i = 0; i < 5 * N; i++) NEAR(TY_F32, y[i], 1, "rms of %g", m[i / N]);
}
}
{
    EACH_PLAN(k, "layernorm.row:layernorm_any_scale", "f32", "n=512") {
        RUN(k, TENSOR(z, 5, N), TENSOR(g, N), TENSOR(b, N), TENSOR(y, 5, N), SCALAR(1e-5));
        for (int i = 0; i < 5 * N; i++) NEAR(TY_F32, y[i], i % 2 ? 1 : -1, "layernorm of %g", m[i / N]);
    }
}
if (field_has(TY_F64)) {
    EACH_PLAN(k, wide_rms, NULL, "n=512") {
        RUN(k, TENSOR(x, 5, N), TENSOR(y, 5, N), SCALAR(1e-6));
        for (int i = 0; i < 5 * N; i++) NEAR(TY_F32, y[i], 1, "rms of %g", m[i / N]);
    }
}
if (field_has(TY_F64)) {
    EACH_PLAN(k, wide_ln, NULL, "n=512") {
        RUN(k, TENSOR(z, 5, N), TENSOR(y, 5, N), TENSOR(v, 5), SCALAR(1e-5));
        for (int i = 0; i < 5 * N; i++) NEAR(TY_F32, y[i], i % 2 ? 1 : -1, "layernorm of %g", m[i / N]);
        for (int r = 0; r < 5; r++) NEAR(TY_F32, v[r], r < 3 ? m[r] * m[r] / 4 : INFINITY, "variance of %g", m[r]);
    }
}
/* The f32 programs: right in their range, and outside it exactly what their own arithmetic says: 1 / sqrt(inf) is
 * 0, which no row of that scale has as its norm. */
{
    EACH_PLAN(k, rms_plain, "f32", "n=512") {
        RUN(k, TENSOR(x, 5, N), TENSOR(y, 5, N), SCALAR(1e-6));
        for (int i = 0; i < 5 * N; i++) {
            if (m[i / N] * m[i / N] * N < 3.4e38)
                NEAR(TY_F32, y[i], 1, "f32 rms of %g", m[i / N]);
            else
                EXACT(y[i], 0, "f32 rms of %g", m[i / N]);
        }
    }
}
EACH_PLAN(k, "reduce.row:variance", "T=f32,S=f32", "n=512") {
    RUN(k, TENSOR(z, 5, N), TENSOR(v, 5));
    for (int r = 0; r < 2; r++) NEAR(TY_F32, v[r], m[r] * m[r] / 4, "f32 variance of %g", m[r]);
    for (int r = 2; r < 5; r++) assert_true(isinf(v[r]));
}
}

/* ---- FO-10 ---- */

static void FO_10(void **state) {
    (void)state;
    float *x = field_memory(64 * 4), *y = field_memory(64 * 4), *s = field_memory(4);
    for (int flush = 0; flush < 2; flush++) { /* a host program that flushes subnormals must not change a row */
#if defined(__x86_64__)
        unsigned was = __builtin_ia32_stmxcsr();
        if (flush) __builtin_ia32_ldmxcsr(was | 0x8040);
#endif
        static const int sizes[] = {1, 64};
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < sizes[i]; j++) x[64 - sizes[i] + j] = 1e-20f;
            EACH_PLAN(k, "reduce.row:norm2", "f32", field_text("n=%d", sizes[i])) {
                LAUNCH(k, TENSOR(x + 64 - sizes[i], 1, sizes[i]), TENSOR(s, 1));
                NEAR(TY_F32, s[0] / 1e-20f, sqrt(sizes[i]), "norm of %d", sizes[i]);
            }
        }
        {
            EACH_PLAN(k, rms_plain, "f32", "n=64") {
                LAUNCH(k, TENSOR(x, 1, 64), TENSOR(y, 1, 64), SCALAR(0));
                for (int j = 0; j < 64; j++) NEAR(TY_F32, y[j], 1, "eps 0 element %d", j);
                LAUNCH(k, TENSOR(x, 1, 64), TENSOR(y, 1, 64), SCALAR(1e-6));
                for (int j = 0; j < 64; j++) NEAR(TY_F32, y[j] / 1e-17f, 1, "eps 1e-6 element %d", j);
            }
        }
#if defined(__x86_64__)
        __builtin_ia32_ldmxcsr(was);
#endif
    }
    float *tiny = field_memory(12);
    for (int j = 0; j < 3; j++) tiny[j] = (float)(j + 1) * 1e-40f;
    static const char both[] =
        "kernel both for rows (x: in f32[rows, n], a: out f32[rows], b: out f32[rows]) { a = max(x); b = sum(x) }";
    {
        EACH_PLAN(k, both, NULL, "n=3") {
            RUN(k, TENSOR(tiny, 1, 3), TENSOR(y, 1), TENSOR(s, 1));
            EXACT(y[0], tiny[2], "max of subnormals");
            EXACT(s[0], (double)tiny[0] + (double)tiny[1] + (double)tiny[2], "sum of subnormals");
        }
    }
    for (int j = 0; j < 64; j++) x[j] = j % 8 ? -1e30f : 0;
    {
        EACH_PLAN(k, SOFTMAX, "f32", "n=64") {
            RUN(k, TENSOR(x, 1, 64), TENSOR(y, 1, 64));
            for (int j = 0; j < 64; j++) EXACT(y[j], j % 8 ? 0 : 0.125, "masked element %d", j);
        }
    }
    static const float a[5] = {-87, -90, -95, -103, -104};
    static const double want[5] = {1.645811e-38, 8.19401e-40, 5.5211e-42, 1.4e-45, 0};
    for (int r = 0; r < 5; r++) x[2 * r] = 0, x[2 * r + 1] = a[r];
    EACH_PLAN(k, SOFTMAX, "f32", "n=2") {
        RUN(k, TENSOR(x, 5, 2), TENSOR(y, 5, 2));
        for (int r = 0; r < 5; r++) {
            EXACT(y[2 * r], 1, "first of %g", (double)a[r]);
            if (fabs(y[2 * r + 1] - want[r]) > 1e-5 * want[r] + 1.5e-45)
                fail_msg("softmax of [0, %g]: %g", (double)a[r], (double)y[2 * r + 1]);
        }
        assert_true(y[1] > y[3] && y[3] > y[5] && y[5] > y[7]);
    }
}

/* ---- FO-11 ---- */

static void FO_11(void **state) {
    (void)state;
    float *x = field_memory(64 * 4), *y = field_memory(64 * 4), *w = field_memory(64 * 4), *b = field_memory(64 * 4);
    for (int j = 0; j < 64; j++) x[j] = 1e-3f, w[j] = 1, b[j] = 0;
    {
        EACH_PLAN(k, RMSNORM, "f32", "n=64") {
            RUN(k, TENSOR(x, 1, 64), TENSOR(w, 64), TENSOR(y, 1, 64), SCALAR(1e-6));
            for (int j = 0; j < 64; j++) NEAR(TY_F32, y[j], 0.7071068, "element %d", j);
        }
    }
    for (int j = 0; j < 64; j++) x[j] = j % 2 ? 1e-3f : -1e-3f; /* variance 1e-6 */
    EACH_PLAN(k, LAYERNORM, "f32", "n=64") {
        RUN(k, TENSOR(x, 1, 64), TENSOR(w, 64), TENSOR(b, 64), TENSOR(y, 1, 64), SCALAR(1e-6));
        for (int j = 0; j < 64; j++) NEAR(TY_F32, y[j], j % 2 ? 0.7071068 : -0.7071068, "element %d", j);
    }
}

/* ---- FO-12 ---- */

static void FO_12(void **state) {
    (void)state;
    enum { MOST = 65536 };
    static const int sizes[] = {256, 257, 512, 4096, MOST};
    void *x = field_memory(MOST * 2), *y = field_memory(MOST * 2), *s = field_memory(2), *m = field_memory(2);
    field_fill(TY_BF16, x, MOST, one_at);
    for (int i = 0; i < COUNT(sizes); i++) {
        int n = sizes[i];
        const char *shape = field_text("n=%d", n);
        static const char both[] =
            "kernel both for rows (x: in T[rows, n], s: out T[rows], m: out T[rows]) { s = sum(x); m = mean(x) }";
        for (int p = 0; p < field_nplans; p++) {
            if (i != 2 && p % 3) continue;
            rowfold_kernel *k = field_try(SOFTMAX, "bf16", shape, field_plans[p]),
                           *q = field_try(both, "bf16", shape, field_plans[p]);
            if (k) {
                RUN(k, TENSOR(x, 1, n), TENSOR(y, 1, n));
                for (int j = 0; j < n; j++)
                    EXACT(get(TY_BF16, y, j), field_rounded(TY_BF16, 1.0 / n), "softmax of %d", n);
            }
            if (!q) continue;
            RUN(q, TENSOR(x, 1, n), TENSOR(s, 1), TENSOR(m, 1));
            EXACT(get(TY_BF16, s, 0), field_rounded(TY_BF16, n), "sum of %d", n);
            EXACT(get(TY_BF16, m, 0), 1, "mean of %d", n);
        }
    }
}

/* ---- FO-13 ---- */

static void zeros(const float *x, float *hi, float *lo, int64_t *at, int64_t *low, int rows, int n) {
    EACH_PLAN(k, extremes, "f32", field_text("n=%d", n)) {
        RUN(k, TENSOR(x, rows, n), TENSOR(hi, rows), TENSOR(lo, rows), TENSOR(at, rows), TENSOR(low, rows));
        for (int r = 0; r < rows; r++) { /* docs/language.md: +0 above -0 in max and min, equal in argmax and argmin */
            bool plus = false, minus = false;
            for (int j = 0; j < n; j++) signbit(x[r * n + j]) ? (minus = true) : (plus = true);
            EXACT(hi[r], 0, "max of zeros");
            EXACT(lo[r], 0, "min of zeros");
            assert_int_equal(signbit(hi[r]) != 0, !plus);
            assert_int_equal(signbit(lo[r]) != 0, minus);
            assert_int_equal(at[r], 0);
            assert_int_equal(low[r], 0);
        }
    }
}

static void FO_13(void **state) {
    (void)state;
    static const int place[4] = {0, 31, 32, 999};
    float *x = field_memory(96), *z = field_memory(8 * 4000), *hi = field_memory(32), *lo = field_memory(32);
    int64_t *at = field_memory(64), *low = field_memory(64);
    for (int i = 0; i < 24; i++) x[i] = i / 3 >> i % 3 & 1 ? -0.0f : 0.0f;
    zeros(x, hi, lo, at, low, 8, 3);
    for (int i = 0; i < 8000; i++) { /* the only +0, then the only -0 */
        bool only = i % 1000 == place[i / 1000 % 4];
        z[i] = only == (i < 4000) ? 0.0f : -0.0f;
    }
    zeros(z, hi, lo, at, low, 8, 1000);
}

/* ---- FO-14 ---- */

static void arg_case(Ty ty, const double *row, int n, int most, int least, int step) {
    void *x = field_tensor_memory(ty, n), *hi = field_tensor_memory(ty, 1), *lo = field_tensor_memory(ty, 1);
    int64_t *at = field_memory(8), *low = field_memory(8);
    for (int j = 0; j < n; j++) put(ty, x, j, row[j]);
    SOME_PLANS(k, extremes, ty_text(ty), field_text("n=%d", n), step) {
        RUN(k, TENSOR(x, 1, n), TENSOR(hi, 1), TENSOR(lo, 1), TENSOR(at, 1), TENSOR(low, 1));
        assert_int_equal(at[0], most);
        assert_int_equal(low[0], least);
        EXACT(get(ty, hi, 0), row[most], "max");
        EXACT(get(ty, lo, 0), row[least], "min");
    }
}

static void FO_14(void **state) {
    (void)state;
    double row[1000] = {0};
    row[5] = row[256] = 9;
    arg_case(TY_F32, row, 512, 5, 0, 1);
    arg_case(TY_I32, row, 512, 5, 0, 6);
    for (int j = 0; j < 1000; j++) row[j] = 3;
    arg_case(TY_F32, row, 1000, 0, 0, 3);
    arg_case(TY_F16, row, 1000, 0, 0, 7);
    arg_case(TY_U8, row, 1000, 0, 0, 7);
    arg_case(TY_F32, (const double[]){NAN, 6, 8}, 3, 0, 0, 2);
    arg_case(TY_F32, (const double[]){6, NAN, NAN}, 3, 1, 1, 2);
    for (int j = 0; j < 61; j++) row[j] = NAN;
    arg_case(TY_F32, row, 61, 0, 0, 3);
}

/* ---- FO-15 ---- */

static void FO_15(void **state) {
    (void)state;
    static const char gradient[] =
        "kernel g for rows (x: in T[rows, n], t: in i64[rows], dx: out T[rows, n], ignore: i64 = -1) {\n"
        "  e = exp(x - max(x))\n"
        "  dx = where(t == ignore, 0, e / sum(e) - where(idx(n) == t, 1, 0))\n}";
    static const char whole[] =
        "kernel w for b (x: in f32[b, rows, n], t: in i64[b, rows], s: out f32[b], m: out f32[b], ignore: i64 = -1) {\n"
        "  l = where(t == ignore, 0, logsumexp(x over n) - x[b, rows, t])\n"
        "  s = sum(l)\n  m = s / sum(where(t == ignore, 0, 1))\n}";
    float *x = field_memory(12), *loss = field_memory(4), *dx = field_memory(12), *s = field_memory(4),
          *m = field_memory(4);
    int64_t *t = field_memory(8);
    for (int p = 0; p < field_nplans; p++) {
        rowfold_kernel *k = field_try("cross_entropy.row:cross_entropy_ignore", "f32", "n=3", field_plans[p]);
        rowfold_kernel *g = field_try(gradient, "f32", "n=3", field_plans[p]),
                       *w = field_try(whole, NULL, "rows=1,n=3", field_plans[p]);
        x[0] = 1, x[1] = 2, x[2] = 3, t[0] = -1;
        if (k) {
            RUN(k, TENSOR(x, 1, 3), TENSOR(t, 1), TENSOR(loss, 1), SCALAR(-1));
            EXACT(loss[0], 0, "ignored");
        }
        if (g) {
            RUN(g, TENSOR(x, 1, 3), TENSOR(t, 1), TENSOR(dx, 1, 3), SCALAR(-1));
            for (int j = 0; j < 3; j++) EXACT(dx[j], 0, "gradient of an ignored row");
        }
        if (w) {
            RUN(w, TENSOR(x, 1, 1, 3), TENSOR(t, 1, 1), TENSOR(s, 1), TENSOR(m, 1), SCALAR(-1));
            EXACT(s[0], 0, "sum over ignored rows");
            EXACT(m[0], NAN, "mean over ignored rows: 0 / 0, as the arithmetic of the text has it");
        }
        x[0] = -INFINITY, x[1] = x[2] = 0, t[0] = 1;
        if (k) {
            RUN(k, TENSOR(x, 1, 3), TENSOR(t, 1), TENSOR(loss, 1), SCALAR(-1));
            NEAR(TY_F32, loss[0], 0.6931472, "loss");
        }
        if (g) {
            RUN(g, TENSOR(x, 1, 3), TENSOR(t, 1), TENSOR(dx, 1, 3), SCALAR(-1));
            EXACT(dx[0], 0, "gradient at -inf");
            EXACT(dx[1], -0.5, "gradient at the target");
            EXACT(dx[2], 0.5, "gradient elsewhere");
        }
    }
}

/* ---- FO-16 ---- */

static double fp8_row(int r, int j) {
    return r == 0 || (r == 1 && j < 128) ? 0 : r == 3 ? -448 : j / 256.0;
}

static void fp8_case(Ty ty, bool norm) {
    static const char plain[] =
        "kernel q for rows (x: in T[rows, g, k], q: out f8e4m3[rows, g, k], scale: out f32[rows, g], back: out "
        "f32[rows, g, k]) {\n"
        "  scale = maximum(max(abs(x) over k), 1e-10) / 448\n  c = f8e4m3(x / scale)\n  q = c\n  back = c * scale\n}";
    void *x = field_tensor_memory(ty, 1024), *w = field_tensor_memory(ty, 256);
    unsigned char *q = field_memory(1024), alone[256];
    float *scale = field_memory(32), *back = field_memory(4096);
    for (int i = 0; i < 1024; i++) put(ty, x, i, fp8_row(i / 256, i % 256));
    field_fill(ty, w, 256, one_at);
    SOME_PLANS(k, norm ? "quantize.row:rmsnorm_fp8_groups" : plain, ty_text(ty), "g=2,k=128", ty == TY_F32 ? 1 : 6) {
        if (norm)
            RUN(k, TENSOR(x, 4, 2, 128), TENSOR(w, 2, 128), TENSOR(q, 4, 2, 128), TENSOR(scale, 4, 2));
        else
            RUN(k, TENSOR(x, 4, 2, 128), TENSOR(q, 4, 2, 128), TENSOR(scale, 4, 2), TENSOR(back, 4, 2, 128));
        for (int i = 0; i < 8; i++) assert_true(isfinite(scale[i]) && scale[i] > 0);
        for (int i = 0; i < 384; i++) assert_int_equal(q[i], 0);
        for (int i = 384; i < 1024; i++) assert_int_not_equal(q[i] & 0x7F, 0x7F); /* no NaN */
        for (int i = 0; i < 384 && !norm; i++) EXACT(back[i], 0, "decoded zero");
        for (int i = 768; i < 1024 && !norm; i++) EXACT(get(TY_F8E4M3, q, i), -448, "row 3");
        if (!norm) {
            EXACT(scale[6], 1, "scale of row 3");
            memcpy(alone, q + 512, 256); /* row 1's second group is row 2's: zeros beside it change nothing */
            assert_memory_equal(q + 384, alone + 128, 128);
            assert_true(scale[3] == scale[5]);
        }
    }
}

static void FO_16(void **state) {
    (void)state;
    fp8_case(TY_F32, false), fp8_case(TY_BF16, false);
    fp8_case(TY_F32, true), fp8_case(TY_BF16, true);
}

/* ---- FO-17 ---- */

/* The 8 largest of a row as a program: each step takes the first largest (NaN above all) of those not taken yet; where
 * only -inf is left, the first that is not taken. */
static const char *top8(void) {
    static char text[4096];
    int n = snprintf(text, sizeof text, "kernel top8 for rows (x: in f32[rows, n]");
    for (int i = 0; i < 8; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, ", i%d: out i64[rows], v%d: out f32[rows]", i, i);
    n += snprintf(text + n, sizeof text - (size_t)n, ") {\n");
    for (int i = 0; i < 8; i++) {
        if (i == 0)
            n += snprintf(text + n, sizeof text - (size_t)n, "  i0 = argmax(x)\n");
        else
            n += snprintf(
                text + n, sizeof text - (size_t)n,
                "  x%d = where(w%d, -inf, x)\n  i%d = where(max(x%d) == -inf, argmin(i32(w%d)), argmax(x%d))\n", i, i,
                i, i, i, i);
        n += snprintf(text + n, sizeof text - (size_t)n, "  v%d = x[rows, i%d]\n", i, i);
        if (i == 0)
            n += snprintf(text + n, sizeof text - (size_t)n, "  w1 = idx(n) == i0\n");
        else
            n += snprintf(text + n, sizeof text - (size_t)n, "  w%d = w%d or idx(n) == i%d\n", i + 1, i, i);
    }
    snprintf(text + n, sizeof text - (size_t)n, "}");
    return text;
}

static void FO_17(void **state) {
    (void)state;
    enum { M = 1024, N = 64, K = 8 };
    float *x = field_memory(M * N * 4), *v[K];
    int64_t *at[K];
    for (int i = 0; i < K; i++) v[i] = field_memory(M * 4), at[i] = field_memory(M * 8);
    for (int r = 0; r < M; r++)
        for (int j = 0; j < N; j++) {
            int kind = r % 4;
            float u = field_u(64 * r + j);
            x[r * N + j] = kind == 0   ? -INFINITY
                           : kind == 1 ? (j == 5 ? NAN : u)
                           : kind == 2 ? u
                           : j == 1    ? 1
                           : j == 40   ? 2
                                       : -INFINITY;
        }
    static const char *const pins[] = {"W=16", "W=1,V=4", "W=32,hold.x=register"};
    for (int p = 0; p < COUNT(pins); p++) {
        rowfold_kernel *k = field_kernel(top8(), NULL, "n=64", pins[p]);
        rowfold_arg args[1 + 2 * K] = {TENSOR(x, M, N)};
        for (int i = 0; i < K; i++) args[1 + 2 * i] = TENSOR(at[i], M), args[2 + 2 * i] = TENSOR(v[i], M);
        field_run(k, args, 1 + 2 * K);
        for (int r = 0; r < M; r++) {
            uint64_t taken = 0;
            for (int i = 0; i < K; i++) {
                assert_in_range(at[i][r], 0, N - 1);
                assert_false(taken >> at[i][r] & 1);
                taken |= 1ull << at[i][r];
                EXACT(v[i][r], x[r * N + at[i][r]], "row %d value %d", r, i);
                if (i && !isnan(v[i - 1][r])) assert_true(v[i - 1][r] >= v[i][r]);
            }
            if (r % 4 == 1) assert_int_equal(at[0][r], 5);
            if (r % 4 == 3) assert_true(at[0][r] == 40 && at[1][r] == 1 && v[2][r] == -INFINITY);
            for (int j = 0; j < N; j++) /* nothing left out is larger than the last one taken */
                if (!(taken >> j & 1)) assert_true(x[r * N + j] <= v[K - 1][r]);
        }
    }
}

#define CASE(f) cmocka_unit_test_teardown(f, field_clean)
int main(void) {
    const struct CMUnitTest tests[] = {CASE(FO_01), CASE(FO_02), CASE(FO_03), CASE(FO_04), CASE(FO_05), CASE(FO_06),
                                       CASE(FO_07), CASE(FO_08), CASE(FO_09), CASE(FO_10), CASE(FO_11), CASE(FO_12),
                                       CASE(FO_13), CASE(FO_14), CASE(FO_15), CASE(FO_16), CASE(FO_17)};
    return cmocka_run_group_tests(tests, field_open, field_close);
}
