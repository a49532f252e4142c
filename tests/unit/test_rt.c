/* rt: hand-written units built, cached, launched on the host; everything that can be missing or broken on the way. */
#include "../../src/base/os.h"
#include "../../src/rt/pool.h"
#include "../../src/rt/rt.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char box[512], cache[600]; /* private folders of the test */

#define SLOT_TEXT "typedef union { void *p; long long i; double d; } Slot;\n"
/* y = 2 x; count[row] says how often the row was done */
static const char scale_text[] =
    SLOT_TEXT "void scale(const Slot *s, long long begin, long long end) {\n"
              "    const float *x = s[0].p; float *y = s[1].p; unsigned char *count = s[2].p; long long n = s[3].i;\n"
              "    for (long long r = begin; r < end; r++) {\n"
              "        for (long long i = 0; i < n; i++) y[r * n + i] = x[r * n + i] * 2.0f;\n"
              "        count[r]++;\n"
              "    }\n"
              "}\n";

static Unit unit_of(const char *entry, const char *text) {
    return (Unit){.dialect = DIALECT_HOST,
                  .isa = ISA_PORTABLE,
                  .entry = entry,
                  .text = text,
                  .bytes = strlen(text),
                  .lanes = 1,
                  .rows_per_group = 1,
                  .elements_per_row = 1000};
}

typedef struct Desk { /* what most tests need */
    Cx cx;
    Rt *rt;
    Device *d;
} Desk;

static RtOptions options(void) {
    return (RtOptions){.cache_dir = cache, .threads = 2, .isa = ISA_COUNT};
}

static void open_desk(Desk *k, const RtOptions *o) {
    *k = (Desk){.cx = {.a = arena_new(NULL, NULL)}};
    assert_non_null(k->cx.a);
    assert_int_equal(rt_open(&k->cx, o, &k->rt), OK);
    assert_int_equal(rt_find(&k->cx, k->rt, "host", &k->d), OK);
}

static void close_desk(Desk *k) {
    rt_close(k->rt);
    arena_free(k->cx.a);
}

static void expect(Cx *cx, Err got, Slug slug) {
    assert_int_equal(got, slug_err(slug));
    assert_non_null(cx->last);
    assert_string_equal(slug_text(cx->last->slug), slug_text(slug));
}

static int entries(char *one, size_t cap) { /* of the cache; the path of some entry */
    int n = 0;
    DIR *d = opendir(cache);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            if (one) snprintf(one, cap, "%s/%.200s", cache, e->d_name);
            n++;
        }
    closedir(d);
    return n;
}

static int set_up(void **state) {
    (void)state;
    snprintf(cache, sizeof cache, "%s/cache", box);
    return 0;
}

static int clean_up(void **state) {
    (void)state;
    os_dir_remove(cache);
    return 0;
}

enum { ROWS = 301, N = 97 };
typedef struct Data {
    float x[ROWS * N], y[ROWS * N];
    unsigned char count[ROWS];
} Data;

/* Launches a built `scale` and checks every element and that each row was done once. */
static void check_scale(Module *m, int threads, int64_t rows) {
    Data *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < ROWS * N; i++) t->x[i] = (float)i - 7.5f, t->y[i] = -1;
    Slot slots[] = {{.p = t->x}, {.p = t->y}, {.p = t->count}, {.i = N}};
    assert_int_equal(mod_launch(NULL, m, slots, rows, threads), OK);
    for (int64_t i = 0; i < ROWS * N; i++) assert_true(t->y[i] == (i < rows * N ? t->x[i] * 2 : -1));
    for (int64_t r = 0; r < ROWS; r++) assert_int_equal(t->count[r], r < rows);
    free(t);
}

static Module *build_scale(Desk *k) {
    Unit u = unit_of("scale", scale_text);
    Module *m = NULL;
    assert_int_equal(mod_build(&k->cx, k->d, &u, &m), OK);
    return m;
}

/* ---- the usual way ---- */

