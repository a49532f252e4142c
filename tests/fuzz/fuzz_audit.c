/* Any bytes as what the auditor reads: a record, a program, a plan, a kern of a small program, a file of kernels. It
 * says what is wrong, or goes on with what it read and stays inside it. */
#include "../../tools/audit/checks.h"
#include "../../tools/audit/sourceread.h"

#include <stdlib.h>
#include <string.h>

static const char softmax[] = "prog softmax\naxis rows row\naxis n element\nparam x in f32 [rows,n]\n"
                              "param y out f32 [rows,n]\n%0 = idx i64 [rows] rows\n%1 = idx i64 [n] n\n"
                              "%2 = load f32 [rows,n] x [%0,%1]\n%3 = reduce f32 [rows] max %2 over [n] tree\n"
                              "%4 = - f32 [rows,n] %2 %3\nout y = %4\nend\n";

static void evaluate(Mem *m, Program *p) {
    const char *why = "";
    int64_t ext[AXES];
    for (int i = 0; i < AXES; i++) ext[i] = i < p->naxes && p->axis[i].ext < 0 ? 3 : -1;
    if (!program_bind(m, p, ext, &why) || eval_work(p) > 4096) return;
    Tensor in[PARAMS] = {{.ty = T_NONE}};
    const Number scalar[PARAMS] = {{0, 1}};
    for (int i = 0; i < p->nparams; i++) {
        const PParam *q = &p->param[i];
        in[i] = (Tensor){.ty = q->ty, .rank = q->rank, .fill = FILL_SPECIAL, .row = 3, .seed = 7, .index_bound = 3};
    }
    const Rules r = {4, 4, 1, 0, WELFORD, true, false, true, true};
    Eval *e = eval_new(m, p, in, scalar, &r, &why);
    const int64_t at[AXES] = {0};
    if (!e) return;
    for (int a = 0; a < p->naxes; a++)
        if (p->n[a] == 0) return;
    eval_row(e, at);
    for (int o = 0; o < p->nouts; o++) {
        const Want w = eval_want(e, o, at);
        want_allows(&w, p->param[p->out_param[o]].ty, (Number){1, 1});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    jmp_buf out;
    Mem m = {.ceiling = (size_t)1 << 30, .out = &out};
    if (setjmp(out)) abort(); /* inputs of this size fit */
    const char *why = "", *text = mem_text(&m, (const char *)data, n);
    PlanText plan;
    Counted counted;
    plan_parse(&m, text, &plan, &why);
    Program *p = program_read(&m, softmax, sizeof softmax - 1, &why);
    const int64_t ext[AXES] = {8, 100};
    if (!p || !program_bind(&m, p, ext, &why)) abort();
    kern_counted(&m, p, text, n, &counted, &why);
    kernel_read(&m, text, "softmax", &why);
    p = program_read(&m, text, n, &why);
    if (p) evaluate(&m, p);
    Audit a = {.m = &m, .folder = "no-such-folder", .work_left = 1 << 16, .bytes_left = 1 << 16};
    record_audit(&a, text, n, NULL, NULL, 0, &why);
    mem_end(&m);
    return 0;
}
