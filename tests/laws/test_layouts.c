/* A kernel's answer does not depend on where its tensors lie: strides, broadcasts, axes in any order of memory, bases
 * at any element, rows of any length and number. Every answer is held against that for the same numbers packed, and
 * against the definition; every tensor stands between guard pages. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "field.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char norm[] =
    "kernel norm for rows (x: in T[rows, n], w: in T[n], y: out T[rows, n], s: out f32[rows]) {\n"
    "  m = max(x)\n  e = exp(x - m)\n  s = sum(e)\n  y = e / sum(e) + w * x\n}";

/* ---- lengths ---- */

static void lengths(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 2, 3, 13, 31, 32, 33, 127, 509, 1023, 1024, 1025, 8191, 128256, 262144, 1000003};
    static const char *const pins[] = {"W=16", "W=32,V=2", "W=96", "W=16,hold.x=register,V=4", "W=64,stat=online"};
    static const Ty types[] = {TY_F32, TY_BF16, TY_F16};
    for (int i = 0; i < COUNT(sizes); i++) {
        int n = sizes[i], rows = n > 200000 ? 1 : n > 10000 ? 2 : 3;
        Ty ty = types[i % 3];
        int64_t each = ty_bytes(ty), bytes = each * n;
        const char *pin = pins[i % 5];
        rowfold_kernel *k = field_try(norm, ty_text(ty), field_text("n=%d", n), pin);
        if (!k) k = field_kernel(norm, ty_text(ty), field_text("n=%d", n), "W=16");
        for (int front = 0; front < 2;
             front++) { /* the end of the last row before a guard, the start of the first behind one */
            void *(*room)(int64_t) = front ? field_front : field_memory;
            void *x = room(rows * bytes), *w = room(bytes), *y = room(rows * bytes);
            float *s = room(rows * 4);
            field_fill(ty, x, (int64_t)rows * n, u_at), field_fill(ty, w, n, u_at);
            RUN(k, TENSOR(x, rows, n), TENSOR(w, n), TENSOR(y, rows, n), TENSOR(s, rows));
        }
    }
}

/* ---- strides ---- */

/* The same numbers, dense and with strides s0, s1 (elements), must give the same bits; what lies between is untouched.
 */
static void strided(Ty ty, int rows, int n, int64_t s0, int64_t s1, int64_t o0, int64_t o1, const char *pin,
                    const char *which) {
    int64_t each = ty_bytes(ty), in = (rows - 1) * s0 + (n - 1) * s1 + 1, out = (rows - 1) * o0 + (n - 1) * o1 + 1;
    char *x = field_memory(rows * n * each), *y = field_memory(rows * n * each), *w = field_memory(n * each);
    char *xs = field_memory(in * each), *ys = field_memory(out * each);
    float *s = field_memory(rows * 4), *ss = field_memory(rows * 4);
    field_fill(ty, w, n, u_at);
    for (int64_t i = 0; i < rows * n; i++) {
        put(ty, x, i, u_at(s0 ? i : i % n)); /* a stride of 0 can only show one row */
        put(ty, xs, i / n * s0 + i % n * s1, u_at(s0 ? i : i % n));
    }
    rowfold_kernel *k = field_kernel(norm, ty_text(ty), field_text("n=%d", n), pin);
    rowfold_kernel *q = which ? field_strided(norm, ty_text(ty), field_text("n=%d", n), pin, which) : k;
    RUN(k, TENSOR(x, rows, n), TENSOR(w, n), TENSOR(y, rows, n), TENSOR(s, rows));
    RUN(q, field_view(xs, rows, n, s0, s1), TENSOR(w, n), field_view(ys, rows, n, o0, o1), TENSOR(ss, rows));
    assert_memory_equal(s, ss, (size_t)rows * 4);
    for (int64_t at = 0; at < out; at++) {
        bool hit = false;
        int64_t from = 0;
        for (int64_t r = 0; r < rows && !hit; r++) {
            int64_t rest = at - r * o0;
            if (rest >= 0 && rest % o1 == 0 && rest / o1 < n) hit = true, from = r * n + rest / o1;
        }
        if (hit)
            assert_memory_equal(ys + at * each, y + from * each, (size_t)each);
        else
            for (int64_t b = 0; b < each; b++) assert_int_equal((unsigned char)ys[at * each + b], 0xA5);
    }
}

