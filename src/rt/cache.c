/* Key -> built kernel on disk. One file an entry, in a private folder: a line that names key, SHA-256 and length, then
 * the payload. Any doubt about an entry makes it a miss, and no trouble with the folder is an error: then rowfold works
 * without, and says so in a note. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local.h"

#include "../base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ENTRY = 64 << 20, HEAD = 131, HEAD_ROOM = 160, NAME = 64, MAX_PARTS = 16 };

struct Cache {
    Rt *rt;
    bool on;
    atomic_bool readonly;
    _Atomic int64_t bytes; /* in the folder, about; -1: not counted yet */
    char dir[1024];
};

/* First of: the option, $ROWFOLD_CACHE, $XDG_CACHE_HOME/rowfold, $HOME/.cache/rowfold. "" means none. */
static bool find_dir(const char *asked, char *out, size_t cap) {
    const char *env = getenv("ROWFOLD_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = asked                    ? snprintf(out, cap, "%s", asked)
            : env                    ? snprintf(out, cap, "%s", env)
            : xdg && xdg[0] == '/'   ? snprintf(out, cap, "%s/rowfold", xdg)
            : home && home[0] == '/' ? snprintf(out, cap, "%s/.cache/rowfold", home)
                                     : -1;
    return n >= 0 && (size_t)n < cap - 2 * NAME;
}

Cache *cache_new(Rt *rt) {
    Cache *c = rt_get(rt, sizeof *c);
    if (!c) return NULL;
    c->rt = rt;
    atomic_init(&c->bytes, -1);
    char why[128];
    if (!find_dir(rt_options(rt)->cache_dir, c->dir, sizeof c->dir)) {
        rt_say(rt, NOTE_CACHE_OFF,
               "cache off: neither ROWFOLD_CACHE nor XDG_CACHE_HOME nor HOME names an absolute path of a folder (or it "
               "is too "
               "long); every kernel is compiled anew");
    } else if (c->dir[0]) {
        int err = os_dir_private(c->dir);
        c->on = err == 0;
        if (err == EPERM)
            rt_say(rt, NOTE_CACHE_OFF,
                   "cache off: %.200s is not ours alone (it belongs to another user, is a link, or others can write to "
                   "it)",
                   c->dir);
        else if (err)
            rt_say(rt, NOTE_CACHE_OFF, "cache off: %.200s: %s", c->dir, os_error(err, why, sizeof why));
    }
    return c;
}

void cache_free(Cache *c) {
    if (c) rt_put(c->rt, c);
}

Hash cache_key(const void *const *parts, const size_t *bytes, int n) {
    Hash h[MAX_PARTS + 1]; /* a hash of hashes, so that no part can run over into the next */
    int k = 0;
    for (; k < n && k < MAX_PARTS; k++) h[k] = hash_bytes(parts[k], bytes[k]);
    h[k++] = hash_bytes(ROWFOLD_VERSION_TEXT, sizeof ROWFOLD_VERSION_TEXT);
    return hash_bytes(h, (size_t)k * sizeof h[0]);
}

static void entry_path(const Cache *c, Hash key, char path[PATH_MAX]) {
    char hex[33];
    hash_hex(key, hex);
    snprintf(path, PATH_MAX, "%s/%s.kernel", c->dir, hex);
}

/* What an entry with this payload must begin with; checking is comparing. */
static void head_of(Hash key, const char *payload, size_t n, char head[HEAD_ROOM]) {
    char hex[33], sha[65];
    hash_hex(key, hex);
    sha256_hex(payload, n, sha);
    snprintf(head, HEAD_ROOM, "rowfold-kernel 1 %s %s %015llx\n", hex, sha, (unsigned long long)n);
}

bool cache_find(Cache *c, Hash key, char **file, const char **payload, size_t *bytes) {
    char path[PATH_MAX], head[HEAD_ROOM], why[128];
    size_t n = 0;
    if (!c->on) return false;
    entry_path(c, key, path);
    int err = os_read_file(rt_options(c->rt)->al, path, OS_OURS, MAX_ENTRY, file, &n);
    if (err == EPERM)
        rt_say(c->rt, NOTE_CACHE_FOREIGN, "refused %.200s: not a file of ours alone; kernel built anew", path);
    else if (err && err != ENOENT)
        rt_say(c->rt, NOTE_CACHE_DAMAGED, "cannot read %.200s: %s; kernel built anew", path,
               os_error(err, why, sizeof why));
    if (err) return false;
    *payload = *file + HEAD;
    *bytes = n > HEAD ? n - HEAD : 0;
    if (*bytes) head_of(key, *payload, *bytes, head);
    if (!*bytes || memcmp(head, *file, HEAD) != 0) {
        rt_say(c->rt, NOTE_CACHE_DAMAGED, "%.200s was damaged; kernel built anew", path);
        unlink(path);
        rt_put(c->rt, *file);
        return false;
    }
    /* the age by which entries go is that of their last use, to the hour: a write on every hit would cost more than it
     * tells */
    struct stat st;
    if (stat(path, &st) == 0 && time(NULL) - st.st_mtime > 3600) utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
    return true;
}

typedef struct Entry {
    int64_t mtime_ns, bytes;
    char name[NAME];
} Entry;

static int by_age(const void *x, const void *y) {
    const Entry *a = x, *b = y;
    return a->mtime_ns != b->mtime_ns ? (a->mtime_ns < b->mtime_ns ? -1 : 1) : strcmp(a->name, b->name);
}

/* The folder's entries into *list (to be freed), their sum into *sum; removes what killed writers left behind over an
 * hour ago. */
static int list_entries(Cache *c, Entry **list, int64_t *sum) {
    *list = NULL;
    *sum = 0;
    DIR *d = opendir(c->dir);
    if (!d) return 0;
    int n = 0, cap = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        size_t len = strlen(e->d_name);
        if (len >= NAME || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) continue;
        if (len > 4 && str_eq(e->d_name + len - 4, ".tmp")) {
            if (time(NULL) - st.st_mtime > 3600) unlinkat(dirfd(d), e->d_name, 0);
            continue;
        }
        if (len != 39 || !str_eq(e->d_name + 32, ".kernel"))
            continue; /* somebody else's file is nobody's to count or remove */
        if (n == cap) {
            Entry *more = rt_get(c->rt, (size_t)(cap + 256) * 2 * sizeof *more);
            if (!more) break;
            if (n) memcpy(more, *list, (size_t)n * sizeof *more);
            rt_put(c->rt, *list);
            *list = more;
            cap = (cap + 256) * 2;
        }
        Entry *x = &(*list)[n++];
        *x = (Entry){.mtime_ns = (int64_t)st.st_mtime * 1000000000, .bytes = (int64_t)st.st_size};
#ifdef __linux__
        x->mtime_ns += st.st_mtim.tv_nsec;
#endif
        memcpy(x->name, e->d_name, len + 1);
        *sum += x->bytes;
    }
    closedir(d);
    return n;
}

