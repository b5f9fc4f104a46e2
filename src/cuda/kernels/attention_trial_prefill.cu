/* Trial of longer spans; to be removed. */
#ifndef WR_EMULATE
#define WR_ATTN_UNIT 2
#define WR_ATTN_TRIAL
#define wr_attn_prefill_128 wr_attn_prefill_128_x
#define wr_attn_prefill_256 wr_attn_prefill_256_x
#include "cuda/kernels/attention_prefill.cu"
#if WR_HAS_WGMMA
WR_KERNEL(wr_attn_prefill_128_x, wr_attn_params, WR_PREFILL_THREADS, 1) {
    WR_DYNAMIC_SHARED(shared);
    prefill<128, 128>(&p, shared);
}
WR_KERNEL(wr_attn_prefill_256_x, wr_attn_params, WR_PREFILL_THREADS, 1) {
    WR_DYNAMIC_SHARED(shared);
    prefill<256, 256>(&p, shared);
}
#endif
#endif
