/* What a record rests on besides its cases: version, device, the binaries that took part, switches of the environment,
 * the machine, the time. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "evidence.h"

#include "../base/os.h"

#include <dlfcn.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;
enum { BINARY_MAX = 1 << 30 };

Err file_sha(Cx *cx, const Alloc *al, const char *path, char sha[65], int64_t *bytes) {
    char *text, why[128];
    size_t n;
    const Alloc use = al ? *al : alloc_libc;
    int bad = os_read_file(&use, path, OS_ANY, BINARY_MAX, &text, &n);
    if (bad) return diag(cx, S_RECORD_IO, NOWHERE, NULL, "%s cannot be read: %s", path, os_error(bad, why, sizeof why));
    sha256_hex(text, n, sha);
    *bytes = (int64_t)n;
    use.put(use.user, text);
    return OK;
}

static Err binary(Cx *cx, const EvidenceAsk *q, json_t *list, const char *role, const char *path) {
    char sha[65];
    int64_t bytes;
    char real[PATH_MAX];
    const char *at = realpath(path, real) ? real : path, *slash = strrchr(at, '/');
    Err err = file_sha(cx, q->al, at, sha, &bytes);
    if (!err)
        record_element(list, json_pack("{s:s,s:o,s:I,s:s}", "role", role, "path", record_text(slash ? slash + 1 : at),
                                       "bytes", (json_int_t)bytes, "sha256", sha));
    return err;
}

Err binaries_make(Cx *cx, const EvidenceAsk *q, json_t *list) {
    char worker[4096];
    Dl_info self;
    Err err = binary(cx, q, list, "executable", "/proc/self/exe");
    /* where the library is part of the program, that is the file which this gives */
    if (!err && dladdr((void *)(uintptr_t)binaries_make, &self) && self.dli_fname && access(self.dli_fname, R_OK) == 0)
        err = binary(cx, q, list, "library", self.dli_fname);
    if (!err && worker_find(q->worker, worker, sizeof worker)) err = binary(cx, q, list, "worker", worker);
    if (!err && q->dev && *dev_compiler(q->dev)) err = binary(cx, q, list, "compiler", dev_compiler(q->dev));
    return err;
}

/* A list of paths without their folders, which say where a person works and nothing of what was measured. */
static const char *bare(Cx *cx, const char *list) {
    Buf b = buf_new(cx->a);
    for (const char *at = list; *at;) {
        const size_t n = strcspn(at, ":");
        const char *name = at;
        for (size_t i = 0; i + 1 < n; i++)
            if (at[i] == '/') name = at + i + 1;
        buf_fmt(&b, "%.*s", (int)(at + n - name), name);
        at += n;
        if (*at) buf_str(&b, ":"), at++;
    }
    return b.n ? b.s : "";
}

static void environment(Cx *cx, json_t *o) {
    static const char *const heads[] = {"ROWFOLD_", "CUDA_",   "MALLOC_",     "GOMP_",           "OMP_",
                                        "CC=",      "TMPDIR=", "LD_PRELOAD=", "LD_LIBRARY_PATH="};
    for (char **v = environ; *v; v++)
        for (int i = 0; i < COUNT(heads); i++) {
            const char *eq = strchr(*v, '=');
            if (!eq || !str_starts(*v, heads[i])) continue;
            json_object_set_new(o, arena_str(cx->a, *v, (size_t)(eq - *v)), record_text(bare(cx, eq + 1)));
            break;
        }
}

Err provenance_make(Cx *cx, const EvidenceAsk *q, json_t *o) {
    struct utsname u;
    Buf caps = buf_new(cx->a);
    caps_print(q->caps, &caps);
    json_object_set_new(o, "rowfold", json_string(ROWFOLD_VERSION_TEXT));
    json_object_set_new(o, "device",
                        json_pack("{s:s,s:o,s:o}", "name", q->dev ? dev_name(q->dev) : q->caps->name, "identity",
                                  record_text(q->identity), "caps", record_text(caps.s)));
    json_object_set_new(o, "threads", json_integer(q->measure.figures.threads));
    environment(cx, record_member(o, "environment", json_object()));
    json_object_set_new(
        o, "machine",
        json_pack("{s:o,s:i}", "system",
                  record_text(uname(&u) ? "" : arena_printf(cx->a, "%s %s %s", u.sysname, u.release, u.machine)),
                  "cpus", os_cpus()));
    json_object_set_new(o, "time_unix_s", json_integer((json_int_t)(os_unix_ns() / 1000000000)));
    return binaries_make(cx, q, record_member(o, "binaries", json_array()));
}
