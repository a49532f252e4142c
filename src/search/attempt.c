/* One plan, from source text to samples: lowered, audited, emitted, built, checked in full, timed. The same code in the
 * searching process and in its workers. */
#include "attempt.h"

#include "../audit/audit.h"

#include <string.h>

Err attempt_lower(Cx *cx, const Problem *pb, const Plan *plan, Kern **out) {
    AuditReport report;
    Err err = kern_lower(cx, pb, plan, out);
    if (err) return err;
    return audit_kern(cx, pb->prog, &pb->shape, &pb->caps, pb->noalias, pb->summed_budget, pb->strided, *out, &report);
}

Err attempt_spell(Cx *cx, const Problem *pb, const Kern *k, Unit *u) {
    Err err = unit_emit(cx, pb, k, u);
    return err ? err : audit_unit(cx, k, u);
}

Err attempt_emit(Cx *cx, const Problem *pb, const Plan *plan, Unit *u, char sha[65]) {
    Kern *k;
    Err err = attempt_lower(cx, pb, plan, &k);
    if (!err) err = attempt_spell(cx, pb, k, u);
    if (!err) sha256_hex(u->text, strlen(u->text), sha);
    return err;
}

Err attempt_build(Cx *cx, Device *dev, Ahead *ahead, const Unit *u, const char *sha, Module **mod) {
    Err err;
    return ahead_take(cx, ahead, u, sha, &err, mod) ? err : mod_build(cx, dev, u, mod);
}

Err attempt_time(Cx *cx, Bed *bed, Module *m, const Ask *q, Times *out) {
    const Shape *s = &bed->pb->shape;
    const int axis = shape_ranged(s);
    if (q->extent && (axis < 0 || q->extent < s->least[axis] || q->extent > s->n[axis]))
        return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "extent %lld is timed", (long long)q->extent);
    bed_place(cx, bed, q->place);
    if (q->extent) bed_extent(bed, q->extent);
    Err err = bed_time(cx, bed, m, q->threads, q->samples, q->sample_ns, q->give_up_ns, out);
    if (q->extent) bed_extent(bed, s->n[axis]);
    bed_place(cx, bed, 0);
    return err;
}

Err attempt_run(Cx *cx, Bed *bed, Ahead *ahead, const Unit *u, const Ask *q, Module **mod, Attempt *out) {
    Err err = attempt_build(cx, bed->dev, ahead, u, out->unit_sha, mod);
    const int axis = shape_ranged(&bed->pb->shape);
    if (axis >= 0) bed_extent(bed, bed->pb->shape.n[axis]); /* whatever ran before was broken off */
    if (!err) {
        out->facts = *mod_facts(*mod);
        err = bed_check(cx, bed, *mod, &q->bounds, q->threads, &out->verdict);
    }
    if (!err) err = bed_time(cx, bed, *mod, q->threads, q->samples, q->sample_ns, q->give_up_ns, &out->times);
    return err;
}
