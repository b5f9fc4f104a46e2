/* ROPE_TABLE and ROPE.
 *
 * Contract. Table: positions i32 or i64, angles in double (one product), exact reduction below 2^20, the C library
 * above; right to 1e-7 before the attention factor. It is made once a step for all layers. Rotation: x of any float
 * type, last axis contiguous, other strides free; a pair is a c - b s, b c + a s in f32, one fused multiply-add each
 * where the level has it; the rest of the row is copied. Rows are (token, head), shared out by output: no sums cross
 * them.
 *
 * Bytes: 2 elements moved an element of x; operations 3 an element. Up to 4,096 elements thread 0 works alone.
 *
 * Measured: EPYC (Zen 3), one core of a busy machine, CPU time, 2026-11-29, AVX2: 9 heads of 64 0.15 us, in pairs 0.24;
 * 32 heads 0.48 and 0.80; table 0.36 us a row of 32 angles. */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/fast.h"
#include "cpu/isa.h"
#include "cpu/rope_body.h"

static bool fits(const wr_step *step) {
    const wr_tensor *x = &step->in[0], *table = &step->in[1], *out = &step->out;
    return is_float_dtype(x->dtype) && out->dtype == x->dtype && table->dtype == WEIR_DTYPE_F32 &&
           (x->strides[2] == 1 || x->shape[2] <= 1) && (out->strides[2] == 1 || out->shape[2] <= 1) &&
           (table->strides[2] == 1 || table->shape[2] <= 1) && 2 * table->shape[2] <= x->shape[2];
}
static bool table_fits(const wr_step *step) {
    weir_dtype d = step->in[0].dtype;
    return step->in[0].n_dims == 1 && (d == WEIR_DTYPE_I32 || d == WEIR_DTYPE_I64);
}
WR_FAST_LEVELS(fits)
WR_FAST_LEVELS(table_fits)

const wr_kernel_row wr_cpu_rope_rows[] = {WR_FAST_ROWS(wr_rope, fits), {0}};
const wr_kernel_row wr_cpu_rope_table_rows[] = {WR_FAST_ROWS(wr_rope_table, table_fits), {0}};

WR_VEC_END
