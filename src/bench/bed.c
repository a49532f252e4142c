/* Problem -> memory to run it on: seeded inputs, poisoned outputs, the definition's values beside them. */
#include "bench.h"

#include "../base/os.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 1 << 24 };
/* Of all places together, and no more than an eighth of the machine's. */
static const double places_bytes = (double)(512 << 20);
enum { HOST_SETS = 8192, DEVICE_SETS = 200 }; /* devices time chains of 200 calls, which repeat */

/* Inputs are made and outputs judged by all processors, where their memory may come to several threads at once. */
static Crew crew(const Bed *b) {
    const Alloc *al = dev_options(b->dev)->al;
    return (Crew){al, al->get == alloc_libc.get ? os_cpus() : 1};
}

static Err tensor(Cx *cx, Bed *b, int i, uint64_t seed) {
    const Param *p = &b->pb->prog->param[i];
    Tensor *t = &b->host.t[i];
    *t = (Tensor){.ty = p->ty, .rank = p->rank};
    int64_t n = 1;
    for (int d = p->rank - 1; d >= 0; d--) {
        t->n[d] = b->pb->shape.n[p->axis[d]];
        t->stride[d] = n;
        b->slots[b->abi.stride[i][d]].i = n;
        if (!mul_fits(n, t->n[d], &n) || n > (int64_t)1 << 40)
            return diag(cx, S_BENCH_SIZE, NOWHERE, "smaller extents", "%s has too many elements to test on", p->name);
    }
    size_t bytes = (size_t)n * (size_t)ty_bytes(p->ty);
    enum { EACH = 2 * sizeof(double) }; /* the definition's value and its bound */
    if (2 * (b->bytes + (double)bytes) + EACH * (double)(b->elements + n) > os_memory())
        return diag(cx, S_BENCH_SIZE, NOWHERE, "smaller extents", "%s has more elements than this machine can test on",
                    p->name);
    Err err = mem_new(cx, b->dev, bytes ? bytes : 1, &b->mem[i]);
    if (err) return err;
    b->size[i] = bytes;
    b->elements += n;
    b->bytes += (double)bytes * (p->dir == DIR_INOUT ? 2 : 1);
    b->slots[b->abi.ptr[i]].p = mem_at(b->mem[i]);
    t->data = arena_get(cx->a, bytes);
    if (p->dir == DIR_OUT) return OK;
    const Crew c = crew(b);
    err = fill_tensor_by(cx, &c, t, FILL_NORMAL, seed * 64 + (uint64_t)i, fill_bound(b->pb->prog, &b->pb->shape, i));
    return err ? err : mem_write(cx, b->mem[i], 0, t->data, bytes);
}

int bed_copies(const Problem *pb) {
    const int most = pb->caps.kind == KIND_HOST ? HOST_SETS : DEVICE_SETS;
    double bytes = 0;
    for (int i = 0; i < pb->prog->nparams; i++) {
        const Param *p = &pb->prog->param[i];
        if (p->dir == DIR_SCALAR || p->dir == DIR_CONST) continue;
        double n = ty_bytes(p->ty);
        for (int d = 0; d < p->rank; d++) n *= (double)pb->shape.n[p->axis[d]];
        bytes += n;
    }
    const double want = bytes > 0 ? (double)BED_COLD_BYTES / bytes + 1 : 1;
    return want < 2 ? 2 : want > most ? most : (int)want;
}

/* One more copy of every tensor, and of the slots that name them. */
static Err add_set(Cx *cx, Bed *b) {
    const int k = b->made;
    Slot *slots = k ? arena_dup(b->a, b->slots, sizeof b->slots) : b->slots;
    for (int i = 0; k && i < b->pb->prog->nparams; i++) {
        Mem *m;
        if (!b->mem[i]) continue;
        Err err = mem_new(cx, b->dev, b->size[i] ? b->size[i] : 1, &m);
        if (err) return err;
        b->copy[b->ncopies++] = m;
        slots[b->abi.ptr[i]].p = mem_at(m);
        if (b->pb->prog->param[i].dir != DIR_OUT) err = mem_write(cx, m, 0, b->host.t[i].data, b->size[i]);
        if (err) return err;
    }
    b->set[k] = slots;
    if (b->cold) b->set[k + b->nsets] = slots;
    b->made++;
    return OK;
}

