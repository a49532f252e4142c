/* The store: its schema and migration, what it says of files it cannot use, several processes at once, and kill -9 at
 * any moment. */
#include "storedesk.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static void expect_open(StoreMode mode, const char *where, Slug slug) {
    Desk d = desk();
    StoreOptions o = {.where = where, .mode = mode, .busy_ms = 50};
    Err err = store_open(&d.cx, &o, &d.s);
    assert_non_null(d.cx.first);
    assert_string_equal(slug_text(d.cx.first->slug), slug_text(slug));
    assert_int_equal(err, slug_err(slug));
    assert_null(d.s);
    close_desk(&d);
}

/* ---- schema ---- */

static void a_new_file(void **state) {
    (void)state;
    Desk d = desk();
    StoreOptions o = {.where = file, .mode = STORE_READ};
    assert_int_equal(store_open(&d.cx, &o, &d.s), OK); /* reading makes no file */
    assert_null(d.s);
    assert_int_equal(access(file, F_OK), -1);
    open_store(&d);
    assert_string_equal(store_path(d.s), file);
    assert_string_equal(store_note(d.s), "");
    assert_int_equal(ask("PRAGMA application_id"), 0x526f7746);
    assert_int_equal(ask("PRAGMA user_version"), 2);
    assert_int_equal(ask("PRAGMA journal_mode"), 1);
    close_desk(&d);
    int n = 0; /* and nothing of the scratch file is left */
    char cmd[700];
    snprintf(cmd, sizeof cmd, "ls %s | wc -l", box);
    FILE *f = popen(cmd, "r");
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    assert_int_equal(n, 1);
}

static void a_trial_comes_back(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    assert_string_equal(k.shape, "rows=64,n=1000");
    assert_string_equal(k.types, "x=f32,y=f32");
    assert_string_equal(k.strides, "dense");
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 100), back;
    bool found;
    const char *sha = unit_sha(&d, t.plan);
    assert_int_equal(store_find(&d.cx, d.s, &k, 1, t.plan, sha, &found, &back), OK);
    assert_false(found);
    add(&d, &t);
    assert_int_equal(store_find(&d.cx, d.s, &k, 1, t.plan, sha, &found, &back), OK);
    assert_true(found);
    assert_int_equal(back.nsamples, 3);
    assert_true(back.sample_ns[1] == 200 && back.median_ns == 100 && back.calls == 10 && back.worst == 0.25);
    assert_string_equal(back.slug, "");
    store_find(&d.cx, d.s, &k, 2, t.plan, sha, &found, &back); /* another seed */
    assert_false(found);
    store_find(&d.cx, d.s, &k, 1, t.plan, k.program_sha, &found, &back); /* another source */
    assert_false(found);
    StoreKey other = store_key(&d.cx, &d.pb, "another machine", 0);
    store_find(&d.cx, d.s, &other, 1, t.plan, sha, &found, &back);
    assert_false(found);
    t.slug = "oracle.mismatch", t.why = "y[0,1] is 2", t.median_ns = 0, t.nsamples = 0, t.worst = (double)NAN;
    add(&d, &t);
    store_find(&d.cx, d.s, &k, 1, t.plan, sha, &found, &back); /* the youngest */
    assert_true(found);
    assert_string_equal(back.slug, "oracle.mismatch");
    assert_string_equal(back.why, "y[0,1] is 2");
    Filter f;
    const char *json;
    assert_int_equal(filter_read(&d.cx, "softmax shape=rows=64,n=1000 device=machine", &f), OK);
    assert_int_equal(store_trials(&d.cx, d.s, &f, 0, &json), OK);
    assert_non_null(strstr(json, "\"status\":\"oracle.mismatch\""));
    assert_non_null(strstr(json, "\"status\":\"accepted\""));
    assert_true(strstr(json, "oracle.mismatch") < strstr(json, "accepted")); /* youngest first */
    assert_int_equal(store_trials(&d.cx, d.s, &f, 1, &json), OK);
    assert_null(strstr(json, "accepted"));
    assert_int_equal(filter_read(&d.cx, "layernorm", &f), OK);
    assert_int_equal(store_trials(&d.cx, d.s, &f, 0, &json), OK);
    assert_string_equal(json, "[\n]");
    close_desk(&d);
    sqlite3 *db; /* rows are never rewritten, whoever tries */
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE trial SET median_ns = 1", NULL, NULL, NULL), SQLITE_CONSTRAINT);
    assert_string_equal(sqlite3_errmsg(db), "trials are never rewritten");
    assert_int_equal(sqlite3_exec(db, "DELETE FROM trial", NULL, NULL, NULL), SQLITE_CONSTRAINT);
    sqlite3_close(db);
    assert_int_equal(ask("SELECT count(*) FROM trial"), 2);
}

