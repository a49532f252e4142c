/* kernels/ -> programs. */
#include "library.h"

#include "../../src/base/os.h"
#include "../../src/lang/lang.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_file(Cx *cx, const char *path, Ty ty, LibKernel **out, int n, int *cap) {
    char *text;
    size_t bytes;
    Ast *ast;
    if (os_read_file(&alloc_libc, path, OS_ANY, 1 << 20, &text, &bytes)) return n;
    if (lang_parse(cx, path, arena_str(cx->a, text, bytes), bytes, &ast) == OK)
        for (int i = 0; i < ast_kernels(ast); i++) {
            TyBind bind = {"*", ty};
            GROW(cx->a, *out, n, *cap);
            LibKernel *k = &(*out)[n];
            *k = (LibKernel){arena_printf(cx->a, "%s", path), ast_kernel_name(ast, i), NULL};
            if (lang_kernel(cx, ast, k->name, &bind, 1, NULL, 0, &k->prog) == OK) n++;
        }
    free(text);
    return n;
}

int library_read(Cx *cx, Ty ty, LibKernel **out) {
    const char *root = getenv("ROWFOLD_ROOT");
    char dir[PATH_MAX - 256], path[PATH_MAX];
    struct dirent **names;
    snprintf(dir, sizeof dir, "%s/kernels", root ? root : ".");
    int n = 0, cap = 0, files = scandir(dir, &names, NULL, by_name);
    for (int i = 0; i < files; i++) {
        const char *dot = strrchr(names[i]->d_name, '.');
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        if (dot && str_eq(dot, ".row")) n = read_file(cx, path, ty, out, n, &cap);
        free(names[i]);
    }
    if (files >= 0) free(names);
    return cx->ndiags ? 0 : n;
}

Shape library_shape(const Prog *p, int64_t rows, int64_t n) {
    Shape s = {0};
    bool first = true;
    int last = -1;
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    for (int i = 0; i < p->naxes; i++) {
        if (p->axis[i].ext >= 0) continue;
        s.n[i] = !p->axis[i].row ? 3 : first ? rows : 2;
        first = first && !p->axis[i].row;
        if (!p->axis[i].row) last = i;
    }
    if (last >= 0) s.n[last] = n;
    return s;
}
