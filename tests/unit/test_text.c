/* Growing text, JSON strings, and numbers that read and print with a point whatever the locale of the host program. */
#include "../../src/base/base.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_buf(void **state) {
    (void)state;
    Arena *a = arena_new(NULL, NULL);
    char line[600];
    for (int n = 0; n < 600; n++) { /* around the size that is tried first, and around the buffer's own growth */
        memset(line, 'a' + n % 26, sizeof line);
        Buf b = buf_new(a);
        buf_fmt(&b, "%.*s", n, line);
        assert_int_equal(b.n, n);
        assert_int_equal(strlen(b.s), n);
        assert_memory_equal(b.s, line, n);
        buf_fmt(&b, "<%.*s>", n, line);
        assert_int_equal(b.n, 2 * n + 2);
        assert_true(b.s[n] == '<' && b.s[2 * n + 1] == '>' && b.s[2 * n + 2] == 0);
        const char *s = arena_printf(a, "%.*s|", n, line);
        assert_int_equal(strlen(s), n + 1);
        assert_true(memcmp(s, line, n) == 0 && s[n] == '|');
    }
    arena_free(a);
}

/* Lengths around those from which blocks are hashed by the processor's own instructions, where it has them. */
static void test_sha256(void **state) {
    (void)state;
    static char a[1000000];
    static const struct {
        size_t n;
        const char *hex;
    } cases[] = {{0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                 {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
                 {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
                 {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
                 {16383, "2e1023f5ad46df0d01aa4b73ce3db452ed0a768387949efa5a858b532b763012"},
                 {16384, "f3336bea752b5a28743033dd2c844a4a63fba08871aaee2586a2bf2d69be83a2"},
                 {16385, "608b801060d579a7b659a01755259a13dec8853b97d3d8062763c97ffac6ddae"},
                 {16447, "2fbe7eae91b4c9cc64f13bb68a08c15bf79f1c6479ed0eb68fd300b4eec8c632"},
                 {16448, "fc4248b316f339290d7c313352a6399799064f948b28ea029cf4b653614b5ffb"},
                 {sizeof a, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
    memset(a, 'a', sizeof a);
    for (int i = 0; i < COUNT(cases); i++) {
        char hex[65];
        sha256_hex(a, cases[i].n, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

static void test_json(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {{"", "\"\""},
                 {"a\"\\\n\t\x01/", "\"a\\\"\\\\\\n\\u0009\\u0001/\""},
                 {"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\""},
                 {"\xC0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},                 /* overlong */
                 {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""}, /* a surrogate */
                 {"\xE2\x82", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""}};                /* cut off */
    Arena *a = arena_new(NULL, NULL);
    for (int i = 0; i < COUNT(cases); i++) {
        Buf b = buf_new(a);
        buf_json(&b, cases[i].in);
        assert_string_equal(b.s, cases[i].out);
    }
    arena_free(a);
}

static void check_numbers(void) {
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0.5, "0.5"},
                 {-1e-5, "-1e-05"},
                 {0.1, "0.1"},
                 {1.0 / 3, "0.3333333333333333"},
                 {1e300, "1e+300"},
                 {3, "3"},
                 {-0.0, "-0"},
                 {(double)INFINITY, "inf"},
                 {-(double)INFINITY, "-inf"},
                 {(double)NAN, "nan"}};
    Arena *a = arena_new(NULL, NULL);
    char *end;
    for (int i = 0; i < COUNT(cases); i++) {
        Buf b = buf_new(a);
        buf_f64(&b, cases[i].x);
        assert_string_equal(b.s, cases[i].text);
        double back = text_f64(b.s, &end);
        assert_int_equal(*end, 0);
        assert_true(isnan(back) ? isnan(cases[i].x) : memcmp(&back, &cases[i].x, sizeof back) == 0);
    }
    Rng r = {7};
    for (int i = 0; i < 2000; i++) { /* any bits: the text reads back to them */
        uint64_t u = rng_u64(&r);
        double x;
        memcpy(&x, &u, sizeof x);
        if (isnan(x)) continue;
        Buf b = buf_new(a);
        buf_f64(&b, x);
        assert_true(text_f64(b.s, &end) == x && *end == 0);
    }
    assert_string_equal(arena_printf(a, "%.2f %a", 1.25, 1.5), "1.25 0x1.8p+0");
    Cx cx = {.a = a};
    diag(&cx, S_ARG, NOWHERE, NULL, "%g", 2.5);
    assert_string_equal(cx.first->msg, "2.5");
    assert_true(text_f64("1,5", &end) == 1 && *end == ',');
    arena_free(a);
}

static void test_numbers(void **state) {
    (void)state;
    check_numbers();
}

/* A locale with a decimal comma: an installed one, else glibc's own file for one (localedef of `decimal_point ","`). */
static bool comma_locale(char *dir) {
    static const unsigned char numeric[] = {
        0x14, 0x11, 0x03, 0x20, 6,    0,   0,   0,   0x20, 0,   0,   0,   0x22, 0,   0,   0,   0x23, 0,   0, 0,
        0x24, 0,    0,    0,    0x28, 0,   0,   0,   0x2C, 0,   0,   0,   ',',  0,   0,   0,   ',',  0,   0, 0,
        0,    0,    0,    0,    'A',  'N', 'S', 'I', '_',  'X', '3', '.', '4',  '-', '1', '9', '6',  '8', 0};
    static const char *const installed[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "pl_PL.UTF-8", "ru_RU.UTF-8"};
    for (int i = 0; i < COUNT(installed); i++)
        if (setlocale(LC_NUMERIC, installed[i]) && *localeconv()->decimal_point == ',') return true;
    char path[200];
    if (!mkdtemp(dir)) return false;
    snprintf(path, sizeof path, "%s/comma", dir);
    if (mkdir(path, 0700)) return false;
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", dir);
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    size_t n = fwrite(numeric, 1, sizeof numeric, f);
    fclose(f);
    setenv("LOCPATH", dir, 1);
    bool set = n == sizeof numeric && setlocale(LC_NUMERIC, "comma") && *localeconv()->decimal_point == ',';
    unlink(path);
    snprintf(path, sizeof path, "%s/comma", dir);
    rmdir(path);
    rmdir(dir);
    return set;
}

static void test_comma(void **state) {
    (void)state;
    char dir[] = "/tmp/rowfold-locale-XXXXXX", t[16];
    if (!comma_locale(dir)) {
        print_message("no locale with a decimal comma can be had here\n");
        skip();
    }
    snprintf(t, sizeof t, "%.1f", 1.5);
    assert_string_equal(t, "1,5"); /* the host program sees its own */
    check_numbers();
    snprintf(t, sizeof t, "%.1f", 1.5);
    assert_string_equal(t, "1,5"); /* and still does */
    setlocale(LC_NUMERIC, "C");
}

/* Of two identities what differs, as a message says it. */
static void test_apart(void **state) {
    (void)state;
    static const struct {
        const char *one, *other, *apart;
    } row[] = {{"cpu; avx2; 1 threads; gcc 12", "cpu; avx2; 2 threads; gcc 12", "1 thread"},
               {"cpu; avx2; 2 threads; gcc 12", "cpu; avx2; 1 threads; gcc 12", "2 threads"},
               {"cpu; 11 threads", "cpu; 1 threads", "11 threads"},
               {"a; 1 units", "b; 2 units", "a; 1 unit"},
               {"1 core of 2 sockets", "x", "1 core of 2 sockets"},
               {"1 s", "x", "1 s"},
               {"same", "same", ""}};
    Arena *a = arena_new(&alloc_libc, NULL);
    for (int i = 0; i < COUNT(row); i++)
        assert_string_equal(text_apart(a, row[i].one, row[i].other, "; "), row[i].apart);
    arena_free(a);
    assert_string_equal(plural(1), "");
    assert_string_equal(plural(0), "s");
}

static void test_median(void **state) {
    (void)state;
    double v[] = {3, -1, INFINITY, 2, 2.5};
    assert_true(isnan(f64_median(v, 0)));
    assert_true(f64_median(v, 1) == 3);
    assert_true(f64_median(v, 2) == 1 && v[0] == -1 && v[1] == 3);
    assert_true(f64_median(v, 5) == 2.5 && v[4] == INFINITY);
    assert_true(f64_median(v, 4) == 2.25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median), cmocka_unit_test(test_apart), cmocka_unit_test(test_buf),
        cmocka_unit_test(test_sha256), cmocka_unit_test(test_json),  cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_comma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
