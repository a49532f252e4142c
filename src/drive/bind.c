/* A kernel's text with the types, constants and extents that a caller gives as text -> Prog and Shape. */
#include "drive.h"

#include <math.h>
#include <string.h>

/* "name=value,name=value" in turn; false at the end. */
static bool pair_next(Arena *a, const char **at, const char **name, const char **value) {
    while (**at == ',' || **at == ' ') ++*at;
    if (!**at) return false;
    size_t n = strcspn(*at, ",");
    char *s = arena_str(a, *at, n), *eq = strchr(s, '=');
    *at += n;
    if (eq) *eq++ = 0;
    *name = s, *value = eq;
    return true;
}

static Err read_types(Cx *cx, const char *text, TyBind *ty, int max, int *n) {
    const char *name, *value;
    for (const char *at = text; pair_next(cx->a, &at, &name, &value); ++*n) {
        if (*n == max) return diag(cx, S_ARG, NOWHERE, NULL, "more than %d types are bound", max);
        const char *t = value ? value : name;
        ty[*n].name = value ? name : "*";
        if (!ty_find(t, strlen(t), &ty[*n].ty))
            return diag(cx, S_API_TYPE, NOWHERE, "bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3 f8e5m2 f16 bf16 f32 f64",
                        "'%.40s' is not a type", t);
        for (int i = 0; i < *n; i++)
            if (str_eq(ty[i].name, ty[*n].name))
                return diag(cx, S_API_TYPE, NOWHERE, "one type for each", "'%.40s' is given two types", ty[*n].name);
    }
    return OK;
}

static Err read_constants(Cx *cx, const char *text, ConstBind *k, int max, int *n) {
    const char *name, *value;
    for (const char *at = text; pair_next(cx->a, &at, &name, &value); ++*n) {
        if (*n == max) return diag(cx, S_ARG, NOWHERE, NULL, "more than %d constants are bound", max);
        char *end = NULL;
        k[*n].name = name;
        k[*n].v = value ? text_f64(value, &end) : 0;
        if (!value || !*value || *end)
            return diag(cx, S_API_CONSTANT, NOWHERE, "name=number", "'%.40s' is not given a number", name);
        if (!value[strspn(value, "+-0123456789")] && !(fabs(k[*n].v) < 0x1p53)) /* it travels as f64 */
            return diag(cx, S_API_CONSTANT, NOWHERE, "whole numbers below 9007199254740992, or a float",
                        "'%.40s' is given %.40s, which f64 may have no room for", name, value);
        for (int i = 0; i < *n; i++)
            if (str_eq(k[i].name, name))
                return diag(cx, S_API_CONSTANT, NOWHERE, "one number for each", "'%.40s' is given two numbers", name);
    }
    return OK;
}

Err bind_program(Cx *cx, const Ast *ast, const char *kernel, const char *types, const char *constants, Prog **out) {
    enum { MAX = 32 };
    TyBind ty[MAX];
    ConstBind k[MAX];
    int nty = 0, nk = 0;
    Err err = types ? read_types(cx, types, ty, MAX, &nty) : OK;
    if (!err && constants) err = read_constants(cx, constants, k, MAX, &nk);
    if (!kernel && ast_kernels(ast)) kernel = ast_kernel_name(ast, 0);
    return err ? err : lang_kernel(cx, ast, kernel, ty, nty, k, nk, out);
}

/* "rows=1024,n=4096", "n=1..4096" */
Err bind_shape(Cx *cx, const Prog *p, const char *text, Shape *s) {
    *s = (Shape){0};
    for (int i = 0; i < MAX_AXES; i++) s->n[i] = -1;
    for (const char *at = text ? text : ""; *at;) {
        size_t n = strcspn(at, ",");
        char *item = arena_str(cx->a, at, n), *eq = strchr(item, '=');
        at += n + (at[n] == ',');
        if (!n) continue;
        if (eq) *eq++ = 0;
        int axis = prog_axis(p, item);
        Shape given = {0};
        if (axis < 0)
            return diag(cx, S_API_SHAPE, NOWHERE, "the axes of the program", "%s has no axis '%.40s'", p->name, item);
        if (p->axis[axis].ext >= 0)
            return diag(cx, S_API_SHAPE, NOWHERE, NULL, "axis '%s' has its extent from the program", item);
        if (!eq || !extent_read(eq, &given, axis) || given.n[axis] < 0)
            return diag(cx, S_API_SHAPE, NOWHERE, "a whole number of at least 0, or a range like 1..4096",
                        "'%s' is given '%.40s'", item, eq ? eq : "");
        const int64_t v = given.n[axis];
        if (s->n[axis] >= 0 && (s->n[axis] != v || s->least[axis] != given.least[axis]))
            return diag(cx, S_API_SHAPE, NOWHERE, NULL, "'%s' is given twice: %lld and %lld", item,
                        (long long)s->n[axis], (long long)v);
        s->n[axis] = v, s->least[axis] = given.least[axis];
    }
    return shape_bind(cx, p, s);
}
