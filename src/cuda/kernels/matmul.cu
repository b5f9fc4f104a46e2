/* MATMUL: out[m, n] = sum over k of a[m, k] b[k, n], batched, any strides for a and b, out contiguous.
 *
 * Contract. bf16 and f16: one chain of k16 tensor-core steps in order of K into f32, one rounding at the end, in every
 * tile size; steps wholly behind K are not done, so that tiles of different depth end at the same step. K is not cut
 * into slices: the chain is the plain one. f32: one chain of fmaf in order of K, never TF32. So an output's bits
 * depend on its own row and column only. The reference is one thread an output with a chain of fmaf: for f32 it has
 * the bits of the fast kernel; for bf16 and f16 it differs from the tensor cores by the order inside a k16 step
 * (within (8 + 2 K) 2^-24 of the sum of magnitudes, then a rounding). Integers wrap, in 64 bits.
 *
 * Layout. A tile of an operand comes in one of three ways, told apart by strides and alignment alone: 16-byte copies
 * along K into [row][k]; 16-byte copies along the rows into [k][row], read back transposed by ldmatrix; or element by
 * element into [row][k]. All give the same fragments, so a layout never changes bits. Rows of shared memory are padded
 * by 16 bytes: an odd number of 16-byte pieces, so ldmatrix meets no bank twice.
 *
 * Bytes: batches * (m k + k n + m n) * size at best; each a tile is read n / BN times, each b tile m / BM times, mostly
 * from L2 (blocks go in groups of 8 tile rows for that). Operations: 2 m n k a batch.
 *
 * Measured: docs/kernels.md.
 *
 * Not tried yet: slices of K for few rows, wgmma with TMA for many. */
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/matmul.h"

/* Where block `index` works. */
typedef struct place {
    i64 row, col, a, b, out; /* first row and column; offsets of the batch in elements */
} place;

WR_DEVICE place place_of(const wr_matmul_params &p, i64 block, int bm, int bn) {
    place w;
    i64 tiles = p.tiles_m * p.tiles_n, batch = block / tiles, at = block % tiles;
    i64 group = at / (WR_MATMUL_GROUP * p.tiles_n), first = group * WR_MATMUL_GROUP;
    i64 height = p.tiles_m - first < WR_MATMUL_GROUP ? p.tiles_m - first : WR_MATMUL_GROUP;
    i64 inside = at - first * p.tiles_n;
    w.row = (first + inside % height) * bm;
    w.col = inside / height * bn;
    w.out = batch * p.m * p.n;
    w.a = w.b = 0;
    for (int d = p.n_batch - 1; d >= 0; d--) {
        i64 i = batch % p.batch_shape[d];
        batch /= p.batch_shape[d];
        w.a += i * p.a_batch[d];
        w.b += i * p.b_batch[d];
    }
    return w;
}

/* ---- tensor cores ---- */

/* How tiles of an operand are fetched. */
enum { ALONG_K, ALONG_ROWS, BY_ELEMENT };

/* 16-byte pieces need every piece aligned and whole: the stride across them, the sizes along them and the address. */
WR_DEVICE int fetch_mode(const u16 *at, i64 rows, i64 k, i64 row_stride, i64 k_stride) {
    if ((u64)at % 16) return BY_ELEMENT;
    if (k_stride == 1 && k % 8 == 0 && row_stride % 8 == 0) return ALONG_K;
    if (row_stride == 1 && rows % 8 == 0 && k_stride % 8 == 0) return ALONG_ROWS;
    return BY_ELEMENT;
}

/* One operand, seen as rows [rows, k]. */
typedef struct operand {
    const u16 *at;
    i64 rows, k, row_stride, k_stride;
    int mode;
} operand;

/* Start fetching rows row0.. and depth k0.. of an operand into shared memory; zeros behind its end. */
template <int ROWS, int BK, int THREADS> WR_DEVICE void fetch(u16 *to, const operand &o, i64 row0, i64 k0) {
    if (o.mode == ALONG_K) {
        for (int i = threadIdx.x; i < ROWS * BK / 8; i += THREADS) {
            int r = i / (BK / 8), c = i % (BK / 8) * 8;
            bool in = row0 + r < o.rows && k0 + c < o.k;
            wr_cp16_or_zero(wr_smem(to + r * (BK + WR_MATMUL_PAD) + c),
                            in ? o.at + (row0 + r) * o.row_stride + (k0 + c) : o.at, in);
        }
    } else if (o.mode == ALONG_ROWS) {
        for (int i = threadIdx.x; i < ROWS * BK / 8; i += THREADS) {
            int c = i / (ROWS / 8), r = i % (ROWS / 8) * 8;
            bool in = row0 + r < o.rows && k0 + c < o.k;
            wr_cp16_or_zero(wr_smem(to + c * (ROWS + WR_MATMUL_PAD) + r),
                            in ? o.at + (row0 + r) + (k0 + c) * o.k_stride : o.at, in);
        }
    } else {
        bool rows_first = o.row_stride == 1; /* neighbours in memory to neighbouring threads */
        for (int i = threadIdx.x; i < ROWS * BK; i += THREADS) {
            int r = rows_first ? i % ROWS : i / BK, c = rows_first ? i / ROWS : i % BK;
            bool in = row0 + r < o.rows && k0 + c < o.k;
            to[r * (BK + WR_MATMUL_PAD) + c] = in ? o.at[(row0 + r) * o.row_stride + (k0 + c) * o.k_stride] : (u16)0;
        }
    }
}

