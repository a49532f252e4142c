/* The arguments of a run: .npy inputs bind the axes, what is not given is random, outputs start as poison. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AXES = 64, POISON = 0xA5 };

typedef struct Axis {
    const char *name;
    int64_t extent;    /* -1: not known yet */
    const char *from;  /* who said so */
    const char *range; /* text of a range, with its ends; NULL: none */
    int64_t least, most;
    bool row;
} Axis;

typedef struct Binder {
    Cli *c;
    Axis axis[AXES];
    int n;
    double total; /* bytes of memory asked for */
} Binder;

static bool is_tensor(const Array *a) {
    return a->param.direction != ROWFOLD_SCALAR && a->param.direction != ROWFOLD_CONST;
}
static bool is_input(const Array *a) {
    return a->param.direction == ROWFOLD_IN || a->param.direction == ROWFOLD_INOUT;
}
bool array_written(const Array *a) {
    return a->param.direction == ROWFOLD_OUT || a->param.direction == ROWFOLD_INOUT;
}

static Axis *axis_of(Binder *b, const char *name) {
    for (int i = 0; i < b->n; i++)
        if (strcmp(b->axis[i].name, name) == 0) return &b->axis[i];
    return NULL;
}

/* ---- names on the command line ---- */
static const char *names_of(Cli *c, const Arrays *as, bool (*is)(const Array *)) {
    Text t = {0};
    for (int i = 0; i < as->n; i++)
        if (is(&as->a[i])) text_fmt(&t, "%s%s", t.n ? ", " : "", as->a[i].param.name);
    const char *s = cli_text(c, "%s", t.n ? t.s : "none");
    text_free(&t);
    return s;
}

/* --in or --out: the array that NAME=FILE means */
static Rc find(Cli *c, const Arrays *as, const char *option, const char *word, bool (*is)(const Array *), int *at,
               const char **file) {
    const char *eq = strchr(word, '=');
    if (!eq || eq == word || !eq[1])
        return fail(c, F_VALUE, "NAME=FILE", "%s takes NAME=FILE, not \"%s\"", option, word);
    const char *name = cli_text(c, "%.*s", (int)(eq - word), word);
    for (int i = 0; i < as->n; i++)
        if (is(&as->a[i]) && strcmp(as->a[i].param.name, name) == 0) return *at = i, *file = eq + 1, RC_OK;
    return fail(c, F_NAME, names_of(c, as, is), "%s has no parameter \"%s\" for %s", rowfold_program_name(c->program),
                name, option);
}

/* ---- inputs ---- */
/* The type that a parameter has in a .npy file; bf16 and f8, which NumPy lacks, travel as raw unsigned numbers. */
static bool npy_type_of(const char *type, Npy *a) {
    static const struct {
        const char *type;
        char kind;
        int bytes;
        bool raw;
    } types[] = {{"f64", 'f', 8, false}, {"f32", 'f', 4, false},   {"f16", 'f', 2, false},  {"i8", 'i', 1, false},
                 {"i16", 'i', 2, false}, {"i32", 'i', 4, false},   {"i64", 'i', 8, false},  {"u8", 'u', 1, false},
                 {"u16", 'u', 2, false}, {"u32", 'u', 4, false},   {"u64", 'u', 8, false},  {"bool", 'b', 1, false},
                 {"bf16", 'u', 2, true}, {"f8e4m3", 'u', 1, true}, {"f8e5m2", 'u', 1, true}};
    for (int i = 0; i < COUNT(types); i++)
        if (strcmp(types[i].type, type) == 0) {
            a->kind = types[i].kind, a->bytes = types[i].bytes;
            return types[i].raw;
        }
    a->kind = 0, a->bytes = 0;
    return false;
}

static Fault fault_of(NpyFault f) {
    switch (f) {
    case NPY_HEADER: return F_NPY_HEADER;
    case NPY_TYPE: return F_NPY_TYPE;
    case NPY_SHAPE: return F_NPY_SHAPE;
    case NPY_SHORT: return F_NPY_SHORT;
    case NPY_MEMORY: return F_MEMORY;
    default: return F_READ;
    }
}

