/* Who is tried by which strategy, combinations that are planned for themselves, units that are built ahead, and what
 * the finals make of noise. */
#include "searchdesk.h"

#include "../../src/drive/drive.h"
#include "../../src/rt/local.h"

#include <math.h>

/* A device whose times are a function of the plan's text, so that what a strategy chooses can be foretold. */
typedef struct Planted {
    Device d;
    double (*ns)(const char *text, int call);
    int builds, calls, most_at_once;
    _Atomic int at_once;
} Planted;
typedef struct PlantedModule {
    Module m;
    Module *inner;
    char text[1 << 9]; /* the head of the unit, which has the plan */
} PlantedModule;

static Err p_build(Cx *cx, Device *d, const Unit *u, Module **out) {
    Planted *p = (Planted *)d;
    PlantedModule *m = rt_get(d->rt, sizeof *m);
    Err err = mod_build(cx, rt_device(d->rt, 0), u, &m->inner);
    if (err) {
        rt_put(d->rt, m);
        return err;
    }
    snprintf(m->text, sizeof m->text, "%s%s", u->fresh ? "fresh " : "", u->text);
    m->m.facts = *mod_facts(m->inner);
    __atomic_add_fetch(&p->builds, 1, __ATOMIC_SEQ_CST);
    return *out = &m->m, OK;
}
static void p_unload(Module *m) {
    mod_free(((PlantedModule *)m)->inner);
    rt_put(m->dev->rt, m);
}
static Err p_get(Cx *cx, Device *d, size_t n, Mem **out) {
    (void)d;
    return plain_get(cx, d, n, out);
}
static Err p_launch(Cx *cx, Module *m, const Slot *s, int64_t rows, int threads) {
    return mod_launch(cx, ((PlantedModule *)m)->inner, s, rows, threads);
}
static Err p_sync(Cx *cx, Device *d) {
    (void)cx, (void)d;
    return OK;
}
static Err p_time(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                  int64_t *ns) {
    Planted *p = (Planted *)m->dev;
    (void)cx, (void)sets, (void)nsets, (void)rows, (void)threads;
    *ns = (int64_t)(p->ns(((PlantedModule *)m)->text, p->calls++) * calls);
    return OK;
}
static void p_close(Device *d) {
    rt_put(d->rt, d);
}
static const RtOps planted_ops = {.name = "planted",
                                  .close = p_close,
                                  .build = p_build,
                                  .unload = p_unload,
                                  .get = p_get,
                                  .put = plain_put,
                                  .write = plain_write,
                                  .read = plain_read,
                                  .launch = p_launch,
                                  .sync = p_sync,
                                  .time = p_time};

static Planted *plant(Desk *d, double (*ns)(const char *text, int call)) {
    Planted *p = rt_get(d->rt, sizeof *p);
    p->ns = ns;
    p->d.ops = &planted_ops, p->d.caps = *dev_caps(rt_device(d->rt, 0));
    snprintf(p->d.name, sizeof p->d.name, "planted");
    assert_int_equal(rt_add(&d->cx, d->rt, &p->d), OK);
    d->dev = &p->d;
    return p;
}

static double of_text(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtod(at + strlen(name), NULL) : 0;
}

/* Best at W=128 and V=2, worse with every step away. */
static double valley(const char *text, int call) {
    (void)call;
    const double ns = 1e6;
    return ns + 1e5 * fabs(log2(of_text(text, " W=") / 128)) + 1e5 * fabs(log2(of_text(text, " V=") / 2));
}

static const char wide[] = "W=16/32/64/128/256,V=1/2/4";

static Search *ready(Desk *d, const char *strategy) {
    Search *s = prepare(d, EFFORT_MEASURE);
    char *p = strstr(s->pin, " V=1"); /* all but W and V as in the default plan */
    assert_non_null(p);
    s->pin = p + strlen(" V=1");
    s->open = wide, s->strategy = strategy;
    return s;
}

static int tried(const Search *s) {
    int n = 0;
    for (int64_t i = 0; i < s->ntrials; i++) n += s->trial[i].fate == FATE_TIMED || s->trial[i].fate == FATE_FAILED;
    return n;
}

