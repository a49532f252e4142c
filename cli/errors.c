/* What went wrong -> words on stderr, a JSON document on stdout when one was asked for, an exit code. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The command's own slugs; all others are the library's. */
static const struct {
    const char *slug, *status;
    Rc rc;
    const char *why, *hint;
} faults[F_COUNT] = {
    [F_COMMAND] = {"command.unknown", "argument", RC_USAGE, "There is no such command.",
                   "rowfold --help lists the commands."},
    [F_OPTION] = {"command.option", "argument", RC_USAGE, "An option is unknown, given twice, or lacks its value.",
                  "rowfold COMMAND --help lists the options."},
    [F_VALUE] = {"command.value", "argument", RC_USAGE, "The value of an option is malformed or out of range.",
                 "rowfold COMMAND --help says what each option takes."},
    [F_WORDS] = {"command.words", "argument", RC_USAGE,
                 "A file or name is missing on the command line, or there is one too many.",
                 "rowfold COMMAND --help shows the usage."},
    [F_NAME] = {"command.name", "argument", RC_USAGE,
                "An option names a parameter or axis that the kernel does not have.",
                "Use a name of the kernel, as its file has it."},
    [F_CONFLICT] = {"shape.conflict", "argument", RC_USAGE, "Two sources say different extents of one axis.",
                    "Drop one of them, or mend the input."},
    [F_UNKNOWN] = {"shape.unknown", "argument", RC_USAGE, "The extent of an axis is not known.",
                   "Give it with --shape, or give an input that has the axis."},
    [F_READ] = {"file.read", "io", RC_IO, "A file could not be read.", "Check its path and permissions."},
    [F_LARGE] = {"file.too_large", "io", RC_IO, "A file is larger than 1 MiB, the limit of programs and calibrations.",
                 "Split a program: one family of kernels a file. Is it the file that was meant?"},
    [F_WRITE] = {"file.write", "io", RC_IO, "A file could not be written; whatever stood there before still does.",
                 "Check the folder, its permissions and the space on the disk."},
    [F_STDOUT] = {"file.stdout", "io", RC_IO, "Standard output could not be written.",
                  "Is the disk full, or the reader gone?"},
    [F_NPY_HEADER] = {"npy.header", "io", RC_IO, "A file is no .npy file, or its header is damaged.",
                      "Save it again with numpy.save."},
    [F_NPY_TYPE] = {"npy.type", "argument", RC_USAGE, "The elements of a .npy file are not of the parameter's type.",
                    "Choose the type with --type, or convert the file: numpy.save(f, x.astype('<f4'))."},
    [F_NPY_SHAPE] = {"npy.shape", "argument", RC_USAGE, "The shape of a .npy file does not fit the parameter.",
                     "One dimension for each axis of the parameter, in the same order."},
    [F_NPY_SHORT] = {"npy.truncated", "io", RC_IO, "A .npy file ends before its elements do.",
                     "Copy or save it again."},
    [F_MEMORY] = {"memory.exhausted", "memory", RC_WRONG, "An allocation failed.", "Use smaller shapes."},
    [F_SLUG] = {"command.slug", "argument", RC_USAGE, "There is no such slug.", "rowfold explain --list lists them."},
    [F_NOTHING] = {"emit.nothing", "unavailable", RC_MISSING, "There is no source for this kind of device.",
                   "Use a host device or preset; rowfold devices lists them."},
    [F_STOPPED] = {"command.interrupted", "stopped", RC_STOPPED,
                   "The search was interrupted before any plan was found.", "Give it more time, or --effort estimate."},
    [F_STOPPED_EARLY] = {"command.unfinished", "stopped", RC_STOPPED,
                         "The command was interrupted and had nothing to keep.", "Give it more time."},
};

const char *fault_slug(Fault f) {
    return faults[f].slug;
}

