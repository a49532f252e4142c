/* The language: programs checked on the text of their Prog, every fault on its slug and place, limits, and any bytes as
 * input. */
#include "../fuzz/fuzz_lang.c" /* NOLINT(bugprone-suspicious-include): the property that any bytes must have */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifndef KERNELS_DIR
#define KERNELS_DIR "kernels"
#endif
#ifndef DOCS_DIR
#define DOCS_DIR "docs"
#endif

static Cx fresh(void) {
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    assert_non_null(cx.a);
    return cx;
}

static void complain(const Cx *cx, const char *text) {
    Buf b = buf_new(cx->a);
    diag_print(cx, text, &b);
    if (cx->first) print_message("%s\n%s\n", text, b.s ? b.s : "");
}

static Prog *compile(Cx *cx, const char *text, Ty ty) {
    Ast *ast = NULL;
    Prog *p = NULL;
    TyBind bind = {"*", ty};
    Err e = lang_parse(cx, "t.row", text, strlen(text), &ast);
    if (!e) e = lang_kernel(cx, ast, NULL, &bind, 1, NULL, 0, &p);
    if (e) complain(cx, text);
    assert_int_equal(e, OK);
    return p;
}

static const char *printed(Cx *cx, const Prog *p) {
    Buf b = buf_new(cx->a);
    prog_print(p, &b);
    return b.s;
}

/* ---- programs ---- */
#define HEAD "kernel f for rows (x: in T[rows, n], y: out T[rows, n]) {\n"
#define WITH(params) "kernel f for rows (x: in T[rows, n], " params ", y: out T[rows, n]) {\n"

