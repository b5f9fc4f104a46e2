/* What src/cuda/kv.c and kernels/kv.cu share. Strides in elements; dtypes are weir_dtype. */
#ifndef WR_CUDA_KERNELS_KV_H
#define WR_CUDA_KERNELS_KV_H

#include <stdint.h>

/* Keys or values on their way: pages [n_pages, page_size, heads, columns] contiguous (array/kv.h), x [tokens, heads,
 * width] with strides. */
typedef struct wr_kv_part {
    void *pages;
    const void *x;
    int64_t width, columns;
    int64_t x_strides[3];
    int32_t x_dtype, page_dtype;
} wr_kv_part;

/* KV_WRITE: one part. KV_APPEND: keys, then values. block_table [n_seqs, max_pages] contiguous. */
typedef struct wr_kv_write_params {
    wr_kv_part part[2];
    int32_t n_parts, tiled;
    const int32_t *block_table, *row_seq, *row_pos;
    int64_t tokens, heads, n_pages, page_size, n_seqs, max_pages;
    const float *rope; /* of part 0: [tokens, 2, half] contiguous; NULL: it is not rotated */
    int32_t half, interleaved;
    int32_t blocks_each; /* eights: of a token */
} wr_kv_write_params;

#endif