/* A file as version 1 of the schema left it, before there was wisdom. */
static const char version_1[] =
    "CREATE TABLE problem (id INTEGER PRIMARY KEY, sha TEXT NOT NULL UNIQUE, program_sha TEXT NOT NULL,"
    " kernel TEXT NOT NULL, program TEXT NOT NULL, types TEXT NOT NULL, shape TEXT NOT NULL, strides TEXT NOT NULL,"
    " alignment TEXT NOT NULL, promises TEXT NOT NULL, device TEXT NOT NULL, caps TEXT NOT NULL,"
    " rowfold TEXT NOT NULL, threads INTEGER NOT NULL) STRICT;"
    "CREATE TABLE trial (id INTEGER PRIMARY KEY AUTOINCREMENT, problem INTEGER NOT NULL REFERENCES problem(id),"
    " seed INTEGER NOT NULL, plan TEXT NOT NULL, stage TEXT NOT NULL, effort TEXT NOT NULL, slug TEXT NOT NULL,"
    " why TEXT NOT NULL, unit_sha TEXT NOT NULL, facts TEXT NOT NULL, demand TEXT NOT NULL, samples TEXT NOT NULL,"
    " calls INTEGER NOT NULL, median_ns REAL NOT NULL, checked INTEGER NOT NULL, bad INTEGER NOT NULL, worst REAL,"
    " compile_ns INTEGER NOT NULL, from_cache INTEGER NOT NULL, time INTEGER NOT NULL, host TEXT NOT NULL) STRICT;"
    "CREATE INDEX trial_of ON trial (problem, plan);"
    "CREATE TRIGGER trial_kept BEFORE DELETE ON trial BEGIN SELECT raise(ABORT, 'trials are never removed'); END;"
    "CREATE TRIGGER trial_fixed BEFORE UPDATE ON trial BEGIN SELECT raise(ABORT, 'trials are never rewritten'); END;"
    "PRAGMA application_id = 1383036742; PRAGMA user_version = 1;"
    "INSERT INTO problem VALUES (1, 'abc', 'def', 'softmax', '', '', '', '', '', '', 'm', '', '0.0.9', 0);"
    "INSERT INTO trial VALUES (7, 1, 1, 'W=4', 'short', 'measure', '', '', '', '', '', '[5.0]', 1, 5.0, 1, 0, 0.5, 0,"
    " 0, 1000, 'h');";

static void an_older_file(void **state) {
    (void)state;
    tell(version_1);
    Desk d = desk();
    open_store(&d);
    assert_int_equal(ask("PRAGMA user_version"), 2);
    assert_int_equal(ask("SELECT trial FROM wisdom"), 7); /* the old trial is evidence now */
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 100);
    add(&d, &t);
    assert_int_equal(ask("SELECT max(id) FROM trial"), 8);
    close_desk(&d);
    assert_int_equal(ask("PRAGMA integrity_check"), 1);
}

/* ---- files that cannot be used ---- */

