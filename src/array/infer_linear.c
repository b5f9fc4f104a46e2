/* Shape and dtype rules of matrix products and quantised weights. The geometry of a weight is checked by bytes: a
 * weight may come as the file has it, whatever its leaf's dimensions say. */
#include "array/internal.h"
#include "base/dtype.h"

static const char *name(const weir_array *out) { return wr_ops[out->op].name; }

weir_status wr_infer_matmul(weir_array *out, weir_error *err) {
    const weir_array *a = out->in[0], *b = out->in[1];
    bool good = a->n_dims >= 2 && a->n_dims == b->n_dims && a->dtype == b->dtype && wr_is_float(a->dtype);
    for (int i = 0; good && i < a->n_dims - 2; i++) good = a->shape[i] == b->shape[i];
    if (good) good = a->shape[a->n_dims - 1] == b->shape[b->n_dims - 2];
    if (!good)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "matmul: %s by %s: inner sizes, batch sizes or dtypes do not fit",
                       wr_describe(a).s, wr_describe(b).s);
    out->dtype = a->dtype;
    out->n_dims = a->n_dims;
    for (int i = 0; i < a->n_dims; i++) out->shape[i] = a->shape[i];
    out->shape[a->n_dims - 1] = b->shape[b->n_dims - 1];
    return WEIR_OK;
}

bool wr_quant_normal(weir_quant *quant) {
    switch (quant->mode) {
    case WEIR_QUANT_NONE: quant->group_size = quant->bits = 0; return true;
    case WEIR_QUANT_AFFINE:
        if (quant->group_size == 0) quant->group_size = 64;
        if (quant->bits == 0) quant->bits = 4;
        return (quant->group_size == 32 || quant->group_size == 64 || quant->group_size == 128) && quant->bits >= 2 &&
               quant->bits <= 8 && quant->bits != 7;
    case WEIR_QUANT_MXFP4: quant->group_size = 32, quant->bits = 4; return true;
    case WEIR_QUANT_NVFP4: quant->group_size = 16, quant->bits = 4; return true;
    case WEIR_QUANT_MXFP8: quant->group_size = 32, quant->bits = 8; return true;
    default: return quant->mode < WEIR_QUANT_COUNT && wr_quant_is_gguf(quant->mode);
    }
}

static bool mul(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }

bool wr_linear_bytes(const wr_linear_args *args, wr_weight_bytes *out, const char **why) {
    weir_quant q = args->quant;
    int64_t weights, values, groups;
    *out = (wr_weight_bytes){.n_parts = 1};
    *why = "its format does not exist";
    if (!wr_quant_normal(&q) || !wr_is_dtype(args->weight_dtype)) return false;
    *why = "its sizes are negative or too large";
    if (args->experts < 0 || args->rows < 0 || args->cols < 0) return false;
    if (!mul(args->experts, args->rows, &values) || !mul(values, args->cols, &weights) || !mul(weights, 8, &values))
        return false;
    if (q.mode == WEIR_QUANT_NONE) {
        *why = "a dense weight must be a float";
        if (!wr_is_float(args->weight_dtype)) return false;
        out->bytes[0] = weights * (int64_t)weir_dtype_bytes(args->weight_dtype);
        out->dtype[0] = args->weight_dtype;
        return true;
    }
    if (wr_quant_is_gguf(q.mode)) {
        int64_t per_block = wr_quant_block_values(q.mode);
        *why = "its columns are no whole number of blocks";
        if (args->cols % per_block) return false;
        out->bytes[0] = weights / per_block * wr_quant_block_bytes(q.mode);
        out->dtype[0] = WEIR_DTYPE_U8;
        return true;
    }
    *why = "its columns are no whole number of groups";
    if (args->cols % q.group_size) return false;
    groups = weights / q.group_size;
    out->bytes[0] = weights / 8 * q.bits; /* a group is a multiple of 8 values */
    out->dtype[0] = WEIR_DTYPE_U32;
    bool affine = q.mode == WEIR_QUANT_AFFINE;
    *why = "affine scales must be floats";
    if (affine && !wr_is_float(args->weight_dtype)) return false;
    out->n_parts = affine ? 3 : 2;
    for (int i = 1; i < out->n_parts; i++) {
        out->dtype[i] = affine ? args->weight_dtype : WEIR_DTYPE_U8;
        out->bytes[i] = groups * (int64_t)weir_dtype_bytes(out->dtype[i]);
    }
    return true;
}

