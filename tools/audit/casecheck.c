/* A case of a record: what it says of a problem, its plan, its kern and what follows from them. */
#include "checks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double caps_value(Mem *m, const char *caps, const char *key) {
    PlanItem item[ITEMS];
    const int n = plan_items(m, caps, item);
    for (int i = 0; i < n; i++)
        if (same_text(item[i].name, key)) return strtod(item[i].value, NULL);
    return (double)NAN;
}

static bool sha_is(const char *text, const char *sha) {
    char hex[65];
    sha256_text(text, strlen(text), hex);
    return same_text(hex, sha);
}

/* ---- the problem ---- */
static bool params_match(const Program *p, const json_t *params) {
    static const char *const ways[] = {"in", "out", "inout", "scalar", "const"};
    if (json_array_size(params) != (size_t)p->nparams) return false;
    for (int i = 0; i < p->nparams; i++) {
        const PParam *q = &p->param[i];
        const json_t *j = json_array_get(params, (size_t)i), *axes = at(j, "axes");
        if (!same_text(text_at(j, "name"), q->name) || !same_text(text_at(j, "direction"), ways[q->way]) ||
            !same_text(text_at(j, "type"), type_fact(q->ty)->name) || json_array_size(axes) != (size_t)q->rank)
            return false;
        for (int d = 0; d < q->rank; d++) {
            const char *name = json_string_value(json_array_get(axes, (size_t)d));
            if (!name || !same_text(name, p->axis[q->axis[d]].name)) return false;
        }
    }
    return true;
}

static bool rows_match(const Program *p, const json_t *rows) {
    size_t k = 0;
    for (int i = 0; i < p->naxes; i++) {
        if (!p->axis[i].row) continue;
        const char *name = json_string_value(json_array_get(rows, k++));
        if (!name || !same_text(name, p->axis[i].name)) return false;
    }
    return k == json_array_size(rows);
}

static void program_check(Audit *a, CaseInfo *c) {
    const json_t *prog = at(c->j, "program"), *shape = at(c->j, "shape");
    const char *text = text_at(prog, "text"), *why = "";
    check(a, sha_is(text, text_at(prog, "sha256")), "hash", c->place, "program.sha256 is not that of program.text");
    Program *p = program_read(a->m, text, strlen(text), &why);
    check(a, p != NULL, "program", c->place, "%s", why);
    if (!p) return;
    int64_t ext[AXES];
    bool whole = json_object_size(shape) == (size_t)p->naxes;
    for (int i = 0; i < AXES; i++) ext[i] = i < p->naxes ? int_at_key(shape, p->axis[i].name, -1) : -1;
    for (int i = 0; i < p->naxes; i++) whole &= ext[i] >= 0;
    if (!check(a, whole && program_bind(a->m, p, ext, &why), "program", c->place, "shape: %s",
               whole ? why : "not the axes of the program"))
        return;
    check(a, params_match(p, at(c->j, "params")), "program", c->place, "params are not those of the program");
    check(a, rows_match(p, at(c->j, "row_axes")), "program", c->place, "row_axes are not those of the program");
    check(a, same_text(p->name, text_at(c->j, "kernel")), "program", c->place, "the program is of another kernel");
    c->p = p;
}

static bool tensor_hash(Audit *a, const Tensor *t, char hex[65]) {
    const int64_t bytes = t->count * type_fact(t->ty)->bytes;
    if (bytes > a->bytes_left || a->quick) return false;
    a->bytes_left -= bytes;
    Block *mark;
    size_t used;
    mem_mark(a->m, &mark, &used);
    uint8_t *b = mem_get(a->m, (size_t)bytes + 8);
    for (int64_t i = 0; i < t->count; i++) number_bits(t->ty, tensor_at(t, i), b + i * type_fact(t->ty)->bytes);
    sha256_text(b, (size_t)bytes, hex);
    mem_back(a->m, mark, used);
    return true;
}

