/* Two frozen catalogs -> a replay: every case of every round measured on both sides, in a process and with a build of
 * its own, in orders that are in balance. What was measured is written to a journal at once, so that an interrupted
 * replay goes on where it was. */
#include "evidence.h"

#include "../base/os.h"

#include <jansson.h>
#include <string.h>

static const char *const sides[2] = {"reference", "candidate"};

typedef struct Replay {
    Cx *cx;
    EvidenceAsk *q;
    Evidence *e;
    const char *journal, *outputs;
    json_t *root, *schedule, *measurements, *peers, *sittings; /* of root */
    int cases, rounds, npeers, steps, done;
    uint32_t figures; /* that are asked for */
} Replay;

/* ---- schedule ---- */

typedef struct Turn {           /* one case of one round */
    int round, position, index; /* of the case */
    bool candidate_first, peers_after;
} Turn;

/* As docs/records.md has it: each order of a pair, and peers before and after it, in half of the rounds of every case.
 */
static Turn turn_at(const Replay *r, int i) {
    const int round = i / r->cases, position = i % r->cases, c = (position + round) % r->cases;
    return (Turn){round, position, c, (round + c) % 2 != 0, (round + round / 2 + c / 2) % 2 != 0};
}

static int ordinal_of(const Replay *r, const Turn *t, int slot) {
    return 2 * (t->round * r->cases + t->position) + slot;
}

typedef struct Step { /* of a turn: one side of the pair, or all peers */
    Turn turn;
    bool peers;
    int slot; /* of the side that comes first or second */
} Step;

static Step step_at(const Replay *r, int i) {
    const int each = r->npeers ? 3 : 2, k = i % each;
    Step s = {.turn = turn_at(r, i / each)};
    s.peers = r->npeers && k == (s.turn.peers_after ? 2 : 0);
    s.slot = k - (r->npeers && !s.turn.peers_after);
    return s;
}

static int peer_turn(const Replay *r, const Turn *t, int k) {
    return (k + t->round + t->index) % r->npeers;
}

static const char *id_of(const Replay *r, int index) {
    const json_t *cases = json_object_get(json_object_get(r->root, sides[0]), "cases");
    return json_string_value(json_object_get(json_array_get(cases, (size_t)index), "id"));
}

static void put_schedule(const Replay *r) {
    for (int i = 0; i < r->rounds * r->cases; i++) {
        const Turn t = turn_at(r, i);
        json_t *o = record_element(r->schedule, json_pack("{s:i,s:i,s:s,s:[s,s],s:s}", "round", t.round, "position",
                                                          t.position, "case", id_of(r, t.index), "order",
                                                          sides[t.candidate_first], sides[!t.candidate_first],
                                                          "peers_when", t.peers_after ? "after" : "before"));
        json_t *order = record_member(o, "peer_order", json_array());
        for (int k = 0; k < r->npeers; k++)
            json_array_append_new(order, record_text(peer_file(r->cx, r->q->peers, peer_turn(r, &t, k))));
    }
}

/* ---- journal ---- */

static void extend(json_t *to, const json_t *from) {
    json_array_extend(to, (json_t *)(uintptr_t)from);
}

/* One line of what was measured before. */
static void take_line(Replay *r, const json_t *line) {
    if (json_object_get(line, "sitting")) {
        record_element(r->sittings,
                       json_pack("{s:O,s:i}", "started_unix_s", json_object_get(line, "sitting"), "measurements", 0));
        return;
    }
    const json_t *m = json_object_get(line, "measurements");
    json_t *last = json_array_get(r->sittings, json_array_size(r->sittings) - 1);
    extend(r->measurements, m);
    extend(r->peers, json_object_get(line, "peers"));
    json_object_set_new(
        last, "measurements",
        json_integer(json_integer_value(json_object_get(last, "measurements")) + (json_int_t)json_array_size(m)));
    r->done++;
}

