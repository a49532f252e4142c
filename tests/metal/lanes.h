/* A group's lanes as fibers, one after the other on one thread: each runs to its next shuffle or barrier. What Metal
 * leaves undefined is an error here: a barrier that some lanes do not reach, a shuffle with a lane that is not there,
 * an access outside of memory or off its alignment, memory of two lanes that no barrier orders. Memory is watched
 * through the calls that -fsanitize=thread makes before each access; its runtime is not used. */
#ifndef ROWFOLD_TEST_LANES_H
#define ROWFOLD_TEST_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES_MOST = 1024, LANES_REGIONS = 34, LANES_SIMD = 32 };

typedef struct LaneCall { /* as in metal_stdlib */
    void *const *buffer;
    void *shared;
    unsigned position[3];
} LaneCall;
typedef void LaneFn(const LaneCall *);

typedef struct LaneMemory {
    const char *name;
    void *at;
    size_t bytes;
    bool writable;
} LaneMemory;

typedef struct LaneRun {
    LaneFn *fn;
    LaneMemory memory[LANES_REGIONS]; /* the buffers in order of their index */
    int nmemory;
    int lanes, groups;
    int64_t rows; /* P to a group; those past them are idle: they may read what others write, and write nothing */
    int P;
    bool side_by_side; /* neighbouring lanes are of neighbouring rows */
    size_t shared_bytes;
    int order; /* in which lanes take turns: 0 forwards, 1 backwards, 2 every seventh */
    char why[300];
    int64_t accesses, meetings; /* that were watched; barriers and shuffles of a lane */
} LaneRun;

/* All groups, in order; false with why at the first error, which ends the launch. One at a time. */
bool lanes_run(LaneRun *r);

/* ---- watch.c ---- */
typedef struct LaneAt { /* who is running */
    int group, lane;
    int meetings, barriers; /* that this lane has passed */
    bool idle;
} LaneAt;
void watch_start(LaneRun *r, void *shared, char *stacks, size_t stack_bytes);
void watch_group(void); /* threadgroup memory is nobody's again */
void watch_stop(void);
extern LaneAt lane_at;
void lanes_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#endif
