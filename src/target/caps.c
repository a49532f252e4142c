/* Machines: presets for those that are not here, and Caps as one line of text. */
#include "target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[KIND_COUNT] = {"host", "cuda", "opencl", "metal"};
static const char *const isas[ISA_COUNT] = {"portable", "avx2", "avx512", "neon"};

const char *kind_text(Kind k) {
    return kinds[k];
}
const char *isa_text(Isa i) {
    return isas[i];
}

static bool word_find(const char *s, const char *const *words, int n, int *out) {
    for (int i = 0; i < n; i++)
        if (str_eq(words[i], s)) return *out = i, true;
    return false;
}

bool isa_find(const char *s, Isa *out) {
    int i;
    if (!word_find(s, isas, ISA_COUNT, &i)) return false;
    *out = (Isa)i;
    return true;
}

/* ---- presets ---- */
enum { KIB = 1024, MIB = 1024 * 1024 };

/* What all hosts have in common. The stripes of a row are one buffer, so that slots follow from bytes; caches and
 * bandwidth are nominal and those of the real machine where the runtime finds one. */
#define HOST(preset, kind_of_isa, lanes, streams)                                                                \
    {                                                                                                            \
        .name = preset, .kind = KIND_HOST, .isa = kind_of_isa, .subgroup = lanes, .max_lanes = 1024,             \
        .max_group = 1024 * 32, .stripe_slots = MIB / 4, .row_buffer_bytes = MIB, .units = 1, .max_cluster = 1,  \
        .has_stream_store = streams, .poly_math = true, .has_f64 = true, .cache_line = 64, .l1_bytes = 32 * KIB, \
        .l2_bytes = MIB, .l3_bytes = 32 * MIB, .copy_bytes_per_s = 5e10, .launch_s = 1e-6                        \
    }

static const Caps presets[] = {
    /* The machine of the prior system: 32 KiB of threadgroup memory, simdgroups of 32, 64 slots a lane by its own rule.
     */
    {.name = "m1max",
     .kind = KIND_METAL,
     .subgroup = 32,
     .max_lanes = 1024,
     .max_group = 1024,
     .max_pack_bytes = 16,
     .stripe_slots = 64,
     .shared_bytes = 32 * KIB,
     .units = 32,
     .max_cluster = 1,
     .unordered_collect = true,
     .poly_math = true,
     .cache_line = 128,
     .copy_bytes_per_s = 3.4e11,
     .launch_s = 5e-6},
    /* Shared memory is what one group may ask for (227 KiB); L2 as the driver reports it; copy rate as measured. */
    {.name = "h200",
     .kind = KIND_CUDA,
     .subgroup = 32,
     .max_lanes = 1024,
     .max_group = 1024,
     .max_pack_bytes = 16,
     .stripe_slots = 64,
     .shared_bytes = 232448,
     .registers = 65536,
     .units = 132,
     .max_cluster = 16,
     .has_keep = true,
     .has_stream_store = true,
     .has_f64 = true,
     .cache_line = 128,
     .l1_bytes = 256 * KIB,
     .l2_bytes = 60 * MIB,
     .copy_bytes_per_s = 4.2e12,
     .launch_s = 2e-6},
    {.name = "rtx4060",
     .kind = KIND_CUDA,
     .subgroup = 32,
     .max_lanes = 1024,
     .max_group = 1024,
     .max_pack_bytes = 16,
     .stripe_slots = 64,
     .shared_bytes = 101376,
     .registers = 65536,
     .units = 24,
     .max_cluster = 1,
     .has_keep = true,
     .has_stream_store = true,
     .has_f64 = true,
     .cache_line = 128,
     .l1_bytes = 128 * KIB,
     .l2_bytes = 32 * MIB,
     .copy_bytes_per_s = 2.4e11,
     .launch_s = 2.5e-6},
    /* What any OpenCL 1.2 GPU has: 32 KiB of local memory, groups of 256, no f64, no shuffles. */
    {.name = "opencl",
     .kind = KIND_OPENCL,
     .subgroup = 1,
     .max_lanes = 256,
     .max_group = 256,
     .max_pack_bytes = 16,
     .stripe_slots = 64,
     .shared_bytes = 32 * KIB,
     .units = 16,
     .max_cluster = 1,
     .poly_math = true,
     .cache_line = 64,
     .copy_bytes_per_s = 1e11,
     .launch_s = 1e-5},
    /* A CPU with eight cores as PoCL offers it: its local memory is ordinary memory. */
    {.name = "pocl",
     .kind = KIND_OPENCL,
     .subgroup = 1,
     .max_lanes = 1024,
     .max_group = 1024,
     .max_pack_bytes = 16,
     .stripe_slots = 64,
     .shared_bytes = 512 * KIB,
     .units = 8,
     .max_cluster = 1,
     .poly_math = true,
     .has_f64 = true,
     .lanes_in_turn = true,
     .cache_line = 64,
     .l1_bytes = 32 * KIB,
     .l2_bytes = MIB,
     .l3_bytes = 32 * MIB,
     .copy_bytes_per_s = 5e10,
     .launch_s = 1e-5},
    HOST("avx512", ISA_AVX512, 16, true),
    HOST("avx2", ISA_AVX2, 8, true),
    HOST("neon", ISA_NEON, 4, false),
    HOST("portable", ISA_PORTABLE, 4, false),
};
static const char *const preset_names[] = {"m1max",  "h200", "rtx4060", "opencl",  "pocl",
                                           "avx512", "avx2", "neon",    "portable"};
