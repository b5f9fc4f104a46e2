/* The kernels of linear_prefill.cu, linear_prefill_bits.cu and linear_prefill_blocks.cu: y = x W^T for many rows of x
 * on wgmma. Those files hold instances for kinds of weights, so that each of them compiles in a minute.
 *
 * Contract: linear.h. Slices, k16 order and epilogue are those of the decode tiers, so a row has the same bits for
 * every number of rows and every tile shape here.
 *
 * Weights are the M side of wgmma: a warpgroup has 64 weight rows, a warp 16 of them, a lane expands its fragments in
 * registers from the packed tile (linear.h). Tokens are the N side, 16 to 128 of them, from shared memory, as the
 * prepare kernel laid them out (linear_prefill.h). A block has `halves` x `groups` multiplying warpgroups: halves side
 * by side over weight rows, groups taking slices in turn. Few tiles are shared by `cluster` blocks each, whose groups
 * count on from one block to the next: slice s is group s % (groups * cluster). Group 0 adds the slices of the others
 * to its own, in order, through shared memory; groups of other blocks store into the first block's, asynchronously. One
 * more warpgroup fills two rings of each group by bulk copies:
 * a stage of tokens is one k tile of 64 or two; a stage of weights is up to `chunk` k tiles of 4 * halves row tiles,
 * because the k tiles of a row tile lie together and few large copies cost the copying warps least. Blocks
 * are persistent: tile, tile + blocks, ... Weights of the first stages are fetched before the kernel before has ended.
 * bf16 outputs are turned in shared memory and leave by bulk copies, which nobody waits for.
 *
 * Per k tile of a block: 128 * tokens + 4 * halves * tile_bytes bytes into the multiprocessor, 2 * 64 * halves * tokens
 * * 64 operations, which take 2 * halves * tokens cycles at the least (4,096 operations a cycle).
 *
 * Measured (H200, 30 November 2026, affine 4 bits g64, bf16 x and y, us a call with cold weights, without preparation;
 * in brackets before the pipeline over whole slices, the outputs by bulk copies and the relaxed arrival, in the same
 * run; the clock moves 2,048 rows by up to 15% from run to run):
 *   W 12288 x 4096     32 rows 14.7 (16.0)   64 rows 19.9   128 rows 24.4 (64 tokens and 3 halves, or 128 and 2)
 *                     512 rows 73.2 (78.5), 704 TFLOP/s   1,024 rows 145.8 (160)   2,048 rows 285 (307), 723 TFLOP/s
 *   W 4096 x 14336     32 rows 20.1 (25.0)   512 rows 82.1 (85.3), 732 TFLOP/s   16 rows 18.6 (21.6)
 *   W 4096 x 4096      64 rows  11.5 us (32, 1 warpgroup), 10.7 (32, 4 groups)      128 rows  15.0 us (64, 1 warpgroup)
 *   preparation of 512 rows of 4096 alone: 4.4 us
 * Where the time of 512 and 2,048 rows goes: without the epilogue 69.4 and 269.6; without epilogue and expansion of
 * weights 65.8 and 251.
 *
 * Tried and dropped at 512 and 2,048 rows (73.2 and 285 without): the two warpgroups starting their wgmma in turns, by
 * named barriers, 74.4 and 290; a tile's outputs written behind the first wgmma of the next tile, 75 and 291; two
 * blocks of a cluster that bring each other half of the same tokens, 77 and 297; one more stage of weights, one less of
 * tokens, or the other way, the same.
 *
 * Tried for 8 to 32 rows (trial kernels with the same bits, H200, 4 bits g64, W [12288, 4096] unless said): mma.sync
 * with K split over clusters of C blocks, the columns of x that a block needs in its shared memory, sums of slices
 * added through the cluster's memory. Weights by bulk copies into a ring for each warp, 16 rows: C = 2 13.0 us, C =
 * 4 16.2 (C = 8, two blocks a multiprocessor, 20.7); 32 rows: 21.7; 8 rows: C = 1 10.9; 8 rows of [4096, 14336] with C
 * = 2: 14.5; 32 rows of [28672, 4096]: 41. Weights by 16-byte loads into registers: 16 rows 14.5, 32 rows 19.7, 8
 * rows 11.7. Of 66 clusters of 2 blocks all run at once, of 4 blocks 30, of 8 blocks 15. What the clusters lost:
 * reading all others' sums takes 4,500 cycles for 41 KB a block (9 bytes a cycle); one warp's bulk copy waits for the
 * copies of the others before it, so x that is asked for behind a ring of weights comes late, and warps that ask for
 * their own weights stand still.
 *
 * Tried before: one copy of weights for each row tile and k tile, nine copies a stage with the tokens, and tokens from
 * rows of x by cp.async of one warp without preparation: slower, but by an amount not known well. Ring addresses by
 * products of run-time strides and a wait for weights each k tile: 110 instructions a k tile and warp instead of 65. On
 * trial kernels (H200, W [12288, 4096] 4-bit): loads by the multiplying threads with a block barrier for each 64 of K,
 * 476 TFLOP/s; an arrive with release at cluster scope costs a MEMBAR.GPU a block and took 718 to 429. An `if` between
 * the two k tiles of the loop's body makes ptxas serialise all wgmma (C7513): hence the odd k tile after the loop.
 * Threads count as whole warpgroups for ptxas: one producer warp in a block costs registers for four, which setmaxnreg
 * gives back. */
