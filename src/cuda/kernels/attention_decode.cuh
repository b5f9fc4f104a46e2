/* Paged attention for few query rows a sequence: decode and verify; without a prefill kernel also prefill.
 *
 * Contract: attention.cuh fixes the bits. Layouts and the schedule's items: attention.h; pages: array/kv.h.
 *   wr_attn_schedule_kernel  one block, once a step: the list of work cut into chunks of about the same number of key
 *                            blocks, one for each block of the decode kernel. Since lengths are data, grids depend only
 *                            on what there may be.
 *   wr_attn_decode_*         a block goes through its chunk, item by item. One of its warps brings block after block of
 * keys and values into a ring of slots, across the ends of items, so that memory is never idle for want of a request;
 * one the next item and its queries, rotated. Four warps compute for 16 query rows; for tiles of 32 rows there are two
 * such groups and two warps that bring queries. Scores: a warp takes a quarter of the block's keys. Weights and maxima
 * go through shared memory, then a warp takes a part of the output's columns, so the chain over keys is never split.
 * The spans of a whole tile are merged in registers, as are those of the first item of a tile that is cut; of the
 * others each span's (o, m, l) goes to scratch. The block that finishes the last item of a tile merges the parts, in
 * the memory of its ring, or, when there is much to merge,
 *   wr_attn_merge_kernel     does, on many multiprocessors. Every way has the same bits.
 *
 * Bytes: 2 * keys * G * (D + E) for each tile of query rows. Operations: 2 * rows * keys * (D + E).
 *
 * Measured on 30 November 2026, H200, bf16, keys beyond L2, us a call with its merge (batch x keys, tokens a sequence):
 *   8 KV heads, group 4, head 128:  1 x 512     6.3    1 x 4,096  10.4    1 x 32,768  39.2    4 tokens 41.3, 8: 44.4
 *                                   8 x 8,192  74.6    64 x 2,048 125.3 = 4.28 TB/s
 *   2 KV heads, group 8, head 256:  1 x 4,096  11.2    1 x 32,768  24.4
 *   3 KV heads, group 3, head 64:   1 x 8,192  10.0
 * Where the 38 us of 1 x 32,768 go (clocks read in the kernel, one call after the other): item and first keys 1.5,
 * the last keys and values at 31.6, parts and their count 0.8, the merge of 43 parts 4.6, of which 2.6 until they are
 * there.
 *
 * Learned (us of 1 x 32,768 with 1 and with 8 tokens, and with head 256):
 *   - Keys and values are read once and are the first to leave L2 again, so that parts, the table and the items stay:
 *     40.1 to 38.6, 49.6 to 46.5, 29.7 to 28.4. Parts had gone to memory and come back.
 *   - 96 KB on their way to a multiprocessor (attention.c) instead of 192: 46.5 to 41.8, 28.4 to 24.8. With much under
 *     way the last multiprocessor had its keys 8 us behind the middle one.
 *   - Parts come to shared memory for the merge, all under way at once, instead of to registers, 32 after 32 with the
 *     factors' loads between them: 44 to 40, 53 to 49.6.
 *   - One warp loads queries in time only with all its loads under way at once (16 rows one after the other took 8 us,
 *     32 took 13). A load whose result may not be used is moved by the compiler to where it is, or its registers are
 *     kept from everything before it: loads here are never conditional; their addresses are.
 *   - What the tensor cores do costs little; a block of keys takes a group 1.6 us, one step waiting for the other.
 *
 * Dropped: pieces dealt out by a counter, claimed ahead (a block claimed three before it had done one: 151 us at
 * 64 x 2,048 where chunks take 128); 32 rows for four warps (no faster, more registers); eight computing warps, four
 * for scores and four for values (with 96 registers the loads could not be fetched ahead; no faster, as memory is what
 * is waited for); items cut evenly instead of at spans (bits would depend on the batch); one span length for all
 * positions (512 costs 13 % at 32k, 1,024 costs 40 % at 4k); pages [page][G][D], whose rows every thread copied by
 * cp.async; all tiles merged by a kernel of its own (1.5 us a layer; 13.4 instead of 11.4 us at 1 x 4,096). */
#ifndef WR_CUDA_ATTENTION_DECODE_CUH
#define WR_CUDA_ATTENTION_DECODE_CUH

#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/pages.cuh"

enum { THREADS = 128, WARPS = 4 }; /* of a group that computes */
enum { FETCH = 2 };                /* steps that operands are fetched into registers ahead of the tensor cores */

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