static const struct {
    Ty ty;
    const char *text, *has[4]; /* in this order in the text of the Prog */
} good[] = {
    /* operators */
    {TY_F32, HEAD "y = x + x * x - x / x }", {"* f32", "+ f32", "/ f32", "- f32"}},
    {TY_F32, HEAD "y = -x * x }", {"%3 = neg f32 [rows,n] %2\n", "%4 = * f32 [rows,n] %3 %2"}},
    {TY_F32, HEAD "y = x - x - x }", {"%3 = - f32 [rows,n] %2 %2\n", "%4 = - f32 [rows,n] %3 %2"}},
    {TY_F32, HEAD "y = x - (x - x) }", {"%4 = - f32 [rows,n] %2 %3"}},
    {TY_F32, HEAD "y = where(x < 1 and x > 0 or not x == 2, x, 0) }", {"<", "and", "not", "or"}},
    {TY_F32, HEAD "y = where(not x < 1, 1, 2) }", {"< bool", "not bool", "where i32"}},
    {TY_F32,
     HEAD "y = where(x <= 1, 1, where(x >= 2, 3, where(x != 4, 5, 6))) }",
     {"<= bool", ">= bool", "!= bool", "where"}},
    {TY_F32, HEAD "y = exp(x) + exp2(x) + log(x) + log2(x) }", {"exp f32", "exp2 f32", "log f32", "log2 f32"}},
    {TY_F32, HEAD "y = sqrt(x) + rsqrt(x) + tanh(x) + erf(x) }", {"sqrt f32", "rsqrt f32", "tanh f32", "erf f32"}},
    {TY_F32,
     HEAD "y = sigmoid(x) + abs(x) + floor(x) + round(x) }",
     {"sigmoid f32", "abs f32", "floor f32", "round f32"}},
    {TY_F32,
     HEAD "y = minimum(x, 1) + maximum(x, 2) + pow(x, 3) }",
     {"minimum f32", "maximum f32", "const f32 [] 3", "pow f32"}},
    {TY_F32, HEAD "y = idx(n) }", {"%0 = idx i64 [n] n as y"}},
    /* reductions */
    {TY_F32,
     HEAD "y = x * sum(x) * mean(x) * prod(x) * max(x) }",
     {"reduce f32 [rows] sum %2 over [n] tree", "mean", "prod", "max"}},
    {TY_F32, HEAD "y = min(x) + logsumexp(x) + var(x) + norm2(x) }", {"min", "logsumexp", "var", "norm2"}},
    {TY_F32,
     HEAD "y = where(any(x > 0) and all(x > 0), argmax(x), argmin(x)) }",
     {"reduce bool [rows] any", "reduce bool [rows] all", "reduce i64 [rows] argmax", "reduce i64 [rows] argmin"}},
    {TY_F32, HEAD "y = sum(x) @ordered + sum(x) @tree }", {"over [n] ordered", "over [n] tree"}},
    {TY_F32, HEAD "y = sum(x over n) @ ordered }", {"over [n] ordered"}},
    {TY_I32, HEAD "y = sum(x) }", {"cast i64", "reduce i64 [rows] sum"}},
    {TY_U8, HEAD "y = max(x) }", {"reduce i64 [rows] max"}},
    {TY_U32, HEAD "y = sum(x) }", {"reduce u64 [rows] sum"}},
    {TY_F32,
     "kernel f for a (x: in T[a, b, c], y: out T[a, b]) { y = sum(x over c) + sum(x over b, c) }",
     {"reduce f32 [a,b] sum %3 over [c]", "reduce f32 [a] sum %3 over [b,c]"}},
    {TY_F32,
     "kernel f for n (x: in T[rows, n], y: out T[n]) { y = sum(x) }",
     {"axis n row", "axis rows element", "reduce f32 [n] sum"}},
    {TY_F32, "kernel f (x: in T[n], y: out T[]) { y = sum(x) }", {"param y out f32 []", "reduce f32 [] sum"}},
    /* types */
    {TY_BF16, HEAD "y = T(x + x) }", {"+ f32", "cast f32 [rows,n] bf16 %3"}},
    {TY_BF16, HEAD "y = x + f16(x * 2) + f8e4m3(x) }", {"cast f32 [rows,n] f16 %4", "cast f32 [rows,n] f8e4m3 %2"}},
    {TY_F16, HEAD "y = f64(x) * 0.1 }", {"cast f64", "const f64 [] 0.1\n"}},
    {TY_F64, HEAD "y = x * 0.1 }", {"const f64 [] 0.1\n"}},
    {TY_F32, HEAD "y = x * 0.1 }", {"const f32 [] 0.10000000149011612\n"}},
    {TY_I32, HEAD "y = x + 5000000000 }", {"const i64 [] 5000000000", "+ i64"}},
    {TY_I32, HEAD "y = x * 0.5 }", {"const f32 [] 0.5", "cast f32", "* f32"}},
    {TY_I32, HEAD "y = x / 0 }", {"/ i32"}},
    {TY_U32, HEAD "y = x - 1 }", {"const u32 [] 1", "- u32"}},
    {TY_U32, HEAD "y = x + -1 }", {"cast i64", "const i64 [] -1", "+ i64"}},
    {TY_U64, HEAD "y = x + 18446744073709551615 }", {"const u64 [] 18446744073709551615"}},
    {TY_I64, HEAD "y = x + -9223372036854775808 }", {"const i64 [] -9223372036854775808"}},
    {TY_I64, HEAD "y = x + 0xFF }", {"const i64 [] 255"}},
    {TY_F64, HEAD "y = x + (1 + 2 * 3) / 2 - 1.5 / 3 }", {"const f64 [] 3\n", "const f64 [] 0.5\n"}},
    {TY_F64,
     HEAD "y = x * .5 + 2.e1 + 1e-6 + inf }",
     {"const f64 [] 0.5\n", "const f64 [] 2e+01\n", "const f64 [] 1e-06\n", "const f64 [] inf"}},
    {TY_F32, HEAD "y = where(x > 0, -nan, -0.0) }", {"const f32 [] 0x7fc00000\n", "const f32 [] -0\n"}},
    {TY_F32, HEAD "k = 1 / 10.0\n y = f64(x) * k }", {"const f64 [] 0.1\n"}},
    {TY_BOOL, HEAD "y = x and true or false }", {"const bool", "and bool", "or bool"}},
    {TY_BOOL, HEAD "y = x == true }", {"cast i32", "== bool"}},
    {TY_I32, HEAD "y = where(x > 0, 1, 0.5) }", {"const f32 [] 1\n", "const f32 [] 0.5\n", "where f32"}},
    {TY_F32, HEAD "y = 1 }", {"const f32 [] 1 as y"}},
    {TY_I64, HEAD "y = 3 }", {"const i64 [] 3 as y"}},
    /* reads at an index */
    {TY_F32, WITH("t: in i64[rows]") "y = x[rows, t] }", {"load i64 [rows] t", "load f32 [rows] x [%0,%"}},
    {TY_F32, HEAD "y = x[rows, n + 1] else 0 }", {"const i64 [] 1", "+ i64 [n]", "const f32 [] 0", "else %4 as y"}},
    {TY_F32, HEAD "y = x[rows, idx(n) - 1] }", {"- i64 [n]", "load f32 [rows,n] x"}},
    {TY_F32, HEAD "y = x[rows, n] }", {"%2 = load f32 [rows,n] x [%0,%1] as y"}},
    {TY_F32, HEAD "y = x[rows, n + 1] else -inf + x }", {"const f32 [] -inf", "+ f32"}},
    {TY_F32, HEAD "y = x[rows, n + 1] else x[rows, n + 2] else (x - 1) }", {"else %8", "else %9 as y"}},
    {TY_I32, HEAD "y = x[rows, n + 1] else 2.9 }", {"const i32 [] 3\n", "else %5"}},
    {TY_F32, WITH("t: in u8[rows]") "y = x[rows, t] }", {"load i32 [rows] t", "cast i64", "load f32 [rows] x"}},
    {TY_F32, HEAD "axis p = n + 4\n y = sum(x[rows, p] else 0) }", {"axis p element", "reduce f32 [rows] sum"}},
    {TY_F32,
     HEAD "axis p = 260; axis q = (p - n) * 2 / 3 % 7; y = sum(x[rows, p] * x[rows, q]) }",
     {"axis p", "axis q", "over [p,q]"}},
    {TY_F32, WITH("const k: i32 = 3") "axis p = n * k + -1; y = sum(x[rows, p]) }", {"axis p", "sum"}},
    {TY_F32, WITH("s: in f32[]") "y = x * s }", {"param s in f32 []", "load f32 [] s []"}},
    /* scalars, consts, inout, holds, names */
    {TY_F32,
     WITH("eps: f32 = 1e-5, m: i64 = -100, b: bool = true") "y = where(b, x + eps, m) }",
     {"scalar bool [] b", "scalar f32 [] eps", "scalar i64 [] m"}},
    {TY_F32, WITH("const k: T = 2") "y = x * k }", {"const f32 [] 2", "* f32"}},
    {TY_F32,
     "kernel f for rows (x: inout T[rows, n]) { x = x / sum(x) }",
     {"param x inout", "load f32 [rows,n] x", "/ f32", "out x = %4"}},
    {TY_BF16,
     "kernel f for rows (x: in T[rows, n], s: out T[rows, n], y: out T[rows, n]) { s = x + x; y = s * s }",
     {"%3 = + f32 [rows,n] %2 %2 as s", "%4 = * f32 [rows,n] %3 %3 as y"}},
    {TY_F32,
     HEAD "hold x: register; hold e: register.f32; hold y: recompute\n e = exp(x); y = e / sum(e) }",
     {"hold", "register", "register.f32", "recompute"}},
    {TY_F32,
     HEAD "hold x: reload; hold e: output; hold s: shared\n e = exp(x); s = sum(e); y = e / s }",
     {"reload", "output", "shared"}},
    /* layout */
    {TY_F32,
     "\xEF\xBB\xBF# \xFF\xFE any bytes\r\n" HEAD "\r\n\ty = (x\n\n + # here\n x) *\n 2;;\n}\n# end",
     {"+ f32", "* f32"}},
    {TY_F32, "kernel f\nfor rows\n(x: in T[rows,\nn,], y: out T[rows, n],)\n{ y = x }", {"out y = %2"}},
    {TY_F32, "kernel sum for r (x: in T[r, n], y: out T[r]) { y = sum(x) }", {"prog sum"}},
    {TY_F32, "kernel f for r (x: in T[r, n], int: out T[r]) { for_ = sum(x); int = for_ }", {"as for_"}},
};

