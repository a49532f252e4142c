/* Place -> opened file with the schema of this version. WAL where the file system can do it, which is tried on a
 * scratch file first; a rollback journal elsewhere. A transaction that was committed survives kill -9 in both. */
#include "book.h"

#include "../base/os.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x526f7746 /* "RowF" */, BUSY_MS = 10000 };

const char *store_path(const Store *s) {
    return s->path;
}
const char *store_note(const Store *s) {
    return s->note;
}

/* ---- schema: step i takes a file from version i to version i + 1; steps are never edited, only added ---- */
static const char *const steps[] = {
    "CREATE TABLE problem (id INTEGER PRIMARY KEY, sha TEXT NOT NULL UNIQUE, program_sha TEXT NOT NULL,"
    " kernel TEXT NOT NULL, program TEXT NOT NULL, types TEXT NOT NULL, shape TEXT NOT NULL, strides TEXT NOT NULL,"
    " alignment TEXT NOT NULL, promises TEXT NOT NULL, device TEXT NOT NULL, caps TEXT NOT NULL,"
    " rowfold TEXT NOT NULL, threads INTEGER NOT NULL) STRICT;"
    "CREATE TABLE trial (id INTEGER PRIMARY KEY AUTOINCREMENT, problem INTEGER NOT NULL REFERENCES problem(id),"
    " seed INTEGER NOT NULL, plan TEXT NOT NULL, stage TEXT NOT NULL, effort TEXT NOT NULL, slug TEXT NOT NULL,"
    " why TEXT NOT NULL, unit_sha TEXT NOT NULL, facts TEXT NOT NULL, demand TEXT NOT NULL, samples TEXT NOT NULL,"
    " calls INTEGER NOT NULL, median_ns REAL NOT NULL, checked INTEGER NOT NULL, bad INTEGER NOT NULL, worst REAL,"
    " compile_ns INTEGER NOT NULL, from_cache INTEGER NOT NULL, time INTEGER NOT NULL, host TEXT NOT NULL) STRICT;"
    "CREATE INDEX trial_of ON trial (problem, plan);"
    "CREATE TRIGGER trial_kept BEFORE DELETE ON trial BEGIN SELECT raise(ABORT, 'trials are never removed'); END;"
    "CREATE TRIGGER trial_fixed BEFORE UPDATE ON trial BEGIN SELECT raise(ABORT, 'trials are never rewritten'); END;",

    "CREATE TABLE forgotten (problem INTEGER NOT NULL REFERENCES problem(id), upto INTEGER NOT NULL,"
    " time INTEGER NOT NULL) STRICT;"
    "CREATE INDEX forgotten_of ON forgotten (problem, upto);"
    "CREATE TABLE imported (id INTEGER PRIMARY KEY, problem INTEGER NOT NULL REFERENCES problem(id),"
    " seed INTEGER NOT NULL, plan TEXT NOT NULL, stage TEXT NOT NULL, effort TEXT NOT NULL, unit_sha TEXT NOT NULL,"
    " samples TEXT NOT NULL, calls INTEGER NOT NULL, median_ns REAL NOT NULL, worst REAL, time INTEGER NOT NULL,"
    " host TEXT NOT NULL, taken INTEGER NOT NULL, UNIQUE (problem, plan, samples, time)) STRICT;"
    "CREATE VIEW evidence AS SELECT t.problem, t.id AS trial, 0 AS import, t.seed, t.plan, t.stage, t.effort,"
    " t.unit_sha, t.samples, t.calls, t.median_ns, t.worst, t.time, t.host FROM trial t WHERE t.slug = ''"
    " AND t.median_ns > 0 AND t.id > coalesce((SELECT max(upto) FROM forgotten f WHERE f.problem = t.problem), 0)"
    /* What was found wrong later, on other inputs or in its last check, is evidence no more. */
    " AND NOT EXISTS (SELECT 1 FROM trial u WHERE u.problem = t.problem AND u.plan = t.plan AND u.id > t.id"
    " AND (u.bad > 0 OR u.slug = 'worker.crashed'))"
    " UNION ALL SELECT i.problem, 0, i.id, i.seed, i.plan, i.stage, i.effort, i.unit_sha, i.samples, i.calls,"
    " i.median_ns, i.worst, i.time, i.host FROM imported i;"
    /* What was measured here before what others say; good evidence before quick; then the fastest. */
    "CREATE VIEW wisdom AS SELECT * FROM (SELECT e.*, row_number() OVER (PARTITION BY problem ORDER BY import > 0,"
    " CASE stage WHEN 'confirmed' THEN 0 WHEN 'final' THEN 1 ELSE 2 END, median_ns, trial, import) AS place"
    " FROM evidence e) WHERE place = 1;",
};

