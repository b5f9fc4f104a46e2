/* Norm kernels of the CPU room: what their files share. Contract in cpu/norm.c. */
#ifndef WR_CPU_NORM_H
#define WR_CPU_NORM_H

#include "array/backend.h"

enum { WR_NORM_LEAST = 4096 }; /* elements that are worth a thread */

#define WR_NORM_DECLARE(isa)                                                                                           \
    void wr_norm_##isa(const wr_step *step, int thread, int n_threads);                                                \
    size_t wr_norm_scratch_##isa(const wr_step *step, int n_threads);
WR_NORM_DECLARE(portable)
WR_NORM_DECLARE(avx2)
WR_NORM_DECLARE(avx512)
#undef WR_NORM_DECLARE

#endif
