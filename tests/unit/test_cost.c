/* Cost policies: the prior system's numbers, the arithmetic of the others, and what a hostile policy cannot do. */
#include "../../src/cost/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LAUNCH(n, w, s, p) \
    { .rows = (n), .lanes = (w), .subgroup = (s), .rows_per_group = (p) }

static Cx *open_cx(void) {
    Arena *a = arena_new(&alloc_libc, NULL);
    assert_non_null(a);
    Cx *cx = NEW(a, Cx);
    cx->a = a;
    return cx;
}

static const CostPolicy *policy(Cx *cx, const char *name) {
    const CostPolicy *p;
    assert_int_equal(cost_find(cx, name, &p), OK);
    return p;
}

static Caps machine(const char *name) {
    Caps c;
    assert_true(caps_preset(name, &c));
    return c;
}

/* A lane of W = 512, V = 4 at N = 4096 has 8 slots in each domain. Holding the input adds a domain that fills the
 * stripe: 8 rounds, 32 bytes written to it, and every sweep that read 8 elements of 4 bytes reads them from there. */
static Demand demand(int domains, int reductions, bool held) {
    Demand d = {.known = true, .reductions = reductions, .lane_rounds = 8.0 * (domains + held), .launches = 1};
    d.lane.global_read = held ? 32 : 64;
    d.lane.global_write = 32;
    d.lane.private_read = held ? 64 : 0;
    d.lane.private_write = held ? 32 : 0;
    d.row.global_read = d.lane.global_read * 512;
    d.row.global_write = d.lane.global_write * 512;
    d.first_read = 4096 * 4;
    return d;
}

static double term(const Score *s, const char *name) {
    for (int i = 0; i < s->nterms; i++)
        if (str_eq(s->term[i].name, name)) return s->term[i].value;
    fail_msg("no term %s", name);
    return 0;
}

static Score score(Cx *cx, const char *name, const Demand *d, const Caps *c, const Launch *l, const char *coefs) {
    double k[MAX_COEFS];
    Score s;
    assert_int_equal(cost_coefs(cx, policy(cx, name), c, coefs, k), OK);
    assert_int_equal(cost_score(cx, policy(cx, name), d, c, l, k, &s), OK);
    return s;
}

static void prior_gives_the_published_scores(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Caps c = machine("m1max");
    Launch one = LAUNCH(1, 512, 32, 1);
    static const struct {
        int domains, reductions;
        double reload, held;
    } of[] = {{2, 1, 64, 72}, {4, 2, 112, 120}}; /* RMSNorm; softmax and LayerNorm */
    for (int i = 0; i < COUNT(of); i++) {
        Demand reload = demand(of[i].domains, of[i].reductions, false),
               held = demand(of[i].domains, of[i].reductions, true);
        Score a, b;
        assert_int_equal(cost_score(cx, policy(cx, "prior"), &reload, &c, &one, NULL, &a), OK);
        assert_int_equal(cost_score(cx, policy(cx, "prior"), &held, &c, &one, NULL, &b), OK);
        assert_true(a.total == of[i].reload && b.total == of[i].held);
        static const double bytes[] = {0, 0.25, 0.5, 1, 3};
        for (int g = 0; g < COUNT(bytes); g++) /* powers of two and small integers: the sums are exact */
            for (int p = 0; p < COUNT(bytes); p++) {
                const char *k = arena_printf(cx->a, "global-byte=%g,private-byte=%g", bytes[g], bytes[p]);
                double delta =
                    score(cx, "prior", &held, &c, &one, k).total - score(cx, "prior", &reload, &c, &one, k).total;
                assert_true(delta == 8 - 32 * bytes[g] + 96 * bytes[p]);
            }
    }
    Demand d = demand(2, 1, false);
    Launch many = LAUNCH(1024, 512, 32, 1), packed = LAUNCH(65, 32, 32, 4), none = LAUNCH(0, 512, 32, 1);
    Score s = score(cx, "prior", &d, &c, &many, "");
    assert_true(term(&s, "program score") == 64 && term(&s, "waves") == 16 && s.total == 1024);
    s = score(cx, "prior", &d, &c, &packed, "");
    assert_true(term(&s, "setup") == 4 && term(&s, "collectives") == 2 && term(&s, "waves") == 2 &&
                s.total == 2 * (16 + 2 + 4));
    assert_true(score(cx, "prior", &d, &c, &none, "").total == 64);
    assert_true(score(cx, "prior", &d, &c, &many, "concurrent=1024,setup=0,round=2").total == 64);
    arena_free(cx->a);
}

