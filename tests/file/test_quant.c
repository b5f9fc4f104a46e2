/* Geometry of quantised weights. */
#include "fixture.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "file/mlx_quant.h"
#include "file/quant.h"

static void exactly_the_published_settings_are_valid(void **state) {
    (void)state;
    int affine = 0;
    for (int32_t group = 1; group <= 256; group++)
        for (int32_t bits = 1; bits <= 16; bits++)
            affine += wr_quant_valid((weir_quant){WEIR_QUANT_AFFINE, group, bits});
    assert_int_equal(affine, 3 * 6); /* groups 32, 64, 128; bits 2, 3, 4, 5, 6, 8 */
    assert_true(wr_quant_valid((weir_quant){WEIR_QUANT_AFFINE, 128, 5}));
    assert_false(wr_quant_valid((weir_quant){WEIR_QUANT_AFFINE, 64, 7}));
    assert_true(wr_quant_valid((weir_quant){WEIR_QUANT_NVFP4, 16, 4}));
    assert_false(wr_quant_valid((weir_quant){WEIR_QUANT_NVFP4, 32, 4}));
    assert_false(wr_quant_valid((weir_quant){WEIR_QUANT_MXFP8, 32, 4}));
    assert_false(wr_quant_valid((weir_quant){WEIR_QUANT_COUNT, 32, 4}));
    for (int mode = 0; mode < WEIR_QUANT_COUNT; mode++)
        assert_true(wr_quant_valid(wr_quant_default((weir_quant_mode)mode)));
}

