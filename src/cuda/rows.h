/* Tensors as rows: what the reductions and the sorts share on the host. */
#ifndef WR_CUDA_ROWS_H
#define WR_CUDA_ROWS_H

#include "cuda/kernels/reduce.h"
#include "cuda/launch.h"

/* Axes in the bit set are reduced, the others kept; neighbours are merged. out, when not NULL, has x's axes (of another
 * size where reduced): out_kept gets its strides of the kept ones. A scalar is one row of one element. */
void wr_rows_split(const wr_tensor *x, uint32_t axes, const wr_tensor *out, wr_rows *rows, int64_t *out_kept);
/* Chunks of a row of n elements: at least 1. */
int64_t wr_rows_chunks(int64_t n, int64_t chunk);
/* A kernel of WR_REDUCE_THREADS threads over so many units. */
weir_status wr_rows_launch(wr_launcher *launcher, const char *kernel, int64_t units, int64_t units_a_block,
                           const void *params, size_t params_bytes, weir_error *err);

/* cuda/sort.c */
const wr_kernel_row *wr_cuda_sort_rows(wr_op_id op);

#endif
