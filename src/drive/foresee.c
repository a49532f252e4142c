/* Trials of a store -> what cost policies say of them, and coefficients that are fitted to them. Each trial's problem
 * is made again from its key and its plan lowered and counted anew, so that no device is needed and scores are those of
 * this rowfold, whenever the trial was made. */
#include "drive.h"

#include <jansson.h>
#include <string.h>

/* A trial's time: the lower quartile of its samples, since what disturbs a measurement makes it longer. */
static double past_ns(const StoreTrial *t) {
    double s[STORE_SAMPLES];
    int n = 0;
    for (; n < t->nsamples; n++) {
        int k = n;
        for (; k > 0 && s[k - 1] > t->sample_ns[n]; k--) s[k] = s[k - 1];
        s[k] = t->sample_ns[n];
    }
    return n ? s[(n - 1) / 4] : t->median_ns;
}

typedef struct Past { /* a trial */
    StoreKey key;
    StoreTrial t;
    Demand demand;
    Launch launch;
    const Caps *caps;
    int problem; /* from 1 */
} Past;

typedef struct Pasts {
    Cx *cx;
    Past *item;
    int n, cap, problems, unreadable;
    Problem pb; /* of the last one */
} Pasts;

static Past *past_room(Pasts *p) {
    if (p->n == p->cap) {
        const int cap = p->cap ? 2 * p->cap : 256;
        Past *more = NEWN(p->cx->a, Past, cap);
        if (p->n) memcpy(more, p->item, sizeof *more * (size_t)p->n);
        p->item = more, p->cap = cap;
    }
    return &p->item[p->n];
}

/* Of one plan of a problem the best evidence: the finals' times, where it came so far. */
static Past *same_plan(Pasts *p, const StoreTrial *t) {
    for (int i = p->n - 1; i >= 0 && p->item[i].problem == p->problems; i--)
        if (str_eq(p->item[i].t.plan, t->plan)) return &p->item[i];
    return NULL;
}

static int registers_of(const char *facts) {
    json_t *o = json_loads(facts, 0, NULL);
    const int n = (int)json_integer_value(json_object_get(o, "registers"));
    json_decref(o);
    return n > 0 ? n : 0;
}

static Err count_again(Cx *cx, const Problem *pb, Past *x) {
    Plan plan;
    Kern *k;
    Err err = plan_read(cx, x->t.plan, &plan);
    if (!err) err = kern_lower(cx, pb, &plan, &k);
    if (err) return err;
    kern_count(cx, k, &x->demand);
    x->launch = search_launch(pb, &plan);
    if (store_key_is_cold(&x->key)) x->launch.copies = bed_copies(pb);
    x->launch.registers = registers_of(x->t.facts);
    return OK;
}

static Err past_take(void *user, const StoreKey *k, const StoreTrial *t) {
    Pasts *p = user;
    if (*t->slug || !(t->median_ns > 0) || !str_eq(k->rowfold, ROWFOLD_VERSION_TEXT)) return OK;
    const bool again = p->n && str_eq(p->item[p->n - 1].key.sha, k->sha);
    Cx own = {.a = p->cx->a};
    if (!again && store_problem(&own, k, &p->pb)) return p->unreadable++, OK;
    if (!again) p->problems++;
    Past *old = again ? same_plan(p, t) : NULL;
    if (old) {
        if (t->stage >= old->t.stage) old->t = *t;
        return OK;
    }
    Past *x = past_room(p);
    *x = (Past){.key = *k, .t = *t, .problem = p->problems};
    if (again)
        x->caps = p->item[p->n - 1].caps;
    else
        x->caps = arena_dup(p->cx->a, &p->pb.caps, sizeof p->pb.caps);
    own = (Cx){.a = arena_sub(p->cx->a)};
    if (count_again(&own, &p->pb, x))
        p->unreadable++;
    else
        p->n++;
    arena_free(own.a);
    return OK;
}

/* ---- scores ---- */

static void put_texts(const Past *x, Buf *b) {
    const struct {
        const char *name, *value;
    } text[] = {{"device", x->key.device}, {"kernel", x->key.kernel},     {"plan", x->t.plan},
                {"problem", x->key.sha},   {"promises", x->key.promises}, {"shape", x->key.shape},
                {"types", x->key.types}};
    for (int i = 0; i < COUNT(text); i++) {
        buf_fmt(b, "\"%s\":", text[i].name);
        buf_json(b, text[i].value);
        buf_str(b, ",");
    }
}

static void put_launch(const Launch *l, Buf *b) {
    buf_fmt(b,
            ",\"launch\":{\"rows\":%lld,\"lanes\":%d,\"subgroup\":%d,\"rows_per_group\":%d,\"groups_per_row\":%d,"
            "\"split\":%s,\"bytes\":%s,"
            "\"pack\":%d,\"flight\":%d,\"prefetch\":%d,\"copies\":%d,\"stream\":%s,\"overlap\":%s,"
            "\"queued\":%s,\"registers\":%d}",
            (long long)l->rows, l->lanes, l->subgroup, l->rows_per_group, l->groups_per_row,
            l->split ? "true" : "false", l->bytes ? "true" : "false", l->pack, l->flight, l->prefetch, l->copies,
            l->stream ? "true" : "false", l->overlap ? "true" : "false", l->queued ? "true" : "false", l->registers);
}

