/* Two programs that share no code agree: on random programs, plans and inputs, the auditor makes the inputs that
 * rowfold makes, evaluates what rowfold's oracle evaluates, and counts in a kern's text what rowfold counts in the
 * kern; and it follows every kernel of kernels/ from its text to its program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/bench/bench.h"
#include "../../src/gen/kern.h"
#include "../../src/lang/lang.h"
#include "../diff/randplan.h"
#include "../diff/randprog.h"
#include "twice.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 400, FIRST = 90001 };

typedef struct Case {
    Cx cx;
    Prog *p;
    Problem pb;
    Shape s;
    Plan plan;
    Kern *kern;
    Args args;
    const char *prog, *plan_text, *kern_text;
    Own *own;
    int number;
} Case;

static void tensors(Case *c, Fill fill, uint64_t *seed, double *scalar) {
    for (int i = 0; i < c->p->nparams; i++) {
        const Param *q = &c->p->param[i];
        Tensor *t = &c->args.t[i];
        int64_t n = 1;
        seed[i] = (uint64_t)(c->number * 64 + i);
        scalar[i] = q->has_default ? q->def : 1;
        if (q->dir == DIR_SCALAR && ty_is_float(q->ty)) c->args.scalar[i].d = scalar[i];
        if (q->dir == DIR_SCALAR && !ty_is_float(q->ty)) c->args.scalar[i].i = (int64_t)scalar[i];
        if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) continue;
        *t = (Tensor){.ty = q->ty, .rank = q->rank};
        for (int d = q->rank - 1; d >= 0; d--) t->n[d] = c->s.n[q->axis[d]], t->stride[d] = n, n *= t->n[d];
        t->data = arena_get(c->cx.a, (size_t)(n + 1) * (size_t)ty_bytes(q->ty));
        if (q->dir != DIR_OUT) fill_tensor(t, fill, seed[i], fill_bound(c->p, &c->s, i));
    }
}

static bool case_make(Case *c, int number) {
    uint8_t bytes[RANDPROG_BYTES];
    Caps caps;
    Rng r = {(uint64_t)number * 7919};
    int draws = 0;
    *c = (Case){.cx = {.a = arena_new(NULL, NULL)}, .number = number};
    const size_t n = randprog_bytes((uint64_t)number, bytes);
    assert_int_equal(randprog(&c->cx, bytes, n, &c->p, &c->s), OK);
    assert_true(caps_preset(number % 2 ? "avx2" : "h200", &caps));
    if (problem_make(&c->cx, c->p, &c->s, &caps, 0, &c->pb)) return false;
    c->s = c->pb.shape;
    c->plan = randplan(&c->cx, &c->pb, &r, &draws);
    if (kern_lower(&c->cx, &c->pb, &c->plan, &c->kern)) return false; /* too long a text */
    Buf prog = buf_new(c->cx.a), plan = buf_new(c->cx.a), kern = buf_new(c->cx.a);
    prog_print(c->p, &prog);
    plan_print(&c->kern->plan, &plan);
    kern_print(c->kern, &kern);
    c->prog = prog.s, c->plan_text = plan.s, c->kern_text = kern.s;
    const Fill fill = (Fill)(number % FILL_COUNT);
    uint64_t seed[MAX_PARAMS];
    double scalar[MAX_PARAMS];
    int64_t ext[MAX_AXES];
    const char *why = "";
    tensors(c, fill, seed, scalar);
    for (int a = 0; a < MAX_AXES; a++) ext[a] = a < c->p->naxes && c->p->axis[a].ext < 0 ? c->s.n[a] : -1;
    c->own = own_new(c->prog, ext, fill_text(fill), seed, scalar, c->plan_text, !c->kern->poly, &why);
    if (!c->own) fail_msg("program %d: %s\n%s", number, why, c->prog);
    return true;
}

static void case_free(Case *c) {
    if (c->own) own_free(c->own);
    arena_free(c->cx.a);
}

static void inputs_agree(const Case *c) {
    for (int i = 0; i < c->p->nparams; i++) {
        const Param *q = &c->p->param[i];
        const int bytes = ty_bytes(q->ty);
        int64_t n = q->dir == DIR_IN || q->dir == DIR_INOUT;
        for (int d = 0; d < q->rank; d++) n *= c->s.n[q->axis[d]];
        for (int64_t e = 0; e < n; e++) {
            uint8_t b[8];
            own_input(c->own, i, e, b);
            if (memcmp(b, (const char *)c->args.t[i].data + e * bytes, (size_t)bytes) != 0)
                fail_msg("program %d: element %lld of %s differs", c->number, (long long)e, q->name);
        }
    }
}

/* The definition's value as it is stored in memory. */
static void stored(const Expect *x, int64_t e, Ty ty, uint8_t bits[8]) {
    Num n = {.i = 0};
    if (x->f)
        n.f = (float)x->f[e];
    else if (x->w)
        n.d = (double)x->w[e];
    else if (x->ty == TY_BOOL)
        n.b = x->i[e] != 0;
    else
        n.i = x->i[e];
    num_store(ty, bits, n, x->ty);
}

typedef struct Tally {
    int64_t elements, apart,
        open; /* apart: bounds further from each other than 16 times; open: one of them is infinite */
} Tally;

