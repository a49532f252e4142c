/* Every access of a running lane, judged: in which memory it lies, and who else touched that. A lane's own stack is not
 * watched. Threadgroup memory is ordered by barriers. Device memory is not, for no barrier of ours covers it: there no
 * lane may read or write what another one wrote; what others have read may be written after a meeting. */
#include "lanes.h"

#include <stdlib.h>
#include <string.h>

typedef struct Touch { /* of a byte: the last who wrote and read it, and how far they were */
    int wrote, wrote_when, read, read_when;
    bool many; /* others read it at the same time */
} Touch;

typedef struct Watched {
    const char *name;
    char *lo, *hi;
    bool writable, shared;
    Touch *touch; /* NULL: nobody can write it, or it is too large */
} Watched;

static struct {
    LaneRun *r;
    Watched w[LANES_REGIONS + 1];
    int n, recent;
    char *stacks, *stacks_end;
    bool on;
} me;

enum {
    MOST_TOUCHED = 8 << 20
}; /* bytes: of larger ones there would be too many touches, and their ends are watched alone */

static void add(const char *name, void *at, size_t bytes, bool writable, bool shared) {
    Touch *t = writable && bytes <= MOST_TOUCHED ? malloc((bytes + 1) * sizeof *t) : NULL;
    if (t) memset(t, -1, (bytes + 1) * sizeof *t);
    me.w[me.n++] = (Watched){name, at, (char *)at + bytes, writable, shared, t};
}

void watch_start(LaneRun *r, void *shared, char *stacks, size_t stack_bytes) {
    me.r = r, me.n = me.recent = 0;
    me.stacks = stacks, me.stacks_end = stacks + stack_bytes;
    for (int i = 0; i < r->nmemory; i++)
        add(r->memory[i].name, r->memory[i].at, r->memory[i].bytes, r->memory[i].writable, false);
    add("threadgroup memory", shared, r->shared_bytes, true, true);
    me.on = true;
}

void watch_group(void) {
    const Watched *w = &me.w[me.n - 1];
    memset(w->touch, -1, (size_t)(w->hi - w->lo + 1) * sizeof *w->touch);
}

void watch_stop(void) {
    me.on = false;
    for (int i = 0; i < me.n; i++) free(me.w[i].touch);
    me.n = 0;
}

static const Watched *find(const char *at) {
    const Watched *w = &me.w[me.recent];
    for (int i = 0; at < w->lo || at >= w->hi; i++) {
        if (i == me.n) return NULL;
        w = &me.w[i];
    }
    me.recent = (int)(w - me.w);
    return w;
}

static void judge(const Watched *w, const char *at, bool write) {
    Touch *t = &w->touch[at - w->lo];
    const int who = lane_at.group * LANES_MOST + lane_at.lane, when = w->shared ? lane_at.barriers : lane_at.meetings;
    const bool others = t->wrote >= 0 && t->wrote != who,
               elsewhere = t->read >= 0 && t->read / LANES_MOST != lane_at.group;
    const long byte = (long)(at - w->lo);
    if (w->shared && !write && t->wrote < 0) lanes_fail("byte %ld of %s is read and was never written", byte, w->name);
    if (others && (!w->shared || t->wrote_when == when))
        lanes_fail("byte %ld of %s is %s and lane %d wrote it, with no barrier between", byte, w->name,
                   write ? "written" : "read", t->wrote % LANES_MOST);
    if (write && t->read >= 0 && (t->read != who || t->many) && (t->read_when == when || elsewhere))
        lanes_fail("byte %ld of %s is written and lane %d read it, with no barrier between", byte, w->name,
                   t->read % LANES_MOST);
    if (write) {
        t->wrote = who, t->wrote_when = when;
        return;
    }
    t->many = t->read >= 0 && t->read_when == when && (t->read != who || t->many);
    t->read = who, t->read_when = when;
}

static void access(const void *p, size_t bytes, size_t align, bool write) {
    const char *at = p;
    if (!me.on || (at >= me.stacks && at < me.stacks_end)) return;
    me.r->accesses++;
    const Watched *w = find(at);
    if (!w) lanes_fail("%zu bytes %s outside of all memory", bytes, write ? "written" : "read");
    if (at + bytes > w->hi)
        lanes_fail("%zu bytes at %ld of %s, which has %ld", bytes, (long)(at - w->lo), w->name, (long)(w->hi - w->lo));
    if ((uintptr_t)at % align)
        lanes_fail("%zu bytes at %ld of %s, off their alignment", bytes, (long)(at - w->lo), w->name);
    if (write && !w->writable) lanes_fail("%s is written", w->name);
    if (lane_at.idle && !w->shared) {
        if (write) lanes_fail("%s is written for a row that is not there", w->name);
        return;
    }
    for (size_t i = 0; i < bytes && w->touch; i++) judge(w, at + i, write);
}

/* ---- what -fsanitize=thread calls ---- */

#define ACCESS(n)                             \
    void __tsan_read##n(void *p);             \
    void __tsan_write##n(void *p);            \
    void __tsan_unaligned_read##n(void *p);   \
    void __tsan_unaligned_write##n(void *p);  \
    void __tsan_read##n(void *p) {            \
        access(p, n, n, false);               \
    }                                         \
    void __tsan_write##n(void *p) {           \
        access(p, n, n, true);                \
    }                                         \
    void __tsan_unaligned_read##n(void *p) {  \
        access(p, n, 1, false);               \
    }                                         \
    void __tsan_unaligned_write##n(void *p) { \
        access(p, n, 1, true);                \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_read_range(void *p, size_t n);
void __tsan_write_range(void *p, size_t n);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);
void __tsan_init(void);
void __tsan_read_range(void *p, size_t n) {
    access(p, n, 1, false);
}
void __tsan_write_range(void *p, size_t n) {
    access(p, n, 1, true);
}
void __tsan_func_entry(void *pc) {
    (void)pc;
}
void __tsan_func_exit(void) {}
void __tsan_init(void) {}
