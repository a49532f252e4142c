/* Building, folding and sharing of values; shapes; text in and out with hostile bytes; every rule of the verifier. */
#include "../../src/ir/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 1, N = 2, P = 4, Q = 8 }; /* sets of axes of the sample */

static int add_axis(Prog *p, const char *name, bool row, int ext) {
    p->axis[p->naxes] = (Axis){.name = name, .row = row, .ext = ext};
    if (row) p->row_axes |= 1u << p->naxes;
    return p->naxes++;
}
static int add_ext(Cx *cx, Prog *p, Ext x) {
    GROW(cx->a, p->ext, p->next, p->ext_cap);
    p->ext[p->next] = x;
    return p->next++;
}
static int add_param(Prog *p, const char *name, Dir dir, Ty ty, int rank, int a, int b) {
    p->param[p->nparams] = (Param){.name = name, .dir = dir, .ty = ty, .rank = rank, .axis = {(uint8_t)a, (uint8_t)b}};
    return p->nparams++;
}
static void add_out(Prog *p, int param, int val) {
    p->out[p->nouts++] = (Out){param, val};
}

/* Softmax, a gather with a fill over a declared axis, a quantized copy: everything the text can say. */
static Prog *sample(Cx *cx) {
    Prog *p = NEW(cx->a, Prog);
    p->name = "sample";
    int rows = add_axis(p, "rows", true, -1), n = add_axis(p, "n", false, -1);
    int e1 = add_ext(cx, p, (Ext){.op = 'a', .k = n}), e2 = add_ext(cx, p, (Ext){.op = 'k', .k = 3});
    add_axis(p, "p", false, add_ext(cx, p, (Ext){.op = '+', .l = e1, .r = e2}));
    add_axis(p, "q", false, e2);
    int x = add_param(p, "x", DIR_IN, TY_BF16, 2, rows, n), t = add_param(p, "t", DIR_IN, TY_I64, 1, rows, 0);
    int y = add_param(p, "y", DIR_OUT, TY_F32, 2, rows, n), z = add_param(p, "z", DIR_INOUT, TY_F8E4M3, 1, rows, 0);
    int eps = add_param(p, "eps", DIR_SCALAR, TY_F32, 0, 0, 0), k = add_param(p, "k", DIR_CONST, TY_F64, 0, 0, 0);
    p->param[eps].has_default = p->param[k].has_default = true;
    p->param[eps].def = 1e-5;
    p->param[k].def = (double)NAN;
    p->param_hold[x] = HOLD_REGISTER;
    int vx = prog_load(cx, p, x);
    int m = prog_red(cx, p, RED_MAX, vx, N, POLICY_TREE);
    int e = prog_op(cx, p, OP_EXP, prog_op(cx, p, OP_SUB, vx, m, -1), -1, -1);
    p->val[e].name = "e";
    p->val[e].hold = HOLD_REGISTER32;
    add_out(p, y, prog_op(cx, p, OP_DIV, e, prog_red(cx, p, RED_SUM, e, N, POLICY_ORDERED), -1));
    int at_t = prog_load(cx, p, t), nan = prog_add(cx, p, (Val){.op = OP_CONST, .ty = TY_F32, .k = {.u = 0x7FC00123}});
    Val far = {.op = OP_LOAD,
               .param = x,
               .fill = nan,
               .idx = {prog_idx(cx, p, rows), prog_op(cx, p, OP_ADD, at_t, prog_idx(cx, p, 2), -1)}};
    int g = prog_red(cx, p, RED_SUM, prog_add(cx, p, far), P, POLICY_TREE);
    int scaled =
        prog_op(cx, p, OP_MUL, g, prog_op(cx, p, OP_ADD, prog_scalar(cx, p, eps), prog_scalar(cx, p, k), -1), -1);
    int up = prog_op(cx, p, OP_LT, prog_idx(cx, p, 3), prog_const_i(cx, p, TY_I32, 2), -1);
    int any = prog_red(cx, p, RED_ANY, up, Q, POLICY_TREE);
    int w = prog_op(cx, p, OP_WHERE, any, prog_cast(cx, p, TY_F16, scaled), prog_const_f(cx, p, TY_F64, 0.1));
    int bits = prog_add(cx, p, (Val){.op = OP_BITS, .a = {w, -1, -1}, .to = TY_I64});
    int mask = prog_op(cx, p, OP_BITAND, bits, prog_const_i(cx, p, TY_I64, INT64_MIN), -1);
    prog_add(cx, p, (Val){.op = OP_CONST, .ty = TY_U64, .k = {.u = UINT64_MAX}});
    prog_add(cx, p, (Val){.op = OP_CONST, .ty = TY_BOOL, .k = {.u = 1}});
    prog_add(cx, p, (Val){.op = OP_CONST, .ty = TY_F64, .k = {.d = -0.0}});
    add_out(p, z, prog_op(cx, p, OP_ADD, mask, w, -1));
    p->val[w].name = "w";
    return p;
}

