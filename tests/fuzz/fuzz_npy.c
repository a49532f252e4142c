/* Any bytes as a .npy file: a fault with a text, or a header whose sizes fit each other, whose strides stay within the
 * elements, and which is written and read back alike. */
#include "../../cli/npy.h"

#include <stdlib.h>
#include <string.h>

#define MUST(x)            \
    do {                   \
        if (!(x)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Npy a, b;
    NpyError e;
    NpyFault fault = npy_header_read(data, n, &a, &e);
    if (fault) {
        MUST(e.fault == fault && *e.text && memchr(e.text, 0, sizeof e.text));
        return 0;
    }
    int64_t stride[NPY_RANK], last = 0, count = 1;
    MUST(a.rank >= 0 && a.rank <= NPY_RANK && a.data_at <= n && a.bytes >= 1);
    npy_strides(&a, stride);
    for (int d = 0; d < a.rank; d++) {
        MUST(a.shape[d] >= 0);
        count *= a.shape[d];
        last += a.shape[d] ? (a.shape[d] - 1) * stride[d] : 0;
    }
    MUST(count == a.count && a.data_len == (size_t)a.count * (size_t)a.bytes);
    MUST(!count || last == count - 1);
    char text[512];
    size_t len = npy_header_write(&a, text, sizeof text);
    MUST(len && len % 64 == 0);
    MUST(npy_header_read((const unsigned char *)text, len, &b, &e) == NPY_OK);
    MUST(b.kind == a.kind && b.bytes == a.bytes && b.rank == a.rank && b.count == a.count);
    MUST(b.fortran == a.fortran || a.rank < 2);
    for (int d = 0; d < a.rank; d++) MUST(b.shape[d] == a.shape[d]);
    return 0;
}
