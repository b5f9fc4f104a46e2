/* Paged attention for few query rows a sequence: decode and verify; without a prefill kernel also prefill.
 *
 * Contract: attention.cuh fixes the bits. Layouts and the schedule's items: attention.h; pages: array/kv.h.
 *   wr_attn_schedule_kernel  one block, once a step: runs of rows, their tiles, the list of items. Since lengths are
 *                            data, grids depend only on what there may be.
 *   wr_attn_decode_*         blocks take pieces (an item for one KV head) until there are none. Two warps of a block
 * bring what the other four work on: one the next piece and its queries, rotated, one block after block of keys and
 * values into a ring of slots, across the ends of pieces, so that memory is never idle for want of a request. Scores: a
 * warp takes a quarter of the block's keys. Weights and maxima go through shared memory, then a warp takes a part of
 * the output's columns, so the chain over keys is never split. A tile whose work is small beside a block's fair share
 * is one item: its spans are merged in registers. Other tiles are cut at span boundaries; each span's (o, m, l) goes to
 * scratch, and the block that finishes the last item of a tile merges them, or, when there is much to merge,
 *   wr_attn_merge_kernel     does, on many multiprocessors. Every way has the same bits.
 *
 * Bytes: 2 * keys * G * (D + E) for each tile of query rows. Operations: 2 * rows * keys * (D + E).
 *
 * Measured on 30 November 2026, H200, bf16, keys beyond L2, us a call with its merge (batch x keys, tokens a sequence):
 *   8 KV heads, group 4, head 128:  1 x 512     7.1    1 x 4,096  12.5    1 x 32,768  47.1    4 tokens 54.9, 8: 66.6
 *                                   8 x 8,192  95.0    64 x 2,048 151.6 = 3.54 TB/s
 *   2 KV heads, group 8, head 256:  1 x 4,096  17.0    1 x 32,768  38.8
 *   3 KV heads, group 3, head 64:   1 x 8,192  11.6
 * One block a multiprocessor with six slots: 47.0 at 1 x 32,768, 148.4 at 64 x 2,048, and fewer tokens a second of a
 * model at batch 32 and 128. A profile of it: an instruction every 7.3 cycles a scheduler, 566 of them a block of keys;
 * 42 % of waiting is for loads from global memory. A trial with contiguous pages and uniform spans reached 41.4 us at
 * 1 x 32,768, 45.4 with eight tokens.
 *
 * Dropped: items cut evenly instead of at spans (bits would depend on the batch); one span length for all positions
 * (512 costs 13 % at 32k, 1,024 costs 40 % at 4k); pages [page][G][D], whose rows every thread copied by cp.async, with
 * queries, keys and values of a piece fetched once the one before was over (54.8 us at 1 x 32,768, 7.6 us at 64 keys,
 * 29 us at 128 x 64 keys in a model); all tiles merged by a kernel of its own (1.5 us a layer). */
#ifndef WR_CUDA_ATTENTION_DECODE_CUH
#define WR_CUDA_ATTENTION_DECODE_CUH

#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/pages.cuh"

enum { THREADS = 128, ALL_THREADS = WR_ATTN_DECODE_THREADS }; /* that compute; of a block */

WR_DEVICE int item_row(const wr_attn_params *p, const wr_attn_item *item, int r) {
    return item->row + (int)((u32)(item->first + r) / (u32)p->group);
}
WR_DEVICE int item_head(const wr_attn_params *p, const wr_attn_item *item, int head, int r) {
    return head * p->group + (int)((u32)(item->first + r) % (u32)p->group);
}
WR_DEVICE i64 item_pos(const wr_attn_params *p, const wr_attn_item *item, int r) {
    return (i64)item->pos + (u32)(item->first + r) / (u32)p->group;
}

/* One row of the result, columns d and d + 1. */
WR_DEVICE void store_pair(const wr_attn_params *p, i64 at, float lo, float hi) {
    if (p->out_type == WR_ATTN_BF16 && ((u64)p->out & 3) == 0) {
        *(u32 *)((u16 *)p->out + at) = wr_pack_bf16(lo, hi);
        return;
    }
    wr_attn_store(p->out, at, p->out_type, lo);
    wr_attn_store(p->out, at + 1, p->out_type, hi);
}

/* ---- merging ---- */

enum { AHEAD = 16 };

