/* A device -> its calibration: small programs that each ask mostly one thing of a machine are timed at pinned plans,
 * and the coefficients of the policy `roofline` are fitted to them. The result is a file, canonical JSON with every raw
 * sample, named by a hash; it is data for the ranking of plans on that very device and nothing else. */
#include "drive.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lang/lang.h"

enum { SAMPLES = 5 };
static const int64_t sample_ns = 3000000;
static const char format_name[] = "rowfold-calibration-1";

/* What a probe runs. params: NULL is one tile in, one like it out. */
typedef struct Work {
    const char *name, *text, *params;
} Work;
static const Work works[] = {
    {"copy", "y = x", NULL},
    {"arithmetic",
     "a = x * 0.5 + 1\nb = a * a + x\nc = b * a + x\nd = c * b + a\ne = d * c + b\nf = e * d + c\n"
     "g = f * e + d\nh = g * f + e\ni = h * g + f\nj = i * h + g\ny = j * i + h",
     NULL},
    {"division", "a = 1 / (x + 3)\nb = x / (a + 3)\nc = b / (a + 4)\ny = c / (b + 5)", NULL},
    {"special", "a = exp(x)\nb = exp(-a)\nc = exp(-b)\ny = exp(-c)", NULL},
    {"sum", "y = x * sum(x)", NULL},
    {"sums one after the other", "a = sum(x)\nb = sum(x - a)\nc = sum(x - b)\ny = x - c", NULL},
};

/* Where: rows, elements, plan. Of a host W is a multiple of its register; of a GPU of its warp. */
typedef struct Spot {
    int64_t rows, n;
    const char *plan;
} Spot;
static const Spot host_places[] = {
    {1, 64, "W=32"},     {64, 1024, "W=64"},     {64, 1024, "W=16"},    {1024, 1024, "W=64,acc=2"},
    {64, 16384, "W=64"}, {1024, 16384, "W=128"}, {2048, 16384, "W=64"}, {2048, 16384, "W=64,store=stream"},
    {20000, 32, "W=32"},
};
static const Spot gpu_places[] = {
    {1, 64, "W=32"},          {1, 1024, "W=32"},         {1, 1024, "W=256"},        {1, 16384, "W=1024"},
    {132, 4096, "W=128"},     {132, 4096, "W=1024"},     {1056, 4096, "W=256"},     {1056, 4096, "W=256,V=4"},
    {8192, 1024, "W=32,V=4"}, {8192, 4096, "W=128,V=4"}, {8192, 4096, "W=512,V=4"}, {65536, 256, "W=32,V=4,P=4"},
};

/* One thing each, at a place of its own: reading, writing and conversions alone, policies of loads and stores, packs on
 * their way, a wave of one group, groups that share a row, launches that start early. */
static const Work reads = {"read", "y = sum(x)", "x: in f32[rows, n], y: out f32[rows]"},
                  writes = {"write", "y = x * 2", "x: in f32[rows], y: out f32[rows, n]"},
                  converts = {"conversion", "y = x * 2", "x: in bf16[rows, n], y: out bf16[rows, n]"},
                  copies = {"copy", "y = x", NULL}, sums = {"sum", "y = x * sum(x)", NULL};
typedef struct Single {
    const Work *work;
    Spot place;
} Single;
static const Single host_singles[] = {
    {&reads, {2048, 16384, "W=64"}},
    {&reads, {64, 1024, "W=64"}},
    {&writes, {2048, 16384, "W=64"}},
    {&writes, {2048, 16384, "W=64,store=stream"}},
    {&converts, {1024, 1024, "W=64"}},
    {&copies, {2048, 16384, "W=64,prefetch=1"}},
    {&copies, {4096, 1000, "W=64,store=stream"}},
};
static const Single gpu_singles[] = {
    {&reads, {132, 4096, "W=128,V=4"}},
    {&reads, {8192, 4096, "W=256,V=4"}},
    {&reads, {8192, 4096, "W=256,V=4,flight=2"}},
    {&writes, {8192, 4096, "W=256,V=4"}},
    {&converts, {1056, 4096, "W=256,V=8"}},
    {&copies, {8192, 4096, "W=256,V=4,store=stream"}},
    {&copies, {8192, 4096, "W=256,V=4,load=keep"}},
    {&copies, {3168, 4096, "W=256,V=4,store=stream"}}, /* twice 52 MB: what is streamed leaves the cache first */
    {&copies, {3168, 4096, "W=256,V=4"}},
    {&sums, {1057, 4096, "W=256,V=4"}}, /* one group more than 8 for each of 132 units */
    {&sums, {16, 32768, "W=256,V=4,cluster=8"}},
    {&sums, {16, 32768, "W=1024,V=4,cluster=8"}},
    {&sums, {16, 32768, "W=256,V=4,cluster=16"}},
    {&sums, {16, 32768, "W=256,V=4,cluster=8,exchange=bytes"}},
    {&reads, {8, 131072, "W=256,V=4,split=16"}},
    {&sums, {8, 1024, "W=64,V=4,overlap=on"}},
    {&sums, {8, 1024, "W=64,V=4,overlap=late"}},
    {&sums, {8, 1024, "W=64,V=4,overlap=fetch"}},
    {&sums, {132, 8192, "W=256,V=4,overlap=on"}},
    {&sums, {132, 8192, "W=256,V=4,overlap=late"}},
};

