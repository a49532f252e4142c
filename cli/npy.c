/* .npy bytes -> type, order, shape and elements, and back. Nothing in a file is believed before it is checked. */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static NpyFault
fault(NpyError *e, NpyFault f, const char *fmt, ...) {
    va_list ap;
    e->fault = f;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return f;
}

size_t npy_header_size(const unsigned char *p, size_t n) {
    if (n < 12 || memcmp(p, magic, sizeof magic) != 0 || p[6] < 1 || p[6] > 3) return 0;
    if (p[6] == 1) return 10 + (size_t)(p[8] | p[9] << 8);
    return 12 + ((size_t)p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24);
}

/* ---- the dictionary: a literal of Python with three keys, in any order ---- */
typedef struct Text {
    const char *p, *end;
} Text;

static void skip(Text *t) {
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\t' || *t->p == '\r')) t->p++;
}

static int eat(Text *t, char c) {
    skip(t);
    if (t->p >= t->end || *t->p != c) return 0;
    t->p++;
    return 1;
}

static int eat_word(Text *t, const char *word) {
    const size_t n = strlen(word);
    skip(t);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0) return 0;
    t->p += n;
    return 1;
}

/* A quoted text without escapes or control characters, into out; 0 when there is none or it is too long. */
static int eat_string(Text *t, char *out, size_t cap) {
    skip(t);
    if (t->p >= t->end || (*t->p != '\'' && *t->p != '"')) return 0;
    const char quote = *t->p++;
    size_t n = 0;
    for (; t->p < t->end && *t->p != quote; t->p++) {
        if (*t->p == '\\' || (unsigned char)*t->p < ' ' || n + 1 >= cap) return 0;
        out[n++] = *t->p;
    }
    if (t->p >= t->end) return 0;
    t->p++;
    out[n] = 0;
    return 1;
}

/* -1: not a number, -2: too large */
static int64_t eat_count(Text *t) {
    int64_t v = 0;
    int digits = 0, large = 0;
    skip(t);
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++, digits++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *t->p - '0', &v)) large = 1;
    if (t->p < t->end && *t->p == 'L') t->p++; /* Python 2 wrote 3L */
    return !digits ? -1 : large ? -2 : v;
}

static NpyFault read_type(const char *s, Npy *a, NpyError *e) {
    const char *p = s;
    const char order = *p == '<' || *p == '>' || *p == '|' || *p == '=' ? *p++ : '=';
    const char kind = *p;
    int bytes = 0;
    if (kind) p++;
    for (; *p >= '0' && *p <= '9' && bytes < 1000; p++) bytes = bytes * 10 + (*p - '0');
    const int whole = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    if (*p == 0 && ((strchr("iu", kind) && kind && whole) || (kind == 'f' && whole && bytes > 1) ||
                    (kind == 'b' && bytes == 1) || (kind == 'V' && (bytes == 1 || bytes == 2)))) {
        if (order == '>' && bytes > 1)
            return fault(e, NPY_TYPE, "its type is '%.16s': big endian; save it with astype('<%c%d')", s, kind, bytes);
        a->kind = kind, a->bytes = bytes;
        return NPY_OK;
    }
    return fault(e, NPY_TYPE, "its type is '%.16s'; f2 f4 f8, i1 to i8, u1 to u8 and b1 are read", s);
}

