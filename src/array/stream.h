/* Streams inside the array room (weir/array.h). */
#ifndef WR_ARRAY_STREAM_H
#define WR_ARRAY_STREAM_H

#include "array/graph.h"

/* Memory for intermediate results, of one order of evaluations. */
typedef struct wr_eval_arena {
    pthread_mutex_t lock; /* held from binding a program to its start */
    void *data;
    size_t bytes;
} wr_eval_arena;

/* Buffers that were computed in a stream hold it: to whoever needs one elsewhere it tells what to wait for. So `done`
 * lives as long as any of them, the backend's stream only until it is closed. */
struct weir_stream {
    atomic_int count;
    weir_device *device;
    struct weir_stream *next;
    void *handle, *done; /* the backend's stream, and the event behind the latest work. NULL: a device without them */
    bool closed;         /* under the arena's lock */
    wr_eval_arena arena;
};

weir_stream *wr_stream_retain(weir_stream *stream); /* NULL stays NULL */
void wr_stream_release(weir_stream *stream);
/* What is given to `waiting` later (NULL: to the device's own order) comes after the work of `stream` so far. */
weir_status wr_stream_join(weir_stream *stream, weir_stream *waiting, weir_error *err);
/* Until its work so far is done. */
weir_status wr_stream_settle(weir_stream *stream, weir_error *err);
/* As wr_device_alloc, in the stream's order. */
weir_status wr_stream_alloc(weir_stream *stream, size_t bytes, void **out, weir_error *err);
/* Start the steps; with the arena's lock held. */
weir_status wr_stream_run(weir_stream *stream, const wr_step *steps, int n, weir_error *err);

#endif