/* Of one query row: the factors of spans chunk .. chunk + 31, {a, b, l of the span, unused}, by one warp. A maximum
 * does not depend on the order it is taken in, so that lanes find in five steps what a walk over the spans would. top:
 * the row's maximum so far. */
WR_DEVICE void find_factors(const float *part, i64 stride, int n_spans, int chunk, float c, float *top,
                            uint4 *factors) {
    int lane = (int)threadIdx.x % 32;
    float m = WR_ATTN_NONE, l = 0.0f, before = chunk > 0 ? *top : WR_ATTN_NONE;
    if (chunk + lane < n_spans) {
        uint4 ml = wr_load16_l2(part + (chunk + lane) * stride);
        m = wr_bits_f32(ml.x);
        l = wr_bits_f32(ml.y);
    }
    float to = fmaxf(before, m);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        float left = __shfl_up_sync(0xFFFFFFFFu, to, (u32)step);
        if (lane >= step) to = fmaxf(to, left);
    }
    float from = __shfl_up_sync(0xFFFFFFFFu, to, 1);
    if (lane == 0) from = before;
    uint4 out = {wr_f32_bits(wr_attn_decay(from, to, c)), wr_f32_bits(wr_attn_decay(m, to, c)), wr_f32_bits(l), 0};
    factors[lane] = out;
    if (lane == 31) *top = to;
}

/* Merges the parts of a tile for one KV head: unit u is four columns of a query row, units begin .. end - 1, a thread
 * each. AHEAD spans are in flight at a time. memory:
 * WR_ATTN_MERGE_BYTES. */
WR_DEVICE void merge_parts(const wr_attn_params *p, const wr_attn_item *item, int head, int begin, int end,
                           u8 *memory) {
    const int width = p->value_dim, fours = width / 4, n_spans = item->tile_spans, warp = (int)threadIdx.x / 32;
    const float c = p->log2_factor;
    const i64 part_size = width + WR_ATTN_PART_EXTRA, stride = (i64)p->kv_heads * item->n_rows * part_size;
    const float *parts = p->partial + ((i64)item->partial + (i64)head * item->n_rows) * part_size;
    float *tops = (float *)memory;
    uint4 *factors = (uint4 *)(memory + 64); /* [rows][32] */
#pragma unroll 1
    for (int base = begin; base < end; base += THREADS) {
        const int unit = base + (int)threadIdx.x, last = (base + THREADS < end ? base + THREADS : end) - 1;
        const int row0 = base / fours, n_rows = last / fours - row0 + 1;
        const bool active = unit < end;
        const int r = (active ? unit : base) / fours, column = (active ? unit : base) % fours * 4;
        const float *mine = parts + r * part_size + column;
        float l = 0.0f, o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
        for (int chunk = 0; chunk < n_spans; chunk += AHEAD) {
            uint4 x[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (chunk + i < n_spans) x[i] = wr_load16_l2(mine + (chunk + i) * stride);
            if (chunk % 32 == 0) {
                wr_barrier(1, THREADS); /* nobody reads the last factors any more */
                for (int row = warp; row < n_rows; row += THREADS / 32)
                    find_factors(parts + (row0 + row) * part_size + width, stride, n_spans, chunk, c, tops + row,
                                 factors + row * 32);
                wr_barrier(1, THREADS);
            }
            const uint4 *f = factors + (r - row0) * 32 + chunk % 32;
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                if (chunk + i >= n_spans) break;
                uint4 abl = f[i];
                float a = wr_bits_f32(abl.x), b = wr_bits_f32(abl.y);
                l = wr_attn_fold(l, a, wr_bits_f32(abl.z), b);
                o[0] = wr_attn_fold(o[0], a, wr_bits_f32(x[i].x), b);
                o[1] = wr_attn_fold(o[1], a, wr_bits_f32(x[i].y), b);
                o[2] = wr_attn_fold(o[2], a, wr_bits_f32(x[i].z), b);
                o[3] = wr_attn_fold(o[3], a, wr_bits_f32(x[i].w), b);
            }
        }
        if (active) {
            int q_head = item_head(p, item, head, r);
            float factor = p->sinks ? wr_attn_sink(tops[r - row0], &l, p->sinks[q_head], c) : 1.0f,
                  inverse = wr_attn_inverse(l);
            i64 at = ((i64)item_row(p, item, r) * p->n_heads + q_head) * width + column;
            store_pair(p, at, o[0] * factor * inverse, o[1] * factor * inverse);
            store_pair(p, at + 2, o[2] * factor * inverse, o[3] * factor * inverse);
        }
    }
}

