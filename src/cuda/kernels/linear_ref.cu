/* The reference of LINEAR and GATHER_LINEAR: the same contract (linear.h) in the plainest way, for any number of rows
 * and for every layout, packed or published. It equals the fast tiers in every bit. And f32 weights, which stay f32.
 *
 * wr_linear_ref: a warp has 16 rows of the weight and 8 rows of x (GATHER_LINEAR: one), and walks over K by k16 steps,
 * slice by slice; every number is fetched and converted alone. Nothing lies in shared memory.
 * wr_linear_f32: a warp has one row of the weight and up to 8 rows of x. Lane l adds columns l, l + 32, .. by fmaf in
 * f32; lanes are added in a tree. The order depends on nothing but K. Bytes: the weight once for 8 rows of x
 * (GATHER_LINEAR: for each). Operations 2 m n k, and in wr_linear_ref some twenty for each weight that is fetched.
 * Measured: docs/kernels.md. */
#include "cuda/kernels/linear_scalar.cuh"

enum { REF_THREADS = 128, F32_ROWS = 8 };

/* Expert of row m of x; -1 when there is none. */
WR_DEVICE i64 expert_of(const wr_linear_params &p, i64 m) {
    if (!p.ids) return 0;
    const i64 id = p.ids[m];
    return id >= 0 && id < p.experts ? id : -1;
}

/* c += k16 step beginning at column k, of weight rows n0.. and x rows m0 .. m0 + n_m - 1. */
WR_DEVICE void step(const wr_linear_params &p, float *c, i64 expert, i64 n0, i64 m0, int n_m, i64 k, int lane) {
    const int g = lane / 4, t = lane % 4;
    u32 a[4] = {0, 0, 0, 0}, low[4] = {0, 0, 0, 0}, b[2] = {0, 0};
    for (int r = 0; r < 4; r++)
        for (int h = 0; h < 2; h++) {
            const i64 row = n0 + g + 8 * (r & 1), col = k + 2 * t + 8 * (r >> 1) + h;
            u16 l = 0, w = 0;
            if (row < p.n && col < p.k) w = weight_bf16(p, expert, row, col, &l);
            a[r] |= (u32)w << (16 * h);
            low[r] |= (u32)l << (16 * h);
        }
    for (int i = 0; i < 2; i++)
        for (int h = 0; h < 2; h++) {
            const i64 col = k + 2 * t + 8 * i + h;
            if (g < n_m && col < p.k) b[i] |= (u32)wr_linear_x(p, (m0 + g) * p.k + col) << (16 * h);
        }
    wr_mma_bf16(c, a, b[0], b[1]);
    const bool parts = p.kind == WR_KIND_F16 || (p.kind == WR_KIND_COUNT && p.mode == WR_PUBLISHED_DENSE);
    if (parts && p.weight_type == WR_NUM_F16) wr_mma_bf16(c, low, b[0], b[1]);
}

/* All slices of weight rows n0.. and x rows m0 .. m0 + n_m - 1, in order. */
WR_DEVICE void add_slices(const wr_linear_params &p, float *sum, i64 expert, i64 n0, i64 m0, int n_m, int lane) {
    for (int e = 0; e < 4; e++) sum[e] = 0.0f;
    for (int s = 0; s < p.slices && expert >= 0; s++) {
        const i64 first = (i64)s * p.slice_tiles * WR_TILE_COLS, last = first + (i64)p.slice_tiles * WR_TILE_COLS;
        float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (i64 k = first; k < last && k < p.k_tiles * WR_TILE_COLS; k += 16) step(p, c, expert, n0, m0, n_m, k, lane);
        for (int e = 0; e < 4; e++) sum[e] += c[e];
    }
}

WR_KERNEL(wr_linear_ref, wr_linear_params, REF_THREADS, 1) {
    const int lane = threadIdx.x % 32, wide = p.ids ? 1 : 8;
    wr_grid_launch();
    wr_grid_wait();
    const i64 n_tiles = (p.n + 15) / 16, m_tiles = (p.m + wide - 1) / wide;
    const i64 warps = (i64)gridDim.x * (REF_THREADS / 32);
    for (i64 i = (i64)blockIdx.x * (REF_THREADS / 32) + threadIdx.x / 32; i < n_tiles * m_tiles; i += warps) {
        const i64 n0 = i / m_tiles * 16, m0 = i % m_tiles * wide, expert = expert_of(p, m0);
        const int n_m = (int)(p.m - m0 < wide ? p.m - m0 : wide);
        float sum[4];
        add_slices(p, sum, expert, n0, m0, n_m, lane);
        for (int e = 0; e < 4; e++) {
            const i64 n = n0 + lane / 4 + 8 * (e >> 1);
            const int m = 2 * (lane % 4) + (e & 1);
            if (n < p.n && m < n_m) wr_linear_store(p, m0 + m, n, expert < 0 ? wr_bits_f32(0x7FC00000u) : sum[e]);
        }
    }
}

