/* Prefill over paged KV on wgmma, bf16 keys, pages of 64: the same bits as the decode and reference kernels, whose
 * definition stands in attention.cuh.
 *
 * A tile is 128 query rows, tokens x the heads of one KV group (row i: token i / group, head i % group), of one run of
 * one sequence, so K and V are read once for the whole group. The grid is one block a multiprocessor; blocks take
 * tiles from the schedule, longest first. In a block one warp copies K and V in bulk into a ring of tiles, which lie in
 * the pages as they are wanted here (array/kv.h), and two warpgroups of 64 query rows each compute. Entries of the
 * ring: K0 K1 V0 K2 V1 ... : the scores of block j + 1 are issued before P x V of block j, and the softmax of j + 1
 * runs under that product. The two warpgroups take turns in issuing, so that one's softmax runs under the other's
 * products. P stays in registers.
 *
 * Totals of finished spans: 128 columns in shared memory (touched once per span by the thread that owns them); for
 * E = 256 the other 128 columns lie in global memory, 64 KiB a block that stay in L2.
 *
 * Layouts in shared memory (rows of 128 bytes, swizzled as wr_wgmma_desc says): q [panel of 64 columns][128 rows], K
 * [panel][key] as a K-major operand, V [panel][key] as an MN-major one. Head sizes 80 and 96 use a second panel in
 * part; the product's columns past E are dropped.
 *
 * Bytes: tiles x keys seen x (D + E) x 2 x G from L2; operations 2 H (D + E) x keys seen by all rows.
 * Measured on 30 November 2026, H200, bf16, causal, TFLOP/s; in brackets: with pages [page][G][D], which a warpgroup
 * copied by cp.async:
 *   8 KV heads, group 4, head 128:  2,048 rows 308 (298)    8,192 rows 461 (433)    2,048 rows behind 30,720 keys 512
 * (479) 2 KV heads, group 8, head 256:  8,192 rows 321 (302; totals four bytes at a time in the output: 232) 3 KV
 * heads, group 3, head 64:   8,192 rows 306 (300) Registers: 232 a thread that computes, 40 for one that copies; with
 * 24 the copying warp spills. Dropped: descriptors from a warpgroup number that the compiler does not know to be
 * uniform (32 registers more, spills in the loop at head 256). Not tried: Q in registers, the next tile's Q under the
 * last block. */
#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/attention_prefill.h"
#include "cuda/kernels/pages.cuh"

#if WR_HAS_WGMMA

/* Barriers, 8 bytes each, from the start of their area; then flags of missing pages by slot, then the tiles' numbers,
 * then of each row of the tile its number among T * H rows of q and of the output, -1 past the end of the run. */
enum { FULL = 0, EMPTY = 32, TURN = 64, WORK_FULL = 80, WORK_EMPTY = 96, MISSING = 128, WORK = 160, ROWS = 256 };

/* One tile. */
typedef struct prefill_tile {
    wr_attn_prefill_item item;
    int head;                /* of the KV */
    int first, last;         /* keys that some row sees */
    int all_first, all_last; /* and those that every row sees */
    int begin, end;          /* blocks */
} prefill_tile;

WR_DEVICE int key_limit(const wr_attn_params *p) {
    i64 keys = p->max_pages * WR_KV_TILE;
    return keys < 0x7FFFFFFF ? (int)keys : 0x7FFFFFFF;
}

WR_DEVICE u32 count_tiles(const wr_attn_params *p) { return p->schedule->n_prefill * (u32)p->kv_heads; }

template <int BLOCK> WR_DEVICE prefill_tile find_tile(const wr_attn_params *p, u32 index) {
    prefill_tile tile;
    tile.item = p->prefill[index / (u32)p->kv_heads];
    tile.head = (int)(index % (u32)p->kv_heads);
    i64 first = wr_attn_first_key(tile.item.pos, p->window);
    i64 last = wr_attn_last_key((i64)tile.item.pos + tile.item.n_rows - 1, key_limit(p));
    bool none = last < first || tile.item.seq < 0 || tile.item.seq >= p->n_seqs;
    tile.first = (int)first;
    tile.last = (int)last;
    tile.all_first = (int)wr_attn_first_key((i64)tile.item.pos + tile.item.n_rows - 1, p->window);
    tile.all_last = (int)wr_attn_last_key(tile.item.pos, key_limit(p));
    tile.begin = none ? 0 : (int)(first / BLOCK);
    tile.end = none ? 0 : (int)(last / BLOCK) + 1;
    return tile;
}