static void test_build_and_launch(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    assert_int_equal(dev_caps(k.d)->kind, KIND_HOST);
    assert_int_equal(dev_caps(k.d)->units, 2);
    assert_true(dev_caps(k.d)->cache_line >= 16);
    assert_string_equal(dev_name(k.d), "host");
    assert_non_null(strstr(dev_identity(k.d), "-ffp-contract=off"));
    assert_null(strstr(dev_identity(k.d), "fast-math"));
    assert_null(strchr(dev_identity(k.d), '\n'));
    Module *m = build_scale(&k);
    const Facts *f = mod_facts(m);
    assert_false(f->from_cache);
    assert_true(f->compile_ns > 0 && f->load_ns > 0);
    assert_in_range(f->code_bytes, 16, 100000);
    assert_int_equal(f->registers, -1);
    for (int threads = 0; threads <= 3; threads++)
        for (int64_t rows = 0; rows <= ROWS; rows += rows < 40 ? 1 : 29) check_scale(m, threads, rows);
    Module *again = build_scale(&k);
    assert_true(mod_facts(again)->from_cache);
    assert_int_equal(mod_facts(again)->compile_ns, 0);
    assert_int_equal(mod_facts(again)->code_bytes, f->code_bytes);
    mod_free(m); /* the second stands alone */
    check_scale(again, 2, ROWS);
    mod_free(again);
    mod_free(NULL);
    assert_int_equal(entries(NULL, 0), 1);
    assert_null(rt_note(k.rt, 0));
    /* another entry name, or another set of flags, is another kernel */
    Unit u = unit_of("scale", scale_text);
    u.isa = dev_caps(k.d)->isa;
    if (u.isa != ISA_PORTABLE) {
        assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
        assert_false(mod_facts(m)->from_cache);
        check_scale(m, 2, ROWS);
        mod_free(m);
    }
    close_desk(&k);
    o.cache_dir = "";
    open_desk(&k, &o);
    m = build_scale(&k);
    assert_false(mod_facts(m)->from_cache);
    mod_free(m);
    close_desk(&k);
}

static void test_every_isa(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    Err err = OK;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        Cx cx = {.a = arena_new(NULL, NULL)};
        Rt *rt;
        o.isa = (Isa)isa;
        err = rt_open(&cx, &o, &rt);
        if (err) {
            expect(&cx, err, S_RT_ISA);
        } else {
            assert_int_equal(dev_caps(rt_device(rt, 0))->isa, isa);
            rt_close(rt);
        }
        arena_free(cx.a);
    }
    /* no CPU has them all */
    assert_int_equal(err, ERR_UNAVAILABLE);
    o.isa = ISA_COUNT;
    open_desk(&k, &o);
    Unit u = unit_of("scale", scale_text);
    Module *m;
    u.isa = ISA_NEON;
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_RT_ISA);
    close_desk(&k);
}

static void test_groups_stay_whole(void **state) {
    (void)state;
    static const char text[] = SLOT_TEXT "void groups(const Slot *s, long long begin, long long end) {\n"
                                         "    unsigned char *bad = s[0].p; unsigned char *count = s[1].p;\n"
                                         "    if (begin % s[2].i || (end % s[2].i && end != s[3].i)) *bad = 1;\n"
                                         "    for (; begin < end; begin++) count[begin]++;\n"
                                         "}\n";
    Desk k;
    RtOptions o = options();
    o.threads = 5;
    open_desk(&k, &o);
    for (int group = 1; group <= 12; group += 11) {
        Unit u = unit_of("groups", text);
        Module *m;
        u.rows_per_group = group;
        u.elements_per_row = 10000;
        assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
        for (int64_t rows = 1; rows < 9000; rows += 1 + rows / 3) {
            unsigned char bad = 0, *count = calloc((size_t)rows, 1);
            Slot slots[] = {{.p = &bad}, {.p = count}, {.i = group}, {.i = rows}};
            assert_int_equal(mod_launch(&k.cx, m, slots, rows, 0), OK);
            assert_int_equal(bad, 0);
            for (int64_t r = 0; r < rows; r++) assert_int_equal(count[r], 1);
            free(count);
        }
        mod_free(m);
    }
    close_desk(&k);
}

