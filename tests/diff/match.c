/* Seed -> program, plan, arguments, kern, unit; kern and unit -> outputs; outputs -> agreement, or what is wrong. */
#include "match.h"

#include "../../src/audit/audit.h"
#include "../../src/base/os.h"
#include "../../src/bench/bench.h"
#include "randplan.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wrong(Match *p, const char *what) {
    const Diag *d = p->cx.first;
    p->ok = false;
    p->why = arena_printf(p->cx.a, "%s%s%s%s%s", what, d ? ": " : "", d ? slug_text(d->slug) : "", d ? ": " : "",
                          d ? d->msg : "");
    return false;
}

/* ---- arguments ---- */

/* Now and then strides twice as large, on top of gaps: only where they are run-time arguments. */
static void spread(Match *p, Args *a, Fill fill, uint64_t seed) {
    Rng r = {seed};
    for (int i = 0; i < p->prog->nparams; i++) {
        const Param *q = &p->prog->param[i];
        Tensor *t = &a->t[i];
        if (q->dir == DIR_SCALAR || q->dir == DIR_CONST) continue;
        const uint64_t own = rng_u64(&r);
        if (p->pb.strided >> i & 1 && q->rank && rng_int(&r, 3) == 0) {
            for (int d = 0; d < t->rank; d++) t->stride[d] *= 2;
            Args twice = *a;
            int64_t last = 1;
            for (int d = 0; d < t->rank; d++) last += t->n[d] * t->stride[d];
            const size_t bytes = (size_t)last * (size_t)ty_bytes(t->ty);
            twice.t[i].data = arena_get(p->cx.a, bytes);
            memset(twice.t[i].data, POISON, bytes);
            if (q->dir != DIR_OUT) { /* element by element out of the dense one */
                int64_t at[MAX_RANK] = {0}, from = 0, to = 0, count = 1;
                for (int d = 0; d < t->rank; d++) count *= t->n[d];
                const size_t each = (size_t)ty_bytes(t->ty);
                for (int64_t k = 0; k < count; k++) {
                    memcpy((char *)twice.t[i].data + to * (int64_t)each, (char *)t->data + from * (int64_t)each, each);
                    for (int d = t->rank - 1; d >= 0; d--) {
                        from += t->stride[d] / 2, to += t->stride[d];
                        if (++at[d] < t->n[d]) break;
                        from -= t->stride[d] / 2 * t->n[d], to -= t->stride[d] * t->n[d];
                        at[d] = 0;
                    }
                }
            }
            t->data = twice.t[i].data;
        }
        (void)own, (void)fill;
        int64_t end = 1;
        for (int d = 0; d < t->rank; d++) end += (t->n[d] > 0 ? t->n[d] - 1 : 0) * t->stride[d];
        p->bytes[i] = (size_t)end * (size_t)ty_bytes(t->ty);
    }
}

static void copy_args(Match *p, const Args *from, Args *to) {
    *to = *from;
    for (int i = 0; i < p->prog->nparams; i++)
        if (p->bytes[i]) to->t[i].data = arena_dup(p->cx.a, from->t[i].data, p->bytes[i]);
}

Slot *match_slots(Match *p, const Args *a, int *n) {
    Abi abi;
    abi_of(p->pb.prog, &abi);
    Slot *s = NEWN(p->cx.a, Slot, abi.nslots + 1);
    if (n) *n = abi.nslots;
    for (int i = 0; i < p->prog->nparams; i++) {
        const Param *q = &p->prog->param[i];
        if (q->dir == DIR_CONST) continue;
        if (q->dir == DIR_SCALAR) {
            s[abi.scalar[i]].i = a->scalar[i].i; /* a union of 8 bytes: also the f64 */
            continue;
        }
        s[abi.ptr[i]].p = a->t[i].data;
        for (int d = 0; d < q->rank; d++) s[abi.stride[i][d]].i = a->t[i].stride[d];
    }
    for (int x = 0; x < p->prog->naxes; x++)
        if (abi.row[x] >= 0) s[abi.row[x]].i = p->shape.n[x];
    const int extent = prog_extent(p->pb.prog, &p->pb.shape);
    if (extent >= 0) s[abi.scalar[extent]].i = a->scalar[extent].i;
    return s;
}

/* ---- comparing ---- */

static bool is_nan(Ty ty, const void *at) {
    const Num v = num_load(ty, at);
    return ty == TY_F64 ? v.d != v.d : ty_is_float(ty) && v.f != v.f;
}

int64_t same_bits(Ty ty, const void *x, const void *y, int64_t n) {
    const int each = ty_bytes(ty);
    if (!memcmp(x, y, (size_t)n * (size_t)each)) return -1;
    for (int64_t i = 0; i < n; i++) {
        const char *a = (const char *)x + i * each, *b = (const char *)y + i * each;
        if (memcmp(a, b, (size_t)each) && !(is_nan(ty, a) && is_nan(ty, b))) return i;
    }
    return -1;
}

