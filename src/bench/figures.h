/* The four figures of a kernel, each in two regimes and each from samples of its own; nothing is subtracted from
 * anything. docs/measuring.md says why each step is there. */
#ifndef ROWFOLD_FIGURES_H
#define ROWFOLD_FIGURES_H

#include "bench.h"

typedef enum Span { SPAN_DEVICE, SPAN_END_TO_END } Span; /* the device's own clock, or the caller's around everything */
typedef enum Mode { MODE_BATCH, MODE_SINGLE } Mode;
typedef enum Regime {
    REGIME_RESIDENT,
    REGIME_COLD
} Regime; /* the same buffers, or more than the caches hold in turn */
enum { FIGURES = 8, FIGURE_SAMPLES = 101, FIGURES_ALL = 255 };
static inline int figure_at(Span s, Mode m, Regime r) {
    return (int)s * 4 + (int)m * 2 + (int)r;
}
const char *figure_name(int f);             /* "device.batch.cold" */
bool figure_find(const char *name, int *f); /* by that name */

typedef struct FigureAsk {
    uint32_t figures; /* bit f: figure f */
    int threads, samples;
    int64_t sample_ns, warmup_ns,
        rotate_bytes; /* of a batch; before anything is kept; all buffers of the cold regime */
} FigureAsk;

typedef struct Figure {
    int n, calls, sets; /* samples, calls in each, buffers taken in turn; n = 0: not asked for */
    int first_set[FIGURE_SAMPLES];
    int64_t total_ns[FIGURE_SAMPLES]; /* of all calls of a sample */
} Figure;
double figure_median(const Figure *f, double *min, double *max); /* ns a call; min and max may be NULL */

typedef struct Figures {
    Figure figure[FIGURES];
    int64_t warmup_ns;
    int warmup_batches;
    bool settled; /* the last batch of the warm-up took as long as the one before, within 5 % */
    int sets;     /* 0: no cold figure was asked for */
    double set_bytes;
} Figures;

/* Buffers of the cold regime: as many sets of arguments, inputs and outputs, as make rotate_bytes, at least two. Zero
 * it first; ring_free takes any stage. */
typedef struct Ring {
    Bed *bed;
    int sets;
    int64_t taken; /* calls so far, which go round from where the last ones stopped */
    Mem *mem[MAX_PARAMS];
    size_t step[MAX_PARAMS];
    const void *want[MAX_PARAMS]; /* the outputs of the call that was checked */
    const Slot **slots;           /* of all sets twice over, so that a turn may begin anywhere */
} Ring;
void ring_keep(Cx *cx, Bed *b, Ring *r); /* first, while the bed still has the outputs of that call */
Err ring_make(Cx *cx, Bed *b, int64_t rotate_bytes, Ring *r);
/* Inputs as they were, in the bed and in every set; outputs of the bed and of every set that was taken as `want`, bit
 * for bit. */
Err ring_check(Cx *cx, const Ring *r);
void ring_free(Ring *r);

/* On a bed whose outputs were checked once. Poisons them again before the first timed call; afterwards every input is
 * compared byte for byte. S_BENCH_CLOBBERED, S_BENCH_STALE, S_BENCH_CLOCK, S_BENCH_NOTHING, or what a launch gives. */
Err figures_take(Cx *cx, Bed *b, Module *m, const FigureAsk *q, Ring *ring, Figures *out);
#endif
