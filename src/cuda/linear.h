/* Inside the linear family: formats, and what its launch functions share. */
#ifndef WR_CUDA_LINEAR_H
#define WR_CUDA_LINEAR_H

#include "cuda/kernels/linear.h"
#include "cuda/launch.h"

/* WR_KIND_* of a weight that wr_cuda_pack gives a layout of its own; WR_KIND_COUNT: it stays as published. */
int wr_linear_kind(const wr_linear_args *args);
const char *wr_linear_kind_name(int kind); /* "A4_64" */
int wr_linear_kind_bits(int kind);
int wr_linear_kind_scales(int kind);      /* WR_SC_* */
int wr_linear_kind_code(int kind);        /* WR_CODE_* */
int wr_linear_kind_offset(int kind);      /* subtracted from the code */
int64_t wr_linear_tile_bytes(int kind);   /* of one 16 x 64 tile */
float wr_linear_kind_unscale(int kind);   /* a power of two */
weir_quant wr_linear_quant(weir_quant q); /* with the defaults of its mode filled in */

/* Rows of x of a LINEAR or GATHER_LINEAR step. */
int64_t wr_linear_rows_of_x(const wr_step *step);
/* Everything of the params that the step says. first: the input where the weight begins. Sharing fields are 0. */
void wr_linear_params_of(const wr_step *step, int first, wr_linear_params *out);

/* pack_codes.c: 256 columns (or fewer, a multiple of 16) of one published row: codes, a byte each. Nvfp4 codes have
 * their sign turned where the scale is negative and are 0 where it is 0. */
typedef struct wr_pack_row {
    const uint8_t *data, *scales, *biases; /* of this row, from its first column */
} wr_pack_row;
void wr_pack_codes(const wr_linear_args *args, const wr_pack_row *row, int64_t col, int count, uint8_t *codes);
/* The scale words of one tile of `kind` for row r (0..15) of the tile, whose first column is col. */
void wr_pack_tile_scales(const wr_linear_args *args, int kind, const wr_pack_row *row, int r, int64_t col,
                         uint8_t *scales);

#endif
