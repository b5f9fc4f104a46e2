/* ATTENTION over whole tensors: q [B, H, L, D], k [B, G, S, D], v [B, G, S, E], any strides.
 *
 * Contract: keys are cut into blocks of 64 at fixed positions. A row visits blocks in rising order with an online
 * softmax in f32; inside a block, scores are one chain over D and P x V is one chain over the keys. A row's bits depend
 * on its own query, keys and mask only, not on L, B or its neighbours. Keys that a row does not see take no part, even
 * when they hold NaN: a row of a fast kernel that comes out as NaN is done again by the reference's body, which never
 * reads what the row does not see.
 *
 * Reference: a block per query row (and per 512 output columns), plain f32. Fast: bf16 and f16 on mma.sync, a tile of
 * 64 query rows of one head, a warp per 16 rows; K and V of one block in shared memory, V on its way during the scores
 * and the next K during P x V. Where E is 512 two warps share 16 rows, each with half of the columns; both make the
 * scores, which costs half as many operations again but no exchange.
 *
 * Bytes: 2 B H L (D + E) + 2 B G S (D + E) at least; K and V are read once per 64 rows and head, from L2 mostly.
 * Operations: 2 B H L S (D + E), half of it when causal.
 *
 * Measured: docs/kernels.md. */
#include "cuda/kernels/attention_dense.h"
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/dtypes.cuh"

#define LOG2E 1.44269504088896341f
#define NEVER (-INFINITY)

/* The keys that row l sees by causality and window: [*first, *last). */
WR_DEVICE void visible_keys(const wr_attention_dense_params *p, i64 l, i64 *first, i64 *last) {
    i64 position = l + p->n_keys - p->n_rows;
    *first = 0;
    *last = p->n_keys;
    if ((p->causal || p->window) && position + 1 < *last) *last = position + 1;
    if (p->window && position - p->window + 1 > 0) *first = position - p->window + 1;
}

/* What the mask adds to the score at this offset; -inf where it hides the key. */
WR_DEVICE float mask_at(const wr_attention_dense_params *p, i64 at) {
    if (p->mask_dtype == WEIR_DTYPE_BOOL) return ((const u8 *)p->mask)[at] ? 0.0f : NEVER;
    return wr_load_float(p->mask, p->mask_dtype, at);
}

/* ---- reference ---- */

/* Scores of the keys first .. first + n - 1 of one block, a warp per key; -inf where not visible. */
template <int THREADS>
WR_DEVICE void row_scores(const wr_attention_dense_params *p, i64 q_at, i64 k_at, i64 m_at, i64 first, int n,
                          float *scores) {
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < n; i += THREADS / 32) {
        i64 key = first + i;
        float added = p->mask ? mask_at(p, m_at + key * p->mask_strides[3]) : 0.0f;
        float dot = 0.0f;
        if (added != NEVER) {
            for (i64 d = lane; d < p->head_dim; d += 32)
                dot = fmaf(wr_load_float(p->q, p->dtype, q_at + d * p->q_strides[3]),
                           wr_load_float(p->k, p->dtype, k_at + key * p->k_strides[2] + d * p->k_strides[3]), dot);
        }
        for (int m = 16; m > 0; m /= 2) dot += __shfl_xor_sync(0xFFFFFFFFu, dot, m);
        float score = p->scale * dot;
        if (p->softcap > 0) score = p->softcap * tanhf(score / p->softcap);
        if (lane == 0) scores[i] = added == NEVER ? NEVER : score + added;
    }
}

/* Query row l of head h: output columns column .. column + THREADS * COLUMNS - 1. All threads of the block call it.
 * scores: shared, one block of keys. */
