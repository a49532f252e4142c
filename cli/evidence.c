/* What bench, catalog and replay share: where suites and adapters lie, options of the library's calls, records in
 * files.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef ROWFOLD_DATADIR
#define ROWFOLD_DATADIR "/usr/local/share/rowfold"
#endif

static bool there(const char *path) {
    return access(path, R_OK) == 0;
}

/* A file that came with rowfold: beside the program as it is built, or as it is installed; NULL: none. */
static const char *data_file(Cli *c, const char *folder, const char *name, const char *ending) {
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    const char *const roots[] = {cli_text(c, "%s/../share/rowfold", self), ROWFOLD_DATADIR,
                                 cli_text(c, "%s/../..", self)};
    for (int i = 0; i < COUNT(roots); i++) {
        const char *path = cli_text(c, "%s/%s/%s%s", roots[i], folder, name, ending);
        if (there(path)) return path;
    }
    return NULL;
}

static bool is_path(const char *word) {
    return strchr(word, '/') || strchr(word, '.');
}

Rc suite_find(Cli *c, const char *word, Suite *out) {
    char *text;
    size_t n;
    if (c->o.cases.n) {
        if (word) return fail(c, F_WORDS, "a suite or --case, not both", "\"%s\" is one word too many", word);
        const char *all = "";
        for (int i = 0; i < c->o.cases.n; i++) all = cli_text(c, "%s%s\n", all, c->o.cases.item[i]);
        *out = (Suite){"cases", all, ""};
        return RC_OK;
    }
    if (!word)
        return fail(c, F_WORDS,
                    "smoke, prior-12, prior-25-reload, prior-25-register, llm-20, order, cpu-peers, gpu-memory, "
                    "gpu-short, odd-rows, a file, or --case",
                    "a suite is missing");
    const char *path = is_path(word) || there(word) ? word : data_file(c, "suites", word, ".suite");
    if (!path)
        return fail(c, F_READ,
                    "smoke, prior-12, prior-25-reload, prior-25-register, llm-20, order, cpu-peers, gpu-memory, "
                    "gpu-short, odd-rows, or the path of a file",
                    "there is no suite \"%s\"", word);
    const Rc rc = file_read_source(c, path, &text, &n);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    out->folder = slash ? cli_text(c, "%.*s", (int)(slash - path), path) : "";
    out->name = name;
    out->text = text;
    return rc;
}

static Rc find_peers(Cli *c, const char **out) {
    const char *all = NULL;
    for (int i = 0; i < c->o.peers.n; i++) {
        const char *name = c->o.peers.item[i], *path = is_path(name) ? name : data_file(c, "peers", name, "_peer.py");
        if (!path || !there(path))
            return fail(c, F_READ, "peers/README.md lists the adapters; the path of one will do too",
                        "there is no adapter of a peer \"%s\"", name);
        char real[PATH_MAX];
        if (realpath(path, real)) path = cli_text(c, "%s", real);
        all = all ? cli_text(c, "%s,%s", all, path) : path;
    }
    *out = all;
    return RC_OK;
}

Rc evidence_options(Cli *c, rowfold_evidence_options *o) {
    Rc rc = c->ctx ? RC_OK : cli_open(c);
    if (rc) return rc;
    rowfold_evidence_options_init(o);
    const rowfold_status s = rowfold_device_find(c->ctx, c->o.device ? c->o.device : "best", &c->device);
    if (s) return fail_library(c, s);
    o->device = c->device;
    if (c->o.effort >= 0) o->effort = (rowfold_effort)c->o.effort;
    o->pin = c->o.pin, o->search = c->o.search, o->policy = c->o.policy, o->store = c->o.store;
    o->max_candidates = c->o.budget_candidates, o->max_seconds = c->o.budget_seconds;
    o->summed_budget = c->o.summed;
    o->samples = c->o.samples > 101 ? 102 : (int)c->o.samples; /* the library says what is accepted */
    o->sample_s = c->o.sample_ms / 1e3, o->warmup_s = c->o.warmup_ms / 1e3;
    o->rotate_bytes = c->o.rotate_mb > 1 << 20 ? (int64_t)1 << 40 : c->o.rotate_mb * 1000000;
    o->threads = c->o.threads > 4096 ? 4096 : (int)c->o.threads;
    o->seed = (uint64_t)c->o.seed;
    o->figures = c->o.figures, o->primary = c->o.primary;
    o->rounds = c->o.rounds > 1000000 ? 1000000 : (int)c->o.rounds;
    o->progress = progress_evidence, o->progress_user = c;
    return find_peers(c, &o->peers);
}

Rc file_read_record(Cli *c, const char *path, char **text, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) return fail(c, F_READ, NULL, "%s: %s", path, strerror(errno));
    Text t = {0};
    char part[1 << 16];
    for (size_t got; (got = fread(part, 1, sizeof part, f)) > 0;) text_put(&t, part, got);
    const int bad = ferror(f) ? errno : 0;
    fclose(f);
    *text = cli_get(c, t.n + 1);
    if (t.n) memcpy(*text, t.s, t.n);
    *n = t.n;
    text_free(&t);
    return bad ? fail(c, F_READ, NULL, "%s: %s", path, strerror(bad)) : RC_OK;
}

Rc record_write(Cli *c, const char *path, const char *json) {
    if (path) return file_write(c, path, json, strlen(json), "\n", 1);
    puts(json);
    return RC_OK;
}
