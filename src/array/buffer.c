/* Storage: buffers in host memory or on a device, and the device's memory itself. */
#include <string.h>

#include "array/internal.h"
#include "array/stream.h"

/* Below this a buffer lies behind its header: a scalar must not cost a page and a system call. */
enum { PAGES_FROM_BYTES = 256 << 10, ALIGN = 64 };

/* ---- memory of a device ---- */

static weir_status pages_alloc(size_t bytes, void **out, weir_error *err) {
    *out = wr_pages_alloc(bytes);
    return *out ? WEIR_OK : WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes", bytes);
}

/* The runtime gives back what lies free in its pool before it refuses. */
static weir_status alloc_once(weir_device *device, size_t bytes, void **out, weir_error *err) {
    const wr_runtime *runtime = device->backend->runtime;
    return runtime ? runtime->alloc(device->context, bytes, out, err) : pages_alloc(bytes, out, err);
}

weir_status wr_device_alloc(weir_device *device, size_t bytes, void **out, weir_error *err) {
    weir_status status = alloc_once(device, bytes, out, err);
    if (status == WEIR_E_MEMORY && wr_device_drop_arena(device)) status = alloc_once(device, bytes, out, err);
    return status;
}

void wr_device_free(weir_device *device, void *p, size_t bytes) {
    if (!p) return;
    if (device->backend->runtime)
        device->backend->runtime->free(device->context, p, bytes);
    else
        wr_pages_free(p, bytes);
}

static weir_status reserve_once(weir_device *device, size_t bytes, void **out, weir_error *err) {
    const wr_runtime *runtime = device->backend->runtime;
    return runtime ? runtime->reserve(device->context, bytes, out, err) : pages_alloc(bytes, out, err);
}

weir_status wr_device_reserve(weir_device *device, size_t bytes, void **out, weir_error *err) {
    weir_status status = reserve_once(device, bytes, out, err);
    if (status == WEIR_E_MEMORY && wr_device_drop_arena(device)) status = reserve_once(device, bytes, out, err);
    return status;
}

void wr_device_release(weir_device *device, void *p, size_t bytes) {
    if (!p) return;
    if (device->backend->runtime)
        device->backend->runtime->release(device->context, p, bytes);
    else
        wr_pages_free(p, bytes);
}

weir_status wr_device_host_alloc(weir_device *device, size_t bytes, void **out, weir_error *err) {
    const wr_runtime *runtime = device->backend->runtime;
    return runtime ? runtime->host_alloc(device->context, bytes, out, err) : pages_alloc(bytes, out, err);
}

void wr_device_host_free(weir_device *device, void *p, size_t bytes) {
    if (!p) return;
    if (device->backend->runtime)
        device->backend->runtime->host_free(device->context, p);
    else
        wr_pages_free(p, bytes);
}

weir_status wr_device_upload(weir_device *device, void *to, const void *from, size_t bytes, weir_error *err) {
    if (!bytes) return WEIR_OK;
    if (device->backend->runtime) return device->backend->runtime->upload(device->context, to, from, bytes, err);
    memcpy(to, from, bytes);
    return WEIR_OK;
}

weir_status wr_device_download(weir_device *device, void *to, const void *from, size_t bytes, weir_error *err) {
    if (!bytes) return WEIR_OK;
    if (device->backend->runtime) return device->backend->runtime->download(device->context, to, from, bytes, err);
    memcpy(to, from, bytes);
    return WEIR_OK;
}

weir_status wr_device_wait(weir_device *device, weir_error *err) {
    return device->backend->runtime ? device->backend->runtime->wait(device->context, err) : WEIR_OK;
}

weir_status wr_device_send(weir_device *device, void *to, const void *from, size_t bytes, weir_error *err) {
    return device->backend->runtime->send(device->context, to, from, bytes, err);
}

weir_status wr_device_fetch(weir_device *device, void *to, const void *from, size_t bytes, weir_error *err) {
    return device->backend->runtime->fetch(device->context, to, from, bytes, err);
}

weir_status wr_device_mark(weir_device *device, int which, weir_error *err) {
    return device->backend->runtime->mark(device->context, which, err);
}

weir_status wr_device_wait_mark(weir_device *device, int which, weir_error *err) {
    return device->backend->runtime->wait_mark(device->context, which, err);
}

bool wr_device_is_host(const weir_device *device) { return !device->backend->runtime; }

/* ---- buffers ---- */

