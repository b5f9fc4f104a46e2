/* Rows of the CPU room's fast kernels other than linear layers, for the table in backend.c; see cpu/rows.h. Each
 * family's contract stands at the head of its .c file. */
#ifndef WR_CPU_FAST_H
#define WR_CPU_FAST_H

#include "array/backend.h"
#include "cpu/isa.h"

extern const wr_kernel_row wr_cpu_paged_attention_rows[]; /* attention.c */
extern const wr_kernel_row wr_cpu_attention_rows[];
extern const wr_kernel_row wr_cpu_norm_rows[]; /* norm.c: RMS_NORM, LAYER_NORM */
extern const wr_kernel_row wr_cpu_rope_rows[]; /* rope.c */
extern const wr_kernel_row wr_cpu_rope_table_rows[];
extern const wr_kernel_row wr_cpu_elementwise_rows[]; /* elementwise.c: every op that it names native */
extern const wr_kernel_row wr_cpu_fused_rows[];
extern const wr_kernel_row wr_cpu_kv_write_rows[]; /* copy.c */
extern const wr_kernel_row wr_cpu_reduce_rows[];   /* reduce.c: SUM, MEAN, MAX, MIN, LOGSUMEXP, ARGMAX, SOFTMAX */
extern const wr_kernel_row wr_cpu_matmul_rows[];   /* matmul.c */
extern const wr_kernel_row wr_cpu_copy_rows[];     /* move.c: COPY, RESHAPE */
extern const wr_kernel_row wr_cpu_concat_rows[];
extern const wr_kernel_row wr_cpu_take_rows[];
extern const wr_kernel_row wr_cpu_conv1d_rows[]; /* conv.c */

/* For the family files: fits() of each level, and the rows of a kernel whose functions end in the level's name. */
#define WR_FAST_LEVELS(fits)                                                                                           \
    __attribute__((unused)) static bool fits##_avx2(const wr_step *step) {                                             \
        return wr_cpu_level() >= WR_CPU_AVX2 && fits(step);                                                            \
    }                                                                                                                  \
    __attribute__((unused)) static bool fits##_avx512(const wr_step *step) {                                           \
        return wr_cpu_level() >= WR_CPU_AVX512 && fits(step);                                                          \
    }                                                                                                                  \
    static bool fits##_portable(const wr_step *step) { return fits(step); }
#define WR_FAST_ROW(isa, function, test)                                                                               \
    { .name = #isa, .fits = test##_##isa, .run = function##_##isa }
#define WR_FAST_ROW_SCRATCH(isa, function, test, scratch)                                                              \
    { .name = #isa, .fits = test##_##isa, .run = function##_##isa, .scratch_bytes = scratch##_##isa }
#if defined(WR_CPU_X86)
#define WR_FAST_ROWS(function, test)                                                                                   \
    WR_FAST_ROW(avx512, function, test), WR_FAST_ROW(avx2, function, test), WR_FAST_ROW(portable, function, test)
#define WR_FAST_ROWS_SCRATCH(function, test, scratch)                                                                  \
    WR_FAST_ROW_SCRATCH(avx512, function, test, scratch), WR_FAST_ROW_SCRATCH(avx2, function, test, scratch),          \
        WR_FAST_ROW_SCRATCH(portable, function, test, scratch)
#else
#define WR_FAST_ROWS(function, test)                  WR_FAST_ROW(portable, function, test)
#define WR_FAST_ROWS_SCRATCH(function, test, scratch) WR_FAST_ROW_SCRATCH(portable, function, test, scratch)
#endif

#endif
