/* base/os: private folders, whole files, atomic writes, spawned programs, time, processors. */
#include "../../src/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char box[512]; /* a private folder of the test */

static const char *in_box(const char *name, char path[1024]) {
    snprintf(path, 1024, "%s/%s", box, name);
    return path;
}

static int set_up(void **state) {
    (void)state;
    return os_dir_temp(box, sizeof box);
}

static int tear_down(void **state) {
    (void)state;
    return os_dir_remove(box);
}

static void put(const char *path, const char *text) {
    assert_int_equal(os_write_atomic(path, text, strlen(text), 0644, false), 0);
}

static void test_dir_private(void **state) {
    (void)state;
    char deep[1024], top[1024], path[1024];
    struct stat st;
    in_box("a/b/c", deep);
    in_box("a", top);
    assert_int_equal(os_dir_private(deep), 0);
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(os_dir_private(deep), 0); /* again */
    assert_int_equal(chmod(deep, 0720), 0);
    assert_int_equal(os_dir_private(deep), EPERM);
    assert_int_equal(chmod(deep, 0702), 0);
    assert_int_equal(os_dir_private(deep), EPERM);
    assert_int_equal(chmod(deep, 0755), 0); /* others may look */
    assert_int_equal(os_dir_private(deep), 0);
    assert_int_equal(symlink(deep, in_box("link", path)), 0);
    assert_int_not_equal(os_dir_private(path), 0);
    in_box("link/", path);
    assert_int_not_equal(os_dir_private(path), 0);
    unlink(in_box("link", path));
    if (geteuid() == 0) { /* only root can give a folder away */
        assert_int_equal(chown(deep, 12345, 12345), 0);
        assert_int_equal(os_dir_private(deep), EPERM);
    }
    put(in_box("file", path), "x");
    assert_int_equal(os_dir_private(path), ENOTDIR);
    in_box("file/below", path);
    assert_int_equal(os_dir_private(path), ENOTDIR);
    assert_int_equal(os_dir_private(""), ENOENT);
    unlink(in_box("file", path));
    rmdir(deep);
    rmdir(in_box("a/b", path));
    rmdir(top);
}

static void test_read_file(void **state) {
    (void)state;
    char path[1024], link[1024];
    char *p;
    size_t n;
    put(in_box("f", path), "hello");
    assert_int_equal(os_read_file(&alloc_libc, path, OS_OURS, 5, &p, &n), 0);
    assert_int_equal(n, 5);
    assert_string_equal(p, "hello");
    free(p);
    assert_int_equal(os_read_file(&alloc_libc, path, OS_OURS, 4, &p, &n), EFBIG);
    assert_int_equal(os_read_file(&alloc_libc, in_box("none", link), OS_ANY, 9, &p, &n), ENOENT);
    assert_int_equal(os_read_file(&alloc_libc, box, OS_ANY, 9, &p, &n), EISDIR);
    assert_int_equal(os_read_file(&alloc_libc, box, OS_OURS, 9, &p, &n), EPERM);
    assert_int_equal(symlink(path, in_box("l", link)), 0);
    assert_int_equal(os_read_file(&alloc_libc, link, OS_ANY, 9, &p, &n), 0);
    free(p);
    assert_int_equal(os_read_file(&alloc_libc, link, OS_OURS, 9, &p, &n), EPERM);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(mkfifo(link, 0600), 0);
    assert_int_equal(os_read_file(&alloc_libc, link, OS_OURS, 9, &p, &n), EPERM); /* and does not hang */
    assert_int_equal(unlink(link), 0);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(os_read_file(&alloc_libc, path, OS_OURS, 9, &p, &n), EPERM);
    /* a file without a size: as long as it is, and no longer than allowed */
    assert_int_equal(os_read_file(&alloc_libc, "/dev/zero", OS_ANY, 10000, &p, &n), EFBIG);
    assert_int_equal(os_read_file(&alloc_libc, "/proc/self/status", OS_ANY, 1 << 20, &p, &n), 0);
    assert_int_equal(strlen(p), n);
    assert_true(n > 100);
    free(p);
    unlink(path);
}

