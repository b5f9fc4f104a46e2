/* What src/cuda/norm.c and kernels/norm.cu share. Strides in elements; dtypes are weir_dtype. */
#ifndef WR_CUDA_KERNELS_NORM_H
#define WR_CUDA_KERNELS_NORM_H

#include <stdint.h>

/* Elements a thread holds; threads of a row by its length, up to 1,024 (then a thread holds several eights). */
enum { WR_NORM_EACH = 8, WR_NORM_MOST = 8192 };
/* Threads that a row of n columns takes: its length alone decides, since it decides the order of the sum. */
static inline int wr_norm_threads(int64_t n) {
    int threads = 32;
    for (; threads < 1024 && n > threads * WR_NORM_EACH; threads *= threads == 32 ? 4 : 2) {}
    return threads;
}

/* x, out [rows, n] contiguous; weight, bias [n] or NULL. */
typedef struct wr_norm_params {
    const void *x, *weight, *bias;
    void *out;
    int64_t rows, n;
    float eps, weight_offset;
    int32_t x_dtype, weight_dtype, bias_dtype, out_dtype;
    int32_t centred; /* LAYER_NORM */
} wr_norm_params;

enum { WR_ROPE_HALF_MOST = 256 };
typedef struct wr_rope_table_params {
    const void *positions;
    float *out; /* [n, 2, half] */
    int64_t n;
    int32_t half, dtype;
    double attention_factor;
    double inv_freq[WR_ROPE_HALF_MOST];
} wr_rope_table_params;

/* x [T, H, D] strided, table [T, 2, half] strided, out [T, H, D] contiguous. */
typedef struct wr_rope_params {
    const void *x;
    const float *table;
    void *out;
    int64_t tokens, heads, width, half;
    int64_t x_strides[3], table_strides[3];
    int32_t x_dtype, out_dtype, interleaved;
} wr_rope_params;

/* x [batches, length, channels], w [outputs, kernel, in_group], bias [outputs] or NULL, out [batches, positions,
 * outputs]. */
typedef struct wr_conv1d_params {
    const void *x, *w, *bias;
    void *out;
    int64_t batches, length, channels, outputs, kernel, in_group, out_group, positions;
    int64_t stride, dilation, pad_low;
    int32_t dtype;
} wr_conv1d_params;

#endif
