/* LINEAR and, of up to 8 rows of x, LINEAR_GATED, NORM_LINEAR and GATHER_LINEAR of packed weights for 1 to 16 rows,
 * where every slice has 8 tiles: the decode tier (linear_decode.cuh) without its questions.
 *
 * Contract and layouts: linear.h. A warp takes slices of one row tile; of LINEAR all of its slices lie at the same
 * place in K. The 8 tiles of a slice are straight code: a tile is loaded into the ring of registers as soon as the tile
 * that lay there is taken out, and the first tiles of the warp's next slice come in during the last ones of this, so
 * that every warp has AHEAD tiles on their way, past the ends of slices and of row tiles. x lies in shared memory and
 * comes by ldmatrix as the B operand. From sm_90 on bulk copies bring it, with a barrier for each slice, so that a warp
 * waits for the columns that it reads. The slices of a row tile lie in shared memory and are added in order by the
 * warps that made them, behind a barrier of their own. Weights are asked for before wr_grid_wait(), x after it; behind
 * x, as much of the weights again, into L2, while x is on its way. With a gate, row tiles go in pairs, one of the gate
 * and the one of the up half that it belongs to, whose warps share a barrier. With a norm, each block norms all of x
 * (up to 2 rows) as it lays it into shared memory.
 *
 * Two forms for clusters of two blocks (sm_90a). lean16, 9 to 16 rows: each block brings every second row of x to both.
 * split, up to 8 rows where K is so long that x fills a block's memory: a block has half of the slices and of x, its
 * warps store their sums into the block that adds the row tile, and a barrier of the cluster stands before the adding.
 *
 * Grid: any; block b works on groups of row tiles b, b + stride, ..; a job of GATHER_LINEAR has stride blocks. Block:
 * group_tiles row tiles at once (split: of a cluster), chunk_slices warps for each; 24 warps leave 80 registers a
 * thread (GATHER_LINEAR: 16 warps a block; split: 20). Shared memory: barriers, x [m][columns + 8] bf16, sums twice.
 *
 * Bytes: every byte of the weight once (tile_bytes a tile: 4 bits in groups of 64: 576 for 1,024 weights), x once a
 * block, y once. Operations: 2 m n k.
 *
 * Measured (H200, 30 November 2026, 4 bits in groups of 64, us a call, medians of graphs of 48 to 240 calls with cold
 * weights, the driver's own division of a multiprocessor's memory; in brackets the kernels before, in the same run):
 *   rows                 1            2      4      6             8              16
 *   [12288, 4096]        7.63 (9.37)  8.06   8.50   8.91 (10.9)   9.20 (11.3)    11.8 (15.3, tiles of 16 tokens)
 *   [28672, 4096]        16.1 (20.0)                              17.8 (22.2)    21.2 (tiles of 16 tokens: 21.5)
 *   [4096, 4096]         3.72 (4.47)         4.70                 5.51 (6.30)    6.75 (10.2)
 *   [6144, 4096]         4.85 (5.80)                              6.52           8.32
 *   [4096, 14336] split  11.1 (11.1)  11.2   11.8                 12.7 (21.4)
 *   [128256, 4096]       68.6 (80.5)                              74.3           85.9
 *   other kinds, [12288, 4096], 1 / 8 / 16 rows, by bench_cuda, where all memory beside the shared one is 28 KB of L1:
 *   4 bits 8.4 / 9.8 / 12.5; 8 bits 13.5 / 14.9 / 17.0; MXFP4 9.6 / 10.7 / 13.5; NVFP4 10.4 / 11.7 / 14.2; MXFP8 14.0 /
 *   15.3 / 16.9; Q4_K 14.0 / 15.2 / 17.3; Q6_K 16.7 / 18.2; Q8_0 14.1 / 15.7; bf16 23.4 / 24.4
 * A step of an 8B model (32 layers, 4 bits) at batch 1, 2, 4, 8, with what these kernels were before bulk copies of x:
 * 1,969, 2,124, 2,341, 3,059 us with kernels of their own for silu(gate) * up and norms; 1,912, 2,055, 2,283, 2,915
 * with the gate here; 1,881, 2,022, 2,366, 3,234 with norms here too, so from 3 rows on they are not. Since then a norm
 * forgoes the bulk copies of x. Still it pays: at one row 559.6 tokens/s, with norms apart 544.7, those before gates
 * apart 554.2 (A B C A in one run); the x that a thread squared kept in shared memory, and weights asked for into L2
 * meanwhile: 557.6 to 558.5 in another.
 * Loads on their way take room in L1: with 100% of it given to shared memory (device.c) one row takes 8.43 us, with 72%
 * or less 7.75 (16.3 instead of 17.5 at [28672, 4096]).
 * What it was, at one row of [12288, 4096]: 24 warps a block of 3 row tiles and 8 takers instead of 6 and 4, and lane
 * offsets that the compiler cannot fold (46 instead of 66 instructions a tile): 9.42 to 8.70; bulk copies of x and
 * barriers of slices: 8.06; 128-byte sectors asked for: 7.93; the prefetch: 7.69.
 *
 * Tried and dropped (the same shape unless said): 16 warps with a ring of 8 tiles, 8.66 at one row, 10.5 at 8; three
 * blocks of 8 warps, 7.92, but 14.3 at 8 rows, since each block brings all of x; x brought by two blocks for up to 8
 * rows: 8.81 at one row, 9.69 at 8; prefetching the warp's next slice too: 9.77; slices spread over clusters where x
 * fits without: 11.1 at 8 rows, 13.6 at 16; over clusters of 4: [4096, 14336] 15.0 at 8 rows and 19.0 at 16, which
 * tiles of 16 tokens reach; the product behind attention asking L2 for 8 to 32 MB of the next weights while it waits
 * (0.2 to 0.4 us a layer slower, 1 to 3 at 8 rows: the bytes were not what the next one lacks). */
