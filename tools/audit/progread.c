/* A reader of program texts that believes nothing: every number is in range and every rule of docs/language.md that the
 * evaluation relies on holds, or there is no program. */
#include "progread.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const MapFact maps[MAPS] = {
    [M_ADD] = {"+", 2, 'a', 0.5, false, 'a'},        [M_SUB] = {"-", 2, 'a', 0.5, false, 'a'},
    [M_MUL] = {"*", 2, 'a', 0.5, false, 'a'},        [M_DIV] = {"/", 2, 'a', 0.5, false, 'd'},
    [M_NEG] = {"neg", 1, 'a', 0, false, 'a'},        [M_ABS] = {"abs", 1, 'a', 0, false, 'a'},
    [M_MIN] = {"minimum", 2, 'a', 0, false, 'a'},    [M_MAX] = {"maximum", 2, 'a', 0, false, 'a'},
    [M_FLOOR] = {"floor", 1, 'a', 0, false, 'a'},    [M_ROUND] = {"round", 1, 'a', 0, false, 'a'},
    [M_SQRT] = {"sqrt", 1, 'f', 0.5, false, 'd'},    [M_RSQRT] = {"rsqrt", 1, 'f', 1.5, true, 's'},
    [M_EXP] = {"exp", 1, 'f', 1, true, 's'},         [M_EXP2] = {"exp2", 1, 'f', 1, true, 's'},
    [M_LOG] = {"log", 1, 'f', 1, true, 's'},         [M_LOG2] = {"log2", 1, 'f', 1, true, 's'},
    [M_TANH] = {"tanh", 1, 'f', 1.5, true, 's'},     [M_ERF] = {"erf", 1, 'f', 1.5, true, 's'},
    [M_SIGMOID] = {"sigmoid", 1, 'f', 2, true, 's'}, [M_POW] = {"pow", 2, 'f', 1.5, true, 's'},
    [M_LT] = {"<", 2, 'c', 0, false, 'a'},           [M_LE] = {"<=", 2, 'c', 0, false, 'a'},
    [M_GT] = {">", 2, 'c', 0, false, 'a'},           [M_GE] = {">=", 2, 'c', 0, false, 'a'},
    [M_EQ] = {"==", 2, 'c', 0, false, 'a'},          [M_NE] = {"!=", 2, 'c', 0, false, 'a'},
    [M_AND] = {"and", 2, 'b', 0, false, 'a'},        [M_OR] = {"or", 2, 'b', 0, false, 'a'},
    [M_NOT] = {"not", 1, 'b', 0, false, 'a'},        [M_WHERE] = {"where", 3, 'w', 0, false, 'a'},
};
static const char *const reds[REDS] = {"sum",    "prod",   "max",  "min", "any",   "all",
                                       "argmax", "argmin", "mean", "var", "norm2", "logsumexp"};
static const char *const ways[] = {"in", "out", "inout", "scalar", "const"};

const MapFact *map_fact(MapOp m) {
    return &maps[m];
}

enum { FIELDS = 24, LINE_MOST = 1024 };
typedef struct Lines {
    Mem *m;
    const char *at, *end;
    int line, nfields, now;
    char buf[LINE_MOST];
    char *field[FIELDS];
    const char *why;
    Program *p;
} Lines;

static bool wrong(Lines *l, const char *what) {
    if (!l->why) l->why = mem_fmt(l->m, "line %d of the program: %s", l->line, what);
    return false;
}

static bool line_next(Lines *l) {
    l->nfields = l->now = 0;
    l->line++;
    const char *nl = l->at < l->end ? memchr(l->at, '\n', (size_t)(l->end - l->at)) : NULL;
    if (!nl) return wrong(l, "the text ends before `end`");
    const size_t n = (size_t)(nl - l->at);
    if (n >= LINE_MOST || memchr(l->at, 0, n)) return wrong(l, "too long, or not text");
    if (n) memcpy(l->buf, l->at, n);
    l->buf[n] = 0;
    l->at = nl + 1;
    for (char *c = l->buf; c;) {
        if (l->nfields == FIELDS) return wrong(l, "too many fields");
        l->field[l->nfields++] = c;
        if ((c = strchr(c, ' '))) *c++ = 0;
    }
    return true;
}

