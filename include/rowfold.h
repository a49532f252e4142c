/* rowfold: fused row kernels, written as a few lines of row arithmetic, planned, compiled, checked and tuned for the
 * device at hand.
 *
 * Habits: opaque handles; every function that can fail returns a rowfold_status and gives its result through an out
 * pointer (untouched on failure); option structs start with their own size and are filled by an init function; nothing
 * prints, exits or aborts; no state is shared between contexts.
 *
 * Threads: one thread at a time per context, for every function that takes one, unless its comment says "any thread".
 * Kernels and bound launches are immutable once made. Handles must be freed before their context.
 *
 * Strings returned by rowfold live as long as the handle they were asked of, unless their comment says otherwise.
 * Strings given to rowfold are copied. All text is UTF-8 and may be any bytes: nothing in a program, plan or shape can
 * make rowfold crash.
 */
#ifndef ROWFOLD_H
#define ROWFOLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ROWFOLD_VERSION_MAJOR 0
#define ROWFOLD_VERSION_MINOR 1
#define ROWFOLD_VERSION_PATCH 0
#define ROWFOLD_VERSION 100 /* major*10000 + minor*100 + patch */
#if defined(ROWFOLD_BUILDING) && defined(__GNUC__)
#define ROWFOLD_API __attribute__((visibility("default")))
#else
#define ROWFOLD_API
#endif

/* Any thread. */
ROWFOLD_API int rowfold_version(void);                /* ROWFOLD_VERSION of the library that runs */
ROWFOLD_API const char *rowfold_version_string(void); /* "0.1.0" */

typedef enum rowfold_status {
    ROWFOLD_OK = 0,
    ROWFOLD_MEMORY = 1,      /* an allocation failed */
    ROWFOLD_ARGUMENT = 2,    /* an argument of the call is out of its range */
    ROWFOLD_LANGUAGE = 3,    /* the program's text is off; the error has place and caret */
    ROWFOLD_REFUSED = 4,     /* well formed, but no plan can meet it; the slug says why */
    ROWFOLD_UNAVAILABLE = 5, /* a device, driver or compiler is missing */
    ROWFOLD_BUILD = 6,       /* the device's compiler refused the generated source */
    ROWFOLD_LAUNCH = 7,      /* a launch's tensors are off (extent, stride, overlap, alignment), or the device failed */
    ROWFOLD_WRONG = 8,       /* outputs disagree with the definition of the program */
    ROWFOLD_IO = 9,          /* a file or folder */
    ROWFOLD_STOPPED = 10,    /* the progress callback asked to stop and nothing usable was found yet */
    ROWFOLD_INTERNAL = 11    /* a broken invariant of rowfold: please report it */
} rowfold_status;
ROWFOLD_API const char *rowfold_status_name(rowfold_status s); /* any thread; never NULL */

/* What went wrong last in a context. */
typedef struct rowfold_error {
    rowfold_status status;
    const char *slug;     /* "plan.stripe_exceeded"; "" when there was no error */
    const char *message;  /* one line with the offending value */
    const char *accepted; /* what would have been accepted, or "" */
    const char *hint;     /* a way out */
    const char *file;     /* of a program's text, or "" */
    int line, column;     /* from 1; 0 without a place */
    const char *text;     /* every diagnostic of the call, rendered with source lines and carets */
    const char *json;     /* the same as a JSON array */
} rowfold_error;

