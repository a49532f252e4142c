/* One kernel for many lengths, and what it costs: a kernel is compiled for every extent up to MOST, and for MOST and
 * its half alone; the times of both are taken in turns, A B B A, and compared pair by pair.
 *
 *     example_ranged [FILE KERNEL ROWS MOST [DEVICE [CANDIDATES [ROUNDS [PIN]]]]]
 *
 * CANDIDATES: plans that are timed to choose one of each, 0 (as without arguments): the cost policy chooses. */
#include <rowfold.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARAMS = 32, TURNS = 2, MOST_ROUNDS = 99 };

typedef struct Ask {
    const char *file, *kernel, *device, *pin;
    long long rows, most;
    int candidates, rounds;
    double sample_s;
} Ask;

typedef struct Side {
    rowfold_kernel *kernel;
    rowfold_bound *bound;
    int calls;
} Side;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds a call, of a batch that ends when its first output's first bytes can be read. */
static double batch(const Side *s, const rowfold_memory *m) {
    float first;
    const double from = now();
    for (int i = 0; i < s->calls; i++)
        if (rowfold_run(s->bound) != ROWFOLD_OK) return -1;
    if (rowfold_memory_read(m, 0, &first, sizeof first) != ROWFOLD_OK) return -1;
    return (now() - from) / s->calls;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compile(rowfold_context *ctx, const rowfold_program *p, const Ask *q, const char *shape, Side *s) {
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    if (rowfold_device_find(ctx, q->device, &o.device) != ROWFOLD_OK) return 0;
    o.shape = shape;
    o.effort = q->candidates ? ROWFOLD_MEASURE : ROWFOLD_ESTIMATE;
    o.max_candidates = q->candidates;
    o.threads = 1;
    o.pin = q->pin;
    return rowfold_compile(ctx, p, &o, &s->kernel) == ROWFOLD_OK;
}

/* Both kernels on the same memory of extent n, in turns; prints the median of the paired ratios. */
static int compare(rowfold_context *ctx, const rowfold_program *p, const Ask *q, Side *range, Side *alone,
                   long long n) {
    const int params = rowfold_param_count(p);
    rowfold_arg arg[PARAMS];
    rowfold_memory *memory[PARAMS] = {NULL}, *out = NULL;
    rowfold_device *device = NULL;
    double ratio[MOST_ROUNDS], times[2][MOST_ROUNDS];
    int ok = params <= PARAMS && rowfold_device_find(ctx, q->device, &device) == ROWFOLD_OK;
    memset(arg, 0, sizeof arg);
    for (int i = 0; ok && i < params; i++) {
        rowfold_param a;
        long long count = 1;
        rowfold_param_get(p, i, &a);
        arg[i].value = a.value;
        if (a.direction == ROWFOLD_SCALAR || a.direction == ROWFOLD_CONST) continue;
        for (int d = 0; d < a.rank; d++) count *= arg[i].extent[d] = a.is_row[d] ? q->rows : n;
        const size_t bytes = (size_t)count * 4; /* the type is f32 */
        void *host = malloc(bytes);
        ok = host && rowfold_fill("normal", a.type, host, count, (uint64_t)i + 1, 0) == ROWFOLD_OK &&
             rowfold_memory_new(ctx, device, bytes, &memory[i]) == ROWFOLD_OK &&
             rowfold_memory_write(memory[i], 0, host, bytes) == ROWFOLD_OK;
        free(host);
        if (!ok) break;
        arg[i].data = rowfold_memory_data(memory[i]);
        if (a.direction != ROWFOLD_IN) out = memory[i];
    }
    Side *side[2] = {range, alone};
    for (int k = 0; ok && k < 2; k++) {
        Side *s = side[k];
        ok = out && rowfold_bind(s->kernel, arg, params, &s->bound) == ROWFOLD_OK;
        for (s->calls = 1; ok; s->calls *= 2) { /* as many calls as fill a sample; also the warm-up */
            const double t = batch(s, out);
            ok = t >= 0;
            if (t * s->calls > q->sample_s) break;
        }
    }
    for (int r = 0; ok && r < q->rounds; r++) {
        double t[2] = {0, 0};
        for (int turn = 0; turn < 2 * TURNS; turn++) {
            const int k = (turn + 1) / 2 % 2 ^ (r % 2); /* A B B A, then B A A B */
            const double s = batch(side[k], out);
            ok &= s > 0;
            t[k] += s / TURNS;
        }
        ratio[r] = t[0] / t[1];
        times[0][r] = t[0], times[1][r] = t[1];
    }
    for (int k = 0; k < 2; k++) rowfold_bound_free(side[k]->bound), side[k]->bound = NULL;
    for (int i = 0; i < params && i < PARAMS; i++) rowfold_memory_free(memory[i]);
    if (!ok) return 0;
    qsort(ratio, (size_t)q->rounds, sizeof *ratio, ascending);
    for (int k = 0; k < 2; k++) qsort(times[k], (size_t)q->rounds, sizeof **times, ascending);
    printf("%-12s %lldx%-6lld range %9.2f us  alone %9.2f us  range/alone %.3f (%.3f to %.3f, %d rounds)\n",
           rowfold_program_name(p), q->rows, n, times[0][q->rounds / 2] * 1e6, times[1][q->rounds / 2] * 1e6,
           ratio[q->rounds / 2], ratio[0], ratio[q->rounds - 1], q->rounds);
    return 1;
}

static int all(rowfold_context *ctx, const rowfold_program *p, const Ask *q) {
    Side range = {0}, alone = {0};
    char shape[200];
    snprintf(shape, sizeof shape, "rows=%lld,n=1..%lld", q->rows, q->most);
    int ok = compile(ctx, p, q, shape, &range);
    for (int half = 0; ok && half < 2; half++) {
        const long long n = half ? q->most / 2 : q->most;
        snprintf(shape, sizeof shape, "rows=%lld,n=%lld", q->rows, n);
        ok = compile(ctx, p, q, shape, &alone) && compare(ctx, p, q, &range, &alone, n);
        if (ok && strcmp(rowfold_kernel_text(range.kernel, ROWFOLD_PLAN),
                         rowfold_kernel_text(alone.kernel, ROWFOLD_PLAN)) != 0)
            printf("    planned for the range: %s\n    for %lld alone:        %s\n",
                   rowfold_kernel_text(range.kernel, ROWFOLD_PLAN), n, rowfold_kernel_text(alone.kernel, ROWFOLD_PLAN));
        rowfold_kernel_free(alone.kernel);
        alone.kernel = NULL;
    }
    rowfold_kernel_free(range.kernel);
    return ok;
}

int main(int argc, char **argv) {
    Ask q = {"kernels/softmax.row", "softmax", "host", NULL, 16, 256, 0, 3, 0.0005};
    if (argc > 4)
        q.file = argv[1], q.kernel = argv[2], q.rows = strtoll(argv[3], NULL, 10), q.most = strtoll(argv[4], NULL, 10);
    if (argc > 4) q.rounds = 21, q.sample_s = 0.01;
    if (argc > 5) q.device = argv[5];
    if (argc > 6) q.candidates = (int)strtol(argv[6], NULL, 10);
    if (argc > 7) q.rounds = (int)strtol(argv[7], NULL, 10);
    if (argc > 8) q.pin = argv[8];
    if (q.rounds < 1 || q.rounds > MOST_ROUNDS || q.rows < 1 || q.most < 4) return 2;
    static char text[1 << 20];
    FILE *f = fopen(q.file, "rb");
    const size_t bytes = f ? fread(text, 1, sizeof text, f) : 0;
    if (!f || fclose(f)) return fprintf(stderr, "cannot read %s\n", q.file), 1;
    rowfold_context *ctx = NULL;
    rowfold_source *source = NULL;
    rowfold_program *program = NULL;
    if (rowfold_context_new(NULL, &ctx) != ROWFOLD_OK) return 1;
    const int ok = rowfold_source_parse(ctx, q.file, text, bytes, &source) == ROWFOLD_OK &&
                   rowfold_program_new(ctx, source, q.kernel, "f32", NULL, &program) == ROWFOLD_OK &&
                   all(ctx, program, &q);
    if (!ok) fprintf(stderr, "%s\n", rowfold_last_error(ctx)->text);
    rowfold_program_free(program);
    rowfold_source_free(source);
    rowfold_context_free(ctx);
    return ok ? 0 : 1;
}