#ifndef WR_CUDA_LINEAR_LEAN_CUH
#define WR_CUDA_LINEAR_LEAN_CUH

#include "cuda/kernels/eights.cuh"
#include "cuda/kernels/linear_decode.cuh"

/* A block's part of x: `count` slices from slice `first` on, of the job's rows. */
typedef struct lean_x {
    u8 *to;          /* in shared memory: [row][count * 512 columns, and 8 more against bank conflicts] */
    int pitch_bytes; /* of a row there */
    int first, count;
    u32 bars; /* bulk: a barrier for each of the slices */
} lean_x;
enum { LEAN_SLICE_BYTES = WR_LEAN_TILES * WR_TILE_COLS * 2 }; /* of a row of x */

/* By all threads; neither wait nor barrier. */
WR_DEVICE void lean_stage(const wr_linear_params &p, const job &b, const lean_x &x) {
    const int pieces = x.count * (LEAN_SLICE_BYTES / 16), first = x.first * (LEAN_SLICE_BYTES / 2);
    const bool vectors = p.x_type == WR_NUM_BF16 && p.k == p.k_tiles * WR_TILE_COLS && (u64)p.x % 16 == 0;
    for (int row = 0; row < b.m; row++)
        for (int i = threadIdx.x; i < pieces; i += blockDim.x) {
            u8 *at = x.to + row * x.pitch_bytes + 16 * i;
            if (vectors)
                wr_cp16(wr_smem(at), (const u16 *)p.x + row_of(b, row) * p.k + first + 8 * i);
            else
                *(uint4 *)at = x_piece(p, row_of(b, row), first + 8 * i);
        }
    wr_cp_commit();
}
#if WR_HAS_BULK
/* By one warp: slice s of the part. shared_by 2: the cluster's other block brings every second row for both. */
WR_DEVICE void lean_bring(const wr_linear_params &p, const job &b, const lean_x &x, int s, int lane, int shared_by) {
    const u32 bar = x.bars + 8 * s, to = wr_smem(x.to) + s * LEAN_SLICE_BYTES;
    const u8 *from = (const u8 *)p.x + (x.first + s) * LEAN_SLICE_BYTES;
    if (lane == 0) wr_bar_expect(bar, (u32)(b.m * LEAN_SLICE_BYTES));
    __syncwarp();
    const int row = shared_by * lane + (int)blockIdx.x % shared_by;
    if (row >= b.m) return;
    const u32 at = to + row * x.pitch_bytes;
#if WR_HAS_WGMMA
    if (shared_by > 1) {
        wr_bulk_copy_to_all(at, from + row * p.k * 2, LEAN_SLICE_BYTES, bar, 3);
        return;
    }
#endif
    wr_bulk_copy(at, from + row_of(b, row) * p.k * 2, LEAN_SLICE_BYTES, bar);
}
#endif

