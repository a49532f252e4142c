/* The three documents, whole: which format, what belongs to what, and in which order it was measured. */
#include "checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- catalogs ---- */
void catalog_check(Audit *a, const json_t *doc, const char *place, CaseInfo ***cases, size_t *n) {
    const json_t *list = at(doc, "cases"), *provenance = at(doc, "provenance");
    char hex[65];
    json_hash(a->m, doc, "hash", hex);
    check(a, same_text(text_at(doc, "format"), "rowfold-catalog-1"), "format", place, "it is no rowfold-catalog-1");
    check(a, same_text(hex, text_at(doc, "hash")), "catalog", place,
          "its hash is not that of its text: it was altered");
    provenance_check(a, provenance, place);
    *n = json_array_size(list);
    *cases = mem_array(a->m, *n + 1, sizeof **cases);
    for (size_t i = 0; i < *n; i++) {
        const json_t *c = json_array_get(list, i);
        check(a, json_is_string(at(c, "case_sha256")), "hash", place, "case %zu has no case_sha256", i);
        (*cases)[i] = case_check(a, c, provenance, place);
        bool twice = false;
        for (size_t k = 0; k < i; k++) twice |= same_text((*cases)[k]->id, (*cases)[i]->id);
        check(a, !twice && *(*cases)[i]->id, "coverage", place, "case %zu has no id of its own", i);
    }
    check(a, *n > 0, "coverage", place, "it has no cases");
}

/* A catalog that was kept beside the record is one of the two in it, byte for byte. */
static void catalogs_check(Audit *a, const json_t *doc, const json_t *const *catalogs, size_t n) {
    if (!n)
        unknown(a, "catalog", "record",
                "no catalog was given beside it: what is frozen in it is known by its own hashes alone");
    for (size_t i = 0; i < n; i++) {
        char hex[65];
        const char *place = mem_fmt(a->m, "catalog %zu", i + 1), *is = "neither";
        json_hash(a->m, catalogs[i], "hash", hex);
        check(a, same_text(hex, text_at(catalogs[i], "hash")), "catalog", place,
              "its hash is not that of its text: it was altered");
        if (same_json(catalogs[i], at(doc, "reference"))) is = "reference";
        if (same_json(catalogs[i], at(doc, "candidate"))) is = "candidate";
        check(a, !same_text(is, "neither"), "catalog", place, "it is neither the record's reference nor its candidate");
    }
}

/* ---- the schedule ---- */
typedef struct Replay {
    Audit *a;
    const json_t *doc, *options;
    size_t rounds, ncases, npeers;
    CaseInfo **side[2];
} Replay;

static const char *const sides[] = {"reference", "candidate"};

static bool reference_first(size_t r, size_t c) {
    return (r + c) % 2 == 0;
}
static bool peers_before(size_t r, size_t c) {
    return (r + r / 2 + c / 2) % 2 == 0;
}

static const char *peer_name(const Replay *p, size_t i) { /* of the options: a name, or an object that has one */
    const json_t *j = json_array_get(at(p->options, "peers"), i);
    return json_is_string(j) ? json_string_value(j) : *text_at(j, "peer") ? text_at(j, "peer") : text_at(j, "name");
}

