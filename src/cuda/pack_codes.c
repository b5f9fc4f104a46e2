/* From published rows to codes, a byte each, and to the scale words of packed tiles (kernels/linear.h). The formats are
 * MLX's and ggml's; cpu/ref/dequant.c says what they mean and the tests compare with it. */
#include <string.h>

#include "base/dtype.h"
#include "cuda/linear.h"

/* Sixteen codes as two words: a baseline vector, so that any compiler handles it well. */
typedef uint64_t bytes16 __attribute__((vector_size(16)));

/* `bits` (2..6) bytes as a number, without reading more. */
static inline __attribute__((always_inline)) uint64_t load_bytes(const uint8_t *data, const int bits) {
    uint64_t x = 0;
    memcpy(&x, data, (size_t)bits);
    return x;
}

/* MLX: a little-endian bit stream. Eight codes are `bits` whole bytes; they are spread to a byte each by halves. */
static inline __attribute__((always_inline)) void stream(const uint8_t *data, int count, const int bits,
                                                         uint8_t *codes) {
    const uint64_t m4 = (1ull << (4 * bits)) - 1, m2 = ((1ull << (2 * bits)) - 1) * 0x0000000100000001u,
                   m1 = ((1ull << bits) - 1) * 0x0001000100010001u;
    for (int i = 0; i < count; i += 16, data += 2 * bits) {
        bytes16 x = {load_bytes(data, bits), load_bytes(data + bits, bits)};
        x = (x & m4) | (x >> (4 * bits) & m4) << 32;
        x = (x & m2) | (x >> (2 * bits) & m2) << 16;
        x = (x & m1) | (x >> bits & m1) << 8;
        memcpy(codes + i, &x, 16);
    }
}

static void mlx_codes(int bits, const uint8_t *row, int64_t col, int count, uint8_t *codes) {
    const uint8_t *data = row + col / 8 * bits;
    switch (bits) {
    case 2: stream(data, count, 2, codes); break;
    case 3: stream(data, count, 3, codes); break;
    case 4: stream(data, count, 4, codes); break;
    case 5: stream(data, count, 5, codes); break;
    case 6: stream(data, count, 6, codes); break;
    default: memcpy(codes, data, (size_t)count);
    }
}

/* ---- GGUF ---- */

static uint16_t u16_at(const uint8_t *p) {
    uint16_t x;
    memcpy(&x, p, 2);
    return x;
}
static uint32_t u32_at(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* 16 bytes of nibbles: low ones are values 0..15, high ones 16..31; high: bit 4 of each, or none. */
static void nibbles32(const uint8_t *q, uint32_t high, uint8_t *codes) {
    for (int i = 0; i < 16; i++) {
        codes[i] = (uint8_t)((q[i] & 15) | (high >> i & 1) << 4);
        codes[i + 16] = (uint8_t)(q[i] >> 4 | (high >> (i + 16) & 1) << 4);
    }
}
static void codes_q4_k(const uint8_t *b, uint8_t *codes) {
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 32; i++) {
            uint8_t q = b[16 + 32 * c + i];
            codes[64 * c + i] = q & 15;
            codes[64 * c + 32 + i] = q >> 4;
        }
}
static void codes_q5_k(const uint8_t *b, uint8_t *codes) {
    const uint8_t *high = b + 16, *low = b + 48;
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 32; i++) {
            uint8_t q = low[32 * c + i], h = (uint8_t)(high[i] >> (2 * c));
            codes[64 * c + i] = (uint8_t)((q & 15) | (h & 1) << 4);
            codes[64 * c + 32 + i] = (uint8_t)(q >> 4 | (h & 2) << 3);
        }
}
static void codes_q6_k(const uint8_t *b, uint8_t *codes) {
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 32; i++) {
            uint8_t a = b[64 * n + i], c = b[64 * n + 32 + i], h = b[128 + 32 * n + i], *to = codes + 128 * n + i;
            to[0] = (uint8_t)((a & 15) | (h & 3) << 4);
            to[32] = (uint8_t)((c & 15) | (h & 12) << 2);
            to[64] = (uint8_t)(a >> 4 | (h & 48));
            to[96] = (uint8_t)(c >> 4 | (h & 192) >> 2);
        }
}
/* Two bits of each of four runs of 32 share a byte; Q3_K has a third bit, bit i / 32 of byte i % 32 of another array.
 */
static void codes_2bits(const uint8_t *low, const uint8_t *high, uint8_t *codes) {
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++) {
            int q = low[run / 4 * 32 + i] >> (2 * (run % 4)) & 3;
            if (high) q |= (high[i] >> run & 1) << 2;
            codes[32 * run + i] = (uint8_t)q;
        }
}

