/* A device's calibration, as text. */
#include "handle.h"

#include <string.h>

typedef struct Told {
    int (*progress)(void *user, int done, int total, double seconds);
    void *user;
} Told;

static bool tell(void *user, int done, int total, double seconds) {
    const Told *t = user;
    return t->progress && t->progress(t->user, done, total, seconds) != 0;
}

rowfold_status rowfold_calibrate(rowfold_context *ctx, rowfold_device *d,
                                 int (*progress)(void *user, int done, int total, double seconds), void *user,
                                 char **json) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!json) return call_wrong(ctx, S_ARG, "rowfold_calibrate needs a place for its result");
    if (!d) {
        rowfold_status s = rowfold_device_find(ctx, "best", &d);
        if (s != ROWFOLD_OK) return s;
    }
    if (d->ctx != ctx) return call_wrong(ctx, S_ARG, "the device is of another context");
    if (!d->dev) return call_wrong(ctx, S_DRIVE_PRESET, "a machine that is not here cannot be calibrated");
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(ctx);
    }
    const char *text = NULL;
    Told told = {progress, user};
    CalibrateRequest q = {.dev = d->dev, .caps = &d->caps, .identity = d->identity, .progress = tell, .user = &told};
    rowfold_status s = call_end(&c, drive_calibrate(&c.cx, &q, &text));
    if (s == ROWFOLD_OK) {
        size_t n = strlen(text) + 1;
        *json = ctx->al.get(ctx->al.user, n);
        if (*json) memcpy(*json, text, n);
    }
    arena_free(a);
    return s != ROWFOLD_OK || *json ? s : call_memory(ctx);
}
