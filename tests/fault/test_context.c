/* A candidate that loses its device's context, in a worker that opened the device: it costs exactly itself, whatever
 * the runtime. The driver is none (fake_cuda.c), the compiler is NVRTC where it is installed. */
#include "../unit/searchdesk.h"

#include "../../src/rt/cudadrv.h"

static const char copy_text[] = "kernel copy for rows (x: in f32[rows, n], y: out f32[rows, n]) { y = x }\n";

static bool compiler(void) {
    Nvrtc n;
    if (nvrtc_open(&n)) return true;
    printf("# skipped: %s\n", n.why);
    return false;
}

/* A desk whose device is the fake one, with its troubles, and three plans of 32, 64 and 128 threads. */
static Search *open_fake(Desk *d, const char *words) {
    const char *build = getenv("ROWFOLD_BUILD");
    Ast *ast;
    Prog *p;
    *d = (Desk){.cx = {.a = arena_new(NULL, NULL)}};
    setenv("ROWFOLD_LIBCUDA", arena_printf(d->cx.a, "%s/tests/libfake_cuda.so", build ? build : "."), 1);
    setenv("FAKE_CUDA", words, 1);
    RtOptions o = {.threads = 1, .isa = ISA_PORTABLE};
    assert_int_equal(rt_open(&d->cx, &o, &d->rt), OK);
    assert_int_equal(rt_find(&d->cx, d->rt, "cuda:0", &d->dev), OK);
    assert_int_equal(cost_find(&d->cx, "roofline", &d->policy), OK);
    assert_int_equal(lang_parse(&d->cx, "t", copy_text, strlen(copy_text), &ast), OK);
    assert_int_equal(lang_kernel(&d->cx, ast, "copy", NULL, 0, NULL, 0, &p), OK);
    Shape shape = {0};
    for (int i = 0; i < MAX_AXES; i++) shape.n[i] = -1;
    shape.n[prog_axis(p, "rows")] = 8, shape.n[prog_axis(p, "n")] = 256;
    assert_int_equal(problem_make(&d->cx, p, &shape, dev_caps(d->dev), 0, &d->pb), OK);
    d->s = (Search){.pb = &d->pb,
                    .dev = d->dev,
                    .effort = EFFORT_EXHAUSTIVE,
                    .pin = "V=1,P=1,cluster=1,overlap=off,early=off,acc=1,flight=1,load=plain,store=plain",
                    .open = "W=32/64/128",
                    .policy = d->policy,
                    .seed = 1,
                    .worker_path = getenv("ROWFOLD_FAULTY_WORKER"),
                    .bed = &d->bed};
    unlink(pids);
    setenv("ROWFOLD_FAULT_LOG", pids, 1);
    return &d->s;
}

static int started(void) {
    FILE *f = fopen(pids, "r");
    int n = 0;
    for (int ch; f && (ch = fgetc(f)) != EOF;) n += ch == '\n';
    if (f) fclose(f);
    return n;
}

static void close_fake(Desk *d) {
    unsetenv("FAKE_CUDA");
    unsetenv("ROWFOLD_LIBCUDA");
    close_desk(d);
}

static void workers_open_the_device(void **state) {
    (void)state;
    if (!compiler()) skip();
    Desk d;
    Search *s = open_fake(&d, "copy");
    search(&d);
    assert_int_equal(s->ntimed, 3);
    assert_null(s->note);
    assert_int_equal(started(), 1);
    assert_null(d.bed.dev); /* nothing of the problem's memory was taken in this process */
    for (int W = 32; W <= 128; W *= 2) assert_int_equal(trial_of(s, W)->fate, FATE_TIMED);
    close_fake(&d);
}

static void a_lost_context_costs_its_candidate(void **state) {
    (void)state;
    if (!compiler()) skip();
    Desk d;
    Search *s = open_fake(&d, "copy corrupt=64");
    search(&d);
    const Trial *bad = trial_of(s, 64);
    assert_int_equal(bad->fate, FATE_FAILED);
    assert_string_equal(slug_text(bad->slug), "rt.cuda_failed");
    assert_int_equal(s->ntimed, 2);
    assert_int_equal(s->nfailed, 1);
    assert_int_equal(trial_of(s, 32)->fate, FATE_TIMED);
    assert_int_equal(trial_of(s, 128)->fate, FATE_TIMED);
    assert_true(started() == 2); /* a new process, a new context */
    close_fake(&d);
}

/* Without a worker the searching process loses its own context: the ones before have their times, the ones after say
 * why they have none. */
static void here_it_costs_all_that_follow(void **state) {
    (void)state;
    if (!compiler()) skip();
    Desk d;
    Search *s = open_fake(&d, "copy corrupt=64");
    s->worker_path = "";
    d.cx.first = NULL;
    Err err = search_run(&d.cx, s);
    assert_true(s->nfailed >= 1 && s->nfailed + s->ntimed == 3);
    assert_true(err == OK || s->ntimed == 0);
    for (int64_t i = 0; i < s->ntrials; i++)
        if (s->trial[i].fate == FATE_FAILED) /* at a launch, or at loading what was compiled ahead */
            assert_true(slug_err(s->trial[i].slug) == ERR_LAUNCH || slug_err(s->trial[i].slug) == ERR_BUILD);
    close_fake(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {T(workers_open_the_device), T(a_lost_context_costs_its_candidate),
                                       T(here_it_costs_all_that_follow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
