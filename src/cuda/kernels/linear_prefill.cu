/* Many rows (linear_prefill.cuh): weights that expand in a few instructions, and the preparation of activations for
 * all. Preparing moves m * cols elements once for all weights that read the same activations: 2 * 2 * m * cols bytes.
 */
#include "cuda/kernels/linear_prefill.cuh"

/* 8 values of row as bf16, zeros from column `left` on. */
WR_DEVICE uint4 load8(const void *x, int dtype, i64 at, i64 left, bool vector) {
    uint4 v;
    u32 *out = &v.x;
    if (dtype == WEIR_DTYPE_BF16 && vector && left >= 8) return *(const uint4 *)((const u16 *)x + at);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float a = 2 * i < left ? wr_load_float(x, dtype, at + 2 * i) : 0.f;
        float b = 2 * i + 1 < left ? wr_load_float(x, dtype, at + 2 * i + 1) : 0.f;
        out[i] = wr_pack_bf16(a, b);
    }
    return v;
}

/* One block a token. */
WR_KERNEL(wr_linear_prefill_prepare, wr_prefill_prepare_params, 256, 1) {
    wr_grid_launch();
    wr_grid_wait();
    const i64 token = blockIdx.x;
    i64 row = token < p.m ? token : -1;
    if (p.jobs) {
        const i64 j = token / p.job_tokens;
        const int i = (int)(token - j * p.job_tokens);
        if (j >= p.jobs->n) return;
        const wr_linear_job *list = (const wr_linear_job *)(p.jobs + 1);
        const wr_linear_job job = list[j];
        if (job.expert < 0 || i >= (job.count + 7) / 8 * 8) return;
        row = i < job.count ? ((const i32 *)(list + p.max_jobs))[job.first + i] : -1;
    }
    const i64 pieces = (i64)p.k_tiles * 8;
    const bool vector = (u64)p.x % 16 == 0 && p.cols % 8 == 0;
    u8 *out = (u8 *)p.out + token * 128;
    for (i64 c = threadIdx.x; c < pieces; c += blockDim.x) {
        uint4 v = {0, 0, 0, 0};
        if (row >= 0 && c * 8 < p.cols) v = load8(p.x, p.dtype, row * p.cols + c * 8, p.cols - c * 8, vector);
        *(uint4 *)(out + (c >> 3) * p.m_pad * 128 + (((c ^ token) & 7) << 4)) = v;
    }
}

#if WR_HAS_WGMMA
WR_PREFILL_ALL_WIDTHS(WR_PREFILL_16)
WR_PREFILL_ALL_WIDTHS(WR_PREFILL_32)
WR_PREFILL_ALL_WIDTHS(WR_PREFILL_64)
WR_PREFILL_ALL_WIDTHS(WR_PREFILL_128)
#endif