static const char *axes_text(Cli *c, const rowfold_param *p) {
    Text t = {0};
    text_put(&t, "[", 1);
    for (int d = 0; d < p->rank; d++) text_fmt(&t, "%s%s", d ? ", " : "", p->axis[d]);
    text_put(&t, "]", 1);
    const char *s = cli_text(c, "%s", t.s);
    text_free(&t);
    return s;
}

static Rc read_input(Cli *c, Array *a) {
    NpyError e = {NPY_OK, ""};
    const rowfold_param *p = &a->param;
    const NpyFault f = npy_load(a->file, &a->npy, &a->data, &e);
    if (f) return fail(c, fault_of(f), NULL, "%s, for %s: %s", a->file, p->name, e.text);
    a->shaped = true;
    a->bytes = a->npy.data_len;
    Npy want = {0};
    char has[8], needs[8];
    const bool raw = npy_type_of(p->type, &want);
    npy_type_text(&a->npy, has);
    npy_type_text(&want, needs);
    if (a->npy.bytes != want.bytes || (a->npy.kind != want.kind && !(raw && a->npy.kind == 'V')))
        return fail(c, F_NPY_TYPE, cli_text(c, "%s", needs), "%s holds %s, and %s is %s%s", a->file, has, p->name,
                    p->type, raw ? cli_text(c, ", which travels as raw %s", needs) : "");
    if (raw) note(c, "%s: %s is read as raw %s", a->file, p->type, needs);
    if (a->npy.rank != p->rank)
        return fail(c, F_NPY_SHAPE, cli_text(c, "%d dimension%s: %s", p->rank, plural(p->rank), axes_text(c, p)),
                    "%s has %d dimension%s, and %s has %d", a->file, a->npy.rank, plural(a->npy.rank), p->name,
                    p->rank);
    /* Any byte but zero is true to a kernel; in a file it is damage. */
    for (size_t i = 0; want.kind == 'b' && i < a->bytes; i++)
        if (((const unsigned char *)a->data)[i] > 1)
            return fail(c, F_NPY_TYPE, "0 and 1", "%s holds a bool of %d", a->file,
                        ((const unsigned char *)a->data)[i]);
    return RC_OK;
}

/* ---- extents ---- */
static Rc bind_one(Binder *b, Axis *x, int64_t extent, const char *from) {
    if (x->extent >= 0 && x->extent != extent)
        return fail(b->c, F_CONFLICT, NULL, "axis %s is %lld in %s and %lld in %s", x->name, (long long)x->extent,
                    x->from, (long long)extent, from);
    if (x->extent < 0) x->extent = extent, x->from = from;
    return RC_OK;
}

/* "4096", or "1..4096" of an axis whose extent each launch may choose. */
static Rc bind_extent(Binder *b, Axis *x, const char *value, const char *option) {
    Cli *c = b->c;
    char *end;
    long long v = strtoll(value, &end, 10);
    bool ranged = strncmp(end, "..", 2) == 0 && end != value;
    const long long from = v;
    if (ranged) v = strtoll(end + 2, &end, 10);
    if (*end || end == value || v < 0 || v == INT64_MAX || (ranged && option[2] != 's'))
        return fail(c, F_VALUE, "a whole number from 0", "%s gives axis %s the extent \"%s\"", option, x->name, value);
    ranged &= from != v || v < 1; /* 5..5 is 5 */
    if (!ranged) return bind_one(b, x, v, option);
    x->range = value, x->least = from, x->most = v;
    return RC_OK;
}

