/* A driver library without a GPU, for tests of rt/cudadev.c: memory is the host's, modules and launches are taken and
 * counted, and what goes wrong is set through the environment. FAKE_CUDA is a list of words:
 *     nodevice       the driver sees none          init           it does not start
 *     nocluster      no cluster fits it
 *     local=BYTES    of every function             launch, sync, memory, module      the call of that kind fails
 *     copy           a launch copies the first parameter's rows to the second        corrupt=THREADS   one of so many
 *                    threads loses the context: it and every call after it in this process fail
 *     capture        the caller captures: loading a module or taking memory is forbidden, but for a thread whose mode
 * is relaxed split          launches have a fourth argument, told in fake_last.work fake_last tells the last launch:
 * blocks, threads, on-chip bytes, and whether the function was built for loose memory; and the context that was current
 * then. fake_context makes one current in the calling thread, as its caller would.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILED = 719, NO_DEVICE = 100, OUT_OF_MEMORY = 2 };

typedef struct Last {
    unsigned blocks, threads, shared, launches, modules;
    int64_t first, rows;
    unsigned overlap;
    void *stream, *context;
    unsigned retained;
    uint64_t work;
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
#define TURN \
    if (in_turn(__func__)) return FAILED
static void live(int by) {
    __atomic_add_fetch(&fake_turn.live, by, __ATOMIC_RELAXED);
}

static const char *word(const char *w) {
    const char *all = getenv("FAKE_CUDA");
    const char *at = all ? strstr(all, w) : NULL;
    return at ? at + strlen(w) : NULL;
}

static int lost; /* the context */

static int fails(const char *w, int code) {
    return word(w) || lost ? code : 0;
}

