/* Tuning from a program: candidates are compiled, checked and timed under a budget, with progress; the winner in
 * figures, and the receipt, which says all that the choice rests on. */
#include <rowfold.h>
#include <stdio.h>
#include <string.h>

static const char text[] =
    "kernel rmsnorm for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n], eps: f32 = 1e-6) {\n"
    "    y = x * rsqrt(mean(x * x) + eps) * w\n"
    "}\n";

/* Called between candidates, from the thread that compiles. Anything but 0 stops with the best so far. */
static int progress(void *user, const rowfold_progress *p) {
    int *calls = user;
    ++*calls;
    printf("%lld of %lld tried, best %.3g us, %.1f s\n", (long long)p->tried, (long long)p->total, p->best_s * 1e6,
           p->elapsed_s);
    return 0;
}

static int tune(rowfold_context *ctx, const rowfold_program *program) {
    rowfold_kernel *kernel = NULL;
    rowfold_compile_options o;
    int calls = 0;
    rowfold_compile_options_init(&o);
    o.shape = "rows=64,n=1024"; /* to time, the number of rows must be known */
    o.effort = ROWFOLD_MEASURE;
    o.max_candidates = 4;
    o.max_seconds = 20;
    o.seed = 7;
    o.progress = progress;
    o.progress_user = &calls;
    if (rowfold_compile(ctx, program, &o, &kernel) != ROWFOLD_OK) {
        fprintf(stderr, "compile: %s", rowfold_last_error(ctx)->text);
        return 1;
    }
    rowfold_stats s = {.struct_size = sizeof s};
    rowfold_kernel_stats(kernel, &s);
    printf("%lld candidates: %lld refused, %lld failed, %lld timed\n", (long long)s.candidates, (long long)s.refused,
           (long long)s.failed, (long long)s.timed);
    printf("plan    %s\n", rowfold_kernel_text(kernel, ROWFOLD_PLAN));
    printf("time    %.3g us, %.1f GB/s, %.0f%% of a copy\n", s.time_s * 1e6, s.bytes / s.time_s / 1e9,
           100 * s.copy_s / s.time_s);
    printf("error   %.3g of its bound\n", s.worst_error);
    printf("receipt %zu bytes of JSON\n", strlen(rowfold_kernel_text(kernel, ROWFOLD_RECEIPT)));
    const int good = calls > 0 && s.timed > 0 && s.time_s > 0 && s.worst_error <= 1 &&
                     *rowfold_kernel_text(kernel, ROWFOLD_RECEIPT) == '{';
    rowfold_kernel_free(kernel);
    return !good;
}

int main(void) {
    rowfold_context *ctx = NULL;
    rowfold_source *source = NULL;
    rowfold_program *program = NULL;
    int rc = 1;
    if (rowfold_context_new(NULL, &ctx) != ROWFOLD_OK) return 1;
    if (rowfold_source_parse(ctx, "rmsnorm.row", text, strlen(text), &source) == ROWFOLD_OK &&
        rowfold_program_new(ctx, source, NULL, "f32", NULL, &program) == ROWFOLD_OK)
        rc = tune(ctx, program);
    else
        fprintf(stderr, "%s", rowfold_last_error(ctx)->text);
    rowfold_program_free(program);
    rowfold_source_free(source);
    rowfold_context_free(ctx);
    return rc;
}