static void test_libm(void **state) {
    (void)state;
    static const char text[] = SLOT_TEXT "double exp(double); double log(double);\n"
                                         "void f(const Slot *s, long long b, long long e) {\n"
                                         "    double *y = s[0].p; for (; b < e; b++) y[b] = log(exp(y[b]));\n"
                                         "}\n";
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Unit u = unit_of("f", text);
    Module *m;
    assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
    double y = 1;
    Slot slots[] = {{.p = &y}};
    assert_int_equal(mod_launch(NULL, m, slots, 1, 0), OK);
    assert_true(y == 1);
    mod_free(m);
    close_desk(&k);
}

/* A host program that flushes subnormals changes no bit of a result, and keeps its setting. */
static void test_fp_environment(void **state) {
    (void)state;
#if defined(__x86_64__)
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Module *m = build_scale(&k);
    float x[4] = {1e-40f, -1e-44f, 1e-38f, 3}, y[4];
    uint32_t got[4], want[4] = {142724, 0x8000000E, 0x00D9C7DC, 0x40C00000};
    unsigned char count[1] = {0};
    Slot slots[] = {{.p = x}, {.p = y}, {.p = count}, {.i = 4}};
    unsigned usual = __builtin_ia32_stmxcsr(),
             flush = 0x1F80 | 0x8040 | 0x6000; /* flush, denormals are zero, toward zero */
    __builtin_ia32_ldmxcsr(flush);
    Err err = mod_launch(NULL, m, slots, 1, 0);
    unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(usual);
    assert_int_equal(err, OK);
    assert_int_equal(after, flush);
    memcpy(got, y, sizeof got);
    assert_memory_equal(got, want, sizeof got);
    mod_free(m);
    close_desk(&k);
#else
    skip();
#endif
}

static void test_arguments(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Unit u = unit_of("scale", scale_text);
    Module *m;
    u.entry = "not an identifier; }";
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_ARG);
    u = unit_of("scale", scale_text);
    u.dialect = DIALECT_CUDA;
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_ARG);
    m = build_scale(&k);
    Slot slots[4] = {0};
    const Slot *sets[1] = {slots};
    int64_t ns;
    expect(&k.cx, mod_launch(&k.cx, m, slots, -1, 0), S_ARG);
    assert_int_equal(mod_launch(NULL, m, slots, -1, 0), ERR_ARGUMENT);
    assert_int_equal(mod_launch(NULL, m, slots, 1, -1), ERR_ARGUMENT);
    assert_int_equal(mod_launch(NULL, m, slots, 0, 0), OK);
    expect(&k.cx, mod_time(&k.cx, m, sets, 0, 1, 1, 1, &ns), S_ARG);
    mod_free(m);
    Device *d;
    expect(&k.cx, rt_find(&k.cx, k.rt, "abacus:0", &d), S_RT_NO_DEVICE);
    assert_non_null(strstr(k.cx.last->accept, "host"));
    assert_int_equal(rt_find(&k.cx, k.rt, "best", &d), OK);
    assert_true(rt_devices(k.rt) >= 1);
    assert_ptr_equal(rt_device(k.rt, 0), k.d);
    assert_null(rt_device(k.rt, 1000));
    Rt *rt;
    o.threads = -1;
    expect(&k.cx, rt_open(&k.cx, &o, &rt), S_ARG);
    assert_null(rt);
    o = options();
    o.cache_bytes = -1;
    expect(&k.cx, rt_open(&k.cx, &o, &rt), S_ARG);
    o = options();
    o.isa = (Isa)99;
    expect(&k.cx, rt_open(&k.cx, &o, &rt), S_ARG);
    close_desk(&k);
}

/* ---- memory and time ---- */

