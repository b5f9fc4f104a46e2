/* Copying kernels of the CPU room: what their files share. Contract in cpu/copy.c. */
#ifndef WR_CPU_COPY_H
#define WR_CPU_COPY_H

#include "array/backend.h"

enum { WR_COPY_LEAST = 8192 }; /* elements that are worth a thread */

#define WR_COPY_DECLARE(isa) void wr_kv_write_##isa(const wr_step *step, int thread, int n_threads);
WR_COPY_DECLARE(portable)
WR_COPY_DECLARE(avx2)
WR_COPY_DECLARE(avx512)
#undef WR_COPY_DECLARE

#endif