static void inputs_check(Audit *a, CaseInfo *c) {
    const json_t *in = at(c->j, "inputs"), *list = at(in, "tensors");
    int fill = 0;
    const bool known = same_text(text_at(in, "generator"), "rowfold-fill-1") &&
                       fill_named(text_at(in, "fill"), &fill) && json_is_integer(at(in, "seed"));
    if (!check(a, known, "inputs", c->place, "generator, fill or seed is not known")) return;
    c->seed = (uint64_t)int_at_key(in, "seed", 0);
    size_t k = 0;
    bool ok = true;
    for (int i = 0; i < c->p->nparams; i++) {
        const PParam *q = &c->p->param[i];
        const json_t *param = json_array_get(at(c->j, "params"), (size_t)i);
        if (q->way == W_SCALAR) {
            const double v = at(param, "value") ? real_at(param, "value") : q->has_default ? q->def : 1;
            const bool whole = type_fact(q->ty)->kind != REAL;
            if (whole && !(fabs(v) < 0x1p62)) ok = false;
            const Number x = {(long double)v, whole && fabs(v) < 0x1p62 ? (int64_t)v : 0};
            c->scalar[i] = convert(whole ? I64 : F64, q->ty, x);
        }
        if (q->way != W_IN && q->way != W_INOUT) continue;
        Tensor *t = &c->in[i];
        *t = (Tensor){
            .ty = q->ty, .rank = q->rank, .fill = fill, .count = 1, .row = 1, .seed = 64 * c->seed + (uint64_t)i};
        for (int d = 0; d < q->rank; d++) t->count *= c->p->n[q->axis[d]];
        if (q->rank) t->row = c->p->n[q->axis[q->rank - 1]];
        t->index_bound = index_bound_of(c->p, i);
        const json_t *j = json_array_get(list, k++);
        const char *place = mem_fmt(a->m, "%s input %s", c->place, q->name);
        ok &= check(a,
                    same_text(text_at(j, "param"), q->name) && int_at_key(j, "elements", -1) == t->count &&
                        int_at_key(j, "bytes", -1) == t->count * type_fact(q->ty)->bytes &&
                        int_at_key(j, "index_bound", -1) == t->index_bound,
                    "inputs", place, "name, elements, bytes or index_bound are not those of the program");
        char hex[65];
        if (!ok) continue;
        if (tensor_hash(a, t, hex))
            ok &= check(a, same_text(hex, text_at(j, "sha256")), "inputs", place,
                        "the generator gives bytes of another hash, %s", hex);
        else
            unknown(a, "inputs", place, "too many bytes to make again here");
    }
    ok &=
        check(a, k == json_array_size(list), "inputs", c->place, "inputs.tensors has others than the program's inputs");
    c->inputs_known = ok;
}

/* ---- plan and kern ---- */
static void same_number(Audit *a, const CaseInfo *c, const char *claim, const char *what, double recorded, double own) {
    check(a, near(recorded, own) && !isnan(recorded), claim, c->place,
          "%s is %.17g in the record and %.17g by the formula", what, recorded, own);
}

static void demand_check(Audit *a, const CaseInfo *c, const Counted *k) {
    static const char *const classes[CLASSES] = {"free", "alu", "div", "special", "convert", "memory"};
    const json_t *d = at(c->j, "demand");
    if (!flag_at(d, "known")) {
        unknown(a, "demand", c->place, "the record says that it is not known");
        return;
    }
    const struct {
        const char *key;
        const Traffic *t;
        const char *ops;
        const double *n;
    } side[] = {{"lane", &k->lane, "lane_ops", k->lane_ops}, {"row", &k->row, "row_ops", k->row_ops}};
    for (int s = 0; s < 2; s++) {
        const json_t *t = at(d, side[s].key), *ops = at(d, side[s].ops);
        same_number(a, c, "demand", mem_fmt(a->m, "%s.global_read", side[s].key), real_at(t, "global_read"),
                    side[s].t->read);
        same_number(a, c, "demand", mem_fmt(a->m, "%s.global_write", side[s].key), real_at(t, "global_write"),
                    side[s].t->write);
        same_number(a, c, "demand", mem_fmt(a->m, "%s.private_read", side[s].key), real_at(t, "private_read"),
                    side[s].t->private_read);
        same_number(a, c, "demand", mem_fmt(a->m, "%s.private_write", side[s].key), real_at(t, "private_write"),
                    side[s].t->private_write);
        for (int i = 0; i < CLASSES; i++)
            same_number(a, c, "demand", mem_fmt(a->m, "%s.%s", side[s].ops, classes[i]), real_at(ops, classes[i]),
                        side[s].n[i]);
    }
    same_number(a, c, "demand", "lane_rounds", real_at(d, "lane_rounds"), k->rounds);
    same_number(a, c, "demand", "lane_packs", real_at(d, "lane_packs"), k->packs);
    same_number(a, c, "demand", "collectives", real_at(d, "collectives"), k->collectives);
    same_number(a, c, "demand", "barriers", real_at(d, "barriers"), k->barriers);
    same_number(a, c, "demand", "shared_bytes", real_at(d, "shared_bytes"), k->shared_bytes);
    same_number(a, c, "demand", "launches", real_at(d, "launches"), 1);
    same_number(a, c, "demand", "reductions", real_at(d, "reductions"), plan_reductions(a->m, c->p));
    same_number(a, c, "slots", "demand.stripe_slots", real_at(d, "stripe_slots"), (double)k->live);
    same_number(a, c, "slots", "demand.stripe_slots_sum", real_at(d, "stripe_slots_sum"), (double)k->sum);
    const double first = real_at(d, "first_read");
    check(a, first >= 0 && first <= k->row.read, "demand", c->place, "first_read is more than is read");
    check(a, real_at(d, "live_values") >= 0, "demand", c->place, "live_values is no count");
    int64_t rounds;
    int sweeps;
    if (k->serial || !c->plan_known || !plan_rounds(a->m, c->p, &c->plan, &rounds, &sweeps)) {
        unknown(a, "demand", c->place, "rounds by the program alone: its sweeps loop over some axes, or fill stripes");
    } else {
        same_number(a, c, "demand", "lane_rounds, by the program alone,", real_at(d, "lane_rounds"), (double)rounds);
        check(a, k->sweeps == sweeps && k->own_sweeps == sweeps, "kern", c->place,
              "it has %lld sweeps, the program needs %d", (long long)k->own_sweeps, sweeps);
    }
}

