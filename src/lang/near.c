/* A misspelt name -> the name that was probably meant. */
#include "ast.h"

#include <string.h>

/* Edits (insert, drop, change, swap two neighbours) that turn a into b; anything above 2 is reported as 3. */
static int edits(const char *a, int na, const char *b, int nb) {
    int row[3][LANG_NAME + 1]; /* this row and the two above it */
    if (na - nb > 2 || nb - na > 2 || nb > LANG_NAME) return 3;
    for (int j = 0; j <= nb; j++) row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        int least = i;
        for (int j = 1; j <= nb; j++) {
            int best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best) best = up[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
            if (best < least) least = best;
        }
        if (least > 2) return 3;
    }
    int d = row[na % 3][nb];
    return d > 2 ? 3 : d;
}

static bool same_but_case(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if (*a != *b && ((*a ^ *b) != 32 || ((*a | 32) < 'a' || (*a | 32) > 'z'))) return false;
    return *a == *b;
}

const char *near_text(Arena *a, const char *name, const char *const *among, int n) {
    int len = (int)strlen(name), best = len < 3 ? 0 : len < 6 ? 1 : 2; /* of two letters nearly everything is near */
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        if (same_but_case(name, among[i])) return arena_printf(a, ", did you mean '%s'?", among[i]);
        int d = edits(name, len, among[i], (int)strlen(among[i]));
        if (d < best || (d == best && d > 0 && !found)) best = d, found = among[i];
    }
    return found ? arena_printf(a, ", did you mean '%s'?", found) : "";
}