static void *get_none(void *user, size_t n) {
    (void)user, (void)n;
    return NULL;
}
static void put_none(void *user, void *p) {
    (void)user, (void)p;
}

static void test_no_memory(void **state) {
    (void)state;
    const Alloc none = {get_none, put_none, NULL};
    char *p, out[16];
    size_t n;
    const char *argv[] = {"/bin/true", NULL};
    Ended end;
    assert_int_equal(os_read_file(&none, "/proc/self/status", OS_ANY, 1 << 20, &p, &n), ENOMEM);
    assert_int_equal(
        os_spawn(&none, &(Spawn){.argv = argv, .timeout_ns = 1000000000, .out = out, .cap = sizeof out}, &end), ENOMEM);
}

static int files_in_box(void) {
    char cmd[1024], out[64];
    const char *argv[] = {"/bin/sh", "-c", cmd, NULL};
    Ended end;
    snprintf(cmd, sizeof cmd, "ls -A %s | wc -l", box);
    assert_int_equal(
        os_spawn(&alloc_libc, &(Spawn){.argv = argv, .timeout_ns = 5000000000, .out = out, .cap = sizeof out}, &end),
        0);
    return (int)strtol(out, NULL, 10);
}

static void test_write_atomic(void **state) {
    (void)state;
    char path[1024], big[20000], *p;
    size_t n;
    struct stat st;
    memset(big, 'x', sizeof big);
    mode_t mask = umask(022);
    put(in_box("f", path), "old");
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    /* a full disk: the old file stays, nothing else remains */
    struct rlimit was, small = {.rlim_cur = 4096};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int err = os_write_atomic(path, big, sizeof big, 0644, true);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(err, EFBIG);
    assert_int_equal(files_in_box(), 1);
    assert_int_equal(os_read_file(&alloc_libc, path, OS_OURS, 99, &p, &n), 0);
    assert_string_equal(p, "old");
    free(p);
    assert_int_equal(os_write_atomic(path, big, sizeof big, 0600, true), 0);
    assert_int_equal(os_read_file(&alloc_libc, path, OS_OURS, sizeof big, &p, &n), 0);
    assert_int_equal(n, sizeof big);
    free(p);
    assert_int_equal(files_in_box(), 1);
    assert_int_equal(os_write_atomic(box, "x", 1, 0600, false), EISDIR);
    assert_int_equal(os_write_atomic("/nowhere/at/all", "x", 1, 0600, false), ENOENT);
    unlink(path);
}

static int run(const char *script, int64_t timeout_ns, char *out, size_t cap, Ended *end) {
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    const char *env[] = {"ROWFOLD_TEST=it is me", NULL};
    return os_spawn(&alloc_libc, &(Spawn){.argv = argv, .env = env, .timeout_ns = timeout_ns, .out = out, .cap = cap},
                    end);
}

static bool second_time(void *user) {
    return ++*(int *)user == 2;
}

/* Whoever waits may change his mind. */
static void test_spawn_over(void **state) {
    (void)state;
    const char *argv[] = {"/bin/sh", "-c", "sleep 100 & sleep 100", NULL};
    Ended end;
    int asked = 0;
    const Spawn s = {.argv = argv, .timeout_ns = 60000000000, .over = second_time, .user = &asked};
    const int64_t from = os_now_ns();
    assert_int_equal(os_spawn(&alloc_libc, &s, &end), 0);
    assert_true(end.timed_out && asked == 2);
    assert_in_range(os_now_ns() - from, 0, 20000000000);
}

static bool late(void *user) {
    const struct timespec half = {.tv_nsec = 500000000};
    nanosleep(&half, NULL);
    return ++*(int *)user > 0;
}

