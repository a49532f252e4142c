/* Metal units, executed: what the dialect emits is compiled unchanged as C++ over the shim metal_stdlib, many units at
 * once, and run lane by lane (lanes.h). The outputs are the kern interpreter's, bit for bit.
 *
 *     run_metal kernels [FROM [STEP]]     every kernel of kernels/, types and plans drawn
 *     run_metal random [PAIRS [SEED]]     random programs times random plans
 *     run_metal segments                  reductions over the last of several axes, joined over segments of lanes
 *     run_metal pairs                     maxima and sums that meet together
 *     run_metal faults                    broken text is caught
 *     run_metal syntax                    a second compiler takes the text
 * Environment: CXX, the compiler (g++; clang++ for kernels, segments and pairs where it is there), and CXX2, the second
 * one (clang++). TAP on stdout. */
#include "../diff/library.h"
#include "../diff/match.h"

#include "../../src/base/os.h"
#include "msl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 24, GUARD = 64 };

typedef struct Case {
    Match m;
    char what[96];
    bool loose; /* memory is not aligned to packs */
    int shift;  /* elements that each tensor is off 256 bytes */
    const char *text;
    LaneFn *fn;
} Case;

typedef struct Desk {
    Msl msl;
    void *handle;
    int64_t done, bad, accesses, meetings, loose, shared;
} Desk;

static bool desk_open(Desk *d, const char *env, const char *fallback) {
    *d = (Desk){.done = 0};
    if (msl_open(&d->msl, env, fallback)) return true;
    printf("1..0 # SKIP no %s\n", fallback);
    return false;
}

static bool build(Desk *d, Case *c, int n) {
    MslUnit u[BATCH] = {{.text = NULL}};
    for (int i = 0; i < n; i++) u[i] = (MslUnit){c[i].text, c[i].m.unit.entry, c[i].loose, NULL};
    d->handle = msl_build(&d->msl, u, n);
    for (int i = 0; i < n; i++) c[i].fn = u[i].fn;
    return d->handle != NULL;
}

/* ---- running ---- */

static bool is_aligned(const Unit *u, const Slot *s, int q, int shift, int each) {
    if (u->align[q] && shift * each % u->align[q]) return false;
    for (int d = 0; d < MAX_RANK; d++)
        if (u->align_dims[q] >> d & 1 && (u->abi.extent[q][d] < 0 || s[u->abi.extent[q][d]].i > 1) &&
            s[u->abi.stride[q][d]].i % u->align_each[q])
            return false;
    return true;
}

static void settle(Case *c) {
    const Match *m = &c->m;
    const Slot *s = match_slots(&c->m, &m->cpu, NULL);
    c->text = m->unit.text;
    c->shift = (int)(m->seed % 3);
    for (int i = 0; i < m->prog->nparams; i++)
        if (m->bytes[i]) c->loose |= !is_aligned(&m->unit, s, i, c->shift, ty_bytes(m->cpu.t[i].ty));
}

static bool wrong(Case *c, const char *why) {
    c->m.ok = false;
    c->m.why = arena_printf(c->m.cx.a, "%s", why);
    return false;
}