static int init(unsigned flags) {
    TURN;
    (void)flags;
    return word("nodevice") ? NO_DEVICE : fails("init", FAILED);
}
static int version(int *v) {
    TURN;
    return *v = 13000, 0;
}
static int count(int *n) {
    TURN;
    return *n = 1, 0;
}
static int get(int *d, int i) {
    TURN;
    return *d = i, 0;
}
static int name(char *s, int n, int d) {
    TURN;
    (void)d;
    return snprintf(s, (size_t)n, "Fake GPU"), 0;
}
static int attribute(int *x, int which, int d) {
    TURN;
    static const struct {
        int which, is;
    } known[] = {{2, 1024},     {10, 32}, {16, 4}, {36, 1000000}, {37, 512},
                 {38, 1 << 22}, {75, 9},  {76, 0}, {82, 65536},   {97, 232448}};
    (void)d;
    *x = 0;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].which == which) *x = known[i].is;
    return 0;
}
static char context, fn;
static _Thread_local void *stack[8]; /* of contexts; the first is the caller's */
static _Thread_local int depth, capture_mode;
void fake_context(void *ctx) {
    stack[0] = ctx;
}
int fake_depth(void) { /* contexts that were pushed and not popped */
    return depth;
}
int fake_capture_mode(void) {
    return capture_mode;
}
static int retain(void **ctx, int d) {
    TURN;
    (void)d;
    fake_last.retained++;
    live(1);
    return *ctx = &context, 0;
}
static int release(int d) {
    (void)d;
    live(-1);
    return 0;
}
static int ctx_current(void **ctx) {
    TURN;
    return *ctx = stack[depth], 0;
}
static int ctx_device(int *d) {
    TURN;
    return *d = 0, 0;
}
static int push(void *ctx) {
    TURN;
    if (depth == 7) return FAILED;
    return stack[++depth] = ctx, 0;
}
static int pop(void **ctx) {
    if (!depth) return FAILED;
    return *ctx = stack[depth--], 0;
}
static int sync_ctx(void) {
    TURN;
    return fails("sync", FAILED);
}
static int mode(int *m) {
    TURN;
    int before = capture_mode;
    capture_mode = *m;
    return *m = before, 0;
}
static int load(void **m, const void *image) {
    TURN;
    enum { RELAXED = 2 };
    (void)image;
    if (word("capture") && fake_last.launches && capture_mode != RELAXED) return FAILED; /* it began with a launch */
    __atomic_add_fetch(&fake_last.modules, 1, __ATOMIC_RELAXED);
    live(1);
    return *m = &context, fails("module", FAILED);
}
static int wait_for(void *x) {
    (void)x;
    TURN;
    return 0;
}
static int destroy(void *x) { /* it is gone whatever is said */
    (void)x;
    live(-1);
    return in_turn(__func__) ? FAILED : 0;
}
static int function(void **f, void *m, const char *entry) {
    TURN;
    (void)m, (void)entry;
    return *f = &fn, 0;
}
static int fn_set(void *f, int which, int x) {
    TURN;
    (void)f, (void)which, (void)x;
    return 0;
}
static int fn_attribute(int *x, int which, void *f) {
    TURN;
    const char *local = word("local=");
    (void)f;
    *x = which == 4 ? 32 : which == 3 && local ? (int)strtol(local, NULL, 10) : 0;
    return 0;
}
static int occupancy(int *n, void *f, int threads, size_t shared) {
    TURN;
    (void)f, (void)shared;
    return *n = 2048 / threads, 0;
}
static int alloc(uint64_t *p, size_t n) {
    TURN;
    if (word("capture") && fake_last.launches && capture_mode != 2) return FAILED;
    void *q = word("memory") || lost ? NULL : malloc(n);
    *p = (uint64_t)(uintptr_t)q;
    live(q != NULL);
    return q ? 0 : OUT_OF_MEMORY;
}
static int unalloc(uint64_t p) {
    live(-1);
    return free((void *)(uintptr_t)p), 0;
}
static int in(uint64_t to, const void *from, size_t n) {
    TURN;
    return memcpy((void *)(uintptr_t)to, from, n), lost ? FAILED : 0;
}
static int out(void *to, uint64_t from, size_t n) {
    TURN;
    return memcpy(to, (void *)(uintptr_t)from, n), lost ? FAILED : 0;
}
static int across(uint64_t to, uint64_t from, size_t n, void *s) {
    TURN;
    (void)s;
    return memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n), 0;
}
static int set(uint64_t to, unsigned char x, size_t n) {
    TURN;
    return memset((void *)(uintptr_t)to, x, n), 0;
}
static int set_in(uint64_t to, unsigned char x, size_t n, void *s) {
    TURN;
    return s ? set(to, x, n) : FAILED; /* the default stream would wait for others */
}
static int capture_info(void *s, int *status, uint64_t *id, void **graph, const void **deps, size_t *n) {
    TURN;
    (void)s, (void)graph, (void)deps, (void)n;
    *status = word("capture=") != NULL;
    if (*status) *id = (uint64_t)strtol(word("capture="), NULL, 10);
    return 0;
}
static int launch(void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                  void *s, void **args, void **more) {
    TURN;
    (void)f, (void)y, (void)z, (void)ty, (void)tz, (void)more;
    fake_last.stream = s;
    fake_last.context = stack[depth];
    fake_last.blocks = x, fake_last.threads = tx, fake_last.shared = shared;
    __atomic_add_fetch(&fake_last.launches, 1, __ATOMIC_RELAXED);
    memcpy(&fake_last.first, args[1], 8);
    memcpy(&fake_last.rows, args[2], 8);
    if (word("split")) memcpy(&fake_last.work, args[3], 8);
    const char *corrupt = word("corrupt=");
    if (corrupt && strtol(corrupt, NULL, 10) == (long)tx) lost = 1;
    if (word("copy") && !lost) { /* of two tensors with one row axis: pointers, rows, row strides */
        const union {
            void *p;
            int64_t i;
        } *slot = args[0];
        memcpy(slot[1].p, slot[0].p, (size_t)(slot[2].i * slot[3].i) * sizeof(float));
    }
    return fails("launch", FAILED);
}
typedef struct Launch { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared;
    void *stream;
    const int *attr;
    unsigned nattrs;
} Launch;
static int launch_with(const Launch *l, void *f, void **args, void **more) {
    fake_last.overlap += l->nattrs == 1 && l->attr[0] == 6;
    return launch(f, l->grid[0], 1, 1, l->block[0], 1, 1, l->shared, l->stream, args, more);
}
static int clusters(int *n, void *f, const Launch *l) {
    TURN;
    (void)f;
    return *n = word("nocluster") || l->nattrs != 1 || l->attr[0] != 4 ? 0 : 3, 0;
}
static int make(void **x, unsigned flags) {
    TURN;
    (void)flags;
    live(1);
    return *x = &fn, 0;
}
static int begin(void *s, int how) {
    TURN;
    (void)s, (void)how;
    return 0;
}
static int end(void *s, void **g) {
    TURN;
    (void)s;
    live(1);
    return *g = &fn, 0;
}
static int instantiate(void **x, void *g, unsigned long long flags) {
    TURN;
    (void)g, (void)flags;
    live(1);
    return *x = &fn, 0;
}
static int two(void *x, void *y) {
    TURN;
    (void)x, (void)y;
    return 0;
}
static int elapsed(float *ms, void *a, void *b) {
    TURN;
    (void)a, (void)b;
    return *ms = 1, 0;
}
static int error_name(int code, const char **s) {
    return *s = code == FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_OTHER", 0;
}

