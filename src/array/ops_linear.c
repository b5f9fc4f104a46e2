/* Builders of matrix products, quantised or not. */
#include <string.h>

#include "array/internal.h"
#include "base/dtype.h"
#include "weir/ops.h"

/* ---- dense ---- */

weir_array *weir_matmul(weir_array *a, weir_array *b) {
    weir_array *in[2] = {a, b}, *poisoned;
    weir_graph *g = wr_inputs_graph("matmul", in, 2, 2, &poisoned);
    if (!g) return poisoned;
    if (a->n_dims == 0 || b->n_dims == 0)
        return wr_poison(g, WEIR_E_ARGUMENT, "matmul: %s by %s: a scalar has no rows", wr_describe(a).s,
                         wr_describe(b).s);
    weir_dtype dtype = weir_dtype_promote(a->dtype, b->dtype);
    if (!wr_is_float(dtype)) dtype = WEIR_DTYPE_F32;
    /* As in NumPy, a vector is a row on the left, a column on the right, and that axis goes away again. */
    bool row = a->n_dims == 1, column = b->n_dims == 1;
    in[0] = wr_cast_to(a, dtype);
    in[1] = wr_cast_to(b, dtype);
    if (row) in[0] = wr_reshape_to(in[0], 2, (int64_t[]){1, a->shape[0]});
    if (column) in[1] = wr_reshape_to(in[1], 2, (int64_t[]){b->shape[0], 1});
    if (in[0]->poisoned || in[1]->poisoned) return &g->poison;

    /* Batch axes broadcast; the last two are each input's own. */
    int most = in[0]->n_dims > in[1]->n_dims ? in[0]->n_dims : in[1]->n_dims;
    int64_t batch[WR_MAX_DIMS];
    for (int d = 0; d < most - 2; d++) {
        batch[d] = 1;
        for (int i = 0; i < 2; i++) {
            int own = d - (most - in[i]->n_dims);
            int64_t size = own < 0 ? 1 : in[i]->shape[own];
            if (size == 1 || size == batch[d]) continue;
            if (batch[d] != 1)
                return wr_poison(g, WEIR_E_ARGUMENT, "matmul: batch axes of %s and %s do not broadcast",
                                 wr_describe(a).s, wr_describe(b).s);
            batch[d] = size;
        }
    }
    for (int i = 0; i < 2; i++) {
        int64_t shape[WR_MAX_DIMS];
        memcpy(shape, batch, sizeof shape);
        shape[most - 2] = in[i]->shape[in[i]->n_dims - 2];
        shape[most - 1] = in[i]->shape[in[i]->n_dims - 1];
        in[i] = wr_broadcast_to(in[i], most, shape);
    }
    weir_array *y = wr_node(g, WR_OP_MATMUL, in, 2, NULL);
    if (y->poisoned || !(row || column)) return y;
    int64_t shape[WR_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < y->n_dims; i++)
        if (!(row && i == y->n_dims - 2) && !(column && i == y->n_dims - 1)) shape[n++] = y->shape[i];
    return wr_reshape_to(y, n, shape);
}

/* ---- weights ---- */

/* Append the parts that are there; the op checks how many the format has. */
static int add_parts(weir_array **in, int n, weir_array *data, weir_array *scales, weir_array *biases) {
    in[n++] = data;
    if (scales) in[n++] = scales;
    if (biases) in[n++] = biases;
    return n;
}

static wr_linear_args normal_args(const wr_linear_args *args) {
    wr_linear_args clean;
    memset(&clean, 0, sizeof clean);
    clean.quant = args->quant;
    wr_quant_normal(&clean.quant); /* a wrong one is refused by the op, with its name */
    clean.weight_dtype = args->weight_dtype;
    clean.out_dtype = args->out_dtype;
    clean.packed = args->packed;
    clean.global_scale = args->global_scale;
    clean.experts = args->experts;
    clean.rows = args->rows;
    clean.cols = args->cols;
    return clean;
}

