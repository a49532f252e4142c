/* Findings, JSON that may be anything, and the statistics of docs/records.md. */
#include "claims.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ClaimName names[] = {
    {"format", "the document is of a known format, canonical, and has the members it must have"},
    {"hash", "names of content are those of their content"},
    {"catalog", "catalogs are whole, frozen, and the ones given beside the record"},
    {"provenance", "programs that took part are named by hash and stayed the same"},
    {"options", "what was asked for is what can be asked for"},
    {"source", "the kernel's text says what the program says"},
    {"program", "the program is well formed and has the parameters and extents of the case"},
    {"inputs", "inputs are those of the generator"},
    {"pair", "both sides of a comparison solve the same problem"},
    {"plan", "the plan has every dimension, with a value that it has"},
    {"kern", "the kern applies this plan to this program"},
    {"demand", "the demand is what its kern asks for, and what its program needs"},
    {"slots", "stripes are as long as the ownership map makes them"},
    {"budget", "what is kept fits the budget of the machine"},
    {"score", "the prior score follows from the demand and the launch"},
    {"candidates", "every point of the space has a fate, once"},
    {"refusals", "refused candidates break the rule that they are said to break"},
    {"bounds", "the bound's inputs follow from the plan"},
    {"coverage", "every case has its measurements in every round, and every figure its samples"},
    {"schedule", "cases, pairs and peers ran in the order of the rule"},
    {"balance", "each order of a pair, and of its peers, in half of the rounds"},
    {"frozen", "what ran is what the catalogs froze"},
    {"fresh", "each measurement is a process, a compilation and samples of its own"},
    {"samples", "medians, smallest and largest times are those of the samples"},
    {"regime", "figures are taken as their names say"},
    {"ceilings", "ceilings are numbers of this measurement"},
    {"checks", "outputs were checked whole, before and after, and inputs kept"},
    {"outputs", "archived outputs are whole, and the same bits in every round"},
    {"values", "outputs are what the definition says, evaluated again, within its bound"},
    {"archive", "archived values and bounds of the definition are those of another evaluation"},
    {"controls", "pairs of one source are marked as controls, and there are some"},
    {"ratios", "ratios are those of the paired medians"},
    {"interval", "the bootstrap's interval follows from the ratios and its seed"},
    {"floor", "the noise floor follows from the controls"},
    {"verdict", "verdicts follow from ratios and floor"},
    {"overall", "the gain over all follows from the cases"},
    {"peers", "peers ran when and as often as they should"},
};

enum { NAMES = sizeof names / sizeof *names };
_Static_assert((int)NAMES <= (int)NAMES_MOST, "a count for each claim");

const ClaimName *claim_names(int *count) {
    *count = NAMES;
    return names;
}

static void put(Audit *a, Found f, const char *name, const char *place, const char *detail) {
    a->count[f]++;
    for (int i = 0; i < NAMES; i++)
        if (same_text(names[i].name, name)) a->by_name[i][f]++;
    if (a->kept[f] >= CLAIMS_SHOWN) return;
    if (a->nshown == a->cap) {
        const size_t cap = a->cap ? 2 * a->cap : 256;
        Claim *more = mem_array(a->m, cap, sizeof *more);
        if (a->nshown) memcpy(more, a->shown, a->nshown * sizeof *more);
        a->shown = more;
        a->cap = cap;
    }
    a->kept[f]++;
    a->shown[a->nshown++] = (Claim){f, name, mem_text(a->m, place, strlen(place)), detail}; /* outlives the document */
}

