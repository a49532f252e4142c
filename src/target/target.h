/* Floor 1: facts about machines (Caps), what a kernel asks of one (Demand), and source text for one (Unit). Data only,
 * no device needed. */
#ifndef ROWFOLD_TARGET_H
#define ROWFOLD_TARGET_H

#include "../ir/ir.h"

typedef enum Kind { KIND_HOST, KIND_CUDA, KIND_OPENCL, KIND_METAL, KIND_COUNT } Kind;
const char *kind_text(Kind k);

typedef enum Isa { ISA_PORTABLE, ISA_AVX2, ISA_AVX512, ISA_NEON, ISA_COUNT } Isa; /* of host devices */
const char *isa_text(Isa i);
bool isa_find(const char *s, Isa *out);

/* What a machine can do. Everything a plan's legality depends on is here, so planning needs no machine. */
typedef struct Caps {
    char name[64]; /* preset or device name */
    Kind kind;
    Isa isa;      /* host only */
    int subgroup; /* lanes that combine without a barrier: f32 elements of a SIMD register on a host, 32 on most GPUs */
    int max_lanes;      /* most lanes one row may have in a group (1024 on GPUs) */
    int max_group;      /* most lanes in a group, over its rows */
    int max_pack_bytes; /* widest access of one lane: 16 on GPUs; 0: no limit (hosts) */
    int stripe_slots; /* f32 slots a lane may keep in its stripes (64 on GPUs: registers; hosts: the row buffer's bytes
                         / 4 / lanes) */
    int64_t row_buffer_bytes; /* hosts: most bytes a row's stripes may take together; 0: stripe_slots rules */
    int64_t shared_bytes;     /* on-chip memory of a group; 0: none */
    int64_t registers;        /* 32-bit registers of a unit; 0: not known */
    int units;                /* multiprocessors or cores */
    int max_cluster;          /* groups that share on-chip memory; 1: none */
    bool has_keep;            /* load policies keep, no-allocate, stream are real */
    bool has_stream_store;    /* streaming stores are real */
    bool unordered_collect;   /* the device's own subgroup collective has an unspecified tree (Metal) */
    bool poly_math;           /* special functions are rowfold's polynomials (always on hosts) */
    bool has_f64;             /* 64-bit floating point */
    bool lanes_in_turn; /* a group is one thread's work, lane after lane (OpenCL on CPUs): lanes meet at a price */
    int64_t cache_line; /* bytes */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* a core's or unit's own, shared ones; 0: not known */
    double copy_bytes_per_s, launch_s;    /* nominal, for estimates without a calibration */
} Caps;
/* m1max h200 rtx4060 opencl pocl avx512 avx2 neon portable; false when there is no such preset. */
bool caps_preset(const char *name, Caps *out);
int caps_presets(const char *const **names); /* count and list of names */
void caps_print(const Caps *c, Buf *out);    /* key=value, one line; reads back to equal Caps */
Err caps_read(Cx *cx, const char *text, Caps *out);
bool caps_equal(const Caps *a, const Caps *b);

/* What one launch asks of the machine: counted from the kern, never modelled. lane: the busiest lane of a row, each
 * domain rounded by its own ownership map. row: one whole row. Unknown makes all zero. */
typedef struct Bytes {
    double global_read, global_write, private_read, private_write;
} Bytes;
enum { STORED_AT_ONCE = 32 }; /* bytes of a host's streaming store, at least */
/* Of a row on a host, in instructions on registers. */
typedef struct HostWork {
    double work;    /* arithmetic of floats */
    double bits;    /* of whole numbers and bits, and conversions */
    double spilt;   /* values that find no register */
    double divide;  /* divisions and square roots */
    double special; /* functions that are the library's */
    double access;  /* of memory and stripes */
    double part;    /* of them those of a part of a register */
    double kept;    /* folds into accumulators that are memory, for want of registers */
    double chain;   /* cycles of folds that wait for each other */
    double depth;   /* cycles of what waits for each other in steps */
    double turns;   /* of the loops of sweeps */
    double sweeps;
    double wait;      /* cycles of what lies between sweeps */
    double scalar;    /* instructions that are no register's */
    double stream;    /* bytes that streaming stores could store so */
    double rewritten; /* of them those that the row stores twice */
} HostWork;
/* Accesses of memory as the text of GPUs spells them: where rows start at any place, a pack is several. */
typedef struct GpuWork {
    double accesses; /* instructions of a lane */
    double lines;    /* the same, each times the lines that a subgroup touches over those of 16 bytes a lane */
    double turns;    /* steps of loops that load and fold values with their places: one after the other */
    double torn;     /* bytes that a row writes in pieces of a sector, once for each further visit of the sector */
} GpuWork;

