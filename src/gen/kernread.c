/* Text as kern_print writes it -> Kern. Line by line, each read by the same row of fields that printed it; the verifier
 * then judges the whole. */
#include "kern.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    Cx *cx;
    Kern *k;
    const Prog *prog;
    const char *text;
    size_t n, at;
    int lineno;
    char *line, *p;   /* the line being read (a copy), and where in it */
    const char *note; /* what followed its # */
    Err err;
} Reader;

static bool bad(Reader *r, const char *accept, const char *found) {
    if (r->err == OK)
        r->err =
            diag(r->cx, S_KERN_SYNTAX, (Place){.file = "kern", .line = r->lineno, .col = (int)(r->p - r->line) + 1},
                 accept, "a kern's text cannot be read at \"%.40s\"", found ? found : "the end");
    return false;
}

static bool next_line(Reader *r) {
    if (r->at >= r->n) return false;
    const char *s = r->text + r->at, *end = memchr(s, '\n', r->n - r->at);
    size_t len = end ? (size_t)(end - s) : r->n - r->at;
    r->at += len + (end != NULL);
    r->lineno++;
    r->line = r->p = arena_str(r->cx->a, s, len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)r->line[i];
        if (c < 0x20 || c == 0x7F) {
            r->p = r->line + i;
            return bad(r, "printable text", NULL);
        }
    }
    char *hash = strchr(r->line, '#');
    r->note = NULL;
    if (hash) {
        *hash = 0;
        if (hash[1] == ' ' && hash[2]) r->note = hash + 2;
    }
    return true;
}

/* The next word of the line, or NULL at its end. */
static char *word(Reader *r) {
    while (*r->p == ' ') r->p++;
    if (!*r->p) return NULL;
    char *w = r->p;
    while (*r->p && *r->p != ' ') r->p++;
    if (*r->p) *r->p++ = 0;
    return w;
}

static bool expect(Reader *r, const char *what) {
    char *w = word(r);
    return w && str_eq(w, what) ? true : bad(r, what, w);
}

static bool get_i64(Reader *r, int64_t *out) {
    char *w = word(r);
    return w && str_i64(w, out) ? true : bad(r, "a number", w);
}

static bool get_extent(Reader *r, int axis) {
    char *w = word(r);
    return w && extent_read(w, &r->k->shape, axis) ? true : bad(r, "an extent", w);
}

static bool to_int(Reader *r, const char *w, int *out) {
    int64_t v;
    if (!w || !str_i64(w, &v) || v < INT32_MIN || v > INT32_MAX) return bad(r, "a number", w);
    *out = (int)v;
    return true;
}

static bool get_int(Reader *r, int *out) {
    return to_int(r, word(r), out);
}

/* A number with a letter before it: d0 s0 c0 r0 %0. */
static bool get_ref(Reader *r, char letter, int *out) {
    char *w = word(r);
    if (!w || w[0] != letter || w[1] < '0' || w[1] > '9') return bad(r, "a numbered name", w);
    return to_int(r, w + 1, out);
}

static bool get_ty(Reader *r, Ty *out) {
    char *w = word(r);
    return w && ty_find(w, strlen(w), out) ? true : bad(r, "a type", w);
}

static bool get_word(Reader *r, int dim, int *out) {
    char *w = word(r);
    const DimInfo *d = dim_info(dim);
    for (int i = 0; w && i < d->nlegal; i++)
        if (str_eq(d->word[i], w)) return *out = i, true;
    return bad(r, "a policy", w);
}

static bool get_level(Reader *r, int *out) {
    char *w = word(r);
    for (*out = 0; *out < PASS_LEVELS; ++*out)
        if (w && str_eq(w, pass_text(*out))) return true;
    return bad(r, "subgroups, groups or splits", w);
}

static bool get_param(Reader *r, int *out) {
    char *w = word(r);
    *out = w ? prog_param(r->prog, w) : -1;
    return *out >= 0 ? true : bad(r, "a parameter", w);
}

static bool get_axes(Reader *r, uint32_t *out) {
    char *w = word(r);
    *out = 0;
    if (!w) return bad(r, "axes", w);
    while (!str_eq(w, "-")) {
        char *comma = strchr(w, ',');
        if (comma) *comma = 0;
        int a = prog_axis(r->prog, w);
        if (a < 0) return bad(r, "an axis", w);
        *out |= (uint32_t)1 << a;
        if (!comma) break;
        w = comma + 1;
    }
    return true;
}

