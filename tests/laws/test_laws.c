/* What holds for every kernel of the library: the same row gives the same bits however many rows, threads and
 * neighbours it has; no byte outside the buffers is touched, no input changed; one bad row stays alone; and compilers,
 * levels and instruction sets agree with the interpreter. */
#define _GNU_SOURCE
#include "../diff/library.h"
#include "../diff/match.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 64, N = 301, MOST_THREADS = 5 };

typedef struct Fix { /* one kernel, built for this machine */
    Cx cx;
    Prog *prog;
    Problem pb;
    Plan plan;
    Kern *kern;
    Unit unit;
    Module *mod;
    int row_axis, nrow_axes;
    bool sees_row;            /* the row's number is part of what it computes */
    char *filled[MAX_PARAMS]; /* what its inputs hold */
} Fix;

typedef struct Bufs {
    char *at[MAX_PARAMS];
    size_t bytes[MAX_PARAMS];
} Bufs;

/* This machine as rowfold uses it, and its portable text, which takes an optimizing compiler seconds, without
 * optimization. */
static Rt *own, *portable;

static int open_rt(void **state) {
    (void)state;
    Cx cx = {.a = arena_new(NULL, NULL)};
    const char *quick =
        arena_printf(cx.a, "%s/scripts/quick-cc.sh", getenv("ROWFOLD_ROOT") ? getenv("ROWFOLD_ROOT") : ".");
    RtOptions o = {.al = &alloc_libc, .threads = MOST_THREADS, .isa = ISA_COUNT};
    int bad = rt_open(&cx, &o, &own) != OK;
    o.isa = ISA_PORTABLE, o.cc = quick;
    bad = bad || rt_open(&cx, &o, &portable) != OK;
    arena_free(cx.a);
    return bad;
}

static int close_rt(void **state) {
    (void)state;
    rt_close(own);
    rt_close(portable);
    return 0;
}

static void ok(Cx *cx, const char *what, Err e) {
    if (e) fail_msg("%s: %s", what, cx->first ? cx->first->msg : "failed");
}

static const char *const plans[] = {"W=32 U=2 acc=2 flight=2 prefetch=1 store=plain",
                                    "W=16 V=2 combine=outer acc=1 P=3"};

/* Lowers and spells the kernel for caps; what it keeps: all that can be kept. */
static void lower(Fix *f, const Prog *p, const Caps *caps, const char *plan, bool keep) {
    Shape s = library_shape(p, ROWS, N);
    f->prog = (Prog *)(uintptr_t)p;
    ok(&f->cx, p->name, problem_make(&f->cx, p, &s, caps, 0, &f->pb));
    ok(&f->cx, p->name, plan_read(&f->cx, plan, &f->plan));
    Sched *sc = NEW(f->cx.a, Sched);
    ok(&f->cx, p->name,
       sched_make(&f->cx, f->pb.prog, &f->pb.shape, problem_spread(&f->pb, NULL), false, true, STAT_TWO_PASS, 0, sc));
    for (int i = 0; i < sc->ncands && keep; i++) {
        f->plan.hold[f->plan.nholds].name = sc->cand[i].name;
        f->plan.hold[f->plan.nholds++].hold = HOLD_REGISTER;
    }
    Cx quiet = {.a = f->cx.a}; /* sweeps of neighbouring rows at once, where the kernel has such */
    f->plan.stagger = !keep && caps->kind == KIND_HOST;
    if (plan_check(&quiet, &f->pb, &f->plan, NULL, NULL)) f->plan.stagger = 0;
    ok(&f->cx, p->name, kern_lower(&f->cx, &f->pb, &f->plan, &f->kern));
    ok(&f->cx, p->name, unit_emit(&f->cx, &f->pb, f->kern, &f->unit));
    f->row_axis = -1;
    for (int i = 0; i < p->naxes; i++) {
        if (!p->axis[i].row) continue;
        f->nrow_axes++;
        if (f->row_axis < 0) f->row_axis = i;
    }
    for (int i = 0; i < f->pb.prog->nparams; i++)
        if (p->param[i].dir == DIR_INOUT) f->sees_row = true;
    f->sees_row |= f->nrow_axes > 1;
}

