/* Element-wise ops of floats, and fused chains.
 *
 * Contract. A chain runs tile by tile, 256 elements of each register, in L1; each instruction rounds to its register's
 * type. A single op is a chain of one, so fused and unfused give the same bits at one level. Instructions without
 * vector code (integers, logarithms, trigonometry, pow, erf, exact gelu) are computed by the reference over the tile,
 * as they are when they stand alone. Inputs: any strides; axes that can be are merged first, so contiguous,
 * row-broadcast and scalar-broadcast inputs run without copies (f32) or with one conversion a tile. Errors of the
 * functions stand in vec_math.h.
 *
 * Bytes: each input and the output once. Operations: about 20 an element for exp, 30 for silu, 45 for tanh. Up to 4,096
 * elements thread 0 works alone: waking another costs more.
 *
 * Measured: EPYC (Zen 3), one core of a busy machine, CPU time, 2026-11-29, AVX2, us for 576 / 1536 / 2048 / 98304
 * elements: add 0.21 / 0.45 / 0.59 / 33.7; exp 0.47 / 1.11 / 1.56 / 67; tanh 0.70 / 1.65 / 2.2 / 86; silu times another
 * row, fused, 0.82 / 1.9 / 2.6 / 127. Plain C: 3 to 5 times as long where there is an exp. */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/elementwise_body.h"
#include "cpu/fast.h"
#include "cpu/isa.h"

int wr_elementwise_inputs(wr_op_id op) {
    if (op == WR_OP_SELECT) return 3;
    return op >= WR_OP_ADD && op <= WR_OP_GREATER_EQUAL ? 2 : 1;
}

bool wr_elementwise_native(wr_op_id op, weir_dtype out, const weir_dtype *in) {
    switch (op) {
    case WR_OP_NEG:
    case WR_OP_ABS:
    case WR_OP_SIGN:
    case WR_OP_SQUARE:
    case WR_OP_FLOOR:
    case WR_OP_CEIL:
    case WR_OP_ROUND:
    case WR_OP_SQRT:
    case WR_OP_RSQRT:
    case WR_OP_RECIPROCAL:
    case WR_OP_EXP:
    case WR_OP_EXPM1:
    case WR_OP_TANH:
    case WR_OP_SIGMOID:
    case WR_OP_SILU:
    case WR_OP_GELU_TANH:
    case WR_OP_RELU:
    case WR_OP_CAST: return is_float_dtype(out) && is_float_dtype(in[0]);
    case WR_OP_ADD:
    case WR_OP_SUB:
    case WR_OP_MUL:
    case WR_OP_DIV:
    case WR_OP_MAXIMUM:
    case WR_OP_MINIMUM: return is_float_dtype(out) && is_float_dtype(in[0]) && is_float_dtype(in[1]);
    case WR_OP_EQUAL:
    case WR_OP_NOT_EQUAL:
    case WR_OP_LESS:
    case WR_OP_LESS_EQUAL:
    case WR_OP_GREATER:
    case WR_OP_GREATER_EQUAL: return is_float_dtype(in[0]) && is_float_dtype(in[1]);
    case WR_OP_SELECT:
        return is_float_dtype(out) && in[0] == WEIR_DTYPE_BOOL && is_float_dtype(in[1]) && is_float_dtype(in[2]);
    default: return false;
    }
}

static bool fits(const wr_step *step) {
    weir_dtype in[3] = {0};
    for (int i = 0; i < step->n_in && i < 3; i++) in[i] = step->in[i].dtype;
    return wr_elementwise_native(step->op, step->out.dtype, in);
}
static bool fused_fits(const wr_step *step) {
    (void)step;
    return true;
}
WR_FAST_LEVELS(fits)
WR_FAST_LEVELS(fused_fits)

const wr_kernel_row wr_cpu_elementwise_rows[] = {WR_FAST_ROWS(wr_elementwise, fits), {0}};
const wr_kernel_row wr_cpu_fused_rows[] = {WR_FAST_ROWS(wr_fused, fused_fits), {0}};

WR_VEC_END