static void test_memory(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    for (size_t bytes = 0; bytes < 9 << 20; bytes = bytes * 5 + 1) {
        Mem *m;
        char in[4] = "abc", out[4] = "";
        assert_int_equal(mem_new(&k.cx, k.d, bytes, &m), OK);
        assert_int_equal((uintptr_t)mem_at(m) % 256, 0);
        for (size_t i = 0; i < bytes; i += 1024) assert_int_equal(((char *)mem_at(m))[i], 0);
        if (bytes >= 4) {
            assert_int_equal(mem_write(&k.cx, m, bytes - 4, in, 4), OK);
            assert_int_equal(mem_read(&k.cx, m, bytes - 4, out, 4), OK);
            assert_string_equal(out, "abc");
        }
        assert_int_equal(mem_write(&k.cx, m, bytes, in, 0), OK);
        expect(&k.cx, mem_write(&k.cx, m, bytes, in, 1), S_ARG);
        expect(&k.cx, mem_read(&k.cx, m, SIZE_MAX, out, 4), S_ARG);
        expect(&k.cx, mem_read(&k.cx, m, 1, out, SIZE_MAX), S_ARG);
        mem_free(m);
    }
    Mem *m;
    expect(&k.cx, mem_new(&k.cx, k.d, SIZE_MAX - 5, &m), S_OOM);
    assert_null(m);
    mem_free(NULL);
    close_desk(&k);
}

static void test_time(void **state) {
    (void)state;
    static const char text[] =
        SLOT_TEXT "void tick(const Slot *s, long long b, long long e) { ++*(long long *)s[0].p; (void)b; (void)e; }\n";
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Unit u = unit_of("tick", text);
    Module *m;
    assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
    int64_t n[3] = {0}, ns = 0;
    Slot a = {.p = &n[0]}, b = {.p = &n[1]}, c = {.p = &n[2]};
    const Slot *sets[] = {&a, &b, &c};
    assert_int_equal(mod_time(&k.cx, m, sets, 3, 1, 1, 100, &ns), OK);
    assert_true(ns > 0);
    assert_int_equal(n[0], 34);
    assert_int_equal(n[1], 33);
    assert_int_equal(n[2], 33);
    mod_free(m);
    double copy = 0;
    const char *how = NULL;
    for (int threads = 0; threads <= 2; threads++)
        for (size_t bytes = 1; bytes < 5000000; bytes = bytes * 50 + 13) {
            assert_int_equal(dev_copy_ns(&k.cx, k.d, bytes, threads, 3, &copy, &how), OK);
            assert_true(copy > 0);
            assert_non_null(how);
        }
    assert_int_equal(dev_sync(&k.cx, k.d), OK);
    expect(&k.cx, dev_copy_ns(&k.cx, k.d, 0, 1, 3, &copy, &how), S_ARG);
    close_desk(&k);
}

/* ---- the cache ---- */

/* Spoils the one entry, builds: a miss, a note with this word, a right kernel, and a sound entry afterwards. */
static void check_spoilt(void (*spoil)(const char *path), const char *word) {
    char path[900];
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    mod_free(build_scale(&k));
    close_desk(&k);
    assert_int_equal(entries(path, sizeof path), 1);
    spoil(path);
    open_desk(&k, &o);
    Module *m = build_scale(&k);
    assert_false(mod_facts(m)->from_cache);
    check_scale(m, 2, ROWS);
    mod_free(m);
    assert_non_null(rt_note(k.rt, 0));
    assert_non_null(strstr(rt_note(k.rt, 0), word));
    assert_null(rt_note(k.rt, 1));
    m = build_scale(&k);
    assert_true(mod_facts(m)->from_cache);
    mod_free(m);
    close_desk(&k);
}

