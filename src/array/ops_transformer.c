/* Builders of norms, rotary embedding, attention, KV pages and convolution. */
#include <math.h>
#include <string.h>

#include "array/internal.h"
#include "weir/ops.h"

static weir_array *as_float(weir_array *x) {
    return x && !x->poisoned && !wr_is_float(x->dtype) ? wr_cast_to(x, WEIR_DTYPE_F32) : x;
}

/* ---- norms: weights reach the kernel as f32 ---- */

weir_array *weir_rms_norm(weir_array *x, weir_array *weight, float eps) {
    weir_array *in[2] = {x, weight}, *poisoned;
    weir_graph *g = wr_inputs_graph("rms_norm", in, 2, 1, &poisoned);
    if (!g) return poisoned;
    wr_norm_args args;
    memset(&args, 0, sizeof args);
    args.eps = eps;
    in[0] = as_float(x);
    if (weight) in[1] = wr_cast_to(weight, WEIR_DTYPE_F32);
    return wr_node(g, WR_OP_RMS_NORM, in, weight ? 2 : 1, &args);
}

weir_array *weir_layer_norm(weir_array *x, weir_array *weight, weir_array *bias, float eps) {
    weir_array *in[3] = {x, weight, bias}, *poisoned;
    weir_graph *g = wr_inputs_graph("layer_norm", in, 3, 1, &poisoned);
    if (!g) return poisoned;
    wr_norm_args args;
    memset(&args, 0, sizeof args);
    args.eps = eps;
    in[0] = as_float(x);
    if (bias && !weight) { /* inputs go by place */
        if (x->n_dims < 1)
            return wr_poison(g, WEIR_E_ARGUMENT, "layer_norm: input %s must have an axis", wr_describe(x).s);
        in[1] = weir_full(g, WEIR_DTYPE_F32, 1, &x->shape[x->n_dims - 1], 1);
    }
    for (int i = 1; i < 3; i++)
        if (in[i]) in[i] = wr_cast_to(in[i], WEIR_DTYPE_F32);
    return wr_node(g, WR_OP_LAYER_NORM, in, bias ? 3 : weight ? 2 : 1, &args);
}

/* ---- rotary embedding ---- */

weir_array *wr_rope_table(weir_array *positions, const wr_rope_table_args *args) {
    weir_array *poisoned;
    if (!wr_inputs_graph("rope_table", &positions, 1, 1, &poisoned)) return poisoned;
    wr_rope_table_args clean;
    memset(&clean, 0, sizeof clean);
    clean.half = args->half;
    clean.attention_factor = args->attention_factor;
    for (int i = 0; i < args->half && i < WR_ROPE_MAX_HALF; i++) clean.inv_freq[i] = args->inv_freq[i];
    return wr_node(positions->graph, WR_OP_ROPE_TABLE, &positions, 1, &clean);
}

weir_array *wr_rope_apply(weir_array *x, weir_array *table, bool interleaved) {
    weir_array *in[2] = {x, table}, *poisoned;
    weir_graph *g = wr_inputs_graph("rope", in, 2, 2, &poisoned);
    if (!g) return poisoned;
    wr_rope_args args;
    memset(&args, 0, sizeof args);
    args.interleaved = interleaved;
    return wr_node(g, WR_OP_ROPE, in, 2, &args);
}

weir_array *weir_rope(weir_array *x, weir_array *positions, const weir_rope_options *options) {
    weir_array *in[2] = {x, positions}, *poisoned;
    weir_graph *g = wr_inputs_graph("rope", in, 2, 2, &poisoned);
    if (!g) return poisoned;
    static const weir_rope_options plain;
    if (!options) options = &plain;
    if (x->n_dims != 3) return wr_poison(g, WEIR_E_ARGUMENT, "rope: input %s must be [T, H, D]", wr_describe(x).s);
    wr_rope_table_args args;
    weir_error fault;
    weir_status status =
        wr_rope_frequencies(options, x->shape[2] > INT32_MAX ? INT32_MAX : (int)x->shape[2], &args, &fault);
    if (status != WEIR_OK) return wr_poison(g, status, "%s", fault.message);
    x = as_float(x);
    return wr_rope_apply(x, wr_rope_table(positions, &args), options->interleaved);
}

/* ---- attention ---- */

