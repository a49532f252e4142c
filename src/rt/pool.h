/* A small pool of threads for one device: fork-join in well under a microsecond while it is warm, no CPU time while it
 * is idle. */
#ifndef ROWFOLD_POOL_H
#define ROWFOLD_POOL_H

#include "../base/base.h"

typedef struct Pool Pool;
/* `threads` counts the calling one. Threads start with the first run that wants them. NULL: out of memory. */
Pool *pool_new(const Alloc *al, int threads);
void pool_free(Pool *p); /* in a forked child it lets go of what the parent's threads are to the parent */
/* Calls task(arg, i) once for every i in 0 .. n-1 on up to `threads` threads, the caller among them, and returns when
 * all are done. When another thread is inside (or threads cannot be had) the caller does all the work itself: any
 * thread may call this at any time. */
void pool_run(Pool *p, int threads, int n, void (*task)(void *arg, int i), void *arg);
#endif
