/* Shape and dtype rules of ops that move data or make it from nothing. */
#include <math.h>

#include "array/internal.h"

static const char *name(const weir_array *out) { return wr_ops[out->op].name; }

static weir_status set(weir_array *out, weir_dtype dtype, int n_dims, const int64_t *shape) {
    out->dtype = dtype;
    out->n_dims = n_dims;
    for (int i = 0; i < n_dims; i++) out->shape[i] = shape[i];
    return WEIR_OK;
}

static weir_status check_axis(const weir_array *out, int axis, weir_error *err) {
    if (axis >= 0 && axis < out->in[0]->n_dims) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: axis %d does not exist in input %s", name(out), axis,
                   wr_describe(out->in[0]).s);
}

static weir_status check_indices(const weir_array *out, weir_error *err) {
    if (wr_is_index(out->in[1]->dtype)) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: indices %s must be i32 or i64", name(out), wr_describe(out->in[1]).s);
}

static bool same_but(const weir_array *a, const weir_array *b, int axis) {
    if (a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (i != axis && a->shape[i] != b->shape[i]) return false;
    return true;
}

weir_status wr_infer_take(weir_array *out, weir_error *err) {
    const wr_axis_args *args = out->args;
    const weir_array *x = out->in[0], *ids = out->in[1];
    WR_TRY(check_axis(out, args->axis, err));
    WR_TRY(check_indices(out, err));
    if (x->n_dims - 1 + ids->n_dims > WR_MAX_DIMS)
        return WR_FAIL(err, WEIR_E_LIMIT, "take: %s with indices %s gives more than %d dimensions", wr_describe(x).s,
                       wr_describe(ids).s, WR_MAX_DIMS);
    for (int i = 0; i < args->axis; i++) out->shape[out->n_dims++] = x->shape[i];
    for (int i = 0; i < ids->n_dims; i++) out->shape[out->n_dims++] = ids->shape[i];
    for (int i = args->axis + 1; i < x->n_dims; i++) out->shape[out->n_dims++] = x->shape[i];
    out->dtype = x->dtype;
    return WEIR_OK;
}

weir_status wr_infer_take_along(weir_array *out, weir_error *err) {
    const wr_axis_args *args = out->args;
    WR_TRY(check_axis(out, args->axis, err));
    WR_TRY(check_indices(out, err));
    if (!same_but(out->in[0], out->in[1], args->axis))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "take_along: input %s and indices %s differ outside axis %d",
                       wr_describe(out->in[0]).s, wr_describe(out->in[1]).s, args->axis);
    return set(out, out->in[0]->dtype, out->in[1]->n_dims, out->in[1]->shape);
}

weir_status wr_infer_scatter(weir_array *out, weir_error *err) {
    const wr_axis_args *args = out->args;
    const weir_array *x = out->in[0], *ids = out->in[1], *updates = out->in[2];
    WR_TRY(check_axis(out, args->axis, err));
    WR_TRY(check_indices(out, err));
    if (updates->dtype != x->dtype || !same_but(ids, updates, -1) || !same_but(x, ids, args->axis))
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "%s: input %s, indices %s, updates %s: indices and updates need one shape, equal to the input's "
                       "outside axis %d, and updates the input's dtype",
                       name(out), wr_describe(x).s, wr_describe(ids).s, wr_describe(updates).s, args->axis);
    if (out->op == WR_OP_SCATTER_ADD && x->dtype == WEIR_DTYPE_BOOL)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "scatter_add: bool has no addition; cast it first");
    return set(out, x->dtype, x->n_dims, x->shape);
}

/* Do start, step, count lie inside the input? */
static weir_status check_slice(const weir_array *out, const wr_slice_args *args, weir_error *err) {
    const weir_array *x = out->in[0];
    for (int i = 0; i < x->n_dims; i++) {
        int64_t last = args->start[i], span;
        bool good = args->step[i] != 0 && args->count[i] >= 0;
        if (good && args->count[i] > 0) {
            good = !__builtin_mul_overflow(args->count[i] - 1, args->step[i], &span) &&
                   !__builtin_add_overflow(last, span, &last) && args->start[i] >= 0 && args->start[i] < x->shape[i] &&
                   last >= 0 && last < x->shape[i];
        }
        if (!good)
            return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: axis %d from %lld, step %lld, %lld elements leaves input %s",
                           name(out), i, (long long)args->start[i], (long long)args->step[i], (long long)args->count[i],
                           wr_describe(x).s);
    }
    return WEIR_OK;
}

weir_status wr_infer_slice(weir_array *out, weir_error *err) {
    const wr_slice_args *args = out->args;
    WR_TRY(check_slice(out, args, err));
    return set(out, out->in[0]->dtype, out->in[0]->n_dims, args->count);
}

weir_status wr_infer_slice_update(weir_array *out, weir_error *err) {
    const wr_slice_args *args = out->args;
    const weir_array *x = out->in[0], *update = out->in[1];
    WR_TRY(check_slice(out, args, err));
    bool same = update->n_dims == x->n_dims && update->dtype == x->dtype;
    for (int i = 0; same && i < x->n_dims; i++) same = update->shape[i] == args->count[i];
    if (!same)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "slice_update: update %s must be %s %s", wr_describe(update).s,
                       weir_dtype_name(x->dtype), wr_shape_text(x->n_dims, args->count).s);
    return set(out, x->dtype, x->n_dims, x->shape);
}