static void schedule_check(const Replay *p) {
    Audit *a = p->a;
    const json_t *list = at(p->doc, "schedule");
    const size_t n = p->rounds * p->ncases;
    int64_t *first = mem_array(a->m, p->ncases + 1, sizeof *first),
            *before = mem_array(a->m, p->ncases + 1, sizeof *before);
    check(a, json_array_size(list) == n, "coverage", "schedule", "%zu entries, and %zu rounds of %zu cases",
          json_array_size(list), p->rounds, p->ncases);
    for (size_t i = 0; i < json_array_size(list) && i < n; i++) {
        const json_t *e = json_array_get(list, i), *order = at(e, "order");
        const size_t r = i / p->ncases, pos = i % p->ncases, c = (pos + r) % p->ncases;
        const char *place = mem_fmt(a->m, "schedule %zu", i);
        check(a,
              int_at_key(e, "round", -1) == (int64_t)r && int_at_key(e, "position", -1) == (int64_t)pos &&
                  same_text(text_at(e, "case"), p->side[0][c]->id),
              "schedule", place, "the rule puts round %zu, position %zu, case %.80s here", r, pos, p->side[0][c]->id);
        const bool ref = reference_first(r, c);
        const char *one = json_string_value(json_array_get(order, 0)),
                   *two = json_string_value(json_array_get(order, 1));
        check(a, json_array_size(order) == 2 && one && two && same_text(one, sides[!ref]) && same_text(two, sides[ref]),
              "schedule", place, "the rule has %s first", sides[!ref]);
        check(a, same_text(text_at(e, "peers_when"), peers_before(r, c) ? "before" : "after"), "schedule", place,
              "the rule has peers on the other side");
        const json_t *peers = at(e, "peer_order");
        bool turns = json_array_size(peers) == p->npeers;
        for (size_t t = 0; turns && t < p->npeers; t++) {
            const char *s = json_string_value(json_array_get(peers, t)), *want = peer_name(p, (t + r + c) % p->npeers);
            turns = s && want && same_text(s, want);
        }
        check(a, turns, "schedule", place, "peers are not in the order of the rule");
        for (size_t k = 0; k < p->ncases; k++) {
            if (!same_text(p->side[0][k]->id, text_at(e, "case"))) continue;
            first[k] += one && same_text(one, "reference");
            before[k] += same_text(text_at(e, "peers_when"), "before");
        }
    }
    check(a, p->rounds >= 2 && p->rounds % 2 == 0, "balance", "options", "%zu rounds: an even number, at least 2",
          p->rounds);
    for (size_t k = 0; k < p->ncases; k++)
        check(a, 2 * first[k] == (int64_t)p->rounds && 2 * before[k] == (int64_t)p->rounds, "balance",
              p->side[0][k]->id, "reference first in %lld rounds of %zu, peers before in %lld", (long long)first[k],
              p->rounds, (long long)before[k]);
}

static const CaseInfo *case_named(CaseInfo *const *list, size_t n, const char *id) {
    for (size_t i = 0; i < n; i++)
        if (same_text(list[i]->id, id)) return list[i];
    return NULL;
}

/* Outputs of one plan are the same bits whenever it runs. */
static void same_bits(Audit *a, const json_t *first, const json_t *x, const char *place) {
    const json_t *p = at(first, "outputs"), *q = at(x, "outputs");
    bool same = json_array_size(p) == json_array_size(q);
    for (size_t i = 0; same && i < json_array_size(p); i++)
        same = same_text(text_at(json_array_get(p, i), "sha256"), text_at(json_array_get(q, i), "sha256"));
    check(a, same, "outputs", place, "other bits than the same plan gave in another round");
}

