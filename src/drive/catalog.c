/* Cases -> a catalog: the plan that is chosen for each, with all that it rests on, frozen under its own hash. And back:
 * a frozen case -> the problem that it is about. */
#include "evidence.h"

#include <jansson.h>
#include <string.h>

/* ---- a case and its choice ---- */

static json_t *raw(const Buf *b) {
    json_t *j = b->s ? json_loads(b->s, JSON_DECODE_ANY, NULL) : NULL;
    return j ? j : json_null();
}

static void put_params(const Prog *p, json_t *list) {
    static const char *const dirs[] = {
        [DIR_IN] = "in", [DIR_OUT] = "out", [DIR_INOUT] = "inout", [DIR_SCALAR] = "scalar", [DIR_CONST] = "const"};
    for (int i = 0; i < p->nparams; i++) {
        const Param *q = &p->param[i];
        json_t *o = record_element(
            list, json_pack("{s:s,s:s,s:s}", "name", q->name, "direction", dirs[q->dir], "type", ty_text(q->ty)));
        json_t *axes = record_member(o, "axes", json_array());
        for (int d = 0; d < q->rank; d++) json_array_append_new(axes, json_string(p->axis[q->axis[d]].name));
        if ((q->dir == DIR_SCALAR && q->has_default) || q->dir == DIR_CONST)
            json_object_set_new(o, "value", record_number(q->def));
    }
}

static void put_inputs(const Bed *b, uint64_t seed, json_t *o) {
    const Prog *p = b->pb->prog;
    json_t *list = record_member(o, "tensors", json_array());
    json_object_set_new(o, "generator", json_string("rowfold-fill-1"));
    json_object_set_new(o, "fill", json_string(fill_text(FILL_NORMAL)));
    json_object_set_new(o, "seed", json_integer((json_int_t)seed));
    for (int i = 0; i < p->nparams; i++) {
        if (p->param[i].dir != DIR_IN && p->param[i].dir != DIR_INOUT) continue;
        record_element(list, json_pack("{s:s,s:I,s:I,s:I,s:o}", "param", p->param[i].name, "index_bound",
                                       (json_int_t)fill_bound(p, &b->pb->shape, i), "elements",
                                       (json_int_t)b->size[i] / ty_bytes(p->param[i].ty), "bytes",
                                       (json_int_t)b->size[i], "sha256", record_sha(b->host.t[i].data, b->size[i])));
    }
}

static void put_scores(Cx *cx, const Made *m, json_t *list) {
    const CostPolicy *const *policy;
    const Launch l = search_launch(&m->pb, &m->kern->plan);
    const int n = cost_policies(&policy);
    for (int i = 0; i < n; i++) {
        Score s;
        Cx own = {.a = cx->a};
        Buf b = buf_new(cx->a);
        if (cost_score(&own, policy[i], &m->demand, &m->pb.caps, &l, NULL, &s)) continue;
        score_json(&s, &b);
        json_t *o = record_element(list, raw(&b));
        json_object_set_new(o, "policy", json_string(policy[i]->name));
        json_t *coefs = record_member(o, "coefficients", json_object());
        double coef[MAX_COEFS];
        cost_nominal(policy[i], &m->pb.caps, coef);
        for (int k = 0; k < policy[i]->ncoefs; k++)
            json_object_set_new(coefs, policy[i]->coef[k].name, json_real(coef[k]));
        json_object_set_new(o, "launch",
                            json_pack("{s:I,s:i,s:i,s:i}", "rows", (json_int_t)l.rows, "lanes", l.lanes, "subgroup",
                                      l.subgroup, "rows_per_group", l.rows_per_group));
    }
}

