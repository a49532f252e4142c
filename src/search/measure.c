/* A plan on a bed -> its measurement, as JSON. */
#include "measure.h"

#include "../base/os.h"
#include "attempt.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CEILING_REPS = 9 };

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

/* A new object or array that hangs on its parent already: memory that runs out in between loses nothing. */
static json_t *member(json_t *parent, const char *key, json_t *child) {
    json_object_set_new(parent, key, child);
    return json_object_get(parent, key);
}
static json_t *element(json_t *parent, json_t *child) {
    json_array_append_new(parent, child);
    return json_array_get(parent, json_array_size(parent) - 1);
}

void least_traffic(const Problem *pb, double *read, double *write) {
    *read = *write = 0;
    for (int i = 0; i < pb->prog->nparams; i++) {
        const Param *p = &pb->prog->param[i];
        if (p->dir == DIR_SCALAR || p->dir == DIR_CONST) continue;
        double n = ty_bytes(p->ty);
        for (int d = 0; d < p->rank; d++) n *= (double)pb->shape.n[p->axis[d]];
        if (p->dir != DIR_OUT) *read += n;
        if (p->dir != DIR_IN) *write += n;
    }
}

/* ---- parts ---- */

static json_t *verdict(const Verdict *v, bool relaunched) {
    return json_pack("{s:b,s:I,s:I,s:o,s:b}", "ok", v->ok, "checked", (json_int_t)v->checked, "bad", (json_int_t)v->bad,
                     "worst_error_share", number(v->worst), "relaunched", relaunched);
}

static void put_figures(json_t *list, const Bed *b, const FigureAsk *q, const Figures *fs) {
    static const char *const spans[] = {"device", "end_to_end"}, *const modes[] = {"batch", "single"},
                             *const regimes[] = {"resident", "cold"};
    for (int i = 0; i < FIGURES; i++) {
        const Figure *f = &fs->figure[i];
        double min, max, median = figure_median(f, &min, &max);
        if (!(q->figures >> i & 1)) continue;
        const char *clock = i / 4 == SPAN_DEVICE ? dev_clock(b->dev, i / 2 % 2 == MODE_SINGLE)
                                                 : "the caller's monotonic clock around launches and a synchronise";
        json_t *o = element(list, json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:o,s:o,s:o}", "name", figure_name(i), "span",
                                            spans[i / 4], "mode", modes[i / 2 % 2], "regime", regimes[i % 2], "clock",
                                            clock, "calls", f->calls, "sets", f->sets, "median_ns", number(median),
                                            "min_ns", number(min), "max_ns", number(max)));
        json_t *first = member(o, "first_set", json_array()), *total = member(o, "samples_total_ns", json_array());
        for (int s = 0; s < f->n; s++) {
            json_array_append_new(first, json_integer(f->first_set[s]));
            json_array_append_new(total, json_integer(f->total_ns[s]));
        }
    }
}

/* The speed of light: what is read and written alike at the pace of a copy, the rest at that of reads or of writes. */
static double light_ns(const double ns[CEILING_KINDS], double read, double write) {
    double all = read + write, both = 2 * fmin(read, write);
    return (ns[CEILING_COPY] * both + ns[read > write ? CEILING_READ : CEILING_WRITE] * (all - both)) / all;
}

static Err put_ceilings(Cx *cx, const Bed *b, const MeasureAsk *q, const Figures *fs, json_t *o) {
    json_t *list = json_object_get(o, "ceilings"), *light = json_object_get(o, "speed_of_light_ns");
    double read, write;
    least_traffic(b->pb, &read, &write);
    Err err = OK;
    for (int r = 0; r < 2 && !err && read + write > 0; r++) {
        const uint32_t of_regime = r ? 0xAA : 0x55;
        double ns[CEILING_KINDS] = {0};
        if (!(q->figures.figures & of_regime)) continue;
        for (int k = 0; k < CEILING_KINDS && !err; k++) {
            const char *how;
            Ceiling c = {.kind = (CeilingKind)k,
                         .bytes = (size_t)(read + write),
                         .sets = r ? fs->sets : 1,
                         .threads = q->figures.threads,
                         .reps = CEILING_REPS};
            err = dev_ceiling(cx, b->dev, &c, &ns[k], &how);
            if (err) break;
            element(list, json_pack("{s:s,s:s,s:I,s:i,s:s,s:i,s:o}", "kind", ceiling_text((CeilingKind)k), "regime",
                                    r ? "cold" : "resident", "bytes", (json_int_t)(read + write), "sets", c.sets, "how",
                                    how, "samples", c.reps, "median_ns", number(ns[k])));
        }
        if (!err) json_object_set_new(light, r ? "cold" : "resident", number(light_ns(ns, read, write)));
    }
    return err == ERR_UNAVAILABLE ? OK : err; /* a device that has none is measured without */
}

