/* Checkpoints: names, quantisation, configuration and end tokens, of files that MLX, the
 * gguf package and the safetensors package wrote, and of real models. */
#include "fixture.h"

#include "file/checkpoint.h"
#include "file/config.h"
#include "file/gguf.h"
#include "file/safetensors.h"

static wr_checkpoint *open_valid(const char *name) {
    char path[512];
    weir_error err;
    wr_checkpoint *c;
    snprintf(path, sizeof path, "%s/%s", VALID, name);
    assert_ok(wr_checkpoint_open(path, &c, &err));
    assert_string_equal(wr_checkpoint_path(c), path);
    return c;
}

/* ---- MLX ---- */

static const wr_safetensors_tensor *stored_part(const wr_safetensors *st, const char *module, const char *part) {
    static const char *const prefixes[] = {"", "language_model.", "model.language_model."};
    for (int i = 0; i < 3; i++) {
        char name[256];
        const char *rest = i == 2 && strncmp(module, "model.", 6) == 0 ? module + 6 : module;
        snprintf(name, sizeof name, "%s%s.%s", prefixes[i], rest, part);
        const wr_safetensors_tensor *t = wr_safetensors_tensor_find(st, name);
        if (t) return t;
    }
    return NULL;
}

static void check_part(const wr_safetensors *st, const char *module, const char *part, const void *data, size_t bytes,
                       size_t element) {
    const wr_safetensors_tensor *t = stored_part(st, module, part);
    if (!t) {
        assert_null(data);
        assert_int_equal(bytes, 0);
        return;
    }
    assert_int_equal(bytes, t->bytes);
    assert_memory_equal(data, t->data, bytes);
    assert_int_equal((uintptr_t)data % element, 0);
}

/* exact: the model says how wide the matrix is; otherwise settings and geometry must do. */
static void check_module(wr_checkpoint *c, const wr_safetensors *st, const json_t *said, bool exact) {
    weir_error err;
    wr_weight w;
    const char *module = fixture_text(said, "module"), *mode = fixture_text(said, "mode");
    int64_t experts = fixture_int(said, "experts"), rows = fixture_int(said, "rows"), cols = fixture_int(said, "cols");
    assert_true(wr_checkpoint_has(c, module));
    assert_ok(wr_checkpoint_weight(c, module, exact ? experts : -1, exact ? rows : -1, exact ? cols : -1, &w, &err));
    assert_ok(wr_checkpoint_align(c, &w, &err));
    assert_string_equal(weir_quant_name(w.quant.mode), mode);
    assert_int_equal(w.experts, experts);
    assert_int_equal(w.rows, rows);
    assert_int_equal(w.cols, cols);
    bool dense = w.quant.mode == WEIR_QUANT_NONE;
    if (!dense) {
        assert_int_equal(w.quant.group_size, fixture_int(said, "group"));
        assert_int_equal(w.quant.bits, fixture_int(said, "bits"));
    }
    if (json_object_get(said, "dtype")) {
        static const char *const names[][2] = {{"bfloat16", "bf16"}, {"float16", "f16"}, {"float32", "f32"}};
        for (int i = 0; i < 3; i++)
            if (strcmp(fixture_text(said, "dtype"), names[i][0]) == 0)
                assert_string_equal(weir_dtype_name(w.dtype), names[i][1]);
    }
    size_t element = dense || w.quant.mode == WEIR_QUANT_AFFINE ? weir_dtype_bytes(w.dtype) : 1;
    check_part(st, module, "weight", w.data, w.data_bytes, dense ? element : 4);
    check_part(st, module, "scales", w.scales, w.scales_bytes, element);
    check_part(st, module, "biases", w.biases, w.biases_bytes, element);
    assert_null(w.global_scales);
    const json_t *factor = json_object_get(said, "factor");
    double wanted = factor ? json_real_value(factor) : 1;
    /* MLX's product is rounded to bf16 or f32 before the factor is measured. */
    assert_true(w.global_scale > wanted * (1 - 1e-6) && w.global_scale < wanted * (1 + 1e-6));
}

