/* LINEAR of packed weights for 1 to 32 rows of x.
 *
 * Contract and layouts: linear.h. A warp takes units: one slice of K of one row tile (16 rows of the weight). Its words
 * come by 16-byte loads straight into fragments, a ring of tiles ahead, across the ends of units; x lies in shared
 * memory and comes by ldmatrix as the B operand, 8 * NT rows of it. Two ways to add the slices: direct (chunks 1)  a
 * block has all slices of its row tiles; sums lie in shared memory and are added there, in order. spread (chunks > 1) a
 * block has chunk_slices slices, and only those columns of x; warps write their sums to partials and count themselves
 * in; the last one of a row tile adds all slices, in order. Grid: direct, any; block b works on row groups b, b +
 * blocks, ..; spread, a multiple of chunks: block b has chunk b % chunks. A row group is group_tiles row tiles. Block:
 * up to 12 warps (NT = 4: 8). Shared memory: x [m][chunk columns + 8] bf16, then, direct, two buffers of sums.
 *
 * Bytes: every byte of the weight once (tile_bytes a tile: 4 bits in groups of 64: 576 for 1,024 weights), x once a
 * block, y once; spread: 8 bytes of partials for each of slices * m * n. Operations: 2 m n k.
 *
 * Measured (H200, 2026-11-30, x in bf16): bf16 weights [12288, 4096], one row 25.8 us; the rest is linear_lean and
 * linear_prefill now, where the common formats are measured.
 *
 * Tried and dropped (trial kernels, H200, W [12288, 4096]): subtracting 128 from a nibble under an exponent (one more
 * operation a pair, 8.7 became 9.3 us); all of x in each block from 9 rows on (one block a multiprocessor, 12.9 us at
 * 16 rows); slices of 1,024 (9.7 us), of 256 (9.2 us). */
#ifndef WR_CUDA_LINEAR_DECODE_CUH
#define WR_CUDA_LINEAR_DECODE_CUH

#include "cuda/kernels/linear.cuh"

enum {
    PART_PITCH = 20,
    PART = 8 * PART_PITCH
}; /* floats of 16 rows x 8 tokens; 20 keeps the stores off each other's banks */

/* Warps that have finished their slice of a row tile. 0 between launches: the last one resets it, so that it may be a
 * global of the module. One launch at a time uses it, since it is touched behind wr_grid_wait() only. */
static __device__ u32 finished[WR_SPREAD_ROW_TILES];

/* What a block works on. LINEAR: all rows of x. GATHER_LINEAR: one row, or the rows of one job. */
typedef struct job {
    const u8 *w;       /* of the expert */
    const i32 *order;  /* row i of the job is row order[i] of x and y; NULL: row first + i */
    int first, m;      /* m = 0: nothing to do */
    int block, blocks; /* this block's number and how many share the job */
} job;
WR_DEVICE i64 row_of(const job &b, int i) { return b.order ? b.order[i] : b.first + i; }

WR_DEVICE job whole_job(const wr_linear_params &p) {
    job b = {p.w, nullptr, 0, (int)p.m, (int)blockIdx.x, (int)gridDim.x};
    return b;
}
/* GATHER_LINEAR: reads what earlier kernels wrote. Rows of experts that do not exist become NaN here. */
template <int KIND> WR_DEVICE job gathered_job(const wr_linear_params &p) {
    const int number = blockIdx.x / p.job_blocks;
    job b = {p.w, nullptr, number, 1, (int)blockIdx.x % p.job_blocks, p.job_blocks};
    i64 expert;
    if (p.jobs) {
        const wr_linear_job *list = (const wr_linear_job *)(p.jobs + 1);
        if (number >= p.jobs->n) {
            b.m = 0;
            return b;
        }
        expert = list[number].expert;
        b.m = list[number].count;
        b.order = (const i32 *)(list + p.max_jobs) + list[number].first;
    } else {
        expert = p.ids[number];
    }
    if (expert >= 0 && expert < p.experts) {
        b.w = p.w + expert * p.row_tiles * p.k_tiles * wr_tile<KIND>::bytes;
        return b;
    }
    for (int i = 0; i < b.m; i++)
        for (i64 n = (i64)b.block * blockDim.x + threadIdx.x; n < p.n; n += (i64)b.blocks * blockDim.x)
            wr_linear_put(p.y, p.y_type, row_of(b, i) * p.n + n, wr_bits_f32(0x7FC00000u));
    b.m = 0;
    return b;
}

/* Where a warp reads next. */
typedef struct cursor {
    const u8 *tile; /* of the unit's first k tile */
    int group, v;   /* row group, unit of it */
    int n, k;       /* tiles of the unit, the next one of them */
} cursor;

