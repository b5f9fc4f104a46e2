/* Llama 2 and 3, Mistral, SmolLM: pre-norm transformer, SwiGLU, rotary
 * positions, grouped heads (Touvron et al. 2023; Jiang et al. 2023). */
#include "models/layers.h"

/* Beyond wr_rules_common. */
static const wr_weight_rule rules[] = {
    {WR_SLOT_FFN_NORM, "model.layers.%d.post_attention_layernorm.weight", WR_DIM_HIDDEN, WR_DIM_NONE, WR_ALWAYS}, {0}};

static weir_status configure(const wr_config *c, wr_hyper *h, weir_error *err) {
    WR_TRY(wr_configure_common(c, h, err));
    WR_TRY(wr_config_bool_or(c, "attention_bias", false, &h->qkv_bias, err));
    h->o_bias = h->qkv_bias;
    WR_TRY(wr_config_bool_or(c, "mlp_bias", false, &h->mlp_bias, err));
    WR_TRY(wr_configure_silu(c, err));
    WR_TRY(wr_config_int_or(c, "sliding_window", 1, 1 << 26, 0, &h->window[0], err));
    double base;
    WR_TRY(wr_configure_rope_base(c, 10000, &base, err));
    return wr_configure_rope(c, h, 0, base, true, err);
}

static const char *const model_types[] = {"llama", "mistral", NULL};
const wr_family wr_family_llama = {"llama", model_types, rules, configure, wr_body_pre_norm};
