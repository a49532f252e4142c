/* Tokens -> Ast. Recursive descent; a fault is reported where it is met, the parser then skips to the end of the
 * statement (or of the parameter) and goes on, so that one run reports many. Depth is bounded by LANG_NESTING, memory
 * by LANG_SOURCE and LANG_NODES. */
#include "ast.h"

#include <string.h>

enum { MAX_ARGS = MAX_RANK };
enum { PREC_OR = 1, PREC_AND, PREC_NOT, PREC_CMP, PREC_ADD, PREC_MUL, PREC_UNARY };

static const struct {
    int sym, prec;
    Op op;
} infix[] = {{KW_OR, PREC_OR, OP_OR}, {KW_AND, PREC_AND, OP_AND}, {'<', PREC_CMP, OP_LT},    {SYM_LE, PREC_CMP, OP_LE},
             {'>', PREC_CMP, OP_GT},  {SYM_GE, PREC_CMP, OP_GE},  {SYM_EQ, PREC_CMP, OP_EQ}, {SYM_NE, PREC_CMP, OP_NE},
             {'+', PREC_ADD, OP_ADD}, {'-', PREC_ADD, OP_SUB},    {'*', PREC_MUL, OP_MUL},   {'/', PREC_MUL, OP_DIV},
             {'%', PREC_MUL, OP_MOD}};

typedef struct Parse {
    Cx *cx;
    const char *file;
    Lex lx;
    Tok t, last;  /* the token at hand, the one before it */
    bool in_stmt; /* newlines and ; end things */
    int open;     /* brackets open around t */
    int nest;     /* operands being parsed */
    int in_index;
    Kernel *k;
    int *table; /* open addressing: name numbers + 1 of the kernel at hand */
    int table_cap;
    Err err; /* the first fault's status */
} Parse;

/* ---- faults ---- */

static bool fail(Parse *p, Err e) {
    if (p->err == OK) p->err = e;
    return false;
}

static Place place_of(const Parse *p, const Tok *t) {
    return (Place){p->file, t->line, t->col, t->len ? t->len : 1};
}

static bool ends(const Parse *p) {
    if (p->t.kind == TOK_END) return true;
    return p->in_stmt && ((p->t.nl && p->open == 0) || p->t.sym == ';' || p->t.sym == '}');
}

static bool syntax(Parse *p, const char *accept) {
    if (p->t.kind == TOK_BAD) return fail(p, ERR_LANGUAGE); /* the lexer has reported it */
    Place at = place_of(p, &p->t);
    if (p->t.kind == TOK_END || (p->in_stmt && p->t.nl && p->open == 0)) {
        const char *what = p->t.kind == TOK_END ? "end of the file" : "end of the line";
        if (p->last.line) at = (Place){p->file, p->last.line, p->last.col + p->last.len, 1};
        return fail(p, diag(p->cx, S_LANG_SYNTAX, at, accept, "found the %s", what));
    }
    int shown = p->t.len > LANG_NAME ? LANG_NAME : p->t.len;
    return fail(p, diag(p->cx, S_LANG_SYNTAX, at, accept, "found '%.*s'", shown, p->t.s));
}

static bool limit(Parse *p, const Tok *t, const char *what, int n) {
    const char *accept = arena_printf(p->cx->a, "up to %d %s", n, what);
    return fail(p, diag(p->cx, S_LANG_LIMIT, place_of(p, t), accept, "more than %d %s", n, what));
}

/* ---- tokens and names ---- */

static void next(Parse *p) {
    p->last = p->t;
    p->t = lex_next(&p->lx);
    if (p->t.kind == TOK_BAD) fail(p, ERR_LANGUAGE);
}

static bool take(Parse *p, int sym) {
    if (p->t.sym != sym || (p->in_stmt && ends(p))) return false;
    next(p);
    return true;
}

static bool open_with(Parse *p, int sym, const char *accept) {
    if (!take(p, sym)) return syntax(p, accept);
    p->open++;
    return true;
}

static bool close_with(Parse *p, int sym, const char *accept) {
    if (!take(p, sym)) return syntax(p, accept);
    p->open--;
    return true;
}

