/* Hashes: XXH3-128 for cache keys, SHA-256 (FIPS 180-4) for receipts, splitmix64 for seeded numbers. */
#include "base.h"

#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

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

void sha256_hex(const void *p, size_t n, char out[65]) {
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *s = p;
    size_t left = n;
    for (; left >= 64; left -= 64, s += 64) sha_block(h, s);
    unsigned char last[128] = {0};
    if (left) memcpy(last, s, left);
    last[left] = 0x80;
    size_t len = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++) last[len - 1 - (size_t)i] = (unsigned char)((uint64_t)n * 8 >> (8 * i));
    for (size_t i = 0; i < len; i += 64) sha_block(h, last + i);
    for (int i = 0; i < 8; i++) snprintf(out + 8 * i, 9, "%08x", h[i]);
}
