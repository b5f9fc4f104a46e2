/* Prefill over paged KV on wgmma, bf16 keys, pages of 64: the same bits as the decode and reference kernels, whose
 * definition stands in attention.cuh.
 *
 * A tile is 128 query rows, tokens x the heads of one KV group (row i: token i / group, head i % group), of one run of
 * one sequence, so K and V are read once for the whole group. The grid is one block a multiprocessor; blocks take
 * tiles from the schedule, longest first. In a block one warp copies K and V in bulk into a ring of tiles, which lie in
 * the pages as they are wanted here (array/kv.h), and two warpgroups of 64 query rows each compute. Entries of the
 * ring: K0 K1 V0 K2 V1 ... : the scores of block j + 1 are issued before P x V of block j, and the softmax of j + 1
 * runs under that product; at head size 256 the first product is over before the softmax, and only the other
 * warpgroup's run under it. P stays in registers.
 *
 * Totals of finished spans, touched once per span by the thread that owns them, lie in shared memory; of E = 256, 64
 * columns in registers, 160 in shared memory and 32 in global memory, 16 KiB a block that stay in L2.
 *
 * Layouts in shared memory (rows of 128 bytes, swizzled as wr_wgmma_desc says): q [panel of 64 columns][128 rows], K
 * [panel][key] as a K-major operand, V [panel][key] as an MN-major one. Head sizes 80 and 96 use a second panel in
 * part; the product's columns past E are dropped.
 *
 * Bytes: tiles x keys seen x (D + E) x 2 x G from L2; operations 2 H (D + E) x keys seen by all rows.
 * Measured on 30 November 2026, H200, bf16, causal, TFLOP/s (medians of 15, three runs of each in turn; in brackets the
 * version before, with turns in issuing, in the same run):
 *   8 KV heads, group 4, head 128:   8,192 rows 476 (460)    2,048 rows behind 30,720 keys 540 (508)
 *   2 KV heads, group 8, head 256:   8,192 rows 424 (320)    2,048 rows behind 30,720 keys 483 (355)
 * Without spans (other bits) the same kernels reach 540-600 and 530-560 at 8,192 rows, where a span is two or three
 * blocks long on average; spans of twice the length gave 454 instead of 430 at head 256.
 * What it took at head 256: no wgmma serialised by ptxas for want of registers (warning C7511; descriptors are made
 * from one word a step instead of being kept) 353; entries of half a block and 192 columns of the totals in shared
 * memory, 64 in registers, 349 with four entries and turns, 392 to 410 without turns; 160 and 64 with five entries 430;
 * 128 and 64 with six 405, 128 and none 373. At head 128: the wait for P x V behind the softmax, where it was written
 * but ptxas did not leave it, and no turns. Dropped: that wait behind the softmax at head 256 (405: values are released
 * later); factors of a span kept over the softmax there, and o scaled after the scores are issued (both serialise
 * wgmma); 32 or 64 columns of the totals in registers at head 128 (445 to 469); turns (head 256: 378; head 128 the same
 * as none); descriptors from a warpgroup number that the compiler does not know to be uniform; totals four bytes at a
 * time in the output (232 at head 256). Not tried: K and V shared by a cluster, the next tile's Q under the last block.
 */
#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/attention_prefill.h"
#include "cuda/kernels/pages.cuh"

#if WR_HAS_WGMMA

/* Barriers, 8 bytes each, from the start of their area; then flags of missing pages by slot, the tiles' numbers, and of
 * each row of the tile: its number among T * H rows of q and of the output (-1 past the end of the run), its position,
 * and maximum and sum of the spans that are merged. */
enum {
    FULL = 0,
    EMPTY = 64,
    WORK_FULL = 128,
    WORK_EMPTY = 144,
    MISSING = 192,
    WORK = 224,
    ROWS = 256,
    POSITIONS = ROWS + WR_PREFILL_ROWS * 8,
    MERGED = POSITIONS + WR_PREFILL_ROWS * 4
};

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

/* Number n of the tiles, by every warp once. What lies between two barriers is read by the lane that arrives at the
 * second: racecheck knows of no other. */
