/* Texts -> kernels (each once), guarded memory, comparisons. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "field.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { POISON = 0xA5, MAX_KERNELS = 4096, MAX_MEMORY = 4096, MAX_TEXTS = 65536, MAX_ADOPTED = 4096 };

static struct {
    rowfold_context *cx;
    rowfold_device *dev;
    bool far;       /* its memory is not this process's */
    bool no_f64;    /* it does not compute in f64 */
    bool all_plans; /* not every second one */
    int turn;       /* which of them is the first */
    bool few_lanes; /* a group has 256 at most */
    bool policies;  /* it has them for loads and stores */
    int nkernels, nmemory, ntexts, nadopted;
    struct {
        char *key;
        rowfold_kernel *k;
        int bytes[MAX_PARAMS]; /* of an element of each parameter */
    } kernel[MAX_KERNELS];
    struct {
        char *map, *lo, *hi; /* whole mapping; the bytes asked for */
        size_t size, page;   /* of the mapping; of a guard */
    } memory[MAX_MEMORY];
    char *text[MAX_TEXTS];
    struct {
        rowfold_kernel *k;
        int bytes[MAX_PARAMS];
    } adopted[MAX_ADOPTED]; /* a test's own kernels */
} lab;

static rowfold_status compile(const char *text, const char *types, const char *shape, const char *pin,
                              const char *strided, int *bytes, rowfold_kernel **out);

int field_open(void **state) {
    (void)state;
    const char *name = getenv("ROWFOLD_TEST_DEVICE");
    if (!name || !*name) name = "host";
    lab.far = !str_eq(name, "host");
    lab.policies = !lab.far || str_starts(name, "cuda");
    lab.few_lanes = str_starts(name, "opencl");
    const char *plans = getenv("ROWFOLD_TEST_PLANS");
    int64_t n;
    lab.all_plans = plans && str_eq(plans, "all");
    if (plans && str_i64(plans, &n) && n > 0 && n < field_nplans) field_nplans = (int)n;
    if (rowfold_context_new(NULL, &lab.cx) != ROWFOLD_OK) return -1;
    if (rowfold_device_find(lab.cx, name, &lab.dev) != ROWFOLD_OK) return -1;
    static const char copy[] = "kernel copy for rows (x: in f64[rows, n], y: out f64[rows, n]) { y = x }";
    rowfold_kernel *k = NULL;
    lab.no_f64 = compile(copy, NULL, "n=1", NULL, NULL, NULL, &k) != ROWFOLD_OK &&
                 str_eq(rowfold_last_error(lab.cx)->slug, "plan.no_f64");
    rowfold_kernel_free(k);
    return 0;
}

int field_close(void **state) {
    (void)state;
    for (int i = 0; i < lab.nkernels; i++) {
        rowfold_kernel_free(lab.kernel[i].k);
        free(lab.kernel[i].key);
    }
    rowfold_context_free(lab.cx);
    lab.cx = NULL, lab.nkernels = 0;
    return 0;
}

/* A byte beside the memory that is not poison any more was written by somebody. */
int field_clean(void **state) {
    (void)state;
    int bad = 0;
    for (int i = 0; i < lab.nmemory; i++) {
        const char *from = lab.memory[i].map + lab.memory[i].page,
                   *to = lab.memory[i].map + lab.memory[i].size - lab.memory[i].page;
        for (const char *p = from; p < to && !bad; p++) {
            if (p == lab.memory[i].lo) p = lab.memory[i].hi;
            if (p < to && *p != (char)POISON) {
                bad = -1;
                fprintf(stderr, "# memory %d was written %ld bytes beside its edge\n", i,
                        p < lab.memory[i].lo ? (long)(lab.memory[i].lo - p) : (long)(p - lab.memory[i].hi + 1));
            }
        }
        munmap(lab.memory[i].map, lab.memory[i].size);
    }
    for (int i = 0; i < lab.ntexts; i++) free(lab.text[i]);
    lab.nmemory = lab.ntexts = lab.nadopted = 0;
    return bad;
}

rowfold_context *field_context(void) {
    return lab.cx;
}

const char *field_text(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *s = NULL;
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && lab.ntexts < MAX_TEXTS);
    return lab.text[lab.ntexts++] = s;
}