/* Bytes of the tensor's memory that no element covers are as they were. */
static bool gaps_kept(Match *p, const Args *a) {
    for (int i = 0; i < p->prog->nouts; i++) {
        const int q = p->prog->out[i].param;
        const Tensor *t = &a->t[q];
        const int64_t each = ty_bytes(t->ty), n = (int64_t)p->bytes[q] / each;
        bool *mine = NEWN(p->cx.a, bool, n);
        int64_t at[MAX_RANK] = {0}, to = 0, count = 1;
        for (int d = 0; d < t->rank; d++) count *= t->n[d];
        for (int64_t k = 0; k < count; k++) {
            mine[to] = true;
            for (int d = t->rank - 1; d >= 0; d--) {
                to += t->stride[d];
                if (++at[d] < t->n[d]) break;
                to -= t->stride[d] * t->n[d];
                at[d] = 0;
            }
        }
        for (int64_t k = 0; k < n * each; k++)
            if (!mine[k / each] && ((unsigned char *)t->data)[k] != POISON)
                return wrong(p, arena_printf(p->cx.a, "a gap of %s is written at byte %lld", p->prog->param[q].name,
                                             (long long)k));
    }
    return true;
}

/* `in`: the same arguments before a run, for inout tensors */
static bool within_bounds(Match *p, const Args *in, const Args *out) {
    Cx cx = {.a = arena_sub(p->cx.a)};
    const OracleOptions o = bed_bounds(&p->pb, &p->plan);
    Verdict v;
    if (oracle_check(&cx, p->prog, &p->shape, in, out, &o, &v) == OK) {
        p->worst = v.worst;
        arena_free(cx.a);
        return true;
    }
    p->cx.first = cx.first; /* its arena stays until the pair goes */
    return wrong(p, "not within the bound");
}

/* ---- the pair ---- */

enum { MOST_TEXT = 40000, REDRAWS = 24 };

/* Every fourth program: some element axis ranges around the extent that it has. */
static void range_one(const Prog *p, Shape *s, uint64_t seed) {
    Rng r = {seed * 0x9e3779b97f4a7c15ull + 3};
    if (rng_int(&r, 4)) return;
    int axis = rng_int(&r, p->naxes);
    for (int i = 0; i < p->naxes; i++)
        if (p->axis[i].ext >= 0) return;
    if (p->row_axes >> axis & 1 || s->n[axis] < 1) return;
    s->least[axis] = 1 + rng_int(&r, (int)i64_min(s->n[axis], 40));
    s->n[axis] += 1 + rng_int(&r, 20);
}

bool match_make(Match *p, const char *name, const uint8_t *bytes, size_t n, uint64_t seed, const Caps *caps,
                const char *plan) {
    *p = (Match){.cx = {.a = arena_new(NULL, NULL)}};
    if (randprog(&p->cx, bytes, n, &p->prog, &p->shape) != OK) return wrong(p, "randprog");
    p->prog->name = arena_printf(p->cx.a, "%s", name);
    range_one(p->prog, &p->shape, seed);
    return match_prog(p, seed, caps, plan);
}

/* Arguments at extent n of the ranged axis. */
static void arguments(Match *p, int64_t n) {
    Args a;
    p->shape = shape_at(&p->pb.shape, n);
    p->rows = 1;
    for (int i = 0; i < p->prog->naxes; i++)
        if (p->prog->row_axes >> i & 1) p->rows *= p->shape.n[i];
    memset(p->bytes, 0, sizeof p->bytes);
    randargs(&p->cx, p->prog, &p->shape, p->fill, p->seed, p->gaps, &a);
    spread(p, &a, p->fill, p->seed);
    const int extent = prog_extent(p->pb.prog, &p->pb.shape);
    if (extent >= 0) a.scalar[extent].i = n; /* behind those of the program as written */
    copy_args(p, &a, &p->interp);
    copy_args(p, &a, &p->cpu);
}

bool match_at(Match *p, int64_t n) {
    arguments(p, n);
    return match_interpret(p);
}

