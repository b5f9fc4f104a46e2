/* Builders of ops that move data. */
#include <string.h>

#include "array/internal.h"
#include "weir/ops.h"

/* Narrow integer indices become i32 or i64, whichever holds them. */
static weir_array *indices_of(weir_array *ids) {
    if (ids->poisoned || !wr_is_integer(ids->dtype) || wr_is_index(ids->dtype)) return ids;
    bool wide = ids->dtype == WEIR_DTYPE_U32 || ids->dtype == WEIR_DTYPE_U64;
    return wr_cast_to(ids, wide ? WEIR_DTYPE_I64 : WEIR_DTYPE_I32);
}

static weir_array *indexed(wr_op_id op, weir_array **in, int n, int axis) {
    weir_array *poisoned;
    weir_graph *g = wr_inputs_graph(wr_ops[op].name, in, n, n, &poisoned);
    if (!g) return poisoned;
    wr_axis_args args;
    memset(&args, 0, sizeof args);
    if (!wr_axis(axis, in[0]->n_dims, &args.axis))
        return wr_poison(g, WEIR_E_ARGUMENT, "%s: axis %d does not exist in %s", wr_ops[op].name, axis,
                         wr_describe(in[0]).s);
    in[1] = indices_of(in[1]);
    if (n == 3) in[2] = wr_cast_to(in[2], in[0]->dtype);
    return wr_node(g, op, in, n, &args);
}

weir_array *weir_take(weir_array *x, weir_array *indices, int axis) {
    return indexed(WR_OP_TAKE, (weir_array *[]){x, indices}, 2, axis);
}
weir_array *weir_take_along(weir_array *x, weir_array *indices, int axis) {
    return indexed(WR_OP_TAKE_ALONG, (weir_array *[]){x, indices}, 2, axis);
}
weir_array *weir_scatter(weir_array *x, weir_array *indices, weir_array *updates, int axis) {
    return indexed(WR_OP_SCATTER, (weir_array *[]){x, indices, updates}, 3, axis);
}
weir_array *weir_scatter_add(weir_array *x, weir_array *indices, weir_array *updates, int axis) {
    return indexed(WR_OP_SCATTER_ADD, (weir_array *[]){x, indices, updates}, 3, axis);
}

/* Python's rule for one axis of n elements. */
static void slice_axis(int64_t n, const int64_t *start, const int64_t *stop, int64_t step, int64_t *first,
                       int64_t *count) {
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    int64_t a = start ? *start : (step > 0 ? low : high), b = stop ? *stop : (step > 0 ? high : low);
    if (start && a < 0) a += n;
    if (stop && b < 0) b += n;
    a = a < low ? low : a > high ? high : a;
    b = b < low ? low : b > high ? high : b;
    /* Unsigned, since the step may be as small as INT64_MIN. */
    uint64_t distance = step > 0 ? (b > a ? (uint64_t)(b - a) : 0) : (a > b ? (uint64_t)(a - b) : 0);
    uint64_t width = step > 0 ? (uint64_t)step : -(uint64_t)step;
    *count = distance ? (int64_t)((distance - 1) / width + 1) : 0;
    *first = *count ? a : 0;
}

static bool slice_args(const char *op, const weir_array *x, const int64_t *start, const int64_t *stop,
                       const int64_t *step, wr_slice_args *args, weir_array **poisoned) {
    memset(args, 0, sizeof *args);
    for (int i = 0; i < x->n_dims; i++) {
        int64_t by = step ? step[i] : 1;
        if (by == 0) {
            *poisoned = wr_poison(x->graph, WEIR_E_ARGUMENT, "%s: step of axis %d is 0", op, i);
            return false;
        }
        slice_axis(x->shape[i], start ? start + i : NULL, stop ? stop + i : NULL, by, &args->start[i], &args->count[i]);
        args->step[i] = args->count[i] > 1 ? by : 1;
    }
    return true;
}

weir_array *weir_slice(weir_array *x, const int64_t *start, const int64_t *stop, const int64_t *step) {
    weir_array *poisoned;
    wr_slice_args args;
    if (!wr_inputs_graph("slice", &x, 1, 1, &poisoned)) return poisoned;
    if (!slice_args("slice", x, start, stop, step, &args, &poisoned)) return poisoned;
    return wr_node(x->graph, WR_OP_SLICE, &x, 1, &args);
}

weir_array *weir_slice_update(weir_array *x, weir_array *update, const int64_t *start, const int64_t *stop,
                              const int64_t *step) {
    weir_array *in[2] = {x, update}, *poisoned;
    wr_slice_args args;
    weir_graph *g = wr_inputs_graph("slice_update", in, 2, 2, &poisoned);
    if (!g) return poisoned;
    if (!slice_args("slice_update", x, start, stop, step, &args, &poisoned)) return poisoned;
    in[1] = wr_cast_to(update, x->dtype);
    /* broadcast checks the update's shape against the slice's. */
    in[1] = wr_broadcast_to(in[1], x->n_dims, args.count);
    return wr_node(g, WR_OP_SLICE_UPDATE, in, 2, &args);
}

