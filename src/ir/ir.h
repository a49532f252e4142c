/* Floor 1: the operators and Prog, the program as a graph of tiles with named axes. */
#ifndef ROWFOLD_IR_H
#define ROWFOLD_IR_H

#include "../base/base.h"

enum { MAX_AXES = 12, MAX_PARAMS = 32, MAX_RANK = 8, MAX_VALS = 4096, MAX_EXTS = 256, MAX_NAME = 64 };

/* ---- types ---- */
typedef enum Ty {
    TY_NONE,
    TY_BOOL,
    TY_I8,
    TY_I16,
    TY_I32,
    TY_I64,
    TY_U8,
    TY_U16,
    TY_U32,
    TY_U64,
    TY_F8E4M3,
    TY_F8E5M2,
    TY_F16,
    TY_BF16,
    TY_F32,
    TY_F64,
    TY_COUNT
} Ty;
const char *ty_text(Ty t); /* "f32" */
bool ty_find(const char *s, size_t n, Ty *out);
int ty_bytes(Ty t);
bool ty_is_float(Ty t);
bool ty_is_int(Ty t); /* not bool */
bool ty_is_signed(Ty t);
/* The type arithmetic is done in: bool, i32 (i8 i16 i32 u8 u16), u32, i64, u64, f32 (all floats up to 32 bits), f64. */
Ty ty_compute(Ty t);
/* The type two compute types meet in: f64 > f32 > 64-bit ints > 32-bit ints; mixed signs meet in i64; bool joins others
 * as i32. */
Ty ty_join(Ty a, Ty b);

/* ---- operators ---- */
typedef enum Op {
#define OP(id, text, arity, form, typing, algebra, ulp, cost, meaning, host, cuda, cl, msl) id,
#include "ops.def"
#undef OP
    OP_COUNT
} Op;
typedef enum OpForm { FORM_F, FORM_I, FORM_P, FORM_X } OpForm;
typedef enum OpTyping { TR_NONE, TR_ARITH, TR_FLOAT, TR_KEEP, TR_CMP, TR_BOOL, TR_SEL, TR_CAST, TR_BITS } OpTyping;
typedef enum OpCost { COST_FREE, COST_ALU, COST_DIV, COST_SPECIAL, COST_CONVERT, COST_MEMORY, COST_CLASSES } OpCost;
enum { ALG_A = 1, ALG_C = 2, ALG_D = 4 };
typedef enum Dialect { DIALECT_HOST, DIALECT_CUDA, DIALECT_OPENCL, DIALECT_METAL, DIALECT_COUNT } Dialect;
typedef struct OpInfo {
    const char *text;
    int arity;
    OpForm form;
    OpTyping typing;
    int algebra;
    double ulp;
    OpCost cost;
    const char *spell[DIALECT_COUNT]; /* "=" already resolved */
} OpInfo;
const OpInfo *op_info(Op op);
bool op_find(const char *text, OpForm form, Op *out);
double op_f64(Op op, double x, double y, double z); /* the meaning column */
/* The compute type that prog_op casts op's operands to (of where: the two choices); TY_NONE when they do not fit, and
 * for leaves and casts. */
Ty op_operand(Op op, const Ty *t);
/* Result type of op on compute types t[0..arity-1]; false when they do not fit (bool in arithmetic, float in bits ...).
 */
bool op_type(Op op, const Ty *t, Ty *out);

typedef enum Red {
#define RED(id, text, join, result, empty) id,
#include "reds.def"
#undef RED
    RED_COUNT
} Red;
enum { RED_PAIR = 1000, RED_MACRO = 1001 };
typedef enum RedResult { RR_SAME, RR_FLOAT, RR_BOOL, RR_INDEX } RedResult;
typedef struct RedInfo {
    const char *text;
    int join; /* an Op, RED_PAIR or RED_MACRO */
    RedResult result;
    const char *empty;
} RedInfo;
const RedInfo *red_info(Red r);
bool red_find(const char *text, size_t n, Red *out);
Ty red_operand(Red r, Ty t);                /* the compute type that prog_red casts the operand to */
Ty red_type(Red r, Ty operand);             /* result compute type */
int64_t ty_end(Ty ty, bool highest);        /* the lowest or highest of an integer compute type, as bits */
double red_identity_f64(Red r, Ty operand); /* of a plain fold; for ints use red_identity_i64 */
int64_t red_identity_i64(Red r, Ty operand);

