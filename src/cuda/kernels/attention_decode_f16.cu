/* Decode attention over keys in f16; see attention_decode.cuh. */
#include "cuda/kernels/attention_decode.cuh"

WR_ATTN_DECODES(WR_ATTN_F16, _f16)
