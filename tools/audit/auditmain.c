/* rowfold-audit: a record -> every claim of it confirmed, refuted or not checkable. */
#include "checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef AUDIT_VERSION
#define AUDIT_VERSION "of no release"
#endif

enum { CONFIRMED_ALL = 0, REFUTED_SOME = 1, NOT_READ = 2 };
enum { MIB = 1 << 20, RECORD_MIB = 256, MEMORY_MIB = 3072, CATALOGS = 16 };

static const char help[] =
    "rowfold-audit judges a record of measurements from the record alone.\n"
    "\n"
    "Usage: rowfold-audit [OPTION...] RECORD [CATALOG...]\n"
    "\n"
    "RECORD is a rowfold-replay-1, rowfold-bench-1 or rowfold-catalog-1 document; outputs that it archives are read "
    "from\n"
    "its folder. CATALOGs that were kept beside a replay are compared with the two inside it. The program shares no "
    "code\n"
    "with rowfold: it has readers, formulas, statistics and an evaluation of the language of its own.\n"
    "\n"
    "Options:\n"
    "  --json     one JSON object: counts, and every claim with what was found\n"
    "  --all      list confirmed claims too\n"
    "  --quick    leave out what takes long: inputs made again, outputs evaluated again\n"
    "  --claims   list the claims that are judged, and end\n"
    "  --help     print this help, and end\n"
    "  --version  print the version, and end\n"
    "\n"
    "A claim is confirmed when this program finds the same, refuted when it finds another thing, and not checkable "
    "when\n"
    "the record does not hold what it would take.\n"
    "\n"
    "Exit codes: 0 no claim is refuted, 1 a claim is refuted, 2 the command line or the record cannot be read.\n";

static int fail(const char *what, const char *why) {
    fprintf(stderr, "rowfold-audit: %s: %s\n    hint: rowfold-audit --help says what it reads\n", what, why);
    return NOT_READ;
}

static void list_claims(void) {
    int n;
    const ClaimName *c = claim_names(&n);
    for (int i = 0; i < n; i++) printf("%-11s %s\n", c[i].name, c[i].what);
}

static const char *folder_of(Mem *m, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? mem_text(m, path, slash == path ? 1 : (size_t)(slash - path)) : "";
}

typedef struct Command {
    const char *record, *catalog[CATALOGS];
    size_t ncatalogs;
    bool json, all, quick;
} Command;

/* -1: go on; else the exit code. */
static int options(int argc, char **argv, Command *c) {
    bool words = false;
    for (int i = 1; i < argc; i++) {
        const char *s = argv[i];
        if (words || *s != '-' || !s[1]) {
            if (!c->record)
                c->record = s;
            else if (c->ncatalogs < CATALOGS)
                c->catalog[c->ncatalogs++] = s;
            else
                return fail(s, "more catalogs than a record can have");
        } else if (same_text(s, "--")) {
            words = true;
        } else if (same_text(s, "--json")) {
            c->json = true;
        } else if (same_text(s, "--all")) {
            c->all = true;
        } else if (same_text(s, "--quick")) {
            c->quick = true;
        } else if (same_text(s, "--claims")) {
            return list_claims(), CONFIRMED_ALL;
        } else if (same_text(s, "--help") || same_text(s, "-h")) {
            return fputs(help, stdout), CONFIRMED_ALL;
        } else if (same_text(s, "--version")) {
            return puts("rowfold-audit " AUDIT_VERSION), CONFIRMED_ALL;
        } else {
            return fail(s, "there is no such option");
        }
    }
    return c->record ? -1 : fail("RECORD", "it is missing");
}

static int run(const Command *c, Mem *m) {
    Audit *a = mem_get(m, sizeof *a);
    *a = (Audit){.m = m, .quick = c->quick, .work_left = (int64_t)1 << 31, .bytes_left = (int64_t)1 << 32};
    const char *why = NULL, *text[CATALOGS];
    size_t n = 0, size[CATALOGS];
    const size_t most = (size_t)RECORD_MIB * MIB;
    const char *record = file_read(m, c->record, most, &n, &why);
    if (!record) return fail(c->record, why);
    for (size_t i = 0; i < c->ncatalogs; i++)
        if (!(text[i] = file_read(m, c->catalog[i], most, &size[i], &why))) return fail(c->catalog[i], why);
    a->folder = folder_of(m, c->record);
    if (!record_audit(a, record, n, text, size, c->ncatalogs, &why)) return fail(c->record, why);
    if (c->json) {
        json_t *j = claims_json(a, c->record);
        json_dumpf(j, stdout, JSON_SORT_KEYS | JSON_COMPACT);
        putchar('\n');
        json_decref(j);
    } else {
        claims_print(a, c->all);
    }
    if (fflush(stdout) || ferror(stdout)) return fail("output", "it cannot be written");
    return a->count[REFUTED] ? REFUTED_SOME : CONFIRMED_ALL;
}

int main(int argc, char **argv) {
    Command c = {0};
    const int ends = options(argc, argv, &c);
    if (ends >= 0) return ends;
    jmp_buf out;
    Mem m = {.ceiling = (size_t)MEMORY_MIB * MIB, .out = &out};
    int rc;
    if (setjmp(out)) {
        mem_end(&m);
        return fail(c.record, "it takes more memory than there is");
    }
    rc = run(&c, &m);
    mem_end(&m);
    return rc;
}