/* ---- a block's shared memory ---- */

/* What the warps that compute are told: item and KV head, or that there is no more. */
typedef struct decode_job {
    wr_attn_item item;
    int head, over;
} decode_job;

template <int D, int E, int MT> struct decode_memory {
    static constexpr int BK = WR_ATTN_BLOCK(D), SLOT = WR_ATTN_SLOT(D, E), Q_BYTES = WR_ATTN_Q_BYTES(D, MT),
                         BUFFERS = WR_ATTN_Q_BUFFERS(D);
    static_assert(sizeof(decode_job) <= 128, "space for a job");
    u8 *slots, *queries, *work, *jobs;
    u32 bars;
    WR_DEVICE_MEMBER decode_memory(u8 *memory, int stages) {
        slots = memory;
        queries = slots + stages * SLOT;
        work = queries + BUFFERS * Q_BYTES;
        jobs = work + WR_ATTN_MOST(WR_ATTN_WORK_BYTES(D, MT), WR_ATTN_MERGE_BYTES);
        bars = wr_smem(jobs + WR_ATTN_JOBS_BYTES);
    }
    /* Of slots: filled, and free again. */
    WR_DEVICE_MEMBER u32 full(int slot) const { return bars + slot * 8; }
    WR_DEVICE_MEMBER u32 empty(int slot) const { return bars + 128 + slot * 8; }
    /* Of jobs: the item is there, its queries too, both are free again. */
    WR_DEVICE_MEMBER u32 job_known(int buffer) const { return bars + 96 + buffer * 8; }
    WR_DEVICE_MEMBER u32 job_full(int buffer) const { return bars + 112 + buffer * 8; }
    WR_DEVICE_MEMBER u32 job_empty(int buffer) const { return bars + 224 + buffer * 8; }
    WR_DEVICE_MEMBER decode_job *job(int buffer) const { return (decode_job *)(jobs + buffer * 128); }
    WR_DEVICE_MEMBER u32 *message() const { return (u32 *)(jobs + 256); }
    WR_DEVICE_MEMBER u8 *slot(int slot) const { return slots + slot * SLOT; }
    /* What is there of a slot's block (wr_copy_block). */
    WR_DEVICE_MEMBER volatile u32 *rows(int slot) const {
        return (volatile u32 *)(jobs + WR_ATTN_JOBS_BYTES + 256) + slot;
    }
};

/* A place in the ring and how often it was passed. */
typedef struct decode_ring {
    int slot, parity;
} decode_ring;
WR_DEVICE void step_ring(decode_ring *ring, int stages) {
    if (++ring->slot == stages) ring->slot = 0, ring->parity ^= 1;
}

/* ---- the warps that bring ---- */

/* The query rows of the item in the type of the keys, rotated: rows of D + 8 elements at `to`; what lies behind the
 * last row takes part in nothing that counts. */
template <int D, int KV>
WR_DEVICE void load_queries(const wr_attn_params *p, const wr_attn_item *item, int head, u8 *to) {
    constexpr int PIECES = D / 8;
    const wr_rope_use rope = {p->rope, p->rope ? p->half : 0, p->interleaved};
    const int n = item->n_rows * PIECES, dtype = wr_attn_dtype(p->q_type);
#pragma unroll 2
    for (int e = (int)threadIdx.x % 32; e < n; e += 32) {
        const int r = e / PIECES, d = e % PIECES * 8, row = item_row(p, item, r);
        const i64 from = row * p->q_row + item_head(p, item, head, r) * p->q_head;
        float v[8];
        wr_eight_rotated(v, p->q, dtype, from, d, row, rope);
        const uint4 packed = {wr_attn_pack<KV>(v[0], v[1]), wr_attn_pack<KV>(v[2], v[3]), wr_attn_pack<KV>(v[4], v[5]),
                              wr_attn_pack<KV>(v[6], v[7])};
        *(uint4 *)(to + r * (D * 2 + 16) + d * 2) = packed;
    }
}

/* The piece after this one; pieces are dealt out by a counter when there are more than blocks. The first row of blocks
 * takes pieces from the left, the second from the right, and so on, so that a multiprocessor with a long one gets a
 * short one too. */