static int intern(Parse *p, const char *s, int len) {
    Kernel *k = p->k;
    if (2 * (k->nids + 1) > p->table_cap) {
        p->table_cap = p->table_cap ? 2 * p->table_cap : 64;
        p->table = NEWN(p->cx->a, int, p->table_cap);
        for (int i = 0; i < k->nids; i++) {
            uint64_t h = hash_bytes(k->id[i], (size_t)k->id_len[i]).lo;
            while (p->table[h & (uint64_t)(p->table_cap - 1)]) h++;
            p->table[h & (uint64_t)(p->table_cap - 1)] = i + 1;
        }
    }
    uint64_t h = hash_bytes(s, (size_t)len).lo;
    for (;; h++) {
        int *slot = &p->table[h & (uint64_t)(p->table_cap - 1)];
        if (!*slot) {
            GROW(p->cx->a, k->id, k->nids, k->id_cap);
            GROW(p->cx->a, k->id_len, k->nids, k->id_len_cap);
            k->id[k->nids] = arena_str(p->cx->a, s, (size_t)len);
            k->id_len[k->nids] = len;
            *slot = ++k->nids;
            return k->nids - 1;
        }
        int i = *slot - 1;
        if (k->id_len[i] == len && memcmp(k->id[i], s, (size_t)len) == 0) return i;
    }
}

static Ident ident(Parse *p, const Tok *t) {
    return (Ident){intern(p, t->s, t->len), t->line, t->col};
}

/* A name that is being given to something. */
static bool new_name(Parse *p, Ident *out, const char *accept) {
    if (p->t.kind != TOK_NAME || ends(p)) return syntax(p, accept);
    if (lex_reserved(p->t.s, p->t.len))
        fail(p, diag(p->cx, S_LANG_RESERVED, place_of(p, &p->t), "any other name", "'%.*s' is a word of the language",
                     p->t.len, p->t.s));
    *out = ident(p, &p->t);
    next(p);
    return true;
}

/* ---- expressions: each returns a node's number, or -1 after a report ---- */

static int expr(Parse *p, int min);

static int add_node(Parse *p, Node n) {
    Kernel *k = p->k;
    if (k->nnodes >= LANG_NODES) return limit(p, &p->last, "operators and operands in a kernel", LANG_NODES), -1;
    n.in_index = p->in_index > 0;
    GROW(p->cx->a, k->node, k->nnodes, k->node_cap);
    k->node[k->nnodes] = n;
    return k->nnodes++;
}

static Node node_at(NodeKind kind, const Tok *t) {
    return (Node){.kind = kind, .at = {-1, t->line, t->col}, .len = t->len, .fill = -1, .nover = -1};
}

static void set_args(Parse *p, Node *n, const int *args, int count) {
    Kernel *k = p->k;
    n->args = k->nlist;
    n->nargs = count;
    for (int i = 0; i < count; i++) {
        GROW(p->cx->a, k->list, k->nlist, k->list_cap);
        k->list[k->nlist++] = args[i];
    }
}

static int add_op(Parse *p, Op op, const Tok *t, int x, int y) {
    Node n = node_at(ND_OP, t);
    n.op = op;
    set_args(p, &n, (int[]){x, y}, y < 0 ? 1 : 2);
    return add_node(p, n);
}

static bool over_axes(Parse *p, Node *n) {
    Kernel *k = p->k;
    n->over = k->nidents;
    n->nover = 0;
    do {
        if (p->t.kind != TOK_NAME) return syntax(p, "the name of an axis");
        if (n->nover == MAX_AXES) return limit(p, &p->t, "axes", MAX_AXES);
        GROW(p->cx->a, k->idents, k->nidents, k->ident_cap);
        k->idents[k->nidents++] = ident(p, &p->t);
        n->nover++;
        next(p);
    } while (take(p, ','));
    return true;
}

/* x(args over axes) @policy; t is past the name. */
static int call(Parse *p, const Tok *name) {
    int args[MAX_ARGS], count = 0;
    Node n = node_at(ND_CALL, name);
    if (!open_with(p, '(', "'('")) return -1;
    if (p->t.sym != ')') {
        do {
            if (count == MAX_ARGS) return limit(p, &p->t, "arguments", MAX_ARGS), -1;
            if ((args[count++] = expr(p, PREC_OR)) < 0) return -1;
        } while (take(p, ','));
        if (take(p, KW_OVER) && !over_axes(p, &n)) return -1;
    }
    if (!close_with(p, ')', n.nover < 0 ? "an operator, ',', 'over' or ')'" : "',' or ')'")) return -1;
    if (take(p, '@')) {
        bool ordered = p->t.len == 7 && memcmp(p->t.s, "ordered", 7) == 0;
        if (ends(p) || !(ordered || (p->t.len == 4 && memcmp(p->t.s, "tree", 4) == 0))) {
            syntax(p, "ordered, tree");
            return -1;
        }
        n.policed = true;
        n.policy = ordered ? POLICY_ORDERED : POLICY_TREE;
        next(p);
    }
    n.at.id = intern(p, name->s, name->len);
    set_args(p, &n, args, count);
    return add_node(p, n);
}

