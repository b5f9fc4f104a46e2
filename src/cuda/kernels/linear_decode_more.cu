/* The decode tiers (linear_decode.cuh) of all other kinds of weights: 9 to 16 rows are done at the width of 32, and the
 * ring is short, which keeps the code small. */
#include "cuda/kernels/linear_decode.cuh"

#define BOTH(name, threads8)                                                                                           \
    WR_DECODE_KERNEL(name, name, 8, threads8, 2)                                                                       \
    WR_DECODE_KERNEL(name, name, 32, 256, 2)
WR_LINEAR_KINDS_MORE(BOTH)
