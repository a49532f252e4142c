/* The command line -> Options. One table says which options there are, for which subcommands, what they take and what
 * they do: getopt_long, the help, and (by a test) the man page and the completions follow from it. */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUN = 1 << CMD_RUN,
    PLAN = 1 << CMD_PLAN,
    EMIT = 1 << CMD_EMIT,
    TUNE = 1 << CMD_TUNE,
    BENCH = 1 << CMD_BENCH,
    CATALOG = 1 << CMD_CATALOG,
    REPLAY = 1 << CMD_REPLAY,
    REPORT = 1 << CMD_REPORT,
    TRIALS = 1 << CMD_TRIALS,
    WISDOM = 1 << CMD_WISDOM,
    DEVICES = 1 << CMD_DEVICES,
    CALIBRATE = 1 << CMD_CALIBRATE,
    EXPLAIN = 1 << CMD_EXPLAIN,
    CHECK = 1 << CMD_CHECK,
    HELP = 1 << CMD_HELP,
    KERNELS = RUN | PLAN | EMIT | TUNE,
    CHOOSE = BENCH | CATALOG, /* plans of many cases */
    EVIDENCE = CHOOSE | REPLAY,
    ALL = KERNELS | EVIDENCE | REPORT | TRIALS | WISDOM | DEVICES | CALIBRATE | EXPLAIN | CHECK | HELP
};

typedef enum Form {
    FLAG,    /* bool */
    TEXT,    /* const char *, given once */
    JOINED,  /* const char *, several are joined by commas */
    LISTED,  /* List */
    COUNTED, /* int64_t, from `least` */
    TIMED,   /* double, above 0 */
    EFFORT
} Form;

