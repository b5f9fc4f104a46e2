/* Rows of strided tensors, four elements at a time, and the fixed trees in which a warp or a block joins its lanes.
 *
 * Lane l of L owns the quads l, l + L, l + 2L, .. of a row (or of a chunk of it), a quad being elements 4q .. 4q+3.
 * Which lane adds what in which order is therefore a matter of the row's length alone: neither strides nor alignment
 * nor the number of rows has a say, they only choose how a quad is fetched. */
#ifndef WR_CUDA_ROWS_CUH
#define WR_CUDA_ROWS_CUH

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/reduce.h"

#define WR_ALL_LANES 0xFFFFFFFFu

/* One row of an input. */
typedef struct wr_line {
    const void *x;
    int dtype;
    bool whole; /* quads can be fetched at once */
    i64 base;   /* in elements */
    const wr_rows *rows;
} wr_line;

WR_DEVICE wr_line wr_line_of(const void *x, int dtype, const wr_rows &rows, i64 row) {
    wr_line line = {x, dtype, false, 0, &rows};
    line.base = wr_walk(row, rows.n_kept, rows.kept, rows.kept_strides, rows.narrow_rows);
    int size = wr_dtype_size(dtype);
    line.whole = wr_is_float(dtype) && rows.n_reduced == 1 && rows.reduced_strides[0] == 1 &&
                 ((u64)x + (u64)(line.base * size)) % (u64)(4 * size) == 0;
    return line;
}

WR_DEVICE i64 wr_line_at(const wr_line &line, i64 k) {
    if (line.rows->n_reduced == 1) return line.base + k * line.rows->reduced_strides[0];
    return line.base +
           wr_walk(k, line.rows->n_reduced, line.rows->reduced, line.rows->reduced_strides, line.rows->narrow_n);
}

/* Elements k .. k+3 below end as f32, the others as `rest`. */
WR_DEVICE void wr_line_quad(float *v, const wr_line &line, i64 k, i64 end, float rest) {
    if (line.whole && k + 4 <= end) {
        if (line.dtype == WEIR_DTYPE_F32) {
            uint4 w = *(const uint4 *)((const float *)line.x + line.base + k);
            v[0] = wr_bits_f32(w.x), v[1] = wr_bits_f32(w.y), v[2] = wr_bits_f32(w.z), v[3] = wr_bits_f32(w.w);
        } else {
            uint2 w = *(const uint2 *)((const u16 *)line.x + line.base + k);
            bool bf16 = line.dtype == WEIR_DTYPE_BF16;
            v[0] = bf16 ? wr_bf16_lo(w.x) : wr_f16_to_f32((u16)w.x);
            v[1] = bf16 ? wr_bf16_hi(w.x) : wr_f16_to_f32((u16)(w.x >> 16));
            v[2] = bf16 ? wr_bf16_lo(w.y) : wr_f16_to_f32((u16)w.y);
            v[3] = bf16 ? wr_bf16_hi(w.y) : wr_f16_to_f32((u16)(w.y >> 16));
        }
        return;
    }
    for (int e = 0; e < 4; e++)
        v[e] = k + e < end ? (float)wr_load_real(line.x, line.dtype, wr_line_at(line, k + e)) : rest;
}

/* NaN wins over everything. */
WR_DEVICE float wr_max_nan(float a, float b) { return a != a || a >= b ? a : b; }
WR_DEVICE float wr_min_nan(float a, float b) { return a != a || a <= b ? a : b; }

/* Trees. Every lane gets the same bits, since a + b = b + a. */
WR_DEVICE float wr_warp_sum(float v) {
    for (int m = 16; m; m >>= 1) v = v + __shfl_xor_sync(WR_ALL_LANES, v, m);
    return v;
}
WR_DEVICE float wr_warp_max(float v) {
    for (int m = 16; m; m >>= 1) {
        float other = __shfl_xor_sync(WR_ALL_LANES, v, m);
        v = threadIdx.x & m ? wr_max_nan(other, v) : wr_max_nan(v, other);
    }
    return v;
}
WR_DEVICE float wr_warp_min(float v) {
    for (int m = 16; m; m >>= 1) {
        float other = __shfl_xor_sync(WR_ALL_LANES, v, m);
        v = threadIdx.x & m ? wr_min_nan(other, v) : wr_min_nan(v, other);
    }
    return v;
}

/* How lanes are joined. */
enum { WR_JOIN_SUM, WR_JOIN_MAX, WR_JOIN_MIN };
template <int JOIN> WR_DEVICE float wr_join(float a, float b) {
    return JOIN == WR_JOIN_SUM ? a + b : JOIN == WR_JOIN_MAX ? wr_max_nan(a, b) : wr_min_nan(a, b);
}
/* LANES 32: the warp's; else the block's: warps are joined in order by every thread. `shared` has a float a warp and is
 * free again when this returns. */
template <int JOIN, int LANES> WR_DEVICE float wr_lanes_join(float v, float *shared) {
    v = JOIN == WR_JOIN_SUM ? wr_warp_sum(v) : JOIN == WR_JOIN_MAX ? wr_warp_max(v) : wr_warp_min(v);
    if (LANES == 32) return v;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
    for (int w = 1; w < LANES / 32; w++) v = wr_join<JOIN>(v, shared[w]);
    __syncthreads();
    return v;
}

#endif
