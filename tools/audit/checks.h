/* The checks of each part of a record; each files claims and goes on. */
#ifndef AUDIT_CHECKS_H
#define AUDIT_CHECKS_H

#include "claims.h"

/* A case whose parts were read; what is not there is NULL. */
typedef struct CaseInfo {
    const json_t *j;
    const char *id, *place;
    Program *p;
    Tensor in[PARAMS];
    Number scalar[PARAMS];
    bool inputs_known, plan_known;
    PlanText plan;
    Rules rules;
    const char *plan_text, *kern_sha, *unit_sha;
    uint64_t seed;
} CaseInfo;
/* caps: the machine's facts as text, of the provenance that the case belongs to. */
CaseInfo *case_check(Audit *a, const json_t *c, const json_t *provenance, const char *place);
double caps_value(Mem *m, const char *caps, const char *key); /* NAN: not there */
void source_check(Audit *a, const CaseInfo *c);               /* sourcecheck.c: the kernel's text against the program */

void provenance_check(Audit *a, const json_t *p, const char *place);

/* Figures, builds, checks and outputs of one measurement; c may be NULL where the case could not be read. */
typedef struct Outputs Outputs; /* outputs that were judged already, by case, plan and hash */
Outputs *outputs_new(Mem *m);
void measurement_check(Audit *a, const json_t *x, const CaseInfo *c, const json_t *options, Outputs *seen,
                       const char *place);
void figures_check(Audit *a, const json_t *x, const json_t *options, const char *place);
double figure_median(Audit *a, const json_t *x, const char *figure); /* from the samples; NAN: not there */
void outputs_check(Audit *a, const json_t *x, const CaseInfo *c, const json_t *options, Outputs *seen,
                   const char *place);

/* The three documents. catalogs: others, that stand beside the record. */
void catalog_check(Audit *a, const json_t *doc, const char *place, CaseInfo ***cases, size_t *n);
bool figure_known(const char *name); /* SPAN.MODE.REGIME */
void bench_check(Audit *a, const json_t *doc);
void replay_check(Audit *a, const json_t *doc, const json_t *const *catalogs, size_t ncatalogs);
void results_check(Audit *a, const json_t *doc, CaseInfo *const *ref, size_t ncases); /* results.c */

/* Any bytes: false and *why where they are no record; else every claim filed. */
bool record_audit(Audit *a, const char *text, size_t n, const char *const *catalog, const size_t *catalog_n,
                  size_t ncatalogs, const char **why);
#endif
