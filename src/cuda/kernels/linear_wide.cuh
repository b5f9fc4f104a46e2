/* wide: see linear_wide.cu */
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

/* The sums of a row tile, as they lie in the accumulators: y. */
template <int NT> WR_DEVICE void wide_store(const wr_linear_params &p, const float (*c)[4], i64 row_tile, int lane) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int token = 8 * n + 2 * t + (e & 1);
            const i64 row = row_tile * WR_TILE_ROWS + g + 8 * (e >> 1);
            if (token < p.m && row < p.n) wr_linear_store(p, token, row, c[n][e]);
        }
}

/* A block: group_tiles row tiles at once, chunk_slices warps for each, which take its slices in turn; the first of them
 * adds the sums. One more warp brings x, if it does not stay. chunks: slots for slices of x; as many as there are
 * slices: they stay. */
template <int KIND, int NT, int AHEAD> WR_DEVICE void wide(const wr_linear_params &p, u8 *shared) {
    const int WORDS = wr_tile<KIND>::words, BYTES = wr_tile<KIND>::bytes;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, m = (int)p.m;
    const int takers = p.chunk_slices, depth = p.chunks;
    const u32 bars = wr_smem(shared);
    float *parts = (float *)(shared + 512);
    const u32 slots = wr_smem(shared + 512 + (takers - 1) * p.group_tiles * 2 * NT * PART * 4);
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
    float *part = parts + (r * (takers - 1) + j - 1) * 2 * NT * PART;
    int slot = j, parity = 0;
    for (int first = blockIdx.x * p.group_tiles; first < row_tiles; first += stride, row_tile += stride) {
        const bool valid = row_tile < row_tiles, last = row_tile + stride >= row_tiles;
        float total[NT][4];
#pragma unroll
        for (int n = 0; n < NT; n++) total[n][0] = total[n][1] = total[n][2] = total[n][3] = 0.0f;
        for (int round = 0; round < rounds; round++) {
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
                if (j && valid) keep_sums<NT>(part + (round & 1) * NT * PART, c, lane);
                wr_barrier(1 + r, 32 * takers);
            }
            if (j || !valid) continue;
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) total[n][e] += c[n][e];
            for (int o = 1; o < takers && round * takers + o < p.slices; o++) {
                const float *from = part + (o * 2 + (round & 1)) * NT * PART;
                const int g = lane / 4, t = lane % 4;
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        total[n][e] += from[n * PART + (2 * t + (e & 1)) * PART_PITCH + g + 8 * (e >> 1)];
            }
        }
        if (valid && j == 0) wide_store<NT>(p, total, row_tile, lane);
        if (!stays) { /* slots go on being counted over all slices */
            slot += p.slices - mine * takers;
            if (slot < 0) slot += depth, parity ^= 1;
            while (slot >= depth) slot -= depth, parity ^= 1;
        }
    }
}
#define WR_WIDE_KERNEL(name, kind, rows, threads, ahead)                                                               \
    WR_KERNEL(wr_linear_##name, wr_linear_params, threads, 1) {                                                        \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        wide<WR_KIND_##kind, rows / 8, ahead>(p, shared);                                                              \
    }
#endif
#endif