static void slots_check(Audit *a, const CaseInfo *c, const Counted *k, const char *caps) {
    const json_t *l = at(c->j, "legality");
    if (k->serial || k->array_words)
        unknown(a, "slots", c->place, "stripes over looped axes: live ranges are not those of single sweeps");
    else
        check(a, k->own_sum == k->sum && k->own_live <= k->live && k->live <= k->sum, "slots", c->place,
              "the kern says %lld live of %lld slots, its stripes have %lld of %lld", (long long)k->live,
              (long long)k->sum, (long long)k->own_live, (long long)k->own_sum);
    check(a, int_at_key(l, "stripes_live_slots", -1) == k->live && int_at_key(l, "stripes_sum_slots", -1) == k->sum,
          "slots", c->place, "legality says %lld live of %lld slots, the kern %lld of %lld",
          (long long)int_at_key(l, "stripes_live_slots", -1), (long long)int_at_key(l, "stripes_sum_slots", -1),
          (long long)k->live, (long long)k->sum);
    same_number(a, c, "slots", "legality.rounds", real_at(l, "rounds"), k->rounds);
    same_number(a, c, "slots", "legality.packs", real_at(l, "packs"), k->packs);
    same_number(a, c, "slots", "legality.shared_bytes", real_at(l, "shared_bytes"), k->shared_bytes);
    const char *rule = text_at(l, "rule");
    const bool summed = same_text(rule, "summed"), known = summed || same_text(rule, "live");
    check(a, known && summed == flag_at(at(c->j, "request"), "summed_budget"), "budget", c->place,
          "rule is not the one that was asked for");
    const double buffer = caps_value(a->m, caps, "row_buffer_bytes"), stripe = caps_value(a->m, caps, "stripe_slots");
    same_number(a, c, "budget", "legality.budget_slots", real_at(l, "budget_slots"), stripe);
    const double used = (double)(summed ? k->sum : k->live);
    const double need =
        buffer > 0 ? 4 * (used + (double)k->own_more) * (double)c->plan.W + 4 * (double)k->array_words : used;
    if (!k->array_words) same_number(a, c, "budget", "legality.need", real_at(l, "need"), need);
    same_number(a, c, "budget", "legality.budget", real_at(l, "budget"), buffer > 0 ? buffer : stripe);
    check(a, real_at(l, "need") <= real_at(l, "budget"), "budget", c->place, "need %.17g is above the budget %.17g",
          real_at(l, "need"), real_at(l, "budget"));
    const double lanes = caps_value(a->m, caps, "max_lanes"), group = caps_value(a->m, caps, "max_group");
    same_number(a, c, "budget", "legality.max_lanes", real_at(l, "max_lanes"), lanes);
    same_number(a, c, "budget", "legality.max_group", real_at(l, "max_group"), group);
    check(a, (double)c->plan.W <= lanes, "budget", c->place, "W=%lld of at most %.17g lanes", (long long)c->plan.W,
          lanes);
    check(a, k->shared_bytes <= caps_value(a->m, caps, "shared_bytes") || !(caps_value(a->m, caps, "shared_bytes") > 0),
          "budget", c->place, "%.17g bytes of shared memory", k->shared_bytes);
}