#ifndef WR_CUDA_LINEAR_PREFILL_CUH
#define WR_CUDA_LINEAR_PREFILL_CUH

#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/linear.cuh"
#include "cuda/kernels/linear_prefill.h"

#if WR_HAS_WGMMA

/* ---- what all roles share ---- */

/* Blocks of the cluster count from 0; so do clusters. */
WR_DEVICE int rank_of(const wr_prefill_params &p) { return (int)blockIdx.x % p.cluster; }
WR_DEVICE int first_tile(const wr_prefill_params &p) { return (int)blockIdx.x / p.cluster; }
WR_DEVICE int tile_step(const wr_prefill_params &p) { return (int)gridDim.x / p.cluster; }

/* A tile of the output: `count` tokens from prepared token `first`; weight rows from row tile `row_tile` on. expert -1:
 * there is no such expert, and the tokens give NaN. */
typedef struct place {
    i64 first;
    int count, expert, row_tile;
    const i32 *order; /* rows of y; NULL: first, first + 1, .. */
} place;

template <int T> WR_DEVICE int token_tiles_of(const wr_prefill_params &p) {
    return p.jobs ? p.jobs->n : (int)((p.m + T - 1) / T);
}
template <int T> WR_DEVICE int count_tiles(const wr_prefill_params &p) {
    return token_tiles_of<T>(p) * ((p.n_row_tiles + 4 * p.halves - 1) / (4 * p.halves));
}
/* Token tiles change fastest, but only among WR_PREFILL_SUPER of them, so that their activations stay in L2 while all
 * weights pass once. */
template <int T> WR_DEVICE place place_of(const wr_prefill_params &p, int index) {
    const int token_tiles = token_tiles_of<T>(p);
    const int across = (p.n_row_tiles + 4 * p.halves - 1) / (4 * p.halves);
    const int super = index / (WR_PREFILL_SUPER * across) * WR_PREFILL_SUPER;
    const int wide = min(token_tiles - super, (int)WR_PREFILL_SUPER);
    const int inside = index - super * across, tile = super + inside % wide;
    place at;
    at.row_tile = inside / wide * 4 * p.halves;
    at.first = (i64)tile * T;
    if (p.jobs) {
        const wr_linear_job job = ((const wr_linear_job *)(p.jobs + 1))[tile];
        at.count = job.count;
        at.expert = job.expert;
        at.order = (const i32 *)((const wr_linear_job *)(p.jobs + 1) + p.max_jobs) + job.first;
    } else {
        at.count = (int)(p.m - at.first < T ? p.m - at.first : T);
        at.expert = 0;
        at.order = nullptr;
    }
    return at;
}

/* A position in a ring of stages, as running addresses: products by run-time strides would stand in the way of every k
 * tile. Each group has rings of its own, so that a group which has no slice in the last round cannot fall a lap behind
 * the barriers' parity. */
typedef struct ring {
    u32 bar, data; /* of the stage */
    int left;      /* stages from here to the end of the ring */
    int parity;
} ring;
WR_DEVICE void ring_step(ring *r, int stages, u32 stage_bytes) {
    r->bar += 16;
    r->data += stage_bytes;
    if (--r->left == 0) {
        r->left = stages;
        r->bar -= 16 * stages;
        r->data -= stages * stage_bytes;
        r->parity ^= 1;
    }
}
/* Barriers, each group's together: full and empty of each stage of tokens, then of each stage of weights; after all
 * groups those of the sums. */
