/* Unit and kern agree: the text of a host unit is read again, token by token. Tensors are reached through the prelude's
 * functions only, and what those calls move, times the loops around them, is what the kern says, parameter by
 * parameter. Where the extent comes with the launch, the text is read once for each extent that stands for the range,
 * and where rows are shifted, once for each shift. */
#include "walk.h"

#include <string.h>

enum { DEPTH = 128 };

typedef enum Call {
    CALL_NONE,
    CALL_LD,
    CALL_LDN,
    CALL_LDG,
    CALL_LDS,
    CALL_GAT,
    CALL_ST,
    CALL_STX,
    CALL_STN,
    CALL_STG,
    CALL_STS,
    CALL_SCT,
    CALL_LR,
    CALL_SR,
    CALL_LRG, /* of several registers of rows that lie apart */
    CALL_SRG,
    CALL_SOME, /* how many elements of a register there are, as an expression of the extent or the shift */
    CALL_FROM, /* how many of its first there are not */
    CALL_OFF,  /* the shift of a row */
    CALL_AHEAD
} Call;
static const struct {
    const char *head;
    Call call;
} calls[] = {{"ld_", CALL_LD},    {"ldn_", CALL_LDN},  {"ldg_", CALL_LDG}, {"lds_", CALL_LDS},
             {"gat_", CALL_GAT},  {"st_", CALL_ST},    {"stx_", CALL_STX}, {"stn_", CALL_STN},
             {"stg_", CALL_STG},  {"sts_", CALL_STS},  {"sct_", CALL_SCT}, {"lr_", CALL_LR},
             {"sr_", CALL_SR},    {"ldk_", CALL_LDN},  {"stk_", CALL_STN}, {"ldh_", CALL_LDN},
             {"lgh_", CALL_LDG},  {"sth_", CALL_STN},  {"sgh_", CALL_STG}, {"sch_", CALL_SCT},
             {"some", CALL_SOME}, {"from", CALL_FROM}, {"off_", CALL_OFF}, {"__builtin_prefetch", CALL_AHEAD},
             {"lrg_", CALL_LRG},  {"srg_", CALL_SRG}};

typedef struct Frame { /* an open brace or parenthesis */
    char open;
    Call call;
    int param;        /* that the call reaches; -1: none */
    int64_t rounds;   /* of the loops around */
    const char *last; /* its last argument so far */
    bool groups;      /* a loop over groups of registers */
    bool some;        /* it has a count that goes with the extent: over all rounds of the loop over registers, */
    int64_t elements, registers, over; /* elements, registers with any, rounds */
} Frame;

typedef struct Moved { /* of one parameter, by one row: elements, scalar accesses, registers */
    int64_t loaded, stored, full, streamed, scalar_loads, scalar_stores, gathered;
    int64_t apart, beside; /* registers of rows that may lie apart, and those moved where they lie side by side */
} Moved;

typedef struct Scan {
    Cx *cx;
    const Kern *k;
    const Unit *unit;
    const char *at; /* where the scan is */
    int row_of;     /* 1 + the parameter whose row's pointer the word before was; else 0 */
    int depth;
    Frame frame[DEPTH];
    Moved moved[MAX_PARAMS];
    bool ahead, fence;
    int rows;              /* registers of rows side by side, where the unit takes those; else 0 */
    int64_t shift, shifts; /* of a row, and what that is below; 0: rows are not shifted */
    int64_t extent;        /* of the ranged axis */
    const Kern *there;     /* the kern at it; k itself where nothing is ranged */
    int64_t g_end, g_step; /* of the loop over registers that is open; 0: none */
} Scan;

#define DISAGREE(slug, ...) return diag(q->cx, slug, NOWHERE, NULL, __VA_ARGS__)

/* ---- what the text does ---- */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static int64_t number_at(const char *s) {
    int64_t x = 0;
    while (*s == ' ') s++;
    if (*s < '0' || *s > '9') return -1;
    while (*s >= '0' && *s <= '9' && x < INT64_MAX / 16) x = x * 10 + (*s++ - '0');
    return x;
}

/* ---- expressions of the extent ---- */

typedef struct Sum { /* one being read */
    const Scan *q;
    const char *at;
    int64_t g;
    bool known, has_g;
} Sum;

static int64_t sum(Sum *s);