/* ---- numbers in storage ---- */
/* One value of a compute type. The field to use follows the type: b bool, i i32 and i64, u u32 and u64, f f32, d f64.
 */
typedef union Num {
    int64_t i;
    uint64_t u;
    float f;
    double d;
    bool b;
} Num;
Num num_load(Ty storage, const void *at); /* storage -> its compute type, exact */
void num_store(
    Ty storage, void *at, Num v,
    Ty vt); /* v of compute type vt -> storage: nearest even, saturating for f8 and ints, NaN -> 0 for ints */
Num num_cast(Ty to, Num v, Ty vt);  /* as a store to `to` and a load back: a value of ty_compute(to) */
double num_f64(Num v, Ty vt);       /* as a double (64-bit ints may round) */
double num_max(double x, double y); /* NaN if either is; +0 above -0 */
double num_min(double x, double y);
float num_from_f16(uint16_t h);
uint16_t num_to_f16(float x);
float num_from_bf16(uint16_t h);
uint16_t num_to_bf16(float x);
float num_from_f8(Ty f8, uint8_t h);
uint8_t num_to_f8(Ty f8, float x);
/* An operator on compute types, bit for bit as every backend must do it: f32 in f32, one rounding an operation, no
 * contraction. For OP_CAST and OP_BITS `to` is the target type, else it is ignored. `t` is the common type of the
 * operands. SPECIAL operators on f32 are not evaluated here (the kern carries their expansion); on f64 they are libm's.
 * Integer division by zero gives 0; shift counts are taken modulo the width, and a right shift copies the sign. */
Num num_op(Op op, Ty t, Ty to, Num x, Num y, Num z);

/* ---- Prog ---- */
typedef struct Ext { /* extent of a declared axis: a tree over constants and other axes */
    char op;         /* 'k' constant, 'a' axis, '+', '-', '*', '/' (floor), '%' */
    int64_t k;       /* constant, or the axis's number */
    int l, r;        /* operands, as indexes into Prog.ext */
} Ext;

typedef struct Axis {
    const char *name;
    bool row;
    int ext; /* index into Prog.ext, or -1: taken from the parameters' shapes */
} Axis;

typedef enum Dir { DIR_IN, DIR_OUT, DIR_INOUT, DIR_SCALAR, DIR_CONST } Dir;
typedef struct Param {
    const char *name;
    Dir dir;
    Ty ty;
    int rank;
    uint8_t axis[MAX_RANK]; /* in memory order, last is fastest by default */
    bool has_default;
    double def; /* of a scalar or const */
} Param;

typedef enum Hold {
    HOLD_AUTO,
    HOLD_RELOAD,
    HOLD_REGISTER,
    HOLD_REGISTER32,
    HOLD_OUTPUT,
    HOLD_SHARED,
    HOLD_RECOMPUTE,
    HOLD_COUNT
} Hold;
const char *hold_text(Hold h); /* auto reload register register.f32 output shared recompute */
bool hold_find(const char *s, Hold *out);

/* How paired statistics are taken (see Pair in pass/pass.h). */
typedef enum Stat { STAT_TWO_PASS, STAT_ONLINE, STAT_SHIFTED, STAT_WELFORD, STAT_COUNT } Stat;
const char *stat_text(Stat s); /* two-pass online shifted welford */
bool stat_find(const char *s, Stat *out);

typedef enum Policy { POLICY_TREE, POLICY_ORDERED } Policy;

/* One tile. axes is the set of axes it varies over; a missing axis broadcasts. Values are numbered in an order in which
 * operands come first. */