static const char *peek(const Lines *l) {
    return l->now < l->nfields ? l->field[l->now] : "";
}
static bool take(Lines *l, const char *word) {
    if (!same_text(peek(l), word)) return false;
    l->now++;
    return true;
}
static bool want(Lines *l, const char *word) {
    return take(l, word) || wrong(l, mem_fmt(l->m, "`%s` is expected", word));
}
static bool ended(Lines *l) {
    return l->now == l->nfields || wrong(l, "more than was expected");
}
static bool one_of(Lines *l, const char *const *words, int n, int *out) {
    for (int i = 0; i < n; i++)
        if (take(l, words[i])) return *out = i, true;
    return wrong(l, "an unknown word");
}

static bool name_take(Lines *l, const char **out) {
    const size_t n = strlen(peek(l));
    if (!n || n > NAME_MOST) return wrong(l, "a name is expected");
    *out = mem_text(l->m, peek(l), n);
    l->now++;
    return true;
}

static bool ref_at(const char **s, char mark, int *out) {
    const char *c = *s;
    if (*c++ != mark || *c < '0' || *c > '9') return false;
    int n = 0;
    for (int k = 0; *c >= '0' && *c <= '9'; c++) {
        if (++k > 6) return false;
        n = n * 10 + (*c - '0');
    }
    *s = c;
    *out = n;
    return true;
}

static bool ref_take(Lines *l, char mark, int below, int *out) {
    const char *s = peek(l);
    if (!ref_at(&s, mark, out) || *s) return wrong(l, "a number of a value or an extent is expected");
    if (*out >= below) return wrong(l, "it names what comes later");
    l->now++;
    return true;
}

static bool int_take(Lines *l, int64_t *out) {
    char *end;
    errno = 0;
    const char *s = peek(l);
    const long long x = strtoll(s, &end, 10);
    if (!*s || *end || errno || strspn(s, "-0123456789") != strlen(s)) return wrong(l, "an integer is expected");
    *out = x;
    l->now++;
    return true;
}

static bool real_take(Lines *l, double *out) {
    const char *s = peek(l);
    char *end;
    if (same_text(s, "nan") || same_text(s, "inf") || same_text(s, "-inf"))
        *out = *s == 'n' ? (double)NAN : *s == 'i' ? (double)INFINITY : -(double)INFINITY;
    else if (!*s || strspn(s, "+-.0123456789e") != strlen(s) || (*out = strtod(s, &end), *end))
        return wrong(l, "a number is expected");
    l->now++;
    return true;
}

static bool axes_take(Lines *l, int *axis, int most, int *count) {
    char *s = l->now < l->nfields ? l->field[l->now] : NULL;
    *count = 0;
    if (!s || *s++ != '[') return wrong(l, "axes in brackets are expected");
    while (*s != ']') {
        const size_t n = strcspn(s, ",]");
        if (!s[n] || *count == most) return wrong(l, "axes in brackets are expected");
        const char stop = s[n];
        s[n] = 0;
        const int a = program_axis(l->p, s);
        if (a < 0) return wrong(l, "an unknown axis");
        for (int i = 0; i < *count; i++)
            if (axis[i] == a) return wrong(l, "an axis twice");
        axis[(*count)++] = a;
        s += n + 1;
        if (stop == ']') {
            s--;
            *s = ']';
        }
    }
    if (s[1]) return wrong(l, "axes in brackets are expected");
    l->now++;
    return true;
}

static bool set_take(Lines *l, uint32_t *set) {
    int axis[AXES], n;
    if (!axes_take(l, axis, AXES, &n)) return false;
    *set = 0;
    for (int i = 0; i < n; i++) *set |= 1u << axis[i];
    return true;
}

static bool type_take(Lines *l, Type *out) {
    if (!type_named(peek(l), out)) return wrong(l, "a type is expected");
    l->now++;
    return true;
}

static bool hold_take(Lines *l) { /* where a value lives changes no result */
    if (!take(l, "hold")) return true;
    const char *name;
    return name_take(l, &name);
}