WR_DEVICE u32 next_tile(u8 *area, u32 bars, u32 n) {
    u32 place = n & 1, tile = 0;
    wr_bar_wait(bars + WORK_FULL + place * 8, (int)(n >> 1) & 1);
    if (threadIdx.x % 32 == 0) {
        tile = ((volatile u32 *)(area + WORK))[place];
        wr_bar_arrive(bars + WORK_EMPTY + place * 8);
    }
    return __shfl_sync(0xFFFFFFFFu, tile, 0);
}

/* ROWS rows from row0 on of PANELS panels from panel0 on, of a page with ALL panels a head, as wr_copy_block does it:
 * only rows [low, high) of the page; with CLEAR, the others become zeros. */
template <int ROWS, int PANELS, int ALL, bool CLEAR>
WR_DEVICE void copy_part(const void *pool, i32 page, int head, int heads, int panel0, int row0, int low, int high,
                         u8 *slot, volatile u32 *word, u32 bar) {
    const int lane = threadIdx.x % 32;
    int begin = max(low - row0, 0), end = page < 0 ? 0 : min(high - row0, ROWS);
    if (end <= begin) begin = end = 0;
    const int n = end - begin;
    if (CLEAR && n < ROWS) {
        wr_clear_rows<ROWS, PANELS>(slot, 0, begin);
        wr_clear_rows<ROWS, PANELS>(slot, end, ROWS);
        wr_fence_async();
    }
    if (lane == 0) *word = page < 0;
    if (lane == 0)
        wr_bar_expect(bar, (u32)(n * WR_PANEL_ROW * PANELS));
    else
        wr_bar_arrive(bar);
    if (lane < PANELS && n) {
        const i64 at = ((i64)page * heads + head) * ALL + panel0 + lane;
        wr_bulk_copy(wr_smem(slot + (lane * ROWS + begin) * WR_PANEL_ROW),
                     (const u8 *)pool + at * WR_PANEL_BYTES + (row0 + begin) * WR_PANEL_ROW, n * WR_PANEL_ROW, bar);
    }
    __syncwarp();
}

/* A block's keys or values into the next entries of the ring. */
template <int D, int E, bool VALUES>
WR_DEVICE void copy_entries(const wr_attn_params *p, const prefill_tile *tile, const i32 *page, int block, u8 *area,
                            u8 *slots, u32 bars, u32 *entry) {
    enum { BLOCK = WR_ATTN_BLOCK(D), STAGES = WR_PREFILL_STAGES(D), SLOT = WR_PREFILL_SLOT(D, E) };
    enum { PARTS = WR_PREFILL_PARTS(D), PANELS = WR_ATTN_PANELS(VALUES ? E : D) };
    const void *pool = VALUES ? p->v : p->k;
    const int low = tile->first - block * BLOCK, high = tile->last + 1 - block * BLOCK;
#pragma unroll
    for (int part = 0; part < PARTS; part++, ++*entry) {
        const u32 slot = *entry % STAGES, bar = bars + FULL + slot * 8;
        u8 *to = slots + slot * SLOT;
        volatile u32 *missing = (volatile u32 *)(area + MISSING) + slot;
        wr_bar_wait(bars + EMPTY + slot * 8, (int)(*entry / STAGES & 1) ^ 1);
        if constexpr (PARTS == 1)
            wr_copy_block<BLOCK, PANELS, VALUES ? (int)BLOCK : 0, false>(pool, page, tile->head, p->kv_heads, low, high,
                                                                         to, missing, bar);
        else if constexpr (VALUES)
            copy_part<BLOCK / PARTS, PANELS, PANELS, true>(pool, page[0], tile->head, p->kv_heads, 0,
                                                           part * (BLOCK / PARTS), low, high, to, missing, bar);
        else
            copy_part<BLOCK, PANELS / PARTS, PANELS, false>(pool, page[0], tile->head, p->kv_heads,
                                                            part * (PANELS / PARTS), 0, low, high, to, missing, bar);
    }
}

