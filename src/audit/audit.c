/* A lowered kern -> every rule that it must obey, in order; the first that does not hold is the finding. */
#include "walk.h"

const char *proof_text(Proof p) {
    static const char *const names[PROOF_COUNT] = {"own", "first", "guard", "never"};
    return names[p];
}

static Err audit_one(Cx *cx, const Prog *prog, const Shape *s, const Caps *caps, bool noalias, bool summed_budget,
                     uint32_t strided, const Kern *k, AuditReport *out) {
    *out = (AuditReport){0};
    Audit *u = NEW(cx->a, Audit);
    *u = (Audit){.cx = cx,
                 .prog = prog,
                 .s = s,
                 .caps = caps,
                 .k = k,
                 .noalias = noalias,
                 .summed_budget = summed_budget,
                 .strided = strided,
                 .out = out};
    Err e = audit_walk(u);
    if (e) return e;
    audit_forms(u);
    static Err (*const rules[])(Audit *) = {audit_bounds, audit_reuse, audit_order, audit_resources};
    for (int i = 0; i < COUNT(rules) && !e; i++) e = rules[i](u);
    return e;
}

Err audit_kern(Cx *cx, const Prog *prog, const Shape *s, const Caps *caps, bool noalias, bool summed_budget,
               uint32_t strided, const Kern *k, AuditReport *out) {
    int64_t n[MAX_EXTENTS];
    Err e = OK;
    for (int many = kern_extents(k, n), i = 0; i < many && !e; i++) { /* the last is the largest */
        Shape at = shape_at(s, n[i]);
        e = audit_one(cx, prog, &at, caps, noalias, summed_budget, strided, kern_at(cx, k, n[i]), out);
    }
    return e;
}