static void test_programs(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < COUNT(good); i++) {
        Cx cx = fresh();
        Prog *p = compile(&cx, good[i].text, good[i].ty);
        assert_int_equal(prog_verify(&cx, p), OK);
        const char *text = printed(&cx, p), *at = text;
        for (int j = 0; j < COUNT(good[i].has) && good[i].has[j]; j++) {
            const char *hit = strstr(at, good[i].has[j]);
            if (!hit) {
                print_message("%s\n%s\nlacks, after what was found: %s\n", good[i].text, text, good[i].has[j]);
                wrong++;
                break;
            }
            at = hit + 1;
        }
        Prog *again = NULL;
        assert_int_equal(prog_read(&cx, text, strlen(text), &again), OK);
        assert_string_equal(printed(&cx, again), text);
        arena_free(cx.a);
    }
    assert_int_equal(wrong, 0);
}

/* The kernel library binds every type variable to each float type. */
static void test_library(void **state) {
    (void)state;
    static const char *const families[] = {"reduce", "softmax", "rmsnorm", "layernorm", "cross_entropy", "quantize"};
    static const Ty floats[] = {TY_F64, TY_F32, TY_F16, TY_BF16};
    static char text[1 << 16];
    for (int f = 0; f < COUNT(families); f++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s.row", KERNELS_DIR, families[f]);
        FILE *in = fopen(path, "rb");
        if (!in) print_message("cannot open %s\n", path);
        assert_non_null(in);
        size_t n = fread(text, 1, sizeof text - 1, in);
        fclose(in);
        text[n] = 0;
        Cx cx = fresh();
        Ast *ast = NULL;
        Err e = lang_parse(&cx, path, text, n, &ast);
        complain(&cx, text);
        assert_int_equal(e, OK);
        assert_true(ast_kernels(ast) >= 3);
        for (int k = 0; k < ast_kernels(ast); k++)
            for (int t = 0; t < COUNT(floats); t++) {
                Prog *p;
                TyBind bind = {"*", floats[t]};
                e = lang_kernel(&cx, ast, ast_kernel_name(ast, k), &bind, 1, NULL, 0, &p);
                complain(&cx, text);
                assert_int_equal(e, OK);
            }
        arena_free(cx.a);
    }
}

/* The normative text names all that the tables hold, and says of each reduction what the table says of empty rows. */
static void test_document(void **state) {
    (void)state;
    static char text[1 << 16];
    FILE *in = fopen(DOCS_DIR "/language.md", "rb");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    fclose(in);
    char want[128];
    for (int i = 0; i < OP_COUNT; i++) {
        if (op_info((Op)i)->form != FORM_F) continue;
        snprintf(want, sizeof want, "`%s(", op_info((Op)i)->text);
        if (!strstr(text, want)) fail_msg("no map %s", want);
    }
    for (int i = 0; i < RED_COUNT; i++) {
        const RedInfo *r = red_info((Red)i);
        snprintf(want, sizeof want, "\n| `%s` |", r->text);
        const char *row = strstr(text, want);
        if (!row) fail_msg("no reduction %s", r->text);
        snprintf(want, sizeof want, "| %s |\n", r->empty);
        assert_memory_equal(strchr(row + 1, '\n') + 1 - strlen(want), want, strlen(want));
    }
    for (int t = TY_BOOL; t < TY_COUNT; t++) {
        snprintf(want, sizeof want, "\"%s\"", ty_text((Ty)t));
        if (!strstr(text, want)) fail_msg("no type %s", want);
    }
    for (int h = HOLD_AUTO + 1; h < HOLD_COUNT; h++) {
        snprintf(want, sizeof want, "`%s` (", hold_text((Hold)h));
        if (h != HOLD_RECOMPUTE && !strstr(text, want)) fail_msg("no hold %s", want);
    }
}

/* One program to the last byte: whoever changes what a program means has to come past here. */
static void test_exact(void **state) {
    (void)state;
    Cx cx = fresh();
    Prog *p = compile(&cx,
                      "kernel cross_entropy for rows (x: in T[rows, n], t: in i64[rows], loss: out f32[rows]) {\n"
                      "    m = max(x)\n"
                      "    loss = log(sum(exp(x - m))) + m - x[rows, t]\n"
                      "}\n",
                      TY_BF16);
    assert_string_equal(printed(&cx, p), "prog cross_entropy\n"
                                         "axis rows row\n"
                                         "axis n element\n"
                                         "param x in bf16 [rows,n]\n"
                                         "param t in i64 [rows]\n"
                                         "param loss out f32 [rows]\n"
                                         "%0 = idx i64 [rows] rows\n"
                                         "%1 = idx i64 [n] n\n"
                                         "%2 = load f32 [rows,n] x [%0,%1]\n"
                                         "%3 = reduce f32 [rows] max %2 over [n] tree as m\n"
                                         "%4 = - f32 [rows,n] %2 %3\n"
                                         "%5 = exp f32 [rows,n] %4\n"
                                         "%6 = reduce f32 [rows] sum %5 over [n] tree\n"
                                         "%7 = log f32 [rows] %6\n"
                                         "%8 = + f32 [rows] %7 %3\n"
                                         "%9 = load i64 [rows] t [%0]\n"
                                         "%10 = load f32 [rows] x [%0,%9]\n"
                                         "%11 = - f32 [rows] %8 %10 as loss\n"
                                         "out loss = %11\n"
                                         "end\n");
    assert_int_equal(p->val[4].at.line, 3);
    assert_int_equal(p->val[4].at.col, 26);
    assert_string_equal(p->val[4].at.file, "t.row");
    arena_free(cx.a);
}

/* ---- faults ---- */

