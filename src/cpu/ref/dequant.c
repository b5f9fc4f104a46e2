/* Dequantisation of every published format, a row at a time. Written from the formats' descriptions (MLX 0.32, ggml);
 * tests/cpu/test_ref_quant.c compares it bit for bit with MLX and with the gguf package. */
#include "cpu/ref/dequant.h"

#include "base/dtype.h"
#include "cpu/ref/util.h"
#include "cpu/rows.h"

static uint32_t le16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t le32(const uint8_t *p) { return le16(p) | le16(p + 2) << 16; }
static float f16_at(const uint8_t *p) { return wr_f16_to_f32((uint16_t)le16(p)); }

/* GGUF blocks of 32 values: [d] [m]? [32 high bits]? [16 bytes: low nibble is value i, high nibble value i + 16]. */
static void block_q4_0(const uint8_t *b, float *out) {
    float d = f16_at(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((b[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}
static void block_q4_1(const uint8_t *b, float *out) {
    float d = f16_at(b), m = f16_at(b + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(b[4 + i] & 15) + m;
        out[i + 16] = d * (float)(b[4 + i] >> 4) + m;
    }
}
static void block_q5_0(const uint8_t *b, float *out) {
    float d = f16_at(b);
    uint32_t high = le32(b + 2);
    for (int i = 0; i < 16; i++) {
        int low_q = (b[6 + i] & 15) | (int)(high >> i & 1) << 4;
        int high_q = (b[6 + i] >> 4) | (int)(high >> (i + 16) & 1) << 4;
        out[i] = d * (float)(low_q - 16);
        out[i + 16] = d * (float)(high_q - 16);
    }
}
static void block_q5_1(const uint8_t *b, float *out) {
    float d = f16_at(b), m = f16_at(b + 2);
    uint32_t high = le32(b + 4);
    for (int i = 0; i < 16; i++) {
        int low_q = (b[8 + i] & 15) | (int)(high >> i & 1) << 4;
        int high_q = (b[8 + i] >> 4) | (int)(high >> (i + 16) & 1) << 4;
        out[i] = d * (float)low_q + m;
        out[i + 16] = d * (float)high_q + m;
    }
}
static void block_q8_0(const uint8_t *b, float *out) {
    float d = f16_at(b);
    for (int i = 0; i < 32; i++) out[i] = d * (float)(int8_t)b[2 + i];
}

/* K-quants: blocks of 256 values in sub-blocks with small integer scales. */

/* Q2_K: 16 bytes (low nibble scale, high nibble min, per 16 values), 64 bytes of 2-bit values, d, dmin. Values of one
 * 128-half share 32 bytes: two bits for each of four runs of 32. */
static void block_q2_k(const uint8_t *b, float *out) {
    float d = f16_at(b + 80), dmin = f16_at(b + 82);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, run = i % 128 / 32, at = i % 32;
        int q = b[16 + half * 32 + at] >> (2 * run) & 3;
        uint8_t s = b[i / 16];
        out[i] = d * (float)(s & 15) * (float)q - dmin * (float)(s >> 4);
    }
}

/* Q3_K: 32 bytes of high bits (bit i/32 of byte i%32; set: the value is not lowered by 4), 64 bytes of low 2 bits as in
 * Q2_K, 12 bytes of sixteen 6-bit scales offset by 32, d. */
static void block_q3_k(const uint8_t *b, float *out) {
    const uint8_t *s = b + 96;
    float d = f16_at(b + 108);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, run = i % 128 / 32, at = i % 32, j = i / 16;
        int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
        int high = s[8 + j % 4] >> (2 * (j / 4)) & 3;
        int scale = (low | high << 4) - 32;
        int q = (b[32 + half * 32 + at] >> (2 * run) & 3) - (b[at] >> (i / 32) & 1 ? 0 : 4);
        out[i] = d * (float)scale * (float)q;
    }
}

/* The eight 6-bit scales and mins of Q4_K and Q5_K in 12 bytes: the first four of each in the low 6 bits of bytes 0-3
 * and 4-7; the others' low nibbles in bytes 8-11 and their high 2 bits on top of bytes 0-3 and 4-7. */
static void scale_min(const uint8_t *s, int j, int *scale, int *min) {
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}
static void block_q4_k(const uint8_t *b, float *out) {
    float d = f16_at(b), dmin = f16_at(b + 2);
    for (int i = 0; i < 256; i++) {
        int j = i / 32, scale, min;
        scale_min(b + 4, j, &scale, &min);
        uint8_t byte = b[16 + j / 2 * 32 + i % 32];
        int q = j % 2 ? byte >> 4 : byte & 15;
        out[i] = d * (float)scale * (float)q - dmin * (float)min;
    }
}
/* Q5_K: as Q4_K with 32 bytes of high bits (bit i/32 of byte i%32) before the nibbles. */
static void block_q5_k(const uint8_t *b, float *out) {
    float d = f16_at(b), dmin = f16_at(b + 2);
    for (int i = 0; i < 256; i++) {
        int j = i / 32, scale, min;
        scale_min(b + 4, j, &scale, &min);
        uint8_t byte = b[48 + j / 2 * 32 + i % 32];
        int q = (j % 2 ? byte >> 4 : byte & 15) | (b[16 + i % 32] >> j & 1) << 4;
        out[i] = d * (float)scale * (float)q - dmin * (float)min;
    }
}
/* Q6_K: 128 bytes of low nibbles, 64 of high 2 bits, 16 signed scales, d. In a 128-half the runs of 32 take the low
 * nibbles of bytes 0-31 and 32-63, then their high nibbles. */
static void block_q6_k(const uint8_t *b, float *out) {
    float d = f16_at(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, run = i % 128 / 32, at = i % 32;
        uint8_t low = b[half * 64 + run % 2 * 32 + at];
        int q = (run < 2 ? low & 15 : low >> 4) | (b[128 + half * 32 + at] >> (2 * run) & 3) << 4;
        out[i] = d * (float)(int8_t)b[192 + i / 16] * (float)(q - 32);
    }
}

void wr_dequant_gguf(weir_quant_mode mode, const uint8_t *blocks, int64_t n_values, float *out) {
    int64_t values = wr_quant_block_values(mode), bytes = wr_quant_block_bytes(mode);
    for (int64_t i = 0; i < n_values; i += values, blocks += bytes) {
        switch (mode) {
        case WEIR_QUANT_Q4_0: block_q4_0(blocks, out + i); break;
        case WEIR_QUANT_Q4_1: block_q4_1(blocks, out + i); break;
        case WEIR_QUANT_Q5_0: block_q5_0(blocks, out + i); break;
        case WEIR_QUANT_Q5_1: block_q5_1(blocks, out + i); break;
        case WEIR_QUANT_Q8_0: block_q8_0(blocks, out + i); break;
        case WEIR_QUANT_Q2_K: block_q2_k(blocks, out + i); break;
        case WEIR_QUANT_Q3_K: block_q3_k(blocks, out + i); break;
        case WEIR_QUANT_Q4_K: block_q4_k(blocks, out + i); break;
        case WEIR_QUANT_Q5_K: block_q5_k(blocks, out + i); break;
        case WEIR_QUANT_Q6_K: block_q6_k(blocks, out + i); break;
        default: return;
        }
    }
}

/* MLX's fixed geometries, and affine's defaults for fields that are 0. */
static weir_quant full_quant(weir_quant q) {
    switch (q.mode) {
    case WEIR_QUANT_AFFINE:
        if (q.group_size == 0) q.group_size = 64;
        if (q.bits == 0) q.bits = 4;
        break;
    case WEIR_QUANT_MXFP4: q.group_size = 32, q.bits = 4; break;
    case WEIR_QUANT_NVFP4: q.group_size = 16, q.bits = 4; break;
    case WEIR_QUANT_MXFP8: q.group_size = 32, q.bits = 8; break;
    default: break;
    }
    return q;
}

int64_t wr_weight_row_bytes(const wr_linear_args *args) {
    if (args->packed) return 0;
    weir_quant_mode mode = args->quant.mode;
    if (mode == WEIR_QUANT_NONE) return args->cols * (int64_t)weir_dtype_bytes(args->weight_dtype);
    if (wr_quant_is_gguf(mode)) return args->cols / wr_quant_block_values(mode) * wr_quant_block_bytes(mode);
    return args->cols * full_quant(args->quant).bits / 32 * 4;
}

/* Value i of a little-endian stream of `bits`-bit numbers (bits <= 8): MLX's u32 words are such a stream for all its
 * widths. */
static uint32_t stream_value(const uint8_t *row, int64_t i, int bits) {
    int64_t bit = i * bits, byte = bit / 8;
    uint32_t shift = (uint32_t)(bit % 8), word = row[byte];
    if (shift + (uint32_t)bits > 8) word |= (uint32_t)row[byte + 1] << 8;
    return word >> shift & ((1u << bits) - 1);
}

void wr_dequant_row(const wr_linear_args *args, const void *data, const void *scales, const void *biases,
                    int64_t expert, int64_t row, float *out) {
    if (args->packed) {
        wr_cpu_packing_used.unpack_row(args, data, expert, row, out);
        return;
    }
    weir_quant quant = full_quant(args->quant);
    int64_t cols = args->cols, index = expert * args->rows + row;
    const uint8_t *bytes = (const uint8_t *)data + index * wr_weight_row_bytes(args);
    if (quant.mode == WEIR_QUANT_NONE) {
        for (int64_t i = 0; i < cols; i++) out[i] = wr_load_f32(bytes, args->weight_dtype, i);
        return;
    }
    if (wr_quant_is_gguf(quant.mode)) {
        wr_dequant_gguf(quant.mode, bytes, cols, out);
        return;
    }
    int64_t first = index * (cols / quant.group_size);
    for (int64_t i = 0; i < cols; i++) {
        int64_t g = first + i / quant.group_size;
        uint32_t q = stream_value(bytes, i, quant.bits);
        switch (quant.mode) {
        case WEIR_QUANT_AFFINE: {
            float product = wr_load_f32(scales, args->weight_dtype, g) * (float)q;
            out[i] = product + wr_load_f32(biases, args->weight_dtype, g);
            break;
        }
        case WEIR_QUANT_MXFP4: out[i] = wr_e2m1_to_f32(q) * wr_e8m0_to_f32(((const uint8_t *)scales)[g]); break;
        case WEIR_QUANT_MXFP8:
            out[i] = wr_e4m3_to_f32((uint8_t)q) * wr_e8m0_to_f32(((const uint8_t *)scales)[g]);
            break;
        case WEIR_QUANT_NVFP4:
            out[i] = wr_e2m1_to_f32(q) * wr_e4m3_to_f32(((const uint8_t *)scales)[g]) * args->global_scale;
            break;
        default: break;
        }
    }
}