static void service_is_its_formula(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Caps c = machine("m1max");
    Demand d = {.known = true, .reductions = 2, .lane_rounds = 10};
    d.lane = (Bytes){100, 20, 7, 3};
    d.row = (Bytes){1000, 500, 0, 0};
    const char *k = "dispatch=5,round=1,collective=2,private-byte=3,memory-byte=0.5,global-byte=0.25,capacity=8";
    /* S = 2, P = 3, 7 rows: 3 groups, 18 subgroups; 9 rows are read, 7 written */
    Launch l = LAUNCH(7, 64, 32, 3);
    Score s = score(cx, "service", &d, &c, &l, k);
    double waves = 18.0 / 8, local = 10 + 2 * 2 * 2 + 10 * 3;
    assert_true(term(&s, "waves") == waves && term(&s, "lane's work") == local);
    assert_true(s.total == 5 + local * waves + (9 * 1000 + 7 * 500) * 0.5 + 120 * 0.25);
    Launch single = LAUNCH(7, 32, 32, 3); /* one subgroup a row: no barrier, inactive rows read nothing */
    s = score(cx, "service", &d, &c, &single, k);
    assert_true(term(&s, "waves") == 9.0 / 8 && term(&s, "memory") == 7 * 1500 * 0.5);
    Launch few = LAUNCH(1, 32, 32, 1);
    s = score(cx, "service", &d, &c, &few, k);
    assert_true(term(&s, "waves") == 1);
    arena_free(cx->a);
}

