/* Geometry of quantised weights: which settings are valid, and how many bytes
 * a matrix takes. No numbers are decoded here (that is the CPU room's). */
#ifndef WR_FILE_QUANT_H
#define WR_FILE_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "weir/dtype.h"

/* The mode with its fixed group and bits; for AFFINE its defaults, 64 and 4. */
weir_quant wr_quant_default(weir_quant_mode mode);
/* MLX's name of a mode ("affine", "mxfp4", "nvfp4", "mxfp8"); false when unknown. */
bool wr_quant_mlx_mode(const char *name, weir_quant_mode *out);
/* Are group_size and bits allowed for the mode? */
bool wr_quant_valid(weir_quant quant);

/* Bytes of the parts of one [experts, rows, cols] matrix; 0 where the mode has no
 * such part. dtype: of the data when dense, of scales and biases when affine. */
typedef struct wr_quant_sizes {
    size_t data, scales, biases;
} wr_quant_sizes;

/* Errors: ARGUMENT for invalid settings or sizes, FORMAT when cols is not a multiple
 * of the group or block, LIMIT on overflow. */
weir_status wr_quant_bytes(weir_quant quant, weir_dtype dtype, int64_t experts, int64_t rows, int64_t cols,
                           wr_quant_sizes *out, weir_error *err);

#endif
