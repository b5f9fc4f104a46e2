/* Owns the way of a step's inputs to the device. */
#include "engine/feed.h"

weir_status wr_feed_init(wr_feed *feed, weir_device *device, size_t bytes, weir_error *err) {
    *feed = (wr_feed){.device = device, .bytes = bytes};
    WR_TRY(wr_buffer_new_on(device, bytes, &feed->buffer, err));
    for (int i = 0; i < 2; i++) {
        void *memory = feed->buffer->data;
        if (!wr_device_is_host(device)) WR_TRY(wr_device_host_alloc(device, bytes, &memory, err));
        feed->host[i] = memory;
    }
    return WEIR_OK;
}

void wr_feed_deinit(wr_feed *feed) {
    for (int i = 0; i < 2 && feed->device && !wr_device_is_host(feed->device); i++)
        wr_device_host_free(feed->device, feed->host[i], feed->bytes);
    wr_buffer_release(feed->buffer);
    *feed = (wr_feed){0};
}

weir_status wr_feed_send(wr_feed *feed, size_t offset, size_t bytes, weir_error *err) {
    wr_assert(offset + bytes <= feed->bytes);
    if (wr_device_is_host(feed->device) || !bytes) return WEIR_OK;
    return wr_device_send(feed->device, (char *)feed->buffer->data + offset, wr_feed_at(feed, offset), bytes, err);
}

void wr_feed_flip(wr_feed *feed) { feed->half ^= 1; }

weir_array *wr_feed_leaf(const wr_feed *feed, weir_graph *graph, weir_dtype dtype, int n_dims, const int64_t *shape,
                         size_t offset) {
    return wr_leaf(graph, dtype, n_dims, shape, NULL, (int64_t)(offset / weir_dtype_bytes(dtype)), feed->buffer);
}