static const struct Option {
    const char *name;
    char letter; /* 0: none */
    Form form;
    size_t at;
    int commands;
    int64_t least;
    const char *takes, *help;
} options[] = {
#define O(field) offsetof(Options, field)
    {"shape", 0, JOINED, O(shape), KERNELS, 0, "AXES",
     "extents of the axes: rows=1024,n=4096; n=1..4096: one kernel for all of these"},
    {"at", 0, JOINED, O(at), RUN, 0, "AXIS=EXTENT",
     "extent of this run within a range (default: of inputs, else the largest)"},
    {"type", 0, JOINED, O(type), KERNELS | CHECK, 0, "TYPES",
     "f32 for all type variables (the default), or T=bf16,S=f32"},
    {"const", 0, JOINED, O(consts), KERNELS | CHECK, 0, "NAME=VALUE", "value of a const parameter; may be repeated"},
    {"set", 0, JOINED, O(sets), RUN, 0, "NAME=VALUE", "value of a scalar: eps=1e-6; may be repeated"},
    {"in", 0, LISTED, O(in), RUN, 0, "NAME=FILE", "input from a .npy file; may be repeated; others are random"},
    {"out", 0, LISTED, O(out), RUN, 0, "NAME=FILE", "output to a .npy file; may be repeated"},
    {"out-dir", 0, TEXT, O(out_dir), RUN, 0, "DIR", "every output to DIR/NAME.npy"},
    {"fill", 0, TEXT, O(fill), RUN, 0, "KIND", "random inputs: uniform (default) normal wide cancel ties special"},
    {"case", 0, LISTED, O(cases), CHOOSE, 0, "LINE",
     "a case in place of a suite: \"FILE KERNEL SHAPE TYPES [pin=DIMS]\"; may be repeated"},
    {"seed", 0, COUNTED, O(seed), RUN | TUNE | CHOOSE, 0, "N", "seed of random inputs (default 1)"},
    {"pin", 0, JOINED, O(pin), KERNELS | CHOOSE, 0, "DIMS", "fix dimensions of the plan: W=256,hold.x=register"},
    {"plan", 0, TEXT, O(plan), KERNELS, 0, "PLAN", "a plan, as rowfold prints it; what it leaves out is chosen"},
    {"search", 0, JOINED, O(search), PLAN | TUNE | CHOOSE, 0, "DIMS",
     "values to search instead of the default space's: W=32:1024,V=1/4,hold.x"},
    {"tune-holds", 0, JOINED, O(joint), TUNE, 0, "LIST",
     "every combination of reload,register ... for all values; so too --tune-W 32,64 and any other dimension"},
    {"strategy", 0, TEXT, O(strategy), TUNE, 0, "NAME", "who is tried: staged (default), random, beam, exhaustive"},
    {"audit-pruning", 0, FLAG, O(audit_pruning), TUNE, 0, NULL,
     "what a staged search loses beside an exhaustive one: of a .suite file, or of each --case"},
    {"case", 0, LISTED, O(cases), TUNE, 0, "AXES", "shape of a case of --audit-pruning; may be repeated"},
    {"regime", 0, TEXT, O(regime), TUNE, 0, "NAME",
     "resident (default): timed on the same memory; cold: on 200 MB in turn"},
    {"policy", 0, TEXT, O(policy), KERNELS | CHOOSE, 0, "NAME",
     "cost policy that ranks: roofline (default) prior service random"},
    {"calibration", 0, TEXT, O(calibration), KERNELS | TRIALS | CALIBRATE, 0, "FILE",
     "coefficients of the policy for this device, as rowfold calibrate wrote them"},
    {"trials", 0, FLAG, O(from_trials), CALIBRATE, 0, NULL,
     "fit to the store's trials, on top of --calibration where it is given; the device need not be here"},
    {"scores", 0, FLAG, O(scores), TRIALS, 0, NULL, "what each cost policy says of those that were timed, as JSON"},
    {"effort", 0, EFFORT, O(effort), RUN | EMIT | TUNE | CHOOSE, 0, "EFFORT",
     "estimate, recall, measure or exhaustive (default: estimate for run and emit, else measure)"},
    {"budget-candidates", 0, COUNTED, O(budget_candidates), RUN | EMIT | TUNE | CHOOSE, 1, "N", "time at most N plans"},
    {"budget-seconds", 0, TIMED, O(budget_seconds), RUN | EMIT | TUNE | CHOOSE, 0, "S",
     "start no plan after S seconds"},
    {"budget-compile-seconds", 0, TIMED, O(budget_compile_seconds), TUNE, 0, "S",
     "start no plan after compilers took S seconds together"},
    {"store", 0, TEXT, O(store), RUN | EMIT | TUNE | CHOOSE | TRIALS | WISDOM | CALIBRATE, 0, "FILE",
     "what is remembered between runs (default: $ROWFOLD_STORE, or trials.db in the data folder)"},
    {"no-store", 0, FLAG, O(no_store), RUN | EMIT | TUNE, 0, NULL, "remember nothing"},
    {"resume", 0, FLAG, O(resume), TUNE, 0, NULL, "do not run again what the store has of this search"},
    {"rounds", 0, COUNTED, O(rounds), REPLAY, 2, "N", "rounds of the replay, an even number (default 4)"},
    {"figures", 0, JOINED, O(figures), BENCH | REPLAY, 0, "NAMES",
     "device.batch.cold,end_to_end.single.resident ... (default: all eight)"},
    {"primary", 0, TEXT, O(primary), REPLAY, 0, "NAME", "the figure that is told of (default device.batch.cold)"},
    {"peers", 0, LISTED, O(peers), BENCH | REPLAY, 0, "NAME",
     "measure a peer beside: numpy, onednn ... or the path of an adapter; may be repeated"},
    {"samples", 0, COUNTED, O(samples), BENCH | REPLAY, 1, "N", "samples of each figure (default 9)"},
    {"sample-ms", 0, TIMED, O(sample_ms), BENCH | REPLAY, 0, "MS", "least time of a batch (default 20)"},
    {"warmup-ms", 0, TIMED, O(warmup_ms), BENCH | REPLAY, 0, "MS", "time before anything is kept (default 150)"},
    {"rotate-mb", 0, COUNTED, O(rotate_mb), BENCH | REPLAY, 1, "MB",
     "memory that cold calls take in turn (default 200)"},
    {"device", 0, TEXT, O(device), KERNELS | EVIDENCE | CALIBRATE, 0, "NAME",
     "best (default; of run: host), cuda:0, opencl:0, preset:h200 ...: see rowfold devices"},
    {"isa", 0, TEXT, O(isa), KERNELS | EVIDENCE | WISDOM | DEVICES | CALIBRATE, 0, "NAME",
     "instructions of host kernels: avx512 avx2 neon portable"},
    {"threads", 0, COUNTED, O(threads), KERNELS | EVIDENCE | WISDOM | CALIBRATE, 1, "N",
     "threads of host kernels (default: as many as there are cores)"},
    {"strided", 0, JOINED, O(strided), KERNELS, 0, "NAMES", "parameters with any element strides: x,y; * for all"},
    {"alias", 0, FLAG, O(alias), KERNELS, 0, NULL, "inputs may change during a call: keep nothing"},
    {"summed-budget", 0, FLAG, O(summed), KERNELS | CHOOSE, 0, NULL,
     "add up all kept values, even those that never live at once"},
    {"kern", 0, FLAG, O(kern), PLAN, 0, NULL, "print the chosen plan as loops and lanes"},
    {"why", 0, FLAG, O(why), PLAN, 0, NULL, "print every refusal, and what each kind means"},
    {"limit", 0, COUNTED, O(limit), PLAN | TRIALS, 0, "N", "candidates in the table (default 20; 0: all)"},
    {"standalone", 0, FLAG, O(standalone), EMIT, 0, NULL,
     "add a plain C function, rowfold_KERNEL, that takes dense arrays"},
    {"output", 'o', TEXT, O(output), EMIT | WISDOM | EVIDENCE | REPORT | CALIBRATE, 0, "FILE",
     "write the source, what is exported, the record or the report to FILE"},
    {"header", 0, TEXT, O(header), EMIT, 0, "FILE", "write C declarations of the source to FILE"},
    {"receipt", 0, TEXT, O(receipt), EMIT | TUNE, 0, "FILE", "write the receipt to FILE"},
    {"markdown", 0, FLAG, O(markdown), REPORT, 0, NULL, "markdown in place of HTML, with tables for plots"},
    {"title", 0, TEXT, O(title), REPORT, 0, "TEXT", "the heading of the report"},
    {"list", 0, FLAG, O(list), EXPLAIN, 0, NULL, "list all slugs"},
    {"quiet", 'q', FLAG, O(quiet), KERNELS | EVIDENCE | TRIALS | WISDOM | CALIBRATE, 0, NULL,
     "no progress and no notes"},
    {"json", 0, FLAG, O(json), KERNELS | EVIDENCE | REPORT | TRIALS | WISDOM | DEVICES | EXPLAIN | CHECK | CALIBRATE, 0,
     NULL, "print one JSON document instead of text"},
    {"help", 'h', FLAG, O(help), ALL, 0, NULL, "print this help"},
#undef O
};

