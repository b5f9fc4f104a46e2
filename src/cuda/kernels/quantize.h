/* What QUANTIZE_* receive. */
#ifndef WR_CUDA_KERNELS_QUANTIZE_H
#define WR_CUDA_KERNELS_QUANTIZE_H

#include <stdint.h>

enum { WR_QUANTIZE_WEIGHT, WR_QUANTIZE_SCALES, WR_QUANTIZE_BIASES };

typedef struct wr_quantize_params {
    const void *w; /* [groups, group] */
    void *out;
    int64_t groups;
    int32_t type;        /* WR_NUM_* of w, and of affine scales and biases */
    int32_t mode;        /* WR_PUBLISHED_AFFINE .. MXFP8 */
    int32_t bits, group; /* group: at most 128 */
    int32_t part;        /* WR_QUANTIZE_* */
} wr_quantize_params;

#endif
