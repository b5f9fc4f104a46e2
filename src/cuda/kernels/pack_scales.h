/* The scale words of packed tiles (linear.h says where they lie) from a published row: one text for the packer on the
 * host and the one on the device. Kernels include device.cuh first. */
#ifndef WR_CUDA_KERNELS_PACK_SCALES_H
#define WR_CUDA_KERNELS_PACK_SCALES_H

#include "cuda/kernels/linear.h"

#ifdef __cplusplus
#define WR_PACKER WR_DEVICE
#else
#include "base/dtype.h"
#define WR_PACKER static inline
#endif

/* A published row, from its first column. */
typedef struct wr_pack_row {
    const uint8_t *data, *scales, *biases;
} wr_pack_row;
/* What a weight is. */
typedef struct wr_pack_format {
    int64_t cols;
    int32_t scales;            /* WR_SC_* of the packed kind */
    int32_t mode, bits, group; /* WR_PUBLISHED_*; group 0 in GGUF */
    int32_t weight_type;       /* WR_NUM_* of affine scales */
    int32_t block_bytes;       /* GGUF */
} wr_pack_format;

WR_PACKER uint32_t wr_pack_u16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
WR_PACKER uint32_t wr_pack_u32(const uint8_t *p) { return wr_pack_u16(p) | wr_pack_u16(p + 2) << 16; }
WR_PACKER void wr_pack_put16(uint8_t *to, uint32_t x) {
    to[0] = (uint8_t)x;
    to[1] = (uint8_t)(x >> 8);
}
/* Words are aligned. */
WR_PACKER void wr_pack_put32(uint8_t *to, int word, uint32_t x) { *((uint32_t *)(void *)to + word) = x; }

WR_PACKER uint32_t wr_pack_f32_bits_at(const uint8_t *p, int type, int64_t i) {
    if (type == WR_NUM_F32) return wr_pack_u32(p + 4 * i);
    uint16_t h = (uint16_t)wr_pack_u16(p + 2 * i);
    return type == WR_NUM_BF16 ? (uint32_t)h << 16 : wr_f32_bits(wr_f16_to_f32(h));
}
/* scale | bias << 16 of group i, shifted by powers of two as the kernels want them. */
WR_PACKER uint32_t wr_pack_bf16_pair(const wr_pack_row *row, int64_t i, float factor) {
    float scale = wr_bf16_to_f32((uint16_t)wr_pack_u16(row->scales + 2 * i));
    float bias = wr_bf16_to_f32((uint16_t)wr_pack_u16(row->biases + 2 * i));
    return (uint32_t)wr_f32_to_bf16(scale * factor) | (uint32_t)wr_f32_to_bf16(bias * 0x1p-32f) << 16;
}
/* d and m of ggml's *_1 blocks, or an affine f16 group. */
WR_PACKER uint32_t wr_pack_f16_pair(const wr_pack_format *f, const wr_pack_row *row, int64_t col) {
    if (f->group == 0) return wr_pack_u32(row->data + col / 32 * f->block_bytes);
    int64_t i = col / f->group;
    return wr_pack_u16(row->scales + 2 * i) | wr_pack_u16(row->biases + 2 * i) << 16;
}
WR_PACKER uint8_t wr_pack_exponent(int e8m0, int add) { return (uint8_t)(e8m0 + add > 255 ? 255 : e8m0 + add); }

/* The magnitude of an E4M3 number with five bits of exponent, which makes its subnormals normal: 2^(e - 10) (1 + m / 8)
 * as e << 3 | m; 0 is 0. */
WR_PACKER uint8_t wr_pack_e5m3(uint8_t x) {
    int e = x >> 3 & 15, m = x & 7;
    if (e) return (uint8_t)((e + 3) << 3 | m);
    if (m >= 4) return (uint8_t)(3 << 3 | (m - 4) << 1);
    if (m >= 2) return (uint8_t)(2 << 3 | (m - 2) << 2);
    return (uint8_t)(m ? 1 << 3 : 0);
}

/* Scale and min of sub-block j of Q4_K and Q5_K, from their 12 bytes. */
WR_PACKER uint32_t wr_pack_k_scale_min(const uint8_t *s, int j) {
    if (j < 4) return (s[j] & 63u) | (s[j + 4] & 63u) << 8;
    return (s[j + 4] & 15u) | (uint32_t)(s[j - 4] >> 6) << 4 |
           ((uint32_t)(s[j + 4] >> 4) | (uint32_t)(s[j] >> 6) << 4) << 8;
}
/* Signed scale of sub-block j of 16 values of Q3_K. */
WR_PACKER uint32_t wr_pack_q3_scale(const uint8_t *s, int j) {
    int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4, high = s[8 + j % 4] >> (2 * (j / 4)) & 3;
    return (uint8_t)((low | high << 4) - 32);
}