/* ---- errors ---- */

Err store_fail(Cx *cx, Store *s, int rc, const char *what) {
    int last = errno, os = s->db ? sqlite3_system_errno(s->db) : 0;
    if (!os) os = last; /* 3.40 loses the number of a failed write; statements begin with errno = 0 */
    char why[128];
    const char *text = sqlite3_errstr(rc);
    Slug slug = S_STORE_FAILED;
    switch (rc & 0xff) {
    case SQLITE_NOMEM: slug = S_OOM; break;
    case SQLITE_FULL: slug = S_STORE_FULL; break;
    case SQLITE_READONLY: slug = S_STORE_READ_ONLY; break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: slug = S_STORE_BUSY; break;
    case SQLITE_CORRUPT: slug = S_STORE_DAMAGED; break;
    case SQLITE_NOTADB: slug = S_STORE_NOT_OURS; break;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        if (os == ENOSPC || os == EDQUOT || os == EFBIG) slug = S_STORE_FULL;
        /* on a read-only file system what is missing may be the log, which cannot be made there */
        if (os != EROFS && access(s->path, W_OK) && errno == EROFS) os = EROFS;
        if (os == EROFS) slug = S_STORE_READ_ONLY;
        if (os) text = os_error(os, why, sizeof why);
        break;
    default: text = s->db ? sqlite3_errmsg(s->db) : text;
    }
    return diag(cx, slug, NOWHERE, NULL, "cannot %s in %s: %s", what, s->path, text);
}

/* ---- statements ---- */

Err store_prepare(Cx *cx, Store *s, const char *sql, sqlite3_stmt **out) {
    int rc = sqlite3_prepare_v2(s->db, sql, -1, out, NULL);
    return rc == SQLITE_OK ? OK : store_fail(cx, s, rc, "read the schema");
}

Err store_step(Cx *cx, Store *s, sqlite3_stmt *q, bool *row) {
    errno = 0;
    int rc = s->unbound ? s->unbound : sqlite3_step(q);
    s->unbound = SQLITE_OK;
    *row = rc == SQLITE_ROW;
    if (*row) return OK;
    bool reads = sqlite3_stmt_readonly(q) != 0;
    Err err = rc == SQLITE_DONE ? OK : store_fail(cx, s, rc, reads ? "read" : "write");
    sqlite3_finalize(q);
    return err;
}

/* A value that was not bound is null, which a filter takes for any: its statement is not run. */
static void bound(Store *s, int rc) {
    if (rc != SQLITE_OK && !s->unbound) s->unbound = rc;
}

void bind_text(Store *s, sqlite3_stmt *q, int i, const char *text) {
    bound(s, text ? sqlite3_bind_text(q, i, text, -1, SQLITE_TRANSIENT) : sqlite3_bind_null(q, i));
}

void bind_i64(Store *s, sqlite3_stmt *q, int i, int64_t x) {
    bound(s, sqlite3_bind_int64(q, i, x));
}

void bind_f64(Store *s, sqlite3_stmt *q, int i, double x) {
    bound(s, sqlite3_bind_double(q, i, x));
}

const char *column_str(Cx *cx, sqlite3_stmt *q, int i) {
    const char *s = (const char *)sqlite3_column_text(q, i);
    return s ? arena_str(cx->a, s, (size_t)sqlite3_column_bytes(q, i)) : "";
}

static Err run(Cx *cx, Store *s, const char *sql, const char *what) {
    errno = 0;
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? OK : store_fail(cx, s, rc, what);
}

Err store_begin(Cx *cx, Store *s) {
    return run(cx, s, "BEGIN IMMEDIATE", "write");
}

Err store_end(Cx *cx, Store *s, Err err) {
    if (!err) err = run(cx, s, "COMMIT", "write");
    if (err && !sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

static Err number(Cx *cx, Store *s, const char *sql, int64_t *out) {
    sqlite3_stmt *q;
    bool row = false;
    Err err = store_prepare(cx, s, sql, &q);
    if (!err) err = store_step(cx, s, q, &row);
    if (!row) return err;
    *out = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return OK;
}

/* ---- journals ---- */

static const char probe_tag[] = ".probe-";

/* Scratch files of processes that were killed beside them. */
static void sweep_probes(const char *path) {
    char dir[1024], name[1400];
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const size_t n = strlen(base), tag = sizeof probe_tag - 1;
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + 1 : 2, slash ? path : "./");
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, base, n) != 0 || strncmp(e->d_name + n, probe_tag, tag) != 0) continue;
        const long pid = strtol(e->d_name + n + tag, NULL, 10);
        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) continue;
        snprintf(name, sizeof name, "%s%s", dir, e->d_name);
        unlink(name);
    }
    if (d) closedir(d);
}

