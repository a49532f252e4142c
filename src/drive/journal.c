/* What a replay or a freeze has done so far, a JSON line each, so that one that was interrupted goes on where it was.
 * The first line says of what; a file is one process's at a time. */
#include "evidence.h"

#include "../base/os.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { JOURNAL_MAX = 1 << 30 };

Err journal_failed(Cx *cx, const char *path, int bad) {
    char why[128];
    return diag(cx, S_RECORD_IO, NOWHERE, NULL, "%s: %s", path, os_error(bad, why, sizeof why));
}

Err journal_append(Evidence *e, Cx *cx, const char *path, const json_t *line) {
    errno = 0;
    return fprintf(e->journal, "%s\n", record_print(cx, line)) < 0 ? journal_failed(cx, path, errno) : OK;
}

static Err read_lines(Evidence *e, const char *path, char *text, size_t n, const json_t *head, JournalLine *take,
                      void *user, size_t *whole) {
    Cx *cx = e->cx;
    int number = 0;
    *whole = 0;
    for (char *line = text, *end; (end = memchr(line, '\n', n - (size_t)(line - text))) != NULL; line = end + 1) {
        json_t *j = e->spare[2] = json_loadb(line, (size_t)(end - line), 0, NULL);
        const bool fits = number++ ? take(user, j) : json_equal(j, head);
        json_decref(j);
        e->spare[2] = NULL;
        if (!fits && number == 1)
            return diag(cx, S_REPLAY_JOURNAL, NOWHERE, NULL, "%s is of other cases, options or binaries", path);
        if (!fits)
            return diag(cx, S_REPLAY_JOURNAL, NOWHERE, NULL, "line %d of %s is not what was written there", number,
                        path);
        *whole = (size_t)(end + 1 - text); /* a line that was torn by the end of a process is done again */
    }
    return OK;
}

/* Held until the end, so that two processes do not write into one. Where files cannot be locked it goes without.
 * Unbuffered: a line that could not be written is not written later. */
static Err lock(Evidence *e, const char *path) {
    FILE *f = e->journal = fopen(path, "ae");
    if (!f) return journal_failed(e->cx, path, errno);
    setvbuf(f, NULL, _IONBF, 0);
    if (flock(fileno(f), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return diag(e->cx, S_REPLAY_BUSY, NOWHERE, NULL, "another process has %s", path);
    return OK;
}

Err journal_open(Evidence *e, const char *path, const json_t *head, JournalLine *take, void *user) {
    Cx *cx = e->cx;
    char *text;
    size_t n, whole = 0;
    Err err = lock(e, path);
    if (err) return err;
    int bad = os_read_file(&alloc_libc, path, OS_ANY, JOURNAL_MAX, &text, &n);
    if (bad) return journal_failed(cx, path, bad);
    char *copy = arena_str(cx->a, text, n);
    alloc_libc.put(alloc_libc.user, text);
    err = read_lines(e, path, copy, n, head, take, user, &whole);
    if (!err && truncate(path, (off_t)whole)) err = journal_failed(cx, path, errno);
    return err || whole ? err : journal_append(e, cx, path, head);
}
