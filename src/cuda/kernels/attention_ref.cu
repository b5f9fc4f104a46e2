/* Paged attention, the plainest kernels that are right.
 *
 * wr_attn_ref_bf16, wr_attn_ref_f16: the definition of attention.cuh, walked by one warp for each query row and head,
 * with the same m16n8k16 chains (the row is row 0 of the tile, the others are zeros) and the same sums: equal in bits
 * to the decode and prefill kernels. Any head sizes, any page size. wr_attn_ref_f32: everything else (f32 keys, keys
 * and values of two types, a scale that is not positive): plain f32, blocks of 64 keys in order, expf, sums in rising
 * order of the key; wr_attn_f32 does the same with the same bits by a block of 256 threads, whatever the types and
 * sizes. All of them serve masks, which the other kernels of the family do not.
 *
 * Bytes: keys seen * (D + E) elements for each row and head, so H / G times what a fast kernel reads, of which L2
 * serves most. Operations: 2 * keys * (D + E) for each row and head; the forms with tensor cores issue sixteen times as
 * many. Measured: docs/kernels.md. */
#include "cuda/kernels/attention.cuh"
#include "cuda/kernels/pages.cuh"

enum { WARP = 32, PLAIN_BLOCK = 64 };

/* The query row of this block: row t, head h. */
typedef struct ref_row {
    i64 t, h, at; /* at: of the row and head in q and out, in rows of D or E */
    i64 from, to; /* keys that it sees, but for what the mask hides */
    i64 mask_at;  /* of its row of the mask */
    const i32 *pages;
    bool valid;
} ref_row;

WR_DEVICE ref_row open_row(const wr_attn_params *p, i64 unit) {
    ref_row r;
    r.t = unit / p->n_heads;
    r.h = unit % p->n_heads;
    r.at = unit;
    i32 seq = p->row_seq[r.t], pos = p->row_pos[r.t];
    r.valid = seq >= 0 && seq < p->n_seqs;
    r.from = wr_attn_first_key(pos, p->window);
    r.to = wr_attn_last_key(pos, p->max_pages * p->page);
    r.mask_at = r.t * p->mask_row + r.h * p->mask_head;
    if (p->mask && r.to >= p->mask_keys) r.to = p->mask_keys - 1;
    r.pages = p->table + (r.valid ? seq : 0) * p->max_pages;
    return r;
}

/* What the mask adds to key j's score; -inf where it hides the key. */
WR_DEVICE float mask_of(const wr_attn_params *p, const ref_row *r, i64 j) {
    if (p->mask_type != WR_ATTN_BOOL) return wr_attn_load(p->mask, r->mask_at + j, p->mask_type);
    return ((const u8 *)p->mask)[r->mask_at + j] ? 0.0f : WR_ATTN_NONE;
}

/* Where key j's row lies in the pool of `columns` a head; at: -1 when the row does not see it. */
typedef struct ref_key {
    i64 at, pos;
    bool tiled;
} ref_key;
WR_DEVICE ref_key key_of(const wr_attn_params *p, const ref_row *r, i64 j, i64 columns) {
    ref_key key = {-1, j % p->page, p->tiled != 0};
    if (j < r->from || j > r->to || (p->mask && mask_of(p, r, j) == WR_ATTN_NONE)) return key;
    i64 page = r->pages[j / p->page];
    if (page >= 0 && page < p->n_pages)
        key.at = wr_page_row(p->tiled, page, key.pos, r->h / p->group, p->page, p->kv_heads, columns);
    return key;
}
WR_DEVICE i64 element_of(const ref_key &key, i64 d) { return key.at + wr_page_column(key.tiled, key.pos, d); }

/* Element d of a key or value of n elements; zero outside. */
WR_DEVICE u32 half_of(const void *pool, const ref_key &key, i64 d, i64 n) {
    return key.at >= 0 && d < n ? ((const u16 *)pool)[element_of(key, d)] : 0;
}
WR_DEVICE u32 two_of(const void *pool, const ref_key &key, i64 d, i64 n) {
    return half_of(pool, key, d, n) | half_of(pool, key, d + 1, n) << 16;
}

