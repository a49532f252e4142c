/* The worker's side: a problem comes once, then plan after plan, each answered with what became of it. It trusts
 * nothing that it runs: whatever goes wrong here is seen from the other side. */
#include "measure.h"
#include "worker.h"

#include "../base/os.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct Desk { /* everything between messages */
    int fd;
    const ServeHooks *hooks;
    Arena *a;
    Rt *rt;
    Problem pb;
    Bed bed;
    Module *mod, *slot[WORKER_SLOTS];
    Ahead *ahead;
    Measuring measuring;
    int64_t started_unix_ns;
} Desk;

static const char *text_of(const json_t *j, const char *key) {
    return json_string_value(json_object_get(j, key));
}

static Err open_problem(Cx *cx, Desk *d, const json_t *j, json_t *reply) {
    const char *device = text_of(j, "device"), *isa = text_of(j, "isa");
    RtOptions o = {.al = &alloc_libc,
                   .cache_dir = text_of(j, "cache_dir"),
                   .cc = text_of(j, "cc"),
                   .threads = (int)json_integer_value(json_object_get(j, "threads")),
                   .isa = ISA_COUNT,
                   .cache_bytes = json_integer_value(json_object_get(j, "cache_bytes")),
                   .build_timeout_ms = (int)json_integer_value(json_object_get(j, "build_timeout_ms"))};
    Device *dev;
    if (d->rt || !device) return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "a second problem, or no device");
    if (isa && *isa) isa_find(isa, &o.isa);
    Err err = rt_open(cx, &o, &d->rt);
    if (!err) err = rt_find(cx, d->rt, device, &dev);
    if (!err) err = problem_read(cx, json_object_get(j, "problem"), &d->pb);
    d->bed.cold = json_is_true(json_object_get(j, "cold"));
    if (!err) err = bed_make(cx, dev, &d->pb, (uint64_t)json_integer_value(json_object_get(j, "seed")), &d->bed);
    if (!err) d->ahead = ahead_new(dev, (int)json_integer_value(json_object_get(j, "builders")));
    if (!err) /* a worker of another version would build something else */
        json_object_set_new(reply, "identity", json_sprintf("%s; rowfold %s", dev_identity(dev), ROWFOLD_VERSION_TEXT));
    return err;
}

static Err read_plan(Cx *cx, Desk *d, const json_t *j, Plan *plan, Unit *u, char sha[65]) {
    const char *text = text_of(j, "plan");
    if (!d->bed.dev || !text) return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "no plan, or no problem yet");
    Err err = plan_read(cx, text, plan);
    if (!err) err = attempt_emit(cx, &d->pb, plan, u, sha);
    if (!err && d->hooks && d->hooks->unit) d->hooks->unit(cx->a, text, u);
    return err;
}

static Err try_plan(Cx *cx, Desk *d, const json_t *j, Attempt *t) {
    Plan plan;
    Unit u;
    Ask q;
    if (!ask_read(json_object_get(j, "ask"), &q)) return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "nothing is asked");
    Err err = read_plan(cx, d, j, &plan, &u, t->unit_sha);
    if (!err) err = attempt_run(cx, &d->bed, d->ahead, &u, &q, &d->mod, t);
    if (d->mod) mod_free(d->mod);
    d->mod = NULL;
    if (d->hooks && d->hooks->reply) d->hooks->reply(d->fd, text_of(j, "plan"), t);
    return err;
}

/* What cannot be emitted says so when it is tried. */
static Err build_ahead(Cx *cx, Desk *d, const json_t *j) {
    const json_t *plans = json_object_get(j, "plans");
    if (!d->bed.dev) return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "no problem yet");
    for (size_t i = 0; d->ahead && i < json_array_size(plans) && i < AHEAD_MOST; i++) {
        const char *text = json_string_value(json_array_get(plans, i));
        Cx own = {.a = cx->a};
        Plan plan;
        Unit u;
        char sha[65];
        if (text && !plan_read(&own, text, &plan) && !attempt_emit(&own, &d->pb, &plan, &u, sha))
            ahead_add(d->ahead, &u, sha, json_is_true(json_object_get(j, "guess")));
    }
    ahead_wait(cx, d->ahead);
    return OK;
}

static Err slot_of(Cx *cx, Desk *d, const json_t *j, Module ***out) {
    json_int_t i = json_integer_value(json_object_get(j, "slot"));
    if (i < 0 || i >= WORKER_SLOTS) return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "slot %lld", (long long)i);
    *out = &d->slot[i];
    return OK;
}