static void gguf_codes(weir_quant_mode mode, const uint8_t *row, int64_t col, int count, uint8_t *codes) {
    int64_t values = wr_quant_block_values(mode), bytes = wr_quant_block_bytes(mode);
    const uint8_t *b = row + col / values * bytes;
    for (int i = 0; i < count; i += (int)values, b += bytes, codes += values) {
        switch (mode) {
        case WEIR_QUANT_Q4_0: nibbles32(b + 2, 0, codes); break;
        case WEIR_QUANT_Q4_1: nibbles32(b + 4, 0, codes); break;
        case WEIR_QUANT_Q5_0: nibbles32(b + 6, u32_at(b + 2), codes); break;
        case WEIR_QUANT_Q5_1: nibbles32(b + 8, u32_at(b + 4), codes); break;
        case WEIR_QUANT_Q8_0:
            for (int k = 0; k < 32; k++) codes[k] = b[2 + k] ^ 0x80; /* two's complement to offset 128 */
            break;
        case WEIR_QUANT_Q2_K: codes_2bits(b + 16, NULL, codes); break;
        case WEIR_QUANT_Q3_K: codes_2bits(b + 32, b, codes); break;
        case WEIR_QUANT_Q4_K: codes_q4_k(b, codes); break;
        case WEIR_QUANT_Q5_K: codes_q5_k(b, codes); break;
        case WEIR_QUANT_Q6_K: codes_q6_k(b, codes); break;
        default: return;
        }
    }
}

void wr_pack_codes(const wr_linear_args *args, const wr_pack_row *row, int64_t col, int count, uint8_t *codes) {
    weir_quant q = wr_linear_quant(args->quant);
    if (wr_quant_is_gguf(q.mode)) {
        gguf_codes(q.mode, row->data, col, count, codes);
        return;
    }
    mlx_codes(q.bits, row->data, col, count, codes);
    if (q.mode != WEIR_QUANT_NVFP4) return;
    for (int i = 0; i < count; i += 16) {
        uint8_t scale = row->scales[(col + i) / 16];
        for (int k = 0; k < 16; k++) codes[i + k] = scale & 0x7f ? codes[i + k] ^ (uint8_t)(scale >> 7 << 3) : 0;
    }
}

/* ---- scales ---- */

static void put32(uint8_t *to, int word, uint32_t x) { memcpy(to + 4 * word, &x, 4); }

static float float_at(const uint8_t *p, weir_dtype dtype, int64_t i) {
    if (dtype == WEIR_DTYPE_F32) return wr_f32_from_bits(u32_at(p + 4 * i));
    uint16_t h = u16_at(p + 2 * i);
    return dtype == WEIR_DTYPE_BF16 ? wr_bf16_to_f32(h) : wr_f16_to_f32(h);
}

/* scale | bias << 16 of group i, shifted by powers of two as the kernels want them. */
static uint32_t bf16_pair(const wr_pack_row *row, int64_t i, float scale_factor) {
    float scale = wr_bf16_to_f32(u16_at(row->scales + 2 * i)), bias = wr_bf16_to_f32(u16_at(row->biases + 2 * i));
    return wr_f32_to_bf16(scale * scale_factor) | (uint32_t)wr_f32_to_bf16(bias * 0x1p-32f) << 16;
}
/* d and m of ggml's *_1 blocks, or an affine f16 group. */
static uint32_t f16_pair(const wr_linear_args *args, const wr_pack_row *row, int64_t col) {
    weir_quant q = wr_linear_quant(args->quant);
    if (wr_quant_is_gguf(q.mode)) return u32_at(row->data + col / 32 * wr_quant_block_bytes(q.mode));
    int64_t i = col / q.group_size;
    return u16_at(row->scales + 2 * i) | (uint32_t)u16_at(row->biases + 2 * i) << 16;
}
static uint8_t exponent_field(uint8_t e8m0, int add) { return e8m0 + add > 255 ? 255 : (uint8_t)(e8m0 + add); }

/* The magnitude of an E4M3 number with five bits of exponent, which makes its subnormals normal: 2^(e - 10) (1 + m / 8)
 * as e << 3 | m; 0 is 0. */
static uint8_t e4m3_to_e5m3(uint8_t x) {
    int e = x >> 3 & 15, m = x & 7;
    if (e) return (uint8_t)((e + 3) << 3 | m);
    if (m >= 4) return (uint8_t)(3 << 3 | (m - 4) << 1);
    if (m >= 2) return (uint8_t)(2 << 3 | (m - 2) << 2);
    return m ? 1 << 3 : 0;
}

