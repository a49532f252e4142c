/* A compiler of CUDA text that compiles nothing: for tests of rt/cudadev.c where NVRTC is not installed, and for
 * failing each of its calls in turn (turns.h). */
#include <stddef.h>
#include <string.h>

typedef struct Turn {
    long left, calls, live;
    const char *failed;
} Turn;
Turn fake_turn;
enum { FAILED = 6 };

static int in_turn(const char *fn) {
    __atomic_add_fetch(&fake_turn.calls, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_sub(&fake_turn.left, 1, __ATOMIC_RELAXED) != 1) return 0;
    fake_turn.failed = fn;
    return 1;
}
#define TURN \
    if (in_turn(__func__)) return FAILED

static char thing;

int nvrtcVersion(int *major, int *minor) {
    TURN;
    return *major = 13, *minor = 0, 0;
}
int nvrtcCreateProgram(void **out, const char *text, const char *name, int n, const char *const *h,
                       const char *const *i) {
    (void)text, (void)name, (void)n, (void)h, (void)i;
    TURN;
    __atomic_add_fetch(&fake_turn.live, 1, __ATOMIC_RELAXED);
    return *out = &thing, 0;
}
int nvrtcCompileProgram(void *p, int n, const char *const *options) {
    (void)p, (void)n, (void)options;
    TURN;
    return 0;
}
int nvrtcDestroyProgram(void **p) {
    *p = NULL;
    __atomic_sub_fetch(&fake_turn.live, 1, __ATOMIC_RELAXED);
    return in_turn(__func__) ? FAILED : 0;
}
int nvrtcGetCUBINSize(void *p, size_t *n) {
    (void)p;
    TURN;
    return *n = 8, 0;
}
int nvrtcGetCUBIN(void *p, char *out) {
    (void)p;
    TURN;
    return memcpy(out, "no cubin", 8), 0;
}
int nvrtcGetProgramLogSize(void *p, size_t *n) {
    (void)p;
    TURN;
    return *n = 6, 0;
}
int nvrtcGetProgramLog(void *p, char *out) {
    (void)p;
    TURN;
    return memcpy(out, "words", 6), 0;
}
const char *nvrtcGetErrorString(int code) {
    return code == FAILED ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}
