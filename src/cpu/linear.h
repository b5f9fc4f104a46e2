/* LINEAR, GATHER_LINEAR and EMBEDDING over packed weights (cpu/pack.h): every quantised format and dense
 * bf16, f16 and f32. x may be f32, bf16 or f16; sums are f32; an output row depends on its own row of x only, not
 * on how many rows or threads there are, and all instruction sets give the same bits. */
#ifndef WR_CPU_LINEAR_H
#define WR_CPU_LINEAR_H

#include "cpu/rows.h"

extern const wr_kernel_row wr_cpu_linear_rows[];
extern const wr_kernel_row wr_cpu_gather_linear_rows[];
extern const wr_kernel_row wr_cpu_embedding_rows[];

/* For wr_cpu_packing; see cpu/rows.h. */
size_t wr_cpu_packed_bytes(const wr_linear_args *args);
void wr_cpu_pack(const wr_linear_args *args, const void *data, const void *scales, const void *biases, void *packed,
                 int thread, int n_threads);
void wr_cpu_unpack_row(const wr_linear_args *args, const void *packed, int64_t expert, int64_t row, float *out);

#endif