static void every_mlx_layout_and_setting_is_understood(void **state) {
    (void)state;
    weir_error err;
    wr_safetensors *st;
    json_t *said = fixture_json("mlx.json");
    wr_checkpoint *c = open_valid("mlx");
    assert_ok(wr_safetensors_open(VALID "/mlx", &st, &err));
    assert_true(json_array_size(said) > 40);
    for (size_t i = 0; i < json_array_size(said); i++) check_module(c, st, json_array_get(said, i), true);
    assert_ok(wr_checkpoint_all_used(c, &err));
    wr_checkpoint_close(c);
    /* Once more with the widths unknown. */
    c = open_valid("mlx");
    for (size_t i = 0; i < json_array_size(said); i++)
        if (!json_object_get(json_array_get(said, i), "needs_cols"))
            check_module(c, st, json_array_get(said, i), false);
    wr_checkpoint_close(c);
    /* MLX does not pad its headers, so the file itself is not aligned: the copies were needed. */
    assert_true((uintptr_t)wr_safetensors_tensor_at(st, 0)->data % 4 != 0);
    wr_safetensors_close(st);
    json_decref(said);
}

static void global_scales_of_experts_are_one_factor_each(void **state) {
    (void)state;
    /* [2, 1, 2] words and [2, 1, 1] scales of nvfp4, global scales 2688 and 5376: factors 1 and 2. */
    static const char header[] = "{\"m.global_scale\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                 "\"m.weight\":{\"dtype\":\"U32\",\"shape\":[2,1,2],\"data_offsets\":[8,24]},"
                                 "\"m.scales\":{\"dtype\":\"U8\",\"shape\":[2,1,1],\"data_offsets\":[24,26]}}";
    weir_error err;
    wr_checkpoint *c;
    wr_weight w;
    fixture_folder folder;
    fixture_folder_make(&folder);
    fixture_write(&folder, "config.json", "{}");
    FILE *file = fopen(fixture_write(&folder, "model.safetensors", ""), "wb");
    uint64_t length = sizeof header - 1;
    float scales[2] = {2688, 5376};
    char data[18] = {0};
    fwrite(&length, 8, 1, file);
    fwrite(header, 1, sizeof header - 1, file);
    fwrite(scales, 4, 2, file);
    fwrite(data, 1, sizeof data, file);
    assert_int_equal(fclose(file), 0);
    assert_ok(wr_checkpoint_open(folder.path, &c, &err));
    assert_ok(wr_checkpoint_weight(c, "m", 2, 1, 16, &w, &err));
    assert_ok(wr_checkpoint_align(c, &w, &err));
    assert_int_equal(w.quant.mode, WEIR_QUANT_NVFP4);
    assert_true(w.global_scale == 1 && w.global_scales[0] == 1 && w.global_scales[1] == 2);
    assert_ok(wr_checkpoint_all_used(c, &err));
    wr_checkpoint_close(c);
    fixture_folder_remove(&folder);
}

/* ---- used and unused ---- */

static void tensors_nobody_asked_for_are_named(void **state) {
    (void)state;
    weir_error err;
    wr_weight w;
    float values[4];
    wr_checkpoint *c = open_valid("sharded");
    assert_int_equal(wr_checkpoint_all_used(c, &err), WEIR_E_FORMAT);
    assert_says(err, "3 tensors do not belong to this kind of model: 'model.layers.1.w.weight', ");
    assert_ok(wr_checkpoint_weight(c, "model.layers.1.w", 1, 2, 2, &w, &err));
    assert_ok(wr_checkpoint_align(c, &w, &err));
    assert_ok(wr_checkpoint_vector(c, "model.layers.2.w.weight", 4, values, &err));
    assert_true(values[0] == 2 && values[3] == 2);
    assert_int_equal(wr_checkpoint_all_used(c, &err), WEIR_E_FORMAT);
    assert_says(err, "1 tensors do not belong to this kind of model: 'model.layers.3.w.weight'");
    wr_checkpoint_ignore(c, "model.layers.4.w.weight"); /* not there: no matter */
    assert_int_equal(wr_checkpoint_all_used(c, NULL), WEIR_E_FORMAT);
    wr_checkpoint_ignore(c, "model.layers.3.*");
    assert_ok(wr_checkpoint_all_used(c, &err));
    wr_checkpoint_close(c);
    wr_checkpoint_close(NULL);
}

