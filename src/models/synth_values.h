/* The values of random checkpoints: each byte a function of (seed, tensor, position). */
#ifndef WR_MODELS_SYNTH_VALUES_H
#define WR_MODELS_SYNTH_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "weir/dtype.h"

typedef enum wr_synth_kind {
    WR_SYNTH_DENSE,  /* mean + deviation * normal, in dtype */
    WR_SYNTH_CODES,  /* any bits: affine integers of all widths, and E2M1 */
    WR_SYNTH_E4M3,   /* E4M3 without NaN */
    WR_SYNTH_SCALES, /* affine, in dtype */
    WR_SYNTH_BIASES, /* affine: what makes the group's mean 0; same key as the scales */
    WR_SYNTH_SCALE_CODES
} wr_synth_kind;

typedef struct wr_synth_values {
    wr_synth_kind kind;
    weir_dtype dtype;
    uint64_t key;
    float mean, deviation; /* DENSE; SCALES, BIASES: deviation is the root mean square of the scales */
    float middle;          /* BIASES: the mean of the codes */
    uint8_t low, high;     /* SCALE_CODES: the two codes, */
    uint32_t threshold;    /* and high is taken this often of 2^32 */
} wr_synth_values;

uint64_t wr_synth_key(uint64_t seed, const char *tensor);
/* How to fill the parts of a matrix so that its values have the given deviation around 0. name: of the module. */
void wr_synth_matrix_values(weir_quant quant, weir_dtype dtype, uint64_t seed, const char *name, double deviation,
                            wr_synth_values *data, wr_synth_values *scales, wr_synth_values *biases);

enum { WR_SYNTH_CHUNK_BYTES = 1 << 20 };
/* Bytes [offset, offset + bytes) of the tensor; offset a multiple of WR_SYNTH_CHUNK_BYTES, bytes of the element's. */
void wr_synth_fill(const wr_synth_values *v, uint64_t offset, uint8_t *out, size_t bytes);

#endif