static int unary(Parse *p);

/* x[args] else e; t is past the name. */
static int read_at(Parse *p, const Tok *name) {
    int args[MAX_ARGS], count = 0;
    Node n = node_at(ND_READ, name);
    if (!open_with(p, '[', "'['")) return -1;
    p->in_index++;
    while (p->t.sym != ']') {
        if (count == MAX_ARGS) return limit(p, &p->t, "indexes", MAX_ARGS), -1;
        if ((args[count++] = expr(p, PREC_OR)) < 0) return -1;
        if (!take(p, ',')) break;
    }
    if (!close_with(p, ']', "an operator, ',' or ']'")) return -1;
    p->in_index--;
    if (take(p, KW_ELSE) && (n.fill = unary(p)) < 0) return -1;
    n.at.id = intern(p, name->s, name->len);
    set_args(p, &n, args, count);
    return add_node(p, n);
}

static int primary(Parse *p) {
    static const char accept[] = "a number, a name, a call, '(' or '-'";
    Tok t = p->t;
    Node n = node_at(ND_INT, &t);
    if (ends(p)) return syntax(p, accept), -1;
    if (t.sym == '(') {
        if (!open_with(p, '(', accept)) return -1;
        int e = expr(p, PREC_OR);
        return e < 0 || !close_with(p, ')', "an operator or ')'") ? -1 : e;
    }
    if (t.sym == KW_NOT) return syntax(p, "not in brackets: (not a)"), -1;
    if (t.kind != TOK_INT && t.kind != TOK_FLOAT && t.kind != TOK_NAME) return syntax(p, accept), -1;
    if (t.sym == KW_IDX) {
        next(p);
        if (!open_with(p, '(', "'(' and the name of an axis")) return -1;
        if (p->t.kind != TOK_NAME) return syntax(p, "the name of an axis"), -1;
        n = node_at(ND_IDX, &p->t);
        n.at = ident(p, &p->t);
        next(p);
        return close_with(p, ')', "')'") ? add_node(p, n) : -1;
    }
    if (t.kind == TOK_NAME && (t.sym == 0)) {
        next(p);
        if (p->t.sym == '(' && !ends(p)) return call(p, &t);
        if (lex_reserved(t.s, t.len)) return syntax(p, "'(': the name before it is a function"), -1;
        if (p->t.sym == '[' && !ends(p)) return read_at(p, &t);
        n.kind = ND_NAME;
        n.at = ident(p, &t);
        return add_node(p, n);
    }
    if (t.sym == KW_TRUE || t.sym == KW_FALSE)
        n.kind = ND_BOOL, n.u = t.sym == KW_TRUE;
    else if (t.sym == KW_INF)
        n.kind = ND_FLOAT, n.d = (double)__builtin_inf();
    else if (t.sym == KW_NAN)
        n.kind = ND_FLOAT, n.d = (double)__builtin_nan("");
    else if (t.kind == TOK_FLOAT)
        n.kind = ND_FLOAT, n.d = t.d;
    else if (t.kind == TOK_INT)
        n.u = t.u;
    else
        return syntax(p, accept), -1;
    next(p);
    return add_node(p, n);
}

/* True when the operand may go deeper; every way back into expr() passes here. */
static bool deeper(Parse *p) {
    return p->nest++ < LANG_NESTING || limit(p, &p->t, "operands nested in each other", LANG_NESTING);
}

static int unary(Parse *p) {
    int e = -1;
    if (deeper(p)) {
        Tok t = p->t;
        if (take(p, '-')) {
            e = unary(p);
            if (e >= 0) e = add_op(p, OP_NEG, &t, e, -1);
        } else {
            e = primary(p);
            if (e >= 0 && p->t.sym == '[' && !ends(p)) {
                fail(p, diag(p->cx, S_LANG_GATHER, place_of(p, &p->t), "the name of an 'in' parameter before '['",
                             "only parameters can be read at an index"));
                e = -1;
            }
        }
    }
    p->nest--;
    return e;
}

