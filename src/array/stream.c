/* Streams and events of the array runtime. Where a device has no streams of its own (the CPU), everything given to one
 * is done when the call returns. */
#include "array/stream.h"

#include <string.h>

static const wr_runtime *runtime_of(const weir_device *device) { return device->backend->runtime; }

/* ---- holding ---- */

weir_stream *wr_stream_retain(weir_stream *stream) {
    if (stream) atomic_fetch_add_explicit(&stream->count, 1, memory_order_relaxed);
    return stream;
}

void wr_stream_release(weir_stream *stream) {
    if (!stream || atomic_fetch_sub_explicit(&stream->count, 1, memory_order_acq_rel) != 1) return;
    if (stream->done) runtime_of(stream->device)->event_close(stream->device->context, stream->done);
    pthread_mutex_destroy(&stream->arena.lock);
    wr_free(stream);
}

weir_status weir_stream_open(weir_device *device, weir_stream **out, weir_error *err) {
    if (!out) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_stream_open: out is NULL");
    *out = NULL;
    if (!device) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_stream_open: device is NULL");
    const wr_runtime *runtime = runtime_of(device);
    weir_stream *s = wr_calloc(1, sizeof *s);
    if (!s) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a stream");
    weir_status status = runtime ? runtime->event_open(device->context, &s->done, err) : WEIR_OK;
    if (status == WEIR_OK && runtime) status = runtime->stream_open(device->context, &s->handle, err);
    if (status != WEIR_OK) {
        if (s->done) runtime->event_close(device->context, s->done);
        wr_free(s);
        return status;
    }
    atomic_init(&s->count, 1);
    s->device = device;
    pthread_mutex_init(&s->arena.lock, NULL);
    pthread_mutex_lock(&device->streams_lock);
    s->next = device->streams;
    device->streams = s;
    pthread_mutex_unlock(&device->streams_lock);
    *out = s;
    return WEIR_OK;
}

void weir_stream_close(weir_stream *stream) {
    if (!stream) return;
    weir_device *device = stream->device;
    pthread_mutex_lock(&device->streams_lock);
    for (weir_stream **at = &device->streams; *at; at = &(*at)->next) {
        if (*at != stream) continue;
        *at = stream->next;
        break;
    }
    pthread_mutex_unlock(&device->streams_lock);
    pthread_mutex_lock(&stream->arena.lock);
    stream->closed = true;
    wr_device_free(device, stream->arena.data, stream->arena.bytes);
    stream->arena.data = NULL;
    stream->arena.bytes = 0;
    if (stream->handle) runtime_of(device)->stream_close(device->context, stream->handle);
    stream->handle = NULL;
    pthread_mutex_unlock(&stream->arena.lock);
    wr_stream_release(stream);
}

/* ---- work ---- */

weir_status wr_stream_join(weir_stream *stream, weir_stream *waiting, weir_error *err) {
    weir_device *device = stream->device;
    if (!stream->done || stream == waiting) return WEIR_OK;
    return runtime_of(device)->event_join(device->context, stream->done, waiting ? waiting->handle : NULL, err);
}

weir_status wr_stream_settle(weir_stream *stream, weir_error *err) {
    if (!stream->done) return WEIR_OK;
    return runtime_of(stream->device)->event_wait(stream->device->context, stream->done, err);
}

weir_status wr_stream_alloc(weir_stream *stream, size_t bytes, void **out, weir_error *err) {
    weir_device *device = stream->device;
    const wr_runtime *runtime = runtime_of(device);
    weir_status status = runtime->stream_alloc(device->context, stream->handle, bytes, out, err);
    if (status == WEIR_E_MEMORY && wr_device_drop_arena(device))
        status = runtime->stream_alloc(device->context, stream->handle, bytes, out, err);
    return status;
}

weir_status wr_stream_run(weir_stream *stream, const wr_step *steps, int n, weir_error *err) {
    weir_device *device = stream->device;
    const wr_runtime *runtime = runtime_of(device);
    weir_status status = runtime->stream_run(device->context, stream->handle, steps, n, err);
    /* Also behind what could be started of a run that failed. */
    weir_status recorded =
        runtime->event_record(device->context, stream->done, stream->handle, status == WEIR_OK ? err : NULL);
    return status == WEIR_OK ? recorded : status;
}

weir_status weir_stream_wait(weir_stream *stream, weir_error *err) {
    if (!stream) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_stream_wait: the stream is NULL");
    if (!stream->handle) return WEIR_OK;
    weir_device *device = stream->device;
    WR_TRY(runtime_of(device)->event_record(device->context, stream->done, stream->handle, err));
    return wr_stream_settle(stream, err);
}

/* ---- events ---- */

struct weir_event {
    weir_device *device;
    void *handle;
};

weir_status weir_event_open(weir_device *device, weir_event **out, weir_error *err) {
    if (!out) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_event_open: out is NULL");
    *out = NULL;
    if (!device) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_event_open: device is NULL");
    weir_event *e = wr_calloc(1, sizeof *e);
    if (!e) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for an event");
    e->device = device;
    weir_status status =
        runtime_of(device) ? runtime_of(device)->event_open(device->context, &e->handle, err) : WEIR_OK;
    if (status == WEIR_OK)
        *out = e;
    else
        wr_free(e);
    return status;
}

void weir_event_close(weir_event *event) {
    if (!event) return;
    if (event->handle) runtime_of(event->device)->event_close(event->device->context, event->handle);
    wr_free(event);
}

static weir_status check_event(const weir_event *event, const weir_stream *stream, const char *what, weir_error *err) {
    if (!event) return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: the event is NULL", what);
    if (stream && stream->device != event->device)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: event and stream are of different devices", what);
    return WEIR_OK;
}

weir_status weir_event_record(weir_event *event, weir_stream *stream, weir_error *err) {
    WR_TRY(check_event(event, stream, "weir_event_record", err));
    if (!stream) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_event_record: the stream is NULL");
    if (!event->handle) return WEIR_OK;
    weir_device *device = event->device;
    return runtime_of(device)->event_record(device->context, event->handle, stream->handle, err);
}

weir_status weir_event_wait(weir_event *event, weir_stream *stream, weir_error *err) {
    WR_TRY(check_event(event, stream, "weir_event_wait", err));
    if (!event->handle) return WEIR_OK;
    weir_device *device = event->device;
    const wr_runtime *runtime = runtime_of(device);
    return stream ? runtime->event_join(device->context, event->handle, stream->handle, err)
                  : runtime->event_wait(device->context, event->handle, err);
}
