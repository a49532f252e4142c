/* JSON <-> the text of records: canonical, named by its own SHA-256. */
#include "evidence.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { CANONICAL = JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY };

json_t *record_number(double x) {
    return isfinite(x) ? json_real(x) : json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

json_t *record_text(const char *s) {
    json_t *j = json_string(s ? s : "");
    return j ? j : json_string(""); /* not UTF-8 */
}

json_t *record_sha(const void *p, size_t n) {
    char hex[65];
    sha256_hex(p, n, hex);
    return json_string(hex);
}

json_t *record_member(json_t *parent, const char *key, json_t *child) {
    json_object_set_new(parent, key, child);
    return json_object_get(parent, key);
}

json_t *record_element(json_t *parent, json_t *child) {
    json_array_append_new(parent, child);
    return json_array_get(parent, json_array_size(parent) - 1);
}

const char *record_print(Cx *cx, const json_t *j) {
    size_t n = json_dumpb(j, NULL, 0, CANONICAL);
    char *out = arena_get(cx->a, n + 1);
    json_dumpb(j, out, n, CANONICAL);
    return out;
}

void record_seal(Cx *cx, json_t *j, const char *member) {
    json_object_del(j, member);
    const char *s = record_print(cx, j);
    json_object_set_new(j, member, record_sha(s, strlen(s)));
}

Err record_read(Cx *cx, const char *text, size_t bytes, const char *format, json_t **out) {
    json_error_t why;
    while (bytes && text[bytes - 1] == '\n') bytes--;
    *out = NULL;
    json_t *j = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(j)) {
        json_decref(j);
        return diag(cx, S_RECORD_SYNTAX, NOWHERE, NULL, "line %d, column %d: %s", why.line, why.column,
                    j ? "no object" : why.text);
    }
    *out = j; /* the caller's from here on: memory may run out */
    const char *is = json_string_value(json_object_get(j, "format")),
               *hash = json_string_value(json_object_get(j, "hash"));
    if (!is || (format ? !str_eq(is, format) : !str_starts(is, "rowfold-")))
        return diag(cx, S_RECORD_FORMAT, NOWHERE, format, "its format is '%.40s'", is ? is : "");
    const char *said = arena_printf(cx->a, "%s", hash ? hash : ""), *again = record_print(cx, j);
    const bool canonical = strlen(again) == bytes && memcmp(again, text, bytes) == 0;
    record_seal(cx, j, "hash");
    const char *is_now = json_string_value(json_object_get(j, "hash"));
    if (canonical && str_eq(said, is_now)) return OK;
    return diag(cx, S_RECORD_ALTERED, NOWHERE, NULL, "it says hash %.64s and has %.64s%s", said, is_now,
                canonical ? "" : ", and its text is not canonical");
}