/* Element d of the row's query. */
WR_DEVICE float query_of(const wr_attn_params *p, const ref_row *r, i64 d) {
    const wr_rope_use rope = {p->rope, p->rope ? p->half : 0, p->interleaved};
    return wr_one_rotated(p->q, wr_attn_dtype(p->q_type), r->t * p->q_row + r->h * p->q_head, 1, d, r->t, rope);
}

/* One warp walks a row. total and part are [E rounded up to 8] each. */
template <int KV, int BK>
WR_DEVICE void walk_row(const wr_attn_params *p, const ref_row *r, float *total, float *part) {
    const int lane = (int)threadIdx.x, g = lane / 4, t = lane % 4;
    const i64 dims = p->head_dim, columns = p->value_dim;
    const float c = p->log2_factor;
    float m = WR_ATTN_NONE, l = 0.0f, span_m = WR_ATTN_NONE, span_l = 0.0f;
    bool far = false; /* the mask has added something */
    for (i64 d = lane; d < columns; d += WARP) total[d] = part[d] = 0.0f;
    __syncwarp();
    for (i64 block = r->from / BK; r->valid && block * BK <= r->to; block++) {
        float s[BK / 8][2], best = WR_ATTN_NONE;
        for (int n = 0; n < BK / 8; n++) {
            float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            const ref_key key = key_of(p, r, block * BK + n * 8 + g, p->k_columns);
            for (i64 k = 0; k < dims; k += 16) {
                u32 a[4] = {0, 0, 0, 0};
                for (int i = 0; i < 2; i++) {
                    i64 d = k + 2 * t + 8 * i;
                    float lo = g == 0 && d < dims ? query_of(p, r, d) : 0.0f,
                          hi = g == 0 && d + 1 < dims ? query_of(p, r, d + 1) : 0.0f;
                    a[2 * i] = wr_attn_pack<KV>(lo, hi);
                }
                wr_attn_mma<KV>(acc, a, two_of(p->k, key, k + 2 * t, dims), two_of(p->k, key, k + 2 * t + 8, dims));
            }
            for (int i = 0; i < 2; i++) {
                bool seen = key_of(p, r, block * BK + n * 8 + 2 * t + i, p->k_columns).at >= 0;
                s[n][i] = seen ? wr_attn_score(acc[i], p->softcap, p->softcap_scale) : WR_ATTN_NONE;
                if (seen && p->mask) {
                    const float added = mask_of(p, r, block * BK + n * 8 + 2 * t + i);
                    s[n][i] = wr_attn_masked(s[n][i], added, p->mask_factor);
                    far = far || added != 0.0f;
                }
                if (g == 0) best = fmaxf(best, s[n][i]);
            }
        }
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 1));
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 2));
        best = fmaxf(__shfl_sync(0xFFFFFFFFu, best, 0), span_m);
        float decay = wr_attn_decay(span_m, best, c), offset = wr_attn_offset(best, c), sums[4];
        span_m = best;
        if (p->mask) far = __any_sync(0xFFFFFFFFu, far);
        const bool by_distance = far && best != WR_ATTN_NONE;
        for (int w = 0; w < 4; w++) {
            sums[w] = 0.0f;
            for (int n = w * (BK / 32); n < (w + 1) * (BK / 32); n++)
                for (int i = 0; i < 2; i++) {
                    const float weight =
                        by_distance ? wr_attn_far_weight(s[n][i], best, c) : wr_attn_weight(s[n][i], offset, c);
                    s[n][i] = g == 0 ? weight : 0.0f;
                    sums[w] += s[n][i];
                }
            sums[w] += __shfl_xor_sync(0xFFFFFFFFu, sums[w], 1);
            sums[w] += __shfl_xor_sync(0xFFFFFFFFu, sums[w], 2);
            sums[w] = __shfl_sync(0xFFFFFFFFu, sums[w], 0);
        }
        span_l = fmaf(span_l, decay, ((sums[0] + sums[1]) + sums[2]) + sums[3]);
        for (i64 column = 0; column < columns; column += 8) {
            float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            for (int i = 0; i < 2; i++)
                if (g == 0 && column + 2 * t + i < columns) acc[i] = part[column + 2 * t + i] * decay;
            for (int k = 0; k < BK / 16; k++) {
                u32 a[4] = {wr_attn_pack<KV>(s[2 * k][0], s[2 * k][1]), 0,
                            wr_attn_pack<KV>(s[2 * k + 1][0], s[2 * k + 1][1]), 0};
                u32 b[2];
                for (int i = 0; i < 2; i++) {
                    i64 key = block * BK + k * 16 + 2 * t + 8 * i;
                    b[i] = half_of(p->v, key_of(p, r, key, p->v_columns), column + g, columns) |
                           half_of(p->v, key_of(p, r, key + 1, p->v_columns), column + g, columns) << 16;
                }
                wr_attn_mma<KV>(acc, a, b[0], b[1]);
            }
            for (int i = 0; i < 2; i++)
                if (g == 0 && column + 2 * t + i < columns) part[column + 2 * t + i] = acc[i];
        }
        if ((block + 1) * BK <= r->to && block + 1 < wr_attn_span_begin(wr_attn_span_of(block) + 1)) continue;
        __syncwarp();
        float a, b;
        wr_attn_merge(&m, span_m, c, &a, &b);
        l = wr_attn_fold(l, a, span_l, b);
        for (i64 d = lane; d < columns; d += WARP) {
            total[d] = wr_attn_fold(total[d], a, part[d], b);
            part[d] = 0.0f;
        }
        span_m = WR_ATTN_NONE;
        span_l = 0.0f;
        __syncwarp();
    }
    float factor = 1.0f;
    if (r->valid && p->sinks) factor = wr_attn_sink(m, &l, p->sinks[r->h], c);
    float inverse = wr_attn_inverse(l);
    for (i64 d = lane; d < columns; d += WARP)
        wr_attn_store(p->out, r->at * columns + d, p->out_type, total[d] * factor * inverse);
    __syncwarp();
}