WR_DEVICE u32 first_piece(int n_rows_of_blocks) {
    if (gridDim.x % (u32)n_rows_of_blocks != 0) return blockIdx.x;
    u32 width = gridDim.x / (u32)n_rows_of_blocks, row = blockIdx.x / width, column = blockIdx.x % width;
    return row * width + ((row & 1) ? width - 1 - column : column);
}

/* Pieces, one after the other, with their queries. What comes after the next piece is asked for before it is needed. */
template <int D, int E, int KV, int MT, int PER_SM>
WR_DEVICE void lead(const wr_attn_params *p, const decode_memory<D, E, MT> &m) {
    constexpr int BUFFERS = WR_ATTN_Q_BUFFERS(D);
    const int lane = (int)threadIdx.x % 32;
    const u32 heads = (u32)p->kv_heads;
    u32 piece = first_piece(PER_SM), word = 0, next = 0xFFFFFFFFu;
    /* The item is read beside the count: it may be none, but its place is there. */
    if (piece < p->max_pieces && lane < WR_ATTN_ITEM_WORDS) word = ((const u32 *)(p->items + piece / heads))[lane];
    const u32 n_pieces = p->schedule->n_items * heads;
    const bool dealt = n_pieces > gridDim.x;
    if (dealt && lane == 0) next = gridDim.x + atomicAdd(&p->schedule->next, 1u);
    for (u32 n = 0;; n++) {
        const int buffer = (int)(n % BUFFERS);
        const bool over = piece >= n_pieces;
        decode_job *job = m.job(buffer);
        wr_bar_wait(m.job_empty(buffer), (int)(n / BUFFERS & 1) ^ 1);
        if (lane < WR_ATTN_ITEM_WORDS) ((u32 *)&job->item)[lane] = word;
        const int head = (int)(piece % heads);
        if (lane == 31) job->head = head, job->over = over;
        __syncwarp();
        if (lane == 0) wr_bar_arrive(m.job_known(buffer));
        if (over) {
            if (lane == 0) wr_bar_arrive(m.job_full(buffer));
            break;
        }
        piece = __shfl_sync(0xFFFFFFFFu, next, 0);
        if (piece < n_pieces && lane < WR_ATTN_ITEM_WORDS) word = ((const u32 *)(p->items + piece / heads))[lane];
        if (dealt && lane == 0) next = gridDim.x + atomicAdd(&p->schedule->next, 1u);
        load_queries<D, KV>(p, &job->item, head, m.queries + buffer * WR_ATTN_Q_BYTES(D, MT));
        __syncwarp();
        if (lane == 0) wr_bar_arrive(m.job_full(buffer));
    }
    if (dealt && lane == 0 && wr_arrive_global(&p->schedule->done) == gridDim.x - 1)
        p->schedule->next = p->schedule->done = 0;
}

/* The pieces' keys and values, block after block. */
template <int D, int E, int KV, int MT> WR_DEVICE void feed(const wr_attn_params *p, const decode_memory<D, E, MT> &m) {
    constexpr int BK = WR_ATTN_BLOCK(D), PAGES = BK / WR_KV_TILE, BUFFERS = WR_ATTN_Q_BUFFERS(D);
    decode_ring ring = {0, 1};
    for (u32 n = 0;; n++) {
        const int buffer = (int)(n % BUFFERS);
        wr_bar_wait(m.job_known(buffer), (int)(n / BUFFERS & 1));
        const decode_job *job = m.job(buffer);
        if (job->over) return;
        const wr_attn_item *item = &job->item;
        const int begin = item->block, last = item->last, seq = item->seq, from = item->from, to = item->to + 1;
        const int head = job->head;
        __syncwarp();
        if (threadIdx.x % 32 == 0) wr_bar_arrive(m.job_empty(buffer));
        i32 pages = begin <= last ? wr_attn_pages_from(p, seq, (i64)begin * PAGES) : -1;
        for (int block = begin; block <= last; block++) {
            const int at = (block - begin) * PAGES, low = from - block * BK, high = to - block * BK;
            if (at > 0 && at % 32 == 0) pages = wr_attn_pages_from(p, seq, (i64)block * PAGES);
            i32 page[PAGES];
#pragma unroll
            for (int i = 0; i < PAGES; i++) page[i] = __shfl_sync(0xFFFFFFFFu, pages, at % 32 + i);
            wr_bar_wait(m.empty(ring.slot), ring.parity);
            wr_copy_block<BK, WR_ATTN_PANELS(D), 0>(p->k, page, head, p->kv_heads, low, high, m.slot(ring.slot),
                                                    m.rows(ring.slot), m.full(ring.slot));
            step_ring(&ring, p->stages);
            wr_bar_wait(m.empty(ring.slot), ring.parity);
            wr_copy_block<BK, WR_ATTN_PANELS(E), 16>(p->v, page, head, p->kv_heads, low, high, m.slot(ring.slot),
                                                     m.rows(ring.slot), m.full(ring.slot));
            step_ring(&ring, p->stages);
        }
    }
}

