/* Messages between a search and its worker: "RfW1", the length in 4 bytes, JSON. Whatever arrives that is not this is
 * garbage, and said to be. */
#include "worker.h"

#include "../base/os.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

static const char magic[4] = {'R', 'f', 'W', '1'};

/* Of a call that failed: is the other side gone, or is it this one's trouble? */
static Wire failed(void) {
    return errno == EPIPE || errno == ECONNRESET ? WIRE_CLOSED : WIRE_FAILED;
}

static Wire put(int fd, const void *p, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t r = send(fd, (const char *)p + done, n - done, MSG_NOSIGNAL);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return failed();
        done += (size_t)r;
    }
    return WIRE_OK;
}

Wire wire_send(int fd, const char *text, size_t n) {
    if (n > WIRE_MAX) return WIRE_GARBAGE;
    unsigned char head[8];
    memcpy(head, magic, 4);
    for (int i = 0; i < 4; i++) head[4 + i] = (unsigned char)(n >> (8 * i));
    Wire w = put(fd, head, sizeof head);
    return w ? w : put(fd, text, n);
}

static Wire take(int fd, void *p, size_t n, int64_t deadline) {
    for (size_t done = 0; done < n;) {
        int64_t left = deadline ? deadline - os_now_ns() : INT64_MAX;
        if (left <= 0) return WIRE_LATE;
        struct pollfd pf = {.fd = fd, .events = POLLIN};
        int r = poll(&pf, 1, deadline ? (int)(i64_min(left, 3600000000000) / 1000000) + 1 : -1);
        if (r == 0 || (r < 0 && errno == EINTR)) continue;
        if (r < 0) return WIRE_FAILED;
        ssize_t got = recv(fd, (char *)p + done, n - done, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got ? failed() : WIRE_CLOSED;
        done += (size_t)got;
    }
    return WIRE_OK;
}

Wire wire_receive(Arena *a, int fd, int64_t deadline_ns, char **text, size_t *n) {
    unsigned char head[8];
    Wire w = take(fd, head, sizeof head, deadline_ns);
    if (w) return w;
    *n = 0;
    for (int i = 0; i < 4; i++) *n |= (size_t)head[4 + i] << (8 * i);
    if (memcmp(head, magic, 4) != 0 || *n > WIRE_MAX) return WIRE_GARBAGE;
    *text = arena_get(a, *n + 1);
    return take(fd, *text, *n, deadline_ns);
}

/* ---- structures; a field that is added to one must be added here ---- */
_Static_assert(sizeof(OracleOptions) == 24, "OracleOptions has a field that does not travel");
_Static_assert(sizeof(Facts) == 48, "Facts has a field that does not travel");

static double real(const json_t *j, const char *key) {
    const json_t *v = json_object_get(j, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}
static int64_t whole(const json_t *j, const char *key) {
    return json_integer_value(json_object_get(j, key));
}
static int small(const json_t *j, const char *key) {
    return (int)i64_max(INT32_MIN, i64_min(INT32_MAX, whole(j, key)));
}
static bool yes(const json_t *j, const char *key) {
    return json_is_true(json_object_get(j, key));
}
static json_t *real_json(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

struct json_t *ask_json(const Ask *q) {
    const OracleOptions *o = &q->bounds;
    return json_pack("{s:I,s:i,s:i,s:b,s:b,s:b,s:b,s:i,s:i,s:I,s:f,s:I,s:i}", "serial", (json_int_t)o->serial, "joins",
                     o->joins, "stat", (int)o->stat, "reciprocal", o->reciprocal, "fast_exp", o->fast_exp, "contract",
                     o->contract, "native_math", o->native_math, "threads", q->threads, "samples", q->samples,
                     "sample_ns", (json_int_t)q->sample_ns, "give_up_ns", q->give_up_ns, "extent",
                     (json_int_t)q->extent, "place", q->place);
}

bool ask_read(const struct json_t *j, Ask *q) {
    int stat = small(j, "stat");
    *q = (Ask){.bounds = {.serial = whole(j, "serial"),
                          .joins = small(j, "joins"),
                          .stat = (Stat)stat,
                          .reciprocal = yes(j, "reciprocal"),
                          .fast_exp = yes(j, "fast_exp"),
                          .contract = yes(j, "contract"),
                          .native_math = yes(j, "native_math")},
               .threads = small(j, "threads"),
               .samples = small(j, "samples"),
               .sample_ns = whole(j, "sample_ns"),
               .give_up_ns = real(j, "give_up_ns"),
               .extent = whole(j, "extent"),
               .place = small(j, "place")};
    return json_is_object(j) && stat >= 0 && stat < STAT_COUNT && q->samples > 0 && q->place >= 0;
}

struct json_t *attempt_json(const Attempt *t) {
    const Facts *f = &t->facts;
    const Verdict *v = &t->verdict;
    json_t *ns = json_array();
    for (int i = 0; i < t->times.n; i++) json_array_append_new(ns, real_json(t->times.ns[i]));
    return json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:I,s:I,s:b,s:I,s:I,s:o,s:i,s:o}", "unit_sha256", t->unit_sha,
                     "registers", f->registers, "local_bytes", f->local_bytes, "shared_bytes", f->shared_bytes,
                     "groups_per_unit", f->groups_per_unit, "code_bytes", f->code_bytes, "global_loads",
                     f->global_loads, "from_cache", f->from_cache, "compile_ns", (json_int_t)f->compile_ns, "load_ns",
                     (json_int_t)f->load_ns, "ok", v->ok, "checked", (json_int_t)v->checked, "bad", (json_int_t)v->bad,
                     "worst", real_json(v->worst), "calls", t->times.calls, "samples_ns", ns);
}

bool attempt_read(const struct json_t *j, Attempt *t) {
    const char *sha = json_string_value(json_object_get(j, "unit_sha256"));
    const json_t *ns = json_object_get(j, "samples_ns");
    *t = (Attempt){.facts = {.registers = small(j, "registers"),
                             .local_bytes = small(j, "local_bytes"),
                             .shared_bytes = small(j, "shared_bytes"),
                             .groups_per_unit = small(j, "groups_per_unit"),
                             .code_bytes = small(j, "code_bytes"),
                             .global_loads = small(j, "global_loads"),
                             .from_cache = yes(j, "from_cache"),
                             .compile_ns = whole(j, "compile_ns"),
                             .load_ns = whole(j, "load_ns")},
                   .verdict = {.ok = yes(j, "ok"),
                               .checked = whole(j, "checked"),
                               .bad = whole(j, "bad"),
                               .worst = real(j, "worst")},
                   .times = {.n = (int)json_array_size(ns), .calls = small(j, "calls")}};
    if (!sha || strlen(sha) > 64 || !json_is_array(ns) || json_array_size(ns) > (size_t)COUNT(t->times.ns))
        return false;
    memcpy(t->unit_sha, sha, strlen(sha));
    for (int i = 0; i < t->times.n; i++) {
        double x = json_number_value(json_array_get(ns, (size_t)i));
        if (!json_is_number(json_array_get(ns, (size_t)i)) || !(x > 0) || !isfinite(x)) return false;
        t->times.ns[i] = x;
    }
    times_sort(&t->times);
    return true;
}

struct json_t *problem_json(Arena *a, const Problem *pb) {
    Buf prog = buf_new(a), caps = buf_new(a);
    json_t *shape = json_array(), *least = json_array();
    prog_print(pb->source, &prog);
    caps_print(&pb->caps, &caps);
    for (int i = 0; i < MAX_AXES; i++) {
        json_array_append_new(shape, json_integer(pb->shape.n[i]));
        json_array_append_new(least, json_integer(pb->shape.least[i]));
    }
    return json_pack("{s:s,s:s,s:o,s:o,s:I,s:b,s:b}", "program", prog.s, "caps", caps.s, "shape", shape, "least", least,
                     "strided", (json_int_t)pb->strided, "noalias", pb->noalias, "summed_budget", pb->summed_budget);
}

Err problem_read(Cx *cx, const struct json_t *j, Problem *pb) {
    const char *text = json_string_value(json_object_get(j, "program")),
               *caps_text = json_string_value(json_object_get(j, "caps"));
    const json_t *list = json_object_get(j, "shape"), *least = json_object_get(j, "least");
    Prog *p;
    Caps caps;
    Shape s = {0};
    if (!text || !caps_text || json_array_size(list) != MAX_AXES)
        return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "no problem");
    for (int i = 0; i < MAX_AXES; i++) {
        s.n[i] = json_integer_value(json_array_get(list, (size_t)i));
        s.least[i] = i64_max(0, json_integer_value(json_array_get(least, (size_t)i)));
    }
    Err err = prog_read(cx, text, strlen(text), &p);
    if (!err) err = caps_read(cx, caps_text, &caps);
    if (!err) err = problem_make(cx, p, &s, &caps, (uint32_t)whole(j, "strided"), pb);
    if (err) return err;
    pb->noalias = yes(j, "noalias");
    pb->summed_budget = yes(j, "summed_budget");
    return OK;
}
