/* rowfold plan: what would be done, by which scores, and what would not, by which refusals. */
#include "cli.h"

static Rc plan_json(Cli *c) {
    Text t = {0};
    rowfold_stats s = {.struct_size = sizeof s};
    rowfold_kernel_stats(c->kernel, &s);
    json_head(c, &t, c->o.shape ? c->o.shape : "");
    json_str(&t, "policy", c->o.policy ? c->o.policy : "roofline");
    json_str(&t, "plan", rowfold_kernel_text(c->kernel, ROWFOLD_PLAN));
    json_int(&t, "judged", s.candidates);
    json_int(&t, "refused", s.refused);
    json_raw(&t, "demand", rowfold_kernel_text(c->kernel, ROWFOLD_DEMAND));
    refusals_json(c, json_read(c, rowfold_kernel_text(c->kernel, ROWFOLD_CANDIDATES)), &t);
    json_raw(&t, "candidates", rowfold_kernel_text(c->kernel, ROWFOLD_CANDIDATES));
    if (c->o.kern) json_str(&t, "kern", rowfold_kernel_text(c->kernel, ROWFOLD_KERN));
    json_close(&t, '}');
    return json_print(c, &t);
}

Rc command_plan(Cli *c) {
    Rc rc = cli_program(c);
    if (!rc) rc = cli_compile(c, ROWFOLD_ESTIMATE, c->o.shape, c->o.strided);
    if (rc) return rc;
    if (c->o.json) return plan_json(c);
    rowfold_stats s = {.struct_size = sizeof s};
    rowfold_kernel_stats(c->kernel, &s);
    const Json *candidates = json_read(c, rowfold_kernel_text(c->kernel, ROWFOLD_CANDIDATES));
    printf("%s  %s  %s  on %s, policy %s\n", rowfold_program_name(c->program), c->o.shape ? c->o.shape : "",
           cli_types(c), rowfold_device_name(c->device), c->o.policy ? c->o.policy : "roofline");
    printf("%lld plan%s judged, %lld legal, %lld refused\n", (long long)s.candidates, plural(s.candidates),
           (long long)(s.candidates - s.refused), (long long)s.refused);
    printf("plan     %s\n", rowfold_kernel_text(c->kernel, ROWFOLD_PLAN));
    candidates_print(c, candidates, c->o.limit, stdout);
    demand_print(c, rowfold_kernel_text(c->kernel, ROWFOLD_DEMAND), stdout);
    refusals_print(c, candidates, stdout, c->o.why);
    if (c->o.kern) printf("\n%s", rowfold_kernel_text(c->kernel, ROWFOLD_KERN));
    return RC_OK;
}
