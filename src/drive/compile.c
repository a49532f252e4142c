/* The main path: program and shape in, kernel that runs out. One call a stage. */
#include "drive.h"

#include <string.h>

enum { FINAL_SAMPLES = 15, COPY_REPS = 15 };
static const int64_t final_sample_ns = 10000000;

/* Least traffic of one call: every input read once, every output written once. */
static double least_bytes(const Problem *pb) {
    double sum = 0;
    for (int i = 0; i < pb->prog->nparams; i++) {
        const Param *p = &pb->prog->param[i];
        if (p->dir == DIR_SCALAR || p->dir == DIR_CONST) continue;
        double n = ty_bytes(p->ty) * (p->dir == DIR_INOUT ? 2 : 1);
        for (int d = 0; d < p->rank; d++) {
            if (pb->shape.n[p->axis[d]] < 0) return 0;
            n *= (double)pb->shape.n[p->axis[d]];
        }
        sum += n;
    }
    return sum;
}

/* The winner's last word to the store, also where it fails: then it is nobody's wisdom. */
static void confirm(Cx *cx, Made *m, Err err) {
    Trial t = m->search.trial[m->search.best];
    Attempt a = {.facts = *mod_facts(m->mod), .verdict = m->verdict, .times = m->times};
    if (err) t.fate = FATE_FAILED, t.slug = cx->last->slug, t.why = cx->last->msg;
    sha256_hex(m->unit.text, strlen(m->unit.text), a.unit_sha);
    search_record(cx, &m->search, &t, STAGE_CONFIRMED, &a);
}

/* The speed of light for as many bytes, over as many buffers in turn. */
static Err copy_time(Cx *cx, const Request *q, Made *m) {
    const Ceiling c = {CEILING_COPY, (size_t)m->bytes / 2 * 2, m->bed.nsets, q->threads, COPY_REPS};
    return dev_ceiling(cx, q->dev, &c, &m->copy_ns, &m->copy_how);
}

/* One kernel for a range is right at both ends of it and where a last chunk is cut, or it is not right. What the
 * verdict says of single elements is of the first check that fails. */
static Err check_range(Cx *cx, const Request *q, Made *m, const OracleOptions *bounds) {
    int64_t n[MAX_EXTENTS];
    Err err = OK;
    for (int many = kern_extents(m->kern, n), i = 0; i < many - 1 && !err; i++) { /* the last was checked */
        Cx own = {.a = arena_sub(cx->a)};
        Problem at = m->pb;
        Bed bed = {0};
        Verdict v = {0};
        at.shape.n[shape_ranged(&m->pb.shape)] = n[i];
        err = bed_make(&own, q->dev, &at, q->seed, &bed);
        if (!err) err = bed_check(&own, &bed, m->mod, bounds, q->threads, &v);
        bed_free(&bed);
        if (err)
            diag(cx, own.first->slug, NOWHERE, NULL, "at %lld element%s: %s", (long long)n[i], plural(n[i]),
                 own.first->msg);
        v.checked += m->verdict.checked, v.bad += m->verdict.bad;
        v.worst = v.worst > m->verdict.worst ? v.worst : m->verdict.worst;
        m->verdict = v;
        arena_free(own.a);
    }
    return err;
}

/* The winner, built afresh, checked within its own bounds and timed again: the search's own minimum is never quoted. */
static Err measure(Cx *cx, const Request *q, Made *m) {
    OracleOptions bounds = bed_bounds(&m->pb, &m->kern->plan);
    Err err = m->bed.dev ? OK : bed_make(cx, q->dev, &m->pb, q->seed, &m->bed);
    if (!err) err = bed_check(cx, &m->bed, m->mod, &bounds, q->threads, &m->verdict);
    if (!err) err = check_range(cx, q, m, &bounds);
    if (!err) err = bed_time(cx, &m->bed, m->mod, q->threads, FINAL_SAMPLES, final_sample_ns, 0, &m->times);
    confirm(cx, m, err);
    if (!err) err = copy_time(cx, q, m);
    m->measured = !err;
    m->rotated = bed_rotated(&m->bed);
    return err;
}

/* A store that cannot be had is no reason not to search, unless what it holds was asked for. */
static Err open_store(Cx *cx, const Request *q, Made *m) {
    Search *s = &m->search;
    if (!q->store || !*q->store || q->effort == EFFORT_ESTIMATE) return OK;
    s->key = store_key(cx, &m->pb, q->identity, q->threads);
    if (q->cold) store_key_cold(cx, &s->key);
    StoreOptions o = {.al = q->al, .where = q->store, .mode = effort_runs(q->effort) ? STORE_WRITE : STORE_READ};
    Cx own = {.a = cx->a};
    Err err = store_open(&own, &o, &m->store);
    if (err && q->resume) return diag(cx, own.first->slug, NOWHERE, own.first->accept, "%s", own.first->msg);
    if (err)
        s->note = arena_printf(cx->a, "nothing is remembered: %s [%s]", own.first->msg, slug_text(own.first->slug));
    else if (m->store && *store_note(m->store))
        s->note = arena_printf(cx->a, "%s", store_note(m->store));
    s->store = m->store;
    return OK;
}

/* The search that effort measure would do within its budget, for an audit of what it leaves out. */
static Err search_staged(Cx *cx, Made *m) {
    m->staged = m->search;
    m->staged.effort = EFFORT_MEASURE, m->staged.strategy = NULL;
    m->search.max_candidates = 0; /* nor is the other one to be refused for it */
    return search_run(cx, &m->staged);
}

