/* The host dialect where sweeps of neighbouring rows run together (stagger=on): one loop over the elements does a step
 * of the last sweep for one row, then one of the sweep before it for the next row, and so on. What one sweep waits for,
 * memory or a chain of operations, the others fill: sweeps of one row can only follow each other.
 *
 * A stage is a sweep with the blocks before it. In round `row` of the loop stage g works on row - g, where that is a
 * row; what a stage makes for later ones is kept under names that say how many rounds ago that was. Cells need no
 * second copy, for the stage that reads them comes first in a round, nor do stripes: a step of the stage that reads one
 * comes just before that of the stage that writes the same place. */
#include "hostgen.h"

#include <string.h>

static const Ins *at(const Emit *e, int i) {
    return &e->k->ins[i];
}

/* The name of value i, made for the row of an earlier round than the one that it is used in. */
const char *host_ago(Emit *e, int i) {
    const int rounds = e->nstages && e->stage_of[i] >= 0 ? e->stage - e->stage_of[i] : 0;
    return rounds > 0 ? emit_text(e, "_ago%d", rounds) : "";
}

/* Is a value of a block the same for all rows, whatever is in memory? */
static bool is_same(const Emit *e, const Ins *in) {
    if (in->k == K_CONST || in->k == K_SLOT) return true;
    bool same = in->k == K_OP && in->rank == RANK_ROW;
    int place[3];
    for (int n = ins_operands(in, place), i = 0; i < n && same; i++)
        same = in->a[place[i]] < 0 || e->same[in->a[place[i]]];
    return same;
}

void host_find_same(Emit *e) {
    const Kern *k = e->k;
    e->same = NEWN(e->cx->a, bool, k->nins + 1);
    for (int n = k->root; n >= 0; n = k->node[n].next)
        for (int i = k->node[n].i0; i < k->node[n].i1 && k->node[n].kind == NODE_BLOCK; i++)
            e->same[i] = is_same(e, at(e, i));
}

/* The stages, and which of them makes each value. Nodes behind the last sweep belong to it. */
static void find_stages(Emit *e) {
    const Kern *k = e->k;
    e->sweep_of = NEWN(e->cx->a, const Node *, k->nsweeps + 1);
    e->stage_of = NEWN(e->cx->a, int, k->nins + 1);
    e->outside = NEWN(e->cx->a, bool, k->nins + 1);
    for (int n = k->root; n >= 0; n = k->node[n].next) {
        const Node *q = &k->node[n];
        const int stage = e->nstages < k->nsweeps ? e->nstages : k->nsweeps - 1;
        for (int i = q->i0; i < q->i1; i++) e->stage_of[i] = e->same[i] ? -1 : stage;
        if (q->kind == NODE_SWEEP) e->sweep_of[e->nstages++] = q;
    }
}

/* Which values are used elsewhere than among the blocks of their own stage, and how many rounds later at most. */
static void find_uses(Emit *e, int *later) {
    const Kern *k = e->k;
    int *part = NEWN(e->cx->a, int, k->nins + 1), parts = 0; /* blocks that stand together, and each sweep */
    for (int n = k->root; n >= 0; n = k->node[n].next) {
        const Node *q = &k->node[n];
        parts += q->kind == NODE_SWEEP;
        for (int i = q->i0; i < q->i1; i++) {
            int place[3];
            part[i] = parts;
            for (int m = ins_operands(at(e, i), place), o = 0; o < m; o++) {
                const int x = at(e, i)->a[place[o]];
                if (x < 0 || e->stage_of[x] < 0 || part[x] == parts) continue;
                e->outside[x] = true;
                if (e->stage_of[i] - e->stage_of[x] > later[x]) later[x] = e->stage_of[i] - e->stage_of[x];
            }
        }
        parts += q->kind == NODE_SWEEP;
    }
}

static int copies_of(const Emit *e, int i) {
    return at(e, i)->rank == RANK_ROW ? 0 : e->R;
}

/* "v7", or of a value that is one a lane "v7_0": copy r of it, so many rounds ago. */
static const char *name_of(Emit *e, int i, int r, int rounds) {
    const char *ago = rounds ? emit_text(e, "_ago%d", rounds) : "";
    return copies_of(e, i) ? emit_text(e, "v%d_%d%s", i, r, ago) : emit_text(e, "v%d%s", i, ago);
}

