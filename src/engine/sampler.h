/* Sampling: from one row of logits to one token. Everything a draw depends on is
 * in its arguments: logits, options, the sequence's own counts, seed and position. */
#ifndef WR_ENGINE_SAMPLER_H
#define WR_ENGINE_SAMPLER_H

#include "base/status.h"
#include "weir/engine.h"

typedef struct wr_candidate {
    float logit;
    int32_t token;
} wr_candidate;

/* What a sequence remembers for penalties. */
typedef struct wr_sampler {
    weir_sampling options;
    weir_logit_bias *bias; /* owned copy */
    int64_t vocab;
    float *adjusted;         /* [vocab] logits after penalties and bias; NULL without either */
    uint32_t *output_counts; /* [vocab], NULL without penalties */
    uint8_t *in_prompt;      /* [vocab] */
    int32_t *seen;           /* distinct tokens, in order of first sight */
    int64_t n_seen, seen_capacity;
} wr_sampler;

/* Errors: ARGUMENT naming the option, MEMORY. max_tokens bounds the sequence's length. */
weir_status wr_sampler_init(wr_sampler *s, const weir_sampling *options, int64_t vocab, int64_t max_tokens,
                            weir_error *err);
void wr_sampler_deinit(wr_sampler *s);
/* Count a token of the prompt or of the output. */
void wr_sampler_see(wr_sampler *s, int32_t token, bool output);

/* log(sum(exp(logits))) over finite values; fixed order. */
double wr_logsumexp(const float *logits, int64_t vocab);
/* The k best by value, falling, lower id first among equals; NaN is never chosen. Returns how many (<= k). */
int wr_top_tokens(const float *logits, int64_t vocab, int k, wr_candidate *out);

/* Choose the token for `position`. scratch: [vocab]. -1 when no logit is finite. */
int32_t wr_sample(const wr_sampler *s, const float *logits, wr_candidate *scratch, int64_t position);

#endif
