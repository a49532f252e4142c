/* What of the default space is a host's own: lanes that are elements of vector registers, columns that are rows,
 * threads, and how much text a compiler is given. */
#include "space.h"

/* Lanes, most promising first, none much longer than the row. On a host a lane is an element of a vector, and a few
 * vectors hide the latency of the arithmetic. */
void hostspace_lanes(Cx *cx, const Problem *pb, int64_t n, Space *s) {
    static const int vectors[] = {4, 8, 2, 16, 1};
    int v[8], count = 0, L = pb->caps.subgroup;
    int64_t useful = ceil_div(n, L) * L;
    for (int i = 0; i < COUNT(vectors); i++) {
        int W = L * vectors[i];
        if (W <= 512 && W <= pb->caps.max_lanes && W <= useful && dim_is_legal(DIM_W, W)) v[count++] = W;
    }
    if (!count) v[count++] = 1;
    space_set(cx, s, DIM_W, v, count);
}

/* Columns that have two lines of memory of the narrowest input side by side. */
static int columns_of_lines(const Problem *pb) {
    const Prog *p = pb->prog;
    int bytes = 8;
    for (int i = 0; i < p->nparams; i++)
        if (p->param[i].dir == DIR_IN && p->param[i].rank && ty_bytes(p->param[i].ty) < bytes)
            bytes = ty_bytes(p->param[i].ty);
    return (int)(2 * pb->caps.cache_line / bytes);
}

/* On a CPU such rows are the elements of registers, a few registers of them at a time: four or eight where there are 32
 * registers; of half as many no more than two lines need (AVX2, bf16 8192x4096: 14.5 ms; four registers, one line, 25;
 * sixteen 34). Nothing is kept but in outputs: what is read again comes from caches. */
void hostspace_columns(Cx *cx, const Problem *pb, Space *s) {
    const int L = pb->caps.subgroup, lines = columns_of_lines(pb);
    space_set(cx, s, DIM_W, (const int[]){1}, 1);
    if (L >= 16)
        space_set(cx, s, DIM_P, (const int[]){64, 128}, 2);
    else
        space_set(cx, s, DIM_P, (const int[]){lines < 64 ? lines : 64, lines < 64 ? 64 : 32}, 2);
    space_set(cx, s, DIM_acc, (const int[]){1, 2}, 2); /* four were not seen to be faster, and twice the text */
    space_set(cx, s, DIM_flight, (const int[]){1}, 1); /* P rows are in flight already */
    for (int i = 0; i < s->nholds; i++) {
        int n = 0;
        for (int k = 0; k < s->nhold[i]; k++)
            if (s->hold[i][k] != HOLD_REGISTER) s->hold[i][n++] = s->hold[i][k];
        if (n) s->nhold[i] = n;
    }
}

/* Threads of a CPU that share the rows. A call of some microseconds is over before a second one helps, one of a
 * millisecond wants all; in between it is measured. */
void hostspace_threads(Cx *cx, const Problem *pb, int64_t n, Space *s) {
    enum { FEW = 16000, MANY = 1 << 20 }; /* elements; the launch itself takes one thread below FEW */
    int v[16], count = 0;
    int64_t all = n;
    for (int i = 0; i < pb->prog->naxes && all >= 0; i++)
        if (pb->prog->row_axes >> i & 1 && (pb->shape.n[i] < 0 || !mul_fits(all, pb->shape.n[i], &all))) all = -1;
    const bool one = pb->caps.units == 1 || (all >= 0 && all < FEW);
    v[count++] = one ? 1 : 0;
    for (int t = 1; t < pb->caps.units && !one && all >= 0 && all < MANY && count < COUNT(v); t *= 2)
        if (dim_is_legal(DIM_threads, t)) v[count++] = t;
    space_set(cx, s, DIM_threads, v, count);
}

/* Can sweeps of neighbouring rows run together, with some statistic? */
bool hostspace_can_stagger(Cx *cx, const Problem *pb, const Space *s) {
    for (int i = 0; i < s->n[DIM_stat]; i++) {
        Plan plan = plan_default();
        Cx own = {.a = cx->a}; /* that they cannot is no fault */
        plan.W = space_least(s, DIM_W), plan.P = space_least(s, DIM_P), plan.stat = s->value[DIM_stat][i],
        plan.stagger = 1;
        if (plan_check(&own, pb, &plan, NULL, NULL) == OK) return true;
    }
    return false;
}

