/* Calls of the operating system -> small functions that return errno values: private folders, whole files, spawned
 * programs, time. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

const char *os_error(int err, char *buf, size_t cap) {
#ifdef __GLIBC__
    return strerror_r(err, buf, cap);
#else
    return strerror_r(err, buf, cap) ? "unknown error" : buf;
#endif
}

/* ---- folders and files ---- */

static bool ours(const struct stat *st) {
    return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

int os_dir_private(const char *path) {
    char at[PATH_MAX];
    size_t n = strlen(path);
    int why = 0; /* what the first folder that is not there was not made for */
    if (n == 0) return ENOENT;
    if (n >= sizeof at) return ENAMETOOLONG;
    for (size_t i = 1; i <= n; i++) { /* a failing mkdir is no news yet: the folder may be there */
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(at, path, i);
        at[i] = 0;
        if (mkdir(at, 0700) && errno != EEXIST && !why) why = errno;
    }
    while (n > 1 && path[n - 1] == '/') n--; /* "link/" would follow the link */
    memcpy(at, path, n);
    at[n] = 0;
    int fd = open(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno == ELOOP ? EPERM : errno == ENOENT && why ? why : errno;
    struct stat st;
    int err = fstat(fd, &st) ? errno : ours(&st) ? 0 : EPERM;
    close(fd);
    return err;
}

static const char work_prefix[] = "rowfold-build-";

static const char *temp_base(void) {
    const char *base = getenv("TMPDIR");
    return base && base[0] == '/' ? base : "/tmp";
}

static int make_temp(const char *prefix, char *out, size_t cap) {
    int n = snprintf(out, cap, "%s/%sXXXXXX", temp_base(), prefix);
    if (n < 0 || (size_t)n >= cap) return ENAMETOOLONG;
    return mkdtemp(out) ? 0 : errno;
}

int os_dir_temp(char *out, size_t cap) {
    return make_temp("rowfold-", out, cap);
}

static int open_dir(const char *path) {
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int os_dir_work(char *out, size_t cap, int *hold) {
    for (int tries = 0;; tries++) {
        int err = make_temp(work_prefix, out, cap);
        if (err) return err;
        *hold = open_dir(out);
        err = *hold < 0 ? errno : 0;
        while (!err && flock(*hold, LOCK_EX) && errno == EINTR) continue;
        if (!err && access(out, F_OK) == 0) return 0;
        /* somebody swept it up before it was locked */
        if (!err) close(*hold);
        rmdir(out);
        if ((err && err != ENOENT) || tries == 8) return err ? err : EAGAIN;
    }
}

void os_dir_sweep(void) {
    const char *base = temp_base();
    DIR *d = opendir(base);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char path[PATH_MAX];
        struct stat st;
        if (strncmp(e->d_name, work_prefix, sizeof work_prefix - 1) != 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", base, e->d_name) >= (int)sizeof path) continue;
        int fd = open_dir(path);
        if (fd < 0) continue;
        if (fstat(fd, &st) == 0 && ours(&st) && flock(fd, LOCK_EX | LOCK_NB) == 0) os_dir_remove(path);
        close(fd);
    }
    closedir(d);
}

int os_dir_remove(const char *path) {
    DIR *d = opendir(path);
    if (!d) return errno;
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    return rmdir(path) ? errno : 0;
}

static int read_all(const Alloc *al, int fd, size_t guess, size_t max, char **out, size_t *n) {
    size_t cap = guess + 2, got = 0; /* one byte to notice growth, one for the 0 */
    char *p = al->get(al->user, cap);
    if (!p) return ENOMEM;
    for (;;) {
        ssize_t r = read(fd, p + got, cap - 1 - got);
        if (r < 0 && errno == EINTR) continue;
        if (r == 0) break;
        int err = r < 0 ? errno : 0;
        if (!err) got += (size_t)r;
        if (!err && got > max) err = EFBIG;
        if (!err && got == cap - 1) {
            char *q = al->get(al->user, cap * 2);
            if (q)
                memcpy(q, p, got);
            else
                err = ENOMEM;
            if (q) al->put(al->user, p), p = q, cap *= 2;
        }
        if (err) {
            al->put(al->user, p);
            return err;
        }
    }
    p[got] = 0;
    *out = p;
    *n = got;
    return 0;
}

int os_read_file(const Alloc *al, const char *path, int whose, size_t max, char **out, size_t *n) {
    /* not to hang on a pipe that somebody put where a file of ours should be */
    int flags = whose == OS_OURS ? O_NOFOLLOW | O_NONBLOCK : 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) return errno == ELOOP && whose == OS_OURS ? EPERM : errno;
    struct stat st;
    int err = fstat(fd, &st) ? errno : 0;
    if (!err && whose == OS_OURS && !(S_ISREG(st.st_mode) && ours(&st))) err = EPERM;
    if (!err && S_ISREG(st.st_mode) && (uint64_t)st.st_size > max) err = EFBIG;
    if (!err) err = read_all(al, fd, S_ISREG(st.st_mode) ? (size_t)st.st_size : 4096, max, out, n);
    close(fd);
    return err;
}

static int write_all(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t r = write(fd, p, n);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return errno;
        p += r;
        n -= (size_t)r;
    }
    return 0;
}

static int sync_parent(const char *path) {
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof dir) return ENAMETOOLONG;
    memcpy(dir, path, n);
    dir[n] = 0;
    int fd = open(n ? dir : slash ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    int err = fsync(fd) && errno != EINVAL ? errno : 0; /* EINVAL: this file system has no such thing */
    close(fd);
    return err;
}

int os_write_atomic(const char *path, const void *p, size_t n, unsigned mode, bool sync) {
    char temp[PATH_MAX];
    int fd = -1;
    Rng rng = {(uint64_t)os_now_ns() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)temp};
    for (int tries = 0; fd < 0; tries++) { /* mkstemp would not respect mode and umask */
        int len = snprintf(temp, sizeof temp, "%s.%08x.tmp", path, (unsigned)rng_u64(&rng));
        if (len < 0 || (size_t)len >= sizeof temp) return ENAMETOOLONG;
        fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)mode);
        if (fd < 0 && (errno != EEXIST || tries >= 100)) return errno;
    }
    int err = write_all(fd, p, n);
    if (!err && sync && fsync(fd)) err = errno;
    if (close(fd) && !err) err = errno; /* network file systems report a full disk here */
    if (!err && rename(temp, path)) err = errno;
    if (err)
        unlink(temp);
    else if (sync)
        err = sync_parent(path);
    return err;
}