/* What an estimate may choose otherwise where strides are arguments, and what would change the bits. */
#define BITS ",acc=1,stat=two-pass,div=exact,exp=exact"

static void strides(void **state) {
    (void)state;
    static const char *const pins[] = {"W=16,V=2" BITS, "W=1" BITS, "W=96" BITS, "W=32,hold.x=register" BITS};
    static const Ty types[] = {TY_F32, TY_BF16, TY_F16, TY_F64};
    for (int p = 0; p < 4; p++) {
        Ty ty = field_has(types[p]) ? types[p] : TY_F32;
        strided(ty, 5, 67, 70, 1, 81, 1, pins[p], NULL); /* gaps between rows */
        strided(ty, 5, 67, 0, 1, 67, 1, pins[p], NULL);  /* one row seen five times */
        strided(ty, 5, 67, 200, 3, 67, 1, pins[p], "x"); /* every third element */
        strided(ty, 5, 67, 67, 1, 400, 5, pins[p], "y"); /* and scattered */
        strided(ty, 5, 67, 1, 5, 1, 5, pins[p], "x,y");  /* the row axis is the fast one: a transposed tensor */
        strided(ty, 5, 67, 1, 9, 140, 2, pins[p], "*");
    }
    /* one element seen everywhere, a weight seen everywhere */
    float one = 3, w = 0.5f, y[2 * 67], s[2];
    rowfold_kernel *k = field_strided(norm, "f32", "n=67", "W=16,V=2", "x,w");
    rowfold_arg x = field_view(&one, 2, 67, 0, 0), v = TENSOR(&w, 67);
    x.strides_given = v.strides_given = 1;
    RUN(k, x, v, TENSOR(y, 2, 67), TENSOR(s, 2));
    for (int i = 0; i < 134; i++) NEAR(TY_F32, y[i], 1.0 / 67 + 1.5, "element %d", i);
    /* what the kernel was not compiled for, and what would lie upon itself, is refused by name */
    float *big = field_memory(4 * 5 * 200), *out = field_memory(4 * 5 * 67), *ww = field_memory(4 * 67),
          *sum = field_memory(20);
    rowfold_kernel *q = field_kernel(norm, "f32", "n=67", "W=16,V=2");
    REFUSED(q, "launch.stride", field_view(big, 5, 67, 200, 2), TENSOR(ww, 67), TENSOR(out, 5, 67), TENSOR(sum, 5));
    REFUSED(q, "launch.stride", field_view(big, 5, 67, -67, 1), TENSOR(ww, 67), TENSOR(out, 5, 67), TENSOR(sum, 5));
    REFUSED(q, "launch.stride", TENSOR(big, 5, 67), TENSOR(ww, 67), field_view(out, 5, 67, 0, 1), TENSOR(sum, 5));
    REFUSED(q, "launch.extent", TENSOR(big, 5, 66), TENSOR(ww, 67), TENSOR(out, 5, 67), TENSOR(sum, 5));
    REFUSED(q, "launch.extent", TENSOR(big, 5, 67), TENSOR(ww, 67), TENSOR(out, 4, 67), TENSOR(sum, 5));
    REFUSED(q, "launch.no_memory", TENSOR(NULL, 5, 67), TENSOR(ww, 67), TENSOR(out, 5, 67), TENSOR(sum, 5));
    REFUSED(q, "launch.stride", field_view(big, 5, 67, INT64_MAX / 2, 1), TENSOR(ww, 67), TENSOR(out, 5, 67),
            TENSOR(sum, 5));
    /* rows of an output that lie into one another */
    REFUSED(q, "launch.stride", TENSOR(big, 5, 67), TENSOR(ww, 67), field_view(out, 5, 67, 66, 1), TENSOR(sum, 5));
}

/* ---- axes in other orders of memory ---- */