/* What ended before anybody looked again has ended, whatever the clock says by then. */
static void test_spawn_not_looked_at(void **state) {
    (void)state;
    const char *argv[] = {"/bin/sh", "-c", "echo said; exit 7", NULL};
    char out[16];
    Ended end;
    int asked = 0;
    const Spawn s = {
        .argv = argv, .timeout_ns = 100000000, .over = late, .user = &asked, .out = out, .cap = sizeof out};
    assert_int_equal(os_spawn(&alloc_libc, &s, &end), 0);
    assert_true(!end.timed_out && end.code == 7);
    assert_string_equal(out, "said\n");
}

static void test_spawn(void **state) {
    (void)state;
    char out[64], path[1024];
    Ended end;
    const int64_t second = 1000000000;
    assert_int_equal(run("echo out; echo err >&2; exit 3", 5 * second, out, sizeof out, &end), 0);
    assert_string_equal(out, "out\nerr\n");
    assert_int_equal(end.code, 3);
    assert_false(end.timed_out || end.lost);
    assert_int_equal(run("echo $ROWFOLD_TEST", 5 * second, out, sizeof out, &end), 0);
    assert_string_equal(out, "it is me\n");
    assert_int_equal(run("kill -9 $$", 5 * second, out, sizeof out, &end), 0);
    assert_int_equal(end.code, 128 + 9);
    /* more output than asked for does not block the child */
    assert_int_equal(
        run("i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done", 20 * second, out, sizeof out, &end),
        0);
    assert_int_equal(end.code, 0);
    assert_int_equal(strlen(out), sizeof out - 1);
    assert_int_equal(run("cat", 5 * second, NULL, 0, &end), 0); /* its stdin is empty */
    assert_int_equal(end.code, 0);
    const char *argv[] = {in_box("none", path), NULL};
    assert_int_equal(
        os_spawn(&alloc_libc, &(Spawn){.argv = argv, .timeout_ns = second, .out = out, .cap = sizeof out}, &end),
        ENOENT);
    const char *odd[] = {"/bin/echo", "$(id); `id` * \"", NULL}; /* no shell */
    assert_int_equal(
        os_spawn(&alloc_libc, &(Spawn){.argv = odd, .timeout_ns = 5 * second, .out = out, .cap = sizeof out}, &end), 0);
    assert_string_equal(out, "$(id); `id` * \"\n");
}

static void test_spawn_timeout(void **state) {
    (void)state;
    char out[64], path[1024], script[2048];
    Ended end;
    in_box("pid", path);
    /* the grandchild is killed too */
    snprintf(script, sizeof script, "sleep 60 & echo $! > %s; echo started; wait", path);
    int64_t from = os_now_ns();
    assert_int_equal(run(script, 300000000, out, sizeof out, &end), 0);
    int64_t took = os_now_ns() - from;
    assert_true(end.timed_out);
    assert_string_equal(out, "started\n");
    assert_in_range(took, 300000000, 5000000000);
    char *p;
    size_t n;
    assert_int_equal(os_read_file(&alloc_libc, path, OS_ANY, 99, &p, &n), 0);
    int pid = (int)strtol(p, NULL, 10), gone = 0;
    free(p);
    assert_true(pid > 1);
    for (int i = 0; i < 200 && !gone; i++) { /* killed; init may take a moment to bury it */
        char name[64], *text;
        snprintf(name, sizeof name, "/proc/%d/stat", pid);
        gone = os_read_file(&alloc_libc, name, OS_ANY, 4096, &text, &n) != 0;
        if (!gone) gone = strstr(text, ") Z ") != NULL, free(text);
        usleep(10000);
    }
    assert_true(gone);
    /* closes its output and stays */
    assert_int_equal(run("exec >&- 2>&-; sleep 60", 200000000, out, sizeof out, &end), 0);
    assert_true(end.timed_out);
    /* ends, and leaves somebody who holds its output */
    from = os_now_ns();
    assert_int_equal(run("sleep 2 & echo done", 10000000000, out, sizeof out, &end), 0);
    assert_false(end.timed_out);
    assert_string_equal(out, "done\n");
    assert_true(os_now_ns() - from < 1500000000);
    unlink(path);
}

