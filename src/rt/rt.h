/* Floor 2: devices, modules, memory, launch, time. One row of runtimes.def per runtime; nothing above knows which. */
#ifndef ROWFOLD_RT_H
#define ROWFOLD_RT_H

#include "../target/target.h"

typedef struct Rt Rt; /* opened runtimes of one context: owns devices, pools, caches. Not shared between contexts. */
typedef struct Device Device; /* one device; owned by its Rt */
typedef struct Module Module; /* one built kernel; free with mod_free before its Rt */
typedef struct Mem Mem;       /* memory on a device */

typedef struct RtOptions {
    const Alloc *al;
    /* compiled kernels; NULL: $ROWFOLD_CACHE, else $XDG_CACHE_HOME/rowfold, else $HOME/.cache/rowfold; "": no cache */
    const char *cache_dir;
    const char *cc; /* C compiler; NULL: $ROWFOLD_CC, else cc, gcc, clang in that order */
    int threads;    /* of hosts; 0: the cores this process may use */
    Isa isa;        /* hosts: use this one; ISA_COUNT: best by CPUID */
    /* the host program's threads: calls task(arg, i) for i in 0 .. n-1, returns when all are done; NULL: own pool */
    void (*parallel_for)(void *user, int n, void (*task)(void *arg, int i), void *arg);
    void *parallel_user;
    int64_t cache_bytes;  /* size of the cache at which the oldest kernels go; 0: 512 MiB */
    int build_timeout_ms; /* of one compilation; 0: 60 s */
} RtOptions;

Err rt_open(Cx *cx, const RtOptions *o, Rt **out);
void rt_close(Rt *rt);
int rt_devices(Rt *rt); /* how many are present; the host is always device 0 */
Device *rt_device(Rt *rt, int i);
/* "host", "cuda:0", "best", "null", "fault:K"; slug rt.no_device */
Err rt_find(Cx *cx, Rt *rt, const char *name, Device **out);
/* What went less well than it might, short of an error, each kind said once ("cache off: ..."): the i-th, or NULL. */
const char *rt_note(Rt *rt, int i);

const Caps *dev_caps(const Device *d);
const char *dev_name(const Device *d); /* "host", "cuda:0" */
/* One line: model, driver, compiler with its version, features: what a result is valid for. */
const char *dev_identity(const Device *d);
const char *dev_compiler(const Device *d);     /* path of its program or library, or "" */
const RtOptions *dev_options(const Device *d); /* that its Rt was opened with, defaults filled in */

/* What the compiler made of a unit; -1 where the device does not tell. */
typedef struct Facts {
    int registers, local_bytes, shared_bytes, groups_per_unit, code_bytes;
    int global_loads; /* instructions that load from global memory; -1: not known */
    bool from_cache;
    int64_t compile_ns, load_ns;
} Facts;
/* Any thread, several at once when each has a Cx of its own (and RtOptions.al allows it). */
Err mod_build(Cx *cx, Device *d, const Unit *u, Module **out);
void mod_free(Module *m);
const Facts *mod_facts(const Module *m);
double *mod_pace(Module *m); /* ns of a call, as whoever times it found out and wrote down here; 0: nobody yet */

Err mem_new(Cx *cx, Device *d, size_t bytes, Mem **out); /* touched; 256-byte aligned; on hosts ordinary memory */
void mem_free(Mem *m);
void *mem_at(Mem *m); /* the device's address */
Err mem_write(Cx *cx, Mem *m, size_t at, const void *src, size_t bytes);
Err mem_read(Cx *cx, Mem *m, size_t at, void *dst, size_t bytes);

/* Starts one call; slots as the unit's Abi says. threads: hosts only, at most RtOptions.threads; 0 lets the device
 * choose; below about 16,000 elements it is always one. Any thread; not concurrently on one Module's Device with itself
 * unless stated. (On hosts it may be: while another thread uses the pool, a call runs on its own thread alone.) cx may
 * be NULL on the hot path. */
Err mod_launch(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads);
/* The same into a queue of the caller's, where the device has such; NULL: as mod_launch. */
Err mod_launch_in(Cx *cx, Module *m, void *queue, const Slot *slots, int64_t rows, int threads);
Err dev_sync(Cx *cx, Device *d);

int64_t t_now_ns(void); /* monotonic */
typedef struct DevState {
    double mhz;        /* clock now, mean over the cores; 0: the device does not tell */
    int64_t throttles; /* how often heat or power made it slower, since it was started; -1: it does not tell */
} DevState;
DevState dev_state(Device *d);
/* Time of `calls` launches, which take the nsets slots sets in turn (so that "cold" can rotate), in ns for all calls
 * together. */
Err mod_time(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls, int64_t *ns);
/* The device's span of one call that nothing else runs beside, in ns: on hosts that of the kernel's function on its
 * threads, on GPUs between two events. */
Err mod_span(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads, int64_t *ns);
const char *dev_clock(const Device *d, bool single); /* how mod_time or mod_span took their time, in words */

/* The speed of light of moving bytes: the fastest of several ways, median ns of `reps`. A copy reads half of the bytes
 * and writes the other half. sets: buffers that are taken in turn, so that the caches hold none of them. */
typedef enum CeilingKind { CEILING_COPY, CEILING_READ, CEILING_WRITE, CEILING_KINDS } CeilingKind;
const char *ceiling_text(CeilingKind k);
typedef struct Ceiling {
    CeilingKind kind;
    size_t bytes;
    int sets, threads, reps;
} Ceiling;
Err dev_ceiling(Cx *cx, Device *d, const Ceiling *c, double *ns, const char **how);
/* A copy of `bytes` read and as many written, in one place. */
Err dev_copy_ns(Cx *cx, Device *d, size_t bytes, int threads, int reps, double *ns, const char **how);
#endif