static void put_past(Cx *cx, const Past *x, const CostPolicy *const *policy, int n, const CostPolicy *of,
                     const double *coef, Buf *b) {
    Buf scores = buf_new(cx->a);
    buf_str(b, "{");
    put_texts(x, b);
    buf_fmt(b, "\"registers\":%d,\"live_values\":", x->launch.registers);
    buf_f64(b, x->demand.live_values);
    buf_str(b, ",\"stripe_slots\":");
    buf_f64(b, x->demand.stripe_slots);
    buf_str(b, ",\"ns\":");
    buf_f64(b, past_ns(&x->t));
    buf_str(b, ",\"samples_ns\":[");
    for (int i = 0; i < x->t.nsamples; i++) {
        buf_str(b, i ? "," : "");
        buf_f64(b, x->t.sample_ns[i]);
    }
    buf_str(b, "],\"demand\":");
    demand_json(&x->demand, b);
    put_launch(&x->launch, b);
    buf_str(b, ",\"score\":");
    for (int i = 0; i < n; i++) {
        Score s = {0};
        Cx own = {.a = cx->a};
        const bool had =
            cost_score(&own, policy[i], &x->demand, x->caps, &x->launch, policy[i] == of ? coef : NULL, &s) == OK;
        if (policy[i] == of && had) score_json(&s, b);
        if (policy[i] == of && !had) buf_str(b, "null");
        if (!had) continue;
        buf_fmt(&scores, "%s\"%s\":", scores.n ? "," : "", policy[i]->name);
        buf_f64(&scores, s.total);
    }
    buf_fmt(b, ",\"scores\":{%s}}", scores.n ? scores.s : "");
}

/* The device that all trials are of. */
static Err one_device(Cx *cx, const Pasts *p, const char **device) {
    *device = p->n ? p->item[0].key.device : NULL;
    for (int i = 1; i < p->n; i++)
        if (!str_eq(p->item[i].key.device, *device))
            return diag(cx, S_COST_TRIALS, NOWHERE, "a filter: device=PART", "trials of %.80s and of %.80s", *device,
                        p->item[i].key.device);
    return p->n ? OK
                : diag(cx, S_COST_TRIALS, NOWHERE,
                       "trials of this rowfold: run `rowfold tune` with the store, or widen the filter",
                       "there are no trials%s", p->unreadable ? " that this rowfold can read" : "");
}

Err foresee_scores(Cx *cx, const ForeseeRequest *q, const char **out) {
    Pasts p = {.cx = cx};
    const CostPolicy *const *policy, *of = NULL;
    double coef[MAX_COEFS] = {0};
    char hash[65] = "";
    const char *device;
    const int n = cost_policies(&policy);
    Err err = store_each(cx, q->store, &q->filter, past_take, &p);
    if (!err) err = one_device(cx, &p, &device);
    if (!err && q->calibration)
        err = calibration_read(cx, q->calibration, strlen(q->calibration), device, &of, coef, hash);
    if (!err && !of) {
        err = cost_find(cx, "roofline", &of);
        cost_nominal(of, p.item[0].caps, coef);
    }
    if (err) return err;
    Buf b = buf_new(cx->a);
    buf_fmt(&b, "{\"calibration\":\"%s\",\"unreadable\":%d,\"trials\":[", hash, p.unreadable);
    for (int i = 0; i < p.n; i++) {
        Arena *a = arena_sub(cx->a); /* what is said of one trial, so that thousands do not add up */
        Cx own = {.a = a};
        buf_str(&b, i ? ",\n" : "\n");
        put_past(&own, &p.item[i], policy, n, of, coef, &b);
        arena_free(a);
    }
    buf_str(&b, "\n]}");
    *out = b.s;
    return OK;
}

/* ---- the fit ---- */

Err foresee_fit(Cx *cx, const ForeseeRequest *q, const char **out) {
    Pasts p = {.cx = cx};
    const CostPolicy *of = NULL;
    double start[MAX_COEFS] = {0};
    char hash[65] = "";
    const char *device = NULL;
    Fit fit;
    Err err = store_each(cx, q->store, &q->filter, past_take, &p);
    if (!err) err = one_device(cx, &p, &device);
    if (!err && q->calibration)
        err = calibration_read(cx, q->calibration, strlen(q->calibration), device, &of, start, hash);
    if (!err && !of) {
        err = cost_find(cx, "roofline", &of);
        cost_nominal(of, p.item[0].caps, start);
    }
    if (err) return err;
    FitSample *s = NEWN(cx->a, FitSample, p.n);
    Buf all = buf_new(cx->a);
    for (int i = 0; i < p.n; i++) {
        const Past *x = &p.item[i];
        s[i] = (FitSample){x->demand, x->launch, x->caps, past_ns(&x->t), x->problem};
        buf_fmt(&all, "%s %s %.17g\n", x->key.sha, x->t.plan, s[i].ns);
    }
    uint64_t held;
    err = calibration_fit(cx, of, s, p.n, start, &fit, &held); /* few trials may pull a coefficient anywhere */
    if (err) return err;
    char sha[65];
    sha256_hex(all.s, all.n, sha);
    json_t *o = calibration_json(of, p.item[0].caps, device, &fit);
    json_object_set_new(o, "trials",
                        json_pack("{s:i,s:i,s:i,s:s,s:s,s:o}", "count", p.n, "problems", p.problems, "unreadable",
                                  p.unreadable, "sha256", sha, "on_top_of", hash, "held", calibration_names(of, held)));
    return calibration_text(cx, o, out);
}
