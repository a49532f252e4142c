/* n tasks -> threads. Workers wait by spinning for a bounded time, then asleep on a condition variable.
 *
 * One 64-bit ticket, generation << 32 | tasks left to take, carries the hand-over. A task is taken by compare-and-swap
 * of the whole ticket, and the job's fields change only when its last task is done. So whoever takes a task has read
 * that job's own fields, even if it slept through other jobs. (Counting up to a limit would not do: the limit of the
 * next job would open the last one again.) A late worker costs nothing: whoever is awake takes its tasks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool.h"

#include "../base/os.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Long enough to bridge the gap between two launches of one loop, short enough to be invisible as idle load. Time and
 * not a count of pauses: a pause takes 5 to 140 cycles. */
enum { SPIN_NS = 50000, STACK_BYTES = 4 << 20 };

enum { POOL_NONE, POOL_STARTING, POOL_LIVE }; /* 0 must be NONE: that is what a forked child reads */

typedef struct Worker {
    Pool *pool;
    int id; /* 1 .. threads-1 */
    pthread_t thread;
} Worker;

struct Pool {
    const Alloc *al;
    int threads, nworkers;
    int64_t spin_ns;
    _Atomic int *state; /* on a page of its own that the kernel zeroes in a forked child, where there are no workers */
    bool wiped;         /* the kernel can do that; else compare pid */
    pid_t pid;
    atomic_bool busy, stop;
    char pad0[64];
    _Atomic uint64_t ticket;
    _Atomic(void (*)(void *, int)) task;
    void *_Atomic arg;
    _Atomic uint32_t count, limit;
    char pad1[64];
    _Atomic uint32_t done, sleepers, waiting;
    char pad2[64];
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    Worker worker[];
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t gen_of(uint64_t ticket) {
    return (uint32_t)(ticket >> 32);
}

/* Takes and does tasks of generation `gen` until none is left. */
static void work(Pool *p, uint32_t gen) {
    uint64_t t = atomic_load(&p->ticket);
    for (;;) {
        void (*task)(void *, int) = atomic_load_explicit(&p->task, memory_order_relaxed);
        void *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
        uint32_t count = atomic_load_explicit(&p->count, memory_order_relaxed);
        if (gen_of(t) != gen || (uint32_t)t == 0) return;
        if (!atomic_compare_exchange_weak(&p->ticket, &t, t - 1)) continue;
        task(arg, (int)(count - (uint32_t)t));
        if (atomic_fetch_add(&p->done, 1) + 1 == count && atomic_load(&p->waiting)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->finished);
            pthread_mutex_unlock(&p->lock);
        }
        t = atomic_load(&p->ticket);
    }
}

typedef bool Ready(Pool *p, uint32_t what);
static bool job_ready(Pool *p, uint32_t seen) {
    return gen_of(atomic_load(&p->ticket)) != seen || atomic_load_explicit(&p->stop, memory_order_relaxed);
}
static bool all_done(Pool *p, uint32_t count) {
    return atomic_load(&p->done) == count;
}

static bool spin(Pool *p, Ready *ready, uint32_t what) {
    int64_t from = 0;
    for (unsigned i = 1;; i++) {
        if (ready(p, what)) return true;
        if (i % 64 == 0 || !p->spin_ns) {
            int64_t now = os_now_ns();
            if (!from) from = now;
            if (now - from >= p->spin_ns) return false;
        }
        relax();
    }
}

static void wait_until(Pool *p, Ready *ready, uint32_t what, _Atomic uint32_t *asleep, pthread_cond_t *cond) {
    if (spin(p, ready, what)) return;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(asleep, 1); /* announced before the last look: the other side looks here after its change */
    while (!ready(p, what)) pthread_cond_wait(cond, &p->lock);
    atomic_fetch_sub(asleep, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg) {
    Worker *w = arg;
    Pool *p = w->pool;
    for (uint32_t seen = 0;;) {
        wait_until(p, job_ready, seen, &p->sleepers, &p->wake);
        if (atomic_load(&p->stop)) return NULL;
        seen = gen_of(atomic_load(&p->ticket));
        if ((uint32_t)w->id < atomic_load_explicit(&p->limit, memory_order_relaxed)) work(p, seen);
    }
}

/* A worker that wakes on the caller's CPU waits a whole time slice for it, so a pool that fills the machine pins its
 * workers beside the caller. A smaller pool is better placed by the scheduler, which knows what else runs. Not allowed:
 * nothing happens. */
static void pin(Pool *p) {
#ifdef __linux__
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all)) return; /* more than 1,024 CPUs: leave it */
    int cpus = CPU_COUNT(&all), here = sched_getcpu();
    if (p->nworkers + 1 > cpus || 2 * (p->nworkers + 1) <= cpus || here < 0) return;
    for (int i = 0, cpu = here; i < p->nworkers; i++) {
        do cpu = (cpu + 1) % CPU_SETSIZE;
        while (!CPU_ISSET(cpu, &all));
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(p->worker[i].thread, sizeof one, &one);
    }
