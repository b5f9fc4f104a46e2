/* Dense matrix products of the CPU room: what their files share. Contract in cpu/matmul.c. */
#ifndef WR_CPU_MATMUL_H
#define WR_CPU_MATMUL_H

#include "array/backend.h"

/* A block of the result and the depth of one pass over it, so that both packed operands and the sums (360 KiB) stay
 * in the second cache. Few rows get wide and shallow blocks instead: they only stream the other operand. */
enum { WR_MATMUL_ROWS = 96, WR_MATMUL_COLS = 192, WR_MATMUL_DEPTH = 256 };
enum { WR_MATMUL_FEW_COLS = 768, WR_MATMUL_FEW_DEPTH = 16 };
enum { WR_MATMUL_LEAST = 65536 }; /* multiplications that are worth a thread */

#define WR_MATMUL_DECLARE(isa)                                                                                         \
    void wr_matmul_##isa(const wr_step *step, int thread, int n_threads);                                              \
    size_t wr_matmul_scratch_##isa(const wr_step *step, int n_threads);
WR_MATMUL_DECLARE(portable)
WR_MATMUL_DECLARE(avx2)
WR_MATMUL_DECLARE(avx512)
#undef WR_MATMUL_DECLARE

#endif