static Rc bind_text(Binder *b, const char *text, const char *option) {
    Cli *c = b->c;
    const char *name, *value;
    size_t at = 0;
    int more;
    while (text && (more = pair_next(c, text, &at, &name, &value)) != 0) {
        if (more < 0) return fail(c, F_VALUE, "AXIS=EXTENT,...", "%s has \"%s\"", option, name);
        Axis *x = axis_of(b, name);
        if (!x) {
            Text t = {0};
            for (int i = 0; i < b->n; i++) text_fmt(&t, "%s%s", i ? ", " : "", b->axis[i].name);
            const Rc rc = fail(c, F_NAME, t.n ? t.s : NULL, "%s has no axis \"%s\" that an extent can be given for",
                               rowfold_program_name(c->program), name);
            text_free(&t);
            return rc;
        }
        const Rc rc = bind_extent(b, x, value, option);
        if (rc) return rc;
    }
    return RC_OK;
}

static Rc bind(Binder *b, Arrays *as) {
    Cli *c = b->c;
    for (int i = 0; i < as->n; i++)
        for (int d = 0; d < as->a[i].param.rank; d++) {
            const char *name = as->a[i].param.axis[d];
            if (axis_of(b, name) || b->n == AXES) continue;
            b->axis[b->n++] = (Axis){.name = name, .extent = -1, .row = as->a[i].param.is_row[d]};
        }
    Rc rc = bind_text(b, c->o.shape, "--shape");
    if (!rc) rc = bind_text(b, c->o.at, "--at");
    for (int i = 0; !rc && i < as->n; i++)
        for (int d = 0; !rc && as->a[i].shaped && d < as->a[i].param.rank; d++)
            rc = bind_one(b, axis_of(b, as->a[i].param.axis[d]), as->a[i].npy.shape[d],
                          cli_text(c, "%s (%s)", as->a[i].file, as->a[i].param.name));
    for (int i = 0; !rc && i < b->n; i++)
        if (b->axis[i].extent < 0 && b->axis[i].range)
            b->axis[i].extent = b->axis[i].most;
        else if (b->axis[i].extent < 0)
            rc = fail(c, F_UNKNOWN, cli_text(c, "--shape %s=N", b->axis[i].name), "the extent of axis %s is not known",
                      b->axis[i].name);
    for (int i = 0; !rc && i < b->n; i++) {
        const Axis *x = &b->axis[i];
        if (x->range && x->least <= x->most && (x->extent < x->least || x->extent > x->most))
            rc = fail(c, F_CONFLICT, cli_text(c, "%lld to %lld", (long long)x->least, (long long)x->most),
                      "axis %s is %lld in %s and %s in --shape", x->name, (long long)x->extent, x->from, x->range);
    }
    if (rc) return rc;
    Text compiled = {0}, run = {0};
    for (int i = 0; i < b->n; i++) {
        const char *extent = cli_text(c, "%lld", (long long)b->axis[i].extent), *range = b->axis[i].range;
        text_fmt(&compiled, "%s%s=", i ? "," : "", b->axis[i].name);
        text_fmt(&compiled, "%s", range ? range : extent);
        text_fmt(&run, "%s%s=", i ? "," : "", b->axis[i].name);
        text_fmt(&run, "%s%s", extent, range ? cli_text(c, " of %s", range) : "");
    }
    as->shape = cli_text(c, "%s", compiled.n ? compiled.s : "");
    as->ran = cli_text(c, "%s", run.n ? run.s : "");
    text_free(&compiled);
    text_free(&run);
    return RC_OK;
}

/* ---- memory ---- */
/* Integers wide enough for an index stay within the shortest element axis, so that those that are indexes hit. */
static int64_t bound_of(const Binder *b, const Array *a) {
    int64_t least = 0;
    if ((a->param.type[0] != 'i' && a->param.type[0] != 'u') ||
        (strstr(a->param.type, "32") == NULL && strstr(a->param.type, "64") == NULL))
        return 0;
    for (int i = 0; i < b->n; i++)
        if (!b->axis[i].row && b->axis[i].extent > 0 && (!least || b->axis[i].extent < least))
            least = b->axis[i].extent;
    return least;
}

