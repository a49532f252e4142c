/* Prog <-> text, one line a fact. The text says what is computed and not where it was written: places are not in it, so
 * that reformatting a source does not change the hash of its Prog. Fields of a line are parted by single spaces: prog
 * softmax axis rows row axis n element axis p element = #1               declared, extent 1 ext #0 = const 260 also:
 * axis n, + #0 #1 param x in f32 [rows,n] hold register param eps scalar f32 = 1e-05 %0 = idx i64 [rows] rows number,
 * operator, type, axes, then what the operator needs %2 = load f32 [rows,n] x [%0,%1]  else %k %3 = reduce f32 [rows]
 * max %2 over [n] tree as m hold register out y = %9 end
 */
#include "ir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const dirs[] = {"in", "out", "inout", "scalar", "const"};
static const char *const policies[] = {"tree", "ordered"};
enum { MAX_FIELDS = 24, MAX_FIELD = 1024 };

/* ---- out ---- */
static void put_axes(const Prog *p, uint32_t axes, Buf *out) {
    buf_str(out, "[");
    for (int i = 0, n = 0; i < p->naxes; i++)
        if (axes >> i & 1) buf_fmt(out, "%s%s", n++ ? "," : "", p->axis[i].name);
    buf_str(out, "]");
}

static void put_const(const Val *v, Buf *out) {
    switch (v->ty) {
    case TY_BOOL: buf_str(out, v->k.b ? "true" : "false"); break;
    case TY_F32:
        if (isnan(v->k.f))
            buf_fmt(out, "0x%llx", (unsigned long long)v->k.u);
        else
            buf_f64(out, (double)v->k.f);
        break;
    case TY_F64:
        if (isnan(v->k.d))
            buf_fmt(out, "0x%llx", (unsigned long long)v->k.u);
        else
            buf_f64(out, v->k.d);
        break;
    case TY_U32:
    case TY_U64: buf_fmt(out, "%llu", (unsigned long long)v->k.u); break;
    default: buf_fmt(out, "%lld", (long long)v->k.i);
    }
}

static void put_val(const Prog *p, int i, Buf *out) {
    const Val *v = &p->val[i];
    buf_fmt(out, "%%%d = %s %s ", i, op_info(v->op)->text, ty_text(v->ty));
    put_axes(p, v->axes, out);
    buf_str(out, " ");
    switch (v->op) {
    case OP_CONST: put_const(v, out); break;
    case OP_SCALAR: buf_str(out, p->param[v->param].name); break;
    case OP_IDX: buf_str(out, p->axis[v->axis].name); break;
    case OP_LOAD:
        buf_fmt(out, "%s [", p->param[v->param].name);
        for (int d = 0; d < p->param[v->param].rank; d++) buf_fmt(out, "%s%%%d", d ? "," : "", v->idx[d]);
        buf_str(out, "]");
        if (v->fill >= 0) buf_fmt(out, " else %%%d", v->fill);
        break;
    case OP_RED:
        buf_fmt(out, "%s %%%d over ", red_info(v->red)->text, v->a[0]);
        put_axes(p, v->over, out);
        buf_fmt(out, " %s", policies[v->policy]);
        break;
    case OP_CAST:
    case OP_BITS: buf_fmt(out, "%s %%%d", ty_text(v->to), v->a[0]); break;
    default:
        for (int k = 0; k < op_info(v->op)->arity; k++) buf_fmt(out, "%s%%%d", k ? " " : "", v->a[k]);
    }
    if (v->name) buf_fmt(out, " as %s", v->name);
    if (v->hold != HOLD_AUTO) buf_fmt(out, " hold %s", hold_text(v->hold));
    buf_str(out, "\n");
}

