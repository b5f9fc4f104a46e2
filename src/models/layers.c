/* Layers that the families share. The residual stream is f32 everywhere; what norms hand to matrix products has the
 * backend's activation dtype: f32 on the CPU, where it is both the fastest and the most exact choice, bf16 on tensor
 * cores. */
#include "models/layers.h"

#include <string.h>

#include "base/dtype.h"

static const wr_bound *bound_at(const wr_step_graph *s, int64_t layer, wr_slot slot) {
    return slot < WR_N_GLOBAL_SLOTS ? &s->model->global[slot] : &s->model->layers[layer * WR_N_SLOTS + slot];
}

/* Leaves over a matrix in the layout it was loaded in. */
static void weight_leaves(weir_graph *g, const wr_bound *b, weir_array **data, weir_array **scales,
                          weir_array **biases) {
    const wr_linear_args *a = &b->args;
    *scales = *biases = NULL;
    if (a->packed) {
        *data = wr_leaf(g, WEIR_DTYPE_U8, 1, &(int64_t){(int64_t)b->bytes}, NULL, 0, b->data);
        return;
    }
    int64_t shape[3] = {a->experts, a->rows, a->cols}, groups[3] = {a->experts, a->rows, 0};
    weir_dtype dtype = a->weight_dtype, scale_dtype = WEIR_DTYPE_U8;
    if (wr_quant_is_gguf(a->quant.mode)) {
        dtype = WEIR_DTYPE_U8;
        shape[2] = a->cols / wr_quant_block_values(a->quant.mode) * wr_quant_block_bytes(a->quant.mode);
    } else if (a->quant.mode != WEIR_QUANT_NONE) {
        dtype = WEIR_DTYPE_U32;
        shape[2] = a->cols * a->quant.bits / 32;
        groups[2] = a->cols / a->quant.group_size;
        if (a->quant.mode == WEIR_QUANT_AFFINE) scale_dtype = a->weight_dtype;
    }
    int skip = a->experts == 1; /* a plain matrix has no expert axis */
    *data = wr_leaf(g, dtype, 3 - skip, shape + skip, NULL, 0, b->data);
    if (b->scales) *scales = wr_leaf(g, scale_dtype, 3 - skip, groups + skip, NULL, 0, b->scales);
    if (b->biases) *biases = wr_leaf(g, scale_dtype, 3 - skip, groups + skip, NULL, 0, b->biases);
}

static weir_array *vector_leaf(weir_graph *g, const wr_bound *b) {
    return wr_leaf(g, WEIR_DTYPE_F32, 1, &b->args.rows, NULL, 0, b->data);
}

static weir_array *linear_over(weir_graph *g, const wr_bound *b, weir_array *x, weir_dtype out_dtype) {
    weir_array *data, *scales, *biases;
    weight_leaves(g, b, &data, &scales, &biases);
    wr_linear_args args = b->args;
    args.out_dtype = out_dtype;
    return wr_linear(x, &args, data, scales, biases);
}

static weir_array *rms_norm_over(weir_graph *g, const wr_model *m, const wr_bound *b, weir_array *x,
                                 weir_dtype out_dtype) {
    wr_norm_args args;
    memset(&args, 0, sizeof args);
    args.eps = m->hyper.norm_eps;
    args.weight_offset = m->hyper.norm_offset;
    if (out_dtype != x->dtype) args.out_dtype = out_dtype;
    return wr_node(g, WR_OP_RMS_NORM, (weir_array *[]){x, vector_leaf(g, b)}, 2, &args);
}

void wr_step_graph_init(wr_step_graph *s, const wr_model *model, const wr_step_inputs *in) {
    *s = (wr_step_graph){.model = model, .in = in, .graph = in->tokens->graph};
    for (int i = 0; i < model->hyper.n_ropes; i++) s->rope[i] = wr_rope_table(in->row_pos, &model->hyper.rope[i]);
}

