/* The mistakes that a measurement can make, each on a device that tempts to it: launches that return before they are
 * done, host time in device time, caches that stay warm, outputs in one place, refused launches, a clock that rises, an
 * input that is written to, calls that do nothing. */
#include "../../src/bench/figures.h"
#include "../../src/lang/lang.h"
#include "../../src/rt/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 4, N = 64, SEEN = 4096 };
static const char text[] = "kernel twice for rows (x: in f32[rows, n], y: out f32[rows, n]) {\n    y = x * 2\n}\n";

/* A device whose clock and work are what the test says; its kernel doubles. */
typedef struct Fake {
    Device d;
    int64_t host_ns, work_ns, done_at; /* a launch keeps the caller; what it started goes on; until then */
    int64_t device_ns, ramp;           /* a call by the device's clock; batches until it has its full speed */
    int64_t batches, launches;
    int64_t direct, refuse_direct; /* launches that are the caller's own, of no batch or span; refused from which on */
    bool inside, refused;          /* a batch or span; a direct one */
    int64_t refuse, clobber, lazy; /* the launch from which on it is refused, writes to x, does nothing; 0: never */
    bool flickers;                 /* every other batch takes twice as long */
    bool fails_later;              /* what is refused is told at the next synchronise */
    const void *resident;          /* x there is not noted */
    int nseen;
    const void *x[SEEN], *y[SEEN];
} Fake;

static void spin(int64_t until) {
    while (t_now_ns() < until) continue;
}

static Err fake_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    (void)cx, (void)u;
    *out = rt_get(d->rt, sizeof **out);
    return OK;
}
static void fake_unload(Module *m) {
    rt_put(m->dev->rt, m);
}
static Err refused(Cx *cx) {
    return cx ? diag(cx, S_RT_FAULT, NOWHERE, NULL, "refused") : ERR_LAUNCH;
}
static Err fake_launch(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads) {
    Fake *f = (Fake *)m->dev;
    (void)threads;
    f->launches++;
    if (slots[0].p != f->resident && f->nseen < SEEN) f->x[f->nseen] = slots[0].p, f->y[f->nseen++] = slots[1].p;
    if (f->host_ns) spin(t_now_ns() + f->host_ns);
    f->done_at = i64_max(t_now_ns(), f->done_at) + f->work_ns;
    f->direct += !f->inside;
    f->refused |= !f->inside && f->refuse_direct && f->direct >= f->refuse_direct;
    if ((f->refused || (f->refuse && f->launches >= f->refuse)) && !f->fails_later) return refused(cx);
    if (f->lazy && f->launches >= f->lazy) return OK;
    float *x = slots[0].p, *y = slots[1].p;
    for (int64_t i = 0; i < rows * N; i++) y[i] = 2 * x[i];
    if (f->clobber && f->launches >= f->clobber) x[3] = 7;
    return OK;
}
static Err fake_sync(Cx *cx, Device *d) {
    Fake *f = (Fake *)d;
    spin(f->done_at);
    return f->fails_later && (f->refused || (f->refuse && f->launches >= f->refuse)) ? refused(cx) : OK;
}
static Err fake_time(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                     int64_t *ns) {
    Fake *f = (Fake *)m->dev;
    Err err = OK;
    f->inside = true;
    for (int i = 0; i < calls && !err; i++) err = fake_launch(cx, m, sets[i % nsets], rows, threads);
    f->inside = false;
    if (!err) err = fake_sync(cx, m->dev);
    *ns = calls * f->device_ns * (f->flickers && f->batches % 2 ? 2 : 1);
    for (int64_t i = f->batches++; i < f->ramp; i++)
        *ns += *ns / 10; /* the clock rises by a tenth from batch to batch */
    return err;
}
static Err fake_span(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads, int64_t *ns) {
    Fake *f = (Fake *)m->dev;
    f->inside = true;
    Err err = fake_launch(cx, m, slots, rows, threads);
    f->inside = false;
    if (!err) err = fake_sync(cx, m->dev);
    *ns = f->device_ns;
    return err;
}
static const RtOps fake_ops = {.name = "fake",
                               .build = fake_build,
                               .unload = fake_unload,
                               .get = plain_get,
                               .put = plain_put,
                               .write = plain_write,
                               .read = plain_read,
                               .launch = fake_launch,
                               .sync = fake_sync,
                               .time = fake_time,
                               .span = fake_span};

typedef struct Desk {
    Cx cx;
    Rt *rt;
    Fake fake;
    Problem pb;
    Bed bed;
    Ring ring;
    Module *m;
    OracleOptions o;
    Verdict v;
    Figures *out;
} Desk;