/* ---- lines ---- */
static bool axis_line(Lines *l) {
    Program *p = l->p;
    PAxis a = {.ext = -1};
    static const char *const kinds[] = {"element", "row"};
    int row;
    if (p->naxes == AXES) return wrong(l, "too many axes");
    if (!name_take(l, &a.name) || !one_of(l, kinds, 2, &row)) return false;
    a.row = row == 1;
    if (take(l, "=") && !ref_take(l, '#', EXTS, &a.ext)) return false;
    if (program_axis(p, a.name) >= 0) return wrong(l, "an axis twice");
    if (a.row) p->rows |= 1u << p->naxes;
    p->axis[p->naxes++] = a;
    return ended(l);
}

static bool ext_line(Lines *l) {
    Program *p = l->p;
    PExt x = {.op = 'k', .l = -1, .r = -1};
    int at;
    static const char *const ops[] = {"+", "-", "*", "/", "%"};
    if (p->nexts == EXTS) return wrong(l, "too many extents");
    if (!ref_take(l, '#', EXTS, &at) || at != p->nexts || !want(l, "=")) return wrong(l, "extents in order");
    if (take(l, "const")) {
        if (!int_take(l, &x.k)) return false;
    } else if (take(l, "axis")) {
        x.op = 'a';
        x.k = program_axis(p, peek(l));
        if (x.k < 0) return wrong(l, "an unknown axis");
        l->now++;
    } else {
        int op;
        if (!one_of(l, ops, 5, &op) || !ref_take(l, '#', at, &x.l) || !ref_take(l, '#', at, &x.r)) return false;
        x.op = *ops[op];
    }
    p->ext[p->nexts++] = x;
    return ended(l);
}

static bool param_line(Lines *l) {
    Program *p = l->p;
    PParam q = {0};
    int way;
    if (p->nparams == PARAMS) return wrong(l, "too many parameters");
    if (!name_take(l, &q.name) || !one_of(l, ways, 5, &way) || !type_take(l, &q.ty)) return false;
    q.way = (Way)way;
    if (program_param(p, q.name) >= 0) return wrong(l, "a parameter twice");
    if (q.way != W_SCALAR && q.way != W_CONST && !axes_take(l, q.axis, RANK, &q.rank)) return false;
    if ((q.has_default = take(l, "=")) && !real_take(l, &q.def)) return false;
    p->param[p->nparams++] = q;
    return hold_take(l) && ended(l);
}

static bool const_take(Lines *l, PVal *v) {
    const Kind kind = type_fact(v->ty)->kind;
    const char *s = peek(l);
    if (kind == BOOL) {
        static const char *const words[] = {"false", "true"};
        int b;
        if (!one_of(l, words, 2, &b)) return false;
        v->k.i = b;
        return true;
    }
    if (kind == REAL && !strncmp(s, "0x", 2)) { /* bits of a NaN */
        v->k.v = (long double)NAN;
        l->now++;
        return strlen(s) > 2 && strspn(s + 2, "0123456789abcdef") == strlen(s + 2) ? true
                                                                                   : wrong(l, "bits are expected");
    }
    if (kind == REAL) {
        double d;
        if (!real_take(l, &d)) return false;
        v->k.v = (long double)d;
        return round_float(v->ty, v->k.v) == v->k.v || isnan(d) ? true : wrong(l, "a number that its type has not");
    }
    if (kind == UINT) {
        char *end;
        errno = 0;
        const unsigned long long u = strtoull(s, &end, 10);
        if (!*s || *end || errno || strspn(s, "0123456789") != strlen(s)) return wrong(l, "an integer is expected");
        v->k.i = (int64_t)u;
        l->now++;
    } else if (!int_take(l, &v->k.i)) {
        return false;
    }
    return round_int(v->ty, int_real(v->ty, v->k.i)) == v->k.i ? true : wrong(l, "a number that its type has not");
}

