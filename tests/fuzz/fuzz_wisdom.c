/* Any bytes as exported wisdom: a report that is JSON; what was taken is exported and known when it comes again. */
#include "../../src/base/os.h"
#include "../../src/store/store.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(x)            \
    do {                   \
        if (!(x)) abort(); \
    } while (0)

static char folder[PATH_MAX - 16];

static void leave(void) {
    os_dir_remove(folder);
}

static Store *fresh(Cx *cx) {
    char path[PATH_MAX];
    Store *s;
    if (!*folder) {
        MUST(!os_dir_temp(folder, sizeof folder));
        atexit(leave);
    }
    snprintf(path, sizeof path, "%s/wisdom.db", folder);
    StoreOptions o = {.where = path, .mode = STORE_WRITE};
    MUST(store_open(cx, &o, &s) == OK && s);
    return s;
}

static json_int_t count(const json_t *report, const char *name) {
    const json_t *x = json_object_get(report, name);
    MUST(json_is_integer(x));
    return json_integer_value(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Cx cx = {.a = arena_new(&alloc_libc, NULL)};
    MUST(cx.a);
    const char *report, *text, *again, *here[] = {"fuzz"};
    Store *s = fresh(&cx);
    const Filter all = {0};
    if (wisdom_import(&cx, s, (const char *)data, n, here, 1, &report) == OK) {
        json_t *j = json_loads(report, 0, NULL);
        MUST(json_is_object(j));
        json_int_t taken = count(j, "taken");
        json_decref(j);
        MUST(wisdom_export(&cx, s, &all, &text) == OK);
        if (taken) {
            MUST(wisdom_import(&cx, s, text, strlen(text), here, 1, &again) == OK);
            j = json_loads(again, 0, NULL);
            MUST(j && !count(j, "taken") && !count(j, "refused"));
            json_decref(j);
        }
    } else {
        MUST(cx.first && *cx.first->msg);
    }
    store_close(s);
    arena_free(cx.a);
    return 0;
}