static void rewrite(const char *path, long drop, long flip) { /* drop bytes at the end; flip a bit at a place */
    char *p;
    size_t n;
    assert_int_equal(os_read_file(&alloc_libc, path, OS_OURS, 1 << 24, &p, &n), 0);
    if (flip >= 0) p[flip] ^= 4;
    assert_int_equal(os_write_atomic(path, p, n - (size_t)drop, 0600, false), 0);
    free(p);
}
static void flip_payload(const char *path) {
    rewrite(path, 0, 3000);
}
static void flip_head(const char *path) {
    rewrite(path, 0, 60);
}
static void cut_short(const char *path) {
    rewrite(path, 1, -1);
}
static void make_empty(const char *path) {
    assert_int_equal(truncate(path, 0), 0);
}
static void open_to_all(const char *path) {
    assert_int_equal(chmod(path, 0666), 0);
}
static void make_link(const char *path) {
    char other[1000];
    snprintf(other, sizeof other, "%s.other", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
}
/* A sound entry under the key of another kernel. */
static void swap_key(const char *path) {
    char *p;
    size_t n;
    assert_int_equal(os_read_file(&alloc_libc, path, OS_OURS, 1 << 24, &p, &n), 0);
    p[20] = p[20] == '0' ? '1' : '0';
    assert_int_equal(os_write_atomic(path, p, n, 0600, false), 0);
    free(p);
}

static void test_cache_damage(void **state) {
    (void)state;
    check_spoilt(flip_payload, "damaged");
    check_spoilt(flip_head, "damaged");
    check_spoilt(cut_short, "damaged");
    check_spoilt(make_empty, "damaged");
    check_spoilt(swap_key, "damaged");
    check_spoilt(open_to_all, "refused");
    check_spoilt(make_link, "refused");
}

static void test_cache_readonly(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    if (geteuid() == 0) { /* mode bits do not stop root; no user can make files here */
        o.cache_dir = "/proc";
    } else {
        assert_int_equal(os_dir_private(cache), 0);
        assert_int_equal(chmod(cache, 0500), 0);
    }
    open_desk(&k, &o);
    assert_null(rt_note(k.rt, 0));
    for (int i = 0; i < 2; i++) {
        Module *m = build_scale(&k);
        assert_false(mod_facts(m)->from_cache);
        check_scale(m, 2, ROWS);
        mod_free(m);
    }
    assert_non_null(rt_note(k.rt, 0));
    assert_non_null(strstr(rt_note(k.rt, 0), "nothing is added"));
    assert_null(rt_note(k.rt, 1)); /* said once */
    close_desk(&k);
    chmod(cache, 0700);
}

static void check_cache_off(const char *dir, const char *word) {
    Desk k;
    RtOptions o = options();
    o.cache_dir = dir;
    open_desk(&k, &o);
    assert_non_null(rt_note(k.rt, 0));
    assert_non_null(strstr(rt_note(k.rt, 0), word));
    Module *m = build_scale(&k);
    check_scale(m, 1, ROWS);
    mod_free(m);
    close_desk(&k);
}

static void test_cache_off(void **state) {
    (void)state;
    char path[700], longest[3000];
    snprintf(path, sizeof path, "%s/open", box);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    check_cache_off(path, "not ours alone");
    rmdir(path);
    assert_int_equal(os_write_atomic(path, "x", 1, 0600, false), 0);
    check_cache_off(path, "cache off");
    unlink(path);
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = 0;
    check_cache_off(longest, "no usable folder");
}

static char *saved(const char *name) {
    const char *v = getenv(name);
    return v ? strdup(v) : NULL;
}
static void restore(const char *name, char *v) {
    if (v)
        setenv(name, v, 1), free(v);
    else
        unsetenv(name);
}

static void test_cache_place(void **state) {
    (void)state;
    static const char *const names[] = {"ROWFOLD_CACHE", "XDG_CACHE_HOME", "HOME"};
    static const char *const below[] = {"", "/rowfold", "/.cache/rowfold"};
    char *old[3], dir[700], path[900], mid[800];
    struct stat st;
    for (int i = 0; i < 3; i++) old[i] = saved(names[i]);
    RtOptions o = options();
    o.cache_dir = NULL;
    for (int i = 0; i < 3; i++) { /* each with those before it missing */
        for (int j = 0; j < 3; j++) unsetenv(names[j]);
        snprintf(dir, sizeof dir, "%s/place%d", box, i);
        for (int j = i; j < 3; j++) setenv(names[j], j == i ? dir : "/nowhere", 1);
        Desk k;
        open_desk(&k, &o);
        assert_null(rt_note(k.rt, 0));
        close_desk(&k);
        snprintf(path, sizeof path, "%s%s", dir, below[i]);
        assert_int_equal(stat(path, &st), 0);
        rmdir(path);
        snprintf(mid, sizeof mid, "%s/.cache", dir);
        rmdir(mid);
        rmdir(dir);
    }
    for (int j = 0; j < 3; j++) unsetenv(names[j]);
    Desk k;
    open_desk(&k, &o);
    assert_non_null(strstr(rt_note(k.rt, 0), "cache off"));
    close_desk(&k);
    for (int i = 0; i < 3; i++) restore(names[i], old[i]);
}

static void test_cache_eviction(void **state) {
    (void)state;
    char first[900], stray[700];
    struct stat st;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    mod_free(build_scale(&k));
    close_desk(&k);
    assert_int_equal(entries(first, sizeof first), 1);
    assert_int_equal(stat(first, &st), 0);
    o.cache_bytes = 3 * (int64_t)st.st_size + st.st_size / 2; /* room for three */
    snprintf(stray, sizeof stray, "%s/notes.txt", cache);
    assert_int_equal(os_write_atomic(stray, "mine", 4, 0600, false), 0);
    open_desk(&k, &o);
    for (int i = 0; i < 5; i++) {
        char text[2000];
        snprintf(text, sizeof text, "%s/* %d */\n", scale_text, i);
        Unit u = unit_of("scale", text);
        Module *m;
        assert_int_equal(mod_build(&k.cx, k.d, &u, &m), OK);
        mod_free(m);
        assert_in_range(entries(NULL, 0), 2, 4); /* with the stray file */
    }
    assert_int_equal(access(first, F_OK), -1); /* the oldest went */
    assert_int_equal(access(stray, F_OK), 0);
    close_desk(&k);
}

static void test_two_processes(void **state) {
    (void)state;
    enum { PROCESSES = 3 };
    int gate[2];
    pid_t pid[PROCESSES];
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) {
            char c;
            close(gate[1]);
            if (read(gate[0], &c, 1) != 0) _exit(9); /* all at once, when the parent closes its end */
            Desk k;
            RtOptions o = options();
            open_desk(&k, &o);
            Module *m = build_scale(&k);
            check_scale(m, 2, ROWS);
            bool quiet = rt_note(k.rt, 0) == NULL;
            mod_free(m);
            close_desk(&k);
            _exit(quiet ? 0 : 8);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(entries(NULL, 0), 1);
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Module *m = build_scale(&k);
    assert_true(mod_facts(m)->from_cache);
    check_scale(m, 2, ROWS);
    mod_free(m);
    close_desk(&k);
}

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
    setenv("ROWFOLD_CC", "/no/such/cc", 1); /* named, so not replaced by another */
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
    closedir(d);
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
    expect(&k.cx, mod_build(&k.cx, k.d, &u, &m), S_BUILD_IO);
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

/* ---- threads ---- */

static void backwards(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    *(int *)user += n;
    while (n--) task(arg, n);
}

static void test_parallel_for_hook(void **state) {
    (void)state;
    Desk k;
    int tasks = 0;
    RtOptions o = options();
    o.parallel_for = backwards;
    o.parallel_user = &tasks;
    open_desk(&k, &o);
    Module *m = build_scale(&k);
    check_scale(m, 0, ROWS);
    assert_true(tasks >= 2);
    tasks = 0;
    check_scale(m, 1, ROWS);
    check_scale(m, 2, 15); /* 15,000 elements: not worth it */
    assert_int_equal(tasks, 0);
    mod_free(m);
    close_desk(&k);
}

typedef struct Tally {
    Pool *pool;
    _Atomic int done[1000];
} Tally;

static void tally(void *arg, int i) {
    atomic_fetch_add(&((Tally *)arg)->done[i], 1);
}
static void nested(void *arg, int i) {
    Tally *t = arg;
    pool_run(t->pool, 4, 10, tally, t); /* the pool is taken: done at once by this thread */
    (void)i;
}

static void test_pool(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        Tally t = {.pool = pool_new(&alloc_libc, threads)};
        assert_non_null(t.pool);
        int rounds = 3000;
        for (int r = 0; r < rounds; r++) {
            pool_run(t.pool, 1 + r % 5, r % 7, tally, &t);
            if (r % 500 == 0) usleep(300); /* asleep by now */
        }
        int per[7] = {0};
        for (int r = 0; r < rounds; r++)
            for (int i = 0; i < r % 7; i++) per[i]++;
        for (int i = 0; i < 7; i++) assert_int_equal(t.done[i], per[i]);
        for (int i = 0; i < 7; i++) t.done[i] = 0;
        pool_run(t.pool, threads, 1000, tally, &t);
        for (int i = 0; i < 1000; i++) assert_int_equal(t.done[i], 1);
        pool_run(t.pool, threads, 5, nested, &t);
        for (int i = 0; i < 10; i++) assert_int_equal(t.done[i], 6);
        pool_free(t.pool);
    }
    pool_free(NULL);
}