static Desk *open_desk(void) {
    static const RtOptions o = {.cache_dir = "", .threads = 1, .isa = ISA_COUNT};
    Unit u = {.dialect = DIALECT_HOST, .isa = ISA_PORTABLE, .entry = "f", .text = "", .lanes = 1, .rows_per_group = 1};
    Desk *k = calloc(1, sizeof *k);
    Ast *ast;
    Prog *p;
    Caps caps;
    Shape s = {0};
    assert_non_null(k);
    k->cx.a = arena_new(NULL, NULL);
    assert_int_equal(rt_open(&k->cx, &o, &k->rt), OK);
    assert_int_equal(lang_parse(&k->cx, "t.row", text, sizeof text - 1, &ast), OK);
    assert_int_equal(lang_kernel(&k->cx, ast, "twice", NULL, 0, NULL, 0, &p), OK);
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    s.n[prog_axis(p, "rows")] = ROWS, s.n[prog_axis(p, "n")] = N;
    assert_true(caps_preset("portable", &caps));
    assert_int_equal(problem_make(&k->cx, p, &s, &caps, 0, &k->pb), OK);
    k->fake = (Fake){.d = {.ops = &fake_ops, .rt = k->rt, .caps = caps, .name = "fake"}, .device_ns = 5000};
    k->o = (OracleOptions){.serial = N};
    k->out = NEW(k->cx.a, Figures);
    assert_int_equal(bed_make(&k->cx, &k->fake.d, &k->pb, 1, &k->bed), OK);
    assert_int_equal(mod_build(&k->cx, &k->fake.d, &u, &k->m), OK);
    k->fake.resident = mem_at(k->bed.mem[0]);
    return k;
}

static void close_desk(Desk *k) {
    mod_free(k->m);
    ring_free(&k->ring);
    bed_free(&k->bed);
    rt_close(k->rt);
    arena_free(k->cx.a);
    free(k);
}

static Err take_for(Desk *k, uint32_t figures, int64_t sample_ns, int64_t warmup_ns) {
    const FigureAsk q = {.figures = figures,
                         .threads = 1,
                         .samples = 5,
                         .sample_ns = sample_ns,
                         .warmup_ns = warmup_ns,
                         .rotate_bytes = 100 * (2 * ROWS * N * 4)};
    Err err = bed_check(&k->cx, &k->bed, k->m, &k->o, 1, &k->v);
    ring_free(&k->ring);
    return err ? err : figures_take(&k->cx, &k->bed, k->m, &q, &k->ring, k->out);
}
static Err take(Desk *k, uint32_t figures) {
    return take_for(k, figures, 200000, 1000000);
}

static void wrong(const Desk *k, Err err, Slug slug) {
    assert_non_null(k->cx.last);
    assert_string_equal(slug_text(k->cx.last->slug), slug_text(slug));
    assert_int_equal(err, slug_err(slug));
}

static double median(const Desk *k, Span s, Mode m, Regime r) {
    return figure_median(&k->out->figure[figure_at(s, m, r)], NULL, NULL);
}

static void test_all(void **state) {
    (void)state;
    Desk *k = open_desk();
    int f;
    assert_int_equal(take(k, FIGURES_ALL), OK);
    for (int i = 0; i < FIGURES; i++) {
        const Figure *g = &k->out->figure[i];
        double min, max, mid = figure_median(g, &min, &max);
        assert_int_equal(g->n, 5);
        assert_true(min > 0 && min <= mid && mid <= max);
        assert_int_equal(g->sets, i % 2 ? 100 : 1);
        assert_true(i / 2 % 2 ? g->calls == 1 : g->calls > 1);
        assert_true(figure_find(figure_name(i), &f) && f == i);
    }
    assert_false(figure_find("device.batch", &f));
    assert_true(k->out->settled && k->out->warmup_ns >= 1000000 && k->out->sets == 100);
    assert_int_equal(bed_verify(&k->cx, &k->bed, &k->o, &k->v), OK);
    close_desk(k);
}

static void test_no_sync(void **state) { /* a launch that returns at once has not taken no time */
    (void)state;
    Desk *k = open_desk();
    k->fake.work_ns = 30000;
    assert_int_equal(take(k, FIGURES_ALL), OK);
    for (int r = 0; r < 2; r++) {
        assert_true(median(k, SPAN_END_TO_END, MODE_BATCH, (Regime)r) >= 30000);
        assert_true(median(k, SPAN_END_TO_END, MODE_SINGLE, (Regime)r) >= 30000);
    }
    close_desk(k);
}

static void test_host_time(void **state) { /* the way to a launch is no part of device time */
    (void)state;
    Desk *k = open_desk();
    k->fake.host_ns = 40000;
    assert_int_equal(take(k, FIGURES_ALL), OK);
    for (int r = 0; r < 2; r++) {
        assert_true(median(k, SPAN_DEVICE, MODE_BATCH, (Regime)r) == 5000);
        assert_true(median(k, SPAN_DEVICE, MODE_SINGLE, (Regime)r) == 5000);
        assert_true(median(k, SPAN_END_TO_END, MODE_BATCH, (Regime)r) >= 40000);
    }
    close_desk(k);
}

