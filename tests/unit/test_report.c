/* Reports of small records: what stands where, that a stranger's text stays text, that what is missing is no number. */
#include "../../src/drive/evidence.h"
#include "apidesk.h"

#include <stdlib.h>

/* Single quotes stand for double ones, so that the records can be read. */
static char *quoted(const char *s) {
    char *out = strdup(s);
    for (char *at = out; (at = strchr(at, '\'')) != NULL;) *at = '"';
    return out;
}

/* A record's text as it would be written: canonical, with its hash. */
static char *sealed(const char *s) {
    char *text = quoted(s);
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    Trap trap;
    Arena *a = arena_new(&alloc_libc, &trap);
    Cx cx = {.a = a};
    record_seal(&cx, j, "hash");
    char *out = strdup(record_print(&cx, j));
    json_decref(j);
    arena_free(a);
    free(text);
    return out;
}

static char *report(rowfold_context *c, const char *const *text, int n, bool markdown) {
    rowfold_record r[8];
    rowfold_report_options o;
    rowfold_report_options_init(&o);
    o.markdown = markdown;
    for (int i = 0; i < n; i++) r[i] = (rowfold_record){"r<1>.json", text[i], strlen(text[i])};
    char *page = NULL;
    good(c, rowfold_report(c, r, n, &o, &page));
    assert_non_null(page);
    return page;
}

static void has(const char *page, const char *what) {
    if (!strstr(page, what)) fail_msg("the page lacks: %s", what);
}
static void lacks(const char *page, const char *what) {
    if (strstr(page, what)) fail_msg("the page has: %s", what);
}

#define FROM                                                                                                         \
    "'provenance':{'rowfold':'0.1.0','threads':2,'device':{'name':'host','identity':'a CPU <img src=x>','caps':''}," \
    "'machine':{'system':'Linux','cpus':8},'time_unix_s':1700000000,'environment':{'CC':'<i>'},'binaries':[]}"
#define TIMES(name, ns) "{'name':'" name "','median_ns':" ns ",'min_ns':" ns ",'max_ns':9000.0}"

#define MISSING "{'peer':'ort','missing':'no session'}"

static const char bench[] =
    "{'format':'rowfold-bench-1','suite':'s<b>','complete':true,'options':{'samples':3}," FROM ",'cases':["
    "{'id':'soft</td><script>alert(1)</script>\\u0001|x','plan':'W=64 "
    "hold.x=register','bytes':{'read':4096,'write':4096},"
    "'request':{'policy':'roofline'},'demand':{'row':{'global_read':64,'global_write':64,'private_read':0,'private_"
    "write':0},"
    "'row_ops':{'alu':256,'div':0,'special':0,'convert':0},'lane_rounds':4},'scores':[{'launch':{'rows':10}}],"
    "'trials':[{'plan':'W=64 hold.x=register','fate':'timed','score':2.0,'median_ns':1500.0},"
    "{'plan':'W=32 hold.x=register','fate':'timed','score':1.0,'median_ns':3000.0},"
    "{'plan':'W=32 hold.x=reload','fate':'ranked','score':4.0}],"
    "'refusals':[{'plan':'W=96 hold.x=reload','fate':'refused','slug':'plan.stripe_exceeded','why':'need=66'},"
    "{'plan':'W=128 hold.x=reload','fate':'failed','slug':'build.failed','why':'cc'}],"
    "'measurement':{'plan':'W=64 hold.x=register','inputs_unchanged':true,'warmup':{'settled':true},"
    "'setup':{'compile_ns':5000000},'speed_of_light_ns':{'resident':1000.0},"
    "'first_check':{'ok':true,'checked':640,'bad':0,'worst_error_share':0.25},'last_check':{'ok':true,'bad':0},"
    "'ceilings':[{'kind':'copy','regime':'resident','bytes':8192,'median_ns':1000.0,'how':'memcpy'}],"
    "'figures':[" TIMES(
        "device.batch.resident",
        "2000.0") "]},"
                  "'peers':[{'peer':'numpy','version':'1','mode':'eager','check':{'ok':false},'figures':[" TIMES(
                      "device.batch.resident",
                      "7000.0") "]},{'peer':'torch','missing':'no module <torch>'}," MISSING "]},"
                                "{'id':'lost','peers':[{'peer':'torch','missing':'no module <torch>'}," MISSING
                                "],'failed':{'slug':'build.failed','why':'no <cc>'}}]}";