static void values_agree(Case *c, Tally *t) {
    const OracleOptions o = bed_bounds(&c->pb, &c->plan);
    Expect want[MAX_PARAMS];
    assert_int_equal(oracle_eval(&c->cx, c->p, &c->s, &c->args, &o, want), OK);
    for (int k = 0; k < c->p->nouts; k++) {
        const Param *q = &c->p->param[c->p->out[k].param];
        const Expect *x = &want[c->p->out[k].param];
        int64_t at[MAX_AXES] = {0};
        for (int64_t e = 0; e < x->count; e++) {
            int64_t rest = e;
            uint8_t bits[8] = {0};
            for (int d = q->rank - 1; d >= 0; d--)
                at[q->axis[d]] = rest % c->s.n[q->axis[d]], rest /= c->s.n[q->axis[d]];
            stored(x, e, q->ty, bits);
            const OwnValue own = own_value(c->own, k, at, bits);
            if (!own.allows)
                fail_msg("program %d: element %lld of %s: the oracle's value is beyond the auditor's bound\n%s%s",
                         c->number, (long long)e, q->name, c->prog, c->plan_text);
            t->elements++;
            if (isinf(x->e[e]) || isinf(own.e))
                t->open += isinf(x->e[e]) != isinf(own.e);
            else if (x->e[e] > 16 * own.e + 0x1p-140 || own.e > 16 * x->e[e] + 0x1p-140)
                t->apart++;
        }
    }
}

static void counts_agree(Case *c) {
    Demand d;
    double own[OWN_COUNTS];
    const char *why = "";
    kern_count(&c->cx, c->kern, &d);
    if (!own_count(c->own, c->kern_text, own, &why)) fail_msg("program %d: %s\n%s", c->number, why, c->kern_text);
    if (!d.known) return;
    const double *lane = d.lane_ops, *row = d.row_ops;
    const double want[] = {d.lane.global_read,
                           d.lane.global_write,
                           d.lane.private_read,
                           d.lane.private_write,
                           d.row.global_read,
                           d.row.global_write,
                           d.row.private_read,
                           d.row.private_write,
                           d.lane_rounds,
                           d.lane_packs,
                           d.collectives,
                           d.barriers,
                           lane[0],
                           lane[1],
                           lane[2],
                           lane[3],
                           lane[4],
                           lane[5],
                           row[0],
                           row[1],
                           row[2],
                           row[3],
                           row[4],
                           row[5],
                           d.shared_bytes,
                           d.stripe_slots,
                           d.stripe_slots_sum,
                           d.reductions,
                           d.lane_rounds,
                           d.reductions};
    for (int i = 0; i < OWN_COUNTS; i++) {
        const bool told = own[i] >= 0, live = i == 25;
        if (told && (live ? own[i] > want[i] : own[i] != want[i]))
            fail_msg("program %d: count %d is %g and %g by the auditor\n%s", c->number, i, want[i], own[i],
                     c->kern_text);
    }
}

static void test_random(void **state) {
    (void)state;
    Tally t = {0};
    for (int i = 0; i < PROGRAMS; i++) {
        Case c;
        if (case_make(&c, FIRST + i)) {
            inputs_agree(&c);
            values_agree(&c, &t);
            counts_agree(&c);
        }
        case_free(&c);
    }
    print_message("%lld elements, %lld bounds apart, %lld open in one of two\n", (long long)t.elements,
                  (long long)t.apart, (long long)t.open);
    assert_true(t.elements > 100000);
    assert_true(t.apart * 100 < t.elements); /* nasty inputs reach where both bounds are coarse */
    assert_true(t.open * 200 < t.elements);
}

static char *file_text(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *s = calloc(1, 1 << 20);
    assert_non_null(f);
    assert_non_null(s);
    *n = fread(s, 1, (1 << 20) - 1, f);
    fclose(f);
    return s;
}

static void test_sources(void **state) {
    (void)state;
    static const Ty types[] = {TY_F32, TY_BF16, TY_F64};
    glob_t g;
    int followed = 0, open = 0;
    assert_int_equal(glob("kernels/*.row", 0, NULL, &g), 0);
    for (size_t f = 0; f < g.gl_pathc; f++) {
        size_t n;
        char *text = file_text(g.gl_pathv[f], &n);
        for (int t = 0; t < COUNT(types); t++) {
            Cx cx = {.a = arena_new(NULL, NULL)};
            Ast *ast;
            assert_int_equal(lang_parse(&cx, g.gl_pathv[f], text, n, &ast), OK);
            for (int k = 0; k < ast_kernels(ast); k++) {
                Prog *p;
                Buf b = buf_new(cx.a);
                if (lang_kernel(&cx, ast, ast_kernel_name(ast, k), &(TyBind){"*", types[t]}, 1, NULL, 0, &p)) continue;
                prog_print(p, &b);
                const char *why = "";
                const int found = own_source(text, ast_kernel_name(ast, k), b.s, &why);
                if (found < 0) fail_msg("%s %s: %s\n%s", g.gl_pathv[f], ast_kernel_name(ast, k), why, b.s);
                followed += found == 1;
                open += found == 0;
            }
            arena_free(cx.a);
        }
        free(text);
    }
    globfree(&g);
    print_message("%d kernels followed, %d with a constant that was folded\n", followed, open);
    assert_true(followed > 60 && open * 10 < followed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_sources)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
