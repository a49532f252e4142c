/* Runs kernels on a machine that is emulated: reads calls from a file, makes each, writes the memory of all arguments
 * to another. Linked with the units and with guest_kernels, the table of their entries.
 *
 * In, all little-endian 64-bit: number of calls; for each: kernel, row0, row1, slots; for each slot: -1 and its value,
 * or the bytes of its memory and then these. Out: the memory of all slots, in order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef union GuestSlot {
    void *p;
    int64_t i;
} GuestSlot;
typedef void GuestKernel(const GuestSlot *a, int64_t row0, int64_t row1);
extern GuestKernel *const guest_kernels[];

enum { MOST_SLOTS = 512, PAGE = 65536 };

static int64_t number(FILE *f) {
    int64_t x = 0;
    if (fread(&x, 8, 1, f) != 1) exit(3);
    return x;
}

/* Memory that ends at a page that must not be touched; the largest alignment a kernel may assume is an element's. */
static void *guarded(int64_t bytes) {
    size_t whole = ((size_t)bytes + PAGE - 1) / PAGE * PAGE;
    char *at = mmap(NULL, whole + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + whole, PAGE, PROT_NONE)) exit(4);
    return at + whole - bytes;
}

int main(int argc, char **argv) {
    FILE *in = argc > 2 ? fopen(argv[1], "rb") : NULL, *out = argc > 2 ? fopen(argv[2], "wb") : NULL;
    if (!in || !out) return 2;
    for (int64_t calls = number(in); calls > 0; calls--) {
        int64_t kernel = number(in), row0 = number(in), row1 = number(in), n = number(in), bytes[MOST_SLOTS];
        GuestSlot slot[MOST_SLOTS];
        if (n > MOST_SLOTS) return 5;
        for (int64_t i = 0; i < n; i++) {
            bytes[i] = number(in);
            if (bytes[i] < 0) {
                slot[i].i = number(in);
            } else {
                slot[i].p = guarded(bytes[i]);
                if (fread(slot[i].p, 1, (size_t)bytes[i], in) != (size_t)bytes[i]) return 6;
            }
        }
        guest_kernels[kernel](slot, row0, row1);
        for (int64_t i = 0; i < n; i++)
            if (bytes[i] > 0 && fwrite(slot[i].p, 1, (size_t)bytes[i], out) != (size_t)bytes[i]) return 7;
    }
    return fclose(out) ? 8 : 0;
}
