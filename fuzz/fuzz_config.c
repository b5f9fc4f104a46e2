/* Configurations: the last 8 bytes choose a stored geometry, the rest is config.json. All
 * readers are asked for some keys, and the quantisation of some modules is looked up. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "file/config.h"
#include "file/mlx_quant.h"
#include "file/quant.h"

static void read_key(const wr_config *c, const char *key) {
    weir_error err;
    int64_t n;
    double real;
    bool flag;
    const char *text;
    if (wr_config_int(c, key, 1, 1 << 20, &n, &err) == WEIR_OK && (n < 1 || n > 1 << 20)) __builtin_trap();
    wr_config_float_or(c, key, 0, 1, 0.5, &real, &err);
    wr_config_bool_or(c, key, false, &flag, &err);
    wr_config_string_or(c, key, "", &text, &err);
    if (wr_config_count(c, key, &n, &err) != WEIR_OK) return;
    for (int64_t i = -1; i <= n && i < 16; i++) {
        int64_t value;
        wr_config_int_at(c, key, i, INT64_MIN, INT64_MAX, &value, &err);
        wr_config_float_at(c, key, i, -1, 1, &real, &err);
        wr_config_string_at(c, key, i, &text, &err);
    }
}

static void look_up(const wr_config *c, const uint8_t tail[8]) {
    static const char *const modules[] = {"lm_head", "model.embed_tokens", "model.layers.0.mlp.up_proj"};
    weir_error err;
    wr_mlx_quant *q;
    if (wr_mlx_quant_new(c, &q, &err) != WEIR_OK) return;
    for (int i = 0; i < 3; i++) {
        bool listed;
        weir_quant said, found;
        wr_mlx_quant_says(q, modules[i], &listed, &said);
        if (!wr_quant_valid(said)) __builtin_trap();
        wr_mlx_stored stored = {.words = tail[0] | (int64_t)tail[1] << 8 | (int64_t)((uint64_t)tail[6] << 56),
                                .groups = tail[2] | (int64_t)tail[3] << 8,
                                .cols = (tail[4] | (int64_t)tail[5] << 8) - 1,
                                .u8_scales = tail[7] & 1,
                                .biases = tail[7] & 2};
        if (wr_mlx_quant_find(q, modules[i], &stored, &found, &err) != WEIR_OK) continue;
        /* What was found must make the stored sizes. */
        wr_quant_sizes sizes;
        int64_t cols = stored.groups * found.group_size;
        if (wr_quant_bytes(found, WEIR_DTYPE_BF16, 1, 1, cols, &sizes, &err) != WEIR_OK) __builtin_trap();
        if (sizes.data != (size_t)stored.words * 4 || (stored.cols >= 0 && cols != stored.cols)) __builtin_trap();
    }
    wr_mlx_quant_free(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[] = {"a", "hidden_size", "rope_scaling.factor", "eos_token_id", "a.b.c", "..", ""};
    wr_config *c;
    weir_error err;
    uint8_t tail[8] = {0};
    if (size < 8) return 0;
    memcpy(tail, data + size - 8, 8);
    if (wr_config_parse((const char *)data, size - 8, "fuzz", &c, &err) == WEIR_OK) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) read_key(c, keys[i]);
        look_up(c, tail);
        wr_config_free(c);
    }
    if (memchr(data, 0, size)) {
        char *name = wr_module_canonical((const char *)data);
        wr_free(name);
    }
    return 0;
}