static int open_fds(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_spawn_descriptors(void **state) {
    (void)state;
    char out[256];
    Ended end;
    int before = open_fds();
    int leaky = open("/dev/null", O_RDONLY); /* no close-on-exec, as host programs do */
    int kept = dup2(leaky, 77);
    assert_int_equal(kept, 77);
    assert_int_equal(
        run("if [ -e /proc/self/fd/77 ]; then echo leaked; else echo clean; fi", 5000000000, out, sizeof out, &end), 0);
    assert_string_equal(out, "clean\n");
    close(leaky);
    close(kept);
    assert_int_equal(open_fds(), before);
    /* a host program without stdin: our pipe may get number 0 */
    int in = dup(0);
    close(0);
    assert_int_equal(run("cat; echo ok", 5000000000, out, sizeof out, &end), 0);
    if (in >= 0) dup2(in, 0), close(in);
    assert_string_equal(out, "ok\n");
    /* a host program that ignores SIGCHLD: no exit code, and it says so */
    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(run("echo here", 5000000000, out, sizeof out, &end), 0);
    signal(SIGCHLD, SIG_DFL);
    assert_true(end.lost);
    assert_string_equal(out, "here\n");
}

static void test_find_program(void **state) {
    (void)state;
    char out[1024], path[1024], *was = getenv("PATH"), *old = strdup(was ? was : "");
    assert_int_equal(os_find_program("sh", out, sizeof out), 0);
    assert_int_equal(out[0], '/');
    assert_int_equal(access(out, X_OK), 0);
    assert_int_equal(os_find_program("no-such-program-here", out, sizeof out), ENOENT);
    assert_int_equal(os_find_program("", out, sizeof out), ENOENT);
    assert_int_equal(os_find_program("/bin/sh", out, sizeof out), 0);
    assert_string_equal(out, "/bin/sh");
    assert_int_equal(os_find_program("/bin", out, sizeof out), ENOENT); /* a folder */
    assert_int_equal(os_find_program("/bin/sh", out, 3), ENAMETOOLONG);
    put(in_box("tool", path), "#!/bin/sh\n");
    setenv("PATH", box, 1);
    assert_int_equal(os_find_program("tool", out, sizeof out), ENOENT); /* not executable */
    chmod(path, 0755);
    assert_int_equal(os_find_program("tool", out, sizeof out), 0);
    assert_string_equal(out, path);
    /* the working folder is not searched */
    char here[1024];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(box), 0);
    setenv("PATH", ".::relative", 1);
    assert_int_equal(os_find_program("tool", out, sizeof out), ENOENT);
    assert_int_equal(os_find_program("./tool", out, sizeof out), 0);
    assert_int_equal(out[0], '/');
    assert_int_equal(chdir(here), 0);
    setenv("PATH", old, 1);
    free(old);
    unlink(path);
}

static void test_time_and_cpus(void **state) {
    (void)state;
    int64_t a = os_now_ns();
    usleep(2000);
    assert_true(os_now_ns() - a >= 2000000);
    assert_in_range(os_cpus(), 1, 1 << 16);
    assert_true(os_cpus() <= sysconf(_SC_NPROCESSORS_CONF));
    char buf[128];
    assert_non_null(strstr(os_error(ENOENT, buf, sizeof buf), "o such file"));
}

static void test_dir_remove(void **state) {
    (void)state;
    char dir[1024], path[1100];
    assert_int_equal(os_dir_temp(dir, sizeof dir), 0);
    snprintf(path, sizeof path, "%s/f", dir);
    put(path, "x");
    assert_int_equal(os_dir_remove(dir), 0);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(os_dir_remove(dir), ENOENT);
}

