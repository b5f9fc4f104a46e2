/* Owns the tables from GGUF's names to Hugging Face's. */
#include "file/gguf_hf.h"

#include <inttypes.h>
#include <string.h>

#include "file/json.h"

/* ---- tensor names ---- */

typedef struct name_pair {
    const char *gguf, *hf;
} name_pair;

static const name_pair whole[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};
static const name_pair in_layer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_norm", "post_attention_layernorm"},
};
/* Gemma 3 has four norms a layer, and its ffn_norm is another one. */
static const name_pair in_gemma_layer[] = {
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

static const char *look_up(const name_pair *pairs, size_t n, const char *text, size_t bytes) {
    for (size_t i = 0; i < n; i++)
        if (strlen(pairs[i].gguf) == bytes && memcmp(pairs[i].gguf, text, bytes) == 0) return pairs[i].hf;
    return NULL;
}
#define LOOK_UP(pairs, text, bytes) look_up(pairs, sizeof(pairs) / sizeof *(pairs), text, bytes)

static bool is_architecture(const wr_gguf *g, const char *name) {
    const char *text;
    size_t bytes;
    return wr_gguf_string(g, "general.architecture", &text, &bytes) && bytes == strlen(name) &&
           memcmp(text, name, bytes) == 0;
}

weir_status wr_gguf_hf_name(const wr_gguf *g, const char *stored, char *out, size_t cap, weir_error *err) {
    const char *dot = strrchr(stored, '.'), *hf = NULL;
    int layer = -1, used = 0, n;
    /* At most six digits, so that a layer number cannot overflow. */
    if (dot && sscanf(stored, "blk.%6d.%n", &layer, &used) == 1 && used > 0 && layer >= 0 && stored + used < dot) {
        size_t bytes = (size_t)(dot - stored) - (size_t)used;
        if (is_architecture(g, "gemma3")) hf = LOOK_UP(in_gemma_layer, stored + used, bytes);
        if (!hf) hf = LOOK_UP(in_layer, stored + used, bytes);
    } else if (dot) {
        hf = LOOK_UP(whole, stored, (size_t)(dot - stored));
        layer = -1;
    }
    if (hf && layer >= 0)
        n = snprintf(out, cap, "model.layers.%d.%s%s", layer, hf, dot);
    else if (hf)
        n = snprintf(out, cap, "%s%s", hf, dot);
    else
        n = snprintf(out, cap, "%s", stored);
    if (n < 0 || (size_t)n >= cap) return WR_FAIL(err, WEIR_E_LIMIT, "the tensor name '%s' is too long", stored);
    return WEIR_OK;
}

/* ---- configuration ---- */

/* A configuration being made. The first failed allocation is remembered. */
typedef struct maker {
    const wr_gguf *g;
    json_t *root;
    const char *architecture;
    bool failed;
} maker;

static void put(maker *m, const char *key, json_t *value /* take */) {
    if (!value || json_object_set_new(m->root, key, value) != 0) m->failed = true;
}

static const char *full_key(const maker *m, const char *key, char buffer[128]) {
    snprintf(buffer, 128, "%s.%s", m->architecture, key);
    return buffer;
}

/* A number a layer of equal values counts as one number. */
static bool get_int(const maker *m, const char *key, int64_t *out) {
    char full[128];
    wr_gguf_type type;
    int64_t n, value;
    full_key(m, key, full);
    if (wr_gguf_int(m->g, full, out)) return true;
    if (!wr_gguf_array(m->g, full, &type, &n) || n < 1 || !wr_gguf_array_int(m->g, full, 0, out)) return false;
    for (int64_t i = 1; i < n; i++)
        if (!wr_gguf_array_int(m->g, full, i, &value) || value != *out) return false;
    return true;
}

static bool get_float(const maker *m, const char *key, double *out) {
    char full[128];
    return wr_gguf_float(m->g, full_key(m, key, full), out);
}

static void copy_int(maker *m, const char *from, const char *to) {
    int64_t value;
    if (get_int(m, from, &value)) put(m, to, json_integer(value));
}

static void copy_float(maker *m, const char *from, const char *to) {
    double value;
    /* JSON has no NaN or infinity: such a value counts as absent. */
    if (get_float(m, from, &value)) {
        json_t *number = json_real(value);
        if (number)
            put(m, to, number);
        else if (value - value == 0)
            m->failed = true;
    }
}

static void put_real(maker *m, const char *key, double value) { put(m, key, json_real(value)); }

static void put_rope_scaling(maker *m) {
    char key[128];
    const char *text;
    size_t bytes;
    double factor = 0;
    int64_t original;
    bool yarn = false, linear = false;
    if (wr_gguf_string(m->g, full_key(m, "rope.scaling.type", key), &text, &bytes)) {
        yarn = bytes == 4 && memcmp(text, "yarn", 4) == 0;
        linear = bytes == 6 && memcmp(text, "linear", 6) == 0;
        if (!yarn && !linear && !(bytes == 4 && memcmp(text, "none", 4) == 0)) {
            /* Named as it is, so that the model refuses it by name. */
            json_t *kind = json_stringn(text, bytes);
            put(m, "rope_scaling", json_pack("{s:o}", "rope_type", kind ? kind : json_string("?")));
            return;
        }
    } else if (get_float(m, "rope.scale_linear", &factor)) {
        linear = factor != 1; /* the older key */
    }
    if (!yarn && !linear) return;
    json_t *scaling = json_pack("{s:s}", "rope_type", yarn ? "yarn" : "linear");
    if (!scaling) {
        m->failed = true;
        return;
    }
    maker inner = {m->g, scaling, m->architecture, false};
    if (factor != 0) put_real(&inner, "factor", factor);
    copy_float(&inner, "rope.scaling.factor", "factor");
    if (get_int(m, "rope.scaling.original_context_length", &original))
        put(&inner, "original_max_position_embeddings", json_integer(original));
    copy_float(&inner, "rope.scaling.attn_factor", "attention_factor");
    copy_float(&inner, "rope.scaling.yarn_beta_fast", "beta_fast");
    copy_float(&inner, "rope.scaling.yarn_beta_slow", "beta_slow");
    m->failed = m->failed || inner.failed;
    put(m, "rope_scaling", scaling);
}

static void put_gemma3(maker *m, int64_t head_dim, int64_t hidden, int64_t heads) {
    int64_t layers = 0, pattern = 6;
    put(m, "hidden_activation", json_string("gelu_pytorch_tanh"));
    put_real(m, "rope_local_base_freq", 10000);
    copy_float(m, "rope.freq_base_swa", "rope_local_base_freq");
    copy_int(m, "attention.sliding_window", "sliding_window");
    get_int(m, "attention.sliding_window_pattern", &pattern);
    put(m, "sliding_window_pattern", json_integer(pattern));
    copy_float(m, "final_logit_softcapping", "final_logit_softcapping");
    /* The metadata does not hold it. It is the head size, except in the 27B model (62
     * layers), where it is hidden_size / heads. */
    bool is_27b = get_int(m, "block_count", &layers) && layers == 62 && heads > 0;
    put(m, "query_pre_attn_scalar", json_integer(is_27b ? hidden / heads : head_dim));
    put(m, "weir_norm_offset_folded", json_true());
}

static void put_token_ids(maker *m) {
    int64_t id;
    if (wr_gguf_int(m->g, "tokenizer.ggml.bos_token_id", &id)) put(m, "bos_token_id", json_integer(id));
    if (wr_gguf_int(m->g, "tokenizer.ggml.padding_token_id", &id)) put(m, "pad_token_id", json_integer(id));
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (wr_gguf_int(m->g, ends[i], &id) && json_array_append_new(list, json_integer(id)) != 0) m->failed = true;
    put(m, "eos_token_id", list);
}

static void fill(maker *m) {
    int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
    wr_gguf_type type;
    bool gemma = strcmp(m->architecture, "gemma3") == 0;
    put(m, "model_type", json_string(gemma ? "gemma3_text" : m->architecture));
    copy_int(m, "embedding_length", "hidden_size");
    copy_int(m, "block_count", "num_hidden_layers");
    copy_int(m, "attention.head_count", "num_attention_heads");
    copy_int(m, "feed_forward_length", "intermediate_size");
    copy_int(m, "context_length", "max_position_embeddings");
    copy_float(m, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
    put_real(m, "rope_theta", gemma ? 1000000 : 10000);
    copy_float(m, "rope.freq_base", "rope_theta");
    bool has_sizes = get_int(m, "embedding_length", &hidden) && get_int(m, "attention.head_count", &heads);
    if (get_int(m, "attention.head_count_kv", &kv_heads))
        put(m, "num_key_value_heads", json_integer(kv_heads));
    else if (has_sizes)
        put(m, "num_key_value_heads", json_integer(heads));
    if (!get_int(m, "attention.key_length", &head_dim) && has_sizes && heads > 0) head_dim = hidden / heads;
    put(m, "head_dim", json_integer(head_dim));
    if (wr_gguf_array(m->g, "tokenizer.ggml.tokens", &type, &vocab) && type == WR_GGUF_STRING)
        put(m, "vocab_size", json_integer(vocab));
    else
        copy_int(m, "vocab_size", "vocab_size");
    put(m, "tie_word_embeddings", json_boolean(!wr_gguf_tensor_find(m->g, "output.weight")));
    put(m, "attention_bias", json_boolean(wr_gguf_tensor_find(m->g, "blk.0.attn_q.bias") != NULL));
    put_rope_scaling(m);
    put_token_ids(m);
    if (gemma)
        put_gemma3(m, head_dim, hidden, heads);
    else
        put(m, "hidden_act", json_string("silu"));
    if (strcmp(m->architecture, "llama") == 0) put(m, "weir_rope_interleaved", json_true());
}

weir_status wr_gguf_hf_config(const wr_gguf *g, const char *name, wr_config **out, weir_error *err) {
    static const char *const known[] = {"llama", "qwen2", "qwen3", "gemma3"};
    *out = NULL;
    wr_json_setup();
    maker m = {g, NULL, NULL, false};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is_architecture(g, known[i])) m.architecture = known[i];
    if (!m.architecture) {
        const char *text;
        size_t bytes;
        if (!wr_gguf_string(g, "general.architecture", &text, &bytes))
            return WR_FAIL(err, WEIR_E_FORMAT, "%s has no general.architecture", name);
        json_t *shown_value = json_stringn(text, bytes);
        char shown[64];
        wr_json_show(shown_value, shown, sizeof shown);
        json_decref(shown_value);
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "%s: the architecture %s is not supported (llama, qwen2, qwen3 and "
                       "gemma3 are)",
                       name, shown);
    }
    m.root = json_object();
    if (m.root) fill(&m);
    if (!m.root || m.failed) {
        json_decref(m.root);
        return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for its configuration", name);
    }
    return wr_config_make(m.root, name, out, err);
}