/* One query row of a tile, merged by one warp: COLUMNS columns a lane, from column `first` on; those behind the row's
 * last are left out. Its parts come to shared memory, `room` at once, so that all are under way together; then a
 * maximum, which does not depend on the order it is taken in, gives lanes the factors of 32 parts in few steps, and the
 * sums go part by part. factors: 32 of this warp's own; parts: room times 32 * COLUMNS floats of its own. */
template <int COLUMNS>
WR_DEVICE void merge_row(const wr_attn_params *p, const wr_attn_item *item, int r, int first, float4 *factors,
                         float *parts, int room) {
    constexpr int PART = 32 * COLUMNS, PIECES = PART / 4; /* floats of a part here; and pieces of 16 bytes */
    const int lane = (int)threadIdx.x % 32, width = p->value_dim, n_parts = item->n_parts;
    const i64 part_size = width + WR_ATTN_PART_EXTRA, stride = item->n_rows * part_size;
    const float *from = p->partial + ((i64)item->partial + r) * part_size;
    const float c = p->log2_factor;
    float top = WR_ATTN_NONE, l = 0.0f, o[COLUMNS] = {0.0f};
    const int column = first + lane % PIECES * 4; /* of the pieces that this lane brings */
    uint4 extra = wr_load16_l2(from + min(lane, n_parts - 1) * stride + width);
    for (int begin = 0; begin < n_parts; begin += room) {
        const int n = min(room, n_parts - begin);
        if (column < width)
#pragma unroll 4
            for (int i = lane / PIECES; i < n; i += 32 / PIECES)
                wr_cp16(wr_smem(parts + i * PART + lane % PIECES * 4), from + (begin + i) * stride + column);
        wr_cp_commit();
        for (int batch = 0; batch < n; batch += 32) {
            const int last = min(n - batch, 32) - 1, next = begin + batch + last + 1 + lane;
            const uint4 ml = extra;
            extra = wr_load16_l2(from + min(next, n_parts - 1) * stride + width);
            /* This lane's part: the maximum up to it and before it, and what both sides are worth. */
            const float m = lane <= last ? wr_bits_f32(ml.x) : WR_ATTN_NONE;
            float to = fmaxf(top, m);
#pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const float before = __shfl_up_sync(0xFFFFFFFFu, to, (u32)step);
                if (lane >= step) to = fmaxf(to, before);
            }
            float before = __shfl_up_sync(0xFFFFFFFFu, to, 1);
            if (lane == 0) before = top;
            top = __shfl_sync(0xFFFFFFFFu, to, 31);
            const float4 own = {wr_attn_decay(before, to, c), wr_attn_decay(m, to, c), wr_bits_f32(ml.y), 0.0f};
            factors[lane] = own;
            wr_cp_wait<0>();
            __syncwarp();
            const float *x = parts + batch * PART + lane * COLUMNS;
#pragma unroll 8
            for (int i = 0; i <= last; i++, x += PART) {
                const float4 f = factors[i];
                float v[COLUMNS];
                if constexpr (COLUMNS == 4)
                    *(float4 *)v = *(const float4 *)x;
                else
                    *(float2 *)v = *(const float2 *)x;
                l = wr_attn_fold(l, f.x, f.z, f.y);
#pragma unroll
                for (int e = 0; e < COLUMNS; e++) o[e] = wr_attn_fold(o[e], f.x, v[e], f.y);
            }
            __syncwarp(); /* factors and parts were read */
        }
    }
    first += lane * COLUMNS;
    if (first >= width) return;
    const int q_head = item_head(p, item, r);
    const float factor = p->sinks ? wr_attn_sink(top, &l, p->sinks[q_head], c) : 1.0f, inverse = wr_attn_inverse(l);
    const i64 at = ((i64)item_row(p, item, r) * p->n_heads + q_head) * width + first;
#pragma unroll
    for (int e = 0; e < COLUMNS; e += 2) store_pair(p, at + e, o[e] * factor * inverse, o[e + 1] * factor * inverse);
}

/* ---- a block's shared memory ---- */

