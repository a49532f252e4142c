/* N, W, V -> the stripe length of the busiest lane; V and a layout -> the width of an access. */
#include "plan.h"

int plan_lanes(const Plan *p) {
    return p->W * plan_groups(p);
}

int64_t map_slots(int64_t n, int W, int V) {
    int64_t chunk = (int64_t)W * V;
    return n / chunk * V + i64_min(n % chunk, V); /* lane 0 gets the longest part of a last, partial chunk */
}

int plan_piece(const Prog *p, const Shape *s, int V, int param, uint32_t mapped) {
    const Param *q = &p->param[param];
    int each = V;
    int64_t inner = 1;
    while (each > 1 && each * ty_bytes(q->ty) > 16) each /= 2;
    for (int d = q->rank - 1; d >= 0; d--) {
        int64_t n = s->least[q->axis[d]] ? V : s->n[q->axis[d]]; /* of whole packs, or asked at the launch too */
        if (!(mapped >> q->axis[d] & 1) && n != 1)
            while (each > 1 && inner % each) each /= 2;
        if (n < 0 || !mul_fits(inner, n > 0 ? n : 1, &inner))
            break; /* rows that are not known yet, or a stride no memory has */
    }
    return each;
}

int plan_segment(int64_t inner, int V, int subgroup) {
    int64_t lanes = inner / V;
    return inner % V == 0 && lanes >= 1 && lanes <= subgroup && (lanes & (lanes - 1)) == 0 ? (int)lanes : 0;
}
