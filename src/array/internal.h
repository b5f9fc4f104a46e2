/* Shared by the files of the array room only. */
#ifndef WR_ARRAY_INTERNAL_H
#define WR_ARRAY_INTERNAL_H

#include "array/graph.h"
#include "array/program.h"

struct weir_graph {
    weir_device *device;
    wr_arena arena;    /* nodes, inputs, args */
    uint32_t n_nodes;  /* next index */
    uint32_t mark;     /* of the latest compilation */
    weir_error error;  /* the first one; status WEIR_OK when there is none */
    weir_array poison; /* what a failed op returns */
    weir_array *buffered;
    struct wr_kernel_use *kernels; /* held by its nodes */
};

/* "f32 [2, 3]" for messages. */
typedef struct wr_text {
    char s[192];
} wr_text;
wr_text wr_describe(const weir_array *a);
wr_text wr_shape_text(int n_dims, const int64_t *shape);

/* Elements of a shape into *out; false when the count, or the bytes at 8 a piece, would overflow (empty dimensions
 * counted as 1, so that strides fit too) or a dimension is negative. */
bool wr_shape_size(int n_dims, const int64_t *shape, int64_t *out);
static inline int64_t wr_n_elements(int n_dims, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++) n *= shape[i];
    return n;
}
void wr_contiguous_strides(int n_dims, const int64_t *shape, int64_t *strides);
bool wr_is_contiguous(int n_dims, const int64_t *shape, const int64_t *strides);

static inline bool wr_is_float(weir_dtype d) { return d >= WEIR_DTYPE_F16 && d <= WEIR_DTYPE_F32; }
static inline bool wr_is_unsigned(weir_dtype d) { return d >= WEIR_DTYPE_U8 && d <= WEIR_DTYPE_U64; }
static inline bool wr_is_signed(weir_dtype d) { return d >= WEIR_DTYPE_I8 && d <= WEIR_DTYPE_I64; }
static inline bool wr_is_integer(weir_dtype d) { return wr_is_unsigned(d) || wr_is_signed(d); }
static inline bool wr_is_index(weir_dtype d) { return d == WEIR_DTYPE_I32 || d == WEIR_DTYPE_I64; }
static inline bool wr_is_dtype(weir_dtype d) { return (unsigned)d < WEIR_DTYPE_COUNT; }

/* Builders' help. The graph of the inputs; NULL when an input is NULL, poisoned or of another graph, after the error
 * was recorded: return *poisoned then. NULL entries from n_needed on are allowed. */
weir_graph *wr_inputs_graph(const char *op, weir_array *const *in, int n, int n_needed, weir_array **poisoned);
/* NumPy's rule over n shapes; false when they do not fit. */
bool wr_broadcast_shapes(weir_array *const *in, int n, int *n_dims, int64_t *shape);
/* x itself when it has the shape or dtype already. */
weir_array *wr_cast_to(weir_array *x, weir_dtype dtype);
weir_array *wr_broadcast_to(weir_array *x, int n_dims, const int64_t *shape);
weir_array *wr_reshape_to(weir_array *x, int n_dims, const int64_t *shape);
/* Axis from 0; false when out of range. */
bool wr_axis(int axis, int n_dims, int *out);
/* Give a node its data; the node takes over one count of the buffer. */
void wr_set_buffer(weir_array *node, wr_buffer *buffer, int64_t offset);

/* Bytes of the parts of a weight as published; false when the format or the sizes are impossible (*why says). */
typedef struct wr_weight_bytes {
    int n_parts; /* data, scales, biases */
    int64_t bytes[3];
    weir_dtype dtype[3];
} wr_weight_bytes;
bool wr_linear_bytes(const wr_linear_args *args, wr_weight_bytes *out, const char **why);
/* Fixed group and bits of a mode; affine keeps the caller's. false: not a valid format. */
bool wr_quant_normal(weir_quant *quant);

/* Where a view of an input lies. */
typedef struct wr_layout {
    int n_dims;
    int64_t shape[WR_MAX_DIMS], strides[WR_MAX_DIMS], offset;
} wr_layout;
/* Layout of a VIEW node over its input's layout; false: strides cannot say it (reshape), copy first. */
bool wr_view_layout(const weir_array *node, const wr_layout *in, wr_layout *out);

#endif