/* ---- kernels ---- */

const char *const field_plans[] = {"W=16,V=4,U=2",
                                   "W=1",
                                   "W=96,stat=online",
                                   "W=32,stat=shifted,acc=2",
                                   "W=16,stat=welford,V=2",
                                   "W=64,V=2,acc=2",
                                   "W=64,hold.x=register,fuse=off"};
int field_nplans = COUNT(field_plans);

FieldTurn field_turn(int step) {
    const int every = field_slow() ? 1 : lab.all_plans || step > 1 ? step : 2;
    return (FieldTurn){.first = lab.turn++ % (every < field_nplans ? every : field_nplans),
                       .every = every,
                       .least = field_slow() ? 1 : 3 / step};
}

int field_plan(const FieldTurn *t, int i, int served) {
    for (int other = 0; other < 2; other++)
        for (int at = 0; at < field_nplans && !(other && served >= t->least); at++)
            if ((at % t->every != t->first) == other && i-- == 0) return at;
    return -1;
}

/* The kernel library's text and the name behind the colon; other texts as they are. */
static const char *library(const char *text, const char **name) {
    const char *colon = strstr(text, ".row:"), *root = getenv("ROWFOLD_ROOT");
    *name = NULL;
    if (!colon || strchr(text, '{')) return text;
    const char *path = field_text("%s/kernels/%.*s", root ? root : ".", (int)(colon + 4 - text), text);
    *name = colon + 5;
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot read %s", path);
    char *s = calloc(1, 65536);
    assert_non_null(s);
    assert_true(fread(s, 1, 65535, f) < 65535);
    fclose(f);
    assert_true(lab.ntexts < MAX_TEXTS);
    return lab.text[lab.ntexts++] = s;
}

/* A pin without what only hosts have, and without policies of accesses where there are none. */
static const char *here(const char *pin) {
    if (!pin || !lab.far) return pin;
    char *kept = calloc(1, strlen(pin) + 16);
    assert_true(kept && lab.ntexts < MAX_TEXTS);
    lab.text[lab.ntexts++] = kept;
    for (const char *p = pin; *p;) {
        size_t n = strcspn(p, ",");
        if (strncmp(p, "prefetch=", 9) != 0 && strncmp(p, "combine=", 8) != 0 &&
            (lab.policies || strncmp(p, "store=", 6) != 0)) {
            if (*kept) strcat(kept, ",");
            if (lab.few_lanes && strncmp(p, "W=", 2) == 0 && strtol(p + 2, NULL, 10) > 256)
                strcat(kept, "W=256");
            else if (lab.few_lanes && strncmp(p, "P=8", 3) == 0) /* of up to 64 lanes */
                strcat(kept, "P=4");
            else
                strncat(kept, p, n);
        }
        p += n + (p[n] == ',');
    }
    return *kept ? kept : NULL;
}

/* Of an element of each parameter. */
static void bytes_of(const rowfold_program *prog, int *bytes) {
    for (int i = 0; i < rowfold_param_count(prog); i++) {
        rowfold_param p;
        Ty ty;
        assert_int_equal(rowfold_param_get(prog, i, &p), ROWFOLD_OK);
        assert_true(ty_find(p.type, strlen(p.type), &ty));
        bytes[i] = ty_bytes(ty);
    }
}

static rowfold_status compile(const char *text, const char *types, const char *shape, const char *pin,
                              const char *strided, int *bytes, rowfold_kernel **out) {
    const char *name;
    rowfold_source *src = NULL;
    rowfold_program *prog = NULL;
    rowfold_compile_options o;
    rowfold_compile_options_init(&o);
    text = library(text, &name);
    rowfold_status s = rowfold_source_parse(lab.cx, "field", text, strlen(text), &src);
    if (s == ROWFOLD_OK) s = rowfold_program_new(lab.cx, src, name, types, NULL, &prog);
    o.device = lab.dev, o.shape = shape, o.pin = here(pin), o.strided = strided;
    if (s == ROWFOLD_OK && bytes) bytes_of(prog, bytes);
    if (s == ROWFOLD_OK) s = rowfold_compile(lab.cx, prog, &o, out);
    rowfold_program_free(prog);
    rowfold_source_free(src);
    return s;
}

