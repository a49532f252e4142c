/* For a machine with an NVIDIA GPU, or an OpenCL device named by $ROWFOLD_TEST_DEVICE: are results right, and how fast
 * are they?
 *
 *     cuda random PAIRS SEED     random programs times random plans: the interpreter's bits, gaps untouched
 *     cuda kernels FOLDER        every kernel there: the definition's bounds with the device's own functions, the
 *                                interpreter's bits with rowfold's, memory of every alignment, rows beyond a group
 *     cuda speed LIST FOLDER [JSON]   lines `file kernel type shape plan` of a file timed, a few of their rows checked;
 *                                all samples as lines of JSON to a file. shape: AXIS=EXTENT, TENSOR.AXIS=STRIDE in
 *                                elements for a tensor that is no dense one, resident=1 for one place in memory
 *     cuda build LIST FOLDER K N every N-th of them from the K-th on only compiled, into the cache
 * TAP-like on stdout; exit status 1 where anything is wrong. */
#include "../diff/match.h"
#include "../diff/randplan.h"

#include "../../src/bench/bench.h"
#include "../../src/lang/lang.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Desk {
    Cx cx;
    Rt *rt;
    Device *d;
    int64_t done, bad, refused;
} Desk;

static const char *first_of(const Cx *cx) {
    const Diag *d = cx->first;
    return d ? arena_printf(cx->a, "%s: %s", slug_text(d->slug), d->msg) : "no message";
}

static int64_t number(const char *s) { /* 0 for what is none */
    int64_t x = 0;
    return str_i64(s, &x) ? x : 0;
}

static bool open_desk(Desk *k) {
    *k = (Desk){.cx = {.a = arena_new(NULL, NULL)}};
    RtOptions o = {.isa = ISA_COUNT};
    const char *name = getenv("ROWFOLD_TEST_DEVICE");
    if (rt_open(&k->cx, &o, &k->rt) == OK && rt_find(&k->cx, k->rt, name && *name ? name : "cuda:0", &k->d) == OK) {
        printf("# %s\n", dev_identity(k->d));
        return true;
    }
    printf("ok 1 - %s # SKIP %s\n", name && *name ? name : "cuda:0", first_of(&k->cx));
    return false;
}

/* ---- tensors on the device, with a guard before and after ---- */

enum { GUARD = 256, MOST_TEXT = 24000 };

typedef struct Bench {
    Mem *mem[MAX_PARAMS];
    Slot slots[MAX_PARAMS * (MAX_RANK + 2) + MAX_AXES];
    size_t bytes[MAX_PARAMS];
    double moved[MAX_PARAMS]; /* bytes of elements, without gaps between them */
    int shift;                /* bytes by which memory is off its alignment */
} Bench;

static Err put_all(Cx *cx, Device *d, const Prog *p, const Shape *s, const Args *a, const size_t *bytes, int shift,
                   Bench *b) {
    Abi abi;
    abi_of(p, &abi);
    *b = (Bench){.shift = shift};
    for (int x = 0; x < p->naxes; x++)
        if (abi.row[x] >= 0) b->slots[abi.row[x]].i = s->n[x];
    for (int i = 0; i < p->nparams; i++) {
        if (p->param[i].dir == DIR_CONST) continue;
        if (p->param[i].dir == DIR_SCALAR) {
            b->slots[abi.scalar[i]].i = a->scalar[i].i;
            continue;
        }
        b->bytes[i] = bytes[i];
        size_t all = bytes[i] + 2 * GUARD + 64;
        unsigned char *poison = arena_get(cx->a, all);
        memset(poison, POISON, all);
        int off = GUARD + shift * ty_bytes(p->param[i].ty);
        memcpy(poison + off, a->t[i].data, bytes[i]);
        Err err = mem_new(cx, d, all, &b->mem[i]);
        if (!err) err = mem_write(cx, b->mem[i], 0, poison, all);
        if (err) return err;
        b->slots[abi.ptr[i]].p = (char *)mem_at(b->mem[i]) + off;
        for (int k = 0; k < p->param[i].rank; k++) b->slots[abi.stride[i][k]].i = a->t[i].stride[k];
    }
    return OK;
}

/* Reads all back; NULL, or what is wrong with the guards. */
static const char *get_all(Cx *cx, const Prog *p, Bench *b, Args *out) {
    for (int i = 0; i < p->nparams; i++) {
        if (!b->mem[i]) continue;
        size_t all = b->bytes[i] + 2 * GUARD + 64, off = (size_t)(GUARD + b->shift * ty_bytes(p->param[i].ty));
        unsigned char *got = arena_get(cx->a, all);
        if (mem_read(cx, b->mem[i], 0, got, all) != OK) return first_of(cx);
        for (size_t at = 0; at < all; at++)
            if ((at < off || at >= off + b->bytes[i]) && got[at] != POISON)
                return arena_printf(cx->a, "byte %lld outside of %s is written", (long long)at - (long long)off,
                                    p->param[i].name);
        out->t[i].data = got + off;
    }
    return NULL;
}