static void roofline_is_seconds(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Caps c = machine("h200");
    Demand d = demand(2, 1, true);
    d.collectives = 1, d.barriers = 1;
    d.lane_ops[COST_ALU] = 24, d.lane_ops[COST_MEMORY] = 4;
    Launch big = LAUNCH(1 << 20, 512, 32, 1);
    Score s = score(cx, "roofline", &d, &c, &big, "copy=1,cached=1000,alu=1e6,access=1e6,row=0,crowded=0");
    double bytes = (double)(1 << 20) * 2 * 16384;
    assert_true(fabs(term(&s, "memory") / (bytes / c.copy_bytes_per_s) - 1) < 1e-12); /* held: each byte once */
    assert_true(term(&s, "waves") == (1 << 20) / 132.0 / 4);                          /* room for 4 */
    s = score(cx, "roofline", &d, &c, &big, "dispatch=0");                            /* terms add up */
    double sum = term(&s, "memory") + term(&s, "cache") + term(&s, "arithmetic") + term(&s, "special") +
                 term(&s, "waves") * term(&s, "path") + term(&s, "launch");
    assert_true(fabs(s.total / sum - 1) < 1e-12);
    /* meanwhile groups are started one by one, which takes longest where they do little */
    s = score(cx, "roofline", &d, &c, &big, "dispatch=1000");
    assert_true(fabs(term(&s, "dispatch") / ((1 << 20) * 1e-6) - 1) < 1e-12);
    assert_true(s.total > term(&s, "dispatch") && s.total < 1.01 * term(&s, "dispatch"));
    /* the busiest unit's work counts */
    d.lane_ops[COST_ALU] = 1e6;
    Launch full = LAUNCH(132, 512, 32, 1), over = LAUNCH(133, 512, 32, 1);
    Score a = score(cx, "roofline", &d, &c, &full, ""), b = score(cx, "roofline", &d, &c, &over, "");
    assert_true(term(&b, "arithmetic") == 2 * term(&a, "arithmetic"));
    assert_true(b.total > a.total);
    /* each class of work, more bytes, less bandwidth and slower launches never make it faster */
    Demand base = demand(2, 1, false);
    double t0 = score(cx, "roofline", &base, &c, &full, "").total;
    for (int i = 0; i < COST_CLASSES; i++) {
        Demand more = base;
        more.lane_ops[i] += 1e9;
        double t = score(cx, "roofline", &more, &c, &full, "").total;
        /* conversions of GPUs are seldom more than part of a load: a fit that counted them ranked no better */
        assert_true(i == COST_FREE || i == COST_CONVERT ? t == t0 : t > t0);
    }
    Demand more = base;
    more.row.global_write *= 1e6;
    assert_true(score(cx, "roofline", &more, &c, &full, "").total > t0);
    Caps slow = c;
    slow.launch_s *= 2;
    assert_true(score(cx, "roofline", &base, &slow, &full, "").total > t0);
    slow = c;
    slow.copy_bytes_per_s /= 1e6;
    assert_true(score(cx, "roofline", &base, &slow, &full, "").total > t0);
    slow.copy_bytes_per_s = 0;
    Score bad;
    assert_int_equal(cost_score(cx, policy(cx, "roofline"), &base, &slow, &full, NULL, &bad), ERR_ARGUMENT);
    assert_int_equal(cx->last->slug, S_ARG);
    double k[MAX_COEFS];
    assert_int_equal(cost_coefs(cx, policy(cx, "roofline"), &c, "alu=0", k), OK);
    assert_int_equal(cost_score(cx, policy(cx, "roofline"), &base, &c, &full, k, &bad), ERR_ARGUMENT);
    assert_int_equal(cx->last->slug, S_COST_COEFFICIENT);
    /* hosts and GPUs have nominal coefficients of their own */
    Caps host = machine("avx512");
    double of_host[MAX_COEFS], of_gpu[MAX_COEFS];
    cost_nominal(policy(cx, "roofline"), &host, of_host);
    cost_nominal(policy(cx, "roofline"), &c, of_gpu);
    assert_true(of_host[0] != of_gpu[0]);
    assert_int_equal(cost_score(cx, policy(cx, "roofline"), &base, &c, &full, of_gpu, &s), OK);
    assert_true(s.total == t0);
    /* a host's parts overlap: the more, the less it takes, and at last the largest part */
    s = score(cx, "roofline", &base, &host, &full, "overlap=1000");
    assert_true(s.total < score(cx, "roofline", &base, &host, &full, "overlap=1").total);
    double most = fmax(fmax(term(&s, "memory"), term(&s, "cache")),
                       fmax(term(&s, "second"), fmax(term(&s, "work"), term(&s, "chain")) + term(&s, "wait")));
    assert_true(fabs(s.total / (most + term(&s, "fence") + term(&s, "launch")) - 1) < 0.01);
    arena_free(cx->a);
}