/* Some file systems take the pragma and fail at the first write: a scratch file beside the store shows it. `why`: in
 * the system's or SQLite's words, what it failed with; "": it went back to another journal by itself. */
static bool wal_works(const char *path, char *why, size_t cap) {
    char probe[1100], name[1120];
    sqlite3 *db = NULL;
    sweep_probes(path);
    snprintf(probe, sizeof probe, "%s%s%ld", path, probe_tag, (long)getpid());
    errno = 0;
    int rc = sqlite3_open_v2(probe, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db,
                          "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1);"
                          "PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t SELECT x FROM t",
                          NULL, NULL, NULL);
    const int last = errno, os = db && sqlite3_system_errno(db) ? sqlite3_system_errno(db) : last;
    *why = 0;
    if ((rc == SQLITE_IOERR || rc == SQLITE_CANTOPEN) && os)
        snprintf(why, cap, "%s", os_error(os, (char[128]){0}, 128));
    else if (rc != SQLITE_OK)
        snprintf(why, cap, "%s", sqlite3_errstr(rc));
    sqlite3_stmt *q = NULL;
    bool wal = false;
    if (rc == SQLITE_OK && sqlite3_prepare_v2(db, "PRAGMA journal_mode", -1, &q, NULL) == SQLITE_OK)
        wal = sqlite3_step(q) == SQLITE_ROW && str_eq((const char *)sqlite3_column_text(q, 0), "wal");
    sqlite3_finalize(q);
    sqlite3_close(db);
    static const char *const tails[] = {"", "-wal", "-shm", "-journal"};
    for (int i = 0; i < COUNT(tails); i++) {
        snprintf(name, sizeof name, "%s%s", probe, tails[i]);
        unlink(name);
    }
    return wal;
}