template <int D, int E, int GROUPS> struct decode_memory {
    static constexpr int SLOT = WR_ATTN_SLOT(D, E), Q_BYTES = WR_ATTN_Q_BYTES(D, GROUPS),
                         BUFFERS = WR_ATTN_Q_BUFFERS(D);
    static_assert(sizeof(wr_attn_item) == WR_ATTN_JOB_BYTES, "space for a job");
    u8 *slots, *queries, *work, *jobs;
    u32 bars;
    WR_DEVICE_MEMBER decode_memory(u8 *memory, int stages) {
        slots = memory;
        queries = slots + stages * SLOT;
        work = queries + BUFFERS * Q_BYTES;
        jobs = work + WR_ATTN_WORK_BYTES(D, GROUPS);
        bars = wr_smem(jobs + WR_ATTN_JOBS_BYTES);
    }
    /* Of slots: filled, and free again. */
    WR_DEVICE_MEMBER u32 full(int slot) const { return bars + slot * 8; }
    WR_DEVICE_MEMBER u32 empty(int slot) const { return bars + 128 + slot * 8; }
    /* Of jobs, which are items, the last one without rows: the item is there, its queries too, both are free again. */
    WR_DEVICE_MEMBER u32 job_known(int buffer) const { return bars + 96 + buffer * 8; }
    WR_DEVICE_MEMBER u32 job_full(int buffer) const { return bars + 112 + buffer * 8; }
    WR_DEVICE_MEMBER u32 job_empty(int buffer) const { return bars + 224 + buffer * 8; }
    WR_DEVICE_MEMBER wr_attn_item *job(int buffer) const { return (wr_attn_item *)(jobs + buffer * WR_ATTN_JOB_BYTES); }
    WR_DEVICE_MEMBER u32 *message() const { return (u32 *)(jobs + 2 * WR_ATTN_JOB_BYTES); }
    WR_DEVICE_MEMBER u8 *slot(int slot) const { return slots + slot * SLOT; }
    /* Queries of an item; those of a group lie 16 rows behind the group's before it. */
    WR_DEVICE_MEMBER u8 *queries_of(int buffer) const { return queries + buffer * Q_BYTES; }
    WR_DEVICE_MEMBER u8 *work_of(int group) const { return work + group * WR_ATTN_WORK_BYTES(D, 1); }
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
WR_DEVICE void load_aligned(const wr_attn_params *p, const wr_attn_item *item, int first, int end, int units, u8 *to) {
    const int lane = (int)threadIdx.x % 32, n = end * units;
#pragma unroll 1
    for (int e = first * units + lane; e - lane < n; e += 32 * AT_ONCE) {
        query_unit unit[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) ask_query(p, item, min(e + 32 * i, n - 1), units, &unit[i]);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (e + 32 * i < n) put_query<D, KV>(p, &unit[i], to);
    }
}

/* Query rows first .. end - 1 of the item in the type of the keys, rotated: rows of D + 8 elements, the item's first at
 * `to`; what lies behind its last row takes part in nothing that counts. */
template <int D, int KV>
WR_DEVICE void load_queries(const wr_attn_params *p, const wr_attn_item *item, int first, int end, u8 *to) {
    constexpr int PIECES = D / 8;
    if (p->q_aligned) {
        const int units = PIECES - p->half / 8;
        (end - first) * units <= 32 ? load_aligned<D, KV, 1>(p, item, first, end, units, to)
                                    : load_aligned<D, KV, 4>(p, item, first, end, units, to);
        return;
    }
    const wr_rope_use rope = {p->rope, p->rope ? p->half : 0, p->interleaved};
    const int dtype = wr_attn_dtype(p->q_type);
#pragma unroll 1
    for (int e = first * PIECES + (int)threadIdx.x % 32; e < end * PIECES; e += 32) {
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

/* A field of the item whose words the lanes have. */
#define ITEM_FIELD(word, field) (int)__shfl_sync(0xFFFFFFFFu, word, (int)(offsetof(wr_attn_item, field) / 4))

/* A chunk's items, one after the other, with their queries: those of a group by a warp each, the first of which says
 * what the item is. The next item is asked for before it is needed. word: the lane's word of the first. */
template <int D, int E, int KV, int GROUPS>
WR_DEVICE void lead(const wr_attn_params *p, const decode_memory<D, E, GROUPS> &m, u32 word, int group) {
    constexpr int BUFFERS = WR_ATTN_Q_BUFFERS(D), N_ROWS = (int)(offsetof(wr_attn_item, n_rows) / 4);
    const int lane = (int)threadIdx.x % 32;
    bool over = false;
    for (u32 n = 0;; n++) {
        const int buffer = (int)(n % BUFFERS), parity = (int)(n / BUFFERS & 1);
        wr_attn_item *item = m.job(buffer);
        if (group == 0) {
            wr_bar_wait(m.job_empty(buffer), parity ^ 1);
            ((u32 *)item)[lane] = over && lane == N_ROWS ? 0 : word;
            wr_bar_arrive(m.job_known(buffer));
        }
        wr_bar_wait(m.job_known(buffer), parity);
        if (over) {
            wr_bar_arrive(m.job_full(buffer));
            return;
        }
        const int next = ITEM_FIELD(word, next);
        over = next < 0;
        if (!over) word = wr_load4_kept((const u32 *)(p->items + next) + lane);
        const int first = group * 16, end = min(item->n_rows, first + 16);
        if (first < end) load_queries<D, KV>(p, item, first, end, m.queries_of(buffer));
        wr_bar_arrive(m.job_full(buffer));
    }
}

/* The items' keys and values: keys of a block before the values of the block before it, as they are wanted. word: the
 * lane's word of the first item, which so need not come from the warp that leads. */
template <int D, int E, int GROUPS>
WR_DEVICE void feed(const wr_attn_params *p, const decode_memory<D, E, GROUPS> &m, u32 word) {
    constexpr int BK = WR_ATTN_BLOCK(D), PAGES = BK / WR_KV_TILE, BUFFERS = WR_ATTN_Q_BUFFERS(D);
    static_assert(WR_ATTN_ITEM_PAGES % PAGES == 0, "whole blocks");
    const int lane = (int)threadIdx.x % 32;
    decode_ring ring = {0, 1};
    for (u32 n = 0;; n++) {
        const int buffer = (int)(n % BUFFERS), parity = (int)(n / BUFFERS & 1);
        if (n > 0) {
            wr_bar_wait(m.job_known(buffer), parity);
            word = ((const u32 *)m.job(buffer))[lane];
        }
        if (ITEM_FIELD(word, n_rows) == 0) return;
        const int begin = ITEM_FIELD(word, block), last = ITEM_FIELD(word, last), seq = ITEM_FIELD(word, seq);
        const int from = ITEM_FIELD(word, from), to = ITEM_FIELD(word, to) + 1, head = ITEM_FIELD(word, head);
        /* The first pages are in the item; those behind them are on their way before they are needed. */
        i32 pages = (i32)__shfl_down_sync(0xFFFFFFFFu, word, offsetof(wr_attn_item, page) / 4);
        i32 more = begin > last ? -1 : wr_attn_pages_from(p, seq, (i64)begin * PAGES + WR_ATTN_ITEM_PAGES);
        i32 page[PAGES] = {-1}, before[PAGES] = {-1};
        for (int block = begin; block <= last + (begin <= last); block++) {
            const int at = (block - begin) * PAGES, low = from - block * BK, high = to - block * BK;
            const int behind = at - WR_ATTN_ITEM_PAGES;
            if (block <= last) {
                if (behind >= 0 && behind % 32 == 0) {
                    pages = more;
                    more = wr_attn_pages_from(p, seq, (i64)block * PAGES + 32);
                }
#pragma unroll
                for (int i = 0; i < PAGES; i++)
                    page[i] = __shfl_sync(0xFFFFFFFFu, pages, (behind < 0 ? at : behind % 32) + i);
                wr_bar_wait(m.empty(ring.slot), ring.parity);
                wr_copy_block<BK, WR_ATTN_PANELS(D), 0, true>(p->k, page, head, p->kv_heads, low, high,
                                                              m.slot(ring.slot), m.rows(ring.slot), m.full(ring.slot));
                step_ring(&ring, p->stages);
            }
            if (block > begin) {
                wr_bar_wait(m.empty(ring.slot), ring.parity);
                wr_copy_block<BK, WR_ATTN_PANELS(E), 16, true>(p->v, before, head, p->kv_heads, low + BK, high + BK,
                                                               m.slot(ring.slot), m.rows(ring.slot), m.full(ring.slot));
                step_ring(&ring, p->stages);
            }
#pragma unroll
            for (int i = 0; i < PAGES; i++) before[i] = page[i];
        }
        if (n == 0) wr_bar_wait(m.job_known(buffer), parity); /* phases of a barrier are waited for in turn */
        wr_bar_arrive(m.job_empty(buffer));
    }
}

/* ---- the warps that compute ---- */

/* This warp has read all it needs of a slot. */
WR_DEVICE void release_slot(u32 empty) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) wr_bar_arrive(empty);
}

/* This block has written its parts of a tile: whether all others have, so that it is to merge them. */
template <int GROUPS> WR_DEVICE bool is_last_of_tile(const wr_attn_params *p, const wr_attn_item *item, u32 *message) {
    u32 *counter = p->arrived + item->counter;
    wr_barrier(1, GROUPS * THREADS); /* all parts of this block are written */
    if (threadIdx.x == 0) *message = wr_arrive_global(counter);
    wr_barrier(1, GROUPS * THREADS);
    if (*message + 1 != (u32)item->n_items) return false;
    if (threadIdx.x == 0) *counter = 0;
    return true;
}

/* Merges a tile in the memory of the ring, which no copy goes to and no warp reads any more. */
template <int D, int E, int GROUPS>
WR_DEVICE void merge_tile(const wr_attn_params *p, const decode_memory<D, E, GROUPS> &m, const wr_attn_item *item) {
    constexpr int COLUMNS = 4, PART_BYTES = 32 * COLUMNS * 4, PER_ROW = (E + 32 * COLUMNS - 1) / (32 * COLUMNS);
    const int warp = (int)threadIdx.x / 32, own = m.SLOT / (GROUPS * WARPS) * p->stages;
    for (int i = warp; i < item->n_rows * PER_ROW; i += GROUPS * WARPS)
        merge_row<COLUMNS>(p, item, i / PER_ROW, i % PER_ROW * 32 * COLUMNS,
                           (float4 *)m.work_of(warp / WARPS) + warp % WARPS * 32, (float *)(m.slots + warp * own),
                           own / PART_BYTES);
}

/* o += w v of 16 keys each, steps begin .. end - 1 of a block. A step is taken by parts of 16 columns; operands are
 * fetched FETCH parts ahead. */
template <int E, int KV, int BK>
WR_DEVICE void add_values(float (*o)[4], int begin, int end, u32 weight_at, u32 values_at, int warp, int lane) {
    constexpr int PAIRS = (E / 16 + 3) / 4, PANEL = BK * WR_PANEL_ROW;
    constexpr int STEPS = BK / 16, PARTS = STEPS * PAIRS;
    u32 pf[FETCH + 1][4], vf[FETCH + 1][4];
#pragma unroll
    for (int i = 0; i < PARTS + FETCH; i++) {
        if (i < PARTS) {
            const int k = i / PAIRS, n = i % PAIRS, column = warp * PAIRS + n; /* of 16 */
            if (n == 0) wr_ldmatrix4(pf[k % (FETCH + 1)], weight_at + (u32)(k * 32));
            wr_ldmatrix4_trans(vf[i % (FETCH + 1)],
                               values_at + (u32)(column / 4 * PANEL + k * 16 * WR_PANEL_ROW +
                                                 ((column % 4 * 2 + lane / 16) ^ (lane % 8)) * 16));
        }
        if (i < FETCH) continue;
        const int k = (i - FETCH) / PAIRS, n = (i - FETCH) % PAIRS;
        if (k < begin || k >= end || (E / 16 % 4 != 0 && warp * PAIRS + n >= E / 16)) continue;
        const u32 *f = vf[(i - FETCH) % (FETCH + 1)];
        wr_attn_mma<KV>(o[2 * n], pf[k % (FETCH + 1)], f[0], f[1]);
        wr_attn_mma<KV>(o[2 * n + 1], pf[k % (FETCH + 1)], f[2], f[3]);
    }
}

/* One row's part of a tile: the columns of o that this thread has, and its maximum and sum. h: which of the thread's
 * two rows it is. */
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

/* Scores of 16 rows and a quarter of the keys of the slot's block, which is for `warp`. held: the queries if HELD, else
 * they are read from query_at. Operands of steps of 16 columns and 16 keys are fetched FETCH steps ahead. */
template <int D, int KV, int BK, bool HELD>
WR_DEVICE void score_keys(float (*s)[4], const u32 (*held)[4], u32 query_at, u32 slot_at, int warp, int lane) {
    constexpr int KEY_TILES = BK / 32, PER_K = KEY_TILES / 2, STEPS = D / 16 * PER_K, PANEL = BK * WR_PANEL_ROW;
    /* Lane's row of K for ldmatrix, and which of two pieces of 16 bytes it takes. */
    const int key = warp * (BK / 4) + (lane >> 4) * 8 + lane % 8;
    const u32 keys_at = slot_at + (u32)key * WR_PANEL_ROW;
    u32 kf[FETCH + 1][4], q[HELD ? 1 : FETCH + 1][4];
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
    for (int i = 0; i < STEPS + FETCH; i++) {
        if (i < STEPS) {
            const int k = i / PER_K, n = i % PER_K;
            const u32 piece = (u32)(((k % 4 * 2 + ((lane >> 3) & 1)) ^ (lane % 8)) * 16 + k / 4 * PANEL);
            wr_ldmatrix4(kf[i % (FETCH + 1)], keys_at + piece + (u32)(n * 16 * WR_PANEL_ROW));
            if constexpr (!HELD)
                if (n == 0) wr_ldmatrix4(q[k % (FETCH + 1)], query_at + (u32)(k * 32));
        }
        if (i < FETCH) continue;
        const int k = (i - FETCH) / PER_K, n = (i - FETCH) % PER_K * 2;
        const u32 *f = kf[(i - FETCH) % (FETCH + 1)];
        const u32 *rows = HELD ? held[HELD ? k : 0] : q[HELD ? 0 : k % (FETCH + 1)];
        wr_attn_mma<KV>(s[n], rows, f[0], f[1]);
        wr_attn_mma<KV>(s[n + 1], rows, f[2], f[3]);
    }
}

/* A group of four warps has 16 of an item's rows; groups are in step only by the ring and where a tile is finished. The
 * next block's scores are on their way in the tensor cores before this one's values: they wait for nothing but keys. */
template <int D, int E, int KV, int GROUPS, int PER_SM>
WR_DEVICE void compute(const wr_attn_params *p, const decode_memory<D, E, GROUPS> &m) {
    constexpr int BK = WR_ATTN_BLOCK(D), KEY_TILES = BK / 32, PAIRS = (E / 16 + 3) / 4, BUFFERS = WR_ATTN_Q_BUFFERS(D);
    constexpr int P_ROW = BK * 2 + 16, ROWS = 16, Q_ROW = D * 2 + 16;
    /* Whether queries stay in registers, of which there are 168, 184 or 255. */
    constexpr bool HELD = D / 4 + KEY_TILES * 4 + PAIRS * 16 <= (PER_SM > 1 || GROUPS > 1 ? 80 : 160);
    const int group = (int)threadIdx.x / THREADS, warp = (int)threadIdx.x / 32 % WARPS;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, row = group * ROWS + g; /* and row + 8 */
    u8 *weights = m.work_of(group);
    float *maxima = (float *)(weights + ROWS * P_ROW), *sums = maxima + WARPS * ROWS; /* [WARPS][ROWS] each */
    const float c = p->log2_factor;
    decode_ring ring = {0, 0};
    bool merges_first = false; /* the tile of the chunk's first item */
    for (u32 number = 0;; number++) {
        const int buffer = (int)(number % BUFFERS);
        wr_bar_wait(m.job_full(buffer), (int)(number / BUFFERS & 1));
        const wr_attn_item *item = m.job(buffer);
        if (item->n_rows == 0) break;
        const int last = item->last, n_rows = item->n_rows;
        const bool folds = item->n_parts == 0 || item->part_span == item->span; /* spans are merged here */
        const u32 query_at = wr_smem(m.queries_of(buffer)) + (u32)((group * ROWS + lane % 16) * Q_ROW + lane / 16 * 16);
        u32 held[HELD ? D / 16 : 1][4];
        if constexpr (HELD)
#pragma unroll
            for (int k = 0; k < D / 16; k++) wr_ldmatrix4(held[k], query_at + (u32)(k * 32));
        int row_from[2], row_to[2]; /* keys that this thread's rows see */
#pragma unroll
        for (int h = 0; h < 2; h++) {
            i64 pos = item_pos(p, item, row + 8 * h);
            row_from[h] = (int)wr_attn_first_key(pos, p->window);
            row_to[h] = (int)wr_attn_last_key(pos, p->max_pages * WR_KV_TILE);
        }
        float o[PAIRS * 2][4], mx[2], l[2];      /* this span */
        float total[PAIRS * 2][4], tm[2], tl[2]; /* spans before, when they are merged here */
        mx[0] = mx[1] = tm[0] = tm[1] = WR_ATTN_NONE;
        l[0] = l[1] = tl[0] = tl[1] = 0.0f;
#pragma unroll
        for (int n = 0; n < PAIRS * 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) o[n][i] = total[n][i] = 0.0f;
        float s[KEY_TILES][4];
        u32 gone = 0;
        const auto score = [&] {
            wr_bar_wait(m.full(ring.slot), ring.parity);
            gone = wr_block_gone(*m.rows(ring.slot));
            score_keys<D, KV, BK, HELD>(s, held, query_at, wr_smem(m.slot(ring.slot)), warp, lane);
            release_slot(m.empty(ring.slot));
            step_ring(&ring, p->stages);
        };
        const int all_from = item->all_from, all_to = item->all_to;
        int span = item->span, span_end = (int)wr_attn_span_begin(span + 1);
        if (item->block <= last) score();
        for (int block = item->block; block <= last; block++) {
            if (p->softcap > 0.0f)
#pragma unroll
                for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) s[n][i] = wr_attn_score(s[n][i], p->softcap, p->softcap_scale);
            if (gone || block * BK < all_from || block * BK + BK - 1 > all_to) {
                const int key0 = block * BK + warp * (BK / 4) + 2 * t;
                const bool hole = gone & (BK > WR_KV_TILE && warp >= 2 ? 2u : 1u);
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int from = row_from[h] - key0, to = row_to[h] - key0;
#pragma unroll
                    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
                        for (int i = 0; i < 2; i++)
                            if (hole || n * 8 + i < from || n * 8 + i > to) s[n][2 * h + i] = WR_ATTN_NONE;
                }
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float best = WR_ATTN_NONE;
#pragma unroll
                for (int n = 0; n < KEY_TILES; n++) best = fmaxf(best, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
                best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 1));
                best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 2));
                if (t == 0) maxima[warp * ROWS + g + 8 * h] = best;
            }
            wr_barrier(2 + group, THREADS); /* maxima are there; the last block's weights and sums were read */

            float decay[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = g + 8 * h;
                float to = mx[h], sum = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS; w++) to = fmaxf(to, maxima[w * ROWS + r]);
                decay[h] = wr_attn_decay(mx[h], to, c);
                mx[h] = to;
                const float offset = wr_attn_offset(to, c);
