/* From published rows to codes, a byte each. The formats are MLX's and ggml's; cpu/ref/dequant.c says what they mean,
 * and the tests compare with it. */
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
        case WEIR_QUANT_Q5_0: nibbles32(b + 6, wr_pack_u32(b + 2), codes); break;
        case WEIR_QUANT_Q5_1: nibbles32(b + 8, wr_pack_u32(b + 4), codes); break;
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