/* Rows that fit a core's own caches, the last cache, neither; stripes; stores of both kinds. */
static void roofline_knows_caches_of_hosts(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Caps gpu = machine("h200"), host = machine("avx2"); /* whose last cache is faster than memory by far */
    host.l1_bytes = 64 << 10, host.l2_bytes = 1 << 20;
    Demand d = demand(2, 1, true);
    Launch fits = LAUNCH(4, 64, 16, 1), spills = LAUNCH(1 << 16, 64, 16, 1);
    Score near = score(cx, "roofline", &d, &host, &fits, ""), far = score(cx, "roofline", &d, &host, &spills, "");
    assert_true(term(&near, "memory") == 0 && term(&far, "memory") > 0); /* rows that stay in a cache */
    fits.copies = 1 << 20;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &host, &fits, "")}[0], "memory") > 0); /* or do not */
    Launch rows = LAUNCH(64, 512, 16, 1);
    host.l1_bytes = 4096; /* the row is in the second cache */
    Demand again = demand(2, 1, false), kept = demand(2, 1, true);
    kept.row.private_read = kept.lane.private_read * 512, kept.row.private_write = kept.lane.private_write * 512;
    kept.stripe_slots = 8;
    Score read = score(cx, "roofline", &again, &host, &rows, ""), keep = score(cx, "roofline", &kept, &host, &rows, "");
    assert_true(term(&keep, "second") > term(&read, "second")); /* a kept copy is written as well */
    const double gpu_kept = score(cx, "roofline", &kept, &gpu, &fits, "").total;
    kept.row.private_read = 0; /* a host's stripes are memory, a GPU's are not */
    assert_true(score(cx, "roofline", &kept, &gpu, &fits, "").total == gpu_kept);
    assert_true(term(&(Score[]){score(cx, "roofline", &kept, &host, &rows, "")}[0], "second") < term(&keep, "second"));
    host.l1_bytes = 64 << 10; /* and in the first */
    Score first = score(cx, "roofline", &again, &host, &rows, "");
    assert_true(term(&first, "second") < term(&read, "second"));
    host.l1_bytes = host.l2_bytes = 4096;
    Score out = score(cx, "roofline", &again, &host, &rows, "");
    assert_true(term(&out, "cache") > term(&read, "cache"));
    /* streaming past memory that no cache has saves reading it; past a cache that has it, it costs memory's rate */
    Demand packs = demand(2, 1, false);
    packs.host.stream = packs.row.global_write;
    Launch stream = spills;
    stream.stream = true;
    assert_true(score(cx, "roofline", &packs, &host, &stream, "").total <
                score(cx, "roofline", &packs, &host, &spills, "").total);
    stream = rows, stream.stream = true;
    assert_true(score(cx, "roofline", &packs, &host, &stream, "").total >
                score(cx, "roofline", &packs, &host, &rows, "").total);
    /* rows that do not end with a register start where a store may stream by chance, one of 8; shifted ones are
     * streamed but for a line */
    Demand odd = packs;
    odd.host.stream += 4, odd.row.global_write += 4;
    Launch chance = spills, shifted = spills;
    chance.stream = shifted.stream = shifted.shifted = true;
    Score plain = score(cx, "roofline", &odd, &host, &spills, ""),
          some = score(cx, "roofline", &odd, &host, &chance, ""),
          most = score(cx, "roofline", &odd, &host, &shifted, "");
    const double saves = term(&plain, "memory") - term(&most, "memory");
    assert_true(saves > 0 && fabs((term(&plain, "memory") - term(&some, "memory")) / saves - 1. / 8) < 0.005);
    /* each kind of a core's work makes it longer, and so does what it waits for where rows are long */
    Demand one = again;
    one.host = (HostWork){.work = 2000, .access = 1000, .sweeps = 2};
    const double before = score(cx, "roofline", &one, &host, &rows, "").total;
    for (size_t i = 0; i < offsetof(HostWork, stream) / sizeof(double); i++) {
        Demand more = one;
        if (i == offsetof(HostWork, sweeps) / sizeof(double)) continue;
        ((double *)&more.host)[i] += 1e5;
        assert_true(score(cx, "roofline", &more, &host, &rows, "").total > before);
    }
    /* parts of a line are worse */
    packs.host.stream += 8;
    double whole = score(cx, "roofline", &packs, &host, &stream, "partial=0").total;
    assert_true(score(cx, "roofline", &packs, &host, &stream, "").total > whole);
    arena_free(cx->a);
}

