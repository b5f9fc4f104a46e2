/* Decode attention over keys in bf16, and the merge kernel; see attention_decode.cuh. */
#include "cuda/kernels/attention_decode.cuh"

WR_ATTN_DECODES(WR_ATTN_BF16, _bf16)

/* Tiles that were cut and are not small; a block, one warp, takes 32 times WR_ATTN_MERGE_COLUMNS columns of a row. */
WR_KERNEL(wr_attn_merge_kernel, wr_attn_params, WR_ATTN_MERGE_THREADS, 8) {
    enum { ROOM = 64, COLUMNS = WR_ATTN_MERGE_COLUMNS };
    WR_SHARED_ARRAY(float4, factors, 32);
    WR_SHARED_ARRAY(float4, parts, ROOM * 32 * COLUMNS / 4);
    WR_SHARED_ARRAY(wr_attn_item, item, 1);
    const u32 per_row = WR_ATTN_MERGE_BLOCKS((u32)p.value_dim), per_cut = (u32)p.merge_rows * per_row;
    const int lane = (int)threadIdx.x % 32;
    wr_grid_launch();
    wr_grid_wait();
    const u32 n_cuts = wr_load4_kept(&p.schedule->n_cuts);
    for (u32 i = blockIdx.x;; i += gridDim.x) {
        /* The first is read beside the count; its place is there. */
        const u32 word = wr_load4_kept((const u32 *)(p.cuts + i / per_cut) + lane);
        if (i / per_cut >= n_cuts) break;
        ((u32 *)item)[lane] = word;
        __syncwarp();
        const int row = (int)(i % per_cut / per_row), column = (int)(i % per_row) * 32 * COLUMNS;
        if (row < item->n_rows) merge_row<COLUMNS>(&p, item, row, column, factors, (float *)parts, ROOM);
        __syncwarp();
        if ((i + gridDim.x) / per_cut >= n_cuts) break;
    }
}
