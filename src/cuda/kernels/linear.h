/* Weights as the linear kernels read them, and what the kernels of the family receive. Plain C: shared by the packer,
 * the choosers and the kernels.
 *
 * Numbers. y[m, n] = sum over K of x[m, k] w[n, k]. K is cut into slices of slice_tiles * 64 (wr_linear_slice_tiles:
 * from the weight's columns only). Inside a slice k16 steps run in order on the tensor cores into f32, from 0; slices
 * are added in order in f32, from 0; then the sum is multiplied by `unscale` (a power of two, exact) and by
 * `global_scale`, then the addend (f32) is added, then one rounding. x is rounded to bf16 first where it is not. w is
 * bf16: scale q + bias, rounded once. Dense f16 weights are two bf16 numbers, high + low, exactly: each k16 step is one
 * mma with the high parts, then one with the low parts.
 *
 * Layout. [expert][row tile of 16][k tile of 64][tile]. Rows and columns that are not there have weight 0. A tile is
 * planes of codes followed by scales; its bytes are a multiple of 32 and every tile is 16-byte aligned.
 *
 * Codes. Lane l (g = l / 4, t = l % 4) of a warp owns 32 codes: for k16 step j (0..3), fragment register r (0..3), half
 * h (0, 1): row g + 8 (r & 1), column 16 j + 2 t + 8 (r >> 1) + h, which is the A operand of mma m16n8k16 (and of
 * wgmma's register form, a warp's 16 rows). They are `bits` words:
 * - 2 bits: word j/2 at bit 2 (4 (j & 1) + r) + 16 h; one plane of [lane][2 words]
 * - 4 bits: word j at bit 4 r + 16 h; one plane of [lane][4 words]
 * - 8 bits: word 2 j + r/2 at bit 8 (r & 1) + 16 h; two planes of [lane][4 words]
 * - 16 bits: word 4 j + r at bit 16 h; four planes of [lane][4 words]
 * - 3, 5, 6 bits: the low 2 (4, 4) bits as above, then the high 1 (1, 2) bits: 1 bit: word 0 at bit 4 j + r + 16 h, a
 *   plane of [lane][1 word]; 2 bits as above
 * - E2M1: word j; r = 0: sign at bit 15, the three others from bit 6; r = 1: 12, 3; r = 2: 9, 0; r = 3: sign at 10,
 *   exponent from bit 13, mantissa at 11; all + 16 h
 * - E4M3: word 2 j + r/2; r even: sign at 15, the seven others from bit 4; r odd: sign at 11, the upper three of the
 *   others from bit 12, the lower four from bit 0; all + 16 h
 *
 * Scales come in words of four bytes for each g: wr_scale_words consecutive ones at 4 * words * g (K16: two words at
 * 8 g, then, behind those 64 bytes, one word at 4 g):
 * - BF16_64: row g: scale | bias << 16; row g + 8 (groups of 64 and 128)
 * - BF16_32: columns 0..31: row g, row g + 8; columns 32..63: the same
 * - E8M0: bytes: row g columns 0..31, 32..63; row g + 8 the same. A byte is the exponent field of a bf16
 * - E5M3: row g: a byte for each k16 step; row g + 8. Unsigned, five bits of exponent
 * - F16_32: row g: scale of columns 0..31 | of 32..63 << 16; row g + 8
 * - F16P_64: row g: scale | bias << 16; row g + 8
 * - F16P_32: columns 0..31: row g, row g + 8; columns 32..63: the same
 * - F32P_32: columns 0..31: row g scale, bias; row g + 8 scale, bias; columns 32..63: the same
 * - K32: row g: d | dmin << 16; row g + 8; row g: bytes scale, min of columns 0..31, scale, min of 32..63; row g + 8
 * - K16: row g: a signed byte for each k16 step; row g + 8; then d of row g | d of row g + 8 << 16
 * - K16M: row g: d | dmin << 16; row g + 8; row g: a nibble of scale for each k16 step, then four of min; row g + 8
 *
 * Powers of two. A bf16 whose bits are an integer below 256 is that integer times 2^-133 (subnormals, and the first
 * binade is linear with them). So one AND and one FMA with scale * 2^133 give round(scale * q + bias); that product
 * would overflow for scales of 2^-5 and above, so the whole weight is kept times 2^-WR_AFFINE_SHIFT and the sum is
 * multiplied by 2^WR_AFFINE_SHIFT at the end, which changes no bit of any finite result while scales lie below 2^27 and
 * weights are 0 or above 2^-94. At 4 bits the rows g + 8 are read from bits 4..7, so their scale is stored divided
 * by 16. The small floats are placed as bf16 bits and multiplied by a power of two in the same way. Scales that are no
 * bf16 numbers are stored as they are; there the same is done in f32, whose bits 16..23 are such integers too, and the
 * result is rounded to bf16. */
