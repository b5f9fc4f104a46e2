/* The list of model families, and the weight names that they share. */
#include "models/model.h"

extern const wr_family wr_family_llama, wr_family_qwen2, wr_family_qwen3, wr_family_gemma3;
const wr_family *const wr_families[] = {&wr_family_llama, &wr_family_qwen2, &wr_family_qwen3, &wr_family_gemma3, NULL};

const wr_weight_rule wr_rules_common[] = {
    {WR_SLOT_EMBED, "model.embed_tokens", WR_DIM_VOCAB, WR_DIM_HIDDEN, WR_ALWAYS},
    {WR_SLOT_FINAL_NORM, "model.norm.weight", WR_DIM_HIDDEN, WR_DIM_NONE, WR_ALWAYS},
    {WR_SLOT_HEAD, "lm_head", WR_DIM_VOCAB, WR_DIM_HIDDEN, WR_IF_UNTIED},
    {WR_SLOT_ATTN_NORM, "model.layers.%d.input_layernorm.weight", WR_DIM_HIDDEN, WR_DIM_NONE, WR_ALWAYS},
    {WR_SLOT_Q, "model.layers.%d.self_attn.q_proj", WR_DIM_Q, WR_DIM_HIDDEN, WR_ALWAYS},
    {WR_SLOT_K, "model.layers.%d.self_attn.k_proj", WR_DIM_KV, WR_DIM_HIDDEN, WR_ALWAYS},
    {WR_SLOT_V, "model.layers.%d.self_attn.v_proj", WR_DIM_KV, WR_DIM_HIDDEN, WR_ALWAYS},
    {WR_SLOT_O, "model.layers.%d.self_attn.o_proj", WR_DIM_HIDDEN, WR_DIM_Q, WR_ALWAYS},
    {WR_SLOT_Q_BIAS, "model.layers.%d.self_attn.q_proj.bias", WR_DIM_Q, WR_DIM_NONE, WR_IF_QKV_BIAS},
    {WR_SLOT_K_BIAS, "model.layers.%d.self_attn.k_proj.bias", WR_DIM_KV, WR_DIM_NONE, WR_IF_QKV_BIAS},
    {WR_SLOT_V_BIAS, "model.layers.%d.self_attn.v_proj.bias", WR_DIM_KV, WR_DIM_NONE, WR_IF_QKV_BIAS},
    {WR_SLOT_O_BIAS, "model.layers.%d.self_attn.o_proj.bias", WR_DIM_HIDDEN, WR_DIM_NONE, WR_IF_O_BIAS},
    {WR_SLOT_GATE, "model.layers.%d.mlp.gate_proj", WR_DIM_FFN, WR_DIM_HIDDEN, WR_ALWAYS},
    {WR_SLOT_UP, "model.layers.%d.mlp.up_proj", WR_DIM_FFN, WR_DIM_HIDDEN, WR_ALWAYS},
    {WR_SLOT_DOWN, "model.layers.%d.mlp.down_proj", WR_DIM_HIDDEN, WR_DIM_FFN, WR_ALWAYS},
    {WR_SLOT_GATE_BIAS, "model.layers.%d.mlp.gate_proj.bias", WR_DIM_FFN, WR_DIM_NONE, WR_IF_MLP_BIAS},
    {WR_SLOT_UP_BIAS, "model.layers.%d.mlp.up_proj.bias", WR_DIM_FFN, WR_DIM_NONE, WR_IF_MLP_BIAS},
    {WR_SLOT_DOWN_BIAS, "model.layers.%d.mlp.down_proj.bias", WR_DIM_HIDDEN, WR_DIM_NONE, WR_IF_MLP_BIAS},
    {0}};