/* One fault each: the first diagnostic has this slug and place, and it is the only one. */
static const struct {
    Slug slug;
    int line, col, len;
    const char *text, *says; /* says: part of the message or of what would have been accepted */
} faulty[] = {
    {S_LANG_EMPTY, 1, 1, 1, "", "kernel name"},
    {S_LANG_EMPTY, 1, 1, 1, " \n# nothing\n", "no kernel"},
    {S_LANG_CHARACTER, 2, 7, 1, HEAD "y = x $ 2 }", "'$'"},
    {S_LANG_CHARACTER, 2, 7, 1, HEAD "y = x & x\n}", "and"},
    {S_LANG_CHARACTER, 2, 5, 1, HEAD "y = !x }", "not, !="},
    {S_LANG_CHARACTER, 2, 5, 2, HEAD "y = \xC3\xA9\n}", "0xC3"},
    {S_LANG_NUMBER, 2, 9, 2, HEAD "y = x + 2f\n}", "letters"},
    {S_LANG_NUMBER, 2, 5, 5, HEAD "y = 1e999\n}", "largest f64"},
    {S_LANG_NUMBER, 2, 5, 20, HEAD "y = 18446744073709551616\n}", "18446744073709551615"},
    {S_LANG_NUMBER, 2, 5, 19, HEAD "y = 0x10000000000000000\n}", "18446744073709551615"},
    {S_LANG_NUMBER, 2, 5, 2, HEAD "y = 0x\n}", "without digits"},
    {S_LANG_SYNTAX, 1, 1, 4, "kern f", "kernel"},
    {S_LANG_SYNTAX, 1, 7, 1, "kernel", "a name for the kernel"},
    {S_LANG_SYNTAX, 1, 8, 3, "kernel for (x: in T[n], y: out T[n]) { y = x }", "a name for the kernel"},
    {S_LANG_SYNTAX, 2, 6, 1, HEAD "y = x", "'}'"},
    {S_LANG_SYNTAX, 1, 25, 1, "kernel f (y: out f32[n] { y = 1 }", "',' or ')'"},
    {S_LANG_SYNTAX, 1, 26, 1, "kernel f (y: out f32[n], { y = 1 }", "the name of a parameter"},
    {S_LANG_SYNTAX, 2, 7, 1, HEAD "y = x x }", "end of the statement"},
    {S_LANG_SYNTAX, 2, 4, 1, HEAD "y =\n}", "end of the line"},
    {S_LANG_SYNTAX, 2, 11, 1, HEAD "y = max(x }", "'over' or ')'"},
    {S_LANG_SYNTAX, 3, 1, 1, HEAD "y = max(x\nm = 2\ny = 3\n}", "'over' or ')'"},
    {S_LANG_SYNTAX, 2, 9, 1, HEAD "y = max }", "function"},
    {S_LANG_SYNTAX, 2, 13, 4, HEAD "y = sum(x) @fast }", "ordered, tree"},
    {S_LANG_SYNTAX, 2, 2, 1, HEAD "y[rows, n] = x }", "'='"},
    {S_LANG_SYNTAX, 2, 3, 1, HEAD "y += x }", "'='"},
    {S_LANG_RESERVED, 2, 1, 3, HEAD "max = 2; y = x }", "'max'"},
    {S_LANG_RESERVED, 2, 1, 2, HEAD "in = 2; y = x }", "'in'"},
    {S_LANG_CHAIN, 2, 17, 1, HEAD "y = where(x < 1 < 2, 1, 0) }", "a < b and b < c"},
    {S_LANG_KERNEL_TWICE, 2, 8, 1, "kernel f (y: out f32[n]) { y = 1 }\nkernel f (y: out f32[n]) { y = 1 }", "line 1"},
    {S_LANG_KERNEL_UNKNOWN, 1, 1, 1, "kernel a (y: out f32[n]) { y = 1 }\nkernel b (y: out f32[n]) { y = 1 }", "a, b"},
    {S_LANG_TYPE_UNKNOWN, 1, 17, 5, "kernel f (x: in float[n], y: out f32[n]) { y = x }", "bf16"},
    {S_LANG_TYPE_UNKNOWN, 1, 17, 3, "kernel f (x: in F32[n], y: out f32[n]) { y = x }", "did you mean 'f32'?"},
    {S_LANG_TYPE_UNKNOWN, 1, 17, 4, "kernel f (x: in fp16[n], y: out f32[n]) { y = x }", "did you mean 'f16'?"},
    {S_LANG_DIRECTION, 1, 15, 1, "kernel f (x: T[n], y: out f32[n]) { y = x }", "in, out or inout"},
    {S_LANG_NAME_TWICE, 1, 25, 1, "kernel f (x: in f32[n], n: f32, y: out f32[n]) { y = x }", "an axis already"},
    {S_LANG_NAME_TWICE, 1, 17, 1, "kernel f for r, r (x: in f32[r], y: out f32[r]) { y = x }", "line 1"},
    {S_LANG_NAME_TWICE, 2, 1, 1, HEAD "n = 2; y = x }", "an axis already"},
    {S_LANG_NAME_TWICE, 2, 1, 1, HEAD "T = 2; y = x }", "a type variable already"},
    {S_LANG_NAME_UNKNOWN, 2, 9, 4, HEAD "y = x + mena }", "no value"},
    {S_LANG_NAME_UNKNOWN, 3, 5, 4, HEAD "scale = x * 2\ny = scal * scal }", "did you mean 'scale'?"},
    {S_LANG_NAME_UNKNOWN, 2, 5, 1, HEAD "y = a[rows, n] }", "no parameter"},
    {S_LANG_NAME_UNKNOWN, 2, 6, 1, HEAD "hold m: reload; y = x }", "no value or input"},
    {S_LANG_AXIS_UNKNOWN, 2, 16, 1, HEAD "y = sum(x over k) }", "rows, n"},
    {S_LANG_AXIS_UNKNOWN, 2, 9, 1, HEAD "y = idx(x) }", "not an axis"},
    {S_LANG_AXIS_UNKNOWN, 2, 10, 1, HEAD "axis p = q + 1; y = x }", "no axis"},
    {S_LANG_AXIS_TWICE, 2, 19, 1, HEAD "y = sum(x over n, n) }", "listed twice"},
    {S_LANG_AXIS_TWICE, 1, 24, 1, "kernel f (x: in f32[n, n], y: out f32[n]) { y = 1 }", "stands twice"},
    {S_LANG_AXIS_EXPR, 2, 10, 1, HEAD "axis p = x; y = x }", "whole numbers"},
    {S_LANG_AXIS_EXPR, 2, 10, 4, HEAD "axis p = rows; y = x }", "element axes"},
    {S_LANG_AXIS_EXPR, 2, 10, 3, HEAD "axis p = 1.5; y = x }", "whole numbers"},
    {S_LANG_AXIS_EXPR, 2, 12, 1, HEAD "axis p = n < 2; y = x }", "whole numbers"},
    {S_LANG_NOT_VALUE, 2, 9, 1, HEAD "y = x + n }", "idx(n)"},
    {S_LANG_NOT_VALUE, 2, 9, 1, HEAD "y = x + T }", "T(...)"},
    {S_LANG_TYPE, 2, 13, 1, HEAD "y = (x > 1) + x }", "f32(b)"},
    {S_LANG_TYPE, 2, 7, 3, HEAD "y = x and x }", "x != 0"},
    {S_LANG_TYPE, 2, 5, 5, HEAD "y = where(x, x, x) }", "a bool first"},
    {S_LANG_TYPE, 2, 5, 1, HEAD "y = -(x > 1) }", "'-' does not take bool"},
    {S_LANG_LITERAL, 2, 25, 1, HEAD "y = 9223372036854775807 + 1 }", "fit i64"},
    {S_LANG_LITERAL, 2, 5, 1, HEAD "y = -9223372036854775809 }", "fit i64"},
    {S_LANG_REMAINDER, 2, 7, 1, HEAD "y = x % 2 }", "a / b * b"},
    {S_LANG_READ_BEFORE, 2, 5, 1, HEAD "m = y; y = x }", "before it is assigned"},
    {S_LANG_GATHER, 3, 5, 1, HEAD "m = x * 2\ny = m[rows, n] }", "'m'"},
    {S_LANG_GATHER, 2, 11, 1, HEAD "y = exp(x)[rows, n] }", "parameters"},
    {S_LANG_GATHER, 1, 43, 1, "kernel f for r (x: inout f32[r, n]) { x = x[r, n] }", "in place"},
    {S_LANG_INDEX_COUNT, 2, 5, 1, HEAD "y = x[rows] }", "rows, n"},
    {S_LANG_INDEX_TYPE, 2, 13, 1, HEAD "y = x[rows, x] }", "i64(floor(a))"},
    {S_LANG_INDEX_TYPE, 2, 13, 3, HEAD "y = x[rows, 0.5] }", "f32"},
    {S_LANG_FUNCTION_UNKNOWN, 2, 5, 4, HEAD "y = sqtr(x) }", "did you mean 'sqrt'?"},
    {S_LANG_FUNCTION_UNKNOWN, 2, 5, 1, HEAD "y = x(x) }", "not a function"},
    {S_LANG_ARGUMENTS, 2, 5, 3, HEAD "y = exp(x, x) }", "1 argument"},
    {S_LANG_ARGUMENTS, 2, 5, 3, HEAD "y = sum() }", "1 argument"},
    {S_LANG_ARGUMENTS, 2, 5, 1, HEAD "y = T(x, x) }", "1 argument"},
    {S_LANG_NOT_REDUCTION, 2, 5, 3, HEAD "y = exp(x over n) }", "'over'"},
    {S_LANG_NOT_REDUCTION, 2, 5, 3, HEAD "y = exp(x) @tree }", "policy"},
    {S_LANG_REDUCE_ROW, 2, 16, 4, HEAD "y = sum(x over rows) }", "row axis"},
    {S_LANG_REDUCE_AXIS, 2, 16, 1,
     "kernel f for r (x: in f32[r, n], w: in f32[k], y: out f32[r]) {\ny = sum(x over k) }", "does not vary over 'k'"},
    {S_LANG_OUTPUT_AXES, 2, 1, 1, "kernel f for r (x: in f32[r, n], y: out f32[r]) {\ny = x }", "a reduction over n"},
    {S_LANG_REDUCE_NOTHING, 2, 5, 3, HEAD "y = sum(sum(x)) }", "same for all"},
    {S_LANG_REDUCE_NOTHING, 2, 5, 3, HEAD "y = sum(1) }", "same for all"},
    {S_LANG_ASSIGNED_TWICE, 3, 1, 1, HEAD "y = x\ny = x }", "line 2"},
    {S_LANG_ASSIGNED_TWICE, 3, 1, 1, HEAD "m = x\nm = x; y = x }", "line 2"},
    {S_LANG_ASSIGN_INPUT, 2, 1, 1, HEAD "x = 1; y = x }", "input"},
    {S_LANG_OUTPUT_ROW, 1, 34, 1, "kernel f for r (x: in f32[r, n], y: out f32[n]) { y = 1 }", "row axis 'r'"},
    {S_LANG_OUTPUT_NONE, 1, 8, 1, "kernel f for r (x: in f32[r, n]) { m = x }", "no output"},
    {S_LANG_OUTPUT_UNASSIGNED, 1, 38, 1, HEAD "m = x }", "y = ..."},
    {S_LANG_CONST_UNBOUND, 1, 17, 1, "kernel f (const k: f32, y: out f32[n]) { y = k }", "k=..."},
    {S_LANG_CONST_VALUE, 1, 17, 1, "kernel f (const k: u8 = -1, y: out f32[n]) { y = k }", "-1"},
    {S_LANG_CONST_VALUE, 1, 11, 1, "kernel f (k: i32 = 1.5, y: out f32[n]) { y = k }", "i32"},
    {S_LANG_HOLD_KIND, 2, 9, 7, HEAD "hold x: cabinet; y = x }", "recompute"},
    {S_LANG_HOLD_KIND, 2, 9, 4, HEAD "hold x: auto; y = x }", "recompute"},
    {S_LANG_HOLD_TARGET, 2, 6, 1, HEAD "hold n: reload; y = x }", "'n'"},
    {S_LANG_HOLD_TARGET, 2, 18, 1, HEAD "c = idx(n); hold c: register; y = x }", "'c'"},
    {S_LANG_HOLD_TARGET, 2, 13, 1, HEAD "c = 2; hold c: register; y = x * c }", "'c'"},
    {S_LANG_HOLD_TWICE, 3, 6, 1, HEAD "a = x; y = a; hold x: reload\nhold a: shared }", "as reload"},
    {S_LANG_HOLD_TWICE, 2, 22, 1, HEAD "hold x: reload; hold x: shared; y = x }", "as reload"},
    {S_LANG_HOLD_TWICE, 3, 6, 1, HEAD "a = x * 2; b = x * 2; y = a; hold a: shared\nhold b: recompute }", "as shared"},
};