static void strange_files(void **state) {
    (void)state;
    tell("PRAGMA application_id = 1383036742; PRAGMA user_version = 3; CREATE TABLE t (x)");
    expect_open(STORE_WRITE, file, S_STORE_NEWER);
    unlink(file);
    tell("CREATE TABLE theirs (x)");
    expect_open(STORE_WRITE, file, S_STORE_NOT_OURS);
    assert_int_equal(ask("SELECT count(*) FROM sqlite_schema"), 1); /* and it was left alone */
    unlink(file);
    FILE *f = fopen(file, "w");
    for (int i = 0; i < 300; i++) fputs("Dear diary, ", f);
    fclose(f);
    expect_open(STORE_WRITE, file, S_STORE_NOT_OURS);
    expect_open(STORE_READ, file, S_STORE_NOT_OURS);
    char path[700];
    snprintf(path, sizeof path, "%s/no/such/folder/t.db", box);
    expect_open(STORE_WRITE, path, S_STORE_FAILED);
    expect_open(STORE_WRITE, box, S_STORE_FAILED); /* a folder */
    memset(path, 'a', sizeof path);
    char *longer = calloc(1, 2000);
    memset(longer, 'a', 1500);
    expect_open(STORE_WRITE, longer, S_STORE_FAILED);
    free(longer);
}

static void a_damaged_file(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 100);
    for (int i = 0; i < 50; i++) add(&d, &t);
    close_desk(&d);
    int fd = open(file, O_RDWR);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    char junk[4096];
    memset(junk, 0x5a, sizeof junk);
    for (off_t at = 4096; at < st.st_size; at += 4096) assert_int_equal(pwrite(fd, junk, 4096, at), 4096);
    close(fd);
    d = desk();
    StoreOptions o = {.where = file, .mode = STORE_WRITE};
    Err err = store_open(&d.cx, &o, &d.s);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    if (!err) err = store_add(&d.cx, d.s, &k, &t);
    assert_int_equal(err, slug_err(S_STORE_DAMAGED));
    assert_string_equal(slug_text(d.cx.first->slug), "store.damaged");
    close_desk(&d);
}

static void a_busy_file(void **state) {
    (void)state;
    Desk d = desk();
    StoreOptions o = {.where = file, .mode = STORE_WRITE, .busy_ms = 50};
    assert_int_equal(store_open(&d.cx, &o, &d.s), OK);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 100);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(store_add(&d.cx, d.s, &k, &t), slug_err(S_STORE_BUSY));
    assert_string_equal(slug_text(d.cx.first->slug), "store.busy");
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(store_add(&d.cx, d.s, &k, &t), OK);
    close_desk(&d);
}

/* Runs f in a process of its own, whose exit code is its verdict. */
static void in_child(void (*f)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        f();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define SURE(x)                                                 \
    if (!(x)) {                                                 \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
        _exit(1);                                               \
    }

static void without_rights(void) {
    if (geteuid() == 0) SURE(setgid(65534) == 0 && setuid(65534) == 0);
    Desk d = desk();
    StoreOptions o = {.where = file, .mode = STORE_WRITE, .busy_ms = 50};
    SURE(store_open(&d.cx, &o, &d.s) == slug_err(S_STORE_READ_ONLY));
    SURE(str_eq(slug_text(d.cx.first->slug), "store.read_only"));
    o.mode = STORE_READ; /* wisdom can still be read */
    SURE(store_open(&d.cx, &o, &d.s) == OK && d.s);
    Wisdom *w;
    int n;
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    SURE(wisdom_near(&d.cx, d.s, &k, &w, &n) == OK && n == 1);
    Filter all = {0};
    int64_t forgotten;
    Cx fresh = {.a = d.cx.a};
    SURE(wisdom_forget(&fresh, d.s, &all, &forgotten) == slug_err(S_STORE_READ_ONLY));
    close_desk(&d);
}

static void a_file_that_cannot_be_written(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 100);
    add(&d, &t);
    close_desk(&d);
    assert_int_equal(chmod(file, 0444), 0);
    assert_int_equal(chmod(box, 0555), 0);
    in_child(without_rights);
    assert_int_equal(chmod(box, 0700), 0);
}

