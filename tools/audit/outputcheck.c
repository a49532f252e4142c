/* Archived outputs: whole or sampled, against an evaluation of the definition of this program's own. */
#include "checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INF ((double)INFINITY)

/* A recorded bound and this program's own are both of first order, with other formulas here and there: one that is more
 * than this many times the other is not taken for a bound of the same program. */
static const double bound_factor = 16;

struct Outputs {
    struct Seen {
        const char *key;
        struct Seen *next;
    } * first;
};

Outputs *outputs_new(Mem *m) {
    return mem_get(m, sizeof(Outputs));
}

static bool seen_before(Audit *a, Outputs *o, const char *key) { /* and from now on */
    for (struct Seen *s = o->first; s; s = s->next)
        if (same_text(s->key, key)) return true;
    struct Seen *s = mem_get(a->m, sizeof *s);
    *s = (struct Seen){key, o->first};
    o->first = s;
    return false;
}

/* A path that cannot leave the record's folder. */
static uint8_t *file_of(Audit *a, const char *name, size_t bytes, size_t *n, const char **why) {
    if (!*name || *name == '/' || strstr(name, "..") || strchr(name, '\\') || strlen(name) > 512)
        return *why = "a name that may lead elsewhere", NULL;
    char *s = file_read(a->m, *a->folder ? mem_fmt(a->m, "%s/%s", a->folder, name) : name, bytes, n, why);
    if (s && *n != bytes) return *why = "it has another length", NULL;
    return (uint8_t *)s;
}

/* The folder that a file was archived in was not kept with the record, nor anything else that lay there. */
static bool not_kept(const Audit *a, const char *name) {
    const char *slash = strchr(name, '/');
    if (!slash || slash == name || strstr(name, "..") || strlen(name) > 512) return false;
    const char *folder = mem_fmt(a->m, "%.*s", (int)(slash - name), name);
    return access(*a->folder ? mem_fmt(a->m, "%s/%s", a->folder, folder) : folder, F_OK) != 0;
}

typedef struct Archive { /* one output of one measurement */
    int o, param;
    Type st;
    int64_t elements;
    const uint8_t *bytes, *expect; /* NULL: not archived whole */
    size_t nsamples;
    int64_t *sample; /* indexes, ascending as given */
    const json_t *samples;
    const char *place;
    int64_t wrong, open, first_wrong, value_off, bound_off, first_off, bad_samples, checked;
    double own, recorded; /* bounds at first_off */
} Archive;

static void coordinates(const Program *p, int param, int64_t i, int64_t x[AXES]) {
    const PParam *q = &p->param[param];
    for (int d = q->rank - 1; d >= 0; d--) {
        const int64_t n = p->n[q->axis[d]];
        x[q->axis[d]] = n ? i % n : 0;
        i = n ? i / n : 0;
    }
}

static double f64_of(const uint8_t *b) {
    return (double)number_of_bits(F64, b).v;
}

/* Recorded value and bound against own ones. A double holds what was recorded, and what is below its range is 0. */
static void archive_compare(Archive *x, const Want *w, int64_t i, double value, double bound) {
    const bool floats = type_fact(w->ty)->kind == REAL;
    const long double own = floats ? w->x.v : int_real(w->ty, w->x.i);
    const double widest = fmax(w->e, bound);
    const long double least = type_fact(x->st)->kind == REAL && w->ty != F64 ? 0x1p-146L : 0x1p-1070L;
    const bool same = widest == INF || (isnan(own) && isnan(value)) || own == (long double)value ||
                      fabsl(own - (long double)value) <= (long double)widest + 0x1p-50L * fabsl(own) + least;
    const bool bounded = isnan(own) || w->set ||
                         (bound <= bound_factor * w->e + (double)least && w->e <= bound_factor * bound + (double)least);
    if (!same) x->value_off++;
    if (!bounded) x->bound_off++;
    if ((!same || !bounded) && x->first_off < 0) {
        x->first_off = i;
        x->own = same ? w->e : (double)own;
        x->recorded = same ? bound : value;
    }
}