static bool get_num(Reader *r, Ty ty, Num *out) {
    char *w = word(r), *end = w;
    if (!w || isspace((unsigned char)*w)) return bad(r, "a number", w);
    *out = (Num){0};
    errno = 0;
    if (ty == TY_BOOL) {
        out->b = str_eq(w, "true");
        return out->b || str_eq(w, "false") ? true : bad(r, "true or false", w);
    }
    if (!ty_is_float(ty)) {
        bool wide = ty == TY_U32 || ty == TY_U64;
        if (wide)
            out->u = strtoull(w, &end, 10);
        else
            out->i = strtoll(w, &end, 10);
        bool fits = ty == TY_I32   ? out->i >= INT32_MIN && out->i <= INT32_MAX
                    : ty == TY_U32 ? out->u <= UINT32_MAX
                                   : true;
        return end != w && !*end && !errno && fits && !(wide && *w == '-') ? true
                                                                           : bad(r, "an integer of that type", w);
    }
    if (str_starts(w, "nan:")) {
        uint64_t bits = strtoull(w + 4, &end, 16);
        uint32_t low = (uint32_t)bits;
        if (end == w + 4 || *end || errno || (ty == TY_F32 && bits > UINT32_MAX)) return bad(r, "the bits of a NaN", w);
        if (ty == TY_F32)
            memcpy(&out->f, &low, sizeof low);
        else
            out->u = bits;
        return (ty == TY_F32 ? out->f != out->f : out->d != out->d) ? true : bad(r, "the bits of a NaN", w);
    }
    double d = text_f64(w, &end);
    if (end == w || *end) return bad(r, "a number", w);
    uint32_t usual = 0x7FC00000U; /* a NaN without bits is this one, whatever its sign */
    if (ty == TY_F64)
        out->d = d;
    else
        out->f = (float)d;
    if (d != d && ty == TY_F64)
        out->u = 0x7FF8000000000000U;
    else if (d != d)
        memcpy(&out->f, &usual, sizeof usual);
    return true;
}

static bool read_ins(Reader *r, char *w) {
    Kern *k = r->k;
    Ins in = {.a = {-1, -1, -1}, .param = -1, .note = r->note};
    bool makes = *w == '%';
    int at = 0;
    if (makes) {
        if (!to_int(r, w + 1, &at) || !expect(r, "=")) return false;
        if (at != k->nins) return bad(r, "instructions numbered in order", w);
        if (!(w = word(r))) return bad(r, "an instruction", w);
    }
    char *dot = strchr(w, '.');
    if (dot) *dot = 0;
    int ki = 0;
    while (ki < K_COUNT && !str_eq(kop_info((KOp)ki)->text, w)) ki++;
    if (ki == K_COUNT) return bad(r, "an instruction", w);
    in.k = (KOp)ki;
    const char *f = kop_info(in.k)->fields;
    if (makes != (*f == '=')) return bad(r, makes ? "no result" : "a result", w);
    if ((strchr(f, 'o') != NULL) != (dot != NULL)) return bad(r, "an operator exactly where there is one", w);
    if (dot && !op_named(dot + 1, &in.op)) return bad(r, "an operator", dot + 1);
    for (; *f; f++) {
        bool fine = true;
        switch (*f) {
        case 't': fine = get_ty(r, &in.ty); break;
        case 'r': {
            char *s = word(r);
            int rank = 0;
            while (s && rank <= RANK_ELEM && !str_eq(rank_text((Rank)rank), s)) rank++;
            if (!s || rank > RANK_ELEM) return bad(r, "row, lane, pack or elem", s);
            in.rank = (Rank)rank;
            break;
        }
        case 'x':
            if (in.op == OP_CAST || in.op == OP_BITS) fine = expect(r, "to") && get_ty(r, &in.to);
            break;
        case 'k': fine = get_num(r, in.ty, &in.c); break;
        case 'n': fine = get_int(r, &in.imm); break;
        case 'v': fine = get_level(r, &in.imm); break;
        case 'p': fine = get_param(r, &in.param); break;
        case 'l': fine = get_word(r, DIM_load, &in.policy); break;
        case 'w': fine = get_word(r, DIM_store, &in.policy); break;
        case 'S': fine = get_ref(r, 's', &in.imm); break;
        case 'C': fine = get_ref(r, 'c', &in.imm); break;
        case 'A': fine = get_ref(r, 'r', &in.imm); break;
        case 'a': fine = get_int(r, &in.acc); break;
        case 'g': fine = get_int(r, &in.lanes); break;
        case '0':
        case '1':
        case '2': {
            int o = *f - '0';
            if (!ins_has(&in, o)) break;
            while (*r->p == ' ') r->p++;
            if (r->p[0] == '_')
                fine = word(r)[1] ? bad(r, "an operand", NULL) : true;
            else
                fine = get_ref(r, '%', &in.a[o]);
            break;
        }
        default: break;
        }
        if (!fine) return false;
    }
    GROW(r->cx->a, k->ins, k->nins, k->ins_cap);
    k->ins[k->nins++] = in;
    return true;
}