static const struct Command {
    const char *name, *synopsis, *summary, *more, *examples;
} commands[CMD_COUNT] = {
    {"run", "FILE [KERNEL] --shape AXES [OPTION...]", "run a kernel once on .npy or random inputs and check it",
     "Extents that --shape lacks are taken from the inputs. Every output is compared with the program's definition,\n"
     "evaluated in FP64. bf16 travels as raw u2 and f8 as raw u1.",
     "  rowfold run kernels/softmax.row --shape rows=4,n=1000\n"
     "  rowfold run kernels/rmsnorm.row --in x=x.npy --in w=w.npy --set eps=1e-5 --out y=y.npy\n"
     "  rowfold run kernels/reduce.row argmax --in x=x.npy --out-dir results --json\n"},
    {"plan", "FILE [KERNEL] --shape AXES [OPTION...]", "print candidates with score by term, demand and refusals",
     "No device is needed for preset:NAME; on one that is here the chosen plan is also built, to see that it can be.",
     "  rowfold plan kernels/softmax.row --shape n=4096\n"
     "  rowfold plan kernels/softmax.row --shape n=8193 --device preset:m1max --pin W=256,V=4 --why\n"
     "  rowfold plan kernels/layernorm.row --shape n=4096 --device preset:h200 --policy prior --json\n"},
    {"emit", "FILE [KERNEL] --shape AXES [OPTION...]", "write the source of the chosen plan's kernel",
     "The source compiles on its own, with no header of rowfold; link it with -lm. Types that C\nlacks (bf16, f16, f8) "
     "are raw bits in it.",
     "  rowfold emit kernels/softmax.row --shape n=4096 -o softmax.c --header softmax.h\n"
     "  rowfold emit kernels/softmax.row --shape n=4096 --isa portable --standalone | cc -O2 -c -x c -\n"},
    {"tune", "FILE [KERNEL] --shape AXES [OPTION...]",
     "search the plans of a kernel, check and time each, keep a receipt",
     "Ctrl-C ends the search with the best plan so far; a second one ends the command. Without --receipt the receipt\n"
     "goes to $XDG_DATA_HOME/rowfold/receipts, or ~/.local/share/rowfold/receipts. Every trial goes to the store as "
     "it\n"
     "ends, so that a search that was broken off can be resumed.",
     "  rowfold tune kernels/softmax.row --shape rows=1024,n=4096\n"
     "  rowfold tune kernels/softmax.row --shape rows=1024,n=4096 --effort exhaustive --pin V=1 --search W=32:256\n"
     "  rowfold tune kernels/rmsnorm.row --shape rows=4096,n=1024 --type bf16 --budget-seconds 20 --json\n"},
    {"bench", "SUITE|--case LINE [OPTION...]",
     "measure the cases of a suite: four figures in two regimes, beside ceilings",
     "SUITE is a file with a case a line, or the name of one that came with rowfold: smoke, prior-12, prior-25-reload, "
     "prior-25-register, "
     "llm-20, order, cpu-peers, gpu-memory, gpu-short, odd-rows.\n"
     "Every case is planned as tune does and then measured in a process of its own. Ctrl-C keeps what was measured.\n"
     "docs/measuring.md says what the figures mean, docs/records.md what the record holds.",
     "  rowfold bench smoke\n"
     "  rowfold bench prior-12 --threads 1 --peers numpy --peers onednn -o prior-12.json\n"
     "  rowfold bench --case \"kernels/softmax.row softmax rows=64,n=1000 f32\" --effort estimate --json\n"},
    {"catalog", "freeze SUITE -o FILE | show FILE | verify FILE [OPTION...]",
     "freeze the plans chosen for a suite, show them, verify them",
     "A catalog is named by its own SHA-256: one that was altered is refused. verify also plans, lowers and emits "
     "every\n"
     "case anew and says what does not come out as it was frozen.",
     "  rowfold catalog freeze prior-12 --pin hold.x=reload -o reload.json\n"
     "  rowfold catalog freeze prior-12 -o best.json\n"
     "  rowfold catalog verify best.json\n"},
    {"replay", "REFERENCE CANDIDATE -o RECORD [OPTION...]",
     "compare two catalogs: paired, frozen, every measurement anew",
     "Every case of every round is measured on both sides, each in a process and with a build of its own, in orders "
     "that\n"
     "are in balance. An interrupted replay goes on when the same command is given again. Outputs are archived beside "
     "the\n"
     "record, in RECORD.outputs.",
     "  rowfold replay reload.json best.json -o replay.json\n"
     "  rowfold replay reload.json best.json --rounds 8 --figures device.batch.resident,device.batch.cold -o "
     "replay.json\n"},
    {"report", "RECORD... [-o FILE] [OPTION...]", "make one page for people of records, receipts and trials",
     "RECORD: what bench, catalog freeze and replay write, receipts of tune, and what tune, plan and trials print "
     "with\n"
     "--json. The page needs no network and no script. A record that was altered is refused.",
     "  rowfold report replay.json bench.json -o report.html\n"
     "  rowfold report bench.json --markdown\n"},
    {"trials", "[FILTER...] [OPTION...]", "list what the store remembers of candidates that were tried, youngest first",
     "FILTER: kernel=NAME problem=SHA program=SHA shape=AXES device=PART rowfold=VERSION, or a kernel's name.",
     "  rowfold trials\n"
     "  rowfold trials softmax shape=rows=1024,n=4096 --limit 0 --json\n"},
    {"wisdom", "[show|why|export|import|forget] [FILTER...|FILE] [OPTION...]",
     "show, question, carry and forget the best plans that were found",
     "Wisdom is a view of the trials: for a problem, the best accepted plan with its evidence. What is imported is "
     "checked\n"
     "and planned anew; plans for other devices or versions of rowfold are kept but never chosen.",
     "  rowfold wisdom\n"
     "  rowfold wisdom why softmax shape=rows=1024,n=4096\n"
     "  rowfold wisdom export softmax -o softmax.wisdom\n"
     "  rowfold wisdom import softmax.wisdom\n"
     "  rowfold wisdom forget softmax\n"},
    {"devices", "[OPTION...]", "list the devices that are here and the presets of machines that are not", NULL,
     "  rowfold devices\n"
     "  rowfold devices --json\n"},
    {"calibrate", "[FILTER...] [OPTION...]", "time a device's own speeds and fit the cost policy to them",
     "Sixty to ninety small launches, some ten seconds; nothing else should run on the device meanwhile. A "
     "calibration is of one\n"
     "device with its driver and compiler, and ranks plans there: nothing else comes of it. --trials fits to what "
     "searches\n"
     "left in the store instead, FILTER as of rowfold trials.",
     "  rowfold calibrate -o host.calibration\n"
     "  rowfold plan kernels/softmax.row --shape rows=1024,n=4096 --calibration host.calibration\n"
     "  rowfold calibrate --device cuda:0 -o gpu.calibration --json\n"
     "  rowfold calibrate --trials --calibration gpu.calibration -o better.calibration\n"},
    {"explain", "SLUG [OPTION...]", "say what a slug means and what to do about it",
     "Every error and refusal has a slug, such as plan.stripe_exceeded.",
     "  rowfold explain plan.stripe_exceeded\n"
     "  rowfold explain --list\n"},
    {"check", "FILE... [OPTION...]", "read and verify every kernel of some files, and run nothing", NULL,
     "  rowfold check kernels/softmax.row\n"
     "  rowfold check kernels/*.row --type bf16 --json\n"},
    {"help", "[COMMAND]", "print help, of one command when it is named", NULL, "  rowfold help tune\n"},
};