static void strategies(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    plant(&d, valley);
    Search *s = ready(&d, "exhaustive");
    search(&d);
    const int64_t legal = s->ntrials - s->nrefused;
    assert_int_equal(s->ntrials, 15);
    assert_true(legal > 8);
    assert_int_equal(tried(s), legal);
    assert_int_equal(s->trial[s->best].plan.W, 128);
    /* staged: the best few of the ranking, and each value of each dimension once */
    s = ready(&d, NULL);
    s->max_candidates = 9;
    search(&d);
    assert_string_equal(s->strategy, "staged");
    assert_int_equal(tried(s), 9);
    bool width[5] = {0}, pack[3] = {0};
    for (int64_t i = 0; i < s->ntrials; i++) {
        const Trial *t = &s->trial[i];
        if (t->fate != FATE_TIMED) assert_true(t->place == 0 || t->place > 4);
        if (t->fate != FATE_TIMED) continue;
        width[(int)log2(t->plan.W) - 4] = pack[(int)log2(t->plan.V)] = true;
    }
    assert_true(width[0] && width[1] && width[2] && width[3] && width[4] && pack[0] && pack[1] && pack[2]);
    /* then what their times say of the others: the bottom of the valley, wherever the policy has it */
    assert_int_equal(s->trial[s->best].plan.W, 128);
    assert_int_equal(s->trial[s->best].plan.V, 2);
    /* random: by the seed, and so the same again */
    char set[3][64] = {{0}};
    for (int run = 0; run < 3; run++) {
        s = ready(&d, "random");
        s->max_candidates = 5, s->seed = run < 2 ? 7 : 8;
        search(&d);
        assert_int_equal(tried(s), 5);
        for (int64_t i = 0; i < s->ntrials; i++) set[run][i] = s->trial[i].fate == FATE_TIMED ? 'x' : '.';
    }
    assert_string_equal(set[0], set[1]);
    assert_string_not_equal(set[0], set[2]);
    /* beam: walks down the valley, without all of it */
    s = ready(&d, "beam");
    s->max_candidates = (int)legal;
    search(&d);
    assert_int_equal(s->trial[s->best].plan.W, 128);
    close_desk(&d);
}

/* Two packs in flight are slow but with 256 lanes, where they are soonest of all: a pair that no sum of effects shows.
 */
static double odd_pair(const char *text, int call) {
    (void)call;
    const bool two = of_text(text, " flight=") > 1, pair = two && of_text(text, " W=") > 255;
    return 1e6 + 1e5 * fabs(log2(of_text(text, " V=") / 2)) + (pair ? -3e5 : two ? 3e5 : 0);
}

static void staged_tries_lanes_with_packs(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    plant(&d, odd_pair);
    Search *s = ready(&d, NULL);
    char *flight = strstr(strstr(pins(&d), " V=1"), " flight=1");
    assert_non_null(flight);
    s->pin = flight + strlen(" flight=1");
    s->open = "W=16/32/64/128/256,V=2,U=1/2,acc=1/2,flight=1/2";
    s->max_candidates = 28; /* of 40 */
    search(&d);
    assert_int_equal(tried(s), 28);
    assert_int_equal(s->trial[s->best].plan.W, 256);
    assert_int_equal(s->trial[s->best].plan.flight, 2);
    close_desk(&d);
}

/* One combination of homes is soonest of all, whatever else is slow about each of them. */
static const char *const home_x[] = {"hold.x=register", "hold.x=reload"}, *const home_e[] = {"hold.e=register",
                                                                                             "hold.e=recompute",
                                                                                             "hold.e=output"};
static int odd_x, odd_e;
static double odd_homes(const char *text, int call) {
    const bool x = strstr(text, home_x[odd_x]), e = strstr(text, home_e[odd_e]);
    (void)call;
    return x && e && strstr(text, "stat=two-pass") ? 5e5 : 1e6 * (x ? 3 : 1) * (e ? 3 : 1);
}