/* A trial that does not fit is an error; those before it stay, and the file is whole. */
static void fill_up(void) {
    Desk d = desk();
    StoreOptions o = {.where = file, .mode = STORE_WRITE, .busy_ms = 50};
    SURE(store_open(&d.cx, &o, &d.s) == OK);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 100);
    char *big = calloc(1, 20001);
    memset(big, 'x', 20000);
    t.why = big;
    int n = 0;
    Err err = OK;
    while (n < 1000 && !(err = store_add(&d.cx, d.s, &k, &t))) n++;
    free(big);
    SURE(n > 0 && err == slug_err(S_STORE_FULL));
    SURE(str_eq(slug_text(d.cx.first->slug), "store.full"));
    close_desk(&d);
    d = desk();
    o.mode = STORE_READ;
    SURE(store_open(&d.cx, &o, &d.s) == OK);
    const char *json;
    SURE(store_trials(&d.cx, d.s, &(Filter){0}, 0, &json) == OK);
    int lines = 0;
    for (const char *at = json; (at = strstr(at, "\"kernel\"")); at++) lines++;
    SURE(lines == n);
    close_desk(&d);
    SURE(ask("PRAGMA integrity_check") == 1);
}

static void fill_up_limited(void) {
    signal(SIGXFSZ, SIG_IGN);
    SURE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){400000, 400000}) == 0);
    fill_up();
}

static void a_full_disk(void **state) {
    (void)state;
    in_child(fill_up_limited);
    if (mount("rowfold-test", box, "tmpfs", 0, "size=400k")) return; /* no right to: the limit above has to do */
    in_child(fill_up);
    assert_int_equal(umount2(box, MNT_DETACH), 0);
}

static void no_write_ahead_log(void **state) {
    (void)state;
    char shm[700];
    snprintf(shm, sizeof shm, "%s.probe-%ld-shm", file, (long)getpid()); /* WAL cannot have its shared memory there */
    assert_int_equal(mkdir(shm, 0700), 0);
    Desk d = desk();
    open_store(&d);
    assert_non_null(strstr(store_note(d.s), "no write-ahead log"));
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 100);
    add(&d, &t);
    close_desk(&d);
    assert_int_equal(rmdir(shm), 0);
    assert_int_equal(ask("PRAGMA journal_mode"), 0);
    assert_int_equal(ask("SELECT count(*) FROM trial"), 1);
}

/* Scratch files of who is gone go; those of who is at it stay. */
static void killed_while_probing(void **state) {
    (void)state;
    const pid_t gone = fork();
    if (gone == 0) _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    const struct {
        long pid;
        const char *tail;
        bool stays;
    } left[] = {{gone, "", false}, {gone, "-wal", false}, {getppid(), "", true}};
    char name[3][700];
    for (int i = 0; i < COUNT(left); i++) {
        snprintf(name[i], sizeof name[i], "%s.probe-%ld%s", file, left[i].pid, left[i].tail);
        assert_int_equal(os_write_atomic(name[i], "", 0, 0600, false), 0);
    }
    Desk d = desk();
    open_store(&d);
    for (int i = 0; i < COUNT(left); i++) assert_int_equal(access(name[i], F_OK) == 0, left[i].stays);
    close_desk(&d);
    unlink(name[2]);
}

/* Room for the store, and not for the probe's log: what the note says is the cause. */
static void probe_limited(void) {
    signal(SIGXFSZ, SIG_IGN);
    SURE(setrlimit(RLIMIT_FSIZE, &(struct rlimit){30000, 30000}) == 0);
    Desk d = desk();
    StoreOptions o = {.where = file, .mode = STORE_WRITE, .busy_ms = 50};
    Err err = store_open(&d.cx, &o, &d.s);
    const char *said = err ? d.cx.first->msg : store_note(d.s);
    if (!strstr(said, "File too large") && !strstr(said, "full")) printf("# %s\n", said);
    SURE(strstr(said, "File too large") || strstr(said, "full"));
    close_desk(&d);
}

