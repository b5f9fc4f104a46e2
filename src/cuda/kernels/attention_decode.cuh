/* Paged attention for few query rows a sequence: decode and verify; without a prefill kernel also prefill.
 *
 * Contract: attention.cuh fixes the bits. Layouts and the schedule's items: attention.h.
 *   wr_attn_schedule_kernel  one block, once a step: runs of rows, their tiles, the list of items. Since lengths are
 *                            data, grids depend only on what there may be.
 *   wr_attn_decode_*         blocks of 128 threads take items (for one KV head) until there are none. K and V of one
 *                            softmax block each lie in shared memory, in rows padded by 16 bytes so that ldmatrix has
 * no bank conflicts. Scores: a warp takes a quarter of the block's keys. Weights and maxima go through shared memory,
 * then a warp takes a part of the output's columns, so the chain over keys is never split. K of the next block is
 * fetched under the softmax and P V, V under the next scores; several blocks on a multiprocessor hide each other's
 * waits. A tile whose work is small beside a block's fair share is one item: its spans are merged in registers. Other
 * tiles are cut at span boundaries; each span's (o, m, l) goes to scratch.
 *   wr_attn_merge_kernel     merges those in order. Either way has the same bits.
 *
 * Bytes: 2 * keys * G * (D + E) for each tile of query rows. Operations: 2 * rows * keys * (D + E).
 *
 * Measured on 30 November 2026, H200, bf16, keys beyond L2, us a call with its merge (batch x keys, tokens a sequence).
 * Spans then were 128 keys up to 1,024, 256 up to 4,096, 512 up to 16,384; the last block of a tile to finish merged it
 * (in brackets: the merge kernel, as now), and grids were three blocks a multiprocessor. Not measured since.
 *   8 KV heads, group 4, head 128:  1 x 100     5.0             1 x 4,096          13.7
 *                                   1 x 512     8.0 (7.4)       1 x 32,768         57.6 (54.3)
 *                                   1 x 1,024   8.6             1 x 32,768, 4      60.7
 *                                   1 x 2,048  12.4 (11.3)      1 x 32,768, 8      62.9
 *                                   8 x 8,192  87.8             64 x 2,048        158.4 = 3.39 TB/s
 *   2 KV heads, group 8, head 256:  1 x 512     6.9             1 x 4,096  16.3    1 x 32,768  37.4
 *   3 KV heads, group 3, head 64:   1 x 8,192  16.1
 *   With one block a multiprocessor instead of three: 1 x 512 6.6, 1 x 2,048 10.1.
 * Spans twice as long: 1 x 512 11.2, 1 x 4,096 18.2, 1 x 32,768 53.5.
 * A trial with contiguous pages, two stages and one block a multiprocessor reached 41.4 us at 1 x 32,768, 45.4 with
 * eight tokens, and 3.95 TB/s at 64 x 2,048.
 *
 * Dropped: items cut evenly instead of at spans (bits would depend on the batch); one span length for all positions
 * (512 costs 13 % at 32k, 1,024 costs 40 % at 4k); copies with an address from scratch each (60 instructions a copy,
 * 14.2 us at 512 keys); the merge by the last block to arrive. Not tried here: bulk copies, two stages. */
#ifndef WR_CUDA_ATTENTION_DECODE_CUH
#define WR_CUDA_ATTENTION_DECODE_CUH

#include "cuda/kernels/attention.cuh"

enum { THREADS = 128 };

WR_DEVICE int item_row(const wr_attn_params *p, const wr_attn_item *item, int r) {
    return item->row + (int)((u32)(item->first + r) / (u32)p->group);
}
WR_DEVICE int item_head(const wr_attn_params *p, const wr_attn_item *item, int head, int r) {
    return head * p->group + (int)((u32)(item->first + r) % (u32)p->group);
}
WR_DEVICE i64 item_pos(const wr_attn_params *p, const wr_attn_item *item, int r) {
    return (i64)item->pos + (u32)(item->first + r) / (u32)p->group;
}

/* Item number `place` for all threads of the block, a word each; a barrier must follow. */
WR_DEVICE void open_item(const wr_attn_params *p, wr_attn_item *item, u32 place) {
    if (threadIdx.x < WR_ATTN_ITEM_WORDS) ((u32 *)item)[threadIdx.x] = ((const u32 *)(p->items + place))[threadIdx.x];
}