static bool is_wal(Store *s) {
    sqlite3_stmt *q = NULL;
    bool wal = false;
    if (sqlite3_prepare_v2(s->db, "PRAGMA journal_mode", -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        wal = str_eq((const char *)sqlite3_column_text(q, 0), "wal");
    sqlite3_finalize(q);
    return wal;
}

static void choose_journal(Store *s) {
    uint64_t magic = 0;
    const char *fs;
    bool remote = fs_of(s->path, &magic) && fs_is_network(magic, &fs);
    if (remote)
        snprintf(s->note, sizeof s->note,
                 "the store %.300s is on a network file system (%s): one process at a time should use it", s->path, fs);
    if (!remote && is_wal(s)) return;
    char why[160] = "";
    bool wal = !remote && wal_works(s->path, why, sizeof why);
    if (!remote && !wal)
        snprintf(s->note, sizeof s->note, "the store %.300s has no write-ahead log: %s", s->path,
                 *why ? why : "its file system cannot do it");
    /* Not an error when another process has the file open: then that one has chosen. */
    sqlite3_exec(s->db, wal ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
}

/* ---- opening ---- */

static int connect_file(Store *s, int busy_ms, bool create, bool frozen) {
    char uri[3 * sizeof s->path + 40] = "file:";
    size_t n = strlen(uri);
    for (const char *p = s->path; *p; p++) /* what means something in a URI is escaped */
        n += (size_t)(strchr("%?#", *p) ? sprintf(uri + n, "%%%02X", (unsigned char)*p) : sprintf(uri + n, "%c", *p));
    if (frozen) snprintf(uri + n, sizeof uri - n, "?immutable=1");
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    flags |= frozen ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(uri, &s->db, flags, NULL);
    if (rc != SQLITE_OK) return rc;
    sqlite3_busy_timeout(s->db, busy_ms);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return sqlite3_exec(s->db,
                        "PRAGMA cell_size_check = ON; PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL;"
                        "SELECT count(*) FROM sqlite_schema",
                        NULL, NULL, NULL);
}

static Err migrate(Cx *cx, Store *s) {
    int64_t version = 0;
    Err err = store_begin(cx, s);
    if (!err) err = number(cx, s, "PRAGMA user_version", &version); /* again: another process may have been faster */
    for (; !err && version < COUNT(steps); version++) err = run(cx, s, steps[version], "make the schema");
    char sql[96];
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID, COUNT(steps));
    if (!err && version == COUNT(steps)) err = run(cx, s, sql, "make the schema");
    return store_end(cx, s, err);
}

static Err check_schema(Cx *cx, Store *s) {
    int64_t app = 0, version = 0, tables = 0;
    Err err = number(cx, s, "PRAGMA application_id", &app);
    if (!err) err = number(cx, s, "PRAGMA user_version", &version);
    if (!err) err = number(cx, s, "SELECT count(*) FROM sqlite_schema", &tables);
    if (err) return err;
    if (app != APPLICATION_ID && (app || tables))
        return diag(cx, S_STORE_NOT_OURS, NOWHERE, NULL, "%s is a database of another program", s->path);
    if (version > COUNT(steps))
        return diag(cx, S_STORE_NEWER, NOWHERE, NULL, "%s has schema %lld, this rowfold knows up to %d", s->path,
                    (long long)version, COUNT(steps));
    if (version == COUNT(steps)) return OK;
    return migrate(cx, s);
}

static bool lies_there(const char *path, const char *tail) {
    char name[1100];
    snprintf(name, sizeof name, "%s%s", path, tail);
    return access(name, F_OK) == 0;
}

/* Why there is none; a folder that is there will do, whoever else may write to it. */
static int make_folder(const char *path) {
    char dir[1024];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return 0;
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
    const int err = os_dir_private(dir);
    return access(dir, F_OK) == 0 ? 0 : err;
}

static Err open_file(Cx *cx, Store *s, const StoreOptions *o) {
    int busy = o->busy_ms > 0 ? o->busy_ms : BUSY_MS;
    bool fresh = !lies_there(s->path, "");
    const bool ours = o->mode == STORE_WRITE && (!o->where || !*o->where || str_eq(o->where, "default"));
    const int no_folder = ours ? make_folder(s->path) : 0;
    char why[128];
    if (no_folder)
        return diag(cx,
                    no_folder == EROFS    ? S_STORE_READ_ONLY
                    : no_folder == ENOSPC ? S_STORE_FULL
                                          : S_STORE_FAILED,
                    NOWHERE, NULL, "cannot make the folder of %s: %s", s->path, os_error(no_folder, why, sizeof why));
    errno = 0;
    int rc = connect_file(s, busy, o->mode == STORE_WRITE, false);
    /* A WAL file in a folder that cannot be written cannot be read the usual way. With no log beside it, everything is
     * in the file itself. */
    if (rc != SQLITE_OK && !fresh && o->mode == STORE_READ && (rc & 0xff) != SQLITE_NOTADB &&
        access(s->path, R_OK) == 0 && !lies_there(s->path, "-wal")) {
        sqlite3_close_v2(s->db);
        s->db = NULL;
        rc = connect_file(s, busy, false, true);
    }
    if (rc != SQLITE_OK) return store_fail(cx, s, rc, "open the store");
    bool readonly = sqlite3_db_readonly(s->db, "main") == 1;
    if (readonly && o->mode == STORE_WRITE)
        return diag(cx, S_STORE_READ_ONLY, NOWHERE, NULL, "%s cannot be written", s->path);
    if (!readonly) choose_journal(s);
    return check_schema(cx, s);
}

Err store_open(Cx *cx, const StoreOptions *o, Store **out) {
    *out = NULL;
    const Alloc al = o->al ? *o->al : alloc_libc;
    const char *path = NULL;
    Err err = store_place(cx, o->where, &path);
    if (err) return err;
    if (o->mode == STORE_READ && !lies_there(path, "")) return OK;
    if (strlen(path) >= sizeof((Store *)0)->path)
        return diag(cx, S_STORE_FAILED, NOWHERE, "at most 1023 bytes", "the path of the store is too long");
    Store *s = al.get(al.user, sizeof *s);
    if (!s) return diag(cx, S_OOM, NOWHERE, NULL, "no memory for a store");
    *s = (Store){.al = al};
    snprintf(s->path, sizeof s->path, "%s", path);
    *out = s; /* the caller's from here on: a complaint may jump out of memory */
    err = open_file(cx, s, o);
    if (!err) return OK;
    store_close(s);
    *out = NULL;
    return err;
}

void store_close(Store *s) {
    if (!s) return;
    /* A jump out of memory may have left statements behind. */
    for (sqlite3_stmt *q; s->db && (q = sqlite3_next_stmt(s->db, NULL));) sqlite3_finalize(q);
    sqlite3_close_v2(s->db);
    json_decref(s->json);
    free(s->text);
    Alloc al = s->al;
    al.put(al.user, s);
}