/* ---- the warps that compute ---- */

/* A tile all of whose items are done: whose parts it has finished merges them. */
WR_DEVICE void finish_tile(const wr_attn_params *p, const wr_attn_item *item, int head, u32 *message, u8 *memory) {
    u32 *counter = p->arrived + (i64)item->counter * p->kv_heads + head;
    wr_barrier(1, THREADS); /* all parts of this block are written */
    if (threadIdx.x == 0) *message = wr_arrive_global(counter);
    wr_barrier(1, THREADS);
    if (*message + 1 != (u32)item->tile_items) return;
    if (threadIdx.x == 0) *counter = 0;
    merge_parts(p, item, head, 0, item->n_rows * p->value_dim / 4, memory);
    wr_barrier(1, THREADS); /* the memory is free */
}

/* o += w v of 16 keys, step k of the block. */
template <int E, int KV, int MT, int BK>
WR_DEVICE void values_step(float (*o)[(E / 16 + 3) / 4 * 2][4], int k, u32 weight_at, u32 values_at, int warp,
                           int lane) {
    constexpr int PAIRS = (E / 16 + 3) / 4, P_ROW = BK * 2 + 16, PANEL = BK * WR_PANEL_ROW;
    u32 pf[MT][4];
#pragma unroll
    for (int x = 0; x < MT; x++) wr_ldmatrix4(pf[x], weight_at + (u32)(x * 16 * P_ROW + k * 32));
#pragma unroll
    for (int n = 0; n < PAIRS; n++) {
        const int column = warp * PAIRS + n; /* of 16 */
        if (E / 16 % 4 != 0 && column >= E / 16) break;
        u32 vf[4];
        wr_ldmatrix4_trans(vf, values_at + (u32)(column / 4 * PANEL + k * 16 * WR_PANEL_ROW +
                                                 ((column % 4 * 2 + lane / 16) ^ (lane % 8)) * 16));
#pragma unroll
        for (int x = 0; x < MT; x++) {
            wr_attn_mma<KV>(o[x][2 * n], pf[x], vf[0], vf[1]);
            wr_attn_mma<KV>(o[x][2 * n + 1], pf[x], vf[2], vf[3]);
        }
    }
}

