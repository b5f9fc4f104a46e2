/* Element types: single-value conversions that every room agrees on, and the
 * block geometry of GGUF formats. */
#ifndef WR_BASE_DTYPE_H
#define WR_BASE_DTYPE_H

#include <stdbool.h>
#include <string.h>

#include "weir/dtype.h"

static inline bool wr_quant_is_gguf(weir_quant_mode mode) { return mode >= WEIR_QUANT_Q4_0; }
int64_t wr_quant_block_values(weir_quant_mode mode); /* GGUF: values a block; else 0 */
int64_t wr_quant_block_bytes(weir_quant_mode mode);  /* GGUF: bytes a block; else 0 */

static inline float wr_f32_from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t wr_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float wr_bf16_to_f32(uint16_t h) { return wr_f32_from_bits((uint32_t)h << 16); }
/* Round to nearest even; NaN stays a quiet NaN. */
static inline uint16_t wr_f32_to_bf16(float f) {
    uint32_t u = wr_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}
/* IEEE binary16, round to nearest even, subnormals exact, overflow to infinity. */
static inline float wr_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ffu;
    if (exponent == 31) return wr_f32_from_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24, exact in f32 */
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return wr_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}
static inline uint16_t wr_f32_to_f16(float f) {
    uint32_t u = wr_f32_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above rounds to infinity */
    if (a < 0x38800000u) {                                   /* below 2^-14: subnormal or zero */
        float scaled = wr_f32_from_bits(a) + 0.5f;           /* adds at 2^-24: the FPU rounds to even */
        return (uint16_t)(sign | (wr_f32_bits(scaled) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1)) >> 13));
}
/* E2M1: {0, .5, 1, 1.5, 2, 3, 4, 6}, bit 3 is the sign. */
static inline float wr_e2m1_to_f32(uint32_t nibble) {
    static const float table[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float magnitude = table[nibble & 7];
    return nibble & 8 ? -magnitude : magnitude;
}
/* E4M3 (OCP, no infinity; 0x7f and 0xff are NaN). */
static inline float wr_e4m3_to_f32(uint8_t b) {
    uint32_t exponent = (b >> 3) & 15, mantissa = b & 7;
    float magnitude;
    if (exponent == 15 && mantissa == 7)
        magnitude = wr_f32_from_bits(0x7fc00000u);
    else if (exponent == 0)
        magnitude = (float)mantissa * 0x1p-9f;
    else
        magnitude = wr_f32_from_bits((exponent + 120) << 23 | mantissa << 20);
    return b & 0x80 ? -magnitude : magnitude;
}
/* E8M0: 2^(s - 127); 255 is NaN; 0 is the subnormal 2^-127. */
static inline float wr_e8m0_to_f32(uint8_t s) {
    if (s == 255) return wr_f32_from_bits(0x7fc00000u);
    return s == 0 ? wr_f32_from_bits(0x00400000u) : wr_f32_from_bits((uint32_t)s << 23);
}

#endif