typedef struct Probe { /* one work at one place, timed */
    const Work *work;
    const Spot *place;
    FitSample sample;
    Times times;
    const char *plan, *demand, *refused; /* refused: the plan does not fit here, and why */
} Probe;

static Err program(Cx *cx, const Work *w, const Spot *at, const Caps *caps, Problem *pb) {
    const char *text = arena_printf(cx->a, "kernel probe for rows (%s) {\n%s\n}\n",
                                    w->params ? w->params : "x: in f32[rows, n], y: out f32[rows, n]", w->text);
    Ast *ast;
    Prog *p;
    Shape s = {0};
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    Err err = lang_parse(cx, "probe", text, strlen(text), &ast);
    if (!err) err = lang_kernel(cx, ast, NULL, NULL, 0, NULL, 0, &p);
    if (err) return err;
    s.n[prog_axis(p, "rows")] = at->rows, s.n[prog_axis(p, "n")] = at->n;
    return problem_make(cx, p, &s, caps, 0, pb);
}

/* Everything of a probe but what it leaves in *r lives in `own`. */
static Err run(Cx *cx, Cx *own, const CalibrateRequest *q, Probe *r) {
    Problem pb;
    Plan plan;
    Sched sc;
    Kern *k;
    Unit u;
    Bed bed = {0};
    Module *mod = NULL;
    Err err = program(own, r->work, r->place, q->caps, &pb);
    if (!err) err = plan_read(own, r->place->plan, &plan);
    if (!err) err = plan_check(own, &pb, &plan, &sc, NULL);
    if (!err) plan_complete(&sc, &plan);
    if (!err) err = attempt_lower(own, &pb, &plan, &k);
    if (!err) kern_count(own, k, &r->sample.demand);
    if (!err) err = attempt_spell(own, &pb, k, &u);
    if (!err) err = mod_build(own, q->dev, &u, &mod);
    if (!err) err = bed_make(own, q->dev, &pb, 1, &bed);
    if (!err) err = bed_time(own, &bed, mod, 0, SAMPLES, sample_ns, 0, &r->times);
    if (mod) mod_free(mod);
    bed_free(&bed);
    if (err == ERR_REFUSED) { /* by the planner, or by what the compiler made of it */
        r->refused = arena_printf(cx->a, "%s: %s", slug_text(own->first->slug), own->first->msg);
        return OK;
    }
    if (err) return err;
    Buf b = buf_new(cx->a), d = buf_new(cx->a);
    plan_print(&plan, &b);
    demand_json(&r->sample.demand, &d);
    r->plan = b.s, r->demand = d.s;
    r->sample.launch = search_launch(&pb, &plan);
    r->sample.ns = r->times.median;
    return OK;
}

/* ---- the file ---- */

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *probe_json(Cx *cx, const Probe *r, const CostPolicy *p, const Caps *caps, const double *coef) {
    json_t *o = json_pack("{s:s,s:s,s:I,s:I,s:s}", "name", r->work->name, "statements", r->work->text, "rows",
                          (json_int_t)r->place->rows, "n", (json_int_t)r->place->n, "pin", r->place->plan);
    if (r->refused) {
        json_object_set_new(o, "refused", json_string(r->refused));
        return o;
    }
    json_t *samples = json_array();
    for (int i = 0; i < r->times.n; i++) json_array_append_new(samples, number(r->times.ns[i]));
    Score s;
    bool scored = cost_score(cx, p, &r->sample.demand, caps, &r->sample.launch, coef, &s) == OK;
    json_object_set_new(o, "plan", json_string(r->plan));
    json_object_set_new(o, "demand", json_loads(r->demand, 0, NULL));
    json_object_set_new(o, "calls", json_integer(r->times.calls));
    json_object_set_new(o, "samples_ns", samples);
    json_object_set_new(o, "median_ns", number(r->times.median));
    json_object_set_new(o, "fitted_ns", scored ? number(s.total * 1e9) : json_null());
    return o;
}