static void blocks(Emit *e, int node, int stage) {
    const Kern *k = e->k;
    e->stage = stage;
    for (; node >= 0 && k->node[node].kind == NODE_BLOCK; node = k->node[node].next) {
        e->node_end = k->node[node].i1;
        for (int i = k->node[node].i0; i < k->node[node].i1; i++) e->speak->block(e, i);
    }
}

void host_stagger_head(Emit *e) {
    const Kern *k = e->k;
    int *later = NEWN(e->cx->a, int, k->nins + 1);
    find_stages(e);
    find_uses(e, later);
    for (int i = 0; i < k->nins; i++) {
        const Ins *in = at(e, i);
        if (!e->outside[i]) continue;
        const char *type = copies_of(e, i) ? emit_text(e, "v%s", ty_text(in->ty)) : host_scalar_type(in->ty);
        for (int r = 0; r < (copies_of(e, i) ? e->R : 1); r++)
            for (int ago = 0; ago <= later[i]; ago++)
                line(e, "%s %s = %s;", type, name_of(e, i, r, ago), copies_of(e, i) ? "{0}" : "0");
    }
    host_cells(e);
    for (int g = 0; g < e->nstages && e->shifts; g++) line(e, "i64 shift%d = 0;", g);
    e->later = later;
    line(e, "for (i64 row = row0; row < row1 + %d; row++) {", e->nstages - 1);
    e->depth++;
    for (int g = 0; g < e->nstages; g++) {
        const char *from = g ? emit_text(e, "row - %d >= row0", g) : NULL;
        const char *to = g == e->nstages - 1 ? NULL : g ? emit_text(e, "row - %d < row1", g) : "row < row1";
        line(e, "const b1 in%d = %s%s%s;", g, from ? from : "", from && to ? " && " : "", to ? to : "");
    }
}

/* What a stage's sweep takes of its row's values, which is what the loop over the elements starts with. */
static void forms(Emit *e, int stage) {
    const Node *n = e->sweep_of[stage];
    uint32_t *based = NEWN(e->cx->a, uint32_t, e->k->nins + 1);
    bool *cut = NEWN(e->cx->a, bool, e->k->nins + 1);
    e->stage = stage;
    for (int i = n->i0; i < n->i1; i++) {
        const Ins *in = at(e, i);
        int place[3];
        for (int m = ins_operands(in, place), o = 0; o < m; o++) {
            const int x = in->a[place[o]];
            if (x < 0 || !e->outside[x]) continue;
            if (in->k == K_LOADP || in->k == K_STOREP) based[x] |= e->based[x] & 1u << in->param;
            cut[x] |= e->cut[x];
        }
    }
    for (int i = 0; i < e->k->nins; i++) host_forms(e, i, based[i], cut[i]);
}

bool host_stagger_nodes(Emit *e) {
    const Kern *k = e->k;
    if (!e->nstages) return false;
    int *first = NEWN(e->cx->a, int, e->nstages + 1), stage = 0; /* node of each stage, and what is behind the last */
    first[0] = k->root;
    for (int n = k->root; n >= 0; n = k->node[n].next)
        if (k->node[n].kind == NODE_SWEEP) first[++stage] = k->node[n].next;
    for (int g = e->nstages - 1; g >= -1; g--) {
        for (int s = e->nstages - 1; s >= 0 && g < 0; s--) forms(e, s);
        if (g < 0) emit_sweep(e, e->sweep_of[0]);
        const int of = g < 0 ? e->nstages - 1 : g, node = g < 0 ? first[e->nstages] : first[g];
        if (node < 0 || k->node[node].kind != NODE_BLOCK) continue;
        line(e, "if (in%d) {", of);
        e->depth++;
        blocks(e, node, of);
        if (e->shifts && g == 0) host_shift_here(e);
        e->depth--;
        line(e, "}");
    }
    for (int g = e->nstages - 1; g > 0 && e->shifts; g--) line(e, "shift%d = shift%d;", g, g - 1);
    for (int i = 0; i < k->nins; i++)
        for (int ago = e->later[i]; ago > 0; ago--)
            for (int r = 0; r < (copies_of(e, i) ? e->R : 1); r++)
                line(e, "%s = %s;", name_of(e, i, r, ago), name_of(e, i, r, ago - 1));
    return true;
}