typedef struct Val {
    Op op;
    Ty ty;         /* compute type of the result */
    uint32_t axes; /* bit i: axis i */
    int a[3];      /* operands, -1 where there is none */
    /* OP_CONST */
    Num k;
    /* OP_SCALAR and OP_LOAD: the parameter */
    int param;
    /* OP_LOAD: one index value a dimension (OP_IDX of the parameter's own axis where read in place); outside the
     * extents the fill is read (fill -1: NaN for floats, 0 for ints, false) and memory is not touched */
    int idx[MAX_RANK];
    int fill;
    /* OP_IDX: the axis */
    int axis;
    /* OP_CAST, OP_BITS: the storage type rounded to */
    Ty to;
    /* OP_RED: operand a[0] over these axes */
    Red red;
    uint32_t over;
    Policy policy;
    /* the name it was assigned to, or NULL; the hold pinned to that name */
    const char *name;
    Hold hold;
    Place at;
} Val;

typedef struct Out {
    int param, val;
} Out;

typedef struct Prog {
    const char *name;
    int naxes, nparams, nvals, nouts, next;
    Axis axis[MAX_AXES];
    Param param[MAX_PARAMS];
    Ext *ext;
    Val *val;
    int val_cap, ext_cap;
    Out out[MAX_PARAMS];
    Hold param_hold[MAX_PARAMS]; /* pinned hold of an input read in place */
    uint32_t row_axes;           /* bit set */
} Prog;

/* Extents of all axes; -1 where not known yet (only rows may stay so). One element axis may have a range: its extent
 * comes with each launch, and whatever is planned, reserved or counted before is so for the largest. */
typedef struct Shape {
    int64_t n[MAX_AXES];     /* of a ranged axis: the largest */
    int64_t least[MAX_AXES]; /* of a ranged axis: the least, 1 or more; 0: not ranged */
} Shape;
/* An extent as text: "4096", or "1..4096" of a ranged axis; one number twice is that number. */
void extent_print(const Shape *s, int axis, Buf *out);
bool extent_read(const char *text, Shape *s, int axis); /* also a range that no kernel can have; false: no extent */
int shape_ranged(const Shape *s);                       /* the ranged axis; -1: none */
Shape shape_at(const Shape *s, int64_t n);              /* the same with the ranged axis fixed at n */
/* Half of the largest extent, of as many elements at a time where that is a multiple of 2, 4, 8 or 16, so that packs
 * fit both or neither; or the least; 0: not ranged. */
int64_t shape_half(const Shape *s);
/* Of simplified programs: the scalar parameter, called like the ranged axis, that has its extent; -1: none. */
int prog_extent(const Prog *p, const Shape *s);
int prog_axis(const Prog *p, const char *name);  /* -1: none */
int prog_param(const Prog *p, const char *name); /* -1: none */
/* Fills declared axes and checks the rest: every element extent is known and >= 0, products fit 63 bits. */
Err shape_bind(Cx *cx, const Prog *p, Shape *s);

/* Fills v's ty and axes from its op and operands, which must be values below n of p; diagnostics where it does not fit.
 * The one place that says what a value is: building calls it, and the verifier compares with it. */
Err prog_infer(Cx *cx, const Prog *p, int n, Val *v);

/* Building. Values equal in everything but name are made once (the first name stays). -1 and a diagnostic where types
 * do not fit. */
/* ty and axes are filled here, but for the ty of OP_CONST. A pinned hold is never merged with another one. */
int prog_add(Cx *cx, Prog *p, Val v);
int prog_load(Cx *cx, Prog *p, int param); /* in place */
int prog_idx(Cx *cx, Prog *p, int axis);   /* the coordinate, i64 */
int prog_scalar(Cx *cx, Prog *p, int param);
int prog_const_f(Cx *cx, Prog *p, Ty ty, double x);
int prog_const_i(Cx *cx, Prog *p, Ty ty, int64_t x);
int prog_op(Cx *cx, Prog *p, Op op, int x, int y,
            int z); /* inserts casts to the joined type; folds constants; at from operand */
int prog_cast(Cx *cx, Prog *p, Ty to, int x);
int prog_red(Cx *cx, Prog *p, Red red, int x, uint32_t over, Policy pol);
bool val_in_place(const Prog *p, const Val *v); /* an OP_LOAD read at the parameter's own axes */

void prog_print(const Prog *p, Buf *out);                      /* exact text; reads back to an equal Prog */
Err prog_read(Cx *cx, const char *text, size_t n, Prog **out); /* any bytes: a Prog that verifies, or diagnostics */
Err prog_verify(Cx *cx, const Prog *p);
#endif