static void build(Fix *f, Rt *rt, const Prog *p, int plan) {
    *f = (Fix){.cx = {.a = arena_new(NULL, NULL)}};
    lower(f, p, dev_caps(rt_device(rt, 0)), plans[plan], plan);
    ok(&f->cx, p->name, mod_build(&f->cx, rt_device(rt, 0), &f->unit, &f->mod));
}

static void done(Fix *f) {
    if (f->mod) mod_free(f->mod);
    arena_free(f->cx.a);
}

/* ---- memory ---- */

static bool is_tensor(const Fix *f, int q) {
    return f->prog->param[q].dir != DIR_SCALAR && f->prog->param[q].dir != DIR_CONST;
}
static bool is_out(const Fix *f, int q) {
    return f->prog->param[q].dir == DIR_OUT || f->prog->param[q].dir == DIR_INOUT;
}

static int64_t extent(const Fix *f, int axis, int64_t rows) {
    return axis == f->row_axis ? rows : f->pb.shape.n[axis];
}

static int64_t count(const Fix *f, int q, int64_t rows) {
    int64_t n = 1;
    for (int d = 0; d < f->prog->param[q].rank; d++) n *= extent(f, f->prog->param[q].axis[d], rows);
    return n;
}

/* Dense strides at ROWS rows, whatever part of them a call takes. */
static int64_t stride(const Fix *f, int q, int dim) {
    int64_t n = 1;
    for (int d = dim + 1; d < f->prog->param[q].rank; d++) n *= extent(f, f->prog->param[q].axis[d], ROWS);
    return n;
}

/* Elements from one row to the next in q; 0: all rows share it. */
static int64_t row_stride(const Fix *f, int q) {
    for (int d = 0; d < f->prog->param[q].rank; d++)
        if (f->prog->param[q].axis[d] == f->row_axis) return stride(f, q, d);
    return 0;
}

/* Filled once a kernel: the numbers take longer than the kernels do. */
static void fill_inputs(Fix *f, Bufs *b) {
    for (int q = 0; q < f->prog->nparams; q++) {
        if (!is_tensor(f, q)) continue;
        const Param *p = &f->prog->param[q];
        if (p->dir == DIR_OUT) {
            memset(b->at[q], POISON, b->bytes[q]);
            continue;
        }
        if (!f->filled[q]) {
            f->filled[q] = arena_get(f->cx.a, b->bytes[q]);
            Tensor t = {.ty = p->ty, .rank = p->rank, .data = f->filled[q]};
            for (int d = 0; d < p->rank; d++) t.n[d] = extent(f, p->axis[d], ROWS), t.stride[d] = stride(f, q, d);
            fill_tensor(&t, FILL_NORMAL, (uint64_t)q + 5, ty_is_int(p->ty) ? 100 : 0);
        }
        memcpy(b->at[q], f->filled[q], b->bytes[q]);
    }
}

static Bufs bufs_new(Fix *f) {
    Bufs b = {{0}, {0}};
    for (int q = 0; q < f->prog->nparams; q++) {
        if (!is_tensor(f, q)) continue;
        b.bytes[q] = (size_t)count(f, q, ROWS) * (size_t)ty_bytes(f->prog->param[q].ty);
        b.at[q] = arena_get(f->cx.a, b.bytes[q]);
    }
    fill_inputs(f, &b);
    return b;
}

