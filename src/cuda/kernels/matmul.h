/* What src/cuda/matmul.c and kernels/matmul.cu share. Strides in elements; batch axes that broadcast have stride 0. */
#ifndef WR_CUDA_KERNELS_MATMUL_H
#define WR_CUDA_KERNELS_MATMUL_H

#include <stdint.h>

enum { WR_MATMUL_BATCH_DIMS = 8 };

/* out [batches, m, n] contiguous = a [batches.., m, k] by b [batches.., k, n]. Sizes above 0, but k may be 0. */
typedef struct wr_matmul_params {
    const void *a, *b;
    void *out;
    int64_t m, n, k, batches;
    int64_t a_m, a_k, b_k, b_n;
    int64_t tiles_m, tiles_n;
    int64_t batch_shape[WR_MATMUL_BATCH_DIMS], a_batch[WR_MATMUL_BATCH_DIMS], b_batch[WR_MATMUL_BATCH_DIMS];
    int32_t n_batch;
    int32_t dtype; /* of all three, a weir_dtype */
} wr_matmul_params;

/* Tiles of the tensor-core kernels; the ring of stages decides the shared memory. */
enum { WR_MATMUL_PAD = 8, WR_MATMUL_GROUP = 8 };
#define WR_MATMUL_OPERAND(rows, bk)                                                                                    \
    ((rows) * ((bk) + WR_MATMUL_PAD) > (bk) * ((rows) + WR_MATMUL_PAD) ? (rows) * ((bk) + WR_MATMUL_PAD)               \
                                                                       : (bk) * ((rows) + WR_MATMUL_PAD))
#define WR_MATMUL_SHARED(bm, bn, bk, stages) (2 * (stages) * (WR_MATMUL_OPERAND(bm, bk) + WR_MATMUL_OPERAND(bn, bk)))

enum { WR_MATMUL_SLIM_M = 16, WR_MATMUL_SLIM_N = 64, WR_MATMUL_SLIM_K = 128, WR_MATMUL_SLIM_STAGES = 3 };
enum { WR_MATMUL_MID_M = 64, WR_MATMUL_MID_N = 64, WR_MATMUL_MID_K = 64, WR_MATMUL_MID_STAGES = 3 };
enum { WR_MATMUL_WIDE_M = 128, WR_MATMUL_WIDE_N = 128, WR_MATMUL_WIDE_K = 32, WR_MATMUL_WIDE_STAGES = 4 };
enum { WR_MATMUL_F32_TILE = 64, WR_MATMUL_F32_K = 16, WR_MATMUL_F32_SLIM_M = 8, WR_MATMUL_F32_SLIM_N = 64 };

#endif