static int64_t atom(Sum *s) {
    while (*s->at == ' ') s->at++;
    if (*s->at == '(') {
        s->at++;
        int64_t x = sum(s);
        s->known &= *s->at == ')';
        s->at++;
        return x;
    }
    const char *from = s->at;
    while (is_word(*s->at)) s->at++;
    size_t n = (size_t)(s->at - from);
    if (*from >= '0' && *from <= '9') return number_at(from);
    if (n == 1 && *from == 'g') return s->has_g = true, s->g;
    if (n == 6 && !memcmp(from, "extent", n)) return s->q->extent;
    if (n >= 5 && n <= 6 && !memcmp(from, "shift", 5) && s->q->shifts) return s->q->shift; /* shift0: of a stage */
    int64_t d = n > 4 && !memcmp(from, "size", 4) ? number_at(from + 4) : -1;
    s->known &= d >= 0 && d < s->q->there->ndomains;
    return s->known ? s->q->there->domain[d].n_mapped : 0;
}

static int64_t product(Sum *s) {
    int64_t x = atom(s);
    while (s->known) {
        while (*s->at == ' ') s->at++;
        if (*s->at != '*' && *s->at != '/') break;
        bool times = *s->at++ == '*';
        int64_t y = atom(s);
        s->known &= times ? mul_fits(x, y, &x) : y > 0;
        if (s->known && !times) x /= y;
    }
    return x;
}

static int64_t sum(Sum *s) {
    int64_t x = product(s);
    while (s->known) {
        while (*s->at == ' ') s->at++;
        if (*s->at != '+' && *s->at != '-') break;
        bool plus = *s->at++ == '+';
        int64_t y = product(s);
        s->known &= !(plus ? __builtin_add_overflow(x, y, &x) : __builtin_sub_overflow(x, y, &x));
    }
    return x;
}

/* The value of the text, up to its end; -1: it is none. */
static int64_t value_at(const Scan *q, const char *text, char end) {
    Sum s = {.q = q, .at = text, .known = true};
    int64_t x = sum(&s);
    while (*s.at == ' ') s.at++;
    return s.known && *s.at == end ? x : -1;
}

/* some(X): at most all elements of a register, none where X is below 0, and from(X) all but those; told to the calls
 * that it stands in. */
static Err some(Scan *q, const char *text, bool rest) {
    int64_t L = q->k->plan.W < q->k->subgroup ? q->k->plan.W : q->k->subgroup;
    Frame f = {.some = true};
    for (int64_t g = 0; f.over == 0 || g < q->g_end; g += q->g_step ? q->g_step : 1) {
        Sum s = {.q = q, .at = text, .g = g, .known = true};
        int64_t x = sum(&s);
        if (!s.known || *s.at != ')') DISAGREE(S_AUDIT_TEXT, "%.60s: no count of elements", text);
        x = x < 0 ? 0 : x > L ? L : x;
        if (rest) x = L - x;
        f.elements += x, f.registers += x > 0, f.over++;
    }
    for (int d = q->depth - 1; d >= 0 && q->frame[d].open == '('; d--) {
        Frame *up = &q->frame[d];
        up->some = true, up->elements = f.elements, up->registers = f.registers, up->over = f.over;
    }
    return OK;
}

static Call call_of(const char *s, size_t n) {
    for (int i = 0; i < COUNT(calls); i++) {
        size_t head = strlen(calls[i].head);
        if (n >= head && !memcmp(s, calls[i].head, head)) return calls[i].call;
    }
    return CALL_NONE;
}

static const char group_loop[] = "for (i64 g = 0; ";

/* for (i64 x = FROM; x < N; x += S) {: how often it goes round. The rows are counted as one. */
static int64_t rounds_of(Scan *q, const char *head, const char *end) {
    const char *below = memchr(head, '<', (size_t)(end - head)), *from = memchr(head, '=', (size_t)(end - head));
    const char *step = NULL;
    for (const char *c = head; c + 1 < end; c++)
        if (c[0] == '+' && c[1] == '=') step = c + 2;
    int64_t n = below ? value_at(q, below + 1, ';') : -1, each = step ? number_at(step) : 1;
    const int64_t first = from ? number_at(from + 1) : -1;
    if (!strncmp(head - 3, group_loop, strlen(group_loop))) q->g_end = n, q->g_step = each;
    return n < 0 || first < 0 || each < 1 ? 1 : ceil_div(i64_max(0, n - first), each);
}