static rowfold_kernel *kernel(const char *text, const char *types, const char *shape, const char *pin,
                              const char *strided, bool may_refuse) {
    const char *key =
        field_text("%s\n%s\n%s\n%s\n%s", text, types ? types : "", shape, pin ? pin : "", strided ? strided : "");
    for (int i = 0; i < lab.nkernels; i++)
        if (str_eq(lab.kernel[i].key, key)) return lab.kernel[i].k;
    rowfold_kernel *k = NULL;
    assert_true(lab.nkernels < MAX_KERNELS);
    rowfold_status s = compile(text, types, shape, pin, strided, lab.kernel[lab.nkernels].bytes, &k);
    if (s != ROWFOLD_OK) {
        const rowfold_error *e = rowfold_last_error(lab.cx);
        static const char *const no_use[] = {"plan.stat_unused",   "plan.hold_unknown",    "plan.hold_single_phase",
                                             "plan.hold_gather",   "plan.stripe_exceeded", "plan.acc_with_stat",
                                             "plan.pack_too_wide", "plan.text_exceeded"};
        for (int i = 0; i < COUNT(no_use) && may_refuse; i++)
            if (str_eq(e->slug, no_use[i]) ||
                (str_eq(e->slug, "search.no_legal_plan") && strstr(e->message, no_use[i])))
                return NULL;
        fail_msg("%s: %s\n%s %s %s %s\n%s", e->slug, e->message, text, types ? types : "", shape, pin ? pin : "",
                 e->text);
    }
    lab.kernel[lab.nkernels].key = strdup(key);
    lab.kernel[lab.nkernels++].k = k;
    return k;
}

rowfold_kernel *field_kernel(const char *text, const char *types, const char *shape, const char *pin) {
    return kernel(text, types, shape, pin, NULL, false);
}

rowfold_kernel *field_strided(const char *text, const char *types, const char *shape, const char *pin,
                              const char *strided) {
    return kernel(text, types, shape, pin, strided, false);
}

rowfold_kernel *field_try(const char *text, const char *types, const char *shape, const char *pin) {
    return kernel(text, types, shape, pin, NULL, true);
}

void field_adopt(rowfold_kernel *k, const rowfold_program *prog) {
    assert_true(lab.nadopted < MAX_ADOPTED);
    lab.adopted[lab.nadopted].k = k;
    bytes_of(prog, lab.adopted[lab.nadopted++].bytes);
}

rowfold_device *field_device(void) {
    return lab.dev;
}

void field_no_kernel(const char *text, const char *types, const char *shape, const char *pin, const char *slug) {
    rowfold_kernel *k = NULL;
    rowfold_status s = compile(text, types, shape, pin, NULL, NULL, &k);
    rowfold_kernel_free(k);
    if (s == ROWFOLD_OK) fail_msg("%s with %s compiled, %s was wanted", shape, pin ? pin : "", slug);
    assert_string_equal(rowfold_last_error(lab.cx)->slug, slug);
}

/* ---- memory ---- */

static void *memory(int64_t bytes, bool front) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (size_t)bytes, whole = (n + page - 1) / page * page;
    char *map = mmap(NULL, whole + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || lab.nmemory == MAX_MEMORY) fail_msg("no memory for %zu bytes", n);
#ifdef MADV_HUGEPAGE
    madvise(map, whole + 2 * page, MADV_HUGEPAGE); /* gigabytes of small pages take longer than their rows */
#endif
    memset(map + page, POISON, whole);
    assert_int_equal(mprotect(map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(map + page + whole, page, PROT_NONE), 0);
    char *at = front ? map + page : map + page + whole - n;
    lab.memory[lab.nmemory].map = map, lab.memory[lab.nmemory].lo = at, lab.memory[lab.nmemory].hi = at + n;
    lab.memory[lab.nmemory].size = whole + 2 * page, lab.memory[lab.nmemory++].page = page;
    return at;
}

void *field_memory(int64_t bytes) {
    return memory(bytes, false);
}

void *field_front(int64_t bytes) {
    return memory(bytes, true);
}

