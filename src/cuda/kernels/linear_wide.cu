/* Trials. */
#include "cuda/kernels/linear_wide.cuh"

#if WR_HAS_WGMMA
#define ALL(name, ahead, threads8, threads16)                                                                          \
    WR_WIDE_KERNEL(name##_wide##ahead##_16, name, 16, 512, ahead)                                                      \
    WR_WIDE_KERNEL(name##_wide##ahead##_32, name, 32, 512, ahead)
WR_LINEAR_KINDS_OF_MODELS(ALL)
WR_WIDE_KERNEL(A4_64_wide2_32, A4_64, 32, 768, 2)
WR_WIDE_KERNEL(A4_64_wide34_32, A4_64, 32, 768, 4)
WR_WIDE_KERNEL(A4_64_wide8_32, A4_64, 32, 512, 8)
WR_WIDE_KERNEL(A4_64_wide8_16, A4_64, 16, 512, 8)
WR_WIDE_KERNEL(A4_64_wide2_16, A4_64, 16, 768, 2)
WR_WIDE_KERNEL(A4_64_wide34_16, A4_64, 16, 768, 4)
WR_WIDE_KERNEL(A4_64_wide4_8, A4_64, 8, 768, 4)
#endif
