/* What an instruction set gives the linear family: one table of functions over the
 * layout of cpu/pack.h. Three tables exist (portable, avx2, avx512), made from one
 * source, linear_kernels.h; they give the same bits.
 *
 * The numeric contract, for one output (row m of x, output row n): over the blocks of 32
 * columns in order, in f32,
 *   acc = fma(float(dot) * x_scale, w_scale, acc)
 *   acc = fma(w_bias, x_sum, acc)                   for formats with biases
 * with dot the exact int32 sum of code * q; formats with a scale every 16 columns do both
 * for the low and then for the high 16 columns. Dense: acc = fma(w, x, acc) over columns in order. */
#ifndef WR_CPU_LINEAR_ISA_H
#define WR_CPU_LINEAR_ISA_H

#include "cpu/pack.h"

/* 32 columns of one activation row: x is q * scale to 1.5e-5 of the largest of them. A group with a value that is not
 * finite has scale NaN. Sums are of q (isum) and scale * isum (sum), over all and over each half. */
typedef struct wr_xgroup {
    int16_t q[32];
    float scale, sum, sum_half[2];
    int32_t isum, isum_half[2], unused;
} wr_xgroup;

enum {
    WR_LINEAR_MAX_TILE = 16, /* rows of x that a tile kernel takes at most */
    WR_LINEAR_CHUNK = 8,     /* blocks that are expanded at a time: 8 KiB of codes */
    WR_LINEAR_DENSE_CHUNK = 256,
};

/* Codes of up to 8 blocks as int16 less their offset, pairs in lanes: codes[block][pair][16 rows]. */
typedef struct wr_linear_tile {
    int32_t codes[WR_LINEAR_CHUNK][16][16] __attribute__((aligned(64)));
    float scale[WR_LINEAR_CHUNK][2][16], bias[WR_LINEAR_CHUNK][2][16]; /* second half: halved formats only */
} wr_linear_tile;

typedef struct wr_linear_isa {
    int tile_rows;                                    /* rows of x a call of tile or dense_tile takes */
    void (*quantize)(const float *x, wr_xgroup *out); /* 32 values */
    /* One row block by mr rows of x, all columns: y[mr][16]. */
    void (*fused[WR_PACK_INTEGER_COUNT])(const wr_pack_layout *l, const uint8_t *w, const wr_xgroup *const *x, int mr,
                                         float *y);
    /* Blocks b0 .. b0 + n - 1 of a row block. */
    void (*expand[WR_PACK_INTEGER_COUNT])(const wr_pack_layout *l, const uint8_t *w, int64_t b0, int n,
                                          wr_linear_tile *tile);
    /* n blocks by tile_rows rows of x (pointers at the first of the blocks): acc[tile_rows][16] goes on. */
    void (*tile[2][2])(int n, const wr_linear_tile *tile, const wr_xgroup *const *x, float *acc); /* [halved][biased] */
    /* Dense: mr rows of f32. */
    void (*dense_fused[WR_PACK_COUNT - WR_PACK_INTEGER_COUNT])(const wr_pack_layout *l, const uint8_t *w,
                                                               const float *const *x, int mr, float *y);
    void (*dense_expand[WR_PACK_COUNT - WR_PACK_INTEGER_COUNT])(const wr_pack_layout *l, const uint8_t *w, int64_t k0,
                                                                int n, float *tile); /* [n][16] */
    void (*dense_tile)(int n, const float *tile, const float *const *x, float *acc);
} wr_linear_isa;

extern const wr_linear_isa wr_linear_portable;
#if defined(__x86_64__)
extern const wr_linear_isa wr_linear_avx2, wr_linear_avx512;
#endif

#endif
