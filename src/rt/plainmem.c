/* Ordinary memory as a device's: 256-byte aligned, every page touched, in huge pages where it is at least half of one
 * and the system grants them: small pages lie anywhere in a core's cache, and in another place in each process. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local.h"

#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 256 };
static const size_t huge = (size_t)2 << 20;

typedef struct PlainMem {
    Mem m;
    void *block;
} PlainMem;

Err plain_get(Cx *cx, Device *d, size_t bytes, Mem **out) {
    const bool large = bytes >= huge / 2;
    const size_t align = large ? huge : ALIGN, whole = large ? (bytes + huge - 1) & ~(huge - 1) : bytes;
    PlainMem *pm = bytes <= SIZE_MAX / 2 ? rt_get(d->rt, sizeof *pm) : NULL;
    const Alloc *al = rt_options(d->rt)->al;
    if (pm) pm->block = al->get(al->user, whole + align);
    if (!pm || !pm->block) {
        rt_put(d->rt, pm);
        return rt_oom(cx, "a buffer", bytes);
    }
    uintptr_t at = ((uintptr_t)pm->block + align - 1) & ~(uintptr_t)(align - 1);
    pm->m.at = (void *)at;
#ifdef MADV_HUGEPAGE
    if (large) madvise(pm->m.at, whole, MADV_HUGEPAGE); /* a wish, before the pages exist */
#endif
    memset(pm->m.at, 0, bytes);
    *out = &pm->m;
    return OK;
}

void plain_put(Mem *m) {
    PlainMem *pm = (PlainMem *)m;
    rt_put(m->dev->rt, pm->block);
    rt_put(m->dev->rt, pm);
}

Err plain_write(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes) {
    (void)cx;
    memcpy((char *)m->at + at, src, bytes);
    return OK;
}

Err plain_read(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes) {
    (void)cx;
    memcpy(dst, (const char *)m->at + at, bytes);
    return OK;
}