/* ---- the warp that copies ---- */

/* Number n of the block's tiles, for everyone. */
WR_DEVICE void publish(const wr_attn_params *p, u8 *area, u32 bars, u32 n) {
    u32 place = n & 1;
    if (n >= 2) wr_bar_wait(bars + WORK_EMPTY + place * 8, (int)((n >> 1) - 1) & 1);
    u32 tile = n == 0 ? blockIdx.x : gridDim.x + atomicAdd(&p->schedule->prefill_next, 1u);
    ((volatile u32 *)(area + WORK))[place] = tile;
    wr_bar_arrive(bars + WORK_FULL + place * 8);
}

/* Number n of the tiles, by every warp once. */
WR_DEVICE u32 next_tile(u8 *area, u32 bars, u32 n) {
    u32 place = n & 1;
    wr_bar_wait(bars + WORK_FULL + place * 8, (int)(n >> 1) & 1);
    u32 tile = ((volatile u32 *)(area + WORK))[place];
    __syncwarp();
    if (threadIdx.x % 32 == 0) wr_bar_arrive(bars + WORK_EMPTY + place * 8);
    return __shfl_sync(0xFFFFFFFFu, tile, 0);
}

/* Blocks of keys and values into the ring: K0 K1 V0 K2 V1 ... */
template <int D, int E> WR_DEVICE void copy_tiles(const wr_attn_params *p, u8 *area, u8 *slots, u32 bars) {
    enum { BLOCK = WR_ATTN_BLOCK(D), STAGES = WR_PREFILL_STAGES(D), SLOT = WR_ATTN_SLOT(D, E) };
    enum { PAGES = BLOCK / WR_KV_TILE };
    const bool leader = threadIdx.x % 32 == 0;
    u32 entry = 0;
    if (leader) publish(p, area, bars, 0);
    for (u32 n = 0;; n++) {
        u32 index = next_tile(area, bars, n);
        if (index >= count_tiles(p)) break;
        if (leader) publish(p, area, bars, n + 1);
        const prefill_tile tile = find_tile<BLOCK>(p, index);
        const int n_blocks = tile.end - tile.begin;
        i32 pages[2] = {-1, -1}; /* of keys, of values: lane i has the page 32 pages are read at a time for */
        for (int e = 0; e < 2 * n_blocks; e++, entry++) {
            const u32 slot = entry % STAGES, round = entry / STAGES;
            const bool values = e == 2 * n_blocks - 1 || (e > 0 && e % 2 == 0);
            const int number = e == 2 * n_blocks - 1 ? n_blocks - 1 : values ? e / 2 - 1 : (e + 1) / 2;
            const int block = tile.begin + number, at = number * PAGES % 32;
            if (at == 0) {
                const i32 more = wr_attn_pages_from(p, tile.item.seq, (i64)block * PAGES);
                values ? pages[1] = more : pages[0] = more;
            }
            i32 page[PAGES];
#pragma unroll
            for (int i = 0; i < PAGES; i++) page[i] = __shfl_sync(0xFFFFFFFFu, values ? pages[1] : pages[0], at + i);
            const int low = tile.first - block * BLOCK, high = tile.last + 1 - block * BLOCK;
            u8 *to = slots + slot * SLOT;
            wr_bar_wait(bars + EMPTY + slot * 8, (int)(round & 1) ^ 1);
            volatile u32 *missing = (volatile u32 *)(area + MISSING) + slot;
            if (values)
                wr_copy_block<BLOCK, WR_ATTN_PANELS(E), BLOCK>(p->v, page, tile.head, p->kv_heads, low, high, to,
                                                               missing, bars + FULL + slot * 8);
            else
                wr_copy_block<BLOCK, WR_ATTN_PANELS(D), 0>(p->k, page, tile.head, p->kv_heads, low, high, to, missing,
                                                           bars + FULL + slot * 8);
        }
    }
    if (leader) {
        /* The last block to come here has seen every other take its last number. */
        u32 done = atomicAdd(&p->schedule->prefill_done, 1u);
        if (done == gridDim.x - 1) {
            p->schedule->prefill_next = 0;
            p->schedule->prefill_done = 0;
        }
    }
}