static void put_trials(Cx *cx, const Search *s, json_t *refusals, json_t *trials) {
    static const char *const fates[] = {"refused", "ranked", "failed", "timed"};
    for (int64_t i = 0; i < s->ntrials; i++) {
        const Trial *t = &s->trial[i];
        Buf plan = buf_new(cx->a);
        plan_print(&t->plan, &plan);
        json_t *o = json_pack("{s:s,s:s}", "plan", plan.s, "fate", fates[t->fate]);
        if (t->fate == FATE_REFUSED || t->fate == FATE_FAILED) {
            o = record_element(refusals, o);
            json_object_set_new(o, "slug", json_string(slug_text(t->slug)));
            json_object_set_new(o, "why", record_text(t->why));
            continue;
        }
        o = record_element(trials, o);
        json_object_set_new(o, "score", record_number(t->score.total));
        if (t->fate != FATE_TIMED) continue;
        json_t *ns = record_member(o, "samples_ns", json_array());
        for (int k = 0; k < t->times.n; k++) json_array_append_new(ns, record_number(t->times.ns[k]));
        json_object_set_new(o, "calls", json_integer(t->times.calls));
        json_object_set_new(o, "median_ns", record_number(t->times.median));
        json_object_set_new(o, "worst_error_share", record_number(t->worst));
    }
}

static void put_counts(const Search *s, json_t *o) {
    json_int_t n[4] = {0};
    for (int64_t i = 0; i < s->ntrials; i++) n[s->trial[i].fate]++;
    json_object_set_new(o, "counts",
                        json_pack("{s:I,s:I,s:I,s:I,s:I}", "candidates", (json_int_t)s->ntrials, "refused",
                                  n[FATE_REFUSED], "failed", n[FATE_FAILED], "timed", n[FATE_TIMED], "ranked",
                                  n[FATE_RANKED]));
}

static Err put_legality(Cx *cx, const Made *m, json_t *o) {
    Stripes st;
    Err err = plan_check(cx, &m->pb, &m->kern->plan, NULL, &st);
    const Caps *c = &m->pb.caps;
    const Demand *d = &m->demand;
    if (!err)
        json_object_set_new(o, "legality",
                            json_pack("{s:I,s:I,s:s,s:i,s:I,s:I,s:s,s:o,s:o,s:o,s:i,s:i,s:b}", "stripes_live_slots",
                                      (json_int_t)st.live, "stripes_sum_slots", (json_int_t)st.sum, "rule",
                                      m->pb.summed_budget ? "summed" : "live", "budget_slots", c->stripe_slots, "need",
                                      (json_int_t)st.need, "budget", (json_int_t)st.budget, "unit",
                                      c->row_buffer_bytes ? "bytes a row" : "slots a lane", "rounds",
                                      record_number(d->lane_rounds), "packs", record_number(d->lane_packs),
                                      "shared_bytes", record_number(d->shared_bytes), "max_lanes", c->max_lanes,
                                      "max_group", c->max_group, "noalias", m->pb.noalias));
    return err;
}

static void put_bounds(const Made *m, json_t *o) {
    static const char *const stats[] = {
        [STAT_TWO_PASS] = "two-pass", [STAT_ONLINE] = "online", [STAT_SHIFTED] = "shifted", [STAT_WELFORD] = "welford"};
    const OracleOptions b = bed_bounds(&m->pb, &m->kern->plan);
    json_object_set_new(o, "bounds",
                        json_pack("{s:s,s:I,s:i,s:s,s:b,s:b,s:b,s:b}", "rule", "rowfold-bound-1", "serial",
                                  (json_int_t)b.serial, "joins", b.joins, "stat", stats[b.stat], "reciprocal",
                                  b.reciprocal, "fast_exp", b.fast_exp, "contract", b.contract, "native_math",
                                  b.native_math));
}