/* Registers, known or estimated, are places of groups; launches that overlap crowd them. */
static void roofline_knows_places_of_gpus(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Caps c = machine("h200");
    Demand d = demand(2, 1, false);
    Launch l = LAUNCH(4096, 256, 32, 1);
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &l, "")}[0], "waves") ==
                4096 / 132.0 / 8); /* 31.03 groups, 8 places */
    l.registers = 128;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &l, "")}[0], "waves") == 4096 / 132.0 / 2); /* 2 places */
    l.registers = 121; /* which come in eights */
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &l, "")}[0], "waves") == 4096 / 132.0 / 2);
    l.registers = 0, d.stripe_slots = 120;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &l, "")}[0], "waves") == 4096 / 132.0 / 2);
    d.stripe_slots = 0, d.shared_bytes = 28000; /* 8 of them fit, but not with what each group has beside them */
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &l, "")}[0], "waves") == 4096 / 132.0 / 8);
    d.shared_bytes = 28500;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &l, "")}[0], "waves") == 4096 / 132.0 / 7);
    d.shared_bytes = 200000;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &l, "")}[0], "waves") == 4096 / 132.0); /* one */
    d.shared_bytes = 0, l.rows = 128;
    Launch early = l;
    early.overlap = early.queued = true;
    assert_true(score(cx, "roofline", &d, &c, &early, "").total < score(cx, "roofline", &d, &c, &l, "").total);
    d.lane_ops[COST_ALU] = 1e6; /* long launches wait for each other in each other's places */
    assert_true(score(cx, "roofline", &d, &c, &early, "").total > score(cx, "roofline", &d, &c, &l, "").total);
    /* late ones do not crowd, and where rows are brought meanwhile the next is there sooner */
    Launch late = early, brought;
    late.queued = false, brought = late, brought.brought = true;
    double t_late = score(cx, "roofline", &d, &c, &late, "").total;
    assert_true(t_late < score(cx, "roofline", &d, &c, &early, "").total);
    assert_true(score(cx, "roofline", &d, &c, &brought, "").total < t_late);
    /* where a part of the next launch fits beside this one, it is cramped: 4 or 5 groups a unit, and room for 8 */
    Launch cramped = late;
    cramped.rows = 5 * 132;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &cramped, "")}[0], "cramped") > 0);
    cramped.rows = 4 * 132;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &cramped, "")}[0], "cramped") == 0);
    cramped.rows = 8 * 132;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &cramped, "")}[0], "cramped") == 0);
    /* nor does a part of the next launch crowd it: room for 5 groups of a unit beside 4 of them, or for 8 */
    cramped = early, cramped.rows = 5 * 132;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &cramped, "")}[0], "crowd") == 1);
    cramped.rows = 4 * 132;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &cramped, "")}[0], "crowd") > 1);
    /* launches of as many groups as units can have leave no place where the next could wait */
    Launch fills = LAUNCH(4096, 64, 32, 1);
    fills.overlap = fills.queued = true;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &fills, "")}[0], "refill") > 0);
    Launch other = fills;
    other.queued = false;
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &other, "")}[0], "refill") == 0);
    other = fills, other.rows = 2112; /* room for two */
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &other, "")}[0], "refill") == 0);
    other = fills, other.rows = 4225; /* not for one */
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &other, "")}[0], "refill") == 0);
    other = fills, other.lanes = 128, other.rows = 2048; /* places for 16 groups of a unit */
    assert_true(term(&(Score[]){score(cx, "roofline", &d, &c, &other, "")}[0], "refill") == 0);
    /* groups that leave schedulers idle crowd less */
    Launch small = early;
    small.lanes = 32;
    const double wide = term(&(Score[]){score(cx, "roofline", &d, &c, &early, "")}[0], "crowd");
    const double narrow = term(&(Score[]){score(cx, "roofline", &d, &c, &small, "")}[0], "crowd");
    assert_true(narrow > 1 && narrow < wide);
    Launch shared = early; /* those whose rows several groups share crowd too, and meet sooner by bytes than at a
                              barrier, and latest in device memory */
    shared.groups_per_row = 2;
    Launch spread = shared; /* as many groups, of clusters of more, which lie on more units */
    spread.groups_per_row = 16, spread.rows = 16;
    const double close = term(&(Score[]){score(cx, "roofline", &d, &c, &shared, "")}[0], "crowd");
    const double apart = term(&(Score[]){score(cx, "roofline", &d, &c, &spread, "")}[0], "crowd");
    assert_true(apart > 1 && apart < close);
    d.barriers = 1;
    Launch bytes = shared, split = shared;
    bytes.bytes = true, split.split = true;
    const double at_barrier = score(cx, "roofline", &d, &c, &shared, "").total;
    assert_true(score(cx, "roofline", &d, &c, &bytes, "").total < at_barrier);
    assert_true(score(cx, "roofline", &d, &c, &split, "").total > at_barrier);
    /* what is streamed leaves the last cache first, so that it has the inputs when they come again */
    Launch plain = LAUNCH(3000, 256, 32, 1), stream = plain;
    stream.stream = true;
    Demand half = demand(2, 1, true);
    half.row = (Bytes){.global_read = 8192, .global_write = 8192}, half.first_read = 8192;
    Score a = score(cx, "roofline", &half, &c, &plain, ""), b = score(cx, "roofline", &half, &c, &stream, "");
    assert_true(term(&a, "memory") > term(&b, "memory") && term(&b, "memory") > 0);
    /* the more registers, the more packs are on their way */
    Demand packs = demand(2, 1, false);
    packs.lane_waits = 1, packs.lane_ops[COST_MEMORY] = 32, packs.lane.global_read = 32 * 4;
    Launch few = LAUNCH(128, 64, 32, 1), many = few;
    few.pack = many.pack = 4, few.flight = many.flight = 2, few.registers = 24, many.registers = 40;
    a = score(cx, "roofline", &packs, &c, &few, ""), b = score(cx, "roofline", &packs, &c, &many, "");
    assert_true(term(&a, "path") > term(&b, "path"));
    Demand short2 = packs; /* and narrower ones take fewer registers */
    packs.lane.global_read = 32 * 4, packs.lane.global_write = 0;
    short2.lane.global_read = 32 * 2, short2.lane.global_write = 0;
    a = score(cx, "roofline", &packs, &c, &few, ""), b = score(cx, "roofline", &short2, &c, &few, "");
    assert_true(term(&a, "path") > term(&b, "path"));
    Launch single = many; /* but not more than a compiler writes out */
    single.flight = 1;
    a = score(cx, "roofline", &packs, &c, &many, ""), b = score(cx, "roofline", &packs, &c, &single, "");
    assert_true(term(&a, "path") < term(&b, "path"));
    packs.gpu.turns = 32; /* or loops that it leaves alone */
    b = score(cx, "roofline", &packs, &c, &many, "");
    assert_true(term(&a, "path") < term(&b, "path"));
    packs.gpu.turns = 0;
    few.registers = 64, many.registers = 128; /* nor than there are */
    a = score(cx, "roofline", &packs, &c, &few, ""), b = score(cx, "roofline", &packs, &c, &many, "");
    assert_true(term(&a, "path") == term(&b, "path"));
    few.copies = many.copies = 100; /* what is not in the cache is further away, unless it is brought there before */
    Score far = score(cx, "roofline", &packs, &c, &few, "");
    assert_true(term(&far, "path") > term(&a, "path"));
    few.brought = true;
    far = score(cx, "roofline", &packs, &c, &few, "");
    assert_true(term(&far, "path") == term(&a, "path"));
    few.copies = 0, few.brought = false;
    packs.lane_whole = 32; /* whole numbers come from where special functions do */
    b = score(cx, "roofline", &packs, &c, &few, "");
    assert_true(term(&b, "special") > term(&a, "special") && term(&b, "path") > term(&a, "path"));
    /* rows of 4 lanes lie apart: 8 lines for one access of a subgroup, where 4 would do */
    Demand m = demand(2, 1, false);
    m.lane = (Bytes){.global_read = 4000}, m.lane_ops[COST_MEMORY] = 1000;
    m.gpu = (GpuWork){.accesses = 250, .lines = 250};
    Launch whole = LAUNCH(4096, 32, 32, 1), parts = LAUNCH(4096 * 8, 4, 32, 8);
    whole.pack = parts.pack = 4;
    Score one = score(cx, "roofline", &m, &c, &whole, ""), eight = score(cx, "roofline", &m, &c, &parts, "");
    assert_true(fabs(term(&eight, "arithmetic") / term(&one, "arithmetic") - 2) < 1e-9);
    /* a pack in four pieces is four accesses, each of as many lines; elements side by side are four of fewer; and what
     * is written in pieces passes the cache more than once */
    Demand pieces = m, single_elements = m;
    pieces.gpu = (GpuWork){.accesses = 1000, .lines = 1000, .torn = 12000};
    single_elements.gpu = (GpuWork){.accesses = 1000, .lines = 250};
    const Score torn = score(cx, "roofline", &pieces, &c, &whole, ""),
                side = score(cx, "roofline", &single_elements, &c, &whole, "");
    assert_true(fabs(term(&torn, "arithmetic") / term(&one, "arithmetic") - 4) < 1e-9);
    assert_true(term(&side, "arithmetic") > term(&one, "arithmetic"));
    assert_true(term(&side, "arithmetic") < 2 * term(&one, "arithmetic"));
    assert_true(term(&torn, "cache") > term(&one, "cache") && term(&side, "cache") == term(&one, "cache"));
    arena_free(cx->a);
}

