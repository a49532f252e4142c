/* The text of a file of kernels -> the statements of one kernel, as trees. A reader of docs/language.md, 1, that takes
 * every text that is a program, and is not asked to explain the others. */
#ifndef AUDIT_SOURCEREAD_H
#define AUDIT_SOURCEREAD_H

#include "safe.h"

typedef enum NodeKind { N_NUMBER, N_NAME, N_MAP, N_CALL, N_READ } NodeKind;
typedef struct Node Node;
struct Node {
    NodeKind kind;
    const char *text;  /* name; of a map its operator: + - * / neg < ... and or not */
    long double value; /* N_NUMBER */
    bool whole;        /* of a number: no point, no exponent */
    int n, nover;      /* N_CALL with `over`: these axes; -1: not said */
    Node *arg[8], *fill;
    const char *over[12];
    bool ordered;
    int def; /* N_NAME: the statement that gave the name its value last, or -1 */
};
typedef struct Param0 {
    const char *name, *way, *type; /* way: in out inout scalar const */
    int naxes;
    const char *axis[8];
    Node *def;
} Param0;
typedef struct Statement {
    const char *name;
    bool is_axis;
    Node *value;
} Statement;
enum { PARAMS0 = 32, STATEMENTS = 4096, ROWS0 = 12 };
typedef struct Kernel {
    int nrows, nparams, nstatements;
    const char *row[ROWS0];
    Param0 param[PARAMS0];
    Statement *statement;
} Kernel;
/* NULL and *why: no such kernel, or its text is none. */
Kernel *kernel_read(Mem *m, const char *text, const char *name, const char **why);
#endif
