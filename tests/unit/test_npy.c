/* cli/npy.c: headers as NumPy writes them, headers that lie, and a great many mutations of both. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../cli/npy.h"

/* A header of version 1 around a dictionary. */
static size_t header(unsigned char *p, const char *dict) {
    const size_t n = strlen(dict) + 1;
    memcpy(p, "\x93NUMPY\x01\x00", 8);
    p[8] = (unsigned char)(n & 0xFF), p[9] = (unsigned char)(n >> 8);
    memcpy(p + 10, dict, n - 1);
    p[10 + n - 1] = '\n';
    return 10 + n;
}

/* A control character within a text: here the end of a C string, which must not be the end of the type. */
static void test_embedded(void **state) {
    (void)state;
    static const char dict[] = "{'descr': '<f4@', 'fortran_order': False, 'shape': (3,), }";
    for (int c = 0; c < ' '; c++) {
        unsigned char p[1024];
        NpyError e = {NPY_OK, ""};
        Npy a;
        const size_t n = header(p, dict);
        *(unsigned char *)memchr(p, '@', n) = (unsigned char)c;
        assert_int_equal(npy_header_read(p, n, &a, &e), NPY_HEADER);
    }
}

static NpyFault reads(const char *dict, Npy *a) {
    unsigned char p[1024];
    NpyError e = {NPY_OK, ""};
    const NpyFault f = npy_header_read(p, header(p, dict), a, &e);
    assert_int_equal(e.fault, f);
    if (f) assert_true(strlen(e.text) > 0);
    return f;
}

static void test_reads(void **state) {
    (void)state;
    Npy a;
    assert_int_equal(reads("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", &a), NPY_OK);
    assert_int_equal(a.kind, 'f');
    assert_int_equal(a.bytes, 4);
    assert_int_equal(a.rank, 2);
    assert_int_equal(a.shape[0], 3);
    assert_int_equal(a.shape[1], 4);
    assert_int_equal(a.data_len, 48);
    int64_t stride[NPY_RANK];
    npy_strides(&a, stride);
    assert_int_equal(stride[0], 4);
    assert_int_equal(stride[1], 1);
    assert_int_equal(reads("{\"shape\":(3L,4L,5),\"fortran_order\":True,\"descr\":\"|u1\"}", &a), NPY_OK);
    npy_strides(&a, stride);
    assert_int_equal(stride[0], 1);
    assert_int_equal(stride[1], 3);
    assert_int_equal(stride[2], 12);
    assert_int_equal(reads("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", &a), NPY_OK);
    assert_int_equal(a.count, 1);
    assert_int_equal(reads("{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }", &a), NPY_OK);
    assert_int_equal(a.rank, 1);
    assert_int_equal(reads("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 5)}", &a), NPY_OK);
    assert_int_equal(a.count, 0);
    assert_int_equal(reads("{'descr': '>u1', 'fortran_order': False, 'shape': (5,)}", &a), NPY_OK);
    assert_int_equal(reads("{'descr': '<V2', 'fortran_order': False, 'shape': (5,)}", &a), NPY_OK);
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        NpyFault fault;
        const char *dict;
    } bad[] = {
        {NPY_TYPE, "{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '<f3', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '<f16', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '<f1', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '4', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '<f4x', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': '<i99999999999', 'fortran_order': False, 'shape': (3,), }"},
        {NPY_TYPE, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }"},
        {NPY_SHAPE, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }"},
        {NPY_SHAPE, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }"},
        {NPY_SHAPE, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296), }"},
        {NPY_SHAPE, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296,4294967296), }"},
        {NPY_SHAPE, "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,), }"},
        {NPY_HEADER, "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }"},
        {NPY_HEADER, "{'descr': '<f4', 'fortran_order': False, 'shape': (3.5,), }"},
        {NPY_HEADER, "{'descr': '<f4', 'fortran_order': False, 'shape': 3}"},
        {NPY_HEADER, "{'descr': '<f4', 'fortran_order': False, 'shape': (3"},
        {NPY_HEADER, "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}"},
        {NPY_HEADER, "{'descr': '<f4', 'shape': (3,)}"},
        {NPY_HEADER, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"},
        {NPY_HEADER, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}"},
        {NPY_HEADER, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} 1"},
        {NPY_HEADER, "{'descr': '<f\\x34', 'fortran_order': False, 'shape': (3,)}"},
        {NPY_HEADER, "{'descr': 'ffffffffffffffffffffffffffffffffffffff', 'fortran_order': False, 'shape': (3,)}"},
        {NPY_HEADER, "{"},
        {NPY_HEADER, ""},
        {NPY_HEADER, "'descr'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Npy a = {.rank = -7};
        const NpyFault f = reads(bad[i].dict, &a);
        if (f != bad[i].fault) fail_msg("%s: fault %d, wanted %d", bad[i].dict, (int)f, (int)bad[i].fault);
        assert_int_equal(a.rank, -7); /* untouched */
    }
    unsigned char p[64];
    NpyError e;
    Npy a;
    const size_t n = header(p, "{}");
    for (size_t k = 0; k < n; k++) assert_int_not_equal(npy_header_read(p, k, &a, &e), NPY_OK);
    p[6] = 4;
    assert_int_equal(npy_header_size(p, n), 0);
    p[6] = 2, p[8] = p[9] = p[10] = p[11] = 0xFF; /* four gigabytes of header */
    assert_int_equal(npy_header_read(p, n, &a, &e), NPY_HEADER);
}

