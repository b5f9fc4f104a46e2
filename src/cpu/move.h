/* Moving kernels of the CPU room: what their files share. Contract in cpu/move.c. */
#ifndef WR_CPU_MOVE_H
#define WR_CPU_MOVE_H

#include "array/backend.h"

enum { WR_MOVE_LEAST = 65536 }; /* bytes that are worth a thread */

#define WR_MOVE_DECLARE(isa)                                                                                           \
    void wr_move_copy_##isa(const wr_step *step, int thread, int n_threads);                                           \
    void wr_move_concat_##isa(const wr_step *step, int thread, int n_threads);                                         \
    void wr_move_take_##isa(const wr_step *step, int thread, int n_threads);
WR_MOVE_DECLARE(portable)
WR_MOVE_DECLARE(avx2)
WR_MOVE_DECLARE(avx512)
#undef WR_MOVE_DECLARE

#endif
