/* Any bytes as a plan, and as what pins or opens a space: diagnostics, or a plan that prints and reads back alike and
 * is judged without a fault, and a space each of whose points is. */
#include "../../src/lang/lang.h"
#include "../../src/plan/plan.h"

#include <stdlib.h>

#define MUST(x)            \
    do {                   \
        if (!(x)) abort(); \
    } while (0)

static void problem(Cx *cx, Problem *pb) {
    static const char text[] = "kernel layernorm for rows (x: in bf16[rows, n], y: out f32[rows, n]) {\n"
                               "    c = x - mean(x)\n    y = c * rsqrt(mean(c * c) + 1e-5)\n}\n";
    Ast *ast;
    Prog *p;
    Caps caps;
    Shape s = {.n = {8, 100}};
    MUST(caps_preset("avx2", &caps));
    MUST(lang_parse(cx, "fuzz.row", text, sizeof text - 1, &ast) == OK);
    MUST(lang_kernel(cx, ast, NULL, NULL, 0, NULL, 0, &p) == OK);
    MUST(problem_make(cx, p, &s, &caps, 0, pb) == OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    MUST(cx.a);
    const char *text = arena_str(cx.a, (const char *)data, n);
    Problem pb;
    Plan p, q;
    problem(&cx, &pb);
    if (plan_read(&cx, text, &p) == OK) {
        Buf one = buf_new(cx.a), two = buf_new(cx.a);
        plan_print(&p, &one);
        MUST(plan_read(&cx, one.s, &q) == OK);
        plan_print(&q, &two);
        MUST(str_eq(one.s, two.s));
        plan_check(&cx, &pb, &p, NULL, NULL);
    }
    for (int pin = 0; pin < 2; pin++) {
        Space s;
        Entry *entry;
        int64_t count, legal;
        const Plan base = plan_default();
        MUST(space_of_plan(&cx, &base, &s) == OK);
        if ((pin ? space_pin : space_open)(&cx, &pb, text, &s) == OK &&
            space_list(&cx, &pb, &s, 256, &entry, &count, &legal) == OK)
            MUST(count == space_count(&s) && legal <= count);
    }
    arena_free(cx.a);
    return 0;
}
