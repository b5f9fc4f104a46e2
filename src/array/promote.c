/* Promotion, broadcasting, and the nodes that builders insert for them, so that kernels of element-wise ops see
 * inputs of one dtype and one shape. */
#include <string.h>

#include "array/internal.h"

static weir_dtype signed_of_bytes(size_t bytes) {
    switch (bytes) {
    case 1: return WEIR_DTYPE_I8;
    case 2: return WEIR_DTYPE_I16;
    case 4: return WEIR_DTYPE_I32;
    default: return WEIR_DTYPE_I64;
    }
}

weir_dtype weir_dtype_promote(weir_dtype a, weir_dtype b) {
    if (a == b) return a;
    if (a > b) { /* the enum is in the order bool, unsigned, signed, float, and by width inside a kind */
        weir_dtype t = a;
        a = b;
        b = t;
    }
    if (wr_is_float(b)) {
        if (!wr_is_float(a)) return b;
        return WEIR_DTYPE_F32; /* two different floats: f16 and bf16 hold neither each other nor f32 */
    }
    if (wr_is_signed(b) && wr_is_unsigned(a)) {
        size_t need = 2 * weir_dtype_bytes(a), have = weir_dtype_bytes(b);
        return signed_of_bytes(need > have ? need : have);
    }
    return b;
}

bool wr_axis(int axis, int n_dims, int *out) {
    if (axis < -n_dims || axis >= n_dims) return false;
    *out = axis < 0 ? axis + n_dims : axis;
    return true;
}

bool wr_broadcast_shapes(weir_array *const *in, int n, int *n_dims, int64_t *shape) {
    int most = 0;
    for (int i = 0; i < n; i++)
        if (in[i]->n_dims > most) most = in[i]->n_dims;
    *n_dims = most;
    for (int d = 0; d < most; d++) {
        shape[d] = 1;
        for (int i = 0; i < n; i++) {
            int own = d - (most - in[i]->n_dims);
            int64_t size = own < 0 ? 1 : in[i]->shape[own];
            if (size == 1 || size == shape[d]) continue;
            if (shape[d] != 1) return false;
            shape[d] = size;
        }
    }
    return true;
}

weir_array *wr_cast_to(weir_array *x, weir_dtype dtype) {
    if (x->poisoned || x->dtype == dtype) return x;
    wr_cast_args args;
    memset(&args, 0, sizeof args);
    args.dtype = dtype;
    return wr_node(x->graph, WR_OP_CAST, &x, 1, &args);
}

static bool same_shape(const weir_array *x, int n_dims, const int64_t *shape) {
    if (x->n_dims != n_dims) return false;
    for (int i = 0; i < n_dims; i++)
        if (x->shape[i] != shape[i]) return false;
    return true;
}

static weir_array *shaped(wr_op_id op, weir_array *x, int n_dims, const int64_t *shape) {
    if (x->poisoned || same_shape(x, n_dims, shape)) return x;
    wr_shape_args args;
    memset(&args, 0, sizeof args);
    args.n = n_dims;
    for (int i = 0; i < n_dims; i++) args.dims[i] = shape[i];
    return wr_node(x->graph, op, &x, 1, &args);
}

weir_array *wr_broadcast_to(weir_array *x, int n_dims, const int64_t *shape) {
    return shaped(WR_OP_BROADCAST, x, n_dims, shape);
}

weir_array *wr_reshape_to(weir_array *x, int n_dims, const int64_t *shape) {
    return shaped(WR_OP_RESHAPE, x, n_dims, shape);
}
