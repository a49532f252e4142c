/* What can go wrong, and what is said about it: every failure has a status, a slug, a message with the offending value,
 * what would have been accepted, and a way out. Results are untouched, and the context goes on. */
#include <rowfold.h>
#include <stdio.h>
#include <string.h>

static const char good[] = "kernel scale for rows (x: in f32[rows, n], y: out f32[rows, n]) { y = x / max(x) }\n";
static const char bad[] = "kernel scale for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n"
                          "    y = x / maxx(x)\n"
                          "    z = q + 1\n"
                          "}\n";

/* Prints the last failure; 1 when it is the expected one. */
static int expect(rowfold_context *ctx, const char *what, rowfold_status got, rowfold_status wanted) {
    const rowfold_error *e = rowfold_last_error(ctx);
    printf("\n%s: %s (%s)\n%s", what, rowfold_status_name(got), e->slug, e->text);
    if (*e->hint) printf("    hint: %s\n", e->hint);
    if (e->line) printf("    at %s:%d:%d\n", e->file, e->line, e->column);
    printf("    rowfold explain %s: %.60s...\n", e->slug, rowfold_explain(e->slug) ? rowfold_explain(e->slug) : "");
    return got == wanted && e->status == wanted && *e->slug && *e->message && rowfold_explain(e->slug) != NULL &&
           *e->json == '[';
}

static int all(rowfold_context *ctx) {
    static float x[4][64], y[4][64];
    rowfold_source *source = NULL, *broken = NULL;
    rowfold_program *program = NULL;
    rowfold_kernel *kernel = NULL, *none = NULL;
    rowfold_device *device = NULL;
    rowfold_compile_options o;
    int ok = 1;

    /* A text with two faults: both are reported at once. */
    ok &= expect(ctx, "parse",
                 rowfold_source_parse(ctx, "bad.row", bad, strlen(bad), &broken) != ROWFOLD_OK
                     ? rowfold_last_error(ctx)->status
                     : rowfold_program_new(ctx, broken, NULL, NULL, NULL, &program),
                 ROWFOLD_LANGUAGE);
    rowfold_source_free(broken);
    ok &= program == NULL;

    if (rowfold_source_parse(ctx, "good.row", good, strlen(good), &source) != ROWFOLD_OK ||
        rowfold_program_new(ctx, source, NULL, NULL, NULL, &program) != ROWFOLD_OK)
        return 0;
    rowfold_compile_options_init(&o);
    if (rowfold_device_find(ctx, "host", &o.device) != ROWFOLD_OK) return 0;
    ok &= expect(ctx, "a shape is missing", rowfold_compile(ctx, program, &o, &none), ROWFOLD_ARGUMENT);
    o.shape = "n=64";
    o.pin = "W=1024,hold.x=shared"; /* hosts have no shared memory: refused, not replaced */
    ok &= expect(ctx, "a plan that cannot be", rowfold_compile(ctx, program, &o, &none), ROWFOLD_REFUSED);
    ok &= expect(ctx, "no such device", rowfold_device_find(ctx, "cuda:77", &device), ROWFOLD_UNAVAILABLE);
    ok &= none == NULL && device == NULL; /* untouched */

    o.pin = NULL;
    if (rowfold_compile(ctx, program, &o, &kernel) != ROWFOLD_OK) return 0;
    const rowfold_arg shared[] = {{.data = x, .extent = {4, 64}}, {.data = x, .extent = {4, 64}}};
    const rowfold_arg shorter[] = {{.data = x, .extent = {4, 64}}, {.data = y, .extent = {3, 64}}};
    const rowfold_arg right[] = {{.data = x, .extent = {4, 64}}, {.data = y, .extent = {4, 64}}};
    ok &= expect(ctx, "output over input", rowfold_launch(kernel, shared, 2), ROWFOLD_LAUNCH);
    ok &= expect(ctx, "rows that differ", rowfold_launch(kernel, shorter, 2), ROWFOLD_LAUNCH);
    x[0][0] = 2;
    ok &= rowfold_launch(kernel, right, 2) == ROWFOLD_OK && y[0][0] == 1; /* after all that, it works */
    rowfold_kernel_free(kernel);
    rowfold_program_free(program);
    rowfold_source_free(source);
    return ok;
}

int main(void) {
    rowfold_context *ctx = NULL;
    if (rowfold_context_new(NULL, &ctx) != ROWFOLD_OK) return 1;
    const int ok = all(ctx);
    rowfold_context_free(ctx);
    return !ok;
}
