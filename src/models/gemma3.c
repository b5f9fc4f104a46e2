/* Gemma 3, text (Gemma Team 2025): four norms a layer with weights stored less
 * 1, norms of q and k, five windowed layers to one that sees everything, a RoPE
 * base for each kind, GELU, and embeddings scaled by sqrt(hidden_size). */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "models/layers.h"

/* Beyond wr_rules_common. */
static const wr_weight_rule rules[] = {
    {WR_SLOT_Q_NORM, "model.layers.%d.self_attn.q_norm.weight", WR_DIM_HEAD, WR_DIM_NONE, WR_ALWAYS},
    {WR_SLOT_K_NORM, "model.layers.%d.self_attn.k_norm.weight", WR_DIM_HEAD, WR_DIM_NONE, WR_ALWAYS},
    {WR_SLOT_ATTN_OUT_NORM, "model.layers.%d.post_attention_layernorm.weight", WR_DIM_HIDDEN, WR_DIM_NONE, WR_ALWAYS},
    {WR_SLOT_FFN_NORM, "model.layers.%d.pre_feedforward_layernorm.weight", WR_DIM_HIDDEN, WR_DIM_NONE, WR_ALWAYS},
    {WR_SLOT_FFN_OUT_NORM, "model.layers.%d.post_feedforward_layernorm.weight", WR_DIM_HIDDEN, WR_DIM_NONE, WR_ALWAYS},
    {0}};

enum { FULL, WINDOWED }; /* KV groups and ropes */

/* Which layers are windowed: a list, or every layer but each nth. */
static weir_status configure_layers(const wr_config *c, wr_hyper *h, weir_error *err) {
    int64_t pattern, n_types;
    WR_TRY(wr_config_int_or(c, "sliding_window_pattern", 1, WR_MAX_LAYERS, 6, &pattern, err));
    WR_TRY(wr_config_count(c, "layer_types", &n_types, err));
    if (n_types && n_types != h->n_layers)
        return WR_FAIL(err, WEIR_E_FORMAT, "layer_types has %lld entries for %lld layers", (long long)n_types,
                       (long long)h->n_layers);
    for (int64_t i = 0; i < h->n_layers; i++) {
        bool full = (i + 1) % pattern == 0;
        if (n_types) {
            const char *type;
            WR_TRY(wr_config_string_at(c, "layer_types", i, &type, err));
            full = !strcmp(type, "full_attention");
            if (!full && strcmp(type, "sliding_attention"))
                return WR_FAIL(err, WEIR_E_UNSUPPORTED, "layer_types[%lld] is \"%s\"", (long long)i, type);
        }
        h->layer_kv_group[i] = h->layer_rope[i] = full ? FULL : WINDOWED;
    }
    return WEIR_OK;
}

static weir_status configure(const wr_config *c, wr_hyper *h, weir_error *err) {
    WR_TRY(wr_configure_common(c, h, err));
    WR_TRY(configure_layers(c, h, err));
    h->n_kv_groups = h->n_ropes = 2;
    WR_TRY(wr_config_int_or(c, "sliding_window", 1, 1 << 26, 512, &h->window[WINDOWED], err));
    double scalar, base, local_base, softcap;
    WR_TRY(wr_config_float_or(c, "query_pre_attn_scalar", 1, 1e6, (double)h->head_dim, &scalar, err));
    h->attn_scale = (float)(1 / sqrt(scalar));
    WR_TRY(wr_config_float_or(c, "attn_logit_softcapping", 0, 1e6, 0, &softcap, err));
    h->attn_softcap = (float)softcap;
    WR_TRY(wr_config_float_or(c, "final_logit_softcapping", 0, 1e6, 0, &softcap, err));
    h->logit_softcap = (float)softcap;
    const char *activation;
    WR_TRY(wr_config_string_or(c, "hidden_activation", "gelu_pytorch_tanh", &activation, err));
    if (strcmp(activation, "gelu_pytorch_tanh"))
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "hidden_activation \"%s\"; gemma3 has gelu_pytorch_tanh", activation);
    h->gelu = true;
    bool bidirectional;
    WR_TRY(wr_config_bool_or(c, "use_bidirectional_attention", false, &bidirectional, err));
    if (bidirectional)
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "use_bidirectional_attention is true: an encoder, not a model of text");
    bool folded; /* GGUF files carry norm weights with the 1 already added */
    WR_TRY(wr_config_bool_or(c, "weir_norm_offset_folded", false, &folded, err));
    h->norm_offset = folded ? 0 : 1;
    /* The published implementations hold the scale in the weights' bf16. */
    h->embed_scale = wr_bf16_to_f32(wr_f32_to_bf16(sqrtf((float)h->hidden)));
    WR_TRY(wr_configure_rope_base(c, 1000000, &base, err));
    WR_TRY(wr_config_float_or(c, "rope_parameters.sliding_attention.rope_theta", 1, 1e12, 10000, &local_base, err));
    WR_TRY(wr_config_float_or(c, "rope_local_base_freq", 1, 1e12, local_base, &local_base, err));
    const char *local_type;
    WR_TRY(wr_config_string_or(c, "rope_parameters.sliding_attention.rope_type", "default", &local_type, err));
    if (strcmp(local_type, "default"))
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "rope scaling \"%s\" of windowed layers; gemma3 scales none there",
                       local_type);
    WR_TRY(wr_configure_rope(c, h, FULL, base, true, err));
    return wr_configure_rope(c, h, WINDOWED, local_base, false, err);
}

static weir_array *body(const wr_model *m, const wr_step_inputs *in) {
    wr_step_graph s;
    wr_step_graph_init(&s, m, in);
    weir_array *x = wr_layer_embed(&s);
    for (int64_t i = 0; i < m->hyper.n_layers; i++) {
        weir_array *y = wr_layer_attention(&s, i, wr_layer_norm(&s, i, WR_SLOT_ATTN_NORM, x));
        x = weir_add(x, wr_layer_norm_f32(&s, i, WR_SLOT_ATTN_OUT_NORM, y));
        y = wr_layer_mlp(&s, i, wr_layer_norm(&s, i, WR_SLOT_FFN_NORM, x));
        x = weir_add(x, wr_layer_norm_f32(&s, i, WR_SLOT_FFN_OUT_NORM, y));
    }
    return x;
}

static const char *const model_types[] = {"gemma3_text", "gemma3", NULL};
const wr_family wr_family_gemma3 = {"gemma3", model_types, rules, configure, body};