WR_DEVICE void lean_fetch(float *v, const float *from) {
    if ((u64)from % 16 == 0)
        wr_eight_load(v, from, WEIR_DTYPE_F32, 0);
    else
        for (int e = 0; e < 8; e++) v[e] = from[e];
}
/* The norm's weights to shared memory, where each thread later reads what it brought; neither wait nor barrier. */
WR_DEVICE void lean_bring_norm(const wr_linear_params &p, float *to) {
    const int lane = threadIdx.x % 32, cols = (int)p.k;
#pragma unroll 1
    for (int w = threadIdx.x / 32; w < p.norm_warps; w += p.warps) {
        const int at = (32 * w + lane) * 8;
        if (at >= cols) break;
        if ((u64)p.norm % 16 == 0) {
            wr_cp16(wr_smem(to + at), p.norm + at);
            wr_cp16(wr_smem(to + at + 4), p.norm + at + 4);
        } else {
            for (int e = 0; e < 8; e++) to[at + e] = p.norm[at + e];
        }
    }
    wr_cp_commit();
}
/* Rows of x to shared memory, normed on the way (NORM_LINEAR), by all threads, with barriers. The sum of squares is
 * norm.cu's tree: a warp's part is made by whichever warp has the time. weights: as brought; kept: room for [m][k], in
 * which a thread reads what it wrote; parts: for [m][norm_warps]. */
WR_DEVICE void lean_stage_normed(const wr_linear_params &p, const job &b, u8 *to, int pitch_bytes, const float *weights,
                                 float *kept, float *parts) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32, cols = (int)p.k;
    const float *x = (const float *)p.x;
#pragma unroll 1
    for (int row = 0; row < b.m; row++)
#pragma unroll 1
        for (int w = first; w < p.norm_warps; w += p.warps) {
            const int at = (32 * w + lane) * 8;
            float v[8], square = 0.0f;
            if (at < cols) {
                lean_fetch(v, x + row_of(b, row) * cols + at);
                for (int e = 0; e < 8; e++) square = fmaf(v[e], v[e], square);
                wr_eight_store(kept, WEIR_DTYPE_F32, row * cols + at, v);
            }
            for (int mask = 16; mask; mask >>= 1) square = square + __shfl_xor_sync(0xFFFFFFFFu, square, mask);
            if (lane == 0) parts[row * p.norm_warps + w] = square;
        }
    wr_cp_wait<0>();
    __syncthreads();
#pragma unroll 1
    for (int row = 0; row < b.m; row++) {
        float square = parts[row * p.norm_warps];
        for (int w = 1; w < p.norm_warps; w++) square = square + parts[row * p.norm_warps + w];
        const float factor = 1 / sqrtf(square / (float)cols + p.norm_eps);
#pragma unroll 1
        for (int w = first; w < p.norm_warps; w += p.warps) {
            const int at = (32 * w + lane) * 8;
            if (at >= cols) break;
            float v[8];
            u32 y[4];
            wr_eight_load(v, kept, WEIR_DTYPE_F32, row * cols + at);
            for (int e = 0; e < 8; e++) v[e] = v[e] * factor * (weights[at + e] + p.norm_offset);
            for (int i = 0; i < 4; i++) y[i] = wr_pack_bf16(v[2 * i], v[2 * i + 1]);
            *(uint4 *)(to + row * pitch_bytes + 2 * at) = make_uint4(y[0], y[1], y[2], y[3]);
        }
    }
    __syncthreads(); /* the room of parts and weights is that of the sums */
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

