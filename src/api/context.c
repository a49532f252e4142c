/* Context, errors, devices, slugs: what everything else hangs from. */
#include "handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rowfold_version(void) {
    return ROWFOLD_VERSION;
}
const char *rowfold_version_string(void) {
    return ROWFOLD_VERSION_TEXT;
}

const char *rowfold_status_name(rowfold_status s) {
    static const char *const names[] = {"ok",    "memory", "argument", "language", "refused", "unavailable",
                                        "build", "launch", "wrong",    "io",       "stopped", "internal"};
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "unknown";
}

void rowfold_options_init(rowfold_options *o) {
    if (o) *o = (rowfold_options){.struct_size = sizeof *o};
}

/* ---- errors ---- */

static const rowfold_error no_error = {ROWFOLD_OK, "", "", "", "", "", 0, 0, "", "[]"};
static const rowfold_error memory_error = {ROWFOLD_MEMORY,
                                           "memory.exhausted",
                                           "an allocation failed",
                                           "",
                                           "Free memory or make the problem smaller.",
                                           "",
                                           0,
                                           0,
                                           "an allocation failed [memory.exhausted]\n",
                                           "[{\"slug\":\"memory.exhausted\",\"message\":\"an allocation failed\"}]"};

rowfold_status call_memory(rowfold_context *c) {
    pthread_mutex_lock(&c->lock);
    c->error = memory_error;
    pthread_mutex_unlock(&c->lock);
    return ROWFOLD_MEMORY;
}

void call_begin(Call *c, rowfold_context *ctx, Arena *a) {
    c->ctx = ctx;
    c->cx = (Cx){.a = a};
    c->src = NULL;
    arena_trap(a, &c->trap);
}

static rowfold_error render(const Call *c, Arena *a) {
    Buf text = buf_new(a), json = buf_new(a);
    diag_print(&c->cx, c->src, &text);
    diag_json(&c->cx, &json);
    const Diag *d = c->cx.first;
    for (const Diag *e = d; e; e = e->next) /* the one that gave the status */
        if (slug_err(e->slug) == c->err) {
            d = e;
            break;
        }
    rowfold_error r = no_error;
    r.status = (rowfold_status)c->err;
    if (!d) return r;
    r.slug = slug_text(d->slug);
    r.message = arena_printf(a, "%s", d->msg);
    r.accepted = d->accept ? arena_printf(a, "%s", d->accept) : "";
    r.hint = slug_hint(d->slug);
    r.file = d->at.line && d->at.file ? arena_printf(a, "%s", d->at.file) : "";
    r.line = d->at.line, r.column = d->at.col;
    r.text = text.s, r.json = json.s;
    return r;
}

/* Renders the diagnostics into an arena of the context, so that they outlive the call's own. */
static void keep_error(Call *c) {
    rowfold_context *ctx = c->ctx;
    Trap trap;
    arena_free(ctx->errs);
    ctx->errs = arena_new(&ctx->al, &trap);
    ctx->error = memory_error;
    if (!ctx->errs || setjmp(trap.at)) return;
    ctx->error = render(c, ctx->errs);
}

rowfold_status call_end(Call *c, Err err) {
    rowfold_context *ctx = c->ctx;
    c->err = err;
    if (err == OK) {
        context_log_notes(ctx);
        return ROWFOLD_OK;
    }
    pthread_mutex_lock(&ctx->lock);
    keep_error(c);
    rowfold_status status = ctx->error.status;
    pthread_mutex_unlock(&ctx->lock);
    if (ctx->o.log) ctx->o.log(ctx->o.log_user, 0, ctx->error.message);
    return status;
}

rowfold_status call_wrong(rowfold_context *ctx, Slug slug, const char *fmt, ...) {
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    text_print(msg, sizeof msg, fmt, ap);
    va_end(ap);
    Arena *a = arena_new(&ctx->al, NULL);
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    if (setjmp(c.trap.at)) {
        arena_free(a);
        return call_memory(ctx);
    }
    rowfold_status s = call_end(&c, diag(&c.cx, slug, NOWHERE, NULL, "%s", msg));
    arena_free(a);
    return s;
}

const rowfold_error *rowfold_last_error(rowfold_context *ctx) {
    return ctx ? &ctx->error : &no_error;
}

const char *rowfold_slug(int i) {
    return i >= 0 && i < SLUG_COUNT ? slug_text((Slug)i) : NULL;
}

const char *rowfold_explain(const char *slug) {
    static const char *const texts[SLUG_COUNT] = {
#define SLUG(id, text, err, why, hint) why " " hint,
#include "../base/slugs.def"
#undef SLUG
    };
    Slug s;
    return slug && slug_find(slug, &s) ? texts[s] : NULL;
}

/* ---- context ---- */

void context_log_notes(rowfold_context *c) {
    for (const char *n; c->o.log && (n = rt_note(c->rt, c->notes)) != NULL; c->notes++) c->o.log(c->o.log_user, 2, n);
}

static rowfold_device *add_device(rowfold_context *c, Device *dev, const Caps *caps, const char *name,
                                  const char *identity) {
    if (c->ndevices == (int)(sizeof c->device / sizeof *c->device)) return NULL;
    rowfold_device *d = NEW(c->perm, rowfold_device);
    Buf b = buf_new(c->perm);
    caps_print(caps, &b);
    d->ctx = c, d->dev = dev, d->caps = *caps, d->identity = identity, d->caps_text = b.s;
    snprintf(d->name, sizeof d->name, "%s", name);
    return c->device[c->ndevices++] = d;
}

void rowfold_context_free(rowfold_context *c) {
    if (!c) return;
    if (c->rt) rt_close(c->rt);
    arena_free(c->errs);
    arena_free(c->perm);
    pthread_mutex_destroy(&c->lock);
    Alloc al = c->al;
    al.put(al.user, c);
}

