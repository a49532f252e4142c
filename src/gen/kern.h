/* Floor 4: Kern, the plan applied: loops and lanes, one step above source text. Demand, the audits, the interpreter and
 * every dialect read this one form.
 *
 * A row is worked on by W lanes. Instructions have a rank:
 *   ROW   one value a row (or a serial point), the same in all lanes
 *   LANE  one value a lane
 *   PACK  one value a lane and step of a sweep
 *   ELEM  one value an element
 * A sweep goes over the mapped elements of a domain in steps: a step is `flight` consecutive chunks, a chunk is W*V
 * elements, lane w owning e = (chunk*W + w)*V + v. Within a step every instruction is done for all of the lane's active
 * elements, in order of chunk then v, before the next instruction. Elements past the end are not active: they are not
 * loaded, stored or folded. PACK values are made by every lane in every step, with or without active elements. A value
 * made in a sweep is gone after it, one made in a loop after the round. Lanes meet only in JOIN, those side by side in
 * MEET; what a level of lanes has together goes to all of the next in PASS.
 *
 * Where an axis has a range, the kern is that of its largest extent, and one of the same instructions for every other:
 * the extent is an argument (kern_extent), which addresses and guards are made of, and which sweeps over the axis and
 * loops that are marked so end by. kern_at is the kern of one extent; it is what the other means. */
#ifndef ROWFOLD_KERN_H
#define ROWFOLD_KERN_H

#include "../plan/plan.h"

typedef enum Rank { RANK_ROW, RANK_LANE, RANK_PACK, RANK_ELEM } Rank;

typedef enum KOp {
    K_CONST,  /* k                                                   ROW */
    K_SLOT,   /* argument slot `imm`, of type ty (i64 extents and strides, scalars)  ROW */
    K_ROWIDX, /* the row's linear number, i64                        ROW */
    K_SERIAL, /* index of the enclosing serial loop, i64             ROW */
    K_ELEM,   /* e, the element's number in the sweep's mapped domain; i32 or i64  ELEM */
    K_ACTIVE, /* how many elements of this step are active in the lane, f32  PACK */
    K_OP,     /* op on a[0..2], type ty of the result, `to` for casts and bits; rank = highest of its operands */
    K_LOADP,  /* pack load: param, at a[0] (ROW, i64, elements) + e*stride; stride 1, or a[1] (ROW, i64)  ELEM */
    K_LOAD1, /* one load: param, at a[0] (i64, any rank) where a[1] (bool, -1: always) else a[2] (the fill; -1 with a[1]
                -1)  rank of operands */
    K_STOREP, /* pack store of a[2] (ELEM or lower): as K_LOADP */
    K_STORE1, /* store of a[2] at a[0] (i64): in a block (both ROW) by lane 0 of the row; in a sweep one an active
                 element */
    K_GET,   /* stripe `imm` at the element's slot (serial point a[0] of the stripe's domain, or -1); the sweep's mapped
                axes are the stripe's  ELEM */
    K_PUT,   /* stripe `imm` = a[1]; a[0] as K_GET; becomes readable in later sweeps and later in this step */
    K_INIT,  /* cell `imm` = k, all accumulators                    (LANE, in a block) */
    K_FOLD,  /* cell `imm` accumulator (chunk mod acc) = op(cell, a[0]), or fma(a[0], a[1], cell), for each active
                element  in order (sweep); operands of any rank */
    K_FOLD2, /* pair of cells imm (value), imm+1 (index): if a[0] beats the value (op MAX or MIN; NaN beats all; first
                wins) take a[0], a[1] */
    K_CELL,  /* reads cell `imm`, accumulator `acc`                 LANE in a block, PACK in a sweep (acc 0) */
    K_SETCELL,  /* cell `imm`, accumulator 0 = a[0]                    (LANE or PACK) */
    K_PACKFOLD, /* op over the step's active elements of a[0], or fma of a[0] and a[1], in order, from identity k  PACK
                 */
    K_JOIN,     /* op over the row's lanes of a[0] (LANE)              ROW */
    K_JOIN2,    /* as K_FOLD2 over lanes of a[0], a[1]; result the value; the instruction after it is K_JOIN2I  ROW */
    K_JOIN2I,   /* the index of the preceding K_JOIN2, i64             ROW */
    K_ROWGET,   /* row array `imm` at a[0] (ROW, i64)                  ROW */
    K_ROWPUT,   /* row array `imm` at a[0] = a[1]                      ROW */
    K_PASS,     /* a[0] (LANE) of the first lane of subgroup (level `imm` PASS_SUBGROUPS, of the lane's group), group
                   (PASS_GROUPS, of the row's cluster) or split (PASS_SPLITS) number lane mod 2^i, where 2^i is the least
                   that is not below how many there are; k past the last of them.  LANE. W is whole subgroups there */
    K_SAME,     /* a[0] (LANE), which all lanes of the row have alike  ROW */
    /* segments: lanes side by side, `lanes` of them, a power of two that divides a subgroup. flight is 1, but in joins
     */
    K_MEET,    /* op over the lanes of each segment of a[0] (LANE)   LANE */
    K_PART,    /* cell `imm`, the accumulator of the step's chunk    PACK */
    K_SETPART, /* cell `imm`, accumulator `acc` = a[0]               (LANE, in a block) */
    K_SEG,     /* number of the segment's elements among such runs, e / (lanes*V), i64  PACK */
    K_STORES,  /* store of a[2] at a[0] (i64, PACK) by the first lane of each active segment; of ELEM the first element
                */
    K_COUNT
} KOp;