static weir_status check_weight(const weir_array *out, int first, weir_error *err) {
    static const char *const parts[] = {"data", "scales", "biases"};
    const wr_linear_args *args = out->args;
    wr_weight_bytes need;
    const char *why;
    if (!wr_linear_bytes(args, &need, &why))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: %s weight of %lld x %lld x %lld: %s", name(out),
                       weir_quant_name(args->quant.mode), (long long)args->experts, (long long)args->rows,
                       (long long)args->cols, why);
    if (args->packed) {
        if (out->n_in == first + 1 && out->in[first]->dtype == WEIR_DTYPE_U8) return WEIR_OK;
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: a packed weight is one u8 buffer, here are %d inputs", name(out),
                       out->n_in - first);
    }
    if (out->n_in - first != need.n_parts)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: a %s weight has %d parts (data, scales, biases), here are %d",
                       name(out), weir_quant_name(args->quant.mode), need.n_parts, out->n_in - first);
    for (int i = 0; i < need.n_parts; i++) {
        const weir_array *part = out->in[first + i];
        int64_t bytes = wr_n_elements(part->n_dims, part->shape) * (int64_t)weir_dtype_bytes(part->dtype);
        if (part->dtype != need.dtype[i] || bytes != need.bytes[i])
            return WR_FAIL(
                err, WEIR_E_ARGUMENT, "%s: %s of a %s weight of %lld x %lld x %lld are %s, need %lld bytes of %s",
                name(out), parts[i], weir_quant_name(args->quant.mode), (long long)args->experts, (long long)args->rows,
                (long long)args->cols, wr_describe(part).s, (long long)need.bytes[i], weir_dtype_name(need.dtype[i]));
    }
    return WEIR_OK;
}

static weir_status check_out_dtype(const weir_array *out, weir_error *err) {
    const wr_linear_args *args = out->args;
    if (wr_is_float(args->out_dtype)) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: result dtype %s must be a float", name(out),
                   weir_dtype_name(args->out_dtype));
}

weir_status wr_infer_linear(weir_array *out, weir_error *err) {
    const wr_linear_args *args = out->args;
    const weir_array *x = out->in[0];
    WR_TRY(check_weight(out, 1, err));
    if (!wr_is_float(x->dtype) || x->n_dims < 1 || x->shape[x->n_dims - 1] != args->cols || args->experts != 1)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "linear: input %s does not fit a weight of %lld x %lld x %lld",
                       wr_describe(x).s, (long long)args->experts, (long long)args->rows, (long long)args->cols);
    if (args->out_dtype) WR_TRY(check_out_dtype(out, err));
    out->dtype = args->out_dtype ? args->out_dtype : x->dtype;
    out->n_dims = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) out->shape[i] = x->shape[i];
    out->shape[x->n_dims - 1] = args->rows;
    return WEIR_OK;
}

weir_status wr_infer_linear_add(weir_array *out, weir_error *err) {
    const wr_linear_args *args = out->args;
    const weir_array *x = out->in[0], *addend = out->in[1];
    WR_TRY(check_weight(out, 2, err));
    bool good = wr_is_float(x->dtype) && x->n_dims >= 1 && x->shape[x->n_dims - 1] == args->cols && args->experts == 1;
    out->dtype = args->out_dtype ? args->out_dtype : x->dtype;
    out->n_dims = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) out->shape[i] = x->shape[i];
    if (good) out->shape[x->n_dims - 1] = args->rows;
    good = good && wr_is_float(out->dtype) && addend->dtype == out->dtype && addend->n_dims == out->n_dims;
    for (int i = 0; good && i < out->n_dims; i++) good = addend->shape[i] == out->shape[i];
    if (good) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "linear_add: input %s and addend %s do not fit a weight of %lld x %lld x %lld",
                   wr_describe(x).s, wr_describe(addend).s, (long long)args->experts, (long long)args->rows,
                   (long long)args->cols);
}

static weir_status check_gate(weir_array *out, weir_error *err) {
    const wr_linear_args *args = out->args;
    if ((args->gate != WR_OP_SILU && args->gate != WR_OP_GELU_TANH) || args->rows % 2)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: %s over a weight of %lld rows is not possible", name(out),
                       args->gate >= 0 && args->gate < WR_OP_COUNT ? wr_ops[args->gate].name : "that",
                       (long long)args->rows);
    out->shape[out->n_dims - 1] = args->rows / 2;
    return WEIR_OK;
}

weir_status wr_infer_linear_gated(weir_array *out, weir_error *err) {
    WR_TRY(wr_infer_linear(out, err));
    return check_gate(out, err);
}