weir_array *wr_linear(weir_array *x, const wr_linear_args *args, weir_array *data, weir_array *scales,
                      weir_array *biases) {
    weir_array *in[4] = {x}, *poisoned;
    int n = add_parts(in, 1, data, scales, biases);
    weir_graph *g = wr_inputs_graph("linear", in, n, n, &poisoned);
    if (!g) return poisoned;
    wr_linear_args clean = normal_args(args);
    if (clean.out_dtype == x->dtype) clean.out_dtype = 0; /* equal layers must have equal bytes */
    return wr_node(g, WR_OP_LINEAR, in, n, &clean);
}

weir_array *wr_gather_linear(weir_array *x, weir_array *ids, const wr_linear_args *args, weir_array *data,
                             weir_array *scales, weir_array *biases) {
    weir_array *in[5] = {x, ids}, *poisoned;
    int n = add_parts(in, 2, data, scales, biases);
    weir_graph *g = wr_inputs_graph("gather_linear", in, n, n, &poisoned);
    if (!g) return poisoned;
    wr_linear_args clean = normal_args(args);
    clean.out_dtype = 0;
    return wr_node(g, WR_OP_GATHER_LINEAR, in, n, &clean);
}

weir_array *wr_embedding(weir_array *ids, const wr_linear_args *args, weir_array *data, weir_array *scales,
                         weir_array *biases) {
    weir_array *in[4] = {ids}, *poisoned;
    int n = add_parts(in, 1, data, scales, biases);
    weir_graph *g = wr_inputs_graph("embedding", in, n, n, &poisoned);
    if (!g) return poisoned;
    wr_linear_args clean = normal_args(args);
    return wr_node(g, WR_OP_EMBEDDING, in, n, &clean);
}

weir_array *weir_linear(weir_array *x, weir_array *w) {
    weir_array *in[2] = {x, w}, *poisoned;
    weir_graph *g = wr_inputs_graph("linear", in, 2, 2, &poisoned);
    if (!g) return poisoned;
    if (w->n_dims != 2) return wr_poison(g, WEIR_E_ARGUMENT, "linear: weight %s must be [N, K]", wr_describe(w).s);
    if (!wr_is_float(w->dtype)) w = wr_cast_to(w, WEIR_DTYPE_F32);
    if (!wr_is_float(x->dtype)) x = wr_cast_to(x, WEIR_DTYPE_F32);
    if (w->poisoned || x->poisoned) return &g->poison;
    /* A weight wider than its input would be rounded into the result: bf16 x by f32 w gives f32, as matmul. */
    x = wr_cast_to(x, weir_dtype_promote(x->dtype, w->dtype));
    wr_linear_args args = {
        .weight_dtype = w->dtype, .global_scale = 1, .experts = 1, .rows = w->shape[0], .cols = w->shape[1]};
    return wr_linear(x, &args, w, NULL, NULL);
}

/* Fill args from the shapes of a weight as published: w [..., experts?, rows, packed columns]. */
static bool weight_args(const char *op, const weir_array *w, const weir_array *scales, weir_quant quant, bool experts,
                        wr_linear_args *args) {
    memset(args, 0, sizeof *args);
    args->global_scale = 1;
    args->quant = quant;
    if (quant.mode == WEIR_QUANT_NONE || !wr_quant_normal(&args->quant)) {
        wr_poison(w->graph, WEIR_E_ARGUMENT, "%s: mode %s with group %d and %d bits is not possible", op,
                  weir_quant_name(quant.mode), quant.group_size, quant.bits);
        return false;
    }
    bool gguf = wr_quant_is_gguf(quant.mode);
    if (w->n_dims < (experts ? 3 : 1) || w->dtype != (gguf ? WEIR_DTYPE_U8 : WEIR_DTYPE_U32) || (!gguf && !scales)) {
        wr_poison(w->graph, WEIR_E_ARGUMENT, "%s: a %s weight is %s [%srows, columns]%s; here is %s", op,
                  weir_quant_name(quant.mode), gguf ? "u8" : "u32", experts ? "experts, " : "",
                  gguf ? "" : " with scales", wr_describe(w).s);
        return false;
    }
    int64_t packed = w->shape[w->n_dims - 1];
    args->weight_dtype = quant.mode == WEIR_QUANT_AFFINE ? scales->dtype : WEIR_DTYPE_F32;
    if (gguf) {
        int64_t block = wr_quant_block_bytes(quant.mode);
        args->cols = packed % block ? -1 : packed / block * wr_quant_block_values(quant.mode);
    } else {
        args->cols = packed * 32 % args->quant.bits ? -1 : packed * 32 / args->quant.bits;
    }
    if (args->cols < 0) {
        wr_poison(w->graph, WEIR_E_ARGUMENT, "%s: the last axis of %s is no whole number of %s values", op,
                  wr_describe(w).s, weir_quant_name(quant.mode));
        return false;
    }
    args->rows = args->experts = 1;
    int last = w->n_dims - 1;
    for (int i = 0; i < last; i++) *(experts && i < last - 1 ? &args->experts : &args->rows) *= w->shape[i];
    return true;
}