static Err use_calibration(Cx *cx, const Request *q, Made *m) {
    const CostPolicy *of;
    double *coef = NEWN(cx->a, double, MAX_COEFS);
    Err err = calibration_read(cx, q->calibration, strlen(q->calibration), q->identity, &of, coef, m->calibration);
    if (!err && of != m->search.policy)
        err = diag(cx, S_COST_CALIBRATION, NOWHERE, of->name, "the calibration is for another policy than %s",
                   m->search.policy->name);
    m->search.coef = coef;
    return err;
}

/* Who says how many threads there are leaves the search no choice of them; a number that is no value of the dimension
 * is the device's own. */
static const char *pin_threads(Cx *cx, const Request *q) {
    Item it;
    if (q->threads < 1 || q->caps->kind != KIND_HOST) return q->pin;
    for (const char *at = q->pin ? q->pin : ""; item_next(&at, &it);)
        if (dim_find(it.name, it.nname) == DIM_threads) return q->pin;
    return arena_printf(cx->a, "%s%sthreads=%d", q->pin ? q->pin : "", q->pin && *q->pin ? "," : "",
                        dim_is_legal(DIM_threads, q->threads) ? q->threads : 0);
}

/* Asked while something takes long. */
typedef struct Asking {
    const Request *q;
    Search *s;
    Arena *a;
    int64_t from_ns;
} Asking;

/* Whoever asks has threads or a compiler at work: running out of memory must not jump past them. */
static bool asked(void *user) {
    const Asking *a = user;
    const Progress p = {
        .elapsed_s = (double)(t_now_ns() - a->from_ns) / 1e9, .left_s = -1, .best_plan = "", .reasons = ""};
    if (!a->s->watch) return a->q->progress(a->q->user, &p);
    Trap trap, *was = arena_trap(a->a, &trap);
    volatile bool over = false;
    if (!setjmp(trap.at)) over = search_told(a->s);
    arena_trap(a->a, was);
    return over;
}

static void watch(Cx *cx, const Request *q, Made *m) {
    if (!q->progress) return;
    Asking *a = NEW(cx->a, Asking);
    *a = (Asking){q, &m->search, cx->a, t_now_ns()};
    cx->stop = NEW(cx->a, Stop);
    *cx->stop = (Stop){.asked = asked, .user = a, .next_ns = a->from_ns + 100000000};
}

Err drive_compile(Cx *cx, const Request *q, Made *m) {
    Err err = problem_make(cx, q->prog, &q->shape, q->caps, q->strided, &m->pb);
    if (err) return err;
    m->pb.noalias = !q->alias;
    m->pb.summed_budget = q->summed_budget;
    m->bytes = least_bytes(&m->pb);
    m->bed.cold = q->cold;
    Search *s = &m->search;
    *s = (Search){.pb = &m->pb,
                  .dev = q->dev,
                  .effort = q->effort,
                  .pin = pin_threads(cx, q),
                  .open = q->open,
                  .strategy = q->strategy,
                  .joint = q->joint,
                  .max_candidates = q->max_candidates,
                  .max_seconds = q->max_seconds,
                  .max_compile_seconds = q->max_compile_seconds,
                  .threads = q->threads,
                  .builders = q->builders,
                  .progress = q->progress,
                  .user = q->user,
                  .seed = q->seed,
                  .resume = q->resume,
                  .worker_path = q->worker,
                  .max_trial_seconds = q->max_trial_seconds,
                  .al = q->al,
                  .bed = &m->bed};
    err = cost_find(cx, q->policy ? q->policy : "roofline", &s->policy);
    if (!err && q->calibration) err = use_calibration(cx, q, m);
    if (!err && !q->dev && effort_runs(q->effort))
        err = diag(cx, S_DRIVE_PRESET, NOWHERE, "effort estimate, or a device of `rowfold devices`",
                   "%s is not here, so nothing can be timed on it", q->caps->name);
    if (!err) err = open_store(cx, q, m);
    int64_t rows = 1;
    if (!err && effort_runs(q->effort)) err = bed_rows(cx, &m->pb, &rows);
    if (!err && effort_runs(q->effort) && (!rows || m->bytes == 0))
        err = diag(cx, S_BENCH_NOTHING, NOWHERE, "extents of at least 1, or effort estimate",
                   "a call moves no byte, so there is no time to choose by");
    watch(cx, q, m);
    if (!err && q->audit) err = search_staged(cx, m); /* first: a cache would hand it what the other one compiled */
    if (!err) err = search_run(cx, s);
    if (!err && q->whole && s->stopped)
        err = diag(cx, S_SEARCH_STOPPED, NOWHERE, NULL, "stopped after %.1f s", s->seconds);
    if (!err && q->audit) err = prune_audit(cx, m);
    if (effort_runs(q->effort)) cx->stop = NULL; /* what was found is finished */
    if (!err) err = realize(cx, q, m);
    cx->stop = NULL;
    if (!err && effort_runs(q->effort)) err = measure(cx, q, m);
    store_close(m->store);
    m->store = s->store = NULL;
    return err;
}

void made_free(Made *m) {
    search_free(&m->search);
    search_free(&m->staged);
    store_close(m->store);
    m->store = NULL;
    if (m->mod) mod_free(m->mod);
    m->mod = NULL;
    bed_free(&m->bed);
}
