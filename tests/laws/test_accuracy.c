/* Errors stay within bounds that are computed here from the plan, on inputs where they are hard to keep: sums of a
 * million terms, variances of rows far from zero, rows of softmax over a range of 10^4. */
#include "field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double u = 0x1p-24; /* what rounding to f32 may change, relatively */

static int number_in(const char *plan, const char *name) {
    return (int)strtol(strstr(plan, name) + strlen(name), NULL, 10);
}

/* Additions that any term goes through: those of its lane's accumulator, then the tree over lanes and accumulators. */
static double depth(rowfold_kernel *k, int64_t n) {
    const char *plan = rowfold_kernel_text(k, ROWFOLD_PLAN);
    const int64_t W = number_in(plan, "W="), V = number_in(plan, " V="), F = number_in(plan, " flight="),
                  acc = number_in(plan, " acc=");
    const int64_t chunks = (n + W * V - 1) / (W * V);
    const double own = (double)((chunks + acc - 1) / acc * V < n ? (chunks + acc - 1) / acc * V : n);
    return own + (double)(V * F) + ceil(log2((double)(W * acc)));
}

static const char *const pins[] = {NULL, "W=16", "W=64,acc=4", "W=32,V=2", "W=1"}; /* the last adds one by one */

/* Bounds allow for the worst of roundings; what trees are for is that theirs are far below those of adding one by one.
 */
static void trees_are_better(const double *off) {
    for (int p = 0; p + 1 < COUNT(pins); p++)
        if (off[p] * 8 > off[COUNT(pins) - 1])
            fail_msg("%s is off by %g, one by one by %g", pins[p] ? pins[p] : "", off[p], off[COUNT(pins) - 1]);
}

static void a_million_terms(void **state) {
    (void)state;
    enum { N = 1000000 };
    float *x = field_memory(N * 4), *s = field_memory(4);
    double sum = 0, size = 0, off[COUNT(pins)];
    assert_int_equal(rowfold_fill("normal", "f32", x, N, 3, 0), ROWFOLD_OK);
    for (int i = 0; i < N; i++) x[i] += 0.25f; /* so that the sum is some share of what is added */
    for (int i = 0; i < N; i++) sum += x[i], size += fabs(x[i]);
    for (int p = 0; p < COUNT(pins); p++) {
        rowfold_kernel *k = field_kernel("reduce.row:sum", "T=f32,S=f32", "n=1000000", pins[p]);
        RUN(k, TENSOR(x, 1, N), TENSOR(s, 1));
        const double bound = depth(k, N) * u * size;
        off[p] = fabs(s[0] - sum);
        if (off[p] > bound) fail_msg("%s: off by %g, %g allowed", pins[p] ? pins[p] : "", off[p], bound);
        print_message("# sum of 10^6, %s: %.3g of its bound, %.3g of the sum\n", pins[p] ? pins[p] : "as planned",
                      off[p] / bound, off[p] / sum);
    }
    trees_are_better(off);
}

/* Two sweeps: the variance is that about the mean that f32 has, and the square of how far that one is off. */
static void far_from_zero(void **state) {
    (void)state;
    enum { N = 4096 };
    float *x = field_memory(N * 4), *v = field_memory(4);
    double mean = 0, var = 0, off[COUNT(pins)];
    assert_int_equal(rowfold_fill("normal", "f32", x, N, 5, 0), ROWFOLD_OK);
    for (int i = 0; i < N; i++) x[i] += 10000, mean += (double)x[i] / N;
    for (int i = 0; i < N; i++) var += (x[i] - mean) * (x[i] - mean) / N;
    for (int p = 0; p < COUNT(pins); p++) {
        const char *pin = pins[p] ? field_text("%s,stat=two-pass", pins[p]) : "stat=two-pass";
        rowfold_kernel *k = field_kernel("reduce.row:variance", "T=f32,S=f32", "n=4096", pin);
        RUN(k, TENSOR(x, 1, N), TENSOR(v, 1));
        const double d = depth(k, N), about = (d + 1) * u * mean,
                     bound = about * about + (d + 5) * u * (var + about * about);
        off[p] = fabs(v[0] - var);
        if (off[p] > bound) fail_msg("%s: variance off by %g, %g allowed", pin, off[p], bound);
        print_message("# variance at 10^4 deviations, %s: %.3g of its bound, %.3g of the variance\n", pin,
                      off[p] / bound, off[p] / var);
    }
    trees_are_better(off);
    static const char *const stats[] = {"W=16,stat=shifted", "W=32,stat=welford,V=2"};
    for (int p = 0; p < COUNT(stats); p++) /* one sweep: the definition's own bounds, which know the statistic */
        RUN(field_kernel("reduce.row:variance", "T=f32,S=f32", "n=4096", stats[p]), TENSOR(x, 1, N), TENSOR(v, 1));
}

static void wide_rows(void **state) {
    (void)state;
    enum { N = 5000 };
    float *x = field_memory(N * 4), *y = field_memory(N * 4);
    double sum = 0;
    for (int i = 0; i < N; i++) x[i] = 10000 * (field_u(i) - 0.5f);
    for (int i = 0; i < N / 8; i++) x[i * 8] = 5000 - (float)(i % 97); /* some of them count */
    float top = x[0];
    for (int i = 0; i < N; i++) top = fmaxf(top, x[i]);
    for (int i = 0; i < N; i++) sum += exp((double)x[i] - top);
    for (int p = 0; p < COUNT(pins); p++) {
        rowfold_kernel *k = field_kernel("softmax.row:softmax", "f32", "n=5000", pins[p]);
        RUN(k, TENSOR(x, 1, N), TENSOR(y, 1, N));
        for (int i = 0; i < N; i++) {
            /* x - max is rounded, and exp turns its units into relative ones; exp is 2 ulp off at most, each term of
             * the sum as the element itself, the quotient rounds once or, with a reciprocal, twice */
            const double arg = (double)top - x[i], want = exp(-arg) / sum,
                         bound = want * (2 * (104 + 4) + depth(k, N) + 4) * u + 0x1p-149;
            if (arg < 80 ? fabs(y[i] - want) > bound : y[i] < 0 || y[i] > want * 1.001 + 0x1p-126)
                fail_msg("%s: element %d is %g, want %g", pins[p] ? pins[p] : "", i, (double)y[i], want);
        }
    }
}

#define CASE(f) cmocka_unit_test_teardown(f, field_clean)
int main(void) {
    const struct CMUnitTest tests[] = {CASE(a_million_terms), CASE(far_from_zero), CASE(wide_rows)};
    return cmocka_run_group_tests(tests, field_open, field_close);
}