static void hash_of(json_t *o, char hex[65]) { /* of the canonical text without the hash itself */
    json_object_del(o, "hash");
    char *text = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17));
    sha256_hex(text ? text : "", text ? strlen(text) : 0, hex);
    free(text);
}

json_t *calibration_json(const CostPolicy *p, const Caps *caps, const char *identity, const Fit *fit) {
    json_t *coefs = json_array(), *o = json_object();
    double nominal[MAX_COEFS];
    cost_nominal(p, caps, nominal);
    for (int i = 0; i < p->ncoefs; i++)
        json_array_append_new(coefs, json_pack("{s:s,s:s,s:o,s:o}", "name", p->coef[i].name, "unit", p->coef[i].unit,
                                               "value", number(fit->coef[i]), "nominal", number(nominal[i])));
    json_object_set_new(o, "format", json_string(format_name));
    json_object_set_new(o, "rowfold", json_string(ROWFOLD_VERSION_TEXT));
    json_object_set_new(o, "device", json_string(identity));
    json_object_set_new(o, "policy", json_string(p->name));
    json_object_set_new(o, "coefficients", coefs);
    json_object_set_new(o, "error_nominal", number(fit->before));
    json_object_set_new(o, "error_fitted", number(fit->after));
    return o;
}

Err calibration_text(Cx *cx, json_t *o, const char **out) {
    char hex[65];
    hash_of(o, hex);
    json_object_set_new(o, "hash", json_string(hex));
    char *text = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(o);
    if (!text) return diag(cx, S_OOM, NOWHERE, NULL, "no memory for a calibration");
    *out = arena_printf(cx->a, "%s", text);
    free(text);
    return OK;
}

static Err write_out(Cx *cx, const CalibrateRequest *q, const Probe *r, int n, const CostPolicy *p, const Fit *fit,
                     uint64_t held, const char **out) {
    Buf caps = buf_new(cx->a);
    caps_print(q->caps, &caps);
    json_t *probes = json_array(), *o = calibration_json(p, q->caps, q->identity, fit);
    for (int i = 0; i < n; i++) json_array_append_new(probes, probe_json(cx, &r[i], p, q->caps, fit->coef));
    json_object_set_new(o, "caps", json_string(caps.s));
    json_object_set_new(o, "probes", probes);
    json_object_set_new(o, "held", calibration_names(p, held));
    return calibration_text(cx, o, out);
}

/* A fitted coefficient that far from where it started says that something else was measured. */
static const double far = 100;

uint64_t calibration_far(const CostPolicy *p, const double *start, const Fit *fit) {
    uint64_t bits = 0;
    for (int i = 0; i < p->ncoefs; i++)
        if (start[i] > 0 && (fit->coef[i] > start[i] * far || fit->coef[i] < start[i] / far)) bits |= (uint64_t)1 << i;
    return bits;
}

Err calibration_fit(Cx *cx, const CostPolicy *p, const FitSample *s, int n, const double *start, Fit *fit,
                    uint64_t *held) {
    *held = 0;
    for (uint64_t away = 1; away;) {
        const Err err = cost_fit(cx, p, s, n, start, *held, fit);
        if (err) return err;
        away = calibration_far(p, start, fit);
        *held |= away;
    }
    return OK;
}

json_t *calibration_names(const CostPolicy *p, uint64_t bits) {
    json_t *names = json_array();
    for (int i = 0; i < p->ncoefs; i++)
        if (bits >> i & 1) json_array_append_new(names, json_string(p->coef[i].name));
    return names;
}

Err calibration_plausible(Cx *cx, const CostPolicy *p, uint64_t held) {
    const int n = __builtin_popcountll(held);
    if (4 * n <= p->ncoefs) return OK;
    Buf names = buf_new(cx->a);
    for (int i = 0; i < p->ncoefs; i++)
        if (held >> i & 1) buf_fmt(&names, " %s", p->coef[i].name);
    return diag(cx, S_COST_CALIBRATION_IMPLAUSIBLE, NOWHERE, "a quarter of them at most",
                "%d of %d coefficients would be over a hundred times from where they started:%s", n, p->ncoefs,
                names.s);
}

/* Every work at every place, then the single ones. */
static int list_probes(bool host, Probe *r) {
    const Spot *places = host ? host_places : gpu_places;
    const int nplaces = host ? COUNT(host_places) : COUNT(gpu_places);
    const Single *singles = host ? host_singles : gpu_singles;
    const int nsingles = host ? COUNT(host_singles) : COUNT(gpu_singles);
    int n = 0;
    for (int i = 0; i < nplaces; i++)
        for (int w = 0; w < COUNT(works); w++) r[n++] = (Probe){.work = &works[w], .place = &places[i]};
    for (int i = 0; i < nsingles; i++) r[n++] = (Probe){.work = singles[i].work, .place = &singles[i].place};
    return n;
}