static NpyFault read_shape(Text *t, Npy *a, NpyError *e) {
    if (!eat(t, '(')) return fault(e, NPY_HEADER, "its header has no shape");
    a->rank = 0, a->count = 1;
    while (!eat(t, ')')) {
        const int64_t v = eat_count(t);
        if (v == -1) return fault(e, NPY_HEADER, "its shape has something that is not a count");
        if (v == -2) return fault(e, NPY_SHAPE, "its shape has a number past 2^63");
        if (a->rank == NPY_RANK) return fault(e, NPY_SHAPE, "it has more than %d dimensions", NPY_RANK);
        a->shape[a->rank++] = v;
        if (!eat(t, ',')) {
            if (!eat(t, ')')) return fault(e, NPY_HEADER, "its shape does not end");
            break;
        }
    }
    /* An empty dimension makes the array empty, but the others must still be sizes that strides can be made of. */
    int empty = 0;
    for (int d = 0; d < a->rank; d++) {
        const int64_t n = a->shape[d] ? a->shape[d] : 1;
        empty |= a->shape[d] == 0;
        if (__builtin_mul_overflow(a->count, n, &a->count))
            return fault(e, NPY_SHAPE, "its shape has more than 2^63 elements");
    }
    int64_t len;
    if (__builtin_mul_overflow(a->count, (int64_t)16, &len) || (uint64_t)len > SIZE_MAX / 2)
        return fault(e, NPY_SHAPE, "its shape has more elements than memory has addresses");
    if (empty) a->count = 0;
    return NPY_OK;
}

NpyFault npy_header_read(const unsigned char *p, size_t n, Npy *out, NpyError *e) {
    Npy a = {0};
    int have_type = 0, have_order = 0, have_shape = 0;
    const size_t size = npy_header_size(p, n);
    if (!size) return fault(e, NPY_HEADER, "it does not begin like a .npy file");
    if (size > NPY_HEADER_MAX) return fault(e, NPY_HEADER, "its header is longer than %d bytes", NPY_HEADER_MAX);
    if (size > n) return fault(e, NPY_SHORT, "it ends within its header");
    Text t = {(const char *)p + (p[6] == 1 ? 10 : 12), (const char *)p + size};
    if (!eat(&t, '{')) return fault(e, NPY_HEADER, "its header is no dictionary");
    while (!eat(&t, '}')) {
        char key[32], type[32];
        NpyFault f = NPY_OK;
        if (!eat_string(&t, key, sizeof key) || !eat(&t, ':'))
            return fault(e, NPY_HEADER, "its header is no dictionary");
        if (strcmp(key, "descr") == 0 && !have_type++) {
            skip(&t);
            if (t.p < t.end && *t.p == '[') return fault(e, NPY_TYPE, "its elements are records");
            if (!eat_string(&t, type, sizeof type)) return fault(e, NPY_HEADER, "its header has no type");
            f = read_type(type, &a, e);
        } else if (strcmp(key, "fortran_order") == 0 && !have_order++) {
            a.fortran = eat_word(&t, "True");
            if (!a.fortran && !eat_word(&t, "False")) return fault(e, NPY_HEADER, "its header has no order");
        } else if (strcmp(key, "shape") == 0 && !have_shape++) {
            f = read_shape(&t, &a, e);
        } else {
            return fault(e, NPY_HEADER,
                         "its header has a key that is not descr, fortran_order or shape, or has one twice");
        }
        if (f) return f;
        if (!eat(&t, ',')) {
            if (!eat(&t, '}')) return fault(e, NPY_HEADER, "its header does not end");
            break;
        }
    }
    if (!have_type || !have_order || !have_shape)
        return fault(e, NPY_HEADER, "its header lacks descr, fortran_order or shape");
    skip(&t);
    if (t.p != t.end) return fault(e, NPY_HEADER, "its header has something after the dictionary");
    a.data_at = size;
    a.data_len = (size_t)a.count * (size_t)a.bytes;
    *out = a;
    return NPY_OK;
}

void npy_type_text(const Npy *a, char out[8]) {
    snprintf(out, 8, "%c%d", a->kind, a->bytes % 100);
}

