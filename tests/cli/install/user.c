/* A stranger's program: opens a context, prints the version of the library that it runs with, ends. C99 and C++. */
#include <rowfold.h>
#include <stdio.h>

int main(void) {
    rowfold_context *context = NULL;
    if (rowfold_context_new(NULL, &context) != ROWFOLD_OK) return 1;
    printf("rowfold %s\n", rowfold_version_string());
    rowfold_context_free(context);
    return 0;
}
