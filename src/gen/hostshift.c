/* The host dialect where rows are swept from a line of memory on (tail=head-shift). Steps, registers and stripes are
 * those of places: element e has place e + shift, where the shift is how far behind a line of the anchor, the first
 * tensor stored, the row starts. So its registers are lines, or parts of one, whatever the row's length, and streaming
 * stores stream. The first step leaves out the places before the row, the last ones those behind it.
 *
 * Lane w is at place (w + shift) mod W, and with several accumulators a lane's are at the places of one ring of
 * W * acc. Each place has the elements of one lane in their order, so turning the ring back before lanes meet gives the
 * bits of a row that is not shifted. */
#include "hostgen.h"

static const Ins *at(const Emit *e, int i) {
    return &e->k->ins[i];
}

void host_find_shifts(Emit *e) {
    const Kern *k = e->k;
    for (int n = k->root; n >= 0 && k->plan.tail == TAIL_HEAD_SHIFT && !e->shifts; n = k->node[n].next)
        if (k->node[n].kind == NODE_SWEEP)
            e->shifts = plan_shifts(e->pb, &k->plan, k->domain[k->node[n].domain].mapped, &e->anchor);
}

const char *host_shift(Emit *e) {
    return e->nstages ? emit_text(e, "shift%d", e->stage) : "shift";
}

/* Where the row starts in the anchor is a value of the row's own that its accesses have. */
void host_shift_here(Emit *e) {
    const Kern *k = e->k;
    int start = -1;
    for (int i = 0; i < k->nins && start < 0; i++) {
        const Ins *in = at(e, i);
        const bool pack = (in->k == K_LOADP || in->k == K_STOREP) && in->param == e->anchor && in->a[1] < 0;
        if (pack && in->a[0] < k->node[k->root].i1) start = in->a[0];
    }
    line(e, "%s%s = %s;", e->nstages ? "" : "const i64 ", host_shift(e),
         start < 0 ? "0"
                   : emit_text(e, "off_%s(p%d + %s, %d)", ty_text(host_tensor_type(e, e->anchor)), e->anchor,
                               host_scalar(e, start), e->shifts));
}

void host_shift_ahead(Emit *e, const Node *node) {
    if (e->shifts && node == &e->k->node[e->k->node[e->k->root].next]) host_shift_here(e);
}

/* Is what lanes have in the cell joined alike in whatever order? */
static bool joins_in_any_order(const Emit *e, int cell) {
    bool any = true;
    for (int i = 0; i < e->k->nins; i++) {
        const Op op = at(e, i)->op;
        if (at(e, i)->k == K_FOLD && at(e, i)->imm == cell)
            any &= op == OP_MAX || op == OP_MIN || op == OP_AND || op == OP_OR;
    }
    return any;
}

/* Registers from the accumulator's first on, one after the other in memory: lanes are read there, `shift` places on. */
void host_shift_ring(Emit *e, int i) {
    const Ins *in = at(e, i);
    if (!e->shifts || joins_in_any_order(e, in->imm)) return;
    const int all = e->k->cell[in->imm].acc * e->R, more = (int)ceil_div(e->shifts, e->L);
    Buf b = buf_new(e->cx->a);
    for (int r = 0; r < e->R + more; r++) {
        const int q = (in->acc * e->R + r) % all;
        buf_fmt(&b, "%s%s", r ? ", " : "", host_cell(e, in->imm, q / e->R, q % e->R));
    }
    line(e, "const v%s t%d[] = {%s};", ty_text(host_cell_type(e, in->imm)), i, b.s);
}

const char *host_lane_cell(Emit *e, int i, int r) {
    const Ins *in = at(e, i);
    if (!e->shifts || joins_in_any_order(e, in->imm)) return host_cell(e, in->imm, in->acc, r);
    return emit_text(e, "turn_v%s(t%d, %s + %d)", ty_text(host_cell_type(e, in->imm)), i, host_shift(e), r * e->L);
}
