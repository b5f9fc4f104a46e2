/* Parameters of the kernels of ATTENTION over whole tensors. Shared by cuda/attention_dense.c and its kernels. */
#ifndef WR_CUDA_ATTENTION_DENSE_H
#define WR_CUDA_ATTENTION_DENSE_H

#include <stdint.h>

enum {
    WR_ATTENTION_DENSE_ROWS = 64,           /* query rows of a tile of the fast kernels */
    WR_ATTENTION_DENSE_KEYS = 64,           /* keys of a block, at fixed positions, of every kernel */
    WR_ATTENTION_DENSE_REF_THREADS = 128,   /* of the reference kernel, */
    WR_ATTENTION_DENSE_COLUMNS = 4,         /* of which each holds so many output columns */
    WR_ATTENTION_DENSE_PAD = 16,            /* bytes after each row in shared memory: ldmatrix without bank conflicts */
    WR_ATTENTION_DENSE_MAX_BLOCKS = 1 << 20 /* of the reference kernel; it strides over the rest */
};

/* Strides in elements, 0 where broadcast, negative where reversed. */
typedef struct wr_attention_dense_params {
    const void *q, *k, *v, *mask, *sinks; /* mask, sinks: 0 without */
    void *out;
    int64_t q_strides[4], k_strides[4], v_strides[4], mask_strides[4], out_strides[4], sink_stride;
    int64_t batch, n_heads, n_groups, n_rows, n_keys, head_dim, n_values;
    int64_t window; /* 0: none */
    float scale, softcap;
    int32_t causal, dtype, mask_dtype; /* weir_dtype; dtype: of q, k, v and out */
    int32_t unused;
} wr_attention_dense_params;

#endif