/* Scale and min of sub-block j of Q4_K and Q5_K, from their 12 bytes. */
static uint32_t k_scale_min(const uint8_t *s, int j) {
    if (j < 4) return (s[j] & 63u) | (s[j + 4] & 63u) << 8;
    return (s[j + 4] & 15u) | (uint32_t)(s[j - 4] >> 6) << 4 |
           ((uint32_t)(s[j + 4] >> 4) | (uint32_t)(s[j] >> 6) << 4) << 8;
}
/* Signed scale of sub-block j of 16 values of Q3_K. */
static uint32_t q3_scale(const uint8_t *s, int j) {
    int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4, high = s[8 + j % 4] >> (2 * (j / 4)) & 3;
    return (uint8_t)((low | high << 4) - 32);
}

/* K-quants: the tile is a quarter of a block of 256. */
static void k_tile_scales(weir_quant_mode mode, const uint8_t *block, int quarter, int g, int high, uint8_t *to) {
    uint32_t x = 0;
    switch (mode) {
    case WEIR_QUANT_Q4_K:
    case WEIR_QUANT_Q5_K:
        put32(to, 4 * g + high, u32_at(block));
        put32(to, 4 * g + 2 + high,
              k_scale_min(block + 4, 2 * quarter) | k_scale_min(block + 4, 2 * quarter + 1) << 16);
        break;
    case WEIR_QUANT_Q2_K:
        for (int j = 0; j < 4; j++) {
            uint32_t s = block[4 * quarter + j];
            x |= (s & 15) << (4 * j) | (s >> 4) << (16 + 4 * j);
        }
        put32(to, 4 * g + high, u32_at(block + 80));
        put32(to, 4 * g + 2 + high, x);
        break;
    default: { /* Q3_K, Q6_K */
        bool q3 = mode == WEIR_QUANT_Q3_K;
        for (int j = 0; j < 4; j++)
            x |= (q3 ? q3_scale(block + 96, 4 * quarter + j) : block[192 + 4 * quarter + j]) << (8 * j);
        put32(to, 2 * g + high, x);
        memcpy(to + 64 + 4 * g + 2 * high, block + (q3 ? 108 : 208), 2);
    }
    }
}

void wr_pack_tile_scales(const wr_linear_args *args, int kind, const wr_pack_row *row, int r, int64_t col,
                         uint8_t *to) {
    weir_quant q = wr_linear_quant(args->quant);
    int g = r & 7, high = r >> 3, halves = args->cols - col > 32 ? 2 : 1;
    int64_t i = q.group_size ? col / q.group_size : 0,
            more = q.group_size == 32; /* the group of columns 32.. is i + more */
    float factor = q.bits == 4 && high ? 0x1p97f : 0x1p101f;
    switch (wr_linear_kind_scales(kind)) {
    case WR_SC_BF16_64: put32(to, 2 * g + high, bf16_pair(row, i, factor)); break;
    case WR_SC_BF16_32:
        for (int h = 0; h < halves; h++) put32(to, 4 * g + 2 * h + high, bf16_pair(row, i + h, factor));
        break;
    case WR_SC_E8M0:
        for (int h = 0; h < halves; h++)
            to[4 * g + 2 * high + h] = exponent_field(row->scales[i + h], q.mode == WEIR_QUANT_MXFP4 ? 94 : 88);
        break;
    case WR_SC_E5M3:
        for (int j = 0; j < 4 && col + 16 * j < args->cols; j++)
            to[8 * g + 4 * high + j] = e4m3_to_e5m3(row->scales[i + j]);
        break;
    case WR_SC_F16_32:
        for (int h = 0; h < halves; h++)
            memcpy(to + 8 * g + 4 * high + 2 * h, row->data + (col / 32 + h) * wr_quant_block_bytes(q.mode), 2);
        break;
    case WR_SC_F16P_64: put32(to, 2 * g + high, f16_pair(args, row, col)); break;
    case WR_SC_F16P_32:
        for (int h = 0; h < halves; h++) put32(to, 4 * g + 2 * h + high, f16_pair(args, row, col + 32 * h));
        break;
    case WR_SC_F32P_32:
        for (int h = 0; h < halves; h++) {
            int64_t at = h ? i + more : i;
            put32(to, 8 * g + 4 * h + 2 * high, wr_f32_bits(float_at(row->scales, args->weight_dtype, at)));
            put32(to, 8 * g + 4 * h + 2 * high + 1, wr_f32_bits(float_at(row->biases, args->weight_dtype, at)));
        }
        break;
    case WR_SC_K32:
    case WR_SC_K16:
    case WR_SC_K16M:
        k_tile_scales(q.mode, row->data + col / 256 * wr_quant_block_bytes(q.mode), (int)(col % 256 / 64), g, high, to);
        break;
    default: break;
    }
}
