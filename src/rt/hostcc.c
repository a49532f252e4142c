/* C text -> a spawned C compiler -> shared object -> function. No shell, no headers, no fast-math. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local.h"

#include "../base/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <elf.h>
#endif

/* -O1 and those passes of -O2 that were seen to make some kernel of kernels/ faster take explicit vectors as far as
 * -O2 does, in four fifths of its time; -fno-tree-ccp, -fno-tree-pta, -fno-tree-dominator-opts, max-combine-insns=2 and
 * -fira-region=one save a quarter of the rest, and change no kernel's speed that could be seen. Only flags under which
 * every operation keeps its IEEE result: the text says where a product is fused, the compiler may not. Not
 * -fno-trapping-math, though it sounds harmless: with it gcc 12 makes trunc(x) of (float)(int)x, which is another value
 * for -0.5 (-0) and for 3e9. -fno-tree-slp-vectorize: gcc 12 gives -1 for y != 0 in registers of two lanes, and what
 * could be vectors is written as vectors. -fno-math-errno: sqrt is one instruction, and nobody reads errno. */
static const char *const flags_gcc[] = {"-O1",
                                        "-fipa-ra",
                                        "-std=gnu11",
                                        "-fPIC",
                                        "-shared",
                                        "-nostdlib",
                                        "-ffp-contract=off",
                                        "-fwrapv",
                                        "-fno-math-errno",
                                        "-fno-tree-slp-vectorize",
                                        "-fno-tree-ccp",
                                        "-fno-tree-pta",
                                        "-fno-tree-dominator-opts",
                                        "--param=max-combine-insns=2",
                                        "-fira-region=one",
                                        "-fno-use-linker-plugin",
                                        "-pipe",
                                        "-Wl,-z,noseparate-code,-z,norelro,--build-id=none",
                                        "-fno-stack-protector",
                                        "-fno-asynchronous-unwind-tables",
                                        "-fvisibility=default",
                                        "-w",
                                        NULL};
/* The search for what is computed twice, a tenth of the time, and for loops to be vectors, a fortieth. */
static const char *const flags_gcc_search[] = {"-fgcse", "-ftree-pre", "-ftree-vectorize",
                                               "-fvect-cost-model=very-cheap", NULL};
/* clang: -O1 already does all that explicit vectors need, in two thirds of the time of -O2 */
static const char *const flags_clang[] = {"-O1",
                                          "-std=gnu11",
                                          "-fPIC",
                                          "-shared",
                                          "-nostdlib",
                                          "-ffp-contract=off",
                                          "-fwrapv",
                                          "-fno-math-errno",
                                          "-fno-stack-protector",
                                          "-fno-asynchronous-unwind-tables",
                                          "-fvisibility=default",
                                          "-w",
                                          NULL};
static const char *const flags_none[] = {NULL};
static const char *const flags_avx2[] = {"-mavx2", "-mfma", "-mf16c", NULL};
static const char *const flags_avx512[] = {"-mavx512f",  "-mavx512dq", "-mavx512bw", "-mavx512vl",
                                           "-mavx512cd", "-mfma",      "-mf16c",     "-mprefer-vector-width=512",
                                           NULL};
static const char *const *const flags_isa[ISA_COUNT] = {
    [ISA_PORTABLE] = flags_none, [ISA_AVX2] = flags_avx2, [ISA_AVX512] = flags_avx512, [ISA_NEON] = flags_none};

enum { MAX_ARGS = 48 };

static int put_flags(const char **argv, int n, const char *const *flags) {
    while (*flags && n < MAX_ARGS - 8) argv[n++] = *flags++;
    return n;
}

static int all_flags(const Compiler *cc, Isa isa, bool plain, const char **argv, int n) {
    n = put_flags(argv, n, cc->family == CC_CLANG ? flags_clang : flags_gcc);
    if (cc->family != CC_CLANG && !plain) n = put_flags(argv, n, flags_gcc_search);
    return put_flags(argv, n, flags_isa[isa]);
}

void cc_flags(const Compiler *cc, Isa isa, bool plain, char *out, size_t cap) {
    const char *argv[MAX_ARGS];
    int n = all_flags(cc, isa, plain, argv, 0);
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < n && at < cap; i++) at += (size_t)snprintf(out + at, cap - at, "%s%s", i ? " " : "", argv[i]);
}

/* Bytes of other programs go into messages without their control characters. */
static void clean(char *s) {
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7F) *s = ' ';
}

