/* Shape and dtype rules of element-wise ops. Builders have promoted and broadcast already, so inputs that differ
 * here are a caller of wr_node who has not. */
#include "array/internal.h"

static const char *name(const weir_array *out) { return wr_ops[out->op].name; }

static weir_status like(weir_array *out, const weir_array *x, weir_dtype dtype) {
    out->dtype = dtype;
    out->n_dims = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) out->shape[i] = x->shape[i];
    return WEIR_OK;
}

static weir_status no_bool(const weir_array *out, const weir_array *x, weir_error *err) {
    if (x->dtype != WEIR_DTYPE_BOOL) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: input %s has no arithmetic; cast it first", name(out), wr_describe(x).s);
}

static weir_status alike(const weir_array *out, int first, weir_error *err) {
    const weir_array *a = out->in[first], *b = out->in[first + 1];
    bool same = a->dtype == b->dtype && a->n_dims == b->n_dims;
    for (int i = 0; same && i < a->n_dims; i++) same = a->shape[i] == b->shape[i];
    if (same) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: inputs %s and %s must have one dtype and one shape here", name(out),
                   wr_describe(a).s, wr_describe(b).s);
}

weir_status wr_infer_unary_numeric(weir_array *out, weir_error *err) {
    WR_TRY(no_bool(out, out->in[0], err));
    return like(out, out->in[0], out->in[0]->dtype);
}

weir_status wr_infer_unary_float(weir_array *out, weir_error *err) {
    (void)err;
    weir_dtype d = out->in[0]->dtype;
    return like(out, out->in[0], wr_is_float(d) ? d : WEIR_DTYPE_F32);
}

weir_status wr_infer_unary_predicate(weir_array *out, weir_error *err) {
    (void)err;
    return like(out, out->in[0], WEIR_DTYPE_BOOL);
}

static weir_status integers(const weir_array *out, weir_error *err) {
    if (!wr_is_float(out->in[0]->dtype)) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: input %s is a float; it takes integers or bool", name(out),
                   wr_describe(out->in[0]).s);
}

weir_status wr_infer_unary_integer(weir_array *out, weir_error *err) {
    WR_TRY(integers(out, err));
    return like(out, out->in[0], out->in[0]->dtype);
}

weir_status wr_infer_cast(weir_array *out, weir_error *err) {
    const wr_cast_args *args = out->args;
    if (!wr_is_dtype(args->dtype))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "cast: dtype %d does not exist", (int)args->dtype);
    return like(out, out->in[0], args->dtype);
}

weir_status wr_infer_binary(weir_array *out, weir_error *err) {
    WR_TRY(alike(out, 0, err));
    WR_TRY(no_bool(out, out->in[0], err));
    return like(out, out->in[0], out->in[0]->dtype);
}

weir_status wr_infer_binary_float(weir_array *out, weir_error *err) {
    WR_TRY(alike(out, 0, err));
    weir_dtype d = out->in[0]->dtype;
    return like(out, out->in[0], wr_is_float(d) ? d : WEIR_DTYPE_F32);
}

weir_status wr_infer_binary_integer(weir_array *out, weir_error *err) {
    WR_TRY(alike(out, 0, err));
    WR_TRY(integers(out, err));
    if ((out->op == WR_OP_SHIFT_LEFT || out->op == WR_OP_SHIFT_RIGHT)) WR_TRY(no_bool(out, out->in[0], err));
    return like(out, out->in[0], out->in[0]->dtype);
}

weir_status wr_infer_compare(weir_array *out, weir_error *err) {
    WR_TRY(alike(out, 0, err));
    return like(out, out->in[0], WEIR_DTYPE_BOOL);
}

weir_status wr_infer_select(weir_array *out, weir_error *err) {
    const weir_array *c = out->in[0], *a = out->in[1];
    if (c->dtype != WEIR_DTYPE_BOOL)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "select: condition %s must be bool", wr_describe(c).s);
    WR_TRY(alike(out, 1, err));
    bool same = c->n_dims == a->n_dims;
    for (int i = 0; same && i < a->n_dims; i++) same = a->shape[i] == c->shape[i];
    if (!same)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "select: condition %s and values %s must have one shape here",
                       wr_describe(c).s, wr_describe(a).s);
    return like(out, a, a->dtype);
}
