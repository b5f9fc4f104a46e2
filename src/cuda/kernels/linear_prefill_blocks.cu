/* Many rows (linear_prefill.cuh): weights that are expanded in f32 (GGUF blocks, f16 and f32 scales), and dense f16. */
#include "cuda/kernels/linear_prefill.cuh"

#if WR_HAS_WGMMA
WR_PREFILL_FEW_TOKENS(WR_PREFILL_16)
WR_PREFILL_FEW_TOKENS(WR_PREFILL_32)
WR_PREFILL_FEW_TOKENS(WR_PREFILL_128)
WR_PREFILL_ONE_WIDTH(WR_PREFILL_128)
#endif