/* ---- the warpgroups that compute ---- */

/* What a thread knows of its rows g and g + 8 of the warp's sixteen. Registers are scarce: what can be found again is
 * not kept. */
typedef struct prefill_rows {
    int pos[2];
    float m[2], l[2];         /* of the running span */
    float m_all[2], l_all[2]; /* of the spans before */
} prefill_rows;

template <int N> WR_DEVICE void scores_step(float *s, u64 a, u64 b, int add) {
    if constexpr (N == 64) wr_wgmma_ss_64(s, a, b, add);
    if constexpr (N == 128) wr_wgmma_ss_128(s, a, b, add);
}
template <int N> WR_DEVICE void values_step(float *o, const u32 *a, u64 b, int add) {
    if constexpr (N == 64) wr_wgmma_rs_tb_64(o, a, b, add);
    if constexpr (N == 128) wr_wgmma_rs_tb_128(o, a, b, add);
    if constexpr (N == 256) wr_wgmma_rs_tb_256(o, a, b, add);
}

/* s = q K^T, started. */
template <int D, int BLOCK> WR_DEVICE void start_scores(float *s, u32 q, u32 keys) {
    wr_wgmma_fence();
#pragma unroll
    for (int k = 0; k < D / 16; k++)
        scores_step<BLOCK>(s, wr_wgmma_desc(q + k / 4 * (WR_PREFILL_ROWS * 128) + k % 4 * 32, 16, 1024),
                           wr_wgmma_desc(keys + k / 4 * (BLOCK * 128) + k % 4 * 32, 16, 1024), k > 0);
    wr_wgmma_commit();
}

/* o += P V, started; o = P V when fresh. */
template <int WIDE, int BLOCK> WR_DEVICE void start_values(float *o, const u32 *weights, u32 values, bool fresh) {
    wr_wgmma_fence();
#pragma unroll
    for (int k = 0; k < BLOCK / 16; k++)
        values_step<WIDE>(o, weights + 4 * k, wr_wgmma_desc(values + k * 2048, BLOCK * 128, 1024), k > 0 || !fresh);
    wr_wgmma_commit();
}

/* Keys that a row does not see: -inf. key0: the block's first; missing: a bit for each page. */
template <int BLOCK>
WR_DEVICE void hide(const wr_attn_params *p, float *s, const prefill_rows *rows, int key0, u32 missing) {
    int base = key0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int first = (int)wr_attn_first_key(rows->pos[h], p->window);
        int last = (int)wr_attn_last_key(rows->pos[h], key_limit(p));
#pragma unroll
        for (int z = 2 * h; z < BLOCK / 2; z += z % 2 ? 3 : 1) {
            int key = base + z / 4 * 8 + z % 2;
            bool gone = z / 4 * 8 / WR_KV_TILE ? missing & 2 : missing & 1;
            if (key < first || key > last || gone) s[z] = WR_ATTN_NONE;
        }
    }
}