/* In two launches, as rows beyond what one can have would come. */
static bool launch(Desk *d, Case *c) {
    Match *m = &c->m;
    const int64_t P = m->plan.P, cut = (int64_t)(m->seed % (uint64_t)(m->rows + 1)) / P * P;
    int nslots = m->unit.abi.nslots;
    Slot *args = NEWN(m->cx.a, Slot, nslots + 2);
    LaneRun r = {.fn = c->fn,
                 .lanes = m->unit.lanes * m->unit.rows_per_group,
                 .shared_bytes = (size_t)m->unit.shared_bytes,
                 .P = (int)P,
                 .side_by_side = strstr(c->text, "lane = tid / ") != NULL,
                 .order = (int)(m->seed / 3 % 3)};
    unsigned char *all[MAX_PARAMS] = {NULL};
    memcpy(args + 2, match_slots(m, &m->cpu, NULL), (size_t)nslots * sizeof *args);
    for (int i = 0; i < m->prog->nparams; i++) {
        if (m->unit.abi.ptr[i] < 0) continue;
        const size_t off = 256 + (size_t)(c->shift * ty_bytes(m->cpu.t[i].ty));
        unsigned char *p = arena_get(m->cx.a, m->bytes[i] + off + GUARD + 256);
        p += 256 - (uintptr_t)p % 256;
        memset(p, POISON, m->bytes[i] + off + GUARD);
        memcpy(p + off, m->cpu.t[i].data, m->bytes[i]);
        all[i] = p;
        args[2 + m->unit.abi.ptr[i]].p = NULL; /* a pointer is a buffer's binding */
        r.memory[r.nmemory++] =
            (LaneMemory){m->prog->param[i].name, p + off, m->bytes[i], m->prog->param[i].dir != DIR_IN};
    }
    r.memory[r.nmemory++] = (LaneMemory){"the arguments", args, (size_t)(nslots + 2) * sizeof *args, false};
    for (int part = 0; part < 2; part++) {
        const int64_t from = part ? 0 : cut, to = part ? cut : m->rows;
        args[0].i = from, args[1].i = to;
        r.groups = (int)ceil_div(to - from, P);
        if (m->unit.resident) r.groups = (int)i64_min(r.groups, 2); /* as of a device with room for as many */
        r.rows = to - from;
        if (to > from && !lanes_run(&r)) return wrong(c, r.why);
        d->accesses += r.accesses, d->meetings += r.meetings;
    }
    for (int i = 0; i < m->prog->nparams; i++) {
        if (!all[i]) continue;
        const size_t off = 256 + (size_t)(c->shift * ty_bytes(m->cpu.t[i].ty));
        for (size_t at = 0; at < off + m->bytes[i] + GUARD; at++)
            if ((at < off || at >= off + m->bytes[i]) && all[i][at] != POISON)
                return wrong(c, "memory around a tensor is written");
        memcpy(m->cpu.t[i].data, all[i] + off, m->bytes[i]);
    }
    return match_same(m);
}

static void tell(Desk *d, Case *c) {
    Buf plan = buf_new(c->m.cx.a);
    plan_print(&c->m.plan, &plan);
    if (d->bad++ < 5) printf("# %s: %s\n#   %s\n", c->what, c->m.why, plan.s);
    const char *keep = getenv("KEEP");
    if (keep && c->text) os_write_atomic(keep, c->text, strlen(c->text), 0644, false);
}

/* Builds all that are well so far, runs them, tells what is wrong, and frees them. */
static void run_batch(Desk *d, Case *c, int n) {
    for (int i = 0; i < n; i++)
        if (c[i].m.ok) settle(&c[i]);
    bool built = build(d, c, n);
    if (!built && d->bad++ < 5) printf("# the batch of %s does not compile:\n# %.1500s\n", c[0].what, d->msl.why);
    for (int i = 0; i < n; i++) {
        if (built && c[i].m.ok) launch(d, &c[i]);
        if (!c[i].m.ok) tell(d, &c[i]);
        d->done++, d->loose += c[i].loose, d->shared += c[i].m.unit.shared_bytes > 0;
        match_free(&c[i].m);
        c[i] = (Case){.loose = false};
    }
    if (d->handle) dlclose(d->handle);
    d->handle = NULL;
}

static Caps machine(void) {
    Caps c = {0};
    caps_preset("m1max", &c);
    return c;
}

static int verdict(const Desk *d, const char *what) {
    printf("# %lld units, %lld on memory off its alignment, %lld with threadgroup memory; %lld accesses and %lld "
           "meetings of lanes\n",
           (long long)d->done, (long long)d->loose, (long long)d->shared, (long long)d->accesses,
           (long long)d->meetings);
    printf("%s 1 - %s\n1..1\n", d->bad || !d->done ? "not ok" : "ok", what);
    return d->bad || !d->done;
}

/* ---- what is run ---- */

static bool uses_f64(const Prog *p) {
    for (int i = 0; i < p->nvals; i++)
        if (p->val[i].ty == TY_F64) return true;
    for (int i = 0; i < p->nparams; i++)
        if (p->param[i].ty == TY_F64) return true;
    return false;
}

static bool refused(const Match *m) { /* a draw that no plan is legal for */
    return !m->ok && m->cx.first && slug_err(m->cx.first->slug) == ERR_REFUSED;
}

