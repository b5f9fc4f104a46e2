/* Owns the streams beside the context's own, events, and the order in which memory is freed: a block of the pool may be
 * in use by work of any stream, so while there are several, frees go to a stream of their own that first waits for what
 * was given to each of the others. That costs a record and a wait a stream, and holds up nobody's work. */
#include "base/mem.h"
#include "cuda/context.h"

static CUstream stream_of(const wr_cuda_context *c, void *stream) {
    return stream ? ((wr_cuda_stream *)stream)->stream : c->stream;
}

static weir_status checked(const wr_cuda_context *c, CUresult result, const char *doing, int line, weir_error *err) {
    return result == CUDA_SUCCESS ? WEIR_OK : wr_driver_fail(c->driver, result, doing, __FILE__, line, err);
}

/* ---- streams ---- */

/* With the lock held; once a device. */
static weir_status prepare_freeing(wr_cuda_context *c, weir_error *err) {
    if (!c->fence)
        WR_CU(c->driver, cuEventCreate(&c->fence, CU_EVENT_DISABLE_TIMING), "making an event for freeing memory");
    if (!c->freeing)
        WR_CU(c->driver, cuStreamCreate(&c->freeing, CU_STREAM_NON_BLOCKING), "making a stream for freeing memory");
    return WEIR_OK;
}

static weir_status open_stream(wr_cuda_context *c, wr_cuda_stream *s, weir_error *err) {
    WR_CU(c->driver, cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING), "making a stream");
    pthread_mutex_lock(&c->streams_lock);
    weir_status status = prepare_freeing(c, err);
    if (status == WEIR_OK) {
        s->next = c->streams;
        c->streams = s;
    }
    pthread_mutex_unlock(&c->streams_lock);
    if (status != WEIR_OK) c->driver->cuStreamDestroy(s->stream);
    return status;
}

weir_status wr_cuda_stream_open(void *context, void **out, weir_error *err) {
    wr_cuda_context *c = context;
    *out = NULL;
    wr_cuda_stream *s = wr_calloc(1, sizeof *s);
    if (!s) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a stream");
    weir_status status = wr_cuda_enter(c, err);
    if (status == WEIR_OK) {
        status = open_stream(c, s, err);
        wr_cuda_leave(c);
    }
    if (status == WEIR_OK)
        *out = s;
    else
        wr_free(s);
    return status;
}

void wr_cuda_stream_close(void *context, void *stream) {
    wr_cuda_context *c = context;
    wr_cuda_stream *s = stream;
    if (!s) return;
    bool entered = wr_cuda_enter(c, NULL) == WEIR_OK;
    if (entered) c->driver->cuStreamSynchronize(s->stream);
    pthread_mutex_lock(&c->streams_lock);
    for (wr_cuda_stream **at = &c->streams; *at; at = &(*at)->next) {
        if (*at != s) continue;
        *at = s->next;
        break;
    }
    pthread_mutex_unlock(&c->streams_lock);
    if (entered) {
        c->driver->cuStreamDestroy(s->stream);
        wr_cuda_leave(c);
    }
    wr_free(s);
}

weir_status wr_cuda_stream_alloc(void *context, void *stream, size_t bytes, void **out, weir_error *err) {
    return wr_cuda_alloc_on(context, stream_of(context, stream), bytes, out, err);
}

weir_status wr_cuda_stream_run(void *context, void *stream, const wr_step *steps, int n, weir_error *err) {
    return wr_cuda_run_on(context, stream_of(context, stream), steps, n, err);
}

/* ---- freeing ---- */

/* When an order cannot be had (the device is lost), the memory goes with the context. */
static CUresult wait_for_all(wr_cuda_context *c) {
    CUresult result = c->driver->cuEventRecord(c->fence, c->stream);
    if (result == CUDA_SUCCESS) result = c->driver->cuStreamWaitEvent(c->freeing, c->fence, 0);
    for (wr_cuda_stream *s = c->streams; s && result == CUDA_SUCCESS; s = s->next) {
        result = c->driver->cuEventRecord(c->fence, s->stream);
        if (result == CUDA_SUCCESS) result = c->driver->cuStreamWaitEvent(c->freeing, c->fence, 0);
    }
    return result;
}

static CUresult settle(wr_cuda_context *c) {
    CUresult result = c->driver->cuStreamSynchronize(c->stream);
    for (wr_cuda_stream *s = c->streams; s && result == CUDA_SUCCESS; s = s->next)
        result = c->driver->cuStreamSynchronize(s->stream);
    if (c->freeing && result == CUDA_SUCCESS) result = c->driver->cuStreamSynchronize(c->freeing);
    return result;
}

void wr_cuda_free_ordered(wr_cuda_context *c, CUdeviceptr p) {
    pthread_mutex_lock(&c->streams_lock);
    if (!c->streams)
        c->driver->cuMemFreeAsync(p, c->stream);
    else if (wait_for_all(c) == CUDA_SUCCESS || settle(c) == CUDA_SUCCESS)
        c->driver->cuMemFreeAsync(p, c->freeing);
    else
        c->driver->cuMemFreeAsync(p, c->stream);
    pthread_mutex_unlock(&c->streams_lock);
}

CUresult wr_cuda_settle(wr_cuda_context *c) {
    pthread_mutex_lock(&c->streams_lock);
    CUresult result = settle(c);
    pthread_mutex_unlock(&c->streams_lock);
    return result;
}

/* ---- events ---- */

weir_status wr_cuda_event_open(void *context, void **out, weir_error *err) {
    wr_cuda_context *c = context;
    CUevent event = NULL;
    *out = NULL;
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = c->driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    wr_cuda_leave(c);
    if (result == CUDA_SUCCESS) *out = event;
    return checked(c, result, "making an event", __LINE__, err);
}

void wr_cuda_event_close(void *context, void *event) {
    wr_cuda_context *c = context;
    if (!event || wr_cuda_enter(c, NULL) != WEIR_OK) return;
    c->driver->cuEventDestroy(event);
    wr_cuda_leave(c);
}

weir_status wr_cuda_event_record(void *context, void *event, void *stream, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = c->driver->cuEventRecord(event, stream_of(c, stream));
    wr_cuda_leave(c);
    return checked(c, result, "recording an event", __LINE__, err);
}

weir_status wr_cuda_event_join(void *context, void *event, void *stream, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = c->driver->cuStreamWaitEvent(stream_of(c, stream), event, 0);
    wr_cuda_leave(c);
    return checked(c, result, "waiting for another stream", __LINE__, err);
}

weir_status wr_cuda_event_wait(void *context, void *event, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = wr_cuda_poll_event(c, event);
    wr_cuda_leave(c);
    return checked(c, result, "waiting for an event", __LINE__, err);
}
