/* SAMPLE: from logits to tokens, one row a sequence, on a device. What the engine writes and reads, and what kernels
 * see; plain C, since kernels include it too.
 *
 * in0 logits f32 [R, V]. in1 u8 [bytes]: R wr_sample_row, then bias pairs wherever the rows' bias_offset says (8-byte
 * aligned). in2? u32 [slots, V]: what each sequence has seen of each token: the number of times it was put out, and
 * WR_SAMPLE_IN_PROMPT. Result i32 [R, WR_SAMPLE_HEAD + 2 n_top]: token (-1: no logit is finite, or the row is off),
 * how many best tokens follow, the token's log-probability (bits of an f32; at least -1e30), 0, n_top tokens, n_top
 * log-probabilities (bits). What a row did not ask for is 0.
 *
 * The same rules as on the CPU (engine/sampler.c): penalties and bias, temperature, top_k, top_p, min_p, one draw from
 * Philox at (seed, position); log-probabilities are of the logits as they came. Of equal logits the lower id is the
 * better; NaN is never chosen. A row's result does not depend on the others. */
#ifndef WR_ARRAY_SAMPLE_H
#define WR_ARRAY_SAMPLE_H

#include <stdint.h>

enum {
    WR_SAMPLE_LOGPROB = 1, /* the token's log-probability is wanted */
    WR_SAMPLE_COUNT = 2,   /* add the token to the row's counts; no other row of the step may have them */
    WR_SAMPLE_OFF = 4      /* a padding row */
};
enum { WR_SAMPLE_HEAD = 4, WR_SAMPLE_MAX_TOP = 128 };
#define WR_SAMPLE_IN_PROMPT 0x80000000u

typedef struct wr_sample_row {
    uint64_t seed;
    int64_t position;
    float temperature;        /* 0: the best token */
    float top_p;              /* 0, 1: off */
    float min_p;              /* 0: off */
    int32_t top_k;            /* 0: off */
    float repetition_penalty; /* 0, 1: off */
    float presence_penalty, frequency_penalty;
    uint32_t flags;
    int32_t slot;                 /* row of in2; -1: nothing was seen */
    int32_t n_top;                /* best tokens wanted, at most the args' n_top */
    uint32_t n_bias, bias_offset; /* pairs; bytes from the start of in1 */
} wr_sample_row;

typedef struct wr_sample_bias {
    int32_t token;
    float bias;
} wr_sample_bias;

typedef struct wr_sample_args {
    int32_t n_top; /* room for so many best tokens a row, at most WR_SAMPLE_MAX_TOP */
} wr_sample_args;

#endif