template <int KV> WR_DEVICE void walk_rows(const wr_attn_params *p, float *memory) {
    float *part = memory + (p->value_dim + 7) / 8 * 8;
    for (i64 unit = blockIdx.x; unit < (i64)p->n_rows * p->n_heads; unit += gridDim.x) {
        ref_row r = open_row(p, unit);
        if (WR_ATTN_BLOCK(p->head_dim) == 64)
            walk_row<KV, 64>(p, &r, memory, part);
        else
            walk_row<KV, 128>(p, &r, memory, part);
    }
}

WR_KERNEL(wr_attn_ref_bf16, wr_attn_params, WARP, 1) {
    WR_DYNAMIC_SHARED(memory);
    wr_grid_launch();
    wr_grid_wait();
    walk_rows<WR_ATTN_BF16>(&p, (float *)memory);
}
WR_KERNEL(wr_attn_ref_f16, wr_attn_params, WARP, 1) {
    WR_DYNAMIC_SHARED(memory);
    wr_grid_launch();
    wr_grid_wait();
    walk_rows<WR_ATTN_F16>(&p, (float *)memory);
}

/* Key j's score, plain. */
WR_DEVICE float plain_score(const wr_attn_params *p, const ref_row *r, i64 j, float dot) {
    const float score = p->softcap > 0.0f ? p->softcap * tanhf(p->scale * dot / p->softcap) : p->scale * dot;
    return p->mask ? score + mask_of(p, r, j) : score;
}
/* What the largest score becomes with those of a block, a lane's being `largest`; false when the block has none. */
WR_DEVICE bool plain_step(float *m, float largest, bool nan, float *decay, float *offset) {
    float best = fmaxf(*m, largest);
    for (int step = 1; step < WARP; step *= 2) best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, step));
    nan = __any_sync(0xFFFFFFFFu, nan);
    if (best == WR_ATTN_NONE && !nan) return false;
    *decay = *m == WR_ATTN_NONE ? 0.0f : expf(*m - best);
    *offset = best == WR_ATTN_NONE ? 0.0f : best;
    *m = best;
    return true;
}
/* The factor of all sums after the row's sink has joined them. */
WR_DEVICE float plain_sink(const wr_attn_params *p, const ref_row *r, float m, float *l) {
    if (!r->valid || !p->sinks || !(p->sinks[r->h] > WR_ATTN_NONE)) return 1.0f;
    const float sink = p->sinks[r->h], best = fmaxf(m, sink), factor = m == WR_ATTN_NONE ? 0.0f : expf(m - best);
    *l = fmaf(*l, factor, expf(sink - best));
    return factor;
}