static Err push(Scan *q, Frame f) {
    if (q->depth == DEPTH) DISAGREE(S_AUDIT_TEXT, "the text of %s is nested too deep", q->unit->entry);
    q->frame[q->depth++] = f;
    return OK;
}

static int64_t rounds_here(const Scan *q) {
    return q->depth ? q->frame[q->depth - 1].rounds : 1;
}

static Err call_done(Scan *q, const Frame *f) {
    if (f->param < 0) return OK;
    Moved *m = &q->moved[f->param];
    if (q->rows) { /* a register or a scalar for one element of all rows */
        const int64_t several = f->last ? number_at(f->last) : -1;
        const bool apart = f->call == CALL_LRG || f->call == CALL_SRG;
        if (apart && (several < 1 || several > q->rows))
            DISAGREE(S_AUDIT_TEXT, "%lld registers of %s at once", (long long)several,
                     q->k->prog->param[f->param].name);
        switch (f->call) {
        case CALL_LDS: m->loaded += f->rounds * q->rows; break;
        case CALL_LR:
        case CALL_GAT: m->loaded += f->rounds; break;
        case CALL_LRG: m->loaded += f->rounds * several; break;
        case CALL_SR:
        case CALL_SCT: m->stored += f->rounds; break;
        case CALL_SRG: m->stored += f->rounds * several; break;
        case CALL_LDN:
        case CALL_STN: m->beside += f->rounds; break;
        default: break;
        }
        m->apart += apart ? f->rounds * several : 0;
        return OK;
    }
    int64_t full = q->k->plan.W < q->k->subgroup ? q->k->plan.W : q->k->subgroup,
            part = f->last ? number_at(f->last) : -1;
    int64_t rounds = f->some ? f->rounds / f->over : f->rounds, elements = f->some ? f->elements : part;
    bool counted =
        f->call == CALL_LDN || f->call == CALL_LDG || f->call == CALL_STN || f->call == CALL_STG || f->call == CALL_SCT;
    if (counted && !f->some && (part < 1 || part > full))
        DISAGREE(S_AUDIT_TEXT, "%lld elements of %s at once", (long long)part, q->k->prog->param[f->param].name);
    switch (f->call) {
    case CALL_LD: m->loaded += f->rounds * full; break;
    case CALL_LDN:
    case CALL_LDG: m->loaded += rounds * elements; break;
    case CALL_LDS: m->scalar_loads += f->rounds; break;
    case CALL_GAT: m->gathered += rounds * (f->some ? f->registers : 1); break;
    case CALL_ST:
        m->full += f->rounds;
        m->stored += f->rounds * full;
        break;
    case CALL_STX:
        m->streamed += f->rounds;
        m->stored += f->rounds * full;
        break;
    case CALL_STN:
    case CALL_STG:
    case CALL_SCT: m->stored += rounds * elements; break;
    case CALL_STS: m->scalar_stores += f->rounds; break;
    case CALL_AHEAD: q->ahead = true; break;
    case CALL_LR: /* of rows side by side alone */
    case CALL_LRG:
    case CALL_SRG:
    case CALL_SR: DISAGREE(S_AUDIT_TEXT, "rows of %s at once", q->k->prog->param[f->param].name);
    case CALL_OFF:
        if (q->k->plan.tail != TAIL_HEAD_SHIFT || part != q->shifts)
            DISAGREE(S_AUDIT_TEXT, "rows are shifted by less than %lld, of %s", (long long)part,
                     q->k->prog->param[f->param].name);
        break;
    case CALL_SOME:
    case CALL_FROM:
    case CALL_NONE: break;
    }
    return OK;
}

static bool ends_in(const Scan *q, const char *end, const char *s) { /* does what ends there end in s? */
    const size_t n = strlen(s);
    return (size_t)(end + 1 - q->unit->text) >= n && !memcmp(end + 1 - n, s, n);
}

/* Is it a tensor's pointer, p and its number, or that to a row of it, whose name goes on with "_" and the place's? */
static bool is_pointer(const char *s, size_t n) {
    const size_t digits = s[0] == 'p' ? strspn(s + 1, "0123456789") : 0;
    return digits && (digits + 1 == n || (digits + 1 < n && s[digits + 1] == '_'));
}