template <int THREADS>
WR_DEVICE void attend_row(const wr_attention_dense_params *p, i64 b, i64 h, i64 l, i64 column, float *scores) {
    enum { COLUMNS = WR_ATTENTION_DENSE_COLUMNS, KEYS = WR_ATTENTION_DENSE_KEYS };
    i64 g = h / (p->n_heads / p->n_groups), first, last;
    i64 q_at = b * p->q_strides[0] + h * p->q_strides[1] + l * p->q_strides[2];
    i64 k_at = b * p->k_strides[0] + g * p->k_strides[1], v_at = b * p->v_strides[0] + g * p->v_strides[1];
    i64 m_at = b * p->mask_strides[0] + h * p->mask_strides[1] + l * p->mask_strides[2];
    float best = NEVER, total = 0.0f, o[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) o[c] = 0.0f;
    visible_keys(p, l, &first, &last);
    for (i64 block = first / KEYS; block * KEYS < last; block++) {
        i64 from = block * KEYS > first ? block * KEYS : first;
        i64 until = (block + 1) * KEYS < last ? (block + 1) * KEYS : last;
        int n = (int)(until - from);
        __syncthreads();
        row_scores<THREADS>(p, q_at, k_at, m_at, from, n, scores);
        __syncthreads();
        float higher = best;
        for (int i = 0; i < n; i++)
            if (scores[i] > higher || scores[i] != scores[i]) higher = scores[i];
        if (higher == NEVER) continue;
        float factor = expf(best - higher), sum = 0.0f;
        best = higher;
        for (int c = 0; c < COLUMNS; c++) o[c] *= factor;
        for (int i = 0; i < n; i++) {
            if (scores[i] == NEVER) continue;
            float share = expf(scores[i] - best);
            sum += share;
            for (int c = 0; c < COLUMNS; c++) {
                i64 e = column + threadIdx.x + c * THREADS;
                if (e < p->n_values)
                    o[c] = fmaf(
                        share, wr_load_float(p->v, p->dtype, v_at + (from + i) * p->v_strides[2] + e * p->v_strides[3]),
                        o[c]);
            }
        }
        total = fmaf(total, factor, sum);
    }
    if (p->sinks) {
        float sink = ((const float *)p->sinks)[h * p->sink_stride];
        if (sink > NEVER) {
            float higher = best > sink ? best : sink, factor = expf(best - higher);
            total = fmaf(total, factor, expf(sink - higher));
            for (int c = 0; c < COLUMNS; c++) o[c] *= factor;
        }
    }
    i64 out_at = b * p->out_strides[0] + h * p->out_strides[1] + l * p->out_strides[2];
    for (int c = 0; c < COLUMNS; c++) {
        i64 e = column + threadIdx.x + c * THREADS;
        if (e < p->n_values)
            wr_store_float(p->out, p->dtype, out_at + e * p->out_strides[3], total == 0.0f ? 0.0f : o[c] / total);
    }
}

WR_KERNEL(wr_attention_dense_ref, wr_attention_dense_params, WR_ATTENTION_DENSE_REF_THREADS, 4) {
    WR_SHARED_ARRAY(float, scores, WR_ATTENTION_DENSE_KEYS);
    enum { WIDE = WR_ATTENTION_DENSE_REF_THREADS * WR_ATTENTION_DENSE_COLUMNS };
    wr_grid_wait();
    wr_grid_launch();
    i64 chunks = (p.n_values + WIDE - 1) / WIDE, units = p.batch * p.n_heads * p.n_rows * chunks;
    for (i64 unit = blockIdx.x; unit < units; unit += gridDim.x) {
        i64 row = unit / chunks;
        attend_row<WR_ATTENTION_DENSE_REF_THREADS>(&p, row / p.n_rows / p.n_heads, row / p.n_rows % p.n_heads,
                                                   row % p.n_rows, unit % chunks * WIDE, scores);
    }
}

/* ---- fast ---- */

/* Rows of a matrix of 16-bit numbers into shared memory: 64 rows of WIDTH, zeros where i >= n. `at` is the offset of
 * row 0; vector copies when every row starts at 16 bytes, else one number at a time. */
template <int WIDTH, int THREADS>
WR_DEVICE void load_rows(u8 *to, const void *data, i64 at, i64 row_stride, i64 stride, int n, bool vectors) {
    enum { PIECES = WIDTH / 8, PITCH = WIDTH * 2 + WR_ATTENTION_DENSE_PAD };
    const u16 *from = (const u16 *)data;
    for (int i = threadIdx.x; i < 64 * PIECES; i += THREADS) {
        int row = i / PIECES, piece = i % PIECES;
        u8 *place = to + row * PITCH + piece * 16;
        if (vectors) {
            wr_cp16_or_zero(wr_smem(place), row < n ? from + at + row * row_stride + piece * 8 : from + at, row < n);
        } else {
            u32 words[4];
            for (int j = 0; j < 4; j++) {
                u32 lo = 0, hi = 0;
                if (row < n) {
                    i64 o = at + row * row_stride + (piece * 8 + 2 * j) * stride;
                    lo = from[o];
                    hi = from[o + stride];
                }
                words[j] = lo | hi << 16;
            }
            for (int j = 0; j < 4; j++) ((u32 *)place)[j] = words[j];
        }
    }
}

