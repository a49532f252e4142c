/* One plan measured: lowered, audited, emitted, built anew, checked, its figures and the machine's ceilings taken,
 * checked again, its outputs archived. What comes of it is the `measurement` of docs/records.md. */
#ifndef ROWFOLD_MEASURE_H
#define ROWFOLD_MEASURE_H

#include "../bench/figures.h"

struct json_t;

typedef struct MeasureAsk {
    FigureAsk figures;
    uint64_t seed;           /* that the bed was made with; of the samples of large outputs too */
    const char *archive;     /* folder of outputs; NULL: none are kept */
    int64_t whole_bytes;     /* outputs up to this are kept whole */
    int archive_samples;     /* of every output */
    bool ceilings;           /* of memory, beside the figures */
    bool worker;             /* the process does nothing else */
    int64_t started_unix_ns; /* of the process */
} MeasureAsk;

/* What a measurement owns. Zero it first; measuring_free takes any stage, also after memory ran out. */
typedef struct Measuring {
    Ring ring;
    Module *mod;
    struct json_t *json; /* the caller takes it by setting this to NULL */
} Measuring;
Err measure_plan(Cx *cx, Bed *bed, const Plan *plan, const MeasureAsk *q, Measuring *m);
void measuring_free(Measuring *m);
void least_traffic(const Problem *pb, double *read, double *write); /* bytes: each input once, each output once */

/* ---- on the wire ---- */
struct json_t *measure_ask_json(const MeasureAsk *q);
bool measure_ask_read(Arena *a, const struct json_t *j, MeasureAsk *q);
double measure_ask_seconds(const MeasureAsk *q); /* what it may take, generously, besides building and checking */
#endif