/* Fragment of a: rows row.. row+15, depth k .. k+15 of the tile. */
template <int ROWS, int BK> WR_DEVICE void fragment_a(u32 *r, const u16 *tile, int mode, int row, int k, int lane) {
    if (mode != ALONG_ROWS)
        wr_ldmatrix4(r, wr_smem(tile + (row + (lane & 15)) * (BK + WR_MATMUL_PAD) + k + (lane >> 4) * 8));
    else
        wr_ldmatrix4_trans(
            r, wr_smem(tile + (k + (lane & 7) + (lane >> 4) * 8) * (ROWS + WR_MATMUL_PAD) + row + (lane >> 3 & 1) * 8));
}
/* Fragments of b for two neighbouring n8 tiles: r[0], r[1] and r[2], r[3]. */
template <int ROWS, int BK> WR_DEVICE void fragment_b(u32 *r, const u16 *tile, int mode, int row, int k, int lane) {
    if (mode != ALONG_ROWS)
        wr_ldmatrix4(
            r, wr_smem(tile + (row + (lane & 7) + (lane >> 4) * 8) * (BK + WR_MATMUL_PAD) + k + (lane >> 3 & 1) * 8));
    else
        wr_ldmatrix4_trans(r, wr_smem(tile + (k + (lane & 15)) * (ROWS + WR_MATMUL_PAD) + row + (lane >> 4) * 8));
}

template <int F16> WR_DEVICE void store_pair(u16 *out, i64 at, bool first, bool second, float x, float y) {
    u32 pair = F16 ? wr_pack_f16(x, y) : wr_pack_bf16(x, y);
    if (first && second && (u64)(out + at) % 4 == 0) {
        *(u32 *)(out + at) = pair;
    } else {
        if (first) out[at] = (u16)pair;
        if (second) out[at + 1] = (u16)(pair >> 16);
    }
}

/* One tile of BM x BN by WM x WN warps; a ring of STAGES pieces of depth BK. */
template <int F16, int BM, int BN, int BK, int STAGES, int WM, int WN>
WR_DEVICE void tile_product(const wr_matmul_params &p, u16 *ring) {
    constexpr int THREADS = 32 * WM * WN, TM = BM / WM / 16, TN = BN / WN / 16;
    constexpr int A_SIZE = WR_MATMUL_OPERAND(BM, BK), STAGE = A_SIZE + WR_MATMUL_OPERAND(BN, BK);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = warp / WN * (BM / WM), col = warp % WN * (BN / WN);
    place w = place_of(p, blockIdx.x, BM, BN);
    operand a = {(const u16 *)p.a + w.a, p.m, p.k, p.a_m, p.a_k, 0};
    operand b = {(const u16 *)p.b + w.b, p.n, p.k, p.b_n, p.b_k, 0};
    a.mode = fetch_mode(a.at, a.rows, a.k, a.row_stride, a.k_stride);
    b.mode = fetch_mode(b.at, b.rows, b.k, b.row_stride, b.k_stride);
    i64 n_pieces = (p.k + BK - 1) / BK;
    float sum[TM][2 * TN][4];
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < 2 * TN; j++)
            for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < n_pieces) {
            fetch<BM, BK, THREADS>(ring + s * STAGE, a, w.row, (i64)s * BK);
            fetch<BN, BK, THREADS>(ring + s * STAGE + A_SIZE, b, w.col, (i64)s * BK);
        }
        wr_cp_commit();
    }
    int slot = 0, ahead = STAGES - 1;
    for (i64 piece = 0; piece < n_pieces; piece++) {
        wr_cp_wait<STAGES - 2>();
        __syncthreads();
        if (piece + STAGES - 1 < n_pieces) {
            fetch<BM, BK, THREADS>(ring + ahead * STAGE, a, w.row, (piece + STAGES - 1) * BK);
            fetch<BN, BK, THREADS>(ring + ahead * STAGE + A_SIZE, b, w.col, (piece + STAGES - 1) * BK);
        }
        wr_cp_commit();
        const u16 *a_tile = ring + slot * STAGE, *b_tile = a_tile + A_SIZE;
        i64 left = p.k - piece * BK;
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            if (k >= left) break;
            u32 fa[TM][4], fb[TN][4];
#pragma unroll
            for (int i = 0; i < TM; i++) fragment_a<BM, BK>(fa[i], a_tile, a.mode, row + i * 16, k, lane);
#pragma unroll
            for (int j = 0; j < TN; j++) fragment_b<BN, BK>(fb[j], b_tile, b.mode, col + j * 16, k, lane);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < 2 * TN; j++) {
                    u32 b0 = fb[j / 2][j % 2 * 2], b1 = fb[j / 2][j % 2 * 2 + 1];
                    if (F16)
                        wr_mma_f16(sum[i][j], fa[i], b0, b1);
                    else
                        wr_mma_bf16(sum[i][j], fa[i], b0, b1);
                }
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        ahead = ahead + 1 == STAGES ? 0 : ahead + 1;
    }
    u16 *out = (u16 *)p.out + w.out;
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < 2 * TN; j++) {
            i64 m = w.row + row + i * 16 + lane / 4, n = w.col + col + j * 8 + lane % 4 * 2;
            bool first = n < p.n, second = n + 1 < p.n;
            if (m < p.m) store_pair<F16>(out, m * p.n + n, first, second, sum[i][j][0], sum[i][j][1]);
            if (m + 8 < p.m) store_pair<F16>(out, (m + 8) * p.n + n, first, second, sum[i][j][2], sum[i][j][3]);
        }
}

