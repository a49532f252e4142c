/* Random programs times random legal plans: the interpreter is within the definition's bound, and the CPU has the
 * interpreter's bits. A failing program is shrunk, then told with the one line that makes it again.
 *
 *     diff_random [--pairs N] [--seed S] [--isa avx512|avx2|portable] [--cc PROGRAM] [--seconds T] [--text BYTES]
 *
 * Runs seeds S .. S+N-1, or as many of them as T seconds allow; without --isa each of the machine's in turn. TAP on
 * stdout. With --text, pairs whose text is longer are left out: half of them take compilers nine tenths of the time. */
#include "match.h"

#include "../../src/base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 48, SHRINK_TRIES = 120, MAX_BAD = 3, SHARES = 6, SHORT_TEXT = 12000 };

typedef struct Desk {
    Compiler cc;
    Isa isa[ISA_COUNT];
    int nisas;
    size_t most_text; /* of a pair that is run */
    int64_t pairs, bad, legal_first, held;
    int64_t worst[FILL_COUNT]
                 [SHARES + 1]; /* pairs by their inputs and their largest error; the last: no error at all */
} Desk;

static const double shares[] = {0.001, 0.01, 0.1, 0.25, 0.5, 1};
_Static_assert(COUNT(shares) == SHARES, "a column each");

/* How tight the bounds are: each pair's largest error as a share of its bound. */
static void show_worst(const Desk *d) {
    printf("# pairs by their largest error as a share of its bound\n#   %-8s %8s", "inputs", "none");
    for (int i = 0; i < SHARES; i++) printf("  <=%6.3f", shares[i]);
    printf("\n");
    for (int f = 0; f < FILL_COUNT; f++) {
        printf("#   %-8s %8lld", fill_text((Fill)f), (long long)d->worst[f][SHARES]);
        for (int i = 0; i < SHARES; i++) printf("  %8lld", (long long)d->worst[f][i]);
        printf("\n");
    }
}

static void count_worst(Desk *d, const Match *p) {
    int i = 0;
    while (i < SHARES - 1 && p->worst > shares[i]) i++;
    d->worst[p->fill][p->worst > 0 ? i : SHARES]++;
}

/* The caps a seed is for: hosts only where the CPU is to run it too. */
static Caps caps_of(const Desk *d, uint64_t seed) {
    Caps c = {0};
    caps_preset(isa_text(d->isa[seed / BATCH % (uint64_t)d->nisas]), &c); /* all of a batch alike */
    return c;
}

/* gcc 12 -O0 ends in an internal error on 16 f64 at once. */
static void run_alone(const Desk *d, Match *p, const char *less) {
    Batch b;
    const Unit *u = &p->unit;
    if (batch_build(&b, &d->cc, p->caps.isa, less, &u, 1) || batch_build(&b, &d->cc, p->caps.isa, "-O1", &u, 1))
        match_compare(p, batch_fn(&b, u));
    else
        p->ok = false, p->why = arena_printf(p->cx.a, "does not compile: %s", b.why);
    batch_free(&b);
}

/* Everything about one pair. */
static bool one(const Desk *d, Match *p, const uint8_t *bytes, size_t n, uint64_t seed, const Caps *caps,
                const char *plan) {
    if (!match_make(p, "k", bytes, n, seed, caps, plan) || !match_interpret(p)) return false;
    if (caps->kind != KIND_HOST) return true;
    run_alone(d, p, "-O1");
    return p->ok;
}

typedef struct Case {
    const Desk *d;
    uint64_t seed;
    Caps caps;
    const char *plan; /* that failed; holds of values that a smaller program lacks make it illegal there */
    char head[48];    /* how it failed: a smaller program must fail alike */
} Case;

static void head_of(const char *why, char head[48]) {
    snprintf(head, 48, "%.24s", why);
}

static bool fails(void *user, const uint8_t *bytes, size_t n) {
    Case *c = user;
    Match p;
    char head[48];
    const bool ok = one(c->d, &p, bytes, n, c->seed, &c->caps, c->plan);
    head_of(p.why ? p.why : "", head);
    match_free(&p);
    return !ok && str_eq(head, c->head);
}

static void report(Desk *d, const char *self, Match *p) {
    uint8_t bytes[RANDPROG_BYTES];
    const size_t n = randprog_bytes(p->seed, bytes);
    Buf plan = buf_new(p->cx.a), text = buf_new(p->cx.a);
    plan_print(&p->plan, &plan);
    Case c = {.d = d, .seed = p->seed, .caps = p->caps, .plan = plan.s};
    head_of(p->why, c.head);
    printf("# seed %llu: %s\n", (unsigned long long)p->seed, p->why);
    printf("# again: %s --pairs 1 --seed %llu --isa %s\n", self, (unsigned long long)p->seed, p->caps.name);
    const size_t left = randprog_shrink(bytes, n, SHRINK_TRIES, fails, &c);
    Match small;
    one(d, &small, bytes, left, p->seed, &p->caps, c.plan);
    prog_print(small.prog, &text);
    printf("# on %s, inputs %s, with %s\n", p->caps.name, fill_text(p->fill), plan.s);
    for (char *w = strtok(text.s, "\n"); w; w = strtok(NULL, "\n")) printf("#   %s\n", w);
    printf("#   extents");
    for (int i = 0; i < small.prog->naxes; i++)
        printf(" %s=%lld", small.prog->axis[i].name, (long long)small.shape.n[i]);
    printf("\n#   %s\n", small.why ? small.why : "(the shrunk program passes)");
    match_free(&small);
    d->bad++;
}

