/* Program + options -> kernel, and what a kernel can tell about itself. */
#include "handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rowfold_compile_options_init(rowfold_compile_options *o) {
    if (o) *o = (rowfold_compile_options){.struct_size = sizeof *o, .seed = 1};
}

static Err read_strided(Cx *cx, const Prog *p, const char *text, uint32_t *out) {
    for (const char *at = text ? text : ""; *at;) {
        size_t n = strcspn(at, ",");
        char *name = arena_str(cx->a, at, n);
        at += n + (at[n] == ',');
        if (!n) continue;
        int i = str_eq(name, "*") ? MAX_PARAMS : prog_param(p, name);
        if (i < 0)
            return diag(cx, S_ARG, NOWHERE, "the parameters of the program, or *", "%s has no parameter '%.40s'",
                        p->name, name);
        *out |= i == MAX_PARAMS ? UINT32_MAX : 1u << i;
    }
    return OK;
}

typedef struct Teller {
    const rowfold_compile_options *o;
} Teller;

static bool tell(void *user, const Progress *p) {
    const rowfold_compile_options *o = ((Teller *)user)->o;
    rowfold_progress r = {p->tried,     p->total,     p->refused, p->failed, p->best_ns / 1e9,
                          p->elapsed_s, p->best_plan, p->left_s,  p->reasons};
    return o->progress(o->progress_user, &r) != 0;
}

/* Declarations for the stand-alone source: the entry and its slots. */
static const char *header_text(Cx *cx, const Prog *p, const Shape *s, const Unit *u) {
    Buf b = buf_new(cx->a);
    buf_fmt(&b, "/* %s: rows row_begin to row_end - 1. slots, 8 bytes each:\n", u->entry);
    for (int i = 0; i < p->nparams; i++)
        if (u->abi.ptr[i] >= 0)
            buf_fmt(&b, " *   %d: pointer to %s, %s\n", u->abi.ptr[i], p->param[i].name, ty_text(p->param[i].ty));
    for (int i = 0; i < p->naxes; i++)
        if (u->abi.row[i] >= 0) buf_fmt(&b, " *   %d: extent of row axis %s\n", u->abi.row[i], p->axis[i].name);
    for (int i = 0; i < p->nparams; i++)
        for (int d = 0; u->abi.ptr[i] >= 0 && d < p->param[i].rank; d++)
            buf_fmt(&b, " *   %d: stride of %s along %s, elements\n", u->abi.stride[i][d], p->param[i].name,
                    p->axis[p->param[i].axis[d]].name);
    for (int i = 0; i < p->nparams; i++)
        if (u->abi.scalar[i] >= 0)
            buf_fmt(&b, " *   %d: %s, %s\n", u->abi.scalar[i], p->param[i].name,
                    ty_is_float(p->param[i].ty) ? "double" : "64-bit integer");
    const int ranged = shape_ranged(s);
    if (ranged >= 0)
        buf_fmt(&b, " *   %d: extent of axis %s, %lld to %lld\n", u->extent, p->axis[ranged].name,
                (long long)s->least[ranged], (long long)s->n[ranged]);
    buf_fmt(&b, " */\ntypedef union {\n    void *p;\n    long long i;\n    double d;\n} rowfold_slot;\n");
    buf_fmt(&b,
            "#ifdef __cplusplus\nextern \"C\"\n#endif\nvoid %s(const rowfold_slot *slots, long long row_begin, long "
            "long row_end);\n",
            u->entry);
    return b.s;
}

static void texts(Cx *cx, rowfold_kernel *k) {
    const Made *m = &k->made;
    Buf plan = buf_new(cx->a), kern = buf_new(cx->a), demand = buf_new(cx->a);
    plan_print(&m->kern->plan, &plan);
    kern_print(m->kern, &kern);
    demand_json(&m->demand, &demand);
    k->text[ROWFOLD_PLAN] = plan.s;
    k->text[ROWFOLD_SOURCE] = m->unit.text ? m->unit.text : "";
    k->text[ROWFOLD_KERN] = kern.s;
    k->text[ROWFOLD_DEMAND] = demand.s;
    k->text[ROWFOLD_PRUNING] = m->pruning ? m->pruning : "";
    k->text[ROWFOLD_VERDICT] = m->measured ? verdict_json(cx, k->prog, &m->verdict) : "";
    k->text[ROWFOLD_HEADER] = m->unit.text ? header_text(cx, k->prog, &m->pb.shape, &m->unit) : "";
}