static bool load_take(Lines *l, PVal *v, int n) {
    v->param = program_param(l->p, peek(l));
    if (v->param < 0) return wrong(l, "an unknown parameter");
    l->now++;
    const PParam *q = &l->p->param[v->param];
    if (q->way != W_IN && q->way != W_INOUT) return wrong(l, "a read of what is no input");
    const char *s = peek(l);
    int count = 0;
    if (*s++ != '[') return wrong(l, "indices in brackets are expected");
    for (bool more = *s != ']'; more;) {
        if (count == q->rank || !ref_at(&s, '%', &v->idx[count]) || v->idx[count] >= n || (*s != ',' && *s != ']'))
            return wrong(l, "indices in brackets are expected");
        count++;
        more = *s == ',';
        if (more) s++;
    }
    if (*s != ']' || s[1] || count != q->rank) return wrong(l, "as many indices as dimensions are expected");
    l->now++;
    for (int d = 0; d < count; d++) {
        const Kind kind = type_fact(l->p->val[v->idx[d]].ty)->kind;
        if (kind != SINT && kind != UINT) return wrong(l, "an index that is no integer");
    }
    if (take(l, "else") && !ref_take(l, '%', n, &v->fill)) return false;
    if (v->ty != type_compute(q->ty) || (v->fill >= 0 && l->p->val[v->fill].ty != v->ty))
        return wrong(l, "a read of another type");
    return true;
}

static bool red_take(Lines *l, PVal *v, int n) {
    int red, policy;
    static const char *const policies[] = {"tree", "ordered"};
    if (!one_of(l, reds, REDS, &red) || !ref_take(l, '%', n, &v->a[0]) || !want(l, "over") || !set_take(l, &v->over) ||
        !one_of(l, policies, 2, &policy))
        return false;
    v->red = (RedOp)red;
    v->ordered = policy == 1;
    const PVal *x = &l->p->val[v->a[0]];
    const Kind kind = type_fact(x->ty)->kind;
    bool fits = v->over && !(v->over & ~x->axes) && !(v->over & l->p->rows) && v->axes == (x->axes & ~v->over);
    switch (v->red) {
    case R_ANY:
    case R_ALL: fits &= kind == BOOL && v->ty == T_BOOL; break;
    case R_ARGMAX:
    case R_ARGMIN: fits &= kind != BOOL && v->ty == I64; break;
    case R_MEAN:
    case R_VAR:
    case R_NORM2:
    case R_LSE: fits &= kind == REAL && x->ty == v->ty; break;
    default: fits &= kind != BOOL && x->ty == v->ty;
    }
    return fits || wrong(l, "a reduction whose types or axes do not fit");
}

static bool map_fits(const Program *p, const PVal *v) {
    const MapFact *f = &maps[v->map];
    Type t[3] = {T_NONE, T_NONE, T_NONE};
    for (int k = 0; k < f->arity; k++) t[k] = p->val[v->a[k]].ty;
    const bool alike = f->arity < 2 || t[0] == t[1];
    const Kind kind = type_fact(t[0])->kind;
    switch (f->typing) {
    case 'a': return alike && v->ty == t[0] && kind != BOOL;
    case 'f': return alike && v->ty == t[0] && kind == REAL;
    case 'c': return alike && v->ty == T_BOOL;
    case 'b': return alike && v->ty == T_BOOL && kind == BOOL;
    default: return kind == BOOL && t[1] == t[2] && v->ty == t[1];
    }
}

