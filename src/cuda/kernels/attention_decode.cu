/* Decode attention over keys in bf16, and the merge kernel; see attention_decode.cuh. */
#include "cuda/kernels/attention_decode.cuh"

WR_ATTN_DECODES(WR_ATTN_BF16, _bf16)

/* Tiles of many query rows whose parts the decode kernel left: spread over the whole device. */
WR_KERNEL(wr_attn_merge_kernel, wr_attn_params, WR_ATTN_MERGE_UNITS, 2) {
    WR_DYNAMIC_SHARED(memory);
    wr_grid_launch();
    wr_grid_wait();
    int per_tile = (WR_ATTN_TILE_ROWS * p.value_dim / 4 + WR_ATTN_MERGE_UNITS - 1) / WR_ATTN_MERGE_UNITS;
    u32 n = p.schedule->n_cuts * (u32)(p.kv_heads * per_tile);
    for (u32 i = blockIdx.x; i < n; i += gridDim.x) {
        const wr_attn_item *item = p.cuts + i / (u32)(p.kv_heads * per_tile);
        int begin = (int)(i % (u32)per_tile) * WR_ATTN_MERGE_UNITS, end = item->n_rows * p.value_dim / 4;
        if (end > begin + WR_ATTN_MERGE_UNITS) end = begin + WR_ATTN_MERGE_UNITS;
        merge_parts<16, 0>(&p, item, (int)(i / (u32)per_tile % (u32)p.kv_heads), begin, end, memory);
    }
}