static void calls_that_are_off(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Caps c = machine("m1max");
    Demand d = demand(2, 1, false), unknown = {0};
    Launch l = LAUNCH(64, 512, 32, 1);
    const CostPolicy *p;
    Score s;
    double k[MAX_COEFS];
    assert_int_equal(cost_find(cx, "best", &p), ERR_ARGUMENT);
    assert_int_equal(cx->last->slug, S_COST_POLICY);
    assert_string_equal(cx->last->accept, "prior service roofline random");
    assert_null(p);
    static const char *const bad[] = {"x=1",       "round",    "round=", "round=1x",  "round=nan",
                                      "round=inf", "round=-1", "=1",     "round=1,,", "round=1 "};
    for (int i = 0; i < COUNT(bad); i++) {
        assert_int_equal(cost_coefs(cx, policy(cx, "prior"), &c, bad[i], k), ERR_ARGUMENT);
        assert_int_equal(cx->last->slug, S_COST_COEFFICIENT);
    }
    assert_int_equal(cost_coefs(cx, policy(cx, "prior"), &c, NULL, k), OK);
    k[0] = NAN;
    assert_int_equal(cost_score(cx, policy(cx, "prior"), &d, &c, &l, k, &s), ERR_ARGUMENT);
    k[0] = -1;
    assert_int_equal(cost_score(cx, policy(cx, "prior"), &d, &c, &l, k, &s), ERR_ARGUMENT);
    assert_int_equal(cx->last->slug, S_COST_COEFFICIENT);
    const Launch off[] = {LAUNCH(-1, 512, 32, 1), LAUNCH(1, 0, 32, 1), LAUNCH(1, 512, 0, 1), LAUNCH(1, 512, 32, 0)};
    for (int i = 0; i < COUNT(off); i++) {
        assert_int_equal(cost_score(cx, policy(cx, "prior"), &d, &c, &off[i], NULL, &s), ERR_ARGUMENT);
        assert_int_equal(cx->last->slug, S_ARG);
    }
    /* what could not be counted is never priced as nothing */
    assert_int_equal(cost_score(cx, policy(cx, "prior"), &unknown, &c, &l, NULL, &s), OK);
    assert_int_equal(cost_score(cx, policy(cx, "random"), &unknown, &c, &l, NULL, &s), OK);
    assert_int_equal(cost_coefs(cx, policy(cx, "prior"), &c, "global-byte=1", k), OK);
    assert_int_equal(cost_score(cx, policy(cx, "prior"), &unknown, &c, &l, k, &s), ERR_REFUSED);
    assert_int_equal(cx->last->slug, S_COST_UNKNOWN);
    static const char *const need[] = {"service", "roofline"};
    for (int i = 0; i < COUNT(need); i++) {
        cx->last = cx->first = NULL;
        assert_int_equal(cost_score(cx, policy(cx, need[i]), &unknown, &c, &l, NULL, &s), ERR_REFUSED);
        assert_int_equal(cx->last->slug, S_COST_UNKNOWN);
    }
    arena_free(cx->a);
}