static Cx diagnose(const char *text, size_t n) {
    Cx cx = fresh();
    Ast *ast = NULL;
    Prog *p = NULL;
    TyBind bind = {"*", TY_F32};
    Err e = lang_parse(&cx, "t.row", text, n, &ast);
    if (!e) {
        const char *const *vars;
        e = lang_kernel(&cx, ast, NULL, &bind, ast_type_vars(ast, 0, &vars) > 0, NULL, 0, &p);
        assert_null(e ? p : NULL);
    } else {
        assert_null(ast);
    }
    assert_true((e != OK) == (cx.ndiags > 0));
    if (cx.first) assert_int_equal(e, slug_err(cx.first->slug));
    return cx;
}

static void test_faults(void **state) {
    (void)state;
    bool hit[SLUG_COUNT] = {false};
    int wrong = 0;
    for (int i = 0; i < COUNT(faulty); i++) {
        Cx cx = diagnose(faulty[i].text, strlen(faulty[i].text));
        const Diag *d = cx.first;
        const char *says = faulty[i].says;
        bool ok = cx.ndiags == 1 && d->slug == faulty[i].slug && d->at.line == faulty[i].line &&
                  d->at.col == faulty[i].col && d->at.len == faulty[i].len && str_eq(d->at.file, "t.row") &&
                  (strstr(d->msg, says) || (d->accept && strstr(d->accept, says)));
        if (!ok) {
            print_message("expected %s at %d:%d+%d saying %s, found %d\n", slug_text(faulty[i].slug), faulty[i].line,
                          faulty[i].col, faulty[i].len, says, cx.ndiags);
            for (; d; d = d->next) print_message("%s %d:%d+%d\n", slug_text(d->slug), d->at.line, d->at.col, d->at.len);
            complain(&cx, faulty[i].text);
        }
        wrong += !ok;
        hit[faulty[i].slug] = true;
        arena_free(cx.a);
    }
    assert_int_equal(wrong, 0);
    hit[S_LANG_LIMIT] = hit[S_LANG_TYPE_UNBOUND] = hit[S_LANG_BIND_UNKNOWN] = true; /* tests of their own, below */
    for (int i = 0; i < SLUG_COUNT; i++)
        if (str_starts(slug_text((Slug)i), "lang.") && !hit[i])
            print_message("%s has no test\n", slug_text((Slug)i)), wrong++;
    assert_int_equal(wrong, 0);
}