static void *hammer(void *arg) {
    for (int r = 0; r < 500; r++) pool_run(((Tally *)arg)->pool, 2, 8, tally, arg);
    return NULL;
}

static void test_pool_from_many_threads(void **state) {
    (void)state;
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    Tally t = {.pool = pool_new(&alloc_libc, 2)};
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, hammer, &t), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 8; i++) assert_int_equal(t.done[i], THREADS * 500);
    pool_free(t.pool);
}

static int64_t cpu_ns(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return ((int64_t)r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000;
}

static void test_idle_is_quiet(void **state) {
    (void)state;
    Tally t = {.pool = pool_new(&alloc_libc, 2)};
    pool_run(t.pool, 2, 8, tally, &t);
    usleep(20000);
    int64_t before = cpu_ns();
    usleep(200000);
    int64_t used = cpu_ns() - before;
    assert_true(used < 200000000 / 50); /* two per cent of one core, this thread's own waking included */
    pool_free(t.pool);
}

static int fork_and_check(Desk *k, Module *m, bool build) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(30); /* a dead lock ends here */
        for (int i = 0; i < 3; i++) check_scale(m, 2, ROWS);
        if (build) {
            Module *mine = build_scale(k);
            check_scale(mine, 2, ROWS);
            mod_free(mine);
        }
        mod_free(m);
        close_desk(k);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void test_fork(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    Module *m = build_scale(&k);
    assert_int_equal(fork_and_check(&k, m, true), 0); /* before there are threads */
    check_scale(m, 2, ROWS);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fork_and_check(&k, m, i == 0), 0);
        check_scale(m, 2, ROWS); /* the parent's are untouched */
    }
    pid_t pid = fork();
    if (pid == 0) { /* never uses it */
        alarm(30);
        mod_free(m);
        close_desk(&k);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    mod_free(m);
    close_desk(&k);
}

