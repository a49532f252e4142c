/* rowfold tune: a search with its progress, the winner in figures, the receipt in a file. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char folder_name[] = "rowfold/receipts";

/* $XDG_DATA_HOME/rowfold/receipts, else ~/.local/share/rowfold/receipts; NULL: neither is set */
static const char *receipt_folder(Cli *c) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data == '/') return cli_text(c, "%s/%s", data, folder_name); /* others are to be passed over */
    return home && *home ? cli_text(c, "%s/.local/share/%s", home, folder_name) : NULL;
}

/* FNV-1a, to tell one receipt from another by name; what a receipt vouches for is named by SHA-256 inside it. */
static unsigned long long name_hash(const char *s) {
    unsigned long long h = 0xcbf29ce484222325ull;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
    return h;
}

/* Where the receipt lies, NULL where it lies nowhere. Only what was asked for by name is an error. */
static Rc receipt_write(Cli *c, const char **where) {
    const char *text = rowfold_kernel_text(c->kernel, ROWFOLD_RECEIPT);
    *where = NULL;
    if (!text) return fail_library(c, ROWFOLD_MEMORY);
    if (!*text) return RC_OK;
    if (c->o.receipt) {
        const Rc rc = file_write(c, c->o.receipt, text, strlen(text), "\n", 1);
        if (!rc) *where = c->o.receipt;
        return rc;
    }
    const char *name = cli_text(c, "%s-%016llx.json", rowfold_program_name(c->program), name_hash(text)),
               *folder = receipt_folder(c);
    int error = folder ? folder_make(c, folder) : ENOENT;
    const char *path = folder ? cli_text(c, "%s/%s", folder, name) : NULL;
    if (!error) error = file_write_quiet(path, text, strlen(text), "\n", 1);
    if (!error) return *where = path, RC_OK;
    note(c, "the receipt cannot be kept in %s: %s", folder ? folder : "a home folder, since HOME is not set",
         strerror(error));
    error = file_write_quiet(name, text, strlen(text), "\n", 1);
    if (!error) {
        *where = name;
        note(c, "it lies in this folder instead: %s", name);
    } else {
        note(c, "nor can it be kept here: %s; --receipt FILE says where", strerror(error));
    }
    return RC_OK;
}

static void print_finals(Cli *c, const rowfold_stats *s) {
    const char *who = s->incumbent_remembered ? "the plan remembered" : "the policy's first choice";
    printf("finals      %d in %d round%s of turns; the least gain that shows is %.1f%%\n            ", s->finalists,
           s->rounds, plural(s->rounds), 100 * s->detectable);
    if (s->tie)
        printf("tie: %s stays, the fastest was %.1f%% ahead\n", who, 100 * s->gain);
    else
        printf("%.1f%% less time than %s%s\n", 100 * s->gain, who,
               s->vetoed && !s->replays ? cli_text(c, "; not replayed, %s stays", who) : "");
    if (s->replays)
        printf("replays     %d fresh round%s: %.1f%% less time, at least %.1f%%%s\n", s->replays, plural(s->replays),
               100 * s->replayed_gain, 100 * s->replayed_least,
               s->vetoed ? cli_text(c, "; vetoed, %s stays", who) : "");
    const bool clock = s->clock_mhz_before > 0 && s->clock_mhz_after > 0;
    printf("clock       %s, %s\n",
           clock ? cli_text(c, "%.0f MHz before, %.0f MHz after", s->clock_mhz_before, s->clock_mhz_after) : "unknown",
           s->throttled < 0    ? "throttling unknown"
           : s->throttled == 0 ? "not throttled"
                               : cli_text(c, "throttled %lld time%s", (long long)s->throttled, plural(s->throttled)));
}

