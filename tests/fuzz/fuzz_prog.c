/* Any bytes as a program's exact text: diagnostics, or a program that verifies and prints back to a text that reads to
 * the same one. */
#include "../../src/ir/ir.h"

#include <stdlib.h>

#define MUST(x)            \
    do {                   \
        if (!(x)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    Prog *p = NULL, *q = NULL;
    MUST(cx.a);
    const Err e = prog_read(&cx, (const char *)data, n, &p);
    MUST((e == OK) == (cx.ndiags == 0));
    if (e == OK) {
        Buf one = buf_new(cx.a), two = buf_new(cx.a);
        MUST(p && prog_verify(&cx, p) == OK);
        prog_print(p, &one);
        MUST(prog_read(&cx, one.s, one.n, &q) == OK);
        prog_print(q, &two);
        MUST(str_eq(one.s, two.s));
    }
    arena_free(cx.a);
    return 0;
}