static Case batch[BATCH];

static void kernels(Desk *d, int64_t from, int64_t step) {
    static const int64_t length[] = {37, 256, 768, 1, 136, 1024, 769}, rows[] = {3, 5, 1, 9};
    static const Ty types[] = {TY_F32, TY_BF16, TY_F16};
    const Caps caps = machine();
    LibKernel *lib[COUNT(types)];
    Cx cx = {.a = arena_new(NULL, NULL)};
    int n = 0, count = 0;
    for (int t = 0; t < COUNT(types); t++) count = library_read(&cx, types[t], &lib[t]);
    for (int64_t at = from; at < 2 * count; at += step) {
        const int i = (int)(at % count), t = (int)((at / count + i) % COUNT(types));
        Case *c = &batch[n];
        c->m = (Match){.cx = {.a = arena_new(NULL, NULL)}, .prog = lib[t][i].prog};
        c->m.shape = library_shape(lib[t][i].prog, rows[at % COUNT(rows)], length[(at + at / count) % COUNT(length)]);
        snprintf(c->what, sizeof c->what, "%s %s case %lld", lib[t][i].name, ty_text(types[t]), (long long)at);
        if (match_prog(&c->m, (uint64_t)at + 1000, &caps, NULL)) match_interpret(&c->m);
        if (++n < BATCH) continue;
        run_batch(d, batch, n);
        n = 0;
    }
    if (n) run_batch(d, batch, n);
    arena_free(cx.a);
}

/* Every kernel of the library that the plans are for, with each of them. */
static void listed(Desk *d, Ty ty, const char *const *plans, int nplans, const int64_t *length, int nlengths) {
    const Caps caps = machine();
    Cx cx = {.a = arena_new(NULL, NULL)};
    LibKernel *lib;
    int n = 0, count = library_read(&cx, ty, &lib);
    for (int at = 0; at < count * nplans * nlengths; at++) {
        const int i = at / nplans / nlengths;
        Case *c = &batch[n];
        c->m = (Match){.cx = {.a = arena_new(NULL, NULL)}, .prog = lib[i].prog};
        c->m.shape = library_shape(lib[i].prog, 5, length[at % nlengths]);
        snprintf(c->what, sizeof c->what, "%s case %d", lib[i].name, at);
        if (match_prog(&c->m, (uint64_t)at + 1000, &caps, plans[at / nlengths % nplans])) match_interpret(&c->m);
        if (refused(&c->m)) {
            match_free(&c->m);
            continue;
        }
        if (++n < BATCH) continue;
        run_batch(d, batch, n);
        n = 0;
    }
    if (n) run_batch(d, batch, n);
    arena_free(cx.a);
}

static void segments(Desk *d) {
    static const char *const plans[] = {"W=64 V=4 segments=on",     "W=96 V=2 P=2 segments=on acc=2",
                                        "W=32 V=8 segments=on",     "W=256 V=4 segments=on early=on",
                                        "W=16 V=1 P=8 segments=on", "W=8 V=4 P=3 segments=on"};
    static const int64_t length[] = {64, 16, 128, 8, 4};
    listed(d, TY_BF16, plans, COUNT(plans), length, COUNT(length));
}

static void pairs(Desk *d) {
    static const char *const plans[] = {"W=64 V=4 stat=online combine=pair", "W=96 V=1 P=2 stat=online combine=pair",
                                        "W=512 V=1 flight=2 stat=online combine=pair",
                                        "W=8 V=2 P=4 stat=online combine=pair"};
    static const int64_t length[] = {300, 37};
    listed(d, TY_BF16, plans, COUNT(plans), length, COUNT(length));
}

/* Five rows in tiles of several: those past the last read nothing that the last one writes. */
static void outputs(Desk *d) {
    static const char *const plans[] = {"W=64 V=4 P=2 hold.c=output", "W=32 V=2 P=4 hold.e=output",
                                        "W=480 V=1 P=2 flight=4 fuse=off early=on grid=1 hold.x=shared hold.c=output"};
    static const int64_t length[] = {37, 1024, 769};
    listed(d, TY_F32, plans, COUNT(plans), length, COUNT(length));
}

