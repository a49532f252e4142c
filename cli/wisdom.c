/* rowfold wisdom: the best plans that the store knows; to see, to question, to carry elsewhere and to let go. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IMPORT_MAX = 64 << 20 };

/* Entries come a line each; as one JSON array they can be read and printed. */
static const char *as_array(Cli *c, const char *lines) {
    const size_t n = strlen(lines);
    char *s = cli_get(c, n + 3), *end = s;
    *end++ = '[';
    for (size_t i = 0; i < n; i++) *end++ = (char)(lines[i] == '\n' && i + 1 < n ? ',' : lines[i]);
    *end++ = ']';
    *end = 0;
    return s;
}

static Rc wise(Cli *c, const char *filter, const char **array) {
    char *text = NULL;
    const rowfold_status s = rowfold_wisdom_export(c->ctx, c->o.store, filter, &text);
    if (s) return fail_library(c, s);
    *array = as_array(c, text);
    rowfold_free(c->ctx, text);
    return RC_OK;
}

static void entries_print(Cli *c, const Json *list) {
    Table t = {.c = c};
    static const char *const titles[] = {"kernel", "types", "shape", "median", "effort", "stage", "plan"};
    for (int i = 0; i < COUNT(titles); i++) table_column(&t, titles[i], i != 3);
    for (const Json *j = list->child; j; j = j->next) {
        static const char *const members[] = {"kernel", "types", "shape", NULL, "effort", "stage", "plan"};
        table_row(&t);
        for (int i = 0; i < COUNT(members); i++)
            if (members[i]) table_cell(&t, i, "%s", json_text(j, members[i], ""));
        table_cell(&t, 3, "%s", seconds_text(c, json_value(j, "median_ns", 0) / 1e9));
    }
    table_print(&t, stdout);
}

static Rc show(Cli *c) {
    const char *array = NULL;
    Rc rc = wise(c, filter_words(c, 1), &array);
    if (rc) return rc;
    const Json *list = json_read(c, array);
    if (c->o.json) {
        Text t = {0};
        json_open(&t, NULL, '{');
        json_raw(&t, "wisdom", array);
        json_close(&t, '}');
        return json_print(c, &t);
    }
    if (list && list->child)
        entries_print(c, list);
    else
        note(c, "there is no wisdom%s", c->o.words.n > 1 ? " that the filter lets through" : "");
    return RC_OK;
}

/* The chosen plan of each problem with its evidence, then everything it was chosen from. */
static Rc why(Cli *c) {
    const char *array = NULL, *filter = filter_words(c, 1);
    char *trials = NULL;
    if (c->o.words.n < 2) return fail(c, F_WORDS, "rowfold wisdom why KERNEL [shape=AXES ...]", "a problem is missing");
    Rc rc = wise(c, filter, &array);
    if (rc) return rc;
    const rowfold_status s = rowfold_trials(c->ctx, c->o.store, filter, 0, &trials);
    if (s) return fail_library(c, s);
    const Json *list = json_read(c, array), *all = json_read(c, trials);
    if (c->o.json) {
        Text t = {0};
        json_open(&t, NULL, '{');
        json_raw(&t, "wisdom", array);
        json_raw(&t, "trials", trials);
        json_close(&t, '}');
        rc = json_print(c, &t);
    } else if (!list || !list->child) {
        note(c, "there is no wisdom for %s", filter);
    }
    for (const Json *j = list && !c->o.json ? list->child : NULL; j; j = j->next) {
        const time_t when = (time_t)json_value(j, "time", 0);
        char day[32] = "";
        struct tm tm;
        if (gmtime_r(&when, &tm)) strftime(day, sizeof day, "%Y-%m-%d %H:%M UTC", &tm);
        printf("%s  %s  %s\n", json_text(j, "kernel", ""), json_text(j, "shape", ""), json_text(j, "types", ""));
        printf("device      %s\n", json_text(j, "device", ""));
        printf("plan        %s\n", json_text(j, "plan", ""));
        printf("evidence    %s, median %s, by effort %s, on %s, %s, rowfold %s\n", json_text(j, "stage", ""),
               seconds_text(c, json_value(j, "median_ns", 0) / 1e9), json_text(j, "effort", ""),
               json_text(j, "host", ""), day, json_text(j, "rowfold", ""));
        printf("rule        own trials before imported ones, confirmed before final before short, then the fastest\n");
    }
    if (!c->o.json && all && all->child) {
        printf("\nTrials:\n");
        trials_print(c, all, stdout);
    }
    rowfold_free(c->ctx, trials);
    return rc;
}

