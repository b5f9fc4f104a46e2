/* Qwen 3, dense: the llama form with a norm over each head of q and k and no
 * biases; head_dim is independent of hidden_size (Yang et al. 2025). */
#include "models/layers.h"

/* Beyond wr_rules_common. */
static const wr_weight_rule rules[] = {
    {WR_SLOT_FFN_NORM, "model.layers.%d.post_attention_layernorm.weight", WR_DIM_HIDDEN, WR_DIM_NONE, WR_ALWAYS},
    {WR_SLOT_Q_NORM, "model.layers.%d.self_attn.q_norm.weight", WR_DIM_HEAD, WR_DIM_NONE, WR_ALWAYS},
    {WR_SLOT_K_NORM, "model.layers.%d.self_attn.k_norm.weight", WR_DIM_HEAD, WR_DIM_NONE, WR_ALWAYS},
    {0}};

static weir_status configure(const wr_config *c, wr_hyper *h, weir_error *err) {
    WR_TRY(wr_configure_common(c, h, err));
    WR_TRY(wr_config_bool_or(c, "attention_bias", false, &h->qkv_bias, err));
    h->o_bias = h->qkv_bias;
    WR_TRY(wr_configure_silu(c, err));
    WR_TRY(wr_configure_late_window(c, h, err));
    double base;
    WR_TRY(wr_configure_rope_base(c, 1000000, &base, err));
    return wr_configure_rope(c, h, 0, base, true, err);
}

static const char *const model_types[] = {"qwen3", NULL};
const wr_family wr_family_qwen3 = {"qwen3", model_types, rules, configure, wr_body_pre_norm};
