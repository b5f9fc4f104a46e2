/* Kernels with which test_emulate.c tries the emulation itself. */
#include "cuda/kernels/device.cuh"

#include "selftest.h"

/* ---- lanes ---- */

/* out [16, threads]: one row for each operation. */
WR_KERNEL(selftest_lanes, selftest_params, 64, 1) {
    wr_grid_wait();
    u32 *out = (u32 *)p.out;
    const u32 id = threadIdx.x, lane = id % 32, n = blockDim.x, v = 100 + id;
    out[0 * n + id] = __shfl_sync(0xFFFFFFFFu, v, 5);
    out[1 * n + id] = __shfl_xor_sync(0xFFFFFFFFu, v, 3);
    out[2 * n + id] = __shfl_up_sync(0xFFFFFFFFu, v, 2);
    out[3 * n + id] = __shfl_down_sync(0xFFFFFFFFu, v, 2);
    out[4 * n + id] = __shfl_sync(0xFFFFFFFFu, v, 5, 8);
    out[5 * n + id] = __shfl_down_sync(0xFFFFFFFFu, v, 3, 8);
    out[6 * n + id] = __ballot_sync(0xFFFFFFFFu, lane % 3 == 0);
    out[7 * n + id] = (u32)__any_sync(0xFFFFFFFFu, id == 40);
    out[8 * n + id] = (u32)__all_sync(0xFFFFFFFFu, id < 32);
    const u64 wide = (u64)v << 32 | lane;
    out[9 * n + id] = (u32)(__shfl_xor_sync(0xFFFFFFFFu, wide, 1) >> 32);
    const double d = v + 0.25;
    out[10 * n + id] = (u32)(4.0 * __shfl_xor_sync(0xFFFFFFFFu, d, 16));
    if (lane < 8) /* a part of the warp by itself */
        out[11 * n + id] = __shfl_xor_sync(0xFFu, v, 1);
    else
        out[11 * n + id] = __ballot_sync(0xFFFFFF00u, 1);
    __syncwarp();
    out[12 * n + id] = __reduce_add_sync(0xFFFFFFFFu, v);
    if (lane >= 16) return; /* lanes that ended do not count */
    out[13 * n + id] = __ballot_sync(0xFFFFFFFFu, 1);
}

/* Sum of n u32 at a, over blocks and threads; the last block to arrive adds the blocks' sums: out [1 + blocks]. */
WR_KERNEL(selftest_sum, selftest_params, 256, 1) {
    WR_SHARED_ARRAY(u32, warps, 8);
    WR_SHARED_ARRAY(u32, last, 1);
    const u32 *a = (const u32 *)p.a;
    u32 *out = (u32 *)p.out, sum = 0;
    wr_grid_wait();
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += (i64)gridDim.x * blockDim.x) sum += a[i];
#pragma unroll
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 total = 0;
        for (u32 w = 0; w < blockDim.x / 32; w++) total += warps[w];
        out[1 + blockIdx.x] = total;
        last[0] = wr_arrive_global(p.counter) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last[0] || threadIdx.x) return;
    out[0] = 0;
    for (u32 i = 0; i < gridDim.x; i++) out[0] += out[1 + i];
}

/* ---- mma and ldmatrix ---- */

/* One warp: out f32 [16, 8] = a [16, k] b^T. what 0: fragments loaded one by one; 1: by ldmatrix; B [8, k], or if
 * transposed [k, 8]. */