static void staged_tries_homes_together(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(home_x) * COUNT(home_e); i++) {
        odd_x = i % COUNT(home_x), odd_e = i / COUNT(home_x);
        Desk d;
        open_desk(&d);
        plant(&d, odd_homes);
        Search *s = ready(&d, NULL);
        char *pin = arena_printf(d.cx.a, "%s", pins(&d));
        *strstr(pin, " hold.") = 0;
        char *stat = strstr(pin, "stat=two-pass");
        memset(stat, ' ', strlen("stat=two-pass"));
        s->pin = pin;
        s->open = "stat=two-pass/online,W=16/32/64/128/256,hold.x=register/reload,hold.e=register/recompute/output";
        s->max_candidates = 20;                                       /* of 35 or more */
        assert_int_equal(cost_find(&d.cx, "random", &s->policy), OK); /* which has any of them first */
        search(&d);
        Buf plan = buf_new(d.cx.a);
        plan_print(&s->trial[s->best].plan, &plan);
        if (!strstr(plan.s, home_x[odd_x]) || !strstr(plan.s, home_e[odd_e]))
            fail_msg("%s and %s were passed over for %s", home_x[odd_x], home_e[odd_e], plan.s);
        close_desk(&d);
    }
}

static void a_beam_steps_to_neighbours(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    plant(&d, valley);
    Search *s = ready(&d, "beam");
    s->open = "W=16/32/64/96/128/160/192/224/256";
    s->pin = pins(&d);
    s->max_candidates = 6;
    search(&d);
    /* four of the ranking and two neighbours of theirs: every one that was tried stands beside another one */
    assert_int_equal(tried(s), 6);
    static const int W[] = {16, 32, 64, 96, 128, 160, 192, 224, 256};
    int beside = 0;
    for (int i = 0; i < COUNT(W); i++) {
        if (trial_of(s, W[i])->fate != FATE_TIMED) continue;
        beside += (i > 0 && trial_of(s, W[i - 1])->fate == FATE_TIMED) ||
                  (i + 1 < COUNT(W) && trial_of(s, W[i + 1])->fate == FATE_TIMED);
    }
    assert_true(beside >= 4);
    close_desk(&d);
}

static void strategies_that_do_not_go_together(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    for (int i = 0; i < 4; i++) {
        Search *s = ready(&d, i == 0 ? "clever" : i == 1 ? "beam" : i == 2 ? "random" : "exhaustive");
        if (i == 1) s->effort = EFFORT_EXHAUSTIVE;
        if (i == 2) s->joint = "W=16/32";
        if (i == 3) s->max_candidates = 14; /* one less than there are */
        d.cx.first = d.cx.last = NULL;
        assert_int_equal(search_run(&d.cx, s), slug_err(i < 3 ? S_SEARCH_STRATEGY : S_PLAN_SPACE));
        assert_string_equal(slug_text(d.cx.first->slug), i < 3 ? "search.strategy" : "plan.space_too_large");
        if (i == 3) assert_non_null(strstr(d.cx.first->msg, "points=15"));
    }
    close_desk(&d);
}

/* Every combination once, planned for itself; those that cannot be are there with their reason. */
static void combinations(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    Search *s = prepare(&d, EFFORT_MEASURE);
    s->pin = "tail=exact,acc=1,flight=1,prefetch=0,stagger=off,threads=0,store=plain", s->open = NULL;
    s->joint = "W=16/96/256,hold.*=reload/register";
    search(&d);
    int cells[3][4] = {{0}}, refused = 0;
    for (int64_t i = 0; i < s->ntrials; i++) {
        const Trial *t = &s->trial[i];
        const int w = t->plan.W == 16 ? 0 : t->plan.W == 96 ? 1 : 2;
        const int h = (plan_hold(&t->plan, "x") == HOLD_REGISTER) + 2 * (plan_hold(&t->plan, "e") == HOLD_REGISTER);
        if (t->fate == FATE_TIMED) cells[w][h]++;
        assert_true(t->fate != FATE_FAILED);
        if (t->fate == FATE_REFUSED) {
            refused += t->plan.W == 96 && str_eq(slug_text(t->slug), "plan.tail_not_exact");
            assert_true(t->why && *t->why);
        }
        /* what lanes keep of a computed value is named as such */
        assert_true(plan_hold(&t->plan, "e") == HOLD_RECOMPUTE || plan_hold(&t->plan, "e") == HOLD_REGISTER);
    }
    for (int h = 0; h < 4; h++) {
        assert_int_equal(cells[0][h], 1);
        assert_int_equal(cells[1][h], 0);
        assert_int_equal(cells[2][h], 1);
    }
    assert_true(refused > 0);
    s = prepare(&d, EFFORT_MEASURE);
    s->joint = "W=16/96/256", s->open = NULL, s->pin = NULL, s->max_candidates = 2;
    d.cx.first = d.cx.last = NULL;
    assert_int_equal(search_run(&d.cx, s), slug_err(S_PLAN_SPACE));
    assert_non_null(strstr(d.cx.first->msg, "combinations=3 limit=2"));
    close_desk(&d);
}

