/* A design of problems -> trials in a store: of each problem some plans by chance, checked and timed. What cost models
 * are fitted to and judged by.
 *
 *     rowfold-collect DESIGN.suite [--device D] [--store FILE] [--plans N] [--seed S] [--threads N]
 *                     [--each DIMENSION] [--build | --time] [--part I/K] [--slice I/K] [--seconds S]
 *
 * A line of a design is one of a suite; the first of its regimes= is measured, and the word behind its # is its split.
 * --build only compiles, into the cache, every K-th problem from the I-th on (--part), every K-th plan of each
 * (--slice): as many processes as there are cores do it together. --time (the default) goes on where an earlier run
 * stopped: problems of which the store has trials are passed over. --each takes, of every plan that is drawn, all that
 * differ from it in that dimension alone. Every plan is checked on a few rows of its own
 * problem, since rows are independent and the source text does not depend on how many there are; then all are timed in
 * rounds, every second one backwards, so that the halves of a trial's samples tell how far two measurements of the same
 * plan differ. */
#include "../../src/base/os.h"
#include "../../src/drive/evidence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_ROUNDS = 16, DEVICE_ROUNDS = 2, SAMPLES = 2, CHECKED_ELEMENTS = 1 << 14, MOST_PLANS = 400 };
static const int64_t host_sample_ns = 1500000, device_sample_ns = 2500000; /* hosts are noisy: many short ones */

typedef struct Asked {
    const char *design, *device, *store, *mode, *each;
    int plans, threads, part, parts, slice, slices;
    uint64_t seed;
    double seconds;
} Asked;

typedef struct Desk {
    Cx cx;
    Asked q;
    Rt *rt;
    Device *dev;
    Store *store;
    int timed, failed, each; /* each: a dimension; -1: none */
} Desk;

typedef struct Pick { /* one plan of a problem */
    Trial *t;
    Module *mod;
    Attempt made;
    double ns[HOST_ROUNDS * SAMPLES];
    int n;
} Pick;

static const char *first_of(const Cx *cx) {
    return cx->first ? arena_printf(cx->a, "%s: %s", slug_text(cx->first->slug), cx->first->msg) : "no message";
}

static int by_place(const void *x, const void *y) {
    const Trial *const *a = x, *const *b = y;
    return *a < *b ? -1 : *a > *b;
}

static bool differ_in(const Plan *a, const Plan *b, int dim) { /* in no other dimension or hold */
    for (int d = 0; d < DIM_COUNT; d++)
        if (d != dim && plan_dim_get(a, d) != plan_dim_get(b, d)) return false;
    for (int i = 0; i < a->nholds; i++)
        if (plan_hold(b, a->hold[i].name) != a->hold[i].hold) return false;
    return true;
}

/* The legal plans of the default space, some of them by chance; which ones, no policy has a say in. */
static Err choose(Cx *cx, Search *s, const Desk *k, uint64_t salt, Pick *pick, int *n) {
    Trial **list;
    int64_t nlist;
    Err err = cost_find(cx, "roofline", &s->policy);
    if (!err) err = search_judge(cx, s, &list, &nlist);
    Rng r = {k->q.seed * 1000003 + salt};
    if (!err) qsort(list, (size_t)nlist, sizeof *list, by_place);
    for (*n = 0; !err && *n < k->q.plans && nlist > 0; ++*n) {
        const int64_t i = (int64_t)(rng_u64(&r) % (uint64_t)nlist);
        Trial *drawn = list[i];
        pick[*n].t = drawn;
        list[i] = list[--nlist];
        for (int64_t j = nlist - 1; j >= 0 && k->each >= 0; j--)
            if (*n + 1 < k->q.plans && differ_in(&drawn->plan, &list[j]->plan, k->each))
                pick[++*n].t = list[j], list[j] = list[--nlist];
    }
    return err;
}

/* The same problem with fewer rows. */
static Err few_rows(Cx *cx, const Case *c, const Device *dev, Problem *pb) {
    Shape s = c->shape;
    int64_t n = 1, rows = 1;
    for (int i = 0; i < c->prog->naxes; i++)
        if (c->prog->axis[i].ext < 0) *(c->prog->row_axes >> i & 1 ? &rows : &n) *= s.n[i];
    for (int i = 0; i < c->prog->naxes; i++)
        if (c->prog->row_axes >> i & 1)
            while (rows > 4 && rows * n > CHECKED_ELEMENTS && s.n[i] > 1)
                rows = rows / s.n[i] * ((s.n[i] + 1) / 2), s.n[i] = (s.n[i] + 1) / 2;
    return problem_make(cx, c->prog, &s, dev_caps(dev), 0, pb);
}

