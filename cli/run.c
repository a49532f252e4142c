/* rowfold run: arrays in, one checked call, arrays out. A device that is not the host gets copies of the arrays in
 * memory of its own, and what it made of them is copied back. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMES = 101 };
static const double timing_s = 0.25;

typedef struct Result {
    double median_s, min_s;
    int calls;
    char *verdict; /* JSON, of the library */
    bool wrong;
} Result;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* ---- the arrays as the device sees them ---- */
typedef struct Placed {
    rowfold_arg *arg;
    rowfold_memory **memory; /* of each tensor; NULL: it lies where the arrays lie */
} Placed;

/* On the host; on a preset nothing runs, which is for the launch to say. */
static bool reaches_arrays(const Cli *c) {
    return strstr(rowfold_device_caps(c->device), "kind=host") ||
           strncmp(rowfold_device_name(c->device), "preset:", 7) == 0;
}

static void lift(const Arrays *as, Placed *p) {
    for (int i = 0; i < as->n && p->memory; i++) rowfold_memory_free(p->memory[i]);
}

/* Outputs too: what a kernel leaves out is to stay the poison that the check finds. */
static Rc place(Cli *c, const Arrays *as, Placed *p) {
    p->arg = as->arg;
    if (reaches_arrays(c)) return RC_OK;
    const size_t n = (size_t)(as->n + 1);
    p->memory = memset(cli_get(c, sizeof(rowfold_memory *) * n), 0, sizeof(rowfold_memory *) * n);
    p->arg = memcpy(cli_get(c, sizeof *p->arg * n), as->arg, sizeof *p->arg * (size_t)as->n);
    for (int i = 0; i < as->n; i++) {
        if (!as->a[i].data) continue;
        rowfold_status s = rowfold_memory_new(c->ctx, c->device, as->a[i].bytes, &p->memory[i]);
        if (!s) s = rowfold_memory_write(p->memory[i], 0, as->a[i].data, as->a[i].bytes);
        if (s) return fail_library(c, s);
        p->arg[i].data = rowfold_memory_data(p->memory[i]);
    }
    return RC_OK;
}

/* Until the call is done: devices queue it, and give a byte of its memory when it has ended. */
static rowfold_status wait_for(const Arrays *as, const Placed *p) {
    char byte;
    for (int i = 0; i < as->n && p->memory; i++)
        if (array_written(&as->a[i]) && as->a[i].bytes) return rowfold_memory_read(p->memory[i], 0, &byte, 1);
    return ROWFOLD_OK;
}

static rowfold_status fetch(const Arrays *as, const Placed *p) {
    rowfold_status s = ROWFOLD_OK;
    for (int i = 0; i < as->n && p->memory && !s; i++)
        if (array_written(&as->a[i])) s = rowfold_memory_read(p->memory[i], 0, as->a[i].data, as->a[i].bytes);
    return s;
}

/* ---- running ---- */
/* The first call is the one whose outputs are checked and written. Where nothing is overwritten, further calls give the
 * time; else the first is all there is. */
static Rc run_placed(Cli *c, const Arrays *as, const Placed *p, Result *r) {
    double took[TIMES], start = seconds();
    rowfold_status s = rowfold_launch(c->kernel, p->arg, as->n); /* says what is wrong, as a bound call does not */
    if (!s) s = wait_for(as, p);
    took[0] = seconds() - start;
    if (!s) s = fetch(as, p);
    rowfold_bound *bound = NULL;
    if (!s) s = rowfold_bind(c->kernel, p->arg, as->n, &bound);
    if (s) return fail_library(c, s);
    bool again = true;
    rowfold_arg *in = cli_get(c, sizeof *in * (size_t)(as->n + 1));
    for (int i = 0; i < as->n; i++) {
        in[i] = as->arg[i];
        if (!as->a[i].kept) continue;
        in[i].data = as->a[i].kept;
        again = false;
    }
    for (int i = 0; i < as->n; i++)
        if (array_written(&as->a[i]) && as->a[i].bytes >> 24) /* a second or more */
            note(c, "%s: %zu bytes are being compared with the definition", as->a[i].param.name, as->a[i].bytes);
    s = rowfold_check(c->ctx, c->kernel, in, as->arg, as->n, &r->verdict);
    r->wrong = s == ROWFOLD_WRONG;
    int first = 0, n = 1;
    for (start = seconds(); again && (s == ROWFOLD_OK || r->wrong) && n < TIMES && seconds() - start < timing_s; n++) {
        const double t = seconds();
        if (rowfold_run(bound) != ROWFOLD_OK || wait_for(as, p) != ROWFOLD_OK) break;
        took[n] = seconds() - t;
        first = 1; /* the first call met cold memory and sleeping threads */
    }
    rowfold_bound_free(bound);
    if (s && !r->wrong) return fail_library(c, s);
    qsort(took + first, (size_t)(n - first), sizeof *took, by_value);
    r->min_s = took[first];
    r->median_s = took[first + (n - first) / 2];
    r->calls = n - first;
    return RC_OK;
}