static Err sets(Cx *cx, Bed *b) {
    double one = 1;
    for (int i = 0; i < MAX_PARAMS; i++) one += (double)b->size[i];
    b->nsets = b->cold ? bed_copies(b->pb) : 1;
    b->places = (int)fmin(fmax(1, fmin(places_bytes, os_memory() / 8) / one), BED_PLACES);
    const int most = b->cold ? b->nsets : b->places;
    b->set = NEWN(b->a, Slot *, 2 * most);
    b->copy = NEWN(b->a, Mem *, (size_t)most * (size_t)b->pb->prog->nparams);
    Err err = OK;
    while (!err && b->made < b->nsets) err = add_set(cx, b);
    return err;
}

void bed_place(Cx *cx, Bed *b, int place) {
    Cx own = {.a = cx->a, .stop = cx->stop};
    if (b->cold) return;
    while (b->made <= place % b->places)
        if (add_set(&own, b)) { /* no memory left: who needs some next is to find it */
            bed_one_place(b);
            b->places = 1;
        }
    b->next = place % b->places;
}

void bed_one_place(Bed *b) {
    if (b->cold || b->made < 1) return;
    while (b->ncopies) mem_free(b->copy[--b->ncopies]);
    b->made = 1, b->next = 0;
}

Err bed_rows(Cx *cx, const Problem *pb, int64_t *rows) {
    const Prog *p = pb->prog;
    *rows = 1;
    for (int i = 0; i < p->naxes; i++) {
        if (!(p->row_axes >> i & 1)) continue;
        if (pb->shape.n[i] < 0)
            return diag(cx, S_BENCH_ROWS, NOWHERE, "rows=1024 in the shape, or effort estimate",
                        "%s is not given, and timing needs to know how many rows to run", p->axis[i].name);
        if (!mul_fits(*rows, pb->shape.n[i], rows))
            return diag(cx, S_BENCH_SIZE, NOWHERE, "fewer rows", "too many rows");
    }
    return OK;
}

/* What a user allows a sample to take at most. */
static Err sample_limit(Cx *cx, int64_t *out) {
    const char *env = getenv("ROWFOLD_SAMPLE_MS");
    *out = 0;
    if (!env || !env[0]) return OK;
    char *end;
    const double ms = strtod(env, &end);
    if (*end || !(ms >= 0.1 && ms <= 1000))
        return diag(cx, S_ARG, NOWHERE, "0.1 to 1000", "ROWFOLD_SAMPLE_MS is '%.40s'", env);
    *out = (int64_t)(ms * 1e6);
    return OK;
}

Err bed_make(Cx *cx, Device *d, const Problem *pb, uint64_t seed, Bed *b) {
    const Prog *p = pb->prog;
    b->a = cx->a;
    b->dev = d;
    b->pb = pb;
    abi_of(p, &b->abi);
    Err err = bed_rows(cx, pb, &b->rows);
    if (!err) err = sample_limit(cx, &b->most_sample_ns);
    if (err) return err;
    for (int i = 0; i < p->naxes; i++)
        if (p->row_axes >> i & 1) b->slots[b->abi.row[i]].i = pb->shape.n[i];
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        if (q->dir == DIR_CONST) continue;
        if (q->dir == DIR_SCALAR) {
            bool f = ty_is_float(q->ty);
            const bool extent = i == prog_extent(p, &pb->shape);
            double x = extent ? (double)pb->shape.n[shape_ranged(&pb->shape)] : q->has_default ? q->def : 1;
            if (f)
                b->slots[b->abi.scalar[i]].d = b->host.scalar[i].d = x;
            else
                b->slots[b->abi.scalar[i]].i = b->host.scalar[i].i = (int64_t)x;
            continue;
        }
        err = tensor(cx, b, i, seed);
        if (err) return err;
    }
    return sets(cx, b);
}

double bed_rotated(const Bed *b) {
    double bytes = 0;
    for (int i = 0; i < MAX_PARAMS; i++) bytes += (double)b->size[i] * b->nsets;
    return b->cold ? bytes : 0;
}

void bed_extent(Bed *b, int64_t n) {
    const int param = prog_extent(b->pb->prog, &b->pb->shape);
    for (int k = 0; param >= 0 && k < b->made; k++) b->set[k][b->abi.scalar[param]].i = n;
}

