/* Builders of reductions and of ops along one axis. */
#include <string.h>

#include "array/internal.h"
#include "weir/ops.h"

static weir_array *reduce(wr_op_id op, weir_array *x, int n_axes, const int *axes, bool keep_dims) {
    weir_array *poisoned;
    const char *name = wr_ops[op].name;
    weir_graph *g = wr_inputs_graph(name, &x, 1, 1, &poisoned);
    if (!g) return poisoned;
    wr_reduce_args args;
    memset(&args, 0, sizeof args);
    args.keep_dims = keep_dims;
    if (n_axes < 0 || (n_axes > 0 && !axes)) return wr_poison(g, WEIR_E_ARGUMENT, "%s: %d axes", name, n_axes);
    if (n_axes == 0) args.axes = (1u << x->n_dims) - 1;
    for (int i = 0; i < n_axes; i++) {
        int axis;
        if (!wr_axis(axes[i], x->n_dims, &axis) || args.axes >> axis & 1)
            return wr_poison(g, WEIR_E_ARGUMENT, "%s: axis %d does not exist in %s or is named twice", name, axes[i],
                             wr_describe(x).s);
        args.axes |= 1u << axis;
    }
    if ((op == WR_OP_MEAN || op == WR_OP_LOGSUMEXP) && !wr_is_float(x->dtype)) x = wr_cast_to(x, WEIR_DTYPE_F32);
    return wr_node(g, op, &x, 1, &args);
}

weir_array *weir_sum(weir_array *x, int n_axes, const int *axes, bool keep_dims) {
    return reduce(WR_OP_SUM, x, n_axes, axes, keep_dims);
}
weir_array *weir_mean(weir_array *x, int n_axes, const int *axes, bool keep_dims) {
    return reduce(WR_OP_MEAN, x, n_axes, axes, keep_dims);
}
weir_array *weir_max(weir_array *x, int n_axes, const int *axes, bool keep_dims) {
    return reduce(WR_OP_MAX, x, n_axes, axes, keep_dims);
}
weir_array *weir_min(weir_array *x, int n_axes, const int *axes, bool keep_dims) {
    return reduce(WR_OP_MIN, x, n_axes, axes, keep_dims);
}
weir_array *weir_logsumexp(weir_array *x, int n_axes, const int *axes, bool keep_dims) {
    return reduce(WR_OP_LOGSUMEXP, x, n_axes, axes, keep_dims);
}

static weir_array *along(wr_op_id op, weir_array *x, int axis, wr_axis_args args) {
    weir_array *poisoned;
    weir_graph *g = wr_inputs_graph(wr_ops[op].name, &x, 1, 1, &poisoned);
    if (!g) return poisoned;
    wr_axis_args clean;
    memset(&clean, 0, sizeof clean); /* args compare by bytes, padding included */
    clean.descending = args.descending;
    clean.reverse = args.reverse;
    clean.exclusive = args.exclusive;
    clean.k = args.k;
    if (!wr_axis(axis, x->n_dims, &clean.axis))
        return wr_poison(g, WEIR_E_ARGUMENT, "%s: axis %d does not exist in %s", wr_ops[op].name, axis,
                         wr_describe(x).s);
    if (op == WR_OP_SOFTMAX && !wr_is_float(x->dtype)) x = wr_cast_to(x, WEIR_DTYPE_F32);
    return wr_node(g, op, &x, 1, &clean);
}

weir_array *weir_argmax(weir_array *x, int axis) { return along(WR_OP_ARGMAX, x, axis, (wr_axis_args){0}); }
weir_array *weir_softmax(weir_array *x, int axis) { return along(WR_OP_SOFTMAX, x, axis, (wr_axis_args){0}); }
weir_array *weir_sort(weir_array *x, int axis, bool descending) {
    return along(WR_OP_SORT, x, axis, (wr_axis_args){.descending = descending});
}
weir_array *weir_argsort(weir_array *x, int axis, bool descending) {
    return along(WR_OP_ARGSORT, x, axis, (wr_axis_args){.descending = descending});
}
weir_array *weir_top_k(weir_array *x, int axis, int64_t k) {
    return along(WR_OP_TOP_K, x, axis, (wr_axis_args){.k = k});
}
weir_array *weir_arg_top_k(weir_array *x, int axis, int64_t k) {
    return along(WR_OP_ARG_TOP_K, x, axis, (wr_axis_args){.k = k});
}
weir_array *weir_cumsum(weir_array *x, int axis, bool reverse, bool exclusive) {
    return along(WR_OP_CUMSUM, x, axis, (wr_axis_args){.reverse = reverse, .exclusive = exclusive});
}