#define AT(symbol, f) \
    { #symbol, (void *)(uintptr_t)(f) }
int cuGetProcAddress_v2(const char *symbol, void **at, int cuda, uint64_t flags, int *result) {
    const struct {
        const char *symbol;
        void *at;
    } all[] = {AT(cuInit, init),
               AT(cuDriverGetVersion, version),
               AT(cuDeviceGetCount, count),
               AT(cuDeviceGet, get),
               AT(cuDeviceGetName, name),
               AT(cuDeviceGetAttribute, attribute),
               AT(cuDevicePrimaryCtxRetain, retain),
               AT(cuDevicePrimaryCtxRelease, release),
               AT(cuCtxGetCurrent, ctx_current),
               AT(cuCtxGetDevice, ctx_device),
               AT(cuCtxPushCurrent, push),
               AT(cuCtxPopCurrent, pop),
               AT(cuCtxSynchronize, sync_ctx),
               AT(cuThreadExchangeStreamCaptureMode, mode),
               AT(cuModuleLoadData, load),
               AT(cuModuleUnload, destroy),
               AT(cuModuleGetFunction, function),
               AT(cuFuncSetAttribute, fn_set),
               AT(cuFuncGetAttribute, fn_attribute),
               AT(cuOccupancyMaxActiveBlocksPerMultiprocessor, occupancy),
               AT(cuMemAlloc, alloc),
               AT(cuMemFree, unalloc),
               AT(cuMemcpyHtoD, in),
               AT(cuMemcpyDtoH, out),
               AT(cuMemcpyDtoDAsync, across),
               AT(cuMemsetD8, set),
               AT(cuMemsetD8Async, set_in),
               AT(cuStreamGetCaptureInfo, capture_info),
               AT(cuLaunchKernel, launch),
               AT(cuLaunchKernelEx, launch_with),
               AT(cuOccupancyMaxActiveClusters, clusters),
               AT(cuStreamCreate, make),
               AT(cuStreamDestroy, destroy),
               AT(cuStreamSynchronize, wait_for),
               AT(cuStreamBeginCapture, begin),
               AT(cuStreamEndCapture, end),
               AT(cuGraphInstantiateWithFlags, instantiate),
               AT(cuGraphLaunch, two),
               AT(cuGraphExecDestroy, destroy),
               AT(cuGraphDestroy, destroy),
               AT(cuEventCreate, make),
               AT(cuEventDestroy, destroy),
               AT(cuEventRecord, two),
               AT(cuEventSynchronize, wait_for),
               AT(cuEventElapsedTime, elapsed),
               AT(cuGetErrorName, error_name)};
    (void)cuda, (void)flags, (void)result;
    *at = NULL;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].symbol, symbol)) *at = all[i].at;
    return 0;
}