/* Fills in tile and n for the unit (group, v), or for the first one after it that has tiles; n = 0: there is none. */
template <int KIND>
WR_DEVICE void cursor_settle(cursor *c, const wr_linear_params &p, const u8 *w, int warp, int chunk) {
    c->n = c->k = 0;
    for (; c->group < p.groups; c->group += p.stride, c->v = warp)
        for (; c->v < p.units; c->v += p.warps) {
            const int slice = chunk * p.chunk_slices + c->v % p.chunk_slices;
            const int row_tile = c->group * p.group_tiles + c->v / p.chunk_slices, first = slice * p.slice_tiles;
            if (slice >= p.slices || row_tile >= (int)p.row_tiles) continue;
            c->n = min((int)p.k_tiles - first, p.slice_tiles);
            c->tile = w + ((i64)row_tile * p.k_tiles + first) * wr_tile<KIND>::bytes;
            return;
        }
}

/* Eight columns of x as bf16; zeros where there is no column. */
WR_DEVICE uint4 x_piece(const wr_linear_params &p, i64 row, i64 col) {
    u32 v[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (col + i < p.k) v[i / 2] |= (u32)wr_linear_x(p, row * p.k + col + i) << (16 * (i & 1));
    return make_uint4(v[0], v[1], v[2], v[3]);
}
/* Columns [first, first + cols) of x to shared memory; cols is a multiple of 64. */
WR_DEVICE void stage_x(const wr_linear_params &p, const job &b, u8 *to, i64 first, int cols, int pitch_bytes) {
    const bool vectors = p.x_type == WR_NUM_BF16 && p.k % 8 == 0 && (u64)p.x % 16 == 0;
    const int pieces = cols / 8;
    for (int row = 0; row < b.m; row++) {
        const i64 from = row_of(b, row);
        for (int piece = threadIdx.x; piece < pieces; piece += blockDim.x) {
            const i64 col = first + 8 * piece;
            u8 *at = to + row * pitch_bytes + 16 * piece;
            if (vectors && col < p.k)
                wr_cp16(wr_smem(at), (const u16 *)p.x + from * p.k + col);
            else
                *(uint4 *)at = x_piece(p, from, col);
        }
    }
    wr_cp_commit();
    wr_cp_wait<0>();
    __syncthreads();
}

/* c += one tile: x holds, for each n8 tile, this lane's ldmatrix address at the tile's first column. */
template <int KIND, int NT> WR_DEVICE void multiply_tile(float (*c)[4], const u32 *w, const u32 *x, u32 offset) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        u32 b[NT][4];
#pragma unroll
        for (int n = 0; n < NT; n++) wr_ldmatrix4(b[n], x[n] + offset + 64 * half);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            u32 a[4], low[4];
            wr_tile_step<KIND>(w, 2 * half + i, a, low);
#pragma unroll
            for (int n = 0; n < NT; n++) wr_step_mma<KIND>(c[n], a, low, b[n][2 * i], b[n][2 * i + 1]);
        }
    }
}

/* The last warp of a row tile adds its slices and writes y. */
WR_DEVICE void add_partials(const wr_linear_params &p, i64 row_tile, int lane) {
    const i64 plane = p.m * WR_TILE_ROWS;
    const float *from = p.partials + row_tile * p.slices * plane;
    for (int i = lane; i < (int)p.m * 4; i += 32) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int s = 0; s < p.slices; s++) {
            const uint4 v = wr_load16_l2(from + s * plane + 4 * i);
            sum[0] += wr_bits_f32(v.x), sum[1] += wr_bits_f32(v.y);
            sum[2] += wr_bits_f32(v.z), sum[3] += wr_bits_f32(v.w);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const i64 n = row_tile * WR_TILE_ROWS + 4 * (i % 4) + e;
            if (n < p.n) wr_linear_store(p, i / 4, n, sum[e]);
        }
    }
}
template <int NT>
WR_DEVICE void spread_sums(const wr_linear_params &p, const float (*c)[4], i64 row_tile, int slice, int lane) {
    const int g = lane / 4, t = lane % 4;
    float *to = p.partials + (row_tile * p.slices + slice) * p.m * WR_TILE_ROWS;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int token = 8 * n + 2 * t + (e & 1);
            if (token < p.m) to[token * WR_TILE_ROWS + g + 8 * (e >> 1)] = c[n][e];
        }
    __syncwarp();
    u32 before = 0;
    if (lane == 0) before = wr_arrive_global(&finished[row_tile]);
    before = __shfl_sync(0xFFFFFFFFu, before, 0);
    if (before + 1 != (u32)p.slices) return;
    if (lane == 0) finished[row_tile] = 0;
    add_partials(p, row_tile, lane);
}
template <int NT> WR_DEVICE void keep_sums(float *part, const float (*c)[4], int lane) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) part[n * PART + (2 * t + (e & 1)) * PART_PITCH + g + 8 * (e >> 1)] = c[n][e];
}
/* All slices of the row group are in shared memory: y. */
template <int NT> WR_DEVICE void add_sums(const wr_linear_params &p, const job &b, const float *part, int group) {
    const int m = b.m, n_values = p.group_tiles * m * WR_TILE_ROWS;
    for (int i = threadIdx.x; i < n_values; i += blockDim.x) {
        const int r = i / (m * WR_TILE_ROWS), token = i / WR_TILE_ROWS % m, row = i % WR_TILE_ROWS;
        const i64 n = (i64)(group * p.group_tiles + r) * WR_TILE_ROWS + row;
        const float *from = part + r * p.slices * NT * PART + token * PART_PITCH + row;
        float sum = 0.0f;
        for (int s = 0; s < p.slices; s++) sum += from[s * NT * PART];
        if (n < p.n) wr_linear_store(p, row_of(b, token), n, sum);
    }
}