static void put_param(const Prog *p, int i, Buf *out) {
    const Param *q = &p->param[i];
    buf_fmt(out, "param %s %s %s", q->name, dirs[q->dir], ty_text(q->ty));
    if (q->dir != DIR_SCALAR && q->dir != DIR_CONST) {
        buf_str(out, " [");
        for (int d = 0; d < q->rank; d++) buf_fmt(out, "%s%s", d ? "," : "", p->axis[q->axis[d]].name);
        buf_str(out, "]");
    }
    if (q->has_default) {
        buf_str(out, " = ");
        buf_f64(out, q->def);
    }
    if (p->param_hold[i] != HOLD_AUTO) buf_fmt(out, " hold %s", hold_text(p->param_hold[i]));
    buf_str(out, "\n");
}

void prog_print(const Prog *p, Buf *out) {
    buf_fmt(out, "prog %s\n", p->name);
    for (int i = 0; i < p->naxes; i++) {
        buf_fmt(out, "axis %s %s", p->axis[i].name, p->axis[i].row ? "row" : "element");
        if (p->axis[i].ext >= 0) buf_fmt(out, " = #%d", p->axis[i].ext);
        buf_str(out, "\n");
    }
    for (int i = 0; i < p->next; i++) {
        const Ext *x = &p->ext[i];
        buf_fmt(out, "ext #%d = ", i);
        if (x->op == 'k')
            buf_fmt(out, "const %lld\n", (long long)x->k);
        else if (x->op == 'a')
            buf_fmt(out, "axis %s\n", p->axis[x->k].name);
        else
            buf_fmt(out, "%c #%d #%d\n", x->op, x->l, x->r);
    }
    for (int i = 0; i < p->nparams; i++) put_param(p, i, out);
    for (int i = 0; i < p->nvals; i++) put_val(p, i, out);
    for (int i = 0; i < p->nouts; i++) buf_fmt(out, "out %s = %%%d\n", p->param[p->out[i].param].name, p->out[i].val);
    buf_str(out, "end\n");
}

/* ---- in ---- */
/* One line at a time, cut into fields that end with 0. A field is looked at with `now` and passed with `take`; the
 * first thing that is not as expected makes the one diagnostic, and everything after it answers false. */
typedef struct In {
    Cx *cx;
    Prog *p;
    const char *s, *end;
    int line, n, at;
    char buf[MAX_FIELD];
    char *field[MAX_FIELDS + 1];
    bool bad;
} In;

static bool expected(In *in, const char *what) {
    if (in->bad) return false;
    in->bad = true;
    int col = in->at < in->n ? (int)(in->field[in->at] - in->buf) + 1 : 1;
    diag(in->cx, S_IR_TEXT, (Place){.file = "prog", .line = in->line, .col = col, .len = 1}, what,
         "line %d of a Prog, field %d", in->line, in->at + 1);
    return false;
}

static bool next_line(In *in) {
    in->n = in->at = 0;
    if (in->s == in->end) return expected(in, "a line");
    in->line++;
    const char *nl = memchr(in->s, '\n', (size_t)(in->end - in->s));
    if (!nl) return expected(in, "a line that ends");
    size_t len = (size_t)(nl - in->s);
    if (len >= MAX_FIELD || memchr(in->s, 0, len)) return expected(in, "a line of at most 1023 bytes, none of them 0");
    memcpy(in->buf, in->s, len);
    in->buf[len] = 0;
    in->s = nl + 1;
    for (char *c = in->buf;; c++) {
        if (in->n == MAX_FIELDS) return expected(in, "fewer fields");
        in->field[in->n++] = c;
        if (!(c = strchr(c, ' '))) return true;
        *c = 0;
    }
}

static const char *now(const In *in) {
    return !in->bad && in->at < in->n ? in->field[in->at] : "";
}

static bool take(In *in, const char *word) {
    if (!str_eq(now(in), word)) return false;
    in->at++;
    return true;
}
static bool want(In *in, const char *word) {
    return take(in, word) || expected(in, word);
}
static bool want_end(In *in) {
    return !in->bad && (in->at == in->n || expected(in, "the end of the line"));
}

static int find_word(In *in, const char *const *words, int n, const char *what) {
    for (int i = 0; i < n; i++)
        if (take(in, words[i])) return i;
    expected(in, what);
    return 0;
}

