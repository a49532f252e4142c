/* Source text -> parsed file -> program with types bound, behind handles. */
#include "handle.h"

#include <stdlib.h>
#include <string.h>

rowfold_status rowfold_source_parse(rowfold_context *ctx, const char *name, const char *text, size_t bytes,
                                    rowfold_source **out) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!out || (!text && bytes))
        return call_wrong(ctx, S_ARG, "rowfold_source_parse needs text and a place for its result");
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(ctx);
    }
    rowfold_source *s = NEW(a, rowfold_source);
    *s = (rowfold_source){
        .ctx = ctx, .a = a, .text = arena_str(a, text, bytes), .name = arena_printf(a, "%s", name ? name : "program")};
    Ast *ast = NULL;
    c.src = s->text;
    Err err = lang_parse(&c.cx, s->name, s->text, bytes, &ast);
    rowfold_status st = call_end(&c, err);
    if (st != ROWFOLD_OK) {
        arena_free(a);
        return st;
    }
    s->ast = ast;
    arena_trap(a, NULL);
    *out = s;
    return ROWFOLD_OK;
}

void rowfold_source_free(rowfold_source *s) {
    if (s) arena_free(s->a);
}

int rowfold_source_count(const rowfold_source *s) {
    return s ? ast_kernels(s->ast) : 0;
}

const char *rowfold_source_kernel(const rowfold_source *s, int i) {
    return s && i >= 0 && i < ast_kernels(s->ast) ? ast_kernel_name(s->ast, i) : NULL;
}

static Err make_program(Cx *cx, const Ast *ast, const char *kernel, const char *types, const char *constants,
                        rowfold_program *r) {
    Prog *p = NULL, *own = NULL;
    Err err = bind_program(cx, ast, kernel, types, constants, &p);
    if (err) return err;
    Buf b = buf_new(cx->a);
    prog_print(p, &b);
    const char *why = program_copy(cx, p, &own); /* names of the source must not be pointed into after it is freed */
    if (why) return diag(cx, S_INTERNAL, NOWHERE, NULL, "a program does not read back: %s", why);
    r->prog = own;
    r->text = b.s;
    return OK;
}

rowfold_status rowfold_program_new(rowfold_context *ctx, const rowfold_source *s, const char *kernel, const char *types,
                                   const char *constants, rowfold_program **out) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!s || !out) return call_wrong(ctx, S_ARG, "rowfold_program_new needs a source and a place for its result");
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(ctx);
    }
    c.src = s->text;
    rowfold_program *r = NEW(a, rowfold_program);
    *r = (rowfold_program){.ctx = ctx, .a = a};
    rowfold_status st = call_end(&c, make_program(&c.cx, s->ast, kernel, types, constants, r));
    arena_trap(a, NULL);
    if (st == ROWFOLD_OK)
        *out = r;
    else
        arena_free(a);
    return st;
}

/* Through its text, so that nothing of the copy points into another arena. */
const char *program_copy(Cx *cx, const Prog *p, Prog **out) {
    Buf b = buf_new(cx->a);
    prog_print(p, &b);
    Cx own = {.a = cx->a};
    if (prog_read(&own, b.s, b.n, out) != OK) return own.first ? own.first->msg : "unknown";
    return NULL;
}

void rowfold_program_free(rowfold_program *p) {
    if (p) arena_free(p->a);
}

int rowfold_param_count(const rowfold_program *p) {
    return p ? p->prog->nparams : 0;
}

rowfold_status rowfold_param_get(const rowfold_program *p, int i, rowfold_param *out) {
    if (!p) return ROWFOLD_ARGUMENT;
    if (!out || i < 0 || i >= p->prog->nparams)
        return call_wrong(p->ctx, S_ARG, "rowfold_param_get: parameter %d of %d", i, p->prog->nparams);
    static const rowfold_direction dir[] = {[DIR_IN] = ROWFOLD_IN,
                                            [DIR_OUT] = ROWFOLD_OUT,
                                            [DIR_INOUT] = ROWFOLD_INOUT,
                                            [DIR_SCALAR] = ROWFOLD_SCALAR,
                                            [DIR_CONST] = ROWFOLD_CONST};
    const Param *q = &p->prog->param[i];
    *out = (rowfold_param){.name = q->name,
                           .type = ty_text(q->ty),
                           .direction = dir[q->dir],
                           .rank = q->rank,
                           .value = q->def,
                           .has_value = q->dir == DIR_CONST || q->has_default};
    for (int d = 0; d < q->rank; d++) {
        out->axis[d] = p->prog->axis[q->axis[d]].name;
        out->is_row[d] = p->prog->row_axes >> q->axis[d] & 1;
    }
    return ROWFOLD_OK;
}

const char *rowfold_program_name(const rowfold_program *p) {
    return p ? p->prog->name : "";
}
const char *rowfold_program_text(const rowfold_program *p) {
    return p ? p->text : "";
}