/* A line is the beginning of a sitting, or in one and of the step that comes next. */
static bool line_fits(const Replay *r, const json_t *line) {
    if (json_object_get(line, "sitting")) return json_is_integer(json_object_get(line, "sitting"));
    if (r->done >= r->steps || !json_array_size(r->sittings)) return false;
    const Step s = step_at(r, r->done);
    const json_t *m = json_object_get(line, "measurements"), *peers = json_object_get(line, "peers"),
                 *ordinal = json_object_get(json_array_get(m, 0), "ordinal");
    if (!json_is_array(m) || !json_is_array(peers) || json_array_size(m) != !s.peers) return false;
    return s.peers || (!json_array_size(peers) && json_is_integer(ordinal) &&
                       json_integer_value(ordinal) == ordinal_of(r, &s.turn, s.slot));
}

static bool take_fitting(void *user, const json_t *line) {
    Replay *r = user;
    const bool fits = line_fits(r, line);
    if (fits) take_line(r, line);
    return fits;
}

static Err open_journal(Replay *r) {
    Evidence *e = r->e;
    json_t *head = e->spare[3] = json_object();
    for (int i = 0; i < 2; i++)
        json_object_set(head, sides[i], json_object_get(json_object_get(r->root, sides[i]), "hash"));
    json_object_set(head, "options", json_object_get(r->root, "options"));
    json_object_set(head, "binaries", json_object_get(json_object_get(r->root, "provenance"), "binaries"));
    Err err = journal_open(e, r->journal, head, take_fitting, r);
    json_t *sitting = e->spare[4] = json_pack("{s:I}", "sitting", (json_int_t)(os_unix_ns() / 1000000000));
    if (!err) err = journal_append(e, r->cx, r->journal, sitting);
    if (!err) take_line(r, sitting);
    return err;
}

/* ---- measuring ---- */

static const json_t *case_at(const Replay *r, int side, int index) {
    return json_array_get(json_object_get(json_object_get(r->root, sides[side]), "cases"), (size_t)index);
}

