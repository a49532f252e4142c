/* Made -> receipt: everything a choice rests on, as canonical JSON (sorted keys, compact, 17 digits) whose parts are
 * named by SHA-256. */
#include "drive.h"
#include "evidence.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

static json_t *text(const char *s) {
    json_t *j = json_string(s ? s : "");
    return j ? j : json_string("");
}

static json_t *sha(const char *s) {
    char hex[65];
    sha256_hex(s, strlen(s), hex);
    return json_string(hex);
}

/* One document in the making. */
typedef struct Doc {
    Cx *cx;
    const Request *q;
    const Made *m;
    const Prog *prog;
    const Verdict *verdict;
    json_t *root;
} Doc;

/* Its text, in the arena. Running out of memory jumps past jansson's own, so a document is made under a trap of its
 * own; `fill` hangs every part on the root as soon as it is made. */
static const char *document(Doc *d, json_t *root, void (*fill)(Doc *)) {
    const size_t flags = JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY;
    Arena *a = d->cx->a;
    Trap here, *outer = arena_trap(a, &here);
    d->root = root;
    if (setjmp(here.at)) {
        json_decref(d->root);
        arena_trap(d->cx->a, outer);
        arena_fail(d->cx->a);
    }
    fill(d);
    size_t n = json_dumpb(d->root, NULL, 0, flags);
    char *out = arena_get(a, n + 1);
    json_dumpb(d->root, out, n, flags);
    json_decref(d->root);
    arena_trap(a, outer);
    return out;
}

static json_t *raw(const Buf *b) { /* a part that has a JSON printer of its own */
    json_t *j = b->s ? json_loads(b->s, JSON_DECODE_ANY, NULL) : NULL;
    return j ? j : json_null();
}

static json_t *times_json(const Times *t) {
    json_t *a = json_array();
    for (int i = 0; i < t->n; i++) json_array_append_new(a, number(t->ns[i]));
    return json_pack("{s:o,s:o,s:o,s:i,s:o}", "median_ns", number(t->median), "min_ns", number(t->min), "max_ns",
                     number(t->max), "calls", t->calls, "samples_ns", a);
}

static json_t *score_of(Cx *cx, const Score *s) {
    Buf b = buf_new(cx->a);
    score_json(s, &b);
    return raw(&b);
}

static json_t *plan_of(Cx *cx, const Plan *p) {
    Buf b = buf_new(cx->a);
    plan_print(p, &b);
    return text(b.s);
}

static void fill_trials(Doc *d) {
    static const char *const fates[] = {"refused", "ranked", "failed", "timed"};
    const Made *m = d->m;
    Cx *cx = d->cx;
    for (int64_t i = 0; i < m->search.ntrials; i++) {
        const Trial *t = &m->search.trial[i];
        json_t *o = json_pack("{s:o,s:s}", "plan", plan_of(cx, &t->plan), "fate", fates[t->fate]);
        json_array_append_new(d->root, o);
        if (t->fate == FATE_REFUSED || t->fate == FATE_FAILED) {
            json_object_set_new(o, "slug", text(slug_text(t->slug)));
            json_object_set_new(o, "why", text(t->why));
        } else {
            Buf b = buf_new(cx->a);
            demand_json(&t->demand, &b);
            json_object_set_new(o, "demand", raw(&b));
            json_object_set_new(o, "score", score_of(cx, &t->score));
        }
        if (t->fate == FATE_TIMED) {
            json_object_set_new(o, "times", times_json(&t->times));
            json_object_set_new(o, "worst_error_share", number(t->worst));
            json_object_set_new(o, "compile_ns", json_integer(t->compile_ns));
        }
        if (t->resumed) json_object_set_new(o, "resumed", json_true());
        if (i == m->search.best) json_object_set_new(o, "chosen", json_true());
    }
}

const char *trials_json(Cx *cx, const Made *m) {
    Doc d = {.cx = cx, .m = m};
    return document(&d, json_array(), fill_trials);
}

static json_t *verdict_of(const Prog *p, const Verdict *v) {
    json_t *o = json_pack("{s:b,s:I,s:I,s:o}", "ok", v->ok, "checked", (json_int_t)v->checked, "bad",
                          (json_int_t)v->bad, "worst_error_share", number(v->worst));
    if (v->bad && v->param >= 0) {
        json_t *at = json_array();
        for (int d = 0; d < p->param[v->param].rank; d++) json_array_append_new(at, json_integer(v->at[d]));
        json_object_set_new(o, "first_bad",
                            json_pack("{s:o,s:o,s:o,s:o,s:o}", "output", text(p->param[v->param].name), "at", at, "got",
                                      number(v->got), "want", number(v->want), "bound", number(v->bound)));
    }
    return o;
}

static void fill_verdict(Doc *d) {
    json_t *v = verdict_of(d->prog, d->verdict);
    json_object_update(d->root, v);
    json_decref(v);
}

const char *verdict_json(Cx *cx, const Prog *p, const Verdict *v) {
    Doc d = {.cx = cx, .prog = p, .verdict = v};
    return document(&d, json_object(), fill_verdict);
}

static json_t *refusals(const Search *s) {
    json_t *o = json_object();
    for (int64_t i = 0; i < s->ntrials; i++) {
        const Trial *t = &s->trial[i];
        if (t->fate != FATE_REFUSED && t->fate != FATE_FAILED) continue;
        const char *slug = slug_text(t->slug);
        json_object_set_new(o, slug, json_integer(json_integer_value(json_object_get(o, slug)) + 1));
    }
    return o;
}

