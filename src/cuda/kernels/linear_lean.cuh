/* LINEAR and GATHER_LINEAR of packed weights for 1 to 8 rows of x, where every slice has 8 tiles: the decode tier
 * (linear_decode.cuh) without its questions.
 *
 * Contract and layouts: linear.h. A warp takes slices of one row tile. The 8 tiles of a slice are straight code: a tile
 * is loaded into the ring of registers as soon as the tile that lay there is taken out, and the first tiles of the
 * warp's next slice come in during the last ones of this, so that every warp has AHEAD tiles on their way, past the
 * ends of slices and of row tiles. x lies in shared memory and comes by ldmatrix as the B operand. The slices of a row
 * tile lie in shared memory and are added in order by the warps that made them, behind a barrier of their own. Weights
 * are asked for before wr_grid_wait(), x after it.
 * Grid: any; block b works on groups of row tiles b, b + stride, ..; a job of GATHER_LINEAR has stride blocks.
 * Block: group_tiles row tiles at once, chunk_slices warps for each; up to 24 warps on a multiprocessor, which leaves
 * 80 registers a thread (GATHER_LINEAR: 16 warps a block). Shared memory: x [m][columns + 8] bf16, two buffers of sums.
 *
 * Bytes: every byte of the weight once (tile_bytes a tile: 4 bits in groups of 64: 576 for 1,024 weights), x once a
 * block, y once. Operations: 2 m n k.
 *
 * Measured (H200, 30 November 2026, bench_cuda, us a call; W [12288, 4096] where nothing else is said):
 *   4 bits, groups of 64       1 row 9.43, 2 rows 10.0, 6 rows 11.2, 8 rows 11.5 (without these kernels: 9.86,
 * .., 17.5) other shapes of it         [4096, 4096] 4.46, 8 rows 6.31; [6144, 4096] 5.79; [28672, 4096] 20.1, 8
 * rows 22.7; [4096, 14336] 11.2 other kinds, 1 / 8 rows    8 bits 14.4 / 16.4; MXFP4 10.3 / 12.2; NVFP4 10.9 / 12.8;
 * MXFP8 14.2 / 16.2; Q4_K 14.9 / 16.8; Q6_K 17.5 / 19.5; bf16 27.1 / 27.6 */
#ifndef WR_CUDA_LINEAR_LEAN_CUH
#define WR_CUDA_LINEAR_LEAN_CUH

#include "cuda/kernels/linear_decode.cuh"

/* All columns of the job's rows of x to shared memory, by all threads; neither wait nor barrier. */
WR_DEVICE void lean_stage(const wr_linear_params &p, const job &b, u8 *to, int pitch_bytes) {
    const int cols = (int)p.k_tiles * WR_TILE_COLS, pieces = cols / 8;
    const bool vectors = p.x_type == WR_NUM_BF16 && p.k == cols && (u64)p.x % 16 == 0;
    if (vectors) {
        u32 at = wr_smem(to) + 16 * threadIdx.x;
        for (int row = 0; row < b.m; row++, at += pitch_bytes) {
            const u8 *from = (const u8 *)p.x + 2 * cols * row_of(b, row) + 16 * threadIdx.x;
#pragma unroll 4
            for (int i = threadIdx.x, o = 0; i < pieces; i += blockDim.x, o += 16 * blockDim.x)
                wr_cp16(at + o, from + o);
        }
    } else {
        for (int row = 0; row < b.m; row++)
            for (int i = threadIdx.x; i < pieces; i += blockDim.x)
                *(uint4 *)(to + row * pitch_bytes + 16 * i) = x_piece(p, row_of(b, row), 8 * i);
    }
    wr_cp_commit();
}

/* The sums of one row tile, which the `threads` threads that keep them have written: y. */
template <int NT>
WR_DEVICE void lean_add(const wr_linear_params &p, const job &b, const float *part, i64 row_tile, int thread,
                        int threads) {
    for (int i = thread; i < b.m * WR_TILE_ROWS; i += threads) {
        const int token = i / WR_TILE_ROWS, row = i % WR_TILE_ROWS;
        const float *from = part + token * PART_PITCH + row;
        float sum = 0.0f;
#pragma unroll 4
        for (int s = 0; s < p.slices; s++) sum += from[s * NT * PART];
        const i64 n = row_tile * WR_TILE_ROWS + row;
        if (n < p.n) wr_linear_store(p, row_of(b, token), n, sum);
    }
}