/* ---- programs ---- */

static bool executable(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int os_find_program(const char *name, char *out, size_t cap) {
    if (!name[0]) return ENOENT;
    if (strchr(name, '/')) {
        char real[PATH_MAX]; /* absolute, but links kept: compilers look at the name they were called by */
        if (!executable(name)) return ENOENT;
        if (name[0] != '/' && !getcwd(real, sizeof real)) return errno;
        int n = name[0] == '/' ? snprintf(out, cap, "%s", name) : snprintf(out, cap, "%s/%s", real, name);
        return n < 0 || (size_t)n >= cap ? ENAMETOOLONG : 0;
    }
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; *p;) {
        size_t len = strcspn(p, ":");
        int n = snprintf(out, cap, "%.*s/%s", (int)len, p, name);
        /* entries that depend on the working folder are not for a library */
        if (p[0] == '/' && n > 0 && (size_t)n < cap && executable(out)) return 0;
        p += len + (p[len] == ':');
    }
    return ENOENT;
}

/* This process's environment with `over` on top; the strings are shared, the array is the caller's to free. */
static char **merge_env(const Alloc *al, const char *const *over) {
    size_t n = 0, m = 0;
    while (environ && environ[n]) n++;
    while (over && over[m]) m++;
    char **env = al->get(al->user, (n + m + 1) * sizeof *env);
    if (!env) return NULL;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        bool hidden = false;
        for (size_t j = 0; j < m && !hidden; j++) hidden = strncmp(environ[i], over[j], strcspn(over[j], "=") + 1) == 0;
        if (!hidden) env[k++] = environ[i];
    }
    for (size_t j = 0; j < m; j++) env[k++] = (char *)(uintptr_t)over[j]; /* posix_spawn's type lacks a const */
    env[k] = NULL;
    return env;
}

