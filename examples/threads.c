/* A host program with threads of its own: rowfold borrows them through parallel_for instead of starting a pool, and two
 * contexts work in two threads at once, since contexts share nothing. */
#include <pthread.h>
#include <rowfold.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char text[] = "kernel total for rows (x: in f32[rows, n], s: out f32[rows]) { s = sum(x) }\n";
enum { WORKERS = 3, ROWS = 512, N = 300 };

/* ---- the host program's threads: a parallel loop, started and joined at each call to keep the example short ---- */
typedef struct Loop {
    atomic_int next;
    int n;
    void (*task)(void *arg, int i);
    void *arg;
} Loop;

static void *work(void *p) {
    Loop *l = p;
    for (int i; (i = atomic_fetch_add(&l->next, 1)) < l->n;) l->task(l->arg, i);
    return NULL;
}

/* Returns when all are done; the calling thread works too, so that it cannot wait for threads that never came. */
static void parallel_for(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    Loop l = {.n = n, .task = task, .arg = arg};
    pthread_t thread[WORKERS];
    int started = 0;
    atomic_fetch_add((atomic_int *)user, 1);
    while (started < WORKERS && pthread_create(&thread[started], NULL, work, &l) == 0) started++;
    work(&l);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* ---- one context a thread ---- */
typedef struct Job {
    int number, good;
    atomic_int loops; /* how often rowfold used our threads */
    float x[ROWS][N], s[ROWS];
} Job;

static int run(Job *job, rowfold_context *ctx) {
    rowfold_source *source = NULL;
    rowfold_program *program = NULL;
    rowfold_kernel *kernel = NULL;
    rowfold_bound *bound = NULL;
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    o.shape = "n=300";
    o.threads = WORKERS + 1;
    rowfold_status s = rowfold_device_find(ctx, "host", &o.device); /* parallel_for is for kernels of the host */
    if (s == ROWFOLD_OK) s = rowfold_source_parse(ctx, "total.row", text, strlen(text), &source);
    if (s == ROWFOLD_OK) s = rowfold_program_new(ctx, source, NULL, NULL, NULL, &program);
    if (s == ROWFOLD_OK) s = rowfold_compile(ctx, program, &o, &kernel);
    /* Checked once, run often: a bound launch does nothing but the work. */
    const rowfold_arg args[] = {{.data = job->x, .extent = {ROWS, N}}, {.data = job->s, .extent = {ROWS}}};
    if (s == ROWFOLD_OK) s = rowfold_bind(kernel, args, 2, &bound);
    for (int i = 0; i < 10 && s == ROWFOLD_OK; i++) s = rowfold_run(bound);
    if (s != ROWFOLD_OK) fprintf(stderr, "%s: %s", rowfold_status_name(s), rowfold_last_error(ctx)->text);
    rowfold_bound_free(bound);
    rowfold_kernel_free(kernel);
    rowfold_program_free(program);
    rowfold_source_free(source);
    return s == ROWFOLD_OK;
}

static void *job_main(void *p) {
    Job *job = p;
    rowfold_context *ctx = NULL;
    rowfold_options o;
    rowfold_options_init(&o);
    o.threads = WORKERS + 1;
    o.parallel_for = parallel_for;
    o.parallel_user = &job->loops;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++) job->x[i][j] = (float)(job->number + i % 4);
    if (rowfold_context_new(&o, &ctx) != ROWFOLD_OK) return NULL;
    job->good = run(job, ctx);
    rowfold_context_free(ctx);
    for (int i = 0; i < ROWS; i++) /* sums of small whole numbers are exact */
        if (job->s[i] != (float)(N * (job->number + i % 4))) job->good = 0;
    return NULL;
}

int main(void) {
    static Job job[2] = {{.number = 1}, {.number = 5}};
    pthread_t thread;
    if (pthread_create(&thread, NULL, job_main, &job[0]) != 0) return 1;
    job_main(&job[1]);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        printf("context %d: %s, its launches used our threads %d times\n", i, job[i].good ? "right" : "WRONG",
               atomic_load(&job[i].loops));
    return !(job[0].good && job[1].good && atomic_load(&job[0].loops) > 0 && atomic_load(&job[1].loops) > 0);
}
