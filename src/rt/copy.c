/* The host's speed of light: the fastest of several copies of the same bytes, or of several ways to read or to write
 * them, on the same threads and in the same kind of memory. */
#include "local.h"
#include "pool.h"

#include "../base/os.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SAMPLE_NS = 100000 };
typedef void MoveFn(char *to, const char *from, size_t n); /* both aligned to 64; reads use from, writes to */

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

/* What was read must be needed: it is handed to an instruction that is not there. */
__attribute__((target("avx"))) static void read_32(char *to, const char *from, size_t n) {
    (void)to;
    __m256 s[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    for (size_t i = 0; i + 128 <= n; i += 128)
        for (int k = 0; k < 4; k++) s[k] = _mm256_xor_ps(s[k], _mm256_load_ps((const void *)(from + i + 32 * k)));
    __asm__ volatile("" : : "x"(s[0]), "x"(s[1]), "x"(s[2]), "x"(s[3]));
}

__attribute__((target("avx512f"))) static void read_64(char *to, const char *from, size_t n) {
    (void)to;
    __m512i s[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (size_t i = 0; i + 256 <= n; i += 256)
        for (int k = 0; k < 4; k++) s[k] = _mm512_xor_si512(s[k], _mm512_load_si512(from + i + 64 * k));
    __asm__ volatile("" : : "v"(s[0]), "v"(s[1]), "v"(s[2]), "v"(s[3]));
}

static void write_stream16(char *to, const char *from, size_t n) {
    const __m128i v = _mm_loadu_si128((const void *)from);
    for (size_t i = 0; i + 16 <= n; i += 16) _mm_stream_si128((void *)(to + i), v);
    _mm_sfence();
}

__attribute__((target("avx512f"))) static void write_stream64(char *to, const char *from, size_t n) {
    const __m512i v = _mm512_loadu_si512(from);
    for (size_t i = 0; i + 64 <= n; i += 64) _mm512_stream_si512((void *)(to + i), v);
    _mm_sfence();
}
#endif

static void read_words(char *to, const char *from, size_t n) {
    (void)to;
    uint64_t s[4] = {0};
    for (size_t i = 0; i + 32 <= n; i += 32)
        for (int k = 0; k < 4; k++) {
            uint64_t x;
            memcpy(&x, from + i + 8 * k, 8);
            s[k] ^= x;
        }
    __asm__ volatile("" : : "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]));
}

static void write_libc(char *to, const char *from, size_t n) {
    memset(to, from[0], n);
}

static const struct {
    CeilingKind kind;
    const char *how;
    MoveFn *move;
    Isa needs;
} ways[] = {
    {CEILING_COPY, "memcpy", copy_libc, ISA_PORTABLE},
    {CEILING_READ, "words of 8 bytes", read_words, ISA_PORTABLE},
    {CEILING_WRITE, "memset", write_libc, ISA_PORTABLE},
#if defined(__x86_64__)
    {CEILING_COPY, "streaming stores of 16 bytes, prefetch", copy_stream16, ISA_PORTABLE},
    {CEILING_COPY, "streaming stores of 32 bytes", copy_stream32, ISA_AVX2},
    {CEILING_COPY, "streaming stores of 64 bytes", copy_stream64, ISA_AVX512},
    {CEILING_READ, "loads of 32 bytes", read_32, ISA_AVX2},
    {CEILING_READ, "loads of 64 bytes", read_64, ISA_AVX512},
    {CEILING_WRITE, "streaming stores of 16 bytes", write_stream16, ISA_PORTABLE},
    {CEILING_WRITE, "streaming stores of 64 bytes", write_stream64, ISA_AVX512},
#endif
};

typedef struct Job {
    CeilingKind kind;
    MoveFn *move;
    char *to;         /* of reads: not written */
    const char *from; /* of writes: 64 bytes, the same for all */
    size_t bytes, each;
} Job;

static void shift(Job *j, size_t by) {
    if (j->kind != CEILING_READ) j->to += by;
    if (j->kind != CEILING_WRITE) j->from += by;
}

static void move_task(void *arg, int i) {
    Job j = *(const Job *)arg;
    size_t at = (size_t)i * j.each;
    if (at >= j.bytes) return;
    shift(&j, at);
    j.move(j.to, j.from, j.bytes - at < j.each ? j.bytes - at : j.each);
}

typedef struct Sets { /* of one ceiling */
    size_t stride;
    int n, next;
} Sets;

static double sample(const Job *first, Sets *s, Pool *pool, int threads, int calls) {
    int64_t from = os_now_ns();
    for (int i = 0; i < calls; i++) {
        Job j = *first;
        shift(&j, (size_t)s->next * s->stride);
        s->next = (s->next + 1) % s->n;
        pool_run(pool, threads, threads, move_task, &j);
    }
    return (double)(os_now_ns() - from) / calls;
}

/* As many calls a sample as the clock needs to be of no account. The first samples are to warm up. */
static double median_ns(const Job *job, Sets *s, Pool *pool, int threads, int reps, double *t) {
    double once = sample(job, s, pool, threads, 1);
    int calls = once < SAMPLE_NS ? (int)(SAMPLE_NS / (once < 20 ? 20 : once)) + 1 : 1;
    for (int r = -1; r < reps; r++) {
        double x = sample(job, s, pool, threads, calls);
        if (r >= 0) t[r] = x;
    }
    return f64_median(t, reps);
}

Err host_ceiling(Cx *cx, Device *d, Pool *pool, const Ceiling *c, double *ns, const char **how) {
    Mem *from = NULL, *to = NULL;
    double *t = rt_get(d->rt, (size_t)c->reps * sizeof *t);
    if (!t) return rt_oom(cx, "the times of copies", (size_t)c->reps * sizeof *t);
    const size_t bytes = c->kind == CEILING_COPY ? (c->bytes + 1) / 2 : c->bytes, stride = (bytes + 255) & ~(size_t)255,
                 all = stride * (size_t)c->sets;
    /* A read has no target and a write no source to speak of. */
    Err err = mem_new(cx, d, c->kind == CEILING_WRITE ? 64 : all, &from);
    if (!err) err = mem_new(cx, d, c->kind == CEILING_READ ? 64 : all, &to);
    if (!err) {
        Rng rng = {bytes};
        for (size_t i = 0; i + 8 <= from->bytes;
             i += 8) { /* zeros may be copied faster: some memory controllers compress */
            uint64_t x = rng_u64(&rng);
            memcpy((char *)mem_at(from) + i, &x, 8);
        }
        Sets s = {stride, c->sets, 0};
        Job job = {.kind = c->kind, .to = mem_at(to), .from = mem_at(from), .bytes = bytes};
        job.each = (bytes / (size_t)c->threads + 4096) & ~(size_t)4095;
        for (int i = 0; i < COUNT(ways); i++) {
            if (ways[i].kind != c->kind || !cpu_has(ways[i].needs)) continue;
            job.move = ways[i].move;
            double x = median_ns(&job, &s, pool, c->threads, c->reps, t);
            if (!*how || x < *ns) *ns = x, *how = ways[i].how;
        }
    }
    mem_free(from);
    mem_free(to);
    rt_put(d->rt, t);
    return err;
}
