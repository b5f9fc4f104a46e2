/* Trial of longer spans; to be removed. */
#ifndef WR_EMULATE
#define WR_ATTN_UNIT            2
#define wr_attn_schedule_kernel wr_attn_schedule_kernel_x
#include "cuda/kernels/attention_decode.cuh"
#include "cuda/kernels/attention_schedule.cu"
WR_ATTN_DECODE(128_1_bf16_x, WR_ATTN_BF16, 128, 128, 1, 3)
WR_ATTN_DECODE(128_2_bf16_x, WR_ATTN_BF16, 128, 128, 2, 2)
WR_ATTN_DECODE(256_1_bf16_x, WR_ATTN_BF16, 256, 256, 1, 2)
#endif