static bool probe_one(const Alloc *al, const char *name, Compiler *out) {
    char text[4096], why[128];
    int err = os_find_program(name, out->path, sizeof out->path);
    if (err) {
        snprintf(out->why, sizeof out->why, "%.200s: %s", name,
                 err == ENOENT ? "no such program" : os_error(err, why, sizeof why));
        return false;
    }
    const char *argv[] = {out->path, "--version", NULL}, *env[] = {"LC_ALL=C", NULL};
    Ended end;
    err = os_spawn(al, &(Spawn){.argv = argv, .env = env, .timeout_ns = 10000000000, .out = text, .cap = sizeof text},
                   &end);
    if (err == ENOMEM || err == EMFILE || err == ENFILE || err == EAGAIN) out->err = err;
    if (err || end.timed_out || (end.code && !end.lost)) {
        snprintf(out->why, sizeof out->why, err ? "cannot start %.200s: %s" : "%.200s --version %s", out->path,
                 err             ? os_error(err, why, sizeof why)
                 : end.timed_out ? "does not end"
                                 : "failed");
        return false;
    }
    /* gcc's second sentence; other programs of the same foundation name another licence */
    static const char gcc_says[] = "This is free software; see the source for copying conditions.";
    CcFamily family = strstr(text, "clang") ? CC_CLANG : strstr(text, gcc_says) ? CC_GCC : CC_NONE;
    text[strcspn(text, "\n")] = 0;
    clean(text);
    if (!family) {
        snprintf(out->why, sizeof out->why, "%.200s is neither gcc nor clang: its --version says '%.100s'", out->path,
                 text);
        return false;
    }
    snprintf(out->version, sizeof out->version, "%.190s", text);
    struct stat st;
    if (stat(out->path, &st) == 0) {
        out->bytes = (int64_t)st.st_size;
        out->mtime_ns = (int64_t)st.st_mtime * 1000000000;
#ifdef __linux__
        out->mtime_ns += st.st_mtim.tv_nsec;
#endif
    }
    out->family = family;
    return true;
}

void cc_probe(const Alloc *al, const char *asked, Compiler *out) {
    static const char *const names[] = {"cc", "gcc", "clang"};
    *out = (Compiler){0};
    if (!asked || !asked[0]) asked = getenv("ROWFOLD_CC");
    if (asked && asked[0]) { /* who names one gets that one or none */
        probe_one(al, asked, out);
        return;
    }
    for (int i = 0; i < COUNT(names); i++)
        if (probe_one(al, names[i], out) || out->err) return; /* the next would be another one than in better times */
    snprintf(out->why, sizeof out->why, "no cc, gcc or clang in PATH");
}

/* The first lines of what the compiler said, without the temporary folder's name, which is another one each time. */
static void excerpt(const char *said, const char *dir, char *out, size_t cap) {
    size_t n = 0, skip = strlen(dir);
    int lines = 0;
    for (const char *p = said; *p && n + 1 < cap && lines < 8;) {
        if (strncmp(p, dir, skip) == 0 && p[skip] == '/') {
            p += skip + 1;
            continue;
        }
        unsigned char c = (unsigned char)*p++;
        lines += c == '\n';
        out[n++] = c == '\n' ? '\n' : c < 0x20 || c == 0x7F ? ' ' : (char)c;
    }
    while (n && (out[n - 1] == '\n' || out[n - 1] == ' ')) n--;
    out[n] = 0;
}

/* Looking into libraries takes the linker 5 ms, as long as all else that it does, and kernels for AVX call none but for
 * special functions of f64. */
static bool calls_libraries(const Unit *u) {
    static const char *const calls[] = {"extern f64 ", "__builtin_exp2("};
    bool any = u->isa != ISA_AVX2 && u->isa != ISA_AVX512;
    for (int i = 0; i < COUNT(calls); i++) any |= strstr(u->text, calls[i]) != NULL;
    return any;
}

static bool over(void *cx) {
    return cx_over(cx);
}