static void test_bench(void **state) {
    (void)state;
    rowfold_context *c = context();
    char *text = sealed(bench), *page = report(c, (const char *const[]){text}, 1, false);
    assert_true(str_starts(page, "<!doctype html>"));
    /* definitions come before results */
    assert_true(strstr(page, "What was measured") < strstr(page, "Definitions"));
    assert_true(strstr(page, "Definitions") < strstr(page, "Times of a call in"));
    has(page, "2.000 [2.000, 9.000]"); /* microseconds, with the range */
    has(page, "50.0 %");               /* 1000 of 2000 ns */
    has(page, "numpy 1 eager (WRONG)");
    has(page, "no module &lt;torch&gt;");
    static const char *const peers[] = {"Peer torch is missing", "Peer ort is missing"};
    for (int i = 0; i < COUNT(peers); i++) { /* in both cases, and one line */
        has(page, peers[i]);
        lacks(strstr(page, peers[i]) + 1, peers[i]);
    }
    has(page, "no &lt;cc&gt; [build.failed]");
    has(page, "1.280");
    has(page, "2 timed, 1 legal and not tried, 1 refused, 1 failed; the fastest 1.500");
    has(page, ">2.00</text>"); /* W=32 took twice the time */
    has(page, "class=\"pick\"");
    has(page, "plan.stripe_exceeded");
    has(page, "2023-11-14 22:13 UTC");
    /* regret of the policy that ranked: its first choice took twice the time of the fastest */
    has(page, "<td class=\"l\">roofline</td><td>1</td><td>2</td><td>100.0</td><td>100.0</td>");
    rowfold_free(c, page);
    free(text);
    rowfold_context_free(c);
}

static void test_strangers(void **state) {
    (void)state;
    rowfold_context *c = context();
    char *text = sealed(bench), *page = report(c, (const char *const[]){text}, 1, false);
    static const char *const never[] = {"<script", "<img", "<b>",     "<i>",  "<1>",      "\x01",    "http:",
                                        "https:",  "url(", "@import", "src=", "href=\"h", "href=\"/"};
    for (int i = 0; i < COUNT(never); i++)
        if (!strstr(page, never[i]))
            continue;
        else if (strcmp(never[i], "src=") == 0)
            assert_ptr_equal(strstr(page, "src="), strstr(page, "&lt;img src=x&gt;") + 8); /* a text */
        else if (strcmp(never[i], "<b>") == 0)
            lacks(page, "s<b>"); /* captions have their own */
        else
            fail_msg("the page has %s", never[i]);
    has(page, "soft&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;\xEF\xBF\xBD|x");
    has(page, "default-src 'none'");
    rowfold_free(c, page);
    page = report(c, (const char *const[]){text}, 1, true);
    has(page, "soft\\</td\\>\\<script\\>alert(1)\\</script\\>\xEF\xBF\xBD\\|x");
    lacks(page, "|x\x01");
    rowfold_free(c, page);
    free(text);
    rowfold_context_free(c);
}

#define CATALOG(sha, plan)                                                                                             \
    "{'format':'rowfold-catalog-1','hash':'h','suite':'s','cases':[{'id':'a','plan':'" plan "','unit':{'sha256':'" sha \
    "'}},{'id':'b','plan':'W=1 V=1','unit':{'sha256':'same'}}]}"
#define MEASURED(id, side, ns)                                                                                    \
    "{'case':'" id "','side':'" side "','round':0,'inputs_unchanged':true,'first_check':{'ok':true,'checked':5}," \
    "'last_check':{'ok':true},'figures':[" TIMES("device.batch.cold", ns) "]}"

static const char replay[] =
    "{'format':'rowfold-replay-1','reference':" CATALOG("x", "W=1 V=1") ",'candidate':" CATALOG(
        "y", "W=1 V=4") ","
                        "'options':{'rounds':2,'primary':'device.batch.cold'}," FROM ",'sittings':[{'measurements':4}],"
                        "'measurements':[" MEASURED("a", "reference", "3000.0") "," MEASURED(
                            "a", "candidate", "2000.0") ","
                                                        "{'case':'a','side':'candidate','round':1,'failed':{'slug':'"
                                                        "worker.crashed','why':'signal 11'}}],"
                                                        "'peers':[],'floors':{'device.batch.cold':0.01},"
                                                        "'results':[{'case':'a','figure':'device.batch.cold','control':"
                                                        "false,'ratios':[1.5,null],'median':null,'min':null,"
                                                        "'max':null,'bootstrap':null,'verdict':'incomplete'},"
                                                        "{'case':'b','figure':'device.batch.cold','control':true,'"
                                                        "ratios':[0.99,1.01],'median':1.0,'min':0.99,'max':1.01,"
                                                        "'bootstrap':{'low':0.99,'high':1.01},'verdict':'control'}],"
                                                        "'overall':{'device.batch.cold':{'cases':1,'ratios':[1.5,null],"
                                                        "'median':null,'min':null,'max':null,'verdict':'incomplete'}}}";