static Cx new_cx(void) {
    return (Cx){.a = arena_new(NULL, NULL)};
}

static void expect_slug(Cx *cx, Slug slug) {
    if (!cx->first) fail_msg("no diagnostic, wanted %s", slug_text(slug));
    if (cx->first->slug != slug)
        fail_msg("%s (%s), wanted %s", slug_text(cx->first->slug), cx->first->msg, slug_text(slug));
}

static const char *text_of(Cx *cx, const Prog *p, size_t *n) {
    Buf b = buf_new(cx->a);
    prog_print(p, &b);
    *n = b.n;
    return b.s;
}

/* ---- building ---- */
static void the_sample_verifies(void **state) {
    (void)state;
    Cx cx = new_cx();
    Prog *p = sample(&cx);
    assert_int_equal(prog_verify(&cx, p), OK);
    assert_int_equal(cx.ndiags, 0);
    assert_int_equal(prog_axis(p, "p"), 2);
    assert_int_equal(prog_axis(p, "x"), -1);
    assert_int_equal(prog_param(p, "eps"), 4);
    int loads = 0, in_place = 0;
    for (int i = 0; i < p->nvals; i++) {
        loads += p->val[i].op == OP_LOAD;
        in_place += val_in_place(p, &p->val[i]);
    }
    assert_int_equal(loads, 3);
    assert_int_equal(in_place, 2);
    const Val *y = &p->val[p->out[0].val];
    assert_true(y->op == OP_DIV && y->ty == TY_F32 && y->axes == (ROWS | N));
    assert_true(p->val[y->a[1]].axes == ROWS);
    arena_free(cx.a);
}

static void equal_values_are_made_once(void **state) {
    (void)state;
    Cx cx = new_cx();
    Prog *p = sample(&cx);
    int x = prog_load(&cx, p, 0), n = p->nvals;
    assert_int_equal(prog_load(&cx, p, 0), x);
    int a = prog_op(&cx, p, OP_ADD, x, x, -1);
    assert_int_equal(prog_op(&cx, p, OP_ADD, x, x, -1), a);
    assert_int_equal(p->nvals, n + 1);
    assert_int_not_equal(prog_op(&cx, p, OP_MUL, x, x, -1), a);
    assert_int_not_equal(prog_red(&cx, p, RED_SUM, a, N, POLICY_TREE), prog_red(&cx, p, RED_SUM, a, N, POLICY_ORDERED));
    /* the first name stays, a nameless value takes the new one */
    Val v = p->val[a];
    v.name = "first";
    assert_int_equal(prog_add(&cx, p, v), a);
    v.name = "second";
    assert_int_equal(prog_add(&cx, p, v), a);
    assert_string_equal(p->val[a].name, "first");
    /* a pinned hold never moves to a value of another name, nor replaces another pinned hold */
    v.hold = HOLD_RELOAD;
    int b = prog_add(&cx, p, v);
    assert_int_not_equal(b, a);
    assert_string_equal(p->val[b].name, "second");
    assert_int_equal(p->val[a].hold, HOLD_AUTO);
    v.hold = HOLD_SHARED;
    assert_int_not_equal(prog_add(&cx, p, v), b);
    v.hold = HOLD_REGISTER;
    v.name = "first";
    assert_int_equal(prog_add(&cx, p, v), a);
    assert_int_equal(p->val[a].hold, HOLD_REGISTER);
    /* 0 and -0 are two constants, NaN is one */
    assert_int_not_equal(prog_const_f(&cx, p, TY_F32, 0), prog_const_f(&cx, p, TY_F32, -0.0));
    assert_int_equal(prog_const_f(&cx, p, TY_F32, (double)NAN), prog_const_f(&cx, p, TY_F32, (double)NAN));
    arena_free(cx.a);
}

