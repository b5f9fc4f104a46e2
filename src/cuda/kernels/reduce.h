/* What src/cuda/reduce.c, src/cuda/sort.c and their kernels share. Strides in elements. */
#ifndef WR_CUDA_KERNELS_REDUCE_H
#define WR_CUDA_KERNELS_REDUCE_H

#include <stdint.h>

enum { WR_ROWS_DIMS = 8 };

/* An input seen as rows: the kept axes name a row, the reduced ones an element of it; both in row-major order, with
 * neighbouring axes merged where strides allow. */
typedef struct wr_rows {
    int64_t rows, n;
    int32_t n_kept, n_reduced;
    int32_t narrow_rows, narrow_n; /* rows, n below 2^32 */
    int64_t kept[WR_ROWS_DIMS], kept_strides[WR_ROWS_DIMS];
    int64_t reduced[WR_ROWS_DIMS], reduced_strides[WR_ROWS_DIMS];
} wr_rows;

/* Rows of more than a chunk are cut into chunks, each the work of a block; the cut depends on the length only. */
enum {
    WR_REDUCE_WARP = 1024, /* up to here a warp a row */
    WR_CUMSUM_WARP = 128,
    WR_REDUCE_CHUNK = 16384,
    WR_ARGMAX_CHUNK = 4096,
    WR_REDUCE_THREADS = 256
};

/* Output row r is element r: out is contiguous. partials: two floats, or one u64, a chunk. */
typedef struct wr_reduce_params {
    const void *x;
    void *out;
    void *partials; /* NULL: a row is one chunk */
    int64_t chunks;
    int32_t op, x_dtype, out_dtype;
    wr_rows rows;
} wr_reduce_params;

/* Softmax and running sums: the output's elements lie out_stride apart, its rows as out_kept says. */
typedef struct wr_scan_params {
    const void *x;
    void *out;
    const void *partials;
    int64_t chunks, out_stride;
    int64_t out_kept[WR_ROWS_DIMS];
    int32_t x_dtype, out_dtype;
    int32_t reverse, exclusive;
    wr_rows rows;
} wr_scan_params;

enum { WR_REDUCE_SUM, WR_REDUCE_MEAN, WR_REDUCE_MAX, WR_REDUCE_MIN, WR_REDUCE_LOGSUMEXP };

#endif