static void random_pairs(Desk *d, int64_t pairs, uint64_t seed) {
    const Caps caps = machine();
    int n = 0;
    for (int64_t made = 0; made < pairs; seed++) {
        uint8_t bytes[RANDPROG_BYTES];
        Case *c = &batch[n];
        const size_t len = randprog_bytes(seed, bytes);
        c->m = (Match){.cx = {.a = arena_new(NULL, NULL)}};
        snprintf(c->what, sizeof c->what, "seed %llu", (unsigned long long)seed);
        if (randprog(&c->m.cx, bytes, len, &c->m.prog, &c->m.shape) != OK || uses_f64(c->m.prog)) {
            match_free(&c->m);
            continue;
        }
        c->m.prog->name = "k";
        if (match_prog(&c->m, seed, &caps, NULL)) match_interpret(&c->m);
        if (refused(&c->m)) {
            match_free(&c->m);
            continue;
        }
        made++;
        if (++n < BATCH) continue;
        run_batch(d, batch, n);
        n = 0;
    }
    if (n) run_batch(d, batch, n);
}

/* ---- what is caught ---- */

/* The text with the first `find` behind `after` replaced; NULL where there is none. */
static const char *edited(Arena *a, const char *text, const char *after, const char *find, const char *put) {
    const char *from = strstr(text, after), *at = from ? strstr(from, find) : NULL;
    return at ? arena_printf(a, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find)) : NULL;
}

static const struct {
    const char *what, *after, *find, *put, *says;
} faults[] = {
    {"the text as it is", "", "", "", NULL},
    {"a barrier taken away", "", "threadgroup_barrier(mem_flags::mem_threadgroup);", ";", "was never written"},
    {"the second barrier taken away", "xb ^= 1", "threadgroup_barrier(mem_flags::mem_threadgroup);", ";",
     "never written"},
    {"one buffer for two exchanges", "", "xb ^= 1;", ";", "with no barrier between"},
    {"a barrier for some lanes", "", "threadgroup_barrier(", "if (tid % 2) return;\n    threadgroup_barrier(",
     "a barrier in line"},
    {"two barriers for two halves", "", "threadgroup_barrier(mem_flags::mem_threadgroup);",
     "if (tid < 128) threadgroup_barrier(mem_flags::mem_threadgroup);\n    else "
     "threadgroup_barrier(mem_flags::mem_threadgroup);",
     "not all lanes reach"},
    {"a shuffle for some lanes", "i32 xb", ";", "; if (tid < 300) return;", "a shuffle in line"},
    {"a shuffle with no lane", "i32 xb", ", 16)", ", 48)", "a shuffle with lane"},
    {"beyond threadgroup memory", "", "[tid / 32] =", "[tid / 32 + 1000000] =", "outside of all memory"},
    {"beyond a tensor", "device bf16 *p", "p0 + ", "p0 + 10000000 + ", "outside of all memory"},
    {"beyond a tensor by one", "device bf16 *p", "p0 + ", "p0 + 4 + ", "outside of all memory"},
    {"off its alignment", "device bf16 *p", "p0 + ", "p0 + 1 + ", "off their alignment"},
    {"two lanes, one element", "device bf16 *p", "(p1 + ", "(p1 - lane * 4 + ", "wrote it, with no barrier between"},
    {"an input is written", "device bf16 *p", "(p1 + ", "((device bf16 *)p0 + ", "x is written"},
    {"another value", "", "return x / y", "return y / x", "differ at"},
};

/* Each fault in the text of one softmax, whose rows are held in threadgroup memory: the run ends in the words it
 * should. */