typedef struct Demand {
    bool known;
    HostWork host;
    GpuWork gpu;
    Bytes lane, row;
    double first_read;  /* of row.global_read: bytes that no earlier load of the row touched, which memory must deliver;
                           the rest comes from caches */
    double weight_read; /* of first_read: what all rows read alike */
    double group_read;  /* what a group that takes many rows reads before the first: bytes of all groups of a row */
    double pack_write;  /* of row.global_write: what is stored by packs */
    double store_bytes; /* their narrowest element; 0: none is */
    double lane_rounds; /* slots of every domain, added */
    double lane_packs;  /* packs of every domain */
    double lane_chain;  /* operations of a lane that wait for each other, in sweeps that reduce */
    double lane_waits;  /* sweeps that load: what follows waits for the first of its loads */
    double lane_shared; /* elements that a lane moves to and from stripes in on-chip memory */
    double lane_alone;  /* special functions of a lane outside of sweeps, an exact exponential twice */
    double lane_whole;  /* conversions of a lane from real to whole numbers */
    double collectives; /* joins over lanes, per row */
    double join_levels; /* of joining trees, one after the other: joins that do not wait for each other share them */
    double barriers;    /* per row */
    double lane_ops[COST_CLASSES], row_ops[COST_CLASSES];
    double shared_bytes;     /* of a group */
    double launches;         /* kernels a call starts */
    double live_values;      /* most values live at once in a lane, stripes apart */
    double stripe_slots;     /* most stripe slots live at once in a lane (lifetime-compacted) */
    double stripe_slots_sum; /* the prior system's figure: all stripes added */
    int reductions;
} Demand;
void demand_json(const Demand *d, Buf *out); /* one JSON object, exact numbers */

/* How a kernel's arguments lie in memory: one array of 8-byte slots, the same for every device:
 *   pointers of the tensor parameters, in order; extents of the row axes, in order; strides in elements of every
 * dimension of every tensor parameter, in order; scalar parameters, in order, as f64 (float types) or i64.  */
typedef union Slot {
    void *p;
    int64_t i;
    double d;
} Slot;
typedef struct Abi {
    int nslots, ptr0, row0, stride0, scalar0;
    int ptr[MAX_PARAMS];              /* slot of a tensor parameter's pointer, -1 for scalars and consts */
    int stride[MAX_PARAMS][MAX_RANK]; /* slot of a stride */
    int scalar[MAX_PARAMS];           /* slot of a scalar, -1 for others */
    int row[MAX_AXES];                /* slot of a row axis's extent, -1 for element axes */
    int extent[MAX_PARAMS][MAX_RANK]; /* slot of a dimension's extent, -1 where it is not an argument */
} Abi;
void abi_of(const Prog *p, Abi *out);

/* Source text for one kernel on one machine. On hosts the entry is
 *     void ENTRY(const Slot *slots, int64_t row_begin, int64_t row_end)
 * on GPUs a kernel with the slots by value, launched with groups of `lanes * rows_per_group` threads. */
typedef struct Unit {
    Dialect dialect;
    Isa isa;           /* host */
    const char *entry; /* a C identifier */
    const char *text;  /* whole source, no includes */
    size_t bytes;
    Abi abi;
    bool plain;  /* of hosts: no loop of it computes anything twice or is to become vectors: no compiler need look */
    int threads; /* of hosts: that share the rows; 0: as many as the launch is given */
    int lanes, rows_per_group;
    int cluster;  /* GPUs: groups that share a row, each of `lanes` threads */
    int resident; /* GPUs: groups a unit, which take all rows; 0: each takes its own */
    bool overlap; /* GPUs: may start before the launch ahead of it in its stream ends, whose results it waits for */
    int split;    /* GPUs: groups that share a row and meet in device memory */
    int64_t work_bytes; /* of that memory, for rows_per_group rows: zero at first, and whenever a launch has ended */
    int64_t shared_bytes;
    /* GPUs: where packs are one access, what a parameter's pointer (bytes) and strides (elements) along the dimensions
     * align_dims must be multiples of for that, of more than one point; 0: nothing. Other memory takes a slower form.
     */
    int align[MAX_PARAMS], align_each[MAX_PARAMS];
    uint8_t align_dims[MAX_PARAMS];
    int extent,
        align_extent; /* slot of a ranged axis's extent, -1: none; and what that must be a multiple of likewise */
    int64_t
        private_bytes; /* GPUs: memory a lane was given on purpose; what the compiler takes beyond is spilt registers */
    int loads;         /* CUDA: places in the text that load from global memory, gathers apart */
    int loads_again;   /* of them, the fewest that a later sweep has of what one before it has loaded; 0: none has */
    bool fresh;        /* build it anew even where a cache has it */
    int64_t elements_per_row; /* about how much work a row is, for deciding on threads */
} Unit;
#endif