/* The page that holds key 64 * i of the sequence, -1: none. */
WR_DEVICE i32 page_at(const wr_attn_params *p, const i32 *pages, i64 i) {
    if (i >= p->max_pages) return -1;
    i32 page = pages[i];
    return page < p->n_pages ? page : -1;
}

/* Starts copies of one block's keys (or values) of one head: BK rows of N elements to rows of N + 8 at `to`. Rows that
 * no query row sees become zeros. A block of threads has one warp a scheduler, so that every instruction here delays
 * the block's items: addresses are sums of few things. */
template <int N, int BK>
WR_DEVICE void load_block(const wr_attn_params *p, const wr_attn_item *item, int head, const void *pool, int block,
                          const i32 *page, u8 *to) {
    constexpr int PIECES = N / 8, RISE = THREADS / PIECES, PASSES = (BK + RISE - 1) / RISE, ROW = N * 2 + 16;
    const u32 key_bytes = (u32)p->kv_heads * (N * 2);
    const int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
    const int begin = item->from - block * BK, end = item->to - block * BK;
    const u8 *base[BK / WR_ATTN_PAGE];
    int last[BK / WR_ATTN_PAGE];
#pragma unroll
    for (int i = 0; i < BK / WR_ATTN_PAGE; i++) {
        i64 first = ((i64)(page[i] < 0 ? 0 : page[i]) - i) * WR_ATTN_PAGE; /* of the pool, for row 0 of the block */
        base[i] = (const u8 *)pool + first * key_bytes + (u32)(head * (N * 2) + piece * 16);
        last[i] = page[i] < 0 ? -1 : end;
    }
    if (((u64)pool & 15) == 0) {
        u32 offset = (u32)row * key_bytes, target = wr_smem(to) + (u32)(row * ROW + piece * 16);
        if (THREADS % PIECES == 0 || row < RISE) {
#pragma unroll
            for (int i = 0; i < PASSES; i++) {
                int r = row + i * RISE;
                if (BK % RISE != 0 && r >= BK) break;
                bool second =
                    BK > WR_ATTN_PAGE && (WR_ATTN_PAGE % RISE == 0 ? i * RISE >= WR_ATTN_PAGE : r >= WR_ATTN_PAGE);
                const u8 *source = second ? base[BK / WR_ATTN_PAGE - 1] : base[0];
                bool valid = r >= begin && r <= (second ? last[BK / WR_ATTN_PAGE - 1] : last[0]);
                wr_cp16_or_zero(target + (u32)(i * RISE * ROW), source + offset, valid);
                offset += RISE * key_bytes;
            }
        }
    } else {
#pragma unroll 1
        for (int r = row; r < BK && row < RISE; r += RISE) {
            bool second = BK > WR_ATTN_PAGE && r >= WR_ATTN_PAGE;
            const u16 *source = (const u16 *)((second ? base[BK / WR_ATTN_PAGE - 1] : base[0]) + (u32)r * key_bytes);
            u16 *target = (u16 *)(to + r * ROW + piece * 16);
            bool valid = r >= begin && r <= (second ? last[BK / WR_ATTN_PAGE - 1] : last[0]);
#pragma unroll 1
            for (int x = 0; x < 8; x++) target[x] = valid ? source[x] : (u16)0;
        }
    }
    wr_cp_commit();
}

/* The query rows of the item in the type of the keys: MT * 16 rows of D + 8 elements at `to`, zeros after the last.
 * They belong to the next group of copies. */