static const char *take_name(In *in) {
    const char *s = now(in);
    if (!*s || strlen(s) > MAX_NAME) {
        expected(in, "a name");
        return "";
    }
    in->at++;
    return arena_str(in->cx->a, s, strlen(s));
}

/* "%12" or "#12", with no sign and no leading zero; moves *s past it. */
static bool ref(const char **s, char mark, int *out) {
    const char *c = *s;
    if (*c++ != mark || *c < '0' || *c > '9' || (*c == '0' && c[1] >= '0' && c[1] <= '9')) return false;
    int n = 0;
    for (int digits = 0; *c >= '0' && *c <= '9'; c++) {
        if (++digits > 6) return false;
        n = n * 10 + (*c - '0');
    }
    *s = c;
    *out = n;
    return true;
}

static int take_ref(In *in, char mark) {
    const char *s = now(in);
    int i = -1;
    if (ref(&s, mark, &i) && !*s)
        in->at++;
    else
        expected(in, mark == '%' ? "a value" : "an extent");
    return i;
}

/* "[a,b]" of axes in their order in the text; the count, or -1. */
static int take_axes(In *in, uint8_t *axis, int max) {
    char *s = in->bad || in->at >= in->n ? NULL : in->field[in->at];
    int n = 0;
    if (!s || *s++ != '[') return expected(in, "axes in brackets"), -1;
    while (*s != ']' || n) {
        size_t len = strcspn(s, ",]");
        if (!s[len] || n == max) return expected(in, "axes in brackets"), -1;
        char stop = s[len];
        s[len] = 0;
        int a = prog_axis(in->p, s);
        s[len] = stop;
        if (a < 0) return expected(in, "an axis"), -1;
        axis[n++] = (uint8_t)a;
        s += len;
        if (*s == ']') break;
        s++;
    }
    if (s[1]) return expected(in, "axes in brackets"), -1;
    in->at++;
    return n;
}

static uint32_t take_set(In *in) {
    uint8_t axis[MAX_AXES];
    uint32_t set = 0;
    int n = take_axes(in, axis, MAX_AXES);
    for (int i = 0; i < n; i++) set |= 1u << axis[i];
    return set;
}

static double take_f64(In *in) {
    const char *s = now(in);
    double x = 0;
    char *end;
    if (str_eq(s, "nan"))
        x = (double)NAN;
    else if (str_eq(s, "inf"))
        x = (double)INFINITY;
    else if (str_eq(s, "-inf"))
        x = -(double)INFINITY;
    else if (!*s || strspn(s, "0123456789+-.e") != strlen(s) || strlen(s) > 32 || (x = text_f64(s, &end), *end) ||
             isinf(x))
        return expected(in, "a number"), 0;
    in->at++;
    return x;
}

static uint64_t take_u64(In *in, int base) {
    const char *s = now(in), *set = base == 16 ? "0123456789abcdef" : "0123456789";
    if (base == 16) s += 2;
    char *end = NULL;
    unsigned long long u = strtoull(s, &end, base);
    /* at most 16 hexadecimal digits cannot overflow; a decimal that did is ULLONG_MAX but another text */
    bool ok = *s && strspn(s, set) == strlen(s) && strlen(s) <= (base == 16 ? 16 : 20);
    if (ok && base == 10 && u == UINT64_MAX) ok = str_eq(s, "18446744073709551615");
    if (!ok) return expected(in, "a number"), 0;
    in->at++;
    return u;
}

static Num take_const(In *in, Ty ty) {
    Num k = {0};
    bool bits = str_starts(now(in), "0x");
    if (ty == TY_BOOL)
        k.b = find_word(in, (const char *const[]){"false", "true"}, 2, "true or false") == 1;
    else if (ty_is_float(ty) && bits)
        k.u = take_u64(in, 16);
    else if (ty == TY_F64)
        k.d = take_f64(in);
    else if (ty == TY_F32) {
        double d = take_f64(in);
        k.f = (float)d;
        if ((double)k.f != d) expected(in, "a number that f32 has");
    } else if (ty == TY_U32 || ty == TY_U64)
        k.u = take_u64(in, 10);
    else if (str_i64(now(in), &k.i))
        in->at++;
    else
        expected(in, "an integer");
    return k;
}