/* head, then n times `unit` with %d replaced by a number, then tail */
static const char *repeat(Cx *cx, const char *head, const char *unit, int n, const char *tail) {
    Buf b = buf_new(cx->a);
    const char *gap = strstr(unit, "%d");
    buf_str(&b, head);
    for (int i = 0; i < n; i++) {
        if (!gap) {
            buf_str(&b, unit);
            continue;
        }
        buf_put(&b, unit, (size_t)(gap - unit));
        buf_fmt(&b, "%d%s", i, gap + 2);
    }
    buf_str(&b, tail);
    return b.s;
}

static void test_many_faults(void **state) {
    (void)state;
    static const char text[] = "kernel f for rows (x: in T[rows, n], e: T[n], y: out T[rows, n]) {\n"
                               "    m = max(x\n"
                               "    e = exp(x -)\n"
                               "    hold e: cupboard\n"
                               "    y = e / sum(e) $\n"
                               "}\n"
                               "kernel f for (x: in T[rows, n]) { }\n"
                               "kern g\n"
                               "kernel h (x: in half[n], y: out f33[n]) { y = 1 < 2 < 3 }\n";
    static const struct {
        Slug slug;
        int line;
    } want[] = {{S_LANG_DIRECTION, 1},    {S_LANG_SYNTAX, 3},       {S_LANG_SYNTAX, 3}, {S_LANG_HOLD_KIND, 4},
                {S_LANG_CHARACTER, 5},    {S_LANG_KERNEL_TWICE, 7}, {S_LANG_SYNTAX, 7}, {S_LANG_TYPE_UNKNOWN, 9},
                {S_LANG_TYPE_UNKNOWN, 9}, {S_LANG_CHAIN, 9}};
    Cx cx = diagnose(text, strlen(text));
    int n = 0;
    for (const Diag *d = cx.first; d && n < COUNT(want); d = d->next, n++) {
        if (d->slug != want[n].slug || d->at.line != want[n].line) complain(&cx, text);
        assert_int_equal(d->slug, want[n].slug);
        assert_int_equal(d->at.line, want[n].line);
    }
    assert_int_equal(n, COUNT(want));
    assert_int_equal(cx.ndiags, COUNT(want));
    arena_free(cx.a);
    /* the checker goes on too, and what a fault has poisoned stays silent */
    static const char checked[] = HEAD "a = b + c\n d = a * 2\n y = d + n\n z = idx(q) + sum(x over rows)\n"
                                       " k = epx(z) + b[z] + exp(z, z) }";
    static const Slug slugs[] = {S_LANG_NAME_UNKNOWN, S_LANG_NAME_UNKNOWN,     S_LANG_NOT_VALUE, S_LANG_AXIS_UNKNOWN,
                                 S_LANG_REDUCE_ROW,   S_LANG_FUNCTION_UNKNOWN, S_LANG_ARGUMENTS};
    cx = diagnose(checked, strlen(checked));
    n = 0;
    for (const Diag *d = cx.first; d && n < COUNT(slugs); d = d->next, n++) assert_int_equal(d->slug, slugs[n]);
    assert_int_equal(n, COUNT(slugs));
    assert_int_equal(cx.ndiags, COUNT(slugs));
    arena_free(cx.a);
    /* no more than 50 are kept, the rest are counted */
    Cx build = fresh();
    const char *many = repeat(&build, HEAD, "a%d = b + idx(q) * sum(1)\n", 400, "y = x }");
    cx = diagnose(many, strlen(many));
    n = 0;
    for (const Diag *d = cx.first; d; d = d->next) n++;
    assert_int_equal(n, 50);
    assert_int_equal(cx.ndiags, 402);
    arena_free(cx.a);
    arena_free(build.a);
}

/* ---- binding ---- */