WR_KERNEL(wr_attn_ref_f32, wr_attn_params, WARP, 1) {
    WR_DYNAMIC_SHARED(memory);
    WR_SHARED_ARRAY(float, weights, PLAIN_BLOCK);
    float *o = (float *)memory; /* [E] */
    const int lane = (int)threadIdx.x;
    wr_grid_launch();
    wr_grid_wait();
    for (i64 unit = blockIdx.x; unit < (i64)p.n_rows * p.n_heads; unit += gridDim.x) {
        ref_row r = open_row(&p, unit);
        float m = WR_ATTN_NONE, l = 0.0f;
        for (i64 d = lane; d < p.value_dim; d += WARP) o[d] = 0.0f;
        for (i64 first = r.from / PLAIN_BLOCK * PLAIN_BLOCK; r.valid && first <= r.to; first += PLAIN_BLOCK) {
            float largest = WR_ATTN_NONE, decay, offset;
            bool nan = false;
            for (int i = lane; i < PLAIN_BLOCK; i += WARP) {
                const ref_key key = key_of(&p, &r, first + i, p.k_columns);
                float dot = 0.0f;
                for (i64 d = 0; d < p.head_dim && key.at >= 0; d++)
                    dot = fmaf(query_of(&p, &r, d), wr_attn_load(p.k, element_of(key, d), p.kv_type), dot);
                weights[i] = key.at >= 0 ? plain_score(&p, &r, first + i, dot) : WR_ATTN_NONE;
                nan = nan || weights[i] != weights[i];
                largest = fmaxf(largest, weights[i]);
            }
            if (!plain_step(&m, largest, nan, &decay, &offset)) continue;
            for (int i = lane; i < PLAIN_BLOCK; i += WARP) weights[i] = expf(weights[i] - offset);
            __syncwarp();
            float sum = 0.0f;
            for (int i = 0; i < PLAIN_BLOCK; i++) sum += weights[i];
            l = fmaf(l, decay, sum);
            for (i64 d = lane; d < p.value_dim; d += WARP) {
                float x = o[d] * decay;
                for (int i = 0; i < PLAIN_BLOCK; i++) {
                    const ref_key key = key_of(&p, &r, first + i, p.v_columns);
                    if (key.at >= 0) x = fmaf(weights[i], wr_attn_load(p.v, element_of(key, d), p.v_type), x);
                }
                o[d] = x;
            }
            __syncwarp();
        }
        const float factor = plain_sink(&p, &r, m, &l);
        for (i64 d = lane; d < p.value_dim; d += WARP)
            wr_attn_store(p.out, r.at * p.value_dim + d, p.out_type, l == 0.0f ? 0.0f : o[d] * factor / l);
        __syncwarp();
    }
}

/* The same sums in the same order by 256 threads: a thread has a key of four blocks at a time, then a column. */
enum { PLAIN_THREADS = 256, PLAIN_BLOCKS = PLAIN_THREADS / PLAIN_BLOCK, AT_ONCE = 8 };

