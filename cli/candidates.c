/* The library's reports on candidates, demand and verdict -> tables and sentences. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* ---- refusals, counted by slug ---- */
typedef struct Tally {
    const char *slug, *why; /* of the first */
    int count;
} Tally;

static int tally(Cli *c, const Json *candidates, Tally **out) {
    int n = 0;
    Tally *t = cli_get(c, sizeof *t * (size_t)(candidates ? candidates->n + 1 : 1));
    for (const Json *j = candidates ? candidates->child : NULL; j; j = j->next) {
        const char *slug = json_text(j, "slug", NULL);
        int i = 0;
        if (!slug) continue;
        while (i < n && strcmp(t[i].slug, slug) != 0) i++;
        if (i == n) t[n++] = (Tally){slug, json_text(j, "why", ""), 0};
        t[i].count++;
    }
    for (int i = 1; i < n; i++) /* most first; few kinds, so a plain insertion */
        for (int k = i; k > 0 && t[k].count > t[k - 1].count; k--) {
            const Tally swap = t[k];
            t[k] = t[k - 1], t[k - 1] = swap;
        }
    *out = t;
    return n;
}

void refusals_print(Cli *c, const Json *candidates, FILE *f, bool all) {
    Tally *t;
    const int n = tally(c, candidates, &t);
    if (!n) return;
    Table table = {.c = c};
    fprintf(f, "\nRefused or failed (rowfold explain SLUG says more):\n");
    table_column(&table, "count", false);
    table_column(&table, "slug", true);
    table_column(&table, "the first", true);
    for (int i = 0; i < n; i++) {
        table_row(&table);
        table_cell(&table, 0, "%d", t[i].count);
        table_cell(&table, 1, "%s", t[i].slug);
        table_cell(&table, 2, "%s", t[i].why);
    }
    table_print(&table, f);
    if (!all) return;
    for (int i = 0; i < n; i++) {
        const char *why = slug_explain(t[i].slug);
        fprintf(f, "\n%s: %s\n", t[i].slug, why ? why : "");
        for (const Json *j = candidates->child; j; j = j->next)
            if (strcmp(json_text(j, "slug", ""), t[i].slug) == 0)
                fprintf(f, "  %s\n      %s\n", json_text(j, "plan", ""), json_text(j, "why", ""));
    }
}

void refusals_json(Cli *c, const Json *candidates, Text *out) {
    Tally *t;
    const int n = tally(c, candidates, &t);
    json_open(out, "refusals", '{');
    for (int i = 0; i < n; i++) json_int(out, t[i].slug, t[i].count);
    json_close(out, '}');
}

/* ---- candidates ---- */
/* A plan is words "key=value"; the value of one of them */
static const char *plan_value(Cli *c, const char *plan, const char *key) {
    const size_t n = strlen(key);
    for (const char *p = plan; *p;) {
        const size_t k = strcspn(p, " ");
        if (k > n && strncmp(p, key, n) == 0 && p[n] == '=') return cli_text(c, "%.*s", (int)(k - n - 1), p + n + 1);
        p += k + strspn(p + k, " ");
    }
    return "";
}

static double total(const Json *j) {
    return json_value(json_get(j, "score"), "total", 0);
}

static int by_score(const void *x, const void *y) {
    const Json *const *a = x, *const *b = y;
    const bool ta = json_get(*a, "times") != NULL, tb = json_get(*b, "times") != NULL;
    if (ta != tb) return ta ? -1 : 1;
    const double va = ta ? json_value(json_get(*a, "times"), "median_ns", 0) : total(*a);
    const double vb = tb ? json_value(json_get(*b, "times"), "median_ns", 0) : total(*b);
    return va < vb ? -1 : va > vb;
}

/* Dimensions in which the candidates differ get a column, those that all share go into one line. */
static void plan_columns(Cli *c, const Json *const *list, int n, Table *t, List *keys, FILE *f) {
    Text same = {0};
    text_put(&same, "", 0);
    for (const char *p = json_text(list[0], "plan", ""); *p;) {
        const size_t k = strcspn(p, " "), m = strcspn(p, "=");
        const char *key = cli_text(c, "%.*s", (int)m, p), *first = plan_value(c, json_text(list[0], "plan", ""), key);
        int i = 0;
        while (i < n && strcmp(plan_value(c, json_text(list[i], "plan", ""), key), first) == 0) i++;
        if (i < n && t->columns < TABLE_COLUMNS - 8) {
            table_column(t, key, false);
            cli_list(c, keys, key);
        } else if (i == n) {
            text_fmt(&same, "%s%.*s", same.n ? " " : "", (int)k, p);
        }
        p += k + strspn(p + k, " ");
    }
    if (same.n) fprintf(f, "All have %s\n", same.s);
    text_free(&same);
}