#pragma unroll
                for (int n = 0; n < KEY_TILES; n++) {
                    float lo = wr_attn_weight(s[n][2 * h], offset, c), hi = wr_attn_weight(s[n][2 * h + 1], offset, c);
                    sum += lo;
                    sum += hi;
                    *(u32 *)(weights + r * P_ROW + (warp * (BK / 4) + n * 8 + 2 * t) * 2) = wr_attn_pack<KV>(lo, hi);
                }
                sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
                sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
                if (t == 0) sums[warp * ROWS + r] = sum;
            }
            wr_barrier(2 + group, THREADS); /* weights and sums are there; maxima were read */
            if (block < last) score();
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float *sum = sums + g + 8 * h;
                l[h] = fmaf(l[h], decay[h], ((sum[0] + sum[ROWS]) + sum[2 * ROWS]) + sum[3 * ROWS]);
#pragma unroll
                for (int n = 0; n < PAIRS * 2; n++) {
                    o[n][2 * h] *= decay[h];
                    o[n][2 * h + 1] *= decay[h];
                }
            }
            wr_bar_wait(m.full(ring.slot), ring.parity);
            /* Keys that are not there weigh nothing: their steps are left out. */
            const u32 there = *m.rows(ring.slot);
            const int first_step = wr_block_begin(there) / 16, end_step = (wr_block_end(there) + 15) / 16;
            const u32 values_at = wr_smem(m.slot(ring.slot)) + (u32)(lane % 16 * WR_PANEL_ROW);
            const u32 weight_at = wr_smem(weights) + (u32)(lane % 16 * P_ROW + (lane / 16) * 16);
            if (first_step == 0 && end_step == BK / 16)
                add_values<E, KV, BK>(o, 0, BK / 16, weight_at, values_at, warp, lane);
            else
                add_values<E, KV, BK>(o, first_step, end_step, weight_at, values_at, warp, lane);
            release_slot(m.empty(ring.slot));
            step_ring(&ring, p->stages);

            if (block < last && block + 1 < span_end) continue;
                /* The span is over. */
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + 8 * h;
                if (!folds && r < n_rows) write_part<E>(p, item, span - item->part_span, r, o, h, mx[h], l[h], warp, t);
                if (folds) {
                    float a, b;
                    wr_attn_merge(&tm[h], mx[h], c, &a, &b);
                    tl[h] = wr_attn_fold(tl[h], a, l[h], b);
#pragma unroll
                    for (int n = 0; n < PAIRS * 2; n++)
#pragma unroll
                        for (int i = 2 * h; i < 2 * h + 2; i++) total[n][i] = wr_attn_fold(total[n][i], a, o[n][i], b);
                }
                mx[h] = WR_ATTN_NONE;
                l[h] = 0.0f;
