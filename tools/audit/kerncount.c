/* The text of a kern -> its demand, counted line by line with the multiplicities of docs/records.md. */
#include "planread.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FREE, ALU, DIV, SPECIAL, CONVERT, MEMORY };
enum { PAIR_OPS = 8, LOG_OPS = 6 }; /* operations of a fold2; of a logarithm */
enum { LINE_MOST = 8192, FIELDS = 64, DOMAINS = 64, STRIPES = 256, DEPTH = 16, LOADS = 1 << 14 };

static int op_class(const char *op) { /* -1: an unknown operator */
    static const struct {
        const char *name;
        int cls;
    } ops[] = {{"add", ALU},      {"sub", ALU},       {"mul", ALU},     {"div", DIV},         {"neg", ALU},
               {"abs", ALU},      {"min", ALU},       {"max", ALU},     {"floor", ALU},       {"round", ALU},
               {"sqrt", DIV},     {"rsqrt", SPECIAL}, {"exp", SPECIAL}, {"exp2", SPECIAL},    {"log", SPECIAL},
               {"log2", SPECIAL}, {"tanh", SPECIAL},  {"erf", SPECIAL}, {"sigmoid", SPECIAL}, {"pow", SPECIAL},
               {"lt", ALU},       {"le", ALU},        {"gt", ALU},      {"ge", ALU},          {"eq", ALU},
               {"ne", ALU},       {"and", ALU},       {"or", ALU},      {"not", ALU},         {"where", ALU},
               {"cast", CONVERT}, {"fma", ALU},       {"bitand", ALU},  {"bitor", ALU},       {"bitxor", ALU},
               {"shl", ALU},      {"shr", ALU},       {"bits", FREE},   {"mod", DIV},         {"atmost", ALU},
               {"atleast", ALU},  {"ldexp", ALU}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (same_text(op, ops[i].name)) return ops[i].cls;
    return -1;
}

typedef struct Held {
    Type ty;
    int domain, first, last; /* sweeps that touch it; first -1: none yet */
    char home;               /* r register, o output, s shared */
    bool once, copied;       /* filled before a group's first row; in each row by what a load brings */
} Held;
typedef struct Reader {
    Mem *m;
    const Program *p;
    const char *at, *end;
    int line, n;
    char buf[LINE_MOST];
    char *f[FIELDS];
    const char *why;
    PlanText plan;
    Counted *c;
    int ndomains, nstripes;
    int64_t points[DOMAINS], elements[DOMAINS];
    Held stripe[STRIPES];
    bool load[LOADS];    /* by number of the instruction */
    double value[LOADS]; /* of a constant; of others 0 */
    int turn[LOADS];     /* exchanges of its block that it waits for */
    int turns, before;   /* of the block: exchanges so far; those that all that follows waits for */
    int begun, numbered; /* the block's first number, and the one after the last so far */
    double loop; /* product of the counts of the loops around; 0 before a group's first row, which is no row's */
    double outer[DEPTH];
    int depth;
    bool sweep, block;
    int passed, passes; /* 1 + the level of the pass in the line before, and in this one; 0: none */
    int domain;
} Reader;

static bool wrong(Reader *r, const char *what) {
    if (!r->why) r->why = mem_fmt(r->m, "line %d of the kern: %s", r->line, what);
    return false;
}

static bool next_line(Reader *r) {
    r->n = 0;
    r->line++;
    const char *nl = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;
    if (!nl) return wrong(r, "a line that ends is expected");
    const size_t len = (size_t)(nl - r->at);
    if (len >= LINE_MOST || memchr(r->at, 0, len)) return wrong(r, "too long, or not text");
    if (len) memcpy(r->buf, r->at, len);
    r->buf[len] = 0;
    r->at = nl + 1;
    char *note = strstr(r->buf, "  # ");
    while (note && note == r->buf) note = NULL;
    if (note) *note = 0;
    for (char *c = r->buf; *c;) {
        while (*c == ' ') *c++ = 0;
        if (!*c) break;
        if (r->n == FIELDS) return wrong(r, "too many fields");
        r->f[r->n++] = c;
        c += strcspn(c, " ");
    }
    return true;
}

static const char *field(const Reader *r, int i) {
    return i < r->n ? r->f[i] : "";
}

static bool number(Reader *r, const char *s, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(s, &end, 10);
    return (*s && !*end && !errno && *out >= 0 && *out <= (int64_t)1 << 44) || wrong(r, "a number is expected");
}

static bool index_of(Reader *r, const char *s, char mark, int below, int *out) {
    int64_t i;
    if (*s != mark || !number(r, s + 1, &i) || i >= below) return wrong(r, "it names what is not there");
    *out = (int)i;
    return true;
}

static bool axes_of(Reader *r, const char *s, uint32_t *out) {
    *out = 0;
    if (same_text(s, "-")) return true;
    char *copy = mem_text(r->m, s, strlen(s));
    for (char *name = copy; name;) {
        char *comma = strchr(name, ',');
        if (comma) *comma++ = 0;
        const int a = program_axis(r->p, name);
        if (a < 0) return wrong(r, "an unknown axis");
        *out |= 1u << a;
        name = comma;
    }
    return true;
}

/* ---- the lines before the nodes ---- */
static bool domain_line(Reader *r) {
    uint32_t axes, serial, mapped;
    int64_t points, elements;
    const int d = r->ndomains;
    if (r->n != 12 || d == DOMAINS) return wrong(r, "a domain is expected");
    if (!axes_of(r, field(r, 3), &axes) || !axes_of(r, field(r, 5), &serial) || !axes_of(r, field(r, 7), &mapped) ||
        !number(r, field(r, 9), &points) || !number(r, field(r, 11), &elements))
        return false;
    if (axes != (serial | mapped) || serial & mapped || points != program_points(r->p, serial) ||
        elements != program_points(r->p, mapped))
        return wrong(r, "a domain whose numbers are not those of its axes");
    if (serial) r->c->serial = true;
    r->points[d] = points;
    r->elements[d] = elements;
    r->ndomains++;
    return true;
}

static bool stripe_line(Reader *r) {
    Held h = {.first = -1, .last = -1};
    if (r->nstripes == STRIPES || !type_named(field(r, 2), &h.ty) ||
        !index_of(r, field(r, 3), 'd', r->ndomains, &h.domain))
        return wrong(r, "a stripe is expected");
    h.home = *field(r, 7);
    if (!strchr("ros", h.home) || !h.home) return wrong(r, "a home is expected");
    r->stripe[r->nstripes++] = h;
    return true;
}

static bool shape_line(Reader *r) {
    for (int i = 0; i < r->p->naxes; i++) {
        int64_t n;
        if (!same_text(field(r, 1 + 2 * i), r->p->axis[i].name) || !number(r, field(r, 2 + 2 * i), &n))
            return wrong(r, "the program's axes are expected");
        if (n != r->p->n[i]) return wrong(r, "another shape than the case has");
    }
    return r->n == 1 + 2 * r->p->naxes || wrong(r, "more axes than the program has");
}

static bool head_line(Reader *r, bool *head) {
    const char *w = field(r, 0);
    Counted *c = r->c;
    int64_t n;
    Type t;
    if (same_text(w, "machine"))
        return r->n == 5 && number(r, field(r, 2), &c->subgroup) && number(r, field(r, 4), &c->poly) &&
               (c->subgroup > 0 || wrong(r, "a subgroup has lanes"));
    if (same_text(w, "counts"))
        return r->n == 9 && number(r, field(r, 2), &c->sweeps) && number(r, field(r, 4), &c->reductions) &&
               number(r, field(r, 6), &c->live) && number(r, field(r, 8), &c->sum);
    if (same_text(w, "shape")) return shape_line(r);
    if (same_text(w, "domain")) return domain_line(r);
    if (same_text(w, "stripe")) return stripe_line(r);
    if (same_text(w, "cell")) return r->n == 4;
    if (same_text(w, "array")) {
        if (r->n != 4 || !type_named(field(r, 2), &t) || !number(r, field(r, 3), &n)) return false;
        c->array_words += n * up_div(type_fact(t)->bytes, 4);
        return true;
    }
    *head = false;
    return true;
}

/* ---- instructions ---- */
static void add(Reader *r, double *lane, double *row, char rank, double each) {
    const double W = (double)r->plan.lanes;
    const double n = r->sweep ? (double)r->elements[r->domain] : 1;
    double l = 1, w = 1;
    if (rank == 'e') {
        l = (double)slots_of(r->elements[r->domain], r->plan.lanes, r->plan.V);
        w = n;
    } else if (rank == 'p') {
        l = (double)up_div(up_div(r->elements[r->domain], r->plan.lanes * r->plan.V), r->plan.flight);
        w = l * W;
    } else if (rank == 'l') {
        w = W;
    }
    *lane += r->loop * l * each;
    *row += r->loop * w * each;
}

static void op_add(Reader *r, int cls, char rank) {
    add(r, &r->c->lane_ops[cls], &r->c->row_ops[cls], rank, 1);
}

/* Each join has partials of its own. */
static void join(Reader *r, Type t) {
    const int64_t W = r->plan.W, S = r->c->subgroup, groups = r->plan.cluster;
    if (r->plan.lanes <= S) return;
    const int64_t partials = (r->plan.combine == 1 ? W : up_div(W, S)) + (groups > 1 ? groups : 0);
    r->c->shared_bytes += (double)(partials * type_fact(t)->bytes * r->plan.P);
}

/* Joins of a block share an exchange, and its barrier, where none waits for another and nothing but arithmetic is
 * between. */
static void exchange(Reader *r, const char *op, int64_t made, bool is_join) {
    int turn = r->before;
    int64_t at = -1;
    for (int i = made < 0 ? 1 : 3; i < r->n; i++)
        if (*r->f[i] == '%' && number(r, r->f[i] + 1, &at) && at >= r->begun && at < LOADS && r->turn[at] > turn)
            turn = r->turn[at];
    const bool index = same_text(op, "join2i"); /* comes with the join before it */
    if (index) turn = r->numbered > 0 ? r->turn[r->numbered - 1] : 0;
    if (is_join && !index) turn++;
    if (turn > r->turns) r->turns = turn;
    const bool pure = is_join || same_text(op, "op") || same_text(op, "cell") || same_text(op, "const");
    if (!pure || (is_join && !index && r->c->subgroup == 1)) r->before = r->turns;
    if (made >= 0) r->turn[made] = turn;
}

/* Compilers multiply where the divisor is a power of two, whose reciprocal is exact. */
static bool by_power_of_two(Reader *r, Type t) {
    int64_t at;
    int e;
    if (r->n < 7 || type_fact(t)->kind != REAL || !number(r, r->f[6] + 1, &at) || at >= LOADS) return false;
    return fabs(frexp(r->value[at], &e)) == 0.5;
}

/* One partial of each subgroup or group goes to all; the barrier of the last level is counted. */
static bool pass(Reader *r, const char *level, Type t) {
    static const char *const levels[] = {"subgroups", "groups", "splits"};
    const int64_t counts[] = {up_div(r->plan.W, r->c->subgroup), r->plan.cluster, r->plan.split};
    const int last = r->plan.split > 1 ? 2 : r->plan.cluster > 1 ? 1 : 0;
    int at = 0;
    while (at < 3 && !same_text(level, levels[at])) at++;
    if (at == 3) return wrong(r, "a level is expected");
    if (at < 2) r->c->shared_bytes += (double)(counts[at] * type_fact(t)->bytes * r->plan.P);
    if (at == last && r->passed != at + 1) r->c->barriers += r->loop;
    r->passes = at + 1;
    return true;
}

static bool touch(Reader *r, const char *name, Type t, bool write, char rank) {
    int s = 0;
    if (!index_of(r, name, 's', r->nstripes, &s)) return false;
    Held *h = &r->stripe[s];
    Counted *c = r->c;
    const double bytes = type_fact(h->ty)->bytes;
    if (write)
        add(r, &c->lane.private_write, &c->row.private_write, rank, bytes);
    else
        add(r, &c->lane.private_read, &c->row.private_read, rank, bytes);
    if (h->ty != t) op_add(r, CONVERT, rank);
    if (h->first < 0) h->first = (int)c->own_sweeps - r->sweep;
    h->last = (int)c->own_sweeps - r->sweep;
    int64_t from;
    h->once |= write && r->loop <= 0;
    h->copied |= write && r->loop > 0 && number(r, field(r, 4) + 1, &from) && from < LOADS && r->load[from];
    return true;
}

static bool memory(Reader *r, const char *param, Type t, bool write, char rank) {
    const int q = program_param(r->p, param);
    if (q < 0 || r->p->param[q].way > W_INOUT) return wrong(r, "an unknown parameter");
    Counted *c = r->c;
    const double bytes = type_fact(r->p->param[q].ty)->bytes;
    if (write)
        add(r, &c->lane.write, &c->row.write, rank, bytes);
    else
        add(r, &c->lane.read, &c->row.read, rank, bytes);
    op_add(r, MEMORY, rank);
    if (r->p->param[q].ty != t) op_add(r, CONVERT, rank);
    return true;
}

/* One store a segment: by the first lane of each, in every step of that lane. */
static bool segment_store(Reader *r, const char *param, Type t) {
    int64_t lanes;
    const int q = program_param(r->p, param);
    if (q < 0 || !number(r, field(r, 4), &lanes) || !lanes) return wrong(r, "a store of segments is expected");
    Counted *c = r->c;
    const double steps = (double)up_div(r->elements[r->domain], r->plan.lanes * r->plan.V) * r->loop,
                 runs = (double)r->elements[r->domain] / (double)(lanes * r->plan.V) * r->loop,
                 bytes = type_fact(r->p->param[q].ty)->bytes;
    c->lane.write += steps * bytes;
    c->row.write += runs * bytes;
    c->lane_ops[MEMORY] += steps;
    c->row_ops[MEMORY] += runs;
    if (r->p->param[q].ty != t) c->lane_ops[CONVERT] += steps, c->row_ops[CONVERT] += runs;
    return true;
}

static void operator(Reader *r, const char *name, int cls, Type t, char rank) {
    const int ops = same_text(name, "log") || same_text(name, "log2") ? LOG_OPS : 1;
    for (int i = 0; i < ops; i++) op_add(r, same_text(name, "div") && by_power_of_two(r, t) ? ALU : cls, rank);
    if (same_text(name, "sigmoid")) op_add(r, DIV, rank);
}

static bool instruction(Reader *r) {
    const bool makes = *field(r, 0) == '%';
    const int o = makes ? 2 : 0;
    if (makes && !same_text(field(r, 1), "=")) return wrong(r, "an instruction is expected");
    char *op = r->n > o ? r->f[o] : r->buf + strlen(r->buf), *dot = strchr(op, '.');
    if (dot) *dot++ = 0;
    Type t;
    if (!type_named(field(r, o + 1), &t)) return wrong(r, "a type is expected");
    const char *first = field(r, o + (makes ? 3 : 2));
    const char rank = makes ? *field(r, o + 2) : 'e';
    if (makes && (!strchr("rlpe", rank) || !rank)) return wrong(r, "a rank is expected");
    const char own = makes ? rank : r->sweep ? 'e' : 'r';
    if ((own == 'e' || own == 'p') && !r->sweep) return wrong(r, "an element outside of a sweep");
    const bool is_join = same_text(op, "join") || same_text(op, "join2") || same_text(op, "join2i");
    if (is_join) join(r, t);
    int64_t made = -1; /* the number of what it makes, where it is kept */
    if (makes && (!number(r, r->f[0] + 1, &made) || made >= LOADS)) made = -1;
    if (r->block) exchange(r, op, made, is_join);
    if (made >= 0) r->numbered = (int)made + 1;
    if (made >= 0 && same_text(op, "const")) r->value[made] = strtod(field(r, 5), NULL);
    r->passed = r->passes, r->passes = 0;
    if (same_text(op, "pass")) return pass(r, first, t);
    if (r->sweep && !r->elements[r->domain]) return true; /* it never runs */
    const int cls = dot ? op_class(dot) : -1;
    const bool needs_class = same_text(op, "op") || !strncmp(op, "fold", 4) || same_text(op, "packfold");
    if (needs_class && cls < 0) return wrong(r, "an unknown operator");
    if (same_text(op, "op"))
        operator(r, dot, cls, t, own);
    else if (same_text(op, "fold"))
        op_add(r, cls, own);
    else if (same_text(op, "fold2"))
        for (int i = 0; i < PAIR_OPS; i++) op_add(r, cls, own);
    else if (same_text(op, "packfold"))
        op_add(r, cls, 'e');
    else if (same_text(op, "elem"))
        op_add(r, ALU, own);
    else if (same_text(op, "loadp") && made >= 0)
        return r->load[made] = true, memory(r, first, t, false, own);
    else if (same_text(op, "loadp") || same_text(op, "load1"))
        return memory(r, first, t, false, own);
    else if (same_text(op, "storep") || same_text(op, "store1"))
        return memory(r, first, t, true, own);
    else if (same_text(op, "get") || same_text(op, "put"))
        return touch(r, first, t, *op == 'p', own);
    else if (same_text(op, "seg"))
        op_add(r, ALU, own);
    else if (same_text(op, "stores"))
        return segment_store(r, first, t);
    else if (same_text(op, "join") || same_text(op, "join2") || same_text(op, "same") || same_text(op, "setpart"))
        r->c->collectives += r->loop;
    else if (!is_join && !strstr("const slot rowidx serial active init cell setcell rowget rowput part meet", op))
        return wrong(r, "an unknown instruction");
    return true;
}

static bool node_line(Reader *r) {
    const char *w = field(r, 0);
    if (same_text(w, "loop")) {
        int64_t n;
        if (r->depth == DEPTH || !number(r, field(r, 1), &n)) return wrong(r, "a loop is expected");
        r->outer[r->depth++] = r->loop;
        r->loop *= (double)n;
        return true;
    }
    if (same_text(w, "}")) {
        if (!r->depth) return wrong(r, "a node that was not begun");
        if (r->block && r->plan.lanes > r->c->subgroup) r->c->barriers += r->loop * r->turns;
        r->loop = r->outer[--r->depth];
        r->sweep = r->block = false;
        return true;
    }
    const bool once = same_text(w, "once");
    if (once) w = field(r, 1);
    if (same_text(w, "block") || same_text(w, "sweep")) {
        if (r->depth == DEPTH || r->sweep) return wrong(r, "a node inside of a sweep");
        r->outer[r->depth++] = r->loop;
        if (once) r->loop = 0;
        r->passes = r->turns = r->before = 0, r->begun = r->numbered;
        r->sweep = *w == 's', r->block = !r->sweep;
        if (!r->sweep) return true;
        if (!index_of(r, field(r, once ? 2 : 1), 'd', r->ndomains, &r->domain)) return false;
        const int64_t slots = slots_of(r->elements[r->domain], r->plan.lanes, r->plan.V);
        r->c->rounds += r->loop * (double)slots;
        r->c->packs += r->loop * (double)up_div(slots, r->plan.V);
        const int64_t before = r->c->least_sweep;
        r->c->least_sweep = r->c->own_sweeps++ ? min_of(before, r->elements[r->domain]) : r->elements[r->domain];
        return true;
    }
    return r->depth ? instruction(r) : wrong(r, "a node is expected");
}

static void stripes(Reader *r) {
    Counted *c = r->c;
    for (int i = 0; i < r->nstripes; i++) {
        const Held *h = &r->stripe[i];
        if (h->home == 's')
            c->shared_bytes +=
                (double)r->points[h->domain] * (double)up_div(r->elements[h->domain], r->plan.cluster * r->plan.split) *
                type_fact(h->ty)->bytes * (double)r->plan.P * (double)(h->copied ? 1 + r->plan.ahead : 1);
        if (h->home != 'r') continue;
        const int64_t slots = r->points[h->domain] * slots_of(r->elements[h->domain], r->plan.lanes, r->plan.V);
        c->own_sum += up_div(slots * type_fact(h->ty)->bytes, 4);
        if (r->plan.tail == HEAD_SHIFT) c->own_more += r->plan.flight * up_div(type_fact(h->ty)->bytes, 4);
    }
    for (int64_t w = 0; w < c->own_sweeps; w++) {
        int64_t live = 0;
        for (int i = 0; i < r->nstripes; i++) {
            const Held *h = &r->stripe[i];
            if (h->home != 'r' || h->first < 0 || w < h->first || (w > h->last && !h->once)) continue;
            live += up_div(r->points[h->domain] * slots_of(r->elements[h->domain], r->plan.lanes, r->plan.V) *
                               type_fact(h->ty)->bytes,
                           4);
        }
        c->own_live = max_of(c->own_live, live);
    }
}

bool kern_counted(Mem *m, const Program *p, const char *text, size_t n, Counted *out, const char **why) {
    *out = (Counted){0};
    if (n > 1 << 22) return *why = "the kern's text is too long", false;
    Reader *r = mem_get(m, sizeof *r);
    *r = (Reader){.m = m, .p = p, .at = text, .end = text + n, .c = out, .loop = 1};
    bool ok = next_line(r) && (same_text(field(r, 0), "kern") || wrong(r, "`kern` is expected")), head = true;
    if (ok) {
        const char *line = r->at, *nl = memchr(line, '\n', (size_t)(r->end - line));
        ok = nl && nl - line > 5 && !memcmp(line, "plan ", 5);
        if (ok) {
            out->plan = mem_text(m, line + 5, (size_t)(nl - line - 5));
            ok = plan_parse(m, out->plan, &r->plan, why);
            if (!ok) return false;
            r->at = nl + 1;
            r->line++;
        } else {
            wrong(r, "a plan is expected");
        }
    }
    while (ok && r->at < r->end) {
        ok = next_line(r);
        if (ok && head) ok = head_line(r, &head) || wrong(r, "a line of the tables is expected");
        if (ok && !head) ok = !out->subgroup ? wrong(r, "`machine` is missing") : node_line(r);
    }
    if (ok && (r->depth || head)) ok = wrong(r, "the text ends too early");
    if (ok) stripes(r);
    *why = r->why ? r->why : *why;
    return ok;
}
