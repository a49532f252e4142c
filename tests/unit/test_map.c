/* The ownership map: slots, map and inverse, checked by enumeration for every legal W and V and many N. */
#include "../../src/plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Every element of N goes to one lane and slot, comes back by the map, and the fullest lane has map_slots(N) slots,
 * without a gap. */
static void enumerate(int64_t n, int W, int V, unsigned char *owned, int64_t *count) {
    memset(owned, 0, (size_t)n);
    memset(count, 0, sizeof(*count) * (size_t)W);
    int64_t chunks = ceil_div(n, (int64_t)W * V), most = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++)
        for (int lane = 0; lane < W; lane++)
            for (int v = 0; v < V; v++) {
                int64_t e = map_elem(chunk, lane, v, W, V), c;
                int l, k;
                if (e >= n) continue;
                assert_int_equal(owned[e], 0);
                owned[e] = 1;
                map_owner(e, W, V, &c, &l, &k);
                assert_true(c == chunk && l == lane && k == v);
                assert_true(chunk * V + v == count[lane]); /* slots of a lane come in order */
                count[lane]++;
            }
    for (int64_t e = 0; e < n; e++) assert_int_equal(owned[e], 1);
    for (int l = 0; l < W; l++) most = i64_max(most, count[l]);
    assert_int_equal(map_slots(n, W, V), most);
}

static void each_element_is_owned_once(void **state) {
    (void)state;
    static const int64_t some[] = {0,   1,   2,   3,    7,    31,   32,   33,   63,   64,  65,
                                   127, 257, 769, 1023, 1024, 1537, 2048, 4096, 4103, 8193};
    unsigned char *owned = malloc(40000);
    int64_t *count = malloc(sizeof(*count) * 1024);
    assert_non_null(owned);
    assert_non_null(count);
    const DimInfo *w = dim_info(DIM_W), *v = dim_info(DIM_V);
    for (int i = 0; i < w->nlegal; i++)
        for (int k = 0; k < v->nlegal; k++) {
            int W = w->legal[i], V = v->legal[k];
            for (int j = 0; j < COUNT(some); j++) enumerate(some[j], W, V, owned, count);
            for (int d = -2; d <= 2; d++) { /* around whole chunks, and a pack more */
                if (W * V + d >= 0) enumerate(W * V + d, W, V, owned, count);
                if (2 * W * V + d + V < 40000) enumerate(2 * W * V + d + V, W, V, owned, count);
            }
        }
    free(owned);
    free(count);
}

static void small_rows_whole(void **state) {
    (void)state;
    unsigned char owned[300];
    int64_t count[64];
    for (int64_t n = 0; n < 300; n++)
        for (int W = 1; W <= 64; W++)
            for (int V = 1; V <= 16; V *= 2) enumerate(n, W, V, owned, count);
}

static void figures(void **state) {
    (void)state;
    assert_int_equal(map_slots(8193, 256, 4), 33);
    assert_int_equal(map_slots(8193, 512, 4), 17);
    assert_int_equal(map_slots(4096, 512, 4), 8);
    assert_int_equal(map_slots(260, 32, 1), 9);
    assert_int_equal(map_slots(0, 1024, 16), 0);
    assert_int_equal(map_slots(INT64_MAX, 1, 1), INT64_MAX);
    assert_int_equal(map_slots((1ll << 40) + 1, 1024, 4), (1ll << 30) + 1);
    int64_t e = (1ll << 40) + 12345, chunk;
    int lane, v;
    map_owner(e, 96, 8, &chunk, &lane, &v);
    assert_true(map_elem(chunk, lane, v, 96, 8) == e);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_element_is_owned_once), cmocka_unit_test(small_rows_whole),
                                       cmocka_unit_test(figures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
