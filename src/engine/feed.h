/* Data that the host writes for each step and programs read. On a device with memory of its own it is two buffers, and
 * a program begins by copying the one to the other; else it is one. */
#ifndef WR_ENGINE_FEED_H
#define WR_ENGINE_FEED_H

#include "array/graph.h"

typedef struct wr_feed {
    wr_buffer *host, *device; /* the same where the device's memory is the host's */
    size_t bytes;
} wr_feed;

weir_status wr_feed_init(wr_feed *feed, weir_device *device, size_t bytes, weir_error *err);
void wr_feed_deinit(wr_feed *feed, weir_device *device);
/* The first n i32 of the feed as an array of the graph; on a device, the copy is part of the program. */
weir_array *wr_feed_array(const wr_feed *feed, weir_graph *graph, int64_t n);

#endif