/* Scores to weights of the running span; decay: what o is to be multiplied by. */
template <int BLOCK> WR_DEVICE void soften(float *s, prefill_rows *rows, float c, float *decay) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = WR_ATTN_NONE, sum = 0.0f;
#pragma unroll
        for (int z = 2 * h; z < BLOCK / 2; z += 4) top = fmaxf(top, fmaxf(s[z], s[z + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 2));
        top = fmaxf(top, rows->m[h]);
        float offset = wr_attn_offset(top, c);
        decay[h] = wr_attn_decay(rows->m[h], top, c);
        rows->m[h] = top;
#pragma unroll
        for (int group = 0; group < 4; group++) {
            float part = 0.0f;
#pragma unroll
            for (int n = 0; n < BLOCK / 32; n++) {
                int z = (group * (BLOCK / 32) + n) * 4 + 2 * h;
                s[z] = wr_attn_weight(s[z], offset, c);
                s[z + 1] = wr_attn_weight(s[z + 1], offset, c);
                part += s[z];
                part += s[z + 1];
            }
            part += __shfl_xor_sync(0xFFFFFFFFu, part, 1);
            part += __shfl_xor_sync(0xFFFFFFFFu, part, 2);
            sum = group == 0 ? part : sum + part;
        }
        rows->l[h] = fmaf(rows->l[h], decay[h], sum);
    }
}

/* Weights as the A operand of P x V. */
template <int BLOCK> WR_DEVICE void pack_weights(u32 *weights, const float *s) {
#pragma unroll
    for (int i = 0; i < BLOCK / 4; i++) weights[i] = wr_attn_pack<WR_ATTN_BF16>(s[2 * i], s[2 * i + 1]);
}

/* Row `row` of the tile among T * H, as the list at ROWS says. */
WR_DEVICE i64 find_row(const wr_attn_params *p, const wr_attn_prefill_item *item, int head, int row) {
    int token = row / p->group;
    if (token >= item->n_rows) return -1;
    return (i64)(item->row + token) * p->n_heads + head * p->group + row % p->group;
}

/* Totals of the columns that shared memory has no space for: fours of the thread's columns, [16][128 threads]. */
template <int E>
WR_DEVICE void merge_outside(float *o, uint4 *totals, const float *a, const float *b, bool first, bool last) {
    enum { KEPT = WR_PREFILL_KEPT(E) };
#pragma unroll
    for (int i = 0; i < (E - KEPT) / 8; i++) {
        float *x = o + KEPT / 2 + i * 4; /* two of row g, two of row g + 8 */
        uint4 v = {0, 0, 0, 0};
        if (!first) v = totals[i * 128];
        x[0] = wr_attn_fold(wr_bits_f32(v.x), a[0], x[0], b[0]);
        x[1] = wr_attn_fold(wr_bits_f32(v.y), a[0], x[1], b[0]);
        x[2] = wr_attn_fold(wr_bits_f32(v.z), a[1], x[2], b[1]);
        x[3] = wr_attn_fold(wr_bits_f32(v.w), a[1], x[3], b[1]);
        uint4 w = {wr_f32_bits(x[0]), wr_f32_bits(x[1]), wr_f32_bits(x[2]), wr_f32_bits(x[3])};
        if (!last) totals[i * 128] = w;
    }
}

/* The span with maxima m and sums l, whose outputs are o, joins the totals. first: there are none yet. last: o becomes
 * the totals, which are not stored. totals: shared, [KEPT / 2][128 threads]. */
template <int E>
WR_DEVICE void merge_span(const wr_attn_params *p, float *o, prefill_rows *rows, const float *m, const float *l,
                          float *totals, int wg, bool first, bool last) {
    enum { KEPT = WR_PREFILL_KEPT(E) };
    float a[2], b[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        wr_attn_merge(&rows->m_all[h], m[h], p->log2_factor, &a[h], &b[h]);
        rows->l_all[h] = wr_attn_fold(rows->l_all[h], a[h], l[h], b[h]);
    }
#pragma unroll
    for (int z = 0; z < KEPT / 2; z++) {
        int h = z / 2 % 2;
        float old = first ? 0.0f : totals[z * 128];
        o[z] = wr_attn_fold(old, a[h], o[z], b[h]);
        if (!last) totals[z * 128] = o[z];
    }
    if constexpr (E > KEPT)
        merge_outside<E>(o,
                         (uint4 *)((u8 *)p->partial + blockIdx.x * (u64)WR_PREFILL_OUTSIDE_BYTES(E) +
                                   wg * (WR_PREFILL_OUTSIDE_BYTES(E) / 2)) +
                             threadIdx.x % 128,
                         a, b, first, last);
}