static void orders(void **state) {
    (void)state;
    /* the reduced axis first, in the middle, last; two of them on both sides of the row axis */
    static const struct {
        const char *text;
        int where; /* of the reduced axis */
    } c[] = {{"kernel k for b, r (x: in f32[n, b, r], y: out f32[n, b, r], s: out f32[b, r]) {\n  s = sum(x)\n  y = x "
              "/ s\n}",
              0},
             {"kernel k for b, r (x: in f32[b, n, r], y: out f32[b, n, r], s: out f32[b, r]) {\n  s = sum(x)\n  y = x "
              "/ s\n}",
              1},
             {"kernel k for b, r (x: in f32[b, r, n], y: out f32[b, r, n], s: out f32[b, r]) {\n  s = sum(x)\n  y = x "
              "/ s\n}",
              2}};
    enum { B = 3, R = 5, N = 67, ALL = B * R * N };
    static const char *const pins[] = {"W=16", "W=1,V=2", "W=96", "W=32,fuse=off"};
    float *x = field_memory(ALL * 4), *y = field_memory(ALL * 4), *s = field_memory(B * R * 4);
    for (int p = 0; p < 4; p++)
        for (int o = 0; o < 3; o++) {
            rowfold_kernel *k = field_kernel(c[o].text, NULL, "n=67", pins[p]);
            int64_t n[3] = {B, R, R}, at[3];
            n[c[o].where] = N, n[o == 0 ? 1 : 0] = B, n[o == 2 ? 1 : 2] = R;
            for (int i = 0; i < ALL; i++) {
                at[0] = i / (n[1] * n[2]), at[1] = i / n[2] % n[1], at[2] = i % n[2];
                int64_t e = at[c[o].where], b = at[o == 0 ? 1 : 0], r = at[o == 2 ? 1 : 2];
                x[i] = field_u((b * R + r) * N + e);
            }
            RUN(k, field_arg(x, 3, n, NULL), field_arg(y, 3, n, NULL), TENSOR(s, B, R));
            for (int i = 0; i < B * R; i++) {
                double want = 0;
                for (int e = 0; e < N; e++) want += (double)field_u(i * N + e);
                NEAR(TY_F32, s[i], want, "order %d sum %d", o, i);
            }
        }
    /* a column sum: the axis reduced over is the slow one, rows are neighbours */
    float *dy = field_memory(1000 * 37 * 4), *db = field_memory(37 * 4);
    field_fill(TY_F32, dy, 37000, u_at);
    for (int p = 0; p < 4; p++)
        RUN(field_kernel("reduce.row:column_sum", "T=f32,S=f32", "rows=1000", pins[p]), TENSOR(dy, 1000, 37),
            TENSOR(db, 37));
    /* reduced axes on both sides of the row axis, and of one that is kept */
    static const char both[] = "kernel k for r (x: in f32[a, r, b, c], s: out f32[r], t: out f32[r, b]) {\n  s = "
                               "sum(x)\n  t = sum(x over a, c)\n}";
    float *z = field_memory(4 * 3 * 7 * 5 * 4), *sum = field_memory(12), *part = field_memory(84);
    field_fill(TY_F32, z, 420, u_at);
    for (int p = 0; p < 4; p++)
        RUN(field_kernel(both, NULL, "a=4,b=7,c=5", pins[p]), TENSOR(z, 4, 3, 7, 5), TENSOR(sum, 3),
            TENSOR(part, 3, 7));
}

/* Rows that are neighbours in memory and rows that lie apart: the same bits, loaded and stored, whole registers and a
 * part of one, and what lies between is untouched. */
static void rows_apart(void **state) {
    (void)state;
    enum { A = 5, R = 3 * 64 + 21, STEP = 3 };
    static const char text[] =
        "kernel k for r (x: in T[a, r], y: out T[a, r], s: out f32[r]) {\n  s = sum(x)\n  y = x - s\n}";
    static const char *const pins[] = {"W=1,V=1,P=64", "W=1,V=1,P=128,acc=2", "W=1,V=1,P=32", "W=1,V=1,P=16"};
    static const Ty types[] = {TY_F32, TY_BF16, TY_I8};
    for (int t = 0; t < COUNT(types); t++)
        for (int p = 0; p < COUNT(pins); p++) {
            const int64_t each = ty_bytes(types[t]), n[] = {A, R}, apart[] = {R * STEP, STEP};
            const size_t bytes = (size_t)(A * R * each), wide = bytes * STEP;
            rowfold_kernel *k = field_kernel(
                types[t] == TY_I8 ? "kernel k for r (x: in T[a, r], y: out T[a, r], s: out i64[r]) {\n  s = "
                                    "sum(x)\n  y = -x\n}"
                                  : text,
                ty_text(types[t]), "a=5", pins[p]);
            char *x = field_memory((int64_t)bytes), *y = field_memory((int64_t)bytes),
                 *xs = field_memory((int64_t)wide), *ys = field_memory((int64_t)wide), *s = field_memory(R * 8),
                 *ss = field_memory(R * 8 * STEP);
            memset(ys, 0x5A, wide);
            const int64_t es = types[t] == TY_I8 ? 8 : 4, rows[] = {R}, by[] = {STEP};
            for (int i = 0; i < A * R; i++) {
                if (types[t] == TY_I8)
                    x[i] = (char)(i % 11 - 5);
                else
                    put(types[t], x, i, u_at(i));
                memcpy(xs + i * STEP * each, x + i * each, (size_t)each);
            }
            RUN(k, field_arg(x, 2, n, NULL), field_arg(y, 2, n, NULL), field_arg(s, 1, rows, NULL));
            RUN(k, field_arg(xs, 2, n, apart), field_arg(ys, 2, n, apart), field_arg(ss, 1, rows, by));
            for (int i = 0; i < A * R; i++) assert_memory_equal(y + i * each, ys + i * STEP * each, (size_t)each);
            for (int i = 0; i < R; i++) assert_memory_equal(s + i * es, ss + i * STEP * es, (size_t)es);
            for (int i = 0; i < A * R * (int)each * STEP; i++)
                if (i / each % STEP) assert_int_equal((unsigned char)ys[i], 0x5A);
        }
}