int os_line(char *end, size_t cap) {
#if defined(__linux__) && defined(POSIX_SPAWN_SETSID)
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return -1;
    if (grantpt(fd) == 0 && unlockpt(fd) == 0 && ptsname_r(fd, end, cap) == 0 && access(end, R_OK | W_OK) == 0)
        return fd;
    close(fd);
#endif
    if (cap) end[0] = 0;
    return -1;
}

enum { LINE_FD = 3 }; /* the child keeps it open, or the terminal would be gone */

static int start(const Spawn *s, char **env, int to, const char *line, pid_t *pid) {
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int err = posix_spawn_file_actions_init(&fa);
    if (err) return err;
    err = posix_spawnattr_init(&at);
    if (err) {
        posix_spawn_file_actions_destroy(&fa);
        return err;
    }
    err = posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    if (!err) err = posix_spawn_file_actions_adddup2(&fa, to, 1);
    if (!err) err = posix_spawn_file_actions_adddup2(&fa, to, 2);
    if (!err && *line) err = posix_spawn_file_actions_addopen(&fa, LINE_FD, line, O_RDWR, 0); /* and is ruled by it */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    if (!err) /* what the host program opened without close-on-exec */
        err = posix_spawn_file_actions_addclosefrom_np(&fa, *line ? LINE_FD + 1 : LINE_FD);
#endif
    if (!err) err = posix_spawnattr_setsigmask(&at, &none);
    if (!err) err = posix_spawnattr_setsigdefault(&at, &all);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    /* a session or group of its own, so that a time-out reaches grandchildren */
    if (!err) err = posix_spawnattr_setpgroup(&at, 0);
#ifdef POSIX_SPAWN_SETSID
    flags |= *line ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
#else
    flags |= POSIX_SPAWN_SETPGROUP;
#endif
#ifdef POSIX_SPAWN_CLOEXEC_DEFAULT
    flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#endif
    if (!err) err = posix_spawnattr_setflags(&at, flags);
    if (!err) err = posix_spawn(pid, s->argv[0], &fa, &at, (char *const *)(uintptr_t)s->argv, env);
    posix_spawnattr_destroy(&at);
    posix_spawn_file_actions_destroy(&fa);
    return err;
}

/* Takes what is in the pipe; false at its end. What does not fit is read and dropped, or the child would block. */
static bool drain(int fd, const Spawn *s, size_t *n) {
    char spill[4096];
    for (;;) {
        size_t room = s->cap ? s->cap - 1 - *n : 0;
        ssize_t r = room ? read(fd, s->out + *n, room) : read(fd, spill, sizeof spill);
        if (r == 0) return false;
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (room) *n += (size_t)r;
    }
}

