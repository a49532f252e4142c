/* Files: a program's text in, results out, never half of one. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Rc file_read_source(Cli *c, const char *path, char **text, size_t *n) {
    const bool standard = strcmp(path, "-") == 0;
    const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(c, F_READ, NULL, "%s: %s", path, strerror(errno));
    char *s = malloc(SOURCE_MAX + 1);
    size_t got = 0;
    int error = s ? 0 : ENOMEM;
    while (s && got < SOURCE_MAX + 1) {
        const ssize_t r = read(fd, s + got, SOURCE_MAX + 1 - got);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) error = errno;
        if (r <= 0) break;
        got += (size_t)r;
    }
    if (!standard) close(fd);
    if (!error && got <= SOURCE_MAX) {
        *text = cli_get(c, got + 1);
        memcpy(*text, s, got);
        *n = got;
    }
    free(s);
    if (error) return fail(c, F_READ, NULL, "%s: %s", path, strerror(error));
    return got > SOURCE_MAX ? fail(c, F_LARGE, "at most 1 MiB", "%s is too large for a program or a calibration", path)
                            : RC_OK;
}

static int write_all(int fd, const void *p, size_t n) {
    for (size_t done = 0; done < n;) {
        const size_t left = n - done;
        const ssize_t r = write(fd, (const char *)p + done, left < (1u << 30) ? left : 1u << 30);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return errno;
        done += (size_t)r;
    }
    return 0;
}

static int write_parts(int fd, const void *head, size_t nhead, const void *body, size_t nbody) {
    int error = nhead ? write_all(fd, head, nhead) : 0;
    if (!error && nbody) error = write_all(fd, body, nbody);
    return error;
}

static int write_beside(const char *path, const void *head, size_t nhead, const void *body, size_t nbody) {
    char *real = realpath(path, NULL); /* what a link points to is replaced, not the link */
    const char *target = real ? real : path;
    const size_t n = strlen(target);
    char *temp = malloc(n + 16);
    int error = temp ? 0 : ENOMEM;
    if (temp) {
        memcpy(temp, target, n);
        memcpy(temp + n, ".XXXXXX", 8);
        const int fd = mkstemp(temp);
        if (fd < 0) error = errno;
        if (fd >= 0) {
            const mode_t mask = umask(0);
            umask(mask);
            error = write_parts(fd, head, nhead, body, nbody);
            if (!error && fchmod(fd, 0666 & ~mask) < 0) error = errno;
            /* A name must not come to point to bytes that are not on the disk yet; some file systems cannot do it. */
            if (!error && fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP) error = errno;
            if (close(fd) < 0 && !error) error = errno;
            if (!error && rename(temp, target) < 0) error = errno;
            if (error) unlink(temp);
        }
    }
    free(temp);
    free(real);
    return error;
}

int file_write_quiet(const char *path, const void *head, size_t nhead, const void *body, size_t nbody) {
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return EISDIR;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* a device or pipe: renaming would replace it */
        const int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) return errno;
        int error = write_parts(fd, head, nhead, body, nbody);
        if (close(fd) < 0 && !error) error = errno;
        return error;
    }
    /* Ctrl-C waits until the temporary file is gone. */
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, &before);
    const int error = write_beside(path, head, nhead, body, nbody);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return error;
}

Rc file_write(Cli *c, const char *path, const void *head, size_t nhead, const void *body, size_t nbody) {
    const int error = file_write_quiet(path, head, nhead, body, nbody);
    return error ? fail(c, F_WRITE, NULL, "%s: %s", path, strerror(error)) : RC_OK;
}

Rc file_check(Cli *c, const char *path) {
    struct stat st;
    const bool there = path && stat(path, &st) == 0;
    if (!path) return RC_OK;
    if (there && S_ISDIR(st.st_mode)) return fail(c, F_WRITE, NULL, "%s: %s", path, strerror(EISDIR));
    char *folder = cli_text(c, "%s", path), *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    const char *at = there && !S_ISREG(st.st_mode) ? path : slash ? folder : ".";
    return access(at, W_OK) == 0 ? RC_OK : fail(c, F_WRITE, NULL, "%s: %s", path, strerror(errno));
}

int folder_make(Cli *c, const char *path) {
    char *part = cli_text(c, "%s", path);
    for (char *p = part + 1; *part; p++) {
        if (*p != '/' && *p) continue;
        const char was = *p;
        *p = 0;
        if (mkdir(part, 0777) < 0 && errno != EEXIST) {
            const int error = errno;
            struct stat st;
            if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode)) return error;
        }
        if (!(*p = was)) break;
    }
    struct stat st;
    if (stat(path, &st) < 0) return errno;
    return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
}
