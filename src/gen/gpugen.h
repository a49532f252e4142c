/* What the dialects of GPUs share: how their units are spelt, and the words in which they differ. */
#ifndef ROWFOLD_GEN_GPUGEN_H
#define ROWFOLD_GEN_GPUGEN_H

#include "emit.h"

struct GpuWords {
    Dialect dialect;
    const char *thread, *group; /* a thread's number in its group, i32; a group's in the launch, i64 */
    const char *groups;         /* how many a launch has, i64 */
    const char *barrier;        /* that all threads of a group reach, and after which they see what each stored in
                                   on-chip memory */
    const char *who;            /* what shx_T and meet_op_T take as their last argument, with a comma before it */
    bool keys;                  /* pairs of a value and an index meet as one number of 64 bits */
    const char *wide;           /* suffix of 64-bit constants */
    bool at_once;               /* allmax_T and allmin_T give all lanes of a subgroup their greatest or least */
    bool hides;                 /* what stripes hold is kept from the compiler, and there are lo_bf16 and hi_bf16 */
    bool decimal;               /* floats are written so, for hexadecimal ones came with C++17 */
    const char *(*slot)(Emit *e, const Ins *in); /* value of an argument slot; NULL: a.s[] is a union slot */
    void (*shared)(Emit *e, int stripe);         /* declares sh`stripe`, e->shared_bytes into the group's memory */
};

/* ---- gpu.c ---- */
void gpu_begin(Emit *e, const GpuWords *words);
void gpu_place(Emit *e);
void gpu_row(Emit *e, const char *tile); /* declares the row of a thread, in the group's tile of rows */
void gpu_rows(Emit *e);
void gpu_end(Emit *e);
void gpu_locals(Emit *e);
int gpu_exchange(const Emit *e);
const char *gpu_memory_type(const Param *q);
void gpu_block(Emit *e, int i);
void gpu_step(Emit *e, int i, const Step *s);
bool gpu_unrolls(const Emit *e, const Node *n);
void gpu_loop(Emit *e, const Node *n);
const Ins *gpu_at(const Emit *e, int i);
const char *gpu_type(Ty t);
Ty gpu_tensor(const Emit *e, int param); /* type in memory */
const char *gpu_val(Emit *e, int i, int f,
                    int v); /* a value, at chunk f and pack element v where it has one for each */
void gpu_declare(Emit *e, int i, int f, int v, const char *what);
const char *gpu_cast(Emit *e, Ty from, Ty to, const char *x);
/* Elements of the domain from the start of chunk f of the step on; -1: the chunk is full. 0: none. LEFT_SIZE: that
 * is known at run time only. */
int64_t gpu_left(const Emit *e, const Step *s, int f);
/* "Element v of chunk f is active in this lane", as a condition; NULL: always. */
const char *gpu_active(Emit *e, const Step *s, int f, int v);
const char *gpu_both(Emit *e, const char *x, const char *y);
const char *gpu_alive(const Emit *e); /* the condition under which a row may store, or NULL */

const char *gpu_literal(Emit *e, Ty ty, Num c);
const char *gpu_apply(Emit *e, Op op, Ty ty, const char *x, const char *y, const char *z);
const char *gpu_identity(Emit *e, Op op, Ty ty); /* the value that leaves the other operand as it is */
Ty gpu_place_type(const Emit *e, Ty ty);         /* of an index beside values of a type */

/* ---- gpujoin.c ---- */
void gpu_join(Emit *e, int i);
void gpu_pass(Emit *e, int i);
/* x = op(x, lane i ^ h); again: the lanes of a subgroup have the same values over and over. */
void gpu_halve(Emit *e, int i, int lanes, bool again);
const char *gpu_join_name(Op op); /* max min */
void gpu_cluster_ready(Emit *e);  /* that all groups of the cluster have started */

/* ---- gpuahead.c ---- */
void gpu_ahead(Emit *e, const Node *node);
void gpu_find_copies(Emit *e);
void gpu_copies_ahead(Emit *e, const char *tile, const char *buffer, int place); /* of the row of another tile */
void gpu_take_ahead(Emit *e);
int gpu_copies(Emit *e, const Node *sweep);

/* ---- gpumem.c ---- */
bool gpu_is_weight(const Emit *e, int param); /* all rows read it */
void gpu_load_words(Emit *e, int i, const Step *s, int f,
                    const char *w); /* words `w`0, `w`1 ... of a pack, declared and loaded */
void gpu_load_pack(Emit *e, int i, const Step *s, int f);
bool gpu_copies_pack(Emit *e, int load, int put); /* can its pieces be copied asynchronously? */
void gpu_copy_pack(Emit *e, int load, int put, const Step *s);
void gpu_store_pack(Emit *e, int i, const Step *s, int f);
const char *gpu_load_bits(Emit *e, const Ins *in, const char *index); /* an element's, not yet waited for */
const char *gpu_load_one(Emit *e, const Ins *in, const char *index);
void gpu_store_one(Emit *e, const Ins *in, const char *ok, const char *index, const char *x);
void gpu_get(Emit *e, int i, const Step *s, int f); /* of stripes */
void gpu_put(Emit *e, int i, const Step *s, int f);
bool gpu_shares_words(Ty t); /* elements of a stripe that are shorter than a word share words */
int gpu_stripe_words(const Emit *e, const Stripe *s); /* of one chunk */
int64_t gpu_stripe_chunks(const Emit *e, const Stripe *s);
int64_t gpu_stripe_bytes(const Emit *e, int stripe); /* of one in on-chip memory, that a group needs for a row */

/* ---- gpuprelude.c ---- */
typedef struct Name {
    const char *all, *family, *to; /* to: second type of a cast, or the operator of a pair */
    Ty ty;
} Name;
typedef struct Pre Pre;
typedef struct Family {
    const char *name;
    void (*make)(Pre *, Buf *, const Name *);
    bool pair; /* name_op_type */
} Family;
struct Pre {
    Arena *a;
    Buf *out;
    const char *who; /* as in GpuWords */
    const Plan *plan;
    bool macros;       /* instead of functions, where that is the same: a compiler has less to do */
    const Family *own; /* of the dialect, before the common ones */
    int nown;
    bool (*access)(Buf *b, const char *word); /* makes it where it is one of memory */
    const char **seen;
    int nseen, cap;
};
void gpu_prelude(Pre *p, const char *body); /* all functions that the body calls, and those that they call */
/* A function of `ret` that returns an expression of its parameters, "f32 x, i32 y". */
void gpu_expr(Pre *p, Buf *b, const char *ret, const char *name, const char *params, const char *expr);
void gpu_unary(Pre *p, Buf *b, const Name *n, const char *expr);
void gpu_binary(Pre *p, Buf *b, const Name *n, const char *expr);

/* ---- metalprelude.c: for all devices without 64-bit floats, where an f64 is a u64 with its bits ---- */
void gpu_odd_of_bits(Pre *p, Buf *b, const Name *n);
void gpu_cut_bits(Pre *p, Buf *b, const Name *n);
void gpu_cast_bits(Pre *p, Buf *b, const Name *n);
#endif