/* ---- hostile policies ---- */

static const Coef how[] = {{"how", "", 0, 0, 0}};
static Err hostile(Cx *cx, const Demand *d, const Caps *caps, const Launch *l, const double *k, Score *out) {
    (void)cx;
    memset((void *)(uintptr_t)d, 0xFF, sizeof *d); /* a policy that writes what it was lent */
    memset((void *)(uintptr_t)caps, 0xFF, sizeof *caps);
    memset((void *)(uintptr_t)l, 0xFF, sizeof *l);
    static const double answer[] = {NAN, INFINITY, -INFINITY, -1, -1e308};
    int i = (int)k[0];
    if (i < COUNT(answer))
        out->total = answer[i];
    else if (i == COUNT(answer))
        out->nterms = 1000;
    else if (i == COUNT(answer) + 1)
        out->nterms = -1;
    else if (i == COUNT(answer) + 2)
        for (int t = 0; t < 100; t++) score_add(out, "t", "", NAN);
    else
        out->total = 1.7e308; /* huge, but a number */
    return OK;
}
static const CostPolicy hostile_policy = {"hostile", "", false, hostile, how, COUNT(how)};

static void a_hostile_policy_only_ranks(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Caps c = machine("m1max"), c0 = c;
    Demand d = demand(2, 1, false), d0 = d;
    Launch l = LAUNCH(64, 512, 32, 1), l0 = l;
    for (int i = 0; i < 9; i++) {
        double k[] = {i};
        Score s;
        Err e = cost_score(cx, &hostile_policy, &d, &c, &l, k, &s);
        if (i < 8) {
            assert_int_equal(e, ERR_REFUSED);
            assert_int_equal(cx->last->slug, S_COST_INVALID);
            assert_true(s.total == 0 && s.nterms == 0);
        } else {
            assert_int_equal(e, OK);
            assert_true(s.total == 1.7e308);
        }
        assert_memory_equal(&d, &d0, sizeof d);
        assert_memory_equal(&l, &l0, sizeof l);
        assert_true(caps_equal(&c, &c0));
    }
    static const Coef many[MAX_COEFS + 1] = {{"x", "", 0, 0, 0}};
    CostPolicy wide = hostile_policy;
    wide.coef = many, wide.ncoefs = COUNT(many);
    Score s;
    assert_int_equal(cost_score(cx, &wide, &d, &c, &l, NULL, &s), ERR_ARGUMENT);
    double k[MAX_COEFS];
    assert_int_equal(cost_coefs(cx, &wide, &c, "", k), ERR_ARGUMENT);
    arena_free(cx->a);
}