/* The same of a gate's row tile and of its up half's, whose sums lie a row tile further. */
template <int NT>
WR_DEVICE void lean_add_gated(const wr_linear_params &p, const job &b, const float *part, i64 row_tile, int thread,
                              int threads) {
    const int other = p.slices * NT * PART;
    for (int i = thread; i < b.m * WR_TILE_ROWS; i += threads) {
        const int token = i / WR_TILE_ROWS, row = i % WR_TILE_ROWS;
        const float *from = part + token * PART_PITCH + row;
        float gate = 0.0f, up = 0.0f;
#pragma unroll 2
        for (int s = 0; s < p.slices; s++) gate += from[s * NT * PART], up += from[other + s * NT * PART];
        wr_linear_store_gated(p, row_of(b, token), row_tile * WR_TILE_ROWS + row, gate, up);
    }
}

#if WR_HAS_WGMMA
/* SPLIT: a warp's sums of a slice into the shared memory of the block that adds its row tile. */
template <int NT> WR_DEVICE void lean_send(u32 to, const float (*c)[4]) {
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            wr_cluster_store4(to + 4 * (n * PART + (e & 1) * PART_PITCH + 8 * (e >> 1)), c[n][e]);
}
/* All threads of the block add the block's row tiles of the group, of which there are no more than threads. */
template <int NT>
WR_DEVICE void lean_add_own(const wr_linear_params &p, const job &b, const float *sums, int group, int rank) {
    const int own = (p.group_tiles + p.chunks - 1 - rank) / p.chunks, share = blockDim.x / max(own, 1);
    const int i = threadIdx.x / share;
    const i64 row_tile = (i64)group * p.group_tiles + i * p.chunks + rank;
    if (i < own && row_tile < p.row_tiles)
        lean_add<NT>(p, b, sums + i * p.slices * NT * PART, row_tile, threadIdx.x - i * share, share);
}
#endif

enum { LEAN_PLAIN, LEAN_GATHER, LEAN_GATED, LEAN_SPLIT };

/* AHEAD: tiles of the ring; divides 8. FORM: LEAN_. */
template <int KIND, int NT, int AHEAD, int FORM> WR_DEVICE void lean(const wr_linear_params &p, u8 *shared) {
    const bool GATHER = FORM == LEAN_GATHER, SPLIT = FORM == LEAN_SPLIT, GATED = FORM == LEAN_GATED;
    const bool ONE = FORM == LEAN_PLAIN; /* a warp has one slice of a row tile */
    const int WORDS = wr_tile<KIND>::words, BYTES = wr_tile<KIND>::bytes;
    const int lane = wr_opaque(threadIdx.x % 32), warp = threadIdx.x / 32;
    wr_grid_launch();
    if (GATHER) wr_grid_wait(); /* which expert is not known before */
    const job b = GATHER ? gathered_job<KIND>(p) : whole_job(p);
    if (GATHER && b.m == 0) return;
    const int cluster = GATHER ? 1 : p.chunks, rank = SPLIT ? (int)blockIdx.x % cluster : 0;
    const int most = SPLIT ? (p.slices + cluster - 1) / cluster : p.slices, first = rank * most;
    const int count = SPLIT ? min(most, p.slices - first) : p.slices;
    const int takers = p.chunk_slices, r = p.group_tiles == 1 ? 0 : warp / takers, local = warp - r * takers;
    const int mine = ONE ? 1 : (count - local + takers - 1) / takers;
    int group = SPLIT ? (int)blockIdx.x / cluster : b.block, row_tile = group * p.group_tiles + r;
    int row_tiles = (int)p.row_tiles;
    if (GATED) { /* even warps' rows are gates, odd ones' the up half's: both of a pair lie in this block */
        row_tile = row_tile / 2 + (r & 1) * (row_tiles / 2);
        if (!(r & 1)) row_tiles /= 2;
    }
    const u8 *next = b.w + ((i64)row_tile * p.k_tiles + (first + local) * WR_LEAN_TILES) * BYTES;
    u32 ring[AHEAD][WORDS];
    if (row_tile < row_tiles && mine > 0) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) wr_tile_load<KIND>(ring[i], next + i * BYTES, lane);
    }
    const int m = b.m, pitch = most * LEAN_SLICE_BYTES + 16;
    const lean_x part_of_x = {shared + WR_LEAN_BAR_BYTES, pitch, first, count, wr_smem(shared)};
    float *sums = (float *)(part_of_x.to + ((m * pitch + 127) & ~127));
    const bool normed = (FORM == LEAN_PLAIN || GATED) && NT == 1 && p.norm;
    float *norm = sums + WR_LEAN_NORM_PARTS; /* its weights, and the rows kept behind them */
    if (normed) lean_bring_norm(p, norm);
    bool bulk = false;
