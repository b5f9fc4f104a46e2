/* Reading of hyperparameters that most families share. Every value has bounds,
 * so an absurd configuration is refused by key and value before memory is taken. */
#include <math.h>
#include <string.h>

#include "models/layers.h"

weir_status wr_configure_common(const wr_config *c, wr_hyper *h, weir_error *err) {
    WR_TRY(wr_config_int(c, "vocab_size", 1, 1 << 24, &h->vocab, err));
    WR_TRY(wr_config_int(c, "hidden_size", 1, 1 << 20, &h->hidden, err));
    WR_TRY(wr_config_int(c, "num_hidden_layers", 1, WR_MAX_LAYERS, &h->n_layers, err));
    WR_TRY(wr_config_int(c, "num_attention_heads", 1, 4096, &h->n_heads, err));
    WR_TRY(wr_config_int_or(c, "num_key_value_heads", 1, h->n_heads, h->n_heads, &h->n_kv_heads, err));
    if (h->n_heads % h->n_kv_heads)
        return WR_FAIL(err, WEIR_E_FORMAT, "num_attention_heads %lld is not a multiple of num_key_value_heads %lld",
                       (long long)h->n_heads, (long long)h->n_kv_heads);
    if (!wr_config_has(c, "head_dim") && h->hidden % h->n_heads)
        return WR_FAIL(err, WEIR_E_FORMAT, "no head_dim, and hidden_size %lld is not a multiple of %lld heads",
                       (long long)h->hidden, (long long)h->n_heads);
    WR_TRY(wr_config_int_or(c, "head_dim", 2, 512, h->hidden / h->n_heads, &h->head_dim, err));
    if (h->head_dim > 512 || h->head_dim < 2 || h->head_dim % 2)
        return WR_FAIL(err, WEIR_E_FORMAT, "head_dim %lld: must be even and from 2 to 512", (long long)h->head_dim);
    WR_TRY(wr_config_int(c, "intermediate_size", 1, 1 << 22, &h->ffn, err));
    WR_TRY(wr_config_int_or(c, "max_position_embeddings", 1, 1 << 26, 2048, &h->max_positions, err));
    double eps;
    WR_TRY(wr_config_float_or(c, "rms_norm_eps", 0, 1, 1e-6, &eps, err));
    h->norm_eps = (float)eps;
    WR_TRY(wr_config_bool_or(c, "weir_rope_interleaved", false, &h->rope_interleaved, err));
    h->attn_scale = (float)(1 / sqrt((double)h->head_dim));
    h->embed_scale = 1;
    h->n_kv_groups = 1;
    h->n_ropes = 1;
    return WEIR_OK;
}

weir_status wr_configure_silu(const wr_config *c, weir_error *err) {
    const char *activation;
    WR_TRY(wr_config_string_or(c, "hidden_act", "silu", &activation, err));
    if (!strcmp(activation, "silu") || !strcmp(activation, "swish")) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "hidden_act \"%s\"; only silu is supported for this model_type",
                   activation);
}

weir_status wr_configure_late_window(const wr_config *c, wr_hyper *h, weir_error *err) {
    bool windowed;
    int64_t window, first;
    WR_TRY(wr_config_bool_or(c, "use_sliding_window", false, &windowed, err));
    if (!windowed) return WEIR_OK;
    WR_TRY(wr_config_int(c, "sliding_window", 1, 1 << 26, &window, err));
    WR_TRY(wr_config_int_or(c, "max_window_layers", 0, WR_MAX_LAYERS, 0, &first, err));
    if (first == 0) { /* every layer: one group is enough */
        h->window[0] = window;
    } else if (first < h->n_layers) {
        h->n_kv_groups = 2;
        h->window[1] = window;
        for (int64_t i = first; i < h->n_layers; i++) h->layer_kv_group[i] = 1;
    }
    return WEIR_OK;
}

weir_status wr_configure_rope_base(const wr_config *c, double fallback, double *base, weir_error *err) {
    WR_TRY(wr_config_float_or(c, "rope_parameters.rope_theta", 1, 1e12, fallback, base, err));
    WR_TRY(wr_config_float_or(c, "rope_parameters.full_attention.rope_theta", 1, 1e12, *base, base, err));
    return wr_config_float_or(c, "rope_theta", 1, 1e12, *base, base, err);
}

/* Config key of a rope parameter: in rope_scaling (the older form), or in rope_parameters, which has one object a kind
 * of layers in models with two kinds. */
static const char *rope_key(const wr_config *c, const char *name, char *buffer, size_t bytes) {
    static const char *const places[] = {"rope_scaling", "rope_parameters.full_attention", "rope_parameters"};
    size_t i = 0;
    while (i < 2 && !wr_config_has(c, places[i])) i++;
    snprintf(buffer, bytes, "%s.%s", places[i], name);
    return buffer;
}

