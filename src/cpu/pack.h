/* The CPU's own layout of weights, made once at load.
 *
 * Sixteen output rows lie across the 32-bit lanes of a vector, so that one lane
 * belongs to one output and an integer dot needs no sum across lanes. A row block
 * (16 rows, all columns) is a run of superblocks; a superblock is a header with
 * the scales of its 16 rows followed by blocks of 16 rows x 32 columns.
 *
 * Codes inside a block are planes of 32-bit words, word w of row r at
 * 4 * (16 * w + r). The unit is a quad, four codes in the four bytes of a lane: quad s = 2 w + p (w 0..3, p 0..1) holds
 * the column pairs A = 4 w + p and B = A + 2 (pair j: columns 2j, 2j + 1) as A's even, B's even, A's odd, B's
 * odd column. So `quad & 0x00ff00ff` is pair A and `quad >> 8` pair B as 16-bit lanes.
 *   1 bit:  (word 0 >> s) & 0x01010101
 *   2 bits: (word s/4 >> 2 (s%4)) & 0x03030303
 *   4 bits: (word s/2 >> 4 (s%2)) & 0x0f0f0f0f
 *   8 bits: word s
 * 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2 bits: the low plane, then the high plane.
 * Codes are unsigned; symmetric formats subtract an offset. Every format keeps its own
 * bits and its own scales: a packed weight has the size of the published one, but
 * for rows filled up with zeros to a multiple of 16.
 *
 * Headers (arrays of 16 rows; "word" = one 32-bit lane a row):
 *   F16     d f16;  F16_MIN  d f16, m f16
 *   AFFINE  scales, biases in their dtype
 *   K       d f16, dmin f16, word of 8 scales' low nibbles, word of 8 mins' low nibbles,
 *           word of the 2 high bits: scale b at bit 2b, min b at 16 + 2b
 *   Q6_K    d f16, 4 words of 16 int8 scales
 *   Q3_K    d f16, 2 words of 16 scales' low nibbles, word of their 2 high bits
 *   Q2_K    d f16, dmin f16, 2 words of 16 scales' nibbles, 2 words of 16 mins' nibbles
 *   E8M0    exponents u8;  E4M3  scales u8 of columns 0..15, then 16..31
 *
 * Dense weights and mxfp8 are [column][16 rows] in their own dtype. */
#ifndef WR_CPU_PACK_H
#define WR_CPU_PACK_H

#include "array/op.h"

enum { WR_PACK_ROWS = 16, WR_PACK_COLS = 32 };

typedef enum wr_pack_bits {
    WR_BITS_2,
    WR_BITS_3,
    WR_BITS_4,
    WR_BITS_5,
    WR_BITS_6,
    WR_BITS_8,
    WR_BITS_E2M1, /* 4 bits; decoded to twice the value plus 12: 0..24 */
} wr_pack_bits;

typedef enum wr_pack_scales {
    WR_SCALES_F16,
    WR_SCALES_F16_MIN,
    WR_SCALES_AFFINE,
    WR_SCALES_K,
    WR_SCALES_Q6,
    WR_SCALES_Q3,
    WR_SCALES_Q2,
    WR_SCALES_E8M0,
    WR_SCALES_E4M3,
} wr_pack_scales;

/* Formats computed with integer dots: name, bits, scales, offset. */
#define WR_PACK_FORMATS(X)                                                                                             \
    X(Q4_0, WR_BITS_4, WR_SCALES_F16, 8)                                                                               \
    X(Q4_1, WR_BITS_4, WR_SCALES_F16_MIN, 0)                                                                           \
    X(Q5_0, WR_BITS_5, WR_SCALES_F16, 16)                                                                              \
    X(Q5_1, WR_BITS_5, WR_SCALES_F16_MIN, 0)                                                                           \
    X(Q8_0, WR_BITS_8, WR_SCALES_F16, 128)                                                                             \
    X(AFFINE2, WR_BITS_2, WR_SCALES_AFFINE, 0)                                                                         \
    X(AFFINE3, WR_BITS_3, WR_SCALES_AFFINE, 0)                                                                         \
    X(AFFINE4, WR_BITS_4, WR_SCALES_AFFINE, 0)                                                                         \
    X(AFFINE5, WR_BITS_5, WR_SCALES_AFFINE, 0)                                                                         \
    X(AFFINE6, WR_BITS_6, WR_SCALES_AFFINE, 0)                                                                         \
    X(AFFINE8, WR_BITS_8, WR_SCALES_AFFINE, 0)                                                                         \
    X(Q2_K, WR_BITS_2, WR_SCALES_Q2, 0)                                                                                \
    X(Q3_K, WR_BITS_3, WR_SCALES_Q3, 4)                                                                                \
    X(Q4_K, WR_BITS_4, WR_SCALES_K, 0)                                                                                 \
    X(Q5_K, WR_BITS_5, WR_SCALES_K, 0)                                                                                 \
    X(Q6_K, WR_BITS_6, WR_SCALES_Q6, 32)                                                                               \
    X(MXFP4, WR_BITS_E2M1, WR_SCALES_E8M0, 12)                                                                         \
    X(NVFP4, WR_BITS_E2M1, WR_SCALES_E4M3, 12)