rowfold_arg field_arg(const void *data, int rank, const int64_t *extent, const int64_t *stride) {
    rowfold_arg a = {.data = (void *)(uintptr_t)data};
    for (int d = 0; d < rank; d++) {
        a.extent[d] = extent[d];
        if (stride) a.stride[d] = stride[d];
    }
    return a;
}

static void must(rowfold_status s, const char *what) {
    const rowfold_error *e = rowfold_last_error(lab.cx);
    if (s != ROWFOLD_OK) fail_msg("%s: %s: %s", what, e->slug, e->message);
}

/* ---- memory of another device: every mapping that an argument points into has a twin there ---- */

enum { BAND = 256 }; /* on both sides of a twin, and what twins are aligned to */
typedef struct Twin {
    rowfold_memory *there;
    char *from;   /* the mapping between its guards; or a test's own array */
    char *bytes;  /* band, as many bytes as at `from`, band */
    size_t inner; /* bytes from `from` on */
} Twin;

static size_t span_of(const rowfold_arg *a, int bytes) {
    int64_t dense = 1, last = 0;
    for (int d = ROWFOLD_MAX_RANK - 1; d >= 0; d--) {
        if (!a->extent[d]) continue; /* beyond its rank, or empty */
        last += (a->extent[d] - 1) * (a->stride[d] || a->strides_given ? a->stride[d] : dense);
        dense *= a->extent[d];
    }
    return (size_t)(last + 1) * (size_t)bytes;
}

static const Twin *twin_of(Twin *t, int *n, const rowfold_arg *a, int bytes) {
    char *data = a->data, *from = data;
    size_t inner = span_of(a, bytes);
    for (int i = 0; i < lab.nmemory; i++) {
        char *lo = lab.memory[i].map + lab.memory[i].page, *hi = lab.memory[i].map + lab.memory[i].size;
        if (data >= lo && data <= hi - lab.memory[i].page)
            from = lo, inner = lab.memory[i].size - 2 * lab.memory[i].page;
    }
    for (int i = 0; i < *n; i++)
        if (from == t[i].from || (data > t[i].from && data < t[i].from + t[i].inner)) return &t[i];
    Twin *w = &t[(*n)++];
    *w = (Twin){.from = from, .inner = inner, .bytes = malloc(inner + 2 * BAND)};
    assert_non_null(w->bytes);
    memset(w->bytes, POISON, inner + 2 * BAND);
    memcpy(w->bytes + BAND, from, inner);
    const rowfold_status s = rowfold_memory_new(lab.cx, lab.dev, inner + 2 * BAND, &w->there);
    if (s != ROWFOLD_OK && lab.far && str_eq(rowfold_last_error(lab.cx)->slug, "memory.exhausted")) {
        print_message("# SKIP the device has no memory of %zu bytes: %s\n", inner + 2 * BAND,
                      rowfold_last_error(lab.cx)->message);
        skip();
    }
    must(s, "memory");
    must(rowfold_memory_write(w->there, 0, w->bytes, inner + 2 * BAND), "write");
    return w;
}

static void run_far(rowfold_kernel *k, const rowfold_arg *args, int count) {
    rowfold_arg there[MAX_PARAMS] = {0};
    Twin twin[MAX_PARAMS];
    const int *bytes = NULL;
    int n = 0;
    for (int i = 0; i < lab.nkernels; i++)
        if (lab.kernel[i].k == k) bytes = lab.kernel[i].bytes;
    for (int i = 0; i < lab.nadopted; i++)
        if (lab.adopted[i].k == k) bytes = lab.adopted[i].bytes;
    assert_non_null(bytes);
    for (int i = 0; i < count; i++) {
        there[i] = args[i];
        if (!args[i].data) continue;
        const Twin *t = twin_of(twin, &n, &args[i], bytes[i]);
        there[i].data = (char *)rowfold_memory_data(t->there) + BAND + ((char *)args[i].data - t->from);
    }
    must(rowfold_launch(k, there, count), "launch");
    for (int i = 0; i < n; i++) {
        Twin *t = &twin[i];
        must(rowfold_memory_read(t->there, 0, t->bytes, t->inner + 2 * BAND), "read");
        for (size_t b = 0; b < BAND; b++)
            if (t->bytes[b] != (char)POISON || t->bytes[BAND + t->inner + b] != (char)POISON)
                fail_msg("memory %d was written beside its edge", i);
        memcpy(t->from, t->bytes + BAND, t->inner);
        rowfold_memory_free(t->there);
        free(t->bytes);
    }
}