/* ---- context ---- */
typedef struct rowfold_context rowfold_context;
typedef struct rowfold_options {
    size_t struct_size;
    /* memory of the library itself; NULL: malloc and free */
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *p);
    void *memory_user;
    /* log lines; NULL: silent. level 0 error, 1 warning, 2 note */
    void (*log)(void *user, int level, const char *line);
    void *log_user;
    const char
        *cache_dir; /* compiled kernels; NULL: $ROWFOLD_CACHE, $XDG_CACHE_HOME/rowfold or ~/.cache/rowfold; "": none */
    const char *compiler; /* of host kernels; NULL: $ROWFOLD_CC, else cc, gcc, clang */
    const char *isa;      /* of host kernels: "avx512", "avx2", "neon", "portable"; NULL: best this processor has */
    int threads;          /* of host kernels; 0: as many as this process may use */
    /* the host program's own threads instead of rowfold's pool: runs task(arg, i) for i in 0 .. n-1 and returns when
     * all are done */
    void (*parallel_for)(void *user, int n, void (*task)(void *arg, int i), void *arg);
    void *parallel_user;
} rowfold_options;
ROWFOLD_API void rowfold_options_init(rowfold_options *o);
/* o may be NULL. On failure *out is untouched and there is no error text. */
ROWFOLD_API rowfold_status rowfold_context_new(const rowfold_options *o, rowfold_context **out);
ROWFOLD_API void rowfold_context_free(rowfold_context *ctx); /* NULL is fine */
/* The last failure of a call on this context; valid until the next call on it. */
ROWFOLD_API const rowfold_error *rowfold_last_error(rowfold_context *ctx);
/* Any thread. What a slug means and what to do; NULL for an unknown one. rowfold_slug(i) lists them all, NULL after the
 * last. */
ROWFOLD_API const char *rowfold_explain(const char *slug);
ROWFOLD_API const char *rowfold_slug(int i);

/* ---- devices ---- */
typedef struct rowfold_device rowfold_device; /* owned by the context */
ROWFOLD_API int rowfold_device_count(rowfold_context *ctx);
ROWFOLD_API rowfold_device *rowfold_device_at(rowfold_context *ctx, int i); /* NULL when out of range */
/* "best", "host", "cuda:0", "opencl:0" ... or "preset:NAME" (h200, m1max, avx512 ...): a machine that is not here, for
 * planning and emitting only. OpenCL devices are looked for when one is asked for by name, since some platforms take a
 * tenth of a second to start: they are not among those counted below, and never the best. */
ROWFOLD_API rowfold_status rowfold_device_find(rowfold_context *ctx, const char *name, rowfold_device **out);
ROWFOLD_API const char *rowfold_device_name(const rowfold_device *d);
ROWFOLD_API const char *
rowfold_device_identity(const rowfold_device *d); /* model, driver, compiler, features: what results are valid for */
ROWFOLD_API const char *rowfold_device_caps(const rowfold_device *d); /* key=value, one line */
ROWFOLD_API const char *rowfold_preset(int i); /* any thread; names of the presets, NULL after the last */

/* ---- programs ---- */
typedef struct rowfold_source rowfold_source;   /* a parsed file of kernels */
typedef struct rowfold_program rowfold_program; /* one kernel of it with its types bound */
/* name: shown in errors. */
ROWFOLD_API rowfold_status rowfold_source_parse(rowfold_context *ctx, const char *name, const char *text, size_t bytes,
                                                rowfold_source **out);
ROWFOLD_API void rowfold_source_free(rowfold_source *s);
ROWFOLD_API int rowfold_source_count(const rowfold_source *s);
ROWFOLD_API const char *rowfold_source_kernel(const rowfold_source *s, int i);
/* kernel NULL: the first one. types: "T=bf16,S=f32", or "bf16" for every type variable. constants: "k=3,scale=0.5" or
 * NULL. */
ROWFOLD_API rowfold_status rowfold_program_new(rowfold_context *ctx, const rowfold_source *s, const char *kernel,
                                               const char *types, const char *constants, rowfold_program **out);
ROWFOLD_API void rowfold_program_free(rowfold_program *p);

