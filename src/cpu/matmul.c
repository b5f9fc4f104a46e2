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
 * Up to one tile of rows, an f32 b with contiguous rows is read where it lies. A result with fewer columns than a panel
 * is computed transposed, which has the same bits because a b = b a.
 *
 * Measured: EPYC (Zen 3), one core of a busy machine, CPU time, 2026-11-29; AVX2, then plain C. GFLOP/s: f32 512^3
 * 43-59, 16-23 (the tile alone 83; the reference 0.25); with b transposed 49-63, 16-24; bf16 56-66, 16-23; f32
 * [2048, 1024] by [1024, 2048] 47-53, 19-21; 64^3 35-45, 18. One row by [2048, 2048], in us: f32 1600-1750 (10 GB/s
 * of b), 1900-2500; transposed 1600-2500, 2700-3500; bf16 transposed 1700-2700, 4500-6900. AVX-512: not run; the same
 * code with 16 lanes and 12 rows a tile in plain C passes the tests. */
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