static char *text_of(Mem *m, const char *fmt, va_list ap) {
    char buf[512];
    vsnprintf(buf, sizeof buf, fmt, ap);
    for (char *c = buf; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' '; /* what the record says goes to a terminal */
    return mem_text(m, buf, strlen(buf));
}

bool check(Audit *a, bool ok, const char *name, const char *place, const char *fmt, ...) {
    const char *detail = "";
    if (!ok && a->kept[REFUTED] < CLAIMS_SHOWN) {
        va_list ap;
        va_start(ap, fmt);
        detail = text_of(a->m, fmt, ap);
        va_end(ap);
    }
    put(a, ok ? CONFIRMED : REFUTED, name, place, detail);
    return ok;
}

void unknown(Audit *a, const char *name, const char *place, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *detail = a->kept[UNKNOWN] < CLAIMS_SHOWN ? text_of(a->m, fmt, ap) : "";
    va_end(ap);
    put(a, UNKNOWN, name, place, detail);
}

/* ---- what was found ---- */
void claims_print(const Audit *a, bool all) {
    int n;
    const ClaimName *c = claim_names(&n);
    printf("%-11s %9s %7s %13s  %s\n", "claim", "confirmed", "refuted", "not checkable", "what is claimed");
    for (int i = 0; i < n; i++) {
        const int64_t *k = a->by_name[i];
        if (k[0] + k[1] + k[2])
            printf("%-11s %9lld %7lld %13lld  %s\n", c[i].name, (long long)k[CONFIRMED], (long long)k[REFUTED],
                   (long long)k[UNKNOWN], c[i].what);
    }
    static const Found order[] = {REFUTED, UNKNOWN, CONFIRMED};
    static const char *const heads[] = {"refuted", "not checkable", "confirmed"};
    for (int f = 0; f < (all ? 3 : 2); f++) {
        int64_t shown = 0;
        const int64_t most = all ? CLAIMS_SHOWN : order[f] == REFUTED ? 50 : 12;
        for (size_t i = 0; i < a->nshown && shown < most; i++) {
            const Claim *x = &a->shown[i];
            if (x->found != order[f]) continue;
            if (!shown++) printf("\n%s:\n", heads[f]);
            printf("  %s  %s%s%s\n", x->name, x->place, *x->detail ? ": " : "", x->detail);
        }
        if (a->count[order[f]] > shown) printf("  and %lld more\n", (long long)(a->count[order[f]] - shown));
    }
    printf("\n%lld claims: %lld confirmed, %lld refuted, %lld not checkable\n",
           (long long)(a->count[0] + a->count[1] + a->count[2]), (long long)a->count[CONFIRMED],
           (long long)a->count[REFUTED], (long long)a->count[UNKNOWN]);
}

static json_t *text_json(const char *s) {
    json_t *j = json_string(s);
    return j ? j : json_string("");
}

json_t *claims_json(const Audit *a, const char *record) {
    static const char *const founds[] = {"confirmed", "refuted", "not_checkable"};
    json_t *list = json_array(), *counts = json_object();
    for (size_t i = 0; i < a->nshown; i++) {
        const Claim *c = &a->shown[i];
        json_array_append_new(list, json_pack("{s:s,s:s,s:o,s:o}", "found", founds[c->found], "claim", c->name, "place",
                                              text_json(c->place), "detail", text_json(c->detail)));
    }
    for (int f = 0; f < FOUNDS; f++) json_object_set_new(counts, founds[f], json_integer(a->count[f]));
    return json_pack("{s:s,s:o,s:o,s:o}", "format", "rowfold-audit-1", "record", text_json(record), "counts", counts,
                     "claims", list);
}

/* ---- JSON ---- */
const json_t *at(const json_t *o, const char *key) {
    return json_is_object(o) ? json_object_get(o, key) : NULL;
}
const char *text_at(const json_t *o, const char *key) {
    const char *s = json_string_value(at(o, key));
    return s ? s : "";
}
int64_t int_at_key(const json_t *o, const char *key, int64_t other) {
    const json_t *j = at(o, key);
    return json_is_integer(j) ? (int64_t)json_integer_value(j) : other;
}
double real_of_json(const json_t *j) {
    if (json_is_number(j)) return json_number_value(j);
    const char *s = json_string_value(j);
    if (!s) return (double)NAN;
    return same_text(s, "inf") ? (double)INFINITY : same_text(s, "-inf") ? -(double)INFINITY : (double)NAN;
}
double real_at(const json_t *o, const char *key) {
    return real_of_json(at(o, key));
}
bool flag_at(const json_t *o, const char *key) {
    return json_is_true(at(o, key));
}
size_t count_at(const json_t *o, const char *key) {
    return json_array_size(at(o, key));
}
bool is_null(const json_t *o, const char *key) {
    const json_t *j = at(o, key);
    return json_is_null(j);
}
bool same_json(const json_t *a, const json_t *b) {
    return a && b && json_equal(a, b);
}

enum { CANONICAL = JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY };

const char *canonical(Mem *m, const json_t *j, size_t *n) {
    *n = json_dumpb(j, NULL, 0, CANONICAL);
    char *s = mem_get(m, *n + 1);
    json_dumpb(j, s, *n, CANONICAL);
    return s;
}

void json_hash(Mem *m, const json_t *object, const char *without, char hex[65]) {
    json_t *copy = json_object();
    const char *key;
    json_t *value;
    Block *mark;
    size_t used, n;
    json_object_foreach((json_t *)object, key, value) {
        if (!same_text(key, without)) json_object_set(copy, key, value);
    }
    mem_mark(m, &mark, &used);
    const char *s = canonical(m, copy, &n);
    sha256_text(s, n, hex);
    mem_back(m, mark, used);
    json_decref(copy);
}

bool near(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= 1e-11 * fmax(fabs(a), fabs(b));
}

/* ---- statistics ---- */
static int by_size(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

double median_of(Mem *m, const double *x, size_t n) {
    if (!n) return (double)NAN;
    double *s = mem_array(m, n, sizeof *s);
    memcpy(s, x, n * sizeof *s);
    qsort(s, n, sizeof *s, by_size);
    return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

void bootstrap(Mem *m, const double *ratio, size_t n, uint64_t seed, int64_t resamples, double percent, double *low,
               double *high) {
    Block *mark;
    size_t used;
    mem_mark(m, &mark, &used);
    double *med = mem_array(m, (size_t)resamples, sizeof *med), *draw = mem_array(m, n, sizeof *draw);
    uint64_t s = seed;
    for (int64_t b = 0; b < resamples; b++) {
        for (size_t i = 0; i < n; i++) {
            uint64_t z = s += 0x9e3779b97f4a7c15u; /* splitmix64 */
            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
            z = (z ^ z >> 27) * 0x94d049bb133111ebu;
            draw[i] = ratio[(z ^ z >> 31) % n];
        }
        qsort(draw, n, sizeof *draw, by_size);
        med[b] = n % 2 ? draw[n / 2] : (draw[n / 2 - 1] + draw[n / 2]) / 2;
    }
    qsort(med, (size_t)resamples, sizeof *med, by_size);
    const double out = (100 - percent) / 200;
    int64_t lo = (int64_t)floor(out * (double)resamples), hi = (int64_t)ceil((1 - out) * (double)resamples) - 1;
    lo = max_of(0, min_of(lo, resamples - 1));
    hi = max_of(0, min_of(hi, resamples - 1));
    *low = med[lo];
    *high = med[hi];
    mem_back(m, mark, used);
}
