/* Hashes: XXH3-128 for cache keys, SHA-256 (FIPS 180-4) for receipts, splitmix64 for seeded numbers. */
#include "base.h"

#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

Hash hash_bytes(const void *p, size_t n) {
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (Hash){h.low64, h.high64};
}

void hash_hex(Hash h, char out[33]) {
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n) {
    return (x >> n) | (x << (32 - n));
}

static void sha_block(uint32_t h[8], const unsigned char *p) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3], v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotr(v4, 6) ^ rotr(v4, 11) ^ rotr(v4, 25);
        uint32_t t1 = v7 + s1 + ((v4 & v5) ^ (~v4 & v6)) + sha_k[i] + w[i];
        uint32_t s0 = rotr(v0, 2) ^ rotr(v0, 13) ^ rotr(v0, 22);
        uint32_t t2 = s0 + ((v0 & v1) ^ (v0 & v2) ^ (v1 & v2));
        v7 = v6, v6 = v5, v5 = v4, v4 = v3 + t1, v3 = v2, v2 = v1, v1 = v0, v0 = t1 + t2;
    }
    h[0] += v0, h[1] += v1, h[2] += v2, h[3] += v3, h[4] += v4, h[5] += v5, h[6] += v6, h[7] += v7;
}

#if defined(__x86_64__)
/* Asking costs microseconds where the system is a guest: for long texts only, in place of a variable for all threads.
 */
static bool sha_instructions(size_t n) {
    enum { WORTH_IT = 16384, SSSE3 = 1 << 9, SSE41 = 1 << 19, SHA = 1 << 29 };
    unsigned a, b, c, d;
    return n >= WORTH_IT && __get_cpuid(1, &a, &b, &c, &d) && (c & SSSE3) && (c & SSE41) &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & SHA);
}

/* The same blocks by the processor's own instructions, which take four rounds at a time and the state as ABEF, CDGH. */
__attribute__((target("sha,sse4.1"))) static void sha_fast(uint32_t h[8], const unsigned char *p, size_t blocks) {
    const __m128i turn = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(h + 4)), 0x1b);
    __m128i x = _mm_alignr_epi8(cdab, efgh, 8), y = _mm_blend_epi16(efgh, cdab, 0xf0), w[4];
    for (; blocks; blocks--, p += 64) {
        const __m128i x0 = x, y0 = y;
        for (int i = 0; i < 4; i++) w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * i)), turn);
        for (int i = 0; i < 16; i++) {
            __m128i *at = &w[i & 3], last = w[(i + 3) & 3];
            const __m128i k = _mm_add_epi32(*at, _mm_loadu_si128((const __m128i *)(sha_k + 4 * i)));
            y = _mm_sha256rnds2_epu32(y, x, k);
            x = _mm_sha256rnds2_epu32(x, y, _mm_shuffle_epi32(k, 0x0e));
            const __m128i sum =
                _mm_add_epi32(_mm_sha256msg1_epu32(*at, w[(i + 1) & 3]), _mm_alignr_epi8(last, w[(i + 2) & 3], 4));
            *at = _mm_sha256msg2_epu32(sum, last);
        }
        x = _mm_add_epi32(x, x0), y = _mm_add_epi32(y, y0);
    }
    const __m128i abef = _mm_shuffle_epi32(x, 0x1b), cdgh = _mm_shuffle_epi32(y, 0xb1);
    _mm_storeu_si128((__m128i *)h, _mm_blend_epi16(abef, cdgh, 0xf0));
    _mm_storeu_si128((__m128i *)(h + 4), _mm_alignr_epi8(cdgh, abef, 8));
}
#else
static bool sha_instructions(size_t n) {
    (void)n;
    return false;
}
static void sha_fast(uint32_t h[8], const unsigned char *p, size_t blocks) {
    (void)h, (void)p, (void)blocks;
}
#endif

void sha256_hex(const void *p, size_t n, char out[65]) {
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *s = p;
    size_t left = n;
    if (sha_instructions(n)) sha_fast(h, s, n / 64), s += n / 64 * 64, left = n % 64;
    for (; left >= 64; left -= 64, s += 64) sha_block(h, s);
    unsigned char last[128] = {0};
    if (left) memcpy(last, s, left);
    last[left] = 0x80;
    size_t len = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++) last[len - 1 - (size_t)i] = (unsigned char)((uint64_t)n * 8 >> (8 * i));
    for (size_t i = 0; i < len; i += 64) sha_block(h, last + i);
    for (int i = 0; i < 8; i++) snprintf(out + 8 * i, 9, "%08x", h[i]);
}