static void free_all(Bench *b) {
    for (int i = 0; i < MAX_PARAMS; i++)
        if (b->mem[i]) mem_free(b->mem[i]);
}

/* What only the compiler can tell: no fault of the plan. */
static bool may_refuse(Slug s) {
    return s == S_BUILD_SPILLS || s == S_BUILD_MERGED || s == S_BUILD_GRID;
}

/* Builds, runs once on memory `shift` elements off, reads back. "" where the compiler made no kernel of that plan. */
static const char *run_once(Desk *k, Cx *cx, const Problem *pb, const Kern *kern, const Args *in, const size_t *bytes,
                            int64_t rows, int shift, Args *out) {
    Unit u;
    Module *m = NULL;
    Bench b = {.mem = {0}};
    *out = *in;
    if (unit_emit(cx, pb, kern, &u) != OK) return first_of(cx);
    if (pb->caps.lanes_in_turn && u.bytes > MOST_TEXT) return k->done--, ""; /* takes PoCL ten seconds */
    if (mod_build(cx, k->d, &u, &m) != OK) {
        if (!may_refuse(cx->first->slug)) return first_of(cx);
        k->refused++;
        return "";
    }
    const char *wrong = NULL;
    if (put_all(cx, k->d, pb->prog, &pb->shape, in, bytes, shift, &b) != OK ||
        mod_launch(cx, m, b.slots, rows, 0) != OK || dev_sync(cx, k->d) != OK)
        wrong = first_of(cx);
    if (!wrong) wrong = get_all(cx, pb->prog, &b, out);
    free_all(&b);
    mod_free(m);
    return wrong;
}

static const char *differ(Cx *cx, const Prog *p, const Args *want, const Args *got, const size_t *bytes) {
    for (int i = 0; i < p->nparams; i++) {
        if (!bytes[i]) continue;
        Ty ty = want->t[i].ty, ct = ty_compute(ty);
        int64_t each = ty_bytes(ty), at = same_bits(ty, want->t[i].data, got->t[i].data, (int64_t)bytes[i] / each);
        if (at < 0) continue;
        Num x = num_load(ty, (char *)want->t[i].data + at * each), y = num_load(ty, (char *)got->t[i].data + at * each);
        return arena_printf(cx->a, "device and interpreter differ at %s[%lld]: %.17g and %.17g", p->param[i].name,
                            (long long)at, num_f64(y, ct), num_f64(x, ct));
    }
    return NULL;
}

static bool count(Desk *k, const char *wrong, const char *what, const Plan *plan) {
    k->done++;
    if (!wrong || !wrong[0]) return true;
    Buf b = buf_new(k->cx.a);
    plan_print(plan, &b);
    if (k->bad++ < 12) printf("# %s: %s\n#   %s\n", what, wrong, b.s);
    return false;
}

/* ---- random programs ---- */

static void random_one(Desk *k, uint64_t seed) {
    uint8_t bytes[RANDPROG_BYTES];
    size_t n = randprog_bytes(seed, bytes);
    Caps caps = *dev_caps(k->d);
    caps.poly_math = true; /* then nothing is the device's own but IEEE operations */
    Match p;
    Args got;
    const char *what = arena_printf(k->cx.a, "seed %llu", (unsigned long long)seed), *wrong = NULL;
    bool made = match_make(&p, "k", bytes, n, seed, &caps, NULL);
    if (!made && p.cx.first && slug_err(p.cx.first->slug) == ERR_REFUSED) { /* not one of the plans drawn is legal */
        match_free(&p);
        return;
    }
    if (!made || !match_interpret(&p)) wrong = p.why;
    if (!wrong) wrong = run_once(k, &p.cx, &p.pb, p.kern, &p.cpu, p.bytes, p.rows, (int)(seed % 3), &got);
    bool own_library = false; /* special functions of f64 are each machine's own */
    for (int i = 0; !wrong && i < p.kern->nins; i++) {
        const Ins *in = &p.kern->ins[i];
        own_library |= in->k == K_OP && in->ty == TY_F64 && op_info(in->op)->cost == COST_SPECIAL;
    }
    if (!wrong && own_library) {
        OracleOptions o = bed_bounds(&p.pb, &p.plan);
        Verdict v;
        if (oracle_check(&p.cx, p.prog, &p.shape, &p.cpu, &got, &o, &v) != OK) wrong = first_of(&p.cx);
    } else if (!wrong) {
        wrong = differ(&p.cx, p.prog, &p.interp, &got, p.bytes);
    }
    if (!count(k, wrong, what, &p.plan) && p.prog) {
        Buf b = buf_new(p.cx.a);
        prog_print(p.prog, &b);
        if (k->bad < 3) printf("%s\n", b.s);
    }
    match_free(&p);
}