static const char exit_codes[] =
    "Exit codes: 0 done, 1 wrong results or another failure, 2 command line, 3 program text, 4 refused,\n"
    "5 device or compiler missing, 6 input or output, 130 interrupted.\n";

int command_find(const char *name) {
    int i = 0;
    while (i < CMD_COUNT && strcmp(commands[i].name, name) != 0) i++;
    return i;
}

void help_print(FILE *f, int command) {
    if (command == CMD_COUNT) {
        fputs("rowfold plans, checks, tunes and emits fused row kernels.\n\n"
              "Usage: rowfold COMMAND [OPTION...]\n\nCommands:\n",
              f);
        for (int i = 0; i < CMD_COUNT; i++) fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].summary);
        fprintf(f,
                "\nOptions:\n  --help     print this help; of one command: rowfold help COMMAND\n"
                "  --version  print the version\n\nExamples:\n"
                "  rowfold run kernels/softmax.row --shape rows=4,n=1000\n"
                "  rowfold tune kernels/softmax.row --shape rows=1024,n=4096 --type f32\n\n%s",
                exit_codes);
        return;
    }
    const struct Command *m = &commands[command];
    fprintf(f, "rowfold %s: %s.\n\nUsage: rowfold %s %s\n", m->name, m->summary, m->name, m->synopsis);
    if (m->more) fprintf(f, "\n%s\n", m->more);
    fputs("\nOptions:\n", f);
    for (int i = 0; i < COUNT(options); i++) {
        const struct Option *o = &options[i];
        if (!(o->commands >> command & 1)) continue;
        char left[64], letter[8] = "";
        if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->takes ? " " : "", o->takes ? o->takes : "");
        fprintf(f, "  %-24s %s\n", left, o->help);
    }
    fprintf(f, "\nExamples:\n%s\n%s", m->examples, exit_codes);
}