static void print(Cli *c, const rowfold_stats *s, const Json *candidates, const char *receipt) {
    printf("%s  %s  %s  on %s\n", rowfold_program_name(c->program), c->o.shape ? c->o.shape : "", cli_types(c),
           rowfold_device_name(c->device));
    printf("device      %s\n", rowfold_device_identity(c->device));
    if (progress_stopped()) printf("interrupted; this is the best so far\n");
    const char *resumed = s->resumed ? cli_text(c, " (%lld of them before)", (long long)s->resumed) : "";
    printf("candidates  %lld: %lld tried%s, %lld refused, %lld failed, in %s\n", (long long)s->candidates,
           (long long)s->timed, resumed, (long long)s->refused, (long long)s->failed, seconds_text(c, s->search_s));
    printf("plan        %s\n", rowfold_kernel_text(c->kernel, ROWFOLD_PLAN));
    if (s->finalists) print_finals(c, s);
    if (s->time_s > 0) {
        printf("time        %s (median; min %s, max %s)%s\n", seconds_text(c, s->time_s),
               seconds_text(c, s->time_min_s), seconds_text(c, s->time_max_s),
               s->rotated_bytes > 0 ? cli_text(c, ", cold: copies of %s in turn", amount_text(c, s->rotated_bytes, "B"))
                                    : "");
        printf("bandwidth   %s", amount_text(c, s->bytes / s->time_s, "B/s"));
        if (s->copy_s > 0)
            printf(", %.1f%% of the measured copy ceiling (%s)", 100 * s->copy_s / s->time_s,
                   amount_text(c, s->bytes / s->copy_s, "B/s"));
        printf("\nverdict     %s\n", verdict_text(c, rowfold_kernel_text(c->kernel, ROWFOLD_VERDICT)));
    }
    printf("receipt     %s\n", receipt ? receipt : "not kept");
    refusals_print(c, candidates, stdout, false);
}

static Rc print_json(Cli *c, const rowfold_stats *s, const Json *candidates, const char *receipt) {
    Text t = {0};
    json_head(c, &t, c->o.shape ? c->o.shape : "");
    json_bool(&t, "interrupted", progress_stopped());
    json_int(&t, "candidates", s->candidates);
    json_int(&t, "timed", s->timed);
    json_int(&t, "resumed", s->resumed);
    json_int(&t, "recorded", s->recorded);
    json_int(&t, "refused", s->refused);
    json_int(&t, "failed", s->failed);
    refusals_json(c, candidates, &t);
    json_str(&t, "plan", rowfold_kernel_text(c->kernel, ROWFOLD_PLAN));
    json_num(&t, "time_s", s->time_s);
    json_num(&t, "time_min_s", s->time_min_s);
    json_num(&t, "time_max_s", s->time_max_s);
    json_num(&t, "bytes", s->bytes);
    json_num(&t, "bytes_per_s", s->time_s > 0 ? s->bytes / s->time_s : 0);
    json_num(&t, "copy_s", s->copy_s);
    json_num(&t, "share_of_copy", s->time_s > 0 ? s->copy_s / s->time_s : 0);
    json_num(&t, "rotated_bytes", s->rotated_bytes);
    json_num(&t, "search_s", s->search_s);
    json_num(&t, "candidates_compile_s", s->candidates_compile_s);
    if (s->finalists) {
        json_open(&t, "finals", '{');
        json_int(&t, "finalists", s->finalists);
        json_int(&t, "rounds", s->rounds);
        json_bool(&t, "tie", s->tie != 0);
        json_bool(&t, "incumbent_remembered", s->incumbent_remembered != 0);
        json_num(&t, "gain", s->gain);
        json_num(&t, "detectable", s->detectable);
        json_int(&t, "replays", s->replays);
        json_num(&t, "replayed_gain", s->replayed_gain);
        json_num(&t, "replayed_least", s->replayed_least);
        json_bool(&t, "vetoed", s->vetoed != 0);
        json_num(&t, "clock_mhz_before", s->clock_mhz_before);
        json_num(&t, "clock_mhz_after", s->clock_mhz_after);
        json_int(&t, "throttled", s->throttled);
        json_close(&t, '}');
    }
    json_num(&t, "compile_s", s->compile_s);
    json_raw(&t, "verdict", rowfold_kernel_text(c->kernel, ROWFOLD_VERDICT));
    json_str(&t, "policy", c->o.policy ? c->o.policy : "roofline");
    json_raw(&t, "trials", rowfold_kernel_text(c->kernel, ROWFOLD_CANDIDATES));
    if (receipt)
        json_str(&t, "receipt", receipt);
    else
        json_raw(&t, "receipt", NULL);
    json_close(&t, '}');
    return json_print(c, &t);
}

Rc command_tune(Cli *c) {
    if (c->o.audit_pruning) return command_audit(c);
    Rc rc = cli_program(c);
    if (!rc) rc = cli_compile(c, c->o.effort < 0 ? ROWFOLD_MEASURE : c->o.effort, c->o.shape, c->o.strided);
    if (rc) return rc;
    rowfold_stats s = {.struct_size = sizeof s};
    rowfold_kernel_stats(c->kernel, &s);
    const Json *candidates = json_read(c, rowfold_kernel_text(c->kernel, ROWFOLD_CANDIDATES));
    const char *receipt;
    Rc kept = receipt_write(c, &receipt);
    if (!c->o.json)
        print(c, &s, candidates, receipt);
    else if (!kept)
        rc = print_json(c, &s, candidates, receipt);
    if (!rc) rc = kept;
    return rc;
}