static void a_nearly_full_disk(void **state) {
    (void)state;
    in_child(probe_limited);
}

static void file_systems(void **state) {
    (void)state;
    const char *name = NULL;
    assert_true(fs_is_network(0x6969, &name));
    assert_string_equal(name, "NFS");
    assert_true(fs_is_network(0xFFFFFFFFFE534D42u, &name)); /* f_type is signed */
    assert_string_equal(name, "SMB2");
    assert_false(fs_is_network(0xEF53, &name));     /* ext4 */
    assert_false(fs_is_network(0x01021994, &name)); /* tmpfs */
    uint64_t magic;
    assert_true(fs_of(file, &magic));
    assert_false(fs_is_network(magic, &name));
}

static void places(void **state) {
    (void)state;
    Desk d = desk();
    const char *path;
    char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    setenv("ROWFOLD_STORE", "/e/t.db", 1), setenv("XDG_DATA_HOME", "/x", 1), setenv("HOME", "/h", 1);
    assert_int_equal(store_place(&d.cx, "mine.db", &path), OK);
    assert_string_equal(path, "mine.db");
    assert_int_equal(store_place(&d.cx, NULL, &path), OK);
    assert_string_equal(path, "/e/t.db");
    unsetenv("ROWFOLD_STORE");
    assert_int_equal(store_place(&d.cx, "default", &path), OK);
    assert_string_equal(path, "/x/rowfold/trials.db");
    setenv("XDG_DATA_HOME", "x", 1); /* not absolute: to be passed over */
    assert_int_equal(store_place(&d.cx, "", &path), OK);
    assert_string_equal(path, "/h/.local/share/rowfold/trials.db");
    unsetenv("XDG_DATA_HOME"), unsetenv("HOME");
    assert_int_equal(store_place(&d.cx, NULL, &path), slug_err(S_STORE_NOWHERE));
    assert_string_equal(slug_text(d.cx.first->slug), "store.nowhere");
    setenv("HOME", box, 1); /* the default place is made with its folders */
    StoreOptions o = {.mode = STORE_WRITE};
    assert_int_equal(store_open(&d.cx, &o, &d.s), OK);
    assert_int_equal(access(store_path(d.s), F_OK), 0);
    close_desk(&d);
    setenv("HOME", home, 1);
    free(home);
    static const char *const tails[] = {"/.local/share/rowfold", "/.local/share", "/.local"};
    for (int i = 0; i < COUNT(tails); i++) {
        char dir[700];
        snprintf(dir, sizeof dir, "%s%s", box, tails[i]);
        assert_int_equal(os_dir_remove(dir), 0);
    }
}

/* ---- several processes ---- */

enum { EACH = 150 };

static pid_t writer(int who, int pipe_fd, int many) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    Desk d = desk();
    StoreOptions o = {.where = file, .mode = STORE_WRITE};
    SURE(store_open(&d.cx, &o, &d.s) == OK);
    StoreKey k = store_key(&d.cx, &d.pb, "a machine", 0);
    StoreTrial t = a_trial(a_plan(&d, 16), STAGE_SHORT, 100);
    for (int64_t i = 0; i < many; i++) {
        t.seed = (uint64_t)(who * 1000000 + i);
        SURE(store_add(&d.cx, d.s, &k, &t) == OK);
        if (pipe_fd >= 0) SURE(write(pipe_fd, &i, sizeof i) == sizeof i); /* "this one is finished" */
    }
    close_desk(&d);
    _exit(0);
}

static void two_processes_at_once(void **state) {
    (void)state;
    pid_t a = writer(1, -1, EACH), b = writer(2, -1, EACH); /* they also race to make the file */
    int sa, sb;
    assert_int_equal(waitpid(a, &sa, 0), a);
    assert_int_equal(waitpid(b, &sb, 0), b);
    assert_int_equal(sa, 0);
    assert_int_equal(sb, 0);
    assert_int_equal(ask("SELECT count(DISTINCT seed) FROM trial"), 2 * EACH);
    assert_int_equal(ask("SELECT count(*) FROM problem"), 1);
    assert_int_equal(ask("PRAGMA integrity_check"), 1);
}