#pragma unroll
                for (int n = 0; n < PAIRS * 2; n++) o[n][2 * h] = o[n][2 * h + 1] = 0.0f;
            }
            span_end = (int)wr_attn_span_begin(++span + 1);
        }

        if (item->n_parts > 0) {
            if (folds)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    if (row + 8 * h < n_rows) write_part<E>(p, item, 0, row + 8 * h, total, h, tm[h], tl[h], warp, t);
            if (item->counter >= 0 && is_last_of_tile<GROUPS>(p, item, m.message())) {
                if (item->next < 0)
                    merge_tile(p, m, item);
                else /* a tile that is cut and no chunk's last is a chunk's first */
                    merges_first = true;
            }
        } else {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + 8 * h;
                if (r >= n_rows) continue;
                int q_head = item_head(p, item, r);
                float factor = 1.0f;
                if (p->sinks && item->seq >= 0) factor = wr_attn_sink(tm[h], &tl[h], p->sinks[q_head], c);
                float inverse = wr_attn_inverse(tl[h]);
                i64 at = ((i64)item_row(p, item, r) * p->n_heads + q_head) * E + warp * PAIRS * 16 + 2 * t;
#pragma unroll
                for (int n = 0; n < PAIRS * 2; n++) {
                    if (E / 16 % 4 != 0 && warp * PAIRS + n / 2 >= E / 16) break;
                    store_pair(p, at + n * 8, total[n][2 * h] * factor * inverse,
                               total[n][2 * h + 1] * factor * inverse);
                }
            }
        }
        wr_bar_arrive(m.job_empty(buffer));
    }
    if (!merges_first) return;
    wr_barrier(1, GROUPS * THREADS); /* the ring is free */
    merge_tile(p, m, p->items + chunk_of_block(PER_SM));
}

