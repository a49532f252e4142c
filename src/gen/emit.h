/* Shared by the files that emit: the walk over a kern is one, the spelling of an instruction is the dialect's. */
#ifndef ROWFOLD_EMIT_H
#define ROWFOLD_EMIT_H

#include "kern.h"

/* Where a step of a sweep stands. */
typedef struct Step {
    const char *chunk; /* text: number of its first chunk, times one */
    int64_t mod;       /* the first chunk's number modulo the accumulators */
    int64_t left;      /* elements from its first to the domain's end where the step is the last, partial one; -1: every
                          chunk is full */
} Step;

typedef struct Emit Emit;
/* A dialect: how the parts of a kernel are spelt. */
typedef struct Speak {
    void (*head)(Emit *e); /* up to where the row's instructions stand */
    void (*tail)(Emit *e);
    void (*block)(Emit *e, int ins);                      /* an instruction outside sweeps */
    void (*step)(Emit *e, int ins, const Step *s);        /* one inside, for all elements of the step */
    void (*prelude)(Emit *e, const char *body, Buf *out); /* types and the functions that the body calls */
} Speak;

struct Emit {
    Cx *cx;
    const Problem *pb;
    const Kern *k;
    const Speak *speak;
    Buf out;
    int depth, sweep;   /* sweep: its number among the kern's */
    int domain;         /* of the sweep being emitted, -1 */
    const char *serial; /* name of the loop variable over serial points */
    /* the host dialect's own */
    int L, R; /* elements of a register, registers of a row's lanes */
};
extern const Speak speak_host;
void host_prelude(Emit *e, const char *body, Buf *out);

void line(Emit *e, const char *fmt, ...) PRINTF(2, 3);
#endif
