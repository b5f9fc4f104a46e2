/* Paged attention for few query rows a sequence: decode and verify; without a prefill kernel also prefill.
 *
 * Contract: attention.cuh fixes the bits. Layouts and the schedule's items: attention.h; pages: array/kv.h.
 *   wr_attn_schedule_kernel  one block, once a step: the list of work cut into chunks of about the same number of key
 *                            blocks, one for each block of the decode kernel. Since lengths are data, grids depend only
 *                            on what there may be.
 *   wr_attn_decode_*         a block goes through its chunk, item by item. Two of its warps bring what the other four
 * work on: one the next item and its queries, rotated, one block after block of keys and values into a ring of slots,
 * across the ends of items, so that memory is never idle for want of a request. Scores: a warp takes a quarter of the
 * block's keys. Weights and maxima go through shared memory, then a warp takes a part of the output's columns, so the
 * chain over keys is never split. The spans of a whole tile are merged in registers, as are those of the first item of
 * a tile that is cut; of the others each span's (o, m, l) goes to scratch. The block that finishes the last item of a
 * tile merges the parts, or, when there is much to merge,
 *   wr_attn_merge_kernel     does, on many multiprocessors. Every way has the same bits.
 *
 * Bytes: 2 * keys * G * (D + E) for each tile of query rows. Operations: 2 * rows * keys * (D + E).
 *
 * Measured on 30 November 2026, H200, bf16, keys beyond L2, us a call with its merge (batch x keys, tokens a sequence):
 *   8 KV heads, group 4, head 128:  1 x 512     6.4    1 x 4,096  11.3    1 x 32,768  41.3    4 tokens 44.7, 8: 50.2
 *                                   8 x 8,192  83.2    64 x 2,048 128.5 = 4.18 TB/s
 *   2 KV heads, group 8, head 256:  1 x 4,096  12.5    1 x 32,768  26.9
 *   3 KV heads, group 3, head 64:   1 x 8,192  10.4
 * In a trial with calls alone in a graph, 24 of them: 6.0, 10.7, 40.4, 43.8, 49.5; 75.2, 123.2; 26.2.
 * Where the 40 us of 1 x 32,768 go (clocks read in the kernel): item and page table 1.3, keys and values 32 to 34, as
 * fast as bulk copies alone bring them (4.33 TB/s), parts and their count 1, the merge of 43 parts 3 to 4.
 *
 * Learned: one warp loads queries in time only with all its loads under way at once (16 rows one after the other took
 * 8 us, 32 took 13). A load whose result may not be used is moved by the compiler to where it is, or its registers are
 * kept from everything before it: loads here are never conditional; their addresses are.
 *
 * Dropped: pieces dealt out by a counter, claimed ahead (a block claimed three before it had done one: 151 us at
 * 64 x 2,048 where chunks take 128); eight computing warps, four for scores and four for values (with 96 registers the
 * loads could not be fetched ahead; no faster, as memory is what is waited for); items cut evenly instead of at spans
 * (bits would depend on the batch); one span length for all positions (512 costs 13 % at 32k, 1,024 costs 40 % at 4k);
 * pages [page][G][D], whose rows every thread copied by cp.async; all tiles merged by a kernel of its own (1.5 us a
 * layer). */
#ifndef WR_CUDA_ATTENTION_DECODE_CUH
#define WR_CUDA_ATTENTION_DECODE_CUH

#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/pages.cuh"

enum { THREADS = 128, ALL_THREADS = WR_ATTN_DECODE_THREADS }; /* that compute; of a block */
enum { FETCH = 2 }; /* steps that operands are fetched into registers ahead of the tensor cores */