static void constants_fold_as_machines_compute(void **state) {
    (void)state;
    Cx cx = new_cx();
    Prog *p = sample(&cx);
    int third = prog_op(&cx, p, OP_DIV, prog_const_f(&cx, p, TY_F32, 1), prog_const_f(&cx, p, TY_F32, 3), -1);
    assert_true(p->val[third].op == OP_CONST && p->val[third].k.f == 1.0f / 3.0f);
    int mixed = prog_op(&cx, p, OP_ADD, third, prog_const_i(&cx, p, TY_I64, 16777217),
                        -1); /* the integer rounds to f32 first */
    assert_true(p->val[mixed].op == OP_CONST && p->val[mixed].ty == TY_F32 && p->val[mixed].k.f == 16777216.0f);
    int wrapped = prog_op(&cx, p, OP_ADD, prog_const_i(&cx, p, TY_I32, INT32_MAX), prog_const_i(&cx, p, TY_I8, 1), -1);
    assert_true(p->val[wrapped].k.i == INT32_MIN);
    int less = prog_op(&cx, p, OP_LT, wrapped, third, -1);
    assert_true(p->val[less].ty == TY_BOOL && p->val[less].k.u == 1);
    assert_int_equal(p->val[prog_op(&cx, p, OP_EXP, third, -1, -1)].op,
                     OP_EXP); /* a machine's own function: not folded */
    int e64 = prog_op(&cx, p, OP_EXP, prog_const_f(&cx, p, TY_F64, 1), -1, -1);
    assert_true(p->val[e64].op == OP_CONST && p->val[e64].k.d == exp(1));
    int zero = prog_const_f(&cx, p, TY_F32, 0), nan = prog_op(&cx, p, OP_DIV, zero, zero, -1);
    assert_int_equal(p->val[nan].k.u, 0x7FC00000);
    int f8 = prog_cast(&cx, p, TY_F8E4M3, prog_const_f(&cx, p, TY_F32, 1000));
    assert_true(p->val[f8].op == OP_CONST && p->val[f8].k.f == 448);
    assert_true(p->val[prog_const_f(&cx, p, TY_I8, 300)].k.i == 127);
    arena_free(cx.a);
}

static void casts_come_where_they_matter(void **state) {
    (void)state;
    Cx cx = new_cx();
    Prog *p = sample(&cx);
    int x = prog_load(&cx, p, 0), y = prog_op(&cx, p, OP_ADD, x, x, -1);
    assert_int_equal(prog_cast(&cx, p, TY_F32, x), x);
    assert_int_equal(prog_cast(&cx, p, TY_BF16, x), x); /* it was stored so */
    int h = prog_cast(&cx, p, TY_BF16, y);
    assert_true(h != y && p->val[h].op == OP_CAST && p->val[h].ty == TY_F32);
    assert_int_equal(prog_cast(&cx, p, TY_BF16, h), h);
    assert_int_not_equal(prog_cast(&cx, p, TY_F16, h), h);
    int d = prog_op(&cx, p, OP_MUL, x, prog_const_f(&cx, p, TY_F64, 2), -1);
    assert_true(p->val[d].ty == TY_F64 && p->val[p->val[d].a[0]].op == OP_CAST);
    int count = prog_red(&cx, p, RED_SUM, prog_op(&cx, p, OP_LT, x, y, -1), N, POLICY_TREE);
    assert_true(p->val[count].ty == TY_I64);
    assert_int_equal(p->val[prog_red(&cx, p, RED_ALL, x, N, POLICY_TREE)].ty, TY_BOOL);
    assert_int_equal(p->val[prog_red(&cx, p, RED_ARGMAX, x, N | P, POLICY_TREE)].axes, ROWS);
    assert_int_equal(cx.ndiags, 0);
    assert_int_equal(prog_op(&cx, p, OP_AND, x, y, -1), -1);
    expect_slug(&cx, S_IR_TYPE);
    assert_int_equal(prog_op(&cx, p, OP_ADD, x, -1, -1), -1); /* an operand that failed made its diagnostic already */
    assert_int_equal(cx.ndiags, 1);
    arena_free(cx.a);
}