static void a_refused_weight_does_not_count_as_used(void **state) {
    (void)state;
    weir_error err;
    wr_weight w;
    wr_checkpoint *c = open_valid("sharded");
    wr_checkpoint_ignore(c, "model.layers.2.w.weight");
    wr_checkpoint_ignore(c, "model.layers.3.w.weight");
    assert_int_equal(wr_checkpoint_weight(c, "model.layers.1.w", 1, 2, 3, &w, &err), WEIR_E_FORMAT);
    assert_says(err, "'model.layers.1.w.weight' is f32 [2, 2]; the model needs [2, 3]");
    assert_int_equal(wr_checkpoint_all_used(c, &err), WEIR_E_FORMAT);
    wr_checkpoint_close(c);
}

static void vectors_of_every_float_dtype_become_f32(void **state) {
    (void)state;
    /* 1.5, -2, 0.15625 in each dtype. */
    static const char header[] = "{\"f\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                                 "\"h\":{\"dtype\":\"F16\",\"shape\":[3,1],\"data_offsets\":[12,18]},"
                                 "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[18,24]},"
                                 "\"i\":{\"dtype\":\"I32\",\"shape\":[3],\"data_offsets\":[24,36]}}";
    const float wanted[3] = {1.5f, -2, 0.15625f};
    const uint16_t halves[6] = {0x3e00, 0xc000, 0x3100, 0x3fc0, 0xc000, 0x3e20};
    weir_error err;
    wr_checkpoint *c;
    fixture_folder folder;
    fixture_folder_make(&folder);
    fixture_write(&folder, "config.json", "{}");
    FILE *file = fopen(fixture_write(&folder, "model.safetensors", ""), "wb");
    uint64_t length = sizeof header - 1;
    char zeros[12] = {0};
    fwrite(&length, 8, 1, file);
    fwrite(header, 1, sizeof header - 1, file);
    fwrite(wanted, 4, 3, file);
    fwrite(halves, 2, 6, file);
    fwrite(zeros, 1, 12, file);
    assert_int_equal(fclose(file), 0);
    assert_ok(wr_checkpoint_open(folder.path, &c, &err));
    static const char *const names[] = {"f", "h", "b"};
    for (int i = 0; i < 3; i++) {
        float values[3] = {0};
        assert_ok(wr_checkpoint_vector(c, names[i], 3, values, &err));
        assert_memory_equal(values, wanted, sizeof wanted);
    }
    float values[3];
    assert_int_equal(wr_checkpoint_vector(c, "i", 3, values, &err), WEIR_E_UNSUPPORTED);
    assert_int_equal(wr_checkpoint_vector(c, "f", 2, values, &err), WEIR_E_FORMAT);
    wr_checkpoint_close(c);
    fixture_folder_remove(&folder);
}

/* ---- text ---- */

static void check_eos(const wr_checkpoint *c, const int32_t *wanted, size_t n_wanted) {
    weir_error err;
    int32_t ids[8];
    size_t n;
    assert_ok(wr_checkpoint_eos(c, ids, 8, &n, &err));
    assert_int_equal(n, n_wanted);
    assert_memory_equal(ids, wanted, n * sizeof *ids);
    /* A short buffer is not overrun, and n is still the whole number. */
    int32_t one[2] = {-5, -5};
    assert_ok(wr_checkpoint_eos(c, one, 1, &n, &err));
    assert_int_equal(one[1], -5);
    assert_true(n >= n_wanted);
}

