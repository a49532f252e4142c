/* The searching side of a worker: starting it, asking it, noticing that it died, and another one in its place. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "worker.h"
#include "measure.h"

#include "../base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef ROWFOLD_LIBEXECDIR
#define ROWFOLD_LIBEXECDIR "/usr/local/libexec/rowfold"
#endif

extern char **environ;
enum { OPEN_SECONDS = 120, TRY_SECONDS = 120, INFINITE_PATIENCE = 1 << 30 };
static const int64_t over_every_ns = 250000000;
static const double open_patience_s = 1, try_patience_s = 10; /* until budgets count */
static const double element_seconds = 1e-6; /* several times what inputs and the definition take for one */

struct Worker {
    WorkerOptions o;
    Alloc al;
    pid_t pid;                        /* 0: none runs */
    int fd, line;                     /* what it is asked through; what it dies by when this process does */
    char path[PATH_MAX], cache[1024]; /* cache: where nothing is cached otherwise, so that no unit is built twice */
    int hold;                         /* of cache */
    double element_s;                 /* what the problem's size adds to every wait */
};

/* ---- finding ---- */

static bool runs(const char *path) {
    return access(path, X_OK) == 0;
}

bool worker_find(const char *asked, char *path, size_t cap) {
    const char *env = getenv("ROWFOLD_WORKER"), *given = asked ? asked : env;
    if (given) return snprintf(path, cap, "%s", given) < (int)cap && runs(path);
    static const char *const near[] = {"rowfold-worker", "../libexec/rowfold/rowfold-worker"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(self, '/');
    for (int i = 0; slash && i < COUNT(near); i++)
        if (snprintf(path, cap, "%.*s/%s", (int)(slash - self), self, near[i]) < (int)cap && runs(path)) return true;
    return snprintf(path, cap, "%s/rowfold-worker", ROWFOLD_LIBEXECDIR) < (int)cap && runs(path);
}

/* ---- processes ---- */

static void stop(Worker *w) {
    if (w->pid > 0) {
        kill(-w->pid, SIGKILL); /* and by its death the compiler that it may have started */
        kill(w->pid, SIGKILL);
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR) continue;
        os_dir_sweep(); /* what it was compiling in */
    }
    if (w->fd >= 0) close(w->fd);
    if (w->line >= 0) close(w->line);
    w->pid = 0, w->fd = w->line = -1;
}

/* Both ends above what a child's own descriptors are moved to. */
static int pair(int fd[2]) {
    int low[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, low)) return errno;
    int err = 0;
    for (int i = 0; i < 2; i++) {
        fd[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 10);
        if (fd[i] < 0) err = errno == EINVAL ? EMFILE : errno; /* the limit may be below 10 */
        close(low[i]);
    }
    for (int i = 0; err && i < 2; i++)
        if (fd[i] >= 0) close(fd[i]);
    return err;
}

static int spawn(const char *path, int end, const char *line, pid_t *pid) {
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int err = posix_spawn_file_actions_init(&fa);
    if (err) return err;
    err = posix_spawnattr_init(&at);
    if (!err) {
        for (int fd = 0; fd < 3 && !err; fd++) /* what a kernel prints goes nowhere */
            err = posix_spawn_file_actions_addopen(&fa, fd, fd || !*line ? "/dev/null" : line, O_RDWR, 0);
        if (!err) err = posix_spawn_file_actions_adddup2(&fa, end, WIRE_FD);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
        if (!err) err = posix_spawn_file_actions_addclosefrom_np(&fa, WIRE_FD + 1);
#endif
        if (!err) err = posix_spawnattr_setsigmask(&at, &none);
        if (!err) err = posix_spawnattr_setsigdefault(&at, &all);
        if (!err) err = posix_spawnattr_setpgroup(&at, 0);
        short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
#ifdef POSIX_SPAWN_SETSID
        flags |= *line ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
#else
        flags |= POSIX_SPAWN_SETPGROUP;
#endif
        if (!err) err = posix_spawnattr_setflags(&at, flags);
        char *argv[] = {(char *)(uintptr_t)path, NULL};
        if (!err) err = posix_spawn(pid, path, &fa, &at, argv, environ);
        posix_spawnattr_destroy(&at);
    }
    posix_spawn_file_actions_destroy(&fa);
    return err;
}