static Rc export_text(Cli *c) {
    char *text = NULL;
    const rowfold_status s = rowfold_wisdom_export(c->ctx, c->o.store, filter_words(c, 1), &text);
    if (s) return fail_library(c, s);
    Rc rc = RC_OK;
    if (c->o.output) rc = file_write(c, c->o.output, text, strlen(text), NULL, 0);
    if (!rc && c->o.json) {
        Text t = {0};
        json_open(&t, NULL, '{');
        json_str(&t, c->o.output ? "output" : "text", c->o.output ? c->o.output : text);
        json_close(&t, '}');
        rc = json_print(c, &t);
    } else if (!rc && !c->o.output && fputs(text, stdout) == EOF) {
        rc = fail(c, F_STDOUT, NULL, "standard output could not be written");
    }
    rowfold_free(c->ctx, text);
    return rc;
}

static Rc read_all(Cli *c, const char *path, Text *t) {
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char part[1 << 16];
    if (!f) return fail(c, F_READ, NULL, "%s: %s", path, strerror(errno));
    for (size_t n; t->n <= IMPORT_MAX && (n = fread(part, 1, sizeof part, f)) > 0;) text_put(t, part, n);
    const int error = ferror(f) ? errno : 0;
    if (f != stdin) fclose(f);
    if (error) return fail(c, F_READ, NULL, "%s: %s", path, strerror(error));
    return t->n > IMPORT_MAX ? fail(c, F_READ, "at most 64 MiB", "%s is too large for wisdom", path) : RC_OK;
}

static Rc import_text(Cli *c) {
    Text t = {0};
    char *report = NULL;
    if (c->o.words.n != 2) return fail(c, F_WORDS, "rowfold wisdom import FILE", "import takes one file");
    Rc rc = read_all(c, c->o.words.item[1], &t);
    const rowfold_status s = rc ? ROWFOLD_OK : rowfold_wisdom_import(c->ctx, c->o.store, t.n ? t.s : "", t.n, &report);
    text_free(&t);
    if (rc || s) return rc ? rc : fail_library(c, s);
    const Json *j = json_read(c, report), *entries = j ? json_get(j, "entries") : NULL;
    const double refused = j ? json_value(j, "refused", 0) : 0;
    if (c->o.json) {
        Text out = {0};
        text_put(&out, report, strlen(report));
        rc = json_print(c, &out);
    } else {
        printf("%.0f taken, %.0f known already, %.0f for other devices or versions, %.0f refused\n",
               j ? json_value(j, "taken", 0) : 0, j ? json_value(j, "known", 0) : 0,
               j ? json_value(j, "foreign", 0) : 0, refused);
        for (const Json *e = entries ? entries->child : NULL; e; e = e->next)
            if (json_get(e, "slug"))
                printf("  line %.0f %s: %s [%s]\n", json_value(e, "line", 0), json_text(e, "fate", ""),
                       json_text(e, "why", ""), json_text(e, "slug", ""));
    }
    rowfold_free(c->ctx, report);
    return !rc && refused > 0 ? RC_REFUSED : rc;
}

static Rc forget(Cli *c) {
    int64_t n = 0;
    if (c->o.words.n < 2)
        return fail(c, F_WORDS, "rowfold wisdom forget FILTER, or forget all", "what is to be forgotten is missing");
    const char *filter = filter_words(c, 1);
    const rowfold_status s = rowfold_wisdom_forget(c->ctx, c->o.store, strcmp(filter, "all") == 0 ? "" : filter, &n);
    if (s) return fail_library(c, s);
    if (!c->o.json) return printf("forgotten: the wisdom of %lld problem%s\n", (long long)n, plural(n)), RC_OK;
    Text t = {0};
    json_open(&t, NULL, '{');
    json_int(&t, "forgotten", n);
    json_close(&t, '}');
    return json_print(c, &t);
}

Rc command_wisdom(Cli *c) {
    static const struct {
        const char *name;
        Rc (*run)(Cli *);
    } verbs[] = {{"show", show}, {"why", why}, {"export", export_text}, {"import", import_text}, {"forget", forget}};
    const char *word = c->o.words.n ? c->o.words.item[0] : "show";
    for (int i = 0; i < COUNT(verbs); i++)
        if (strcmp(verbs[i].name, word) == 0) {
            const Rc rc = cli_open(c);
            return rc ? rc : verbs[i].run(c);
        }
    return fail(c, F_WORDS, "show, why, export, import, forget", "wisdom cannot \"%s\"", word);
}