typedef enum rowfold_direction {
    ROWFOLD_IN,
    ROWFOLD_OUT,
    ROWFOLD_INOUT,
    ROWFOLD_SCALAR,
    ROWFOLD_CONST
} rowfold_direction;
enum { ROWFOLD_MAX_RANK = 8 };
typedef struct rowfold_param {
    const char *name, *type; /* "x", "bf16" */
    rowfold_direction direction;
    int rank;
    const char *axis[ROWFOLD_MAX_RANK];
    int is_row[ROWFOLD_MAX_RANK]; /* the axis counts rows */
    double value;                 /* default of a scalar, value of a constant */
    int has_value;                /* 0: a scalar without a default, which every launch must give */
} rowfold_param;
ROWFOLD_API int rowfold_param_count(const rowfold_program *p);
ROWFOLD_API rowfold_status rowfold_param_get(const rowfold_program *p, int i, rowfold_param *out);
ROWFOLD_API const char *rowfold_program_name(const rowfold_program *p);
ROWFOLD_API const char *rowfold_program_text(const rowfold_program *p); /* the exact intermediate form */

/* ---- compiling ---- */
typedef enum rowfold_effort {
    ROWFOLD_ESTIMATE = 0,   /* the cost policy chooses, nothing is run to choose; works for presets */
    ROWFOLD_MEASURE = 1,    /* the policy ranks, the best of the ranking are compiled, checked and timed */
    ROWFOLD_EXHAUSTIVE = 2, /* every legal plan of the space is compiled, checked and timed */
    ROWFOLD_RECALL = 3      /* the best plan remembered in `store` for this problem, else for a shape near it, else an
                               estimate; the receipt says which */
} rowfold_effort;

typedef struct rowfold_progress {
    int64_t tried, total;    /* candidates so far, and planned */
    int64_t refused, failed; /* not legal; built or ran wrong */
    double best_s;           /* fastest so far, seconds a call; 0: none yet */
    double elapsed_s;
    const char *best_plan; /* or "" */
    double left_s;         /* that the rest will take, as it looks now and within the budgets; < 0: not known yet */
    const char *reasons;   /* "plan.tail_not_exact=12,build.failed=1": refused and failed ones, most frequent first */
} rowfold_progress;

typedef enum rowfold_regime {
    ROWFOLD_RESIDENT = 0, /* candidates are timed on the same memory again and again, which caches may keep */
    ROWFOLD_COLD = 1      /* on copies that have 200 MB together, in turn (devices: at most 200 copies) */
} rowfold_regime;