#else
    (void)p;
#endif
}

static void start_workers(Pool *p) {
    p->pid = getpid();
    p->nworkers = 0;
    atomic_store(&p->stop, false);
    atomic_store(&p->ticket, 0);
    atomic_store(&p->done, 0);
    atomic_store(&p->sleepers, 0);
    atomic_store(&p->waiting, 0);
    /* in a forked child these may have been held by a thread that is not there: made anew, never destroyed */
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->finished, NULL);
    pthread_attr_t at;
    if (pthread_attr_init(&at)) return;
    pthread_attr_setstacksize(&at, STACK_BYTES); /* row buffers lie on the stack; some libcs give 128 KiB */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the host program's signals stay with its own threads */
    for (int i = 0; i < p->threads - 1; i++) {
        p->worker[i] = (Worker){.pool = p, .id = i + 1};
        if (pthread_create(&p->worker[i].thread, &at, worker_main, &p->worker[i])) break;
        p->nworkers++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&at);
    pin(p);
}

Pool *pool_new(const Alloc *al, int threads) {
    if (threads < 1) threads = 1;
    Pool *p = al->get(al->user, sizeof *p + (size_t)(threads - 1) * sizeof(Worker));
    if (!p) return NULL;
    memset(p, 0, sizeof *p);
    p->al = al;
    p->threads = threads;
    p->spin_ns = threads > os_cpus() ? 0 : SPIN_NS; /* who spins on a shared CPU keeps the others from working */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *state = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED) {
        al->put(al->user, p);
        return NULL;
    }
    p->state = state;
#ifdef MADV_WIPEONFORK
    p->wiped = madvise(state, page, MADV_WIPEONFORK) == 0;
#endif
    return p;
}

/* State as it is in this process: NONE in a child that has not started workers of its own. */
static int state_here(Pool *p) {
    int s = atomic_load_explicit(p->state, memory_order_acquire);
    return !p->wiped && s == POOL_LIVE && p->pid != getpid() ? POOL_NONE : s;
}

void pool_free(Pool *p) {
    if (!p) return;
    if (state_here(p) == POOL_LIVE) {
        pthread_mutex_lock(&p->lock);
        atomic_store(&p->stop, true);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
        for (int i = 0; i < p->nworkers; i++) pthread_join(p->worker[i].thread, NULL);
        pthread_cond_destroy(&p->wake);
        pthread_cond_destroy(&p->finished);
        pthread_mutex_destroy(&p->lock);
    }
    munmap((void *)p->state, (size_t)sysconf(_SC_PAGESIZE));
    p->al->put(p->al->user, p);
}

/* Becomes the one that may hand out work; starts the workers on the way. */
static bool enter(Pool *p) {
    if (state_here(p) == POOL_LIVE) return !atomic_exchange(&p->busy, true);
    int s = atomic_load(p->state);
    if (s == POOL_STARTING || !atomic_compare_exchange_strong(p->state, &s, POOL_STARTING)) return false;
    atomic_store(&p->busy, true);
    start_workers(p);
    atomic_store_explicit(p->state, POOL_LIVE, memory_order_release);
    return true;
}

void pool_run(Pool *p, int threads, int n, void (*task)(void *arg, int i), void *arg) {
    if (threads > p->threads) threads = p->threads;
    if (threads <= 1 || n <= 1 || !enter(p)) {
        for (int i = 0; i < n; i++) task(arg, i);
        return;
    }
    uint32_t gen = gen_of(atomic_load(&p->ticket)) + 1;
    atomic_store_explicit(&p->task, task, memory_order_relaxed);
    atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&p->count, (uint32_t)n, memory_order_relaxed);
    atomic_store_explicit(&p->limit, (uint32_t)threads, memory_order_relaxed);
    atomic_store(&p->done, 0);
    atomic_store(&p->ticket, (uint64_t)gen << 32 | (uint32_t)n);
    if (atomic_load(&p->sleepers)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    work(p, gen);
    wait_until(p, all_done, (uint32_t)n, &p->waiting, &p->finished);
    atomic_store(&p->busy, false);
}
