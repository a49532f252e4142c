/* What rowfold asks of the operating system and of SQLite, as the linker puts it between (-Wl,--wrap): each call of the
 * table fails in its turn with the error beside it. Those that give something back do so first. */
#ifndef ROWFOLD_TEST_SYSTEM_CALLS_H
#define ROWFOLD_TEST_SYSTEM_CALLS_H

#include "turns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static Turn of_system, of_sqlite;
static void (*told_of)(const char *what); /* a call is just failing; NULL: nobody cares */

/* A sanitizer's own start calls some of these too, before it is ready for code that it checks. */
#define PLAIN __attribute__((no_sanitize("address"))) __attribute__((no_sanitize("undefined")))

PLAIN static bool in_turn(Turn *t, const char *what) {
    if (__atomic_load_n(&t->left, __ATOMIC_RELAXED) < 1) return false;
    __atomic_add_fetch(&t->calls, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_sub(&t->left, 1, __ATOMIC_RELAXED) != 1) return false;
    t->failed = what;
    if (told_of) told_of(what);
    return true;
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
#define CALL(result, name, params, args, code, failing) \
    result __real_##name params;                        \
    result __wrap_##name params;                        \
    PLAIN result __wrap_##name params {                 \
        if (in_turn(&of_system, #name)) {               \
            errno = code;                               \
            return failing;                             \
        }                                               \
        return __real_##name args;                      \
    }
/* after the call itself */
#define GIVE(name, params, args, code, failing)      \
    int __real_##name params;                        \
    int __wrap_##name params;                        \
    PLAIN int __wrap_##name params {                 \
        const int got = __real_##name args;          \
        if (!in_turn(&of_system, #name)) return got; \
        errno = code;                                \
        return failing;                              \
    }
CALL(int, open64, (const char *p, int how, mode_t mode), (p, how, mode), EMFILE, -1)
CALL(int, fcntl64, (int fd, int what, long x), (fd, what, x), EMFILE, -1)
CALL(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), EIO, -1)
CALL(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), ENOSPC, -1)
CALL(int, fsync, (int fd), (fd), EIO, -1)
CALL(int, rename, (const char *a, const char *b), (a, b), EIO, -1)
CALL(int, mkdir, (const char *p, mode_t m), (p, m), ENOSPC, -1)
CALL(char *, mkdtemp, (char *p), (p), ENOSPC, NULL)
CALL(DIR *, opendir, (const char *p), (p), EMFILE, NULL)
CALL(struct dirent *, readdir64, (DIR * d), (d), EIO, NULL)
CALL(int, fstat64, (int fd, struct stat *s), (fd, s), EIO, -1)
CALL(int, stat64, (const char *p, struct stat *s), (p, s), EIO, -1)
CALL(int, fstatat64, (int d, const char *p, struct stat *s, int how), (d, p, s, how), EIO, -1)
CALL(int, access, (const char *p, int how), (p, how), EIO, -1)
CALL(int, flock, (int fd, int how), (fd, how), ENOLCK, -1)
CALL(int, pipe2, (int *fd, int how), (fd, how), EMFILE, -1)
CALL(int, poll, (struct pollfd * p, nfds_t n, int ms), (p, n, ms), ENOMEM, -1)
CALL(int, posix_spawn,
     (pid_t * pid, const char *p, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *b, char *const *argv,
      char *const *env),
     (pid, p, a, b, argv, env), EAGAIN, EAGAIN)
CALL(int, posix_spawn_file_actions_init, (posix_spawn_file_actions_t * a), (a), ENOMEM, ENOMEM)
CALL(int, posix_spawnattr_init, (posix_spawnattr_t * a), (a), ENOMEM, ENOMEM)
CALL(int, posix_spawn_file_actions_adddup2, (posix_spawn_file_actions_t * a, int x, int y), (a, x, y), ENOMEM, ENOMEM)
CALL(int, posix_spawn_file_actions_addopen,
     (posix_spawn_file_actions_t * a, int fd, const char *p, int how, mode_t mode), (a, fd, p, how, mode), ENOMEM,
     ENOMEM)
CALL(int, posix_spawn_file_actions_addclosefrom_np, (posix_spawn_file_actions_t * a, int from), (a, from), ENOMEM,
     ENOMEM)
CALL(int, posix_spawnattr_setsigmask, (posix_spawnattr_t * a, const sigset_t *s), (a, s), EINVAL, EINVAL)
CALL(int, posix_spawnattr_setsigdefault, (posix_spawnattr_t * a, const sigset_t *s), (a, s), EINVAL, EINVAL)
CALL(int, posix_spawnattr_setpgroup, (posix_spawnattr_t * a, pid_t g), (a, g), EINVAL, EINVAL)
CALL(int, posix_spawnattr_setflags, (posix_spawnattr_t * a, short flags), (a, flags), EINVAL, EINVAL)
CALL(int, socketpair, (int of, int type, int protocol, int *fd), (of, type, protocol, fd), EMFILE, -1)
CALL(ssize_t, send, (int fd, const void *p, size_t n, int how), (fd, p, n, how), ENOBUFS, -1)
CALL(ssize_t, recv, (int fd, void *p, size_t n, int how), (fd, p, n, how), ENOMEM, -1)
CALL(int, posix_openpt, (int how), (how), EAGAIN, -1)
CALL(int, pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *x), (t, a, f, x), EAGAIN,
     EAGAIN)
CALL(void *, dlopen, (const char *p, int how), (p, how), ENOMEM, NULL)
CALL(void *, dlsym, (void *lib, const char *name), (lib, name), ENOMEM, NULL)
CALL(FILE *, fopen64, (const char *p, const char *how), (p, how), EMFILE, NULL)
GIVE(close, (int fd), (fd), EIO, -1)
GIVE(unlink, (const char *p), (p), EIO, -1)
GIVE(waitpid, (pid_t pid, int *status, int how), (pid, status, how), ECHILD, -1)
#undef CALL
#undef GIVE

#define SQL(name, params, args)                                                        \
    int __real_sqlite3_##name params;                                                  \
    int __wrap_sqlite3_##name params;                                                  \
    int __wrap_sqlite3_##name params {                                                 \
        return in_turn(&of_sqlite, #name) ? SQLITE_IOERR : __real_sqlite3_##name args; \
    }
SQL(exec, (sqlite3 * db, const char *sql, int (*f)(void *, int, char **, char **), void *x, char **said),
    (db, sql, f, x, said))
SQL(prepare_v2, (sqlite3 * db, const char *sql, int n, sqlite3_stmt **q, const char **tail), (db, sql, n, q, tail))
SQL(step, (sqlite3_stmt * q), (q))
SQL(bind_text, (sqlite3_stmt * q, int i, const char *s, int n, void (*f)(void *)), (q, i, s, n, f))
SQL(bind_int64, (sqlite3_stmt * q, int i, sqlite3_int64 x), (q, i, x))
SQL(bind_int, (sqlite3_stmt * q, int i, int x), (q, i, x))
SQL(bind_double, (sqlite3_stmt * q, int i, double x), (q, i, x))
SQL(bind_null, (sqlite3_stmt * q, int i), (q, i))
#undef SQL
int __real_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs) {
    const int rc = __real_sqlite3_open_v2(name, db, flags, vfs); /* gives a handle, also where it fails */
    return in_turn(&of_sqlite, "open_v2") ? SQLITE_CANTOPEN : rc;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* What a test looks at when all is done, without hidden files. */
static inline int entries(const char *dir) {
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}
#endif