static bool val_line(Lines *l) {
    Program *p = l->p;
    const int n = p->nvals;
    PVal v = {.a = {-1, -1, -1}, .param = -1, .fill = -1, .axis = -1};
    int at;
    if (n == VALS) return wrong(l, "too many values");
    if (!ref_take(l, '%', VALS + 1, &at) || at != n || !want(l, "=")) return wrong(l, "values in order");
    const char *op = peek(l);
    static const char *const leaves[] = {"const", "scalar", "idx", "load", "reduce", "cast"};
    int kind = 0;
    while (kind < V_MAP && !same_text(op, leaves[kind])) kind++;
    v.kind = (ValKind)kind;
    if (v.kind == V_MAP) {
        int map = 0;
        while (map < MAPS && !same_text(op, maps[map].text)) map++;
        if (map == MAPS) return wrong(l, mem_fmt(l->m, "`%.20s` is no operator of the language", op));
        v.map = (MapOp)map;
    }
    l->now++;
    if (!type_take(l, &v.ty) || !set_take(l, &v.axes)) return false;
    if (v.ty != type_compute(v.ty)) return wrong(l, "a value of a storage type");
    uint32_t axes = 0;
    bool ok = true, fits = true;
    switch (v.kind) {
    case V_CONST: ok = const_take(l, &v); break;
    case V_SCALAR:
        v.param = program_param(p, peek(l));
        fits = v.param >= 0 && p->param[v.param].way == W_SCALAR && v.ty == type_compute(p->param[v.param].ty);
        l->now++;
        break;
    case V_IDX:
        v.axis = program_axis(p, peek(l));
        fits = v.axis >= 0 && v.ty == I64;
        axes = fits ? 1u << v.axis : 0;
        l->now++;
        break;
    case V_LOAD: ok = load_take(l, &v, n); break;
    case V_RED: ok = red_take(l, &v, n); break;
    case V_CAST:
        ok = type_take(l, &v.to) && ref_take(l, '%', n, &v.a[0]);
        fits = ok && v.ty == type_compute(v.to);
        break;
    case V_MAP:
        for (int k = 0; ok && k < maps[v.map].arity; k++) ok = ref_take(l, '%', n, &v.a[k]);
        fits = ok && map_fits(p, &v);
        break;
    }
    if (!ok) return false;
    if (!fits) return wrong(l, "an operator whose operands do not fit");
    int dep[DEPS];
    for (int k = val_needs(p, &v, dep); k-- > 0;) axes |= p->val[dep[k]].axes;
    if (v.axes != (axes & ~(v.kind == V_RED ? v.over : 0)))
        return wrong(l, "a value over other axes than its operands");
    if (take(l, "as") && !name_take(l, &v.name)) return false;
    if (!hold_take(l) || !ended(l)) return false;
    p->val[p->nvals++] = v;
    return true;
}

static bool out_line(Lines *l) {
    Program *p = l->p;
    const int q = program_param(p, peek(l));
    int val;
    if (q < 0 || (p->param[q].way != W_OUT && p->param[q].way != W_INOUT)) return wrong(l, "an output is expected");
    l->now++;
    if (!want(l, "=") || !ref_take(l, '%', p->nvals, &val)) return false;
    for (int i = 0; i < p->nouts; i++)
        if (p->out_param[i] == q) return wrong(l, "an output twice");
    uint32_t own = 0;
    for (int d = 0; d < p->param[q].rank; d++) own |= 1u << p->param[q].axis[d];
    if (p->val[val].axes & ~own || p->rows & ~own) return wrong(l, "an output that lacks an axis");
    p->out_param[p->nouts] = q;
    p->out_val[p->nouts++] = val;
    return ended(l);
}

Program *program_read(Mem *m, const char *text, size_t n, const char **why) {
    if (n > TEXT_MOST) return *why = "the program's text is too long", NULL;
    Lines *l = mem_get(m, sizeof *l);
    *l = (Lines){.m = m, .at = text, .end = text + n, .p = mem_get(m, sizeof(Program))};
    Program *p = l->p;
    p->val = mem_array(m, VALS, sizeof *p->val);
    bool ok = line_next(l) && want(l, "prog") && name_take(l, &p->name) && ended(l);
    bool end = false;
    while (ok && !end) {
        ok = line_next(l);
        if (!ok) break;
        if (*peek(l) == '%')
            ok = val_line(l);
        else if (take(l, "axis"))
            ok = axis_line(l);
        else if (take(l, "ext"))
            ok = ext_line(l);
        else if (take(l, "param"))
            ok = param_line(l);
        else if (take(l, "out"))
            ok = out_line(l);
        else
            ok = end = want(l, "end") && ended(l);
    }
    if (ok && l->at != l->end) ok = wrong(l, "text after `end`");
    for (int i = 0; ok && i < p->naxes; i++)
        if (p->axis[i].ext >= p->nexts) ok = wrong(l, "an extent that is not there");
    if (ok && !p->nouts) ok = wrong(l, "no output");
    for (int q = 0; ok && q < p->nparams; q++) {
        bool assigned = p->param[q].way != W_OUT && p->param[q].way != W_INOUT;
        for (int i = 0; i < p->nouts; i++) assigned |= p->out_param[i] == q;
        if (!assigned) ok = wrong(l, "an output that is never assigned");
    }
    *why = l->why;
    return ok ? p : NULL;
}