static void put_plan(Cx *cx, const Made *m, json_t *o) {
    static const char *const dialects[] = {
        [DIALECT_HOST] = "host", [DIALECT_CUDA] = "cuda", [DIALECT_OPENCL] = "opencl", [DIALECT_METAL] = "metal"};
    Buf plan = buf_new(cx->a), kern = buf_new(cx->a), demand = buf_new(cx->a);
    const Unit *u = &m->unit;
    plan_print(&m->kern->plan, &plan);
    kern_print(m->kern, &kern);
    demand_json(&m->demand, &demand);
    json_object_set_new(o, "plan", json_string(plan.s));
    json_object_set_new(o, "kern",
                        json_pack("{s:s,s:o}", "text", kern.s, "sha256", record_sha(kern.s, strlen(kern.s))));
    json_object_set_new(o, "unit",
                        json_pack("{s:o,s:I,s:s,s:s,s:i,s:i,s:I}", "sha256", record_sha(u->text, strlen(u->text)),
                                  "bytes", (json_int_t)strlen(u->text), "dialect", dialects[u->dialect], "entry",
                                  u->entry, "lanes", u->lanes, "rows_per_group", u->rows_per_group, "shared_bytes",
                                  (json_int_t)u->shared_bytes));
    json_object_set_new(o, "demand", raw(&demand));
}

static void put_case(Cx *cx, const Case *c, json_t *o) {
    const Prog *p = c->prog;
    Buf prog = buf_new(cx->a);
    const char *slash = strrchr(c->file, '/');
    prog_print(p, &prog);
    json_object_set_new(o, "id", record_text(c->id));
    json_object_set_new(o, "kernel", json_string(p->name));
    json_object_set_new(o, "source",
                        json_pack("{s:o,s:o,s:o}", "name", record_text(slash ? slash + 1 : c->file), "text",
                                  record_text(c->source), "sha256", record_sha(c->source, strlen(c->source))));
    json_object_set_new(o, "types", record_text(c->types));
    json_object_set_new(o, "constants", record_text(c->constants));
    json_object_set_new(o, "program",
                        json_pack("{s:s,s:o}", "text", prog.s, "sha256", record_sha(prog.s, strlen(prog.s))));
    put_params(p, record_member(o, "params", json_array()));
    json_t *rows = record_member(o, "row_axes", json_array()), *shape = record_member(o, "shape", json_object()),
           *regimes = record_member(o, "regimes", json_array());
    for (int i = 0; i < p->naxes; i++) {
        if (p->row_axes >> i & 1) json_array_append_new(rows, json_string(p->axis[i].name));
        json_object_set_new(shape, p->axis[i].name, json_integer(c->shape.n[i]));
    }
    for (const char *at = c->regimes; *at; at += strcspn(at, ","), at += *at == ',')
        json_array_append_new(regimes, json_stringn(at, strcspn(at, ",")));
}

static const char *joined(Cx *cx, const char *a, const char *b) {
    if (!a || !*a) return b && *b ? b : NULL;
    return b && *b ? arena_printf(cx->a, "%s,%s", a, b) : a;
}

static bool stop_search(void *user, const Progress *p) {
    (void)p;
    return evidence_over(user);
}

