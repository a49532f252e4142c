/* A program's parameters as slots: where each pointer, extent, stride and scalar of a launch lies. */
#include "target.h"

static bool is_tensor(const Param *q) {
    return q->dir == DIR_IN || q->dir == DIR_OUT || q->dir == DIR_INOUT;
}

void abi_of(const Prog *p, Abi *out) {
    *out = (Abi){0};
    for (int i = 0; i < MAX_PARAMS; i++) {
        out->ptr[i] = out->scalar[i] = -1;
        for (int d = 0; d < MAX_RANK; d++) out->stride[i][d] = out->extent[i][d] = -1;
    }
    for (int i = 0; i < MAX_AXES; i++) out->row[i] = -1;
    int n = out->ptr0 = 0;
    for (int i = 0; i < p->nparams; i++)
        if (is_tensor(&p->param[i])) out->ptr[i] = n++;
    out->row0 = n;
    for (int i = 0; i < p->naxes; i++)
        if (p->axis[i].row) out->row[i] = n++;
    out->stride0 = n;
    for (int i = 0; i < p->nparams; i++)
        for (int d = 0; is_tensor(&p->param[i]) && d < p->param[i].rank; d++) {
            out->stride[i][d] = n++;
            out->extent[i][d] = out->row[p->param[i].axis[d]];
        }
    out->scalar0 = n;
    for (int i = 0; i < p->nparams; i++)
        if (p->param[i].dir == DIR_SCALAR) out->scalar[i] = n++;
    out->nslots = n;
}