static void test_round_trip(void **state) {
    (void)state;
    static const struct {
        char kind;
        int bytes;
    } types[] = {{'f', 2}, {'f', 4}, {'f', 8}, {'i', 1}, {'i', 8}, {'u', 2}, {'b', 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int rank = 0; rank <= NPY_RANK; rank++) {
            Npy a = {.kind = types[i].kind, .bytes = types[i].bytes, .fortran = rank & 1, .rank = rank}, b;
            char p[512];
            NpyError e;
            for (int d = 0; d < rank; d++) a.shape[d] = d == 1 ? 123 : d + 2;
            const size_t n = npy_header_write(&a, p, sizeof p);
            assert_true(n > 0 && n % 64 == 0);
            assert_int_equal(npy_header_write(&a, p, n - 1), 0);
            assert_int_equal(npy_header_read((unsigned char *)p, n, &b, &e), NPY_OK);
            assert_int_equal(b.kind, a.kind);
            assert_int_equal(b.bytes, a.bytes);
            assert_int_equal(b.rank, rank);
            assert_int_equal(b.fortran, a.fortran);
            assert_int_equal(b.data_at, n);
            assert_memory_equal(b.shape, a.shape, sizeof(int64_t) * (size_t)rank);
        }
    /* The largest sizes that a shape may have fit in the longest header. */
    Npy a = {.kind = 'f', .bytes = 8, .rank = NPY_RANK};
    char p[512];
    for (int d = 0; d < NPY_RANK; d++) a.shape[d] = INT64_MAX;
    assert_true(npy_header_write(&a, p, sizeof p) > 0);
}

static uint64_t next(uint64_t *s) {
    uint64_t z = *s += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Whatever the bytes, a header is refused with a reason or describes an array whose sizes belong together. */
static void test_mutations(void **state) {
    (void)state;
    static const char *const dicts[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
        "{'descr': '<i8', 'fortran_order': True, 'shape': (12, 1, 99999, 2), }         ",
        "{'descr': '|b1', 'fortran_order': False, 'shape': (), }",
    };
    static const char tasty[] = "'\"(){}[],:<>|=0123456789fiubVTrueFalse \n\\L-.";
    uint64_t s = 20260101;
    int accepted = 0, refused = 0;
    for (int round = 0; round < 200000; round++) {
        unsigned char p[256];
        size_t n = header(p, dicts[next(&s) % 3]);
        for (uint64_t k = next(&s) % 4; k-- > 0;) {
            const size_t at = next(&s) % n;
            switch (next(&s) % 5) {
            case 0: p[at] = (unsigned char)next(&s); break;
            case 1: p[at] ^= (unsigned char)(1u << next(&s) % 8); break;
            case 2: p[at] = (unsigned char)tasty[next(&s) % (sizeof tasty - 1)]; break;
            case 3: n = at + 1; break;
            default: /* a byte once more */
                if (n < sizeof p) memmove(p + at + 1, p + at, n - at), n++;
            }
        }
        /* On a heap block of exactly its size, so that the sanitizer sees a read past the end. */
        unsigned char *exact = malloc(n);
        assert_non_null(exact);
        memcpy(exact, p, n);
        Npy a = {0};
        NpyError e = {NPY_OK, ""};
        if (npy_header_read(exact, n, &a, &e) == NPY_OK) {
            int64_t count = 1, stride[NPY_RANK];
            assert_in_range(a.rank, 0, NPY_RANK);
            for (int d = 0; d < a.rank; d++) {
                assert_true(a.shape[d] >= 0);
                count *= a.shape[d];
            }
            assert_int_equal(count, a.count);
            assert_int_equal(a.data_len, (size_t)count * (size_t)a.bytes);
            assert_true(a.data_at <= n && strchr("fiubV", a.kind) && a.bytes >= 1 && a.bytes <= 8);
            npy_strides(&a, stride);
            accepted++;
        } else {
            assert_true(e.fault != NPY_OK && strlen(e.text) > 0);
            refused++;
        }
        free(exact);
    }
    assert_true(accepted > 1000 && refused > 1000); /* both sides were seen */
}

static void write_file(const char *path, const void *p, size_t n) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), (ssize_t)n);
    assert_int_equal(close(fd), 0);
}