/* ---- the kernel library ---- */

static char *read_file(Cx *cx, const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *text = arena_get(cx->a, 1 << 20);
    *n = f ? fread(text, 1, 1 << 20, f) : 0;
    if (f) fclose(f);
    return f ? text : NULL;
}

static Err kernel_get(Cx *cx, const char *folder, const char *file, const char *kernel, Ty ty, Ast **ast, Prog **p) {
    size_t n;
    char *path = arena_printf(cx->a, "%s/%s.row", folder, file), *text = read_file(cx, path, &n);
    if (!text) return diag(cx, S_ARG, NOWHERE, NULL, "cannot read %s", path);
    TyBind bind[] = {{"*", ty}};
    Err err = lang_parse(cx, path, text, n, ast);
    return err || !kernel ? err : lang_kernel(cx, *ast, kernel, bind, 1, NULL, 0, p);
}

static void shape_of(const Prog *p, const int64_t *row, const int64_t *elem, Shape *s) {
    int r = 0, e = 0;
    for (int i = 0; i < MAX_AXES; i++) s->n[i] = -1;
    for (int i = 0; i < p->naxes; i++)
        if (p->axis[i].ext < 0) s->n[i] = p->axis[i].row ? row[r++ % 2] : elem[e++ % 2];
}

static int64_t rows_of(const Prog *p, const Shape *s) {
    int64_t rows = 1;
    for (int i = 0; i < p->naxes; i++)
        if (p->row_axes >> i & 1) rows *= s->n[i];
    return rows;
}

static const char *kernel_once(Desk *k, Cx *cx, const Prog *src, const Shape *s, const char *text, bool poly, int shift,
                               uint64_t seed, Plan *plan) {
    Caps caps = *dev_caps(k->d);
    caps.poly_math = poly;
    Problem pb;
    Kern *kern;
    Args in, got, want;
    size_t bytes[MAX_PARAMS] = {0};
    Stripes st;
    if (problem_make(cx, src, s, &caps, 0, &pb) != OK || plan_read(cx, text, plan) != OK) return first_of(cx);
    Sched *sc = NEW(cx->a, Sched);
    Cx own = {.a = cx->a};
    if (plan_check(&own, &pb, plan, sc, &st) != OK) { /* not one of this problem: without what it holds, perhaps */
        plan->nholds = 0;
        if (plan_check(&own, &pb, plan, sc, &st) != OK) return k->done--, NULL;
    }
    plan_complete(sc, plan);
    if (kern_lower(cx, &pb, plan, &kern) != OK || kern_verify(cx, kern) != OK) return first_of(cx);
    randargs(cx, pb.prog, &pb.shape, seed % 2 ? FILL_NORMAL : FILL_SPECIAL, seed, false, &in);
    const void *lo[MAX_PARAMS] = {0}, *hi[MAX_PARAMS] = {0};
    want = in;
    for (int i = 0; i < pb.prog->nparams; i++) {
        const Param *q = &pb.prog->param[i];
        if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) continue;
        bytes[i] = (size_t)ty_bytes(q->ty);
        for (int d = 0; d < q->rank; d++) bytes[i] *= (size_t)in.t[i].n[d];
        want.t[i].data = arena_dup(cx->a, in.t[i].data, bytes[i]);
        lo[i] = want.t[i].data, hi[i] = (char *)want.t[i].data + bytes[i];
    }
    const char *wrong = run_once(k, cx, &pb, kern, &in, bytes, rows_of(pb.prog, &pb.shape), shift, &got);
    if (wrong) return wrong;
    if (!poly) {
        OracleOptions o = bed_bounds(&pb, plan);
        Verdict v;
        return oracle_check(cx, pb.source, &pb.shape, &in, &got, &o, &v) == OK ? NULL : first_of(cx);
    }
    Slot slots[MAX_PARAMS * (MAX_RANK + 2) + MAX_AXES] = {{0}};
    for (int x = 0; x < pb.prog->naxes; x++)
        if (kern->abi.row[x] >= 0) slots[kern->abi.row[x]].i = pb.shape.n[x];
    for (int i = 0; i < pb.prog->nparams; i++) {
        if (kern->abi.scalar[i] >= 0) slots[kern->abi.scalar[i]].i = in.scalar[i].i;
        if (kern->abi.ptr[i] < 0) continue;
        slots[kern->abi.ptr[i]].p = want.t[i].data;
        for (int d = 0; d < pb.prog->param[i].rank; d++) slots[kern->abi.stride[i][d]].i = in.t[i].stride[d];
    }
    KernRun run;
    if (kern_run(cx, kern, slots, rows_of(pb.prog, &pb.shape), lo, hi, &run) != OK) return first_of(cx);
    return differ(cx, pb.prog, &want, &got, bytes);
}