/* ---- asking ---- */

static Err crashed(Cx *cx, Worker *w) {
    int status = 0;
    pid_t r;
    kill(-w->pid, SIGKILL); /* it closed its socket: whatever is left of it goes */
    do r = waitpid(w->pid, &status, 0);
    while (r < 0 && errno == EINTR);
    w->pid = 0;
    os_dir_sweep();
    stop(w);
    if (r > 0 && WIFSIGNALED(status))
        return diag(cx, S_WORKER_CRASHED, NOWHERE, NULL, "the worker ended with signal %d (%s)", WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    return diag(cx, S_WORKER_CRASHED, NOWHERE, NULL, "the worker ended with code %d", r > 0 ? WEXITSTATUS(status) : -1);
}

static Err unreachable(Cx *cx, Worker *w, int err) {
    char why[128];
    stop(w);
    return diag(cx, S_WORKER_UNREACHABLE, NOWHERE, NULL, "%s cannot be talked to: %s", w->path,
                os_error(err, why, sizeof why));
}

static Err garbage(Cx *cx, Worker *w) {
    stop(w);
    return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "the worker's answer makes no sense");
}

static void copy_text(const json_t *j, const char *key, char *out, size_t cap) {
    const char *s = json_string_value(json_object_get(j, key));
    snprintf(out, cap, "%s", s ? s : "");
}

/* Waits for an answer to begin, but no longer than it is wanted. A signal cuts a wait short. */
static bool is_over(const Worker *w, int64_t patient_ns, int64_t deadline_ns) {
    struct pollfd pf = {.fd = w->fd, .events = POLLIN};
    for (int64_t now; (now = os_now_ns()) < deadline_ns;) {
        if (poll(&pf, 1, (int)(i64_min(over_every_ns, deadline_ns - now) / 1000000) + 1) > 0) return false;
        if (w->o.over(w->o.user, os_now_ns() >= patient_ns)) return true;
    }
    return false;
}

/* The other side's own failures come back as they were said there. `t` is filled as far as it went. patience: seconds
 * until a search's budgets count; 0: nobody is asked. */
static Err exchange(Cx *cx, Worker *w, json_t *request, double seconds, double patience, Attempt *t, json_t **reply) {
    char *s = request ? json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL, *text;
    size_t n;
    json_decref(request);
    if (!s) return diag(cx, S_OOM, NOWHERE, NULL, "no memory for a request");
    Wire sent = wire_send(w->fd, s, strlen(s));
    const int why_not = errno;
    free(s);
    if (sent) return sent == WIRE_FAILED ? unreachable(cx, w, why_not) : crashed(cx, w);
    const int64_t now = os_now_ns(), deadline = now + (int64_t)(seconds * 1e9);
    if (patience > 0 && w->o.over && is_over(w, now + (int64_t)(patience * 1e9), deadline)) {
        stop(w);
        return diag(cx, S_SEARCH_STOPPED, NOWHERE, NULL, "the worker was not waited for any longer");
    }
    Wire got = wire_receive(cx->a, w->fd, deadline, &text, &n);
    if (got == WIRE_FAILED) return unreachable(cx, w, errno);
    if (got == WIRE_CLOSED) return crashed(cx, w);
    if (got == WIRE_GARBAGE) return garbage(cx, w);
    if (got == WIRE_LATE) {
        stop(w);
        return diag(cx, S_WORKER_TIMED_OUT, NOWHERE, NULL, "no answer within %g s", seconds);
    }
    char slug[64] = "", why[4096] = "";
    json_t *j = json_loadb(text, n, 0, NULL);
    copy_text(j, "slug", slug, sizeof slug);
    copy_text(j, "why", why, sizeof why);
    bool sound = attempt_read(json_object_get(j, "attempt"), t);
    if (reply)
        *reply = j; /* the caller's, whatever it says */
    else
        json_decref(j);
    Slug code;
    if (slug_find(slug, &code)) return diag(cx, code, NOWHERE, NULL, "%s", why);
    return *slug || !sound ? garbage(cx, w) : OK;
}

