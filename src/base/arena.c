/* Arenas: memory by lifetime. One allocation failing jumps to the owner's trap, so stages stay free of checks. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 16 * 1024, MAX_BLOCK = 4 * 1024 * 1024 };

typedef struct Block {
    struct Block *prev;
    size_t used, size;
    _Alignas(16) unsigned char mem[];
} Block;

struct Arena {
    Alloc al;
    Trap *trap;
    Block *top;
    size_t bytes;
    Arena *parent, *child, *next, **link; /* children, and this one's place among the parent's */
};

static void *libc_get(void *user, size_t n) {
    (void)user;
    return malloc(n);
}
static void libc_put(void *user, void *p) {
    (void)user;
    free(p);
}
const Alloc alloc_libc = {libc_get, libc_put, NULL};

Arena *arena_new(const Alloc *al, Trap *trap) {
    if (!al) al = &alloc_libc;
    Arena *a = al->get(al->user, sizeof *a);
    if (!a) return NULL;
    *a = (Arena){.al = *al, .trap = trap};
    return a;
}

void arena_fail(Arena *a) {
    if (a->trap) longjmp(a->trap->at, 1);
    abort(); /* only reachable in tests that gave no trap */
}

Arena *arena_sub(Arena *parent) {
    Arena *a = arena_new(&parent->al, parent->trap);
    if (!a) arena_fail(parent);
    a->parent = parent;
    a->next = parent->child;
    a->link = &parent->child;
    if (a->next) a->next->link = &a->next;
    return parent->child = a;
}

void arena_free(Arena *a) {
    if (!a) return;
    while (a->child) arena_free(a->child);
    if (a->parent) *a->link = a->next;
    if (a->parent && a->next) a->next->link = a->link;
    for (Block *b = a->top; b;) {
        Block *prev = b->prev;
        a->al.put(a->al.user, b);
        b = prev;
    }
    a->al.put(a->al.user, a);
}

Trap *arena_trap(Arena *a, Trap *trap) {
    Trap *old = a->trap;
    a->trap = trap;
    return old;
}

size_t arena_bytes(const Arena *a) {
    return a->bytes;
}

void *arena_get(Arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 2) arena_fail(a);
    size_t need = (bytes + 15) & ~(size_t)15;
    if (!need) need = 16;
    if (!a->top || a->top->size - a->top->used < need) {
        size_t size = a->top ? a->top->size * 2 : FIRST_BLOCK;
        if (size > MAX_BLOCK) size = MAX_BLOCK;
        if (size < need) size = need;
        Block *b = a->al.get(a->al.user, sizeof *b + size);
        if (!b) arena_fail(a);
        b->prev = a->top;
        b->used = 0;
        b->size = size;
        a->top = b;
    }
    void *p = a->top->mem + a->top->used;
    a->top->used += need;
    a->bytes += need;
    memset(p, 0, bytes);
    return p;
}

void *arena_dup(Arena *a, const void *p, size_t bytes) {
    void *q = arena_get(a, bytes);
    if (bytes) memcpy(q, p, bytes);
    return q;
}

char *arena_str(Arena *a, const char *s, size_t n) {
    char *q = arena_get(a, n + 1);
    if (n) memcpy(q, s, n);
    return q;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

void *arena_grow(Arena *a, void *v, int n, int *cap, size_t each) {
    if (n < *cap) return v;
    int more = *cap ? *cap * 2 : 8;
    void *q = arena_get(a, (size_t)more * each);
    if (n) memcpy(q, v, (size_t)n * each);
    *cap = more;
    return q;
}