/* Rows that do not end with a line of memory start anywhere in one, and only shifted ones are streamed, which is worth
 * it where a core's cache has no room for what is stored. */
void hostspace_shift(Cx *cx, const Problem *pb, Space *s) {
    const Prog *p = pb->prog;
    Plan plan = plan_default();
    Cx own = {.a = cx->a}; /* that rows cannot be shifted is no fault */
    Sched *sc = NEW(cx->a, Sched);
    int param;
    int64_t rows = 1;
    plan.W = s->value[DIM_W][0], plan.tail = TAIL_HEAD_SHIFT;
    if (!pb->caps.has_stream_store || plan_check(&own, pb, &plan, sc, NULL) != OK) return;
    for (int i = 0; i < p->naxes; i++)
        if (p->row_axes >> i & 1 && !mul_fits(rows, pb->shape.n[i], &rows)) return;
    for (int i = 0; i < sc->nsweeps; i++) {
        const Domain *d = &sc->domain[sc->sweep[i].domain];
        if (!plan_shifts(pb, &plan, d->mapped, &param) || p->param[param].dir == DIR_IN) continue;
        const int64_t bytes = d->n_mapped * ty_bytes(p->param[param].ty);
        if (rows < 2 || bytes % pb->caps.cache_line == 0 || bytes < pb->caps.l2_bytes / rows) return;
        space_set(cx, s, DIM_tail, (const int[]){TAIL_HEAD_SHIFT, TAIL_GUARDED}, 2);
        space_set(cx, s, DIM_store, (const int[]){STORE_STREAM}, 1);
        return;
    }
}

/* Instructions that a host unit spells to convert a register of elements to or from a type. */
static int text_of_type(Ty ty) {
    enum { NARROW = 4, F8 = 12 };
    const int bytes = ty_bytes(ty);
    return bytes == 1 ? (ty_is_float(ty) ? F8 : NARROW) : bytes == 2 && ty_is_float(ty) ? NARROW : 0;
}

/* Instructions that a host unit spells for a register of elements, about: a special function is a dozen. */
static int text_of(const Prog *p) {
    enum { SPECIAL = 14 };
    int n = 0;
    for (int i = 0; i < p->nvals; i++) {
        const Val *v = &p->val[i];
        const Ty ty = v->op == OP_LOAD ? p->param[v->param].ty : TY_F32;
        const bool of_elements = v->op == OP_RED ? v->over != 0 : (v->axes & ~p->row_axes) != 0;
        if (!of_elements || v->op == OP_CONST || v->op == OP_IDX) continue;
        n += v->op != OP_RED && op_info(v->op)->cost == COST_SPECIAL ? SPECIAL : 1;
        n += text_of_type(ty);
    }
    for (int o = 0; o < p->nouts; o++) n += 1 + text_of_type(p->param[p->out[o].param].ty);
    return n;
}

/* Leaves out what makes a loop's text long without need: gcc takes 0.2 ms for each register of each instruction in it,
 * and where a step has much to compute, more of it at a time was not seen to be faster. */
void hostspace_text(const Problem *pb, Space *s) {
    enum { MOST = 160, USUAL = HOST_GROUP }; /* registers of a usual step */
    static const int dims[] = {DIM_acc, DIM_flight, DIM_W, DIM_P};
    const int each = text_of(pb->prog), L = pb->caps.subgroup;
    for (int i = 0; i < COUNT(dims); i++) {
        int *v = s->value[dims[i]], n = 0;
        for (int k = 0; k < s->n[dims[i]]; k++) {
            const int R = i < 2 ? USUAL * v[k] : v[k] / L;
            const int most = dims[i] == DIM_P && L < 16 && R > USUAL ? MOST / 2 : MOST; /* of 16 registers */
            const bool lines = dims[i] == DIM_P && k == 0; /* less would read parts of lines */
            if (lines || (i >= 2 && R > HOST_LOOPED ? USUAL : R) * each <= most) v[n++] = v[k];
        }
        if (n)
            s->n[dims[i]] = n;
        else
            s->n[dims[i]] = 1;
    }
}