Err case_choose(Evidence *e, const Case *c, json_t *o) {
    Cx *cx = e->cx;
    const EvidenceAsk *q = e->ask;
    made_free(&e->made);
    bed_free(&e->bed);
    e->made = (Made){0};
    e->bed = (Bed){0};
    const uint64_t seed = q->measure.seed;
    Request *r = NEW(cx->a, Request); /* what is made points into it */
    *r = (Request){.prog = c->prog,
                   .shape = c->shape,
                   .dev = q->dev,
                   .caps = q->caps,
                   .identity = q->identity,
                   .effort = q->effort,
                   .pin = joined(cx, c->pin, q->pin),
                   .open = joined(cx, c->open, q->open),
                   .policy = q->policy,
                   .max_candidates = q->max_candidates,
                   .max_seconds = q->max_seconds,
                   .threads = q->measure.figures.threads,
                   .seed = seed,
                   .alias = c->alias,
                   .summed_budget = q->summed_budget,
                   .store = q->store,
                   .progress = stop_search,
                   .user = e,
                   .whole = true,
                   .worker = q->worker,
                   .al = q->al};
    put_case(cx, c, o);
    json_object_set_new(o, "request",
                        json_pack("{s:s,s:s,s:s,s:s,s:I,s:b,s:b}", "effort", effort_text(q->effort), "pin",
                                  r->pin ? r->pin : "", "open", r->open ? r->open : "", "policy",
                                  q->policy ? q->policy : "roofline", "max_candidates", (json_int_t)q->max_candidates,
                                  "assume_alias", c->alias, "summed_budget", q->summed_budget));
    Err err = drive_compile(cx, r, &e->made);
    Made *m = &e->made;
    if (m->search.trial) {
        put_trials(cx, &m->search, record_member(o, "refusals", json_array()),
                   record_member(o, "trials", json_array()));
        put_counts(&m->search, o);
    }
    if (!err && m->mod) mod_free(m->mod), m->mod = NULL; /* every measurement builds its own */
    bed_free(&m->bed);
    if (!err && evidence_over(e)) err = diag(cx, S_RECORD_STOPPED, NOWHERE, NULL, "stopped");
    if (!err) err = bed_make(cx, q->dev, &m->pb, seed, &e->bed);
    if (err) return err;
    put_inputs(&e->bed, seed, record_member(o, "inputs", json_object()));
    put_plan(cx, m, o);
    put_scores(cx, m, record_member(o, "scores", json_array()));
    put_bounds(m, o);
    err = put_legality(cx, m, o);
    record_seal(cx, o, "case_sha256");
    return err;
}

/* ---- back ---- */

static const char *text_at(const json_t *o, const char *key, const char *inner) {
    const json_t *j = json_object_get(o, key);
    return json_string_value(inner ? json_object_get(j, inner) : j);
}

Err case_problem(Cx *cx, const json_t *o, const Caps *caps, Problem *pb, uint64_t *seed) {
    const char *text = text_at(o, "program", "text"), *id = text_at(o, "id", NULL);
    const json_t *shape = json_object_get(o, "shape"), *request = json_object_get(o, "request");
    Prog *p;
    Shape s = {0};
    if (!text || !id) return diag(cx, S_RECORD_FORMAT, NOWHERE, NULL, "a case has no id or no program");
    Err err = prog_read(cx, text, strlen(text), &p);
    if (err) return err;
    for (int i = 0; i < MAX_AXES; i++) s.n[i] = -1;
    for (int i = 0; i < p->naxes; i++)
        if (p->axis[i].ext < 0) s.n[i] = json_integer_value(json_object_get(shape, p->axis[i].name));
    *seed = (uint64_t)json_integer_value(json_object_get(json_object_get(o, "inputs"), "seed"));
    err = problem_make(cx, p, &s, caps, 0, pb);
    if (err) return err;
    pb->noalias = !json_is_true(json_object_get(request, "assume_alias"));
    pb->summed_budget = json_is_true(json_object_get(request, "summed_budget"));
    return OK;
}

/* ---- freezing ---- */

bool evidence_over(Evidence *e) {
    const EvidenceAsk *q = e->ask;
    e->at.elapsed_s = (double)(t_now_ns() - e->from_ns) / 1e9;
    return e->stopped |= q->progress && q->progress(q->user, &e->at);
}

bool evidence_tell(Evidence *e, int done, int total, const char *what) {
    e->at = (EvidenceProgress){.done = done, .total = total, .what = what};
    return evidence_over(e);
}