/* ---- ahead ---- */

static void nothing_is_built_twice(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    Planted *p = plant(&d, valley);
    for (int builders = 1; builders <= 3; builders++) {
        Search *s = ready(&d, "exhaustive");
        s->builders = builders;
        p->builds = 0;
        search(&d);
        assert_int_equal(p->builds, s->ntimed + (s->final.replays ? 2 : 0)); /* the finalists too, but for replays */
        assert_int_equal(s->final.finalists, 8);
    }
    close_desk(&d);
}

static void compilers_have_a_budget(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    rt_close(d.rt);
    RtOptions o = {.threads = 1, .isa = ISA_PORTABLE, .cache_dir = ""};
    assert_int_equal(rt_open(&d.cx, &o, &d.rt), OK);
    assert_int_equal(rt_find(&d.cx, d.rt, "host", &d.dev), OK);
    Search *s = ready(&d, "exhaustive");
    s->builders = 1, s->max_compile_seconds = 1e-9;
    search(&d);
    assert_int_equal(s->ntimed, 1); /* the first is over the budget, and no other is begun */
    assert_true(s->compile_ns > 0);
    close_desk(&d);
}

static void units_on_their_way(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    prepare(&d, EFFORT_MEASURE);
    Ahead *a = ahead_new(d.dev, 2);
    assert_non_null(a);
    Plan plan;
    Unit u, bad;
    char sha[65];
    Err err;
    Module *m = NULL;
    assert_int_equal(plan_read(&d.cx, d.s.pin, &plan), OK);
    assert_int_equal(attempt_emit(&d.cx, &d.pb, &plan, &u, sha), OK);
    ahead_add(a, &u, sha, false);
    ahead_add(a, &u, sha, false); /* known already */
    bad = u;
    bad.text = "this is no C", bad.bytes = strlen(bad.text);
    ahead_add(a, &bad, "bad", false);
    ahead_wait(&d.cx, a);
    assert_true(ahead_take(&d.cx, a, &u, sha, &err, &m));
    assert_int_equal(err, OK);
    mod_free(m);
    assert_false(ahead_take(&d.cx, a, &u, sha, &err, &m));
    assert_true(ahead_take(&d.cx, a, &bad, "bad", &err, &m));
    assert_int_equal(err, ERR_BUILD);
    assert_string_equal(slug_text(d.cx.last->slug), "build.failed");
    assert_null(m);
    ahead_add(a, &u, "mine", false);
    assert_false(ahead_take(&d.cx, a, &bad, "mine", &err, &m)); /* another text under that name */
    ahead_add(a, &u, sha, false);                               /* nobody takes it */
    ahead_free(a);
    assert_int_equal(ahead_batch(d.dev, 1), 1);
    assert_null(ahead_new(d.dev, 1));
    close_desk(&d);
}

/* Who would be next is who is next when nothing was learnt meanwhile, and guessing changes nothing. */
static void who_would_be_next(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    plant(&d, valley);
    static const char *const learning[] = {"staged", "beam"};
    for (int k = 0; k < COUNT(learning); k++) {
        Search *s = ready(&d, learning[k]);
        s->max_candidates = 11;
        search(&d);
        Trial *ranked[32] = {NULL}, *guess[4];
        int64_t n = 0;
        for (int64_t place = 1; place <= s->ntrials; place++)
            for (int64_t i = 0; i < s->ntrials; i++)
                if (s->trial[i].place == place) ranked[n++] = &s->trial[i];
        Picks p;
        assert_int_equal(picks_new(&d.cx, s, ranked, n, NULL, &p), OK);
        assert_int_equal(picks_guess(&d.cx, &p, guess, 4), 0); /* while there are some to hand out */
        while (p.at < p.n) (void)picks_next(&d.cx, &p, false);
        const int guesses = picks_guess(&d.cx, &p, guess, 4);
        assert_in_range(guesses, 1, 4);
        assert_null(picks_next(&d.cx, &p, false));
        for (int i = 0; i < guesses; i++) assert_ptr_equal(picks_next(&d.cx, &p, true), guess[i]);
    }
    close_desk(&d);
}