static Err compile(Call *c, rowfold_kernel *k, const rowfold_program *p, const rowfold_compile_options *o) {
    Cx *cx = &c->cx;
    Prog *prog;
    const char *why = program_copy(cx, p->prog, &prog);
    if (why) return diag(cx, S_INTERNAL, NOWHERE, NULL, "a program does not read back: %s", why);
    k->prog = prog;
    Teller *teller = NEW(cx->a, Teller);
    teller->o = o;
    Request q = {.prog = prog,
                 .dev = k->device->dev,
                 .caps = &k->device->caps,
                 .identity = k->device->identity,
                 .effort = (Effort)o->effort,
                 .max_candidates = o->max_candidates,
                 .max_seconds = o->max_seconds,
                 .max_compile_seconds = o->max_compile_seconds,
                 .builders = o->builders,
                 .cold = o->regime == ROWFOLD_COLD,
                 .threads = o->threads,
                 .seed = o->seed,
                 .alias = o->assume_alias != 0,
                 .summed_budget = o->summed_budget != 0,
                 .resume = o->resume != 0,
                 .worker = o->worker ? arena_printf(cx->a, "%s", o->worker) : NULL,
                 .max_trial_seconds = o->max_trial_seconds,
                 .al = &k->ctx->al};
    if ((unsigned)o->effort > ROWFOLD_RECALL)
        return diag(cx, S_ARG, NOWHERE, "0 estimate, 1 measure, 2 exhaustive, 3 recall", "effort is %d",
                    (int)o->effort);
    if (o->max_candidates < 0 || o->max_seconds < 0 || o->max_trial_seconds < 0 || o->max_compile_seconds < 0 ||
        o->threads < 0 || o->builders < 0)
        return diag(cx, S_ARG, NOWHERE, "0 or more", "a budget or a count of threads is negative");
    if ((unsigned)o->regime > ROWFOLD_COLD)
        return diag(cx, S_ARG, NOWHERE, "0 resident, 1 cold", "regime is %d", (int)o->regime);
    if (o->resume && (!o->store || !*o->store))
        return diag(cx, S_ARG, NOWHERE, "a store", "there is nothing to resume from");
    if (o->audit_pruning && (o->effort != ROWFOLD_EXHAUSTIVE || o->strategy || o->joint))
        return diag(cx, S_ARG, NOWHERE, "effort exhaustive, no strategy",
                    "an audit of the staging compares with all plans");
    q.audit = o->audit_pruning != 0;
    if (o->progress) q.progress = tell, q.user = teller;
    const char **kept[] = {&q.pin, &q.open, &q.policy, &q.store, &q.strategy, &q.joint, &q.calibration};
    const char *given[] = {o->pin, o->search, o->policy, o->store, o->strategy, o->joint, o->calibration};
    for (int i = 0; i < COUNT(kept); i++)
        if (given[i] && *given[i]) *kept[i] = arena_printf(cx->a, "%s", given[i]);
    if (q.audit) q.store = NULL; /* what is remembered would be the staged search's incumbent */
    Err err = bind_shape(cx, prog, o->shape, &q.shape);
    if (!err) err = read_strided(cx, prog, o->strided, &q.strided);
    if (!err) err = drive_compile(cx, &q, &k->made);
    k->late->asked = arena_dup(cx->a, &q, sizeof q);
    bed_free(&k->made.bed); /* the memory candidates were timed on */
    if (!err) texts(cx, k);
    if (k->made.search.note && k->ctx->o.log) k->ctx->o.log(k->ctx->o.log_user, 1, k->made.search.note);
    return err;
}

rowfold_status rowfold_compile(rowfold_context *ctx, const rowfold_program *p, const rowfold_compile_options *o,
                               rowfold_kernel **out) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    rowfold_compile_options opt;
    rowfold_compile_options_init(&opt);
    if (!p || !out || (o && (o->struct_size < sizeof(size_t) || o->struct_size > sizeof *o)))
        return call_wrong(
            ctx, S_ARG,
            "rowfold_compile needs a program, options from rowfold_compile_options_init and a place for its result");
    if (o) memcpy(&opt, o, o->struct_size);
    rowfold_device *dev = opt.device;
    if (!dev) {
        rowfold_status s = rowfold_device_find(ctx, "best", &dev);
        if (s != ROWFOLD_OK) return s;
    }
    if (dev->ctx != ctx) return call_wrong(ctx, S_ARG, "the device is of another context");
    Arena *a = arena_new(&ctx->al, NULL);
    rowfold_kernel *k = ctx->al.get(ctx->al.user, sizeof *k);
    if (!a || !k) {
        arena_free(a);
        if (k) ctx->al.put(ctx->al.user, k);
        return call_memory(ctx);
    }
    memset(k, 0, sizeof *k); /* outlives a jump out of memory: what it owns is freed whatever happened */
    k->ctx = ctx, k->a = a, k->device = dev, k->threads = opt.threads;
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        rowfold_kernel_free(k);
        return call_memory(ctx);
    }
    k->late = NEW(a, Late);
    pthread_mutex_init(&k->late->lock, NULL); /* which needs no memory */
    rowfold_status s = call_end(&c, compile(&c, k, p, &opt));
    arena_trap(a, NULL);
    if (s == ROWFOLD_OK)
        *out = k;
    else
        rowfold_kernel_free(k);
    return s;
}