Err drive_calibrate(Cx *cx, const CalibrateRequest *q, const char **out) {
    enum { MOST = COUNT(gpu_places) * COUNT(works) + COUNT(gpu_singles) };
    Probe *probe = NEWN(cx->a, Probe, MOST);
    FitSample *samples = NEWN(cx->a, FitSample, MOST);
    const int n = list_probes(q->caps->kind == KIND_HOST || q->caps->lanes_in_turn, probe);
    double nominal[MAX_COEFS] = {0};
    const CostPolicy *p;
    Fit fit;
    uint64_t held = 0;
    int nsamples = 0;
    int64_t t0 = t_now_ns();
    Err err = cost_find(cx, "roofline", &p);
    for (int i = 0; i < n && !err; i++) {
        Probe *r = &probe[i];
        Cx own = {.a = arena_sub(cx->a)};
        err = run(cx, &own, q, r);
        if (err) diag(cx, own.first->slug, NOWHERE, own.first->accept, "%s", own.first->msg);
        arena_free(own.a);
        r->sample.caps = q->caps;
        if (!err && !r->refused) samples[nsamples++] = r->sample;
        double seconds = (double)(t_now_ns() - t0) / 1e9;
        if (q->progress && !err && q->progress(q->user, i + 1, n, seconds))
            err = diag(cx, S_SEARCH_STOPPED, NOWHERE, NULL, "stopped after %.1f s", seconds);
    }
    if (!err && !nsamples)
        err = diag(cx, S_RT_NOT_OFFERED, NOWHERE, NULL, "none of %d probes was built; the first: %s", n,
                   probe[0].refused);
    if (!err) cost_nominal(p, q->caps, nominal);
    if (!err) err = calibration_fit(cx, p, samples, nsamples, nominal, &fit, &held);
    if (!err) err = calibration_plausible(cx, p, held);
    if (!err) err = write_out(cx, q, probe, n, p, &fit, held, out);
    return err;
}

/* ---- and back ---- */

static Err unreadable(Cx *cx, const char *what) {
    return diag(cx, S_COST_CALIBRATION, NOWHERE, "a file that `rowfold calibrate` wrote", "%s", what);
}

Err calibration_read(Cx *cx, const char *text, size_t n, const char *identity, const CostPolicy **policy,
                     double coef[MAX_COEFS], char hash[65]) {
    enum { MOST_BYTES = 1 << 24 };
    if (n > MOST_BYTES) return unreadable(cx, "it is longer than 16 MiB");
    json_error_t e;
    json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    const char *format = json_string_value(json_object_get(o, "format")),
               *made = json_string_value(json_object_get(o, "rowfold")),
               *device = json_string_value(json_object_get(o, "device")),
               *name = json_string_value(json_object_get(o, "policy")),
               *said = json_string_value(json_object_get(o, "hash"));
    const json_t *list = json_object_get(o, "coefficients");
    Err err = OK;
    if (!format || !str_eq(format, format_name) || !made || !device || !name || !said || !json_is_array(list))
        err = unreadable(cx, "it is not a calibration");
    if (!err && !str_eq(made, ROWFOLD_VERSION_TEXT))
        err = diag(cx, S_COST_CALIBRATION_STALE, NOWHERE, ROWFOLD_VERSION_TEXT, "the calibration is of rowfold %.40s",
                   made);
    if (!err && !str_eq(device, identity))
        err =
            diag(cx, S_COST_CALIBRATION_FOREIGN, NOWHERE,
                 "a calibration of this device, or the --threads of its making", "the calibration is of %s; here is %s",
                 text_apart(cx->a, device, identity, "; "), text_apart(cx->a, identity, device, "; "));
    if (!err) {
        char *kept = arena_printf(cx->a, "%s", said);
        name = arena_printf(cx->a, "%s", name);
        snprintf(hash, 65, "%.64s", kept);
        char hex[65];
        hash_of(o, hex);
        if (!str_eq(kept, hex)) err = unreadable(cx, "it was altered: its hash is not that of its content");
        list = json_object_get(o, "coefficients");
    }
    if (!err) err = cost_find(cx, name, policy);
    if (!err && (int)json_array_size(list) != (*policy)->ncoefs) err = unreadable(cx, "it has other coefficients");
    for (int i = 0; !err && i < (*policy)->ncoefs; i++) {
        const json_t *c = json_array_get(list, (size_t)i);
        const char *is = json_string_value(json_object_get(c, "name"));
        coef[i] = json_number_value(json_object_get(c, "value"));
        if (!is || !str_eq(is, (*policy)->coef[i].name)) err = unreadable(cx, "it has other coefficients");
    }
    json_decref(o);
    return err;
}
