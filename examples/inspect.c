/* Everything that can be asked without running anything: the parameters of a program, and for a machine that need not
 * be here the chosen plan, the plan as loops and lanes, what one launch demands, the candidates, the source. */
#include <rowfold.h>
#include <stdio.h>
#include <string.h>

static const char text[] =
    "kernel layernorm for rows (x: in T[rows, n], g: in T[n], b: in T[n], y: out T[rows, n], eps: f32 = 1e-5) {\n"
    "    c = x - mean(x)\n"
    "    y = c * rsqrt(mean(c * c) + eps) * g + b\n"
    "}\n";

static void print_params(const rowfold_program *p) {
    static const char *const directions[] = {"in", "out", "inout", "scalar", "const"};
    for (int i = 0; i < rowfold_param_count(p); i++) {
        rowfold_param q;
        if (rowfold_param_get(p, i, &q) != ROWFOLD_OK) continue;
        printf("  %s: %s %s", q.name, directions[q.direction], q.type);
        for (int d = 0; d < q.rank; d++) printf("%s%s%s", d ? ", " : "[", q.axis[d], d + 1 == q.rank ? "]" : "");
        if (q.direction == ROWFOLD_SCALAR) printf(" = %g", q.value);
        printf("\n");
    }
}

/* Prints the first lines of what a kernel says of itself, and tells whether it says anything. */
static int print_some(const rowfold_kernel *k, rowfold_query q, const char *title, int lines) {
    const char *s = rowfold_kernel_text(k, q);
    printf("%s, %zu bytes:\n", title, strlen(s));
    for (int i = 0; i < lines && *s; i++) {
        const int n = (int)strcspn(s, "\n");
        printf("  %.*s\n", n > 150 ? 150 : n, s);
        s += n + (s[n] == '\n');
    }
    return *rowfold_kernel_text(k, q) != 0;
}

static int inspect(rowfold_context *ctx, const rowfold_program *program, const char *device) {
    rowfold_device *d = NULL;
    rowfold_kernel *kernel = NULL;
    rowfold_compile_options o;
    int good = 1;
    if (rowfold_device_find(ctx, device, &d) != ROWFOLD_OK) return 0;
    printf("\n%s: %s", rowfold_device_name(d), rowfold_device_caps(d));
    rowfold_compile_options_init(&o);
    o.device = d;
    o.shape = "n=4096"; /* rows are free until a launch */
    o.pin = "hold.x=register";
    if (rowfold_compile(ctx, program, &o, &kernel) != ROWFOLD_OK) {
        fprintf(stderr, "%s", rowfold_last_error(ctx)->text);
        return 0;
    }
    good &= print_some(kernel, ROWFOLD_PLAN, "plan", 1);
    good &= print_some(kernel, ROWFOLD_KERN, "kern", 12);
    good &= print_some(kernel, ROWFOLD_DEMAND, "demand", 1);
    good &= print_some(kernel, ROWFOLD_CANDIDATES, "candidates", 1);
    good &= print_some(kernel, ROWFOLD_SOURCE, "source", 3);
    good &= print_some(kernel, ROWFOLD_HEADER, "declarations", 3);
    good &= !*rowfold_kernel_text(kernel, ROWFOLD_VERDICT); /* nothing was run, so there is no verdict */
    rowfold_kernel_free(kernel);
    return good;
}

int main(void) {
    rowfold_context *ctx = NULL;
    rowfold_source *source = NULL;
    rowfold_program *program = NULL;
    int rc = 1;
    if (rowfold_context_new(NULL, &ctx) != ROWFOLD_OK) return 1;
    if (rowfold_source_parse(ctx, "layernorm.row", text, strlen(text), &source) == ROWFOLD_OK &&
        rowfold_program_new(ctx, source, "layernorm", "T=bf16", NULL, &program) == ROWFOLD_OK) {
        printf("%s\n", rowfold_program_name(program));
        print_params(program);
        rc = !(inspect(ctx, program, "preset:avx2") && inspect(ctx, program, "preset:avx512"));
    } else {
        fprintf(stderr, "%s", rowfold_last_error(ctx)->text);
    }
    rowfold_program_free(program);
    rowfold_source_free(source);
    rowfold_context_free(ctx);
    return rc;
}