/* Places of shifted rows have one lane's elements, and their steps carry nothing on. */
static void shift_check(Audit *a, const CaseInfo *c, const Counted *k) {
    const PlanText *p = &c->plan;
    if (!c->plan_known || p->tail != HEAD_SHIFT) return;
    check(a,
          p->V == 1 && p->W > 1 && p->lanes == p->W && !k->serial && k->least_sweep >= p->W * p->flight &&
              (p->stat == TWO_PASS || p->stat == SHIFTED),
          "kern", c->place, "rows of such a plan are not shifted: V=%lld W=%lld flight=%lld, sweeps of %lld elements",
          (long long)p->V, (long long)p->W, (long long)p->flight, (long long)k->least_sweep);
}

static double coefficient(const json_t *s, const char *name, double def, bool *ok) {
    const double x = real_at(at(s, "coefficients"), name);
    *ok &= x == def;
    return x;
}

static void scores_check(Audit *a, const CaseInfo *c, const Counted *k) {
    const json_t *list = at(c->j, "scores"), *d = at(c->j, "demand");
    bool prior = false;
    int others = 0;
    size_t i;
    json_t *s;
    const int64_t rows = program_points(c->p, c->p->rows);
    json_array_foreach((json_t *)list, i, s) {
        const json_t *l = at(s, "launch");
        const char *policy = text_at(s, "policy"), *place = mem_fmt(a->m, "%s score %s", c->place, policy);
        check(a,
              int_at_key(l, "rows", -1) == rows && int_at_key(l, "lanes", -1) == c->plan.W &&
                  int_at_key(l, "subgroup", -1) == k->subgroup && int_at_key(l, "rows_per_group", -1) == c->plan.P,
              "score", place, "the launch is not that of the shape, the plan and the machine");
        check(a, real_at(s, "total") >= 0 && isfinite(real_at(s, "total")), "score", place,
              "a score is finite and not negative");
        if (!same_text(policy, "prior")) {
            others++;
            continue;
        }
        prior = true;
        bool usual = true;
        const double round = coefficient(s, "round", 1, &usual), collective = coefficient(s, "collective", 2, &usual),
                     setup = coefficient(s, "setup", 16, &usual), global = coefficient(s, "global-byte", 0, &usual),
                     priv = coefficient(s, "private-byte", 0, &usual), many = coefficient(s, "concurrent", 64, &usual);
        check(a, usual, "score", place, "coefficients are not the prior system's");
        const double S = (double)up_div(c->plan.W, max_of(k->subgroup, 1));
        const double program = round * k->rounds + collective * real_at(d, "reductions") * S +
                               setup / (double)c->plan.P + global * (k->lane.read + k->lane.write) +
                               priv * (k->lane.private_read + k->lane.private_write);
        const double waves = many > 0 ? fmax(1, ceil((double)rows / many)) : 1;
        same_number(a, c, "score", "the prior score", real_at(s, "total"), program * waves);
        double sum = 0;
        size_t t;
        json_t *term;
        json_array_foreach(at(s, "terms"), t, term) {
            const char *name = text_at(term, "name");
            if (same_text(name, "program score") || same_text(name, "waves"))
                same_number(a, c, "score", mem_fmt(a->m, "the term %s of prior", name), real_at(term, "value"),
                            *name == 'w' ? waves : program);
            else
                sum += real_at(term, "value");
        }
        same_number(a, c, "score", "the sum of the terms of prior", sum, program);
    }
    if (!prior) unknown(a, "score", c->place, "no prior score is recorded");
    if (others) unknown(a, "score", c->place, "%d scores by formulas that docs/records.md does not give", others);
}