/* Blocks of keys and values into the ring: K0 K1 V0 K2 V1 ... */
template <int D, int E> WR_DEVICE void copy_tiles(const wr_attn_params *p, u8 *area, u8 *slots, u32 bars) {
    enum { BLOCK = WR_ATTN_BLOCK(D), PAGES = BLOCK / WR_KV_TILE };
    const bool leader = threadIdx.x % 32 == 0;
    u32 entry = 0;
    if (leader) publish(p, area, bars, 0);
    for (u32 n = 0;; n++) {
        u32 index = next_tile(area, bars, n);
        if (index >= count_tiles(p)) break;
        if (leader) publish(p, area, bars, n + 1);
        const prefill_tile tile = find_tile<BLOCK>(p, index);
        const int n_blocks = tile.end - tile.begin;
        i32 pages = -1; /* lane i has the i-th of 32 pages, which are read at a time */
        i32 page[PAGES], page_before[PAGES];
#pragma unroll
        for (int i = 0; i < PAGES; i++) page[i] = -1;
        for (int n_keys = 0; n_keys <= n_blocks; n_keys++) {
            const int block = tile.begin + n_keys, at = n_keys * PAGES % 32;
            if (at == 0) pages = wr_attn_pages_from(p, tile.item.seq, (i64)block * PAGES);
#pragma unroll
            for (int i = 0; i < PAGES; i++) {
                page_before[i] = page[i];
                page[i] = __shfl_sync(0xFFFFFFFFu, pages, at + i);
            }
            if (n_keys < n_blocks) copy_entries<D, E, false>(p, &tile, page, block, area, slots, bars, &entry);
            if (n_keys > 0) copy_entries<D, E, true>(p, &tile, page_before, block - 1, area, slots, bars, &entry);
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

/* What a thread knows of its rows g and g + 8 of the warp's sixteen in the running span. Registers are scarce: what can
 * be found again lies in shared memory. */
typedef struct prefill_rows {
    float m[2], l[2];
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

/* Descriptors by their low word, so that a step further is one addition in uniform registers: wr_wgmma_desc(a, lead,
 * 1,024) is step_desc(low_of(a, lead), 0), and a + bytes is step_desc(low, bytes). */
WR_DEVICE u32 low_of(u32 a, u32 lead_bytes) { return (a & 0x3FFFF) >> 4 | lead_bytes >> 4 << 16; }
WR_DEVICE u64 step_desc(u32 low, u32 bytes) { return (u64)(low + bytes / 16) | (u64)(1024 >> 4 | 1u << 30) << 32; }

/* s = q K^T, started. q, keys: low words of descriptors, of the block's parts, each of so many columns. */
template <int D, int BLOCK, int PARTS> WR_DEVICE void start_scores(float *s, u32 q, const u32 *keys) {
    enum { STEPS = D / 16 / PARTS };
    wr_wgmma_fence();
#pragma unroll
    for (int k = 0; k < D / 16; k++)
        scores_step<BLOCK>(s, step_desc(q, k / 4 * (WR_PREFILL_ROWS * 128) + k % 4 * 32),
                           step_desc(keys[k / STEPS], k % STEPS / 4 * (BLOCK * 128) + k % STEPS % 4 * 32), k > 0);
    wr_wgmma_commit();
}

/* o += P V, started; o = P V when fresh. values: low words of the block's parts, each of so many keys. */
template <int WIDE, int BLOCK, int PARTS>
WR_DEVICE void start_values(float *o, const u32 *weights, const u32 *values, bool fresh) {
    enum { ROWS = BLOCK / PARTS, STEPS = ROWS / 16 };
    wr_wgmma_fence();
#pragma unroll
    for (int k = 0; k < BLOCK / 16; k++)
        values_step<WIDE>(o, weights + 4 * k, step_desc(values[k / STEPS], k % STEPS * 2048), k > 0 || !fresh);
    wr_wgmma_commit();
}

/* Keys that a row does not see: -inf. key0: the block's first; missing: a bit for each page. */
template <int BLOCK>
WR_DEVICE void hide(const wr_attn_params *p, float *s, const i32 *positions, int key0, u32 missing) {
    int base = key0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int first = (int)wr_attn_first_key(positions[8 * h], p->window);
        int last = (int)wr_attn_last_key(positions[8 * h], key_limit(p));
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

/* Totals of the columns that are held nowhere else: fours of the thread's columns, [16][128 threads]. */
template <int E>
WR_DEVICE void merge_outside(float *o, uint4 *totals, const float *a, const float *b, bool first, bool last) {
    enum { INSIDE = WR_PREFILL_INSIDE(E) };
#pragma unroll
    for (int i = 0; i < (E - INSIDE) / 8; i++) {
        float *x = o + INSIDE / 2 + i * 4; /* two of row g, two of row g + 8 */
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

/* A span ends: rows become those of an empty one (last: those of all spans), and a and b what its outputs and the
 * totals are to be multiplied by. first: there are no totals yet. merged: of row g, maximum and sum of the spans
 * before. */
WR_DEVICE void end_span(const wr_attn_params *p, prefill_rows *rows, float2 *merged, float *a, float *b, bool first,
                        bool last) {
    __syncwarp();
    float2 all[2] = {merged[0], merged[8]};
    __syncwarp();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (first) all[h].x = WR_ATTN_NONE, all[h].y = 0.0f;
        wr_attn_merge(&all[h].x, rows->m[h], p->log2_factor, &a[h], &b[h]);
        all[h].y = wr_attn_fold(all[h].y, a[h], rows->l[h], b[h]);
        rows->m[h] = last ? all[h].x : WR_ATTN_NONE;
        rows->l[h] = last ? all[h].y : 0.0f;
        if (!last && threadIdx.x % 4 == 0) merged[8 * h] = all[h];
    }
}

/* The span's outputs o join the totals. last: o becomes the totals, which are not stored. totals: shared, [KEPT / 2]
 * [128 threads]. held: the thread's own. */
template <int E>
WR_DEVICE void merge_span(const wr_attn_params *p, float *o, const float *a, const float *b, float *totals, float *held,
                          int wg, bool first, bool last) {
    enum { HELD = WR_PREFILL_HELD(E), KEPT = WR_PREFILL_KEPT(E), INSIDE = WR_PREFILL_INSIDE(E) };
#pragma unroll
    for (int z = 0; z < HELD / 2; z++) {
        int h = z / 2 % 2;
        o[z] = held[z] = wr_attn_fold(first ? 0.0f : held[z], a[h], o[z], b[h]);
    }
#pragma unroll
    for (int z = HELD / 2; z < INSIDE / 2; z++) {
        int h = z / 2 % 2;
        float *total = totals + (z - HELD / 2) * 128;
        o[z] = wr_attn_fold(first ? 0.0f : *total, a[h], o[z], b[h]);
        if (!last) *total = o[z];
    }
    if constexpr (E > INSIDE)
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
    if (thread < 64) {
        int token = min((wg * 64 + thread) / p->group, tile->item.n_rows - 1);
        list[thread] = find_row(p, &tile->item, tile->head, wg * 64 + thread);
        ((i32 *)(area + POSITIONS))[wg * 64 + thread] = tile->item.pos + token;
    }
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
        if (p->sinks) factor = wr_attn_sink(rows->m[h], &rows->l[h], p->sinks[row % p->n_heads], p->log2_factor);
        float inverse = wr_attn_inverse(rows->l[h]);
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

/* Where a warpgroup stands in the ring. */
typedef struct prefill_ring {
    u32 entry;
} prefill_ring;

/* Waits for the next PARTS entries; the first one's slot, and the low words of all their descriptors. */
template <int STAGES, int PARTS, int SLOT, int LEAD>
WR_DEVICE u32 await_entries(prefill_ring *ring, u32 bars, u32 slots, u32 *lows) {
    u32 first = ring->entry % STAGES;
#pragma unroll
    for (int i = 0; i < PARTS; i++, ring->entry++) {
        u32 slot = ring->entry % STAGES;
        wr_bar_wait(bars + FULL + slot * 8, (int)(ring->entry / STAGES & 1));
        lows[i] = low_of(slots, LEAD) + slot * (SLOT / 16);
    }
    return first;
}
template <int STAGES, int PARTS> WR_DEVICE void release(u32 bars, u32 slot) {
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        if (threadIdx.x % 32 == 0) wr_bar_arrive(bars + EMPTY + (slot + i) % STAGES * 8);
}
/* Of entries of keys, also which pages are not there. */
template <int STAGES, int PARTS> WR_DEVICE u32 gone_and_release(const volatile u32 *missing, u32 bars, u32 slot) {
    u32 word = threadIdx.x % 32 == 0 ? missing[slot] : 0;
    release<STAGES, PARTS>(bars, slot);
    return wr_block_gone(__shfl_sync(0xFFFFFFFFu, word, 0));
}

/* Dot products to weights of block `block`. */
template <int BLOCK>
WR_DEVICE void weigh(const wr_attn_params *p, const prefill_tile *tile, float *s, prefill_rows *rows,
                     const i32 *positions, int block, u32 missing, float *decay) {
    if (p->softcap > 0.0f) {
#pragma unroll
        for (int z = 0; z < BLOCK / 2; z++) s[z] = wr_attn_score(s[z], p->softcap, p->softcap_scale);
    }
    /* Uniform over the block: does any row of the tile not see a key of these? */
    int key0 = block * BLOCK;
    if (missing || key0 > tile->all_last - (BLOCK - 1) || key0 < tile->all_first)
        hide<BLOCK>(p, s, positions, key0, missing);
    soften<BLOCK>(s, rows, p->log2_factor, decay);
}

template <int D, int E>
WR_DEVICE void attend_tile(const wr_attn_params *p, const prefill_tile *tile, prefill_ring *ring, u8 *area, u32 bars,
                           u32 q, u32 slots, float *totals, int wg) {
    enum {
        BLOCK = WR_ATTN_BLOCK(D),
        PARTS = WR_PREFILL_PARTS(D),
        STAGES = WR_PREFILL_STAGES(D),
        SLOT = WR_PREFILL_SLOT(D, E),
        WIDE = WR_ATTN_PANELS(E) * 64,
        /* A span that ended is merged before the next block's softmax where registers are short, else after it, so that
         * the softmax runs under P x V also then. */
        EARLY = WR_PREFILL_EARLY(D)
    };
    volatile u32 *missing = (volatile u32 *)(area + MISSING);
    float o[WIDE / 2], s[BLOCK / 2], decay[2], held[WR_PREFILL_HELD(E) / 2 + 1];
    u32 weights[BLOCK / 4];
    prefill_rows rows = {{WR_ATTN_NONE, WR_ATTN_NONE}, {0.0f, 0.0f}};
    const int row0 = wg * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    const i32 *positions = (const i32 *)(area + POSITIONS) + row0;
    float2 *merged = (float2 *)(area + MERGED) + row0;
#pragma unroll
    for (int z = 0; z < WIDE / 2; z++) o[z] = 0.0f;
    if (tile->begin < tile->end) {
        u32 keys[PARTS], values[PARTS];
        u32 slot = await_entries<STAGES, PARTS, SLOT, 16>(ring, bars, slots, keys);
        start_scores<D, BLOCK, PARTS>(s, q, keys);
        wr_wgmma_wait<0>();
        u32 gone = gone_and_release<STAGES, PARTS>(missing, bars, slot);
        weigh<BLOCK>(p, tile, s, &rows, positions, tile->begin, gone, decay);
        pack_weights<BLOCK>(weights, s);
        bool fresh = true, merges = false;
        int span = wr_attn_span_of(tile->begin), span_end = (int)wr_attn_span_begin(span + 1);
        for (int block = tile->begin + 1; block < tile->end; block++) {
            u32 key_slot = await_entries<STAGES, PARTS, SLOT, 16>(ring, bars, slots, keys);
            /* The shift gives 0, which the compiler does not know: else it keeps a descriptor for each step of q
             * over the loop, in registers that are not there. */
            start_scores<D, BLOCK, PARTS>(s, q + (ring->entry >> 30), keys);
            u32 value_slot = await_entries<STAGES, PARTS, SLOT, BLOCK / PARTS * 128>(ring, bars, slots, values);
            start_values<WIDE, BLOCK, PARTS>(o, weights, values, fresh);
            float a[2], b[2];
            fresh = block == span_end;
            if (fresh) {
                span_end = (int)wr_attn_span_begin(++span + 1);
                if (!EARLY) end_span(p, &rows, merged, a, b, !merges, false);
            }
            wr_wgmma_wait<1>();
            gone = gone_and_release<STAGES, PARTS>(missing, bars, key_slot);
            if (EARLY) {
                wr_wgmma_wait<0>();
                release<STAGES, PARTS>(bars, value_slot);
                if (fresh) {
                    end_span(p, &rows, merged, a, b, !merges, false);
                    merge_span<E>(p, o, a, b, totals, held, wg, !merges, false);
                    merges = true;
                }
            }
            weigh<BLOCK>(p, tile, s, &rows, positions, block, gone, decay);
            if (!EARLY) {
                /* Over at once. Without its branch the compiler waits for P x V before the softmax. */
                wr_bar_wait(bars + FULL + value_slot * 8, (int)((ring->entry - PARTS) / STAGES & 1));
                wr_wgmma_wait<0>();
                release<STAGES, PARTS>(bars, value_slot);
            }
            if (!EARLY && fresh) {
                merge_span<E>(p, o, a, b, totals, held, wg, !merges, false);
                merges = true;
            } else {
#pragma unroll
                for (int z = 0; z < WIDE / 2; z++) o[z] *= decay[z / 2 % 2];
            }
            pack_weights<BLOCK>(weights, s);
        }
        slot = await_entries<STAGES, PARTS, SLOT, BLOCK / PARTS * 128>(ring, bars, slots, values);
        start_values<WIDE, BLOCK, PARTS>(o, weights, values, fresh);
        wr_wgmma_wait<0>();
        release<STAGES, PARTS>(bars, slot);
        float a[2], b[2];
        end_span(p, &rows, merged, a, b, !merges, true);
        merge_span<E>(p, o, a, b, totals, held, wg, !merges, true);
    }
    write_rows<E>(p, area, o, &rows, row0);
}

template <int D, int E> WR_DEVICE void prefill(const wr_attn_params *p, u8 *shared) {
    enum { BLOCK = WR_ATTN_BLOCK(D), STAGES = WR_PREFILL_STAGES(D), SLOT = WR_PREFILL_SLOT(D, E) };
    static_assert(WR_PREFILL_FEWER(D) + 2 * WR_PREFILL_MORE(D) <= 3 * 168, "registers that a block has");
    static_assert((int)STAGES > 2 * WR_PREFILL_PARTS(D), "keys and values of a block are held at a time");
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
            wr_bar_init(bars + WORK_FULL + i * 8, 1);
            wr_bar_init(bars + WORK_EMPTY + i * 8, 9); /* all warps that work */
        }
        wr_bar_init_done();
    }
    __syncthreads();
    wr_grid_wait();
    wr_grid_launch();
    if (wg == 2) {
        wr_registers_fewer<WR_PREFILL_FEWER(D)>();
        if (threadIdx.x / 32 == 8) copy_tiles<D, E>(p, area, shared + WR_PREFILL_Q_BYTES(D), bars);
    } else {
        wr_registers_more<WR_PREFILL_MORE(D)>();
        prefill_ring ring = {0};
        for (u32 n = 0;; n++) {
            u32 index = next_tile(area, bars, n);
            if (index >= count_tiles(p)) break;
            prefill_tile tile = find_tile<BLOCK>(p, index);
            wr_barrier(1 + wg, 128); /* nobody reads the last tile's queries any more */
            load_queries<D>(p, &tile, area, shared, wg);
            attend_tile<D, E>(p, &tile, &ring, area, bars, low_of(q + wg * 8192, 16), slots,
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