/* ---- outputs ---- */

static double want_of(const Expect *x, int64_t i) {
    return x->f ? x->f[i] : x->w ? (double)x->w[i] : (double)x->i[i];
}

/* Named by content, so that equal outputs are kept once. */
static Err keep(Cx *cx, const char *folder, const char *ending, const void *p, size_t n, json_t *o, const char *sha) {
    char name[80], why[128];
    snprintf(name, sizeof name, "%.64s.%s", sha, ending);
    const char *path = arena_printf(cx->a, "%s/%s", folder, name);
    int bad = access(path, R_OK) == 0 ? 0 : os_write_atomic(path, p, n, 0666, false);
    if (bad)
        return diag(cx, S_RECORD_IO, NOWHERE, NULL, "%s cannot be written: %s", path, os_error(bad, why, sizeof why));
    const char *slash = strrchr(folder, '/'); /* relative to the record, which lies beside the folder */
    json_object_set_new(o, "file", json_sprintf("%s/%s", slash ? slash + 1 : folder, name));
    return OK;
}

static Err keep_whole(Cx *cx, const MeasureAsk *q, const Tensor *t, const Expect *x, size_t bytes, json_t *o) {
    double *pairs = NEWN(cx->a, double, 2 * x->count + 1);
    char sha[65];
    for (int64_t i = 0; i < x->count; i++) pairs[2 * i] = want_of(x, i), pairs[2 * i + 1] = x->e[i];
    const size_t n = sizeof(double) * 2 * (size_t)x->count;
    sha256_hex(pairs, n, sha);
    Err err = keep(cx, q->archive, "bin", t->data, bytes, o, json_string_value(json_object_get(o, "sha256")));
    if (err) return err;
    json_t *e = member(o, "expect", json_pack("{s:s}", "sha256", sha));
    return keep(cx, q->archive, "f64", pairs, n, e, sha);
}

static void put_sample(json_t *list, const Tensor *t, const Expect *x, int64_t i) {
    const int bytes = ty_bytes(t->ty);
    const unsigned char *at = (const unsigned char *)t->data + i * bytes;
    char bits[20] = "";
    for (int k = 0; k < bytes; k++) snprintf(bits + 2 * k, 3, "%02x", at[bytes - 1 - k]);
    element(list, json_pack("{s:I,s:s,s:o,s:o,s:o}", "index", (json_int_t)i, "bits", bits, "value",
                            number(num_f64(num_load(t->ty, at), ty_compute(t->ty))), "want", number(want_of(x, i)),
                            "bound", number(x->e[i])));
}

static Err put_output(Cx *cx, Bed *b, const MeasureAsk *q, const Expect *x, int i, json_t *list) {
    const Param *p = &b->pb->source->param[i];
    Tensor t = b->host.t[i];
    char sha[65];
    t.data = arena_get(cx->a, b->size[i]);
    Err err = mem_read(cx, b->mem[i], 0, t.data, b->size[i]);
    if (err) return err;
    sha256_hex(t.data, b->size[i], sha);
    json_t *o = element(list, json_pack("{s:s,s:s,s:I,s:I,s:s,s:n,s:n}", "param", p->name, "type", ty_text(p->ty),
                                        "elements", (json_int_t)x->count, "bytes", (json_int_t)b->size[i], "sha256",
                                        sha, "file", "expect"));
    json_t *samples = member(o, "samples", json_array());
    Rng r = {q->seed};
    for (int k = 0; k < q->archive_samples && x->count; k++)
        put_sample(samples, &t, x, k == 0 ? 0 : k == 1 ? x->count - 1 : (int64_t)(rng_u64(&r) % (uint64_t)x->count));
    if (!q->archive || (int64_t)b->size[i] > q->whole_bytes) return OK;
    return keep_whole(cx, q, &t, x, b->size[i], o);
}