weir_array *weir_attention(weir_array *q, weir_array *k, weir_array *v, weir_array *mask, weir_array *sinks,
                           const weir_attention_options *options) {
    weir_array *in[5] = {q, k, v, mask, sinks}, *poisoned;
    weir_graph *g = wr_inputs_graph("attention", in, 5, 3, &poisoned);
    if (!g) return poisoned;
    static const weir_attention_options plain;
    if (!options) options = &plain;
    if (q->n_dims != 4 || k->n_dims != 4 || v->n_dims != 4)
        return wr_poison(g, WEIR_E_ARGUMENT, "attention: q %s, k %s, v %s must be [B,H,L,D], [B,G,S,D], [B,G,S,E]",
                         wr_describe(q).s, wr_describe(k).s, wr_describe(v).s);
    weir_dtype dtype = weir_dtype_promote(weir_dtype_promote(q->dtype, k->dtype), v->dtype);
    if (!wr_is_float(dtype)) dtype = WEIR_DTYPE_F32;
    wr_attention_args args;
    memset(&args, 0, sizeof args);
    args.scale = options->scale;
    if (args.scale == 0 && q->shape[3] > 0) args.scale = (float)(1 / sqrt((double)q->shape[3]));
    args.softcap = options->softcap;
    args.causal = options->causal;
    args.window = options->window;
    args.has_mask = mask != NULL;
    args.has_sinks = sinks != NULL;
    int n = 3;
    for (int i = 0; i < 3; i++) in[i] = wr_cast_to(in[i], dtype);
    if (mask) {
        int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
        if (mask->dtype != WEIR_DTYPE_BOOL) {
            if (!wr_is_float(mask->dtype))
                return wr_poison(g, WEIR_E_ARGUMENT,
                                 "attention: mask %s must be bool (true: attend) or a float (added)",
                                 wr_describe(mask).s);
            mask = wr_cast_to(mask, WEIR_DTYPE_F32);
        }
        in[n++] = wr_broadcast_to(mask, 4, shape);
    }
    if (sinks) in[n++] = wr_cast_to(sinks, WEIR_DTYPE_F32);
    return wr_node(g, WR_OP_ATTENTION, in, n, &args);
}

weir_array *wr_sample_tokens(weir_array *logits, weir_array *rows, weir_array *counts, int n_top) {
    weir_array *in[3] = {logits, rows, counts}, *poisoned;
    int n = counts ? 3 : 2;
    weir_graph *g = wr_inputs_graph("sample", in, n, n, &poisoned);
    wr_sample_args args = {.n_top = n_top};
    return g ? wr_node(g, WR_OP_SAMPLE, in, n, &args) : poisoned;
}

weir_array *wr_store(weir_array *state, weir_array *x) {
    weir_array *in[2] = {state, x}, *poisoned;
    weir_graph *g = wr_inputs_graph("store", in, 2, 2, &poisoned);
    return g ? wr_node(g, WR_OP_STORE, in, 2, NULL) : poisoned;
}

weir_array *wr_kv_write(weir_array *pages, weir_array *x, weir_array *block_table, weir_array *row_seq,
                        weir_array *row_pos, bool tiled) {
    weir_array *in[5] = {pages, x, block_table, row_seq, row_pos}, *poisoned;
    weir_graph *g = wr_inputs_graph("kv_write", in, 5, 5, &poisoned);
    if (!g) return poisoned;
    wr_kv_args args;
    memset(&args, 0, sizeof args);
    args.tiled = tiled;
    return wr_node(g, WR_OP_KV_WRITE, in, 5, &args);
}

weir_array *wr_paged_attention(weir_array *q, weir_array *k_pages, weir_array *v_pages, weir_array *block_table,
                               weir_array *row_seq, weir_array *row_pos, weir_array *mask, weir_array *sinks,
                               const wr_attention_args *args) {
    weir_array *in[8] = {q, k_pages, v_pages, block_table, row_seq, row_pos, mask, sinks}, *poisoned;
    weir_graph *g = wr_inputs_graph("paged_attention", in, 8, 6, &poisoned);
    if (!g) return poisoned;
    wr_attention_args clean;
    memset(&clean, 0, sizeof clean);
    clean.scale = args->scale;
    clean.softcap = args->softcap;
    clean.causal = args->causal;
    clean.has_mask = mask != NULL;
    clean.has_sinks = sinks != NULL;
    clean.window = args->window;
    clean.tiled = args->tiled;
    clean.value_dim = args->value_dim;
    int n = 6;
    if (mask) {
        int64_t shape[3] = {1, 1, 1};
        int missing = 3 - mask->n_dims;
        for (int i = 0; i < mask->n_dims && missing > 0; i++) shape[missing + i] = mask->shape[i];
        in[n++] = missing > 0 && mask->n_dims > 0 ? weir_reshape(mask, 3, shape) : mask;
    }
    if (sinks) in[n++] = sinks;
    return wr_node(g, WR_OP_PAGED_ATTENTION, in, n, &clean);
}

/* ---- convolution ---- */

weir_array *weir_conv1d(weir_array *x, weir_array *w, weir_array *bias, int64_t stride, int64_t dilation,
                        int64_t groups, int64_t pad_low, int64_t pad_high) {
    weir_array *in[3] = {x, w, bias}, *poisoned;
    weir_graph *g = wr_inputs_graph("conv1d", in, 3, 2, &poisoned);
    if (!g) return poisoned;
    weir_dtype dtype = weir_dtype_promote(x->dtype, w->dtype);
    if (bias) dtype = weir_dtype_promote(dtype, bias->dtype);
    if (!wr_is_float(dtype)) dtype = WEIR_DTYPE_F32;
    wr_conv1d_args args;
    memset(&args, 0, sizeof args);
    args.stride = stride;
    args.dilation = dilation;
    args.groups = groups;
    args.pad_low = pad_low;
    args.pad_high = pad_high;
    for (int i = 0; i < 3; i++)
        if (in[i]) in[i] = wr_cast_to(in[i], dtype);
    return wr_node(g, WR_OP_CONV1D, in, bias ? 3 : 2, &args);
}