size_t npy_header_write(const Npy *a, char *p, size_t cap) {
    char dict[400];
    int n = snprintf(dict, sizeof dict, "{'descr': '%c%c%d', 'fortran_order': %s, 'shape': (", a->bytes > 1 ? '<' : '|',
                     a->kind, a->bytes, a->fortran ? "True" : "False");
    for (int d = 0; d < a->rank; d++)
        n += snprintf(dict + n, sizeof dict - (size_t)n, "%lld%s", (long long)a->shape[d],
                      a->rank == 1      ? ","
                      : d + 1 < a->rank ? ", "
                                        : "");
    n += snprintf(dict + n, sizeof dict - (size_t)n, "), }");
    const size_t total = ((size_t)n + 10 + 1 + 63) / 64 * 64;
    if (total > cap) return 0;
    memcpy(p, magic, sizeof magic);
    p[6] = 1, p[7] = 0;
    p[8] = (char)((total - 10) & 0xFF), p[9] = (char)((total - 10) >> 8);
    memset(p + 10, ' ', total - 10);
    memcpy(p + 10, dict, (size_t)n);
    p[total - 1] = '\n';
    return total;
}

void npy_strides(const Npy *a, int64_t stride[NPY_RANK]) {
    int64_t s = 1;
    for (int i = 0; i < a->rank; i++) {
        const int d = a->fortran ? i : a->rank - 1 - i;
        stride[d] = s;
        s *= a->shape[d] ? a->shape[d] : 1;
    }
}

void *npy_memory(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    return aligned_alloc(64, (bytes ? bytes + 63 : 64) / 64 * 64);
}

/* ---- files ---- */
/* How many of n bytes there are; -1: error */
static int64_t read_all(int fd, void *p, size_t n) {
    size_t got = 0;
    while (got < n) {
        const ssize_t r = read(fd, (char *)p + got, n - got < (1u << 30) ? n - got : 1u << 30);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return -1;
        if (r == 0) break;
        got += (size_t)r;
    }
    return (int64_t)got;
}

static NpyFault load(int fd, Npy *out, void **data, NpyError *e) {
    struct stat st;
    if (fstat(fd, &st) < 0) return fault(e, NPY_OPEN, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode)) return fault(e, NPY_OPEN, "it is not a regular file");
    unsigned char first[12];
    int64_t got = read_all(fd, first, sizeof first);
    if (got < 0) return fault(e, NPY_OPEN, "%s", strerror(errno));
    size_t size = npy_header_size(first, (size_t)got);
    if (!size) return fault(e, NPY_HEADER, "it does not begin like a .npy file");
    if (size > NPY_HEADER_MAX) return fault(e, NPY_HEADER, "its header is longer than %d bytes", NPY_HEADER_MAX);
    if (size < sizeof first) size = sizeof first;
    unsigned char *head = malloc(size);
    if (!head) return fault(e, NPY_MEMORY, "there is no memory for its header");
    memcpy(head, first, sizeof first);
    got = read_all(fd, head + sizeof first, size - sizeof first);
    NpyFault f =
        got < 0 ? fault(e, NPY_OPEN, "%s", strerror(errno)) : npy_header_read(head, (size_t)got + sizeof first, out, e);
    free(head);
    if (f) return f;
    /* The size is compared before memory is asked for: a header of a few bytes must not cost gigabytes. */
    if (st.st_size < 0 || (uint64_t)st.st_size < out->data_at || (uint64_t)st.st_size - out->data_at < out->data_len)
        return fault(e, NPY_SHORT, "it has %lld bytes and its header promises %llu", (long long)st.st_size,
                     (unsigned long long)(out->data_at + out->data_len));
    void *p = npy_memory(out->data_len);
    if (!p) return fault(e, NPY_MEMORY, "there is no memory for its %zu bytes", out->data_len);
    if (lseek(fd, (off_t)out->data_at, SEEK_SET) < 0 || (got = read_all(fd, p, out->data_len)) < 0)
        f = fault(e, NPY_OPEN, "%s", strerror(errno));
    else if ((size_t)got < out->data_len)
        f = fault(e, NPY_SHORT, "it became shorter while it was read");
    if (f) {
        free(p);
        return f;
    }
    *data = p;
    return NPY_OK;
}

NpyFault npy_load(const char *path, Npy *out, void **data, NpyError *e) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block before it is refused */
    if (fd < 0) return fault(e, NPY_OPEN, "%s", strerror(errno));
    const NpyFault f = load(fd, out, data, e);
    close(fd);
    return f;
}