weir_array *wr_layer_embed(const wr_step_graph *s) {
    const wr_bound *b = &s->model->global[WR_SLOT_EMBED];
    wr_linear_args args = b->args;
    args.out_dtype = WEIR_DTYPE_F32;
    weir_array *data, *scales, *biases;
    weight_leaves(s->graph, b, &data, &scales, &biases);
    weir_array *x = wr_embedding(s->in->tokens, &args, data, scales, biases);
    float scale = s->model->hyper.embed_scale;
    return scale == 1 ? x : weir_mul(x, weir_scalar_f32(s->graph, scale));
}

static weir_array *linear_as(const wr_step_graph *s, int64_t layer, wr_slot slot, wr_slot bias_slot, weir_array *x,
                             weir_dtype dtype) {
    const wr_bound *bias = bias_slot == WR_N_SLOTS ? NULL : bound_at(s, layer, bias_slot);
    bool has_bias = bias && bias->present;
    weir_array *y = linear_over(s->graph, bound_at(s, layer, slot), x, has_bias ? WEIR_DTYPE_F32 : dtype);
    if (!has_bias) return y;
    y = weir_add(y, vector_leaf(s->graph, bias));
    return dtype == WEIR_DTYPE_F32 ? y : weir_cast(y, dtype);
}

weir_array *wr_layer_linear(const wr_step_graph *s, int64_t layer, wr_slot slot, wr_slot bias_slot, weir_array *x) {
    return linear_as(s, layer, slot, bias_slot, x, WEIR_DTYPE_F32);
}

weir_array *wr_layer_norm(const wr_step_graph *s, int64_t layer, wr_slot slot, weir_array *x) {
    return rms_norm_over(s->graph, s->model, bound_at(s, layer, slot), x, s->model->backend->activation);
}

weir_array *wr_layer_norm_f32(const wr_step_graph *s, int64_t layer, wr_slot slot, weir_array *x) {
    return rms_norm_over(s->graph, s->model, bound_at(s, layer, slot), x, WEIR_DTYPE_F32);
}

/* Columns [first, first + n) of y [T, N]. */
static weir_array *columns(weir_array *y, int64_t first, int64_t n) {
    return weir_slice(y, (int64_t[]){0, first}, (int64_t[]){y->shape[0], first + n}, NULL);
}

/* One of q, k, v as [T, heads, head_dim], normed per head when the family has such a norm. joined: q, k and v of all
 * heads as [T, N], this one from column `first`; NULL when they are separate matrices. */
static weir_array *project_heads(const wr_step_graph *s, int64_t layer, wr_slot slot, wr_slot bias, wr_slot norm,
                                 int64_t heads, weir_array *x, weir_array *joined, int64_t first) {
    int64_t width = s->model->hyper.head_dim;
    weir_array *y = joined ? columns(joined, first, heads * width) : wr_layer_linear(s, layer, slot, bias, x);
    y = weir_reshape(y, 3, (int64_t[]){-1, heads, width});
    return norm != WR_N_SLOTS && bound_at(s, layer, norm)->present ? wr_layer_norm_f32(s, layer, norm, y) : y;
}