static void bounds_check(Audit *a, CaseInfo *c, const Counted *k) {
    static const char *const stats[STATS] = {"two-pass", "online", "shifted", "welford"};
    const json_t *b = at(c->j, "bounds");
    const int64_t lanes = c->plan.lanes * c->plan.acc, serial = int_at_key(b, "serial", -1);
    int64_t joins = 0, most = 1, least = 1;
    while (joins < 40 && (int64_t)1 << joins < lanes) joins++;
    bool looped = k->serial;
    for (int i = 0; i < c->p->nvals; i++) {
        const PVal *v = &c->p->val[i];
        if (v->kind != V_RED) continue;
        const int64_t n = program_points(c->p, v->over);
        least = max_of(least, up_div(n, lanes) + c->plan.V * c->plan.flight);
        most = max_of(most, n * (1 + c->plan.V * c->plan.flight));
        looped |= (c->p->val[v->a[0]].axes & ~c->p->rows) != v->over;
    }
    check(a, same_text(text_at(b, "rule"), "rowfold-bound-1"), "bounds", c->place, "an unknown rule");
    check(a, int_at_key(b, "joins", -1) == joins, "bounds", c->place, "joins is %lld and %lld by W and acc",
          (long long)int_at_key(b, "joins", -1), (long long)joins);
    check(a, looped ? serial >= 1 && serial <= most : serial == least, "bounds", c->place,
          "serial is %lld and %lld by the plan", (long long)serial, (long long)least);
    check(a, same_text(text_at(b, "stat"), stats[c->plan.stat]), "bounds", c->place, "stat is not the plan's");
    check(a, at(b, "reciprocal") && flag_at(b, "reciprocal") == (c->plan.div == 1), "bounds", c->place,
          "reciprocal is not the plan's");
    check(a, flag_at(b, "fast_exp") == (c->plan.exp == 1), "bounds", c->place, "fast_exp is not the plan's");
    check(a, flag_at(b, "contract") == (c->plan.contract == 1), "bounds", c->place, "contract is not the plan's");
    check(a, at(b, "native_math") && flag_at(b, "native_math") == !k->poly, "bounds", c->place,
          "native_math is not the kern's");
    c->rules = plan_rules(c->p, &c->plan, !k->poly);
}

static void kern_check(Audit *a, CaseInfo *c, const char *caps) {
    const json_t *kern = at(c->j, "kern");
    const char *text = text_at(kern, "text"), *why = "";
    Counted k;
    c->kern_sha = text_at(kern, "sha256");
    c->unit_sha = text_at(at(c->j, "unit"), "sha256");
    c->plan_text = text_at(c->j, "plan");
    c->plan_known = check(a, plan_parse(a->m, c->plan_text, &c->plan, &why), "plan", c->place, "%s", why);
    if (c->plan_known && c->plan.unknown) {
        unknown(a, "plan", c->place, "dimension %.40s is not one that this auditor knows", c->plan.unknown);
        c->plan_known = false;
    }
    check(a, sha_is(text, c->kern_sha), "hash", c->place, "kern.sha256 is not that of kern.text");
    if (!c->p || !c->plan_known) return;
    if (!check(a, kern_counted(a->m, c->p, text, strlen(text), &k, &why), "kern", c->place, "%s", why)) return;
    check(a, same_text(k.plan, c->plan_text), "kern", c->place, "it applies another plan");
    same_number(a, c, "kern", "the machine's subgroup", (double)k.subgroup, caps_value(a->m, caps, "subgroup"));
    same_number(a, c, "kern", "the machine's poly", (double)k.poly, caps_value(a->m, caps, "poly_math"));
    same_number(a, c, "kern", "the number of sweeps", (double)k.sweeps, (double)k.own_sweeps);
    same_number(a, c, "kern", "the number of reductions", (double)k.reductions, plan_reductions(a->m, c->p));
    demand_check(a, c, &k);
    slots_check(a, c, &k, caps);
    shift_check(a, c, &k);
    scores_check(a, c, &k);
    bounds_check(a, c, &k);
    const json_t *u = at(c->j, "unit");
    check(a, int_at_key(u, "lanes", -1) == c->plan.W && int_at_key(u, "rows_per_group", -1) == c->plan.P, "kern",
          c->place, "the unit is launched with other lanes or rows than the plan has");
}