static Ty take_ty(In *in) {
    Ty t = TY_NONE;
    if (ty_find(now(in), strlen(now(in)), &t))
        in->at++;
    else
        expected(in, "a type");
    return t;
}

static int take_param(In *in) {
    int i = prog_param(in->p, now(in));
    if (i >= 0)
        in->at++;
    else
        expected(in, "a parameter");
    return i;
}

static Hold take_hold(In *in) { /* the optional last field of a line */
    Hold h = HOLD_AUTO;
    if (!take(in, "hold")) return h;
    if (hold_find(now(in), &h) && h != HOLD_AUTO)
        in->at++;
    else
        expected(in, "a hold");
    return h;
}

static bool room(In *in, int n, int max, const char *what) {
    if (n < max) return true;
    in->bad = true;
    diag(in->cx, S_IR_LIMIT, (Place){.file = "prog", .line = in->line, .col = 1, .len = 1}, NULL, "more than %d %s",
         max, what);
    return false;
}

static bool read_axis(In *in) {
    Prog *p = in->p;
    if (!room(in, p->naxes, MAX_AXES, "axes")) return false;
    Axis a = {.name = take_name(in), .ext = -1};
    a.row = find_word(in, (const char *const[]){"element", "row"}, 2, "row or element") == 1;
    if (take(in, "=")) a.ext = take_ref(in, '#');
    if (a.row) p->row_axes |= 1u << p->naxes;
    p->axis[p->naxes++] = a;
    return want_end(in);
}

static bool read_ext(In *in) {
    Prog *p = in->p;
    if (!room(in, p->next, MAX_EXTS, "extents")) return false;
    Ext x = {0};
    if (take_ref(in, '#') != p->next) return expected(in, "extents numbered in order");
    if (!want(in, "=")) return false;
    if (take(in, "const")) {
        x.op = 'k';
        if (!str_i64(now(in), &x.k)) return expected(in, "an integer");
        in->at++;
    } else if (take(in, "axis")) {
        x.op = 'a';
        x.k = prog_axis(p, now(in));
        if (x.k < 0) return expected(in, "an axis");
        in->at++;
    } else {
        x.op = "+-*/%"[find_word(in, (const char *const[]){"+", "-", "*", "/", "%"}, 5, "const, axis or an operator")];
        x.l = take_ref(in, '#');
        x.r = take_ref(in, '#');
    }
    GROW(in->cx->a, p->ext, p->next, p->ext_cap);
    p->ext[p->next++] = x;
    return want_end(in);
}

static bool read_param(In *in) {
    Prog *p = in->p;
    if (!room(in, p->nparams, MAX_PARAMS, "parameters")) return false;
    Param q = {.name = take_name(in)};
    q.dir = (Dir)find_word(in, dirs, COUNT(dirs), "in, out, inout, scalar or const");
    q.ty = take_ty(in);
    if (q.dir != DIR_SCALAR && q.dir != DIR_CONST) q.rank = take_axes(in, q.axis, MAX_RANK);
    if ((q.has_default = take(in, "="))) q.def = take_f64(in);
    p->param_hold[p->nparams] = take_hold(in);
    p->param[p->nparams++] = q;
    return want_end(in);
}

static bool read_load(In *in, Val *v) {
    v->param = take_param(in);
    const char *s = now(in);
    int n = 0;
    if (in->bad || *s++ != '[') return expected(in, "indices in brackets");
    while (n < MAX_RANK && ref(&s, '%', &v->idx[n])) {
        n++;
        if (*s != ',') break;
        s++;
    }
    if (*s != ']' || s[1] || (n && s[-1] == ',')) return expected(in, "indices in brackets");
    if (n != in->p->param[v->param].rank) {
        in->bad = true;
        diag(in->cx, S_IR_INDEX, (Place){.file = "prog", .line = in->line, .col = 1, .len = 1}, NULL,
             "%d %s of %s, which has %d dimension%s", n, n == 1 ? "index" : "indices", in->p->param[v->param].name,
             in->p->param[v->param].rank, plural(in->p->param[v->param].rank));
        return false;
    }
    in->at++;
    if (take(in, "else")) v->fill = take_ref(in, '%');
    return !in->bad;
}