static bool end_line(Reader *r) {
    char *w = word(r);
    return w ? bad(r, "the end of the line", w) : true;
}

static bool read_domain(Reader *r) {
    Kern *k = r->k;
    int at;
    if (!get_ref(r, 'd', &at)) return false;
    if (at != k->ndomains || at >= MAX_DOMAINS) return bad(r, "tables numbered in order", NULL);
    Domain *d = &k->domain[k->ndomains++];
    return expect(r, "axes") && get_axes(r, &d->axes) && expect(r, "serial") && get_axes(r, &d->serial) &&
           expect(r, "mapped") && get_axes(r, &d->mapped) && expect(r, "points") && get_i64(r, &d->n_serial) &&
           expect(r, "elements") && get_i64(r, &d->n_mapped);
}

static bool read_stripe(Reader *r) {
    Kern *k = r->k;
    Stripe s = {.name = r->note, .param = -1};
    int at;
    if (!get_ref(r, 's', &at)) return false;
    if (at != k->nstripes) return bad(r, "tables numbered in order", NULL);
    if (!get_ty(r, &s.ty) || !get_ref(r, 'd', &s.domain) || !expect(r, "sweeps") || !get_int(r, &s.first) ||
        !get_int(r, &s.last))
        return false;
    char *w = word(r);
    if (!w || !hold_find(w, &s.home)) return bad(r, "a home", w);
    if (s.home == HOLD_OUTPUT && !get_param(r, &s.param)) return false;
    GROW(r->cx->a, k->stripe, k->nstripes, k->stripe_cap);
    k->stripe[k->nstripes++] = s;
    return true;
}

static bool read_cell(Reader *r) {
    Kern *k = r->k;
    Cell c = {.name = r->note};
    int at;
    if (!get_ref(r, 'c', &at)) return false;
    if (at != k->ncells) return bad(r, "tables numbered in order", NULL);
    if (!get_ty(r, &c.ty) || !get_int(r, &c.acc)) return false;
    GROW(r->cx->a, k->cell, k->ncells, k->cell_cap);
    k->cell[k->ncells++] = c;
    return true;
}

static bool read_array(Reader *r) {
    Kern *k = r->k;
    RowArray a = {0};
    int at;
    if (!get_ref(r, 'r', &at)) return false;
    if (at != k->narrays) return bad(r, "tables numbered in order", NULL);
    if (!get_ty(r, &a.ty) || !get_i64(r, &a.n)) return false;
    GROW(r->cx->a, k->array, k->narrays, k->array_cap);
    k->array[k->narrays++] = a;
    return true;
}

static bool read_head(Reader *r) {
    Kern *k = r->k;
    int poly;
    if (!next_line(r) || !expect(r, "kern") || !end_line(r)) return bad(r, "kern  # NAME", NULL);
    k->name = r->note;
    if (!next_line(r) || !expect(r, "plan")) return bad(r, "plan", NULL);
    Err e = plan_read(r->cx, r->p, &k->plan);
    if (e != OK) return r->err = e, false;
    if (!next_line(r) || !expect(r, "machine") || !expect(r, "subgroup") || !get_int(r, &k->subgroup) ||
        !expect(r, "poly") || !get_int(r, &poly) || !end_line(r))
        return bad(r, "machine", NULL);
    if (poly != 0 && poly != 1) return bad(r, "0 or 1", NULL);
    k->poly = poly;
    if (!next_line(r) || !expect(r, "counts") || !expect(r, "sweeps") || !get_int(r, &k->nsweeps) ||
        !expect(r, "reductions") || !get_int(r, &k->nreds) || !expect(r, "slots") || !get_i64(r, &k->stripes.live) ||
        !expect(r, "all") || !get_i64(r, &k->stripes.sum) || !end_line(r))
        return bad(r, "counts", NULL);
    if (!next_line(r) || !expect(r, "shape")) return bad(r, "shape", NULL);
    for (int i = 0; i < r->prog->naxes; i++)
        if (!expect(r, r->prog->axis[i].name) || !get_extent(r, i)) return false;
    return end_line(r);
}

