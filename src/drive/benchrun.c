/* Cases -> what was measured of them, each in a process of its own where there is a worker. */
#include "evidence.h"

#include "../base/os.h"

#include <jansson.h>
#include <string.h>

json_t *options_json(const EvidenceAsk *q) {
    const MeasureAsk *m = &q->measure;
    const FigureAsk *f = &m->figures;
    json_t *o = json_pack("{s:i,s:I,s:I,s:I,s:i,s:I,s:i,s:o}", "samples", f->samples, "sample_ns",
                          (json_int_t)f->sample_ns, "warmup_ns", (json_int_t)f->warmup_ns, "rotate_bytes",
                          (json_int_t)f->rotate_bytes, "threads", f->threads, "archive_whole_bytes",
                          (json_int_t)m->whole_bytes, "archive_samples", m->archive_samples, "peers", json_array());
    json_t *names = record_member(o, "figures", json_array());
    for (int i = 0; i < FIGURES; i++)
        if (f->figures >> i & 1) json_array_append_new(names, json_string(figure_name(i)));
    return o;
}

static bool stop_worker(void *user, bool late) {
    (void)late;
    return evidence_over(user);
}

static bool stop_here(void *user) {
    return evidence_over(user);
}

Err measure_fresh(Evidence *e, const Problem *pb, uint64_t seed, const char *plan, bool must, json_t **out) {
    const EvidenceAsk *q = e->ask;
    Cx *cx = e->cx;
    char path[4096];
    Plan p;
    Err err;
    if (worker_find(q->worker, path, sizeof path)) {
        WorkerOptions o = {.al = q->al,
                           .path = path,
                           .pb = pb,
                           .dev = q->dev,
                           .seed = seed,
                           .builders = 1,
                           .over = stop_worker,
                           .user = e};
        err = worker_new(cx, &o, &e->worker);
        if (!err) err = worker_measure(cx, e->worker, plan, &q->measure, out);
        worker_free(e->worker);
        e->worker = NULL;
        return err;
    }
    if (must)
        return diag(cx, S_REPLAY_WORKER, NOWHERE, NULL,
                    "rowfold-worker was not found, and every measurement of a replay "
                    "takes a process of its own");
    MeasureAsk here = q->measure;
    here.started_unix_ns = os_unix_ns();
    Stop stop = {.asked = stop_here, .user = e};
    cx->stop = &stop;
    err = plan_read(cx, plan, &p);
    if (!err && !e->bed.dev) err = bed_make(cx, q->dev, pb, seed, &e->bed);
    if (!err) err = measure_plan(cx, &e->bed, &p, &here, &e->measuring);
    if (!err) *out = json_incref(e->measuring.json);
    measuring_free(&e->measuring);
    cx->stop = NULL;
    return err;
}

/* Regimes that a case does not ask for are left out of its figures. */
static uint32_t figures_of(const EvidenceAsk *q, const char *regimes) {
    uint32_t f = q->measure.figures.figures;
    if (!strstr(regimes, "resident")) f &= 0xAA;
    if (!strstr(regimes, "cold")) f &= 0x55;
    return f;
}

static Err bench_case(Evidence *e, const Case *c, json_t *o) {
    Cx *cx = e->cx;
    const int64_t from = t_now_ns();
    double read, write;
    Err err = case_choose(e, c, o);
    json_object_set_new(o, "choose_s", record_number((double)(t_now_ns() - from) / 1e9));
    if (err) return err;
    least_traffic(&e->made.pb, &read, &write);
    json_object_set_new(o, "bytes", json_pack("{s:o,s:o}", "read", record_number(read), "write", record_number(write)));
    err = measure_fresh(e, &e->made.pb, e->ask->measure.seed, json_string_value(json_object_get(o, "plan")), false,
                        &e->spare[0]);
    if (!err) json_object_set(o, "measurement", e->spare[0]);
    json_decref(e->spare[0]);
    e->spare[0] = NULL;
    json_t *peers = record_member(o, "peers", json_array());
    for (int i = 0; i < peers_count(e->ask->peers) && !err && !evidence_over(e); i++)
        err = peer_measure(e, peer_at(cx, e->ask->peers, i), o, &e->bed, NULL, peers);
    return err;
}

Err evidence_bench(Cx *cx, const EvidenceAsk *asked, const Case *c, int n, Evidence *e, const char **out) {
    EvidenceAsk *q = NEW(cx->a, EvidenceAsk);
    *q = *asked;
    *e = (Evidence){.cx = cx, .ask = q, .from_ns = t_now_ns(), .root = json_object()};
    json_object_set_new(e->root, "format", json_string("rowfold-bench-1"));
    json_object_set_new(e->root, "suite", record_text(q->suite));
    json_t *options = record_member(e->root, "options", options_json(q));
    for (int i = 0; i < peers_count(q->peers); i++)
        json_array_append_new(json_object_get(options, "peers"), record_text(peer_file(cx, q->peers, i)));
    Err err = provenance_make(cx, q, record_member(e->root, "provenance", json_object()));
    json_t *cases = record_member(e->root, "cases", json_array());
    int done = 0;
    q->measure.ceilings = true;
    for (; done < n && !err; done++) {
        if (evidence_tell(e, done, n, c[done].id)) break;
        Cx own = {.a = cx->a}; /* a case that fails costs itself only */
        e->cx = &own;
        q->measure.figures.figures = figures_of(asked, c[done].regimes);
        json_t *o = record_element(cases, json_object());
        err = bench_case(e, &c[done], o);
        e->cx = cx;
        if (e->stopped) {
            json_array_remove(cases, (size_t)done);
            err = OK;
            break;
        }
        if (err)
            json_object_set_new(o, "failed",
                                json_pack("{s:s,s:o}", "slug", slug_text(own.first ? own.first->slug : S_INTERNAL),
                                          "why", record_text(own.first ? own.first->msg : "")));
        err = OK;
    }
    if (err) return err;
    evidence_tell(e, done, n, "");
    json_object_set_new(e->root, "complete", json_boolean(done == n));
    record_seal(cx, e->root, "hash");
    *out = record_print(cx, e->root);
    return OK;
}