static void end_tokens_are_the_union_of_all_that_name_them(void **state) {
    (void)state;
    wr_checkpoint *c = open_valid("mlx"); /* config 3 4, generation 4 5, tokenizer 9 */
    check_eos(c, (int32_t[]){3, 4, 5, 9}, 4);
    assert_string_equal(wr_checkpoint_chat_template(c), "plain");
    assert_non_null(wr_checkpoint_generation_config(c));
    assert_null(wr_checkpoint_gguf(c));
    wr_checkpoint_close(c);
    c = open_valid("sharded"); /* config 2; the tokenizer's </s> is 7 in tokenizer.json */
    check_eos(c, (int32_t[]){2, 7}, 2);
    assert_string_equal(wr_checkpoint_chat_template(c), "from jinja");
    assert_null(wr_checkpoint_generation_config(c));
    wr_checkpoint_close(c);
    c = open_valid("llama.gguf"); /* eos 3, eot 4, and the control token <|im_end|> is 2 */
    check_eos(c, (int32_t[]){3, 4, 2}, 3);
    assert_string_equal(wr_checkpoint_chat_template(c), "{{ messages }}");
    wr_checkpoint_close(c);
}

/* ---- GGUF ---- */

static void gguf_names_become_those_of_the_library_s_table(void **state) {
    (void)state;
    json_t *said = fixture_json("names.json");
    static const char *const models[] = {"llama", "qwen2", "qwen3", "gemma3"};
    for (int m = 0; m < 4; m++) {
        char file[32];
        int64_t n = 0;
        snprintf(file, sizeof file, "%s.gguf", models[m]);
        wr_checkpoint *c = open_valid(file);
        for (size_t i = 0; i < json_array_size(said); i++) {
            const json_t *entry = json_array_get(said, i);
            if (strcmp(fixture_text(entry, "model"), models[m]) != 0) continue;
            assert_true(wr_checkpoint_has_tensor(c, fixture_text(entry, "name")));
            assert_false(wr_checkpoint_has_tensor(c, fixture_text(entry, "stored")));
            n++;
        }
        if (m == 0) assert_true(wr_checkpoint_has_tensor(c, "rope_freqs.weight"));
        assert_int_equal(wr_checkpoint_n_tensors(c), n + (m == 0));
        wr_checkpoint_close(c);
    }
    json_decref(said);
}

static int64_t get_int(const wr_checkpoint *c, const char *key) {
    weir_error err;
    int64_t n;
    assert_ok(wr_config_int(wr_checkpoint_config(c), key, INT64_MIN, INT64_MAX, &n, &err));
    return n;
}

static double get_float(const wr_checkpoint *c, const char *key) {
    weir_error err;
    double x;
    assert_true(wr_config_has(wr_checkpoint_config(c), key));
    assert_ok(wr_config_float_or(wr_checkpoint_config(c), key, -1e308, 1e308, 0, &x, &err));
    return x;
}

static bool get_bool(const wr_checkpoint *c, const char *key) {
    weir_error err;
    bool flag;
    assert_ok(wr_config_bool_or(wr_checkpoint_config(c), key, false, &flag, &err));
    return flag;
}

static const char *get_text(const wr_checkpoint *c, const char *key) {
    weir_error err;
    const char *text;
    assert_ok(wr_config_string_or(wr_checkpoint_config(c), key, "", &text, &err));
    return text;
}

