/* A worker that does harm when it meets the plan it is told of: ROWFOLD_FAULT="KIND TEXT", where TEXT is part of the
 * plan. It writes its process number to ROWFOLD_FAULT_LOG when it starts. */
#include "../../src/search/worker.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static bool meant(const char *plan, const char *kind) {
    const char *fault = getenv("ROWFOLD_FAULT");
    size_t n = strlen(kind);
    return fault && strncmp(fault, kind, n) == 0 && fault[n] == ' ' && strstr(plan, fault + n + 1) != NULL;
}

/* Kernels that do what kernels must not. */
static const struct {
    const char *kind, *body;
} bodies[] = {
    {"crash", "*(volatile int *)8 = 1;"},
    {"hang", "for (volatile int i = 0; i < 2; i = 0) continue;"},
    {"wrong", ""},
    {"scribble", "for (char *p = (char *)(*(unsigned long *)s & ~4095ul);; p += 64) *(volatile char *)p = 1;"},
    {"no-compile", "this is no C"},
};

static void harm_unit(Arena *a, const char *plan, Unit *u) {
    if (meant(plan, "killed")) kill(getpid(), SIGKILL);
    if (meant(plan, "memory")) arena_get(a, (size_t)1 << 50);
    for (int i = 0; i < COUNT(bodies); i++) {
        if (!meant(plan, bodies[i].kind)) continue;
        u->text =
            arena_printf(a, "void %s(const void *s, long long from, long long to) { %s }\n", u->entry, bodies[i].body);
        u->bytes = strlen(u->text);
    }
}

static void harm_reply(int fd, const char *plan, Attempt *t) {
    static const char noise[] = "warning: this is not what you wanted to read";
    if (meant(plan, "noise") && write(fd, noise, sizeof noise) < 0) _exit(1);
    if (meant(plan, "no-json")) wire_send(fd, noise, sizeof noise);
    if (meant(plan, "long") && write(fd, "RfW1\xff\xff\xff\xff", 8) < 0) _exit(1);
    if (meant(plan, "half")) { /* of a message, and then nothing */
        if (write(fd, "RfW1\x40\0\0\0{", 9) < 0) _exit(1);
        _exit(0);
    }
    if (meant(plan, "nan")) t->times.ns[0] = (double)NAN;
    if (meant(plan, "unchecked")) t->verdict = (Verdict){.ok = false};
    if (meant(plan, "other")) memset(t->unit_sha, '0', 64);
}

int main(void) {
    const char *log = getenv("ROWFOLD_FAULT_LOG");
    int fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    char line[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd >= 0) {
        int n = snprintf(line, sizeof line, "%ld\n", (long)getpid());
        if (write(fd, line, (size_t)n) != n) return 1;
        close(fd);
    }
    return worker_serve(WIRE_FD, &(ServeHooks){harm_unit, harm_reply});
}
