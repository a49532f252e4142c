/* Problem -> memory to run it on: seeded inputs, poisoned outputs, the definition's values beside them. */
#include "bench.h"

#include <math.h>
#include <string.h>

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
    Err err = mem_new(cx, b->dev, bytes ? bytes : 1, &b->mem[i]);
    if (err) return err;
    b->size[i] = bytes;
    b->elements += n;
    b->bytes += (double)bytes * (p->dir == DIR_INOUT ? 2 : 1);
    b->slots[b->abi.ptr[i]].p = mem_at(b->mem[i]);
    t->data = arena_get(cx->a, bytes);
    if (p->dir == DIR_OUT) return OK;
    fill_tensor(t, FILL_NORMAL, seed * 64 + (uint64_t)i, fill_bound(b->pb->prog, &b->pb->shape, i));
    return mem_write(cx, b->mem[i], 0, t->data, bytes);
}

Err bed_make(Cx *cx, Device *d, const Problem *pb, uint64_t seed, Bed *b) {
    const Prog *p = pb->prog;
    b->a = cx->a;
    b->dev = d;
    b->pb = pb;
    abi_of(p, &b->abi);
    b->rows = 1;
    for (int i = 0; i < p->naxes; i++) {
        if (!(p->row_axes >> i & 1)) continue;
        if (pb->shape.n[i] < 0)
            return diag(cx, S_BENCH_ROWS, NOWHERE, "rows=1024 in the shape, or effort estimate",
                        "%s is not given, and timing needs to know how many rows to run", p->axis[i].name);
        b->slots[b->abi.row[i]].i = pb->shape.n[i];
        if (!mul_fits(b->rows, pb->shape.n[i], &b->rows))
            return diag(cx, S_BENCH_SIZE, NOWHERE, "fewer rows", "too many rows");
    }
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        if (q->dir == DIR_CONST) continue;
        if (q->dir == DIR_SCALAR) {
            bool f = ty_is_float(q->ty);
            double x = q->has_default ? q->def : 1;
            if (f)
                b->slots[b->abi.scalar[i]].d = b->host.scalar[i].d = x;
            else
                b->slots[b->abi.scalar[i]].i = b->host.scalar[i].i = (int64_t)x;
            continue;
        }
        Err err = tensor(cx, b, i, seed);
        if (err) return err;
    }
    return OK;
}

void bed_free(Bed *b) {
    for (int i = 0; i < MAX_PARAMS; i++) {
        if (b->mem[i]) mem_free(b->mem[i]);
        b->mem[i] = NULL;
    }
}

OracleOptions bed_bounds(const Problem *pb, const Plan *plan) {
    const Prog *p = pb->prog;
    const uint32_t loops = sched_serial(p, &pb->shape);
    const int lanes = plan->W * plan->acc;
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
                           .native_math = !pb->caps.poly_math};
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

static bool covers(const OracleOptions *wide, const OracleOptions *o) {
    return wide->stat == o->stat && wide->serial >= o->serial && wide->joins >= o->joins &&
           wide->reciprocal >= o->reciprocal && wide->native_math == o->native_math;
}

Err bed_reset(Cx *cx, Bed *b) {
    return reset(cx, b, true);
}

Err bed_expect(Cx *cx, Bed *b, const OracleOptions *o, const Expect **want) {
    if (!b->expect[o->stat].made || !covers(&b->expect[o->stat].o, o)) {
        Cx keep = {.a = b->a};
        /* the program as it was written is the definition */
        Err err = oracle_eval(&keep, b->pb->source, &b->pb->shape, &b->host, o, b->expect[o->stat].want);
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
    return oracle_compare(cx, p, &b->pb->shape, &got, want, v);
}

Err bed_time(Cx *cx, Bed *b, Module *m, int threads, int samples, int64_t sample_ns, double give_up_ns, Times *t) {
    const Slot *set[1] = {b->slots};
    *t = (Times){0};
    Err err = reset(cx, b, false);
    int calls = 1;
    for (int64_t ns = 0; !err && calls < 1 << 24;) { /* as many calls as fill a sample; also the warm-up */
        err = mod_time(cx, m, set, 1, b->rows, threads, calls, &ns);
        if (give_up_ns > 0 && (double)ns / calls > give_up_ns && ns > sample_ns / 8) samples = 1;
        if (ns >= sample_ns * 4 / 5) break;
        double more = ns > 0 ? (double)sample_ns / (double)ns : 16;
        calls = (int)((double)calls * (more > 16 ? 16 : more < 1.25 ? 1.25 : more) + 1);
    }
    if (samples > COUNT(t->ns)) samples = COUNT(t->ns);
    t->calls = calls;
    for (int i = 0; !err && i < samples; i++) {
        int64_t ns = 0;
        err = mod_time(cx, m, set, 1, b->rows, threads, calls, &ns);
        if (ns > 0) t->ns[t->n++] = (double)ns / calls; /* a clock that did not move says nothing */
    }
    if (!err && !t->n)
        err = diag(cx, S_BENCH_CLOCK, NOWHERE, NULL, "the clock did not move during %d samples of %d calls", samples,
                   calls);
    times_sort(t);
    return err;
}

void times_sort(Times *t) {
    double s[COUNT(t->ns)];
    if (!t->n) return;
    memcpy(s, t->ns, sizeof s);
    for (int i = 1; i < t->n; i++) {
        double x = s[i];
        int k = i;
        for (; k > 0 && s[k - 1] > x; k--) s[k] = s[k - 1];
        s[k] = x;
    }
    t->min = s[0];
    t->max = s[t->n - 1];
    t->median = t->n % 2 ? s[t->n / 2] : (s[t->n / 2 - 1] + s[t->n / 2]) / 2;
}