template <int D, int KV, int MT>
WR_DEVICE void load_queries(const wr_attn_params *p, const wr_attn_item *item, int head, u8 *to) {
    constexpr int PIECES = D / 8;
    const bool vectors = p->q_type == KV && ((u64)p->q & 15) == 0;
#pragma unroll 1
    for (int e = (int)threadIdx.x; e < MT * 16 * PIECES; e += THREADS) {
        int r = e / PIECES, piece = e % PIECES;
        bool valid = r < item->n_rows;
        u32 at = valid ? (u32)(item->first + r) : (u32)item->first, token = at / (u32)p->group;
        i64 from =
            ((i64)(item->row + (int)token) * p->n_heads + head * p->group + (int)(at - token * (u32)p->group)) * D +
            piece * 8;
        u8 *target = to + r * (D * 2 + 16) + piece * 16;
        if (vectors) {
            wr_cp16_or_zero(wr_smem(target), (const u16 *)p->q + from, valid);
        } else {
#pragma unroll 1
            for (int x = 0; x < 8; x += 2)
                *(u32 *)(target + x * 2) = valid ? wr_attn_load_q2<KV>(p->q, from + x, p->q_type) : 0u;
        }
    }
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

/* The piece after this one; pieces are dealt out by a counter when there are more than blocks. The first row of blocks
 * takes pieces from the left, the second from the right, and so on, so that a multiprocessor with a long one gets a
 * short one too. */
WR_DEVICE u32 first_piece(int n_rows_of_blocks) {
    if (gridDim.x % (u32)n_rows_of_blocks != 0) return blockIdx.x;
    u32 width = gridDim.x / (u32)n_rows_of_blocks, row = blockIdx.x / width, column = blockIdx.x % width;
    return row * width + ((row & 1) ? width - 1 - column : column);
}

template <int D, int E, int KV, int MT, int PER_SM> WR_DEVICE void decode(const wr_attn_params *p, u8 *memory) {
    constexpr int BK = wr_attn_block(D), PAGES = BK / WR_ATTN_PAGE, KEY_TILES = BK / 32, PAIRS = (E / 16 + 3) / 4;
    constexpr int K_BYTES = BK * (D * 2 + 16), V_BYTES = BK * (E * 2 + 16), P_ROW = BK * 2 + 16, ROWS = MT * 16;
    /* Queries stay in registers where they fit there, and then pass through the memory of the weights. */
    constexpr bool Q_SHARED = WR_ATTN_Q_SHARED(D, BK, MT);
    constexpr int Q_ROW = D * 2 + 16, PART = E + WR_ATTN_PART_EXTRA;
    u8 *keys = memory, *values = keys + K_BYTES, *weights = values + V_BYTES;
    float *maxima = (float *)(weights + ROWS * P_ROW), *sums = maxima + 4 * ROWS; /* [4][ROWS] each */
    u32 *message = (u32 *)(sums + 4 * ROWS);                                      /* [4] */
    wr_attn_item *item = (wr_attn_item *)(message + 4);
    u8 *queries = Q_SHARED ? memory + K_BYTES + V_BYTES + ROWS * P_ROW + 8 * ROWS * 4 + 16 + 112 : weights;
    static_assert(sizeof(wr_attn_item) <= 112, "space for the item");
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const float c = p->log2_factor;
    u32 piece = first_piece(PER_SM), next = 0, round = 0;
    u32 place = piece / (u32)p->kv_heads; /* of the item; the rest is the KV head */
    bool opened = piece < p->max_pieces;
    wr_grid_wait();
    /* The item is read beside the count: it may be none, but its place is there. */
    const u32 n_pieces = p->schedule->n_items * (u32)p->kv_heads;
    if (opened) open_item(p, item, place);
    const bool dealt = n_pieces > gridDim.x;

    for (; piece < n_pieces; piece = next, place = piece / (u32)p->kv_heads, opened = false) {
        if (!opened) open_item(p, item, place);
        const int head = (int)(piece - place * (u32)p->kv_heads);
        __syncthreads();
        const i32 *pages = p->table + (i64)item->seq * p->max_pages;
        if (dealt && threadIdx.x == 0) next = gridDim.x + atomicAdd(&p->schedule->next, 1u);
        i32 page[PAGES];
#pragma unroll
        for (int i = 0; i < PAGES; i++) page[i] = -1;
        if (item->block <= item->last) {
#pragma unroll
            for (int i = 0; i < PAGES; i++) page[i] = page_at(p, pages, item->block * PAGES + i);
            load_queries<D, KV, MT>(p, item, head, queries);
            load_block<D, BK>(p, item, head, p->k, item->block, page, keys);
            load_block<E, BK>(p, item, head, p->v, item->block, page, values);
        }
        const int n_tiles = (item->n_rows + 15) / 16; /* of MT */
        const u32 query_at = wr_smem(queries) + (u32)(lane % 16 * Q_ROW + lane / 16 * 16);
        int row_from[MT][2], row_to[MT][2]; /* keys that this thread's rows see */
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                i64 pos = item_pos(p, item, m * 16 + g + 8 * h);
                row_from[m][h] = (int)wr_attn_first_key(pos, p->window);
                row_to[m][h] = (int)wr_attn_last_key(pos, p->max_pages * WR_ATTN_PAGE);
            }
        u32 q[Q_SHARED ? 1 : MT][Q_SHARED ? 1 : D / 16][4];
        if (!Q_SHARED && item->block <= item->last) {
            wr_cp_wait<1>();
            __syncthreads();
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int k = 0; k < D / 16; k++) wr_ldmatrix4(q[m][k], query_at + (u32)(m * 16 * Q_ROW + k * 32));
        }
        float o[MT][PAIRS * 2][4], mx[MT][2], l[MT][2];      /* this span */
        float total[MT][PAIRS * 2][4], tm[MT][2], tl[MT][2]; /* spans before, when the tile is one item */
#pragma unroll
        for (int m = 0; m < MT; m++) {
            mx[m][0] = mx[m][1] = tm[m][0] = tm[m][1] = WR_ATTN_NONE;
            l[m][0] = l[m][1] = tl[m][0] = tl[m][1] = 0.0f;
#pragma unroll
            for (int n = 0; n < PAIRS * 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) o[m][n][i] = total[m][n][i] = 0.0f;
        }
        int span = item->span;
        const int last = item->last;
        for (int block = item->block; block <= last; block++) {
            bool hole = false;
#pragma unroll
            for (int i = 0; i < PAGES; i++) hole |= page[i] < 0;
            bool masked = hole || block * BK < item->all_from || block * BK + BK - 1 > item->all_to;
            i32 this_page[PAGES];
#pragma unroll
            for (int i = 0; i < PAGES; i++) this_page[i] = page[i];
            wr_cp_wait<1>();
            __syncthreads();
            if (block < last)
#pragma unroll
                for (int i = 0; i < PAGES; i++) page[i] = page_at(p, pages, (block + 1) * PAGES + i);

            float s[MT][KEY_TILES][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int n = 0; n < KEY_TILES; n++) s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
            const u32 key_at = wr_smem(keys) + (u32)((warp * (BK / 4) + (lane >> 4) * 8 + lane % 8) * (D * 2 + 16) +
                                                     ((lane >> 3) & 1) * 16);
#pragma unroll
            for (int k = 0; k < D / 16; k++) {
                u32 qs[Q_SHARED ? MT : 1][4];
                if (Q_SHARED)
#pragma unroll
                    for (int m = 0; m < MT; m++) wr_ldmatrix4(qs[m], query_at + (u32)(m * 16 * Q_ROW + k * 32));
#pragma unroll
                for (int n = 0; n < KEY_TILES; n += 2) {
                    u32 kf[4];
                    wr_ldmatrix4(kf, key_at + (u32)(n * 8 * (D * 2 + 16) + k * 32));
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        if (m > 0 && m >= n_tiles) break;
                        wr_attn_mma<KV>(s[m][n], Q_SHARED ? qs[m] : q[m][k], kf[0], kf[1]);
                        wr_attn_mma<KV>(s[m][n + 1], Q_SHARED ? qs[m] : q[m][k], kf[2], kf[3]);
                    }
                }
            }
#pragma unroll
            for (int m = 0; m < MT; m++) {
                if (m > 0 && m >= n_tiles) break;
                if (p->softcap > 0.0f)
#pragma unroll
                    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
                        for (int i = 0; i < 4; i++)
                            s[m][n][i] = wr_attn_score(s[m][n][i], p->softcap, p->softcap_scale);
                if (masked) {
                    int key0 = block * BK + warp * (BK / 4) + 2 * t;
                    bool gone = (warp * PAGES / 4 ? this_page[PAGES - 1] : this_page[0]) < 0;
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        int from = row_from[m][h] - key0, to = row_to[m][h] - key0;
#pragma unroll
                        for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
                            for (int i = 0; i < 2; i++)
                                if (gone || n * 8 + i < from || n * 8 + i > to) s[m][n][2 * h + i] = WR_ATTN_NONE;
                    }
                }
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float best = WR_ATTN_NONE;
#pragma unroll
                    for (int n = 0; n < KEY_TILES; n++) best = fmaxf(best, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
                    best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 1));
                    best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 2));
                    if (t == 0) maxima[warp * ROWS + m * 16 + g + 8 * h] = best;
                }
            }
            __syncthreads(); /* keys are free, maxima are there */
            if (block < last)
                load_block<D, BK>(p, item, head, p->k, block + 1, page, keys);
            else
                wr_cp_commit();

            float decay[MT][2];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                if (m > 0 && m >= n_tiles) break;
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int r = m * 16 + g + 8 * h;
                    float to = mx[m][h], sum = 0.0f;