/* Builds, and checks on the few rows; what fails has its fate in the store. */
static bool ready(Desk *k, Cx *cx, Search *s, Bed *check, Pick *p, bool build_only) {
    Cx own = {.a = cx->a};
    Unit u;
    Err err = attempt_emit(&own, s->pb, &p->t->plan, &u, p->made.unit_sha);
    if (!err) err = mod_build(&own, k->dev, &u, &p->mod);
    if (!err) p->made.facts = *mod_facts(p->mod);
    if (!err && !build_only) {
        const OracleOptions o = bed_bounds(check->pb, &p->t->plan);
        err = bed_check(&own, check, p->mod, &o, k->q.threads, &p->made.verdict);
    }
    if (!err) return true;
    search_failed(cx, p->t, FATE_FAILED, &own);
    k->failed++;
    if (!build_only) search_record(cx, s, p->t, STAGE_SHORT, &p->made);
    fprintf(stderr, "  %s\n", first_of(&own));
    return false;
}

static Err time_all(Desk *k, Cx *cx, Bed *bed, Pick *pick, int n) {
    const bool host = dev_caps(k->dev)->kind == KIND_HOST;
    const int rounds = host ? HOST_ROUNDS : DEVICE_ROUNDS;
    double best = 0;
    Err err = OK;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < n && !err; i++) {
            Pick *p = &pick[r % 2 ? n - 1 - i : i];
            Times t;
            if (!p->mod) continue;
            err = bed_time(cx, bed, p->mod, k->q.threads, SAMPLES, host ? host_sample_ns : device_sample_ns, best * 4,
                           &t);
            for (int j = 0; j < t.n && !err; j++) p->ns[p->n++] = t.ns[j];
            if (!err && (best == 0 || t.median < best)) best = t.median;
            p->made.times.calls = t.calls;
        }
    return err;
}

static void record(Desk *k, Cx *cx, Search *s, Pick *p) {
    Times *t = &p->made.times;
    t->n = p->n;
    memcpy(t->ns, p->ns, sizeof(double) * (size_t)p->n);
    double in_order[COUNT(p->ns)];
    memcpy(in_order, p->ns, sizeof in_order);
    times_sort(t);
    memcpy(t->ns, in_order, sizeof in_order); /* the rounds stay apart */
    p->t->fate = FATE_TIMED, p->t->times = *t;
    search_record(cx, s, p->t, STAGE_SHORT, &p->made);
    k->timed++;
}

static Err problem(Desk *k, Cx *cx, const Case *c, uint64_t salt, bool build_only, const char **said) {
    Problem pb, few;
    Pick *pick = NEWN(cx->a, Pick, MOST_PLANS);
    int n = 0;
    *said = "";
    Err err = problem_make(cx, c->prog, &c->shape, dev_caps(k->dev), 0, &pb);
    if (err) return err;
    Bed check = {0}, bed = {.cold = str_starts(c->regimes, "cold")};
    Search s = {
        .pb = &pb, .dev = k->dev, .effort = EFFORT_MEASURE, .seed = k->q.seed, .threads = k->q.threads, .bed = &bed};
    s.key = store_key(cx, &pb, dev_identity(k->dev), k->q.threads);
    if (bed.cold) store_key_cold(cx, &s.key);
    s.store = build_only ? NULL : k->store;
    if (s.store) {
        const char *json = "";
        const Filter f = {.problem = s.key.sha};
        err = store_trials(cx, s.store, &f, 1, &json);
        if (err || strchr(json, '{')) return err ? err : (*said = "known", OK);
    }
    err = choose(cx, &s, k, salt, pick, &n);
    if (!err && !build_only) err = few_rows(cx, c, k->dev, &few);
    if (!err && !build_only) err = bed_make(cx, k->dev, &few, k->q.seed, &check);
    if (!err && !build_only) err = bed_make(cx, k->dev, &pb, k->q.seed, &bed);
    for (int i = 0; i < n && !err; i++)
        if (!build_only || i % k->q.slices == k->q.slice) ready(k, cx, &s, &check, &pick[i], build_only);
    if (!err && !build_only) err = time_all(k, cx, &bed, pick, n);
    for (int i = 0; i < n; i++) {
        if (pick[i].mod && !err && !build_only) record(k, cx, &s, &pick[i]);
        if (pick[i].mod) mod_free(pick[i].mod);
    }
    bed_free(&check);
    bed_free(&bed);
    *said = arena_printf(cx->a, "%d plans", n);
    return err;
}