static void test_replay(void **state) {
    (void)state;
    rowfold_context *c = context();
    char *text = sealed(replay), *page = report(c, (const char *const[]){text}, 1, false);
    /* a missing pair: the round that is there is shown, and no number is made of it */
    has(page,
        "<td class=\"l\">a</td><td class=\"l\">incomplete</td><td>-</td><td>-</td><td>-</td><td class=\"l\">-</td>"
        "<td class=\"l\">1.500 -</td>");
    has(page, "<span>no number  incomplete</span>");
    has(page, "<td class=\"l\">b</td><td class=\"l\">control</td><td>1.000</td><td>0.990</td><td>1.010</td>");
    has(page, "class=\"o\""); /* controls are hollow */
    has(page, "<title>round 1: 1.5000</title>");
    lacks(page, "<title>round 2: 0.0000</title>");
    has(page, "Failed: a, candidate, round 2: signal 11 [worker.crashed]");
    has(page, "V 1 \xE2\x86\x92 4");
    has(page, "1 failed. 10 output elements");
    has(page, "device.batch.cold, the primary figure");
    rowfold_free(c, page);
    page = report(c, (const char *const[]){text}, 1, true);
    assert_true(str_starts(page, "# rowfold report\n"));
    has(page, "|a|incomplete|-|-|-|-|1.500 -|\n");
    has(page, "|b|control|1.000|0.990|1.010|0.990 to 1.010|0.990 1.010|\n");
    has(page, "|:--|:--|--:|--:|--:|:--|:--|\n");
    lacks(page, "<svg");
    lacks(page, "<td");
    rowfold_free(c, page);
    free(text);
    rowfold_context_free(c);
}

static void test_search_files(void **state) {
    (void)state;
    rowfold_context *c = context();
    char *receipt =
        quoted("{'format':'rowfold-receipt-1','rowfold':'0.1.0','device':{'identity':'d','caps':''},'plan':'W=8',"
               "'shape':{'rows':2},'times':{'median_ns':1000,'min_ns':900,'max_ns':1100},"
               "'search':{'effort':'measure','candidates':5,'timed':3,'refused':2,'failed':0,"
               "'fates_by_slug':{'plan.stripe_exceeded':2}},"
               "'finals':{'gain':0.05,'detectable':0.02,'tie':false,"
               "'replay':{'rounds':16,'gain':0.003,'least_gain':-0.01,'vetoed':true}}}");
    char *trials =
        quoted("{'trials':[{'kernel':'k','shape':'n=4','types':'f32','device':'d','problem':'p','plan':'W=8','status':"
               "'accepted','median_ns':10.0},{'problem':'p','plan':'W=8','status':'accepted','median_ns':1.0},"
               "{'problem':'p','plan':'W=16','status':'plan.stripe_exceeded','median_ns':null},"
               "{'problem':'p','plan':'W=16 hold.x=reload','status':'worker.crashed','median_ns':null}]}");
    char *search = quoted(
        "{'kernel':'z','shape':'n=5','types':'f16','device':'host','identity':'me','policy':'prior','candidates':["
        "{'plan':'W=4','fate':'timed','score':{'total':3.0},'times':{'median_ns':2000.0},'chosen':true},"
        "{'plan':'W=2','fate':'timed','score':{'total':2.0},'times':{'median_ns':3000.0}},"
        "{'plan':'W=1','fate':'refused','slug':'plan.stripe_exceeded','why':'need=66'}]}");
    char *page = report(c, (const char *const[]){receipt, trials, search}, 3, true);
    has(page, "z n=5 f16 on host: 2 timed, 0 legal and not tried, 1 refused, 0 failed; the fastest 2.000");
    has(page, "|nothing held|refused|1.50|1.00 (chosen)|\n");
    has(page, "|prior|1|2|50.0|50.0|-|\n");
    has(page, "5 candidates, 3 timed, 2 refused, 0 failed");
    has(page, "16 rounds: gain 0.3 %, at least -1.0 %: vetoed, the incumbent stays");
    has(page, "Of 1 search with finals 0 kept the incumbent by a tie, 1 by a veto of fresh replays, and 0 changed it.");
    has(page, "1.000 \\[0.9000, 1.100\\]");
    has(page,
        "k n=4 f32 on d: 1 timed, 0 legal and not tried, 1 refused, 1 failed; the fastest 0.0100"); /* the youngest */
    has(page, "|nothing held|1.00|refused|\n");
    has(page, "|x=reload||failed|\n");
    rowfold_free(c, page);
    free(receipt);
    free(trials);
    free(search);
    rowfold_context_free(c);
}

