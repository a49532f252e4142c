/* Wisdom: which trial is the best evidence, neighbours, forgetting, and text that comes from strangers. */
#include "storedesk.h"

/* ---- wisdom ---- */

static void the_best_is_wisdom(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    Wisdom *w;
    int n;
    assert_int_equal(wisdom_near(&d.cx, d.s, &k, &w, &n), OK);
    assert_int_equal(n, 0);
    assert_int_equal(wisdom_near(&d.cx, NULL, &k, &w, &n), OK); /* no file yet */
    assert_int_equal(n, 0);
    const char *slow = a_plan(&d, 16), *fast = a_plan(&d, 32), *quick = a_plan(&d, 64);
    StoreTrial t = a_trial(slow, STAGE_SHORT, 200);
    add(&d, &t);
    t = a_trial(quick, STAGE_SHORT, 100);
    t.slug = "oracle.mismatch"; /* the fastest is wrong */
    add(&d, &t);
    t = a_trial(fast, STAGE_SHORT, 150);
    add(&d, &t);
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_int_equal(n, 1);
    assert_string_equal(w[0].plan, fast);
    t = a_trial(slow, STAGE_CONFIRMED, 160); /* better evidence counts before a better number */
    add(&d, &t);
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_string_equal(w[0].plan, slow);
    assert_string_equal(w[0].stage, "confirmed");
    assert_true(w[0].distance == 0 && !w[0].imported);
    t.slug = "oracle.mismatch", t.bad = 1; /* what turns out wrong later is no wisdom */
    add(&d, &t);
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_string_equal(w[0].plan, fast);
    t = a_trial(slow, STAGE_CONFIRMED, 160); /* until it is accepted again */
    add(&d, &t);
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_string_equal(w[0].plan, slow);
    /* neighbours, nearest first */
    problem(&d, 64, 1100);
    StoreKey near = store_key(&d.cx, &d.pb, "a machine", 0);
    t = a_trial(fast, STAGE_SHORT, 7);
    add(&d, &t);
    problem(&d, 64, 2500); /* too far from 1000, near enough to 1300 */
    add(&d, &t);
    wisdom_near(&d.cx, d.s, &near, &w, &n);
    assert_int_equal(n, 2);
    assert_string_equal(w[0].shape, "rows=64,n=1100");
    assert_string_equal(w[1].shape, "rows=64,n=1000");
    problem(&d, 64, 1300);
    near = store_key(&d.cx, &d.pb, "a machine", 0);
    wisdom_near(&d.cx, d.s, &near, &w, &n);
    assert_int_equal(n, 3);
    assert_string_equal(w[0].shape, "rows=64,n=1100");
    assert_true(w[0].distance > 0.2 && w[0].distance < 0.3);
    assert_string_equal(w[2].shape, "rows=64,n=2500");
    problem(&d, -1, 1100); /* rows not known: any will do */
    near = store_key(&d.cx, &d.pb, "a machine", 0);
    assert_string_equal(near.shape, "n=1100");
    wisdom_near(&d.cx, d.s, &near, &w, &n);
    assert_string_equal(w[0].shape, "rows=64,n=1100");
    StoreKey other = near;
    other.device = "another machine";
    wisdom_near(&d.cx, d.s, &other, &w, &n);
    assert_int_equal(n, 0);
    other = near, other.rowfold = "9.9.9";
    wisdom_near(&d.cx, d.s, &other, &w, &n);
    assert_int_equal(n, 0);
    close_desk(&d);
}

static void forgetting(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 200), back;
    add(&d, &t);
    int64_t gone;
    Filter f;
    assert_int_equal(filter_read(&d.cx, "shape=rows=64,n=999", &f), OK);
    assert_int_equal(wisdom_forget(&d.cx, d.s, &f, &gone), OK);
    assert_int_equal(gone, 0);
    assert_int_equal(filter_read(&d.cx, " problem=", &f), OK);
    f.problem = arena_str(d.cx.a, k.sha, 10);
    assert_int_equal(wisdom_forget(&d.cx, d.s, &f, &gone), OK);
    assert_int_equal(gone, 1);
    Wisdom *w;
    int n;
    bool found;
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_int_equal(n, 0);
    store_find(&d.cx, d.s, &k, 1, t.plan, unit_sha(&d, t.plan), &found, &back);
    assert_false(found);
    const char *json;
    store_trials(&d.cx, d.s, &f, 0, &json); /* but the trial is there */
    assert_non_null(strstr(json, "\"forgotten\":true"));
    add(&d, &t); /* and what is measured afterwards counts */
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_int_equal(n, 1);
    static const char *const bad[] = {"colour=red", "kernel=a kernel=b", "origin=heaven", "soft*", "a b"};
    for (int i = 0; i < COUNT(bad); i++) {
        Cx own = {.a = d.cx.a};
        assert_int_equal(filter_read(&own, bad[i], &f), slug_err(S_STORE_FILTER));
        assert_string_equal(slug_text(own.first->slug), "store.filter");
    }
    close_desk(&d);
}