static Err start(Cx *cx, Worker *w) {
    int fd[2] = {-1, -1};
    char why[128], identity[1024] = "";
    int err = pair(fd);
    if (!err) {
        char line[64] = "";
        w->line = os_line(line, sizeof line);
        err = spawn(w->path, fd[1], line, &w->pid);
        close(fd[1]);
        if (err) close(fd[0]), stop(w);
    }
    if (err)
        return diag(cx, S_WORKER_UNREACHABLE, NOWHERE, NULL, "%s cannot be started: %s", w->path,
                    os_error(err, why, sizeof why));
    w->fd = fd[0];
    const RtOptions *o = dev_options(w->o.dev);
    json_t *j = json_pack(
        "{s:s,s:s,s:s*,s:s*,s:s,s:i,s:I,s:i,s:I,s:b,s:i,s:o}", "op", "open", "device", dev_name(w->o.dev), "cache_dir",
        *w->cache ? w->cache : o->cache_dir, "cc", o->cc, "isa", isa_text(dev_caps(w->o.dev)->isa), "threads",
        o->threads, "cache_bytes", (json_int_t)o->cache_bytes, "build_timeout_ms", o->build_timeout_ms, "seed",
        (json_int_t)w->o.seed, "cold", w->o.cold, "builders", w->o.builders, "problem", problem_json(cx->a, w->o.pb));
    Attempt t;
    json_t *reply = NULL;
    Err e = exchange(cx, w, j, OPEN_SECONDS + w->element_s, open_patience_s, &t, &reply);
    copy_text(reply, "identity", identity, sizeof identity);
    json_decref(reply);
    const char *own = arena_printf(cx->a, "%s; rowfold %s", dev_identity(w->o.dev), ROWFOLD_VERSION_TEXT);
    if (!e && !str_eq(identity, own))
        e = diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "the worker has another device or version: %s; here is %s",
                 text_apart(cx->a, identity, own, "; "), text_apart(cx->a, own, identity, "; "));
    if (e) stop(w);
    return e;
}

static double elements(const Problem *pb) { /* of all tensors */
    double sum = 0;
    for (int i = 0; i < pb->prog->nparams; i++) {
        const Param *p = &pb->prog->param[i];
        double n = p->dir != DIR_SCALAR && p->dir != DIR_CONST;
        for (int d = 0; d < p->rank; d++) n *= (double)i64_max(pb->shape.n[p->axis[d]], 1);
        sum += n;
    }
    return sum;
}

Err worker_new(Cx *cx, const WorkerOptions *o, Worker **out) {
    const Alloc al = o->al ? *o->al : alloc_libc;
    *out = NULL;
    Worker *w = al.get(al.user, sizeof *w);
    if (!w) return diag(cx, S_OOM, NOWHERE, NULL, "no memory for a worker");
    *w = (Worker){.o = *o, .al = al, .fd = -1, .line = -1, .hold = -1};
    snprintf(w->path, sizeof w->path, "%s", o->path);
    if (w->o.max_seconds <= 0) w->o.max_seconds = TRY_SECONDS;
    w->element_s = elements(o->pb) * element_seconds;
    w->o.max_seconds += w->element_s;
    const char *asked = dev_options(o->dev)->cache_dir;
    if (asked && !*asked && os_dir_work(w->cache, sizeof w->cache, &w->hold)) *w->cache = 0, w->hold = -1;
    *out = w; /* the caller's from here on: memory may run out */
    Err err = start(cx, w);
    if (!err) return OK;
    worker_free(w);
    *out = NULL;
    return err;
}

void worker_free(Worker *w) {
    if (!w) return;
    stop(w);
    if (*w->cache) os_dir_remove(w->cache);
    if (w->hold >= 0) close(w->hold);
    Alloc al = w->al;
    al.put(al.user, w);
}