template <int D, int E, int KV, int MT>
WR_DEVICE void compute(const wr_attn_params *p, const decode_memory<D, E, MT> &m) {
    constexpr int BK = WR_ATTN_BLOCK(D), KEY_TILES = BK / 32, PAIRS = (E / 16 + 3) / 4, BUFFERS = WR_ATTN_Q_BUFFERS(D);
    constexpr int P_ROW = BK * 2 + 16, ROWS = MT * 16, Q_ROW = D * 2 + 16, PART = E + WR_ATTN_PART_EXTRA;
    constexpr int PANEL = BK * WR_PANEL_ROW;
    u8 *weights = m.work;
    float *maxima = (float *)(weights + ROWS * P_ROW), *sums = maxima + 4 * ROWS; /* [4][ROWS] each */
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const float c = p->log2_factor;
    decode_ring ring = {0, 0};
    for (u32 number = 0;; number++) {
        const int buffer = (int)(number % BUFFERS);
        wr_bar_wait(m.job_full(buffer), (int)(number / BUFFERS & 1));
        const decode_job *job = m.job(buffer);
        if (job->over) return;
        const wr_attn_item *item = &job->item;
        const int head = job->head, last = item->last, n_rows = item->n_rows;
        const u32 query_at =
            wr_smem(m.queries + buffer * WR_ATTN_Q_BYTES(D, MT)) + (u32)(lane % 16 * Q_ROW + lane / 16 * 16);
        int row_from[MT][2], row_to[MT][2]; /* keys that this thread's rows see */
#pragma unroll
        for (int x = 0; x < MT; x++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                i64 pos = item_pos(p, item, x * 16 + g + 8 * h);
                row_from[x][h] = (int)wr_attn_first_key(pos, p->window);
                row_to[x][h] = (int)wr_attn_last_key(pos, p->max_pages * WR_KV_TILE);
            }
        float o[MT][PAIRS * 2][4], mx[MT][2], l[MT][2];      /* this span */
        float total[MT][PAIRS * 2][4], tm[MT][2], tl[MT][2]; /* spans before, when the tile is one item */
#pragma unroll
        for (int x = 0; x < MT; x++) {
            mx[x][0] = mx[x][1] = tm[x][0] = tm[x][1] = WR_ATTN_NONE;
            l[x][0] = l[x][1] = tl[x][0] = tl[x][1] = 0.0f;
#pragma unroll
            for (int n = 0; n < PAIRS * 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) o[x][n][i] = total[x][n][i] = 0.0f;
        }
        int span = item->span;
        for (int block = item->block; block <= last; block++) {
            wr_bar_wait(m.full(ring.slot), ring.parity);
            const u32 gone = wr_block_gone(*m.rows(ring.slot));
            const bool masked = gone || block * BK < item->all_from || block * BK + BK - 1 > item->all_to;
            float s[MT][KEY_TILES][4];
#pragma unroll
            for (int x = 0; x < MT; x++)
#pragma unroll
                for (int n = 0; n < KEY_TILES; n++) s[x][n][0] = s[x][n][1] = s[x][n][2] = s[x][n][3] = 0.0f;
            /* Lane's row of K for ldmatrix, and which of two pieces of 16 bytes it takes. */
            const int key = warp * (BK / 4) + (lane >> 4) * 8 + lane % 8;
            const u32 keys_at = wr_smem(m.slot(ring.slot)) + (u32)key * WR_PANEL_ROW;
#pragma unroll
            for (int k = 0; k < D / 16; k++) {
                u32 q[MT][4];
#pragma unroll
                for (int x = 0; x < MT; x++) wr_ldmatrix4(q[x], query_at + (u32)(x * 16 * Q_ROW + k * 32));
                const u32 piece = (u32)(((k % 4 * 2 + ((lane >> 3) & 1)) ^ (lane % 8)) * 16 + k / 4 * PANEL);
#pragma unroll
                for (int n = 0; n < KEY_TILES; n += 2) {
                    u32 kf[4];
                    wr_ldmatrix4(kf, keys_at + piece + (u32)(n * 8 * WR_PANEL_ROW));
#pragma unroll
                    for (int x = 0; x < MT; x++) {
                        wr_attn_mma<KV>(s[x][n], q[x], kf[0], kf[1]);
                        wr_attn_mma<KV>(s[x][n + 1], q[x], kf[2], kf[3]);
                    }
                }
            }
            __syncwarp();
            if (lane == 0) wr_bar_arrive(m.empty(ring.slot));
            step_ring(&ring, p->stages);
#pragma unroll
            for (int x = 0; x < MT; x++) {
                if (p->softcap > 0.0f)
#pragma unroll
                    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
                        for (int i = 0; i < 4; i++)
                            s[x][n][i] = wr_attn_score(s[x][n][i], p->softcap, p->softcap_scale);
                if (masked) {
                    const int key0 = block * BK + warp * (BK / 4) + 2 * t;
                    const bool hole = gone & (BK > WR_KV_TILE && warp >= 2 ? 2u : 1u);
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        int from = row_from[x][h] - key0, to = row_to[x][h] - key0;
#pragma unroll
                        for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
                            for (int i = 0; i < 2; i++)
                                if (hole || n * 8 + i < from || n * 8 + i > to) s[x][n][2 * h + i] = WR_ATTN_NONE;
                    }
                }
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float best = WR_ATTN_NONE;
#pragma unroll
                    for (int n = 0; n < KEY_TILES; n++) best = fmaxf(best, fmaxf(s[x][n][2 * h], s[x][n][2 * h + 1]));
                    best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 1));
                    best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 2));
                    if (t == 0) maxima[warp * ROWS + x * 16 + g + 8 * h] = best;
                }
            }
            wr_barrier(1, THREADS); /* maxima are there; the last block's weights and sums were read */

            float decay[MT][2];
#pragma unroll
            for (int x = 0; x < MT; x++) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int r = x * 16 + g + 8 * h;
                    float to = mx[x][h], sum = 0.0f;