static Err put_outputs(Cx *cx, Bed *b, const MeasureAsk *q, const OracleOptions *bounds, json_t *o) {
    const Expect *want;
    json_t *list = member(o, "outputs", json_array());
    Err err = bed_expect(cx, b, bounds, &want);
    for (int i = 0; i < b->pb->source->nparams && !err; i++) {
        const Dir d = b->pb->source->param[i].dir;
        if (d == DIR_OUT || d == DIR_INOUT) err = put_output(cx, b, q, &want[i], i, list);
    }
    return err;
}

/* ---- the whole ---- */

typedef struct Setup { /* ns */
    int64_t plan, lower, emit, first_call;
} Setup;

static Err build(Cx *cx, Bed *b, const Plan *plan, Measuring *m, Setup *s, json_t *o) {
    Kern *k;
    Unit u;
    char sha[65];
    Buf text = buf_new(cx->a), kern = buf_new(cx->a);
    const int64_t t0 = t_now_ns();
    Err err = plan_check(cx, b->pb, plan, NULL, NULL);
    const int64_t t1 = t_now_ns();
    if (!err) err = attempt_lower(cx, b->pb, plan, &k);
    const int64_t t2 = t_now_ns();
    if (!err) err = attempt_spell(cx, b->pb, k, &u);
    *s = (Setup){.plan = t1 - t0, .lower = t2 - t1, .emit = t_now_ns() - t2};
    if (err) return err;
    plan_print(&k->plan, &text);
    kern_print(k, &kern);
    json_object_set_new(o, "plan", json_string(text.s));
    sha256_hex(kern.s, strlen(kern.s), sha);
    json_object_set_new(o, "kern_sha256", json_string(sha));
    sha256_hex(u.text, strlen(u.text), sha);
    json_object_set_new(o, "unit_sha256", json_string(sha));
    u.fresh = true;
    return mod_build(cx, b->dev, &u, &m->mod);
}

static Err first_call(Cx *cx, Bed *b, Module *mod, int threads, Setup *s) {
    Err err = bed_reset(cx, b);
    const int64_t from = t_now_ns();
    if (!err) err = mod_launch(cx, mod, b->slots, b->rows, threads);
    if (!err) err = dev_sync(cx, b->dev);
    s->first_call = t_now_ns() - from;
    return err;
}

static bool has_inout(const Prog *p) {
    for (int i = 0; i < p->nparams; i++)
        if (p->param[i].dir == DIR_INOUT) return true;
    return false;
}