static json_t *finals_json(const Made *m) {
    const Finals *f = &m->search.final;
    json_t *o = json_pack("{s:i,s:i,s:s,s:o,s:o,s:o,s:b,s:o,s:o,s:I}", "finalists", f->finalists, "rounds", f->rounds,
                          "incumbent", f->remembered ? "remembered" : "first of the ranking", "incumbent_trial",
                          json_integer((json_int_t)f->incumbent), "gain", number(f->gain), "detectable",
                          number(f->detectable), "tie", f->tie, "clock_mhz_before", number(f->before.mhz),
                          "clock_mhz_after", number(f->after.mhz), "throttled", (json_int_t)finals_throttled(f));
    if (f->replays || f->vetoed)
        json_object_set_new(o, "replay",
                            json_pack("{s:i,s:o,s:o,s:b}", "rounds", f->replays, "gain", number(f->replayed_gain),
                                      "least_gain", number(f->replayed_least), "vetoed", f->vetoed));
    return o;
}

static json_t *shape_json(const Prog *p, const Shape *s) {
    json_t *o = json_object();
    for (int i = 0; i < p->naxes; i++) {
        json_t *n = s->n[i] < 0 ? json_null() : json_integer(s->n[i]);
        if (s->least[i]) n = json_pack("{s:I,s:o}", "from", (json_int_t)s->least[i], "to", n);
        json_object_set_new(o, p->axis[i].name, n);
    }
    return o;
}

/* Where a recalled plan comes from, so that a plan of another shape never passes for one that was measured here. */
static json_t *recall_json(const Recall *r) {
    if (str_eq(r->how, "estimate")) return json_pack("{s:s,s:o}", "how", r->how, "why", text(r->why));
    const Wisdom *w = &r->from;
    return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:I,s:o}", "how", r->how, "problem_sha256", text(w->problem),
                     "shape", text(w->shape), "distance", number(w->distance), "effort", text(w->effort), "stage",
                     text(w->stage), "median_ns", number(w->median_ns), "imported", w->imported, "time",
                     (json_int_t)w->time_s, "host", text(w->host));
}

static void fill_receipt(Doc *d) {
    Cx *cx = d->cx;
    const Request *q = d->q;
    const Made *m = d->m;
    json_t *o = d->root;
    Buf prog = buf_new(cx->a), kern = buf_new(cx->a), caps = buf_new(cx->a), demand = buf_new(cx->a);
    prog_print(q->prog, &prog);
    kern_print(m->kern, &kern);
    caps_print(q->caps, &caps);
    demand_json(&m->demand, &demand);
    json_object_set_new(o, "format", json_string("rowfold-receipt-1"));
    json_object_set_new(o, "rowfold", json_string(ROWFOLD_VERSION_TEXT));
    json_object_set_new(o, "program", text(prog.s));
    json_object_set_new(o, "program_sha256", sha(prog.s));
    json_object_set_new(o, "shape", shape_json(q->prog, &m->pb.shape));
    json_object_set_new(o, "device", json_pack("{s:o,s:o}", "identity", text(q->identity), "caps", text(caps.s)));
    json_object_set_new(o, "plan", plan_of(cx, &m->kern->plan));
    json_object_set_new(o, "kern_sha256", sha(kern.s));
    json_object_set_new(o, "source_sha256", sha(m->unit.text ? m->unit.text : ""));
    json_object_set_new(o, "demand", raw(&demand));
    json_object_set_new(o, "policy",
                        json_pack("{s:s,s:o,s:o}", "name", m->search.policy->name, "score", score_of(cx, &m->score),
                                  "calibration_sha256", text(m->calibration)));
    json_object_set_new(o, "search",
                        json_pack("{s:s,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:I,s:b,s:o,s:o}", "effort", effort_text(q->effort),
                                  "strategy", text(m->search.strategy), "joint", text(q->joint), "pin", text(q->pin),
                                  "search", text(q->open), "candidates", (json_int_t)m->search.ntrials, "refused",
                                  (json_int_t)m->search.nrefused, "failed", (json_int_t)m->search.nfailed, "timed",
                                  (json_int_t)m->search.ntimed, "stopped", m->search.stopped, "seconds",
                                  number(m->search.seconds), "fates_by_slug", refusals(&m->search)));
    if (m->search.recall.how) json_object_set_new(o, "recall", recall_json(&m->search.recall));
    if (q->store && *q->store && effort_runs(q->effort))
        json_object_set_new(o, "store",
                            json_pack("{s:I,s:I,s:o}", "recorded", (json_int_t)m->search.nrecorded, "resumed",
                                      (json_int_t)m->search.nresumed, "note", text(m->search.note)));
    json_object_set_new(o, "seed", json_integer((json_int_t)q->seed));
    json_object_set_new(o, "bytes", number(m->bytes));
    if (m->mod) {
        const Facts *f = mod_facts(m->mod);
        json_object_set_new(o, "build",
                            json_pack("{s:b,s:I,s:i}", "from_cache", f->from_cache, "compile_ns",
                                      (json_int_t)f->compile_ns, "code_bytes", f->code_bytes));
    }
    if (m->search.final.finalists) json_object_set_new(o, "finals", finals_json(m));
    if (m->measured) {
        json_object_set_new(
            o, "regime",
            json_pack("{s:s,s:o}", "name", q->cold ? "cold" : "resident", "rotated_bytes", number(m->rotated)));
        json_object_set_new(o, "times", times_json(&m->times));
        json_object_set_new(o, "copy", json_pack("{s:o,s:o}", "ns", number(m->copy_ns), "how", text(m->copy_how)));
        json_object_set_new(o, "verdict", verdict_of(q->prog, &m->verdict));
    }
    record_seal(cx, o, "hash");
}

const char *receipt_make(Cx *cx, const Request *q, const Made *m) {
    Doc d = {.cx = cx, .q = q, .m = m};
    return document(&d, json_object(), fill_receipt);
}