#pragma unroll
                    for (int w = 0; w < 4; w++) to = fmaxf(to, maxima[w * ROWS + r]);
                    decay[m][h] = wr_attn_decay(mx[m][h], to, c);
                    mx[m][h] = to;
                    float offset = wr_attn_offset(to, c);
#pragma unroll
                    for (int n = 0; n < KEY_TILES; n++) {
                        float lo = wr_attn_weight(s[m][n][2 * h], offset, c),
                              hi = wr_attn_weight(s[m][n][2 * h + 1], offset, c);
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
            wr_cp_wait<1>();
            __syncthreads(); /* values, weights and sums are there */
#pragma unroll
            for (int m = 0; m < MT; m++) {
                if (m > 0 && m >= n_tiles) break;
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float *sum = sums + m * 16 + g + 8 * h;
                    l[m][h] = fmaf(l[m][h], decay[m][h], ((sum[0] + sum[ROWS]) + sum[2 * ROWS]) + sum[3 * ROWS]);
#pragma unroll
                    for (int n = 0; n < PAIRS * 2; n++) {
                        o[m][n][2 * h] *= decay[m][h];
                        o[m][n][2 * h + 1] *= decay[m][h];
                    }
                }
            }
            const u32 value_at = wr_smem(values) + (u32)(lane % 16 * (E * 2 + 16) + (lane / 16) * 16);
            const u32 weight_at = wr_smem(weights) + (u32)(lane % 16 * P_ROW + (lane / 16) * 16);