weir_status wr_infer_norm_linear(weir_array *out, weir_error *err) {
    const wr_linear_args *args = out->args;
    const weir_array *x = out->in[0], *norm = out->in[1];
    WR_TRY(check_weight(out, 2, err));
    bool good = wr_is_float(x->dtype) && x->n_dims >= 1 && x->shape[x->n_dims - 1] == args->cols &&
                args->experts == 1 && wr_is_float(args->norm_dtype) && norm->dtype == WEIR_DTYPE_F32 &&
                norm->n_dims == 1 && norm->shape[0] == args->cols;
    if (!good)
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "norm_linear: input %s and norm weight %s do not fit a weight of %lld x %lld x %lld",
                       wr_describe(x).s, wr_describe(norm).s, (long long)args->experts, (long long)args->rows,
                       (long long)args->cols);
    if (args->out_dtype) WR_TRY(check_out_dtype(out, err));
    out->dtype = args->out_dtype ? args->out_dtype : args->norm_dtype;
    out->n_dims = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) out->shape[i] = x->shape[i];
    out->shape[x->n_dims - 1] = args->rows;
    return args->gate ? check_gate(out, err) : WEIR_OK;
}

weir_status wr_infer_gather_linear(weir_array *out, weir_error *err) {
    const wr_linear_args *args = out->args;
    const weir_array *x = out->in[0], *ids = out->in[1];
    WR_TRY(check_weight(out, 2, err));
    if (!wr_is_float(x->dtype) || x->n_dims != 2 || x->shape[1] != args->cols || ids->n_dims != 1 ||
        ids->dtype != WEIR_DTYPE_I32 || ids->shape[0] != x->shape[0])
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "gather_linear: input %s (float [T, %lld]) and ids %s (i32 [T]) do not fit a weight of "
                       "%lld x %lld x %lld",
                       wr_describe(x).s, (long long)args->cols, wr_describe(ids).s, (long long)args->experts,
                       (long long)args->rows, (long long)args->cols);
    out->dtype = x->dtype;
    out->n_dims = 2;
    out->shape[0] = x->shape[0];
    out->shape[1] = args->rows;
    return WEIR_OK;
}

weir_status wr_infer_embedding(weir_array *out, weir_error *err) {
    const wr_linear_args *args = out->args;
    const weir_array *ids = out->in[0];
    WR_TRY(check_weight(out, 1, err));
    WR_TRY(check_out_dtype(out, err));
    if (ids->dtype != WEIR_DTYPE_I32 || args->experts != 1 || ids->n_dims >= WR_MAX_DIMS)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "embedding: ids %s must be i32, the weight one matrix (has %lld)",
                       wr_describe(ids).s, (long long)args->experts);
    out->dtype = args->out_dtype;
    out->n_dims = ids->n_dims + 1;
    for (int i = 0; i < ids->n_dims; i++) out->shape[i] = ids->shape[i];
    out->shape[ids->n_dims] = args->cols;
    return WEIR_OK;
}

weir_status wr_infer_dequantize(weir_array *out, weir_error *err) {
    const wr_linear_args *args = out->args;
    WR_TRY(check_weight(out, 0, err));
    WR_TRY(check_out_dtype(out, err));
    out->dtype = args->out_dtype;
    if (args->experts != 1) out->shape[out->n_dims++] = args->experts;
    out->shape[out->n_dims++] = args->rows;
    out->shape[out->n_dims++] = args->cols;
    return WEIR_OK;
}

weir_status wr_infer_quantize(weir_array *out, weir_error *err) {
    const wr_quantize_args *args = out->args;
    const weir_array *w = out->in[0];
    weir_quant q = args->quant;
    bool mode = q.mode >= WEIR_QUANT_AFFINE && q.mode <= WEIR_QUANT_MXFP8 && wr_quant_normal(&q);
    if (!mode || q.group_size != args->quant.group_size || q.bits != args->quant.bits)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: mode %s with group %d and %d bits is not possible", name(out),
                       weir_quant_name(q.mode), args->quant.group_size, args->quant.bits);
    if (!wr_is_float(w->dtype) || w->n_dims < 1 || w->shape[w->n_dims - 1] % q.group_size)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: weight %s must be a float with a last axis in whole groups of %d",
                       name(out), wr_describe(w).s, q.group_size);
    int last = w->n_dims - 1;
    out->n_dims = w->n_dims;
    for (int i = 0; i < last; i++) out->shape[i] = w->shape[i];
    bool affine = q.mode == WEIR_QUANT_AFFINE;
    if (out->op == WR_OP_QUANTIZE_WEIGHT) {
        out->dtype = WEIR_DTYPE_U32;
        out->shape[last] = w->shape[last] / 8 * q.bits / 4;
        return WEIR_OK;
    }
    if (out->op == WR_OP_QUANTIZE_BIASES && !affine)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "quantize_biases: mode %s has no biases", weir_quant_name(q.mode));
    out->dtype = affine ? w->dtype : WEIR_DTYPE_U8;
    out->shape[last] = w->shape[last] / q.group_size;
    return WEIR_OK;
}
