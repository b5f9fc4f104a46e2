/* Owns the tables of quantisation geometry. */
#include "file/quant.h"

#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"

/* group_size and bits by mode. GGUF: the sub-block that shares one scale. */
static const int16_t fixed[WEIR_QUANT_COUNT][2] = {
    [WEIR_QUANT_AFFINE] = {64, 4}, [WEIR_QUANT_MXFP4] = {32, 4}, [WEIR_QUANT_NVFP4] = {16, 4},
    [WEIR_QUANT_MXFP8] = {32, 8},  [WEIR_QUANT_Q4_0] = {32, 4},  [WEIR_QUANT_Q4_1] = {32, 4},
    [WEIR_QUANT_Q5_0] = {32, 5},   [WEIR_QUANT_Q5_1] = {32, 5},  [WEIR_QUANT_Q8_0] = {32, 8},
    [WEIR_QUANT_Q2_K] = {16, 2},   [WEIR_QUANT_Q3_K] = {16, 3},  [WEIR_QUANT_Q4_K] = {32, 4},
    [WEIR_QUANT_Q5_K] = {32, 5},   [WEIR_QUANT_Q6_K] = {16, 6},
};

weir_quant wr_quant_default(weir_quant_mode mode) {
    weir_quant quant = {mode, 0, 0};
    if ((unsigned)mode < WEIR_QUANT_COUNT) {
        quant.group_size = fixed[mode][0];
        quant.bits = fixed[mode][1];
    }
    return quant;
}

bool wr_quant_mlx_mode(const char *name, weir_quant_mode *out) {
    for (int mode = WEIR_QUANT_AFFINE; mode <= WEIR_QUANT_MXFP8; mode++) {
        if (strcmp(name, weir_quant_name((weir_quant_mode)mode)) != 0) continue;
        *out = (weir_quant_mode)mode;
        return true;
    }
    return false;
}

bool wr_quant_valid(weir_quant quant) {
    int32_t group = quant.group_size, bits = quant.bits;
    if ((unsigned)quant.mode >= WEIR_QUANT_COUNT) return false;
    if (quant.mode == WEIR_QUANT_NONE) return true;
    if (quant.mode != WEIR_QUANT_AFFINE) return group == fixed[quant.mode][0] && bits == fixed[quant.mode][1];
    return (group == 32 || group == 64 || group == 128) && bits >= 2 && bits <= 8 && bits != 7;
}

weir_status wr_quant_bytes(weir_quant quant, weir_dtype dtype, int64_t experts, int64_t rows, int64_t cols,
                           wr_quant_sizes *out, weir_error *err) {
    *out = (wr_quant_sizes){0};
    if (!wr_quant_valid(quant))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "quantisation %s with group_size %d and bits %d does not exist",
                       weir_quant_name(quant.mode), (int)quant.group_size, (int)quant.bits);
    if (experts < 0 || rows < 0 || cols < 0)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "negative size [%lld, %lld, %lld]", (long long)experts, (long long)rows,
                       (long long)cols);
    size_t element = weir_dtype_bytes(dtype);
    bool uses_dtype = quant.mode == WEIR_QUANT_NONE || quant.mode == WEIR_QUANT_AFFINE;
    if (uses_dtype && element == 0) return WR_FAIL(err, WEIR_E_ARGUMENT, "unknown dtype %d", (int)dtype);
    int64_t step = wr_quant_is_gguf(quant.mode)    ? wr_quant_block_values(quant.mode)
                   : quant.mode == WEIR_QUANT_NONE ? 1
                                                   : quant.group_size;
    if (cols % step != 0)
        return WR_FAIL(err, WEIR_E_FORMAT, "a row of %lld values is not a multiple of %lld, which %s needs",
                       (long long)cols, (long long)step, weir_quant_name(quant.mode));
    /* Per row first: all MLX rows are whole words, because a group of 16 or more
     * values of 2 or more bits is. */
    size_t units = (size_t)(cols / step), data = 0, scales = 0, lines = 0;
    bool fits = wr_mul_size((size_t)experts, (size_t)rows, &lines);
    if (wr_quant_is_gguf(quant.mode)) {
        fits = fits && wr_mul_size(units, (size_t)wr_quant_block_bytes(quant.mode), &data);
    } else if (quant.mode == WEIR_QUANT_NONE) {
        fits = fits && wr_mul_size(units, element, &data);
    } else {
        fits = fits && wr_mul_size(units, (size_t)quant.group_size * (size_t)quant.bits / 8, &data) &&
               wr_mul_size(units, quant.mode == WEIR_QUANT_AFFINE ? element : 1, &scales);
    }
    fits = fits && wr_mul_size(data, lines, &out->data) && wr_mul_size(scales, lines, &out->scales);
    if (!fits)
        return WR_FAIL(err, WEIR_E_LIMIT, "size [%lld, %lld, %lld] overflows", (long long)experts, (long long)rows,
                       (long long)cols);
    if (quant.mode == WEIR_QUANT_AFFINE) out->biases = out->scales;
    return WEIR_OK;
}