WR_DEVICE int item_row(const wr_attn_params *p, const wr_attn_item *item, int r) {
    return item->row + (int)((u32)(item->first + r) / (u32)p->group);
}
WR_DEVICE int item_head(const wr_attn_params *p, const wr_attn_item *item, int r) {
    return item->head * p->group + (int)((u32)(item->first + r) % (u32)p->group);
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

/* What a row's parts so far come to. */
typedef struct merged_row {
    float top, l, o[4];
} merged_row;

/* Parts first .. first + N - 1 (or to the last) of a query row, four columns a lane. A maximum does not depend on the
 * order it is taken in, so that lanes find the factors of the parts in few steps; the sums then go part by part. All
 * loads are under way at once: behind the last part it is loaded again, since the compiler moves a load that may be in
 * vain to where it is needed. factors: 32 of this warp's own in shared memory. */
template <int N>
WR_DEVICE void merge_parts(merged_row *row, const float *part, const float *mine, i64 stride, int width, int first,
                           int n_parts, float c, uint4 *factors) {
    const int lane = (int)threadIdx.x % 32, last = min(n_parts - first, N) - 1;
    const uint4 ml = wr_load16_l2(part + (first + min(lane, last)) * stride + width);
    uint4 x[N];
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = wr_load16_l2(mine + (first + min(i, last)) * stride);
    /* This lane's part: the maximum up to it and before it, and what both sides are worth. */
    const float m = lane <= last ? wr_bits_f32(ml.x) : WR_ATTN_NONE;
    float to = fmaxf(row->top, m);
#pragma unroll
    for (int step = 1; step < N; step *= 2) {
        const float before = __shfl_up_sync(0xFFFFFFFFu, to, (u32)step);
        if (lane >= step) to = fmaxf(to, before);
    }
    float from = __shfl_up_sync(0xFFFFFFFFu, to, 1);
    if (lane == 0) from = row->top;
    row->top = __shfl_sync(0xFFFFFFFFu, to, N - 1);
    const uint4 own = {wr_f32_bits(wr_attn_decay(from, to, c)), wr_f32_bits(wr_attn_decay(m, to, c)), ml.y, 0};
    __syncwarp(); /* nobody reads the last factors any more */
    factors[lane] = own;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint4 f = factors[i];
        const float a = wr_bits_f32(f.x), b = wr_bits_f32(f.y);
        const bool there = i <= last;
        const float l = wr_attn_fold(row->l, a, wr_bits_f32(f.z), b);
        const float o[4] = {
            wr_attn_fold(row->o[0], a, wr_bits_f32(x[i].x), b), wr_attn_fold(row->o[1], a, wr_bits_f32(x[i].y), b),
            wr_attn_fold(row->o[2], a, wr_bits_f32(x[i].z), b), wr_attn_fold(row->o[3], a, wr_bits_f32(x[i].w), b)};
        row->l = there ? l : row->l;
#pragma unroll
        for (int e = 0; e < 4; e++) row->o[e] = there ? o[e] : row->o[e];
    }
}

/* One query row of a tile, merged by one warp: columns column .. column + 3 of it a lane, those of lanes behind the
 * last column left out. */
