/* rowfold emit: the source of the chosen plan's kernel, with declarations, and with a function that C programs can call
 * without knowing of slots. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* How a type of the language is spelt in C; types that C lacks are their bits. */
static const char *c_type(const char *type) {
    static const char *const types[][2] = {{"f64", "double"},
                                           {"f32", "float"},
                                           {"f16", "unsigned short"},
                                           {"bf16", "unsigned short"},
                                           {"f8e4m3", "unsigned char"},
                                           {"f8e5m2", "unsigned char"},
                                           {"i8", "signed char"},
                                           {"i16", "short"},
                                           {"i32", "int"},
                                           {"i64", "long long"},
                                           {"u8", "unsigned char"},
                                           {"u16", "unsigned short"},
                                           {"u32", "unsigned int"},
                                           {"u64", "unsigned long long"}};
    for (int i = 0; i < COUNT(types); i++)
        if (strcmp(types[i][0], type) == 0) return types[i][1];
    return "unsigned char"; /* bool */
}

/* Names of a kernel are any identifiers. Those that mean something in C or C++, in the text before the wrapper or in
 * its own get a mark; so do those that end in one, or two names could become one. */
static const char *c_name(Cli *c, const char *name) {
    static const char *const taken[] = {
        /* C */
        "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
        "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
        "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "asm",
        "typeof", "typeof_unqual", "linux", "unix", "i386",
        /* C++ and C23 */
        "alignas", "alignof", "and", "and_eq", "bitand", "bitor", "bool", "catch", "char16_t", "char32_t", "char8_t",
        "class", "compl", "concept", "co_await", "co_return", "co_yield", "const_cast", "consteval", "constexpr",
        "constinit", "decltype", "delete", "dynamic_cast", "explicit", "export", "false", "friend", "mutable",
        "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected",
        "public", "reinterpret_cast", "requires", "static_assert", "static_cast", "template", "this", "thread_local",
        "throw", "true", "try", "typeid", "typename", "using", "virtual", "wchar_t", "xor", "xor_eq",
        /* the text before the wrapper, and its own */
        "OUT", "PRAGMA", "UNROLL", "SYMBOL", "SYMBOL_", "slot", "slots"};
    bool mark = name[strlen(name) - 1] == '_' || strncmp(name, "rowfold_", 8) == 0 || strncmp(name, "__", 2) == 0;
    for (int i = 0; i < COUNT(taken); i++) mark |= strcmp(taken[i], name) == 0;
    return mark ? cli_text(c, strncmp(name, "__", 2) == 0 ? "arg%s_" : "%s_", name) : name;
}

/* An extent as C text: a number for an element axis, a parameter of the wrapper for a row axis or one with a range. */
static const char *extent(Cli *c, const rowfold_param *p, int d) {
    const char *name, *value;
    size_t at = 0;
    if (p->is_row[d]) return c_name(c, p->axis[d]);
    while (c->o.shape && pair_next(c, c->o.shape, &at, &name, &value) > 0)
        if (strcmp(name, p->axis[d]) == 0) return strstr(value, "..") ? c_name(c, name) : cli_text(c, "%sll", value);
    return "1ll";
}

static bool is_tensor(const rowfold_param *p) {
    return p->direction != ROWFOLD_SCALAR && p->direction != ROWFOLD_CONST;
}

static void add(Text *t, const char *fmt, const char *s) {
    text_fmt(t, "%s", t->n ? ", " : "");
    text_fmt(t, "%s", fmt);
    text_fmt(t, "%s", s);
}

/* What the slots hold, from the declarations: " *   3: stride of x along rows, elements" */
typedef struct Wrap {
    Cli *c;
    int n;
    rowfold_param *param;
    Text rows, slots, params; /* product of the row extents; initialisers; parameters of the wrapper */
    const char *outside;      /* condition under which an extent is outside of its range; NULL: it has none */
} Wrap;

static const rowfold_param *param_named(const Wrap *w, const char *name, size_t n) {
    for (int i = 0; i < w->n; i++)
        if (strlen(w->param[i].name) == n && memcmp(w->param[i].name, name, n) == 0) return &w->param[i];
    return NULL;
}

/* Dense: the extents of all later dimensions multiplied */
static const char *stride(Cli *c, const rowfold_param *p, const char *axis, size_t n) {
    Text t = {0};
    int d = 0;
    while (d < p->rank && (strlen(p->axis[d]) != n || memcmp(p->axis[d], axis, n) != 0)) d++;
    for (d++; d < p->rank; d++) text_fmt(&t, "%s%s", t.n ? " * " : "", extent(c, p, d));
    const char *s = cli_text(c, "%s", t.n ? t.s : "1");
    text_free(&t);
    return s;
}

