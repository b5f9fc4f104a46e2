/* The presets: what the configurations published with these models say of the
 * architecture (Hugging Face: meta-llama/Llama-3.1-8B-Instruct, Qwen/Qwen3-8B,
 * Qwen/Qwen3-0.6B, Qwen/Qwen2.5-7B-Instruct, google/gemma-3-12b-it's text_config with
 * the defaults of its class written out, HuggingFaceTB/SmolLM2-135M-Instruct). */
#include "models/synth_presets.h"

const wr_synth_preset_row wr_synth_presets[] = {
    {"llama-3.1-8b", "Llama 3.1 8B: 32 layers, grouped heads, llama3 rope scaling",
     "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":128000,"
     "\"eos_token_id\":[128001,128008,128009],\"hidden_act\":\"silu\",\"hidden_size\":4096,"
     "\"intermediate_size\":14336,\"max_position_embeddings\":131072,\"mlp_bias\":false,\"model_type\":\"llama\","
     "\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-05,"
     "\"rope_scaling\":{\"factor\":8.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
     "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},\"rope_theta\":500000.0,"
     "\"tie_word_embeddings\":false,\"vocab_size\":128256}"},
    {"qwen3-8b", "Qwen3 8B: 36 layers, norms of q and k",
     "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":151643,"
     "\"eos_token_id\":151645,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":4096,"
     "\"intermediate_size\":12288,\"max_position_embeddings\":40960,\"max_window_layers\":36,"
     "\"model_type\":\"qwen3\",\"num_attention_heads\":32,\"num_hidden_layers\":36,\"num_key_value_heads\":8,"
     "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":1000000,\"sliding_window\":null,"
     "\"tie_word_embeddings\":false,\"use_sliding_window\":false,\"vocab_size\":151936}"},
    {"qwen3-0.6b", "Qwen3 0.6B: 28 layers, tied head, heads wider than the hidden size",
     "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":151643,"
     "\"eos_token_id\":151645,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":1024,"
     "\"intermediate_size\":3072,\"max_position_embeddings\":40960,\"max_window_layers\":28,"
     "\"model_type\":\"qwen3\",\"num_attention_heads\":16,\"num_hidden_layers\":28,\"num_key_value_heads\":8,"
     "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":1000000,\"sliding_window\":null,"
     "\"tie_word_embeddings\":true,\"use_sliding_window\":false,\"vocab_size\":151936}"},
    {"qwen2.5-7b", "Qwen2.5 7B: 28 layers, biases on q, k and v, group of 7 heads",
     "{\"architectures\":[\"Qwen2ForCausalLM\"],\"bos_token_id\":151643,\"eos_token_id\":151645,"
     "\"hidden_act\":\"silu\",\"hidden_size\":3584,\"intermediate_size\":18944,\"max_position_embeddings\":32768,"
     "\"max_window_layers\":28,\"model_type\":\"qwen2\",\"num_attention_heads\":28,\"num_hidden_layers\":28,"
     "\"num_key_value_heads\":4,\"rms_norm_eps\":1e-06,\"rope_theta\":1000000.0,\"sliding_window\":131072,"
     "\"tie_word_embeddings\":false,\"use_sliding_window\":false,\"vocab_size\":152064}"},
    {"gemma-3-12b", "Gemma 3 12B, text only: 48 layers, heads of 256, windowed layers",
     "{\"architectures\":[\"Gemma3ForCausalLM\"],\"attention_bias\":false,\"attn_logit_softcapping\":null,"
     "\"bos_token_id\":2,\"eos_token_id\":[1,106],\"final_logit_softcapping\":null,\"head_dim\":256,"
     "\"hidden_activation\":\"gelu_pytorch_tanh\",\"hidden_size\":3840,\"intermediate_size\":15360,"
     "\"max_position_embeddings\":131072,\"model_type\":\"gemma3_text\",\"num_attention_heads\":16,"
     "\"num_hidden_layers\":48,\"num_key_value_heads\":8,\"pad_token_id\":0,\"query_pre_attn_scalar\":256,"
     "\"rms_norm_eps\":1e-06,\"rope_local_base_freq\":10000,\"rope_scaling\":{\"factor\":8.0,"
     "\"rope_type\":\"linear\"},\"rope_theta\":1000000,\"sliding_window\":1024,\"sliding_window_pattern\":6,"
     "\"tie_word_embeddings\":true,\"vocab_size\":262208}"},
    {"smollm2-135m", "SmolLM2 135M: 30 layers, tied head, heads of 64",
     "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,\"bos_token_id\":1,\"eos_token_id\":2,"
     "\"hidden_act\":\"silu\",\"hidden_size\":576,\"intermediate_size\":1536,\"max_position_embeddings\":8192,"
     "\"mlp_bias\":false,\"model_type\":\"llama\",\"num_attention_heads\":9,\"num_hidden_layers\":30,"
     "\"num_key_value_heads\":3,\"pad_token_id\":2,\"rms_norm_eps\":1e-05,\"rope_scaling\":null,"
     "\"rope_theta\":100000,\"tie_word_embeddings\":true,\"vocab_size\":49152}"},
    {0}};