static void values_have_a_limit(void **state) {
    (void)state;
    Cx cx = new_cx();
    Prog *p = sample(&cx);
    int i = 0;
    while (prog_const_i(&cx, p, TY_I64, 100 + i) >= 0) i++;
    assert_int_equal(p->nvals, MAX_VALS);
    expect_slug(&cx, S_IR_LIMIT);
    arena_free(cx.a);
}

/* ---- shapes ---- */
static Err bind(int64_t rows, int64_t n, Ext three, char op, Slug *slug, Shape *s) {
    Cx cx = new_cx();
    Prog *p = sample(&cx);
    p->ext[1] = three;
    p->ext[2].op = op;
    *s = (Shape){.n = {rows, n}};
    Err e = shape_bind(&cx, p, s);
    *slug = cx.first ? cx.first->slug : SLUG_COUNT;
    arena_free(cx.a);
    return e;
}

static void shapes_are_bound(void **state) {
    (void)state;
    static const struct {
        int64_t rows, n, three;
        char op;
        int64_t p; /* -1: refused */
        Slug slug;
    } cases[] = {
        {5, 7, 3, '+', 10, 0},
        {-1, 7, 3, '*', 21, 0},
        {5, 0, 3, '+', 3, 0},
        {5, 7, 3, '/', 2, 0},
        {5, 7, 3, '%', 1, 0},
        {5, 7, 3, '-', 4, 0},
        {5, -1, 3, '+', -1, S_SHAPE_UNKNOWN},
        {5, -2, 3, '+', -1, S_SHAPE_NEGATIVE},
        {-2, 7, 3, '+', -1, S_SHAPE_NEGATIVE},
        {5, 2, 3, '-', -1, S_SHAPE_NEGATIVE},
        {5, 7, 0, '/', -1, S_SHAPE_DIVIDE},
        {5, 7, 0, '%', -1, S_SHAPE_DIVIDE},
        {5, INT64_MAX, 3, '+', -1, S_SHAPE_OVERFLOW},
        {5, INT64_MAX, 3, '*', -1, S_SHAPE_OVERFLOW},
        {1ll << 40, 1ll << 30, 3, '+', -1, S_SHAPE_OVERFLOW},
        {0, 1ll << 62, 3, '/', -1, S_SHAPE_OVERFLOW},
        {1ll << 30, 1ll << 20, 3, '+', (1ll << 20) + 3, 0},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        Shape s = {0};
        Slug slug;
        Err e = bind(cases[i].rows, cases[i].n, (Ext){.op = 'k', .k = cases[i].three}, cases[i].op, &slug, &s);
        if (cases[i].p < 0) {
            assert_int_equal(e, ERR_ARGUMENT);
            assert_int_equal(slug, cases[i].slug);
        } else {
            assert_int_equal(e, OK);
            assert_true(s.n[2] == cases[i].p && s.n[3] == cases[i].three && s.n[0] == cases[i].rows);
        }
    }
    /* floor division and the remainder that belongs to it, of negative numbers */
    static const int64_t fl[][4] = {{-7, 2, -4, 1}, {7, -2, -4, -1}, {-7, -2, 3, -1}, {-7, -1, 7, 0}, {6, 3, 2, 0}};
    for (int i = 0; i < COUNT(fl); i++)
        for (int mod = 0; mod < 2; mod++) {
            Cx cx = new_cx();
            Prog *p = sample(&cx);
            int l = add_ext(&cx, p, (Ext){.op = 'k', .k = fl[i][0]}),
                r = add_ext(&cx, p, (Ext){.op = 'k', .k = fl[i][1]});
            int e = add_ext(&cx, p, (Ext){.op = mod ? '%' : '/', .l = l, .r = r});
            int ten = add_ext(&cx, p, (Ext){.op = 'k', .k = 10});
            p->axis[3].ext = add_ext(&cx, p, (Ext){.op = '+', .l = e, .r = ten});
            Shape s = {.n = {4, 4}};
            assert_int_equal(prog_verify(&cx, p), OK);
            assert_int_equal(shape_bind(&cx, p, &s), OK);
            assert_int_equal(s.n[3], fl[i][2 + mod] + 10);
            arena_free(cx.a);
        }
}

