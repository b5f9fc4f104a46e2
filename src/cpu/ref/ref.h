/* The plain reference of every op: any dtype, any strides where the op table says STRIDED, 64-bit sizes, empty arrays.
 * One function an op with the type wr_kernel; wr_cpu_ref(op) finds it. */
#ifndef WR_CPU_REF_REF_H
#define WR_CPU_REF_REF_H

#include "array/backend.h"

/* NULL for WR_OP_DATA and for numbers that are no op. Views (SLICE, TRANSPOSE, RESHAPE, BROADCAST) have a kernel too:
 * it copies, for the case that the strides cannot express the view. */
wr_kernel wr_cpu_ref(wr_op_id op);
/* Bytes of step->scratch that the reference of the op needs. */
size_t wr_cpu_ref_scratch(const wr_step *step, int n_threads);

#endif