static Slot *slots(Fix *f, const Bufs *b, int64_t row0, int64_t rows) {
    const Abi *abi = &f->unit.abi;
    Slot *s = NEWN(f->cx.a, Slot, abi->nslots + 1);
    for (int q = 0; q < f->prog->nparams; q++) {
        const Param *p = &f->prog->param[q];
        if (p->dir == DIR_SCALAR && ty_is_float(p->ty)) s[abi->scalar[q]].d = p->has_default ? p->def : 1;
        if (p->dir == DIR_SCALAR && !ty_is_float(p->ty)) s[abi->scalar[q]].i = p->has_default ? (int64_t)p->def : 1;
        if (!is_tensor(f, q)) continue;
        s[abi->ptr[q]].p = b->at[q] + row0 * row_stride(f, q) * ty_bytes(p->ty);
        for (int d = 0; d < p->rank; d++) s[abi->stride[q][d]].i = stride(f, q, d);
    }
    for (int x = 0; x < f->prog->naxes; x++)
        if (abi->row[x] >= 0) s[abi->row[x]].i = extent(f, x, rows);
    return s;
}

static int64_t row_count(const Fix *f, int64_t rows) {
    for (int x = 0; x < f->prog->naxes; x++)
        if (f->prog->axis[x].row && x != f->row_axis) rows *= f->pb.shape.n[x];
    return rows;
}

static void launch(Fix *f, const Bufs *b, int64_t row0, int64_t rows, int threads) {
    ok(&f->cx, f->prog->name, mod_launch(&f->cx, f->mod, slots(f, b, row0, rows), row_count(f, rows), threads));
}

/* Outputs of row r of x and row s of y have the same bits. */
static void same_row(const Fix *f, const Bufs *x, int64_t r, const Bufs *y, int64_t s, const char *what) {
    for (int q = 0; q < f->prog->nparams; q++) {
        if (!is_out(f, q)) continue;
        const Ty ty = f->prog->param[q].ty;
        const int64_t rs = row_stride(f, q), each = ty_bytes(ty), n = count(f, q, ROWS);
        /* a row axis may stand anywhere: a row is runs of as many elements as come after it */
        for (int64_t i = r * rs, k = s * rs; i < n; i += rs * ROWS, k += rs * ROWS)
            if (same_bits(ty, x->at[q] + i * each, y->at[q] + k * each, rs) >= 0)
                fail_msg("%s, %s: %s differs in row %lld", f->prog->name, what, f->prog->param[q].name, (long long)r);
    }
}

/* Every kernel, each third one on bf16 and the others on f32, with the two plans in turn, the other one as portable
 * text. */
static void all_kernels(void (*each)(Fix *f)) {
    Cx cx = {.a = arena_new(NULL, NULL)};
    LibKernel *wide, *narrow;
    const int n = library_read(&cx, TY_F32, &wide);
    assert_true(n > 25 && library_read(&cx, TY_BF16, &narrow) == n);
    for (int i = 0; i < 2 * n; i++) {
        Fix f;
        build(&f, i < n ? own : portable, i % n % 3 ? wide[i % n].prog : narrow[i % n].prog,
              (i % n + i / n) % COUNT(plans));
        each(&f);
        done(&f);
    }
    arena_free(cx.a);
}

/* ---- same row, same bits ---- */

static void rows_alone(Fix *f) {
    Bufs all = bufs_new(f), part = bufs_new(f);
    launch(f, &all, 0, ROWS, 1);
    for (int threads = 2; threads <= MOST_THREADS; threads++) {
        fill_inputs(f, &part);
        launch(f, &part, 0, ROWS, threads);
        for (int64_t r = 0; r < ROWS; r++) same_row(f, &all, r, &part, r, "several threads");
    }
    if (f->sees_row) return;
    fill_inputs(f, &part);
    for (int64_t r = 0; r < ROWS; r += 7) launch(f, &part, r, i64_min(7, ROWS - r), 1);
    for (int64_t r = 0; r < ROWS; r++) same_row(f, &all, r, &part, r, "seven rows at a time");
    fill_inputs(f, &part);
    for (int64_t r = ROWS - 1; r >= 0; r -= 9) launch(f, &part, r, 1, 1);
    for (int64_t r = ROWS - 1; r >= 0; r -= 9) same_row(f, &all, r, &part, r, "one row");
    fill_inputs(f, &part); /* rows from last to first */
    Bufs back = bufs_new(f);
    for (int q = 0; q < f->prog->nparams; q++) {
        if (!is_tensor(f, q) || is_out(f, q) || !row_stride(f, q)) continue;
        const int64_t rs = row_stride(f, q), each = ty_bytes(f->prog->param[q].ty), n = count(f, q, ROWS);
        for (int64_t i = 0; i < n; i++)
            memcpy(back.at[q] + (i + (ROWS - 1 - 2 * (i / rs % ROWS)) * rs) * each, part.at[q] + i * each,
                   (size_t)each);
    }
    launch(f, &back, 0, ROWS, 2);
    for (int64_t r = 0; r < ROWS; r++) same_row(f, &all, r, &back, ROWS - 1 - r, "rows turned round");
}