/* ---- bases ---- */

static void bases(void **state) {
    (void)state;
    enum { ROWS = 3, N = 37 };
    static const Ty types[] = {TY_F64, TY_F32, TY_F16, TY_BF16};
    for (int t = 0; t < COUNT(types); t++) {
        Ty ty = types[t];
        if (!field_has(ty)) continue;
        int64_t each = ty_bytes(ty), bytes = ROWS * N * each;
        rowfold_kernel *k = field_kernel(norm, ty_text(ty), "n=37", "W=16,V=2");
        char *want = field_memory(bytes);
        float *s = field_memory(12);
        for (int shift = 0; shift < 64 / (int)each; shift += t < 2 ? 1 : 5) { /* all places within a register */
            char *x = (char *)field_front(bytes + 64) + shift * each,
                 *w = (char *)field_front(N * each + 64) + (shift * 3 % 8) * each,
                 *y = (char *)field_front(bytes + 64) + (shift * 5 % (64 / each)) * each;
            field_fill(ty, x, ROWS * N, u_at), field_fill(ty, w, N, u_at);
            RUN(k, TENSOR(x, ROWS, N), TENSOR(w, N), TENSOR(y, ROWS, N), TENSOR(s, ROWS));
            if (!shift) memcpy(want, y, (size_t)bytes);
            assert_memory_equal(want, y, (size_t)bytes);
        }
    }
}

/* ---- numbers of rows ---- */

static void row_counts(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 65535, 65536, 1 << 20};
    static const char *const pins[] = {"W=16", "W=16,P=4", "W=4,V=2,P=32", "W=16,P=3,prefetch=2"};
    for (int p = 0; p < 4; p++) {
        rowfold_kernel *k = field_kernel(norm, "f32", "n=3", pins[p]);
        float *first = field_memory(12);
        for (int c = 0; c < COUNT(counts) - (p % 2); c++) {
            int64_t rows = counts[c];
            if (rows > field_most(rows, 4096)) continue;
            float *x = field_memory(rows * 12), *y = field_memory(rows * 12), *s = field_memory(rows * 4),
                  *w = field_memory(12);
            field_fill(TY_F32, w, 3, u_at);
            for (int64_t i = 0; i < rows * 3; i++) x[i] = field_u(i % 3000);
            LAUNCH(k, TENSOR(x, rows, 3), TENSOR(w, 3), TENSOR(y, rows, 3), TENSOR(s, rows));
            if (c == 1) memcpy(first, y, 12);
            for (int64_t i = 0; i < rows; i++) /* the rows repeat: each is one that was seen before, bit for bit */
                if (memcmp(y + 3 * i, i < 1000 ? y + 3 * i : y + 3 * (i % 1000), 12) ||
                    (i % 1000 == 0 && memcmp(y + 3 * i, first, 12)))
                    fail_msg("row %lld of %lld", (long long)i, (long long)rows);
            if (rows < 4) RUN(k, TENSOR(x, rows, 3), TENSOR(w, 3), TENSOR(y, rows, 3), TENSOR(s, rows));
        }
    }
    /* several row axes, one of them empty */
    static const char two[] = "kernel two for a, b (x: in f32[a, b, n], s: out f32[b, a]) { s = sum(x) }";
    float *x = field_memory(7 * 11 * 5 * 4), *s = field_memory(7 * 11 * 4);
    field_fill(TY_F32, x, 385, u_at);
    RUN(field_kernel(two, NULL, "n=5", "W=16,P=4"), TENSOR(x, 7, 11, 5), TENSOR(s, 11, 7));
    LAUNCH(field_kernel(two, NULL, "n=5", "W=16,P=4"), TENSOR(NULL, 7, 0, 5), TENSOR(NULL, 0, 7));
}

