/* Many rows (linear_prefill.cuh): affine weights of 2, 3, 5 and 6 bits with bf16 scales. */
#include "cuda/kernels/linear_prefill.cuh"

#if WR_HAS_WGMMA
WR_PREFILL_TWO_WIDTHS(WR_PREFILL_32)
WR_PREFILL_TWO_WIDTHS(WR_PREFILL_128)
#endif
