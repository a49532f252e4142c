/* A peer measured on a case, through its adapter: a program that is given a request in a file, with the inputs as files
 * beside it, and prints one JSON line for each of its modes. peers/README.md has the protocol. */
#include "evidence.h"

#include "../base/os.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPLY_MAX = 4 << 20 };

int peers_count(const char *peers) {
    int n = peers && *peers;
    for (const char *p = peers ? peers : ""; *p; p++) n += *p == ',';
    return n;
}

const char *peer_at(Cx *cx, const char *peers, int i) {
    for (; i > 0; i--) peers += strcspn(peers, ",") + 1;
    return arena_str(cx->a, peers, strcspn(peers, ","));
}

const char *peer_file(Cx *cx, const char *peers, int i) {
    const char *path = peer_at(cx, peers, i), *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

typedef struct Visit { /* one run of an adapter */
    Evidence *e;
    const char *adapter, *folder;
    Bed *bed;
    const json_t *where;
    json_t *list;
    char sha[65];
} Visit;

static json_t *reply_to(Visit *v, const json_t *members) {
    json_t *o = record_element(v->list, json_object());
    if (v->where) json_object_update(o, (json_t *)(uintptr_t)v->where);
    json_object_update(o, (json_t *)(uintptr_t)members);
    const char *slash = strrchr(v->adapter, '/');
    json_object_set_new(o, "adapter", record_text(slash ? slash + 1 : v->adapter));
    json_object_set_new(o, "adapter_sha256", json_string(v->sha));
    return o;
}

/* "numpy_peer.py" is the adapter of numpy. */
static size_t name_end(const char *name) {
    const char *end = strstr(name, "_peer.");
    return end ? (size_t)(end - name) : strcspn(name, ".");
}

static void missing(Visit *v, const char *why) {
    const char *slash = strrchr(v->adapter, '/'), *name = slash ? slash + 1 : v->adapter;
    json_t *o = v->e->spare[1] =
        json_pack("{s:o,s:o}", "peer", json_stringn(name, name_end(name)), "missing", record_text(why));
    reply_to(v, o);
    json_decref(o);
    v->e->spare[1] = NULL;
}

/* ---- request ---- */

static Err put_file(Visit *v, const char *path, const void *p, size_t n) {
    char why[128];
    int bad = os_write_atomic(path, p, n, 0600, false);
    return bad ? diag(v->e->cx, S_RECORD_IO, NOWHERE, NULL, "%s: %s", path, os_error(bad, why, sizeof why)) : OK;
}

static const char *param_path(const Visit *v, int i) {
    return arena_printf(v->e->cx->a, "%s/%s.bin", v->folder, v->bed->pb->source->param[i].name);
}

static Err request(Visit *v, const json_t *cse, const char *path) {
    const EvidenceAsk *q = v->e->ask;
    const Prog *p = v->bed->pb->source;
    json_t *o = v->e->spare[2] = options_json(q);
    Err err = OK;
    json_object_set_new(o, "protocol", json_string("rowfold-peer-1"));
    json_object_set_new(o, "device", json_string(dev_name(q->dev)));
    json_object_set_new(o, "folder", record_text(v->folder));
    json_object_set_new(o, "seed", json_integer((json_int_t)q->measure.seed));
    static const char *const same[] = {"id", "kernel", "types", "shape", "row_axes"};
    for (int i = 0; i < COUNT(same); i++) json_object_set(o, same[i], json_object_get(cse, same[i]));
    json_t *params = record_member(o, "params", json_deep_copy(json_object_get(cse, "params")));
    for (int i = 0; i < p->nparams && !err; i++) {
        const Tensor *t = &v->bed->host.t[i];
        if (p->param[i].dir == DIR_SCALAR || p->param[i].dir == DIR_CONST) continue;
        json_t *one = json_array_get(params, (size_t)i), *n = record_member(one, "extents", json_array());
        for (int d = 0; d < t->rank; d++) json_array_append_new(n, json_integer(t->n[d]));
        json_object_set_new(one, "file", record_text(param_path(v, i)));
        if (p->param[i].dir != DIR_OUT) err = put_file(v, param_path(v, i), t->data, v->bed->size[i]);
    }
    const char *text = record_print(v->e->cx, o);
    json_decref(o);
    v->e->spare[2] = NULL;
    return err ? err : put_file(v, path, text, strlen(text));
}

/* ---- replies ---- */

static void medians(json_t *figures) {
    size_t i;
    json_t *f;
    json_array_foreach(figures, i, f) {
        Figure g = {.calls = (int)json_integer_value(json_object_get(f, "calls"))};
        const json_t *ns = json_object_get(f, "samples_total_ns");
        for (size_t k = 0; k < json_array_size(ns) && g.n < FIGURE_SAMPLES; k++)
            g.total_ns[g.n++] = json_integer_value(json_array_get(ns, k));
        if (g.calls < 1) continue;
        double min, max, median = figure_median(&g, &min, &max);
        json_object_set_new(f, "median_ns", record_number(median));
        json_object_set_new(f, "min_ns", record_number(min));
        json_object_set_new(f, "max_ns", record_number(max));
    }
}

/* Against the same definition, with the widest of bounds: in what order a peer adds is not known. */
static Err check(Visit *v, json_t *o) {
    static const OracleOptions widest = {
        .stat = STAT_TWO_PASS, .reciprocal = true, .contract = true, .native_math = true};
    const Prog *p = v->bed->pb->source;
    Cx own = {.a = arena_sub(v->e->cx->a)};
    const Expect *want;
    const json_t *files = json_object_get(o, "outputs");
    Args got = v->bed->host;
    Verdict verdict = {0};
    Err err = bed_expect(&own, v->bed, &widest, &want);
    for (int i = 0; i < p->nparams && !err; i++) {
        if (p->param[i].dir != DIR_OUT && p->param[i].dir != DIR_INOUT) continue;
        char *bytes;
        size_t n;
        const char *path = json_string_value(json_object_get(files, p->param[i].name));
        if (os_read_file(&alloc_libc, path ? path : param_path(v, i), OS_ANY, v->bed->size[i], &bytes, &n))
            n = 0, bytes = NULL;
        got.t[i].data = arena_get(own.a, v->bed->size[i]);
        if (n == v->bed->size[i] && bytes) memcpy(got.t[i].data, bytes, n);
        free(bytes);
        if (n != v->bed->size[i]) memset(got.t[i].data, BED_POISON, v->bed->size[i]); /* not given is wrong */
    }
    if (!err) err = oracle_compare(&own, p, &v->bed->pb->shape, &got, want, &verdict);
    json_object_del(o, "outputs"); /* the files go with their folder */
    json_object_set_new(o, "check",
                        json_pack("{s:b,s:I,s:I,s:o}", "ok", verdict.ok, "checked", (json_int_t)verdict.checked, "bad",
                                  (json_int_t)verdict.bad, "worst_error_share", record_number(verdict.worst)));
    arena_free(own.a);
    return err == ERR_WRONG ? OK : err; /* it stands in the record */
}

static Err replies(Visit *v, char *text) {
    Err err = OK;
    int n = 0;
    for (char *line = text; *line && !err;) {
        size_t len = strcspn(line, "\n");
        json_t *j = *line == '{' ? json_loadb(line, len, 0, NULL) : NULL; /* what a framework prints is passed over */
        v->e->spare[1] = j;
        if (json_is_object(j) && json_object_get(j, "peer")) {
            json_t *o = reply_to(v, j);
            n++;
            medians(json_object_get(o, "figures"));
            if (!json_object_get(o, "missing")) err = check(v, o);
        }
        json_decref(j);
        v->e->spare[1] = NULL;
        line += len + (line[len] == '\n');
    }
    if (!n) missing(v, arena_printf(v->e->cx->a, "its adapter gave no answer: %.300s", text));
    return err;
}

static bool stop_adapter(void *user) {
    return evidence_over(user);
}

static Err visit(Visit *v, const json_t *cse) {
    Cx *cx = v->e->cx;
    const char *path = arena_printf(cx->a, "%s/request.json", v->folder), *python = getenv("ROWFOLD_PYTHON");
    char program[4096];
    const size_t n = strlen(v->adapter);
    const bool script = n > 3 && str_eq(v->adapter + n - 3, ".py");
    Ended end = {0};
    if (script && os_find_program(python && *python ? python : "python3", program, sizeof program))
        return missing(v, "there is no python3"), OK;
    const char *argv[] = {script ? program : v->adapter, script ? v->adapter : path, script ? path : NULL, NULL};
    char *out = arena_get(cx->a, REPLY_MAX);
    Spawn s = {.argv = argv,
               .timeout_ns = (int64_t)((300 + 4 * measure_ask_seconds(&v->e->ask->measure)) * 1e9),
               .over = stop_adapter,
               .user = v->e,
               .out = out,
               .cap = REPLY_MAX};
    Err err = request(v, cse, path);
    if (err) return err;
    char why[128];
    int bad = os_spawn(&alloc_libc, &s, &end);
    if (bad) return missing(v, os_error(bad, why, sizeof why)), OK;
    if (v->e->stopped) return OK;
    if (end.timed_out) return missing(v, "its adapter did not end in time"), OK;
    return replies(v, out);
}

Err peer_measure(Evidence *e, const char *adapter, const json_t *cse, Bed *bed, const json_t *where, json_t *list) {
    char folder[4096], why[128];
    int64_t bytes;
    Visit v = {.e = e, .adapter = adapter, .folder = folder, .bed = bed, .where = where, .list = list};
    Cx own = {.a = e->cx->a};
    if (file_sha(&own, e->ask->al, adapter, v.sha, &bytes)) {
        memset(v.sha, 0, sizeof v.sha);
        return missing(&v, own.first->msg), OK;
    }
    int hold, bad = os_dir_work(folder, sizeof folder, &hold);
    if (bad)
        return diag(e->cx, S_RECORD_IO, NOWHERE, NULL, "no folder for a peer's files: %s",
                    os_error(bad, why, sizeof why));
    Err err = visit(&v, cse);
    os_dir_remove(folder);
    close(hold);
    return err;
}
