/* RMS_NORM and LAYER_NORM over the last axis.
 *
 * Contract: x, weight, bias of any float type, computed in f32, one rounding to x's type. Sums have one fixed tree a
 * row length (norm_body.h), so a row's bits depend on the row alone. The variance is taken about the mean in a second
 * pass.
 *
 * Bytes: x is read once from memory (the second pass finds it in L1), y written once, weight from L1: 8 n a row in
 * f32. Operations: about 5 n. Up to 4,096 elements thread 0 works alone.
 *
 * Measured: EPYC (Zen 3), one core of a busy machine, CPU time, 2026-11-29: rms of 576 / 1536 / 2048 / 98304 elements
 * 0.17 / 0.43 / 0.52 / 23.7 us with AVX2, 0.35 / 0.84 / 1.10 / 49.6 us in plain C. */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/fast.h"
#include "cpu/isa.h"
#include "cpu/norm_body.h"

static bool fits(const wr_step *step) {
    for (int i = 0; i < step->n_in; i++)
        if (!is_float_dtype(step->in[i].dtype)) return false;
    return step->out.dtype == step->in[0].dtype && step->in[0].n_dims > 0;
}
WR_FAST_LEVELS(fits)

const wr_kernel_row wr_cpu_norm_rows[] = {WR_FAST_ROWS_SCRATCH(wr_norm, fits, wr_norm_scratch), {0}};

WR_VEC_END
