/* oneDNN 2.x as a library of calls for its adapter, onednn_peer.py: a primitive for a problem, made once, then run over
 * sets of buffers in turn. Weights are one tensor of two rows, as oneDNN wants them. Build: cc -O2 -shared -fPIC
 * onednn_rows.c -ldnnl */
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <string.h>

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_primitive_t primitive;
static dnnl_memory_t x, y, w;
static int nargs;

static int make(const char *op, long rows, long n, float eps, const char **how) {
    dnnl_dims_t dims = {rows, n}, wdims = {2, n};
    dnnl_memory_desc_t md, wd;
    dnnl_primitive_desc_t pd;
    dnnl_softmax_v2_desc_t sd;
    dnnl_layer_normalization_desc_t ld;
    int bad = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (!bad) bad = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (!bad) bad = dnnl_memory_desc_init_by_tag(&md, 2, dims, dnnl_f32, dnnl_ab);
    if (!bad) bad = dnnl_memory_desc_init_by_tag(&wd, 2, wdims, dnnl_f32, dnnl_ab);
    if (bad) return bad;
    if (strcmp(op, "layernorm") == 0) {
        nargs = 3;
        bad = dnnl_layer_normalization_forward_desc_init(&ld, dnnl_forward_inference, &md, NULL, eps, dnnl_use_scaleshift);
        if (!bad) bad = dnnl_primitive_desc_create(&pd, &ld, NULL, engine, NULL);
    } else {
        nargs = 2;
        dnnl_alg_kind_t kind = strcmp(op, "softmax") == 0 ? dnnl_softmax_accurate : dnnl_softmax_log;
        bad = dnnl_softmax_v2_forward_desc_init(&sd, dnnl_forward_inference, kind, &md, &md, 1);
        if (!bad) bad = dnnl_primitive_desc_create(&pd, &sd, NULL, engine, NULL);
    }
    if (!bad) bad = dnnl_primitive_create(&primitive, pd);
    if (!bad) bad = dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, how);
    if (!bad) bad = dnnl_memory_create(&x, &md, engine, DNNL_MEMORY_NONE);
    if (!bad) bad = dnnl_memory_create(&y, &md, engine, DNNL_MEMORY_NONE);
    if (!bad) bad = dnnl_memory_create(&w, &wd, engine, DNNL_MEMORY_NONE);
    return bad;
}

/* 0, or oneDNN's status; how: what it chose. */
int onednn_open(const char *op, long rows, long n, float eps, const char **how) {
    return make(op, rows, n, eps, how);
}

/* Calls on buffers first, first + 1, ... of `sets`, which lie `step` bytes apart. */
int onednn_calls(char *from, char *to, char *weights, long step, long wstep, long first, long calls, long sets) {
    dnnl_exec_arg_t args[3] = {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_SCALE_SHIFT, w}};
    int bad = 0;
    for (long i = 0; i < calls && !bad; i++) {
        const long k = (first + i) % sets;
        bad = dnnl_memory_set_data_handle(x, from + k * step);
        if (!bad) bad = dnnl_memory_set_data_handle(y, to + k * step);
        if (!bad && nargs == 3) bad = dnnl_memory_set_data_handle(w, weights + k * wstep);
        if (!bad) bad = dnnl_primitive_execute(primitive, stream, nargs, args);
    }
    return bad ? bad : (int)dnnl_stream_wait(stream);
}

void onednn_version(int out[3]) {
    const dnnl_version_t *v = dnnl_version();
    out[0] = v->major, out[1] = v->minor, out[2] = v->patch;
}
