/* What NVRTC takes for units, on a machine with or without a GPU:
 *
 *     rowfold emit kernels/softmax.row --shape rows=4096,n=4096 --type bf16 --device preset:h200 -o softmax.cu
 *     cuda_compile sm_90a softmax.cu ...
 *
 * A line a file: processor time of the process in ms, the least of three, once the compiler is loaded; registers, bytes
 * of local memory, loads. Then of all files the median, what nine of ten are below, the longest. NVRTC keeps a cache
 * where a driver is; so each time the kernel has a name that it never had. */
#include "../../src/rt/cudadrv.h"

#include "../../src/base/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double cpu_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The least of some, in ms; below 0: it does not compile. */
static double compile(const Nvrtc *rtc, Arena *a, const char *arch, const char *text, int times, const char *name) {
    double least = -1;
    const char *at = strstr(text, "rowfold_kernel_");
    const char *entry = arena_str(a, at ? at : "none", at ? strcspn(at, "( ") : 4);
    for (int i = 0; i < times; i++) {
        char *cubin;
        size_t bytes;
        Fail fail;
        int registers, local, loads;
        Unit u = {.entry = name,
                  .text = arena_printf(a, "#define %s %s_%ld_%d\n%s", entry, entry, (long)getpid(), i, text)};
        u.bytes = strlen(u.text);
        const double from = cpu_ms();
        if (!nvrtc_build(rtc, &alloc_libc, &u, arch, false, &cubin, &bytes, &fail)) {
            printf("%s: %s\n", name, fail.text);
            return -1;
        }
        const double ms = cpu_ms() - from;
        if (least < 0 || ms < least) least = ms;
        if (i == times - 1 && cubin_facts(cubin, bytes, &registers, &local, &loads))
            printf("%8.1f %4d %5d %4d  %s\n", least, registers, local, loads, name);
        alloc_libc.put(alloc_libc.user, cubin);
    }
    return least;
}

static int by_size(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    Nvrtc rtc;
    int n = 0;
    if (argc < 3) return fprintf(stderr, "usage: cuda_compile ARCH FILE...\n"), 2;
    if (!nvrtc_open(&rtc)) return fprintf(stderr, "%s\n", rtc.why), 5;
    Arena *a = arena_new(NULL, NULL);
    double *ms = NEWN(a, double, argc);
    printf("# NVRTC %d.%d, %s: ms, registers, local bytes, loads\n", rtc.major, rtc.minor, argv[1]);
    compile(&rtc, a, argv[1], "extern \"C\" __global__ void rowfold_kernel_empty() {}", 1, "the first of the process");
    compile(&rtc, a, argv[1], "extern \"C\" __global__ void rowfold_kernel_empty() {}", 3, "an empty kernel");
    for (int i = 2; i < argc; i++) {
        char *text;
        size_t bytes;
        if (os_read_file(&alloc_libc, argv[i], OS_ANY, 1 << 24, &text, &bytes)) {
            fprintf(stderr, "%s cannot be read\n", argv[i]);
            return 6;
        }
        ms[n] = compile(&rtc, a, argv[1], arena_str(a, text, bytes), 3, argv[i]);
        n += ms[n] >= 0;
        free(text);
    }
    qsort(ms, (size_t)n, sizeof *ms, by_size);
    if (n)
        printf("# %d files: median %.1f, nine of ten below %.1f, longest %.1f\n", n, ms[n / 2], ms[n * 9 / 10],
               ms[n - 1]);
    arena_free(a);
    nvrtc_close(&rtc);
    return n == argc - 2 ? 0 : 1;
}
