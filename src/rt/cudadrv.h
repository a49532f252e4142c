/* What the CUDA files of rt/ share: the driver's and the compiler's functions, found at run time. Only what is used is
 * declared, after the CUDA driver API reference; no toolkit is needed to build. */
#ifndef ROWFOLD_RT_CUDADRV_H
#define ROWFOLD_RT_CUDADRV_H

#include "local.h"

#include <pthread.h>

/* ---- libnvrtc: text -> cubin ---- */
typedef struct NvrtcProgram NvrtcProgram;
typedef struct Nvrtc {
    void *lib;
    int major, minor;
    char why[200]; /* it is not there */
    int (*version)(int *major, int *minor);
    int (*create)(NvrtcProgram **out, const char *text, const char *name, int nheaders, const char *const *headers,
                  const char *const *names);
    int (*compile)(NvrtcProgram *p, int n, const char *const *options);
    int (*destroy)(NvrtcProgram **p);
    int (*cubin_size)(NvrtcProgram *p, size_t *n);
    int (*cubin)(NvrtcProgram *p, char *out);
    int (*log_size)(NvrtcProgram *p, size_t *n);
    int (*log)(NvrtcProgram *p, char *out);
    const char *(*error)(int code);
} Nvrtc;
bool nvrtc_open(Nvrtc *n); /* false: see why */
void nvrtc_close(Nvrtc *n);
/* For architecture `arch` (sm_90a). loose: memory need not be aligned to packs. *cubin is to be freed with al->put. */
bool nvrtc_build(const Nvrtc *n, const Alloc *al, const Unit *u, const char *arch, bool loose, char **cubin,
                 size_t *bytes, Fail *fail);
void nvrtc_options(const char *arch, bool loose, char *out, size_t cap); /* as one line */
/* What a cubin says of its kernels, the largest of each: registers and bytes of a lane's stack; and how many of its
 * instructions load from global memory. false: not one. */
bool cubin_facts(const char *cubin, size_t bytes, int *registers, int *local_bytes, int *loads);

/* ---- libcuda ---- */
typedef int CuDevice;
typedef struct CuCtx *CuContext;
typedef struct CuMod *CuModule;
typedef struct CuFn *CuFunction;
typedef struct CuStr *CuStream;
typedef struct CuEv *CuEvent;
typedef struct CuGr *CuGraph;
typedef struct CuGx *CuGraphExec;
typedef uint64_t CuPtr;

/* CUlaunchConfig and CUlaunchAttribute. */
typedef struct CuLaunchAttr {
    int id;
    char pad[4];
    union {
        char all[64];
        int flag;
        unsigned dim[3];
    } value;
} CuLaunchAttr;
typedef struct CuLaunch {
    unsigned grid[3], block[3], shared_bytes;
    CuStream stream;
    CuLaunchAttr *attr;
    unsigned nattrs;
} CuLaunch;

