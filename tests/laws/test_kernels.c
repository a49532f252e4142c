/* Every kernel of kernels/ is what its text says: at many shapes, types and plans the interpreter's results lie within
 * the bounds of the definition, the audit finds nothing, and the compiled kernel has the interpreter's bits. One test a
 * kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/audit/audit.h"
#include "../../src/bench/bench.h"
#include "../../src/lang/lang.h"
#include "../../src/search/search.h"
#include "../diff/randprog.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 64, MAX_KERNELS = 256 };

static const Ty types[] = {TY_F32, TY_BF16, TY_F16, TY_F64};
static const int64_t lengths[] = {1, 7, 64, 257, 521};
static const char *const plans[] = {
    "W=1",          "W=32 V=4 acc=2",        "W=16 div=reciprocal held", "W=16 flight=2 stat",
    "W=8 fuse=off", "W=16 acc=2 contract=on"};
enum { PLAN_HELD = 2, PLAN_STAT = 3, PLAN_CONTRACT = 5 }; /* the last is interpreted only, for a machine that fuses */

typedef struct Work { /* of all tests */
    Arena *a;
    Rt *rt;
    Device *dev;
    const Caps *caps;
    int nfiles, nkernels;
    struct {
        const char *path;
        Ast *ast;
    } file[MAX_FILES];
    struct KernelAt {
        struct Work *w;
        const Ast *ast;
        const char *name, *label;
    } kernel[MAX_KERNELS];
    int64_t stat_used[STAT_COUNT], held, runs, built;
} Work;

/* One kernel at one shape, type and plan. */
typedef struct Case {
    Cx cx;
    Prog *prog;
    Shape shape;
    Problem pb;
    Plan plan;
    int64_t rows;
    Kern *kern;
    Args args; /* inputs as given, outputs poisoned */
} Case;

_Noreturn static void die(const Case *c, const struct KernelAt *k, const char *what) {
    Buf b = buf_new(c->cx.a);
    plan_print(&c->plan, &b);
    buf_str(&b, "\n  extents");
    for (int i = 0; c->prog && i < c->prog->naxes; i++)
        buf_fmt(&b, " %s=%lld", c->prog->axis[i].name, (long long)c->shape.n[i]);
    for (int i = 0; c->prog && i < c->prog->nparams; i++)
        buf_fmt(&b, " %s:%s", c->prog->param[i].name, ty_text(c->prog->param[i].ty));
    if (c->cx.first) buf_fmt(&b, "\n  %s: %s", slug_text(c->cx.first->slug), c->cx.first->msg);
    print_error("%s: %s\n  %s\n", k->label, what, b.s);
    fail();
    abort();
}

/* The last element axis of the longest tensor gets n, the other element axes 2 and 3, the first row axis `rows`, the
 * others 2. */
static void shape_of(const Prog *p, int64_t n, int64_t rows, Shape *s) {
    int fast = -1, rank = 0;
    for (int i = 0; i < p->nparams; i++)
        for (int d = 0; d < p->param[i].rank; d++) {
            int a = p->param[i].axis[d];
            if (p->param[i].rank < rank || p->row_axes >> a & 1) continue;
            if (p->param[i].rank > rank || a > fast) fast = a;
            rank = p->param[i].rank;
        }
    int others = 2;
    bool first = true;
    for (int a = 0; a < p->naxes; a++) {
        const bool row = p->row_axes >> a & 1;
        s->n[a] = p->axis[a].ext >= 0 ? -1 : a == fast ? n : row ? (first ? rows : 2) : others++;
        first &= !row;
    }
    for (int a = p->naxes; a < MAX_AXES; a++) s->n[a] = -1;
}

static Err estimate(Case *c, const char *pin) {
    Search s = {.pb = &c->pb, .effort = EFFORT_ESTIMATE, .pin = pin};
    Err err = cost_find(&c->cx, "roofline", &s.policy);
    if (!err) err = search_run(&c->cx, &s);
    if (!err) c->plan = s.trial[s.best].plan;
    return err;
}

/* A plan of the list, or (-1) the cost policy's own choice. With `held`, every input read twice that rows do not share
 * stays in registers; with `stat`, the first statistic from `turn` on that the program has a pair for. */