static bool slot_line(Wrap *w, const char *line) {
    static const char pointer[] = "pointer to ", row[] = "extent of row axis ", step[] = "stride of ",
                      along[] = " along ", ranged[] = "extent of axis ", to[] = " to ";
    const rowfold_param *p;
    size_t n;
    if (strncmp(line, pointer, sizeof pointer - 1) == 0) {
        line += sizeof pointer - 1;
        if (!(p = param_named(w, line, strcspn(line, ",")))) return false;
        const char *name = c_name(w->c, p->name);
        text_fmt(&w->slots, "%s{.p = (void *)%s}", w->slots.n ? ", " : "", name);
        add(&w->params, cli_text(w->c, "%s%s *", p->direction == ROWFOLD_IN ? "const " : "", c_type(p->type)), name);
    } else if (strncmp(line, row, sizeof row - 1) == 0) {
        line += sizeof row - 1;
        const char *name = c_name(w->c, cli_text(w->c, "%.*s", (int)strcspn(line, "\n"), line));
        text_fmt(&w->slots, "%s{.i = %s}", w->slots.n ? ", " : "", name);
        text_fmt(&w->rows, "%s%s", w->rows.n ? " * " : "", name);
        add(&w->params, "long long ", name);
    } else if (strncmp(line, step, sizeof step - 1) == 0) {
        line += sizeof step - 1;
        n = strcspn(line, " ");
        if (!(p = param_named(w, line, n)) || strncmp(line + n, along, sizeof along - 1) != 0) return false;
        line += n + sizeof along - 1;
        text_fmt(&w->slots, "%s{.i = %s}", w->slots.n ? ", " : "", stride(w->c, p, line, strcspn(line, ",")));
    } else if (strncmp(line, ranged, sizeof ranged - 1) == 0) { /* "extent of axis n, 1 to 4096" */
        char *end;
        line += sizeof ranged - 1;
        const char *name = c_name(w->c, cli_text(w->c, "%.*s", (int)strcspn(line, ","), line));
        const long long least = strtoll(line + strcspn(line, ",") + 1, &end, 10);
        if (strncmp(end, to, sizeof to - 1) != 0) return false;
        w->outside =
            cli_text(w->c, "%s < %lld || %s > %lld", name, least, name, strtoll(end + sizeof to - 1, NULL, 10));
        text_fmt(&w->slots, "%s{.i = %s}", w->slots.n ? ", " : "", name);
        add(&w->params, "long long ", name);
    } else {
        if (!(p = param_named(w, line, strcspn(line, ","))) || is_tensor(p)) return false;
        const bool real = p->type[0] == 'f' || p->type[0] == 'b';
        const char *name = c_name(w->c, p->name);
        text_fmt(&w->slots, "%s{.%c = %s}", w->slots.n ? ", " : "", real && strcmp(p->type, "bool") != 0 ? 'd' : 'i',
                 name);
        add(&w->params, real && strcmp(p->type, "bool") != 0 ? "double " : "long long ", name);
    }
    return true;
}

/* The hash that the kernel's receipt says of itself. */
static const char *receipt_hash(Cli *c) {
    const char *text = rowfold_kernel_text(c->kernel, ROWFOLD_RECEIPT), *at = text ? strstr(text, "\"hash\":") : NULL;
    at = at ? strchr(at + strlen("\"hash\":"), '"') : NULL;
    return at ? cli_text(c, "%.*s", (int)strcspn(at + 1, "\""), at + 1) : "-";
}