WR_DEVICE float plain_dot(const wr_attn_params *p, const float *q, const ref_key &key) {
    float dot = 0.0f;
    i64 d = 0;
    for (; d + AT_ONCE <= p->head_dim; d += AT_ONCE) {
        float k[AT_ONCE];
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++) k[e] = wr_attn_load(p->k, element_of(key, d + e), p->kv_type);
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++) dot = fmaf(q[d + e], k[e], dot);
    }
    for (; d < p->head_dim; d++) dot = fmaf(q[d], wr_attn_load(p->k, element_of(key, d), p->kv_type), dot);
    return dot;
}
/* Column d of the weighted values of a block, on top of x. */
WR_DEVICE float plain_values(const wr_attn_params *p, const float *weights, const ref_key *keys, i64 d, float x) {
    for (int i = 0; i < PLAIN_BLOCK; i += AT_ONCE) {
        float v[AT_ONCE];
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++)
            v[e] = keys[i + e].at >= 0 ? wr_attn_load(p->v, element_of(keys[i + e], d), p->v_type) : 0.0f;
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++)
            if (keys[i + e].at >= 0) x = fmaf(weights[i + e], v[e], x);
    }
    return x;
}

WR_KERNEL(wr_attn_f32, wr_attn_params, PLAIN_THREADS, 1) {
    WR_DYNAMIC_SHARED(memory);
    WR_SHARED_ARRAY(float, weights, PLAIN_THREADS); /* scores at first */
    WR_SHARED_ARRAY(ref_key, values, PLAIN_THREADS);
    float *q = (float *)memory, *o = q + p.head_dim; /* [D], [E] */
    const int thread = (int)threadIdx.x, lane = thread % WARP;
    wr_grid_launch();
    wr_grid_wait();
    for (i64 unit = blockIdx.x; unit < (i64)p.n_rows * p.n_heads; unit += gridDim.x) {
        ref_row r = open_row(&p, unit);
        float m = WR_ATTN_NONE, l = 0.0f;
        for (i64 d = thread; d < p.head_dim; d += PLAIN_THREADS) q[d] = query_of(&p, &r, d);
        for (i64 d = thread; d < p.value_dim; d += PLAIN_THREADS) o[d] = 0.0f;
        for (i64 first = r.from / PLAIN_BLOCK * PLAIN_BLOCK; r.valid && first <= r.to; first += PLAIN_THREADS) {
            __syncthreads();
            const ref_key key = key_of(&p, &r, first + thread, p.k_columns);
            const float score = key.at >= 0 ? plain_score(&p, &r, first + thread, plain_dot(&p, q, key)) : WR_ATTN_NONE;
            weights[thread] = score;
            values[thread] = key_of(&p, &r, first + thread, p.v_columns);
            __syncthreads();
            float decay[PLAIN_BLOCKS], own = 0.0f;
            bool there[PLAIN_BLOCKS];
#pragma unroll
            for (int b = 0; b < PLAIN_BLOCKS; b++) { /* each warp finds the same */
                const float x = weights[b * PLAIN_BLOCK + lane], y = weights[b * PLAIN_BLOCK + WARP + lane];
                float offset = 0.0f;
                there[b] = plain_step(&m, fmaxf(x, y), x != x || y != y, &decay[b], &offset);
                if (thread / PLAIN_BLOCK == b) own = offset;
            }
            __syncthreads();
            weights[thread] = expf(score - own);
            __syncthreads();
#pragma unroll
            for (int b = 0; b < PLAIN_BLOCKS; b++) {
                if (!there[b]) continue;
                float sum = 0.0f;
                for (int i = 0; i < PLAIN_BLOCK; i++) sum += weights[b * PLAIN_BLOCK + i];
                l = fmaf(l, decay[b], sum);
                for (i64 d = thread; d < p.value_dim; d += PLAIN_THREADS)
                    o[d] = plain_values(&p, weights + b * PLAIN_BLOCK, values + b * PLAIN_BLOCK, d, o[d] * decay[b]);
            }
        }
        const float factor = plain_sink(&p, &r, m, &l);
        for (i64 d = thread; d < p.value_dim; d += PLAIN_THREADS)
            wr_attn_store(p.out, r.at * p.value_dim + d, p.out_type, l == 0.0f ? 0.0f : o[d] * factor / l);
        __syncthreads();
    }
}