/* LINEAR_GATED: a warp has 16 rows of the gate and the same of the up half. */
WR_KERNEL(wr_linear_gated_ref, wr_linear_params, REF_THREADS, 1) {
    const int lane = threadIdx.x % 32;
    wr_grid_launch();
    wr_grid_wait();
    const i64 n_tiles = (p.half + 15) / 16, m_tiles = (p.m + 7) / 8;
    const i64 warps = (i64)gridDim.x * (REF_THREADS / 32);
    for (i64 i = (i64)blockIdx.x * (REF_THREADS / 32) + threadIdx.x / 32; i < n_tiles * m_tiles; i += warps) {
        const i64 n0 = i / m_tiles * 16, m0 = i % m_tiles * 8;
        const int n_m = (int)(p.m - m0 < 8 ? p.m - m0 : 8);
        float gate[4], up[4];
        add_slices(p, gate, 0, n0, m0, n_m, lane);
        add_slices(p, up, 0, p.half + n0, m0, n_m, lane);
        for (int e = 0; e < 4; e++) {
            const i64 n = n0 + lane / 4 + 8 * (e >> 1);
            const int m = 2 * (lane % 4) + (e & 1);
            if (n < p.half && m < n_m) wr_linear_store_gated(p, m0 + m, n, gate[e], up[e]);
        }
    }
}

/* Row n of f32 weights times x rows m0.., in every lane. */
WR_DEVICE void f32_sums(const wr_linear_params &p, float *sum, const float *w, i64 m0, int n_m, int lane) {
    for (int r = 0; r < F32_ROWS; r++) sum[r] = 0.0f;
    for (i64 k = lane; k < p.k && w; k += 32)
        for (int r = 0; r < F32_ROWS; r++)
            if (r < n_m) sum[r] = fmaf(w[k], wr_linear_number(p.x, p.x_type, (m0 + r) * p.k + k), sum[r]);
    for (int r = 0; r < F32_ROWS; r++)
        for (int d = 16; d > 0; d /= 2) sum[r] += __shfl_xor_sync(0xFFFFFFFFu, sum[r], d);
}

WR_KERNEL(wr_linear_f32, wr_linear_params, REF_THREADS, 1) {
    const int lane = threadIdx.x % 32, wide = p.ids ? 1 : F32_ROWS;
    wr_grid_launch();
    wr_grid_wait();
    const i64 m_tiles = (p.m + wide - 1) / wide, warps = (i64)gridDim.x * (REF_THREADS / 32);
    for (i64 i = (i64)blockIdx.x * (REF_THREADS / 32) + threadIdx.x / 32; i < p.n * m_tiles; i += warps) {
        const i64 n = i / m_tiles, m0 = i % m_tiles * wide, expert = expert_of(p, m0);
        const int n_m = (int)(p.m - m0 < wide ? p.m - m0 : wide);
        float sum[F32_ROWS];
        f32_sums(p, sum, expert < 0 ? nullptr : (const float *)p.w + (expert * p.n + n) * p.k, m0, n_m, lane);
        for (int r = 0; r < n_m && lane == 0; r++)
            wr_linear_store(p, m0 + r, n, expert < 0 ? wr_bits_f32(0x7FC00000u) : sum[r]);
    }
}

WR_KERNEL(wr_linear_gated_f32, wr_linear_params, REF_THREADS, 1) {
    const int lane = threadIdx.x % 32;
    wr_grid_launch();
    wr_grid_wait();
    const i64 m_tiles = (p.m + F32_ROWS - 1) / F32_ROWS, warps = (i64)gridDim.x * (REF_THREADS / 32);
    for (i64 i = (i64)blockIdx.x * (REF_THREADS / 32) + threadIdx.x / 32; i < p.half * m_tiles; i += warps) {
        const i64 n = i / m_tiles, m0 = i % m_tiles * F32_ROWS;
        const int n_m = (int)(p.m - m0 < F32_ROWS ? p.m - m0 : F32_ROWS);
        const float *w = (const float *)p.w + n * p.k;
        float gate[F32_ROWS], up[F32_ROWS];
        f32_sums(p, gate, w, m0, n_m, lane);
        f32_sums(p, up, w + p.half * p.k, m0, n_m, lane);
        for (int r = 0; r < n_m && lane == 0; r++) wr_linear_store_gated(p, m0 + r, n, gate[r], up[r]);
    }
}
