/* One program-plan pair: drawn from a seed, lowered, run by the interpreter and by the CPU, judged by the definition.
 */
#ifndef ROWFOLD_TEST_MATCH_H
#define ROWFOLD_TEST_MATCH_H

#include "../../src/gen/kern.h"
#include "../../src/lang/lang.h"
#include "../../src/oracle/oracle.h"
#include "../../src/rt/local.h"
#include "randprog.h"

typedef struct Match {
    Cx cx; /* owns everything of the pair */
    uint64_t seed;
    Fill fill;
    bool gaps; /* between the elements of tensors */
    Caps caps;
    Prog *prog;
    Shape shape; /* of the arguments; the kern's own is pb.shape */
    Problem pb;
    Plan plan;
    int draws; /* plans drawn until one was legal */
    Kern *kern;
    Unit unit; /* hosts and Metal */
    int64_t rows;
    size_t bytes[MAX_PARAMS]; /* of a tensor's memory */
    Args interp, cpu;         /* inputs and outputs of a run each: the same inputs */
    double worst;             /* largest error of the interpreter's outputs, as a share of its bound */
    bool ok;
    const char *why; /* the first thing wrong */
} Match;

/* The program of the bytes with a plan drawn from the seed, lowered and (for hosts and Metal) spelt. The name makes its
 * entry unique. `plan`, where given, replaces the drawn one. false with why where a stage fails. */
bool match_make(Match *p, const char *name, const uint8_t *bytes, size_t n, uint64_t seed, const Caps *caps,
                const char *plan);
/* The same of a program and shape that stand in p, whose cx.a owns them. */
bool match_prog(Match *p, uint64_t seed, const Caps *caps, const char *plan);
/* p anew, with a kernel of `text` and its type variables bound; the extents of p->shape are left to be given. */
bool match_read(Match *p, const char *text, const char *kernel, const TyBind *bind, int nbind);
bool match_sound(Match *p); /* does the audit find nothing in the kern, and does its text come back as it was? */
bool match_at(Match *p, int64_t n);       /* where an axis has a range: new arguments of extent n, interpreted */
bool match_interpret(Match *p);           /* runs, compares with the definition, and that gaps are untouched */
bool match_compare(Match *p, HostFn *fn); /* runs on the CPU, and compares with the interpreter bit for bit */
bool match_same(Match *p); /* do the outputs in `cpu`, by whatever machine, have the interpreter's bits? */
Slot *match_slots(Match *p, const Args *a, int *n); /* arguments of a launch; n: how many, or NULL */
void match_free(Match *p);
/* Are two tensors of n elements equal bit for bit? A NaN equals any NaN: IEEE 754 leaves payload and sign to the
 * machine, and they differ between one compiler's constant folding and another's instruction. -1, or where they differ.
 */
int64_t same_bits(Ty ty, const void *x, const void *y, int64_t n);

/* One text of all units with the head of u[first] that no text has yet (taken): what several have word for word stands
 * there once. A compiler's time goes into its start and into these. */
void batch_join(Arena *a, const Unit *const *u, bool *taken, int first, int n, Buf *out);

/* One shared object of several units, compiled by one call of the compiler. */
typedef struct Batch {
    void *handle;
    char why[2000];
} Batch;
/* flags: those that rt gives the compiler, `less` (such as "-O1") after them. false with why. */
bool batch_build(Batch *b, const Compiler *cc, Isa isa, const char *less, const Unit *const *u, int n);
HostFn *batch_fn(const Batch *b, const Unit *u);
void batch_free(Batch *b);
#endif