static void run_batch(Desk *d, const char *self, uint64_t seed, int n) {
    static Match match[BATCH];
    const Unit *u[2][BATCH];
    int nu[2] = {0};
    Batch b[2] = {{0}};
    static const char *const less[2] = {"-O0", "-O1"};
    bool built[2], left_out[BATCH] = {false};
    const Caps caps = caps_of(d, seed);
    for (int i = 0; i < n; i++) {
        uint8_t bytes[RANDPROG_BYTES];
        char name[32];
        const size_t len = randprog_bytes(seed + (uint64_t)i, bytes);
        snprintf(name, sizeof name, "k%d", i);
        const bool made = match_make(&match[i], name, bytes, len, seed + (uint64_t)i, &caps, NULL);
        left_out[i] = made && match[i].unit.bytes > d->most_text;
        if (made && !left_out[i]) match_interpret(&match[i]);
        d->legal_first += match[i].draws == 1;
        d->held += match[i].kern && match[i].kern->nstripes > 0;
    }
    /* Any level must give the same bits: mostly the quickest, in one batch of sixteen the product's own for the
     * units that it does not take seconds for. */
    const bool own = seed / BATCH % 16 == 0;
    for (int i = 0; i < n; i++) {
        const int level = own && match[i].unit.bytes <= SHORT_TEXT;
        if (match[i].unit.text && !left_out[i]) u[level][nu[level]++] = &match[i].unit;
    }
    for (int level = 0; level < 2; level++)
        built[level] = !nu[level] || batch_build(&b[level], &d->cc, caps.isa, less[level], u[level], nu[level]);
    for (int i = 0; i < n; i++) {
        Match *p = &match[i];
        if (left_out[i]) continue;
        const int level = own && p->unit.bytes <= SHORT_TEXT;
        if (built[level] && p->ok) match_compare(p, batch_fn(&b[level], &p->unit));
        if (!built[level] && p->ok) run_alone(d, p, less[level]); /* whose fault it was */
        if (!p->ok && d->bad < MAX_BAD) report(d, self, p);
        d->pairs++;
        if (p->ok) count_worst(d, p);
    }
    batch_free(&b[0]);
    batch_free(&b[1]);
    for (int i = 0; i < n; i++) match_free(&match[i]);
}

int main(int argc, char **argv) {
    static Desk d = {.most_text = SIZE_MAX};
    long long pairs = 240, seconds = 0;
    unsigned long long seed = 1;
    const char *cc = NULL, *isa = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (str_eq(argv[i], "--pairs")) pairs = atoll(argv[i + 1]);
        if (str_eq(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
        if (str_eq(argv[i], "--seconds")) seconds = atoll(argv[i + 1]);
        if (str_eq(argv[i], "--text")) d.most_text = (size_t)atoll(argv[i + 1]);
        if (str_eq(argv[i], "--isa")) isa = argv[i + 1];
        if (str_eq(argv[i], "--cc")) cc = argv[i + 1];
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("# %s --pairs %lld --seed %llu\n", argv[0], pairs, seed);
    for (int i = 0; i < ISA_COUNT; i++)
        if (cpu_has((Isa)i) && (!isa || str_eq(isa, isa_text((Isa)i)))) d.isa[d.nisas++] = (Isa)i;
    cc_probe(&alloc_libc, cc, &d.cc);
    if (!d.cc.family || !d.nisas) {
        printf("Bail out! %s\n", d.cc.family ? "no such instruction set here" : d.cc.why);
        return 1;
    }
    const int64_t until = seconds ? os_now_ns() + seconds * 1000000000 : INT64_MAX;
    for (long long at = 0; at < pairs && d.bad < MAX_BAD && os_now_ns() < until; at += BATCH)
        run_batch(&d, argv[0], seed + (unsigned long long)at, (int)i64_min(BATCH, pairs - at));
    printf("# %lld pairs with %s, %lld plans legal at the first draw, %lld keep values\n", (long long)d.pairs,
           d.cc.version, (long long)d.legal_first, (long long)d.held);
    show_worst(&d);
    printf("%s 1 - %lld random program-plan pairs from seed %llu: definition, interpreter and CPU agree\n1..1\n",
           d.bad ? "not ok" : "ok", (long long)d.pairs, seed);
    return d.bad != 0;
}
