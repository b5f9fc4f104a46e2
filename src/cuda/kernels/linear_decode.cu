/* The decode tiers (linear_decode.cuh) of the kinds of weights that models mostly come in, with a ring of tiles as deep
 * as registers allow: 80 a thread, so that 24 warps fit on a multiprocessor (32 rows and a few others: 128, 16 warps).
 */
#include "cuda/kernels/linear_decode.cuh"

#define ALL(name, ahead, threads8, threads16)                                                                          \
    WR_DECODE_KERNEL(name, name, 8, threads8, ahead)                                                                   \
    WR_DECODE_KERNEL(name, name, 16, threads16, ahead)                                                                 \
    WR_DECODE_KERNEL(name, name, 32, 256, ahead)
WR_LINEAR_KINDS_OF_MODELS(ALL)