/* On a device, where guesses are built, a search tries the same and ends alike. */
static void guesses_change_nothing(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    Planted *p = plant(&d, valley);
    Fate fate[2][32] = {{0}};
    int64_t best[2];
    for (int device = 0; device < 2; device++) {
        Search *s = ready(&d, NULL);
        p->d.caps.kind = device ? KIND_CUDA : KIND_HOST; /* where compilers run while it measures */
        s->max_candidates = 12, s->builders = device ? 3 : 1;
        p->builds = 0;
        search(&d);
        best[device] = s->best;
        for (int64_t i = 0; i < s->ntrials; i++) fate[device][i] = s->trial[i].fate;
        const int needed = (int)s->ntimed + (s->final.replays ? 2 : 0);
        assert_in_range(p->builds, needed, needed + (device ? 4 * 2 : 0)); /* two rounds that were guessed wrong */
    }
    assert_int_equal(best[0], best[1]);
    assert_memory_equal(fate[0], fate[1], sizeof fate[0]);
    close_desk(&d);
}

/* Guesses that nobody takes make room. */
static void guesses_make_room(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    prepare(&d, EFFORT_MEASURE);
    Ahead *a = ahead_new(d.dev, 2);
    Plan plan;
    Unit u, bad;
    char sha[65], name[16];
    Err err;
    Module *m = NULL;
    assert_int_equal(plan_read(&d.cx, d.s.pin, &plan), OK);
    assert_int_equal(attempt_emit(&d.cx, &d.pb, &plan, &u, sha), OK);
    bad = u;
    bad.text = "this is no C", bad.bytes = strlen(bad.text);
    for (int guess = 1; guess >= 0; guess--) {
        for (int i = 0; i < AHEAD_MOST; i++) {
            snprintf(name, sizeof name, "%s%d", guess ? "guess" : "real", i);
            ahead_add(a, &bad, name, guess != 0);
        }
        ahead_wait(&d.cx, a);
        ahead_add(a, &u, sha, false);
        ahead_wait(&d.cx, a);
        assert_int_equal(ahead_take(&d.cx, a, &u, sha, &err, &m), guess);
        if (guess) mod_free(m);
    }
    assert_true(ahead_take(&d.cx, a, &bad, "real0", &err, &m)); /* who is no guess stays */
    ahead_free(a);
    close_desk(&d);
}

/* ---- finals ---- */

/* Some hundredths of noise; W=64 is faster by a half of one, or by a fifth. */
static double close_race(const char *text, int call) {
    return 1e6 * (1 + 0.02 * (call * 7 % 5)) * (of_text(text, " W=") == 64 ? 0.995 : 1);
}
static double clear_race(const char *text, int call) {
    return 1e6 * (1 + 0.02 * (call * 7 % 5)) * (of_text(text, " W=") == 64 ? 0.8 : 1);
}

/* What W=64 gains is gone when it is compiled anew, or is less than the noise of the turns there. */
static double lucky_race(const char *text, int call) {
    return strncmp(text, "fresh", 5) != 0 ? clear_race(text, call) : 1e6;
}
static double shaken_race(const char *text, int call) {
    const bool fresh = strncmp(text, "fresh", 5) == 0;
    return fresh ? 1e6 * (1 + 0.2 * (call * 7 % 5)) * (of_text(text, " W=") == 64 ? 0.97 : 1) : clear_race(text, call);
}

/* It is faster but in one turn of six, in which something else runs. */
static double disturbed_race(const char *text, int call) {
    return of_text(text, " W=") == 64 ? 1e6 * (call % 6 == 1 ? 4 : 0.8) : 1e6;
}