#pragma unroll
            for (int k = 0; k < BK / 16; k++) {
                u32 pf[MT][4];
#pragma unroll
                for (int m = 0; m < MT; m++)
                    if (m == 0 || m < n_tiles) wr_ldmatrix4(pf[m], weight_at + (u32)(m * 16 * P_ROW + k * 32));
#pragma unroll
                for (int n = 0; n < PAIRS; n++) {
                    if (E / 16 % 4 != 0 && warp * PAIRS + n >= E / 16) break;
                    u32 vf[4];
                    wr_ldmatrix4_trans(vf, value_at + (u32)(k * 16 * (E * 2 + 16) + (warp * PAIRS + n) * 32));
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        if (m > 0 && m >= n_tiles) break;
                        wr_attn_mma<KV>(o[m][2 * n], pf[m], vf[0], vf[1]);
                        wr_attn_mma<KV>(o[m][2 * n + 1], pf[m], vf[2], vf[3]);
                    }
                }
            }
            __syncthreads(); /* values and weights are free */
            if (block < last)
                load_block<E, BK>(p, item, head, p->v, block + 1, page, values);
            else
                wr_cp_commit();

            if (block < last && block + 1 < wr_attn_span_begin(span + 1)) continue;
                /* The span is over. */
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int r = m * 16 + g + 8 * h;
                    if (item->tile_spans > 0 && r < item->n_rows) {
                        i64 at =
                            item->partial + ((i64)(span - item->tile_span) * p->kv_heads + head) * item->n_rows + r;
#pragma unroll
                        for (int n = 0; n < PAIRS * 2; n++) {
                            if (E / 16 % 4 != 0 && warp * PAIRS + n / 2 >= E / 16) break;
                            uint2 two = {wr_f32_bits(o[m][n][2 * h]), wr_f32_bits(o[m][n][2 * h + 1])};
                            *(uint2 *)(p->partial + at * PART + warp * PAIRS * 16 + n * 8 + 2 * t) = two;
                        }
                        if (warp == 0 && t == 0) {
                            uint4 extra = {wr_f32_bits(mx[m][h]), wr_f32_bits(l[m][h]), 0, 0};
                            *(uint4 *)(p->partial + at * PART + E) = extra;
                        }
                    }
                    if (item->tile_spans == 0) {
                        float a, b;
                        wr_attn_merge(&tm[m][h], mx[m][h], c, &a, &b);
                        tl[m][h] = wr_attn_fold(tl[m][h], a, l[m][h], b);
#pragma unroll
                        for (int n = 0; n < PAIRS * 2; n++)
#pragma unroll
                            for (int i = 2 * h; i < 2 * h + 2; i++)
                                total[m][n][i] = wr_attn_fold(total[m][n][i], a, o[m][n][i], b);
                    }
                    mx[m][h] = WR_ATTN_NONE;
                    l[m][h] = 0.0f;