static void element(Archive *x, const Want *w, int64_t i, const uint8_t *bits) {
    x->checked++;
    x->open += w->e == INF;
    if (want_allows(w, x->st, number_of_bits(x->st, bits))) return;
    if (x->first_wrong < 0) x->first_wrong = i;
    x->wrong++;
}

static void sample_element(Audit *a, Archive *x, const Want *w, size_t k) {
    const json_t *s = json_array_get(x->samples, k);
    const int64_t i = x->sample[k];
    const size_t each = (size_t)type_fact(x->st)->bytes;
    size_t n = 0;
    const char *hex = text_at(s, "bits");
    uint8_t *bits = bytes_hex(a->m, hex, strlen(hex), &n), little[8];
    if (!bits || n != each) {
        x->bad_samples++;
        return;
    }
    for (size_t b = 0; b < each; b++) little[b] = bits[each - 1 - b]; /* written as a number is */
    const Number got = number_of_bits(x->st, little);
    const Type ct = type_compute(x->st);
    const long double v = type_fact(ct)->kind == REAL ? got.v : int_real(ct, got.i);
    const double value = real_at(s, "value");
    if (!((isnan(v) && isnan(value)) || (double)v == value)) x->bad_samples++;
    if (x->bytes && memcmp(x->bytes + (size_t)i * each, little, each) != 0) x->bad_samples++;
    if (!x->bytes) element(x, w, i, little);
    const double bound = real_at(s, "bound"), want = real_at(s, "want");
    if (isnan(bound) || bound < 0)
        x->bad_samples++;
    else
        archive_compare(x, w, i, want, bound);
}

/* One walk over the rows that matter, with all outputs of a row judged at once. */
static bool row_matters(const Program *p, const Archive *x, int nx, const int64_t row[AXES]) {
    for (int k = 0; k < nx; k++) {
        if (x[k].bytes) return true;
        for (size_t s = 0; s < x[k].nsamples; s++) {
            int64_t c[AXES] = {0};
            bool here = true;
            coordinates(p, x[k].param, x[k].sample[s], c);
            for (int i = 0; i < p->naxes; i++) here &= !(p->rows >> i & 1) || c[i] == row[i];
            if (here) return true;
        }
    }
    return false;
}

static void judge_row(Audit *a, const Eval *e, Archive *x, const int64_t row[AXES]) {
    const Program *p = e->p;
    const PParam *q = &p->param[x->param];
    const size_t each = (size_t)type_fact(x->st)->bytes;
    uint32_t el = 0;
    for (int d = 0; d < q->rank; d++) el |= 1u << q->axis[d];
    el &= ~p->rows;
    const int64_t n = program_points(p, el);
    for (int64_t k = 0; x->bytes && k < n; k++) {
        int64_t c[AXES], rest = k, i = 0;
        memcpy(c, row, sizeof c);
        for (int ax = p->naxes - 1; ax >= 0; ax--)
            if (el >> ax & 1) c[ax] = rest % p->n[ax], rest /= p->n[ax];
        for (int d = 0; d < q->rank; d++) i = i * p->n[q->axis[d]] + c[q->axis[d]];
        const Want w = eval_want(e, x->o, c);
        element(x, &w, i, x->bytes + (size_t)i * each);
        if (x->expect) archive_compare(x, &w, i, f64_of(x->expect + i * 16), f64_of(x->expect + i * 16 + 8));
    }
    for (size_t s = 0; s < x->nsamples; s++) {
        int64_t c[AXES] = {0};
        bool here = true;
        coordinates(p, x->param, x->sample[s], c);
        for (int ax = 0; ax < p->naxes; ax++) here &= !(p->rows >> ax & 1) || c[ax] == row[ax];
        if (!here) continue;
        const Want w = eval_want(e, x->o, c);
        sample_element(a, x, &w, s);
    }
}

static int64_t rows_that_matter(const Program *p, const Archive *x, int nx, int64_t rows) {
    int64_t samples = 0;
    for (int k = 0; k < nx; k++) {
        if (x[k].bytes) return rows;
        samples += (int64_t)x[k].nsamples;
    }
    (void)p;
    return min_of(samples, rows);
}

