/* Owns the way of a step's inputs to the device. */
#include "engine/feed.h"

weir_status wr_feed_init(wr_feed *feed, weir_device *device, size_t bytes, weir_error *err) {
    *feed = (wr_feed){.bytes = bytes};
    if (wr_device_is_host(device)) {
        WR_TRY(wr_buffer_new(bytes, &feed->host, err));
        feed->device = wr_buffer_retain(feed->host);
        return WEIR_OK;
    }
    void *memory;
    WR_TRY(wr_device_host_alloc(device, bytes, &memory, err));
    weir_status st = wr_buffer_view(memory, bytes, &feed->host, err);
    if (st != WEIR_OK) {
        wr_device_host_free(device, memory, bytes);
        return st;
    }
    return wr_buffer_new_on(device, bytes, &feed->device, err);
}

void wr_feed_deinit(wr_feed *feed, weir_device *device) {
    if (feed->host && feed->host != feed->device && !wr_device_is_host(device))
        wr_device_host_free(device, feed->host->data, feed->bytes);
    wr_buffer_release(feed->host);
    wr_buffer_release(feed->device);
    *feed = (wr_feed){0};
}

weir_array *wr_feed_array(const wr_feed *feed, weir_graph *graph, int64_t n) {
    weir_array *device = wr_leaf(graph, WEIR_DTYPE_I32, 1, &n, NULL, 0, feed->device);
    if (feed->host == feed->device) return device;
    return wr_store(device, wr_leaf(graph, WEIR_DTYPE_I32, 1, &n, NULL, 0, feed->host));
}