weir_array *weir_concat(weir_array *const *arrays, int n, int axis) {
    weir_array *in[WR_MAX_INPUTS], *poisoned;
    if (n < 1 || !arrays) return wr_poison(NULL, WEIR_E_ARGUMENT, "concat: no arrays");
    weir_graph *g = wr_inputs_graph("concat", arrays, n, n, &poisoned);
    if (!g) return poisoned;
    wr_axis_args args;
    memset(&args, 0, sizeof args);
    if (!wr_axis(axis, arrays[0]->n_dims, &args.axis))
        return wr_poison(g, WEIR_E_ARGUMENT, "concat: axis %d does not exist in %s", axis, wr_describe(arrays[0]).s);
    weir_dtype dtype = arrays[0]->dtype;
    for (int i = 1; i < n; i++) dtype = weir_dtype_promote(dtype, arrays[i]->dtype);
    if (n > WR_MAX_INPUTS) { /* concatenate by parts */
        int half = n / 2;
        weir_array *parts[2] = {weir_concat(arrays, half, axis), weir_concat(arrays + half, n - half, axis)};
        return weir_concat(parts, 2, axis);
    }
    for (int i = 0; i < n; i++) in[i] = wr_cast_to(arrays[i], dtype);
    return wr_node(g, WR_OP_CONCAT, in, n, &args);
}

weir_array *weir_pad(weir_array *x, const int64_t *low, const int64_t *high, double value) {
    weir_array *poisoned;
    wr_pad_args args;
    memset(&args, 0, sizeof args);
    if (!wr_inputs_graph("pad", &x, 1, 1, &poisoned)) return poisoned;
    for (int i = 0; i < x->n_dims; i++) {
        args.low[i] = low ? low[i] : 0;
        args.high[i] = high ? high[i] : 0;
    }
    args.value = value;
    return wr_node(x->graph, WR_OP_PAD, &x, 1, &args);
}

weir_array *weir_transpose(weir_array *x, const int *axes) {
    weir_array *poisoned;
    wr_shape_args args;
    memset(&args, 0, sizeof args);
    if (!wr_inputs_graph("transpose", &x, 1, 1, &poisoned)) return poisoned;
    args.n = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) {
        int axis = x->n_dims - 1 - i;
        if (axes && !wr_axis(axes[i], x->n_dims, &axis))
            return wr_poison(x->graph, WEIR_E_ARGUMENT, "transpose: axis %d does not exist in %s", axes[i],
                             wr_describe(x).s);
        args.dims[i] = axis;
    }
    return wr_node(x->graph, WR_OP_TRANSPOSE, &x, 1, &args);
}

weir_array *weir_reshape(weir_array *x, int n_dims, const int64_t *shape) {
    weir_array *poisoned;
    int64_t dims[WR_MAX_DIMS], known = 1;
    int open = -1;
    if (!wr_inputs_graph("reshape", &x, 1, 1, &poisoned)) return poisoned;
    weir_graph *g = x->graph;
    if (n_dims < 0 || n_dims > WR_MAX_DIMS || (n_dims > 0 && !shape))
        return wr_poison(g, WEIR_E_ARGUMENT, "reshape: %d dimensions, 0 to %d are possible", n_dims, WR_MAX_DIMS);
    for (int i = 0; i < n_dims; i++) {
        dims[i] = shape[i];
        if (dims[i] == -1 && open < 0)
            open = i;
        else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known))
            return wr_poison(g, WEIR_E_ARGUMENT, "reshape: shape %s: one -1 at most, no other negative size",
                             wr_shape_text(n_dims, shape).s);
    }
    if (open >= 0) {
        int64_t size = weir_array_size(x);
        if (known == 0 || size % known)
            return wr_poison(g, WEIR_E_ARGUMENT, "reshape: the -1 of shape %s cannot be found for %s",
                             wr_shape_text(n_dims, shape).s, wr_describe(x).s);
        dims[open] = size / known;
    }
    return wr_reshape_to(x, n_dims, dims);
}

weir_array *weir_broadcast(weir_array *x, int n_dims, const int64_t *shape) {
    weir_array *poisoned;
    if (!wr_inputs_graph("broadcast", &x, 1, 1, &poisoned)) return poisoned;
    if (n_dims < 0 || n_dims > WR_MAX_DIMS || (n_dims > 0 && !shape))
        return wr_poison(x->graph, WEIR_E_ARGUMENT, "broadcast: %d dimensions, 0 to %d are possible", n_dims,
                         WR_MAX_DIMS);
    return wr_broadcast_to(x, n_dims, shape);
}

weir_array *weir_contiguous(weir_array *x) {
    weir_array *poisoned;
    if (!wr_inputs_graph("copy", &x, 1, 1, &poisoned)) return poisoned;
    return wr_node(x->graph, WR_OP_COPY, &x, 1, NULL);
}