#define TILE_KERNEL(name, f16, size, wm, wn, blocks)                                                                   \
    WR_KERNEL(name, wr_matmul_params, 32 * wm * wn, blocks) {                                                          \
        WR_DYNAMIC_SHARED(ring);                                                                                       \
        wr_grid_launch();                                                                                              \
        wr_grid_wait();                                                                                                \
        tile_product<f16, WR_MATMUL_##size##_M, WR_MATMUL_##size##_N, WR_MATMUL_##size##_K, WR_MATMUL_##size##_STAGES, \
                     wm, wn>(p, (u16 *)ring);                                                                          \
    }
TILE_KERNEL(wr_matmul_bf16_slim, 0, SLIM, 1, 4, 2)
TILE_KERNEL(wr_matmul_bf16_mid, 0, MID, 2, 2, 2)
TILE_KERNEL(wr_matmul_bf16_wide, 0, WIDE, 2, 4, 1)
TILE_KERNEL(wr_matmul_f16_slim, 1, SLIM, 1, 4, 2)
TILE_KERNEL(wr_matmul_f16_mid, 1, MID, 2, 2, 2)
TILE_KERNEL(wr_matmul_f16_wide, 1, WIDE, 2, 4, 1)

/* ---- f32 ---- */

/* A tile of BM x BN, TM x TN outputs a thread, each its own chain of fmaf. Depth behind K is not multiplied: adding
 * +0 would turn a sum of -0 into +0. */