static const char *const plans[] = {
    "W=64 V=8 load=keep store=stream P=2 early=on hold.x=register",
    "W=128 V=4 hold.x=shared P=2",
    "W=256 V=8 hold.x=shared early=on",
    "W=8 V=2 P=16 hold.x=register early=on acc=8",
    "W=256 V=4 load=no-allocate acc=2 flight=2 U=2",
    "W=32 V=1 P=4",
    "W=16 V=2 P=3 index=32",
    "W=4 V=4 P=8 flight=4 load=stream",
    "W=96 V=2 acc=2 stat=shifted load=keep",
    "W=128 V=8 stat=online flight=2 load=keep div=reciprocal",
    "W=1 V=1 P=32",
    "W=1024 V=4 min-groups=1",
    "W=64 V=4 fuse=off",
    "W=128 V=2 stat=welford",
    "W=64 V=2 cluster=2 exchange=bytes hold.x=register early=on overlap=on",
    "W=128 V=4 cluster=4 hold.x=shared exp=fast load=keep",
    "W=32 V=8 cluster=8 exchange=bytes acc=2 flight=2 overlap=on",
    "W=32 V=8 cluster=8 acc=2 flight=2 overlap=on",
    "W=96 V=1 cluster=16 exchange=bytes stat=shifted exp=fast",
    "W=256 V=8 cluster=2 stat=online exp=fast hold.x=register",
    "W=64 V=8 segments=on load=keep hold.x=register overlap=fetch",
    "W=32 V=4 P=4 segments=on hold.x=shared stages=2",
    "W=128 V=4 hold.x=shared stages=4 flight=2 load=keep overlap=fetch early=on",
    "W=64 V=4 cluster=4 hold.x=shared stages=1 overlap=fetch",
    "W=128 V=4 grid=1 hold.x=shared stages=2 ahead=1 load=keep early=free",
    "W=64 V=8 cluster=2 grid=2 hold.x=shared stages=1 ahead=3",
    "W=64 V=8 cluster=2 exchange=bytes grid=2 hold.x=shared stages=1 ahead=3",
    "W=32 V=2 P=4 grid=4 hold.g=shared hold.b=register load=keep",
    "W=64 V=4 grid=2 hold.w=register overlap=late",
    "W=256 V=4 stat=online combine=pair flight=2 hold.x=register",
    "W=96 V=2 cluster=8 stat=online combine=pair exp=fast",
    "W=96 V=2 cluster=8 exchange=bytes stat=online combine=pair exp=fast",
    "W=32 V=4 split=4 flight=2",
    "W=64 V=2 split=16 stat=online combine=pair exp=fast overlap=on",
    "W=16 V=1 P=8 split=2 acc=2",
    "W=128 V=1 split=64 stat=shifted",
};

/* For devices without cache policies; on CPUs a row is best one lane's. */
static const char *const plain_plans[] = {
    "W=1 V=1 acc=16 div=reciprocal",
    "W=1 V=1 acc=16 hold.e=output",
    "W=64 V=4 P=2 hold.x=register",
    "W=1 V=4 P=3 acc=4",
    "W=96 V=2 hold.x=shared acc=2",
    "W=8 V=2 P=4 flight=2 hold.x=register",
    "W=32 V=8 P=1 stat=online hold.x=register",
    "W=16 V=1 P=8 acc=64 combine=outer order=fixed",
    "W=1 V=1 P=8 order=serial",
    "W=32 V=1 P=3 index=32",
    "W=2 V=4 stat=welford",
    "W=4 V=1 stat=shifted fuse=off",
};

/* The names of a folder's kernel files, in order. */
static int row_files(Cx *cx, const char *folder, const char **name, int most) {
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && n < most && (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len < 5 || !str_eq(e->d_name + len - 4, ".row")) continue;
        int at = n++;
        for (const char *s = arena_str(cx->a, e->d_name, len - 4); at >= 0; at--) {
            if (at && strcmp(name[at - 1], s) > 0) {
                name[at] = name[at - 1];
                continue;
            }
            name[at] = s;
            break;
        }
    }
    if (d) closedir(d);
    return n;
}

static const char *plan_text(const Desk *k, int i) {
    return dev_caps(k->d)->kind == KIND_CUDA ? plans[i % COUNT(plans)] : plain_plans[i % COUNT(plain_plans)];
}

