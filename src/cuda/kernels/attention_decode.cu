/* Decode attention over keys in bf16, and the merge kernel; see attention_decode.cuh. */
#include "cuda/kernels/attention_decode.cuh"

WR_ATTN_DECODES(WR_ATTN_BF16, _bf16)

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
                __syncthreads(); /* nobody reads the last factors any more */
                for (int row = warp; row < n_rows; row += THREADS / 32)
                    find_factors(parts + (row0 + row) * part_size + width, stride, n_spans, chunk, c, tops + row,
                                 factors + row * 32);
                __syncthreads();
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

/* Tiles that were cut. */
WR_KERNEL(wr_attn_merge_kernel, wr_attn_params, WR_ATTN_MERGE_UNITS, 2) {
    WR_DYNAMIC_SHARED(memory);
    const u32 per_tile = (u32)p.merge_tile, per_cut = (u32)p.kv_heads * per_tile;
    wr_grid_launch();
    wr_grid_wait();
    const u32 n_cuts = p.schedule->n_cuts;
    for (u32 i = blockIdx.x;; i += gridDim.x) {
        /* The first is read beside the count. */
        const wr_attn_item item = p.cuts[i / per_cut];
        if (i / per_cut >= n_cuts) break;
        int begin = (int)(i % per_tile) * WR_ATTN_MERGE_UNITS, end = item.n_rows * p.value_dim / 4;
        if (end > begin + WR_ATTN_MERGE_UNITS) end = begin + WR_ATTN_MERGE_UNITS;
        merge_parts(&p, &item, (int)(i / per_tile % (u32)p.kv_heads), begin, end, memory);
        if ((i + gridDim.x) / per_cut >= n_cuts) break;
    }
}
