/* Floor 5: what is remembered between runs: every trial of every search, and wisdom, which is a view of them: for a
 * problem, the best accepted plan with its evidence. One SQLite file a user, on a local disk. */
#ifndef ROWFOLD_STORE_H
#define ROWFOLD_STORE_H

#include "../plan/plan.h"

typedef struct Store Store; /* one thread at a time; several processes may have the same file open */

/* ---- where.c: places ---- */
/* `where` is a path; NULL or "default" mean $ROWFOLD_STORE, else $XDG_DATA_HOME/rowfold/trials.db, else
 * $HOME/.local/share/rowfold/trials.db. */
Err store_place(Cx *cx, const char *where, const char **path);
bool fs_is_network(uint64_t magic, const char **name); /* by the type number that statfs(2) gives */
bool fs_of(const char *path, uint64_t *magic);         /* of the folder that holds the file */

/* ---- db.c: the file ---- */
typedef enum StoreMode {
    STORE_READ, /* a file that is not there is an empty memory: *out = NULL and OK */
    STORE_WRITE /* made where it is missing, with its folder where the place is the default one */
} StoreMode;
typedef struct StoreOptions {
    const Alloc *al; /* NULL: malloc and free */
    const char *where;
    StoreMode mode;
    int busy_ms; /* how long to wait for another process's transaction; 0: 10 s */
} StoreOptions;
Err store_open(Cx *cx, const StoreOptions *o, Store **out);
void store_close(Store *s); /* NULL is fine */
const char *store_path(const Store *s);
const char *store_note(const Store *s); /* what is less good than it might be (no WAL, network file system), or "" */

/* ---- trials.c ---- */
/* What a trial is valid for. All texts are exact forms; sha names all of them together. */
typedef struct StoreKey {
    const char *sha, *program_sha;
    const char *kernel, *program; /* name, and text of the program as it was written */
    const char *types;            /* "x=bf16,y=bf16" */
    const char *shape;            /* "rows=1024,n=4096": axes whose extent is known and not declared */
    const char *strides;          /* "dense", or the parameters with strides at launch: "x,y" */
    const char *alignment;        /* "element": what every launch checks */
    const char *promises;         /* "noalias" or "alias"; with ",cold" where times are of memory that no cache has */
    const char *device, *caps;    /* identity, and the facts a plan is judged by */
    const char *rowfold;          /* version */
    int threads;                  /* asked for; 0: the device's choice */
} StoreKey;
StoreKey store_key(Cx *cx, const Problem *pb, const char *identity, int threads);
void store_key_cold(Cx *cx, StoreKey *k); /* times of it are of memory that no cache has */
void store_key_name(Cx *cx, StoreKey *k); /* sha from the rest */

typedef enum Stage { STAGE_SHORT, STAGE_FINAL, STAGE_CONFIRMED } Stage; /* each is better evidence than those before */
const char *stage_text(Stage s);
enum { STORE_SAMPLES = 96 };
typedef struct StoreTrial {
    int64_t id;
    uint64_t seed;
    const char *plan, *effort;
    Stage stage;
    const char *slug, *why;     /* "" where it was accepted */
    const char *unit_sha;       /* SHA-256 of the source text that was built, or "" where none was made */
    const char *facts, *demand; /* JSON, or "" */
    int nsamples, calls;
    double sample_ns[STORE_SAMPLES], median_ns; /* median 0: not timed */
    int64_t checked, bad, compile_ns;
    double worst; /* largest error as a share of its bound */
    bool from_cache;
} StoreTrial;
/* One transaction: when it returns OK, the trial outlives this process whatever becomes of it. */
Err store_add(Cx *cx, Store *s, const StoreKey *k, const StoreTrial *t);
/* The youngest short trial of that very plan, seed and source that was not forgotten. */
Err store_find(Cx *cx, Store *s, const StoreKey *k, uint64_t seed, const char *plan, const char *unit_sha, bool *found,
               StoreTrial *t);

/* Which problems: items between blanks, all of which must hold: kernel=NAME, problem=SHA and program=SHA (or their
 * beginnings), shape=AXES, device=PART of the identity, rowfold=VERSION, origin=trial or import; a bare word is a
 * kernel or the beginning of a problem's SHA. NULL or "": all. */
typedef struct Filter {
    const char *kernel, *problem, *program, *shape, *device, *rowfold, *origin, *word;
} Filter;
Err filter_read(Cx *cx, const char *text, Filter *out);
/* A JSON array, youngest first, at most `limit` of them (0: all). s NULL: none. */
Err store_trials(Cx *cx, Store *s, const Filter *f, int64_t limit, const char **json);

/* ---- problem.c ---- */
/* What the key says of program, shape, machine and promises, made again. */
Err store_problem(Cx *cx, const StoreKey *k, Problem *out);
bool store_key_is_cold(const StoreKey *k);
/* Every trial that was not forgotten, problem after problem, in the order in which they were made. Of a trial plan,
 * stage, slug, facts, samples, calls and median are given. Texts live as long as cx->a. */
typedef Err StoreTake(void *user, const StoreKey *k, const StoreTrial *t);
Err store_each(Cx *cx, Store *s, const Filter *f, StoreTake *take, void *user);

/* ---- wisdom.c ---- */
typedef struct Wisdom {
    const char *plan, *shape, *problem, *effort, *stage, *host;
    bool imported;
    double median_ns;
    int64_t time_s;  /* since 1970 */
    double distance; /* doublings between this shape and the one asked for, over all axes; 0: the very problem */
} Wisdom;
/* The best of the very problem first, then those of the same program, device and version at other shapes, nearest
 * first, no extent further away than a factor of 2. s NULL: none. */
Err wisdom_near(Cx *cx, Store *s, const StoreKey *k, Wisdom **out, int *n);
/* Trials stay where they are, but are no evidence any more and are not resumed; imported entries go. */
Err wisdom_forget(Cx *cx, Store *s, const Filter *f, int64_t *problems);

/* ---- wisdomtext.c ---- */
/* One entry a line, sorted, canonical JSON. */
Err wisdom_export(Cx *cx, Store *s, const Filter *f, const char **text);
/* Text from anywhere. Every entry is checked on its own: its fields, that program, shape and plan can be read and the
 * plan is legal on the machine it says it is for, that hashes and statistics are what they say. Entries for a device
 * that is not in `here`, or for another rowfold, are kept, but are nobody's wisdom here. The report is JSON: what was
 * taken, what was known, what is foreign, what was refused and why. */
Err wisdom_import(Cx *cx, Store *s, const char *text, size_t n, const char *const *here, int nhere,
                  const char **report);
#endif