/* ---- text ---- */
static void text_reads_back(void **state) {
    (void)state;
    Cx cx = new_cx();
    Prog *p = sample(&cx), *q = NULL;
    size_t n, m;
    const char *text = text_of(&cx, p, &n);
    assert_int_equal(prog_read(&cx, text, n, &q), OK);
    const char *again = text_of(&cx, q, &m);
    assert_int_equal(n, m);
    assert_string_equal(text, again);
    assert_int_equal(q->nvals, p->nvals);
    for (int i = 0; i < p->nvals; i++) {
        Val a = p->val[i], b = q->val[i];
        a.name = b.name = NULL; /* pointers and places differ */
        a.at = b.at = NOWHERE;
        assert_true(a.op == b.op && a.ty == b.ty && a.axes == b.axes && a.k.u == b.k.u && a.param == b.param &&
                    a.fill == b.fill);
        assert_true(a.axis == b.axis && a.to == b.to && a.red == b.red && a.over == b.over && a.policy == b.policy &&
                    a.hold == b.hold);
        assert_memory_equal(a.a, b.a, sizeof a.a);
        assert_memory_equal(a.idx, b.idx, sizeof a.idx);
    }
    assert_non_null(strstr(text, " 0x7fc00123\n"));
    assert_non_null(strstr(text, "param x in bf16 [rows,n] hold register\n"));
    assert_non_null(strstr(text, " as e hold register.f32\n"));
    assert_non_null(strstr(text, "const i64 [] -9223372036854775808\n"));
    assert_non_null(strstr(text, "const u64 [] 18446744073709551615\n"));
    assert_non_null(strstr(text, "const f64 [] -0\n"));
    assert_non_null(strstr(text, "axis p element = #2\n"));
    arena_free(cx.a);
}

/* Reads anything; what it accepts prints to a text that reads back to itself. */
static bool read_hostile(const char *text, size_t n) {
    Cx cx = new_cx();
    Prog *p = NULL;
    Err e = prog_read(&cx, text, n, &p);
    assert_true(arena_bytes(cx.a) < 1 << 20);
    assert_true((e == OK) == (p != NULL) && (e == OK) == (cx.ndiags == 0));
    if (!e) {
        size_t n1, n2;
        const char *t1 = text_of(&cx, p, &n1);
        Prog *q = NULL;
        assert_int_equal(prog_read(&cx, t1, n1, &q), OK);
        const char *t2 = text_of(&cx, q, &n2);
        assert_true(n1 == n2 && !memcmp(t1, t2, n1));
        Shape s = {.n = {3, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}};
        shape_bind(&cx, p, &s);
    }
    arena_free(cx.a);
    return !e;
}

static void hostile_text_is_refused_or_sound(void **state) {
    (void)state;
    Cx cx = new_cx();
    size_t n;
    const char *text = text_of(&cx, sample(&cx), &n);
    for (size_t cut = 0; cut < n; cut++) assert_false(read_hostile(text, cut));
    Rng r = {20000};
    char *t = arena_get(cx.a, 2 * n + 64);
    int accepted = 0;
    static const char *const words[] = {"%0",  "%31",  "%999999",     "[",    "]",   "[]",    "f64",   "i32",   "bool",
                                        "end", "axis", "hold shared", "rows", "#0",  "#2",    "-1",    "1e308", "0x7ff",
                                        "nan", "else", "over",        "in",   "out", "const", "where", "\n",    " "};
    for (int round = 0; round < 20000; round++) {
        size_t m = n;
        memcpy(t, text, n);
        for (int edits = 1 + rng_int(&r, 3); edits > 0; edits--) {
            size_t at = (size_t)rng_int(&r, (int)m), len = (size_t)rng_int(&r, 40);
            if (len > m - at) len = m - at;
            const char *w = words[rng_int(&r, COUNT(words))];
            switch (rng_int(&r, 6)) {
            case 0: t[at] = (char)rng_u64(&r); break;
            case 1: t[at] = "0123456789%[],ax \n"[rng_int(&r, 18)]; break;
            case 2: /* a piece is lost */
                memmove(t + at, t + at + len, m - at - len);
                m -= len;
                break;
            case 3: /* a piece is doubled */
                if (m + len > 2 * n) break;
                memmove(t + at + len, t + at, m - at);
                m += len;
                break;
            case 4: /* another word */
                while (at > 0 && t[at - 1] != ' ' && t[at - 1] != '\n') at--;
                for (len = strlen(w); len > m - at; len--) {}
                memcpy(t + at, w, len);
                break;
            default: /* a digit moves */
                while (at < m && (t[at] < '0' || t[at] > '8')) at++;
                if (at < m) t[at]++;
            }
            if (!m) break;
        }
        accepted += read_hostile(t, m);
    }
    assert_in_range(accepted, 100, 19000); /* both ways are walked */
    arena_free(cx.a);
}