static Rc run_and_check(Cli *c, const Arrays *as, Result *r) {
    Placed p = {0};
    Rc rc = place(c, as, &p);
    if (!rc) rc = run_placed(c, as, &p, r);
    lift(as, &p);
    return rc;
}

static double bytes_of(const Arrays *as) {
    double sum = 0;
    for (int i = 0; i < as->n; i++) sum += (double)as->a[i].bytes * (as->a[i].kept ? 2 : 1);
    return sum;
}

static void print(Cli *c, const Arrays *as, const Result *r) {
    const double bytes = bytes_of(as);
    printf("%s  %s  %s  on %s\n", rowfold_program_name(c->program), as->ran, cli_types(c),
           rowfold_device_name(c->device));
    printf("verdict  %s\n", verdict_text(c, r->verdict));
    printf("time     %s (median of %d, min %s)", seconds_text(c, r->median_s), r->calls, seconds_text(c, r->min_s));
    if (r->median_s > 0 && bytes > 0) printf(", %s", amount_text(c, bytes / r->median_s, "B/s"));
    printf("\nplan     %s\n", rowfold_kernel_text(c->kernel, ROWFOLD_PLAN));
    for (int i = 0; i < as->n; i++) {
        const char *path = array_path(c, as, i);
        if (path) printf("wrote    %s to %s\n", as->a[i].param.name, path);
    }
}

static Rc print_json(Cli *c, const Arrays *as, const Result *r) {
    Text t = {0};
    json_head(c, &t, as->shape);
    if (strcmp(as->ran, as->shape) != 0) json_str(&t, "ran", as->ran);
    json_str(&t, "plan", rowfold_kernel_text(c->kernel, ROWFOLD_PLAN));
    json_bool(&t, "ok", !r->wrong);
    json_raw(&t, "verdict", r->verdict);
    json_num(&t, "time_s", r->median_s);
    json_num(&t, "time_min_s", r->min_s);
    json_int(&t, "calls", r->calls);
    json_num(&t, "bytes", bytes_of(as));
    json_open(&t, "outputs", '{');
    for (int i = 0; i < as->n; i++) {
        const char *path = array_path(c, as, i);
        if (path) json_str(&t, as->a[i].param.name, path);
    }
    json_close(&t, '}');
    json_close(&t, '}');
    return json_print(c, &t);
}

Rc command_run(Cli *c) {
    Arrays as = {0};
    Result r = {0};
    Rc rc = cli_program(c);
    if (!rc) rc = arrays_read(c, &as);
    if (!rc) rc = cli_compile(c, c->o.effort < 0 ? ROWFOLD_ESTIMATE : c->o.effort, as.shape, as.strided);
    if (!rc) rc = run_and_check(c, &as, &r);
    if (!rc) rc = arrays_write(c, &as);
    if (!rc && c->o.json)
        rc = print_json(c, &as, &r);
    else if (!rc)
        print(c, &as, &r);
    if (!rc && r.wrong) rc = RC_WRONG;
    if (c->ctx) rowfold_free(c->ctx, r.verdict);
    arrays_free(&as);
    return rc;
}