/* ---- null, fault, and no memory ---- */

static void test_null(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    int listed = rt_devices(k.rt);
    Device *d;
    Module *m;
    Mem *mem;
    assert_int_equal(rt_find(&k.cx, k.rt, "null", &d), OK);
    assert_int_equal(rt_devices(k.rt), listed);
    for (int i = 0; i < listed; i++) assert_ptr_not_equal(rt_device(k.rt, i), d);
    Unit u = unit_of("anything", "this is no C");
    assert_int_equal(mod_build(&k.cx, d, &u, &m), OK);
    Slot slot = {0};
    const Slot *sets[] = {&slot};
    int64_t ns;
    double copy;
    const char *how;
    assert_int_equal(mod_launch(NULL, m, &slot, 5, 0), OK);
    assert_int_equal(mod_time(&k.cx, m, sets, 1, 5, 0, 1000, &ns), OK);
    assert_true(ns > 0);
    assert_int_equal(dev_sync(&k.cx, d), OK);
    assert_int_equal(mem_new(&k.cx, d, 100, &mem), OK);
    mem_free(mem);
    expect(&k.cx, dev_copy_ns(&k.cx, d, 100, 1, 1, &copy, &how), S_RT_NOT_OFFERED);
    assert_int_equal(mod_facts(m)->code_bytes, -1);
    mod_free(m);
    close_desk(&k);
}

/* All services of a device once; the number of the first that failed, 0 for none. */
static int all_calls(Desk *k, Device *d) {
    Unit u = unit_of("scale", scale_text);
    Module *m = NULL;
    Mem *mem = NULL;
    float x = 3, y = 0;
    unsigned char count = 0;
    Slot slots[] = {{.p = &x}, {.p = &y}, {.p = &count}, {.i = 1}};
    const Slot *sets[] = {slots};
    int64_t ns;
    double copy;
    const char *how;
    int at = 1;
    Err err = mod_build(&k->cx, d, &u, &m);
    if (!err) at++, err = mem_new(&k->cx, d, 64, &mem);
    if (!err) at++, err = mem_write(&k->cx, mem, 0, &x, 4);
    if (!err) at++, err = mem_read(&k->cx, mem, 0, &x, 4);
    if (!err) at++, err = mod_launch(&k->cx, m, slots, 1, 0);
    if (!err) at++, err = dev_sync(&k->cx, d);
    if (!err) at++, err = mod_time(&k->cx, m, sets, 1, 1, 1, 1, &ns);
    if (!err) at++, err = dev_copy_ns(&k->cx, d, 4096, 1, 1, &copy, &how);
    if (err)
        expect(&k->cx, err, S_RT_FAULT);
    else
        assert_true(y == 6);
    mod_free(m);
    mem_free(mem);
    return err ? at : 0;
}