/* The warpgroup's 64 query rows into shared memory, and where they lie. */
template <int D>
WR_DEVICE void load_queries(const wr_attn_params *p, const prefill_tile *tile, u8 *area, u8 *q, int wg) {
    enum { PIECES = D / 8, PASSES = PIECES / 2 };
    const int thread = threadIdx.x % 128;
    i64 *list = (i64 *)(area + ROWS) + wg * 64;
    if (thread < 64) list[thread] = find_row(p, &tile->item, tile->head, wg * 64 + thread);
    wr_barrier(1 + wg, 128);
    const wr_rope_use rope = {p->rope, p->rope ? p->half : 0, p->interleaved};
    const bool vectors =
        p->q_type == WR_ATTN_BF16 && !p->rope && ((u64)p->q | (u64)(p->q_row | p->q_head) * 2) % 16 == 0;
    const int dtype = wr_attn_dtype(p->q_type);
#pragma unroll 2
    for (int i = 0; i < PASSES; i++) {
        const int place = thread + i * 128, row = place / PIECES, piece = place % PIECES;
        const i64 unit = list[row], token = unit / p->n_heads, at = token * p->q_row + unit % p->n_heads * p->q_head;
        u8 *target = q + piece / 8 * (WR_PREFILL_ROWS * 128) + (wg * 64 + row) * 128 + ((piece % 8 ^ (row & 7)) << 4);
        if (vectors) {
            wr_cp16_or_zero(wr_smem(target), (const u16 *)p->q + (unit < 0 ? 0 : at + piece * 8), unit >= 0);
        } else {
            float v[8];
            uint4 packed = {0, 0, 0, 0};
            if (unit >= 0) {
                wr_eight_rotated(v, p->q, dtype, at, piece * 8, token, rope);
                packed = make_uint4(wr_pack_bf16(v[0], v[1]), wr_pack_bf16(v[2], v[3]), wr_pack_bf16(v[4], v[5]),
                                    wr_pack_bf16(v[6], v[7]));
            }
            *(uint4 *)target = packed;
        }
    }
    wr_cp_commit();
    wr_cp_wait<0>();
    wr_fence_async();
    wr_barrier(1 + wg, 128);
}

/* Sinks, division, rounding, output. */
template <int E>
WR_DEVICE void write_rows(const wr_attn_params *p, const u8 *area, const float *o, prefill_rows *rows, int row0) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        i64 row = ((const i64 *)(area + ROWS))[row0 + 8 * h];
        if (row < 0) continue;
        float factor = 1.0f;
        if (p->sinks)
            factor = wr_attn_sink(rows->m_all[h], &rows->l_all[h], p->sinks[row % p->n_heads], p->log2_factor);
        float inverse = wr_attn_inverse(rows->l_all[h]);
        i64 at = row * E + threadIdx.x % 4 * 2;
        bool pairs = p->out_type != WR_ATTN_F32 && (u64)p->out % 4 == 0;
#pragma unroll
        for (int z = 2 * h; z < E / 2; z += 4) {
            float lo = o[z] * factor * inverse, hi = o[z + 1] * factor * inverse;
            if (pairs) {
                *(u32 *)((u16 *)p->out + at + z / 4 * 8) =
                    p->out_type == WR_ATTN_BF16 ? wr_pack_bf16(lo, hi) : wr_pack_f16(lo, hi);
            } else {
                wr_attn_store(p->out, at + z / 4 * 8, p->out_type, lo);
                wr_attn_store(p->out, at + z / 4 * 8 + 1, p->out_type, hi);
            }
        }
    }
}

/* Where a warpgroup stands in the ring and in its turns. */
typedef struct prefill_ring {
    u32 entry, turn;
} prefill_ring;