static void bad_lines_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text;
        Slug slug;
        int line;
    } cases[] = {
        {"", S_IR_TEXT, 0},
        {"prog p\nend", S_IR_TEXT, 2},
        {"prog p\nend\nmore\n", S_IR_TEXT, 2},
        {"prog p\nspin\nend\n", S_IR_TEXT, 2},
        {"prog p\naxis n diagonal\nend\n", S_IR_TEXT, 2},
        {"prog p\naxis n element\nparam x in f31 [n]\nend\n", S_IR_TEXT, 3},
        {"prog p\naxis n element\nparam x in f32 [m]\nend\n", S_IR_TEXT, 3},
        {"prog p\naxis n element\nparam x in f32 [n,]\nend\n", S_IR_TEXT, 3},
        {"prog p\naxis n element\nparam x in f32 [n\nend\n", S_IR_TEXT, 3},
        {"prog p\n%1 = const f32 [] 1\nend\n", S_IR_TEXT, 2},
        {"prog p\n%0 = const f32 [] 0.1\nend\n", S_IR_TEXT, 2},
        {"prog p\n%0 = const f64 [] 1e999\nend\n", S_IR_TEXT, 2},
        {"prog p\n%0 = const u64 [] 18446744073709551616\nend\n", S_IR_TEXT, 2},
        {"prog p\n%0 = const bool [] 2\nend\n", S_IR_TEXT, 2},
        {"prog p\n%0 = const i32 [] 2147483648\nend\n", S_IR_CONST, 2},
        {"prog p\n%0 = const f16 [] 1\nend\n", S_IR_CONST, 2},
        {"prog p\n%0 = const f32 [] 0x100000000\nend\n", S_IR_CONST, 2},
        {"prog p\n%0 = const f32 [] 1 as 9x\nend\n", S_IR_NAME, 0},
        {"prog p\n%0 = const f32 [] 1 hold auto\nend\n", S_IR_TEXT, 2},
        {"prog p\naxis n element\nparam x in f32 [n]\n%0 = load f32 [n] x []\nend\n", S_IR_INDEX, 4},
        {"prog p\nout y = %0\nend\n", S_IR_TEXT, 2},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        Cx cx = new_cx();
        Prog *p = NULL;
        assert_int_equal(prog_read(&cx, cases[i].text, strlen(cases[i].text), &p), ERR_LANGUAGE);
        expect_slug(&cx, cases[i].slug);
        assert_int_equal(cx.first->at.line, cases[i].line);
        assert_int_equal(cx.ndiags, 1);
        arena_free(cx.a);
    }
    assert_true(read_hostile("prog p\nend\n", 11));
    assert_false(read_hostile("prog p\0\nend\n", 12));
    Cx cx = new_cx(); /* limits are met while reading, not after */
    Buf b = buf_new(cx.a);
    buf_str(&b, "prog p\n");
    for (int i = 0; i <= MAX_VALS; i++) buf_fmt(&b, "%%%d = const i64 [] %d\n", i, i);
    Prog *p = NULL;
    assert_int_equal(prog_read(&cx, b.s, b.n, &p), ERR_LANGUAGE);
    expect_slug(&cx, S_IR_LIMIT);
    arena_free(cx.a);
    cx = new_cx(); /* an extent that doubles at each line is refused, not walked */
    b = buf_new(cx.a);
    buf_str(&b, "prog p\next #0 = const 1\n");
    for (int i = 1; i < 200; i++) buf_fmt(&b, "ext #%d = + #%d #%d\n", i, i - 1, i - 1);
    buf_str(&b, "end\n");
    assert_int_equal(prog_read(&cx, b.s, b.n, &p), ERR_LANGUAGE);
    expect_slug(&cx, S_IR_LIMIT);
    arena_free(cx.a);
}

