/* Any bytes as the text of a kern of softmax: diagnostics, or a kern that verifies, prints and reads back alike, can be
 * counted, and runs: to its end, or to a fault that the interpreter tells. Never an access outside. */
#include "../../src/gen/kern.h"
#include "../../src/lang/lang.h"

#include <stdlib.h>
#include <string.h>

#define MUST(x)            \
    do {                   \
        if (!(x)) abort(); \
    } while (0)

enum { ROWS = 2, N = 37, WORK = 1 << 20 };

static Prog *softmax(Cx *cx) {
    static const char text[] = "kernel softmax for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n"
                               "    m = max(x)\n    e = exp(x - m)\n    y = e / sum(e)\n}\n";
    Ast *ast;
    Prog *p;
    MUST(lang_parse(cx, "fuzz.row", text, sizeof text - 1, &ast) == OK);
    MUST(lang_kernel(cx, ast, NULL, NULL, 0, NULL, 0, &p) == OK);
    return p;
}

/* Loops and domains may be as long as the text says; only short runs are tried. */
static bool is_short(const Kern *k) {
    int64_t work = k->nins + 1;
    for (int i = 0; i < k->ndomains; i++)
        if (!mul_fits(work, i64_max(1, k->domain[i].n_mapped), &work) ||
            !mul_fits(work, i64_max(1, k->domain[i].n_serial), &work))
            return false;
    for (int i = 0; i < k->nnodes; i++)
        if (k->node[i].kind == NODE_LOOP && !mul_fits(work, i64_max(1, k->node[i].count), &work)) return false;
    for (int i = 0; i < k->narrays; i++)
        if (k->array[i].n > WORK) return false;
    return mul_fits(work, k->plan.W, &work) && work < WORK;
}

static void run(Cx *cx, const Kern *k) {
    float x[ROWS * N] = {1, -2, 3}, y[ROWS * N];
    Slot s[16] = {{0}};
    const void *lo[] = {x, y}, *hi[] = {x + ROWS * N, y + ROWS * N};
    KernRun r;
    if (k->abi.nslots > 16) return;
    s[k->abi.ptr[0]].p = x, s[k->abi.ptr[1]].p = y;
    s[k->abi.row[0]].i = ROWS;
    for (int q = 0; q < 2; q++) s[k->abi.stride[q][0]].i = N, s[k->abi.stride[q][1]].i = 1;
    memset(y, 0, sizeof y);
    kern_run(cx, k, s, ROWS, lo, hi, &r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    Kern *k = NULL, *q = NULL;
    MUST(cx.a);
    const Prog *p = softmax(&cx);
    const Err e = kern_read(&cx, p, (const char *)data, n, &k);
    MUST((e == OK) == (cx.ndiags == 0));
    if (e == OK) {
        Buf one = buf_new(cx.a), two = buf_new(cx.a);
        Demand d;
        MUST(kern_verify(&cx, k) == OK);
        kern_print(k, &one);
        MUST(kern_read(&cx, p, one.s, one.n, &q) == OK);
        kern_print(q, &two);
        MUST(str_eq(one.s, two.s));
        kern_count(&cx, k, &d);
        if (is_short(k)) run(&cx, k);
    }
    arena_free(cx.a);
    return 0;
}