static weir_status rope_float(const wr_config *c, const char *name, double fallback, double *out, weir_error *err) {
    char key[96];
    return wr_config_float_or(c, rope_key(c, name, key, sizeof key), 0, 1e9, fallback, out, err);
}

static weir_status rope_kind(const wr_config *c, weir_rope_kind *kind, weir_error *err) {
    static const struct {
        const char *name;
        weir_rope_kind kind;
    } kinds[] = {{"default", WEIR_ROPE_DEFAULT}, {"linear", WEIR_ROPE_LINEAR}, {"dynamic", WEIR_ROPE_DYNAMIC},
                 {"yarn", WEIR_ROPE_YARN},       {"llama3", WEIR_ROPE_LLAMA3}, {"longrope", WEIR_ROPE_LONGROPE},
                 {"su", WEIR_ROPE_LONGROPE}};
    char key[96];
    const char *name;
    WR_TRY(wr_config_string_or(c, rope_key(c, "type", key, sizeof key), "default", &name, err));
    WR_TRY(wr_config_string_or(c, rope_key(c, "rope_type", key, sizeof key), name, &name, err));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i].name)) {
            *kind = kinds[i].kind;
            return WEIR_OK;
        }
    return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                   "rope scaling \"%s\" is not known; supported: default, linear, dynamic, yarn, llama3, longrope",
                   name);
}

/* longrope publishes two lists of divisors, for contexts up to the original length and beyond it. */
static weir_status rope_factors(const wr_config *c, const wr_hyper *h, double original, int half, double *factors,
                                weir_error *err) {
    char key[96];
    rope_key(c, (double)h->max_positions > original ? "long_factor" : "short_factor", key, sizeof key);
    int64_t n;
    WR_TRY(wr_config_count(c, key, &n, err));
    if (n != half) return WR_FAIL(err, WEIR_E_FORMAT, "%s has %lld values, %d are needed", key, (long long)n, half);
    for (int i = 0; i < half; i++) WR_TRY(wr_config_float_at(c, key, i, 1e-6, 1e9, &factors[i], err));
    return WEIR_OK;
}

weir_status wr_configure_rope(const wr_config *c, wr_hyper *h, int index, double base, bool scaled, weir_error *err) {
    double partial, factors[WR_ROPE_MAX_HALF];
    WR_TRY(wr_config_float_or(c, "rope_parameters.partial_rotary_factor", 0, 1, 1, &partial, err));
    WR_TRY(wr_config_float_or(c, "partial_rotary_factor", 0, 1, partial, &partial, err));
    int dims = (int)((double)h->head_dim * partial) / 2 * 2;
    weir_rope_options o = {.base = base, .dims = dims};
    if (dims < 2) return WR_FAIL(err, WEIR_E_FORMAT, "partial_rotary_factor %g leaves no rotary dimension", partial);
    if (scaled) {
        WR_TRY(rope_kind(c, &o.kind, err));
        WR_TRY(rope_float(c, "factor", 0, &o.factor, err));
        if (o.factor == 0 && o.kind != WEIR_ROPE_DEFAULT && o.kind != WEIR_ROPE_LONGROPE)
            return WR_FAIL(err, WEIR_E_FORMAT, "the rope scaling has no factor, or factor 0; it must be above 0");
        WR_TRY(wr_config_float_or(c, "original_max_position_embeddings", 1, 1e9, (double)h->max_positions,
                                  &o.original_max_positions, err));
        WR_TRY(rope_float(c, "original_max_position_embeddings", o.original_max_positions, &o.original_max_positions,
                          err));
        WR_TRY(rope_float(c, "low_freq_factor", 1, &o.low_freq_factor, err));
        WR_TRY(rope_float(c, "high_freq_factor", 4, &o.high_freq_factor, err));
        WR_TRY(rope_float(c, "beta_fast", 32, &o.beta_fast, err));
        WR_TRY(rope_float(c, "beta_slow", 1, &o.beta_slow, err));
        WR_TRY(rope_float(c, "mscale", 0, &o.mscale, err));
        WR_TRY(rope_float(c, "mscale_all_dim", 0, &o.mscale_all_dim, err));
        WR_TRY(rope_float(c, "attention_factor", 0, &o.attention_factor, err));
        o.sequence_length = (double)h->max_positions;
        if (o.kind == WEIR_ROPE_LONGROPE) {
            WR_TRY(rope_factors(c, h, o.original_max_positions, dims / 2, factors, err));
            o.factors = factors;
        }
    }
    return wr_rope_frequencies(&o, h->head_dim, &h->rope[index], err);
}
