/* Evidence: suites of cases, what was measured of them, catalogs of chosen plans, replays of two catalogs. The files
 * are those of docs/records.md, made here and nowhere else. */
#ifndef ROWFOLD_EVIDENCE_H
#define ROWFOLD_EVIDENCE_H

#include "../search/measure.h"
#include "drive.h"

#include <stdio.h>

struct json_t;

/* ---- suite.c ---- */
typedef struct Case {
    const char *id;   /* unique in its suite */
    const char *file; /* as the suite names it */
    const char *source, *kernel, *types, *constants, *shape_text, *pin, *open, *regimes;
    bool alias;
    const Prog *prog;
    Shape shape;
} Case;
/* Lines FILE KERNEL SHAPE TYPES [NAME=VALUE...]; # begins a comment. Files are sought in `folder`. */
Err suite_read(Cx *cx, const Alloc *al, const char *name, const char *text, const char *folder, Case **out, int *n);

/* ---- what is asked ---- */
typedef struct EvidenceProgress {
    int done, total;  /* cases of a bench or catalog, measurements of a replay */
    const char *what; /* "softmax/1024x4096/f32, candidate" */
    double elapsed_s;
} EvidenceProgress;

typedef struct EvidenceAsk {
    Device *dev;
    const Caps *caps;
    const char *identity;
    const Alloc *al;
    const char *suite; /* its name */
    const char *worker;
    Effort effort;
    const char *policy, *open, *pin, *store;
    int64_t max_candidates;
    double max_seconds;
    bool summed_budget;
    MeasureAsk measure;
    const char *peers; /* paths of adapters between commas */
    int rounds;
    const char *primary; /* figure */
    const char
        *record; /* path of a replay's record, beside which outputs and the journal lie; of a catalog: NULL: none */
    bool (*progress)(void *user, const EvidenceProgress *p); /* true: stop, and keep what is there */
    void *user;
} EvidenceAsk;

/* What one call owns. Zero it first; evidence_free takes any stage, also after memory ran out. */
typedef struct Evidence {
    Cx *cx;
    const EvidenceAsk *ask;
    struct json_t *root, *spare[8];
    int64_t from_ns;
    Made made;
    Bed bed;
    Measuring measuring;
    Worker *worker;
    FILE *journal;       /* locked */
    EvidenceProgress at; /* what was told last */
    bool stopped;        /* what is at hand is given up: it counts for nothing */
} Evidence;
void evidence_free(Evidence *e);
/* Both: true, from then on, where it is to stop. The first says what comes now; the second is asked now and then by
 * whatever takes long. */
bool evidence_tell(Evidence *e, int done, int total, const char *what);
bool evidence_over(Evidence *e);

/* Each gives the whole record as text in the arena. Stopped on the way, a bench keeps what it has; a replay, and a
 * catalog with a path to keep it at, is continued by the same call. */
Err evidence_bench(Cx *cx, const EvidenceAsk *q, const Case *c, int n, Evidence *e, const char **out);
Err evidence_freeze(Cx *cx, const EvidenceAsk *q, const Case *c, int n, Evidence *e, const char **out);
/* A catalog's cases made anew: S_REPLAY_SOURCE where one differs, *out says which and how either way. */
Err evidence_verify(Cx *cx, const EvidenceAsk *q, const char *text, size_t bytes, Evidence *e, const char **out);
Err evidence_replay(Cx *cx, const EvidenceAsk *q, const char *const text[2], const size_t bytes[2], Evidence *e,
                    const char **out);

/* ---- canonical.c: text and JSON of records ---- */
struct json_t *record_number(double x); /* not finite ones as text */
struct json_t *record_text(const char *s);
struct json_t *record_sha(const void *p, size_t n);
struct json_t *record_member(struct json_t *parent, const char *key, struct json_t *child); /* hung on it; child */
struct json_t *record_element(struct json_t *parent, struct json_t *child);
/* Canonical text in the arena. seal also sets `member` to the hash of the text without it. */
const char *record_print(Cx *cx, const struct json_t *j);
void record_seal(Cx *cx, struct json_t *j, const char *member);
/* Text -> JSON that is the caller's: canonical, of that format, with the hash that it says (S_RECORD_SYNTAX,
 * S_RECORD_FORMAT, S_RECORD_ALTERED). format NULL: any. */
Err record_read(Cx *cx, const char *text, size_t bytes, const char *format, struct json_t **out);

/* ---- provenance.c ---- */
Err provenance_make(Cx *cx, const EvidenceAsk *q, struct json_t *o); /* filled */
Err binaries_make(Cx *cx, const EvidenceAsk *q, struct json_t *list);
Err file_sha(Cx *cx, const Alloc *al, const char *path, char sha[65], int64_t *bytes);

/* ---- catalog.c ---- */
/* Chooses the plan of a case, and writes both down in `o`; e->made is what was made, until the next one. */
Err case_choose(Evidence *e, const Case *c, struct json_t *o);
/* The problem of a frozen case, for this machine. */
Err case_problem(Cx *cx, const struct json_t *o, const Caps *caps, Problem *pb, uint64_t *seed);
struct json_t *options_json(const EvidenceAsk *q);
/* The catalog is of this device, and (both) of the same cases in the same order. */
Err catalog_fits(Cx *cx, const EvidenceAsk *q, const struct json_t *catalog);

/* ---- benchrun.c ---- */
/* In a process of its own where there is a worker. *out is the caller's. */
Err measure_fresh(Evidence *e, const Problem *pb, uint64_t seed, const char *plan, bool must, struct json_t **out);

/* ---- journal.c ---- */
/* A line after the first; false: it does not belong there. */
typedef bool JournalLine(void *user, const struct json_t *line);
/* Opens or begins it, and hands out what it has: S_REPLAY_JOURNAL where the first line is another, S_REPLAY_BUSY. */
Err journal_open(Evidence *e, const char *path, const struct json_t *head, JournalLine *take, void *user);
Err journal_append(Evidence *e, Cx *cx, const char *path, const struct json_t *line);
Err journal_failed(Cx *cx, const char *path, int bad); /* S_RECORD_IO */

/* ---- results.c ---- */
void results_make(Cx *cx, struct json_t *root); /* results, floors, overall from schedule and measurements */

/* ---- peers.c ---- */
/* Measures every mode of one adapter on a case; appends to `list` with the members of `where` (may be NULL). */
Err peer_measure(Evidence *e, const char *adapter, const struct json_t *cse, Bed *bed, const struct json_t *where,
                 struct json_t *list);
int peers_count(const char *peers);
const char *peer_at(Cx *cx, const char *peers, int i);
const char *peer_file(Cx *cx, const char *peers, int i); /* its file without the folders */
#endif
