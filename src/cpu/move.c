/* COPY, RESHAPE of what is no view, CONCAT and TAKE: moves of elements of any type.
 *
 * Contract. The same bytes as the reference, for any type, by its size; all operands of one dtype (others: the
 * reference, which casts). COPY and CONCAT take any strides. TAKE wants the axes behind its own contiguous, and a
 * contiguous result; negative indices count from the end, indices out of range give NaN or 0. RESHAPE wants a
 * contiguous result.
 *
 * Method: axes that are contiguous in both sides merge, so that a contiguous copy is one memcpy and a concatenation
 * one a row. Where the result's last axis is strided in the source and another axis is contiguous there, squares of 32
 * elements are transposed, by 8 x 8 shuffles for 4 bytes. Threads share rows, 64 KiB pieces of long rows, or strips of
 * squares; below 64 KiB thread 0 works alone.
 *
 * Measured: EPYC (Zen 3), one core of a busy machine, CPU time, 2026-11-29; in us, AVX2, plain C, reference: transpose
 * of f32 [2048, 1024] 3150-3500, 7300-9100, 16400-19600; of bf16 4600-5800, 4300-5300, 5900-6500 (no shuffles for 2
 * bytes); reshape of a transposed f32 [32, 64, 64] 23, 22-28, 2000; concatenation of two f32 [1024, 64] along axis 1
 * 25-28, 26-38, 33-42; take of 1,024 rows of 64 f32 14-18, 13-17, 31-44; a contiguous copy: memcpy everywhere. */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/fast.h"
#include "cpu/isa.h"
#include "cpu/move_body.h"

static bool contiguous(int n_dims, const int64_t *shape, const int64_t *strides) {
    int64_t expected = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        if (shape[d] != 1 && strides[d] != expected) return false;
        expected *= shape[d];
    }
    return true;
}

static bool copy_fits(const wr_step *step) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    if (x->dtype != out->dtype || wr_tensor_size(x) != wr_tensor_size(out)) return false;
    if (step->op == WR_OP_RESHAPE) return contiguous(out->n_dims, out->shape, out->strides);
    bool same = x->n_dims == out->n_dims;
    for (int d = 0; same && d < x->n_dims; d++) same = x->shape[d] == out->shape[d];
    return same;
}
static bool concat_fits(const wr_step *step) {
    for (int i = 0; i < step->n_in; i++)
        if (step->in[i].dtype != step->out.dtype) return false;
    return true;
}
static bool take_fits(const wr_step *step) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    int inner = ((const wr_axis_args *)step->args)->axis + 1;
    return x->dtype == out->dtype && contiguous(out->n_dims, out->shape, out->strides) &&
           contiguous(x->n_dims - inner, x->shape + inner, x->strides + inner);
}
WR_FAST_LEVELS(copy_fits)
WR_FAST_LEVELS(concat_fits)
WR_FAST_LEVELS(take_fits)

const wr_kernel_row wr_cpu_copy_rows[] = {WR_FAST_ROWS(wr_move_copy, copy_fits), {0}};
const wr_kernel_row wr_cpu_concat_rows[] = {WR_FAST_ROWS(wr_move_concat, concat_fits), {0}};
const wr_kernel_row wr_cpu_take_rows[] = {WR_FAST_ROWS(wr_move_take, take_fits), {0}};

WR_VEC_END
