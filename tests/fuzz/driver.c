/* Files and folders of stored inputs -> the property of a fuzz target on each, so that a corpus is a regression test
 * under any compiler. libFuzzer brings its own main in place of this file. A property that fails aborts, or a sanitizer
 * catches it. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    size_t n = 0, cap = 4096;
    uint8_t *data = malloc(cap);
    while (data) {
        n += fread(data + n, 1, cap - n, f);
        if (n < cap) break;
        uint8_t *more = realloc(data, cap *= 2);
        if (!more) free(data);
        data = more;
    }
    fclose(f);
    if (!data) return 1;
    /* An exact copy, so that a read one past the end is a read one past the end of the allocation too. */
    uint8_t *exact = malloc(n ? n : 1);
    if (exact) {
        memcpy(exact, data, n);
        LLVMFuzzerTestOneInput(exact, n);
    }
    free(data);
    free(exact);
    return exact ? 0 : 1;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Files replayed are added to *count; returns how many could not be read. */
static int replay(const char *path, int *count) {
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode)) {
        ++*count;
        return replay_file(path);
    }
    struct dirent **names;
    int n = scandir(path, &names, NULL, by_name), bad = 0;
    if (n < 0) {
        perror(path);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            char child[4096];
            if (snprintf(child, sizeof child, "%s/%s", path, names[i]->d_name) < (int)sizeof child)
                bad += replay(child, count);
            else
                bad++;
        }
        free(names[i]);
    }
    free(names);
    return bad;
}

int main(int argc, char **argv) {
    int count = 0, bad = 0;
    for (int i = 1; i < argc; i++) bad += replay(argv[i], &count);
    /* An empty corpus is a mistake in the list of targets, not a pass. */
    printf("%s 1 - %d stored inputs replayed, %d unreadable\n", bad || !count ? "not ok" : "ok", count, bad);
    return bad || !count;
}
