/* What the files of store/ share: the opened file, and the ways of asking it. */
#ifndef ROWFOLD_BOOK_H
#define ROWFOLD_BOOK_H

#include "store.h"

#include <jansson.h>
#include <sqlite3.h>

struct Store {
    Alloc al;
    sqlite3 *db;
    char path[1024], note[512];
    int unbound; /* why a value could not be bound; 0 */
    /* Memory of jansson's that is in use while arenas are asked for more, which may jump: freed by store_close. */
    char *text;
    json_t *json;
};

Err store_fail(Cx *cx, Store *s, int rc, const char *what); /* what: "add a trial" */
Err store_begin(Cx *cx, Store *s);                          /* for writing; waits for others */
Err store_end(Cx *cx, Store *s, Err err);                   /* commits, or rolls back what failed */
Err store_prepare(Cx *cx, Store *s, const char *sql, sqlite3_stmt **out);
Err store_step(Cx *cx, Store *s, sqlite3_stmt *q, bool *row); /* finalizes at the end and on failure */
/* What goes wrong with them is the next step's error. */
void bind_text(Store *s, sqlite3_stmt *q, int i, const char *text); /* NULL: null */
void bind_i64(Store *s, sqlite3_stmt *q, int i, int64_t x);
void bind_f64(Store *s, sqlite3_stmt *q, int i, double x); /* NaN: null */
const char *column_str(Cx *cx, sqlite3_stmt *q, int i);
Err problem_id(Cx *cx, Store *s, const StoreKey *k, int64_t *id); /* in a transaction; made where it is new */
void filter_bind(Store *s, sqlite3_stmt *q, const Filter *f);
#define FILTER_SQL                                                                       \
    "(?1 IS NULL OR p.kernel = ?1) AND (?2 IS NULL OR p.sha GLOB ?2 || '*') AND"         \
    " (?3 IS NULL OR p.program_sha GLOB ?3 || '*') AND (?4 IS NULL OR p.shape = ?4) AND" \
    " (?5 IS NULL OR instr(p.device, ?5) > 0) AND (?6 IS NULL OR p.rowfold = ?6) AND"    \
    " (?7 IS NULL OR p.kernel = ?7 OR p.sha GLOB ?7 || '*')"
json_t *samples_json(const double *ns, int n);
int samples_read(const char *json, double *ns, int cap);     /* how many; -1: no array of finite numbers */
const char *json_out(Cx *cx, Store *s, json_t *j, bool *ok); /* canonical text; frees j */
#endif