static Err choose(Work *w, Case *c, int which, int turn) {
    if (which < 0) return estimate(c, NULL);
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)strlen(plans[which]) - (which == PLAN_HELD || which == PLAN_STAT ? 5 : 0),
             plans[which]);
    Sched *sc = NEW(c->cx.a, Sched);
    Err err = plan_read(&c->cx, text, &c->plan);
    for (int i = 0; which == PLAN_STAT && i < STAT_COUNT; i++) {
        Cx own = {.a = c->cx.a};
        c->plan.stat = (turn + i) % STAT_COUNT;
        if (c->plan.stat && sched_make(&own, c->pb.prog, &c->pb.shape, problem_spread(&c->pb, &c->plan),
                                       c->plan.grid != 0, true, (Stat)c->plan.stat, 0, sc) == OK)
            break;
        c->plan.stat = STAT_TWO_PASS;
    }
    w->stat_used[c->plan.stat]++;
    if (!err)
        err = sched_make(&c->cx, c->pb.prog, &c->pb.shape, problem_spread(&c->pb, &c->plan), c->plan.grid != 0,
                         c->plan.fuse, (Stat)c->plan.stat, 0, sc);
    for (int i = 0; !err && which == PLAN_HELD && i < sc->ncands; i++) {
        if (!sc->cand[i].load) continue;
        c->plan.hold[c->plan.nholds].name = sc->cand[i].name;
        c->plan.hold[c->plan.nholds++].hold = HOLD_REGISTER;
        w->held++;
    }
    return err;
}

static void case_make(Work *w, const struct KernelAt *k, Ty ty, int64_t n, int64_t rows, int plan, Fill fill, Case *c) {
    *c = (Case){.cx = {.a = arena_new(NULL, NULL)}, .rows = 1};
    if (lang_kernel(&c->cx, k->ast, k->name, &(TyBind){"*", ty}, 1, NULL, 0, &c->prog)) die(c, k, "lang_kernel");
    shape_of(c->prog, n, rows, &c->shape);
    Caps caps = *w->caps;
    if (plan == PLAN_CONTRACT) assert_true(caps_preset("avx512", &caps));
    if (problem_make(&c->cx, c->prog, &c->shape, &caps, 0, &c->pb)) die(c, k, "problem_make");
    c->shape = c->pb.shape;
    for (int a = 0; a < c->prog->naxes; a++)
        if (c->prog->row_axes >> a & 1) c->rows *= c->shape.n[a];
    if (choose(w, c, plan, (int)w->runs)) die(c, k, "no plan");
    if (kern_lower(&c->cx, &c->pb, &c->plan, &c->kern)) die(c, k, "kern_lower");
    AuditReport report;
    if (audit_kern(&c->cx, c->pb.prog, &c->pb.shape, &c->pb.caps, true, false, 0, c->kern, &report))
        die(c, k, "audit_kern");
    randargs(&c->cx, c->prog, &c->shape, fill, (uint64_t)(n * 8 + rows), false, &c->args);
}

static size_t bytes_of(const Case *c, int param) {
    size_t n = (size_t)ty_bytes(c->prog->param[param].ty);
    for (int d = 0; d < c->prog->param[param].rank; d++) n *= (size_t)c->args.t[param].n[d];
    return n;
}

/* The same inputs in memory of their own. */
static Args copy_args(const Case *c) {
    Args a = c->args;
    for (int i = 0; i < c->prog->nparams; i++)
        if (a.t[i].data) a.t[i].data = arena_dup(c->cx.a, a.t[i].data, bytes_of(c, i));
    return a;
}

static Slot *slots_of(const Case *c, const Args *a) {
    Abi abi;
    abi_of(c->pb.prog, &abi);
    Slot *s = NEWN(c->cx.a, Slot, abi.nslots + 1);
    for (int i = 0; i < c->prog->nparams; i++) {
        const Param *q = &c->prog->param[i];
        if (q->dir == DIR_SCALAR) s[abi.scalar[i]].i = a->scalar[i].i; /* a union of 8 bytes: also the f64 */
        if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) continue;
        s[abi.ptr[i]].p = a->t[i].data;
        for (int d = 0; d < q->rank; d++) s[abi.stride[i][d]].i = a->t[i].stride[d];
    }
    for (int x = 0; x < c->prog->naxes; x++)
        if (abi.row[x] >= 0) s[abi.row[x]].i = c->shape.n[x];
    return s;
}

