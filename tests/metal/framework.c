/* The Metal framework that is none (fake_metal.h), with a meaning: texts are compiled by msl.h and dispatches run by
 * lanes.h, so that the runtime src/rt/metaldev.c gives results on a CPU, and what runs on other devices runs here.
 * Errors of a run (lanes.h has them) are those of its command buffer. */
#include "../fault/fake_metal.h"
#include "msl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Compiled {
    LaneFn *fn;
    int P;
    bool side_by_side, input[LANES_REGIONS];
} Compiled;

static Msl msl;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* one compiler and one launch at a time */

static int number_behind(const char *text, const char *word) {
    const char *at = strstr(text, word);
    return at ? (int)strtol(at + strlen(word), NULL, 10) : 1;
}

static void *compile(const char *text, char *why, size_t cap) {
    static const char loose[] = "#define ROWFOLD_LOOSE\n";
    MslUnit u = {.text = text};
    char entry[256];
    u.loose = strncmp(text, loose, sizeof loose - 1) == 0;
    if (u.loose) u.text += sizeof loose - 1;
    const char *name = strstr(text, "void rowfold_kernel_");
    snprintf(entry, sizeof entry, "%.*s", name ? (int)strcspn(name + 5, "(") : 0, name ? name + 5 : "");
    u.entry = entry;
    pthread_mutex_lock(&one);
    if (!msl.cxx[0] && !msl_open(&msl, "CXX", "g++")) snprintf(msl.why, sizeof msl.why, "no g++");
    void *built = msl.cxx[0] ? msl_build(&msl, &u, 1) : NULL;
    if (!built || !u.fn) snprintf(why, cap, "%s", msl.why);
    pthread_mutex_unlock(&one);
    Compiled *c = built && u.fn ? calloc(1, sizeof *c) : NULL;
    if (!c) return NULL;
    *c = (Compiled){.fn = u.fn, .P = number_behind(text, " P="), .side_by_side = strstr(text, "lane = tid / ") != NULL};
    for (int i = 0; i < LANES_REGIONS; i++) {
        char mark[32];
        snprintf(mark, sizeof mark, "[[buffer(%d)]]", i);
        const char *at = strstr(text, mark), *line = at;
        while (line && line[-1] != '\n') line--;
        c->input[i] = line && strstr(line, "device const ") && strstr(line, "device const ") < at;
    }
    return c;
}

static bool run(void *compiled, const FakeMetal *f, char *why, size_t cap) {
    const Compiled *c = compiled;
    LaneRun r = {.fn = c->fn,
                 .lanes = (int)f->lanes,
                 .groups = (int)f->groups,
                 .rows = f->args[1] - f->args[0],
                 .P = c->P,
                 .side_by_side = c->side_by_side,
                 .shared_bytes = f->threadgroup_bytes,
                 .order = f->dispatches % 3};
    static char nothing[16];
    for (; r.nmemory < f->args_at; r.nmemory++) {
        const int i = r.nmemory;
        char *at = (char *)(size_t)f->buffer[i];
        bool input = c->input[i];
        for (int k = 0; k < f->args_at; k++)
            input &= c->input[k] || f->buffer[k] != f->buffer[i]; /* nor is it an output's */
        r.memory[i] =
            (LaneMemory){"a buffer", at ? at + f->offset[i] : nothing, at ? f->bytes[i] - f->offset[i] : 0, !input};
    }
    r.memory[r.nmemory++] = (LaneMemory){"the arguments", (void *)(size_t)f->args, f->args_bytes, false};
    pthread_mutex_lock(&one);
    const unsigned was = __builtin_ia32_stmxcsr(); /* a GPU knows nothing of how the host program rounds */
    __builtin_ia32_ldmxcsr(0x1f80);
    const bool ok = lanes_run(&r);
    __builtin_ia32_ldmxcsr(was);
    pthread_mutex_unlock(&one);
    if (!ok) snprintf(why, cap, "%s", r.why);
    return ok;
}

__attribute__((constructor)) static void begin(void) {
    static const FakeWork work = {compile, run};
    fake_metal = (FakeMetal){.work = &work, .width = 32, .most_lanes = 1024, .family = 1006, .status = 4};
}