static void test_same_row_same_bits(void **state) {
    (void)state;
    all_kernels(rows_alone);
}

/* ---- bad rows stay alone ---- */

static void bad_row(Fix *f) {
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    if (f->sees_row) return;
    Bufs clean = bufs_new(f);
    launch(f, &clean, 0, ROWS, 1);
    for (int k = 0; k < COUNT(bad); k++) {
        Bufs b = bufs_new(f);
        for (int q = 0; q < f->prog->nparams; q++) {
            const Ty ty = f->prog->param[q].ty;
            if (!is_tensor(f, q) || f->prog->param[q].dir != DIR_IN || !ty_is_float(ty) || !row_stride(f, q)) continue;
            const int64_t rs = row_stride(f, q), n = count(f, q, ROWS);
            for (int64_t i = 0; i < n; i++)
                if (i / rs % ROWS == 3 && (i + k) % 5 == 0)
                    num_store(ty, b.at[q] + i * ty_bytes(ty), (Num){.d = bad[k]}, TY_F64);
        }
        launch(f, &b, 0, ROWS, 1);
        for (int64_t r = 0; r < ROWS; r++)
            if (r != 3) same_row(f, &clean, r, &b, r, "a bad row beside it");
    }
}

static void test_bad_row_stays_alone(void **state) {
    (void)state;
    all_kernels(bad_row);
}

/* ---- nothing outside ---- */

typedef struct Guarded { /* readable pages between two that are not */
    char *map;
    size_t pages, bytes;
} Guarded;

static Guarded guarded_new(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    Guarded g = {.pages = (bytes + page - 1) / page * page + (bytes ? 0 : page), .bytes = bytes};
    g.map = mmap(NULL, g.pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map + page, g.pages, PROT_READ | PROT_WRITE), 0);
    memset(g.map + page, POISON, g.pages);
    return g;
}

static char *guarded_at(const Guarded *g, bool at_end) {
    return g->map + sysconf(_SC_PAGESIZE) + (at_end ? g->pages - g->bytes : 0);
}

static void guarded_free(Guarded *g) {
    munmap(g->map, g->pages + 2 * (size_t)sysconf(_SC_PAGESIZE));
}

static void within_pages(Fix *f) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const Bufs ref = bufs_new(f);
    Bufs out = bufs_new(f);
    launch(f, &out, 0, ROWS, 1);
    for (int end = 0; end < 2; end++) {
        Guarded g[MAX_PARAMS];
        Bufs b = ref;
        for (int q = 0; q < f->prog->nparams; q++) {
            if (!is_tensor(f, q)) continue;
            g[q] = guarded_new(ref.bytes[q]);
            b.at[q] = guarded_at(&g[q], end);
        }
        fill_inputs(f, &b);
        for (int q = 0; q < f->prog->nparams; q++) /* a write to an input is a fault */
            if (is_tensor(f, q) && f->prog->param[q].dir == DIR_IN)
                assert_int_equal(mprotect(g[q].map + page, g[q].pages, PROT_READ), 0);
        launch(f, &b, 0, ROWS, 2);
        for (int64_t r = 0; r < ROWS; r++) same_row(f, &out, r, &b, r, "between guard pages");
        for (int q = 0; q < f->prog->nparams; q++) {
            if (!is_tensor(f, q)) continue;
            const char *slack = g[q].map + page + (end ? 0 : g[q].bytes);
            for (size_t i = 0; i < g[q].pages - g[q].bytes; i++)
                if ((unsigned char)slack[i] != POISON)
                    fail_msg("%s writes outside %s", f->prog->name, f->prog->param[q].name);
            guarded_free(&g[q]);
        }
    }
}