weir_status wr_infer_concat(weir_array *out, weir_error *err) {
    const wr_axis_args *args = out->args;
    const weir_array *x = out->in[0];
    int64_t total = 0;
    WR_TRY(check_axis(out, args->axis, err));
    for (int i = 0; i < out->n_in; i++) {
        const weir_array *y = out->in[i];
        if (y->dtype != x->dtype || !same_but(x, y, args->axis))
            return WR_FAIL(err, WEIR_E_ARGUMENT,
                           "concat: input %d is %s, input 0 %s; they may differ along axis %d only", i,
                           wr_describe(y).s, wr_describe(x).s, args->axis);
        if (__builtin_add_overflow(total, y->shape[args->axis], &total))
            return WR_FAIL(err, WEIR_E_LIMIT, "concat: axis %d grows beyond 2^63 elements", args->axis);
    }
    set(out, x->dtype, x->n_dims, x->shape);
    out->shape[args->axis] = total;
    return WEIR_OK;
}

weir_status wr_infer_pad(weir_array *out, weir_error *err) {
    const wr_pad_args *args = out->args;
    const weir_array *x = out->in[0];
    set(out, x->dtype, x->n_dims, x->shape);
    for (int i = 0; i < x->n_dims; i++) {
        if (args->low[i] < 0 || args->high[i] < 0 ||
            __builtin_add_overflow(out->shape[i], args->low[i], &out->shape[i]) ||
            __builtin_add_overflow(out->shape[i], args->high[i], &out->shape[i]))
            return WR_FAIL(err, WEIR_E_ARGUMENT, "pad: axis %d of %s by %lld before and %lld behind is not possible", i,
                           wr_describe(x).s, (long long)args->low[i], (long long)args->high[i]);
    }
    return WEIR_OK;
}

weir_status wr_infer_transpose(weir_array *out, weir_error *err) {
    const wr_shape_args *args = out->args;
    const weir_array *x = out->in[0];
    unsigned seen = 0;
    bool good = args->n == x->n_dims;
    for (int i = 0; good && i < x->n_dims; i++) {
        good = args->dims[i] >= 0 && args->dims[i] < x->n_dims && !(seen >> args->dims[i] & 1);
        if (good) seen |= 1u << args->dims[i];
    }
    if (!good)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "transpose: axes %s are no permutation of the axes of %s",
                       wr_shape_text(args->n >= 0 && args->n <= WR_MAX_DIMS ? args->n : 0, args->dims).s,
                       wr_describe(x).s);
    out->dtype = x->dtype;
    out->n_dims = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) out->shape[i] = x->shape[args->dims[i]];
    return WEIR_OK;
}

static weir_status check_shape(const weir_array *out, int n, const int64_t *dims, weir_error *err) {
    int64_t size;
    if (n < 0 || n > WR_MAX_DIMS)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: %d dimensions, 0 to %d are possible", name(out), n, WR_MAX_DIMS);
    if (!wr_shape_size(n, dims, &size))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: shape %s is negative or too large", name(out),
                       wr_shape_text(n, dims).s);
    return WEIR_OK;
}

weir_status wr_infer_reshape(weir_array *out, weir_error *err) {
    const wr_shape_args *args = out->args;
    const weir_array *x = out->in[0];
    WR_TRY(check_shape(out, args->n, args->dims, err));
    if (wr_n_elements(args->n, args->dims) != wr_n_elements(x->n_dims, x->shape))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "reshape: %s has %lld elements, shape %s has %lld", wr_describe(x).s,
                       (long long)wr_n_elements(x->n_dims, x->shape), wr_shape_text(args->n, args->dims).s,
                       (long long)wr_n_elements(args->n, args->dims));
    return set(out, x->dtype, args->n, args->dims);
}

weir_status wr_infer_broadcast(weir_array *out, weir_error *err) {
    const wr_shape_args *args = out->args;
    const weir_array *x = out->in[0];
    WR_TRY(check_shape(out, args->n, args->dims, err));
    bool good = args->n >= x->n_dims;
    for (int i = 0; good && i < x->n_dims; i++) {
        int64_t to = args->dims[args->n - x->n_dims + i];
        good = x->shape[i] == to || x->shape[i] == 1;
    }
    if (!good)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "broadcast: %s does not broadcast to %s", wr_describe(x).s,
                       wr_shape_text(args->n, args->dims).s);
    return set(out, x->dtype, args->n, args->dims);
}

weir_status wr_infer_copy(weir_array *out, weir_error *err) {
    (void)err;
    return set(out, out->in[0]->dtype, out->in[0]->n_dims, out->in[0]->shape);
}

weir_status wr_infer_full(weir_array *out, weir_error *err) {
    const wr_full_args *args = out->args;
    if (!wr_is_dtype(args->dtype))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "full: dtype %d does not exist", (int)args->dtype);
    WR_TRY(check_shape(out, args->n, args->dims, err));
    return set(out, args->dtype, args->n, args->dims);
}

weir_status wr_infer_arange(weir_array *out, weir_error *err) {
    const wr_arange_args *args = out->args;
    if (!wr_is_dtype(args->dtype) || args->dtype == WEIR_DTYPE_BOOL)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "arange: dtype %s is not possible", weir_dtype_name(args->dtype));
    if (!isfinite(args->start) || !isfinite(args->step) || args->step == 0 || args->count < 0)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "arange: start %g, step %g, %lld elements: step 0 or not finite",
                       args->start, args->step, (long long)args->count);
    WR_TRY(check_shape(out, 1, &args->count, err));
    return set(out, args->dtype, 1, &args->count);
}

weir_status wr_infer_random(weir_array *out, weir_error *err) {
    const wr_random_args *args = out->args;
    WR_TRY(check_shape(out, args->n, args->dims, err));
    return set(out, out->op == WR_OP_RANDOM_BITS ? WEIR_DTYPE_U32 : WEIR_DTYPE_F32, args->n, args->dims);
}