enum { EMPTY = 8 };
template <int T> WR_DEVICE ring token_ring(const wr_prefill_params &p, u32 shared, int group) {
    ring r;
    r.bar = shared + p.at_bars + 16 * group * (p.stages + p.weight_stages);
    r.data = shared + group * p.stages * (WR_PREFILL_TOKEN_K_TILES(T) * T * 128);
    r.left = p.stages;
    r.parity = 0;
    return r;
}
WR_DEVICE u32 weight_stage_bytes(const wr_prefill_params &p) { return (u32)(4 * p.halves * p.chunk * p.tile_bytes); }
WR_DEVICE ring weight_ring(const wr_prefill_params &p, u32 shared, int group) {
    ring r;
    r.bar = shared + p.at_bars + 16 * (group * (p.stages + p.weight_stages) + p.stages);
    r.data = shared + p.at_weights + group * p.weight_stages * weight_stage_bytes(p);
    r.left = p.weight_stages;
    r.parity = 0;
    return r;
}

WR_DEVICE int slice_length(const wr_prefill_params &p, int slice) {
    return min(p.k_tiles - slice * p.slice_tiles, p.slice_tiles);
}

/* ---- warps that bring tiles ---- */

/* `chunk` k tiles of each row tile, which lie together. Of `sharers` warps this is number `share`. */
WR_DEVICE void bring_weights(const wr_prefill_params &p, const place &at, int k_tile, int chunk, const ring &r,
                             int share, int sharers) {
    const int lane = threadIdx.x % 32, all = min(p.n_row_tiles - at.row_tile, 4 * p.halves);
    const int tile = lane * sharers + share, mine = (all - share + sharers - 1) / sharers;
    const u32 bytes = (u32)(chunk * p.tile_bytes);
    if (lane == 0) wr_bar_expect(r.bar, (u32)mine * bytes);
    __syncwarp();
    if (lane < mine) {
        const u8 *w = (const u8 *)p.w + at.expert * p.expert_bytes +
                      ((i64)(at.row_tile + tile) * p.k_tiles + k_tile) * p.tile_bytes;
        wr_bulk_copy(r.data + tile * p.chunk * p.tile_bytes, w, bytes, r.bar);
    }
}
/* `n` k tiles of the tokens. */
template <int T>
WR_DEVICE void bring_tokens(const wr_prefill_params &p, const place &at, int k_tile, int n, const ring &r) {
    const int lane = threadIdx.x % 32;
    const u32 bytes = (u32)((at.count + 7) / 8 * 1024);
    if (lane == 0) wr_bar_expect(r.bar, n * bytes);
    __syncwarp();
    if (lane < n)
        wr_bulk_copy(r.data + lane * (T * 128), (const u8 *)p.x + ((i64)(k_tile + lane) * p.m_pad + at.first) * 128,
                     bytes, r.bar);
    __syncwarp();
}

/* sharers: warps that bring weights to this group, 0: not this warp. Weights are nobody's output, so their first stages
 * are filled while the kernel before still runs. */
template <int T>
WR_DEVICE void produce(const wr_prefill_params &p, u32 shared, int group, bool tokens, int share, int sharers) {
    const int per_stage = WR_PREFILL_TOKEN_K_TILES(T);
    ring x = token_ring<T>(p, shared, group), w = weight_ring(p, shared, group);
    const u32 weight_bytes = weight_stage_bytes(p);
    bool waited = p.jobs != nullptr;
    if (waited) wr_grid_wait();
    const int tiles = count_tiles<T>(p), first_slice = rank_of(p) * p.groups + group, step = p.groups * p.cluster;
    for (int index = first_tile(p); index < tiles; index += tile_step(p)) {
        const place at = place_of<T>(p, index);
        if (at.expert < 0) continue;
        for (int slice = first_slice; slice < p.slices; slice += step) {
            const int first = slice * p.slice_tiles, length = slice_length(p, slice);
            for (int begin = 0; begin < length; begin += p.chunk) {
                const int chunk = min(length - begin, p.chunk);
                if (sharers) {
                    wr_bar_wait(w.bar + EMPTY, w.parity ^ 1);
                    bring_weights(p, at, first + begin, chunk, w, share, sharers);
                    ring_step(&w, p.weight_stages, weight_bytes);
                }
                if (!tokens) continue;
                if (!waited) wr_grid_wait();
                waited = true;
#pragma unroll 1
                for (int i = 0; i < chunk; i += per_stage) {
                    wr_bar_wait(x.bar + EMPTY, x.parity ^ 1);
                    bring_tokens<T>(p, at, first + begin + i, min(chunk - i, per_stage), x);
                    ring_step(&x, p.stages, per_stage * T * 128);
                }
            }
        }
    }
}

/* ---- warpgroups that multiply ---- */