typedef struct rowfold_compile_options {
    size_t struct_size;
    rowfold_device *device; /* NULL: best */
    const char *shape; /* "rows=1024,n=4096": every element axis; row axes are needed to tune, else they may be left
                          out. One element axis may have a range, "n=1..4096": the kernel takes any extent within it at
                          each launch, and is planned, and timed, for the largest */
    rowfold_effort effort;
    const char *pin;        /* "W=256,hold.x=register": exact requests, refused where they cannot be met */
    const char *search;     /* "W=32:1024,V=1/4,hold.x": what to search instead of the default space's values: ranges,
                               lists, or all values of a dimension */
    const char *policy;     /* cost policy: "roofline" (default), "prior", "service", "random" */
    int64_t max_candidates; /* timed at most (measure); 0: 32. For exhaustive: refuse a larger space; 0: 100000 */
    double max_seconds;     /* stop starting candidates after this; 0: no limit */
    int assume_alias;       /* 1: inputs may be overwritten by others during a call: nothing is held */
    const char *strided;    /* "x,y": parameters whose element strides are given at launch ("*": all) */
    int threads;            /* host: threads while timing and launching; 0: let rowfold decide by size */
    uint64_t seed;          /* of the inputs that candidates are checked and timed on */
    int summed_budget;      /* 1: stripes of all values are added whether or not they live at once */
    /* called between candidates and between the turns of the finalists, and ten times a second while candidates are
     * compiled, checked and timed in this process, or when in another one the first of them takes over a second to get
     * ready for or any of them over ten, from the compiling thread; of efforts that time nothing while they compile,
     * with total = 0. Return non-zero to stop with the best so far */
    int (*progress)(void *user, const rowfold_progress *p);
    void *progress_user;
    /* What is remembered between runs. NULL or "": nothing is read and no file is touched. "default": $ROWFOLD_STORE,
     * else $XDG_DATA_HOME/rowfold/trials.db, else ~/.local/share/rowfold/trials.db; anything else is the path of the
     * file. MEASURE and EXHAUSTIVE add every trial as it ends, RECALL reads. Trouble with the file (the log and the
     * receipt tell) never costs the result of a search. */
    const char *store;
    int resume; /* 1: trials that the store has of this very problem, plan, seed and source are not run again; needs a
                   store that can be opened */
    /* Candidates of a search on the host are tried in a process of their own, the program rowfold-worker, so that one
     * which crashes, hangs or scribbles over memory costs only itself. NULL: $ROWFOLD_WORKER, else beside the running
     * program, else where it was installed; where it is not found they are tried in this process, and the log says so.
     * "": always in this process. */
    const char *worker;
    double max_trial_seconds; /* a candidate that takes longer is left out; 0: 120. In this process only compiling is
                                 limited */
    /* How MEASURE chooses whom to try. NULL: "staged", the best of the policy's ranking and of each value of each
     * dimension, then the ranking as their times correct it; "random", any of the legal ones by the seed; "beam", from
     * the best of the ranking to the neighbours of the fastest, one step of one dimension away, and on from those.
     * "exhaustive", all of them, is what effort EXHAUSTIVE means. The same measurements give the same choice. */
    const char *strategy;
    /* "hold.*=reload/register,W=64:256": every combination of these is planned for itself (the policy chooses what is
     * not named), compiled and timed, none left out for its score; those that no plan can meet stay among the
     * candidates with their reasons. max_candidates (0: 256) refuses more combinations. NULL: none. */
    const char *joint;
    double max_compile_seconds; /* start no candidate after compilers took so long together; 0: no limit */
    int builders; /* threads that compile candidates ahead of the timing. 0: on hosts one a core, in batches between
                     which all is quiet; elsewhere one less, while the device measures. 1: none on hosts. Where the
                     context has an allocator of its own, none in this process. */
    int audit_pruning;       /* 1, with effort EXHAUSTIVE: a staged search of max_candidates is done beside it, and
                                ROWFOLD_PRUNING tells what     it would have lost; nothing is remembered */
    const char *calibration; /* text of a file that `rowfold calibrate` or rowfold_calibrate wrote for this device: the
                                coefficients of the cost policy; NULL: nominal ones */
    rowfold_regime regime;   /* of the memory that candidates, and the winner at last, are timed on */
} rowfold_compile_options;
/* Times some fifty small launches on the device (5 to 60 s; nothing else should run on it) and fits the coefficients of
 * the policy "roofline" to them. *json: canonical JSON with every sample, for rowfold_compile_options.calibration; free
 * it with rowfold_free. progress may be NULL; non-zero stops. Not while other calls use the context. */
ROWFOLD_API rowfold_status rowfold_calibrate(rowfold_context *ctx, rowfold_device *d,
                                             int (*progress)(void *user, int done, int total, double seconds),
                                             void *user, char **json);
/* The same from trials: the coefficients at which the policy compares the plans of the store's trials (NULL: the
 * default store) best, from those of `calibration` (NULL: nominal ones) on. filter: as of rowfold_trials; all trials
 * must be of one device, which need not be here. Seconds. */
ROWFOLD_API rowfold_status rowfold_calibrate_trials(rowfold_context *ctx, const char *store, const char *filter,
                                                    const char *calibration, char **json);
/* *json: {"trials": [...]}: every trial that was timed, with its samples and the score that each cost policy gives its
 * plan now, the calibrated one's with its terms. No device is needed. */
ROWFOLD_API rowfold_status rowfold_foresee(rowfold_context *ctx, const char *store, const char *filter,
                                           const char *calibration, char **json);
ROWFOLD_API void rowfold_compile_options_init(rowfold_compile_options *o);