static void catch_faults(Desk *d) {
    const Caps caps = machine();
    LibKernel *lib;
    Cx cx = {.a = arena_new(NULL, NULL)};
    int count = library_read(&cx, TY_BF16, &lib), k = 0;
    while (k < count && !str_eq(lib[k].name, "softmax")) k++;
    for (int i = 0; i < COUNT(faults) && k < count; i++) {
        Case *c = &batch[i];
        c->m = (Match){.cx = {.a = arena_new(NULL, NULL)}, .prog = lib[k].prog};
        c->m.shape = library_shape(lib[k].prog, 3, 2048);
        /* of a seed whose strides are known, on aligned memory */
        if (match_prog(&c->m, 12, &caps, "W=512 V=4 hold.x=shared")) match_interpret(&c->m);
        settle(c);
        c->text = edited(c->m.cx.a, c->text, faults[i].after, faults[i].find, faults[i].put);
        if (!c->text) c->m.ok = wrong(c, "the text has no such place");
    }
    bool built = build(d, batch, COUNT(faults));
    if (!built) printf("# %.1500s\n", d->msl.why);
    for (int i = 0; i < COUNT(faults); i++) {
        Case *c = &batch[i];
        bool ran = built && c->m.ok && launch(d, c);
        bool ok = built && c->fn && (faults[i].says ? !ran && strstr(c->m.why, faults[i].says) : ran);
        printf("%s %d - %s\n", ok ? "ok" : "not ok", i + 1, faults[i].what);
        if (!ok || getenv("VERBOSE")) printf("# %s\n", c->m.ok ? "ran" : c->m.why);
        d->done++, d->bad += !ok;
        match_free(&c->m);
    }
    printf("1..%d\n", COUNT(faults));
    arena_free(cx.a);
}

/* A second compiler: every kernel at one plan, parsed only. */
static void check_syntax(Desk *d) {
    const Caps caps = machine();
    LibKernel *lib;
    Cx cx = {.a = arena_new(NULL, NULL)};
    int count = library_read(&cx, TY_F16, &lib), n = 0;
    for (int i = 0; i < count; i++) {
        Case *c = &batch[n];
        MslUnit u[BATCH] = {{.text = NULL}};
        c->m = (Match){.cx = {.a = arena_new(NULL, NULL)}, .prog = lib[i].prog};
        c->m.shape = library_shape(lib[i].prog, 4, 200);
        if (!match_prog(&c->m, (uint64_t)i, &caps, NULL)) d->bad++;
        c->text = c->m.unit.text;
        if (++n < BATCH && i + 1 < count) continue;
        for (int k = 0; k < n; k++) u[k] = (MslUnit){batch[k].text, batch[k].m.unit.entry, false, NULL};
        if (!msl_parse(&d->msl, u, n)) {
            printf("# %.1500s\n", d->msl.why);
            d->bad++;
        }
        for (; n > 0; d->done++) match_free(&batch[--n].m);
    }
    arena_free(cx.a);
}

int main(int argc, char **argv) {
    static Desk d;
    const char *what = argc > 1 ? argv[1] : "";
    int64_t x = 0, y = 0;
    if (argc > 2) str_i64(argv[2], &x);
    if (argc > 3) str_i64(argv[3], &y);
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* Both compilers make what is run: clang++ the long lists, in two thirds of g++'s time. */
    const bool listed =
        str_eq(what, "kernels") || str_eq(what, "random") || str_eq(what, "pairs") || str_eq(what, "outputs");
    if (str_eq(what, "syntax") ? !desk_open(&d, "CXX2", "clang++")
                               : !(listed && msl_open(&d.msl, "CXX", "clang++")) && !desk_open(&d, "CXX", "g++"))
        return 0;
    if (str_eq(what, "kernels")) {
        kernels(&d, x, y > 0 ? y : 1);
        return verdict(&d, "the kernels of the library, run as Metal, have the interpreter's bits");
    }
    if (str_eq(what, "random")) {
        random_pairs(&d, x > 0 ? x : 120, y > 0 ? (uint64_t)y : 1);
        return verdict(&d, "random programs and plans, run as Metal, have the interpreter's bits");
    }
    if (str_eq(what, "segments")) {
        segments(&d);
        return verdict(&d, "what segments of lanes join has the interpreter's bits");
    }
    if (str_eq(what, "pairs")) {
        pairs(&d);
        return verdict(&d, "maxima and sums that meet together have the interpreter's bits");
    }
    if (str_eq(what, "outputs")) {
        outputs(&d);
        return verdict(&d, "rows of tiles that are not full leave the outputs that values are held in alone");
    }
    if (str_eq(what, "faults")) {
        catch_faults(&d);
        return d.bad != 0;
    }
    if (str_eq(what, "syntax")) {
        check_syntax(&d);
        return verdict(&d, "a second compiler takes the text of every kernel");
    }
    fprintf(stderr, "see the top of tests/metal/run_metal.c\n");
    return 2;
}
