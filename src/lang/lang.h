/* Floor 2: the row language. Text -> Ast (lang_parse), then one kernel of it with its types bound -> Prog
 * (lang_kernel). docs/language.md is the normative text. */
#ifndef ROWFOLD_LANG_H
#define ROWFOLD_LANG_H

#include "../ir/ir.h"

/* Limits; going past one is the error lang.limit. Axes, parameters, rank and extents are those of ir.h; values stop
 * short of it by what one node of the tree can add. */
enum {
    LANG_SOURCE = 1 << 20,
    LANG_NESTING = 200,
    LANG_KERNELS = 1000,
    LANG_NAME = MAX_NAME,
    LANG_NODES = 65536,
    LANG_VALUES = MAX_VALS - 24
};

typedef struct Ast Ast;

/* n bytes at text; any bytes at all. Reports as many faults as it finds, in the order of the text. On an error *out is
 * NULL. */
Err lang_parse(Cx *cx, const char *file, const char *text, size_t n, Ast **out);

int ast_kernels(const Ast *a);
const char *ast_kernel_name(const Ast *a, int i);
/* The type variables of a kernel in order of first appearance; returns how many. */
int ast_type_vars(const Ast *a, int kernel, const char *const **names);

typedef struct TyBind { /* name "*" binds every type variable that no other row binds */
    const char *name;
    Ty ty;
} TyBind;
typedef struct ConstBind { /* overrides the default of a const parameter */
    const char *name;
    double v;
} ConstBind;

/* kernel NULL: the only one of the file. The Prog passes prog_verify, owns its strings in cx->a, and does not point
 * into the Ast. */
Err lang_kernel(Cx *cx, const Ast *a, const char *kernel, const TyBind *ty, int nty, const ConstBind *k, int nk,
                Prog **out);

#endif
