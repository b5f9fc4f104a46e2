/* Rows of the CPU room's fast kernels other than linear layers, for the table in backend.c; see cpu/rows.h. Each
 * family's contract stands at the head of its .c file. */
#ifndef WR_CPU_FAST_H
#define WR_CPU_FAST_H

#include "array/backend.h"

extern const wr_kernel_row wr_cpu_paged_attention_rows[]; /* attention.c */
extern const wr_kernel_row wr_cpu_attention_rows[];

#endif
