/* Graph nodes and buffers. */
#ifndef WR_ARRAY_GRAPH_H
#define WR_ARRAY_GRAPH_H

#include <pthread.h>
#include <stdatomic.h>

#include "array/backend.h"
#include "base/mem.h"
#include "weir/ops.h"

/* Counted storage: data of leaves, evaluated results, weights, KV pages. */
typedef struct wr_buffer {
    atomic_int count;
    void *data; /* where kernels find it: host or device memory */
    size_t bytes;
    weir_device *device; /* whose memory it is; NULL: the host's, or borrowed */
    enum {
        WR_BUFFER_VIEW,   /* borrowed, outlives the buffer */
        WR_BUFFER_INLINE, /* behind the header, in one block */
        WR_BUFFER_PAGES,  /* from wr_pages_alloc */
        WR_BUFFER_DEVICE
    } kind;
    void *mirror; /* host copy of device memory, made when it is asked for */
    /* The stream that computes it, held; NULL: it is there. Set before anyone else sees the buffer. */
    weir_stream *writer;
} wr_buffer;
weir_status wr_buffer_new(size_t bytes, wr_buffer **out, weir_error *err); /* in host memory, zeroed */
/* Where the device's kernels can use it; zeroed. */
weir_status wr_buffer_new_on(weir_device *device, size_t bytes, wr_buffer **out, weir_error *err);
/* In the order of a stream of the device, which becomes its writer. */
weir_status wr_buffer_new_in(weir_stream *stream, size_t bytes, wr_buffer **out, weir_error *err);
/* Until it is computed; reports what went wrong. */
weir_status wr_buffer_settle(wr_buffer *buffer, weir_error *err);
weir_status wr_buffer_view(void *data, size_t bytes, wr_buffer **out, weir_error *err); /* borrowed */
/* Copy into its start. */
weir_status wr_buffer_write(wr_buffer *buffer, const void *data, size_t bytes, weir_error *err);
/* Its bytes where the host can read them: the data itself, or a copy made now (NULL when that failed). */
const void *wr_buffer_host(wr_buffer *buffer);
wr_buffer *wr_buffer_retain(wr_buffer *buffer);
void wr_buffer_release(wr_buffer *buffer);

struct weir_array {
    weir_graph *graph;
    wr_op_id op;
    bool poisoned;
    weir_dtype dtype;
    int n_dims;
    int64_t shape[WR_MAX_DIMS];
    int n_in;
    weir_array **in;
    void *args;
    /* Set for WR_OP_DATA, and for any node once evaluated. */
    wr_buffer *buffer;
    int64_t offset, strides[WR_MAX_DIMS]; /* elements */
    /* Place in the graph's order of creation, which is a topological order; state is read and written in it. */
    uint32_t index;
    uint32_t mark, slot;       /* scratch of one compilation */
    weir_array *next_buffered; /* the graph's list of nodes that hold a buffer */
};

struct weir_device {
    const wr_backend *backend;
    void *context; /* of the backend's runtime, when it has one */
    wr_pool *pool;
    struct wr_program_cache *cache;
    pthread_mutex_t kernels_lock;
    struct weir_kernel *kernels; /* the user's, loaded now */
    pthread_mutex_t streams_lock;
    weir_stream *streams; /* the open ones */
};
/* A device over any backend; weir_device_open is this over the named one. ordinal: which of its kind. Close with
 * weir_device_close. */
weir_status wr_device_open(const wr_backend *backend, int ordinal, int n_threads, weir_device **out, weir_error *err);
/* What "auto" stands for on this machine: the first GPU that can be used, else "cpu". why: set when there seems to be a
 * GPU and it cannot be used, else its status is OK. */
void wr_device_choose(char name[16], weir_error *why);
/* What the CUDA library has kernels for, "sm_80 sm_90a"; NULL, with the reason, when there is no library. */
const char *wr_device_cuda_built_for(weir_error *err);
/* The backend of a device name and its ordinal, without opening it. */
weir_status wr_device_backend(const char *name, const wr_backend **backend, int *ordinal, weir_error *err);
/* Memory that the device's kernels use: zeroed, at least 64-byte aligned. Without room for it the arena of evaluations
 * goes, and it is tried once more. */