#if WR_HAS_BULK
    bulk = p.x_type == WR_NUM_BF16 && p.k == p.k_tiles * WR_TILE_COLS && (u64)p.x % 16 == 0 && !normed;
    if ((int)threadIdx.x < count) {
        wr_bar_init(part_of_x.bars + 8 * threadIdx.x, 1);
        wr_bar_init_done();
    }
    __syncthreads();
#endif
#if WR_HAS_WGMMA
    if (cluster > 1) { /* the others may store here */
        wr_cluster_arrive();
        wr_cluster_wait();
    }
#endif
    if (!GATHER) wr_grid_wait();
#if WR_HAS_BULK
    if (bulk && r == 0)
        for (int s = local; s < count; s += takers) lean_bring(p, b, part_of_x, s, lane, SPLIT ? 1 : cluster);
    if (!GATHER && AHEAD * BYTES <= 2560 && (bulk || normed) && lane == 0 && row_tile < row_tiles && mine > 0)
        wr_prefetch_l2(next + AHEAD * BYTES, AHEAD * BYTES); /* while x is on its way; not more than that */
#endif
    if (!bulk) {
        if (normed) {
            lean_stage_normed(p, b, part_of_x.to, pitch, norm, norm + p.k, sums);
        } else {
            lean_stage(p, b, part_of_x);
            wr_cp_wait<0>();
            __syncthreads();
        }
        if (WR_HAS_BULK && (int)threadIdx.x < count) wr_bar_arrive(part_of_x.bars + 8 * threadIdx.x);
    }
    u32 x[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) { /* rows beyond m repeat the last one: their sums are not used */
        const int row = 8 * n + lane % 8;
        x[n] = wr_smem(part_of_x.to + (row < m ? row : m - 1) * pitch + 16 * (lane / 8)) + local * LEAN_SLICE_BYTES;
    }
    const int tiles_kept = SPLIT ? (p.group_tiles + cluster - 1) / cluster : p.group_tiles;
    int turn = tiles_kept * p.slices * NT * PART; /* to the other buffer, and back */
    float *part = SPLIT ? sums : sums + (r * p.slices + local) * NT * PART;
    [[maybe_unused]] u32 there = 0;
#if WR_HAS_WGMMA
    if (SPLIT)
        there = wr_cluster_smem(wr_smem(sums + (r / cluster * p.slices + first + local) * NT * PART + lane / 4 +
                                        2 * (lane % 4) * PART_PITCH),
                                (u32)(r % cluster));
#endif
    const u32 bar = part_of_x.bars + 8 * local;
    if (WR_HAS_BULK && r == 0 && row_tile >= row_tiles) /* no block may end before what it asked for has come */
        for (int s = local; s < count; s += takers) wr_bar_wait(part_of_x.bars + 8 * s, 0);