static bool read_args(int argc, char **argv, Asked *q) {
    *q = (Asked){
        .device = "host", .store = "trials.db", .mode = "time", .plans = 16, .seed = 1, .parts = 1, .slices = 1};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        if (*a != '-') {
            q->design = a;
            continue;
        }
        if (str_eq(a, "--build") || str_eq(a, "--time")) {
            q->mode = a + 2;
            continue;
        }
        int64_t x = 0;
        const bool number = str_i64(v, &x);
        if (str_eq(a, "--device"))
            q->device = v;
        else if (str_eq(a, "--each"))
            q->each = v;
        else if (str_eq(a, "--store"))
            q->store = v;
        else if (str_eq(a, "--part") && sscanf(v, "%d/%d", &q->part, &q->parts) == 2 && q->parts > 0)
            ;
        else if (str_eq(a, "--slice") && sscanf(v, "%d/%d", &q->slice, &q->slices) == 2 && q->slices > 0)
            ;
        else if (str_eq(a, "--plans") && number && x > 0 && x <= MOST_PLANS)
            q->plans = (int)x;
        else if (str_eq(a, "--threads") && number)
            q->threads = (int)x;
        else if (str_eq(a, "--seed") && number)
            q->seed = (uint64_t)x;
        else if (str_eq(a, "--seconds") && number)
            q->seconds = (double)x;
        else
            return false;
        i++;
    }
    return q->design != NULL;
}

static Err open_desk(Desk *k) {
    const RtOptions o = {.isa = ISA_COUNT, .threads = k->q.threads};
    Err err = rt_open(&k->cx, &o, &k->rt);
    if (!err) err = rt_find(&k->cx, k->rt, k->q.device, &k->dev);
    if (!err && !str_eq(k->q.mode, "build"))
        err = store_open(&k->cx, &(StoreOptions){.where = k->q.store, .mode = STORE_WRITE}, &k->store);
    return err;
}

int main(int argc, char **argv) {
    Desk k = {.cx = {.a = arena_new(NULL, NULL)}, .each = -1};
    bool good = read_args(argc, argv, &k.q);
    for (int d = 0; d < DIM_COUNT && good && k.q.each; d++)
        if (str_eq(dim_info(d)->name, k.q.each)) k.each = d;
    if (!good || (k.q.each && k.each < 0)) {
        fprintf(stderr,
                "usage: rowfold-collect DESIGN.suite [--device D] [--store FILE] [--plans N] [--seed S] "
                "[--threads N] [--each DIMENSION] [--build | --time] [--part I/K] [--slice I/K] [--seconds S]\n");
        return 2;
    }
    char *text;
    size_t bytes;
    Case *c = NULL;
    int n = 0;
    const char *slash = strrchr(k.q.design, '/');
    const char *folder = slash ? arena_str(k.cx.a, k.q.design, (size_t)(slash - k.q.design)) : "";
    Err err = OK;
    if (os_read_file(&alloc_libc, k.q.design, OS_ANY, 1 << 22, &text, &bytes))
        err = diag(&k.cx, S_SUITE_SOURCE, NOWHERE, NULL, "%s cannot be read", k.q.design);
    if (!err) err = suite_read(&k.cx, &alloc_libc, k.q.design, arena_str(k.cx.a, text, bytes), folder, &c, &n);
    if (!err) err = open_desk(&k);
    const int64_t from = t_now_ns();
    const bool build_only = str_eq(k.q.mode, "build");
    for (int i = k.q.part; i < n && !err; i += k.q.parts) {
        const double now = (double)(t_now_ns() - from) / 1e9;
        if (k.q.seconds > 0 && now > k.q.seconds) break;
        Cx own = {.a = arena_sub(k.cx.a)};
        const char *said;
        if (problem(&k, &own, &c[i], (uint64_t)i, build_only, &said))
            fprintf(stderr, "%s: %s\n", c[i].id, first_of(&own));
        else if (!str_eq(said, "known"))
            printf("%7.1f s  %d/%d %s %s: %s, %.2f s\n", now, i + 1, n, c[i].id, c[i].regimes, said,
                   (double)(t_now_ns() - from) / 1e9 - now);
        fflush(stdout);
        arena_free(own.a);
    }
    if (err) fprintf(stderr, "%s\n", first_of(&k.cx));
    printf("%d trials timed, %d failed\n", k.timed, k.failed);
    store_close(k.store);
    if (k.rt) rt_close(k.rt);
    return err ? 1 : 0;
}