/* AHEAD: tiles of the ring. */
template <int KIND, int NT, int AHEAD> WR_DEVICE void decode(const wr_linear_params &p, u8 *shared) {
    const int WORDS = wr_tile<KIND>::words, BYTES = wr_tile<KIND>::bytes;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool gather = p.ids || p.jobs;
    wr_grid_launch();
    if (gather) wr_grid_wait(); /* which expert is not known before */
    const job b = gather ? gathered_job<KIND>(p) : whole_job(p);
    if (b.m == 0) return;
    const int chunk = b.block % p.chunks;
    cursor next = {0, b.block / p.chunks, warp, 0, 0};
    u32 ring[AHEAD][WORDS];
    cursor_settle<KIND>(&next, p, b.w, warp, chunk);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (i < next.n) wr_tile_load<KIND>(ring[i], next.tile + i * BYTES, lane);
    next.k = AHEAD;
    if (!gather) wr_grid_wait();

    const int first_tile = chunk * p.chunk_slices * p.slice_tiles;
    const int cols = min((int)p.k_tiles - first_tile, p.chunk_slices * p.slice_tiles) * WR_TILE_COLS;
    const int pitch = (cols + 8) * 2;
    float *sums = (float *)(shared + ((b.m * pitch + 127) & ~127));
    stage_x(p, b, shared, (i64)first_tile * WR_TILE_COLS, cols, pitch);
    u32 x[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) { /* rows beyond m repeat the last one: their sums are not used */
        const int row = 8 * n + lane % 8;
        x[n] = wr_smem(shared + (row < b.m ? row : b.m - 1) * pitch + 16 * (lane / 8));
    }

    int buffer = 0;
    for (int group = b.block / p.chunks; group < p.groups; group += p.stride) {
        for (int v = warp; v < p.units; v += p.warps) {
            const int local = v % p.chunk_slices, slice = chunk * p.chunk_slices + local;
            const int row_tile = group * p.group_tiles + v / p.chunk_slices;
            if (slice >= p.slices || row_tile >= (int)p.row_tiles) continue;
            const int n_tiles = min((int)p.k_tiles - slice * p.slice_tiles, p.slice_tiles);
            u32 offset = (u32)(local * p.slice_tiles) * 2 * WR_TILE_COLS;
            float c[NT][4];
#pragma unroll
            for (int n = 0; n < NT; n++) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
            for (int k = 0; k < n_tiles; k += AHEAD, offset += 2 * WR_TILE_COLS * AHEAD) {
                if (next.k >= next.n) { /* the next unit, unless this was the last */
                    if (next.n) next.v += p.warps;
                    cursor_settle<KIND>(&next, p, b.w, warp, chunk);
                }
                const u8 *from = next.tile + next.k * BYTES;
                const int there = next.n - next.k;
                if (k + AHEAD <= n_tiles && there >= AHEAD) { /* the common case without a question a tile */
#pragma unroll
                    for (int i = 0; i < AHEAD; i++) {
                        u32 w[WORDS]; /* the next load is on its way before this tile is worked on */
#pragma unroll
                        for (int j = 0; j < WORDS; j++) w[j] = ring[i][j];
                        wr_tile_load<KIND>(ring[i], from + i * BYTES, lane);
                        multiply_tile<KIND, NT>(c, w, x, offset + 2 * WR_TILE_COLS * i);
                    }
                } else {
#pragma unroll
                    for (int i = 0; i < AHEAD; i++) {
                        if (k + i < n_tiles) multiply_tile<KIND, NT>(c, ring[i], x, offset + 2 * WR_TILE_COLS * i);
                        if (i < there) wr_tile_load<KIND>(ring[i], from + i * BYTES, lane);
                    }
                }
                next.k += AHEAD;
            }
            if (p.chunks > 1)
                spread_sums<NT>(p, c, row_tile, slice, lane);
            else
                keep_sums<NT>(sums + (buffer * p.units + v) * NT * PART, c, lane);
        }
        if (p.chunks > 1) continue;
        __syncthreads();
        add_sums<NT>(p, b, sums + buffer * p.units * NT * PART, group);
        buffer ^= 1;
    }
}

/* name: of the kernel; rows: of x, 8, 16 or 32. */
#define WR_DECODE_KERNEL(name, kind, rows, threads, ahead)                                                             \
    WR_KERNEL(wr_linear_##name##_##rows, wr_linear_params, threads, 2) {                                               \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        decode<WR_KIND_##kind, rows / 8, ahead>(p, shared);                                                            \
    }

#endif
