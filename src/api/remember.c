/* Trials and wisdom of a store, as text. */
#include "handle.h"

#include <string.h>

typedef struct Job {           /* one call on a store */
    const char *filter, *text; /* text: of wisdom, or of a calibration */
    size_t bytes;
    int64_t limit;
    const char *out; /* lives in the call's arena */
    int64_t count;
    Store *store;
} Job;
typedef Err Work(Call *c, Job *j);

static Err open_store(Call *c, const char *where, StoreMode mode, Store **out) {
    StoreOptions o = {.al = &c->ctx->al, .where = where, .mode = mode};
    Err err = store_open(&c->cx, &o, out);
    if (!err && *out && *store_note(*out) && c->ctx->o.log) c->ctx->o.log(c->ctx->o.log_user, 1, store_note(*out));
    return err;
}

static rowfold_status call_store(rowfold_context *ctx, const char *where, StoreMode mode, Work *work, Job *j,
                                 char **out) {
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        store_close(j->store);
        arena_free(a);
        return call_memory(ctx);
    }
    Err err = open_store(&c, where, mode, &j->store);
    if (!err) err = work(&c, j);
    rowfold_status s = call_end(&c, err);
    store_close(j->store);
    char *copy = NULL;
    if (s == ROWFOLD_OK && out) {
        size_t n = strlen(j->out) + 1;
        copy = ctx->al.get(ctx->al.user, n);
        if (copy) memcpy(copy, j->out, n);
    }
    arena_free(a);
    if (s != ROWFOLD_OK || !out) return s;
    if (!copy) return call_memory(ctx);
    *out = copy;
    return ROWFOLD_OK;
}

static Err list(Call *c, Job *j) {
    Filter f;
    Err err = filter_read(&c->cx, j->filter, &f);
    return err ? err : store_trials(&c->cx, j->store, &f, j->limit, &j->out);
}

rowfold_status rowfold_trials(rowfold_context *ctx, const char *store, const char *filter, int64_t limit, char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!json || limit < 0)
        return call_wrong(ctx, S_ARG, "rowfold_trials needs a place for its result, and limit >= 0");
    return call_store(ctx, store, STORE_READ, list, &(Job){.filter = filter, .limit = limit}, json);
}

static Err foresee(Call *c, Job *j, Err (*work)(Cx *cx, const ForeseeRequest *q, const char **out)) {
    ForeseeRequest q = {.store = j->store, .calibration = j->text};
    Err err = filter_read(&c->cx, j->filter, &q.filter);
    return err ? err : work(&c->cx, &q, &j->out);
}

static Err fit(Call *c, Job *j) {
    return foresee(c, j, foresee_fit);
}

static Err scores(Call *c, Job *j) {
    return foresee(c, j, foresee_scores);
}

rowfold_status rowfold_calibrate_trials(rowfold_context *ctx, const char *store, const char *filter,
                                        const char *calibration, char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!json) return call_wrong(ctx, S_ARG, "rowfold_calibrate_trials needs a place for its result");
    return call_store(ctx, store, STORE_READ, fit, &(Job){.filter = filter, .text = calibration}, json);
}

rowfold_status rowfold_foresee(rowfold_context *ctx, const char *store, const char *filter, const char *calibration,
                               char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!json) return call_wrong(ctx, S_ARG, "rowfold_foresee needs a place for its result");
    return call_store(ctx, store, STORE_READ, scores, &(Job){.filter = filter, .text = calibration}, json);
}

static Err export_text(Call *c, Job *j) {
    Filter f;
    Err err = filter_read(&c->cx, j->filter, &f);
    return err ? err : wisdom_export(&c->cx, j->store, &f, &j->out);
}

rowfold_status rowfold_wisdom_export(rowfold_context *ctx, const char *store, const char *filter, char **text) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!text) return call_wrong(ctx, S_ARG, "rowfold_wisdom_export needs a place for its result");
    return call_store(ctx, store, STORE_READ, export_text, &(Job){.filter = filter}, text);
}

static Err import_text(Call *c, Job *j) {
    const char *here[COUNT(c->ctx->device)];
    int n = 0;
    for (int i = 0; i < c->ctx->ndevices; i++)
        if (c->ctx->device[i]->dev) here[n++] = c->ctx->device[i]->identity;
    return wisdom_import(&c->cx, j->store, j->text, j->bytes, here, n, &j->out);
}

rowfold_status rowfold_wisdom_import(rowfold_context *ctx, const char *store, const char *text, size_t bytes,
                                     char **report) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!text && bytes) return call_wrong(ctx, S_ARG, "rowfold_wisdom_import needs text");
    return call_store(ctx, store, STORE_WRITE, import_text, &(Job){.text = text, .bytes = bytes}, report);
}

static Err forget(Call *c, Job *j) {
    Filter f;
    Err err = filter_read(&c->cx, j->filter, &f);
    return err || !j->store ? err : wisdom_forget(&c->cx, j->store, &f, &j->count);
}

rowfold_status rowfold_wisdom_forget(rowfold_context *ctx, const char *store, const char *filter, int64_t *problems) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    Job j = {.filter = filter};
    rowfold_status s =
        call_store(ctx, store, STORE_READ, forget, &j, NULL); /* where there is no file, nothing is made */
    if (s == ROWFOLD_OK && problems) *problems = j.count;
    return s;
}

rowfold_status rowfold_store_path(rowfold_context *ctx, const char *store, char **path) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!path) return call_wrong(ctx, S_ARG, "rowfold_store_path needs a place for its result");
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(ctx);
    }
    const char *at = "";
    rowfold_status s = call_end(&c, store_place(&c.cx, store, &at));
    size_t n = strlen(at) + 1;
    char *copy = s == ROWFOLD_OK ? ctx->al.get(ctx->al.user, n) : NULL;
    if (copy) memcpy(copy, at, n);
    arena_free(a);
    if (s != ROWFOLD_OK) return s;
    return copy ? (*path = copy, ROWFOLD_OK) : call_memory(ctx);
}
