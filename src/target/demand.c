/* Demand as one JSON object. A demand that is not known is zeros, and says so. */
#include "target.h"

static void field(Buf *out, const char *key, double x) {
    buf_fmt(out, ",\"%s\":", key);
    buf_f64(out, x);
}

static void bytes(Buf *out, const char *key, const Bytes *b) {
    buf_fmt(out, ",\"%s\":{\"global_read\":", key);
    buf_f64(out, b->global_read);
    field(out, "global_write", b->global_write);
    field(out, "private_read", b->private_read);
    field(out, "private_write", b->private_write);
    buf_str(out, "}");
}

static void ops(Buf *out, const char *key, const double n[COST_CLASSES]) {
    static const char *const classes[COST_CLASSES] = {"free", "alu", "div", "special", "convert", "memory"};
    buf_fmt(out, ",\"%s\":{", key);
    for (int i = 0; i < COST_CLASSES; i++) {
        buf_fmt(out, "%s\"%s\":", i ? "," : "", classes[i]);
        buf_f64(out, n[i]);
    }
    buf_str(out, "}");
}

void demand_json(const Demand *d, Buf *out) {
    static const Demand unknown = {0};
    if (!d->known) d = &unknown;
    buf_fmt(out, "{\"known\":%s", d->known ? "true" : "false");
    bytes(out, "lane", &d->lane);
    bytes(out, "row", &d->row);
    field(out, "first_read", d->first_read);
    field(out, "weight_read", d->weight_read);
    if (d->group_read > 0) field(out, "group_read", d->group_read);
    field(out, "pack_write", d->pack_write);
    field(out, "store_bytes", d->store_bytes);
    field(out, "lane_rounds", d->lane_rounds);
    field(out, "lane_packs", d->lane_packs);
    field(out, "lane_chain", d->lane_chain);
    field(out, "lane_waits", d->lane_waits);
    field(out, "lane_shared", d->lane_shared);
    field(out, "lane_alone", d->lane_alone);
    field(out, "lane_whole", d->lane_whole);
    field(out, "collectives", d->collectives);
    field(out, "join_levels", d->join_levels);
    field(out, "barriers", d->barriers);
    ops(out, "lane_ops", d->lane_ops);
    ops(out, "row_ops", d->row_ops);
    field(out, "shared_bytes", d->shared_bytes);
    field(out, "launches", d->launches);
    field(out, "live_values", d->live_values);
    field(out, "stripe_slots", d->stripe_slots);
    field(out, "stripe_slots_sum", d->stripe_slots_sum);
    field(out, "reductions", d->reductions);
    buf_str(out, "}");
}