static void kernels(Desk *k, const char *folder, int from, int step) {
    static const int64_t rows[][2] = {{5, 3}, {33, 2}, {7, 1}}, elems[][2] = {{1024, 16}, {769, 5}, {3, 40}, {2056, 8}};
    static const Ty types[] = {TY_F32, TY_BF16, TY_F16, TY_F64};
    const char *files[64];
    int at = 0, nfiles = row_files(&k->cx, folder, files, COUNT(files));
    for (int f = 0; f < nfiles; f++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Ast *ast = NULL;
        if (kernel_get(&cx, folder, files[f], NULL, TY_F32, &ast, NULL) != OK)
            count(k, first_of(&cx), files[f], &(Plan){0});
        for (int q = 0; ast && q < ast_kernels(ast); q++)
            for (int t = 0; t < COUNT(types); t++)
                for (int e = 0; e < COUNT(elems); e++) {
                    for (int p = 0; p < 3; p++, at++) { /* a few of the plans each, all in the end */
                        if (at % step != from) continue;
                        Cx own = {.a = arena_new(NULL, NULL)};
                        TyBind bind[] = {{"*", types[t]}};
                        Prog *prog;
                        Shape s = {0};
                        Plan plan = {0};
                        const char *name = ast_kernel_name(ast, q), *text = plan_text(k, at * 7 + e), *wrong = NULL;
                        if (lang_kernel(&own, ast, name, bind, 1, NULL, 0, &prog) != OK)
                            wrong = first_of(&own);
                        else {
                            shape_of(prog, rows[at % COUNT(rows)], elems[e], &s);
                            /* special functions of f64 are each machine's own library's */
                            bool poly = p == 0 || dev_caps(k->d)->poly_math;
                            wrong = kernel_once(k, &own, prog, &s, text, poly && types[t] != TY_F64, at % 2,
                                                (uint64_t)at, &plan);
                        }
                        count(
                            k, wrong,
                            arena_printf(own.a, "%s %s elements %lld", name, ty_text(types[t]), (long long)elems[e][0]),
                            &plan);
                        arena_free(own.a);
                    }
                }
        arena_free(cx.a);
    }
}

/* ---- speed ---- */

enum { COLD_BYTES = 200 << 20, BLOCK = 1 << 20, SAMPLES = 9, CALLS = 200 };

typedef struct Line {
    char file[64], kernel[64], type[16], shape[128], plan[512];
} Line;

/* Of each tensor's dimensions, in elements; 0: as dense as the extents and strides within it allow. */
typedef struct Steps {
    int64_t of[MAX_PARAMS][MAX_RANK];
} Steps;

/* `name` is TENSOR.AXIS. Packs and copies go by 16 bytes at most, whose rows begin so. */
static bool read_step(Cx *cx, const Prog *p, char *name, int64_t step, Steps *steps, uint32_t *strided) {
    char *dot = strchr(name, '.');
    *dot = 0;
    const int q = prog_param(p, name), axis = prog_axis(p, dot + 1);
    for (int k = 0; q >= 0 && axis >= 0 && k < p->param[q].rank; k++) {
        if (p->param[q].axis[k] != axis) continue;
        if (step < 1 || step * ty_bytes(p->param[q].ty) % 16) break;
        steps->of[q][k] = step;
        if (!(p->row_axes >> axis & 1)) *strided |= 1u << q;
        return true;
    }
    diag(cx, S_ARG, NOWHERE, "TENSOR.AXIS=STRIDE, of whole 16 bytes", "%s.%s=%lld", name, dot + 1, (long long)step);
    return false;
}

static bool line_problem(Desk *k, Cx *cx, const Line *l, const char *folder, Problem *pb, Plan *plan, Unit *u,
                         Kern **kern, Steps *steps) {
    Ty ty;
    Ast *ast;
    Prog *p;
    Shape s = {0};
    uint32_t strided = 0;
    *steps = (Steps){0};
    if (!ty_find(l->type, strlen(l->type), &ty) || kernel_get(cx, folder, l->file, l->kernel, ty, &ast, &p) != OK)
        return false;
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    char *shape = arena_printf(cx->a, "%s", l->shape);
    for (char *q = strtok(shape, ","); q; q = strtok(NULL, ",")) {
        char *eq = strchr(q, '=');
        if (!eq) return false;
        *eq = 0;
        int axis = prog_axis(p, q);
        if (axis >= 0) s.n[axis] = number(eq + 1);
        if (axis >= 0 && s.n[axis] < 1) {
            diag(cx, S_ARG, NOWHERE, "1 and more", "extent of %s: %s", q, eq + 1);
            return false;
        }
        if (axis < 0 && !strchr(q, '.') && !str_eq(q, "resident")) {
            diag(cx, S_ARG, NOWHERE, "axes of the kernel, TENSOR.AXIS, resident", "%s", q);
            return false;
        }
        if (strchr(q, '.') && !read_step(cx, p, q, number(eq + 1), steps, &strided)) return false;
    }
    for (int i = 0; i < p->naxes; i++)
        if ((p->row_axes >> i & 1) && s.n[i] < 0) {
            diag(cx, S_ARG, NOWHERE, NULL, "the extent of %s is missing", p->axis[i].name);
            return false;
        }
    return problem_make(cx, p, &s, dev_caps(k->d), strided, pb) == OK && plan_read(cx, l->plan, plan) == OK &&
           kern_lower(cx, pb, plan, kern) == OK && unit_emit(cx, pb, *kern, u) == OK;
}

