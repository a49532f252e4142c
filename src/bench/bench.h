/* Floor 5: a bed of memory on which kernels of one problem are checked and timed, and the statistics of their times. */
#ifndef ROWFOLD_BENCH_H
#define ROWFOLD_BENCH_H

#include "../gen/kern.h"
#include "../oracle/oracle.h"
#include "../rt/rt.h"

/* Order statistics of samples, in ns a call. */
typedef struct Times {
    int n, calls; /* samples, and calls in each */
    double ns[96];
    double median, min, max;
} Times;
void times_sort(Times *t); /* fills median, min and max */

/* Arguments for a problem, dense, seeded, with the definition's outputs. Zero it first and set `cold` where it is
 * wanted; bed_free takes any stage of it. */
typedef struct Bed {
    bool cold; /* timed calls rotate over copies of all tensors, so that no cache has them from the last call */
    Arena *a;  /* of the inputs and the definition's values */
    Device *dev;
    const Problem *pb;
    Abi abi;
    int64_t rows, elements; /* elements: of all tensors */
    double bytes;           /* least traffic: every input read once, every output written once */
    Mem *mem[MAX_PARAMS];
    size_t size[MAX_PARAMS];
    Args host; /* inputs as given (inout ones before the call) and room for outputs; memory of the arena */
    Slot slots[MAX_PARAMS * (MAX_RANK + 2) + MAX_AXES];
    int64_t most_sample_ns; /* ROWFOLD_SAMPLE_MS; 0: no limit but that which is asked for */
    int nsets, next;        /* sets that calls take in turn: one, or copies of it; where the next sample goes on */
    int made, places;       /* sets that there are; most of them that one is timed in after the other, where not cold */
    Slot **set;             /* of each set, where cold twice over, so that any may be the first */
    Mem **copy;             /* memory of all but the first, a parameter after the other */
    int ncopies;
    struct { /* definition's values for one set of bounds, made when first asked for */
        bool made;
        OracleOptions o;
        Expect want[MAX_PARAMS];
    } expect[STAT_COUNT];
} Bed;
enum { BED_COLD_BYTES = 200000000 }; /* that copies have together, at least; several times what caches hold */
/* Rows of a call; an error where the shape does not say. */
Err bed_rows(Cx *cx, const Problem *pb, int64_t *rows);
int bed_copies(const Problem *pb); /* of all tensors, that calls take in turn where no cache is to have them */
double bed_rotated(const Bed *b);  /* bytes of all copies; 0: not cold */
Err bed_make(Cx *cx, Device *d, const Problem *pb, uint64_t seed, Bed *b);
void bed_free(Bed *b);
/* Calls that are timed from now on are of extent n of the ranged axis, within its range, where the problem has one; the
 * tensors stay as they lie. */
void bed_extent(Bed *b, int64_t n);
/* Calls that are timed from now on find copies of the tensors, those of `place` (modulo how many there is memory for),
 * in the same place of every module: what lies where in a cache is one time for one place and another for the next.
 * A cold bed goes on as before. */
enum { BED_PLACES = 8 };
void bed_place(Cx *cx, Bed *b, int place);
void bed_one_place(Bed *b); /* gives back the memory of all but the first */
/* What the bound of a plan's outputs must allow for. */
OracleOptions bed_bounds(const Problem *pb, const Plan *plan);
/* Poisons the outputs, runs once, compares every element. `o` may be wider than the plan needs: kept for the next call
 * with the same statistic. */
Err bed_check(Cx *cx, Bed *b, Module *m, const OracleOptions *o, int threads, Verdict *v);
/* Its parts: inputs that calls overwrite are put back and outputs poisoned; what the outputs hold now is compared with
 * the definition (and is in host.t then). */
Err bed_reset(Cx *cx, Bed *b);
Err bed_verify(Cx *cx, Bed *b, const OracleOptions *o, Verdict *v);
/* The definition's values and bounds, made when first asked for; they live as long as the bed. */
Err bed_expect(Cx *cx, Bed *b, const OracleOptions *o, const Expect **want);
enum { BED_POISON = 0xA5 };
/* `samples` samples of at least sample_ns each; those that the clock gives no positive time for are dropped and
 * repeated. Stops early, with what it has, when the first sample is above
 * give_up_ns a call (0: never). */
Err bed_time(Cx *cx, Bed *b, Module *m, int threads, int samples, int64_t sample_ns, double give_up_ns, Times *t);
#endif