void bed_free(Bed *b) {
    for (int i = 0; i < MAX_PARAMS; i++) {
        if (b->mem[i]) mem_free(b->mem[i]);
        b->mem[i] = NULL;
    }
    while (b->ncopies) mem_free(b->copy[--b->ncopies]);
}

OracleOptions bed_bounds(const Problem *pb, const Plan *plan) {
    const Prog *p = pb->prog;
    const uint32_t loops = sched_serial(p, &pb->shape, problem_spread(pb, plan));
    const int lanes = plan_lanes(plan) * plan->acc;
    int64_t serial = 1;
    int joins = 0;
    while (1 << joins < lanes) joins++;
    for (int i = 0; i < p->nvals; i++) {
        if (p->val[i].op != OP_RED) continue;
        int64_t points = 1, n = 1; /* that every lane loops over, and that lanes share at each */
        for (int a = 0; a < p->naxes; a++) {
            if (!(p->val[i].over >> a & 1)) continue;
            *(loops >> a & 1 ? &points : &n) *= pb->shape.n[a];
        }
        serial = i64_max(serial, points * (ceil_div(n, lanes) + plan->V * plan->flight));
    }
    return (OracleOptions){.serial = serial,
                           .joins = joins,
                           .stat = (Stat)plan->stat,
                           .reciprocal = plan->div == DIV_RECIPROCAL,
                           .fast_exp = plan->exp == EXP_FAST,
                           .contract = plan->contract != 0,
                           .native_math = !pb->caps.poly_math && plan->exp != EXP_OWN};
}

/* Inputs that a call overwrites are put back, outputs poisoned. */
static Err reset(Cx *cx, Bed *b, bool poison) {
    const Prog *p = b->pb->prog;
    for (int i = 0; i < p->nparams; i++) {
        Err err = OK;
        if (p->param[i].dir == DIR_INOUT) err = mem_write(cx, b->mem[i], 0, b->host.t[i].data, b->size[i]);
        if (p->param[i].dir == DIR_OUT && poison) {
            memset(b->host.t[i].data, BED_POISON, b->size[i]);
            err = mem_write(cx, b->mem[i], 0, b->host.t[i].data, b->size[i]);
        }
        if (err) return err;
    }
    return OK;
}

/* The copies' inputs that calls overwrite. They stand in the order in which they were made. */
static Err reset_copies(Cx *cx, Bed *b) {
    Err err = OK;
    for (int k = 1, at = 0; k < b->made; k++)
        for (int i = 0; !err && i < b->pb->prog->nparams; i++) {
            if (!b->mem[i]) continue;
            if (b->pb->prog->param[i].dir == DIR_INOUT && (b->cold || k == b->next))
                err = mem_write(cx, b->copy[at], 0, b->host.t[i].data, b->size[i]);
            at++;
        }
    return err;
}

static bool covers(const OracleOptions *wide, const OracleOptions *o) {
    return wide->stat == o->stat && wide->serial >= o->serial && wide->joins >= o->joins &&
           wide->reciprocal >= o->reciprocal && wide->fast_exp >= o->fast_exp && wide->contract >= o->contract &&
           wide->native_math == o->native_math;
}

Err bed_reset(Cx *cx, Bed *b) {
    return reset(cx, b, true);
}

Err bed_expect(Cx *cx, Bed *b, const OracleOptions *o, const Expect **want) {
    if (!b->expect[o->stat].made || !covers(&b->expect[o->stat].o, o)) {
        Cx keep = {.a = b->a, .stop = cx->stop};
        /* the program as it was written is the definition */
        const Crew c = crew(b);
        Err err = oracle_eval_by(&keep, &c, b->pb->source, &b->pb->shape, &b->host, o, b->expect[o->stat].want);
        if (err) return diag(cx, keep.first->slug, NOWHERE, NULL, "%s", keep.first->msg);
        b->expect[o->stat].made = true;
        b->expect[o->stat].o = *o;
    }
    *want = b->expect[o->stat].want;
    return OK;
}