static const char *option_near(const char *name, int command) {
    const char *names[COUNT(options)];
    int n = 0;
    for (int i = 0; i < COUNT(options); i++)
        if (options[i].commands >> command & 1) names[n++] = options[i].name;
    return near_word(name, names, n);
}

static Rc take_number(Cli *c, const struct Option *o, const char *value) {
    char *field = (char *)&c->o + o->at, *end;
    errno = 0;
    if (o->form == TIMED) {
        const double v = strtod(value, &end);
        if (end == value || *end || !isfinite(v) || v <= 0)
            return fail(c, F_VALUE, "a number of seconds above 0", "--%s takes a number, not \"%s\"", o->name, value);
        *(double *)(void *)field = v;
        return RC_OK;
    }
    const long long v = strtoll(value, &end, 10);
    if (end == value || *end || errno || v < o->least || *value == ' ')
        return fail(c, F_VALUE, cli_text(c, "a whole number from %lld", (long long)o->least),
                    "--%s takes a count, not \"%s\"", o->name, value);
    *(int64_t *)(void *)field = v;
    return RC_OK;
}

static Rc take(Cli *c, const struct Option *o, const char *value) {
    static const char *const efforts[] = {"estimate", "measure", "exhaustive", "recall"}; /* as in rowfold.h */
    char *field = (char *)&c->o + o->at;
    const char **text = (const char **)(void *)field;
    switch (o->form) {
    case FLAG: *(bool *)(void *)field = true; return RC_OK;
    case TEXT:
        if (*text) return fail(c, F_OPTION, NULL, "--%s is given twice", o->name);
        *text = value;
        return RC_OK;
    case JOINED: *text = *text ? cli_text(c, "%s,%s", *text, value) : value; return RC_OK;
    case LISTED: cli_list(c, (List *)(void *)field, value); return RC_OK;
    case COUNTED:
    case TIMED: return take_number(c, o, value);
    case EFFORT: break;
    }
    for (int i = 0; i < COUNT(efforts); i++)
        if (strcmp(efforts[i], value) == 0) return c->o.effort = i, RC_OK;
    return fail(c, F_VALUE, "estimate, recall, measure, exhaustive", "there is no effort \"%s\"", value);
}

