/* What src/cuda/sort.c and kernels/sort.cu share. */
#ifndef WR_CUDA_KERNELS_SORT_H
#define WR_CUDA_KERNELS_SORT_H

#include "cuda/kernels/reduce.h"

enum {
    WR_SORT_WARP = 256,      /* the longest row that a warp sorts alone */
    WR_SORT_TILE = 2048,     /* items that a block sorts in shared memory */
    WR_TOP_K_TILE = 4096,    /* the same when only the first k stay */
    WR_TOP_K_SMALL = 1024,   /* tile while k is at most a quarter of it */
    WR_TOP_K_MOST = 1024,    /* of more, everything is sorted */
    WR_SORT_WIDE_BYTES = 16, /* an item of a 64-bit dtype; of others 8 */
    WR_SORT_NARROW_BYTES = 8
};

/* Rows first_row .. first_row + n_rows - 1. Items of a row lie together: n of them in `from` (NULL: they are made from
 * x), n_to in `to` (NULL: the first k of the row go to out). */
typedef struct wr_sort_params {
    const void *x, *from;
    void *to, *out;
    int64_t first_row, n_rows, n, n_to, k;
    int64_t tile, tiles; /* items a tile, tiles a row */
    int64_t width;       /* merge: items of a sorted run */
    int64_t out_stride, out_kept[WR_ROWS_DIMS];
    int32_t dtype, descending, wants_index;
    wr_rows rows;
} wr_sort_params;

#endif