typedef struct Ins {
    KOp k;
    Op op;
    Ty ty; /* of the result, a compute type; of the value stored for stores and puts */
    Ty to; /* OP_CAST, OP_BITS */
    Rank rank;
    int a[3];
    int imm, acc, lanes; /* lanes: of a segment */
    int param;
    int policy;       /* loads: LOAD_*, stores: STORE_* */
    Num c;            /* K_CONST, K_INIT, K_PACKFOLD identity */
    const char *note; /* name in the program, for reading */
} Ins;

enum { PASS_SUBGROUPS, PASS_GROUPS, PASS_SPLITS, PASS_LEVELS };
static inline bool ins_gathers(const Ins *in) { /* do all lanes of the row have come by, once it is done? */
    return in->k == K_JOIN || in->k == K_JOIN2 || in->k == K_SAME;
}

/* Nodes marked once come first, outside of loops: a group that takes rows one after the other does them before its
 * first row. They load what all rows share into stripes, which keep it for all of them. */
typedef enum NodeKind { NODE_BLOCK, NODE_SWEEP, NODE_LOOP } NodeKind;
typedef struct Node {
    NodeKind kind;
    int i0, i1;      /* instructions of a block or sweep: ins[i0 .. i1) */
    int domain;      /* of a sweep */
    int64_t count;   /* of a loop: serial points */
    bool once;       /* done before a group's first row */
    bool ranged;     /* of a loop: count is for the largest extent of the ranged axis, and goes with it */
    int child, next; /* first node inside a loop; the one after this; -1: none */
    const char *note;
} Node;

typedef struct Stripe {
    Ty ty; /* storage: a load's own type (register) or a compute type */
    int domain;
    Hold home;       /* HOLD_REGISTER (lane-private), HOLD_SHARED, HOLD_OUTPUT (the out parameter's own memory: never in
                        K_GET/K_PUT) */
    int first, last; /* sweep nodes that need it, counted from 0 in order of the text */
    int param;       /* HOLD_OUTPUT: that parameter */
    const char *name;
} Stripe;

typedef struct Cell {
    Ty ty;
    int acc; /* accumulators */
    const char *name;
} Cell;

typedef struct RowArray {
    Ty ty;
    int64_t n;
} RowArray;

typedef struct Kern {
    const char *name; /* program */
    const Prog *prog; /* simplified: parameters, axes */
    Shape shape;
    Plan plan;
    int subgroup; /* of the machine: shapes the joining tree */
    bool poly;    /* special functions of f32 are expanded */
    Abi abi;
    Stripes stripes;
    int ndomains;
    Domain domain[MAX_DOMAINS];
    int nins, ins_cap, nnodes, node_cap, nstripes, stripe_cap, ncells, cell_cap, narrays, array_cap;
    Ins *ins;
    Node *node; /* node[root] is the first of the row's nodes */
    Stripe *stripe;
    Cell *cell;
    RowArray *array;
    int root;
    int nsweeps, nreds;
} Kern;

/* What the text of an instruction shows, in order: = it makes a value, o op, t type, r rank, x target type of a cast, k
 * constant, n imm as a number, v the level of a pass, p parameter, l load policy, w store policy, S stripe, C cell, A
 * row array, a accumulator, g lanes of a segment, 0 1 2 operands. */
typedef struct KInfo {
    const char *text, *fields;
} KInfo;
const KInfo *kop_info(KOp k);
bool ins_makes(const Ins *in); /* a value, as opposed to an effect */
const char *rank_text(Rank r); /* row lane pack elem */
const char *op_name(Op op);    /* ADD, MUL, CAST; in a kern's text in small letters */
bool op_named(const char *s, Op *out);
const char *pass_text(int level);         /* subgroups groups splits */
int pass_count(const Kern *k, int level); /* subgroups of a group, groups of the cluster, splits */
bool ins_has(const Ins *in, int operand); /* of those in the text: does its operator take it? */
Op ins_joins(const Ins *in);              /* of a fold: the operator by which what it folded meets; of fma: addition */
int ins_operands(
    const Ins *in,
    int at[3]); /* which of a[] the instruction has a place for (they may be -1 where optional), and how many */