template <int STAGES> WR_DEVICE u32 await_entry(prefill_ring *ring, u32 bars) {
    u32 slot = ring->entry % STAGES;
    wr_bar_wait(bars + FULL + slot * 8, (int)(ring->entry / STAGES & 1));
    ring->entry++;
    return slot;
}
WR_DEVICE void release(u32 bars, u32 slot) {
    if (threadIdx.x % 32 == 0) wr_bar_arrive(bars + EMPTY + slot * 8);
}
WR_DEVICE void take_turn(prefill_ring *ring, u32 bars, int wg) {
    wr_bar_wait(bars + TURN + wg * 8, (int)(ring->turn & 1));
    ring->turn++;
}
WR_DEVICE void pass_turn(u32 bars, int wg) {
    if (threadIdx.x % 32 == 0) wr_bar_arrive(bars + TURN + (wg ^ 1) * 8);
}

/* Dot products to weights of block `block`. */
template <int BLOCK>
WR_DEVICE void weigh(const wr_attn_params *p, const prefill_tile *tile, float *s, prefill_rows *rows, int block,
                     u32 missing, float *decay) {
    if (p->softcap > 0.0f) {
#pragma unroll
        for (int z = 0; z < BLOCK / 2; z++) s[z] = wr_attn_score(s[z], p->softcap, p->softcap_scale);
    }
    /* Uniform over the block: does any row of the tile not see a key of these? */
    int key0 = block * BLOCK;
    if (missing || key0 > tile->all_last - (BLOCK - 1) || key0 < tile->all_first)
        hide<BLOCK>(p, s, rows, key0, missing);
    soften<BLOCK>(s, rows, p->log2_factor, decay);
}

template <int D, int E>
WR_DEVICE void attend_tile(const wr_attn_params *p, const prefill_tile *tile, prefill_ring *ring, u8 *area, u32 bars,
                           u32 q, u32 slots, float *totals, int wg) {
    enum {
        BLOCK = WR_ATTN_BLOCK(D),
        STAGES = WR_PREFILL_STAGES(D),
        SLOT = WR_ATTN_SLOT(D, E),
        WIDE = WR_ATTN_PANELS(E) * 64
    };
    volatile u32 *missing = (volatile u32 *)(area + MISSING);
    float o[WIDE / 2], s[BLOCK / 2], decay[2];
    u32 weights[BLOCK / 4];
    prefill_rows rows;
    int row0 = wg * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int token = (row0 + 8 * h) / p->group;
        rows.pos[h] = tile->item.pos + (token < tile->item.n_rows ? token : tile->item.n_rows - 1);
        rows.m[h] = rows.m_all[h] = WR_ATTN_NONE;
        rows.l[h] = rows.l_all[h] = 0.0f;
    }
#pragma unroll
    for (int z = 0; z < WIDE / 2; z++) o[z] = 0.0f;
    if (tile->begin < tile->end) {
        u32 slot = await_entry<STAGES>(ring, bars);
        take_turn(ring, bars, wg);
        start_scores<D, BLOCK>(s, q, slots + slot * SLOT);
        pass_turn(bars, wg);
        wr_wgmma_wait<0>();
        u32 gone = wr_block_gone(missing[slot]);
        __syncwarp();
        release(bars, slot);
        weigh<BLOCK>(p, tile, s, &rows, tile->begin, gone, decay);
        pack_weights<BLOCK>(weights, s);
        bool fresh = true, merged = false;
        for (int block = tile->begin + 1; block < tile->end; block++) {
            u32 key_slot = await_entry<STAGES>(ring, bars);
            take_turn(ring, bars, wg);
            start_scores<D, BLOCK>(s, q, slots + key_slot * SLOT);
            u32 value_slot = await_entry<STAGES>(ring, bars);
            start_values<WIDE, BLOCK>(o, weights, slots + value_slot * SLOT, fresh);
            pass_turn(bars, wg);
            wr_wgmma_wait<1>();
            gone = wr_block_gone(missing[key_slot]);
            __syncwarp();
            release(bars, key_slot);
            float span_m[2] = {rows.m[0], rows.m[1]}, span_l[2] = {rows.l[0], rows.l[1]};
            bool crosses = wr_attn_span_begin(wr_attn_span_of(block)) == block;
            if (crosses) {
                rows.m[0] = rows.m[1] = WR_ATTN_NONE;
                rows.l[0] = rows.l[1] = 0.0f;
            }
            weigh<BLOCK>(p, tile, s, &rows, block, gone, decay);
            wr_wgmma_wait<0>();
            release(bars, value_slot);
            if (crosses) {
                merge_span<E>(p, o, &rows, span_m, span_l, totals, wg, !merged, false);
                merged = true;
            } else {
#pragma unroll
                for (int z = 0; z < WIDE / 2; z++) o[z] *= decay[z / 2 % 2];
            }
            fresh = crosses;
            pack_weights<BLOCK>(weights, s);
        }
        slot = await_entry<STAGES>(ring, bars);
        start_values<WIDE, BLOCK>(o, weights, slots + slot * SLOT, fresh);
        wr_wgmma_wait<0>();
        release(bars, slot);
        merge_span<E>(p, o, &rows, rows.m, rows.l, totals, wg, !merged, true);
    }
    write_rows<E>(p, area, o, &rows, row0);
}

