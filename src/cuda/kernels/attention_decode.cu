/* Decode attention over keys in bf16, and the merge kernel; see attention_decode.cuh. */
#include "cuda/kernels/attention_decode.cuh"

WR_ATTN_DECODES(WR_ATTN_BF16, _bf16)

/* Tiles that were cut and are not small; a block, one warp, takes WR_ATTN_MERGE_COLUMNS of a row of a tile. */
WR_KERNEL(wr_attn_merge_kernel, wr_attn_params, WR_ATTN_MERGE_THREADS, 8) {
    WR_SHARED_ARRAY(uint4, factors, 32);
    const u32 per_row = WR_ATTN_MERGE_WARPS((u32)p.value_dim), per_cut = (u32)p.merge_rows * per_row;
    const int lane = (int)threadIdx.x % 32;
    wr_grid_launch();
    wr_grid_wait();
    const u32 n_cuts = p.schedule->n_cuts;
    for (u32 i = blockIdx.x;; i += gridDim.x) {
        /* The first is read beside the count; its place is there. */
        const wr_attn_item *item = p.cuts + i / per_cut;
        const int n_rows = item->n_rows, row = (int)(i % per_cut / per_row);
        if (i / per_cut >= n_cuts) break;
        if (row < n_rows) merge_row(&p, item, row, (int)(i % per_row) * WR_ATTN_MERGE_COLUMNS + lane * 4, factors);
        if ((i + gridDim.x) / per_cut >= n_cuts) break;
    }
}
