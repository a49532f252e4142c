/* What fake_metal.h says. */
#include "fake_metal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Object {
    const char *kind;
    int refs;
    char *text; /* strings: the text; buffers: contents */
} Object;

typedef struct Size {
    unsigned long width, height, depth;
} Size;
typedef struct Both { /* a message's result, whether number or double */
    long i;
    double d;
} Both;

FakeMetal fake_metal;
static Object *pool[4096];
static int pooled;

void *objc_getClass(const char *name);
const char *sel_registerName(const char *name);
int *objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(const int *mark);
void *MTLCreateSystemDefaultDevice(void);
Both objc_msgSend(Object *self, const char *op, unsigned long a, unsigned long b, unsigned long c, Size groups,
                  Size lanes);

static Object *made(const char *kind, const char *text) {
    Object *o = calloc(1, sizeof *o);
    *o = (Object){kind, 1, text ? strdup(text) : NULL};
    fake_metal.live++;
    return o;
}

static void release(Object *o) {
    if (--o->refs) return;
    free(o->text);
    free(o);
    fake_metal.live--;
}

static Object *later(Object *o) { /* released with the pool */
    return pool[pooled++] = o;
}

void *objc_getClass(const char *name) {
    static Object class[4];
    static int n;
    for (int i = 0; i < n; i++)
        if (!strcmp(class[i].kind, name)) return &class[i];
    class[n] = (Object){name, 1 << 20, NULL};
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

void *MTLCreateSystemDefaultDevice(void) {
    return fake_metal.refuse && !strcmp(fake_metal.refuse, "MTLCreateSystemDefaultDevice") ? NULL
                                                                                           : made("device", "Fake GPU");
}

static long number_of(const char *op, unsigned long a) {
    FakeMetal *f = &fake_metal;
    if (!strcmp(op, "threadExecutionWidth")) return (long)f->width;
    if (!strcmp(op, "maxTotalThreadsPerThreadgroup")) return (long)f->most_lanes;
    if (!strcmp(op, "maxThreadgroupMemoryLength")) return 32768;
    if (!strcmp(op, "status")) return (long)f->status;
    if (!strcmp(op, "supportsFamily:")) return a == f->family;
    return 0;
}

static void encode(Object *self, const char *op, unsigned long a, unsigned long b, unsigned long c, Size groups,
                   Size lanes) {
    FakeMetal *f = &fake_metal;
    (void)self;
    if (!strcmp(op, "setBuffer:offset:atIndex:")) {
        f->buffer[c] = a ? ((Object *)a)->text : NULL;
        f->offset[c] = b;
    } else if (!strcmp(op, "setBytes:length:atIndex:")) {
        memcpy(f->args, (const void *)a, b < sizeof f->args ? b : sizeof f->args);
        f->args_bytes = b, f->args_at = (int)c;
    } else if (!strcmp(op, "setThreadgroupMemoryLength:atIndex:")) {
        f->threadgroup_bytes = a;
    } else if (!strcmp(op, "dispatchThreadgroups:threadsPerThreadgroup:")) {
        f->groups = groups.width, f->lanes = lanes.width;
        f->dispatches++;
    }
}

Both objc_msgSend(Object *self, const char *op, unsigned long a, unsigned long b, unsigned long c, Size groups,
                  Size lanes) {
    FakeMetal *f = &fake_metal;
    Both r = {0, 0};
    void *made_now = NULL;
    if (!self) return r;
    const bool fails = f->refuse && !strcmp(op, f->refuse);
    if (!strcmp(op, "release")) {
        release(self);
    } else if (!strcmp(op, "retain") || !strcmp(op, "init")) {
        self->refs += !strcmp(op, "retain");
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
        made_now = later(made("string", "the fake refuses"));
    } else if (!strcmp(op, "error")) {
        made_now = later(made("error", NULL));
    } else if (!strcmp(op, "respondsToSelector:")) {
        r.i = !f->old_system;
    } else if (!strcmp(op, "setMathMode:") || !strcmp(op, "setFastMathEnabled:")) {
        f->safe_math = a == 0;
    } else if (!strcmp(op, "newLibraryWithSource:options:error:")) {
        strncpy(f->text, ((Object *)a)->text, sizeof f->text - 1);
        if (fails) *(Object **)c = later(made("error", NULL));
        made_now = fails ? NULL : made("library", NULL);
    } else if (!strcmp(op, "newComputePipelineStateWithFunction:error:")) {
        if (fails) *(Object **)b = later(made("error", NULL));
        made_now = fails ? NULL : made("pipeline", NULL);
        f->pipelines += !fails;
    } else if (!strcmp(op, "newBufferWithLength:options:")) {
        made_now = fails ? NULL : made("buffer", NULL);
        if (made_now) ((Object *)made_now)->text = aligned_alloc(4096, (a + 4095) / 4096 * 4096);
    } else if (!strcmp(op, "contents")) {
        made_now = self->text;
    } else if (!strncmp(op, "new", 3)) {
        made_now = fails ? NULL : made(op, NULL);
    } else if (!strcmp(op, "commandBuffer") || !strcmp(op, "computeCommandEncoder")) {
        made_now = fails ? NULL : later(made(op, NULL));
    } else if (!strcmp(op, "commit")) {
        f->commits++;
    } else if (!strcmp(op, "waitUntilCompleted")) {
        f->waits++;
    } else if (!strcmp(op, "GPUStartTime") || !strcmp(op, "GPUEndTime")) {
        r.d = !strcmp(op, "GPUEndTime") ? 2.0005 : 2.0;
    } else {
        encode(self, op, a, b, c, groups, lanes);
        r.i = number_of(op, a);
    }
    if (made_now) r.i = (long)made_now;
    return r;
}
