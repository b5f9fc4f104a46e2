/* Trials. */
#include "cuda/kernels/linear_lean.cuh"

#define ALL(name, ahead, threads8, threads16)                                                                          \
    WR_LEAN_KERNEL(name##_lean##ahead##_8, name, 8, 768, ahead)                                                        \
    WR_LEAN_GATHER_KERNEL(name##_gather, name, 512, ahead)
WR_LINEAR_KINDS_OF_MODELS(ALL)
WR_LEAN_KERNEL(A4_64_lean2_8, A4_64, 8, 1024, 2)
WR_LEAN_KERNEL(A4_64_lean8_8, A4_64, 8, 512, 8)
WR_LEAN_KERNEL(A4_64_lean4_16, A4_64, 16, 768, 4)
WR_LEAN_KERNEL(A4_64_lean2_16, A4_64, 16, 768, 2)
WR_LEAN_KERNEL(A8_64_lean4_8, A8_64, 8, 768, 4)
