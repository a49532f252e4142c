/* Memory and files with ceilings; SHA-256; hex and base64. */
#include "safe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Block {
    Block *before;
    max_align_t at[];
};

void *mem_get(Mem *m, size_t n) {
    if (n > m->ceiling - m->used) longjmp(*m->out, 1);
    Block *b = calloc(1, sizeof *b + n);
    if (!b) longjmp(*m->out, 1);
    b->before = m->blocks;
    m->blocks = b;
    m->used += n;
    return b->at;
}

void *mem_array(Mem *m, size_t count, size_t each) {
    if (each && count > SIZE_MAX / each / 2) longjmp(*m->out, 1);
    return mem_get(m, count * each);
}

void mem_mark(const Mem *m, Block **mark, size_t *used) {
    *mark = m->blocks;
    *used = m->used;
}

void mem_back(Mem *m, Block *mark, size_t used) {
    while (m->blocks && m->blocks != mark) {
        Block *b = m->blocks;
        m->blocks = b->before;
        free(b);
    }
    m->used = used;
}

void mem_end(Mem *m) {
    mem_back(m, NULL, 0);
}

char *mem_text(Mem *m, const char *s, size_t n) {
    char *t = mem_get(m, n + 1);
    if (n) memcpy(t, s, n);
    return t;
}

char *mem_fmt(Mem *m, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *t = mem_get(m, n < 0 ? 1 : (size_t)n + 1);
    va_start(ap, fmt);
    if (n >= 0) vsnprintf(t, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return t;
}

char *file_read(Mem *m, const char *path, size_t most, size_t *n, const char **why) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        *why = strerror(errno);
        return NULL;
    }
    size_t cap = 1 << 16, len = 0;
    char *s = malloc(cap);
    *why = NULL;
    while (s) {
        len += fread(s + len, 1, cap - len, f);
        if (len < cap || len > most) break;
        char *more = realloc(s, cap *= 2);
        if (!more) free(s);
        s = more;
    }
    if (!s)
        *why = "not enough memory";
    else if (ferror(f))
        *why = "it cannot be read";
    else if (len > most)
        *why = "it is larger than this program reads";
    fclose(f);
    char *text = NULL;
    if (!*why && len <= m->ceiling - m->used) text = mem_text(m, s, len);
    if (!*why && !text) *why = "not enough memory";
    free(s);
    *n = len;
    return text;
}

/* ---- SHA-256 ---- */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int by) {
    return x >> by | x << (32 - by);
}

static void sha_block(uint32_t h[8], const uint8_t *p) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10) + w[i - 7] +
               (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 16];
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t a =
            s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[i] + w[i];
        const uint32_t b =
            (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += a;
        s[0] = a + b;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
}

void sha256_text(const void *data, size_t n, char hex[65]) {
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t tail[128] = {0};
    const uint8_t *p = data;
    size_t left = n;
    for (; left >= 64; left -= 64, p += 64) sha_block(h, p);
    if (left) memcpy(tail, p, left);
    tail[left] = 0x80;
    const size_t len = left < 56 ? 64 : 128;
    for (size_t i = 0; i < 8; i++) tail[len - 1 - i] = (uint8_t)((uint64_t)n * 8 >> 8 * i);
    for (size_t i = 0; i < len; i += 64) sha_block(h, tail + i);
    for (int i = 0; i < 64; i++) hex[i] = "0123456789abcdef"[h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = 0;
}

/* ---- bytes as text ---- */
static int digit(char c, const char *set) {
    const char *at = c ? strchr(set, c) : NULL;
    return at ? (int)(at - set) : -1;
}

uint8_t *bytes_hex(Mem *m, const char *s, size_t n, size_t *out) {
    if (n % 2) return NULL;
    uint8_t *b = mem_get(m, n / 2 + 1);
    for (size_t i = 0; i < n; i += 2) {
        const int hi = digit(s[i], "0123456789abcdef"), lo = digit(s[i + 1], "0123456789abcdef");
        if (hi < 0 || lo < 0) return NULL;
        b[i / 2] = (uint8_t)(hi << 4 | lo);
    }
    *out = n / 2;
    return b;
}

uint8_t *bytes_base64(Mem *m, const char *s, size_t n, size_t *out) {
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (n % 4) return NULL;
    uint8_t *b = mem_get(m, n / 4 * 3 + 1);
    size_t len = 0;
    for (size_t i = 0; i < n; i += 4) {
        const int pad = i + 4 == n ? (s[i + 3] == '=') + (s[i + 3] == '=' && s[i + 2] == '=') : 0;
        uint32_t x = 0;
        for (size_t k = 0; k < 4; k++) {
            const int d = (int)k >= 4 - pad ? 0 : digit(s[i + k], set);
            if (d < 0) return NULL;
            x = x << 6 | (uint32_t)d;
        }
        for (int k = 0; k < 3 - pad; k++) b[len++] = (uint8_t)(x >> (16 - 8 * k));
        if (pad && x & (pad == 2 ? 0xffffu : 0xffu)) return NULL; /* one text for each bytes */
    }
    *out = len;
    return b;
}

bool same_text(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

bool mul_ok(int64_t a, int64_t b, int64_t most, int64_t *out) {
    if (a < 0 || b < 0 || (a && b > most / a)) return false;
    *out = a * b;
    return true;
}