static bool judge(Audit *a, const CaseInfo *c, Archive *x, int nx) {
    const Program *p = c->p;
    const char *why = "";
    const int64_t rows = program_points(p, p->rows);
    int64_t work;
    if (!mul_ok(rows_that_matter(p, x, nx, rows), eval_work(p), a->work_left, &work)) return false;
    a->work_left -= work;
    Block *mark, *row_mark;
    size_t used, row_used;
    mem_mark(a->m, &mark, &used);
    Eval *e = eval_new(a->m, p, c->in, c->scalar, &c->rules, &why);
    int64_t row[AXES] = {0};
    for (int64_t r = 0; e && r < rows; r++) {
        if (row_matters(p, x, nx, row)) {
            mem_mark(a->m, &row_mark, &row_used);
            eval_row(e, row);
            for (int k = 0; k < nx; k++) judge_row(a, e, &x[k], row);
            mem_back(a->m, row_mark, row_used);
        }
        for (int i = p->naxes - 1; i >= 0; i--) {
            if (!(p->rows >> i & 1)) continue;
            if (++row[i] < p->n[i]) break;
            row[i] = 0;
        }
    }
    mem_back(a->m, mark, used);
    return e != NULL;
}

/* Which elements are sampled is told by the seed, so that nobody chooses the good ones. */
static void samples_read(Audit *a, const json_t *o, const CaseInfo *c, const json_t *options, Archive *x) {
    uint64_t s = c->seed;
    x->samples = at(o, "samples");
    x->nsamples = json_array_size(x->samples);
    x->sample = mem_array(a->m, x->nsamples + 1, sizeof *x->sample);
    const int64_t want = int_at_key(options, "archive_samples", -1);
    bool rule = true;
    for (size_t k = 0; k < x->nsamples; k++) {
        const int64_t i = int_at_key(json_array_get(x->samples, k), "index", -1);
        int64_t own = k == 0 ? 0 : x->elements - 1;
        if (k > 1) {
            uint64_t z = s += 0x9e3779b97f4a7c15u; /* splitmix64 */
            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
            z = (z ^ z >> 27) * 0x94d049bb133111ebu;
            own = x->elements ? (int64_t)((z ^ z >> 31) % (uint64_t)x->elements) : 0;
        }
        rule &= i == own;
        x->sample[k] = i < 0 || i >= x->elements ? 0 : i;
    }
    check(a, rule, "outputs", x->place, "samples are not at the elements that the seed tells");
    check(a, want < 0 || (int64_t)x->nsamples == min_of(want, x->elements) || (int64_t)x->nsamples == want, "outputs",
          x->place, "%zu samples of %lld", x->nsamples, (long long)want);
}

static void file_check(Audit *a, const json_t *o, Archive *x) {
    const size_t bytes = (size_t)x->elements * (size_t)type_fact(x->st)->bytes;
    const json_t *expect = at(o, "expect");
    const char *why = "";
    size_t n = 0;
    char hex[65];
    if (!json_is_string(at(o, "file"))) return;
    if (not_kept(a, text_at(o, "file"))) {
        unknown(a, "outputs", x->place, "it was archived, and that folder is not beside the record");
        return;
    }
    uint8_t *b = file_of(a, text_at(o, "file"), bytes, &n, &why);
    if (!check(a, b != NULL, "outputs", x->place, "%.200s: %s", text_at(o, "file"), why)) return;
    sha256_text(b, n, hex);
    check(a, same_text(hex, text_at(o, "sha256")), "outputs", x->place, "%.200s has another hash than the outputs had",
          text_at(o, "file"));
    x->bytes = b;
    b = file_of(a, text_at(expect, "file"), 16 * (size_t)x->elements, &n, &why);
    if (!check(a, b != NULL, "archive", x->place, "expect: %s", why)) return;
    sha256_text(b, n, hex);
    check(a, same_text(hex, text_at(expect, "sha256")), "archive", x->place, "the archived values have another hash");
    x->expect = b;
}

