/* Layers that the families share. Each takes the model and a layer index and
 * returns the graph's next array. */
#ifndef WR_MODELS_LAYERS_H
#define WR_MODELS_LAYERS_H

#include "models/model.h"

/* Per-step arrays that layers share, made once. */
typedef struct wr_step_graph {
    const wr_model *model;
    const wr_step_inputs *in;
    weir_graph *graph;
    weir_array *rope[WR_MAX_ROPES]; /* tables for row_pos */
} wr_step_graph;

void wr_step_graph_init(wr_step_graph *s, const wr_model *model, const wr_step_inputs *in);
weir_array *wr_layer_embed(const wr_step_graph *s);
/* y = x W^T in f32 (+ bias when bias_slot is bound; pass WR_N_SLOTS for none). */
weir_array *wr_layer_linear(const wr_step_graph *s, int64_t layer, wr_slot slot, wr_slot bias_slot, weir_array *x);
/* What goes into matrix products: of the backend's activation dtype. */
weir_array *wr_layer_norm(const wr_step_graph *s, int64_t layer, wr_slot slot, weir_array *x);
/* What goes on in the residual stream, or to rope: f32. */
weir_array *wr_layer_norm_f32(const wr_step_graph *s, int64_t layer, wr_slot slot, weir_array *x);
/* q, k, v, optional norms of q and k, rope, KV write, attention, o. x [T, hidden] is already normed. */
weir_array *wr_layer_attention(const wr_step_graph *s, int64_t layer, weir_array *x);
/* down(act(gate(x)) * up(x)); act is silu, or gelu_tanh when hyper.gelu. */
weir_array *wr_layer_mlp(const wr_step_graph *s, int64_t layer, weir_array *x);

/* The whole body of families whose layer is x + attention(norm(x)), then x + mlp(norm(x)). */
weir_array *wr_body_pre_norm(const wr_model *model, const wr_step_inputs *in);

/* Configuration that most families read alike: sizes, eps, tied head, biases off, one rope, one KV group. */
weir_status wr_configure_common(const wr_config *config, wr_hyper *hyper, weir_error *err);
/* UNSUPPORTED when the configuration names another activation than silu. */
weir_status wr_configure_silu(const wr_config *config, weir_error *err);
/* Qwen's use_sliding_window: layers from max_window_layers on see the last sliding_window tokens only. */
weir_status wr_configure_late_window(const wr_config *config, wr_hyper *hyper, weir_error *err);
/* rope_theta from where configurations carry it. */
weir_status wr_configure_rope_base(const wr_config *config, double fallback, double *base, weir_error *err);
/* Fill hyper->rope[index] from rope_theta-like base and the config's rope_scaling (or default scaling). */
weir_status wr_configure_rope(const wr_config *config, wr_hyper *hyper, int index, double base, bool scaled,
                              weir_error *err);

#endif