/* Inputs, and what lies between their rows, are a block of normal numbers over and over. */
static Err fill_set(Cx *cx, Device *d, const Problem *pb, const Steps *steps, Bench *b, double *bytes) {
    const Prog *p = pb->prog;
    Abi abi;
    abi_of(p, &abi);
    *b = (Bench){.shift = 0};
    *bytes = 0;
    for (int x = 0; x < p->naxes; x++)
        if (abi.row[x] >= 0) b->slots[abi.row[x]].i = pb->shape.n[x];
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        if (q->dir == DIR_SCALAR) {
            if (ty_is_float(q->ty))
                b->slots[abi.scalar[i]].d = q->def;
            else
                b->slots[abi.scalar[i]].i = (int64_t)q->def;
        }
        if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) continue;
        int64_t n = 1, elements = 1;
        for (int k = q->rank - 1; k >= 0; k--) {
            const int64_t step = steps->of[i][k];
            if (step && step < n)
                return diag(cx, S_ARG, NOWHERE, NULL, "%s lies upon itself: a stride of %lld, where %lld elements lie",
                            q->name, (long long)step, (long long)n);
            b->slots[abi.stride[i][k]].i = step ? step : n;
            if (!mul_fits(step ? step : n, pb->shape.n[q->axis[k]], &n) || n > INT64_C(1) << 40)
                return diag(cx, S_ARG, NOWHERE, NULL, "%s is too large", q->name);
            elements *= pb->shape.n[q->axis[k]];
        }
        size_t each = (size_t)ty_bytes(q->ty), all = (size_t)n * each, block = BLOCK * each < all ? BLOCK * each : all;
        b->moved[i] = (double)elements * (double)each;
        *bytes += b->moved[i] * (q->dir == DIR_INOUT ? 2 : 1);
        b->bytes[i] = all;
        Err err = mem_new(cx, d, all ? all : 1, &b->mem[i]);
        if (err) return err;
        b->slots[abi.ptr[i]].p = mem_at(b->mem[i]);
        if (q->dir == DIR_OUT || !block) continue;
        Tensor t = {
            .ty = q->ty, .rank = 1, .data = arena_get(cx->a, block), .n = {(int64_t)(block / each)}, .stride = {1}};
        fill_tensor(&t, FILL_NORMAL, 7 + (uint64_t)i, ty_is_int(q->ty) ? 1000 : 0);
        for (size_t at = 0; at < all && !err; at += block)
            err = mem_write(cx, b->mem[i], at, t.data, all - at < block ? all - at : block);
        if (err) return err;
    }
    return OK;
}

/* Where the row begins in the tensor, in elements: row axes count up from the last. */
static int64_t row_begin(const Problem *pb, const Abi *abi, const Bench *b, int param, int64_t row) {
    const Prog *p = pb->prog;
    const Param *q = &p->param[param];
    int64_t at = 0;
    for (int x = p->naxes - 1; x >= 0; x--) {
        if (!(p->row_axes >> x & 1)) continue;
        for (int d = 0; d < q->rank; d++)
            if (q->axis[d] == x) at += row % pb->shape.n[x] * b->slots[abi->stride[param][d]].i;
        row /= pb->shape.n[x];
    }
    return at;
}

/* First, middle and last row against the definition. */
static Err check_rows(Cx *cx, const Problem *pb, const Plan *plan, Bench *b, double *worst) {
    const Prog *p = pb->prog;
    int64_t rows = rows_of(p, &pb->shape);
    for (int r = 0; r < 3; r++) {
        int64_t row = r == 0 ? 0 : r == 1 ? rows / 2 : rows - 1;
        Args a = {.t = {{0}}};
        Shape s = pb->shape;
        Abi abi;
        abi_of(p, &abi);
        for (int x = 0; x < p->naxes; x++)
            if (p->row_axes >> x & 1) s.n[x] = 1;
        for (int i = 0; i < p->nparams; i++) {
            const Param *q = &p->param[i];
            if (q->dir == DIR_SCALAR) a.scalar[i] = (Num){.i = b->slots[abi.scalar[i]].i};
            if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) continue;
            Tensor *t = &a.t[i];
            *t = (Tensor){.ty = q->ty, .rank = q->rank};
            int64_t n = 1; /* elements from the row's first to its last */
            for (int d = 0; d < q->rank; d++) {
                t->stride[d] = b->slots[abi.stride[i][d]].i;
                t->n[d] = s.n[q->axis[d]];
                n += (t->n[d] - 1) * t->stride[d];
            }
            const size_t each = (size_t)ty_bytes(q->ty), bytes = (size_t)n * each;
            t->data = arena_get(cx->a, bytes);
            Err err = mem_read(cx, b->mem[i], (size_t)row_begin(pb, &abi, b, i, row) * each, t->data, bytes);
            if (err) return err;
        }
        OracleOptions o = bed_bounds(pb, plan);
        Verdict v;
        Err err = oracle_check(cx, pb->source, &s, &a, &a, &o, &v);
        if (v.worst > *worst) *worst = v.worst;
        if (err) return err;
    }
    return OK;
}