/* A change of what is used must hold in fresh turns. */
static void the_incumbent_is_guarded(void **state) {
    (void)state;
    unsetenv("ROWFOLD_SAMPLE_MS"); /* the clocks below count calls */
    static const struct {
        double (*race)(const char *text, int call);
        bool replayed, vetoed;
    } rows[] = {{close_race, false, false},
                {clear_race, true, false},
                {lucky_race, true, true},
                {shaken_race, true, true},
                {disturbed_race, true, false}};
    for (int i = 0; i < COUNT(rows); i++) {
        Desk d;
        open_desk_for(&d, ISA_PORTABLE);
        Planted *p = plant(&d, rows[i].race);
        Search *s = prepare(&d, EFFORT_MEASURE);
        s->builders = 1;
        search(&d);
        const Finals *f = &s->final;
        assert_int_equal(f->replays >= 6, rows[i].replayed);
        assert_int_equal(f->vetoed, rows[i].vetoed);
        assert_int_equal(s->best == f->incumbent, rows[i].vetoed || !rows[i].replayed);
        assert_true(!f->replays || f->vetoed == (f->replayed_least <= 0));
        assert_true(f->replayed_least <= f->replayed_gain);
        assert_int_equal(p->builds, s->ntimed + (rows[i].replayed ? 2 : 0)); /* both compiled anew */
        if (rows[i].replayed && !rows[i].vetoed) assert_true(f->replayed_least > 0.1);
        close_desk(&d);
    }
}

/* Plans of V=2 are the fastest, but meet a bad moment when they are first timed. */
static int met[1 << 12];
static double late_bloomer(const char *text, int call) {
    (void)call;
    const int W = (int)of_text(text, " W="), V = (int)of_text(text, " V=");
    if (V != 2) return 1e6 + W;
    return (met[W]++ < 8 ? 1.15e6 : 0.8e6) + W;
}

/* All plans of one kind are slower than eight others in their short times: one of them is a finalist still. */
static void finalists_differ(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    plant(&d, late_bloomer);
    memset(met, 0, sizeof met);
    Search *s = ready(&d, "exhaustive");
    s->builders = 1;
    search(&d);
    int others = 0;
    for (int64_t i = 0; i < s->ntrials; i++) others += s->trial[i].fate == FATE_TIMED && s->trial[i].plan.V != 2;
    assert_true(others > 8);
    assert_int_equal(s->final.finalists, 8);
    assert_int_equal(s->trial[s->best].plan.V, 2);
    assert_true(s->final.gain > 0.15);
    close_desk(&d);
}

/* Two rounds, of which the second is disturbed: what one of them says alone is no comparison. */
static int turns;
static bool stop_in_third(void *user, const Progress *r) {
    (void)user;
    return r->tried == r->total && ++turns > 6 + 1; /* once behind the last short time, then three a round */
}
static double one_of_two(const char *text, int call) {
    (void)call;
    const bool second = turns > 3;
    return of_text(text, " W=") == 64 ? (second ? 1.9e6 : 0.5e6) : second ? 2e6 : 1e6;
}

static void two_rounds_say_little(void **state) {
    (void)state;
    Desk d;
    open_desk_for(&d, ISA_PORTABLE);
    plant(&d, one_of_two);
    Search *s = prepare(&d, EFFORT_MEASURE);
    s->builders = 1, s->progress = stop_in_third, turns = 0;
    search(&d);
    assert_int_equal(s->final.rounds, 2);
    assert_true(s->final.tie && s->final.detectable > 0.3);
    assert_int_equal(s->best, s->final.incumbent);
    close_desk(&d);
}

static void a_tie_is_a_result(void **state) {
    (void)state;
    for (int clear = 0; clear < 2; clear++) {
        Desk d;
        open_desk_for(&d, ISA_PORTABLE);
        plant(&d, clear ? clear_race : close_race);
        Search *s = prepare(&d, EFFORT_MEASURE);
        s->builders = 1;
        search(&d);
        const Finals *f = &s->final;
        assert_int_equal(f->finalists, 3);
        assert_true(f->rounds >= 6 && f->rounds % 2 == 0);
        assert_true(f->detectable >= 0.01);
        if (s->trial[f->incumbent].plan.W == 64) fail_msg("the policy's first choice is the planted one");
        assert_int_equal(f->tie, !clear);
        if (clear)
            assert_int_equal(s->trial[s->best].plan.W, 64);
        else
            assert_int_equal(s->best, f->incumbent);
        if (clear) assert_true(f->gain > 0.15 && f->gain < 0.25);
        close_desk(&d);
    }
}