bool program_bind(Mem *m, Program *p, const int64_t ext[AXES], const char **why) {
    const int64_t most = (int64_t)1 << POINTS_MOST_LOG2;
    int64_t x[EXTS];
    for (int i = 0; i < p->naxes; i++) {
        p->n[i] = ext[i];
        if (p->axis[i].ext < 0 && (ext[i] < 0 || ext[i] > most))
            return *why = mem_fmt(m, "the extent of axis %s is not given, or too large", p->axis[i].name), false;
    }
    int done = 0;
    for (int i = 0; i < p->naxes; i++) { /* an extent may use axes that come before, declared ones too */
        if (p->axis[i].ext < 0) continue;
        for (; done <= p->axis[i].ext; done++) {
            const PExt *e = &p->ext[done];
            const int64_t l = e->l >= 0 ? x[e->l] : 0, r = e->r >= 0 ? x[e->r] : 0;
            bool ok = true;
            switch (e->op) {
            case 'k': x[done] = e->k; break;
            case 'a': x[done] = p->n[e->k], ok = p->axis[e->k].ext < 0 || e->k < i; break;
            case '+': ok = !__builtin_add_overflow(l, r, &x[done]); break;
            case '-': ok = !__builtin_sub_overflow(l, r, &x[done]); break;
            case '*': ok = !__builtin_mul_overflow(l, r, &x[done]); break;
            default: /* rounds down; the remainder that belongs to it */
                ok = r != 0 && !(l == INT64_MIN && r == -1);
                if (!ok) break;
                const int64_t q = l / r - (l % r && (l % r < 0) != (r < 0));
                x[done] = e->op == '/' ? q : l - q * r;
            }
            if (!ok) return *why = "an extent that cannot be computed", false;
        }
        const int64_t n = x[p->axis[i].ext];
        if (n < 0 || n > most || (ext[i] >= 0 && ext[i] != n))
            return *why = mem_fmt(m, "axis %s has another extent than the program gives it", p->axis[i].name), false;
        p->n[i] = n;
    }
    int64_t all = 1;
    for (int i = 0; i < p->naxes; i++)
        if (!mul_ok(all, max_of(p->n[i], 1), most, &all)) return *why = "too many elements", false;
    return true;
}

int64_t program_points(const Program *p, uint32_t axes) {
    int64_t n = 1;
    for (int i = 0; i < p->naxes; i++)
        if (axes >> i & 1) n *= p->n[i];
    return n;
}

int program_axis(const Program *p, const char *name) {
    for (int i = 0; i < p->naxes; i++)
        if (same_text(p->axis[i].name, name)) return i;
    return -1;
}

int program_param(const Program *p, const char *name) {
    for (int i = 0; i < p->nparams; i++)
        if (same_text(p->param[i].name, name)) return i;
    return -1;
}

bool load_in_place(const Program *p, const PVal *v) {
    if (v->kind != V_LOAD) return false;
    for (int d = 0; d < p->param[v->param].rank; d++) {
        const PVal *i = &p->val[v->idx[d]];
        if (i->kind != V_IDX || i->axis != p->param[v->param].axis[d]) return false;
    }
    return true;
}

int val_needs(const Program *p, const PVal *v, int dep[DEPS]) {
    int n = 0;
    for (int k = 0; k < 3; k++)
        if (v->a[k] >= 0) dep[n++] = v->a[k];
    if (v->kind == V_LOAD) {
        for (int d = 0; d < p->param[v->param].rank; d++) dep[n++] = v->idx[d];
        if (v->fill >= 0) dep[n++] = v->fill;
    }
    return n;
}