_Static_assert(COUNT(presets) == COUNT(preset_names), "one name a preset");

int caps_presets(const char *const **names) {
    *names = preset_names;
    return COUNT(preset_names);
}

bool caps_preset(const char *name, Caps *out) {
    for (int i = 0; i < COUNT(presets); i++)
        if (str_eq(presets[i].name, name)) return *out = presets[i], true;
    return false;
}

/* ---- text ---- */
typedef enum Form { NAME, KIND, ISA, BOOL, INT, POSITIVE, BYTES, F64 } Form;
/* Every field of Caps, once: printing, reading and comparing go over this. */
static const struct Field {
    const char *key;
    size_t at;
    Form form;
} fields[] = {
#define F(field, form) \
    { #field, offsetof(Caps, field), form }
    F(name, NAME),
    F(kind, KIND),
    F(isa, ISA),
    F(subgroup, POSITIVE),
    F(max_lanes, POSITIVE),
    F(max_group, POSITIVE),
    F(max_pack_bytes, INT),
    F(stripe_slots, INT),
    F(row_buffer_bytes, BYTES),
    F(shared_bytes, BYTES),
    F(registers, BYTES),
    F(units, POSITIVE),
    F(max_cluster, POSITIVE),
    F(has_keep, BOOL),
    F(has_stream_store, BOOL),
    F(unordered_collect, BOOL),
    F(poly_math, BOOL),
    F(has_f64, BOOL),
    F(lanes_in_turn, BOOL),
    F(cache_line, BYTES),
    F(l1_bytes, BYTES),
    F(l2_bytes, BYTES),
    F(l3_bytes, BYTES),
    F(copy_bytes_per_s, F64),
    F(launch_s, F64),
#undef F
};

static bool plain(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
           c == '-';
}

static void put_name(const char *s, Buf *out) { /* any bytes: what is not plain as %XX */
    for (; *s; s++) {
        if (plain((unsigned char)*s))
            buf_put(out, s, 1);
        else
            buf_fmt(out, "%%%02X", (unsigned char)*s);
    }
}

void caps_print(const Caps *c, Buf *out) {
    for (int i = 0; i < COUNT(fields); i++) {
        const void *at = (const char *)c + fields[i].at;
        buf_fmt(out, "%s%s=", i ? " " : "", fields[i].key);
        switch (fields[i].form) {
        case NAME: put_name(at, out); break;
        case KIND: buf_str(out, kinds[*(const Kind *)at]); break;
        case ISA: buf_str(out, isas[*(const Isa *)at]); break;
        case BOOL: buf_str(out, *(const bool *)at ? "1" : "0"); break;
        case INT:
        case POSITIVE: buf_fmt(out, "%d", *(const int *)at); break;
        case BYTES: buf_fmt(out, "%lld", (long long)*(const int64_t *)at); break;
        case F64: buf_f64(out, *(const double *)at); break;
        }
    }
    buf_str(out, "\n");
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_name(const char *s, char name[64]) {
    int n = 0;
    for (; *s; s++) {
        int c = (unsigned char)*s;
        if (c == '%') {
            if (hex(s[1]) < 0 || hex(s[2]) < 0) return false;
            c = hex(s[1]) * 16 + hex(s[2]);
            s += 2;
        } else if (!plain((unsigned char)c))
            return false;
        if (!c || n == 63) return false;
        name[n++] = (char)c;
    }
    return true;
}

static bool read_value(Form form, const char *s, void *at) {
    int word;
    int64_t i;
    double d;
    char *end;
    switch (form) {
    case NAME: return read_name(s, at);
    case KIND:
        if (!word_find(s, kinds, KIND_COUNT, &word)) return false;
        *(Kind *)at = (Kind)word;
        return true;
    case ISA: return isa_find(s, at);
    case BOOL:
        if (!str_eq(s, "0") && !str_eq(s, "1")) return false;
        *(bool *)at = *s == '1';
        return true;
    case INT:
    case POSITIVE:
        if (!str_i64(s, &i) || i < (form == POSITIVE) || i > INT32_MAX) return false;
        *(int *)at = (int)i;
        return true;
    case BYTES: return str_i64(s, at) && *(int64_t *)at >= 0;
    case F64:
        d = text_f64(s, &end);
        if (!*s || strspn(s, "0123456789+-.e") != strlen(s) || *end || !isfinite(d) || d < 0) return false;
        *(double *)at = d;
        return true;
    }
    return false;
}

Err caps_read(Cx *cx, const char *text, Caps *out) {
    Caps c = {0};
    uint32_t seen = 0;
    for (const char *s = text; *(s += strspn(s, " \n"));) {
        size_t n = strcspn(s, " \n"), key = strcspn(s, "= \n");
        int i = 0;
        while (i < COUNT(fields) && !(strlen(fields[i].key) == key && !memcmp(fields[i].key, s, key))) i++;
        if (i == COUNT(fields) || s[key] != '=')
            return diag(cx, S_CAPS_TEXT, NOWHERE, "key=value", "byte %lld: no such fact of a machine",
                        (long long)(s - text));
        if (seen >> i & 1) return diag(cx, S_CAPS_TEXT, NOWHERE, NULL, "%s is given twice", fields[i].key);
        seen |= 1u << i;
        const char *value = arena_str(cx->a, s + key + 1, n - key - 1);
        if (!read_value(fields[i].form, value, (char *)&c + fields[i].at))
            return diag(cx, S_CAPS_TEXT, NOWHERE, NULL, "%s has a value out of its range", fields[i].key);
        s += n;
    }
    for (int i = 0; i < COUNT(fields); i++)
        if (!(seen >> i & 1)) return diag(cx, S_CAPS_TEXT, NOWHERE, NULL, "%s is missing", fields[i].key);
    *out = c;
    return OK;
}

bool caps_equal(const Caps *a, const Caps *b) {
    for (int i = 0; i < COUNT(fields); i++) {
        const char *x = (const char *)a + fields[i].at, *y = (const char *)b + fields[i].at;
        bool same = true;
        switch (fields[i].form) {
        case NAME: same = str_eq(x, y); break;
        case KIND: same = *(const Kind *)x == *(const Kind *)y; break;
        case ISA: same = *(const Isa *)x == *(const Isa *)y; break;
        case BOOL: same = *(const bool *)x == *(const bool *)y; break;
        case INT:
        case POSITIVE: same = *(const int *)x == *(const int *)y; break;
        case BYTES: same = *(const int64_t *)x == *(const int64_t *)y; break;
        case F64: same = *(const double *)x == *(const double *)y; break;
        }
        if (!same) return false;
    }
    return true;
}
