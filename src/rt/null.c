/* A device that takes every unit and does nothing with it: for tests of what lies above, and for timing the way to a
 * launch. */
#include "local.h"

#include <stdio.h>

static Err null_open(Cx *cx, Rt *rt) {
    Device *d = rt_get(rt, sizeof *d);
    if (!d) return rt_oom(cx, "device null", sizeof *d);
    d->ops = &null_ops;
    caps_preset("portable", &d->caps);
    snprintf(d->name, sizeof d->name, "null");
    snprintf(d->caps.name, sizeof d->caps.name, "null");
    snprintf(d->identity, sizeof d->identity, "null: builds and launches nothing");
    Err err = rt_add(cx, rt, d);
    if (err) rt_put(rt, d);
    return err;
}

static void null_close(Device *d) {
    rt_put(d->rt, d);
}

static Err null_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    (void)u;
    Module *m = rt_get(d->rt, sizeof *m);
    if (!m) return rt_oom(cx, "a module", sizeof *m);
    m->facts = facts_unknown();
    *out = m;
    return OK;
}

static void null_unload(Module *m) {
    rt_put(m->dev->rt, m);
}

static Err null_launch(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads) {
    (void)cx, (void)m, (void)slots, (void)rows, (void)threads;
    return OK;
}

static Err null_sync(Cx *cx, Device *d) {
    (void)cx, (void)d;
    return OK;
}

const RtOps null_ops = {
    .name = "null",
    .hidden = true,
    .open = null_open,
    .close = null_close,
    .build = null_build,
    .unload = null_unload,
    .get = plain_get,
    .put = plain_put,
    .write = plain_write,
    .read = plain_read,
    .launch = null_launch,
    .sync = null_sync,
};