static weir_status buffer_header(size_t extra, size_t bytes, wr_buffer **out, weir_error *err) {
    size_t total;
    wr_buffer *b = wr_add_size(sizeof *b, extra, &total) ? wr_calloc(1, total) : NULL;
    if (!b) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a buffer of %zu bytes", bytes);
    atomic_init(&b->count, 1);
    b->bytes = bytes;
    *out = b;
    return WEIR_OK;
}

weir_status wr_buffer_new(size_t bytes, wr_buffer **out, weir_error *err) {
    wr_buffer *b;
    bool pages = bytes >= PAGES_FROM_BYTES;
    WR_TRY(buffer_header(pages ? 0 : bytes + ALIGN, bytes, &b, err));
    b->kind = pages ? WR_BUFFER_PAGES : WR_BUFFER_INLINE;
    if (pages) {
        b->data = wr_pages_alloc(bytes);
        if (!b->data) {
            wr_free(b);
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a buffer of %zu bytes", bytes);
        }
    } else {
        b->data = (void *)(((uintptr_t)(b + 1) + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    }
    *out = b;
    return WEIR_OK;
}

static weir_status buffer_on(weir_device *device, weir_stream *stream, size_t bytes, wr_buffer **out, weir_error *err) {
    wr_buffer *b;
    WR_TRY(buffer_header(0, bytes, &b, err));
    b->device = device;
    b->kind = WR_BUFFER_DEVICE;
    weir_status status = WEIR_OK;
    if (bytes)
        status = stream ? wr_stream_alloc(stream, bytes, &b->data, err) : wr_device_alloc(device, bytes, &b->data, err);
    if (status != WEIR_OK) {
        wr_free(b);
        return status;
    }
    b->writer = wr_stream_retain(stream);
    *out = b;
    return WEIR_OK;
}

weir_status wr_buffer_new_on(weir_device *device, size_t bytes, wr_buffer **out, weir_error *err) {
    if (wr_device_is_host(device)) return wr_buffer_new(bytes, out, err);
    return buffer_on(device, NULL, bytes, out, err);
}

weir_status wr_buffer_new_in(weir_stream *stream, size_t bytes, wr_buffer **out, weir_error *err) {
    if (wr_device_is_host(stream->device)) return wr_buffer_new(bytes, out, err);
    return buffer_on(stream->device, stream, bytes, out, err);
}

weir_status wr_buffer_settle(wr_buffer *buffer, weir_error *err) {
    return buffer->writer ? wr_stream_settle(buffer->writer, err) : WEIR_OK;
}

weir_status wr_buffer_view(void *data, size_t bytes, wr_buffer **out, weir_error *err) {
    WR_TRY(buffer_header(0, bytes, out, err));
    (*out)->data = data;
    return WEIR_OK;
}

wr_buffer *wr_buffer_retain(wr_buffer *buffer) {
    if (buffer) atomic_fetch_add_explicit(&buffer->count, 1, memory_order_relaxed);
    return buffer;
}

void wr_buffer_release(wr_buffer *buffer) {
    if (!buffer || atomic_fetch_sub_explicit(&buffer->count, 1, memory_order_acq_rel) != 1) return;
    if (buffer->kind == WR_BUFFER_PAGES) wr_pages_free(buffer->data, buffer->bytes);
    if (buffer->kind == WR_BUFFER_DEVICE) wr_device_free(buffer->device, buffer->data, buffer->bytes);
    wr_stream_release(buffer->writer);
    wr_free(buffer->mirror);
    wr_free(buffer);
}

weir_status wr_buffer_write(wr_buffer *buffer, const void *data, size_t bytes, weir_error *err) {
    wr_assert(bytes <= buffer->bytes);
    if (buffer->device) return wr_device_upload(buffer->device, buffer->data, data, bytes, err);
    if (bytes) memcpy(buffer->data, data, bytes);
    return WEIR_OK;
}

const void *wr_buffer_host(wr_buffer *buffer) {
    if (!buffer->device) return buffer->data;
    if (!buffer->mirror) buffer->mirror = wr_malloc(buffer->bytes);
    weir_error fault;
    if (!buffer->mirror || wr_buffer_settle(buffer, &fault) != WEIR_OK ||
        wr_device_download(buffer->device, buffer->mirror, buffer->data, buffer->bytes, &fault) != WEIR_OK)
        return NULL;
    return buffer->mirror;
}