/* Every row of the tensor starts at 16 bytes and is dense. */
WR_DEVICE bool takes_vectors(const void *data, const int64_t *strides) {
    return strides[3] == 1 &&
           ((u64)data % 16 | (u64)(strides[0] % 8) | (u64)(strides[1] % 8) | (u64)(strides[2] % 8)) == 0;
}

/* Scores of a warp's 16 rows with 64 keys, as mma accumulators: s[n] holds keys 8n + 2t, 8n + 2t + 1 of rows g, g + 8,
 * with g = lane / 4, t = lane % 4. */
template <int D, int F16> WR_DEVICE void tile_scores(float (*s)[4], u32 q_rows, u32 keys) {
    enum { PITCH = D * 2 + WR_ATTENTION_DENSE_PAD };
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll 4
    for (int k = 0; k < D / 16; k++) {
        u32 a[4];
        wr_ldmatrix4(a, q_rows + lane % 16 * PITCH + k * 32 + lane / 16 * 16);
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            u32 b[4];
            wr_ldmatrix4(b, keys + (n * 8 + lane % 8 + lane / 16 * 8) * PITCH + k * 32 + lane / 8 % 2 * 16);
            if (F16) {
                wr_mma_f16(s[n], a, b[0], b[1]);
                wr_mma_f16(s[n + 1], a, b[2], b[3]);
            } else {
                wr_mma_bf16(s[n], a, b[0], b[1]);
                wr_mma_bf16(s[n + 1], a, b[2], b[3]);
            }
        }
    }
}

/* o += P V over one block of 64 keys, EW columns from `values` on. */
template <int E, int EW, int F16> WR_DEVICE void tile_values(float (*o)[4], float (*s)[4], u32 values) {
    enum { PITCH = E * 2 + WR_ATTENTION_DENSE_PAD };
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        u32 a[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *pair = &s[2 * k + i / 2][i % 2 * 2];
            a[i] = F16 ? wr_pack_f16(pair[0], pair[1]) : wr_pack_bf16(pair[0], pair[1]);
        }
#pragma unroll
        for (int n = 0; n < EW / 8; n += 2) {
            u32 b[4];
            wr_ldmatrix4_trans(b, values + (k * 16 + lane % 16) * PITCH + n * 16 + lane / 16 * 16);
            if (F16) {
                wr_mma_f16(o[n], a, b[0], b[1]);
                wr_mma_f16(o[n + 1], a, b[2], b[3]);
            } else {
                wr_mma_bf16(o[n], a, b[0], b[1]);
                wr_mma_bf16(o[n + 1], a, b[2], b[3]);
            }
        }
    }
}

/* What a thread knows of one of its two rows. */
typedef struct dense_row {
    i64 l, first, last; /* keys [first, last) are visible, before the mask */
    i64 mask_at;
    float best, total; /* best in units of log2 */
} dense_row;

/* Raw scores to units of log2, with scale, cap, mask and visibility. whole: no key of the block is hidden from any row
 * of the tile. */
WR_DEVICE void finish_scores(const wr_attention_dense_params *p, float (*s)[4], const dense_row *rows, i64 key0,
                             bool whole) {
    int t = threadIdx.x % 4;
    if (p->softcap > 0) {
        /* tanh x = 1 - 2 / (1 + e^2x): wrong by 1e-7 of the cap at most, which is all that a score can notice. */
        float twice = 2.0f * LOG2E * p->scale / p->softcap;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            float *x = &s[i / 4][i % 4];
            *x = p->softcap * (1.0f - 2.0f / (1.0f + wr_ex2(twice * *x)));
        }
    }
    float unit = p->softcap > 0 ? LOG2E : p->scale * LOG2E;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        float *x = &s[i / 4][i % 4];
        *x *= unit;
        if (whole) continue;
        const dense_row *row = &rows[i % 4 / 2];
        i64 key = key0 + i / 4 * 8 + 2 * t + i % 2;
        if (key < row->first || key >= row->last) {
            *x = NEVER;
        } else if (p->mask) {
            float added = mask_at(p, row->mask_at + key * p->mask_strides[3]);
            *x = added == NEVER ? NEVER : fmaf(added, LOG2E, *x);
        }
    }
}