void candidates_print(Cli *c, const Json *candidates, int64_t limit, FILE *f) {
    int n = 0, shown;
    const Json **list = cli_get(c, sizeof *list * (size_t)(candidates ? candidates->n + 1 : 1));
    for (const Json *j = candidates ? candidates->child : NULL; j; j = j->next)
        if (json_get(j, "score")) list[n++] = j;
    if (!n) return;
    qsort(list, (size_t)n, sizeof *list, by_score);
    shown = limit > 0 && limit < n ? (int)limit : n;
    fprintf(f, "\nCandidates, best first");
    if (shown < n) fprintf(f, " (%d of %d; --limit 0 shows all)", shown, n);
    fputs(":\n", f);
    Table t = {.c = c};
    List keys = {0};
    table_column(&t, "", true);
    plan_columns(c, list, n, &t, &keys, f);
    const int score = t.columns;
    table_column(&t, "score", false);
    const Json *terms = json_get(json_get(list[0], "score"), "terms");
    for (const Json *m = terms ? terms->child : NULL; m; m = m->next)
        table_column(&t,
                     *json_text(m, "unit", "")
                         ? cli_text(c, "%s [%s]", json_text(m, "name", ""), json_text(m, "unit", ""))
                         : json_text(m, "name", ""),
                     false);
    for (int i = 0; i < shown; i++) {
        table_row(&t);
        table_cell(&t, 0, "%s", json_get(list[i], "chosen") ? "*" : "");
        for (int k = 0; k < keys.n; k++)
            table_cell(&t, 1 + k, "%s", plan_value(c, json_text(list[i], "plan", ""), keys.item[k]));
        table_cell(&t, score, "%.6g", total(list[i]));
        const Json *m = json_get(json_get(list[i], "score"), "terms");
        int column = score;
        for (m = m ? m->child : NULL; m; m = m->next) table_cell(&t, ++column, "%.4g", json_value(m, "value", 0));
    }
    table_print(&t, f);
}

/* ---- demand ---- */
static void demand_members(Cli *c, const Json *j, const char *head, Table *t) {
    for (const Json *m = j ? j->child : NULL; m; m = m->next) {
        char *name = cli_text(c, "%s%s%s", head, *head ? ": " : "", m->key ? m->key : "");
        for (char *p = name; *p; p++)
            if (*p == '_') *p = ' ';
        if (m->kind == JSON_OBJECT) {
            demand_members(c, m, name, t);
        } else if (m->kind == JSON_NUMBER) {
            if (m->v == 0) continue;
            table_row(t);
            table_cell(t, 0, "%s", name);
            table_cell(t, 1, "%.10g", m->v);
        }
    }
}

void demand_print(Cli *c, const char *json, FILE *f) {
    const Json *j = json_read(c, json);
    if (!j) return;
    fputs("\nDemand of one launch (what is 0 is left out; lane: the longest, row: all lanes):\n", f);
    if (json_value(j, "known", 1) == 0) {
        fputs("  it could not be counted\n", f);
        return;
    }
    Table t = {.c = c};
    table_column(&t, "what", true);
    table_column(&t, "amount", false);
    demand_members(c, j, "", &t);
    table_print(&t, f);
}

/* ---- verdict ---- */
const char *verdict_text(Cli *c, const char *json) {
    const Json *j = json_read(c, json), *bad = json_get(j, "first_bad");
    if (!j) return "not checked";
    const char *checked = json_text(j, "checked", "0");
    if (json_value(j, "ok", 0) != 0)
        return cli_text(c, "right: %s element%s within the bound of the FP64 definition, worst error %.3g of its bound",
                        checked, strcmp(checked, "1") ? "s" : "", json_value(j, "worst_error_share", 0));
    Text t = {0};
    text_fmt(&t, "WRONG: %s of %s elements are outside of the bound of the FP64 definition", json_text(j, "bad", "?"),
             checked);
    if (bad) {
        text_fmt(&t, "; the first is %s[", json_text(bad, "output", ""));
        const Json *at = json_get(bad, "at");
        for (const Json *m = at ? at->child : NULL; m; m = m->next)
            text_fmt(&t, "%s%s", m == at->child ? "" : ", ", m->s ? m->s : "?");
        text_fmt(&t, "]: %s, defined %s, bound %s", json_text(bad, "got", "?"), json_text(bad, "want", "?"),
                 json_text(bad, "bound", "?"));
    }
    const char *s = cli_text(c, "%s", t.s);
    text_free(&t);
    return s;
}