/* Of moving a line's bytes: in as many places in turn, a copy, or reads where next to nothing is written. */
typedef struct Limit {
    Ceiling c;
    double ns;
    const char *how;
} Limit;

static Err limit_of(Cx *cx, Desk *k, const Problem *pb, const Bench *b, double bytes, int nsets, Limit *limit) {
    double written = 0;
    for (int i = 0; i < pb->prog->nparams; i++)
        if (pb->prog->param[i].dir == DIR_OUT || pb->prog->param[i].dir == DIR_INOUT) written += b->moved[i];
    Ceiling c = {
        .kind = written * 16 < bytes ? CEILING_READ : CEILING_COPY, .bytes = (size_t)bytes, .sets = nsets, .reps = 5};
    if (limit->ns > 0 && memcmp(&c, &limit->c, sizeof c) == 0) return OK;
    Err err = dev_ceiling(cx, k->d, &c, &limit->ns, &limit->how);
    limit->c = c;
    if (!err)
        printf("# %s of %.1f MB in %d places: %.2f us, %.0f GB/s, %s\n", ceiling_text(c.kind), bytes / 1e6, nsets,
               limit->ns / 1e3, bytes / limit->ns, limit->how);
    return err;
}

static void speed_json(const Line *l, const double *ns, const Limit *limit, const Facts *f, double worst,
                       double host_ns, FILE *to) {
    fprintf(to, "{\"kernel\":\"%s\",\"type\":\"%s\",\"shape\":\"%s\",\"plan\":\"%s\",\"samples_us\":[", l->kernel,
            l->type, l->shape, l->plan);
    for (int i = 0; i < SAMPLES; i++) fprintf(to, "%s%.3f", i ? "," : "", ns[i] / 1e3);
    fprintf(to,
            "],\"median_us\":%.3f,\"ceiling\":\"%s, %s\",\"ceiling_us\":%.3f,\"places\":%d,\"worst_of_bound\":%.4f,"
            "\"registers\":%d,\"groups_per_unit\":%d,\"compile_ms\":%.1f,\"launch_us\":%.2f}\n",
            ns[SAMPLES / 2] / 1e3, ceiling_text(limit->c.kind), limit->how, limit->ns / 1e3, limit->c.sets, worst,
            f->registers, f->groups_per_unit, (double)f->compile_ns / 1e6, host_ns / 1e3);
    fflush(to);
}