/* ---- the search ---- */
static int by_text(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* A value of the plan by name; "" where it has none. */
static const char *value_of(const PlanItem *item, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (same_text(item[i].name, name)) return item[i].value;
    return "";
}

static size_t distinct_of(const char **text, size_t n) { /* and sorts them */
    size_t distinct = n > 0;
    qsort(text, n, sizeof *text, by_text);
    for (size_t i = 1; i < n; i++) distinct += !same_text(text[i], text[i - 1]);
    return distinct;
}

/* A space is the product of the values of each dimension: with a point left out or put in, it is none. What legal plans
 * say beyond that (homes of values that the space does not open) tells no points apart. */
enum { CANDIDATES_MOST = 20000 };
static void space_check(Audit *a, const CaseInfo *c, const char **plan, size_t n) {
    if (n > CANDIDATES_MOST) {
        unknown(a, "candidates", c->place, "%zu are more than this auditor compares", n);
        return;
    }
    PlanItem(*item)[ITEMS] = mem_array(a->m, n + 1, sizeof *item);
    int *count = mem_array(a->m, n + 1, sizeof *count), names = 0;
    const char **value = mem_array(a->m, n + 1, sizeof *value), **point = mem_array(a->m, n + 1, sizeof *point);
    for (size_t i = 0; i < n; i++) {
        count[i] = plan_items(a->m, plan[i], item[i]);
        point[i] = "";
    }
    double product = 1;
    for (int d = 0; n && d < count[0]; d++) {
        bool all = true;
        for (size_t i = 0; i < n && all; i++) {
            value[i] = value_of(item[i], count[i], item[0][d].name);
            all = *value[i];
        }
        if (!all) continue;
        names++;
        for (size_t i = 0; i < n; i++) point[i] = mem_fmt(a->m, "%s %s", point[i], value[i]);
        product *= (double)distinct_of(value, n);
    }
    if (!check(a, names > 0, "candidates", c->place, "their plans have no dimension in common")) return;
    const size_t points = distinct_of(point, n);
    check(a, points == n, "candidates", c->place, "%zu of %zu stand twice", n - points, n);
    const char *strategy = text_at(at(c->j, "request"), "strategy");
    if (product != (double)n && (same_text(strategy, "random") || same_text(strategy, "beam")))
        unknown(a, "candidates", c->place, "strategy %.40s leaves points out", strategy);
    else
        check(a, product == (double)n, "candidates", c->place, "%zu of %.17g points of their space have a fate", n,
              product);
}

static void refusal_check(Audit *a, const CaseInfo *c, const json_t *r, const char *caps, size_t i) {
    const char *slug = text_at(r, "slug"), *why = text_at(r, "why"), *why_not = "",
               *place = mem_fmt(a->m, "%s refusal %zu", c->place, i);
    const bool failed = same_text(text_at(r, "fate"), "failed");
    PlanText plan;
    if (!check(a, *slug && *why && (failed || same_text(text_at(r, "fate"), "refused")), "refusals", place,
               "no slug, reason or fate"))
        return;
    if (!check(a, plan_parse(a->m, text_at(r, "plan"), &plan, &why_not), "refusals", place, "%s", why_not)) return;
    if (!same_text(slug, "plan.stripe_exceeded") && !same_text(slug, "plan.too_many_lanes")) return;
    const char *need = strstr(why, "need="), *budget = strstr(why, "budget=");
    const bool bytes = caps_value(a->m, caps, "row_buffer_bytes") > 0;
    if (same_text(slug, "plan.stripe_exceeded")) {
        const double n = need ? strtod(need + 5, NULL) : (double)NAN,
                     b = budget ? strtod(budget + 7, NULL) : (double)NAN;
        check(a, b == caps_value(a->m, caps, bytes ? "row_buffer_bytes" : "stripe_slots"), "refusals", place,
              "its budget is not the machine's");
        check(a, n > b, "refusals", place, "%.17g fits %.17g", n, b);
        check(a, strstr(why, mem_fmt(a->m, "W=%lld V=%lld", (long long)plan.W, (long long)plan.V)) != NULL, "refusals",
              place, "W and V are not the plan's");
    } else {
        check(a, (double)plan.W > caps_value(a->m, caps, "max_lanes"), "refusals", place,
              "the machine has these lanes");
    }
}

static void search_check(Audit *a, const CaseInfo *c, const char *caps) {
    const json_t *refusals = at(c->j, "refusals"), *trials = at(c->j, "trials"), *counts = at(c->j, "counts");
    const size_t nr = json_array_size(refusals), nt = json_array_size(trials);
    const char **plan = mem_array(a->m, nr + nt + 1, sizeof *plan);
    int64_t refused = 0, failed = 0, timed = 0, ranked = 0;
    for (size_t i = 0; i < nr; i++) {
        const json_t *r = json_array_get(refusals, i);
        plan[i] = text_at(r, "plan");
        if (same_text(text_at(r, "fate"), "failed"))
            failed++;
        else
            refused++;
        refusal_check(a, c, r, caps, i);
    }
    bool chosen = false;
    for (size_t i = 0; i < nt; i++) {
        const json_t *t = json_array_get(trials, i), *samples = at(t, "samples_ns");
        const char *place = mem_fmt(a->m, "%s trial %zu", c->place, i);
        plan[nr + i] = text_at(t, "plan");
        chosen |= same_text(plan[nr + i], c->plan_text ? c->plan_text : "");
        if (!same_text(text_at(t, "fate"), "timed")) {
            ranked++;
            continue;
        }
        timed++;
        const size_t n = json_array_size(samples);
        double *x = mem_array(a->m, n + 1, sizeof *x);
        for (size_t k = 0; k < n; k++) x[k] = real_of_json(json_array_get(samples, k));
        check(a, n && near(median_of(a->m, x, n), real_at(t, "median_ns")), "samples", place,
              "median_ns is not that of samples_ns");
        check(a, real_at(t, "worst_error_share") <= 1, "checks", place, "timed, with an error beyond its bound");
    }
    check(a,
          int_at_key(counts, "candidates", -1) == (int64_t)(nr + nt) && int_at_key(counts, "refused", -1) == refused &&
              int_at_key(counts, "failed", -1) == failed && int_at_key(counts, "timed", -1) == timed &&
              int_at_key(counts, "ranked", -1) == ranked,
          "candidates", c->place, "counts are not those of refusals and trials");
    check(a, chosen, "candidates", c->place, "the chosen plan is no candidate that was ranked or timed");
    space_check(a, c, plan, nr + nt);
}

/* Of the case as a catalog has it: without what a bench adds. */
static void frozen_hash(Mem *m, const json_t *j, char hex[65]) {
    static const char *const added[] = {"measurement", "failed", "bytes", "choose_s", "peers"};
    json_t *copy = json_copy((json_t *)j);
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) json_object_del(copy, added[i]);
    json_hash(m, copy, "case_sha256", hex);
    json_decref(copy);
}