template <int D, int E> WR_DEVICE void prefill(const wr_attn_params *p, u8 *shared) {
    enum { BLOCK = WR_ATTN_BLOCK(D), STAGES = WR_PREFILL_STAGES(D), SLOT = WR_ATTN_SLOT(D, E) };
    u8 *totals = shared + WR_PREFILL_Q_BYTES(D) + STAGES * SLOT, *area = totals + WR_PREFILL_KEPT_BYTES(E);
    u32 q = wr_smem(shared), slots = q + WR_PREFILL_Q_BYTES(D), bars = wr_smem(area);
    /* By way of a shuffle, so that the compiler knows it to be the same in a warp and keeps descriptors in uniform
     * registers; else they cost 32 registers a thread, or spills. */
    int wg = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            wr_bar_init(bars + FULL + i * 8, 32); /* lanes of the warp that copies */
            wr_bar_init(bars + EMPTY + i * 8, 8); /* warps that compute */
        }
        for (int i = 0; i < 2; i++) {
            wr_bar_init(bars + TURN + i * 8, 4);
            wr_bar_init(bars + WORK_FULL + i * 8, 1);
            wr_bar_init(bars + WORK_EMPTY + i * 8, 9); /* all warps that work */
        }
        wr_bar_init_done();
    }
    __syncthreads();
    wr_grid_wait();
    wr_grid_launch();
    if (wg == 2) {
        wr_registers_fewer<40>();
        if (threadIdx.x / 32 == 8) copy_tiles<D, E>(p, area, shared + WR_PREFILL_Q_BYTES(D), bars);
    } else {
        wr_registers_more<232>();
        prefill_ring ring = {0, 0};
        if (wg == 1) pass_turn(bars, wg); /* the first turn */
        for (u32 n = 0;; n++) {
            u32 index = next_tile(area, bars, n);
            if (index >= count_tiles(p)) break;
            prefill_tile tile = find_tile<BLOCK>(p, index);
            wr_barrier(1 + wg, 128); /* nobody reads the last tile's queries any more */
            load_queries<D>(p, &tile, area, shared, wg);
            attend_tile<D, E>(p, &tile, &ring, area, bars, q + wg * 8192, slots,
                              (float *)totals + wg * (WR_PREFILL_KEPT(E) / 2 * 128) + threadIdx.x % 128, wg);
        }
    }
}

#define PREFILL(d, e)                                                                                                  \
    WR_KERNEL(wr_attn_prefill_##d, wr_attn_params, WR_PREFILL_THREADS, 1) {                                            \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        prefill<d, e>(&p, shared);                                                                                     \
    }

PREFILL(64, 64)
PREFILL(80, 80)
PREFILL(96, 96)
PREFILL(128, 128)
PREFILL(192, 128)
PREFILL(256, 256)

#endif