static const char *text_of(const json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

/* What was measured must be what was frozen. */
static Err as_frozen(Cx *cx, const json_t *cse, const json_t *m, const char *side) {
    const char *unit = text_of(json_object_get(cse, "unit"), "sha256"), *plan = text_of(cse, "plan");
    const char *unit_now = text_of(m, "unit_sha256"), *plan_now = text_of(m, "plan");
    if (unit && plan && unit_now && plan_now && str_eq(unit, unit_now) && str_eq(plan, plan_now)) return OK;
    return diag(cx, S_REPLAY_SOURCE, NOWHERE, NULL, "%s of the %s: frozen %s, now %s", text_of(cse, "id"), side,
                unit ? unit : "without a source", unit_now ? unit_now : "without one");
}

static Err measure_side(Replay *r, const Turn *t, int slot, json_t *list) {
    const int side = slot ^ (int)t->candidate_first;
    const json_t *cse = case_at(r, side, t->index);
    Evidence *e = r->e;
    Cx *cx = r->cx, own = {.a = cx->a};
    Problem *pb = NEW(cx->a, Problem);
    uint64_t seed;
    bool cold = false, resident = false;
    size_t i;
    json_t *regime, *o = record_element(list, json_object());
    json_array_foreach(json_object_get(cse, "regimes"), i, regime) {
        cold |= str_eq(json_string_value(regime), "cold");
        resident |= str_eq(json_string_value(regime), "resident");
    }
    r->q->measure.figures.figures = r->figures & ((cold ? 0xAA : 0u) | (resident ? 0x55 : 0u));
    Err err = case_problem(cx, cse, r->q->caps, pb, &seed);
    if (err) return err;
    r->q->measure.seed = seed;
    r->q->measure.ceilings = t->round == 0 && slot == 0; /* what memory allows is the same in every round */
    e->cx = &own;
    err = measure_fresh(e, pb, seed, text_of(cse, "plan"), true, &e->spare[5]);
    e->cx = cx;
    if (err == ERR_UNAVAILABLE || e->stopped) return diag(cx, own.first->slug, NOWHERE, NULL, "%s", own.first->msg);
    if (!err) err = as_frozen(cx, cse, e->spare[5], sides[side]);
    if (err == ERR_REFUSED && cx->first) return err;
    if (err)
        json_object_set_new(o, "failed",
                            json_pack("{s:s,s:o}", "slug", slug_text(own.first ? own.first->slug : S_INTERNAL), "why",
                                      record_text(own.first ? own.first->msg : "")));
    else
        json_object_update(o, e->spare[5]);
    json_decref(e->spare[5]);
    e->spare[5] = NULL;
    json_object_set_new(o, "round", json_integer(t->round));
    json_object_set_new(o, "position", json_integer(t->position));
    json_object_set_new(o, "case", record_text(text_of(cse, "id")));
    json_object_set_new(o, "side", json_string(sides[side]));
    json_object_set_new(o, "slot", json_integer(slot));
    json_object_set_new(o, "ordinal", json_integer(ordinal_of(r, t, slot)));
    return OK;
}

static Err measure_peers(Replay *r, const Turn *t, json_t *list) {
    Evidence *e = r->e;
    const json_t *cse = case_at(r, 0, t->index);
    Problem *pb = NEW(r->cx->a, Problem);
    uint64_t seed;
    Err err = case_problem(r->cx, cse, r->q->caps, pb, &seed);
    if (err) return err;
    r->q->measure.seed = seed;
    r->q->measure.figures.figures = r->figures;
    bed_free(&e->bed);
    e->bed = (Bed){0};
    err = bed_make(r->cx, r->q->dev, pb, seed, &e->bed);
    for (int k = 0; k < r->npeers && !err; k++) {
        json_t *where = e->spare[6] =
            json_pack("{s:i,s:i,s:s,s:s,s:i}", "round", t->round, "position", t->position, "case", text_of(cse, "id"),
                      "when", t->peers_after ? "after" : "before", "turn", k);
        err = peer_measure(e, peer_at(r->cx, r->q->peers, peer_turn(r, t, k)), cse, &e->bed, where, list);
        json_decref(where);
        e->spare[6] = NULL;
    }
    bed_free(&e->bed);
    e->bed = (Bed){0};
    return err;
}

static Err step(Replay *r, int i) {
    const Step s = step_at(r, i);
    const Turn *t = &s.turn;
    Arena *tmp = arena_sub(r->cx->a), *keep = r->cx->a;
    json_t *line = r->e->spare[7] = json_object();
    json_t *measured = record_member(line, "measurements", json_array()),
           *met = record_member(line, "peers", json_array());
    const char *id = id_of(r, t->index);
    evidence_tell(r->e, i, r->steps,
                  arena_printf(keep, "%s, round %d, %s", id, t->round + 1,
                               s.peers ? "peers" : sides[s.slot ^ (int)t->candidate_first]));
    Cx own = {.a = tmp};
    Cx *cx = r->cx;
    r->cx = r->e->cx = &own;
    Err err = r->e->stopped ? OK : s.peers ? measure_peers(r, t, met) : measure_side(r, t, s.slot, measured);
    if (!err && !r->e->stopped) err = journal_append(r->e, r->cx, r->journal, line);
    r->cx = r->e->cx = cx;
    if (!err && !r->e->stopped) take_line(r, line);
    json_decref(line);
    r->e->spare[7] = NULL;
    if (r->e->stopped) {
        arena_free(tmp);
        return diag(cx, S_RECORD_STOPPED, NOWHERE, NULL, "stopped after %d of %d measurements; they are in %s", i,
                    r->steps, r->journal);
    }
    if (err) err = diag(cx, own.first->slug, NOWHERE, NULL, "%s", arena_printf(keep, "%s", own.first->msg));
    arena_free(tmp);
    return err;
}

/* ---- the whole ---- */

static Err same_cases(Cx *cx, const json_t *root) {
    static const char *const same[] = {"id", "kernel", "program", "shape", "regimes", "inputs"};
    const json_t *a = json_object_get(json_object_get(root, sides[0]), "cases"),
                 *b = json_object_get(json_object_get(root, sides[1]), "cases");
    if (json_array_size(a) != json_array_size(b))
        return diag(cx, S_REPLAY_CASES, NOWHERE, NULL, "%zu case%s and %zu", json_array_size(a),
                    plural((int64_t)json_array_size(a)), json_array_size(b));
    for (size_t i = 0; i < json_array_size(a); i++)
        for (int k = 0; k < COUNT(same); k++) {
            const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
            if (json_equal(json_object_get(x, same[k]), json_object_get(y, same[k]))) continue;
            const char *id = text_of(x, "id"), *other = text_of(y, "id");
            return diag(cx, S_REPLAY_CASES, NOWHERE, NULL, "case %zu: %s and %s have not the same %s", i + 1,
                        id ? id : "?", other ? other : "?", same[k]);
        }
    return OK;
}

static json_t *replay_options(Cx *cx, const EvidenceAsk *q) {
    json_t *o = options_json(q);
    for (int i = 0; i < peers_count(q->peers); i++)
        json_array_append_new(json_object_get(o, "peers"), record_text(peer_file(cx, q->peers, i)));
    json_object_set_new(o, "rounds", json_integer(q->rounds));
    json_object_set_new(o, "primary", json_string(q->primary));
    json_object_set_new(o, "least_floor", json_real(0.01));
    json_object_set_new(o, "bootstrap", json_pack("{s:i,s:i,s:i}", "resamples", 2000, "seed", 1, "percent", 95));
    return o;
}

static Err begin(Replay *r, const char *const text[2], const size_t bytes[2]) {
    Evidence *e = r->e;
    Cx *cx = r->cx;
    Err err = OK;
    json_object_set_new(r->root, "format", json_string("rowfold-replay-1"));
    for (int i = 0; i < 2 && !err; i++) {
        Cx own = {.a = cx->a};
        err = record_read(&own, text[i], bytes[i], "rowfold-catalog-1", &e->spare[i]);
        if (!err) json_object_set(r->root, sides[i], e->spare[i]);
        if (!err) err = catalog_fits(&own, r->q, e->spare[i]);
        if (err) diag(cx, own.first->slug, NOWHERE, own.first->accept, "%s: %s", sides[i], own.first->msg);
    }
    if (!err) err = same_cases(cx, r->root);
    if (err) return err;
    r->cases = (int)json_array_size(json_object_get(e->spare[0], "cases"));
    r->rounds = r->q->rounds, r->npeers = peers_count(r->q->peers);
    r->steps = r->cases * r->rounds * (r->npeers ? 3 : 2);
    record_member(r->root, "options", replay_options(cx, r->q));
    err = provenance_make(cx, r->q, record_member(r->root, "provenance", json_object()));
    r->schedule = record_member(r->root, "schedule", json_array());
    r->measurements = record_member(r->root, "measurements", json_array());
    r->peers = record_member(r->root, "peers", json_array());
    r->sittings = record_member(r->root, "sittings", json_array());
    put_schedule(r);
    if (err) return err;
    int bad = os_dir_private(r->outputs);
    return bad ? journal_failed(cx, r->outputs, bad) : open_journal(r);
}

static Err finish(Replay *r) {
    json_t *o = json_object_get(r->root, "provenance");
    json_t *again = record_member(o, "binaries_after", json_array());
    Err err = binaries_make(r->cx, r->q, again);
    if (!err && !json_equal(again, json_object_get(o, "binaries")))
        err = diag(r->cx, S_REPLAY_BINARY, NOWHERE, NULL, "a binary is not what it was at the beginning");
    if (err) return err;
    results_make(r->cx, r->root);
    record_seal(r->cx, r->root, "hash");
    return OK;
}

Err evidence_replay(Cx *cx, const EvidenceAsk *asked, const char *const text[2], const size_t bytes[2], Evidence *e,
                    const char **out) {
    EvidenceAsk *q = NEW(cx->a, EvidenceAsk);
    *q = *asked;
    *e = (Evidence){.cx = cx, .ask = q, .from_ns = t_now_ns(), .root = json_object()};
    Replay r = {.cx = cx, .q = q, .e = e, .root = e->root, .figures = q->measure.figures.figures};
    r.journal = arena_printf(cx->a, "%s.part", q->record);
    r.outputs = q->measure.archive = arena_printf(cx->a, "%s.outputs", q->record);
    Err err = begin(&r, text, bytes);
    for (int i = r.done; i < r.steps && !err; i++) err = step(&r, i);
    if (!err) err = finish(&r);
    if (err) return err;
    evidence_tell(e, r.steps, r.steps, "");
    *out = record_print(cx, e->root);
    return OK;
}