template <int T> WR_DEVICE void wgmma(float *acc, const u32 *a, u64 b, int add) {
    if constexpr (T == 16) wr_wgmma_rs_16(acc, a, b, add);
    if constexpr (T == 32) wr_wgmma_rs_32(acc, a, b, add);
    if constexpr (T == 64) wr_wgmma_rs_64(acc, a, b, add);
    if constexpr (T == 128) wr_wgmma_rs_128(acc, a, b, add);
}

/* What a multiplying warpgroup knows of itself. */
typedef struct me {
    u32 shared;
    const u8 *memory;
    int half, group, warp, lane, thread; /* warp, thread: in the warpgroup */
    int turn;                            /* group, counted over the cluster */
    u32 held;                            /* barrier of a stage of tokens whose wgmma may still run; 0: none */
    ring x, w;                           /* w.data: the warp's first tile in the stage */
} me;

/* k tile i of a stage of weights: expand them while the wgmma of the k tile before runs, then start this one's. Its
 * fragments stay in a, which therefore must not be the array of the k tile before. */
template <int KIND, int T>
WR_DEVICE void multiply_tile(const wr_prefill_params &p, me *self, float *acc, u32 *a, int i, bool last, int add) {
    const int in_stage = i % WR_PREFILL_TOKEN_K_TILES(T);
    u32 words[wr_tile<KIND>::words];
    if (wr_tile<KIND>::two_parts) wr_wgmma_wait<0>();
    wr_tile_load_shared<KIND>(words, self->memory + (self->w.data - self->shared) + i * wr_tile<KIND>::bytes,
                              self->lane);
#pragma unroll
    for (int j = 0; j < 4; j++)
        wr_tile_step<KIND>(words, j, a + 4 * j, a + (wr_tile<KIND>::two_parts ? 16 + 4 * j : 0));
    const u64 b = wr_wgmma_desc(self->x.data + in_stage * (T * 128), 16, 1024);
    if (in_stage == 0) wr_bar_wait(self->x.bar, self->x.parity);
    wr_wgmma_fence();
#pragma unroll
    for (int j = 0; j < 4; j++) {
        wgmma<T>(acc, a + 4 * j, b + 2 * j, j ? 1 : add);
        if constexpr (wr_tile<KIND>::two_parts) wgmma<T>(acc, a + 16 + 4 * j, b + 2 * j, 1);
    }
    wr_wgmma_commit();
    wr_wgmma_wait<1>();
    if (in_stage == 0 && self->held && self->lane == 0) wr_bar_arrive(self->held);
    if (last || in_stage == WR_PREFILL_TOKEN_K_TILES(T) - 1) {
        self->held = self->x.bar + EMPTY;
        ring_step(&self->x, p.stages, WR_PREFILL_TOKEN_K_TILES(T) * T * 128);
    }
}

/* One slice, a chain of its own from 0, by stages of weights. Two sets of fragments take turns. */
template <int KIND, int T> WR_DEVICE void multiply_slice(const wr_prefill_params &p, me *self, float *acc, int length) {
    const int chunk = WR_PREFILL_CHUNK_OF(wr_tile<KIND>::bytes);
    u32 even[wr_tile<KIND>::two_parts ? 32 : 16], second[16];
    u32 *odd = wr_tile<KIND>::two_parts ? even : second; /* high and low parts twice would not fit */
    int first = 0;
#pragma unroll 1
    for (; first + chunk <= length; first += chunk) {
        wr_bar_wait(self->w.bar, self->w.parity);
#pragma unroll
        for (int i = 0; i < chunk; i++)
            multiply_tile<KIND, T>(p, self, acc, i % 2 ? odd : even, i, i == chunk - 1, i ? 1 : first > 0);
        if (self->lane == 0) wr_bar_arrive(self->w.bar + EMPTY);
        ring_step(&self->w, p.weight_stages, weight_stage_bytes(p));
    }
    if (first < length) {
        wr_bar_wait(self->w.bar, self->w.parity);
#pragma unroll 1
        for (int i = 0; i < length - first; i++) {
            wr_wgmma_wait<0>(); /* so that the registers of the loop can be used again */
            multiply_tile<KIND, T>(p, self, acc, even, i, first + i == length - 1, first + i > 0);
        }
        if (self->lane == 0) wr_bar_arrive(self->w.bar + EMPTY);
        ring_step(&self->w, p.weight_stages, weight_stage_bytes(p));
    }
    wr_wgmma_wait<0>();
    if (self->lane == 0) wr_bar_arrive(self->held);
    self->held = 0;
}

/* A slice's sums from group g > 0 to group 0, fragment by fragment: thread i writes what thread i reads. The buffer and
 * the barrier that says it is full are group 0's block's, the one that says it is empty is the giver's. */
