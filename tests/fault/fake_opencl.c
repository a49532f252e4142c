/* An OpenCL loader without a device, for tests of rt/cldev.c: memory is the host's, programs and launches are taken and
 * counted, and what goes wrong is set through the environment. FAKE_OPENCL is a list of words:
 *     noplatform     the loader finds none         start          it does not start
 *     nodevice       its platform has none         cpu, nvidia, intel      what the device is (else: a GPU of none of
 * these) flush          it has no subnormal numbers   inexact        it does not divide correctly    nof64
 *     few            bytes of arguments are taken
 *     private=BYTES, group=LANES         of every kernel                spills=K   the first K programs keep registers
 * in memory context, memory, build, kernel, launch, sync, binary         the call of that kind fails fake_last tells
 * the last launch. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Last {
    size_t global, local, launches, programs, binaries;
    int64_t first, rows, offset; /* offset: the first slot */
    char options[256];
} Last;
Last fake_last;

typedef struct Turn { /* as in turns.h */
    long left, calls, live;
    const char *failed;
} Turn;
Turn fake_turn;

static int in_turn(const char *fn) {
    __atomic_add_fetch(&fake_turn.calls, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_sub(&fake_turn.left, 1, __ATOMIC_RELAXED) != 1) return 0;
    fake_turn.failed = fn;
    return 1;
}
enum { OUT_OF_RESOURCES = -5 };
#define TURN \
    if (in_turn(__func__)) return OUT_OF_RESOURCES
static void live(int by) {
    __atomic_add_fetch(&fake_turn.live, by, __ATOMIC_RELAXED);
}

static const char *word(const char *w) {
    const char *all = getenv("FAKE_OPENCL");
    const char *at = all ? strstr(all, w) : NULL;
    return at ? at + strlen(w) : NULL;
}

static int put(const void *x, size_t n, size_t cap, void *out, size_t *size) {
    if (size) *size = n;
    if (out && cap < n) return -30;
    if (out) memcpy(out, x, n);
    return 0;
}
static int put_text(const char *s, size_t cap, void *out, size_t *size) {
    return put(s, strlen(s) + 1, cap, out, size);
}

static char thing; /* what every handle points to */

int clGetPlatformIDs(unsigned n, void **out, unsigned *count) {
    TURN;
    (void)n;
    if (word("start")) return -6;
    if (word("noplatform")) return -1001;
    *out = &thing, *count = 1;
    return 0;
}
int clGetPlatformInfo(void *p, unsigned which, size_t cap, void *out, size_t *size) {
    TURN;
    (void)p, (void)which;
    return put_text("Fake platform", cap, out, size);
}
int clGetDeviceIDs(void *p, uint64_t type, unsigned n, void **out, unsigned *count) {
    TURN;
    (void)p, (void)type, (void)n;
    if (word("nodevice")) return -1;
    *out = &thing, *count = 1;
    return 0;
}
int clGetDeviceInfo(void *d, unsigned which, size_t cap, void *out, size_t *size) {
    TURN;
    const char *more = word("nvidia")  ? " cl_nv_device_attribute_query"
                       : word("intel") ? " cl_intel_required_subgroup_size cl_khr_subgroup_shuffle"
                                       : "";
    const uint64_t fp = 4 | 2 | (word("flush") ? 0 : 1) | (word("inexact") ? 0 : 128);
    char text[128];
    uint64_t wide = 0;
    uint32_t narrow = 0;
    const size_t group = word("nvidia") ? 1024 : 256, sizes[] = {8, 16, 32};
    (void)d;
    switch (which) {
    case 0x1000: return wide = word("cpu") ? 2 : 4, put(&wide, 8, cap, out, size);
    case 0x1002: return narrow = 12, put(&narrow, 4, cap, out, size);
    case 0x1004: return put(&group, sizeof group, cap, out, size);
    case 0x1017: wide = word("few") ? 64 : 1024; return put(&wide, 8, cap, out, size);
    case 0x101B: return put(&fp, 8, cap, out, size);
    case 0x101D: return narrow = 64, put(&narrow, 4, cap, out, size);
    case 0x101E: return wide = 1 << 20, put(&wide, 8, cap, out, size);
    case 0x1023: return wide = 48 << 10, put(&wide, 8, cap, out, size);
    case 0x102B: return put_text("Fake device", cap, out, size);
    case 0x102D:
    case 0x102F: return put_text("OpenCL 1.2 fake", cap, out, size);
    case 0x1030: snprintf(text, sizeof text, "cl_khr_icd%s", more); return put_text(text, cap, out, size);
    case 0x1032: return wide = word("nof64") ? 0 : 63, put(&wide, 8, cap, out, size);
    case 0x4003: return narrow = 32, put(&narrow, 4, cap, out, size);
    case 0x4108: return put(sizes, sizeof sizes, cap, out, size);
    default: return -30;
    }
}