/* The clock stands still now and then: such samples are dropped and taken again. */
static double stutter(const char *text, int call) {
    (void)text;
    return call % 3 == 1 ? 0 : call % 7 == 2 ? -5 : 1e6;
}

static void samples_without_time(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    plant(&d, stutter);
    Search *s = prepare(&d, EFFORT_EXHAUSTIVE);
    s->max_candidates = 3;
    search(&d);
    for (int W = 16; W <= 64; W *= 2) {
        const Trial *t = trial_of(s, W);
        assert_true(t->times.n >= 3 && t->times.min > 0);
    }
    close_desk(&d);
}

/* Of a range, 64 lanes gain a tenth at the largest extent, and lose half of the time at its half, or nothing there. */
static int extent_slot;
static int64_t timed_extent, extents_timed[2];
static Err p_time_extent(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                         int64_t *ns) {
    timed_extent = sets[0][extent_slot].i;
    extents_timed[timed_extent != 256]++;
    return p_time(cx, m, sets, nsets, rows, threads, calls, ns);
}
static double whole_alone(const char *text, int call) {
    const bool by_64 = of_text(text, " W=") == 64;
    (void)call;
    return timed_extent == 256 ? (by_64 ? 0.9e6 : 1e6) : by_64 ? 1e6 : 0.5e6;
}
static double all_of_it(const char *text, int call) {
    return whole_alone(text, call) / (timed_extent == 256 || of_text(text, " W=") != 64 ? 1 : 2);
}

static void a_range_is_chosen_for_its_half_too(void **state) {
    (void)state;
    RtOps ops = planted_ops;
    ops.time = p_time_extent;
    for (int all = 0; all < 2; all++) {
        Desk d;
        open_desk_for(&d, ISA_PORTABLE);
        Shape shape = d.pb.shape;
        shape.least[prog_axis(d.pb.source, "n")] = 1;
        assert_int_equal(problem_make(&d.cx, d.pb.source, &shape, dev_caps(d.dev), 0, &d.pb), OK);
        Planted *p = plant(&d, all ? all_of_it : whole_alone);
        p->d.ops = &ops;
        Search *s = prepare(&d, EFFORT_MEASURE);
        s->builders = 1;
        extent_slot = d.bed.abi.scalar[prog_extent(d.pb.prog, &d.pb.shape)];
        extents_timed[0] = extents_timed[1] = 0;
        search(&d);
        const Finals *f = &s->final;
        if (s->trial[f->incumbent].plan.W == 64) fail_msg("the policy's first choice is the planted one");
        assert_int_equal(s->trial[s->best].plan.W == 64, all);
        if (all) assert_true(f->gain > 0.05 && f->gain < 0.1); /* 1 against 0.925 */
        assert_true(extents_timed[1] >= 6 * f->finalists && extents_timed[0] > extents_timed[1]);
        assert_int_equal(d.bed.set[0][extent_slot].i, 256);  /* as it was */
        assert_true(trial_of(s, 64)->times.median == 0.9e6); /* what is told is the largest extent's */
        p->d.ops = &planted_ops;
        close_desk(&d);
    }
}

/* ---- audit of the staging ---- */

static int fast_W; /* the one that is planted */
static double one_is_fast(const char *text, int call) {
    (void)call;
    return of_text(text, " W=") == fast_W ? 5e5 : 1e6;
}