typedef struct rowfold_kernel rowfold_kernel;
/* Plans, and on a device that is here builds; MEASURE and EXHAUSTIVE also check every output of every candidate before
 * it is timed. The kernel's element extents are fixed, but for one that may have a range; its rows are given at launch.
 * The winner of a search for a range is checked at both ends of it and between. */
ROWFOLD_API rowfold_status rowfold_compile(rowfold_context *ctx, const rowfold_program *p,
                                           const rowfold_compile_options *o, rowfold_kernel **out);
ROWFOLD_API void rowfold_kernel_free(rowfold_kernel *k);

typedef enum rowfold_query {
    ROWFOLD_PLAN = 0,       /* "W=64 V=1 ... hold.x=register" */
    ROWFOLD_SOURCE = 1,     /* what the device's compiler was given */
    ROWFOLD_KERN = 2,       /* the plan applied: loops and lanes */
    ROWFOLD_DEMAND = 3,     /* JSON: what one launch asks of the machine */
    ROWFOLD_RECEIPT = 4,    /* JSON: everything the choice rests on, with hashes */
    ROWFOLD_CANDIDATES = 5, /* JSON array: every candidate with plan, score by term, time or refusal */
    ROWFOLD_VERDICT = 6,    /* JSON: the check against the FP64 definition */
    ROWFOLD_HEADER = 7,     /* C declarations for the stand-alone source */
    ROWFOLD_PRUNING = 8     /* JSON, with audit_pruning: both searches; the place of the true winner in the ranking, the
                               stage that lost it ("none": it won there too) and the regret: time of the staged
                               search's plan over that of the exhaustive one's, less 1, in turns */
} rowfold_query;
/* A kernel's text, which lives as long as the kernel; "" where it does not apply. NULL for an unknown query, and, where
 * memory runs out, for ROWFOLD_RECEIPT and ROWFOLD_CANDIDATES, which are made when they are first asked for. Safe from
 * any thread. */
ROWFOLD_API const char *rowfold_kernel_text(const rowfold_kernel *k, rowfold_query q);

typedef struct rowfold_stats {
    size_t struct_size;
    int64_t candidates, refused, failed, timed;
    double time_s, time_min_s, time_max_s; /* median and range of the winner, compiled afresh; 0 when not measured */
    double bytes;  /* least traffic of one call: each input read once, each output written once */
    double copy_s; /* fastest copy of as many bytes, same run */
    double compile_s, search_s;
    double worst_error;          /* largest error as a share of its bound */
    int64_t resumed, recorded;   /* trials taken from the store, and added to it */
    double candidates_compile_s; /* that compilers took for all candidates together */
    /* How the finalists compared, in turns; finalists 0: they did not. incumbent: what would be used without this
     * search, the plan remembered or else the policy's first choice. It stays (tie 1) unless a finalist takes less time
     * by `gain` of at least `detectable`, the least gain that shows in the noise of these rounds. */
    int finalists, rounds, tie, incumbent_remembered;
    double gain, detectable;
    double clock_mhz_before, clock_mhz_after; /* of the device, around the finals; 0: it does not tell */
    int64_t throttled;                        /* how often heat or power slowed it meanwhile; -1: it does not tell */
    double rotated_bytes;                     /* of the copies that calls took in turn; 0: always the same memory */
    /* A finalist that is faster by that much replaces the incumbent only if it is so again in `replays` fresh rounds of
     * the two alone, compiled anew: where the lower bound `replayed_least` of the gain there is not above 0, it is
     * vetoed and the incumbent stays, as where they could not be replayed (interrupted): then replays is 0. replays 0
     * and not vetoed: there was no change to guard. */
    int replays, vetoed;
    double replayed_gain, replayed_least;
} rowfold_stats;
ROWFOLD_API rowfold_status rowfold_kernel_stats(const rowfold_kernel *k, rowfold_stats *out);

/* ---- launching ---- */
/* One argument for each parameter, in order. Tensors: memory the device can reach, extents of all dimensions, strides
 * in elements (all zero: dense, last dimension fastest, unless strides_given). Scalars: value (integers are converted
 * exactly up to 2^53). Constants: ignored. */