/* Of what a journal of cases is: all that decides on them. */
static json_t *freeze_head(Cx *cx, const EvidenceAsk *q, const Case *c, int n, json_t *provenance) {
    json_t *o = json_pack("{s:o,s:o,s:s}", "suite", record_text(q->suite), "options", options_json(q), "effort",
                          effort_text(q->effort));
    const char *const words[][2] = {
        {"pin", q->pin}, {"search", q->open}, {"policy", q->policy}, {"identity", q->identity}};
    for (int i = 0; i < COUNT(words); i++) json_object_set_new(o, words[i][0], record_text(words[i][1]));
    json_object_set_new(o, "budget",
                        json_pack("[I,o,b,I]", (json_int_t)q->max_candidates, record_number(q->max_seconds),
                                  q->summed_budget, (json_int_t)q->measure.seed));
    json_object_set(o, "binaries", json_object_get(provenance, "binaries"));
    json_t *list = record_member(o, "cases", json_array());
    for (int i = 0; i < n; i++) {
        const char *const of[] = {c[i].id, c[i].source, c[i].constants, c[i].pin, c[i].open, c[i].regimes};
        Buf b = buf_new(cx->a);
        for (int k = 0; k < COUNT(of); k++)
            buf_fmt(&b, "%s%c", of[k] ? of[k] : "", k < COUNT(of) - 1 ? '\n' : c[i].alias ? 'a' : '-');
        json_array_append_new(list, record_sha(b.s, b.n));
    }
    return o;
}

typedef struct Freezing {
    Evidence *e;
    const Case *c;
    int n;
    json_t *cases;
} Freezing;

/* A case that was frozen before is as it was sealed. */
static bool take_case(void *user, const json_t *line) {
    Freezing *f = user;
    const int at = (int)json_array_size(f->cases);
    const char *id = text_at(line, "id", NULL), *sha = text_at(line, "case_sha256", NULL);
    if (at >= f->n || !id || !sha || !str_eq(id, f->c[at].id)) return false;
    json_t *copy = record_element(f->cases, json_deep_copy(line));
    record_seal(f->e->cx, copy, "case_sha256");
    return json_equal(copy, line);
}

Err evidence_freeze(Cx *cx, const EvidenceAsk *q, const Case *c, int n, Evidence *e, const char **out) {
    *e = (Evidence){.cx = cx, .ask = q, .from_ns = t_now_ns(), .root = json_object()};
    json_object_set_new(e->root, "format", json_string("rowfold-catalog-1"));
    json_object_set_new(e->root, "suite", record_text(q->suite));
    Err err = provenance_make(cx, q, record_member(e->root, "provenance", json_object()));
    json_t *cases = record_member(e->root, "cases", json_array());
    Freezing f = {e, c, n, cases};
    const char *journal = q->record ? arena_printf(cx->a, "%s.part", q->record) : NULL;
    if (!err && journal) {
        json_t *head = e->spare[3] = freeze_head(cx, q, c, n, json_object_get(e->root, "provenance"));
        err = journal_open(e, journal, head, take_case, &f);
    }
    for (int i = (int)json_array_size(cases); i < n && !err; i++) {
        json_t *o = record_element(cases, json_object());
        Cx own = {.a = cx->a};
        e->cx = &own;
        if (!evidence_tell(e, i, n, c[i].id)) err = case_choose(e, &c[i], o);
        e->cx = cx;
        if (e->stopped)
            return journal
                       ? diag(cx, S_RECORD_STOPPED, NOWHERE, NULL, "stopped after %d of %d case%s; they are in %s", i,
                              n, plural(n), journal)
                       : diag(cx, S_RECORD_STOPPED, NOWHERE, NULL, "stopped after %d of %d case%s", i, n, plural(n));
        if (err) return diag(cx, own.first->slug, NOWHERE, own.first->accept, "%s", own.first->msg);
        if (journal) err = journal_append(e, cx, journal, o);
    }
    if (err) return err;
    evidence_tell(e, n, n, "");
    record_seal(cx, e->root, "hash");
    *out = record_print(cx, e->root);
    return OK;
}

