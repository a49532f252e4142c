/* Shared by the files that emit: the walk over a kern is one, the spelling of an instruction is the dialect's. */
#ifndef ROWFOLD_EMIT_H
#define ROWFOLD_EMIT_H

#include "kern.h"

/* Where a step of a sweep stands. */
typedef struct Step {
    const char *chunk; /* text: number of its first chunk */
    int64_t number;    /* the same where it is known, else -1 */
    int64_t mod;       /* the first chunk's number modulo the accumulators; -1: it is k */
    int64_t left;      /* elements from its first to the domain's end where the step is the last, partial one; -1: every
                          chunk is full; LEFT_SIZE: known at run time only, from the domain's size; LEFT_HEAD: the
                          first step of a shifted row, whose first places have no element */
} Step;
enum { LEFT_SIZE = -2, LEFT_HEAD = -3 };
enum { UNROLL_MOST = 64 }; /* rounds of a loop over serial points that GPUs write out */

typedef struct Emit Emit;
typedef struct GpuWords GpuWords;
/* A dialect: how the parts of a kernel are spelt. */
typedef struct Speak {
    void (*head)(Emit *e); /* up to where the row's instructions stand */
    void (*rows)(Emit *e); /* between what a group does once and what it does for each row; may be NULL */
    void (*tail)(Emit *e);
    void (*block)(Emit *e, int ins);               /* an instruction outside sweeps */
    void (*step)(Emit *e, int ins, const Step *s); /* one inside, for all elements of the step */
    int (*group)(const Emit *e, const Node *n,
                 const Step *s);        /* registers a full step's text spells at a time, or NULL: all */
    bool (*once)(const Emit *e, int i); /* is the same for all registers: before a loop over groups of them, or NULL */
    void (*prelude)(Emit *e, const char *body, Buf *out); /* types and the functions that the body calls */
    bool (*unrolls)(const Emit *e, const Node *sweep);    /* must all its steps be written out? NULL: never */
    void (*loop)(Emit *e, const Node *loop);              /* what stands before a loop; may be NULL */
    void (*ahead)(Emit *e, const Node *node);             /* before a node of the row; may be NULL */
    /* starts the copies that a sweep waits for part by part; how many parts, 0: it has none, -1: all that the sweep
     * does is wait for them, which is not the time to; may be NULL */
    int (*copies)(Emit *e, const Node *sweep);
    /* emits the row's nodes itself, where it says true; NULL: never */
    bool (*nodes)(Emit *e);
    Err (*check)(const Emit *e); /* is what was emitted within what the device can have? NULL: always */
} Speak;