weir_status wr_device_alloc(weir_device *device, size_t bytes, void **out, weir_error *err);
void wr_device_free(weir_device *device, void *p, size_t bytes);
/* The same for memory that stays as long as an engine. */
weir_status wr_device_reserve(weir_device *device, size_t bytes, void **out, weir_error *err);
void wr_device_release(weir_device *device, void *p, size_t bytes);
/* Host memory that the device can read and write at the same address; zeroed on the CPU only. */
weir_status wr_device_host_alloc(weir_device *device, size_t bytes, void **out, weir_error *err);
void wr_device_host_free(weir_device *device, void *p, size_t bytes);
/* Between host memory and the device's; both return when the bytes are there. */
weir_status wr_device_upload(weir_device *device, void *to, const void *from, size_t bytes, weir_error *err);
weir_status wr_device_download(weir_device *device, void *to, const void *from, size_t bytes, weir_error *err);
/* Only where the device is not the host: copies that return at once, marks and waiting for them; as in wr_runtime. */
weir_status wr_device_send(weir_device *device, void *to, const void *from_host, size_t bytes, weir_error *err);
weir_status wr_device_fetch(weir_device *device, void *to_host, const void *from, size_t bytes, weir_error *err);
weir_status wr_device_mark(weir_device *device, int which, weir_error *err);
weir_status wr_device_wait_mark(weir_device *device, int which, weir_error *err);
/* Free the arenas of evaluations, but those of which one is given just now; false: there was nothing to free. */
bool wr_device_drop_arena(weir_device *device);
/* Until all programs started so far are done. */
weir_status wr_device_wait(weir_device *device, weir_error *err);
/* Do its kernels run over host memory? */
bool wr_device_is_host(const weir_device *device);

/* New node; runs infer; on any fault records the graph's first error and returns the poisoned node. args are copied.
 * Never NULL. */
weir_array *wr_node(weir_graph *graph, wr_op_id op, weir_array *const *in, int n_in, const void *args);
/* Leaf over a buffer (retained). strides NULL: contiguous. */
weir_array *wr_leaf(weir_graph *graph, weir_dtype dtype, int n_dims, const int64_t *shape, const int64_t *strides,
                    int64_t offset, wr_buffer *buffer);
weir_device *wr_graph_device(const weir_graph *graph);
/* Record the graph's first error; the poisoned node. */
weir_array *wr_poison(weir_graph *graph, weir_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* State: a buffer that outlives the program is a leaf; an INPLACE op (kv_write, store) takes it, or the result of an
 * earlier INPLACE op on it, as input 0, and its result is the same storage. Ops read and write state in the order in
 * which they were made in the graph, whichever of the two nodes they name: an op made before the write sees the old
 * contents, one made after it the new. A view (slice, transpose, reshape, broadcast) is no read; the op that uses it
 * is. No other buffer may overlap a buffer that is written. */

/* Linear layers over a weight (packed or as published); the leaves of the weight come from wr_leaf. */
weir_array *wr_linear(weir_array *x, const wr_linear_args *args, weir_array *data, weir_array *scales,
                      weir_array *biases);
weir_array *wr_gather_linear(weir_array *x, weir_array *ids, const wr_linear_args *args, weir_array *data,
                             weir_array *scales, weir_array *biases);
weir_array *wr_embedding(weir_array *ids, const wr_linear_args *args, weir_array *data, weir_array *scales,
                         weir_array *biases);
weir_array *wr_store(weir_array *state, weir_array *x);
/* array/sample.h; counts may be NULL. */
weir_array *wr_sample_tokens(weir_array *logits, weir_array *rows, weir_array *counts, int n_top);
/* tiled: the pages are (array/kv.h). mask, sinks: NULL or as op.h has them; of the mask's axes [T, H, N] those in front
 * may be missing, which is as 1. */
weir_array *wr_kv_write(weir_array *pages, weir_array *x, weir_array *block_table, weir_array *row_seq,
                        weir_array *row_pos, bool tiled);
weir_array *wr_paged_attention(weir_array *q, weir_array *k_pages, weir_array *v_pages, weir_array *block_table,
                               weir_array *row_seq, weir_array *row_pos, weir_array *mask, weir_array *sinks,
                               const wr_attention_args *args);
/* Rotary frequencies and the factor on cos and sin of any published scaling, in double. options->dims 0: head_dim.
 * Errors: ARGUMENT with the offending value. */
weir_status wr_rope_frequencies(const weir_rope_options *options, int head_dim, wr_rope_table_args *out,
                                weir_error *err);
weir_array *wr_rope_table(weir_array *positions, const wr_rope_table_args *args);
weir_array *wr_rope_apply(weir_array *x, weir_array *table, bool interleaved);

#endif