/* Online softmax of one block: s becomes P; returns what o is to be multiplied by. h: which of the two rows. */
WR_DEVICE float soften(float (*s)[4], dense_row *row, int h) {
    float higher = NEVER, sum = 0.0f;
#pragma unroll
    for (int n = 0; n < 8; n++) higher = fmaxf(higher, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
    higher = fmaxf(higher, __shfl_xor_sync(0xFFFFFFFFu, higher, 1));
    higher = fmaxf(row->best, fmaxf(higher, __shfl_xor_sync(0xFFFFFFFFu, higher, 2)));
    float base = higher == NEVER ? 0.0f : higher, factor = wr_ex2(row->best - base);
#pragma unroll
    for (int n = 0; n < 8; n++) {
        s[n][2 * h] = wr_ex2(s[n][2 * h] - base);
        s[n][2 * h + 1] = wr_ex2(s[n][2 * h + 1] - base);
        sum += s[n][2 * h];
        sum += s[n][2 * h + 1];
    }
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    row->best = higher;
    row->total = fmaf(row->total, factor, sum);
    return factor;
}

/* The sink, the division, the store. Returns whether a NaN was stored. */
template <int EW, int F16>
WR_DEVICE bool store_row(const wr_attention_dense_params *p, float (*o)[4], dense_row *row, int h, i64 head,
                         i64 out_at) {
    int t = threadIdx.x % 4;
    float factor = 1.0f;
    if (p->sinks) {
        float sink = ((const float *)p->sinks)[head * p->sink_stride] * LOG2E;
        if (sink > NEVER) {
            float higher = fmaxf(row->best, sink);
            factor = wr_ex2(row->best - higher);
            row->total = fmaf(row->total, factor, wr_ex2(sink - higher));
        }
    }
    if (row->l >= p->n_rows) return false;
    bool pairs = p->out_strides[3] == 1 && ((u64)p->out % 4 | (u64)(out_at % 2)) == 0, bad = false;
    u16 *out = (u16 *)p->out;
#pragma unroll
    for (int n = 0; n < EW / 8; n++) {
        float lo = row->total == 0.0f ? 0.0f : o[n][2 * h] * factor / row->total;
        float hi = row->total == 0.0f ? 0.0f : o[n][2 * h + 1] * factor / row->total;
        u32 both = F16 ? wr_pack_f16(lo, hi) : wr_pack_bf16(lo, hi);
        bad = bad || lo != lo || hi != hi;
        i64 at = out_at + (n * 8 + 2 * t) * p->out_strides[3];
        if (pairs) {
            *(u32 *)(out + at) = both;
        } else {
            out[at] = (u16)both;
            out[at + p->out_strides[3]] = (u16)(both >> 16);
        }
    }
    return bad;
}

template <int D, int E, int F16> WR_DEVICE void dense_tile(const wr_attention_dense_params *p, u8 *shared) {
    enum {
        HALVES = E > 256 ? 2 : 1,
        EW = E / HALVES,
        THREADS = 128 * HALVES,
        KEYS = WR_ATTENTION_DENSE_KEYS,
        ROWS = WR_ATTENTION_DENSE_ROWS,
        K_PITCH = D * 2 + WR_ATTENTION_DENSE_PAD,
        V_PITCH = E * 2 + WR_ATTENTION_DENSE_PAD
    };
    u8 *q_rows = shared, *k_rows = q_rows + ROWS * K_PITCH, *v_rows = k_rows + KEYS * K_PITCH;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, half = threadIdx.x / 128;
    i64 n_tiles = (p->n_rows + ROWS - 1) / ROWS, unit = blockIdx.x;
    i64 l0 = (n_tiles - 1 - unit % n_tiles) * ROWS, h = unit / n_tiles % p->n_heads, b = unit / n_tiles / p->n_heads;
    i64 g = h / (p->n_heads / p->n_groups), first, last, unused;
    int n_rows = p->n_rows - l0 < ROWS ? (int)(p->n_rows - l0) : ROWS;
    visible_keys(p, l0, &first, &unused);
    visible_keys(p, l0 + n_rows - 1, &unused, &last);
    dense_row rows[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        rows[i].l = l0 + warp * 16 + lane / 4 + 8 * i;
        rows[i].best = NEVER;
        rows[i].total = 0.0f;
        /* Rows past the end compute on zeros and the last row's mask, and are not stored. */
        i64 l = rows[i].l < p->n_rows ? rows[i].l : p->n_rows - 1;
        visible_keys(p, l, &rows[i].first, &rows[i].last);
        rows[i].mask_at = b * p->mask_strides[0] + h * p->mask_strides[1] + l * p->mask_strides[2];
    }
    bool k_vectors = takes_vectors(p->k, p->k_strides), v_vectors = takes_vectors(p->v, p->v_strides);
    i64 k_at = b * p->k_strides[0] + g * p->k_strides[1], v_at = b * p->v_strides[0] + g * p->v_strides[1];
    i64 block = first / KEYS, end = last > first ? (last + KEYS - 1) / KEYS : block;
#define LOAD(to, what, width, blk)                                                                                     \
    if ((blk) < end)                                                                                                   \
        load_rows<width, THREADS>(to, p->what, what##_at + (blk)*KEYS * p->what##_strides[2], p->what##_strides[2],    \
                                  p->what##_strides[3], last - (blk)*KEYS < KEYS ? (int)(last - (blk)*KEYS) : KEYS,    \
                                  what##_vectors);                                                                     \
    wr_cp_commit()
    load_rows<D, THREADS>(q_rows, p->q, b * p->q_strides[0] + h * p->q_strides[1] + l0 * p->q_strides[2],
                          p->q_strides[2], p->q_strides[3], n_rows, takes_vectors(p->q, p->q_strides));
    LOAD(k_rows, k, D, block);
    LOAD(v_rows, v, E, block);
    float o[EW / 8][4];
#pragma unroll
    for (int n = 0; n < EW / 8; n++) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0.0f;
    for (; block < end; block++) {
        float s[8][4];
        wr_cp_wait<1>();
        __syncthreads();
        tile_scores<D, F16>(s, wr_smem(q_rows + warp * 16 * K_PITCH), wr_smem(k_rows));
        __syncthreads();
        LOAD(k_rows, k, D, block + 1);
        bool whole = !p->mask && block * KEYS + KEYS <= p->n_keys;
        if (p->causal || p->window) whole = whole && block * KEYS + KEYS <= l0 + p->n_keys - p->n_rows + 1;
        if (p->window) whole = whole && block * KEYS > last - 1 - p->window;
        finish_scores(p, s, rows, block * KEYS, whole);
        float factor0 = soften(s, &rows[0], 0), factor1 = soften(s, &rows[1], 1);
#pragma unroll
        for (int n = 0; n < EW / 8; n++) {
            o[n][0] *= factor0;
            o[n][1] *= factor0;
            o[n][2] *= factor1;
            o[n][3] *= factor1;
        }
        wr_cp_wait<1>();
        __syncthreads();
        tile_values<E, EW, F16>(o, s, wr_smem(v_rows + half * EW * 2));
        __syncthreads();
        LOAD(v_rows, v, E, block + 1);
    }
#undef LOAD
    wr_cp_wait<0>();
    __syncthreads();
    /* Shared memory is free now: flags of rows that hold a NaN, then the reference's scores. */
    u32 *flags = (u32 *)shared;
    float *scores = (float *)(shared + ROWS * 4);
    for (int i = threadIdx.x; i < ROWS; i += THREADS) flags[i] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        i64 out_at = b * p->out_strides[0] + h * p->out_strides[1] + rows[i].l * p->out_strides[2];
        if (store_row<EW, F16>(p, o, &rows[i], i, h, out_at + half * EW * p->out_strides[3]))
            flags[warp * 16 + lane / 4 + 8 * i] = 1;
    }
    __syncthreads();
    for (int i = 0; i < n_rows; i++)
        if (flags[i])
            for (int column = 0; column < E; column += THREADS * WR_ATTENTION_DENSE_COLUMNS)
                attend_row<THREADS>(p, b, h, l0 + i, column, scores);
}

#define DENSE(d, e)                                                                                                    \
    WR_KERNEL(wr_attention_dense_bf16_##d, wr_attention_dense_params, e > 256 ? 256 : 128, 1) {                        \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        wr_grid_wait();                                                                                                \
        wr_grid_launch();                                                                                              \
        dense_tile<d, e, 0>(&p, shared);                                                                               \
    }                                                                                                                  \
    WR_KERNEL(wr_attention_dense_f16_##d, wr_attention_dense_params, e > 256 ? 256 : 128, 1) {                         \
        WR_DYNAMIC_SHARED(shared);                                                                                     \
        wr_grid_wait();                                                                                                \
        wr_grid_launch();                                                                                              \
        dense_tile<d, e, 1>(&p, shared);                                                                               \
    }

DENSE(64, 64)
DENSE(80, 80)
DENSE(96, 96)
DENSE(128, 128)
DENSE(192, 128)
DENSE(256, 256)
DENSE(512, 512)
