/* CONV1D, depthwise, f32: one filter a channel (groups = channels = outputs).
 *
 * Contract. All operands contiguous f32; any stride, dilation and padding. Each result is one chain over the kernel in
 * order, s = fma(x, w, s) from the bias or +0, positions outside the sequence left out. So a position's bits depend on
 * what it sees alone, not on the length, the batch or threads. Other types and groups: the reference.
 *
 * Method: vectors run over channels, which are contiguous in x and out; a unit of 64 channels by 128 positions turns
 * its weights [channel][kernel] once into the thread's scratch.
 *
 * Measured: EPYC (Zen 3), one core of a busy machine, CPU time, 2026-11-29; in us, AVX2, plain C, reference: x [1, 512,
 * 1024], kernel 4: 460-590, 1050-1140, 9250-9760; one position of 4,096 channels: 15-19, 22-39, 73-121. */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/fast.h"
#include "cpu/isa.h"
#include "cpu/conv_body.h"

static bool fits(const wr_step *step) {
    for (int i = 0; i < step->n_in; i++)
        if (step->in[i].dtype != WEIR_DTYPE_F32) return false;
    int64_t width = step->in[0].shape[2];
    return step->out.dtype == WEIR_DTYPE_F32 && step->in[1].shape[2] == 1 && step->in[1].shape[0] == width &&
           ((const wr_conv1d_args *)step->args)->groups == width;
}
WR_FAST_LEVELS(fits)

const wr_kernel_row wr_cpu_conv1d_rows[] = {WR_FAST_ROWS_SCRATCH(wr_conv1d, fits, wr_conv1d_scratch), {0}};

WR_VEC_END