void rowfold_kernel_free(rowfold_kernel *k) {
    if (!k) return;
    rowfold_context *ctx = k->ctx;
    made_free(&k->made);
    if (k->late) {
        for (int i = 0; i < LATE_TEXTS; i++) arena_free(k->late->of[i].a);
        pthread_mutex_destroy(&k->late->lock);
    }
    arena_free(k->a);
    ctx->al.put(ctx->al.user, k);
}

/* NULL: no memory */
static const char *late_text(const rowfold_kernel *k, int which) {
    Late *late = k->late;
    pthread_mutex_lock(&late->lock);
    if (!late->of[which].text) {
        Call c;
        Arena *a = late->of[which].a = arena_new(&k->ctx->al, NULL);
        if (a) call_begin(&c, k->ctx, a);
        if (!a || setjmp(c.trap.at)) {
            arena_free(late->of[which].a);
            late->of[which].a = NULL;
            call_memory(k->ctx);
        } else {
            late->of[which].text =
                which == LATE_RECEIPT ? receipt_make(&c.cx, late->asked, &k->made) : trials_json(&c.cx, &k->made);
            arena_trap(a, NULL);
        }
    }
    const char *text = late->of[which].text;
    pthread_mutex_unlock(&late->lock);
    return text;
}

const char *rowfold_kernel_text(const rowfold_kernel *k, rowfold_query q) {
    if (!k || (unsigned)q >= sizeof k->text / sizeof *k->text) return NULL;
    if (q == ROWFOLD_CANDIDATES) return late_text(k, LATE_CANDIDATES);
    if (q == ROWFOLD_RECEIPT) return late_text(k, LATE_RECEIPT);
    return k->text[q] ? k->text[q] : "";
}

rowfold_status rowfold_kernel_stats(const rowfold_kernel *k, rowfold_stats *out) {
    if (!k) return ROWFOLD_ARGUMENT;
    if (!out || out->struct_size < sizeof(size_t) || out->struct_size > sizeof *out)
        return call_wrong(k->ctx, S_ARG, "rowfold_kernel_stats needs a struct that knows its size");
    const Made *m = &k->made;
    const Facts *f = m->mod ? mod_facts(m->mod) : NULL;
    rowfold_stats s = {.struct_size = out->struct_size,
                       .candidates = m->search.ntrials,
                       .refused = m->search.nrefused,
                       .failed = m->search.nfailed,
                       .timed = m->search.ntimed,
                       .time_s = m->times.median / 1e9,
                       .time_min_s = m->times.min / 1e9,
                       .time_max_s = m->times.max / 1e9,
                       .bytes = m->bytes,
                       .copy_s = m->copy_ns / 1e9,
                       .compile_s = f ? (double)f->compile_ns / 1e9 : 0,
                       .search_s = m->search.seconds,
                       .worst_error = m->verdict.worst,
                       .resumed = m->search.nresumed,
                       .recorded = m->search.nrecorded,
                       .candidates_compile_s = (double)m->search.compile_ns / 1e9,
                       .finalists = m->search.final.finalists,
                       .rounds = m->search.final.rounds,
                       .tie = m->search.final.tie,
                       .incumbent_remembered = m->search.final.remembered,
                       .gain = m->search.final.gain,
                       .detectable = m->search.final.detectable,
                       .clock_mhz_before = m->search.final.before.mhz,
                       .clock_mhz_after = m->search.final.after.mhz,
                       .throttled = finals_throttled(&m->search.final),
                       .rotated_bytes = m->rotated,
                       .replays = m->search.final.replays,
                       .vetoed = m->search.final.vetoed,
                       .replayed_gain = m->search.final.replayed_gain,
                       .replayed_least = m->search.final.replayed_least};
    memcpy(out, &s, out->struct_size);
    return ROWFOLD_OK;
}