/* Counted by hand: values * bits / 8, groups * bytes of a scale, blocks * bytes of a block. */
static void bytes_of_a_matrix_are_those_of_its_layout(void **state) {
    (void)state;
    static const struct {
        weir_quant quant;
        weir_dtype dtype;
        int64_t experts, rows, cols;
        size_t data, scales, biases;
    } rows[] = {
        {{WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_BF16, 1, 3, 5, 30, 0, 0},
        {{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16, 1, 2, 128, 128, 8, 8},
        {{WEIR_QUANT_AFFINE, 32, 3}, WEIR_DTYPE_F32, 2, 2, 64, 96, 32, 32},
        {{WEIR_QUANT_AFFINE, 128, 5}, WEIR_DTYPE_F16, 1, 1, 128, 80, 2, 2},
        {{WEIR_QUANT_MXFP4, 32, 4}, WEIR_DTYPE_U8, 1, 2, 64, 64, 4, 0},
        {{WEIR_QUANT_NVFP4, 16, 4}, WEIR_DTYPE_U8, 3, 2, 64, 192, 24, 0},
        {{WEIR_QUANT_MXFP8, 32, 8}, WEIR_DTYPE_U8, 1, 2, 64, 128, 4, 0},
        {{WEIR_QUANT_Q4_0, 32, 4}, WEIR_DTYPE_U8, 1, 2, 64, 72, 0, 0},
        {{WEIR_QUANT_Q6_K, 16, 6}, WEIR_DTYPE_U8, 1, 3, 512, 1260, 0, 0},
        {{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16, 1, 0, 64, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_error err;
        wr_quant_sizes sizes;
        assert_ok(
            wr_quant_bytes(rows[i].quant, rows[i].dtype, rows[i].experts, rows[i].rows, rows[i].cols, &sizes, &err));
        assert_int_equal(sizes.data, rows[i].data);
        assert_int_equal(sizes.scales, rows[i].scales);
        assert_int_equal(sizes.biases, rows[i].biases);
    }
}

static void impossible_matrices_are_refused(void **state) {
    (void)state;
    weir_error err;
    wr_quant_sizes sizes;
    weir_quant q4 = {WEIR_QUANT_AFFINE, 64, 4}, none = {WEIR_QUANT_NONE, 0, 0}, q6_k = {WEIR_QUANT_Q6_K, 16, 6};
    assert_int_equal(wr_quant_bytes(q4, WEIR_DTYPE_BF16, 1, 2, 96, &sizes, &err), WEIR_E_FORMAT);
    assert_int_equal(wr_quant_bytes(q6_k, WEIR_DTYPE_U8, 1, 2, 128, &sizes, &err), WEIR_E_FORMAT);
    assert_says(err, "a row of 128 values is not a multiple of 256, which q6_k needs");
    assert_int_equal(wr_quant_bytes(none, WEIR_DTYPE_F32, 1, INT64_MAX, 2, &sizes, &err), WEIR_E_LIMIT);
    assert_int_equal(wr_quant_bytes(none, WEIR_DTYPE_F32, INT64_MAX, INT64_MAX, 2, &sizes, &err), WEIR_E_LIMIT);
    assert_int_equal(wr_quant_bytes(none, WEIR_DTYPE_F32, 1, -1, 2, &sizes, &err), WEIR_E_ARGUMENT);
    assert_int_equal(wr_quant_bytes(none, WEIR_DTYPE_COUNT, 1, 1, 2, &sizes, &err), WEIR_E_ARGUMENT);
    q4.bits = 7;
    assert_int_equal(wr_quant_bytes(q4, WEIR_DTYPE_F32, 1, 1, 64, &sizes, &err), WEIR_E_ARGUMENT);
}

static void names_with_and_without_prefixes_meet(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"model.layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj"},
        {"layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj"},
        {"language_model.model.layers.0.x", "model.layers.0.x"},
        {"model.language_model.layers.0.x", "model.layers.0.x"},
        {"model.language_model.model.layers.0.x", "model.layers.0.x"},
        {"language_model.lm_head.weight", "lm_head.weight"},
        {"model.language_model.lm_head.weight", "lm_head.weight"},
        {"lm_head", "lm_head"},
        {"embed_tokens", "model.embed_tokens"},
        {"norm.weight", "model.norm.weight"},
        {"normal.weight", "normal.weight"},
        {"vision_tower.layers.0.x", "vision_tower.layers.0.x"},
        {"language_model.", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *name = wr_module_canonical(pairs[i][0]);
        assert_string_equal(name, pairs[i][1]);
        wr_free(name);
    }
}

/* With no expected width the settings decide between the geometries that fit. */
static void geometry_wins_over_settings(void **state) {
    (void)state;
    static const struct {
        int64_t words, groups, cols;
        int group, bits; /* 0: refused */
    } rows[] = {
        {16, 2, 128, 64, 4},      /* as the settings say */
        {16, 2, -1, 64, 4},       /* 16 * 32 / 2 = 256 = 64 * 4 */
        {32, 2, 128, 64, 8},      /* 8 bits, whatever the settings */
        {32, 2, -1, 64, 8},       /* 512 bits a group: the settings' 64 are kept */
        {12, 2, 128, 64, 3},      /* 192 bits a group */
        {12, 2, -1, 64, 3},       /* 192 bits: 64 of 3 */
        {16, 2, 64, 32, 8},       /* 64 values in 2 groups, 512 bits in 64 values */
        {16, 2, 0, 0, 0},         /* a model that expects no columns gets none */
        {16, 3, 128, 0, 0},       /* groups do not divide the row */
        {12, 1, -1, 64, 6},       /* 384 bits: 64 of 6 rather than 128 of 3 */
        {2, 1, -1, 0, 0},         /* 64 bits would be 64 of 1 or 16 of 4 */
        {20, 1, -1, 0, 0},        /* 640 bits would be 64 of 10 or 160 of 4 */
        {1, 1, -1, 0, 0},         /* 32 bits a group are too few */
        {0, 0, -1, 0, 0},         /* nothing stored */
        {INT64_MAX, 1, 64, 0, 0}, /* must not overflow */
    };
    static const char text[] = "{\"quantization\": {\"group_size\": 64, \"bits\": 4}}";
    weir_error err;
    wr_config *config;
    wr_mlx_quant *q;
    assert_ok(wr_config_parse(text, strlen(text), "config.json", &config, &err));
    assert_ok(wr_mlx_quant_new(config, &q, &err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wr_mlx_stored stored = {rows[i].words, rows[i].groups, rows[i].cols, false, true};
        weir_quant found;
        weir_status status = wr_mlx_quant_find(q, "m", &stored, &found, &err);
        assert_int_equal(status, rows[i].bits ? WEIR_OK : WEIR_E_FORMAT);
        if (!rows[i].bits) continue;
        assert_int_equal(found.mode, WEIR_QUANT_AFFINE);
        assert_int_equal(found.group_size, rows[i].group);
        assert_int_equal(found.bits, rows[i].bits);
    }
    wr_mlx_quant_free(q);
    wr_mlx_quant_free(NULL);
    wr_config_free(config);
}

static void settings_are_said_of_listed_modules_and_of_the_rest(void **state) {
    (void)state;
    static const char text[] =
        "{\"text_config\": {\"quantization\": {\"mode\": \"mxfp4\", \"layers.0.a\": {\"bits\": 8},"
        " \"model.layers.0.b\": false, \"language_model.model.layers.0.c\": true, \"note\": \"x\"}}}";
    weir_error err;
    wr_config *config;
    wr_mlx_quant *q;
    bool listed;
    weir_quant said;
    assert_ok(wr_config_parse(text, strlen(text), "config.json", &config, &err));
    assert_ok(wr_mlx_quant_new(config, &q, &err));
    assert_true(wr_mlx_quant_says(q, "model.layers.0.a", &listed, &said));
    assert_true(listed);
    assert_int_equal(said.mode, WEIR_QUANT_AFFINE); /* no mode means affine, also below another global mode */
    assert_int_equal(said.group_size, 64);
    assert_int_equal(said.bits, 8);
    assert_false(wr_mlx_quant_says(q, "model.layers.0.b", &listed, &said));
    assert_true(listed);
    assert_true(wr_mlx_quant_says(q, "model.layers.0.c", &listed, &said));
    assert_int_equal(said.mode, WEIR_QUANT_MXFP4);
    assert_true(wr_mlx_quant_says(q, "lm_head", &listed, &said));
    assert_false(listed);
    assert_int_equal(said.group_size, 32);
    wr_mlx_quant_free(q);
    wr_config_free(config);
    assert_ok(wr_config_parse("{}", 2, "config.json", &config, &err));
    assert_ok(wr_mlx_quant_new(config, &q, &err));
    assert_false(wr_mlx_quant_says(q, "lm_head", &listed, &said));
    wr_mlx_quant_free(q);
    wr_config_free(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_the_published_settings_are_valid),
        cmocka_unit_test(bytes_of_a_matrix_are_those_of_its_layout),
        cmocka_unit_test(impossible_matrices_are_refused),
        cmocka_unit_test(names_with_and_without_prefixes_meet),
        cmocka_unit_test(geometry_wins_over_settings),
        cmocka_unit_test(settings_are_said_of_listed_modules_and_of_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
