/* oneDNN in the same process as rowfold, in turns on the same buffers, f32, one thread:
 *
 *     cc -O2 -Iinclude peers/onednn_beside.c peers/onednn_rows.c -Lbuild/src -Wl,-rpath,$PWD/build/src -lrowfold -ldnnl
 * -lm -o onednn_beside OMP_NUM_THREADS=1 ./onednn_beside kernels/softmax.row softmax 1024 4096 [estimate|measure]
 *
 * KERNEL is softmax, log_softmax or layernorm. Both outputs are compared, then come 15 rounds of rowfold, oneDNN,
 * memcpy, the next backwards; printed are the medians of each and of the rounds' ratios, with their range. Exit 1: the
 * outputs differ. */
#define _DEFAULT_SOURCE
#include "rowfold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int onednn_open(const char *op, long rows, long n, float eps, const char **how);
int onednn_calls(char *from, char *to, char *weights, long step, long wstep, long first, long calls, long sets);

enum { ROUNDS = 15 };
typedef struct Job {
    rowfold_kernel *kernel;
    rowfold_arg arg[5];
    int nargs;
    float *x, *w, *y, *z; /* z: oneDNN's output */
    size_t bytes;
} Job;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int call(Job *j, int who) {
    if (who == 0) return rowfold_launch(j->kernel, j->arg, j->nargs) != ROWFOLD_OK;
    if (who == 1) return onednn_calls((char *)j->x, (char *)j->z, (char *)j->w, 0, 0, 0, 1, 1);
    memcpy(j->z, j->x, j->bytes);
    return 0;
}

/* ns a call, over 10 ms at least */
static double sample(Job *j, int who) {
    const double from = now_ns();
    int calls = 0;
    while (now_ns() - from < 1e7 && !call(j, who)) calls++;
    return calls ? (now_ns() - from) / calls : INFINITY;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *buffer(size_t bytes) {
    const size_t huge = (size_t)2 << 20, all = (bytes + huge - 1) / huge * huge;
    float *p = aligned_alloc(huge, all);
    if (!p) exit(1);
    madvise(p, all, MADV_HUGEPAGE);
    memset(p, 0x5A, all);
    return p;
}

static int failed(rowfold_context *c, const char *what) {
    const rowfold_error *e = c ? rowfold_last_error(c) : NULL;
    return fprintf(stderr, "onednn_beside: %s: %s\n", what, e ? e->message : "no context"), 1;
}

int main(int argc, char **argv) {
    static char text[1 << 20], shape[80];
    if (argc < 5) return fprintf(stderr, "usage: onednn_beside FILE KERNEL ROWS N [estimate|measure]\n"), 2;
    const long rows = strtol(argv[3], NULL, 10), n = strtol(argv[4], NULL, 10);
    const int norm = strcmp(argv[2], "layernorm") == 0;
    FILE *f = fopen(argv[1], "r");
    const size_t got = f ? fread(text, 1, sizeof text, f) : 0;
    if (!got || got == sizeof text || rows < 1 || n < 1 || rows > 1 << 24 || n > 1 << 24)
        return fprintf(stderr, "onednn_beside: %s cannot be read, or sizes are not 1 to 2^24\n", argv[1]), 2;
    fclose(f);
    rowfold_context *c;
    rowfold_source *source;
    rowfold_program *program;
    rowfold_compile_options o;
    if (rowfold_context_new(NULL, &c) != ROWFOLD_OK) return failed(NULL, "rowfold");
    Job j = {.bytes = (size_t)rows * (size_t)n * sizeof(float)};
    j.x = buffer(j.bytes), j.y = buffer(j.bytes), j.z = buffer(j.bytes), j.w = buffer(2 * (size_t)n * sizeof(float));
    for (long i = 0; i < rows * n; i++) j.x[i] = (float)((i * 7919 + i / 31) % 2003) / 250 - 4;
    for (long i = 0; i < 2 * n; i++) j.w[i] = (float)(i % 13) / 8;
    snprintf(shape, sizeof shape, "rows=%ld,n=%ld", rows, n);
    rowfold_compile_options_init(&o);
    o.shape = shape, o.threads = 1;
    o.effort = argc > 5 && strcmp(argv[5], "measure") == 0 ? ROWFOLD_MEASURE : ROWFOLD_ESTIMATE;
    if (rowfold_device_find(c, "host", &o.device) || rowfold_source_parse(c, argv[1], text, got, &source) ||
        rowfold_program_new(c, source, argv[2], "f32", NULL, &program) || rowfold_compile(c, program, &o, &j.kernel))
        return failed(c, argv[2]);
    const rowfold_arg in = {.data = j.x, .extent = {rows, n}}, out = {.data = j.y, .extent = {rows, n}};
    j.arg[j.nargs++] = in;
    for (int i = 0; i < 2 * norm; i++) j.arg[j.nargs++] = (rowfold_arg){.data = j.w + i * n, .extent = {n}};
    j.arg[j.nargs++] = out;
    if (norm) j.arg[j.nargs++] = (rowfold_arg){.value = 1e-5};
    const char *how = "";
    if (onednn_open(argv[2], rows, n, 1e-5f, &how)) return fprintf(stderr, "onednn_beside: oneDNN refuses\n"), 1;
    if (call(&j, 0)) return failed(c, "launch");
    if (call(&j, 1)) return fprintf(stderr, "onednn_beside: oneDNN fails\n"), 1;
    double worst = 0;
    for (long i = 0; i < rows * n; i++)
        worst = fmax(worst, fabs((double)j.y[i] - j.z[i]) / fmax(1e-3, fabs((double)j.z[i])));
    printf("plan     %s\noneDNN   %s; outputs differ by %.2g of their size at most\n",
           rowfold_kernel_text(j.kernel, ROWFOLD_PLAN), how, worst);
    double ns[3][ROUNDS], ratio[2][ROUNDS];
    for (int who = 0; who < 3; who++) sample(&j, who);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < 3; i++) ns[r % 2 ? 2 - i : i][r] = sample(&j, r % 2 ? 2 - i : i);
        ratio[0][r] = ns[1][r] / ns[0][r], ratio[1][r] = ns[0][r] / ns[2][r];
    }
    for (int i = 0; i < 3; i++) qsort(ns[i], ROUNDS, sizeof *ns[i], by_size);
    for (int i = 0; i < 2; i++) qsort(ratio[i], ROUNDS, sizeof *ratio[i], by_size);
    printf("us       rowfold %.2f  oneDNN %.2f  memcpy %.2f\n", ns[0][ROUNDS / 2] / 1e3, ns[1][ROUNDS / 2] / 1e3,
           ns[2][ROUNDS / 2] / 1e3);
    printf("ratios   oneDNN/rowfold %.2f [%.2f, %.2f]  rowfold/memcpy %.2f [%.2f, %.2f]\n", ratio[0][ROUNDS / 2],
           ratio[0][0], ratio[0][ROUNDS - 1], ratio[1][ROUNDS / 2], ratio[1][0], ratio[1][ROUNDS - 1]);
    rowfold_kernel_free(j.kernel), rowfold_program_free(program), rowfold_source_free(source), rowfold_context_free(c);
    return worst > 1e-3;
}
