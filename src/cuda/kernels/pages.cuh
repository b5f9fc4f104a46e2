/* Where keys and values lie in their pages (wr_kv_row and wr_kv_column of array/kv.h, for devices), and copies of tiled
 * pages into shared memory. */
#ifndef WR_CUDA_PAGES_CUH
#define WR_CUDA_PAGES_CUH

#include "array/kv.h"
#include "cuda/kernels/device.cuh"

enum {
    WR_PANEL_ROW = 128,                        /* bytes of a row of 64 columns of two bytes */
    WR_PANEL_BYTES = WR_KV_TILE * WR_PANEL_ROW /* a page's part of a panel */
};

WR_DEVICE i64 wr_page_row(bool tiled, i64 page, i64 pos, i64 head, i64 page_size, i64 heads, i64 columns) {
    return tiled ? (page * heads + head) * columns * WR_KV_TILE + pos * 64
                 : ((page * page_size + pos) * heads + head) * columns;
}
WR_DEVICE i64 wr_page_column(bool tiled, i64 pos, i64 d) {
    return tiled ? d / 64 * (WR_KV_TILE * 64) + (((d / 8 % 8) ^ (pos % 8)) * 8) + d % 8 : d;
}

/* What wr_copy_block tells of a block besides its bytes: a bit for each page that is not there, and the range of rows
 * that are. */
WR_DEVICE u32 wr_block_gone(u32 word) { return word & 3; }
WR_DEVICE int wr_block_begin(u32 word) { return (int)(word >> 8 & 0xFF); }
WR_DEVICE int wr_block_end(u32 word) { return (int)(word >> 16); }

/* Zeros into rows [from, to) of every panel of a slot, by all lanes. */
template <int BK, int PANELS> WR_DEVICE void wr_clear_rows(u8 *slot, int from, int to) {
    const uint4 zeros = {0, 0, 0, 0};
    for (int e = from * 8 + (int)threadIdx.x % 32; e < to * 8; e += 32)
#pragma unroll
        for (int panel = 0; panel < PANELS; panel++) *(uint4 *)(slot + panel * (BK * WR_PANEL_ROW) + e * 16) = zeros;
}

/* One block of BK positions of a head, in two-byte elements, by all lanes of a warp into a slot: PANELS panels one
 * behind the other, each [BK][WR_PANEL_ROW]. page[i]: of positions 64 i on; below 0: there is none. Only positions
 * [low, high) of the block are copied; those before and behind them become zeros down and up to multiples of CLEAR (0:
 * none do). ONCE: nobody reads the block again soon. Ends on bar, which counts the warp's 32 arrivals, and bytes where
 * copies are in bulk; *word then tells what is there. */
template <int BK, int PANELS, int CLEAR, bool ONCE>
WR_DEVICE void wr_copy_block(const void *pool, const i32 *page, int head, int heads, int low, int high, u8 *slot,
                             volatile u32 *word, u32 bar) {
    constexpr int PAGES = BK / WR_KV_TILE;
    const int lane = threadIdx.x % 32;
    int begin[PAGES], end[PAGES], rows = 0, from = BK, to = 0;
    u32 gone = 0;
#pragma unroll
    for (int i = 0; i < PAGES; i++) {
        begin[i] = max(low - i * WR_KV_TILE, 0);
        end[i] = page[i] < 0 ? 0 : min(high - i * WR_KV_TILE, (int)WR_KV_TILE);
        if (end[i] <= begin[i]) end[i] = begin[i] = 0;
        if (page[i] < 0) gone |= 1u << i;
        if (end[i] > 0) from = min(from, i * WR_KV_TILE + begin[i]), to = i * WR_KV_TILE + end[i];
        rows += end[i] - begin[i];
    }
    if (from > to) from = to = 0;
    if constexpr (CLEAR > 0)
        if (rows < BK) { /* rows between from and to are all there */
            wr_clear_rows<BK, PANELS>(slot, from / CLEAR * CLEAR, from);
            wr_clear_rows<BK, PANELS>(slot, to, (to + CLEAR - 1) / CLEAR * CLEAR);
            if (CLEAR == BK && to == 0) wr_clear_rows<BK, PANELS>(slot, 0, BK);
            wr_fence_async();
        }
    if (lane == 0) *word = gone | (u32)from << 8 | (u32)to << 16;
#if WR_HAS_BULK
    if (lane == 0)
        wr_bar_expect(bar, (u32)(rows * WR_PANEL_ROW * PANELS));
    else
        wr_bar_arrive(bar);
    if (lane < PAGES * PANELS) {
        const bool second = lane >= PANELS;
        const int panel = second ? lane - PANELS : lane, first = second ? begin[PAGES - 1] : begin[0];
        const int n = (second ? end[PAGES - 1] : end[0]) - first;
        const i64 at = ((i64)(second ? page[PAGES - 1] : page[0]) * heads + head) * PANELS + panel;
        u8 *to = slot + panel * (BK * WR_PANEL_ROW) + ((second ? WR_KV_TILE : 0) + first) * WR_PANEL_ROW;
        const u8 *from = (const u8 *)pool + at * WR_PANEL_BYTES + first * WR_PANEL_ROW;
        if (n && ONCE) wr_bulk_copy_once(wr_smem(to), from, n * WR_PANEL_ROW, bar);
        if (n && !ONCE) wr_bulk_copy(wr_smem(to), from, n * WR_PANEL_ROW, bar);
    }
    __syncwarp();
#else
#pragma unroll
    for (int i = 0; i < PAGES; i++) {
        const u8 *from = (const u8 *)pool + ((i64)page[i] * heads + head) * (PANELS * WR_PANEL_BYTES);
#pragma unroll
        for (int panel = 0; panel < PANELS; panel++)
            for (int e = begin[i] * 8 + lane; e < end[i] * 8; e += 32)
                wr_cp16(wr_smem(slot + panel * (BK * WR_PANEL_ROW) + i * WR_PANEL_BYTES + e * 16),
                        from + panel * WR_PANEL_BYTES + e * 16);
    }
    wr_bar_arrive_copied(bar);
#endif
}

#endif