typedef struct rowfold_arg {
    void *data;
    int64_t extent[ROWFOLD_MAX_RANK];
    int64_t stride[ROWFOLD_MAX_RANK];
    double value;
    int strides_given; /* 1: zeros are meant: one element (or row) seen everywhere, as frameworks expand tensors */
} rowfold_arg;
/* Checks the arguments (extents, those of a ranged axis among them, strides, alignment, overlap of outputs with
 * anything) and runs. Any thread.
 * Synchronous on hosts. */
ROWFOLD_API rowfold_status rowfold_launch(rowfold_kernel *k, const rowfold_arg *args, int count);
/* The same into a queue of the caller's: on NVIDIA GPUs a CUstream (or cudaStream_t) of the context that the device's
 * work is done in, the caller's current one at first use. Returns when the work is queued; may be captured into a
 * graph. Where a plan splits rows over groups (split above 1), they meet in device memory that the kernel keeps for
 * each queue, and for each queue of each capture, until it is freed: some bytes a row; two graphs instantiated from one
 * capture may not run at the same time. Devices without queues say rt.not_offered; queue NULL is rowfold_launch. Any
 * thread. */
ROWFOLD_API rowfold_status rowfold_launch_in(rowfold_kernel *k, void *queue, const rowfold_arg *args, int count);
/* Checked once, run many times: rowfold_run costs under a microsecond besides the kernel. Any thread. */
typedef struct rowfold_bound rowfold_bound;
ROWFOLD_API rowfold_status rowfold_bind(rowfold_kernel *k, const rowfold_arg *args, int count, rowfold_bound **out);
ROWFOLD_API rowfold_status rowfold_run(const rowfold_bound *b);
ROWFOLD_API rowfold_status rowfold_run_in(const rowfold_bound *b, void *queue); /* as rowfold_launch_in */
ROWFOLD_API void rowfold_bound_free(rowfold_bound *b);

/* Memory on a device, for programs that have no allocator of their own for it. On hosts it is ordinary memory. */
typedef struct rowfold_memory rowfold_memory;
ROWFOLD_API rowfold_status rowfold_memory_new(rowfold_context *ctx, rowfold_device *d, size_t bytes,
                                              rowfold_memory **out); /* aligned to 256 bytes */
ROWFOLD_API void rowfold_memory_free(rowfold_memory *m);
ROWFOLD_API void *rowfold_memory_data(const rowfold_memory *m); /* the device's address, for rowfold_arg.data */
/* Copies between the caller's memory and bytes [at, at + n) of the device's; done when they return. */
ROWFOLD_API rowfold_status rowfold_memory_write(rowfold_memory *m, size_t at, const void *from, size_t n);
ROWFOLD_API rowfold_status rowfold_memory_read(const rowfold_memory *m, size_t at, void *to, size_t n);

/* Fills memory with seeded test input: "uniform", "normal", "wide", "cancel", "ties", "special". Any thread. bound:
 * integers are indexes of so many elements, now and then up to 2 outside of them; 0: any integers. */
ROWFOLD_API rowfold_status rowfold_fill(const char *kind, const char *type, void *data, int64_t count, uint64_t seed,
                                        int64_t bound);
/* Evaluates the program in FP64 on the inputs and compares the outputs, all in memory of this process, whatever the
 * kernel's device. inputs: the arguments as they were before the call (inout tensors may lie in other memory there);
 * NULL: the same as outputs. *json (freed with rowfold_free) gets the verdict; status ROWFOLD_WRONG when an output is
 * outside its bound. */
ROWFOLD_API rowfold_status rowfold_check(rowfold_context *ctx, const rowfold_kernel *k, const rowfold_arg *inputs,
                                         const rowfold_arg *outputs, int count, char **json);
ROWFOLD_API void rowfold_free(rowfold_context *ctx, void *p);