Err measure_plan(Cx *cx, Bed *b, const Plan *plan, const MeasureAsk *q, Measuring *m) {
    const OracleOptions bounds = bed_bounds(b->pb, plan);
    const bool inout = has_inout(b->pb->prog);
    Figures *fs = NEW(cx->a, Figures);
    Verdict v = {0};
    Setup s;
    json_t *o = m->json = json_object();
    json_object_set_new(o, "process",
                        json_pack("{s:I,s:I,s:s,s:s,s:b}", "id", (json_int_t)getpid(), "started_unix_ns",
                                  (json_int_t)q->started_unix_ns, "rowfold", ROWFOLD_VERSION_TEXT, "identity",
                                  dev_identity(b->dev), "worker", q->worker));
    Err err = build(cx, b, plan, m, &s, o);
    if (!err) err = first_call(cx, b, m->mod, q->figures.threads, &s);
    if (!err) err = bed_verify(cx, b, &bounds, &v);
    if (err) return err;
    const Facts *f = mod_facts(m->mod);
    json_object_set_new(o, "build",
                        json_pack("{s:b,s:i,s:i,s:i,s:i,s:i}", "from_cache", f->from_cache, "registers", f->registers,
                                  "local_bytes", f->local_bytes, "shared_bytes", f->shared_bytes, "groups_per_unit",
                                  f->groups_per_unit, "code_bytes", f->code_bytes));
    json_object_set_new(o, "setup",
                        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "plan_ns", (json_int_t)s.plan, "lower_ns",
                                  (json_int_t)s.lower, "emit_ns", (json_int_t)s.emit, "compile_ns",
                                  (json_int_t)f->compile_ns, "load_ns", (json_int_t)f->load_ns, "first_call_ns",
                                  (json_int_t)s.first_call));
    json_object_set_new(o, "poison", json_integer(BED_POISON));
    json_object_set_new(o, "first_check", verdict(&v, false));
    err = put_outputs(cx, b, q, &bounds, o);
    if (!err) err = figures_take(cx, b, m->mod, &q->figures, &m->ring, fs);
    if (!err && inout) err = first_call(cx, b, m->mod, q->figures.threads, &s); /* timed calls fed on their results */
    if (!err) err = bed_verify(cx, b, &bounds, &v);
    ring_free(&m->ring);
    if (err) return err;
    json_object_set_new(o, "last_check", verdict(&v, inout));
    json_object_set_new(o, "inputs_unchanged", json_true());
    json_object_set_new(o, "warmup",
                        json_pack("{s:I,s:i,s:b}", "ns", (json_int_t)fs->warmup_ns, "batches", fs->warmup_batches,
                                  "settled", fs->settled));
    json_object_set_new(o, "rotation",
                        json_pack("{s:i,s:I,s:I}", "sets", fs->sets, "bytes_of_set", (json_int_t)fs->set_bytes, "bytes",
                                  (json_int_t)fs->set_bytes * fs->sets));
    put_figures(member(o, "figures", json_array()), b, &q->figures, fs);
    member(o, "ceilings", json_array());
    member(o, "speed_of_light_ns", json_object());
    return q->ceilings ? put_ceilings(cx, b, q, fs, o) : OK;
}

void measuring_free(Measuring *m) {
    ring_free(&m->ring);
    if (m->mod) mod_free(m->mod);
    m->mod = NULL;
    json_decref(m->json);
    m->json = NULL;
}

/* ---- on the wire ---- */

struct json_t *measure_ask_json(const MeasureAsk *q) {
    const FigureAsk *f = &q->figures;
    return json_pack("{s:I,s:i,s:i,s:I,s:I,s:I,s:I,s:s*,s:I,s:i,s:b}", "figures", (json_int_t)f->figures, "threads",
                     f->threads, "samples", f->samples, "sample_ns", (json_int_t)f->sample_ns, "warmup_ns",
                     (json_int_t)f->warmup_ns, "rotate_bytes", (json_int_t)f->rotate_bytes, "seed", (json_int_t)q->seed,
                     "archive", q->archive, "whole_bytes", (json_int_t)q->whole_bytes, "archive_samples",
                     q->archive_samples, "ceilings", q->ceilings);
}

bool measure_ask_read(Arena *a, const struct json_t *j, MeasureAsk *q) {
    const char *archive = json_string_value(json_object_get(j, "archive"));
#define WHOLE(key) json_integer_value(json_object_get(j, key))
    *q = (MeasureAsk){.figures = {.figures = (uint32_t)WHOLE("figures"),
                                  .threads = (int)WHOLE("threads"),
                                  .samples = (int)WHOLE("samples"),
                                  .sample_ns = WHOLE("sample_ns"),
                                  .warmup_ns = WHOLE("warmup_ns"),
                                  .rotate_bytes = WHOLE("rotate_bytes")},
                      .seed = (uint64_t)WHOLE("seed"),
                      .archive = archive ? arena_printf(a, "%s", archive) : NULL,
                      .whole_bytes = WHOLE("whole_bytes"),
                      .archive_samples = (int)WHOLE("archive_samples"),
                      .ceilings = json_is_true(json_object_get(j, "ceilings"))};
#undef WHOLE
    return json_is_object(j);
}

double measure_ask_seconds(const MeasureAsk *q) {
    const FigureAsk *f = &q->figures;
    return 120 + 4 * (double)f->samples * FIGURES * (double)f->sample_ns / 1e9 + 20 * (double)f->warmup_ns / 1e9;
}