CaseInfo *case_check(Audit *a, const json_t *j, const json_t *provenance, const char *place) {
    CaseInfo *c = mem_get(a->m, sizeof *c);
    const json_t *source = at(j, "source");
    const char *caps = text_at(at(provenance, "device"), "caps");
    char hex[65];
    *c = (CaseInfo){.j = j, .id = text_at(j, "id"), .place = mem_fmt(a->m, "%s %.80s", place, text_at(j, "id"))};
    frozen_hash(a->m, j, hex);
    if (json_is_string(at(j, "case_sha256")))
        check(a, same_text(hex, text_at(j, "case_sha256")), "hash", c->place, "case_sha256 is not that of the case");
    check(a, sha_is(text_at(source, "text"), text_at(source, "sha256")), "hash", c->place,
          "source.sha256 is not that of source.text");
    program_check(a, c);
    if (c->p) inputs_check(a, c);
    kern_check(a, c, caps);
    if (c->p) source_check(a, c);
    search_check(a, c, caps);
    return c;
}

void provenance_check(Audit *a, const json_t *p, const char *place) {
    const json_t *list = at(p, "binaries"), *device = at(p, "device");
    size_t i;
    json_t *b;
    bool executable = false, whole = json_array_size(list) > 0;
    json_array_foreach((json_t *)list, i, b) {
        const char *sha = text_at(b, "sha256");
        executable |= same_text(text_at(b, "role"), "executable");
        whole &= *text_at(b, "path") && strlen(sha) == 64 && strspn(sha, "0123456789abcdef") == 64 &&
                 int_at_key(b, "bytes", -1) > 0;
    }
    check(a, whole && executable, "provenance", place,
          "the programs that took part are not named by path, size and hash");
    check(a, *text_at(p, "rowfold") && *text_at(device, "identity") && *text_at(device, "caps"), "provenance", place,
          "no version, device or facts of it");
}
