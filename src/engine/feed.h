/* What the host writes for each step and programs read: one block of memory. On a device with memory of its own there
 * are two host copies, written in turn, so that a step can be prepared while the one before is still being copied; they
 * are sent before its programs start. Elsewhere the three are one. */
#ifndef WR_ENGINE_FEED_H
#define WR_ENGINE_FEED_H

#include "array/graph.h"

typedef struct wr_feed {
    weir_device *device;
    char *host[2];
    int half; /* the copy being written */
    size_t bytes;
    wr_buffer *buffer; /* what programs read */
} wr_feed;

weir_status wr_feed_init(wr_feed *feed, weir_device *device, size_t bytes, weir_error *err);
void wr_feed_deinit(wr_feed *feed);
/* Where the next step's bytes from `offset` on are to be written. */
static inline void *wr_feed_at(const wr_feed *feed, size_t offset) { return feed->host[feed->half] + offset; }
/* Bring [offset, offset + bytes) to the device, behind the work given so far. */
weir_status wr_feed_send(wr_feed *feed, size_t offset, size_t bytes, weir_error *err);
/* The next step is written to the other copy; what was sent from it must have arrived: two steps are not under way at
 * once when a third is prepared. */
void wr_feed_flip(wr_feed *feed);
/* An array of the graph over the feed, from byte `offset`. */
weir_array *wr_feed_leaf(const wr_feed *feed, weir_graph *graph, weir_dtype dtype, int n_dims, const int64_t *shape,
                         size_t offset);

#endif