/* More than the machine has would not fail here but later, by a signal. */
static bool fits(Binder *b, int64_t bytes) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    b->total += (double)bytes;
    return pages <= 0 || page <= 0 || b->total <= (double)pages * (double)page;
}

static Rc make(Binder *b, Array *a, rowfold_arg *arg, int number) {
    Cli *c = b->c;
    Npy dense = {.rank = a->param.rank, .count = 1};
    npy_type_of(a->param.type, &dense);
    bool over = dense.bytes == 0, empty = false;
    for (int d = 0; d < dense.rank; d++) {
        const int64_t n = axis_of(b, a->param.axis[d])->extent;
        arg->extent[d] = dense.shape[d] = n;
        over |= __builtin_mul_overflow(dense.count, n ? n : 1, &dense.count);
        empty |= n == 0;
    }
    int64_t bytes = 0;
    if (over || __builtin_mul_overflow(dense.count, (int64_t)dense.bytes, &bytes) || bytes > INT64_MAX / 16)
        return fail(c, F_MEMORY, "smaller extents", "%s would have more bytes than memory has addresses",
                    a->param.name);
    npy_strides(a->shaped ? &a->npy : &dense, arg->stride);
    if (empty) dense.count = 0, bytes = 0;
    if (!a->shaped) {
        a->bytes = (size_t)bytes;
        a->data = fits(b, bytes) ? npy_memory(a->bytes) : NULL;
        if (!a->data)
            return fail(c, F_MEMORY, "smaller extents", "there is no memory for the %lld bytes of %s", (long long)bytes,
                        a->param.name);
        if (is_input(a) && dense.count >> 28)
            note(c, "%s: %lld random elements are being made", a->param.name, (long long)dense.count);
        if (!is_input(a)) {
            memset(a->data, POISON, a->bytes);
        } else if (rowfold_fill(c->o.fill ? c->o.fill : "uniform", a->param.type, a->data, dense.count,
                                (uint64_t)c->o.seed * 64 + (uint64_t)number, bound_of(b, a)) != ROWFOLD_OK) {
            return fail(c, F_VALUE, "uniform normal wide cancel ties special", "there is no --fill \"%s\"",
                        c->o.fill ? c->o.fill : "");
        }
        a->npy = dense;
        a->npy.data_len = a->bytes;
    }
    arg->data = a->data;
    if (a->param.direction != ROWFOLD_INOUT) return RC_OK;
    a->kept = npy_memory(a->bytes);
    if (!a->kept)
        return fail(c, F_MEMORY, "smaller extents", "there is no memory to keep the input of %s", a->param.name);
    memcpy(a->kept, a->data, a->bytes);
    return RC_OK;
}

/* ---- scalars ---- */
static Rc set_scalars(Cli *c, Arrays *as) {
    const char *name, *value;
    size_t at = 0;
    int more;
    bool *given = cli_get(c, sizeof *given * (size_t)(as->n + 1));
    for (int i = 0; i < as->n; i++) as->arg[i].value = as->a[i].param.value;
    while (c->o.sets && (more = pair_next(c, c->o.sets, &at, &name, &value)) != 0) {
        if (more < 0) return fail(c, F_VALUE, "NAME=VALUE", "--set has \"%s\"", name);
        int i = 0;
        while (i < as->n && (as->a[i].param.direction != ROWFOLD_SCALAR || strcmp(as->a[i].param.name, name) != 0)) i++;
        if (i == as->n)
            return fail(c, F_NAME, NULL, "%s has no scalar \"%s\"%s", rowfold_program_name(c->program), name,
                        "; --const sets const parameters, --in tensors");
        char *end = NULL;
        given[i] = true;
        if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
            as->arg[i].value = *value == 't';
        else
            as->arg[i].value = strtod(value, &end);
        if (end && (end == value || *end))
            return fail(c, F_VALUE, "a number, true or false", "--set gives %s the value \"%s\"", name, value);
    }
    for (int i = 0; i < as->n; i++)
        if (as->a[i].param.direction == ROWFOLD_SCALAR && !as->a[i].param.has_value && !given[i])
            return fail(c, F_VALUE, "--set NAME=VALUE", "scalar %s has no default and no --set", as->a[i].param.name);
    return RC_OK;
}

