/* NEON: the kernels of the library and random pairs, compiled by a cross compiler and run under qemu's user mode, have
 * the interpreter's bits. What is needed comes from two packages; without them one line says so. */
#include "../../src/base/os.h"
#include "../diff/library.h"
#include "../diff/match.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANDOM_PAIRS = 48, MOST = 256, MOST_WORDS = 64 };

typedef struct Desk {
    char dir[PATH_MAX - 64];
    Match match[MOST];
    int n;
} Desk;

static bool on_path(const char *name) {
    char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin"), at[PATH_MAX];
    bool found = false;
    for (char *rest = path, *dir; !found && (dir = strsep(&rest, ":"));) {
        snprintf(at, sizeof at, "%s/%s", dir, name);
        found = access(at, X_OK) == 0;
    }
    free(path);
    return found;
}

static bool run(const char *const *argv, char *said, size_t room) {
    const char *path = getenv("PATH");
    char path_is[PATH_MAX + 8];
    snprintf(path_is, sizeof path_is, "PATH=%s", path ? path : "/usr/bin:/bin");
    const char *env[] = {"LC_ALL=C", path_is, NULL};
    Ended end;
    return !os_spawn(&alloc_libc,
                     &(Spawn){.argv = argv, .env = env, .timeout_ns = 300000000000, .out = said, .cap = room}, &end) &&
           !end.timed_out && end.code == 0;
}

static bool put(Desk *d, const char *name, const char *text, size_t n) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", d->dir, name);
    return !os_write_atomic(path, text, n, 0600, false);
}

/* Units of the library's kernels and of random programs, all for the NEON preset. */
static int draw(Desk *d) {
    Caps caps;
    Cx cx = {.a = arena_new(NULL, NULL)};
    LibKernel *k;
    int bad = 0;
    caps_preset("neon", &caps);
    const int n = library_read(&cx, TY_F32, &k);
    for (int i = 0; i < n + RANDOM_PAIRS && d->n < MOST; i++) {
        Match *p = &d->match[d->n];
        bool ok;
        if (i < n) {
            Prog *prog;
            Buf text = buf_new(cx.a);
            prog_print(k[i].prog, &text);
            *p = (Match){.cx = {.a = arena_new(NULL, NULL)}};
            ok = !prog_read(&p->cx, text.s, text.n, &prog);
            p->prog = prog;
            if (ok) p->prog->name = arena_printf(p->cx.a, "k%d", d->n), p->shape = library_shape(prog, 3, 37);
            ok = ok && match_prog(p, (uint64_t)i, &caps, NULL);
        } else {
            uint8_t bytes[RANDPROG_BYTES];
            char name[32];
            snprintf(name, sizeof name, "k%d", d->n);
            ok = match_make(p, name, bytes, randprog_bytes((uint64_t)i, bytes), (uint64_t)i, &caps, NULL);
        }
        if (ok) ok = match_interpret(p);
        if (!ok) printf("# %s: %s\n", i < n ? k[i].name : "random", p->why ? p->why : "not read"), bad++;
        d->n++;
    }
    arena_free(cx.a);
    return bad;
}

static bool build(Desk *d, const char *guest) {
    static char path[MOST + 2][PATH_MAX], said[4000];
    const char *argv[MOST_WORDS + MOST] = {"/usr/bin/env", "aarch64-linux-gnu-gcc", "-static", "-w", "-pipe", "-o"};
    const Unit *u[MOST];
    bool taken[MOST] = {false};
    char flags[1024], out[PATH_MAX];
    int argc = 6;
    Buf table = buf_new(d->match[0].cx.a);
    buf_str(&table, "typedef void K(const void *, long, long);\n");
    snprintf(out, sizeof out, "%s/guest", d->dir);
    argv[argc++] = out;
    cc_flags(&(Compiler){.family = CC_GCC}, ISA_NEON, false, flags, sizeof flags);
    for (char *w = strtok(flags, " "); w && argc < MOST_WORDS - 4; w = strtok(NULL, " "))
        if (!str_eq(w, "-shared") && !str_eq(w, "-nostdlib") && !str_eq(w, "-fPIC")) argv[argc++] = w;
    argv[argc++] = "-O0"; /* for bits, not for speed */
    for (int i = 0; i < d->n; i++) u[i] = &d->match[i].unit;
    for (int i = 0; i < d->n; i++) {
        buf_fmt(&table, "K %s;\n", u[i]->entry);
        if (taken[i]) continue;
        char name[32];
        Buf text = buf_new(d->match[0].cx.a);
        snprintf(name, sizeof name, "%d.c", i);
        batch_join(d->match[0].cx.a, u, taken, i, d->n, &text);
        if (!put(d, name, text.s, text.n)) return printf("# cannot write %s\n", name), false;
        snprintf(path[i], sizeof path[i], "%s/%d.c", d->dir, i);
        argv[argc++] = path[i];
    }
    buf_str(&table, "K *const guest_kernels[] = {");
    for (int i = 0; i < d->n; i++) buf_fmt(&table, "%s, ", d->match[i].unit.entry);
    buf_str(&table, "0};\n");
    if (!put(d, "table.c", table.s, table.n)) return false;
    snprintf(path[d->n], sizeof path[d->n], "%s/table.c", d->dir);
    argv[argc++] = path[d->n];
    argv[argc++] = guest;
    argv[argc++] = "-lm"; /* f64 programs call the C library's functions */
    argv[argc] = NULL;
    const bool ok = run(argv, said, sizeof said);
    for (char *w = ok ? NULL : strtok(said, "\n"); w; w = strtok(NULL, "\n")) printf("# %s\n", w);
    return ok;
}

