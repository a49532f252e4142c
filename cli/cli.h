/* What the files of the command share. The command sees rowfold.h and the C library, and nothing else of rowfold. */
#ifndef CLI_H
#define CLI_H

#include <rowfold.h>
#include <stdbool.h>
#include <stdio.h>

#include "npy.h"

#if defined(__GNUC__)
#define PRINTF(f, v) __attribute__((format(printf, f, v)))
#else
#define PRINTF(f, v)
#endif
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* How the command ends; the help and the man page say the same. */
typedef enum Rc {
    RC_OK = 0,
    RC_WRONG = 1,   /* wrong results, or anything else that failed */
    RC_USAGE = 2,   /* the command line */
    RC_TEXT = 3,    /* the program's text */
    RC_REFUSED = 4, /* no plan can meet the request */
    RC_MISSING = 5, /* a device, driver or compiler */
    RC_IO = 6,      /* a file or folder */
    RC_STOPPED = 130
} Rc;

/* ---- options: options.c has the one table ---- */
enum {
    CMD_RUN,
    CMD_PLAN,
    CMD_EMIT,
    CMD_TUNE,
    CMD_BENCH,
    CMD_CATALOG,
    CMD_REPLAY,
    CMD_REPORT,
    CMD_TRIALS,
    CMD_WISDOM,
    CMD_DEVICES,
    CMD_CALIBRATE,
    CMD_EXPLAIN,
    CMD_CHECK,
    CMD_HELP,
    CMD_COUNT
};

typedef struct List {
    const char **item;
    int n;
} List;

typedef struct Options {
    int command;
    bool given; /* whether `command` is one: in errors before it is known */
    List words; /* what stands after the subcommand and is no option */
    const char *shape, *at, *type, *consts, *sets, *pin, *plan, *search, *joint, *strategy, *regime, *policy, *device,
        *isa, *strided, *fill, *out_dir, *output, *header, *receipt, *store, *title, *calibration, *figures, *primary;
    List in, out, cases, peers;
    int64_t threads, seed, limit, budget_candidates, samples, rounds, rotate_mb;
    double budget_seconds, budget_compile_seconds, sample_ms, warmup_ms;
    int effort; /* -1: the subcommand's own */
    bool json, quiet, kern, why, standalone, list, help, version, alias, summed, audit_pruning, from_trials, scores,
        resume, no_store, markdown;
} Options;

typedef struct Cli {
    Options o;
    rowfold_context *ctx;
    rowfold_source *source;
    rowfold_program *program;
    rowfold_device *device;
    rowfold_kernel *kernel;
    struct Block *blocks; /* memory that lives until the end */
    bool said_error;      /* the JSON document on stdout is the error */
} Cli;

void *cli_get(Cli *c, size_t bytes); /* zeroed; until cli_close. Ends the command when there is none */
char *cli_text(Cli *c, const char *fmt, ...) PRINTF(2, 3);
void cli_list(Cli *c, List *l, const char *s);

Rc options_read(Cli *c, int argc, char **argv);
void help_print(FILE *f, int command); /* CMD_COUNT: of the whole command */
int command_find(const char *name);    /* CMD_COUNT: none */

/* ---- errors.c ---- */
typedef enum Fault {
    F_COMMAND,
    F_OPTION,
    F_VALUE,
    F_WORDS,
    F_NAME,
    F_CONFLICT,
    F_UNKNOWN,
    F_READ,
    F_LARGE,
    F_WRITE,
    F_STDOUT,
    F_NPY_HEADER,
    F_NPY_TYPE,
    F_NPY_SHAPE,
    F_NPY_SHORT,
    F_MEMORY,
    F_SLUG,
    F_NOTHING,
    F_STOPPED,
    F_STOPPED_EARLY,
    F_COUNT
} Fault;
/* Says what went wrong on stderr, and with --json as a document on stdout; gives the exit code. accepted may be NULL.
 */
Rc fail(Cli *c, Fault f, const char *accepted, const char *fmt, ...) PRINTF(4, 5);
Rc fail_library(Cli *c, rowfold_status s); /* the context's last error */
Rc rc_of(rowfold_status s);
const char *fault_slug(Fault f);
/* "why" of a slug, of the library or of the command; NULL: unknown */
const char *slug_explain(const char *slug);
const char *slug_at(int i);                                               /* all of them, NULL after the last */
const char *near_word(const char *word, const char *const *words, int n); /* the one that was meant, or NULL */
void note(const Cli *c, const char *fmt, ...) PRINTF(2, 3);               /* to stderr, unless --quiet */

static inline const char *plural(long long n) { /* "1 plan%s", "2 plan%s" */
    return n == 1 ? "" : "s";
}

/* ---- text.c: growing text, JSON out, tables ---- */
typedef struct Text {
    char *s;
    size_t n, cap;
    bool comma; /* of the JSON that is being written */
} Text;
void text_put(Text *t, const char *s, size_t n);
void text_fmt(Text *t, const char *fmt, ...) PRINTF(2, 3);
void text_free(Text *t);
/* A member when key is given, else an element. open: '{' or '['. */
void json_open(Text *t, const char *key, char open);
void json_close(Text *t, char close);
void json_str(Text *t, const char *key, const char *s);
void json_int(Text *t, const char *key, int64_t v);
void json_num(Text *t, const char *key, double v); /* null when not finite */
void json_bool(Text *t, const char *key, bool v);
void json_raw(Text *t, const char *key, const char *json); /* null when empty */
Rc json_print(Cli *c, Text *t);                            /* on stdout, with a final newline; frees */

