/* MATMUL: dense products of floats, batched, any strides of either operand.
 *
 * Contract. f32, f16 and bf16 (out may differ from the operands), multiplied and summed in f32, one rounding to the
 * result's type. Every result is one chain over k from 0 up, s = fma(a[m][k], b[k][n], s), starting from +0 (plain C:
 * a product and a sum, each rounded). So a row's bits depend on that row and b alone: not on M, on the blocks, on
 * strides or on threads. Error against exact sums: at most K * 2^-24 * sum |a b| (twice that in plain C), in practice
 * about the square root of K.
 *
 * Method: blocks of 96 x 192 results, passes of 256 over k; a block's operands are packed as f32 into the thread's
 * scratch (a in strips of one register tile's rows, b in panels of two vectors), the sums wait there between passes.
 * A result with fewer columns than a panel is computed transposed, which has the same bits because a b = b a.
 */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/fast.h"
#include "cpu/isa.h"
#include "cpu/matmul_body.h"

static bool fits(const wr_step *step) {
    return is_float_dtype(step->in[0].dtype) && is_float_dtype(step->in[1].dtype) && is_float_dtype(step->out.dtype) &&
           step->in[0].n_dims >= 2 && step->in[1].n_dims >= 2;
}
WR_FAST_LEVELS(fits)

const wr_kernel_row wr_cpu_matmul_rows[] = {WR_FAST_ROWS_SCRATCH(wr_matmul, fits, wr_matmul_scratch), {0}};

WR_VEC_END
