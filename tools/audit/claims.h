/* What a record claims, one by one, and what was found of each. */
#ifndef AUDIT_CLAIMS_H
#define AUDIT_CLAIMS_H

#include "planread.h"

#include <jansson.h>

typedef enum Found { CONFIRMED, REFUTED, UNKNOWN, FOUNDS } Found;
typedef struct Claim {
    Found found;
    const char *name, *place,
        *detail; /* name: of the table in claims.c; place: of the record; detail: "" if confirmed */
} Claim;
enum { CLAIMS_SHOWN = 4096, NAMES_MOST = 64 }; /* of each kind of finding; the rest is counted */
typedef struct Audit {
    Mem *m;
    const char *folder; /* of the record: archived files lie there */
    Claim *shown;
    size_t nshown, cap;
    int64_t count[FOUNDS];
    int64_t kept[FOUNDS];
    int64_t by_name[NAMES_MOST][FOUNDS]; /* in the order of claim_names */
    bool quick;                          /* nothing that takes long */
    int64_t work_left;                   /* elements that may still be evaluated */
    int64_t bytes_left;                  /* of inputs that may still be made again */
} Audit;

typedef struct ClaimName {
    const char *name, *what;
} ClaimName;
const ClaimName *claim_names(int *count);

/* ok: confirmed; else refuted with the text, which says what was found and what follows from the record. */
#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
bool check(Audit *a, bool ok, const char *name, const char *place, const char *fmt, ...);
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void unknown(Audit *a, const char *name, const char *place, const char *fmt, ...);
void claims_print(const Audit *a, bool all);
json_t *claims_json(const Audit *a, const char *record);

/* ---- reading JSON that may be anything ---- */
const json_t *at(const json_t *o, const char *key);    /* NULL-safe; NULL where it is not there */
const char *text_at(const json_t *o, const char *key); /* "" where it is no text */
int64_t int_at_key(const json_t *o, const char *key, int64_t other);
double real_at(const json_t *o, const char *key); /* also "nan", "inf", "-inf"; NAN where it is none */
double real_of_json(const json_t *j);
bool flag_at(const json_t *o, const char *key);    /* true only where it is true */
size_t count_at(const json_t *o, const char *key); /* of an array's elements */
bool is_null(const json_t *o, const char *key);    /* it is there, and null */
bool same_json(const json_t *a, const json_t *b);
const char *canonical(Mem *m, const json_t *j, size_t *n);
void json_hash(Mem *m, const json_t *object, const char *without, char hex[65]);
bool near(double a, double b); /* equal but for the last bits, or both not numbers */

/* ---- statistics ---- */
double median_of(Mem *m, const double *x, size_t n);
/* docs/records.md, Result: the percentile interval of the median of n ratios. */
void bootstrap(Mem *m, const double *ratio, size_t n, uint64_t seed, int64_t resamples, double percent, double *low,
               double *high);
#endif