Rc rc_of(rowfold_status s) {
    switch (s) {
    case ROWFOLD_OK: return RC_OK;
    case ROWFOLD_ARGUMENT: return RC_USAGE;
    case ROWFOLD_LANGUAGE: return RC_TEXT;
    case ROWFOLD_REFUSED: return RC_REFUSED;
    case ROWFOLD_UNAVAILABLE: return RC_MISSING;
    case ROWFOLD_IO: return RC_IO;
    case ROWFOLD_STOPPED: return RC_STOPPED;
    default: return RC_WRONG;
    }
}

void note(const Cli *c, const char *fmt, ...) {
    if (c->o.quiet) return;
    va_list ap;
    va_start(ap, fmt);
    fputs("rowfold: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

/* One document on stdout, whatever else fails later. */
static void error_json(Cli *c, Text *t, Rc rc) {
    if (c->o.json && !c->said_error) {
        json_int(t, "exit", rc);
        json_close(t, '}');
        json_close(t, '}');
        json_print(c, t);
        c->said_error = true;
    }
    text_free(t);
}

Rc fail(Cli *c, Fault f, const char *accepted, const char *fmt, ...) {
    Text msg = {0}, t = {0};
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    text_fmt(&msg, "rowfold: %s [%s]\n", line, faults[f].slug);
    if (accepted) text_fmt(&msg, "    accepted: %s\n", accepted);
    text_fmt(&msg, "    hint: %s\n", faults[f].hint);
    fflush(stdout);
    fwrite(msg.s, 1, msg.n, stderr);
    text_free(&msg);
    json_open(&t, NULL, '{');
    json_open(&t, "error", '{');
    json_str(&t, "slug", faults[f].slug);
    json_str(&t, "status", faults[f].status);
    json_str(&t, "message", line);
    json_str(&t, "accepted", accepted ? accepted : "");
    json_str(&t, "hint", faults[f].hint);
    error_json(c, &t, faults[f].rc);
    return faults[f].rc;
}

Rc fail_library(Cli *c, rowfold_status s) {
    const rowfold_error *e = rowfold_last_error(c->ctx);
    const Rc rc = rc_of(s);
    Text t = {0};
    fflush(stdout);
    const char *text = e && e->text && *e->text ? e->text : rowfold_status_name(s);
    fprintf(stderr, "rowfold: %s%s", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
    if (e && e->hint && *e->hint) fprintf(stderr, "    hint: %s\n", e->hint);
    json_open(&t, NULL, '{');
    json_open(&t, "error", '{');
    json_str(&t, "slug", e && e->slug && *e->slug ? e->slug : "internal.invariant");
    json_str(&t, "status", rowfold_status_name(s));
    json_str(&t, "message", e ? e->message : "");
    json_str(&t, "accepted", e ? e->accepted : "");
    json_str(&t, "hint", e ? e->hint : "");
    if (e && e->line > 0) {
        json_str(&t, "file", e->file);
        json_int(&t, "line", e->line);
        json_int(&t, "column", e->column);
    }
    json_raw(&t, "diagnostics", e ? e->json : NULL);
    error_json(c, &t, rc);
    return rc;
}

const char *slug_explain(const char *slug) {
    const char *why = rowfold_explain(slug);
    for (int i = 0; !why && i < F_COUNT; i++)
        if (strcmp(faults[i].slug, slug) == 0) return faults[i].why;
    return why;
}

const char *slug_at(int i) {
    int n = 0;
    for (const char *s; (s = rowfold_slug(n)) != NULL; n++)
        if (n == i) return s;
    for (int f = 0; f < F_COUNT; f++) {
        if (rowfold_explain(faults[f].slug)) continue; /* the library has it too */
        if (n++ == i) return faults[f].slug;
    }
    return NULL;
}

/* Edits between two words: insertions, deletions, changes, swaps of neighbours. */
static int distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    int d[LONGEST + 1][LONGEST + 1];
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *near_word(const char *word, const char *const *words, int n) {
    const char *best = NULL;
    int least = (int)strlen(word) / 3 + 1;
    for (int i = 0; i < n; i++) {
        const int d = distance(word, words[i]);
        if (d <= least && (!best || d < least)) best = words[i], least = d;
    }
    return best;
}