/* Source and declarations with a function for dense arrays; false where the source is not of that kind. */
static bool wrap(Cli *c, const char **source, const char **header) {
    Wrap w = {.c = c, .n = rowfold_param_count(c->program)};
    w.param = cli_get(c, sizeof *w.param * (size_t)(w.n + 1));
    for (int i = 0; i < w.n; i++) rowfold_param_get(c->program, i, &w.param[i]);
    int next = 0;
    bool ok = strstr(*source, "} slot;") != NULL;
    for (const char *p = *header; ok && p; p = strchr(p, '\n')) {
        char *colon;
        p += *p == '\n';
        if (strncmp(p, " *   ", 5) != 0) continue;
        const long number = strtol(p + 5, &colon, 10);
        ok = number == next++ && strncmp(colon, ": ", 2) == 0 && slot_line(&w, colon + 2);
    }
    const char *name = rowfold_program_name(c->program);
    if (ok) {
        const char *head = cli_text(c, "%s rowfold_%s(%s)", w.outside ? "int" : "void", name, w.params.s);
        const char *made =
            cli_text(c, "%s\n * receipt %s", rowfold_kernel_text(c->kernel, ROWFOLD_PLAN), receipt_hash(c));
        const char *guard = w.outside ? cli_text(c, "    if (%s) return 1;\n", w.outside) : "";
        /* what rowfold gives its own compiler as flags: products and sums stay apart, and gcc 12 makes no vectors of
         * two elements, of which it divides a register by itself to -1 */
        *source = cli_text(
            c,
            "#ifdef __cplusplus\n#define restrict __restrict\n#endif\n#ifdef __GNUC__\n"
            "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
            "#pragma GCC diagnostic ignored \"-Wunused-but-set-variable\"\n"
            "#pragma GCC diagnostic ignored \"-Wpsabi\"\n" /* vectors are passed between static functions only */
            "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
            "#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n#ifndef __clang__\n"
            /* lanes behind a row's end are read with the others, and masked */
            "#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n"
            "#pragma GCC optimize (\"fp-contract=off\", \"no-tree-slp-vectorize\")\n#endif\n#endif\n%s\n\n/* "
            "%s of dense tensors%s, %s */\n#ifdef __cplusplus\nextern \"C\"\n#endif\n%s;\n%s {\n%s    "
            "const slot slots[] = {%s};\n"
            "    rowfold_kernel_%s(slots, 0, %s);\n%s}\n",
            *source, name, w.outside ? "; 1 and nothing done where the extent is outside of its range" : "", made, head,
            head, guard, w.slots.s, name, w.rows.n ? w.rows.s : "1", w.outside ? "    return 0;\n" : "");
        *header =
            cli_text(c, "%s/* %s of dense tensors, %s */\n#ifdef __cplusplus\nextern \"C\"\n#endif\n%s;%s\n", *header,
                     name, made, head, w.outside ? " /* 0, or 1 where the extent is outside of its range */" : "");
    }
    text_free(&w.rows);
    text_free(&w.slots);
    text_free(&w.params);
    return ok;
}

static Rc print_json(Cli *c, const char *source, const char *header) {
    Text t = {0};
    json_head(c, &t, c->o.shape ? c->o.shape : "");
    json_str(&t, "plan", rowfold_kernel_text(c->kernel, ROWFOLD_PLAN));
    if (c->o.output)
        json_str(&t, "output", c->o.output);
    else
        json_str(&t, "source", source);
    if (c->o.header)
        json_str(&t, "header", c->o.header);
    else
        json_str(&t, "declarations", header);
    json_close(&t, '}');
    return json_print(c, &t);
}

Rc command_emit(Cli *c) {
    Rc rc = cli_program(c);
    if (!rc) rc = cli_compile(c, c->o.effort < 0 ? ROWFOLD_ESTIMATE : c->o.effort, c->o.shape, c->o.strided);
    if (rc) return rc;
    const char *source = rowfold_kernel_text(c->kernel, ROWFOLD_SOURCE),
               *header = rowfold_kernel_text(c->kernel, ROWFOLD_HEADER);
    if (!*source) return fail(c, F_NOTHING, NULL, "there is no source for %s", rowfold_device_name(c->device));
    if (c->o.standalone && !wrap(c, &source, &header))
        return fail(c, F_NOTHING, "a host device or preset", "--standalone makes C functions, and %s has none",
                    rowfold_device_name(c->device));
    const char *into[] = {c->o.output, c->o.header, c->o.receipt};
    for (int i = 0; i < 3; i++) {
        const char *other = into[(i + 1) % 3];
        if (into[i] && other && strcmp(into[i], other) == 0)
            return fail(c, F_OPTION, NULL, "two outputs go to %s", other);
    }
    if (c->o.header) rc = file_write(c, c->o.header, "#pragma once\n", 13, header, strlen(header));
    if (!rc && c->o.output) rc = file_write(c, c->o.output, source, strlen(source), "\n", 1);
    const char *receipt = c->o.receipt ? rowfold_kernel_text(c->kernel, ROWFOLD_RECEIPT) : NULL;
    if (!rc && receipt) rc = file_write(c, c->o.receipt, receipt, strlen(receipt), "\n", 1);
    if (!rc && c->o.json) return print_json(c, source, header);
    if (!rc && !c->o.output) puts(source);
    return rc;
}
