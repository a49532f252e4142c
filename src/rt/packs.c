/* What GPU runtimes share: units that outlive their caller, and whether memory is aligned to the packs of one. */
#include "local.h"

#include <string.h>

void packs_check(const Unit *u, PackCheck *out) {
    out->n = 0;
    for (int q = 0; q < MAX_PARAMS; q++) {
        if (!u->align[q] || u->abi.ptr[q] < 0) continue;
        out->at[out->n].slot = u->abi.ptr[q], out->at[out->n].extent = -1;
        out->at[out->n++].mask = (uint64_t)u->align[q] - 1;
        for (int d = 0; d < MAX_RANK; d++) {
            if (!(u->align_dims[q] >> d & 1)) continue;
            out->at[out->n].slot = u->abi.stride[q][d], out->at[out->n].extent = u->abi.extent[q][d];
            out->at[out->n++].mask = (uint64_t)u->align_each[q] - 1;
        }
    }
    if (u->align_extent > 1) {
        out->at[out->n].slot = u->extent, out->at[out->n].extent = -1;
        out->at[out->n++].mask = (uint64_t)u->align_extent - 1;
    }
}

bool packs_fit(const PackCheck *c, const Slot *slots) {
    uint64_t off = 0;
    for (int i = 0; i < c->n; i++) /* one row has no stride */
        if (c->at[i].extent < 0 || slots[c->at[i].extent].i > 1)
            off |= (uint64_t)slots[c->at[i].slot].i & c->at[i].mask;
    return !off;
}

bool unit_keep(const Rt *rt, const Unit *u, Unit *out) {
    char *text = rt_get(rt, u->bytes + 1), *entry = rt_get(rt, strlen(u->entry) + 1);
    *out = *u;
    out->text = text, out->entry = entry;
    if (!text || !entry) return false;
    memcpy(text, u->text, u->bytes);
    memcpy(entry, u->entry, strlen(u->entry));
    return true;
}

void unit_drop(const Rt *rt, const Unit *u) {
    rt_put(rt, (void *)(uintptr_t)u->text);
    rt_put(rt, (void *)(uintptr_t)u->entry);
}
