/* Shape and dtype rules of reductions and of ops along one axis. */
#include "array/internal.h"

static const char *name(const weir_array *out) { return wr_ops[out->op].name; }

static weir_status like(weir_array *out, const weir_array *x, weir_dtype dtype) {
    out->dtype = dtype;
    out->n_dims = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) out->shape[i] = x->shape[i];
    return WEIR_OK;
}

static weir_status check_axis(const weir_array *out, const weir_array *x, int axis, weir_error *err) {
    if (axis >= 0 && axis < x->n_dims) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: axis %d does not exist in input %s", name(out), axis, wr_describe(x).s);
}

weir_status wr_infer_reduce(weir_array *out, weir_error *err) {
    const wr_reduce_args *args = out->args;
    const weir_array *x = out->in[0];
    if (args->axes >> x->n_dims)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: axes 0x%x name one that input %s has not", name(out), args->axes,
                       wr_describe(x).s);
    int64_t n = 1;
    for (int i = 0; i < x->n_dims; i++) {
        if (!(args->axes >> i & 1)) {
            out->shape[out->n_dims++] = x->shape[i];
        } else {
            if (x->shape[i] == 0) n = 0;
            if (args->keep_dims) out->shape[out->n_dims++] = 1;
        }
    }
    bool empty = false;
    for (int i = 0; i < out->n_dims; i++) empty |= out->shape[i] == 0;
    if (n == 0 && !empty && (out->op == WR_OP_MAX || out->op == WR_OP_MIN))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: input %s has nothing along the reduced axes", name(out),
                       wr_describe(x).s);
    weir_dtype d = x->dtype;
    if (out->op == WR_OP_SUM)
        out->dtype = wr_is_float(d) ? d : wr_is_unsigned(d) ? WEIR_DTYPE_U64 : WEIR_DTYPE_I64;
    else if (out->op == WR_OP_MEAN || out->op == WR_OP_LOGSUMEXP)
        out->dtype = wr_is_float(d) ? d : WEIR_DTYPE_F32;
    else
        out->dtype = d;
    return WEIR_OK;
}

weir_status wr_infer_argmax(weir_array *out, weir_error *err) {
    const wr_axis_args *args = out->args;
    const weir_array *x = out->in[0];
    WR_TRY(check_axis(out, x, args->axis, err));
    bool empty = false;
    for (int i = 0; i < x->n_dims; i++) {
        if (i == args->axis) continue;
        out->shape[out->n_dims++] = x->shape[i];
        empty |= x->shape[i] == 0;
    }
    if (x->shape[args->axis] == 0 && !empty)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "argmax: input %s has nothing along axis %d", wr_describe(x).s,
                       args->axis);
    if (x->shape[args->axis] > INT32_MAX)
        return WR_FAIL(err, WEIR_E_LIMIT, "argmax: %lld elements along axis %d, its result is i32",
                       (long long)x->shape[args->axis], args->axis);
    out->dtype = WEIR_DTYPE_I32;
    return WEIR_OK;
}

weir_status wr_infer_softmax(weir_array *out, weir_error *err) {
    const wr_axis_args *args = out->args;
    WR_TRY(check_axis(out, out->in[0], args->axis, err));
    if (!wr_is_float(out->in[0]->dtype))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "softmax: input %s must be a float", wr_describe(out->in[0]).s);
    return like(out, out->in[0], out->in[0]->dtype);
}

weir_status wr_infer_sort(weir_array *out, weir_error *err) {
    const wr_axis_args *args = out->args;
    const weir_array *x = out->in[0];
    bool indices = out->op == WR_OP_ARGSORT || out->op == WR_OP_ARG_TOP_K;
    WR_TRY(check_axis(out, x, args->axis, err));
    if (x->shape[args->axis] > INT32_MAX)
        return WR_FAIL(err, WEIR_E_LIMIT, "%s: %lld elements along axis %d, %d are possible", name(out),
                       (long long)x->shape[args->axis], args->axis, INT32_MAX);
    like(out, x, indices ? WEIR_DTYPE_I32 : x->dtype);
    if (out->op == WR_OP_TOP_K || out->op == WR_OP_ARG_TOP_K) {
        if (args->k < 0 || args->k > x->shape[args->axis])
            return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: k is %lld, axis %d of %s has 0 to %lld", name(out),
                           (long long)args->k, args->axis, wr_describe(x).s, (long long)x->shape[args->axis]);
        out->shape[args->axis] = args->k;
    }
    return WEIR_OK;
}

weir_status wr_infer_cumsum(weir_array *out, weir_error *err) {
    const wr_axis_args *args = out->args;
    weir_dtype d = out->in[0]->dtype;
    WR_TRY(check_axis(out, out->in[0], args->axis, err));
    return like(out, out->in[0], wr_is_float(d) ? d : wr_is_unsigned(d) ? WEIR_DTYPE_U64 : WEIR_DTYPE_I64);
}