static bool read_val(In *in) {
    Prog *p = in->p;
    if (!room(in, p->nvals, MAX_VALS, "values")) return false;
    Val v = {.a = {-1, -1, -1}, .param = -1, .fill = -1, .axis = -1};
    for (int d = 0; d < MAX_RANK; d++) v.idx[d] = -1;
    if (take_ref(in, '%') != p->nvals) return expected(in, "values numbered in order");
    if (!want(in, "=")) return false;
    int op = 0;
    while (op < OP_COUNT && !take(in, op_info((Op)op)->text)) op++;
    if (op == OP_COUNT) return expected(in, "an operator");
    v.op = (Op)op;
    v.ty = take_ty(in);
    v.axes = take_set(in);
    switch (v.op) {
    case OP_CONST: v.k = take_const(in, v.ty); break;
    case OP_SCALAR: v.param = take_param(in); break;
    case OP_IDX:
        v.axis = prog_axis(p, now(in));
        if (v.axis < 0) return expected(in, "an axis");
        in->at++;
        break;
    case OP_LOAD:
        if (!read_load(in, &v)) return false;
        break;
    case OP_RED:
        if (!red_find(now(in), strlen(now(in)), &v.red)) return expected(in, "a reduction");
        in->at++;
        v.a[0] = take_ref(in, '%');
        if (!want(in, "over")) return false;
        v.over = take_set(in);
        v.policy = (Policy)find_word(in, policies, COUNT(policies), "tree or ordered");
        break;
    case OP_CAST:
    case OP_BITS:
        v.to = take_ty(in);
        v.a[0] = take_ref(in, '%');
        break;
    default:
        for (int i = 0; i < op_info(v.op)->arity; i++) v.a[i] = take_ref(in, '%');
    }
    if (take(in, "as")) v.name = take_name(in);
    v.hold = take_hold(in);
    v.at = (Place){.file = "prog", .line = in->line, .col = 1, .len = 1};
    GROW(in->cx->a, p->val, p->nvals, p->val_cap);
    p->val[p->nvals++] = v;
    return want_end(in);
}

static bool read_out(In *in) {
    Prog *p = in->p;
    if (!room(in, p->nouts, MAX_PARAMS, "outputs")) return false;
    Out o = {.param = take_param(in)};
    if (!want(in, "=")) return false;
    o.val = take_ref(in, '%');
    p->out[p->nouts++] = o;
    return want_end(in);
}

Err prog_read(Cx *cx, const char *text, size_t n, Prog **out) {
    In in = {.cx = cx, .p = NEW(cx->a, Prog), .s = text, .end = text + n};
    bool ok = next_line(&in) && want(&in, "prog");
    if (ok) in.p->name = take_name(&in);
    ok = ok && want_end(&in);
    while (ok && (ok = next_line(&in)) && !take(&in, "end")) {
        if (*now(&in) == '%')
            ok = read_val(&in);
        else if (take(&in, "axis"))
            ok = read_axis(&in);
        else if (take(&in, "ext"))
            ok = read_ext(&in);
        else if (take(&in, "param"))
            ok = read_param(&in);
        else if (take(&in, "out"))
            ok = read_out(&in);
        else
            ok = expected(&in, "axis, ext, param, a value, out or end");
    }
    ok = ok && want_end(&in) && (in.s == in.end || expected(&in, "nothing after end"));
    if (!ok) return ERR_LANGUAGE;
    Err e = prog_verify(cx, in.p);
    if (!e) *out = in.p;
    return e;
}
