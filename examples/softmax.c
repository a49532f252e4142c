/* The shortest way in: a program's text, a plan by estimate, a launch on the caller's own memory. */
#include <math.h>
#include <rowfold.h>
#include <stdio.h>
#include <string.h>

static const char text[] = "kernel softmax for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
                           "    e = exp(x - max(x))\n"
                           "    y = e / sum(e)\n"
                           "}\n";
enum { ROWS = 3, N = 1000 };

static int failed(rowfold_context *ctx, const char *what) {
    fprintf(stderr, "%s: %s", what, rowfold_last_error(ctx)->text);
    return 1;
}

static int run(rowfold_context *ctx) {
    static float x[ROWS][N], y[ROWS][N];
    rowfold_source *source = NULL;
    rowfold_program *program = NULL;
    rowfold_kernel *kernel = NULL;
    rowfold_compile_options o;
    int rc = 0;

    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++) x[i][j] = (float)(j % 17) * (float)i;

    /* text -> program with T bound -> kernel for rows of N elements, on the host since our arrays lie in its memory */
    rowfold_compile_options_init(&o);
    o.shape = "n=1000";
    if (rowfold_device_find(ctx, "host", &o.device) != ROWFOLD_OK)
        rc = failed(ctx, "device");
    else if (rowfold_source_parse(ctx, "softmax.row", text, strlen(text), &source) != ROWFOLD_OK)
        rc = failed(ctx, "parse");
    else if (rowfold_program_new(ctx, source, "softmax", "f32", NULL, &program) != ROWFOLD_OK)
        rc = failed(ctx, "program");
    else if (rowfold_compile(ctx, program, &o, &kernel) != ROWFOLD_OK)
        rc = failed(ctx, "compile");

    /* One argument for each parameter; strides of zero mean dense. The number of rows is that of this call. */
    if (kernel) {
        const rowfold_arg args[] = {{.data = x, .extent = {ROWS, N}}, {.data = y, .extent = {ROWS, N}}};
        if (rowfold_launch(kernel, args, 2) != ROWFOLD_OK) rc = failed(ctx, "launch");
    }
    for (int i = 0; i < ROWS && !rc; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++) sum += (double)y[i][j];
        printf("row %d: y[0] = %g, sum = %.6f\n", i, (double)y[i][0], sum);
        /* each of N elements is rounded once, by at most half a unit of 2^-24 of itself; N/2^23 leaves room for exp and
         * the sum */
        if (!(fabs(sum - 1) <= N / 8388608.0)) rc = 1;
    }
    rowfold_kernel_free(kernel);
    rowfold_program_free(program);
    rowfold_source_free(source);
    return rc;
}

int main(void) {
    rowfold_context *ctx = NULL;
    if (rowfold_context_new(NULL, &ctx) != ROWFOLD_OK) return 1;
    const int rc = run(ctx);
    rowfold_context_free(ctx);
    return rc;
}