Err bed_check(Cx *cx, Bed *b, Module *m, const OracleOptions *o, int threads, Verdict *v) {
    const Expect *want;
    Err err = reset(cx, b, true);
    if (!err) err = bed_expect(cx, b, o, &want);
    if (!err) err = mod_launch(cx, m, b->slots, b->rows, threads);
    if (!err) err = dev_sync(cx, b->dev);
    return err ? err : bed_verify(cx, b, o, v);
}

Err bed_verify(Cx *cx, Bed *b, const OracleOptions *o, Verdict *v) {
    const Prog *p = b->pb->source;
    const Expect *want;
    Err err = bed_expect(cx, b, o, &want);
    if (err) return err;
    Args got = b->host;
    for (int i = 0; i < p->nparams; i++) {
        if (p->param[i].dir != DIR_OUT && p->param[i].dir != DIR_INOUT) continue;
        if (p->param[i].dir == DIR_INOUT) got.t[i].data = arena_get(cx->a, b->size[i]);
        err = mem_read(cx, b->mem[i], 0, got.t[i].data, b->size[i]);
        if (err) return err;
    }
    const Crew c = crew(b);
    return oracle_compare_by(cx, &c, p, &b->pb->shape, &got, want, v);
}

/* Goes on where the last one stopped, so that a copy comes again only after all the others. */
static Err time_calls(Cx *cx, Bed *b, Module *m, int threads, int calls, int64_t *ns) {
    Err err = mod_time(cx, m, (const Slot *const *)b->set + b->next, b->nsets, b->rows, threads, calls, ns);
    if (b->cold) b->next = (b->next + calls) % b->nsets;
    return err;
}

/* As many calls as fill a sample; also the warm-up. Who was timed before needs no more than an eighth of a sample to
 * be warm again. */
static Err warm_up(Cx *cx, Bed *b, Module *m, int threads, int64_t sample_ns, double give_up_ns, int *samples,
                   int *out) {
    double *pace = mod_pace(m);
    int64_t ns = 0;
    int calls = 1;
    if (*pace > 0) {
        *out = (int)fmin(ceil((double)sample_ns / *pace), MOST_CALLS);
        return time_calls(cx, b, m, threads, *out / 8 + 1, &ns);
    }
    Err err = OK;
    while (!err && calls < MOST_CALLS) {
        if (cx_over(cx)) return cx_stopped(cx);
        err = time_calls(cx, b, m, threads, calls, &ns);
        if (give_up_ns > 0 && (double)ns / calls > give_up_ns && ns > sample_ns / 8) *samples = 1;
        if (ns >= sample_ns * 4 / 5) break;
        double more = ns > 0 ? (double)sample_ns / (double)ns : 16;
        calls = (int)((double)calls * (more > 16 ? 16 : more < 1.25 ? 1.25 : more) + 1);
    }
    *pace = (double)ns / calls;
    *out = calls;
    return err;
}

Err bed_time(Cx *cx, Bed *b, Module *m, int threads, int samples, int64_t sample_ns, double give_up_ns, Times *t) {
    *t = (Times){0};
    Err err = reset(cx, b, false);
    int calls = 1;
    if (b->most_sample_ns) sample_ns = i64_min(sample_ns, b->most_sample_ns);
    if (!err) err = reset_copies(cx, b);
    if (!err) err = warm_up(cx, b, m, threads, sample_ns, give_up_ns, &samples, &calls);
    if (samples > COUNT(t->ns)) samples = COUNT(t->ns);
    t->calls = calls;
    int tries = 0;
    for (; !err && t->n < samples && tries < 2 * samples + 2; tries++) {
        int64_t ns = 0;
        if (cx_over(cx)) return cx_stopped(cx);
        err = time_calls(cx, b, m, threads, calls, &ns);
        if (ns > 0) t->ns[t->n++] = (double)ns / calls; /* a clock that did not move says nothing */
    }
    if (!err && !t->n)
        err = diag(cx, S_BENCH_CLOCK, NOWHERE, NULL, "the clock did not move during %d sample%s of %d call%s", tries,
                   plural(tries), calls, plural(calls));
    times_sort(t);
    return err;
}

void times_sort(Times *t) {
    double s[COUNT(t->ns)];
    if (!t->n) return;
    memcpy(s, t->ns, sizeof s);
    t->median = f64_median(s, t->n);
    t->min = s[0];
    t->max = s[t->n - 1];
}