Err catalog_fits(Cx *cx, const EvidenceAsk *q, const json_t *catalog) {
    const json_t *p = json_object_get(catalog, "provenance");
    const char *identity = text_at(p, "device", "identity"), *caps = text_at(p, "device", "caps");
    const char *version = text_at(p, "rowfold", NULL);
    Buf here = buf_new(cx->a);
    caps_print(q->caps, &here);
    if (!identity || !caps || !version || !json_array_size(json_object_get(catalog, "cases")))
        return diag(cx, S_RECORD_FORMAT, NOWHERE, NULL, "a catalog without a device, a version or cases");
    const bool other = !str_eq(identity, q->identity);
    const char *there = other ? identity : caps, *mine = other ? q->identity : here.s, *sep = other ? "; " : " ";
    if (!str_eq(there, mine))
        return diag(cx, S_REPLAY_DEVICE, NOWHERE,
                    "the device that it was frozen for, with the same --isa and --threads", "frozen for %s; here is %s",
                    text_apart(cx->a, there, mine, sep), text_apart(cx->a, mine, there, sep));
    return OK;
}

/* What of a frozen case does not come out again, or NULL. */
static const char *case_differs(Cx *cx, const EvidenceAsk *q, const json_t *o) {
    Problem pb;
    Plan plan;
    Kern *k;
    Unit u;
    uint64_t seed;
    const char *text = text_at(o, "plan", NULL), *kern = text_at(o, "kern", "sha256"),
               *unit = text_at(o, "unit", "sha256");
    char sha[65];
    Buf b = buf_new(cx->a), demand = buf_new(cx->a);
    Err err = case_problem(cx, o, q->caps, &pb, &seed);
    if (!err) err = text ? plan_read(cx, text, &plan) : diag(cx, S_RECORD_FORMAT, NOWHERE, NULL, "there is no plan");
    if (!err) err = attempt_lower(cx, &pb, &plan, &k);
    if (!err) err = attempt_spell(cx, &pb, k, &u);
    if (err) return arena_printf(cx->a, "%s: %s", slug_text(cx->first->slug), cx->first->msg);
    kern_print(k, &b);
    sha256_hex(b.s, strlen(b.s), sha);
    if (!kern || !str_eq(kern, sha)) return "the plan applied (kern) is another";
    sha256_hex(u.text, strlen(u.text), sha);
    if (!unit || !str_eq(unit, sha)) return "the source (unit) is another";
    Demand d;
    kern_count(cx, k, &d);
    demand_json(&d, &demand);
    json_t *again = raw(&demand);
    const bool same = json_equal(again, json_object_get(o, "demand"));
    json_decref(again);
    return same ? NULL : "the demand is another";
}

Err evidence_verify(Cx *cx, const EvidenceAsk *q, const char *text, size_t bytes, Evidence *e, const char **out) {
    *e = (Evidence){.cx = cx, .ask = q, .from_ns = t_now_ns()};
    Err err = record_read(cx, text, bytes, "rowfold-catalog-1", &e->root);
    if (!err) err = catalog_fits(cx, q, e->root);
    if (err) return err;
    json_t *list = e->spare[0] = json_array(), *o;
    const json_t *cases = json_object_get(e->root, "cases");
    const int n = (int)json_array_size(cases);
    const char *first = NULL;
    size_t i;
    json_array_foreach(cases, i, o) {
        Cx own = {.a = cx->a};
        const char *id = text_at(o, "id", NULL), *why = case_differs(&own, q, o);
        evidence_tell(e, (int)i, n, id ? id : "");
        if (why && !first) first = arena_printf(cx->a, "%s: %s", id ? id : "a case", why);
        record_element(list,
                       json_pack("{s:o,s:b,s:o}", "id", record_text(id), "ok", why == NULL, "why", record_text(why)));
    }
    *out = record_print(cx, list);
    return first ? diag(cx, S_REPLAY_SOURCE, NOWHERE, NULL, "%s", first) : OK;
}

void evidence_free(Evidence *e) {
    json_decref(e->root);
    e->root = NULL;
    for (int i = 0; i < COUNT(e->spare); i++) {
        json_decref(e->spare[i]);
        e->spare[i] = NULL;
    }
    measuring_free(&e->measuring);
    worker_free(e->worker);
    e->worker = NULL;
    bed_free(&e->bed);
    made_free(&e->made);
    if (e->journal) fclose(e->journal);
    e->journal = NULL;
}
