/* The table of policies, and the guard around every call of one. */
#include "cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const CostPolicy *const rows[] = {
#define POLICY(id) &id##_policy,
#include "policies.def"
#undef POLICY
};

int cost_policies(const CostPolicy *const **list) {
    *list = rows;
    return COUNT(rows);
}

Err cost_find(Cx *cx, const char *name, const CostPolicy **out) {
    Buf names = buf_new(cx->a);
    for (int i = 0; i < COUNT(rows); i++) {
        *out = rows[i];
        if (str_eq(rows[i]->name, name)) return OK;
        buf_fmt(&names, "%s%s", i ? " " : "", rows[i]->name);
    }
    *out = NULL;
    return diag(cx, S_COST_POLICY, NOWHERE, names.s, "policy %.40s", name);
}

static const char *coef_names(Cx *cx, const CostPolicy *p) {
    Buf b = buf_new(cx->a);
    for (int i = 0; i < p->ncoefs; i++) buf_fmt(&b, "%s%s", i ? " " : "", p->coef[i].name);
    return p->ncoefs ? b.s : "none";
}

static bool is_cost(double x) {
    return isfinite(x) && x >= 0;
}

static Err too_many(Cx *cx, const CostPolicy *p) {
    return diag(cx, S_COST_COEFFICIENT, NOWHERE, NULL, "policy %s has %d coefficients, most=%d", p->name, p->ncoefs,
                MAX_COEFS);
}

static double nominal(const Coef *c, const Caps *caps) {
    const bool gpu = caps->kind != KIND_HOST && !caps->lanes_in_turn;
    const double own = gpu ? c->gpu : caps->kind == KIND_HOST && caps->isa == ISA_AVX512 ? c->wide : 0;
    return own > 0 ? own : c->def;
}

void cost_nominal(const CostPolicy *p, const Caps *caps, double *coef) {
    for (int i = 0; i < p->ncoefs && i < MAX_COEFS; i++) coef[i] = nominal(&p->coef[i], caps);
}

Err cost_coefs(Cx *cx, const CostPolicy *p, const Caps *caps, const char *text, double *coef) {
    if (p->ncoefs > MAX_COEFS) return too_many(cx, p);
    cost_nominal(p, caps, coef);
    while (text && *text) {
        size_t n = strcspn(text, ",");
        char *item = arena_str(cx->a, text, n), *eq = strchr(item, '='), *end = NULL;
        text += text[n] ? n + 1 : n;
        int at = -1;
        if (eq) *eq = 0;
        for (int i = 0; i < p->ncoefs; i++)
            if (str_eq(p->coef[i].name, item)) at = i;
        double v = eq ? text_f64(eq + 1, &end) : 0;
        if (at < 0 || !eq || end == eq + 1 || *end || !is_cost(v))
            return diag(cx, S_COST_COEFFICIENT, NOWHERE, coef_names(cx, p), "policy %s: %.40s=%.40s", p->name, item,
                        eq ? eq + 1 : "");
        coef[at] = v;
    }
    return OK;
}

Err cost_score(Cx *cx, const CostPolicy *p, const Demand *d, const Caps *caps, const Launch *l, const double *coef,
               Score *out) {
    memset(out, 0, sizeof *out);
    if (l->rows < 0 || l->lanes < 1 || l->subgroup < 1 || l->rows_per_group < 1)
        return diag(cx, S_ARG, NOWHERE, "rows >= 0, the others >= 1",
                    "launch of rows=%lld lanes=%d subgroup=%d rows_per_group=%d", (long long)l->rows, l->lanes,
                    l->subgroup, l->rows_per_group);
    if (p->ncoefs > MAX_COEFS) return too_many(cx, p);
    double k[MAX_COEFS] = {0};
    for (int i = 0; i < p->ncoefs; i++) {
        k[i] = coef ? coef[i] : nominal(&p->coef[i], caps);
        if (!is_cost(k[i]))
            return diag(cx, S_COST_COEFFICIENT, NOWHERE, "finite, 0 or more", "policy %s: %s=%g", p->name,
                        p->coef[i].name, k[i]);
    }
    if (!d->known && p->needs_demand)
        return diag(cx, S_COST_UNKNOWN, NOWHERE, NULL,
                    "policy %s needs the demand, and that of a row has more than 2^53 bytes or operations", p->name);
    Demand demand = *d;
    Caps machine = *caps;
    Launch launch = *l;
    Score s = {0};
    Err e = p->score(cx, &demand, &machine, &launch, k, &s);
    if (e) return e;
    if (!is_cost(s.total) || s.nterms < 0 || s.nterms > MAX_TERMS)
        return diag(cx, S_COST_INVALID, NOWHERE, "finite, 0 or more", "policy %s: total=%g terms=%d", p->name, s.total,
                    s.nterms);
    *out = s;
    return OK;
}

void score_add(Score *s, const char *name, const char *unit, double value) {
    if (s->nterms >= 0 && s->nterms < MAX_TERMS) {
        s->term[s->nterms].name = name;
        s->term[s->nterms].unit = unit;
        s->term[s->nterms].value = value;
    }
    s->nterms++;
}

void score_print(const Score *s, Buf *out) {
    buf_fmt(out, "%.6g", s->total);
    for (int i = 0; i < s->nterms; i++)
        buf_fmt(out, "%s%s %.6g%s%s", i ? ", " : " = ", s->term[i].name, s->term[i].value, *s->term[i].unit ? " " : "",
                s->term[i].unit);
}

void score_json(const Score *s, Buf *out) {
    buf_str(out, "{\"total\":");
    buf_f64(out, s->total);
    buf_str(out, ",\"terms\":[");
    for (int i = 0; i < s->nterms; i++) {
        buf_str(out, i ? ",{\"name\":" : "{\"name\":");
        buf_json(out, s->term[i].name);
        buf_str(out, ",\"unit\":");
        buf_json(out, s->term[i].unit);
        buf_str(out, ",\"value\":");
        if (isfinite(s->term[i].value))
            buf_f64(out, s->term[i].value);
        else
            buf_str(out, "null");
        buf_str(out, "}");
    }
    buf_str(out, "]}");
}