/* ---- what is remembered ---- */
/* store: as in rowfold_compile_options, but NULL and "" mean "default" here. filter: which problems, items between
 * blanks that must all hold: kernel=NAME, problem=SHA and program=SHA (or their beginnings), shape=AXES, device=PART of
 * the identity, rowfold=VERSION, origin=trial or import; a bare word is a kernel or the beginning of a problem's SHA;
 * NULL or "": all. Texts are freed with rowfold_free. Processes may share a store. */
/* JSON array of trials, youngest first, at most `limit` (0: all). Trials are never rewritten. */
ROWFOLD_API rowfold_status rowfold_trials(rowfold_context *ctx, const char *store, const char *filter, int64_t limit,
                                          char **json);
/* The best accepted plan of each problem with its evidence: a JSON object a line, sorted, the same bytes each time. */
ROWFOLD_API rowfold_status rowfold_wisdom_export(rowfold_context *ctx, const char *store, const char *filter,
                                                 char **text);
/* Text from anywhere: each entry is recomputed and planned anew, and refused where it does not hold. Entries for other
 * devices or versions of rowfold are kept, but never chosen here, and own measurements go before imported ones. *report
 * (may be NULL): JSON, what was taken, known, foreign, refused and why. */
ROWFOLD_API rowfold_status rowfold_wisdom_import(rowfold_context *ctx, const char *store, const char *text,
                                                 size_t bytes, char **report);
/* Imported entries go; trials stay, but are no evidence any more. *problems (may be NULL): how many have no wisdom now.
 */
ROWFOLD_API rowfold_status rowfold_wisdom_forget(rowfold_context *ctx, const char *store, const char *filter,
                                                 int64_t *problems);
/* Where a store lies; the file need not be there. */
ROWFOLD_API rowfold_status rowfold_store_path(rowfold_context *ctx, const char *store, char **path);

/* ---- evidence ---- */
/* Records: what was measured, on what, and what was chosen before, as canonical JSON that is named by its own SHA-256
 * and can be checked by programs that know nothing of rowfold. docs/records.md has the formats, docs/measuring.md what
 * the figures mean. */
typedef struct rowfold_evidence_progress {
    int done, total;  /* cases of a bench or a catalog, measurements of a replay */
    const char *what; /* what comes next; "" at the end */
    double elapsed_s;
} rowfold_evidence_progress;

typedef struct rowfold_evidence_options {
    size_t struct_size;
    rowfold_device *device; /* NULL: best; one that is here */
    /* How plans are chosen, as in rowfold_compile_options; pin and search are added to those of every case. */
    rowfold_effort effort; /* default: measure */
    const char *pin, *search, *policy, *store, *worker;
    int64_t max_candidates;
    double max_seconds; /* of each case's search */
    int summed_budget;
    /* How a plan is measured; 0 for what stands behind it */
    int samples;          /* of each figure: 9; at most 101 */
    double sample_s;      /* least time of a batch: 0.02 */
    double warmup_s;      /* before anything is kept: 0.15 */
    int64_t rotate_bytes; /* inputs and outputs that cold calls take in turn: 200 MB */
    int threads;          /* of hosts: as many as rowfold decides */
    uint64_t seed;        /* of inputs: 1 */
    /* "device.batch.cold,end_to_end.single.resident" ...: those to take; NULL: all eight */
    const char *figures;
    const char *peers; /* paths of adapters between commas, see peers/README.md; NULL: none */
    /* of replays */
    int rounds;            /* even: 4; at most 10000 */
    const char *primary;   /* the figure that is told of first; NULL: "device.batch.cold" if taken, else the first */
    int64_t archive_bytes; /* outputs up to this are kept whole: 256 KiB */
    /* between cases or measurements and several times a second while one goes on, from the calling thread; non-zero
     * stops, and what is at hand counts for nothing: a bench gives what it has before that; a replay, and a catalog
     * with `keep`, goes on when it is called again (both ROWFOLD_STOPPED) */
    int (*progress)(void *user, const rowfold_evidence_progress *p);
    void *progress_user;
    /* of catalogs: path that the caller will write it to; KEEP.part remembers the cases until
     * rowfold_replay_done(keep). NULL: a freeze that is stopped begins anew */
    const char *keep;
} rowfold_evidence_options;
ROWFOLD_API void rowfold_evidence_options_init(rowfold_evidence_options *o);