weir_array *wr_layer_attention(const wr_step_graph *s, int64_t layer, weir_array *x) {
    const wr_hyper *h = &s->model->hyper;
    const wr_step_inputs *in = s->in;
    int group = h->layer_kv_group[layer];
    weir_array *table = s->rope[h->layer_rope[layer]], *blocks = in->block_table[group];
    weir_array *qkv =
        bound_at(s, layer, WR_SLOT_QKV)->present ? wr_layer_linear(s, layer, WR_SLOT_QKV, WR_SLOT_QKV_BIAS, x) : NULL;
    int64_t k_first = h->n_heads * h->head_dim, v_first = k_first + h->n_kv_heads * h->head_dim;
    weir_array *q = project_heads(s, layer, WR_SLOT_Q, WR_SLOT_Q_BIAS, WR_SLOT_Q_NORM, h->n_heads, x, qkv, 0);
    weir_array *k = project_heads(s, layer, WR_SLOT_K, WR_SLOT_K_BIAS, WR_SLOT_K_NORM, h->n_kv_heads, x, qkv, k_first);
    weir_array *v = project_heads(s, layer, WR_SLOT_V, WR_SLOT_V_BIAS, WR_N_SLOTS, h->n_kv_heads, x, qkv, v_first);
    q = wr_rope_apply(q, table, h->rope_interleaved);
    k = wr_rope_apply(k, table, h->rope_interleaved);
    bool tiled = s->model->backend->tiles_pages;
    weir_array *keys = wr_kv_write(in->k_pages[layer], k, blocks, in->row_seq, in->row_pos, tiled);
    weir_array *values = wr_kv_write(in->v_pages[layer], v, blocks, in->row_seq, in->row_pos, tiled);
    wr_attention_args args = {.scale = h->attn_scale,
                              .softcap = h->attn_softcap,
                              .causal = true,
                              .window = h->window[group],
                              .tiled = tiled,
                              .value_dim = h->head_dim};
    weir_array *y = wr_paged_attention(q, keys, values, blocks, in->row_seq, in->row_pos, NULL, NULL, &args);
    y = weir_reshape(y, 2, (int64_t[]){-1, h->n_heads * h->head_dim});
    return wr_layer_linear(s, layer, WR_SLOT_O, WR_SLOT_O_BIAS, y);
}

weir_array *wr_layer_mlp(const wr_step_graph *s, int64_t layer, weir_array *x) {
    const wr_hyper *h = &s->model->hyper;
    weir_dtype dtype = s->model->backend->activation;
    weir_array *gate, *up;
    if (bound_at(s, layer, WR_SLOT_GATE_UP)->present) {
        weir_array *both = linear_as(s, layer, WR_SLOT_GATE_UP, WR_SLOT_GATE_UP_BIAS, x, dtype);
        gate = columns(both, 0, h->ffn);
        up = columns(both, h->ffn, h->ffn);
    } else {
        gate = linear_as(s, layer, WR_SLOT_GATE, WR_SLOT_GATE_BIAS, x, dtype);
        up = linear_as(s, layer, WR_SLOT_UP, WR_SLOT_UP_BIAS, x, dtype);
    }
    gate = h->gelu ? weir_gelu_tanh(gate) : weir_silu(gate);
    return wr_layer_linear(s, layer, WR_SLOT_DOWN, WR_SLOT_DOWN_BIAS, weir_mul(gate, up));
}

weir_array *wr_model_head(const wr_model *m, weir_array *hidden) {
    weir_graph *g = hidden->graph;
    weir_array *x = rms_norm_over(g, m, &m->global[WR_SLOT_FINAL_NORM], hidden, m->backend->activation);
    x = linear_over(g, &m->global[m->hyper.tied ? WR_SLOT_EMBED : WR_SLOT_HEAD], x, WEIR_DTYPE_F32);
    float cap = m->hyper.logit_softcap;
    if (cap == 0) return x;
    x = weir_tanh(weir_div(x, weir_scalar_f32(g, cap)));
    return weir_mul(x, weir_scalar_f32(g, cap));
}

weir_array *wr_body_pre_norm(const wr_model *m, const wr_step_inputs *in) {
    wr_step_graph s;
    wr_step_graph_init(&s, m, in);
    weir_array *x = wr_layer_embed(&s);
    for (int64_t i = 0; i < m->hyper.n_layers; i++) {
        x = weir_add(x, wr_layer_attention(&s, i, wr_layer_norm(&s, i, WR_SLOT_ATTN_NORM, x)));
        x = weir_add(x, wr_layer_mlp(&s, i, wr_layer_norm(&s, i, WR_SLOT_FFN_NORM, x)));
    }
    return x;
}