static int negation(Parse *p) {
    int e = -1;
    Tok t = p->t;
    if (deeper(p)) {
        next(p);
        e = expr(p, PREC_NOT);
        if (e >= 0) e = add_op(p, OP_NOT, &t, e, -1);
    }
    p->nest--;
    return e;
}

static int expr(Parse *p, int min) {
    int e = p->t.sym == KW_NOT && min <= PREC_NOT && !ends(p) ? negation(p) : unary(p);
    while (e >= 0 && !ends(p)) {
        int i = 0;
        while (i < COUNT(infix) && infix[i].sym != p->t.sym) i++;
        if (i == COUNT(infix) || infix[i].prec < min) break;
        Tok t = p->t;
        next(p);
        p->t.nl = false; /* an operator at the end of a line goes on in the next */
        int r = expr(p, infix[i].prec + 1);
        if (r < 0 || (e = add_op(p, infix[i].op, &t, e, r)) < 0) return -1;
        if (infix[i].prec != PREC_CMP) continue;
        for (int j = 0; j < COUNT(infix); j++)
            if (infix[j].prec == PREC_CMP && infix[j].sym == p->t.sym && !ends(p)) {
                fail(p, diag(p->cx, S_LANG_CHAIN, place_of(p, &p->t), "a < b and b < c", "comparisons do not chain"));
                return -1;
            }
    }
    return e;
}

/* ---- statements ---- */

static bool hold_kind(Parse *p, Hold *out) {
    static const char accept[] = "reload, register, register.f32, output, shared, recompute";
    char text[2 * LANG_NAME + 2];
    Tok t = p->t;
    if (ends(p) || t.kind != TOK_NAME) return syntax(p, accept);
    int n = t.len;
    memcpy(text, t.s, (size_t)n);
    next(p);
    if (take(p, '.')) {
        if (ends(p) || p->t.kind != TOK_NAME) return syntax(p, "f32");
        text[n++] = '.';
        memcpy(text + n, p->t.s, (size_t)p->t.len);
        n += p->t.len;
        next(p);
    }
    text[n] = 0;
    if (hold_find(text, out) && *out != HOLD_AUTO) return true;
    return fail(p, diag(p->cx, S_LANG_HOLD_KIND, place_of(p, &t), accept, "no home is called '%s'", text));
}

static bool statement(Parse *p) {
    Kernel *k = p->k;
    Stmt s = {.kind = ST_ASSIGN, .first = k->nnodes, .root = -1};
    if (take(p, KW_HOLD)) {
        s.kind = ST_HOLD;
        if (p->t.kind != TOK_NAME || ends(p)) return syntax(p, "the name of a value or an input");
        s.name = ident(p, &p->t);
        next(p);
        if (!take(p, ':')) return syntax(p, "':'");
        if (!hold_kind(p, &s.hold)) return false;
    } else {
        if (take(p, KW_AXIS)) s.kind = ST_AXIS;
        if (!new_name(p, &s.name, s.kind == ST_AXIS ? "a name for the axis" : "name = ..., axis, hold or '}'"))
            return false;
        if (!take(p, '=')) return syntax(p, "'='");
        if ((s.root = expr(p, PREC_OR)) < 0) return false;
    }
    GROW(p->cx->a, k->stmt, k->nstmts, k->stmt_cap);
    k->stmt[k->nstmts++] = s;
    return ends(p) || syntax(p, "an operator, or the end of the statement");
}

static bool starts_statement(const Parse *p) {
    if (p->t.sym == KW_HOLD || p->t.sym == KW_AXIS) return true;
    Lex ahead = p->lx;
    ahead.cx = NULL;
    return p->t.kind == TOK_NAME && lex_next(&ahead).sym == '=';
}

/* After a fault: to the end of the statement. A bracket left open does not swallow the statements after it. */
static void skip_statement(Parse *p, const char *start) {
    if (p->t.s == start && p->t.kind != TOK_END) next(p);
    while (p->t.kind != TOK_END && p->t.sym != '}' && p->t.sym != ';' && p->t.sym != KW_KERNEL) {
        if (p->t.nl && (p->open <= 0 || starts_statement(p))) break;
        if (p->t.sym == '(' || p->t.sym == '[') p->open++;
        if (p->t.sym == ')' || p->t.sym == ']') p->open--;
        next(p);
    }
}