static Err load(Cx *cx, Desk *d, const json_t *j, Attempt *t) {
    Plan plan;
    Unit u;
    Module **m = NULL;
    Err err = slot_of(cx, d, j, &m);
    if (!err) err = read_plan(cx, d, j, &plan, &u, t->unit_sha);
    if (err) return err;
    if (*m) mod_free(*m);
    *m = NULL;
    u.fresh = json_is_true(json_object_get(j, "fresh"));
    err = mod_build(cx, d->bed.dev, &u, m);
    if (!err) t->facts = *mod_facts(*m);
    return err;
}

static Err time_slot(Cx *cx, Desk *d, const json_t *j, Attempt *t) {
    Ask q;
    Module **m;
    Err err = slot_of(cx, d, j, &m);
    if (!err && (!*m || !ask_read(json_object_get(j, "ask"), &q)))
        err = diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "an empty slot is timed");
    if (!err) err = attempt_time(cx, &d->bed, *m, &q, &t->times);
    return err;
}

static Err measure(Cx *cx, Desk *d, const json_t *j, json_t *reply) {
    const char *text = text_of(j, "plan");
    Plan plan;
    MeasureAsk q;
    if (!d->bed.dev || !text || !measure_ask_read(cx->a, json_object_get(j, "ask"), &q))
        return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "no plan, no problem yet, or nothing is asked");
    q.worker = true, q.started_unix_ns = d->started_unix_ns;
    Err err = plan_read(cx, text, &plan);
    if (!err) err = measure_plan(cx, &d->bed, &plan, &q, &d->measuring);
    if (!err) json_object_set(reply, "measurement", d->measuring.json);
    measuring_free(&d->measuring);
    return err;
}

static Err answer(Cx *cx, Desk *d, const json_t *j, json_t *reply, Attempt *t) {
    const char *op = text_of(j, "op");
    if (op && str_eq(op, "open")) {
        Cx keep = {.a = d->a}; /* the problem stays */
        Err err = open_problem(&keep, d, j, reply);
        return err ? diag(cx, keep.first->slug, NOWHERE, NULL, "%s", keep.first->msg) : OK;
    }
    if (op && str_eq(op, "try")) return try_plan(cx, d, j, t);
    if (op && str_eq(op, "ahead")) return build_ahead(cx, d, j);
    if (op && str_eq(op, "load")) return load(cx, d, j, t);
    if (op && str_eq(op, "time")) return time_slot(cx, d, j, t);
    if (op && str_eq(op, "measure")) return measure(cx, d, j, reply);
    return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "no such request");
}

static bool send_json(int fd, json_t *j) {
    char *s = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    bool ok = s && wire_send(fd, s, strlen(s)) == WIRE_OK;
    free(s);
    json_decref(j);
    return ok;
}

/* One message; false at the end. Running out of memory on the way is an answer too. */
static bool turn(Desk *d) {
    static const Attempt none;
    Trap trap;
    Arena *a = arena_new(&alloc_libc, &trap);
    if (!a) return false;
    arena_trap(d->a, &trap);
    if (setjmp(trap.at)) {
        if (d->mod) mod_free(d->mod);
        d->mod = NULL;
        measuring_free(&d->measuring);
        arena_free(a);
        return send_json(d->fd,
                         json_pack("{s:s,s:s}", "slug", slug_text(S_OOM), "why", "the worker has no memory left"));
    }
    char *text;
    size_t n;
    if (wire_receive(a, d->fd, 0, &text, &n) != WIRE_OK) {
        arena_free(a);
        return false;
    }
    Cx cx = {.a = a};
    Attempt *t = NEW(a, Attempt);
    *t = none;
    json_t *j = json_loadb(text, n, 0, NULL), *reply = json_object();
    Err err = answer(&cx, d, j, reply, t);
    if (err) {
        const char *why = cx.first ? cx.first->msg : "";
        json_object_set_new(reply, "slug", json_string(slug_text(cx.first ? cx.first->slug : S_INTERNAL)));
        json_object_set_new(reply, "why", json_string(why));
    }
    json_object_set_new(reply, "attempt", attempt_json(t));
    json_decref(j);
    arena_free(a);
    return send_json(d->fd, reply);
}

int worker_serve(int fd, const ServeHooks *hooks) {
    Desk *d = calloc(1, sizeof *d);
    if (!d) return 1;
    d->fd = fd, d->hooks = hooks;
    d->started_unix_ns = os_unix_ns();
    d->a = arena_new(&alloc_libc, NULL);
    while (d->a && turn(d)) continue;
    ahead_free(d->ahead);
    if (d->mod) mod_free(d->mod);
    for (int i = 0; i < WORKER_SLOTS; i++)
        if (d->slot[i]) mod_free(d->slot[i]);
    bed_free(&d->bed);
    if (d->rt) rt_close(d->rt);
    arena_free(d->a);
    free(d);
    return 0;
}