template <int BM, int BN, int TM, int TN>
WR_DEVICE void f32_tile(const wr_matmul_params &p, float *a_tile, float *b_tile) {
    constexpr int BK = WR_MATMUL_F32_K, ACROSS = BN / TN, THREADS = BM / TM * ACROSS;
    constexpr int A_EACH = BM * BK / THREADS, B_EACH = BN * BK / THREADS, A_ROW = BM + 4, B_ROW = BN + 4;
    int row = threadIdx.x / ACROSS * TM, col = threadIdx.x % ACROSS * TN;
    place w = place_of(p, blockIdx.x, BM, BN);
    const float *a = (const float *)p.a + w.a, *b = (const float *)p.b + w.b;
    bool a_rows_first = p.a_m == 1, b_rows_first = p.b_n == 1;
    float sum[TM][TN], a_next[A_EACH], b_next[B_EACH];
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) sum[i][j] = 0;
    for (i64 k0 = -BK; k0 < p.k; k0 += BK) {
        i64 k_next = k0 + BK;
#pragma unroll
        for (int e = 0; e < A_EACH; e++) {
            int i = threadIdx.x + e * THREADS;
            i64 m = w.row + (a_rows_first ? i % BM : i / BK), k = k_next + (a_rows_first ? i / BM : i % BK);
            a_next[e] = m < p.m && k < p.k ? a[m * p.a_m + k * p.a_k] : 0;
        }
#pragma unroll
        for (int e = 0; e < B_EACH; e++) {
            int i = threadIdx.x + e * THREADS;
            i64 n = w.col + (b_rows_first ? i % BN : i / BK), k = k_next + (b_rows_first ? i / BN : i % BK);
            b_next[e] = n < p.n && k < p.k ? b[n * p.b_n + k * p.b_k] : 0;
        }
        if (k0 >= 0) {
            int depth = p.k - k0 < BK ? (int)(p.k - k0) : BK;
#pragma unroll 4
            for (int k = 0; k < depth; k++) {
                float fa[TM], fb[TN];
#pragma unroll
                for (int i = 0; i < TM; i++) fa[i] = a_tile[k * A_ROW + row + i];
#pragma unroll
                for (int j = 0; j < TN; j += 4) {
                    uint4 v = *(const uint4 *)(b_tile + k * B_ROW + col + j);
                    fb[j] = wr_bits_f32(v.x), fb[j + 1] = wr_bits_f32(v.y);
                    fb[j + 2] = wr_bits_f32(v.z), fb[j + 3] = wr_bits_f32(v.w);
                }
#pragma unroll
                for (int i = 0; i < TM; i++)
#pragma unroll
                    for (int j = 0; j < TN; j++) sum[i][j] = fmaf(fa[i], fb[j], sum[i][j]);
            }
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < A_EACH; e++) {
            int i = threadIdx.x + e * THREADS;
            a_tile[(a_rows_first ? i / BM : i % BK) * A_ROW + (a_rows_first ? i % BM : i / BK)] = a_next[e];
        }
#pragma unroll
        for (int e = 0; e < B_EACH; e++) {
            int i = threadIdx.x + e * THREADS;
            b_tile[(b_rows_first ? i / BN : i % BK) * B_ROW + (b_rows_first ? i % BN : i / BK)] = b_next[e];
        }
        __syncthreads();
    }
    float *out = (float *)p.out + w.out;
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) {
            i64 m = w.row + row + i, n = w.col + col + j;
            if (m < p.m && n < p.n) out[m * p.n + n] = sum[i][j];
        }
}

WR_KERNEL(wr_matmul_f32, wr_matmul_params, 256, 1) {
    WR_SHARED_ARRAY(uint4, a_tile, WR_MATMUL_F32_K * (WR_MATMUL_F32_TILE + 4) / 4);
    WR_SHARED_ARRAY(uint4, b_tile, WR_MATMUL_F32_K * (WR_MATMUL_F32_TILE + 4) / 4);
    wr_grid_launch();
    wr_grid_wait();
    f32_tile<WR_MATMUL_F32_TILE, WR_MATMUL_F32_TILE, 4, 4>(p, (float *)a_tile, (float *)b_tile);
}
WR_KERNEL(wr_matmul_f32_slim, wr_matmul_params, 128, 2) {
    WR_SHARED_ARRAY(uint4, a_tile, WR_MATMUL_F32_K * (WR_MATMUL_F32_SLIM_M + 4) / 4);
    WR_SHARED_ARRAY(uint4, b_tile, WR_MATMUL_F32_K * (WR_MATMUL_F32_SLIM_N + 4) / 4);
    wr_grid_launch();
    wr_grid_wait();
    f32_tile<WR_MATMUL_F32_SLIM_M, WR_MATMUL_F32_SLIM_N, 1, 4>(p, (float *)a_tile, (float *)b_tile);
}

/* ---- reference ---- */

WR_KERNEL(wr_matmul_ref, wr_matmul_params, 256, 1) {
    wr_grid_launch();
    wr_grid_wait();
    i64 total = p.batches * p.m * p.n;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 n = i % p.n, m = i / p.n % p.m, batch = i / p.n / p.m, a = m * p.a_m, b = n * p.b_n;
        for (int d = p.n_batch - 1; d >= 0; d--) {
            a += batch % p.batch_shape[d] * p.a_batch[d];
            b += batch % p.batch_shape[d] * p.b_batch[d];
            batch /= p.batch_shape[d];
        }
        if (wr_is_float(p.dtype)) {
            float sum = 0;
            for (i64 k = 0; k < p.k; k++)
                sum = fmaf(wr_load_float(p.a, p.dtype, a + k * p.a_k), wr_load_float(p.b, p.dtype, b + k * p.b_k), sum);
            wr_store_float(p.out, p.dtype, i, sum);
        } else {
            u64 sum = 0;
            for (i64 k = 0; k < p.k; k++)
                sum += (u64)wr_load_int(p.a, p.dtype, a + k * p.a_k) * (u64)wr_load_int(p.b, p.dtype, b + k * p.b_k);
            wr_store_int(p.out, p.dtype, i, (i64)sum);
        }
    }
}