typedef enum wr_pack_format {
#define WR_PACK_ENUM(name, bits, scales, offset) WR_PACK_##name,
    WR_PACK_FORMATS(WR_PACK_ENUM)
#undef WR_PACK_ENUM
        WR_PACK_INTEGER_COUNT, /* from here on: computed in f32, column by column */
    WR_PACK_BF16 = WR_PACK_INTEGER_COUNT,
    WR_PACK_F16,
    WR_PACK_F32,
    WR_PACK_MXFP8, /* superblock: 16 E8M0 exponents, then [32 columns][16 rows] E4M3 */
    WR_PACK_COUNT
} wr_pack_format;

typedef struct wr_pack_layout {
    wr_pack_format format;
    weir_dtype scale_dtype; /* affine */
    float global_scale;     /* nvfp4 */
    int header_bytes, block_bytes;
    int blocks;      /* a superblock */
    int super_bytes; /* header_bytes + blocks * block_bytes */
    int64_t n_super; /* a row block; dense: columns */
    int64_t row_blocks, rows, cols, experts;
    size_t row_block_bytes, expert_bytes;
} wr_pack_layout;

/* False when the weight is not packed (a column count that the format does not allow, or a size that overflows). */
bool wr_pack_layout_of(const wr_linear_args *args, wr_pack_layout *out);

/* Two scales a block of 32 columns? (16-column sub-blocks) */
static inline bool wr_pack_halved(wr_pack_scales scales) {
    return scales == WR_SCALES_Q6 || scales == WR_SCALES_Q3 || scales == WR_SCALES_Q2 || scales == WR_SCALES_E4M3;
}
static inline bool wr_pack_biased(wr_pack_scales scales) {
    return scales == WR_SCALES_AFFINE || scales == WR_SCALES_F16_MIN || scales == WR_SCALES_K || scales == WR_SCALES_Q2;
}
static inline int wr_pack_block_bytes(wr_pack_bits bits) {
    switch (bits) {
    case WR_BITS_2: return 128;
    case WR_BITS_3: return 192;
    case WR_BITS_4:
    case WR_BITS_E2M1: return 256;
    case WR_BITS_5: return 320;
    case WR_BITS_6: return 384;
    case WR_BITS_8: return 512;
    }
    return 0;
}
static inline int wr_pack_header_bytes(wr_pack_scales scales, size_t element) {
    switch (scales) {
    case WR_SCALES_F16: return 32;
    case WR_SCALES_F16_MIN: return 64;
    case WR_SCALES_AFFINE: return (int)(32 * element);
    case WR_SCALES_K: return 64 + 192;
    case WR_SCALES_Q6: return 32 + 256;
    case WR_SCALES_Q3: return 32 + 192;
    case WR_SCALES_Q2: return 64 + 256;
    case WR_SCALES_E8M0: return 16;
    case WR_SCALES_E4M3: return 32;
    }
    return 0;
}

/* Columns k0 .. k0 + n - 1 of one row of a packed weight, f32; k0 is a multiple of 32. */
void wr_pack_unpack(const wr_linear_args *args, const void *packed, int64_t expert, int64_t row, int64_t k0, int64_t n,
                    float *out);

/* pack_codes.c: one row of one published superblock. codes: one byte a column; header: the part of the header that
 * belongs to `row` of the row block is written in place. */
typedef struct wr_pack_source {
    const uint8_t *data, *scales, *biases; /* at this row and superblock */
    weir_dtype scale_dtype;
    int bits;   /* affine */
    int values; /* columns of the superblock */
} wr_pack_source;
void wr_pack_decode(wr_pack_format format, const wr_pack_source *source, int row, uint8_t *codes, uint8_t *header);

#endif