bool match_prog(Match *p, uint64_t seed, const Caps *caps, const char *plan) {
    p->seed = seed, p->caps = *caps, p->ok = true;
    Rng r = {seed * 0x2545f4914f6cdd1dull + 7};
    const int layout = rng_int(&r, 4); /* 2: some strides are arguments, 3: all, and there are gaps */
    uint32_t strided = layout == 2 ? (uint32_t)rng_u64(&r) : layout == 3 ? ~0u : 0;
    p->fill = (Fill)rng_int(&r, FILL_COUNT);
    p->gaps = layout == 3;
    if (problem_make(&p->cx, p->prog, &p->shape, caps, strided, &p->pb) != OK) return wrong(p, "problem_make");
    const int axis = shape_ranged(&p->pb.shape);
    const int64_t least = axis < 0 ? 0 : p->pb.shape.least[axis], most = axis < 0 ? 0 : p->pb.shape.n[axis];
    arguments(p, least + (int64_t)(seed / 4 % (uint64_t)(most - least + 1)));
    if (plan && plan_read(&p->cx, plan, &p->plan) != OK) return wrong(p, "plan_read");
    int redraws = 0;
    do {
        if (!plan) p->plan = randplan(&p->cx, &p->pb, &r, &p->draws);
        if (kern_lower(&p->cx, &p->pb, &p->plan, &p->kern) != OK) return wrong(p, "kern_lower");
        if ((caps->kind == KIND_HOST || caps->kind == KIND_METAL) && unit_emit(&p->cx, &p->pb, p->kern, &p->unit) != OK)
            return wrong(p, "unit_emit");
        /* a long row's many lanes, all spelt out, take a compiler seconds; but some programs have no shorter text */
    } while (!plan && p->unit.bytes > MOST_TEXT && ++redraws < REDRAWS);
    return true;
}

bool match_read(Match *p, const char *text, const char *kernel, const TyBind *bind, int nbind) {
    *p = (Match){.cx = {.a = arena_new(NULL, NULL)}};
    Ast *ast;
    if (lang_parse(&p->cx, "test.row", text, strlen(text), &ast) != OK ||
        lang_kernel(&p->cx, ast, kernel, bind, nbind, NULL, 0, &p->prog) != OK)
        return wrong(p, kernel);
    for (int i = 0; i < MAX_AXES; i++) p->shape.n[i] = -1;
    return true;
}

bool match_sound(Match *p) {
    Cx *cx = &p->cx;
    AuditReport report = {0};
    Buf text = buf_new(cx->a), again = buf_new(cx->a);
    Kern *k;
    if (audit_kern(cx, p->pb.prog, &p->pb.shape, &p->pb.caps, true, false, p->pb.strided, p->kern, &report) != OK)
        return wrong(p, "audit_kern");
    kern_print(p->kern, &text);
    if (kern_read(cx, p->pb.prog, text.s, text.n, &k) != OK) return wrong(p, "kern_read");
    kern_print(k, &again);
    return str_eq(text.s, again.s) || wrong(p, "the kern's text does not come back as it was");
}

bool match_interpret(Match *p) {
    const void *lo[MAX_PARAMS] = {0}, *hi[MAX_PARAMS] = {0};
    for (int i = 0; i < p->prog->nparams; i++)
        if (p->interp.t[i].data) lo[i] = p->interp.t[i].data, hi[i] = (char *)p->interp.t[i].data + p->bytes[i];
    KernRun run;
    if (kern_run(&p->cx, p->kern, match_slots(p, &p->interp, NULL), p->rows, lo, hi, &run) != OK)
        return wrong(p, "kern_run");
    Demand d;
    kern_count(&p->cx, p->kern, &d);
    if (!d.known) return wrong(p, "kern_count: not known");
    return within_bounds(p, &p->cpu, &p->interp) && gaps_kept(p, &p->interp);
}

bool match_compare(Match *p, HostFn *fn) {
    const Slot *s = match_slots(p, &p->cpu, NULL);
    const int64_t cut = (int64_t)(p->seed % (uint64_t)(p->rows + 1)); /* rows come in ranges, the later one first */
    fn(s, cut, p->rows);
    fn(s, 0, cut);
    return match_same(p);
}

bool match_same(Match *p) {
    for (int i = 0; i < p->prog->nparams; i++) {
        if (!p->bytes[i]) continue;
        const int64_t each = ty_bytes(p->cpu.t[i].ty);
        const int64_t at =
            same_bits(p->cpu.t[i].ty, p->interp.t[i].data, p->cpu.t[i].data, (int64_t)p->bytes[i] / each);
        if (at < 0) continue;
        const Num x = num_load(p->cpu.t[i].ty, (char *)p->interp.t[i].data + at * each);
        const Num y = num_load(p->cpu.t[i].ty, (char *)p->cpu.t[i].data + at * each);
        const Ty ct = ty_compute(p->cpu.t[i].ty);
        return wrong(p, arena_printf(p->cx.a, "device and interpreter differ at %s[%lld]: %.17g and %.17g",
                                     p->prog->param[i].name, (long long)at, num_f64(y, ct), num_f64(x, ct)));
    }
    return true;
}

void match_free(Match *p) {
    arena_free(p->cx.a);
    *p = (Match){.ok = p->ok};
}

/* ---- several units in one object ---- */