enum { TABLE_COLUMNS = 32 };
typedef struct Table {
    Cli *c;
    const char *title[TABLE_COLUMNS];
    bool left[TABLE_COLUMNS]; /* texts; numbers stand to the right */
    int columns, rows, cap;
    const char **cell;
} Table;
void table_column(Table *t, const char *title, bool left);
void table_row(Table *t); /* empty cells */
void table_cell(Table *t, int column, const char *fmt, ...) PRINTF(3, 4);
void table_print(const Table *t, FILE *f);
const char *seconds_text(Cli *c, double s);                  /* "12.3 us" */
const char *amount_text(Cli *c, double v, const char *unit); /* "1.21 GB/s" from 1.21e9, "B/s" */

/* ---- json.c: JSON in ---- */
typedef enum JsonKind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;
typedef struct Json {
    JsonKind kind;
    const char *key; /* of a member */
    const char *s;   /* strings; numbers as they were spelt */
    double v;        /* numbers; bools 0 and 1 */
    int n;           /* elements or members */
    struct Json *child, *next;
} Json;
const Json *json_read(Cli *c, const char *text); /* NULL: not JSON */
const Json *json_get(const Json *j, const char *key);
const char *json_text(const Json *j, const char *key, const char *otherwise);
double json_value(const Json *j, const char *key, double otherwise);

/* ---- files.c ---- */
enum { SOURCE_MAX = 1 << 20 };
Rc file_read_source(Cli *c, const char *path, char **text, size_t *n); /* "-": standard input */
/* Whole or not at all: written beside and renamed. Devices and pipes are written as they are. */
Rc file_write(Cli *c, const char *path, const void *head, size_t nhead, const void *body, size_t nbody);
Rc file_check(Cli *c, const char *path); /* before long work: could it be written? NULL: nothing to write */
int file_write_quiet(const char *path, const void *head, size_t nhead, const void *body,
                     size_t nbody);        /* errno, or 0 */
int folder_make(Cli *c, const char *path); /* with its parents; errno, or 0 */

/* ---- open.c: from options to a kernel ---- */
Rc cli_open(Cli *c);
Rc cli_program(Cli *c); /* words: FILE [KERNEL] */
Rc cli_compile(Cli *c, int effort, const char *shape, const char *strided);
void cli_close(Cli *c);
/* "a=1,b=2" a part at a time: 1 with name and value set, 0 at the end, -1 when it is malformed. *at begins as 0. */
int pair_next(Cli *c, const char *text, size_t *at, const char **name, const char **value);
void json_head(Cli *c, Text *t, const char *shape); /* kernel, types, shape, device */
const char *cli_types(const Cli *c);

/* ---- progress.c ---- */
void progress_start(Cli *c);
int progress_step(void *c, const rowfold_progress *p);              /* of rowfold_compile_options */
int progress_evidence(void *c, const rowfold_evidence_progress *p); /* of rowfold_evidence_options */
void progress_end(void);
bool progress_stopped(void); /* Ctrl-C was pressed */

/* ---- arrays.c: the arguments of a run ---- */
typedef struct Array {
    rowfold_param param;
    const char *file; /* of an input, NULL: random */
    bool shaped;      /* npy holds its shape: it was read */
    Npy npy;
    void *data, *kept; /* kept: an inout's input */
    size_t bytes;
} Array;
typedef struct Arrays {
    int n;
    Array *a;
    rowfold_arg *arg;
    const char *shape, *strided; /* for compiling */
    const char *ran;             /* the shape of the run, for people */
} Arrays;
Rc arrays_read(Cli *c, Arrays *as);  /* reads inputs, binds every axis, makes memory */
Rc arrays_write(Cli *c, Arrays *as); /* the outputs that were asked for */
void arrays_free(Arrays *as);
bool array_written(const Array *a);                      /* is it an output, or both? */
const char *array_path(Cli *c, const Arrays *as, int i); /* where an output goes, or NULL */

/* ---- candidates.c: the library's reports as tables ---- */
void refusals_print(Cli *c, const Json *candidates, FILE *f, bool all);
void refusals_json(Cli *c, const Json *candidates, Text *t);
void candidates_print(Cli *c, const Json *candidates, int64_t limit, FILE *f);
void demand_print(Cli *c, const char *json, FILE *f);
const char *verdict_text(Cli *c, const char *json);

/* ---- evidence.c: what bench, catalog and replay share ---- */
typedef struct Suite {
    const char *name, *text, *folder;
} Suite;
Rc suite_find(Cli *c, const char *word, Suite *out); /* --case in place of it; word NULL: none is given */
Rc evidence_options(Cli *c, rowfold_evidence_options *o);
Rc file_read_record(Cli *c, const char *path, char **text, size_t *n);
Rc record_write(Cli *c, const char *path, const char *json); /* NULL: on stdout */

/* ---- trials.c ---- */
const char *filter_words(Cli *c, int from);     /* the words from there on, as a filter */
Rc calibration_file(Cli *c, const char **text); /* of --calibration; NULL where it is not given */
void trials_print(Cli *c, const Json *trials, FILE *f);

Rc command_run(Cli *c);
Rc command_plan(Cli *c);
Rc command_emit(Cli *c);
Rc command_tune(Cli *c);
Rc command_audit(Cli *c); /* prune.c: of tune --audit-pruning */
Rc command_bench(Cli *c);
Rc command_catalog(Cli *c);
Rc command_replay(Cli *c);
Rc command_report(Cli *c);
Rc command_trials(Cli *c);
Rc command_wisdom(Cli *c);
Rc command_devices(Cli *c);
Rc command_calibrate(Cli *c);
Rc command_explain(Cli *c);
Rc command_check(Cli *c);
Rc command_help(Cli *c);

#endif