bool cc_compile(Cx *cx, const Rt *rt, const Compiler *cc, const Unit *u, const char *dir, const char *so, Fail *fail) {
    char src[PATH_MAX], tmp[PATH_MAX], said[16384], text[1200];
    const RtOptions *o = rt_options(rt);
    snprintf(src, sizeof src, "%s/kernel.c", dir);
    snprintf(tmp, sizeof tmp, "TMPDIR=%s",
             dir); /* the compiler's own temporary files go where they are removed even if it is killed */
    int err = os_write_atomic(src, u->text, u->bytes, 0600, false);
    if (err) {
        fail->slug = S_BUILD_IO;
        snprintf(fail->text, sizeof fail->text, "cannot write %.300s: %s", src, os_error(err, text, sizeof text));
        return false;
    }
    const char *argv[MAX_ARGS] = {cc->path}, *env[] = {"LC_ALL=C", tmp, NULL};
    int n = all_flags(cc, u->isa, u->plain, argv, 1);
    argv[n++] = "-o";
    argv[n++] = so;
    argv[n++] = src;
    if (calls_libraries(u)) {
        argv[n++] = "-lm"; /* f64 special functions: a host that was loaded privately has no libm to lend */
        if (cc->family == CC_GCC) argv[n++] = "-lgcc"; /* what has no instruction, such as 128-bit division */
    }
    argv[n] = NULL;
    Ended end;
    err = os_spawn(o->al,
                   &(Spawn){.argv = argv,
                            .env = env,
                            .timeout_ns = (int64_t)o->build_timeout_ms * 1000000,
                            .out = said,
                            .cap = sizeof said,
                            .over = over,
                            .user = cx},
                   &end);
    if (err == ENOMEM) {
        fail->slug = S_OOM;
        snprintf(fail->text, sizeof fail->text, "no memory to start %s", cc->path);
    } else if (err) {
        fail->slug = S_BUILD_START;
        snprintf(fail->text, sizeof fail->text, "cannot start %s: %s", cc->path, os_error(err, text, sizeof text));
    } else if (end.timed_out && cx_over(cx)) {
        fail->slug = S_SEARCH_STOPPED;
        snprintf(fail->text, sizeof fail->text, "stopped while `%s` was compiled", u->entry);
    } else if (end.timed_out) {
        fail->slug = S_BUILD_TIMEOUT;
        snprintf(fail->text, sizeof fail->text, "%s took more than %d ms for `%s`", cc->path, o->build_timeout_ms,
                 u->entry);
    } else if (end.lost ? access(so, R_OK) != 0 : end.code != 0) {
        fail->slug = S_BUILD_FAILED;
        excerpt(said, dir, text, sizeof text);
        snprintf(fail->text, sizeof fail->text, "%.200s (code %d) on `%s`:\n%s", cc->path, end.code, u->entry, text);
    } else if (!end.lost && access(so, R_OK) != 0) {
        fail->slug = S_BUILD_FAILED;
        excerpt(said, dir, text, sizeof text);
        snprintf(fail->text, sizeof fail->text, "%.200s ended with code 0 and made nothing of `%s`:\n%s", cc->path,
                 u->entry, text);
    } else {
        return true;
    }
    return false;
}

bool so_load(const char *so, const char *entry, void **handle, HostFn **fn, Fail *fail) {
    *fn = NULL;
    *handle = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    void *at = *handle ? dlsym(*handle, entry) : NULL;
    if (at) {
        memcpy(fn, &at, sizeof at); /* ISO C has no cast from object to function */
        return true;
    }
    const char *said = dlerror();
    const char *base = strrchr(so, '/');
    size_t skip = said && base && strncmp(said, so, strlen(so)) == 0 ? (size_t)(base + 1 - so) : 0;
    fail->slug = S_BUILD_LOAD;
    snprintf(fail->text, sizeof fail->text, "cannot load `%s`: %.1000s", entry, said ? said + skip : "unknown error");
    clean(fail->text);
    so_unload(*handle);
    *handle = NULL;
    return false;
}

void so_unload(void *handle) {
    if (handle) dlclose(handle);
}

int so_code_bytes(const char *file, size_t n) {
#ifdef __linux__
    Elf64_Ehdr h;
    if (n < sizeof h) return -1;
    memcpy(&h, file, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_phentsize != sizeof(Elf64_Phdr))
        return -1;
    uint64_t code = 0;
    for (size_t i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        if (h.e_phoff > n || (n - h.e_phoff) / sizeof p <= i) return -1;
        memcpy(&p, file + h.e_phoff + i * sizeof p, sizeof p);
        if (p.p_type == PT_LOAD && (p.p_flags & PF_X) && p.p_filesz <= n) code += p.p_filesz;
    }
    return code <= INT_MAX ? (int)code : -1;
#else
    (void)file, (void)n;
    return -1;
#endif
}
