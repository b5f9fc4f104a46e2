/* Element-wise kernels of the CPU room: what their files share. Contract in cpu/elementwise.c. */
#ifndef WR_CPU_ELEMENTWISE_H
#define WR_CPU_ELEMENTWISE_H

#include <stdbool.h>

#include "array/backend.h"

enum {
    WR_ELEMENTWISE_TILE = 256,   /* elements of a register */
    WR_ELEMENTWISE_LEAST = 4096, /* elements that are worth a thread */
};

/* Inputs of an element-wise op. */
int wr_elementwise_inputs(wr_op_id op);
/* Is there vector code for this op on these types? Otherwise the reference computes it, in a fused chain too, so that
 * the chain has the bits of the single ops. */
bool wr_elementwise_native(wr_op_id op, weir_dtype out, const weir_dtype *in);

#define WR_ELEMENTWISE_DECLARE(isa)                                                                                    \
    void wr_elementwise_##isa(const wr_step *step, int thread, int n_threads);                                         \
    void wr_fused_##isa(const wr_step *step, int thread, int n_threads);
WR_ELEMENTWISE_DECLARE(portable)
WR_ELEMENTWISE_DECLARE(avx2)
WR_ELEMENTWISE_DECLARE(avx512)
#undef WR_ELEMENTWISE_DECLARE

#endif