/* name in the driver, field, parameters, the CUDA version whose form is meant */
#define CUDA_FUNCTIONS(F)                                                                                             \
    F(cuInit, init, (unsigned), 2000)                                                                                 \
    F(cuDriverGetVersion, driver_version, (int *), 2020)                                                              \
    F(cuDeviceGetCount, device_count, (int *), 2000)                                                                  \
    F(cuDeviceGet, device_get, (CuDevice *, int), 2000)                                                               \
    F(cuDeviceGetName, device_name, (char *, int, CuDevice), 2000)                                                    \
    F(cuDeviceGetAttribute, device_attribute, (int *, int, CuDevice), 2000)                                           \
    F(cuDevicePrimaryCtxRetain, primary_retain, (CuContext *, CuDevice), 7000)                                        \
    F(cuDevicePrimaryCtxRelease, primary_release, (CuDevice), 11000)                                                  \
    F(cuCtxGetCurrent, ctx_current, (CuContext *), 4000)                                                              \
    F(cuCtxGetDevice, ctx_device, (CuDevice *), 2000)                                                                 \
    F(cuCtxPushCurrent, ctx_push, (CuContext), 4000)                                                                  \
    F(cuCtxPopCurrent, ctx_pop, (CuContext *), 4000)                                                                  \
    F(cuCtxSynchronize, ctx_sync, (void), 2000)                                                                       \
    F(cuThreadExchangeStreamCaptureMode, capture_mode, (int *), 10010)                                                \
    F(cuModuleLoadData, module_load, (CuModule *, const void *), 2000)                                                \
    F(cuModuleUnload, module_unload, (CuModule), 2000)                                                                \
    F(cuModuleGetFunction, module_function, (CuFunction *, CuModule, const char *), 2000)                             \
    F(cuFuncSetAttribute, function_set, (CuFunction, int, int), 9000)                                                 \
    F(cuFuncGetAttribute, function_attribute, (int *, int, CuFunction), 2020)                                         \
    F(cuOccupancyMaxActiveBlocksPerMultiprocessor, occupancy, (int *, CuFunction, int, size_t), 6050)                 \
    F(cuMemAlloc, mem_alloc, (CuPtr *, size_t), 3020)                                                                 \
    F(cuMemFree, mem_free, (CuPtr), 3020)                                                                             \
    F(cuMemcpyHtoD, copy_in, (CuPtr, const void *, size_t), 3020)                                                     \
    F(cuMemcpyDtoH, copy_out, (void *, CuPtr, size_t), 3020)                                                          \
    F(cuMemcpyDtoDAsync, copy_device, (CuPtr, CuPtr, size_t, CuStream), 3020)                                         \
    F(cuMemsetD8, set_bytes, (CuPtr, unsigned char, size_t), 3020)                                                    \
    F(cuMemsetD8Async, set_bytes_in, (CuPtr, unsigned char, size_t, CuStream), 3020)                                  \
    F(cuLaunchKernel, launch,                                                                                         \
      (CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CuStream, void **, void **), \
      4000)                                                                                                           \
    F(cuLaunchKernelEx, launch_with, (const CuLaunch *, CuFunction, void **, void **), 11060)                         \
    F(cuOccupancyMaxActiveClusters, clusters, (int *, CuFunction, const CuLaunch *), 11070)                           \
    F(cuStreamCreate, stream_new, (CuStream *, unsigned), 2000)                                                       \
    F(cuStreamDestroy, stream_free, (CuStream), 4000)                                                                 \
    F(cuStreamSynchronize, stream_sync, (CuStream), 2000)                                                             \
    F(cuStreamGetCaptureInfo, capture_info, (CuStream, int *, uint64_t *, CuGraph *, const void **, size_t *), 11030) \
    F(cuStreamBeginCapture, capture_begin, (CuStream, int), 10010)                                                    \
    F(cuStreamEndCapture, capture_end, (CuStream, CuGraph *), 10000)                                                  \
    F(cuGraphInstantiateWithFlags, graph_build, (CuGraphExec *, CuGraph, unsigned long long), 11040)                  \
    F(cuGraphLaunch, graph_launch, (CuGraphExec, CuStream), 10000)                                                    \
    F(cuGraphExecDestroy, graph_exec_free, (CuGraphExec), 10000)                                                      \
    F(cuGraphDestroy, graph_free, (CuGraph), 10000)                                                                   \
    F(cuEventCreate, event_new, (CuEvent *, unsigned), 2000)                                                          \
    F(cuEventDestroy, event_free, (CuEvent), 4000)                                                                    \
    F(cuEventRecord, event_record, (CuEvent, CuStream), 2000)                                                         \
    F(cuEventSynchronize, event_sync, (CuEvent), 2000)                                                                \
    F(cuEventElapsedTime, event_ms, (float *, CuEvent, CuEvent), 2000)                                                \
    F(cuGetErrorName, error_name, (int, const char **), 6000)

typedef struct Driver {
    void *lib;
#define F(symbol, field, params, version) int(*field) params;
    CUDA_FUNCTIONS(F)
#undef F
} Driver;

typedef struct CudaDevice {
    Device d;
    Driver cu;
    Nvrtc rtc;
    CuDevice ordinal;
    char arch[16];
    bool untold;           /* the driver does not say what it is */
    CuContext _Atomic ctx; /* the caller's at first use, else the primary one */
    bool primary;          /* which we hold */
    CuStream stream;       /* for timing */
    pthread_mutex_t lock;  /* for settling on a context */
} CudaDevice;

/* Zeroed memory of at least so many bytes for a launch in the stream; the driver's code of what goes wrong. */
typedef struct CudaWork CudaWork;
typedef struct CudaWorks {
    pthread_mutex_t lock;
    CudaWork *first;
} CudaWorks;
int cuda_work(const CudaDevice *c, CudaWorks *all, CuStream s, size_t bytes, CuPtr *at);
void cuda_work_free(const CudaDevice *c, CudaWorks *all); /* but for the lock */

/* Every use of the driver lies between these: our context is the thread's current one. */
Err cuda_enter(Cx *cx, CudaDevice *c, bool *pushed);
void cuda_leave(CudaDevice *c, bool pushed);
Err cuda_said(Cx *cx, const CudaDevice *c, int code, Slug slug, const char *what); /* OK for code 0; cx may be NULL */
/* A graph of n starts, kept from one timing to the next: `of` names all that the starts are told. Zero it first. */
typedef struct CudaChain {
    CuGraph graph;
    CuGraphExec exec; /* NULL: there is none yet */
    int n;
    Hash of;
} CudaChain;
void cuda_chain_free(const CudaDevice *c, CudaChain *k); /* within cuda_enter */
/* Time of `calls` starts by `start(user, i)` into the device's stream, in ns: a graph of 200 of them (20 where one
 * takes long), launched often enough, after a warm-up, between two events. */
/* sets: a graph of whole turns over so many. k: the graph of the last timing, made anew where it was of something
 * else. */
typedef int CudaStart(void *user, int i, CuStream s);
Err cuda_time(Cx *cx, CudaDevice *c, CudaStart *start, void *user, int sets, int calls, Hash of, CudaChain *k,
              int64_t *ns);
Err cuda_span(Cx *cx, CudaDevice *c, CudaStart *start, void *user, int64_t *ns); /* of one, between two events */
Err cuda_ceiling(Cx *cx, Device *d, const Ceiling *c, double *ns, const char **how);
#endif