/* A pointer: the first thing in a call of the prelude's, or its declaration, from which one to a row is "*const p1_5 =
 * p1 + v5;". */
static Err pointer(Scan *q, const char *word, size_t n, const char *before, int row_of) {
    int64_t param = number_at(word + 1);
    Frame *f = q->depth ? &q->frame[q->depth - 1] : NULL;
    const char *after = word + n;
    while (*after == ' ') after++;
    if (param >= q->k->prog->nparams) DISAGREE(S_AUDIT_POINTER, "%.*s is no parameter", (int)n, word);
    const bool row = strspn(word + 1, "0123456789") + 1 < n;
    if (row && ends_in(q, before, "*const")) {
        q->row_of = (int)param + 1;
        return OK;
    }
    if (!row && ends_in(q, before, "restrict")) return OK;
    if (!row && *before == '=' && row_of == (int)param + 1 && *after == '+') return OK;
    bool first = f && f->open == '(' && *before == '(' && f->call != CALL_NONE && f->param < 0;
    if (!first || (*after != '+' && *after != ',' && *after != ')'))
        DISAGREE(S_AUDIT_POINTER, "%s is reached outside of the functions that move its elements: %.40s",
                 q->k->prog->param[param].name, before);
    f->param = (int)param;
    return OK;
}

static Err word(Scan *q) {
    const char *s = q->at, *before = s - 1;
    const int row_of = q->row_of;
    q->row_of = 0;
    while (is_word(*q->at)) q->at++;
    size_t n = (size_t)(q->at - s);
    if (*s >= '0' && *s <= '9') { /* a number may go on with .5p-3f */
        while (is_word(*q->at) || *q->at == '.' ||
               ((*q->at == '-' || *q->at == '+') && (q->at[-1] == 'p' || q->at[-1] == 'e')))
            q->at++;
        return OK;
    }
    while (*before == ' ') before--;
    if (n == 3 && !memcmp(s, "for", 3)) {
        const char *end = strchr(q->at, '{'), *line = strchr(q->at, '\n');
        if (!end || !line || line < end) return OK; /* a loop of one statement */
        int64_t rounds = rounds_here(q) * rounds_of(q, q->at, end);
        q->at = end + 1;
        bool groups = !strncmp(s, group_loop, strlen(group_loop));
        return push(q, (Frame){.open = '{', .param = -1, .rounds = rounds, .groups = groups});
    }
    if (is_pointer(s, n)) return pointer(q, s, n, before, row_of);
    if (n == 5 && !memcmp(s, "fence", 5)) q->fence = true;
    if (*q->at == '(') {
        q->at++;
        Call call = call_of(s, n);
        Err e = call == CALL_SOME || call == CALL_FROM ? some(q, q->at, call == CALL_FROM) : OK;
        return e ? e : push(q, (Frame){.open = '(', .call = call, .param = -1, .rounds = rounds_here(q)});
    }
    return OK;
}

static Err scan(Scan *q, const char *from) {
    for (q->at = from; *q->at;) {
        char c = *q->at;
        Err e = OK;
        if (c == '/' && q->at[1] == '*') {
            const char *end = strstr(q->at + 2, "*/");
            q->at = end ? end + 2 : q->at + strlen(q->at);
        } else if (is_word(c)) {
            e = word(q);
        } else {
            q->at++;
            Frame *f = q->depth ? &q->frame[q->depth - 1] : NULL;
            if (c == '(' || c == '{') e = push(q, (Frame){.open = c, .param = -1, .rounds = rounds_here(q)});
            if (c == ',' && f && f->open == '(') f->last = q->at;
            if (c == ')' || c == '}') {
                if (!f || f->open != (c == ')' ? '(' : '{'))
                    DISAGREE(S_AUDIT_TEXT, "%c closes nothing in %s", c, q->unit->entry);
                q->depth--;
                if (f->groups) q->g_end = q->g_step = 0;
                e = call_done(q, f);
            }
        }
        if (e) return e;
    }
    if (q->depth) DISAGREE(S_AUDIT_TEXT, "%d parts of %s are not closed", q->depth, q->unit->entry);
    return OK;
}

