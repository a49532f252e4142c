/* N, W, V -> the stripe length of the busiest lane. */
#include "plan.h"

int plan_lanes(const Plan *p) {
    return p->W * p->cluster;
}

int64_t map_slots(int64_t n, int W, int V) {
    int64_t chunk = (int64_t)W * V;
    return n / chunk * V + i64_min(n % chunk, V); /* lane 0 gets the longest part of a last, partial chunk */
}