static bool get_ranged(Reader *r, bool *out) {
    while (*r->p == ' ') r->p++;
    *out = str_starts(r->p, "ranged");
    return !*out || expect(r, "ranged");
}

/* Nodes nest as deep as a loop in a loop, which the verifier then refuses. */
enum { MAX_DEPTH = 8 };

static bool read_body(Reader *r) {
    Kern *k = r->k;
    int open[MAX_DEPTH], depth = 0, prev[MAX_DEPTH + 1] = {-1}; /* open loops; the last node at each depth */
    int leaf = -1;                                              /* the open block or sweep */
    k->root = -1;
    while (next_line(r)) {
        char *w = word(r);
        if (!w) continue;
        bool fine = true;
        if (str_eq(w, "}")) {
            if (leaf >= 0) {
                k->node[leaf].i1 = k->nins;
                leaf = -1;
            } else if (depth > 0) {
                depth--;
            } else {
                return bad(r, "an opened node", w);
            }
        } else if (leaf >= 0) {
            fine = read_ins(r, w);
        } else if (k->nnodes == 0 && str_eq(w, "domain")) {
            fine = read_domain(r);
        } else if (k->nnodes == 0 && str_eq(w, "stripe")) {
            fine = read_stripe(r);
        } else if (k->nnodes == 0 && str_eq(w, "cell")) {
            fine = read_cell(r);
        } else if (k->nnodes == 0 && str_eq(w, "array")) {
            fine = read_array(r);
        } else {
            Node nd = {.i0 = k->nins, .i1 = k->nins, .child = -1, .next = -1, .note = r->note};
            nd.once = str_eq(w, "once");
            if (nd.once) w = word(r);
            if (!w) return bad(r, "block, sweep or loop", w);
            if (str_eq(w, "block"))
                nd.kind = NODE_BLOCK;
            else if (str_eq(w, "sweep"))
                nd.kind = NODE_SWEEP, fine = get_ref(r, 'd', &nd.domain);
            else if (str_eq(w, "loop"))
                nd.kind = NODE_LOOP, fine = get_i64(r, &nd.count) && get_ranged(r, &nd.ranged);
            else
                return bad(r, "block, sweep or loop", w);
            if (!fine || !expect(r, "{")) return false;
            GROW(r->cx->a, k->node, k->nnodes, k->node_cap);
            int at = k->nnodes++;
            k->node[at] = nd;
            if (prev[depth] >= 0)
                k->node[prev[depth]].next = at;
            else if (depth > 0)
                k->node[open[depth - 1]].child = at;
            else
                k->root = at;
            prev[depth] = at;
            if (nd.kind != NODE_LOOP) {
                leaf = at;
            } else {
                if (depth == MAX_DEPTH) return bad(r, "fewer nested loops", w);
                open[depth++] = at;
                prev[depth] = -1;
            }
        }
        if (!fine || !end_line(r)) return false;
    }
    if (r->err != OK) return false;
    return leaf < 0 && depth == 0 ? true : bad(r, "}", NULL);
}

Err kern_read(Cx *cx, const Prog *prog, const char *text, size_t n, Kern **out) {
    Kern *k = NEW(cx->a, Kern);
    Reader r = {.cx = cx, .k = k, .prog = prog, .text = text, .n = n, .line = "", .p = ""};
    k->prog = prog;
    for (int i = 0; i < MAX_AXES; i++) k->shape.n[i] = -1;
    if (!read_head(&r) || !read_body(&r)) return r.err;
    abi_of(prog, &k->abi);
    Err e = kern_verify(cx, k);
    if (e == OK) *out = k;
    return e;
}
