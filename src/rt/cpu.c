/* CPUID and sysfs -> which instruction sets this process may use, the processor's name, its cache sizes. */
#include "local.h"

#include "../base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool cpu_has(Isa isa) {
    switch (isa) {
    case ISA_PORTABLE: return true;
#if defined(__x86_64__)
    case ISA_AVX2: {
        unsigned a, b, c, d; /* __builtin_cpu_supports also asks whether the system saves the registers; it knows no
                                f16c everywhere */
        bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
        return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
    case ISA_AVX512:
        return cpu_has(ISA_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512cd");
#elif defined(__aarch64__)
    case ISA_NEON: return true;
#endif
    default: return false;
    }
}

Isa cpu_best(void) {
    static const Isa order[] = {ISA_AVX512, ISA_AVX2, ISA_NEON, ISA_PORTABLE};
    for (int i = 0; i < COUNT(order); i++)
        if (cpu_has(order[i])) return order[i];
    return ISA_PORTABLE;
}

#if defined(__x86_64__)
void cpu_model(char *out, size_t cap) {
    unsigned a, b, c, d, r[12] = {0};
    char name[49] = "x86-64";
    if (__get_cpuid(0x80000000u, &a, &b, &c, &d) && a >= 0x80000004u) {
        for (unsigned i = 0; i < 3; i++)
            __get_cpuid(0x80000002u + i, r + 4 * i, r + 4 * i + 1, r + 4 * i + 2, r + 4 * i + 3);
        memcpy(name, r, 48);
        name[48] = 0;
        for (size_t n = strlen(name); n && name[n - 1] == ' ';) name[--n] = 0; /* padded in front or behind */
    }
    const char *at = name + strspn(name, " ");
    a = 0;
    __get_cpuid(1, &a, &b, &c, &d);
    unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    if (family == 6 || family == 15) model |= (a >> 16 & 15) << 4;
    if (family == 15) family += a >> 20 & 255;
    snprintf(out, cap, "%s (family %u model %u stepping %u)", at, family, model, a & 15);
}
#else
void cpu_model(char *out, size_t cap) {
    /* ARM has no name to ask for, only numbers, which Linux shows here */
    char *text = NULL, *at;
    size_t n = 0;
    unsigned long who = 0, part = 0;
    if (os_read_file(&alloc_libc, "/proc/cpuinfo", OS_ANY, 1 << 24, &text, &n) == 0) {
        if ((at = strstr(text, "CPU implementer")) && (at = strchr(at, ':'))) who = strtoul(at + 1, NULL, 0);
        if ((at = strstr(text, "CPU part")) && (at = strchr(at, ':'))) part = strtoul(at + 1, NULL, 0);
        free(text);
    }
    snprintf(out, cap, "cpu implementer 0x%lx part 0x%lx", who, part);
}
#endif

/* One line of a sysfs file; false where it is missing. */
static bool sysfs(int index, const char *what, char line[64]) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, what);
    FILE *f = fopen(path, "re");
    bool got = f && fgets(line, 64, f);
    if (f) fclose(f);
    return got;
}

static void set_level(Caps *c, int level, int64_t bytes) {
    int64_t *to = level == 1 ? &c->l1_bytes : level == 2 ? &c->l2_bytes : level == 3 ? &c->l3_bytes : NULL;
    if (to && bytes > 0) *to = bytes;
}

static int64_t sysfs_bytes(int index, const char *what) { /* "64", "32K"; 0 where it is missing */
    char line[64], *end;
    if (!sysfs(index, what, line)) return 0;
    int64_t n = strtoll(line, &end, 10);
    return n << (*end == 'K' ? 10 : *end == 'M' ? 20 : 0);
}

void cpu_caches(Caps *c) {
    char line[64];
    int found = 0;
    /* not sysconf: under some hypervisors it adds up all of a socket's third levels */
    for (int i = 0; i < 16 && sysfs(i, "type", line); i++) {
        if (line[0] == 'I') continue; /* instructions */
        int level = (int)sysfs_bytes(i, "level");
        int64_t line_bytes = sysfs_bytes(i, "coherency_line_size");
        set_level(c, level, sysfs_bytes(i, "size"));
        if (level == 1 && line_bytes > 0) c->cache_line = line_bytes;
        found++;
    }
#if defined(__x86_64__)
    unsigned a, b, cc, d;
    bool amd = __get_cpuid(0x80000001u, &a, &b, &cc, &d) && (cc & 1u << 22);
    for (unsigned i = 0; i < 16 && !found; i++) { /* leaf 4, which AMD has at another place */
        if (!__get_cpuid_count(amd ? 0x8000001Du : 4u, i, &a, &b, &cc, &d) || (a & 31) == 0) break;
        if ((a & 31) == 2) continue; /* instructions */
        int64_t ways = (b >> 22) + 1, parts = (b >> 12 & 1023) + 1, line_bytes = (b & 4095) + 1, sets = (int64_t)cc + 1;
        set_level(c, (int)(a >> 5 & 7), ways * parts * line_bytes * sets);
        c->cache_line = line_bytes;
    }
#else
    (void)found;
#endif
}

/* ---- clock ---- */

static bool core_number(int core, const char *what, int64_t *out) {
    char path[128], line[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", core, what);
    FILE *f = fopen(path, "re");
    const bool ok = f && fgets(line, sizeof line, f);
    if (f) fclose(f);
    if (ok) line[strcspn(line, "\n")] = 0;
    return ok && str_i64(line, out);
}

DevState cpu_state(void) {
    enum { MOST_CORES = 1024 };
    DevState s = {0, -1};
    int64_t khz, times;
    int told = 0;
    for (int i = 0; i < MOST_CORES; i++) {
        const bool clock = core_number(i, "cpufreq/scaling_cur_freq", &khz),
                   heat = core_number(i, "thermal_throttle/core_throttle_count", &times);
        if (!clock && !heat) break;
        if (clock) s.mhz += (double)khz / 1000, told++;
        if (heat) s.throttles = i64_max(s.throttles, 0) + times;
    }
    if (told) s.mhz /= told;
    return s;
}