WR_DEVICE int sums_index(const wr_prefill_params &p, const me *self, int g) { return (g - 1) * p.halves + self->half; }
template <int T> WR_DEVICE float4 *sums_of(const wr_prefill_params &p, const me *self, int g) {
    return (float4 *)(self->memory + p.at_sums) + sums_index(p, self, g) * (T / 8 * 128) + self->thread;
}
WR_DEVICE u32 sums_bar(const wr_prefill_params &p, const me *self, int g) {
    return self->shared + p.at_bars + 16 * p.groups * (p.stages + p.weight_stages) + 16 * sums_index(p, self, g);
}
template <int T> WR_DEVICE void give_sums(const wr_prefill_params &p, const me *self, const float *acc, u32 *parities) {
    const int g = self->turn;
    float4 *to = sums_of<T>(p, self, g);
    const u32 bar = sums_bar(p, self, g);
    wr_bar_wait(bar + 8, (int)(*parities >> g & 1) ^ 1);
    if (g < p.groups) {
#pragma unroll
        for (int i = 0; i < T / 8; i++) {
            float4 v = {acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
            to[i * 128] = v;
        }
        wr_bar_arrive(bar);
    } else {
        const u32 there = wr_cluster_smem(wr_smem(to), 0), full = wr_cluster_smem(bar, 0);
#pragma unroll
        for (int i = 0; i < T / 8; i++) {
            float4 v = {acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
            wr_cluster_store16(there + i * 2048, v, full);
        }
    }
    *parities ^= 1u << g;
}
template <int T>
WR_DEVICE void take_sums(const wr_prefill_params &p, const me *self, float *total, int among, u32 *parities) {
#pragma unroll 1
    for (int g = 1; g < among; g++) {
        const float4 *from = sums_of<T>(p, self, g);
        const u32 bar = sums_bar(p, self, g);
        if (g >= p.groups && self->thread == 0) wr_bar_expect(bar, 64 * T * (u32)sizeof(float));
        wr_bar_wait(bar, (int)(*parities >> g & 1));
#pragma unroll
        for (int i = 0; i < T / 8; i++) {
            const float4 v = from[i * 128];
            total[4 * i] += v.x;
            total[4 * i + 1] += v.y;
            total[4 * i + 2] += v.z;
            total[4 * i + 3] += v.w;
        }
        if (g < p.groups)
            wr_bar_arrive(bar + 8);
        else
            wr_cluster_bar_arrive(wr_cluster_smem(bar + 8, (u32)(g / p.groups)));
        *parities ^= 1u << g;
    }
}

/* ---- epilogue ---- */

/* Four numbers at element `at` of y or addend; aligned to all four of them. */
WR_DEVICE float4 load4(const void *from, int dtype, i64 at) {
    if (dtype == WEIR_DTYPE_F32) return *(const float4 *)((const float *)from + at);
    const uint2 v = *(const uint2 *)((const u16 *)from + at);
    if (dtype == WEIR_DTYPE_BF16) return {wr_bf16_lo(v.x), wr_bf16_hi(v.x), wr_bf16_lo(v.y), wr_bf16_hi(v.y)};
    return {wr_f16_to_f32((u16)v.x), wr_f16_to_f32((u16)(v.x >> 16)), wr_f16_to_f32((u16)v.y),
            wr_f16_to_f32((u16)(v.y >> 16))};
}
WR_DEVICE void store4(void *to, int dtype, i64 at, float4 v) {
    if (dtype == WEIR_DTYPE_F32) {
        *(float4 *)((float *)to + at) = v;
        return;
    }
    const bool bf16 = dtype == WEIR_DTYPE_BF16;
    uint2 packed = {bf16 ? wr_pack_bf16(v.x, v.y) : wr_pack_f16(v.x, v.y),
                    bf16 ? wr_pack_bf16(v.z, v.w) : wr_pack_f16(v.z, v.w)};
    *(uint2 *)((u16 *)to + at) = packed;
}

/* Numbers of any dtype, and addends: the warpgroup's 64 rows by T tokens, turned through its own shared memory, so that
 * four of a token's rows go at once. */
template <int T>
WR_DEVICE void finish_any(const wr_prefill_params &p, const me *self, float *turn, const float *total,
                          const place &at) {
    const int CHUNK = T < WR_PREFILL_CHUNK ? T : WR_PREFILL_CHUNK;
    const bool vector = ((u64)p.y | (u64)p.addend) % 16 == 0 && p.n % 4 == 0;
    const int row = self->warp * 16 + self->lane / 4, token = self->lane % 4 * 2, piece = self->thread % 16 * 4;
    const i64 n = (i64)at.row_tile * 16 + self->half * 64 + piece;
#pragma unroll
    for (int chunk = 0; chunk < T / CHUNK; chunk++) {
        if (chunk * CHUNK < at.count) {
            wr_barrier(1 + self->half, 128);
#pragma unroll
            for (int z = 0; z < CHUNK / 8; z++) {
                const float *v = total + (chunk * (CHUNK / 8) + z) * 4;
                float *to = turn + (z * 8 + token) * WR_PREFILL_PITCH + row;
                to[0] = v[0];
                to[WR_PREFILL_PITCH] = v[1];
                to[8] = v[2];
                to[WR_PREFILL_PITCH + 8] = v[3];
            }
            wr_barrier(1 + self->half, 128);
#pragma unroll 1 /* the body is large, and ptxas slow */
            for (int i = self->thread / 16; i < CHUNK; i += 8) {
                const int t = chunk * CHUNK + i;
                if (t >= at.count || n >= p.n) continue;
                const i64 to = (at.order ? at.order[t] : at.first + t) * p.n + n;
                float4 v = *(const float4 *)(turn + i * WR_PREFILL_PITCH + piece);
                v.x = v.x * p.unscale * p.global_scale, v.y = v.y * p.unscale * p.global_scale;
                v.z = v.z * p.unscale * p.global_scale, v.w = v.w * p.unscale * p.global_scale;
                if (vector) { /* then n + 4 <= p.n */
                    if (p.addend) {
                        const float4 a = load4(p.addend, p.dtype, to);
                        v.x += a.x, v.y += a.y, v.z += a.z, v.w += a.w;
                    }
                    store4(p.y, p.dtype, to, v);
                    continue;
                }
                const float x[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (n + e < p.n)
                        wr_store_float(p.y, p.dtype, to + e,
                                       p.addend ? x[e] + wr_load_float(p.addend, p.dtype, to + e) : x[e]);
            }
        }
    }
}

/* bf16 without addend, where the 64 rows are all there: rounded, turned by stmatrix, and written by bulk copies, one a
 * token, that nobody waits for before the memory they read is needed again. */
template <int T>
WR_DEVICE void finish_bf16(const wr_prefill_params &p, const me *self, u8 *turn, const float *total, const place &at) {
    wr_bulk_store_wait_read();
    wr_barrier(1 + self->half, 128);
    const u32 to = wr_smem(turn) + (self->lane / 16 * 8 + self->lane % 8) * WR_PREFILL_TURN_PITCH +
                   (self->warp * 16 + self->lane / 8 % 2 * 8) * 2;
#pragma unroll
    for (int z = 0; z < T / 8; z += 2) {
        u32 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *x = total + 4 * z + 2 * i;
            v[i] = wr_pack_bf16(x[0] * p.unscale * p.global_scale, x[1] * p.unscale * p.global_scale);
        }
        wr_stmatrix4_trans(to + z * 8 * WR_PREFILL_TURN_PITCH, v);
    }
    wr_fence_async();
    wr_barrier(1 + self->half, 128);
    if (self->thread < at.count) {
        const i64 row = at.order ? at.order[self->thread] : at.first + self->thread;
        wr_bulk_store((u16 *)p.y + row * p.n + at.row_tile * 16 + self->half * 64,
                      wr_smem(turn) + self->thread * WR_PREFILL_TURN_PITCH, 128);
    }
    wr_bulk_store_commit();
}

template <int T>
WR_DEVICE void finish(const wr_prefill_params &p, const me *self, const float *total, const place &at) {
    u8 *turn = (u8 *)self->memory + p.at_turn + self->half * WR_PREFILL_TURN_BYTES(T);
    if constexpr (T >= 64) {
        const i64 end = (i64)at.row_tile * 16 + self->half * 64 + 64;
        if (p.dtype == WEIR_DTYPE_BF16 && !p.addend && (u64)p.y % 16 == 0 && p.n % 8 == 0 && end <= p.n) {
            finish_bf16<T>(p, self, turn, total, at);
            return;
        }
    }
    finish_any<T>(p, self, (float *)turn, total, at);
}

/* ---- one group of 128 tokens a tile, whole slices of 8 k tiles: the same, in a pipeline over all ends ---- */

/* k tile i of the stage of weights, to fragments. */
template <int KIND> WR_DEVICE void expand_tile(const me *self, u32 *a, int i) {
    u32 words[wr_tile<KIND>::words], none[4];
    wr_tile_load_shared<KIND>(words, self->memory + (self->w.data - self->shared) + i * wr_tile<KIND>::bytes,
                              self->lane);
#pragma unroll
    for (int j = 0; j < 4; j++) wr_tile_step<KIND>(words, j, a + 4 * j, none);
}
/* Starts a k tile; returns when the one before is done. */
template <int T> WR_DEVICE void start_tile(const wr_prefill_params &p, me *self, float *acc, const u32 *a, int add) {
    const u64 b = wr_wgmma_desc(self->x.data, 16, 1024);
    wr_bar_wait(self->x.bar, self->x.parity);
    wr_wgmma_fence();
#pragma unroll
    for (int j = 0; j < 4; j++) wgmma<T>(acc, a + 4 * j, b + 2 * j, j ? 1 : add);
    wr_wgmma_commit();
    wr_wgmma_wait<1>();
    if (self->held && self->lane == 0) wr_bar_arrive(self->held);
    self->held = self->x.bar + EMPTY;
    ring_step(&self->x, p.stages, T * 128);
}
/* The next k tile's weights, be it the next slice's or the next tile's, are expanded while this one's wgmma runs, so
 * that the tensor cores wait at the end of a slice for nothing but the sum. */
template <int KIND, int T> WR_DEVICE void consume_whole(const wr_prefill_params &p, me *self) {
    const int CHUNK = WR_PREFILL_CHUNK_OF(wr_tile<KIND>::bytes);
    float acc[T / 2], total[T / 2];
    u32 even[16], odd[16];
    wr_grid_wait();
    const int tiles = count_tiles<T>(p), step = tile_step(p);
    int index = first_tile(p);
    if (index >= tiles) return;
    wr_bar_wait(self->w.bar, self->w.parity);
    expand_tile<KIND>(self, even, 0);
    for (; index < tiles; index += step) {
        const place at = place_of<T>(p, index);
#pragma unroll
        for (int i = 0; i < T / 2; i++) total[i] = 0.f;
#pragma unroll 1
        for (int slice = 0; slice < p.slices; slice++) {
#pragma unroll 1
            for (int k = 0; k < 8; k += CHUNK) {
                const bool more = k + CHUNK < 8 || slice + 1 < p.slices || index + step < tiles;
#pragma unroll
                for (int i = 0; i < CHUNK; i++) {
                    start_tile<T>(p, self, acc, i % 2 ? odd : even, i ? 1 : k > 0);
                    if (i + 1 < CHUNK) expand_tile<KIND>(self, i % 2 ? even : odd, i + 1);
                    if (i + 2 == CHUNK) {
                        if (self->lane == 0) wr_bar_arrive(self->w.bar + EMPTY);
                        ring_step(&self->w, p.weight_stages, weight_stage_bytes(p));
                    }
                }
                if (more) wr_bar_wait(self->w.bar, self->w.parity);
                expand_tile<KIND>(self, even, 0); /* without more: numbers that nobody uses */
            }
            wr_wgmma_wait<0>();
            if (self->lane == 0) wr_bar_arrive(self->held);
            self->held = 0;
#pragma unroll
            for (int i = 0; i < T / 2; i++) total[i] += acc[i];
        }
        finish<T>(p, self, total, at);
    }
}

template <int KIND, int T> WR_DEVICE void consume(const wr_prefill_params &p, u32 shared, const u8 *memory) {
    const int warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / 32, 0), warpgroup = warp / 4;
    me self;
    self.shared = shared;
    self.memory = memory;
    self.half = warpgroup % p.halves;
    self.group = warpgroup / p.halves;
    self.turn = rank_of(p) * p.groups + self.group;
    self.warp = warp % 4;
    self.lane = (int)threadIdx.x % 32;
    self.thread = (int)threadIdx.x % 128;
    self.held = 0;
    self.x = token_ring<T>(p, shared, self.group);
    self.w = weight_ring(p, shared, self.group);
    self.w.data += (self.half * 4 + self.warp) * p.chunk * p.tile_bytes;
    if constexpr (T == 128 && !wr_tile<KIND>::two_parts)
        if (p.groups == 1 && p.cluster == 1 && !p.jobs && p.slice_tiles == 8 && p.k_tiles % 8 == 0) {
            consume_whole<KIND, T>(p, &self);
            return;
        }
    u32 parities = 0; /* of the exchange of sums with each group: the last round may lack some */
    float acc[T / 2], total[T / 2];
    wr_grid_wait();
    if (p.cluster > 1) wr_cluster_wait();
    const int tiles = count_tiles<T>(p), groups = p.groups * p.cluster;
    for (int index = first_tile(p); index < tiles; index += tile_step(p)) {
        const place at = place_of<T>(p, index);
        const bool known = at.expert >= 0;
        const int slices = known ? p.slices : 0;
        int owed = 0; /* slices of the last round that are not in total yet, with the own one */
#pragma unroll
        for (int i = 0; i < T / 2; i++) total[i] = known ? 0.f : wr_bits_f32(0x7FC00000u);
        for (int first = 0; first < slices; first += groups) {
            const int among = slices - first < groups ? slices - first : groups;
            if (self.turn < among) {
                multiply_slice<KIND, T>(p, &self, acc, slice_length(p, first + self.turn));
                if (self.turn > 0) {
                    give_sums<T>(p, &self, acc, &parities);
                } else {
                    /* The round before is added only now, so that nobody waits for the slower groups. */
                    if (owed) take_sums<T>(p, &self, total, owed, &parities);
#pragma unroll
                    for (int i = 0; i < T / 2; i++) total[i] += acc[i];
                    owed = groups > 1 ? among : 0;
                }
            }
        }
        if (self.turn == 0) {
            if (owed) take_sums<T>(p, &self, total, owed, &parities);
            finish<T>(p, &self, total, at);
        }
    }
}

/* Four warps bring tiles: with one group three of them bring weights, with two groups one for each, with more groups
 * the warp that brings tokens does that too. */
WR_DEVICE int weight_warps(int groups) { return groups == 1 ? 3 : 1; }

/* No block ends before all of its cluster are done with its memory. */
WR_DEVICE void leave(const wr_prefill_params &p) {
    if (p.cluster == 1) return;
    __syncwarp();
    wr_cluster_arrive();
    wr_cluster_wait();
}

template <int KIND, int T> WR_DEVICE void run(const wr_prefill_params &p, u8 *memory) {
    const u32 shared = wr_smem(memory);
    const int warpgroups = p.halves * p.groups;
    wr_grid_launch();
    if (threadIdx.x == 0) {
        const int of_group = p.stages + p.weight_stages;
#pragma unroll 1
        for (int i = 0; i < p.groups * of_group; i++) {
            wr_bar_init(shared + p.at_bars + 16 * i, i % of_group < p.stages ? 1 : weight_warps(p.groups));
            wr_bar_init(shared + p.at_bars + 16 * i + EMPTY, 4 * p.halves);
        }
#pragma unroll 1
        for (int i = 0; i < (p.groups * p.cluster - 1) * p.halves; i++) {
            const u32 bar = shared + p.at_bars + 16 * (p.groups * of_group + i);
            wr_bar_init(bar, i / p.halves + 1 < p.groups ? 128 : 1);
            wr_bar_init(bar + 8, 128);
        }
        wr_bar_init_done();
    }
    __syncthreads();
    if (p.cluster > 1) wr_cluster_arrive(); /* the others may store here */
    if ((int)threadIdx.x / 128 == warpgroups) {
        wr_registers_fewer<T == 128 ? 72 : T == 64 ? 80 : 64>();
        const int warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x % 128 / 32, 0);
        const bool apart = p.groups <= 2;
        const int group = apart ? (p.groups == 1 ? 0 : warp % 2) : warp;
        const bool tokens = !apart || warp < p.groups, weights = !apart || warp >= p.groups;
        if (group < p.groups)
            produce<T>(p, shared, group, tokens, p.groups == 1 ? warp - 1 : 0, weights ? weight_warps(p.groups) : 0);
        if (p.cluster > 1) wr_cluster_wait();
        leave(p);
    } else {
        wr_registers_more<T == 128 ? 216 : T == 64 ? 144 : 104>();
        consume<KIND, T>(p, shared, memory);
        wr_bulk_store_wait_read(); /* of memory that is the next block's once this one ends */
        leave(p);
    }
}

#define WR_PREFILL(name, tokens, threads)                                                                              \
    WR_KERNEL(wr_linear_prefill_##name##_##tokens, wr_prefill_params, threads, 1) {                                    \
        WR_DYNAMIC_SHARED(memory);                                                                                     \
        run<WR_KIND_##name, tokens>(p, memory);                                                                        \
    }
#define WR_PREFILL_16(name)  WR_PREFILL(name, 16, 640)
#define WR_PREFILL_32(name)  WR_PREFILL(name, 32, 640)
#define WR_PREFILL_64(name)  WR_PREFILL(name, 64, 512)
#define WR_PREFILL_128(name) WR_PREFILL(name, 128, 384)

#endif /* WR_HAS_WGMMA */
#endif
