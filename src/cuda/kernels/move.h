/* Kernels that move data: what host and device share. The contract stands in move.cu. */
#ifndef WR_CUDA_KERNELS_MOVE_H
#define WR_CUDA_KERNELS_MOVE_H

#include <stdint.h>

enum {
    WR_MOVE_THREADS = 256,
    WR_MOVE_DIMS = 8,
    WR_MOVE_TILE = 32, /* side of a transposed tile; its block has 8 rows of threads */
};

/* Positions in row-major order over axes that one operand walks. */
typedef struct wr_move_axes {
    int32_t n;
    int64_t shape[WR_MOVE_DIMS], strides[WR_MOVE_DIMS];
} wr_move_axes;

/* Copy of rows of contiguous bytes (wr_move_rows) or of single elements (wr_move_elements: row_bytes is the size of
 * one). Strides in bytes. */
typedef struct wr_move_copy_params {
    void *out;
    const void *in;
    int64_t n_rows, row_bytes;
    uint64_t alignment; /* every stride and row_bytes, ORed; 0 when there is one row */
    int32_t n_dims;
    int64_t shape[WR_MOVE_DIMS], out_strides[WR_MOVE_DIMS], in_strides[WR_MOVE_DIMS];
} wr_move_copy_params;

/* batch x [rows, cols]: the input is contiguous along rows, the output along cols. Strides in elements. */
typedef struct wr_move_transpose_params {
    void *out;
    const void *in;
    int64_t rows, cols;
    int64_t out_row, in_col; /* strides of the output from row to row, of the input from column to column */
    int64_t n_batch;
    int32_t bytes; /* of an element */
    int32_t n_dims;
    int64_t shape[WR_MOVE_DIMS], out_strides[WR_MOVE_DIMS], in_strides[WR_MOVE_DIMS];
} wr_move_transpose_params;

/* out [outer, ids, inner], contiguous. strides of x in bytes, of ids in elements. */
typedef struct wr_move_take_params {
    void *out;
    const void *x, *ids;
    uint64_t missing; /* an element where the index is out of range, repeated to 8 bytes */
    int64_t n_outer, n_ids, inner_bytes;
    int64_t size, stride; /* of the axis of x; bytes */
    uint64_t alignment;   /* every stride of x and inner_bytes, ORed */
    int32_t bytes;        /* of an element */
    int32_t ids_dtype;
    int32_t vector; /* inner is contiguous in x, and may move in pieces of up to 16 bytes */
    wr_move_axes outer, ids_axes, inner;
} wr_move_take_params;

/* out contiguous, of shape `shape`. Strides in elements; those of x and ids are 0 where they broadcast, that of x
 * along the axis too. */
typedef struct wr_move_along_params {
    void *out;
    const void *x, *ids;
    uint64_t missing;
    int64_t n, size, stride; /* elements of out; the axis of x */
    int32_t bytes, ids_dtype, n_dims;
    int64_t shape[WR_MOVE_DIMS], x_strides[WR_MOVE_DIMS], ids_strides[WR_MOVE_DIMS];
} wr_move_along_params;

/* out already holds x. A line is all positions along the axis at one position of the other axes, which `shape` holds.
 * Strides in elements. */
typedef struct wr_move_scatter_params {
    void *out;
    const void *ids, *updates;
    int64_t n_lines, n; /* n: updates of a line */
    int64_t size, out_stride, ids_stride, updates_stride;
    int32_t dtype, ids_dtype, add, n_dims;
    int64_t shape[WR_MOVE_DIMS], out_strides[WR_MOVE_DIMS], ids_strides[WR_MOVE_DIMS], updates_strides[WR_MOVE_DIMS];
} wr_move_scatter_params;

/* n elements of `bytes`, contiguous; bits: one element, repeated to 8 bytes. */
typedef struct wr_move_fill_params {
    void *out;
    uint64_t bits;
    int64_t n;
    int32_t bytes;
} wr_move_fill_params;

#endif