struct Emit {
    Cx *cx;
    const Problem *pb;
    const Kern *k;
    const Speak *speak;
    Buf out;
    int depth, sweep;   /* sweep: its number among the kern's */
    int domain;         /* of the sweep being emitted, -1 */
    const char *wide;   /* suffix of 64-bit constants */
    const char *serial; /* name of the loop variable over serial points */
    int node_end;       /* behind the last instruction of the block or sweep being emitted */
    /* the host dialect's own */
    bool grouped; /* the step's text is one group of registers, looped over by g */
    int copies;   /* registers the text of a step spells: R, or those of a group */
    int L, R;     /* elements of a register, registers of a row's lanes */
    int shifts;   /* tail=head-shift: what a row's shift is below, else 0; and the tensor whose lines it makes whole */
    int anchor;
    uint32_t *based; /* by value of the row: the parameters whose packs lie from there on */
    bool *cut;       /* values of the row that elements of 32 bits meet */
    bool *same;      /* hoststagger.c: values that are the same for all rows, whatever is in memory */
    uint8_t *vary;   /* hostrows.c: how values differ from row to row */
    /* hoststagger.c: sweeps that run together, 0: none; the one that is being emitted; those sweeps */
    int nstages, stage;
    const Node **sweep_of;
    int *stage_of;               /* of each value: the stage that makes it, -1: the same for all rows */
    bool *outside;               /* values that are declared before the loop over rows */
    int *later;                  /* of those, how many rounds of it later they are still used */
    bool *is_short, *short_cell; /* i64 values of elements, and cells of such, that are spelt with 32 bits */
    /* of the dialects of GPUs */
    const GpuWords *words;
    bool *done;                                    /* instructions emitted before their turn */
    bool *early;                                   /* loads whose words were loaded before their sweep */
    int *copied;                                   /* loads that are copies into on-chip memory: the put; else 0 */
    int *buffers;                                  /* by stripe: rows that it has room for, where copies fill it */
    bool *awaited;                                 /* values of a row that were loaded with the copies of it */
    int flying;                                    /* parts that were started after those the sweep waits for */
    bool once_flies;                               /* so may be what fills stripes before the first row */
    bool waited;                                   /* for the launch before this one */
    int slots;                                     /* values in the largest exchange between warps */
    bool wide_slots;                               /* of 64 bits each */
    bool in_turn;                                  /* accumulators are arrays, and a round of them a loop over k */
    bool narrow;                                   /* 32 bits number a row's elements */
    int record;                                    /* words of the largest that groups of a cluster send */
    bool split_met;                                /* splits of the row have met: only its last group is left */
    bool cluster_waits;                            /* nothing has waited yet for all groups of the cluster to start */
    bool tied;                                     /* what was loaded early still waits to be tied to the row */
    bool side_by_side;                             /* neighbouring threads are neighbouring rows */
    int align[MAX_PARAMS], align_each[MAX_PARAMS]; /* these as in Unit */
    int align_extent;
    uint8_t align_dims[MAX_PARAMS];
    int64_t private_bytes, shared_bytes, work_bytes;
    int loads;                  /* places that load packs from global memory, or copy them from there */
    int loads_again;            /* as in Unit */
    int loads_here[MAX_PARAMS]; /* of them, in the sweep at hand */
    bool loaded[MAX_PARAMS];    /* in a sweep before */
};
void emit_sweep(Emit *e, const Node *n);            /* where sweeps run together: the first of them */
int64_t emit_part(int64_t steps, int parts, int i); /* the step with which part i of a sweep starts */
extern const Speak speak_host, speak_rows, speak_cuda, speak_opencl, speak_metal;
bool host_takes_rows(Emit *e);       /* is the unit one of speak_rows? */
bool host_masks_rows(const Emit *e); /* and are their loads under masks? */
void host_find_short(Emit *e);
bool host_index_rises(const Emit *e, int fold); /* of a K_FOLD2: is its index above all that came before? */
void host_prelude(Emit *e, const char *body, Buf *out);
void cuda_prelude(Emit *e, const char *body, Buf *out);
void opencl_prelude(Emit *e, const char *body, Buf *out);
void metal_prelude(Emit *e, const char *body, Buf *out);

/* Many accumulators, or many registers of them, are an array that is indexed at run time; few are variables that the
 * text names. */
bool cell_is_array(const Emit *e, const Cell *c);
const char *emit_text(Emit *e, const char *fmt, ...) PRINTF(2, 3); /* in the arena */
const char *emit_number(Emit *e, Ty ty, Num c);                    /* a finite constant; not bool */
void emit_int_range(Ty t, const char **lo, const char **hi);       /* the ends of an integer type */
void line(Emit *e, const char *fmt, ...) PRINTF(2, 3);

/* Of ranged shapes: declares `extent`, which the slot's text gives, and for each domain that goes with it `size` and
 * its number. */
void emit_sizes(Emit *e, const char *slot, bool narrow); /* narrow: i32 */
const char *emit_size(Emit *e, int domain);              /* how many elements it has: a number or that name */
int64_t emit_room(const Emit *e, const Domain *d); /* elements that a stripe over it has room for: whole steps where
                                                      the text does not know which is the last */
#endif
