/* Trials. */
#include "cuda/kernels/linear_lean.cuh"

WR_LEAN_KERNEL(A4_64_lean4_8, A4_64, 8, 768, 4)
WR_LEAN_KERNEL(A4_64_lean2_8, A4_64, 8, 1024, 2)
WR_LEAN_KERNEL(A4_64_lean8_8, A4_64, 8, 512, 8)
WR_LEAN_KERNEL(A4_64_lean4_16, A4_64, 16, 768, 4)
WR_LEAN_KERNEL(A4_64_lean2_16, A4_64, 16, 768, 2)
WR_LEAN_KERNEL(A8_64_lean2_8, A8_64, 8, 768, 2)
WR_LEAN_KERNEL(A8_64_lean4_8, A8_64, 8, 768, 4)