static void test_load(void **state) {
    (void)state;
    char folder[] = "/tmp/rowfold-npy-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.npy", folder);
    Npy a = {.kind = 'f', .bytes = 4, .rank = 2, .shape = {2, 3}}, b;
    unsigned char file[512];
    NpyError e = {NPY_OK, ""};
    void *data = NULL;
    const size_t n = npy_header_write(&a, (char *)file, sizeof file);
    const float x[6] = {1, 2, 3, 4, 5, 6};
    memcpy(file + n, x, sizeof x);
    write_file(path, file, n + sizeof x);
    assert_int_equal(npy_load(path, &b, &data, &e), NPY_OK);
    assert_memory_equal(data, x, sizeof x);
    assert_int_equal((uintptr_t)data % 64, 0);
    free(data);
    data = NULL;
    for (size_t cut = 0; cut < n + sizeof x; cut += 5) { /* ends anywhere */
        write_file(path, file, cut);
        const NpyFault f = npy_load(path, &b, &data, &e);
        assert_true(f == NPY_HEADER || f == NPY_SHORT);
        assert_null(data);
    }
    /* Promises a terabyte: refused by the file's size, not by an allocation. */
    a.shape[0] = (int64_t)1 << 38;
    write_file(path, file, npy_header_write(&a, (char *)file, sizeof file));
    assert_int_equal(npy_load(path, &b, &data, &e), NPY_SHORT);
    assert_int_equal(npy_load(folder, &b, &data, &e), NPY_OPEN); /* a folder */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(npy_load(path, &b, &data, &e), NPY_OPEN); /* nothing */
    assert_null(data);
    assert_int_equal(rmdir(folder), 0);
    assert_null(npy_memory(SIZE_MAX));
    void *least = npy_memory(0);
    assert_non_null(least);
    free(least);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),      cmocka_unit_test(test_embedded),  cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_mutations), cmocka_unit_test(test_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