static void
test_cold(void **state) { /* neither inputs nor outputs come again before a whole turn, from sample to sample */
    (void)state;
    for (int span = 0; span < 2; span++)
        for (int mode = 0; mode < 2; mode++) {
            Desk *k = open_desk();
            k->fake.device_ns = 150000, k->fake.host_ns = span ? 150000 : 0; /* two calls a sample: short turns */
            assert_int_equal(take(k, 1u << figure_at((Span)span, (Mode)mode, REGIME_COLD)), OK);
            const Fake *f = &k->fake;
            for (int i = 0; i < f->nseen; i++)
                for (int j = i - 1; j >= 0 && j > i - 100; j--) assert_true(f->x[i] != f->x[j] && f->y[i] != f->y[j]);
            assert_true(f->nseen >= 5);
            assert_true(k->out->set_bytes * k->out->sets >= 100.0 * 2 * ROWS * N * 4);
            close_desk(k);
        }
}

static void test_refused(void **state) { /* at once, or told later: no figure either way */
    (void)state;
    for (int later = 0; later < 2; later++) {
        Desk *k = open_desk();
        k->fake.refuse = 50, k->fake.fails_later = later;
        wrong(k, take(k, FIGURES_ALL), S_RT_FAULT);
        close_desk(k);
        for (int f = figure_at(SPAN_END_TO_END, MODE_BATCH, REGIME_RESIDENT); f < FIGURES; f++) {
            k = open_desk();
            /* the first is the one that is checked; of single calls, the last of five is refused and no more */
            k->fake.refuse_direct = f / 2 % 2 == MODE_SINGLE ? 6 : 2, k->fake.fails_later = later;
            wrong(k, take(k, 1u << f), S_RT_FAULT);
            close_desk(k);
        }
    }
}

static void test_ramp(void **state) { /* nothing is kept before the clock has risen */
    (void)state;
    Desk *k = open_desk();
    /* By the fake's own clock, with 160 ms of patience: no neighbour of this machine can use those up. */
    k->fake.device_ns = 500000, k->fake.ramp = 40;
    assert_int_equal(take_for(k, 1u << figure_at(SPAN_DEVICE, MODE_BATCH, REGIME_RESIDENT), 20000000, 1), OK);
    double min, max;
    figure_median(&k->out->figure[0], &min, &max);
    assert_true(k->out->settled);
    assert_true(min == max && max == 500000);
    k->fake.flickers = true; /* one that never settles is told of */
    assert_int_equal(take(k, 1), OK);
    assert_true(!k->out->settled && k->out->warmup_ns >= 8000000);
    close_desk(k);
}

static void test_clobbered(void **state) {
    (void)state;
    for (int cold = 0; cold < 2; cold++) {
        Desk *k = open_desk();
        k->fake.clobber = 2;
        wrong(k, take(k, 1u << figure_at(SPAN_END_TO_END, MODE_BATCH, (Regime)cold)), S_BENCH_CLOBBERED);
        close_desk(k);
    }
    Desk *k = open_desk(); /* in the rotated buffers alone */
    assert_int_equal(take(k, 1u << figure_at(SPAN_DEVICE, MODE_SINGLE, REGIME_COLD)), OK);
    ((float *)mem_at(k->ring.mem[0]))[5] = 1;
    wrong(k, ring_check(&k->cx, &k->ring), S_BENCH_CLOBBERED);
    close_desk(k);
}

static void
test_lazy(void **state) { /* calls that do nothing leave poison behind, not the outputs of the checked one */
    (void)state;
    Desk *k = open_desk();
    k->fake.lazy = 2;
    wrong(k, take(k, FIGURES_ALL), S_BENCH_STALE);
    for (int r = 0; r < 2; r++) { /* in either regime alone */
        Desk *one = open_desk();
        one->fake.lazy = 2;
        wrong(one, take(one, 1u << figure_at(SPAN_DEVICE, MODE_BATCH, (Regime)r)), S_BENCH_STALE);
        close_desk(one);
    }
    assert_int_equal(take(k, 1), ERR_WRONG); /* this time even the first call is lazy */
    k->fake.lazy = 0;
    assert_int_equal(take(k, 0), OK);
    assert_int_equal(bed_verify(&k->cx, &k->bed, &k->o, &k->v), OK); /* the warm-up has written them anew */
    close_desk(k);
}

static void test_nothing(void **state) {
    (void)state;
    Desk *k = open_desk();
    FigureAsk q = {.figures = 1, .threads = 1, .samples = 0, .sample_ns = 1000};
    wrong(k, figures_take(&k->cx, &k->bed, k->m, &q, &k->ring, k->out), S_BENCH_NOTHING);
    q.samples = 1, k->fake.device_ns = 0;
    wrong(k, figures_take(&k->cx, &k->bed, k->m, &q, &k->ring, k->out), S_BENCH_CLOCK);
    close_desk(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),       cmocka_unit_test(test_no_sync), cmocka_unit_test(test_host_time),
        cmocka_unit_test(test_cold),      cmocka_unit_test(test_refused), cmocka_unit_test(test_ramp),
        cmocka_unit_test(test_clobbered), cmocka_unit_test(test_lazy),    cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
