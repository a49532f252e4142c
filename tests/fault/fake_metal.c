/* What fake_metal.h says. */
#include "fake_metal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct Object {
    const char *kind;
    int refs;
    char *text;          /* strings, errors: the text; command buffers: why they failed; buffers: contents */
    unsigned long bytes; /* of buffers */
    void *compiled;      /* of libraries, functions, pipelines */
} Object;

typedef struct Size {
    unsigned long width, height, depth;
} Size;
typedef struct Both { /* a message's result, whether number or double */
    long i;
    double d;
} Both;

enum { STATUS_ERROR = 5 };
FakeMetal fake_metal;
static _Thread_local Object *pool[4096], *commands; /* the command buffer that is encoded */
static _Thread_local int pooled;
static pthread_mutex_t encoding = PTHREAD_MUTEX_INITIALIZER; /* one at a time: what it sets stands in fake_metal */

void *objc_getClass(const char *name);
const char *sel_registerName(const char *name);
int *objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(const int *mark);
void *MTLCreateSystemDefaultDevice(void);
Both objc_msgSend(Object *self, const char *op, unsigned long a, unsigned long b, unsigned long c, Size groups,
                  Size lanes);

static Object *made(const char *kind, const char *text) {
    Object *o = calloc(1, sizeof *o);
    *o = (Object){.kind = kind, .refs = 1, .text = text ? strdup(text) : NULL};
    __atomic_add_fetch(&fake_metal.turn.live, 1, __ATOMIC_RELAXED);
    return o;
}

static void release(Object *o) {
    if (__atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL)) return;
    free(o->text);
    free(o);
    __atomic_sub_fetch(&fake_metal.turn.live, 1, __ATOMIC_RELAXED);
}

static Object *later(Object *o) { /* released with the pool */
    return pool[pooled++] = o;
}

void *objc_getClass(const char *name) {
    static Object class[4];
    static int n;
    for (int i = 0; i < n; i++)
        if (!strcmp(class[i].kind, name)) return &class[i];
    class[n] = (Object){.kind = name, .refs = 1 << 20};
    return &class[n++];
}

const char *sel_registerName(const char *name) {
    return name;
}

int *objc_autoreleasePoolPush(void) {
    int *mark = malloc(sizeof *mark);
    *mark = pooled;
    return mark;
}

void objc_autoreleasePoolPop(const int *mark) {
    while (pooled > *mark) release(pool[--pooled]);
    free((void *)(size_t)mark);
}

static bool fails(const char *op) {
    if (fake_metal.refuse && !strcmp(op, fake_metal.refuse)) return true;
    __atomic_add_fetch(&fake_metal.turn.calls, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_sub(&fake_metal.turn.left, 1, __ATOMIC_RELAXED) != 1) return false;
    fake_metal.turn.failed = op;
    return true;
}

void *MTLCreateSystemDefaultDevice(void) {
    return fails("MTLCreateSystemDefaultDevice") ? NULL : made("device", "Fake GPU");
}

static long number_of(const Object *self, const char *op, unsigned long a) {
    FakeMetal *f = &fake_metal;
    if (!strcmp(op, "threadExecutionWidth")) return (long)f->width;
    if (!strcmp(op, "maxTotalThreadsPerThreadgroup")) return (long)f->most_lanes;
    if (!strcmp(op, "maxThreadgroupMemoryLength")) return 32768;
    if (!strcmp(op, "status")) return self->text || fails(op) ? STATUS_ERROR : (long)f->status;
    if (!strcmp(op, "supportsFamily:")) return a == f->family;
    return 0;
}

static void dispatch(Size groups, Size lanes) {
    FakeMetal *f = &fake_metal;
    char why[2000] = "";
    f->groups = groups.width, f->lanes = lanes.width;
    f->dispatches++;
    if (f->work && !f->work->run(f->compiled, f, why, sizeof why) && !commands->text) commands->text = strdup(why);
}

static void encode(const char *op, unsigned long a, unsigned long b, unsigned long c, Size groups, Size lanes) {
    FakeMetal *f = &fake_metal;
    const Object *x = strchr(op, ':') ? (const Object *)a : NULL; /* of the messages that take one */
    if (!strcmp(op, "setBuffer:offset:atIndex:")) {
        f->buffer[c] = x ? x->text : NULL;
        f->offset[c] = b, f->bytes[c] = x ? x->bytes : 0;
    } else if (!strcmp(op, "setComputePipelineState:")) {
        f->compiled = x->compiled;
    } else if (!strcmp(op, "setBytes:length:atIndex:")) {
        memcpy(f->args, (const void *)a, b < sizeof f->args ? b : sizeof f->args);
        f->args_bytes = b, f->args_at = (int)c;
    } else if (!strcmp(op, "setThreadgroupMemoryLength:atIndex:")) {
        f->threadgroup_bytes = a;
    } else if (!strcmp(op, "dispatchThreadgroups:threadsPerThreadgroup:")) {
        dispatch(groups, lanes);
    } else if (!strcmp(op, "endEncoding")) {
        pthread_mutex_unlock(&encoding);
    }
}

