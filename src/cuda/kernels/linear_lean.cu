/* The lean decode kernels (linear_lean.cuh). */
#include "cuda/kernels/linear_lean.cuh"

#define ALL(name, ahead, threads8, threads16) WR_LEAN_KERNELS(name, ahead, threads16 / 16)
WR_LINEAR_KINDS_OF_MODELS(ALL)
