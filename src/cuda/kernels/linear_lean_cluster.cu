/* The lean decode kernels (linear_lean.cuh) whose blocks share x, or K, in clusters. */
#include "cuda/kernels/linear_lean.cuh"

#if WR_HAS_WGMMA
#define ALL(name, ahead, threads8, threads16) WR_LEAN_CLUSTER_KERNELS(name, ahead, threads16 / 16)
WR_LINEAR_KINDS_OF_MODELS(ALL)
#endif
