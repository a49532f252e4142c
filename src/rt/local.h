/* What the files of rt/ share. A runtime is one file that fills an RtOps, and one row of runtimes.def. */
#ifndef ROWFOLD_RT_LOCAL_H
#define ROWFOLD_RT_LOCAL_H

#include "rt.h"

/* A runtime embeds these as the first member of its own types. rt.c owns the fields set here; the rest is the
 * runtime's. */
struct Device {
    const struct RtOps *ops;
    Rt *rt;
    Caps caps;
    char name[64], identity[2048], compiler[1024]; /* compiler: path of its program or library, or "" */
};
struct Module {
    Device *dev;
    Facts facts;
    double pace_ns;
};
static inline Facts facts_unknown(void) { /* until a backend finds them out */
    return (Facts){.registers = -1,
                   .local_bytes = -1,
                   .shared_bytes = -1,
                   .groups_per_unit = -1,
                   .global_loads = -1,
                   .code_bytes = -1};
}
struct Mem {
    Device *dev;
    void *at;
    size_t bytes;
};

typedef struct RtOps {
    const char *name;
    bool hidden; /* not among rt_devices: only for those who ask by name */
    /* Adds what devices are present with rt_add. No driver, no device: OK. */
    Err (*open)(Cx *cx, Rt *rt);
    /* Makes a device on request; *out stays NULL when the name is not one of its. May be NULL. */
    Err (*find)(Cx *cx, Rt *rt, const char *name, Device **out);
    void (*close)(Device *d);
    Err (*build)(Cx *cx, Device *d, const Unit *u, Module **out);
    void (*unload)(Module *m);
    Err (*get)(Cx *cx, Device *d, size_t bytes, Mem **out);
    void (*put)(Mem *m);
    Err (*write)(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes); /* range already checked, as in read */
    Err (*read)(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes);
    Err (*launch)(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads); /* rows > 0 */
    /* May be NULL: rt.not_offered. */
    Err (*launch_in)(Cx *cx, Module *m, void *queue, const Slot *slots, int64_t rows);
    Err (*sync)(Cx *cx, Device *d);
    /* May be NULL: a loop of launches and one sync, by the monotonic clock. */
    Err (*time)(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                int64_t *ns);
    /* May be NULL: a launch and one sync, by the monotonic clock. */
    Err (*span)(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads, int64_t *ns);
    const char *clock[2]; /* of time and of span, in words; NULL: the monotonic clock around launches and a sync */
    /* May be NULL: rt.not_offered. */
    Err (*ceiling)(Cx *cx, Device *d, const Ceiling *c, double *ns, const char **how);
    DevState (*state)(Device *d); /* may be NULL: nothing is known */
} RtOps;

#define RUNTIME(name) extern const RtOps name##_ops;
#include "runtimes.def"
#undef RUNTIME

/* ---- rt.c ---- */
enum Note { NOTE_CACHE_OFF, NOTE_CACHE_READONLY, NOTE_CACHE_DAMAGED, NOTE_CACHE_FOREIGN, NOTE_COUNT };
const RtOptions *rt_options(const Rt *rt);
void *rt_get(const Rt *rt, size_t bytes); /* zeroed; NULL when memory is gone */
void rt_put(const Rt *rt, void *p);
Err rt_add(Cx *cx, Rt *rt, Device *d);                      /* on failure the device stays the caller's */
bool rt_has(const Rt *rt, const RtOps *ops);                /* a device of that runtime? */
void rt_find_added(Rt *rt, const char *name, Device **out); /* among those added: *out stays NULL where it is none */
void rt_say(Rt *rt, enum Note kind, const char *fmt, ...) PRINTF(3, 4);
struct Cache *rt_cache(Rt *rt);
Err rt_oom(Cx *cx, const char *what, size_t bytes);
#ifdef __clang_analyzer__ /* as for diag: it is never OK */
#define rt_oom(...) (rt_oom(__VA_ARGS__), ERR_MEMORY)
#endif

/* ---- plainmem.c: ordinary memory as device memory ---- */
Err plain_get(Cx *cx, Device *d, size_t bytes, Mem **out);
void plain_put(Mem *m);
Err plain_write(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes);
Err plain_read(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes);

/* ---- cache.c: built kernels on disk, for every runtime ---- */
typedef struct Cache Cache;
Cache *cache_new(Rt *rt); /* NULL: out of memory. Switched off where there is no folder, with a note. */
void cache_free(Cache *c);
Hash cache_key(const void *const *parts, const size_t *bytes, int n); /* of all parts and rowfold's version */
/* *file is to be freed with rt_put; the payload lies in it. Whatever is wrong with an entry makes it a miss. */
bool cache_find(Cache *c, Hash key, char **file, const char **payload, size_t *bytes);
void cache_store(Cache *c, Hash key, const void *payload, size_t bytes);

/* ---- packs.c: for GPUs ---- */
typedef struct PackCheck { /* bits of slots that must be 0, so that packs are one access */
    int n;
    struct {
        int slot, extent; /* slot of the extent that the stride is of, -1: it counts whatever it is */
        uint64_t mask;
    } at[MAX_PARAMS * (MAX_RANK + 1) + 1];
} PackCheck;
void packs_check(const Unit *u, PackCheck *out);
bool packs_fit(const PackCheck *c, const Slot *slots);
bool unit_keep(const Rt *rt, const Unit *u, Unit *out); /* with text and entry of its own; false: out of memory */
void unit_drop(const Rt *rt, const Unit *u);

/* ---- cpu.c: this machine's processor ---- */
bool cpu_has(Isa isa);
Isa cpu_best(void);
void cpu_model(char *out, size_t cap);
DevState cpu_state(void);
void cpu_caches(Caps *c); /* cache_line and l1 to l3, where the machine tells */

/* ---- hostcc.c: C text -> shared object -> function ---- */
typedef enum CcFamily { CC_NONE, CC_GCC, CC_CLANG } CcFamily;
typedef struct Compiler {
    CcFamily family;
    char path[1024], version[200]; /* version: first line of --version */
    int64_t bytes, mtime_ns;       /* of the program's file: a distribution's patch may keep the version */
    char why[400];                 /* why there is none */
    int err;                       /* errno value: there is one, and the machine had not what it takes to ask it */
} Compiler;
typedef void HostFn(const Slot *slots, int64_t row_begin, int64_t row_end);
typedef struct Fail { /* told to a diagnostic only when everything is released: a diagnostic may jump */
    Slug slug;
    char text[1600];
} Fail;
void cc_probe(const Alloc *al, const char *asked, Compiler *out);
void cc_flags(const Compiler *cc, Isa isa, bool plain, char *out, size_t cap); /* as one line; plain: as in Unit */
/* Compiles the unit to the file `so`, both in the private folder `dir`. */
bool cc_compile(Cx *cx, const Rt *rt, const Compiler *cc, const Unit *u, const char *dir, const char *so, Fail *fail);
/* The path may be removed afterwards; it must never have been used for another kernel, dlopen goes by name. */
bool so_load(const char *so, const char *entry, void **handle, HostFn **fn, Fail *fail);
void so_unload(void *handle);
int so_code_bytes(const char *file, size_t n); /* of an ELF file; -1: not one */

/* ---- copy.c ---- */
struct Pool;
Err host_ceiling(Cx *cx, Device *d, struct Pool *pool, const Ceiling *c, double *ns, const char **how);
#endif
