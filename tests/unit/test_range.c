/* Ranges of values and maxima that may pass a NaN over, on programs that earn them and on programs that must not. */
#include "../../src/lang/lang.h"
#include "../../src/pass/pass.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 100 };

/* The named value of a program over x[rows, n]; lo and hi are what real arithmetic gives. */
static const struct {
    const char *body, *name;
    double lo, hi, most;
} range[] = {
    {"m = max(x)\nd = x - m\ny = d", "d", -INFINITY, 0, FLT_MAX},
    {"m = min(x)\nd = x - m\ny = d", "d", 0, INFINITY, FLT_MAX},
    {"d = x - max(x + 1)\ny = d", "d", -INFINITY, INFINITY, FLT_MAX},
    {"e = exp(x - max(x))\ny = e", "e", 0, 1, 1},
    {"s = sum(exp(x - max(x)))\ny = x / s", "s", 1, N, N},
    {"s = sum(exp(2 * (x - max(x))))\ny = x / s", "s", 1, N, N},
    {"s = sum(exp(x[rows, 0] * (x - max(x)) / 3))\ny = x / s", "s", 1, INFINITY, FLT_MAX},
    {"s = sum(exp(2 / (x - max(x))))\ny = x / s", "s", 0, INFINITY, FLT_MAX},
    {"s = sum(exp(x - 1))\ny = x / s", "s", 0, INFINITY, FLT_MAX},
    {"q = x * x\ny = q", "q", 0, INFINITY, FLT_MAX},
    {"q = x * (x + 0)\ny = q", "q", -INFINITY, INFINITY, FLT_MAX},
    {"a = maximum(max(abs(x)), 1e-10) / 448\ny = x / a", "a", 1e-10 / 448, INFINITY, FLT_MAX / 448.0},
    {"r = sqrt(mean(x * x) + 1e-6)\ny = x / r", "r", 1e-3, INFINITY, FLT_MAX},
    {"g = sigmoid(x)\ny = g", "g", 0, 1, 1},
    {"t = tanh(x) - 3\ny = t", "t", -4, -2, 4},
    {"w = where(x > 0, 2.0, -0.5)\ny = w", "w", -0.5, 2, 2},
    {"b = minimum(maximum(x, -6), 6)\ny = b", "b", -6, 6, 6},
    {"u = 1 / (x * x)\ny = u", "u", -INFINITY, INFINITY, FLT_MAX},
};

/* May max(x) pass a NaN over? */
static const struct {
    const char *body;
    bool passes;
} nan_row[] = {
    {"m = max(x)\ne = exp(x - m)\ny = e / sum(e)", true},
    {"m = max(x)\ne = exp((x - m) * 0.5)\ny = e / sum(e)", true},
    {"m = max(x)\ny = exp(x - m)", false},                              /* only the NaN's own element would tell */
    {"m = max(x)\ny = m", false},                                       /* it is the result */
    {"m = max(x)\nd = x - m\ny = d - log(sum(exp(d)))", false},         /* the sign of a zero could show */
    {"m = max(x)\ne = exp(x - m)\ny = e / max(e)", false},              /* no sum */
    {"m = max(x)\ny = exp(x - m) / sum(exp(x))", true},                 /* another sum over the same elements */
    {"m = max(x)\ny = exp(x - m) / sum(where(x > 0, x, 1))", false},    /* the sum does not see every NaN */
    {"m = max(x)\ne = exp(x - m)\ny = where(sum(e) > 2, e, 0)", false}, /* a comparison hides the NaN */
    {"m = max(x)\ne = exp(minimum(x, 3) - m)\ny = e / sum(e)", false},  /* not the elements that it is the largest of */
    {"m = max(x)\ne = exp(x - m)\ny = e / sum(e) + m", false},
};

typedef struct Fix {
    Cx cx;
    Prog *p;
    const Range *range;
} Fix;

static void fix(Fix *f, const char *body) {
    *f = (Fix){.cx = {.a = arena_new(&alloc_libc, NULL)}};
    const char *text =
        arena_printf(f->cx.a, "kernel k for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n%s\n}\n", body);
    Ast *ast;
    Prog *p;
    Shape s = {0};
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    if (lang_parse(&f->cx, "k.row", text, strlen(text), &ast) || lang_kernel(&f->cx, ast, "k", NULL, 0, NULL, 0, &p))
        fail_msg("%s: %s", body, f->cx.first->msg);
    s.n[prog_axis(p, "n")] = N;
    assert_int_equal(shape_bind(&f->cx, p, &s), OK);
    f->p = pass_simplify(&f->cx, p, &s);
    f->range = pass_ranges(&f->cx, f->p, &s);
}

/* No narrower than it is, and no wider than roundings ask for. */
static bool near(double bound, double real, double sign) {
    if (isinf(real)) return bound == real;
    return sign * (bound - real) >= 0 && fabs(bound - real) <= fabs(real) * 1e-3;
}

static void test_range(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(range); i++) {
        Fix f;
        fix(&f, range[i].body);
        int v = 0;
        while (v < f.p->nvals && !(f.p->val[v].name && str_eq(f.p->val[v].name, range[i].name))) v++;
        assert_true(v < f.p->nvals);
        const Range r = f.range[v];
        if (!near(r.lo, range[i].lo, -1) || !near(r.hi, range[i].hi, 1) || !near(r.most, range[i].most, 1))
            fail_msg("%s: %s in [%g, %g], finite ones up to %g", range[i].body, range[i].name, r.lo, r.hi, r.most);
        arena_free(f.cx.a);
    }
}

static void test_nan(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(nan_row); i++) {
        Fix f;
        fix(&f, nan_row[i].body);
        int found = 0;
        for (int v = 0; v < f.p->nvals; v++) {
            const Val *m = &f.p->val[v];
            if (m->op != OP_RED || m->red != RED_MAX || !m->name) continue;
            found++;
            if (f.range[v].passes_nan != nan_row[i].passes)
                fail_msg("%s: max(x) %s pass a NaN over", nan_row[i].body, nan_row[i].passes ? "may" : "must not");
        }
        assert_int_equal(found, 1);
        arena_free(f.cx.a);
    }
}

/* A program whose values each use the one before twice: work must grow with its size, not with its paths. */
static void test_many_paths(void **state) {
    (void)state;
    char body[16384];
    int n = snprintf(body, sizeof body, "m = max(x)\nv0 = (x - m) * 1\n");
    for (int i = 1; i < 300; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, "v%d = v%d * (v%d + %d)\n", i, i - 1, i - 1, i);
    snprintf(body + n, sizeof body - (size_t)n, "y = exp(v299) / sum(exp(v299))");
    Fix f;
    fix(&f, body);
    assert_true(f.p->nvals > 300);
    arena_free(f.cx.a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_many_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