/* ---- what the kern says ---- */

/* Registers of L lanes, or places, with an element, over all chunks and pack positions. */
static int64_t registers_of(const Kern *k, int64_t n, int64_t shift) {
    int64_t W = k->plan.W, V = k->plan.V, L = W < k->subgroup ? W : k->subgroup, whole = n / (W * V),
            left = n % (W * V);
    if (shift) return ceil_div(n + shift, L) - shift / L; /* of V=1 */
    int64_t sum = whole * V * ceil_div(W, L);
    for (int64_t v = 0; v < V && v < left; v++) sum += ceil_div(ceil_div(left - v, V), L);
    return sum;
}

static void expect(const Kern *k, int first, int64_t rounds, int64_t shift, Moved *want) {
    for (int n = first; n >= 0; n = k->node[n].next) {
        const Node *nd = &k->node[n];
        if (nd->kind == NODE_LOOP) {
            expect(k, nd->child, rounds * nd->count, shift, want);
            continue;
        }
        int64_t elements = nd->kind == NODE_SWEEP ? rounds * k->domain[nd->domain].n_mapped : 0;
        for (int i = nd->i0; i < nd->i1; i++) {
            const Ins *in = &k->ins[i];
            Moved none = {0}, *m = in->param >= 0 ? &want[in->param] : &none;
            switch (in->k) {
            case K_LOADP: m->loaded += elements; break;
            case K_LOAD1:
                if (nd->kind == NODE_SWEEP && in->rank == RANK_ELEM)
                    m->gathered += rounds * registers_of(k, k->domain[nd->domain].n_mapped, shift);
                else if (nd->kind == NODE_BLOCK || elements)
                    m->scalar_loads += rounds;
                break;
            case K_STOREP:
                m->stored += elements;
                *(in->policy == STORE_STREAM ? &m->streamed : &m->full) += elements;
                break;
            case K_STORE1:
                m->stored += elements;
                if (nd->kind == NODE_BLOCK) m->scalar_stores += rounds;
                break;
            default: break;
            }
        }
    }
}

/* Rows side by side: every instruction reaches one element of each, by registers or, where they share it, once. What is
 * one a row may be loaded again in every step. */
static void expect_rows(const Scan *q, int first, int64_t rounds, Moved *want) {
    const Kern *k = q->k;
    for (int n = first; n >= 0; n = k->node[n].next) {
        const Node *nd = &k->node[n];
        if (nd->kind == NODE_LOOP) {
            expect_rows(q, nd->child, rounds * nd->count, want);
            continue;
        }
        const int64_t elements = nd->kind == NODE_SWEEP ? k->domain[nd->domain].n_mapped : 1;
        for (int i = nd->i0; i < nd->i1; i++) {
            const Ins *in = &k->ins[i];
            const bool load = in->k == K_LOADP || in->k == K_LOAD1, store = in->k == K_STOREP || in->k == K_STORE1;
            if (load) want[in->param].loaded += rounds * q->rows * (in->rank == RANK_ELEM ? elements : elements > 0);
            if (store) want[in->param].stored += rounds * q->rows * elements;
            if (load && in->rank != RANK_ELEM && nd->kind == NODE_SWEEP) want[in->param].scalar_loads++;
        }
    }
}

static Err compare_rows(Scan *q) {
    Moved want[MAX_PARAMS] = {{0}};
    expect_rows(q, q->k->root, 1, want);
    for (int p = 0; p < q->k->prog->nparams; p++) {
        const Moved *m = &q->moved[p], *w = &want[p];
        if (m->stored != w->stored || m->loaded < w->loaded || (!w->scalar_loads && m->loaded != w->loaded) ||
            m->beside != m->apart)
            DISAGREE(S_AUDIT_MOVED, "%s: %lld registers of rows loaded and %lld stored; the kern says %lld and %lld",
                     q->k->prog->param[p].name, (long long)m->loaded, (long long)m->stored, (long long)w->loaded,
                     (long long)w->stored);
    }
    return OK;
}

