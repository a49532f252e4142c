/* Candidates are tried in a process of their own, so that one which crashes, hangs or scribbles over memory costs only
 * itself. One worker is started for a search, reused, and replaced when it dies. */
#ifndef ROWFOLD_WORKER_H
#define ROWFOLD_WORKER_H

#include "../bench/bench.h"
#include "attempt.h"

struct json_t;
struct MeasureAsk;

/* ---- worker.c: the searching side ---- */
typedef struct Worker Worker;
typedef struct WorkerOptions {
    const Alloc *al;
    const char *path;   /* of the program */
    double max_seconds; /* of one candidate, from source to samples; 0: two minutes */
    const Problem *pb;
    Device *dev; /* of any runtime: the worker opens it by its name */
    uint64_t seed;
    bool cold;    /* as Bed.cold */
    int builders; /* as Search.builders */
    /* Asked four times a second while the worker is waited for; late: that takes longer than it should, so that budgets
     * count too. True: the worker is killed, and S_SEARCH_STOPPED said. NULL: never. */
    bool (*over)(void *user, bool late);
    void *user;
} WorkerOptions;
/* The program: `asked`, else $ROWFOLD_WORKER, else beside the running program, else where it was installed. "" in one
 * of the first two means none. False: none was found. */
bool worker_find(const char *asked, char *path, size_t cap);
/* Started and given the problem; *out is NULL unless OK. */
Err worker_new(Cx *cx, const WorkerOptions *o, Worker **out);
void worker_free(Worker *w); /* NULL is fine */
/* S_WORKER_CRASHED, S_WORKER_TIMED_OUT or S_WORKER_PROTOCOL where the process is to blame; everything else is what
 * attempt_run would have said. A worker that went down is replaced at the next call, and one that could not be talked
 * to at once; *lost: that cannot be done. */
Err worker_try(Cx *cx, Worker *w, const Plan *plan, const Ask *q, Attempt *out, bool *lost);
/* Units of these plans are built ahead; on a host they are built when it returns. Trouble is found out by the tries. */
void worker_ahead(Cx *cx, Worker *w, const Plan *const *plan, int n, bool guess);
/* Finalists: kept built in slots 0 .. 7, and timed in whatever order. */
Err worker_load(Cx *cx, Worker *w, int slot, const Plan *plan, bool fresh, Attempt *out);
Err worker_time(Cx *cx, Worker *w, int slot, const Ask *q, Times *out);
enum { WORKER_SLOTS = 8 };
/* What measure_plan makes there; *out is the caller's. */
Err worker_measure(Cx *cx, Worker *w, const char *plan, const struct MeasureAsk *q, struct json_t **out);

/* ---- serve.c: the worker's side ---- */
typedef struct ServeHooks {                            /* where a test program does harm */
    void (*unit)(Arena *a, const char *plan, Unit *u); /* before it is built */
    void (*reply)(int fd, const char *plan, Attempt *t);
} ServeHooks;
/* Answers until the other side closes. The exit code of the process. hooks may be NULL. */
int worker_serve(int fd, const ServeHooks *hooks);

/* ---- wire.c: messages, both ways ---- */
enum { WIRE_FD = 3, WIRE_MAX = 8 << 20 };
/* WIRE_FAILED: errno says what this side could not do. */
typedef enum Wire { WIRE_OK, WIRE_CLOSED, WIRE_FAILED, WIRE_LATE, WIRE_GARBAGE } Wire;
Wire wire_send(int fd, const char *text, size_t n);
Wire wire_receive(Arena *a, int fd, int64_t deadline_ns, char **text, size_t *n); /* deadline 0: none */

struct json_t *ask_json(const Ask *q);
bool ask_read(const struct json_t *j, Ask *q);
struct json_t *attempt_json(const Attempt *t);
bool attempt_read(const struct json_t *j, Attempt *t); /* false: not what a sound worker says */
struct json_t *problem_json(Arena *a, const Problem *pb);
Err problem_read(Cx *cx, const struct json_t *j, Problem *pb);
#endif
