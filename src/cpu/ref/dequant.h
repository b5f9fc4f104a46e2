/* Values of quantised weights. The one definition of every format; fast kernels and tests compare with it. */
#ifndef WR_CPU_REF_DEQUANT_H
#define WR_CPU_REF_DEQUANT_H

#include "array/op.h"

/* Row `row` of expert `expert` as f32 [cols]. data, scales, biases as published (args->packed 0; layouts: wr_weight of
 * file/checkpoint.h) or data in the backend's own layout (args->packed 1). Every multiplication and addition rounds to
 * f32 on its own, in the order in which the format's publisher does it:
 *   affine      scale * q + bias
 *   mxfp4, mxfp8  element * scale; nvfp4  element * scale * global_scale
 *   Q4_0, Q5_0, Q8_0  d * (q - offset); Q4_1, Q5_1  d * q + m
 *   Q2_K, Q4_K, Q5_K  (d * sc) * q - (dmin * mn); Q3_K, Q6_K  (d * sc) * q */
void wr_dequant_row(const wr_linear_args *args, const void *data, const void *scales, const void *biases,
                    int64_t expert, int64_t row, float *out);
/* n bytes-long row of GGUF blocks: values = n_values (a multiple of the block's). */
void wr_dequant_gguf(weir_quant_mode mode, const uint8_t *blocks, int64_t n_values, float *out);
/* Bytes of one row of data as published; 0 for a packed weight. */
int64_t wr_weight_row_bytes(const wr_linear_args *args);

#endif
