/* How kernel families of the CPU room register.
 *
 * A family file (cpu/linear.c, cpu/norm.c, ...) exports one array of rows an op,
 * fastest first, ended by a row whose run is NULL, without a reference row:
 *
 *   const wr_kernel_row wr_cpu_rms_norm_rows[] = {{.name = "avx2", .fits = fits_avx2, .run = run_avx2}, {0}};
 *
 * declared in the family's header (cpu/linear.h, cpu/fast.h). backend.c has one
 * line an op in its table fast_rows: include your header there and put your array
 * into your op's line, `[WR_OP_RMS_NORM] = wr_cpu_rms_norm_rows,`. Nothing else is
 * needed: backend.c joins these rows with the reference row of cpu/ref/ref.h, which
 * comes last and fits everything. At most WR_CPU_ROWS_MAX rows an op.
 *
 * Levels: a row that needs AVX2 asks wr_cpu_level() (cpu/isa.h) in its fits().
 *
 * Packing: backend.c has one wr_cpu_packing, which qmm fills in. The reference runs
 * on packed weights too, through unpack_row. */
#ifndef WR_CPU_ROWS_H
#define WR_CPU_ROWS_H

#include "array/backend.h"

enum { WR_CPU_ROWS_MAX = 12 };

typedef struct wr_cpu_packing {
    /* As in wr_backend. */
    size_t (*packed_bytes)(const wr_linear_args *args);
    void (*pack)(const wr_linear_args *args, const void *data, const void *scales, const void *biases, void *packed,
                 int thread, int n_threads);
    /* The values that one row of a packed weight stands for, f32 [cols]; args->packed is 1. The same values as
     * wr_dequant_row gives for the published weight. */
    void (*unpack_row)(const wr_linear_args *args, const void *packed, int64_t expert, int64_t row, float *out);
} wr_cpu_packing;

/* The packing in use (backend.c). */
extern const wr_cpu_packing wr_cpu_packing_used;

#endif
