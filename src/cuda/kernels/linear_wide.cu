/* The wide decode kernels (linear_wide.cuh). */
#include "cuda/kernels/linear_wide.cuh"

#if WR_HAS_WGMMA
#define ALL(name, ahead, threads8, threads16) WR_WIDE_KERNELS(name, ahead)
WR_LINEAR_KINDS_OF_MODELS(ALL)
#endif
