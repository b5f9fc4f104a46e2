/* Decode attention over keys in bf16, and the merge kernel; see attention_decode.cuh. */
#include "cuda/kernels/attention_decode.cuh"

WR_ATTN_DECODES(WR_ATTN_BF16, _bf16)

/* Tiles that were cut and are not small. */
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
