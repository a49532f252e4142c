/* Floor 0: memory, text, diagnostics and small numbers. Everything above may use this; this uses only libc. */
#ifndef ROWFOLD_BASE_H
#define ROWFOLD_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROWFOLD_VERSION_TEXT "0.1.0" /* as in meson.build and rowfold.h */
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#if defined(__GNUC__)
#define PRINTF(f, v) __attribute__((format(printf, f, v)))
#define NORETURN __attribute__((noreturn))
#else
#define PRINTF(f, v)
#define NORETURN
#endif

/* ---- status: what a function that can fail returns. Same numbers as rowfold_status. ---- */
typedef enum Err {
    OK = 0,
    ERR_MEMORY = 1,      /* out of memory */
    ERR_ARGUMENT = 2,    /* the caller's call is off */
    ERR_LANGUAGE = 3,    /* the program text is off */
    ERR_REFUSED = 4,     /* a legal request that no plan can meet; the slug says why */
    ERR_UNAVAILABLE = 5, /* a device, driver or compiler is missing */
    ERR_BUILD = 6,       /* the device's compiler refused the unit */
    ERR_LAUNCH = 7,      /* arguments of a launch are off, or the device refused it */
    ERR_WRONG = 8,       /* outputs disagree with the definition */
    ERR_IO = 9,          /* a file or a folder */
    ERR_STOPPED = 10,    /* stopped by the caller */
    ERR_INTERNAL = 11,   /* a broken invariant of rowfold itself */
} Err;

/* ---- allocation: the host may replace it ---- */
typedef struct Alloc {
    void *(*get)(void *user, size_t bytes);
    void (*put)(void *user, void *p);
    void *user;
} Alloc;
extern const Alloc alloc_libc;

/* Where an arena jumps to when memory is gone: pure stages never check an allocation. Set with setjmp(trap->at)
 * by the one caller that owns the arena (drive/, api/, tests). */
typedef struct Trap {
    jmp_buf at;
} Trap;

typedef struct Arena Arena;
/* NULL when memory is gone. `trap` may be NULL only in tests: then running out ends in abort(). */
Arena *arena_new(const Alloc *al, Trap *trap);
/* A shorter life within `parent`: its allocator and trap; freed by arena_free or with the parent, whichever is first.
 */
Arena *arena_sub(Arena *parent);
void arena_free(Arena *a);
Trap *arena_trap(Arena *a, Trap *trap);  /* changes where running out of memory jumps to; gives the old place */
NORETURN void arena_fail(Arena *a);      /* jumps there, for one who has cleaned up behind a trap of its own */
size_t arena_bytes(const Arena *a);      /* bytes handed out so far */
void *arena_get(Arena *a, size_t bytes); /* zeroed, aligned to 16; jumps when memory is gone */
void *arena_dup(Arena *a, const void *p, size_t bytes); /* a copy */
char *arena_str(Arena *a, const char *s, size_t n);     /* a copy with a final 0 */
char *arena_printf(Arena *a, const char *fmt, ...) PRINTF(2, 3);
#define NEW(a, T) ((T *)arena_get((a), sizeof(T)))
#define NEWN(a, T, n) ((T *)arena_get((a), sizeof(T) * (size_t)(n)))

/* Growable array in an arena: GROW(a, v, n, cap) makes room for one more at v[n]. Old copies stay in the arena. */
void *arena_grow(Arena *a, void *v, int n, int *cap, size_t each);
#define GROW(a, v, n, cap) ((v) = arena_grow((a), (v), (n), &(cap), sizeof(*(v))))

/* ---- text ---- */
typedef struct Buf { /* growing text in an arena; s is always ended by 0 once anything was put */
    Arena *a;
    char *s;
    size_t n, cap;
} Buf;
Buf buf_new(Arena *a);
void buf_put(Buf *b, const char *s, size_t n);
void buf_str(Buf *b, const char *s);
void buf_fmt(Buf *b, const char *fmt, ...) PRINTF(2, 3);
void buf_json(Buf *b, const char *s); /* s as a quoted JSON string; bytes that are not UTF-8 become U+FFFD */
void buf_f64(Buf *b, double x);       /* shortest text that reads back to x; nan, inf, -inf */
/* vsnprintf (0 for a format that cannot be printed) and strtod whose numbers have a point whatever the host program's
 * locale. */
