/* Any bytes as a program: diagnostics, or programs that verify, print and read back to the same text. Memory stays in
 * proportion to the input. The entry is that of libFuzzer; the unit tests and stored corpora call it too. */
#include "../../src/lang/lang.h"

#include <stdlib.h>

#define MUST(x)            \
    do {                   \
        if (!(x)) abort(); \
    } while (0)

static const Ty types[] = {TY_F32, TY_F64, TY_BF16, TY_I32, TY_U64, TY_BOOL, TY_F8E4M3, TY_I8};

static void check_kernel(Arena *a, const Ast *ast, const char *name, Ty ty) {
    Cx cx = {.a = a};
    Prog *p = NULL, *again = NULL;
    TyBind bind = {"*", ty};
    Err e = lang_kernel(&cx, ast, name, &bind, 1, NULL, 0, &p);
    MUST((e == OK) == (p != NULL) && (e == OK) == (cx.ndiags == 0));
    for (const Diag *d = cx.first; d; d = d->next)
        MUST(d->at.line > 0 && (str_starts(slug_text(d->slug), "lang.") || d->slug == S_ARG));
    if (e) return;
    Buf one = buf_new(a), two = buf_new(a);
    prog_print(p, &one);
    MUST(prog_read(&cx, one.s, one.n, &again) == OK);
    prog_print(again, &two);
    MUST(str_eq(one.s, two.s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    Ast *ast = NULL;
    MUST(cx.a);
    Err e = lang_parse(&cx, "fuzz.row", (const char *)data, n, &ast);
    MUST((e == OK) == (ast != NULL) && (e == OK) == (cx.ndiags == 0));
    for (const Diag *d = cx.first; d; d = d->next)
        MUST(d->at.line > 0 && d->at.col > 0 && d->at.len > 0 && str_starts(slug_text(d->slug), "lang."));
    MUST(arena_bytes(cx.a) < (1u << 16) + 2048 * n);
    for (int i = 0; ast && i < ast_kernels(ast) && i < 8; i++) {
        Arena *a = arena_new(&alloc_libc, NULL);
        MUST(a);
        check_kernel(a, ast, ast_kernel_name(ast, i), types[n % COUNT(types)]);
        arena_free(a);
    }
    arena_free(cx.a);
    return 0;
}