weir_array *weir_quantized_matmul(weir_array *x, weir_array *w, weir_array *scales, weir_array *biases,
                                  weir_quant quant) {
    weir_array *in[4] = {x, w, scales, biases}, *poisoned;
    wr_linear_args args;
    weir_graph *g = wr_inputs_graph("quantized_matmul", in, 4, 2, &poisoned);
    if (!g) return poisoned;
    if (!weight_args("quantized_matmul", w, scales, quant, false, &args)) return &g->poison;
    if (!wr_is_float(x->dtype)) x = wr_cast_to(x, WEIR_DTYPE_F32);
    return wr_linear(x, &args, w, scales, biases);
}

weir_array *weir_gather_quantized_matmul(weir_array *x, weir_array *ids, weir_array *w, weir_array *scales,
                                         weir_array *biases, weir_quant quant) {
    weir_array *in[5] = {x, ids, w, scales, biases}, *poisoned;
    wr_linear_args args;
    weir_graph *g = wr_inputs_graph("gather_quantized_matmul", in, 5, 3, &poisoned);
    if (!g) return poisoned;
    if (!weight_args("gather_quantized_matmul", w, scales, quant, true, &args)) return &g->poison;
    if (!wr_is_float(x->dtype)) x = wr_cast_to(x, WEIR_DTYPE_F32);
    return wr_gather_linear(x, ids, &args, w, scales, biases);
}

weir_array *weir_dequantize(weir_array *w, weir_array *scales, weir_array *biases, weir_quant quant, weir_dtype dtype) {
    weir_array *in[3] = {w, scales, biases}, *poisoned;
    wr_linear_args args;
    weir_graph *g = wr_inputs_graph("dequantize", in, 3, 1, &poisoned);
    if (!g) return poisoned;
    if (!weight_args("dequantize", w, scales, quant, false, &args)) return &g->poison;
    args.out_dtype = dtype;
    int n = add_parts(in, 0, w, scales, biases);
    weir_array *y = wr_node(g, WR_OP_DEQUANTIZE, in, n, &args);
    int64_t shape[WR_MAX_DIMS];
    for (int i = 0; i < w->n_dims - 1; i++) shape[i] = w->shape[i];
    shape[w->n_dims - 1] = args.cols;
    return wr_reshape_to(y, w->n_dims, shape);
}

void weir_quantize(weir_array *w, weir_quant quant, weir_array **packed, weir_array **scales, weir_array **biases) {
    static const wr_op_id ops[] = {WR_OP_QUANTIZE_WEIGHT, WR_OP_QUANTIZE_SCALES, WR_OP_QUANTIZE_BIASES};
    weir_array **out[] = {packed, scales, biases}, *poisoned;
    wr_quantize_args args;
    memset(&args, 0, sizeof args);
    weir_graph *g = wr_inputs_graph("quantize", &w, 1, 1, &poisoned);
    if (g && !wr_is_float(w->dtype)) w = wr_cast_to(w, WEIR_DTYPE_F32);
    args.quant = quant;
    wr_quant_normal(&args.quant);
    for (int i = 0; i < 3; i++) {
        if (!out[i]) continue;
        /* Modes without biases give the caller a NULL to pass on. */
        if (i == 2 && quant.mode != WEIR_QUANT_AFFINE)
            *out[i] = NULL;
        else
            *out[i] = g ? wr_node(g, ops[i], &w, 1, &args) : poisoned;
    }
}