static void test_binding(void **state) {
    (void)state;
    static const char text[] = "kernel f for r (x: in T[r, n], w: in S[n], y: out T[r, n], const k: S = 2, const m: "
                               "i32) { y = S(x * w) * k + m }";
    Cx cx = fresh();
    Ast *ast;
    Prog *p;
    const char *const *vars;
    assert_int_equal(lang_parse(&cx, NULL, text, strlen(text), &ast), OK);
    assert_int_equal(ast_kernels(ast), 1);
    assert_int_equal(ast_type_vars(ast, 0, &vars), 2);
    assert_string_equal(vars[0], "T");
    assert_string_equal(vars[1], "S");
    TyBind ty[] = {{"S", TY_F16}, {"*", TY_F64}, {"T", TY_BF16}, {"Q", TY_F32}, {"T", TY_NONE}};
    ConstBind k[] = {{"m", 7}, {"k", 3}, {"x", 1}};
    assert_int_equal(lang_kernel(&cx, ast, "f", ty, 2, k, 2, &p), OK);
    assert_int_equal(p->param[0].ty, TY_F64);
    assert_int_equal(p->param[1].ty, TY_F16);
    assert_true(p->param[3].def == 3 && p->param[4].def == 7);
    assert_int_equal(lang_kernel(&cx, ast, NULL, ty, 3, k, 1, &p), OK);
    assert_int_equal(p->param[0].ty, TY_BF16);
    assert_true(p->param[3].def == 2);
    assert_int_equal(cx.ndiags, 0);
    struct {
        const TyBind *ty;
        int nty, nk;
        const char *kernel;
        Slug slug;
    } bad[] = {{ty, 1, 1, "f", S_LANG_TYPE_UNBOUND},    {ty, 4, 1, "f", S_LANG_BIND_UNKNOWN},
               {ty, 3, 3, "f", S_LANG_BIND_UNKNOWN},    {ty, 3, 0, "f", S_LANG_CONST_UNBOUND},
               {ty, 3, 1, "ff", S_LANG_KERNEL_UNKNOWN}, {ty + 4, 1, 1, "f", S_ARG}};
    for (int i = 0; i < COUNT(bad); i++) {
        Cx c = {.a = cx.a};
        assert_int_equal(lang_kernel(&c, ast, bad[i].kernel, bad[i].ty, bad[i].nty, k, bad[i].nk, &p), ERR_ARGUMENT);
        assert_int_equal(c.first->slug, bad[i].slug);
        assert_null(p);
    }
    ConstBind half[] = {{"m", 0.5}};
    assert_int_equal(lang_kernel(&cx, ast, "f", ty, 3, half, 1, &p), ERR_LANGUAGE);
    assert_int_equal(cx.first->slug, S_LANG_CONST_VALUE);
    arena_free(cx.a);
}

/* A Prog owns its strings, and the same text gives the same bytes. */
static void test_lifetime(void **state) {
    (void)state;
    static const char text[] = HEAD "hold x: register\n e = exp(x - max(x))\n y = e / sum(e) }";
    Cx parse = fresh(), one = fresh(), two = fresh();
    char *copy = arena_dup(parse.a, text, sizeof text);
    Ast *ast;
    Prog *p;
    TyBind bind = {"T", TY_BF16};
    assert_int_equal(lang_parse(&parse, "t.row", copy, sizeof text - 1, &ast), OK);
    assert_int_equal(lang_kernel(&one, ast, NULL, &bind, 1, NULL, 0, &p), OK);
    arena_free(parse.a);
    assert_string_equal(printed(&one, p), printed(&two, compile(&two, text, TY_BF16)));
    assert_string_equal(p->val[3].at.file, "t.row");
    arena_free(one.a);
    arena_free(two.a);
}

/* ---- limits ---- */

static void limit_is(int most, const char *head, const char *unit, const char *tail) {
    for (int over = 0; over < 2; over++) {
        Cx build = fresh();
        const char *text = repeat(&build, head, unit, most + over, tail);
        Cx cx = diagnose(text, strlen(text));
        if ((cx.ndiags != 0) != over) print_message("%d times %s:\n", most + over, unit), complain(&cx, NULL);
        assert_int_equal(cx.ndiags != 0, over);
        if (over) {
            assert_int_equal(cx.first->slug, S_LANG_LIMIT);
            assert_int_equal(cx.ndiags, 1);
        }
        arena_free(cx.a);
        arena_free(build.a);
    }
}

static void nesting_is(int most, const char *open, const char *close) {
    for (int over = 0; over < 2; over++) {
        Cx build = fresh();
        const char *text =
            repeat(&build, repeat(&build, HEAD "y = ", open, most + over, "x"), close, most + over, " }");
        Cx cx = diagnose(text, strlen(text));
        assert_int_equal(cx.ndiags, over);
        if (over) assert_int_equal(cx.first->slug, S_LANG_LIMIT);
        arena_free(cx.a);
        arena_free(build.a);
    }
}