#pragma unroll 1
    for (; SPLIT ? group < p.groups : row_tile < row_tiles; row_tile += p.row_step) {
        const bool last = row_tile + p.row_step >= row_tiles;
        const u32 step = takers * WR_LEAN_TILES * BYTES;
        u32 offset = 0;
#pragma unroll 1
        for (int u = 0; u < mine && (ONE || row_tile < row_tiles); u++, offset += takers * LEAN_SLICE_BYTES) {
            const u8 *cur = next;
            next += u + 1 < mine ? step : p.row_step_bytes - u * step;
            const bool more = u + 1 < mine || !last;
            if (WR_HAS_BULK) wr_bar_wait(bar + 8 * u * takers, 0);
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
#if WR_HAS_WGMMA
            if (SPLIT) {
                lean_send<NT>(there + 4 * u * takers * NT * PART, c);
                continue;
            }
#endif
            keep_sums<NT>(part + u * takers * NT * PART, c, lane);
        }
#if WR_HAS_WGMMA
        if (SPLIT) {
            __syncwarp();
            wr_cluster_arrive();
            wr_cluster_wait();
            lean_add_own<NT>(p, b, part, group, rank);
            there += 4 * turn;
            group += p.stride;
        }
#endif
        if (!SPLIT) {
            const int threads = 32 * takers * (GATED ? 2 : 1), pair = GATED ? r / 2 : r;
            wr_barrier(1 + pair, threads);
            if (GATED)
                lean_add_gated<NT>(p, b, part - (local + (r & 1) * p.slices) * NT * PART,
                                   r & 1 ? row_tile - (int)p.row_tiles / 2 : row_tile, threadIdx.x - pair * threads,
                                   threads);
            else
                lean_add<NT>(p, b, part - local * NT * PART, row_tile, threadIdx.x - r * threads, threads);
        }
        part += turn;
        turn = -turn;
    }
#if WR_HAS_WGMMA
    if (cluster > 1) { /* no block ends before the others are done with its memory */
        __syncwarp();
        wr_cluster_arrive();
        wr_cluster_wait();
    }
#endif
}

/* Of LINEAR: 24 warps for 8 rows, for 16 rows `warps`; of GATHER_LINEAR: 16, since more registers are live. */
#define WR_LEAN_KERNELS(kind, ahead, warps)                                                                            \
    WR_KERNEL(wr_linear_##kind##_lean, wr_linear_params, 32 * WR_LEAN_WARPS, 1) {                                      \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        lean<WR_KIND_##kind, 1, ahead, LEAN_PLAIN>(p, shared);                                                         \
    }                                                                                                                  \
    WR_KERNEL(wr_linear_##kind##_gated, wr_linear_params, 32 * WR_LEAN_WARPS, 1) {                                     \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        lean<WR_KIND_##kind, 1, ahead, LEAN_GATED>(p, shared);                                                         \
    }                                                                                                                  \
    WR_KERNEL(wr_linear_##kind##_gather, wr_linear_params, 32 * WR_LEAN_GATHER_WARPS, 1) {                             \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        lean<WR_KIND_##kind, 1, ahead, LEAN_GATHER>(p, shared);                                                        \
    }
#define WR_LEAN_CLUSTER_KERNELS(kind, ahead, warps)                                                                    \
    WR_KERNEL(wr_linear_##kind##_lean16, wr_linear_params, 32 * (warps), 1) {                                          \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        lean<WR_KIND_##kind, 2, ahead, LEAN_PLAIN>(p, shared);                                                         \
    }                                                                                                                  \
    WR_KERNEL(wr_linear_##kind##_split, wr_linear_params, 32 * WR_LEAN_SPLIT_WARPS, 1) {                               \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        lean<WR_KIND_##kind, 1, ahead, LEAN_SPLIT>(p, shared);                                                         \
    }

#endif
