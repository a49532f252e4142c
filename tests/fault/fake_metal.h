/* An Objective-C runtime and a Metal framework that are none: they count objects, note what is encoded and fail when
 * told to, so that src/rt/metaldev.c runs where there is no Apple system. x86-64 only: one function takes all messages,
 * which the calling convention there allows. */
#ifndef ROWFOLD_TEST_FAKE_METAL_H
#define ROWFOLD_TEST_FAKE_METAL_H

#include <stdbool.h>
#include <stddef.h>

struct FakeMetal;
typedef struct FakeWork {
    void *(*compile)(const char *text, char *why, size_t cap);                     /* never freed; NULL with why */
    bool (*run)(void *compiled, const struct FakeMetal *f, char *why, size_t cap); /* the dispatch at hand */
} FakeWork;

typedef struct FakeMetal {
    struct {                    /* as in turns.h: of the messages that can fail, one does in its turn */
        long left, calls, live; /* live: objects that exist */
        const char *failed;
    } turn;
    const FakeWork *work; /* makes something of texts and dispatches (tests/metal/framework.c); NULL: nobody */
    int pipelines;        /* that were made */
    char text[64];        /* begin of the text that was compiled last */
    bool safe_math;       /* was asked for */
    bool old_system;      /* no setMathMode: */
    const char *refuse;   /* a message that fails */
    unsigned long width, most_lanes, status, family;
    /* of the encoder */
    const void *buffer[32];                                 /* contents; offset */
    unsigned long offset[32], bytes[32], threadgroup_bytes; /* bytes: of the whole buffer */
    void *compiled;                                         /* of the pipeline that is set */
    int args_at;
    long args[64];
    size_t args_bytes;
    unsigned long groups, lanes;
    int dispatches, commits, waits;
} FakeMetal;
extern FakeMetal fake_metal;
#endif