void field_run(rowfold_kernel *k, const rowfold_arg *args, int count) {
    if (lab.far)
        run_far(k, args, count);
    else
        must(rowfold_launch(k, args, count), "launch");
}

void field_check(rowfold_kernel *k, const rowfold_arg *in, const rowfold_arg *args, int count) {
    char *json = NULL;
    if (rowfold_check(lab.cx, k, in, args, count, &json) != ROWFOLD_OK) {
        const rowfold_error *e = rowfold_last_error(lab.cx);
        fail_msg("check: %s: %s\nplan %s", e->slug, e->message, rowfold_kernel_text(k, ROWFOLD_PLAN));
    }
    rowfold_free(lab.cx, json);
}

void field_refused(rowfold_kernel *k, const rowfold_arg *args, int count, const char *slug) {
    if (rowfold_launch(k, args, count) != ROWFOLD_LAUNCH) fail_msg("launched, where %s was wanted", slug);
    assert_string_equal(rowfold_last_error(lab.cx)->slug, slug);
}

/* ---- numbers ---- */

void put(Ty ty, void *at, int64_t i, double x) {
    num_store(ty, (char *)at + i * ty_bytes(ty), (Num){.d = x}, TY_F64);
}

double get(Ty ty, const void *at, int64_t i) {
    return num_f64(num_load(ty, (const char *)at + i * ty_bytes(ty)), ty_compute(ty));
}

float field_u(int64_t i) {
    uint32_t h = 2654435761u * (uint32_t)i + 12345u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return (float)(h >> 8) / 16777216.0f;
}

double zero_at(int64_t i) {
    (void)i;
    return 0;
}

double one_at(int64_t i) {
    (void)i;
    return 1;
}

double u_at(int64_t i) {
    return (double)field_u(i);
}

void field_fill(Ty ty, void *at, int64_t n, double (*f)(int64_t i)) {
    for (int64_t i = 0; i < n; i++) put(ty, at, i, f(i));
}

bool field_close_to(Ty ty, double got, double want) {
    if (isnan(want)) return isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    double apart = fabs(got - want), size = fabs(want);
    if (ty == TY_F64) return apart <= 1e-12 * fmax(1, size);
    if (ty == TY_F32) return apart <= fmax(1e-5 * size, 1e-6);
    int bits = ty == TY_F16 ? 10 : 7, lowest = ty == TY_F16 ? -14 : -126, e;
    frexp(size, &e);
    return apart <= ldexp(1, (e - 1 < lowest ? lowest : e - 1) - bits);
}

void field_near(Ty ty, double got, double want, int exact, const char *file, int line, const char *fmt, ...) {
    if (exact ? got == want || (isnan(got) && isnan(want)) : field_close_to(ty, got, want)) return;
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    fail_msg("%s:%d: %s: got %.17g, want %.17g", file, line, what, got, want);
}

bool field_same(Ty ty, const void *x, const void *y, int64_t n) {
    size_t each = (size_t)ty_bytes(ty);
    if (memcmp(x, y, (size_t)n * each) == 0) return true;
    for (int64_t i = 0; i < n; i++)
        if (memcmp((const char *)x + i * (int64_t)each, (const char *)y + i * (int64_t)each, each) != 0 &&
            !(ty_is_float(ty) && isnan(get(ty, x, i)) && isnan(get(ty, y, i))))
            return false;
    return true;
}

double field_rounded(Ty ty, double x) {
    uint64_t room;
    put(ty, &room, 0, x);
    return get(ty, &room, 0);
}

double field_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool field_slow(void) {
    return field_nplans < COUNT(field_plans);
}

int64_t field_most(int64_t n, int64_t emulated) {
    const char *small = getenv("ROWFOLD_TEST_SMALL");
    return small && *small && emulated < n ? emulated : n;
}

bool field_has(Ty ty) {
    return ty != TY_F64 || !lab.no_f64;
}

bool field_far(void) {
    return lab.far;
}

void field_skip(const char *id, const char *why) {
    print_message("%s: not applicable on this backend: %s\n", id, why);
    skip();
}