Rc arrays_read(Cli *c, Arrays *as) {
    as->n = rowfold_param_count(c->program);
    as->a = cli_get(c, sizeof *as->a * (size_t)(as->n + 1));
    as->arg = cli_get(c, sizeof *as->arg * (size_t)(as->n + 1));
    for (int i = 0; i < as->n; i++) rowfold_param_get(c->program, i, &as->a[i].param);
    Rc rc = set_scalars(c, as);
    int at = 0;
    const char *file = "";
    for (int k = 0; !rc && k < c->o.out.n; k++) {
        const char *other = "";
        rc = find(c, as, "--out", c->o.out.item[k], array_written, &at, &file);
        for (int j = 0; !rc && j < k; j++) {
            int to = 0;
            rc = find(c, as, "--out", c->o.out.item[j], array_written, &to, &other);
            if (!rc && to == at) rc = fail(c, F_OPTION, NULL, "--out %s is given twice", as->a[at].param.name);
            if (!rc && strcmp(other, file) == 0) rc = fail(c, F_OPTION, NULL, "two outputs go to %s", file);
        }
    }
    for (int k = 0; !rc && k < c->o.in.n; k++) {
        rc = find(c, as, "--in", c->o.in.item[k], is_input, &at, &file);
        if (!rc && as->a[at].file) rc = fail(c, F_OPTION, NULL, "--in %s is given twice", as->a[at].param.name);
        if (!rc) as->a[at].file = file;
        if (!rc) rc = read_input(c, &as->a[at]);
    }
    Binder b = {.c = c};
    if (!rc) rc = bind(&b, as);
    Text strided = {0};
    text_fmt(&strided, "%s", c->o.strided ? c->o.strided : "");
    for (int i = 0; !rc && i < as->n; i++) {
        if (!is_tensor(&as->a[i])) continue;
        rc = make(&b, &as->a[i], &as->arg[i], i);
        if (as->a[i].shaped && as->a[i].npy.fortran && as->a[i].npy.rank > 1)
            text_fmt(&strided, "%s%s", strided.n ? "," : "", as->a[i].param.name);
    }
    as->strided = cli_text(c, "%s", strided.s);
    text_free(&strided);
    return rc;
}

const char *array_path(Cli *c, const Arrays *as, int i) {
    if (!array_written(&as->a[i])) return NULL;
    const char *name = as->a[i].param.name, *path = NULL;
    const size_t n = strlen(name);
    if (c->o.out_dir) path = cli_text(c, "%s/%s.npy", c->o.out_dir, name);
    for (int k = 0; k < c->o.out.n; k++)
        if (strncmp(c->o.out.item[k], name, n) == 0 && c->o.out.item[k][n] == '=') path = c->o.out.item[k] + n + 1;
    return path;
}

Rc arrays_write(Cli *c, Arrays *as) {
    if (c->o.out_dir) {
        const int error = folder_make(c, c->o.out_dir);
        if (error) return fail(c, F_WRITE, NULL, "%s: %s", c->o.out_dir, strerror(error));
    }
    for (int i = 0; i < as->n; i++) {
        const char *path = array_path(c, as, i);
        if (!path) continue;
        const Array *a = &as->a[i];
        Npy file = a->npy;
        char head[512], type[8];
        if (npy_type_of(a->param.type, &file)) {
            npy_type_text(&file, type);
            note(c, "%s: %s is written as raw %s", path, a->param.type, type);
        }
        const size_t n = npy_header_write(&file, head, sizeof head);
        const Rc rc = file_write(c, path, head, n, a->data, a->bytes);
        if (rc) return rc;
    }
    return RC_OK;
}

void arrays_free(Arrays *as) {
    for (int i = 0; i < as->n; i++) {
        free(as->a[i].data);
        free(as->a[i].kept);
    }
}