#ifndef WR_CUDA_KERNELS_LINEAR_H
#define WR_CUDA_KERNELS_LINEAR_H

#include <stdint.h>

enum {
    WR_TILE_ROWS = 16,
    WR_TILE_COLS = 64,
    WR_LEAN_TILES = 8,  /* k tiles of every slice where the lean kernels serve */
    WR_LEAN_WARPS = 24, /* and the most warps of a block of theirs */
    WR_LEAN_GATHER_WARPS = 16,
    WR_LEAN_SPLIT_WARPS = 20,
    WR_LEAN_BAR_BYTES = 256,  /* of their shared memory, for barriers of slices */
    WR_LEAN_SLICES = 32,      /* of x that a block keeps, at most */
    WR_LEAN_NORM_PARTS = 256, /* NORM_LINEAR: floats in front of the norm's weights */
    WR_AFFINE_SHIFT = 32,     /* BF16 scales, E8M0 */
    WR_NVFP4_SHIFT = 19       /* E5M3 */
};

/* How codes become numbers. */
enum { WR_CODE_INT, WR_CODE_E2M1, WR_CODE_E4M3, WR_CODE_BF16, WR_CODE_F16 };
enum {
    WR_SC_NONE,
    WR_SC_BF16_64,
    WR_SC_BF16_32,
    WR_SC_E8M0,
    WR_SC_E5M3,
    WR_SC_F16_32,
    WR_SC_F16P_64,
    WR_SC_F16P_32,
    WR_SC_F32P_32,
    WR_SC_K32,
    WR_SC_K16,
    WR_SC_K16M
};

/* Kinds of packed weights: name, bits, code, scales, offset (subtracted from the code), log2 of unscale.
 * Affine with f16 scales: 4 and 8 bits in groups of 64 and 128 are F16P_64, 4 and 5 bits in groups of 32 are F16P_32
 * (as Q4_1 and Q5_1 are); all others, and f32 scales, are F32P_32. */
