/* The auditor's side of twice.h. */
#include "twice.h"

#include "../../tools/audit/checks.h"

#include <stdlib.h>
#include <string.h>

struct Own {
    Mem m;
    jmp_buf out;
    Program *p;
    Eval *e;
    PlanText plan;
    Tensor in[PARAMS];
    Number scalar[PARAMS];
    int64_t row[AXES];
    bool begun;
    Block *mark;
    size_t used;
};

static bool fill(Own *w, const char *prog, const int64_t *ext, const char *name, const uint64_t *seeds,
                 const double *scalars, const char *plan, bool native, const char **why) {
    if (setjmp(w->out)) abort();
    w->p = program_read(&w->m, prog, strlen(prog), why);
    if (!w->p || !program_bind(&w->m, w->p, ext, why) || !plan_parse(&w->m, plan, &w->plan, why)) return false;
    int which = 0;
    if (!fill_named(name, &which)) abort();
    for (int i = 0; i < w->p->nparams; i++) {
        const PParam *q = &w->p->param[i];
        Tensor *t = &w->in[i];
        *t = (Tensor){.ty = q->ty, .rank = q->rank, .fill = which, .count = 1, .row = 1, .seed = seeds[i]};
        if (q->rank) t->row = w->p->n[q->axis[q->rank - 1]];
        t->index_bound = index_bound_of(w->p, i);
        for (int d = 0; d < q->rank; d++) t->count *= w->p->n[q->axis[d]];
        if (q->way == W_SCALAR) {
            const Number x = {(long double)scalars[i], (int64_t)scalars[i]};
            w->scalar[i] = convert(type_fact(q->ty)->kind == REAL ? F64 : I64, q->ty, x);
        }
    }
    const Rules r = plan_rules(w->p, &w->plan, native);
    w->e = eval_new(&w->m, w->p, w->in, w->scalar, &r, why);
    return w->e != NULL;
}

Own *own_new(const char *prog, const int64_t *ext, const char *name, const uint64_t *seeds, const double *scalars,
             const char *plan, bool native, const char **why) {
    Own *w = calloc(1, sizeof *w); /* kept when the texts are none: *why lies in it */
    if (!w) abort();
    w->m = (Mem){.ceiling = (size_t)1 << 30, .out = &w->out};
    return fill(w, prog, ext, name, seeds, scalars, plan, native, why) ? w : NULL;
}

OwnValue own_value(Own *w, int o, const int64_t *at, const uint8_t *bits) {
    if (setjmp(w->out)) abort();
    int64_t row[AXES] = {0};
    for (int a = 0; a < w->p->naxes; a++)
        if (w->p->rows >> a & 1) row[a] = at[a];
    if (!w->begun || memcmp(row, w->row, sizeof row)) {
        if (w->begun) mem_back(&w->m, w->mark, w->used);
        mem_mark(&w->m, &w->mark, &w->used);
        memcpy(w->row, row, sizeof row);
        w->begun = true;
        eval_row(w->e, row);
    }
    const Want want = eval_want(w->e, o, at);
    const Type st = w->p->param[w->p->out_param[o]].ty;
    return (OwnValue){want.x.v, want.x.i, want.e, want_allows(&want, st, number_of_bits(st, bits))};
}

void own_input(Own *w, int param, int64_t i, uint8_t *bits) {
    number_bits(w->p->param[param].ty, tensor_at(&w->in[param], i), bits);
}

bool own_count(Own *w, const char *kern, double out[OWN_COUNTS], const char **why) {
    if (setjmp(w->out)) abort();
    Counted c;
    int64_t rounds;
    int sweeps;
    if (!kern_counted(&w->m, w->p, kern, strlen(kern), &c, why)) return false;
    double *x = out;
    const Traffic *t[] = {&c.lane, &c.row};
    for (int k = 0; k < 2; k++)
        *x++ = t[k]->read, *x++ = t[k]->write, *x++ = t[k]->private_read, *x++ = t[k]->private_write;
    *x++ = c.rounds, *x++ = c.packs, *x++ = c.collectives, *x++ = c.barriers;
    for (int k = 0; k < CLASSES; k++) *x++ = c.lane_ops[k];
    for (int k = 0; k < CLASSES; k++) *x++ = c.row_ops[k];
    *x++ = c.shared_bytes;
    *x++ = c.serial || c.array_words ? -1 : (double)c.own_live;
    *x++ = c.serial || c.array_words ? -1 : (double)c.own_sum;
    *x++ = plan_reductions(&w->m, w->p);
    *x++ = plan_rounds(&w->m, w->p, &w->plan, &rounds, &sweeps) ? (double)rounds : -1;
    *x++ = (double)c.reductions;
    return true;
}

int own_source(const char *text, const char *kernel, const char *prog, const char **why) {
    static Mem m;
    static jmp_buf out;
    static Audit a;
    mem_end(&m);
    m = (Mem){.ceiling = (size_t)1 << 28, .out = &out};
    a = (Audit){.m = &m};
    if (setjmp(out)) abort();
    CaseInfo c = {.place = kernel, .p = program_read(&m, prog, strlen(prog), why)};
    if (!c.p) return -1;
    json_t *j = json_pack("{s:{s:s},s:s}", "source", "text", text, "kernel", kernel);
    for (int i = 0; i < AXES; i++) c.p->n[i] = 5; /* declared axes are then of another extent, and that is found */
    c.j = j;
    source_check(&a, &c);
    json_decref(j);
    int found = a.count[UNKNOWN] ? 0 : 1;
    for (size_t i = 0; i < a.nshown; i++)
        if (a.shown[i].found == REFUTED && strncmp(a.shown[i].detail, "axis ", 5) != 0)
            found = -1, *why = a.shown[i].detail;
    return found;
}

void own_free(Own *w) {
    mem_end(&w->m);
    free(w);
}