/* K-quants: the tile is a quarter of a block of 256. */
WR_PACKER void wr_pack_k_scales(int mode, const uint8_t *block, int quarter, int g, int high, uint8_t *to) {
    uint32_t x = 0;
    switch (mode) {
    case WR_PUBLISHED_Q4_K:
    case WR_PUBLISHED_Q5_K:
        wr_pack_put32(to, 4 * g + high, wr_pack_u32(block));
        wr_pack_put32(to, 4 * g + 2 + high,
                      wr_pack_k_scale_min(block + 4, 2 * quarter) | wr_pack_k_scale_min(block + 4, 2 * quarter + 1)
                                                                        << 16);
        break;
    case WR_PUBLISHED_Q2_K:
        for (int j = 0; j < 4; j++) {
            uint32_t s = block[4 * quarter + j];
            x |= (s & 15) << (4 * j) | (s >> 4) << (16 + 4 * j);
        }
        wr_pack_put32(to, 4 * g + high, wr_pack_u32(block + 80));
        wr_pack_put32(to, 4 * g + 2 + high, x);
        break;
    default: { /* Q3_K, Q6_K */
        bool q3 = mode == WR_PUBLISHED_Q3_K;
        for (int j = 0; j < 4; j++)
            x |= (q3 ? wr_pack_q3_scale(block + 96, 4 * quarter + j) : block[192 + 4 * quarter + j]) << (8 * j);
        wr_pack_put32(to, 2 * g + high, x);
        wr_pack_put16(to + 64 + 4 * g + 2 * high, wr_pack_u16(block + (q3 ? 108 : 208)));
    }
    }
}

/* Those of row r (0..15) of the tile whose first column is col, into the tile's scales, which were 0. */
WR_PACKER void wr_pack_tile_scales(const wr_pack_format *f, const wr_pack_row *row, int r, int64_t col, uint8_t *to) {
    int g = r & 7, high = r >> 3, halves = f->cols - col > 32 ? 2 : 1;
    int64_t i = f->group ? col / f->group : 0, more = f->group == 32; /* the group of columns 32.. is i + more */
    switch (f->scales) {
    case WR_SC_BF16_64:
    case WR_SC_BF16_32: {
        float factor = f->bits == 4 && high ? 0x1p97f : 0x1p101f;
        if (f->scales == WR_SC_BF16_64)
            wr_pack_put32(to, 2 * g + high, wr_pack_bf16_pair(row, i, factor));
        else
            for (int h = 0; h < halves; h++)
                wr_pack_put32(to, 4 * g + 2 * h + high, wr_pack_bf16_pair(row, i + h, factor));
        break;
    }
    case WR_SC_E8M0:
        for (int h = 0; h < halves; h++)
            to[4 * g + 2 * high + h] = wr_pack_exponent(row->scales[i + h], f->mode == WR_PUBLISHED_MXFP4 ? 94 : 88);
        break;
    case WR_SC_E5M3:
        for (int j = 0; j < 4 && col + 16 * j < f->cols; j++)
            to[8 * g + 4 * high + j] = wr_pack_e5m3(row->scales[i + j]);
        break;
    case WR_SC_F16_32:
        for (int h = 0; h < halves; h++)
            wr_pack_put16(to + 8 * g + 4 * high + 2 * h, wr_pack_u16(row->data + (col / 32 + h) * f->block_bytes));
        break;
    case WR_SC_F16P_64: wr_pack_put32(to, 2 * g + high, wr_pack_f16_pair(f, row, col)); break;
    case WR_SC_F16P_32:
        for (int h = 0; h < halves; h++)
            wr_pack_put32(to, 4 * g + 2 * h + high, wr_pack_f16_pair(f, row, col + 32 * h));
        break;
    case WR_SC_F32P_32:
        for (int h = 0; h < halves; h++) {
            int64_t at = h ? i + more : i;
            wr_pack_put32(to, 8 * g + 4 * h + 2 * high, wr_pack_f32_bits_at(row->scales, f->weight_type, at));
            wr_pack_put32(to, 8 * g + 4 * h + 2 * high + 1, wr_pack_f32_bits_at(row->biases, f->weight_type, at));
        }
        break;
    case WR_SC_K32:
    case WR_SC_K16:
    case WR_SC_K16M:
        wr_pack_k_scales(f->mode, row->data + col / 256 * f->block_bytes, (int)(col % 256 / 64), g, high, to);
        break;
    default: break;
    }
}

#undef WR_PACKER
#endif