/* One that ended between two candidates is nobody's fault. */
static bool running(Worker *w) {
    const pid_t pid = w->pid ? waitpid(w->pid, NULL, WNOHANG) : 0;
    if (pid > 0) {
        kill(-w->pid, SIGKILL);
        w->pid = 0;
    }
    if (pid) stop(w);
    return w->pid != 0;
}

static const char *plan_text(Cx *cx, const Plan *plan) {
    Buf b = buf_new(cx->a);
    plan_print(plan, &b);
    return b.s;
}

Err worker_try(Cx *cx, Worker *w, const Plan *plan, const Ask *q, Attempt *out, bool *lost) {
    Attempt t;
    char sha[65];
    memcpy(sha, out->unit_sha, sizeof sha); /* of the source as it was made here */
    const char *text = plan_text(cx, plan);
    Err err = OK;
    *lost = true;
    for (int tries = 0; tries < 2 && *lost; tries++) {
        *cx = (Cx){.a = cx->a, .stop = cx->stop};
        err = running(w) ? OK : start(cx, w);
        if (err) return err;
        json_t *j = json_pack("{s:s,s:s,s:o}", "op", "try", "plan", text, "ask", ask_json(q));
        err = exchange(cx, w, j, w->o.max_seconds, try_patience_s, &t, NULL);
        *lost = err && cx->last->slug == S_WORKER_UNREACHABLE;
    }
    if (!err && *t.unit_sha && !str_eq(sha, t.unit_sha)) { /* the candidate is not to blame */
        stop(w);
        *lost = true;
        return diag(cx, S_WORKER_PROTOCOL, NOWHERE, NULL, "%s is of another rowfold", w->path);
    }
    if (!err && (!t.times.n || !t.verdict.ok)) err = garbage(cx, w);
    if (w->pid) *out = t;
    memcpy(out->unit_sha, sha, sizeof sha);
    /* What gives wrong results or cannot be launched may have written anywhere: the next one gets a clean process. */
    if (err == ERR_WRONG || err == ERR_LAUNCH || err == ERR_MEMORY) stop(w);
    return err;
}

void worker_ahead(Cx *cx, Worker *w, const Plan *const *plan, int n, bool guess) {
    Cx own = {.a = cx->a};
    Attempt t;
    if (!running(w) && start(&own, w)) return;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_string(plan_text(cx, plan[i])));
    exchange(&own, w, json_pack("{s:s,s:o,s:b}", "op", "ahead", "plans", list, "guess", guess), w->o.max_seconds * n,
             try_patience_s, &t, NULL);
}

Err worker_load(Cx *cx, Worker *w, int slot, const Plan *plan, bool fresh, Attempt *out) {
    Err err = running(w) ? OK : start(cx, w);
    if (err) return err;
    return exchange(
        cx, w, json_pack("{s:s,s:i,s:s,s:b}", "op", "load", "slot", slot, "plan", plan_text(cx, plan), "fresh", fresh),
        w->o.max_seconds, 0, out, NULL);
}

Err worker_time(Cx *cx, Worker *w, int slot, const Ask *q, Times *out) {
    Attempt t;
    if (!w->pid) return diag(cx, S_WORKER_CRASHED, NOWHERE, NULL, "the worker is gone, and what it had built");
    Err err = exchange(cx, w, json_pack("{s:s,s:i,s:o}", "op", "time", "slot", slot, "ask", ask_json(q)),
                       w->o.max_seconds, 0, &t, NULL);
    if (!err && !t.times.n) err = garbage(cx, w);
    if (!err) *out = t.times;
    return err;
}

Err worker_measure(Cx *cx, Worker *w, const char *plan, const MeasureAsk *q, struct json_t **out) {
    Attempt t;
    json_t *reply = NULL;
    *out = NULL;
    Err err = running(w) ? OK : start(cx, w);
    if (err) return err;
    err = exchange(cx, w, json_pack("{s:s,s:s,s:o}", "op", "measure", "plan", plan, "ask", measure_ask_json(q)),
                   w->o.max_seconds + measure_ask_seconds(q), INFINITE_PATIENCE, &t, &reply);
    if (!err) *out = json_incref(json_object_get(reply, "measurement"));
    json_decref(reply);
    return err || *out ? err : garbage(cx, w);
}