WR_DEVICE void merge_row(const wr_attn_params *p, const wr_attn_item *item, int r, int column, uint4 *factors) {
    const int width = p->value_dim, n_parts = item->n_parts;
    const i64 part_size = width + WR_ATTN_PART_EXTRA, stride = item->n_rows * part_size;
    const float *part = p->partial + ((i64)item->partial + r) * part_size;
    const bool active = column < width;
    const float *mine = part + (active ? column : 0);
    const float c = p->log2_factor;
    merged_row row = {WR_ATTN_NONE, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
    if (n_parts <= 8) {
        merge_parts<8>(&row, part, mine, stride, width, 0, n_parts, c, factors);
    } else {
#pragma unroll 1
        for (int first = 0; first < n_parts; first += 32)
            merge_parts<32>(&row, part, mine, stride, width, first, n_parts, c, factors);
    }
    if (!active) return;
    const int q_head = item_head(p, item, r);
    const float factor = p->sinks ? wr_attn_sink(row.top, &row.l, p->sinks[q_head], c) : 1.0f,
                inverse = wr_attn_inverse(row.l);
    const i64 at = ((i64)item_row(p, item, r) * p->n_heads + q_head) * width + column;
    store_pair(p, at, row.o[0] * factor * inverse, row.o[1] * factor * inverse);
    store_pair(p, at + 2, row.o[2] * factor * inverse, row.o[3] * factor * inverse);
}

/* ---- a block's shared memory ---- */

/* What the other warps are told: an item, or that there is no more. */
typedef struct decode_job {
    wr_attn_item item;
    int over;
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
        jobs = work + WR_ATTN_WORK_BYTES(D, MT);
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

/* Eight elements of a query row from element d on and, where they are rotated, the eight that go with them and what
 * they are rotated by. */
typedef struct query_unit {
    int r, d;
    uint4 x, pair, cosines[2], sines[2];
} query_unit;

/* Asks for unit e of those of the item; of each row there are `units`. What is not rotated has no use for most of it:
 * the compiler would move a load that may be in vain to where it is needed. */
WR_DEVICE void ask_query(const wr_attn_params *p, const wr_attn_item *item, int e, int units, query_unit *u) {
    u->r = (int)((u32)e / (u32)units);
    const int pairs = p->half / 8, i = e - u->r * units, row = item_row(p, item, u->r);
    const bool rotated = i < pairs;
    u->d = (rotated ? i : i + pairs) * 8;
    const u16 *from = (const u16 *)p->q + row * p->q_row + item_head(p, item, u->r) * p->q_head + u->d;
    const uint4 *whole = (const uint4 *)from;
    const uint4 *cosines = rotated ? (const uint4 *)(p->rope + (i64)row * 2 * p->half + u->d) : whole;
    const uint4 *sines = rotated ? cosines + p->half / 4 : whole;
    const int step = rotated;
    u->x = *whole;
    u->pair = *(const uint4 *)(from + (rotated ? p->half : 0));
    u->cosines[0] = cosines[0], u->cosines[1] = cosines[step];
    u->sines[0] = sines[0], u->sines[1] = sines[step];
}

template <int KV> WR_DEVICE float2 unpack_query(u32 pair) {
    const float2 v = {KV == WR_ATTN_F16 ? wr_f16_to_f32((u16)pair) : wr_bf16_lo(pair),
                      KV == WR_ATTN_F16 ? wr_f16_to_f32((u16)(pair >> 16)) : wr_bf16_hi(pair)};
    return v;
}

/* Rotates two pairs of elements, rounded as ROPE's kernels do. */
template <int KV> WR_DEVICE void rotate_query(u32 *x, u32 *pair, u32 c0, u32 c1, u32 s0, u32 s1) {
    float2 a = unpack_query<KV>(*x), b = unpack_query<KV>(*pair);
    wr_rotate(&a.x, &b.x, wr_bits_f32(c0), wr_bits_f32(s0));
    wr_rotate(&a.y, &b.y, wr_bits_f32(c1), wr_bits_f32(s1));
    *x = wr_attn_pack<KV>(a.x, a.y), *pair = wr_attn_pack<KV>(b.x, b.y);
}

/* Rotates the unit and writes it; the item's first row begins at `to`. */
template <int D, int KV> WR_DEVICE void put_query(const wr_attn_params *p, query_unit *u, u8 *to) {
    to += u->r * (D * 2 + 16) + u->d * 2;
    if (u->d < p->half) {
        const uint4 *c = u->cosines, *s = u->sines;
        rotate_query<KV>(&u->x.x, &u->pair.x, c[0].x, c[0].y, s[0].x, s[0].y);
        rotate_query<KV>(&u->x.y, &u->pair.y, c[0].z, c[0].w, s[0].z, s[0].w);
        rotate_query<KV>(&u->x.z, &u->pair.z, c[1].x, c[1].y, s[1].x, s[1].y);
        rotate_query<KV>(&u->x.w, &u->pair.w, c[1].z, c[1].w, s[1].z, s[1].w);
        *(uint4 *)(to + p->half * 2) = u->pair;
    }
    *(uint4 *)to = u->x;
}

template <int D, int KV, int AT_ONCE>
WR_DEVICE void load_aligned(const wr_attn_params *p, const wr_attn_item *item, int units, u8 *to) {
    const int lane = (int)threadIdx.x % 32, n = item->n_rows * units;
#pragma unroll 1
    for (int e = lane; e - lane < n; e += 32 * AT_ONCE) {
        query_unit unit[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) ask_query(p, item, min(e + 32 * i, n - 1), units, &unit[i]);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (e + 32 * i < n) put_query<D, KV>(p, &unit[i], to);
    }
}

/* The query rows of the item in the type of the keys, rotated: rows of D + 8 elements at `to`; what lies behind the
 * last row takes part in nothing that counts. */
template <int D, int KV> WR_DEVICE void load_queries(const wr_attn_params *p, const wr_attn_item *item, u8 *to) {
    constexpr int PIECES = D / 8;
    if (p->q_aligned) {
        const int units = PIECES - p->half / 8;
        item->n_rows *units <= 32 ? load_aligned<D, KV, 1>(p, item, units, to)
                                  : load_aligned<D, KV, 4>(p, item, units, to);
        return;
    }
    const wr_rope_use rope = {p->rope, p->rope ? p->half : 0, p->interleaved};
    const int dtype = wr_attn_dtype(p->q_type);
#pragma unroll 1
    for (int e = (int)threadIdx.x % 32; e < item->n_rows * PIECES; e += 32) {
        const int r = e / PIECES, d = e % PIECES * 8, row = item_row(p, item, r);
        const i64 from = row * p->q_row + item_head(p, item, r) * p->q_head;
        float v[8];
        wr_eight_rotated(v, p->q, dtype, from, d, row, rope);
        const uint4 packed = {wr_attn_pack<KV>(v[0], v[1]), wr_attn_pack<KV>(v[2], v[3]), wr_attn_pack<KV>(v[4], v[5]),
                              wr_attn_pack<KV>(v[6], v[7])};
        *(uint4 *)(to + r * (D * 2 + 16) + d * 2) = packed;
    }
}

/* The chunk of work of this block. Neighbours in the list lie on one multiprocessor, as far as blocks are given out to
 * multiprocessors in turn, so that a long one and a short one share it. */
WR_DEVICE u32 chunk_of_block(int per_sm) {
    if (gridDim.x % (u32)per_sm != 0) return blockIdx.x;
    const u32 width = gridDim.x / (u32)per_sm;
    return blockIdx.x % width * (u32)per_sm + blockIdx.x / width;
}

/* A chunk's items, one after the other, with their queries. The next item is asked for before it is needed. word:
 * the lane's word of the first. */
template <int D, int E, int KV, int MT>
WR_DEVICE void lead(const wr_attn_params *p, const decode_memory<D, E, MT> &m, u32 word) {
    constexpr int BUFFERS = WR_ATTN_Q_BUFFERS(D), NEXT = (int)(offsetof(wr_attn_item, next) / 4);
    const int lane = (int)threadIdx.x % 32;
    bool over = false;
    for (u32 n = 0;; n++) {
        const int buffer = (int)(n % BUFFERS);
        decode_job *job = m.job(buffer);
        wr_bar_wait(m.job_empty(buffer), (int)(n / BUFFERS & 1) ^ 1);
        if (lane < WR_ATTN_ITEM_WORDS) ((u32 *)&job->item)[lane] = word;
        if (lane == 31) job->over = over;
        __syncwarp();
        if (lane == 0) wr_bar_arrive(m.job_known(buffer));
        if (over) {
            if (lane == 0) wr_bar_arrive(m.job_full(buffer));
            return;
        }
        const int next = (int)__shfl_sync(0xFFFFFFFFu, word, NEXT);
        over = next < 0;
        if (!over && lane < WR_ATTN_ITEM_WORDS) word = ((const u32 *)(p->items + next))[lane];
        load_queries<D, KV>(p, &job->item, m.queries + buffer * WR_ATTN_Q_BYTES(D, MT));
        __syncwarp();
        if (lane == 0) wr_bar_arrive(m.job_full(buffer));
    }
}

/* The items' keys and values, block after block. */
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
        const int head = item->head;
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

/* A tile all of whose items are done: who has finished the last merges its parts. */
WR_DEVICE void finish_tile(const wr_attn_params *p, const wr_attn_item *item, u32 *message, u8 *work) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    u32 *counter = p->arrived + item->counter;
    wr_barrier(1, THREADS); /* all parts of this block are written */
    if (threadIdx.x == 0) *message = wr_arrive_global(counter);
    wr_barrier(1, THREADS);
    if (*message + 1 != (u32)item->n_items) return;
    if (threadIdx.x == 0) *counter = 0;
    const int per_row = WR_ATTN_MERGE_WARPS(p->value_dim);
    for (int i = warp; i < item->n_rows * per_row; i += 4)
        merge_row(p, item, i / per_row, i % per_row * WR_ATTN_MERGE_COLUMNS + lane * 4, (uint4 *)work + warp * 32);
    wr_barrier(1, THREADS); /* the memory is free */
}

/* o += w v of 16 keys each, steps begin .. end - 1 of a block. A step is taken by parts of 16 columns; operands are
 * fetched FETCH parts ahead. */
template <int E, int KV, int MT, int BK>
WR_DEVICE void add_values(float (*o)[(E / 16 + 3) / 4 * 2][4], int begin, int end, u32 weight_at, u32 values_at,
                          int warp, int lane) {
    constexpr int PAIRS = (E / 16 + 3) / 4, P_ROW = BK * 2 + 16, PANEL = BK * WR_PANEL_ROW;
    constexpr int STEPS = BK / 16, PARTS = STEPS * PAIRS;
    u32 pf[FETCH + 1][MT][4], vf[FETCH + 1][4];
#pragma unroll
    for (int i = 0; i < PARTS + FETCH; i++) {
        if (i < PARTS) {
            const int k = i / PAIRS, n = i % PAIRS, column = warp * PAIRS + n; /* of 16 */
            if (n == 0)
#pragma unroll
                for (int x = 0; x < MT; x++)
                    wr_ldmatrix4(pf[k % (FETCH + 1)][x], weight_at + (u32)(x * 16 * P_ROW + k * 32));
            wr_ldmatrix4_trans(vf[i % (FETCH + 1)],
                               values_at + (u32)(column / 4 * PANEL + k * 16 * WR_PANEL_ROW +
                                                 ((column % 4 * 2 + lane / 16) ^ (lane % 8)) * 16));
        }
        if (i < FETCH) continue;
        const int k = (i - FETCH) / PAIRS, n = (i - FETCH) % PAIRS;
        if (k < begin || k >= end || (E / 16 % 4 != 0 && warp * PAIRS + n >= E / 16)) continue;
        const u32 *f = vf[(i - FETCH) % (FETCH + 1)];
#pragma unroll
        for (int x = 0; x < MT; x++) {
            wr_attn_mma<KV>(o[x][2 * n], pf[k % (FETCH + 1)][x], f[0], f[1]);
            wr_attn_mma<KV>(o[x][2 * n + 1], pf[k % (FETCH + 1)][x], f[2], f[3]);
        }
    }
}

/* One row's part of a tile: the columns of o that this thread has, and its maximum and sum. h: which of the thread's
 * two rows of a tile of 16 it is. */
template <int E>
WR_DEVICE void write_part(const wr_attn_params *p, const wr_attn_item *item, int part, int r, const float (*o)[4],
                          int h, float m, float l, int warp, int t) {
    constexpr int PAIRS = (E / 16 + 3) / 4, PART = E + WR_ATTN_PART_EXTRA;
    float *to = p->partial + ((i64)item->partial + (i64)part * item->n_rows + r) * PART;
#pragma unroll
    for (int n = 0; n < PAIRS * 2; n++) {
        if (E / 16 % 4 != 0 && warp * PAIRS + n / 2 >= E / 16) break;
        const uint2 two = {wr_f32_bits(o[n][2 * h]), wr_f32_bits(o[n][2 * h + 1])};
        *(uint2 *)(to + warp * PAIRS * 16 + n * 8 + 2 * t) = two;
    }
    if (warp == 0 && t == 0) {
        const uint4 extra = {wr_f32_bits(m), wr_f32_bits(l), 0, 0};
        *(uint4 *)(to + E) = extra;
    }
}

template <int D, int E, int KV, int MT, int PER_SM>
WR_DEVICE void compute(const wr_attn_params *p, const decode_memory<D, E, MT> &m) {
    constexpr int BK = WR_ATTN_BLOCK(D), KEY_TILES = BK / 32, PAIRS = (E / 16 + 3) / 4, BUFFERS = WR_ATTN_Q_BUFFERS(D);
    constexpr int P_ROW = BK * 2 + 16, ROWS = MT * 16, Q_ROW = D * 2 + 16;
    constexpr int PANEL = BK * WR_PANEL_ROW;
    /* Whether queries stay in registers, of which there are 168 or 255. */
    constexpr bool HELD = MT * (D / 4 + KEY_TILES * 4 + PAIRS * 16) <= (PER_SM > 1 ? 80 : 160);
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
        const int last = item->last, n_rows = item->n_rows;
        const bool folds = item->n_parts == 0 || item->part_span == item->span; /* spans are merged here */
        const u32 query_at =
            wr_smem(m.queries + buffer * WR_ATTN_Q_BYTES(D, MT)) + (u32)(lane % 16 * Q_ROW + lane / 16 * 16);
        u32 held[HELD ? MT : 1][HELD ? D / 16 : 1][4];
        if constexpr (HELD)
#pragma unroll
            for (int x = 0; x < MT; x++)
#pragma unroll
                for (int k = 0; k < D / 16; k++) wr_ldmatrix4(held[x][k], query_at + (u32)(x * 16 * Q_ROW + k * 32));
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
        float total[MT][PAIRS * 2][4], tm[MT][2], tl[MT][2]; /* spans before, when they are merged here */
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
            /* Steps of 16 columns and 16 of the warp's keys, whose operands are fetched FETCH steps ahead. */
            constexpr int PER_K = KEY_TILES / 2, STEPS = D / 16 * PER_K;
            u32 kf[FETCH + 1][4], q[HELD ? 1 : FETCH + 1][MT][4];
#pragma unroll
            for (int i = 0; i < STEPS + FETCH; i++) {
                if (i < STEPS) {
                    const int k = i / PER_K, n = i % PER_K;
                    const u32 piece = (u32)(((k % 4 * 2 + ((lane >> 3) & 1)) ^ (lane % 8)) * 16 + k / 4 * PANEL);
                    wr_ldmatrix4(kf[i % (FETCH + 1)], keys_at + piece + (u32)(n * 16 * WR_PANEL_ROW));
                    if constexpr (!HELD)
                        if (n == 0)
#pragma unroll
                            for (int x = 0; x < MT; x++)
                                wr_ldmatrix4(q[k % (FETCH + 1)][x], query_at + (u32)(x * 16 * Q_ROW + k * 32));
                }
                if (i < FETCH) continue;
                const int k = (i - FETCH) / PER_K, n = (i - FETCH) % PER_K * 2;
                const u32 *f = kf[(i - FETCH) % (FETCH + 1)];
#pragma unroll
                for (int x = 0; x < MT; x++) {
                    const u32 *rows = HELD ? held[HELD ? x : 0][HELD ? k : 0] : q[HELD ? 0 : k % (FETCH + 1)][x];
                    wr_attn_mma<KV>(s[x][n], rows, f[0], f[1]);
                    wr_attn_mma<KV>(s[x][n + 1], rows, f[2], f[3]);
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
            if (first_step == 0 && end_step == BK / 16)
                add_values<E, KV, MT, BK>(o, 0, BK / 16, weight_at, values_at, warp, lane);
            else
                add_values<E, KV, MT, BK>(o, first_step, end_step, weight_at, values_at, warp, lane);
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
                    if (!folds && r < n_rows)
                        write_part<E>(p, item, span - item->part_span, r, o[x], h, mx[x][h], l[x][h], warp, t);
                    if (folds) {
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

        if (item->n_parts > 0) {
            if (folds)
#pragma unroll
                for (int x = 0; x < MT; x++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        if (x * 16 + g + 8 * h < n_rows)
                            write_part<E>(p, item, 0, x * 16 + g + 8 * h, total[x], h, tm[x][h], tl[x][h], warp, t);
            if (item->counter >= 0) finish_tile(p, item, m.message(), m.work);
        } else {
#pragma unroll
            for (int x = 0; x < MT; x++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int r = x * 16 + g + 8 * h;
                    if (r >= n_rows) continue;
                    int q_head = item_head(p, item, r);
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
    const wr_attn_item *first = p->items + chunk_of_block(PER_SM);
    const int lane = (int)threadIdx.x % 32;
    const u32 word = lane < WR_ATTN_ITEM_WORDS ? ((const u32 *)first)[lane] : 0;
    if (__shfl_sync(0xFFFFFFFFu, word, offsetof(wr_attn_item, n_rows) / 4) == 0) return; /* nothing to do */
    if (threadIdx.x < THREADS)
        compute<D, E, KV, MT, PER_SM>(p, m);
    else if (threadIdx.x < THREADS + 32)
        lead<D, E, KV, MT>(p, m, word);
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
