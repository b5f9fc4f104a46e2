/* Convolutions of the CPU room: what their files share. Contract in cpu/conv.c. */
#ifndef WR_CPU_CONV_H
#define WR_CPU_CONV_H

#include "array/backend.h"

enum { WR_CONV_LEAST = 16384 }; /* multiplications that are worth a thread */

#define WR_CONV_DECLARE(isa)                                                                                           \
    void wr_conv1d_##isa(const wr_step *step, int thread, int n_threads);                                              \
    size_t wr_conv1d_scratch_##isa(const wr_step *step, int n_threads);
WR_CONV_DECLARE(portable)
WR_CONV_DECLARE(avx2)
WR_CONV_DECLARE(avx512)
#undef WR_CONV_DECLARE

#endif