#pragma unroll
                    for (int w = 0; w < 4; w++) to = fmaxf(to, maxima[w * ROWS + r]);
                    decay[x][h] = wr_attn_decay(mx[x][h], to, c);
                    mx[x][h] = to;
                    float offset = wr_attn_offset(to, c);
#pragma unroll
                    for (int n = 0; n < KEY_TILES; n++) {
                        float lo = wr_attn_weight(s[x][n][2 * h], offset, c),
                              hi = wr_attn_weight(s[x][n][2 * h + 1], offset, c);
                        sum += lo;
                        sum += hi;
                        *(u32 *)(weights + r * P_ROW + (warp * (BK / 4) + n * 8 + 2 * t) * 2) =
                            wr_attn_pack<KV>(lo, hi);
                    }
                    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
                    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
                    if (t == 0) sums[warp * ROWS + r] = sum;
                }
            }
            wr_bar_wait(m.full(ring.slot), ring.parity);
            wr_barrier(1, THREADS); /* weights and sums are there; maxima were read */
#pragma unroll
            for (int x = 0; x < MT; x++) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float *sum = sums + x * 16 + g + 8 * h;
                    l[x][h] = fmaf(l[x][h], decay[x][h], ((sum[0] + sum[ROWS]) + sum[2 * ROWS]) + sum[3 * ROWS]);
#pragma unroll
                    for (int n = 0; n < PAIRS * 2; n++) {
                        o[x][n][2 * h] *= decay[x][h];
                        o[x][n][2 * h + 1] *= decay[x][h];
                    }
                }
            }
            /* Keys that are not there weigh nothing: their steps are left out. */
            const u32 there = *m.rows(ring.slot);
            const int first_step = wr_block_begin(there) / 16, end_step = (wr_block_end(there) + 15) / 16;
            const u32 values_at = wr_smem(m.slot(ring.slot)) + (u32)(lane % 16 * WR_PANEL_ROW);
            const u32 weight_at = wr_smem(weights) + (u32)(lane % 16 * P_ROW + (lane / 16) * 16);
            if (first_step == 0 && end_step == BK / 16) {
#pragma unroll
                for (int k = 0; k < BK / 16; k++) values_step<E, KV, MT, BK>(o, k, weight_at, values_at, warp, lane);
            } else {
#pragma unroll 1
                for (int k = first_step; k < end_step; k++)
                    values_step<E, KV, MT, BK>(o, k, weight_at, values_at, warp, lane);
            }
            __syncwarp();
            if (lane == 0) wr_bar_arrive(m.empty(ring.slot));
            step_ring(&ring, p->stages);

            if (block < last && block + 1 < wr_attn_span_begin(span + 1)) continue;
                /* The span is over. */
#pragma unroll
            for (int x = 0; x < MT; x++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int r = x * 16 + g + 8 * h;
                    if (item->tile_spans > 0 && r < n_rows) {
                        i64 at = item->partial + ((i64)(span - item->tile_span) * p->kv_heads + head) * n_rows + r;
#pragma unroll
                        for (int n = 0; n < PAIRS * 2; n++) {
                            if (E / 16 % 4 != 0 && warp * PAIRS + n / 2 >= E / 16) break;
                            uint2 two = {wr_f32_bits(o[x][n][2 * h]), wr_f32_bits(o[x][n][2 * h + 1])};
                            *(uint2 *)(p->partial + at * PART + warp * PAIRS * 16 + n * 8 + 2 * t) = two;
                        }
                        if (warp == 0 && t == 0) {
                            uint4 extra = {wr_f32_bits(mx[x][h]), wr_f32_bits(l[x][h]), 0, 0};
                            *(uint4 *)(p->partial + at * PART + E) = extra;
                        }
                    }
                    if (item->tile_spans == 0) {
                        float a, b;
                        wr_attn_merge(&tm[x][h], mx[x][h], c, &a, &b);
                        tl[x][h] = wr_attn_fold(tl[x][h], a, l[x][h], b);
#pragma unroll
                        for (int n = 0; n < PAIRS * 2; n++)
#pragma unroll
                            for (int i = 2 * h; i < 2 * h + 2; i++)
                                total[x][n][i] = wr_attn_fold(total[x][n][i], a, o[x][n][i], b);
                    }
                    mx[x][h] = WR_ATTN_NONE;
                    l[x][h] = 0.0f;
#pragma unroll
                    for (int n = 0; n < PAIRS * 2; n++) o[x][n][2 * h] = o[x][n][2 * h + 1] = 0.0f;
                }
            span++;
        }

        if (item->tile_spans == 0) {
#pragma unroll
            for (int x = 0; x < MT; x++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int r = x * 16 + g + 8 * h;
                    if (r >= n_rows) continue;
                    int q_head = item_head(p, item, head, r);
                    float factor = 1.0f;
                    if (p->sinks && item->seq >= 0) factor = wr_attn_sink(tm[x][h], &tl[x][h], p->sinks[q_head], c);
                    float inverse = wr_attn_inverse(tl[x][h]);
                    i64 at = ((i64)item_row(p, item, r) * p->n_heads + q_head) * E + warp * PAIRS * 16 + 2 * t;
#pragma unroll
                    for (int n = 0; n < PAIRS * 2; n++) {
                        if (E / 16 % 4 != 0 && warp * PAIRS + n / 2 >= E / 16) break;
                        store_pair(p, at + n * 8, total[x][n][2 * h] * factor * inverse,
                                   total[x][n][2 * h + 1] * factor * inverse);
                    }
                }
        } else if (item->counter >= 0) {
            finish_tile(p, item, head, m.message(), m.work);
        }
        __syncwarp();
        if (lane == 0) wr_bar_arrive(m.job_empty(buffer));
    }
}