int kern_body(const Kern *k); /* the first node that is not done once; -1: none */
/* Rows of which a stripe has room at once: one, and those whose copies into it may be under way. */
int kern_buffers(const Kern *k, int stripe);

/* ---- lower ---- */
Err kern_lower(Cx *cx, const Problem *pb, const Plan *plan, Kern **out); /* plan_check first, then the kern; verified */

/* Emitting into the kern that is being built (also used by the math expansion). x, y, z -1 where there is none. */
typedef struct Kb { /* a kern under construction, with the rank new instructions may have where they stand */
    Cx *cx;
    Kern *k;
    int memo0;     /* the node at hand: pure instructions from here on may be reused instead of made again */
    int memo[512]; /* near its hash: 1 + a pure instruction, 0 none; starts as zeros */
} Kb;
int kb_ins(Kb *b, Ins ins); /* appends it as it is; its index */
int kb_const_f(Kb *b, Ty ty, double x);
int kb_const_i(Kb *b, Ty ty, int64_t x);
int kb_op(Kb *b, Op op, int x, int y, int z); /* type by op_type of the operands, which must already agree */
int kb_cast(Kb *b, Ty to, int x);             /* storage type `to`; result its compute type */
int kb_bits(Kb *b, Ty to, int x);             /* same bits, other type (f32 <-> i32) */
/* f32 special functions in adds, multiplies, FMAs, selects and bit operations: at most 2 ulp, the same bits everywhere.
 * gen/math.c */
int math_expand(Kb *b, Op op, int x, int y, const Range *of_x); /* of_x: what is known of x, or NULL */

/* ---- ranges ---- */
int kern_extent(const Kern *k); /* the slot that has the ranged axis's extent; -1: none has a range */
bool domain_ranged(const Kern *k, const Domain *d);    /* do its mapped elements go with that extent? */
int64_t domain_others(const Kern *k, const Domain *d); /* then: mapped elements a unit of it */
/* The kern at extent n, which is within the range; k itself where none has one. */
const Kern *kern_at(Cx *cx, const Kern *k, int64_t n);
/* Extents that stand for the range: its ends, and those around which the last chunk of a sweep is whole, cut or empty.
 */
enum { MAX_EXTENTS = 6 };
int kern_extents(const Kern *k, int64_t n[MAX_EXTENTS]);

/* ---- read, check, run ---- */
void kern_print(const Kern *k, Buf *out); /* for reading; every field that matters shows */
/* The kern of such a text: print(read(print(k))) is print(k). Any bytes: a kern that verifies, or diagnostics. */
Err kern_read(Cx *cx, const Prog *prog, const char *text, size_t n, Kern **out);
Err kern_verify(Cx *cx, const Kern *k); /* stops at the first broken rule */
/* What running it found, lane by lane. */
typedef struct KernRun {
    int64_t loads, stores; /* global, elements */
} KernRun;
/* Runs rows [0, rows) exactly as the kern says, on slots (see Abi). Memory of tensor parameter p spans [lo[p], hi[p])
 * bytes: any access outside is reported (kern.out_of_bounds), as are reads of unwritten slots, cells and row values
 * (kern.unwritten), and elements of outputs that two lanes or rows touch, one writing, unless a join stands between a
 * read and the later write (kern.race). That all lanes reach a join, and that no two use one stripe slot, needs no
 * check: joins stand in blocks, and slots follow from elements. `k` must have passed kern_verify. */
Err kern_run(Cx *cx, const Kern *k, const Slot *slots, int64_t rows, const void *const *lo, const void *const *hi,
             KernRun *run);
/* live_values: an element's value counts for every element of a step, constants not at all. */
void kern_count(Cx *cx, const Kern *k, Demand *out);
void host_count(Cx *cx, const Kern *k, HostWork *out);
/* The tree of a JOIN over W lanes with a subgroup of L, in `groups` groups (of a cluster, or splits), which are joined
 * last: calls step(user, i, j) for "lane i = op(lane i, lane j)" in order; the result is lane 0's. combine=outer has
 * one group. */
void join_tree(int W, int subgroup, int combine, int groups, void (*step)(void *user, int i, int j), void *user);

/* ---- emit ---- */
Err unit_emit(Cx *cx, const Problem *pb, const Kern *k, Unit *out); /* for the kind of machine of the problem's caps */
#endif