/* AHEAD: tiles of the ring; divides 8. */
template <int KIND, int NT, int AHEAD, bool GATHER> WR_DEVICE void lean(const wr_linear_params &p, u8 *shared) {
    const int WORDS = wr_tile<KIND>::words, BYTES = wr_tile<KIND>::bytes;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    wr_grid_launch();
    if (GATHER) wr_grid_wait(); /* which expert is not known before */
    const job b = GATHER ? gathered_job<KIND>(p) : whole_job(p);
    if (GATHER && b.m == 0) return;
    const int takers = p.chunk_slices, r = p.group_tiles == 1 ? 0 : warp / takers, slice = warp - r * takers;
    const int mine = takers == p.slices ? 1 : (p.slices - slice + takers - 1) / takers;
    int row_tile = b.block * p.group_tiles + r;
    const int stride = p.stride * p.group_tiles, row_tiles = (int)p.row_tiles;
    const i64 step = (i64)takers * WR_LEAN_TILES * BYTES, jump = (i64)stride * p.k_tiles * BYTES - (mine - 1) * step;
    const u8 *next = b.w + ((i64)row_tile * p.k_tiles + slice * WR_LEAN_TILES) * BYTES;
    u32 ring[AHEAD][WORDS];
    if (row_tile < row_tiles) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) wr_tile_load<KIND>(ring[i], next + i * BYTES, lane);
    }
    if (!GATHER) wr_grid_wait();
    const int pitch = (int)p.k_tiles * 2 * WR_TILE_COLS + 16, m = b.m;
    float *sums = (float *)(shared + ((m * pitch + 127) & ~127));
    lean_stage(p, b, shared, pitch);
    u32 x[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) { /* rows beyond m repeat the last one: their sums are not used */
        const int row = 8 * n + lane % 8;
        x[n] = wr_smem(shared + (row < m ? row : m - 1) * pitch + 16 * (lane / 8)) +
               slice * WR_LEAN_TILES * 2 * WR_TILE_COLS;
    }
    const u32 x_step = takers * WR_LEAN_TILES * 2 * WR_TILE_COLS;
    float *part = sums + (r * p.slices + slice) * NT * PART;
    const int other = p.units * NT * PART; /* to the other buffer, and back */
    int turn = other;
    wr_cp_wait<0>();
    __syncthreads();
    for (; row_tile < row_tiles; row_tile += stride) {
        const bool last = row_tile + stride >= row_tiles;
        u32 offset = 0;
        for (int u = 0; u < mine; u++, offset += x_step) {
            const u8 *cur = next;
            next += u + 1 < mine ? step : jump;
            const bool more = u + 1 < mine || !last;
            float c[NT][4];
#pragma unroll
            for (int n = 0; n < NT; n++) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
#pragma unroll
            for (int i = 0; i < WR_LEAN_TILES; i++) {
                u32 w[WORDS];
#pragma unroll
                for (int j = 0; j < WORDS; j++) w[j] = ring[i % AHEAD][j];
                if (i + AHEAD < WR_LEAN_TILES)
                    wr_tile_load<KIND>(ring[i % AHEAD], cur + (i + AHEAD) * BYTES, lane);
                else if (more)
                    wr_tile_load<KIND>(ring[i % AHEAD], next + (i + AHEAD - WR_LEAN_TILES) * BYTES, lane);
                multiply_tile<KIND, NT>(c, w, x, offset + 2 * WR_TILE_COLS * i);
            }
            keep_sums<NT>(part + u * takers * NT * PART, c, lane);
        }
        const int threads = 32 * takers;
        wr_barrier(1 + r, threads);
        lean_add<NT>(p, b, part - slice * NT * PART, row_tile, threadIdx.x - r * threads, threads);
        part += turn;
        turn = -turn;
    }
}

/* Of LINEAR: 24 warps; of GATHER_LINEAR: 16, since more registers are live. */
#define WR_LEAN_KERNELS(kind, ahead)                                                                                   \
    WR_KERNEL(wr_linear_##kind##_lean, wr_linear_params, 32 * WR_LEAN_WARPS, 1) {                                      \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        lean<WR_KIND_##kind, 1, ahead, false>(p, shared);                                                              \
    }                                                                                                                  \
    WR_KERNEL(wr_linear_##kind##_gather, wr_linear_params, 32 * WR_LEAN_GATHER_WARPS, 1) {                             \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        lean<WR_KIND_##kind, 1, ahead, true>(p, shared);                                                               \
    }

#endif