template <int D, int E, int KV, int MT, int PER_SM> WR_DEVICE void decode(const wr_attn_params *p, u8 *memory) {
    const decode_memory<D, E, MT> m(memory, p->stages);
    if (threadIdx.x == 0) {
        for (int i = 0; i < p->stages; i++) {
            wr_bar_init(m.full(i), 32); /* lanes of the warp that feeds */
            wr_bar_init(m.empty(i), 4); /* warps that compute */
        }
        for (int i = 0; i < WR_ATTN_Q_BUFFERS(D); i++) {
            wr_bar_init(m.job_known(i), 1);
            wr_bar_init(m.job_full(i), 1);
            wr_bar_init(m.job_empty(i), 5);
        }
        wr_bar_init_done();
    }
    __syncthreads();
    wr_grid_wait();
    if (threadIdx.x < THREADS)
        compute<D, E, KV, MT>(p, m);
    else if (threadIdx.x < THREADS + 32)
        lead<D, E, KV, MT, PER_SM>(p, m);
    else
        feed<D, E, KV, MT>(p, m);
}

/* Instances for keys of one type: D, E, tiles of 16 rows, blocks a multiprocessor. src/cuda/attention.c has the same
 * list. */
#define WR_ATTN_DECODE(name, type, D, E, MT, PER_SM)                                                                   \
    WR_KERNEL(wr_attn_decode_##name, wr_attn_params, ALL_THREADS, PER_SM) {                                            \
        WR_DYNAMIC_SHARED(memory);                                                                                     \
        wr_grid_launch();                                                                                              \
        decode<D, E, type, MT, PER_SM>(&p, memory);                                                                    \
    }
#define WR_ATTN_DECODES(type, suffix)                                                                                  \
    WR_ATTN_DECODE(64_1##suffix, type, 64, 64, 1, 2)                                                                   \
    WR_ATTN_DECODE(64_2##suffix, type, 64, 64, 2, 2)                                                                   \
    WR_ATTN_DECODE(80_1##suffix, type, 80, 80, 1, 2)                                                                   \
    WR_ATTN_DECODE(80_2##suffix, type, 80, 80, 2, 1)                                                                   \
    WR_ATTN_DECODE(96_1##suffix, type, 96, 96, 1, 2)                                                                   \
    WR_ATTN_DECODE(96_2##suffix, type, 96, 96, 2, 1)                                                                   \
    WR_ATTN_DECODE(128_1##suffix, type, 128, 128, 1, 2)                                                                \
    WR_ATTN_DECODE(128_2##suffix, type, 128, 128, 2, 1)                                                                \
    WR_ATTN_DECODE(192_1##suffix, type, 192, 128, 1, 2)                                                                \
    WR_ATTN_DECODE(192_2##suffix, type, 192, 128, 2, 1)                                                                \
    WR_ATTN_DECODE(256_1##suffix, type, 256, 256, 1, 2)                                                                \
    WR_ATTN_DECODE(256_2##suffix, type, 256, 256, 2, 1)                                                                \
    WR_ATTN_DECODE(512_1##suffix, type, 512, 512, 1, 1)

#endif