/* ---- a process that is killed ---- */

static bool gone(pid_t pid) {
    for (int i = 0; i < 500; i++, usleep(10000)) { /* up to 5 s on a busy machine */
        char path[64], state = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *f = fopen(path, "r");
        if (!f) return true;
        if (fscanf(f, "%*d %*s %c", &state) != 1 || state == 'Z' || state == 'X') state = 0;
        fclose(f);
        if (!state) return true;
    }
    return false;
}

/* Its child, and what that started, end with it, though nobody was left to tell them. */
static void test_spawn_orphans(void **state) {
    (void)state;
    char line[64], path[1100], script[4000], *text = NULL;
    const int end = os_line(line, sizeof line);
    if (end < 0) {
        print_message("# skipped: no pseudo terminals here\n");
        skip();
    }
    close(end);
    snprintf(path, sizeof path, "%s/pids", box);
    snprintf(script, sizeof script, "sleep 300 & echo $$ $! > %s.new; mv %s.new %s; wait", path, path, path);
    const pid_t parent = fork();
    if (parent == 0) {
        const char *argv[] = {"/bin/sh", "-c", script, NULL};
        Ended e;
        os_spawn(&alloc_libc, &(Spawn){.argv = argv, .timeout_ns = 300000000000}, &e);
        _exit(0);
    }
    size_t n;
    for (int i = 0; i < 500 && os_read_file(&alloc_libc, path, OS_ANY, 100, &text, &n); i++) usleep(10000);
    assert_non_null(text);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    char *rest;
    const long shell = strtol(text, &rest, 10), sleeper = strtol(rest, NULL, 10);
    assert_true(shell > 1 && sleeper > 1);
    assert_true(gone((pid_t)shell));
    assert_true(gone((pid_t)sleeper));
    free(text);
    unlink(path);
}

/* A folder whose process was killed is swept up; one that is in use is not. */
static void test_sweep(void **state) {
    (void)state;
    char mine[1024], dead[1024], file[1100], keep[1100];
    int hold, to[2];
    const char *before = getenv("TMPDIR");
    char *was = before ? strdup(before) : NULL;
    setenv("TMPDIR", box, 1);
    assert_int_equal(pipe(to), 0);
    const pid_t child = fork();
    if (child == 0) {
        char dir[1024] = "";
        int own;
        if (os_dir_work(dir, sizeof dir, &own) == 0) {
            snprintf(file, sizeof file, "%s/kernel.c", dir);
            put(file, "x");
            if (write(to[1], dir, sizeof dir) < 0) _exit(1);
        }
        pause();
    }
    assert_int_equal(read(to[0], dead, sizeof dead), (int)sizeof dead);
    assert_int_equal(os_dir_work(mine, sizeof mine, &hold), 0);
    snprintf(keep, sizeof keep, "%s/rowfold-other", box);
    assert_int_equal(os_dir_private(keep), 0);
    os_dir_sweep();
    assert_int_equal(access(dead, F_OK), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    os_dir_sweep();
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(mine, F_OK), 0);
    assert_int_equal(access(keep, F_OK), 0);
    assert_int_equal(os_dir_remove(mine), 0);
    close(hold);
    rmdir(keep);
    close(to[0]), close(to[1]);
    was ? setenv("TMPDIR", was, 1) : unsetenv("TMPDIR");
    free(was);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spawn_orphans),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_dir_private),
        cmocka_unit_test(test_read_file),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_write_atomic),
        cmocka_unit_test(test_spawn),
        cmocka_unit_test(test_spawn_over),
        cmocka_unit_test(test_spawn_not_looked_at),
        cmocka_unit_test(test_spawn_timeout),
        cmocka_unit_test(test_find_program),
        cmocka_unit_test(test_spawn_descriptors),
        cmocka_unit_test(test_time_and_cpus),
        cmocka_unit_test(test_dir_remove),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