static bool body(Parse *p) {
    for (;;) {
        while (p->t.sym == ';') next(p);
        p->in_stmt = false;
        if (take(p, '}')) return true;
        if (p->t.kind == TOK_END || p->t.sym == KW_KERNEL) return syntax(p, "a statement or '}'");
        p->open = p->nest = p->in_index = 0;
        p->t.nl = false;
        p->in_stmt = true;
        const char *start = p->t.s;
        if (!statement(p)) skip_statement(p, start);
    }
}

/* ---- kernels ---- */

static bool signed_number(Parse *p, ParamDecl *d) {
    bool minus = take(p, '-');
    Tok t = p->t;
    if (t.kind == TOK_INT)
        d->def = (double)t.u;
    else if (t.kind == TOK_FLOAT)
        d->def = t.d;
    else if (t.sym == KW_INF)
        d->def = (double)__builtin_inf();
    else if (t.sym == KW_NAN)
        d->def = (double)__builtin_nan("");
    else if (!minus && (t.sym == KW_TRUE || t.sym == KW_FALSE))
        d->def = t.sym == KW_TRUE;
    else
        return syntax(p, "a number");
    if (t.kind == TOK_INT && t.u >= (uint64_t)1 << 53)
        return fail(p, diag(p->cx, S_LANG_NUMBER, place_of(p, &t), "whole numbers below 9007199254740992, or a float",
                            "a default is kept as f64, which has no room for '%.*s'", t.len, t.s));
    if (minus) d->def = -d->def;
    d->has_default = true;
    next(p);
    return true;
}