/* The values are those that tools/make_file_fixtures.py gave to the writer. */
static void gguf_metadata_becomes_a_configuration(void **state) {
    (void)state;
    static const char *const models[] = {"llama", "qwen2", "qwen3", "gemma3"};
    for (int m = 0; m < 4; m++) {
        char file[32];
        snprintf(file, sizeof file, "%s.gguf", models[m]);
        wr_checkpoint *c = open_valid(file);
        assert_string_equal(get_text(c, "model_type"), m == 3 ? "gemma3_text" : models[m]);
        assert_int_equal(get_int(c, "num_hidden_layers"), 1);
        assert_int_equal(get_int(c, "max_position_embeddings"), 4096);
        assert_int_equal(get_int(c, "hidden_size"), 16);
        assert_int_equal(get_int(c, "intermediate_size"), 24);
        assert_int_equal(get_int(c, "num_attention_heads"), 4);
        assert_int_equal(get_int(c, "num_key_value_heads"), 2);
        assert_int_equal(get_int(c, "head_dim"), m >= 2 ? 8 : 16 / 4);
        assert_int_equal(get_int(c, "vocab_size"), 5);
        assert_true(get_float(c, "rms_norm_eps") == 0.03125);
        assert_true(get_float(c, "rope_theta") == 50000);
        assert_int_equal(get_bool(c, "tie_word_embeddings"), m == 3);
        assert_int_equal(get_bool(c, "attention_bias"), m == 1);
        assert_int_equal(get_bool(c, "weir_rope_interleaved"), m == 0);
        assert_int_equal(get_bool(c, "weir_norm_offset_folded"), m == 3);
        assert_int_equal(wr_config_has(wr_checkpoint_config(c), "rope_scaling"), m >= 2);
        if (m == 2) {
            assert_string_equal(get_text(c, "rope_scaling.rope_type"), "yarn");
            assert_true(get_float(c, "rope_scaling.factor") == 4);
            assert_int_equal(get_int(c, "rope_scaling.original_max_position_embeddings"), 1024);
        }
        if (m == 3) {
            assert_string_equal(get_text(c, "rope_scaling.rope_type"), "linear");
            assert_true(get_float(c, "rope_scaling.factor") == 8);
            assert_int_equal(get_int(c, "sliding_window"), 512);
            assert_int_equal(get_int(c, "sliding_window_pattern"), 6);
            assert_int_equal(get_int(c, "query_pre_attn_scalar"), 8);
            assert_true(get_float(c, "rope_local_base_freq") == 10000);
            assert_string_equal(get_text(c, "hidden_activation"), "gelu_pytorch_tanh");
        }
        wr_checkpoint_close(c);
    }
}

/* ---- real models: numbers from their model cards ---- */

static void smollm2_is_a_llama_of_its_published_shape(void **state) {
    (void)state;
    weir_error err;
    wr_checkpoint *c;
    wr_weight w;
    wr_tensor_info info;
    const char *path = fixture_model("SmolLM2-135M-Instruct.Q4_1.gguf");
    assert_non_null(path);
    assert_ok(wr_checkpoint_open(path, &c, &err));
    assert_string_equal(get_text(c, "model_type"), "llama");
    assert_int_equal(get_int(c, "hidden_size"), 576);
    assert_int_equal(get_int(c, "num_hidden_layers"), 30);
    assert_int_equal(get_int(c, "head_dim"), 64);
    assert_int_equal(get_int(c, "vocab_size"), 49152);
    assert_true(get_float(c, "rope_theta") == 100000);
    assert_int_equal(wr_checkpoint_n_tensors(c), 272);
    int counts[WEIR_QUANT_COUNT] = {0};
    size_t bytes = 0;
    for (int64_t i = 0; i < 272; i++) {
        wr_checkpoint_tensor(c, i, &info);
        for (int mode = 0; mode < WEIR_QUANT_COUNT; mode++)
            counts[mode] += strcmp(info.format, weir_quant_name((weir_quant_mode)mode)) == 0;
        bytes += info.bytes;
    }
    assert_int_equal(counts[WEIR_QUANT_Q4_1], 210);
    assert_int_equal(counts[WEIR_QUANT_Q8_0], 1);
    assert_true(bytes < 98362432 && bytes > 95000000); /* of the file's bytes, the rest is metadata */
    assert_ok(wr_checkpoint_weight(c, "model.layers.29.self_attn.k_proj", 1, 192, 576, &w, &err));
    assert_int_equal(w.quant.mode, WEIR_QUANT_Q4_1);
    assert_int_equal(w.data_bytes, 192 * 576 / 32 * 20);
    assert_false(wr_checkpoint_has(c, "lm_head"));
    assert_non_null(strstr(wr_checkpoint_chat_template(c), "<|im_start|>"));
    check_eos(c, (int32_t[]){2, 0}, 2);
    wr_checkpoint_close(c);
}

