/* What msl.h says. */
#include "msl.h"

#include "../../src/base/os.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool msl_open(Msl *m, const char *env, const char *fallback) {
    const char *named = getenv(env), *root = getenv("ROWFOLD_ROOT");
    *m = (Msl){.why = ""};
    snprintf(m->include, sizeof m->include, "-I%s/tests/metal", root ? root : ".");
    return !os_find_program(named && named[0] ? named : fallback, m->cxx, sizeof m->cxx);
}

static bool compile(Msl *m, const char *dir, const char *const *flags) {
    const char *argv[32] = {m->cxx,
                            "-std=c++14",
                            "-O0",
                            "-ffp-contract=off",
                            "-fno-exceptions", /* which Metal has not: two fifths of what is made of a watched text */
                            "-Wall",
                            "-Werror",
                            "-Wno-attributes",
                            "-Wno-unknown-pragmas",
                            "-Wno-unused-variable",
                            "-Wno-unused-but-set-variable",
                            "-Wno-parentheses",
                            "-Wno-bitwise-instead-of-logical", /* lanes take no branch for a second operand */
                            m->include};
    int n = 0;
    while (argv[n]) n++;
    while (*flags) argv[n++] = *flags++;
    char tmp[PATH_MAX + 8];
    snprintf(tmp, sizeof tmp, "TMPDIR=%s", dir);
    const char *env[] = {"LC_ALL=C", tmp, NULL};
    Ended end;
    int err = os_spawn(
        &alloc_libc,
        &(Spawn){.argv = argv, .env = env, .timeout_ns = 300000000000, .out = m->why, .cap = sizeof m->why}, &end);
    return !err && !end.timed_out && end.code == 0;
}

/* The units, each in a namespace of its own, and a caller for each. */
static bool write_all(const char *dir, const MslUnit *u, int n, char *main_path) {
    Arena *a = arena_new(NULL, NULL);
    Buf b = buf_new(a);
    bool ok = true;
    buf_str(&b, "#include <metal_stdlib>\n");
    for (int i = 0; i < n; i++) {
        const char *name = arena_printf(a, "%s/%d.metal", dir, i), *loose = u[i].loose ? "#define ROWFOLD_LOOSE\n" : "";
        if (!u[i].text) continue;
        ok &= !os_write_atomic(name, u[i].text, strlen(u[i].text), 0600, false);
        buf_fmt(&b, "namespace u%d {\n%s#include \"%s\"\n}\n#undef ROWFOLD_LOOSE\n", i, loose, name);
        buf_fmt(&b, "extern \"C\" UNWATCHED void call_%d(const LaneCall *c) { lane_call(u%d::%s, *c); }\n", i, i,
                u[i].entry);
    }
    snprintf(main_path, PATH_MAX, "%s/main.cpp", dir);
    ok &= !os_write_atomic(main_path, b.s, b.n, 0600, false);
    arena_free(a);
    return ok;
}

void *msl_build(Msl *m, MslUnit *u, int n) {
    char dir[PATH_MAX - 64], src[PATH_MAX], obj[PATH_MAX], so[PATH_MAX];
    void *handle = NULL;
    if (os_dir_temp(dir, sizeof dir)) return snprintf(m->why, sizeof m->why, "no folder"), NULL;
    snprintf(obj, sizeof obj, "%s/main.o", dir);
    snprintf(so, sizeof so, "%s/main.so", dir);
    if (write_all(dir, u, n, src) &&
        compile(m, dir, (const char *const[]){"-fsanitize=thread", "-fPIC", "-c", src, "-o", obj, NULL}) &&
        compile(m, dir, (const char *const[]){"-shared", obj, "-o", so, NULL})) {
        handle = dlopen(so, RTLD_NOW | RTLD_LOCAL);
        if (!handle) snprintf(m->why, sizeof m->why, "%s", dlerror());
    }
    for (int i = 0; i < n && handle; i++) {
        char name[32];
        snprintf(name, sizeof name, "call_%d", i);
        void *at = u[i].text ? dlsym(handle, name) : NULL;
        if (at) memcpy(&u[i].fn, &at, sizeof at);
    }
    os_dir_remove(dir);
    return handle;
}

bool msl_parse(Msl *m, MslUnit *u, int n) {
    char dir[PATH_MAX - 64], src[PATH_MAX];
    if (os_dir_temp(dir, sizeof dir)) return snprintf(m->why, sizeof m->why, "no folder"), false;
    const bool ok = write_all(dir, u, n, src) && compile(m, dir, (const char *const[]){"-fsyntax-only", src, NULL});
    os_dir_remove(dir);
    return ok;
}
