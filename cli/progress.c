/* How far a search is: one line redrawn on a terminal, a plain line every ten seconds elsewhere. Also Ctrl-C, and the
 * SIGTERM of a batch system: the first ends the search with what it has, the second ends the command. */
#include "cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 24, second_ms = 300 };
static const double plain_every_s = 10, redraw_every_s = 0.1;

/* A signal handler can reach nothing else. */
static volatile sig_atomic_t stopped;
static struct timespec first_time; /* the handler's alone */

static struct Progress {
    bool silent, terminal, colour, drawn;
    double last;
    int64_t tried;  /* at the last event */
    char what[200]; /* at hand when it was last told */
    struct sigaction before[2];
} now;

/* A request to end comes as the one or the other. */
static const int wishes[] = {SIGINT, SIGTERM};

/* Some senders (timeout) signal the process and its group: two signals for one wish. */
static void on_interrupt(int number) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (!stopped) {
        stopped = 1;
        first_time = t;
    } else if ((t.tv_sec - first_time.tv_sec) * 1000 + (t.tv_nsec - first_time.tv_nsec) / 1000000 >= second_ms) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

bool progress_stopped(void) {
    return stopped != 0;
}

void progress_start(Cli *c) {
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    now = (struct Progress){.silent = c->o.quiet};
    now.terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    now.colour = now.terminal && !(plain && *plain);
    struct sigaction a = {.sa_handler = on_interrupt};
    for (int i = 0; i < COUNT(wishes); i++) {
        sigaction(wishes[i], NULL, &now.before[i]);
        if (now.before[i].sa_handler != SIG_IGN) sigaction(wishes[i], &a, NULL);
    }
}

static const char *short_time(Cli *c, double s) {
    if (s < 90) return cli_text(c, "%.0f s", s);
    return s < 5400 ? cli_text(c, "%.0f min", s / 60) : cli_text(c, "%.1f h", s / 3600);
}

/* --json: one event a candidate, a JSON object a line on standard error. */
static void event(const rowfold_progress *p) {
    Text t = {0};
    json_open(&t, NULL, '{');
    json_str(&t, "event", "candidate");
    json_int(&t, "tried", p->tried);
    json_int(&t, "total", p->total);
    json_int(&t, "refused", p->refused);
    json_int(&t, "failed", p->failed);
    json_num(&t, "best_s", p->best_s);
    json_str(&t, "best_plan", p->best_plan);
    json_num(&t, "elapsed_s", p->elapsed_s);
    json_num(&t, "left_s", p->left_s);
    json_str(&t, "reasons", p->reasons);
    json_close(&t, '}');
    fprintf(stderr, "%s\n", t.s);
    fflush(stderr);
    text_free(&t);
}

/* The most frequent reasons, as many as there is room for. */
static void reasons(Text *t, const char *all, size_t room) {
    for (const char *at = all; *at;) {
        const size_t n = strcspn(at, ",");
        if (t->n + n + 1 > room) break;
        text_put(t, " ", 1);
        text_put(t, at, n);
        at += n + (at[n] == ',');
    }
}

/* A line with a bar on a terminal, else a line of its own; reasons where there is room. Frees the text. */
static void draw(Text *t, double share, const char *why) {
    if (now.terminal) {
        struct winsize w = {0};
        const int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
        int bar = width - 1 - (int)t->n - 3;
        bar = bar > BAR ? BAR : bar < 4 ? 0 : bar;
        const int full = (int)(share * bar);
        if (bar == BAR) text_put(t, " ", 1), reasons(t, why, (size_t)(width - 4 - BAR));
        fputs("\r\033[K", stderr);
        if (bar) {
            fputs(now.colour ? "[\033[32m" : "[", stderr);
            for (int i = 0; i < bar; i++) fputc(i < full ? '#' : '.', stderr);
            fputs(now.colour ? "\033[0m] " : "] ", stderr);
        }
        fprintf(stderr, "%.*s", width > 1 ? width - 1 : 1, t->s);
        now.drawn = true;
    } else {
        if (*why) text_put(t, " ", 1), reasons(t, why, 200);
        fprintf(stderr, "rowfold: %s\n", t->s);
    }
    fflush(stderr);
    text_free(t);
}

int progress_step(void *user, const rowfold_progress *p) {
    Cli *c = user;
    if (!p->total) return stopped;
    const bool last = p->tried >= p->total;
    if (c->o.json && !now.silent) {
        if (p->tried != now.tried) event(p);
        return now.tried = p->tried, stopped;
    }
    const double wait = now.terminal ? redraw_every_s : plain_every_s;
    if (now.silent || (p->elapsed_s - now.last < wait && !(now.terminal && last))) return stopped;
    now.last = p->elapsed_s;
    Text t = {0};
    const double share = p->total > 0 ? (double)p->tried / (double)p->total : 0;
    text_fmt(&t, "%lld/%lld  ", (long long)p->tried, (long long)p->total);
    text_fmt(&t, "best %s  refused %lld  ", p->best_s > 0 ? seconds_text(c, p->best_s) : "-", (long long)p->refused);
    if (p->failed) text_fmt(&t, "failed %lld  ", (long long)p->failed);
    text_fmt(&t, "%s", short_time(c, p->elapsed_s));
    if (p->left_s >= 0 && !last) text_fmt(&t, ", %s left", short_time(c, p->left_s));
    draw(&t, share, p->reasons);
    return stopped;
}

int progress_evidence(void *user, const rowfold_evidence_progress *p) {
    Cli *c = user;
    const double share = p->total > 0 ? (double)p->done / (double)p->total : 0;
    const bool told = strncmp(now.what, p->what, sizeof now.what - 1) == 0;
    if (now.silent || p->done == p->total || !*p->what) return stopped;
    if (told && (!now.terminal || p->elapsed_s - now.last < redraw_every_s)) return stopped;
    snprintf(now.what, sizeof now.what, "%s", p->what);
    now.last = p->elapsed_s;
    Text t = {0};
    text_fmt(&t, "%d/%d  %s", p->done, p->total, short_time(c, p->elapsed_s));
    if (p->done > 0) text_fmt(&t, ", %s left", short_time(c, p->elapsed_s * (1 - share) / share));
    text_fmt(&t, "  %s", p->what);
    draw(&t, share, "");
    return stopped;
}

void progress_end(void) {
    if (now.drawn) fputs("\r\033[K", stderr);
    now.drawn = false;
    for (int i = 0; i < COUNT(wishes) && !stopped; i++) sigaction(wishes[i], &now.before[i], NULL);
}
