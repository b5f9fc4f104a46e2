/* Reductions of the CPU room: what their files share. Contract in cpu/reduce.c. */
#ifndef WR_CPU_REDUCE_H
#define WR_CPU_REDUCE_H

#include "array/backend.h"

enum { WR_REDUCE_LEAST = 4096 }; /* elements that are worth a thread */

/* Elements of a row, the product of the reduced axes; -1 when those are not the last ones of a contiguous x. */
int64_t wr_reduce_row(const wr_step *step);

#define WR_REDUCE_DECLARE(isa)                                                                                         \
    void wr_reduce_##isa(const wr_step *step, int thread, int n_threads);                                              \
    size_t wr_reduce_scratch_##isa(const wr_step *step, int n_threads);
WR_REDUCE_DECLARE(portable)
WR_REDUCE_DECLARE(avx2)
WR_REDUCE_DECLARE(avx512)
#undef WR_REDUCE_DECLARE

#endif