#define WR_LINEAR_KINDS(X)                                                                                             \
    X(BF16, 16, WR_CODE_BF16, WR_SC_NONE, 0, 0)                                                                        \
    X(F16, 16, WR_CODE_F16, WR_SC_NONE, 0, 0)                                                                          \
    X(A4_64, 4, WR_CODE_INT, WR_SC_BF16_64, 0, WR_AFFINE_SHIFT)                                                        \
    X(A4_32, 4, WR_CODE_INT, WR_SC_BF16_32, 0, WR_AFFINE_SHIFT)                                                        \
    X(A8_64, 8, WR_CODE_INT, WR_SC_BF16_64, 0, WR_AFFINE_SHIFT)                                                        \
    X(A8_32, 8, WR_CODE_INT, WR_SC_BF16_32, 0, WR_AFFINE_SHIFT)                                                        \
    X(A2_64, 2, WR_CODE_INT, WR_SC_BF16_64, 0, WR_AFFINE_SHIFT)                                                        \
    X(A2_32, 2, WR_CODE_INT, WR_SC_BF16_32, 0, WR_AFFINE_SHIFT)                                                        \
    X(A3_64, 3, WR_CODE_INT, WR_SC_BF16_64, 0, WR_AFFINE_SHIFT)                                                        \
    X(A3_32, 3, WR_CODE_INT, WR_SC_BF16_32, 0, WR_AFFINE_SHIFT)                                                        \
    X(A5_64, 5, WR_CODE_INT, WR_SC_BF16_64, 0, WR_AFFINE_SHIFT)                                                        \
    X(A5_32, 5, WR_CODE_INT, WR_SC_BF16_32, 0, WR_AFFINE_SHIFT)                                                        \
    X(A6_64, 6, WR_CODE_INT, WR_SC_BF16_64, 0, WR_AFFINE_SHIFT)                                                        \
    X(A6_32, 6, WR_CODE_INT, WR_SC_BF16_32, 0, WR_AFFINE_SHIFT)                                                        \
    X(MXFP4, 4, WR_CODE_E2M1, WR_SC_E8M0, 0, WR_AFFINE_SHIFT)                                                          \
    X(NVFP4, 4, WR_CODE_E2M1, WR_SC_E5M3, 0, WR_NVFP4_SHIFT)                                                           \
    X(MXFP8, 8, WR_CODE_E4M3, WR_SC_E8M0, 0, WR_AFFINE_SHIFT)                                                          \
    X(H4_64, 4, WR_CODE_INT, WR_SC_F16P_64, 0, WR_AFFINE_SHIFT)                                                        \
    X(H8_64, 8, WR_CODE_INT, WR_SC_F16P_64, 0, WR_AFFINE_SHIFT)                                                        \
    X(H4_32, 4, WR_CODE_INT, WR_SC_F16P_32, 0, WR_AFFINE_SHIFT)                                                        \
    X(H5_32, 5, WR_CODE_INT, WR_SC_F16P_32, 0, WR_AFFINE_SHIFT)                                                        \
    X(F2, 2, WR_CODE_INT, WR_SC_F32P_32, 0, WR_AFFINE_SHIFT)                                                           \
    X(F3, 3, WR_CODE_INT, WR_SC_F32P_32, 0, WR_AFFINE_SHIFT)                                                           \
    X(F4, 4, WR_CODE_INT, WR_SC_F32P_32, 0, WR_AFFINE_SHIFT)                                                           \
    X(F5, 5, WR_CODE_INT, WR_SC_F32P_32, 0, WR_AFFINE_SHIFT)                                                           \
    X(F6, 6, WR_CODE_INT, WR_SC_F32P_32, 0, WR_AFFINE_SHIFT)                                                           \
    X(F8, 8, WR_CODE_INT, WR_SC_F32P_32, 0, WR_AFFINE_SHIFT)                                                           \
    X(Q4_0, 4, WR_CODE_INT, WR_SC_F16_32, 8, WR_AFFINE_SHIFT)                                                          \
    X(Q5_0, 5, WR_CODE_INT, WR_SC_F16_32, 16, WR_AFFINE_SHIFT)                                                         \
    X(Q8_0, 8, WR_CODE_INT, WR_SC_F16_32, 128, WR_AFFINE_SHIFT)                                                        \
    X(Q2_K, 2, WR_CODE_INT, WR_SC_K16M, 0, WR_AFFINE_SHIFT)                                                            \
    X(Q3_K, 3, WR_CODE_INT, WR_SC_K16, 4, WR_AFFINE_SHIFT)                                                             \
    X(Q4_K, 4, WR_CODE_INT, WR_SC_K32, 0, WR_AFFINE_SHIFT)                                                             \
    X(Q5_K, 5, WR_CODE_INT, WR_SC_K32, 0, WR_AFFINE_SHIFT)                                                             \
    X(Q6_K, 6, WR_CODE_INT, WR_SC_K16, 32, WR_AFFINE_SHIFT)

