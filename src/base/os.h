/* Floor 0: the operating system. Functions that can fail return 0 or an errno value: the caller knows whether that is
 * an error, and which slug it has, or something to carry on without. Everything here is safe to call from any thread.
 */
#ifndef ROWFOLD_OS_H
#define ROWFOLD_OS_H

#include "base.h"

const char *os_error(int err, char *buf, size_t cap); /* text of an errno value, in buf or constant */

/* ---- folders and files ---- */
/* Makes the folder and its parents where they are missing, mode 0700. EPERM: it is there but belongs to somebody else,
 * is a link, or others can write to it. */
int os_dir_private(const char *path);
int os_dir_temp(char *out, size_t cap); /* a new private folder under $TMPDIR, else /tmp */
int os_dir_remove(const char *path);    /* the folder and the plain files in it; goes no deeper */
/* As os_dir_temp, and its own process need not live to remove it: while *hold is open (to be closed after
 * os_dir_remove) the folder is in use; os_dir_sweep removes those whose holder is gone. */
int os_dir_work(char *out, size_t cap, int *hold);
void os_dir_sweep(void);
enum { OS_ANY = 0, OS_OURS = 1 }; /* OS_OURS: EPERM unless a plain file of ours, no link, that nobody else can write */
/* The whole file, one 0 behind it; free with al->put. EFBIG above `max` bytes, ENOMEM. */
int os_read_file(const Alloc *al, const char *path, int whose, size_t max, char **out, size_t *n);
/* A reader sees the old file or the new one, never a part: temporary file beside it, then rename. mode as for open(2),
 * under the umask; sync: on the disk before it returns. */
int os_write_atomic(const char *path, const void *p, size_t n, unsigned mode, bool sync);

/* ---- programs ---- */
/* Absolute path of an executable. A name with a slash is taken as it is, others are sought in PATH. ENOENT,
 * ENAMETOOLONG. */
int os_find_program(const char *name, char *out, size_t cap);
typedef struct Spawn {
    const char *const *argv; /* argv[0] is the program's path; ended by NULL. No shell ever sees it. */
    const char *const *env;  /* NAME=value put over this process's own environment, ended by NULL; NULL: none */
    int64_t timeout_ns;
    char *out; /* receives the first cap - 1 bytes of stdout and stderr together, ended by 0 */
    size_t cap;
    bool (*over)(void *user); /* asked every 50 ms; true: as if the time were over; NULL: never */
    void *user;
} Spawn;
typedef struct Ended {
    bool timed_out; /* then it and its children were killed */
    bool lost;      /* the host program ignores SIGCHLD, so nobody knows its exit code */
    int code;       /* exit code, 128 + signal */
} Ended;
/* Runs it to its end with stdin from /dev/null. The child gets no descriptor but 0, 1, 2 (and 3, its line) and no
 * blocked signals. */
int os_spawn(const Alloc *al, const Spawn *s, Ended *end);

/* A line to a child: a pseudo terminal, whose other end's name is in `end`. A child that is spawned into a session of
 * its own and opens that end is hung up, with all that it started, when this end is closed: also by this process's
 * death, however it dies. No handler and no helper process is needed for that. -1: there is none here, and children
 * outlive a parent that is killed. */
int os_line(char *end, size_t cap);

/* ---- time and processors ---- */
int64_t os_now_ns(void);  /* monotonic */
int64_t os_unix_ns(void); /* the time of day, since 1970-01-01 UTC */
double os_memory(void);   /* bytes that the machine has, or this process may use; INFINITY where nobody knows */
int os_cpus(void);        /* that this process may use: affinity mask and control-group quota; at least 1 */
#endif