static Rc unknown(Cli *c, const char *word) {
    const char *name = word + strspn(word, "-");
    const char *meant = option_near(cli_text(c, "%.*s", (int)strcspn(name, "="), name), c->o.command);
    return fail(c, F_OPTION, cli_text(c, "rowfold %s --help lists them", commands[c->o.command].name),
                "%s has no option \"%s\"%s", commands[c->o.command].name, word,
                meant ? cli_text(c, "; did you mean --%s?", meant) : "");
}

/* --tune-NAME LIST, for every dimension and for holds, becomes --tune-holds NAME=LIST with slashes, one word. */
static int join_tuned(Cli *c, int argc, char **argv, char **out) {
    static const char head[] = "--tune-";
    int n = 0;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], head, strlen(head)) != 0 || (i + 1 == argc && !strchr(argv[i], '='))) {
            out[n++] = argv[i];
            if (strcmp(argv[i], "--") == 0)
                while (++i < argc) out[n++] = argv[i];
            continue;
        }
        const char *name = argv[i] + strlen(head), *eq = strchr(name, '=');
        char *list = cli_text(c, "%s", eq ? eq + 1 : argv[++i]);
        for (char *q = list; *q; q++)
            if (*q == ',') *q = '/';
        const int length = eq ? (int)(eq - name) : (int)strlen(name);
        const bool holds = length == 5 && strncmp(name, "holds", 5) == 0;
        out[n++] = holds ? cli_text(c, "--tune-holds=hold.*=%s", list)
                         : cli_text(c, "--tune-holds=%.*s=%s", length, name, list);
    }
    return n;
}

/* getopt_long takes the start of a name, and where several begin so, quietly the first that is of the same form. */
static Rc ambiguous(Cli *c, const char *word, const struct option *longs, int n) {
    if (strncmp(word, "--", 2) != 0 || !word[2]) return RC_OK;
    const char *name = word + 2;
    const size_t len = strcspn(name, "=");
    const char *all = NULL;
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (strncmp(longs[i].name, name, len) != 0) continue;
        if (!longs[i].name[len]) return RC_OK; /* the whole name */
        all = cli_text(c, "%s%s--%s", all ? all : "", all ? ", " : "", longs[i].name);
        found++;
    }
    return found > 1 ? fail(c, F_OPTION, all, "\"--%.*s\" is the start of several options", (int)len, name) : RC_OK;
}