/* The library of a text; NULL with an error. */
static Object *library(const char *text, Object **error) {
    FakeMetal *f = &fake_metal;
    char why[4000] = "";
    strncpy(f->text, text, sizeof f->text - 1);
    void *compiled = f->work && !*why ? f->work->compile(text, why, sizeof why) : NULL;
    if (fails("newLibraryWithSource:options:error:") || (f->work && !compiled)) {
        *error = later(made("error", *why ? why : NULL));
        return NULL;
    }
    Object *o = made("library", NULL);
    o->compiled = compiled;
    return o;
}

static Object *buffer(unsigned long bytes) {
    if (fails("newBufferWithLength:options:")) return NULL;
    Object *o = made("buffer", NULL);
    o->text = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), o->bytes = bytes;
    return o;
}

static Object *pipeline(const Object *function, Object **error) {
    if (fails("newComputePipelineStateWithFunction:error:")) {
        *error = later(made("error", NULL));
        return NULL;
    }
    Object *o = made("pipeline", NULL);
    o->compiled = function->compiled;
    fake_metal.pipelines++;
    return o;
}

Both objc_msgSend(Object *self, const char *op, unsigned long a, unsigned long b, unsigned long c, Size groups,
                  Size lanes) {
    FakeMetal *f = &fake_metal;
    Both r = {0, 0};
    void *made_now = NULL;
    if (!self) return r;
    if (!strcmp(op, "release")) {
        release(self);
    } else if (!strcmp(op, "retain") || !strcmp(op, "init")) {
        if (!strcmp(op, "retain")) __atomic_add_fetch(&self->refs, 1, __ATOMIC_RELAXED);
        made_now = self;
    } else if (!strcmp(op, "alloc")) {
        made_now = made("options", NULL);
    } else if (!strcmp(op, "stringWithUTF8String:")) {
        made_now = later(made("string", (const char *)a));
    } else if (!strcmp(op, "UTF8String")) {
        made_now = self->text;
    } else if (!strcmp(op, "name") || !strcmp(op, "processInfo") || !strcmp(op, "operatingSystemVersionString")) {
        made_now = later(made("string", self->text ? self->text : "15.0"));
    } else if (!strcmp(op, "localizedDescription")) {
        made_now = later(made("string", self->text ? self->text : "the fake refuses"));
    } else if (!strcmp(op, "error")) {
        made_now = later(made("error", self->text));
    } else if (!strcmp(op, "respondsToSelector:")) {
        r.i = !f->old_system;
    } else if (!strcmp(op, "setMathMode:") || !strcmp(op, "setFastMathEnabled:")) {
        f->safe_math = a == 0;
    } else if (!strcmp(op, "newLibraryWithSource:options:error:")) {
        made_now = library(((Object *)a)->text, (Object **)c);
    } else if (!strcmp(op, "newComputePipelineStateWithFunction:error:")) {
        made_now = pipeline((const Object *)a, (Object **)b);
    } else if (!strcmp(op, "newBufferWithLength:options:")) {
        made_now = buffer(a);
    } else if (!strcmp(op, "contents")) {
        made_now = self->text;
    } else if (!strncmp(op, "new", 3)) { /* a queue, a function */
        Object *o = fails(op) ? NULL : made(op, NULL);
        if (o) o->compiled = self->compiled;
        made_now = o;
    } else if (!strcmp(op, "commandBuffer")) {
        made_now = fails(op) ? NULL : later(made(op, NULL));
    } else if (!strcmp(op, "computeCommandEncoder")) {
        made_now = fails(op) ? NULL : later(made(op, NULL));
        if (made_now) pthread_mutex_lock(&encoding);
        commands = self;
    } else if (!strcmp(op, "commit")) {
        f->commits++;
    } else if (!strcmp(op, "waitUntilCompleted")) {
        f->waits++;
    } else if (!strcmp(op, "GPUStartTime") || !strcmp(op, "GPUEndTime")) {
        r.d = !strcmp(op, "GPUEndTime") ? 2.0005 : 2.0;
    } else {
        encode(op, a, b, c, groups, lanes);
        r.i = number_of(self, op, a);
    }
    if (made_now) r.i = (long)made_now;
    return r;
}