static void measurements_check(const Replay *p) {
    Audit *a = p->a;
    const json_t *list = at(p->doc, "measurements"), *schedule = at(p->doc, "schedule");
    const size_t n = json_array_size(list), want = 2 * p->rounds * p->ncases;
    Outputs *seen = outputs_new(a->m);
    const json_t **first = mem_array(a->m, 2 * p->ncases + 2, sizeof *first);
    int64_t began = 0;
    check(a, n == want, "coverage", "measurements", "%zu of %zu: a round, a case or a side is missing", n, want);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(list, i), *e = json_array_get(schedule, i / 2);
        const size_t slot = i % 2;
        const char *side = json_string_value(json_array_get(at(e, "order"), slot)), *id = text_at(x, "case");
        const char *place = mem_fmt(a->m, "measurement %zu (%.80s %s, round %lld)", i, id, text_at(x, "side"),
                                    (long long)int_at_key(x, "round", -1));
        check(a,
              int_at_key(x, "ordinal", -1) == (int64_t)i && int_at_key(x, "slot", -1) == (int64_t)slot && side &&
                  same_text(side, text_at(x, "side")) && same_json(at(x, "round"), at(e, "round")) &&
                  same_json(at(x, "position"), at(e, "position")) && same_json(at(x, "case"), at(e, "case")),
              "schedule", place, "round, position, case, side, slot or ordinal are not those of its place");
        const bool candidate = same_text(text_at(x, "side"), "candidate");
        const CaseInfo *c = case_named(p->side[candidate], p->ncases, id);
        if (!check(a, c != NULL, "coverage", place, "the catalog has no such case")) continue;
        if (at(x, "failed")) {
            check(a, *text_at(at(x, "failed"), "slug") != 0, "coverage", place, "it failed without a reason");
            continue;
        }
        const json_t *process = at(x, "process");
        const int64_t now = int_at_key(process, "started_unix_ns", -1);
        check(a, now > began, "fresh", place, "its process began before that of the measurement ahead of it");
        began = max_of(began, now);
        for (size_t k = 0; k < i; k++) {
            const json_t *y = json_array_get(list, k);
            if (at(y, "failed")) continue;
            const bool same = same_json(at(y, "figures"), at(x, "figures"));
            const bool process_too = same_json(at(at(y, "process"), "id"), at(process, "id")) &&
                                     same_json(at(at(y, "process"), "started_unix_ns"), at(process, "started_unix_ns"));
            if (same || process_too)
                check(a, false, "fresh", place, "its samples or its process are those of measurement %zu", k);
        }
        check(a, same_text(text_at(process, "identity"), text_at(at(at(p->doc, "provenance"), "device"), "identity")),
              "fresh", place, "it ran on another device than the replay");
        measurement_check(a, x, c, p->options, seen, place);
        for (size_t k = 0; k < p->ncases; k++) {
            if (p->side[candidate][k] != c) continue;
            if (first[2 * k + candidate])
                same_bits(a, first[2 * k + candidate], x, place);
            else
                first[2 * k + candidate] = x;
        }
    }
}

/* ---- peers ---- */
static void peer_check(Audit *a, const json_t *x, const json_t *options, const char *place) {
    check(a, *text_at(x, "peer") != 0, "peers", place, "no name");
    if (at(x, "missing")) {
        check(a, *text_at(x, "missing") != 0, "peers", place, "missing without a reason");
        return;
    }
    check(a, same_text(text_at(x, "allocation"), "given") || same_text(text_at(x, "allocation"), "fresh"), "peers",
          place, "it does not say who allocates");
    check(a, strlen(text_at(x, "adapter_sha256")) == 64 || strlen(text_at(at(x, "adapter"), "adapter_sha256")) == 64,
          "provenance", place, "its adapter is not named by hash");
    const json_t *v = at(x, "check");
    check(a, flag_at(v, "ok") && int_at_key(v, "bad", -1) == 0, "checks", place, "the peer's outputs are wrong");
    figures_check(a, x, options, place);
}

/* The schedule names an adapter by its path, what it measured by the file's name. */
static bool is_adapter(const char *path, const json_t *x) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    return path && (same_text(slash ? slash + 1 : path, text_at(x, "adapter")) || same_text(path, text_at(x, "peer")));
}

static void peers_check(const Replay *p) {
    Audit *a = p->a;
    const json_t *list = at(p->doc, "peers");
    const size_t n = json_array_size(list), want = p->rounds * p->ncases * p->npeers;
    check(a, n == want, "peers", "peers", "%zu measurements of %zu", n, want);
    for (size_t i = 0; i < n && p->npeers; i++) {
        const json_t *x = json_array_get(list, i), *e = json_array_get(at(p->doc, "schedule"), i / p->npeers);
        const char *place = mem_fmt(a->m, "peer measurement %zu (%.40s)", i, text_at(x, "peer"));
        const int64_t turn = int_at_key(x, "turn", -1);
        const char *name = turn >= 0 ? json_string_value(json_array_get(at(e, "peer_order"), (size_t)turn)) : NULL;
        check(a,
              same_json(at(x, "round"), at(e, "round")) && same_json(at(x, "position"), at(e, "position")) &&
                  same_json(at(x, "case"), at(e, "case")) && same_text(text_at(x, "when"), text_at(e, "peers_when")) &&
                  turn == (int64_t)(i % p->npeers) && is_adapter(name, x),
              "peers", place, "round, position, case, when, turn or name are not those of its place");
        peer_check(a, x, p->options, place);
    }
}

