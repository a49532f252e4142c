/* Bed -> the buffers of the cold regime: copies of its inputs and places for outputs, over more memory than caches
 * hold.
 */
#include "figures.h"

#include <string.h>

enum { MOST_SETS = 1 << 16 };
static const size_t block_bytes = 16 << 20; /* copied at a time: thousands of small copies take longer than the calls */

static bool is_tensor(const Param *p) {
    return p->dir == DIR_IN || p->dir == DIR_OUT || p->dir == DIR_INOUT;
}

/* Sets of parameter i that are copied together. */
static int together(const Ring *r, int i) {
    if (!r->sets) return 1; /* resident alone */
    return (int)i64_min(r->sets, i64_max(1, (int64_t)(block_bytes / r->step[i])));
}

static Err fill(Cx *cx, Ring *r, int i) {
    const Bed *b = r->bed;
    const Param *p = &b->pb->prog->param[i];
    const int n = together(r, i);
    Err err = mem_new(cx, b->dev, r->step[i] * (size_t)r->sets, &r->mem[i]);
    if (err) return err;
    Arena *tmp = arena_sub(cx->a);
    char *block = arena_get(tmp, r->step[i] * (size_t)n);
    memset(block, BED_POISON, r->step[i] * (size_t)n);
    for (int k = 0; k < n && p->dir != DIR_OUT && b->size[i]; k++)
        memcpy(block + r->step[i] * (size_t)k, b->host.t[i].data, b->size[i]);
    for (int k = 0; k < r->sets && !err; k += n)
        err = mem_write(cx, r->mem[i], r->step[i] * (size_t)k, block, r->step[i] * (size_t)(i64_min(n, r->sets - k)));
    arena_free(tmp);
    return err;
}

void ring_keep(Cx *cx, Bed *b, Ring *r) {
    *r = (Ring){.bed = b};
    for (int i = 0; i < b->pb->prog->nparams; i++)
        if (b->pb->prog->param[i].dir == DIR_OUT) r->want[i] = arena_dup(cx->a, b->host.t[i].data, b->size[i]);
}

Err ring_make(Cx *cx, Bed *b, int64_t rotate_bytes, Ring *r) {
    const Prog *p = b->pb->prog;
    size_t one = 0;
    for (int i = 0; i < p->nparams; i++)
        if (is_tensor(&p->param[i])) one += b->size[i];
    r->sets = one ? (int)i64_min(i64_max(2, ceil_div(rotate_bytes, (int64_t)one)), MOST_SETS) : 2;
    Err err = OK;
    for (int i = 0; i < p->nparams && !err; i++) {
        if (!is_tensor(&p->param[i])) continue;
        r->step[i] = (b->size[i] + 255) & ~(size_t)255;
        if (!r->step[i]) r->step[i] = 256;
        err = fill(cx, r, i);
    }
    if (err) return err;
    r->slots = NEWN(cx->a, const Slot *, 2 * r->sets);
    for (int k = 0; k < r->sets; k++) {
        Slot *s = arena_dup(cx->a, b->slots, sizeof *s * (size_t)b->abi.nslots);
        for (int i = 0; i < p->nparams; i++)
            if (is_tensor(&p->param[i])) s[b->abi.ptr[i]].p = (char *)mem_at(r->mem[i]) + r->step[i] * (size_t)k;
        r->slots[k] = r->slots[k + r->sets] = s;
    }
    return OK;
}

static Err differs(Cx *cx, const Param *p, int set, int sets) {
    return p->dir == DIR_OUT ? diag(cx, S_BENCH_STALE, NOWHERE, NULL,
                                    "%s of buffer set %d of %d is not what the checked call gave", p->name, set, sets)
                             : diag(cx, S_BENCH_CLOBBERED, NOWHERE, NULL,
                                    "input %s of buffer set %d of %d was written to", p->name, set, sets);
}

Err ring_check(Cx *cx, const Ring *r) {
    const Bed *b = r->bed;
    const Prog *p = b->pb->prog;
    bool feeds = false; /* on its own results: what else it gives changes from call to call */
    for (int i = 0; i < p->nparams; i++) feeds |= p->param[i].dir == DIR_INOUT;
    for (int i = 0; i < p->nparams; i++) {
        const bool out = p->param[i].dir == DIR_OUT;
        if (out ? feeds : p->param[i].dir != DIR_IN) continue;
        const void *want = out ? r->want[i] : b->host.t[i].data;
        const int n = out ? (int)i64_min(r->taken, r->sets) : r->sets;
        Arena *tmp = arena_sub(cx->a);
        const int block = together(r, i);
        char *got = arena_get(tmp, r->sets ? r->step[i] * (size_t)block : b->size[i]);
        Err err = mem_read(cx, b->mem[i], 0, got, b->size[i]);
        if (!err && memcmp(got, want, b->size[i]) != 0) err = differs(cx, &p->param[i], 0, 1);
        for (int from = 0; from < n && !err; from += block) {
            const int to = (int)i64_min(n, from + block);
            err = mem_read(cx, r->mem[i], r->step[i] * (size_t)from, got, r->step[i] * (size_t)(to - from));
            for (int k = from; k < to && !err; k++)
                if (memcmp(got + r->step[i] * (size_t)(k - from), want, b->size[i]) != 0)
                    err = differs(cx, &p->param[i], k, n);
        }
        arena_free(tmp);
        if (err) return err;
    }
    return OK;
}

void ring_free(Ring *r) {
    for (int i = 0; i < MAX_PARAMS; i++) {
        if (r->mem[i]) mem_free(r->mem[i]);
        r->mem[i] = NULL;
    }
}