WR_KERNEL(selftest_mma, selftest_params, 32, 1) {
    WR_DYNAMIC_SHARED(shared);
    const int lane = (int)threadIdx.x, g = lane / 4, t = lane % 4;
    const u16 *a = (const u16 *)p.a, *b = (const u16 *)p.b;
    u16 *sa = (u16 *)shared, *sb = sa + 256; /* [16, 16], [16, 16] of which 8 rows or 8 columns count */
    float c[4] = {0, 0, 0, 0};
    wr_grid_wait();
    for (int k0 = 0; k0 < p.k; k0 += 16) {
        for (int i = lane; i < 256; i += 32) {
            const int r = i / 16, x = i % 16;
            sa[i] = a[r * p.k + k0 + x];
            sb[i] = p.transposed ? (x < 8 ? b[(k0 + r) * 8 + x] : (u16)0) : (r < 8 ? b[r * p.k + k0 + x] : (u16)0);
        }
        __syncwarp();
        u32 ra[4], rb[4];
        if (p.what == 0) {
            for (int i = 0; i < 4; i++) ra[i] = *(const u32 *)(sa + (g + 8 * (i & 1)) * 16 + 2 * t + 8 * (i >> 1));
            for (int i = 0; i < 2; i++) {
                const int k = 2 * t + 8 * i;
                rb[i] =
                    p.transposed ? sb[k * 16 + g] | (u32)sb[(k + 1) * 16 + g] << 16 : *(const u32 *)(sb + g * 16 + k);
            }
        } else {
            /* Matrices 0..3 of A: rows 0-7 and 8-15 of k 0-7, then of k 8-15. */
            wr_ldmatrix4(ra, wr_smem(sa) + (u32)((lane % 16) * 32 + lane / 16 * 16));
            /* Of B: [n, k] needs k 0-7 and 8-15 of 8 rows; [k, n] rows 0-7 and 8-15, transposed. */
            if (p.transposed)
                wr_ldmatrix4_trans(rb, wr_smem(sb) + (u32)((lane % 16) * 32 + lane / 16 * 16));
            else
                wr_ldmatrix4(rb, wr_smem(sb) + (u32)((lane % 8 + lane / 16 * 8) * 32 + lane / 8 % 2 * 16));
        }
        if (p.f16)
            wr_mma_f16(c, ra, rb[0], rb[1]);
        else
            wr_mma_bf16(c, ra, rb[0], rb[1]);
        __syncwarp();
    }
    for (int i = 0; i < 4; i++) ((float *)p.out)[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = c[i];
}

/* ---- wgmma ---- */

template <int N, int KIND> WR_DEVICE void wgmma_any(float *d, const u32 *ra, u64 da, u64 db, int add) {
#define CASE(n)                                                                                                        \
    if (N == n && KIND == SELFTEST_RS) wr_wgmma_rs_##n(d, ra, db, add);                                                \
    if (N == n && KIND == SELFTEST_RS_TB) wr_wgmma_rs_tb_##n(d, ra, db, add);                                          \
    if (N == n && KIND == SELFTEST_SS) wr_wgmma_ss_##n(d, da, db, add);
    CASE(8) CASE(16) CASE(32) CASE(64) CASE(96) CASE(128) CASE(256)
#undef CASE
}

/* One warpgroup: out f32 [64, N] = a [64, k] b^T; k a multiple of 64. B [N, k], for RS_TB [k, N]. */
template <int N, int KIND> WR_DEVICE void wgmma_tile(const selftest_params &p) {
    WR_DYNAMIC_SHARED(shared);
    const int id = (int)threadIdx.x, lane = id % 32, g = lane / 4, t = lane % 4, row = id / 32 * 16 + g;
    const u32 sa = wr_smem(shared), sb = sa + 8192;
    const u16 *a = (const u16 *)p.a, *b = (const u16 *)p.b;
    constexpr u32 LEAD = 8192; /* between 64 columns of a transposed tile: 64 rows of 128 bytes */
    float d[N / 2];
    wr_grid_wait();
    for (int k0 = 0; k0 < p.k; k0 += 64) {
        __syncthreads();
        for (int i = id; i < 64 * 8; i += 128) {
            const int r = i / 8, c = i % 8;
            wr_cp16(sa + (u32)(r * 128 + ((c ^ (r & 7)) << 4)), a + r * p.k + k0 + c * 8);
        }
        for (int i = id; KIND != SELFTEST_RS_TB && i < N * 8; i += 128) {
            const int r = i / 8, c = i % 8;
            wr_cp16(sb + (u32)(r * 128 + ((c ^ (r & 7)) << 4)), b + r * p.k + k0 + c * 8);
        }
        for (int i = id; KIND == SELFTEST_RS_TB && i < 64 * (N / 8); i += 128) {
            const int r = i / (N / 8), c = i % (N / 8);
            wr_cp16(sb + (u32)(c / 8) * LEAD + (u32)(r * 128 + ((c % 8 ^ (r & 7)) << 4)), b + (k0 + r) * N + c * 8);
        }
        wr_cp_commit();
        wr_cp_wait<0>();
        wr_fence_async();
        __syncthreads();
        u32 ra[4][4];
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < 4; i++)
                ra[j][i] = *(const u32 *)(a + (row + 8 * (i & 1)) * p.k + k0 + 16 * j + 2 * t + 8 * (i >> 1));
        wr_wgmma_fence();
        for (int j = 0; j < 4; j++) {
            const u64 da = wr_wgmma_desc(sa + 32 * (u32)j, 16, 1024);
            const u64 db = KIND == SELFTEST_RS_TB ? wr_wgmma_desc(sb + 2048 * (u32)j, LEAD, 1024)
                                                  : wr_wgmma_desc(sb + 32 * (u32)j, 16, 1024);
            wgmma_any<N, KIND>(d, ra[j], da, db, k0 + j > 0);
        }
        wr_wgmma_commit();
        wr_wgmma_wait<0>();
    }
    for (int i = 0; i < N / 2; i++)
        ((float *)p.out)[(row + 8 * (i >> 1 & 1)) * N + 8 * (i / 4) + 2 * t + (i & 1)] = d[i];
}