static void call(FILE *f, Match *p, int kernel) {
    int n;
    const Slot *s = match_slots(p, &p->cpu, &n);
    int64_t head[] = {kernel, 0, p->rows, n};
    fwrite(head, 8, 4, f);
    Abi abi;
    abi_of(p->pb.prog, &abi);
    for (int i = 0; i < n; i++) {
        int tensor = -1;
        for (int q = 0; q < p->prog->nparams; q++)
            if (abi.ptr[q] == i) tensor = q;
        int64_t bytes = tensor >= 0 ? (int64_t)p->bytes[tensor] : -1, value = s[i].i;
        fwrite(&bytes, 8, 1, f);
        if (tensor < 0)
            fwrite(&value, 8, 1, f);
        else if (bytes)
            fwrite(s[i].p, 1, (size_t)bytes, f);
    }
}

static bool emulate(Desk *d) {
    static char said[4000];
    char in[PATH_MAX], out[PATH_MAX], guest[PATH_MAX];
    snprintf(in, sizeof in, "%s/calls", d->dir);
    snprintf(out, sizeof out, "%s/memory", d->dir);
    snprintf(guest, sizeof guest, "%s/guest", d->dir);
    FILE *f = fopen(in, "wb");
    if (!f) return false;
    int64_t n = d->n;
    fwrite(&n, 8, 1, f);
    for (int i = 0; i < d->n; i++) call(f, &d->match[i], i);
    if (fclose(f)) return false;
    const char *argv[] = {"/usr/bin/env", "qemu-aarch64", guest, in, out, NULL};
    if (!run(argv, said, sizeof said)) return printf("# the emulated program failed: %s\n", said), false;
    f = fopen(out, "rb");
    if (!f) return false;
    bool whole = true;
    for (int i = 0; i < d->n && whole; i++) { /* slots come in the order of the parameters */
        Match *p = &d->match[i];
        for (int q = 0; q < p->prog->nparams && whole; q++)
            if (p->bytes[q]) whole = fread(p->cpu.t[q].data, 1, p->bytes[q], f) == p->bytes[q];
    }
    fclose(f);
    return whole;
}

/* The path of guest.c is the argument. */
int main(int argc, char **argv) {
    static Desk d;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2) return 2;
    if (!on_path("aarch64-linux-gnu-gcc") || !on_path("qemu-aarch64")) {
        printf("ok 1 - NEON # SKIP no aarch64-linux-gnu-gcc and qemu-aarch64 (packages gcc-aarch64-linux-gnu, "
               "libc6-dev-arm64-cross, qemu-user)\n1..1\n");
        return 0;
    }
    int bad = draw(&d), same = 0;
    bool ran = !os_dir_temp(d.dir, sizeof d.dir) && build(&d, argv[1]) && emulate(&d);
    for (int i = 0; ran && i < d.n; i++) {
        if (match_same(&d.match[i]))
            same++;
        else
            printf("# %s: %s\n", d.match[i].prog->name, d.match[i].why), bad++;
    }
    if (*d.dir) os_dir_remove(d.dir);
    printf("%s 1 - NEON under qemu: %d units, %d with the interpreter's bits\n1..1\n", ran && !bad ? "ok" : "not ok",
           d.n, same);
    for (int i = 0; i < d.n; i++) match_free(&d.match[i]);
    return !ran || bad;
}