static void test_limits(void **state) {
    (void)state;
    limit_is(MAX_PARAMS - 1, "kernel f (", "a%d: f32, ", "y: out f32[n]) { y = 1 }");
    limit_is(MAX_RANK, "kernel f (y: out f32[", "a%d,", "]) { y = 1 }");
    limit_is(MAX_AXES - 2, HEAD, "axis a%d = 2\n", "y = x }");
    limit_is((MAX_EXTS - 1) / 2, HEAD "axis p = n", " + 1", "\ny = x }");
    limit_is((LANG_VALUES - 2) / 2, HEAD "y = x", " * %d", " }");
    limit_is((LANG_NODES - 1) / 2, HEAD "y = 1", "+1", " }");
    limit_is(LANG_NAME - 4, HEAD "name", "s", " = 1; y = x }");
    nesting_is(LANG_NESTING - 1, "(", ")");
    nesting_is(LANG_NESTING - 1, "- ", "");
    nesting_is(LANG_NESTING - 1, "abs(", ")");
    nesting_is(LANG_NESTING - 1, "x[rows, n] else ", "");
    Cx build = fresh();
    for (int over = 0; over < 2; over++) {
        const char *many = repeat(&build, "", "kernel k%d (y: out f32[n]) { y = 1 }\n", LANG_KERNELS + over, "");
        Cx cx = fresh();
        Ast *ast;
        assert_int_equal(lang_parse(&cx, "t.row", many, strlen(many), &ast), over ? ERR_LANGUAGE : OK);
        assert_int_equal(cx.first ? (int)cx.first->slug : -1, over ? (int)S_LANG_LIMIT : -1);
        arena_free(cx.a);
        char *big = arena_get(build.a, LANG_SOURCE + 2);
        memset(big, ' ', LANG_SOURCE + 1);
        memcpy(big, HEAD "y = x }", sizeof(HEAD "y = x }") - 1);
        cx = diagnose(big, (size_t)(LANG_SOURCE + over));
        assert_int_equal(cx.ndiags, over);
        if (over) assert_int_equal(cx.first->slug, S_LANG_LIMIT);
        arena_free(cx.a);
    }
    static const char *const single[] = {
        HEAD "y = exp(1, 2, 3, 4, 5, 6, 7, 8, 9) }", HEAD "y = x[1, 2, 3, 4, 5, 6, 7, 8, 9] }",
        HEAD "y = sum(x over n, n, n, n, n, n, n, n, n, n, n, n, n) }",
        "kernel f for a, b, c, d, e, f, g, h, i, j, k, l, m (y: out f32[a]) { y = 1 }"};
    for (int i = 0; i < COUNT(single); i++) {
        Cx cx = diagnose(single[i], strlen(single[i]));
        assert_int_equal(cx.first->slug, S_LANG_LIMIT);
        arena_free(cx.a);
    }
    arena_free(build.a);
}

/* Sources of the largest size that are made of one thing repeated: time and memory stay in proportion. */
static void test_hostile(void **state) {
    (void)state;
    static const char *const units[] = {"(",
                                        "-",
                                        "not ",
                                        "kernel k(",
                                        "x[",
                                        "x[0] else ",
                                        "{",
                                        "}",
                                        "\xFF ",
                                        "$",
                                        "a%d=1;",
                                        "a%d=b%d\n",
                                        "kernel k(){}",
                                        "q: in T%d 5,",
                                        "y=q%d\n",
                                        "y=f%d(x)\n",
                                        "hold a%d: shared;",
                                        "axis a = n;",
                                        "+1",
                                        "1 < ",
                                        "sum(x over n)@",
                                        "0x",
                                        "#",
                                        "\n",
                                        "f(,"};
    for (int i = 0; i < COUNT(units); i++) {
        Cx build = fresh();
        int n = (int)((size_t)(LANG_SOURCE - 200) / (strlen(units[i]) + 5)) / TEST_SHARE;
        const char *in_body = repeat(&build, HEAD "y = x\n", units[i], n, "");
        const char *in_params = repeat(&build, "kernel f (", units[i], n, "");
        LLVMFuzzerTestOneInput((const uint8_t *)in_body, strlen(in_body));
        LLVMFuzzerTestOneInput((const uint8_t *)in_params, strlen(in_params));
        arena_free(build.a);
    }
}

/* ---- any bytes ---- */
static const char *const words[] = {
    "kernel",  "for",  "in",    "out",     "inout",    "const", "axis", "over",
    "else",    "hold", "true",  "false",   "inf",      "nan",   "and",  "or",
    "not",     "idx",  "T",     "S",       "f32",      "bf16",  "i64",  "x",
    "y",       "n",    "rows",  "m",       "eps",      "sum",   "max",  "argmax",
    "mean",    "exp",  "where", "minimum", "(",        ")",     "[",    "]",
    "{",       "}",    ",",     ":",       ";",        "=",     "+",    "-",
    "*",       "/",    "%",     "<",       "<=",       "==",    "!=",   "@",
    "ordered", "tree", ".",     "1",       "0",        "1e-6",  "0x7F", "18446744073709551615",
    "\n",      "\n",   " ",     "#",       "register", "shared"};

static void test_bytes(void **state) {
    (void)state;
    enum { INPUTS = 50000 / TEST_SHARE, MOST = 400 };
    Rng r = {20240229};
    int sound = 0;
    for (int i = 0; i < INPUTS; i++) {
        char text[MOST + 64];
        int n = 0;
        if (i % 5 == 0) { /* bytes */
            for (n = 0; n < 1 + i % 97; n++) text[n] = (char)rng_int(&r, i % 2 ? 256 : 96);
        } else if (i % 5 == 1) { /* words */
            n = snprintf(text, sizeof text, "kernel f for rows (x: in T[rows, n], y: out T[rows, n]) { ");
            for (int w = rng_int(&r, 30); w >= 0; w--)
                n += snprintf(text + n, sizeof text - (size_t)n, "%s ", words[rng_int(&r, COUNT(words))]);
        } else { /* a good program with a few edits */
            n = snprintf(text, MOST, "%s", good[rng_int(&r, COUNT(good))].text);
            if (n >= MOST) n = MOST - 1;
            for (int edits = rng_int(&r, 4); edits >= 0; edits--) {
                const char *w = words[rng_int(&r, COUNT(words))];
                int at = rng_int(&r, n), cut = rng_int(&r, 4), len = (int)strlen(w);
                if (cut > n - at) cut = n - at;
                if (rng_int(&r, 3) == 0) len = 0;
                if (n - cut + len > MOST || n - cut + len < 1) continue;
                memmove(text + at + len, text + at + cut, (size_t)(n - at - cut));
                memcpy(text + at, w, (size_t)len);
                n += len - cut;
            }
        }
        Cx cx = fresh();
        Ast *ast;
        sound += lang_parse(&cx, "t.row", text, (size_t)n, &ast) == OK;
        arena_free(cx.a);
        uint8_t *exact = malloc((size_t)n); /* so that a sanitizer sees a read past the end */
        assert_non_null(exact);
        memcpy(exact, text, (size_t)n);
        LLVMFuzzerTestOneInput(exact, (size_t)n);
        free(exact);
    }
    assert_true(sound > INPUTS / 50 && sound < INPUTS / 2); /* both sides of the checker were reached */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs), cmocka_unit_test(test_library),  cmocka_unit_test(test_document),
        cmocka_unit_test(test_exact),    cmocka_unit_test(test_faults),   cmocka_unit_test(test_many_faults),
        cmocka_unit_test(test_binding),  cmocka_unit_test(test_lifetime), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_hostile),  cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