static void *made(const char *fn, int fails, int *err) {
    if (in_turn(fn)) fails = OUT_OF_RESOURCES;
    *err = fails;
    live(!fails);
    return fails ? NULL : &thing;
}
void *clCreateContext(const intptr_t *p, unsigned n, void *const *d, void *f, void *u, int *err) {
    (void)p, (void)n, (void)d, (void)f, (void)u;
    return made(__func__, word("context") ? -2 : 0, err);
}
void *clCreateCommandQueue(void *c, void *d, uint64_t bits, int *err) {
    (void)c, (void)d, (void)bits;
    return made(__func__, 0, err);
}
#define RELEASE(name)                                 \
    int name(void *x) {                               \
        (void)x;                                      \
        live(-1);                                     \
        return in_turn(#name) ? OUT_OF_RESOURCES : 0; \
    }
RELEASE(clReleaseContext)
RELEASE(clReleaseCommandQueue)
RELEASE(clReleaseProgram)
RELEASE(clReleaseKernel)
RELEASE(clReleaseEvent)
int clFlush(void *q) {
    (void)q;
    TURN;
    return 0;
}
int clFinish(void *q) {
    TURN;
    (void)q;
    return word("sync") ? -5 : 0;
}

/* ---- memory: of the host ---- */

void *clCreateBuffer(void *c, uint64_t bits, size_t n, void *host, int *err) {
    (void)c, (void)bits, (void)host;
    const int turn = in_turn(__func__);
    void *p = word("memory") || turn ? NULL : malloc(n);
    *err = p ? 0 : turn ? OUT_OF_RESOURCES : -4;
    live(p != NULL);
    return p;
}
int clReleaseMemObject(void *m) {
    free(m);
    live(-1);
    return in_turn(__func__) ? OUT_OF_RESOURCES : 0;
}
int clEnqueueWriteBuffer(void *q, void *m, unsigned block, size_t at, size_t n, const void *from, unsigned nwait,
                         void *const *wait, void **event) {
    TURN;
    (void)q, (void)block, (void)nwait, (void)wait, (void)event;
    memcpy((char *)m + at, from, n);
    return 0;
}
int clEnqueueReadBuffer(void *q, const void *m, unsigned block, size_t at, size_t n, void *to, unsigned nwait,
                        void *const *wait, void **event) {
    TURN;
    (void)q, (void)block, (void)nwait, (void)wait, (void)event;
    memcpy(to, (const char *)m + at, n);
    return 0;
}
int clEnqueueCopyBuffer(void *q, const void *from, void *to, size_t at, size_t to_at, size_t n, unsigned nwait,
                        void *const *wait, void **event) {
    TURN;
    (void)q, (void)nwait, (void)wait;
    memcpy((char *)to + to_at, (const char *)from + at, n);
    if (event) *event = &thing, live(1);
    return 0;
}
int clEnqueueFillBuffer(void *q, void *m, const void *pattern, size_t each, size_t at, size_t n, unsigned nwait,
                        void *const *wait, void **event) {
    TURN;
    (void)q, (void)nwait, (void)wait, (void)event;
    for (size_t i = 0; i + each <= n; i += each) memcpy((char *)m + at + i, pattern, each);
    return 0;
}

/* ---- programs ---- */

void *clCreateProgramWithSource(void *c, unsigned n, const char *const *text, const size_t *bytes, int *err) {
    (void)c, (void)n, (void)text, (void)bytes;
    fake_last.programs++;
    return made(__func__, 0, err);
}
void *clCreateProgramWithBinary(void *c, unsigned n, void *const *d, const size_t *bytes,
                                const unsigned char *const *binary, int *status, int *err) {
    (void)c, (void)n, (void)d, (void)bytes, (void)binary;
    fake_last.binaries++;
    *status = word("binary") ? -42 : 0;
    return made(__func__, *status, err);
}
int clBuildProgram(void *p, unsigned n, void *const *d, const char *options, void *f, void *u) {
    TURN;
    (void)p, (void)n, (void)d, (void)f, (void)u;
    snprintf(fake_last.options, sizeof fake_last.options, "%s", options);
    return word("build") ? -11 : 0;
}
int clGetProgramInfo(void *p, unsigned which, size_t cap, void *out, size_t *size) {
    TURN;
    static const size_t n = 4;
    (void)p;
    if (which == 0x1165) return put(&n, sizeof n, cap, out, size);
    memcpy(*(void **)out, "fake", n);
    return 0;
}
int clGetProgramBuildInfo(void *p, void *d, unsigned which, size_t cap, void *out, size_t *size) {
    TURN;
    (void)p, (void)d, (void)which;
    return put_text("fake.cl:1: error: \twords of a compiler", cap, out, size);
}
void *clCreateKernel(void *p, const char *name, int *err) {
    (void)p, (void)name;
    return made(__func__, word("kernel") ? -46 : 0, err);
}
int clSetKernelArg(void *k, unsigned i, size_t n, const void *x) {
    TURN;
    (void)k, (void)n;
    if (i == 0) memcpy(&fake_last.offset, x, 8);
    if (i == 1 && n == 8) memcpy(&fake_last.first, x, 8);
    if (i == 2) memcpy(&fake_last.rows, x, 8);
    return 0;
}
int clGetKernelWorkGroupInfo(void *k, void *d, unsigned which, size_t cap, void *out, size_t *size) {
    TURN;
    const char *private = word("private="), *group = word("group="), *spills = word("spills=");
    if (spills && fake_last.programs <= strtoull(spills, NULL, 10)) private = "16";
    uint64_t x = which == 0x11B4 && private ? strtoull(private, NULL, 10)
                 : which == 0x11B0          ? group ? strtoull(group, NULL, 10) : 256
                                            : 0;
    (void)k, (void)d;
    return put(&x, 8, cap, out, size);
}
int clEnqueueNDRangeKernel(void *q, void *k, unsigned dims, const size_t *offset, const size_t *global,
                           const size_t *local, unsigned nwait, void *const *wait, void **event) {
    TURN;
    (void)q, (void)k, (void)dims, (void)offset, (void)nwait, (void)wait;
    fake_last.global = *global, fake_last.local = *local, fake_last.launches++;
    if (event) *event = &thing, live(1);
    return word("launch") ? -52 : 0;
}
int clGetEventProfilingInfo(void *e, unsigned which, size_t cap, void *out, size_t *size) {
    TURN;
    const uint64_t t = which == 0x1282 ? 1000 : 3000; /* every batch takes 2 us */
    (void)e;
    return put(&t, 8, cap, out, size);
}
