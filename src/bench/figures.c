/* A checked kernel -> its figures: warmed up until the clock has settled, calibrated so that a sample is long, sampled.
 */
#include "figures.h"

#include <math.h>
#include <string.h>

enum { ATTEMPTS = 8, MOST_CALLS = 1 << 24, LONGEST_WARMUP = 8, STUCK_CALLS = 1 << 12 };

static const char *const names[FIGURES] = {
    "device.batch.resident",     "device.batch.cold",     "device.single.resident",     "device.single.cold",
    "end_to_end.batch.resident", "end_to_end.batch.cold", "end_to_end.single.resident", "end_to_end.single.cold"};

const char *figure_name(int f) {
    return names[f];
}

bool figure_find(const char *name, int *f) {
    for (*f = 0; *f < FIGURES; ++*f)
        if (str_eq(names[*f], name)) return true;
    return false;
}

double figure_median(const Figure *f, double *min, double *max) {
    double s[FIGURE_SAMPLES] = {0};
    for (int i = 0; i < f->n; i++) s[i] = (double)f->total_ns[i] / f->calls;
    const double median = f64_median(s, f->n);
    if (min) *min = f->n ? s[0] : 0;
    if (max) *max = f->n ? s[f->n - 1] : 0;
    return f->n ? median : 0;
}

typedef struct Taker {
    Bed *bed;
    Module *m;
    const FigureAsk *q;
    Ring *ring;
    const Slot *own[1]; /* the resident set */
} Taker;

/* The sets that the next `calls` calls take, beginning where the last ones stopped: else a short sample would find its
 * buffers where the one before left them, in the cache. */
static const Slot *const *turn(Taker *t, Regime r, int calls, int *nsets, int *first) {
    *nsets = 1, *first = 0;
    if (r == REGIME_RESIDENT) return t->own;
    *nsets = t->ring->sets;
    *first = (int)(t->ring->taken % t->ring->sets);
    t->ring->taken += calls;
    return t->ring->slots + *first;
}

/* One sample: the time of `calls` calls together. */
static Err sample(Cx *cx, Taker *t, int figure, int calls, int *first, int64_t *ns) {
    const Span span = (Span)(figure / 4);
    const Mode mode = (Mode)(figure / 2 % 2);
    const Regime regime = (Regime)(figure % 2);
    const int threads = t->q->threads;
    int nsets;
    if (cx_over(cx)) return cx_stopped(cx);
    const Slot *const *set = turn(t, regime, calls, &nsets, first);
    *ns = 0;
    if (span == SPAN_DEVICE)
        return mode == MODE_BATCH ? mod_time(cx, t->m, set, nsets, t->bed->rows, threads, calls, ns)
                                  : mod_span(cx, t->m, set[0], t->bed->rows, threads, ns);
    Err err = dev_sync(cx, t->bed->dev);
    const int64_t from = t_now_ns();
    for (int i = 0, k = 0; i < calls && !err; i++) {
        err = mod_launch(cx, t->m, set[k], t->bed->rows, threads);
        if (++k == nsets) k = 0;
    }
    if (!err) err = dev_sync(cx, t->bed->dev); /* a launch that only started something has no time yet */
    *ns = t_now_ns() - from;
    return err;
}

/* As many calls as fill a sample. Attempts are also the last of the warm-up. */
static Err calibrate(Cx *cx, Taker *t, int figure, int *calls) {
    int first;
    Err err = OK;
    *calls = 1;
    for (int i = 0; i < ATTEMPTS && !err; i++) {
        int64_t ns = 0;
        err = sample(cx, t, figure, *calls, &first, &ns);
        if (err || ns >= t->q->sample_ns * 4 / 5 || (ns <= 0 && *calls >= STUCK_CALLS)) break;
        double more = ns > 0 ? (double)t->q->sample_ns / (double)ns : 16;
        *calls = (int)fmin((double)*calls * (more > 64 ? 64 : more < 1.25 ? 1.25 : more) + 1, MOST_CALLS);
    }
    return err;
}

static Err take(Cx *cx, Taker *t, int figure, Figure *f) {
    int calls = 1;
    Err err = figure / 2 % 2 == MODE_BATCH ? calibrate(cx, t, figure, &calls) : OK;
    *f = (Figure){.calls = calls, .sets = figure % 2 == REGIME_COLD ? t->ring->sets : 1};
    for (int i = 0; i < t->q->samples && !err; i++) {
        err = sample(cx, t, figure, calls, &f->first_set[f->n], &f->total_ns[f->n]);
        if (!err && f->total_ns[f->n] > 0) f->n++; /* a clock that did not move says nothing */
    }
    if (!err && !f->n)
        err = diag(cx, S_BENCH_CLOCK, NOWHERE, NULL, "the clock did not move during %d sample%s of %s", t->q->samples,
                   plural(t->q->samples), names[figure]);
    return err;
}

/* Clocks rise under load and caches fill: nothing is kept until so much time has passed and two batches in turn took
 * the same time. A machine that never settles is told of, and measured all the same. */
static Err warm_up(Cx *cx, Taker *t, Figures *out) {
    const int figure = figure_at(SPAN_DEVICE, MODE_BATCH, REGIME_RESIDENT);
    const int64_t longest = LONGEST_WARMUP * i64_max(t->q->warmup_ns, t->q->sample_ns);
    int calls, first;
    int64_t before = 0;
    const int64_t from = t_now_ns();
    Err err = calibrate(cx, t, figure, &calls);
    while (!err) {
        int64_t ns = 0;
        err = sample(cx, t, figure, calls, &first, &ns);
        out->warmup_batches++;
        out->warmup_ns = t_now_ns() - from;
        out->settled = before > 0 && fabs((double)(ns - before)) <= 0.05 * (double)before;
        before = ns;
        if (out->warmup_ns >= t->q->warmup_ns && (out->settled || out->warmup_ns >= longest)) break;
    }
    return err;
}

Err figures_take(Cx *cx, Bed *b, Module *m, const FigureAsk *q, Ring *ring, Figures *out) {
    memset(out, 0, sizeof *out);
    if (b->rows < 1 || q->samples < 1 || q->samples > FIGURE_SAMPLES || q->sample_ns < 1 || q->rotate_bytes < 0)
        return diag(cx, S_BENCH_NOTHING, NOWHERE, "rows, samples (up to 101) and their length of at least 1",
                    "rows = %lld, samples = %d of %lld ns", (long long)b->rows, q->samples, (long long)q->sample_ns);
    Taker t = {.bed = b, .m = m, .q = q, .ring = ring, .own = {b->slots}};
    bool cold = false;
    for (int f = 0; f < FIGURES; f++) cold |= (q->figures >> f & 1) && f % 2 == REGIME_COLD;
    ring_keep(cx, b, ring);
    Err err = bed_reset(cx, b);
    if (!err && cold) err = ring_make(cx, b, q->rotate_bytes, ring);
    if (!err) err = warm_up(cx, &t, out);
    for (int f = 0; f < FIGURES && !err; f++)
        if (q->figures >> f & 1) err = take(cx, &t, f, &out->figure[f]);
    if (!err) err = ring_check(cx, ring);
    if (!err && cold) {
        out->sets = ring->sets;
        for (int i = 0; i < b->pb->prog->nparams; i++) out->set_bytes += (double)b->size[i];
    }
    return err;
}
