/* rt/cache: kernels kept on disk, and everything that can be wrong with the folder and its entries. */
#include "rtdesk.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    rewrite(path, 0, 1000);
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
    check_cache_off(longest, "names an absolute path of a folder");
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

int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_cache_damage), T(test_cache_readonly), T(test_cache_off),
        T(test_cache_place),  T(test_cache_eviction), T(test_two_processes),
    };
    return RUN(tests);
}
