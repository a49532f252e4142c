/* With order=fixed and exp=own the bits of a result are the program's alone: every legal plan of the device at hand
 * (ROWFOLD_TEST_DEVICE, else this CPU) gives the outputs of this CPU; and a row's do not depend on how many there are.
 */
#include "field.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, N = 1500, MOST_PLANS = 400 };

static const struct {
    const char *name, *text, *pins;
} cases[] = {
    {"softmax",
     "kernel k for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n]) {\n  m = max(x)\n  e = exp(x - m)\n  y = e / "
     "sum(e) * w\n}",
     "hold.x,hold.e"},
    {"layernorm",
     "kernel k for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n]) {\n  c = x - mean(x)\n  y = c * rsqrt(mean(c "
     "* "
     "c) + 1e-5) * w\n}",
     "hold.x,hold.c"},
    {"functions", /* in the last sweep, where the many accumulators of the sum do not repeat them */
     "kernel k for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n]) {\n  s = sum(x * x)\n  y = (erf(x) + tanh(x) "
     "* "
     "log(abs(w) + 1) + pow(abs(x), w) + sigmoid(x) + exp2(w)) * rsqrt(s)\n}",
     ""},
};

/* NULL where the device's compiler does not make of a plan what it says. */
static rowfold_kernel *kernel_of(rowfold_device *dev, int c, const char *types, const char *pin, const char *search) {
    rowfold_context *cx = field_context();
    rowfold_source *src;
    rowfold_program *prog;
    rowfold_kernel *k = NULL;
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    assert_int_equal(rowfold_source_parse(cx, "x", cases[c].text, strlen(cases[c].text), &src), ROWFOLD_OK);
    assert_int_equal(rowfold_program_new(cx, src, NULL, types, NULL, &prog), ROWFOLD_OK);
    o.device = dev, o.shape = field_text("n=%d", N), o.pin = pin, o.search = search;
    if (rowfold_compile(cx, prog, &o, &k) == ROWFOLD_OK)
        field_adopt(k, prog);
    else if (!field_far() || strncmp(rowfold_last_error(cx)->slug, "build.", 6) != 0 ||
             rowfold_last_error(cx)->status != ROWFOLD_REFUSED)
        fail_msg("%s: %s", pin, rowfold_last_error(cx)->text);
    rowfold_program_free(prog), rowfold_source_free(src);
    return k;
}

/* The plans of the fixed order that the device may have, as pins. Returns how many; each takes one from `all`. */
static int plans_of(rowfold_device *dev, int c, const char *types, const char **all) {
    rowfold_kernel *k = kernel_of(dev, c, types, "order=fixed,exp=own", *cases[c].pins ? cases[c].pins : NULL);
    assert_non_null(k);
    json_t *list = json_loads(rowfold_kernel_text(k, ROWFOLD_CANDIDATES), 0, NULL), *t;
    int n = 0;
    size_t i;
    json_array_foreach(list, i,
                       t) if (strcmp(json_string_value(json_object_get(t, "fate")), "refused") != 0 && n < MOST_PLANS)
        all[n++] = field_text("%s", json_string_value(json_object_get(t, "plan")));
    json_decref(list);
    rowfold_kernel_free(k);
    return n;
}