static void speed_line(Desk *k, const Line *l, const char *folder, Limit *limit, FILE *json) {
    Cx cx = {.a = arena_new(NULL, NULL)};
    Problem pb;
    Plan plan;
    Kern *kern;
    Unit u;
    Steps steps;
    Module *m = NULL;
    Bench set[64] = {{.shift = 0}};
    const Slot *slots[64];
    int nsets = 1;
    double bytes = 0, worst = 0, ns[SAMPLES] = {0};
    bool resident = strstr(l->shape, "resident") != NULL;
    Err err = line_problem(k, &cx, l, folder, &pb, &plan, &u, &kern, &steps) ? OK : ERR_ARGUMENT;
    u.fresh = !getenv("ROWFOLD_CACHED"); /* else its time to compile is told */
    if (!err) err = mod_build(&cx, k->d, &u, &m);
    for (int i = 0; i < nsets && !err; i++) {
        err = fill_set(&cx, k->d, &pb, &steps, &set[i], &bytes);
        slots[i] = set[i].slots;
        if (!i && !resident) nsets = bytes * 64 < COLD_BYTES ? 64 : (int)(COLD_BYTES / bytes) + 1;
    }
    int64_t rows = err ? 0 : rows_of(pb.prog, &pb.shape);
    if (!err) err = mod_launch(&cx, m, slots[0], rows, 0);
    if (!err) err = dev_sync(&cx, k->d);
    int64_t host_ns = t_now_ns();
    for (int i = 0; i < CALLS && !err; i++) err = mod_launch(&cx, m, slots[0], rows, 0);
    host_ns = (t_now_ns() - host_ns) / CALLS; /* of a launch, where the device keeps up */
    if (!err) err = dev_sync(&cx, k->d);
    bool rows_apart = !err && !(pb.prog->row_axes >> pb.prog->param[0].axis[pb.prog->param[0].rank - 1] & 1);
    if (!err && rows_apart) err = check_rows(&cx, &pb, &plan, &set[0], &worst);
    for (int i = 0; i < SAMPLES && !err; i++) {
        int64_t t;
        err = mod_time(&cx, m, slots, nsets, rows, 0, CALLS, &t);
        ns[i] = (double)t / CALLS;
    }
    if (!err) err = limit_of(&cx, k, &pb, &set[0], bytes, nsets, limit);
    for (int i = 1; i < SAMPLES; i++)
        for (int j = i; j > 0 && ns[j] < ns[j - 1]; j--) {
            double x = ns[j];
            ns[j] = ns[j - 1], ns[j - 1] = x;
        }
    k->done++;
    if (err) {
        const Diag *d = cx.first;
        printf("%-9s %-4s %-22s -- %s | %s\n", l->kernel, l->type, l->shape, d ? slug_text(d->slug) : "?", l->plan);
        if (!d || !may_refuse(d->slug)) {
            printf("#   %s\n", first_of(&cx));
            k->bad++;
        }
    } else {
        const Facts *f = mod_facts(m);
        printf("%-9s %-4s %-22s %8.2f us %.3f  regs %d grp %d err %.2f cc %.0f ms host %.1f us | %s\n", l->kernel,
               l->type, l->shape, ns[SAMPLES / 2] / 1e3, limit->ns / ns[SAMPLES / 2], f->registers, f->groups_per_unit,
               worst, (double)f->compile_ns / 1e6, (double)host_ns / 1e3, l->plan);
        if (json) speed_json(l, ns, limit, f, worst, (double)host_ns, json);
    }
    fflush(stdout);
    for (int i = 0; i < nsets; i++) free_all(&set[i]);
    if (m) mod_free(m);
    arena_free(cx.a);
}

static void build_line(Desk *k, const Line *l, const char *folder) {
    Cx cx = {.a = arena_new(NULL, NULL)};
    Problem pb;
    Plan plan;
    Kern *kern;
    Unit u;
    Steps steps;
    Module *m = NULL;
    if (line_problem(k, &cx, l, folder, &pb, &plan, &u, &kern, &steps) && mod_build(&cx, k->d, &u, &m) == OK)
        mod_free(m);
    arena_free(cx.a);
}

static void lines(Desk *k, const char *list, const char *folder, FILE *json, int from, int step) {
    FILE *f = fopen(list, "r");
    char text[1024];
    Limit limit = {.ns = 0};
    for (int i = 0; f && fgets(text, sizeof text, f);) {
        Line l;
        if (text[0] == '#' || text[strspn(text, " \n")] == 0) continue;
        if (sscanf(text, "%63s %63s %15s %127s %511[^\n]", l.file, l.kernel, l.type, l.shape, l.plan) != 5) {
            printf("# no FILE KERNEL TYPE SHAPE PLAN: %s", text);
            k->bad++;
            continue;
        }
        if (!step)
            speed_line(k, &l, folder, &limit, json);
        else if (i++ % step == from)
            build_line(k, &l, folder);
    }
    if (f) fclose(f);
    if (f) return;
    printf("# cannot read %s\n", list);
    k->bad++;
}

int main(int argc, char **argv) {
    Desk k;
    if (argc < 3) return fprintf(stderr, "see the top of tests/device/cuda.c\n"), 2;
    if (!open_desk(&k)) return getenv("ROWFOLD_TEST_DEVICE") ? 77 : 0; /* as Meson knows a test that was skipped */
    if (str_eq(argv[1], "random"))
        for (int i = 0; i < (int)number(argv[2]); i++)
            random_one(&k, strtoull(argc > 3 ? argv[3] : "1", NULL, 10) + (uint64_t)i);
    if (str_eq(argv[1], "kernels"))
        kernels(&k, argv[2], argc > 4 ? (int)number(argv[3]) : 0, argc > 4 ? (int)number(argv[4]) : 1);
    FILE *json = str_eq(argv[1], "speed") && argc > 4 ? fopen(argv[4], "w") : NULL;
    if (str_eq(argv[1], "speed") && argc > 3) lines(&k, argv[2], argv[3], json, 0, 0);
    if (json) fclose(json);
    if (str_eq(argv[1], "build") && argc > 5)
        lines(&k, argv[2], argv[3], NULL, (int)number(argv[4]), (int)number(argv[5]));
    printf("%s %s: %lld done, %lld wrong, %lld refused by the build\n", k.bad ? "not ok" : "ok", argv[1],
           (long long)k.done, (long long)k.bad, (long long)k.refused);
    rt_close(k.rt);
    arena_free(k.cx.a);
    return k.bad != 0;
}