enum {
#define WR_KIND_ENUM(name, bits, code, scales, offset, shift) WR_KIND_##name,
    WR_LINEAR_KINDS(WR_KIND_ENUM)
#undef WR_KIND_ENUM
        WR_KIND_COUNT /* also: not packed */
};

/* Kinds with decode kernels for 8, 16 and 32 rows; how many tiles those read ahead; most threads with 8 and 16 rows:
 * 384 leave 80 registers a thread for 24 warps on a multiprocessor, 256 leave 128 for 16 warps. */
/* clang-format off */
#define WR_LINEAR_KINDS_OF_MODELS(X) \
    X(BF16, 2, 256, 256) X(A4_64, 4, 384, 384) X(A4_32, 4, 256, 256) X(A8_64, 2, 384, 256) \
    X(A8_32, 2, 384, 256) X(MXFP4, 4, 384, 384) X(NVFP4, 4, 384, 384) X(MXFP8, 2, 384, 384) \
    X(Q8_0, 2, 384, 384) X(Q4_K, 4, 256, 256) X(Q6_K, 2, 384, 384)
/* Kinds with decode kernels for 8 and 32 rows, two tiles ahead; most threads with 8 rows. */
#define WR_LINEAR_KINDS_MORE(X) \
    X(F16, 256) X(A2_64, 384) X(A2_32, 384) X(A3_64, 384) X(A3_32, 384) X(A5_64, 384) \
    X(A5_32, 384) X(A6_64, 384) X(A6_32, 384) X(H4_64, 384) X(H8_64, 384) X(H4_32, 384) \
    X(H5_32, 384) X(F2, 256) X(F3, 256) X(F4, 256) X(F5, 256) X(F6, 256) \
    X(F8, 256) X(Q4_0, 384) X(Q5_0, 384) X(Q2_K, 384) X(Q3_K, 384) X(Q5_K, 384)
/* clang-format on */

/* The decode tiers count warps of at most so many row tiles (a vocabulary of half a million). */
enum { WR_SPREAD_ROW_TILES = 32768 };

/* weir_quant_mode, for kernels: the same numbers. */
enum {
    WR_PUBLISHED_DENSE,
    WR_PUBLISHED_AFFINE,
    WR_PUBLISHED_MXFP4,
    WR_PUBLISHED_NVFP4,
    WR_PUBLISHED_MXFP8,
    WR_PUBLISHED_Q4_0,
    WR_PUBLISHED_Q4_1,
    WR_PUBLISHED_Q5_0,
    WR_PUBLISHED_Q5_1,
    WR_PUBLISHED_Q8_0,
    WR_PUBLISHED_Q2_K,
    WR_PUBLISHED_Q3_K,
    WR_PUBLISHED_Q4_K,
    WR_PUBLISHED_Q5_K,
    WR_PUBLISHED_Q6_K
};

/* dtypes of x, y and scales inside params. */
enum { WR_NUM_F32, WR_NUM_BF16, WR_NUM_F16 };

/* GATHER_LINEAR of many rows: rows of x with the same expert are brought together, at most `most` a job. Rows whose id
 * is out of range are jobs of expert -1, which give NaN. */
typedef struct wr_linear_job {
    int32_t expert, first, count, unused; /* rows order[first .. first + count) */
} wr_linear_job;
typedef struct wr_linear_jobs {
    int32_t n, unused[3];
    /* then: wr_linear_job job[max_jobs]; int32_t order[rows of x] */
} wr_linear_jobs;
typedef struct wr_linear_sort_params {
    const int32_t *ids;
    wr_linear_jobs *jobs;
    int64_t rows, max_jobs;
    int32_t experts, most;
} wr_linear_sort_params;
enum { WR_SORT_THREADS = 1024, WR_SORT_MAX_EXPERTS = 4095 };

