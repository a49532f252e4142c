/* rt/hostcc: no compiler, broken ones, broken sources, both families. */
#include "rtdesk.h"

/* ---- the compiler ---- */

static void script(const char *name, const char *text, char path[700]) {
    snprintf(path, 700, "%s/%s", box, name);
    assert_int_equal(os_write_atomic(path, text, strlen(text), 0700, false), 0);
}

static void check_no_compiler(const char *cc, const char *word) {
    Desk k;
    RtOptions o = options();
    o.cc = cc;
    open_desk(&k, &o); /* no error yet: much can be done without one */
    assert_non_null(strstr(dev_identity(k.d), "no compiler"));
    Unit u = unit_of("scale", scale_text);
    Module *m;
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_RT_NO_COMPILER);
    assert_null(m);
    assert_non_null(strstr(k.cx.last->msg, word));
    close_desk(&k);
}

static void test_no_compiler(void **state) {
    (void)state;
    char path[700], *env = saved("ROWFOLD_CC"), *old = saved("PATH");
    check_no_compiler("/no/such/cc", "no such program");
    script("failing", "#!/bin/sh\nexit 1\n", path);
    check_no_compiler(path, "failed");
    script("other", "#!/bin/sh\necho tcc version 0.9\n", path);
    check_no_compiler(path, "neither gcc nor clang");
    check_no_compiler("/bin/true",
                      "neither gcc nor clang"); /* of the Free Software Foundation, as its --version says */
    setenv("ROWFOLD_CC", "/no/such/cc", 1);     /* named, so not replaced by another */
    check_no_compiler(NULL, "/no/such/cc");
    unsetenv("ROWFOLD_CC");
    setenv("PATH", box, 1);
    check_no_compiler(NULL, "no cc, gcc or clang");
    restore("PATH", old);
    restore("ROWFOLD_CC", env);
}

static int temp_folders(void) { /* left by builds in TMPDIR */
    int n = 0;
    DIR *d = opendir(box);
    for (struct dirent *e; d && (e = readdir(d));) n += str_starts(e->d_name, "rowfold-");
    if (d) closedir(d);
    return n;
}

static void test_bad_source(void **state) {
    (void)state;
    char *old = saved("TMPDIR"), path[700];
    setenv("TMPDIR", box, 1);
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Module *m;
    Unit u = unit_of("f", "void f(int) {\n  this is no C;\n}\n");
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_FAILED);
    assert_null(m);
    assert_non_null(strstr(k.cx.last->msg, "kernel.c:2"));
    assert_null(strstr(k.cx.last->msg, box)); /* the temporary folder is nobody's business */
    u = unit_of("f", "void g(void) {}\n");
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_LOAD);
    u = unit_of("f", "void no_such_function(void); void f(void) { no_such_function(); }\n");
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_LOAD);
    assert_non_null(strstr(k.cx.last->msg, "no_such_function"));
    assert_int_equal(entries(NULL, 0), 0); /* nothing of this is kept */
    close_desk(&k);
    /* one that does not end is stopped */
    script("slow", "#!/bin/sh\n[ \"$1\" = --version ] && exec echo clang version 99\nexec sleep 60\n", path);
    o.cc = path;
    o.build_timeout_ms = 200;
    open_desk(&k, &o);
    u = unit_of("scale", scale_text);
    int64_t from = os_now_ns();
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_TIMEOUT);
    assert_in_range(os_now_ns() - from, 200000000, 20000000000);
    close_desk(&k);
    /* one that says it is done and is not */
    script("liar", "#!/bin/sh\n[ \"$1\" = --version ] && exec echo clang version 99\nexit 0\n", path);
    open_desk(&k, &o);
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_FAILED);
    assert_non_null(strstr(k.cx.last->msg, "made nothing"));
    close_desk(&k);
    assert_int_equal(temp_folders(), 0);
    /* nowhere to work */
    snprintf(path, sizeof path, "%s/missing", box);
    setenv("TMPDIR", path, 1);
    o = options();
    open_desk(&k, &o);
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_IO);
    close_desk(&k);
    restore("TMPDIR", old);
}

static void test_both_compilers(void **state) {
    (void)state;
    static const char *const names[] = {"gcc", "clang"};
    char path[1024];
    int found = 0;
    for (int i = 0; i < 2; i++) {
        if (os_find_program(names[i], path, sizeof path)) continue;
        found++;
        Desk k;
        RtOptions o = options();
        o.cc = path;
        open_desk(&k, &o);
        Unit u = unit_of("scale", scale_text);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            Module *m;
            u.isa = (Isa)isa;
            Err err = mod_build(&k.cx, k.d, &u, &m);
            if (err) {
                expect(&k.cx, err, S_RT_ISA);
                continue;
            }
            assert_false(mod_facts(m)->from_cache); /* another compiler's kernel is another kernel */
            check_scale(m, 2, ROWS);
            mod_free(m);
        }
        close_desk(&k);
    }
    assert_true(found > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_no_compiler),
        T(test_bad_source),
        T(test_both_compilers),
    };
    return RUN(tests);
}