static bool type_name(Parse *p, Ident *out) {
    static const char *const types[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8",  "i16",
                                        "i32", "i64", "u8",  "u16",  "u32",    "u64",    "bool"};
    static const char accept[] =
        "f64 f32 f16 bf16 f8e4m3 f8e5m2 i8 i16 i32 i64 u8 u16 u32 u64 bool, or a type variable such as T";
    Kernel *k = p->k;
    Tok t = p->t;
    Ty ty;
    if (t.kind != TOK_NAME) return syntax(p, accept);
    *out = ident(p, &t);
    next(p);
    if (ty_find(t.s, (size_t)t.len, &ty)) return true;
    const char *text = k->id[out->id];
    char low[LANG_NAME + 1];
    for (int i = 0; i <= t.len; i++) low[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    if (text[0] < 'A' || text[0] > 'Z' || ty_find(low, (size_t)t.len, &ty))
        return fail(p, diag(p->cx, S_LANG_TYPE_UNKNOWN, place_of(p, &t), accept, "no type is called '%s'%s", text,
                            near_text(p->cx->a, low, types, COUNT(types))));
    for (int i = 0; i < k->ntypes; i++)
        if (str_eq(k->type[i], text)) return true;
    if (k->ntypes == MAX_PARAMS) return limit(p, &t, "type variables", MAX_PARAMS);
    k->type[k->ntypes++] = text;
    return true;
}

static bool param(Parse *p) {
    Kernel *k = p->k;
    ParamDecl d = {.dir = DIR_SCALAR};
    if (k->nparams == MAX_PARAMS) return limit(p, &p->t, "parameters", MAX_PARAMS);
    if (take(p, KW_CONST)) d.dir = DIR_CONST;
    if (!new_name(p, &d.name, "the name of a parameter") || (!take(p, ':') && !syntax(p, "':'"))) return false;
    if (d.dir != DIR_CONST) {
        if (take(p, KW_IN))
            d.dir = DIR_IN;
        else if (take(p, KW_OUT))
            d.dir = DIR_OUT;
        else if (take(p, KW_INOUT))
            d.dir = DIR_INOUT;
    }
    if (!type_name(p, &d.type)) return false;
    bool tensor = d.dir != DIR_SCALAR && d.dir != DIR_CONST;
    if (tensor) {
        if (!open_with(p, '[', "'[' and the names of the axes")) return false;
        while (p->t.sym != ']') {
            if (d.rank == MAX_RANK) return limit(p, &p->t, "axes in a parameter", MAX_RANK);
            if (!new_name(p, &d.axis[d.rank++], "the name of an axis")) return false;
            if (!take(p, ',')) break;
        }
        if (!close_with(p, ']', "',' or ']'")) return false;
    } else if (p->t.sym == '[') {
        const char *name = k->id[d.name.id];
        return fail(p, diag(p->cx, S_LANG_DIRECTION, place_of(p, &p->t), "in, out or inout before the type",
                            "'%s' has axes but no direction", name));
    } else if (take(p, '=') && !signed_number(p, &d)) {
        return false;
    }
    k->param[k->nparams++] = d;
    return p->t.sym == ',' || p->t.sym == ')' || syntax(p, tensor ? "',' or ')'" : "'=', ',' or ')'");
}

/* After a fault: to the , or ) behind the parameter, or to where the list has ended without one. */
static void skip_param(Parse *p) {
    while (p->t.kind != TOK_END && p->t.sym != '{' && p->t.sym != KW_KERNEL &&
           !(p->open <= 1 && (p->t.sym == ',' || p->t.sym == ')'))) {
        if (p->t.sym == '(' || p->t.sym == '[') p->open++;
        if (p->t.sym == ')' || p->t.sym == ']') p->open--;
        next(p);
    }
    p->open = 1;
}

static bool params(Parse *p) {
    if (!open_with(p, '(', p->k->nrows ? "',' or '('" : "'for' or '('")) return false;
    while (p->t.sym != ')') {
        if (!param(p)) {
            skip_param(p);
            if (p->t.sym != ',' && p->t.sym != ')') return false;
        }
        if (!take(p, ',')) break;
    }
    return close_with(p, ')', "the name of a parameter or ')'");
}

static bool kernel(Parse *p, Ast *ast) {
    Kernel *k = p->k = NEW(p->cx->a, Kernel);
    p->table = NULL;
    p->table_cap = p->open = 0;
    p->in_stmt = false;
    Tok name;
    next(p); /* kernel */
    name = p->t;
    /* Nothing refers to a kernel from within the language, so that its name may be that of a function: kernel sum. */
    if (name.kind != TOK_NAME || name.sym) return syntax(p, "a name for the kernel");
    k->name = ident(p, &name);
    next(p);
    const char *text = k->id[k->name.id];
    for (int i = 0; i < ast->nkernels; i++)
        if (str_eq(ast_kernel_name(ast, i), text)) {
            fail(p, diag(p->cx, S_LANG_KERNEL_TWICE, place_of(p, &name), "another name",
                         "a second kernel called '%s'; the first is in line %d", text, ast->kernel[i]->name.line));
            break;
        }
    if (ast->nkernels == LANG_KERNELS) return limit(p, &name, "kernels in a file", LANG_KERNELS);
    GROW(p->cx->a, ast->kernel, ast->nkernels, ast->cap);
    ast->kernel[ast->nkernels++] = k;
    if (take(p, KW_FOR)) {
        do {
            if (k->nrows == MAX_AXES) return limit(p, &p->t, "axes", MAX_AXES);
            if (!new_name(p, &k->row[k->nrows++], "the name of a row axis")) return false;
        } while (take(p, ','));
    }
    if (!params(p) && p->t.sym != '{') return false;
    return take(p, '{') ? body(p) : syntax(p, "'{'");
}

Err lang_parse(Cx *cx, const char *file, const char *text, size_t n, Ast **out) {
    *out = NULL;
    Place top = {file ? file : "program", 1, 1, 1};
    if (n > LANG_SOURCE) return diag(cx, S_LANG_LIMIT, top, "source of up to 1048576 bytes", "source of %zu bytes", n);
    Ast *ast = NEW(cx->a, Ast);
    ast->file = top.file = arena_str(cx->a, top.file, strlen(top.file));
    Parse p = {.cx = cx, .file = ast->file};
    lex_open(&p.lx, cx, p.file, text, n);
    next(&p);
    if (p.t.kind == TOK_END)
        return diag(cx, S_LANG_EMPTY, top, "kernel name for rows (...) { ... }", "no kernel in this text");
    while (p.t.kind != TOK_END) {
        bool good = p.t.sym == KW_KERNEL ? kernel(&p, ast) : syntax(&p, "kernel");
        p.in_stmt = false;
        while (!good && p.t.kind != TOK_END && p.t.sym != KW_KERNEL) next(&p);
    }
    if (p.err == OK) *out = ast;
    return p.err;
}

int ast_kernels(const Ast *a) {
    return a->nkernels;
}

const char *ast_kernel_name(const Ast *a, int i) {
    return a->kernel[i]->id[a->kernel[i]->name.id];
}

int ast_type_vars(const Ast *a, int kernel, const char *const **names) {
    *names = a->kernel[kernel]->type;
    return a->kernel[kernel]->ntypes;
}