/* ---- the whole ---- */
static void pairs_check(const Replay *p, size_t nref, size_t ncand) {
    Audit *a = p->a;
    check(a, nref == ncand, "pair", "catalogs", "%zu cases against %zu", nref, ncand);
    for (size_t i = 0; i < nref && i < ncand; i++) {
        const json_t *x = p->side[0][i]->j, *y = p->side[1][i]->j;
        check(a,
              same_text(p->side[0][i]->id, p->side[1][i]->id) && same_json(at(x, "program"), at(y, "program")) &&
                  same_json(at(x, "shape"), at(y, "shape")) && same_json(at(x, "inputs"), at(y, "inputs")) &&
                  same_json(at(x, "types"), at(y, "types")) && same_json(at(x, "regimes"), at(y, "regimes")),
              "pair", p->side[0][i]->id,
              "id, program, shape, types, regimes or inputs differ between reference and candidate");
        const char *s = text_at(at(x, "source"), "name"), *t = text_at(at(y, "source"), "name");
        if (same_text(s, t))
            check(a, same_json(at(x, "source"), at(y, "source")), "source", p->side[0][i]->id,
                  "%.80s is another text in the candidate's catalog", s);
    }
}

static void sittings_check(Audit *a, const json_t *doc) {
    int64_t all = 0, before = 0;
    bool later = true;
    size_t i;
    json_t *s;
    json_array_foreach(at(doc, "sittings"), i, s) {
        const int64_t now = int_at_key(s, "started_unix_s", -1);
        all += max_of(0, int_at_key(s, "measurements", 0));
        later &= now >= before;
        before = now;
    }
    check(a, i > 0 && later && all == (int64_t)count_at(doc, "measurements"), "coverage", "sittings",
          "they add up to %lld measurements of %zu", (long long)all, count_at(doc, "measurements"));
}

/* Every number that docs/records.md names among the options, and what it may be. */
static void options_check(Audit *a, const json_t *options, bool replay) {
    static const struct {
        const char *name;
        int64_t least, most;
        bool replay;
    } of[] = {{"samples", 1, 101, false},
              {"sample_ns", 1, 60000000000, false},
              {"warmup_ns", 0, 600000000000, false},
              {"rotate_bytes", 1, INT64_MAX, false},
              {"threads", 0, INT32_MAX, false},
              {"archive_whole_bytes", 0, INT64_MAX, false},
              {"archive_samples", 0, INT32_MAX, false},
              {"rounds", 2, 10000, true}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const int64_t x = int_at_key(options, of[i].name, of[i].least - 1);
        if (of[i].replay && !replay) continue;
        check(a, x >= of[i].least && x <= of[i].most, "options", of[i].name,
              "it is %lld; %lld to %lld can be asked for", (long long)x, (long long)of[i].least, (long long)of[i].most);
    }
    const json_t *figures = at(options, "figures");
    bool primary = !replay;
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const char *name = json_string_value(json_array_get(figures, i));
        check(a, figure_known(name), "options", "figures", "number %zu is none", i);
        primary |= same_text(name, text_at(options, "primary"));
    }
    check(a, json_array_size(figures) > 0 && primary, "options", "figures", "none, or not the one told of first");
    check(a, json_is_array(at(options, "peers")), "options", "peers", "no list of them");
}

void replay_check(Audit *a, const json_t *doc, const json_t *const *catalogs, size_t ncatalogs) {
    Replay p = {.a = a, .doc = doc, .options = at(doc, "options")};
    size_t n[2];
    catalogs_check(a, doc, catalogs, ncatalogs);
    for (int k = 0; k < 2; k++) catalog_check(a, at(doc, sides[k]), sides[k], &p.side[k], &n[k]);
    pairs_check(&p, n[0], n[1]);
    const json_t *provenance = at(doc, "provenance");
    provenance_check(a, provenance, "replay");
    const json_t *after =
        at(provenance, "binaries_after") ? at(provenance, "binaries_after") : at(doc, "binaries_after");
    check(a, same_json(at(provenance, "binaries"), after), "provenance", "replay",
          "programs changed while it ran, or were not hashed again");
    options_check(a, p.options, true);
    const int64_t rounds = int_at_key(p.options, "rounds", -1);
    if (!check(a, rounds >= 1 && rounds <= 10000, "schedule", "options", "rounds is no number of rounds")) return;
    p.rounds = (size_t)rounds;
    p.ncases = n[0] < n[1] ? n[0] : n[1];
    p.npeers = count_at(p.options, "peers");
    if (!p.ncases) return;
    schedule_check(&p);
    measurements_check(&p);
    peers_check(&p);
    sittings_check(a, doc);
    results_check(a, doc, p.side[0], p.ncases);
}

