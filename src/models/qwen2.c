/* Qwen 2 and 2.5: the llama form with biases on q, k and v (Yang et al. 2024). */
#include "models/layers.h"

/* Beyond wr_rules_common. */
static const wr_weight_rule rules[] = {
    {WR_SLOT_FFN_NORM, "model.layers.%d.post_attention_layernorm.weight", WR_DIM_HIDDEN, WR_DIM_NONE, WR_ALWAYS}, {0}};

static weir_status configure(const wr_config *c, wr_hyper *h, weir_error *err) {
    WR_TRY(wr_configure_common(c, h, err));
    h->qkv_bias = true; /* by design, whatever the configuration says */
    WR_TRY(wr_configure_silu(c, err));
    WR_TRY(wr_configure_late_window(c, h, err));
    double base;
    WR_TRY(wr_configure_rope_base(c, 10000, &base, err));
    return wr_configure_rope(c, h, 0, base, true, err);
}

static const char *const model_types[] = {"qwen2", NULL};
const wr_family wr_family_qwen2 = {"qwen2", model_types, rules, configure, wr_body_pre_norm};
