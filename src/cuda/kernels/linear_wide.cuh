/* LINEAR of packed weights for up to 32 rows of bf16 x, where every slice has 8 tiles; sm_90a.
 *
 * Contract and layouts: linear.h. As linear_lean.cuh, but all of x need not fit: it comes slice by slice into slots of
 * shared memory, by bulk copies that a warp of their own asks for, and each warp begins as soon as its slice is there.
 * Where all slices fit they stay, and a block reads x once. A row tile has chunk_slices warps, which take its slices in
 * turn; after each turn they meet, and the first of them adds the sums, in order, to a total.
 * Grid: any; block b works on groups of row tiles b, b + stride, .. Block: group_tiles row tiles at once, chunk_slices
 * warps for each, and one more if x does not stay. Shared memory: two barriers a slot; a total for each row tile and
 * two buffers of sums for each warp but its first; slots of [m][512 columns + 8] bf16.
 *
 * Bytes: every byte of the weight once; x once a block, or once a group of row tiles if it does not stay; y once.
 * Operations: 2 m n k.
 *
 * Measured (H200, 30 November 2026, bench_cuda, us a call, blocks of at most 16 warps; larger ones: not yet):
 *   4 bits, groups of 64       [12288, 4096] 16 rows 16.3, 32 rows 19.9; 32 rows: [4096, 4096] 15.1, [28672,
 * 4096] 36.7, [4096, 14336] 39.5 other kinds, 32 rows       8 bits 23.7; MXFP4 20.1; NVFP4 20.7; MXFP8 24.0; Q4_K 23.2;
 * Q6_K 26.2; bf16 32.9 */
#ifndef WR_CUDA_LINEAR_WIDE_CUH
#define WR_CUDA_LINEAR_WIDE_CUH

#include "cuda/kernels/linear_lean.cuh"

#if WR_HAS_WGMMA

enum { WIDE_PITCH = WR_LEAN_TILES * WR_TILE_COLS * 2 + 16 }; /* bytes between rows of x in a slot */

/* Fills slots of shared memory with slices of x, one after the other, as often as the block goes through them. */
WR_DEVICE void wide_produce(const wr_linear_params &p, u32 bars, u32 slots, int lane) {
    const int depth = p.chunks, m = (int)p.m;
    int slot = 0, parity = 1;
    wr_grid_wait();
    for (i64 group = blockIdx.x; group < p.groups; group += p.stride) {
        for (int s = 0; s < p.slices; s++) {
            const u32 full = bars + 16 * slot, x = slots + slot * m * WIDE_PITCH;
            wr_bar_wait(full + 8, parity);
            if (lane == 0) wr_bar_expect(full, m * (WIDE_PITCH - 16));
            __syncwarp();
            for (int row = lane; row < m; row += 32)
                wr_bulk_copy(x + row * WIDE_PITCH, (const u16 *)p.x + row * p.k + s * WR_LEAN_TILES * WR_TILE_COLS,
                             WIDE_PITCH - 16, full);
            if (++slot == depth) slot = 0, parity ^= 1;
        }
        if (depth >= p.slices) return;
    }
}

/* Tokens 8 n .. of a row tile, as they lie in the accumulators: y. */
WR_DEVICE void wide_store(const wr_linear_params &p, const float *c, int n, i64 row_tile, int lane) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int token = 8 * n + 2 * (lane % 4) + (e & 1);
        const i64 row = row_tile * WR_TILE_ROWS + lane / 4 + 8 * (e >> 1);
        if (token < p.m && row < p.n) wr_linear_store(p, token, row, c[e]);
    }
}
/* Accumulators of one n8 tile in shared memory: 16 bytes a lane. */
WR_DEVICE void wide_keep(uint4 *to, const float *c) {
    *to = make_uint4(wr_f32_bits(c[0]), wr_f32_bits(c[1]), wr_f32_bits(c[2]), wr_f32_bits(c[3]));
}
WR_DEVICE void wide_add(float *c, const uint4 *from) {
    const uint4 v = *from;
    c[0] += wr_bits_f32(v.x), c[1] += wr_bits_f32(v.y), c[2] += wr_bits_f32(v.z), c[3] += wr_bits_f32(v.w);
}