void bench_check(Audit *a, const json_t *doc) {
    const json_t *list = at(doc, "cases"), *provenance = at(doc, "provenance"), *options = at(doc, "options");
    Outputs *seen = outputs_new(a->m);
    provenance_check(a, provenance, "bench");
    options_check(a, options, false);
    if (at(doc, "complete") && !flag_at(doc, "complete"))
        unknown(a, "coverage", "bench", "it was stopped before the last case");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *j = json_array_get(list, i), *x = at(j, "measurement");
        const CaseInfo *c = case_check(a, j, provenance, "bench");
        const char *place = mem_fmt(a->m, "measurement %.80s", c->id);
        check(a, (x != NULL) != (at(j, "failed") != NULL), "coverage", place, "neither measured nor failed, or both");
        for (size_t k = 0; k < i; k++) {
            const json_t *y = json_array_get(list, k);
            if (x && same_json(at(at(y, "measurement"), "figures"), at(x, "figures")))
                check(a, false, "fresh", place, "its samples are those of case %zu", k);
            if (same_text(text_at(y, "id"), c->id)) check(a, false, "coverage", place, "the case stands twice");
        }
        if (x) measurement_check(a, x, c, options, seen, place);
        size_t k;
        json_t *peer;
        json_array_foreach(at(j, "peers"), k, peer) {
            peer_check(a, peer, options, mem_fmt(a->m, "%.80s peer %.40s", c->id, text_at(peer, "peer")));
        }
    }
}

bool record_audit(Audit *a, const char *text, size_t n, const char *const *catalog, const size_t *catalog_n,
                  size_t ncatalogs, const char **why) {
    json_error_t err;
    const size_t flags = JSON_REJECT_DUPLICATES;
    json_t *doc = json_loadb(text, n, flags, &err), **other = mem_array(a->m, ncatalogs + 1, sizeof *other);
    *why = NULL;
    if (!doc) {
        *why = mem_fmt(a->m, "no JSON: %s (line %d)", err.text, err.line);
        return false;
    }
    for (size_t i = 0; i < ncatalogs && !*why; i++) {
        other[i] = json_loadb(catalog[i], catalog_n[i], flags, &err);
        if (!other[i]) *why = mem_fmt(a->m, "catalog %zu is no JSON: %s (line %d)", i + 1, err.text, err.line);
    }
    const char *format = text_at(doc, "format");
    const bool replay = same_text(format, "rowfold-replay-1"), bench = same_text(format, "rowfold-bench-1"),
               frozen = same_text(format, "rowfold-catalog-1");
    if (!*why && !replay && !bench && !frozen)
        *why =
            "it is no record of a format that this auditor knows: rowfold-replay-1, rowfold-bench-1, rowfold-catalog-1";
    if (!*why) {
        size_t len;
        char hex[65];
        const char *own = canonical(a->m, doc, &len);
        check(a, n == len + 1 && !memcmp(own, text, len) && text[len] == '\n', "format", "record",
              "its text is not canonical");
        json_hash(a->m, doc, "hash", hex);
        check(a, same_text(hex, text_at(doc, "hash")), "hash", "record", "its hash is not that of its text");
        CaseInfo **cases;
        size_t count;
        if (replay) replay_check(a, doc, (const json_t *const *)other, ncatalogs);
        if (bench) bench_check(a, doc);
        if (frozen) catalog_check(a, doc, "catalog", &cases, &count);
    }
    for (size_t i = 0; i < ncatalogs; i++) json_decref(other[i]);
    json_decref(doc);
    return !*why;
}
