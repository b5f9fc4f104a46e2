/* KV_WRITE: rows of K or V into their pages.
 *
 * Contract: x [T, G, D], each row contiguous, and pages of any float types, round to nearest even; rows whose sequence,
 * position or page does not exist are skipped, as the reference does. Two rows of one call never name the same slot
 * (the caller's promise), so rows are shared out freely. Bytes: x once, the pages' row once. */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/copy_body.h"
#include "cpu/fast.h"
#include "cpu/isa.h"

static bool kv_fits(const wr_step *step) {
    const wr_kv_args *args = step->args;
    const wr_tensor *x = &step->in[1];
    bool rows_lie_together =
        !args->tiled && (x->strides[2] == 1 || x->shape[2] == 1) && (x->strides[1] == x->shape[2] || x->shape[1] == 1);
    return rows_lie_together && is_float_dtype(step->out.dtype) && is_float_dtype(step->in[1].dtype) &&
           step->in[2].dtype == WEIR_DTYPE_I32 && step->in[3].dtype == WEIR_DTYPE_I32 &&
           step->in[4].dtype == WEIR_DTYPE_I32;
}
WR_FAST_LEVELS(kv_fits)

const wr_kernel_row wr_cpu_kv_write_rows[] = {WR_FAST_ROWS(wr_kv_write, kv_fits), {0}};

WR_VEC_END