static bool reap(pid_t pid, int flags, Ended *end) {
    int status = 0;
    pid_t r;
    do r = waitpid(pid, &status, flags);
    while (r < 0 && errno == EINTR);
    if (r == 0) return false;
    if (r < 0)
        end->lost = true; /* ECHILD */
    else
        end->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

static void nap(int64_t ns) {
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

int os_spawn(const Alloc *al, const Spawn *s, Ended *end) {
    *end = (Ended){0};
    if (s->cap) s->out[0] = 0;
    int fd[2];
#ifdef __linux__
    if (pipe2(fd, O_CLOEXEC)) return errno;
#else
    if (pipe(fd)) return errno;
#endif
    for (int i = 0; i < 2; i++) { /* above 2, where the child's own 0, 1, 2 cannot overwrite it */
        int high = fcntl(fd[i], F_DUPFD_CLOEXEC, 3), err = errno;
        close(fd[i]);
        fd[i] = high;
        if (high >= 0) continue;
        close(fd[!i]);
        return err;
    }
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    pid_t pid = 0;
    int64_t deadline = os_now_ns() + s->timeout_ns;
    char **env = merge_env(al, s->env);
    char end_name[64] = "";
    int line = os_line(end_name, sizeof end_name);
    int err = env ? start(s, env, fd[1], end_name, &pid) : ENOMEM;
    if (env) al->put(al->user, env);
    close(fd[1]);
    bool open_end = true;
    size_t n = 0;
    for (int64_t pause = 20000; !err;) {
        int64_t left = deadline - os_now_ns();
        if (left <= 0 || (s->over && s->over(s->user))) {
            if (reap(pid, WNOHANG, end)) break; /* it ended while we were not looking, perhaps stopped ourselves */
            kill(-pid, SIGKILL);
            end->timed_out = true;
            reap(pid, 0, end);
            break;
        }
        if (open_end) { /* a grandchild may hold the pipe open after the child ended: look every 50 ms */
            struct pollfd pf = {.fd = fd[0], .events = POLLIN};
            int r = poll(&pf, 1, (int)(i64_min(left, 50000000) / 1000000) + 1);
            if (r > 0) {
                open_end = drain(fd[0], s, &n);
                continue;
            }
        } else {
            nap(i64_min(left, pause));
            pause = i64_min(pause * 2, 2000000);
        }
        if (reap(pid, WNOHANG, end)) break;
    }
    if (!err && open_end) drain(fd[0], s, &n);
    if (s->cap) s->out[n] = 0;
    close(fd[0]);
    if (line >= 0) close(line);
    return err;
}

/* ---- time and processors ---- */

bool cx_over(const Cx *cx) {
    enum { EVERY_NS = 100000000 };
    Stop *s = cx->stop;
    if (!s) return false;
    if (s->asked && os_now_ns() >= s->next_ns) {
        s->next_ns = os_now_ns() + EVERY_NS;
        if (s->asked(s->user)) stop_now(s);
    }
    return __atomic_load_n(&s->over, __ATOMIC_RELAXED);
}

void stop_now(Stop *s) {
    __atomic_store_n(&s->over, true, __ATOMIC_RELAXED);
}

Err cx_stopped(Cx *cx) {
    return diag(cx, S_SEARCH_STOPPED, NOWHERE, NULL, "stopped by the caller");
}

int64_t os_unix_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t os_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double quota_memory(void) {
#ifdef __linux__
    char line[64], *end;
    FILE *f = fopen("/sys/fs/cgroup/memory.max", "re");
    if (!f) return (double)INFINITY;
    const double bytes = fgets(line, sizeof line, f) ? strtod(line, &end) : 0; /* "max" where there is none */
    fclose(f);
    if (bytes > 0) return bytes;
#endif
    return (double)INFINITY;
}

double os_memory(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const double most = quota_memory();
    return pages > 0 && page > 0 ? fmin(most, (double)pages * (double)page) : most;
}

static int quota_cpus(void) { /* 0: no limit known */
#ifdef __linux__
    char line[64], *end;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f) return 0;
    bool got = fgets(line, sizeof line, f);
    fclose(f);
    int64_t quota = got ? strtoll(line, &end, 10) : 0; /* "200000 100000", or "max 100000" where there is none */
    int64_t period = quota > 0 ? strtoll(end, NULL, 10) : 0;
    if (period > 0) return (int)i64_min(ceil_div(quota, period), INT_MAX);
#endif
    return 0;
}

int os_cpus(void) {
    int n = 0;
#ifdef __linux__
    for (int max = 1024; n == 0 && max <= 1 << 16; max *= 2) { /* EINVAL while the set is smaller than the kernel's */
        cpu_set_t *set = CPU_ALLOC((size_t)max);
        if (!set) break;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)max), set) == 0)
            n = CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)max), set);
        CPU_FREE(set);
    }
#endif
    if (n < 1) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = quota_cpus();
    if (quota && quota < n) n = quota;
    return n < 1 ? 1 : n;
}