#define TILES(n)                                                                                                       \
    WR_KERNEL(selftest_rs_##n, selftest_params, 128, 1) { wgmma_tile<n, SELFTEST_RS>(p); }                             \
    WR_KERNEL(selftest_rs_tb_##n, selftest_params, 128, 1) { wgmma_tile<n, SELFTEST_RS_TB>(p); }                       \
    WR_KERNEL(selftest_ss_##n, selftest_params, 128, 1) { wgmma_tile<n, SELFTEST_SS>(p); }
TILES(8)
TILES(16)
TILES(32)
TILES(64)
TILES(96)
TILES(128)
TILES(256)

/* ---- a pipeline of bulk copies ---- */

/* out u32 [n / 64] = sums of pieces of 64 u32 at a. One producer thread, two consumer warps in turn, two stages. */
WR_KERNEL(selftest_pipeline, selftest_params, 96, 1) {
    WR_DYNAMIC_SHARED(shared);
    const u32 stages = wr_smem(shared), full = stages + 512, empty = full + 16;
    const int w = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, n = p.n / 64;
    if (threadIdx.x == 0) {
        for (u32 s = 0; s < 2; s++) {
            wr_bar_init(full + 8 * s, 1);
            wr_bar_init(empty + 8 * s, 2);
        }
        wr_bar_init_done();
    }
    __syncthreads();
    wr_grid_wait();
    if (w == 2) {
        if (lane) return;
        for (int i = 0; i < n; i++) {
            const u32 s = (u32)i % 2;
            wr_bar_wait(empty + 8 * s, (i / 2 & 1) ^ 1);
            wr_bar_expect(full + 8 * s, 256);
            wr_bulk_copy(stages + 256 * s, (const u32 *)p.a + 64 * i, 256, full + 8 * s);
        }
        return;
    }
    for (int i = 0; i < n; i++) {
        const u32 s = (u32)i % 2;
        wr_bar_wait(full + 8 * s, i / 2 & 1);
        const u32 *in = (const u32 *)(shared + 256 * s);
        u32 sum = in[lane] + in[32 + lane];
        for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
        if (lane == 0) {
            if (i % 2 == w) ((u32 *)p.out)[i] = sum;
            wr_bar_arrive(empty + 8 * s);
        }
        wr_barrier(1, 64);
    }
}

/* ---- clusters ---- */

/* out f32 [blocks, threads], by clusters of k: n times, each thread passes what it holds to the next block's thread of
 * this number; they hold the number of block and thread first. */
WR_KERNEL(selftest_cluster, selftest_params, 64, 1) {
    WR_DYNAMIC_SHARED(shared);
    const u32 id = threadIdx.x, at = wr_smem(shared), full = at + 1024, empty = full + 8;
    const u32 rank = blockIdx.x % (u32)p.k, next = (rank + 1) % (u32)p.k, before = (rank + (u32)p.k - 1) % (u32)p.k;
    float value = (float)(100 * blockIdx.x + id);
    if (id == 0) {
        wr_bar_init(full, 1);
        wr_bar_init(empty, (int)blockDim.x);
        wr_bar_init_done();
    }
    __syncthreads();
    wr_cluster_arrive();
    wr_cluster_wait();
    wr_grid_wait();
    for (int round = 0; round < p.n; round++) {
        if (id == 0) wr_bar_expect(full, 16 * blockDim.x);
        wr_bar_wait(empty, (round & 1) ^ 1); /* the next block has read what it got before */
        const float4 v = {value, 0, 0, 0};
        wr_cluster_store16(wr_cluster_smem(at + 16 * id, next), v, wr_cluster_smem(full, next));
        wr_bar_wait(full, round & 1);
        value = *(const float *)(shared + 16 * id);
        wr_cluster_bar_arrive(wr_cluster_smem(empty, before));
    }
    __syncwarp();
    wr_cluster_arrive();
    wr_cluster_wait();
    ((float *)p.out)[blockIdx.x * blockDim.x + id] = value;
}

/* a u32 [4 k]: each block of a cluster of k copies its four words to all of them, adds its number to them and stores
 * them into the next block, where matrices of 16-bit values (value 8 row + column) turned by stmatrix lie behind them;
 * all of it goes to out u32 [blocks, 4 k + 4 k + 128] by a bulk store. */
WR_KERNEL(selftest_cluster_copies, selftest_params, 32, 1) {
    WR_DYNAMIC_SHARED(shared);
    const u32 id = threadIdx.x, k = (u32)p.k, at = wr_smem(shared), bar = at + 1024;
    const u32 rank = blockIdx.x % k, next = (rank + 1) % k, words = 8 * k + 128;
    if (id == 0) {
        wr_bar_init(bar, 1);
        wr_bar_init_done();
    }
    wr_cluster_arrive();
    wr_cluster_wait();
    wr_grid_wait();
    if (id == 0) {
        wr_bar_expect(bar, 16 * k);
        wr_bulk_copy_to_all(at + 16 * rank, (const u32 *)p.a + 4 * rank, 16, bar, (1u << k) - 1);
    }
    wr_bar_wait(bar, 0);
    if (id < 4 * k) {
        const float sum = (float)(((const u32 *)shared)[id] + rank);
        wr_cluster_store4(wr_cluster_smem(at + 16 * k + 4 * id, next), sum);
    }
    u32 v[4];
    for (u32 i = 0; i < 4; i++) {
        const u32 first = 64 * i + 8 * (id / 4) + 2 * (id % 4);
        v[i] = first | (first + 1) << 16;
    }
    wr_stmatrix4_trans(at + 32 * k + 16 * id, v);
    wr_fence_async();
    wr_cluster_arrive();
    wr_cluster_wait();
    if (id == 0) {
        wr_bulk_store((u32 *)p.out + blockIdx.x * words, at, 4 * words);
        wr_bulk_store_commit();
        wr_bulk_store_wait_read();
    }
}

/* ---- faults ---- */

WR_DEVICE int deep(volatile int *x) {
    volatile char room[4096];
    room[0] = (char)*x;
    return *x >= 0 ? deep(x) + room[0] : 0;
}

WR_KERNEL(selftest_fault, selftest_params, 128, 1) {
    WR_DYNAMIC_SHARED(shared);
    const u32 s = wr_smem(shared), bar = s + 24576;
    const u32 id = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    u32 a[4] = {0, 0, 0, 0};
    int zero = 0;
    const u64 db = wr_wgmma_desc(s, 16, 1024);
    if (p.what != FAULT_NO_GRID_WAIT) wr_grid_wait();
    for (u32 i = id; i < 24576; i += 128) shared[i] = 0;
    if (id == 0) wr_bar_init(bar, 1);
    __syncthreads();
    switch (p.what) {
    case FAULT_MISSING_BARRIER:
        if (id / 32 == 1)
            wr_barrier(3, 64);
        else
            __syncthreads();
        break;
    case FAULT_DIVERGED_SHUFFLE:
        if (id % 32 < 16)
            a[0] = __shfl_xor_sync(0xFFFFFFFFu, id, 1);
        else
            __syncthreads();
        break;
    case FAULT_MBARRIER_STUCK: wr_bar_wait(bar, 0); break;
    case FAULT_NO_FENCE: wr_wgmma_rs_8(d, a, db, 0); break;
    case FAULT_OPERAND_OVERWRITTEN:
    case FAULT_ACCUMULATOR_WRITTEN:
    case FAULT_NO_WAIT:
        wr_wgmma_fence();
        wr_wgmma_rs_8(d, a, db, 0);
        wr_wgmma_commit();
        if (p.what == FAULT_NO_WAIT) return;
        if (p.what == FAULT_OPERAND_OVERWRITTEN) shared[16] = 7;
        if (p.what == FAULT_ACCUMULATOR_WRITTEN) d[2] = 0;
        wr_wgmma_wait<0>();
        break;
    case FAULT_SHARED_OVERRUN: shared[p.n] = 0; break;
    case FAULT_BARRIER_OVERWRITTEN:
        shared[24576] = 0;
        wr_bar_arrive(bar);
        break;
    case FAULT_COPY_MISALIGNED: wr_cp16(s + 8, p.a); break;
    case FAULT_COPY_OUTSIDE: wr_cp16(s + (u32)p.n, p.a); break;
    case FAULT_BULK_UNAWAITED:
        if (id == 0) {
            wr_bar_expect(bar, 16);
            wr_bulk_copy(s, p.a, 16, bar);
        }
        break;
    case FAULT_PARTIAL_MMA:
        if (id % 32 == 31) return;
        wr_mma_bf16(d, a, 0, 0);
        break;
    case FAULT_WRONG_MASK: a[0] = __shfl_xor_sync(1u, id, 1); break;
    case FAULT_STACK: a[0] = (u32)deep(&zero); break;
    case FAULT_CLUSTER_STUCK:
        if (blockIdx.x == 1) wr_bar_wait(bar, 0);
        wr_cluster_arrive();
        wr_cluster_wait();
        break;
    case FAULT_CLUSTER_ENDED:
        wr_cluster_arrive();
        wr_cluster_wait();
        if (blockIdx.x == 1) return;
        for (int i = 0; i < 100; i++) __syncthreads();
        wr_cluster_bar_arrive(wr_cluster_smem(bar, 1));
        break;
    case FAULT_CLUSTER_TWICE:
        wr_cluster_arrive();
        wr_cluster_arrive();
        break;
    default: break;
    }
    ((float *)p.out)[id] = d[2] + (float)a[0];
}

/* ---- programmatic launches ---- */

/* out u32 [n] = 1 + the same; in a chain. what 1: the wrong one, which reads before it may. */
WR_KERNEL(selftest_chain, selftest_params, 64, 1) {
    u32 *out = (u32 *)p.out;
    const u32 i = blockIdx.x * 64 + threadIdx.x;
    wr_grid_launch();
    const u32 early = out[i];
    wr_grid_wait();
    out[i] = (p.what ? early : out[i]) + 1;
}

/* ---- numbers ---- */

/* For i < n: a u32 [n, 3] pairs of bf16 -> out u32 [n, 4]: their fma; the f32 a[0] as f16, and as bf16; that f16 back
 * as f32 bits. */
WR_KERNEL(selftest_numbers, selftest_params, 64, 1) {
    wr_grid_wait();
    const u32 i = blockIdx.x * 64 + threadIdx.x;
    if ((i32)i >= p.n) return;
    const u32 *a = (const u32 *)p.a + 3 * i;
    u32 *out = (u32 *)p.out + 4 * i;
    const float f = wr_bits_f32(a[0]);
    out[0] = wr_fma_bf16x2(a[0], a[1], a[2]);
    out[1] = wr_f32_to_f16(f);
    out[2] = wr_f32_to_bf16(f);
    out[3] = wr_f32_bits(wr_f16_to_f32((u16)out[1]));
}

/* ---- a user's kernel ---- */

/* Stands for tests/cuda/device/custom.c's kernel of this name, which knows nothing of early launches: it reads before
 * the wait. */
WR_KERNEL(selftest_custom_axpy, selftest_axpy_params, 1024, 1) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const float r = i < p.n ? (float)(p.a * (double)p.x[i] + (double)p.y[i]) : 0;
    wr_grid_wait();
    if (i < p.n) p.out[i] = r;
}

/* Stands for a user's kernel that writes where nobody's memory is: the driver knows it by its name and does not run it.
 */
WR_KERNEL(selftest_custom_wild, selftest_axpy_params, 1024, 1) { wr_grid_wait(); }