static void test_refused(void **state) {
    (void)state;
    rowfold_context *c = context();
    char *text = sealed(replay), *page = NULL;
    rowfold_record r = {"r.json", text, strlen(text)};
    rowfold_report_options o;
    rowfold_report_options_init(&o);
    expect(c, rowfold_report(c, &r, 0, &o, &page), ROWFOLD_ARGUMENT, "call.argument");
    expect(c, rowfold_report(c, NULL, 1, &o, &page), ROWFOLD_ARGUMENT, "call.argument");
    expect(c, rowfold_report(c, &r, 1, &o, NULL), ROWFOLD_ARGUMENT, "call.argument");
    o.struct_size = sizeof o + 8;
    expect(c, rowfold_report(c, &r, 1, &o, &page), ROWFOLD_ARGUMENT, "call.argument");
    strstr(text, "1.5")[0] = '2';
    expect(c, rowfold_report(c, &r, 1, NULL, &page), ROWFOLD_REFUSED, "record.altered");
    assert_true(str_starts(rowfold_last_error(c)->message, "r.json: "));
    r.text = "[]", r.bytes = 2;
    expect(c, rowfold_report(c, &r, 1, NULL, &page), ROWFOLD_ARGUMENT, "record.syntax");
    free(text);
    r.text = text = sealed("{'format':'rowfold-other-1'}"), r.bytes = strlen(text);
    expect(c, rowfold_report(c, &r, 1, NULL, &page), ROWFOLD_ARGUMENT, "record.format");
    r.text = NULL;
    expect(c, rowfold_report(c, &r, 1, NULL, &page), ROWFOLD_ARGUMENT, "call.argument");
    assert_null(page);
    free(text);
    rowfold_context_free(c);
}

/* Members of the wrong kind, or none at all, cost their cells. */
static void test_hollow(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{'format':'rowfold-bench-1'}",
        "{'format':'rowfold-replay-1','results':[1,null,{}],'floors':{'f':'x','g':null},'measurements':{'a':1},'"
        "overall':[]}",
        "{'format':'rowfold-catalog-1','cases':[{},[],3,{'trials':[{}, "
        "4],'refusals':'x'},{'trials':[{'fate':'timed','plan':"
        "'W=','median_ns':-1.0}],'program':{'text':'prog'},'shape':[]}]}",
        "{'format':'rowfold-bench-1','cases':[{'measurement':{'figures':[{}],'ceilings':[[]]},'demand':7,'peers':[{}]}]"
        "}",
    };
    rowfold_context *c = context();
    for (int i = 0; i < COUNT(texts); i++)
        for (int md = 0; md < 2; md++) {
            char *text = sealed(texts[i]), *page = report(c, (const char *const[]){text}, 1, md);
            lacks(page, "nan");
            lacks(page, "inf\"");
            rowfold_free(c, page);
            free(text);
        }
    rowfold_context_free(c);
}

/* Memory of the host program's: gives out `left` pieces, then none; counts what was not given back. */
typedef struct Purse {
    int left, out;
} Purse;
static void *purse_get(void *user, size_t bytes) {
    Purse *p = user;
    if (p->left == 0) return NULL;
    if (p->left > 0) p->left--;
    p->out++;
    return malloc(bytes);
}
static void purse_put(void *user, void *at) {
    if (at) ((Purse *)user)->out--;
    free(at);
}

static void test_memory(void **state) {
    (void)state;
    Purse purse = {.left = -1};
    rowfold_options o;
    rowfold_options_init(&o);
    o.allocate = purse_get, o.release = purse_put, o.memory_user = &purse;
    rowfold_context *c;
    assert_int_equal(rowfold_context_new(&o, &c), ROWFOLD_OK);
    char *text[] = {sealed(bench), sealed(replay)}, *page = NULL;
    const rowfold_record r[] = {{"b", text[0], strlen(text[0])}, {"r", text[1], strlen(text[1])}};
    rowfold_status s = ROWFOLD_MEMORY;
    int refused = 0;
    for (int n = 0; s == ROWFOLD_MEMORY; n++) {
        purse.left = n;
        s = rowfold_report(c, r, 2, NULL, &page);
        refused += s == ROWFOLD_MEMORY;
        assert_true(s == ROWFOLD_OK || !page);
    }
    assert_int_equal(s, ROWFOLD_OK);
    assert_true(refused > 5);
    rowfold_free(c, page);
    purse.left = -1;
    rowfold_context_free(c);
    assert_int_equal(purse.out, 0);
    free(text[0]);
    free(text[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bench),        cmocka_unit_test(test_strangers), cmocka_unit_test(test_replay),
        cmocka_unit_test(test_search_files), cmocka_unit_test(test_refused),   cmocka_unit_test(test_hollow),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
