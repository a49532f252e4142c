/* Device memory in which groups that share a row meet: zero when it is made, and zero again when a launch has ended, so
 * that the next one in its stream, or a graph again, finds it as it must be. Launches that may run at the same time
 * never share one: a stream has its own, a capture has its own for each stream (a graph may be launched beside the
 * stream it was captured in), and so has each thread's default stream. What was made stays until the module goes: work
 * in flight may use it. */
#include "cudadrv.h"

struct CudaWork {
    CudaWork *next;
    CuStream stream;
    uint64_t capture;
    pthread_t thread;
    CuPtr at;
    size_t bytes;
};

enum { CAPTURING = 1, CAPTURE_RELAXED = 2, NON_BLOCKING = 1, LEAST = 4096 };

/* Handle of the default stream of the calling thread, one for all threads (CU_STREAM_PER_THREAD). */
static const uintptr_t per_thread = 2;

static int is_for(const CudaWork *w, CuStream s, uint64_t capture) {
    return w->stream == s && w->capture == capture &&
           ((uintptr_t)s != per_thread || pthread_equal(w->thread, pthread_self()));
}

/* Zeroed in a stream of its own: in the default one it would wait for others, or spoil a capture. */
static int make(const CudaDevice *c, size_t bytes, CuPtr *at) {
    CuStream s = NULL;
    int relaxed = CAPTURE_RELAXED; /* a capture that goes on in this thread is not disturbed */
    c->cu.capture_mode(&relaxed);
    int err = c->cu.mem_alloc(at, bytes);
    if (!err) {
        err = c->cu.stream_new(&s, NON_BLOCKING);
        if (!err) err = c->cu.set_bytes_in(*at, 0, bytes, s);
        if (!err) err = c->cu.stream_sync(s);
        if (s) c->cu.stream_free(s);
        if (err) c->cu.mem_free(*at);
    }
    c->cu.capture_mode(&relaxed);
    return err;
}

int cuda_work(const CudaDevice *c, CudaWorks *all, CuStream s, size_t bytes, CuPtr *at) {
    int status = 0;
    uint64_t capture = 0;
    int err = c->cu.capture_info(s, &status, &capture, NULL, NULL, NULL);
    if (err) return err;
    if (status != CAPTURING) capture = 0;
    pthread_mutex_lock(&all->lock);
    CudaWork *w = all->first;
    while (w && !(is_for(w, s, capture) && w->bytes >= bytes)) w = w->next;
    if (!w) {
        w = rt_get(c->d.rt, sizeof *w);
        if (w) {
            size_t room = LEAST;
            while (room < bytes) room *= 2;
            *w = (CudaWork){
                .next = all->first, .stream = s, .capture = capture, .thread = pthread_self(), .bytes = room};
            err = make(c, room, &w->at);
            if (err) {
                rt_put(c->d.rt, w);
                w = NULL;
            } else {
                all->first = w;
            }
        } else {
            err = 2; /* CUDA_ERROR_OUT_OF_MEMORY */
        }
    }
    if (w) *at = w->at;
    pthread_mutex_unlock(&all->lock);
    return err;
}

void cuda_work_free(const CudaDevice *c, CudaWorks *all) {
    for (CudaWork *w = all->first, *next; w; w = next) {
        next = w->next;
        c->cu.mem_free(w->at);
        rt_put(c->d.rt, w);
    }
    all->first = NULL;
}
