/* The text of a program (the lines `prog`, `axis`, `ext`, `param`, `%N = ...`, `out`, `end`) -> a graph whose rules
 * were checked, so that whatever walks it need not. */
#ifndef AUDIT_PROGREAD_H
#define AUDIT_PROGREAD_H

#include "number.h"
#include "safe.h"

enum { AXES = 12, PARAMS = 32, RANK = 8, VALS = 4096, EXTS = 256, NAME_MOST = 64 };
enum { TEXT_MOST = 1 << 20 };
enum { POINTS_MOST_LOG2 = 44 };

typedef enum MapOp {
    M_ADD,
    M_SUB,
    M_MUL,
    M_DIV,
    M_NEG,
    M_ABS,
    M_MIN,
    M_MAX,
    M_FLOOR,
    M_ROUND,
    M_SQRT,
    M_RSQRT,
    M_EXP,
    M_EXP2,
    M_LOG,
    M_LOG2,
    M_TANH,
    M_ERF,
    M_SIGMOID,
    M_POW,
    M_LT,
    M_LE,
    M_GT,
    M_GE,
    M_EQ,
    M_NE,
    M_AND,
    M_OR,
    M_NOT,
    M_WHERE,
    MAPS
} MapOp;
typedef struct MapFact {
    const char *text;
    int arity;
    char typing;  /* a: numbers, f: floats, k: numbers and bools, c: compares, b: bools, w: where */
    double ulp;   /* largest error in f32, units in the last place; 0.5: correctly rounded */
    bool special; /* a function of the mathematics library: 2 ulp in f64, 4 with a device's own functions */
    char cost;    /* a: ALU, d: DIV, s: SPECIAL */
} MapFact;
const MapFact *map_fact(MapOp m);

typedef enum RedOp {
    R_SUM,
    R_PROD,
    R_MAX,
    R_MIN,
    R_ANY,
    R_ALL,
    R_ARGMAX,
    R_ARGMIN,
    R_MEAN,
    R_VAR,
    R_NORM2,
    R_LSE,
    REDS
} RedOp;

typedef enum ValKind { V_CONST, V_SCALAR, V_IDX, V_LOAD, V_RED, V_CAST, V_MAP } ValKind;
typedef struct PVal {
    ValKind kind;
    Type ty;
    uint32_t axes;
    int a[3];
    MapOp map;
    RedOp red;
    uint32_t over;
    bool ordered;
    Number k;
    int param, axis, fill;
    int idx[RANK];
    Type to;
    const char *name;
} PVal;

typedef enum Way { W_IN, W_OUT, W_INOUT, W_SCALAR, W_CONST } Way;
typedef struct PParam {
    const char *name;
    Way way;
    Type ty;
    int rank;
    int axis[RANK];
    bool has_default;
    double def;
} PParam;
typedef struct PAxis {
    const char *name;
    bool row;
    int ext;
} PAxis;
typedef struct PExt {
    char op; /* k number, a axis, + - * / % */
    int64_t k;
    int l, r;
} PExt;
typedef struct Program {
    const char *name;
    int naxes, nparams, nvals, nouts, nexts;
    PAxis axis[AXES];
    PParam param[PARAMS];
    PExt ext[EXTS];
    PVal *val;
    int out_param[PARAMS], out_val[PARAMS];
    uint32_t rows;   /* set of row axes */
    int64_t n[AXES]; /* extents, after program_bind */
} Program;

/* NULL and *why where the text is no program. */
Program *program_read(Mem *m, const char *text, size_t n, const char **why);
/* Extents by axis, -1 for not given; declared ones are computed, and must agree where they are given. */
bool program_bind(Mem *m, Program *p, const int64_t ext[AXES], const char **why);
int64_t program_points(const Program *p, uint32_t axes); /* product of extents */
int program_axis(const Program *p, const char *name);    /* -1: none */
int program_param(const Program *p, const char *name);
bool load_in_place(const Program *p, const PVal *v); /* read at the parameter's own axes */
/* The values that v needs, at most 3 + RANK + 1 of them. */
enum { DEPS = 3 + RANK + 1 };
int val_needs(const Program *p, const PVal *v, int dep[DEPS]);
#endif
