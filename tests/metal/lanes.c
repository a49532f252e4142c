/* Launches of kernels whose lanes are fibers: lanes.h says what for. */
#include "lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 256 * 1024, MOST_SHARED = 64 * 1024 };

typedef enum State { FRESH, READY, SHUFFLES, WAITS, DONE } State;
typedef struct Lane {
    State state;
    jmp_buf at;
    int line; /* of the meeting it waits in */
    uint32_t bits, mask;
    int meetings, barriers;
} Lane;

static struct {
    LaneRun *r;
    char *stacks, *shared;
    Lane lane[LANES_MOST];
    jmp_buf turn; /* back to who gives turns */
    jmp_buf failed;
    ucontext_t fresh, giver;
    LaneCall call;
} me;
LaneAt lane_at;

void lanes_fail(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = snprintf(me.r->why, sizeof me.r->why, "group %d lane %d: ", lane_at.group, lane_at.lane);
    vsnprintf(me.r->why + n, sizeof me.r->why - (size_t)n, fmt, ap);
    va_end(ap);
    _longjmp(me.failed, 1);
}

/* ---- what a lane calls ---- */

static void meet(State as, int line) {
    Lane *l = &me.lane[lane_at.lane];
    l->state = as, l->line = line;
    l->meetings = lane_at.meetings + 1;
    l->barriers = lane_at.barriers + (as == WAITS);
    me.r->meetings++;
    if (!_setjmp(l->at)) _longjmp(me.turn, 1);
}

uint32_t lanes_shuffle_xor(uint32_t bits, uint32_t mask, int line);
uint32_t lanes_shuffle_xor(uint32_t bits, uint32_t mask, int line) {
    Lane *l = &me.lane[lane_at.lane];
    l->bits = bits, l->mask = mask;
    meet(SHUFFLES, line);
    return me.lane[lane_at.lane].bits;
}

void lanes_barrier(int line);
void lanes_barrier(int line) {
    meet(WAITS, line);
}

static void begin(void) {
    LaneCall call = me.call;
    call.position[0] = (unsigned)lane_at.lane;
    me.r->fn(&call);
    me.lane[lane_at.lane].state = DONE;
    _longjmp(me.turn, 1);
}

/* ---- turns ---- */

static void run_lane(int i) {
    Lane *l = &me.lane[i];
    lane_at.lane = i, lane_at.meetings = l->meetings, lane_at.barriers = l->barriers;
    const int row = me.r->side_by_side ? i % me.r->P : i / (me.r->lanes / me.r->P);
    lane_at.idle = (int64_t)lane_at.group * me.r->P + row >= me.r->rows;
    if (_setjmp(me.turn)) return;
    if (l->state == READY) _longjmp(l->at, 1);
    getcontext(&me.fresh);
    me.fresh.uc_stack.ss_sp = me.stacks + (size_t)i * STACK;
    me.fresh.uc_stack.ss_size = STACK;
    me.fresh.uc_link = NULL;
    makecontext(&me.fresh, begin, 0);
    setcontext(&me.fresh);
}

static int turn(int t) { /* the lane whose turn is number t */
    int n = me.r->lanes;
    if (me.r->order == 0) return t;
    return me.r->order == 1 ? n - 1 - t : (int)((int64_t)t * (n % 7 ? 7 : 1) % n);
}

/* All lanes of a simdgroup wait in one shuffle: they swap. */
static bool shuffled(int from) {
    uint32_t got[LANES_SIMD];
    int to = from + LANES_SIMD < me.r->lanes ? from + LANES_SIMD : me.r->lanes;
    for (int i = from; i < to; i++)
        if (me.lane[i].state != SHUFFLES || me.lane[i].line != me.lane[from].line) return false;
    for (int i = from; i < to; i++) {
        const int other = from + ((i - from) ^ (int)me.lane[i].mask);
        lane_at.lane = i;
        if (me.lane[i].mask >= LANES_SIMD || other >= to)
            lanes_fail("a shuffle with lane %d, which is not there", other);
        got[i - from] = me.lane[other].bits;
    }
    for (int i = from; i < to; i++) me.lane[i].bits = got[i - from], me.lane[i].state = READY;
    return true;
}

static bool met(void) { /* all lanes of the group wait in one barrier */
    for (int i = 0; i < me.r->lanes; i++)
        if (me.lane[i].state != WAITS || me.lane[i].line != me.lane[0].line) return false;
    for (int i = 0; i < me.r->lanes; i++) me.lane[i].state = READY;
    return true;
}

static void run_group(void) {
    int n = me.r->lanes;
    memset(me.shared, 0xA5, MOST_SHARED);
    watch_group();
    for (int i = 0; i < n; i++) me.lane[i].state = FRESH, me.lane[i].meetings = me.lane[i].barriers = 0;
    for (;;) {
        for (int t = 0; t < n; t++)
            while (me.lane[turn(t)].state <= READY) run_lane(turn(t));
        bool moved = met();
        for (int i = 0; i < n; i += LANES_SIMD) moved |= shuffled(i);
        if (moved) continue;
        int shuffles = -1, waits = -1, done = 0;
        for (int i = 0; i < n; i++) {
            if (me.lane[i].state == SHUFFLES) shuffles = i;
            if (me.lane[i].state == WAITS) waits = i;
            done += me.lane[i].state == DONE;
        }
        if (done == n) return;
        lane_at.lane = waits >= 0 ? waits : shuffles;
        if (shuffles >= 0)
            lanes_fail("a shuffle in line %d that not all lanes of the simdgroup reach", me.lane[shuffles].line);
        lanes_fail("a barrier in line %d that not all lanes reach", me.lane[waits].line);
    }
}

bool lanes_run(LaneRun *r) {
    static volatile bool ok;
    void *buffer[LANES_REGIONS];
    me.r = r;
    r->accesses = r->meetings = 0;
    if (r->lanes < 1 || r->lanes > LANES_MOST || r->shared_bytes > MOST_SHARED || r->nmemory > LANES_REGIONS) {
        snprintf(r->why, sizeof r->why, "lanes=%d shared=%zu buffers=%d", r->lanes, r->shared_bytes, r->nmemory);
        return false;
    }
    if (!me.stacks)
        me.stacks = mmap(NULL, (size_t)LANES_MOST * STACK, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!me.shared) me.shared = aligned_alloc(256, MOST_SHARED);
    for (int i = 0; i < r->nmemory; i++) buffer[i] = r->memory[i].at;
    me.call = (LaneCall){buffer, me.shared, {0, 0}};
    ok = false;
    watch_start(r, me.shared, me.stacks, (size_t)LANES_MOST * STACK);
    if (!_setjmp(me.failed)) {
        for (int g = 0; g < r->groups; g++) {
            lane_at.group = g;
            me.call.position[1] = (unsigned)g, me.call.position[2] = (unsigned)r->groups;
            run_group();
        }
        ok = true;
    }
    watch_stop();
    return ok;
}
