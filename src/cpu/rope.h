/* Rotary embedding kernels of the CPU room: what their files share. Contract in cpu/rope.c. */
#ifndef WR_CPU_ROPE_H
#define WR_CPU_ROPE_H

#include "array/backend.h"

enum {
    WR_ROPE_LEAST = 4096,      /* elements that are worth a thread */
    WR_ROPE_TABLE_LEAST = 512, /* angles that are worth a thread */
};

#define WR_ROPE_DECLARE(isa)                                                                                           \
    void wr_rope_##isa(const wr_step *step, int thread, int n_threads);                                                \
    void wr_rope_table_##isa(const wr_step *step, int thread, int n_threads);
WR_ROPE_DECLARE(portable)
WR_ROPE_DECLARE(avx2)
WR_ROPE_DECLARE(avx512)
#undef WR_ROPE_DECLARE

#endif