#pragma unroll
                    for (int n = 0; n < PAIRS * 2; n++) o[m][n][2 * h] = o[m][n][2 * h + 1] = 0.0f;
                }
            span++;
        }

        if (item->tile_spans == 0) {
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int r = m * 16 + g + 8 * h;
                    if (r >= item->n_rows) continue;
                    int q_head = item_head(p, item, head, r);
                    float factor = 1.0f;
                    if (p->sinks && item->seq >= 0) factor = wr_attn_sink(tm[m][h], &tl[m][h], p->sinks[q_head], c);
                    float inverse = wr_attn_inverse(tl[m][h]);
                    i64 at = ((i64)item_row(p, item, r) * p->n_heads + q_head) * E + warp * PAIRS * 16 + 2 * t;
#pragma unroll
                    for (int n = 0; n < PAIRS * 2; n++) {
                        if (E / 16 % 4 != 0 && warp * PAIRS + n / 2 >= E / 16) break;
                        store_pair(p, at + n * 8, total[m][n][2 * h] * factor * inverse,
                                   total[m][n][2 * h + 1] * factor * inverse);
                    }
                }
        }
        if (!dealt) return;
        round ^= 1; /* the other word: some threads may still read this one */
        if (threadIdx.x == 0) message[1 + round] = next;
        __syncthreads();
        next = message[1 + round];
    }
    if (dealt && threadIdx.x == 0 && wr_arrive_global(&p->schedule->done) == gridDim.x - 1)
        p->schedule->next = p->schedule->done = 0;
}

/* Instances for keys of one type: D, E, tiles of 16 rows, blocks a multiprocessor. src/cuda/attention.c has the same
 * list. */
#define WR_ATTN_DECODE(name, type, D, E, MT, PER_SM)                                                                   \
    WR_KERNEL(wr_attn_decode_##name, wr_attn_params, THREADS, PER_SM) {                                                \
        WR_DYNAMIC_SHARED(memory);                                                                                     \
        wr_grid_launch();                                                                                              \
        decode<D, E, type, MT, PER_SM>(&p, memory);                                                                    \
    }
#define WR_ATTN_DECODES(type, suffix)                                                                                  \
    WR_ATTN_DECODE(64_1##suffix, type, 64, 64, 1, 4)                                                                   \
    WR_ATTN_DECODE(64_2##suffix, type, 64, 64, 2, 2)                                                                   \
    WR_ATTN_DECODE(80_1##suffix, type, 80, 80, 1, 3)                                                                   \
    WR_ATTN_DECODE(80_2##suffix, type, 80, 80, 2, 2)                                                                   \
    WR_ATTN_DECODE(96_1##suffix, type, 96, 96, 1, 3)                                                                   \
    WR_ATTN_DECODE(96_2##suffix, type, 96, 96, 2, 2)                                                                   \
    WR_ATTN_DECODE(128_1##suffix, type, 128, 128, 1, 3)                                                                \
    WR_ATTN_DECODE(128_2##suffix, type, 128, 128, 2, 2)                                                                \
    WR_ATTN_DECODE(192_1##suffix, type, 192, 128, 1, 3)                                                                \
    WR_ATTN_DECODE(192_2##suffix, type, 192, 128, 2, 2)                                                                \
    WR_ATTN_DECODE(256_1##suffix, type, 256, 256, 1, 2)                                                                \
    WR_ATTN_DECODE(256_2##suffix, type, 256, 256, 2, 2)                                                                \
    WR_ATTN_DECODE(512_1##suffix, type, 512, 512, 1, 1)

#endif