typedef struct wr_linear_params {
    const void *x;              /* [m, k] */
    void *y;                    /* [m, n] */
    const uint8_t *w;           /* packed, or published data */
    const void *scales;         /* published layouts only */
    const void *biases;         /* published layouts only */
    const void *addend;         /* [m, n] of y's type, or NULL */
    int64_t half;               /* LINEAR_GATED: n / 2, the columns of y; else 0 */
    const int32_t *ids;         /* GATHER_LINEAR: expert of each row of x; else NULL */
    const wr_linear_jobs *jobs; /* GATHER_LINEAR of many rows: rows by expert; else NULL */
    int64_t max_jobs;           /* of jobs */
    float *partials;            /* scratch of tiers that spread slices over blocks: [row tiles][slices][m][16] */
    int64_t m, n, k;            /* rows of x, rows and columns of the weight */
    int64_t experts;
    int64_t row_tiles, k_tiles;
    int32_t slices, slice_tiles; /* slice s: k tiles s * slice_tiles .. ; the last slice may be shorter */
    int32_t kind, x_type, y_type;
    int32_t gelu; /* LINEAR_GATED: the gate goes through gelu_tanh, else through silu */
    int32_t tile_bits, tile_code, tile_scales, tile_offset; /* of the kind, for kernels that serve all of them */
    float unscale, global_scale;
    /* How this launch shares the work; each tier says what it means by them. */
    int32_t group_tiles;  /* row tiles that a block works on at once */
    int32_t chunk_slices; /* slices of x that a block keeps in shared memory */
    int32_t chunks;
    int32_t units, groups; /* of a group: group_tiles * chunk_slices; row groups in all */
    int32_t warps, stride; /* of a block; row groups from one of a block's to its next */
    int32_t job_blocks;    /* blocks of one job or row of GATHER_LINEAR */
    int32_t row_step;      /* row tiles, and bytes of them, from one of a warp's to its next */
    uint32_t row_step_bytes;
    /* Published layouts only. */
    int32_t mode, bits, group, weight_type;
    int32_t block_bytes; /* GGUF */
    /* NORM_LINEAR: x is f32 and normed on its way, as RMS_NORM does it (norm.cu) with so many warps a row; else NULL.
     */
    const float *norm;
    float norm_eps, norm_offset;
    int32_t norm_warps;
} wr_linear_params;

/* Slices of a weight: their number and the k tiles of one. About 512 columns, a fixed function of the columns. */
static inline int64_t wr_linear_k_tiles(int64_t cols) { return cols / WR_TILE_COLS + (cols % WR_TILE_COLS != 0); }
static inline int64_t wr_linear_row_tiles(int64_t rows) { return rows / WR_TILE_ROWS + (rows % WR_TILE_ROWS != 0); }
static inline int64_t wr_linear_slice_tiles(int64_t cols) {
    int64_t tiles = wr_linear_k_tiles(cols), about = (tiles + 4) / 8;
    if (about < 1) about = 1;
    return tiles == 0 ? 1 : (tiles + about - 1) / about;
}
static inline int64_t wr_linear_slices(int64_t cols) {
    int64_t per = wr_linear_slice_tiles(cols);
    return (wr_linear_k_tiles(cols) + per - 1) / per;
}

/* Constants where their arguments are; in kernels too, which include device.cuh first. */
#ifdef __cplusplus
#define WR_TABLE static constexpr __host__ __device__ inline
#else
#define WR_TABLE static inline
#endif
/* Words of scales for each g. */
WR_TABLE int wr_scale_words(int scales) {
    switch (scales) {
    case WR_SC_NONE: return 0;
    case WR_SC_E8M0: return 1;
    case WR_SC_BF16_64:
    case WR_SC_E5M3:
    case WR_SC_F16_32:
    case WR_SC_F16P_64: return 2;
    case WR_SC_K16: return 3;
    case WR_SC_F32P_32: return 8;
    default: return 4;
    }
}
WR_TABLE int wr_tile_bytes(int bits, int scales) { return 128 * bits + 32 * wr_scale_words(scales); }
#undef WR_TABLE

#endif