template <int D, int E, int KV, int GROUPS, int PER_SM> WR_DEVICE void decode(const wr_attn_params *p, u8 *memory) {
    const decode_memory<D, E, GROUPS> m(memory, p->stages);
    if (threadIdx.x == 0) {
        for (int i = 0; i < p->stages; i++) {
            wr_bar_init(m.full(i), 32);              /* lanes of the warp that feeds */
            wr_bar_init(m.empty(i), GROUPS * WARPS); /* one each */
        }
        for (int i = 0; i < WR_ATTN_Q_BUFFERS(D); i++) {
            wr_bar_init(m.job_known(i), 32);                    /* of the first warp that leads */
            wr_bar_init(m.job_full(i), GROUPS * 32);            /* of all that lead */
            wr_bar_init(m.job_empty(i), GROUPS * THREADS + 32); /* who compute, and the warp that feeds */
        }
        wr_bar_init_done();
    }
    __syncthreads();
    wr_grid_wait();
    const wr_attn_item *first = p->items + chunk_of_block(PER_SM);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const u32 word = wr_load4_kept((const u32 *)first + lane);
    if (ITEM_FIELD(word, n_rows) == 0) return; /* nothing to do */
    if (warp < GROUPS * WARPS)
        compute<D, E, KV, GROUPS, PER_SM>(p, m);
    else if (warp < GROUPS * (WARPS + 1))
        lead<D, E, KV, GROUPS>(p, m, word, warp - GROUPS * WARPS);
    else
        feed<D, E, GROUPS>(p, m, word);
}

/* Instances for keys of one type: D, E, groups (of 16 query rows), blocks a multiprocessor. src/cuda/attention.c has
 * the same list. */
#define WR_ATTN_DECODE(name, type, D, E, GROUPS, PER_SM)                                                               \
    WR_KERNEL(wr_attn_decode_##name, wr_attn_params, WR_ATTN_DECODE_THREADS(GROUPS), PER_SM) {                         \
        WR_DYNAMIC_SHARED(memory);                                                                                     \
        wr_grid_launch();                                                                                              \
        decode<D, E, type, GROUPS, PER_SM>(&p, memory);                                                                \
    }
#define WR_ATTN_DECODES(type, suffix)                                                                                  \
    WR_ATTN_DECODE(64_1##suffix, type, 64, 64, 1, 2)                                                                   \
    WR_ATTN_DECODE(64_2##suffix, type, 64, 64, 2, 1)                                                                   \
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
