/* What src/cuda/linear_prefill.c and kernels/linear_prefill.cu share. */
#ifndef WR_CUDA_KERNELS_LINEAR_PREFILL_H
#define WR_CUDA_KERNELS_LINEAR_PREFILL_H

#include <stdint.h>

#include "cuda/kernels/linear.h"

enum {
    WR_PREFILL_STAGES = 8,        /* of tokens, at most */
    WR_PREFILL_WEIGHT_STAGES = 6, /* at most */
    WR_PREFILL_CHUNK = 32,        /* tokens of one step of the epilogue */
    WR_PREFILL_PITCH = 68,        /* floats between its tokens: 64 rows, and 4 against bank conflicts */
    WR_PREFILL_SUPER = 16,        /* token tiles that are worked on together, so that they stay in L2 */
    WR_PREFILL_ATOM = 8,          /* tokens of one swizzle atom; prepared activations are padded to it */
    WR_PREFILL_PREPARE_THREADS = 256,
    WR_PREFILL_CLUSTER = 4, /* blocks that share a tile, at most */
};

/* Bytes of a token's 64 rows of bf16 on their way out, 16 more against bank conflicts; and of a warpgroup's memory for
 * its turned outputs. */
#define WR_PREFILL_TURN_PITCH 144
#define WR_PREFILL_TURN_BYTES(tokens)                                                                                  \
    ((tokens)*WR_PREFILL_TURN_PITCH > WR_PREFILL_CHUNK * WR_PREFILL_PITCH * 4                                          \
         ? (tokens)*WR_PREFILL_TURN_PITCH                                                                              \
         : WR_PREFILL_CHUNK * WR_PREFILL_PITCH * 4)

/* k tiles of a stage of weights, by the bytes of a packed tile; k tiles of a stage of tokens (a divisor of them). */
#define WR_PREFILL_CHUNK_OF(tile_bytes)  ((tile_bytes) <= 576 ? 4 : 2)
#define WR_PREFILL_TOKEN_K_TILES(tokens) ((tokens) == 128 ? 1 : 2)

/* Kinds of weights (linear.h) by what their kernels are built for. Where expanding a weight costs more than a few
 * instructions, narrow tiles gain nothing over 128 tokens: issue slots bound both. */
#define WR_PREFILL_ALL_WIDTHS(X)                                                                                       \
    X(BF16) X(A4_64) X(A4_32) X(A8_64) X(A8_32) X(MXFP4) X(NVFP4) X(MXFP8) /* 16, 32, 64, 128 */
#define WR_PREFILL_FEW_TOKENS(X) X(Q8_0) X(Q4_K) X(Q6_K)                   /* 16, 32, 128 */
#define WR_PREFILL_TWO_WIDTHS(X) X(A2_64) X(A2_32) X(A3_64) X(A3_32) X(A5_64) X(A5_32) X(A6_64) X(A6_32) /* 32, 128 */
#define WR_PREFILL_ONE_WIDTH(X)                                                                                        \
    X(F16)                                                                                                             \
    X(H4_64)                                                                                                           \
    X(H8_64)                                                                                                           \
    X(H4_32)                                                                                                           \
    X(H5_32)                                                                                                           \
    X(F2) X(F3) X(F4) X(F5) X(F6) X(F8) X(Q4_0) X(Q5_0) X(Q2_K) X(Q3_K) X(Q5_K) /* 128 */

/* Activations for the kernel: bf16, zeros after cols and after the last token. out: k tile, then token, then 64 values,
 * as 16-byte pieces swizzled for wgmma: [k_tiles][m_pad][8 pieces], piece c of token r at c ^ (r & 7). With jobs, job j
 * (linear.h) has the tokens from j * job_tokens on; no more of them are written than the job has, rounded up to 8. */
typedef struct wr_prefill_prepare_params {
    const void *x; /* [m, cols] */
    void *out;
    const wr_linear_jobs *jobs; /* NULL: token i is row i */
    int64_t max_jobs;
    int64_t m, m_pad, cols;
    int32_t k_tiles, dtype;
    int32_t job_tokens;
} wr_prefill_prepare_params;

/* y [m, n] = (x W^T) * unscale * global_scale + addend */
typedef struct wr_prefill_params {
    const void *w; /* packed */
    const void *x; /* prepared */
    void *y;
    const void *addend;         /* NULL, or [m, n] of y's dtype */
    const wr_linear_jobs *jobs; /* NULL: tokens 0..m. Else job j has prepared tokens j * T .. */
    int64_t max_jobs;
    int64_t expert_bytes;
    int64_t m, m_pad, n;
    float unscale, global_scale;
    int32_t dtype;       /* of y */
    int32_t n_row_tiles; /* of 16 */
    int32_t k_tiles, slices, slice_tiles, tile_bytes;
    int32_t halves;                                /* warpgroups side by side over weight rows, 64 each */
    int32_t groups;                                /* warpgroups that take slices in turn, of each block */
    int32_t cluster;                               /* blocks that share a tile's slices */
    int32_t stages;                                /* of tokens, of each group: one k tile */
    int32_t weight_stages, chunk;                  /* of weights, of each group: up to chunk k tiles */
    int32_t at_weights, at_turn, at_sums, at_bars; /* offsets in shared memory; tokens lie at 0 */
} wr_prefill_params;

#endif