static const char *exported(Desk *d) {
    const char *text;
    assert_int_equal(wisdom_export(&d->cx, d->s, &(Filter){0}, &text), OK);
    return arena_str(d->cx.a, text, strlen(text));
}

static const char *import(Desk *d, const char *text, size_t n) {
    static const char *const here[] = {"a machine"};
    const char *report = NULL;
    Err err = wisdom_import(&d->cx, d->s, text, n, here, 1, &report);
    if (err) fail_msg("%s", d->cx.first->msg);
    return report;
}

static void some_wisdom(Desk *d) {
    static const int sizes[] = {1000, 900, 1200};
    for (int i = 0; i < COUNT(sizes); i++) {
        problem(d, 64, sizes[i]);
        StoreTrial t = a_trial(a_plan(d, 16 << i), STAGE_CONFIRMED, 100.5 + i);
        add(d, &t);
    }
}

static void a_round_trip(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    assert_string_equal(exported(&d), "");
    some_wisdom(&d);
    const char *text = arena_printf(d.cx.a, "%s", exported(&d));
    assert_string_equal(text, exported(&d)); /* the same bytes each time */
    const char *report = import(&d, text, strlen(text));
    assert_non_null(strstr(report, "{\"taken\":0,\"known\":3,\"foreign\":0,\"refused\":0,")); /* it is known already */
    store_close(d.s);
    unlink(file);
    open_store(&d);
    report = import(&d, text, strlen(text));
    assert_non_null(strstr(report, "{\"taken\":3,\"known\":0,\"foreign\":0,\"refused\":0,"));
    assert_string_equal(text, exported(&d)); /* nothing is lost on the way */
    problem(&d, 64, 1000);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    Wisdom *w;
    int n;
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_true(n == 3 && w[0].imported && w[0].distance == 0);
    StoreTrial t = a_trial(a_plan(&d, 128), STAGE_SHORT, 999); /* own measurements go before what others say */
    add(&d, &t);
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_false(w[0].imported);
    int64_t gone;
    assert_int_equal(wisdom_forget(&d.cx, d.s, &(Filter){.origin = "import"}, &gone), OK);
    assert_int_equal(gone, 2); /* of the third problem there is a trial */
    close_desk(&d);
}