static void gemma3_has_its_windows_bases_and_four_norms(void **state) {
    (void)state;
    weir_error err;
    wr_checkpoint *c;
    float norm[640];
    const char *path = fixture_model("gemma-3-270m-q4_k_m.gguf");
    if (!path) skip();
    assert_ok(wr_checkpoint_open(path, &c, &err));
    assert_string_equal(get_text(c, "model_type"), "gemma3_text");
    assert_int_equal(get_int(c, "head_dim"), 256);
    assert_int_equal(get_int(c, "num_key_value_heads"), 1);
    assert_int_equal(get_int(c, "sliding_window"), 512);
    assert_int_equal(get_int(c, "query_pre_attn_scalar"), 256);
    assert_int_equal(get_int(c, "vocab_size"), 262144);
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                        "post_feedforward_layernorm"};
    for (int i = 0; i < 4; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.17.%s.weight", norms[i]);
        assert_ok(wr_checkpoint_vector(c, name, 640, norm, &err));
    }
    assert_null(wr_checkpoint_chat_template(c));
    wr_checkpoint_close(c);
}

static void qwen2_has_biases_and_its_own_head(void **state) {
    (void)state;
    weir_error err;
    wr_checkpoint *c;
    wr_weight w;
    float bias[128];
    const char *path = fixture_model("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf");
    if (!path) skip();
    assert_ok(wr_checkpoint_open(path, &c, &err));
    assert_string_equal(get_text(c, "model_type"), "qwen2");
    assert_true(get_bool(c, "attention_bias"));
    assert_false(get_bool(c, "tie_word_embeddings"));
    assert_ok(wr_checkpoint_weight(c, "lm_head", 1, 151936, 896, &w, &err));
    assert_int_equal(w.quant.mode, WEIR_QUANT_Q8_0);
    assert_ok(wr_checkpoint_vector(c, "model.layers.23.self_attn.k_proj.bias", 128, bias, &err));
    check_eos(c, (int32_t[]){151645, 151643}, 2); /* as the published generation_config.json says */
    wr_checkpoint_close(c);
}

static void one_weight_file_alone_is_not_a_model(void **state) {
    (void)state;
    weir_error err;
    wr_checkpoint *c;
    assert_int_equal(wr_checkpoint_open(VALID "/mlx/model.safetensors", &c, &err), WEIR_E_ARGUMENT);
    assert_says(err, "name the folder");
    assert_null(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mlx_layout_and_setting_is_understood),
        cmocka_unit_test(global_scales_of_experts_are_one_factor_each),
        cmocka_unit_test(tensors_nobody_asked_for_are_named),
        cmocka_unit_test(a_refused_weight_does_not_count_as_used),
        cmocka_unit_test(vectors_of_every_float_dtype_become_f32),
        cmocka_unit_test(end_tokens_are_the_union_of_all_that_name_them),
        cmocka_unit_test(gguf_names_become_those_of_the_library_s_table),
        cmocka_unit_test(gguf_metadata_becomes_a_configuration),
        cmocka_unit_test(smollm2_is_a_llama_of_its_published_shape),
        cmocka_unit_test(gemma3_has_its_windows_bases_and_four_norms),
        cmocka_unit_test(qwen2_has_biases_and_its_own_head),
        cmocka_unit_test(one_weight_file_alone_is_not_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