static void an_audit_of_the_staging(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    plant(&d, one_is_fast);
    static const int W[] = {16, 32, 64};
    int64_t lost = 0, kept = 0;
    for (int i = 0; i < COUNT(W); i++) {
        fast_W = W[i];
        Made m = {.measured = false};
        const Request q = {.prog = d.pb.source,
                           .shape = d.pb.shape,
                           .dev = d.dev,
                           .caps = dev_caps(d.dev),
                           .identity = "planted",
                           .effort = EFFORT_EXHAUSTIVE,
                           .pin = pins(&d),
                           .open = "W=16/32/64",
                           .threads = 1,
                           .seed = 1,
                           .audit = true,
                           .max_candidates = 1, /* of the staged search: the policy's first choice alone */
                           .worker = ""};
        d.cx.first = d.cx.last = NULL;
        /* the planted device cannot time a copy; the searches are over by then */
        assert_int_equal(drive_compile(&d.cx, &q, &m), slug_err(S_RT_NOT_OFFERED));
        const Trial *winner = &m.search.trial[m.search.best];
        assert_int_equal(winner->plan.W, fast_W);
        assert_int_equal(m.search.ntimed, 3);
        assert_int_equal(m.staged.ntimed, 1);
        assert_non_null(m.pruning);
        const char *regret = strstr(m.pruning, "\"regret\":");
        assert_non_null(regret);
        if (winner->place == 1) {
            kept++;
            assert_non_null(strstr(m.pruning, "\"pruned_by\":\"none\""));
            assert_true(strtod(regret + 9, NULL) == 0);
        } else {
            lost++;
            assert_non_null(strstr(m.pruning, "\"pruned_by\":\"ranking\""));
            assert_true(fabs(strtod(regret + 9, NULL) - 1) < 1e-6); /* twice the time */
            assert_non_null(strstr(m.pruning, winner->place == 2 ? "\"place\":2" : "\"place\":3"));
        }
        made_free(&m);
    }
    assert_true(kept == 1 && lost == 2);
    close_desk(&d);
}

/* ---- cold ---- */

static const Slot *last_set;
static int distinct;
static double see(const char *text, int call) {
    (void)text, (void)call;
    return 1e6;
}
static Err p_time_sets(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                       int64_t *ns) {
    (void)cx, (void)m, (void)rows, (void)threads;
    for (int i = 0; i < calls; i++) {
        distinct += sets[i % nsets] != last_set;
        last_set = sets[i % nsets];
    }
    *ns = (int64_t)calls * 100000;
    return OK;
}

static void cold_memory_is_not_met_twice(void **state) {
    (void)state;
    Desk d;
    open_desk(&d);
    problem(&d, 1024, 4096); /* 32 MiB a set */
    Planted *p = plant(&d, see);
    RtOps ops = planted_ops;
    ops.time = p_time_sets;
    p->d.ops = &ops;
    Search *s = prepare(&d, EFFORT_MEASURE);
    bed_free(&d.bed);
    d.bed = (Bed){.cold = true};
    assert_int_equal(bed_make(&d.cx, d.dev, &d.pb, 1, &d.bed), OK);
    assert_int_equal(d.bed.nsets, 6);
    assert_true(bed_rotated(&d.bed) >= BED_COLD_BYTES * 0.99);
    last_set = NULL, distinct = 0;
    Plan plan;
    Unit u;
    char sha[65];
    Module *m;
    Times t;
    assert_int_equal(plan_read(&d.cx, s->pin, &plan), OK);
    assert_int_equal(attempt_emit(&d.cx, &d.pb, &plan, &u, sha), OK);
    assert_int_equal(mod_build(&d.cx, d.dev, &u, &m), OK);
    assert_int_equal(bed_time(&d.cx, &d.bed, m, 1, 3, 700000, 0, &t), OK);
    assert_true(distinct > 3 * t.calls);    /* no call on the memory of the one before, across samples too */
    for (int i = 1; i < d.bed.nsets; i++) { /* inputs are the same everywhere, memory is not */
        const Slot *a = d.bed.set[0], *b = d.bed.set[i];
        assert_true(a[0].p != b[0].p && a[1].p != b[1].p);
        assert_memory_equal(a[0].p, b[0].p, 4096);
    }
    mod_free(m);
    p->d.ops = &planted_ops;
    close_desk(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {T(strategies),
                                       T(staged_tries_lanes_with_packs),
                                       T(staged_tries_homes_together),
                                       T(a_beam_steps_to_neighbours),
                                       T(strategies_that_do_not_go_together),
                                       T(combinations),
                                       T(nothing_is_built_twice),
                                       T(compilers_have_a_budget),
                                       T(units_on_their_way),
                                       T(who_would_be_next),
                                       T(guesses_change_nothing),
                                       T(guesses_make_room),
                                       T(finalists_differ),
                                       T(two_rounds_say_little),
                                       T(a_tie_is_a_result),
                                       T(a_range_is_chosen_for_its_half_too),
                                       T(the_incumbent_is_guarded),
                                       T(samples_without_time),
                                       T(an_audit_of_the_staging),
                                       T(cold_memory_is_not_met_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