/* ---- beyond 2^31 and 2^32 elements ---- */

static void large(void **state) {
    (void)state;
    if (field_most(1, 0) == 0) field_skip("layouts past 2^31", "so much takes an emulated device hours");
    /* rows x n past 2^32 by a row stride of 0: a row of 65,537 bytes seen 65,537 times */
    static const char some[] = "kernel s for rows (x: in u8[rows, n], s: out bool[rows]) { s = any(x > 250) }";
    enum { N = 65537 };
    unsigned char *x = field_memory(N), *s = field_memory(N);
    for (int last = 0; last < 2; last++) {
        for (int i = 0; i < N; i++) x[i] = (unsigned char)(i % 251);
        if (last) x[N - 1] = 251;
        LAUNCH(field_kernel(some, NULL, "n=65537", "W=64"), field_view(x, N, N, 0, 1), TENSOR(s, N));
        for (int i = 0; i < N; i++) assert_int_equal(s[i], last);
    }
    /* bytes in and out past 2^31: addresses, not only counts. Memory is touched where there is something to see. */
    const int64_t rows = 2200, n = 1 << 20, all = rows * n;
    static const char next[] = "kernel n for rows (x: in u8[rows, n], y: out u8[rows]) { y = max(x) }";
    unsigned char *big =
        mmap(NULL, (size_t)all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (big == MAP_FAILED) field_skip("layouts past 2^31", "no 2.3 GB of address space");
    unsigned char *y = field_memory(rows);
    for (int64_t r = 0; r < rows; r += 50) big[r * n + (r * 7919) % n] = (unsigned char)(1 + r / 50);
    big[all - 1] = 200;
    LAUNCH(field_kernel(next, NULL, "n=1048576", "W=64,V=1"), TENSOR(big, rows, n), TENSOR(y, rows));
    for (int64_t r = 0; r < rows; r++) assert_int_equal(y[r], r == rows - 1 ? 200 : r % 50 ? 0 : 1 + r / 50);
    munmap(big, (size_t)all);
    /* an output past 2^32 bytes whose pages are all one file page: every address is written, and nothing beside it */
    const int64_t page = 1 << 21, outs = (1ll << 32) + 3 * page;
    int fd = memfd_create("rowfold", 0);
    if (fd < 0 || ftruncate(fd, page) != 0) field_skip("layouts past 2^31", "no shared memory file");
    unsigned char *o = mmap(NULL, (size_t)(outs + page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int64_t at = 0; o != MAP_FAILED && at < outs; at += page)
        if (mmap(o + at, (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
            o = MAP_FAILED;
    if (o == MAP_FAILED) field_skip("layouts past 2^31", "no address space");
    static const char copy[] = "kernel c for rows (x: in u8[n], y: out u8[rows, n]) { y = x }";
    unsigned char *row = field_memory(page);
    for (int64_t i = 0; i < page; i++) row[i] = (unsigned char)(i * 31 % 253);
    LAUNCH(field_kernel(copy, NULL, "n=2097152", "W=64"), TENSOR(row, page), TENSOR(o, outs / page, page));
    assert_memory_equal(o, row, (size_t)page);
    munmap(o, (size_t)(outs + page));
    close(fd);
    /* more than can be counted is refused */
    REFUSED(field_kernel(some, NULL, "n=65537", "W=64"), "launch.extent", field_view(x, INT64_MAX / 2, N, 0, 1),
            TENSOR(s, INT64_MAX / 2));
}

#define CASE(f) cmocka_unit_test_teardown(f, field_clean)
int main(void) {
    const struct CMUnitTest tests[] = {CASE(lengths), CASE(strides),    CASE(orders), CASE(rows_apart),
                                       CASE(bases),   CASE(row_counts), CASE(large)};
    return cmocka_run_group_tests(tests, field_open, field_close);
}