Rc options_read(Cli *c, int argc, char **argv) {
    struct option longs[COUNT(options) + 1] = {{0}};
    int which[COUNT(options)], n = 0, ch, at;
    /* '-': words come in their order, whatever POSIXLY_CORRECT says; ':': a missing value is told from an unknown
     * option */
    char letters[2 * COUNT(options) + 3] = "-:";
    /* --json must be known before anything fails */
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0) c->o.json = true;
    c->o.effort = -1, c->o.seed = 1, c->o.limit = 20;
    if (argc < 2)
        return fail(c, F_COMMAND,
                    "run, plan, emit, tune, bench, catalog, replay, report, trials, wisdom, devices, calibrate, "
                    "explain, check, help",
                    "a command is missing");
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) return c->o.version = true, RC_OK;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return c->o.command = CMD_HELP, RC_OK;
    c->o.command = command_find(argv[1]);
    if (c->o.command == CMD_COUNT) {
        const char *names[CMD_COUNT];
        for (int i = 0; i < CMD_COUNT; i++) names[i] = commands[i].name;
        const char *meant = near_word(argv[1], names, CMD_COUNT);
        return fail(c, F_COMMAND,
                    "run, plan, emit, tune, bench, catalog, replay, report, trials, wisdom, devices, calibrate, "
                    "explain, check, help",
                    "there is no command \"%s\"%s", argv[1], meant ? cli_text(c, "; did you mean %s?", meant) : "");
    }
    for (int i = 0; i < COUNT(options); i++)
        if (options[i].commands >> c->o.command & 1) {
            const struct Option *o = &options[i];
            which[n] = i;
            longs[n++] = (struct option){o->name, o->form != FLAG, NULL, 0};
            if (o->letter) {
                const size_t k = strlen(letters);
                letters[k] = o->letter;
                letters[k + 1] = o->form != FLAG ? ':' : 0;
            }
        }
    opterr = 0;
    argc--, argv++;
    if (c->o.command == CMD_TUNE) {
        char **words = cli_get(c, sizeof *words * (size_t)(argc + 1));
        argc = join_tuned(c, argc, argv, words);
        argv = words;
    }
    for (optind = 1; (ch = getopt_long(argc, argv, letters, longs, &at)) != -1;) {
        const struct Option *o = NULL;
        const int here = optind - 1 - (ch == 0 && optarg && optarg == argv[optind - 1]);
        Rc unclear = ch == 0 || ch == '?' || ch == ':' ? ambiguous(c, argv[here], longs, n) : RC_OK;
        if (unclear) return unclear;
        if (ch == 1) {
            cli_list(c, &c->o.words, optarg);
            continue;
        }
        if (ch == 0) o = &options[which[at]];
        for (int i = 0; ch > ' ' && ch != '?' && ch != ':' && i < n; i++)
            if (options[which[i]].letter == ch) o = &options[which[i]];
        if (o) {
            const Rc rc = take(c, o, optarg);
            if (rc) return rc;
            continue;
        }
        const char *word = argv[optind - 1];
        if (ch == ':') return fail(c, F_OPTION, NULL, "%s needs a value", word);
        /* optopt is set where a known option got a value that it does not take */
        if (word[0] == '-' && word[1] == '-' && optopt == 0 && strchr(word, '=')) {
            const char *name = cli_text(c, "%.*s", (int)strcspn(word, "="), word);
            for (int i = 0; i < n; i++)
                if (strcmp(name + 2, longs[i].name) == 0 && !longs[i].has_arg)
                    return fail(c, F_OPTION, NULL, "%s takes no value", name);
        }
        return unknown(c, optopt > ' ' && (word[0] != '-' || word[1] != '-') ? cli_text(c, "-%c", optopt) : word);
    }
    for (; optind < argc; optind++) cli_list(c, &c->o.words, argv[optind]);
    return RC_OK;
}
