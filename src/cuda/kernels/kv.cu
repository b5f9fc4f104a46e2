/* KV_WRITE and KV_APPEND: rows of keys and values into their pages.
 *
 * Rows whose sequence, page or position does not exist are skipped; two rows of one place are the caller's fault. Keys
 * are rotated first where there is a table: the bits of ROPE followed by KV_WRITE.
 *
 * Bytes: x once, and as many pages; KV_APPEND of both keys and values. Operations: 3 for each number of a key that is
 * rotated, else none but the casts.
 *
 * Measured: docs/kernels.md; and on 30 November 2026, H200: 1.7 to 2.2 us of a step of an 8B model at batch 1, where
 * two ropes and two writes took 4.7; the place behind the rotation costs 0.13 more.
 *
 * Tried and dropped: bringing rotation, position and block table into L2 before wr_grid_wait() (no difference);
 * computing the place from a position read before it, to be confirmed after it (0.1 us slower). */
#include "cuda/kernels/eights.cuh"
#include "cuda/kernels/kv.h"
#include "cuda/kernels/pages.cuh"

/* Where token t goes; false: nowhere. */
WR_DEVICE bool place_of(const wr_kv_write_params &p, i32 seq, i32 at, i64 *page, i64 *pos) {
    const u32 page_size = (u32)p.page_size, number = (u32)at / page_size;
    if (seq < 0 || seq >= p.n_seqs || at < 0 || number >= p.max_pages) return false;
    *page = p.block_table[seq * p.max_pages + number];
    *pos = (u32)at - number * page_size;
    return *page >= 0 && *page < p.n_pages;
}

/* Eight `unit` of a token's part, eights counted through its heads. */
WR_DEVICE void write_eight(const wr_kv_write_params &p, const wr_kv_part &part, const wr_rope_use &rope, i64 t,
                           u32 unit) {
    const i32 seq = p.row_seq[t], at = p.row_pos[t];
    const u32 each = (u32)part.width / 8, head = unit / each;
    const int d = (int)(unit - head * each) * 8;
    float v[8];
    i64 page, pos;
    /* First the place: the block table is on its way while x and the rotation are waited for. */
    const bool there = place_of(p, seq, at, &page, &pos);
    wr_eight_rotated(v, part.x, part.x_dtype, t * part.x_strides[0] + head * part.x_strides[1], d, t, rope);
    if (!there) return;
    const i64 to =
        wr_page_row(p.tiled, page, pos, head, p.page_size, p.heads, part.columns) + wr_page_column(p.tiled, pos, d);
    if (wr_eight_whole(part.pages, part.page_dtype, to))
        wr_eight_store(part.pages, part.page_dtype, to, v);
    else
        wr_some_store(part.pages, part.page_dtype, to, v, 8);
}

/* A thread an eight of one token, blocks_each blocks a token; widths are multiples of 8, columns of x lie together. */
WR_KERNEL(wr_kv_write_eights, wr_kv_write_params, 128, 4) {
    wr_grid_launch();
    const wr_rope_use rope = {p.rope, p.rope ? p.half : 0, p.interleaved}, none = {nullptr, 0, 0};
    const u32 first = (u32)(p.heads * p.part[0].width / 8),
              units = first + (p.n_parts > 1 ? (u32)(p.heads * p.part[1].width / 8) : 0);
    wr_grid_wait();
    for (u32 block = blockIdx.x; block / (u32)p.blocks_each < p.tokens; block += gridDim.x) {
        const u32 t = block / (u32)p.blocks_each, unit = block % (u32)p.blocks_each * blockDim.x + threadIdx.x;
        if (unit < first)
            write_eight(p, p.part[0], rope, t, unit);
        else if (unit < units)
            write_eight(p, p.part[1], none, t, unit - first);
    }
}

/* A thread an element. */
WR_KERNEL(wr_kv_write_ref, wr_kv_write_params, 128, 1) {
    wr_grid_launch();
    wr_grid_wait();
    for (int i = 0; i < p.n_parts; i++) {
        const wr_kv_part &part = p.part[i];
        const bool rotated = i == 0 && p.rope;
        const i64 total = p.tokens * p.heads * part.width;
        for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (i64)gridDim.x * blockDim.x) {
            const i64 d = at % part.width, head = at / part.width % p.heads, t = at / part.width / p.heads;
            const i64 from = t * part.x_strides[0] + head * part.x_strides[1];
            i64 page, pos;
            if (!place_of(p, p.row_seq[t], p.row_pos[t], &page, &pos)) continue;
            const wr_rope_use rope = {p.rope, rotated ? p.half : 0, p.interleaved};
            const float v = wr_one_rotated(part.x, part.x_dtype, from, part.x_strides[2], d, t, rope);
            const i64 to = wr_page_row(p.tiled, page, pos, head, p.page_size, p.heads, part.columns) +
                           wr_page_column(p.tiled, pos, d);
            wr_store_float(part.pages, part.page_dtype, to, v);
        }
    }
}