int text_print(char *s, size_t cap, const char *fmt, va_list ap) PRINTF(3, 0);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) PRINTF(2, 0);
double text_f64(const char *s, char **end);
/* Of the parts of `one`, between `sep`, those that `other` has not at the same place, joined by it: of two long texts
 * what a message needs, with "1 thread" for "1 threads". */
const char *text_apart(Arena *a, const char *one, const char *other, const char *sep);
bool str_eq(const char *a, const char *b);
bool str_starts(const char *s, const char *head);
bool str_i64(const char *s, int64_t *out); /* whole string, decimal; false when it is not a number or too large */

/* ---- diagnostics ---- */
/* Every refusal and error has a slug: one row of slugs.def, explained by `rowfold explain`. */
typedef enum Slug {
#define SLUG(id, text, err, why, hint) id,
#include "slugs.def"
#undef SLUG
    SLUG_COUNT
} Slug;
const char *slug_text(Slug s);
Err slug_err(Slug s);
const char *slug_why(Slug s);
const char *slug_hint(Slug s);
bool slug_find(const char *text, Slug *out);

typedef struct Place { /* line and col count from 1; line 0 means no place */
    const char *file;
    int line, col, len;
} Place;

typedef struct Diag {
    Slug slug;
    Place at;
    const char *msg;    /* what was found, with its numbers */
    const char *accept; /* what would have been accepted, or NULL */
    struct Diag *next;
} Diag;

/* Long work ends early when somebody wants it to. */
typedef struct Stop {
    bool (*asked)(void *user); /* by the thread whose work it is; NULL: `over` is set by another one */
    void *user;
    int64_t next_ns; /* not to be asked before */
    bool over;       /* read and set with cx_over and stop_now */
} Stop;

/* What every pure stage gets: where results live and where complaints go. */
typedef struct Cx {
    Arena *a;
    Diag *first, *last;
    int ndiags, max_diags; /* further ones are counted, not kept; 0 means 50 */
    Stop *stop;            /* NULL: nothing ends the work early */
} Cx;
bool cx_over(const Cx *cx); /* is it to end? asks ten times a second */
void stop_now(Stop *s);
Err cx_stopped(Cx *cx); /* S_SEARCH_STOPPED */
/* Adds one diagnostic and returns the status of its slug, so that `return diag(...)` reads well. */
Err diag(Cx *cx, Slug slug, Place at, const char *accept, const char *fmt, ...) PRINTF(5, 6);
#ifdef __clang_analyzer__ /* sees one file at a time, and would follow paths on which a diagnostic gives OK; no slug \
                             does */
#define diag(...) (diag(__VA_ARGS__), ERR_INTERNAL)
#endif
#define NOWHERE ((Place){0})
/* All diagnostics as text, each with its source line and a caret when `src` (the text of the file) is given. */
void diag_print(const Cx *cx, const char *src, Buf *out);
void diag_json(const Cx *cx, Buf *out); /* a JSON array of objects slug, file, line, column, message, accepted */

/* ---- hashing and seeded numbers ---- */
typedef struct Hash {
    uint64_t lo, hi;
} Hash; /* XXH3-128, for cache keys */
Hash hash_bytes(const void *p, size_t n);
void hash_hex(Hash h, char out[33]);
void sha256_hex(const void *p, size_t n, char out[65]); /* for receipts: a stranger checks with sha256sum */
typedef struct Rng {
    uint64_t s;
} Rng;                                   /* splitmix64: same numbers on any machine */
static inline uint64_t rng_u64(Rng *r) { /* here, because inputs take a dozen an element */
    uint64_t z = r->s += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}
static inline int rng_int(Rng *r, int n) { /* 0 .. n-1, n >= 1 */
    return (int)(rng_u64(r) % (uint64_t)n);
}
static inline double rng_unit(Rng *r) { /* [0, 1) */
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

void f64_sort(double *v, int n);
double f64_median(double *v, int n); /* sorts; NaN for none */

/* ---- integers ---- */
static inline int64_t i64_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t i64_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline bool is_pow2(int64_t a) {
    return a > 0 && (a & (a - 1)) == 0;
}
/* "1 thread%s", "2 thread%s" */
static inline const char *plural(int64_t n) {
    return n == 1 ? "" : "s";
}
/* false when a*b does not fit */
static inline bool mul_fits(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

#endif
