/* Inside lang/: tokens, the Ast, and what lexer, parser and the two halves of the type checker ask of each other. */
#ifndef ROWFOLD_LANG_AST_H
#define ROWFOLD_LANG_AST_H

#include "lang.h"

/* ---- tokens ---- */
typedef enum TokKind { TOK_END, TOK_BAD, TOK_NAME, TOK_INT, TOK_FLOAT, TOK_PUNCT } TokKind;
/* What a token means: 0, a character of punctuation, or one of these. */
enum {
    SYM_LE = 256,
    SYM_GE,
    SYM_EQ,
    SYM_NE,
    KW_KERNEL,
    KW_FOR,
    KW_IN,
    KW_OUT,
    KW_INOUT,
    KW_CONST,
    KW_AXIS,
    KW_OVER,
    KW_ELSE,
    KW_HOLD,
    KW_TRUE,
    KW_FALSE,
    KW_INF,
    KW_NAN,
    KW_AND,
    KW_OR,
    KW_NOT,
    KW_IDX
};
typedef struct Tok {
    TokKind kind;
    int sym;
    bool nl; /* first token of its line: ends a statement unless inside brackets, which only the parser knows */
    const char *s;
    int len, line, col;
    uint64_t u; /* TOK_INT */
    double d;   /* TOK_FLOAT */
} Tok;

typedef struct Lex {
    Cx *cx; /* NULL: say nothing (a look ahead) */
    const char *file, *at, *end, *line_start;
    int line;
} Lex;
void lex_open(Lex *lx, Cx *cx, const char *file, const char *text, size_t n);
Tok lex_next(Lex *lx); /* a fault is reported here and comes back as TOK_BAD; it always moves on, at last to TOK_END */
bool lex_reserved(const char *s, int len); /* keywords and the names of types, operators and reductions */

/* ---- tree ---- */
/* Names are numbered within a kernel, so that the checker looks a name up by indexing. */
typedef struct Ident {
    int id, line, col;
} Ident;

typedef enum NodeKind { ND_INT, ND_FLOAT, ND_BOOL, ND_NAME, ND_IDX, ND_OP, ND_CALL, ND_READ } NodeKind;
/* Nodes lie in the order in which they are evaluated: operands come before their user, so that walking an expression is
 * a loop and no text can make the checker recurse. */
typedef struct Node {
    NodeKind kind;
    Op op;         /* ND_OP */
    bool in_index; /* inside the brackets of a read: a bare axis name means its coordinate */
    bool policed;  /* ND_CALL: a policy was written */
    Policy policy;
    Ident at;        /* id: the name of ND_NAME, ND_IDX, ND_CALL, ND_READ */
    uint64_t u;      /* ND_INT, ND_BOOL */
    double d;        /* ND_FLOAT */
    int args, nargs; /* slice of Kernel.list: nodes */
    int over, nover; /* slice of Kernel.idents: axes; nover -1: no `over` */
    int fill;        /* ND_READ: node of the else part, -1 none */
    int len;         /* bytes under the caret */
} Node;

typedef enum StmtKind { ST_ASSIGN, ST_AXIS, ST_HOLD } StmtKind;
typedef struct Stmt {
    StmtKind kind;
    Ident name;
    int first, root; /* nodes first..root, root is the value */
    Hold hold;
} Stmt;

typedef struct ParamDecl {
    Ident name;
    Dir dir;
    Ident type;
    int rank;
    Ident axis[MAX_RANK];
    bool has_default;
    double def;
} ParamDecl;

typedef struct Kernel {
    Ident name;
    const char **id; /* texts of the names */
    int *id_len;
    int nids, nrows, nparams, nnodes, nlist, nidents, nstmts, ntypes;
    int id_cap, id_len_cap, node_cap, list_cap, ident_cap, stmt_cap;
    Ident row[MAX_AXES];
    ParamDecl param[MAX_PARAMS];
    Node *node;
    int *list;
    Ident *idents;
    Stmt *stmt;
    const char *type[MAX_PARAMS]; /* type variables in order of appearance */
} Kernel;

struct Ast {
    const char *file;
    int nkernels, cap;
    Kernel **kernel;
};

/* ---- checking ---- */
typedef enum SymKind { SYM_NONE, SYM_AXIS, SYM_PARAM, SYM_LOCAL, SYM_TYPE, SYM_POISON } SymKind;
/* The result of a node. Literals keep their exact value until they meet a type. */
typedef enum ResKind { RES_BAD, RES_VAL, RES_INT, RES_FLOAT } ResKind;
typedef struct Res {
    ResKind kind;
    int val;
    bool big; /* RES_INT: the value is (uint64_t)i, above INT64_MAX */
    int64_t i;
    double d;
} Res;
typedef struct Sym {
    SymKind kind;
    int index;     /* axis or parameter */
    Ty ty;         /* SYM_TYPE */
    bool assigned; /* an output that has its value, a local */
    Res value;
    Ident at; /* where it was declared or assigned */
} Sym;

typedef struct Sema {
    Cx *cx;
    const Kernel *k;
    const char *file;
    Prog *p;
    Sym *sym;  /* by name number */
    Res *res;  /* by node */
    Err err;   /* the first fault's status */
    bool full; /* a limit was met: stop */
} Sema;

static inline const char *sema_text(const Sema *s, Ident n) {
    return s->k->id[n.id];
}
Place sema_at(const Sema *s, Ident name);     /* where a name was written */
void sema_fail(Sema *s, Err e);               /* keeps the first status */
bool sema_type(Sema *s, Ident type, Ty *out); /* a type by its name or variable; no complaint when there is none */
void sema_expr(Sema *s, int first, int root); /* fills res[first..root] */
int sema_value(Sema *s, Res r, Ty want,
               Place at); /* the value of a result; a literal takes its type from `want` (TY_NONE: none) */
void sema_unknown(Sema *s, Ident name, Slug slug, const char *what,
                  unsigned kinds); /* complains once a name; kinds: bits 1 << SymKind */

/* ", did you mean 'x'?", or "" when nothing is near. */
const char *near_text(Arena *a, const char *name, const char *const *among, int n);
#endif