static Err open_runtimes(rowfold_context *c, Cx *cx) {
    Isa isa = ISA_COUNT;
    if (c->o.isa && !isa_find(c->o.isa, &isa))
        return diag(cx, S_ARG, NOWHERE, "avx512 avx2 neon portable", "isa is '%s'", c->o.isa);
    if (c->o.threads < 0) return diag(cx, S_ARG, NOWHERE, "0 or more", "threads is %d", c->o.threads);
    RtOptions o = {.al = &c->al,
                   .cache_dir = c->o.cache_dir,
                   .cc = c->o.compiler,
                   .threads = c->o.threads,
                   .isa = isa,
                   .parallel_for = c->o.parallel_for,
                   .parallel_user = c->o.parallel_user};
    Err err = rt_open(cx, &o, &c->rt);
    for (int i = 0; !err && i < rt_devices(c->rt); i++) {
        Device *d = rt_device(c->rt, i);
        add_device(c, d, dev_caps(d), dev_name(d), dev_identity(d));
    }
    return err;
}

rowfold_status rowfold_context_new(const rowfold_options *o, rowfold_context **out) {
    if (!out || (o && (o->struct_size < sizeof(size_t) || o->struct_size > sizeof *o))) return ROWFOLD_ARGUMENT;
    rowfold_options opt;
    rowfold_options_init(&opt);
    if (o) memcpy(&opt, o, o->struct_size);
    Alloc al = alloc_libc;
    if (opt.allocate) {
        if (!opt.release) return ROWFOLD_ARGUMENT;
        al = (Alloc){opt.allocate, opt.release, opt.memory_user};
    }
    rowfold_context *c = al.get(al.user, sizeof *c);
    if (!c) return ROWFOLD_MEMORY;
    *c = (rowfold_context){.al = al, .o = opt, .error = no_error};
    pthread_mutex_init(&c->lock, NULL);
    c->perm = arena_new(&al, NULL);
    if (!c->perm) {
        rowfold_context_free(c);
        return ROWFOLD_MEMORY;
    }
    Call call;
    call_begin(&call, c, c->perm);
    if (setjmp(call.trap.at)) {
        rowfold_context_free(c);
        return ROWFOLD_MEMORY;
    }
    const char **kept[] = {&c->o.cache_dir, &c->o.compiler, &c->o.isa}; /* strings given to rowfold are copied */
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (*kept[i]) *kept[i] = arena_printf(c->perm, "%s", *kept[i]);
    Err err = open_runtimes(c, &call.cx);
    if (err) {
        rowfold_context_free(c);
        return (rowfold_status)err;
    }
    arena_trap(c->perm, NULL);
    context_log_notes(c);
    *out = c;
    return ROWFOLD_OK;
}

/* ---- devices ---- */

int rowfold_device_count(rowfold_context *ctx) {
    return ctx ? rt_devices(ctx->rt) : 0;
}

rowfold_device *rowfold_device_at(rowfold_context *ctx, int i) {
    return ctx && i >= 0 && i < rt_devices(ctx->rt) ? ctx->device[i] : NULL;
}

const char *rowfold_preset(int i) {
    const char *const *names;
    int n = caps_presets(&names);
    return i >= 0 && i < n ? names[i] : NULL;
}

static Err find_device(rowfold_context *c, Cx *cx, const char *name, rowfold_device **out) {
    for (int i = 0; i < c->ndevices; i++)
        if (str_eq(c->device[i]->name, name)) return *out = c->device[i], OK;
    if (str_starts(name, "preset:")) {
        Caps caps;
        if (!caps_preset(name + 7, &caps))
            return diag(cx, S_API_PRESET, NOWHERE, "h200 m1max rtx4060 opencl pocl avx512 avx2 neon portable",
                        "there is no preset '%.40s'", name + 7);
        *out = add_device(c, NULL, &caps, name, arena_printf(c->perm, "preset %s", caps.name));
    } else {
        Device *d;
        Err err = rt_find(cx, c->rt, name, &d);
        if (err) return err;
        for (int i = 0; i < c->ndevices; i++)
            if (c->device[i]->dev == d) return *out = c->device[i], OK;
        *out = add_device(c, d, dev_caps(d), dev_name(d), dev_identity(d));
    }
    return *out ? OK : diag(cx, S_ARG, NOWHERE, "at most 32", "too many devices were asked for");
}

rowfold_status rowfold_device_find(rowfold_context *ctx, const char *name, rowfold_device **out) {
    if (!ctx) return ROWFOLD_ARGUMENT;
    if (!out) return call_wrong(ctx, S_ARG, "rowfold_device_find needs a place for its result");
    Arena *a = arena_new(&ctx->al, NULL); /* the context's own grows only by devices that are found */
    if (!a) return call_memory(ctx);
    Call c;
    call_begin(&c, ctx, a);
    arena_trap(ctx->perm, &c.trap);
    if (setjmp(c.trap.at)) {
        arena_trap(ctx->perm, NULL);
        arena_free(a);
        return call_memory(ctx);
    }
    rowfold_device *d = NULL;
    rowfold_status s = call_end(&c, find_device(ctx, &c.cx, name && *name ? name : "best", &d));
    arena_trap(ctx->perm, NULL);
    arena_free(a);
    if (s == ROWFOLD_OK) *out = d;
    return s;
}

const char *rowfold_device_name(const rowfold_device *d) {
    return d ? d->name : "";
}
const char *rowfold_device_identity(const rowfold_device *d) {
    return d ? d->identity : "";
}
const char *rowfold_device_caps(const rowfold_device *d) {
    return d ? d->caps_text : "";
}
