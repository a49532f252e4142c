/* The command `rowfold`: one subcommand, its options, its exit code. */
#include "cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct Block { /* padded to 16 so that what follows is aligned */
    struct Block *next;
    size_t bytes;
};

void *cli_get(Cli *c, size_t bytes) {
    struct Block *b = bytes < SIZE_MAX / 2 ? calloc(1, sizeof *b + bytes) : NULL;
    if (!b) {
        fputs("rowfold: out of memory [memory.exhausted]\n", stderr);
        exit(RC_WRONG);
    }
    b->next = c->blocks;
    b->bytes = bytes;
    c->blocks = b;
    return b + 1;
}

char *cli_text(Cli *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = cli_get(c, n < 0 ? 1 : (size_t)n + 1);
    va_start(ap, fmt);
    if (n >= 0) vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

void cli_list(Cli *c, List *l, const char *s) {
    if ((l->n & (l->n - 1)) == 0) { /* grows at powers of two */
        const char **more = cli_get(c, sizeof *more * (size_t)(l->n ? 2 * l->n : 1));
        if (l->n) memcpy(more, l->item, sizeof *more * (size_t)l->n);
        l->item = more;
    }
    l->item[l->n++] = s;
}

void cli_close(Cli *c) {
    rowfold_kernel_free(c->kernel);
    rowfold_program_free(c->program);
    rowfold_source_free(c->source);
    rowfold_context_free(c->ctx);
    while (c->blocks) {
        struct Block *next = c->blocks->next;
        free(c->blocks);
        c->blocks = next;
    }
}

Rc command_help(Cli *c) {
    if (c->o.words.n > 1) return fail(c, F_WORDS, "rowfold help [COMMAND]", "help takes one command");
    const int command = c->o.words.n ? command_find(c->o.words.item[0]) : CMD_COUNT;
    if (c->o.words.n && command == CMD_COUNT)
        return fail(c, F_COMMAND,
                    "run, plan, emit, tune, bench, catalog, replay, report, trials, wisdom, devices, calibrate, "
                    "explain, check, help",
                    "there is no command \"%s\"", c->o.words.item[0]);
    help_print(stdout, command);
    return RC_OK;
}

static Rc dispatch(Cli *c) {
    static Rc (*const commands[CMD_COUNT])(Cli *) = {
        command_run,     command_plan,      command_emit,    command_tune,   command_bench,
        command_catalog, command_replay,    command_report,  command_trials, command_wisdom,
        command_devices, command_calibrate, command_explain, command_check,  command_help};
    if (c->o.version) return printf("rowfold %s\n", rowfold_version_string()), RC_OK;
    if (c->o.help) return help_print(stdout, c->o.command), RC_OK;
    return commands[c->o.command](c);
}

int main(int argc, char **argv) {
    Cli c = {0};
    signal(SIGXFSZ, SIG_IGN); /* a file that grows past its limit is an error of the write, and told as one */
    Rc rc = options_read(&c, argc, argv);
    if (!rc) rc = dispatch(&c);
    if (!rc && progress_stopped()) rc = RC_STOPPED; /* done with the best so far */
    /* A full disk shows when the last bytes go out. */
    const bool lost = ferror(stdout) != 0 || fflush(stdout) != 0;
    if (lost && (rc == RC_OK || rc == RC_STOPPED)) {
        c.o.json = false; /* there is no stdout to say it on */
        rc = fail(&c, F_STDOUT, NULL, "standard output could not be written");
    }
    cli_close(&c);
    return (int)rc;
}