static void one_result(int c, Ty ty) {
    rowfold_device *host;
    const char *all[MOST_PLANS];
    const int64_t row = N * ty_bytes(ty);
    char *x = field_memory(ROWS * row), *w = field_memory(row), *want = field_memory(ROWS * row),
         *y = field_memory(ROWS * row);
    assert_int_equal(rowfold_device_find(field_context(), "host", &host), ROWFOLD_OK);
    assert_int_equal(rowfold_fill("normal", ty_text(ty), x, ROWS * N, 7, 0), ROWFOLD_OK);
    assert_int_equal(rowfold_fill("normal", ty_text(ty), w, N, 8, 0), ROWFOLD_OK);
    rowfold_kernel *k = kernel_of(host, c, ty_text(ty), "order=fixed,exp=own", NULL);
    const rowfold_arg of_host[] = {TENSOR(x, ROWS, N), TENSOR(w, N), TENSOR(want, ROWS, N)};
    assert_int_equal(rowfold_launch(k, of_host, 3), ROWFOLD_OK);
    rowfold_kernel_free(k);
    const int n = plans_of(field_device(), c, ty_text(ty), all),
              step = field_nplans < 7 || !field_far() ? 1 + n / 6 : 1;
    int same = 0;
    for (int i = 0; i < n; i += step) {
        k = kernel_of(field_device(), c, ty_text(ty), all[i], NULL);
        if (!k) continue;
        memset(y, 0, (size_t)(ROWS * row));
        LAUNCH(k, TENSOR(x, ROWS, N), TENSOR(w, N), TENSOR(y, ROWS, N));
        if (!field_same(ty, want, y, ROWS * N)) fail_msg("%s %s: %s", cases[c].name, ty_text(ty), all[i]);
        rowfold_kernel_free(k);
        same++;
    }
    print_message("# %s %s: %d plans have this CPU's bits, %d more of %d were not built\n", cases[c].name, ty_text(ty),
                  same, (n + step - 1) / step - same, n);
    assert_true(same >= 2);
}

static void fixed_order_is_one_result(void **state) {
    (void)state;
    for (int c = 0; c < COUNT(cases); c++) one_result(c, c % 2 ? TY_BF16 : TY_F32);
}

/* One row, seven of them, 4,096 of them: in every order of additions. */
static void rows_do_not_matter(void **state) {
    (void)state;
    enum { MOST = 4096 };
    static const int counts[] = {1, 7, MOST};
    static const char *const pins[] = {"order=plan", "order=fixed", "order=serial"};
    const int n = 129;
    float *x = field_memory(MOST * n * 4), *w = field_memory(n * 4), *y = field_memory(MOST * n * 4),
          *first = field_memory(n * 4);
    for (int64_t i = 0; i < MOST * n; i++) x[i] = field_u(i % (7 * n));
    field_fill(TY_F32, w, n, u_at);
    for (int p = 0; p < COUNT(pins); p++) {
        rowfold_kernel *k = field_kernel(cases[1].text, "f32", field_text("n=%d", n), pins[p]);
        for (int c = 0; c < COUNT(counts); c++) {
            LAUNCH(k, TENSOR(x, counts[c], n), TENSOR(w, n), TENSOR(y, counts[c], n));
            if (!c) memcpy(first, y, (size_t)n * 4);
            for (int r = 0; r < counts[c]; r += 7)
                if (memcmp(y + (int64_t)r * n, first, (size_t)n * 4) != 0)
                    fail_msg("%s: row %d of %d", pins[p], r, counts[c]);
        }
    }
}

/* What is asked for stands, wherever in the text, or is refused. */
static void pins_are_exact(void **state) {
    (void)state;
    static const char *const pins[] = {"stat=online,order=fixed", "order=fixed,stat=online", "V=4,order=fixed",
                                       "combine=inner,order=fixed"};
    for (int i = 0; i < COUNT(pins) - field_far(); i++) /* the last is one that other devices do without */
        field_no_kernel(cases[0].text, "f32", "n=1500", pins[i], "search.no_legal_plan");
    const char *text =
        rowfold_kernel_text(field_kernel(cases[0].text, "f32", "n=1500", "exp=own,order=fixed"), ROWFOLD_PLAN);
    assert_true(strstr(text, "exp=own") && strstr(text, "order=fixed"));
}

#define CASE(f) cmocka_unit_test_teardown(f, field_clean)
int main(void) {
    const struct CMUnitTest tests[] = {CASE(fixed_order_is_one_result), CASE(rows_do_not_matter), CASE(pins_are_exact)};
    return cmocka_run_group_tests(tests, field_open, field_close);
}