static void random_is_the_same_everywhere(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Caps c = machine("m1max"), other = machine("avx2");
    Launch l = LAUNCH(64, 512, 32, 1), wide = LAUNCH(64, 1024, 32, 1);
    double seen[200];
    for (int i = 0; i < 200; i++) {
        Demand d = {0};
        memset(&d, i & 1 ? 0xAA : 0, sizeof d); /* padding has no say */
        Demand plain = demand(i, 1, false);
        d.known = plain.known, d.reductions = plain.reductions;
        memcpy(&d.lane, &plain.lane, offsetof(Demand, reductions) - offsetof(Demand, lane));
        Score s = score(cx, "random", &d, &c, &l, "");
        assert_true(s.total >= 0 && s.total < 1);
        assert_true(s.total == score(cx, "random", &plain, &other, &l, "").total);
        assert_true(s.total != score(cx, "random", &plain, &c, &wide, "").total);
        assert_true(s.total != score(cx, "random", &plain, &c, &l, "seed=1").total);
        for (int k = 0; k < i; k++) assert_true(seen[k] != s.total);
        seen[i] = s.total;
    }
    arena_free(cx->a);
}

static void scores_as_text(void **state) {
    (void)state;
    Cx *cx = open_cx();
    Score s = {.total = 0.1};
    score_add(&s, "a \"b\"", "s", 1.5);
    score_add(&s, "c", "", NAN);
    Buf json = buf_new(cx->a), text = buf_new(cx->a);
    score_json(&s, &json);
    score_print(&s, &text);
    assert_string_equal(json.s, "{\"total\":0.1,\"terms\":[{\"name\":\"a \\\"b\\\"\",\"unit\":\"s\",\"value\":1.5},"
                                "{\"name\":\"c\",\"unit\":\"\",\"value\":null}]}");
    assert_string_equal(text.s, "0.1 = a \"b\" 1.5 s, c nan");
    const CostPolicy *const *all;
    int n = cost_policies(&all);
    assert_int_equal(n, 4);
    for (int i = 0; i < n; i++) {
        assert_true(policy(cx, all[i]->name) == all[i]);
        assert_true(strlen(all[i]->doc) > 0);
    }
    arena_free(cx->a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prior_gives_the_published_scores),
        cmocka_unit_test(service_is_its_formula),
        cmocka_unit_test(roofline_is_seconds),
        cmocka_unit_test(roofline_knows_caches_of_hosts),
        cmocka_unit_test(roofline_knows_places_of_gpus),
        cmocka_unit_test(calls_that_are_off),
        cmocka_unit_test(a_hostile_policy_only_ranks),
        cmocka_unit_test(random_is_the_same_everywhere),
        cmocka_unit_test(scores_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