static Err compare(Scan *q) {
    Moved want[MAX_PARAMS] = {{0}};
    expect(q->there, q->there->root, 1, q->shift, want);
    for (int p = 0; p < q->k->prog->nparams; p++) {
        const Moved *m = &q->moved[p], *w = &want[p];
        const char *name = q->k->prog->param[p].name;
        if (m->loaded != w->loaded || m->stored != w->stored || m->gathered != w->gathered)
            DISAGREE(
                S_AUDIT_MOVED,
                "%s: %lld elements loaded, %lld stored and %lld registers gathered; the kern says %lld, %lld and %lld",
                name, (long long)m->loaded, (long long)m->stored, (long long)m->gathered, (long long)w->loaded,
                (long long)w->stored, (long long)w->gathered);
        /* what is one a row may be loaded again in every step */
        if (m->scalar_loads < w->scalar_loads || (m->scalar_loads && !w->scalar_loads) ||
            m->scalar_stores != w->scalar_stores)
            DISAGREE(S_AUDIT_MOVED, "%s: %lld single loads and %lld single stores; the kern says %lld and %lld", name,
                     (long long)m->scalar_loads, (long long)m->scalar_stores, (long long)w->scalar_loads,
                     (long long)w->scalar_stores);
        if ((m->streamed && !w->streamed) || (m->full && !w->full))
            DISAGREE(S_AUDIT_STREAM,
                     "%s: %lld streaming and %lld plain stores of whole registers; the kern streams %lld elements and "
                     "stores %lld",
                     name, (long long)m->streamed, (long long)m->full, (long long)w->streamed, (long long)w->full);
        if (m->streamed && !q->fence) DISAGREE(S_AUDIT_STREAM, "%s: no fence after streaming stores", name);
    }
    if (q->ahead && !q->k->plan.prefetch) DISAGREE(S_AUDIT_STREAM, "%s prefetches, prefetch=0", q->unit->entry);
    return OK;
}

/* restrict pP = (TYPE *)a[SLOT].p; */
static bool takes_pointer(Cx *cx, const char *text, int param, int slot) {
    const char *name = strstr(text, arena_printf(cx->a, "restrict p%d = (", param)),
               *cast = name ? strchr(name, ')') : NULL;
    const char *from = arena_printf(cx->a, ")a[%d].p;", slot);
    return cast && strncmp(cast, from, strlen(from)) == 0;
}

Err audit_unit(Cx *cx, const Kern *k, const Unit *unit) {
    Scan *q = NEW(cx->a, Scan);
    *q = (Scan){.cx = cx, .k = k, .unit = unit};
    const char *name = arena_printf(cx->a, "rowfold_kernel_%s", k->name), *head = arena_printf(cx->a, "void %s(", name);
    const char *from = strstr(unit->text, unit->dialect == DIALECT_HOST ? head : name);
    if (!str_eq(unit->entry, name) || !from)
        DISAGREE(S_AUDIT_ENTRY, "the entry is %s, the text has no such", unit->entry);
    if (unit->dialect != DIALECT_HOST) return OK;
    if (strstr(from + 1, head)) DISAGREE(S_AUDIT_ENTRY, "%s comes twice", name);
    for (int p = 0; p < k->prog->nparams; p++)
        if (k->abi.ptr[p] >= 0 && !takes_pointer(cx, from, p, k->abi.ptr[p]))
            DISAGREE(S_AUDIT_POINTER, "%s is not taken from argument %d", k->prog->param[p].name, k->abi.ptr[p]);
    int64_t n[MAX_EXTENTS], shifts = 0;
    const char *off = strstr(from, "= off_"), *most = off ? strstr(off, ", ") : NULL;
    if (most) shifts = number_at(most + 2);
    if (shifts < 0 || shifts > k->plan.W) DISAGREE(S_AUDIT_TEXT, "%.60s: more than W=%d shifts", off, k->plan.W);
    Err e = OK;
    for (int many = kern_extents(k, n), i = 0; i < i64_max(many, shifts) && !e; i++) {
        const int at = i < many ? i : 0; /* extents with a range, or shifts */
        *q = (Scan){.cx = cx, .k = k, .unit = unit, .extent = n[at], .there = kern_at(cx, k, n[at])};
        q->shifts = shifts, q->shift = i < shifts ? i : 0;
        if (strstr(from, "for (i64 row = row0, rows;")) q->rows = k->plan.P / k->subgroup;
        e = scan(q, from);
        if (!e) e = q->rows ? compare_rows(q) : compare(q);
    }
    return e;
}
