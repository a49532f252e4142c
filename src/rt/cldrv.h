/* What the OpenCL files of rt/ share: the loader's functions, found at run time. Only what is used is declared, after
 * the OpenCL 3.0 specification (API part; all of it is in 1.2); no SDK is needed to build. */
#ifndef ROWFOLD_RT_CLDRV_H
#define ROWFOLD_RT_CLDRV_H

#include "local.h"

#include <pthread.h>

typedef struct ClPlatformId *ClPlatform;
typedef struct ClDeviceId *ClDeviceId;
typedef struct ClContextId *ClContext;
typedef struct ClQueueId *ClQueue;
typedef struct ClMemId *ClMem;
typedef struct ClProgramId *ClProgram;
typedef struct ClKernelId *ClKernel;
typedef struct ClEventId *ClEvent;
typedef uint64_t ClBits;

/* name in the loader, field, result, parameters */
#define OPENCL_FUNCTIONS(F)                                                                                          \
    F(clGetPlatformIDs, platforms, int, (unsigned, ClPlatform *, unsigned *))                                        \
    F(clGetPlatformInfo, platform_info, int, (ClPlatform, unsigned, size_t, void *, size_t *))                       \
    F(clGetDeviceIDs, devices, int, (ClPlatform, ClBits, unsigned, ClDeviceId *, unsigned *))                        \
    F(clGetDeviceInfo, device_info, int, (ClDeviceId, unsigned, size_t, void *, size_t *))                           \
    F(clCreateContext, context_new, ClContext,                                                                       \
      (const intptr_t *, unsigned, const ClDeviceId *, void (*)(const char *, const void *, size_t, void *), void *, \
       int *))                                                                                                       \
    F(clReleaseContext, context_free, int, (ClContext))                                                              \
    F(clCreateCommandQueue, queue_new, ClQueue, (ClContext, ClDeviceId, ClBits, int *))                              \
    F(clReleaseCommandQueue, queue_free, int, (ClQueue))                                                             \
    F(clFlush, flush, int, (ClQueue))                                                                                \
    F(clFinish, finish, int, (ClQueue))                                                                              \
    F(clCreateBuffer, buffer_new, ClMem, (ClContext, ClBits, size_t, void *, int *))                                 \
    F(clReleaseMemObject, buffer_free, int, (ClMem))                                                                 \
    F(clEnqueueWriteBuffer, buffer_write, int,                                                                       \
      (ClQueue, ClMem, unsigned, size_t, size_t, const void *, unsigned, const ClEvent *, ClEvent *))                \
    F(clEnqueueReadBuffer, buffer_read, int,                                                                         \
      (ClQueue, ClMem, unsigned, size_t, size_t, void *, unsigned, const ClEvent *, ClEvent *))                      \
    F(clEnqueueCopyBuffer, buffer_copy, int,                                                                         \
      (ClQueue, ClMem, ClMem, size_t, size_t, size_t, unsigned, const ClEvent *, ClEvent *))                         \
    F(clEnqueueFillBuffer, buffer_fill, int,                                                                         \
      (ClQueue, ClMem, const void *, size_t, size_t, size_t, unsigned, const ClEvent *, ClEvent *))                  \
    F(clCreateProgramWithSource, program_source, ClProgram,                                                          \
      (ClContext, unsigned, const char **, const size_t *, int *))                                                   \
    F(clCreateProgramWithBinary, program_binary, ClProgram,                                                          \
      (ClContext, unsigned, const ClDeviceId *, const size_t *, const unsigned char **, int *, int *))               \
    F(clBuildProgram, program_build, int,                                                                            \
      (ClProgram, unsigned, const ClDeviceId *, const char *, void (*)(ClProgram, void *), void *))                  \
    F(clGetProgramInfo, program_info, int, (ClProgram, unsigned, size_t, void *, size_t *))                          \
    F(clGetProgramBuildInfo, build_info, int, (ClProgram, ClDeviceId, unsigned, size_t, void *, size_t *))           \
    F(clReleaseProgram, program_free, int, (ClProgram))                                                              \
    F(clCreateKernel, kernel_new, ClKernel, (ClProgram, const char *, int *))                                        \
    F(clReleaseKernel, kernel_free, int, (ClKernel))                                                                 \
    F(clSetKernelArg, kernel_arg, int, (ClKernel, unsigned, size_t, const void *))                                   \
    F(clGetKernelWorkGroupInfo, kernel_info, int, (ClKernel, ClDeviceId, unsigned, size_t, void *, size_t *))        \
    F(clEnqueueNDRangeKernel, launch, int,                                                                           \
      (ClQueue, ClKernel, unsigned, const size_t *, const size_t *, const size_t *, unsigned, const ClEvent *,       \
       ClEvent *))                                                                                                   \
    F(clGetEventProfilingInfo, event_time, int, (ClEvent, unsigned, size_t, void *, size_t *))                       \
    F(clReleaseEvent, event_free, int, (ClEvent))

typedef struct Loader {
    void *lib;
#define F(symbol, field, result, params) result(*field) params;
    OPENCL_FUNCTIONS(F)
#undef F
} Loader;

/* CL_... of the specification */
enum {
    CL_MEM_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_PLATFORM_NOT_FOUND = -1001
};

typedef struct Span { /* memory of the device at addresses that only rowfold knows */
    uintptr_t from, to;
    ClMem mem;
} Span;

typedef struct ClDevice {
    Device d;
    Loader cl;
    ClPlatform platform;
    ClDeviceId id;
    ClContext ctx; /* made at first use, as are the queues */
    ClQueue queue, timed;
    bool is_cpu, untold;    /* untold: the driver does not say what it is */
    int64_t argument_bytes; /* most that a kernel takes; 0: not known */
    char lacks[160];        /* why its results could differ from those of other devices; "": nothing */
    char options[128];      /* of the compiler */
    pthread_mutex_t lock;   /* of what follows, and of making the context */
    Span *span;             /* by address */
    int nspans, cap;
    uintptr_t next; /* address of the next memory; none is given twice */
} ClDevice;

Err cl_enter(Cx *cx, ClDevice *c); /* before anything that needs the context */
Err cl_said(Cx *cx, const ClDevice *c, int code, Slug slug, const char *what); /* OK for code 0; cx may be NULL */
/* The memory that holds the address; NULL: none of ours. */
ClMem cl_find(ClDevice *c, const void *at, size_t *offset);

/* ---- clmod.c ---- */
/* Source -> program, from the cache where `cached`; NULL with the reason. */
ClProgram cl_program(ClDevice *c, const char *text, size_t bytes, const char *extra, bool cached, Facts *f, Fail *fail);
Err cl_build(Cx *cx, Device *d, const Unit *u, Module **out);
void cl_unload(Module *m);
Err cl_launch(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads);
Err cl_time_module(Cx *cx, Module *m, const Slot *const *sets, int nsets, int64_t rows, int threads, int calls,
                   int64_t *ns);
Err cl_span_module(Cx *cx, Module *m, const Slot *slots, int64_t rows, int threads, int64_t *ns);

/* ---- cltime.c ---- */
typedef int ClStart(void *user, int i, ClEvent *event);
/* Time of `calls` starts by `start(user, i, event)` into the device's timing queue, in ns: from the begin of the first
 * to the end of the last by the device's own clock. */
Err cl_time(Cx *cx, ClDevice *c, ClStart *start, void *user, int calls, bool warm_up, int64_t *ns);
Err cl_ceiling(Cx *cx, Device *d, const Ceiling *c, double *ns, const char **how);
#endif
