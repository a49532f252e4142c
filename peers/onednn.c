/* Peer: oneDNN through its C API (2.x), one thread unless OMP_NUM_THREADS says more. Reads cases as "op rows n" lines
 * from stdin, writes one JSON line for each: median, least and greatest time of a call in ns over samples of at least
 * 10 ms, and the implementation it chose. Inputs are seeded, outputs are allocated and touched beforehand, huge pages
 * are asked for, as for rowfold's own buffers. Build: cc -O2 onednn.c -ldnnl -lm */
#define _DEFAULT_SOURCE
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { SAMPLES = 15 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static float *floats(size_t n, int seed) {
    size_t bytes = (n * 4 + (1 << 21) - 1) & ~((size_t)(1 << 21) - 1);
    float *p = aligned_alloc(1 << 21, bytes);
    if (!p) exit(1);
    madvise(p, bytes, MADV_HUGEPAGE);
    uint32_t h = (uint32_t)seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        h = h * 1664525u + 1013904223u;
        p[i] = (float)(int32_t)h / 1e9f;
    }
    return p;
}

static void check(dnnl_status_t s, const char *what) {
    if (s == dnnl_success) return;
    fprintf(stderr, "onednn: %s failed with status %d\n", what, (int)s);
    exit(1);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
    char op[32];
    long rows, n;
    while (scanf("%31s %ld %ld", op, &rows, &n) == 3) {
        dnnl_dims_t dims = {rows, n}, wdims = {2, n};
        dnnl_memory_desc_t md, wd;
        check(dnnl_memory_desc_init_by_tag(&md, 2, dims, dnnl_f32, dnnl_ab), "layout");
        check(dnnl_memory_desc_init_by_tag(&wd, 2, wdims, dnnl_f32, dnnl_ab), "layout");
        float *x = floats((size_t)(rows * n), 1), *y = floats((size_t)(rows * n), 2), *w = floats((size_t)(2 * n), 3);
        dnnl_primitive_desc_t pd;
        dnnl_softmax_v2_desc_t sd;
        dnnl_layer_normalization_desc_t ld;
        bool soft = strcmp(op, "softmax") == 0;
        if (soft) {
            check(dnnl_softmax_v2_forward_desc_init(&sd, dnnl_forward_inference, dnnl_softmax_accurate, &md, &md, 1),
                  "softmax");
            check(dnnl_primitive_desc_create(&pd, &sd, NULL, engine, NULL), "primitive");
        } else if (strcmp(op, "layernorm") == 0) {
            check(dnnl_layer_normalization_forward_desc_init(&ld, dnnl_forward_inference, &md, NULL, 1e-5f,
                                                             dnnl_use_scaleshift),
                  "layernorm");
            check(dnnl_primitive_desc_create(&pd, &ld, NULL, engine, NULL), "primitive");
        } else {
            printf("{\"peer\":\"onednn\",\"op\":\"%s\",\"missing\":\"oneDNN has no such primitive\"}\n", op);
            continue;
        }
        dnnl_primitive_t prim;
        check(dnnl_primitive_create(&prim, pd), "primitive");
        const char *how = "";
        dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &how);
        dnnl_memory_t mx, my, mw;
        check(dnnl_memory_create(&mx, &md, engine, x), "memory");
        check(dnnl_memory_create(&my, &md, engine, y), "memory");
        check(dnnl_memory_create(&mw, &wd, engine, w), "memory");
        dnnl_exec_arg_t args[3] = {{DNNL_ARG_SRC, mx}, {DNNL_ARG_DST, my}, {DNNL_ARG_SCALE_SHIFT, mw}};
        int nargs = soft ? 2 : 3, calls = 1;
        double ns[SAMPLES];
        for (int s = -3; s < SAMPLES;) {
            int64_t t = now_ns();
            for (int i = 0; i < calls; i++) {
                check(dnnl_primitive_execute(prim, stream, nargs, args), "execute");
                check(dnnl_stream_wait(stream), "wait");
            }
            t = now_ns() - t;
            if (t < 10000000 && s < 0) {
                calls *= 2;
                continue;
            }
            if (s >= 0) ns[s] = (double)t / calls;
            s++;
        }
        qsort(ns, SAMPLES, sizeof *ns, by_value);
        const dnnl_version_t *v = dnnl_version();
        printf("{\"peer\":\"onednn\",\"version\":\"%d.%d.%d\",\"op\":\"%s\",\"rows\":%ld,\"n\":%ld,\"implementation\":"
               "\"%s\",\"median_ns\":%.0f,\"min_ns\":%.0f,\"max_ns\":%.0f}\n",
               v->major, v->minor, v->patch, op, rows, n, how, ns[SAMPLES / 2], ns[0], ns[SAMPLES - 1]);
        fflush(stdout);
        dnnl_memory_destroy(mx), dnnl_memory_destroy(my), dnnl_memory_destroy(mw);
        dnnl_primitive_destroy(prim), dnnl_primitive_desc_destroy(pd);
        free(x), free(y), free(w);
    }
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    return 0;
}