/* chunks: slots; as many as there are slices: x stays. AHEAD: tiles of the ring; divides 8. */
template <int KIND, int NT, int AHEAD> WR_DEVICE void wide(const wr_linear_params &p, u8 *shared) {
    const int WORDS = wr_tile<KIND>::words, BYTES = wr_tile<KIND>::bytes;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, m = (int)p.m;
    const int takers = p.chunk_slices, depth = p.chunks;
    const u32 bars = wr_smem(shared);
    uint4 *sums = (uint4 *)(shared + 512); /* of a row tile: the total, then two buffers for each warp but the first */
    const u32 slots = wr_smem(shared + 512 + (2 * takers - 1) * p.group_tiles * NT * 512);
    wr_grid_launch();
    if (threadIdx.x == 0) {
        for (int i = 0; i < depth; i++) {
            wr_bar_init(bars + 16 * i, 1);
            wr_bar_init(bars + 16 * i + 8, p.group_tiles);
        }
        wr_bar_init_done();
    }
    const bool stays = depth >= p.slices, produces = warp == p.warps;
    const int r = warp / takers, j = warp - r * takers;
    int row_tile = blockIdx.x * p.group_tiles + r;
    const int stride = p.stride * p.group_tiles, row_tiles = (int)p.row_tiles;
    const int rounds = (p.slices + takers - 1) / takers, mine = (p.slices - j + takers - 1) / takers;
    const i64 step = (i64)takers * WR_LEAN_TILES * BYTES, jump = (i64)stride * p.k_tiles * BYTES - (mine - 1) * step;
    const u8 *next = p.w + ((i64)row_tile * p.k_tiles + j * WR_LEAN_TILES) * BYTES;
    u32 ring[AHEAD][WORDS];
    if (row_tile < row_tiles && !produces) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) wr_tile_load<KIND>(ring[i], next + i * BYTES, lane);
    }
    __syncthreads();
    if (produces) {
        wide_produce(p, bars, slots, lane);
        return;
    }
    if (stays && warp == 0) wide_produce(p, bars, slots, lane); /* once, so no warp has to be there for it */
    wr_grid_wait();
    u32 x[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) { /* rows beyond m repeat the last one: their sums are not used */
        const int row = 8 * n + lane % 8;
        x[n] = slots + (row < m ? row : m - 1) * WIDE_PITCH + 16 * (lane / 8);
    }
    uint4 *total = sums + r * (2 * takers - 1) * NT * 32 + lane, *part = total + (2 * j - 1) * NT * 32;
    int slot = j, parity = 0, turn = 0;
    for (int first = blockIdx.x * p.group_tiles; first < row_tiles; first += stride, row_tile += stride) {
        const bool valid = row_tile < row_tiles, last = row_tile + stride >= row_tiles;
        for (int round = 0; round < rounds; round++, turn ^= 1) {
            float c[NT][4];
#pragma unroll
            for (int n = 0; n < NT; n++) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
            if (round < mine) {
                wr_bar_wait(bars + 16 * slot, parity);
                if (valid) {
                    const u8 *cur = next;
                    next += round + 1 < mine ? step : jump;
                    const bool more = round + 1 < mine || !last;
                    const u32 offset = slot * m * WIDE_PITCH;
#pragma unroll
                    for (int i = 0; i < WR_LEAN_TILES; i++) {
                        u32 w[WORDS];
#pragma unroll
                        for (int k = 0; k < WORDS; k++) w[k] = ring[i % AHEAD][k];
                        if (i + AHEAD < WR_LEAN_TILES)
                            wr_tile_load<KIND>(ring[i % AHEAD], cur + (i + AHEAD) * BYTES, lane);
                        else if (more)
                            wr_tile_load<KIND>(ring[i % AHEAD], next + (i + AHEAD - WR_LEAN_TILES) * BYTES, lane);
                        multiply_tile<KIND, NT>(c, w, x, offset + 2 * WR_TILE_COLS * i);
                    }
                }
                __syncwarp();
                if (lane == 0 && !stays) wr_bar_arrive(bars + 16 * slot + 8);
                slot += takers;
                if (stays && round + 1 == mine) slot = j;
                while (slot >= depth && !stays) slot -= depth, parity ^= 1;
            }
            if (takers > 1) {
#pragma unroll
                for (int n = 0; n < NT; n++)
                    if (j && valid) wide_keep(part + (turn * NT + n) * 32, c[n]);
                wr_barrier(1 + r, 32 * takers);
            }
            if (j || !valid) continue;
#pragma unroll
            for (int n = 0; n < NT; n++) {
                float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                if (round) wide_add(sum, total + 32 * n);
#pragma unroll
                for (int e = 0; e < 4; e++) sum[e] += c[n][e];
                for (int o = 1; o < takers && round * takers + o < p.slices; o++)
                    wide_add(sum, total + ((2 * o - 1 + turn) * NT + n) * 32);
                if (round + 1 < rounds)
                    wide_keep(total + 32 * n, sum);
                else
                    wide_store(p, sum, n, row_tile, lane);
            }
        }
        if (!stays) { /* slots go on being counted over all slices */
            slot += p.slices - mine * takers;
            if (slot < 0) slot += depth, parity ^= 1;
            while (slot >= depth) slot -= depth, parity ^= 1;
        }
    }
}

/* 16 rows: 24 warps, 80 registers a thread; 32 rows: 20 warps, 96 registers, two tiles ahead. */
#define WR_WIDE_KERNELS(kind, ahead)                                                                                   \
    WR_KERNEL(wr_linear_##kind##_wide16, wr_linear_params, 32 * WR_WIDE_WARPS_16, 1) {                                 \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        wide<WR_KIND_##kind, 2, ahead>(p, shared);                                                                     \
    }                                                                                                                  \
    WR_KERNEL(wr_linear_##kind##_wide32, wr_linear_params, 32 * WR_WIDE_WARPS_32, 1) {                                 \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        wide<WR_KIND_##kind, 4, 2>(p, shared);                                                                         \
    }

#endif
#endif
