/* Where the store lies, and whether SQLite's locks can be trusted there. */
#include "store.h"

#include "../base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

Err store_place(Cx *cx, const char *where, const char **path) {
    const char *env = getenv("ROWFOLD_STORE"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (where && *where && !str_eq(where, "default")) return *path = where, OK;
    if (env && *env) return *path = env, OK;
    if (data && *data == '/') /* others are to be passed over, as the specification says */
        *path = arena_printf(cx->a, "%s/rowfold/trials.db", data);
    else if (home && *home == '/')
        *path = arena_printf(cx->a, "%s/.local/share/rowfold/trials.db", home);
    else
        return diag(cx, S_STORE_NOWHERE, NOWHERE, "a path, $ROWFOLD_STORE, $XDG_DATA_HOME or $HOME",
                    "neither ROWFOLD_STORE nor XDG_DATA_HOME nor HOME names an absolute path");
    return OK;
}

/* Type numbers from statfs(2) and the kernel's magic.h. On all of these, locks of two hosts do not reliably meet, and
 * WAL's shared memory never does. */
bool fs_is_network(uint64_t magic, const char **name) {
    static const struct {
        uint64_t magic;
        const char *name;
    } known[] = {{0x6969, "NFS"},        {0x517B, "SMB"},      {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB2"},
                 {0x5346414F, "AFS"},    {0x6B414653, "AFS"},  {0x01021997, "9P"},     {0x00C36400, "Ceph"},
                 {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}, {0x73757245, "Coda"},
                 {0x7461636F, "OCFS2"},  {0x01161970, "GFS2"}, {0x564C, "NCP"},        {0xAAD7AAEA, "PanFS"}};
    for (int i = 0; i < COUNT(known); i++)
        if (known[i].magic == (magic & 0xFFFFFFFF)) return *name = known[i].name, true;
    return false;
}

bool fs_of(const char *path, uint64_t *magic) {
#ifdef __linux__
    char dir[1024];
    const char *slash = strrchr(path, '/');
    struct statfs st;
    int n = snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (n < 0 || n >= (int)sizeof dir || statfs(n ? dir : "/", &st)) return false;
    *magic = (uint64_t)st.f_type;
    return true;
#else
    (void)path, (void)magic;
    return false;
#endif
}
