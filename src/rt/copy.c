/* The host's speed of light: the fastest of several copies of the same bytes, on the same threads and in the same kind
 * of memory. */
#include "local.h"
#include "pool.h"

#include "../base/os.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef void CopyFn(char *to, const char *from, size_t n); /* both aligned to 64 */

static void copy_libc(char *to, const char *from, size_t n) {
    memcpy(to, from, n);
}

#if defined(__x86_64__)
/* Streaming stores do not read a line before they overwrite it. Which width is best differs between processors. AHEAD:
 * read-ahead in bytes, where the hardware's own stops at each page. */
enum { AHEAD = 1024 };

static void copy_stream16(char *to, const char *from, size_t n) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        _mm_prefetch(from + i + AHEAD, _MM_HINT_NTA);
        __m128i a = _mm_loadu_si128((const void *)(from + i)), b = _mm_loadu_si128((const void *)(from + i + 16));
        __m128i c = _mm_loadu_si128((const void *)(from + i + 32)), d = _mm_loadu_si128((const void *)(from + i + 48));
        _mm_stream_si128((void *)(to + i), a);
        _mm_stream_si128((void *)(to + i + 16), b);
        _mm_stream_si128((void *)(to + i + 32), c);
        _mm_stream_si128((void *)(to + i + 48), d);
    }
    memcpy(to + i, from + i, n - i);
    _mm_sfence();
}

__attribute__((target("avx"))) static void copy_stream32(char *to, const char *from, size_t n) {
    size_t i = 0;
    for (; i + 128 <= n; i += 128) {
        __m256i a = _mm256_loadu_si256((const void *)(from + i)), b = _mm256_loadu_si256((const void *)(from + i + 32));
        __m256i c = _mm256_loadu_si256((const void *)(from + i + 64)),
                d = _mm256_loadu_si256((const void *)(from + i + 96));
        _mm256_stream_si256((void *)(to + i), a);
        _mm256_stream_si256((void *)(to + i + 32), b);
        _mm256_stream_si256((void *)(to + i + 64), c);
        _mm256_stream_si256((void *)(to + i + 96), d);
    }
    memcpy(to + i, from + i, n - i);
    _mm_sfence();
}

__attribute__((target("avx512f"))) static void copy_stream64(char *to, const char *from, size_t n) {
    size_t i = 0;
    for (; i + 256 <= n; i += 256) {
        __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 64);
        __m512i c = _mm512_loadu_si512(from + i + 128), d = _mm512_loadu_si512(from + i + 192);
        _mm512_stream_si512((void *)(to + i), a);
        _mm512_stream_si512((void *)(to + i + 64), b);
        _mm512_stream_si512((void *)(to + i + 128), c);
        _mm512_stream_si512((void *)(to + i + 192), d);
    }
    memcpy(to + i, from + i, n - i);
    _mm_sfence();
}
#endif

static const struct {
    const char *how;
    CopyFn *copy;
    Isa needs;
} copies[] = {
    {"memcpy", copy_libc, ISA_PORTABLE},
#if defined(__x86_64__)
    {"streaming stores of 16 bytes, prefetch", copy_stream16, ISA_PORTABLE},
    {"streaming stores of 32 bytes", copy_stream32, ISA_AVX2},
    {"streaming stores of 64 bytes", copy_stream64, ISA_AVX512},
#endif
};

typedef struct Job {
    CopyFn *copy;
    char *to;
    const char *from;
    size_t bytes, each;
} Job;

static void copy_task(void *arg, int i) {
    const Job *j = arg;
    size_t at = (size_t)i * j->each;
    if (at < j->bytes) j->copy(j->to + at, j->from + at, j->bytes - at < j->each ? j->bytes - at : j->each);
}

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median_ns(Job *job, Pool *pool, int threads, int reps, double *t) {
    for (int r = -1; r < reps; r++) { /* the first is to warm up */
        int64_t from = os_now_ns();
        pool_run(pool, threads, threads, copy_task, job);
        if (r >= 0) t[r] = (double)(os_now_ns() - from);
    }
    qsort(t, (size_t)reps, sizeof *t, by_value);
    return reps % 2 ? t[reps / 2] : (t[reps / 2 - 1] + t[reps / 2]) / 2;
}

Err host_copy(Cx *cx, Device *d, Pool *pool, size_t bytes, int threads, int reps, double *ns, const char **how) {
    Mem *from = NULL, *to = NULL;
    double *t = rt_get(d->rt, (size_t)reps * sizeof *t);
    if (!t) return rt_oom(cx, "the times of copies", (size_t)reps * sizeof *t);
    Err err = mem_new(cx, d, bytes, &from);
    if (!err) err = mem_new(cx, d, bytes, &to);
    if (!err) {
        Rng rng = {bytes};
        for (size_t i = 0; i + 8 <= bytes; i += 8) { /* zeros may be copied faster: some memory controllers compress */
            uint64_t x = rng_u64(&rng);
            memcpy((char *)mem_at(from) + i, &x, 8);
        }
        Job job = {.to = mem_at(to), .from = mem_at(from), .bytes = bytes};
        job.each = (bytes / (size_t)threads + 4096) & ~(size_t)4095;
        for (int i = 0; i < COUNT(copies); i++) {
            if (!cpu_has(copies[i].needs)) continue;
            job.copy = copies[i].copy;
            double x = median_ns(&job, pool, threads, reps, t);
            if (!*how || x < *ns) *ns = x, *how = copies[i].how;
        }
    }
    mem_free(from);
    mem_free(to);
    rt_put(d->rt, t);
    return err;
}