static char *replaced(Desk *d, const char *text, const char *what, const char *with) {
    const char *at = strstr(text, what);
    if (!at) fail_msg("no %s in %s", what, text);
    return arena_printf(d->cx.a, "%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
}

static void what_others_say(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    problem(&d, 64, 1000);
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_CONFIRMED, 100.5);
    add(&d, &t);
    const char *text = exported(&d);
    store_close(d.s);
    unlink(file);
    open_store(&d);
    const struct {
        const char *what, *with, *slug;
    } cases[] = {
        {"\"a machine\"", "\"the moon\"", "wisdom.foreign"},
        {"\"rowfold\":\"0.1.0\"", "\"rowfold\":\"7.0.0\"", "wisdom.foreign"},
        {"rowfold-wisdom-1", "rowfold-wisdom-9", "wisdom.syntax"},
        {"{", "", "wisdom.syntax"},
        {"\"plan\"", "\"plane\"", "wisdom.field"},
        {"\"threads\":0", "\"threads\":-1", "wisdom.field"},
        {"\"threads\":0", "\"threads\":0,\"extra\":1", "wisdom.field"},
        {"\"threads\":0", "\"threads\":0,\"threads\":0", "wisdom.syntax"},
        {"W=16", "W=17", "plan.value_not_legal"},
        {"W=16", "W=32", "wisdom.other_source"}, /* another plan under the old one's time */
        {"tail=guarded", "tail=exact", "plan.tail_not_exact"},
        {"W=16", "W=", "plan.value_not_legal"},
        {"W=16", " W=16", "wisdom.field"},
        {"\"program_sha256\":\"", "\"program_sha256\":\"0", "wisdom.field"},
        {"= exp ", "= log ", "wisdom.field"}, /* another program under the old hash */
        {"= exp ", "= rm ", "ir.text"},
        {"\"shape\":\"rows=64,n=1000\"", "\"shape\":\"rows=64,n=1001\"", "wisdom.other_source"},
        {"\"shape\":\"rows=64,n=1000\"", "\"shape\":\"rows=65,n=1000\"", ""}, /* a claim like any other */
        {"\"shape\":\"rows=64,n=1000\"", "\"shape\":\"n=1000,rows=64\"", "wisdom.field"},
        {"\"shape\":\"rows=64,n=1000\"", "\"shape\":\"rows=64\"", "shape.unknown"},
        {"\"shape\":\"rows=64,n=1000\"", "\"shape\":\"rows=64,m=1\"", "wisdom.field"},
        {"\"median_ns\":100.5", "\"median_ns\":1.5", "wisdom.field"},
        {"\"median_ns\":100.5", "\"median_ns\":-1", "wisdom.field"},
        {"[100.5,201.0,50.25]", "[]", "wisdom.field"},
        {"[100.5,", "[0,", "wisdom.field"},
        {"[100.5,", "[1e999,", "wisdom.syntax"},
        {"\"stage\":\"confirmed\"", "\"stage\":\"dreamt\"", "wisdom.field"},
        {"\"effort\":\"measure\"", "\"effort\":\"sure\"", "wisdom.field"},
        {"\"strides\":\"dense\"", "\"strides\":\"z\"", "wisdom.field"},
        {"\"promises\":\"noalias\"", "\"promises\":\"\"", "wisdom.field"},
        {"\"caps\":\"", "\"caps\":\"colour=red ", NULL},
    };
    int wrong = 0;
    for (int i = 0; i < COUNT(cases); i++) {
        const char *bad = replaced(&d, text, cases[i].what, cases[i].with);
        const char *report = import(&d, bad, strlen(bad));
        const char *want =
            cases[i].slug ? arena_printf(d.cx.a, "\"slug\":\"%s\"", cases[i].slug) : "\"fate\":\"refused\"";
        if (cases[i].slug && !*cases[i].slug) want = "\"fate\":\"taken\"";
        if (!strstr(report, want)) print_error("%s -> %s: %s\n", cases[i].what, cases[i].with, report), wrong++;
    }
    assert_int_equal(wrong, 0);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    Wisdom *w;
    int n; /* what is foreign is kept, but is nobody's wisdom here */
    wisdom_near(&d.cx, d.s, &k, &w, &n);
    assert_int_equal(n, 1);
    assert_string_equal(w[0].shape, "rows=65,n=1000");
    assert_non_null(strstr(exported(&d), "the moon"));
    assert_non_null(strstr(exported(&d), "7.0.0"));
    close_desk(&d);
}

/* Damaged copies of true entries and plain noise: every line has a fate, and none is believed that was not written. */
static void hostile_text(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    some_wisdom(&d);
    char *good = strdup(exported(&d));
    size_t len = strlen(good);
    Rng rng = {7};
    for (int i = 0; i < 1500; i++) {
        Desk e = {.cx = {.a = arena_new(NULL, NULL)}, .s = d.s};
        size_t n = (size_t)rng_int(&rng, 4) ? len : (size_t)rng_int(&rng, (int)len);
        char *bad = arena_dup(e.cx.a, good, len);
        for (int k = rng_int(&rng, 6); k >= 0 && n; k--) {
            size_t at = (size_t)rng_int(&rng, (int)n);
            if (rng_int(&rng, 2)) {
                bad[at] = (char)rng_u64(&rng);
            } else { /* a piece of one place to another */
                size_t from = (size_t)rng_int(&rng, (int)n), m = (size_t)rng_int(&rng, 40);
                if (from + m <= n && at + m <= n) memmove(bad + at, bad + from, m);
            }
        }
        import(&e, bad, n);
        arena_free(e.cx.a);
    }
    char *deep = malloc(200000);
    memset(deep, '[', 200000);
    import(&d, deep, 200000);
    memset(deep, 0, 200000);
    import(&d, deep, 200000);
    free(deep);
    char *wide = malloc((1 << 20) + 10);
    memset(wide, 'x', (1 << 20) + 10);
    assert_non_null(strstr(import(&d, wide, (1 << 20) + 10), "wisdom.syntax"));
    free(wide);
    assert_non_null(strstr(import(&d, "\n \n", 3), "\"entries\":[]}"));
    free(good);
    close_desk(&d);
    assert_int_equal(ask("PRAGMA integrity_check"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {T(the_best_is_wisdom), T(forgetting), T(a_round_trip), T(what_others_say),
                                       T(hostile_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
