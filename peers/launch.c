/* What rowfold_launch takes where a kernel does next to nothing: one row of 16 floats, the kernel within, ns, the least
 * of 2,000 batches of 2,000 calls.
 *
 *     cc -O2 -Iinclude peers/launch.c -Lbuild/src -Wl,-rpath,$PWD/build/src -lrowfold -o launch && ./launch */
#define _DEFAULT_SOURCE
#include "rowfold.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void) {
    enum { BATCHES = 2000, CALLS = 2000, N = 16 };
    static const char text[] = "kernel twice for rows (x: in T[rows, n], y: out T[rows, n]) {\n    y = x + x\n}\n";
    static float x[N], y[N];
    rowfold_context *c;
    rowfold_source *source;
    rowfold_program *program;
    rowfold_kernel *kernel;
    rowfold_compile_options o;
    if (rowfold_context_new(NULL, &c) != ROWFOLD_OK) return fprintf(stderr, "launch: no context\n"), 1;
    rowfold_compile_options_init(&o);
    o.shape = "n=16";
    if (rowfold_device_find(c, "host", &o.device) ||
        rowfold_source_parse(c, "twice.row", text, strlen(text), &source) ||
        rowfold_program_new(c, source, "twice", "f32", NULL, &program) || rowfold_compile(c, program, &o, &kernel))
        return fprintf(stderr, "launch: %s\n", rowfold_last_error(c)->message), 1;
    const rowfold_arg arg[] = {{.data = x, .extent = {1, N}}, {.data = y, .extent = {1, N}}};
    double least = 1e9;
    for (int b = 0; b < BATCHES; b++) {
        const double from = now_ns();
        for (int i = 0; i < CALLS; i++)
            if (rowfold_launch(kernel, arg, 2) != ROWFOLD_OK) return fprintf(stderr, "launch: refused\n"), 1;
        const double ns = (now_ns() - from) / CALLS;
        if (ns < least) least = ns;
    }
    printf("rowfold_launch %.0f ns\n", least);
    rowfold_kernel_free(kernel), rowfold_program_free(program), rowfold_source_free(source), rowfold_context_free(c);
    return 0;
}
