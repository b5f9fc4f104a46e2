/* Inside the linear family: formats, and what its launch functions share. */
#ifndef WR_CUDA_LINEAR_H
#define WR_CUDA_LINEAR_H

#include "cuda/kernels/linear.h"
#include "cuda/kernels/pack_scales.h"
#include "cuda/launch.h"

/* WR_KIND_* of a weight that wr_cuda_pack gives a layout of its own; WR_KIND_COUNT: it stays as published. */
int wr_linear_kind(const wr_linear_args *args);
const char *wr_linear_kind_name(int kind); /* "A4_64" */
int wr_linear_kind_bits(int kind);
int wr_linear_kind_scales(int kind);         /* WR_SC_* */
int wr_linear_kind_code(int kind);           /* WR_CODE_* */
int wr_linear_kind_offset(int kind);         /* subtracted from the code */
int64_t wr_linear_tile_bytes(int kind);      /* of one 16 x 64 tile */
float wr_linear_kind_unscale(int kind);      /* a power of two */
weir_quant wr_linear_quant(weir_quant q);    /* with the defaults of its mode filled in */
int wr_linear_number_type(weir_dtype dtype); /* WR_NUM_* */

/* The input where the step's weight begins. */
int wr_linear_first_weight(const wr_step *step);
/* Rows of x of a LINEAR or GATHER_LINEAR step. */
int64_t wr_linear_rows_of_x(const wr_step *step);
/* Everything of the params that the step says. first: the input where the weight begins. Sharing fields are 0. */
void wr_linear_params_of(const wr_step *step, int first, wr_linear_params *out);

/* pack_codes.c: 256 columns (or fewer, a multiple of 16) of one published row: codes, a byte each. Nvfp4 codes have
 * their sign turned where the scale is negative and are 0 where it is 0. */
void wr_pack_codes(const wr_linear_args *args, const wr_pack_row *row, int64_t col, int count, uint8_t *codes);

/* linear_pack.c: the row "pack" of LINEAR, LINEAR_ADD and GATHER_LINEAR over a published weight: a prepare step packs
 * it, once for all steps of a program that read it; then the fast rows for packed weights serve. */
bool wr_linear_pack_fits(const wr_step *step);
size_t wr_linear_pack_prepared_bytes(const wr_step *step);
weir_status wr_linear_pack_launch_prepare(const wr_step *step, wr_launcher *launcher, weir_error *err);
size_t wr_linear_pack_scratch_bytes(const wr_step *step, int n_threads);
weir_status wr_linear_pack_launch(const wr_step *step, wr_launcher *launcher, weir_error *err);

#endif
