/* SAMPLE: parameters and scratch shared by launcher and kernels. */
#ifndef WR_CUDA_SAMPLE_H
#define WR_CUDA_SAMPLE_H

#include <stdint.h>

#include "array/sample.h"

enum {
    WR_SAMPLE_THREADS = 512,
    WR_SAMPLE_EACH = 16, /* logits of a thread in a slice */
    WR_SAMPLE_SLICE = WR_SAMPLE_THREADS * WR_SAMPLE_EACH,
    WR_SAMPLE_MAX_SLICES = 2048, /* so 2^24 logits a row */
    WR_SAMPLE_BINS = 2048
};

/* What one slice of a row gives. */
typedef struct wr_sample_part {
    uint64_t best;    /* the best logit after penalties and bias: its key, then the inverted id */
    uint64_t raw_sum; /* of exp(logit - raw_max) in units of 2^-44 */
    uint64_t sum;     /* of the slice's weights, for rows that draw in the order of ids */
    float raw_max;
    uint32_t unused;
} wr_sample_part;

/* A row's scratch: this, then its slices' parts. */
typedef struct wr_sample_state {
    uint64_t weight[WR_SAMPLE_BINS]; /* of the tokens in each bin of logits */
    uint32_t count[WR_SAMPLE_BINS];
    uint64_t floor_weight; /* of the tokens that min_p leaves */
    uint32_t floor_count;
    uint32_t arrived; /* slices that have added theirs */
} wr_sample_state;

typedef struct wr_sample_params {
    const float *logits;  /* [n_rows, vocab] */
    const uint8_t *table; /* rows and bias pairs */
    uint32_t *counts;     /* [n_slots, vocab] or NULL */
    int32_t *out;         /* [n_rows, out_width] */
    uint8_t *scratch;     /* n_rows times row_bytes */
    int64_t n_rows, vocab, n_slices, n_slots, out_width, row_bytes;
    int64_t table_bytes;
    int32_t n_top;
} wr_sample_params;

#endif