static Args interpret(Work *w, Case *c, const struct KernelAt *k) {
    Args out = copy_args(c);
    const void *lo[MAX_PARAMS] = {0}, *hi[MAX_PARAMS] = {0};
    for (int i = 0; i < c->prog->nparams; i++)
        if (out.t[i].data) lo[i] = out.t[i].data, hi[i] = (char *)out.t[i].data + bytes_of(c, i);
    KernRun run;
    if (kern_run(&c->cx, c->kern, slots_of(c, &out), c->rows, lo, hi, &run)) die(c, k, "kern_run");
    const OracleOptions o = bed_bounds(&c->pb, &c->plan);
    Verdict v;
    if (oracle_check(&c->cx, c->prog, &c->shape, &c->args, &out, &o, &v)) die(c, k, "not what the definition says");
    w->runs++;
    return out;
}

static bool both_nan(Ty ty, const void *x, const void *y) {
    const Num a = num_load(ty, x), b = num_load(ty, y);
    return ty == TY_F64 ? a.d != a.d && b.d != b.d : ty_is_float(ty) && a.f != a.f && b.f != b.f;
}

static void run_built(Work *w, Case *c, const struct KernelAt *k, const Args *want) {
    Unit u;
    Module *m;
    if (unit_emit(&c->cx, &c->pb, c->kern, &u)) die(c, k, "unit_emit");
    if (audit_unit(&c->cx, c->kern, &u)) die(c, k, "audit_unit");
    if (mod_build(&c->cx, w->dev, &u, &m)) die(c, k, "mod_build");
    const Args out = copy_args(c);
    const Err err = mod_launch(&c->cx, m, slots_of(c, &out), c->rows, 1);
    mod_free(m);
    if (err) die(c, k, "mod_launch");
    for (int i = 0; i < c->prog->nparams; i++) {
        if (!out.t[i].data) continue;
        const Ty ty = c->prog->param[i].ty;
        const char *x = want->t[i].data, *y = out.t[i].data;
        for (size_t at = 0, each = (size_t)ty_bytes(ty); at < bytes_of(c, i); at += each)
            if (memcmp(x + at, y + at, each) != 0 && !both_nan(ty, x + at, y + at))
                die(c, k,
                    arena_printf(c->cx.a, "built kernel and interpreter differ at %s[%zu]", c->prog->param[i].name,
                                 at / each));
    }
    w->built++;
}

/* Each length with each plan; types, rows and inputs take turns so that every pair of them meets. */
static void test_kernel(void **state) {
    const struct KernelAt *k = *state;
    Work *w = k->w;
    Case c;
    for (int i = 0; i < COUNT(lengths); i++)
        for (int p = 0; p < COUNT(plans); p++)
            for (int t = 0; t < 2; t++) {
                const int turn = i + p + 2 * t;
                case_make(w, k, types[turn % COUNT(types)], lengths[i], turn / 4 % 2 ? 1 : 5, p,
                          t ? FILL_SPECIAL : FILL_NORMAL, &c);
                interpret(w, &c, k);
                arena_free(c.cx.a);
            }
    /* built: the policy's choice, and one plan of those that all kernels share out; those that need packs of elements
     * are short, since compilers take seconds over long ones */
    static const struct {
        Ty ty;
        int64_t n;
        int plan;
    } built[] = {{TY_BF16, 7, 1}, {TY_F32, 64, PLAN_HELD}, {TY_F64, 64, 0}, {TY_F16, 64, 4}, {TY_BF16, 64, PLAN_STAT}};
    const int64_t which = k - w->kernel;
    for (int i = 0; i < 2; i++) {
        const int b = (int)((which + 2 * i) % COUNT(built));
        case_make(w, k, i ? built[b].ty : TY_F32, i ? built[b].n : 257, 5, i ? built[b].plan : -1,
                  i == 1 ? FILL_NORMAL : FILL_SPECIAL, &c);
        const Args want = interpret(w, &c, k);
        run_built(w, &c, k, &want);
        arena_free(c.cx.a);
    }
}

/* A program asks for an extent by max(idx(n)) + 1; that it is known by then must save the reduction. */
static void test_extent(void **state) {
    const Work *w = *state;
    int64_t asked = 0;
    for (int i = 0; i < w->nkernels; i++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Prog *p;
        Shape s = {0};
        assert_int_equal(lang_kernel(&cx, w->kernel[i].ast, w->kernel[i].name, &(TyBind){"*", TY_F32}, 1, NULL, 0, &p),
                         OK);
        shape_of(p, 100, 3, &s);
        assert_int_equal(shape_bind(&cx, p, &s), OK);
        const Prog *q = pass_simplify(&cx, p, &s);
        for (int v = 0; v < p->nvals; v++) asked += p->val[v].op == OP_RED && p->val[p->val[v].a[0]].op == OP_IDX;
        for (int v = 0; v < q->nvals; v++) assert_false(q->val[v].op == OP_RED && q->val[q->val[v].a[0]].op == OP_IDX);
        arena_free(cx.a);
    }
    assert_true(asked > 0);
}

