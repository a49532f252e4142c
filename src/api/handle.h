/* What the public handles are, shared by the files of this floor. */
#ifndef ROWFOLD_HANDLE_H
#define ROWFOLD_HANDLE_H

#define ROWFOLD_BUILDING
#include "../../include/rowfold.h"
#include "../drive/drive.h"
#include "../lang/lang.h"

#include <pthread.h>

struct rowfold_device {
    rowfold_context *ctx;
    Device *dev; /* NULL: a preset */
    Caps caps;
    char name[80];
    const char *identity, *caps_text;
};

struct rowfold_context {
    Alloc al;
    rowfold_options o;
    Rt *rt;
    Arena *perm; /* devices */
    Arena *errs; /* the last error's texts; made anew with each failure */
    rowfold_error error;
    pthread_mutex_t lock; /* of the error: launches may fail in any thread */
    int ndevices;
    rowfold_device *device[16 + 16]; /* those that are here, then presets asked for */
    int notes;                       /* runtime notes already logged */
};

struct rowfold_source {
    rowfold_context *ctx;
    Arena *a;
    const Ast *ast;
    const char *text, *name;
};

struct rowfold_program {
    rowfold_context *ctx;
    Arena *a;
    const Prog *prog;
    const char *text;
};

struct rowfold_kernel {
    rowfold_context *ctx;
    Arena *a;
    rowfold_device *device;
    const Prog *prog; /* as written, in the kernel's own arena */
    int threads;
    Made made;
    const char *text[ROWFOLD_PRUNING + 1]; /* but for those that are made late */
    struct Late *late;
};

/* The receipt and the text of the candidates, which take most of the time of a compilation that runs nothing and are
 * seldom asked for: made when they first are. */
enum { LATE_RECEIPT, LATE_CANDIDATES, LATE_TEXTS };
typedef struct Late {
    pthread_mutex_t lock;
    const Request *asked; /* what the kernel was compiled for, in the kernel's own arena */
    struct {
        Arena *a;
        const char *text;
    } of[LATE_TEXTS];
} Late;

struct rowfold_bound {
    rowfold_kernel *k;
    int64_t rows;
    Slot slot[];
};

/* One call into the library: an arena for what it makes, a trap for running out of memory, diagnostics that become the
 * context's error. */
typedef struct Call {
    rowfold_context *ctx;
    Cx cx;
    Trap trap;
    const char *src; /* text to show lines of, or NULL */
    Err err;
} Call;
/* Then: if (setjmp(c->trap.at)) { clean up; return call_memory(ctx); } */
void call_begin(Call *c, rowfold_context *ctx, Arena *a);
rowfold_status call_end(Call *c, Err err);      /* keeps the diagnostics as the context's error */
rowfold_status call_memory(rowfold_context *c); /* what running out of memory gives */
rowfold_status call_wrong(rowfold_context *c, Slug slug, const char *fmt, ...) PRINTF(3, 4);
void context_log_notes(rowfold_context *c);
const char *program_copy(Cx *cx, const Prog *p, Prog **out); /* NULL, or why it could not be copied */
Err tensors_check(Cx *cx, const rowfold_kernel *k, const rowfold_arg *args, int count, Slot *slots, int64_t *rows);
#endif