/* Kills writers at random moments, from before the file exists on, and counts what they said was finished. */
static void kills(int many, uint64_t seed) {
    Rng rng = {seed};
    int64_t finished = 0;
    for (int i = 0; i < many; i++) {
        int fd[2];
        assert_int_equal(pipe(fd), 0);
        pid_t pid = writer(i, fd[1], 1 << 20);
        close(fd[1]);
        int64_t id, got = 0;
        int64_t after = rng_int(&rng, 8); /* trials, and then some microseconds */
        while (got < after && read(fd[0], &id, sizeof id) == sizeof id) got++;
        struct timespec nap = {.tv_nsec = rng_int(&rng, after ? 1000000 : 12000000)};
        nanosleep(&nap, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        while (read(fd[0], &id, sizeof id) == sizeof id) got++;
        close(fd[0]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        finished += got;
        if (!got) continue; /* there may be no table yet */
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM trial WHERE seed / 1000000 = %d", i);
        int64_t kept = ask(sql);
        assert_true(kept == got || kept == got + 1); /* one may have been committed and not yet told of */
        if (i % 8 == 0) assert_int_equal(ask("PRAGMA integrity_check"), 1);
    }
    assert_true(finished > many);
    assert_true(ask("SELECT count(*) FROM trial") >= finished);
    assert_int_equal(ask("PRAGMA integrity_check"), 1);
    Desk d = desk(); /* and it opens as ever */
    open_store(&d);
    close_desk(&d);
}

static void killed_at_any_moment(void **state) {
    (void)state;
    kills(100, 42);
}

static void killed_without_write_ahead_log(void **state) {
    (void)state;
    Desk d = desk();
    open_store(&d);
    close_desk(&d);
    tell("PRAGMA journal_mode = DELETE");
    sqlite3 *db; /* a reader that stays keeps writers from going back to WAL */
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    kills(40, 43);
    sqlite3_close(db);
}

/* ---- running out of memory ---- */

static int left;
static void *scarce(void *user, size_t n) {
    (void)user;
    return left-- > 0 ? malloc(n) : NULL;
}
static void give(void *user, void *p) {
    (void)user;
    free(p);
}

/* Opens and lists; false when memory ran out on the way. */
static bool with_memory(int allocations) {
    static Store *s; /* outlives the jump */
    const Alloc al = {scarce, give, NULL};
    Trap trap;
    left = allocations, s = NULL;
    Arena *a = arena_new(&al, &trap);
    if (!a) return false;
    Cx cx = {.a = a};
    if (!setjmp(trap.at)) {
        StoreOptions o = {.al = &al, .where = file, .mode = STORE_WRITE};
        const char *json;
        Err e = store_open(&cx, &o, &s);
        if (!e) e = store_trials(&cx, s, &(Filter){0}, 0, &json);
        assert_true(e == OK || e == ERR_MEMORY);
        store_close(s);
        arena_free(a);
        return e == OK;
    }
    store_close(s);
    arena_free(a);
    return false;
}

static void little_memory(void **state) {
    (void)state;
    int k = 0;
    while (!with_memory(k)) assert_true(++k < 1000);
    assert_true(k > 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {T(a_new_file),
                                       T(a_trial_comes_back),
                                       T(an_older_file),
                                       T(strange_files),
                                       T(a_damaged_file),
                                       T(a_busy_file),
                                       T(a_file_that_cannot_be_written),
                                       T(a_full_disk),
                                       T(no_write_ahead_log),
                                       T(killed_while_probing),
                                       T(a_nearly_full_disk),
                                       T(file_systems),
                                       T(places),
                                       T(two_processes_at_once),
                                       T(killed_at_any_moment),
                                       T(killed_without_write_ahead_log),
                                       T(little_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