/* Where a row axis stands between element axes in memory, the outer ones are looped over and the inner run goes by
 * packs; a run too short to keep lanes busy is spread together with them. */
static void test_parted(void **state) {
    Work *w = *state;
    static const int64_t runs[] = {8, 100};
    for (int i = 0; i < w->nkernels; i++) {
        if (!str_eq(w->kernel[i].name, "instancenorm_dgamma_dbeta")) continue;
        for (int r = 0; r < COUNT(runs); r++) {
            Case c;
            int packs = 0, single = 0;
            case_make(w, &w->kernel[i], TY_F32, runs[r], 2, 0, FILL_NORMAL, &c);
            for (int j = 0; j < c.kern->nins; j++) {
                packs += c.kern->ins[j].k == K_LOADP;
                single += c.kern->ins[j].k == K_LOAD1 && c.kern->ins[j].rank == RANK_ELEM;
            }
            assert_int_equal(packs, r ? 2 : 0); /* x and dy; the statistics are one a point */
            assert_int_equal(single, r ? 0 : 4);
            arena_free(c.cx.a);
        }
        return;
    }
    fail_msg("no instancenorm_dgamma_dbeta");
}

/* What the plans above are there for has happened. */
static void test_coverage(void **state) {
    const Work *w = *state;
    for (int s = 0; s < STAT_COUNT; s++) assert_true(w->stat_used[s] > 0);
    assert_true(w->held > w->nkernels / 4);
    assert_true(w->runs >= 50 * (int64_t)w->nkernels);
    assert_true(w->built == 2 * (int64_t)w->nkernels);
}

static int load(Work *w, const char *path) {
    Cx cx = {.a = w->a};
    FILE *f = fopen(path, "rb");
    if (!f) return fprintf(stderr, "cannot read %s\n", path), 1;
    char *text = arena_get(w->a, LANG_SOURCE + 1);
    const size_t n = fread(text, 1, LANG_SOURCE, f);
    fclose(f);
    Ast *ast;
    if (lang_parse(&cx, path, text, n, &ast)) {
        Buf b = buf_new(w->a);
        diag_print(&cx, text, &b);
        return fputs(b.s, stderr), 1;
    }
    const char *base = strrchr(path, '/');
    for (int i = 0; i < ast_kernels(ast) && w->nkernels < MAX_KERNELS; i++) {
        const char *name = ast_kernel_name(ast, i);
        w->kernel[w->nkernels++] =
            (struct KernelAt){w, ast, name, arena_printf(w->a, "%s: %s", base ? base + 1 : path, name)};
    }
    return 0;
}

int main(int argc, char **argv) {
    static Work w;
    static struct CMUnitTest tests[MAX_KERNELS + 3];
    const char *root = getenv("ROWFOLD_ROOT"), *only = argc > 1 ? argv[1] : NULL; /* a kernel, for finding faults */
    w.a = arena_new(NULL, NULL);
    glob_t found;
    if (glob(arena_printf(w.a, "%s/kernels/*.row", root ? root : "."), 0, NULL, &found))
        return fprintf(stderr, "no kernels/*.row\n"), 1;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (load(&w, found.gl_pathv[i])) return 1;
    globfree(&found);
    Cx cx = {.a = w.a};
    if (rt_open(&cx, &(RtOptions){.threads = 1}, &w.rt) || rt_find(&cx, w.rt, "host", &w.dev))
        return fprintf(stderr, "%s\n", cx.first ? cx.first->msg : "no host"), 1;
    w.caps = dev_caps(w.dev);
    int n = 0;
    for (int i = 0; i < w.nkernels; i++)
        if (!only || str_eq(only, w.kernel[i].name))
            tests[n++] = (struct CMUnitTest){w.kernel[i].label, test_kernel, NULL, NULL, &w.kernel[i]};
    if (!only) tests[n++] = (struct CMUnitTest){"parted axes are looped over", test_parted, NULL, NULL, &w};
    if (!only) tests[n++] = (struct CMUnitTest){"an extent costs no sweep", test_extent, NULL, NULL, &w};
    if (!only) tests[n++] = (struct CMUnitTest){"every kind of plan was met", test_coverage, NULL, NULL, &w};
    const int failed = _cmocka_run_group_tests("kernels", tests, (size_t)n, NULL, NULL);
    rt_close(w.rt);
    arena_free(w.a);
    return failed;
}