static void tell(Audit *a, const Archive *x) {
    if (x->bytes || x->checked)
        check(a, !x->wrong, "values", x->place, "%lld of %lld elements are beyond their bound, the first is %lld",
              (long long)x->wrong, (long long)x->checked, (long long)x->first_wrong);
    if (x->open)
        unknown(a, "values", x->place, "%lld of %lld elements may be anything", (long long)x->open,
                (long long)x->checked);
    check(a, !x->bad_samples, "outputs", x->place, "%lld samples are not what their bits or the archived bytes say",
          (long long)x->bad_samples);
    check(a, !x->value_off, "archive", x->place,
          "%lld values of the definition are others, the first is %lld: %.17g, and %.17g here", (long long)x->value_off,
          (long long)x->first_off, x->recorded, x->own);
    check(a, !x->bound_off, "archive", x->place,
          "%lld bounds are more than %g times another evaluation's or less, the first is %lld: %.6g, and %.6g here",
          (long long)x->bound_off, bound_factor, (long long)x->first_off, x->recorded, x->own);
}

void outputs_check(Audit *a, const json_t *m, const CaseInfo *c, const json_t *options, Outputs *seen,
                   const char *place) {
    const json_t *list = at(m, "outputs");
    const Program *p = c->p;
    const char *key = mem_fmt(a->m, "%s|%s", c->id, c->plan_text);
    Archive *x = mem_array(a->m, (size_t)p->nouts + 1, sizeof *x);
    const bool whole = json_array_size(list) == (size_t)p->nouts;
    if (!check(a, whole, "outputs", place, "there are not as many as the program has")) return;
    int nx = 0;
    for (int k = 0; k < p->nouts; k++) {
        const json_t *o = json_array_get(list, (size_t)k);
        const int param = program_param(p, text_at(o, "param"));
        Archive *y = &x[nx];
        int out = -1;
        for (int i = 0; i < p->nouts; i++)
            if (p->out_param[i] == param) out = i;
        const char *here = mem_fmt(a->m, "%s output %.40s", place, text_at(o, "param"));
        if (!check(a, out >= 0 && param >= 0, "outputs", here, "the program has no such output")) return;
        for (int i = 0; i < nx; i++)
            if (x[i].param == param) out = -1;
        if (!check(a, out >= 0, "outputs", here, "it stands twice")) return;
        *y = (Archive){.o = out,
                       .param = param,
                       .st = p->param[param].ty,
                       .elements = 1,
                       .place = here,
                       .first_wrong = -1,
                       .first_off = -1};
        for (int d = 0; d < p->param[param].rank; d++) y->elements *= p->n[p->param[param].axis[d]];
        if (!check(a,
                   int_at_key(o, "elements", -1) == y->elements &&
                       int_at_key(o, "bytes", -1) == y->elements * type_fact(y->st)->bytes &&
                       same_text(text_at(o, "type"), type_fact(y->st)->name),
                   "outputs", here, "type, elements or bytes are not the program's"))
            return;
        key = mem_fmt(a->m, "%s|%s", key, text_at(o, "sha256"));
        nx++;
    }
    /* What was judged once is not judged again, but for what is told of it here: that it is the same. */
    char hex[65];
    size_t n;
    const char *text = canonical(a->m, list, &n);
    for (int k = 0; k < nx; k++) samples_read(a, json_array_get(list, (size_t)k), c, options, &x[k]);
    sha256_text(text, n, hex);
    const bool again = seen_before(a, seen, mem_fmt(a->m, "%s|%s", key, hex));
    if (again) {
        for (int k = 0; k < nx; k++) check(a, true, "values", x[k].place, "as before");
        return;
    }
    for (int k = 0; k < nx; k++) file_check(a, json_array_get(list, (size_t)k), &x[k]);
    if (!c->inputs_known || !c->plan_known || a->quick || !judge(a, c, x, nx)) {
        for (int k = 0; k < nx; k++)
            unknown(a, "values", x[k].place, "inputs or plan are not known, or there is too much to evaluate here");
        return;
    }
    for (int k = 0; k < nx; k++) tell(a, &x[k]);
}
