/* The ground that an auditor of untrusted files stands on: memory with a ceiling, files with a ceiling, SHA-256, and
 * bytes written as hex or base64. Nothing here, nor anywhere in this program, is shared with librowfold. */
#ifndef AUDIT_SAFE_H
#define AUDIT_SAFE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All memory of one audit. Running out of it, or past the ceiling, jumps to `out`; nothing is freed before mem_end. */
typedef struct Block Block;
typedef struct Mem {
    Block *blocks;
    size_t used, ceiling;
    jmp_buf *out;
} Mem;
void *mem_get(Mem *m, size_t n); /* zeroed; never NULL */
void *mem_array(Mem *m, size_t count, size_t each);
void mem_mark(const Mem *m, Block **mark, size_t *used);
void mem_back(Mem *m, Block *mark, size_t used); /* frees all that was got since */
void mem_end(Mem *m);
char *mem_text(Mem *m, const char *s, size_t n);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
char *
mem_fmt(Mem *m, const char *fmt, ...);

/* The whole file, a 0 behind it; NULL and *why where it cannot be read or is longer than `most` bytes. */
char *file_read(Mem *m, const char *path, size_t most, size_t *n, const char **why);

void sha256_text(const void *data, size_t n, char hex[65]); /* FIPS 180-4 */
/* Bytes written as hex (prefix none) or as base64 (RFC 4648, with padding); NULL where the text is neither. */
uint8_t *bytes_hex(Mem *m, const char *s, size_t n, size_t *out);
uint8_t *bytes_base64(Mem *m, const char *s, size_t n, size_t *out);

bool same_text(const char *a, const char *b);
bool mul_ok(int64_t a, int64_t b, int64_t most, int64_t *out); /* a * b for numbers >= 0, unless it is above `most` */
static inline int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t up_div(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}
#endif