enum { MAX_WORDS = 64, MAX_UNITS = 128 };

/* From here to the first function: types and macros, alike in units of one instruction set and register width. */
static const char head_start[] = "typedef ", head_end[] = "static ";

static bool same_head(const Unit *x, const Unit *y) {
    const char *a = strstr(x->text, head_start), *b = strstr(y->text, head_start);
    const char *end = strstr(a, head_end);
    return strncmp(a, b, (size_t)(end - a)) == 0 && strncmp(end, strstr(b, head_end), strlen(head_end)) == 0;
}

/* The end of the definition, directive or pair of alternatives (#ifdef to #endif) that begins at s. */
static const char *item_end(const char *s) {
    int braces = 0, ifs = 0;
    do {
        ifs += strncmp(s, "#if", 3) == 0;
        ifs -= strncmp(s, "#endif", 6) == 0;
        for (; *s && *s != '\n'; s++) braces += (*s == '{') - (*s == '}');
        s += *s == '\n';
    } while (*s && (braces || ifs));
    return s;
}

void batch_join(Arena *a, const Unit *const *u, bool *taken, int first, int n, Buf *out) {
    Hash *seen = NULL;
    int nseen = 0, cap = 0;
    for (int i = first; i < n; i++) {
        if (taken[i] || !same_head(u[first], u[i])) continue;
        taken[i] = true;
        for (const char *s = strstr(u[i]->text, head_start), *end; *s; s = end) {
            end = item_end(s);
            const Hash h = hash_bytes(s, (size_t)(end - s));
            int k = 0;
            while (k < nseen && memcmp(&seen[k], &h, sizeof h) != 0) k++;
            if (k < nseen) continue;
            GROW(a, seen, nseen, cap);
            seen[nseen++] = h;
            buf_put(out, s, (size_t)(end - s));
        }
    }
}

bool batch_build(Batch *b, const Compiler *cc, Isa isa, const char *less, const Unit *const *u, int n) {
    char dir[PATH_MAX - 64], so[PATH_MAX], flags[1024], tmp[PATH_MAX];
    const char *argv[MAX_WORDS + MAX_UNITS] = {cc->path};
    bool taken[MAX_UNITS] = {false};
    int argc = 1;
    *b = (Batch){0};
    if (n > MAX_UNITS || os_dir_temp(dir, sizeof dir)) return snprintf(b->why, sizeof b->why, "no folder"), false;
    Arena *a = arena_new(NULL, NULL);
    cc_flags(cc, isa, false, flags, sizeof flags);
    for (char *w = strtok(flags, " "); w && argc < MAX_WORDS - 8; w = strtok(NULL, " ")) argv[argc++] = w;
    argv[argc++] = less;
    argv[argc++] = "-Wno-psabi"; /* gcc tells about vectors as arguments of functions that are all inlined */
    argv[argc++] = "-pipe";
    /* half of -O2 on these texts is the search for earlier values of each load; a shorter one changes no value */
    if (cc->family == CC_GCC) argv[argc++] = "--param=sccvn-max-alias-queries-per-access=20";
    argv[argc++] = "-o";
    snprintf(so, sizeof so, "%s/batch.so", dir);
    argv[argc++] = so;
    bool built = true;
    for (int i = 0; i < n && built; i++) {
        if (taken[i]) continue;
        Buf text = buf_new(a);
        batch_join(a, u, taken, i, n, &text);
        argv[argc] = arena_printf(a, "%s/%d.c", dir, i);
        built = os_write_atomic(argv[argc], text.s, text.n, 0600, false) == 0;
        if (!built) snprintf(b->why, sizeof b->why, "cannot write %s", argv[argc]);
        argc++;
    }
    if (cc->family == CC_GCC) argv[argc++] = "-lgcc";
    argv[argc] = NULL;
    snprintf(tmp, sizeof tmp, "TMPDIR=%s", dir);
    const char *env[] = {"LC_ALL=C", tmp, NULL};
    Ended end = {.code = 1};
    if (built)
        built = !os_spawn(
            &alloc_libc,
            &(Spawn){.argv = argv, .env = env, .timeout_ns = 300000000000, .out = b->why, .cap = sizeof b->why}, &end);
    built = built && !end.timed_out && end.code == 0;
    if (built) b->handle = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (built && !b->handle) snprintf(b->why, sizeof b->why, "%s", dlerror());
    os_dir_remove(dir);
    arena_free(a);
    return b->handle != NULL;
}

HostFn *batch_fn(const Batch *b, const Unit *u) {
    void *at = dlsym(b->handle, u->entry);
    HostFn *fn = NULL;
    if (at) memcpy(&fn, &at, sizeof at);
    return fn;
}

void batch_free(Batch *b) {
    if (b->handle) dlclose(b->handle);
    b->handle = NULL;
}
