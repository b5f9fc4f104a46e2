/* SUM, MEAN, MAX, MIN, LOGSUMEXP, ARGMAX and SOFTMAX over the last axes of contiguous floats.
 *
 * Contract. Any float type, computed in f32 with one rounding to the result's type. Sums have one fixed tree a row
 * length: element i goes to chain i / L mod 4, lane i mod L; chains ((0+1)+(2+3)), then the tree of lanes (vec_row.h).
 * A row belongs to one thread, so bits depend on the row alone. NaN propagates; the softmax of a row of -infinity is 0;
 * argmax gives the first of equals, a NaN counts as largest. Other axes, layouts and types: the reference.
 *
 * Bytes: a row once from memory, again from cache for each further pass (softmax 3, logsumexp and argmax 2).
 *
 * Measured: EPYC (Zen 3), one core of a busy machine, CPU time, 2026-11-29: softmax of 49,152 52 us (plain C 167),
 * argmax 9.2 us (22). */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/fast.h"
#include "cpu/isa.h"
#include "cpu/reduce_body.h"

int64_t wr_reduce_row(const wr_step *step) {
    const wr_tensor *x = &step->in[0];
    int64_t n = 1, expected = 1;
    if (x->n_dims == 0) return -1;
    int first = x->n_dims; /* of the reduced axes, which must be the last ones */
    if (step->op == WR_OP_SOFTMAX || step->op == WR_OP_ARGMAX) {
        if (((const wr_axis_args *)step->args)->axis != x->n_dims - 1) return -1;
        first = x->n_dims - 1;
    } else {
        uint32_t axes = ((const wr_reduce_args *)step->args)->axes;
        while (first > 0 && axes >> (first - 1) & 1) first--;
        if (axes & ((1u << first) - 1) || first == x->n_dims) return -1;
    }
    for (int d = x->n_dims - 1; d >= 0; d--) {
        if (x->shape[d] != 1 && x->strides[d] != expected) return -1;
        expected *= x->shape[d];
        if (d >= first) n *= x->shape[d];
    }
    return n;
}

static bool contiguous(const wr_tensor *t) {
    int64_t expected = 1;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && t->strides[d] != expected) return false;
        expected *= t->shape[d];
    }
    return true;
}

static bool fits(const wr_step *step) {
    const wr_tensor *x = &step->in[0];
    bool types = step->op == WR_OP_ARGMAX ? step->out.dtype == WEIR_DTYPE_I32 : step->out.dtype == x->dtype;
    return is_float_dtype(x->dtype) && types && contiguous(&step->out) && wr_reduce_row(step) >= 1;
}
WR_FAST_LEVELS(fits)

const wr_kernel_row wr_cpu_reduce_rows[] = {WR_FAST_ROWS_SCRATCH(wr_reduce, fits, wr_reduce_scratch), {0}};

WR_VEC_END