/* suite: text with a case a line, FILE KERNEL SHAPE TYPES [pin=DIMS] [search=DIMS] [const=NAMES] [regimes=LIST]
 * [alias],
 * "#" begins a comment; name: shown in errors and kept; folder: where the files lie ("" or NULL: here). *json, freed
 * with rowfold_free, gets a record rowfold-bench-1: for each case the plan that is chosen, and its figures in a process
 * of its own. A case that fails says so in the record. */
ROWFOLD_API rowfold_status rowfold_bench(rowfold_context *ctx, const char *name, const char *suite, const char *folder,
                                         const rowfold_evidence_options *o, char **json);
/* The same choice without the measurement: a record rowfold-catalog-1. Any case that cannot be planned is an error. */
ROWFOLD_API rowfold_status rowfold_catalog_freeze(rowfold_context *ctx, const char *name, const char *suite,
                                                  const char *folder, const rowfold_evidence_options *o, char **json);
/* Any record's text: canonical, and with the hash that it says. format: "rowfold-catalog-1" ... or NULL: any.
 * ROWFOLD_REFUSED (record.altered) where it was changed, ROWFOLD_ARGUMENT where it is none. */
ROWFOLD_API rowfold_status rowfold_record_check(rowfold_context *ctx, const char *text, size_t bytes,
                                                const char *format);
/* A catalog checked, and every case of it planned, lowered and emitted anew on the device: *json is an array of id, ok
 * and what differs. ROWFOLD_REFUSED (replay.source_changed) where anything does; *json is given then too. */
ROWFOLD_API rowfold_status rowfold_catalog_verify(rowfold_context *ctx, const char *text, size_t bytes,
                                                  const rowfold_evidence_options *o, char **json);
/* Two catalogs of the same cases compared: paired, an even number of rounds, orders in balance, a process and a build
 * of its own for every measurement. record: path that the caller will write *json (rowfold-replay-1) to; outputs lie in
 * the folder RECORD.outputs, and RECORD.part remembers what was measured until rowfold_replay_done. */
ROWFOLD_API rowfold_status rowfold_replay(rowfold_context *ctx, const char *reference, size_t reference_bytes,
                                          const char *candidate, size_t candidate_bytes, const char *record,
                                          const rowfold_evidence_options *o, char **json);
ROWFOLD_API void rowfold_replay_done(const char *record); /* it was written, a catalog too: RECORD.part goes */

/* A text that a report is made of. */
typedef struct rowfold_record {
    const char *name; /* shown as the record's heading: the name of its file */
    const char *text;
    size_t bytes;
} rowfold_record;
typedef struct rowfold_report_options {
    size_t struct_size;
    int markdown;      /* 1: markdown, whose tables hold what the plots of the page show */
    const char *title; /* NULL: "rowfold report" */
} rowfold_report_options;
ROWFOLD_API void rowfold_report_options_init(rowfold_report_options *o);
/* Records (benches, catalogs, replays: checked as rowfold_record_check does), receipts of rowfold_compile, and
 * documents
 * {"candidates": [...]} around ROWFOLD_CANDIDATES or {"trials": [...]} around what rowfold_trials gives -> one HTML
 * page with its own style and plots, which needs no network and no script. *text is freed with rowfold_free. o may be
 * NULL. No text of a record is trusted: all of it is escaped. ROWFOLD_REFUSED (record.altered) where a record was
 * changed, ROWFOLD_ARGUMENT where a text is none. */
ROWFOLD_API rowfold_status rowfold_report(rowfold_context *ctx, const rowfold_record *records, int count,
                                          const rowfold_report_options *o, char **text);

#ifdef __cplusplus
}
#endif
#endif
