/* Graph nodes and buffers. */
#ifndef WR_ARRAY_GRAPH_H
#define WR_ARRAY_GRAPH_H

#include <stdatomic.h>

#include "array/backend.h"
#include "base/mem.h"
#include "weir/ops.h"

/* Counted storage: data of leaves, evaluated results, weights, KV pages. */
typedef struct wr_buffer {
    atomic_int count;
    void *data;
    size_t bytes;
    bool owned; /* by wr_pages_alloc; else borrowed and outlives the buffer */
} wr_buffer;
weir_status wr_buffer_new(size_t bytes, wr_buffer **out, weir_error *err);              /* zeroed */
weir_status wr_buffer_view(void *data, size_t bytes, wr_buffer **out, weir_error *err); /* borrowed */
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
};

struct weir_device {
    const wr_backend *backend;
    wr_pool *pool;
    struct wr_program_cache *cache;
};

/* New node; runs infer; on any fault records the graph's first error and returns the poisoned node. args are copied.
 * Never NULL. */
weir_array *wr_node(weir_graph *graph, wr_op_id op, weir_array *const *in, int n_in, const void *args);
/* Leaf over a buffer (retained). strides NULL: contiguous. */
weir_array *wr_leaf(weir_graph *graph, weir_dtype dtype, int n_dims, const int64_t *shape, const int64_t *strides,
                    int64_t offset, wr_buffer *buffer);
weir_device *wr_graph_device(const weir_graph *graph);

/* Linear layers over a weight (packed or as published); the leaves of the weight come from wr_leaf. */
weir_array *wr_linear(weir_array *x, const wr_linear_args *args, weir_array *data, weir_array *scales,
                      weir_array *biases);
weir_array *wr_gather_linear(weir_array *x, weir_array *ids, const wr_linear_args *args, weir_array *data,
                             weir_array *scales, weir_array *biases);
weir_array *wr_embedding(weir_array *ids, const wr_linear_args *args, weir_array *data, weir_array *scales,
                         weir_array *biases);
weir_array *wr_kv_write(weir_array *pages, weir_array *x, weir_array *block_table, weir_array *row_seq,
                        weir_array *row_pos);
weir_array *wr_paged_attention(weir_array *q, weir_array *k_pages, weir_array *v_pages, weir_array *block_table,
                               weir_array *row_seq, weir_array *row_pos, weir_array *sinks,
                               const wr_attention_args *args);
/* Frequencies and attention factor of a published scaling, in double (array/rope.c); options->dims must be set. Errors:
 * ARGUMENT with the option's name. Models call this once and pass the args to wr_rope_table. */
weir_status wr_rope_resolve(const weir_rope_options *options, wr_rope_table_args *out, weir_error *err);
weir_array *wr_rope_table(weir_array *positions, const wr_rope_table_args *args);
weir_array *wr_rope_apply(weir_array *x, weir_array *table, bool interleaved);

#endif