/* Keeps the folder under its size: above it the oldest go until a quarter is free, so that this is rare. */
static void evict(Cache *c) {
    Entry *list;
    int64_t sum, limit = rt_options(c->rt)->cache_bytes;
    int n = list_entries(c, &list, &sum);
    if (list && sum > limit) {
        qsort(list, (size_t)n, sizeof *list, by_age);
        for (int i = 0; i < n && sum > limit - limit / 4; i++) { /* another process may do the same: gone is gone */
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/%s", c->dir, list[i].name);
            unlink(path);
            sum -= list[i].bytes;
        }
    }
    rt_put(c->rt, list);
    atomic_store(&c->bytes, sum);
}

void cache_store(Cache *c, Hash key, const void *payload, size_t bytes) {
    if (!c->on || atomic_load(&c->readonly) || bytes == 0 || bytes > MAX_ENTRY - HEAD) return;
    char path[PATH_MAX], head[HEAD_ROOM], why[128];
    char *whole = rt_get(c->rt, HEAD + bytes);
    if (!whole) return;
    head_of(key, payload, bytes, head);
    memcpy(whole, head, HEAD);
    memcpy(whole + HEAD, payload, bytes);
    entry_path(c, key, path);
    int err = os_write_atomic(path, whole, HEAD + bytes, 0600,
                              false); /* a torn entry after a power cut is found by its hash */
    rt_put(c->rt, whole);
    if (err) {
        atomic_store(&c->readonly, true);
        rt_say(c->rt, NOTE_CACHE_READONLY, "nothing is added to the cache %.200s: %s", c->dir,
               os_error(err, why, sizeof why));
        return;
    }
    int64_t before = atomic_load(&c->bytes);
    if (before < 0 || before + (int64_t)(HEAD + bytes) > rt_options(c->rt)->cache_bytes)
        evict(c);
    else
        atomic_fetch_add(&c->bytes, (int64_t)(HEAD + bytes));
}