/* ---- the verifier: one way to break each rule ---- */
static int find(const Prog *p, Op op) {
    for (int i = 0; i < p->nvals; i++)
        if (p->val[i].op == op) return i;
    fail_msg("the sample lacks an operator");
    return -1;
}
static Val *at(Prog *p, Op op) {
    return &p->val[find(p, op)];
}
static Val *gather(Prog *p) {
    for (int i = 0; i < p->nvals; i++)
        if (p->val[i].op == OP_LOAD && p->val[i].fill >= 0) return &p->val[i];
    return NULL;
}

#define BREAKS(X)                                                                               \
    X(S_IR_LIMIT, p->naxes = MAX_AXES + 1)                                                      \
    X(S_IR_LIMIT, p->nvals = MAX_VALS + 1)                                                      \
    X(S_IR_LIMIT, p->nparams = -1)                                                              \
    X(S_IR_LIMIT, p->next = MAX_EXTS + 1)                                                       \
    X(S_IR_NAME, p->name = NULL)                                                                \
    X(S_IR_NAME, p->axis[0].name = "")                                                          \
    X(S_IR_NAME, p->param[0].name = "a b")                                                      \
    X(S_IR_NAME, at(p, OP_EXP)->name = "1e")                                                    \
    X(S_IR_NAME, p->name = "a2345678901234567890123456789012345678901234567890123456789012345") \
    X(S_IR_DUPLICATE, p->axis[1].name = "rows")                                                 \
    X(S_IR_DUPLICATE, p->param[1].name = "x")                                                   \
    X(S_IR_DUPLICATE, p->param[1].name = "n")                                                   \
    X(S_IR_DUPLICATE, at(p, OP_DIV)->name = "e")                                                \
    X(S_IR_EXTENT, p->ext[2].l = 2)                                                             \
    X(S_IR_EXTENT, p->ext[2].op = '^')                                                          \
    X(S_IR_EXTENT, p->ext[2].op = 0)                                                            \
    X(S_IR_EXTENT, p->ext[0].k = 0)                                                             \
    X(S_IR_EXTENT, p->ext[0].k = 12)                                                            \
    X(S_IR_EXTENT, p->ext[0].k = 2)                                                             \
    X(S_IR_EXTENT, p->axis[3].ext = 99)                                                         \
    X(S_IR_EXTENT, p->axis[3].ext = -2)                                                         \
    X(S_IR_AXIS, p->axis[3].ext = -1)                                                           \
    X(S_IR_AXIS, p->axis[0].ext = 1)                                                            \
    X(S_IR_AXIS, p->row_axes = 3)                                                               \
    X(S_IR_AXIS, at(p, OP_IDX)->axis = 4)                                                       \
    X(S_IR_PARAM, p->param[0].dir = (Dir)5)                                                     \
    X(S_IR_PARAM, p->param[0].ty = TY_NONE)                                                     \
    X(S_IR_PARAM, p->param[0].rank = MAX_RANK + 1)                                              \
    X(S_IR_PARAM, p->param[0].axis[1] = 0)                                                      \
    X(S_IR_PARAM, p->param[0].axis[1] = 4)                                                      \
    X(S_IR_PARAM, p->param[4].rank = 1)                                                         \
    X(S_IR_PARAM, p->param[5].has_default = false)                                              \
    X(S_IR_PARAM, p->param[0].has_default = true)                                               \
    X(S_IR_PARAM, p->param_hold[0] = HOLD_COUNT)                                                \
    X(S_IR_PARAM, p->param_hold[2] = HOLD_REGISTER)                                             \
    X(S_IR_OPERAND, at(p, OP_EXP)->a[0] = find(p, OP_EXP))                                      \
    X(S_IR_OPERAND, at(p, OP_WHERE)->a[2] = -1)                                                 \
    X(S_IR_OPERAND, at(p, OP_LOAD)->idx[1] = find(p, OP_LOAD))                                  \
    X(S_IR_OPERAND, gather(p)->fill = p->nvals)                                                 \
    X(S_IR_OPERAND, gather(p)->fill = -2)                                                       \
    X(S_IR_OPERATOR, at(p, OP_EXP)->op = OP_COUNT)                                              \
    X(S_IR_OPERATOR, at(p, OP_EXP)->hold = HOLD_COUNT)                                          \
    X(S_IR_OPERATOR, at(p, OP_RED)->red = RED_COUNT)                                            \
    X(S_IR_OPERATOR, at(p, OP_RED)->policy = (Policy)2)                                         \
    X(S_IR_TYPE, at(p, OP_EXP)->op = OP_NOT)                                                    \
    X(S_IR_TYPE, at(p, OP_DIV)->a[1] = find(p, OP_IDX))                                         \
    X(S_IR_TYPE, at(p, OP_CAST)->to = TY_COUNT)                                                 \
    X(S_IR_TYPE, at(p, OP_BITS)->to = TY_I32)                                                   \
    X(S_IR_TYPE, at(p, OP_BITS)->to = TY_BOOL)                                                  \
    X(S_IR_TYPE, at(p, OP_RED)->red = RED_ANY)                                                  \
    X(S_IR_AXES, at(p, OP_RED)->axes |= N)                                                      \
    X(S_IR_AXES, at(p, OP_EXP)->axes = 0)                                                       \
    X(S_IR_AXES, at(p, OP_EXP)->ty = TY_F64)                                                    \
    X(S_IR_CONST, at(p, OP_CONST)->ty = TY_F16)                                                 \
    X(S_IR_CONST, at(p, OP_CONST)->k.u |= 1ull << 40)                                           \
    X(S_IR_SCALAR, at(p, OP_SCALAR)->param = 0)                                                 \
    X(S_IR_SCALAR, at(p, OP_SCALAR)->param = 6)                                                 \
    X(S_IR_LOAD, at(p, OP_LOAD)->param = 2)                                                     \
    X(S_IR_LOAD, at(p, OP_LOAD)->param = 4)                                                     \
    X(S_IR_LOAD, at(p, OP_LOAD)->param = -1)                                                    \
    X(S_IR_INDEX, gather(p)->idx[1] = find(p, OP_RED))                                          \
    X(S_IR_FILL, gather(p)->fill = find(p, OP_IDX))                                             \
    X(S_IR_REDUCE, at(p, OP_RED)->over = 0)                                                     \
    X(S_IR_REDUCE, at(p, OP_RED)->over = ROWS)                                                  \
    X(S_IR_REDUCE, at(p, OP_RED)->over = 1u << 4)                                               \
    X(S_IR_OUT, p->nouts = 1)                                                                   \
    X(S_IR_OUT, p->out[1].param = 2)                                                            \
    X(S_IR_OUT, p->out[1].param = 0)                                                            \
    X(S_IR_OUT, p->out[1].param = 9)                                                            \
    X(S_IR_OUT, p->out[1].val = p->nvals)                                                       \
    X(S_IR_OUT, p->out[1].val = p->out[0].val)                                                  \
    X(S_IR_OUT, p->param[3].rank = 0)