static void test_fault(void **state) {
    (void)state;
    Desk k;
    RtOptions o = options();
    open_desk(&k, &o);
    for (int i = 1; i <= 9; i++) {
        char name[32];
        Device *d;
        snprintf(name, sizeof name, "fault:%d", i);
        assert_int_equal(rt_find(&k.cx, k.rt, name, &d), OK);
        assert_int_equal(all_calls(&k, d), i <= 8 ? i : 0);
        if (i <= 8) assert_int_equal(all_calls(&k, d), 0); /* that one call and no other */
    }
    Device *d;
    expect(&k.cx, rt_find(&k.cx, k.rt, "fault:0", &d), S_RT_NO_DEVICE);
    expect(&k.cx, rt_find(&k.cx, k.rt, "fault:x", &d), S_RT_NO_DEVICE);
    assert_int_equal(mod_launch(NULL, NULL, NULL, 0, 0), OK);
    close_desk(&k);
}

typedef struct Scarce {
    int left, live; /* calls until one fails; blocks not given back */
} Scarce;
static void *scarce_get(void *user, size_t n) {
    Scarce *s = user;
    if (s->left-- == 0) return NULL;
    s->live++;
    return malloc(n);
}
static void scarce_put(void *user, void *p) {
    ((Scarce *)user)->live--;
    free(p);
}

static void test_out_of_memory(void **state) {
    (void)state;
    bool whole = false;
    int failures = 0;
    for (int k = 0; !whole; k++) {
        assert_true(k < 100);
        os_dir_remove(cache);
        Scarce s = {.left = k};
        const Alloc al = {scarce_get, scarce_put, &s};
        RtOptions o = options();
        o.al = &al;
        Cx cx = {.a = arena_new(NULL, NULL)};
        Rt *rt;
        Module *m = NULL;
        Mem *mem = NULL;
        Unit u = unit_of("scale", scale_text);
        Err err = rt_open(&cx, &o, &rt);
        for (int i = 0; i < 2 && !err; i++) { /* compiled, then from the cache */
            err = mod_build(&cx, rt_device(rt, 0), &u, &m);
            if (!err) check_scale(m, 2, ROWS);
            mod_free(m);
            m = NULL;
        }
        if (!err) err = mem_new(&cx, rt_device(rt, 0), 100, &mem);
        mem_free(mem);
        whole = s.left > 0 && !err;
        if (err) expect(&cx, err, S_OOM), failures++;
        rt_close(rt);
        assert_int_equal(s.live, 0);
        arena_free(cx.a);
    }
    assert_true(failures > 5);
}

static int group_set_up(void **state) {
    (void)state;
    return os_dir_temp(box, sizeof box);
}
static int group_tear_down(void **state) {
    (void)state;
    return os_dir_remove(box);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, clean_up)
    const struct CMUnitTest tests[] = {
        T(test_build_and_launch),
        T(test_every_isa),
        T(test_groups_stay_whole),
        T(test_libm),
        T(test_fp_environment),
        T(test_arguments),
        T(test_memory),
        T(test_time),
        T(test_cache_damage),
        T(test_cache_readonly),
        T(test_cache_off),
        T(test_cache_place),
        T(test_cache_eviction),
        T(test_two_processes),
        T(test_no_compiler),
        T(test_bad_source),
        T(test_both_compilers),
        T(test_parallel_for_hook),
        T(test_pool),
        T(test_idle_is_quiet),
        T(test_pool_from_many_threads),
        T(test_fork),
        T(test_null),
        T(test_fault),
        T(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