static void test_nothing_outside_is_touched(void **state) {
    (void)state;
    all_kernels(within_pages);
}

/* ---- compilers, each at its level, and instruction sets ---- */

static void interpret(Fix *f, const Bufs *b) {
    const void *lo[MAX_PARAMS] = {0}, *hi[MAX_PARAMS] = {0};
    KernRun run;
    for (int q = 0; q < f->prog->nparams; q++) lo[q] = b->at[q], hi[q] = b->at[q] + b->bytes[q];
    ok(&f->cx, f->prog->name, kern_run(&f->cx, f->kern, slots(f, b, 0, ROWS), row_count(f, ROWS), lo, hi, &run));
}

static void agree(Isa isa, const Compiler *cc, int ncc, LibKernel *k, int n) {
    static Fix f[64];
    Bufs want[64];
    const Unit *u[64];
    Caps caps;
    caps_preset(isa_text(isa), &caps);
    for (int i = 0; i < n; i++) { /* W is a multiple of every subgroup, so the map is the same on all */
        f[i] = (Fix){.cx = {.a = arena_new(NULL, NULL)}};
        lower(&f[i], k[i].prog, &caps, "W=32 acc=2", i & 1);
        want[i] = bufs_new(&f[i]);
        interpret(&f[i], &want[i]);
        u[i] = &f[i].unit;
    }
    for (int c = 0; c < ncc; c++) {
        Batch b;
        if (!batch_build(&b, &cc[c], isa, "-O1", u, n)) fail_msg("%s: %s", cc[c].version, b.why);
        for (int i = 0; i < n; i++) {
            Bufs got = bufs_new(&f[i]);
            batch_fn(&b, u[i])(slots(&f[i], &got, 0, ROWS), 0, row_count(&f[i], ROWS));
            for (int64_t r = 0; r < ROWS; r++) same_row(&f[i], &want[i], r, &got, r, cc[c].version);
        }
        batch_free(&b);
    }
    for (int i = 0; i < n; i++) arena_free(f[i].cx.a);
}

static void test_compilers_agree(void **state) {
    (void)state;
    static const char *const names[] = {"softmax", "layernorm",     "rmsnorm_fp8_groups", "cross_entropy",
                                        "argmax",  "logsumexp",     "quantize_i8",        "variance",
                                        "max",     "causal_softmax"};
    Cx cx = {.a = arena_new(NULL, NULL)};
    LibKernel *all, some[COUNT(names)];
    Compiler cc[2];
    int n = 0, ncc = 0, total = library_read(&cx, TY_F32, &all);
    for (int i = 0; i < total; i++)
        for (int j = 0; j < COUNT(names); j++)
            if (str_eq(all[i].name, names[j])) some[n++] = all[i];
    assert_int_equal(n, COUNT(names));
    for (int i = 0; i < 2; i++) {
        cc_probe(&alloc_libc, i ? "clang" : "gcc", &cc[ncc]);
        ncc += cc[ncc].family != CC_NONE;
    }
    assert_true(ncc > 0);
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (cpu_has((Isa)isa))
            agree((Isa)isa, cc, ncc, some, isa == ISA_PORTABLE ? 3 : n); /* whose text takes compilers longest */
    arena_free(cx.a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_row_same_bits),
        cmocka_unit_test(test_bad_row_stays_alone),
        cmocka_unit_test(test_nothing_outside_is_touched),
        cmocka_unit_test(test_compilers_agree),
    };
    return cmocka_run_group_tests(tests, open_rt, close_rt);
}