static void each_rule_is_checked(void **state) {
    (void)state;
    int broken = 0;
#define BREAK(want, change)                                                     \
    {                                                                           \
        Cx cx = new_cx();                                                       \
        Prog *p = sample(&cx);                                                  \
        change;                                                                 \
        Err e = prog_verify(&cx, p);                                            \
        if (e != ERR_LANGUAGE || cx.first->slug != want)                        \
            fail_msg("%s: %s", #change, cx.first ? cx.first->msg : "accepted"); \
        assert_int_equal(cx.ndiags, 1);                                         \
        arena_free(cx.a);                                                       \
        broken++;                                                               \
    }
    BREAKS(BREAK)
#undef BREAK
    assert_true(broken > 60);
    /* an output of row-invariant value still needs the row axes */
    Cx cx = new_cx();
    Prog *p = sample(&cx);
    p->out[1].val = find(p, OP_CONST);
    assert_int_equal(prog_verify(&cx, p), OK);
    p->param[3].axis[0] = 1;
    assert_int_equal(prog_verify(&cx, p), ERR_LANGUAGE);
    expect_slug(&cx, S_IR_OUT);
    arena_free(cx.a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sample_verifies),
        cmocka_unit_test(equal_values_are_made_once),
        cmocka_unit_test(constants_fold_as_machines_compute),
        cmocka_unit_test(casts_come_where_they_matter),
        cmocka_unit_test(values_have_a_limit),
        cmocka_unit_test(shapes_are_bound),
        cmocka_unit_test(text_reads_back),
        cmocka_unit_test(hostile_text_is_refused_or_sound),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(each_rule_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
